//! The memory limit of one instance.

use std::sync::Arc;

use wasmtime::ResourceLimiter;

use crate::metrics::Counters;

/// Elements of one table. Large guests have some ten thousand functions in theirs.
const MAX_TABLE_ELEMENTS: usize = 100_000;

/// Bounds the linear memory of an instance, summed over all of its memories. A guest could exceed a
/// limit per memory by having several.
#[derive(Debug)]
pub struct MemoryLimiter {
    counters: Arc<Counters>,
    limit: usize,
    used: usize,
    /// The last permitted growth, subtracted again if wasmtime cannot get the memory.
    permitted: usize,
    denied: u64,
}

impl MemoryLimiter {
    pub fn new(limit: usize, counters: Arc<Counters>) -> Self {
        Self { counters, limit, used: 0, permitted: 0, denied: 0 }
    }

    /// How often the limit refused more memory.
    pub fn denied(&self) -> u64 {
        self.denied
    }
}

impl ResourceLimiter for MemoryLimiter {
    fn memory_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        let growth = desired.saturating_sub(current);
        let used = self.used.saturating_add(growth);
        if used > self.limit {
            self.denied += 1;
            self.counters.memory_denials.add(1);
            self.permitted = 0;
            return Ok(false);
        }
        self.used = used;
        self.counters.memory_peak.raise_to(used as u64);
        self.permitted = growth;
        Ok(true)
    }

    fn memory_grow_failed(&mut self, _error: wasmtime::Error) -> wasmtime::Result<()> {
        self.used = self.used.saturating_sub(std::mem::take(&mut self.permitted));
        Ok(())
    }

    fn table_growing(&mut self, _current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        Ok(desired <= MAX_TABLE_ELEMENTS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memories_share_one_limit() {
        let mut limiter = MemoryLimiter::new(100, Arc::default());
        assert!(limiter.memory_growing(0, 60, None).unwrap());
        assert!(limiter.memory_growing(0, 40, None).unwrap());
        assert!(!limiter.memory_growing(60, 61, None).unwrap());
        assert_eq!(limiter.denied(), 1);
    }

    #[test]
    fn failed_growth_does_not_count() {
        let mut limiter = MemoryLimiter::new(100, Arc::default());
        assert!(limiter.memory_growing(0, 90, None).unwrap());
        limiter.memory_grow_failed(wasmtime::format_err!("no pages")).unwrap();
        assert!(limiter.memory_growing(0, 90, None).unwrap());
    }
}
