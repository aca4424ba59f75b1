//! Reading discussions and suggestions.

use super::source_branch::{Files, View, judge};
use super::{Call, MAX_SHOWN, no_record, readable_project};
use crate::discussion::{Discussion, Position};
use crate::merge_request::MergeRequest;
use crate::store;
use directory::access;
use directory::project;
use directory::project::Project;
use directory::user::{self, User};
use http::StatusCode;
use kit::page::Pagination;
use kit::store::StoreError;
use kit::{Error, Request, Response};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// `GET /suggestions/:id`. Reads: 2 for the suggestion, the project, the merge request, the branch,
/// the file, and if the branch has moved on, its commit and the folders on the way to the file.
pub fn suggestion(call: &Call, id: &str) -> Result<Response, Error> {
    call.caller.user_or_401()?;
    let id = super::apply::id(id)?;
    let not_found = || Error::not_found("Suggestion");
    let (discussion, suggestion) = store::locate(&call.env, id)?.ok_or_else(not_found)?;
    let project = project::by_id(&call.env, discussion.project_id)?;
    let project = project.ok_or_else(not_found)?;
    if !access::may_read_project(&call.env, &call.caller, &project)? {
        return Err(not_found());
    }
    let merge_request = store::merge_request(&call.env, project.id, discussion.merge_request_iid)?;
    let merge_request = merge_request.ok_or_else(not_found)?;
    let view = view(call, &merge_request, std::slice::from_ref(&discussion))?;
    let Some(file) = &discussion.file else { return Err(not_found()) };
    let judgement = judge(&Files::new(&call.env), &view, &merge_request, file, &suggestion, true)?;
    let applicable = judgement.inapplicable.is_none();
    Ok(Response::ok(&suggestion.shown(&judgement.from_content, applicable, judgement.applied)))
}

/// The merge request of a project that the caller may read.
pub fn merge_request(call: &Call, project: &str, iid: &str) -> Result<(Project, u64, MergeRequest), Error> {
    let project = readable_project(call, project)?;
    // A number that does not fit is that of nothing.
    let iid = iid.parse().unwrap_or(0);
    let merge_request = store::merge_request(&call.env, project.id, iid)?.ok_or_else(no_record)?;
    Ok((project, iid, merge_request))
}

/// 400 if the number in the path is none.
pub fn check_iid(iid: &str) -> Result<(), Error> {
    let is_number = !iid.is_empty() && iid.strip_prefix('-').unwrap_or(iid).bytes().all(|byte| byte.is_ascii_digit());
    if is_number { Ok(()) } else { Err(Error::validation("noteable_id is invalid")) }
}

/// `GET /projects/:id/merge_requests/:iid/discussions`, oldest first, in pages. Beside the project
/// and the merge request 2 reads for the list, 1 for the branch, and for each discussion 1, with
/// suggestions 2, and 1 for each author and for each suggestion.
pub fn discussions(call: &Call, project: &str, iid: &str, request: &Request) -> Result<Response, Error> {
    check_iid(iid)?;
    let page = Pagination::read(&request.params())?;
    let (project, iid, merge_request) = merge_request(call, project, iid)?;
    let (skip, count) = (usize::try_from(page.offset()).unwrap_or(usize::MAX), page.per_page as usize);
    let (total, discussions) = store::discussions(&call.env, project.id, iid, skip, count)?;
    let shown = Showing::new(call, &project, &merge_request, &discussions)?;
    let shown: Vec<Value> =
        discussions.iter().map(|discussion| shown.discussion(discussion)).collect::<Result<_, _>>()?;
    let url = format!("{}{}", call.url, call.path);
    Ok(page.describe(Response::ok(&shown), &url, &[], total as u64))
}

/// `GET /projects/:id/merge_requests/:iid/discussions/:discussion_id`.
pub fn discussion(call: &Call, project: &str, iid: &str, id: &str) -> Result<Response, Error> {
    check_iid(iid)?;
    let (project, iid, merge_request) = merge_request(call, project, iid)?;
    let found = store::discussion(&call.env, id)?;
    let found = found.filter(|found| found.project_id == project.id && found.merge_request_iid == iid);
    let discussion = found.ok_or_else(|| Error::not_found("Discussion"))?;
    Ok(Response::ok(&shown(call, &project, &merge_request, &discussion)?))
}

/// A discussion as it is shown now.
pub fn shown(
    call: &Call,
    project: &Project,
    merge_request: &MergeRequest,
    discussion: &Discussion,
) -> Result<Value, Error> {
    Showing::new(call, project, merge_request, std::slice::from_ref(discussion))?.discussion(discussion)
}

/// The source branch, as far as the files of these discussions ask for it.
fn view(call: &Call, merge_request: &MergeRequest, discussions: &[Discussion]) -> Result<View, StoreError> {
    let files = discussions.iter().filter_map(|discussion| discussion.file.as_ref());
    let Some(source) = merge_request.source_project_id else {
        return View::load(&call.env, 0, None, files, false);
    };
    let head = match files.clone().next() {
        Some(_) => store::head(&call.env, source, &format!("heads/{}", merge_request.source_branch))?,
        None => None,
    };
    View::load(&call.env, source, head, files, false)
}

/// Discussions of one merge request on their way out.
struct Showing<'a> {
    call: &'a Call,
    project: &'a Project,
    merge_request: &'a MergeRequest,
    view: View,
    files: Files<'a>,
    users: RefCell<BTreeMap<u64, Value>>,
    /// How much text may still be shown.
    left: RefCell<usize>,
}

impl<'a> Showing<'a> {
    fn new(
        call: &'a Call,
        project: &'a Project,
        merge_request: &'a MergeRequest,
        discussions: &[Discussion],
    ) -> Result<Self, Error> {
        let view = view(call, merge_request, discussions)?;
        let (files, users) = (Files::new(&call.env), RefCell::default());
        Ok(Showing { call, project, merge_request, view, files, users, left: RefCell::new(MAX_SHOWN) })
    }

    fn discussion(&self, discussion: &Discussion) -> Result<Value, Error> {
        let mut suggestions = Vec::new();
        if let Some(file) = &discussion.file {
            for suggestion in &discussion.suggestions {
                let judgement = judge(&self.files, &self.view, self.merge_request, file, suggestion, true)?;
                let size = judgement.from_content.len() + suggestion.to_content.len();
                let left = self.left.borrow().checked_sub(size).ok_or_else(|| too_much_to_show(MAX_SHOWN))?;
                self.left.replace(left);
                let applicable = judgement.inapplicable.is_none();
                suggestions.push(suggestion.shown(&judgement.from_content, applicable, judgement.applied));
            }
        }
        let created = discussion.created.to_iso();
        let mut note = json!({
            "id": discussion.note_id,
            "type": if discussion.position.is_some() { "DiffNote" } else { "DiscussionNote" },
            "body": discussion.body,
            "author": self.user(discussion.author_id)?,
            "created_at": created,
            "updated_at": created,
            "system": false,
            "noteable_id": self.merge_request.id,
            "noteable_type": "MergeRequest",
            "project_id": self.project.id,
            "commit_id": null,
            "resolvable": true,
            "resolved": false,
            "resolved_by": null,
            "resolved_at": null,
            "suggestions": suggestions,
            "confidential": false,
            "internal": false,
            "noteable_iid": discussion.merge_request_iid,
            "commands_changes": {},
        });
        if let (Some(position), Some(fields)) = (&discussion.position, note.as_object_mut()) {
            fields.insert("position".into(), shown_position(position));
        }
        Ok(json!({"id": discussion.id, "individual_note": false, "notes": [note]}))
    }

    fn user(&self, id: u64) -> Result<Value, StoreError> {
        if let Some(shown) = self.users.borrow().get(&id) {
            return Ok(shown.clone());
        }
        let known = match self.call.caller.user() {
            Some(user) if user.id == id => Some(user.clone()),
            _ => user::by_id(&self.call.env, id)?,
        };
        let shown = known.map_or(Value::Null, |user| shown_user(&user, &self.call.url));
        self.users.borrow_mut().insert(id, shown.clone());
        Ok(shown)
    }
}

pub fn too_much_to_show(limit: usize) -> Error {
    let text = format!("400 Bad request - the suggestions' lines have more than {limit} bytes together");
    Error::message(StatusCode::BAD_REQUEST, text)
}

fn shown_user(user: &User, url: &str) -> Value {
    json!({
        "id": user.id,
        "username": user.username,
        "name": user.name,
        "state": user.state.as_str(),
        "avatar_url": null,
        "web_url": format!("{url}/{}", user.username),
    })
}

fn shown_position(position: &Position) -> Value {
    json!({
        "base_sha": position.base_sha,
        "start_sha": position.start_sha,
        "head_sha": position.head_sha,
        "old_path": position.old_path,
        "new_path": position.new_path,
        "position_type": position.kind,
        "old_line": position.old_line,
        "new_line": position.new_line,
        "line_range": null,
    })
}
