//! The stored data. Only the files of this module know keys and stored bytes.

mod blob;
mod chunk;
mod key;
mod listing;
mod package_names;
mod packages;
mod reachability;
mod record;
mod segments;
mod staging;
mod upload;

pub use chunk::{CHUNK, chunk, chunk_uncached};
pub use key::{ADDRESS_RATES, CALLER_RATES, LOOKUP_RATES, SEARCH_RATES};
pub use listing::{
    Holders, ListingLookup, VersionHolders, add_project_with_name, add_project_with_version, claim_version, holders,
    projects, projects_with_version, record_publication, time_version_write,
};
pub use package_names::names;
pub use packages::{package, update_package};
pub use reachability::{PackageKey, is_orphaned, key_layout, package_key, packages_after, remove_orphaned, trace};
pub use segments::{
    MetadataForm, StoredVersion, add_checksums, find, find_listed, form, index, record, save_segment, segment,
    segment_uncached, segment_with,
};
pub use staging::Staging;
pub use upload::{
    Upload, attestations, check_latest_fields, latest_fields, remove_chunks, save_attestations, save_latest_fields,
    shared_upload, upload, upload_uncached,
};
