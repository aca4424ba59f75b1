//! The difference of a merge request, file by file.

use crate::api::access::{self, ReadableMergeRequest};
use crate::api::context::{self, RequestContext};
use crate::api::file_cache::FileCache;
use crate::api::history::{self, NewCommits};
use crate::api::json_page::JsonPage;
use crate::api::merge_request_json::{DiffRefs, MergeRequestRenderer};
use crate::api::notes::MergeRequestName;
use crate::git::{CommitText, ObjectId};
use crate::line_diff::{LineDiff, StepBudget};
use crate::lines::IndexedFile;
use crate::repository_id::RepositoryId;
use crate::store::objects;
use http::StatusCode;
use kit::page::Pagination;
use kit::params::Validation;
use kit::store::StoreError;
use kit::{Env, Error, Response};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// The most files of one answer, as in the reference service.
const MAX_FILES: usize = 1000;

/// The longest text of one file's difference, and of all in one answer, in bytes. The first is the reference service's.
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
    context::integer(name.iid).ok_or_else(|| Error::validation("merge_request_iid is invalid"))?;
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
        (Some(base), Some(head)) => compare_trees(&context.env, base, head),
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

/// The longest text of a commit that is shown, in bytes. Longer commits are left out.
const MAX_COMMIT: u64 = 256 << 10;

/// `GET /projects/:id/merge_requests/:iid/commits`: the commits of the source branch that the target branch lacks, or
/// lacked before the merge; the latest first, in pages. Reads the commits since the merge base, at most 20,000 of both
/// branches, and the commits that are shown. If there are more, the oldest are left out, and so are the headers with
/// totals.
pub fn list_commits(context: &RequestContext, name: MergeRequestName) -> Result<Response, Error> {
    let params = context.params();
    let checks = Validation::new(&params);
    let page = Pagination::check(&checks);
    checks.finish()?;
    context::integer(name.iid).ok_or_else(|| Error::validation("merge_request_iid is invalid"))?;
    let readable = access::readable_merge_request(context, name.project, name.iid)?;
    let env = &context.env;
    let renderer = MergeRequestRenderer::new(context);
    let mut history = renderer.history(&readable);
    let commits = match renderer.ends(&readable, &mut history)? {
        Some((head, start)) => history::since(&mut history, head, start)?,
        None => NewCommits { ids: Vec::new(), is_truncated: false },
    };
    let total = commits.ids.len() as u64;
    let skip = usize::try_from(page.offset()).unwrap_or(usize::MAX);
    let project_url = format!("{}/{}", context.url, readable.project.full_path());
    let mut shown = JsonPage::new("commits");
    for id in commits.ids.into_iter().skip(skip).take(page.per_page as usize) {
        if let Some(contents) = objects::read_at_most(env, readable.source(), id, MAX_COMMIT)? {
            shown.push(&render(id, &CommitText::parse(&contents), &project_url))?;
        }
    }
    let url = context.own_url();
    let mut response = page.describe(shown.into_response(), &url, &[], total);
    if commits.is_truncated {
        response.headers.remove("x-total");
        response.headers.remove("x-total-pages");
    }
    Ok(response)
}

fn render(id: ObjectId, commit: &CommitText, project_url: &str) -> Value {
    let id = id.to_string();
    let CommitText { parents, author, committer, message } = commit;
    json!({
        "id": id,
        "short_id": id.get(..8),
        "created_at": committer.date,
        "parent_ids": parents.iter().map(ObjectId::to_string).collect::<Vec<_>>(),
        "title": message.lines().next().unwrap_or_default(),
        "message": message,
        "author_name": author.name,
        "author_email": author.email,
        "authored_date": author.date,
        "committer_name": committer.name,
        "committer_email": committer.email,
        "committed_date": committer.date,
        "trailers": {},
        "extended_trailers": {},
        "web_url": format!("{project_url}/-/commit/{id}"),
    })
}

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
pub fn compare_trees(env: &Env, before: StoredTree, after: StoredTree) -> Result<TreeDiff, StoreError> {
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
