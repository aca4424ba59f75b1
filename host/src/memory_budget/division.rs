//! How the memory of a host is divided.

use bytesize::ByteSize;

use crate::machine;
use crate::{response_cache, store};

/// The part of the machine's memory that a host uses if the operator names no size. The rest is for the
/// compiled code, the threads and the system, which caches the database.
const DEFAULT_SHARE: (u64, u64) = (3, 4);

/// The parts of a host's memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryDivision {
    pub total: u64,
    /// The response cache, and the shards' caches of values.
    caches: u64,
    /// Responses that clients have not taken.
    responses: u64,
    /// Whether the operator has named the total.
    is_given: bool,
}

/// A component's instance does not fit.
#[derive(Debug, thiserror::Error)]
#[error(
    "component `{id}`: an instance may have {memory} (`memory` in the manifest), and guests have {guests} of the \
     host's {total}: caches take {caches}, and responses {responses} (--send-buffer); lower one of them, or raise \
     --memory"
)]
pub struct MemoryError {
    pub id: String,
    memory: ByteSize,
    guests: ByteSize,
    total: ByteSize,
    caches: ByteSize,
    responses: ByteSize,
}

impl MemoryDivision {
    /// Divides `total`, or a share of the machine's memory, for a host with so many shards and so many bytes
    /// for responses.
    pub fn new(total: Option<u64>, responses: u64, shards: usize) -> Self {
        let (part, whole) = DEFAULT_SHARE;
        let derived = || machine::memory() / whole * part;
        let near_caches = store::NEAR_CACHE_BYTES.saturating_mul(shards);
        let caches = response_cache::MAX_BYTES.saturating_add(near_caches);
        let caches = u64::try_from(caches).unwrap_or(u64::MAX);
        Self { total: total.unwrap_or_else(derived), caches, responses, is_given: total.is_some() }
    }

    /// The rest, which is for guests.
    pub fn guests(&self) -> u64 {
        self.total.saturating_sub(self.caches).saturating_sub(self.responses)
    }

    /// Checks that an instance of each component fits. Without a given total, it is raised so that they do:
    /// the machine may have less memory than the manifest allows, and instances seldom use all of it. Responses may
    /// not have more than the machine.
    ///
    /// `instances` are the ids of components, and the bytes that an instance of each may have.
    pub fn check<'a>(&mut self, instances: impl Iterator<Item = (&'a str, usize)>) -> Result<(), MemoryError> {
        let largest = instances.max_by_key(|(_, memory)| *memory).map(|(id, memory)| (id, memory as u64));
        let Some((id, memory)) = largest.filter(|(_, memory)| *memory > self.guests()) else {
            return Ok(());
        };
        if !self.is_given && self.responses <= machine::memory() {
            self.total = self.caches.saturating_add(self.responses).saturating_add(memory);
            tracing::warn!(
                component = id,
                memory = %ByteSize(memory),
                machine = %ByteSize(machine::memory()),
                "an instance may have more memory than this machine can give; lower `memory` in the manifest"
            );
            return Ok(());
        }
        Err(MemoryError {
            id: id.to_owned(),
            memory: ByteSize(memory),
            guests: ByteSize(self.guests()),
            total: ByteSize(self.total),
            caches: ByteSize(self.caches),
            responses: ByteSize(self.responses),
        })
    }
}
