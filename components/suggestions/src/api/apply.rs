//! Applying suggestions.

use crate::api::access::{self, PushableMergeRequest};
use crate::api::context::{self, RequestContext, TextBudget};
use crate::api::file_cache::FileCache;
use crate::api::source_branch::{BranchHead, InapplicableReason, SourceBranch, assess, check_contents};
use crate::discussion::{CommentedFile, Discussion, Note};
use crate::git::{Commit, Object, ObjectId, ObjectKind, Signature, explain_ambiguity, find_ambiguity, strip_crud};
use crate::lines::{self, Replacement};
use crate::merge_request::MergeRequest;
use crate::repository_id::RepositoryId;
use crate::store::discussions::{self, DiscussionUpdate};
use crate::store::merge_requests;
use crate::store::new_pack::{self, NewObject};
use crate::store::refs::{self, AppliedCommit, RefValue};
use crate::suggestion::Suggestion;
use directory::project::{Project, ProjectKey};
use directory::user::{self, User, UserKey};
use http::StatusCode;
use kit::params::{Params, Validation};
use kit::root::Decision;
use kit::store::StoreError;
use kit::{Error, Response, gc};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

/// The most suggestions in one commit. Each of them costs 4 reads.
const MAX_BATCH: usize = 1000;

/// `PUT /suggestions/:id/apply`.
pub fn one(context: &RequestContext, id: &str, params: &Params) -> Result<Response, Error> {
    let id = context::suggestion_id(id)?;
    let message = read_message(params)?;
    let not_found = "Suggestion is not applicable as the suggestion was not found.";
    let applied = SuggestionBatch::load(context, &[id], not_found)?.apply(message.as_deref())?;
    Ok(Response::ok(&applied.first()))
}

/// `PUT /suggestions/batch_apply`.
pub fn batch(context: &RequestContext, params: &Params) -> Result<Response, Error> {
    let checks = Validation::new(params);
    // Text that is not a number counts as 0, the id of no suggestion.
    let ids: Vec<u64> = checks.required_list("ids").iter().map(|element| element.parse().unwrap_or(0)).collect();
    if ids.len() > MAX_BATCH {
        checks.reject(format!("ids has {} elements, and at most {MAX_BATCH} are allowed", ids.len()));
    }
    checks.finish()?;
    let message = read_message(params)?;
    let not_found = "Suggestions are not applicable as one or more suggestions were not found.";
    let applied = SuggestionBatch::load(context, &ids, not_found)?.apply(message.as_deref())?;
    Ok(Response::ok(&applied))
}

/// The commit message that a request asks for.
fn read_message(params: &Params) -> Result<Option<String>, Error> {
    let checks = Validation::new(params);
    let message = checks.text("commit_message");
    checks.finish()?;
    if message.is_some_and(|message| message.contains('\0') || message.len() > MAX_MESSAGE) {
        return Err(Error::validation("commit_message is invalid"));
    }
    Ok(message.map(str::to_owned))
}

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
        refs::save_applied(env, &ids, &AppliedCommit { commit, operation: self.operation.clone() })?;
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

    /// The commit that an earlier attempt of this request made, if its swap took place but was reported as lost.
    fn own_commit(&self, head: Option<&RefValue>) -> Result<Option<ObjectId>, StoreError> {
        if let Some(head) = head.filter(|head| head.operation == self.operation) {
            return Ok(Some(head.commit));
        }
        // A request that has moved the branch since has recorded the suggestions that this request applied.
        let Some(first) = self.items.first() else { return Ok(None) };
        let applied = refs::read_applied(&self.context.env, first.suggestion.id)?;
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
        let message = render_message(requested, self.target.suggestion_commit_message.as_deref(), &values);
        message.ok_or_else(|| Error::validation("commit_message is too long"))
    }
}

fn too_much_text() -> String {
    format!("400 Bad request - the suggestions' discussions have more than {MAX_DISCUSSIONS} bytes together")
}

fn refusal(reason: InapplicableReason) -> Error {
    Error::message(StatusCode::BAD_REQUEST, reason.to_string())
}

/// The template of last resort.
const DEFAULT_TEMPLATE: &str =
    "Apply %{suggestions_count} suggestion(s) to %{files_count} file(s)\n\n%{co_authored_by}";

/// The values of a template's placeholders, each of which is named `%{like_this}`.
#[derive(Debug, Clone, Default)]
pub struct PlaceholderValues<'a> {
    pub branch_name: &'a str,
    /// Without duplicates.
    pub file_paths: Vec<&'a str>,
    pub project_name: &'a str,
    /// The last segment of the target project's path.
    pub project_path: &'a str,
    /// Of the user who applies the suggestions.
    pub user_full_name: &'a str,
    pub username: &'a str,
    pub suggestions_count: usize,
    /// Name and e-mail address of each author of a suggestion who is not that user.
    pub co_authors: Vec<(String, String)>,
}

/// The longest message, in bytes. A template of this length may name long values again and again.
pub const MAX_MESSAGE: usize = 1 << 20;

/// The longest name of a placeholder, in bytes. The search for its end stops there, because a template may have half a
/// million beginnings.
const MAX_NAME: usize = "suggestions_count".len();

/// Renders the first of these templates that is not blank, or else the default. Unknown placeholders are
/// kept as they are. `None` if the message would be longer than [`MAX_MESSAGE`].
pub fn render_message(requested: Option<&str>, project: Option<&str>, values: &PlaceholderValues) -> Option<String> {
    let template = [requested, project].into_iter().flatten().find(|template| !template.trim().is_empty());
    let mut message = String::new();
    let mut rest = template.unwrap_or(DEFAULT_TEMPLATE);
    while let Some((before, after)) = rest.split_once("%{") {
        message.push_str(before);
        let end = after.bytes().take(MAX_NAME + 1).position(|byte| byte == b'}');
        let named = end.and_then(|end| Some((after.get(..end)?, after.get(end + 1..)?)));
        let known = named.and_then(|(name, after)| Some((values.get(name)?, after)));
        match known {
            Some((value, after)) => {
                message.push_str(&value);
                rest = after;
            }
            None => {
                message.push_str("%{");
                rest = after;
            }
        }
        if message.len() > MAX_MESSAGE {
            return None;
        }
    }
    message.push_str(rest);
    message.truncate(message.trim_end().len());
    Some(message).filter(|message| message.len() <= MAX_MESSAGE)
}

impl PlaceholderValues<'_> {
    fn get(&self, name: &str) -> Option<String> {
        Some(match name {
            "branch_name" => self.branch_name.to_owned(),
            "files_count" => self.file_paths.len().to_string(),
            "file_paths" => {
                let mut paths = self.file_paths.clone();
                paths.sort_unstable();
                paths.join(", ")
            }
            "project_name" => self.project_name.to_owned(),
            "project_path" => self.project_path.to_owned(),
            "user_full_name" => self.user_full_name.to_owned(),
            "username" => self.username.to_owned(),
            "suggestions_count" => self.suggestions_count.to_string(),
            "co_authored_by" => {
                let line = |(name, email): &(String, String)| {
                    format!("Co-authored-by: {} <{}>", strip_crud(name), strip_crud(email))
                };
                self.co_authors.iter().map(line).collect::<Vec<_>>().join("\n")
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(requested: Option<&str>, project: Option<&str>, values: &PlaceholderValues) -> String {
        render_message(requested, project, values).unwrap()
    }

    fn values() -> PlaceholderValues<'static> {
        PlaceholderValues {
            branch_name: "topic",
            file_paths: vec!["b.rs", "a.rs"],
            project_name: "My Site",
            project_path: "site",
            user_full_name: "Mia M",
            username: "mia",
            suggestions_count: 3,
            co_authors: vec![("Dev".into(), "d@x".into()), ("E <v>il\n".into(), "e@x".into())],
        }
    }

    #[test]
    fn the_default_names_the_other_authors() {
        let expected = "Apply 3 suggestion(s) to 2 file(s)\n\nCo-authored-by: Dev <d@x>\nCo-authored-by: E vil <e@x>";
        assert_eq!(rendered(None, None, &values()), expected);
        let alone = PlaceholderValues { co_authors: vec![], ..values() };
        assert_eq!(rendered(Some(" \n"), Some(""), &alone), "Apply 3 suggestion(s) to 2 file(s)");
    }

    #[test]
    fn placeholders_are_replaced_in_every_template() {
        let all = "%{branch_name}|%{files_count}|%{file_paths}|%{project_name}|%{project_path}|%{user_full_name}|%{username}|%{suggestions_count}";
        let expected = "topic|2|a.rs, b.rs|My Site|site|Mia M|mia|3";
        assert_eq!(rendered(Some(all), Some("other"), &values()), expected);
        assert_eq!(rendered(None, Some(all), &values()), expected);
    }

    #[test]
    fn unknown_placeholders_are_kept() {
        for typed in ["%{unknown}", "%{", "%{branch_name", "100% {x}", "%%{", "{branch_name}"] {
            assert_eq!(rendered(Some(typed), None, &values()), typed);
        }
        // A placeholder within a value is not replaced.
        let nested = PlaceholderValues { branch_name: "%{username}", ..values() };
        assert_eq!(rendered(Some("%{branch_name}"), None, &nested), "%{username}");
    }

    /// Quadratic time would take minutes.
    #[test]
    fn a_template_of_beginnings_alone_is_read_once() {
        let template = format!("{}}}", "%{".repeat(MAX_MESSAGE / 2 - 1));
        assert_eq!(rendered(Some(&template), None, &values()), template);
    }

    #[test]
    fn a_message_has_a_bound_whatever_its_template_names() {
        let values = PlaceholderValues { file_paths: vec!["x"; 1000], ..values() };
        assert!(render_message(Some(&"%{file_paths} ".repeat(340)), None, &values).is_some());
        assert!(render_message(Some(&"%{file_paths} ".repeat(70_000)), None, &values).is_none());
    }
}
