//! One change between two versions.

use std::ops::Range;

/// Lines that were replaced. The numbers are from 0. Of an insertion `before` is empty, of a deletion `after`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunk {
    pub before: Range<u64>,
    pub after: Range<u64>,
}
