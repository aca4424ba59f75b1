//! An index of format 1, as it was first written: every blob and the root, by key. Every build reads
//! it, and makes the same bytes of the same issues. `GOLDEN=write` writes it anew, for a format that
//! nobody has stored yet.

use crate::segment::builder::Batch;
use crate::serde_base64;
use crate::store::Store;
use crate::{index_writer, issue, visibility};
use kit::store::Store as _;
use kit::testing::{MemoryStore, env};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

const ISSUES: [&str; 4] = [
    r#"{"id":1,"iid":1,"project_id":7,"title":"Login fails","description":"after the  upgrade\nalways","state":"opened",
        "created_at":"2026-01-01T00:00:00Z","labels":["bug"],"author":{"id":2},"assignees":[{"id":3}],"weight":2,
        "milestone":{"title":"1.0","state":"active","due_date":"2026-12-01","group_id":4}}"#,
    r#"{"id":2,"iid":2,"project_id":7,"title":"Crash","description":null,"state":"closed","confidential":true,
        "created_at":"2026-01-02T00:00:00Z","author":{"id":3},"epic":{"id":9},"health_status":"at_risk",
        "reactions":[{"name":"tada","user":{"id":2}}]}"#,
    r#"{"id":3,"iid":1,"project_id":8,"title":"Login","state":"opened","author":{"id":2},"hidden":true,
        "iteration":{"id":5,"title":"it","start_date":"2026-01-01","due_date":"2026-01-14"}}"#,
    r#"{"id":1,"iid":1,"project_id":7,"title":"Login works","state":"closed","author":{"id":2}}"#,
];

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
struct Value(#[serde(with = "serde_base64")] Vec<u8>);

fn path() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden/v1/index.json")
}

fn written() -> BTreeMap<String, Value> {
    let memory = MemoryStore::default();
    let env = env(memory.clone(), &[]);
    for lines in [&ISSUES[..3], &ISSUES[3..]] {
        let mut batch = Batch::default();
        lines.iter().for_each(|line| batch.add(&issue::parse(line.as_bytes()).unwrap(), line.len()));
        index_writer::commit(&Store::new(&env), batch).unwrap();
    }
    let value = |key: &String| Value(memory.get(key).unwrap().unwrap());
    // How a counter is stored is the host's own affair.
    memory.keys().iter().filter(|key| !key.ends_with("/init")).map(|key| (key.clone(), value(key))).collect()
}

fn golden() -> BTreeMap<String, Value> {
    serde_json::from_str(&std::fs::read_to_string(path()).unwrap()).unwrap()
}

#[test]
fn the_same_issues_make_the_same_bytes() {
    if std::env::var_os("GOLDEN").is_some() {
        std::fs::create_dir_all(path().parent().unwrap()).unwrap();
        std::fs::write(path(), serde_json::to_string_pretty(&written()).unwrap() + "\n").unwrap();
    }
    assert_eq!(written(), golden());
}

#[test]
fn what_was_first_written_is_read() {
    let memory = MemoryStore::default();
    golden().iter().for_each(|(key, value)| memory.set(key, &value.0).unwrap());
    let store = Store::new(&env(memory, &[]));
    let index = store.index().unwrap();
    let living: Vec<u32> = index.segments.iter().map(crate::manifest::Entry::living).collect();
    assert_eq!(living, [2, 1]);
    let segment = store.segment(&index.segments[0].id).unwrap();
    let documents = |term: crate::facet::Term| {
        visibility::term(&store, &segment, &term.key()).unwrap().iter().collect::<Vec<u32>>()
    };
    assert_eq!(documents(crate::facet::Term::Project(7)), [0, 1]);
    assert_eq!(documents(crate::facet::Term::Hidden), [2]);
    let found = |text: &str| {
        let found = crate::segment::substring_search::documents(&segment, text, &crate::segment::FIELDS).unwrap();
        found.iter().collect::<Vec<u32>>()
    };
    assert_eq!((found("login"), found("the  upgrade\nal"), found("as")), (vec![0, 2], vec![0], vec![1]));
}
