use super::*;
use crate::dependents;
use crate::project::{self, ProjectLookup};
use crate::testing::{change, forge, new_group};
use crate::user;
use kit::testing::{Behaviour, Simulation};
use std::time::Duration;

fn invalid(why: InvalidRecord) -> Result<(), SaveError> {
    Err(why.into())
}

/// Saves a chain of groups, the first one at the top.
fn chain(env: &Env, ids: std::ops::Range<u64>) {
    let mut parent = None;
    let save = |id| {
        dependents::save_group(env, new_group(id, &format!("g{id}"), parent.replace(id))).unwrap();
    };
    change(env, |changes| ids.clone().for_each(|id| changes.group(id)), || ids.clone().for_each(save));
}

#[test]
fn a_group_moves_with_all_levels_below_it_or_not_at_all() {
    let env = forge();
    chain(&env, 1000..1012);
    chain(&env, 2000..2012);
    let move_below = |parent_id| dependents::save_group(&env, new_group(1000, "g1000", Some(parent_id)));
    let depth = || by_id(&env, 1011).unwrap().map(|deepest| deepest.lineage().count());
    assert_eq!((move_below(2011), depth()), (invalid(InvalidRecord::TooDeep), Some(12)));
    assert_eq!((move_below(2008), depth()), (invalid(InvalidRecord::TooDeep), Some(12)));
    assert_eq!((move_below(2007), depth()), (Ok(()), Some(20)));
    assert_eq!(dependents::save_group(&env, new_group(1000, "renamed", Some(2007))), Ok(()));
}

#[test]
fn of_two_groups_that_are_moved_below_each_other_at_once_one_at_most_moves() {
    let mut moved = 0;
    for seed in 0..400 {
        // Every other store shows a write when it is committed.
        let seen_after = seed % 2 * 5_000;
        let store =
            Simulation::new(seed, Behaviour { read: 100..3_000, write: 500..4_000, seen_after, stalls: 0, stall: 0 });
        let env = store.env(0);
        for id in 1..=3 {
            dependents::save_group(&env, new_group(id, &format!("g{id}"), None)).unwrap();
        }
        let writer = |id, below| {
            move |env: Env| dependents::save_group(&env, new_group(id, &format!("g{id}"), Some(below))).is_ok()
        };
        let outcomes = store.run(vec![writer(1, 2), writer(2, 3), writer(3, 1)]);
        // The host sends a response when other hosts see the writes of the request.
        env.clock.sleep(Duration::from_millis(10));
        let parents: Vec<bool> = (1..=3).map(|id| parent_of(&env, id).unwrap().is_some()).collect();
        assert_eq!(parents, outcomes, "seed {seed}");
        assert!((1..=3).all(|id| by_id(&env, id).unwrap().is_some()), "seed {seed}: a cycle");
        moved += outcomes.iter().filter(|moved| **moved).count();
    }
    assert!(moved > 200, "{moved}");
}

#[test]
fn text_that_can_be_no_path_leads_nowhere() {
    let env = forge();
    let long = "a".repeat(3000);
    for segment in ["", "\0", "a\0", &long] {
        assert!(child(&env, None, segment).unwrap().is_none(), "{segment:?}");
        assert!(!path::is_or_was_path(&env, None, segment).unwrap(), "{segment:?}");
        for text in [segment.to_owned(), format!("acme/{segment}"), format!("{segment}/acme")] {
            assert!(by_path(&env, &text).unwrap().is_none(), "{text:?}");
            assert!(by_present_or_former_path(&env, &text).unwrap().is_none(), "{text:?}");
            assert!(find(&env, &text).unwrap().is_none(), "{text:?}");
            assert!(user::by_username(&env, &text).unwrap().is_none(), "{text:?}");
            assert!(user::find(&env, &text).unwrap().is_none(), "{text:?}");
            assert!(matches!(project::find(&env, &text).unwrap(), ProjectLookup::Missing), "{text:?}");
        }
    }
}
