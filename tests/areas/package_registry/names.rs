//! Names with owners: the routes by which one project could take over the name of another, and the rights to change
//! who may publish a name.

use super::{publish, registry};
use crate::areas::{Answer, Forge};
use hexad_tests::forge::{ADMIN, DEVELOPER, GUEST, INTERNAL, MAINTAINER, OUTSIDER, PRIVATE, PUBLIC, RECORDS};
use hexad_tests::package;
use hexad_tests::server::{BOOTSTRAP_TOKEN, Server};
use serde_json::{Value, json};
use std::path::Path;

/// A Developer of the internal project, and of `far/web`.
const EVE: &str = "glpat-eve-0000000000000000001";
/// A Maintainer of the public project.
const BEN: &str = "glpat-ben-0000000000000000001";
/// An Owner of `acme`.
const ONA: &str = "glpat-ona-0000000000000000001";

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];

/// A project of another top-level group.
const FAR: u64 = 31;

const MORE: &str = r#"
{"kind":"user","id":20,"username":"eve","name":"Eve","state":"active"}
{"kind":"user","id":21,"username":"ben","name":"Ben","state":"active"}
{"kind":"user","id":22,"username":"ona","name":"Ona","state":"active"}
{"kind":"token","user_id":20,"token":"glpat-eve-0000000000000000001","scopes":["api"]}
{"kind":"token","user_id":21,"token":"glpat-ben-0000000000000000001","scopes":["api"]}
{"kind":"token","user_id":22,"token":"glpat-ona-0000000000000000001","scopes":["api"]}
{"kind":"group","id":30,"name":"Far","path":"far","full_path":"far","parent_id":null,"visibility":"public"}
{"kind":"project","id":31,"name":"Web","path":"web","path_with_namespace":"far/web","namespace_id":30,"visibility":"public"}
{"kind":"member","source_type":"project","source_id":8,"user_id":20,"access_level":30}
{"kind":"member","source_type":"project","source_id":31,"user_id":20,"access_level":30}
{"kind":"member","source_type":"project","source_id":7,"user_id":21,"access_level":40}
{"kind":"member","source_type":"group","source_id":10,"user_id":22,"access_level":50}
"#;

const NAMES: [&str; 3] = ["@acme/lib", "lib", "@elsewhere/lib"];

fn forge() -> Forge {
    forge_with(&[])
}

fn forge_with(variables: &[(&str, &str)]) -> Forge {
    let forge = Forge::seeded_with(variables);
    forge.import(MORE);
    forge
}

/// A server over a store that another server of the test has filled.
fn forge_over(data: &Path, variables: &[(&str, &str)]) -> Forge {
    let server = Server::start_with(data, variables);
    Forge { server, agent: hexad_tests::http::agent(), _data: tempfile::tempdir().expect("a temporary folder") }
}

fn tarball(name: &str, version: &str, project: u64) -> Vec<u8> {
    package::tarball(name, version, 500, project)
}

fn push(forge: &Forge, project: u64, token: &str, name: &str, version: &str) -> Answer {
    publish(forge, project, token, name, version, &tarball(name, version, project))
}

#[track_caller]
fn published(forge: &Forge, project: u64, token: &str, name: &str, version: &str) {
    let answer = push(forge, project, token, name, version);
    assert_eq!(answer.status, 200, "{name}@{version} to {project}: {}", answer.text());
}

/// The prefixes at which a name means more than one project.
fn levels(name: &str) -> Vec<&'static str> {
    let mut levels = vec!["/api/v4/groups/acme/-/packages/npm"];
    levels.extend(name.starts_with("@acme/").then_some("/api/v4/packages/npm"));
    levels
}

fn path(name: &str) -> String {
    name.replace('/', "%2f")
}

fn file(name: &str, version: &str) -> String {
    let base = name.rsplit('/').next().expect("a name");
    format!("{name}/-/{base}-{version}.tgz")
}

/// The versions and the tags that a caller gets of a name.
fn view(forge: &Forge, prefix: &str, name: &str, token: &str) -> (u16, Vec<String>, Value) {
    let answer = forge.get(&format!("{prefix}/{}", path(name)), token);
    if answer.status != 200 {
        return (answer.status, Vec::new(), Value::Null);
    }
    let document = answer.json();
    let versions = document["versions"].as_object().expect("versions").keys().cloned().collect();
    let tags = forge.get(&format!("{prefix}/-/package/{}/dist-tags", path(name)), token).json();
    assert_eq!(document["dist-tags"], tags, "{prefix} {name}: the tags of metadata and of their own address");
    (200, versions, tags)
}

/// Checks the view of a name at group and, where the name has the scope for it, at instance level.
#[track_caller]
fn is_seen(forge: &Forge, name: &str, token: &str, versions: &[&str], tags: Value) {
    for prefix in levels(name) {
        let found = view(forge, prefix, name, token);
        assert_eq!(found, (200, versions.iter().map(|text| (*text).to_owned()).collect(), tags.clone()), "{prefix}");
    }
}

/// Checks that a version is served with the bytes that a project has published.
#[track_caller]
fn is_served(forge: &Forge, name: &str, version: &str, token: &str, project: u64) {
    for prefix in levels(name) {
        let answer = forge.get(&format!("{prefix}/{}", file(name, version)), token);
        assert_eq!(answer.status, 200, "{prefix} {name}@{version}: {}", answer.text());
        assert!(answer.body == tarball(name, version, project), "{prefix} {name}@{version}: another file");
    }
}

fn owners(prefix: &str, name: &str) -> String {
    format!("{prefix}/-/package_name_owners/{}", path(name))
}

const GROUP: &str = "/api/v4/groups/acme/-/packages/npm";

fn change(forge: &Forge, method: &str, path: &str, token: &str, body: Value) -> Answer {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    forge.send_with(method, path, token, &JSON, body)
}

#[track_caller]
fn allow(forge: &Forge, name: &str, project: u64) {
    allow_by(forge, name, project, BEN);
}

#[track_caller]
fn allow_by(forge: &Forge, name: &str, project: u64, token: &str) {
    let path = format!("{}/projects", owners(GROUP, name));
    let answer = change(forge, "POST", &path, token, json!({"project_id": project}));
    assert_eq!(answer.status, 201, "{}", answer.text());
}

#[track_caller]
fn is_refused(answer: &Answer, status: u16, text: &str) {
    assert_eq!(answer.status, status, "{}", answer.text());
    let body = answer.json();
    assert_eq!(body["message"], body["error"], "clients print either");
    assert!(body["error"].as_str().expect("a text").contains(text), "{}", answer.text());
}

/// Publishes the name's 1.0.0 in the public project.
fn with_owner(forge: &Forge, name: &str) {
    published(forge, PUBLIC, BEN, name, "1.0.0");
}

#[test]
fn a_second_project_does_not_take_a_name_by_publishing_it() {
    let forge = forge();
    for name in NAMES {
        with_owner(&forge, name);
        for version in ["9.9.9", "1.0.0", "0.0.1"] {
            let refused = push(&forge, INTERNAL, EVE, name, version);
            is_refused(&refused, 403, "belongs to the project acme/open");
        }
        is_seen(&forge, name, OUTSIDER, &["1.0.0"], json!({"latest": "1.0.0"}));
        is_served(&forge, name, "1.0.0", "", PUBLIC);
        assert_eq!(forge.get(&format!("{}/{}", registry(INTERNAL), path(name)), EVE).status, 404, "nothing is stored");
        published(&forge, PUBLIC, BEN, name, "1.0.1");
        // Below another top-level namespace, the name is another one.
        published(&forge, FAR, EVE, name, "1.0.0");
    }
    let hidden = push(&forge, PRIVATE, DEVELOPER, "hidden", "1.0.0");
    assert_eq!(hidden.status, 200);
    let refused = push(&forge, INTERNAL, EVE, "hidden", "1.0.1");
    is_refused(&refused, 403, "belongs to another project");
    assert!(!refused.text().contains("secret"), "the refusal names a project that the caller cannot see");
}

#[test]
fn the_versions_of_allowed_projects_are_merged_and_nothing_of_the_owner_is_hidden() {
    let forge = forge();
    for name in NAMES {
        with_owner(&forge, name);
        allow(&forge, name, INTERNAL);
        published(&forge, INTERNAL, EVE, name, "9.9.9");
        is_seen(&forge, name, DEVELOPER, &["1.0.0", "9.9.9"], json!({"latest": "1.0.0"}));
        is_served(&forge, name, "1.0.0", DEVELOPER, PUBLIC);
        is_served(&forge, name, "9.9.9", DEVELOPER, INTERNAL);
        is_seen(&forge, name, "", &["1.0.0"], json!({"latest": "1.0.0"}));
        for prefix in levels(name) {
            let one = |version: &str, token: &str| {
                forge.get(&format!("{prefix}/{}/{version}", path(name)), token).json()["version"].clone()
            };
            assert_eq!([one("9.9.9", DEVELOPER), one("latest", DEVELOPER)], [json!("9.9.9"), json!("1.0.0")]);
            assert_eq!(forge.get(&format!("{prefix}/{}", file(name, "9.9.9")), "").status, 404, "it is internal");
        }
        let answer =
            change(&forge, "DELETE", &format!("{}/projects/{INTERNAL}", owners(GROUP, name)), BEN, json!(null));
        assert_eq!(answer.status, 204, "{}", answer.text());
        is_seen(&forge, name, DEVELOPER, &["1.0.0"], json!({"latest": "1.0.0"}));
        is_refused(&push(&forge, INTERNAL, EVE, name, "9.9.10"), 403, "belongs to");
        assert_eq!(view(&forge, &registry(INTERNAL), name, EVE).1, ["9.9.9"], "its own level keeps them");
    }
}

#[test]
fn tags_are_the_owner_s() {
    let forge = forge();
    for name in NAMES {
        with_owner(&forge, name);
        allow(&forge, name, INTERNAL);
        published(&forge, INTERNAL, EVE, name, "9.9.9");
        let tag = |prefix: &str, token: &str, tag: &str, version: &str| {
            let path = format!("{prefix}/-/package/{}/dist-tags/{tag}", path(name));
            change(&forge, "PUT", &path, token, json!(version))
        };
        for (wanted, version) in [("latest", "9.9.9"), ("beta", "9.9.9")] {
            assert_eq!(tag(&registry(INTERNAL), EVE, wanted, version).status, 204, "in its own project");
        }
        is_seen(&forge, name, DEVELOPER, &["1.0.0", "9.9.9"], json!({"latest": "1.0.0", "beta": "9.9.9"}));
        assert_eq!(tag(&registry(PUBLIC), BEN, "beta", "1.0.0").status, 204);
        is_seen(&forge, name, DEVELOPER, &["1.0.0", "9.9.9"], json!({"latest": "1.0.0", "beta": "1.0.0"}));
        for prefix in levels(name) {
            assert_eq!(tag(prefix, EVE, "stable", "1.0.0").status, 403, "the owner's version");
            for owned in ["latest", "beta"] {
                is_refused(&tag(prefix, EVE, owned, "9.9.9"), 403, "belongs to the owner");
            }
            assert_eq!(tag(prefix, EVE, "mine", "9.9.9").status, 204);
            assert_eq!(tag(prefix, BEN, "stable", "1.0.0").status, 204);
            assert_eq!(tag(prefix, EVE, "stable", "8.8.8").status, 404);
        }
        is_seen(
            &forge,
            name,
            DEVELOPER,
            &["1.0.0", "9.9.9"],
            json!({"latest": "1.0.0", "beta": "1.0.0", "mine": "9.9.9", "stable": "1.0.0"}),
        );
        // Without a version of the owner, no other project provides `latest`.
        let revision = forge.get(&format!("{}/{}", registry(PUBLIC), path(name)), BEN).json()["_rev"].clone();
        let revision = revision.as_str().expect("a revision");
        let all = format!("{}/{}/-rev/{revision}", registry(PUBLIC), path(name));
        assert_eq!(forge.send("DELETE", &all, BEN, "").status, 200);
        is_seen(&forge, name, DEVELOPER, &["9.9.9"], json!({"beta": "9.9.9", "mine": "9.9.9"}));
    }
}

#[test]
fn a_version_of_one_project_is_refused_in_another() {
    let forge = forge();
    for name in NAMES {
        with_owner(&forge, name);
        allow(&forge, name, INTERNAL);
        is_refused(&push(&forge, INTERNAL, EVE, name, "1.0.0"), 400, "Package already exists");
        published(&forge, INTERNAL, EVE, name, "2.0.0");
        is_refused(&push(&forge, PUBLIC, BEN, name, "2.0.0"), 400, "Package already exists");
        is_served(&forge, name, "2.0.0", DEVELOPER, INTERNAL);
        published(&forge, FAR, EVE, name, "2.0.0");
    }
}

#[test]
fn a_tag_on_a_version_that_does_not_exist_is_refused() {
    let forge = forge();
    with_owner(&forge, "lib");
    let document = |tags: Value| {
        let bytes = package::document("lib", "1.1.0", "latest", &tarball("lib", "1.1.0", PUBLIC));
        let mut document: Value = serde_json::from_slice(&bytes).expect("JSON");
        document["dist-tags"] = tags;
        change(&forge, "PUT", &format!("{}/lib", registry(PUBLIC)), BEN, document)
    };
    for tags in [
        json!({"latest": "9.9.9"}),
        json!({"next": "9.9.9", "latest": "1.1.0"}),
        json!({"latest": "9.9.9", "a": "1.1.0"}),
    ] {
        is_refused(&document(tags), 400, "which the package does not have");
    }
    assert_eq!(document(json!({"latest": "1.1.0", "old": "1.0.0"})).status, 200);
    is_seen(&forge, "lib", "", &["1.0.0", "1.1.0"], json!({"latest": "1.1.0", "old": "1.0.0"}));
}

#[test]
fn a_name_stays_with_its_owner_when_its_last_version_is_unpublished() {
    let forge = forge_with(&[("registry_forward_url", "https://registry.example")]);
    for name in NAMES {
        with_owner(&forge, name);
        let revision = forge.get(&format!("{}/{}", registry(PUBLIC), path(name)), BEN).json()["_rev"].clone();
        let revision = revision.as_str().expect("a revision");
        let all = format!("{}/{}/-rev/{revision}", registry(PUBLIC), path(name));
        assert_eq!(forge.send("DELETE", &all, BEN, "").status, 200);
        is_refused(&push(&forge, INTERNAL, EVE, name, "1.0.1"), 403, "belongs to");
        for prefix in levels(name).into_iter().map(str::to_owned).chain([PUBLIC, INTERNAL, PRIVATE].map(registry)) {
            for token in ["", OUTSIDER, DEVELOPER] {
                let status = forge.get(&format!("{prefix}/{}", path(name)), token).status;
                assert!([401, 404].contains(&status), "{prefix} {name}: {status}, it must not be forwarded");
            }
        }
        let elsewhere = forge.get(&format!("{}/{}", registry(FAR), path(name)), EVE).status;
        let is_local_scope = name.starts_with("@acme/");
        assert_eq!(elsewhere, if is_local_scope { 404 } else { 302 }, "another namespace does not hold it");
        published(&forge, PUBLIC, BEN, name, "1.0.1");
        is_seen(&forge, name, "", &["1.0.1"], json!({"latest": "1.0.1"}));
    }
}

#[test]
fn a_name_of_a_deleted_project_waits_for_an_owner_of_the_group() {
    let forge = forge();
    for name in NAMES {
        with_owner(&forge, name);
    }
    forge.import(format!(r#"{{"kind":"project","id":{PUBLIC},"deleted":true}}"#));
    for name in NAMES {
        is_refused(&push(&forge, INTERNAL, EVE, name, "1.0.1"), 403, "is kept for the owners of acme");
    }
    let again = RECORDS.lines().find(|line| line.contains(r#""kind":"project","id":7"#)).expect("a record");
    forge.import(again);
    for name in NAMES {
        let next = push(&forge, PUBLIC, MAINTAINER, name, "1.0.1");
        is_refused(&next, 403, "is kept for the owners of acme");
    }
    let name = NAMES[0];
    let of_name = owners(GROUP, name);
    assert_eq!(forge.get(&of_name, ONA).json()["state"], "kept");
    for token in [DEVELOPER, MAINTAINER, EVE] {
        assert_eq!(change(&forge, "PUT", &of_name, token, json!({"project_id": INTERNAL})).status, 403);
        assert_eq!(change(&forge, "DELETE", &of_name, token, json!(null)).status, 403);
    }
    let transferred = change(&forge, "PUT", &of_name, ONA, json!({"project_id": INTERNAL}));
    assert_eq!((transferred.status, &transferred.json()["owner"]["id"]), (200, &json!(INTERNAL)));
    published(&forge, INTERNAL, EVE, name, "1.0.1");
    let released = change(&forge, "DELETE", &owners(GROUP, NAMES[1]), ONA, json!(null));
    assert_eq!(released.status, 204, "{}", released.text());
    published(&forge, PRIVATE, DEVELOPER, NAMES[1], "1.0.1");
    is_refused(&push(&forge, INTERNAL, EVE, NAMES[1], "1.0.2"), 403, "belongs to another project");
    let events = forge.get(&of_name, ONA).json()["events"].clone();
    let actions: Vec<_> = events.as_array().expect("events").iter().map(|event| event["action"].clone()).collect();
    assert_eq!(actions, ["claimed", "transferred"]);
}

#[test]
fn a_project_that_moves_leaves_its_names_and_brings_none() {
    let forge = forge();
    let moved = |project: u64, name: &str, path: &str, group: u64| {
        forge.import(
            json!({"kind": "project", "id": project, "name": name, "path": path, "namespace_id": group, "visibility": "public"})
                .to_string(),
        );
    };
    for name in NAMES {
        with_owner(&forge, name);
        published(&forge, FAR, EVE, name, "9.9.9");
    }
    moved(FAR, "Web", "web", 10);
    for name in NAMES {
        is_seen(&forge, name, DEVELOPER, &["1.0.0"], json!({"latest": "1.0.0"}));
        is_refused(&push(&forge, FAR, EVE, name, "9.9.10"), 403, "belongs to the project acme/open");
        published(&forge, PUBLIC, BEN, name, "9.9.9");
        is_served(&forge, name, "9.9.9", "", PUBLIC);
    }
    moved(PUBLIC, "Open", "open", 30);
    for name in NAMES {
        is_refused(&push(&forge, FAR, EVE, name, "9.9.10"), 403, "is kept for the owners of acme");
        for prefix in levels(name) {
            assert_eq!(forge.get(&format!("{prefix}/{}", path(name)), DEVELOPER).status, 404);
        }
    }
}

#[test]
fn a_private_project_hides_no_name_of_a_public_one() {
    let forge = forge();
    let name = "@acme/lib";
    with_owner(&forge, name);
    allow_by(&forge, name, PRIVATE, MAINTAINER);
    published(&forge, PRIVATE, DEVELOPER, name, "99.0.0");
    is_seen(&forge, name, "", &["1.0.0"], json!({"latest": "1.0.0"}));
    is_seen(&forge, name, OUTSIDER, &["1.0.0"], json!({"latest": "1.0.0"}));
    is_seen(&forge, name, DEVELOPER, &["1.0.0", "99.0.0"], json!({"latest": "1.0.0"}));
    // A caller who may read no project of a name is answered as the reference service's merging flag answers.
    published(&forge, PRIVATE, DEVELOPER, "@acme/secret", "1.0.0");
    for prefix in levels(name) {
        let statuses = ["", OUTSIDER, GUEST, DEVELOPER].map(|token| view(&forge, prefix, "@acme/secret", token).0);
        assert_eq!(statuses, [401, 403, 403, 200], "{prefix}");
    }
    assert_eq!(push(&forge, PUBLIC, BEN, "@acme/secret", "1.0.1").status, 403);
}

#[test]
fn of_projects_that_claim_a_name_at_once_one_gets_it() {
    let forge = forge();
    for round in 0..8 {
        let name = format!("race-{round}");
        let claims = [(PUBLIC, BEN, "1.0.0"), (INTERNAL, EVE, "2.0.0"), (PRIVATE, DEVELOPER, "3.0.0")];
        let statuses: Vec<u16> = std::thread::scope(|scope| {
            let publish = |(project, token, version)| {
                let (forge, name) = (&forge, &name);
                scope.spawn(move || push(forge, project, token, name, version).status)
            };
            let running: Vec<_> = claims.into_iter().map(publish).collect();
            running.into_iter().map(|thread| thread.join().expect("an answer")).collect()
        });
        assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{statuses:?}");
        assert_eq!(statuses.iter().filter(|status| **status == 403).count(), 2, "{statuses:?}");
        let winner = statuses.iter().position(|status| *status == 200).expect("one");
        assert_eq!(view(&forge, GROUP, &name, DEVELOPER).1, [claims[winner].2]);
    }
}

#[test]
fn publishers_of_before_the_upgrade_stay_until_a_maintainer_of_the_group_decides() {
    let data = tempfile::tempdir().expect("a temporary folder");
    let shared = forge_over(data.path(), &[("registry_name_policy", "shared")]).seed();
    shared.import(MORE);
    for name in NAMES {
        with_owner(&shared, name);
        published(&shared, INTERNAL, EVE, name, "2.0.0");
        is_seen(&shared, name, DEVELOPER, &["2.0.0"], json!({"latest": "2.0.0"}));
        assert_eq!(view(&shared, GROUP, name, "").0, 401, "as it was: the last publisher's project decides");
    }
    assert_eq!(shared.server.stop(), Some(0));

    let strict = forge_over(data.path(), &[("registry_name_migration", "strict")]);
    is_seen(&strict, NAMES[0], DEVELOPER, &["1.0.0"], json!({"latest": "1.0.0"}));
    is_refused(&push(&strict, INTERNAL, EVE, NAMES[0], "2.0.1"), 403, "belongs to");
    assert_eq!(strict.server.stop(), Some(0));

    let forge = forge_over(data.path(), &[]);
    for name in NAMES {
        is_seen(&forge, name, DEVELOPER, &["1.0.0", "2.0.0"], json!({"latest": "1.0.0"}));
        is_seen(&forge, name, "", &["1.0.0"], json!({"latest": "1.0.0"}));
        is_refused(&push(&forge, PRIVATE, DEVELOPER, name, "3.0.0"), 403, "belongs to");
        published(&forge, INTERNAL, EVE, name, "2.0.1");
        is_served(&forge, name, "1.0.0", DEVELOPER, PUBLIC);
        is_served(&forge, name, "2.0.0", DEVELOPER, INTERNAL);
    }
    let remarks = || -> Vec<String> {
        let path = "/api/v4/maintenance/package-registry/fsck";
        let report = change(&forge, "POST", path, ADMIN, json!({})).json();
        assert_eq!(report["failed"], 0, "{report}");
        let remarks = report["remarks"].as_array().cloned().unwrap_or_default();
        remarks.iter().map(|remark| remark["problem"].as_str().expect("a text").to_owned()).collect()
    };
    let listed = remarks();
    assert_eq!(listed.len(), NAMES.len(), "{listed:?}");
    assert!(listed.iter().all(|text| text.contains("since before names had owners")), "{listed:?}");
    let projects = |name: &str| format!("{}/projects", owners(GROUP, name));
    let confirm = |token: &str, name: &str| {
        change(&forge, "POST", &projects(name), token, json!({"project_id": INTERNAL})).status
    };
    assert_eq!((confirm(BEN, NAMES[0]), confirm(MAINTAINER, NAMES[0])), (403, 201));
    let one = format!("{}/{INTERNAL}", projects(NAMES[1]));
    assert_eq!(change(&forge, "DELETE", &one, BEN, json!(null)).status, 403);
    let removed = change(&forge, "DELETE", &one, MAINTAINER, json!(null));
    assert_eq!(removed.status, 204, "{}", removed.text());
    let listed = remarks();
    assert_eq!(listed.len(), 2, "one is to be decided, one has versions that no group shows: {listed:?}");
    is_seen(&forge, NAMES[0], DEVELOPER, &["1.0.0", "2.0.0", "2.0.1"], json!({"latest": "1.0.0"}));
    is_seen(&forge, NAMES[1], DEVELOPER, &["1.0.0"], json!({"latest": "1.0.0"}));
}

#[test]
fn maintenance_completes_the_owners_of_an_earlier_store() {
    let data = tempfile::tempdir().expect("a temporary folder");
    let shared = forge_over(data.path(), &[("registry_name_policy", "shared")]).seed();
    shared.import(MORE);
    for name in NAMES {
        with_owner(&shared, name);
    }
    assert_eq!(shared.server.stop(), Some(0));
    let forge = forge_over(data.path(), &[]);
    let gc = change(&forge, "POST", "/api/v4/maintenance/package-registry/gc", ADMIN, json!({}));
    assert_eq!(gc.status, 200, "{}", gc.text());
    forge.import(format!(r#"{{"kind":"project","id":{PUBLIC},"deleted":true}}"#));
    for name in NAMES {
        is_refused(&push(&forge, INTERNAL, EVE, name, "1.0.1"), 403, "is kept for the owners of acme");
    }
}

#[test]
fn a_merged_answer_follows_each_project_and_each_right_at_once() {
    let forge = forge();
    let name = "@acme/lib";
    with_owner(&forge, name);
    allow(&forge, name, INTERNAL);
    allow_by(&forge, name, PRIVATE, MAINTAINER);
    let document = format!("{GROUP}/{}", path(name));
    let mut etags: Vec<String> = Vec::new();
    let mut changes = |what: &str, versions: &[&str]| {
        let answer = forge.get(&document, EVE);
        assert_eq!(answer.status, 200, "{what}: {}", answer.text());
        let found: Vec<String> = answer.json()["versions"].as_object().expect("versions").keys().cloned().collect();
        assert_eq!(found, versions, "{what}");
        let etag = answer.header("etag").to_owned();
        assert!(!etags.contains(&etag), "{what}: the entity tag is an earlier one");
        etags.push(etag.clone());
        let known = forge.send_with("GET", &document, EVE, &[("if-none-match", &etag)], "");
        assert_eq!(known.status, 304, "{what}");
    };
    changes("the owner", &["1.0.0"]);
    published(&forge, INTERNAL, EVE, name, "2.0.0");
    changes("a second project", &["1.0.0", "2.0.0"]);
    published(&forge, PRIVATE, DEVELOPER, name, "3.0.0");
    published(&forge, PUBLIC, BEN, name, "1.0.1");
    changes("the owner again", &["1.0.0", "1.0.1", "2.0.0"]);
    forge.import(r#"{"kind":"member","source_type":"project","source_id":9,"user_id":20,"access_level":20}"#);
    changes("a new right", &["1.0.0", "1.0.1", "2.0.0", "3.0.0"]);
    let tag = format!("{}/-/package/{}/dist-tags/beta", registry(PRIVATE), path(name));
    assert_eq!(change(&forge, "PUT", &tag, DEVELOPER, json!("3.0.0")).status, 204);
    changes("a tag of the third", &["1.0.0", "1.0.1", "2.0.0", "3.0.0"]);
    forge.import(r#"{"kind":"member","source_type":"project","source_id":9,"user_id":20,"deleted":true}"#);
    let answer = forge.get(&document, EVE);
    assert_eq!(answer.json()["versions"].as_object().map(|versions| versions.len()), Some(3), "a lost right");
    let transferred = change(&forge, "PUT", &owners(GROUP, name), ONA, json!({"project_id": INTERNAL}));
    assert_eq!(transferred.status, 200);
    is_seen(&forge, name, EVE, &["1.0.0", "1.0.1", "2.0.0"], json!({"latest": "2.0.0"}));
}

#[test]
fn who_may_publish_a_name_is_changed_by_maintainers_and_owners() {
    let forge = forge();
    let name = "@acme/lib";
    with_owner(&forge, name);
    for prefix in [GROUP.to_owned(), registry(PUBLIC), registry(INTERNAL), "/api/v4/packages/npm".to_owned()] {
        let found = forge.get(&owners(&prefix, name), DEVELOPER);
        assert_eq!(found.status, 200, "{prefix}: {}", found.text());
        assert_eq!(found.json()["owner"], json!({"id": PUBLIC, "path_with_namespace": "acme/open"}), "{prefix}");
    }
    let projects = format!("{}/projects", owners(GROUP, name));
    let add = |token: &str, project: Value| change(&forge, "POST", &projects, token, json!({"project_id": project}));
    for (token, status) in [("", 401), (OUTSIDER, 403), (GUEST, 403), (DEVELOPER, 403), (EVE, 403), (BEN, 201)] {
        assert_eq!(add(token, json!(INTERNAL)).status, status, "{token}");
    }
    assert_eq!(add(BEN, json!(INTERNAL)).status, 201, "a repetition");
    for (project, status) in
        [(json!(FAR), 400), (json!(404), 400), (json!("x"), 400), (json!(null), 400), (json!(PUBLIC), 400)]
    {
        assert_eq!(add(MAINTAINER, project.clone()).status, status, "{project}");
    }
    assert_eq!(add(MAINTAINER, json!(PRIVATE)).status, 201);
    let shown = |token: &str| forge.get(&owners(GROUP, name), token).json()["projects"].clone();
    let ids = |token: &str| -> Vec<Value> {
        shown(token).as_array().expect("projects").iter().map(|project| project["id"].clone()).collect()
    };
    assert_eq!(
        (ids(DEVELOPER), ids("")),
        (vec![json!(INTERNAL), json!(PRIVATE)], vec![]),
        "unreadable ones are left out"
    );
    assert_eq!(shown(DEVELOPER)[0]["confirmed"], true);
    let remove = |token: &str, project: u64| {
        change(&forge, "DELETE", &format!("{projects}/{project}"), token, json!(null)).status
    };
    assert_eq!([EVE, DEVELOPER, BEN, BEN].map(|token| remove(token, INTERNAL)), [403, 403, 204, 404]);
    assert_eq!(forge.get(&owners(GROUP, "unknown"), DEVELOPER).status, 404);
    assert_eq!(forge.get(&owners(&registry(PRIVATE), name), OUTSIDER).status, 404);
    let in_use = change(&forge, "DELETE", &owners(GROUP, name), ONA, json!(null));
    is_refused(&in_use, 409, "has versions");
    let transfer = |token: &str, project: Value| {
        change(&forge, "PUT", &owners(GROUP, name), token, json!({"project_id": project})).status
    };
    for (token, project, status) in [
        ("", json!(INTERNAL), 401),
        (BEN, json!(INTERNAL), 403),
        (MAINTAINER, json!(INTERNAL), 403),
        (ONA, json!(FAR), 400),
        (ONA, json!(INTERNAL), 200),
        (ADMIN, json!(PUBLIC), 200),
        (BOOTSTRAP_TOKEN, json!(INTERNAL), 200),
    ] {
        assert_eq!(transfer(token, project.clone()), status, "{token} {project}");
    }
    is_refused(&push(&forge, PRIVATE, DEVELOPER, name, "1.0.0"), 400, "Package already exists");
    published(&forge, PUBLIC, BEN, name, "1.0.1");
    is_seen(&forge, name, DEVELOPER, &["1.0.0", "1.0.1"], json!({}));
}

#[test]
fn names_are_reserved_by_patterns() {
    let forge = forge_with(&[("registry_forward_url", "https://registry.example")]);
    let reservations = format!("{GROUP}/-/package_name_reservations");
    let reserve = |token: &str, pattern: &str, project: u64| {
        let body = json!({"package_name_pattern": pattern, "project_id": project});
        change(&forge, "POST", &reservations, token, body)
    };
    with_owner(&forge, "internal-old");
    for (token, status) in [("", 401), (EVE, 403), (MAINTAINER, 403), (ONA, 201)] {
        assert_eq!(reserve(token, "internal-*", INTERNAL).status, status, "{token}");
    }
    for (pattern, project) in [("", INTERNAL), ("a b", INTERNAL), ("x", FAR), ("*a*a*a*a*a*a*a*a*a*b", INTERNAL)] {
        assert_eq!(reserve(ONA, pattern, project).status, 400, "{pattern}");
    }
    assert_eq!(reserve(ONA, &"x".repeat(300), INTERNAL).status, 400);
    is_refused(&push(&forge, PUBLIC, BEN, "Internal-new", "1.0.0"), 403, "is reserved");
    assert_eq!(forge.get(&format!("{}/internal-new", registry(PUBLIC)), "").status, 404, "it is not forwarded");
    assert_eq!(forge.get(&format!("{GROUP}/internal-new"), "").status, 404);
    assert_eq!(forge.get(&format!("{}/internal-new", registry(FAR)), "").status, 302);
    published(&forge, INTERNAL, EVE, "internal-new", "1.0.0");
    published(&forge, PUBLIC, BEN, "internal-old", "1.0.1");
    let listed = forge.get(&reservations, MAINTAINER).json();
    assert_eq!(
        (&listed[0]["package_name_pattern"], &listed[0]["project_id"]),
        (&json!("internal-*"), &json!(INTERNAL))
    );
    assert_eq!(forge.get(&reservations, DEVELOPER).status, 403);
    let one = format!("{reservations}/{}", listed[0]["id"].as_str().expect("an id"));
    let remove = |token: &str| change(&forge, "DELETE", &one, token, json!(null)).status;
    assert_eq!([MAINTAINER, ONA, ONA].map(remove), [403, 204, 404]);
    published(&forge, PUBLIC, BEN, "Internal-new", "1.0.0");
}

#[test]
fn an_audit_with_a_name_that_a_namespace_holds_stays() {
    let forge = forge_with(&[("registry_forward_url", "https://registry.example")]);
    published(&forge, PRIVATE, DEVELOPER, "held", "1.0.0");
    forge.import(format!(r#"{{"kind":"project","id":{PRIVATE},"deleted":true}}"#));
    let audit = |prefix: &str, name: &str| {
        let path = format!("{prefix}/-/npm/v1/security/advisories/bulk");
        change(&forge, "POST", &path, DEVELOPER, json!({name: ["1.0.0"]})).status
    };
    for prefix in [registry(PUBLIC), registry(INTERNAL), GROUP.to_owned()] {
        assert_eq!((audit(&prefix, "held"), audit(&prefix, "unheld")), (404, 307), "{prefix}");
    }
    assert_eq!(audit(&registry(FAR), "held"), 307);
}

#[test]
fn a_search_shows_the_owner_s_package() {
    let forge = forge();
    let name = "@acme/lib";
    with_owner(&forge, name);
    published(&forge, FAR, EVE, name, "9.9.9");
    allow(&forge, name, INTERNAL);
    published(&forge, INTERNAL, EVE, name, "2.0.0");
    forge.import(
        json!({"kind": "project", "id": FAR, "name": "Web", "path": "web", "namespace_id": 10, "visibility": "public"})
            .to_string(),
    );
    for prefix in levels(name) {
        for token in ["", DEVELOPER] {
            let found = forge.get(&format!("{prefix}/-/v1/search?text=lib"), token).json();
            assert_eq!(found["objects"][0]["package"]["version"], "1.0.0", "{prefix}: {found}");
            assert_eq!(found["objects"].as_array().map(Vec::len), Some(1));
        }
    }
}

/// Two publications at once of one version, in two projects that may publish the name.
#[test]
fn of_allowed_projects_that_publish_one_version_at_once_one_gets_it() {
    let forge = forge();
    for name in ["lib", "@acme/lib"] {
        with_owner(&forge, name);
        allow(&forge, name, INTERNAL);
        for round in 1..6 {
            let version = format!("2.0.{round}");
            let statuses: Vec<u16> = std::thread::scope(|scope| {
                let publish = |(project, token)| {
                    let (forge, version) = (&forge, &version);
                    scope.spawn(move || push(forge, project, token, name, version).status)
                };
                let running: Vec<_> = [(PUBLIC, BEN), (INTERNAL, EVE)].into_iter().map(publish).collect();
                running.into_iter().map(|thread| thread.join().expect("an answer")).collect()
            });
            assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 1, "{name} {version}: {statuses:?}");
        }
    }
}
