//! `git push`, by git itself, and packs that no git sends.

use super::made_pack::{Pack, assert_made, new_blob, new_commit, new_tree, push_pack, with_one_commit};
use super::ref_names::body;
use super::*;

fn push(forge: &Forge, repository: &Repository, token: &str, arguments: &[&str]) -> Result<String, String> {
    forge.git(repository, PUBLIC, token, &[&["push", "URL"], arguments].concat())
}

#[test]
fn a_push_moves_branches_and_tags_and_is_idempotent() {
    let forge = Forge::new();
    let repository = Repository::with(&[("a", b"one\n")]);
    push(&forge, &repository, "mia", &["main", "topic"]).unwrap();
    assert!(push(&forge, &repository, "mia", &["main"]).unwrap().contains("up-to-date"));
    for number in 0..30 {
        repository.write("a", format!("one\n{number}\n").as_bytes());
        repository.commit("more");
        push(&forge, &repository, "dev", &["topic"]).unwrap();
    }
    repository.git(&["tag", "-a", "v1", "-m", "x"]);
    push(&forge, &repository, "dev", &["v1", "topic:refs/heads/copy"]).unwrap();
    let copy = forge.clone(PUBLIC);
    let found = copy.text(&["rev-parse", "topic", "copy", "v1"]);
    assert_eq!(found, repository.text(&["rev-parse", "topic", "topic", "v1"]));
    let packs = forge.store.keys().iter().filter(|key| key.ends_with("/directory")).count();
    let list = String::from_utf8(forge.store.get("suggestions/v1/packs/7").unwrap().unwrap()).unwrap();
    let listed = list.matches("\"id\"").count();
    assert!(listed < 6 && packs > 30, "small packs are joined: {listed} of {packs} are listed");
    push(&forge, &repository, "dev", &["--delete", "copy"]).unwrap();
    assert!(!forge.clone(PUBLIC).text(&["branch"]).contains("copy"));
}

#[test]
fn pushes_are_checked_against_roles_scopes_and_protected_branches() {
    let forge = Forge::new();
    let repository = Repository::with(&[("a", b"one\n")]);
    for (token, expected) in [
        ("rep", "You are not allowed to push code to this project"),
        ("otto", "You are not allowed to push code to this project"),
        ("", "could not read Username"),
        ("nonsense", "Authentication failed"),
    ] {
        let why = push(&forge, &repository, token, &["topic"]).unwrap_err();
        assert!(why.contains(expected), "{token}: {why}");
    }
    forge.token("reader", 2, &["read_repository"]);
    forge.token("writer", 3, &["write_repository"]);
    assert!(push(&forge, &repository, "reader", &["topic"]).unwrap_err().contains("not push"));
    push(&forge, &repository, "writer", &["topic"]).unwrap();
    push(&forge, &repository, "mia", &["main"]).unwrap();
    repository.git(&["checkout", "-q", "main"]);
    repository.write("a", b"two\n");
    repository.commit("two");
    let why = push(&forge, &repository, "dev", &["main"]).unwrap_err();
    assert!(why.contains("remote: You are not allowed to push code to the protected branch main"), "{why}");
    assert!(why.contains("[remote rejected] main -> main (protected branch)"), "{why}");
    push(&forge, &repository, "mia", &["main"]).unwrap();
    repository.git(&["reset", "-q", "--hard", "HEAD~1"]);
    assert!(push(&forge, &repository, "mia", &["main"]).unwrap_err().contains("non-fast-forward"), "git itself");
    let why = push(&forge, &repository, "mia", &["--force", "main"]).unwrap_err();
    assert!(why.contains("remote: You are not allowed to force push"), "{why}");
    // To git, a line `parent` that does not follow the tree is no parent.
    let [old, tree] = ["ORIG_HEAD", "ORIG_HEAD^{tree}"].map(|name| repository.text(&["rev-parse", name]));
    let text = format!("tree {tree}\nauthor A <a@x> 1 +0000\ncommitter A <a@x> 1 +0000\nparent {old}\n\nx\n");
    repository.write("stray", text.as_bytes());
    let stray = repository.text(&["hash-object", "-t", "commit", "-w", "stray"]);
    let why = push(&forge, &repository, "mia", &["--force", &format!("{stray}:main")]).unwrap_err();
    assert!(why.contains("remote: You are not allowed to force push"), "{why}");
    assert!(push(&forge, &repository, "mia", &["--delete", "main"]).unwrap_err().contains("not allowed to delete"));
    // A refused branch does not stop another one.
    let why = push(&forge, &repository, "dev", &["main:main", "main:other", "--force"]).unwrap_err();
    assert!(why.contains("[new branch]") && why.contains("[remote rejected]"), "{why}");
    // A branch that is not protected can be rewritten.
    repository.write("a", b"three\n");
    repository.commit("three");
    repository.git(&["checkout", "-q", "-B", "other", "HEAD"]);
    repository.git(&["commit", "-q", "--amend", "-m", "rewritten"]);
    push(&forge, &repository, "dev", &["--force", "other"]).unwrap();
    forge.clone(PUBLIC);
}

#[test]
fn pushes_that_conflict_with_existing_refs_are_refused() {
    let forge = Forge::new();
    let repository = Repository::with(&[("a.txt", b"one\ntwo\n")]);
    push(&forge, &repository, "mia", &["main", "topic"]).unwrap();
    forge.merge_request(1, json!({}));
    let id = forge.suggest(1, "a.txt", 1, &block("", "uno"))[0];
    assert_eq!(forge.apply(id, "dev", Value::Null).status, 200);
    repository.write("b", b"x");
    repository.commit("meanwhile");
    assert!(push(&forge, &repository, "dev", &["topic"]).unwrap_err().contains("fetch first"));
    forge.git(&repository, PUBLIC, "dev", &["pull", "-q", "--rebase", "URL", "topic"]).unwrap();
    push(&forge, &repository, "dev", &["topic"]).unwrap();
    let copy = forge.clone(PUBLIC);
    assert_eq!(copy.git(&["show", "topic:a.txt"]), b"uno\ntwo\n");
    assert_eq!(copy.git(&["show", "topic:b"]), b"x");
    // A folder and a branch cannot have one name.
    assert!(push(&forge, &repository, "dev", &["topic:refs/heads/topic/x"]).unwrap_err().contains("cannot lock ref"));
    assert!(
        push(&forge, &repository, "dev", &["topic:refs/merge-requests/1/head"]).unwrap_err().contains("hidden ref")
    );
}

#[test]
fn bad_packs_are_refused_with_a_reason_and_leave_nothing() {
    let blob = new_blob(b"hello\n".to_vec());
    let tree = new_tree(&[("100644 a", blob.id)]);
    let commit = new_commit(tree.id);
    let good = || Pack::of([&commit, &tree, &blob]);
    let refused = |pack: Vec<u8>, tip: ObjectId, expected: &str| {
        let forge = Forge::new();
        let report = push_pack(&forge, tip, &pack);
        assert!(report.contains(expected) && report.contains("ng refs/heads/new"), "{expected}: {report}");
        assert_eq!(forge.refs(PUBLIC, ""), "");
    };
    let whole = good().bytes();
    for cut in 1..whole.len() {
        refused(whole[..cut].to_vec(), commit.id, "unpack index-pack abnormal exit");
    }
    let mut flipped = whole.clone();
    let middle = flipped.len() - 25;
    flipped[middle] ^= 1;
    refused(flipped, commit.id, "unpacker error");
    refused([whole.clone(), b"more".to_vec()].concat(), commit.id, "junk at the end");
    refused(whole.clone(), tree.id, "no commit");
    refused(whole.clone(), ObjectId::new([9; 20]), "missing necessary objects");
    refused(Pack::of([&commit, &tree]).bytes(), commit.id, &format!("{} is not there", blob.id));
    refused(good().with(&blob).bytes(), commit.id, "twice");
    // Wrong sizes; deltas of nothing, of themselves, in a circle, with a result of 4 GB.
    let (file, delta) = (EntryKind::Object(ObjectKind::Blob), [6, 6, 0x90, 6]);
    let large = [6, 0x80, 0x80, 0x80, 0x80, 0x10, 0x90, 6];
    for (kind, size, contents, expected) in [
        (file, 3, &b"longer"[..], "larger than was said"),
        (file, 30, b"shorter", "smaller than was said"),
        (file, 1 << 40, b"x", "at most"),
        (EntryKind::OffsetDelta(1 << 20), 4, &delta, "out of bound"),
        (EntryKind::OffsetDelta(0), 4, &delta, "out of bound"),
        (EntryKind::RefDelta(ObjectId::new([7; 20])), 4, &delta, "unresolved"),
        (EntryKind::RefDelta(blob.id), 8, &large, "at most"),
        (EntryKind::RefDelta(blob.id), 4, &[6, 9, 0x90, 9], "apply delta"),
    ] {
        refused(good().add(kind, size, contents).bytes(), commit.id, expected);
    }
    // Trees that would write outside of a working copy.
    for (name, expected) in [(".git", "hasDotgit"), ("..", "hasDotdot"), (".GIT ", "hasDotgit"), ("git~1", "hasDotgit")]
    {
        let tree = new_tree(&[(&format!("100644 {name}"), blob.id)]);
        let commit = new_commit(tree.id);
        let pack = Pack::of([&commit, &tree, &blob]);
        refused(pack.bytes(), commit.id, expected);
    }
    let unsorted = new_tree(&[("100644 b", blob.id), ("100644 a", blob.id)]);
    let commit_2 = new_commit(unsorted.id);
    let pack = good().with(&unsorted).with(&commit_2);
    refused(pack.bytes(), commit_2.id, "treeNotSorted");
    // An object of another kind than the link to it says.
    let wrong = new_tree(&[("40000 a", blob.id)]);
    let commit_3 = new_commit(wrong.id);
    let pack = Pack::of([&commit_3, &wrong, &blob]);
    refused(pack.bytes(), commit_3.id, "is a blob, not a tree");
    // The good pack is accepted.
    let forge = Forge::new();
    assert_made(&push_pack(&forge, commit.id, &whole));
    forge.clone(PUBLIC);
}

#[test]
fn a_push_that_breaks_off_anywhere_is_whole_or_nothing() {
    let (pack, tip) = with_one_commit();
    let body = [body(&[("heads/new", None, Some(tip))], ""), pack].concat();
    let path = format!("projects/{PUBLIC}/repository.git/git-receive-pack");
    let failures = Forge::new().fail_at_each_operation(|operations, forge, failing| {
        let answer = send(forge.env_over(failing.clone()), Method::POST, &path, "dev", "", body.clone());
        let has_branch = forge.clone(PUBLIC).text(&["branch", "--list", "new"]).contains("new");
        if !failing.failed() {
            return assert!(answer.text().contains("ok refs/heads/new") && has_branch);
        }
        // After the branch is there, a failure is only logged.
        assert_eq!(answer.status, if answer.text().contains("ok refs/heads/new") { 200 } else { 500 }, "{operations}");
        assert!(answer.status == 500 || has_branch, "{operations}");
        // A repetition creates the branch.
        assert_eq!(send(forge.env(), Method::POST, &path, "dev", "", body.clone()).status, 200);
        assert_eq!(forge.clone(PUBLIC).text(&["rev-parse", "new"]), tip.to_string());
    });
    assert!(failures > 5);
}

#[test]
fn the_branch_that_will_be_the_default_one_is_not_for_developers_to_make() {
    for (configured, future) in [(Some("main"), "main"), (Some("trunk"), "trunk"), (None, "main")] {
        let (forge, repository) = (Forge::new(), Repository::with(&[("a", b"one\n")]));
        forge.project(PUBLIC, |project| project.default_branch = configured.map(str::to_owned));
        let target = format!("topic:refs/heads/{future}");
        let why = push(&forge, &repository, "dev", &[&target]).unwrap_err();
        assert!(why.contains("(protected branch)"), "{configured:?}: {why}");
        push(&forge, &repository, "dev", &["topic", "topic:refs/heads/master"]).unwrap();
        assert!(push(&forge, &repository, "dev", &[&target]).is_err(), "beside another one");
        push(&forge, &repository, "mia", &[&target]).unwrap();
        let free = Forge::new();
        free.project(PUBLIC, |project| project.protected_branches = Some(vec![]));
        push(&free, &repository, "dev", &[&target]).unwrap();
    }
}

#[test]
fn a_shallow_clone_pushes_to_where_its_history_is() {
    let (forge, repository) = (Forge::new(), Repository::with(&[("a", b"one\n")]));
    repository.write("a", b"two\n");
    repository.commit("second");
    push(&forge, &repository, "mia", &["main", "topic"]).unwrap();
    let copy = Repository::empty();
    forge.git(&copy, PUBLIC, "", &["fetch", "-q", "--depth", "1", "URL", "topic:topic"]).unwrap();
    copy.git(&["checkout", "-q", "topic"]);
    copy.write("a", b"three\n");
    let new = copy.commit("third");
    push(&forge, &copy, "dev", &["topic", "topic:other"]).unwrap();
    assert_eq!((forge.head(PUBLIC, "topic"), forge.head(PUBLIC, "other")), (new.clone(), new));
    forge.clone(PUBLIC);
    // Another repository lacks the commits that the shallow clone lacks.
    let empty = Forge::new();
    let why = push(&empty, &copy, "dev", &["topic", "topic:other"]).unwrap_err();
    assert_eq!(why.matches("(shallow update not allowed)").count(), 2, "{why}");
    assert!(why.contains("git fetch --unshallow"), "{why}");
    assert_eq!(empty.refs(PUBLIC, ""), "");
}

#[test]
fn one_name_that_is_no_text_is_refused_alone() {
    let (forge, repository) = (Forge::new(), Repository::with(&[("a", b"one\n")]));
    let head = repository.text(&["rev-parse", "topic"]);
    let mut refs = format!("{head} refs/heads/").into_bytes();
    refs.extend_from_slice(b"\xfcber\n");
    std::fs::write(repository.file(".git/packed-refs"), refs).unwrap();
    let why = push(&forge, &repository, "mia", &["--all"]).unwrap_err();
    assert!(why.contains("(funny refname)") && why.contains("must be UTF-8"), "{why}");
    assert!(why.contains("topic -> topic") && why.contains("main -> main"), "{why}");
    assert_eq!(forge.head(PUBLIC, "topic"), head);
    let why = push(&forge, &repository, "mia", &["--atomic", "topic:t2", "refs/heads/*:refs/heads/*"]).unwrap_err();
    assert!(why.contains("(atomic push failure)"), "{why}");
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut encoder, bytes).unwrap();
    encoder.finish().unwrap()
}

/// Sends a body of gzip in parts of this size to a service of git; the status and the response.
fn send_gzip(forge: &Forge, service: &str, body: &[u8], part: usize) -> (u16, String) {
    let parts: Vec<_> = body.chunks(part).map(|part| Ok(Bytes::copy_from_slice(part))).collect();
    let (path, body) = (format!("projects/{PUBLIC}/repository.git/{service}"), Body::pull(parts.into_iter()));
    let headers = [("private-token", "mia"), ("content-encoding", "gzip")];
    let answer = send_with(forge.env(), Method::POST, &path, &headers, body);
    (answer.status, answer.text())
}

#[test]
fn a_compressed_push_and_fetch_are_read() {
    let blob = new_blob(b"hello\n".repeat(50_000));
    let tree = new_tree(&[("100644 a", blob.id)]);
    let commit = new_commit(tree.id);
    let pack = Pack::of([&commit, &tree, &blob]);
    let body = gzip(&[body(&[("heads/main", None, Some(commit.id))], ""), pack.bytes()].concat());
    for part in [7, 4096, 1 << 20] {
        let forge = Forge::new();
        let (status, report) = send_gzip(&forge, "git-receive-pack", &body, part);
        assert!(status == 200 && report.contains("ok refs/heads/main"), "{status} {report}");
        assert_eq!(forge.clone(PUBLIC).text(&["rev-parse", "main"]), commit.id.to_string());
        let fetch = format!("0032want {}\n00000009done\n", commit.id);
        let (status, fetched) = send_gzip(&forge, "git-upload-pack", &gzip(fetch.as_bytes()), part);
        assert!(status == 200 && fetched.contains("PACK"), "{status} {fetched}");
    }
    let forge = Forge::new();
    let mut damaged = body.clone();
    let last = damaged.len() - 6;
    damaged[last] ^= 1;
    let junk = [body.clone(), b"junk".to_vec()].concat();
    for bad in [&body[..body.len() / 2], &body[..body.len() - 1], &body[..5], b"", b"not gzip", &damaged, &junk] {
        for service in ["git-receive-pack", "git-upload-pack"] {
            let (status, text) = send_gzip(&forge, service, bad, 4096);
            assert!(status == 400 && text.contains("gzip"), "{service}: {status} {text}");
        }
    }
    assert_eq!(forge.refs(PUBLIC, ""), "");
    // A body that becomes a thousand times as large.
    let zeros = vec![b'0'; 9 << 20];
    assert_eq!(send_gzip(&forge, "git-upload-pack", &gzip(&zeros), 4096).0, 413);
}

#[test]
fn options_of_a_push_are_ignored() {
    let (forge, repository) = (Forge::new(), Repository::with(&[("a", b"one\n")]));
    push(&forge, &repository, "dev", &["-o", "ci.skip", "--push-option=x=1", "topic"]).unwrap();
    assert_eq!(forge.head(PUBLIC, "topic"), repository.text(&["rev-parse", "topic"]));
    let long = format!("x={}", "y".repeat(40_000));
    let why = push(&forge, &repository, "dev", &["-o", &long, "-o", &long, "topic:other"]).unwrap_err();
    assert!(why.contains("[remote rejected] topic -> other (too many push options)"), "{why}");
    assert!(why.contains("remote: A push has 1000 options of 65536 bytes together at most."), "{why}");
    push(&forge, &repository, "dev", &["-o", "ci.skip", "--delete", "topic"]).unwrap();
}

#[test]
fn a_long_chain_of_deltas_is_read() {
    let forge = Forge::new();
    let repository = Repository::empty();
    let base: Vec<u8> = (0..4000_u32).flat_map(|number| number.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    for number in 0..120_u8 {
        let mut contents = base.clone();
        contents[usize::from(number) * 3] = number;
        repository.write("binary", &contents);
        repository.commit("next");
    }
    repository.git(&["repack", "-q", "-a", "-d", "-f", "--depth=200", "--window=10"]);
    push(&forge, &repository, "mia", &["main"]).unwrap();
    forge.clone(PUBLIC);
    let packs = forge.store.keys().into_iter().filter(|key| key.contains("/pack"));
    let stored: usize = packs.map(|key| forge.store.get(&key).unwrap().unwrap().len()).sum();
    assert!(stored < 120_000, "{stored} bytes");
}
