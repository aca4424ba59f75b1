//! Merge requests, by project and iid, and the list of those that a project has.

mod claims;
mod list;
mod stored;

use super::key::Key;
use super::record::{BranchesRecord, MergeRequestRecord};
use crate::merge_request::MergeRequest;
pub use claims::BranchesTaken;
use claims::NewClaim;
use directory::project::ProjectKey;
use kit::Env;
use kit::root::{self, Decision};
use kit::store::StoreError;
pub use list::{ListedBranches, list, list_if_any};
pub use stored::read;

/// Ids of merge requests that are made here begin above those that are imported.
const FIRST_ID: u64 = 1 << 40;

/// How often a request claims branches for a new merge request. It claims them again if it was taken for dead by another
/// request, which then died itself.
const MAX_CLAIMS: usize = 5;

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
    decide: impl FnMut(Option<MergeRequest>) -> Result<Option<(Option<MergeRequest>, T)>, E>,
) -> Result<Option<T>, E> {
    // What is not exclusive is never taken.
    Ok(change(env, project, iid, false, decide)?.unwrap_or_default())
}

/// The same, unless the merge request would be opened, or an open one get branches, while another one with these branches
/// is open.
pub fn update_exclusively<T, E: From<StoreError>>(
    env: &Env,
    project: &ProjectKey,
    iid: u64,
    decide: impl FnMut(Option<MergeRequest>) -> Result<Option<(Option<MergeRequest>, T)>, E>,
) -> Result<Result<Option<T>, BranchesTaken>, E> {
    change(env, project, iid, true, decide)
}

/// What was decided about a merge request, and is written next.
struct Change {
    /// Whether there was none before.
    was_missing: bool,
    is_there: bool,
    is_open: bool,
    /// The claim of its branches.
    claim: String,
    /// Whether it is listed with those that it had, too.
    gets_other_branches: bool,
}

fn change<T, E: From<StoreError>>(
    env: &Env,
    project: &ProjectKey,
    iid: u64,
    is_exclusive: bool,
    mut decide: impl FnMut(Option<MergeRequest>) -> Result<Option<(Option<MergeRequest>, T)>, E>,
) -> Result<Result<Option<T>, BranchesTaken>, E> {
    let key = Key::MergeRequest(project, iid).to_string();
    let mut written = None;
    // Of all attempts: a swap that was reported as lost may have taken place.
    let (mut was_missing, mut gets_other_branches) = (false, false);
    let result = root::update(env, &key, |current: Option<Option<MergeRequestRecord>>| {
        written = None;
        let was_ever = current.is_some();
        let current = current.flatten();
        let present = current.clone().map(MergeRequest::from);
        let held = present.as_ref().filter(|present| present.is_open()).map(MergeRequest::branches);
        let Some((new, result)) = decide(present)? else { return Ok::<_, E>(Decision::Done(Ok(None))) };
        let mut claim = current.as_ref().map(|record| record.claim.clone()).unwrap_or_default();
        let wanted = new.as_ref().filter(|new| new.is_open()).map(MergeRequest::branches);
        was_missing |= current.is_none();
        gets_other_branches |= held.is_some() && wanted.is_some() && wanted != held;
        match &wanted {
            Some(branches) if wanted != held => {
                claim = env.id();
                let (branches, present) = (branches.clone(), held);
                let new = NewClaim { iid: Some(iid), id: &claim, branches, present, is_exclusive };
                if let Err(taken) = claims::claim(env, project, &new)? {
                    return Ok(Decision::Done(Err(taken)));
                }
            }
            _ => add_to_list(env, project, iid, new.as_ref(), &claim)?,
        }
        let record = new.as_ref().map(|new| MergeRequestRecord::from(new).with_claim(&claim));
        // What was never there is not taken out of the list, which it may be in because a request is making it.
        written = (was_ever || record.is_some()).then(|| Change {
            was_missing,
            is_there: record.is_some(),
            is_open: wanted.is_some(),
            claim,
            gets_other_branches,
        });
        Ok(if current == record { Decision::Done(Ok(Some(result))) } else { Decision::Write(record, Ok(Some(result))) })
    })?;
    if let Some(change) = written {
        complete(env, project, iid, &change)?;
    }
    Ok(result)
}

/// Brings the list into line with a merge request's record when that is written.
fn complete(env: &Env, project: &ProjectKey, iid: u64, change: &Change) -> Result<(), StoreError> {
    if !change.is_there {
        // Only an import brings back what was deleted, and lists it again.
        list::change(env, project, |list| {
            list.iids.remove(&iid);
            list.open.remove(&iid);
        })?;
    } else if !change.is_open {
        claims::release(env, project, iid, &change.claim)?;
    } else if change.gets_other_branches {
        claims::settle(env, project, iid, &change.claim)?;
    }
    let key = match (change.is_there, change.was_missing) {
        (false, _) => Key::MergeRequests(project).to_string(),
        (true, true) => Key::MergeRequest(project, iid).to_string(),
        (true, false) => return Ok(()),
    };
    list_again(env, project, iid, &key)
}

/// Adds a merge request to the list once more, of which the record, or the list, was written under `key`: another writer may
/// have deleted it and removed it from the list meanwhile, or imported it again. Each of the two waits until others see what
/// it has written, and then looks. 2 reads, and 1 for the list of one that is there.
fn list_again(env: &Env, project: &ProjectKey, iid: u64, key: &str) -> Result<(), StoreError> {
    env.store.exists(key)?;
    match stored::read_with_claim(env, project, iid)? {
        Some((present, claim)) => add_to_list(env, project, iid, Some(&present), &claim),
        None => Ok(()),
    }
}

/// Adds a merge request to its project's list, before its record is written. Its branches are those that it has claimed
/// before.
fn add_to_list(
    env: &Env,
    project: &ProjectKey,
    iid: u64,
    merge_request: Option<&MergeRequest>,
    claim: &str,
) -> Result<(), StoreError> {
    let Some(merge_request) = merge_request else { return Ok(()) };
    list::change(env, project, |list| {
        list.iids.insert(iid);
        if merge_request.is_open() {
            list.open.entry(iid).or_insert_with(|| BranchesRecord::new(&merge_request.branches(), claim));
        }
    })
}

/// Makes an open merge request, unless another one with its branches is open. Its id, and its iid, which is returned, are
/// allocated.
pub fn create(
    env: &Env,
    project: &ProjectKey,
    new: &mut MergeRequest,
) -> Result<Result<u64, BranchesTaken>, StoreError> {
    let mut id = None;
    for _ in 0..MAX_CLAIMS {
        let (claim, branches) = (env.id(), new.branches());
        let wanted = NewClaim { iid: None, id: &claim, branches: branches.clone(), present: None, is_exclusive: true };
        let iid = match claims::claim(env, project, &wanted)? {
            Ok(iid) => iid,
            Err(taken) => return Ok(Err(taken)),
        };
        new.id = id.map_or_else(|| allocate_id(env), Ok)?;
        id = Some(new.id);
        let record = MergeRequestRecord::from(&*new).with_claim(&claim);
        let key = Key::MergeRequest(project, iid).to_string();
        let is_made = root::update(env, &key, |current: Option<Option<MergeRequestRecord>>| {
            Ok::<_, StoreError>(match current {
                None => Decision::Write(Some(record.clone()), true),
                // Its own, which may have been changed since; or one that was imported with this iid.
                Some(Some(present)) => Decision::Done(MergeRequest::from(present).id == new.id),
                Some(None) => Decision::Done(false),
            })
        })?;
        if is_made {
            return Ok(Ok(iid));
        }
        if let Some(taken) = claims::find_rival(env, project, iid, &branches)? {
            return Ok(Err(taken));
        }
    }
    Err(StoreError::Contended(Key::MergeRequests(project).to_string()))
}

/// Allocates an id for a merge request.
fn allocate_id(env: &Env) -> Result<u64, StoreError> {
    let key = Key::MergeRequestCounter.to_string();
    let number = u64::try_from(env.store.increment(&key, 1)?).map_err(|why| StoreError::corrupt(&key, why))?;
    Ok(FIRST_ID + number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::merge_request::MergeRequestState;
    use directory::user::UserKey;
    use kit::testing::{Behaviour, LostReplyStore, MemoryStore, Simulation, SwapReply};
    use list::MergeRequestList;
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
            author: Some(UserKey::first(1)),
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
                            new.set_open(*is_open, env.now, &UserKey::first(1));
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

    /// A request that gives merge request 1 another target dies between the list and the record.
    #[test]
    fn a_merge_request_keeps_its_branches_until_it_has_others() {
        let (store, project) = (MemoryStore::default(), ProjectKey::parse("7").unwrap());
        let env = kit::testing::env(store, &[]);
        let into = |target_branch: &str| MergeRequest { target_branch: target_branch.into(), ..opened() };
        assert_eq!(create(&env, &project, &mut into("main")).unwrap().unwrap(), 1);
        let claim = NewClaim {
            iid: Some(1),
            id: "dead",
            branches: into("other").branches(),
            present: Some(into("main").branches()),
            is_exclusive: true,
        };
        assert_eq!(claims::claim(&env, &project, &claim).unwrap().unwrap(), 1);
        let listed = |env: &Env| -> Vec<(u64, String)> {
            let open = list(env, &project).unwrap().open;
            open.into_iter().map(|listed| (listed.iid, listed.branches.target_branch)).collect()
        };
        assert_eq!(listed(&env), [(1, "other".into()), (1, "main".into())]);
        assert_eq!(create(&env, &project, &mut into("main")).unwrap().unwrap_err().iid, 1);
        assert_eq!(create(&env, &project, &mut into("other")).unwrap().unwrap(), 2);
        assert_eq!(listed(&env), [(1, "main".into()), (2, "other".into())]);
        let changed = |target: &'static str| {
            update_exclusively(&env, &project, 1, |_| Ok::<_, StoreError>(Some((Some(into(target)), ())))).unwrap()
        };
        assert_eq!(changed("other").unwrap_err().iid, 2);
        assert_eq!(changed("third").unwrap(), Some(()));
        assert_eq!(listed(&env), [(1, "third".into()), (2, "other".into())]);
    }

    #[test]
    fn a_swap_that_was_reported_as_lost_is_one_change() {
        let replies: [fn(u32) -> SwapReply; 3] = [
            |_| SwapReply::Denied,
            |number| if number.is_multiple_of(2) { SwapReply::Denied } else { SwapReply::Told },
            |number| if number.is_multiple_of(2) { SwapReply::Told } else { SwapReply::Denied },
        ];
        for reply in replies {
            let project = ProjectKey::parse("7").unwrap();
            let env = kit::testing::env(LostReplyStore::with(MemoryStore::default(), reply), &[]);
            assert_eq!(create(&env, &project, &mut opened()).unwrap().unwrap(), 1);
            let moved = MergeRequest { target_branch: "other".into(), ..opened() };
            let decide = |_| Ok::<_, StoreError>(Some((Some(moved.clone()), ())));
            assert_eq!(update_exclusively(&env, &project, 1, decide).unwrap().unwrap(), Some(()));
            let MergeRequestList { iids, open } = list(&env, &project).unwrap();
            assert_eq!((iids, open.len()), (vec![1], 1), "{open:?}");
            save(&env, &project, 1, None).unwrap();
            let MergeRequestList { iids, open } = list(&env, &project).unwrap();
            assert_eq!((iids.len(), open.len()), (0, 0));
            assert_eq!(create(&env, &project, &mut opened()).unwrap().unwrap(), 2);
        }
    }
}
