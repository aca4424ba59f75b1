//! Headers of outbound requests and their responses.

use http::header::{CONNECTION, TE, TRANSFER_ENCODING, UPGRADE};
use http::{HeaderMap, HeaderName};

/// Removes the headers that concern one connection only (RFC 9110, section 7.6.1).
pub fn remove_hop_by_hop(headers: &mut HeaderMap) {
    const BY_NAME: [&str; 4] = ["keep-alive", "proxy-connection", "proxy-authenticate", "proxy-authorization"];
    let listed: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    for name in listed.into_iter().chain([CONNECTION, TE, TRANSFER_ENCODING, UPGRADE]) {
        headers.remove(name);
    }
    for name in BY_NAME {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hop_by_hop_headers_are_removed() {
        let mut headers = HeaderMap::new();
        for (name, value) in [
            ("connection", "close, x-mine"),
            ("connection", "X-Other , bad name,"),
            ("keep-alive", "timeout=5"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("te", "trailers"),
            ("proxy-connection", "close"),
            ("x-mine", "1"),
            ("x-other", "2"),
            ("content-type", "text/plain"),
            ("trailer", "x-sum"),
        ] {
            headers.append(name, value.parse().unwrap());
        }
        remove_hop_by_hop(&mut headers);
        let remaining: Vec<_> = headers.keys().map(HeaderName::as_str).collect();
        assert_eq!(remaining, ["content-type", "trailer"]);
    }
}
