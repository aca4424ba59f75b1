//! `allowed_outbound_hosts`: which origins a component may send requests to, by Spin's rules.
//!
//! An entry is `scheme://host[:port]`:
//!
//! - The scheme is a word or `*`.
//! - The host is a name, an address, `*.name` (any name below it), a network such as `10.0.0.0/8`, or `*`.
//! - The port is a number, a range `8000..9000` without its end, or `*`. Schemes with a default port may omit it.
//!
//! `http://self` is the application itself, which guests address as `self.alt`. `http://<component>.spin.internal` is
//! one of its components. Only an entry that names the application or the component covers it: `*` covers public
//! addresses only.

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
    /// Also addresses that are not public: the entry names an address, a network without public addresses, or
    /// `localhost`.
    Named,
}

impl AllowedHosts {
    /// Adds an entry. If it comes from a `template` with variables, it may be empty, for a host that is not configured.
    /// The error names the entry and the remedy, but no value of a variable, which can be secret.
    pub fn add(&mut self, entry: &str, template: Option<&str>) -> Result<(), String> {
        if template.is_some() && matches!(entry, "" | "http://" | "https://") {
            return Ok(());
        }
        let allowed = AllowedHost::parse(entry).map_err(|reason| {
            let (shown, reason) = match template {
                Some(template) => (template, "stands for no address (the value is not shown, it can be secret)"),
                None if entry.contains('@') => ("…", "has a user's name or password, which an address has not"),
                None => (entry, &*reason),
            };
            format!("\"{shown}\" {reason}; write scheme://host:port, such as \"https://api.example.com\"")
        })?;
        self.0.push(allowed);
        Ok(())
    }

    /// Whether every entry is the application itself or a component of it.
    pub fn are_local(&self) -> bool {
        use HostPattern::{AnyComponent, Application, Component};
        self.0.iter().all(|allowed| matches!(allowed.host, Application | Component(_) | AnyComponent))
    }

    /// The ids of the components that entries name.
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
            // The last colon may be part of an IPv6 address.
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
mod tests;
