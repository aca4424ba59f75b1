//! The difference of a merge request, compared with git's.

use super::*;

const PATH: &str = "projects/7/merge_requests/1";

/// A merge request that changes, adds, deletes and renames files.
fn forge() -> (Forge, Repository) {
    let lines: String = (1..40).map(|line| format!("line {line}\n")).collect();
    let repository = Repository::with(&[
        ("changed", lines.as_bytes()),
        ("dir/deep/deleted", b"gone\n"),
        ("dir/kept", b"kept\n"),
        ("moved", b"the same\n"),
        ("picture", b"\0\x01\x02"),
        ("script", b"#!/bin/sh\n"),
        ("shape", b"a file\n"),
    ]);
    repository.git(&["checkout", "-q", "main"]);
    repository.write("dir/kept", b"changed in the target alone\n");
    repository.commit("of the target");
    repository.git(&["checkout", "-q", "topic"]);
    repository.write("changed", lines.replace("line 7\n", "seven\n").replace("line 30\n", "").as_bytes());
    repository.write("picture", b"\0\x03");
    repository.write("new/file", b"new, without an end");
    repository.git(&["rm", "-q", "-r", "dir/deep", "shape"]);
    repository.write("shape/file", b"now a folder\n");
    repository.git(&["mv", "moved", "dir/renamed"]);
    repository.git(&["add", "-A"]);
    repository.git(&["update-index", "--chmod=+x", "script"]);
    repository.git(&["commit", "-q", "-m", "second"]);
    let forge = Forge::new();
    forge.import(PUBLIC, &repository);
    forge.merge_request(1, json!({}));
    (forge, repository)
}

/// git's output of a file's difference, from the first `@@` on, without the names of functions.
fn git_diff(repository: &Repository, path: &str) -> String {
    let output = repository.text(&["diff", "--histogram", "--no-renames", "main...topic", "--", path]);
    let lines = output.lines().skip_while(|line| !line.starts_with("@@") && !line.starts_with("Binary"));
    lines
        .map(|line| match line.strip_prefix("@@ ").and_then(|head| head.split_once(" @@")) {
            Some((ranges, _)) => format!("@@ {ranges} @@\n"),
            None => format!("{line}\n"),
        })
        .collect()
}

#[test]
fn each_file_is_shown_as_git_does() {
    let (forge, repository) = forge();
    let diffs = forge.get(&format!("{PATH}/diffs?per_page=100"), "").json();
    let flags = |diff: &Value| {
        let field = |name: &str| diff[name].as_str().unwrap().to_owned();
        let is = |name: &str| diff[name].as_bool().unwrap();
        let kind = match (is("new_file"), is("deleted_file"), is("renamed_file")) {
            (true, false, false) => "new",
            (false, true, false) => "deleted",
            (false, false, true) => "renamed",
            _ => "changed",
        };
        (field("old_path"), field("new_path"), field("a_mode"), field("b_mode"), kind)
    };
    let seen: Vec<_> = diffs.as_array().unwrap().iter().map(flags).collect();
    let row = |old: &str, new: &str, before: &str, after: &str, kind: &'static str| {
        (old.to_owned(), new.to_owned(), before.to_owned(), after.to_owned(), kind)
    };
    assert_eq!(
        seen,
        [
            row("changed", "changed", "100644", "100644", "changed"),
            row("dir/deep/deleted", "dir/deep/deleted", "100644", "0", "deleted"),
            row("moved", "dir/renamed", "100644", "100644", "renamed"),
            row("new/file", "new/file", "0", "100644", "new"),
            row("picture", "picture", "100644", "100644", "changed"),
            row("script", "script", "100644", "100755", "changed"),
            row("shape", "shape", "100644", "0", "deleted"),
            row("shape/file", "shape/file", "0", "100644", "new"),
        ]
    );
    for diff in diffs.as_array().unwrap() {
        let path = diff["new_path"].as_str().unwrap();
        let expected = match path {
            // With another path, and nothing more.
            "dir/renamed" => String::new(),
            // git takes the path of a folder for all files in it.
            "shape" => "@@ -1 +0,0 @@\n-a file\n".to_owned(),
            _ => git_diff(&repository, path),
        };
        assert_eq!(diff["diff"].as_str().unwrap(), expected, "{path}");
        assert_eq!(diff["too_large"], false);
    }
    let whole = forge.get(&format!("{PATH}/changes"), "").json();
    assert_eq!((&whole["changes"], &whole["overflow"], &whole["iid"]), (&diffs, &json!(false), &json!(1)));
}

#[test]
fn differences_have_pages_and_bounds() {
    let (forge, repository) = forge();
    let page = forge.get(&format!("{PATH}/diffs?per_page=3&page=2"), "");
    assert_eq!((page.headers["x-total"].to_str().unwrap(), &page.json()[0]["new_path"]), ("8", &json!("new/file")));
    repository.write("large", "0123456789\n".repeat(20_000).as_bytes());
    repository.commit("third");
    forge.import(PUBLIC, &repository);
    let whole = forge.get(&format!("{PATH}/changes"), "").json();
    let large = whole["changes"].as_array().unwrap().iter().find(|diff| diff["new_path"] == "large").unwrap();
    assert_eq!((&large["too_large"], &large["diff"], &whole["overflow"]), (&json!(true), &json!(""), &json!(true)));
    for path in ["changes", "diffs"] {
        assert_eq!(forge.get(&format!("projects/7/merge_requests/2/{path}"), "").status, 404);
        assert_eq!(forge.get(&format!("projects/7/merge_requests/x/{path}"), "").status, 400);
    }
    forge.delete_branch(PUBLIC, "topic");
    assert_eq!(forge.get(&format!("{PATH}/changes"), "").json()["changes"], whole["changes"]);
    forge.delete_branch(PUBLIC, "main");
    assert_eq!(forge.get(&format!("{PATH}/changes"), "").json()["changes"], json!([]));
    assert_eq!(forge.get(&format!("{PATH}/diffs"), "").json(), json!([]));
}
