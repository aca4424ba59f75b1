//! Garbage collection and checks.

use super::*;
use directory::default_branch::REF_NAMES;
use kit::Timestamp;

mod cost;
mod damage;
mod deleted_projects;
mod lost_records;
mod ref_transactions;
mod relied_on;

fn example() -> Repository {
    Repository::with(&[("a.txt", b"one\ntwo\nthree\n"), ("dir/b", b"bee\n"), ("dir/deep/c", b"sea\n")])
}

const HOUR: i64 = 60 * 60 * 1000;

/// A forge with a clock that tests move.
struct TimedForge {
    forge: Forge,
    now: Cell<i64>,
}

impl TimedForge {
    fn new() -> Self {
        let forge = Forge::new();
        forge.import(PUBLIC, &example());
        forge.merge_request(1, json!({}));
        TimedForge::of(forge)
    }

    fn of(forge: Forge) -> Self {
        TimedForge { forge, now: Cell::new(NOW.millis()) }
    }

    /// An environment at this time.
    fn env(&self) -> Env {
        self.env_over(self.forge.store.clone())
    }

    fn advance(&self, millis: i64) {
        self.now.set(self.now.get() + millis);
    }

    fn env_over(&self, store: impl kit::store::Store + 'static) -> Env {
        let now = Timestamp::from_millis(self.now.get());
        Env { now, clock: Rc::new(now), ..self.forge.env_over(store) }
    }

    fn send(&self, method: Method, path: &str, token: &str, body: Value) -> TestResponse {
        let env = self.env();
        send(env, method, path, token, "application/json", body.to_string().into_bytes())
    }

    fn step(&self, task: &str, body: &Value) -> TestResponse {
        self.send(Method::POST, &format!("maintenance/suggestions/{task}"), "root", body.clone())
    }

    /// Does a whole run. Returns the sum of one of its numbers, and the problems.
    #[track_caller]
    fn run(&self, task: &str, number: &str) -> (u64, Vec<String>) {
        let (mut body, mut sum, mut problems) = (json!({}), 0, Vec::new());
        loop {
            let answer = self.step(task, &body).expect(200);
            let answer = answer.json();
            sum += answer[number].as_u64().unwrap_or_default();
            let found = answer["problems"].as_array().cloned().unwrap_or_default();
            problems.extend(found.iter().map(|found| format!("{}: {}", found["key"], found["problem"])));
            self.advance(answer["wait_seconds"].as_i64().unwrap_or_default() * 1000);
            if answer["cursor"].is_null() {
                return (sum, problems);
            }
            body["cursor"] = answer["cursor"].clone();
        }
    }

    fn gc(&self) -> u64 {
        self.run("gc", "removed").0
    }

    #[track_caller]
    fn is_sound(&self) {
        assert_eq!(self.run("fsck", "failed"), (0, vec![]));
    }

    /// Runs once a day until both semispaces were swept and no reflog entry is left.
    fn sweep_both(&self) -> u64 {
        (0..8)
            .map(|_| {
                self.advance(25 * HOUR);
                self.gc()
            })
            .sum()
    }

    fn objects(&self) -> usize {
        self.forge.store.keys().iter().filter(|key| key.contains("/object")).count()
    }

    fn has(&self, id: &str) -> bool {
        self.forge.store.keys().iter().any(|key| key.ends_with(id))
    }

    fn refs(&self, moves: Value) -> Value {
        let path = format!("import/suggestions/{PUBLIC}/refs");
        self.send(Method::POST, &path, "root", json!({"refs": moves})).json()
    }

    fn objects_of(&self, repository: &Repository) -> Value {
        let objects = repository.git(&["cat-file", "--batch", "--batch-all-objects"]);
        let path = format!("import/suggestions/{PUBLIC}/objects");
        let env = self.env();
        send(env, Method::POST, &path, "root", "application/octet-stream", objects).json()
    }
}

#[test]
fn objects_of_refs_and_comments_stay() {
    let timed = TimedForge::new();
    let forge = &timed.forge;
    let ids = forge.suggest(1, "a.txt", 2, &block("", "zwei"));
    assert_eq!(forge.apply(ids[0], "dev", Value::Null).status, 200);
    let open = forge.suggest(1, "a.txt", 1, &block("", "uno"));
    let before = timed.objects();
    let seen = || forge.get(&format!("projects/{PUBLIC}/merge_requests/1/discussions"), "").text();
    let shown = seen();
    assert_eq!(timed.sweep_both(), 0);
    assert_eq!((timed.objects(), seen() == shown), (before, true));
    timed.is_sound();
    // After the branch is deleted, only the files that comments show are reachable.
    forge.delete_branch(PUBLIC, "topic");
    assert_eq!(timed.sweep_both(), 1, "the reflog entry; the pack with the commit stays");
    timed.is_sound();
    let suggestion = forge.get(&format!("suggestions/{}", open[0]), "dev").json();
    assert_eq!(suggestion["from_content"], "one\n");
    forge.clone(PUBLIC);
}

#[test]
fn pages_of_names_of_refs_stay_and_pages_that_no_list_names_are_removed() {
    let timed = TimedForge::new();
    let store = &timed.forge.store;
    let key = "suggestions/v1/branches/7";
    store.set(key, super::ref_names::former_names(3000).to_string().as_bytes()).unwrap();
    timed.forge.refs_to_main(&["new"]);
    let pages = || store.list(REF_NAMES, "", 1000).unwrap();
    let written = pages();
    assert!(written.len() > 2, "{written:?}");
    store.set(&format!("{REF_NAMES}{}", timed.env().id()), b"{}").unwrap();
    timed.advance(25 * HOUR);
    timed.gc();
    assert_eq!(pages(), written);

    let good = store.get(&written[0]).unwrap().unwrap();
    store.delete(&written[0]).unwrap();
    let (_, problems) = timed.run("fsck", "failed");
    assert!(problems.iter().any(|problem| problem.contains("this page, which is missing")), "{problems:?}");
    store.set(&written[0], &good).unwrap();
    // No page of a damaged list is removed.
    let root = store.get(key).unwrap().unwrap();
    store.set(key, b"{").unwrap();
    timed.advance(25 * HOUR);
    assert_ne!(timed.run("gc", "removed").1, [""; 0]);
    assert_eq!(pages(), written);
    store.set(key, &root).unwrap();
    dependents::delete_project(&timed.env(), PUBLIC).unwrap();
    timed.advance(25 * HOUR);
    timed.gc();
    timed.advance(25 * HOUR);
    timed.gc();
    assert_eq!(pages(), [""; 0], "of a deleted project");
}

#[test]
fn packs_of_failed_commits_are_removed() {
    let timed = TimedForge::new();
    let id = timed.forge.suggest(1, "a.txt", 2, &block("", "zwei"))[0];
    let packs = || -> BTreeSet<String> {
        let keys = timed.forge.store.keys();
        let packs = keys.iter().filter_map(|key| key.strip_prefix("suggestions/v1/pack_index/")?.split('/').next());
        packs.map(str::to_owned).collect()
    };
    for operations in 10..200 {
        let env = timed.env_over(FailingStore::after(operations, timed.forge.store.clone()));
        let path = format!("suggestions/{id}/apply");
        // Another message makes another commit.
        let body = json!({"commit_message": format!("{operations}")}).to_string().into_bytes();
        if send(env, Method::PUT, &path, "dev", "application/json", body).status == 200 {
            break;
        }
    }
    let written = packs().len();
    timed.advance(HOUR);
    timed.gc();
    assert_eq!(packs().len(), written, "they are young");
    assert!(timed.sweep_both() > 0);
    let listed = timed.forge.packs().into_iter().map(|pack| pack["id"].as_str().unwrap().to_owned());
    assert_eq!(packs(), listed.collect::<BTreeSet<_>>());
    assert!(written > packs().len());
    timed.is_sound();
    timed.forge.clone(PUBLIC);
}

#[test]
fn an_import_of_existing_unreachable_objects_stays_complete() {
    // Objects that were garbage are sent again, and some time later a branch is created, while runs go on.
    for waiting in [0, 3, 11, 30] {
        for steps in 0..6 {
            let timed = TimedForge::new();
            let more = example();
            more.write("dir/new", b"new\n");
            more.commit("more");
            let tip = more.text(&["rev-parse", "HEAD"]);
            timed.objects_of(&more);
            // The objects are sent in the middle of a run, or between two.
            let mut body = json!({});
            timed.gc();
            timed.advance(25 * HOUR);
            for _ in 0..steps {
                let answer = timed.step("gc", &body).json();
                timed.advance(answer["wait_seconds"].as_i64().unwrap_or_default() * 1000);
                body = json!({"cursor": answer["cursor"]});
            }
            timed.objects_of(&more);
            if !body["cursor"].is_null() {
                let mut answer = timed.step("gc", &body).json();
                while !answer["cursor"].is_null() {
                    timed.advance(answer["wait_seconds"].as_i64().unwrap_or_default() * 1000);
                    answer = timed.step("gc", &json!({"cursor": answer["cursor"]})).json();
                }
            }
            for _ in 0..waiting {
                timed.advance(HOUR);
                timed.gc();
            }
            let report = timed.refs(json!([{"name": "heads/more", "new": tip}]));
            if report["moved"] == 0 {
                assert!(waiting > 11, "{report}");
                timed.objects_of(&more);
                assert_eq!(timed.refs(json!([{"name": "heads/more", "new": tip}]))["moved"], 1);
            }
            timed.sweep_both();
            timed.is_sound();
            assert_eq!(timed.forge.clone(PUBLIC).text(&["show", "more:dir/new"]), "new");
        }
    }
}

#[test]
fn a_commit_that_moves_from_one_branch_to_another_during_a_run_stays() {
    let timed = TimedForge::new();
    timed.gc();
    timed.advance(25 * HOUR);
    let tip = timed.forge.head(PUBLIC, "topic");
    // A step visits all these roots at once. Another branch simulates roots that are visited later.
    timed.refs(json!([{"name": "heads/a", "new": tip}]));
    timed.refs(json!([{"name": "heads/topic", "old": tip}]));
    timed.refs(json!([{"name": "heads/a", "old": tip}]));
    timed.gc();
    assert!(timed.has(&tip), "a recent value of a branch");
    timed.advance(3 * HOUR);
    assert_eq!(timed.refs(json!([{"name": "heads/b", "new": tip}]))["moved"], 1, "sent shortly before the flip");
    timed.is_sound();
}

#[test]
fn chunks_stay_and_go_with_their_object() {
    let timed = TimedForge::new();
    let large = example();
    let noise: String = (0..400_000_u64).map(|n| format!("{:x}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15))).collect();
    large.write("noise", noise.as_bytes());
    large.commit("noise");
    let tip = large.text(&["rev-parse", "HEAD"]);
    timed.objects_of(&large);
    let chunks = || timed.forge.store.keys().iter().filter(|key| key.contains("/chunk")).count();
    assert!(chunks() > 1);
    timed.refs(json!([{"name": "heads/noise", "new": tip}]));
    timed.sweep_both();
    assert!(chunks() > 1);
    timed.is_sound();
    let key = timed.forge.store.keys().into_iter().find(|key| key.contains("/chunk")).unwrap();
    let good = timed.forge.store.get(&key).unwrap().unwrap();
    timed.forge.store.set(&key, &good[1..]).unwrap();
    assert_eq!(timed.run("fsck", "failed").0, 1);
    timed.forge.store.set(&key, &good).unwrap();
    timed.refs(json!([{"name": "heads/noise", "old": tip}]));
    timed.sweep_both();
    assert_eq!(chunks(), 0);
    timed.is_sound();
}

#[test]
fn loose_objects_go_once_packs_have_them() {
    let timed = TimedForge::new();
    let forge = &timed.forge;
    let ids = forge.suggest(1, "a.txt", 2, &block("", "zwei"));
    assert_eq!(forge.apply(ids[0], "dev", Value::Null).status, 200);
    let open = forge.suggest(1, "dir/b", 1, &block("", "bumble"))[0];
    let before = forge.clone(PUBLIC);
    let refs = |clone: &Repository| clone.text(&["for-each-ref", "--format=%(objectname) %(refname)"]);
    assert!(timed.objects() > 5);
    let pack = before.git(&["pack-objects", "-q", "--all", "--stdout"]);
    let path = format!("import/suggestions/{PUBLIC}/pack");
    // A server that fails anywhere leaves a repository that is whole, and the pack can be sent again.
    for operations in 10.. {
        let env = timed.env_over(FailingStore::after(operations, forge.store.clone()));
        if send(env, Method::POST, &path, "root", "application/octet-stream", pack.clone()).status == 200 {
            break;
        }
        timed.is_sound();
    }
    assert!(timed.sweep_both() > 5);
    assert_eq!(timed.objects(), 0);
    timed.is_sound();
    assert_eq!(refs(&forge.clone(PUBLIC)), refs(&before));
    assert_eq!(forge.get(&format!("suggestions/{}", ids[0]), "dev").json()["from_content"], "two\n");
    assert_eq!(forge.apply(open, "dev", Value::Null).status, 200);
    timed.is_sound();
}

#[test]
fn all_damage_is_reported() {
    let timed = TimedForge::new();
    let id = timed.forge.suggest(1, "a.txt", 2, &block("", "zwei"))[0];
    assert_eq!(timed.forge.apply(id, "dev", Value::Null).status, 200);
    let store = &timed.forge.store;
    let mut reported = 0;
    for key in store.keys().iter().filter(|key| key.starts_with("suggestions/") && !key.contains("counter/")) {
        if key.ends_with("/init") || key.contains("reflog") || key == "suggestions/v2/format" {
            continue;
        }
        let good = store.get(key).unwrap().unwrap();
        store.set(key, &good[..good.len() / 2]).unwrap();
        assert!(timed.run("fsck", "failed").0 > 0, "{key} is cut");
        store.set(key, &good).unwrap();
        reported += 1;
    }
    assert!(reported > 15);
}

#[test]
fn an_unlisted_comment_is_removed() {
    let timed = TimedForge::new();
    let head = timed.forge.head(PUBLIC, "topic");
    let before = timed.forge.store.keys().len();
    for operations in 10..40 {
        let env = timed.env_over(FailingStore::after(operations, timed.forge.store.clone()));
        let path = format!("projects/{PUBLIC}/merge_requests/1/discussions");
        let body = comment(&head, "a.txt", 2, &block("", "zwei")).to_string().into_bytes();
        send(env, Method::POST, &path, "dev", "application/json", body);
    }
    let listed = || {
        let text = timed.forge.get(&format!("projects/{PUBLIC}/merge_requests/1/discussions"), "").text();
        (text.matches("\"individual_note\"").count(), text)
    };
    let shown = listed();
    let kinds = |kind: &str| timed.forge.store.keys().iter().filter(|key| key.contains(kind)).count();
    assert!(kinds("v1/discussion/") > shown.0, "{} comments of {}", kinds("v1/discussion/"), before);
    timed.advance(GRACE + 1000);
    assert!(timed.gc() > 0);
    assert_eq!((kinds("v1/discussion/"), kinds("v1/suggestion/")), (shown.0, shown.0));
    assert_eq!(listed(), shown);
    timed.is_sound();
}

#[test]
fn merge_requests_and_discussions_of_a_deleted_project_are_removed() {
    let timed = TimedForge::new();
    let forge = &timed.forge;
    forge.suggest(1, "a.txt", 2, &block("", "zwei"));
    let count = || {
        let kinds = ["merge_request", "discussion", "suggestion/"].map(|kind| format!("suggestions/v1/{kind}"));
        forge.store.keys().iter().filter(|key| kinds.iter().any(|kind| key.starts_with(kind))).count()
    };
    let before = count();
    timed.gc();
    assert_eq!(count(), before);
    dependents::delete_project(&forge.env(), PUBLIC).unwrap();
    forge.project(PUBLIC, |_| {});
    forge.merge_request(1, json!({"title": "of the next project"}));
    let kept = 4; // Its record and its list, and their counters.
    timed.advance(25 * HOUR);
    timed.gc();
    assert_eq!(count(), kept);
    timed.is_sound();
    let listed = forge.get(&format!("projects/{PUBLIC}/merge_requests"), "").json();
    assert_eq!(listed[0]["title"], "of the next project");
}

#[test]
fn a_deleted_discussion_is_removed() {
    let timed = TimedForge::new();
    let forge = &timed.forge;
    let made = forge.comment(1, "rep", comment(&forge.head(PUBLIC, "topic"), "a.txt", 2, &block("", "x"))).json();
    let id = made["id"].as_str().unwrap();
    let note = format!("projects/{PUBLIC}/merge_requests/1/notes/{}", made["notes"][0]["id"]);
    assert_eq!(forge.send(Method::DELETE, &note, "rep", Value::Null).status, 204);
    let suggestion = format!("suggestions/{}", made["notes"][0]["suggestions"][0]["id"]);
    assert_eq!(forge.get(&suggestion, "rep").status, 404);
    timed.is_sound();
    timed.advance(25 * HOUR);
    timed.gc();
    assert!(!forge.store.keys().contains(&format!("suggestions/v1/discussion/{id}")));
    assert_eq!((forge.get(&suggestion, "rep").status, timed.forge.get(&note, "rep").status), (404, 404));
    timed.is_sound();
}

#[test]
fn maintenance_is_for_administrators() {
    let forge = Forge::new();
    for task in ["gc", "fsck"] {
        let path = format!("maintenance/suggestions/{task}");
        assert_eq!(forge.send(Method::POST, &path, "", json!({})).status, 401);
        assert_eq!(forge.send(Method::POST, &path, "mia", json!({})).status, 403);
        assert_eq!(forge.send(Method::POST, &path, "root", json!({"cursor": "x"})).status, 400);
        assert_eq!(forge.send(Method::GET, &path, "root", Value::Null).status, 405);
    }
}
