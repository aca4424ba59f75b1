//! The source branch of a merge request, with the trees on the paths to some files.

use super::renames::{self, Renames};
use crate::discussion::{CommentedFile, Discussion};
use crate::git::ObjectId;
use crate::merge_request::MergeRequest;
use crate::repository_id::RepositoryId;
use crate::sparse_tree::SparseTree;
use crate::store::objects;
use crate::store::refs::{self, RefValue};
use kit::Env;
use kit::store::StoreError;

/// A branch at one moment.
pub struct SourceBranch {
    /// `None` if the branch was deleted.
    pub head: Option<BranchHead>,
}

pub struct BranchHead {
    pub repository: RepositoryId,
    pub value: RefValue,
    /// The trees on the paths to the files; `None` if they were not needed.
    pub tree: Option<SparseTree>,
    renames: Renames,
}

impl BranchHead {
    /// The path and the blob that a file has at the head; `None` if the head does not have it.
    pub fn find<'a>(&'a self, file: &'a CommentedFile) -> Option<(&'a str, ObjectId)> {
        let Some(tree) = &self.tree else { return Some((&file.path, file.blob)) };
        let renamed = || Some(self.renames.get(&(file.commit, file.path.clone()))?.as_str());
        match tree.blob(&file.path) {
            Some(blob) => Some((&file.path, blob)),
            None => renamed().and_then(|path| Some((path, tree.blob(path)?))),
        }
    }
}

impl SourceBranch {
    /// Reads the trees on the paths to `files`, and searches for renamed files. Without `needs_trees`, reads no tree if
    /// every file was commented on at the head.
    pub fn load<'a>(
        env: &Env,
        repository: RepositoryId,
        head: Option<RefValue>,
        files: impl Iterator<Item = &'a CommentedFile> + Clone,
        needs_trees: bool,
    ) -> Result<Self, StoreError> {
        let Some(value) = head else { return Ok(SourceBranch { head: None }) };
        let is_at_head = |file: &CommentedFile| file.commit == value.commit && file.repository == repository;
        if !needs_trees && files.clone().all(is_at_head) {
            let head = BranchHead { repository, value, tree: None, renames: Renames::new() };
            return Ok(SourceBranch { head: Some(head) });
        }
        let missing = || objects::missing(repository, value.commit);
        let commit = objects::read_commit(env, repository, value.commit)?.ok_or_else(missing)?;
        let read = |id| objects::read_tree(env, repository, id);
        let mut tree = SparseTree::load(commit.tree, files.clone().map(|file| file.path.as_str()), read)?;
        let missing: Vec<&CommentedFile> = files.filter(|file| tree.blob(&file.path).is_none()).collect();
        let renames = renames::find(env, repository, commit.tree, &missing)?;
        tree.extend(renames.values().map(String::as_str), read)?;
        Ok(SourceBranch { head: Some(BranchHead { repository, value, tree: Some(tree), renames }) })
    }

    /// Loads the source branch of a merge request for the files of these discussions.
    pub fn load_for_discussions(
        env: &Env,
        merge_request: &MergeRequest,
        discussions: &[Discussion],
    ) -> Result<Self, StoreError> {
        let files = discussions.iter().filter_map(|discussion| discussion.file.as_ref());
        let Some(source) = merge_request.source else { return Ok(SourceBranch { head: None }) };
        let head = match files.clone().next() {
            Some(_) => refs::read(env, source, &format!("heads/{}", merge_request.source_branch))?,
            None => None,
        };
        SourceBranch::load(env, source, head, files, false)
    }
}
