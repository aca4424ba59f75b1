//! Records that an earlier build stored, committed under `golden/`, are read by this build.

use super::{Forge, PUBLIC, block, comment};
use kit::store::Store as _;
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/golden/v1");

/// A forge whose repository and comments are the files under `golden/v1`: each file's path there,
/// without its last segment, is its key.
fn forge() -> Forge {
    let forge = Forge::new();
    let mut folders = vec![Path::new(FOLDER).to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let key = path.strip_prefix(FOLDER).unwrap().to_str().unwrap().strip_suffix("/record").unwrap();
            forge.store.set(&format!("suggestions/v1/{key}"), &fs::read(&path).unwrap()).unwrap();
        }
    }
    // Counters are stored in a host's own form, so they are not among the files. The earlier build also
    // used up ids.
    let env = forge.env();
    env.store.increment("suggestions/v1/counter/suggestion", 100).unwrap();
    env.store.increment("suggestions/v1/counter/note", 100).unwrap();
    (0..1000).for_each(|_| drop(env.id()));
    forge
}

/// The stored forge: a repository with `a.txt` and `dir/b` on `main` and `topic`; merge request 1; a
/// comment on `a.txt` with two suggestions, the first of which was applied; a comment without a position.
#[test]
fn records_of_format_1_are_read() {
    let forge = forge();
    let list = forge.get(&format!("projects/{PUBLIC}/merge_requests/1/discussions"), "").json();
    assert_eq!(list[0]["notes"][0]["author"]["username"], "rep");
    assert_eq!(list[0]["notes"][0]["position"]["new_path"], "a.txt");
    assert_eq!(
        list[0]["notes"][0]["suggestions"],
        json!([
            {"id": 1, "from_line": 2, "to_line": 2, "applicable": false, "appliable": false, "applied": true,
                "from_content": "two\n", "to_content": "zwei\n"},
            {"id": 2, "from_line": 1, "to_line": 3, "applicable": false, "appliable": false, "applied": false,
                "from_content": "one\ntwo\nthree\n", "to_content": ""},
        ])
    );
    assert_eq!(list[1]["notes"][0]["body"], "Thanks");
    let clone = forge.clone(PUBLIC);
    assert_eq!(clone.text(&["show", "topic:a.txt"]), "one\nzwei\nthree");
    assert_eq!(clone.text(&["rev-parse", "topic^"]), clone.text(&["rev-parse", "main"]));
    let id = forge.suggest(1, "dir/b", 1, &block("", "bee"))[0];
    assert_eq!((id, forge.apply(id, "dev", Value::Null).status), (101, 200));
    let more = comment(&forge.head(PUBLIC, "topic"), "a.txt", 1, "more");
    assert_eq!(forge.comment(1, "rep", more).status, 201);
    let list = forge.get(&format!("projects/{PUBLIC}/merge_requests/1/discussions"), "");
    assert_eq!(list.headers["x-total"], "4");
}

/// Writes the files. Only for a new format, whose files are added beside the old ones.
#[test]
#[ignore = "it writes into the sources"]
fn write() {
    let forge = Forge::new();
    let files: [(&str, &[u8]); 2] = [("a.txt", b"one\ntwo\nthree\n"), ("dir/b", b"b\n")];
    forge.import(PUBLIC, &super::Repository::with(&files));
    forge.merge_request(1, Value::Null);
    let ids = forge.suggest(1, "a.txt", 2, &(block("", "zwei") + &block(":-1+1", "")));
    assert_eq!(forge.comment(1, "gus", json!({"body": "Thanks"})).status, 201);
    assert_eq!(forge.apply(ids[0], "dev", Value::Null).status, 200);
    for key in forge.store.keys() {
        let Some(key) = key.strip_prefix("suggestions/v1/").filter(|key| !key.contains("counter")) else { continue };
        if key.ends_with("/init") {
            continue;
        }
        let folder = Path::new(FOLDER).join(key);
        fs::create_dir_all(&folder).unwrap();
        let value = forge.store.get(&format!("suggestions/v1/{key}")).unwrap().unwrap();
        fs::write(folder.join("record"), value).unwrap();
    }
}
