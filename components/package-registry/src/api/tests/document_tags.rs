//! The tags of a publish document.

use super::*;

#[test]
fn every_tag_of_a_document_is_set() {
    let forge = Forge::new();
    let publish = |version: &str, tags: Value| {
        forge.send(publication("lib", version).change(|document| document["dist-tags"] = tags).to(PUBLIC))
    };
    let tags = || forge.get("/projects/7/packages/npm/-/package/lib/dist-tags").json();
    assert_eq!(publish("1.0.0", json!({"latest": "1.0.0", "lts": "1.0.0"})).status, 200);
    assert_eq!(tags(), json!({"latest": "1.0.0", "lts": "1.0.0"}));
    // serde_json sorts names, so the version's tag need not be the first.
    assert_eq!(publish("2.0.0", json!({"beta": "2.0.0", "latest": "1.0.0", "next": "2.0.0"})).status, 200);
    let of_both = json!({"latest": "1.0.0", "lts": "1.0.0", "beta": "2.0.0", "next": "2.0.0"});
    assert_eq!(tags(), of_both);
    // A late repetition sets no tag again, and a new tag once.
    let set = |tag: &str| {
        let path = format!("/projects/7/packages/npm/-/package/lib/dist-tags/{tag}");
        forge.send(request(Method::PUT, &path).body("\"1.0.0\"")).status
    };
    assert_eq!((set("beta"), set("next")), (204, 204));
    assert_eq!(publish("2.0.0", json!({"beta": "2.0.0", "latest": "1.0.0", "next": "2.0.0"})).status, 200);
    assert_eq!((&tags()["beta"], &tags()["next"]), (&json!("1.0.0"), &json!("1.0.0")));
    assert_eq!(publish("2.0.0", json!({"beta": "2.0.0", "rc": "2.0.0"})).status, 200);
    assert_eq!((&tags()["beta"], &tags()["rc"]), (&json!("1.0.0"), &json!("2.0.0")));
    assert_eq!(forge.get("/projects/7/packages/npm/lib").json()["readme"], "# 1.0.0", "that of the latest version");
}

#[test]
fn a_further_tag_is_refused_by_the_rules_of_tags() {
    let forge = Forge::new();
    let publish = |tags: Value| {
        forge.send(publication("lib", "1.0.0").change(|document| document["dist-tags"] = tags).to(PUBLIC))
    };
    let range = "Tag name must not be a version or a range of versions: x";
    publish(json!({"latest": "1.0.0", "x": "1.0.0"})).is(400, &format!("400 Bad request - {range}"), range);
    assert_eq!(publish(json!({"latest": "1.0.0", "y".repeat(256): "1.0.0"})).status, 400);
    publish(json!({"latest": "1.0.0", "old": 7})).is_refused(400, "dist-tags is invalid");
    publish(json!({"latest": "1.0.0", " ": "1.0.0"})).is_refused(400, "dist-tags is invalid");
    publish(json!({"latest": "1.0.0", "old": "0.9.0"}))
        .is_refused(400, "Validation failed: Tag old is for version 0.9.0, which the package does not have");
    let many: serde_json::Map<String, Value> = (0..1001).map(|n| (format!("t{n}"), json!("1.0.0"))).collect();
    assert_eq!(publish(Value::Object(many)).status, 400);
    assert!(forge.store.keys().iter().all(|key| !key.contains("/package/")), "{:?}", forge.store.keys());
    assert_eq!(publish(json!({"latest": "1.0.0"})).status, 200);
}

/// As in the reference service; but the version that the tag names must be there.
#[test]
fn the_first_tag_is_for_the_published_version_if_none_names_that() {
    let forge = Forge::new();
    let publish = |version: &str, tags: Value| {
        forge.send(publication("lib", version).change(|document| document["dist-tags"] = tags).to(PUBLIC))
    };
    publish("1.0.0", json!({"beta": "9.0.0"}))
        .is_refused(400, "Validation failed: Tag beta is for version 9.0.0, which the package does not have");
    publish("1.0.0", json!({"beta": 9})).is_refused(400, "dist-tags is invalid");
    assert_eq!(publish("1.0.0", json!({"beta": "1.0.0"})).status, 200);
    assert_eq!(publish("1.0.0", json!({"next": "9.0.0"})).status, 400);
    assert_eq!(publish("2.0.0", json!({"stable": "1.0.0"})).status, 200);
    let tags = forge.get("/projects/7/packages/npm/-/package/lib/dist-tags").json();
    assert_eq!((&tags["beta"], tags.get("next"), &tags["stable"]), (&json!("1.0.0"), None, &json!("2.0.0")));
}

/// Such a tag could never be moved or removed.
#[test]
fn a_tag_that_no_path_can_name_is_refused() {
    let forge = Forge::new();
    forge.publish(PUBLIC, "lib", "1.0.0");
    let text = "Tag name must not be `.` or `..`, have a control character, or begin or end with white space";
    for tag in ["latest\n", "a\r\nb", "latest\0", "\u{85}a", ".", "..", "latest ", " latest", "a\u{a0}", "\u{feff}a"] {
        for (version, tags) in [
            ("1.0.1", json!({tag: "1.0.1"})),
            ("1.0.1", json!({"a": "1.0.1", tag: "1.0.1"})),
            ("1.0.0", json!({tag: "1.0.0"})),
        ] {
            let publication = publication("lib", version).change(|document| document["dist-tags"] = tags);
            forge.send(publication.to(PUBLIC)).is(400, &format!("400 Bad request - {text}"), text);
        }
        let path = format!("/projects/7/packages/npm/-/package/lib/dist-tags/{}", kit::path::encode(tag));
        let status = forge.send(request(Method::PUT, &path).body("\"1.0.0\"")).status;
        assert_eq!(status, if tag.contains(char::is_control) { 404 } else { 400 }, "{tag:?}");
    }
    for tag in ["feat/x", "a b", "a%2fb", "...", "a\\b"] {
        let publication = publication("lib", "1.0.0").change(|document| document["dist-tags"] = json!({tag: "1.0.0"}));
        assert_eq!(forge.send(publication.to(PUBLIC)).status, 200, "{tag}");
        let path = format!("/projects/7/packages/npm/-/package/lib/dist-tags/{}", kit::path::encode(tag));
        assert_eq!(forge.send(request(Method::DELETE, &path).by("maintainer")).status, 204, "{tag}");
    }
}
