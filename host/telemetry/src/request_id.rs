//! `X-Request-Id`: identifies a request for the client, in the log and for the component.

use std::sync::atomic::{AtomicU64, Ordering};

use http::header::{HeaderMap, HeaderName, HeaderValue};

pub const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// The longest id that a client may choose, in bytes.
const MAX_LENGTH: usize = 128;

/// Makes ids that differ from the ids of other processes.
#[derive(Debug)]
pub struct RequestIds {
    /// Distinguishes the ids of this process.
    process: u64,
    next: AtomicU64,
}

impl Default for RequestIds {
    fn default() -> Self {
        // Without randomness, ids are unique within this process only.
        Self { process: getrandom::u64().unwrap_or_default(), next: AtomicU64::new(0) }
    }
}

impl RequestIds {
    /// Gives a request its id and returns it: the client's own, if it is harmless in a log, or a new one. A request
    /// keeps an id that it has.
    pub fn assign(&self, headers: &mut HeaderMap) -> HeaderValue {
        let id = self.choose(headers);
        headers.insert(X_REQUEST_ID, id.clone());
        id
    }

    fn choose(&self, headers: &HeaderMap) -> HeaderValue {
        match headers.get(X_REQUEST_ID) {
            Some(id) if is_harmless(id.as_bytes()) => id.clone(),
            _ => {
                let number = self.next.fetch_add(1, Ordering::Relaxed);
                let id = format!("{:016x}-{number:x}", self.process);
                HeaderValue::try_from(id).unwrap_or(HeaderValue::from_static("-"))
            }
        }
    }
}

fn is_harmless(id: &[u8]) -> bool {
    let harmless = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:/+=@".contains(byte);
    (1..=MAX_LENGTH).contains(&id.len()) && id.iter().all(harmless)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clients_id_is_kept_if_it_is_harmless() {
        let ids = RequestIds::default();
        let assign = |id: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(X_REQUEST_ID, id.parse().unwrap());
            let assigned = ids.assign(&mut headers);
            assert_eq!(ids.assign(&mut headers), assigned, "it is kept");
            assigned
        };
        for id in ["a", "0af7651916cd43dd8448eb211c80319c", "web-1.eu:42/x+y=@_"] {
            assert_eq!(assign(id), id);
        }
        for id in ["", "a b", "a\"b", "a;b", &"a".repeat(129)] {
            assert_ne!(assign(id), id);
        }
    }

    #[test]
    fn new_ids_are_unique() {
        let ids = RequestIds::default();
        let new = [&ids, &ids, &RequestIds::default()].map(|ids| ids.assign(&mut HeaderMap::new()));
        assert!(new[0] != new[1] && new[1] != new[2] && new[0] != new[2]);
        assert!(new.iter().all(|id| is_harmless(id.as_bytes())));
    }
}
