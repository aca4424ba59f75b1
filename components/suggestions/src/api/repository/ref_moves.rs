//! The branches and tags that a push moves: whether it may, and that it does.

use super::push_request::{PushCommands, RefCommand};
use crate::api::access::PushableRepository;
use crate::api::merge_detection::{self, BranchUpdate};
use crate::git::{ObjectId, ObjectKind, is_ref_name};
use crate::repository_id::RepositoryId;
use crate::store::history::History;
use crate::store::objects;
use crate::store::ref_transaction::{self, Conflict, RefChange};
use crate::store::refs::{self, RefNames, RefValue};
use kit::root::Decision;
use kit::store::StoreError;
use kit::{Env, Error};
use std::collections::{BTreeMap, BTreeSet};

/// Refs that only the server makes.
const RESERVED: [&str; 4] = ["merge-requests/", "keep-around/", "environments/", "pipelines/"];

/// Why a ref is not moved: the words that git prints beside its name, and an explanation for the terminal.
pub struct Refusal {
    pub reason: String,
    pub explanation: Option<String>,
}

fn refuse(reason: impl Into<String>) -> Refusal {
    Refusal { reason: reason.into(), explanation: None }
}

pub fn explain(reason: &str, explanation: &str) -> Refusal {
    Refusal { reason: reason.into(), explanation: Some(explanation.into()) }
}

/// The outcome of each command, in their order.
pub type Outcomes = Vec<(String, Result<(), Refusal>)>;

/// Whether each command may be carried out, as far as the repository need not be read for it.
pub fn check_commands(repository: &PushableRepository, push: &PushCommands) -> Outcomes {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for command in &push.commands {
        *counts.entry(&command.name).or_default() += 1;
    }
    let check = |command: &RefCommand| match counts.get(command.name.as_str()) {
        Some(1) => check_command(repository, command),
        _ => Err(refuse("multiple updates for the same ref are not allowed")),
    };
    let mut outcomes = push.commands.iter().map(|command| (command.name.clone(), check(command))).collect();
    if push.is_atomic {
        refuse_all_unless_ok(&mut outcomes);
    }
    outcomes
}

/// If one of the outcomes is a refusal, makes one of the others, too.
fn refuse_all_unless_ok(outcomes: &mut Outcomes) {
    if outcomes.iter().all(|(_, outcome)| outcome.is_ok()) {
        return;
    }
    for (_, outcome) in outcomes.iter_mut().filter(|(_, outcome)| outcome.is_ok()) {
        *outcome = Err(refuse("atomic push failure"));
    }
}

fn check_command(repository: &PushableRepository, command: &RefCommand) -> Result<(), Refusal> {
    let Some(name) = command.name.strip_prefix("refs/").filter(|name| is_ref_name(name)) else {
        return Err(refuse("funny refname"));
    };
    if RESERVED.iter().any(|reserved| name.starts_with(reserved)) {
        return Err(refuse("deny updating a hidden ref"));
    }
    let Some(branch) = name.strip_prefix("heads/") else { return Ok(()) };
    if command.new.is_none() && repository.is_protected(branch) {
        return Err(explain(
            "protected branch",
            &format!("You are not allowed to delete the protected branch {branch} of this project."),
        ));
    }
    match repository.may_push(branch) {
        true => Ok(()),
        false => Err(explain(
            "protected branch",
            &format!("You are not allowed to push code to the protected branch {branch} of this project."),
        )),
    }
}

/// Carries out the commands that were not refused so far: each by itself, or all together. Marks the merge requests as
/// merged whose head a moved branch contains.
pub fn move_refs(
    env: &Env,
    repository: &PushableRepository,
    push: &PushCommands,
    outcomes: &mut Outcomes,
) -> Result<(), Error> {
    let mut moves = RefMoves::begin(env, repository, push, outcomes)?;
    let moved = if push.is_atomic { moves.move_together(outcomes) } else { moves.move_each(outcomes) };
    // Also after an error: what was moved before it stays.
    merge_detection::after_updates(env, repository.id(), &moves.moved, repository.user_id)?;
    moved?;
    for (command, (_, outcome)) in push.commands.iter().zip(outcomes) {
        if outcome.is_err() && moves.added.contains(name(command)) {
            refs::forget_name(env, repository.id(), name(command))?;
        }
    }
    Ok(())
}

struct RefMoves<'a> {
    env: &'a Env,
    repository: &'a PushableRepository,
    commands: &'a [RefCommand],
    /// The names that refs may have, also those of this push.
    names: BTreeSet<String>,
    /// Those that this push has added.
    added: BTreeSet<String>,
    /// The new values are visible together, if at all.
    is_atomic: bool,
    history: History<'a>,
    moved: Vec<BranchUpdate>,
}

impl<'a> RefMoves<'a> {
    fn begin(
        env: &'a Env,
        repository: &'a PushableRepository,
        push: &'a PushCommands,
        outcomes: &Outcomes,
    ) -> Result<Self, Error> {
        let accepted = push.commands.iter().zip(outcomes).filter(|(_, (_, outcome))| outcome.is_ok());
        let new = accepted.filter(|(command, _)| command.new.is_some()).map(|(command, _)| name(command).to_owned());
        let mut names = refs::read_names(env, repository.id())?.names;
        let added: BTreeSet<String> = new.filter(|name| !names.contains(name)).collect();
        if !added.is_empty() {
            refs::add_names(env, repository.id(), &RefNames { names: added.clone(), default: None })?;
            names.extend(added.iter().cloned());
        }
        let (commands, is_atomic, history) = (&push.commands, push.is_atomic, History::new(env, &[repository.id()]));
        Ok(RefMoves { env, repository, commands, names, added, is_atomic, history, moved: Vec::new() })
    }

    fn move_each(&mut self, outcomes: &mut Outcomes) -> Result<(), Error> {
        for (command, (_, outcome)) in self.commands.iter().zip(outcomes) {
            if outcome.is_ok() {
                *outcome = self.check(command)?;
            }
            if outcome.is_ok() {
                *outcome = move_ref(self.env, self.repository.id(), command)?;
            }
            if outcome.is_ok() {
                self.moved.extend(branch_update(command));
            }
        }
        Ok(())
    }

    fn move_together(&mut self, outcomes: &mut Outcomes) -> Result<(), Error> {
        for (command, (_, outcome)) in self.commands.iter().zip(&mut *outcomes) {
            if outcome.is_ok() {
                *outcome = self.check(command)?;
            }
        }
        refuse_all_unless_ok(outcomes);
        if outcomes.iter().any(|(_, outcome)| outcome.is_err()) {
            return Ok(());
        }
        let change = |command: &'a RefCommand| RefChange { name: name(command), old: command.old, new: command.new };
        let changes: Vec<RefChange> = self.commands.iter().map(change).collect();
        match ref_transaction::update_all(self.env, self.repository.id(), &changes)? {
            Ok(()) => self.moved.extend(self.commands.iter().filter_map(branch_update)),
            Err(Conflict::Moved(position, current)) => {
                if let Some((_, outcome)) = outcomes.get_mut(position) {
                    *outcome = Err(stands_elsewhere(current));
                }
                refuse_all_unless_ok(outcomes);
            }
            Err(Conflict::Overtaken) => {
                for (_, outcome) in outcomes {
                    *outcome = Err(refuse("another push came between; try again"));
                }
            }
        }
        Ok(())
    }

    /// Whether the repository has a reason against a move.
    fn check(&mut self, command: &RefCommand) -> Result<Result<(), Refusal>, Error> {
        let project = self.repository.id();
        let Some(new) = command.new else { return Ok(Ok(())) };
        let branch = name(command).strip_prefix("heads/");
        match objects::kind(self.env, project, new)? {
            None => return Ok(Err(refuse("missing necessary objects"))),
            Some(kind) if branch.is_some() && kind != ObjectKind::Commit => {
                return Ok(Err(refuse("cannot update a branch to an object that is no commit")));
            }
            Some(_) => {}
        }
        if let (Some(old), Some(branch)) = (command.old, branch)
            && self.repository.is_protected(branch)
            && !self.history.is_ancestor(old, new)?
        {
            return Ok(Err(explain(
                "non-fast-forward",
                &format!("You are not allowed to force push code to the protected branch {branch} of this project."),
            )));
        }
        if command.old.is_none()
            && let Some(other) = self.conflicting_name(name(command))?
        {
            return Ok(Err(refuse(format!("cannot lock ref '{}': 'refs/{other}' exists", command.name))));
        }
        Ok(Ok(()))
    }

    /// A ref that is a folder of this name, or has it as a folder, and exists or is about to.
    fn conflicting_name(&self, name: &str) -> Result<Option<String>, StoreError> {
        let below = format!("{name}/");
        let inside = self.names.range(below.clone()..).take_while(|other| other.starts_with(&below));
        let folders = name.match_indices('/').filter_map(|(at, _)| self.names.get(name.get(..at)?));
        for other in inside.chain(folders) {
            let is_together = self.is_atomic && self.added.contains(other);
            if is_together || refs::read(self.env, self.repository.id(), other)?.is_some() {
                return Ok(Some(other.clone()));
            }
        }
        Ok(None)
    }
}

/// Below `refs/`.
fn name(command: &RefCommand) -> &str {
    command.name.strip_prefix("refs/").unwrap_or(&command.name)
}

/// `None` if the ref is no branch, or was deleted.
fn branch_update(command: &RefCommand) -> Option<BranchUpdate> {
    let branch = name(command).strip_prefix("heads/")?.to_owned();
    Some(BranchUpdate { branch, old: command.old, new: command.new? })
}

fn stands_elsewhere(current: Option<ObjectId>) -> Refusal {
    let stands = current.map_or("is not there".to_owned(), |id| format!("is at {id}"));
    refuse(format!("failed to update ref: it {stands}; fetch first"))
}

/// Moves a ref that is where the client believes it to be.
fn move_ref(env: &Env, project: RepositoryId, command: &RefCommand) -> Result<Result<(), Refusal>, Error> {
    let operation = env.id();
    let outcome = refs::update(env, project, name(command), |value: Option<RefValue>| {
        let current = value.as_ref().map(|value| value.commit);
        if value.is_some_and(|value| value.operation == operation) {
            return Ok::<_, StoreError>(Decision::Done(Ok(())));
        }
        if current != command.old {
            // A deletion of what is not there succeeds, as in git.
            let is_done = current.is_none() && command.new.is_none();
            return Ok(Decision::Done(if is_done { Ok(()) } else { Err(stands_elsewhere(current)) }));
        }
        current.map_or(Ok(()), |old| refs::save_reflog_entry(env, project, old))?;
        let value = |commit| RefValue { commit, applied: Vec::new(), operation: operation.clone() };
        Ok(Decision::Write(command.new.map(value), Ok(())))
    })?;
    Ok(outcome)
}
