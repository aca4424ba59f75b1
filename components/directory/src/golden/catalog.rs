//! Blobs and roots of the catalog of format 1, as they were first written. Every build must read them, and write the
//! same bytes for the same rows.

use crate::access::Role;
use crate::catalog::manifest::{Intent, Manifest, Root};
use crate::catalog::table::{ACTIVE, BOT, DetailsJson, EXTERNAL, MemberRow, NamespaceRow, ProjectRow, Row};
use crate::catalog::{self, Catalog};
use crate::member::Source;
use crate::namespace::{Details, Visibility};
use crate::project::FeatureAccess;
use crate::store::Key;
use kit::store::Store;
use kit::testing::{MemoryStore, env};
use kit::{Env, Timestamp};
use serde::{Serialize, de::DeserializeOwned};
use std::path::PathBuf;

/// The ids of the blobs in `root.json` and `manifest.json`.
const BLOBS: [(&str, &str); 5] = [
    ("manifest.json", "01a0c4e1a80000000000000000000001"),
    ("namespaces.bin", "01a0c4e1a80000000000000000000002"),
    ("projects.bin", "01a0c4e1a80000000000000000000003"),
    ("members.bin", "01a0c4e1a80000000000000000000004"),
    ("changes.json", "01a0c4e1a80000000000000000000005"),
];

const END: Timestamp = Timestamp::from_millis(1_800_000_000_000);

fn golden(name: &str) -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden/catalog/v1");
    let mut bytes = std::fs::read(folder.join(name)).unwrap();
    if name.ends_with(".json") && bytes.last() == Some(&b'\n') {
        bytes.pop();
    }
    bytes
}

fn forge() -> Env {
    let store = MemoryStore::default();
    for (name, id) in BLOBS {
        store.set(&format!("directory/v1/catalog/blob/{id}"), &golden(name)).unwrap();
    }
    store.set("directory/v1/catalog", &golden("root.json")).unwrap();
    store.set("directory/v1/catalog/changes", &golden("intents.json")).unwrap();
    env(store, &[])
}

fn shares(json: &str) -> Vec<crate::store::ShareRecord> {
    serde_json::from_str(json).unwrap()
}

fn namespaces() -> Vec<NamespaceRow> {
    let group = NamespaceRow {
        id: 10,
        parent_id: 0,
        owner_id: 0,
        owner_flags: 0,
        owner_incarnation: String::new(),
        visibility: 1,
        path: "Acme".into(),
        name: "Acme & Söhne".into(),
        shares: shares(r#"[{"group_id":11,"role":30,"expires_at":1800000000000},{"group_id":12,"role":50}]"#),
        details: DetailsJson(r#"{"plan":"gold"}"#.into()),
    };
    let plain = NamespaceRow { shares: vec![], details: DetailsJson::default(), ..group.clone() };
    let below =
        NamespaceRow { id: 11, parent_id: 10, visibility: 0, path: "core".into(), name: "Core".into(), ..plain };
    let own = NamespaceRow {
        id: 4_000_000_002,
        parent_id: 0,
        owner_id: 2,
        owner_flags: ACTIVE | BOT | EXTERNAL,
        visibility: 2,
        path: "alice".into(),
        name: "Alice".into(),
        ..below.clone()
    };
    vec![group, below, own]
}

fn projects() -> Vec<ProjectRow> {
    let site = ProjectRow {
        id: 100,
        namespace_id: 11,
        visibility: 2,
        issues: 1,
        archived: 1,
        path: "site".into(),
        name: "Site".into(),
        shares: shares(r#"[{"group_id":12,"role":15}]"#),
        pages_domain: "site-1a2b".into(),
        issues_incarnation: String::new(),
    };
    let notes = ProjectRow {
        id: 101,
        namespace_id: 4_000_000_002,
        visibility: 0,
        issues: 3,
        archived: 0,
        path: "notes".into(),
        name: "Notes".into(),
        shares: vec![],
        pages_domain: String::new(),
        issues_incarnation: String::new(),
    };
    vec![site, notes]
}

fn members() -> Vec<MemberRow> {
    // Group 10, and project 100.
    vec![
        MemberRow { source: 20, user_id: 2, role: 30, expires_at: i64::MAX },
        MemberRow { source: 20, user_id: 3, role: 10, expires_at: END.millis() },
        MemberRow { source: 201, user_id: 2, role: 50, expires_at: i64::MAX },
    ]
}

#[test]
fn rows_are_written_as_they_were() {
    assert_eq!(NamespaceRow::encode(&namespaces()), golden("namespaces.bin"));
    assert_eq!(ProjectRow::encode(&projects()), golden("projects.bin"));
    assert_eq!(MemberRow::encode(&members()), golden("members.bin"));
}

#[test]
fn rows_are_read() {
    assert!(NamespaceRow::decode(&golden("namespaces.bin")) == Some(namespaces()));
    assert!(ProjectRow::decode(&golden("projects.bin")) == Some(projects()));
    assert!(MemberRow::decode(&golden("members.bin")) == Some(members()));
}

/// Rows of banned users with a later incarnation have one more column.
#[test]
fn incarnations_of_owners_are_read_as_written() {
    let mut rows = namespaces();
    for row in &mut rows {
        row.owner_incarnation = if row.owner_id == 0 { String::new() } else { format!("0{}", row.owner_id) };
    }
    assert!(NamespaceRow::decode(&NamespaceRow::encode(&rows)) == Some(rows));
}

#[test]
fn roots_and_lists_are_written_as_they_were() {
    fn check<R: Serialize + DeserializeOwned>(name: &str) {
        let record: R = serde_json::from_slice(&golden(name)).unwrap();
        assert_eq!(serde_json::to_vec(&record).unwrap(), golden(name), "{name}");
    }
    check::<Option<Root>>("root.json");
    check::<Manifest>("manifest.json");
    check::<Option<Vec<Intent>>>("intents.json");
    check::<catalog::changes::Changes>("changes.json");
}

#[test]
fn the_catalog_is_read() {
    let env = forge();
    let catalog = catalog::read(&env).unwrap();
    assert_eq!(catalog.revision(), BLOBS[0].1);
    let group = catalog.namespace(10).unwrap();
    assert_eq!((group.path(), group.name(), group.visibility()), ("Acme", "Acme & Söhne", Visibility::Internal));
    assert_eq!(group.details(), Details { plan: Some("gold".into()), ..Details::default() });
    let shared: Vec<_> = group.shares().iter().map(|share| (share.group_id, share.role, share.expires_at)).collect();
    assert_eq!(shared, [(11, Role::Developer, Some(END)), (12, Role::Owner, None)]);
    let core = catalog.namespace(11).unwrap();
    assert_eq!((core.full_path(), core.visibility(), core.is_group()), ("Acme/core".into(), Visibility::Private, true));
    let alice = catalog.namespace_of_user(2).unwrap();
    assert_eq!((alice.id(), alice.has_active_owner(), alice.has_active_human_owner()), (4_000_000_002, true, false));
    let site = catalog.project(100).unwrap();
    assert_eq!(
        (site.full_path(), site.archived(), site.issues()),
        ("Acme/core/site".into(), true, FeatureAccess::Private)
    );
    assert_eq!(site.shares().iter().map(|share| share.role).collect::<Vec<_>>(), [Role::Planner]);
    let domains: Vec<_> = catalog.pages_domains().map(|(project, domain)| (project.id(), domain)).collect();
    assert_eq!(domains, [(100, "site-1a2b")]);
    assert_eq!(catalog.project(101).unwrap().issues(), FeatureAccess::Public);
    assert_eq!(of(&env, &catalog, Source::Group(10)), [(2, Role::Developer, None), (3, Role::Guest, Some(END))]);
    assert_eq!(of(&env, &catalog, Source::Project(100)), [(2, Role::Owner, None)]);
}

fn of(env: &Env, catalog: &Catalog, source: Source) -> Vec<(u64, Role, Option<Timestamp>)> {
    let mut members = Vec::new();
    let add = |member: catalog::member::Member| members.push((member.user_id, member.role, member.expires_at));
    catalog.members(env, &[source], add).unwrap();
    members
}

#[test]
fn a_logged_intent_is_committed_with_the_next_change() {
    let env = forge();
    // No record that `changes.json` names exists, so their rows are removed.
    let mut changes = catalog::changes::Changes::default();
    changes.group(12);
    catalog::intent_log::IntentLog::begin(&env, changes).unwrap().commit(&env).unwrap();
    let catalog = catalog::read(&env).unwrap();
    assert!(catalog.namespace(11).is_none() && catalog.project(100).is_none(), "both are in the intent");
    assert!(catalog.namespace(10).is_some(), "it is not in the intent");
    assert_eq!(of(&env, &catalog, Source::Group(10)), [(2, Role::Developer, None)], "user 3 is in the intent");
    let left = env.store.get(&Key::CatalogChanges.to_string()).unwrap().unwrap();
    assert_eq!(left, golden("intents.json"), "its writer may still be running");
}
