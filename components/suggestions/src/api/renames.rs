//! Files that have another path at the head of a branch, and the same contents.

use crate::discussion::CommentedFile;
use crate::git::{ObjectId, Tree};
use crate::repository_id::RepositoryId;
use crate::store::objects;
use kit::Env;
use kit::store::StoreError;
use std::collections::{BTreeMap, BTreeSet};

/// The most trees that one request reads to find renamed files. Beyond it, renamed files count as removed.
const MAX_TREES: usize = 1000;

/// The most bytes of paths that one request keeps to find renamed files; beyond it, too, renamed files count as
/// removed.
const MAX_PATHS: usize = 16 << 20;

/// The paths of renamed files at a head, by the commit and the path of the comment.
pub type Renames = BTreeMap<(ObjectId, String), String>;

/// Finds the new path of files that are not at their path any more: the commit did not have that path, and the head has
/// the same contents there. Of several such paths, one with the same file name is taken, or else the first. Reads only
/// trees that differ between commit and head.
pub fn find(
    env: &Env,
    project: RepositoryId,
    root: ObjectId,
    missing: &[&CommentedFile],
) -> Result<Renames, StoreError> {
    let mut by_commit: BTreeMap<(RepositoryId, ObjectId), Vec<&CommentedFile>> = BTreeMap::new();
    for file in missing {
        by_commit.entry((file.repository, file.commit)).or_default().push(file);
    }
    let mut comparison = TreeComparison { env, project, trees_left: MAX_TREES, paths_left: MAX_PATHS };
    let mut renames = Renames::new();
    for ((commented, commit), files) in by_commit {
        let wanted = files.iter().map(|file| file.blob).collect();
        // A commit that no branch has any more may have been removed. Then every path counts as a new one.
        let before = objects::read_commit(env, commented, commit)?.map(|commit| (commented, commit.tree));
        let added = comparison.added_paths(before, root, &wanted)?;
        for file in files {
            let name = |path: &str| path.rsplit('/').next() == file.path.rsplit('/').next();
            let paths = added.get(&file.blob).map(Vec::as_slice).unwrap_or_default();
            if let Some(path) = paths.iter().min_by_key(|path| (!name(path), *path)) {
                renames.insert((commit, file.path.clone()), path.clone());
            }
        }
    }
    Ok(renames)
}

/// Compares trees, in a bounded number of reads and with bounded paths.
struct TreeComparison<'a> {
    env: &'a Env,
    project: RepositoryId,
    trees_left: usize,
    paths_left: usize,
}

impl TreeComparison<'_> {
    /// The paths below the tree `after` at which the tree `before` has no file, by the wanted blob there. `before` is
    /// given with its project.
    fn added_paths(
        &mut self,
        before: Option<(RepositoryId, ObjectId)>,
        after: ObjectId,
        wanted: &BTreeSet<ObjectId>,
    ) -> Result<BTreeMap<ObjectId, Vec<String>>, StoreError> {
        let mut added: BTreeMap<ObjectId, Vec<String>> = BTreeMap::new();
        let mut pending = vec![(String::new(), before, after)];
        while let Some((folder, before, after)) = pending.pop() {
            self.paths_left += folder.len();
            if before.is_some_and(|(_, before)| before == after) {
                continue;
            }
            let Some(left) = self.trees_left.checked_sub(2) else { break };
            self.trees_left = left;
            let former = before.map_or(Ok(None), |(project, id)| self.read_former(project, id))?;
            let former_entries: BTreeMap<_, _> =
                former.iter().flat_map(|tree| tree.entries()).map(|entry| (entry.name, entry)).collect();
            for entry in objects::read_tree(self.env, self.project, after)?.entries() {
                let Ok(name) = std::str::from_utf8(entry.name) else { continue };
                let former = former_entries.get(entry.name);
                let is_added =
                    entry.is_blob() && wanted.contains(&entry.id) && !former.is_some_and(|former| former.is_blob());
                if !entry.is_tree() && !is_added {
                    continue;
                }
                let path = format!("{folder}{name}");
                let Some(left) = self.paths_left.checked_sub(path.len() + 1) else { return Ok(added) };
                self.paths_left = left;
                if is_added {
                    added.entry(entry.id).or_default().push(path);
                } else {
                    let former = former.filter(|former| former.is_tree()).map(|former| former.id);
                    pending.push((path + "/", before.map(|(project, _)| project).zip(former), entry.id));
                }
            }
        }
        Ok(added)
    }

    /// A tree of a commit; `None` if garbage collection has removed it.
    fn read_former(&self, project: RepositoryId, id: ObjectId) -> Result<Option<Tree>, StoreError> {
        match objects::read_tree(self.env, project, id) {
            Ok(tree) => Ok(Some(tree)),
            Err(StoreError::Corrupt { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
