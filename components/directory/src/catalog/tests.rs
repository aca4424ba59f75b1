//! Compares the catalog with the records: after random changes of random records, every answer of the catalog must
//! agree.

use super::changes::Changes;
use super::intent_log::IntentLog;
use super::*;
use crate::access::{self, Role};
use crate::caller::{AcceptedTokens, Caller, authenticate};
use crate::member::Share;
use crate::member::{self, Membership, Source};
use crate::namespace::{NewGroup, Visibility};
use crate::project::{self, FeatureAccess, NewProject};
use crate::store::{self, Key};
use crate::testing::{self, issue_to, new_group, new_project, new_user};
use crate::user::{self, NewUser};
use crate::{SaveError, dependents, namespace};
use fastrand::Rng;
use kit::testing::{Behaviour, FailingStore, LostReplyStore, MemoryStore, NOW, Simulation, env};
use kit::{Env, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

const USERS: u64 = 6;
const GROUPS: u64 = 14;
const PROJECTS: u64 = 18;

fn end(rng: &mut Rng) -> Option<Timestamp> {
    rng.choice([None, None, Some(NOW), Some(Timestamp::from_millis(NOW.millis() + 1))]).unwrap()
}

fn role(rng: &mut Rng) -> Role {
    rng.choice([Role::MinimalAccess, Role::Guest, Role::Planner, Role::Developer, Role::Maintainer, Role::Owner])
        .unwrap()
}

fn shares(rng: &mut Rng) -> Vec<Share> {
    let count = rng.u64(..8).saturating_sub(5);
    let mut share = || Share { group_id: rng.u64(1..=GROUPS + 2), role: role(rng), expires_at: end(rng) };
    (0..count).map(|_| share()).collect()
}

fn visibility(rng: &mut Rng) -> Visibility {
    rng.choice([Visibility::Private, Visibility::Private, Visibility::Internal, Visibility::Public]).unwrap()
}

/// A random change, which is added to `changes`; the returned function makes it.
fn change(env: &Env, rng: &mut Rng, changes: &mut Changes) -> impl FnOnce() -> Result<(), SaveError> + use<> {
    let env = env.clone();
    let (kind, id) = (rng.u64(..7), rng.u64(1..=GROUPS));
    let project_id = rng.u64(1..=PROJECTS);
    let user_id = rng.u64(1..=USERS);
    let parent = rng.u64(..GROUPS + 1);
    let group = NewGroup {
        visibility: visibility(rng),
        shares: shares(rng),
        ..new_group(id, &format!("g{}", rng.u64(..30)), Some(parent).filter(|id| *id > 0))
    };
    let homes = [rng.u64(1..=GROUPS), 4_000_000_000 + user_id];
    let home = rng.choice(homes).unwrap();
    let project = NewProject {
        visibility: visibility(rng),
        issues: rng.choice([FeatureAccess::Enabled, FeatureAccess::Private, FeatureAccess::Disabled]).unwrap(),
        archived: rng.u64(..3) == 0,
        shares: shares(rng),
        pages_unique_domain: rng.choice([None, Some("pages")]).unwrap().map(str::to_owned),
        ..new_project(project_id, &format!("p{}", rng.u64(..40)), home)
    };
    let user =
        NewUser { external: rng.u64(..3) == 0, bot: rng.u64(..4) == 0, ..new_user(user_id, &format!("u{user_id}")) };
    let source = rng.choice([Source::Group(id), Source::Project(project_id)]).unwrap();
    let membership =
        rng.choice([None, Some(()), Some(())]).unwrap().map(|()| Membership { role: role(rng), expires_at: end(rng) });
    let remove = rng.u64(..12) == 0;
    match kind {
        0 if remove => changes.delete_user(user_id),
        0 => changes.user(user_id, None),
        1 | 2 if remove => changes.delete_group(id),
        1 | 2 => changes.group(id),
        3 | 4 if remove => changes.delete_project(project_id),
        3 | 4 => changes.project(project_id),
        _ => changes.member(source, user_id),
    }
    move || match (kind, remove) {
        (0, true) => Ok(dependents::delete_user(&env, user_id)?),
        (0, false) => user::save(&env, user),
        (1 | 2, true) => Ok(dependents::delete_group(&env, id)?),
        (1 | 2, false) => dependents::save_group(&env, group),
        (3 | 4, true) => Ok(dependents::delete_project(&env, project_id)?),
        (3 | 4, false) => project::save(&env, project),
        _ => Ok(member::save(&env, user_id, &[(source, membership)].into())?),
    }
}

/// Some changes in one commit. Refused changes change nothing.
fn batch(env: &Env, rng: &mut Rng, size: u64) {
    let mut changes = Changes::default();
    let steps: Vec<_> = (0..size).map(|_| change(env, rng, &mut changes)).collect();
    let intent_log = IntentLog::begin(env, changes).unwrap();
    for step in steps {
        match step() {
            Ok(()) | Err(SaveError::Invalid(_)) => {}
            Err(SaveError::Store(error)) => panic!("{error}"),
        }
    }
    intent_log.commit(env).unwrap();
}

fn callers(env: &Env) -> Vec<Caller> {
    let mut callers = vec![Caller::Anonymous];
    for id in 1..=USERS {
        issue_to(env, &format!("t{id}"), id, &["api"]);
        let request = testing::request("authorization", &format!("Bearer t{id}"));
        callers.extend(authenticate(env, &request, AcceptedTokens::Api).ok());
    }
    callers
}

/// Compares the catalog with the records.
fn compare(env: &Env) {
    let catalog = read(env).unwrap();
    let ids = (1..=GROUPS).chain((1..=USERS).map(|id| 4_000_000_000 + id));
    let namespaces: BTreeMap<u64, namespace::Namespace> =
        ids.filter_map(|id| Some((id, namespace::by_id(env, id).unwrap()?))).collect();
    let projects: BTreeMap<u64, project::Project> =
        (1..=PROJECTS).filter_map(|id| Some((id, project::by_id(env, id).unwrap()?))).collect();
    let answer = catalog.namespaces().map(|n| n.id()).collect::<Vec<_>>();
    assert_eq!(answer, namespaces.keys().copied().collect::<Vec<_>>());
    assert_eq!(catalog.projects().map(|p| p.id()).collect::<Vec<_>>(), projects.keys().copied().collect::<Vec<_>>());
    for (id, truth) in &namespaces {
        let found = catalog.namespace(*id).unwrap();
        assert_eq!((found.full_path(), found.name()), (truth.full_path(), &*truth.name));
        let answer = (found.visibility(), found.shares(), found.details());
        assert_eq!(answer, (truth.visibility, truth.shares.clone(), truth.details.clone()));
        assert_eq!(found.parent().map(|parent| parent.id()), truth.parent.as_ref().map(|parent| parent.id));
        assert_eq!(found.is_group(), truth.is_group());
        assert_eq!(found.lineage().count(), truth.lineage().count());
        let is_below = |other: &namespace::Namespace| other.lineage().any(|above| above.id == *id);
        let below: BTreeSet<u64> = namespaces.values().filter(|other| is_below(other)).map(|other| other.id).collect();
        assert_eq!(found.descendants().map(|below| below.id()).collect::<BTreeSet<_>>(), below);
        let children = namespaces.values().filter(|other| other.parent.as_ref().is_some_and(|parent| parent.id == *id));
        let answer = found.children().map(|child| child.id()).collect::<Vec<_>>();
        assert_eq!(answer, children.map(|child| child.id).collect::<Vec<_>>());
        let inside = |direct: bool| -> BTreeSet<u64> {
            let is_inside = |project: &&project::Project| {
                if direct { project.namespace.id == *id } else { is_below(&project.namespace) }
            };
            projects.values().filter(is_inside).map(|project| project.id).collect()
        };
        assert_eq!(found.projects_below().map(|project| project.id()).collect::<BTreeSet<_>>(), inside(false));
        assert_eq!(found.projects().map(|project| project.id()).collect::<BTreeSet<_>>(), inside(true));
    }
    for (id, truth) in &projects {
        let found = catalog.project(*id).unwrap();
        assert_eq!((found.full_path(), found.name()), (truth.full_path(), &*truth.name));
        let answer = (found.visibility(), found.issues(), found.archived());
        assert_eq!(answer, (truth.visibility, truth.issues, truth.archived));
        assert_eq!(found.shares(), truth.shares);
    }
    let domains: Vec<u64> = catalog.pages_domains().map(|(project, _)| project.id()).collect();
    let expected = projects.values().filter(|project| project.pages_unique_domain.is_some());
    assert_eq!(domains, expected.map(|project| project.id).collect::<Vec<_>>());
    for id in 1..=USERS {
        let truth = user::by_id(env, id).unwrap();
        let found = catalog.namespace_of_user(id);
        if let Some(user) = &truth {
            assert_eq!(found.map(|namespace| namespace.id()), Some(user.namespace_id));
        }
        assert_eq!(found.is_some_and(NamespaceView::has_active_human_owner), truth.is_some_and(|user| !user.bot));
    }
    compare_access_snapshots(env, &catalog, &namespaces, &projects);
    compare_members(env, &catalog);
}

fn compare_access_snapshots(
    env: &Env,
    catalog: &Catalog,
    namespaces: &BTreeMap<u64, namespace::Namespace>,
    projects: &BTreeMap<u64, project::Project>,
) {
    for caller in callers(env) {
        let snapshot = catalog.access_snapshot(env, &caller).unwrap();
        for (id, truth) in namespaces {
            let role = access::namespace_role(env, &caller, truth).unwrap();
            assert_eq!(snapshot.namespace_role(catalog.namespace(*id).unwrap()), role, "namespace {id}");
        }
        for (id, truth) in projects {
            let found = catalog.project(*id).unwrap();
            let role = access::project_role(env, &caller, truth).unwrap();
            assert_eq!(snapshot.project_role(found), role, "project {id}");
            let readable = access::may_read_project(env, &caller, truth).unwrap();
            assert_eq!(snapshot.may_read(found), readable, "project {id}");
            let issues = match truth.issues {
                FeatureAccess::Disabled => false,
                FeatureAccess::Private => role >= Role::Guest,
                FeatureAccess::Enabled | FeatureAccess::Public => readable,
            };
            assert_eq!(snapshot.may_read_issues(found), issues, "project {id}");
        }
    }
}

fn compare_members(env: &Env, catalog: &Catalog) {
    let sources: Vec<Source> = (1..=GROUPS).map(Source::Group).chain((1..=PROJECTS).map(Source::Project)).collect();
    for source in &sources {
        let mut found = Vec::new();
        catalog
            .members(env, &[*source], |member| found.push((member.user_id, member.role, member.expires_at)))
            .unwrap();
        let held = |id: u64| Some((id, *member::of_user(env, id).unwrap().0.get(source)?));
        let truth: Vec<_> = (1..=USERS).filter_map(held).map(|(id, m)| (id, m.role, m.expires_at)).collect();
        assert_eq!(found, truth, "{source:?}");
    }
    let mut all = 0;
    catalog.members(env, &sources, |_| all += 1).unwrap();
    assert_eq!(all, (1..=USERS).map(|id| member::of_user(env, id).unwrap().0.len()).sum::<usize>());
}

#[test]
fn the_catalog_agrees_with_the_records() {
    for seed in 0..60 {
        let (env, mut rng) = (env(MemoryStore::default(), &[]), Rng::with_seed(seed));
        for size in [60, 1, 1, 1, 20, 1, 2, 1, 40, 1] {
            batch(&env, &mut rng, size);
            compare(&env);
        }
    }
}

#[test]
fn the_catalog_agrees_with_the_records_if_every_swap_is_reported_as_lost() {
    for seed in 100..110 {
        let (env, mut rng) = (env(LostReplyStore::over(MemoryStore::default()), &[]), Rng::with_seed(seed));
        for size in [60, 1, 5] {
            batch(&env, &mut rng, size);
            compare(&env);
        }
    }
}

#[test]
fn the_next_commit_completes_that_of_a_writer_that_died() {
    for seed in 200..260 {
        let store = MemoryStore::default();
        let whole = env(store.clone(), &[]);
        let mut rng = Rng::with_seed(seed);
        batch(&whole, &mut rng, 40);
        // The writer dies at some operation of begin, changes or commit.
        let dying = env(FailingStore::after(rng.u64(..400), store.clone()), &[]);
        // The ids of a new process differ from the earlier ones.
        dying.entropy.fill(&mut [0; 1 << 16]);
        let mut changes = Changes::default();
        let steps: Vec<_> = (0..10).map(|_| change(&dying, &mut rng, &mut changes)).collect();
        let outcome = IntentLog::begin(&dying, changes).map_err(SaveError::from).and_then(|intent_log| {
            for step in steps {
                match step() {
                    Err(SaveError::Store(error)) => return Err(error.into()),
                    Ok(()) | Err(SaveError::Invalid(_)) => {}
                }
            }
            Ok(intent_log.commit(&dying)?)
        });
        drop(outcome);
        let next = env(store.clone(), &[]);
        next.entropy.fill(&mut [0; 1 << 17]);
        batch(&next, &mut rng, 1);
        compare(&next);
    }
}

#[test]
fn a_change_of_one_group_rewrites_one_part_and_old_parts_go() {
    let store = MemoryStore::default();
    let env = env(store.clone(), &[]);
    let save = |ids: std::ops::RangeInclusive<u64>, name: &str| {
        let save = |id| {
            let group = NewGroup { name: name.into(), ..new_group(id, &format!("g{id}"), None) };
            dependents::save_group(&env, group).unwrap();
        };
        testing::change(&env, |changes| ids.clone().for_each(|id| changes.group(id)), || ids.clone().for_each(save));
    };
    let blobs = || store.keys().into_iter().filter(|key| key.starts_with("directory/v1/catalog/blob/")).count();
    save(1..=10_000, "A");
    let first = read(&env).unwrap();
    let parts = first.manifest.namespaces.clone();
    assert_eq!((parts.len(), blobs()), (5, 6));
    save(5000..=5000, "B");
    let second = read(&env).unwrap();
    assert_ne!(first.revision(), second.revision());
    let same = second.manifest.namespaces.iter().filter(|part| parts.contains(part)).count();
    assert_eq!((same, second.namespace(5000).unwrap().name(), second.namespace(5001).unwrap().name()), (4, "B", "A"));
    assert_eq!(first.namespace(5000).unwrap().name(), "A", "a snapshot stays what it is");
    save(5000..=5000, "B");
    assert_eq!(read(&env).unwrap().revision(), second.revision(), "nothing changed");
    let delete = |id: u64, after: i64| {
        let now = Timestamp::from_millis(NOW.millis() + after);
        let later = Env { now, clock: Rc::new(now), ..env.clone() };
        testing::change(&later, |changes| changes.group(id), || namespace::delete_group(&later, id).unwrap());
        (blobs(), read(&later).unwrap().namespaces().len())
    };
    // Five parts and the manifest, and two replaced parts and manifests. Only now is the end of the first swap known.
    assert_eq!(delete(7, 3_600_000), (10, 9_999));
    assert_eq!(delete(8, 7_200_000), (10, 9_998), "the first ones are gone");
}

#[test]
fn blobs_are_kept_for_a_minute_after_the_swap_that_retired_them() {
    let store = Simulation::new(1, Behaviour { read: 5..50, write: 50..500, seen_after: 0, stalls: 0, stall: 0 });
    let env = store.env(1);
    let rename = |path: &str, pause: u64| {
        let env = env.with_current_time();
        let intent_log = testing::begin(&env, |changes| changes.group(1));
        dependents::save_group(&env, new_group(1, path, None)).unwrap();
        env.clock.sleep(Duration::from_secs(pause));
        intent_log.commit(&env).unwrap();
    };
    let revision = || store::read::<manifest::Root>(&env, &Key::Catalog).unwrap().unwrap().revision;
    rename("a", 0);
    let former = revision();
    let is_there = || manifest::manifest(&env, &former).is_ok();
    // A batch that takes two minutes, and two more right after it.
    rename("b", 120);
    rename("c", 0);
    rename("d", 0);
    assert!(is_there(), "the swap was just now");
    rename("e", 61);
    rename("f", 0);
    assert!(!is_there());
}

#[test]
fn before_the_first_import_the_catalog_is_empty() {
    let store = MemoryStore::default();
    let env = env(store, &[]);
    let catalog = read(&env).unwrap();
    assert_eq!((catalog.revision(), catalog.namespaces().len(), catalog.projects().count()), ("", 0, 0));
    assert!(catalog.namespace(1).is_none() && catalog.namespace_of_user(1).is_none());
}

#[test]
fn an_access_snapshot_is_valid_until_the_first_membership_expires() {
    let env = env(MemoryStore::default(), &[]);
    testing::fill(&env);
    testing::list_all(&env);
    let at = |millis: i64| Some(Timestamp::from_millis(NOW.millis() + millis));
    for (id, expires_at) in [(10, at(-1)), (11, at(500)), (12, at(900))] {
        testing::set_membership(&env, 2, Source::Group(id), Some(Membership { role: Role::Guest, expires_at }));
    }
    testing::issue_to(&env, "t", 2, &["api"]);
    let caller = authenticate(&env, &testing::request("private-token", "t"), AcceptedTokens::Api).unwrap();
    let snapshot = read(&env).unwrap().access_snapshot(&env, &caller).unwrap();
    assert_eq!(snapshot.valid_until(), at(500));
}
