//! Groups and projects that earlier builds left outside of the tree, and their repair.

use super::*;
use crate::catalog::intent_log::DanglingPolicy;
use crate::feature::{self, Actor};
use crate::member::Membership;
use crate::project::{self, ProjectLookup};
use crate::testing::{new_project, set_membership};

fn key(name: &str) -> String {
    format!("{PREFIX}{name}")
}

fn commit(env: &Env, add: impl FnOnce(&mut Changes)) {
    begin(env, add).update_catalog(env, DanglingPolicy::Keep).unwrap();
}

/// Stores a group below another one, as two writers did that did not see each other's move.
fn set_group(store: &MemoryStore, id: u64, path: &str, parent_id: u64) {
    let record = format!(r#"{{"name":"x","path":"{path}","parent_id":{parent_id},"visibility":"private"}}"#);
    store.set(&key(&format!("namespace/{id}")), record.as_bytes()).unwrap();
    store.set(&key(&format!("path/{parent_id}/{path}")), format!(r#"{{"namespace":{id}}}"#).as_bytes()).unwrap();
}

/// Deletes only a group's record, as if another host put a group or project below it at the same time.
fn delete_alone(store: &MemoryStore, env: &Env, id: u64) {
    set_membership(env, 2, Source::Group(10), None);
    store.set(&key(&format!("namespace/{id}")), b"null").unwrap();
    commit(env, |changes| {
        changes.group(id);
        changes.member(Source::Group(10), 2);
    });
}

#[test]
fn repair_deletes_groups_and_projects_below_a_deleted_namespace() {
    let (store, env) = forge();
    let developer = Some(Membership { role: Role::Developer, expires_at: None });
    for source in [Source::Group(11), Source::Project(101), Source::Project(100), Source::Group(12)] {
        set_membership(&env, 3, source, developer);
        commit(&env, |changes| changes.member(source, 3));
    }
    let actors = [Actor::Group(11), Actor::Project(101), Actor::Group(12)];
    feature::save(&env, "beta", |gates| gates.actors = actors.iter().map(Actor::to_string).collect()).unwrap();
    delete_alone(&store, &env, 10);
    let text = "it is below namespace 10, which is deleted; `hexad fsck --repair` deletes it too; to keep it, import it \
                again with another namespace before";
    let orphans = ["namespace/11", "project/100", "project/101", "project/102"];
    assert_eq!(texts(&env), orphans.map(|name| (key(name), text.to_owned())));

    let text = "it was below namespace 10, which is deleted, and is deleted with it";
    let orphans = ["namespace/11", "project/101", "project/100", "project/102"];
    assert_eq!(repaired(&env), orphans.map(|name| (key(name), text.to_owned())));
    assert_eq!((problems(&env), repair(&env)), (vec![], 0));
    for name in orphans {
        assert_eq!(store.get(&key(name)).unwrap().as_deref(), Some(&b"null"[..]), "{name}");
    }
    let held = crate::member::of_user(&env, 3).unwrap();
    assert_eq!(held.0.into_keys().collect::<Vec<_>>(), [Source::Group(12)]);
    assert_eq!(feature::all(&env).unwrap()["beta"].actors.len(), 1);

    // The deleted groups and projects do not come back with the next group with the id.
    commit(&env, |changes| changes.group(10));
    dependents::save_group(&env, new_group(10, "next", None)).unwrap();
    commit(&env, |changes| changes.group(10));
    let listed: Vec<u64> = catalog::read(&env).unwrap().projects().map(|project| project.id()).collect();
    assert_eq!((listed, problems(&env)), (vec![103], vec![]));
}

#[test]
fn repair_deletes_projects_of_a_deleted_personal_namespace() {
    let (store, env) = forge();
    delete_alone(&store, &env, crate::user::default_namespace(3));
    store.set(&key("user/3"), b"null").unwrap();
    assert_eq!(problems(&env), [key("project/103")]);
    assert_eq!(repair(&env), 1);
    assert_eq!((problems(&env), project::existence(&env, 103)), (vec![], Ok(project::Existence::Deleted)));
}

#[test]
fn roles_and_invitations_that_were_stored_for_deleted_records_end() {
    let (store, env) = forge();
    let share = r#"[{"group_id":12,"role":30},{"group_id":10,"role":30},{"group_id":99,"role":30}]"#;
    for (name, record) in [
        (
            "namespace/11",
            format!(r#"{{"name":"x","path":"core","parent_id":10,"visibility":"private","shares":{share}}}"#),
        ),
        ("access/3", r#"{"groups":{"10":{"role":30},"12":{"role":30},"99":{"role":30}},"projects":{}}"#.to_owned()),
    ] {
        store.set(&key(name), record.as_bytes()).unwrap();
    }
    for name in ["namespace/12", "namespace/4000000002", "user/2"] {
        store.set(&key(name), b"null").unwrap();
    }
    commit(&env, |changes| {
        [11, 12, 4_000_000_002].into_iter().for_each(|id| changes.group(id));
        [10, 12, 99].into_iter().for_each(|id| changes.member(Source::Group(id), 3));
    });
    let expected = |text: &dyn Fn(&str) -> String| {
        [
            ("access/2", "the role in group 10: that or the user is deleted"),
            ("access/3", "the role in group 12: that or the user is deleted"),
            ("namespace/11", "the invitation of group 12, which is deleted"),
        ]
        .map(|(name, description)| (key(name), text(description)))
    };
    assert_eq!(texts(&env), expected(&|description| format!("it has {description}; `hexad fsck --repair` removes it")));
    assert_eq!(repaired(&env), expected(&|description| format!("it had {description}, and is without it now")));
    assert_eq!((problems(&env), repair(&env)), (vec![], 0));
    let held = |user_id| crate::member::of_user(&env, user_id).unwrap().0.into_keys().collect::<Vec<_>>();
    assert_eq!((held(2), held(3)), (vec![], vec![Source::Group(10), Source::Group(99)]));
    let shares = namespace::by_id(&env, 11).unwrap().unwrap().shares;
    assert_eq!(shares.iter().map(|share| share.group_id).collect::<Vec<_>>(), [10, 99]);
}

#[test]
fn a_feature_that_was_stored_for_deleted_records_is_not_on_for_them() {
    let (store, env) = forge();
    let actors = ["User:4", "Group:12", "Project:102", "User:3", "Group:10", "Project:99", "Role:4"].map(str::to_owned);
    feature::save(&env, "f", |gates| gates.actors = actors.clone().into()).unwrap();
    feature::save(&env, "g", |gates| (gates.boolean, gates.actors) = (true, ["User:4".to_owned()].into())).unwrap();
    for name in ["namespace/12", "namespace/4000000004", "project/102", "user/4"] {
        store.set(&key(name), b"null").unwrap();
    }
    commit(&env, |changes| {
        [12, 4_000_000_004].into_iter().for_each(|id| changes.group(id));
        changes.project(102);
    });
    let expected = |text: &dyn Fn(&str, &str) -> String| {
        [("f", "group 12"), ("f", "project 102"), ("f", "user 4"), ("g", "user 4")]
            .map(|(feature, actor)| (key("features"), text(feature, actor)))
    };
    let found = |feature: &str, actor: &str| {
        format!("feature `{feature}` is on for {actor}, which is deleted; `hexad fsck --repair` removes it")
    };
    let mended = |feature: &str, actor: &str| {
        format!("feature `{feature}` was on for {actor}, which is deleted, and is not any more")
    };
    assert_eq!(texts(&env), expected(&found));
    assert_eq!(repaired(&env), expected(&mended));
    assert_eq!((problems(&env), repair(&env)), (vec![], 0));
    let left = |name: &str| feature::all(&env).unwrap()[name].actors.iter().cloned().collect::<Vec<_>>();
    assert_eq!(left("f"), ["Group:10", "Project:99", "Role:4", "User:3"]);
    assert_eq!((left("g"), feature::is_enabled(&env, "g", None)), (vec![], Ok(true)));
}

#[test]
fn a_feature_of_a_record_that_a_writer_is_about_to_write_is_no_problem() {
    let (store, env) = forge();
    feature::save(&env, "f", |gates| gates.actors = ["Project:102".to_owned()].into()).unwrap();
    store.set(&key("project/102"), b"null").unwrap();
    commit(&env, |changes| changes.project(102));
    assert_eq!(problems(&env), [key("features")]);
    let _importing = begin(&env, |changes| changes.project(102));
    assert_eq!(problems(&env), [""; 0]);
}

#[test]
fn an_orphan_that_was_imported_elsewhere_or_cannot_be_deleted_stays() {
    let (store, env) = forge();
    delete_alone(&store, &env, 10);
    commit(&env, |changes| changes.project(100));
    project::save(&env, new_project(100, "site", 12)).unwrap();
    commit(&env, |changes| changes.project(100));
    let good = store.get(&key("project/102")).unwrap().unwrap();
    store.set(&key("project/102"), b"garbage").unwrap();
    let found = repaired(&env).into_iter().map(|(key, _)| key).collect::<Vec<_>>();
    assert_eq!(found, ["project/102", "project/102", "namespace/11", "project/101"].map(key));
    store.set(&key("project/102"), &good).unwrap();
    repair(&env);
    assert_eq!((problems(&env), repair(&env)), (vec![], 0));
    assert_eq!(project::existence(&env, 102), Ok(project::Existence::Deleted));
    assert!(matches!(project::find(&env, "guild/site"), Ok(ProjectLookup::Found(_))));
}

#[test]
fn the_youngest_group_of_a_cycle_gets_to_the_top_level_with_everything_that_is_stored() {
    let (store, env) = forge();
    set_group(&store, 10, "acme", 11);
    commit(&env, |changes| changes.group(10));
    assert_eq!(catalog::read(&env).unwrap().projects().count(), 1);
    let text = "groups 11, 10 are above themselves; `hexad fsck --repair` moves group 11 to the top level; to choose, \
                import one of them again with another parent";
    let found = texts(&env);
    assert_eq!(found.len(), 5, "two groups and three projects: {found:?}");
    assert!(found.contains(&(key("namespace/10"), text.to_owned())), "{found:?}");
    let text = "groups 10, 11 were above themselves, and group 11 is at the top level now, as `core`; if it belongs \
                elsewhere, import it again with another parent";
    assert_eq!(repaired(&env), [(key("namespace/11"), text.to_owned())]);
    assert_eq!((problems(&env), repair(&env)), (vec![], 0));
    for path in ["core/acme/site", "core/Engine", "core/acme/tools"] {
        assert!(matches!(project::find(&env, path), Ok(ProjectLookup::Found(_))), "{path}");
    }
    assert_eq!(catalog::read(&env).unwrap().projects().count(), 4);
    assert_eq!(catalog::read(&env).unwrap().namespace(10).unwrap().full_path(), "core/acme");
}

#[test]
fn a_group_that_leaves_a_cycle_takes_no_path_that_leads_elsewhere() {
    let (store, env) = forge();
    // `acme0` is a former path of group 10.
    for (path, taken) in [("guild", "guild-20"), ("acme0", "acme0-20")] {
        set_group(&store, 20, path, 20);
        set_group(&store, 21, "below", 20);
        [20, 21].into_iter().for_each(|id| commit(&env, |changes| changes.group(id)));
        assert_eq!(problems(&env), ["namespace/20", "namespace/21"].map(key));
        assert_eq!(repair(&env), 1);
        assert_eq!(problems(&env), [""; 0]);
        let below = namespace::find_group(&env, &format!("{taken}/below")).unwrap();
        assert_eq!(below.map(|group| group.id), Some(21), "{path}");
    }
    // If every possible path is taken, the group stays and is reported.
    set_group(&store, 20, "x", 20);
    commit(&env, |changes| changes.group(20));
    for segment in ["x", "x-20", "group-20"] {
        store.set(&key(&format!("path/0/{segment}")), br#"{"namespace":12}"#).unwrap();
    }
    assert_eq!(repair(&env), 1);
    assert_eq!(problems(&env), ["namespace/20", "namespace/21"].map(key));
}

#[test]
fn a_repair_of_the_tree_that_broke_off_can_be_repeated() {
    for operations in 0..2000 {
        let (store, env) = forge();
        set_group(&store, 30, "ring", 31);
        set_group(&store, 31, "ring", 30);
        [30, 31].into_iter().for_each(|id| commit(&env, |changes| changes.group(id)));
        delete_alone(&store, &env, 10);
        let failing = FailingStore::after(operations, store.clone());
        let dying = kit::testing::env(failing.clone(), &[]);
        dying.entropy.fill(&mut [0; 1 << 16]);
        let mut cursor = None;
        while let Ok(step) = DirectoryRoots::new(&dying).repair(&dying, cursor.as_deref()) {
            cursor = step.cursor;
            if cursor.is_none() {
                break;
            }
        }
        let next = Env { instance_cache: Rc::default(), ..kit::testing::env(store.clone(), &[]) };
        next.entropy.fill(&mut [0; 1 << 17]);
        repair(&next);
        assert_eq!(problems(&next), [""; 0], "{operations}");
        assert_eq!(namespace::by_id(&next, 30).unwrap().unwrap().full_path(), "ring/ring", "{operations}");
        let listed: Vec<u64> = catalog::read(&next).unwrap().projects().map(|project| project.id()).collect();
        assert_eq!(listed, [103], "{operations}");
        if !failing.failed() {
            assert!(operations > 50, "{operations}");
            return;
        }
    }
    panic!("every attempt broke off");
}
