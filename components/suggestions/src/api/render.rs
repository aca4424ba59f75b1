//! The JSON of discussions and notes.

use crate::api::access::{self, ReadableMergeRequest, ReadableSuggestion};
use crate::api::context::{self, RequestContext, TextBudget};
use crate::api::file_cache::FileCache;
use crate::api::json_page::{JsonPage, MAX_BYTES, check_size};
use crate::api::source_branch::{SourceBranch, assess};
use crate::discussion::{DiffPosition, Discussion, Note, RangeEnd};
use crate::store::discussions as store;
use directory::user::{self, UserKey};
use kit::page::Pagination;
use kit::store::StoreError;
use kit::{Error, Response};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::ops::ControlFlow;

/// Renders discussions of one merge request. Reads, for each discussion on a line, its file, and 1
/// for each author and for each suggestion.
pub struct DiscussionRenderer<'a> {
    readable: &'a ReadableMergeRequest,
    context: &'a RequestContext,
    branch: SourceBranch,
    files: FileCache<'a>,
    users: UserRenderer<'a>,
    budget: TextBudget,
}

impl<'a> DiscussionRenderer<'a> {
    pub fn new(
        context: &'a RequestContext,
        readable: &'a ReadableMergeRequest,
        discussions: &[Discussion],
    ) -> Result<Self, Error> {
        let env = &context.env;
        let branch = SourceBranch::load_for_discussions(env, &readable.merge_request, discussions)?;
        let (files, users, budget) = (FileCache::new(env), UserRenderer::new(context), TextBudget::new());
        Ok(DiscussionRenderer { readable, context, branch, files, users, budget })
    }

    pub fn render(&mut self, discussion: &Discussion) -> Result<Value, Error> {
        let notes = discussion.notes.iter().map(|note| self.render_note(discussion, note));
        let notes = notes.collect::<Result<Vec<Value>, Error>>()?;
        Ok(json!({"id": discussion.id, "individual_note": discussion.is_individual, "notes": notes}))
    }

    pub fn render_note(&mut self, discussion: &Discussion, note: &Note) -> Result<Value, Error> {
        let ReadableMergeRequest { project, merge_request, .. } = self.readable;
        let mut suggestions = Vec::new();
        if let Some(file) = &discussion.file {
            for suggestion in &note.suggestions {
                let (env, files, branch) = (&self.context.env, &self.files, &self.branch);
                let applicability = assess(env, files, branch, merge_request, file, suggestion, true)?;
                self.budget.spend(applicability.from_content.len() + suggestion.to_content.len())?;
                suggestions.push(applicability.render(suggestion));
            }
        }
        let is_resolvable = !note.is_system && !discussion.is_individual;
        let resolution = discussion.resolution.as_ref().filter(|_| is_resolvable);
        let resolved_by = self.users.render_if_known(resolution.map(|resolution| &resolution.user))?;
        let kind = match &discussion.position {
            Some(_) => Some("DiffNote"),
            None => (!discussion.is_individual).then_some("DiscussionNote"),
        };
        let mut json = json!({
            "id": note.id,
            "type": kind,
            "body": note.body,
            "author": self.users.render(&note.author)?,
            "created_at": note.created.to_iso(),
            "updated_at": note.updated.to_iso(),
            "system": note.is_system,
            "noteable_id": merge_request.id,
            "noteable_type": "MergeRequest",
            "project_id": project.id,
            "commit_id": null,
            "resolvable": is_resolvable,
            "resolved": resolution.is_some(),
            "resolved_by": resolved_by,
            "resolved_at": resolution.map(|resolution| resolution.at.to_iso()),
            "suggestions": suggestions,
            "confidential": discussion.is_internal(),
            "internal": discussion.is_internal(),
            "noteable_iid": discussion.merge_request_iid,
            "commands_changes": {},
        });
        if let (Some(position), Some(fields)) = (&discussion.position, json.as_object_mut()) {
            let present = self.present_position(discussion, position)?;
            fields.insert("position".into(), position_json(&present));
            fields.insert("original_position".into(), position_json(position));
        }
        Ok(json)
    }

    /// The position of the commented line at the head of the branch; the original position if that line was changed.
    fn present_position(&self, discussion: &Discussion, made: &DiffPosition) -> Result<DiffPosition, StoreError> {
        let (Some(file), Some(head), Some(line)) = (&discussion.file, &self.branch.head, made.new_line) else {
            return Ok(made.clone());
        };
        let Some((path, blob)) = head.find(file) else { return Ok(made.clone()) };
        let followed = self.files.follow(file, &(line..=line), (head.repository, blob))?;
        Ok(followed.map_or_else(
            || made.clone(),
            |lines| DiffPosition {
                head_sha: head.value.commit.to_string(),
                new_path: Some(path.to_owned()),
                new_line: Some(*lines.start()),
                // The lines of the range were not followed.
                line_range: made.line_range.clone().filter(|_| *lines.start() == line && *path == file.path),
                ..made.clone()
            },
        ))
    }
}

fn position_json(position: &DiffPosition) -> Value {
    json!({
        "base_sha": position.base_sha,
        "start_sha": position.start_sha,
        "head_sha": position.head_sha,
        "old_path": position.old_path,
        "new_path": position.new_path,
        "position_type": position.kind,
        "old_line": position.old_line,
        "new_line": position.new_line,
        "line_range": position.line_range.as_ref().map(|[start, end]| json!({
            "start": range_end_json(start),
            "end": range_end_json(end),
        })),
    })
}

fn range_end_json(end: &RangeEnd) -> Value {
    json!({"line_code": end.line_code, "type": end.kind, "old_line": end.old_line, "new_line": end.new_line})
}

/// The most suggestions on a page of discussions. Each of them costs a read.
const MAX_SUGGESTIONS: usize = 5000;

/// The items of a page of discussions, in error messages.
const ITEMS: &str = "discussions";

/// `GET /suggestions/:id`. 2 reads for the suggestion; also reads the project, the merge request, the branch and the
/// file. If the branch has moved, also its commit and the trees on the path to the file.
pub fn suggestion(context: &RequestContext, id: &str) -> Result<Response, Error> {
    let env = &context.env;
    let readable = access::readable_suggestion(context, id)?;
    let ReadableSuggestion { suggestion, discussion, file, merge_request } = &readable;
    let branch = SourceBranch::load_for_discussions(env, merge_request, std::slice::from_ref(discussion))?;
    let applicability = assess(env, &FileCache::new(env), &branch, merge_request, file, suggestion, true)?;
    Ok(Response::ok(&applicability.render(suggestion)))
}

/// `GET /projects/:id/merge_requests/:iid/discussions`, oldest first, in pages. Beside the project and the merge
/// request, 2 reads for the list and 1 for the branch. For each discussion 1 read, with suggestions 2, and 1 for each
/// author and each suggestion. 400 if several discussions together have more suggestions or bytes than a page may have.
pub fn discussions(context: &RequestContext, project: &str, iid: &str) -> Result<Response, Error> {
    context::check_iid(iid)?;
    let page = Pagination::read(&context.params())?;
    let readable = access::readable_merge_request(context, project, iid)?;
    let (skip, count) = (usize::try_from(page.offset()).unwrap_or(usize::MAX), page.per_page as usize);
    let (mut discussions, mut bytes) = (Vec::new(), 0);
    let (key, iid, sees_internal) = (readable.project.key(), readable.iid, readable.sees_internal_notes);
    let range = skip..skip.saturating_add(count);
    let total = store::visit(&context.env, &key, iid, sees_internal, range, |discussion| {
        bytes += discussion.as_ref().map_or(0, Discussion::text_length);
        discussions.extend(discussion);
        if bytes <= MAX_BYTES { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    check_size(ITEMS, discussions.len(), bytes)?;
    let suggestions: usize = discussions.iter().map(|discussion| discussion.suggestions().count()).sum();
    if discussions.len() > 1 && suggestions > MAX_SUGGESTIONS {
        let text = format!(
            "the page has {suggestions} suggestions, and at most {MAX_SUGGESTIONS} are shown: ask for fewer \
             discussions with per_page"
        );
        return Err(Error::bad_request(&text));
    }
    let mut renderer = DiscussionRenderer::new(context, &readable, &discussions)?;
    let mut shown = JsonPage::new(ITEMS);
    for discussion in &discussions {
        shown.push(&renderer.render(discussion)?)?;
    }
    let url = context.own_url();
    Ok(page.describe(shown.into_response(), &url, &[], total as u64))
}

/// `GET /projects/:id/merge_requests/:iid/discussions/:discussion_id`.
pub fn discussion(context: &RequestContext, project: &str, iid: &str, id: &str) -> Result<Response, Error> {
    context::check_iid(iid)?;
    let readable = access::readable_merge_request(context, project, iid)?;
    let discussion = find(context, &readable, id)?;
    let json = DiscussionRenderer::new(context, &readable, std::slice::from_ref(&discussion))?.render(&discussion)?;
    Ok(Response::ok(&json))
}

/// A discussion of this merge request; 404 if it has none with this id.
pub fn find(context: &RequestContext, readable: &ReadableMergeRequest, id: &str) -> Result<Discussion, Error> {
    let discussion = store::read(&context.env, id)?.filter(|discussion| readable.has(discussion));
    discussion.ok_or_else(|| Error::not_found("Discussion"))
}

/// Renders each user once for a request.
pub struct UserRenderer<'a> {
    context: &'a RequestContext,
    users: BTreeMap<UserKey, Value>,
}

impl<'a> UserRenderer<'a> {
    pub fn new(context: &'a RequestContext) -> Self {
        UserRenderer { context, users: BTreeMap::new() }
    }

    /// The JSON of a user; null if they were deleted. 1 read for each user who is not the caller.
    pub fn render(&mut self, key: &UserKey) -> Result<Value, StoreError> {
        if let Some(json) = self.users.get(key) {
            return Ok(json.clone());
        }
        let user = match self.context.caller.user() {
            Some(user) if user.key() == *key => Some(user.clone()),
            _ => user::by_key(&self.context.env, key)?,
        };
        let url = &self.context.url;
        let json = user.map_or(Value::Null, |user| {
            json!({
                "id": user.id,
                "username": user.username,
                "name": user.name,
                "state": user.state.as_str(),
                "avatar_url": null,
                "web_url": match directory::path::begins_like_page(&user.username) {
                    true => format!("{url}/namespaces/{}", user.username),
                    false => format!("{url}/{}", user.username),
                },
            })
        });
        self.users.insert(key.clone(), json.clone());
        Ok(json)
    }

    /// As [`Self::render`]; null without a user.
    pub fn render_if_known(&mut self, key: Option<&UserKey>) -> Result<Value, StoreError> {
        key.map_or(Ok(Value::Null), |key| self.render(key))
    }
}
