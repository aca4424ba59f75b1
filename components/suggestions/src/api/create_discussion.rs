//! Commenting on a merge request; a comment on a line of text may contain suggestions.

use super::access;
use super::context::RequestContext;
use super::input;
use super::position::{self, CommentedLine};
use super::render::DiscussionRenderer;
use super::text_budget::TextBudget;
use crate::discussion::{CommentedFile, DiffPosition, Discussion};
use crate::git::ObjectId;
use crate::store::{discussions, objects};
use crate::suggestion::Suggestion;
use crate::suggestion_block;
use http::StatusCode;
use kit::params::{Params, Validation};
use kit::{Error, Request, Response};
use sha1::{Digest, Sha1};

/// The longest comment, in characters, as in the reference service.
const MAX_BODY: usize = 1_000_000;

/// The most suggestions in one comment. Earlier builds accepted 1,000.
const MAX_SUGGESTIONS: usize = 100;

/// `POST /projects/:id/merge_requests/:iid/discussions`. For a comment with suggestions: reads the
/// commit, the trees on the path to the file, and the file; 2 counters; writes the discussion and
/// 1 record for each suggestion; swaps the list.
pub async fn create(context: &RequestContext, project: &str, iid: &str, request: Request) -> Result<Response, Error> {
    let author_id = context.caller.user_or_401()?.id;
    let params = input::read(request).await?;
    input::check_iid(iid)?;
    let (body, position) = parse_comment(&params)?;
    let readable = access::readable_merge_request(context, project, iid)?;
    if readable.project.archived {
        return Err(Error::forbidden());
    }
    if body.chars().count() > MAX_BODY {
        return Err(Error::bad_request("Note {:note=>[\"is too long (maximum is 1000000 characters)\"]}"));
    }
    let line = match &position {
        Some(position) => position::find_line(context, &readable, position)?,
        None => None,
    };
    let (file, suggestions) = match line {
        Some(line) => make_suggestions(context, &body, line)?,
        None => (None, Vec::new()),
    };
    let discussion = Discussion {
        id: ObjectId::new(Sha1::digest(context.env.id()).into()).to_string(),
        project_id: readable.project.id,
        merge_request_iid: readable.iid,
        note_id: discussions::allocate_note_id(&context.env)?,
        author_id,
        body,
        created: context.env.now,
        position,
        file,
        suggestions,
    };
    discussions::save(&context.env, &discussion)?;
    let json = DiscussionRenderer::new(context, &readable, std::slice::from_ref(&discussion))?.render(&discussion)?;
    Ok(Response::json(StatusCode::CREATED, &json))
}

/// The comment's text and position; 400 with everything that is wrong with the parameters.
fn parse_comment(params: &Params) -> Result<(String, Option<DiffPosition>), Error> {
    let inner = params.below("position");
    let checks = Validation::new(params);
    let body = checks.required("body").unwrap_or_default().to_owned();
    if !params.has("position") {
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
        // No file has line 0: `position::find_line` rejects it.
        Some(number.ok().and_then(|number| u64::try_from(number).ok()).unwrap_or(0))
    };
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
    if !matches!(position.kind.as_str(), "" | "text" | "image" | "file") {
        checks.reject("position[position_type] does not have a valid value");
    }
    checks.finish()?;
    Ok((body, Some(position)))
}

/// The suggestions in a comment on a line, with the file that they change.
fn make_suggestions(
    context: &RequestContext,
    body: &str,
    line: CommentedLine,
) -> Result<(Option<CommentedFile>, Vec<Suggestion>), Error> {
    let blocks = suggestion_block::parse(body);
    if blocks.is_empty() {
        return Ok((None, Vec::new()));
    }
    if blocks.len() > MAX_SUGGESTIONS {
        let text = format!("the note has {} suggestions, and at most {MAX_SUGGESTIONS} are allowed", blocks.len());
        return Err(Error::bad_request(&text));
    }
    let Some(contents) = line.contents else {
        let text = format!("suggestions can be made for files of at most {} bytes", objects::MAX_WHOLE);
        return Err(Error::bad_request(&text));
    };
    objects::copy_to_current(&context.env, line.file.project_id, line.file.blob, contents.contents())?;
    let first = discussions::allocate_suggestion_ids(&context.env, blocks.len())?;
    let suggestions: Vec<Suggestion> =
        (first..).zip(blocks).map(|(id, block)| Suggestion::new(id, block, line.line, &contents)).collect();
    let mut budget = TextBudget::new();
    for suggestion in &suggestions {
        let replaced = contents.slice(&suggestion.lines()).map_or(0, |lines| lines.len());
        budget.spend(replaced + suggestion.to_content.len())?;
    }
    Ok((Some(line.file), suggestions))
}
