//! Limits of sizes that variables set. docs/reference/endpoints.md has them in a table.

use crate::tarball::TarballLimits;
use kit::Env;

/// The most bytes that the records of all versions of a package may have, as metadata repeats them. The default is the
/// public registry's limit of metadata.
pub const MAX_METADATA: &str = "registry_max_metadata_bytes";
const DEFAULT_MAX_METADATA: u64 = 100_000_000;

/// The most bytes of a document without its file. To deprecate or unpublish a version, clients send back all metadata,
/// with addresses and times.
pub const MAX_DOCUMENT: &str = "registry_max_document_bytes";
const DEFAULT_MAX_DOCUMENT: u64 = 128 << 20;

/// The largest file, in bytes. The default is the reference service's.
pub const MAX_FILE: &str = "registry_max_tarball_bytes";
const DEFAULT_MAX_FILE: u64 = 500 << 20;

/// The largest unpacked size of a file, in bytes. The default is four times the largest file: text compresses to a
/// quarter. Unpacking it takes some seconds.
pub const MAX_UNPACKED: &str = "registry_max_unpacked_bytes";
const DEFAULT_MAX_UNPACKED: u64 = 2 << 30;

/// The most entries of a file, each of which takes about a hundred bytes of memory while it is inspected. The largest
/// published packages have some ten thousand.
pub const MAX_ENTRIES: &str = "registry_max_tarball_entries";
const DEFAULT_MAX_ENTRIES: u64 = 100_000;

pub fn metadata(env: &Env) -> u64 {
    env.variables.number(MAX_METADATA, DEFAULT_MAX_METADATA)
}

pub fn document(env: &Env) -> usize {
    usize::try_from(env.variables.number(MAX_DOCUMENT, DEFAULT_MAX_DOCUMENT)).unwrap_or(usize::MAX)
}

pub fn file(env: &Env) -> u64 {
    env.variables.number(MAX_FILE, DEFAULT_MAX_FILE)
}

pub fn tarball(env: &Env) -> TarballLimits {
    let entries = env.variables.number(MAX_ENTRIES, DEFAULT_MAX_ENTRIES);
    TarballLimits {
        unpacked: env.variables.number(MAX_UNPACKED, DEFAULT_MAX_UNPACKED),
        entries: u32::try_from(entries).unwrap_or(u32::MAX),
    }
}
