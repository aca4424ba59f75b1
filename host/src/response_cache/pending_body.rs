//! Large bodies while they are being recorded: a few at once, each by one request only. Many who
//! ask for the same at the same moment share what is not yet remembered in no other way, and
//! clients that stop reading must not keep what they have had so far in memory.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use bytes::Bytes;

use super::Key;

/// Large bodies that are recorded at once.
const AT_ONCE: usize = 4;

/// A part of a large body.
pub struct Draft {
    key: Key,
    /// When the answer would be too old to be said.
    until: Instant,
    chunks: Mutex<Vec<Bytes>>,
}

/// Keeps all drafts. Their writers do not, so that one who takes too long can be dropped.
#[derive(Default)]
pub struct Drafts(Mutex<Vec<Arc<Draft>>>);

impl Drafts {
    /// A draft that begins with these chunks, unless somebody writes the same already or there are
    /// too many. What has become too old meanwhile makes room.
    pub fn begin(&self, key: Key, until: Instant, chunks: Vec<Bytes>) -> Option<Weak<Draft>> {
        let now = Instant::now();
        let mut drafts = self.lock();
        drafts.retain(|draft| draft.until > now);
        if drafts.len() >= AT_ONCE || drafts.iter().any(|draft| draft.key == key) {
            return None;
        }
        let draft = Arc::new(Draft { key, until, chunks: Mutex::new(chunks) });
        let weak = Arc::downgrade(&draft);
        drafts.push(draft);
        Some(weak)
    }

    /// Ends a draft; its chunks, if it is still there.
    pub fn end(&self, draft: &Weak<Draft>) -> Option<Vec<Bytes>> {
        let draft = draft.upgrade()?;
        self.lock().retain(|other| !Arc::ptr_eq(other, &draft));
        Some(std::mem::take(&mut *draft.lock()))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Draft>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Draft {
    pub fn push(&self, chunk: Bytes) {
        self.lock().push(chunk);
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Bytes>> {
        self.chunks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn key(number: u8) -> Key {
        Key([number; 32])
    }

    #[test]
    fn the_same_is_written_once_and_only_a_few_at_all() {
        let drafts = Drafts::default();
        let until = Instant::now() + Duration::from_secs(3600);
        let first = drafts.begin(key(0), until, vec![Bytes::from_static(b"a")]).unwrap();
        assert!(drafts.begin(key(0), until, Vec::new()).is_none());
        let others: Vec<_> = (1..AT_ONCE as u8).map(|n| drafts.begin(key(n), until, Vec::new()).unwrap()).collect();
        assert!(drafts.begin(key(99), until, Vec::new()).is_none());
        first.upgrade().unwrap().push(Bytes::from_static(b"b"));
        assert_eq!(drafts.end(&first).unwrap(), ["a", "b"]);
        assert!(drafts.end(&first).is_none());
        assert!(drafts.begin(key(0), until, Vec::new()).is_some());
        assert!(drafts.end(&others[0]).unwrap().is_empty());
    }

    #[test]
    fn one_that_takes_too_long_is_dropped_for_another() {
        let drafts = Drafts::default();
        let slow: Vec<_> =
            (0..AT_ONCE as u8).map(|n| drafts.begin(key(n), Instant::now(), vec![Bytes::new()]).unwrap()).collect();
        let other = drafts.begin(key(0), Instant::now() + Duration::from_secs(3600), Vec::new());
        assert!(other.is_some_and(|other| other.upgrade().is_some()));
        assert!(slow.iter().all(|slow| slow.upgrade().is_none() && drafts.end(slow).is_none()));
    }
}
