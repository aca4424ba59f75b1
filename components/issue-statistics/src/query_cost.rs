//! The work of a question: how much of the index it visits. It stands for processor time, but is the same
//! at every repetition, whatever is cached.

use kit::store::StoreError;
use std::cell::Cell;

/// The variable with the most work of a request, in steps.
pub const MAX_WORK: &str = "issues_max_work";

/// The default of [`MAX_WORK`]: about a second of a core.
pub const DEFAULT_MAX_WORK: u64 = 500_000_000;

/// The steps of looking up one key of a table. A step is about a byte of an encoded list.
pub const LOOK_UP: u64 = 500;

/// The steps of deciding about one project of a segment, in addition to the bytes of its documents.
pub const PROJECT: u64 = 50;

/// Bytes of text that are searched in one step.
const SEARCHED_IN_A_STEP: usize = 4;

/// The work that a request may still do, in steps.
pub struct WorkBudget {
    limit: u64,
    spent: Cell<u64>,
}

/// Why a search has no result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SearchError {
    Store(StoreError),
    /// The request needs more work than [`MAX_WORK`].
    TooMuchWork,
}

impl From<StoreError> for SearchError {
    fn from(error: StoreError) -> Self {
        SearchError::Store(error)
    }
}

impl SearchError {
    /// For searches without a limit.
    pub fn into_store_error(self) -> StoreError {
        match self {
            SearchError::Store(error) => error,
            SearchError::TooMuchWork => StoreError::Other("a search without a limit of work met one".into()),
        }
    }
}

impl WorkBudget {
    pub fn new(limit: u64) -> Self {
        WorkBudget { limit, spent: Cell::new(0) }
    }

    pub fn unlimited() -> Self {
        WorkBudget::new(u64::MAX)
    }

    pub fn spent(&self) -> u64 {
        self.spent.get()
    }

    #[inline]
    pub fn spend(&self, steps: u64) -> Result<(), SearchError> {
        let spent = self.spent.get().saturating_add(steps);
        self.spent.set(spent);
        if spent <= self.limit { Ok(()) } else { Err(SearchError::TooMuchWork) }
    }

    /// A text of so many bytes is searched.
    pub fn spend_search(&self, bytes: usize) -> Result<(), SearchError> {
        self.spend((bytes / SEARCHED_IN_A_STEP) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_ends_at_its_limit() {
        let work = WorkBudget::new(10);
        assert_eq!((work.spend(4), work.spend_search(24)), (Ok(()), Ok(())));
        assert_eq!((work.spent(), work.spend(1)), (10, Err(SearchError::TooMuchWork)));
        assert_eq!(WorkBudget::unlimited().spend(u64::MAX - 1), Ok(()));
    }
}
