//! The index: its segments, and what of them was superseded. This is the root; everything else that
//! is stored is a blob.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Index {
    /// Changes with every change.
    #[serde(default)]
    pub revision: String,
    /// In the order in which they came.
    #[serde(default)]
    pub segments: Vec<Entry>,
    /// The ids of the latest segments that were added or merged, by which a change knows that it
    /// took place already.
    #[serde(default)]
    pub recent: Vec<String>,
    /// What was replaced and is to be deleted.
    #[serde(default)]
    pub retired: Vec<Retired>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub id: String,
    /// How many documents its tables have.
    pub documents: u32,
    /// How many places its texts have.
    #[serde(default)]
    pub places: u64,
    /// Those that were superseded since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dead: Option<Dead>,
}

/// A set of documents of one segment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dead {
    pub id: String,
    pub count: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Retired {
    Segment(String),
    Dead(String),
}

/// How many changes are remembered. Only as many as may come between a swap and the look whether it
/// took place.
const RECENT: usize = 32;

/// So many neighbours of about the same size become one.
const FAN: usize = 4;

/// At most so many are merged at once: each needs some memory.
const MAX_FAN: usize = 16;

/// A segment does not become larger than this, in documents, so that a merge takes seconds at most
/// and the request that does it is answered. Beyond a million issues there is a segment for each
/// further million.
const MAX_DOCUMENTS: u32 = 1 << 20;

/// Nor larger than this, in places: a search for a phrase needs two bits for each.
const MAX_PLACES: u64 = 1 << 28;

impl Entry {
    /// How many of its documents are not superseded.
    pub fn living(&self) -> u32 {
        self.documents - self.dead.as_ref().map_or(0, |dead| dead.count).min(self.documents)
    }

    /// Segments of one tier differ in size by less than [`FAN`] times.
    fn tier(&self) -> u32 {
        (self.living() / 16).max(1).ilog(FAN as u32)
    }
}

impl Index {
    /// Whether the change with this id took place.
    pub fn has(&self, id: &str) -> bool {
        self.recent.iter().any(|recent| recent == id)
    }

    /// Remembers that the change with this id takes place.
    pub fn note(&mut self, id: &str) {
        self.recent.push(id.to_owned());
        let excess = self.recent.len().saturating_sub(RECENT);
        self.recent.drain(..excess);
    }

    /// The segments with these ids, if they all are there, one after the other: where they begin.
    pub fn find_run(&self, ids: &[String]) -> Option<usize> {
        let windows = self.segments.windows(ids.len().max(1));
        windows.enumerate().find(|(_, run)| run.iter().map(|entry| &entry.id).eq(ids)).map(|(at, _)| at)
    }

    /// Segments that should be merged next: neighbours of about the same size or smaller, or one of
    /// which more than half is superseded.
    pub fn run_to_merge(&self) -> Option<&[Entry]> {
        let worn = |entry: &&Entry| entry.living() < entry.documents.div_ceil(2);
        if let Some(entry) = self.segments.iter().find(worn) {
            return Some(std::slice::from_ref(entry));
        }
        let highest = self.segments.iter().map(Entry::tier).max()?;
        (0..=highest)
            .find_map(|tier| self.segments.chunk_by(|_, next| next.tier() <= tier).find_map(|run| within(run, tier)))
    }
}

/// The first neighbours of a tier that may be merged, if they are enough.
fn within(run: &[Entry], tier: u32) -> Option<&[Entry]> {
    let run = match run.split_first() {
        Some((first, rest)) if first.tier() > tier => rest,
        _ => run,
    };
    if run.iter().filter(|entry| entry.tier() == tier).count() < FAN {
        return None;
    }
    let (mut documents, mut places) = (0_u32, 0_u64);
    let fits = |entry: &&Entry| {
        documents = documents.saturating_add(entry.living());
        places = places.saturating_add(entry.places);
        documents <= MAX_DOCUMENTS && places <= MAX_PLACES
    };
    let count = run.iter().take(MAX_FAN).take_while(fits).count();
    // Segments that are too large together stay as they are.
    if count >= 2 { run.get(..count) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(number: u32, documents: u32) -> Entry {
        Entry { id: format!("s{number}"), documents, places: 60 * u64::from(documents), dead: None }
    }

    fn index(sizes: &[u32]) -> Index {
        let segments = (0..).zip(sizes).map(|(number, size)| entry(number, *size)).collect();
        Index { segments, ..Index::default() }
    }

    fn run(sizes: &[u32]) -> Option<Vec<u32>> {
        index(sizes).run_to_merge().map(|run| run.iter().map(|entry| entry.documents).collect())
    }

    #[test]
    fn neighbours_of_one_size_are_merged() {
        assert_eq!(run(&[]), None);
        assert_eq!(run(&[1, 1, 1]), None);
        assert_eq!(run(&[1, 1, 1, 1]), Some(vec![1; 4]));
        assert_eq!(run(&[70_000, 1, 1, 1]), None);
        assert_eq!(run(&[70_000, 1, 1, 1, 2]), Some(vec![1, 1, 1, 2]));
        assert_eq!(run(&[70_000, 70_000, 1, 70_000]), None);
        assert_eq!(run(&[70_000, 70_000, 1, 70_000, 70_000]), Some(vec![70_000, 70_000, 1, 70_000, 70_000]));
        assert_eq!(run(&[1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20]), None);
        let mut long = index(&[1000; 5]);
        long.segments.iter_mut().for_each(|entry| entry.places = MAX_PLACES / 3);
        assert_eq!(long.run_to_merge().map(<[Entry]>::len), Some(3));
        long.segments.iter_mut().for_each(|entry| entry.places = MAX_PLACES);
        assert_eq!(long.run_to_merge(), None);
    }

    #[test]
    fn one_by_one_there_are_few_segments_and_little_is_rewritten() {
        let mut index = Index::default();
        let (mut rewritten, mut most) = (0_u64, 0);
        for number in 0..20_000 {
            index.segments.push(entry(number, 1));
            while let Some(run) = index.run_to_merge() {
                let ids: Vec<String> = run.iter().map(|entry| entry.id.clone()).collect();
                let documents: u32 = run.iter().map(|entry| entry.documents).sum();
                rewritten += u64::from(documents);
                let at = index.find_run(&ids).unwrap();
                let merged = Entry { documents, ..index.segments[at].clone() };
                index.segments.splice(at..at + ids.len(), [merged]);
            }
            most = most.max(index.segments.len());
        }
        assert!(most < 40, "{most} segments");
        assert!(rewritten < 20_000 * 20, "{rewritten} documents");
    }

    #[test]
    fn what_is_mostly_superseded_is_rewritten() {
        let mut index = index(&[100, 1000]);
        index.segments[0].dead = Some(Dead { id: "d".into(), count: 50 });
        assert_eq!(index.run_to_merge(), None);
        index.segments[0].dead = Some(Dead { id: "d".into(), count: 51 });
        assert_eq!(index.run_to_merge().map(<[Entry]>::len), Some(1));
    }

    #[test]
    fn segments_are_found_in_their_order() {
        let mut index = index(&[10, 10, 10]);
        let ids = |ids: &[&str]| ids.iter().map(|id| (*id).to_owned()).collect::<Vec<_>>();
        assert_eq!(index.find_run(&ids(&["s1", "s2"])), Some(1));
        assert_eq!(index.find_run(&ids(&["s0", "s2"])), None);
        (0..40).for_each(|number| index.note(&number.to_string()));
        assert!(index.has("39") && index.has("8") && !index.has("7"));
    }
}
