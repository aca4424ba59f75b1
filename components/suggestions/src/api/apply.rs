//! Applying suggestions.

mod batch;

use super::context::RequestContext;
use super::input;
use crate::commit_message::MAX_MESSAGE;
use batch::SuggestionBatch;
use kit::params::{Params, Validation};
use kit::{Error, Response};

/// The most suggestions in one commit. Each of them costs 4 reads.
const MAX_BATCH: usize = 1000;

/// `PUT /suggestions/:id/apply`.
pub fn one(context: &RequestContext, id: &str, params: &Params) -> Result<Response, Error> {
    let id = input::suggestion_id(id)?;
    let message = commit_message(params)?;
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
    let message = commit_message(params)?;
    let not_found = "Suggestions are not applicable as one or more suggestions were not found.";
    let applied = SuggestionBatch::load(context, &ids, not_found)?.apply(message.as_deref())?;
    Ok(Response::ok(&applied))
}

/// The commit message that a request asks for.
fn commit_message(params: &Params) -> Result<Option<String>, Error> {
    let checks = Validation::new(params);
    let message = checks.text("commit_message");
    checks.finish()?;
    if message.is_some_and(|message| message.contains('\0') || message.len() > MAX_MESSAGE) {
        return Err(Error::validation("commit_message is invalid"));
    }
    Ok(message.map(str::to_owned))
}
