//! Damaged version runs: no published version is taken for an unknown one, and no damage is copied.

use super::*;
use kit::store::Store as _;

const PATH: &str = "/projects/7/packages/npm/lib";
const PACKAGE: &str = "package-registry/v1/package/7/lib";

/// `lib` in one run: 1.0.0 and 1.2.0, and the unpublished versions 1.1.0 and 2.0.0.
fn forge() -> Forge {
    let mut forge = Forge::new();
    forge.variables.push(("bootstrap_admin_token", "boot"));
    for version in ["1.0.0", "1.1.0", "1.2.0", "2.0.0"] {
        forge.publish(PUBLIC, "lib", version);
    }
    let mut document = forge.get(PATH).json();
    for version in ["1.1.0", "2.0.0"] {
        document["versions"].as_object_mut().unwrap().remove(version);
    }
    let path = format!("{PATH}/-rev/{}", document["_rev"].as_str().unwrap());
    let answer = forge.send(request(Method::PUT, &path).by("maintainer").body(document.to_string()));
    assert_eq!(answer.status, 200);
    forge
}

fn package(forge: &Forge) -> Value {
    serde_json::from_slice(&forge.store.get(PACKAGE).unwrap().unwrap()).unwrap()
}

/// Removes the checksums from the package, as earlier builds stored it.
fn as_earlier_builds_wrote_it(forge: Forge) -> Forge {
    let mut package = package(&forge);
    for run in package["segments"].as_array_mut().unwrap() {
        run.as_object_mut().unwrap().remove("checksums").unwrap();
    }
    forge.store.set(PACKAGE, package.to_string().as_bytes()).unwrap();
    forge
}

/// Replaces the index of a package's first run, and the package's data about it.
pub(super) fn replace_index(forge: &Forge, package: &str, index: &str) {
    let mut record: Value = serde_json::from_slice(&forge.store.get(package).unwrap().unwrap()).unwrap();
    let run = &mut record["segments"][0];
    let key = format!("package-registry/v1/segment/{}/index", run["id"].as_str().unwrap());
    forge.store.set(&key, index.as_bytes()).unwrap();
    run["listed"] = index.matches("\tlisted\n").count().into();
    run.as_object_mut().unwrap().remove("checksums");
    forge.store.set(package, record.to_string().as_bytes()).unwrap();
}

/// The key of a blob of the one run.
fn key(forge: &Forge, blob: &str) -> String {
    let package = package(forge);
    assert_eq!(package["segments"].as_array().unwrap().len(), 1);
    format!("package-registry/v1/segment/{}/{blob}", package["segments"][0]["id"].as_str().unwrap())
}

/// The same forge with another value of a blob.
fn with(forge: &Forge, key: &str, value: &[u8]) -> Forge {
    let store = forge.store.snapshot();
    store.set(key, value).unwrap();
    Forge { store, variables: forge.variables.clone(), entropy: forge.entropy.clone(), now: forge.now }
}

fn deprecate(forge: &Forge, message: &str) -> TestResponse {
    let document = json!({"versions": {"1.0.0": {"deprecated": message}}}).to_string();
    forge.send(request(Method::PUT, PATH).by("maintainer").body(document))
}

/// Makes the run so large that the next publication does not merge it.
fn enlarge(forge: &Forge) {
    assert_eq!(deprecate(forge, &"x".repeat(20_000)).status, 200);
}

fn publish_other_bytes(forge: &Forge, version: &str) -> TestResponse {
    let file = tarball("lib", version, b"other bytes");
    forge.send(publication_of("lib", version, &file).to(PUBLIC))
}

#[track_caller]
fn is_corrupt(answer: &TestResponse, key: &str) {
    let cause = answer.cause.clone().unwrap_or_default();
    assert!(answer.status == 500 && cause.contains(key), "{} {cause}", answer.status);
}

/// Asserts that a damaged index is an error to each request that reads it, and that nothing is published.
#[track_caller]
fn index_is_corrupt(forge: &Forge, index: &str) {
    let before = forge.store.get(PACKAGE).unwrap();
    for version in ["1.0.0", "1.1.0", "1.2.0", "2.0.0", "1.3.0"] {
        is_corrupt(&publish_other_bytes(forge, version), index);
    }
    is_corrupt(&forge.get(&format!("{PATH}/-/lib-1.0.0.tgz")), index);
    is_corrupt(&forge.get(&format!("{PATH}/1.2.0")), index);
    is_corrupt(&forge.get("/projects/7/packages"), index);
    is_corrupt(&deprecate(forge, "old"), index);
    assert_eq!(forge.store.get(PACKAGE).unwrap(), before);
    for task in ["gc", "fsck"] {
        let path = format!("/maintenance/package-registry/{task}");
        let answer = forge.send(request(Method::POST, &path).by("boot").body("{}"));
        assert!(answer.text().contains(index), "{task}: {}", answer.text());
    }
}

fn replaced(text: &[u8], from: &str, to: &str) -> Vec<u8> {
    let text = String::from_utf8(text.to_vec()).unwrap();
    assert!(text.contains(from));
    text.replacen(from, to, 1).into_bytes()
}

#[test]
fn a_damaged_index_is_an_error_and_frees_no_version() {
    for intact in [forge(), as_earlier_builds_wrote_it(forge())] {
        let index = key(&intact, "index");
        let text = intact.store.get(&index).unwrap().unwrap();
        let first = text.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        for damaged in [
            &text[..text.len() / 2],
            &text[..text.len() - 1],
            &text[..first],
            &text[first..],
            b"",
            b"\n",
            b"\xff",
            &replaced(&text, "listed", "listee"),
            &replaced(&text, "reserved", "reserve"),
            &replaced(&text, "reserved", "listed"),
            &replaced(&text, "1.0.0", "9.0.0"),
        ] {
            index_is_corrupt(&with(&intact, &index, damaged), &index);
        }
    }
}

#[test]
fn no_byte_of_an_index_can_change() {
    let intact = forge();
    let index = key(&intact, "index");
    let text = intact.store.get(&index).unwrap().unwrap();
    for at in 0..text.len() {
        let mut damaged = text.clone();
        damaged[at] ^= 1;
        let damaged = with(&intact, &index, &damaged);
        for version in ["1.0.0", "1.1.0"] {
            is_corrupt(&publish_other_bytes(&damaged, version), &index);
        }
        is_corrupt(&damaged.get(&format!("{PATH}/-/lib-1.2.0.tgz")), &index);
    }
}

/// An unpublication and a deprecation read whole runs, whose blobs the instance caches.
#[test]
fn a_damaged_index_is_not_cached_by_changes() {
    let intact = forge();
    enlarge(&intact);
    let index = key(&intact, "index");
    let text = intact.store.get(&index).unwrap().unwrap();
    let damaged = with(&intact, &index, &replaced(&text, "1.2.0\t", "1.2~0\t"));
    let revision = intact.get(PATH).json()["_rev"].as_str().unwrap().to_owned();
    let env = damaged.env();
    let removal = request(Method::DELETE, &format!("{PATH}/-rev/{revision}")).by("maintainer");
    is_corrupt(&TestResponse::of(env.clone(), removal), &index);
    let file = tarball("lib", "1.2.0", b"other bytes");
    is_corrupt(&TestResponse::of(env.clone(), publication_of("lib", "1.2.0", &file).to(PUBLIC)), &index);
    is_corrupt(&TestResponse::of(env.clone(), request(Method::GET, &format!("{PATH}/1.2.0")).by("maintainer")), &index);
    damaged.store.set(&index, &text).unwrap();
    assert_eq!(TestResponse::of(env, request(Method::GET, &format!("{PATH}/1.2.0")).by("maintainer")).status, 200);
}

#[test]
fn damaged_latest_fields_are_an_error() {
    let intact = Forge::new();
    intact.publish(PUBLIC, "lib", "1.0.0");
    let fields = intact.store.keys().into_iter().find(|key| key.ends_with("/about")).unwrap();
    let text = br#","description":"a library","readme":"how to use it""#;
    assert_eq!(with(&intact, &fields, text).get(PATH).json()["readme"], "how to use it");
    for damaged in [&text[..text.len() / 2], &text[1..], b"\xff", b"}"] {
        is_corrupt(&with(&intact, &fields, damaged).get(PATH), &fields);
    }
}

#[test]
fn a_lost_line_of_an_unpublished_version_of_an_earlier_build_frees_no_number() {
    let intact = as_earlier_builds_wrote_it(forge());
    let index = key(&intact, "index");
    let text = String::from_utf8(intact.store.get(&index).unwrap().unwrap()).unwrap();
    let last = text.find("2.0.0\t").unwrap();
    let damaged = with(&intact, &index, &text.as_bytes()[..last]);
    for version in ["2.0.0", "1.3.0"] {
        is_corrupt(&publish_other_bytes(&damaged, version), &index);
    }
}

#[test]
fn a_publication_adds_the_checksums_that_earlier_builds_did_not_store() {
    let checksums = |forge: &Forge| package(forge)["segments"][0]["checksums"].clone();
    let intact = forge();
    enlarge(&intact);
    let expected = checksums(&intact);
    assert_eq!(expected.as_array().unwrap().len(), 3);
    let forge = as_earlier_builds_wrote_it(intact);
    forge.publish(PUBLIC, "lib", "3.0.0");
    assert_eq!(package(&forge)["segments"].as_array().unwrap().len(), 2, "the first is too large to be merged");
    assert_eq!(checksums(&forge), expected);
}

#[test]
fn damaged_records_are_not_copied_to_other_runs() {
    for intact in [forge(), as_earlier_builds_wrote_it(forge())] {
        for blob in ["full", "abbreviated"] {
            let form = key(&intact, blob);
            let text = intact.store.get(&form).unwrap().unwrap();
            let mut end = text.clone();
            *end.last_mut().unwrap() = b'!';
            let times = replaced(&text, "1.2.0\":\"20", "1.2.0\":\"21");
            for damaged in [&end[..], &times, &replaced(&text, "},\n", "}!\n"), &replaced(&text, "},\n", "},\r")] {
                let damaged = with(&intact, &form, damaged);
                is_corrupt(&publish_other_bytes(&damaged, "1.3.0"), &form);
                is_corrupt(&deprecate(&damaged, "old"), &form);
            }
        }
    }
}

#[test]
fn damaged_records_are_not_served() {
    let intact = forge();
    let abbreviated = |forge: &Forge| {
        forge.send(request(Method::GET, PATH).by("maintainer").with("accept", "application/vnd.npm.install-v1+json"))
    };
    assert_eq!(abbreviated(&intact).status, 200);
    for (blob, from, to) in [("full", "lib-1.2.0.tgz", "lib-1.2.1.tgz"), ("abbreviated", "},\n\"", "}!\n\"")] {
        let form = key(&intact, blob);
        let text = intact.store.get(&form).unwrap().unwrap();
        let damaged = with(&intact, &form, &replaced(&text, from, to));
        if blob == "full" {
            is_corrupt(&damaged.get(PATH), &form);
            is_corrupt(&damaged.get(&format!("{PATH}/1.2.0")), &form);
        } else {
            is_corrupt(&abbreviated(&damaged), &form);
            is_corrupt(&damaged.get("/projects/7/packages?per_page=1"), &form);
        }
    }
}

#[test]
fn a_record_that_a_form_has_lost_is_an_error() {
    let intact = forge();
    let form = key(&intact, "full");
    let text = intact.store.get(&form).unwrap().unwrap();
    let damaged = with(&intact, &form, &replaced(&text, "\"1.2.0\":{", "\"1.2.1\":{"));
    is_corrupt(&damaged.get(&format!("{PATH}/1.2.0")), &form);
}

/// The problems that `fsck` finds.
pub(super) fn problems(forge: &Forge) -> Vec<String> {
    let answer = forge.send(request(Method::POST, "/maintenance/package-registry/fsck").by("boot").body("{}")).json();
    let problems = answer["problems"].as_array().cloned().unwrap_or_default();
    problems.iter().map(|problem| problem["problem"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn a_check_finds_every_changed_byte_of_a_run() {
    let intact = forge();
    assert_eq!(problems(&intact), [""; 0]);
    for blob in ["index", "full", "abbreviated"] {
        let key = key(&intact, blob);
        let text = intact.store.get(&key).unwrap().unwrap();
        for at in 0..text.len() {
            let mut damaged = text.clone();
            damaged[at] ^= 1;
            let found = problems(&with(&intact, &key, &damaged));
            assert_eq!(found, [format!("`{key}`: its checksum differs")], "byte {at}");
        }
    }
}

#[test]
fn a_check_compares_the_records_of_earlier_builds_with_each_other() {
    let intact = as_earlier_builds_wrote_it(forge());
    assert_eq!(problems(&intact), [""; 0]);
    intact.publish(PUBLIC, "other", "1.0.0");
    let other = intact.store.keys().into_iter().rfind(|key| key.ends_with("/abbreviated")).unwrap();
    let other = intact.store.get(&other).unwrap().unwrap();
    let abbreviated = key(&intact, "abbreviated");
    let text = intact.store.get(&abbreviated).unwrap().unwrap();
    let not_the_index = format!("`{abbreviated}`: not the records of the versions that the index lists");
    for (damaged, problem) in [
        (
            replaced(&text, "\"integrity\":\"sha512-", "\"integrity\":\"sha256-"),
            "version 1.0.0: its abbreviated record differs from its full one",
        ),
        (other, &not_the_index),
    ] {
        assert_eq!(problems(&with(&intact, &abbreviated, &damaged)), [problem]);
    }
    let full = key(&intact, "full");
    let mut text = intact.store.get(&full).unwrap().unwrap();
    *text.last_mut().unwrap() = b'!';
    assert_eq!(problems(&with(&intact, &full, &text)), [not_the_index.replace("abbreviated", "full")]);
}

#[test]
fn a_check_goes_on_after_a_damaged_run() {
    let forge = forge();
    enlarge(&forge);
    let index = key(&forge, "index");
    forge.publish(PUBLIC, "lib", "3.0.0");
    forge.store.set(&index, b"").unwrap();
    let chunk = forge.store.keys().into_iter().rfind(|key| key.contains("/upload/") && key.ends_with("/0")).unwrap();
    forge.store.set(&chunk, b"damaged").unwrap();
    let found = problems(&forge);
    assert!(found.len() == 2 && found[0].contains(&index) && found[1].contains(&chunk), "{found:?}");
}
