//! The memory of a client's requests. It is stored with the quotas of the client's permits, so that a request needs no
//! second look-up.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::ClientKey;
use crate::shared_map::SharedMap;

/// Bytes by client key, for all limits of a host.
pub type BytesByClient = SharedMap<ClientKey, AtomicU64>;

/// The usage of a request's client.
pub trait ClientUsage: Send + Sync {
    /// The memory of the client.
    fn client_bytes(&self) -> ClientBytes;
}

/// The bytes of one client, for each of its keys. The default is for the host itself, which no key counts.
#[derive(Clone, Debug, Default)]
pub struct ClientBytes(pub(super) [Option<Arc<AtomicU64>>; 3]);

impl ClientBytes {
    pub fn add(&self, bytes: u64) {
        for of_key in self.0.iter().flatten() {
            of_key.fetch_add(bytes, Ordering::Relaxed);
        }
    }

    pub fn subtract(&self, bytes: u64) {
        for of_key in self.0.iter().flatten() {
            of_key.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// The client's bytes, if it has others than the `own` of one request; otherwise 0. Of its keys, the one with the
    /// most counts.
    pub fn with_others(&self, own: u64) -> u64 {
        let of_keys = self.0.iter().flatten().map(|of_key| of_key.load(Ordering::Relaxed));
        of_keys.filter(|bytes| *bytes > own).max().unwrap_or(0)
    }
}
