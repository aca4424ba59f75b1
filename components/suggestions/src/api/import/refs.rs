//! Import of branches and tags.

use crate::api::access;
use crate::api::context::RequestContext;
use crate::api::merge_detection::{self, BranchUpdate};
use crate::git::{ObjectId, is_branch_or_tag};
use crate::repository_id::RepositoryId;
use crate::store::objects;
use crate::store::refs::{self as store, RefNames, RefValue};
use kit::root::Decision;
use kit::store::StoreError;
use kit::{Env, Error, Request, Response};
use serde::{Deserialize, Serialize};

/// The most branches and tags that one request updates.
const MAX_REFS: usize = 10_000;

/// The largest body, in bytes.
const MAX_BODY: u64 = 8 << 20;

/// The body of a request.
#[derive(Deserialize)]
struct RefUpdates {
    refs: Vec<RefUpdate>,
    /// The branch that the repository has checked out: `heads/main`.
    head: Option<String>,
}

/// An update of a branch or tag.
#[derive(Deserialize)]
struct RefUpdate {
    /// `heads/main`, `tags/v1`.
    name: String,
    /// The value that the client expects the ref to have; absent or null: the ref does not exist.
    old: Option<ObjectId>,
    /// The new value; absent or null: delete the ref.
    new: Option<ObjectId>,
}

/// The body of the response.
#[derive(Default, Serialize)]
struct RefUpdateReport {
    moved: u64,
    /// Refs that had the new value already.
    unchanged: u64,
    failed: Vec<RejectedRefUpdate>,
}

#[derive(Serialize)]
struct RejectedRefUpdate {
    name: String,
    error: String,
}

/// `POST /import/suggestions/:project/refs`: updates each branch or tag that has the value that the client
/// expects. Unreachable objects are removed after a day, so the new value must be that of an existing ref,
/// or a commit or tag object that was uploaded within the last twelve hours, together with everything that
/// it reaches and no ref does.
pub async fn refs(context: &RequestContext, project: &str, request: Request) -> Result<Response, Error> {
    let (env, project) = (&context.env, access::importable_repository(context, project)?);
    let body = request.body.collect(MAX_BODY).await?;
    let updates: RefUpdates =
        serde_json::from_slice(&body).map_err(|why| Error::validation(format!("the body is invalid: {why}")))?;
    if updates.refs.len() > MAX_REFS {
        return Err(Error::validation(format!("refs has more than {MAX_REFS} elements")));
    }
    let names = updates.refs.iter().filter(|update| update.new.is_some()).map(|update| &update.name);
    let names = names.filter(|name| is_branch_or_tag(name)).cloned().collect();
    let default = updates.head.filter(|name| is_branch_or_tag(name));
    store::add_names(env, project, &RefNames { names, default })?;
    let (mut report, mut moved) = (RefUpdateReport::default(), Vec::new());
    let applied = apply_all(env, project, updates.refs, &mut report, &mut moved);
    // Also after an error: what was moved before it stays.
    merge_detection::after_updates(env, project, &moved, context.caller.user().map(|user| user.id))?;
    applied?;
    Ok(Response::ok(&report))
}

/// Updates refs until one fails. Adds the branches that were moved to `moved`.
fn apply_all(
    env: &Env,
    project: RepositoryId,
    updates: Vec<RefUpdate>,
    report: &mut RefUpdateReport,
    moved: &mut Vec<BranchUpdate>,
) -> Result<(), StoreError> {
    for update in updates {
        match apply(env, project, &update)? {
            Ok(true) => {
                report.moved += 1;
                if let (Some(branch), Some(new)) = (update.name.strip_prefix("heads/"), update.new) {
                    moved.push(BranchUpdate { branch: branch.to_owned(), old: update.old, new });
                }
            }
            Ok(false) => report.unchanged += 1,
            Err(error) => report.failed.push(RejectedRefUpdate { name: update.name, error }),
        }
    }
    Ok(())
}

/// Updates a ref. Returns whether its value changed, or why the update is rejected.
fn apply(env: &Env, project: RepositoryId, update: &RefUpdate) -> Result<Result<bool, String>, StoreError> {
    if !is_branch_or_tag(&update.name) {
        return Ok(Err("not a name of a branch (`heads/…`) or tag (`tags/…`)".into()));
    }
    if let Some(new) = update.new
        && !objects::is_recent(env, project, new)?
        && !is_ref_value(env, project, new)?
    {
        return Ok(Err(format!("object {new} is not there, or was sent too long ago; send it first")));
    }
    let operation = env.id();
    store::update(env, project, &update.name, |value| {
        let current = value.as_ref().map(|head| head.commit);
        if value.is_some_and(|value| value.operation == operation) {
            return Ok(Decision::Done(Ok(true)));
        }
        if current == update.new {
            return Ok(Decision::Done(Ok(false)));
        }
        if current != update.old {
            let stands = current.map_or("it is not there".to_owned(), |id| format!("it stands at {id}"));
            return Ok(Decision::Done(Err(format!("{stands}, not where it was believed to"))));
        }
        current.map_or(Ok(()), |old| store::save_reflog_entry(env, project, old))?;
        let value = |commit| RefValue { commit, applied: Vec::new(), operation: operation.clone() };
        Ok(Decision::Write(update.new.map(value), Ok(true)))
    })
}

/// Whether an existing branch or tag has this value.
fn is_ref_value(env: &Env, project: RepositoryId, id: ObjectId) -> Result<bool, StoreError> {
    for name in store::read_names(env, project)?.names {
        if store::read(env, project, &name)?.is_some_and(|value| value.commit == id) {
            return Ok(true);
        }
    }
    Ok(false)
}
