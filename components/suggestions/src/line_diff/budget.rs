//! The bound on the steps of all comparisons of a request.

use std::cell::Cell;

/// The most steps of all comparisons of a request.
const MAX_STEPS: u64 = 1 << 29;

/// A bound on the steps of several comparisons.
pub struct StepBudget {
    left: Cell<u64>,
}

impl StepBudget {
    pub fn new() -> Self {
        StepBudget::of(MAX_STEPS)
    }

    pub fn of(steps: u64) -> Self {
        StepBudget { left: Cell::new(steps) }
    }

    pub fn is_spent(&self) -> bool {
        self.left.get() == 0
    }

    pub fn spend(&self, steps: u64) {
        self.left.set(self.left.get().saturating_sub(steps));
    }
}
