//! The files that differ between two commits.

use crate::git::ObjectId;
use crate::repository_id::RepositoryId;
use crate::store::objects;
use kit::Env;
use kit::store::StoreError;
use std::collections::{BTreeMap, BTreeSet};

/// The most trees that one comparison reads.
const MAX_TREES: usize = 10_000;

/// The most files that one comparison returns. If many folders share a tree, a small push changes many files.
const MAX_CHANGES: usize = 50_000;

/// The most bytes of paths that one comparison keeps: a folder that is nested in thousands of others has a path of
/// megabytes, and so has each file in it.
const MAX_PATHS: usize = 16 << 20;

/// A tree, and the repository that has it.
pub type StoredTree = (RepositoryId, ObjectId);

/// A file in one of the commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileVersion {
    pub path: String,
    /// Six octal digits.
    pub mode: &'static str,
    /// Of a blob, or of a submodule's commit.
    pub id: ObjectId,
}

impl FileVersion {
    pub fn is_submodule(&self) -> bool {
        self.mode == "160000"
    }
}

/// A file that was changed, added (no `before`), deleted (no `after`), or renamed, its contents unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    pub before: Option<FileVersion>,
    pub after: Option<FileVersion>,
}

impl FileChange {
    /// The path that the file has, or had.
    pub fn path(&self) -> &str {
        let version = self.after.as_ref().or(self.before.as_ref());
        version.map(|version| version.path.as_str()).unwrap_or_default()
    }

    pub fn is_rename(&self) -> bool {
        let versions = self.before.as_ref().zip(self.after.as_ref());
        versions.is_some_and(|(before, after)| before.path != after.path)
    }
}

/// The files that differ.
#[derive(Debug, Default)]
pub struct TreeDiff {
    /// By path.
    pub changes: Vec<FileChange>,
    /// Whether there are more of them, beyond the bounds on trees, files and paths.
    pub is_truncated: bool,
}

/// Compares two trees. Reads the trees in them that differ.
pub fn compare(env: &Env, before: StoredTree, after: StoredTree) -> Result<TreeDiff, StoreError> {
    let mut diff = TreeDiff::default();
    let mut pending = vec![(String::new(), Some(before), Some(after))];
    let (mut trees_left, mut paths_left) = (MAX_TREES, MAX_PATHS);
    while !diff.is_truncated
        && let Some((folder, before, after)) = pending.pop()
    {
        paths_left += folder.len();
        let Some(left) = trees_left.checked_sub(2).filter(|_| diff.changes.len() < MAX_CHANGES) else {
            diff.is_truncated = true;
            break;
        };
        trees_left = left;
        let mut entries: BTreeMap<Vec<u8>, [Option<DiffedEntry>; 2]> = BTreeMap::new();
        for (side, tree) in [before, after].into_iter().enumerate() {
            let Some((repository, id)) = tree else { continue };
            for entry in objects::read_tree(env, repository, id)?.entries() {
                let found = DiffedEntry { mode: entry.mode(), is_tree: entry.is_tree(), id: entry.id };
                let both = entries.entry(entry.name.to_vec()).or_default();
                if let Some(slot) = both.get_mut(side) {
                    *slot = Some(found);
                }
            }
        }
        for (name, [old, new]) in entries {
            if old == new {
                continue;
            }
            let path = format!("{folder}{}", String::from_utf8_lossy(&name));
            let tree = |entry: &Option<DiffedEntry>| entry.as_ref().filter(|entry| entry.is_tree).map(|entry| entry.id);
            let below = (tree(&old), tree(&new));
            let subfolder = (below.0 != below.1).then(|| format!("{path}/"));
            let file = |entry: Option<DiffedEntry>| {
                let entry = entry.filter(|entry| !entry.is_tree)?;
                Some(FileVersion { path: path.clone(), mode: entry.mode, id: entry.id })
            };
            let change = FileChange { before: file(old), after: file(new) };
            let change = Some(change).filter(|change| change.before.is_some() || change.after.is_some());
            let size = subfolder.as_ref().map_or(0, String::len) + change.as_ref().map_or(0, |_| 2 * path.len());
            let Some(left) = paths_left.checked_sub(size).filter(|_| diff.changes.len() < MAX_CHANGES) else {
                diff.is_truncated = true;
                break;
            };
            paths_left = left;
            let stored = |side: Option<StoredTree>, id: Option<ObjectId>| Some((side?.0, id?));
            pending.extend(subfolder.map(|path| (path, stored(before, below.0), stored(after, below.1))));
            diff.changes.extend(change);
        }
    }
    join_renames(&mut diff.changes);
    diff.changes.sort_by(|one, other| one.path().cmp(other.path()));
    Ok(diff)
}

#[derive(PartialEq, Eq)]
struct DiffedEntry {
    mode: &'static str,
    is_tree: bool,
    id: ObjectId,
}

/// Joins a deleted file and an added file with the same contents into one rename.
fn join_renames(changes: &mut Vec<FileChange>) {
    let mut deleted: BTreeMap<ObjectId, Vec<FileVersion>> = BTreeMap::new();
    for change in changes.iter() {
        if let FileChange { before: Some(before), after: None } = change {
            deleted.entry(before.id).or_default().push(before.clone());
        }
    }
    let mut renamed = BTreeSet::new();
    for change in changes.iter_mut().filter(|change| change.before.is_none()) {
        let found = change.after.as_ref().and_then(|after| deleted.get_mut(&after.id)).and_then(Vec::pop);
        renamed.extend(found.as_ref().map(|before| before.path.clone()));
        change.before = found;
    }
    changes.retain(|change| match change {
        FileChange { before: Some(before), after: None } => !renamed.contains(&before.path),
        _ => true,
    });
}
