//! Versions by their numeric ids, protection rules, limits and audits, with the shipped component.

use super::{publish, registry};
use crate::areas::{Answer, Forge};
use hexad_tests::forge::{ADMIN, DEVELOPER, GUEST, MAINTAINER, OUTSIDER, PRIVATE, PUBLIC};
use hexad_tests::package;
use hexad_tests::server::Server;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

/// The most time that a change of thousands of versions may take.
const MOST: Duration = Duration::from_secs(2);

fn packages(project: u64) -> String {
    format!("/api/v4/projects/{project}/packages")
}

fn forge_over(data: &Path) -> Forge {
    let server = Server::start(data);
    Forge { server, agent: hexad_tests::http::agent(), _data: tempfile::tempdir().expect("a temporary folder") }
}

#[track_caller]
fn published(forge: &Forge, project: u64, name: &str, version: &str) -> u64 {
    let tarball = package::tarball(name, version, 500, 1);
    let answer = publish(forge, project, DEVELOPER, name, version, &tarball);
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()["id"].as_u64().unwrap_or_else(|| panic!("no number: {}", answer.text()))
}

fn maintain(forge: &Forge, task: &str) -> Value {
    let headers = [("content-type", "application/json")];
    let path = format!("/api/v4/maintenance/package-registry/{task}");
    let answer = forge.send_with("POST", &path, ADMIN, &headers, "{}");
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json()
}

#[test]
fn ids_lead_to_their_versions_also_after_the_host_was_killed() {
    let data = tempfile::tempdir().expect("a temporary folder");
    let forge = forge_over(data.path()).seed();
    let ids = ["1.0.0", "1.1.0"].map(|version| published(&forge, PUBLIC, "@acme/lib", version));
    let secret = published(&forge, PRIVATE, "secret", "1.0.0");
    drop(forge.server.kill());

    let forge = forge_over(data.path());
    let listed = forge.get(&packages(PUBLIC), "").json();
    assert_eq!((&listed[0]["id"], &listed[1]["id"]), (&json!(ids[0]), &json!(ids[1])));
    let one = |project: u64, id: u64| format!("{}/{id}", packages(project));
    let shown = forge.get(&one(PUBLIC, ids[1]), "").json();
    assert_eq!((&shown["version"], &shown["project_id"]), (&json!("1.1.0"), &json!(PUBLIC)));
    let files = forge.get(&format!("{}/package_files", one(PUBLIC, ids[1])), "").json();
    let tarball = package::tarball("@acme/lib", "1.1.0", 500, 1);
    assert_eq!((&files[0]["size"], &files[0]["file_sha1"]), (&json!(tarball.len()), &json!(package::shasum(&tarball))));
    assert_eq!(forge.get(&format!("{}/pipelines", one(PUBLIC, ids[1])), "").text(), "[]");
    let statuses = ["", OUTSIDER, GUEST, DEVELOPER].map(|token| forge.get(&one(PRIVATE, secret), token).status);
    assert_eq!(statuses, [401, 404, 403, 200]);
    assert_eq!(
        (forge.get(&one(PUBLIC, secret), ADMIN).status, forge.get(&one(PUBLIC, 1 << 60), "").status),
        (404, 404)
    );
    assert_eq!(forge.get(&format!("{}/x", packages(PUBLIC)), "").status, 400);

    let delete = |path: &str, token: &str| forge.send("DELETE", path, token, "").status;
    assert_eq!((delete(&one(PUBLIC, ids[1]), DEVELOPER), delete(&one(PUBLIC, ids[1]), MAINTAINER)), (403, 204));
    let file = format!("{}/package_files/{}", one(PUBLIC, ids[0]), ids[0]);
    assert_eq!((delete(&file, DEVELOPER), delete(&file, MAINTAINER), delete(&file, MAINTAINER)), (403, 204, 404));
    assert_eq!(forge.get(&one(PUBLIC, ids[1]), "").status, 404);
    assert_eq!(forge.get(&packages(PUBLIC), "").text(), "[]");
    assert_eq!(maintain(&forge, "gc")["removed"], 0, "everything is young");
    let report = maintain(&forge, "fsck");
    assert_eq!((&report["failed"], &report["remarked"]), (&json!(0), &json!(0)), "{report}");
}

/// Makes the store one of a build without an index of ids.
fn forget_ids(data: &Path) {
    let database = rusqlite::Connection::open(data.join("sqlite_key_value.db")).expect("the store");
    let removed = database.execute("DELETE FROM spin_key_value WHERE key LIKE 'package-registry/v1/id/%'", []);
    assert_eq!(removed.expect("the table"), 2);
    let sql = "UPDATE spin_key_value SET value = CAST(replace(CAST(value AS TEXT), ',\"ids_indexed\":true', '') AS BLOB) \
               WHERE key LIKE 'package-registry/v1/package/%' AND key NOT LIKE '%/init'";
    assert_eq!(database.execute(sql, []).expect("the table"), 1);
}

#[test]
fn ids_of_an_earlier_store_lead_to_their_versions_before_and_after_maintenance() {
    let data = tempfile::tempdir().expect("a temporary folder");
    let forge = forge_over(data.path()).seed();
    let ids = ["1.0.0", "1.1.0"].map(|version| published(&forge, PUBLIC, "@acme/lib", version));
    assert_eq!(forge.server.stop(), Some(0));
    forget_ids(data.path());
    let forge = forge_over(data.path());
    let versions = |forge: &Forge| {
        ids.map(|id| forge.get(&format!("{}/{id}", packages(PUBLIC)), "").json()["version"].as_str().map(str::to_owned))
    };
    let expected = ["1.0.0", "1.1.0"].map(|version| Some(version.to_owned()));
    assert_eq!(versions(&forge), expected);
    maintain(&forge, "gc");
    assert_eq!(versions(&forge), expected);
    // A host that dies right after that has them, too.
    drop(forge.server.kill());
    let forge = forge_over(data.path());
    assert_eq!(versions(&forge), expected);
    assert_eq!(maintain(&forge, "fsck")["failed"], 0);
}

#[test]
fn a_projects_rules_protect_its_packages() {
    let forge = Forge::seeded();
    published(&forge, PUBLIC, "@acme/lib", "1.0.0");
    let rules = format!("{}/protection/rules", packages(PUBLIC));
    let rule = json!({"package_name_pattern": "@acme/*", "package_type": "npm", "minimum_access_level_for_push": "maintainer"});
    let add = |token: &str| forge.send_json("POST", &rules, token, rule.to_string());
    assert_eq!((add("").status, add(DEVELOPER).status), (401, 403));
    let added = add(MAINTAINER);
    assert_eq!((added.status, add(MAINTAINER).status), (201, 422), "{}", added.text());
    let tarball = package::tarball("@acme/lib", "1.1.0", 500, 1);
    let push = |token: &str| publish(&forge, PUBLIC, token, "@acme/lib", "1.1.0", &tarball);
    let refused = push(DEVELOPER);
    assert_eq!((refused.status, refused.json()["error"].as_str()), (403, Some("Package protected.")));
    assert_eq!(forge.get(&rules, MAINTAINER).json(), json!([added.json()]));
    let one = format!("{rules}/{}", added.json()["id"]);
    let changed = forge.send_json("PATCH", &one, MAINTAINER, r#"{"package_name_pattern":"@acme/x*"}"#);
    assert_eq!(changed.json()["package_name_pattern"], "@acme/x*", "{}", changed.text());
    assert_eq!((push(DEVELOPER).status, forge.send("DELETE", &one, MAINTAINER, "").status), (200, 204));
    assert_eq!(forge.get(&rules, MAINTAINER).text(), "[]");
}

#[test]
fn thousands_of_versions_are_deprecated_and_unpublished_in_one_go() {
    const COUNT: usize = 5_000;
    let forge = Forge::seeded();
    let tarball = package::tarball("lib", "1.0.0", 100, 1);
    for patch in 0..COUNT {
        let version = format!("1.0.{patch}");
        let tarball = if patch == 0 { tarball.clone() } else { package::tarball("lib", &version, 100, 1) };
        let answer = publish(&forge, PUBLIC, DEVELOPER, "lib", &version, &tarball);
        assert_eq!(answer.status, 200, "{version}: {}", answer.text());
    }
    let path = format!("{}/lib", registry(PUBLIC));
    let mut document = forge.get(&path, MAINTAINER).json();
    for record in document["versions"].as_object_mut().expect("versions").values_mut() {
        record["deprecated"] = json!("use 2");
    }
    let timed = |path: &str, document: &Value| -> (Answer, Duration) {
        let body = document.to_string();
        let began = Instant::now();
        (forge.send_json("PUT", path, MAINTAINER, body), began.elapsed())
    };
    let (answer, took) = timed(&path, &document);
    assert!(answer.status == 200 && took < MOST, "{took:?}: {}", answer.text());
    println!("{COUNT} deprecations took {took:?}");
    let mut document = forge.get(&path, MAINTAINER).json();
    let versions = document["versions"].as_object_mut().expect("versions");
    assert!(versions.values().all(|record| record["deprecated"] == "use 2"));
    versions.retain(|version, _| version == "1.0.7");
    let revision = document["_rev"].as_str().expect("a revision").to_owned();
    let (answer, took) = timed(&format!("{path}/-rev/{revision}"), &document);
    assert!(answer.status == 200 && took < MOST, "{took:?}: {}", answer.text());
    println!("{COUNT} removals took {took:?}");
    assert_eq!(forge.get(&path, "").json()["versions"].as_object().expect("versions").len(), 1);
}

/// A version with a manifest of nearly 2 MB.
fn large(forge: &Forge, version: &str) -> Answer {
    let tarball = package::tarball("big", version, 100, 1);
    let mut document: Value =
        serde_json::from_slice(&package::document("big", version, "latest", &tarball)).expect("JSON");
    document["versions"][version]["keywords"] = json!(["x".repeat(1_900_000)]);
    forge.send_json("PUT", &format!("{}/big", registry(PUBLIC)), DEVELOPER, document.to_string())
}

#[test]
fn metadata_up_to_its_limit_is_served_and_changed() {
    let forge = Forge::seeded();
    for patch in 0..52 {
        let answer = large(&forge, &format!("1.0.{patch}"));
        assert_eq!(answer.status, 200, "{patch}: {}", answer.text());
    }
    let refused = large(&forge, "2.0.0");
    assert_eq!(refused.status, 400);
    assert!(refused.text().contains("registry_max_metadata_bytes"), "{}", refused.text());
    let path = format!("{}/big", registry(PUBLIC));
    assert_eq!(forge.send_with("GET", &path, MAINTAINER, &[("accept-encoding", "gzip")], "").status, 200);
    let mut document = forge.get(&path, MAINTAINER).json();
    let versions = document["versions"].as_object_mut().expect("versions");
    versions.values_mut().for_each(|record| record["deprecated"] = json!("old"));
    let answer = forge.send_json("PUT", &path, MAINTAINER, document.to_string());
    assert_eq!(answer.status, 200, "{}", answer.text());
    let mut document = forge.get(&path, MAINTAINER).json();
    let revision = document["_rev"].as_str().expect("a revision").to_owned();
    document["versions"].as_object_mut().expect("versions").remove("1.0.0");
    let answer = forge.send_json("PUT", &format!("{path}/-rev/{revision}"), MAINTAINER, document.to_string());
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(large(&forge, "2.0.0").status, 200);
}

#[test]
fn limits_are_variables_and_refusals_name_them() {
    let limits = [
        ("registry_max_tarball_entries", "1"),
        ("registry_max_document_bytes", "100000"),
        ("registry_max_metadata_bytes", "1000"),
    ];
    for (limit, padding, status) in [(limits[0], 0, 400), (limits[1], 200_000, 413), (limits[2], 2_000, 400)] {
        let forge = Forge::seeded_with(&[limit]);
        let tarball = package::tarball("lib", "1.0.0", 100, 1);
        let mut document: Value =
            serde_json::from_slice(&package::document("lib", "1.0.0", "latest", &tarball)).expect("JSON");
        document["versions"]["1.0.0"]["keywords"] = json!(["x".repeat(padding)]);
        let path = format!("{}/lib", registry(PUBLIC));
        let answer = forge.send_json("PUT", &path, DEVELOPER, document.to_string());
        assert_eq!(answer.status, status, "{limit:?}: {}", answer.text());
        assert!(answer.text().contains(limit.0), "{limit:?}: {}", answer.text());
    }
}

#[test]
fn an_audit_says_nothing_of_what_nobody_has_looked_for() {
    for (variables, status) in [(&[][..], 404), (&[("registry_audit", "empty")][..], 200)] {
        let forge = Forge::seeded_with(variables);
        for report in ["advisories/bulk", "audits/quick", "audits"] {
            let path = |prefix: &str| format!("{prefix}/-/npm/v1/security/{report}");
            let audit =
                |prefix: &str, token: &str| forge.send_json("POST", &path(prefix), token, r#"{"lib":["1.0.0"]}"#);
            let answer = audit(&registry(PUBLIC), "");
            assert_eq!(answer.status, status, "{}", answer.text());
            assert_eq!(answer.text().contains("no advisories were looked for"), status == 404);
            let private = ["", OUTSIDER, GUEST].map(|token| audit(&registry(PRIVATE), token).status);
            assert_eq!(private, [401, 404, 403]);
        }
    }
}
