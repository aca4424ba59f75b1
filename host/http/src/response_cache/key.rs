//! The key of a cached response.

use http::request::Parts;
use sha2::{Digest as _, Sha256};

use super::policy::{CachePolicy, without_port};
use crate::origin::CLIENT_ADDRESS;

/// The guest that makes the response.
#[derive(Clone, Copy)]
pub struct CachedGuest<'a> {
    pub id: &'a str,
    /// With the component's id, it identifies the code and the settings.
    pub revision: u64,
    /// How often the routes have changed, or the whole application if the component may send requests to it, and whether
    /// the request names its component. The response can depend on all of them.
    pub application: u64,
}

/// A keyed hash of everything in a request on which a response can depend.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CacheKey(pub [u8; 32]);

impl CacheKey {
    /// `secret` belongs to the cache.
    pub fn new(secret: &[u8; 32], guest: CachedGuest<'_>, policy: &CachePolicy, parts: &Parts) -> Self {
        let CachedGuest { id, revision, application } = guest;
        let mut hash = Sha256::new_with_prefix(secret);
        // Each part is hashed with its length, so that two different requests never hash the same bytes.
        let mut add = |part: &[u8]| {
            hash.update((part.len() as u64).to_le_bytes());
            hash.update(part);
        };
        add(id.as_bytes());
        add(&revision.to_le_bytes());
        add(&application.to_le_bytes());
        add(parts.method.as_str().as_bytes());
        add(parts.uri.scheme_str().unwrap_or_default().as_bytes());
        add(parts.uri.authority().map_or("", |authority| authority.as_str()).as_bytes());
        add(parts.uri.path_and_query().map_or("", |path| path.as_str()).as_bytes());
        for (position, name) in policy.headers.iter().enumerate() {
            for value in parts.headers.get_all(name) {
                add(&position.to_le_bytes());
                add(if *name == CLIENT_ADDRESS { without_port(value) } else { value.as_bytes() });
            }
        }
        Self(hash.finalize().into())
    }
}
