//! `git push`: the pack is stored and checked as a whole, and then branches and tags are moved.

use super::pack_stream::write_band;
use super::push_request::{PushCommands, PushReader};
use super::ref_moves::{self, Outcomes, Refusal, explain};
use super::request_body::RequestBody;
use super::response::{git_response, refusal_text};
use crate::api::access;
use crate::git::{ObjectId, pktline};
use crate::repository_id::RepositoryId;
use crate::store::new_pack::{BadPack, PackError, PackOrigin, PackReceiver};
use crate::store::packs::{self, NewPack};
use kit::store::StoreError;
use kit::{Env, Error, Request, Response};
use std::collections::BTreeSet;

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
    let mut outcomes = ref_moves::check_commands(&repository, &push);
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
        Err(why) => ref_moves::refuse_others(&mut outcomes, || refusal(why, &push)),
        Ok(pack) => match access::still_pushable_repository(env, &request, project, &repository) {
            Ok(repository) => {
                ref_moves::check_commands_again(&repository, &push, &mut outcomes);
                if outcomes.iter().any(|(_, outcome)| outcome.is_ok()) {
                    pack.as_ref().map_or(Ok(0), |pack| packs::add(env, repository.id(), pack))?;
                    ref_moves::move_refs(env, &repository, &push, &mut outcomes)?;
                }
            }
            Err(error) if error.status.is_server_error() => return Err(error),
            // git shows the reason only if it is in the report.
            Err(error) => ref_moves::refuse_others(&mut outcomes, || ref_moves::refuse(refusal_text(&error))),
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
