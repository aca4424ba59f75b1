//! The commented line of a position, which must be in the difference that the position names.

use super::access::ReadableMergeRequest;
use super::context::RequestContext;
use super::file_cache::FileCache;
use crate::discussion::{CommentedFile, DiffPosition, Discussion};
use crate::git::ObjectId;
use crate::lines::IndexedFile;
use crate::repository_id::RepositoryId;
use crate::sparse_tree::SparseTree;
use crate::store::objects;
use kit::Error;
use kit::store::StoreError;
use std::rc::Rc;

/// How many unchanged lines around a change are part of the difference, as in git's output.
const CONTEXT_LINES: u64 = 3;

/// An existing line of a file.
pub struct CommentedLine {
    pub file: CommentedFile,
    /// From 1.
    pub line: u64,
    /// `None` if the file is larger than [`objects::MAX_WHOLE`].
    pub contents: Option<Rc<IndexedFile>>,
}

impl CommentedLine {
    /// Whether suggestions can replace it: the lines of a binary file mean nothing.
    fn is_suggestible(&self) -> bool {
        self.contents.as_ref().is_none_or(|file| !file.is_binary())
    }
}

/// The line that suggestions at this position replace, if there is one. 400 if the repository does not have the
/// position, or the difference between `base_sha` and `head_sha` does not.
///
/// The difference has the changed lines and [`CONTEXT_LINES`] around them. As in the reference service, it also has any
/// other line of a changed file if the position gives its numbers in both versions. A position whose two commits are
/// the same names no difference, and may be any line.
pub fn find_line(
    context: &RequestContext,
    readable: &ReadableMergeRequest,
    position: &DiffPosition,
) -> Result<Option<CommentedLine>, Error> {
    if position.kind != "text" {
        return Ok(None);
    }
    let files = FileCache::new(&context.env);
    let head = ObjectId::parse(&position.head_sha).ok_or_else(not_found)?;
    let commented = match position.suggestible_line() {
        Some((path, line)) => Some(find_existing(context, readable, &files, head, path, line)?),
        // A removed line can be commented on, but not replaced.
        None if position.old_line.is_some_and(|line| line > 0) && position.old_path.is_some() => None,
        None => return Err(not_found()),
    };
    if position.base_sha != position.head_sha
        && !is_in_difference(context, readable, &files, position, commented.as_ref())?
    {
        return Err(not_found());
    }
    Ok(commented.filter(CommentedLine::is_suggestible))
}

/// The line that the suggestions in this discussion replace, if the discussion has stored its file.
pub fn stored_line(context: &RequestContext, discussion: &Discussion) -> Result<Option<CommentedLine>, StoreError> {
    let line = discussion.position.as_ref().and_then(DiffPosition::suggestible_line);
    let (Some(file), Some((_, line))) = (&discussion.file, line) else { return Ok(None) };
    let contents = FileCache::new(&context.env).read(file.repository, file.blob)?;
    Ok(Some(CommentedLine { file: file.clone(), line, contents }).filter(CommentedLine::is_suggestible))
}

fn not_found() -> Error {
    Error::bad_request("Note {:line_code=>[\"can't be blank\", \"must be a valid line code\"]}")
}

/// A line of a file at a commit of the source project.
fn find_existing(
    context: &RequestContext,
    readable: &ReadableMergeRequest,
    files: &FileCache,
    head: ObjectId,
    path: &str,
    line: u64,
) -> Result<CommentedLine, Error> {
    let repository = readable.source();
    if !readable.may_read_commit(context, head)? {
        return Err(not_found());
    }
    let tree = read_paths(context, repository, head, &[path])?.ok_or_else(not_found)?;
    let blob = tree.blob(path).ok_or_else(not_found)?;
    let contents = files.read(repository, blob)?;
    if line == 0 || contents.as_ref().is_some_and(|file| !file.has_line(line)) {
        return Err(not_found());
    }
    let file = CommentedFile { repository, commit: head, path: path.to_owned(), blob };
    Ok(CommentedLine { file, line, contents })
}

/// The trees on the way to some paths; `None` if the project does not have the commit.
fn read_paths(
    context: &RequestContext,
    project: RepositoryId,
    commit: ObjectId,
    paths: &[&str],
) -> Result<Option<SparseTree>, StoreError> {
    let Some(commit) = objects::read_commit(&context.env, project, commit)? else { return Ok(None) };
    let read = |id| objects::read_tree(&context.env, project, id);
    SparseTree::load(commit.tree, paths.iter().copied(), read).map(Some)
}

/// Whether a position is in the difference between its commits. `commented` is its line in the later version,
/// unless it was removed there.
fn is_in_difference(
    context: &RequestContext,
    readable: &ReadableMergeRequest,
    files: &FileCache,
    position: &DiffPosition,
    commented: Option<&CommentedLine>,
) -> Result<bool, Error> {
    let new_path = position.new_path.as_deref().or(position.old_path.as_deref()).ok_or_else(not_found)?;
    let old_path = position.old_path.as_deref().unwrap_or(new_path);
    let base = ObjectId::parse(&position.base_sha).ok_or_else(not_found)?;
    let (base_project, base) = read_base(context, readable, base, &[new_path, old_path])?.ok_or_else(not_found)?;
    let before = base.blob(new_path).or_else(|| base.blob(old_path));
    let after = match commented {
        Some(commented) => Some(commented.file.blob),
        None => {
            let head = ObjectId::parse(&position.head_sha).ok_or_else(not_found)?;
            if !readable.may_read_commit(context, head)? {
                return Err(not_found());
            }
            let head = read_paths(context, readable.source(), head, &[new_path])?.ok_or_else(not_found)?;
            head.blob(new_path)
        }
    };
    let (before, after) = match (before, after) {
        // Every line of a new or removed file is changed.
        (None, after) => return Ok(after.is_some()),
        (Some(before), None) => {
            let file = files.read(base_project, before)?;
            return Ok(file.is_none_or(|file| position.old_line.is_some_and(|line| file.has_line(line))));
        }
        (Some(before), Some(after)) => (before, after),
    };
    if before == after && base.blob(new_path).is_some() {
        return Ok(false);
    }
    let Some(diff) = files.diff((base_project, before), (readable.source(), after))? else {
        return Ok(true);
    };
    Ok(match (commented, position.old_line) {
        (Some(commented), old_line) => {
            let is_same = |before: u64| diff.follow(&(before..=before)) == Some(commented.line..=commented.line);
            diff.is_near_addition(commented.line, CONTEXT_LINES) || old_line.is_some_and(is_same)
        }
        (None, Some(line)) => diff.is_near_removal(line, CONTEXT_LINES),
        (None, None) => false,
    })
}

/// The trees on the way to some paths of the commit that a position is compared with, and its project: the
/// target, or the source.
fn read_base(
    context: &RequestContext,
    readable: &ReadableMergeRequest,
    base: ObjectId,
    paths: &[&str],
) -> Result<Option<(RepositoryId, SparseTree)>, StoreError> {
    let (target, source) = (RepositoryId::of(&readable.project), readable.source());
    if let Some(tree) = read_paths(context, target, base, paths)? {
        return Ok(Some((target, tree)));
    }
    if source == target || !readable.may_read_commit(context, base)? {
        return Ok(None);
    }
    Ok(read_paths(context, source, base, paths)?.map(|tree| (source, tree)))
}
