//! The memory limit of one instance.

use std::sync::Arc;

use wasmtime::ResourceLimiter;

use crate::memory_budget::MemoryBudget;
use crate::metrics::Counters;

/// Elements of one table. Large guests have some ten thousand functions in theirs.
const MAX_TABLE_ELEMENTS: usize = 100_000;

/// The share of its limit at which an instance takes no more requests: the next one could fail.
const RETIREMENT_SHARE: (usize, usize) = (3, 4);

/// Bounds the linear memory of an instance, summed over all of its memories. A guest could exceed a
/// limit per memory by having several. The memory is taken from the host's budget, and given back when the
/// limiter is dropped with its instance.
pub struct MemoryLimiter {
    budget: Arc<MemoryBudget>,
    counters: Arc<Counters>,
    limit: usize,
    used: usize,
    /// The last permitted growth, subtracted again if wasmtime cannot get the memory.
    permitted: usize,
    denied: u64,
    /// Whether the host had no memory left since the last request began.
    lacked_host_memory: bool,
}

impl MemoryLimiter {
    pub fn new(limit: usize, budget: Arc<MemoryBudget>, counters: Arc<Counters>) -> Self {
        Self { budget, counters, limit, used: 0, permitted: 0, denied: 0, lacked_host_memory: false }
    }

    /// Begins another request.
    pub fn enter(&mut self) {
        self.lacked_host_memory = false;
    }

    /// Whether the current request did not get memory that its limit allows.
    pub fn lacked_host_memory(&self) -> bool {
        self.lacked_host_memory
    }

    /// Whether the instance should take no more requests. A guest does not give memory back: what it has
    /// freed may be too scattered to be used again.
    pub fn is_nearly_used_up(&self) -> bool {
        let (part, whole) = RETIREMENT_SHARE;
        self.used >= self.limit / whole * part
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
        let is_in_limit = used <= self.limit;
        if !is_in_limit || !self.budget.take(growth as u64) {
            self.lacked_host_memory |= is_in_limit;
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
        let permitted = std::mem::take(&mut self.permitted);
        self.used = self.used.saturating_sub(permitted);
        self.budget.give_back(permitted as u64);
        Ok(())
    }

    fn table_growing(&mut self, _current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        Ok(desired <= MAX_TABLE_ELEMENTS)
    }
}

impl Drop for MemoryLimiter {
    fn drop(&mut self) {
        self.budget.give_back(self.used as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limiter(limit: usize, budget: &Arc<MemoryBudget>) -> MemoryLimiter {
        MemoryLimiter::new(limit, budget.clone(), Arc::default())
    }

    #[test]
    fn memories_share_one_limit() {
        let mut limiter = limiter(100, &MemoryBudget::new(1000));
        assert!(limiter.memory_growing(0, 60, None).unwrap());
        assert!(limiter.memory_growing(0, 40, None).unwrap());
        assert!(!limiter.memory_growing(60, 61, None).unwrap());
        assert_eq!(limiter.denied(), 1);
    }

    #[test]
    fn failed_growth_does_not_count() {
        let mut limiter = limiter(100, &MemoryBudget::new(1000));
        assert!(limiter.memory_growing(0, 90, None).unwrap());
        limiter.memory_grow_failed(wasmtime::format_err!("no pages")).unwrap();
        assert!(limiter.memory_growing(0, 90, None).unwrap());
    }

    #[test]
    fn instances_share_the_budget_of_the_host() {
        let budget = MemoryBudget::new(150);
        let (mut first, mut second) = (limiter(100, &budget), limiter(100, &budget));
        assert!(first.memory_growing(0, 100, None).unwrap());
        assert!(!first.memory_growing(100, 101, None).unwrap() && !first.lacked_host_memory(), "its own limit");
        assert!(second.memory_growing(0, 50, None).unwrap());
        assert!(!second.memory_growing(50, 51, None).unwrap() && second.lacked_host_memory());
        second.enter();
        assert!(!second.lacked_host_memory());
        drop(first);
        assert_eq!(budget.used(), 50);
        assert!(second.memory_growing(50, 74, None).unwrap() && !second.is_nearly_used_up());
        assert!(second.memory_growing(74, 75, None).unwrap() && second.is_nearly_used_up());
        drop(second);
        assert_eq!(budget.used(), 0);
    }
}
