//! Incarnations: they distinguish users, groups or projects that had an id one after another.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The incarnation of a record. The first record with an id has an empty one. Each record that is created after a
/// deletion has a new one. A record's dependents (its tokens, its packages) name the incarnation, so the next record
/// with the id does not get them.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Incarnation(Option<String>);

impl Incarnation {
    /// The incarnation with a new id ([`kit::id`]).
    pub fn new(id: String) -> Self {
        Incarnation(Some(id))
    }

    pub fn is_first(&self) -> bool {
        self.0.is_none()
    }

    /// The id; `None` for the first incarnation.
    pub fn id(&self) -> Option<&str> {
        self.0.as_deref()
    }
}

/// `-` and the id, for the end of a key; empty for the first incarnation.
impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(id) => write!(f, "-{id}"),
            None => Ok(()),
        }
    }
}
