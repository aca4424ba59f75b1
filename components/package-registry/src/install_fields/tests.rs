use super::*;
use serde_json::json;

fn name(name: &str) -> PackageName {
    PackageName::parse(name).unwrap()
}

fn of(value: &Value) -> InstallFields {
    let fields = FIELDS.iter().chain(&[BUNDLED_ALIAS]);
    let fields = fields.filter_map(|field| Some((*field, value.get(*field)?.clone()))).collect();
    InstallFields::new(&name("@acme/lib"), fields)
}

fn differences(file: &Value, document: &Value, has_gyp_file: bool) -> Vec<Difference> {
    of(file).differences(&of(document), has_gyp_file)
}

/// The field that is refused.
fn refused(file: &Value, document: &Value) -> Option<&'static str> {
    differences(file, document, false).into_iter().find(|difference| difference.is_error).map(|found| found.field)
}

/// `published.json` has the documents that each client sent for the same packages: unusual forms of every field,
/// one in a workspace, and one with `binding.gyp`.
#[test]
fn documents_that_clients_publish_are_not_refused() {
    let published: Value = serde_json::from_str(include_str!("published.json")).unwrap();
    let mut clients = BTreeSet::new();
    for package in published.as_array().unwrap() {
        let name = name(package["file"]["name"].as_str().unwrap());
        let text = package["file"].to_string();
        let file = InstallFields::of_file(&name, &PackageJson::read(text.as_bytes()).unwrap()).unwrap();
        for document in package["documents"].as_array().unwrap() {
            clients.extend(document["clients"].as_array().unwrap().iter().map(Value::to_string));
            let manifest = document["manifest"].to_string();
            let members = json::Members::read(&manifest).unwrap();
            let its = InstallFields::of_document(&name, |field| members.get(field)).unwrap();
            let differences = file.differences(&its, package["has_gyp_file"] == true);
            let errors: Vec<_> = differences.iter().filter(|difference| difference.is_error).collect();
            assert!(errors.is_empty(), "{}: {errors:?}\n{manifest}\n{text}", document["clients"]);
        }
    }
    assert_eq!(clients.len(), 7, "{clients:?}");
}

#[test]
fn each_field_that_differs_is_refused() {
    let file = json!({
        "dependencies": {"a": "^1"}, "optionalDependencies": {"o": "1"}, "devDependencies": {"d": "1"},
        "peerDependencies": {"p": "1"}, "acceptDependencies": {"a": "2"}, "peerDependenciesMeta": {"p": {"optional": true}},
        "dependenciesMeta": {"a": {"built": false}}, "bundleDependencies": ["a"], "bin": {"lib": "cli.js"},
        "engines": {"node": ">=18"}, "os": ["linux"], "cpu": ["x64"], "libc": ["glibc"],
        "scripts": {"install": "node i.js", "test": "t"}, "gypfile": false,
    });
    assert_eq!(differences(&file, &file, true), []);
    for (field, values) in [
        ("dependencies", vec![json!({}), json!({"a": "^2"}), json!({"a": "^1", "b": "1"}), json!({"a": "evil/repo"})]),
        ("optionalDependencies", vec![json!({}), json!({"o": "2"})]),
        ("peerDependencies", vec![json!({}), json!({"p": "2"})]),
        ("acceptDependencies", vec![json!({}), json!({"a": "3"})]),
        ("peerDependenciesMeta", vec![json!({}), json!({"p": {"optional": false}})]),
        ("dependenciesMeta", vec![json!({}), json!({"a": {"built": true}})]),
        ("bundleDependencies", vec![json!([]), json!(["b"]), json!(["a", "b"]), json!(false)]),
        (
            "bin",
            vec![json!({}), json!({"lib": "evil.js"}), json!({"lib": "cli.js", "npm": "evil.js"}), json!("evil.js")],
        ),
        ("engines", vec![json!({}), json!({"node": "*"})]),
        ("os", vec![json!([]), json!(["linux", "darwin"]), json!("win32")]),
        ("cpu", vec![json!([]), json!("arm64")]),
        ("libc", vec![json!([]), json!("musl")]),
        (
            "scripts",
            vec![json!({}), json!({"install": "evil"}), json!({"install": "node i.js", "postinstall": "evil"})],
        ),
        ("gypfile", vec![json!(true)]),
    ] {
        for value in values {
            let mut document = file.clone();
            document[field] = value.clone();
            assert_eq!(refused(&file, &document), Some(field), "{value}");
        }
        let mut document = file.clone();
        document.as_object_mut().unwrap().remove(field);
        assert_eq!(refused(&file, &document), Some(field), "without {field}");
    }
    let with_bin_folder = json!({"directories": {"bin": "evil"}});
    assert_eq!(refused(&json!({}), &with_bin_folder), Some("directories"));
}

#[test]
fn forms_that_clients_write_are_equal() {
    for (file, document) in [
        (json!({"bin": "./cli.js"}), json!({"bin": {"lib": "cli.js"}})),
        (json!({"bin": "./cli.js"}), json!({"bin": {"@acme/lib": "cli.js"}})),
        (json!({"bin": ["./x/a.js"]}), json!({"bin": {"a.js": "x/a.js"}})),
        (json!({"bin": {"a": "../../a.js", "b": 7}}), json!({"bin": {"a": "a.js"}})),
        (json!({"directories": {"bin": "./tools"}}), json!({"bin": {"a": "tools/a", "b": "tools/x/b"}})),
        (
            json!({"dependencies": {"a": "1"}, "optionalDependencies": {"a": "1"}}),
            json!({"optionalDependencies": {"a": "1"}}),
        ),
        (
            json!({"optionalDependencies": {"a": "1"}}),
            json!({"dependencies": {"a": "1"}, "optionalDependencies": {"a": "1"}}),
        ),
        (json!({"bundledDependencies": ["a"]}), json!({"bundleDependencies": ["a"], "dependencies": {"a": "*"}})),
        (
            json!({"bundleDependencies": true, "dependencies": {"a": "1"}}),
            json!({"bundleDependencies": ["a"], "dependencies": {"a": "1"}}),
        ),
        (json!({"bundleDependencies": false}), json!({"bundleDependencies": []})),
        (json!({"bundleDependencies": [null, "", 1]}), json!({"bundleDependencies": []})),
        (json!({"directories": {"bin": "."}}), json!({"bin": {"a": "a", "b": "x/b"}, "directories": {"bin": "./"}})),
        (json!({"directories": {"bin": ".."}}), json!({"bin": {"a": "a"}})),
        (json!({"directories": {"bin": ""}}), json!({})),
        (json!({"os": "linux", "cpu": []}), json!({"os": ["linux"]})),
        (json!({"engines": ["node >= 0.10"]}), json!({"engines": {"node": ">= 0.10"}})),
        (json!({"scripts": {"install": "./node_modules/.bin/x y"}}), json!({"scripts": {"install": "x y"}})),
        (json!({"scripts": {"install": ""}}), json!({"scripts": {}})),
        (json!({"dependencies": null, "peerDependencies": {}}), json!({})),
        (json!({"scripts": {"test": "a"}}), json!({"scripts": {"test": "b", "prepare": "c"}})),
    ] {
        assert_eq!(differences(&file, &document, false), [], "{file} {document}");
    }
}

#[test]
fn a_list_of_commands_has_its_normal_form() {
    // yarn 1 writes the paths of a list without `./`.
    let found = differences(&json!({"bin": ["./a.js", "x/b"]}), &json!({"bin": ["a.js", "./x/b"]}), false);
    let normal = json!({"a.js": "a.js", "b": "x/b"});
    assert!(matches!(&*found, [one] if !one.is_error && one.value == Some(normal.clone())), "{found:?}");
    assert_eq!(refused(&json!({"bin": ["a.js"]}), &json!({"bin": ["b.js"]})), Some("bin"));
    assert_eq!(refused(&json!({"bin": ["a.js"]}), &json!({"bin": ["a.js", 7]})), Some("bin"));
}

/// Clients publish such a path. It is accepted, and served in normal form.
#[test]
fn a_command_that_leads_out_of_the_package_has_its_normal_form() {
    let inside = json!({"bin": {"lib": "x.js"}});
    for bin in [json!({"lib": "../../x.js"}), json!({"../../lib": "x.js"}), json!({"lib": "/x.js"}), json!("..\\x.js")]
    {
        let found = differences(&inside, &json!({"bin": bin}), false);
        assert!(matches!(&*found, [one] if !one.is_error && one.value == Some(json!({"lib": "x.js"}))), "{bin}");
    }
    let folder = json!({"directories": {"bin": "tools"}});
    let found = differences(&folder, &json!({"directories": {"bin": "../tools"}}), false);
    assert!(matches!(&*found, [one] if one.value == Some(json!({"bin": "tools"}))));
}

#[test]
fn both_names_of_bundled_dependencies_count() {
    let file = json!({"bundleDependencies": ["a"], "dependencies": {"a": "1"}});
    let hidden = json!({"bundleDependencies": ["a"], "bundledDependencies": ["b"], "dependencies": {"a": "1"}});
    assert_eq!(refused(&file, &hidden), Some("bundleDependencies"));
}

#[test]
fn an_optional_dependency_has_one_spec() {
    let file = json!({"optionalDependencies": {"a": "1"}});
    let document = json!({"optionalDependencies": {"a": "1"}, "dependencies": {"a": "evil"}});
    assert_eq!(refused(&file, &document), Some("dependencies"));
}

#[test]
fn the_script_of_a_gyp_file_may_be_written_into_the_document() {
    let gyp = json!({"scripts": {"install": "node-gyp rebuild"}});
    let has_script = |file: &Value, has_gyp_file| of(file).has_install_script(has_gyp_file);
    for file in [json!({}), json!({"scripts": {"postinstall": ""}}), json!({"scripts": {"test": "x"}})] {
        assert_eq!(differences(&file, &gyp, true), [], "{file}");
        assert_eq!(differences(&file, &file, true), [], "{file}");
        // If the file is not packed, records do not have the script.
        let difference = Difference { field: "scripts", is_error: false, value: None };
        assert_eq!(differences(&file, &gyp, false), [difference], "{file}");
        assert!(has_script(&file, true) && !has_script(&file, false));
    }
    for file in [json!({"scripts": {"preinstall": "x"}}), json!({"scripts": {"install": "x"}})] {
        assert_eq!(differences(&file, &gyp, true)[0].field, "scripts");
        assert!(has_script(&file, false));
    }
    assert!(has_script(&json!({"gypfile": false}), true), "some installers compile it all the same");
}

/// With the file packed, with the file left out of the package, and with `gypfile: false`: yarn classic.
#[test]
fn the_script_of_a_gyp_file_may_stand_beside_a_preinstall_script() {
    let ours = json!({"preinstall": "echo"});
    let scripts = json!({"preinstall": "echo", "install": "node-gyp rebuild"});
    for (file, document, has_gyp_file) in [
        (json!({"scripts": ours}), json!({"scripts": scripts}), true),
        (json!({"scripts": ours}), json!({"scripts": scripts}), false),
        (json!({"scripts": ours, "gypfile": false}), json!({"scripts": scripts, "gypfile": false}), true),
    ] {
        let difference = Difference { field: "scripts", is_error: false, value: Some(ours.clone()) };
        assert_eq!(differences(&file, &document, has_gyp_file), [difference], "{file}");
    }
    let file = json!({"scripts": ours});
    for other in [json!({"install": "node-gyp rebuild"}), json!({"preinstall": "x", "install": "node-gyp rebuild"})] {
        assert_eq!(refused(&file, &json!({"scripts": other})), Some("scripts"), "{other}");
    }
}

#[test]
fn names_that_a_client_leaves_out_are_in_records() {
    let file = json!({"bin": {"./a": "a.js", "b": "b.js"}});
    let yarn = json!({"bin": {"b": "b.js"}});
    let value = Some(json!({"a": "a.js", "b": "b.js"}));
    assert_eq!(differences(&file, &yarn, false), [Difference { field: "bin", is_error: false, value }]);
    assert_eq!(refused(&file, &json!({"bin": {"a": "a.js"}})), Some("bin"));
}

#[test]
fn differences_that_clients_make_are_corrected_and_not_refused() {
    let corrected = |file: Value, document: Value, field| {
        let value = Some(file[field].clone());
        assert_eq!(differences(&file, &document, false), [Difference { field, is_error: false, value }], "{document}");
    };
    let file = json!({"dependencies": {"a": "1", "b": "2"}, "optionalDependencies": {"a": "2"}});
    let without = json!({"dependencies": {"b": "2"}, "optionalDependencies": {"a": "2"}});
    corrected(file.clone(), without, "dependencies");
    for other in [json!({"a": "3", "b": "2"}), json!({"a": "1"}), json!({"b": "2", "c": "1"}), json!({"b": "3"})] {
        let document = json!({"dependencies": other, "optionalDependencies": {"a": "2"}});
        assert_eq!(refused(&file, &document), Some("dependencies"), "{document}");
    }
    let value = Some(json!({"lib": "abs.js"}));
    let difference = || [Difference { field: "bin", is_error: false, value: value.clone() }];
    assert_eq!(differences(&json!({"bin": "/abs.js"}), &json!({"bin": {}}), false), difference());
    assert_eq!(differences(&json!({"bin": {"lib": "/abs.js"}}), &json!({"bin": {}}), false), difference());
    assert_eq!(refused(&json!({"bin": "abs.js"}), &json!({"bin": {}})), Some("bin"));
    assert_eq!(refused(&json!({"bin": "/abs.js"}), &json!({"bin": {"lib": "evil.js"}})), Some("bin"));
    corrected(json!({"devDependencies": {"d": "1"}}), json!({}), "devDependencies");
    corrected(json!({"devDependencies": {"d": "1"}}), json!({"devDependencies": {"d": "2"}}), "devDependencies");
    let none = Difference { field: "devDependencies", is_error: false, value: None };
    assert_eq!(differences(&json!({}), &json!({"devDependencies": {"d": "1"}}), false), [none]);
}

#[test]
fn commands_of_a_folder_are_in_it() {
    let file = json!({"directories": {"bin": "bin"}});
    for bin in [json!({"a": "evil.js"}), json!({"a": "bin/b"}), json!({"a": "binary/a"}), json!({"x": "bin/../x"})] {
        assert_eq!(refused(&file, &json!({"bin": bin})), Some("bin"), "{bin}");
    }
}

/// If the folder is the package's own, npm 7 and later write its paths with a leading slash.
#[test]
fn commands_of_the_root_are_served_in_their_normal_form() {
    let file = json!({"directories": {"bin": "."}});
    let found = differences(&file, &json!({"directories": {"bin": "."}, "bin": {"a": "/a", "b": "/x/b"}}), false);
    let [difference] = &*found else { panic!("{found:?}") };
    assert_eq!((difference.field, difference.is_error), ("bin", false));
    assert_eq!(difference.value, Some(json!({"a": "a", "b": "x/b"})));
    for bin in [json!({"a": "b"}), json!({"a": "x/b"})] {
        assert_eq!(refused(&file, &json!({"bin": bin})), Some("bin"), "{bin}");
    }
    assert_eq!(refused(&json!({}), &file), Some("directories"));
    let root = differences(&file, &json!({"directories": {"bin": ".."}}), false);
    assert!(matches!(&*root, [one] if !one.is_error && one.value == Some(json!({"bin": "."}))), "{root:?}");
}

/// yarn classic writes an empty text for a dependency without a version, which npm leaves out.
#[test]
fn a_dependency_of_null_may_be_of_any_version_in_the_document() {
    for field in ["dependencies", "optionalDependencies", "devDependencies", "peerDependencies"] {
        let file = json!({ field: {"a": null, "b": "1"} });
        let found = differences(&file, &json!({ field: {"a": "", "b": "1"} }), false);
        let [difference] = &*found else { panic!("{field}: {found:?}") };
        assert_eq!((difference.field, difference.is_error), (field, false));
        assert_eq!(difference.value, Some(json!({"b": "1"})));
    }
    let file = json!({"dependencies": {"a": null, "b": "1"}});
    for other in [json!({"a": "2", "b": "1"}), json!({"c": "", "b": "1"}), json!({"a": ""})] {
        assert_eq!(refused(&file, &json!({"dependencies": other})), Some("dependencies"), "{other}");
    }
}

#[test]
fn corrections_keep_other_scripts() {
    let value = Some(json!({"install": "ours"}));
    let difference = Difference { field: "scripts", is_error: true, value };
    let published = RawValue::from_string(json!({"test": "t", "postinstall": "evil"}).to_string()).unwrap();
    assert_eq!(difference.corrected(Some(&published)), Some(json!({"test": "t", "install": "ours"})));
    let nothing = Difference { field: "scripts", is_error: true, value: None };
    assert_eq!(nothing.corrected(Some(&RawValue::from_string("{\"install\":\"x\"}".into()).unwrap())), None);
    let bundled = Difference { field: "bundleDependencies", is_error: true, value: None };
    assert!(bundled.replaces("bundledDependencies") && !difference.replaces("bundledDependencies"));
}

#[test]
fn a_field_with_two_readings_is_refused() {
    let read =
        |text: &str| InstallFields::of_file(&name("lib"), &PackageJson::read(text.as_bytes()).unwrap()).map(drop);
    for (text, field) in [
        (r#"{"scripts":{},"scripts":{"install":"evil"}}"#, "scripts"),
        (r#"{"dependencies":{"a":"1","a":"2"}}"#, "dependencies.a"),
        (r#"{"engines":{"node":"1","node":"2"}}"#, "engines.node"),
        (r#"{"scripts":{"install":"a","inst\u0061ll":"b"}}"#, "scripts.install"),
    ] {
        assert_eq!(read(text), Err(TarballError::ManifestAmbiguous(field.into())), "{text}");
    }
    for text in [
        r#"{"license":"a","license":"b"}"#,
        r#"{"dependencies":{"a":"1","a":"1"}}"#,
        r#"{"os":"a","os":"a"}"#,
        r#"{"scripts":{"test":"a","test":"b","install":"c"}}"#,
        r#"{"devDependencies":{"a":"1","a":"2"}}"#,
        r#"{"devDependencies":{"a":"1"},"devDependencies":{"b":"1"}}"#,
    ] {
        assert_eq!(read(text), Ok(()), "{text}");
    }
    let twice = RawValue::from_string(r#"{"a":"1","a":"2"}"#.into()).unwrap();
    let document = InstallFields::of_document(&name("lib"), |field| (field == "bin").then_some(&*twice));
    assert_eq!(document.unwrap_err(), "bin.a");
}

/// A value that installers may read differently is not served, and not accepted from a document.
#[test]
fn a_type_that_installers_do_not_expect_is_refused_or_corrected() {
    let odd = [
        json!(1),
        json!(true),
        json!("x"),
        json!([1]),
        json!([null]),
        json!([["x"]]),
        json!({"x": 1}),
        json!({"x": null}),
        json!({"x": {}}),
        json!({"x": true}),
        json!({"0": ["x"]}),
        json!({"bin": 1}),
        json!({"install": {}}),
    ];
    for field in FIELDS.iter().chain(&[BUNDLED_ALIAS]) {
        for value in &odd {
            let document = json!({ *field: value });
            let found = differences(&json!({}), &document, false);
            let is_served = found.is_empty();
            let is_expected = match (*field, value) {
                ("bundleDependencies" | "bundledDependencies" | "gypfile", Value::Bool(_)) => true,
                ("directories", Value::Object(object)) => !object.contains_key("bin"),
                ("scripts", Value::Object(object)) => !object.contains_key("install"),
                ("peerDependenciesMeta" | "dependenciesMeta", value) => *value == json!({"x": {}}),
                _ => false,
            };
            // The file lacks this value, so it is served only if installers ignore it.
            assert!(!is_served || is_expected, "{field}: {value}");
            let same = differences(&document, &document, false);
            assert!(same.iter().all(|difference| !difference.is_error), "{field}: {value}: {same:?}");
        }
    }
    let file = json!({"dependencies": {"a": "1", "b": 7}});
    let corrected = differences(&file, &file, false);
    assert_eq!(corrected.len(), 1);
    assert_eq!((corrected[0].is_error, corrected[0].value.clone()), (false, Some(json!({"a": "1"}))));
    for value in [json!({"@acme/victim": 1}), json!({"@acme/victim": null}), json!({"@acme/victim": {}})] {
        for field in ["dependencies", "optionalDependencies", "peerDependencies"] {
            assert_eq!(refused(&json!({}), &json!({ field: value })), Some(field), "{value}");
        }
    }
}

/// npm 6 to 8 and yarn 1 write such documents for these files; the file's form is served.
#[test]
fn fields_that_older_clients_change_are_corrected() {
    for (file, document, field) in [
        (
            json!({"dependencies": {"a": "^1.0.0", "b": "2"}, "bundleDependencies": ["a"]}),
            json!({"dependencies": {"a": "*", "b": "2"}, "bundleDependencies": ["a"]}),
            "dependencies",
        ),
        (
            json!({"gypfile": false, "scripts": {"install": "node-gyp rebuild"}}),
            json!({"gypfile": true, "scripts": {"install": "node-gyp rebuild"}}),
            "gypfile",
        ),
        (json!({"bundledDependencies": {"a": "1"}}), json!({}), "bundleDependencies"),
        (json!({"bin": {" a b": "x.js", "c": "c.js"}}), json!({"bin": {"c": "c.js"}}), "bin"),
        (json!({"bin": {"a%b": "x.js", "~c": "c.js"}}), json!({"bin": {}}), "bin"),
        (json!({"bin": {"a": "../../etc"}}), json!({"bin": {}}), "bin"),
    ] {
        let found = differences(&file, &document, false);
        assert!(found.iter().all(|difference| !difference.is_error), "{found:?}");
        assert_eq!(found.iter().map(|difference| difference.field).collect::<Vec<_>>(), [field]);
        assert_eq!(found[0].value, of(&file).normal(field));
    }
    for (file, document) in [
        (
            json!({"dependencies": {"a": "^1.0.0"}, "bundleDependencies": ["b"]}),
            json!({"dependencies": {"a": "*"}, "bundleDependencies": ["b"]}),
        ),
        (json!({"gypfile": false}), json!({"gypfile": true})),
        (json!({"bundleDependencies": ["a"]}), json!({})),
        (json!({"bin": {"a": "a.js"}}), json!({"bin": {}})),
    ] {
        assert!(refused(&file, &document).is_some(), "{file}");
    }
}
