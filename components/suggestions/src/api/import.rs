//! Imports, for administrators: merge requests, objects and refs. Each can be repeated and interrupted
//! anywhere.

mod cat_file;
mod merge_requests;
mod objects;
mod packs;
mod refs;

pub use merge_requests::merge_requests;
pub use objects::objects;
pub use packs::{known, pack};
pub use refs::refs;
