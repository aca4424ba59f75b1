//! Small values that a shard has read lately, and that there are none, so that what every request
//! asks for (who is calling, settings, roots) is not looked up in the database each time.
//!
//! A value from here is the one that the database would give at this moment: [`Changes`] marks a
//! commit's keys before the commit can be seen, so whoever has seen anything of a commit finds
//! nothing here that is older. What another program writes to the file is not marked; a value is
//! kept for a second at most, so that it is not missed for longer.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use lru::LruCache;

use super::{Changes, Key, Place};

/// How long a value is believed.
const AGE: Duration = Duration::from_secs(1);

/// The largest value that is kept, in bytes. Larger ones take longer to copy than to find.
const MOST: usize = 16 * 1024;

/// Bytes of all of them, of one shard.
const ROOM: usize = 4 * 1024 * 1024;

/// What a value costs beside its bytes and its key's.
const OVERHEAD: usize = 256;

/// The values of one shard. The mutex is never contended: it only makes the type shareable.
pub struct Recent(Mutex<State>);

struct State {
    values: LruCache<Key, Read>,
    bytes: usize,
}

struct Read {
    value: Option<Box<[u8]>>,
    place: Place,
    /// The last commit before it was read.
    commit: u64,
    at: Instant,
}

impl Default for Recent {
    fn default() -> Self {
        Self(Mutex::new(State { values: LruCache::unbounded(), bytes: 0 }))
    }
}

impl Recent {
    /// The present value of `key`, or that there is none; `None` if that is not known.
    pub fn get(&self, key: &Key, changes: &Changes, now: Instant) -> Option<Option<Vec<u8>>> {
        let mut state = self.state();
        let read = state.values.get(key)?;
        let holds = changes.untouched_since(read.commit, read.place) && now < read.at + AGE;
        holds.then(|| read.value.as_deref().map(<[u8]>::to_vec))
    }

    /// Keeps what was read of `key` at `now`, when `commit` was the last one.
    pub fn put(&self, key: &Key, value: Option<&[u8]>, changes: &Changes, commit: u64, now: Instant) {
        if value.map_or(0, <[u8]>::len) > MOST {
            return;
        }
        let mut state = self.state();
        let place = changes.place(key);
        state.bytes += cost(key, value);
        if let Some((key, replaced)) =
            state.values.push(key.clone(), Read { value: value.map(Into::into), place, commit, at: now })
        {
            state.bytes = state.bytes.saturating_sub(cost(&key, replaced.value.as_deref()));
        }
        while state.bytes > ROOM
            && let Some((key, oldest)) = state.values.pop_lru()
        {
            state.bytes = state.bytes.saturating_sub(cost(&key, oldest.value.as_deref()));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn cost(key: &Key, value: Option<&[u8]>) -> usize {
    OVERHEAD + key.key.len() + value.map_or(0, <[u8]>::len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn key(key: &str) -> Key {
        Key { store: Arc::from("default"), key: Arc::from(key) }
    }

    #[test]
    fn that_there_is_no_value_is_known_as_well() {
        let (recent, changes, now) = (Recent::default(), Changes::default(), Instant::now());
        recent.put(&key("a"), None, &changes, 0, now);
        assert_eq!(recent.get(&key("a"), &changes, now), Some(None));
        changes.committing(&[changes.place(&key("a"))]);
        assert_eq!(recent.get(&key("a"), &changes, now), None);
    }

    #[test]
    fn a_value_is_known_until_a_commit_changes_it() {
        let (recent, changes, now) = (Recent::default(), Changes::default(), Instant::now());
        assert_eq!(recent.get(&key("a"), &changes, now), None);
        recent.put(&key("a"), Some(b"1"), &changes, changes.now(), now);
        assert_eq!(recent.get(&key("a"), &changes, now).flatten().as_deref(), Some(&b"1"[..]));

        // A commit of this key begins: from here on, readers may see it.
        let places = [changes.place(&key("a"))];
        changes.committing(&places);
        assert_eq!(recent.get(&key("a"), &changes, now), None);
        // What is read meanwhile is the old value or the new one.
        recent.put(&key("a"), Some(b"1"), &changes, changes.now(), now);
        assert_eq!(recent.get(&key("a"), &changes, now), None);
        changes.committed(&places);
        assert_eq!(recent.get(&key("a"), &changes, now), None);
        recent.put(&key("a"), Some(b"2"), &changes, changes.now(), now);
        assert_eq!(recent.get(&key("a"), &changes, now).flatten().as_deref(), Some(&b"2"[..]));
    }

    #[test]
    fn what_another_program_writes_is_seen_after_a_second() {
        let (recent, changes, now) = (Recent::default(), Changes::default(), Instant::now());
        recent.put(&key("a"), Some(b"1"), &changes, 0, now);
        assert!(recent.get(&key("a"), &changes, now + AGE - Duration::from_nanos(1)).is_some());
        assert_eq!(recent.get(&key("a"), &changes, now + AGE), None);
    }

    #[test]
    fn it_takes_no_more_than_its_room() {
        let (recent, changes, now) = (Recent::default(), Changes::default(), Instant::now());
        recent.put(&key("large"), Some(&[0; MOST + 1]), &changes, 0, now);
        assert_eq!(recent.get(&key("large"), &changes, now), None);
        for number in 0..ROOM / MOST + 10 {
            recent.put(&key(&number.to_string()), Some(&[0; MOST]), &changes, 0, now);
            recent.put(&key(&number.to_string()), Some(&[1; MOST]), &changes, 0, now);
            recent.get(&key("0"), &changes, now);
        }
        assert!(recent.get(&key("0"), &changes, now).is_some(), "asked for lately");
        assert_eq!(recent.get(&key("1"), &changes, now), None);
        let state = recent.state();
        let bytes: usize = state.values.iter().map(|(key, read)| cost(key, read.value.as_deref())).sum();
        assert_eq!(state.bytes, bytes);
        assert!(bytes <= ROOM);
    }
}
