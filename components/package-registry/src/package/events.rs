//! The last changes of a package.

/// Ids of changes, oldest first, each after a line feed. One text, because every request reads a
/// package and few requests need more than the last id.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Events(String);

impl Events {
    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.0.split('\n').skip(1)
    }

    /// The last id; empty without changes.
    pub fn last(&self) -> &str {
        self.0.rsplit('\n').next().unwrap_or_default()
    }

    /// The id before the last `age` ids; `None` if it is forgotten.
    pub fn before_last(&self, age: usize) -> Option<&str> {
        self.0.rsplit('\n').nth(age).filter(|event| !event.is_empty())
    }

    /// Adds a change. No id has a line feed.
    pub fn push(&mut self, event: &str) {
        self.0.push('\n');
        self.0.push_str(event);
    }

    /// Forgets all but the last `count`.
    pub fn keep(&mut self, count: usize) {
        if let Some((at, _)) = self.0.rmatch_indices('\n').nth(count.saturating_sub(1)) {
            self.0.drain(..at);
        }
    }
}
