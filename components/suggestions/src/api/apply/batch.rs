//! Suggestions that are applied together: one commit with every one of them, or none.

use crate::api::access::{self, PushableMergeRequest};
use crate::api::applicability::{assess, check_contents};
use crate::api::context::RequestContext;
use crate::api::file_cache::FileCache;
use crate::api::source_branch::{BranchHead, SourceBranch};
use crate::api::text_budget::TextBudget;
use crate::applicability::InapplicableReason;
use crate::commit_message::{self, PlaceholderValues};
use crate::discussion::{CommentedFile, Discussion, Note};
use crate::git::{Commit, Object, ObjectId, ObjectKind, Signature, explain_ambiguity, find_ambiguity};
use crate::lines::{self, Replacement};
use crate::merge_request::MergeRequest;
use crate::repository_id::RepositoryId;
use crate::store::applied::{self, AppliedCommit};
use crate::store::discussions::{self, DiscussionUpdate};
use crate::store::merge_requests;
use crate::store::new_pack::{self, NewObject};
use crate::store::refs::{self, RefValue};
use crate::suggestion::Suggestion;
use directory::project::{Project, ProjectKey};
use directory::user::{self, User, UserKey};
use http::StatusCode;
use kit::Error;
use kit::gc;
use kit::root::Decision;
use kit::store::StoreError;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// A suggestion, and the needed parts of its discussion. With whole discussions, a batch could have the same text many
/// times.
struct BatchItem {
    suggestion: Suggestion,
    author: UserKey,
    discussion_id: String,
    merge_request: (ProjectKey, u64),
    file: CommentedFile,
}

/// The most text of the discussions of one batch, in bytes. Each discussion is in memory until it has a note about the
/// commit.
const MAX_DISCUSSIONS: usize = 64 << 20;

/// The blob of each file at the head, by its path there, and the replacements of its lines.
type Edits<'a> = BTreeMap<String, (ObjectId, Vec<Replacement<'a>>)>;

/// By target project and iid.
type MergeRequests = BTreeMap<(ProjectKey, u64), MergeRequest>;

/// Why an attempt to make the commit ended.
enum CommitError {
    Store(StoreError),
    Refused(Error),
}

impl From<StoreError> for CommitError {
    fn from(error: StoreError) -> Self {
        CommitError::Store(error)
    }
}

impl From<Error> for CommitError {
    fn from(error: Error) -> Self {
        CommitError::Refused(error)
    }
}

impl From<CommitError> for Error {
    fn from(error: CommitError) -> Self {
        match error {
            CommitError::Store(StoreError::Contended(_)) => refusal(InapplicableReason::HeadMoved),
            CommitError::Store(error) => error.into(),
            CommitError::Refused(error) => error,
        }
    }
}

/// Suggestions that the caller may apply: the caller may push to the source branch of each.
pub struct SuggestionBatch<'a> {
    context: &'a RequestContext,
    /// By id.
    items: Vec<BatchItem>,
    /// The discussions of the suggestions, each once. They are read before the first write, because a request that lost
    /// a swap waits for a flush before its next read.
    discussions: Vec<DiscussionUpdate>,
    merge_requests: MergeRequests,
    /// The source repository of the first suggestion's merge request.
    repository: RepositoryId,
    /// The source branch of the first suggestion's merge request.
    branch: String,
    /// The target project of the first suggestion's merge request.
    target: Project,
    /// The id of this request, by which it recognises its own commit.
    operation: String,
}

impl<'a> SuggestionBatch<'a> {
    /// Loads the suggestions and authorizes the caller. 404 with `not_found` unless every suggestion exists and is
    /// given once. 403 if the caller may not read the merge request of a suggestion, or not push to its source branch.
    pub fn load(context: &'a RequestContext, ids: &[u64], not_found: &str) -> Result<Self, Error> {
        let env = &context.env;
        let not_found = || Error::message(StatusCode::NOT_FOUND, not_found);
        let unique: BTreeSet<u64> = ids.iter().copied().collect();
        if unique.len() != ids.len() {
            return Err(not_found());
        }
        let (mut items, mut merge_requests) = (Vec::new(), BTreeMap::new());
        let (mut discussions, mut updates, mut text) = (BTreeMap::new(), Vec::new(), 0);
        for id in unique {
            let discussion_id = discussions::find_discussion_id(env, id)?.ok_or_else(not_found)?;
            let discussion = match discussions.entry(discussion_id) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(entry) => {
                    let read = discussions::read_for_update(env, entry.key())?;
                    let (discussion, update): (Discussion, _) = read.ok_or_else(not_found)?;
                    text += discussion.text_length();
                    if text > MAX_DISCUSSIONS {
                        return Err(Error::message(StatusCode::BAD_REQUEST, too_much_text()));
                    }
                    updates.push(update);
                    entry.insert(discussion)
                }
            };
            let (note, suggestion) = discussion.suggestion(id).ok_or_else(not_found)?;
            let key = (discussion.project.clone(), discussion.merge_request_iid);
            if let Entry::Vacant(entry) = merge_requests.entry(key.clone()) {
                let (project, iid) = entry.key();
                let merge_request = merge_requests::read(env, project, *iid)?;
                entry.insert(merge_request.ok_or_else(not_found)?);
            }
            items.push(BatchItem {
                suggestion: suggestion.clone(),
                author: note.author.clone(),
                discussion_id: discussion.id.clone(),
                merge_request: key,
                file: discussion.file.clone().ok_or_else(not_found)?,
            });
        }
        let mut pushable = BTreeMap::new();
        for (key, merge_request) in &merge_requests {
            pushable.insert(key.clone(), access::pushable_merge_request(context, &key.0, merge_request)?);
        }
        let key = items.first().map(|item| item.merge_request.clone()).ok_or_else(not_found)?;
        let branch = merge_requests.get(&key).ok_or_else(not_found)?.source_branch.clone();
        let PushableMergeRequest { source, target } = pushable.remove(&key).ok_or_else(Error::forbidden)?;
        let repository = RepositoryId::of(&source);
        Ok(SuggestionBatch {
            context,
            items,
            discussions: updates,
            merge_requests,
            repository,
            branch,
            target,
            operation: env.id(),
        })
    }

    fn is_on_branch(&self, merge_request: &MergeRequest) -> bool {
        merge_request.source_branch == self.branch && merge_request.source == Some(self.repository)
    }

    /// Makes the commit. Returns the JSON of the suggestions as they were before it, by id.
    pub fn apply(mut self, message: Option<&str>) -> Result<Vec<serde_json::Value>, Error> {
        let env = &self.context.env;
        let files = FileCache::new(env);
        let mut budget = TextBudget::new();
        for item in &self.items {
            let from_content = files.read_commented_lines(&item.file, &item.suggestion)?;
            budget.spend(from_content.len() + item.suggestion.to_content.len())?;
        }
        let name = format!("heads/{}", self.branch);
        if let Some(taken_for) = find_ambiguity(&name) {
            return Err(Error::message(StatusCode::BAD_REQUEST, explain_ambiguity(&name, taken_for)));
        }
        let mut shown = Vec::new();
        let mut is_repeated = false;
        let commit = refs::update(env, self.repository, &name, |head| {
            let decision = self.commit_on(head, &files, message, is_repeated, &mut shown);
            is_repeated = true;
            decision
        })?;
        let ids: Vec<u64> = self.items.iter().map(|item| item.suggestion.id).collect();
        applied::save(env, &ids, &AppliedCommit { commit, operation: self.operation.clone() })?;
        let discussions = std::mem::take(&mut self.discussions);
        self.add_system_notes(commit, discussions)?;
        // The move merges no merge request: no other branch has the commit that was made just now.
        Ok(shown)
    }

    /// Adds a note to each discussion about the commit that applied its suggestions. If the request dies before, the
    /// discussion lacks the note, but its suggestions are applied.
    fn add_system_notes(&self, commit: ObjectId, discussions: Vec<DiscussionUpdate>) -> Result<(), Error> {
        let author = self.context.caller.user_or_401()?.key();
        let env = &self.context.env;
        for discussion in discussions {
            let is_in = |item: &&BatchItem| item.discussion_id == discussion.id();
            let body = match self.items.iter().filter(is_in).count() {
                1 => format!("applied this suggestion in commit {commit}"),
                count => format!("applied {count} suggestions in commit {commit}"),
            };
            let note = Note {
                id: discussions::allocate_note_id(env)?,
                author: author.clone(),
                body,
                created: env.now,
                updated: env.now,
                is_system: true,
                suggestions: Vec::new(),
            };
            discussion.update(env, |present| {
                if let Some(present) = present.filter(|present| present.note(note.id).is_none()) {
                    present.notes.push(note.clone());
                }
                Ok::<_, StoreError>(())
            })?;
        }
        Ok(())
    }

    /// Makes the commit on top of `head` and writes its objects. Called again, with `is_repeated`, if the branch moves
    /// before the ref is swapped. Sets `shown` to the JSON of the suggestions.
    fn commit_on(
        &self,
        head: Option<RefValue>,
        files: &FileCache,
        message: Option<&str>,
        is_repeated: bool,
        shown: &mut Vec<serde_json::Value>,
    ) -> Result<Decision<Option<RefValue>, ObjectId>, CommitError> {
        let env = &self.context.env;
        // A merge request may have been merged since the last attempt.
        let reread = if is_repeated { Some(self.read_merge_requests()?) } else { None };
        let merge_requests = reread.as_ref().unwrap_or(&self.merge_requests);
        if is_repeated && let Some(commit) = self.own_commit(head.as_ref())? {
            return Ok(Decision::Keep(commit));
        }
        let is_on_branch = |item: &&BatchItem| {
            let merge_request = self.merge_requests.get(&item.merge_request);
            merge_request.is_some_and(|merge_request| self.is_on_branch(merge_request))
        };
        let files_on_branch = self.items.iter().filter(is_on_branch).map(|item| &item.file);
        let branch = SourceBranch::load(env, self.repository, head, files_on_branch, true)?;
        shown.clear();
        let edits = self.collect_edits(files, &branch, merge_requests, shown)?;
        let Some(BranchHead { value: head, tree: Some(tree), .. }) = &branch.head else {
            return Err(refusal(InapplicableReason::BranchDeleted).into());
        };
        let mut new = Vec::new();
        let mut changed = BTreeMap::new();
        for (path, (blob, replacements)) in &edits {
            let before = files.read(self.repository, *blob)?;
            let before = before.ok_or_else(|| refusal(InapplicableReason::FileNotFound))?;
            let after = Object::new(ObjectKind::Blob, lines::replace(before.contents(), replacements));
            // Together, suggestions may make contents that none of them makes alone.
            check_contents(path, &after.contents)
                .map_err(|why| refusal(InapplicableReason::DisallowedContents(why)))?;
            changed.insert(path.as_str(), after.id);
            new.push(NewObject { object: after, previous: Some(*blob) });
        }
        let trees = tree.replace_blobs(&changed);
        let root = trees.last().map(|(tree, _)| tree.id).ok_or_else(|| Error::internal("a commit without a tree"))?;
        let (committer, authors) = (self.context.caller.user_or_401()?, self.authors()?);
        let message = self.render_message(message, edits.keys().map(String::as_str).collect(), &authors)?;
        // As in the reference service: if several users made the suggestions, the applying user is the author.
        let author = if let [Some(author)] = &authors[..] { author } else { committer };
        let [author, committer] = [author, committer].map(|user| self.signature(user));
        let contents = Commit::render(root, head.commit, &author, &committer, &message);
        let commit = Object::new(ObjectKind::Commit, contents);
        let id = commit.id;
        new.extend(trees.into_iter().map(|(object, previous)| NewObject { object, previous: Some(previous) }));
        new.push(NewObject { object: commit, previous: None });
        new_pack::save(env, self.repository, &new)?;
        if gc::is_too_late(env) {
            return Err(StoreError::TooLate.into());
        }
        let applied = self.items.iter().map(|item| item.suggestion.id).collect();
        let value = RefValue { commit: id, applied, operation: self.operation.clone() };
        Ok(Decision::Replace(Some(value), id))
    }

    /// The commit that an earlier attempt of this request made, if its swap took place but was reported as
    /// lost.
    fn own_commit(&self, head: Option<&RefValue>) -> Result<Option<ObjectId>, StoreError> {
        if let Some(head) = head.filter(|head| head.operation == self.operation) {
            return Ok(Some(head.commit));
        }
        // A request that has moved the branch since has recorded the suggestions that this request applied.
        let Some(first) = self.items.first() else { return Ok(None) };
        let applied = applied::read(&self.context.env, first.suggestion.id)?;
        Ok(applied.filter(|applied| applied.operation == self.operation).map(|applied| applied.commit))
    }

    fn read_merge_requests(&self) -> Result<MergeRequests, Error> {
        let mut merge_requests = MergeRequests::new();
        for (project, iid) in self.merge_requests.keys() {
            let current = merge_requests::read(&self.context.env, project, *iid)?;
            let current = current.ok_or_else(|| refusal(InapplicableReason::AlreadyApplied))?;
            merge_requests.insert((project.clone(), *iid), current);
        }
        Ok(merge_requests)
    }

    /// The replacements that the suggestions make; 400 with the first reason why one cannot be applied. Adds
    /// the JSON of the suggestions to `shown`.
    fn collect_edits(
        &self,
        files: &FileCache,
        batch_branch: &SourceBranch,
        merge_requests: &MergeRequests,
        shown: &mut Vec<serde_json::Value>,
    ) -> Result<Edits<'_>, Error> {
        let mut edits = Edits::new();
        let mut other_branches = BTreeMap::new();
        for item in &self.items {
            let key = &item.merge_request;
            let merge_request = merge_requests.get(key);
            let merge_request = merge_request.ok_or_else(|| Error::internal("a merge request was not read"))?;
            let same_branch = self.is_on_branch(merge_request);
            if !same_branch && !other_branches.contains_key(key) {
                other_branches.insert(key.clone(), self.load_other_branch(merge_request, &item.file)?);
            }
            let branch = if same_branch { Some(batch_branch) } else { other_branches.get(key) };
            let branch = branch.ok_or_else(|| Error::internal("a branch was not read"))?;
            let (env, file) = (&self.context.env, &item.file);
            let applicability = assess(env, files, branch, merge_request, file, &item.suggestion, same_branch)?;
            if let Some(reason) = applicability.inapplicable_reason {
                return Err(refusal(reason));
            }
            shown.push(applicability.render(&item.suggestion));
            let at_head = applicability.at_head.ok_or_else(|| refusal(InapplicableReason::FileNotFound))?;
            let replacement = Replacement { lines: at_head.lines, text: item.suggestion.to_content.as_bytes() };
            edits.entry(at_head.path).or_insert((at_head.blob, Vec::new())).1.push(replacement);
        }
        for (_, replacements) in edits.values_mut() {
            replacements.sort_by_key(|replacement| *replacement.lines.start());
            if lines::have_overlap(replacements) {
                return Err(refusal(InapplicableReason::OverlappingLines));
            }
        }
        Ok(edits)
    }

    /// The source branch of a merge request that is not on the batch's branch.
    fn load_other_branch(
        &self,
        merge_request: &MergeRequest,
        file: &CommentedFile,
    ) -> Result<SourceBranch, StoreError> {
        let env = &self.context.env;
        let Some(source) = merge_request.source else { return Ok(SourceBranch { head: None }) };
        let head = refs::read(env, source, &format!("heads/{}", merge_request.source_branch))?;
        SourceBranch::load(env, source, head, std::iter::once(file), true)
    }

    fn signature(&self, user: &User) -> Signature {
        Signature {
            name: user.name.clone(),
            email: self.context.commit_email(user),
            seconds: self.context.env.now.millis().div_euclid(1000),
        }
    }

    /// The authors of the suggestions, each once; `None` for a deleted one.
    fn authors(&self) -> Result<Vec<Option<User>>, Error> {
        let applying = self.context.caller.user_or_401()?;
        let mut authors: Vec<&UserKey> = Vec::new();
        for item in &self.items {
            if !authors.contains(&&item.author) {
                authors.push(&item.author);
            }
        }
        let read = |author: &UserKey| match *author == applying.key() {
            true => Ok(Some(applying.clone())),
            false => user::by_key(&self.context.env, author).map_err(Error::from),
        };
        authors.into_iter().map(read).collect()
    }

    fn render_message(
        &self,
        requested: Option<&str>,
        file_paths: Vec<&str>,
        authors: &[Option<User>],
    ) -> Result<String, Error> {
        let user = self.context.caller.user_or_401()?;
        let others = authors.iter().flatten().filter(|author| author.key() != user.key());
        let co_authors = others.map(|author| (author.name.clone(), self.context.commit_email(author))).collect();
        let values = PlaceholderValues {
            branch_name: &self.branch,
            file_paths,
            project_name: &self.target.name,
            project_path: &self.target.path,
            user_full_name: &user.name,
            username: &user.username,
            suggestions_count: self.items.len(),
            co_authors,
        };
        let message = commit_message::render(requested, self.target.suggestion_commit_message.as_deref(), &values);
        message.ok_or_else(|| Error::validation("commit_message is too long"))
    }
}

fn too_much_text() -> String {
    format!("400 Bad request - the suggestions' discussions have more than {MAX_DISCUSSIONS} bytes together")
}

fn refusal(reason: InapplicableReason) -> Error {
    Error::message(StatusCode::BAD_REQUEST, reason.to_string())
}
