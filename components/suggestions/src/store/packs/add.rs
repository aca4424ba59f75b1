//! Adding a pack to a repository's list.

use super::index::PackIndex;
use super::join;
use super::read::Packs;
use super::tips;
use crate::git::ObjectId;
use crate::repository_id::RepositoryId;
use crate::store::key::Key;
use crate::store::record::{PackListRecord, PackRecord};
use kit::Env;
use kit::gc;
use kit::root::{self, Decision};
use kit::store::StoreError;
use std::collections::BTreeSet;
use std::rc::Rc;

/// A pack whose blobs and index are written.
pub struct NewPack {
    pub record: PackRecord,
    /// The ids of its objects, sorted.
    pub ids: Vec<ObjectId>,
    /// The record's `is_self_contained` holds only if the earlier packs have these commits and are all self-contained.
    /// Without such commits, it holds in any list.
    pub self_contained_with: Vec<ObjectId>,
}

/// The list names the objects of a pack that has at most so many. A writer that lost the swap to such a pack searches
/// the list without a read, which would wait until that pack is durable.
const MAX_NAMED: usize = 16;

/// Lists a pack, which makes its objects readable, and joins small packs if there are many. Returns how many of its
/// objects are in earlier packs; if all of them are, the pack is left out.
///
/// The packs are joined before the swap, which lists the joined one: a read of the list after the swap waits for a
/// flush. If another writer was first, the pack is listed as it is.
pub fn add(env: &Env, project: RepositoryId, pack: &NewPack) -> Result<usize, StoreError> {
    let key = Key::Packs(project).to_string();
    let mut known = KnownObjects { env, project, searched: BTreeSet::new(), found: BTreeSet::new() };
    let mut is_first = true;
    // The joined pack that has these objects in the first attempt's swap.
    let mut joined: Option<String> = None;
    let (known, unjoined) = root::update(env, &key, |list: Option<PackListRecord>| {
        let mut list = list.unwrap_or_default();
        if list.packs.iter().any(|listed| listed.id == pack.record.id || Some(&listed.id) == joined.as_ref()) {
            return Ok(Decision::Keep((known.found.len(), None)));
        }
        if gc::is_too_late(env) {
            return Err(StoreError::TooLate);
        }
        let known = known.count(&list, &pack.ids)?;
        if known == pack.ids.len() {
            return Ok(Decision::Keep((known, None)));
        }
        let mut record = pack.record.clone();
        record.has_copies |= known > 0;
        record.is_self_contained =
            record.is_self_contained && is_self_contained_with(env, project, &list, &pack.self_contained_with)?;
        tips::spill_tips(env, &mut record)?;
        if pack.ids.len() <= MAX_NAMED {
            record.ids.clone_from(&pack.ids);
        }
        list.packs.push(record);
        if !std::mem::take(&mut is_first) {
            return Ok(Decision::Replace(list.clone(), (known, Some(list))));
        }
        match join::with_joined(env, project, &list) {
            Ok(Some((shorter, id))) => {
                joined = Some(id);
                list = shorter;
            }
            Ok(None) => {}
            Err(error) => log_unjoined(project, &error),
        }
        Ok(Decision::Replace(list, (known, None)))
    })?;
    if let Some(list) = unjoined
        && let Err(error) = join::join_small(env, project, list)
    {
        log_unjoined(project, &error);
    }
    Ok(known)
}

/// The pack is listed nevertheless, so the request goes on; a later request joins the packs.
fn log_unjoined(project: RepositoryId, error: &StoreError) {
    eprintln!("the small packs of repository {project} are not joined: {error}");
}

fn is_self_contained_with(
    env: &Env,
    project: RepositoryId,
    list: &PackListRecord,
    commits: &[ObjectId],
) -> Result<bool, StoreError> {
    if commits.is_empty() {
        return Ok(true);
    }
    if !list.packs.iter().all(PackRecord::is_reachability_closed) {
        return Ok(false);
    }
    let packs = Packs::over(env, project, Rc::new(list.clone()));
    for commit in commits {
        if packs.find(*commit)?.is_none() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// The objects of a pack that were found in listed packs. Each listed pack is searched once.
struct KnownObjects<'a> {
    env: &'a Env,
    project: RepositoryId,
    searched: BTreeSet<String>,
    found: BTreeSet<ObjectId>,
}

impl KnownObjects<'_> {
    fn count(&mut self, list: &PackListRecord, ids: &[ObjectId]) -> Result<usize, StoreError> {
        for pack in &list.packs {
            if !self.searched.insert(pack.id.clone()) {
                continue;
            }
            let index = PackIndex::new(self.env, self.project, pack);
            let possible = ids.iter().copied().filter(|id| pack.may_have(*id));
            self.found.extend(index.find_all(possible)?.into_iter().map(|entry| entry.id));
        }
        Ok(self.found.len())
    }
}
