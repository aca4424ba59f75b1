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

#[test]
fn of_a_damaged_repository_nothing_is_removed_and_the_others_are_collected() {
    let timed = TimedForge::new();
    let forge = &timed.forge;
    let [tip, other] = [PUBLIC, PRIVATE].map(|project| with_garbage(forge, project));
    let lost = forge.clone(PUBLIC).text(&["rev-parse", "main:a.txt"]);
    let key = format!("suggestions/v1/object/{PUBLIC}/{lost}");
    let good = forge.store.get(&key).unwrap().unwrap();
    forge.store.delete(&key).unwrap();
    let problems = collect(&timed);
    assert!(!problems.is_empty() && problems.iter().all(|problem| problem.contains(&lost)), "{problems:?}");
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
    let id = timed.env_over(forge.store.clone()).id();
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
