//! Base URLs of other services in variables, settings and projects: analytics engines, another registry.

use fluent_uri::Uri;

/// The base URL, if requests can be sent below it. It needs `http` or `https` in any letter case, a host, a valid port,
/// and no user name, which would not be sent. White space around it is ignored.
pub fn parse(base_url: &str) -> Option<Uri<&str>> {
    let url = Uri::parse(base_url.trim()).ok()?;
    let known = ["http", "https"].iter().any(|scheme| url.scheme().as_str().eq_ignore_ascii_case(scheme));
    let authority = url.authority()?;
    let port = authority.port_to_u16().is_ok_and(|port| port != Some(0));
    // `is_target` is needed: a URI may have a percent-encoded host, but the target of a request may not.
    (known && !authority.has_userinfo() && !authority.host().is_empty() && port && is_target(&url)).then_some(url)
}

fn is_target(url: &Uri<&str>) -> bool {
    url.strip_fragment().as_str().parse::<http::Uri>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn requests_can_be_sent_below_a_base_url() {
        for url in [
            "http://engine.example",
            "HTTPS://Engine.example:8443/x?y#z",
            " http://[::1]:4000/ ",
            "http://10.0.0.1:/",
            "https://engine.example./a%20b/",
        ] {
            assert!(parse(url).is_some(), "{url}");
        }
    }

    #[test]
    fn others_are_none() {
        for url in [
            "",
            "h",
            "/x",
            "ftp://h/",
            "http:h",
            "http://",
            "https://",
            "http:///x",
            "http://a b/",
            "http://u:p@h/",
            "http://@h/",
            "file:///x",
            "http://h:65536/",
            "http://h:0/",
            "http://h:x/",
            "http://[::1/",
            "http://h/%zz",
            "http://h/ä",
            "http://a%20b/",
            "http://h/\n/x",
        ] {
            assert!(parse(url).is_none(), "{url}");
        }
    }
}
