//! Reading discussions and suggestions.

use super::access::{self, ReadableMergeRequest, ReadableSuggestion};
use super::applicability::assess;
use super::context::RequestContext;
use super::file_cache::FileCache;
use super::input;
use super::json_page::{JsonPage, MAX_BYTES, check_size};
use super::render::DiscussionRenderer;
use super::source_branch::SourceBranch;
use crate::discussion::Discussion;
use crate::store::discussions as store;
use kit::page::Pagination;
use kit::{Error, Response};
use std::ops::ControlFlow;

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
    input::check_iid(iid)?;
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
    input::check_iid(iid)?;
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
