//! A publisher's statements about a file, against the file itself and the registry's own values.

use super::*;
use crate::tarball::tests::tarball_of;

#[test]
fn forged_fields_of_a_publication_are_replaced_or_removed() {
    let forge = Forge::new();
    forge.token("deploy", Subject::Deployment(Source::Project(PUBLIC)), &["write_package_registry"]);
    let forged = |version: &str| {
        publication("lib", version).change(|document| {
            for (_, manifest) in document["versions"].as_object_mut().unwrap() {
                for (field, value) in [
                    ("_npmUser", json!({"name": "mallory", "email": "m@example.org"})),
                    ("maintainers", json!([{"name": "mallory"}])),
                    ("_npmVersion", json!("99.0.0")),
                    ("_id", json!("other@9.9.9")),
                    ("hasInstallScript", json!(true)),
                    ("_hasShrinkwrap", json!(true)),
                ] {
                    manifest[field] = value;
                }
                manifest["dist"]["fileCount"] = json!(1_000_000);
                manifest["dist"]["unpackedSize"] = json!(1);
            }
        })
    };
    let published = |version: &str, request: TestRequest| {
        let answer = forge.send(request);
        assert_eq!(answer.status, 200, "{}", answer.text());
        let document = forge.get("/projects/7/packages/npm/lib").json();
        assert_eq!(document["maintainers"], json!([{"name": "maintainer", "email": ""}]), "the members");
        document["versions"][version].clone()
    };
    let record = published("1.0.0", forged("1.0.0").to(PUBLIC));
    assert_eq!(record["_npmUser"], json!({"name": "developer", "email": ""}));
    assert_eq!((&record["_npmVersion"], &record["_id"]), (&json!("11.19.1"), &json!("lib@1.0.0")));
    assert_eq!((&record["dist"]["fileCount"], &record["dist"]["unpackedSize"]), (&json!(2), &json!(39)));
    for field in ["maintainers", "hasInstallScript", "_hasShrinkwrap"] {
        assert_eq!(record.get(field), None, "{field}");
    }
    let mut by_deploy_token = forged("1.0.1").to(PUBLIC).by("deploy");
    by_deploy_token.headers = vec![("user-agent", "pnpm/12.21.0 npm/? node/? linux x64".into())];
    let record = published("1.0.1", by_deploy_token);
    assert_eq!((record.get("_npmUser"), record.get("_npmVersion")), (None, None));
}

#[test]
fn a_document_that_differs_from_its_file_is_refused_by_field() {
    let mut forge = Forge::new();
    let publish = |forge: &Forge, version: &str, change: fn(&mut Value)| {
        let change = |document: &mut Value| change(&mut document["versions"][version]);
        forge.send(publication("lib", version).change(change).to(PUBLIC))
    };
    for (change, field) in [
        ((|manifest| manifest["dependencies"] = json!({"evil": "1"})) as fn(&mut Value), "dependencies"),
        (|manifest| manifest["bin"] = json!("payload"), "bin"),
        (|manifest| manifest["scripts"] = json!({"test": "t", "postinstall": "evil"}), "scripts.postinstall"),
        (|manifest| manifest["engines"] = json!({"node": "1"}), "engines"),
        (|manifest| manifest["os"] = json!(["linux"]), "os"),
        (|manifest| manifest["cpu"] = json!("x64"), "cpu"),
    ] {
        let answer = publish(&forge, "1.0.0", change);
        let text = answer.json()["error"].as_str().unwrap().to_owned();
        assert_eq!(answer.status, 400);
        assert!(text.starts_with(&format!("Validation failed: Package json has another `{field}` than")), "{text}");
    }
    // npm writes this script for a `binding.gyp`, even if it does not pack the file.
    let gyp =
        publish(&forge, "1.0.0", |manifest| manifest["scripts"] = json!({"install": "node-gyp rebuild", "t": "x"}));
    assert_eq!(gyp.status, 200, "{}", gyp.text());
    let record = &forge.get("/projects/7/packages/npm/lib").json()["versions"]["1.0.0"];
    assert_eq!((&record["scripts"], record.get("hasInstallScript")), (&json!({"t": "x"}), None));

    forge.variables.push(("registry_manifest_mismatch", "file"));
    let answer = publish(&forge, "1.0.1", |manifest| manifest["dependencies"] = json!({"evil": "1"}));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let document = forge.get("/projects/7/packages/npm/lib").json();
    assert_eq!(document["versions"]["1.0.1"].get("dependencies"), None);
    assert_eq!(document["versions"]["1.0.1"]["description"], "d");
}

#[test]
fn install_scripts_and_shrinkwraps_are_announced_from_the_file() {
    let forge = Forge::new();
    let publish = |version: &str, files: &[(&str, &str)]| {
        let manifest = format!(r#"{{"name":"lib","version":"{version}"}}"#);
        let mut all = vec![("package/package.json", manifest.as_str())];
        all.extend(files);
        let answer = forge.send(publication_of("lib", version, &tarball_of(&all)).to(PUBLIC));
        assert_eq!(answer.status, 200, "{}", answer.text());
        let path = "/projects/7/packages/npm/lib";
        let abbreviated = forge.send(request(Method::GET, path).with("accept", "application/vnd.npm.install-v1+json"));
        [forge.get(path), abbreviated].map(|document| {
            let record = document.json()["versions"][version].clone();
            (record["hasInstallScript"] == true, record["_hasShrinkwrap"] == true)
        })
    };
    assert_eq!(publish("1.0.0", &[]), [(false, false); 2]);
    assert_eq!(publish("1.0.1", &[("package/binding.gyp", "{}")]), [(true, false); 2]);
    assert_eq!(publish("1.0.2", &[("package/src/binding.gyp", "{}")]), [(false, false); 2]);
    assert_eq!(publish("1.0.3", &[("package/npm-shrinkwrap.json", "{}")]), [(false, true); 2]);
}

#[test]
fn a_file_with_two_readings_is_refused_by_name() {
    let forge = Forge::new();
    let manifest = r#"{"name":"lib","version":"1.0.0"}"#;
    for (name, why) in [
        ("package/./package.json", "has the name `.`"),
        ("./package/package.json", "has the name `.`"),
        ("package\\package.json", "has a backslash in its name"),
        ("package/package.json", "is there twice"),
        ("package/Package.json", SAME_NAME),
        ("package/a/B", SAME_NAME),
        ("other/package.json", "is in another top-level folder than the first entry"),
    ] {
        let file = tarball_of(&[("package/package.json", manifest), ("package/a/b", "x"), (name, "{}")]);
        let text = format!("Attachment has an entry `{name}` that {why}");
        forge.send(publication_of("lib", "1.0.0", &file).to(PUBLIC)).is_refused(400, &text);
    }
    let file = tarball_of(&[("package/package.json", manifest)]);
    let members = [&file[..], &tarball_of(&[("package/package.json", "{}")])].concat();
    let text = "Attachment is not a gzip file: something follows its first member";
    forge.send(publication_of("lib", "1.0.0", &members).to(PUBLIC)).is_refused(400, text);
    let file = tarball_of(&[("package/package.json", r#"{"name":"lib","version":"1.0.0","bin":"a","bin":"b"}"#)]);
    let text = "package.json in the attachment has `bin` twice with different values, or nested too deep";
    forge.send(publication_of("lib", "1.0.0", &file).to(PUBLIC)).is_refused(400, text);
    assert!(forge.store.keys().iter().all(|key| !key.starts_with("package-registry/")), "{:?}", forge.store.keys());
}

const SAME_NAME: &str =
    "some systems take for another one: they ignore letter case, Unicode forms and what ends a name";

/// Because of one such version, some clients fail on the whole package.
#[test]
fn versions_that_some_clients_cannot_read_are_refused() {
    let forge = Forge::new();
    for version in ["9007199254740992.0.0", "1.0.18446744073709551615"] {
        let text = "Validation failed: Version should follow SemVer: https://semver.org";
        forge.send(publication("lib", version).to(PUBLIC)).is_refused(400, text);
    }
    forge.publish(PUBLIC, "lib", "9007199254740991.0.0");
    for (text, is_refused) in [("\\ud83d", true), ("\\ud83d\\ude00", false)] {
        let publication = publication("lib", "1.0.0").change(|document| {
            document["versions"]["1.0.0"]["description"] = json!("SURROGATE");
        });
        let sent = publication.to(PUBLIC);
        let body: Vec<u8> = sent.body.iter().flat_map(|chunk| chunk.clone().unwrap()).collect();
        let body = String::from_utf8(body).unwrap().replace("SURROGATE", text);
        let answer = forge.send(sent.body(body));
        assert_eq!(answer.status, if is_refused { 400 } else { 200 }, "{text}: {}", answer.text());
    }
}
