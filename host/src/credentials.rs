//! Who is calling, as a number: the same for the same caller, and nothing else is promised of it.
//!
//! The host does not know what a credential is worth; it only tells callers apart.

use std::hash::{DefaultHasher, Hasher};
use std::net::IpAddr;

use http::{HeaderMap, Uri};

/// Where the areas take credentials from.
const HEADERS: [&str; 4] = ["private-token", "authorization", "job-token", "deploy-token"];
const PARAMETERS: [&str; 3] = ["private_token", "access_token", "job_token"];

/// The caller by its credential, or else by its address.
pub fn of(headers: &HeaderMap, uri: &Uri, address: Option<IpAddr>) -> u64 {
    let mut hasher = DefaultHasher::new();
    let header = HEADERS.iter().find_map(|name| Some(headers.get(*name)?.as_bytes()));
    let credential = header.or_else(|| {
        let pairs = uri.query()?.split('&').filter_map(|pair| pair.split_once('='));
        pairs.into_iter().find(|(name, _)| PARAMETERS.contains(name)).map(|(_, value)| value.as_bytes())
    });
    match (credential, address) {
        (Some(credential), _) => hasher.write(credential),
        (None, Some(IpAddr::V4(address))) => hasher.write(&address.octets()),
        (None, Some(IpAddr::V6(address))) => hasher.write(&address.octets()),
        (None, None) => {}
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn caller(headers: &[(&'static str, &'static str)], target: &'static str, address: &str) -> u64 {
        let headers = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        of(&headers, &Uri::from_static(target), address.parse().ok())
    }

    #[test]
    fn a_credential_is_the_caller_wherever_it_comes_from() {
        let mia = caller(&[("private-token", "mia")], "/a", "192.0.2.1");
        assert_eq!(mia, caller(&[("private-token", "mia")], "/b?x=1", "192.0.2.2"));
        assert_eq!(mia, caller(&[], "/b?x=1&private_token=mia", "192.0.2.2"));
        assert_ne!(mia, caller(&[("private-token", "dev")], "/a", "192.0.2.1"));
        assert_ne!(mia, caller(&[("authorization", "Bearer mia")], "/a", "192.0.2.1"));
    }

    #[test]
    fn without_a_credential_the_address_is() {
        assert_eq!(caller(&[], "/a", "192.0.2.1"), caller(&[], "/b", "192.0.2.1"));
        assert_ne!(caller(&[], "/a", "192.0.2.1"), caller(&[], "/a", "2001:db8::1"));
    }
}
