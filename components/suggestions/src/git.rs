//! git's object format. A tree is edited in its serialized bytes, so that modes, order and names stay
//! exactly as git wrote them.

mod commit;
mod commit_text;
pub mod delta;
pub mod fsck;
mod gitmodules;
mod id;
mod links;
mod object;
pub mod pack_entry;
pub mod pktline;
mod ref_name;
mod special_file;
mod tree;

pub use commit::{Commit, Signature, strip_crud};
pub use commit_text::CommitText;
pub use id::ObjectId;
pub use links::{Link, parse_links};
pub use object::{Object, ObjectKind, id_from_hasher, parse_header};
pub use ref_name::{MAX_REF_NAME, explain_ambiguity, find_ambiguity, is_branch_or_tag, is_ref_name};
pub use special_file::SpecialFile;
pub use tree::Tree;
