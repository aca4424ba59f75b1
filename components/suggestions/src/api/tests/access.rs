//! Rights to read code, merge requests and suggestions, and to push: by visibility, access level and role.

use super::*;

const FILES: [(&str, &[u8]); 1] = [("a.txt", b"one\ntwo\nthree\n")];

/// A merge request with one suggestion in each of the projects; the suggestions' ids.
fn forge() -> (Forge, [u64; 2]) {
    let forge = Forge::new();
    let ids = [PUBLIC, PRIVATE].map(|project| {
        forge.import(project, &Repository::with(&FILES));
        forge.merge_request(1, json!({"id": project, "project_id": project}));
        let path = format!("projects/{project}/merge_requests/1/discussions");
        let body = comment(&forge.head(project, "topic"), "a.txt", 2, &block("", "zwei"));
        forge.send(Method::POST, &path, "rep", body).suggestion()
    });
    (forge, ids)
}

/// The statuses of everything that shows or changes code: the list of discussions, a new comment, the
/// suggestion, git's list of refs.
fn statuses(forge: &Forge, project: u64, suggestion: u64, token: &str) -> [u16; 4] {
    statuses_at(forge, project, &forge.head(project, "topic"), suggestion, token)
}

/// As [`statuses`], for a comment at `head`.
fn statuses_at(forge: &Forge, project: u64, head: &str, suggestion: u64, token: &str) -> [u16; 4] {
    let list = format!("projects/{project}/merge_requests/1/discussions");
    let body = comment(head, "a.txt", 1, &block("", "x"));
    [
        forge.get(&list, token).status,
        forge.send(Method::POST, &list, token, body).status,
        forge.get(&format!("suggestions/{suggestion}"), token).status,
        forge.get(&format!("projects/{project}/repository.git/info/refs"), token).status,
    ]
}

#[test]
fn a_private_project_shows_its_code_to_reporters_and_not_to_guests() {
    let (forge, [public, private]) = forge();
    assert_eq!(statuses(&forge, PRIVATE, private, "rep"), [200, 201, 200, 200]);
    assert_eq!(statuses(&forge, PRIVATE, private, "gus"), [404, 404, 404, 403]);
    assert_eq!(statuses(&forge, PRIVATE, private, "otto"), [404, 404, 404, 404]);
    assert_eq!(statuses(&forge, PUBLIC, public, "otto"), [200, 201, 200, 200]);
    let list = format!("projects/{PRIVATE}/merge_requests/1/discussions");
    let id = forge.get(&list, "rep").json()[0]["id"].as_str().unwrap().to_owned();
    assert_eq!(forge.get(&format!("{list}/{id}"), "rep").status, 200);
    // A merge request that the caller may not read looks like one that does not exist.
    let missing = forge.get(&format!("projects/{PRIVATE}/merge_requests/99/discussions"), "rep").refusal();
    for path in [list.clone(), format!("{list}/{id}")] {
        assert_eq!(forge.get(&path, "gus").refusal(), missing, "{path}");
    }
    let unknown = forge.get("suggestions/99", "gus").refusal();
    assert_eq!(forge.get(&format!("suggestions/{private}"), "gus").refusal(), unknown);
    assert_eq!(forge.apply(private, "gus", Value::Null).refusal(), (403, "403 Forbidden".into()));
}

#[test]
fn access_levels_decide_about_merge_requests_suggestions_and_the_repository() {
    use FeatureAccess::{Disabled, Enabled, Private, Public};
    for (repository, merge_requests, visibility, expected) in [
        (Public, Public, Visibility::Public, [[200, 201, 200, 200]; 3]),
        (Private, Enabled, Visibility::Public, [[200, 201, 200, 200], [200, 201, 200, 200], [404, 404, 404, 403]]),
        (Enabled, Private, Visibility::Public, [[200, 201, 200, 200], [404, 404, 404, 200], [404, 404, 404, 200]]),
        (Enabled, Disabled, Visibility::Public, [[404, 404, 404, 200]; 3]),
        (Disabled, Enabled, Visibility::Public, [[404, 404, 404, 403]; 3]),
        (Public, Public, Visibility::Private, [[200, 201, 200, 200], [404, 404, 404, 403], [404, 404, 404, 404]]),
        (Enabled, Disabled, Visibility::Private, [[404, 404, 404, 200], [404, 404, 404, 403], [404, 404, 404, 404]]),
    ] {
        let (forge, [id, _]) = forge();
        let head = forge.head(PUBLIC, "topic");
        forge.project(PUBLIC, |project| {
            (project.repository, project.merge_requests, project.visibility) = (repository, merge_requests, visibility);
        });
        let git = format!("projects/{PUBLIC}/repository.git/info/refs");
        let case = format!("repository {repository:?}, merge requests {merge_requests:?}, {visibility:?}");
        for (token, expected) in ["rep", "gus", "otto"].into_iter().zip(expected) {
            assert_eq!(statuses_at(&forge, PUBLIC, &head, id, token), expected, "{token}: {case}");
        }
        let anonymous =
            if visibility == Visibility::Public && matches!(repository, Enabled | Public) { 200 } else { 401 };
        assert_eq!(forge.get(&git, "").status, anonymous, "{case}");
        let is_usable = repository != Disabled && merge_requests != Disabled;
        let applied = forge.apply(id, "dev", Value::Null).status;
        assert_eq!(applied, if is_usable { 200 } else { 403 }, "{case}");
    }
}

#[test]
fn a_default_branch_without_a_record_of_protected_branches_is_for_maintainers() {
    // `topic` is the branch that the imported repository has checked out.
    for configured in [Some("main"), Some("gone"), None] {
        let forge = Forge::new();
        let configure = |protected_branches| {
            forge.project(PUBLIC, |project| {
                project.default_branch = configured.map(str::to_owned);
                project.protected_branches = protected_branches;
            });
        };
        configure(None);
        forge.import_with_head(PUBLIC, &Repository::with(&FILES), "heads/topic");
        forge.merge_request(1, json!({"source_branch": "main", "target_branch": "topic"}));
        forge.merge_request(2, Value::Null);
        let ids = forge.suggest(1, "a.txt", 1, &(block("", "1") + &block(":+1", "2")));
        let on_topic = forge.suggest(2, "a.txt", 1, &block("", "1"))[0];
        assert_eq!(forge.apply(on_topic, "dev", Value::Null).status, 200, "{configured:?}");
        assert_eq!(forge.apply(ids[0], "dev", Value::Null).status, 403, "{configured:?}");
        configure(Some(vec![]));
        assert_eq!(forge.apply(ids[0], "dev", Value::Null).status, 200, "its protection was removed");
        configure(None);
        let next = comment(&forge.head(PUBLIC, "main"), "a.txt", 3, &block("", "3"));
        let next = forge.comment(1, "rep", next).suggestion();
        assert_eq!(forge.apply(next, "mia", Value::Null).status, 200, "{configured:?}");
    }
}

#[test]
fn the_branch_that_was_checked_out_is_the_default_one_where_no_other_is() {
    let forge = Forge::new();
    forge.project(PUBLIC, |project| project.default_branch = None);
    let repository = Repository::with(&FILES);
    repository.git(&["branch", "-q", "-D", "main"]);
    repository.git(&["branch", "-q", "other"]);
    forge.import_with_head(PUBLIC, &repository, "heads/topic");
    forge.merge_request(1, json!({"target_branch": "other"}));
    let id = forge.suggest(1, "a.txt", 1, &block("", "1"))[0];
    assert_eq!(forge.apply(id, "dev", Value::Null).status, 403);
    assert_eq!(forge.apply(id, "mia", Value::Null).status, 200);
}

#[test]
fn collaboration_on_a_fork_takes_the_right_to_push_to_the_target_branch() {
    let forge = Forge::new();
    forge.import(PUBLIC, &Repository::with(&FILES));
    forge.import(FORK, &Repository::with(&FILES));
    forge.project(FORK, |project| project.namespace_id = 1004);
    let merge_request = |author: u64| {
        let author = json!({"id": author});
        forge.merge_request(3, json!({"source_project_id": FORK, "allow_collaboration": true, "author": author}));
    };
    merge_request(4);
    let id = forge.suggest(3, "a.txt", 1, &block("", "1"))[0];
    assert_eq!(forge.apply(id, "dev", Value::Null).status, 403, "the target branch is the default one");
    merge_request(6);
    assert_eq!(forge.apply(id, "mia", Value::Null).status, 403, "the author has no right to lend");
    merge_request(4);
    let fork = |change: fn(&mut NewProject)| {
        forge.project(FORK, |project| {
            project.namespace_id = 1004;
            change(project);
        });
        forge.apply(id, "mia", Value::Null).status
    };
    let protect = |project: &mut NewProject| {
        project.protected_branches = Some(vec![ProtectedBranch { name: "t*".into(), push: Some(Role::Developer) }]);
    };
    assert_eq!(fork(protect), 403);
    assert_eq!(fork(|project| project.visibility = Visibility::Private), 403);
    assert_eq!(fork(|project| project.archived = true), 403);
    assert_eq!(fork(|_| {}), 200);
}

/// In one project, a user who may push to one branch may not push to another by a merge request between them.
#[test]
fn collaboration_is_with_another_project() {
    let forge = Forge::new();
    forge.import(PUBLIC, &Repository::with(&FILES));
    let body = json!({"source_branch": "main", "target_branch": "topic", "title": "T", "allow_collaboration": true});
    let created = forge.send(Method::POST, &format!("projects/{PUBLIC}/merge_requests"), "dev", body).expect(201);
    let iid = created.json()["iid"].as_u64().unwrap();
    let head = forge.head(PUBLIC, "main");
    let id = forge.comment(iid, "dev", comment(&head, "a.txt", 1, &block("", "1"))).suggestion();
    assert_eq!(forge.apply(id, "dev", Value::Null).status, 403);
    assert_eq!(forge.apply(id, "mia", Value::Null).status, 200);
}

/// The merge request shows its source branch to all its readers, and nothing else of a private fork.
#[test]
fn a_private_fork_is_commented_on_at_the_head_of_its_branch_only() {
    let forge = Forge::new();
    forge.import(PUBLIC, &Repository::with(&FILES));
    let repository = Repository::with(&FILES);
    repository.write("secret.txt", b"hidden\n");
    let before = repository.commit("not in the merge request");
    repository.git(&["rm", "-q", "secret.txt"]);
    repository.commit("removed");
    forge.import(FORK, &repository);
    forge.project(FORK, |project| {
        (project.namespace_id, project.visibility) = (1003, Visibility::Private);
    });
    forge.merge_request(3, json!({"source_project_id": FORK}));
    let at =
        |token: &str, head: &str, path: &str| forge.comment(3, token, comment(head, path, 1, &block("", "x"))).status;
    assert_eq!(at("dev", &before, "secret.txt"), 201, "the owner of the fork");
    assert_eq!(at("mia", &before, "secret.txt"), 400);
    assert_eq!(at("otto", &before, "a.txt"), 400);
    assert_eq!(at("otto", &forge.head(FORK, "topic"), "a.txt"), 201);
}
