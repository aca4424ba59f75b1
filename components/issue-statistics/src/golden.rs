//! The golden index of format 1: every stored blob and the manifest, by key. Every build reads it, and
//! writes the same bytes for the same issues. `GOLDEN=write` replaces the golden file; use it only for a
//! format that has not been released.

use crate::facet::Facet;
use crate::manifest::SegmentInfo;
use crate::segment::builder::SegmentBuilder;
use crate::segment::{FIELDS, substring_search};
use crate::serde_base64;
use crate::store::IndexStore;
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

fn build() -> BTreeMap<String, Value> {
    let memory = MemoryStore::default();
    let env = env(memory.clone(), &[]);
    for lines in [&ISSUES[..3], &ISSUES[3..]] {
        let mut batch = SegmentBuilder::default();
        lines.iter().for_each(|line| batch.add(&issue::parse(line.as_bytes()).unwrap(), line.len()));
        index_writer::commit(&IndexStore::new(&env), batch).unwrap();
    }
    let value = |key: &String| Value(memory.get(key).unwrap().unwrap());
    // The host decides how it stores a counter.
    memory.keys().iter().filter(|key| !key.ends_with("/init")).map(|key| (key.clone(), value(key))).collect()
}

fn golden() -> BTreeMap<String, Value> {
    serde_json::from_str(&std::fs::read_to_string(path()).unwrap()).unwrap()
}

#[test]
fn the_same_issues_make_the_same_bytes() {
    if std::env::var_os("GOLDEN").is_some() {
        std::fs::create_dir_all(path().parent().unwrap()).unwrap();
        std::fs::write(path(), serde_json::to_string_pretty(&build()).unwrap() + "\n").unwrap();
    }
    assert_eq!(build(), golden());
}

#[test]
fn the_golden_index_is_read() {
    let memory = MemoryStore::default();
    golden().iter().for_each(|(key, value)| memory.set(key, &value.0).unwrap());
    let store = IndexStore::new(&env(memory, &[]));
    let manifest = store.manifest().unwrap();
    let live: Vec<u32> = manifest.segments.iter().map(SegmentInfo::live_documents).collect();
    assert_eq!(live, [2, 1]);
    let segment = store.segment(&manifest.segments[0].id).unwrap();
    let with_facet = |facet: Facet| {
        let documents = visibility::documents_with_facet(&store, &segment, &facet.key()).unwrap();
        documents.iter().collect::<Vec<u32>>()
    };
    assert_eq!(with_facet(Facet::Project(7)), [0, 1]);
    assert_eq!(with_facet(Facet::Hidden), [2]);
    let containing = |text: &str| {
        let documents = substring_search::documents(&segment, text, &FIELDS).unwrap();
        documents.iter().collect::<Vec<u32>>()
    };
    assert_eq!((containing("login"), containing("the  upgrade\nal"), containing("as")), (vec![0, 2], vec![0], vec![1]));
}
