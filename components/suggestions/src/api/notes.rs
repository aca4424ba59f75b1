//! Notes of discussions: replies, edits, deletion, resolving, and the list of all notes of a merge request.

use super::access::{self, ReadableMergeRequest, WritableMergeRequest};
use super::context::RequestContext;
use super::create_discussion::{INTERNAL, check_body, invalid_note, new_note, required_body};
use super::json_page::JsonPage;
use super::position;
use super::render::DiscussionRenderer;
use crate::api::{context, create_discussion, render};
use crate::discussion::{Discussion, Note, Resolution};
use crate::store::discussions as store;
use http::StatusCode;
use kit::page::Pagination;
use kit::params::{Params, Validation};
use kit::{Error, Response, Timestamp};
use serde_json::Value;
use std::ops::ControlFlow;
use std::rc::Rc;

/// The most notes of a discussion.
const MAX_NOTES: usize = 1000;

/// The most text of a discussion's notes and their suggestions together, in bytes. Each change writes all of it.
const MAX_TEXT: usize = 8 << 20;

/// The most suggestions of a discussion.
const MAX_SUGGESTIONS: usize = 1000;

/// The most discussions of a merge request whose notes are listed, and searched for a note.
const MAX_DISCUSSIONS: usize = 20_000;

/// Names a merge request, by its project and its iid.
pub struct MergeRequestName<'a> {
    pub project: &'a str,
    pub iid: &'a str,
}

impl MergeRequestName<'_> {
    fn read(&self, context: &RequestContext) -> Result<ReadableMergeRequest, Error> {
        context::check_iid(self.iid)?;
        access::readable_merge_request(context, self.project, self.iid)
    }

    fn write(&self, context: &RequestContext) -> Result<WritableMergeRequest, Error> {
        context::check_iid(self.iid)?;
        access::writable_merge_request(context, self.project, self.iid)
    }
}

/// `POST …/discussions/:discussion_id/notes`: 201 and the reply.
pub fn reply(
    context: &RequestContext,
    name: MergeRequestName,
    discussion: &str,
    params: &Params,
) -> Result<Response, Error> {
    let (body, is_internal) = required_body(params)?;
    let writable = name.write(context)?;
    check_body(&body)?;
    let present = render::find(context, &writable.readable, discussion)?;
    if is_internal && !present.is_internal() {
        return Err(invalid_note("confidential", "reply should have same confidentiality as top-level note"));
    }
    let suggestions = match position::stored_line(context, &present)? {
        Some(line) => create_discussion::make_suggestions(context, &body, &line, &[])?,
        None => Vec::new(),
    };
    let note = new_note(context, &writable, body, suggestions)?;
    let changed = update(context, &writable, discussion, |discussion| {
        if discussion.note(note.id).is_none() {
            discussion.notes.push(note.clone());
            discussion.is_individual = false;
        }
        check_size(discussion)
    })?;
    let mut response = respond_with_note(context, &writable.readable, &changed, note.id)?;
    response.status = StatusCode::CREATED;
    Ok(response)
}

/// `PUT …/notes/:note_id` and `PUT …/discussions/:discussion_id/notes/:note_id`: edits the text, or resolves the
/// discussion.
pub fn edit(
    context: &RequestContext,
    name: MergeRequestName,
    discussion: Option<&str>,
    note: &str,
    params: &Params,
) -> Result<Response, Error> {
    let checks = Validation::new(params);
    checks.exclusive(&["body", "resolved"]);
    let (body, resolved) = (checks.text("body"), checks.boolean("resolved"));
    let internal = INTERNAL.map(|name| checks.boolean(name));
    if !["body", "resolved"].iter().chain(&INTERNAL).any(|name| params.has(name)) {
        checks.reject("body, resolved are missing, exactly one parameter must be provided");
    } else if params.last("body") == Some("") {
        checks.reject("body is empty");
    }
    checks.finish()?;
    let note_id = note_id(note)?;
    let writable = name.write(context)?;
    let present = find_discussion(context, &writable.readable, discussion, note_id)?;
    let may_change = present.note(note_id).is_some_and(|note| writable.may_change_note(note));
    if internal.iter().flatten().next().is_some() && !may_change {
        return Err(Error::forbidden());
    }
    if internal.iter().flatten().any(|is_internal| *is_internal != present.is_internal()) {
        return Err(invalid_note("confidential", "can not be changed for existing notes"));
    }
    let changed = match (body, resolved) {
        (Some(body), _) => edit_body(context, &writable, &present, note_id, body)?,
        (None, Some(resolved)) => set_resolved(context, &writable, &present.id, resolved)?,
        (None, None) => present,
    };
    respond_with_note(context, &writable.readable, &changed, note_id)
}

fn edit_body(
    context: &RequestContext,
    writable: &WritableMergeRequest,
    present: &Discussion,
    note_id: u64,
    body: &str,
) -> Result<Discussion, Error> {
    check_body(body)?;
    let note = present.note(note_id).ok_or_else(|| Error::not_found("Note"))?;
    if !writable.may_change_note(note) {
        return Err(Error::forbidden());
    }
    let suggestions = match position::stored_line(context, present)? {
        _ if note.body == body => note.suggestions.clone(),
        Some(line) => create_discussion::make_suggestions(context, body, &line, &note.suggestions)?,
        None => Vec::new(),
    };
    update(context, writable, &present.id, |discussion| {
        let note = discussion.notes.iter_mut().find(|note| note.id == note_id);
        let note = note.ok_or_else(|| Error::not_found("Note"))?;
        if note.body != body {
            (note.body, note.updated, note.suggestions) = (body.to_owned(), context.env.now, suggestions.clone());
        }
        check_size(discussion)
    })
}

/// `DELETE …/notes/:note_id` and `DELETE …/discussions/:discussion_id/notes/:note_id`: 204. A discussion with only
/// system notes left is deleted.
pub fn delete(
    context: &RequestContext,
    name: MergeRequestName,
    discussion: Option<&str>,
    note: &str,
) -> Result<Response, Error> {
    context.caller.user_or_401()?;
    let note_id = note_id(note)?;
    let writable = name.write(context)?;
    let present = find_discussion(context, &writable.readable, discussion, note_id)?;
    if !present.note(note_id).is_some_and(|note| writable.may_change_note(note)) {
        return Err(Error::forbidden());
    }
    store::update(&context.env, &present.id, |discussion| {
        // A discussion or note that is not there any more was deleted by an earlier attempt, or by another request.
        if let Some(discussion) = discussion {
            discussion.notes.retain(|note| note.id != note_id);
            if discussion.notes.iter().all(|note| note.is_system) {
                discussion.notes.clear();
            }
        }
        Ok::<_, Error>(())
    })?;
    Ok(Response::new(StatusCode::NO_CONTENT))
}

/// `PUT …/discussions/:discussion_id`: resolves a discussion, or opens it again.
pub fn resolve(
    context: &RequestContext,
    name: MergeRequestName,
    discussion: &str,
    params: &Params,
) -> Result<Response, Error> {
    let checks = Validation::new(params);
    let resolved = checks.required("resolved").and_then(|_| checks.boolean("resolved")).unwrap_or_default();
    checks.finish()?;
    let writable = name.write(context)?;
    render::find(context, &writable.readable, discussion)?;
    let changed = set_resolved(context, &writable, discussion, resolved)?;
    let mut renderer = DiscussionRenderer::new(context, &writable.readable, std::slice::from_ref(&changed))?;
    Ok(Response::ok(&renderer.render(&changed)?))
}

fn set_resolved(
    context: &RequestContext,
    writable: &WritableMergeRequest,
    discussion: &str,
    resolved: bool,
) -> Result<Discussion, Error> {
    update(context, writable, discussion, |discussion| {
        if discussion.is_individual || !writable.may_change() {
            return Err(Error::forbidden());
        }
        let resolution = || Resolution { user: writable.user.clone(), at: context.env.now };
        discussion.resolution = resolved.then(|| discussion.resolution.take().unwrap_or_else(resolution));
        Ok(())
    })
}

/// Changes a discussion of this merge request. Returns the changed one.
fn update(
    context: &RequestContext,
    writable: &WritableMergeRequest,
    id: &str,
    mut change: impl FnMut(&mut Discussion) -> Result<(), Error>,
) -> Result<Discussion, Error> {
    store::update(&context.env, id, |discussion| {
        let discussion = discussion.filter(|discussion| writable.readable.has(discussion));
        let discussion = discussion.ok_or_else(|| Error::not_found("Discussion"))?;
        change(discussion)?;
        Ok(discussion.clone())
    })
}

/// 400 if a discussion has too many notes of users, too many suggestions or too much text.
fn check_size(discussion: &Discussion) -> Result<(), Error> {
    let notes = discussion.notes.iter().filter(|note| !note.is_system).count();
    for (count, limit, unit) in [
        (notes, MAX_NOTES, "notes"),
        (discussion.suggestions().count(), MAX_SUGGESTIONS, "suggestions"),
        (discussion.text_length(), MAX_TEXT, "bytes of text"),
    ] {
        if count > limit {
            let text = format!("the discussion would have {count} {unit}, and at most {limit} are allowed");
            return Err(Error::bad_request(&text));
        }
    }
    Ok(())
}

/// `GET …/discussions/:discussion_id/notes/:note_id` and `GET …/notes/:note_id`.
pub fn show_note(
    context: &RequestContext,
    name: MergeRequestName,
    discussion: Option<&str>,
    note: &str,
) -> Result<Response, Error> {
    let note_id = note_id(note)?;
    let readable = name.read(context)?;
    let discussion = find_discussion(context, &readable, discussion, note_id)?;
    respond_with_note(context, &readable, &discussion, note_id)
}

/// `GET …/discussions/:discussion_id/notes`: all of them, oldest first.
pub fn list_of_discussion(
    context: &RequestContext,
    name: MergeRequestName,
    discussion: &str,
) -> Result<Response, Error> {
    let readable = name.read(context)?;
    let discussion = render::find(context, &readable, discussion)?;
    let mut renderer = DiscussionRenderer::new(context, &readable, std::slice::from_ref(&discussion))?;
    let json = renderer.render(&discussion)?;
    Ok(Response::ok(json.get("notes").unwrap_or(&Value::Null)))
}

/// `GET …/notes`: the notes of all discussions, the latest first, in pages. Reads all discussions.
pub fn list(context: &RequestContext, name: MergeRequestName) -> Result<Response, Error> {
    let params = context.params();
    let checks = Validation::new(&params);
    let page = Pagination::check(&checks);
    let order_by = checks.one_of("order_by", &["created_at", "updated_at"]).unwrap_or("created_at");
    let sort = checks.one_of("sort", &["asc", "desc"]).unwrap_or("desc");
    let activity = checks.one_of("activity_filter", &["all_notes", "only_comments", "only_activity"]);
    checks.finish()?;
    let is_asked_for = |note: &&Note| match activity {
        Some("only_comments") => !note.is_system,
        Some("only_activity") => note.is_system,
        _ => true,
    };
    let readable = name.read(context)?;
    let (project, iid, sees_internal) = (readable.project.key(), readable.iid, readable.sees_internal_notes);
    let time = |note: &Note| if order_by == "created_at" { note.created } else { note.updated };
    // Time, note, and the id of its discussion.
    let mut notes: Vec<(Timestamp, u64, Rc<str>)> = Vec::new();
    check_anonymous(context, &readable)?;
    let discussions = store::visit(&context.env, &project, iid, sees_internal, 0..MAX_DISCUSSIONS, |discussion| {
        if let Some(discussion) = discussion {
            let id: Rc<str> = discussion.id.as_str().into();
            notes.extend(discussion.notes.iter().filter(is_asked_for).map(|note| (time(note), note.id, id.clone())));
        }
        ControlFlow::Continue(())
    })?;
    check_discussions(discussions)?;
    match sort {
        "asc" => notes.sort_unstable(),
        _ => notes.sort_unstable_by(|one, other| other.cmp(one)),
    }
    let total = notes.len() as u64;
    let skip = usize::try_from(page.offset()).unwrap_or(usize::MAX);
    let mut shown = JsonPage::new("notes");
    // Notes of one discussion often follow each other.
    let mut latest: Option<(Discussion, DiscussionRenderer)> = None;
    for (_, note, id) in notes.into_iter().skip(skip).take(page.per_page as usize) {
        let (discussion, mut renderer) = match latest.take().filter(|(discussion, _)| *discussion.id == *id) {
            Some(known) => known,
            None => {
                // The discussion may have been deleted meanwhile.
                let Some(discussion) = store::read(&context.env, &id)? else { continue };
                let renderer = DiscussionRenderer::new(context, &readable, std::slice::from_ref(&discussion))?;
                (discussion, renderer)
            }
        };
        if let Some(note) = discussion.note(note) {
            shown.push(&renderer.render_note(&discussion, note)?)?;
        }
        latest = Some((discussion, renderer));
    }
    let url = context.own_url();
    let mut effective = vec![("order_by", order_by), ("sort", sort)];
    effective.extend(activity.map(|activity| ("activity_filter", activity)));
    Ok(page.describe(shown.into_response(), &url, &effective, total))
}

/// The discussion with this note: the named one, or else the discussion of the merge request that has the note.
fn find_discussion(
    context: &RequestContext,
    readable: &ReadableMergeRequest,
    discussion: Option<&str>,
    note_id: u64,
) -> Result<Discussion, Error> {
    let found = match discussion {
        Some(id) => Some(render::find(context, readable, id)?).filter(|discussion| discussion.note(note_id).is_some()),
        None => {
            let mut found = None;
            let (key, sees_internal) = (readable.project.key(), readable.sees_internal_notes);
            check_anonymous(context, readable)?;
            let discussions =
                store::visit(&context.env, &key, readable.iid, sees_internal, 0..MAX_DISCUSSIONS, |discussion| {
                    found = discussion.filter(|discussion| discussion.note(note_id).is_some());
                    if found.is_none() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
                })?;
            if found.is_none() {
                check_discussions(discussions)?;
            }
            found
        }
    };
    found.ok_or_else(|| Error::not_found("Note"))
}

/// Counts the discussions that an anonymous request is about to read; 429 beyond the limit. 1 read for an anonymous
/// caller.
fn check_anonymous(context: &RequestContext, readable: &ReadableMergeRequest) -> Result<(), Error> {
    if !context.caller.is_anonymous() {
        return Ok(());
    }
    let (project, iid) = (readable.project.key(), readable.iid);
    context.check_records(store::visit(&context.env, &project, iid, readable.sees_internal_notes, 0..0, |_| {
        ControlFlow::Break(())
    })?)
}

/// 400 if a merge request has more than [`MAX_DISCUSSIONS`].
fn check_discussions(count: usize) -> Result<(), Error> {
    if count <= MAX_DISCUSSIONS {
        return Ok(());
    }
    let text = format!(
        "the merge request has {count} discussions, and at most {MAX_DISCUSSIONS} are looked through: \
         its discussions have all notes, in pages"
    );
    Err(Error::bad_request(&text))
}

fn respond_with_note(
    context: &RequestContext,
    readable: &ReadableMergeRequest,
    discussion: &Discussion,
    note_id: u64,
) -> Result<Response, Error> {
    let note = discussion.note(note_id).ok_or_else(|| Error::not_found("Note"))?;
    let mut renderer = DiscussionRenderer::new(context, readable, std::slice::from_ref(discussion))?;
    Ok(Response::ok(&renderer.render_note(discussion, note)?))
}

/// A note's id in a path; 400 if it is not an integer.
fn note_id(text: &str) -> Result<u64, Error> {
    context::integer(text).ok_or_else(|| Error::validation("note_id is invalid"))
}
