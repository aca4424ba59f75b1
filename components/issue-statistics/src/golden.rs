//! The golden indexes: every stored blob and the manifest, by key. Every build must read all of them and, for the same
//! issues, write the bytes of the newest. `GOLDEN=write` replaces the newest. Use it only for bytes that no released
//! build writes.

use crate::facet::Facet;
use crate::manifest::SegmentInfo;
use crate::query_cost::QueryCost;
use crate::segment::builder::SegmentBuilder;
use crate::segment::{FIELDS, consistency, phrase_search};
use crate::store::IndexStore;
use crate::text::Analyzer;
use crate::{index_writer, issue, serde_base64, visibility};
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

/// Format 1, format 2 without checksums, format 2 with checksums.
const GOLDEN: [&str; 3] = ["v1/index.json", "v2/index.json", "v2/checksums.json"];

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden").join(name)
}

fn build() -> BTreeMap<String, Value> {
    let memory = MemoryStore::default();
    let env = env(memory.clone(), &[]);
    for lines in [&ISSUES[..3], &ISSUES[3..]] {
        let mut batch = SegmentBuilder::default();
        lines.iter().for_each(|line| batch.add(&issue::parse(line.as_bytes()).unwrap()));
        index_writer::commit(&IndexStore::new(&env), batch).unwrap();
    }
    let value = |key: &String| Value(memory.get(key).unwrap().unwrap());
    // The host decides how it stores a counter.
    memory.keys().iter().filter(|key| !key.ends_with("/init")).map(|key| (key.clone(), value(key))).collect()
}

fn golden(name: &str) -> BTreeMap<String, Value> {
    serde_json::from_str(&std::fs::read_to_string(path(name)).unwrap()).unwrap()
}

#[test]
fn the_same_issues_make_the_same_bytes() {
    if std::env::var_os("GOLDEN").is_some() {
        std::fs::write(path(GOLDEN[2]), serde_json::to_string_pretty(&build()).unwrap() + "\n").unwrap();
    }
    assert_eq!(build(), golden(GOLDEN[2]));
}

/// The store of a golden index.
fn stored(name: &str) -> MemoryStore {
    let memory = MemoryStore::default();
    golden(name).iter().for_each(|(key, value)| memory.set(key, &value.0).unwrap());
    memory
}

#[test]
fn golden_indexes_are_read() {
    for name in GOLDEN {
        let store = IndexStore::new(&env(stored(name), &[]));
        let manifest = store.manifest().unwrap();
        let live: Vec<u32> = manifest.segments.iter().map(SegmentInfo::live_documents).collect();
        assert_eq!(live, [2, 1]);
        let segment = store.segment(&manifest.segments[0]).unwrap();
        let with_facet = |facet: Facet| {
            let documents = visibility::documents_with_facet(&store, &segment, &facet.key()).unwrap();
            documents.iter().collect::<Vec<u32>>()
        };
        assert_eq!(with_facet(Facet::Project(7)), [0, 1]);
        assert_eq!(with_facet(Facet::Hidden), [2]);
        let containing = |text: &str| {
            let documents =
                phrase_search::substring_documents(&segment, text, &FIELDS, &QueryCost::unlimited()).unwrap();
            documents.iter().collect::<Vec<u32>>()
        };
        let found = (containing("login"), containing("the  upgrade\nal"), containing("as"));
        assert_eq!(found, (vec![0, 2], vec![0], vec![1]), "{name}");
    }
}

#[test]
fn tables_of_golden_segments_agree() {
    for name in GOLDEN {
        let store = IndexStore::new(&env(stored(name), &[]));
        for info in &store.manifest().unwrap().segments {
            let segment = store.segment(info).unwrap();
            assert_eq!((consistency::check(&segment), segment.header.has_checksums()), (Ok(()), name == GOLDEN[2]));
        }
    }
}

#[test]
fn segments_of_both_formats_are_beside_one_another() {
    let memory = stored(GOLDEN[0]);
    let env = env(memory.clone(), &[]);
    env.entropy.fill(&mut [0; 1000]);
    for number in 0..6_u64 {
        let mut batch = SegmentBuilder::default();
        let line = format!(r#"{{"id":{},"project_id":7,"title":"Login 日本語"}}"#, 10 + number % 5);
        batch.add(&issue::parse(line.as_bytes()).unwrap());
        let store = IndexStore::new(&env);
        index_writer::commit(&store, batch).unwrap();
        index_writer::compact(&store).unwrap();
    }
    let store = IndexStore::new(&env);
    let manifest = store.manifest().unwrap();
    let analyzers: Vec<Analyzer> = manifest.segments.iter().map(|info| info.analyzer).collect();
    assert!(analyzers.starts_with(&[Analyzer::Words, Analyzer::Words]), "{manifest:?}");
    assert!(analyzers.len() < 6 && analyzers[2..].iter().all(|analyzer| *analyzer == Analyzer::Runs));
    let containing = |text: &str| -> u64 {
        let of_segment = |info: &SegmentInfo| {
            let segment = store.segment(info).unwrap();
            let mut found =
                phrase_search::substring_documents(&segment, text, &FIELDS, &QueryCost::unlimited()).unwrap();
            if let Some(tombstones) = &info.tombstones {
                found -= &*store.tombstones(tombstones).unwrap();
            }
            found.len()
        };
        manifest.segments.iter().map(of_segment).sum()
    };
    assert_eq!((containing("login"), containing("本語"), containing("ogin 日")), (7, 5, 5));
    assert!(memory.keys().iter().any(|key| key.starts_with("issue-statistics/v2/")), "marked for hosts");
}
