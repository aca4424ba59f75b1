//! Merge requests: reading, listing, making and changing.

use super::merge_request_filters::build_catalog;
use super::*;

pub const LIST: &str = "projects/7/merge_requests";

/// A repository with a commit more on `topic` than on `main`.
pub fn forge() -> (Forge, Repository) {
    let (forge, repository) = (Forge::new(), Repository::with(&[("a.txt", b"one\n")]));
    repository.write("a.txt", b"two\n");
    repository.commit("second");
    forge.import(PUBLIC, &repository);
    (forge, repository)
}

pub fn create(forge: &Forge, token: &str, more: Value) -> TestResponse {
    let mut body = json!({"title": "A change", "source_branch": "topic", "target_branch": "main"});
    body.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    forge.send(Method::POST, LIST, token, body)
}

pub fn state(forge: &Forge, iid: u64) -> String {
    forge.get(&format!("{LIST}/{iid}"), "").json()["state"].as_str().unwrap().to_owned()
}

/// The iids of a list.
#[track_caller]
pub fn listed(forge: &Forge, query: &str) -> Vec<u64> {
    forge.get(&format!("{LIST}{query}"), "dev").expect(200).iids()
}

#[test]
fn a_merge_request_is_made_and_shows_its_branches() {
    let (forge, repository) = forge();
    let made = create(&forge, "dev", json!({"description": "Why"}));
    assert_eq!(made.status, 201, "{}", made.text());
    let made = made.json();
    let shown = forge.get(&format!("{LIST}/1"), "").json();
    assert_eq!(shown, made);
    let [base, head] = ["main", "topic"].map(|branch| repository.text(&["rev-parse", branch]));
    assert_eq!(shown["diff_refs"], json!({"base_sha": base, "head_sha": head, "start_sha": base}));
    for (field, expected) in [
        ("iid", json!(1)),
        ("project_id", json!(PUBLIC)),
        ("title", json!("A change")),
        ("description", json!("Why")),
        ("state", json!("opened")),
        ("sha", json!(head)),
        ("source_branch", json!("topic")),
        ("target_branch", json!("main")),
        ("source_project_id", json!(PUBLIC)),
        ("target_project_id", json!(PUBLIC)),
        ("created_at", json!("2026-09-21T14:13:20.000Z")),
        ("merged_at", Value::Null),
        ("web_url", json!("https://forge.test:8443/acme/p7/-/merge_requests/1")),
    ] {
        assert_eq!(shown[field], expected, "{field}");
    }
    assert_eq!((&shown["author"]["username"], &shown["references"]["full"]), (&json!("dev"), &json!("acme/p7!1")));
    let id = forge.suggest(1, "a.txt", 1, &block("", "zwei"))[0];
    assert_eq!(forge.apply(id, "dev", Value::Null).status, 200);
    assert_eq!(forge.get(&format!("{LIST}/1"), "").json()["sha"], json!(forge.head(PUBLIC, "topic")));
    forge.merge_request(41, Value::Null);
    let head = forge.head(PUBLIC, "topic");
    forge.delete_branch(PUBLIC, "topic");
    assert_eq!(forge.get(&format!("{LIST}/41"), "").json()["sha"], json!(head));
}

#[test]
fn invalid_new_merge_requests_are_refused() {
    let (forge, _) = forge();
    let refused = |token: &str, more: Value| {
        let answer = create(&forge, token, more);
        (answer.status, answer.json())
    };
    assert_eq!(refused("", json!({})).0, 401);
    assert_eq!(refused("rep", json!({})).0, 403);
    let empty = forge.send(Method::POST, LIST, "dev", json!({})).refusal();
    assert_eq!(empty, (400, "title is missing, source_branch is missing, target_branch is missing".into()));
    let message = |message: Value| json!({"message": message});
    assert_eq!(refused("dev", json!({"title": " "})), (400, message(json!({"title": ["can't be blank"]}))));
    assert_eq!(refused("dev", json!({"title": "x".repeat(256)})).0, 400);
    let expected = (400, message(json!({"source_branch": ["does not exist"]})));
    assert_eq!(refused("dev", json!({"source_branch": "no"})), expected);
    let same = "You can't use same project/branch for source and target";
    assert_eq!(refused("dev", json!({"source_branch": "main"})), (422, message(json!([same]))));
    assert_eq!(refused("dev", json!({"target_project_id": 99})).0, 404);
    assert_eq!(create(&forge, "dev", json!({})).status, 201);
    let open = "Another open merge request already exists for this source branch: !1";
    assert_eq!(refused("dev", json!({})), (409, message(json!([open]))));
    assert_eq!(forge.send(Method::PUT, &format!("{LIST}/1"), "dev", json!({"state_event": "close"})).status, 200);
    assert_eq!(create(&forge, "dev", json!({})).json()["iid"], 2);
    let body = json!({"title": "x", "source_branch": "a", "target_branch": "b"});
    assert_eq!(forge.send(Method::POST, "projects/99/merge_requests", "dev", body).status, 404);
}

#[test]
fn a_fork_asks_to_be_merged() {
    let (forge, repository) = forge();
    forge.import(FORK, &repository);
    let body = json!({"title": "T", "source_branch": "topic", "target_branch": "main", "target_project_id": PUBLIC});
    let made = forge.send(Method::POST, &format!("projects/{FORK}/merge_requests"), "dev", body).expect(201);
    assert_eq!((&made.json()["source_project_id"], &made.json()["project_id"]), (&json!(FORK), &json!(PUBLIC)));
    assert_eq!(listed(&forge, ""), [1]);
}

#[test]
fn lists_have_filters_and_pages() {
    let (forge, repository) = forge();
    repository.git(&["branch", "other"]);
    forge.import(PUBLIC, &repository);
    for (iid, more) in [
        (1, json!({"state": "merged", "author": {"id": 2}})),
        (2, json!({"title": "Fix the ROOF", "source_branch": "other"})),
        (3, json!({"state": "closed", "target_branch": "other"})),
        (7, json!({"description": "of the roof"})),
        (8, json!({})),
    ] {
        forge.merge_request(iid, more);
    }
    for (query, expected) in [
        ("", vec![8, 7, 3, 2, 1]),
        ("?sort=asc", vec![1, 2, 3, 7, 8]),
        ("?per_page=2&page=2", vec![3, 2]),
        ("?state=opened", vec![8, 7, 2]),
        ("?state=closed", vec![3]),
        ("?state=merged", vec![1]),
        ("?state=all", vec![8, 7, 3, 2, 1]),
        ("?source_branch=other", vec![2]),
        ("?target_branch=other", vec![3]),
        ("?source_branch=topic&target_branch=main&state=opened", vec![8, 7]),
        ("?author_id=2", vec![1]),
        ("?author_username=mia", vec![1]),
        ("?author_username=nobody", vec![]),
        ("?scope=created_by_me", vec![8, 7, 3, 2]),
        ("?iids[]=2&iids[]=3&iids[]=4", vec![3, 2]),
        ("?search=roof", vec![7, 2]),
    ] {
        assert_eq!(listed(&forge, query), expected, "{query}");
    }
    let page = forge.get(&format!("{LIST}?state=opened&per_page=2&private_token=dev"), "");
    assert_eq!((page.headers["x-total"].to_str().unwrap(), page.headers["x-next-page"].to_str().unwrap()), ("3", "2"));
    let link = page.headers["link"].to_str().unwrap();
    assert!(link.contains("state=opened") && !link.contains("private_token"), "{link}");
    let found = forge.get(&format!("{LIST}?state=gone"), "").refusal();
    assert_eq!(found, (400, "state does not have a valid value".into()));
    forge.merge_request(7, json!({"deleted": true}));
    assert_eq!((listed(&forge, ""), forge.get(&format!("{LIST}/7"), "").status), (vec![8, 3, 2, 1], 404));
    assert_eq!(forge.get(&format!("projects/{PRIVATE}/merge_requests"), "").status, 404);
    assert_eq!(forge.get(&format!("projects/{PRIVATE}/merge_requests"), "gus").status, 403);
}

#[test]
fn the_list_of_all_projects_has_only_readable_merge_requests() {
    let (forge, repository) = forge();
    forge.import(PRIVATE, &repository);
    for (iid, more) in [
        (1, json!({"created_at": "2026-01-01"})),
        (2, json!({"created_at": "2026-01-03", "author": {"id": 2}, "state": "closed"})),
        (5, json!({"id": 900, "created_at": "2026-01-02", "project_id": PRIVATE})),
    ] {
        forge.merge_request(iid, more);
    }
    build_catalog(&forge);
    let listed = |query: &str, token: &str| forge.get(&format!("merge_requests{query}"), token).expect(200).iids();
    for (query, token, expected) in [
        ("", "dev", vec![5, 1]),
        ("?scope=created_by_me", "mia", vec![2]),
        ("", "otto", vec![]),
        ("?scope=assigned_to_me", "dev", vec![]),
        ("?scope=all", "", vec![2, 1]),
        ("?scope=all", "gus", vec![2, 1]),
        ("?scope=all", "rep", vec![2, 5, 1]),
        ("?scope=all&state=opened", "root", vec![5, 1]),
        ("?scope=all&author_username=mia", "otto", vec![2]),
        ("?scope=all&sort=asc&per_page=2&page=2", "root", vec![2]),
    ] {
        assert_eq!(listed(query, token), expected, "{query} by {token}");
    }
    assert_eq!(forge.get("merge_requests", "").status, 401);
    let refused = forge.get("merge_requests?scope=mine", "dev").refusal();
    assert_eq!(refused, (400, "scope does not have a valid value".into()));
    let page = forge.get("merge_requests?scope=all&per_page=1", "root");
    assert_eq!(page.headers["x-total"].to_str().unwrap(), "3");
}

#[test]
fn notes_of_users_are_counted() {
    let (forge, repository) = forge();
    forge.merge_request(1, json!({}));
    let count = || forge.get(&format!("{LIST}/1"), "").json()["user_notes_count"].as_u64().unwrap();
    assert_eq!(count(), 0);
    let head = repository.text(&["rev-parse", "topic"]);
    let path = repository.text(&["ls-tree", "--name-only", "-r", "topic"]).lines().next().unwrap().to_owned();
    let id = forge.suggest(1, &path, 1, &block("", "x"))[0];
    let discussion = forge.comment(1, "dev", comment(&head, &path, 1, "also")).json();
    let reply = format!("{LIST}/1/discussions/{}/notes", discussion["id"].as_str().unwrap());
    assert_eq!(forge.send(Method::POST, &reply, "dev", json!({"body": "and"})).status, 201);
    assert_eq!(count(), 3);
    // The service's note about the commit is no note of a user.
    assert_eq!(forge.apply(id, "dev", Value::Null).status, 200);
    assert_eq!(count(), 3);
    assert_eq!(forge.get(LIST, "").json()[0]["user_notes_count"], 3);
}

#[test]
fn a_merge_request_lists_the_commits_that_its_target_lacks() {
    let (forge, repository) = forge();
    for number in 1..=3 {
        repository.write("more", format!("{number}\n").as_bytes());
        repository.commit(&format!("number {number}\n\nand why"));
    }
    forge.import(PUBLIC, &repository);
    forge.merge_request(1, json!({}));
    let expected = repository.text(&["rev-list", "main..topic"]);
    let answer = forge.get(&format!("{LIST}/1/commits"), "").expect(200);
    let commits = answer.json();
    let ids: Vec<&str> = commits.as_array().unwrap().iter().map(|commit| commit["id"].as_str().unwrap()).collect();
    assert_eq!(ids, expected.lines().collect::<Vec<_>>());
    let first = &commits[0];
    assert_eq!((&first["title"], &first["message"]), (&json!("number 3"), &json!("number 3\n\nand why\n")));
    assert_eq!((&first["short_id"], &first["parent_ids"]), (&json!(ids[0].get(..8)), &json!([ids[1]])));
    let second = forge.get(&format!("{LIST}/1/commits?per_page=1&page=2"), "").json();
    assert_eq!(second[0]["id"], ids[1]);
    assert_eq!(forge.get(&format!("{LIST}/9/commits"), "").status, 404);
    assert_eq!(forge.get(&format!("{LIST}/x/commits"), "").status, 400);
    forge.delete_branch(PUBLIC, "topic");
    assert_eq!(forge.get(&format!("{LIST}/1/commits"), "").json(), commits, "of a deleted branch");
    forge.delete_branch(PUBLIC, "main");
    assert_eq!(forge.get(&format!("{LIST}/1/commits"), "").json(), json!([]));
}

#[test]
fn merge_requests_of_a_build_without_lists_are_found() {
    let (forge, _) = forge();
    for iid in [1, 2, 150] {
        forge.merge_request(iid, json!({"source_branch": "topic"}));
    }
    forge.store.delete("suggestions/v1/merge_requests/7").unwrap();
    assert_eq!(listed(&forge, ""), [150, 2, 1]);
    forge.store.delete("suggestions/v1/merge_requests/7").unwrap();
    forge.merge_request(1, json!({"state": "closed"}));
    assert_eq!((listed(&forge, ""), create(&forge, "dev", json!({})).status), (vec![150, 2, 1], 409));
}

#[test]
fn a_merge_request_is_changed_closed_and_reopened() {
    let (forge, _) = forge();
    assert_eq!(create(&forge, "dev", json!({})).status, 201);
    let put = |token: &str, body: Value| forge.send(Method::PUT, &format!("{LIST}/1"), token, body);
    assert_eq!((put("", json!({"title": "x"})).status, put("rep", json!({"title": "x"})).status), (401, 403));
    let missing = "title, description, target_branch, state_event, allow_collaboration are missing, \
                   at least one parameter must be provided";
    assert_eq!(put("dev", json!({})).refusal(), (400, missing.into()));
    assert_eq!(put("dev", json!({"state_event": "merge"})).refusal().0, 400);
    assert_eq!(put("dev", json!({"target_branch": "nowhere"})).status, 400);
    assert_eq!(put("dev", json!({"title": ""})).status, 400);
    let changed = put("mia", json!({"title": "Draft: better", "description": "more"})).json();
    let expected = (&json!("Draft: better"), &json!("more"), &json!(true));
    assert_eq!((&changed["title"], &changed["description"], &changed["draft"]), expected);
    let id = forge.suggest(1, "a.txt", 1, &block("", "zwei"))[0];
    let closed = put("dev", json!({"state_event": "close"})).json();
    assert_eq!((&closed["state"], &closed["closed_by"]["username"]), (&json!("closed"), &json!("dev")));
    assert_eq!((forge.flags(id), forge.apply(id, "dev", Value::Null).status), ((false, false), 400));
    let reopened = put("dev", json!({"state_event": "reopen"})).json();
    assert_eq!((&reopened["state"], &reopened["closed_at"]), (&json!("opened"), &Value::Null));
    assert_eq!(forge.apply(id, "dev", Value::Null).status, 200);
}

#[test]
fn a_change_needs_the_branches_that_a_new_one_needs() {
    let (forge, repository) = forge();
    repository.git(&["branch", "other"]);
    forge.import(PUBLIC, &repository);
    let put = |iid: u64, body: Value| {
        let answer = forge.send(Method::PUT, &format!("{LIST}/{iid}"), "dev", body);
        (answer.status, answer.json()["message"][0].as_str().unwrap_or_default().to_owned())
    };
    assert_eq!(create(&forge, "dev", json!({})).status, 201);
    let same = "You can't use same project/branch for source and target".to_owned();
    assert_eq!(put(1, json!({"target_branch": "topic"})), (422, same));
    assert_eq!(create(&forge, "dev", json!({"target_branch": "other"})).json()["iid"], 2);
    let first = "Another open merge request already exists for this source branch: !1".to_owned();
    assert_eq!(put(2, json!({"target_branch": "main"})), (409, first.clone()));
    assert_eq!(put(2, json!({"target_branch": "main", "state_event": "close"})).0, 200);
    assert_eq!(put(2, json!({"state_event": "reopen"})), (409, first));
    assert_eq!(put(2, json!({"state_event": "reopen", "target_branch": "other"})).0, 200);
    assert_eq!(put(1, json!({"target_branch": "main"})).0, 200, "as it is");
}

#[test]
fn the_base_is_where_the_branches_parted() {
    let (forge, repository) = forge();
    let first = repository.text(&["rev-parse", "main"]);
    repository.git(&["checkout", "-q", "main"]);
    repository.write("c.txt", b"c\n");
    let start = repository.commit("on main");
    forge.import(PUBLIC, &repository);
    forge.merge_request(1, Value::Null);
    let refs = |forge: &Forge| forge.get(&format!("{LIST}/1"), "").json()["diff_refs"].clone();
    assert_eq!((&refs(&forge)["base_sha"], &refs(&forge)["start_sha"]), (&json!(first), &json!(start)));
    repository.git(&["checkout", "-q", "topic"]);
    repository.git(&["merge", "-q", "--no-ff", "-m", "main into topic", "main"]);
    forge.import(PUBLIC, &repository);
    assert_eq!(refs(&forge)["base_sha"], json!(start));
}

#[test]
fn another_project_with_the_id_of_a_deleted_one_has_none_of_its_merge_requests() {
    let (forge, repository) = forge();
    forge.merge_request(1, Value::Null);
    let id = forge.suggest(1, "a.txt", 1, &block("", "zwei"))[0];
    let saved = |exists: bool| match exists {
        true => forge.project(PUBLIC, |_| {}),
        false => directory::dependents::delete_project(&forge.env(), PUBLIC).unwrap(),
    };
    saved(false);
    assert!(project::by_id(&forge.env(), PUBLIC).unwrap().is_none());
    assert_eq!((forge.get(LIST, "").status, forge.get(&format!("suggestions/{id}"), "root").status), (404, 404));
    saved(true);
    assert_eq!(listed(&forge, ""), Vec::<u64>::new());
    for path in ["", "/discussions", "/notes"] {
        assert_eq!(forge.get(&format!("{LIST}/1{path}"), "root").status, 404, "{path}");
    }
    assert_eq!(forge.get(&format!("suggestions/{id}"), "root").status, 404);
    assert_eq!(forge.apply(id, "root", Value::Null).status, 403);
    // The iids begin again.
    forge.import(PUBLIC, &repository);
    assert_eq!(create(&forge, "dev", json!({})).json()["iid"], 1);
    assert_eq!(forge.get(&format!("{LIST}/1/discussions"), "").json(), json!([]));
}

#[test]
fn what_merge_requests_do_not_have_is_refused_by_name() {
    let (forge, _) = forge();
    let text = |name: &str| (400, format!("{name} is not supported by this server"));
    let asked = [
        ("labels", json!("a,b")),
        ("labels", json!(["0"])),
        ("add_labels", json!("a")),
        ("assignee_id", json!(3)),
        ("assignee_ids", json!([3])),
        ("reviewer_ids", json!([3])),
        ("milestone_id", json!(1)),
        ("approvals_before_merge", json!(2)),
        ("merge_after", json!("2099-01-01")),
        ("discussion_locked", json!(true)),
    ];
    for (name, value) in &asked {
        assert_eq!(create(&forge, "dev", json!({*name: value})).refusal(), text(name));
    }
    let about_merging = json!({"remove_source_branch": true, "squash": "true"});
    let nothing = json!({"labels": "", "assignee_ids": [0], "reviewer_ids": [], "milestone_id": null, "squash": false});
    assert_eq!(create(&forge, "dev", about_merging).status, 201, "a wish for the merge");
    let put = |body: Value| forge.send(Method::PUT, &format!("{LIST}/1"), "dev", body);
    for (name, value) in asked.iter().chain(&[("squash", json!(true)), ("remove_source_branch", json!(1))]) {
        assert_eq!(put(json!({*name: value})).refusal(), text(name));
        assert_eq!(put(json!({"title": "x", *name: value})).refusal(), text(name));
    }
    assert_eq!(put(nothing).status, 200, "it is so");
    let (path, form) = (format!("{LIST}/1?labels=a"), "application/x-www-form-urlencoded");
    let form = forge.send_bytes(Method::PUT, &path, "dev", form, b"assignee_ids[]=3".to_vec());
    let both = "assignee_ids is not supported by this server, labels is not supported by this server";
    assert_eq!(form.refusal(), (400, both.into()));
    assert_eq!(forge.get(&format!("{LIST}/1"), "").json()["title"], "A change");
}

#[test]
fn null_clears_the_description() {
    let (forge, _) = forge();
    create(&forge, "dev", json!({"description": "Why"}));
    let put = |body: Value| forge.send(Method::PUT, &format!("{LIST}/1"), "dev", body);
    assert_eq!(put(json!({"title": "x"})).json()["description"], "Why");
    let cleared = put(json!({"description": null}));
    assert_eq!((cleared.status, &cleared.json()["description"]), (200, &Value::Null), "{}", cleared.text());
}

#[test]
fn collaboration_is_withdrawn_by_who_may_push_to_the_source() {
    let (forge, repository) = forge();
    forge.import(FORK, &repository);
    let body = json!({"title": "A change", "source_branch": "topic", "target_branch": "main", "target_project_id": 7,
        "allow_maintainer_to_push": true});
    let made = forge.send(Method::POST, &format!("projects/{FORK}/merge_requests"), "dev", body);
    assert_eq!(made.json()["allow_collaboration"], true, "{}", made.text());
    let put = |token: &str, body: Value| forge.send(Method::PUT, &format!("{LIST}/1"), token, body);
    assert_eq!(put("mia", json!({"allow_collaboration": false})).status, 403);
    assert_eq!(put("mia", json!({"allow_collaboration": true, "title": "same"})).status, 200);
    assert_eq!(put("dev", json!({"allow_collaboration": false})).json()["allow_collaboration"], false);
    assert_eq!(put("dev", json!({"allow_maintainer_to_push": 1})).json()["allow_collaboration"], true);
}
