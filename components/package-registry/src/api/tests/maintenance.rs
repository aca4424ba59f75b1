//! Garbage collection and consistency checks.

mod orphaned;

use super::*;
use crate::tarball::tests::tarball;
use kit::gc::{GRACE, LONGEST_WRITE};
use kit::store::Store as _;

fn forge() -> Forge {
    let mut forge = Forge::new();
    forge.variables.push(("bootstrap_admin_token", "boot"));
    forge
}

fn task(name: &str, body: &Value) -> TestRequest {
    request(Method::POST, &format!("/maintenance/package-registry/{name}")).by("boot").body(body.to_string())
}

/// Every step of a task: the sums of its numbers, and its problems.
#[track_caller]
fn run(forge: &mut Forge, name: &str, mut body: Value) -> (serde_json::Map<String, Value>, Vec<Value>) {
    let (mut sums, mut problems) = (serde_json::Map::new(), Vec::new());
    loop {
        let answer = forge.send(task(name, &body));
        assert_eq!(answer.status, 200, "{}", answer.text());
        let answer = answer.json();
        problems.extend(answer["problems"].as_array().cloned().unwrap_or_default());
        for (name, value) in answer.as_object().unwrap() {
            if let Some(number) = value.as_u64() {
                let sum = sums.get(name).and_then(Value::as_u64).unwrap_or_default();
                sums.insert(name.clone(), (sum + number).into());
            }
        }
        let wait = answer["wait_seconds"].as_i64().unwrap_or_default();
        forge.now = Timestamp::from_millis(forge.now.millis() + wait * 1000);
        if answer["cursor"].is_null() {
            return (sums, problems);
        }
        body["cursor"] = answer["cursor"].clone();
    }
}

fn gc(forge: &mut Forge) -> (u64, u64) {
    let (sums, _) = run(forge, "gc", json!({}));
    (sums["removed"].as_u64().unwrap(), sums["removed_bytes"].as_u64().unwrap())
}

fn problems(forge: &mut Forge) -> Vec<String> {
    let (sums, problems) = run(forge, "fsck", json!({}));
    assert_eq!(sums["failed"], problems.len());
    problems.iter().map(|problem| problem["problem"].as_str().unwrap().to_owned()).collect()
}

fn pass(forge: &mut Forge, millis: i64) {
    forge.now = Timestamp::from_millis(forge.now.millis() + millis);
}

/// Every document and every file, as clients receive them.
fn seen(forge: &Forge, names: &[&str]) -> Vec<Vec<u8>> {
    let mut seen = Vec::new();
    for name in names {
        let path = format!("/projects/7/packages/npm/{name}");
        let document = forge.get(&path);
        for version in document.json()["versions"].as_object().unwrap().keys() {
            let file = forge.get(&format!("{path}/-/{name}-{version}.tgz"));
            assert_eq!(file.status, 200);
            seen.push(file.body);
        }
        seen.push(document.body);
        let abbreviated = request(Method::GET, &path).with("accept", "application/vnd.npm.install-v1+json");
        seen.push(forge.send(abbreviated).body);
    }
    seen
}

#[test]
fn tasks_are_for_administrators() {
    let forge = forge();
    for name in ["gc", "fsck"] {
        let status = |request: TestRequest| forge.send(request).status;
        assert_eq!(status(task(name, &json!({})).by("")), 401);
        assert_eq!(status(task(name, &json!({})).by("maintainer")), 403);
        assert_eq!(status(task(name, &json!({}))), 200);
        for body in ["x", "[1]", "{\"cursor\":7}", "{\"cursor\":\"\"}", "{\"cursor\":\"x:y\"}"] {
            let answer = forge.send(task(name, &json!({})).body(body));
            assert_eq!(answer.status, 400, "{name} {body}: {}", answer.text());
        }
    }
}

#[test]
fn garbage_is_removed_and_responses_stay_the_same() {
    let mut forge = forge();
    for n in 0..40 {
        forge.publish(PUBLIC, "lib", &format!("1.0.{n}"));
    }
    let large = publication_of("big", "1.0.0", &tarball("big", "1.0.0", &vec![7; 3 << 20]));
    assert_eq!(forge.send(large.to(PUBLIC)).status, 200);
    forge.publish(PUBLIC, "big", "1.0.1");
    let revision = forge.get("/projects/7/packages/npm/big").json()["_rev"].as_str().unwrap().to_owned();
    let unpublished = json!({"versions": {"1.0.1": {}}}).to_string();
    let path = format!("/projects/7/packages/npm/big/-rev/{revision}");
    assert_eq!(forge.send(request(Method::PUT, &path).by("maintainer").body(unpublished)).status, 200);
    // A publication whose connection closed after two chunks were written.
    let broken = publication_of("big", "2.0.0", &tarball("big", "2.0.0", &vec![8; 3 << 20]));
    forge.send(broken.to(PUBLIC).cut_off(3500));
    let before = seen(&forge, &["lib", "big"]);

    assert_eq!(gc(&mut forge).0, 0, "everything is young");
    pass(&mut forge, GRACE + 1000);
    let dry = run(&mut forge, "gc", json!({"dry_run": true})).0;
    let keys = forge.store.keys().len() as u64;
    let (removed, bytes) = gc(&mut forge);
    assert_eq!((dry["removed"].as_u64(), dry["removed_bytes"].as_u64()), (Some(removed), Some(bytes)));
    assert!(removed > 100, "39 merges left three blobs each: {removed}");
    assert_eq!(forge.store.keys().len() as u64, keys - removed);
    assert_eq!(seen(&forge, &["lib", "big"]), before);
    assert_eq!(gc(&mut forge), (0, 0));
    assert_eq!(problems(&mut forge), [""; 0]);
    forge.publish(PUBLIC, "lib", "2.0.0");
    let taken = forge.send(publication("big", "1.0.0").to(PUBLIC));
    taken.is_refused(403, "big@1.0.0 was unpublished, and its number is not used again: publish another version");
}

/// So many projects take several pages.
#[test]
fn pages_of_the_list_of_projects_are_kept_by_a_collection_and_checked() {
    let mut forge = forge();
    let listing = json!({"projects": (10_000..13_000).collect::<Vec<u64>>()}).to_string();
    forge.store.set("package-registry/v1/projects", listing.as_bytes()).unwrap();
    forge.publish(PUBLIC, "lib", "1.0.0");
    let pages = |forge: &Forge| forge.store.list("package-registry/v3/projects/", "", 100).unwrap();
    let written = pages(&forge);
    assert!(written.len() > 2, "{written:?}");
    let unnamed = format!("package-registry/v3/projects/{}", forge.env().id());
    forge.store.set(&unnamed, b"{}").unwrap();
    assert_eq!(problems(&mut forge), [""; 0]);
    pass(&mut forge, GRACE + 1000);
    assert_eq!(gc(&mut forge).0, 1, "a page that the root does not name");
    assert_eq!(pages(&forge), written);

    forge.store.set("package-registry/v1/projects", b"{").unwrap();
    let report = run(&mut forge, "gc", json!({}));
    assert_eq!(report.1[0]["key"], "package-registry/v1/projects", "{report:?}");
    assert_eq!(pages(&forge), written, "pages of a damaged list are kept");
    assert!(!problems(&mut forge).is_empty());
}

#[test]
fn a_publication_that_began_long_before_a_run_is_whole_or_refused() {
    for (took, status) in [(LONGEST_WRITE, 200), (LONGEST_WRITE + 1, 408)] {
        let mut forge = forge();
        forge.publish(PUBLIC, "lib", "1.0.0");
        let document = publication_of("lib", "2.0.0", &tarball("lib", "2.0.0", &vec![1; 2 << 20]));
        // The request keeps its start time; garbage is collected while its body arrives.
        let mut env = forge.env();
        env.clock = Rc::new(Timestamp::from_millis(forge.now.millis() + took));
        let mut collector = Forge {
            store: forge.store.clone(),
            variables: forge.variables.clone(),
            entropy: forge.entropy.clone(),
            now: forge.now,
        };
        pass(&mut collector, took);
        let mut sent = document.to(PUBLIC);
        let rest = sent.body.split_off(2500);
        let mut http = Request::new(sent.method.clone(), &sent.path);
        http.headers.insert("authorization", HeaderValue::from_static("Bearer developer"));
        let during = std::iter::once_with(move || {
            gc(&mut collector);
            rest.into_iter()
        });
        http.body = Body::pull(sent.body.into_iter().chain(during.flatten()));
        let answer = handle(env, http).now_or_never().unwrap();
        assert_eq!(answer.status.as_u16(), status);
        pass(&mut forge, took);
        assert_eq!(problems(&mut forge), [""; 0]);
        pass(&mut forge, GRACE * 2);
        gc(&mut forge);
        assert_eq!(problems(&mut forge), [""; 0]);
        let versions = forge.get("/projects/7/packages/npm/lib").json()["versions"].as_object().unwrap().len();
        assert_eq!(versions, if status == 200 { 2 } else { 1 });
    }
}

#[test]
fn a_damaged_package_stops_the_removal() {
    let mut forge = forge();
    forge.publish(PUBLIC, "lib", "1.0.0");
    let index = forge.store.keys().into_iter().find(|key| key.ends_with("/index")).unwrap();
    let whole = forge.store.get(&index).unwrap().unwrap();
    pass(&mut forge, GRACE * 2);
    for damaged in [None, Some(&whole[..whole.len() - 1]), Some(&b"\xff"[..]), Some(b"1.0.0\tu\n")] {
        match damaged {
            Some(bytes) => forge.store.set(&index, bytes).unwrap(),
            None => forge.store.delete(&index).unwrap(),
        }
        let keys = forge.store.keys();
        let answer = forge.send(task("gc", &json!({})));
        assert_eq!(answer.status, 409);
        assert!(answer.text().contains(&index), "{}", answer.text());
        assert_eq!(forge.store.keys(), keys);
    }
    let stray = "package-registry/v1/package/7/lib/more";
    forge.store.set(&index, &whole).unwrap();
    forge.store.set(stray, b"{}").unwrap();
    assert!(forge.send(task("gc", &json!({}))).text().contains(stray));
}

#[test]
fn every_kind_of_damage_is_found_and_named() {
    let mut intact = forge();
    intact.publish(PUBLIC, "lib", "1.0.0");
    intact.publish(PUBLIC, "@acme/init", "1.0.0");
    let (sums, found) = run(&mut intact, "fsck", json!({}));
    assert_eq!((found.len(), &sums["roots"], &sums["blobs"]), (0, &json!(2), &json!(2)));
    assert!(sums["bytes"].as_u64() > Some(100), "{sums:?}");

    let keys = intact.store.keys();
    let of_package = |key: &&String| {
        ["/upload/", "/segment/", "/package/", "/projects", "v1/project/", "/name/"]
            .iter()
            .any(|run_ref| key.contains(run_ref))
            && key.starts_with("package-registry/")
            && !key.ends_with("/init")
            || key.ends_with("/package/7/@acme/init")
    };
    for key in keys.iter().filter(of_package) {
        let damaged = Forge {
            store: intact.store.snapshot(),
            variables: intact.variables.clone(),
            entropy: intact.entropy.clone(),
            now: intact.now,
        };
        let mut value = damaged.store.get(key).unwrap().unwrap();
        let middle = value.len() / 2;
        value[middle] ^= 0x20;
        damaged.store.set(key, &value).unwrap();
        let mut damaged = damaged;
        let found = problems(&mut damaged);
        // Free text, such as a readme, is not checked.
        let is_free_text = key.ends_with("/about") || key.contains("/package/");
        assert!(!found.is_empty() || is_free_text, "a changed byte in {key}");
        if !key.contains("/package/") {
            damaged.store.delete(key).unwrap();
            assert!(!problems(&mut damaged).is_empty(), "{key} is missing");
        }
    }
}

#[test]
fn a_step_continues_after_the_last_file() {
    let mut forge = forge();
    for n in 0..3 {
        forge.publish(PUBLIC, "lib", &format!("1.0.{n}"));
    }
    let uploads: Vec<String> = forge.store.keys().into_iter().filter(|key| key.contains("/upload/")).collect();
    let first = uploads[0].split('/').nth(3).unwrap();
    let cursor = format!("{first}:package-registry/v1/package/7/lib");
    let (sums, _) = run(&mut forge, "fsck", json!({"cursor": cursor}));
    assert_eq!((&sums["blobs"], &sums["roots"]), (&json!(2), &json!(1)), "what comes after the first file");
}

#[test]
fn packages_of_a_project_that_is_not_imported_yet_are_kept() {
    let mut forge = forge();
    forge.publish(PUBLIC, "lib", "1.0.0");
    let key = "directory/v1/project/7";
    let record = forge.store.get(key).unwrap().unwrap();
    forge.store.delete(key).unwrap();
    pass(&mut forge, GRACE + 1000);
    assert_eq!(gc(&mut forge).0, 0);
    forge.store.set(key, &record).unwrap();
    assert_eq!(forge.get("/projects/7/packages/npm/lib/-/lib-1.0.0.tgz").status, 200);
}
