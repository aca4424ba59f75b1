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
                .filter(is_host_and_port)
                .ok_or("the Host header is not a host and port")?,
        ),
        (None, None) => None,
    };
    if parts.authority.as_ref().is_some_and(|target| !is_host_and_port(target)) {
        return Err("the request target does not name a host and port");
    }
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

/// Whether it is what a client may address: without a user's name, with the number of a port if any, and with an address
/// between brackets.
pub fn is_host_and_port(authority: &Authority) -> bool {
    let (text, host) = (authority.as_str(), authority.host());
    // A number of Rust may begin with a plus sign, and a port may not.
    let is_number = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok();
    let is_port = |rest: &str| rest.strip_prefix(':').is_some_and(|port| port.is_empty() || is_number(port));
    let is_host = host
        .strip_prefix('[')
        .is_none_or(|host| host.strip_suffix(']').is_some_and(|address| address.parse::<std::net::Ipv6Addr>().is_ok()));
    is_host && text.strip_prefix(host).is_some_and(|rest| rest.is_empty() || is_port(rest))
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
        for host in ["user@host", "a:x", "a:99999", "a:+80", "[zz]:80", "[::1]x"] {
            check("/a", &[host], Err("the Host header is not a host and port"));
        }
        for host in ["a:", "a:0", "[::1]", "[::1]:8080"] {
            check("/a", &[host], Ok(&format!("http://{host}/a")));
        }
        check("http://user:word@other.test/a", &["app.test"], Err("the request target does not name a host and port"));
    }
}
