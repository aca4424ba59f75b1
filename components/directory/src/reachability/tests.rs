mod singletons;
mod token_lists;
mod tree;

use super::*;
use crate::access::Role;
use crate::catalog;
use crate::catalog::changes::Changes;
use crate::catalog::intent_log::IntentLog;
use crate::dependents;
use crate::member::Source;
use crate::namespace;
use crate::path;
use crate::testing::{begin, change, fill, issue, issue_to, join, new_group, new_token};
use crate::token::Subject;
use kit::Timestamp;
use kit::gc::{self, GRACE, GcRequest};
use kit::store::Store as _;
use kit::testing::{FailingStore, MemoryStore, env};
use std::rc::Rc;

/// An environment over the store `after` milliseconds later.
fn later(env: &Env, after: i64) -> Env {
    let now = Timestamp::from_millis(env.now.millis() + after);
    Env { now, clock: Rc::new(now), instance_cache: Rc::default(), ..env.clone() }
}

fn rename(env: &Env, id: u64, path: &str) -> Result<(), crate::SaveError> {
    let mut changes = Changes::default();
    changes.group(id);
    let intent_log = IntentLog::begin(env, changes)?;
    dependents::save_group(env, new_group(id, path, None))?;
    Ok(intent_log.commit(env)?)
}

fn forge() -> (MemoryStore, Env) {
    let store = MemoryStore::default();
    let env = env(store.clone(), &[]);
    fill(&env);
    let name = |changes: &mut Changes| {
        (1..=4).for_each(|id| changes.user(id, None));
        (10..=12).for_each(|id| changes.group(id));
        (100..=103).for_each(|id| changes.project(id));
        changes.member(Source::Group(10), 2);
    };
    change(&env, name, || join(&env, 2, Source::Group(10), Role::Developer));
    issue_to(&env, "t", 1, &["api"]);
    for number in 0..10 {
        rename(&env, 10, &format!("acme{number}")).unwrap();
    }
    (store, env)
}

fn sweep(env: &Env) -> Result<u64, StepError> {
    let (mut request, mut removed) = (GcRequest { no_wait: true, ..GcRequest::default() }, 0);
    loop {
        let step = gc::step(env, &DirectoryRoots::new(env), &request)?;
        removed += step.removed;
        request.cursor = step.cursor;
        if request.cursor.is_none() {
            return Ok(removed);
        }
    }
}

#[test]
fn maintenance_does_the_last_step_of_interrupted_writers() {
    let (_, env) = forge();
    let begin = |path: &str| {
        let _log = begin(&env, |changes| changes.group(10));
        dependents::save_group(&env, new_group(10, path, None)).unwrap();
    };
    let listed = || {
        let env = later(&env, 0);
        catalog::read(&env).unwrap().namespace(10).unwrap().full_path()
    };
    begin("before-fsck");
    assert_eq!(listed(), "acme9");
    assert_eq!(problems(&env), [""; 0]);
    assert_eq!(listed(), "before-fsck");
    begin("before-gc");
    let dry_run = GcRequest { dry_run: true, ..GcRequest::default() };
    DirectoryRoots::new(&env).collect(&env, &dry_run).unwrap();
    assert_eq!(listed(), "before-fsck", "it changes nothing");
    DirectoryRoots::new(&env).collect(&env, &GcRequest::default()).unwrap();
    assert_eq!(listed(), "before-gc");
}

fn problems(env: &Env) -> Vec<String> {
    texts(env).into_iter().map(|(key, _)| key).collect()
}

/// Keys and problems.
fn texts(env: &Env) -> Vec<(String, String)> {
    let (mut cursor, mut found) = (None, Vec::new());
    loop {
        let checked = DirectoryRoots::new(env).check(env, cursor.as_deref()).unwrap();
        found.extend(checked.problems.into_iter().map(|problem| (problem.key, problem.problem)));
        cursor = checked.cursor;
        if cursor.is_none() {
            return found;
        }
    }
}

fn blobs(store: &MemoryStore) -> usize {
    store.keys().iter().filter(|key| key.contains("/catalog/blob/")).count()
}

#[test]
fn blobs_of_former_revisions_are_removed() {
    let (store, env) = forge();
    for operations in 5..15 {
        let failing = FailingStore::after(operations, store.clone());
        assert!(rename(&Env { store: Rc::new(failing), ..env.clone() }, 10, "other").is_err());
    }
    assert_eq!(sweep(&env), Ok(0), "everything is young");
    let late = later(&env, GRACE + 1000);
    let before = blobs(&store);
    let removed = sweep(&late).unwrap();
    assert!(removed >= 18, "two for each change but the last: {removed}");
    assert_eq!(blobs(&store) as u64, before as u64 - removed);
    assert_eq!(problems(&late), [""; 0]);
    rename(&late, 10, "late").unwrap();
    let group = namespace::find_group(&late, "late").unwrap().unwrap();
    assert_eq!(group.id, 10);
    assert!(catalog::read(&late).is_ok());
    assert_eq!(sweep(&late), Ok(2), "those that the last revision replaced");
}

#[test]
fn the_blob_of_an_abandoned_intent_is_kept() {
    let (store, env) = forge();
    drop(begin(&env, |changes| changes.group(11)));
    sweep(&later(&env, GRACE + 1000)).unwrap();
    let before = blobs(&store);
    rename(&later(&env, GRACE + 1000), 10, "next").unwrap();
    assert!(blobs(&store) >= before, "the intent's blob was there to be committed");
    assert_eq!(problems(&env), [""; 0]);
}

#[test]
fn a_damaged_intent_ends_every_commit_until_a_repair() {
    for damage in [Some("x"), Some(""), Some("null"), Some("{\"namespaces\":[11"), None] {
        let (store, env) = forge();
        // Its writer dies before it updates the catalog.
        drop(begin(&env, |changes| changes.group(11)));
        dependents::save_group(&env, new_group(11, "renamed", Some(10))).unwrap();
        let intents: Vec<Intent> = store::read(&env, &Key::CatalogChanges).unwrap().unwrap();
        let key = Key::CatalogBlob(&intents[0].blob).to_string();
        match damage {
            Some(bytes) => store.set(&key, bytes.as_bytes()).unwrap(),
            None => store.delete(&key).unwrap(),
        }
        for minutes in [1, 60] {
            let outcome = rename(&later(&env, minutes * 60_000), 12, "guild2");
            let Err(crate::SaveError::Store(StoreError::Corrupt { key: damaged, .. })) = outcome else {
                panic!("{damage:?} {minutes}: {outcome:?}")
            };
            assert_eq!(damaged, key);
        }
        let env = later(&env, 61 * 60_000);
        assert_eq!(problems(&env), [key.as_str()], "{damage:?}");
        assert_eq!(repair(&env), 0);
        assert_eq!(problems(&env), [""; 0], "{damage:?}");
        rename(&env, 12, "guild3").unwrap();
        let catalog = catalog::read(&env).unwrap();
        assert_eq!([11, 12].map(|id| catalog.namespace(id).unwrap().path()), ["renamed", "guild3"]);
    }
}

#[test]
fn every_damaged_record_and_blob_is_reported() {
    let (store, env) = forge();
    let env = later(&env, GRACE + 1000);
    sweep(&env).unwrap();
    for key in store.keys().iter().filter(|key| !key.ends_with("/init")) {
        let good = store.get(key).unwrap().unwrap();
        store.set(key, &good[..good.len() / 2]).unwrap();
        // The list of a token's user names the token.
        let is_token = key.contains("/token/");
        let expected = if is_token { vec![Key::HIDDEN_TOKEN, "directory/v1/tokens/1"] } else { vec![key.as_str()] };
        assert_eq!(problems(&env), expected);
        store.set(key, &good).unwrap();
    }
    store.set("directory/v1/catalog", b"x").unwrap();
    assert!(matches!(sweep(&env), Err(StepError::Store(StoreError::Corrupt { .. }))));
}

fn repair(env: &Env) -> u64 {
    repaired(env).len() as u64
}

/// Keys and problems.
fn repaired(env: &Env) -> Vec<(String, String)> {
    repaired_by(|cursor| DirectoryRoots::new(env).repair(env, cursor).unwrap())
}

fn repaired_by(step: impl Fn(Option<&str>) -> CheckReport) -> Vec<(String, String)> {
    let (mut cursor, mut found) = (None, Vec::new());
    loop {
        let step = step(cursor.as_deref());
        found.extend(step.problems.into_iter().map(|problem| (problem.key, problem.problem)));
        cursor = step.cursor;
        if cursor.is_none() {
            return found;
        }
    }
}

#[test]
fn a_catalog_and_paths_that_do_not_agree_with_the_records_are_reported_and_repaired() {
    let (store, env) = forge();
    assert_eq!(problems(&env), [""; 0]);
    // Changes without an intent.
    dependents::save_group(&env, new_group(11, "renamed", Some(10))).unwrap();
    crate::project::delete(&env, 102).unwrap();
    join(&env, 2, Source::Group(12), Role::Guest);
    store.set("directory/v1/path/10/site", br#"{"namespace":12}"#).unwrap();
    store.set("directory/v1/path/0/guild", br#"{"namespace":12,"challenge":"x"}"#).unwrap();
    // The challenge of an interrupted writer is no damage.
    let expected = ["access/2", "namespace/11", "project/100", "project/102"];
    assert_eq!(problems(&env), expected.map(|name| format!("{PREFIX}{name}")));
    assert_eq!(repair(&env), 0);
    assert_eq!(problems(&env), [""; 0]);
    assert!(matches!(path::owner(&env, Some(10), "site"), Ok(Some((path::PathOwner::Project(100), _)))));
    assert_eq!(store.get("directory/v1/path/0/guild").unwrap().unwrap(), br#"{"namespace":12}"#);
    let catalog = catalog::read(&env).unwrap();
    assert_eq!(catalog.namespace(11).unwrap().path(), "renamed");
    assert!(catalog.project(102).is_none());

    // Two records at one path cannot be repaired.
    let record = store.get("directory/v1/project/100").unwrap().unwrap();
    store.set("directory/v1/project/104", &record).unwrap();
    assert_eq!(repair(&env), 1);
    assert_eq!(problems(&env), [format!("{PREFIX}project/104")]);
}

#[test]
fn records_below_a_missing_namespace_or_too_deep_are_reported() {
    let (store, env) = forge();
    let record = |id: u64, parent_id: u64| {
        format!(r#"{{"name":"x","path":"g{id}","parent_id":{parent_id},"visibility":"public"}}"#)
    };
    let set = |id: u64, parent_id: u64| {
        store.set(&format!("{PREFIX}namespace/{id}"), record(id, parent_id).as_bytes()).unwrap();
        repair(&env);
    };
    set(11, 99);
    let text =
        "namespace 99, which it is below, is not there; import that again, or this with another one, or as deleted";
    let expected = ["namespace/11", "project/101"].map(|name| (format!("{PREFIX}{name}"), text.to_owned()));
    assert_eq!(texts(&env), expected);
    (20..39).for_each(|id| set(id, if id == 20 { 10 } else { id - 1 }));
    set(11, 37);
    assert_eq!(problems(&env), [""; 0], "20 levels");
    set(11, 38);
    assert_eq!(problems(&env), ["namespace/11", "project/101"].map(|name| format!("{PREFIX}{name}")));
}

#[test]
fn a_catalog_that_cannot_be_read_is_derived_anew() {
    let (store, env) = forge();
    for key in store.keys().iter().filter(|key| key.contains("/catalog/blob/")) {
        store.set(key, b"x").unwrap();
    }
    let fresh = Env { instance_cache: Rc::default(), ..env.clone() };
    assert!(catalog::read(&fresh).is_err() && !problems(&fresh).is_empty());
    assert_eq!(repair(&fresh), 0);
    assert_eq!(problems(&fresh), [""; 0]);
    assert_eq!(catalog::read(&fresh).unwrap().projects().count(), 4);
}

#[test]
fn a_record_whose_change_is_announced_is_no_problem() {
    let (_, env) = forge();
    let intent_log = begin(&env, |changes| changes.group(10));
    dependents::save_group(&env, new_group(10, "soon", None)).unwrap();
    assert_eq!(problems(&env), [""; 0]);
    intent_log.commit(&env).unwrap();
    assert_eq!(problems(&env), [""; 0]);
}

#[test]
fn a_batch_that_took_too_long_makes_no_revision() {
    let (_, env) = forge();
    let slow = Env { clock: later(&env, GRACE).clock, ..env };
    assert!(matches!(rename(&slow, 10, "slow"), Err(crate::SaveError::Store(StoreError::TooLate))));
}

#[test]
fn unreadable_derived_records_are_rebuilt_or_removed() {
    for name in ["path/0/acme9", "path/10/site", "catalog", "catalog/changes"] {
        let (store, env) = forge();
        let key = format!("{PREFIX}{name}");
        store.set(&key, b"garbage").unwrap();
        let fresh = Env { instance_cache: Rc::default(), ..env };
        assert_eq!(problems(&fresh), [&*key]);
        assert_eq!(repaired(&fresh), [], "{name}");
        assert_eq!(problems(&fresh), [""; 0], "{name}");
        let catalog = catalog::read(&fresh).unwrap();
        assert_eq!((catalog.namespace(10).unwrap().path(), catalog.projects().count()), ("acme9", 4), "{name}");
        assert!(rename(&fresh, 10, "usable").is_ok(), "{name}");
    }
    // A former path is only in its entry.
    let (store, env) = forge();
    let key = format!("{PREFIX}path/0/acme3");
    store.set(&key, b"garbage").unwrap();
    let text = "the path entry could not be read, and is removed: no record has this path";
    assert_eq!(repaired(&env), [(key, text.to_owned())]);
    assert_eq!((problems(&env), repair(&env)), (vec![], 0));
}

#[test]
fn a_record_that_cannot_be_read_does_not_end_a_repair() {
    for name in ["project/100", "namespace/10", "access/2"] {
        let (store, env) = forge();
        let key = format!("{PREFIX}{name}");
        let good = store.get(&key).unwrap().unwrap();
        store.set(&key, b"garbage").unwrap();
        store.set("directory/v1/path/10/core", b"garbage").unwrap();
        assert_eq!(repaired(&env).into_iter().map(|(key, _)| key).collect::<Vec<_>>(), [&*key]);
        assert_eq!(problems(&env), [&*key], "the path is mended");
        store.set(&key, &good).unwrap();
        assert_eq!(problems(&env), [""; 0], "what is derived from the record was kept");
    }
}

fn lose(store: &MemoryStore, name: &str) {
    for key in [format!("{PREFIX}{name}"), format!("{PREFIX}{name}/init")] {
        store.delete(&key).unwrap();
    }
}

#[test]
fn entries_of_a_missing_record_are_reported_and_removed() {
    for (name, entry, owner) in
        [("project/100", "path/10/site", "project 100"), ("namespace/12", "path/0/guild", "namespace 12")]
    {
        let (store, env) = forge();
        lose(&store, name);
        let catalog = "the record is missing, and the catalog has it; import it again, or remove what is left of it by \
                       `hexad fsck --repair`";
        let path = format!(
            "the path entry has {owner}, whose record is missing; import it again, or remove the entry by `hexad fsck --repair`"
        );
        let key = |name: &str| format!("{PREFIX}{name}");
        assert_eq!(texts(&env), [(key(name), catalog.to_owned()), (key(entry), path)]);
        let catalog = "the record is missing, and is removed from the catalog".to_owned();
        let path = format!("the path entry had {owner}, whose record is missing, and is removed");
        assert_eq!(repaired(&env), [(key(name), catalog), (key(entry), path)]);
        assert_eq!((problems(&env), repair(&env)), (vec![], 0), "{name}");
        assert!(store.get(&key(entry)).unwrap().is_some_and(|entry| entry == b"null"), "{entry}");
    }
}

#[test]
fn a_path_of_a_lost_record_that_another_has_leads_to_that() {
    let (store, env) = forge();
    let record = store.get("directory/v1/project/100").unwrap().unwrap();
    lose(&store, "project/100");
    store.set("directory/v1/project/104", &record).unwrap();
    repair(&env);
    assert_eq!(problems(&env), [""; 0]);
    assert!(matches!(path::owner(&env, Some(10), "site"), Ok(Some((path::PathOwner::Project(104), _)))));
}

#[test]
fn a_lost_user_and_lost_memberships_are_reported() {
    let (store, env) = forge();
    lose(&store, "access/2");
    assert_eq!(problems(&env), [format!("{PREFIX}access/2")]);
    repair(&env);
    assert_eq!(problems(&env), [""; 0]);
    lose(&store, "user/2");
    repair(&env);
    let text = "it belongs to user 2, whose record is missing; import the user again".to_owned();
    let namespace = crate::user::default_namespace(2);
    assert_eq!(texts(&env), [(format!("{PREFIX}namespace/{namespace}"), text)]);
}

#[test]
fn deleted_and_pending_records_are_not_missing() {
    let (store, env) = forge();
    let name = |changes: &mut Changes| {
        changes.delete_project(100);
        changes.project(105);
    };
    let _intent_log = begin(&env, name);
    dependents::delete_project(&env, 100).unwrap();
    store.set("directory/v1/path/10/soon", br#"{"project":105}"#).unwrap();
    assert_eq!(problems(&env), [""; 0]);
    assert_eq!(repair(&env), 0);
    assert!(store.get("directory/v1/path/10/soon").unwrap().is_some_and(|entry| entry != b"null"));
    assert_eq!(store.get("directory/v1/path/10/site").unwrap().unwrap(), br#"{"project":100}"#);
}

/// Names below a path outlive its owner ([`path::is_or_was_path`]).
#[test]
fn paths_of_deleted_records_survive_collections_and_repairs() {
    let (store, env) = forge();
    change(&env, |changes| changes.delete_group(10), || dependents::delete_group(&env, 10).unwrap());
    change(&env, |changes| changes.delete_user(3), || dependents::delete_user(&env, 3).unwrap());
    lose(&store, "namespace/12");
    store.set("directory/v1/path/0/acme3", b"garbage").unwrap();
    let known = |path| path::is_or_was_path(&env, None, path);
    let paths = ["acme", "ACME9", "acme3", "bob", "guild"];
    let check = || paths.iter().for_each(|path| assert_eq!(known(path), Ok(true), "{path}"));
    check();
    repair(&env);
    assert_eq!((sweep(&later(&env, GRACE + 1000)).is_ok(), problems(&env)), (true, vec![]));
    check();
    for path in ["core", "site", "nobody"] {
        assert_eq!(known(path), Ok(false), "{path} was never at the top level");
    }
    assert!(rename(&env, 20, "acme").is_ok() && rename(&env, 20, "bob").is_ok(), "the paths are free");
}
