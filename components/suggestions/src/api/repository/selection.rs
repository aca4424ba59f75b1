//! Which objects a client needs: its wants reach them, and its haves do not.

use super::fetch_request::{Deepening, FetchRefusal, FetchRequest, Filter};
use crate::git::{Commit, ObjectId, ObjectKind, Tree};
use crate::repository_id::RepositoryId;
use crate::store::history::{History, NewestFirst};
use crate::store::{objects, ref_names, refs};
use kit::Env;
use kit::store::StoreError;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::rc::Rc;

/// How the shallow boundary of the client's history changes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct ShallowUpdate {
    /// Commits that the client gets without their parents.
    pub shallow: BTreeSet<ObjectId>,
    /// Commits whose parents the client lacked and gets now.
    pub unshallow: BTreeSet<ObjectId>,
    /// The commits of the wanted part of the history.
    included: HashSet<ObjectId>,
}

/// How many of the client's trees are compared with a tree that is sent without its history.
const MAX_COMPARED: usize = 4;

/// The depth with which clients ask for the whole history, also where their wants do not lead (`--unshallow`).
const WHOLE_HISTORY: u32 = 0x7fff_ffff;

/// The part of the history that a request asks for; `None` if it asks for all of it. The inner error is for the client.
pub fn deepen(
    env: &Env,
    project: RepositoryId,
    history: &mut History,
    request: &FetchRequest,
) -> Result<Result<Option<ShallowUpdate>, FetchRefusal>, StoreError> {
    let deepening = &request.deepening;
    if !deepening.is_asked_for() {
        return Ok(Ok(None));
    }
    let excluded = match excluded_commits(env, project, history, deepening)? {
        Ok(excluded) => excluded,
        Err(refusal) => return Ok(Err(refusal)),
    };
    let mut update = ShallowUpdate::default();
    // The least distance of each commit that was visited.
    let mut distances: HashMap<ObjectId, u64> = HashMap::new();
    let limit = deepening.depth.map_or(u64::MAX, u64::from);
    let is_whole = deepening.depth == Some(WHOLE_HISTORY);
    let is_relative = deepening.is_relative && deepening.depth.is_some() && !is_whole;
    let mut queue = VecDeque::new();
    if is_relative {
        queue.extend(reached_shallow(env, project, history, request)?.into_iter().map(|id| (id, 0)));
    } else {
        queue.extend(wanted_commits(history, request)?.into_iter().map(|id| (id, 1)));
    }
    if is_whole {
        queue.extend(request.shallow.iter().map(|id| (*id, 0)));
    }
    while let Some((id, distance)) = queue.pop_front() {
        if distances.get(&id).is_some_and(|known| *known <= distance) {
            continue;
        }
        let Some(node) = history.commit(id)? else { continue };
        let is_old = deepening.since.is_some_and(|since| node.seconds < since);
        if distance > limit || is_old || excluded.contains(&id) {
            continue;
        }
        distances.insert(id, distance);
        queue.extend(node.parents.iter().map(|parent| (*parent, distance + 1)));
    }
    if distances.is_empty() && (deepening.since.is_some() || !deepening.not.is_empty()) {
        return Ok(Err("no commits selected for shallow requests".into()));
    }
    for id in distances.keys() {
        let Some(node) = history.commit(*id)? else { continue };
        let is_shallow = node.parents.iter().any(|parent| !distances.contains_key(parent));
        match (is_shallow, request.shallow.contains(id)) {
            (true, false) => drop(update.shallow.insert(*id)),
            (false, true) => drop(update.unshallow.insert(*id)),
            _ => {}
        }
    }
    if is_relative {
        // Other wants get their whole history, down to the client's shallow boundary.
        let is_end = |id: &ObjectId| {
            update.shallow.contains(id) || request.shallow.contains(id) && !update.unshallow.contains(id)
        };
        let mut pending = wanted_commits(history, request)?;
        pending.extend(distances.into_keys());
        update.included = walk(history, pending, is_end)?;
    } else {
        update.included = distances.into_keys().collect();
    }
    Ok(Ok(Some(update)))
}

fn wanted_commits(history: &mut History, request: &FetchRequest) -> Result<Vec<ObjectId>, StoreError> {
    let mut commits = Vec::new();
    for want in &request.wants {
        commits.extend(history.peel_named(*want)?.map(|peeled| peeled.target));
    }
    Ok(commits)
}

/// The client's shallow commits that the wants or the refs reach. As in git, the response is only about these. The refs
/// are read only if the wants do not reach all.
fn reached_shallow(
    env: &Env,
    project: RepositoryId,
    history: &mut History,
    request: &FetchRequest,
) -> Result<Vec<ObjectId>, StoreError> {
    // The client may have fetched from other repositories; nothing here reaches their shallow commits.
    let mut known = Vec::new();
    for id in &request.shallow {
        known.extend(history.commit(*id)?.map(|_| *id));
    }
    let mut unreached: HashSet<ObjectId> = known.iter().copied().collect();
    history.remove_reached(request.wants.iter().copied(), &mut unreached, |_, _| Ok(()))?;
    if !unreached.is_empty() {
        let mut tips = Vec::new();
        for name in &ref_names::read(env, project)?.names {
            tips.extend(refs::read(env, project, name)?.map(|value| value.commit));
        }
        history.remove_reached(tips, &mut unreached, |_, _| Ok(()))?;
    }
    known.retain(|id| !unreached.contains(id));
    Ok(known)
}

/// The commits that these reach; the parents of an end are not visited.
fn walk(
    history: &mut History,
    mut pending: Vec<ObjectId>,
    is_end: impl Fn(&ObjectId) -> bool,
) -> Result<HashSet<ObjectId>, StoreError> {
    let mut reached = HashSet::new();
    while let Some(id) = pending.pop() {
        if let Some(node) = history.commit(id)?
            && reached.insert(id)
            && !is_end(&id)
        {
            pending.extend(&node.parents);
        }
    }
    Ok(reached)
}

fn excluded_commits(
    env: &Env,
    project: RepositoryId,
    history: &mut History,
    deepening: &Deepening,
) -> Result<Result<HashSet<ObjectId>, FetchRefusal>, StoreError> {
    let mut queue = NewestFirst::default();
    for wanted in &deepening.not {
        let mut found = 0;
        for name in
            [wanted.strip_prefix("refs/").unwrap_or(wanted), &format!("heads/{wanted}"), &format!("tags/{wanted}")]
        {
            if let Some(value) = refs::read(env, project, name)?
                && let Some(peeled) = history.peel(value.commit)?
            {
                found += 1;
                queue.push(history, peeled.target)?;
            }
        }
        if found != 1 {
            return Ok(Err(format!("git upload-pack: ambiguous deepen-not: {wanted}")));
        }
    }
    let mut excluded = HashSet::new();
    while let Some((id, node)) = queue.pop() {
        excluded.insert(id);
        for parent in &node.parents {
            queue.push(history, *parent)?;
        }
    }
    Ok(Ok(excluded))
}

/// Selects objects.
pub struct Selection<'a> {
    env: &'a Env,
    project: RepositoryId,
    filter: Option<Filter>,
    /// In the order in which they are sent.
    pub objects: Vec<ObjectId>,
    /// The selected objects and the visited trees.
    seen: HashSet<ObjectId>,
}

impl<'a> Selection<'a> {
    pub fn new(env: &'a Env, project: RepositoryId, filter: Option<Filter>) -> Self {
        Selection { env, project, filter, objects: Vec::new(), seen: HashSet::new() }
    }

    /// Selects the objects that the request asks for. The repository has each want, or a ref names it. `common` are the
    /// haves that the repository has.
    pub fn select(
        &mut self,
        history: &mut History,
        request: &FetchRequest,
        common: &BTreeSet<ObjectId>,
        shallow: Option<&ShallowUpdate>,
    ) -> Result<(), StoreError> {
        let mut wanted = Vec::new();
        let mut others = Vec::new();
        for want in &request.wants {
            let Some(peeled) = history.peel_named(*want)? else { continue };
            peeled.tags.into_iter().filter(|tag| !common.contains(tag)).for_each(|tag| self.add(tag));
            match peeled.kind {
                ObjectKind::Commit => wanted.push(peeled.target),
                kind => others.push((peeled.target, kind)),
            }
        }
        let (commits, known) = select_commits(history, &wanted, common, &request.shallow, shallow)?;
        commits.iter().for_each(|(id, _)| self.add(*id));
        let mut compared = Vec::new();
        for id in common.iter().take(MAX_COMPARED) {
            compared.extend(history.commit(*id)?.map(|node| node.tree));
        }
        for (id, node) in &commits {
            let mut olds = Vec::new();
            if !common.is_empty() {
                for parent in &node.parents {
                    let is_there = known.contains(parent);
                    olds.extend(history.commit(*parent)?.filter(|_| is_there).map(|node| node.tree));
                }
                if shallow.is_some_and(|shallow| shallow.shallow.contains(id)) {
                    olds.extend_from_slice(&compared);
                }
            }
            self.add_tree(node.tree, olds, 0)?;
        }
        for (id, kind) in others {
            match kind {
                ObjectKind::Tree => self.add_tree(id, Vec::new(), 0)?,
                _ => self.add(id),
            }
        }
        // Also tags of trees and blobs.
        if request.include_tag {
            self.add_tags(history)?;
        }
        Ok(())
    }

    fn add(&mut self, id: ObjectId) {
        if self.seen.insert(id) {
            self.objects.push(id);
        }
    }

    /// Adds the tags whose target is sent.
    fn add_tags(&mut self, history: &History) -> Result<(), StoreError> {
        for name in ref_names::read(self.env, self.project)?.names.iter().filter(|name| name.starts_with("tags/")) {
            let Some(value) = refs::read(self.env, self.project, name)? else { continue };
            if let Some(peeled) = history.peel_ref(value.commit)?.filter(|peeled| self.seen.contains(&peeled.target)) {
                peeled.tags.into_iter().for_each(|tag| self.add(tag));
            }
        }
        Ok(())
    }

    /// Adds a tree and everything in it, except entries that one of the trees `olds` has at the same path.
    fn add_tree(&mut self, root: ObjectId, olds: Vec<ObjectId>, depth: u64) -> Result<(), StoreError> {
        let mut pending = vec![(root, olds, depth)];
        while let Some((id, olds, depth)) = pending.pop() {
            let is_filtered = matches!(self.filter, Some(Filter::TreeDepth(limit)) if depth >= limit);
            if is_filtered || olds.contains(&id) || !self.seen.insert(id) {
                continue;
            }
            self.objects.push(id);
            let tree = objects::read_tree(self.env, self.project, id)?;
            let old_trees: Vec<Tree> =
                olds.iter().map(|old| objects::read_tree(self.env, self.project, *old)).collect::<Result<_, _>>()?;
            let mut old_entries: BTreeMap<&[u8], Vec<ObjectId>> = BTreeMap::new();
            for entry in old_trees.iter().flat_map(|tree| tree.entries()) {
                old_entries.entry(entry.name()).or_default().push(entry.id);
            }
            for entry in tree.entries() {
                let olds = old_entries.remove(entry.name()).unwrap_or_default();
                if olds.contains(&entry.id) {
                    continue;
                }
                if entry.is_tree() {
                    let mut trees = Vec::new();
                    for old in olds {
                        let is_tree = objects::kind(self.env, self.project, old)? == Some(ObjectKind::Tree);
                        trees.extend(is_tree.then_some(old));
                    }
                    pending.push((entry.id, trees, depth + 1));
                } else if entry.is_blob() && self.wants_blob(entry.id, depth + 1)? {
                    self.add(entry.id);
                }
            }
        }
        Ok(())
    }

    fn wants_blob(&self, id: ObjectId, depth: u64) -> Result<bool, StoreError> {
        match self.filter {
            None => Ok(true),
            Some(Filter::NoBlobs) => Ok(false),
            Some(Filter::TreeDepth(limit)) => Ok(depth < limit),
            Some(Filter::SmallBlobs(0)) => Ok(false),
            Some(Filter::SmallBlobs(limit)) => objects::is_at_most(self.env, self.project, id, limit - 1),
        }
    }
}

type SelectedCommits = (Vec<(ObjectId, Rc<Commit>)>, HashSet<ObjectId>);

/// The commits to be sent, the newest first, and all visited commits that the client will have then.
fn select_commits(
    history: &mut History,
    wanted: &[ObjectId],
    common: &BTreeSet<ObjectId>,
    client_shallow: &BTreeSet<ObjectId>,
    shallow: Option<&ShallowUpdate>,
) -> Result<SelectedCommits, StoreError> {
    let mut queue = NewestFirst::default();
    // Commits that the client has.
    let mut had: HashSet<ObjectId> = HashSet::new();
    // Commits in the queue that the client is not known to have.
    let mut open: HashSet<ObjectId> = HashSet::new();
    let mut selected = Vec::new();
    for id in common {
        if let Some(peeled) = history.peel(*id)? {
            had.insert(peeled.target);
            queue.push(history, peeled.target)?;
        }
    }
    // The client's shallow commits whose parents are requested, and which were not visited yet.
    let mut ends: HashSet<ObjectId> = HashSet::new();
    for id in client_shallow.iter().filter(|id| shallow.is_some_and(|shallow| shallow.included.contains(*id))) {
        had.insert(*id);
        ends.insert(*id);
        queue.push(history, *id)?;
    }
    for id in wanted {
        if !had.contains(id) {
            open.insert(*id);
        }
        queue.push(history, *id)?;
    }
    let is_included = |id: &ObjectId| shallow.is_none_or(|shallow| shallow.included.contains(id));
    while let Some((id, node)) = queue.pop() {
        let is_had = had.contains(&id);
        open.remove(&id);
        ends.remove(&id);
        if !is_had && is_included(&id) {
            selected.push((id, node.clone()));
        }
        // The client lacks the parents of its shallow commits, and gets them only if it asks for more history.
        let is_end = client_shallow.contains(&id);
        for parent in node.parents.iter().filter(|_| !is_end || shallow.is_some()) {
            if is_had && !is_end {
                had.insert(*parent);
                open.remove(parent);
            } else if is_included(parent) && !had.contains(parent) {
                open.insert(*parent);
            } else if !is_included(parent) {
                continue;
            }
            queue.push(history, *parent)?;
        }
        if open.is_empty() && ends.is_empty() {
            break;
        }
    }
    // By its date, a parent may be newer than its child, so the walk may learn too late that the client has it.
    selected.retain(|(id, _)| !had.contains(id));
    let mut known = had;
    known.extend(selected.iter().map(|(id, _)| *id));
    Ok((selected, known))
}
