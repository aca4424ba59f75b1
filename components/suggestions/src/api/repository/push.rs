//! `git push`: the pack is stored and checked as a whole, and then each branch or tag is moved by itself, if the
//! caller may move it and it stands where the client believes it to stand.

use super::pack_stream::write_band;
use super::push_request::{PushCommands, PushReader, RefCommand};
use super::response::git_response;
use crate::api::access::{self, PushableRepository};
use crate::api::merge_detection::{self, BranchUpdate};
use crate::git::{ObjectId, ObjectKind, is_ref_name, pktline};
use crate::repository_id::RepositoryId;
use crate::store::history::History;
use crate::store::new_pack::{PackError, PackOrigin, PackReceiver};
use crate::store::refs::{self, RefNames, RefValue};
use crate::store::{objects, packs};
use kit::root::Decision;
use kit::store::StoreError;
use kit::{Env, Error, Request, Response};
use std::collections::BTreeSet;

/// Refs that only the server makes.
const RESERVED: [&str; 4] = ["merge-requests/", "keep-around/", "environments/", "pipelines/"];

/// Why a ref is not moved: the words that git prints beside its name, and an explanation for the terminal.
struct Refusal {
    reason: String,
    explanation: Option<String>,
}

fn refuse(reason: impl Into<String>) -> Refusal {
    Refusal { reason: reason.into(), explanation: None }
}

fn explain(reason: &str, explanation: &str) -> Refusal {
    Refusal { reason: reason.into(), explanation: Some(explanation.into()) }
}

/// The outcome of each command, in their order.
type Outcomes = Vec<(String, Result<(), Refusal>)>;

/// `POST git-receive-pack`.
pub async fn answer(env: &Env, request: Request, project: &str) -> Result<Response, Error> {
    let repository = access::pushable_repository(env, &request, project)?;
    let mut reader = PushReader::new(request.body);
    let push = reader.commands().await?;
    let media_type = "application/x-git-receive-pack-result";
    if push.commands.is_empty() {
        return Ok(git_response(media_type, kit::Body::Empty));
    }
    // What is refused anyhow is known before the pack is read.
    let mut outcomes: Outcomes = Vec::new();
    for command in &push.commands {
        outcomes.push((command.name.clone(), check_command(&repository, &push, command)));
    }
    let accepted: Vec<&RefCommand> = push
        .commands
        .iter()
        .zip(&outcomes)
        .filter(|(_, (_, outcome))| outcome.is_ok())
        .map(|(command, _)| command)
        .collect();
    let tips: BTreeSet<ObjectId> = accepted.iter().filter_map(|command| command.new).collect();
    let unpacked = match tips.is_empty() {
        true => {
            while reader.next().await?.is_some() {}
            Ok(())
        }
        false => receive_pack(env, repository.id(), &mut reader, &tips).await?,
    };
    if let Err(why) = &unpacked {
        for (_, outcome) in outcomes.iter_mut().filter(|(_, outcome)| outcome.is_ok()) {
            *outcome = Err(explain("unpacker error", why));
        }
    } else {
        let mut history = History::new(env, repository.id());
        for (command, (_, outcome)) in push.commands.iter().zip(&mut outcomes) {
            if outcome.is_ok() {
                *outcome = move_ref(env, &repository, &mut history, command)?;
                if outcome.is_ok() {
                    note_merges(env, &repository, command)?;
                }
            }
        }
    }
    Ok(git_response(media_type, report(&push, &unpacked.map_err(drop), &outcomes).into()))
}

/// Marks the merge requests as merged whose head a moved branch contains.
fn note_merges(env: &Env, repository: &PushableRepository, command: &RefCommand) -> Result<(), StoreError> {
    let (Some(branch), Some(new)) = (command.name.strip_prefix("refs/heads/"), command.new) else { return Ok(()) };
    let (moved, user_id) = (repository.id(), repository.user_id);
    merge_detection::after_update(env, &BranchUpdate { repository: moved, branch, old: command.old, new, user_id })
}

/// Stores the pack. The inner error says what is wrong with it.
async fn receive_pack(
    env: &Env,
    project: RepositoryId,
    reader: &mut PushReader,
    tips: &BTreeSet<ObjectId>,
) -> Result<Result<(), String>, Error> {
    let mut receiver = PackReceiver::new(env, project, PackOrigin::Push);
    let mut failure: Option<String> = None;
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
        return Ok(Ok(()));
    }
    match invalid_or(receiver.finish(tips))? {
        Ok(Some(pack)) => {
            packs::add(env, project, &pack)?;
            Ok(Ok(()))
        }
        Ok(None) => Ok(Ok(())),
        Err(why) => Ok(Err(why)),
    }
}

fn invalid_or<T>(outcome: Result<T, PackError>) -> Result<Result<T, String>, StoreError> {
    match outcome {
        Ok(value) => Ok(Ok(value)),
        Err(PackError::Invalid(why)) => Ok(Err(why)),
        Err(PackError::Store(error)) => Err(error),
    }
}

/// Whether a command may be carried out, as far as the repository need not be read for it.
fn check_command(repository: &PushableRepository, push: &PushCommands, command: &RefCommand) -> Result<(), Refusal> {
    let Some(name) = command.name.strip_prefix("refs/").filter(|name| is_ref_name(name)) else {
        return Err(refuse("funny refname"));
    };
    if push.commands.iter().filter(|other| other.name == command.name).count() > 1 {
        return Err(refuse("multiple updates for the same ref are not allowed"));
    }
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

/// Moves a ref, unless the repository has a reason against it.
fn move_ref(
    env: &Env,
    repository: &PushableRepository,
    history: &mut History,
    command: &RefCommand,
) -> Result<Result<(), Refusal>, Error> {
    let project = repository.id();
    let name = command.name.strip_prefix("refs/").unwrap_or(&command.name);
    let branch = name.strip_prefix("heads/");
    if let Some(new) = command.new {
        match objects::kind(env, project, new)? {
            None => return Ok(Err(refuse("missing necessary objects"))),
            Some(kind) if branch.is_some() && kind != ObjectKind::Commit => {
                return Ok(Err(refuse("cannot update a branch to an object that is no commit")));
            }
            Some(_) => {}
        }
        if let (Some(old), Some(branch)) = (command.old, branch)
            && repository.is_protected(branch)
            && !history.is_ancestor(old, new)?
        {
            return Ok(Err(explain(
                "non-fast-forward",
                &format!("You are not allowed to force push code to the protected branch {branch} of this project."),
            )));
        }
        let names = refs::read_names(env, project)?;
        if command.old.is_none()
            && let Some(other) = conflicting_name(env, project, &names, name)?
        {
            return Ok(Err(refuse(format!("cannot lock ref '{}': 'refs/{other}' exists", command.name))));
        }
        refs::add_names(env, project, &RefNames { names: BTreeSet::from([name.to_owned()]), default: None })?;
    }
    let operation = env.id();
    let outcome = refs::update(env, project, name, |value: Option<RefValue>| {
        let current = value.as_ref().map(|value| value.commit);
        if value.is_some_and(|value| value.operation == operation) {
            return Ok::<_, StoreError>(Decision::Done(Ok(())));
        }
        if current != command.old {
            // A deletion of what is not there succeeds, as in git.
            if current.is_none() && command.new.is_none() {
                return Ok(Decision::Done(Ok(())));
            }
            let stands = current.map_or("is not there".to_owned(), |id| format!("is at {id}"));
            return Ok(Decision::Done(Err(refuse(format!("failed to update ref: it {stands}; fetch first")))));
        }
        current.map_or(Ok(()), |old| refs::save_reflog_entry(env, project, old))?;
        let value = |commit| RefValue { commit, applied: Vec::new(), operation: operation.clone() };
        Ok(Decision::Write(command.new.map(value), Ok(())))
    })?;
    Ok(outcome)
}

/// An existing ref that is a folder of this name, or has it as a folder.
fn conflicting_name(
    env: &Env,
    project: RepositoryId,
    names: &RefNames,
    name: &str,
) -> Result<Option<String>, StoreError> {
    let below = format!("{name}/");
    for other in &names.names {
        let is_conflict = other.starts_with(&below) || name.starts_with(&format!("{other}/"));
        if is_conflict && refs::read(env, project, other)?.is_some() {
            return Ok(Some(other.clone()));
        }
    }
    Ok(None)
}

/// The response: `report-status` of gitprotocol-pack, with explanations for the client's terminal.
fn report(push: &PushCommands, unpacked: &Result<(), ()>, outcomes: &Outcomes) -> Vec<u8> {
    let mut status = Vec::new();
    pktline::write_text(
        &mut status,
        if unpacked.is_ok() { "unpack ok\n" } else { "unpack index-pack abnormal exit\n" },
    );
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
