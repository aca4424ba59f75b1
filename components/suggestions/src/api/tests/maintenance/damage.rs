//! Garbage collection with damaged records.

use super::*;

/// Imports a repository, and deletes its branch `topic`. Returns the commit that only this branch had.
fn with_garbage(forge: &Forge, project: u64) -> String {
    let repository = example();
    repository.write("gone", b"gone\n");
    let tip = repository.commit("gone");
    forge.import(project, &repository);
    forge.delete_branch(project, "topic");
    tip
}

fn has(forge: &Forge, project: u64, id: &str) -> bool {
    forge.store.keys().iter().any(|key| key.ends_with(&format!("/{project}/{id}")))
}

/// Collects until both semispaces were swept. Returns the problems in the reports.
fn collect(timed: &TimedForge) -> Vec<String> {
    let day = |_| {
        timed.advance(25 * HOUR);
        let (failed, problems) = timed.run("gc", "failed");
        assert_eq!(failed, problems.len() as u64);
        problems
    };
    (0..8).flat_map(day).collect()
}

/// Collects, and all problems in the reports name this record.
#[track_caller]
fn assert_stopped(timed: &TimedForge, record: &str) {
    let problems = collect(timed);
    assert!(!problems.is_empty() && problems.iter().all(|problem| problem.contains(record)), "{problems:?}");
}

#[test]
fn of_a_damaged_repository_nothing_is_removed_and_the_others_are_collected() {
    let timed = TimedForge::new();
    let forge = &timed.forge;
    let [tip, other] = [PUBLIC, PRIVATE].map(|project| with_garbage(forge, project));
    let lost = forge.clone(PUBLIC).text(&["rev-parse", "main:a.txt"]);
    let key = format!("suggestions/v1/object/{PUBLIC}/{lost}");
    let good = forge.store.get(&key).unwrap().unwrap();
    forge.store.delete(&key).unwrap();
    assert_stopped(&timed, &lost);
    assert!(has(forge, PUBLIC, &tip), "of the damaged repository");
    assert!(!has(forge, PRIVATE, &other), "of the other one");
    forge.clone(PRIVATE);

    forge.store.set(&key, &good).unwrap();
    assert_eq!(collect(&timed), [""; 0]);
    assert!(!has(forge, PUBLIC, &tip));
    timed.is_sound();
    forge.clone(PUBLIC);
}

#[test]
fn no_pack_is_removed_while_a_list_of_packs_cannot_be_read() {
    let timed = TimedForge::new();
    let forge = &timed.forge;
    let id = timed.env().id();
    let pack = format!("suggestions/v1/pack/{id}/0");
    forge.store.set(&pack, b"of a request that died").unwrap();
    let list = format!("suggestions/v1/packs/{PRIVATE}");
    forge.store.set(&list, b"{").unwrap();
    let problems = collect(&timed);
    assert!(problems.iter().all(|problem| problem.contains(&list)) && problems.len() == 8, "{problems:?}");
    assert!(forge.store.keys().contains(&pack));
    forge.store.delete(&list).unwrap();
    assert_eq!(collect(&timed), [""; 0]);
    assert!(!forge.store.keys().contains(&pack));
}

/// A forge whose two repositories are in packs, and packs of requests that died. Nothing is loose.
fn pushed() -> TimedForge {
    let timed = TimedForge::of(Forge::new());
    for project in [PUBLIC, PRIVATE] {
        let repository = example();
        timed.forge.git(&repository, project, "root", &["push", "-q", "URL", "main"]).unwrap();
        repository.write("a.txt", b"newer\n");
        repository.commit("newer");
        timed.forge.git(&repository, project, "root", &["push", "-q", "URL", "topic"]).unwrap();
    }
    timed
}

fn list_of(project: u64) -> String {
    format!("suggestions/v1/packs/{project}")
}

/// Damages the store, collects, and restores what was damaged. Then the repositories must be whole.
#[track_caller]
fn assert_kept(timed: &TimedForge, key: &str, damaged: Option<&[u8]>) {
    let good = timed.forge.store.get(key).unwrap().unwrap();
    match damaged {
        Some(bytes) => timed.forge.store.set(key, bytes).unwrap(),
        None => timed.forge.store.delete(key).unwrap(),
    }
    let found = timed.run("fsck", "failed").1;
    assert!(found.iter().any(|problem| problem.starts_with(&format!("\"{key}\""))), "{found:?}");
    let problems = collect(timed);
    assert!(problems.len() >= 8 && problems.iter().all(|problem| problem.contains(key)), "{problems:?}");
    timed.forge.store.set(key, &good).unwrap();
    timed.is_sound();
    [PUBLIC, PRIVATE].iter().for_each(|project| drop(timed.forge.clone(*project)));
    assert_eq!(collect(timed), [""; 0]);
}

/// The list is lost, has lost all packs, or lacks one that others build on.
#[test]
fn no_pack_is_removed_while_a_list_of_packs_has_lost_some() {
    let timed = pushed();
    let mut less: Value = serde_json::from_slice(&timed.forge.store.get(&list_of(PUBLIC)).unwrap().unwrap()).unwrap();
    assert_eq!(less["packs"].as_array().unwrap().len(), 2);
    less["packs"].as_array_mut().unwrap().remove(0);
    for left in [None, Some(json!({"packs": []})), Some(less)] {
        let list = left.map(|list| list.to_string());
        assert_kept(&timed, &list_of(PUBLIC), list.as_deref().map(str::as_bytes));
    }
}

#[test]
fn a_repository_without_a_list_of_packs_is_sound_as_long_as_nothing_needs_one() {
    // Its objects are loose, as those of earlier builds.
    let timed = TimedForge::new();
    assert!(!timed.forge.store.keys().contains(&list_of(PUBLIC)));
    timed.is_sound();
    assert_eq!(collect(&timed), [""; 0]);
    // A push that died anywhere before it listed its pack.
    let repository = example();
    let packs = |store: &MemoryStore| store.keys().iter().filter(|key| key.contains("/pack")).count();
    let mut unlisted = 0;
    timed.forge.fail_at_each_operation(|_, copy, failing| {
        let env = timed.env_over(failing.clone());
        let _ = timed.forge.git_over(env, &repository, PRIVATE, "root", &["push", "-q", "URL", "main"]);
        let after = TimedForge { forge: copy.over(copy.store.clone()), now: timed.now.clone() };
        if !failing.failed() {
            return;
        }
        after.is_sound();
        if after.forge.store.keys().contains(&list_of(PRIVATE)) {
            return;
        }
        let written = packs(&after.forge.store);
        after.advance(GRACE + HOUR);
        assert_eq!(after.run("gc", "failed"), (0, vec![]));
        unlisted += usize::from(packs(&after.forge.store) < written);
    });
    assert!(unlisted > 0, "a pack that no list names is garbage");
    // A deleted project whose list was removed first.
    let timed = pushed();
    timed.forge.store.delete(&list_of(PUBLIC)).unwrap();
    dependents::delete_project(&timed.forge.env(), PUBLIC).unwrap();
    timed.is_sound();
    assert_eq!(collect(&timed), [""; 0]);
}

/// The objects that only this branch has would be taken for garbage.
#[test]
fn nothing_of_a_repository_is_removed_while_a_branch_is_lost() {
    let timed = TimedForge::new();
    let forge = &timed.forge;
    let repository = example();
    repository.write("kept", b"kept\n");
    let tip = repository.commit("kept");
    forge.import(PUBLIC, &repository);
    let key = format!("suggestions/v1/ref/{PUBLIC}/heads%2Ftopic");
    let good = forge.store.get(&key).unwrap().unwrap();
    forge.store.delete(&key).unwrap();
    assert_stopped(&timed, &key);
    forge.store.set(&key, &good).unwrap();
    assert!(has(forge, PUBLIC, &tip));
    timed.is_sound();
}

#[test]
fn loose_objects_stay_if_the_pack_with_their_copies_has_lost_a_blob() {
    let timed = TimedForge::new();
    let forge = &timed.forge;
    let pack = forge.clone(PUBLIC).git(&["pack-objects", "-q", "--all", "--stdout"]);
    let path = format!("import/suggestions/{PUBLIC}/pack");
    let env = timed.env();
    assert_eq!(send(env, Method::POST, &path, "root", "application/octet-stream", pack).status, 200);
    let before = timed.objects();
    let blob = forge.store.keys().into_iter().find(|key| key.starts_with("suggestions/v1/pack/")).unwrap();
    forge.store.delete(&blob).unwrap();
    let found = timed.run("fsck", "failed").1;
    assert!(found.iter().all(|problem| problem.contains(&blob) && problem.contains("(project 7)")), "{found:?}");
    assert_stopped(&timed, &blob);
    assert_eq!(timed.objects(), before);
    // Without that pack the repository is whole.
    forge.store.delete(&list_of(PUBLIC)).unwrap();
    timed.is_sound();
    forge.clone(PUBLIC);
}

#[test]
fn roles_of_semispaces_that_are_lost_cost_no_object() {
    let timed = TimedForge::new();
    for days in 0..4 {
        timed.forge.store.delete("suggestions/v1/space").unwrap();
        timed.objects_of(&example());
        for _ in 0..days {
            timed.advance(25 * HOUR);
            timed.gc();
        }
        timed.is_sound();
        timed.forge.clone(PUBLIC);
    }
}

#[test]
fn a_transaction_that_is_lost_while_a_ref_is_locked_is_reported() {
    let timed = TimedForge::new();
    let (forge, repository) = (&timed.forge, RepositoryId::first(PUBLIC));
    let head = ObjectId::parse(&forge.head(PUBLIC, "topic"));
    let key = format!("suggestions/v1/ref/{PUBLIC}/heads%2Fmain");
    let is_locked = || String::from_utf8(forge.store.get(&key).unwrap().unwrap()).unwrap().contains("lock");
    for operations in 0.. {
        let failing = FailingStore::after(operations, forge.store.clone());
        let change = RefChange { name: "heads/main", old: head, new: None };
        let _ = update_all(&timed.env_over(failing), repository, &[change]);
        if is_locked() {
            break;
        }
    }
    timed.is_sound();
    let keys = forge.store.keys();
    let transaction = keys.iter().rfind(|key| key.contains("/ref_transaction/")).unwrap();
    forge.store.delete(transaction).unwrap();
    let found = timed.run("fsck", "failed").1;
    assert!(found.len() == 1 && found[0].starts_with(&format!("\"{transaction}\"")), "{found:?}");
}

#[test]
fn damage_of_comments_ends_a_collection() {
    let timed = TimedForge::new();
    timed.forge.suggest(1, "a.txt", 2, &block("", "zwei"));
    let keys = timed.forge.store.keys();
    let list = keys.iter().find(|key| key.starts_with("suggestions/v1/discussions/")).unwrap();
    timed.forge.store.set(list, b"{").unwrap();
    timed.advance(25 * HOUR);
    let mut answer = timed.step("gc", &json!({}));
    while answer.status == 200 && !answer.json()["cursor"].is_null() {
        answer = timed.step("gc", &json!({"cursor": answer.json()["cursor"]}));
    }
    assert_eq!(answer.status, 409, "{}", answer.text());
}
