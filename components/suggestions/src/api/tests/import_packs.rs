//! Imports of packs.

use super::*;
use std::io::Write;

fn post(forge: &Forge, path: &str, body: Vec<u8>) -> (u16, Value) {
    let path = format!("import/suggestions/{PUBLIC}/{path}");
    let answer = forge.send_bytes(Method::POST, &path, "root", "application/octet-stream", body);
    (answer.status, answer.json())
}

fn known(forge: &Forge, ids: &[&str]) -> Value {
    post(forge, "known", json!({"ids": ids}).to_string().into_bytes()).1["ids"].clone()
}

/// Feeds `input` to git, and returns its output.
fn git_with(repository: &Repository, arguments: &[&str], input: &str) -> Vec<u8> {
    let mut command = repository.command(arguments);
    let mut git = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    git.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = git.wait_with_output().unwrap();
    assert!(output.status.success(), "git {arguments:?}");
    output.stdout
}

/// A pack of the objects that these revisions reach, with deltas of excluded ones.
fn pack(repository: &Repository, revisions: &str) -> Vec<u8> {
    git_with(repository, &["pack-objects", "-q", "--revs", "--thin", "--delta-base-offset", "--stdout"], revisions)
}

fn list(forge: &Forge) -> Option<Vec<u8>> {
    forge.store.get(&format!("suggestions/v1/packs/{PUBLIC}")).unwrap()
}

fn move_refs(forge: &Forge, refs: Value) -> Value {
    post(forge, "refs", json!({"refs": refs, "head": "heads/main"}).to_string().into_bytes()).1
}

#[test]
fn a_pack_is_imported_as_a_whole_and_the_next_one_builds_on_it() {
    let forge = Forge::new();
    let text: String = (0..500).map(|line| format!("line {line}\n")).collect();
    let repository = Repository::with(&[("a.txt", text.as_bytes()), ("dir/b", b"bee\n")]);
    repository.git(&["tag", "-a", "v1", "-m", "one"]);
    let first = repository.text(&["rev-parse", "topic"]);
    let whole = pack(&repository, "topic\nv1\n");
    // A body that broke off leaves nothing that can be seen.
    for end in [0, 5, 12, 40, whole.len() / 2, whole.len() - 21, whole.len() - 1] {
        let (status, answer) = post(&forge, "pack", whole[..end].to_vec());
        assert_eq!((status, list(&forge)), (400, None), "cut at {end}: {answer}");
    }
    assert_eq!(known(&forge, &[&first]), json!([]));
    assert_eq!(post(&forge, "pack", whole.clone()), (200, json!({"stored": 6, "known": 0})));
    assert_eq!(post(&forge, "pack", whole), (200, json!({"stored": 0, "known": 6})));
    assert_eq!(known(&forge, &[&first]), json!([first]));
    let refs = json!([
        {"name": "heads/topic", "new": first},
        {"name": "tags/v1", "new": repository.text(&["rev-parse", "v1"])},
    ]);
    assert_eq!(move_refs(&forge, refs)["moved"], 2);

    repository.write("a.txt", format!("{text}and one more\n").as_bytes());
    let second = repository.commit("second");
    let thin = pack(&repository, "topic\n^topic^\n");
    assert!(thin.len() < 600, "{} bytes: the file is a delta", thin.len());
    assert_eq!(post(&forge, "pack", thin).1, json!({"stored": 3, "known": 0}));
    let refs = json!([{"name": "heads/topic", "old": first, "new": second}]);
    assert_eq!(move_refs(&forge, refs)["moved"], 1);
    let clone = forge.clone(PUBLIC);
    assert_eq!(clone.text(&["rev-parse", "topic", "v1"]), repository.text(&["rev-parse", "topic", "v1"]));
    let closed: Vec<_> = forge.packs().iter().map(|pack| pack["is_closed"].clone()).collect();
    assert_eq!(closed, [json!(true), json!(true)], "a clone copies both packs");
}

#[test]
fn a_pack_without_the_objects_that_it_needs_is_refused() {
    let forge = Forge::new();
    let repository = Repository::with(&[("a.txt", b"one\n")]);
    repository.write("a.txt", b"two\n");
    repository.commit("second");
    let only = |objects: &str| git_with(&repository, &["pack-objects", "-q", "--stdout"], objects);
    let ids =
        |names: &[&str]| names.iter().map(|name| repository.text(&["rev-parse", name]) + "\n").collect::<String>();
    let (status, answer) = post(&forge, "pack", only(&ids(&["topic", "topic^{tree}"])));
    assert!(status == 400 && answer.to_string().contains("missing necessary objects"), "{status} {answer}");
    assert_eq!(list(&forge), None);
    let last = only(&ids(&["topic", "topic^{tree}", "topic:a.txt"]));
    let (status, answer) = post(&forge, "pack", last.clone());
    assert!(status == 400 && answer.to_string().contains("git fetch --unshallow"), "{status} {answer}");
    assert_eq!(list(&forge), None);
    // The oldest part first.
    assert_eq!(post(&forge, "pack", pack(&repository, "main\n")).1, json!({"stored": 3, "known": 0}));
    assert_eq!(post(&forge, "pack", last).1, json!({"stored": 3, "known": 0}));
}

#[test]
fn objects_with_the_faults_of_old_programs_are_imported() {
    let forge = Forge::new();
    let repository = Repository::with(&[("a.txt", b"one\n")]);
    let tree = repository.text(&["rev-parse", "topic^{tree}"]);
    // No time, as git accepted it long ago.
    let commit = format!("tree {tree}\nauthor A <a@x>\ncommitter A <a@x>\n\nold\n");
    let id = git_with(&repository, &["hash-object", "-t", "commit", "-w", "--literally", "--stdin"], &commit);
    let id = String::from_utf8(id).unwrap().trim().to_owned();
    let old = pack(&repository, &format!("{id}\n"));
    assert_eq!(post(&forge, "pack", old), (200, json!({"stored": 3, "known": 0})));
    repository.git(&["update-ref", "refs/heads/old", &id]);
    let refused = forge.git(&repository, PUBLIC, "mia", &["push", "URL", "old"]).unwrap_err();
    assert!(!refused.contains("new branch"), "a push is checked: {refused}");
}

#[test]
fn packs_are_imported_by_administrators() {
    let forge = Forge::new();
    for path in ["pack", "known"] {
        let path = format!("import/suggestions/{PUBLIC}/{path}");
        for (token, status) in [("", 401), ("mia", 403), ("root", 400)] {
            let answer = forge.send_bytes(Method::POST, &path, token, "application/json", b"{".to_vec());
            assert_eq!(answer.status, status, "{path} {token} {}", answer.text());
        }
    }
    let many = json!({"ids": vec!["0".repeat(40); 10_001]}).to_string().into_bytes();
    assert_eq!(post(&forge, "known", many).0, 400);
}
