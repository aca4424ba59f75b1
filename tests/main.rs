//! What only the whole can show.
//!
//! | ring | asks |
//! |---|---|
//! | [`contracts`] | do the manifest, the worlds and the crates agree with one another? |
//! | [`host`] | what holds when the process dies, and when many come at once? |
//! | [`clients`] | do the programs that people use agree? |

mod clients;
mod contracts;
mod host;
