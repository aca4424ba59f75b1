//! The difference of a merge request, file by file.

use super::access::{self, ReadableMergeRequest};
use super::context::RequestContext;
use super::file_cache::FileCache;
use super::input;
use super::merge_request_json::{DiffRefs, MergeRequestRenderer};
use super::notes::MergeRequestName;
use super::tree_diff::{self, FileChange, FileVersion, StoredTree, TreeDiff};
use crate::git::ObjectId;
use crate::line_diff::{LineDiff, StepBudget};
use crate::lines::IndexedFile;
use crate::repository_id::RepositoryId;
use crate::store::objects;
use http::StatusCode;
use kit::page::Pagination;
use kit::params::Validation;
use kit::store::StoreError;
use kit::{Error, Response};
use serde_json::{Value, json};
use std::rc::Rc;

/// The most files of one answer, as in the reference service.
const MAX_FILES: usize = 1000;

/// The longest text of one file's difference, and of all in one answer, in bytes. The first is the reference
/// service's.
const MAX_DIFF: usize = 200 << 10;
const MAX_TEXT: usize = 5 << 20;

/// The most bytes of files that are read for one answer.
const MAX_CONTENTS: usize = 64 << 20;

/// How many unchanged lines are around a change.
const CONTEXT_LINES: u64 = 3;

/// `GET …/changes`: the merge request with the difference of its first 1,000 files. `overflow` if there are more files,
/// if the text of a file was left out, or if there are too many commits to find the merge base.
pub fn changes(context: &RequestContext, name: MergeRequestName) -> Result<Response, Error> {
    let readable = read(context, &name)?;
    let mut renderer = MergeRequestRenderer::new(context);
    let refs = renderer.diff_refs(&readable)?;
    let mut json = renderer.render_with(&readable, refs.as_ref())?;
    let diff = compare(context, &readable, refs)?;
    let mut printer = DiffPrinter::new(context, &readable);
    let changes: Vec<Value> =
        diff.changes.iter().take(MAX_FILES).map(|change| printer.render(change)).collect::<Result<_, _>>()?;
    let overflow = diff.is_truncated || diff.changes.len() > MAX_FILES || printer.is_truncated;
    if let Some(fields) = json.as_object_mut() {
        fields.insert("changes".into(), changes.into());
        fields.insert("overflow".into(), overflow.into());
    }
    Ok(Response::ok(&json))
}

/// `GET …/diffs`: the difference of each file, in pages; without the headers with totals if there are too many files.
/// 422 if there are too many commits to find the merge base.
pub fn diffs(context: &RequestContext, name: MergeRequestName) -> Result<Response, Error> {
    let params = context.params();
    let checks = Validation::new(&params);
    let page = Pagination::check(&checks);
    checks.finish()?;
    let readable = read(context, &name)?;
    let refs = MergeRequestRenderer::new(context).diff_refs(&readable)?;
    if refs.as_ref().is_some_and(|refs| refs.base.is_none()) {
        let text = "The branches have too many commits since they parted to be compared";
        return Err(Error::message(StatusCode::UNPROCESSABLE_ENTITY, text));
    }
    let diff = compare(context, &readable, refs)?;
    let mut printer = DiffPrinter::new(context, &readable);
    let skip = usize::try_from(page.offset()).unwrap_or(usize::MAX);
    let shown = diff.changes.iter().skip(skip).take(page.per_page as usize);
    let json: Vec<Value> = shown.map(|change| printer.render(change)).collect::<Result<_, _>>()?;
    let url = context.own_url();
    let mut response = page.describe(Response::ok(&json), &url, &[], diff.changes.len() as u64);
    if diff.is_truncated {
        response.headers.remove("x-total");
        response.headers.remove("x-total-pages");
    }
    Ok(response)
}

fn read(context: &RequestContext, name: &MergeRequestName) -> Result<ReadableMergeRequest, Error> {
    input::integer(name.iid).ok_or_else(|| Error::validation("merge_request_iid is invalid"))?;
    access::readable_merge_request(context, name.project, name.iid)
}

/// The files that differ between the merge base and the head. Empty if a branch was deleted; empty and truncated if one
/// of the two commits is unknown or missing.
fn compare(
    context: &RequestContext,
    readable: &ReadableMergeRequest,
    refs: Option<DiffRefs>,
) -> Result<TreeDiff, StoreError> {
    let Some(DiffRefs { base, head, .. }) = refs else { return Ok(TreeDiff::default()) };
    let base = base.map_or(Ok(None), |base| find_tree(context, readable, base))?;
    match (base, find_tree(context, readable, head)?) {
        (Some(base), Some(head)) => tree_diff::compare(&context.env, base, head),
        _ => Ok(TreeDiff { changes: Vec::new(), is_truncated: true }),
    }
}

/// The tree of a commit of the source or the target.
fn find_tree(
    context: &RequestContext,
    readable: &ReadableMergeRequest,
    commit: ObjectId,
) -> Result<Option<StoredTree>, StoreError> {
    for repository in [readable.source(), RepositoryId::of(&readable.project)] {
        if let Some(commit) = objects::read_commit(&context.env, repository, commit)? {
            return Ok(Some((repository, commit.tree)));
        }
    }
    Ok(None)
}

/// Prints the differences of files as long as their text is in bounds.
struct DiffPrinter<'a> {
    files: FileCache<'a>,
    repositories: [RepositoryId; 2],
    text_left: usize,
    contents_left: usize,
    steps: StepBudget,
    /// Whether the text of some file was left out.
    is_truncated: bool,
}

impl<'a> DiffPrinter<'a> {
    fn new(context: &'a RequestContext, readable: &ReadableMergeRequest) -> Self {
        DiffPrinter {
            files: FileCache::new(&context.env),
            repositories: [readable.source(), RepositoryId::of(&readable.project)],
            text_left: MAX_TEXT,
            contents_left: MAX_CONTENTS,
            steps: StepBudget::new(),
            is_truncated: false,
        }
    }

    fn render(&mut self, change: &FileChange) -> Result<Value, StoreError> {
        let FileChange { before, after } = change;
        let path =
            |version: &Option<FileVersion>| version.as_ref().map_or(change.path(), |version| &version.path).to_owned();
        let mode = |version: &Option<FileVersion>| version.as_ref().map_or("0", |version| version.mode).to_owned();
        let diff = self.print(change)?.filter(|diff| diff.len() <= MAX_DIFF.min(self.text_left));
        self.text_left -= diff.as_ref().map_or(0, String::len);
        self.is_truncated |= diff.is_none();
        Ok(json!({
            "old_path": path(before),
            "new_path": path(after),
            "a_mode": mode(before),
            "b_mode": mode(after),
            "new_file": before.is_none(),
            "renamed_file": change.is_rename(),
            "deleted_file": after.is_none(),
            "generated_file": false,
            "collapsed": false,
            "too_large": diff.is_none(),
            "diff": diff.unwrap_or_default(),
        }))
    }

    /// The difference of one file; `None` if it is too large, or the bounds of the answer are reached.
    fn print(&mut self, change: &FileChange) -> Result<Option<String>, StoreError> {
        if self.text_left == 0 || self.contents_left == 0 || self.steps.is_spent() {
            return Ok(None);
        }
        let (Some(before), Some(after)) = (self.contents(&change.before)?, self.contents(&change.after)?) else {
            return Ok(None);
        };
        if before.is_binary() || after.is_binary() {
            let side = |prefix: &str, version: &Option<FileVersion>| {
                version.as_ref().map_or("/dev/null".to_owned(), |version| format!("{prefix}/{}", version.path))
            };
            let (before, after) = (side("a", &change.before), side("b", &change.after));
            return Ok(Some(format!("Binary files {before} and {after} differ\n")));
        }
        let diff = LineDiff::between(&before, &after, &self.steps);
        Ok(diff.map(|diff| diff.to_unified(&before, &after, CONTEXT_LINES)))
    }

    /// The contents of one version of a file, empty if the file does not exist; `None` if they are too large to be
    /// read.
    fn contents(&mut self, version: &Option<FileVersion>) -> Result<Option<Rc<IndexedFile>>, StoreError> {
        let Some(version) = version else { return Ok(Some(Rc::new(IndexedFile::new(Default::default())))) };
        if version.is_submodule() {
            let text = format!("Subproject commit {}\n", version.id);
            return Ok(Some(Rc::new(IndexedFile::new(text.into()))));
        }
        let [source, target] = self.repositories;
        let has = source == target || objects::exists_anywhere(self.files.env(), source, version.id)?;
        let file = self.files.read(if has { source } else { target }, version.id)?;
        let size = file.as_ref().map_or(0, |file| file.contents().len());
        self.contents_left = self.contents_left.saturating_sub(size);
        Ok(file)
    }
}
