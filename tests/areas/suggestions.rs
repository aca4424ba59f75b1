//! Suggestions: from a comment to a commit that git reads.

use super::*;
use hexad_tests::forge::MAINTAINER;
use hexad_tests::repository::Repository;

/// A forge with a repository in its private project and merge request 1 from `topic`; and that
/// branch's head.
fn forge() -> (Forge, String) {
    let forge = Forge::seeded();
    let repository = Repository::with(&[("a.txt", b"one\ntwo\n"), ("src/b.rs", b"fn b() {}\r\n")]);
    let (head, stored) = import(&forge, PRIVATE, &repository);
    assert_eq!(stored, json!({"stored": 5, "known": 0}));
    (forge, head)
}

/// Imports a repository, and merge request 1 from its branch `topic`. Returns that branch's head, and the report of the
/// stored objects.
fn import(forge: &Forge, project: u64, repository: &Repository) -> (String, Value) {
    let objects = repository.git(&["cat-file", "--batch", "--batch-all-objects"]);
    let base = format!("/api/v4/import/suggestions/{project}");
    let stored = forge.send("POST", &format!("{base}/objects"), ADMIN, objects).expect(200);
    let head = repository.text(&["rev-parse", "topic"]);
    let refs = json!({"refs": [{"name": "heads/main", "new": head}, {"name": "heads/topic", "new": head}]});
    assert_eq!(forge.send("POST", &format!("{base}/refs"), ADMIN, refs.to_string()).json()["moved"], 2);
    forge.import_merge_request(project);
    (head, stored.json())
}

fn suggest(forge: &Forge, token: &str, head: &str, path: &str, line: u64, text: &str) -> super::Answer {
    let body = json!({"body": format!("```suggestion:-0+0\n{text}\n```"), "position": {"position_type": "text",
        "base_sha": head, "start_sha": head, "head_sha": head, "new_path": path, "new_line": line}});
    let path = format!("/api/v4/projects/{PRIVATE}/merge_requests/1/discussions");
    forge.send_json("POST", &path, token, body.to_string())
}

fn id(made: &super::Answer) -> u64 {
    assert_eq!(made.status, 201, "{}", made.text());
    made.json()["notes"][0]["suggestions"][0]["id"].as_u64().expect("an id")
}

#[test]
fn a_comment_becomes_a_commit_durably() {
    let (forge, head) = forge();
    let one = id(&suggest(&forge, MAINTAINER, &head, "a.txt", 2, "zwei"));
    let two = id(&suggest(&forge, MAINTAINER, &head, "src/b.rs", 1, "fn bee() {}\n// bees"));
    let before = forge.commits();
    let body = json!({"ids": [two, one], "commit_message": "Both"}).to_string();
    let applied = forge.send_json("PUT", "/api/v4/suggestions/batch_apply", DEVELOPER, body).expect(200);
    assert!(forge.commits() > before, "answered before it was on disk");
    let expected = json!([
        {"id": one, "from_line": 2, "to_line": 2, "applicable": true, "appliable": true, "applied": false,
            "from_content": "two\n", "to_content": "zwei\n"},
        {"id": two, "from_line": 1, "to_line": 1, "applicable": true, "appliable": true, "applied": false,
            "from_content": "fn b() {}\r\n", "to_content": "fn bee() {}\r\n// bees\r\n"},
    ]);
    assert_eq!(applied.json(), expected);
    let later = forge.get(&format!("/api/v4/suggestions/{one}"), DEVELOPER).json();
    assert_eq!((&later["applied"], &later["applicable"]), (&json!(true), &json!(false)));
    let again = forge.send("PUT", &format!("/api/v4/suggestions/{one}/apply"), DEVELOPER, "");
    assert_eq!((again.status, again.json()["message"].as_str()), (400, Some("Can't apply this suggestion.")));
}

#[test]
fn suggestions_of_one_review_are_applied_one_after_another() {
    let (forge, head) = forge();
    let discussion = suggest(&forge, MAINTAINER, &head, "a.txt", 1, "eins\nund");
    let ids = [id(&discussion), id(&suggest(&forge, MAINTAINER, &head, "a.txt", 2, "zwei"))];
    for (id, line) in ids.into_iter().zip([1, 3]) {
        let applied = forge.send("PUT", &format!("/api/v4/suggestions/{id}/apply"), DEVELOPER, "");
        assert_eq!((applied.status, &applied.json()["from_line"]), (200, &json!(line)), "{}", applied.text());
    }
    let list = format!("/api/v4/projects/{PRIVATE}/merge_requests/1/discussions");
    let path = format!("{list}/{}", discussion.json()["id"].as_str().expect("an id"));
    let reply = forge.send_json("POST", &format!("{path}/notes"), DEVELOPER, json!({"body": "Done"}).to_string());
    assert_eq!(reply.status, 201, "{}", reply.text());
    let resolved = forge.send_json("PUT", &format!("{path}?resolved=true"), DEVELOPER, "{}");
    assert_eq!(resolved.json()["notes"][0]["resolved"], true, "{}", resolved.text());
    assert_eq!(resolved.json()["notes"][1]["system"], true);
    let note = format!("{path}/notes/{}", reply.json()["id"]);
    assert_eq!(forge.send("DELETE", &note, DEVELOPER, "").status, 204);
}

#[test]
fn suggesting_and_applying_need_a_role() {
    let (forge, head) = forge();
    assert_eq!(suggest(&forge, OUTSIDER, &head, "a.txt", 1, "x").status, 404);
    assert_eq!(suggest(&forge, GUEST, &head, "a.txt", 1, "x").status, 404);
    assert_eq!(suggest(&forge, "", &head, "a.txt", 1, "x").status, 401);
    let id = id(&suggest(&forge, DEVELOPER, &head, "a.txt", 1, "x"));
    let shows = |token: &str| {
        let list = format!("/api/v4/projects/{PRIVATE}/merge_requests/1/discussions");
        let head = format!("/api/v4/projects/{PRIVATE}/repository.git/HEAD");
        [list, format!("/api/v4/suggestions/{id}"), head].map(|path| forge.get(&path, token).status)
    };
    assert_eq!(shows(GUEST), [404, 404, 403], "a guest of a private project sees no code");
    assert_eq!(shows(MAINTAINER), [200; 3]);
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
fn access_levels_come_with_an_import_and_hide_a_public_projects_code() {
    let forge = Forge::seeded();
    import(&forge, PUBLIC, &Repository::with(&[("a.txt", b"one\n")]));
    let statuses = |levels: Value, token: &str| {
        let mut record = json!({"kind": "project", "id": PUBLIC, "path_with_namespace": "acme/open",
            "visibility": "public"});
        record.as_object_mut().expect("an object").extend(levels.as_object().expect("an object").clone());
        forge.import(record.to_string());
        let list = format!("/api/v4/projects/{PUBLIC}/merge_requests/1/discussions");
        let refs = format!("/api/v4/projects/{PUBLIC}/repository.git/info/refs");
        [list, refs].map(|path| forge.get(&path, token).status)
    };
    assert_eq!(statuses(json!({}), ""), [200, 200]);
    let private = json!({"repository_access_level": "private"});
    assert_eq!(statuses(private.clone(), ""), [404, 401]);
    assert_eq!(statuses(private.clone(), OUTSIDER), [404, 403]);
    assert_eq!(statuses(private, GUEST), [200, 200]);
    let members = json!({"merge_requests_access_level": "private"});
    assert_eq!(statuses(members.clone(), GUEST), [404, 200]);
    assert_eq!(statuses(members, DEVELOPER), [200, 200]);
    assert_eq!(statuses(json!({"repository_access_level": "disabled"}), ADMIN), [404, 403]);
    assert_eq!(statuses(json!({"merge_requests_access_level": "disabled"}), ADMIN), [404, 200]);
}

/// An instance serves a thousand requests, and its memory never shrinks. So later requests must reuse the memory that a
/// request frees.
#[test]
fn an_instance_needs_no_more_memory_after_hundreds_of_commits() {
    const FILES: usize = 300;
    let forge = Forge::seeded();
    let contents = |file: usize| -> String { (0..40 + file).map(|line| format!("line {line} of {file}\n")).collect() };
    let paths: Vec<String> = (0..FILES).map(|file| format!("part-{}/folder-{}/{file}", file % 10, file % 7)).collect();
    let repository = Repository::empty();
    paths.iter().enumerate().for_each(|(file, path)| repository.write(path, contents(file).as_bytes()));
    repository.commit("first");
    repository.git(&["branch", "topic"]);
    let (mut head, _) = import(&forge, PRIVATE, &repository);
    for (number, path) in paths.iter().enumerate() {
        let id = id(&suggest(&forge, DEVELOPER, &head, path, 20, "new"));
        let applied = forge.send("PUT", &format!("/api/v4/suggestions/{id}/apply"), DEVELOPER, "");
        assert_eq!(applied.status, 200, "{number}: {}", applied.text());
        let refs = forge.get(&format!("/api/v4/projects/{PRIVATE}/repository.git/info/refs"), DEVELOPER).text();
        let moved = refs.lines().find_map(|line| line.strip_suffix("\trefs/heads/topic"));
        head = moved.expect("the branch is there").to_owned();
    }
    let peak = forge.operator().metric("hexad_instance_memory_peak_bytes{component=\"suggestions\"}");
    assert!(peak < 32 << 20, "an instance had {peak} bytes");
}

#[test]
fn every_route_of_the_manifest_leads_to_the_component() {
    let (forge, _) = forge();
    let list: Value = forge.get(&format!("/api/v4/projects/{PRIVATE}/merge_requests/1/discussions"), DEVELOPER).json();
    assert_eq!(list, json!([]));
    let merge_requests = forge.get(&format!("/api/v4/projects/{PRIVATE}/merge_requests"), DEVELOPER).json();
    assert_eq!((&merge_requests[0]["iid"], &merge_requests[0]["state"]), (&json!(1), &json!("opened")));
    assert_eq!(forge.get("/api/v4/groups/acme/merge_requests", DEVELOPER).json()[0]["iid"], 1);
    let head = forge.get(&format!("/api/v4/projects/{PRIVATE}/repository.git/HEAD"), DEVELOPER);
    assert_eq!(head.text(), "ref: refs/heads/main\n");
    let refused = forge.get(&format!("/api/v4/projects/{PRIVATE}/repository.git/HEAD"), "");
    assert_eq!((refused.status, refused.header("www-authenticate")), (401, "Basic realm=\"hexad\""));
    assert_eq!(forge.get("/api/v4/suggestions/1", DEVELOPER).json()["message"], "404 Suggestion Not Found");
}

#[test]
fn internal_notes_of_a_public_project_are_for_reporters() {
    let forge = Forge::seeded();
    import(&forge, PUBLIC, &Repository::with(&[("a.txt", b"one\n")]));
    let path = format!("/api/v4/projects/{PUBLIC}/merge_requests/1");
    let notes = format!("{path}/notes");
    for form in ["body=open", "body=secret&internal=true", "body=secret&confidential=yes"] {
        let form_type = [("content-type", "application/x-www-form-urlencoded")];
        let made = forge.send_with("POST", &notes, DEVELOPER, &form_type, form);
        assert_eq!((made.status, &made.json()["internal"]), (201, &json!(form != "body=open")), "{}", made.text());
    }
    let refused = forge.send_json("POST", &notes, GUEST, json!({"body": "x", "internal": true}).to_string());
    assert_eq!(refused.status, 403, "{}", refused.text());
    for (token, count) in [("", 1), (OUTSIDER, 1), (GUEST, 1), (DEVELOPER, 3), (ADMIN, 3)] {
        for list in [&notes, &format!("{path}/discussions")] {
            let shown = forge.get(list, token);
            assert_eq!(shown.json().as_array().map(Vec::len), Some(count), "{token} {list}: {}", shown.text());
            assert_eq!(shown.header("x-total"), count.to_string(), "{token} {list}");
        }
        assert_eq!(forge.get(&path, token).json()["user_notes_count"], count, "{token}");
    }
}
