//! `X-Request-Id`: the name by which client, log and component speak of one request.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};

use http::header::{HeaderMap, HeaderName, HeaderValue};

pub const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// A client's own choice may be this long.
const LONGEST: usize = 128;

/// Makes names that no other process makes.
#[derive(Debug)]
pub struct RequestIds {
    process: u64,
    next: AtomicU64,
}

impl RequestIds {
    pub fn new() -> Self {
        // Without randomness, names are unique within this process only.
        Self { process: getrandom::u64().unwrap_or_default(), next: AtomicU64::new(0) }
    }

    /// The client's name for its request, if it is harmless in a log, or a new one.
    pub fn of(&self, headers: &HeaderMap) -> HeaderValue {
        match headers.get(X_REQUEST_ID) {
            Some(name) if is_harmless(name.as_bytes()) => name.clone(),
            _ => {
                let number = self.next.fetch_add(1, Ordering::Relaxed);
                let mut name = String::with_capacity(2 * 16 + 1);
                let _ = write!(name, "{:016x}-{number:x}", self.process);
                HeaderValue::try_from(name).unwrap_or(HeaderValue::from_static("-"))
            }
        }
    }
}

fn is_harmless(name: &[u8]) -> bool {
    let harmless = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:/+=@".contains(byte);
    (1..=LONGEST).contains(&name.len()) && name.iter().all(harmless)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clients_name_is_kept_if_it_is_harmless() {
        let ids = RequestIds::new();
        let of = |name: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(X_REQUEST_ID, name.parse().unwrap());
            ids.of(&headers)
        };
        for name in ["a", "0af7651916cd43dd8448eb211c80319c", "web-1.eu:42/x+y=@_"] {
            assert_eq!(of(name), name);
        }
        for name in ["", "a b", "a\"b", "a;b", &"a".repeat(129)] {
            assert_ne!(of(name), name);
        }
    }

    #[test]
    fn new_names_are_unique() {
        let ids = RequestIds::new();
        let names = [ids.of(&HeaderMap::new()), ids.of(&HeaderMap::new()), RequestIds::new().of(&HeaderMap::new())];
        assert!(names[0] != names[1] && names[1] != names[2] && names[0] != names[2]);
        assert!(names.iter().all(|name| is_harmless(name.as_bytes())));
    }
}
