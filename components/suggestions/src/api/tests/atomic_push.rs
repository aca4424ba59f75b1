//! `git push --atomic`: all refs are moved, or none.

use super::ref_names::body;
use super::*;
use crate::store::ref_names;

fn push(forge: &Forge, repository: &Repository, token: &str, arguments: &[&str]) -> Result<String, String> {
    forge.git(repository, PUBLIC, token, &[&["push", "--atomic", "URL"], arguments].concat())
}

/// The id of the project's repository.
fn id() -> RepositoryId {
    RepositoryId::first(PUBLIC)
}

/// A forge with the branches `main`, `topic` and `old` at one commit, and a commit on top of it.
fn forge() -> (Forge, Repository, [ObjectId; 2]) {
    let forge = Forge::new();
    let repository = Repository::with(&[("a", b"one\n")]);
    push(&forge, &repository, "mia", &["main", "topic", "topic:old"]).unwrap();
    let before = repository.text(&["rev-parse", "HEAD"]);
    repository.write("a", b"two\n");
    let after = repository.commit("two");
    push(&forge, &repository, "mia", &["topic:refs/heads/keep"]).unwrap();
    let ids = [before, after].map(|id| ObjectId::parse(&id).unwrap());
    (forge, repository, ids)
}

#[test]
fn one_refused_ref_refuses_all() {
    let (forge, repository, _) = forge();
    let before = forge.clone(PUBLIC).text(&["for-each-ref"]);
    for (token, arguments, expected) in [
        ("dev", ["topic", "topic:main"], "[remote rejected] topic -> main (protected branch)"),
        ("dev", ["topic", "topic:main"], "[remote rejected] topic -> topic (atomic push failure)"),
        ("mia", ["topic", "topic:topic/x"], "(atomic push failure)"),
        ("mia", ["topic:new/x", "topic:new"], "(cannot lock ref"),
    ] {
        let why = push(&forge, &repository, token, &arguments).unwrap_err();
        assert!(why.contains(expected), "{expected}: {why}");
        assert_eq!(forge.clone(PUBLIC).text(&["for-each-ref"]), before);
    }
    push(&forge, &repository, "mia", &["topic", "topic:main", "topic:new", ":old"]).unwrap();
    let clone = forge.clone(PUBLIC);
    let tip = repository.text(&["rev-parse", "topic"]);
    assert_eq!(clone.text(&["rev-parse", "topic", "main", "new"]), [&*tip; 3].join("\n"));
    assert_eq!(clone.text(&["branch", "--list", "old"]), "");
    let names = ref_names::read(&forge.env(), id()).unwrap().names;
    assert!(!names.contains("heads/old") && !names.contains("heads/topic/x"), "{names:?}");
}

#[test]
fn a_failure_at_any_point_leaves_all_or_nothing_and_a_repetition_succeeds() {
    let (forge, _, [before, after]) = forge();
    let changes = [
        ("heads/topic", Some(before), Some(after)),
        ("heads/main", Some(before), Some(after)),
        ("heads/new", None, Some(after)),
        ("heads/old", Some(before), None),
    ];
    let body = body(&changes, "atomic");
    let path = format!("projects/{PUBLIC}/repository.git/git-receive-pack");
    let state = |forge: &Forge| {
        ["topic", "main", "new", "old"]
            .map(|branch| refs::read(&forge.env(), id(), &format!("heads/{branch}")).unwrap().map(|value| value.commit))
    };
    let (none, all) = ([Some(before), Some(before), None, Some(before)], [Some(after), Some(after), Some(after), None]);
    let failures = forge.fail_at_each_operation(|operations, copy, failing| {
        let answer = send(copy.env_over(failing.clone()), Method::POST, &path, "mia", "", body.clone());
        let now = state(copy);
        if !failing.failed() {
            return assert!(answer.text().contains("ok refs/heads/old") && now == all, "{}", answer.text());
        }
        assert!(now == none || now == all, "after {operations} operations: {now:?}");
        // The list of refs that clients get is the same.
        assert_eq!(copy.refs(PUBLIC, "").contains("refs/heads/new"), now == all);
        if now == none {
            let again = send(copy.env(), Method::POST, &path, "mia", "", body.clone());
            assert!(again.text().contains("ok refs/heads/topic"), "{}", again.text());
            assert_eq!(state(copy), all);
        }
        copy.clone(PUBLIC);
    });
    assert!(failures > 20, "{failures}");
    let lost = LostReplyStore::over(forge.store.clone());
    let answer = send(forge.env_over(lost), Method::POST, &path, "mia", "", body);
    assert!(answer.text().contains("ok refs/heads/old"), "{}", answer.text());
    assert_eq!(state(&forge), all);
}

#[test]
fn another_writer_aborts_an_undecided_transaction() {
    let (forge, _, [before, after]) = forge();
    let change = |name: &'static str| RefChange { name, old: Some(before), new: Some(after) };
    let changes = |branch: &'static str| [change(branch), change("heads/topic")];
    // A request that dies when it has locked the first ref.
    let mut operations = 0;
    while !forge.store.get("suggestions/v1/ref/7/heads%2Fmain").unwrap().unwrap().windows(4).any(|part| part == b"lock")
    {
        let failing = FailingStore::after(operations, forge.store.clone());
        assert!(update_all(&forge.env_over(failing), id(), &changes("heads/main")).is_err());
        operations += 1;
    }
    let env = forge.env();
    assert_eq!(refs::read(&env, id(), "heads/main").unwrap().unwrap().commit, before);
    // Its lock stops no other push.
    assert_eq!(update_all(&env, id(), &changes("heads/main")).unwrap(), Ok(()));
    let stale = update_all(&env, id(), &changes("heads/old")).unwrap();
    assert_eq!(stale, Err(Conflict::Moved(1, Some(after))));
    let old = refs::read(&env, id(), "heads/old").unwrap().unwrap();
    assert_eq!(old.commit, before, "the lock is gone, and nothing was moved");
    let record = forge.store.get("suggestions/v1/ref/7/heads%2Fold").unwrap().unwrap();
    assert!(!String::from_utf8(record).unwrap().contains("lock"));
}
