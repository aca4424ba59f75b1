//! Parts of URLs.

/// The host of an `http` or `https` URL, without the port.
pub fn host(url: &str) -> &str {
    let authority = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = authority.split('/').next().unwrap_or_default();
    match authority.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        _ => authority,
    }
}

#[cfg(test)]
mod tests {
    use super::host;

    #[test]
    fn the_host_is_without_scheme_port_and_path() {
        for (url, expected) in [
            ("https://forge.test:8443/x", "forge.test"),
            ("http://forge.test", "forge.test"),
            ("http://[::1]:80/", "[::1]"),
            ("http://[::1]/", "[::1]"),
            ("forge.test", "forge.test"),
        ] {
            assert_eq!(host(url), expected, "{url}");
        }
    }
}
