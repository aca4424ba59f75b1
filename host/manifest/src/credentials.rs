//! The credentials that identify callers, so that a caller sees one version throughout a trial.
//!
//! The host does not verify a credential, but only hashes it.

use std::hash::{DefaultHasher, Hash as _, Hasher};
use std::net::IpAddr;

use http::header::{AUTHORIZATION, COOKIE};
use http::{HeaderMap, HeaderName, Uri};

/// The headers and parameters in which a component's clients send their credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The first of these headers in a request identifies its caller.
    pub headers: Vec<HeaderName>,
    /// Query parameters, for a request without any of the headers.
    pub parameters: Vec<String>,
    /// Whether the manifest names them. Then the host limits the component's anonymous work.
    pub is_declared: bool,
}

impl Default for Credentials {
    fn default() -> Self {
        Self { headers: vec![AUTHORIZATION], parameters: Vec::new(), is_declared: false }
    }
}

impl Credentials {
    /// Whether the component gets the cookies of visitors' sessions.
    pub fn has_sessions(&self) -> bool {
        self.headers.contains(&COOKIE)
    }

    /// A hash of the request's credential, or of the client's address if it has none.
    pub fn caller(&self, headers: &HeaderMap, uri: &Uri, address: Option<IpAddr>) -> u64 {
        self.credential(headers, uri).unwrap_or_else(|| match address {
            Some(IpAddr::V4(address)) => hash(&address.octets()),
            Some(IpAddr::V6(address)) => hash(&address.octets()),
            None => hash(&[]),
        })
    }

    /// A hash of the request's credential, if it has one.
    pub fn credential(&self, headers: &HeaderMap, uri: &Uri) -> Option<u64> {
        let header = self.headers.iter().find_map(|name| Some(headers.get(name)?.as_bytes()));
        let credential = header.or_else(|| {
            let mut pairs = uri.query()?.split('&').filter_map(|pair| pair.split_once('='));
            let pair = pairs.find(|(name, _)| self.parameters.iter().any(|parameter| parameter == name));
            pair.map(|(_, value)| value.as_bytes())
        });
        credential.map(hash)
    }

    /// A hash of all possible credentials of the request, with their names, because the component may read any of them.
    /// `None` if the request has none.
    pub fn all(&self, headers: &HeaderMap, uri: &Uri) -> Option<u64> {
        let headers = self.headers.iter().flat_map(|name| headers.get_all(name).iter().map(move |value| (name, value)));
        let headers = headers.map(|(name, value)| (name.as_str(), value.as_bytes()));
        let pairs = uri.query().into_iter().flat_map(|query| query.split('&')).filter_map(|pair| pair.split_once('='));
        let parameters = pairs.filter(|(name, _)| self.parameters.iter().any(|parameter| parameter == name));
        let mut all = headers.chain(parameters.map(|(name, value)| (name, value.as_bytes()))).peekable();
        all.peek()?;
        let mut hasher = DefaultHasher::new();
        all.for_each(|pair| pair.hash(&mut hasher));
        Some(hasher.finish())
    }
}

fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(
        credentials: &Credentials,
        headers: &[(&'static str, &'static str)],
        target: &'static str,
        address: &str,
    ) -> u64 {
        let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        credentials.caller(&headers, &Uri::from_static(target), address.parse().ok())
    }

    fn declared() -> Credentials {
        Credentials {
            headers: vec![HeaderName::from_static("x-key"), AUTHORIZATION],
            parameters: vec!["key".to_owned()],
            is_declared: true,
        }
    }

    #[test]
    fn a_credential_identifies_the_caller_wherever_it_comes_from() {
        let credentials = declared();
        let mia = caller(&credentials, &[("x-key", "mia")], "/a", "192.0.2.1");
        assert_eq!(mia, caller(&credentials, &[("x-key", "mia")], "/b?x=1", "192.0.2.2"));
        assert_eq!(mia, caller(&credentials, &[], "/b?x=1&key=mia", "192.0.2.2"));
        assert_ne!(mia, caller(&credentials, &[("x-key", "dev")], "/a", "192.0.2.1"));
        assert_ne!(mia, caller(&credentials, &[("authorization", "Bearer mia")], "/a", "192.0.2.1"));
    }

    #[test]
    fn without_a_credential_the_address_identifies_the_caller() {
        let credentials = declared();
        let with = |target, address| caller(&credentials, &[], target, address);
        assert_eq!(with("/a", "192.0.2.1"), with("/b", "192.0.2.1"));
        assert_ne!(with("/a", "192.0.2.1"), with("/a", "2001:db8::1"));
    }

    #[test]
    fn by_default_only_the_authorization_header_is_a_credential() {
        let credentials = Credentials::default();
        let with =
            |headers: &[(&'static str, &'static str)], target| caller(&credentials, headers, target, "192.0.2.1");
        assert_ne!(with(&[("authorization", "Bearer mia")], "/a"), with(&[("authorization", "Bearer dev")], "/a"));
        assert_eq!(with(&[("x-key", "mia")], "/a?key=mia"), with(&[("x-key", "dev")], "/a?key=dev"));
    }
}
