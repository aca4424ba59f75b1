//! The commands of a code forge that runs on [`hexad`]. They manage the data of its areas, tokens and the demo.
//!
//! | module | command |
//! |---|---|
//! | `up`, `demo` | `hexad up`, with `--demo` |
//! | `import`, `import_git` | `hexad import`, `hexad import-git` |
//! | `repack` | `hexad repack` |
//! | `token` | `hexad token` |
//! | `records` | `hexad user`, `hexad group`, `hexad project` |
//! | `gc`, `fsck`, `maintenance` | `hexad gc`, `hexad fsck`, and their common steps |
//! | `store` | `hexad store copy` |
//! | `server` | the HTTP client of these commands |
//! | `progress`, `list`, `text` | progress bars, lists and counts on the terminal |

mod demo;
mod fsck;
mod gc;
mod import;
mod import_git;
mod list;
mod maintenance;
mod progress;
mod records;
mod repack;
mod server;
mod store;
mod text;
mod token;
mod up;
#[cfg(test)]
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../../host/testing/src/wait.rs"]
mod wait;

pub use fsck::Fsck;
pub use gc::Gc;
pub use import::Import;
pub use import_git::ImportGit;
pub use records::{Group, Project, User};
pub use repack::Repack;
pub use store::Store;
pub use token::Token;
pub use up::UpWithDemo;
