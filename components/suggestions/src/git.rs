//! git's object format. A tree is edited in its serialized bytes, so that modes, order and names stay
//! exactly as git wrote them.

mod commit;
pub mod fsck;
mod id;
mod object;
pub mod pack_entry;
pub mod pktline;
mod ref_name;
mod special_file;
mod tree;

pub use commit::{Commit, CommitText, Signature, strip_crud};
pub use id::ObjectId;
pub use object::{Link, Object, ObjectKind, id_from_hasher, parse_header, parse_links};
pub use ref_name::{MAX_REF_NAME, explain_ambiguity, find_ambiguity, is_branch_or_tag, is_ref_name};
pub use special_file::SpecialFile;
pub use tree::Tree;
