use super::*;

const TAGS: &str = "/projects/7/packages/npm/-/package/@acme/lib/dist-tags";

fn forge() -> Forge {
    let forge = Forge::new();
    forge.publish(PUBLIC, "@acme/lib", "1.0.0");
    forge.publish(PUBLIC, "@acme/lib", "1.1.0");
    forge
}

fn set(forge: &Forge, tag: &str, body: &str) -> TestResponse {
    forge.send(request(Method::PUT, &format!("{TAGS}/{tag}")).body(body))
}

fn remove(forge: &Forge, tag: &str) -> TestResponse {
    forge.send(request(Method::DELETE, &format!("{TAGS}/{tag}")).by("maintainer"))
}

#[test]
fn tags_are_set_moved_and_removed() {
    let forge = forge();
    let answer = set(&forge, "feat%2Fx%20y", "\"1.0.0\"");
    assert_eq!((answer.status, answer.body.len(), answer.header("content-type")), (204, 0, ""));
    assert_eq!(forge.get(TAGS).json(), json!({"latest": "1.1.0", "feat/x y": "1.0.0"}));
    assert_eq!(set(&forge, "feat%2Fx%20y", "\"1.1.0\"").status, 204);
    assert_eq!(set(&forge, "latest", "\"1.0.0\"").status, 204);
    assert_eq!(forge.get(TAGS).json(), json!({"latest": "1.0.0", "feat/x y": "1.1.0"}));
    assert_eq!(forge.get("/projects/7/packages/npm/@acme/lib").json()["readme"], "# 1.0.0");
    assert_eq!(remove(&forge, "feat%2Fx%20y").status, 204);
    assert_eq!(remove(&forge, "latest").status, 204);
    assert_eq!(forge.get(TAGS).json(), json!({"latest": "1.1.0"}), "computed");
    assert_eq!(forge.get("/projects/7/packages/npm/@acme/lib").json()["readme"], "# 1.1.0");
}

/// The header of yarn classic, of yarn berry, and of npm, pnpm and bun.
#[test]
fn a_client_that_asks_for_json_gets_it() {
    let forge = forge();
    for (accept, status) in [
        ("application/vnd.npm.install-v1+json; q=1.0, application/json; q=0.8, */*", 200),
        ("application/json", 200),
        ("*/*", 204),
        ("application/json;q=0", 204),
    ] {
        let answer = forge.send(request(Method::PUT, &format!("{TAGS}/next")).body("\"1.0.0\"").with("accept", accept));
        assert_eq!(answer.status, status, "{accept}");
        if status == 200 {
            assert_eq!(answer.json(), json!({"ok": true}));
        }
    }
}

#[test]
fn a_version_is_named_in_three_ways() {
    for (body, query) in
        [("\"1.0.0\"", ""), ("{\"version\":\"1.0.0\",\"x\":1}", ""), ("", "?version=1.0.0"), (" ", "?version=1.0.0")]
    {
        let forge = forge();
        assert_eq!(set(&forge, &format!("xx{query}"), body).status, 204, "{body} {query}");
        assert_eq!(forge.get(TAGS).json()["xx"], "1.0.0");
    }
}

#[test]
fn each_error_has_its_text() {
    let forge = forge();
    let not_given =
        |field: &str| (format!("400 Bad request - \"{field}\" not given"), format!("\"{field}\" not given"));
    for body in ["", " ", "\"\"", "\" \"", "{\"version\":\"\"}"] {
        let (message, error) = not_given("Version");
        set(&forge, "xx", body).is(400, &message, &error);
    }
    for body in ["1.0.0", "7", "[]", "{}", "\"1.0.0", "{\"version\":7}"] {
        set(&forge, "xx", body).is_refused(400, "version is invalid");
    }
    let (message, error) = not_given("Tag");
    set(&forge, "%20", "\"1.0.0\"").is(400, &message, &error);
    remove(&forge, "%20").is(400, &message, &error);
    let (message, error) = not_given("Package Name");
    forge.get("/projects/7/packages/npm/-/package/%20/dist-tags").is(400, &message, &error);

    set(&forge, "xx", "\"1.0.1\"").is(404, "404 Package Not Found", "Package not found");
    remove(&forge, "xx").is(404, "404 Package Tag Not Found", "Package tag not found");
    assert_eq!(set(&forge, &"x".repeat(255), "\"1.0.0\"").status, 204);
    assert_eq!(set(&forge, &"x".repeat(256), "\"1.0.0\"").status, 400);
    let other = forge.get("/projects/7/packages/npm/-/package/other/dist-tags");
    other.is(404, "404 Package Not Found", "Package not found");
    let large = format!("\"{}\"", "1".repeat(5000));
    assert_eq!(set(&forge, "xx", &large).status, 413);
    assert_eq!(set(&forge, "", "\"1.0.0\"").status, 404);
}

#[test]
fn the_credentials_come_first() {
    let forge = forge();
    for (method, path) in [(Method::PUT, format!("{TAGS}/%20")), (Method::DELETE, format!("{TAGS}/xx"))] {
        forge.send(request(method, &path).by("")).is_refused(401, "401 Unauthorized");
    }
}

#[test]
fn a_tag_that_is_set_already_changes_nothing() {
    let forge = forge();
    assert_eq!(set(&forge, "xx", "\"1.0.0\"").status, 204);
    let tag = forge.get("/projects/7/packages/npm/@acme/lib").header("etag").to_owned();
    assert_eq!(set(&forge, "xx", "\"1.0.0\"").status, 204);
    assert_eq!(forge.get("/projects/7/packages/npm/@acme/lib").header("etag"), tag);
}

#[test]
fn tags_at_every_level() {
    let forge = forge();
    for prefix in ["/groups/acme/-/packages/npm", "/packages/pkgreg"] {
        let path = format!("{prefix}/-/package/@acme%2flib/dist-tags");
        assert_eq!(forge.send(request(Method::PUT, &format!("{path}/xx")).body("\"1.0.0\"")).status, 204);
        assert_eq!(forge.get(&path).json(), json!({"latest": "1.1.0", "xx": "1.0.0"}));
        assert_eq!(forge.send(request(Method::DELETE, &format!("{path}/xx")).by("maintainer")).status, 204);
    }
}

#[test]
fn publishing_under_a_tag_leaves_the_others() {
    let forge = forge();
    let beta = publication("@acme/lib", "2.0.0").change(|document| document["dist-tags"] = json!({"beta": "2.0.0"}));
    assert_eq!(forge.send(beta.to(PUBLIC)).status, 200);
    assert_eq!(forge.get(TAGS).json(), json!({"beta": "2.0.0", "latest": "1.1.0"}));
    assert_eq!(forge.get("/projects/7/packages/npm/@acme/lib").json()["readme"], "# 1.1.0");
}

/// A JavaScript object gets no member when this name is assigned.
#[test]
fn a_prototype_is_no_tag() {
    let forge = forge();
    let text = "Tag name must not be `__proto__`";
    set(&forge, "__proto__", "\"1.0.0\"").is(400, &format!("400 Bad request - {text}"), text);
    let tagged =
        publication("@acme/lib", "2.0.0").change(|document| document["dist-tags"] = json!({"__proto__": "2.0.0"}));
    assert_eq!(forge.send(tagged.to(PUBLIC)).status, 400);
}

#[test]
fn a_version_or_range_is_no_tag() {
    let forge = forge();
    for (path, tag) in
        [("1.1.0", "1.1.0"), ("v1", "v1"), ("%5E1.0.0", "^1.0.0"), ("1%20%7C%7C%202", "1 || 2"), ("x", "x")]
    {
        let text = format!("Tag name must not be a version or a range of versions: {tag}");
        set(&forge, path, "\"1.0.0\"").is(400, &format!("400 Bad request - {text}"), &text);
    }
}

#[test]
fn a_version_wins_over_a_tag_of_an_old_build() {
    let forge = forge();
    let key = "package-registry/v1/package/7/@acme/lib";
    let record = kit::store::Store::get(&forge.store, key).unwrap().unwrap();
    let mut record: Value = serde_json::from_slice(&record).unwrap();
    record["tags"]["1.0.0"] = json!({"version": "1.1.0", "at": 0});
    record["tags"]["9.0.0"] = json!({"version": "1.1.0", "at": 0});
    kit::store::Store::set(&forge.store, key, record.to_string().as_bytes()).unwrap();
    let version =
        |path: &str| forge.get(&format!("/projects/7/packages/npm/@acme%2flib/{path}")).json()["version"].clone();
    assert_eq!(
        (version("1.0.0"), version("9.0.0"), version("latest")),
        (json!("1.0.0"), json!("1.1.0"), json!("1.1.0"))
    );
    assert_eq!(remove(&forge, "1.0.0").status, 204);
}

#[test]
fn a_tag_of_an_old_build_with_white_space_is_read_and_removed() {
    let forge = forge();
    let key = "package-registry/v1/package/7/@acme/lib";
    let record = kit::store::Store::get(&forge.store, key).unwrap().unwrap();
    let mut record: Value = serde_json::from_slice(&record).unwrap();
    for tag in ["next ", "a\nb", ".."] {
        record["tags"][tag] = json!({"version": "1.0.0", "at": 0});
    }
    kit::store::Store::set(&forge.store, key, record.to_string().as_bytes()).unwrap();
    assert_eq!(forge.get(TAGS).json(), json!({"latest": "1.1.0", "next ": "1.0.0", "a\nb": "1.0.0", "..": "1.0.0"}));
    forge.publish(PUBLIC, "@acme/lib", "1.2.0");
    assert_eq!((remove(&forge, "next%20").status, remove(&forge, "..").status), (204, 204));
    assert_eq!(forge.get(TAGS).json(), json!({"latest": "1.2.0", "a\nb": "1.0.0"}));
}

#[test]
fn without_a_tag_the_latest_version_is_no_prerelease() {
    let forge = forge();
    let beta = publication("@acme/lib", "2.0.0-beta.1")
        .change(|document| document["dist-tags"] = json!({"beta": "2.0.0-beta.1"}));
    assert_eq!(forge.send(beta.to(PUBLIC)).status, 200);
    assert_eq!(set(&forge, "latest", "\"2.0.0-beta.1\"").status, 204);
    assert_eq!(remove(&forge, "latest").status, 204);
    assert_eq!(forge.get(TAGS).json(), json!({"beta": "2.0.0-beta.1", "latest": "1.1.0"}));
    assert_eq!(forge.get("/projects/7/packages/npm/@acme/lib").json()["readme"], "# 1.1.0");
}

/// Old builds stored the highest version only.
#[test]
fn the_highest_stable_version_of_an_old_record_is_looked_for() {
    let forge = forge();
    let beta = publication("@acme/lib", "2.0.0-beta.1");
    assert_eq!(forge.send(beta.to(PUBLIC)).status, 200);
    let key = "package-registry/v1/package/7/@acme/lib";
    let record = kit::store::Store::get(&forge.store, key).unwrap().unwrap();
    let mut record: Value = serde_json::from_slice(&record).unwrap();
    assert_eq!(record.as_object_mut().unwrap().remove("highest_stable"), Some(json!("1.1.0")));
    kit::store::Store::set(&forge.store, key, record.to_string().as_bytes()).unwrap();
    assert_eq!(remove(&forge, "latest").status, 204);
    assert_eq!(forge.get(TAGS).json(), json!({"latest": "1.1.0"}));
    assert_eq!(forge.get("/projects/7/packages/npm/@acme/lib").json()["readme"], "# 1.1.0");
}
