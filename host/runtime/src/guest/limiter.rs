//! The memory limit of one instance.

use std::sync::Arc;

use hexad_limits::concurrency_limit::ClientBytes;
use hexad_limits::instance_permit::InstancePermit;
use hexad_limits::memory_budget::MemoryBudget;
use hexad_telemetry::metrics::Counters;
use wasmtime::ResourceLimiter;

/// The most elements of one table. Large guests have some ten thousand functions in theirs.
const MAX_TABLE_ELEMENTS: usize = 100_000;

/// The share of its limit at which an instance takes no more requests, because the next one could fail.
const RETIREMENT_SHARE: (usize, usize) = (3, 4);

/// Limits the linear memory of an instance, summed over all of its memories. With a limit for each memory, a guest
/// could exceed it by having several. The memory comes from the host's budget. It returns when the limiter is dropped
/// with its instance.
pub struct MemoryLimiter {
    budget: Arc<MemoryBudget>,
    counters: Arc<Counters>,
    limit: usize,
    used: usize,
    /// The permit of the current request, which knows its client.
    request: Option<Arc<InstancePermit>>,
    /// The client for which the memory counts. Empty while the host has enough memory.
    client: ClientBytes,
    is_counted: bool,
    /// The last permitted growth. It is subtracted again if wasmtime cannot get the memory.
    permitted: usize,
    denied: u64,
    /// Whether the host has lacked memory since the current request began.
    lacked_host_memory: bool,
}

impl MemoryLimiter {
    pub fn new(limit: usize, budget: Arc<MemoryBudget>, counters: Arc<Counters>) -> Self {
        Self {
            budget,
            counters,
            limit,
            used: 0,
            request: None,
            client: ClientBytes::default(),
            is_counted: false,
            permitted: 0,
            denied: 0,
            lacked_host_memory: false,
        }
    }

    /// Begins a request. False if its client has too much memory to take the instance's as well.
    pub fn enter(&mut self, request: Arc<InstancePermit>) -> bool {
        self.leave();
        self.request = Some(request);
        self.count_if_scarce(0);
        let is_in_share = !self.is_counted || self.budget.check_share(&self.client, self.used as u64);
        self.lacked_host_memory = !is_in_share;
        is_in_share
    }

    /// Counts the memory for the request's client, if more than half of the budget is used with `growth` more bytes.
    /// Otherwise, concurrent requests would contend for the counters without need (decision 0066).
    fn count_if_scarce(&mut self, growth: u64) {
        if !self.is_counted
            && self.budget.is_scarce(growth)
            && let Some(request) = &self.request
        {
            self.client = request.client_bytes();
            self.client.add(self.used as u64);
            self.is_counted = true;
        }
    }

    /// Ends the request: the memory is an idle instance's.
    pub fn leave(&mut self) {
        self.request = None;
        std::mem::take(&mut self.client).subtract(self.used as u64);
        self.is_counted = false;
    }

    /// Whether the current request was denied memory that its own limit allows.
    pub fn lacked_host_memory(&self) -> bool {
        self.lacked_host_memory
    }

    /// Whether the instance should take no more requests. A guest does not return memory, and its freed memory may be
    /// too fragmented for reuse.
    pub fn is_nearly_used_up(&self) -> bool {
        let (part, whole) = RETIREMENT_SHARE;
        self.used >= self.limit / whole * part
    }

    pub fn used(&self) -> usize {
        self.used
    }

    /// How often the instance was denied more memory.
    pub fn denied(&self) -> u64 {
        self.denied
    }
}

impl ResourceLimiter for MemoryLimiter {
    fn memory_growing(&mut self, current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        let growth = desired.saturating_sub(current);
        let used = self.used.saturating_add(growth);
        let is_in_limit = used <= self.limit;
        self.count_if_scarce(growth as u64);
        if !is_in_limit || !self.budget.take_for(&self.client, self.used as u64, growth as u64) {
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
        self.budget.give_back_of(&self.client, permitted as u64);
        Ok(())
    }

    fn table_growing(&mut self, _current: usize, desired: usize, _maximum: Option<usize>) -> wasmtime::Result<bool> {
        Ok(desired <= MAX_TABLE_ELEMENTS)
    }
}

impl Drop for MemoryLimiter {
    fn drop(&mut self) {
        self.budget.give_back_of(&self.client, self.used as u64);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use hexad_limits::concurrency_limit::{ClientKey, ClientKeys, ConcurrencyLimit, HOST};
    use hexad_limits::instance_permit::{StalledInstances, StalledPermits};

    fn permit(client: ClientKeys, budget: &Arc<MemoryBudget>) -> Arc<InstancePermit> {
        let limit = ConcurrencyLimit::new(4, Duration::ZERO, 0).with_bytes(budget.clients().clone());
        let stalled = StalledInstances::new(StalledPermits::new(0), budget.clone());
        Arc::new(InstancePermit::new(limit.try_acquire(client).unwrap(), client, stalled))
    }

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
        assert!(second.enter(permit(HOST, &budget)));
        assert!(!second.lacked_host_memory());
        drop(first);
        assert_eq!(budget.used(), 50);
        assert!(second.memory_growing(50, 74, None).unwrap() && !second.is_nearly_used_up());
        assert!(second.memory_growing(74, 75, None).unwrap() && second.is_nearly_used_up());
        drop(second);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn a_client_with_too_much_memory_gets_no_further_instance() {
        let budget = MemoryBudget::new(100);
        let permit = permit([Some(ClientKey::Credential(1)), None, None], &budget);
        let (mut first, mut second) = (limiter(100, &budget), limiter(100, &budget));
        for idle in [&mut first, &mut second] {
            assert!(idle.memory_growing(0, 40, None).unwrap());
        }
        assert!(first.enter(permit.clone()));
        assert!(!second.enter(permit.clone()) && second.lacked_host_memory());
        drop(second);
        let mut third = limiter(100, &budget);
        assert!(third.enter(permit.clone()) && third.memory_growing(0, 10, None).unwrap());
        assert!(!third.memory_growing(10, 11, None).unwrap() && third.lacked_host_memory());
        third.memory_grow_failed(wasmtime::format_err!("no pages")).unwrap();
        first.leave();
        assert!(third.memory_growing(10, 60, None).unwrap(), "the client's only one");
        third.memory_grow_failed(wasmtime::format_err!("no pages")).unwrap();
        drop(third);
        assert!(first.enter(permit.clone()));
        assert_eq!((budget.used(), permit.client_bytes().with_others(0)), (40, 0), "there is enough");
    }
}
