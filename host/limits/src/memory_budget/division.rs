//! How a host's memory is divided.

use bytesize::ByteSize;
use hexad_support::machine;

/// The part of the machine's memory that a host uses by default. The rest is for the compiled code, the threads and the
/// system, which caches the database.
const DEFAULT_SHARE: (u64, u64) = (3, 4);

/// The least memory for guests by default: the areas' small requests need a few MiB an instance.
const LEAST_FOR_GUESTS: u64 = 128 << 20;

/// The parts of a host's memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryDivision {
    pub total: u64,
    /// The memory of the machine or the container.
    pub machine: u64,
    /// The response cache, and the shards' caches of values.
    caches: u64,
    /// Responses that clients have not taken.
    responses: u64,
    /// Whether the operator has set the total.
    is_given: bool,
}

/// An instance of a component does not fit.
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
    /// Divides `total`, or by default a share of the machine's memory, with the bytes of `responses` and `caches`.
    pub fn new(total: Option<u64>, responses: u64, caches: usize) -> Self {
        let caches = u64::try_from(caches).unwrap_or(u64::MAX);
        let set_aside = caches.saturating_add(responses);
        let machine = machine::memory();
        let total_or_default = total.unwrap_or_else(|| default_total(machine, set_aside));
        Self { total: total_or_default, machine, caches, responses, is_given: total.is_some() }
    }

    /// The memory for guests, which is the rest.
    pub fn guests(&self) -> u64 {
        self.total.saturating_sub(self.caches).saturating_sub(self.responses)
    }

    /// Checks that an instance of each component fits, and warns if the machine has less than the total.
    ///
    /// With the default total, the host serves a component that does not fit. Instances seldom use all that the
    /// manifest allows, and a request that needs more than the host has gets 503. Responses may not have more than the
    /// machine.
    ///
    /// `instances` are the ids of components, with the most bytes of an instance of each.
    pub fn check<'a>(&self, instances: impl Iterator<Item = (&'a str, usize)>) -> Result<(), MemoryError> {
        if self.total > self.machine {
            tracing::warn!(
                total = %ByteSize(self.total),
                machine = %ByteSize(self.machine),
                "caches, responses and components may take more memory than the machine or container has: under load the \
                 system may end the host; give it more, or lower --send-buffer and --memory"
            );
        }
        let largest = instances.max_by_key(|(_, memory)| *memory).map(|(id, memory)| (id, memory as u64));
        let Some((id, memory)) = largest.filter(|(_, memory)| *memory > self.guests()) else {
            return Ok(());
        };
        if !self.is_given && self.responses <= self.machine {
            tracing::warn!(
                component = id,
                memory = %ByteSize(memory),
                guests = %ByteSize(self.guests()),
                machine = %ByteSize(self.machine),
                "an instance may have more memory than this machine can give: a request that needs it gets 503; lower \
                 `memory` in the manifest, or name another size with --memory"
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

/// The default total, on a machine or in a container with `machine` bytes. Caches and responses get `set_aside` bytes
/// of it.
fn default_total(machine: u64, set_aside: u64) -> u64 {
    let (part, whole) = DEFAULT_SHARE;
    (machine / whole * part).max(set_aside.saturating_add(LEAST_FOR_GUESTS))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn the_default_is_less_than_the_machine_has() {
        let total = |machine: u64| default_total(machine * MIB, 200 * MIB) / MIB;
        assert_eq!([16_384, 1024, 512].map(total), [12_288, 768, 384]);
        assert_eq!([400, 256].map(total), [328, 328], "caches, responses, and the least for guests");
    }

    #[test]
    fn an_instance_that_does_not_fit_is_refused_only_if_the_operator_has_named_the_size() {
        let guests = |division: MemoryDivision| division.guests() / MIB;
        let (total, machine, caches, responses) = (384 * MIB, 512 * MIB, 72 * MIB, 128 * MIB);
        let division = |is_given| MemoryDivision { total, machine, caches, responses, is_given };
        let check = |is_given| division(is_given).check([("small", 1), ("large", 512 << 20)].into_iter());
        assert_eq!(guests(division(false)), 184, "the check does not raise it");
        assert!(check(false).is_ok());
        let refused = check(true).unwrap_err().to_string();
        assert!(refused.starts_with("component `large`: an instance may have 512.0 MiB"), "{refused}");
        assert!(division(true).check([("small", 1)].into_iter()).is_ok());
    }
}
