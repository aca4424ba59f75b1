//! Suggestions: from a comment to a commit that git reads.

use super::Forge;
use hexad_tests::forge::{ADMIN, DEVELOPER, GUEST, OUTSIDER, PRIVATE};
use hexad_tests::repository::Repository;
use serde_json::{Value, json};

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

/// A forge with a repository in its private project and merge request 1 from `topic`; and that
/// branch's head.
fn forge() -> (Forge, String) {
    let forge = Forge::seeded();
    let repository = Repository::with(&[("a.txt", b"one\ntwo\n"), ("src/b.rs", b"fn b() {}\r\n")]);
    let objects = repository.git(&["cat-file", "--batch", "--batch-all-objects"]);
    let base = format!("/api/v4/import/suggestions/{PRIVATE}");
    let stored = forge.send("POST", &format!("{base}/objects"), ADMIN, objects);
    assert_eq!((stored.status, stored.json()), (200, json!({"stored": 5, "known": 0})), "{}", stored.text());
    let head = repository.text(&["rev-parse", "topic"]);
    let refs = json!({"refs": [{"name": "heads/main", "new": head}, {"name": "heads/topic", "new": head}]});
    assert_eq!(forge.send("POST", &format!("{base}/refs"), ADMIN, refs.to_string()).json()["moved"], 2);
    let record = json!({"kind": "merge_request", "id": 1, "iid": 1, "project_id": PRIVATE, "source_branch": "topic",
        "target_branch": "main", "state": "opened"});
    let imported = forge.send("POST", "/api/v4/import/suggestions", ADMIN, record.to_string());
    assert_eq!(imported.json()["imported"], json!({"merge_request": 1}), "{}", imported.text());
    (forge, head)
}

fn suggest(forge: &Forge, token: &str, head: &str, path: &str, line: u64, text: &str) -> super::Answer {
    let body = json!({"body": format!("```suggestion:-0+0\n{text}\n```"), "position": {"position_type": "text",
        "base_sha": head, "start_sha": head, "head_sha": head, "new_path": path, "new_line": line}});
    let path = format!("/api/v4/projects/{PRIVATE}/merge_requests/1/discussions");
    forge.send_with("POST", &path, token, &JSON, body.to_string())
}

fn id(made: &super::Answer) -> u64 {
    assert_eq!(made.status, 201, "{}", made.text());
    made.json()["notes"][0]["suggestions"][0]["id"].as_u64().expect("an id")
}

#[test]
fn a_comment_becomes_a_commit_durably() {
    let (forge, head) = forge();
    let one = id(&suggest(&forge, GUEST, &head, "a.txt", 2, "zwei"));
    let two = id(&suggest(&forge, GUEST, &head, "src/b.rs", 1, "fn bee() {}"));
    let before = forge.commits();
    let body = json!({"ids": [two, one], "commit_message": "Both"}).to_string();
    let applied = forge.send_with("PUT", "/api/v4/suggestions/batch_apply", DEVELOPER, &JSON, body);
    assert_eq!(applied.status, 200, "{}", applied.text());
    assert!(forge.commits() > before, "answered before it was on disk");
    assert_eq!(
        applied.json(),
        json!([
            {"id": one, "from_line": 2, "to_line": 2, "applicable": true, "appliable": true, "applied": false,
                "from_content": "two\n", "to_content": "zwei\n"},
            {"id": two, "from_line": 1, "to_line": 1, "applicable": true, "appliable": true, "applied": false,
                "from_content": "fn b() {}\r\n", "to_content": "fn bee() {}\r\n"},
        ])
    );
    let later = forge.get(&format!("/api/v4/suggestions/{one}"), GUEST).json();
    assert_eq!((&later["applied"], &later["applicable"]), (&json!(true), &json!(false)));
    let again = forge.send("PUT", &format!("/api/v4/suggestions/{one}/apply"), DEVELOPER, "");
    assert_eq!((again.status, again.json()["message"].as_str()), (400, Some("Can't apply this suggestion.")));
}

#[test]
fn suggesting_and_applying_need_a_role() {
    let (forge, head) = forge();
    assert_eq!(suggest(&forge, OUTSIDER, &head, "a.txt", 1, "x").status, 404);
    assert_eq!(suggest(&forge, "", &head, "a.txt", 1, "x").status, 401);
    let id = id(&suggest(&forge, GUEST, &head, "a.txt", 1, "x"));
    for (token, status) in [("", 401), (OUTSIDER, 403), (GUEST, 403), (DEVELOPER, 200)] {
        let answer = forge.send("PUT", &format!("/api/v4/suggestions/{id}/apply"), token, "");
        assert_eq!(answer.status, status, "{token}: {}", answer.text());
    }
    for path in ["", "/9/objects", "/9/refs"] {
        let answer = forge.send("POST", &format!("/api/v4/import/suggestions{path}"), DEVELOPER, "");
        assert_eq!(answer.status, 403, "{path}");
    }
}

#[test]
fn every_route_of_the_manifest_leads_to_the_component() {
    let (forge, _) = forge();
    let list: Value = forge.get(&format!("/api/v4/projects/{PRIVATE}/merge_requests/1/discussions"), GUEST).json();
    assert_eq!(list, json!([]));
    let head = forge.get(&format!("/api/v4/projects/{PRIVATE}/repository.git/HEAD"), DEVELOPER);
    assert_eq!(head.text(), "ref: refs/heads/main\n");
    let refused = forge.get(&format!("/api/v4/projects/{PRIVATE}/repository.git/HEAD"), "");
    assert_eq!((refused.status, refused.header("www-authenticate")), (401, "Basic realm=\"hexad\""));
    assert_eq!(forge.get("/api/v4/suggestions/1", GUEST).json()["message"], "404 Suggestion Not Found");
}
