//! Two semispaces for objects, so that unreachable objects can be removed.
//!
//! The key of an object is the hash of its contents and tells no age. A writer that finds an object in the store and
//! relies on it leaves no trace. So writers write to, and rely on, the *current* semispace only, and a sweep removes
//! from the other one only. The semispaces exchange roles (flip). A sweep follows a flip after a day at the earliest,
//! when every request that relied on the swept semispace has long put its objects below a ref. Readers look into both.
//!
//! The flip happens at the beginning of a run of [`kit::gc`], if the last sweep ended more than
//! [`kit::gc::GRACE`] before. So no step of a delayed run still sweeps the semispace that becomes current.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Semispace {
    #[default]
    First,
    Second,
}

impl Semispace {
    pub const BOTH: [Semispace; 2] = [Semispace::First, Semispace::Second];

    pub fn other(self) -> Self {
        match self {
            Semispace::First => Semispace::Second,
            Semispace::Second => Semispace::First,
        }
    }
}
