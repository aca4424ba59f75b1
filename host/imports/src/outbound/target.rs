//! The origin of a request, in the canonical form that the host checks and connects to.

use std::net::IpAddr;

use http::Uri;
use http::uri::{Authority, PathAndQuery, Scheme};
use url::Host;

/// The origin of a request, which the host compares with `allowed_outbound_hosts`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub tls: bool,
    /// Canonical: every spelling of an IP address becomes that address, a name is lower-case ASCII.
    pub host: Host,
    pub port: u16,
}

/// In Spin, the host of the application itself.
const SELF: &str = "self.alt";

/// The same host as `allowed_outbound_hosts` names it.
const GRANTED_SELF: &str = "self";

/// In Spin, the suffix of hosts that are components of the application.
pub const SPIN_INTERNAL: &str = ".spin.internal";

/// The part of the application that a target addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Local<'a> {
    /// The path decides which component serves the request.
    Application,
    /// A component, by its id.
    Component(&'a str),
}

impl Target {
    /// `None` for a target outside of this process.
    pub fn local(&self) -> Option<Local<'_>> {
        match &self.host {
            Host::Domain(name) if name == SELF || name == GRANTED_SELF => Some(Local::Application),
            Host::Domain(name) => name.strip_suffix(SPIN_INTERNAL).map(Local::Component),
            _ => None,
        }
    }

    /// `None` unless the URI is `http` or `https` and has a host.
    pub fn of(uri: &Uri) -> Option<Self> {
        let tls = match uri.scheme()?.as_str() {
            "http" => false,
            "https" => true,
            _ => return None,
        };
        let authority = uri.authority()?;
        // User information could be mistaken for the host: `http://allowed.example@other.example/`.
        if authority.as_str().contains('@') {
            return None;
        }
        let host = Host::parse(authority.host()).ok()?;
        // `Authority::port` returns `None` for a port that is too large.
        let port = match authority.as_str().strip_prefix(authority.host())? {
            "" | ":" => default_port(tls),
            port => port.strip_prefix(':')?.parse().ok()?,
        };
        Some(Self { tls, host, port })
    }

    pub fn scheme(&self) -> &'static str {
        match self.tls {
            true => "https",
            false => "http",
        }
    }

    /// The host, if it is an IP address.
    pub fn ip(&self) -> Option<IpAddr> {
        match self.host {
            Host::Domain(_) => None,
            Host::Ipv4(address) => Some(address.into()),
            Host::Ipv6(address) => Some(address.into()),
        }
    }

    pub fn is_localhost(&self) -> bool {
        matches!(&self.host, Host::Domain(name) if name == "localhost")
    }

    /// The absolute URI of a path at this target.
    pub fn uri(&self, path: Option<&PathAndQuery>) -> Option<Uri> {
        let authority = match self.port == default_port(self.tls) {
            true => self.host.to_string(),
            false => format!("{}:{}", self.host, self.port),
        };
        let mut parts = http::uri::Parts::default();
        parts.scheme = Some(if self.tls { Scheme::HTTPS } else { Scheme::HTTP });
        parts.authority = Some(authority.parse::<Authority>().ok()?);
        parts.path_and_query = Some(path.cloned().unwrap_or(PathAndQuery::from_static("/")));
        Uri::from_parts(parts).ok()
    }
}

fn default_port(tls: bool) -> u16 {
    match tls {
        true => 443,
        false => 80,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(uri: &str, expected: Option<&str>) {
        let target = uri.parse::<Uri>().ok().and_then(|uri| Target::of(&uri));
        assert_eq!(target.map(|t| format!("{}://{}:{}", t.scheme(), t.host, t.port)).as_deref(), expected, "{uri}");
    }

    #[test]
    fn every_spelling_of_a_host_has_one_canonical_form() {
        check("http://Example.COM/x", Some("http://example.com:80"));
        check("https://example.com", Some("https://example.com:443"));
        check("https://example.com:8443/", Some("https://example.com:8443"));
        for spelling in [
            "169.254.169.254",
            "2852039166",
            "0xa9fea9fe",
            "0xA9.0xFE.0xA9.0xFE",
            "0251.0376.0251.0376",
            "169.254.43518",
            "169.16689662",
            "0251.254.0xa9.254",
        ] {
            check(&format!("http://{spelling}/"), Some("http://169.254.169.254:80"));
        }
        check("http://127.1:90/", Some("http://127.0.0.1:90"));
        check("http://0/", Some("http://0.0.0.0:80"));
        check("http://[0:0:0:0:0:ffff:7f00:1]/", Some("http://[::ffff:7f00:1]:80"));
    }

    #[test]
    fn other_uris_have_no_target() {
        for uri in [
            "/path",
            "ftp://example.com/",
            "http://a@example.com/",
            "http://a:b@example.com/",
            "http://[fe80::1%25lo]/",
            "http://1.2.3.4.5/",
            "http://256.1.1.1/",
            "http://example.com:99999/",
            "http://exa%00mple.com/",
        ] {
            check(uri, None);
        }
    }

    #[test]
    fn the_application_is_told_from_other_hosts() {
        let local = |uri: &str| Target::of(&uri.parse().unwrap()).unwrap().local().map(|local| format!("{local:?}"));
        assert_eq!(local("http://SELF.alt/x").as_deref(), Some("Application"));
        assert_eq!(local("http://b.spin.internal/x").as_deref(), Some("Component(\"b\")"));
        assert_eq!(local("http://Self/x").as_deref(), Some("Application"));
        for other in ["http://a.self/", "http://a.self.alt/", "http://spin.internal/", "http://127.0.0.1/"] {
            assert_eq!(local(other), None, "{other}");
        }
    }

    #[test]
    fn the_uri_of_a_target_is_canonical() {
        let uri = |text: &str| {
            let uri: Uri = text.parse().unwrap();
            Target::of(&uri).and_then(|target| target.uri(uri.path_and_query())).unwrap().to_string()
        };
        assert_eq!(uri("HTTP://Example.com:80/a?b"), "http://example.com/a?b");
        assert_eq!(uri("https://0x7f.1:80"), "https://127.0.0.1:80/");
        assert_eq!(uri("https://[::1]:8443/"), "https://[::1]:8443/");
    }
}
