//! Limits the memory of concurrent compilations.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use bytesize::ByteSize;
use hexad_support::machine;
use hexad_support::memory;

/// Bytes that a compilation takes at its peak for each byte of the component. The areas take 24 to 27.
const PEAK: u64 = 32;

/// Compilations together may take a quarter of the machine's memory, the part that caches, responses and guests leave.
const SHARE: u64 = 4;

/// Lets as many compilations run at once as fit in memory, and always one.
pub struct Compilations {
    /// The machine's memory, or the container's, in bytes.
    machine: u64,
    /// The bytes of the running compilations.
    running: Mutex<u64>,
    ended: Condvar,
}

/// A running compilation, until this is dropped.
pub struct Compilation<'a> {
    compilations: &'a Compilations,
    bytes: u64,
}

impl Compilations {
    /// For a machine or a container with `machine` bytes of memory.
    pub fn new(machine: u64) -> Self {
        Self { machine, running: Mutex::default(), ended: Condvar::new() }
    }

    /// Waits until the compilation of a component of this size, in bytes, fits in memory. If the system may end the
    /// host during it, logs a warning first, which is then the log's last line.
    pub fn begin(&self, id: &str, component: usize) -> Compilation<'_> {
        let bytes = PEAK.saturating_mul(component as u64);
        let mut running = self.running();
        while *running > 0 && running.saturating_add(bytes) > self.machine / SHARE {
            running = self.ended.wait(running).unwrap_or_else(PoisonError::into_inner);
        }
        *running += bytes;
        drop(running);
        tracing::info!(component = id, size = %ByteSize(component as u64), "compiling; the next start has its code");
        if let Some(needed) = self.shortage(machine::resident_memory().unwrap_or_default(), bytes) {
            tracing::warn!(
                component = %ByteSize(component as u64),
                needed = %ByteSize(needed),
                machine = %ByteSize(self.machine),
                "compiling a component may need more memory than this machine or container has: if the host ends here, \
                 the system has ended it; give it more memory for its first start, after which the code is in the data \
                 folder"
            );
        }
        Compilation { compilations: self, bytes }
    }

    /// The memory that a process of `resident` bytes needs for a compilation, if the machine has less.
    fn shortage(&self, resident: u64, compilation: u64) -> Option<u64> {
        Some(resident.saturating_add(compilation)).filter(|needed| *needed > self.machine)
    }

    fn running(&self) -> MutexGuard<'_, u64> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Compilation<'_> {
    fn drop(&mut self) {
        // Before another compilation begins.
        memory::release_free_memory();
        *self.compilations.running() -= self.bytes;
        self.compilations.ended.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;
    use hexad_testing::wait::{SOON, wait_until};

    const MIB: usize = 1 << 20;

    /// Compiles 16 components of 1 MiB on a machine with `machine` MiB. Exactly `expected` compilations run at once.
    fn assert_at_once(machine: usize, expected: u64) {
        let compilations = Compilations::new((machine * MIB) as u64);
        let (running, most) = (AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    let _compilation = compilations.begin("probe", MIB);
                    most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    wait_until(SOON, "the others that there is memory for", || most.load(Ordering::SeqCst) >= expected);
                    running.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        assert_eq!((*compilations.running(), most.into_inner()), (0, expected));
    }

    #[test]
    fn no_more_components_are_compiled_at_once_than_there_is_memory_for() {
        // Always one.
        assert_at_once(64, 1);
        assert_at_once(255, 1);
        assert_at_once(3 * 128, 3);
    }

    #[test]
    fn compilations_that_fit_wait_for_none() {
        let compilations = Compilations::new(256 * MIB as u64);
        let first = compilations.begin("probe", MIB);
        let second = compilations.begin("probe", MIB);
        assert_eq!(*compilations.running(), 64 * MIB as u64);
        drop((first, second));
        assert_eq!(*compilations.running(), 0);
    }

    #[test]
    fn a_machine_that_is_too_small_is_known() {
        let compilations = Compilations::new(100);
        assert_eq!(compilations.shortage(60, 40), None);
        assert_eq!(compilations.shortage(60, 41), Some(101));
    }
}
