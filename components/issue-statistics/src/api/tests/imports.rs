//! Imports: upserts, deletes, invalid lines, many segments.

use super::*;
use crate::manifest::Manifest;
use crate::store::RETENTION_MILLIS;
use bytes::Bytes;
use directory::dependents;
use kit::Timestamp;
use kit::body::BodyError;
use kit::store::Store as _;
use std::rc::Rc;

fn total(env: &Env) -> u64 {
    in_project(env, "root", "")
}

#[test]
fn an_import_can_be_repeated_and_later_lines_win() {
    let env = forge();
    let lines = [
        issue(1, json!({"title": "one", "labels": ["a"]})),
        issue(2, json!({"title": "two"})),
        issue(1, json!({"title": "eins", "state": "closed"})),
    ];
    for _ in 0..3 {
        import(&env, &lines);
        assert_eq!(counts(&env, "root", "projects/100/issues_statistics"), [2, 1, 1]);
        assert_eq!(all(&env, "root", "projects/100/issues_statistics?search=one"), 0);
        assert_eq!(all(&env, "root", "projects/100/issues_statistics?labels=Any"), 0);
    }
    import(&env, &[json!({"kind": "issue", "id": 2, "deleted": true}), json!({"id": 77, "deleted": true})]);
    assert_eq!(total(&env), 1);
    import(&env, &[issue(1, json!({"project_id": 101})), json!({"id": 5, "deleted": true}), issue(5, json!({}))]);
    assert_eq!((total(&env), all(&env, "root", "projects/101/issues_statistics")), (1, 1));
}

#[test]
fn invalid_lines_are_reported_and_the_others_applied() {
    let env = forge();
    let lines = format!("{}\n\nnonsense\n{{\"id\":3}}\r\n{}", issue(1, json!({})), issue(2, json!({})));
    let answer = send_body(&env, Method::POST, "/api/v4/import/issues", "root", lines.into());
    let expected = json!({"imported": {"issue": 2}, "failed": 2, "errors": [
        {"line": 3, "error": "the line is not a JSON object"},
        {"line": 4, "error": "project_id is missing"},
    ]});
    assert_eq!(answer.body, expected);
    assert_eq!(total(&env), 2);
}

#[test]
fn lines_may_span_chunks() {
    let env = forge();
    let long = "x".repeat(5 << 20);
    let text = format!("{}\n{{\"id\":9,\"title\":\"{long}\"}}\n{}", issue(1, json!({})), issue(2, json!({})));
    for size in [7, 100_000] {
        let chunks: Vec<_> = text.as_bytes().chunks(size).map(|chunk| Ok(Bytes::copy_from_slice(chunk))).collect();
        let answer = send_body(&env, Method::POST, "/api/v4/import/issues", "root", Body::pull(chunks.into_iter()));
        assert_eq!(answer.body["imported"]["issue"], 2);
        assert_eq!(answer.body["errors"], json!([{"line": 2, "error": "the line is longer than 4194304 bytes"}]));
        assert_eq!(total(&env), 2);
    }
}

#[test]
fn a_body_that_breaks_off_leaves_whole_batches() {
    let env = forge();
    let chunks = vec![Ok(Bytes::from(format!("{}\n", issue(1, json!({}))))), Err(BodyError::Peer("gone".into()))];
    let answer = send_body(&env, Method::POST, "/api/v4/import/issues", "root", Body::pull(chunks.into_iter()));
    assert_eq!(answer.status, 400);
    assert_eq!(total(&env), 0);
}

/// The manifest that is stored now.
fn manifest(store: &MemoryStore) -> Manifest {
    serde_json::from_slice(&store.get("issue-statistics/v1/index").unwrap().unwrap()).unwrap()
}

#[test]
fn replaced_segments_are_deleted_when_no_request_reads_them_any_more() {
    let store = MemoryStore::default();
    let env = forge_on(store.clone());
    for round in 0..50 {
        let title = format!("t{round}");
        let lines: Vec<Value> = (0..3).map(|n| issue(round % 7 * 3 + n + 1, json!({"title": title}))).collect();
        import(&env, &lines);
    }
    assert_eq!(total(&env), 21);
    let count = |ending: &str| store.keys().iter().filter(|key| key.contains(ending)).count();
    assert!(count("/head") > 40, "all segments are there");
    let now = Timestamp::from_millis(env.now.millis() + RETENTION_MILLIS);
    let later = Env { now, clock: Rc::new(now), ..env.clone() };
    import(&later, &[json!({"id": 1, "deleted": true})]);
    let manifest = manifest(&store);
    assert!(manifest.segments.len() < 10, "{manifest:?}");
    // The import itself replaced tombstones and may have merged segments.
    assert!(count("/head") < manifest.segments.len() + 8);
    assert!(count("/dead/") < manifest.segments.len() + 8);
    let named = |key: &&String| manifest.segments.iter().any(|info| key.contains(&info.id));
    assert_eq!(store.keys().iter().filter(|key| key.ends_with("/head")).filter(named).count(), manifest.segments.len());
}

#[test]
fn concurrent_writers_lose_nothing() {
    let store = MemoryStore::default();
    let env = forge_on(store.clone());
    let lossy = kit::testing::env(kit::testing::LostReplyStore::over(store), &[]);
    // The ids of the two writers must differ.
    lossy.entropy.fill(&mut [0; 4096]);
    for round in 0..20 {
        import(&env, &[issue(round * 2 + 1, json!({}))]);
        import(&lossy, &[issue(round * 2 + 2, json!({}))]);
    }
    assert_eq!((total(&env), total(&lossy)), (40, 40));
}

#[test]
fn an_index_can_become_empty() {
    let env = forge();
    import_many(&env, 1..30, |id| issue(id, json!({"title": "x"})));
    import_many(&env, 1..30, |id| json!({"id": id, "deleted": true}));
    assert_eq!(total(&env), 0);
    import(&env, &[issue(1, json!({}))]);
    assert_eq!(total(&env), 1);
}

#[test]
fn another_project_with_the_id_has_no_issues_of_a_deleted_one() {
    let env = forge();
    let paths =
        ["projects/100/issues_statistics", "groups/10/issues_statistics", "issues_statistics?scope=all&search=old"];
    let counted = || paths.map(|path| all(&env, "alice", path));
    let old = |id| issue(id, json!({"title": "old"}));
    import(&env, &[old(1), old(2), issue(3, json!({"project_id": 102}))]);
    assert_eq!(counted(), [2, 3, 2]);
    let replace = || {
        change(&env, |changes| changes.delete_project(100), || dependents::delete_project(&env, 100).unwrap());
        assert_eq!(all(&env, "alice", "groups/10/issues_statistics"), 1);
        save_project(&env, 100, "site", 10, Visibility::Public, FeatureAccess::Enabled);
    };
    replace();
    assert_eq!(counted(), [0, 1, 0]);
    import(&env, &[old(2), old(4)]);
    assert_eq!(counted(), [2, 3, 2], "those of the second one, of which one had the id of an issue of the first");
    save_project(&env, 100, "place", 10, Visibility::Public, FeatureAccess::Enabled);
    assert_eq!(counted(), [2, 3, 2]);
    // Many imports, so that segments are merged.
    (10..30).for_each(|id| drop(import(&env, &[old(id)])));
    assert_eq!(counted(), [22, 23, 22]);
    replace();
    assert_eq!(counted(), [0, 1, 0]);
}
