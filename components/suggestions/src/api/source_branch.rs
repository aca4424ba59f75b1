//! The source branch of a merge request, with the trees on the paths to some files.

use crate::api::file_cache::FileCache;
use crate::discussion::{CommentedFile, Discussion};
use crate::git::{ObjectId, SpecialFile, Tree};
use crate::lines::{self, Replacement};
use crate::merge_request::{MergeRequest, MergeRequestState};
use crate::repository_id::RepositoryId;
use crate::sparse_tree::SparseTree;
use crate::store::objects;
use crate::store::refs::{self, RefValue};
use crate::suggestion::Suggestion;
use bytes::Bytes;
use kit::Env;
use kit::store::StoreError;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use thiserror::Error;

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
        let renames = find(env, repository, commit.tree, &missing)?;
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

pub struct Applicability {
    /// `None` if the suggestion can be applied.
    pub inapplicable_reason: Option<InapplicableReason>,
    pub applied: bool,
    /// The lines that are replaced, at the commit that was commented on.
    pub from_content: Bytes,
    /// Where those lines are at the head, if they are unchanged.
    pub at_head: Option<FileLines>,
}

/// Lines of a file at the head of a branch.
pub struct FileLines {
    pub path: String,
    pub blob: ObjectId,
    /// From 1.
    pub lines: RangeInclusive<u64>,
}

impl Applicability {
    /// The suggestion's JSON. Its lines are the ones that it would replace now. If it was applied, or its lines were
    /// changed, they are the lines of the commit that was commented on.
    pub fn render(&self, suggestion: &Suggestion) -> Value {
        let first_line = match &self.at_head {
            Some(at_head) if !self.applied => *at_head.lines.start(),
            _ => suggestion.from_line,
        };
        suggestion.to_json(first_line, &self.from_content, self.inapplicable_reason.is_none(), self.applied)
    }
}

/// Reads the inputs of a suggestion's applicability, and decides it. For `same_branch` see [`ApplicabilityInputs`].
pub fn assess(
    env: &Env,
    files: &FileCache,
    branch: &SourceBranch,
    merge_request: &MergeRequest,
    file: &CommentedFile,
    suggestion: &Suggestion,
    same_branch: bool,
) -> Result<Applicability, StoreError> {
    let from_content = files.read_commented_lines(file, suggestion)?;
    let is_named = branch.head.as_ref().is_some_and(|head| head.value.applied.contains(&suggestion.id));
    let applied = is_named || refs::read_applied(env, suggestion.id)?.is_some();
    let mut at_head = None;
    let lines_at_head = match &branch.head {
        None => None,
        Some(head) => Some(match head.find(file) {
            None => LinesAtHead::FileMissing,
            Some((path, blob)) => {
                let lines = files.follow(file, &suggestion.lines(), (head.repository, blob))?;
                at_head = lines.map(|lines| FileLines { path: path.to_owned(), blob, lines });
                if at_head.is_some() { LinesAtHead::Unchanged } else { LinesAtHead::Changed }
            }
        }),
    };
    let (mut is_binary, mut disallowed) = (files.is_binary(file.repository, file.blob)?, None);
    if let (Some(at_head), Some(head)) = (&at_head, &branch.head) {
        is_binary |= at_head.blob != file.blob && files.is_binary(head.repository, at_head.blob)?;
        disallowed = disallowed_contents(files, head, at_head, suggestion)?;
    }
    let inputs = ApplicabilityInputs {
        suggestion,
        path: &file.path,
        from_content: &from_content,
        applied,
        state: merge_request.state,
        lines_at_head,
        is_binary,
        same_branch,
        disallowed,
    };
    Ok(Applicability { inapplicable_reason: inputs.inapplicable_reason(), applied, from_content, at_head })
}

/// Why git would refuse the changed file. Checks only files that git reads.
fn disallowed_contents(
    files: &FileCache,
    head: &BranchHead,
    at_head: &FileLines,
    suggestion: &Suggestion,
) -> Result<Option<&'static str>, StoreError> {
    let FileLines { path, blob, lines } = at_head;
    if !is_special(path) {
        return Ok(None);
    }
    let Some(before) = files.read(head.repository, *blob)? else { return Ok(None) };
    let replacement = Replacement { lines: lines.clone(), text: suggestion.to_content.as_bytes() };
    Ok(check_contents(path, &lines::replace(before.contents(), &[replacement])).err())
}

fn is_special(path: &str) -> bool {
    special_files(path).next().is_some()
}

/// The special files that git may take a file at this path for.
fn special_files(path: &str) -> impl Iterator<Item = SpecialFile> {
    SpecialFile::named(path.rsplit('/').next().unwrap_or_default().as_bytes())
}

/// Checks a file as a push does.
pub fn check_contents(path: &str, contents: &[u8]) -> Result<(), &'static str> {
    special_files(path).try_for_each(|file| file.check(Some(contents)))
}

/// The inputs of the decision whether a suggestion can be applied now.
#[derive(Debug, Clone, Copy)]
pub struct ApplicabilityInputs<'a> {
    pub suggestion: &'a Suggestion,
    /// The file's path.
    pub path: &'a str,
    /// The lines that are replaced, at the commit that was commented on.
    pub from_content: &'a [u8],
    pub applied: bool,
    pub state: MergeRequestState,
    /// The state of those lines at the head of the source branch; `None` if the branch was deleted.
    pub lines_at_head: Option<LinesAtHead>,
    /// Whether git takes the file for a binary one, at the commit that was commented on or at the head.
    pub is_binary: bool,
    /// Whether the commit is made on the source branch.
    pub same_branch: bool,
    /// git's objection to the changed file, if it has one.
    pub disallowed: Option<&'static str>,
}

/// The state of a suggestion's lines at the head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinesAtHead {
    /// The head has them, perhaps under other numbers, or in a file of another path.
    Unchanged,
    Changed,
    /// The head does not have the file.
    FileMissing,
}

/// Why a suggestion cannot be applied. The texts are the reference service's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InapplicableReason {
    #[error("A file was not found.")]
    FileNotFound,
    #[error("Suggestions must all be on the same branch.")]
    OtherBranch,
    #[error("Can't apply this suggestion.")]
    AlreadyApplied,
    #[error("This merge request was merged. To apply this suggestion, edit this file directly.")]
    Merged,
    #[error("This merge request is closed. To apply this suggestion, edit this file directly.")]
    Closed,
    #[error("Can't apply as the source branch was deleted.")]
    BranchDeleted,
    #[error("Can't apply as this line was changed in a more recent version.")]
    LineOutdated,
    #[error("Can't apply as these lines were changed in a more recent version.")]
    LinesOutdated,
    #[error("This suggestion already matches its content.")]
    NoChange,
    /// The diff of a notebook is rendered, so that its lines are not those of the file.
    #[error("This file was modified for readability, and can't accept suggestions. Edit it directly.")]
    RenderedNotebook,
    /// The lines of such a file mean nothing, and its text is not UTF-8.
    #[error("This file is binary, and can't accept suggestions. Edit it directly.")]
    BinaryFile,
    /// git would not read the changed file, or would run a program that it names: why, in git's words.
    #[error("git would refuse this file: {0}.")]
    DisallowedContents(&'static str),
    /// Other requests moved the branch on every attempt to make the commit.
    #[error("A file has been changed.")]
    HeadMoved,
    #[error("Suggestions are not applicable as their lines cannot overlap.")]
    OverlappingLines,
}

impl ApplicabilityInputs<'_> {
    /// The first reason why the suggestion cannot be applied, in the order of the reference service. `None` if it can:
    /// then the flag `applicable` is true, and a request that applies it succeeds.
    pub fn inapplicable_reason(&self) -> Option<InapplicableReason> {
        let ApplicabilityInputs { suggestion, from_content, .. } = *self;
        if self.lines_at_head == Some(LinesAtHead::FileMissing) {
            return Some(InapplicableReason::FileNotFound);
        }
        if !self.same_branch {
            return Some(InapplicableReason::OtherBranch);
        }
        match (self.applied, self.state, self.lines_at_head) {
            (true, ..) => Some(InapplicableReason::AlreadyApplied),
            (_, MergeRequestState::Merged, _) => Some(InapplicableReason::Merged),
            (_, MergeRequestState::Closed, _) => Some(InapplicableReason::Closed),
            (.., None) => Some(InapplicableReason::BranchDeleted),
            (.., Some(LinesAtHead::Changed)) if suggestion.single_line => Some(InapplicableReason::LineOutdated),
            (.., Some(LinesAtHead::Changed)) => Some(InapplicableReason::LinesOutdated),
            _ if suggestion.to_content.as_bytes() == from_content => Some(InapplicableReason::NoChange),
            _ if self.is_binary => Some(InapplicableReason::BinaryFile),
            _ if self.path.ends_with("ipynb") => Some(InapplicableReason::RenderedNotebook),
            _ => self.disallowed.map(InapplicableReason::DisallowedContents),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::IndexedFile;
    use crate::suggestion::SuggestionBlock;

    fn suggestion(text: &str) -> Suggestion {
        let block = SuggestionBlock { above: 0, below: 0, text: Some(text.to_owned()) };
        Suggestion::new(1, block, 2, &IndexedFile::new("one\ntwo\r\nthree\nfour".into()))
    }

    fn applicable(suggestion: &Suggestion) -> ApplicabilityInputs<'_> {
        ApplicabilityInputs {
            suggestion,
            path: "src/a.rs",
            from_content: b"two\r\n",
            applied: false,
            state: MergeRequestState::Opened,
            lines_at_head: Some(LinesAtHead::Unchanged),
            is_binary: false,
            same_branch: true,
            disallowed: None,
        }
    }

    #[test]
    fn the_strongest_reason_is_reported() {
        let one = suggestion("x");
        let many = Suggestion { single_line: false, ..one.clone() };
        let same = suggestion("two");
        let mut case = applicable(&one);
        assert_eq!(case.inapplicable_reason(), None);
        case.state = MergeRequestState::Locked;
        assert_eq!(case.inapplicable_reason(), None);

        // From the weakest reason to the strongest; each adds to those before.
        case.disallowed = Some("gitmodulesUrl: disallowed submodule url");
        let refusal = case.inapplicable_reason().unwrap().to_string();
        assert_eq!(refusal, "git would refuse this file: gitmodulesUrl: disallowed submodule url.");
        case.path = "book.ipynb";
        assert_eq!(case.inapplicable_reason(), Some(InapplicableReason::RenderedNotebook));
        case.is_binary = true;
        assert_eq!(case.inapplicable_reason(), Some(InapplicableReason::BinaryFile));
        case.suggestion = &same;
        assert_eq!(case.inapplicable_reason(), Some(InapplicableReason::NoChange));
        case.lines_at_head = Some(LinesAtHead::Changed);
        assert_eq!(case.inapplicable_reason(), Some(InapplicableReason::LineOutdated));
        case.suggestion = &many;
        assert_eq!(case.inapplicable_reason(), Some(InapplicableReason::LinesOutdated));
        case.lines_at_head = None;
        assert_eq!(case.inapplicable_reason(), Some(InapplicableReason::BranchDeleted));
        case.state = MergeRequestState::Closed;
        assert_eq!(case.inapplicable_reason(), Some(InapplicableReason::Closed));
        case.state = MergeRequestState::Merged;
        assert_eq!(case.inapplicable_reason(), Some(InapplicableReason::Merged));
        case.applied = true;
        assert_eq!(case.inapplicable_reason(), Some(InapplicableReason::AlreadyApplied));
        case.same_branch = false;
        assert_eq!(case.inapplicable_reason(), Some(InapplicableReason::OtherBranch));
        case.lines_at_head = Some(LinesAtHead::FileMissing);
        assert_eq!(case.inapplicable_reason(), Some(InapplicableReason::FileNotFound));
    }
}
