//! Merge requests, by project and iid, and the list of each project.
//!
//! Several merge requests of a project at once. The list has all of the project's merge requests, so a change of it for
//! each of many would take quadratic time.

mod claims;
mod list;

use crate::merge_request::{Branches, MergeRequest};
use crate::store::counter;
use crate::store::key::Key;
use crate::store::record::{BranchesRecord, MergeRequestListRecord, MergeRequestRecord};
pub use claims::BranchesTaken;
use claims::NewClaim;
use directory::project::ProjectKey;
use kit::Env;
use kit::root::{self, Decision};
use kit::store::StoreError;
pub use list::{ListedBranches, MergeRequestList, list, list_if_any, read};
use std::collections::BTreeMap;

/// Ids of merge requests that are made here begin above imported ones.
const FIRST_ID: u64 = 1 << 40;

/// How often a request claims branches for a new merge request. It claims again if another request took it for dead and
/// then died itself.
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
    // A change that is not exclusive never finds its branches taken.
    Ok(change(env, project, iid, false, decide)?.unwrap_or_default())
}

/// As [`update`], but fails if the merge request would be open with the branches of another open one.
pub fn update_exclusively<T, E: From<StoreError>>(
    env: &Env,
    project: &ProjectKey,
    iid: u64,
    decide: impl FnMut(Option<MergeRequest>) -> Result<Option<(Option<MergeRequest>, T)>, E>,
) -> Result<Result<Option<T>, BranchesTaken>, E> {
    change(env, project, iid, true, decide)
}

/// A planned write of a merge request.
struct Plan<'a> {
    iid: u64,
    /// `None`: it is deleted.
    new: Option<&'a MergeRequest>,
    /// The claim of its branches.
    claim: String,
    /// The present branches of an open merge request.
    held: Option<Branches>,
    /// Whether it has to claim its branches.
    needs_claim: bool,
}

impl<'a> Plan<'a> {
    fn new(env: &Env, iid: u64, current: Option<&MergeRequestRecord>, new: Option<&'a MergeRequest>) -> Self {
        let held = current.cloned().map(MergeRequest::from).and_then(|present| open_branches(&present));
        let wanted = new.and_then(open_branches);
        let needs_claim = wanted.is_some() && wanted != held;
        let claim =
            if needs_claim { env.id() } else { current.map_or_else(String::new, |record| record.claim.clone()) };
        Plan { iid, new, claim, held, needs_claim }
    }

    fn is_open(&self) -> bool {
        self.new.is_some_and(MergeRequest::is_open)
    }

    fn record(&self) -> Option<MergeRequestRecord> {
        self.new.map(|new| MergeRequestRecord::from(new).with_claim(&self.claim))
    }

    /// Whether an open merge request gets other branches.
    fn gets_other_branches(&self) -> bool {
        self.held.is_some() && self.needs_claim
    }

    /// The change of the list after the record is written, if there is one.
    fn into_change(self, was_ever: bool, was_missing: bool, gets_other_branches: bool) -> Option<Change> {
        let (is_there, is_open) = (self.new.is_some(), self.is_open());
        // A merge request that never existed stays in the list: another request may be creating it.
        (was_ever || is_there).then_some(Change {
            iid: self.iid,
            was_missing,
            is_there,
            is_open,
            claim: self.claim,
            gets_other_branches,
        })
    }

    /// The claim that the write needs, if any.
    fn new_claim(&self, is_exclusive: bool) -> Option<NewClaim<'_>> {
        let branches = self.new.filter(|_| self.needs_claim)?.branches();
        Some(NewClaim { iid: Some(self.iid), id: &self.claim, branches, present: self.held.clone(), is_exclusive })
    }

    /// Adds the merge request to its project's list, before its record is written. Its branches are the claimed ones.
    fn enter(&self, list: &mut MergeRequestListRecord) {
        if let Some(new) = self.new {
            enter(list, self.iid, new, &self.claim);
        }
    }
}

fn open_branches(merge_request: &MergeRequest) -> Option<Branches> {
    merge_request.is_open().then(|| merge_request.branches())
}

fn enter(list: &mut MergeRequestListRecord, iid: u64, merge_request: &MergeRequest, claim: &str) {
    list.iids.insert(iid);
    if merge_request.is_open() {
        list.open.entry(iid).or_insert_with(|| BranchesRecord::new(&merge_request.branches(), claim));
    }
}

/// A change of a merge request, whose record was written.
struct Change {
    iid: u64,
    /// Whether it did not exist before.
    was_missing: bool,
    is_there: bool,
    is_open: bool,
    /// The claim of its branches.
    claim: String,
    /// Whether the list also has its former branches.
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
        let Some((new, result)) = decide(current.clone().map(MergeRequest::from))? else {
            return Ok::<_, E>(Decision::Keep(Ok(None)));
        };
        let plan = Plan::new(env, iid, current.as_ref(), new.as_ref());
        was_missing |= current.is_none();
        gets_other_branches |= plan.gets_other_branches();
        match plan.new_claim(is_exclusive) {
            Some(claim) => {
                if let Err(taken) = claims::claim(env, project, &claim)? {
                    return Ok(Decision::Keep(Err(taken)));
                }
            }
            None if plan.new.is_some() => list::change(env, project, |list| plan.enter(list))?,
            None => {}
        }
        let record = plan.record();
        written = plan.into_change(was_ever, was_missing, gets_other_branches);
        Ok(if current == record {
            Decision::Keep(Ok(Some(result)))
        } else {
            Decision::Replace(record, Ok(Some(result)))
        })
    })?;
    if let Some(change) = written {
        complete(env, project, &[change])?;
    }
    Ok(result)
}

/// Updates the list after the records of merge requests were written.
fn complete(env: &Env, project: &ProjectKey, changes: &[Change]) -> Result<(), StoreError> {
    if changes.iter().any(Change::changes_list) {
        list::change(env, project, |list| changes.iter().for_each(|change| change.complete(list)))?;
    }
    let mut listed_again = Vec::new();
    for change in changes {
        let key = match (change.is_there, change.was_missing) {
            (false, _) => Key::MergeRequests(project).to_string(),
            (true, true) => Key::MergeRequest(project, change.iid).to_string(),
            (true, false) => continue,
        };
        // Another writer may have deleted it and removed it from the list meanwhile, or imported it again. Each of the
        // two waits until others see its writes, and then reads.
        env.store.exists(&key)?;
        if let Some((present, claim)) = list::read_with_claim(env, project, change.iid)? {
            listed_again.push((change.iid, present, claim));
        }
    }
    if listed_again.is_empty() {
        return Ok(());
    }
    list::change(env, project, |list| {
        listed_again.iter().for_each(|(iid, present, claim)| enter(list, *iid, present, claim));
    })
}

impl Change {
    /// Whether the list has outdated entries.
    fn changes_list(&self) -> bool {
        !self.is_there || !self.is_open || self.gets_other_branches
    }

    fn complete(&self, list: &mut MergeRequestListRecord) {
        if !self.is_there {
            // Only an import brings back a deleted merge request, and lists it again.
            list.iids.remove(&self.iid);
            list.open.remove(&self.iid);
        } else if !self.is_open {
            claims::release(list, self.iid, &self.claim);
        } else if self.gets_other_branches {
            claims::confirm(list, self.iid, &self.claim);
        }
    }
}

/// Creates an open merge request, unless another one with its branches is open. Allocates its id and its iid, and
/// returns the iid.
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
                None => Decision::Replace(Some(record.clone()), true),
                // The request's own merge request, which may have been changed since, or one that was imported with
                // this iid.
                Some(Some(present)) => Decision::Keep(MergeRequest::from(present).id == new.id),
                Some(None) => Decision::Keep(false),
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
    Ok(FIRST_ID + counter::take(env, &Key::MergeRequestCounter, 1)?)
}

/// The counter's value that an id came from; `None` for an imported id.
pub fn counter_value(id: u64) -> Option<u64> {
    id.checked_sub(FIRST_ID)
}

/// Creates, replaces and deletes merge requests, by iid, as [`save`] does for one. 2 to 3 changes of the list.
pub fn save_all(env: &Env, project: &ProjectKey, all: &BTreeMap<u64, Option<MergeRequest>>) -> Result<(), StoreError> {
    let (mut plans, mut present) = (Vec::new(), Vec::new());
    for (iid, new) in all {
        let key = Key::MergeRequest(project, *iid).to_string();
        let record: Option<Option<MergeRequestRecord>> = root::read(&*env.store, &key)?;
        plans.push(Plan::new(env, *iid, record.as_ref().and_then(Option::as_ref), new.as_ref()));
        present.push(record);
    }
    if plans.iter().any(|plan| plan.new.is_some()) {
        list::change(env, project, |list| {
            for plan in &plans {
                match plan.new_claim(false) {
                    Some(claim) => claims::enter(list, plan.iid, &claim),
                    None => plan.enter(list),
                }
            }
        })?;
    }
    let mut changes = Vec::new();
    for (plan, present) in plans.into_iter().zip(present) {
        match write(env, project, &plan, &present)? {
            true => {
                let (was_ever, was_missing) = (present.is_some(), present.flatten().is_none());
                let gets_other_branches = plan.gets_other_branches();
                changes.extend(plan.into_change(was_ever, was_missing, gets_other_branches));
            }
            false => save(env, project, plan.iid, plan.new)?,
        }
    }
    complete(env, project, &changes)
}

/// Replaces the record that was read. False if another writer has written it meanwhile.
fn write(
    env: &Env,
    project: &ProjectKey,
    plan: &Plan,
    present: &Option<Option<MergeRequestRecord>>,
) -> Result<bool, StoreError> {
    let key = Key::MergeRequest(project, plan.iid).to_string();
    let new = plan.record();
    root::update(env, &key, |current: Option<Option<MergeRequestRecord>>| {
        // Also after a swap that was reported as lost and took place.
        if current.clone().flatten() == new {
            return Ok(Decision::Keep(true));
        }
        Ok(if current == *present { Decision::Replace(new.clone(), true) } else { Decision::Keep(false) })
    })
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::merge_request::MergeRequestState;
    use directory::user::UserKey;
    use kit::testing::{Behaviour, LostReplyStore, MemoryStore, Simulation, SwapReply};
    use list::MergeRequestList;
    use std::time::Duration;

    pub fn opened() -> MergeRequest {
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
    fn an_open_merge_request_is_listed_despite_concurrent_closes() {
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

#[cfg(test)]
mod batch_tests {
    use super::*;
    use crate::store::merge_requests::{read, tests::opened, update};
    use directory::user::UserKey;
    use kit::Timestamp;
    use kit::testing::{Behaviour, MemoryStore, Simulation};
    use std::time::Duration;

    fn project() -> ProjectKey {
        ProjectKey::parse("7").unwrap()
    }

    /// The merge requests that a number stands for: open and closed ones, with branches of their own and common ones.
    fn numbered(number: u64) -> Option<MergeRequest> {
        let mut new = MergeRequest { source_branch: format!("topic-{}", number % 5), ..opened() };
        if number.is_multiple_of(3) {
            new.set_open(false, Timestamp::default(), &UserKey::first(1));
        }
        (!number.is_multiple_of(7)).then_some(new)
    }

    #[test]
    fn many_are_saved_as_one_after_another() {
        let [one_by_one, together] = [(); 2].map(|()| kit::testing::env(MemoryStore::default(), &[]));
        let mut number = 1;
        for round in 0..40 {
            let mut all = BTreeMap::new();
            for _ in 0..1 + round % 6 {
                number = number * 48_271 % 2_147_483_647;
                all.insert(1 + number % 12, numbered(number / 16));
            }
            for (iid, new) in &all {
                save(&one_by_one, &project(), *iid, new.as_ref()).unwrap();
            }
            save_all(&together, &project(), &all).unwrap();
            let shown = |env: &Env| {
                let records: Vec<_> = (1..=12).map(|iid| read(env, &project(), iid).unwrap()).collect();
                format!("{:?} {records:?}", list::list(env, &project()).unwrap())
            };
            assert_eq!(shown(&one_by_one), shown(&together), "round {round}");
        }
    }

    #[test]
    fn merge_requests_changed_during_an_import_are_listed() {
        let mut open = 0;
        for seed in 0..300 {
            let seen_after = seed % 2 * 5_000;
            let behaviour = Behaviour { read: 100..3_000, write: 500..4_000, seen_after, stalls: 50, stall: 20_000 };
            let store = Simulation::new(seed, behaviour);
            let import = |first: u64| {
                Box::new(move |env: Env| {
                    let all = (1..=4).map(|iid| (iid, numbered(first + iid))).collect();
                    save_all(&env, &project(), &all).unwrap();
                }) as Box<dyn FnOnce(Env) + Send>
            };
            let close_and_open = Box::new(|env: Env| {
                for is_open in [false, true] {
                    let changed = update(&env, &project(), 2, |current| {
                        let mut new = current.unwrap_or_else(opened);
                        new.set_open(is_open, env.now, &UserKey::first(1));
                        Ok::<_, StoreError>(Some((Some(new), ())))
                    });
                    changed.unwrap();
                }
            });
            store.run(vec![import(seed), import(seed * 7 + 3), close_and_open]);
            let env = store.env(0);
            env.clock.sleep(Duration::from_millis(10));
            let listed = list::list(&env, &project()).unwrap();
            for iid in 1..=4 {
                let Some(present) = read(&env, &project(), iid).unwrap() else { continue };
                assert!(listed.iids.contains(&iid), "seed {seed}: {iid}");
                let has_branches = listed.open.iter().any(|one| one.iid == iid && one.branches == present.branches());
                assert!(has_branches || !present.is_open(), "seed {seed}: {iid}");
                open += usize::from(present.is_open());
            }
        }
        assert!(open > 100, "{open}");
    }
}
