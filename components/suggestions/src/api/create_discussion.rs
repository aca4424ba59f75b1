//! Commenting on a merge request; a comment on a line of text may contain suggestions.

use crate::api::access::{self, WritableMergeRequest};
use crate::api::context::{self, RequestContext, TextBudget};
use crate::api::position::{self, CommentedLine};
use crate::api::render::DiscussionRenderer;
use crate::discussion::{DiffPosition, Discussion, Note, RangeEnd, internal_id};
use crate::git::ObjectId;
use crate::store::{discussions, objects};
use crate::suggestion::{self, Suggestion};
use http::StatusCode;
use kit::params::{Params, Validation};
use kit::store::StoreError;
use kit::{Error, Response};
use sha1::{Digest, Sha1};

/// The longest path and the longest name of a commit in a position, in bytes. Each note of a discussion shows them.
const MAX_PATH: usize = 4096;
const MAX_COMMIT: usize = 64;

/// The longest text of a range of lines in a position, in bytes: a code is two numbers and the SHA-1 of a path.
const MAX_RANGE_TEXT: usize = 128;

/// `POST /projects/:id/merge_requests/:iid/discussions`. For a comment on a line, reads the commits, the trees on the
/// path to the file, and the file. Takes 2 counters, writes the discussion and 1 record for each suggestion, and swaps
/// the list.
pub fn create(context: &RequestContext, project: &str, iid: &str, params: &Params) -> Result<Response, Error> {
    context::check_iid(iid)?;
    let comment = parse_comment(params)?;
    let writable = access::writable_merge_request(context, project, iid)?;
    let discussion = save(context, &writable, comment)?;
    let mut renderer = DiscussionRenderer::new(context, &writable.readable, std::slice::from_ref(&discussion))?;
    Ok(Response::json(StatusCode::CREATED, &renderer.render(&discussion)?))
}

/// `POST /projects/:id/merge_requests/:iid/notes`: a comment on the whole merge request.
pub fn create_note(context: &RequestContext, project: &str, iid: &str, params: &Params) -> Result<Response, Error> {
    context::check_iid(iid)?;
    let (body, is_internal) = required_body(params)?;
    let writable = access::writable_merge_request(context, project, iid)?;
    let comment = NewComment { body, is_internal, position: None, is_individual: true };
    let discussion = save(context, &writable, comment)?;
    let mut renderer = DiscussionRenderer::new(context, &writable.readable, std::slice::from_ref(&discussion))?;
    let note = discussion.notes.first().ok_or_else(|| Error::internal("a discussion without a note"))?;
    Ok(Response::json(StatusCode::CREATED, &renderer.render_note(&discussion, note)?))
}

/// A comment that begins a discussion.
struct NewComment {
    body: String,
    is_internal: bool,
    position: Option<DiffPosition>,
    is_individual: bool,
}

/// Makes a discussion. 403 for an internal discussion unless the caller may see it: the note is never made public
/// instead.
fn save(context: &RequestContext, writable: &WritableMergeRequest, comment: NewComment) -> Result<Discussion, Error> {
    let NewComment { body, is_internal, position, is_individual } = comment;
    check_body(&body)?;
    if is_internal && !writable.readable.sees_internal_notes {
        return Err(Error::forbidden());
    }
    // As in the reference service. So internal notes have no suggestions.
    if is_internal && position.is_some() {
        return Err(invalid_note("confidential", "can not be set for this type of note"));
    }
    let line = match &position {
        Some(position) => position::find_line(context, &writable.readable, position)?,
        None => None,
    };
    let suggestions = match &line {
        Some(line) => make_suggestions(context, &body, line, &[])?,
        None => Vec::new(),
    };
    if let Some(line) = &line {
        protect_file(context, line)?;
    }
    let note = new_note(context, writable, body, suggestions)?;
    let id = ObjectId::new(Sha1::digest(context.env.id()).into()).to_string();
    let discussion = Discussion {
        id: if is_internal { internal_id(&id) } else { id },
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

/// The parameter that asks for an internal note, and its former name.
pub const INTERNAL: [&str; 2] = ["internal", "confidential"];

/// The text of a note, and whether it is to be internal; 400 without a text.
pub fn required_body(params: &Params) -> Result<(String, bool), Error> {
    let checks = Validation::new(params);
    let read = read_body(&checks);
    checks.finish()?;
    Ok(read)
}

fn read_body(checks: &Validation) -> (String, bool) {
    let body = checks.required("body").unwrap_or_default().to_owned();
    (body, INTERNAL.map(|name| checks.boolean(name)).contains(&Some(true)))
}

/// 400 if the text is blank, or longer than a note may be.
pub fn check_body(body: &str) -> Result<(), Error> {
    if body.trim().is_empty() {
        return Err(invalid_note("note", "can't be blank"));
    }
    context::find_excess(body).map_or(Ok(()), |why| Err(invalid_note("note", &why)))
}

/// 400 in the form of the reference service.
pub fn invalid_note(field: &str, why: &str) -> Error {
    Error::bad_request(&format!("Note {{:{field}=>[\"{why}\"]}}"))
}

/// A comment, on a line or not; 400 with everything that is wrong with the parameters.
fn parse_comment(params: &Params) -> Result<NewComment, Error> {
    let checks = Validation::new(params);
    let (body, is_internal) = read_body(&checks);
    let comment = NewComment { body, is_internal, position: None, is_individual: false };
    if !params.has("position") {
        checks.finish()?;
        return Ok(comment);
    }
    let text = |name: &str| checks.text(&format!("position[{name}]")).map(str::to_owned);
    let required = |name: &str| checks.required(&format!("position[{name}]")).unwrap_or_default().to_owned();
    // No file has line 0: `position::find_line` rejects it.
    let line = |name: &str| checks.integer(&format!("position[{name}]")).map(|line| u64::try_from(line).unwrap_or(0));
    let range_end = |end: &str| RangeEnd {
        line_code: text(&format!("line_range][{end}][line_code")),
        kind: text(&format!("line_range][{end}][type")),
        old_line: line(&format!("line_range][{end}][old_line")),
        new_line: line(&format!("line_range][{end}][new_line")),
    };
    let line_range = ["start", "end"].map(range_end);
    let position = DiffPosition {
        base_sha: required("base_sha"),
        start_sha: required("start_sha"),
        head_sha: required("head_sha"),
        kind: required("position_type"),
        old_path: text("old_path"),
        new_path: text("new_path"),
        old_line: line("old_line"),
        new_line: line("new_line"),
        line_range: line_range.iter().any(|end| *end != RangeEnd::default()).then_some(line_range),
    };
    let range_texts = position.line_range.iter().flatten().flat_map(|end| [&end.line_code, &end.kind]);
    if range_texts.flatten().any(|text| text.len() > MAX_RANGE_TEXT) {
        checks.reject(format!("position[line_range] is too long (maximum is {MAX_RANGE_TEXT} bytes for a text)"));
    }
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
    Ok(NewComment { position: Some(position), ..comment })
}

/// The most suggestions in one note. Earlier builds accepted 1,000.
const MAX_SUGGESTIONS: usize = 100;

/// The suggestions in a note on a line. A suggestion that the note had before its text was edited keeps its id.
pub fn make_suggestions(
    context: &RequestContext,
    body: &str,
    line: &CommentedLine,
    former: &[Suggestion],
) -> Result<Vec<Suggestion>, Error> {
    let blocks = suggestion::parse(body);
    if blocks.is_empty() {
        return Ok(Vec::new());
    }
    if blocks.len() > MAX_SUGGESTIONS {
        let text = format!("the note has {} suggestions, and at most {MAX_SUGGESTIONS} are allowed", blocks.len());
        return Err(Error::bad_request(&text));
    }
    let Some(contents) = &line.contents else {
        let text = format!("suggestions can be made for files of at most {} bytes", objects::MAX_WHOLE);
        return Err(Error::bad_request(&text));
    };
    let mut budget = TextBudget::new();
    let mut suggestions = Vec::new();
    let mut former: Vec<&Suggestion> = former.iter().collect();
    for block in blocks {
        let new = Suggestion::new(0, block, line.line, contents);
        let replaced = contents.slice(&new.lines()).map_or(0, |lines| lines.len());
        budget.spend(replaced + new.to_content.len())?;
        let same = former.iter().position(|former| former.proposes_as(&new)).map(|place| former.remove(place).clone());
        suggestions.push(same.unwrap_or(new));
    }
    let count = suggestions.iter().filter(|suggestion| suggestion.id == 0).count();
    if count > 0 {
        let first = discussions::allocate_suggestion_ids(&context.env, count)?;
        let new = suggestions.iter_mut().filter(|suggestion| suggestion.id == 0);
        new.zip(first..).for_each(|(suggestion, id)| suggestion.id = id);
    }
    Ok(suggestions)
}

/// Protects the commented file from the sweep, so that the discussion's lines can be followed as long as the discussion
/// exists.
pub fn protect_file(context: &RequestContext, line: &CommentedLine) -> Result<(), Error> {
    if let Some(contents) = &line.contents {
        objects::copy_to_current(&context.env, line.file.repository, line.file.blob, contents.contents())?;
    }
    Ok(())
}
