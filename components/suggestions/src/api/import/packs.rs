//! Import of packs, and which commits need not be sent.

use crate::api::access;
use crate::api::context::RequestContext;
use crate::git::ObjectId;
use crate::store::new_pack::{BadPack, PackError, PackOrigin, PackReceiver};
use crate::store::packs::{self, Packs};
use kit::{Body, Error, Response};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// The most ids that one request asks about.
const MAX_IDS: usize = 10_000;

/// The largest body with ids, in bytes.
const MAX_BODY: u64 = 1 << 20;

/// How many objects of a pack were imported.
#[derive(Serialize)]
struct PackImportReport {
    stored: usize,
    /// Objects that the repository had already.
    known: usize,
}

/// A request about commits, and its response.
#[derive(Serialize, Deserialize)]
struct CommitIds {
    ids: Vec<ObjectId>,
}

/// `POST /import/suggestions/:project/pack`. The body is a pack, which may be thin: the repository may have the bases
/// of its deltas. All of it becomes visible at once, or nothing if the body breaks off. 400 if it is no pack or lacks
/// an object that it needs: a client sends a history in parts, the oldest first. Unlike a push, it may have objects
/// with the faults of old programs.
pub async fn pack(context: &mut RequestContext, id: &str, mut body: Body) -> Result<Response, Error> {
    let (env, project) = (&context.env.clone(), access::importable_repository(context, id)?);
    let mut receiver = PackReceiver::new(env, project, PackOrigin::Import);
    while let Some(chunk) = body.next().await.transpose()? {
        receiver.feed(&chunk).map_err(refusal)?;
    }
    let mut report = PackImportReport { stored: 0, known: 0 };
    if let Some(pack) = receiver.finish(&BTreeSet::new()).map_err(refusal)? {
        access::still_importable(context, id, project)?;
        report.known = packs::add(env, project, &pack)?;
        report.stored = pack.ids.len() - report.known;
    }
    Ok(Response::ok(&report))
}

/// `POST /import/suggestions/:project/known`: which of the commits are in packs with everything that they reach.
pub async fn known(context: &mut RequestContext, id: &str, body: Body) -> Result<Response, Error> {
    let project = access::importable_repository(context, id)?;
    let body = body.collect(MAX_BODY).await?;
    access::still_importable(context, id, project)?;
    let asked: CommitIds =
        serde_json::from_slice(&body).map_err(|why| Error::validation(format!("the body is invalid: {why}")))?;
    if asked.ids.len() > MAX_IDS {
        return Err(Error::validation(format!("ids has more than {MAX_IDS} elements")));
    }
    let packs = Packs::load(&context.env, project)?;
    let self_contained = packs.list().packs.iter().take_while(|pack| pack.is_reachability_closed()).count();
    let mut known = CommitIds { ids: Vec::new() };
    for id in asked.ids {
        if packs.find(id)?.is_some_and(|location| location.pack < self_contained) {
            known.ids.push(id);
        }
    }
    Ok(Response::ok(&known))
}

fn refusal(error: PackError) -> Error {
    match error {
        PackError::Bad(why @ BadPack::LacksParent(_)) => Error::bad_request(&format!(
            "{why}: the history is cut off, as that of a shallow clone; `git fetch --unshallow` completes it"
        )),
        PackError::Bad(why) => Error::bad_request(&why.to_string()),
        PackError::Store(error) => error.into(),
    }
}
