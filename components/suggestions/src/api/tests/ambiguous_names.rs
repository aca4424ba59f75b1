//! Ambiguous names of branches and tags: no ref with such a name is created or moved; refs of earlier builds are read
//! and deleted.

use super::ref_names::{Change, body, push};
use super::*;
use crate::store::ref_names::Reservation;
use crate::store::refs::RefValue;
use kit::root::Decision;

/// Names like a commit's id, by either hash, in any letter case.
fn like_commits() -> Vec<String> {
    let (sha1, sha256) = ("0123456789abcdef0123456789abcdef01234567", "0a1b2c3d".repeat(8));
    vec![sha1.into(), sha1.to_uppercase(), sha256.clone(), sha256.to_uppercase(), format!("{sha1}/x")]
}

fn ambiguous() -> Vec<String> {
    let branches_and_tags = ["HEAD", "HEAD/x", "FETCH_HEAD", "ORIG_HEAD", "@", "-x", "--upload-pack=x"];
    let nested = ["refs/heads/x", "refs/x", "heads/main", "tags/v1", "remotes/origin/main"];
    let rest =
        like_commits().into_iter().chain([&branches_and_tags[..], &nested].concat().into_iter().map(str::to_owned));
    let both = rest.flat_map(|name| [format!("heads/{name}"), format!("tags/{name}")]);
    let others = ["replace/0000", "replace/x/y", "refs/heads/x"].map(str::to_owned);
    both.chain(others).chain([format!("replace/{}", "0".repeat(64))]).collect()
}

/// Similar names that are not ambiguous.
const PLAIN: &str = "heads/head heads/HEADS heads/x/HEAD heads/a-x heads/x/-x heads/@acme/x heads/x@ heads/refs \
    heads/references/x heads/x/refs/heads/x heads/0123456789abcdef0123456789abcdef0123456 \
    heads/0123456789abcdef0123456789abcdef012345678 heads/0123456789abcdef0123456789abcdef0123456g \
    heads/x/0123456789abcdef0123456789abcdef01234567 tags/v1.0 tags/@acme/ui@1.0.0 notes/commits pull/1/head \
    replace/0123456789abcdef0123456789abcdef01234567";

fn id() -> RepositoryId {
    RepositoryId::first(PUBLIC)
}

/// A forge with `main` and `topic`, and their commit.
fn forge() -> (Forge, ObjectId) {
    let forge = Forge::new();
    let repository = Repository::with(&[("a", b"one\n")]);
    forge.git(&repository, PUBLIC, "mia", &["push", "-q", "URL", "main", "topic"]).unwrap();
    (forge, ObjectId::parse(&repository.text(&["rev-parse", "main"])).unwrap())
}

/// A ref as an earlier build made it.
fn make(forge: &Forge, name: &str, commit: ObjectId) {
    let env = forge.env();
    let mut reservation = Reservation::make(&env, id(), &[name], &BTreeSet::new()).unwrap();
    let value = RefValue { commit, applied: Vec::new(), operation: env.id() };
    refs::update(&env, id(), name, |_| Ok::<_, StoreError>(Decision::Replace(Some(value.clone()), ()))).unwrap();
    reservation.note_creation(name, true);
    reservation.finish_reservation(&env, id()).unwrap();
}

fn import(forge: &Forge, refs: Value, head: &str) -> TestResponse {
    let path = format!("import/suggestions/{PUBLIC}/refs");
    forge.send(Method::POST, &path, "root", json!({"refs": refs, "head": head}))
}

fn listed(forge: &Forge) -> String {
    forge.refs(PUBLIC, "")
}

#[test]
fn a_push_creates_no_ambiguous_name() {
    let (forge, commit) = forge();
    let before = listed(&forge);
    for capabilities in ["", "atomic", "side-band-64k"] {
        for name in ambiguous() {
            let report = push(forge.env(), &body(&[(&name, None, Some(commit))], capabilities));
            assert!(report.contains(&format!("ng refs/{name} ")), "{name}: {report}");
            assert!(report.contains("as something else") || capabilities != "side-band-64k", "{name}: {report}");
        }
    }
    assert_eq!(listed(&forge), before);
    // Other refs of the same push are made.
    let changes = [("heads/HEAD", None, Some(commit)), ("heads/good", None, Some(commit))];
    assert!(push(forge.env(), &body(&changes, "")).contains("ok refs/heads/good"));
}

#[test]
fn similar_names_are_created() {
    let (forge, commit) = forge();
    for name in PLAIN.split(' ') {
        let report = push(forge.env(), &body(&[(name, None, Some(commit))], ""));
        assert!(report.contains(&format!("ok refs/{name}\n")), "{name}: {report}");
        let report = push(forge.env(), &body(&[(name, Some(commit), None)], ""));
        assert!(report.contains(&format!("ok refs/{name}\n")), "{name}: {report}");
    }
}

#[test]
fn names_of_earlier_builds_are_read_and_deleted_and_not_moved() {
    let (forge, commit) = forge();
    let next = {
        let repository = Repository::with(&[("a", b"one\n")]);
        let next = repository.commit("next");
        forge.git(&repository, PUBLIC, "mia", &["push", "-q", "URL", "topic:next"]).unwrap();
        ObjectId::parse(&next).unwrap()
    };
    for name in ambiguous().iter().filter(|name| !name.ends_with("/x") && !name.ends_with("/y")) {
        make(&forge, name, commit);
        assert!(listed(&forge).contains(&format!("{commit}\trefs/{name}\n")), "{name}");
        let change = |old, new| -> [Change; 1] { [(name, old, new)] };
        let report = push(forge.env(), &body(&change(Some(commit), Some(next)), ""));
        assert!(report.contains(&format!("ng refs/{name} ")), "{name}: {report}");
        let report = push(forge.env(), &body(&change(Some(commit), None), ""));
        assert!(report.contains(&format!("ok refs/{name}\n")), "{name}: {report}");
        assert!(!listed(&forge).contains(&format!("refs/{name}\n")), "{name}");
    }
}

#[test]
fn an_import_leaves_ambiguous_names_out_and_lists_them() {
    let (forge, commit) = forge();
    let names: Vec<String> = ambiguous().into_iter().filter(|name| !name.starts_with("re")).collect();
    let mut refs: Vec<Value> = names.iter().map(|name| json!({"name": name, "new": commit})).collect();
    refs.push(json!({"name": "heads/good", "new": commit}));
    let answer = import(&forge, json!(refs), "heads/HEAD").json();
    assert_eq!((&answer["moved"], &answer["failed"]), (&json!(1), &json!([])), "{answer}");
    let left_out: BTreeSet<&str> =
        answer["left_out"].as_array().unwrap().iter().map(|left| left["name"].as_str().unwrap()).collect();
    assert_eq!(left_out, names.iter().map(String::as_str).collect());
    assert!(answer["left_out"][0]["error"].as_str().unwrap().contains("as something else"), "{answer}");
    // An import that deletes one, as `--prune` does.
    make(&forge, "heads/HEAD", commit);
    let answer = import(&forge, json!([{"name": "heads/HEAD", "old": commit}]), "heads/main").json();
    assert_eq!((&answer["moved"], &answer["left_out"]), (&json!(1), &Value::Null), "{answer}");
}

#[test]
fn no_suggestion_moves_an_ambiguous_branch() {
    let (forge, commit) = forge();
    let name = like_commits().remove(0);
    make(&forge, &format!("heads/{name}"), commit);
    forge.merge_request(1, json!({"source_branch": name}));
    let ids = forge.suggest(1, "a", 1, &block("", "zwei"));
    for answer in [forge.apply(ids[0], "mia", Value::Null), forge.apply_all(&ids, "mia")] {
        let (status, why) = answer.refusal();
        assert_eq!(status, 400);
        assert!(why.contains("as something else"), "{why}");
    }
    assert!(!forge.flags(ids[0]).1);
    assert_eq!(forge.head(PUBLIC, &name), commit.to_string());
}

#[test]
fn a_check_lists_ambiguous_names_and_finds_no_damage() {
    let (forge, commit) = forge();
    let check = || {
        assert_eq!(forge.fsck("problems"), [Value::Null; 0]);
        forge.fsck("remarks")
    };
    assert_eq!(check(), [Value::Null; 0]);
    make(&forge, "heads/HEAD", commit);
    let [remark] = &check()[..] else { panic!("one remark") };
    let text = remark["problem"].as_str().unwrap();
    assert!(text.contains("refs/heads/HEAD") && text.contains("repository of project 7"), "{remark}");
}
