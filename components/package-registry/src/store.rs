//! The stored data. Only the files of this module know keys and stored bytes.

mod blob;
mod chunk;
mod key;
mod listing;
mod name_owners;
mod package_names;
mod packages;
mod protection;
mod reachability;
mod record;
mod staging;
mod upload;
mod version_ids;
mod version_runs;

pub use blob::unless_damaged;
pub use chunk::{CHUNK, chunk, chunk_uncached};
pub use key::{ADDRESS_RATES, CALLER_RATES, LOOKUP_RATES, RootKey, SEARCH_RATES};
pub use listing::{
    ListingLookup, ProjectsByName, ProjectsByVersion, VersionListing, add_project_with_name, add_project_with_version,
    claim_version, projects, projects_by_name, projects_by_version, record_publication, time_version_write,
    trace_projects,
};
pub use name_owners::{name_owner, reservations, update_name_owner, update_reservations};
pub use package_names::names;
pub use packages::{package, update_package};
pub use protection::{protection, update_protection};
pub use reachability::{
    PackageKey, is_orphaned, key_layout, package_key, packages_after, pages_of, remove_orphaned, trace,
};
pub use staging::Staging;
pub use upload::{
    Upload, attestations, check_package_level_fields, package_level_fields, remove_chunks, save_attestations,
    save_package_level_fields, shared_upload, upload, upload_uncached,
};
pub use version_ids::{
    IdentifiedVersion, NewVersion, blob_of, index_package, index_version, is_indexed, is_stale,
    prefix as version_id_prefix, unindexed_version_with_id, version_with_id,
};
pub use version_runs::{
    MetadataForm, StoredVersion, add_checksums, find, find_listed, form, index, record, run_with_version, save_run,
    version_run, version_run_uncached,
};
