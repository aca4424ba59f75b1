//! The roles of the two semispaces: which one is current, and when they flip.

use super::key::Key;
use crate::store::key::Semispace;
use kit::gc::{GRACE, LONGEST_WRITE};
use kit::root::{self, Decision};
use kit::store::StoreError;
use kit::{Env, Timestamp};
use serde::{Deserialize, Serialize};

/// The time from a flip to the earliest sweep, in milliseconds.
pub const SWEEP_DELAY: i64 = 24 * 60 * 60 * 1000;

/// The longest time from the upload of an object until a ref reaches it, in milliseconds.
pub const LONGEST_IMPORT: i64 = SWEEP_DELAY / 2;

/// Which semispace is current, and since when.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct SemispaceRoles {
    pub current: Semispace,
    /// The time of the flip.
    pub since: Timestamp,
    /// The time when the sweep of the other semispace ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    swept: Option<Timestamp>,
}

impl SemispaceRoles {
    /// Whether a run that began at this time sweeps the semispace that is not current.
    pub fn is_sweep_due(&self, began: Timestamp) -> bool {
        self.swept.is_none() && began.millis() - self.since.millis() >= SWEEP_DELAY
    }

    /// Whether the flip is so recent that objects of the other semispace may still be relied on.
    pub fn is_recent(&self, now: Timestamp) -> bool {
        (now.millis() - self.since.millis()).abs() < LONGEST_IMPORT
    }
}

/// The present roles; `None` before the first flip. 1 read.
pub fn read(env: &Env) -> Result<Option<SemispaceRoles>, StoreError> {
    root::read(&*env.store, &Key::SemispaceRoles.to_string())
}

/// The semispace to write to, and to rely on. 1 read.
pub fn read_current(env: &Env) -> Result<Semispace, StoreError> {
    Ok(read(env)?.map_or(Semispace::First, |roles| roles.current))
}

/// Exchanges the roles if the sweep of the other semispace ended more than [`GRACE`] ago.
pub fn flip(env: &Env) -> Result<(), StoreError> {
    root::update(env, &Key::SemispaceRoles.to_string(), |roles: Option<SemispaceRoles>| {
        let current = roles.map_or(Semispace::First, |roles| roles.current).other();
        let next = SemispaceRoles { current, since: env.now, swept: None };
        let is_due = match roles {
            None => true,
            Some(roles) => roles.swept.is_some_and(|swept| env.now.millis() - swept.millis() > GRACE),
        };
        Ok(if is_due { Decision::Replace(next, ()) } else { Decision::Keep(()) })
    })
}

/// Records the end of a sweep, unless the semispaces flipped meanwhile.
pub fn record_sweep(env: &Env, swept: &SemispaceRoles) -> Result<(), StoreError> {
    root::update(env, &Key::SemispaceRoles.to_string(), |roles: Option<SemispaceRoles>| {
        Ok(match roles.filter(|roles| roles == swept) {
            Some(roles) => Decision::Replace(SemispaceRoles { swept: Some(env.now), ..roles }, ()),
            None => Decision::Keep(()),
        })
    })
}

/// Fails if an import has taken so long that its objects may be swept before a ref reaches them.
pub fn check_import_age(env: &Env) -> Result<(), StoreError> {
    let age = (env.clock.now().millis() - env.now.millis()).abs();
    if age > LONGEST_IMPORT - LONGEST_WRITE { Err(StoreError::TooLate) } else { Ok(()) }
}
