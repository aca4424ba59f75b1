//! Import of branches and tags.

use crate::api::access;
use crate::api::context::RequestContext;
use crate::api::merge_detection::{self, BranchUpdate};
use crate::git::{ObjectId, explain_ambiguity, find_ambiguity, is_branch_or_tag};
use crate::repository_id::RepositoryId;
use crate::store::protected_objects::find_unprotected;
use crate::store::ref_names::{self, MAX_NAMES, Reservation, ReservationError};
use crate::store::refs::{self as store, RefValue};
use directory::user::User;
use kit::root::Decision;
use kit::store::StoreError;
use kit::{Body, Env, Error, Response};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashSet};

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

impl RefUpdate {
    fn is_creation(&self) -> bool {
        self.old.is_none() && self.new.is_some()
    }
}

/// The body of the response.
#[derive(Default, Serialize)]
struct RefUpdateReport {
    moved: u64,
    /// Refs that had the new value already.
    unchanged: u64,
    failed: Vec<RejectedRefUpdate>,
    /// Refs that are not created or moved, because their names are ambiguous.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    left_out: Vec<RejectedRefUpdate>,
}

#[derive(Serialize)]
struct RejectedRefUpdate {
    name: String,
    error: String,
}

/// `POST /import/suggestions/:project/refs`: updates each branch or tag that has the value that the client expects.
/// Unreachable loose objects are swept after a day, so the new value must be protected. It is in a pack, or an existing
/// ref reaches it, or it is a commit or tag that was uploaded within the last twelve hours. Such a commit or tag must
/// have been uploaded with everything that it reaches and no ref does.
pub async fn refs(context: &mut RequestContext, id: &str, body: Body) -> Result<Response, Error> {
    let project = access::importable_repository(context, id)?;
    let body = body.collect(MAX_BODY).await?;
    access::still_importable(context, id, project)?;
    let env = &context.env;
    let updates: RefUpdates =
        serde_json::from_slice(&body).map_err(|why| Error::validation(format!("the body is invalid: {why}")))?;
    if updates.refs.len() > MAX_REFS {
        return Err(Error::validation(format!("refs has more than {MAX_REFS} elements")));
    }
    if let Some(default) = updates.head.filter(|name| is_branch_or_tag(name) && find_ambiguity(name).is_none()) {
        ref_names::set_default(env, project, &default)?;
    }
    let left_out = |RefUpdate { name, new, .. }: &RefUpdate| {
        let taken_for = find_ambiguity(name).filter(|_| new.is_some() && is_branch_or_tag(name))?;
        Some(RejectedRefUpdate { name: name.clone(), error: explain_ambiguity(name, taken_for) })
    };
    let report = RefUpdateReport { left_out: updates.refs.iter().filter_map(left_out).collect(), ..Default::default() };
    let mut updates = updates.refs;
    updates.retain(|update| left_out(update).is_none());
    // Deletions come first: a deleted ref does not conflict with a new one.
    updates.sort_by_key(|update| update.new.is_some());
    let valid = || updates.iter().filter(|update| is_branch_or_tag(&update.name));
    let new: Vec<&str> = valid().filter(|update| update.is_creation()).map(|update| update.name.as_str()).collect();
    let freed = valid().filter(|update| update.new.is_none()).map(|update| update.name.as_str()).collect();
    let unprotected = find_unprotected(env, project, valid().filter_map(|update| update.new))?;
    let deleted = valid().filter(|update| update.new.is_none());
    let deleted = deleted.filter_map(|update| update.name.strip_prefix("heads/").zip(update.old));
    merge_detection::before_deletions(env, project, deleted)?;
    let names = Reservation::make(env, project, &new, &freed)?;
    let mut import = RefImport { env, project, names, freed, unprotected, report, moved: Vec::new() };
    let applied = updates.iter().try_for_each(|update| import.apply(update));
    let RefImport { names, report, moved, .. } = import;
    // Also after an error, because earlier moves stay. An error of these steps undoes no move.
    if let Err(error) = names.finish_reservation(env, project) {
        eprintln!("the names of refs of repository {project} stay reserved: {error}");
    }
    let user = context.caller.user().map(User::key);
    merge_detection::after_updates(env, project, &moved, user.as_ref())?;
    applied?;
    Ok(Response::ok(&report))
}

/// Updates of refs, in progress.
struct RefImport<'a> {
    env: &'a Env,
    project: RepositoryId,
    names: Reservation,
    /// The refs that the request deletes.
    freed: BTreeSet<&'a str>,
    /// The new values that are missing, or may be swept.
    unprotected: HashSet<ObjectId>,
    report: RefUpdateReport,
    moved: Vec<BranchUpdate>,
}

impl RefImport<'_> {
    fn apply(&mut self, update: &RefUpdate) -> Result<(), StoreError> {
        let outcome = match self.find_conflict(update)? {
            Some(ReservationError::NameConflict(other)) => Err(format!("{other} is in its way")),
            Some(ReservationError::TooMany) => {
                Err(format!("the repository has {MAX_NAMES} branches and tags, which is the most"))
            }
            None => apply(self.env, self.project, update, &self.unprotected)?,
        };
        if update.is_creation() {
            self.names.note_creation(&update.name, outcome.is_ok());
        }
        if update.new.is_none() && outcome.is_ok() {
            self.names.note_deletion(&update.name);
        }
        match outcome {
            Ok(true) => {
                self.report.moved += 1;
                if let (Some(branch), Some(new)) = (update.name.strip_prefix("heads/"), update.new) {
                    self.moved.push(BranchUpdate { branch: branch.to_owned(), old: update.old, new });
                }
            }
            Ok(false) => self.report.unchanged += 1,
            Err(error) => self.report.failed.push(RejectedRefUpdate { name: update.name.clone(), error }),
        }
        Ok(())
    }

    /// Why a new ref cannot be created.
    fn find_conflict(&self, update: &RefUpdate) -> Result<Option<ReservationError>, StoreError> {
        if !update.is_creation() {
            return Ok(None);
        }
        if let Some(why) = self.names.refusal(&update.name) {
            return Ok(Some(why.clone()));
        }
        let undeleted = ref_names::find_undeleted(self.env, self.project, &update.name, &self.freed)?;
        Ok(undeleted.map(|other| ReservationError::NameConflict(other.to_owned())))
    }
}

/// Updates a ref. Returns whether its value changed, or why the update is rejected.
fn apply(
    env: &Env,
    project: RepositoryId,
    update: &RefUpdate,
    unprotected: &HashSet<ObjectId>,
) -> Result<Result<bool, String>, StoreError> {
    if !is_branch_or_tag(&update.name) {
        return Ok(Err("not a name of a branch (`heads/…`) or tag (`tags/…`)".into()));
    }
    if let Some(new) = update.new.filter(|new| unprotected.contains(new)) {
        return Ok(Err(format!("object {new} is not there, or was sent too long ago; send it first")));
    }
    let operation = env.id();
    store::update(env, project, &update.name, |value| {
        let current = value.as_ref().map(|head| head.commit);
        if value.is_some_and(|value| value.operation == operation) {
            return Ok(Decision::Keep(Ok(true)));
        }
        if current == update.new {
            return Ok(Decision::Keep(Ok(false)));
        }
        if current != update.old {
            let stands = current.map_or("it is not there".to_owned(), |id| format!("it stands at {id}"));
            return Ok(Decision::Keep(Err(format!("{stands}, not where it was believed to"))));
        }
        current.map_or(Ok(()), |old| store::save_reflog_entry(env, project, old))?;
        let value = |commit| RefValue { commit, applied: Vec::new(), operation: operation.clone() };
        Ok(Decision::Replace(update.new.map(value), Ok(true)))
    })
}
