//! Commenting on a merge request; a comment on a line of text may make suggestions.

use super::show::{self, too_much_to_show};
use super::{Call, MAX_SHOWN, input};
use crate::discussion::{Discussion, File, Position};
use crate::suggestion_block;
use crate::git::Id;
use crate::lines;
use crate::merge_request::MergeRequest;
use crate::sparse_tree::{Node, Snapshot};
use crate::store;
use crate::suggestion::Suggestion;
use bytes::Bytes;
use http::StatusCode;
use kit::params::{Params, Validation};
use kit::{Error, Request, Response};
use sha1::{Digest, Sha1};

/// The longest comment, in characters, as in the reference service.
const MAX_BODY: usize = 1_000_000;

/// How many suggestions one comment may make.
const MAX_SUGGESTIONS: usize = 1000;

/// `POST /projects/:id/merge_requests/:iid/discussions`. For a comment with suggestions: reads the
/// commit, the folders on the way to the file, and the file; 2 counters; writes the discussion and
/// 1 record for each suggestion; swaps the list.
pub async fn create(call: &Call, project: &str, iid: &str, request: Request) -> Result<Response, Error> {
    let author_id = call.caller.user_or_401()?.id;
    let params = input::read(request).await?;
    show::check_iid(iid)?;
    let (body, position) = wanted(&params)?;
    let (project, iid, merge_request) = show::merge_request(call, project, iid)?;
    if project.archived {
        return Err(Error::forbidden());
    }
    if body.chars().count() > MAX_BODY {
        return Err(Error::bad_request("Note {:note=>[\"is too long (maximum is 1000000 characters)\"]}"));
    }
    let place = match &position {
        Some(position) => place(call, project.id, &merge_request, position)?,
        None => None,
    };
    let (file, suggestions) = match place {
        Some(place) => suggestions(call, &body, place)?,
        None => (None, Vec::new()),
    };
    let discussion = Discussion {
        id: Sha1::digest(call.env.id()).iter().map(|byte| format!("{byte:02x}")).collect(),
        project_id: project.id,
        merge_request_iid: iid,
        note_id: store::reserve_note(&call.env)?,
        author_id,
        body,
        created: call.env.now,
        position,
        file,
        suggestions,
    };
    store::save_discussion(&call.env, &discussion)?;
    let shown = show::shown(call, &project, &merge_request, &discussion)?;
    Ok(Response::json(StatusCode::CREATED, &shown))
}

/// The comment's text and place; 400 with all that is wrong with the parameters.
fn wanted(params: &Params) -> Result<(String, Option<Position>), Error> {
    let inner = params.below("position");
    let checks = Validation::new(params);
    let body = checks.required("body").unwrap_or_default().to_owned();
    let is_placed = params.has("position");
    if !is_placed {
        checks.finish()?;
        return Ok((body, None));
    }
    let text = |name: &str| inner.text(name).map(str::to_owned);
    let required = |name: &str| {
        let value = text(name);
        if value.is_none() {
            checks.reject(format!("position[{name}] is missing"));
        }
        value.unwrap_or_default()
    };
    let line = |name: &str| {
        let value = inner.text(name)?;
        let number = value.trim().parse::<i64>();
        if number.is_err() {
            checks.reject(format!("position[{name}] is invalid"));
        }
        // There is no such line, which is told when the file is looked at.
        Some(number.ok().and_then(|number| u64::try_from(number).ok()).unwrap_or(0))
    };
    let position = Position {
        base_sha: required("base_sha"),
        start_sha: required("start_sha"),
        head_sha: required("head_sha"),
        kind: required("position_type"),
        old_path: text("old_path"),
        new_path: text("new_path"),
        old_line: line("old_line"),
        new_line: line("new_line"),
    };
    if !matches!(position.kind.as_str(), "" | "text" | "image" | "file") {
        checks.reject("position[position_type] does not have a valid value");
    }
    checks.finish()?;
    Ok((body, Some(position)))
}

/// A line of a file that exists.
struct Place {
    file: File,
    line: u64,
    /// None if it is too large to be read.
    contents: Option<Bytes>,
}

/// The line that suggestions at this position would replace, if it has one. A position that is
/// not in the repository is 400.
fn place(call: &Call, target: u64, merge_request: &MergeRequest, position: &Position) -> Result<Option<Place>, Error> {
    if position.kind != "text" {
        return Ok(None);
    }
    let nowhere = || Error::bad_request("Note {:line_code=>[\"can't be blank\", \"must be a valid line code\"]}");
    let Some((path, line)) = position.suggestible() else {
        // A line that was removed can be commented on, and that is all.
        let removed = position.old_line.is_some_and(|line| line > 0) && position.old_path.is_some();
        return if removed { Ok(None) } else { Err(nowhere()) };
    };
    let env = &call.env;
    let project_id = merge_request.source_project_id.unwrap_or(target);
    let id = Id::parse(&position.head_sha).ok_or_else(nowhere)?;
    let commit = store::commit(env, project_id, id)?.ok_or_else(nowhere)?;
    let snapshot = Snapshot::load(commit.tree, [path], |id| store::tree(env, project_id, id))?;
    let Node::Blob(blob) = snapshot.node(path) else { return Err(nowhere()) };
    let contents = store::blob(env, project_id, blob)?.ok();
    if line == 0 || contents.as_ref().is_some_and(|contents| !lines::exists(contents, line)) {
        return Err(nowhere());
    }
    let file = File { project_id, commit: id, path: path.to_owned(), blob };
    Ok(Some(Place { file, line, contents }))
}

/// The suggestions that a comment makes at a place.
fn suggestions(call: &Call, body: &str, place: Place) -> Result<(Option<File>, Vec<Suggestion>), Error> {
    let fences = suggestion_block::parse(body);
    if fences.is_empty() {
        return Ok((None, Vec::new()));
    }
    if fences.len() > MAX_SUGGESTIONS {
        let text = format!("the note has {} suggestions, and at most {MAX_SUGGESTIONS} are allowed", fences.len());
        return Err(Error::bad_request(&text));
    }
    let Some(contents) = place.contents else {
        let text = format!("suggestions can be made for files of at most {} bytes", store::MAX_WHOLE);
        return Err(Error::bad_request(&text));
    };
    store::keep(&call.env, place.file.project_id, place.file.blob, &contents)?;
    let first = store::reserve_suggestions(&call.env, fences.len())?;
    let suggestions: Vec<Suggestion> =
        (first..).zip(fences).map(|(id, fence)| Suggestion::new(id, fence, place.line, &contents)).collect();
    let size = |suggestion: &Suggestion| {
        lines::of(&contents, &suggestion.lines()).map_or(0, <[u8]>::len) + suggestion.to_content.len()
    };
    if suggestions.iter().map(size).sum::<usize>() > MAX_SHOWN {
        return Err(too_much_to_show(MAX_SHOWN));
    }
    Ok((Some(place.file), suggestions))
}
