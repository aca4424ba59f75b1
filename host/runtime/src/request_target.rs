//! The absolute URI of a request.

use hexad_http::origin::RequestOrigin;
use http::header::HOST;
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{HeaderMap, Method, Uri, Version};

use crate::ingress::is_host_and_port;

/// The request's URI with the scheme and the authority that the client addressed, because guests do not see the `Host`
/// header. The request's origin takes precedence over the client's own headers. An error is a sentence for the client.
pub fn absolute_uri(
    method: &Method,
    uri: &Uri,
    headers: &HeaderMap,
    version: Version,
    origin: Option<&RequestOrigin>,
) -> Result<Uri, &'static str> {
    if *method == Method::CONNECT {
        return Err("the server opens no tunnels");
    }
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
    if parts.scheme.as_ref().is_some_and(|scheme| *scheme != Scheme::HTTP && *scheme != Scheme::HTTPS) {
        return Err("the scheme of the request target is neither http nor https");
    }
    if version == Version::HTTP_2
        && let (Some(target), Some(host)) = (&parts.authority, &authority)
        && !is_same(target, host, parts.scheme.as_ref())
    {
        return Err("the Host header and :authority differ");
    }
    parts.path_and_query = parts.path_and_query.map(|path| checked_path(path, method, version)).transpose()?;
    let forwarded = origin.and_then(|origin| origin.authority.clone());
    parts.authority = match (forwarded.or(parts.authority), authority) {
        // The request target wins over the header (RFC 9112, section 3.2.2).
        (Some(target), _) => Some(target),
        (None, Some(host)) => Some(host),
        (None, None) if version == Version::HTTP_11 => return Err("the request has no Host header"),
        (None, None) if version == Version::HTTP_2 => {
            return Err("the request has neither :authority nor a Host header");
        }
        (None, None) => Some(Authority::from_static("localhost")),
    };
    let scheme = origin.map(|origin| origin.scheme.clone());
    parts.scheme = Some(scheme.or(parts.scheme).unwrap_or(Scheme::HTTP));
    Uri::from_parts(parts).map_err(|_| "the request target is not a path")
}

/// Checks that the path begins with a slash (RFC 9112, section 3.2; RFC 9113, section 8.3.1). Only HTTP/1 allows an
/// absolute URI without a path, and only `OPTIONS` may be for the server as a whole.
fn checked_path(path: PathAndQuery, method: &Method, version: Version) -> Result<PathAndQuery, &'static str> {
    let refusal = "the request target is not a path";
    match path.as_str().as_bytes() {
        [b'/', ..] => Ok(path),
        b"*" if *method == Method::OPTIONS => Ok(path),
        [b'?', ..] if version != Version::HTTP_2 => format!("/{}", path.as_str()).parse().map_err(|_| refusal),
        _ => Err(refusal),
    }
}

/// Whether both name one server. A missing port is the scheme's default.
fn is_same(one: &Authority, other: &Authority, scheme: Option<&Scheme>) -> bool {
    let default = if scheme == Some(&Scheme::HTTPS) { 443 } else { 80 };
    let port = |authority: &Authority| authority.port_u16().unwrap_or(default);
    one.host().eq_ignore_ascii_case(other.host()) && port(one) == port(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(target: &str, hosts: &[&str], expected: Result<&str, &str>) {
        check_method(Method::GET, target, hosts, expected);
    }

    #[track_caller]
    fn check_method(method: Method, target: &str, hosts: &[&str], expected: Result<&str, &str>) {
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(HOST, host.parse().unwrap());
        }
        let found = absolute_uri(&method, &target.parse().unwrap(), &headers, Version::HTTP_11, None);
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
        for target in ["ftp://other.test/a", "gopher://other.test"] {
            check(target, &["app.test"], Err("the scheme of the request target is neither http nor https"));
        }
        check("http://other.test?q", &["app.test"], Ok("http://other.test/?q"));
        check("*", &["app.test"], Err("the request target is not a path"));
        check("http://user:word@other.test/a", &["app.test"], Err("the request target does not name a host and port"));
    }

    /// The target of a tunnel is a host and port (RFC 9110, section 9.3.6). With a path, it would pass for any other
    /// request.
    #[test]
    fn a_tunnel_to_any_target_is_refused() {
        for target in ["app.test:443", "/a", "http://app.test/a"] {
            check_method(Method::CONNECT, target, &["app.test"], Err("the server opens no tunnels"));
        }
        check_http2("CONNECT", (Some("a"), "/b"), None, Err("the server opens no tunnels"));
    }

    /// The pseudo-headers and the `Host` of a request over HTTP/2.
    #[track_caller]
    fn check_http2(
        method: &str,
        (authority, path): (Option<&str>, &str),
        host: Option<&str>,
        expected: Result<&str, &str>,
    ) {
        let mut parts = http::uri::Parts::default();
        parts.scheme = authority.map(|_| Scheme::HTTPS);
        parts.authority = authority.map(|authority| authority.parse().unwrap());
        parts.path_and_query = Some(path.parse().unwrap());
        let headers = host.map(|host| (HOST, host.parse().unwrap())).into_iter().collect();
        let (method, uri) = (method.parse().unwrap(), Uri::from_parts(parts).unwrap());
        let found = absolute_uri(&method, &uri, &headers, Version::HTTP_2, None);
        assert_eq!(found.map(|uri| uri.to_string()), expected.map(str::to_owned));
    }

    #[test]
    fn a_request_over_http2_names_one_server_and_a_path() {
        check_http2("GET", (Some("a"), "/b?c"), None, Ok("https://a/b?c"));
        check_http2("GET", (None, "/b"), Some("a"), Ok("http://a/b"));
        check_http2("GET", (Some("a"), "/b"), Some("A:443"), Ok("https://a/b"));
        check_http2("GET", (Some("a"), "/b"), Some("a:80"), Err("the Host header and :authority differ"));
        check_http2("GET", (Some("a"), "/b"), Some("c"), Err("the Host header and :authority differ"));
        check_http2("GET", (None, "/b"), None, Err("the request has neither :authority nor a Host header"));
        check_http2("GET", (Some("a"), "?b"), None, Err("the request target is not a path"));
        check_http2("GET", (Some("a"), "*"), None, Err("the request target is not a path"));
    }
}
