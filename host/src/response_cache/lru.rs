//! Answers in bounded memory: what was not asked for lately goes first.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use lru::LruCache;

use super::{Answer, Key};

/// Parts of a table, each with a lock, so that threads rarely meet.
pub struct Shelf {
    parts: Box<[Mutex<Part>]>,
    /// Bytes that the answers of one part may take.
    room: usize,
}

struct Part {
    answers: LruCache<Key, Arc<Answer>>,
    /// What the answers take.
    bytes: usize,
}

impl Shelf {
    /// `memory` is in bytes, for all parts together.
    pub fn new(parts: usize, memory: usize) -> Self {
        let part = || Mutex::new(Part { answers: LruCache::unbounded(), bytes: 0 });
        Self { parts: (0..parts).map(|_| part()).collect(), room: memory / parts.max(1) }
    }

    pub fn get(&self, key: &Key) -> Option<Arc<Answer>> {
        self.part(key)?.answers.get(key).cloned()
    }

    pub fn put(&self, key: Key, answer: Arc<Answer>) {
        let Some(mut part) = self.part(&key) else {
            return;
        };
        part.bytes += answer.bytes();
        if let Some((_, replaced)) = part.answers.push(key, answer) {
            part.bytes = part.bytes.saturating_sub(replaced.bytes());
        }
        while part.bytes > self.room
            && let Some((_, oldest)) = part.answers.pop_lru()
        {
            part.bytes = part.bytes.saturating_sub(oldest.bytes());
        }
    }

    /// How many answers there are, and the bytes that they take.
    pub fn size(&self) -> (usize, usize) {
        let parts = self.parts.iter().map(|part| part.lock().unwrap_or_else(PoisonError::into_inner));
        parts.fold((0, 0), |(answers, bytes), part| (answers + part.answers.len(), bytes + part.bytes))
    }

    fn part(&self, key: &Key) -> Option<MutexGuard<'_, Part>> {
        let part = self.parts.get(usize::from(key.0[0]) % self.parts.len().max(1))?;
        Some(part.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
