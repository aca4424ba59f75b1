//! Merge requests, by project and iid, and the list of those that a project has.

use super::key::Key;
use super::record::{MergeRequestListRecord, MergeRequestRecord};
use crate::merge_request::MergeRequest;
use crate::repository_id::RepositoryId;
use directory::project::ProjectKey;
use kit::Env;
use kit::root::{self, Decision};
use kit::store::StoreError;

/// Builds without lists numbered merge requests as they were imported. The list of a project without one is
/// made by reading iids from 1 on, until so many in a row do not exist.
const LONGEST_GAP: u64 = 200;

/// Ids of merge requests that are made here begin above those that are imported.
const FIRST_ID: u64 = 1 << 40;

/// The merge request with this iid in a project. 1 read.
pub fn read(env: &Env, project: &ProjectKey, iid: u64) -> Result<Option<MergeRequest>, StoreError> {
    let key = Key::MergeRequest(project, iid).to_string();
    let record = root::read::<Option<MergeRequestRecord>>(&*env.store, &key)?.flatten();
    Ok(record.map(MergeRequest::from))
}

/// Creates or replaces a merge request; `None` deletes it.
pub fn save(env: &Env, project: &ProjectKey, iid: u64, new: Option<&MergeRequest>) -> Result<(), StoreError> {
    update(env, project, iid, |_| Ok::<_, StoreError>(Some((new.cloned(), ()))))?;
    Ok(())
}

/// Changes a merge request with `decide`, which gets the present one and returns the new one and a result;
/// `None` changes nothing.
pub fn update<T, E: From<StoreError>>(
    env: &Env,
    project: &ProjectKey,
    iid: u64,
    mut decide: impl FnMut(Option<MergeRequest>) -> Result<Option<(Option<MergeRequest>, T)>, E>,
) -> Result<Option<T>, E> {
    let key = Key::MergeRequest(project, iid).to_string();
    let (mut written, mut was_open) = (None, false);
    let result = root::update(env, &key, |current: Option<Option<MergeRequestRecord>>| {
        let current = current.flatten();
        was_open = current.clone().map(MergeRequest::from).is_some_and(|current| current.is_open());
        let Some((new, result)) = decide(current.clone().map(MergeRequest::from))? else {
            return Ok::<_, E>(Decision::Done(None));
        };
        if let Some(new) = &new {
            add_to_list(env, project, iid, new)?;
        }
        let record = new.as_ref().map(MergeRequestRecord::from);
        written = Some(new);
        Ok(if current == record { Decision::Done(Some(result)) } else { Decision::Write(record, Some(result)) })
    })?;
    match written {
        Some(None) => change_list(env, project, |list| {
            list.iids.remove(&iid);
            list.open.remove(&iid);
        })?,
        Some(Some(new)) if !new.is_open() => {
            change_list(env, project, |list| drop(list.open.remove(&iid)))?;
            let key = Key::MergeRequests(project).to_string();
            list_again(env, project, iid, &key)?;
        }
        Some(Some(_)) if !was_open => list_again(env, project, iid, &key)?,
        _ => {}
    }
    Ok(result)
}

/// Adds an open merge request to the list once more, of which the record, or the list, was written under `key`: another
/// writer may have closed it and removed it from the list meanwhile, or opened it again. Each of the two waits until others
/// see what it has written, and then looks. 2 reads, and 1 for the list of an open one.
fn list_again(env: &Env, project: &ProjectKey, iid: u64, key: &str) -> Result<(), StoreError> {
    env.store.exists(key)?;
    match read(env, project, iid)? {
        Some(present) if present.is_open() => add_to_list(env, project, iid, &present),
        _ => Ok(()),
    }
}

/// Adds a merge request to its project's list, before its record is written.
fn add_to_list(env: &Env, project: &ProjectKey, iid: u64, new: &MergeRequest) -> Result<(), StoreError> {
    change_list(env, project, |list| {
        list.iids.insert(iid);
        if new.is_open() {
            list.open.insert(iid, new.into());
        }
    })
}

fn change_list(
    env: &Env,
    project: &ProjectKey,
    change: impl Fn(&mut MergeRequestListRecord),
) -> Result<(), StoreError> {
    root::update(env, &Key::MergeRequests(project).to_string(), |current: Option<MergeRequestListRecord>| {
        let mut list = current.clone().map_or_else(|| find_unlisted(env, project), Ok)?;
        change(&mut list);
        Ok(if current.as_ref() == Some(&list) { Decision::Done(()) } else { Decision::Write(list, ()) })
    })
}

/// The list of a project that has none yet.
fn find_unlisted(env: &Env, project: &ProjectKey) -> Result<MergeRequestListRecord, StoreError> {
    let mut list = MergeRequestListRecord::default();
    let (mut iid, mut last) = (1, 0);
    while iid - last <= LONGEST_GAP {
        if let Some(found) = read(env, project, iid)? {
            last = iid;
            list.iids.insert(iid);
            if found.is_open() {
                list.open.insert(iid, (&found).into());
            }
        }
        iid += 1;
    }
    Ok(list)
}

/// A project's merge requests.
#[derive(Debug, Default)]
pub struct MergeRequestList {
    /// In their order. Some may not exist.
    pub iids: Vec<u64>,
    /// Those that may be open.
    pub open: Vec<ListedBranches>,
}

/// A merge request that may be open, with its branches.
#[derive(Debug)]
pub struct ListedBranches {
    pub iid: u64,
    pub source: Option<RepositoryId>,
    pub source_branch: String,
    pub target_branch: String,
}

/// The merge requests of a project. 1 read; the first time for a project, the list is made.
pub fn list(env: &Env, project: &ProjectKey) -> Result<MergeRequestList, StoreError> {
    if let Some(list) = read_list(env, project)? {
        return Ok(list);
    }
    change_list(env, project, |_| ())?;
    Ok(read_list(env, project)?.unwrap_or_default())
}

/// The same, of a project that likely has none: without a list, it is made only if there is a first merge request.
/// 1 read, or 2.
pub fn list_if_any(env: &Env, project: &ProjectKey) -> Result<MergeRequestList, StoreError> {
    match read_list(env, project)? {
        Some(list) => Ok(list),
        None if read(env, project, 1)?.is_some() => list(env, project),
        None => Ok(MergeRequestList::default()),
    }
}

fn read_list(env: &Env, project: &ProjectKey) -> Result<Option<MergeRequestList>, StoreError> {
    let key = Key::MergeRequests(project).to_string();
    let Some(record) = root::read::<MergeRequestListRecord>(&*env.store, &key)? else { return Ok(None) };
    let open = record.open.into_iter().map(|(iid, branches)| ListedBranches {
        iid,
        source: branches.source(),
        source_branch: branches.source_branch,
        target_branch: branches.target_branch,
    });
    Ok(Some(MergeRequestList { iids: record.iids.into_iter().collect(), open: open.collect() }))
}

/// Allocates the next iid of a project. A request gets the same one again.
pub fn allocate_iid(env: &Env, project: &ProjectKey, operation: &str) -> Result<u64, StoreError> {
    root::update(env, &Key::MergeRequests(project).to_string(), |current: Option<MergeRequestListRecord>| {
        let mut list = current.map_or_else(|| find_unlisted(env, project), Ok)?;
        if let Some((by, iid)) = &list.allocated
            && by == operation
        {
            return Ok::<_, StoreError>(Decision::Done(*iid));
        }
        let iid = list.iids.last().copied().unwrap_or_default().max(list.allocated.map_or(0, |(_, iid)| iid)) + 1;
        list.allocated = Some((operation.to_owned(), iid));
        Ok(Decision::Write(list, iid))
    })
}

/// Allocates an id for a merge request.
pub fn allocate_id(env: &Env) -> Result<u64, StoreError> {
    let key = Key::MergeRequestCounter.to_string();
    let number = u64::try_from(env.store.increment(&key, 1)?).map_err(|why| StoreError::corrupt(&key, why))?;
    Ok(FIRST_ID + number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge_request::MergeRequestState;
    use kit::testing::{Behaviour, Simulation};
    use std::time::Duration;

    fn opened() -> MergeRequest {
        MergeRequest {
            id: 1,
            state: MergeRequestState::Opened,
            source: None,
            source_branch: "topic".into(),
            target_branch: "main".into(),
            title: "T".into(),
            description: None,
            author_id: Some(1),
            allow_collaboration: false,
            created: None,
            updated: None,
            ended: None,
            sha: None,
            merged_into: None,
        }
    }

    #[test]
    fn an_open_merge_request_is_listed_whoever_closed_it_meanwhile() {
        let mut open = 0;
        for seed in 0..400 {
            let seen_after = seed % 2 * 5_000;
            let behaviour = Behaviour { read: 100..3_000, write: 500..4_000, seen_after, stalls: 50, stall: 20_000 };
            let (store, project) = (Simulation::new(seed, behaviour), ProjectKey::parse("7").unwrap());
            let env = store.env(0);
            save(&env, &project, 1, Some(&opened())).unwrap();
            env.clock.sleep(Duration::from_millis(10));
            let set = |events: &'static [bool]| {
                let project = project.clone();
                move |env: Env| {
                    for is_open in events {
                        let changed = update(&env, &project, 1, |current| {
                            let mut new = current.unwrap_or_else(opened);
                            new.set_open(*is_open, env.now, 1);
                            Ok::<_, StoreError>(Some((Some(new), ())))
                        });
                        changed.unwrap();
                    }
                }
            };
            store.run(vec![set(&[false]), set(&[false, true]), set(&[false, true])]);
            env.clock.sleep(Duration::from_millis(10));
            let is_open = read(&env, &project, 1).unwrap().is_some_and(|merge_request| merge_request.is_open());
            let is_listed = !list(&env, &project).unwrap().open.is_empty();
            assert!(is_listed || !is_open, "seed {seed}");
            open += usize::from(is_open);
        }
        assert!(open > 50, "{open}");
    }
}
