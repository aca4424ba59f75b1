//! The package registry: publish, read, and be refused, with the shipped component.

mod names;
mod packages_api;

use super::*;
use hexad_tests::forge::{INTERNAL, MAINTAINER};
use hexad_tests::{databases, package};

fn registry(project: u64) -> String {
    format!("/api/v4/projects/{project}/packages/npm")
}

fn publish(forge: &Forge, project: u64, token: &str, name: &str, version: &str, tarball: &[u8]) -> Answer {
    let path = format!("{}/{}", registry(project), name.replace('/', "%2f"));
    forge.send_json("PUT", &path, token, package::document(name, version, "latest", tarball))
}

/// A seeded forge with `@acme/lib` 1.0.0 in the given project, and its tarball.
fn with_package(project: u64) -> (Forge, Vec<u8>) {
    let forge = Forge::seeded();
    let tarball = package::tarball("@acme/lib", "1.0.0", 3_000_000, 1);
    publish(&forge, project, DEVELOPER, "@acme/lib", "1.0.0", &tarball).expect(200);
    (forge, tarball)
}

/// How often the first publish of a package waits for the disk. PostgreSQL commits each new root separately, but not
/// the use of the token.
fn flushes_of_a_first_publish() -> u64 {
    if databases::are_asked_for() { 10 } else { 1 }
}

#[test]
fn a_publish_costs_one_flush() {
    let forge = Forge::seeded();
    let before = forge.commits();
    let tarball = package::tarball("small", "1.0.0", 10_000, 1);
    assert_eq!(publish(&forge, PUBLIC, DEVELOPER, "small", "1.0.0", &tarball).status, 200);
    assert_eq!(forge.commits() - before, flushes_of_a_first_publish());
}

#[test]
fn a_package_is_served_under_every_prefix_and_in_every_form_of_its_name() {
    let (forge, tarball) = with_package(PUBLIC);
    let group = "/api/v4/groups/acme/-/packages/pkgreg".to_owned();
    for prefix in
        [registry(PUBLIC), "/api/v4/projects/acme%2Fopen/packages/pkgreg".into(), group, "/api/v4/packages/npm".into()]
    {
        for name in ["@acme/lib", "@acme%2flib", "%40acme%2Flib"] {
            let metadata = forge.get(&format!("{prefix}/{name}"), "");
            assert_eq!(metadata.status, 200, "{prefix} {name}: {}", metadata.text());
            let url = metadata.json()["versions"]["1.0.0"]["dist"]["tarball"].as_str().expect("a URL").to_owned();
            assert_eq!(url, format!("https://forge.test{prefix}/@acme/lib/-/lib-1.0.0.tgz"));
            for file in ["lib-1.0.0.tgz", "@acme/lib-1.0.0.tgz"] {
                let served = forge.get(&format!("{prefix}/{name}/-/{file}"), "");
                assert_eq!(served.status, 200, "{prefix} {name} {file}");
                assert!(served.body == tarball, "{prefix} {name} {file}: other bytes");
            }
        }
    }
}

#[test]
fn a_project_and_a_group_list_their_versions() {
    let (forge, _) = with_package(PUBLIC);
    let tarball = package::tarball("@acme/secret", "0.1.0", 1000, 1);
    assert_eq!(publish(&forge, PRIVATE, DEVELOPER, "@acme/secret", "0.1.0", &tarball).status, 200);
    let names = |path: &str, token: &str| -> Vec<String> {
        let answer = forge.get(path, token);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        let rows = answer.json();
        rows.as_array().expect("a list").iter().map(|row| row["name"].as_str().expect("a name").to_owned()).collect()
    };
    assert_eq!(names("/api/v4/projects/acme%2Fopen/packages", ""), ["@acme/lib"]);
    assert_eq!(names("/api/v4/groups/acme/packages?order_by=name&sort=desc", ""), ["@acme/lib"]);
    let all = names("/api/v4/groups/acme/packages?order_by=name&sort=desc", DEVELOPER);
    assert_eq!(all, ["@acme/secret", "@acme/lib"]);
    let page = forge.get("/api/v4/groups/acme/packages?per_page=1", DEVELOPER);
    assert_eq!((page.header("x-total"), page.header("x-next-page")), ("2", "2"));
    assert_eq!(forge.get(&format!("/api/v4/projects/{PRIVATE}/packages"), OUTSIDER).status, 404);
}

#[test]
fn metadata_is_revalidated_by_its_tag_until_something_changes() {
    let (forge, _) = with_package(PUBLIC);
    let path = format!("{}/@acme%2flib", registry(PUBLIC));
    let etag = forge.get(&path, "").header("etag").to_owned();
    let unchanged = forge.send_with("GET", &path, "", &[("if-none-match", &etag)], "");
    assert_eq!((unchanged.status, unchanged.body.len()), (304, 0));
    let abbreviated = [("if-none-match", etag.as_str()), ("accept", "application/vnd.npm.install-v1+json")];
    assert_eq!(forge.send_with("GET", &path, "", &abbreviated, "").status, 200, "the tag of another form matches");
    let tarball = package::tarball("@acme/lib", "1.1.0", 1000, 2);
    assert_eq!(publish(&forge, PUBLIC, DEVELOPER, "@acme/lib", "1.1.0", &tarball).status, 200);
    assert_eq!(forge.send_with("GET", &path, "", &[("if-none-match", &etag)], "").status, 200);
}

#[test]
fn reading_depends_on_visibility_and_role() {
    for (project, expected) in [
        (PUBLIC, [200, 200, 200, 200, 200]),
        (INTERNAL, [401, 200, 200, 200, 200]),
        (PRIVATE, [401, 404, 403, 200, 200]),
    ] {
        let (forge, _) = with_package(project);
        let path = format!("{}/@acme%2flib", registry(project));
        let statuses = ["", OUTSIDER, GUEST, DEVELOPER, ADMIN].map(|token| forge.get(&path, token).status);
        assert_eq!(statuses, expected, "project {project}");
    }
}

#[test]
fn publishing_depends_on_the_role() {
    let forge = Forge::seeded();
    let tarball = package::tarball("p", "1.0.0", 1000, 1);
    for (project, token, status) in [
        (PUBLIC, "", 401),
        (PUBLIC, "glpat-unknown-token-00000000001", 401),
        (PUBLIC, OUTSIDER, 403),
        (PRIVATE, OUTSIDER, 404),
        (PUBLIC, GUEST, 403),
        (PUBLIC, MAINTAINER, 200),
    ] {
        assert_eq!(publish(&forge, project, token, "p", "1.0.0", &tarball).status, status, "{project} {token}");
    }
}

#[test]
fn a_document_that_contradicts_its_tarball_is_refused_and_leaves_nothing_visible() {
    let forge = Forge::seeded();
    let tarball = package::tarball("wrong", "1.0.0", 1000, 1);
    let document = String::from_utf8(package::document("wrong", "1.0.0", "latest", &tarball)).expect("text");
    let length = format!("\"length\":{}", tarball.len());
    let shasum = document.split("\"shasum\":\"").nth(1).and_then(|rest| rest.get(..40)).expect("a shasum").to_owned();
    for (defect, document) in [
        ("length", document.replace(&length, "\"length\":1")),
        ("shasum", document.replace(&shasum, &"0".repeat(40))),
        ("integrity", document.replace("sha512-", "sha512-AAAA")),
        ("version", document.replace("\"version\":\"1.0.0\"", "\"version\":\"1.0\"")),
        ("cut off", document.get(..document.len() / 2).expect("ASCII").to_owned()),
        ("not JSON", document.replacen('{', "[", 1)),
        ("dependencies", document.replace("^1.0.0", "^2.0.0")),
        ("deep", format!("{{\"versions\":{}", "[".repeat(100_000))),
    ] {
        let answer = forge.send_json("PUT", &format!("{}/wrong", registry(PUBLIC)), DEVELOPER, document);
        assert_eq!(answer.status, 400, "{defect}: {}", answer.text());
        assert!(answer.json()["error"].as_str().is_some_and(|text| !text.is_empty()), "{defect}: {}", answer.text());
    }
    assert_eq!(forge.get(&format!("{}/wrong", registry(PUBLIC)), DEVELOPER).status, 404);
    let found = publish(&forge, PUBLIC, DEVELOPER, "wrong", "1.0.0", &tarball).status;
    assert_eq!(found, 200, "the good document is accepted");
}

#[test]
fn paths_that_no_package_has_are_not_found() {
    let (forge, _) = with_package(PUBLIC);
    for path in ["@acme%252flib", "../npm/@acme%2flib", "@acme%2f..%2flib", "@acme%2flib%00", "//", "%20"] {
        let status = forge.get(&format!("{}/{path}", registry(PUBLIC)), DEVELOPER).status;
        assert!((400..=404).contains(&status), "{path}: {status}");
    }
}

#[test]
fn tags_can_be_moved_and_removed() {
    let (forge, _) = with_package(PUBLIC);
    let tags = format!("{}/-/package/@acme%2flib/dist-tags", registry(PUBLIC));
    assert_eq!(forge.send_json("PUT", &format!("{tags}/stable"), DEVELOPER, "\"1.0.0\"").status, 204);
    assert_eq!(forge.get(&tags, "").json(), json!({"latest": "1.0.0", "stable": "1.0.0"}));
    assert_eq!(forge.send_json("PUT", &format!("{tags}/stable"), DEVELOPER, "\"9.9.9\"").status, 404);
    assert_eq!(forge.send("DELETE", &format!("{tags}/stable"), DEVELOPER, "").status, 403);
    assert_eq!(forge.send("DELETE", &format!("{tags}/stable"), MAINTAINER, "").status, 204);
    assert_eq!(forge.get(&tags, "").json(), json!({"latest": "1.0.0"}));
}

#[test]
fn a_file_can_be_read_in_ranges_and_by_head() {
    let (forge, tarball) = with_package(PUBLIC);
    let path = format!("{}/@acme/lib/-/lib-1.0.0.tgz", registry(PUBLIC));
    let head = forge.send("HEAD", &path, "", "");
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(head.header("content-length"), tarball.len().to_string());
    assert!(head.header("cache-control").contains("immutable"));
    let part = forge.send_with("GET", &path, "", &[("range", "bytes=1048570-1048585")], "");
    assert_eq!((part.status, part.body.as_slice()), (206, tarball.get(1_048_570..=1_048_585).expect("long enough")));
}

#[test]
fn maintenance_reads_the_whole_store_and_finds_no_problem() {
    let (forge, _) = with_package(PUBLIC);
    for n in 0..12 {
        let version = format!("2.0.{n}");
        let tarball = package::tarball("@acme/lib", &version, 1000, n);
        assert_eq!(publish(&forge, PUBLIC, DEVELOPER, "@acme/lib", &version, &tarball).status, 200);
    }
    let post = |task: &str, token: &str, body: serde_json::Value| {
        let path = format!("/api/v4/maintenance/package-registry/{task}");
        forge.send_json("POST", &path, token, body.to_string())
    };
    for task in ["gc", "fsck"] {
        let statuses = ["", MAINTAINER, ADMIN].map(|token| post(task, token, json!({"dry_run": true})).status);
        assert_eq!(statuses, [401, 403, 200], "{task}");
    }
    let checked = post("fsck", ADMIN, json!({})).json();
    assert_eq!((&checked["cursor"], &checked["roots"], &checked["blobs"]), (&json!(null), &json!(1), &json!(13)));
    assert_eq!((&checked["failed"], checked["bytes"].as_u64() > Some(3_000_000)), (&json!(0), true), "{checked}");
    let marked = post("gc", ADMIN, json!({})).json();
    assert_eq!((&marked["roots"], &marked["wait_seconds"]), (&json!(1), &json!(120)), "{marked}");
    let early = post("gc", ADMIN, json!({"cursor": marked["cursor"]})).json();
    assert!(early["wait_seconds"].as_u64() > Some(0) && early["keys"] == 0, "{early}");
    let swept = post("gc", ADMIN, json!({"cursor": marked["cursor"], "no_wait": true})).json();
    let found = (&swept["cursor"], &swept["removed"]);
    assert_eq!(found, (&json!(null), &json!(0)), "garbage of merges is too young to be removed: {swept}");
    assert!(swept["keys"].as_u64() > Some(60), "{swept}");
}

#[test]
fn a_publish_costs_one_flush_however_many_versions_there_are() {
    let forge = Forge::seeded();
    for n in 0..300 {
        let version = format!("1.0.{n}");
        let before = forge.commits();
        let tarball = package::tarball("many", &version, 100, n);
        assert_eq!(publish(&forge, PUBLIC, DEVELOPER, "many", &version, &tarball).status, 200);
        let expected = if n == 0 { flushes_of_a_first_publish() } else { 1 };
        assert_eq!(forge.commits() - before, expected, "version {n}");
    }
}

#[test]
fn changes_of_members_users_and_projects_apply_at_once() {
    let (forge, _) = with_package(PRIVATE);
    let path = format!("{}/@acme%2flib", registry(PRIVATE));
    let status = |token: &str| forge.get(&path, token).status;
    assert_eq!((status(DEVELOPER), status(MAINTAINER), status("")), (200, 200, 401));
    forge.import(r#"{"kind":"member","source_type":"group","source_id":10,"user_id":3,"deleted":true}"#);
    assert_eq!((status(DEVELOPER), status(MAINTAINER)), (404, 200), "a removed member");
    forge.import(r#"{"kind":"user","id":2,"username":"mia","name":"Mia Maintainer","state":"blocked"}"#);
    assert_eq!(status(MAINTAINER), 403, "a blocked user");
    forge.import(
        r#"{"kind":"project","id":9,"name":"Secret","path":"secret","path_with_namespace":"acme/labs/secret","namespace_id":11,"visibility":"private","package_registry_access_level":"public"}"#,
    );
    assert_eq!(status(""), 200, "a field that no table of the catalog has");
}

#[test]
fn strangers_are_bounded_by_default() {
    let (forge, _) = with_package(PUBLIC);
    let first_refusal = |path: &str, token: &str| (0..200).position(|_| forge.get(path, token).status == 429);
    assert_eq!(first_refusal("/api/v4/groups/acme/-/packages/npm/-/v1/search?text=lib", ""), Some(120));
    let path = format!("{}/@acme%2flib", registry(PUBLIC));
    assert_eq!(first_refusal(&path, ""), None);
}
