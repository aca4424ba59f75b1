//! The deltas of a pack that is being received, by their bases.

use super::received::{ReceivedBase, ReceivedEntry};
use crate::git::ObjectId;
use std::collections::BTreeMap;

/// The deltas that were not applied yet.
pub struct Deltas {
    /// Base and delta, sorted.
    by_entry: Vec<(u32, u32)>,
    /// Deltas whose base is named by its id.
    pub by_id: BTreeMap<ObjectId, Vec<u32>>,
}

impl Deltas {
    pub fn of(entries: &[ReceivedEntry]) -> Self {
        let mut deltas = Deltas { by_entry: Vec::new(), by_id: BTreeMap::new() };
        for (number, entry) in (0..).zip(entries) {
            match entry.base {
                ReceivedBase::None => {}
                ReceivedBase::Entry(base) => deltas.by_entry.push((base, number)),
                ReceivedBase::Id(id) => deltas.by_id.entry(id).or_default().push(number),
            }
        }
        deltas.by_entry.sort_unstable();
        deltas
    }

    /// Whether an entry, which is this object, has deltas.
    pub fn has(&self, entry: u32, id: ObjectId) -> bool {
        self.by_id.contains_key(&id) || self.by_entry.binary_search_by_key(&entry, |(base, _)| *base).is_ok()
    }

    /// Removes and returns the deltas of an object.
    pub fn take(&mut self, entry: u32, id: ObjectId) -> Vec<u32> {
        let start = self.by_entry.partition_point(|(base, _)| *base < entry);
        let by_entry = self.by_entry.iter().skip(start).take_while(|(base, _)| *base == entry);
        let mut deltas: Vec<u32> = by_entry.map(|(_, delta)| *delta).collect();
        deltas.extend(self.by_id.remove(&id).unwrap_or_default());
        deltas
    }
}
