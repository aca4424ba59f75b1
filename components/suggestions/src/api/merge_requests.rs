//! Merge requests: reading and changing them.

use super::access::{self, ReadableMergeRequest};
use super::context::RequestContext;
use super::merge_request_json::MergeRequestRenderer;
use super::notes::MergeRequestName;
use crate::api::context;
use crate::merge_request::{MergeRequest, MergeRequestState};
use crate::repository_id::RepositoryId;
use crate::store::merge_requests::{self as store, BranchesTaken};
use crate::store::refs;
use directory::project::Project;
use http::StatusCode;
use kit::params::{Params, Validation};
use kit::{Env, Error, Response};
use serde_json::{Value, json};

/// `GET /projects/:id/merge_requests/:iid`. Beside the merge request, reads the heads of its branches, and the commits
/// since the merge base.
pub fn show(context: &RequestContext, name: MergeRequestName) -> Result<Response, Error> {
    check_iid(name.iid)?;
    let readable = access::readable_merge_request(context, name.project, name.iid)?;
    Ok(Response::ok(&MergeRequestRenderer::new(context).render_whole(&readable)?))
}

/// `PUT /projects/:id/merge_requests/:iid`: changes the title, the description and the target branch, closes or
/// reopens.
pub fn update(context: &RequestContext, name: MergeRequestName, params: &Params) -> Result<Response, Error> {
    check_iid(name.iid)?;
    let checks = Validation::new(params);
    require_a_change(params, &checks);
    refuse_unsupported(&checks);
    // A creation may ask for these options, as a wish for the later merge. Here they would be the only change.
    MERGE_OPTIONS.iter().for_each(|(name, neutral)| checks.unsupported(name, neutral));
    let event = checks.one_of("state_event", &["close", "reopen"]);
    let (title, description) = (checks.last("title"), checks.last("description"));
    let clears_description = params.is_null("description");
    let collaboration = allow_collaboration(&checks);
    let target_branch = checks.text("target_branch");
    checks.finish()?;
    let writable = access::writable_merge_request(context, name.project, name.iid)?;
    if !writable.may_change() {
        return Err(Error::forbidden());
    }
    check_texts(title, description)?;
    let (env, user) = (&context.env, &writable.user);
    let mut readable = writable.readable;
    check_changed_branches(env, &readable, target_branch, event)?;
    if collaboration.is_some_and(|allow| allow != readable.merge_request.allow_collaboration)
        && !access::may_push_source(context, &readable)?
    {
        return Err(Error::forbidden());
    }
    let not_found = || Error::message(StatusCode::NOT_FOUND, "404 Not found");
    // Once the merge request is closed, the source branch may be deleted.
    let head = match event {
        Some("close") => MergeRequestRenderer::new(context).head(&readable)?.map(|head| head.commit.to_string()),
        _ => None,
    };
    let changed = store::update_exclusively(env, &readable.project.key(), readable.iid, |present| {
        let mut new = present.ok_or_else(not_found)?;
        let before = new.clone();
        if let Some(title) = title {
            new.title = title.to_owned();
        }
        if let Some(description) = description {
            new.description = Some(description.to_owned());
        } else if clears_description {
            new.description = None;
        }
        new.allow_collaboration = collaboration.unwrap_or(new.allow_collaboration);
        if let Some(branch) = target_branch {
            new.target_branch = branch.to_owned();
        }
        if let Some(event) = event {
            new.set_open(event == "reopen", env.now, user);
            // If it was merged meanwhile, it keeps its head at the merge.
            if new.state != before.state {
                new.sha = head.clone().or(new.sha);
            }
        }
        if new != before {
            new.updated = Some(env.now);
        }
        Ok::<_, Error>(Some((Some(new.clone()), new)))
    })?;
    readable.merge_request = changed.map_err(conflict)?.ok_or_else(not_found)?;
    Ok(Response::ok(&MergeRequestRenderer::new(context).render_whole(&readable)?))
}

/// Refuses an update without any parameter of one.
fn require_a_change(params: &Params, checks: &Validation) {
    let known = ["title", "description", "target_branch", "state_event", "allow_collaboration"];
    let other = UNSUPPORTED.iter().chain(&MERGE_OPTIONS).map(|(name, _)| name);
    let other = other.chain(&["allow_maintainer_to_push", "remove_labels"]);
    let is_given = |name: &&str| params.has(name) || params.is_null(name);
    if !known.iter().chain(other).any(is_given) {
        checks.reject(format!("{} are missing, at least one parameter must be provided", known.join(", ")));
    }
}

/// `POST /projects/:id/merge_requests`: 201 and the merge request.
pub fn create(context: &RequestContext, project: &str, params: &Params) -> Result<Response, Error> {
    let checks = Validation::new(params);
    let title = checks.required("title").unwrap_or_default();
    let source_branch = checks.required("source_branch").unwrap_or_default();
    let target_branch = checks.required("target_branch").unwrap_or_default();
    let target = checks.integer("target_project_id").map(|id| u64::try_from(id).unwrap_or(0));
    let allow_collaboration = allow_collaboration(&checks).unwrap_or_default();
    let description = checks.text("description");
    refuse_unsupported(&checks);
    checks.finish()?;
    check_texts(Some(title), description)?;
    let projects = access::merge_request_target(context, project, target)?;
    let (env, key) = (&context.env, projects.target.key());
    let source = RepositoryId::of(&projects.source);
    check_distinct(&projects.target, Some(source), source_branch, target_branch)?;
    check_branch(env, &projects.source, "source_branch", source_branch)?;
    check_branch(env, &projects.target, "target_branch", target_branch)?;
    let mut merge_request = MergeRequest {
        id: 0,
        state: MergeRequestState::Opened,
        source: Some(source),
        source_branch: source_branch.to_owned(),
        target_branch: target_branch.to_owned(),
        title: title.to_owned(),
        description: description.map(str::to_owned),
        author: Some(projects.author),
        allow_collaboration,
        created: Some(env.now),
        updated: Some(env.now),
        ended: None,
        sha: None,
        merged_into: None,
    };
    let iid = store::create(env, &key, &mut merge_request)?.map_err(conflict)?;
    let readable = ReadableMergeRequest::new(context, projects.target, iid, merge_request)?;
    Ok(Response::json(StatusCode::CREATED, &MergeRequestRenderer::new(context).render_whole(&readable)?))
}

/// The reference service's `allow_collaboration`, also by its former name.
fn allow_collaboration(checks: &Validation) -> Option<bool> {
    let former = checks.boolean("allow_maintainer_to_push");
    checks.boolean("allow_collaboration").or(former)
}

/// Parameters for fields that merge requests do not have here, with the values that ask for nothing.
const UNSUPPORTED: [(&str, &[&str]); 10] = [
    ("approvals_before_merge", &["0"]),
    ("assignee_id", &["0"]),
    ("assignee_ids", &["0"]),
    ("discussion_locked", FALSE_WORDS),
    ("labels", &[]),
    ("add_labels", &[]),
    ("merge_after", &[]),
    ("milestone_id", &["0"]),
    ("reviewer_id", &["0"]),
    ("reviewer_ids", &["0"]),
];

/// Options for a merge by the reference service. This server merges nothing.
const MERGE_OPTIONS: [(&str, &[&str]); 2] = [("remove_source_branch", FALSE_WORDS), ("squash", FALSE_WORDS)];

const FALSE_WORDS: &[&str] = &["0", "f", "false", "n", "no", "off"];

fn refuse_unsupported(checks: &Validation) {
    UNSUPPORTED.iter().for_each(|(name, neutral)| checks.unsupported(name, neutral));
}

/// Checks the branches of a merge request that gets another target, or is reopened.
fn check_changed_branches(
    env: &Env,
    readable: &ReadableMergeRequest,
    target_branch: Option<&str>,
    event: Option<&str>,
) -> Result<(), Error> {
    let ReadableMergeRequest { project, merge_request, .. } = readable;
    let target_branch = target_branch.filter(|branch| *branch != merge_request.target_branch);
    let is_reopened = event == Some("reopen") && merge_request.state == MergeRequestState::Closed;
    if target_branch.is_none() && !is_reopened {
        return Ok(());
    }
    let target = target_branch.unwrap_or(&merge_request.target_branch);
    check_distinct(project, merge_request.source, &merge_request.source_branch, target)?;
    target_branch.map_or(Ok(()), |branch| check_branch(env, project, "target_branch", branch))
}

/// 422 if the source branch is the target branch.
fn check_distinct(
    target: &Project,
    source: Option<RepositoryId>,
    source_branch: &str,
    target_branch: &str,
) -> Result<(), Error> {
    let is_same = source == Some(RepositoryId::of(target)) && source_branch == target_branch;
    let text = "You can't use same project/branch for source and target";
    if is_same { Err(refusal(StatusCode::UNPROCESSABLE_ENTITY, text)) } else { Ok(()) }
}

/// 409.
fn conflict(taken: BranchesTaken) -> Error {
    let text = format!("Another open merge request already exists for this source branch: !{}", taken.iid);
    refusal(StatusCode::CONFLICT, &text)
}

fn refusal(status: StatusCode, text: &str) -> Error {
    Error::with_body(status, json!({"message": [text]}))
}

/// 400 unless the project has this branch.
fn check_branch(env: &Env, project: &Project, field: &str, branch: &str) -> Result<(), Error> {
    let exists = refs::read(env, RepositoryId::of(project), &format!("heads/{branch}"))?.is_some();
    if exists { Ok(()) } else { Err(invalid(field, "does not exist")) }
}

/// 400 if the title is blank, or one of the two is too long.
fn check_texts(title: Option<&str>, description: Option<&str>) -> Result<(), Error> {
    if title.is_some_and(|title| title.trim().is_empty()) {
        return Err(invalid("title", "can't be blank"));
    }
    if let Some(why) = title.and_then(context::find_excess_of_title) {
        return Err(invalid("title", &why));
    }
    match description.and_then(context::find_excess) {
        Some(why) => Err(invalid("description", &why)),
        None => Ok(()),
    }
}

fn invalid(field: &str, why: &str) -> Error {
    let message: Value = json!({field: [why]});
    Error::with_body(StatusCode::BAD_REQUEST, json!({"message": message}))
}

/// Checks a merge request's iid in a path; 400 if it is not an integer.
fn check_iid(text: &str) -> Result<(), Error> {
    context::integer(text).map(drop).ok_or_else(|| Error::validation("merge_request_iid is invalid"))
}
