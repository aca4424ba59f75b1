//! Records that an earlier build stored, committed under `golden/`, are read by this one.

use super::*;
use kit::store::Store as _;
use std::fs;
use std::path::Path;

/// A forge whose packages are the files under `golden/v1`: each file's path there is its key.
fn forge() -> Forge {
    let mut forge = Forge::new();
    forge.variables.push(("bootstrap_admin_token", "boot"));
    store_files(&forge, "v1", "package-registry/v1/");
    // The ids of the files came from this test's source of ids; skip them.
    (0..1000).for_each(|_| drop(forge.env().id()));
    forge
}

/// Stores the files of a folder of `golden/`. The key is `prefix` and the file's path in the folder.
fn store_files(forge: &Forge, folder: &str, prefix: &str) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(folder);
    let mut folders = vec![folder.clone()];
    while let Some(inner) = folders.pop() {
        for entry in fs::read_dir(inner).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let key = path.strip_prefix(&folder).unwrap().to_str().unwrap();
            // A file system has no `upload/<id>` beside `upload/<id>/0`.
            let key = format!("{prefix}{}", key.trim_end_matches("/record"));
            forge.store.set(&key, &fs::read(&path).unwrap()).unwrap();
        }
    }
}

/// The packages' files are no archives: archives are checked when they are published, not when they are read. The
/// records have this history: `@acme/lib` 1.0.0, 1.1.0-rc.1+build.7 and 1.0.1 were published to project 7, 1.0.0 was
/// tagged `feat/x` and deprecated, and 1.0.1 was unpublished. The attestations of 1.0.0 come from a later build.
#[test]
fn records_of_earlier_builds_are_read() {
    let forge = forge();
    assert_eq!(damage::problems(&forge), [""; 0]);
    let document = forge.get("/packages/npm/@acme%2flib").json();
    let versions: Vec<&str> = document["versions"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(versions, ["1.0.0", "1.1.0-rc.1+build.7"]);
    assert_eq!(document["dist-tags"], json!({"feat/x": "1.0.0", "latest": "1.1.0-rc.1+build.7"}));
    assert_eq!(document["time"]["1.0.0"], "2026-09-21T14:13:20.000Z");
    assert_eq!(document["readme"], "# 1.1.0-rc.1+build.7");
    let record = &document["versions"]["1.0.0"];
    assert_eq!((&record["deprecated"], &record["dependencies"]), (&json!("use \"1.1\""), &json!({"x": "^1.0.0"})));
    for version in versions {
        let file = format!("/packages/npm/@acme/lib/-/lib-{version}.tgz");
        assert_eq!(forge.get(&file).text(), format!("bytes of @acme/lib {version}"));
    }
    let attestations = forge.get("/packages/npm/-/npm/v1/attestations/@acme%2flib@1.0.0").json();
    assert_eq!(attestations["attestations"][0]["predicateType"], "https://slsa.dev/provenance/v1");
    // The index has the id of 1.0.0, and not the id of the other version.
    for (id, version) in [(512, "1.0.0"), (0x800, "1.1.0-rc.1+build.7")] {
        assert_eq!(forge.get(&format!("/projects/7/packages/{id}")).json()["version"], version);
    }
    let rules = forge.send(request(Method::GET, "/projects/7/packages/protection/rules").by("maintainer")).json();
    assert_eq!((&rules[0]["id"], &rules[0]["minimum_access_level_for_push"]), (&json!(5), &json!("owner")));
    let found = forge.get("/packages/npm/-/v1/search?text=lib").json();
    assert_eq!((&found["total"], &found["objects"][0]["package"]["name"]), (&json!(1), &json!("@acme/lib")));
    let unpublished = "@acme/lib@1.0.1 was unpublished, and its number is not used again: publish another version";
    forge.send(publication("@acme/lib", "1.0.1").to(PUBLIC)).is_refused(403, unpublished);
    forge.send(publication("@acme/lib", "1.0.0").to(PUBLIC)).is_refused(403, "Package already exists.");
    // Equal bytes are recognised, and checked by today's rules.
    let repeated = publication_of("@acme/lib", "1.0.0", b"bytes of @acme/lib 1.0.0");
    forge.send(repeated.to(PUBLIC)).is_refused(400, "Attachment is not a gzip file: invalid gzip header");
    forge.publish(PUBLIC, "@acme/lib", "1.0.2");
    assert_eq!(forge.get("/packages/npm/@acme%2flib").json()["versions"].as_object().unwrap().len(), 3);
    assert_eq!(damage::problems(&forge), [""; 0]);
}

/// A former tree of project 7: 512 names without packages, `@acme/name-0` to `-511`, and then `@acme/lib`.
#[test]
fn lists_of_names_of_format_2_are_read() {
    let forge = forge();
    store_files(&forge, "v2", "package-registry/");
    assert_eq!(damage::problems(&forge), [""; 0]);
    let found = |text: &str| forge.get(&format!("/projects/7/packages/npm/-/v1/search?text={text}")).json();
    assert_eq!(found("lib")["objects"][0]["package"]["name"], "@acme/lib");
    assert_eq!(found("name")["total"], 0);
    for name in ["@acme/name-0", "@acme/name-511", "@acme/name-512"] {
        forge.publish(PUBLIC, name, "1.0.0");
    }
    assert_eq!((&found("name")["total"], &found("")["total"]), (&json!(3), &json!(4)));
    let rewritten = forge.store.get("package-registry/v1/project/7").unwrap().unwrap();
    let rewritten: Value = serde_json::from_slice(&rewritten).unwrap();
    assert!(rewritten.get("packages").is_none(), "a build before fails: {rewritten}");
    assert_eq!(damage::problems(&forge), [""; 0]);
}

#[test]
fn the_list_of_projects_of_format_2_is_read_and_rewritten_when_a_project_gets_its_first_package() {
    let forge = forge();
    let root = || forge.store.get("package-registry/v1/projects").unwrap().unwrap();
    assert_eq!(root(), br#"{"projects":[7]}"#);
    forge.publish(PUBLIC, "@acme/lib", "1.0.2");
    assert_eq!(root(), br#"{"projects":[7]}"#, "the project is listed");
    forge.publish(PRIVATE, "@acme/other", "1.0.0");
    assert!(forge.store.exists("package-registry/v3/format").unwrap(), "a host refuses the build before");
    let former: serde_json::Value = serde_json::from_slice(&root()).unwrap();
    assert!(former.get("projects").is_none(), "a build before fails: {former}");
    let found = forge.get("/packages/npm/-/v1/search?text=lib").json();
    assert_eq!(found["objects"][0]["package"]["name"], "@acme/lib");
    assert_eq!(damage::problems(&forge), [""; 0]);
}
