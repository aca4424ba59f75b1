//! Commenting, and reading comments.

use super::*;

fn forge() -> Forge {
    Forge::with(&[("a.txt", b"one\ntwo\nthree"), ("d/b.txt", b"b\n")]).0
}

#[test]
fn a_comment_is_answered_with_its_suggestions() {
    let forge = forge();
    let head = forge.head(PUBLIC, "topic");
    let body = block(":-5+1", "x") + "```rust\nno\n```\n" + &block("", " ");
    let answer = forge.comment(1, "otto", comment(&head, "a.txt", 2, &body)).expect(201);
    let mut made = answer.json();
    let note = &mut made["notes"][0];
    let expected = json!([
        {"id": 1, "from_line": 1, "to_line": 3, "applicable": true, "appliable": true, "applied": false,
            "from_content": "one\ntwo\nthree", "to_content": "x"},
        {"id": 2, "from_line": 2, "to_line": 2, "applicable": true, "appliable": true, "applied": false,
            "from_content": "two\n", "to_content": ""},
    ]);
    assert_eq!(note["suggestions"], expected);
    let expected = json!({"base_sha": head, "start_sha": head, "head_sha": head, "old_path": "a.txt", "new_path": "a.txt",
        "position_type": "text", "old_line": null, "new_line": 2, "line_range": null});
    assert_eq!(note["position"], expected);
    let expected = json!({"id": 6, "username": "otto", "name": "otto of Acme", "state": "active", "avatar_url": null,
        "web_url": "https://forge.test:8443/otto"});
    assert_eq!(note["author"], expected);
    assert_eq!((&note["type"], &note["body"], &note["noteable_iid"]), (&json!("DiffNote"), &json!(body), &json!(1)));
    assert_eq!(note["created_at"], "2026-09-21T14:13:20.000Z");
    // The list and the single discussion show the same.
    let id = made["id"].as_str().unwrap().to_owned();
    assert_eq!(id.len(), 40);
    let list = format!("projects/{PUBLIC}/merge_requests/1/discussions");
    assert_eq!(forge.get(&list, "").json(), json!([made]));
    assert_eq!(forge.get(&format!("{list}/{id}"), "").json(), made);
    assert_eq!(forge.get("suggestions/2", "gus").json(), made["notes"][0]["suggestions"][1]);
    assert_eq!(forge.get(&format!("{list}/{}", "0".repeat(40)), "").status, 404);
    assert_eq!(forge.get(&format!("{list}/x"), "").status, 404);
}

#[test]
fn a_comment_as_a_form() {
    let forge = forge();
    let head = forge.head(PUBLIC, "topic");
    let form = format!(
        "body=%60%60%60suggestion%0Ax%0A%60%60%60&position[position_type]=text&position[base_sha]={head}&\
         position[start_sha]={head}&position[head_sha]={head}&position[new_path]=d/b.txt&position%5Bnew_line%5D=1"
    );
    let path = "projects/acme%2Fp7/merge_requests/1/discussions";
    let answer = forge.send_bytes(Method::POST, path, "rep", "application/x-www-form-urlencoded", form.into());
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert_eq!(answer.json()["notes"][0]["suggestions"][0]["to_content"], "x\n");
}

#[test]
fn a_comment_as_a_multipart_form() {
    let forge = forge();
    let head = forge.head(PUBLIC, "topic");
    let fields = [
        ("body", block("", "x")),
        ("position[position_type]", "text".into()),
        ("position[base_sha]", head.clone()),
        ("position[start_sha]", head.clone()),
        ("position[head_sha]", head),
        ("position[new_path]", "d/b.txt".into()),
        ("position[new_line]", "1".into()),
    ];
    let part = |(name, value): &(&str, String)| {
        format!("--XX\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
    };
    let form = fields.iter().map(part).collect::<String>() + "--XX--\r\n";
    let path = "projects/7/merge_requests/1/discussions";
    let answer = forge.send_bytes(Method::POST, path, "rep", "multipart/form-data; boundary=XX", form.into());
    assert_eq!(answer.status, 201, "{}", answer.text());
    assert_eq!(answer.json()["notes"][0]["suggestions"][0]["to_content"], "x\n");
    let broken = forge.send_bytes(Method::POST, path, "rep", "multipart/form-data; boundary=XX", "--XX".into());
    assert_eq!(broken.status, 400);
}

#[test]
fn all_errors_in_the_parameters_are_reported_together() {
    let forge = forge();
    let post = |body: Value| forge.comment(1, "rep", body).refusal();
    assert_eq!(forge.comment(1, "", json!({})).status, 401);
    assert_eq!(post(json!({})), (400, "body is missing".into()));
    let blank = "400 Bad request - Note {:note=>[\"can't be blank\"]}";
    assert_eq!(post(json!({"body": " \n\t"})), (400, blank.into()));
    let expected = "position[base_sha] is missing, position[start_sha] is missing, position[head_sha] is missing, \
        position[new_line] is invalid, position[position_type] does not have a valid value";
    let position = json!({"position_type": "word", "new_line": "x"});
    assert_eq!(post(json!({"body": "b", "position": position})), (400, expected.into()));
    let path = |project: &str, iid: &str| format!("projects/{project}/merge_requests/{iid}/discussions");
    let to = |project: &str, iid: &str| forge.send(Method::POST, &path(project, iid), "rep", json!({"body": "b"}));
    assert_eq!(to("7", "x").refusal(), (400, "noteable_id is invalid".into()));
    assert_eq!(to("7", "99").refusal(), (404, "404 Not found".into()));
    assert_eq!(to("99", "1").refusal(), (404, "404 Project Not Found".into()));
    assert_eq!(to("7", "99999999999999999999").status, 404);
    assert_eq!(to("7", "1").status, 201);
    forge.project(PUBLIC, |project| project.archived = true);
    assert_eq!(to("7", "1").status, 403);
}

#[test]
fn a_position_outside_the_repository_is_refused() {
    let forge = forge();
    let head = forge.head(PUBLIC, "topic");
    let not_found =
        (400, "400 Bad request - Note {:line_code=>[\"can't be blank\", \"must be a valid line code\"]}".to_owned());
    for (head, path, line) in [
        (head.as_str(), "a.txt", 4),
        (&head, "a.txt", 0),
        (&head, "b.txt", 1),
        (&head, "d", 1),
        (&head, "/a.txt", 1),
        (&head, "d//b.txt", 1),
        (&head, "d/../a.txt", 1),
        ("0000000000000000000000000000000000000000", "a.txt", 1),
        ("topic", "a.txt", 1),
    ] {
        let answer = forge.comment(1, "rep", comment(head, path, line, &block("", "x")));
        assert_eq!(answer.refusal(), not_found, "{path}:{line}");
    }
    let list = format!("projects/{PUBLIC}/merge_requests/1/discussions");
    assert_eq!(forge.get(&list, "").json(), json!([]));
}

#[test]
fn only_a_line_of_the_new_text_makes_suggestions() {
    let forge = forge();
    let head = forge.head(PUBLIC, "topic");
    let mut removed = comment(&head, "a.txt", 1, &block("", "x"));
    removed["position"]["new_line"] = Value::Null;
    removed["position"]["old_line"] = json!(1);
    let mut image = comment(&head, "a.txt", 1, &block("", "x"));
    image["position"]["position_type"] = json!("image");
    let general = json!({"body": block("", "x")});
    for body in [removed, image, general] {
        let answer = forge.comment(1, "rep", body.clone());
        assert_eq!((answer.status, &answer.json()["notes"][0]["suggestions"]), (201, &json!([])), "{body}");
    }
    let plain = forge.comment(1, "rep", comment(&head, "a.txt", 1, "no suggestion"));
    assert_eq!((plain.status, &plain.json()["notes"][0]["suggestions"]), (201, &json!([])));
}

#[test]
fn the_suggestions_of_a_comment_and_of_a_page_have_a_bound() {
    let forge = forge();
    let head = forge.head(PUBLIC, "topic");
    let post = |count| forge.comment(1, "rep", comment(&head, "a.txt", 1, &block("", "x").repeat(count)));
    let expected = (400, "400 Bad request - the note has 101 suggestions, and at most 100 are allowed".into());
    assert_eq!(post(101).refusal(), expected);
    (0..51).for_each(|_| assert_eq!(post(100).status, 201));
    let list = format!("projects/{PUBLIC}/merge_requests/1/discussions");
    let text = "400 Bad request - the page has 5100 suggestions, and at most 5000 are shown: ask for fewer discussions \
        with per_page";
    assert_eq!(forge.get(&format!("{list}?per_page=100"), "rep").refusal(), (400, text.into()));
    let page = forge.get(&format!("{list}?per_page=50"), "rep").json();
    let suggestions =
        page.as_array().unwrap().iter().map(|one| one["notes"][0]["suggestions"].as_array().unwrap().len());
    assert_eq!(suggestions.sum::<usize>(), 5000);
}

#[test]
fn a_long_list_comes_in_pages() {
    let forge = forge();
    for number in 0..250 {
        assert_eq!(forge.comment(1, "rep", json!({"body": number.to_string()})).status, 201);
    }
    let list = format!("projects/{PUBLIC}/merge_requests/1/discussions");
    let mut seen = Vec::new();
    for page in 1..=4 {
        let answer = forge.get(&format!("{list}?per_page=70&page={page}"), "");
        assert_eq!(answer.headers["x-total"], "250");
        let page = answer.json();
        seen.extend(page.as_array().unwrap().iter().map(|one| one["notes"][0]["body"].as_str().unwrap().to_owned()));
    }
    assert_eq!(seen, (0..250).map(|number| number.to_string()).collect::<Vec<_>>());
    assert_eq!(forge.get(&format!("{list}?page=99"), "").json(), json!([]));
    assert_eq!(forge.get(&format!("{list}?per_page=0"), "").status, 400);
}

/// A merge request that changes line 10 of 30, adds a file, removes a line of a file, and removes another file.
fn forge_with_difference() -> (Forge, [String; 2]) {
    let forge = Forge::new();
    let file = |changed: &str| -> String {
        (1..=30).map(|line| if line == 10 { changed.to_owned() } else { format!("line {line}\n") }).collect()
    };
    let repository = Repository::with(&[
        ("a.txt", file("line 10\n").as_bytes()),
        ("same.txt", b"same\n"),
        ("less.txt", b"1\n2\n3\n4\n5\n6\n7\n8\n"),
        ("gone.txt", b"gone\n"),
        ("old/name.txt", file("as it was\n").as_bytes()),
    ]);
    let base = repository.text(&["rev-parse", "HEAD"]);
    repository.write("a.txt", file("ten\nmore\n").as_bytes());
    repository.write("new.txt", b"1\n2\n");
    repository.write("less.txt", b"2\n3\n4\n5\n6\n7\n8\n");
    repository.git(&["rm", "-q", "gone.txt"]);
    repository.git(&["mv", "old", "renamed"]);
    let head = repository.commit("change");
    forge.import(PUBLIC, &repository);
    forge.merge_request(1, Value::Null);
    (forge, [base, head])
}

#[test]
fn a_position_is_in_the_difference_or_near_it() {
    let (forge, [base, head]) = forge_with_difference();
    let at = |old_path: &str, new_path: &str, old_line: Option<u64>, new_line: Option<u64>| {
        let answer = forge.comment(
            1,
            "rep",
            json!({"body": block("", "x"), "position": {"position_type": "text", "base_sha": base, "start_sha": base,
                "head_sha": head, "old_path": old_path, "new_path": new_path, "old_line": old_line, "new_line": new_line}}),
        );
        let refused = "400 Bad request - Note {:line_code=>[\"can't be blank\", \"must be a valid line code\"]}";
        match answer.status {
            201 => true,
            _ => {
                assert_eq!(answer.refusal(), (400, refused.to_owned()));
                false
            }
        }
    };
    // Changed lines and those around them; line 11 is new.
    let seen: Vec<u64> = (1..=31).filter(|line| at("a.txt", "a.txt", None, Some(*line))).collect();
    assert_eq!(seen, [7, 8, 9, 10, 11, 12, 13, 14]);
    // Any other line of the file by both of its numbers.
    assert!(at("a.txt", "a.txt", Some(1), Some(1)) && at("a.txt", "a.txt", Some(30), Some(31)));
    assert!(!at("a.txt", "a.txt", Some(30), Some(30)) && !at("a.txt", "a.txt", Some(2), Some(1)));
    // Removed lines.
    assert!(at("less.txt", "less.txt", Some(1), None) && at("a.txt", "a.txt", Some(10), None));
    assert!(!at("less.txt", "less.txt", Some(8), None) && !at("a.txt", "a.txt", Some(30), None));
    assert!(at("gone.txt", "gone.txt", Some(1), None) && !at("gone.txt", "gone.txt", Some(2), None));
    // Other files.
    assert!(!at("same.txt", "same.txt", None, Some(1)) && !at("same.txt", "same.txt", Some(1), Some(1)));
    assert!(!at("same.txt", "same.txt", Some(1), None));
    assert!(at("new.txt", "new.txt", None, Some(2)) && !at("new.txt", "new.txt", None, Some(3)));
    assert!(at("old/name.txt", "renamed/name.txt", Some(5), Some(5)));
    assert!(!at("old/name.txt", "renamed/name.txt", None, Some(5)), "it was renamed and not changed");
}

#[test]
fn the_commits_of_a_position_must_be_there() {
    let (forge, [base, head]) = forge_with_difference();
    let at = |base: &str, head: &str| {
        let mut body = comment(head, "a.txt", 10, "here");
        body["position"]["base_sha"] = json!(base);
        forge.comment(1, "rep", body).status
    };
    assert_eq!((at(&base, &head), at(&head, &head), at(&head, &base)), (201, 201, 201));
    for (base, head) in [("main", head.as_str()), (&"0".repeat(40), &head), (&base, &"0".repeat(40))] {
        assert_eq!(at(base, head), 400, "{base} {head}");
    }
}

#[test]
fn the_range_of_a_comment_on_several_lines_is_shown_as_it_was_given() {
    let forge = forge();
    let mut body = comment(&forge.head(PUBLIC, "topic"), "a.txt", 2, "both");
    let range = json!({"start": {"line_code": "abc_1_1", "type": "new", "old_line": null, "new_line": 1},
        "end": {"line_code": "abc_2_2", "type": null, "old_line": 2, "new_line": 2}});
    body["position"]["line_range"] = range.clone();
    let made = forge.comment(1, "rep", body.clone()).expect(201);
    let list = forge.get(&format!("projects/{PUBLIC}/merge_requests/1/discussions"), "").json();
    let note = list.as_array().unwrap().last().unwrap()["notes"][0].clone();
    assert_eq!(note, made.json()["notes"][0]);
    assert_eq!((&note["position"]["line_range"], &note["original_position"]["line_range"]), (&range, &range));
    body["position"]["line_range"]["start"]["line_code"] = json!("x".repeat(129));
    let refused = "position[line_range] is too long (maximum is 128 bytes for a text)";
    assert_eq!(forge.comment(1, "rep", body.clone()).refusal(), (400, refused.into()));
    body["position"]["line_range"] = json!("1-2");
    assert_eq!(forge.comment(1, "rep", body).status, 201, "no range");
}
