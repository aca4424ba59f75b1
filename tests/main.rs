//! What only the whole can show.
//!
//! | ring | asks |
//! |---|---|
//! | [`contracts`] | do the manifest, the worlds and the crates agree with one another? |
//! | [`areas`] | does each shipped component do it, with the manifest's own grants? |
//! | [`host`] | what holds when the process dies, and when many come at once? |
//! | [`clients`] | do the programs that people use agree? |

mod areas;
mod clients;
mod contracts;
mod host;
