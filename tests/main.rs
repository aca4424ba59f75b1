//! Tests of the whole: the shipped program, the built components and the project's own manifest.
//!
//! | module | tests |
//! |---|---|
//! | [`contracts`] | that the manifest, the worlds, the crates and the documents agree with one another |
//! | [`areas`] | the behaviour of each area, with the manifest's own grants |
//! | [`host`] | the host when the process is killed, and when many clients come at once |
//! | [`console`] | the pages, in a real browser |
//! | [`clients`] | npm, pnpm, yarn, bun, git and API clients |
//! | [`tutorials`] | the pages in `docs/tutorials`, as they are printed |

mod areas;
mod clients;
mod console;
mod contracts;
mod host;
mod tutorials;
