//! Finds the documents of positions in a batch. Most terms of logs occur once. So a batch has hundreds of thousands of
//! short lists, in no order.

use super::term_table::TermTable;
use crate::segment::positions;
use crate::segment::postings::PostingList;

/// The document of the first position in each bucket, so that a look-up takes a step or two.
pub struct DocumentMap<'a> {
    starts: &'a [u32],
    /// The document of the first position in each bucket. A bucket has about as many positions as the average document.
    buckets: Vec<u32>,
    /// The binary logarithm of the number of positions in a bucket.
    shift: u32,
}

impl<'a> DocumentMap<'a> {
    /// `starts` has the first position of each document, and then the position after the last document.
    pub fn new(starts: &'a [u32]) -> Self {
        let (documents, end) = match starts {
            [documents @ .., end] => (documents, *end),
            [] => (starts, 0),
        };
        let shift = (end / documents.len().max(1) as u32).checked_ilog2().unwrap_or_default();
        let mut buckets = Vec::new();
        let mut document = 0;
        for first in (0..end).step_by(1 << shift) {
            while starts.get(document + 1).is_some_and(|next| *next <= first) {
                document += 1;
            }
            buckets.push(document as u32);
        }
        DocumentMap { starts, buckets, shift }
    }

    /// The document of a position, and the first position of the next document.
    pub fn document_of(&self, position: u32) -> (u32, u32) {
        let bucket = (position >> self.shift) as usize;
        let first = self.buckets.get(bucket).copied().unwrap_or_default();
        let last = self.buckets.get(bucket + 1).map_or(self.starts.len(), |document| *document as usize + 1);
        let later = self.starts.get(first as usize + 1..last).unwrap_or_default();
        let document = first + later.partition_point(|start| *start <= position) as u32;
        (document, self.starts.get(document as usize + 1).copied().unwrap_or(u32::MAX))
    }

    /// Replaces `list` by the occurrences of a term.
    pub fn read_list(&self, terms: &TermTable, number: u32, list: &mut PostingList) {
        list.clear();
        terms.read(number, &mut list.positions);
        list.position_count = terms.count(number);
        let PostingList { documents, positions, last_position, .. } = list;
        let mut end = 0;
        // `None` means damaged positions. These were encoded here.
        let _ = positions::for_each(positions, |position| {
            if position >= end {
                let document;
                (document, end) = self.document_of(position);
                documents.push(document);
            }
            *last_position = position;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_position_is_in_its_document() {
        let uneven: Vec<u32> = (0..500).map(|number| if number == 300 { 20_000 } else { number % 3 }).collect();
        for lengths in [vec![], vec![0], vec![7], vec![0, 5, 0, 0, 1, 70, 3], vec![0; 100], uneven] {
            let mut starts = vec![0];
            lengths.iter().for_each(|length| starts.push(starts.last().unwrap() + length + 1));
            let map = DocumentMap::new(&starts);
            assert!(map.buckets.len() <= 2 * starts.len(), "{} for {}", map.buckets.len(), starts.len());
            for (document, range) in starts.windows(2).enumerate() {
                for position in range[0]..range[1] {
                    assert_eq!(map.document_of(position), (document as u32, range[1]), "{position} of {lengths:?}");
                }
            }
        }
    }
}
