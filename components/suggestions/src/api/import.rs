//! Imports, for administrators: merge requests, objects and refs. Each can be repeated and interrupted anywhere.

mod merge_requests;
mod objects;
mod refs;

pub use merge_requests::merge_requests;
pub use objects::{known, objects, pack};
pub use refs::refs;
