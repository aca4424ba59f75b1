//! The packages API: versions by their numeric ids.

use super::*;
use kit::store::Store as _;
use kit::testing::FailingStore;

const MISSING: (&str, &str) = ("404 Package Not Found", "Package not found");

fn rows(forge: &Forge, project: u64) -> Vec<Value> {
    let answer = forge.get(&format!("/projects/{project}/packages"));
    assert_eq!(answer.status, 200, "{}", answer.text());
    answer.json().as_array().unwrap().clone()
}

fn id_of(forge: &Forge, project: u64, name: &str, version: &str) -> u64 {
    let rows = rows(forge, project);
    let row = rows.iter().find(|row| row["name"] == name && row["version"] == version);
    row.unwrap_or_else(|| panic!("{name}@{version}"))["id"].as_u64().unwrap()
}

fn of(method: Method, project: u64, id: impl std::fmt::Display) -> TestRequest {
    request(method, &format!("/projects/{project}/packages/{id}"))
}

/// `name@version` of the version with an id.
fn label(forge: &Forge, project: u64, id: u64) -> String {
    let row = forge.send(of(Method::GET, project, id)).json();
    format!("{}@{}", row["name"].as_str().unwrap_or_default(), row["version"].as_str().unwrap_or_default())
}

/// Every step of a task: its problems and its remarks.
fn maintain(forge: &mut Forge, task: &str) -> (Vec<String>, Vec<String>) {
    let (mut body, mut problems, mut remarks) = (json!({}), Vec::new(), Vec::new());
    loop {
        let path = format!("/maintenance/package-registry/{task}");
        let answer = forge.send(request(Method::POST, &path).by("boot").body(body.to_string()));
        assert_eq!(answer.status, 200, "{}", answer.text());
        let answer = answer.json();
        for (name, found) in [("problems", &mut problems), ("remarks", &mut remarks)] {
            let list = answer[name].as_array().cloned().unwrap_or_default();
            found.extend(list.iter().map(|found| found["problem"].as_str().unwrap().to_owned()));
        }
        let wait = answer["wait_seconds"].as_i64().unwrap_or_default();
        forge.now = Timestamp::from_millis(forge.now.millis() + wait * 1000);
        if answer["cursor"].is_null() {
            return (problems, remarks);
        }
        body["cursor"] = answer["cursor"].clone();
    }
}

fn nothing() -> (Vec<String>, Vec<String>) {
    Default::default()
}

fn forge() -> Forge {
    let mut forge = Forge::new();
    forge.variables.push(("bootstrap_admin_token", "boot"));
    forge
}

/// Makes the store one of a build without an index of ids.
fn forget_ids(forge: &Forge) {
    for key in forge.store.keys() {
        if key.starts_with("package-registry/v1/id/") {
            forge.store.delete(&key).unwrap();
        } else if key.starts_with("package-registry/v1/package/") && !key.ends_with("/init") {
            let mut record: Value = serde_json::from_slice(&forge.store.get(&key).unwrap().unwrap()).unwrap();
            record.as_object_mut().unwrap().retain(|name, _| name != "ids_indexed" && name != "drawn_ids");
            forge.store.set(&key, record.to_string().as_bytes()).unwrap();
        }
    }
}

/// Two packages whose versions have the same random bits, so that a build without an index gave them one id. The second
/// is younger.
fn collide(forge: &mut Forge, first: (u64, &str), second: (u64, &str)) -> u64 {
    forge.entropy = Rc::default();
    let id = forge.publish(first.0, first.1, "1.0.0").json()["id"].as_u64().unwrap();
    forge.advance_clock();
    forge.entropy = Rc::default();
    let other = forge.publish(second.0, second.1, "1.0.0").json()["id"].as_u64().unwrap();
    assert_ne!(id, other, "it draws again");
    id
}

#[test]
fn the_id_of_a_publication_leads_to_its_version() {
    let mut forge = forge();
    forge.publish(PUBLIC, "@acme/lib", "1.0.0");
    forge.advance_clock();
    let published = forge.publish(PUBLIC, "@acme/lib", "1.1.0").json();
    let id = published["id"].as_u64().unwrap();
    assert_eq!(forge.publish(PUBLIC, "@acme/lib", "1.1.0").json()["id"], id, "a repetition");
    assert_eq!(id_of(&forge, PUBLIC, "@acme/lib", "1.1.0"), id);
    let shown = forge.send(of(Method::GET, PUBLIC, id).by("")).json();
    let listed = forge.send(request(Method::GET, "/groups/acme/packages").by("")).json()[1].clone();
    assert_eq!(shown, listed);
    assert_eq!((&shown["version"], &shown["_links"], &shown["project_id"]), (&json!("1.1.0"), &json!({}), &json!(7)));
    let link = format!("http://registry.example/api/v4/projects/7/packages/{id}");
    let by_maintainer = forge.send(of(Method::GET, PUBLIC, id).by("maintainer")).json();
    assert_eq!(by_maintainer["_links"], json!({"delete_api_path": link}));
    assert_eq!(forge.send(of(Method::GET, PUBLIC, id)).json()["_links"], json!({}), "of a developer");

    let files = forge.send(of(Method::GET, PUBLIC, format!("{id}/package_files")).by(""));
    assert_eq!((files.status, files.header("x-total")), (200, "1"));
    let listed = files.json();
    let [file] = &listed.as_array().unwrap()[..] else { panic!("{}", files.text()) };
    let whole = forge.get("/projects/7/packages/npm/@acme/lib/-/lib-1.1.0.tgz").body;
    assert_eq!((&file["id"], &file["package_id"], &file["size"]), (&json!(id), &json!(id), &json!(whole.len())));
    assert_eq!(file["file_sha1"], hex::encode(sha1::Sha1::digest(&whole)));
    assert_eq!(file["file_name"], "lib-1.1.0.tgz");
    let second = forge.send(of(Method::GET, PUBLIC, format!("{id}/package_files?page=2&order_by=id&sort=desc")));
    assert_eq!((second.text().as_str(), second.header("x-prev-page")), ("[]", ""));
    for query in ["order_by=size", "sort=up", "page=x", "per_page=0"] {
        assert_eq!(forge.send(of(Method::GET, PUBLIC, format!("{id}/package_files?{query}"))).status, 400, "{query}");
    }
    assert_eq!(forge.send(of(Method::GET, PUBLIC, format!("{id}/pipelines"))).text(), "[]");
    assert_eq!(maintain(&mut forge, "fsck"), nothing());
}

#[test]
fn an_id_is_asked_for_within_its_project() {
    let forge = forge();
    forge.publish(PUBLIC, "lib", "1.0.0");
    forge.publish(PRIVATE, "secret", "1.0.0");
    let id = id_of(&forge, PRIVATE, "secret", "1.0.0");
    for suffix in ["", "/package_files", "/pipelines"] {
        forge.send(of(Method::GET, PUBLIC, format!("{id}{suffix}"))).is(404, MISSING.0, MISSING.1);
        for (user, status) in [("", 401), ("outsider", 404), ("guest", 403), ("reporter", 200)] {
            let answer = forge.send(of(Method::GET, PRIVATE, format!("{id}{suffix}")).by(user));
            assert_eq!(answer.status, status, "{user} {suffix}: {}", answer.text());
        }
        for other in
            ["0", "-1", "9007199254740992", "18446744073709551616", "99999999999999999999999999999999999999999"]
        {
            forge.send(of(Method::GET, PUBLIC, format!("{other}{suffix}"))).is(404, MISSING.0, MISSING.1);
        }
        for no_number in ["x", "1.5", "0x10", "%20"] {
            let path = format!("{no_number}{suffix}");
            forge.send(of(Method::GET, PUBLIC, path)).is_refused(400, "package_id is invalid");
        }
    }
    forge
        .send(of(Method::DELETE, PUBLIC, format!("{id}/package_files/x")).by("maintainer"))
        .is_refused(400, "package_file_id is invalid");
    assert_eq!(forge.send(of(Method::PUT, PUBLIC, id)).header("allow"), "DELETE, GET, HEAD");
    assert_eq!(forge.send(of(Method::GET, PUBLIC, format!("{id}/package_files/{id}"))).status, 405);
}

#[test]
fn a_maintainer_deletes_by_id() {
    for file in [false, true] {
        let mut forge = forge();
        for version in ["1.0.0", "1.1.0"] {
            forge.publish(PUBLIC, "lib", version);
        }
        let id = id_of(&forge, PUBLIC, "lib", "1.1.0");
        let path = if file { format!("{id}/package_files/{id}") } else { id.to_string() };
        for (user, status) in [("", 401), ("developer", 403), ("outsider", 403), ("maintainer", 204)] {
            assert_eq!(forge.send(of(Method::DELETE, PUBLIC, &path).by(user)).status, status, "{user}");
        }
        forge.send(of(Method::GET, PUBLIC, id)).is(404, MISSING.0, MISSING.1);
        forge.send(of(Method::DELETE, PUBLIC, &path).by("maintainer")).is(404, MISSING.0, MISSING.1);
        let document = forge.get("/projects/7/packages/npm/lib").json();
        assert_eq!(
            (&document["dist-tags"], document["versions"].as_object().unwrap().len()),
            (&json!({"latest": "1.0.0"}), 1)
        );
        assert_eq!(forge.get("/projects/7/packages/npm/lib/-/lib-1.1.0.tgz").status, 404);
        assert_eq!(maintain(&mut forge, "fsck"), nothing());
    }
    let forge = Forge::new();
    forge.publish(PUBLIC, "lib", "1.0.0");
    let id = id_of(&forge, PUBLIC, "lib", "1.0.0");
    let other = forge.send(of(Method::DELETE, PUBLIC, format!("{id}/package_files/{}", id - 1)).by("maintainer"));
    other.is(404, MISSING.0, MISSING.1);
    assert_eq!(label(&forge, PUBLIC, id), "lib@1.0.0");
}

#[test]
fn an_upload_whose_number_is_taken_draws_another_id() {
    let mut forge = forge();
    let id = collide(&mut forge, (PUBLIC, "old"), (INTERNAL, "new"));
    let other = id_of(&forge, INTERNAL, "new", "1.0.0");
    assert_eq!((label(&forge, PUBLIC, id), label(&forge, INTERNAL, other)), ("old@1.0.0".into(), "new@1.0.0".into()));
    forge.send(of(Method::GET, INTERNAL, id)).is(404, MISSING.0, MISSING.1);
    let remark = format!("version 1.0.0 has the id {other}, because another version had {id}");
    assert_eq!(maintain(&mut forge, "fsck"), (vec![], vec![remark]));
}

#[test]
fn versions_of_earlier_builds_are_found_before_and_after_maintenance() {
    let mut forge = forge();
    for (name, version) in [("a", "1.0.0"), ("b", "1.0.0"), ("b", "2.0.0")] {
        forge.publish(PUBLIC, name, version);
    }
    let before = rows(&forge, PUBLIC);
    forget_ids(&forge);
    let lead_there = |forge: &Forge| {
        for row in &before {
            let id = row["id"].as_u64().unwrap();
            let expected = format!("{}@{}", row["name"].as_str().unwrap(), row["version"].as_str().unwrap());
            assert_eq!(label(forge, PUBLIC, id), expected);
        }
    };
    lead_there(&forge);
    // A publication in between has its own entry only.
    forge.publish(PUBLIC, "b", "3.0.0");
    lead_there(&forge);
    assert_eq!(forge.store.keys().iter().filter(|key| key.contains("/v1/id/")).count(), 1);
    maintain(&mut forge, "gc");
    assert_eq!(forge.store.keys().iter().filter(|key| key.contains("/v1/id/")).count(), 4);
    lead_there(&forge);
    assert_eq!(maintain(&mut forge, "fsck"), nothing());
}

#[test]
fn of_two_old_versions_with_one_id_the_older_keeps_it() {
    // Maintenance visits `a` before `b`, and project 17 before project 7.
    for [old, new] in [[(PUBLIC, "a"), (PUBLIC, "b")], [(PUBLIC, "a"), (17, "a")], [(PUBLIC, "b"), (PUBLIC, "a")]] {
        let mut forge = forge();
        let id = collide(&mut forge, old, new);
        forget_ids(&forge);
        assert_eq!(id_of(&forge, old.0, old.1, "1.0.0"), id_of(&forge, new.0, new.1, "1.0.0"));
        forge.now = Timestamp::from_millis(forge.now.millis() + 24 * 3600 * 1000);
        for _ in 0..2 {
            maintain(&mut forge, "gc");
            let other = id_of(&forge, new.0, new.1, "1.0.0");
            assert_eq!((id_of(&forge, old.0, old.1, "1.0.0"), other != id), (id, true), "{old:?} {new:?}");
            assert_eq!(label(&forge, old.0, id), format!("{}@1.0.0", old.1));
            assert_eq!(label(&forge, new.0, other), format!("{}@1.0.0", new.1));
            let remark = format!("version 1.0.0 has the id {other}, because another version had {id}");
            assert_eq!(maintain(&mut forge, "fsck"), (vec![], vec![remark]));
        }
    }
}

/// A host that dies leaves every state that a publication or a step of maintenance goes through.
#[test]
fn a_host_that_dies_leaves_no_id_without_its_version() {
    let mut forge = forge();
    let id = collide(&mut forge, (INTERNAL, "old"), (PUBLIC, "new"));
    forget_ids(&forge);
    forge.now = Timestamp::from_millis(forge.now.millis() + 24 * 3600 * 1000);
    let gc = || request(Method::POST, "/maintenance/package-registry/gc").by("boot").body("{}");
    for fails_at in 0..60 {
        let store = forge.store.snapshot();
        let failing = FailingStore::after(fails_at, store.clone());
        TestResponse::of(forge.env_over(failing.clone()), gc());
        TestResponse::of(forge.env_over(failing), publication("late", "1.0.0").to(PUBLIC));
        let mut after =
            Forge { store, variables: forge.variables.clone(), entropy: forge.entropy.clone(), now: forge.now };
        maintain(&mut after, "gc");
        assert_eq!(label(&after, INTERNAL, id), "old@1.0.0", "{fails_at}");
        let other = id_of(&after, PUBLIC, "new", "1.0.0");
        assert_eq!((other != id, label(&after, PUBLIC, other)), (true, "new@1.0.0".into()), "{fails_at}");
        assert_eq!(maintain(&mut after, "fsck").0, [""; 0], "{fails_at}");
    }
}

#[test]
fn entries_of_no_version_are_collected() {
    let mut forge = forge();
    forge.publish(PUBLIC, "lib", "1.0.0");
    forge.publish(PUBLIC, "lib", "1.1.0");
    let id = id_of(&forge, PUBLIC, "lib", "1.0.0");
    assert_eq!(forge.send(of(Method::DELETE, PUBLIC, id).by("maintainer")).status, 204);
    let entries = |forge: &Forge| forge.store.keys().iter().filter(|key| key.contains("/v1/id/")).count();
    maintain(&mut forge, "gc");
    assert_eq!(entries(&forge), 2, "it is young");
    forge.now = Timestamp::from_millis(forge.now.millis() + 24 * 3600 * 1000);
    maintain(&mut forge, "gc");
    assert_eq!(entries(&forge), 1);
    assert_eq!(label(&forge, PUBLIC, id_of(&forge, PUBLIC, "lib", "1.1.0")), "lib@1.1.0");
}
