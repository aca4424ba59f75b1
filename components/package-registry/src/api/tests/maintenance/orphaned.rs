//! The removal of a deleted project's packages.

use super::*;
use kit::testing::{CountingStore, FailingStore};

#[test]
fn a_deleted_project_s_packages_are_gone_and_freed() {
    let mut forge = forge();
    forge.variables.push(("registry_name_policy", "shared"));
    let keys = |forge: &Forge| -> Vec<String> {
        let keys = forge.store.keys().into_iter();
        keys.filter(|key| key.starts_with("package-registry/") && !key.ends_with("/init")).collect()
    };
    forge.publish(17, "other", "1.0.0");
    pass(&mut forge, GRACE + 1000);
    gc(&mut forge);
    let others = keys(&forge).len();
    for n in 0..3 {
        forge.publish(PUBLIC, "lib", &format!("1.0.{n}"));
        forge.publish(PUBLIC, "@acme/site", &format!("1.0.{n}"));
    }
    pass(&mut forge, GRACE + 1000);
    directory::dependents::delete_project(&forge.env(), PUBLIC).unwrap();
    assert_eq!(forge.get("/projects/7/packages/npm/lib").status, 404);

    // Another project gets the id before anything is collected.
    forge.project(PUBLIC, "again", 100, Visibility::Public, FeatureAccess::Enabled);
    let group = "/groups/100/-/packages/npm";
    let gone = ["/projects/7/packages/npm/lib", &format!("{group}/lib"), "/packages/npm/@acme%2fsite"];
    for path in gone {
        assert_eq!(forge.get(path).status, 404, "{path}");
    }
    let file = forge.get("/projects/7/packages/npm/lib/-/lib-1.0.0.tgz");
    assert_eq!(file.status, 404);
    let found = |forge: &Forge, level: &str| forge.get(&format!("{level}/-/v1/search?text=")).json()["total"].clone();
    assert_eq!(found(&forge, group), 0);
    forge.publish(PUBLIC, "lib", "1.0.0");
    assert_eq!(forge.get("/projects/7/packages/npm/lib").json()["versions"].as_object().unwrap().len(), 1);
    assert_eq!((forge.get(&format!("{group}/lib")).status, found(&forge, group)), (200, json!(1)));

    let dry = run(&mut forge, "gc", json!({"dry_run": true})).0;
    let before = forge.store.keys().len();
    assert!(dry["removed"].as_u64() > Some(20), "{dry:?}");
    assert!(gc(&mut forge).0 >= 20);
    assert!(forge.store.keys().len() < before);
    assert_eq!(forge.get("/projects/7/packages/npm/lib/-/lib-1.0.0.tgz").status, 200, "the new project's");
    assert_eq!((forge.get(&format!("{group}/lib")).status, found(&forge, group)), (200, json!(1)));
    assert_eq!(forge.get("/projects/17/packages/npm/other/-/other-1.0.0.tgz").status, 200);
    assert_eq!(problems(&mut forge), [""; 0]);

    directory::dependents::delete_project(&forge.env(), PUBLIC).unwrap();
    pass(&mut forge, GRACE + 1000);
    gc(&mut forge);
    let left = keys(&forge);
    assert!(left.iter().all(|key| !key.contains("/package/7")), "{left:#?}");
    assert!(left.iter().all(|key| !key.contains("/project/7")), "{left:#?}");
    let is_empty_listing = |key: &&String| key.contains("/name/") || key.contains("/version/@acme/site/");
    let empty: Vec<&String> = left.iter().filter(is_empty_listing).filter(|key| !key.ends_with("/other")).collect();
    assert_eq!((left.len(), empty.len()), (others + 5, 5), "only the empty listings are left: {left:#?}");
    for key in empty {
        let listing: Value = serde_json::from_slice(&forge.store.get(key).unwrap().unwrap()).unwrap();
        let entries = listing.get("projects").or(listing.get("packages")).unwrap();
        assert!(entries.as_array().unwrap().is_empty(), "{key}: {listing}");
    }
}

const SITE: &str = "package-registry/v1/package/7/@acme/site";

/// The key of the list of projects with a version of `@acme/site`.
fn version_key(number: usize) -> String {
    format!("package-registry/v1/version/@acme/site/1.0.{number}")
}

/// The key of the index of a package's first run.
fn index_key(forge: &Forge, package: &str) -> String {
    let package: Value = serde_json::from_slice(&forge.store.get(package).unwrap().unwrap()).unwrap();
    format!("package-registry/v1/segment/{}/index", package["segments"][0]["id"].as_str().unwrap())
}

/// A deleted project with `@acme/site` in `count` versions, and with `lib`.
fn deleted_project_with_versions(count: usize) -> Forge {
    let mut forge = forge();
    forge.variables.push(("registry_name_policy", "shared"));
    forge.publish(17, "other", "1.0.0");
    forge.publish(PUBLIC, "@acme/site", "1.0.0");
    forge.publish(PUBLIC, "lib", "1.0.0");
    forge.publish(INTERNAL, "@acme/site", "2.0.0");
    let index = index_key(&forge, SITE);
    let line = String::from_utf8(forge.store.get(&index).unwrap().unwrap()).unwrap();
    let rest = line.strip_prefix("1.0.0").unwrap();
    let mut lines: Vec<String> = (0..count).map(|number| format!("1.0.{number}{rest}")).collect();
    lines.sort();
    damage::replace_index(&forge, SITE, &lines.concat());
    for number in 1..count {
        forge.store.set(&version_key(number), format!("{{\"projects\":[{INTERNAL},{PUBLIC}]}}").as_bytes()).unwrap();
    }
    directory::dependents::delete_project(&forge.env(), PUBLIC).unwrap();
    pass(&mut forge, GRACE + 1000);
    forge
}

/// Asserts that nothing is left of the deleted project, and that the lists by version have the other project.
#[track_caller]
fn assert_removed(forge: &Forge, count: usize) {
    let left = forge.store.keys().into_iter().filter(|key| key.contains("/package/7/") || key.contains("/project/7"));
    assert_eq!(left.filter(|key| key.starts_with("package-registry/")).collect::<Vec<_>>(), [""; 0]);
    for number in 1..count {
        let list: Value = serde_json::from_slice(&forge.store.get(&version_key(number)).unwrap().unwrap()).unwrap();
        assert_eq!(list["projects"], json!([INTERNAL]), "{number}");
    }
    assert_eq!(forge.get("/projects/17/packages/npm/other/-/other-1.0.0.tgz").status, 200);
}

#[test]
fn a_package_of_many_versions_is_removed_in_steps() {
    const COUNT: usize = 2_200;
    let mut forge = deleted_project_with_versions(COUNT);
    let dry = run(&mut forge, "gc", json!({"dry_run": true})).0;
    let (mut body, mut removed, mut steps) = (json!({}), 0, 0);
    loop {
        let counting = CountingStore::over(forge.store.clone());
        let answer = TestResponse::of(forge.env_over(counting.clone()), task("gc", &body));
        assert_eq!(answer.status, 200, "{}", answer.text());
        // A swap is three operations.
        assert!(counting.operations() < 3 * 1024 + 200, "{}", counting.operations());
        removed += answer.json()["removed"].as_u64().unwrap();
        steps += 1;
        // Until the root is gone, a check finds only the problems that this test made.
        let is_unlisted = |problem: &String| problem.contains("listing");
        assert!(!problems(&mut forge).iter().any(is_unlisted));
        let wait = answer.json()["wait_seconds"].as_i64().unwrap();
        pass(&mut forge, wait * 1000);
        body["cursor"] = answer.json()["cursor"].clone();
        if body["cursor"].is_null() {
            break;
        }
    }
    assert!(steps >= 4, "{steps}");
    assert_eq!(dry["removed"], removed, "each root and blob is counted once");
    assert_removed(&forge, COUNT);
}

/// A copy of the forge after a step of gc failed at an operation: the first step, or the second.
fn broken_off(whole: &Forge, operations: u64, has_cursor: bool) -> Forge {
    let forge = copy(whole);
    let mut body = json!({});
    if has_cursor {
        body["cursor"] = forge.send(task("gc", &body)).json()["cursor"].clone();
    }
    let failing = FailingStore::after(operations, forge.store.clone());
    let answer = TestResponse::of(forge.env_over(failing.clone()), task("gc", &body));
    assert!(failing.failed() && answer.status >= 500, "{}", answer.text());
    forge
}

#[test]
fn a_removal_in_steps_that_breaks_off_is_repeated_by_the_next_run() {
    const COUNT: usize = 1_300;
    let whole = deleted_project_with_versions(COUNT);
    for (operations, has_cursor) in [(10, false), (3_000, false), (100, true)] {
        let mut forge = broken_off(&whole, operations, has_cursor);
        assert!(forge.store.exists(SITE).unwrap(), "the root goes last");
        gc(&mut forge);
        assert_removed(&forge, COUNT);
    }
}

/// A publication that began before its project was deleted may replace the version run in which a step stopped.
#[test]
fn a_removal_in_steps_begins_again_if_its_run_is_gone() {
    const COUNT: usize = 1_300;
    let mut forge = deleted_project_with_versions(COUNT);
    let cursor = forge.send(task("gc", &json!({}))).json()["cursor"].as_str().unwrap().to_owned();
    let (_, position) = cursor.split_once('.').unwrap();
    let (id, _) = position.split_once('/').unwrap();
    let renamed = format!("{}000000000abc", id.get(..20).unwrap());
    for kind in ["index", "full", "abbreviated"] {
        let blob = forge.store.get(&format!("package-registry/v1/segment/{id}/{kind}")).unwrap().unwrap();
        forge.store.set(&format!("package-registry/v1/segment/{renamed}/{kind}"), &blob).unwrap();
    }
    let package = String::from_utf8(forge.store.get(SITE).unwrap().unwrap()).unwrap();
    forge.store.set(SITE, package.replace(id, &renamed).as_bytes()).unwrap();
    forge.store.set(&version_key(1), format!("{{\"projects\":[{INTERNAL},{PUBLIC}]}}").as_bytes()).unwrap();
    run(&mut forge, "gc", json!({"cursor": cursor}));
    assert_removed(&forge, COUNT);
}

fn copy(forge: &Forge) -> Forge {
    Forge {
        store: forge.store.snapshot(),
        variables: forge.variables.clone(),
        entropy: forge.entropy.clone(),
        now: forge.now,
    }
}

#[test]
fn damaged_records_of_a_deleted_project_do_not_end_the_run() {
    let whole = deleted_project_with_versions(3);
    let (index, lists) = (index_key(&whole, SITE), "package-registry/v1");
    let blobs = |forge: &Forge| -> Vec<String> {
        let is_blob = |key: &String| ["/v1/segment/", "/v1/upload/"].iter().any(|kind| key.contains(kind));
        forge.store.keys().into_iter().filter(is_blob).collect()
    };
    let mut undamaged = copy(&whole);
    gc(&mut undamaged);
    let names = [format!("{lists}/name/@acme/site"), format!("{lists}/project/7"), format!("{lists}/projects")];
    for key in [index.as_str(), SITE, &version_key(1)].into_iter().chain(names.iter().map(String::as_str)) {
        assert!(whole.store.exists(key).unwrap(), "{key}");
        let mut damaged = copy(&whole);
        damaged.store.set(key, b"{").unwrap();
        gc(&mut damaged);
        // `lib` follows, and the blobs of both packages are collected.
        let left = |key: &String| key.contains("/v1/package/7/") || key.contains("/v1/project/7");
        assert_eq!(
            damaged.store.keys().into_iter().filter(left).filter(|key| !key.starts_with("directory/")).count(),
            0
        );
        assert_eq!(blobs(&damaged), blobs(&undamaged), "{key}");
        let other = damaged.get("/projects/17/packages/npm/other/-/other-1.0.0.tgz");
        assert_eq!(other.status, 200, "{key}");
    }
    // If the index of an existing package is damaged, the blobs that it names are unknown.
    let damaged = copy(&whole);
    let index = index_key(&damaged, "package-registry/v1/package/8/@acme/site");
    damaged.store.set(&index, b"{").unwrap();
    let answer = damaged.send(task("gc", &json!({})));
    assert_eq!(answer.status, 409);
    assert!(answer.text().contains(&index), "{}", answer.text());
}

#[test]
fn packages_of_a_project_whose_record_is_damaged_are_kept() {
    let mut forge = deleted_project_with_versions(3);
    let record = forge.store.get("directory/v1/project/8").unwrap().unwrap();
    forge.store.set("directory/v1/project/8", b"{").unwrap();
    let (sums, problems) = run(&mut forge, "gc", json!({}));
    assert_eq!((&sums["failed"], problems.len()), (&json!(1), 1), "{problems:?}");
    assert_eq!(problems[0]["key"], "directory/v1/project/8");
    assert_removed(&forge, 3);
    forge.store.set("directory/v1/project/8", &record).unwrap();
    let file = "/projects/8/packages/npm/@acme/site/-/@acme/site-2.0.0.tgz";
    assert_eq!(forge.send(request(Method::GET, file).by("maintainer")).status, 200);
}

#[test]
fn a_removal_in_steps_goes_on_behind_a_run_that_is_damaged() {
    const COUNT: usize = 1_300;
    let mut forge = deleted_project_with_versions(COUNT);
    let index = index_key(&forge, SITE);
    let id = index.rsplit('/').nth(1).unwrap();
    let second = format!("{}000000000abc", id.get(..20).unwrap());
    let lines = forge.store.get(&index).unwrap().unwrap();
    let mut package: Value = serde_json::from_slice(&forge.store.get(SITE).unwrap().unwrap()).unwrap();
    package["segments"].as_array_mut().unwrap().push(json!({"id": second, "listed": COUNT, "size": 0}));
    forge.store.set(SITE, package.to_string().as_bytes()).unwrap();
    forge.store.set(&format!("package-registry/v1/segment/{second}/index"), &lines).unwrap();
    // A step processes a part of the first run, which is damaged before the next step.
    let cursor = forge.send(task("gc", &json!({}))).json()["cursor"].clone();
    assert!(cursor.as_str().unwrap().contains(id), "{cursor}");
    forge.store.set(&index, b"{").unwrap();
    forge.store.set(&version_key(1), format!("{{\"projects\":[{INTERNAL},{PUBLIC}]}}").as_bytes()).unwrap();
    run(&mut forge, "gc", json!({"cursor": cursor}));
    assert_removed(&forge, COUNT);
}

/// The projects in a listing; `null` if it is absent.
fn listed(forge: &Forge, listing: &str) -> Value {
    if listing == "projects" {
        return json!(crate::store::projects(&forge.env()).unwrap());
    }
    let stored = forge.store.get(&format!("package-registry/v1/{listing}")).unwrap();
    let record: Value = stored.map_or(Value::Null, |bytes| serde_json::from_slice(&bytes).unwrap());
    record["projects"].clone()
}

/// The keys of the lists of names of project 7.
fn lists(forge: &Forge) -> Vec<String> {
    let is_list = |key: &String| ["v1/project/7", "v2/project/7/"].iter().any(|run_ref| key.contains(run_ref));
    forge.store.keys().into_iter().filter(|key| key.starts_with("package-registry/") && is_list(key)).collect()
}

#[test]
fn a_name_whose_publication_broke_off_is_forgotten_with_its_project() {
    let mut broken_off = 0;
    for (operations, has_package) in (0..100).flat_map(|operations| [(operations, false), (operations, true)]) {
        let mut forge = forge();
        if has_package {
            forge.publish(PUBLIC, "lib", "1.0.0");
        }
        let failing = FailingStore::after(operations, forge.store.clone());
        TestResponse::of(forge.env_over(failing), publication("site", "1.0.0").to(PUBLIC));
        let is_package = forge.store.exists("package-registry/v1/package/7/site").unwrap();
        if is_package || listed(&forge, "name/site") != json!([PUBLIC]) {
            continue;
        }
        broken_off += 1;
        gc(&mut forge);
        assert_eq!(listed(&forge, "name/site"), json!([PUBLIC]), "its project is there");
        directory::dependents::delete_project(&forge.env(), PUBLIC).unwrap();
        gc(&mut forge);
        assert_eq!(listed(&forge, "name/site"), json!([]), "{operations}");
        assert_eq!((listed(&forge, "projects"), lists(&forge)), (json!([]), vec![]), "{operations}");
    }
    assert!(broken_off > 2, "{broken_off}");
}

/// A deleted project with names without packages, in current lists or in an earlier build's single list. Another
/// project has the names, too.
fn deleted_project_with_names(count: usize, is_of_earlier_build: bool) -> Forge {
    let mut forge = forge();
    let names: Vec<String> = (0..count).map(|number| format!("lib-{number:05}")).collect();
    let env = forge.env();
    let [deleted, other] = [PUBLIC, INTERNAL].map(|id| directory::project::by_id(&env, id).unwrap().unwrap().key());
    for name in names.iter().map(|name| crate::name::PackageName::parse(name).unwrap()) {
        for project in [&deleted, &other] {
            crate::store::add_project_with_name(&env, &name, project).unwrap();
        }
    }
    if is_of_earlier_build {
        lists(&forge).iter().for_each(|key| forge.store.delete(key).unwrap());
        let list = json!({"packages": names}).to_string();
        forge.store.set("package-registry/v1/project/7", list.as_bytes()).unwrap();
    }
    directory::dependents::delete_project(&env, PUBLIC).unwrap();
    pass(&mut forge, GRACE + 1000);
    forge
}

#[track_caller]
fn assert_names_removed(forge: &Forge, count: usize) {
    assert_eq!((listed(forge, "projects"), lists(forge)), (json!([INTERNAL]), vec![]));
    for number in 0..count {
        assert_eq!(listed(forge, &format!("name/lib-{number:05}")), json!([INTERNAL]), "{number}");
    }
}

#[test]
fn many_names_are_removed_in_steps() {
    const COUNT: usize = 2_200;
    for is_of_earlier_build in [false, true] {
        let mut forge = deleted_project_with_names(COUNT, is_of_earlier_build);
        let (mut body, mut steps) = (json!({}), 0);
        loop {
            let counting = CountingStore::over(forge.store.clone());
            let answer = TestResponse::of(forge.env_over(counting.clone()), task("gc", &body));
            assert_eq!(answer.status, 200, "{}", answer.text());
            assert!(counting.operations() < 3 * 1024 + 400, "{}", counting.operations());
            steps += 1;
            pass(&mut forge, answer.json()["wait_seconds"].as_i64().unwrap() * 1000);
            body["cursor"] = answer.json()["cursor"].clone();
            if body["cursor"].is_null() {
                break;
            }
        }
        assert!(steps >= 4, "{steps}");
        assert_names_removed(&forge, COUNT);
    }
}

#[test]
fn a_removal_of_names_that_breaks_off_is_repeated_by_the_next_run() {
    const COUNT: usize = 1_300;
    for is_of_earlier_build in [false, true] {
        let whole = deleted_project_with_names(COUNT, is_of_earlier_build);
        for (operations, has_cursor) in [(10, false), (3_000, false), (100, true)] {
            let mut forge = broken_off(&whole, operations, has_cursor);
            gc(&mut forge);
            assert_names_removed(&forge, COUNT);
        }
    }
}
