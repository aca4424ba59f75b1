//! git, which reads imported repositories and applied suggestions.

use super::*;
use hexad_tests::forge::OUTSIDER;
use hexad_tests::repository::{Repository, git};
use hexad_tests::server::{BOOTSTRAP_TOKEN, program};
use hexad_tests::suggestions::{Suggestions, import_git, import_repository};

fn repository() -> Repository {
    let repository = Repository::with(&[("a.txt", b"one\ntwo\nthree\n"), ("dir/sub/b", b"\xff\r\nb"), ("empty", b"")]);
    repository.git(&["tag", "-a", "v1", "-m", "first"]);
    repository.git(&["tag", "light"]);
    repository.write("dir/c", b"c\n");
    repository.commit("second");
    repository
}

fn refs(repository: &Repository) -> String {
    repository.text(&[
        "for-each-ref",
        "--format=%(objectname) %(refname:lstrip=-1)",
        "refs/heads",
        "refs/tags",
        "refs/remotes",
    ])
}

#[test]
fn a_clone_has_the_imported_refs_and_objects() {
    let Some(server) = server() else { return };
    let repository = repository();
    let output = import_repository(&server, PRIVATE, &repository, &[]);
    assert!(output.contains("objects: 12 stored, 0 known; refs: 4 moved, 0 unchanged"), "{output}");
    let client = Suggestions::new(&server, PRIVATE, DEVELOPER);
    let clone = Repository::clone(&client.clone_url());
    let found = clone.text(&["rev-parse", "origin/main", "origin/topic", "v1", "light"]);
    assert_eq!(found, repository.text(&["rev-parse", "main", "topic", "v1", "light"]));
    assert_eq!(clone.git(&["show", "origin/topic:dir/sub/b"]), b"\xff\r\nb");
    assert!(refs(&clone).contains("v1"));
    // The second import has nothing to send.
    let again = import_repository(&server, PRIVATE, &repository, &[]);
    assert!(again.contains("objects: 0 stored, 0 known; refs: 0 moved, 4 unchanged"), "{again}");
    // After a new commit, only the new objects are stored.
    repository.write("dir/c", b"d\n");
    repository.commit("third");
    let third = import_repository(&server, PRIVATE, &repository, &[]);
    assert!(third.contains("objects: 4 stored, 0 known; refs: 1 moved, 3 unchanged"), "{third}");
    clone.git(&["fetch", "-q"]);
    assert_eq!(clone.text(&["rev-parse", "origin/topic"]), repository.text(&["rev-parse", "topic"]));
}

#[test]
fn names_that_clients_read_as_something_else_are_neither_imported_nor_pushed() {
    let Some(server) = server() else { return };
    let repository = repository();
    let commit = repository.text(&["rev-parse", "main"]);
    for name in [&*commit, "HEAD", "-x"] {
        repository.git(&["update-ref", &format!("refs/heads/{name}"), "topic"]);
    }
    let output = import_git(&server, PRIVATE, repository.path(), &[]);
    let told = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && told.contains("refs: 4 moved, 0 unchanged, 3 left out"), "{told}");
    assert!(told.contains(&format!("refs/heads/{commit}: ")) && told.contains("refs/heads/HEAD: "), "{told}");
    let url = Suggestions::new(&server, PRIVATE, DEVELOPER).clone_url();
    let push = Command::new("git")
        .args(["push", &url, &format!("topic:refs/heads/{commit}")])
        .current_dir(repository.path())
        .output()
        .expect("git runs");
    let told = String::from_utf8_lossy(&push.stderr).into_owned();
    assert!(!push.status.success() && told.contains("as something else: the id of a commit"), "{told}");
    // A client that pins the commit gets it.
    let clone = Repository::clone(&url);
    assert_eq!(clone.text(&["rev-parse", &commit]), commit);
    assert_eq!(clone.text(&["branch", "-r"]).lines().count(), 3, "HEAD, main and topic");
}

#[test]
fn objects_that_were_stored_one_by_one_are_repacked() {
    let Some(server) = server() else { return };
    let repository = repository();
    let post = |path: &str, body: &[u8]| -> Value {
        server.send("POST", &format!("import/suggestions/{PRIVATE}/{path}"), BOOTSTRAP_TOKEN, body).json()
    };
    // Imports objects as `import-git` of earlier versions did.
    let objects = repository.git(&["cat-file", "--batch", "--batch-all-objects"]);
    assert_eq!(post("objects", &objects)["stored"], 12);
    let listed = repository.text(&["for-each-ref", "--format=%(objectname) %(refname)"]);
    let refs = listed.lines().filter_map(|line| line.split_once(" refs/"));
    let refs: Vec<Value> = refs.map(|(id, name)| json!({"name": name, "new": id})).collect();
    assert_eq!(post("refs", json!({"refs": refs}).to_string().as_bytes())["moved"], 4);
    let repack = || {
        let mut command = Command::new(program());
        command.args(["repack", "--url", &server.url, "--token", BOOTSTRAP_TOKEN]);
        // Neither the command nor its git sends the token to a proxy. No process listens at the proxy's address.
        command.envs([("http_proxy", "http://127.0.0.1:1"), ("NO_PROXY", ""), ("no_proxy", "")]);
        let output = output(&mut command);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let first = repack();
    assert!(first.contains("objects: 12 stored, 0 known"), "{first}");
    assert_eq!(repack(), "", "nothing is left to do");
    let clone = Repository::clone(&Suggestions::new(&server, PRIVATE, DEVELOPER).clone_url());
    let found = clone.text(&["rev-parse", "origin/main", "origin/topic", "v1", "light"]);
    assert_eq!(found, repository.text(&["rev-parse", "main", "topic", "v1", "light"]));
}

#[test]
fn a_clone_needs_rights() {
    let Some(server) = server() else { return };
    let repository = repository();
    import_repository(&server, PRIVATE, &repository, &[]);
    import_repository(&server, PUBLIC, &repository, &[]);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let clone = |project: u64, token: &str, name: &str| {
        let url = Suggestions::new(&server, project, token).clone_url();
        git(folder.path(), &["clone", "-q", &url, name]).status.success()
    };
    assert!(!clone(PRIVATE, OUTSIDER, "a"));
    assert!(!clone(PRIVATE, "wrong", "b"));
    assert!(clone(PRIVATE, DEVELOPER, "c"));
    let anonymous = format!("{}/api/v4/projects/acme%2Fopen/repository.git", server.url);
    assert!(git(folder.path(), &["clone", "-q", &anonymous, "d"]).status.success());
    let header = format!("http.extraHeader=PRIVATE-TOKEN: {DEVELOPER}");
    let private = format!("{}/api/v4/projects/{PRIVATE}/repository.git", server.url);
    assert!(git(folder.path(), &["-c", &header, "clone", "-q", &private, "e"]).status.success());
}

#[test]
fn an_address_without_the_suffix_leads_to_the_repository() {
    let Some(server) = server() else { return };
    let repository = repository();
    import_repository(&server, PRIVATE, &repository, &[]);
    let url = format!("{}/acme/labs/secret", server.url).replace("http://", &format!("http://git:{DEVELOPER}@"));
    let clone = Repository::clone(&url);
    assert_eq!(clone.text(&["rev-parse", "origin/main"]), repository.text(&["rev-parse", "main"]));
    clone.write("pushed", b"x\n");
    clone.commit("pushed");
    clone.git(&["push", "-q", &url, "HEAD:refs/heads/pushed"]);
    assert!(clone.text(&["ls-remote", &url]).contains("refs/heads/pushed"));
}

#[test]
fn a_project_with_the_id_of_a_deleted_one_has_a_repository_of_its_own() {
    let Some(server) = server() else { return };
    let repository = repository();
    import_repository(&server, PRIVATE, &repository, &[]);
    forge::import(&server, &format!(r#"{{"kind":"project","id":{PRIVATE},"deleted":true}}"#));
    forge::import(&server, forge::RECORDS.trim());
    let url = Suggestions::new(&server, PRIVATE, MAINTAINER).clone_url();
    assert_eq!(repository.text(&["ls-remote", &url]), "");
    repository.git(&["push", "-q", &url, "topic:main"]);
    let clone = Repository::clone(&url);
    assert_eq!(clone.text(&["rev-parse", "HEAD"]), repository.text(&["rev-parse", "topic"]));
    assert_eq!(clone.text(&["branch", "-r"]).lines().count(), 2, "HEAD and main");
}

#[test]
fn an_applied_suggestion_is_a_commit_that_can_be_fetched() {
    let Some(server) = server() else { return };
    let repository = repository();
    import_repository(&server, PRIVATE, &repository, &[]);
    let client = Suggestions::new(&server, PRIVATE, DEVELOPER);
    client.import_merge_request(1, "topic");
    let clone = Repository::clone(&client.clone_url());
    let head = client.head("topic");
    let id = client.suggest(1, &head, "dir/sub/b", 2, "bee").expect("an answer");
    assert_eq!(client.apply(id, "Bees").expect("an answer").status, 200);
    clone.git(&["fetch", "-q"]);
    clone.git(&["fsck", "--full", "--strict"]);
    assert_eq!(clone.git(&["show", "origin/topic:dir/sub/b"]), b"\xff\r\nbee");
    assert_eq!(clone.text(&["log", "-1", "--format=%P %an %s", "origin/topic"]), format!("{head} Dev Developer Bees"));

    // The local repository does not have the commit, so the import must not move the branch away from it.
    repository.write("x", b"x\n");
    repository.commit("meanwhile");
    let refused = import_git(&server, PRIVATE, repository.path(), &[]);
    let why = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success() && why.contains("--force"), "{why}");
    assert_eq!(client.head("topic"), clone.text(&["rev-parse", "origin/topic"]));
    import_repository(&server, PRIVATE, &repository, &["--force"]);
    assert_eq!(client.head("topic"), repository.text(&["rev-parse", "topic"]));

    repository.git(&["checkout", "-q", "main"]);
    repository.git(&["branch", "-q", "-D", "topic"]);
    repository.git(&["tag", "-d", "light"]);
    assert!(import_repository(&server, PRIVATE, &repository, &[]).contains("refs: 0 moved"));
    assert!(import_repository(&server, PRIVATE, &repository, &["--prune"]).contains("refs: 2 moved"));
    clone.git(&["fetch", "-q", "--prune"]);
    let left = clone.text(&["for-each-ref", "--format=%(refname)", "refs/remotes"]);
    assert!(!left.contains("topic") && left.contains("main"), "{left}");
}

#[test]
fn a_failed_import_gives_the_reason() {
    let Some(server) = server() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let refused = |project: u64, folder: &std::path::Path, expected: &str| {
        let output = import_git(&server, project, folder, &[]);
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && why.contains(expected), "{why}");
    };
    refused(PRIVATE, folder.path(), "not a git repository");
    refused(PRIVATE, Repository::empty().path(), "no branches");
    refused(999, repository().path(), "404 Project Not Found");
    let damaged = repository();
    let blob = damaged.text(&["rev-parse", "HEAD:a.txt"]);
    let (first, rest) = blob.split_at(2);
    std::fs::remove_file(damaged.file(&format!(".git/objects/{first}/{rest}"))).expect("a loose object");
    refused(PRIVATE, damaged.path(), &blob);
}
