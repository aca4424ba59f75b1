//! git's object format: what its ids are made of. Every byte that git wrote is kept: a tree is
//! edited where it lies, so that modes, order and names stay as they were.

mod commit;
mod id;
mod links;
mod object;
mod tree;

pub use commit::{Commit, Signature, clean};
pub use id::Id;
pub use links::{Link, links};
pub use object::{Kind, Object, finish, read_header};
pub use tree::Tree;
