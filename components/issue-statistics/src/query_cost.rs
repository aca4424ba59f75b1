//! The cost of a query: how much of the index it reads. It estimates processor time, but is the same for every
//! repetition, whatever is cached. One unit is about one byte of an encoded list.

use kit::store::StoreError;
use std::cell::Cell;

/// The variable for the highest cost of a request, in units.
pub const MAX_COST: &str = "issues_max_work";

/// The default of [`MAX_COST`]: about a second of one core.
pub const DEFAULT_MAX_COST: u64 = 500_000_000;

/// The cost of looking up one key of a table.
pub const LOOKUP_COST: u64 = 500;

/// The cost of deciding about one project of a segment, in addition to the bytes of its documents.
pub const PROJECT_COST: u64 = 50;

/// How many searched bytes of text cost one unit.
const SEARCHED_BYTES_PER_UNIT: usize = 4;

/// The cost of a request so far, in units, and its limit.
pub struct QueryCost {
    limit: u64,
    total: Cell<u64>,
}

/// The reason why a search failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SearchError {
    Store(StoreError),
    /// The request costs more than [`MAX_COST`].
    CostExceeded,
}

impl From<StoreError> for SearchError {
    fn from(error: StoreError) -> Self {
        SearchError::Store(error)
    }
}

impl SearchError {
    /// The error of a search without a limit.
    pub fn into_store_error(self) -> StoreError {
        match self {
            SearchError::Store(error) => error,
            SearchError::CostExceeded => StoreError::Other("an unlimited search exceeded a limit of cost".into()),
        }
    }
}

impl QueryCost {
    pub fn new(limit: u64) -> Self {
        QueryCost { limit, total: Cell::new(0) }
    }

    pub fn unlimited() -> Self {
        QueryCost::new(u64::MAX)
    }

    pub fn total(&self) -> u64 {
        self.total.get()
    }

    /// Adds to the cost; an error if it exceeds the limit.
    #[inline]
    pub fn add(&self, cost: u64) -> Result<(), SearchError> {
        let total = self.total.get().saturating_add(cost);
        self.total.set(total);
        if total <= self.limit { Ok(()) } else { Err(SearchError::CostExceeded) }
    }

    /// Adds the cost of searching a text of `bytes` bytes.
    pub fn add_search(&self, bytes: usize) -> Result<(), SearchError> {
        self.add((bytes / SEARCHED_BYTES_PER_UNIT) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cost_beyond_the_limit_is_an_error() {
        let cost = QueryCost::new(10);
        assert_eq!((cost.add(4), cost.add_search(24)), (Ok(()), Ok(())));
        assert_eq!((cost.total(), cost.add(1)), (10, Err(SearchError::CostExceeded)));
        assert_eq!(QueryCost::unlimited().add(u64::MAX - 1), Ok(()));
    }
}
