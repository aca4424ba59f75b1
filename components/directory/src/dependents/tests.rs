use super::*;
use crate::access::Role;
use crate::caller::{AcceptedTokens, Caller, authenticate};
use crate::catalog::changes::Changes;
use crate::dependents;
use crate::member::{Membership, Share};
use crate::namespace::NewGroup;
use crate::project::{Existence, JobTokenScope, NewProject, ProjectLookup};
use crate::testing::*;
use crate::token::{Fingerprint, Subject};
use crate::user::{UserKey, UserState};
use crate::{InvalidRecord, SaveError};
use http::StatusCode;
use kit::store::Store as _;
use kit::testing::{Behaviour, MemoryStore, Simulation};

/// All records of the small data set, with the catalog.
fn listed() -> Env {
    let env = forge();
    list_all(&env);
    env
}

fn join(env: &Env, user_id: u64, source: Source) {
    list_member(env, user_id, source, Some(Membership { role: Role::Developer, expires_at: None }));
}

fn is_known(env: &Env, token: &str) -> bool {
    authenticate(env, &request("private-token", token), AcceptedTokens::Registry).is_ok()
}

fn role(env: &Env, user_id: u64, source: Source) -> Role {
    member::of_user(env, user_id).unwrap().role(source, env.now)
}

fn save_user(env: &Env, new: NewUser) -> Result<(), SaveError> {
    write_user(env, new)?.confirm(env)
}

#[test]
fn another_project_with_the_id_has_nothing_of_a_deleted_one() {
    let env = listed();
    join(&env, 2, Source::Project(100));
    issue(&env, "job", new_token(Subject::Job { user_id: 2, project_id: 100, running: true }, &[]));
    issue(&env, "dep", new_token(Subject::Deployment(Source::Project(100)), &["read_package_registry"]));
    let first = project::by_id(&env, 100).unwrap().unwrap();
    assert!(first.incarnation.is_first());
    let covers = || match authenticate(&env, &request("deploy-token", "dep"), AcceptedTokens::Registry) {
        Ok(Caller::DeployToken(token)) => token.covers(&project::by_id(&env, 100).unwrap().unwrap()),
        Ok(_) => panic!("another caller"),
        Err(error) => {
            assert_eq!(error.status, StatusCode::UNAUTHORIZED);
            false
        }
    };
    let job = || authenticate(&env, &request("job-token", "job"), AcceptedTokens::Registry).is_ok();
    assert!(job() && covers());
    project::save(&env, new_project(100, "renamed", 10)).unwrap();
    assert_eq!(project::by_id(&env, 100).unwrap().unwrap().key(), first.key(), "the same after a change");

    change(&env, |changes| changes.delete_project(100), || delete_project(&env, 100).unwrap());
    assert_eq!(project::existence(&env, 100), Ok(Existence::Deleted));
    assert_eq!(role(&env, 2, Source::Project(100)), Role::None);
    assert!(!covers());
    project::save(&env, new_project(100, "site", 10)).unwrap();
    let second = project::by_id(&env, 100).unwrap().unwrap();
    assert_ne!(second.key(), first.key());
    assert_eq!(project::ProjectKey::parse(&second.key().to_string()), Some(second.key()));
    assert!(!job() && !covers());
    project::save(&env, new_project(100, "again", 10)).unwrap();
    assert_eq!(project::by_id(&env, 100).unwrap().unwrap().key(), second.key());
    issue(&env, "job", new_token(Subject::Job { user_id: 2, project_id: 100, running: true }, &[]));
    assert!(job(), "a token for the second one");
}

#[test]
fn another_project_or_group_with_the_id_is_not_the_one_whose_jobs_are_accepted() {
    let env = listed();
    let save = |id, path: &str, namespace_id| list_project(&env, new_project(id, path, namespace_id));
    let accept = |projects: &[u64], groups: &[u64]| {
        let job_tokens = JobTokenScope { restricted: true, projects: projects.to_vec(), groups: groups.to_vec() };
        project::save(&env, NewProject { job_tokens, ..new_project(102, "tools", 10) }).unwrap();
    };
    let is_refused = |id| {
        issue(&env, "job", new_token(Subject::Job { user_id: 2, project_id: id, running: true }, &[]));
        let caller = authenticate(&env, &request("job-token", "job"), AcceptedTokens::Registry).unwrap();
        crate::access::refuses_job(&caller, &project::by_id(&env, 102).unwrap().unwrap())
    };
    save(200, "own", 12);
    save(201, "other", 12);
    accept(&[200], &[12]);
    assert_eq!([200, 201].map(is_refused), [false, false]);
    change(&env, |changes| changes.delete_group(12), || delete_group(&env, 12).unwrap());
    list_group(&env, new_group(12, "next", None));
    save(200, "own", 12);
    save(201, "other", 12);
    assert_eq!([200, 201].map(is_refused), [true, true]);
    accept(&[200], &[]);
    assert_eq!([200, 201].map(is_refused), [false, true], "the present one is named");
    accept(&[], &[12]);
    assert_eq!([200, 201].map(is_refused), [false, false]);
    change(&env, |changes| changes.delete_project(200), || delete_project(&env, 200).unwrap());
    accept(&[200], &[]);
    save(200, "own", 12);
    assert!(is_refused(200), "only the deleted ones were known");
}

#[test]
fn another_user_with_the_id_has_nothing_of_a_deleted_one() {
    let env = listed();
    join(&env, 3, Source::Group(10));
    issue_to(&env, "bob", 3, &["api"]);
    assert!(is_known(&env, "bob"));
    change(&env, |changes| changes.delete_user(3), || delete_user(&env, 3).unwrap());
    assert_eq!(project::existence(&env, 103), Ok(Existence::Deleted), "a project in the personal namespace");
    user::save(&env, new_user(3, "robert")).unwrap();
    assert!(!is_known(&env, "bob"));
    let key = Key::UserTokens(3).text();
    let list: serde_json::Value = serde_json::from_slice(&env.store.get(&key).unwrap().unwrap()).unwrap();
    assert_eq!(list, serde_json::json!({"last": 1, "tokens": {}}), "no dead entry is left to read");
    assert!(token::find(&env, &Fingerprint::of(b"bob")).unwrap().is_none());
    assert_eq!(role(&env, 3, Source::Group(10)), Role::None);
    issue_to(&env, "rob", 3, &["api"]);
    assert!(is_known(&env, "rob"));
    let mut members = 0;
    catalog::read(&env).unwrap().members(&env, &[Source::Group(10)], |_| members += 1).unwrap();
    assert_eq!(members, 0);
}

#[test]
fn everything_below_a_deleted_group_is_deleted_and_its_invitations_end() {
    let env = listed();
    join(&env, 2, Source::Group(11));
    join(&env, 2, Source::Project(101));
    let invite = |id| Share { group_id: id, role: Role::Guest, expires_at: None };
    list_group(&env, NewGroup { shares: vec![invite(10), invite(11), invite(99)], ..new_group(12, "guild", None) });
    change(&env, |changes| changes.delete_group(10), || delete_group(&env, 10).unwrap());
    let existence = [100, 101, 102].map(|id| project::existence(&env, id).unwrap());
    assert_eq!(existence, [Existence::Deleted, Existence::Deleted, Existence::Deleted]);
    dependents::save_group(&env, new_group(10, "acme", None)).unwrap();
    assert_eq!(namespace::by_id(&env, 11).unwrap(), None, "the subgroup does not come back");
    assert_eq!((role(&env, 2, Source::Group(11)), role(&env, 2, Source::Project(101))), (Role::None, Role::None));
    assert_eq!(namespace::by_id(&env, 12).unwrap().unwrap().shares, [invite(99)]);
    let catalog = catalog::read(&env).unwrap();
    assert_eq!(catalog.projects().map(|project| project.id()).collect::<Vec<_>>(), [103]);
    assert_eq!(catalog.namespace(12).unwrap().shares(), [invite(99)]);
}

#[test]
fn a_user_who_gets_another_namespace_id_keeps_path_and_projects() {
    let env = listed();
    let with_id = |id| NewUser { namespace_id: Some(id), ..new_user(3, "bob") };
    for (former, id) in [(4_000_000_003, 77), (77, 77), (77, 78)] {
        change(&env, |changes| changes.user(3, Some(id)), || save_user(&env, with_id(id)).unwrap());
        assert!(matches!(project::find(&env, "bob/notes").unwrap(), ProjectLookup::Found(found) if found.id == 103));
        assert_eq!(user::by_username(&env, "bob").unwrap().unwrap().namespace_id, id);
        assert_eq!(namespace::by_id(&env, former).unwrap().is_some(), former == id);
        let catalog = catalog::read(&env).unwrap();
        assert_eq!(catalog.namespace_of_user(3).unwrap().projects().map(|one| one.id()).collect::<Vec<_>>(), [103]);
    }
    change(&env, |changes| changes.user(3, None), || save_user(&env, new_user(3, "bob")).unwrap());
    assert_eq!(user::by_id(&env, 3).unwrap().unwrap().namespace_id, 78, "without an id, the known one stays");
    let taken = save_user(&env, with_id(10));
    assert_eq!(taken, Err(SaveError::Invalid(InvalidRecord::NamespaceIdTaken(10))));
    assert!(matches!(project::find(&env, "bob/notes").unwrap(), ProjectLookup::Found(_)), "nothing was changed");
}

#[test]
fn a_user_who_gets_another_name_and_namespace_id_at_once_is_found_by_the_former_paths() {
    let env = listed();
    let save = |username, id| {
        let new = NewUser { namespace_id: Some(id), ..new_user(3, username) };
        change(&env, |changes| changes.user(3, Some(id)), || save_user(&env, new).unwrap());
    };
    save("robert", 77);
    assert!(matches!(project::find(&env, "robert/notes").unwrap(), ProjectLookup::Found(found) if found.id == 103));
    assert!(matches!(project::find(&env, "bob/notes").unwrap(), ProjectLookup::Moved(found) if found.id == 103));
    assert!(user::by_username(&env, "bob").unwrap().is_none());
    // Another user takes the name, and keeps it.
    change(&env, |changes| changes.user(5, None), || save_user(&env, new_user(5, "bob")).unwrap());
    save("rob", 78);
    assert_eq!(user::by_username(&env, "bob").unwrap().map(|user| user.id), Some(5));
    assert!(matches!(project::find(&env, "robert/notes").unwrap(), ProjectLookup::Moved(found) if found.id == 103));
    assert_eq!(project::find(&env, "bob/notes").unwrap(), ProjectLookup::Missing);
}

/// Two or three groups are saved at the same path at the same time. The path may be a former path of another group.
#[test]
fn of_several_writers_that_claim_one_path_at_once_one_at_most_gets_it() {
    let behaviour = Behaviour { read: 100..3_000, write: 500..4_000, seen_after: 0, stalls: 0, stall: 0 };
    let mut winners = 0;
    for seed in 0..400 {
        let store = Simulation::new(seed, behaviour.clone());
        let env = store.env(0);
        if seed % 2 == 0 {
            dependents::save_group(&env, new_group(1, "x", None)).unwrap();
            dependents::save_group(&env, new_group(1, "moved", None)).unwrap();
        }
        let ids: Vec<u64> = (1..=2 + seed % 3).collect();
        let writer = |id| move |env: Env| dependents::save_group(&env, new_group(id, "x", None)).is_ok();
        let outcomes = store.run(ids.iter().map(|id| writer(*id)).collect());
        let won: Vec<u64> = ids.iter().zip(&outcomes).filter(|(_, won)| **won).map(|(id, _)| *id).collect();
        assert!(won.len() <= 1, "seed {seed}: {won:?}");
        let found = namespace::find(&env, "x").unwrap().map(|group| group.id);
        assert_eq!(found, won.first().copied(), "seed {seed}");
        winners += won.len();
    }
    assert!(winners > 300, "{winners}");
}

#[test]
fn a_deletion_that_broke_off_can_be_repeated() {
    for operations in 0..200 {
        let store = MemoryStore::default();
        let env = kit::testing::env(store.clone(), &[]);
        fill(&env);
        list_all(&env);
        let failing = kit::testing::FailingStore::after(operations, store.clone());
        let dying = kit::testing::env(failing, &[]);
        dying.entropy.fill(&mut [0; 1 << 16]);
        let mut deletion = Changes::default();
        deletion.delete_group(10);
        let attempt = IntentLog::begin(&dying, deletion).and_then(|log| {
            delete_group(&dying, 10)?;
            log.commit(&dying)
        });
        drop(attempt);
        let next = kit::testing::env(store.clone(), &[]);
        next.entropy.fill(&mut [0; 1 << 17]);
        change(&next, |changes| changes.delete_group(10), || delete_group(&next, 10).unwrap());
        let existence = [100, 101, 102].map(|id| project::existence(&next, id).unwrap());
        assert_eq!(existence, [Existence::Deleted, Existence::Deleted, Existence::Deleted], "{operations}");
        assert_eq!(store.get("directory/v1/namespace/11").unwrap().as_deref(), Some(&b"null"[..]), "{operations}");
    }
}

#[test]
fn another_record_with_the_id_has_no_gate_of_a_deleted_one() {
    let env = listed();
    let actors = [Actor::User(2), Actor::Group(10), Actor::Group(11), Actor::Project(100), Actor::Project(103)];
    feature::save(&env, "beta", |gates| gates.actors = actors.iter().map(Actor::to_string).collect()).unwrap();
    let on = || actors.map(|actor| feature::is_enabled(&env, "beta", Some(actor)).unwrap());
    change(&env, |changes| changes.delete_project(103), || delete_project(&env, 103).unwrap());
    assert_eq!(on(), [true, true, true, true, false]);
    change(&env, |changes| changes.delete_group(10), || delete_group(&env, 10).unwrap());
    assert_eq!(on(), [true, false, false, false, false], "also of what is below it");
    change(&env, |changes| changes.delete_user(2), || delete_user(&env, 2).unwrap());
    assert_eq!(on(), [false; 5]);
}

#[test]
fn issues_name_the_incarnation_of_a_project_that_took_the_place_of_a_deleted_one() {
    let env = listed();
    let issues = || {
        let listed = catalog::read(&env).unwrap().project(100).unwrap().issues_incarnation().map(str::to_owned);
        let incarnation = project::issues_incarnation(&env, 100).unwrap();
        assert_eq!(incarnation.id().map(str::to_owned), listed);
        listed
    };
    let save = |path: &str| list_project(&env, new_project(100, path, 10));
    let delete = || change(&env, |changes| changes.delete_project(100), || delete_project(&env, 100).unwrap());
    save("renamed");
    assert_eq!(issues(), None);
    delete();
    save("site");
    let second = issues();
    assert!(second.is_some());
    save("moved");
    assert_eq!(issues(), second);
    delete();
    save("site");
    assert!(issues().is_some() && issues() != second);

    // Earlier builds stored issues without an incarnation, even for a project that replaced a deleted one.
    let key = crate::store::Key::Project(100).to_string();
    let mut record: serde_json::Value = serde_json::from_slice(&env.store.get(&key).unwrap().unwrap()).unwrap();
    record.as_object_mut().unwrap().remove("issues_incarnation").unwrap();
    env.store.set(&key, record.to_string().as_bytes()).unwrap();
    save("again");
    assert_eq!(issues(), None);
    assert!(!project::by_id(&env, 100).unwrap().unwrap().incarnation.is_first());
}

#[test]
fn the_catalog_names_a_banned_user_who_took_the_place_of_a_deleted_one() {
    let env = listed();
    let ban = || {
        list_user(&env, NewUser { state: UserState::Banned, ..new_user(2, "alice") });
        let present = user::by_id(&env, 2).unwrap().unwrap().key();
        assert_eq!(**catalog::read(&env).unwrap().banned_users(), *std::slice::from_ref(&present));
        assert_eq!(user::by_key(&env, &present).unwrap().map(|user| user.key()), Some(present.clone()));
        assert_eq!(user::key_of(&env, 2).unwrap(), present);
        present
    };
    let first = ban();
    assert_eq!(first, UserKey::first(2));
    change(&env, |changes| changes.delete_user(2), || delete_user(&env, 2).unwrap());
    assert_eq!(catalog::read(&env).unwrap().banned_users().len(), 0);
    assert_eq!((user::by_key(&env, &first).unwrap(), user::key_of(&env, 2).unwrap()), (None, first.clone()));
    let second = ban();
    assert!(second != first && user::by_key(&env, &first).unwrap().is_none());
}
