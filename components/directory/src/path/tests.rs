use crate::dependents;
use crate::namespace::{self, NewGroup, Visibility};
use crate::path::PathOwner;
use crate::project::{self, NewProject, ProjectLookup};
use crate::save_error::{InvalidRecord, SaveError};
use crate::store::{self, Key};
use crate::testing::{forge, new_group, new_project, new_user};
use crate::user;
use kit::Env;
use kit::store::Store as _;
use kit::testing::{Behaviour, LostReplyStore, MemoryStore, Simulation};

fn namespace_id(env: &Env, path: &str) -> Option<u64> {
    namespace::find(env, path).unwrap().map(|found| found.id)
}

/// `found`, `moved` or `missing`, with the present full path.
fn project_at(env: &Env, path: &str) -> String {
    match project::find(env, path).unwrap() {
        ProjectLookup::Found(project) => format!("found {}", project.full_path()),
        ProjectLookup::Moved(project) => format!("moved {}", project.full_path()),
        ProjectLookup::Missing => "missing".into(),
    }
}

fn save_group(env: &Env, id: u64, path: &str, parent_id: Option<u64>) -> Result<(), SaveError> {
    dependents::save_group(env, NewGroup { visibility: Visibility::Public, ..new_group(id, path, parent_id) })
}

#[test]
fn ids_and_paths_in_any_case_find_the_same() {
    let env = forge();
    for name in ["101", "Acme/core/Engine", "acme/CORE/engine", "000101"] {
        assert_eq!(project_at(&env, name), "found Acme/core/Engine", "{name}");
    }
    assert_eq!(project_at(&env, "BOB/notes"), "found bob/notes");
    assert_eq!(namespace_id(&env, "acme/core"), Some(11));
    assert_eq!(namespace_id(&env, "alice"), Some(4_000_000_002));
    assert_eq!(user::find(&env, "ALICE").unwrap().map(|user| user.id), Some(2));
}

#[test]
fn groups_projects_and_users_are_found_only_as_such() {
    let env = forge();
    assert_eq!(project_at(&env, "acme/core"), "missing", "a group is no project");
    assert_eq!(namespace_id(&env, "acme/site"), None, "a project is no namespace");
    assert_eq!(namespace::find_group(&env, "bob").unwrap(), None, "a user is no group");
    assert_eq!(user::find(&env, "acme").unwrap(), None, "a group is no user");
    assert_eq!(project_at(&env, "site"), "missing", "a project has no path of one segment");
    assert_eq!(project_at(&env, "acme/site/site"), "missing", "nothing is in a project");
}

#[test]
fn an_invalid_identifier_is_missing_without_reading_storage() {
    let env = kit::testing::env(kit::testing::FailingStore::after(0, MemoryStore::default()), &[]);
    let long = "a".repeat(256);
    let deep = vec!["a"; 22].join("/");
    let names = "/ a//b /a/b a/b/ .. a/.. -a/b a/b.git a/b.Atom ä/b a%2Fb 99999999999999999999";
    for name in names.split(' ').chain(["", "a b/c", &long, &deep]) {
        assert_eq!(project_at(&env, name), "missing", "{name}");
    }
    assert!(project::find(&env, "a/b").is_err(), "a valid path is looked up");
}

#[test]
fn the_former_path_of_a_renamed_project_leads_to_it() {
    let env = forge();
    project::save(&env, new_project(101, "motor", 11)).unwrap();
    assert_eq!(project_at(&env, "acme/core/motor"), "found Acme/core/motor");
    assert_eq!(project_at(&env, "acme/core/engine"), "moved Acme/core/motor");
    // Back again: the first path is the present path once more.
    project::save(&env, new_project(101, "engine", 11)).unwrap();
    assert_eq!(project_at(&env, "acme/core/engine"), "found Acme/core/engine");
    assert_eq!(project_at(&env, "acme/core/motor"), "moved Acme/core/engine");
}

#[test]
fn a_transferred_project_is_found_at_both_ends() {
    let env = forge();
    project::save(&env, new_project(101, "engine", 12)).unwrap();
    assert_eq!(project_at(&env, "guild/engine"), "found guild/engine");
    assert_eq!(project_at(&env, "acme/core/engine"), "moved guild/engine");
}

#[test]
fn renaming_or_moving_a_group_moves_everything_below_it() {
    let env = forge();
    save_group(&env, 11, "kernel", Some(10)).unwrap();
    assert_eq!(project_at(&env, "acme/kernel/engine"), "found Acme/kernel/Engine");
    assert_eq!(project_at(&env, "acme/core/engine"), "moved Acme/kernel/Engine");
    save_group(&env, 11, "kernel", Some(12)).unwrap();
    assert_eq!(project_at(&env, "guild/kernel/engine"), "found guild/kernel/Engine");
    assert_eq!(project_at(&env, "acme/core/engine"), "moved guild/kernel/Engine");
    assert_eq!(namespace_id(&env, "guild/kernel"), Some(11));
    assert_eq!(namespace_id(&env, "acme/kernel"), None, "groups do not follow redirects");
    save_group(&env, 12, "order", None).unwrap();
    assert_eq!(namespace_id(&env, "guild/kernel"), None, "nor below an old path");
    assert_eq!(project_at(&env, "guild/kernel/engine"), "moved order/kernel/Engine");
}

#[test]
fn a_former_path_can_be_claimed_and_a_present_one_cannot() {
    let env = forge();
    let taken = project::save(&env, new_project(200, "SITE", 10)).unwrap_err();
    assert_eq!(taken, InvalidRecord::PathTaken { path: "SITE".into(), by: PathOwner::Project(100) }.into());
    assert_eq!(project::by_id(&env, 200).unwrap(), None, "nothing of it was saved");
    assert!(save_group(&env, 20, "bob", None).is_err(), "users and groups share one name space");
    assert!(save_group(&env, 20, "tools", Some(10)).is_err(), "and so do groups and projects");
    assert!(user::save(&env, new_user(20, "guild")).is_err());

    project::save(&env, new_project(100, "page", 10)).unwrap();
    project::save(&env, new_project(200, "site", 10)).unwrap();
    assert_eq!(project_at(&env, "acme/site"), "found Acme/site");
    assert_eq!(project_at(&env, "acme/page"), "found Acme/page");
}

#[test]
fn a_deleted_group_is_gone_with_all_below_and_its_path_is_free() {
    let env = forge();
    namespace::delete_group(&env, 10).unwrap();
    for name in ["100", "101", "acme/site", "acme/core/engine"] {
        assert_eq!(project_at(&env, name), "missing", "{name}");
    }
    assert_eq!((namespace_id(&env, "acme"), namespace_id(&env, "11")), (None, None));
    save_group(&env, 30, "acme", None).unwrap();
    assert_eq!(namespace_id(&env, "acme"), Some(30));

    user::delete(&env, 3).unwrap();
    assert_eq!((project_at(&env, "103"), namespace_id(&env, "bob")), ("missing".into(), None));
    user::save(&env, new_user(3, "bob")).unwrap();
    assert_eq!(project_at(&env, "bob/notes"), "found bob/notes");
}

#[test]
fn the_path_of_a_deleted_record_does_not_lead_to_the_next_one_with_its_id() {
    let env = forge();
    project::delete(&env, 100).unwrap();
    project::save(&env, new_project(100, "n", 12)).unwrap();
    assert_eq!(project_at(&env, "guild/n"), "found guild/n");
    assert_eq!(project_at(&env, "acme/site"), "missing");
    project::save(&env, new_project(100, "m", 12)).unwrap();
    assert_eq!(project_at(&env, "guild/n"), "moved guild/m", "its own former path does");
    assert_eq!(project_at(&env, "acme/site"), "missing");
    project::save(&env, new_project(100, "site", 10)).unwrap();
    assert_eq!(project_at(&env, "acme/site"), "found Acme/site");
    project::save(&env, new_project(100, "m", 12)).unwrap();
    assert_eq!(project_at(&env, "acme/site"), "moved guild/m", "it was its path, too");

    namespace::delete_group(&env, 11).unwrap();
    save_group(&env, 11, "other", Some(12)).unwrap();
    assert_eq!(project_at(&env, "acme/core/engine"), "missing");
    save_group(&env, 11, "another", Some(12)).unwrap();
    assert_eq!(project_at(&env, "guild/other/engine"), "moved guild/another/Engine");

    user::delete(&env, 3).unwrap();
    user::save(&env, new_user(3, "robert")).unwrap();
    assert_eq!(project_at(&env, "robert/notes"), "found robert/notes");
    assert_eq!(project_at(&env, "bob/notes"), "missing");
}

#[test]
fn the_entry_of_a_record_in_place_of_a_deleted_one_is_written_once() {
    let store = MemoryStore::default();
    let env = kit::testing::env(store.clone(), &[]);
    crate::testing::fill(&env);
    let entry = || String::from_utf8(store.get("directory/v1/path/10/site").unwrap().unwrap()).unwrap();
    assert_eq!(entry(), r#"{"project":100}"#);
    project::delete(&env, 100).unwrap();
    let save = || project::save(&env, new_project(100, "site", 10)).unwrap();
    save();
    let written = entry();
    assert!(written.starts_with(r#"{"project":100,"incarnation":""#), "{written}");
    save();
    assert_eq!(entry(), written);
}

#[test]
fn a_refused_writer_takes_its_challenge_back() {
    let mut refused = 0;
    for seed in 0..20 {
        let behaviour = Behaviour { read: 100..3_000, write: 500..4_000, seen_after: 0, stalls: 0, stall: 0 };
        let simulation = Simulation::new(seed, behaviour);
        crate::testing::fill(&simulation.env(9));
        let save = |id| move |env: Env| project::save(&env, new_project(id, "race", 10)).is_err();
        let outcomes = simulation.run((500..504).map(save).collect());
        refused += outcomes.iter().filter(|refused| **refused).count();
        let entry = simulation.env(10).store.get("directory/v1/path/10/race").unwrap().unwrap();
        let entry = String::from_utf8(entry).unwrap();
        assert!(!entry.contains("challenge"), "seed {seed}: {entry}");
    }
    assert!(refused >= 20, "{refused}");
}

#[test]
fn a_renamed_user_takes_their_projects_along() {
    let env = forge();
    user::save(&env, new_user(3, "robert")).unwrap();
    assert_eq!(project_at(&env, "robert/notes"), "found robert/notes");
    assert_eq!(project_at(&env, "bob/notes"), "moved robert/notes");
    assert_eq!(user::find(&env, "bob").unwrap(), None);
}

#[test]
fn groups_do_not_nest_in_themselves_nor_without_end() {
    let env = forge();
    assert_eq!(save_group(&env, 10, "acme", Some(11)), Err(InvalidRecord::OwnAncestor(10).into()));
    assert_eq!(save_group(&env, 10, "acme", Some(10)), Err(InvalidRecord::OwnAncestor(10).into()));
    assert_eq!(save_group(&env, 20, "x", Some(4_000_000_003)), Err(InvalidRecord::NotAGroup(4_000_000_003).into()));
    assert_eq!(save_group(&env, 20, "x", Some(99)), Err(InvalidRecord::UnknownNamespace(99).into()));
    let mut parent = None;
    for id in 1000..1020 {
        save_group(&env, id, "level", parent).unwrap();
        parent = Some(id);
    }
    assert_eq!(save_group(&env, 1020, "level", parent), Err(InvalidRecord::TooDeep.into()));
    project::save(&env, new_project(300, "deep", 1019)).unwrap();
    let path = format!("{}deep", "level/".repeat(20));
    assert_eq!(project_at(&env, &path), format!("found {path}"));
}

#[test]
fn namespaces_and_projects_in_a_stored_cycle_are_not_found() {
    let env = forge();
    store::write(&env, &Key::Namespace(10), Some(store::NamespaceRecord::group(new_group(10, "acme", Some(11)))))
        .unwrap();
    assert_eq!((project::by_id(&env, 101).unwrap(), namespace::by_id(&env, 10).unwrap()), (None, None));
}

#[test]
fn a_namespace_id_cannot_change_its_owner() {
    let env = forge();
    assert_eq!(save_group(&env, 4_000_000_003, "x", None), Err(InvalidRecord::NamespaceIdTaken(4_000_000_003).into()));
    let other = user::NewUser { namespace_id: Some(10), ..new_user(5, "mallory") };
    assert_eq!(user::save(&env, other), Err(InvalidRecord::NamespaceIdTaken(10).into()));
    project::save(&env, new_project(100, "site", 10)).unwrap();
    assert_eq!(project_at(&env, "mallory/site"), "missing", "a refused record claims no path");
    // A namespace id stays when a later save does not give it.
    user::save(&env, user::NewUser { namespace_id: Some(77), ..new_user(6, "frank") }).unwrap();
    user::save(&env, new_user(6, "frank")).unwrap();
    assert_eq!(namespace_id(&env, "frank"), Some(77));
}

#[test]
fn saving_again_writes_nothing_and_lost_replies_do_no_harm() {
    let store = MemoryStore::default();
    let env = kit::testing::env(LostReplyStore::over(store.clone()), &[]);
    crate::testing::fill(&env);
    let before = store.snapshot().keys();
    crate::testing::fill(&env);
    assert_eq!(store.keys(), before);
    assert_eq!(project_at(&env, "acme/core/engine"), "found Acme/core/Engine");
}

#[test]
fn an_interrupted_save_is_completed_by_repeating_it() {
    let rename = |env: &Env| project::save(env, NewProject { ..new_project(101, "motor", 12) });
    let mut operations = 0;
    loop {
        let store = MemoryStore::default();
        crate::testing::fill(&kit::testing::env(store.clone(), &[]));
        let failing = kit::testing::FailingStore::after(operations, store.clone());
        let outcome = rename(&kit::testing::env(failing.clone(), &[]));
        let env = kit::testing::env(store, &[]);
        // After any failed operation, the project is found under the path in its record.
        let Some(now) = project::by_id(&env, 101).unwrap() else { panic!("lost after {operations}") };
        assert!(["Acme/core/Engine", "guild/motor"].contains(&now.full_path().as_str()));
        assert_eq!(project_at(&env, &now.full_path()), format!("found {}", now.full_path()));
        rename(&env).unwrap();
        assert_eq!(project_at(&env, "guild/motor"), "found guild/motor");
        assert_eq!(project_at(&env, "acme/core/engine"), "moved guild/motor");
        if !failing.failed() {
            outcome.unwrap();
            break;
        }
        assert!(outcome.is_err());
        operations += 1;
    }
    assert!(operations > 4, "every operation was made to fail once");
}
