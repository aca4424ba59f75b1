//! Defects that a test switches on, to show that the suite of several hosts finds each one.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// Requests do not wait for a barrier.
    NoBarrier,
    /// A barrier in progress serves requests that come meanwhile.
    EarlyBarrier,
    /// Writes that must be durable are committed asynchronously.
    AsynchronousRoots,
    /// A swap is sent before the values of its request.
    SwapBeforeValues,
    /// Cached values stay valid after the connections were lost.
    MemoryKept,
    /// Plain values leave no row of changes.
    ChangesForgotten,
}

/// The switched-on defect; none outside of tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Defect(#[cfg(test)] Option<Mutant>);

impl Defect {
    #[cfg(test)]
    pub fn new(mutant: Option<Mutant>) -> Self {
        Self(mutant)
    }

    pub fn is(self, mutant: Mutant) -> bool {
        #[cfg(test)]
        return self.0 == Some(mutant);
        #[cfg(not(test))]
        {
            let _ = mutant;
            false
        }
    }
}
