//! The files in a tarball.

use super::*;
use crate::tarball::tests::tarball_of;
use kit::store::Store as _;

const LIST: &str = "/projects/7/packages/npm/-/package/lib/files/1.0.0";

fn publish(forge: &Forge, files: &[(&str, &str)]) {
    let manifest = [("package/package.json", r#"{"name":"lib","version":"1.0.0"}"#)];
    let file = tarball_of(&[&manifest, files].concat());
    let answer = forge.send(publication_of("lib", "1.0.0", &file).to(PUBLIC));
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[test]
fn the_files_of_a_version_are_listed() {
    let forge = Forge::new();
    publish(&forge, &[("package/dist/index.js", "abc"), ("package/README.md", "")]);
    let files = json!([
        {"path": "package.json", "size": 32}, {"path": "dist/index.js", "size": 3}, {"path": "README.md", "size": 0},
    ]);
    for path in [LIST, "/groups/acme/-/packages/npm/-/package/lib/files/1.0.0"] {
        assert_eq!(forge.send(request(Method::GET, path).by("")).json(), json!({"files": files, "truncated": false}));
    }
    for path in [LIST.replace("1.0.0", "2.0.0"), LIST.replace("lib", "other")] {
        assert_eq!(forge.get(&path).status, 404, "{path}");
    }
    forge.publish(PRIVATE, "secret", "1.0.0");
    let secret = "/projects/9/packages/npm/-/package/secret/files/1.0.0";
    let statuses =
        ["", "outsider", "guest", "reporter"].map(|user| forge.send(request(Method::GET, secret).by(user)).status);
    assert_eq!(statuses, [401, 404, 403, 200]);
}

#[test]
fn a_long_list_is_cut_and_a_damaged_file_is_an_error() {
    let forge = Forge::new();
    let names: Vec<String> = (0..5_001).map(|number| format!("package/{number}.js")).collect();
    publish(&forge, &names.iter().map(|name| (name.as_str(), "x")).collect::<Vec<_>>());
    let list = forge.get(LIST).json();
    assert_eq!((list["files"].as_array().unwrap().len(), &list["truncated"]), (5_000, &json!(true)));
    let chunk = forge.store.keys().into_iter().find(|key| key.contains("/upload/") && key.ends_with("/0")).unwrap();
    forge.store.set(&chunk, b"damage").unwrap();
    assert_eq!(forge.get(LIST).status, 500);
}
