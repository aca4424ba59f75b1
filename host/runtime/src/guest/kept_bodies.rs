//! Response bodies that an instance has asked its host to keep, so that they are not copied again
//! (`hexad:platform/by-value-handler` in `wit/platform.wit`; decision 0138).

use std::sync::Arc;

use bytes::Bytes;
use hexad_limits::memory_budget::MemoryBudget;

/// The most bodies of an instance.
const NUMBERS: usize = 16;

/// The largest body, in bytes.
const MAX: usize = 128 * 1024;

/// The kept bodies of one instance. Their memory comes from the host's budget, and returns to it with the instance.
pub struct KeptBodies {
    budget: Arc<MemoryBudget>,
    /// The bodies by number; an empty one stands for no body.
    bodies: [Bytes; NUMBERS],
}

impl KeptBodies {
    pub fn new(budget: Arc<MemoryBudget>) -> Self {
        Self { budget, bodies: Default::default() }
    }

    /// The numbers of the kept bodies, as bits; bit 0 stands for number 0.
    pub fn numbers(&self) -> u16 {
        let bits = self.bodies.iter().enumerate().map(|(number, body)| u16::from(!body.is_empty()) << number);
        bits.sum()
    }

    /// The body with this number, if one is kept.
    pub fn get(&self, number: u8) -> Option<Bytes> {
        self.bodies.get(usize::from(number)).filter(|body| !body.is_empty()).cloned()
    }

    /// Keeps a body under this number, instead of an earlier one, if it is small enough and memory is free. It ends no
    /// idle instance to save a copy.
    pub fn put(&mut self, number: u8, body: &Bytes) {
        let Some(place) = self.bodies.get_mut(usize::from(number)) else { return };
        self.budget.give_back(std::mem::take(place).len() as u64);
        if body.len() <= MAX && self.budget.try_take(body.len() as u64) {
            *place = body.clone();
        }
    }
}

impl Drop for KeptBodies {
    fn drop(&mut self) {
        self.budget.give_back(self.bodies.iter().map(|body| body.len() as u64).sum());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_take_memory_of_the_host_as_long_as_they_are_kept() {
        let budget = MemoryBudget::new(1000);
        let mut kept = KeptBodies::new(budget.clone());
        let body = |size| Bytes::from(vec![b'x'; size]);
        kept.put(0, &body(400));
        kept.put(15, &body(500));
        assert_eq!((kept.numbers(), budget.used()), (0x8001, 900));
        assert_eq!((kept.get(0), kept.get(1), kept.get(16)), (Some(body(400)), None, None));
        kept.put(15, &body(600));
        assert_eq!((kept.numbers(), budget.used()), (0x8001, 1000), "another one has room");
        kept.put(3, &body(1));
        kept.put(16, &body(0));
        assert_eq!((kept.numbers(), kept.get(3)), (0x8001, None), "there is no memory, and no such number");
        kept.put(0, &body(0));
        assert_eq!((kept.numbers(), budget.used()), (0x8000, 600));
        drop(kept);
        assert_eq!(budget.used(), 0);
        let mut kept = KeptBodies::new(MemoryBudget::new(u64::MAX));
        kept.put(0, &body(MAX));
        kept.put(1, &body(MAX + 1));
        assert_eq!(kept.numbers(), 1);
    }
}
