//! Several merge requests of a project at once. The list has all of the project's merge requests, so a change of it for
//! each of many would take quadratic time.

use super::{Plan, claims, complete, list, save};
use crate::merge_request::MergeRequest;
use crate::store::key::Key;
use crate::store::record::MergeRequestRecord;
use directory::project::ProjectKey;
use kit::Env;
use kit::root::{self, Decision};
use kit::store::StoreError;
use std::collections::BTreeMap;

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
mod tests {
    use super::super::{read, tests::opened, update};
    use super::*;
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
