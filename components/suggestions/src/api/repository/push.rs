//! `git push`: the pack is stored and checked as a whole, and then branches and tags are moved.

use crate::api::access::{self, PushableRepository};
use crate::api::merge_detection::{self, BranchUpdate};
use crate::api::repository::pack_stream::write_band;
use crate::api::repository::push_request::{
    MAX_COMMANDS, MAX_OPTION_BYTES, MAX_OPTIONS, PushCommands, PushReader, RefCommand,
};
use crate::api::repository::request_body::{RequestBody, git_response, refusal_text};
use crate::git::{ObjectId, ObjectKind, explain_ambiguity, find_ambiguity, is_ref_name, pktline};
use crate::repository_id::RepositoryId;
use crate::store::history::{History, MAX_NESTED_TAGS};
use crate::store::new_pack::{BadPack, PackError, PackOrigin, PackReceiver};
use crate::store::objects;
use crate::store::packs::{self, NewPack};
use crate::store::protected_objects::find_unprotected;
use crate::store::ref_names::{self, MAX_NAMES, Reservation, ReservationError};
use crate::store::refs::{self, Conflict, RefChange, RefValue};
use kit::root::Decision;
use kit::store::StoreError;
use kit::{Env, Error, Request, Response};
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// The largest push whose body is compressed as a whole, in decompressed bytes: clients have such a body in memory. In
/// larger pushes, only each object is compressed.
const MAX_COMPRESSED_PUSH: u64 = 1 << 30;

/// `POST git-receive-pack`.
pub async fn answer(env: &Env, mut request: Request, project: &str) -> Result<Response, Error> {
    let repository = access::repository_to_push_to(env, &request, project)?;
    let mut reader = PushReader::new(RequestBody::of(&mut request, MAX_COMPRESSED_PUSH)?);
    let push = reader.commands().await?;
    let media_type = "application/x-git-receive-pack-result";
    if push.commands.is_empty() && push.unreadable.is_empty() {
        return Ok(git_response(media_type, kit::Body::Empty));
    }
    // Commands are refused before the pack is read where the refusal does not depend on it.
    let mut outcomes = check_commands(&repository, &push);
    let accepted = push.commands.iter().zip(&outcomes).filter(|(_, (_, outcome))| outcome.is_ok());
    let tips: BTreeSet<ObjectId> = accepted.filter_map(|(command, _)| command.new).collect();
    let received = match tips.is_empty() {
        true => {
            while reader.next().await?.is_some() {}
            Ok(None)
        }
        false => receive_pack(env, repository.id(), &mut reader, &tips).await?,
    };
    // A client can take hours to send a pack, so the commands are authorized again.
    match &received {
        Err(why) => refuse_others(&mut outcomes, || refusal(why, &push)),
        Ok(pack) => match access::still_pushable_repository(env, &request, project, &repository) {
            Ok(repository) => {
                check_commands_again(&repository, &push, &mut outcomes);
                if outcomes.iter().any(|(_, outcome)| outcome.is_ok()) {
                    pack.as_ref().map_or(Ok(0), |pack| packs::add(env, repository.id(), pack))?;
                    move_refs(env, &repository, &push, &mut outcomes)?;
                }
            }
            Err(error) if error.status.is_server_error() => return Err(error),
            // git shows the reason only if it is in the report.
            Err(error) => refuse_others(&mut outcomes, || refuse(refusal_text(&error))),
        },
    }
    Ok(git_response(media_type, report(&push, received.is_ok(), &outcomes).into()))
}

/// Why no ref is moved to an object of a bad pack.
fn refusal(why: &BadPack, push: &PushCommands) -> Refusal {
    match why {
        BadPack::LacksParent(_) if push.is_shallow => explain(
            "shallow update not allowed",
            "The repository does not have the commits that your shallow clone lacks. \
             Run `git fetch --unshallow`, and push again.",
        ),
        why => explain("unpacker error", &why.to_string()),
    }
}

/// Stores the pack, which is not readable yet; `None` if it has nothing new. The inner error says what is wrong with
/// it.
async fn receive_pack(
    env: &Env,
    project: RepositoryId,
    reader: &mut PushReader,
    tips: &BTreeSet<ObjectId>,
) -> Result<Result<Option<NewPack>, BadPack>, Error> {
    let mut receiver = PackReceiver::new(env, project, PackOrigin::Push);
    let mut failure: Option<BadPack> = None;
    let mut is_empty = true;
    // The body is read to its end even if the pack is bad, because git reads no response before.
    while let Some(chunk) = reader.next().await? {
        is_empty = false;
        if failure.is_none() {
            failure = invalid_or(receiver.feed(&chunk))?.err();
        }
    }
    if let Some(why) = failure {
        return Ok(Err(why));
    }
    // Without a pack, every new value is an object that the repository has.
    if is_empty {
        return Ok(Ok(None));
    }
    Ok(invalid_or(receiver.finish(tips))?)
}

fn invalid_or<T>(outcome: Result<T, PackError>) -> Result<Result<T, BadPack>, StoreError> {
    match outcome {
        Ok(value) => Ok(Ok(value)),
        Err(PackError::Bad(why)) => Ok(Err(why)),
        Err(PackError::Store(error)) => Err(error),
    }
}

/// The response: `report-status` of gitprotocol-pack, with explanations for the client's terminal.
fn report(push: &PushCommands, is_unpacked: bool, outcomes: &Outcomes) -> Vec<u8> {
    let mut status = Vec::new();
    pktline::write_text(&mut status, if is_unpacked { "unpack ok\n" } else { "unpack index-pack abnormal exit\n" });
    let mut explanations: BTreeSet<&str> = BTreeSet::new();
    for (name, outcome) in outcomes {
        match outcome {
            Ok(()) => pktline::write_text(&mut status, &format!("ok {name}\n")),
            Err(refusal) => {
                pktline::write_text(&mut status, &format!("ng {name} {}\n", refusal.reason));
                explanations.extend(refusal.explanation.as_deref());
            }
        }
    }
    for name in &push.unreadable {
        pktline::write(&mut status, &[b"ng ", name.as_slice(), b" funny refname\n"].concat());
        explanations.insert("The names of branches and tags must be UTF-8.");
    }
    pktline::write_flush(&mut status);
    if !push.side_band {
        return if push.reports_status { status } else { Vec::new() };
    }
    let mut out = Vec::new();
    for explanation in explanations {
        write_band(&mut out, 2, format!("{explanation}\n").as_bytes());
    }
    if push.reports_status {
        for part in status.chunks(super::fetch_request::LARGE_SIDE_BAND) {
            write_band(&mut out, 1, part);
        }
    }
    pktline::write_flush(&mut out);
    out
}

/// Refs that only the server makes.
const RESERVED: [&str; 4] = ["merge-requests/", "keep-around/", "environments/", "pipelines/"];

/// Why a ref is not moved: the words that git prints beside its name, and an explanation for the terminal.
pub struct Refusal {
    pub reason: String,
    pub explanation: Option<String>,
}

pub fn refuse(reason: impl Into<String>) -> Refusal {
    Refusal { reason: reason.into(), explanation: None }
}

pub fn explain(reason: &str, explanation: &str) -> Refusal {
    Refusal { reason: reason.into(), explanation: Some(explanation.into()) }
}

/// The outcome of each command, in their order.
pub type Outcomes = Vec<(String, Result<(), Refusal>)>;

/// Checks each command, as far as this takes no read of the repository.
pub fn check_commands(repository: &PushableRepository, push: &PushCommands) -> Outcomes {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for command in &push.commands {
        *counts.entry(&command.name).or_default() += 1;
    }
    let check = |command: &RefCommand| match counts.get(command.name.as_str()) {
        _ if push.has_too_many => Err(explain(
            "too many refs",
            &format!("A push moves {MAX_COMMANDS} branches and tags at most. Push them in several parts."),
        )),
        _ if push.has_too_many_options => Err(explain(
            "too many push options",
            &format!("A push has {MAX_OPTIONS} options of {MAX_OPTION_BYTES} bytes together at most."),
        )),
        Some(1) => check_command(repository, command),
        _ => Err(refuse("multiple updates for the same ref are not allowed")),
    };
    let mut outcomes = push.commands.iter().map(|command| (command.name.clone(), check(command))).collect();
    if push.is_atomic && !push.unreadable.is_empty() {
        refuse_all(&mut outcomes);
    } else if push.is_atomic {
        refuse_all_unless_ok(&mut outcomes);
    }
    outcomes
}

/// Refuses all commands if one of them was refused.
fn refuse_all_unless_ok(outcomes: &mut Outcomes) {
    if outcomes.iter().any(|(_, outcome)| outcome.is_err()) {
        refuse_all(outcomes);
    }
}

fn refuse_all(outcomes: &mut Outcomes) {
    refuse_others(outcomes, || refuse("atomic push failure"));
}

/// Refuses the commands that were not refused so far.
pub fn refuse_others(outcomes: &mut Outcomes, why: impl Fn() -> Refusal) {
    for (_, outcome) in outcomes.iter_mut().filter(|(_, outcome)| outcome.is_ok()) {
        *outcome = Err(why());
    }
}

/// Refuses the commands that may not be carried out any more, by the present rights to `repository`.
pub fn check_commands_again(repository: &PushableRepository, push: &PushCommands, outcomes: &mut Outcomes) {
    for ((_, outcome), (_, present)) in outcomes.iter_mut().zip(check_commands(repository, push)) {
        if outcome.is_ok() {
            *outcome = present;
        }
    }
}

fn check_command(repository: &PushableRepository, command: &RefCommand) -> Result<(), Refusal> {
    let Some(name) = command.name.strip_prefix("refs/").filter(|name| is_ref_name(name)) else {
        return Err(refuse("funny refname"));
    };
    if RESERVED.iter().any(|reserved| name.starts_with(reserved)) {
        return Err(refuse("deny updating a hidden ref"));
    }
    if let Some(taken_for) = find_ambiguity(name).filter(|_| command.new.is_some()) {
        return Err(explain("misleading refname", &explain_ambiguity(name, taken_for)));
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

/// Carries out the commands that were not refused so far: one after the other, or all together if the push is atomic.
/// Marks the merge requests as merged whose head a moved branch contains.
pub fn move_refs(
    env: &Env,
    repository: &PushableRepository,
    push: &PushCommands,
    outcomes: &mut Outcomes,
) -> Result<(), Error> {
    let mut moves = RefMoves::begin(env, repository, push, outcomes)?;
    let accepted = push.commands.iter().zip(&*outcomes).filter(|(_, (_, outcome))| outcome.is_ok());
    let deleted = accepted.filter(|(command, _)| command.new.is_none());
    let deleted = deleted.filter_map(|(command, _)| name(command).strip_prefix("heads/").zip(command.old));
    merge_detection::before_deletions(env, repository.id(), deleted)?;
    let moved = if push.is_atomic { moves.move_together(outcomes) } else { moves.move_each(outcomes) };
    let RefMoves { names, moved: updates, .. } = moves;
    // Also after an error, because earlier moves stay. An error of these steps undoes no move.
    if let Err(error) = merge_detection::after_updates(env, repository.id(), &updates, repository.user.as_ref()) {
        eprintln!("which merge requests a push to repository {} merges is not known: {error}", repository.id());
    }
    if let Err(error) = names.finish_reservation(env, repository.id()) {
        eprintln!("the names of refs of repository {} stay reserved: {error}", repository.id());
    }
    moved
}

struct RefMoves<'a> {
    env: &'a Env,
    repository: &'a PushableRepository,
    commands: &'a [RefCommand],
    names: Reservation,
    /// The refs that the push deletes; empty if the push is atomic.
    freed: BTreeSet<&'a str>,
    /// The new values that are missing, or may be swept.
    unprotected: HashSet<ObjectId>,
    history: History<'a>,
    moved: Vec<BranchUpdate>,
}

impl<'a> RefMoves<'a> {
    /// Reserves the names of new refs, and refuses names that conflict with other refs.
    fn begin(
        env: &'a Env,
        repository: &'a PushableRepository,
        push: &'a PushCommands,
        outcomes: &mut Outcomes,
    ) -> Result<Self, Error> {
        let accepted = || push.commands.iter().zip(&*outcomes).filter(|(_, (_, outcome))| outcome.is_ok());
        let new: Vec<&str> =
            accepted().filter(|(command, _)| is_creation(command)).map(|(command, _)| name(command)).collect();
        let deleted = accepted().filter(|(command, _)| command.new.is_none() && !push.is_atomic);
        let freed: BTreeSet<&str> = deleted.map(|(command, _)| name(command)).collect();
        let unprotected = find_unprotected(env, repository.id(), accepted().filter_map(|(command, _)| command.new))?;
        let names = Reservation::make(env, repository.id(), &new, &freed)?;
        for (command, (_, outcome)) in push.commands.iter().zip(&mut *outcomes) {
            if outcome.is_ok()
                && is_creation(command)
                && let Some(why) = names.refusal(name(command))
            {
                *outcome = Err(match why {
                    ReservationError::NameConflict(other) => name_conflict(command, other),
                    ReservationError::TooMany => explain(
                        "too many refs",
                        &format!("The repository has {MAX_NAMES} branches and tags, which is the most. Delete some."),
                    ),
                });
            }
        }
        let (commands, history) = (&push.commands, History::new(env, &[repository.id()]));
        Ok(RefMoves { env, repository, commands, names, freed, unprotected, history, moved: Vec::new() })
    }

    fn move_each(&mut self, outcomes: &mut Outcomes) -> Result<(), Error> {
        for (command, (_, outcome)) in self.commands.iter().zip(outcomes) {
            let is_accepted = outcome.is_ok();
            if outcome.is_ok() {
                *outcome = self.check(command)?;
            }
            if outcome.is_ok() {
                *outcome = move_ref(self.env, self.repository.id(), command)?;
            }
            if is_accepted {
                self.record_outcome(command, outcome.is_ok());
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
        if outcomes.iter().all(|(_, outcome)| outcome.is_ok()) {
            let change =
                |command: &'a RefCommand| RefChange { name: name(command), old: command.old, new: command.new };
            let changes: Vec<RefChange> = self.commands.iter().map(change).collect();
            match refs::update_all(self.env, self.repository.id(), &changes)? {
                Ok(()) => {}
                Err(Conflict::Moved(position, current)) => {
                    if let Some((_, outcome)) = outcomes.get_mut(position) {
                        *outcome = Err(unexpected_value(current));
                    }
                    refuse_all_unless_ok(outcomes);
                }
                Err(Conflict::Aborted) => {
                    for (_, outcome) in &mut *outcomes {
                        *outcome = Err(refuse("another push came between; try again"));
                    }
                }
            }
        }
        for (command, (_, outcome)) in self.commands.iter().zip(outcomes) {
            self.record_outcome(command, outcome.is_ok());
        }
        Ok(())
    }

    /// Records the outcome of a command.
    fn record_outcome(&mut self, command: &RefCommand, is_moved: bool) {
        if is_creation(command) {
            self.names.note_creation(name(command), is_moved);
        }
        if is_moved && command.new.is_none() {
            self.names.note_deletion(name(command));
        }
        self.moved.extend(branch_update(command).filter(|_| is_moved));
    }

    /// Checks a move against the repository.
    fn check(&mut self, command: &RefCommand) -> Result<Result<(), Refusal>, Error> {
        let project = self.repository.id();
        let Some(new) = command.new else { return Ok(Ok(())) };
        let branch = name(command).strip_prefix("heads/");
        match objects::kind(self.env, project, new)? {
            _ if self.unprotected.contains(&new) => return Ok(Err(refuse("missing necessary objects"))),
            None => return Ok(Err(refuse("missing necessary objects"))),
            Some(kind) if branch.is_some() && kind != ObjectKind::Commit => {
                return Ok(Err(refuse("cannot update a branch to an object that is no commit")));
            }
            Some(ObjectKind::Tag) if self.history.peel_ref(new)?.is_none() => {
                return Ok(Err(explain(
                    "too many nested tags",
                    &format!("A tag leads to what it names through {MAX_NESTED_TAGS} tags at most."),
                )));
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
        if is_creation(command)
            && let Some(other) = ref_names::find_undeleted(self.env, project, name(command), &self.freed)?
        {
            return Ok(Err(name_conflict(command, other)));
        }
        Ok(Ok(()))
    }
}

fn is_creation(command: &RefCommand) -> bool {
    command.old.is_none() && command.new.is_some()
}

/// In git's words.
fn name_conflict(command: &RefCommand, other: &str) -> Refusal {
    refuse(format!("cannot lock ref '{0}': 'refs/{other}' exists; cannot create '{0}'", command.name))
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

fn unexpected_value(current: Option<ObjectId>) -> Refusal {
    let stands = current.map_or("is not there".to_owned(), |id| format!("is at {id}"));
    refuse(format!("failed to update ref: it {stands}; fetch first"))
}

/// Moves a ref that has the value that the client expects.
fn move_ref(env: &Env, project: RepositoryId, command: &RefCommand) -> Result<Result<(), Refusal>, Error> {
    let operation = env.id();
    let outcome = refs::update(env, project, name(command), |value: Option<RefValue>| {
        let current = value.as_ref().map(|value| value.commit);
        if value.is_some_and(|value| value.operation == operation) {
            return Ok::<_, StoreError>(Decision::Keep(Ok(())));
        }
        if current.is_none() && command.new.is_none() {
            // The deletion of a missing ref succeeds, as in git.
            return Ok(Decision::Keep(Ok(())));
        }
        if current != command.old {
            return Ok(Decision::Keep(Err(unexpected_value(current))));
        }
        current.map_or(Ok(()), |old| refs::save_reflog_entry(env, project, old))?;
        let value = |commit| RefValue { commit, applied: Vec::new(), operation: operation.clone() };
        Ok(Decision::Replace(command.new.map(value), Ok(())))
    })?;
    Ok(outcome)
}
