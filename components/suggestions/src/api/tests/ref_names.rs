//! Names of refs: which are listed, and which conflict with others, also when two pushes run at the same time.

use super::*;
use crate::store::ref_names;
use crate::store::ref_names::MAX_NAMES;
use kit::Timestamp;

const NAMES_KEY: &str = "suggestions/v1/branches/7";

fn id() -> RepositoryId {
    RepositoryId::first(PUBLIC)
}

/// A forge with the branches `main` and `old`, and their commit.
fn forge() -> (Forge, ObjectId) {
    let forge = Forge::new();
    let repository = Repository::with(&[("a", b"one\n")]);
    forge.git(&repository, PUBLIC, "mia", &["push", "-q", "URL", "main", "main:old"]).unwrap();
    (forge, ObjectId::parse(&repository.text(&["rev-parse", "main"])).unwrap())
}

/// A ref, its value and its new value.
pub type Change<'n> = (&'n str, Option<ObjectId>, Option<ObjectId>);

/// The body of a push without a pack.
pub fn body(changes: &[Change], capabilities: &str) -> Vec<u8> {
    let text = |id: &Option<ObjectId>| id.map_or("0".repeat(40), |id| id.to_string());
    let mut body = Vec::new();
    for (number, (name, old, new)) in changes.iter().enumerate() {
        let capabilities = if number == 0 { format!("\0 report-status {capabilities}") } else { String::new() };
        pktline::write_text(&mut body, &format!("{} {} refs/{name}{capabilities}", text(old), text(new)));
    }
    pktline::write_flush(&mut body);
    body
}

/// The report on a push. It may run in the middle of another push: nothing here waits.
pub fn push(env: Env, body: &[u8]) -> String {
    let path = format!("projects/{PUBLIC}/repository.git/git-receive-pack");
    send(env, Method::POST, &path, "mia", "", body.to_vec()).text()
}

fn listed(forge: &Forge) -> Vec<String> {
    let text = forge.refs(PUBLIC, "");
    text.lines().map(|line| line.split_once("\trefs/").unwrap().1.to_owned()).collect()
}

/// Which of these refs exist.
fn existing<'n>(forge: &Forge, names: &[&'n str]) -> Vec<&'n str> {
    let exists = |name: &&&str| refs::read(&forge.env(), id(), name).unwrap().is_some();
    names.iter().filter(exists).copied().collect()
}

fn names_record(forge: &Forge) -> Value {
    serde_json::from_slice(&forge.store.get(NAMES_KEY).unwrap().unwrap()).unwrap()
}

fn stored_names(forge: &Forge) -> Vec<String> {
    ref_names::read(&forge.env(), id()).unwrap().names.into_iter().collect()
}

/// Does one push, and the second one before each operation of the first one in turn. `check` gets the forge and both
/// reports.
fn interleave(forge: &Forge, first: &[u8], second: &[u8], check: impl Fn(&Forge, &str, &str)) {
    for moment in 0.. {
        let forge = Rc::new(forge.copy());
        let (count, report) = (Rc::new(Cell::new(0)), Rc::new(RefCell::new(None)));
        let watch = {
            let (forge, count, report, second) = (forge.clone(), count.clone(), report.clone(), second.to_vec());
            move |_: &str, _: &str| {
                if count.replace(count.get() + 1) == moment {
                    *report.borrow_mut() = Some(push(forge.env(), &second));
                }
            }
        };
        let first = push(forge.env_over(WatchedStore::over(forge.store.clone(), watch)), first);
        let Some(second) = report.take() else {
            assert!(moment > 5, "{moment}");
            return;
        };
        check(&forge, &first, &second);
        let all = ["heads/a", "heads/a/b", "heads/main", "heads/old", "heads/z"];
        assert_eq!(listed(&forge), existing(&forge, &all), "before operation {moment}: {first} {second}");
        assert_eq!(names_record(&forge)["creating"], Value::Null);
    }
}

#[test]
fn of_a_folder_and_a_branch_of_one_name_one_is_made() {
    let (forge, commit) = forge();
    let commit = Some(commit);
    let [folder, branch] = [[("heads/a/b", None, commit)], [("heads/a", None, commit)]];
    let both = [("heads/a/b", None, commit), ("heads/z", None, commit)];
    for (first, second) in [
        (body(&folder, ""), body(&branch, "")),
        (body(&branch, ""), body(&folder, "")),
        (body(&branch, ""), body(&both, "atomic")),
        (body(&both, "atomic"), body(&branch, "")),
    ] {
        interleave(&forge, &first, &second, |forge, first, second| {
            let made = existing(forge, &["heads/a", "heads/a/b"]);
            assert_eq!(made.len(), 1, "{first} {second}");
            let is_told = |report: &str| report.contains(&format!("ok refs/{}\n", made[0]));
            assert!(is_told(first) != is_told(second), "{first} {second}");
            assert!([first, second].iter().any(|report| report.contains("cannot lock ref")), "{first} {second}");
        });
    }
}

#[test]
fn a_new_branch_is_listed_whatever_is_deleted_meanwhile() {
    let (forge, commit) = forge();
    let commit = Some(commit);
    let (create, delete) = (body(&[("heads/old", None, commit)], ""), body(&[("heads/old", commit, None)], ""));
    for capabilities in ["", "atomic"] {
        let delete_two = body(&[("heads/old", commit, None), ("heads/z", None, None)], capabilities);
        interleave(&forge, &create, &delete_two, |_, _, _| {});
        interleave(&forge, &delete_two, &create, |forge, _, created| {
            assert_eq!(existing(forge, &["heads/old"]).len(), usize::from(created.contains("ok refs/heads/old")));
        });
    }
    let deleted = forge.copy();
    assert!(push(deleted.env(), &delete).contains("ok refs/heads/old"));
    interleave(&deleted, &create, &delete, |_, created, _| assert!(created.contains("ok refs/heads/old"), "{created}"));
}

#[test]
fn a_branch_replaces_a_folder_that_the_same_push_deletes() {
    let (forge, commit) = forge();
    let commit = Some(commit);
    assert!(push(forge.env(), &body(&[("heads/a/b", None, commit)], "")).contains("ok refs/heads/a/b"));
    let atomic = push(forge.copy().env(), &body(&[("heads/a/b", commit, None), ("heads/a", None, commit)], "atomic"));
    assert!(atomic.contains("'refs/heads/a/b' exists; cannot create 'refs/heads/a'"), "{atomic}");
    // A deletion that is refused leaves the branch in the way.
    let refused =
        push(forge.env(), &body(&[("heads/a/b", Some(ObjectId::new([1; 20])), None), ("heads/a", None, commit)], ""));
    assert!(refused.contains("ng refs/heads/a cannot lock ref"), "{refused}");
    let moved = push(forge.env(), &body(&[("heads/a/b", commit, None), ("heads/a", None, commit)], ""));
    assert!(moved.contains("ok refs/heads/a\n"), "{moved}");
    assert_eq!(listed(&forge), ["heads/a", "heads/main", "heads/old"]);
    assert_eq!(stored_names(&forge), ["heads/a", "heads/main", "heads/old"]);
}

#[test]
fn names_reserved_by_a_failed_push_expire_and_its_refs_are_listed() {
    let (forge, commit) = forge();
    let (first, second) =
        (body(&[("heads/a", None, Some(commit))], ""), body(&[("heads/a/b", None, Some(commit))], ""));
    forge.fail_at_each_operation(|operations, forge, failing| {
        push(forge.env_over(failing.clone()), &first);
        if !failing.failed() {
            return;
        }
        assert_eq!(listed(forge), existing(forge, &["heads/a", "heads/main", "heads/old"]), "{operations}");
        let is_made = !existing(forge, &["heads/a"]).is_empty();
        let now = Timestamp::from_millis(NOW.millis() + GRACE + 1);
        let told = push(Env { now, clock: Rc::new(now), ..forge.env() }, &second);
        assert_eq!(told.contains("ok refs/heads/a/b"), !is_made, "{told}");
        assert_eq!(names_record(forge)["creating"], Value::Null);
        assert_eq!(listed(forge), existing(forge, &["heads/a", "heads/a/b", "heads/main", "heads/old"]));
    });
}

#[test]
fn ten_thousand_tags_swap_their_names_twice() {
    let (forge, commit) = forge();
    let names: Vec<String> = (0..10_000).map(|number| format!("tags/v{number}")).collect();
    let swaps = |changes: &[Change]| {
        let is_swap = |operation: &str, key: &str| operation == "swap" && key == NAMES_KEY;
        let (watched, count) = WatchedStore::counting(&forge.store, is_swap);
        let told = push(forge.env_over(watched), &body(changes, ""));
        assert_eq!(told.matches("ok refs/tags/").count(), changes.len());
        count.get()
    };
    let changes: Vec<_> = names.iter().map(|name| (name.as_str(), None, Some(commit))).collect();
    assert_eq!(swaps(&changes), 2);
    assert_eq!(ref_names::read(&forge.env(), id()).unwrap().names.len(), 10_002);
    let changes: Vec<_> = names.iter().map(|name| (name.as_str(), Some(commit), None)).collect();
    assert_eq!(swaps(&changes), 1);
    assert_eq!(stored_names(&forge), ["heads/main", "heads/old"]);
}

#[test]
fn more_refs_than_a_push_may_move_are_refused_in_its_report() {
    let (forge, commit) = forge();
    let names: Vec<String> = (0..10_001).map(|number| format!("tags/v{number}")).collect();
    let changes: Vec<_> = names.iter().map(|name| (name.as_str(), None, Some(commit))).collect();
    let told = push(forge.env(), &body(&changes, "side-band-64k"));
    assert!(told.contains("A push moves 10000 branches and tags at most."), "{told:.200}");
    assert!(told.contains("ng refs/tags/v0 too many refs") && !told.contains("ok refs/"));
    assert_eq!(listed(&forge), ["heads/main", "heads/old"]);
}

#[test]
fn a_repository_has_a_bound_on_its_refs() {
    let (forge, commit) = forge();
    let mut record = names_record(&forge);
    let others = (0..MAX_NAMES - 3).map(|number| format!("tags/v{number:06}"));
    record["names"] = others.chain(["heads/main".to_owned(), "heads/old".to_owned()]).collect();
    forge.store.set(NAMES_KEY, &serde_json::to_vec(&record).unwrap()).unwrap();
    let told = push(forge.env(), &body(&[("tags/a", None, Some(commit)), ("tags/b", None, Some(commit))], ""));
    assert!(told.contains("ok refs/tags/a") && told.contains("ng refs/tags/b too many refs"), "{told}");
    // An existing ref is no new one, and a deletion makes room.
    let changes = [("tags/a", Some(commit), None), ("heads/main", Some(commit), Some(commit))];
    assert!(push(forge.env(), &body(&changes, "")).contains("ok refs/tags/a"));
    let told = push(forge.env(), &body(&[("tags/b", None, Some(commit))], ""));
    assert!(told.contains("ok refs/tags/b"), "{told}");
}

/// The names of so many refs, as a build before format 2 had them.
pub fn former_names(count: usize) -> Value {
    let others = (0..count).map(|number| format!("tags/v{number:06}"));
    json!({"names": others.chain(["heads/main".to_owned(), "heads/old".to_owned()]).collect::<Vec<_>>()})
}

#[test]
fn a_branch_costs_the_same_however_many_there_are() {
    let (forge, commit) = forge();
    let cost = |forge: &Forge, name: &str| {
        let counting = CountingStore::over(forge.store.clone());
        let told = push(forge.env_over(counting.clone()), &body(&[(name, None, Some(commit))], ""));
        assert!(told.contains("ok refs/"), "{told}");
        (counting.operations(), counting.bytes())
    };
    let few = cost(&forge, "heads/first");
    forge.store.set(NAMES_KEY, former_names(100_000).to_string().as_bytes()).unwrap();
    cost(&forge, "heads/rewritten");
    assert!(
        names_record(&forge)["names"].get("page").is_some(),
        "a build before format 2 fails, and reads no old list"
    );
    assert_eq!(stored_names(&forge).len(), 100_003);
    let many = cost(&forge, "heads/second");
    assert!(many.0 <= few.0 + 12 && many.1 <= few.1 + 200_000, "{few:?}, {many:?}");
    assert!(stored_names(&forge).contains(&"heads/second".to_owned()));
}

/// The transactions that are recorded, by id.
fn transactions(forge: &Forge) -> Vec<String> {
    let keys =
        forge.store.keys().into_iter().filter(|key| key.contains("/ref_transaction/") && !key.ends_with("/init"));
    keys.map(|key| String::from_utf8(forge.store.get(&key).unwrap().unwrap()).unwrap()).collect()
}

#[test]
fn a_transaction_that_was_aborted_aborts_no_other_one() {
    let (forge, commit) = forge();
    let repository = Repository::with(&[("a", b"one\n")]);
    repository.write("a", b"two\n");
    let next = ObjectId::parse(&repository.commit("two")).unwrap();
    forge.git(&repository, PUBLIC, "mia", &["push", "-q", "URL", "topic:keep"]).unwrap();
    let change = move |name: &'static str| RefChange { name, old: Some(commit), new: Some(next) };
    let mut met = 0;
    for operations in 0..60 {
        let forge = Rc::new(forge.copy());
        let is_over = Rc::new(Cell::new(false));
        let watch = {
            let (forge, is_over) = (forge.clone(), is_over.clone());
            // The first transaction has locked `main`; the second one comes, and is not decided yet.
            move |operation: &str, key: &str| {
                if operation == "compare" && key.ends_with("heads%2Fold") && !is_over.replace(true) {
                    let failing = FailingStore::after(operations, forge.store.clone());
                    let _ = update_all(&forge.env_over(failing), id(), &[change("heads/main"), change("heads/old")]);
                }
            }
        };
        let env = forge.env_over(WatchedStore::over(forge.store.clone(), watch));
        let first = update_all(&env, id(), &[change("heads/main"), change("heads/old")]).unwrap();
        let outcomes = transactions(&forge);
        if first != Ok(()) {
            let aborted = outcomes.iter().filter(|outcome| outcome.contains("aborted")).count();
            assert!(aborted <= 1, "after {operations} operations both have lost: {outcomes:?}");
            met += usize::from(first == Err(Conflict::Aborted));
        }
    }
    assert!(met > 3, "{met}");
}

#[test]
fn a_push_that_is_refused_aborts_no_transaction() {
    let (forge, commit) = forge();
    let change = || [RefChange { name: "heads/old", old: Some(commit), new: None }];
    for operations in 0.. {
        let failing = FailingStore::after(operations, forge.store.clone());
        let _ = update_all(&forge.env_over(failing), id(), &change());
        let record = forge.store.get("suggestions/v1/ref/7/heads%2Fold").unwrap().unwrap();
        if String::from_utf8(record).unwrap().contains("lock") {
            break;
        }
    }
    let open = |forge: &Forge| transactions(forge).iter().filter(|outcome| outcome.contains("undecided")).count();
    let before = open(&forge);
    let wrong = Some(ObjectId::new([1; 20]));
    for capabilities in ["", "atomic"] {
        let told = push(forge.env(), &body(&[("heads/old", wrong, Some(commit))], capabilities));
        assert!(told.contains("ng refs/heads/old failed to update ref"), "{told}");
        assert_eq!(open(&forge), before);
    }
}
