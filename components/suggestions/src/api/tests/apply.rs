//! Applying suggestions.

use super::*;

const FILES: [(&str, &[u8]); 5] = [
    ("a.txt", b"one\ntwo\nthree\nfour\nfive\n"),
    ("src/deep/b.rs", b"fn a() {}\r\nfn b() {}\r\nfn c() {}"),
    ("src/c.rs", b"c1\nc2\n"),
    ("book.ipynb", b"{\n}\n"),
    ("latin1.txt", b"caf\xe9\nth\xe9\n"),
];

/// Merge request 1 from `topic` of a repository with [`FILES`].
fn forge() -> Forge {
    Forge::with(&FILES).0
}

fn refusal(reason: InapplicableReason) -> (u16, String) {
    (400, reason.to_string())
}

#[test]
fn a_suggestion_becomes_a_commit() {
    let forge = forge();
    let before = forge.head(PUBLIC, "topic");
    let [id] = forge.suggest(1, "a.txt", 3, &block(":-1+1", "2\n3\n3.5\n4"))[..] else { panic!("one suggestion") };
    let answer = forge.apply(id, "mia", Value::Null).expect(200);
    // The response shows the suggestion as it was before the commit.
    assert_eq!(
        answer.json(),
        json!({"id": id, "from_line": 2, "to_line": 4, "applicable": true, "appliable": true, "applied": false,
            "from_content": "two\nthree\nfour\n", "to_content": "2\n3\n3.5\n4\n"})
    );
    assert_eq!(forge.flags(id), (false, true));

    let clone = forge.clone(PUBLIC);
    clone.git(&["checkout", "-q", "topic"]);
    assert_eq!(std::fs::read(clone.file("a.txt")).unwrap(), b"one\n2\n3\n3.5\n4\nfive\n");
    assert_eq!(clone.text(&["rev-parse", "HEAD^"]), before);
    assert_eq!(clone.text(&["rev-parse", "main"]), before, "other branches stay");
    let log = clone.text(&["log", "-1", "--format=%an|%ae|%cn|%ce|%at|%B"]);
    let expected = "rep of Acme|4-rep@users.noreply.forge.test|mia of Acme|mia@acme.test|1790000000|\
        Apply 1 suggestion(s) to 1 file(s)\n\nCo-authored-by: rep of Acme <4-rep@users.noreply.forge.test>";
    assert_eq!(log, expected);
    assert_eq!(clone.text(&["diff", "--name-only", "HEAD^", "HEAD"]), "a.txt");
}

#[test]
fn the_author_is_who_made_all_suggestions_and_the_committer_who_applies_them() {
    let forge = forge();
    let suggest = |token: &str, line: u64| {
        let head = forge.head(PUBLIC, "topic");
        let text = format!("{token} {line} {head}");
        forge.comment(1, token, comment(&head, "a.txt", line, &block("", &text))).suggestion()
    };
    for (authors, author) in [
        (&["otto"][..], "otto"),
        (&["otto", "otto"][..], "otto"),
        (&["dev"][..], "dev"),
        (&["otto", "rep"][..], "dev"),
        (&["otto", "dev"][..], "dev"),
    ] {
        let ids: Vec<u64> = authors.iter().zip(1..).map(|(token, line)| suggest(token, line)).collect();
        assert_eq!(forge.apply_all(&ids, "dev").status, 200, "{authors:?}");
        let clone = forge.clone(PUBLIC);
        let signed = clone.text(&["log", "-1", "--format=%an|%cn", "topic"]);
        assert_eq!(signed, format!("{author} of Acme|dev of Acme"), "{authors:?}");
        let co_authors: std::collections::BTreeSet<_> = authors.iter().filter(|token| **token != "dev").collect();
        let message = clone.text(&["log", "-1", "--format=%B", "topic"]);
        assert_eq!(message.matches("Co-authored-by").count(), co_authors.len(), "{message}");
    }
}

#[test]
fn a_batch_is_one_commit_and_the_answer_is_in_the_order_of_ids() {
    let forge = forge();
    let a = forge.suggest(1, "a.txt", 1, &(block("", "1\n1.5") + &block(":+1", "x")));
    let more = [
        forge.suggest(1, "a.txt", 5, &block("", "")),
        forge.suggest(1, "src/deep/b.rs", 3, &block(":-1", "fn bc() {}")),
        forge.suggest(1, "src/c.rs", 2, &block("", "see two")),
        forge.suggest(1, "latin1.txt", 2, &block("", "tea")),
    ]
    .concat();
    let mut ids = vec![a[0]];
    ids.extend(&more);
    ids.reverse();
    let answer = forge.apply_all(&ids, "dev").expect(200);
    let shown = answer.json();
    let listed: Vec<u64> = shown.as_array().unwrap().iter().map(|one| one["id"].as_u64().unwrap()).collect();
    ids.sort();
    assert_eq!(listed, ids);
    assert!(shown.as_array().unwrap().iter().all(|one| one["applied"] == false && one["applicable"] == true));
    assert!(ids.iter().all(|id| forge.flags(*id) == (false, true)));
    assert_eq!(forge.flags(a[1]), (false, false), "its lines were changed by another");

    let clone = forge.clone(PUBLIC);
    clone.git(&["checkout", "-q", "topic"]);
    let read = |path: &str| std::fs::read(clone.file(path)).unwrap();
    assert_eq!(read("a.txt"), b"1\n1.5\ntwo\nthree\nfour\n");
    assert_eq!(read("src/deep/b.rs"), b"fn a() {}\r\nfn bc() {}", "line ends and their absence are kept");
    assert_eq!(read("src/c.rs"), b"c1\nsee two\n");
    assert_eq!(read("latin1.txt"), b"caf\xe9\ntea\n", "bytes that are no UTF-8 are kept");
    assert_eq!(clone.text(&["rev-list", "--count", "main..topic"]), "1");
    let subject = clone.text(&["log", "-1", "--format=%s"]);
    assert_eq!(subject, "Apply 5 suggestion(s) to 4 file(s)");
}

#[test]
fn permissions_and_the_order_of_checks() {
    let forge = forge();
    forge.token("readonly", 2, &["read_api"]);
    let id = forge.suggest(1, "a.txt", 1, &block("", "1"))[0];
    let path = |id: &str| format!("suggestions/{id}/apply");
    let put = |id: &str, token: &str| forge.send(Method::PUT, &path(id), token, Value::Null).refusal();
    let id = id.to_string();
    let not_found = (404, "Suggestion is not applicable as the suggestion was not found.".to_owned());
    assert_eq!(put(&id, ""), (401, "401 Unauthorized".into()));
    assert_eq!(put("foo-123", ""), (401, "401 Unauthorized".into()));
    assert_eq!(put(&id, "nobody"), (401, "401 Unauthorized".into()));
    assert_eq!(put(&id, "readonly").0, 403);
    assert_eq!(put("foo-123", "otto"), (400, "id is invalid".into()));
    for unknown in ["0", "999", "-1", "99999999999999999999999"] {
        assert_eq!(put(unknown, "otto"), not_found, "{unknown}");
    }
    for token in ["otto", "gus", "rep"] {
        assert_eq!(put(&id, token), (403, "403 Forbidden".into()), "{token}");
    }
    assert_eq!(put(&id, "dev").0, 200);
    // Permissions are checked before applicability.
    assert_eq!(put(&id, "otto").0, 403);
    assert_eq!(put(&id, "mia"), refusal(InapplicableReason::AlreadyApplied));
}

#[test]
fn a_protected_branch_an_archived_project_and_a_private_one() {
    let forge = forge();
    let id = forge.suggest(1, "a.txt", 1, &block("", "1"))[0];
    let protect = |push| Some(vec![ProtectedBranch { name: "top*".into(), push }]);
    forge.project(PUBLIC, |project| project.protected_branches = protect(Some(Role::Maintainer)));
    assert_eq!(forge.apply(id, "dev", Value::Null).status, 403);
    forge.project(PUBLIC, |project| project.archived = true);
    assert_eq!(forge.apply(id, "root", Value::Null).status, 403);
    forge.project(PUBLIC, |project| project.visibility = directory::namespace::Visibility::Private);
    assert_eq!(forge.apply(id, "otto", Value::Null).status, 403, "403 and not 404 for an existing suggestion");
    assert_eq!(forge.apply(id, "dev", Value::Null).status, 200);
}

#[test]
fn ids_of_a_batch() {
    let forge = forge();
    let ids = forge.suggest(1, "a.txt", 1, &(block("", "1") + &block("", "2")));
    let put = |body: Value| forge.send(Method::PUT, "suggestions/batch_apply", "dev", body).refusal();
    let missing = (400, "ids is missing".to_owned());
    let unknown = (404, "Suggestions are not applicable as one or more suggestions were not found.".to_owned());
    assert_eq!(forge.send(Method::PUT, "suggestions/batch_apply", "", json!({})).status, 401);
    for body in [json!({}), json!({"ids": []}), json!({"ids": null}), json!({"ids": ""})] {
        assert_eq!(put(body.clone()), missing, "{body}");
    }
    for ids in [json!([ids[0], 999]), json!([ids[0], ids[0]]), json!([ids[0], "x"]), json!("x"), json!(-1)] {
        assert_eq!(put(json!({"ids": ids})), unknown, "{ids}");
    }
    assert_eq!(put(json!({"ids": (1..=1001).collect::<Vec<_>>()})).0, 400);
    assert_eq!(put(json!({"ids": ids})), refusal(InapplicableReason::OverlappingLines));
    assert_eq!(forge.send(Method::PUT, "suggestions/batch_apply", "gus", json!({"ids": ids})).status, 403);
    assert_eq!(forge.head(PUBLIC, "topic"), forge.head(PUBLIC, "main"), "nothing was applied");
}

#[test]
fn ids_come_as_json_as_a_form_and_in_the_query() {
    for (path, media_type, body) in [
        ("suggestions/batch_apply", "application/json", r#"{"ids":[1,2],"commit_message":"m"}"#),
        ("suggestions/batch_apply", "application/json", r#"{"ids":"1, 2","commit_message":"m"}"#),
        ("suggestions/batch_apply", "application/x-www-form-urlencoded", "ids[]=1&ids[]=2&commit_message=m"),
        ("suggestions/batch_apply", "application/x-www-form-urlencoded", "ids=1,2&commit_message=m"),
        ("suggestions/batch_apply?ids[]=1&ids[]=2&commit_message=m", "", ""),
        ("suggestions/batch_apply?commit_message=m", "application/json", r#"{"ids":["1","2"]}"#),
    ] {
        let forge = forge();
        assert_eq!(forge.suggest(1, "a.txt", 1, &block("", "1")), [1]);
        assert_eq!(forge.suggest(1, "a.txt", 2, &block("", "2")), [2]);
        let answer = forge.send_bytes(Method::PUT, path, "dev", media_type, body.into());
        assert_eq!(answer.status, 200, "{path} {body}: {}", answer.text());
        assert_eq!(forge.clone(PUBLIC).text(&["log", "-1", "--format=%B", "topic"]), "m");
    }
}

#[test]
fn unreadable_bodies_are_refused() {
    let forge = forge();
    for (media_type, body, status) in [
        ("application/json", "{", 400),
        ("application/json", "[]", 400),
        ("text/plain", "ids=1", 415),
        ("application/json", r#"{"ids":[1],"commit_message":"a\u0000b"}"#, 400),
    ] {
        let answer = forge.send_bytes(Method::PUT, "suggestions/batch_apply", "dev", media_type, body.into());
        assert_eq!(answer.status, status, "{body}");
    }
}

#[test]
fn the_message_is_the_requests_or_the_target_projects_or_the_default() {
    let template = "%{branch_name} %{project_path} %{project_name} %{username}";
    for (requested, project, expected) in [
        (None, None, "Apply 1 suggestion(s) to 1 file(s)"),
        (None, Some(template), "topic p7 Project 7 dev"),
        (Some("  "), Some(template), "topic p7 Project 7 dev"),
        (Some("mine %{files_count} %{x}"), Some(template), "mine 1 %{x}"),
    ] {
        let forge = forge();
        let project = project.map(str::to_owned);
        forge.project(PUBLIC, |new| new.suggestion_commit_message = project);
        let id = forge.suggest(1, "a.txt", 1, &block("", "1"))[0];
        assert_eq!(forge.apply(id, "dev", json!({"commit_message": requested})).status, 200);
        assert_eq!(forge.clone(PUBLIC).text(&["log", "-1", "--format=%s", "topic"]), expected);
    }
}

#[test]
fn each_reason_of_refusal() {
    // Applied.
    let forge = forge();
    let ids =
        forge.suggest(1, "a.txt", 3, &(block("", "3") + &block("", "3b") + &block(":-1", "23") + &block("", "three")));
    let far = forge.suggest(1, "a.txt", 5, &block("", "5"))[0];
    let notebook = forge.suggest(1, "book.ipynb", 1, &block("", "["))[0];
    let refused = |id: u64, reason| assert_eq!(forge.apply(id, "dev", Value::Null).refusal(), refusal(reason));
    refused(ids[3], InapplicableReason::NoChange);
    refused(notebook, InapplicableReason::RenderedNotebook);
    assert_eq!(forge.apply(ids[0], "dev", Value::Null).status, 200);
    refused(ids[0], InapplicableReason::AlreadyApplied);
    // The commit changed the lines of some suggestions, and not those of the others.
    refused(ids[1], InapplicableReason::LineOutdated);
    refused(ids[2], InapplicableReason::LinesOutdated);
    assert_eq!((forge.flags(ids[1]), forge.flags(far)), ((false, false), (true, false)));
    // The merge request.
    forge.merge_request(1, json!({"state": "merged"}));
    refused(far, InapplicableReason::Merged);
    forge.merge_request(1, json!({"state": "closed"}));
    refused(far, InapplicableReason::Closed);
    refused(ids[0], InapplicableReason::AlreadyApplied);
    forge.merge_request(1, json!({"state": "opened"}));
    // The branch.
    forge.delete_branch(PUBLIC, "topic");
    refused(far, InapplicableReason::BranchDeleted);
    assert_eq!(forge.flags(far), (false, false));
    assert_eq!(forge.flags(ids[0]), (false, true), "an applied suggestion stays applied");
    forge.merge_request(1, json!({"deleted": true}));
    assert_eq!(forge.apply(far, "dev", Value::Null).status, 404);
}

#[test]
fn deleted_and_changed_files_are_refused() {
    let (forge, repository) = Forge::with(&FILES);
    let deleted = forge.suggest(1, "src/c.rs", 1, &block("", "x"))[0];
    let moved = forge.suggest(1, "a.txt", 1, &block("", "x"))[0];
    let changed = forge.suggest(1, "a.txt", 5, &block("", "x"))[0];
    repository.git(&["rm", "-q", "src/c.rs"]);
    repository.write("a.txt", b"one\ntwo\nthree\nfour\n5\n");
    repository.commit("push");
    forge.import(PUBLIC, &repository);
    let refused = |id: u64, reason| assert_eq!(forge.apply(id, "dev", Value::Null).refusal(), refusal(reason));
    refused(deleted, InapplicableReason::FileNotFound);
    assert_eq!(forge.flags(deleted), (false, false));
    refused(changed, InapplicableReason::LineOutdated);
    // One suggestion that cannot be applied refuses the batch.
    assert_eq!(forge.apply_all(&[moved, deleted], "dev").refusal(), refusal(InapplicableReason::FileNotFound));
    assert_eq!(forge.apply(moved, "dev", Value::Null).status, 200);
}

#[test]
fn all_must_be_on_one_branch() {
    let forge = Forge::new();
    let repository = Repository::with(&FILES);
    repository.git(&["checkout", "-q", "-b", "other"]);
    repository.commit("on the other");
    forge.import(PUBLIC, &repository);
    forge.merge_request(1, Value::Null);
    forge.merge_request(2, json!({"source_branch": "other"}));
    let first = forge.suggest(1, "a.txt", 1, &block("", "x"))[0];
    let comment = comment(&forge.head(PUBLIC, "other"), "a.txt", 5, &block("", "y"));
    let second = forge.comment(2, "rep", comment).suggestion();
    assert_eq!(forge.apply_all(&[first, second], "dev").refusal(), refusal(InapplicableReason::OtherBranch));
    // Two merge requests may have one source branch.
    forge.merge_request(4, Value::Null);
    let third = forge.suggest(4, "src/c.rs", 1, &block("", "z"))[0];
    assert_eq!(forge.apply_all(&[first, third], "dev").status, 200);
    assert_eq!(forge.apply(second, "dev", Value::Null).status, 200);
}

#[test]
fn a_fork_gets_the_commit_if_the_caller_may_push_to_it() {
    let forge = forge();
    let repository = Repository::with(&FILES);
    repository.write("a.txt", b"fork\n");
    repository.commit("in the fork");
    forge.import(FORK, &repository);
    forge.merge_request(3, json!({"source_project_id": FORK}));
    let id = forge.suggest(3, "a.txt", 1, &block("", "spoon"))[0];
    let before = forge.head(PUBLIC, "topic");
    assert_eq!(forge.apply(id, "mia", Value::Null).status, 403, "not a member of the fork");
    forge.merge_request(3, json!({"source_project_id": null}));
    assert_eq!(forge.apply(id, "dev", Value::Null).status, 403, "the fork was deleted");
    forge.merge_request(3, json!({"source_project_id": FORK, "allow_collaboration": true}));
    forge.apply(id, "mia", json!({"commit_message": "%{project_path}"})).expect(200);
    let clone = forge.clone(FORK);
    assert_eq!(clone.text(&["show", "topic:a.txt"]), "spoon");
    assert_eq!(clone.text(&["log", "-1", "--format=%s", "topic"]), "p7", "the target project's");
    assert_eq!(forge.head(PUBLIC, "topic"), before);
}

#[test]
fn executable_bits_and_links_are_kept() {
    let forge = Forge::new();
    let repository = Repository::with(&[("run.sh", b"#!/bin/sh\nexit 1\n"), ("d/x", b"x\n")]);
    repository.git(&["update-index", "--chmod=+x", "run.sh"]);
    std::os::unix::fs::symlink("run.sh", repository.file("link")).unwrap();
    repository.git(&["add", "link"]);
    repository.git(&["update-index", "--add", "--cacheinfo", &format!("160000,{},module", "1".repeat(40))]);
    repository.git(&["commit", "-q", "-m", "modes"]);
    forge.import(PUBLIC, &repository);
    forge.merge_request(1, Value::Null);
    let script = forge.suggest(1, "run.sh", 2, &block("", "exit 0"))[0];
    let link = forge.suggest(1, "link", 1, &block("", "d/x"))[0];
    assert_eq!(forge.apply_all(&[script, link], "dev").status, 200);
    let clone = forge.clone(PUBLIC);
    let modes =
        |repository: &Repository| repository.text(&["ls-tree", "-r", "--format=%(objectmode) %(path)", "topic"]);
    assert_eq!(modes(&clone), modes(&repository));
    assert_eq!(clone.text(&["show", "topic:link"]), "d/x");
    for no_file in ["module", "d", "link/x"] {
        let answer = forge.comment(1, "rep", comment(&forge.head(PUBLIC, "topic"), no_file, 1, &block("", "x")));
        assert_eq!(answer.status, 400, "{no_file}");
    }
}

#[test]
fn a_line_of_ten_megabytes() {
    let long = [&b"short\n"[..], &vec![b'x'; 10_000_000], b"\nend\n"].concat();
    let (forge, _) = Forge::with(&[("long.txt", &long)]);
    let ids = forge.suggest(1, "long.txt", 2, &block("", "now short"));
    let answer = forge.apply(ids[0], "dev", Value::Null).expect(200);
    assert_eq!(answer.json()["from_content"].as_str().unwrap().len(), 10_000_001);
    assert_eq!(forge.clone(PUBLIC).text(&["show", "topic:long.txt"]), "short\nnow short\nend");
    // Suggestions that would repeat the line too often are refused.
    let (forge, _) = Forge::with(&[("long.txt", &long)]);
    let thrice = comment(&forge.head(PUBLIC, "topic"), "long.txt", 2, &block("", "a").repeat(3));
    assert_eq!(forge.comment(1, "rep", thrice).status, 400);
}

#[test]
fn a_thousand_suggestions_in_one_commit() {
    let file: String = (0..1000).map(|line| format!("line {line}\n")).collect();
    let (forge, _) = Forge::with(&[("many.txt", file.as_bytes())]);
    let ids: Vec<u64> =
        (1..=1000).flat_map(|line| forge.suggest(1, "many.txt", line, &block("", &format!("{line}\n.")))).collect();
    forge.apply_all(&ids, "dev").expect(200);
    let expected: String = (1..=1000).map(|line| format!("{line}\n.\n")).collect();
    assert_eq!(forge.clone(PUBLIC).text(&["show", "topic:many.txt"]), expected.trim_end());
}

#[test]
fn suggestions_of_a_private_project_are_hidden() {
    let forge = Forge::new();
    forge.import(PRIVATE, &Repository::with(&FILES));
    forge.merge_request(1, json!({"project_id": PRIVATE}));
    let comment = comment(&forge.head(PRIVATE, "topic"), "a.txt", 1, &block("", "x"));
    let path = format!("projects/{PRIVATE}/merge_requests/1/discussions");
    let expected = (404, "404 Project Not Found".into());
    assert_eq!(forge.send(Method::POST, &path, "otto", comment.clone()).refusal(), expected);
    let id = forge.send(Method::POST, &path, "rep", comment).suggestion();
    for (token, status) in [("", 401), ("otto", 404), ("rep", 200)] {
        assert_eq!(forge.get(&format!("suggestions/{id}"), token).status, status, "{token}");
    }
    assert_eq!(forge.get(&path, "").status, 404);
    assert_eq!(forge.get("suggestions/x", "gus").refusal(), (400, "id is invalid".into()));
}
