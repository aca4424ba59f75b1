//! Applying suggestions: one commit on the source branch, with every one of them or none.

use super::show::too_much_to_show;
use super::source_branch::{Files, View, judge};
use super::{Call, MAX_SHOWN, input};
use crate::discussion::{Discussion, File};
use crate::git::{Commit, Id, Kind, Object, Signature};
use crate::lines::{self, Replacement};
use crate::merge_request::MergeRequest;
use crate::commit_message::{self, Facts};
use crate::store::{self, Applied, Head, Tip};
use crate::suggestion::{Reason, Suggestion};
use directory::access;
use directory::project::{self, Project};
use directory::user;
use http::StatusCode;
use kit::gc;
use kit::params::{Params, Validation};
use kit::root::Decision;
use kit::store::StoreError;
use kit::{Error, Request, Response};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// How many suggestions one commit may apply. Each of them costs 3 reads.
const MAX_BATCH: usize = 1000;

/// The longest message, in bytes.
const MAX_MESSAGE: usize = 1 << 20;

/// A suggestion's id; 400 if it is not an integer.
pub fn id(text: &str) -> Result<u64, Error> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Error::validation("id is invalid"));
    }
    // Nothing has a negative id, or one that does not fit.
    Ok(text.parse().unwrap_or(0))
}

/// The message that a request asks for.
fn message(params: &Params) -> Result<Option<String>, Error> {
    let message = params.text("commit_message");
    if message.is_some_and(|message| message.contains('\0') || message.len() > MAX_MESSAGE) {
        return Err(Error::validation("commit_message is invalid"));
    }
    Ok(message.map(str::to_owned))
}

/// `PUT /suggestions/:id/apply`.
pub async fn one(call: &Call, id: &str, request: Request) -> Result<Response, Error> {
    call.caller.user_or_401()?;
    let id = self::id(id)?;
    let message = message(&input::read(request).await?)?;
    let not_found = "Suggestion is not applicable as the suggestion was not found.";
    let shown = Batch::load(call, &[id], not_found)?.apply(message.as_deref())?;
    Ok(Response::ok(&shown.first()))
}

/// `PUT /suggestions/batch_apply`.
pub async fn batch(call: &Call, request: Request) -> Result<Response, Error> {
    call.caller.user_or_401()?;
    let params = input::read(request).await?;
    let checks = Validation::new(&params);
    // An element that is no number is the id of nothing.
    let ids: Vec<u64> =
        params.list("ids").unwrap_or_default().iter().map(|element| element.parse().unwrap_or(0)).collect();
    if ids.is_empty() {
        checks.reject("ids is missing");
    } else if ids.len() > MAX_BATCH {
        checks.reject(format!("ids has {} elements, and at most {MAX_BATCH} are allowed", ids.len()));
    }
    checks.finish()?;
    let message = message(&params)?;
    let not_found = "Suggestions are not applicable as one or more suggestions were not found.";
    let shown = Batch::load(call, &ids, not_found)?.apply(message.as_deref())?;
    Ok(Response::ok(&shown))
}

/// A suggestion with all that belongs to it.
struct Item {
    suggestion: Suggestion,
    discussion: Discussion,
    file: File,
}

/// By path: the blob that is there, and what is to be replaced in it.
type Edits<'a> = BTreeMap<&'a str, (Id, Vec<Replacement<'a>>)>;

/// Suggestions that are to be applied together, by somebody who may push to their branches.
struct Batch<'a> {
    call: &'a Call,
    /// By id.
    items: Vec<Item>,
    merge_requests: BTreeMap<(u64, u64), MergeRequest>,
    /// The repository and the branch of the first one.
    source: Project,
    branch: String,
    /// The first one's merge request's project.
    target: Project,
    /// By which this request knows its own work.
    operation: String,
}

impl<'a> Batch<'a> {
    /// 404 with `not_found` unless there is each of these suggestions, and each is given once; 403
    /// if the caller may not push to the branch of one of them.
    fn load(call: &'a Call, ids: &[u64], not_found: &str) -> Result<Self, Error> {
        let env = &call.env;
        let not_found = || Error::message(StatusCode::NOT_FOUND, not_found);
        let unique: BTreeSet<u64> = ids.iter().copied().collect();
        if unique.len() != ids.len() {
            return Err(not_found());
        }
        let (mut items, mut merge_requests) = (Vec::new(), BTreeMap::new());
        for id in unique {
            let (discussion, suggestion) = store::locate(env, id)?.ok_or_else(not_found)?;
            let key = key(&discussion);
            if let Entry::Vacant(place) = merge_requests.entry(key) {
                place.insert(store::merge_request(env, key.0, key.1)?.ok_or_else(not_found)?);
            }
            let file = discussion.file.clone().ok_or_else(not_found)?;
            items.push(Item { suggestion, discussion, file });
        }
        let mut allowed = BTreeMap::new();
        for (key, merge_request) in &merge_requests {
            allowed.insert(*key, may_push(call, key.0, merge_request)?);
        }
        let all: Option<Vec<_>> = allowed.into_values().collect();
        all.ok_or_else(Error::forbidden)?;
        let first = items.first().and_then(|item| merge_requests.get(&key(&item.discussion)).map(|mr| (item, mr)));
        let (item, merge_request) = first.ok_or_else(not_found)?;
        let source = merge_request.source_project_id.map(|id| project::by_id(env, id)).transpose()?.flatten();
        let source = source.ok_or_else(Error::forbidden)?;
        let target = project::by_id(env, item.discussion.project_id)?.ok_or_else(not_found)?;
        let branch = merge_request.source_branch.clone();
        Ok(Batch { call, items, merge_requests, source, branch, target, operation: env.id() })
    }

    fn is_on_branch(&self, merge_request: &MergeRequest) -> bool {
        merge_request.source_branch == self.branch && merge_request.source_project_id == Some(self.source.id)
    }

    /// Makes the commit, and returns the suggestions as they were before it, by id.
    fn apply(&self, message: Option<&str>) -> Result<Vec<serde_json::Value>, Error> {
        let env = &self.call.env;
        let files = Files::new(env);
        let mut shown = Vec::new();
        let mut left = MAX_SHOWN;
        for item in &self.items {
            let from_content = files.commented(&item.file, &item.suggestion)?;
            let size = from_content.len() + item.suggestion.to_content.len();
            left = left.checked_sub(size).ok_or_else(|| too_much_to_show(MAX_SHOWN))?;
            shown.push(item.suggestion.shown(&from_content, true, false));
        }
        let message = self.message(message)?;
        let name = format!("heads/{}", self.branch);
        let commit = store::update_head(env, self.source.id, &name, |head| self.attempt(&files, head, &message))?;
        let ids: Vec<u64> = self.items.iter().map(|item| item.suggestion.id).collect();
        store::save_applied(env, &ids, &Applied { commit, operation: self.operation.clone() })?;
        Ok(shown)
    }

    /// Decides on the branch as it is, and writes everything but its root. All is asked again when
    /// the branch was moved in between.
    fn attempt(&self, files: &Files, head: Option<Head>, message: &str) -> Result<Decision<Tip, Id>, Error> {
        let env = &self.call.env;
        if let Some(commit) = self.own_commit(head.as_ref())? {
            return Ok(Decision::Done(commit));
        }
        let here = self.items.iter().filter(|item| self.merge_request(item).is_some_and(|mr| self.is_on_branch(mr)));
        let view = View::load(env, self.source.id, head, here.map(|item| &item.file), true)?;
        let edits = self.check(files, &view)?;
        let (Some(head), Some(snapshot)) = (view.head(), view.snapshot()) else {
            return Err(refused(Reason::BranchDeleted));
        };
        let space = store::current_space(env)?;
        let mut changed = BTreeMap::new();
        for (path, (blob, replacements)) in &edits {
            let Some(before) = files.get(self.source.id, *blob)? else { return Err(refused(Reason::FileNotFound)) };
            let after = Object::new(Kind::Blob, lines::replace(&before, replacements));
            store::save(env, space, self.source.id, &after)?;
            changed.insert(*path, after.id);
        }
        let trees = snapshot.replace(&changed);
        trees.iter().try_for_each(|tree| store::save(env, space, self.source.id, tree))?;
        let root = trees.last().map(|tree| tree.id).ok_or_else(|| Error::internal("a commit without a folder"))?;
        let contents = Commit::contents(root, head.commit, &self.signature()?, message);
        let commit = Object::new(Kind::Commit, contents);
        store::save(env, space, self.source.id, &commit)?;
        if gc::is_too_late(env) {
            return Err(StoreError::TooLate.into());
        }
        let applied = self.items.iter().map(|item| item.suggestion.id).collect();
        let tip = Head { commit: commit.id, applied, operation: self.operation.clone() };
        Ok(Decision::Write(Tip::At(tip), commit.id))
    }

    /// The commit that this request made, if a swap took place that was reported as lost.
    fn own_commit(&self, head: Option<&Head>) -> Result<Option<Id>, StoreError> {
        if let Some(head) = head.filter(|head| head.operation == self.operation) {
            return Ok(Some(head.commit));
        }
        // Others have moved on since, and have recorded what was applied before them.
        let Some(first) = self.items.first() else { return Ok(None) };
        let applied = store::applied(&self.call.env, first.suggestion.id)?;
        Ok(applied.filter(|applied| applied.operation == self.operation).map(|applied| applied.commit))
    }

    /// What is to be replaced; 400 with the first reason why not.
    fn check(&self, files: &Files, view: &View) -> Result<Edits<'_>, Error> {
        let mut edits = Edits::new();
        let mut elsewhere = BTreeMap::new();
        // As they are now: one may have been merged since the last attempt.
        let mut merge_requests = BTreeMap::new();
        for key in self.merge_requests.keys() {
            let current = store::merge_request(&self.call.env, key.0, key.1)?;
            merge_requests.insert(*key, current.ok_or_else(|| refused(Reason::Applied))?);
        }
        for item in &self.items {
            let merge_request = merge_requests.get(&key(&item.discussion));
            let merge_request = merge_request.ok_or_else(|| Error::internal("a merge request was not read"))?;
            let same_branch = self.is_on_branch(merge_request);
            if !same_branch && !elsewhere.contains_key(&key(&item.discussion)) {
                elsewhere.insert(key(&item.discussion), self.elsewhere(merge_request, &item.file)?);
            }
            let view = if same_branch { Some(view) } else { elsewhere.get(&key(&item.discussion)) };
            let view = view.ok_or_else(|| Error::internal("a branch was not read"))?;
            let judgement = judge(files, view, merge_request, &item.file, &item.suggestion, same_branch)?;
            if let Some(reason) = judgement.refusal {
                return Err(refused(reason));
            }
            let text = item.suggestion.to_content.as_bytes();
            let replacement = Replacement { lines: item.suggestion.lines(), text };
            edits.entry(&item.file.path).or_insert((item.file.blob, Vec::new())).1.push(replacement);
        }
        for (_, replacements) in edits.values_mut() {
            replacements.sort_by_key(|replacement| *replacement.lines.start());
            if lines::overlap(replacements) {
                return Err(refused(Reason::Overlap));
            }
        }
        Ok(edits)
    }

    fn merge_request(&self, item: &Item) -> Option<&MergeRequest> {
        self.merge_requests.get(&key(&item.discussion))
    }

    /// The branch of a merge request with another branch than the first one's.
    fn elsewhere(&self, merge_request: &MergeRequest, file: &File) -> Result<View, StoreError> {
        let env = &self.call.env;
        let source = merge_request.source_project_id.unwrap_or(0);
        let head = store::head(env, source, &format!("heads/{}", merge_request.source_branch))?;
        View::load(env, source, head, std::iter::once(file), true)
    }

    fn signature(&self) -> Result<Signature, Error> {
        let user = self.call.caller.user_or_401()?;
        Ok(Signature {
            name: user.name.clone(),
            email: self.call.commit_email(user),
            seconds: self.call.env.now.millis().div_euclid(1000),
        })
    }

    fn message(&self, requested: Option<&str>) -> Result<String, Error> {
        let user = self.call.caller.user_or_401()?;
        let mut authors: Vec<u64> = Vec::new();
        for item in &self.items {
            let author = item.discussion.author_id;
            if author != user.id && !authors.contains(&author) {
                authors.push(author);
            }
        }
        let mut co_authors = Vec::new();
        for author in authors {
            if let Some(author) = user::by_id(&self.call.env, author)? {
                co_authors.push((author.name.clone(), self.call.commit_email(&author)));
            }
        }
        let paths: BTreeSet<&str> = self.items.iter().map(|item| item.file.path.as_str()).collect();
        let facts = Facts {
            branch_name: &self.branch,
            file_paths: paths.into_iter().collect(),
            project_name: &self.target.name,
            project_path: &self.target.path,
            user_full_name: &user.name,
            username: &user.username,
            suggestions_count: self.items.len(),
            co_authors,
        };
        Ok(commit_message::message(requested, self.target.suggestion_commit_message.as_deref(), &facts))
    }
}

/// The merge request of a discussion.
fn key(discussion: &Discussion) -> (u64, u64) {
    (discussion.project_id, discussion.merge_request_iid)
}

fn refused(reason: Reason) -> Error {
    Error::message(StatusCode::BAD_REQUEST, reason.to_string())
}

/// Whether the caller may push to the source branch; `None` if not.
fn may_push(call: &Call, target: u64, merge_request: &MergeRequest) -> Result<Option<()>, StoreError> {
    let env = &call.env;
    let Some(source) = merge_request.source_project_id.map(|id| project::by_id(env, id)).transpose()?.flatten() else {
        return Ok(None);
    };
    let role = access::project_role(env, &call.caller, &source)?;
    if source.may_push(role, &merge_request.source_branch) {
        return Ok(Some(()));
    }
    if !merge_request.allow_collaboration || source.archived {
        return Ok(None);
    }
    let Some(target) = project::by_id(env, target)? else { return Ok(None) };
    let role = access::project_role(env, &call.caller, &target)?;
    Ok(target.may_push(role, &merge_request.target_branch).then_some(()))
}
