//! What a suggestion meets in the repository: the branch as it is, and the file as it was
//! commented on.

use crate::discussion::File;
use crate::git::Id;
use crate::lines;
use crate::merge_request::MergeRequest;
use crate::sparse_tree::{Node, Snapshot};
use crate::store::{self, Head};
use crate::suggestion::{Branch, Circumstances, Current, Reason, Suggestion};
use bytes::Bytes;
use kit::Env;
use kit::store::StoreError;
use std::cell::RefCell;
use std::collections::BTreeMap;

/// How much of files is remembered within a request, in bytes.
const REMEMBERED: usize = 32 << 20;

/// Contents of files, read once as long as they fit.
pub struct Files<'a> {
    env: &'a Env,
    read: RefCell<BTreeMap<(u64, Id), Bytes>>,
}

impl<'a> Files<'a> {
    pub fn new(env: &'a Env) -> Self {
        Files { env, read: RefCell::default() }
    }

    /// The contents of a file that is in the repository; none if it is too large to be read.
    pub fn get(&self, project: u64, blob: Id) -> Result<Option<Bytes>, StoreError> {
        if let Some(contents) = self.read.borrow().get(&(project, blob)) {
            return Ok(Some(contents.clone()));
        }
        let Ok(contents) = store::blob(self.env, project, blob)? else { return Ok(None) };
        let mut read = self.read.borrow_mut();
        if read.values().map(Bytes::len).sum::<usize>() + contents.len() > REMEMBERED {
            read.clear();
        }
        read.insert((project, blob), contents.clone());
        Ok(Some(contents))
    }

    /// The lines that a suggestion replaces, as they were commented on.
    pub fn commented(&self, file: &File, suggestion: &Suggestion) -> Result<Bytes, StoreError> {
        let contents = self.get(file.project_id, file.blob)?.unwrap_or_default();
        let lines = lines::of(&contents, &suggestion.lines()).unwrap_or_default();
        Ok(contents.slice_ref(lines))
    }
}

/// A branch at one moment, or that it is gone.
pub struct View {
    project: u64,
    branch: Option<(Head, Option<Snapshot>)>,
}

impl View {
    /// Reads the folders on the way to `paths`; nothing if every file was commented on at the
    /// branch's head and `edit` does not ask for them all the same.
    pub fn load<'a>(
        env: &Env,
        project: u64,
        head: Option<Head>,
        files: impl Iterator<Item = &'a File> + Clone,
        edit: bool,
    ) -> Result<Self, StoreError> {
        let Some(head) = head else { return Ok(View { project, branch: None }) };
        if !edit && files.clone().all(|file| file.commit == head.commit && file.project_id == project) {
            return Ok(View { project, branch: Some((head, None)) });
        }
        let commit = store::commit(env, project, head.commit)?;
        let commit = commit
            .ok_or_else(|| StoreError::Other(format!("commit {} of project {project} is missing", head.commit)))?;
        let read = |id| store::tree(env, project, id);
        let snapshot = Snapshot::load(commit.tree, files.map(|file| file.path.as_str()), read)?;
        Ok(View { project, branch: Some((head, Some(snapshot))) })
    }

    pub fn head(&self) -> Option<&Head> {
        self.branch.as_ref().map(|(head, _)| head)
    }

    pub fn snapshot(&self) -> Option<&Snapshot> {
        self.branch.as_ref().and_then(|(_, snapshot)| snapshot.as_ref())
    }
}

/// What is to be said about a suggestion here and now.
pub struct Judgement {
    /// Why it cannot be applied, seen alone; see [`Circumstances::inapplicable`].
    pub inapplicable: Option<Reason>,
    /// The same within a batch; see [`Circumstances::refusal`].
    pub refusal: Option<Reason>,
    pub applied: bool,
    pub from_content: Bytes,
}

/// Judges a suggestion to change `file` by the branch of its merge request.
pub fn judge(
    files: &Files,
    view: &View,
    merge_request: &MergeRequest,
    file: &File,
    suggestion: &Suggestion,
    same_branch: bool,
) -> Result<Judgement, StoreError> {
    let from_content = files.commented(file, suggestion)?;
    let is_named = view.head().is_some_and(|head| head.applied.contains(&suggestion.id));
    let applied = is_named || store::applied(files.env, suggestion.id)?.is_some();
    let contents;
    let branch = match &view.branch {
        None => None,
        Some((head, None)) => Some(Branch { head: head.commit, file: Some(Current::Same) }),
        Some((head, Some(snapshot))) => {
            let current = match snapshot.node(&file.path) {
                Node::NoFile => None,
                Node::Blob(id) if id == file.blob => Some(Current::Same),
                Node::Blob(id) => {
                    // What is too large to be read has other lines than what was not.
                    contents = files.get(view.project, id)?.unwrap_or_default();
                    Some(Current::Changed(&contents))
                }
            };
            Some(Branch { head: head.commit, file: current })
        }
    };
    let circumstances = Circumstances {
        suggestion,
        path: &file.path,
        from_content: &from_content,
        commit: file.commit,
        applied,
        state: merge_request.state,
        branch,
    };
    let (inapplicable, refusal) = (circumstances.inapplicable(), circumstances.refusal(same_branch));
    Ok(Judgement { inapplicable, refusal, applied, from_content })
}
