//! Two spaces for objects, so that objects that nothing reaches can be removed.
//!
//! The key of an object is the hash of its contents and tells no age, and whoever writes an object
//! that is there already, or relies on it, leaves no trace. So writers write to, and rely on, only
//! the space that is *current*, and the removal of garbage sweeps only the other one. The spaces
//! change roles; a space is swept at the earliest [`REST`] after that, when everybody who relied on
//! it has long put what they wrote below a branch. Readers look into both.
//!
//! Spaces change roles at the beginning of a run of [`kit::gc`], if the last sweep has ended
//! [`GRACE`] before. So no step of a run that has lingered is under way in a space that becomes
//! current.

use super::Key;
use kit::gc::{GRACE, LONGEST_WRITE};
use kit::root::{self, Decision};
use kit::store::StoreError;
use kit::{Env, Timestamp};
use serde::{Deserialize, Serialize};

/// How long, in milliseconds, a space is not current before it is swept.
pub const REST: i64 = 24 * 60 * 60 * 1000;

/// How long, in milliseconds, it may take from an object being sent until a branch has it.
pub const LONGEST_IMPORT: i64 = REST / 2;

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Space {
    #[default]
    First,
    Second,
}

impl Space {
    pub const BOTH: [Space; 2] = [Space::First, Space::Second];

    pub fn other(self) -> Self {
        match self {
            Space::First => Space::Second,
            Space::Second => Space::First,
        }
    }
}

/// Which space is current, and since when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Turn {
    pub current: Space,
    pub since: Timestamp,
    /// When the sweep of the other one ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    swept: Option<Timestamp>,
}

impl Turn {
    /// Whether a run that began at this moment sweeps the space that is not current.
    pub fn sweeps(&self, began: Timestamp) -> bool {
        self.swept.is_none() && began.millis() - self.since.millis() >= REST
    }

    /// Whether what was in the other space when the spaces changed roles is still to be relied on.
    pub fn is_recent(&self, now: Timestamp) -> bool {
        (now.millis() - self.since.millis()).abs() < LONGEST_IMPORT
    }
}

/// The turn that it is; `None` before the first. 1 read.
pub fn turn(env: &Env) -> Result<Option<Turn>, StoreError> {
    root::read(&*env.store, &Key::Space.to_string())
}

/// The space to write to, and to rely on. 1 read.
pub fn current(env: &Env) -> Result<Space, StoreError> {
    Ok(turn(env)?.map_or(Space::First, |turn| turn.current))
}

/// Has the spaces change roles if the other one was swept some time ago.
pub fn change_roles(env: &Env) -> Result<(), StoreError> {
    root::update(&*env.store, &Key::Space.to_string(), |turn: Option<Turn>| {
        let next =
            Turn { current: turn.map_or(Space::First, |turn| turn.current).other(), since: env.now, swept: None };
        let is_due = match turn {
            None => true,
            Some(turn) => turn.swept.is_some_and(|swept| env.now.millis() - swept.millis() > GRACE),
        };
        Ok(if is_due { Decision::Write(next, ()) } else { Decision::Done(()) })
    })
}

/// Records that the space that is not current in this turn was swept.
pub fn has_swept(env: &Env, swept: &Turn) -> Result<(), StoreError> {
    root::update(&*env.store, &Key::Space.to_string(), |turn: Option<Turn>| {
        Ok(match turn.filter(|turn| turn == swept) {
            Some(turn) => Decision::Write(Turn { swept: Some(env.now), ..turn }, ()),
            None => Decision::Done(()),
        })
    })
}

/// Refuses an import that takes so long that what it sent may be swept before a branch has it.
pub fn in_time(env: &Env) -> Result<(), StoreError> {
    let took = (env.clock.now().millis() - env.now.millis()).abs();
    if took > LONGEST_IMPORT - LONGEST_WRITE { Err(StoreError::TooLate) } else { Ok(()) }
}
