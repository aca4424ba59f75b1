//! Sets of rows.

/// A set of row numbers, as a bitmap.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rows(Vec<u64>);

impl Rows {
    pub(super) fn empty(rows: usize) -> Self {
        Rows(vec![0; rows.div_ceil(64)])
    }

    pub(super) fn add(&mut self, row: usize) {
        if let Some(word) = self.0.get_mut(row / 64) {
            *word |= 1 << (row % 64);
        }
    }

    pub(super) fn contains(&self, row: usize) -> bool {
        self.0.get(row / 64).is_some_and(|word| word >> (row % 64) & 1 == 1)
    }

    pub(super) fn intersect(&mut self, other: &Rows) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word &= other);
    }

    pub(super) fn union(&mut self, other: &Rows) {
        self.0.iter_mut().zip(&other.0).for_each(|(word, other)| *word |= other);
    }

    /// The rows, ascending.
    pub fn iter(&self) -> impl Iterator<Item = usize> {
        self.0.iter().enumerate().flat_map(|(at, word)| {
            let mut left = *word;
            std::iter::from_fn(move || {
                let bit = left.trailing_zeros();
                left &= left.checked_sub(1)?;
                Some(at * 64 + bit as usize)
            })
        })
    }
}
