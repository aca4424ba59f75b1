//! npm's readings of `bin`.

use super::*;
use crate::install_fields::InstallFields;
use crate::json::Members;
use crate::name::PackageName;
use crate::tarball::{PackageJson, TarballError};
use serde_json::json;

/// Values in `@acme/lib`, and the results of npm-normalize-package-bin 4 and npm 11; `null` if nothing is left.
fn cases() -> Vec<(Value, Value)> {
    vec![
        (json!("cli.js"), json!({"lib": "cli.js"})),
        (json!("./cli.js"), json!({"lib": "cli.js"})),
        (json!("/cli.js"), json!({"lib": "cli.js"})),
        (json!("../../cli.js"), json!({"lib": "cli.js"})),
        (json!("..\\cli.js"), json!({"lib": "cli.js"})),
        (json!("a/../cli.js"), json!({"lib": "cli.js"})),
        (json!("a//b.js"), json!({"lib": "a/b.js"})),
        (json!(" "), json!({"lib": " "})),
        (json!("."), Value::Null),
        (json!("./"), Value::Null),
        (json!("bin/.."), Value::Null),
        (json!(""), Value::Null),
        (json!(["x/a.js", "./b.js"]), json!({"a.js": "x/a.js", "b.js": "b.js"})),
        (json!(["x/a.js", "y/a.js"]), json!({"a.js": "y/a.js"})),
        (json!([".."]), Value::Null),
        (json!([]), Value::Null),
        (json!({}), Value::Null),
        (json!({"a": ""}), Value::Null),
        (json!({"": "x.js"}), Value::Null),
        (json!({".": "x.js"}), Value::Null),
        (json!({"..": "x.js"}), Value::Null),
        (json!({"a/..": "x.js"}), Value::Null),
        (json!({"./a": "./x.js"}), json!({"a": "x.js"})),
        (json!({"@acme/a": "x.js"}), json!({"a": "x.js"})),
        (json!({"../../a": "x.js"}), json!({"a": "x.js"})),
        (json!({"a/": "x.js"}), json!({"a": "x.js"})),
        (json!({"a\\b": "x.js"}), json!({"b": "x.js"})),
        (json!({"c:a": "x.js"}), json!({"a": "x.js"})),
        (json!({"a:": "x.js"}), json!({"a": "x.js"})),
        (json!({"a": "./x/../y.js"}), json!({"a": "y.js"})),
        (json!({"a": "x\\y.js"}), json!({"a": "x/y.js"})),
        (json!({"a": ".//x.js"}), json!({"a": "x.js"})),
        (json!({"a": "x/."}), json!({"a": "x"})),
        (json!({"a": "..."}), json!({"a": "..."})),
        (json!({"a": "./C:/../x.js"}), json!({"a": "x.js"})),
        (json!({"a": "x:/../../y.js"}), json!({"a": "y.js"})),
        (json!({"a": " x.js ", " b ": "x.js"}), json!({"a": " x.js ", " b ": "x.js"})),
        (json!({"a": null, "b": "b.js", "c": 7, "d": ["x.js"]}), json!({"b": "b.js"})),
        (json!({"constructor": "x.js", "é": "é.js"}), json!({"constructor": "x.js", "é": "é.js"})),
        (json!({"A": "x.js", "a": "y.js"}), json!({"A": "x.js", "a": "y.js"})),
        (json!({"a": "%2e%2e/x.js", "b": "~/x.js"}), json!({"a": "%2e%2e/x.js", "b": "~/x.js"})),
        (json!(true), Value::Null),
        (json!(7), Value::Null),
    ]
}

fn normal(bin: &Value) -> Value {
    let commands = map(bin, "lib");
    if commands.is_empty() { Value::Null } else { json!(commands) }
}

/// The `bin` of metadata if the file and the document have these.
fn served(file: &Value, document: &Value) -> Value {
    let name = PackageName::parse("@acme/lib").unwrap();
    let (file, document_text) = (json!({ "bin": file }).to_string(), json!({ "bin": document }).to_string());
    let file = InstallFields::of_file(&name, &PackageJson::read(file.as_bytes()).unwrap()).unwrap();
    let members = Members::read(&document_text).unwrap();
    let its = InstallFields::of_document(&name, |field| members.get(field)).unwrap();
    let differences = file.differences(&its, false);
    match differences.iter().find(|difference| difference.field == "bin") {
        Some(difference) => {
            assert!(!difference.is_error, "{difference:?}");
            difference.value.clone().unwrap_or_default()
        }
        None => document.clone(),
    }
}

#[test]
fn the_normal_form_is_npm_s() {
    for (written, expected) in cases() {
        assert_eq!(normal(&written), expected, "{written}");
        assert_eq!(normal(&expected), expected, "of its own result: {written}");
    }
}

/// Clients write `bin` as it is in the file, in npm's form, or without commands that they take for invalid, as yarn 1.
#[test]
fn npm_reads_the_served_bin_as_the_bin_of_the_file() {
    let usable = |bin: &Value| match bin {
        Value::Object(bin) => {
            let usual = bin.iter().filter(|(name, path)| path.as_str().is_some_and(|path| is_plain(name, path)));
            Value::Object(usual.map(|(name, path)| (name.clone(), path.clone())).collect())
        }
        Value::String(path) if !is_plain("lib", path) => json!({}),
        other => other.clone(),
    };
    for (written, expected) in cases() {
        for document in [&written, &expected, &usable(&written)] {
            let served = served(&written, document);
            assert_eq!(normal(&served), expected, "{written}, published as {document}");
            assert!(stays_inside(&served), "{written}, published as {document}, is served as {served}");
        }
    }
}

/// npm's two functions differ in these values: a folder for one is a part of a name for the other. A name that ends in
/// `..` has no command for one. Metadata has the form that npm 11 publishes, which the other function does not change.
#[test]
fn an_ambiguous_bin_has_the_form_that_npm_publishes() {
    for (written, expected) in [
        (json!({"a": "C:\\x.js"}), json!({"a": "C/x.js"})),
        (json!({"a": "http://h/x.js"}), json!({"a": "http/h/x.js"})),
        (json!({"a/b/..": "x.js"}), json!({"a": "x.js"})),
        (json!({"a/.": "x.js"}), json!({"a": "x.js"})),
    ] {
        assert_eq!(normal(&written), expected);
        assert_eq!(served(&written, &expected), expected);
        assert!(stays_inside(&served(&written, &written)), "{written}");
    }
    // npm 11 publishes this name, and no client installs a command under it.
    assert_eq!(normal(&json!({"__proto__": "x.js", "b": "b.js"})), json!({"b": "b.js"}));
}

#[test]
fn a_command_has_one_path() {
    let name = PackageName::parse("lib").unwrap();
    let read = |bin: &str| {
        let text = format!("{{\"bin\":{bin}}}");
        let file = InstallFields::of_file(&name, &PackageJson::read(text.as_bytes()).unwrap()).map(drop);
        let members = Members::read(&text).unwrap();
        (file, InstallFields::of_document(&name, |field| members.get(field)).map(drop))
    };
    for bin in [
        r#"{"a":"x.js","./a":"evil.js"}"#,
        r#"{"./a":"evil.js","a":"x.js"}"#,
        r#"{"@acme/a":"x.js","a":"evil.js"}"#,
        r#"{"b\\a":"x.js","c:a":"evil.js"}"#,
    ] {
        assert_eq!(read(bin), (Err(TarballError::ManifestAmbiguous("bin.a".into())), Err("bin.a".to_owned())), "{bin}");
    }
    for bin in [r#"{"a":"x.js","./a":"./x.js"}"#, r#"{"a":"x.js","b":"y.js"}"#, r#"{"a":"x.js","./a":7}"#] {
        assert_eq!(read(bin), (Ok(()), Ok(())), "{bin}");
    }
}
