//! The absolute URI of a request.

use http::header::HOST;
use http::uri::{Authority, Scheme};
use http::{HeaderMap, Uri, Version};

use crate::ingress::RequestOrigin;

/// The request's URI with the scheme and the authority that the client addressed: guests do not see the
/// `Host` header. The request's origin takes precedence over the client's own headers. An error is a
/// sentence for the client.
pub fn absolute_uri(
    uri: &Uri,
    headers: &HeaderMap,
    version: Version,
    origin: Option<&RequestOrigin>,
) -> Result<Uri, &'static str> {
    let mut parts = uri.clone().into_parts();
    let mut hosts = headers.get_all(HOST).iter();
    let authority = match (hosts.next(), hosts.next()) {
        (_, Some(_)) => return Err("the request has more than one Host header"),
        (Some(host), None) => Some(
            host.to_str()
                .ok()
                .and_then(|host| host.parse::<Authority>().ok())
                .filter(|authority| !authority.as_str().contains('@'))
                .ok_or("the Host header is not a host and port")?,
        ),
        (None, None) => None,
    };
    let forwarded = origin.and_then(|origin| origin.authority.clone());
    parts.authority = match (forwarded.or(parts.authority), authority) {
        // The request target wins over the header (RFC 9112, section 3.2.2).
        (Some(target), _) => Some(target),
        (None, Some(host)) => Some(host),
        (None, None) if version == Version::HTTP_11 => return Err("the request has no Host header"),
        (None, None) => Some(Authority::from_static("localhost")),
    };
    let scheme = origin.map(|origin| origin.scheme.clone());
    parts.scheme = Some(scheme.or(parts.scheme).unwrap_or(Scheme::HTTP));
    Uri::from_parts(parts).map_err(|_| "the request target is not a path")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(target: &str, hosts: &[&str], expected: Result<&str, &str>) {
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(HOST, host.parse().unwrap());
        }
        let found = absolute_uri(&target.parse().unwrap(), &headers, Version::HTTP_11, None);
        assert_eq!(found.map(|uri| uri.to_string()), expected.map(str::to_owned));
    }

    #[test]
    fn the_authority_is_the_clients() {
        check("/a//b?q", &["app.test:8080"], Ok("http://app.test:8080/a//b?q"));
        check("http://other.test/a", &["app.test"], Ok("http://other.test/a"));
        check("/a", &[], Err("the request has no Host header"));
        check("/a", &["a", "b"], Err("the request has more than one Host header"));
        check("/a", &["a/b"], Err("the Host header is not a host and port"));
        check("/a", &["user@host"], Err("the Host header is not a host and port"));
    }
}
