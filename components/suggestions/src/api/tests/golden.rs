//! Records that an earlier build stored, committed under `golden/`, are read by this build.

use super::reused_user_ids::replace;
use super::*;
use crate::store::merge_requests;
use std::fs;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/golden");

/// A forge whose repository and comments are the files under a folder of `golden`: each file's path there,
/// without its last segment, is its key.
fn forge(version: &str) -> Forge {
    let forge = Forge::new();
    let root = Path::new(FOLDER).join(version);
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let key = path.strip_prefix(&root).unwrap().to_str().unwrap().strip_suffix("/record").unwrap();
            forge.store.set(&format!("suggestions/v1/{key}"), &fs::read(&path).unwrap()).unwrap();
        }
    }
    // Counters are stored in a host's own form, so they are not among the files. The earlier build also
    // used up ids.
    let env = forge.env();
    env.store.increment("suggestions/v1/counter/suggestion", 100).unwrap();
    env.store.increment("suggestions/v1/counter/note", 100).unwrap();
    (0..1000).for_each(|_| drop(env.id()));
    forge
}

/// The stored forge: a repository with `a.txt` and `dir/b` on `main` and `topic`, and a merge request. This has a
/// comment on `a.txt` with two suggestions, the first of which was applied, and a comment without a position.
#[test]
fn records_of_format_1_are_read() {
    let forge = forge("v1");
    let list = forge.get(&format!("projects/{PUBLIC}/merge_requests/1/discussions"), "").json();
    assert_eq!(list[0]["notes"][0]["author"]["username"], "rep");
    assert_eq!(list[0]["notes"][0]["position"]["new_path"], "a.txt");
    let expected = json!([
        {"id": 1, "from_line": 2, "to_line": 2, "applicable": false, "appliable": false, "applied": true,
            "from_content": "two\n", "to_content": "zwei\n"},
        {"id": 2, "from_line": 1, "to_line": 3, "applicable": false, "appliable": false, "applied": false,
            "from_content": "one\ntwo\nthree\n", "to_content": ""},
    ]);
    assert_eq!(list[0]["notes"][0]["suggestions"], expected);
    assert_eq!(list[1]["notes"][0]["body"], "Thanks");
    let clone = forge.clone(PUBLIC);
    assert_eq!(clone.text(&["show", "topic:a.txt"]), "one\nzwei\nthree");
    assert_eq!(clone.text(&["rev-parse", "topic^"]), clone.text(&["rev-parse", "main"]));
    let id = forge.suggest(1, "dir/b", 1, &block("", "bee"))[0];
    assert_eq!((id, forge.apply(id, "dev", Value::Null).status), (101, 200));
    let more = comment(&forge.head(PUBLIC, "topic"), "a.txt", 1, "more");
    assert_eq!(forge.comment(1, "rep", more).status, 201);
    let list = forge.get(&format!("projects/{PUBLIC}/merge_requests/1/discussions"), "");
    assert_eq!(list.headers["x-total"], "4");
}

/// A discussion with a suggestion that was applied, a reply and an edited note, resolved; and a merge request
/// that was made here.
#[test]
fn discussions_and_merge_requests_are_read() {
    let forge = forge("v2");
    let list = format!("projects/{PUBLIC}/merge_requests");
    let merge_request = forge.get(&format!("{list}/1"), "").json();
    assert_eq!((&merge_request["title"], &merge_request["description"]), (&json!("A change"), &json!("Why")));
    assert_eq!((&merge_request["state"], &merge_request["closed_by"]["username"]), (&json!("closed"), &json!("dev")));
    assert_eq!(forge.get(&list, "").json().as_array().unwrap().len(), 1);
    let discussions = forge.get(&format!("{list}/1/discussions"), "").json();
    let notes = &discussions[0]["notes"];
    let bodies = [0, 1, 2].map(|note| notes[note]["body"].as_str().unwrap().to_owned());
    assert_eq!(bodies[1..2], ["Really"]);
    assert!(bodies[0].contains("zwei") && bodies[2].starts_with("applied this suggestion in commit "), "{bodies:?}");
    let expected = (&json!("mia"), &json!(true));
    assert_eq!((&notes[0]["resolved_by"]["username"], &notes[0]["suggestions"][0]["applied"]), expected);
    assert_eq!((&notes[2]["system"], &discussions[1]["individual_note"]), (&json!(true), &json!(true)));
    assert_eq!(forge.get(&format!("suggestions/{}", notes[0]["suggestions"][0]["id"]), "rep").status, 200);
}

/// Records without the incarnation of a user are of the first user with the id.
#[test]
fn authors_of_earlier_builds_are_not_the_next_users_with_their_ids() {
    let forge = forge("v2");
    let path = format!("projects/{PUBLIC}/merge_requests/1");
    let users = || {
        let merge_request = forge.get(&path, "").json();
        let note = forge.get(&format!("{path}/discussions"), "").json()[0]["notes"][0].clone();
        [&merge_request["author"], &merge_request["closed_by"], &note["author"], &note["resolved_by"]]
            .map(|user| user["username"].as_str().map(str::to_owned))
    };
    assert_eq!(users(), ["dev", "dev", "rep", "mia"].map(|name| Some(name.to_owned())));
    for (id, name) in [(2, "mia2"), (3, "dev2"), (4, "rep2")] {
        replace(&forge, id, name);
    }
    assert_eq!(users(), [const { None }; 4]);
}

/// Refs that are locked by transactions: one that was committed, one that was aborted, and one that broke off.
#[test]
fn locked_refs_are_read() {
    let forge = forge("v3");
    let [old, new] = ["4b825dc642cb6eb9a060e54bf8d69288fbee4904", "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"];
    for (branch, expected) in [
        ("moved", Some(new)),
        ("created", Some(new)),
        ("deleted", None),
        ("undecided", Some(old)),
        ("not-yet", None),
        ("aborted", Some(old)),
    ] {
        let value = refs::read(&forge.env(), RepositoryId::first(PUBLIC), &format!("heads/{branch}")).unwrap();
        assert_eq!(value.map(|value| value.commit.to_string()).as_deref(), expected, "{branch}");
    }
}

/// Names of refs, one of which a request was creating.
#[test]
fn reserved_names_are_read() {
    let forge = forge("v4");
    let listed = forge.get(&format!("projects/{PUBLIC}/repository.git/info/refs"), "").text();
    let names: Vec<&str> = listed.lines().filter_map(|line| Some(line.split_once('\t')?.1)).collect();
    assert_eq!(names, ["refs/heads/main", "refs/heads/new"]);
}

/// Claims of branches: of an open merge request that gets another target, and of one that is not written yet.
#[test]
fn claims_of_branches_are_read() {
    let forge = forge("v5");
    let (env, project) = (forge.env(), ProjectKey::parse("7").unwrap());
    let listed = merge_requests::list(&env, &project).unwrap();
    let open: Vec<(u64, &str)> =
        listed.open.iter().map(|listed| (listed.iid, listed.branches.target_branch.as_str())).collect();
    assert_eq!((listed.iids, open), (vec![1, 2, 3], vec![(1, "next"), (1, "main"), (3, "third")]));
    let list = format!("projects/{PUBLIC}/merge_requests");
    assert_eq!(forge.get(&list, "").json().as_array().unwrap().len(), 2);
    let closed = forge.send(Method::PUT, &format!("{list}/1"), "dev", json!({"state_event": "close"}));
    assert_eq!(closed.json()["state"], "closed", "{}", closed.text());
    let reopened = forge.send(Method::PUT, &format!("{list}/2"), "dev", json!({"state_event": "reopen"}));
    assert_eq!(reopened.json()["state"], "opened", "{}", reopened.text());
}

/// An internal discussion that was replied to, edited and resolved, and one that was deleted.
#[test]
fn internal_discussions_are_read() {
    let forge = forge("v6");
    let path = format!("projects/{PUBLIC}/merge_requests/1");
    let list = format!("{path}/discussions");
    let listed = forge.get(&list, "rep").json();
    let id = listed[1]["id"].as_str().unwrap();
    assert_eq!(listed[1]["individual_note"], false);
    for (note, body, author) in [(0, "secret", "rep"), (1, "reply", "dev")] {
        let note = &listed[1]["notes"][note];
        assert_eq!((&note["body"], &note["author"]["username"]), (&json!(body), &json!(author)));
        assert_eq!((&note["internal"], &note["resolved_by"]["username"]), (&json!(true), &json!("mia")));
    }
    let open = forge.get(&list, "gus");
    assert_eq!((open.json().as_array().unwrap().len(), &open.headers["x-total"]), (1, &"1".parse().unwrap()));
    assert_eq!(forge.get(&path, "").json()["user_notes_count"], 1);
    assert_eq!(forge.get(&format!("{list}/94b38a5a1e4b1dd9bd6e9e4b1f3d7a5c0e8f6a12-internal"), "rep").status, 404);
    let replied = forge.send(Method::POST, &format!("{list}/{id}/notes"), "rep", json!({"body": "more"}));
    assert_eq!(replied.json()["internal"], true, "{}", replied.text());
}
