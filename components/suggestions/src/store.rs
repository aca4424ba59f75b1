//! Storage. Only the modules below know a key or a stored byte.

pub mod applied;
mod counter;
pub mod default_branch;
mod discussion_record;
pub mod discussions;
pub mod history;
mod json_blob;
mod key;
pub mod merge_requests;
pub mod new_pack;
pub mod objects;
pub mod packs;
pub mod protected_objects;
pub mod reachability;
mod record;
pub mod ref_names;
pub mod ref_transaction;
mod ref_value;
pub mod refs;
mod semispace;
pub mod semispace_roles;
pub mod zlib;
