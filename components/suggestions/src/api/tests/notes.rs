//! Discussions: replies, edits, deletion, resolving, and the notes of a merge request.

use super::*;

const MERGE_REQUEST: &str = "projects/7/merge_requests/1";

/// Merge request 1, by `dev`.
fn forge() -> Forge {
    Forge::with(&[("a.txt", b"one\ntwo\nthree\n"), ("b.txt", b"b\n")]).0
}

fn send(forge: &Forge, method: Method, path: &str, token: &str, body: Value) -> TestResponse {
    forge.send(method, &format!("{MERGE_REQUEST}/{path}"), token, body)
}

/// A discussion on line 2 by `rep`: its id and that of its note.
fn discuss(forge: &Forge, body: &str) -> (String, u64) {
    let answer = forge.comment(1, "rep", comment(&forge.head(PUBLIC, "topic"), "a.txt", 2, body)).expect(201);
    let json = answer.json();
    (json["id"].as_str().unwrap().to_owned(), json["notes"][0]["id"].as_u64().unwrap())
}

fn bodies(forge: &Forge, discussion: &str) -> Vec<String> {
    let notes = forge.get(&format!("{MERGE_REQUEST}/discussions/{discussion}"), "").json()["notes"].clone();
    notes.as_array().unwrap().iter().map(|note| note["body"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_reply_joins_the_discussion_and_may_suggest() {
    let forge = forge();
    let (id, first) = discuss(&forge, "hm");
    let path = format!("discussions/{id}/notes");
    let answer = send(&forge, Method::POST, &path, "gus", json!({"body": block("", "zwei")})).expect(201);
    let reply = answer.json();
    assert_eq!((&reply["author"]["username"], &reply["type"]), (&json!("gus"), &json!("DiffNote")));
    assert_eq!(reply["suggestions"][0]["from_content"], "two\n");
    assert!(reply["id"].as_u64().unwrap() > first);
    assert_eq!(send(&forge, Method::GET, &format!("{path}/{}", reply["id"]), "", Value::Null).json(), reply);
    assert_eq!(send(&forge, Method::GET, &path, "", Value::Null).json()[1], reply);
    assert_eq!(bodies(&forge, &id).len(), 2);
    let suggestion = reply["suggestions"][0]["id"].as_u64().unwrap();
    assert_eq!(forge.flags(suggestion), (true, false));
    assert_eq!(forge.apply(suggestion, "dev", Value::Null).status, 200);
    let log = forge.clone(PUBLIC).text(&["log", "-1", "--format=%B", "topic"]);
    assert!(log.contains("Co-authored-by: gus of Acme"), "{log}");
    for (token, body, status) in [("", json!({"body": "x"}), 401), ("gus", json!({}), 400)] {
        assert_eq!(send(&forge, Method::POST, &path, token, body).status, status);
    }
    let missing = format!("discussions/{}/notes", "0".repeat(40));
    let expected = (404, "404 Discussion Not Found".into());
    assert_eq!(send(&forge, Method::POST, &missing, "gus", json!({"body": "x"})).refusal(), expected);
    forge.project(PUBLIC, |project| project.archived = true);
    assert_eq!(send(&forge, Method::POST, &path, "gus", json!({"body": "x"})).status, 403);
}

#[test]
fn an_applied_suggestion_leaves_a_note_of_the_service() {
    let forge = forge();
    let (id, _) = discuss(&forge, &(block("", "zwei") + &block(":-1+1", "all")));
    let suggestions =
        forge.get(&format!("{MERGE_REQUEST}/discussions/{id}"), "").json()["notes"][0]["suggestions"].clone();
    assert_eq!(forge.apply(suggestions[0]["id"].as_u64().unwrap(), "mia", Value::Null).status, 200);
    let note = forge.get(&format!("{MERGE_REQUEST}/discussions/{id}"), "").json()["notes"][1].clone();
    let expected = (&json!(true), &json!(false), &json!("mia"));
    assert_eq!((&note["system"], &note["resolvable"], &note["author"]["username"]), expected);
    assert_eq!(note["body"], format!("applied this suggestion in commit {}", forge.head(PUBLIC, "topic")));
    let path = format!("notes/{}", note["id"]);
    assert_eq!(send(&forge, Method::PUT, &path, "root", json!({"body": "no"})).status, 403, "it cannot be changed");
    assert_eq!(send(&forge, Method::DELETE, &path, "root", Value::Null).status, 403);
}

#[test]
fn a_note_is_edited_by_its_author_and_by_maintainers() {
    let forge = forge();
    let (id, note) = discuss(&forge, &(block("", "zwei") + &block(":-1", "x")));
    let shown = |forge: &Forge| send(forge, Method::GET, &format!("notes/{note}"), "", Value::Null).json();
    let before = shown(&forge);
    let path = format!("discussions/{id}/notes/{note}");
    for token in ["gus", "dev", "otto"] {
        assert_eq!(send(&forge, Method::PUT, &path, token, json!({"body": "mine"})).status, 403, "{token}");
    }
    let body = block("", "zwei") + &block("", "deux");
    let edited = send(&forge, Method::PUT, &path, "rep", json!({"body": body}));
    assert_eq!((edited.status, &edited.json()["body"]), (200, &json!(body)));
    let after = shown(&forge);
    assert_eq!(after, edited.json());
    let ids = |note: &Value| [0, 1].map(|index| note["suggestions"][index]["id"].as_u64().unwrap());
    assert_eq!(ids(&after)[0], ids(&before)[0], "the same suggestion");
    assert_eq!(after["suggestions"][1]["to_content"], "deux\n");
    assert_eq!(forge.get(&format!("suggestions/{}", ids(&before)[1]), "rep").status, 404, "it is no more");
    assert_eq!(forge.apply(ids(&after)[1], "dev", Value::Null).status, 200);
    assert_eq!(send(&forge, Method::PUT, &format!("notes/{note}"), "mia", json!({"body": "by mia"})).status, 200);
    assert_eq!(bodies(&forge, &id)[0], "by mia");
    let refused = |body: Value| send(&forge, Method::PUT, &path, "rep", body).refusal();
    assert_eq!(refused(json!({})), (400, "body, resolved are missing, exactly one parameter must be provided".into()));
    assert_eq!(refused(json!({"body": "x", "resolved": true})), (400, "body, resolved are mutually exclusive".into()));
    let expected = (404, "404 Note Not Found".into());
    assert_eq!(send(&forge, Method::PUT, "notes/999", "rep", json!({"body": "x"})).refusal(), expected);
    let expected = (400, "note_id is invalid".into());
    assert_eq!(send(&forge, Method::PUT, "notes/x", "rep", json!({"body": "x"})).refusal(), expected);
}

#[test]
fn suggestions_that_stay_in_the_text_keep_their_ids_wherever_they_are() {
    let forge = forge();
    let blocks = ["zwei", "two\ndos", "deux"].map(|text| block("", text));
    let (_, note) = discuss(&forge, &blocks.concat());
    let edit = |texts: &[&String]| {
        let body: String = texts.iter().map(|text| text.as_str()).collect();
        let edited = send(&forge, Method::PUT, &format!("notes/{note}"), "rep", json!({"body": body})).expect(200);
        let suggestions = edited.json()["suggestions"].as_array().unwrap().clone();
        suggestions.iter().map(|suggestion| suggestion["id"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    let [zwei, dos, deux] = &blocks;
    let first = forge.get(&format!("{MERGE_REQUEST}/notes/{note}"), "rep").json();
    let ids = [0, 1, 2].map(|index| first["suggestions"][index]["id"].as_u64().unwrap());
    assert_eq!(forge.apply(ids[1], "dev", Value::Null).status, 200);
    assert_eq!(edit(&[dos, deux]), ids[1..], "the first one is gone");
    assert_eq!(forge.flags(ids[1]), (false, true), "it is applied");
    let again = edit(&[zwei, deux, dos, dos]);
    assert_eq!((again[1], again[2]), (ids[2], ids[1]), "others stand before them");
    assert!(!ids.contains(&again[0]) && !ids.contains(&again[3]), "two of the same text are two suggestions");
}

#[test]
fn notes_of_the_service_do_not_count() {
    let forge = forge();
    let (id, note) = discuss(&forge, &block("", "zwei"));
    for _ in 1..1000 {
        let reply = send(&forge, Method::POST, &format!("discussions/{id}/notes"), "rep", json!({"body": "reply"}));
        assert_eq!(reply.status, 201, "{}", reply.text());
    }
    let shown = forge.get(&format!("{MERGE_REQUEST}/notes/{note}"), "rep").json();
    assert_eq!(forge.apply(shown["suggestions"][0]["id"].as_u64().unwrap(), "dev", Value::Null).status, 200);
    let path = format!("notes/{note}");
    assert_eq!(send(&forge, Method::PUT, &path, "rep", json!({"body": "shorter"})).status, 200);
    let more = send(&forge, Method::POST, &format!("discussions/{id}/notes"), "rep", json!({"body": "one more"}));
    assert_eq!(more.status, 400, "{}", more.text());
}

#[test]
fn a_discussion_goes_with_its_last_note() {
    let forge = forge();
    let ids: Vec<(String, u64)> = (0..205).map(|number| discuss(&forge, &number.to_string())).collect();
    let delete = |id: &str, note: u64, token: &str| {
        send(&forge, Method::DELETE, &format!("discussions/{id}/notes/{note}"), token, Value::Null).status
    };
    let reply = send(&forge, Method::POST, &format!("discussions/{}/notes", ids[3].0), "gus", json!({"body": "reply"}));
    let reply = reply.json()["id"].as_u64().unwrap();
    assert_eq!((delete(&ids[3].0, ids[3].1, "gus"), delete(&ids[3].0, ids[3].1, "")), (403, 401));
    assert_eq!((delete(&ids[3].0, ids[3].1, "rep"), delete(&ids[3].0, ids[3].1, "rep")), (204, 404));
    assert_eq!(bodies(&forge, &ids[3].0), ["reply"]);
    assert_eq!(delete(&ids[3].0, reply, "gus"), 204);
    assert_eq!(forge.get(&format!("{MERGE_REQUEST}/discussions/{}", ids[3].0), "").status, 404);
    for number in [0, 100, 150, 204] {
        assert_eq!(delete(&ids[number].0, ids[number].1, "mia"), 204, "{number}");
    }
    let mut seen = Vec::new();
    for page in 1..=3 {
        let answer = forge.get(&format!("{MERGE_REQUEST}/discussions?per_page=100&page={page}"), "");
        assert_eq!(answer.headers["x-total"], "200");
        let page = answer.json();
        seen.extend(page.as_array().unwrap().iter().map(|one| one["notes"][0]["body"].as_str().unwrap().to_owned()));
    }
    let expected = (0..205).filter(|number| ![0, 3, 100, 150, 204].contains(number));
    assert_eq!(seen, expected.map(|number: u32| number.to_string()).collect::<Vec<_>>());
    assert_eq!(discuss(&forge, "more").0.len(), 40);
    assert_eq!(forge.get(&format!("{MERGE_REQUEST}/discussions"), "").headers["x-total"], "201");
}

#[test]
fn a_discussion_is_resolved_by_developers_and_by_the_author_of_the_merge_request() {
    let forge = forge();
    forge.merge_request(1, json!({"author": {"id": 5}}));
    let (id, note) = discuss(&forge, "why?");
    let path = format!("discussions/{id}");
    let put = |token: &str, body: Value| send(&forge, Method::PUT, &path, token, body);
    assert_eq!(put("", json!({"resolved": true})).status, 401);
    assert_eq!(put("rep", json!({"resolved": true})).refusal(), (403, "403 Forbidden".into()));
    assert_eq!(put("dev", json!({})).refusal(), (400, "resolved is missing".into()));
    for token in ["dev", "gus"] {
        let resolved = put(token, json!({"resolved": true}));
        assert_eq!(resolved.status, 200, "{}", resolved.text());
        let first = resolved.json()["notes"][0].clone();
        assert_eq!((&first["resolved"], &first["resolved_by"]["username"]), (&json!(true), &json!(token)));
        assert_eq!(first["resolved_at"], "2026-09-21T14:13:20.000Z");
        let again = send(&forge, Method::PUT, &format!("{path}?resolved=false"), token, Value::Null);
        assert_eq!((again.status, &again.json()["notes"][0]["resolved_by"]), (200, &Value::Null));
    }
    let by_note = send(&forge, Method::PUT, &format!("{path}/notes/{note}"), "dev", json!({"resolved": true}));
    assert_eq!((by_note.status, &by_note.json()["resolved"]), (200, &json!(true)));
    // A reply makes a comment on the whole merge request a discussion that can be resolved.
    let single = send(&forge, Method::POST, "notes", "gus", json!({"body": "Thanks"}));
    let expected = (201, &Value::Null, &json!(false));
    assert_eq!((single.status, &single.json()["type"], &single.json()["resolvable"]), expected);
    let list = forge.get(&format!("{MERGE_REQUEST}/discussions"), "").json();
    assert_eq!(list[1]["individual_note"], true);
    let path = format!("discussions/{}", list[1]["id"].as_str().unwrap());
    assert_eq!(send(&forge, Method::PUT, &path, "dev", json!({"resolved": true})).status, 403);
    assert_eq!(send(&forge, Method::POST, &format!("{path}/notes"), "dev", json!({"body": "Welcome"})).status, 201);
    assert_eq!(send(&forge, Method::PUT, &path, "dev", json!({"resolved": true})).status, 200);
}

#[test]
fn the_notes_of_a_merge_request_come_in_pages() {
    let forge = forge();
    let (id, _) = discuss(&forge, "1");
    discuss(&forge, "2");
    for body in ["3", "4", "5"] {
        let path = format!("discussions/{id}/notes");
        assert_eq!(send(&forge, Method::POST, &path, "gus", json!({"body": body})).status, 201);
    }
    let list = |query: &str| {
        let answer = forge.get(&format!("{MERGE_REQUEST}/notes{query}"), "");
        assert_eq!(answer.headers["x-total"], "5");
        let notes = answer.json();
        notes.as_array().unwrap().iter().map(|note| note["body"].as_str().unwrap().to_owned()).collect::<String>()
    };
    assert_eq!((list(""), list("?sort=asc")), ("54321".into(), "12345".into()));
    assert_eq!((list("?per_page=2&page=2"), list("?per_page=2&page=3&sort=asc")), ("32".into(), "5".into()));
    let refused = forge.get(&format!("{MERGE_REQUEST}/notes?sort=up"), "").refusal();
    assert_eq!(refused, (400, "sort does not have a valid value".into()));
}

#[test]
fn a_position_moves_with_its_line() {
    let forge = forge();
    let (id, _) = discuss(&forge, "a line");
    let made = forge.head(PUBLIC, "topic");
    let above = forge.suggest(1, "a.txt", 1, &block("", "zero\none"))[0];
    assert_eq!(forge.apply(above, "dev", Value::Null).status, 200);
    let note = || forge.get(&format!("{MERGE_REQUEST}/discussions/{id}"), "").json()["notes"][0].clone();
    let moved = note();
    let found = (&moved["position"]["new_line"], &moved["position"]["head_sha"]);
    assert_eq!(found, (&json!(3), &json!(forge.head(PUBLIC, "topic"))));
    let expected = (&json!(2), &json!(made));
    assert_eq!((&moved["original_position"]["new_line"], &moved["original_position"]["head_sha"]), expected);
    let line = forge.suggest(1, "a.txt", 3, &block("", "zwei"))[0];
    assert_eq!(forge.apply(line, "dev", Value::Null).status, 200);
    assert_eq!(note()["position"], note()["original_position"], "the line was changed");
}

#[test]
fn a_discussion_has_bounds() {
    let forge = forge();
    let (id, _) = discuss(&forge, "long");
    let path = format!("discussions/{id}/notes");
    let long = "x".repeat(1_000_000);
    let statuses: Vec<u16> =
        (0..9).map(|_| send(&forge, Method::POST, &path, "gus", json!({"body": long})).status).collect();
    assert_eq!(statuses, [201, 201, 201, 201, 201, 201, 201, 201, 400]);
    let too_long = send(&forge, Method::POST, &path, "gus", json!({"body": long.clone() + "x"}));
    assert!(too_long.refusal().1.contains("too long"));
}

#[test]
fn notes_of_a_private_project_are_for_reporters() {
    let forge = Forge::new();
    forge.import(PRIVATE, &Repository::with(&[("a.txt", b"one\n")]));
    forge.merge_request(1, json!({"project_id": PRIVATE}));
    let base = format!("projects/{PRIVATE}/merge_requests/1");
    let made = forge.send(Method::POST, &format!("{base}/discussions"), "rep", json!({"body": "hm"})).json();
    let (id, note) = (made["id"].as_str().unwrap(), made["notes"][0]["id"].as_u64().unwrap());
    for (method, path, body) in [
        (Method::GET, "/notes".to_owned(), Value::Null),
        (Method::GET, format!("/notes/{note}"), Value::Null),
        (Method::POST, "/notes".to_owned(), json!({"body": "x"})),
        (Method::POST, format!("/discussions/{id}/notes"), json!({"body": "x"})),
        (Method::PUT, format!("/discussions/{id}"), json!({"resolved": true})),
        (Method::PUT, format!("/notes/{note}"), json!({"body": "x"})),
        (Method::DELETE, format!("/notes/{note}"), Value::Null),
        (Method::GET, String::new(), Value::Null),
        (Method::PUT, String::new(), json!({"title": "x"})),
    ] {
        for token in ["gus", "otto"] {
            let answer = forge.send(method.clone(), &format!("{base}{path}"), token, body.clone());
            assert_eq!(answer.status, 404, "{token} {method} {path}");
        }
    }
    // A discussion of another merge request is none of this one.
    forge.merge_request(2, json!({"project_id": PRIVATE}));
    let other = format!("projects/{PRIVATE}/merge_requests/2/discussions/{id}");
    assert_eq!(forge.send(Method::PUT, &other, "mia", json!({"resolved": true})).status, 404);
    assert_eq!(forge.send(Method::DELETE, &format!("{other}/notes/{note}"), "rep", Value::Null).status, 404);
}

#[test]
fn notes_are_filtered_by_activity() {
    let forge = forge();
    let (id, _) = discuss(&forge, &block("", "zwei"));
    let shown = forge.get(&format!("{MERGE_REQUEST}/discussions/{id}"), "").json();
    let found = forge.apply(shown["notes"][0]["suggestions"][0]["id"].as_u64().unwrap(), "dev", Value::Null).status;
    assert_eq!(found, 200);
    for (filter, expected) in
        [("all_notes", vec![true, false]), ("only_comments", vec![false]), ("only_activity", vec![true])]
    {
        let answer = send(&forge, Method::GET, &format!("notes?activity_filter={filter}&per_page=1"), "", Value::Null);
        assert_eq!(answer.headers["x-total"], expected.len().to_string().as_str(), "{filter}");
        assert!(answer.headers["link"].to_str().unwrap().contains(&format!("activity_filter={filter}")));
        assert_eq!(answer.json()[0]["system"], expected[0], "{filter}");
    }
    let refused = send(&forge, Method::GET, "notes?activity_filter=bogus", "", Value::Null);
    assert_eq!(refused.refusal(), (400, "activity_filter does not have a valid value".into()));
}
