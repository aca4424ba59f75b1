//! The work that the texts of a page may take.
//!
//! A step is about 100 nanoseconds. Every visitor of a page pays for the text that one person wrote on it.

use std::cell::Cell;

/// The steps of all texts of a page.
const MAX_STEPS: usize = 2 << 20;

/// The steps of one text.
const MAX_STEPS_OF_TEXT: usize = 1 << 20;

/// The steps of an element or a piece of text: it is parsed, cleaned and written. It also bounds the memory
/// of a text's elements.
pub const STEPS_PER_NODE: usize = 16;

/// The work that a page may still take.
pub struct Budget(Cell<usize>);

impl Default for Budget {
    fn default() -> Self {
        Budget(Cell::new(MAX_STEPS))
    }
}

impl Budget {
    /// Renders one text with the steps that are left.
    pub fn spend<T>(&self, render: impl FnOnce(&mut Meter) -> Option<T>) -> Option<T> {
        let allowed = self.0.get().min(MAX_STEPS_OF_TEXT);
        let mut meter = Meter(allowed);
        let rendered = render(&mut meter);
        self.0.set(self.0.get() - (allowed - meter.0));
        rendered
    }
}

/// The work that a text may still take.
pub struct Meter(usize);

impl Meter {
    /// `None` if fewer steps are left.
    pub fn spend(&mut self, steps: usize) -> Option<()> {
        let left = self.0.checked_sub(steps);
        self.0 = left.unwrap_or_default();
        left.map(|_| ())
    }
}
