//! Reads of many keys at once, on a separate thread. The shard serves its other requests meanwhile.
//!
//! One call reads all keys from one snapshot. So it cannot yield in between: another read on the same connection would
//! see the snapshot too.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hexad_store::{Key, StoreError};

use super::reader::Reader;

/// The shard itself answers a call for up to this many keys, in well under a millisecond.
pub const MIN_KEYS: usize = 64;

/// A connection for calls with many keys.
pub struct BulkReader(Arc<Reader>);

/// Signals the thread that the call's guest has ended.
struct CancelOnDrop(Arc<AtomicBool>);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl BulkReader {
    pub fn new(reader: Reader) -> Self {
        Self(Arc::new(reader))
    }

    /// As [`Backend::get_many`](hexad_store::Backend::get_many).
    pub async fn get_many(&self, keys: &[Key], limit: usize) -> Result<Vec<Option<Vec<u8>>>, StoreError> {
        let (reader, keys) = (self.0.clone(), keys.to_vec());
        let cancel = CancelOnDrop(Arc::default());
        let cancelled = cancel.0.clone();
        let read = tokio::task::spawn_blocking(move || reader.get_many_unless(&keys, limit, &cancelled)).await;
        drop(cancel);
        read.unwrap_or_else(|error| Err(StoreError::Engine(Arc::from(error.to_string()))))
    }
}
