//! Internal notes: who makes and sees them, and what an earlier build finds of them.

use super::*;

const MERGE_REQUEST: &str = "projects/7/merge_requests/1";

/// Every caller who may read the merge request, and whether they are Reporters.
const READERS: [(&str, bool); 7] =
    [("", false), ("otto", false), ("gus", false), ("rep", true), ("dev", true), ("mia", true), ("root", true)];

/// Merge request 1 by `otto`, who is no member.
fn forge() -> Forge {
    let forge = Forge::new();
    forge.import(PUBLIC, &Repository::with(&[("a.txt", b"one\ntwo\nthree\n")]));
    forge.merge_request(1, json!({"author": {"id": 6}}));
    forge
}

fn send(forge: &Forge, method: Method, path: &str, token: &str, body: Value) -> TestResponse {
    forge.send(method, &format!("{MERGE_REQUEST}/{path}"), token, body)
}

fn get(forge: &Forge, path: &str, token: &str) -> TestResponse {
    send(forge, Method::GET, path, token, Value::Null)
}

#[track_caller]
fn create(forge: &Forge, path: &str, body: Value) -> Value {
    let answer = send(forge, Method::POST, path, "rep", body).expect(201);
    answer.json()
}

#[test]
fn an_internal_note_is_for_reporters() {
    let forge = forge();
    create(&forge, "notes", json!({"body": "open"}));
    let note = create(&forge, "notes", json!({"body": "secret", "internal": true}));
    assert_eq!((&note["internal"], &note["confidential"], &note["type"]), (&json!(true), &json!(true), &Value::Null));
    let discussion = create(&forge, "discussions", json!({"body": "secret too", "confidential": true}));
    assert_eq!(discussion["notes"][0]["internal"], true);
    let id = discussion["id"].as_str().unwrap();
    let replies = format!("discussions/{id}/notes");
    let reply = create(&forge, &replies, json!({"body": "secret reply"}));
    assert_eq!(reply["confidential"], true, "it inherits");
    create(&forge, "notes", json!({"body": "open as well"}));
    for (caller, is_reporter) in READERS {
        let seen = |path: &str| get(&forge, path, caller);
        for path in ["notes", "discussions"] {
            let list = seen(path);
            assert_eq!(list.text().contains("secret"), is_reporter, "{caller} {path}");
            let count = list.json().as_array().unwrap().len();
            assert_eq!(list.headers["x-total"], count.to_string().as_str(), "{caller} {path}");
            let second = seen(&format!("{path}?per_page=1&page=2"));
            assert_eq!(second.json().as_array().unwrap().len(), 1, "{caller} {path}");
        }
        let (notes, discussions) = if is_reporter { (5, 4) } else { (2, 2) };
        assert_eq!(seen("notes").json().as_array().unwrap().len(), notes, "{caller}");
        assert_eq!(seen("discussions").json().as_array().unwrap().len(), discussions, "{caller}");
        assert_eq!(forge.get(MERGE_REQUEST, caller).json()["user_notes_count"], notes, "{caller}");
        let list = forge.get("projects/7/merge_requests", caller).json();
        assert_eq!(list[0]["user_notes_count"], notes, "{caller}");
        let status = if is_reporter { 200 } else { 404 };
        for path in [
            format!("notes/{}", note["id"]),
            format!("notes/{}", reply["id"]),
            format!("discussions/{id}"),
            replies.clone(),
            format!("{replies}/{}", reply["id"]),
        ] {
            assert_eq!(seen(&path).status, status, "{caller} {path}");
        }
    }
}

#[test]
fn who_does_not_see_an_internal_note_does_nothing_with_it() {
    let forge = forge();
    let discussion = create(&forge, "discussions", json!({"body": "secret", "internal": true}));
    let (id, note) = (discussion["id"].as_str().unwrap(), &discussion["notes"][0]["id"]);
    for caller in ["otto", "gus"] {
        for (method, path, body) in [
            (Method::POST, format!("discussions/{id}/notes"), json!({"body": "x"})),
            (Method::PUT, format!("discussions/{id}?resolved=true"), Value::Null),
            (Method::PUT, format!("discussions/{id}/notes/{note}"), json!({"resolved": true})),
            (Method::PUT, format!("notes/{note}"), json!({"body": "x"})),
            (Method::DELETE, format!("notes/{note}"), Value::Null),
            (Method::DELETE, format!("discussions/{id}/notes/{note}"), Value::Null),
        ] {
            assert_eq!(send(&forge, method.clone(), &path, caller, body).status, 404, "{caller} {method} {path}");
        }
    }
    assert_eq!(send(&forge, Method::PUT, &format!("discussions/{id}?resolved=1"), "dev", Value::Null).status, 200);
    let path = format!("notes/{note}");
    assert_eq!(send(&forge, Method::PUT, &path, "rep", json!({"body": "edited"})).json()["body"], "edited");
    let shown = get(&forge, &path, "dev").json();
    let expected = (&json!("edited"), &json!(true), &json!(true));
    assert_eq!((&shown["body"], &shown["resolved"], &shown["internal"]), expected);
    assert_eq!(send(&forge, Method::DELETE, &path, "rep", Value::Null).status, 204);
    assert_eq!(get(&forge, "notes", "root").json(), json!([]));
    assert_eq!(get(&forge, &format!("discussions/{id}"), "root").status, 404);
    let kept = forge.store.keys().into_iter().filter(|key| {
        let value = kit::store::Store::get(&forge.store, key).unwrap().unwrap_or_default();
        String::from_utf8_lossy(&value).contains("secret") || String::from_utf8_lossy(&value).contains("edited")
    });
    assert_eq!(kept.collect::<Vec<_>>(), Vec::<String>::new(), "the text is gone");
}

#[test]
fn internal_is_obeyed_in_every_form_or_refused() {
    let forge = forge();
    for (query, media_type, body) in [
        ("?body=x&internal=1", "application/json", ""),
        ("?confidential=yes", "application/json", r#"{"body":"x"}"#),
        ("", "application/json", r#"{"body":"x","internal":"t"}"#),
        ("", "application/json", r#"{"body":"x","internal":1}"#),
        ("", "application/json", r#"{"body":"x","internal":false,"confidential":true}"#),
        ("", "application/x-www-form-urlencoded", "body=x&internal=On"),
        ("", "application/x-www-form-urlencoded", "body=x&confidential=Y"),
        (
            "",
            "multipart/form-data; boundary=X",
            "--X\r\nContent-Disposition: form-data; name=\"body\"\r\n\r\nx\r\n\
             --X\r\nContent-Disposition: form-data; name=\"internal\"\r\n\r\nTRUE\r\n--X--\r\n",
        ),
    ] {
        for kind in ["notes", "discussions"] {
            let path = format!("{MERGE_REQUEST}/{kind}{query}");
            let answer = forge.send_bytes(Method::POST, &path, "rep", media_type, body.into());
            assert_eq!(answer.status, 201, "{query} {body} {}", answer.text());
            assert!(answer.text().contains(r#""internal":true"#), "{query} {body} {}", answer.text());
        }
    }
    assert_eq!(get(&forge, "notes", "").json(), json!([]));
    for value in [json!("maybe"), json!(2), json!([true]), json!({"a": true})] {
        let refused = send(&forge, Method::POST, "notes", "rep", json!({"body": "x", "internal": value}));
        assert_eq!(refused.refusal(), (400, "internal is invalid".into()), "{value}");
    }
    for value in [json!("no"), json!(null), json!(""), json!(0)] {
        let note = create(&forge, "notes", json!({"body": "x", "internal": value}));
        assert_eq!(note["internal"], false, "{value}");
    }
    for caller in ["gus", "otto"] {
        for kind in ["notes", "discussions"] {
            let refused = send(&forge, Method::POST, kind, caller, json!({"body": "x", "internal": true}));
            assert_eq!(refused.status, 403, "{caller}: it is not made public instead");
        }
    }
    let body = json!({"body": block("", "zwei"), "internal": true});
    let mut on_line = comment(&forge.head(PUBLIC, "topic"), "a.txt", 2, "");
    on_line.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
    let text = "400 Bad request - Note {:confidential=>[\"can not be set for this type of note\"]}";
    assert_eq!(send(&forge, Method::POST, "discussions", "rep", on_line).refusal(), (400, text.into()));
}

#[test]
fn whether_a_note_is_internal_does_not_change() {
    let forge = forge();
    let open = create(&forge, "discussions", json!({"body": "open"}));
    let secret = create(&forge, "discussions", json!({"body": "secret", "internal": true}));
    let reply = |discussion: &Value, body: Value| {
        let path = format!("discussions/{}/notes", discussion["id"].as_str().unwrap());
        send(&forge, Method::POST, &path, "rep", body)
    };
    let text = "400 Bad request - Note {:confidential=>[\"reply should have same confidentiality as top-level note\"]}";
    assert_eq!(reply(&open, json!({"body": "x", "internal": true})).refusal(), (400, text.into()));
    assert_eq!(reply(&secret, json!({"body": "x", "internal": false})).json()["internal"], true);
    let text = "400 Bad request - Note {:confidential=>[\"can not be changed for existing notes\"]}";
    for (discussion, same) in [(&open, false), (&secret, true)] {
        let path = format!("notes/{}", discussion["notes"][0]["id"]);
        for name in ["confidential", "internal"] {
            let put = |body: Value| send(&forge, Method::PUT, &path, "rep", body);
            assert_eq!(put(json!({name: !same})).refusal(), (400, text.into()));
            assert_eq!(put(json!({"body": "y", name: !same})).refusal(), (400, text.into()));
            assert_eq!(put(json!({name: same})).json()["internal"], same);
            assert_eq!(put(json!({"body": "y", name: same})).json()["body"], "y");
        }
    }
}

/// Lists of more than one page of discussions, of which some are internal.
#[test]
fn pages_are_counted_without_internal_discussions() {
    let forge = forge();
    for number in 0..250 {
        create(&forge, "notes", json!({"body": format!("n{number}"), "internal": number % 3 == 0}));
    }
    let (mut open, mut all) = (Vec::new(), Vec::new());
    for (caller, bodies) in [("gus", &mut open), ("rep", &mut all)] {
        for page in 1.. {
            let list = get(&forge, &format!("discussions?per_page=30&page={page}"), caller).json();
            let list = list.as_array().unwrap().clone();
            bodies.extend(list.iter().map(|one| one["notes"][0]["body"].as_str().unwrap().to_owned()));
            if list.is_empty() {
                break;
            }
        }
    }
    let expected = |keep: fn(usize) -> bool| (0..250).filter(|n| keep(*n)).map(|n| format!("n{n}")).collect::<Vec<_>>();
    assert_eq!(open, expected(|number| number % 3 != 0));
    assert_eq!(all, expected(|_| true));
    assert_eq!(get(&forge, "discussions", "").headers["x-total"], "166");
    assert_eq!(forge.get(MERGE_REQUEST, "").json()["user_notes_count"], 166);
}

/// To builds before internal notes, a discussion whose state has no notes is deleted, whatever other fields it has.
/// They find nothing by an id whose length is not 40.
#[test]
fn earlier_builds_take_an_internal_discussion_for_a_deleted_one() {
    let forge = forge();
    let id = create(&forge, "discussions", json!({"body": "secret", "internal": true}))["id"].clone();
    let id = id.as_str().unwrap();
    assert_ne!(id.len(), 40);
    let holders: Vec<String> = forge
        .store
        .keys()
        .into_iter()
        .filter(|key| {
            let value = kit::store::Store::get(&forge.store, key).unwrap().unwrap_or_default();
            String::from_utf8_lossy(&value).contains("secret")
        })
        .collect();
    assert_eq!(holders, [format!("suggestions/v1/thread/{id}")]);
    let state = kit::store::Store::get(&forge.store, &holders[0]).unwrap().unwrap();
    let state: Value = serde_json::from_slice(&state).unwrap();
    assert_eq!(state["notes"], json!([]));
}
