//! The commits of a merge request.

use super::access;
use super::context::RequestContext;
use super::history::{self, NewCommits};
use super::input;
use super::json_page::JsonPage;
use super::merge_request_json::MergeRequestRenderer;
use super::notes::MergeRequestName;
use crate::git::{CommitText, ObjectId};
use crate::store::objects;
use kit::page::Pagination;
use kit::params::Validation;
use kit::{Error, Response};
use serde_json::{Value, json};

/// The longest text of a commit that is shown, in bytes. Longer commits are left out.
const MAX_COMMIT: u64 = 256 << 10;

/// `GET /projects/:id/merge_requests/:iid/commits`: the commits of the source branch that the target branch lacks, or
/// lacked before the merge; the latest first, in pages. Reads the commits since the merge base, at most 20,000 of both
/// branches, and the commits that are shown. If there are more, the oldest are left out, and so are the headers with
/// totals.
pub fn list(context: &RequestContext, name: MergeRequestName) -> Result<Response, Error> {
    let params = context.params();
    let checks = Validation::new(&params);
    let page = Pagination::check(&checks);
    checks.finish()?;
    input::integer(name.iid).ok_or_else(|| Error::validation("merge_request_iid is invalid"))?;
    let readable = access::readable_merge_request(context, name.project, name.iid)?;
    let env = &context.env;
    let renderer = MergeRequestRenderer::new(context);
    let mut history = renderer.history(&readable);
    let commits = match renderer.ends(&readable, &mut history)? {
        Some((head, start)) => history::since(&mut history, head, start)?,
        None => NewCommits { ids: Vec::new(), is_truncated: false },
    };
    let total = commits.ids.len() as u64;
    let skip = usize::try_from(page.offset()).unwrap_or(usize::MAX);
    let project_url = format!("{}/{}", context.url, readable.project.full_path());
    let mut shown = JsonPage::new("commits");
    for id in commits.ids.into_iter().skip(skip).take(page.per_page as usize) {
        if let Some(contents) = objects::read_at_most(env, readable.source(), id, MAX_COMMIT)? {
            shown.push(&render(id, &CommitText::parse(&contents), &project_url))?;
        }
    }
    let url = context.own_url();
    let mut response = page.describe(shown.into_response(), &url, &[], total);
    if commits.is_truncated {
        response.headers.remove("x-total");
        response.headers.remove("x-total-pages");
    }
    Ok(response)
}

fn render(id: ObjectId, commit: &CommitText, project_url: &str) -> Value {
    let id = id.to_string();
    let CommitText { parents, author, committer, message } = commit;
    json!({
        "id": id,
        "short_id": id.get(..8),
        "created_at": committer.date,
        "parent_ids": parents.iter().map(ObjectId::to_string).collect::<Vec<_>>(),
        "title": message.lines().next().unwrap_or_default(),
        "message": message,
        "author_name": author.name,
        "author_email": author.email,
        "authored_date": author.date,
        "committer_name": committer.name,
        "committer_email": committer.email,
        "committed_date": committer.date,
        "trailers": {},
        "extended_trailers": {},
        "web_url": format!("{project_url}/-/commit/{id}"),
    })
}
