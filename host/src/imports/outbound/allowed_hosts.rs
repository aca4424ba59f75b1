//! `allowed_outbound_hosts`: which origins a component may send requests to, by Spin's rules.
//!
//! An entry is `scheme://host[:port]`. The scheme is a word or `*`; the host is a name, an
//! address, `*.name` (any name below it), a network such as `10.0.0.0/8`, or `*`; the port is a
//! number, a range `8000..9000` without its end, or `*`, and may be left out for schemes with
//! a default port. `http://self` is the application itself, which guests address as `self.alt`, and
//! `http://<component>.spin.internal` one of its components. Only entries that name them cover them: `*`
//! does not, as it does not cover addresses that are not public.

use std::ops::Range;

use ipnet::IpNet;
use url::Host;

use super::address;
use super::target::{Local, SPIN_INTERNAL, Target};

/// The origins that a component may reach.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllowedHosts(Vec<AllowedHost>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct AllowedHost {
    scheme: AllowedScheme,
    host: HostPattern,
    ports: Ports,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum AllowedScheme {
    Any,
    Only(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum HostPattern {
    Any,
    /// The application itself.
    Application,
    /// A component of the application, by its id.
    Component(String),
    AnyComponent,
    Exact(Host),
    /// The suffix of the names, with its dot.
    Subdomain(String),
    Network(IpNet),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Ports {
    Any,
    One(u16),
    Range(Range<u16>),
}

/// Which addresses an entry allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// Public addresses only.
    Public,
    /// Also addresses that are not public: the entry names an address, a network without public
    /// addresses, or `localhost`.
    Named,
}

impl AllowedHosts {
    /// Adds an entry. A `templated` entry refers to variables and may be empty, for a host that is
    /// not configured. The error names the entry and says what to write.
    pub fn add(&mut self, entry: &str, templated: bool) -> Result<(), String> {
        if templated && matches!(entry, "" | "http://" | "https://") {
            return Ok(());
        }
        let allowed = AllowedHost::parse(entry).map_err(|reason| {
            format!("\"{entry}\" {reason}; write scheme://host:port, such as \"https://api.example.com\"")
        })?;
        self.0.push(allowed);
        Ok(())
    }

    /// Whether every entry is the application itself or a component of it.
    pub fn are_local(&self) -> bool {
        use HostPattern::{AnyComponent, Application, Component};
        self.0.iter().all(|allowed| matches!(allowed.host, Application | Component(_) | AnyComponent))
    }

    /// The components that entries name, by their ids.
    pub fn components(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|allowed| match &allowed.host {
            HostPattern::Component(id) => Some(&**id),
            _ => None,
        })
    }

    /// Which addresses a target may have; `None` if no entry covers it.
    pub fn reach(&self, target: &Target) -> Option<Reach> {
        self.0.iter().filter(|allowed| allowed.covers(target)).map(|allowed| allowed.host.reach()).max()
    }
}

impl AllowedHost {
    fn parse(entry: &str) -> Result<Self, String> {
        let (scheme, rest) = entry.trim().split_once("://").ok_or("has no scheme")?;
        let (host, port) = match rest.rsplit_once(':') {
            None => (rest, ""),
            Some((host, "")) => (host, ""),
            // The last colon may be one of an IPv6 address.
            Some(_) if HostPattern::parse(rest).is_ok() => (rest, ""),
            Some((host, tail)) => match tail.split_once('/') {
                Some((_, path)) if !path.is_empty() => return Err("has a path".to_owned()),
                Some((port, _)) => (host, port),
                None => (host, tail),
            },
        };
        Ok(Self {
            scheme: AllowedScheme::parse(scheme)?,
            host: HostPattern::parse(host)?,
            ports: Ports::parse(port, scheme)?,
        })
    }

    fn covers(&self, target: &Target) -> bool {
        self.scheme.covers(target.scheme()) && self.host.covers(target) && self.ports.cover(target.port)
    }
}

impl AllowedScheme {
    fn parse(scheme: &str) -> Result<Self, String> {
        match scheme {
            "*" => Ok(Self::Any),
            _ if scheme.chars().all(char::is_alphabetic) && !scheme.is_empty() => Ok(Self::Only(scheme.to_owned())),
            _ => Err(format!("has \"{scheme}\" for a scheme, which is a word or `*`")),
        }
    }

    fn covers(&self, scheme: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Only(only) => only == scheme,
        }
    }
}

impl HostPattern {
    fn parse(host: &str) -> Result<Self, String> {
        let host = host.trim();
        match host {
            "*" => return Ok(Self::Any),
            "self" | "self.alt" => return Ok(Self::Application),
            _ => {}
        }
        if let Ok(network) = host.parse::<IpNet>() {
            return Ok(Self::Network(network));
        }
        let host = host.strip_suffix('/').unwrap_or(host);
        if host.contains('/') {
            return Err("has a path".to_owned());
        }
        let parsed = |host: &str| Host::parse(host).map_err(|error| format!("has the host \"{host}\" ({error})"));
        let pattern = match host.strip_prefix("*.") {
            Some(rest) if rest.contains('*') => return Err("has a `*` that is not at the start of its host".to_owned()),
            Some(rest) => match parsed(rest)? {
                Host::Domain(name) => Self::Subdomain(format!(".{name}")),
                _ => return Err("has `*.` before an address".to_owned()),
            },
            None if host.contains('*') => return Err("has a `*` that is not a whole part of its host".to_owned()),
            None => Self::Exact(parsed(host)?),
        };
        Ok(match &pattern {
            Self::Subdomain(name) if name == SPIN_INTERNAL => Self::AnyComponent,
            Self::Exact(Host::Domain(name)) => match name.strip_suffix(SPIN_INTERNAL) {
                Some(component) => Self::Component(component.to_owned()),
                None => pattern,
            },
            _ => pattern,
        })
    }

    fn covers(&self, target: &Target) -> bool {
        match (target.local(), self) {
            (Some(Local::Application), pattern) => *pattern == Self::Application,
            (Some(Local::Component(_)), Self::AnyComponent) => true,
            (Some(Local::Component(id)), Self::Component(allowed)) => id == allowed,
            (Some(Local::Component(_)), _) => false,
            (None, pattern) => pattern.covers_host(&target.host),
        }
    }

    /// Whether the pattern covers a host outside of this process.
    fn covers_host(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::Application | Self::Component(_) | Self::AnyComponent, _) => false,
            (Self::Any, _) => true,
            (Self::Exact(exactly), host) => exactly == host,
            (Self::Subdomain(suffix), Host::Domain(name)) => name.ends_with(suffix),
            (Self::Network(network), Host::Ipv4(address)) => network.contains(&std::net::IpAddr::V4(*address)),
            (Self::Network(network), Host::Ipv6(address)) => network.contains(&std::net::IpAddr::V6(*address)),
            (Self::Subdomain(_) | Self::Network(_), _) => false,
        }
    }

    fn reach(&self) -> Reach {
        match self {
            Self::Exact(Host::Domain(name)) if name == "localhost" => Reach::Named,
            Self::Exact(Host::Ipv4(_) | Host::Ipv6(_)) => Reach::Named,
            Self::Network(network) if address::has_no_public_address(network) => Reach::Named,
            _ => Reach::Public,
        }
    }
}

impl Ports {
    fn parse(port: &str, scheme: &str) -> Result<Self, String> {
        let number = |text: &str| text.parse().map_err(|_| format!("has \"{port}\" for a port"));
        match port {
            "*" => Ok(Self::Any),
            "" => match scheme {
                "http" => Ok(Self::One(80)),
                "https" => Ok(Self::One(443)),
                "postgres" => Ok(Self::One(5432)),
                "mysql" => Ok(Self::One(3306)),
                "redis" => Ok(Self::One(6379)),
                "mqtt" => Ok(Self::One(1883)),
                _ => Err(format!("has no port, and the scheme \"{scheme}\" has none of its own")),
            },
            _ => match port.split_once("..") {
                Some((start, end)) => match number(start)?..number(end)? {
                    range if range.is_empty() => {
                        Err(format!("has the empty port range \"{port}\", whose end is no part of it"))
                    }
                    range => Ok(Self::Range(range)),
                },
                None => Ok(Self::One(number(port)?)),
            },
        }
    }

    fn cover(&self, port: u16) -> bool {
        match self {
            Self::Any => true,
            Self::One(one) => *one == port,
            Self::Range(range) => range.contains(&port),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hosts(entries: &[&str]) -> AllowedHosts {
        let mut hosts = AllowedHosts::default();
        for entry in entries {
            hosts.add(entry, false).unwrap();
        }
        hosts
    }

    #[track_caller]
    fn check(entry: &str, allowed: &[&str], denied: &[&str]) {
        let hosts = hosts(&[entry]);
        let reach = |uri: &str| hosts.reach(&Target::of(&uri.parse().unwrap()).unwrap());
        for uri in allowed {
            assert!(reach(uri).is_some(), "{entry} does not cover {uri}");
        }
        for uri in denied {
            assert!(reach(uri).is_none(), "{entry} covers {uri}");
        }
    }

    #[test]
    fn entries_cover_the_same_origins_as_in_spin() {
        check(
            "https://example.com",
            &["https://example.com/a", "https://EXAMPLE.com:443/"],
            &["http://example.com/", "https://example.com:8443/", "https://a.example.com/", "https://example.com./"],
        );
        check("https://example.com/", &["https://example.com/a"], &["http://example.com/"]);
        check("*://example.com:*", &["http://example.com:1/", "https://example.com/"], &["https://example.org/"]);
        check("https://*:443", &["https://a.example/", "https://1.2.3.4/"], &["http://a.example/", "https://a.b:444/"]);
        check(
            "http://*.example.com:8383",
            &["http://a.example.com:8383/", "http://a.b.Example.com:8383/"],
            &[
                "http://example.com:8383/",
                "http://myexample.com:8383/",
                "http://a.example.com/",
                "http://1.2.3.4:8383/",
            ],
        );
        check(
            "http://example.com:8000..9000",
            &["http://example.com:8000/", "http://example.com:8999/"],
            &["http://example.com:9000/", "http://example.com:7999/"],
        );
        check("http://127.0.0.1:4000", &["http://127.1:4000/", "http://2130706433:4000/"], &["http://localhost:4000/"]);
        check("http://[::1]", &["http://[::1]/", "http://[0:0::1]:80/"], &["http://[::1]:81/", "http://[::2]/"]);
        check("http://[::1]:8000..9000", &["http://[::1]:8080/"], &["http://[::1]/"]);
        check("*://127.0.0.1/24:63551", &["http://127.0.0.9:63551/"], &["http://127.0.1.1:63551/"]);
        check("http://10.0.0.0/8", &["http://10.9.8.7/"], &["http://11.0.0.1/", "http://ten.example/"]);
        check("http://2001:db8::/32", &["http://[2001:db8::1]/"], &["http://[2001:db9::1]/"]);
        check("http://2001:db8::/32:81", &["http://[2001:db8::1]:81/"], &["http://[2001:db8::1]/"]);
        check("redis://example.com", &[], &["http://example.com/", "http://example.com:6379/"]);
    }

    #[test]
    fn only_an_entry_that_names_an_address_reaches_one_that_is_not_public() {
        let reach = |entries: &[&str], uri: &str| hosts(entries).reach(&Target::of(&uri.parse().unwrap()).unwrap());
        for (entry, uri, expected) in [
            ("*://*:*", "http://127.0.0.1/", Reach::Public),
            ("http://0.0.0.0/0", "http://127.0.0.1/", Reach::Public),
            ("http://*.test", "http://a.test/", Reach::Public),
            ("http://a.test", "http://a.test/", Reach::Public),
            ("http://localhost:*", "http://localhost/", Reach::Named),
            ("http://127.0.0.1", "http://127.0.0.1/", Reach::Named),
            ("http://10.0.0.0/8", "http://10.0.0.1/", Reach::Named),
            ("http://[::1]", "http://[::1]/", Reach::Named),
        ] {
            assert_eq!(reach(&[entry], uri), Some(expected), "{entry} {uri}");
        }
        assert_eq!(reach(&["*://*:*", "http://127.0.0.1"], "http://127.0.0.1/"), Some(Reach::Named));
        assert_eq!(reach(&["*://*:*", "http://127.0.0.1"], "http://127.0.0.2/"), Some(Reach::Public));
    }

    #[test]
    fn the_application_and_its_components_are_covered_by_name_only() {
        check(
            "http://self",
            &["http://self.alt/a", "http://SELF.alt:80/"],
            &[
                "https://self.alt/",
                "http://self.alt:81/",
                "http://self/",
                "http://b.spin.internal/",
                "http://a.example/",
            ],
        );
        check("*://self.alt:*", &["http://self.alt:8080/"], &["http://a.alt/"]);
        check(
            "http://b.spin.internal",
            &["http://b.spin.internal/x"],
            &["http://c.spin.internal/", "http://self.alt/", "http://a.b.spin.internal/"],
        );
        check("http://*.spin.internal", &["http://b.spin.internal/", "http://c.spin.internal/"], &["http://self.alt/"]);
        for wide in ["*://*:*", "http://*.internal", "http://*.alt"] {
            check(wide, &[], &["http://self.alt/", "http://b.spin.internal/"]);
        }
        let entries = hosts(&["http://b.spin.internal", "http://self", "https://c.example"]);
        assert_eq!(entries.components().collect::<Vec<_>>(), ["b"]);
    }

    #[test]
    fn errors_name_the_bad_entry() {
        for entry in [
            "",
            "*",
            ":",
            "example.com",
            "example.com:8080",
            "://example.com",
            "h2://example.com",
            "{http,https}://a.b",
            "http://",
            "http://example.com:notaport",
            "http://example.com:99999",
            "http://example.com:8080..70000",
            "http://example.com:8080..",
            "http://example.com:8080..8080",
            "http://*:9000..8000",
            "http://self:notaport",
            "http://*.example.com:8O8O",
            "http://example.com/p",
            "http://example.com:8080/p",
            "http://*.example.com/p",
            "http://127.0.0.0/24/p",
            "http://[::1]/p",
            "http://[::1",
            "http://[::1]junk",
            "http://[::1]::80",
            "http://*.",
            "http://*.*.com",
            "http://a.*.com",
            "http://a*.com",
            "http://*.127.0.0.1",
            "http://*.[::1]",
            "http://exa[mple.com",
            "http://example%GG.com",
            "http://example.com:80:90",
            "http://example.com//",
            "tcp://example.com",
            "http://a b.com",
        ] {
            let error = AllowedHosts::default().add(entry, false).unwrap_err();
            assert!(error.contains(&format!("\"{entry}\"")), "{entry}: {error}");
        }
    }

    #[test]
    fn a_templated_entry_may_be_empty() {
        let mut hosts = AllowedHosts::default();
        for entry in ["", "http://", "https://"] {
            hosts.add(entry, true).unwrap();
            hosts.add(entry, false).unwrap_err();
        }
        assert_eq!(hosts, AllowedHosts::default());
    }
}
