//! Folders that are nested deeper than git follows.

use super::made_pack::{Pack, assert_made, move_by_pack, new_blob, new_commit, new_commit_upon, new_tree, push_pack};
use super::merge_requests::LIST;
use super::*;

/// How deep git follows nested folders.
const MAX_DEPTH: usize = 2048;

fn file() -> Object {
    new_blob(b"hello\n".to_vec())
}

/// Nested folders of this name, of which the innermost has these entries.
fn nested(entries: &[(&str, ObjectId)], name: &str, count: usize) -> Vec<Object> {
    let name = format!("40000 {name}");
    let folders = std::iter::successors(Some(new_tree(entries)), |below| Some(new_tree(&[(&name, below.id)])));
    folders.take(count).collect()
}

fn pack_of<'a>(objects: impl Iterator<Item = &'a Object>) -> Vec<u8> {
    Pack::of(objects).bytes()
}

#[test]
fn a_push_of_folders_that_git_does_not_follow_is_refused() {
    for (folders, is_accepted) in [(MAX_DEPTH + 1, true), (MAX_DEPTH + 2, false)] {
        for is_root_first in [true, false] {
            let (forge, file) = (Forge::new(), file());
            let mut objects = nested(&[("100644 a", file.id)], "d", folders);
            let commit = new_commit(objects.last().unwrap().id);
            let deepest = objects[0].id;
            objects.extend([commit, file]);
            let tip = objects[folders].id;
            let pack = match is_root_first {
                true => pack_of(objects.iter().rev()),
                false => pack_of(objects.iter()),
            };
            let report = push_pack(&forge, tip, &pack);
            if is_accepted {
                assert_made(&report);
                forge.clone(PUBLIC);
            } else {
                let why = format!("tree {deepest}: exceeded maximum allowed tree depth");
                assert!(report.contains(&why) && report.contains("ng refs/heads/new"), "{report}");
            }
        }
    }
}

/// Several pushes nest them, each as deep as is accepted.
#[test]
fn folders_that_git_does_not_follow_are_read() {
    let (forge, file) = (Forge::new(), file());
    let repository = Repository::with(&[("a", b"one\n")]);
    forge.git(&repository, PUBLIC, "mia", &["push", "-q", "URL", "main"]).unwrap();
    forge.merge_request(1, json!({"source_branch": "new"}));
    let mut head = ObjectId::parse(&forge.head(PUBLIC, "main")).unwrap();
    let mut below = ("100644 a", file.id);
    for (folders, is_whole) in [(2_000, true), (4_000, true), (6_000, false)] {
        let mut objects = nested(&[below], "d", 2_000);
        below = ("40000 d", objects.last().unwrap().id);
        let commit = new_commit_upon(head, below.1);
        let old = (folders > 2_000).then_some(head);
        head = commit.id;
        objects.extend([commit, file.clone()]);
        let report = move_by_pack(&forge, old, head, &pack_of(objects.iter()));
        assert_made(&report);
        let whole = forge.get(&format!("{LIST}/1/changes"), "").json();
        assert_eq!(whole["overflow"], !is_whole, "{folders}");
        let path = format!("{}a", "d/".repeat(folders - 1));
        let paths: Vec<&Value> = whole["changes"].as_array().unwrap().iter().map(|file| &file["new_path"]).collect();
        assert_eq!(paths.contains(&&json!(path)), is_whole, "{folders}");
    }
    assert_eq!(forge.fsck("problems"), [Value::Null; 0]);
    let clone = Repository::empty();
    clone.git(&["config", "core.maxTreeDepth", "10000"]);
    forge.git(&clone, PUBLIC, "dev", &["fetch", "-q", "--update-head-ok", "URL", "+refs/*:refs/*"]).unwrap();
    assert_eq!(clone.text(&["rev-parse", "new^{tree}"]), below.1.to_string());
}

#[test]
fn files_with_paths_of_many_kilobytes_are_shown_as_far_as_they_fit() {
    let (forge, file) = (Forge::new(), file());
    let repository = Repository::with(&[("a", b"one\n")]);
    forge.git(&repository, PUBLIC, "mia", &["push", "-q", "URL", "main"]).unwrap();
    let names: Vec<String> = (0..1_000).map(|number| format!("100644 {number:04}")).collect();
    let files: Vec<(&str, ObjectId)> = names.iter().map(|name| (name.as_str(), file.id)).collect();
    let mut objects = nested(&files, &"d".repeat(4_000), 50);
    let commit = new_commit(objects.last().unwrap().id);
    let head = commit.id;
    objects.extend([commit, file]);
    assert!(push_pack(&forge, head, &pack_of(objects.iter())).contains("ok refs/heads/new"));
    forge.merge_request(1, json!({"source_branch": "new"}));
    for path in ["changes", "diffs?per_page=100"] {
        let answer = forge.get(&format!("{LIST}/1/{path}"), "").expect(200);
        assert!(answer.body.len() < 20 << 20, "{path}: {}", answer.body.len());
    }
    let whole = forge.get(&format!("{LIST}/1/changes"), "").json();
    let shown = whole["changes"].as_array().unwrap().len();
    assert!(whole["overflow"] == true && shown > 20, "{shown}");
    let page = forge.get(&format!("{LIST}/1/diffs"), "");
    assert!(!page.headers.contains_key("x-total"), "how many there are is not known");
}
