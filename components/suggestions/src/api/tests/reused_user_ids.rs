//! A new user with the id of a deleted user is not the author of the deleted user's merge requests and notes.

use super::*;

const LIST: &str = "projects/7/merge_requests";
const FILES: [(&str, &[u8]); 1] = [("a.txt", b"one\ntwo\nthree\n")];

fn forge() -> Forge {
    let forge = Forge::new();
    forge.import(PUBLIC, &Repository::with(&FILES));
    forge
}

/// Deletes a user, and makes another one with the id, whose token is their name.
pub fn replace(forge: &Forge, id: u64, name: &str) {
    let env = forge.env();
    dependents::delete_user(&env, id).unwrap();
    user::save(&env, new_user(id, name)).unwrap();
    forge.token(name, id, &["api"]);
}

fn grant(forge: &Forge, user_id: u64, role: Role) {
    join(&forge.env(), user_id, Source::Group(10), role);
}

fn merge_request(forge: &Forge, token: &str, title: &str) -> u64 {
    let body = json!({"source_branch": "topic", "target_branch": "main", "title": title});
    forge.send(Method::POST, LIST, token, body).expect(201).json()["iid"].as_u64().unwrap()
}

fn note(forge: &Forge, iid: u64, token: &str) -> u64 {
    let made = forge.send(Method::POST, &format!("{LIST}/{iid}/notes"), token, json!({"body": "Hm"})).expect(201);
    made.json()["id"].as_u64().unwrap()
}

/// The iids of the merge requests that a query finds.
fn listed(forge: &Forge, query: &str) -> Vec<u64> {
    forge.get(&format!("{LIST}{query}"), "rep").iids()
}

/// The statuses of editing a note, of closing the merge request, and of deleting the note.
fn changes(forge: &Forge, iid: u64, note: u64, token: &str) -> [u16; 3] {
    let path = format!("{LIST}/{iid}/notes/{note}");
    [
        forge.send(Method::PUT, &path, token, json!({"body": "Edited"})).status,
        forge.send(Method::PUT, &format!("{LIST}/{iid}"), token, json!({"state_event": "close"})).status,
        forge.send(Method::DELETE, &path, token, Value::Null).status,
    ]
}

#[test]
fn notes_and_merge_requests_do_not_pass_to_the_next_user() {
    let forge = forge();
    let iid = merge_request(&forge, "dev", "T");
    let first = note(&forge, iid, "dev");
    replace(&forge, 3, "new");
    let shown = || {
        let merge_request = forge.get(&format!("{LIST}/{iid}"), "new").json();
        let note = forge.get(&format!("{LIST}/{iid}/notes/{first}"), "new").json();
        [merge_request["author"]["username"].clone(), note["author"]["username"].clone()]
    };
    assert_eq!(shown(), [Value::Null, Value::Null]);
    assert_eq!(changes(&forge, iid, first, "new"), [403; 3]);
    let own = note(&forge, iid, "new");
    assert_eq!(forge.get(&format!("{LIST}/{iid}/notes/{own}"), "").json()["author"]["username"], "new");
    grant(&forge, 3, Role::Developer);
    assert_eq!(changes(&forge, iid, own, "new"), [200, 200, 204], "their own note, as a Developer");
    let iid = merge_request(&forge, "new", "U");
    grant(&forge, 3, Role::Guest);
    let own = note(&forge, iid, "new");
    assert_eq!(changes(&forge, iid, own, "new"), [200, 200, 204], "their own");
    assert_eq!(forge.get(&format!("{LIST}/{iid}"), "").json()["closed_by"]["username"], "new");
    replace(&forge, 3, "third");
    assert_eq!(forge.get(&format!("{LIST}/{iid}"), "").json()["closed_by"], Value::Null);
    assert_eq!(forge.get(&format!("{LIST}/{iid}"), "third").json()["author"], Value::Null);
}

#[test]
fn lists_by_author_find_the_current_user_with_the_id() {
    let forge = forge();
    forge.merge_request(1, json!({}));
    replace(&forge, 3, "new");
    forge.merge_request(2, json!({"source_branch": "other"}));
    for query in ["?author_id=3", "?author_username=new", "?author_id=3&not[author_id]=2"] {
        assert_eq!(listed(&forge, query), [2], "{query}");
    }
    for query in ["?not[author_id]=3", "?not[author_username]=new"] {
        assert_eq!(listed(&forge, query), [1], "{query}");
    }
    let mine = forge.get(&format!("{LIST}?scope=created_by_me"), "new").json();
    assert_eq!((mine.as_array().unwrap().len(), &mine[0]["iid"]), (1, &json!(2)));
    assert_eq!(mine[0]["author"]["username"], "new");
}

#[test]
fn merger_and_resolver_are_not_the_next_users_with_the_ids() {
    let forge = forge();
    let iid = merge_request(&forge, "dev", "T");
    let discussion = forge.comment(iid, "rep", comment(&forge.head(PUBLIC, "topic"), "a.txt", 2, "hm")).json();
    let path = format!("{LIST}/{iid}/discussions/{}", discussion["id"].as_str().unwrap());
    assert_eq!(forge.send(Method::PUT, &path, "dev", json!({"resolved": true})).status, 200);
    let repository = forge.clone(PUBLIC);
    repository.git(&["checkout", "-q", "topic"]);
    repository.write("a.txt", b"one\nzwei\nthree\n");
    repository.commit("second");
    for branch in ["topic", "topic:main"] {
        forge.git(&repository, PUBLIC, "mia", &["push", "-q", "URL", branch]).unwrap();
    }
    let users = || {
        let merge_request = forge.get(&format!("{LIST}/{iid}"), "").json();
        let note = forge.get(&path, "").json()["notes"][0].clone();
        [merge_request["merge_user"]["username"].clone(), note["resolved_by"]["username"].clone()]
    };
    assert_eq!(users(), [json!("mia"), json!("dev")]);
    assert_eq!(listed(&forge, "?merge_user_id=2"), [iid]);
    replace(&forge, 2, "mia2");
    replace(&forge, 3, "dev2");
    assert_eq!(users(), [Value::Null, Value::Null]);
    assert_eq!(listed(&forge, "?merge_user_id=2"), [0; 0]);
    assert_eq!(listed(&forge, "?merge_user_username=mia2"), [0; 0]);
}

#[test]
fn a_commit_names_no_later_user_as_author_of_a_suggestion() {
    let forge = forge();
    forge.merge_request(1, json!({}));
    let id = forge.suggest(1, "a.txt", 1, &block("", "1"));
    replace(&forge, 4, "rep2");
    let own = comment(&forge.head(PUBLIC, "topic"), "a.txt", 3, &block("", "3"));
    let own = forge.comment(1, "rep2", own).suggestion();
    let log = || forge.clone(PUBLIC).text(&["log", "-1", "--format=%B", "topic"]);
    assert_eq!(forge.apply(id[0], "mia", Value::Null).status, 200);
    assert!(!log().contains("Co-authored-by"), "{}", log());
    assert_eq!(forge.apply(own, "mia", Value::Null).status, 200);
    assert!(log().contains("Co-authored-by: rep2 of Acme"), "{}", log());
}

#[test]
fn a_deleted_author_lends_no_branch() {
    let forge = forge();
    forge.import(FORK, &Repository::with(&FILES));
    forge.project(FORK, |project| project.namespace_id = 10);
    let more = json!({"source_project_id": FORK, "allow_collaboration": true, "author": {"id": 3}});
    forge.merge_request(3, more.clone());
    forge.project(FORK, |project| project.namespace_id = 1004);
    let set = |role: Option<Role>| {
        let membership = role.map(|role| Membership { role, expires_at: None });
        set_membership(&forge.env(), 3, Source::Project(FORK), membership);
    };
    set(Some(Role::Developer));
    let ids = forge.suggest(3, "a.txt", 1, &(block("", "1") + &block(":+1", "2")));
    replace(&forge, 3, "new");
    set(Some(Role::Developer));
    assert_eq!(forge.apply(ids[0], "mia", Value::Null).status, 403);
    forge.merge_request(3, more);
    assert_eq!(forge.apply(ids[0], "mia", Value::Null).status, 200, "theirs since it was imported again");
}

/// Earlier builds read the records that this one stores of first users: their form has not changed.
#[test]
fn records_of_first_users_have_no_incarnation() {
    let forge = forge();
    let write = |name: &str| {
        let iid = merge_request(&forge, name, name);
        let discussion = forge.comment(iid, name, comment(&forge.head(PUBLIC, "topic"), "a.txt", 2, "hm")).json();
        let path = format!("{LIST}/{iid}/discussions/{}", discussion["id"].as_str().unwrap());
        assert_eq!(forge.send(Method::PUT, &path, name, json!({"resolved": true})).status, 200);
        let closed = forge.send(Method::PUT, &format!("{LIST}/{iid}"), name, json!({"state_event": "close"}));
        assert_eq!(closed.status, 200, "{}", closed.text());
    };
    let incarnations = || {
        let keys = forge.store.keys().into_iter().filter(|key| key.starts_with("suggestions/"));
        let values = keys.filter_map(|key| forge.store.get(&key).ok().flatten());
        let texts = values.map(|value| String::from_utf8_lossy(&value).into_owned());
        texts
            .map(|text| text.matches("\"author_incarnation\"").count() + text.matches("\"user_incarnation\"").count())
            .sum::<usize>()
    };
    write("dev");
    assert_eq!(incarnations(), 0);
    replace(&forge, 3, "new");
    grant(&forge, 3, Role::Developer);
    write("new");
    assert_eq!(incarnations(), 5, "of a merge request and its end, of a discussion, its state and its resolution");
}
