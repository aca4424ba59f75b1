//! git's object format. A tree is edited in its serialized bytes, so that modes, order and names stay
//! exactly as git wrote them.

mod commit;
mod id;
mod links;
mod object;
mod tree;

pub use commit::{Commit, Signature, strip_crud};
pub use id::ObjectId;
pub use links::{Link, parse_links};
pub use object::{Object, ObjectKind, id_from_hasher, parse_header};
pub use tree::Tree;
