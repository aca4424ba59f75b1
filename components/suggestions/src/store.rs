//! Storage. Only the modules below know a key or a stored byte.

mod counter;
pub mod default_branch;
mod discussion_record;
pub mod discussions;
pub mod history;
mod key;
pub mod merge_requests;
pub mod new_pack;
pub mod objects;
pub mod packs;
pub mod protected_objects;
pub mod reachability;
mod record;
pub mod ref_names;
pub mod refs;
pub mod semispace_roles;
pub mod zlib;
