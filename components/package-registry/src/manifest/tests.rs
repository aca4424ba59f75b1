use super::*;
use crate::tarball::PackageJson;
use serde_json::{Value, json};

fn name() -> PackageName {
    PackageName::parse("@acme/lib").unwrap()
}

fn version() -> Version {
    Version::parse("1.0.0").unwrap()
}

fn manifest() -> Value {
    json!({
        "name": "@acme/lib", "version": "1.0.0", "license": {"type": "MIT"}, "author": "", "readme": "# long",
        "bin": "x.js", "dependencies": {"a": "^1"}, "peerDependenciesMeta": {"a": {"optional": true}},
        "_custom": [1, 2], "_id": "forged", "hasInstallScript": true, "_hasShrinkwrap": true, "_npmVersion": "forged",
        "maintainers": [{"name": "forged"}], "_npmUser": {"name": "forged"}, "_resolved": "forged", "_integrity": "forged",
        "_from": "forged", "_rev": "forged", "_shasum": "forged",
        "dist": {"shasum": "00", "integrity": "sha512-x", "tarball": "https://elsewhere.example/x.tgz", "fileCount": 3,
                 "signatures": [{"sig": "forged"}], "other": "forged"},
    })
}

/// The full and the abbreviated record of `manifest`.
fn records(manifest: &Value) -> Result<(String, String), ManifestError> {
    let (name, version) = (name(), version());
    let text = RawValue::from_string(serde_json::to_string_pretty(manifest).unwrap()).unwrap();
    let manifest = Manifest::read(&text, &name, &version)?;
    let integrity = Integrity::of(b"hello");
    let values = values(&integrity);
    let (full, abbreviated) = (manifest.full(&values), manifest.abbreviated(&values));
    let [full_json, abbreviated_json] = [&full, &abbreviated].map(|record| to_json(record));
    assert!(is_abbreviation(&Members::read(&abbreviated_json).unwrap(), &Members::read(&full_json).unwrap()));
    Ok((full, abbreviated))
}

fn values(integrity: &Integrity) -> RegistryValues<'_> {
    RegistryValues {
        integrity,
        totals: Totals { files: 7, size: 70 },
        has_install_script: false,
        has_shrinkwrap: false,
        predicate_type: None,
        publisher: Some("mia"),
        npm_version: Some("11.19.1"),
    }
}

/// A record as a client sees it.
fn served(record: &str) -> Value {
    serde_json::from_str(&record.replace(URL_PLACEHOLDER, "https://r.example")).unwrap()
}

#[test]
fn the_full_record_has_everything_but_the_readme() {
    let (full, _) = records(&manifest()).unwrap();
    let integrity = Integrity::of(b"hello");
    let mut expected = manifest();
    let internal = ["_resolved", "_integrity", "_from", "_rev", "_shasum"];
    for field in ["readme", "hasInstallScript", "_hasShrinkwrap", "maintainers"].into_iter().chain(internal) {
        expected.as_object_mut().unwrap().remove(field);
    }
    expected["_id"] = json!("@acme/lib@1.0.0");
    expected["_npmVersion"] = json!("11.19.1");
    expected["_npmUser"] = json!({"name": "mia", "email": ""});
    expected["dist"] = json!({
        "tarball": "https://r.example/@acme/lib/-/lib-1.0.0.tgz", "shasum": integrity.shasum(),
        "integrity": integrity.sri(), "fileCount": 7, "unpackedSize": 70,
    });
    assert_eq!(served(&full), expected);
    assert!(!full.contains('\n'), "one line: {full}");
    assert_eq!(full.matches(URL_PLACEHOLDER).count(), 1);
}

/// If a program assigns this member, the object inherits from its value, scripts for example.
#[test]
fn a_prototype_is_in_no_record() {
    let mut manifest = manifest();
    manifest["__proto__"] = json!({"dependencies": {"evil": "1"}, "hasInstallScript": true});
    manifest["funding"] = json!("x");
    let (full, abbreviated) = records(&manifest).unwrap();
    assert!(!full.contains("__proto__") && !abbreviated.contains("__proto__"), "{full}");
}

#[test]
fn provenance_is_listed() {
    let (name, version, integrity) = (name(), version(), Integrity::of(b"hello"));
    let text = RawValue::from_string(manifest().to_string()).unwrap();
    let manifest = Manifest::read(&text, &name, &version).unwrap();
    let values = RegistryValues { predicate_type: Some("https://x/\"v1"), ..values(&integrity) };
    for record in [manifest.full(&values), manifest.abbreviated(&values)] {
        let expected = json!({
            "url": "https://r.example/-/npm/v1/attestations/%40acme%2Flib@1.0.0",
            "provenance": {"predicateType": "https://x/\"v1"},
        });
        assert_eq!(served(&record)["dist"]["attestations"], expected);
    }
}

#[test]
fn the_abbreviated_record_has_the_fields_that_installers_need() {
    let (_, abbreviated) = records(&manifest()).unwrap();
    let served = served(&abbreviated);
    let names: Vec<&str> = served.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(names, ["bin", "dependencies", "dist", "name", "peerDependenciesMeta", "version"]);
}

#[test]
fn install_scripts_and_shrinkwraps_are_announced() {
    let (name, version, integrity) = (name(), version(), Integrity::of(b"hello"));
    let text = RawValue::from_string(manifest().to_string()).unwrap();
    let manifest = Manifest::read(&text, &name, &version).unwrap();
    let values = RegistryValues { has_install_script: true, has_shrinkwrap: true, ..values(&integrity) };
    for record in [manifest.full(&values), manifest.abbreviated(&values)] {
        let record = served(&record);
        assert_eq!((&record["hasInstallScript"], &record["_hasShrinkwrap"]), (&json!(true), &json!(true)));
    }
}

/// The manifest's fields that installers act on, compared with the fields of a `package.json`.
fn reconciled(manifest: &Value, file: Value, are_errors: bool) -> Result<Value, ManifestError> {
    let (name, version, integrity) = (name(), version(), Integrity::of(b"hello"));
    let (text, file) = (RawValue::from_string(manifest.to_string()).unwrap(), file.to_string());
    let mut manifest = Manifest::read(&text, &name, &version)?;
    let file = InstallFields::of_file(&name, &PackageJson::read(file.as_bytes()).unwrap()).unwrap();
    manifest.reconcile(&file, false, are_errors)?;
    let records = [manifest.full(&values(&integrity)), manifest.abbreviated(&values(&integrity))];
    let [full, abbreviated] = records.map(|record| served(&record));
    for field in ["dependencies", "bin", "bundleDependencies", "bundledDependencies", "engines"] {
        assert_eq!(full.get(field), abbreviated.get(field), "{field}");
    }
    Ok(full)
}

#[test]
fn install_fields_come_from_the_file() {
    let same = json!({"bin": "x.js", "dependencies": {"a": "^1"}, "peerDependenciesMeta": {"a": {"optional": true}}});
    assert_eq!(reconciled(&manifest(), same, true).unwrap()["bin"], "x.js", "as it was published");

    let mut published = manifest();
    published["scripts"] = json!({"test": "t", "install": "evil"});
    published["bundledDependencies"] = json!(["evil"]);
    let file = json!({"bin": "y.js", "engines": {"node": "1"}, "scripts": {"preinstall": "ours"}});
    let error = reconciled(&published, file.clone(), true).unwrap_err();
    assert_eq!(
        error.to_string(),
        "Validation failed: Package json has another `bundleDependencies` than package.json in the attachment: \
         [\"evil\"] instead of nothing. Most often a script prepack or postpack changes package.json while the file is \
         packed. Pack the file first and publish it by its name, or let the operator set registry_manifest_mismatch to \
         file, so that the file's value counts"
    );
    let record = reconciled(&published, file, false).unwrap();
    assert_eq!((record.get("dependencies"), record.get("bundledDependencies")), (None, None));
    assert_eq!((&record["bin"], &record["engines"]), (&json!({"lib": "y.js"}), &json!({"node": "1"})));
    assert_eq!(record["scripts"], json!({"test": "t", "preinstall": "ours"}));
}

#[test]
fn dependencies_that_are_no_map_are_left_out() {
    let mut manifest = manifest();
    manifest["dependencies"] = json!(["a"]);
    manifest["bundleDependencies"] = json!(["a"]);
    let (full, abbreviated) = records(&manifest).unwrap();
    for record in [full, abbreviated] {
        assert_eq!(served(&record).get("dependencies"), None);
        assert_eq!(served(&record)["bundleDependencies"], json!(["a"]));
    }
}

#[test]
fn manifests_that_cannot_be_installed_are_refused() {
    let without = |path: &[&str]| {
        let mut manifest = manifest();
        let (last, parents) = path.split_last().unwrap();
        let parent = parents.iter().fold(&mut manifest, |value, name| &mut value[*name]);
        parent.as_object_mut().unwrap().remove(*last);
        manifest
    };
    for path in [&["name"][..], &["version"], &["dist"], &["dist", "shasum"], &["dist", "tarball"]] {
        assert_eq!(records(&without(path)), Err(ManifestError::Schema), "without {path:?}");
    }
    for manifest in [json!(null), json!([]), json!("x"), json!(1)] {
        assert_eq!(records(&manifest), Err(ManifestError::Schema), "{manifest}");
    }
    let with = |name: &str, value: Value| {
        let mut manifest = manifest();
        manifest[name] = value;
        records(&manifest).map(drop)
    };
    assert_eq!(with("name", json!(7)), Err(ManifestError::Schema));
    assert_eq!(with("name", json!("lib")), Err(ManifestError::Name("lib".into())));
    assert_eq!(with("version", json!("1.0.1")), Err(ManifestError::Version("1.0.1".into())));
    assert!(matches!(with("x", json!("y".repeat(MAX_SIZE))), Err(ManifestError::TooLarge(_))));
    assert_eq!(with("readme", json!("y".repeat(MAX_SIZE))), Ok(()));
}

#[test]
fn a_deprecation_is_set_changed_and_taken_back_on_the_finished_record() {
    let (full, _) = records(&manifest()).unwrap();
    let deprecated = set_deprecated(&full, "use \"2\", not }1{");
    assert_eq!(served(&deprecated)["deprecated"], "use \"2\", not }1{");
    let changed = set_deprecated(&deprecated, "no");
    assert_eq!(served(&changed)["deprecated"], "no");
    assert_eq!(set_deprecated(&changed, ""), full);
    assert_eq!(set_deprecated(&full, ""), full);
}

#[test]
fn a_version_may_be_published_as_deprecated() {
    let mut manifest = manifest();
    manifest["deprecated"] = json!("old");
    assert_eq!(served(&records(&manifest).unwrap().1)["deprecated"], "old");
    manifest["deprecated"] = json!("");
    assert_eq!(served(&records(&manifest).unwrap().0).get("deprecated"), None);
}

#[test]
fn latest_fields_are_members_to_append() {
    let (name, version) = (name(), version());
    let text = RawValue::from_string(manifest().to_string()).unwrap();
    let latest = Manifest::read(&text, &name, &version).unwrap().package_level_fields(None);
    let object: Value = serde_json::from_str(&format!("{{\"x\":0{latest}}}")).unwrap();
    assert_eq!(object, json!({"x": 0, "author": "", "license": {"type": "MIT"}, "readme": "# long"}));

    let mut manifest = manifest();
    for name in ["author", "license", "readme"] {
        manifest.as_object_mut().unwrap().remove(name);
    }
    let text = RawValue::from_string(manifest.to_string()).unwrap();
    assert_eq!(Manifest::read(&text, &name, &version).unwrap().package_level_fields(None), "");
    let readme = RawValue::from_string("\"beside\"".into()).unwrap();
    assert_eq!(
        Manifest::read(&text, &name, &version).unwrap().package_level_fields(Some(&readme)),
        ",\"readme\":\"beside\""
    );
}

#[test]
fn a_readme_is_cut_between_characters() {
    let (name, version) = (name(), version());
    for (length, kept) in [(65_536, 65_536), (65_537, 65_536), (200_000, 65_536)] {
        for (before, lost) in [("", 0), ("a", 1)] {
            let mut manifest = manifest();
            // Characters of two bytes.
            let readme: String = before.chars().chain(std::iter::repeat('é')).take(length).collect();
            manifest["readme"] = json!(readme);
            let text = RawValue::from_string(manifest.to_string()).unwrap();
            let latest = Manifest::read(&text, &name, &version).unwrap().package_level_fields(None);
            let object: Value = serde_json::from_str(&format!("{{\"x\":0{latest}}}")).unwrap();
            let shown = object["readme"].as_str().unwrap();
            assert!(readme.starts_with(shown) && shown.len() == kept - lost, "{} {before}", shown.len());
        }
    }
    let mut manifest = manifest();
    manifest["readme"] = json!({"not": "text"});
    let text = RawValue::from_string(manifest.to_string()).unwrap();
    assert!(!Manifest::read(&text, &name, &version).unwrap().package_level_fields(None).contains("readme"));
}
