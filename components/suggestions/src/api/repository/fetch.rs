//! `git fetch` and `git clone`: acknowledgements of the client's haves, and a pack of the objects that it lacks.

use super::fetch_request::{self, Command, FetchRefusal, FetchRequest, MultiAck};
use super::pack_stream::{Contents, PackStream, in_side_band, write_band};
use super::ref_list::{self, RefList};
use super::selection::{self, Selection, ShallowUpdate};
use crate::git::{ObjectId, ObjectKind, pktline};
use crate::repository_id::RepositoryId;
use crate::store::history::History;
use crate::store::objects;
use crate::store::packs::{self, PackListRecord, Packs};
use bytes::Bytes;
use directory::project::Project;
use kit::body::Chunk;
use kit::store::StoreError;
use kit::{Body, Env};
use std::collections::{BTreeSet, HashSet};
use std::rc::Rc;

/// Whether a request of version 2 asks for the list of branches and tags.
pub fn lists_refs(body: &[u8]) -> bool {
    matches!(fetch_request::parse_v2(body), Ok(Some(Command::List(_))))
}

/// Answers a command of version 2.
pub fn answer_v2(env: &Env, project: &Project, body: &[u8]) -> Result<Result<Body, FetchRefusal>, StoreError> {
    let fetch = match fetch_request::parse_v2(body) {
        Err(refusal) => return Ok(Err(refusal)),
        Ok(None) => return Ok(Ok(Body::Empty)),
        Ok(Some(Command::List(list))) => {
            let refs = RefList::read(env, project)?;
            return Ok(Ok(ref_list::list_v2(env, RepositoryId::of(project), &refs, &list)?.into()));
        }
        Ok(Some(Command::Fetch(fetch))) => fetch,
    };
    let repository = RepositoryId::of(project);
    for want in &fetch.wants {
        if objects::kind(env, repository, *want)?.is_none() {
            let refs = RefList::read(env, project)?.refs;
            return match refs.iter().any(|(_, id)| id == want) {
                true => Err(objects::missing(repository, *want)),
                false => Ok(Err(format!("upload-pack: not our ref {want}"))),
            };
        }
    }
    let project = repository;
    let mut out = Vec::new();
    let common = common(env, project, &fetch)?;
    if !fetch.done {
        pktline::write_text(&mut out, "acknowledgments\n");
        if common.is_empty() {
            pktline::write_text(&mut out, "NAK\n");
        }
        for id in fetch.haves.iter().flatten().filter(|id| common.contains(id)) {
            pktline::write_text(&mut out, &format!("ACK {id}\n"));
        }
        // One common commit is enough: the client has sent its newest ones.
        if common.is_empty() {
            pktline::write_flush(&mut out);
            return Ok(Ok(out.into()));
        }
        pktline::write_text(&mut out, "ready\n");
        pktline::write_delimiter(&mut out);
    }
    let mut history = History::new(env, &[project]);
    let shallow = match selection::deepen(env, project, &mut history, &fetch)? {
        Ok(shallow) => shallow,
        Err(refusal) => return Ok(Err(refusal)),
    };
    if let Some(shallow) = &shallow {
        pktline::write_text(&mut out, "shallow-info\n");
        write_shallow(&mut out, shallow);
        pktline::write_delimiter(&mut out);
    }
    pktline::write_text(&mut out, "packfile\n");
    let pack = pack(env, project, &mut history, &fetch, &common, shallow.as_ref())?;
    Ok(Ok(stream(out, pack, &fetch)))
}

/// Answers a request of version 0.
pub fn answer_v0(env: &Env, project: &Project, body: &[u8]) -> Result<Result<Body, FetchRefusal>, StoreError> {
    let fetch = match fetch_request::parse_v0(body) {
        Err(refusal) => return Ok(Err(refusal)),
        Ok(None) => return Ok(Ok(Body::Empty)),
        Ok(Some(fetch)) => fetch,
    };
    let mut history = History::new(env, &[RepositoryId::of(project)]);
    if let Some(want) = unreachable_want(env, project, &mut history, &fetch)? {
        return Ok(Err(format!("upload-pack: not our ref {want}")));
    }
    let project = RepositoryId::of(project);
    let mut out = Vec::new();
    let shallow = match selection::deepen(env, project, &mut history, &fetch)? {
        Ok(shallow) => shallow,
        Err(refusal) => return Ok(Err(refusal)),
    };
    if let Some(shallow) = &shallow {
        write_shallow(&mut out, shallow);
        pktline::write_flush(&mut out);
    }
    let common = common(env, project, &fetch)?;
    acknowledge_v0(&mut out, &fetch, &common);
    if !fetch.done {
        return Ok(Ok(out.into()));
    }
    let pack = pack(env, project, &mut history, &fetch, &common, shallow.as_ref())?;
    Ok(Ok(stream(out, pack, &fetch)))
}

/// A want that is missing, or a commit or tag that no ref reaches. Trees and blobs are sent without that check: clients
/// of a partial clone ask for them by their ids, which cannot be guessed.
fn unreachable_want(
    env: &Env,
    project: &Project,
    history: &mut History,
    fetch: &FetchRequest,
) -> Result<Option<ObjectId>, StoreError> {
    let refs = RefList::read(env, project)?;
    let mut unlisted: HashSet<ObjectId> = fetch.wants.iter().copied().collect();
    for (_, id) in &refs.refs {
        unlisted.remove(id);
    }
    let repository = RepositoryId::of(project);
    let mut unreached = HashSet::new();
    for id in unlisted {
        if !matches!(objects::kind(env, repository, id)?, Some(ObjectKind::Tree | ObjectKind::Blob)) {
            unreached.insert(id);
        }
    }
    if unreached.is_empty() {
        return Ok(None);
    }
    history.remove_reached(refs.refs.iter().map(|(_, id)| *id), &mut unreached, |_, _| Ok(()))?;
    Ok(fetch.wants.iter().copied().find(|want| unreached.contains(want)))
}

/// How many haves that are in no pack are searched among the loose objects, the newest first. A client may name a
/// thousand and more commits that the repository lacks.
const MAX_LOOSE_HAVES: usize = 256;

/// The client's haves that are commits or tags of the repository.
fn common(env: &Env, project: RepositoryId, fetch: &FetchRequest) -> Result<BTreeSet<ObjectId>, StoreError> {
    let is_common = |kind| matches!(kind, ObjectKind::Commit | ObjectKind::Tag);
    let mut unknown: BTreeSet<ObjectId> = fetch.haves.iter().flatten().copied().collect();
    if unknown.is_empty() {
        return Ok(unknown);
    }
    let mut common = BTreeSet::new();
    for (id, location) in Packs::load(env, project)?.find_all(&unknown)? {
        unknown.remove(&id);
        if is_common(location.entry.kind) {
            common.insert(id);
        }
    }
    let mut left = MAX_LOOSE_HAVES;
    for id in fetch.haves.iter().flatten() {
        if left > 0 && unknown.remove(id) {
            left -= 1;
            if objects::loose_kind(env, project, *id)?.is_some_and(is_common) {
                common.insert(*id);
            }
        }
    }
    Ok(common)
}

/// Acknowledges haves as `git upload-pack --stateless-rpc` does.
fn acknowledge_v0(out: &mut Vec<u8>, fetch: &FetchRequest, common: &BTreeSet<ObjectId>) {
    let mut last: Option<ObjectId> = None;
    let (continued, ready) = match fetch.multi_ack {
        MultiAck::Detailed => (Some(" common"), Some(" ready")),
        MultiAck::Continue => (Some(" continue"), Some(" continue")),
        MultiAck::None => (None, None),
    };
    for have in &fetch.haves {
        let ack = match have {
            Some(id) if common.contains(id) => {
                let is_first = last.replace(*id).is_none();
                Some(*id).zip(continued.or(is_first.then_some("")))
            }
            // With a common commit, the pack can be made, so the client need not look further.
            Some(id) => last.and(Some(*id)).zip(ready),
            None => last.filter(|_| fetch.multi_ack == MultiAck::Detailed).zip(ready),
        };
        if let Some((id, more)) = ack {
            pktline::write_text(out, &format!("ACK {id}{more}\n"));
        }
        if have.is_none() && (last.is_none() || fetch.multi_ack != MultiAck::None) {
            pktline::write_text(out, "NAK\n");
        }
    }
    if fetch.done {
        match last {
            Some(id) if fetch.multi_ack != MultiAck::None => pktline::write_text(out, &format!("ACK {id}\n")),
            Some(_) => {}
            None => pktline::write_text(out, "NAK\n"),
        }
    }
}

/// The lines have no line feed, as git writes them: libgit2 refuses one.
fn write_shallow(out: &mut Vec<u8>, update: &ShallowUpdate) {
    for id in &update.shallow {
        pktline::write_text(out, &format!("shallow {id}"));
    }
    for id in &update.unshallow {
        pktline::write_text(out, &format!("unshallow {id}"));
    }
}

fn pack(
    env: &Env,
    project: RepositoryId,
    history: &mut History,
    fetch: &FetchRequest,
    common: &BTreeSet<ObjectId>,
    shallow: Option<&ShallowUpdate>,
) -> Result<PackStream, StoreError> {
    let list = Packs::load(env, project)?.list().clone();
    let is_everything = common.is_empty() && shallow.is_none() && fetch.shallow.is_empty() && fetch.filter.is_none();
    if is_everything && packs_match_wants(env, project, &list, &fetch.wants)? {
        return PackStream::new(env, project, list, Contents::WholePacks);
    }
    let mut selection = Selection::new(env, project, fetch.filter);
    selection.select(history, fetch, common, shallow)?;
    PackStream::new(env, project, list, Contents::Objects(selection.objects))
}

/// Whether the packs have exactly the objects that the wants reach.
fn packs_match_wants(
    env: &Env,
    project: RepositoryId,
    list: &Rc<PackListRecord>,
    wants: &[ObjectId],
) -> Result<bool, StoreError> {
    let packs = Packs::over(env, project, list.clone());
    for want in wants {
        if packs.find(*want)?.is_none() {
            return Ok(false);
        }
    }
    let Some([tips, _]) = packs::tips_of_all(env, project, &list.packs)? else { return Ok(false) };
    let has_objects = list.packs.iter().map(|pack| u64::from(pack.objects)).sum::<u64>();
    let has_copies = list.packs.iter().any(|pack| pack.has_copies);
    let wants: BTreeSet<ObjectId> = wants.iter().copied().collect();
    Ok(!has_copies && has_objects > 0 && u32::try_from(has_objects).is_ok() && tips.is_subset(&wants))
}

/// The body: `head`, then the pack.
fn stream(head: Vec<u8>, pack: PackStream, fetch: &FetchRequest) -> Body {
    let Some(size) = fetch.side_band else {
        return Body::pull(std::iter::once::<Chunk>(Ok(head.into())).chain(pack));
    };
    let mut head = head;
    let mut end = Vec::new();
    if !fetch.no_progress {
        write_band(&mut head, 2, format!("Enumerating objects: {}, done.\n", pack.total()).as_bytes());
        write_band(&mut end, 2, format!("Total {} objects\n", pack.total()).as_bytes());
    }
    pktline::write_flush(&mut end);
    let mut failed = false;
    // A body that breaks off must not look complete.
    let whole = std::iter::once::<Chunk>(Ok(head.into())).chain(in_side_band(pack, size)).chain([Ok(Bytes::from(end))]);
    Body::pull(whole.map_while(move |chunk| {
        let is_first_failure = chunk.is_err() && !failed;
        let is_over = failed;
        failed |= is_first_failure;
        (!is_over).then_some(chunk)
    }))
}
