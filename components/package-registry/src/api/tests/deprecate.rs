use super::*;
use kit::store::Store;

const PATH: &str = "/projects/7/packages/npm/lib";

fn forge() -> Forge {
    let forge = Forge::new();
    for version in ["1.0.0", "1.0.1", "1.1.0"] {
        forge.publish(PUBLIC, "lib", version);
    }
    forge
}

/// Sends the whole document back, changed, as clients do.
fn send_back(forge: &Forge, change: impl FnOnce(&mut Value)) -> TestResponse {
    let mut document = forge.get(PATH).json();
    change(&mut document);
    forge.send(request(Method::PUT, PATH).by("maintainer").body(document.to_string()))
}

fn deprecations(forge: &Forge) -> Vec<(String, Value)> {
    let full = forge.get(PATH).json();
    let abbreviated = request(Method::GET, PATH).with("accept", "application/vnd.npm.install-v1+json");
    let abbreviated = forge.send(abbreviated).json();
    let listed = |document: &Value| -> Vec<(String, Value)> {
        let versions = document["versions"].as_object().unwrap().iter();
        versions.filter_map(|(version, record)| Some((version.clone(), record.get("deprecated")?.clone()))).collect()
    };
    assert_eq!(listed(&full), listed(&abbreviated));
    listed(&full)
}

#[test]
fn a_deprecation_is_set_and_removed() {
    let forge = forge();
    let before = forge.get(PATH).json()["versions"].clone();
    let answer = send_back(&forge, |document| document["versions"]["1.0.0"]["deprecated"] = json!("use \"1.1\""));
    assert_eq!(answer.status, 200, "{}", answer.text());
    assert_eq!(deprecations(&forge), [("1.0.0".into(), json!("use \"1.1\""))]);
    assert_eq!(forge.get(&format!("{PATH}/-/lib-1.0.0.tgz")).status, 200, "still installable");
    let answer = send_back(&forge, |document| document["versions"]["1.0.0"]["deprecated"] = json!(""));
    assert_eq!(answer.status, 200);
    assert_eq!(forge.get(PATH).json()["versions"], before);
}

#[test]
fn only_the_messages_are_taken_from_the_document() {
    let forge = forge();
    let stale = forge.get(PATH).json();
    forge.publish(PUBLIC, "lib", "2.0.0");
    let answer = forge.send(request(Method::PUT, PATH).by("maintainer").body({
        let mut document = stale;
        document["versions"]["1.0.0"]["deprecated"] = json!("old");
        document["versions"]["1.0.1"]["description"] = json!("changed");
        document["versions"]["9.9.9"] = json!({"deprecated": "unknown"});
        document["versions"].as_object_mut().unwrap().remove("1.1.0");
        document["dist-tags"] = json!({"latest": "1.0.0"});
        document.to_string()
    }));
    assert_eq!(answer.status, 200, "{}", answer.text());
    let now = forge.get(PATH).json();
    let versions: Vec<&String> = now["versions"].as_object().unwrap().keys().collect();
    assert_eq!(versions, ["1.0.0", "1.0.1", "1.1.0", "2.0.0"]);
    assert_eq!(
        (&now["dist-tags"], &now["versions"]["1.0.1"]["description"]),
        (&json!({"latest": "2.0.0"}), &json!("d"))
    );
    assert_eq!(deprecations(&forge), [("1.0.0".into(), json!("old"))]);
}

/// Sends a document with another message for a version.
fn set(forge: &Forge, document: &Value, version: &str, message: &str) -> TestResponse {
    let mut document = document.clone();
    document["versions"][version]["deprecated"] = json!(message);
    forge.send(request(Method::PUT, PATH).by("maintainer").body(document.to_string()))
}

#[test]
fn an_outdated_document_undoes_no_other_clients_change() {
    let forge = forge();
    let set = |document: &Value, version: &str, message: &str| set(&forge, document, version, message);
    let document = || forge.get(PATH).json();
    assert_eq!(set(&document(), "1.1.0", "broken").status, 200);
    let stale = document();
    assert_eq!(set(&stale, "1.1.0", "").status, 200);
    // The document still has the removed message.
    assert_eq!(set(&stale, "1.0.0", "old").status, 200);
    assert_eq!(deprecations(&forge), [("1.0.0".into(), json!("old"))]);
    let revision = stale["_rev"].as_str().unwrap();
    let conflict = format!("revision {revision} is not the current one: the package was changed meanwhile, try again");
    set(&stale, "1.1.0", "very broken").is_refused(409, &conflict);
    set(&stale, "1.0.0", "older").is_refused(409, &conflict);
    // Repeats both requests, as after a lost answer.
    assert_eq!((set(&stale, "1.1.0", "").status, set(&stale, "1.0.0", "old").status), (200, 200));
    assert_eq!(deprecations(&forge), [("1.0.0".into(), json!("old"))]);
    // Revisions that the package never had.
    for revision in ["999-x", "1-x", "x", "", "-", "3"] {
        let mut document = document();
        document["_rev"] = json!(revision);
        assert_eq!(set(&document, "1.0.1", "old").status, 409, "{revision}");
    }
    let mut without = document();
    without.as_object_mut().unwrap().remove("_rev");
    assert_eq!(set(&without, "1.0.1", "old").status, 200);
}

#[test]
fn simultaneous_deprecations_that_agree_succeed() {
    for before in ["", "old"] {
        for messages in [["", ""], ["broken", "broken"], ["broken", ""], ["", "insecure"]] {
            let forge = forge();
            for version in ["1.0.0", "1.0.1"] {
                assert_eq!(set(&forge, &forge.get(PATH).json(), version, before).status, 200);
            }
            let document = forge.get(PATH).json();
            for (version, message) in ["1.0.0", "1.0.1"].into_iter().zip(messages) {
                let answer = set(&forge, &document, version, message);
                assert_eq!(answer.status, 200, "{before} {messages:?}: {}", answer.text());
            }
            let left: Vec<_> =
                ["1.0.0", "1.0.1"].into_iter().zip(messages).filter(|(_, left)| !left.is_empty()).collect();
            let left: Vec<_> = left.into_iter().map(|(version, left)| (version.to_owned(), json!(left))).collect();
            assert_eq!(deprecations(&forge), left, "{before} {messages:?}");
        }
    }
    // Both clients set one message for one version.
    let forge = forge();
    let document = forge.get(PATH).json();
    assert_eq!([(); 2].map(|()| set(&forge, &document, "1.1.0", "broken").status), [200, 200]);
}

/// An earlier build, on a host that shares the store, keeps only the number of the last change.
#[test]
fn a_change_by_an_earlier_build_conflicts_with_older_documents() {
    let forge = forge();
    let stale = forge.get(PATH).json();
    assert_eq!(set(&forge, &stale, "1.0.0", "old").status, 200);
    let key = forge.store.keys().into_iter().find(|key| key.ends_with("/package/7/lib")).unwrap();
    let mut record: Value = serde_json::from_slice(&Store::get(&forge.store, &key).unwrap().unwrap()).unwrap();
    assert!(record.as_object_mut().unwrap().remove("message_changes").is_some());
    Store::set(&forge.store, &key, record.to_string().as_bytes()).unwrap();
    assert_eq!(set(&forge, &stale, "1.0.1", "old").status, 409);
    assert_eq!(set(&forge, &forge.get(PATH).json(), "1.0.1", "old").status, 200);
}

#[test]
fn a_publication_meanwhile_changes_no_message() {
    let forge = forge();
    assert_eq!(set(&forge, &forge.get(PATH).json(), "1.1.0", "broken").status, 200);
    let before = forge.get(PATH).json();
    forge.publish(PUBLIC, "lib", "3.0.0");
    assert_eq!(set(&forge, &before, "1.0.0", "old").status, 200);
    assert_eq!(deprecations(&forge), [("1.0.0".into(), json!("old")), ("1.1.0".into(), json!("broken"))]);
}

#[test]
fn repeating_it_changes_nothing() {
    let forge = forge();
    let deprecate = || send_back(&forge, |document| document["versions"]["1.0.0"]["deprecated"] = json!("old"));
    assert_eq!(deprecate().status, 200);
    let tag = forge.get(PATH).header("etag").to_owned();
    assert_eq!(deprecate().status, 200);
    assert_eq!(forge.get(PATH).header("etag"), tag);
}

#[test]
fn the_document_of_another_package_is_refused() {
    let forge = forge();
    let deprecate = |name: &str| {
        let document = json!({"name": name, "versions": {"1.0.0": {"deprecated": "x"}}}).to_string();
        forge.send(request(Method::PUT, PATH).by("maintainer").body(document))
    };
    let text = "Name is other, but the URL names lib";
    deprecate("other").is(400, &format!("400 Bad request - {text}"), text);
    assert_eq!(deprecations(&forge), []);
    assert_eq!(deprecate("lib").status, 200);
}

#[test]
fn each_error_has_its_text() {
    let forge = forge();
    let not_given = "\"package versions to deprecate\" not given";
    send_back(&forge, |_| ()).is(400, &format!("400 Bad request - {not_given}"), not_given);
    send_back(&forge, |document| document["versions"]["1.0.0"]["deprecated"] = json!(7))
        .is_refused(400, "versions[1.0.0] is invalid");
    send_back(&forge, |document| document["versions"]["1.0.0"]["deprecated"] = json!("x".repeat(65_537))).is(
        400,
        "400 Bad request - deprecation message of 1.0.0 has 65537 bytes; at most 65536 are allowed",
        "deprecation message of 1.0.0 has 65537 bytes; at most 65536 are allowed",
    );
    let document = json!({"versions": {"1.0.0": {"deprecated": "x"}}}).to_string();
    forge.send(request(Method::PUT, PATH).body(document.clone())).is_refused(403, "403 Forbidden");
    forge.send(request(Method::PUT, "/projects/7/packages/npm/other").by("maintainer").body(document)).is(
        404,
        "404 Package Not Found",
        "Package not found",
    );
}
