//! Texts of merge requests and notes have bounds, and so have the pages that show them.

use super::merge_requests::{LIST, create, forge};
use super::*;

/// The longest texts: in bytes of JSON, and in bytes.
const LONGEST: [(&str, usize); 2] = [("\n", 1_000_000), ("字", 699_050)];

fn forge_with(notes: usize, body: &str) -> Forge {
    let forge = forge().0;
    forge.merge_request(1, json!({}));
    for _ in 0..notes {
        assert_eq!(note(&forge, 1, body), 201);
    }
    forge
}

fn note(forge: &Forge, iid: u64, body: &str) -> u16 {
    forge.send(Method::POST, &format!("{LIST}/{iid}/notes"), "rep", json!({"body": body})).status
}

#[test]
fn a_page_of_long_texts_is_refused_and_shorter_ones_are_shown() {
    for (character, count) in LONGEST {
        let text = character.repeat(count);
        let forge = forge_with(30, &format!("x{}", character.repeat(count - 1)));
        for iid in 2..=31 {
            forge.merge_request(iid, json!({"description": text}));
        }
        for path in [LIST.to_owned(), format!("{LIST}/1/notes"), format!("{LIST}/1/discussions")] {
            let get = |query: &str| forge.get(&format!("{path}{query}"), "");
            let (status, why) = get("?per_page=100").refusal();
            assert!(status == 400 && why.contains("ask for fewer with per_page"), "{path}: {status} {why}");
            for query in ["", "?page=2", "?per_page=1"] {
                let page = get(query);
                assert_eq!(page.status, 200, "{path}{query}");
                assert!(page.body.len() < 50 << 20, "{path}{query}: {}", page.body.len());
            }
            assert_eq!(get("").json().as_array().unwrap().len(), 20, "{path}");
        }
    }
}

#[test]
fn a_text_is_bounded_in_characters_and_bytes() {
    let forge = forge_with(0, "");
    for (text, expected) in
        [("字".repeat(699_050), true), ("字".repeat(699_051), false), ("x".repeat(1_000_001), false)]
    {
        assert_eq!(note(&forge, 1, &text), if expected { 201 } else { 400 });
        let put = forge.send(Method::PUT, &format!("{LIST}/1"), "dev", json!({"description": text}));
        assert_eq!(put.status, if expected { 200 } else { 400 });
        assert_eq!(put.text().contains("is too long"), !expected);
        let record = json!({"kind": "merge_request", "id": 102, "iid": 2, "project_id": PUBLIC, "source_branch": "topic",
            "target_branch": "main", "description": text});
        let imported = import(&forge, &record);
        assert_eq!(imported.is_ok(), expected, "{imported:?}");
        assert!(expected || imported.unwrap_err().starts_with("description is too long"));
    }
}

/// Why a line was not imported.
fn import(forge: &Forge, record: &Value) -> Result<(), String> {
    let body = record.to_string().into_bytes();
    let report = forge.send_bytes(Method::POST, "import/suggestions", "root", "application/x-ndjson", body).json();
    if report["failed"] == 0 { Ok(()) } else { Err(report["errors"][0]["error"].as_str().unwrap().to_owned()) }
}

#[test]
fn names_that_are_imported_are_bounded() {
    let forge = forge_with(0, "");
    for (field, longest) in [("title", 255), ("source_branch", 255), ("target_branch", 255), ("sha", 64)] {
        for (length, expected) in [(longest, true), (longest + 1, false)] {
            let mut record = json!({"kind": "merge_request", "id": 102, "iid": 2, "project_id": PUBLIC,
                "source_branch": "topic", "target_branch": "main"});
            record[field] = json!("x".repeat(length));
            let imported = import(&forge, &record);
            assert_eq!(imported.is_ok(), expected, "{field} of {length}: {imported:?}");
            assert!(expected || imported.unwrap_err().starts_with(&format!("{field} is too")), "{field}");
            assert_eq!(forge.get(&format!("{LIST}/2"), "").status, 200, "{field}");
        }
    }
}

#[test]
fn a_position_is_bounded() {
    let forge = forge_with(0, "");
    assert_eq!(create(&forge, "dev", json!({"target_branch": "main", "source_branch": "topic"})).status, 409);
    let head = forge.head(PUBLIC, "topic");
    for (field, longest) in
        [("old_path", 4096), ("new_path", 4096), ("base_sha", 64), ("start_sha", 64), ("head_sha", 64)]
    {
        for (length, expected) in [(longest, 201), (longest + 1, 400)] {
            let mut body = comment(&head, "a.txt", 1, "hm");
            body["position"]["position_type"] = json!("image");
            body["position"][field] = json!("x".repeat(length));
            let answer = forge.comment(1, "rep", body);
            assert_eq!(answer.status, expected, "{field} of {length}: {}", answer.text());
        }
    }
}

#[test]
fn counting_the_notes_of_a_list_is_bounded() {
    let forge = forge_with(0, "");
    let text = "x".repeat(1_000_000);
    for iid in 2..=8 {
        forge.merge_request(iid, json!({}));
        for _ in 0..5 {
            assert_eq!(note(&forge, iid, &text), 201);
        }
    }
    let store = CountingStore::over(forge.store.clone());
    let listed = send(forge.env_over(store.clone()), Method::GET, LIST, "", "", Vec::new()).json();
    let counts: Vec<u64> =
        listed.as_array().unwrap().iter().map(|one| one["user_notes_count"].as_u64().unwrap()).collect();
    assert_eq!(counts, [5, 5, 5, 5, 5, 5, 5, 0]);
    assert!(store.bytes() < 20 << 20, "{}", store.bytes());
}
