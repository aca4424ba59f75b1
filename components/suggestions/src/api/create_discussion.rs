//! Commenting on a merge request; a comment on a line of text may contain suggestions.

use super::access::{self, WritableMergeRequest};
use super::context::RequestContext;
use super::input;
use super::note_suggestions;
use super::position;
use super::render::DiscussionRenderer;
use super::text_limit;
use crate::discussion::{DiffPosition, Discussion, Note};
use crate::git::ObjectId;
use crate::store::discussions;
use crate::suggestion::Suggestion;
use http::StatusCode;
use kit::params::{Params, Validation};
use kit::store::StoreError;
use kit::{Error, Response};
use sha1::{Digest, Sha1};

/// The longest path and the longest name of a commit in a position, in bytes. Each note of a discussion shows them.
const MAX_PATH: usize = 4096;
const MAX_COMMIT: usize = 64;

/// `POST /projects/:id/merge_requests/:iid/discussions`. For a comment on a line: reads the commits, the trees
/// on the path to the file, and the file; 2 counters; writes the discussion and 1 record for each suggestion;
/// swaps the list.
pub fn create(context: &RequestContext, project: &str, iid: &str, params: &Params) -> Result<Response, Error> {
    input::check_iid(iid)?;
    let (body, position) = parse_comment(params)?;
    let writable = access::writable_merge_request(context, project, iid)?;
    let discussion = save(context, &writable, body, position, false)?;
    let mut renderer = DiscussionRenderer::new(context, &writable.readable, std::slice::from_ref(&discussion))?;
    Ok(Response::json(StatusCode::CREATED, &renderer.render(&discussion)?))
}

/// `POST /projects/:id/merge_requests/:iid/notes`: a comment on the whole merge request.
pub fn create_note(context: &RequestContext, project: &str, iid: &str, params: &Params) -> Result<Response, Error> {
    input::check_iid(iid)?;
    let body = required_body(params)?;
    let writable = access::writable_merge_request(context, project, iid)?;
    let discussion = save(context, &writable, body, None, true)?;
    let mut renderer = DiscussionRenderer::new(context, &writable.readable, std::slice::from_ref(&discussion))?;
    let note = discussion.notes.first().ok_or_else(|| Error::internal("a discussion without a note"))?;
    Ok(Response::json(StatusCode::CREATED, &renderer.render_note(&discussion, note)?))
}

/// Makes a discussion.
fn save(
    context: &RequestContext,
    writable: &WritableMergeRequest,
    body: String,
    position: Option<DiffPosition>,
    is_individual: bool,
) -> Result<Discussion, Error> {
    check_body(&body)?;
    let line = match &position {
        Some(position) => position::find_line(context, &writable.readable, position)?,
        None => None,
    };
    let suggestions = match &line {
        Some(line) => note_suggestions::make(context, &body, line, &[])?,
        None => Vec::new(),
    };
    if let Some(line) = &line {
        note_suggestions::keep_file(context, line)?;
    }
    let note = new_note(context, writable, body, suggestions)?;
    let discussion = Discussion {
        id: ObjectId::new(Sha1::digest(context.env.id()).into()).to_string(),
        project: writable.readable.project.key(),
        merge_request_iid: writable.readable.iid,
        notes: vec![note.clone()],
        is_individual,
        resolution: None,
        position,
        // Larger files are not followed.
        file: line.filter(|line| line.contents.is_some()).map(|line| line.file),
    };
    discussions::save(&context.env, &discussion, &note)?;
    Ok(discussion)
}

/// A note of the caller.
pub fn new_note(
    context: &RequestContext,
    writable: &WritableMergeRequest,
    body: String,
    suggestions: Vec<Suggestion>,
) -> Result<Note, StoreError> {
    Ok(Note {
        id: discussions::allocate_note_id(&context.env)?,
        author: writable.user.clone(),
        body,
        created: context.env.now,
        updated: context.env.now,
        is_system: false,
        suggestions,
    })
}

/// The text of a note; 400 without one.
pub fn required_body(params: &Params) -> Result<String, Error> {
    let checks = Validation::new(params);
    let body = checks.required("body").unwrap_or_default().to_owned();
    checks.finish()?;
    Ok(body)
}

/// 400 if the text is blank, or longer than a note may be.
pub fn check_body(body: &str) -> Result<(), Error> {
    if body.trim().is_empty() {
        return Err(Error::bad_request("Note {:note=>[\"can't be blank\"]}"));
    }
    match text_limit::find_excess(body) {
        Some(why) => Err(Error::bad_request(&format!("Note {{:note=>[\"{why}\"]}}"))),
        None => Ok(()),
    }
}

/// The comment's text and position; 400 with everything that is wrong with the parameters.
fn parse_comment(params: &Params) -> Result<(String, Option<DiffPosition>), Error> {
    let checks = Validation::new(params);
    let body = checks.required("body").unwrap_or_default().to_owned();
    if !params.has("position") {
        checks.finish()?;
        return Ok((body, None));
    }
    let text = |name: &str| checks.text(&format!("position[{name}]")).map(str::to_owned);
    let required = |name: &str| checks.required(&format!("position[{name}]")).unwrap_or_default().to_owned();
    // No file has line 0: `position::find_line` rejects it.
    let line = |name: &str| checks.integer(&format!("position[{name}]")).map(|line| u64::try_from(line).unwrap_or(0));
    let position = DiffPosition {
        base_sha: required("base_sha"),
        start_sha: required("start_sha"),
        head_sha: required("head_sha"),
        kind: required("position_type"),
        old_path: text("old_path"),
        new_path: text("new_path"),
        old_line: line("old_line"),
        new_line: line("new_line"),
    };
    let DiffPosition { base_sha, start_sha, head_sha, old_path, new_path, .. } = &position;
    for (name, value, limit) in [
        ("base_sha", Some(base_sha), MAX_COMMIT),
        ("start_sha", Some(start_sha), MAX_COMMIT),
        ("head_sha", Some(head_sha), MAX_COMMIT),
        ("old_path", old_path.as_ref(), MAX_PATH),
        ("new_path", new_path.as_ref(), MAX_PATH),
    ] {
        if value.is_some_and(|value| value.len() > limit) {
            checks.reject(format!("position[{name}] is too long (maximum is {limit} bytes)"));
        }
    }
    if !matches!(position.kind.as_str(), "" | "text" | "image" | "file") {
        checks.reject("position[position_type] does not have a valid value");
    }
    checks.finish()?;
    Ok((body, Some(position)))
}
