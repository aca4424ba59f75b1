//! Links of an archive.

use super::name::{self, EntryName, MANIFEST};
use tar::EntryType;

/// Why a link is refused, as the end of a sentence about it. Most installers skip links, so a link must not stand for
/// anything that they install: the manifest, or a folder that holds the link.
pub fn problem(link: &EntryName, kind: EntryType, target: &[u8]) -> Option<&'static str> {
    if name::key(link.inside) == MANIFEST {
        return Some("is a link");
    }
    let Some(target) = name::link_target(target) else {
        return Some("is a link that is absolute or goes through `..`");
    };
    let leads = |segments: &[&str]| {
        let key = name::key(&segments.join("/"));
        key.is_empty() || key == MANIFEST
    };
    // The target of a symbolic link starts at the link's folder. The target of a hard link starts at the archive's
    // root, for some programs below the top-level folder. Without `..`, no other path leads to the package's folder.
    let own_folder = link.folder().split('/').filter(|segment| !segment.is_empty());
    let from_own_folder: Vec<&str> = own_folder.chain(target.iter().copied()).collect();
    let is_at_itself = target.is_empty() || leads(&from_own_folder);
    let below_top = match target.split_first() {
        Some((first, rest)) if *first == link.top || kind == EntryType::Link && !rest.is_empty() => leads(rest),
        _ => false,
    };
    let is_of_root = kind == EntryType::Link && leads(&target);
    (is_at_itself || below_top || is_of_root)
        .then_some("is a link to the package's folder, its own one or package.json")
}
