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
        let answer = forge.send(request(Method::PUT, &format!("{TAGS}/x")).body("\"1.0.0\"").with("accept", accept));
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
        assert_eq!(set(&forge, &format!("x{query}"), body).status, 204, "{body} {query}");
        assert_eq!(forge.get(TAGS).json()["x"], "1.0.0");
    }
}

#[test]
fn each_error_has_its_text() {
    let forge = forge();
    let not_given = |what: &str| (format!("400 Bad request - \"{what}\" not given"), format!("\"{what}\" not given"));
    for body in ["", " ", "\"\"", "\" \"", "{\"version\":\"\"}"] {
        let (message, error) = not_given("Version");
        set(&forge, "x", body).is(400, &message, &error);
    }
    for body in ["1.0.0", "7", "[]", "{}", "\"1.0.0", "{\"version\":7}"] {
        set(&forge, "x", body).is_refused(400, "version is invalid");
    }
    let (message, error) = not_given("Tag");
    set(&forge, "%20", "\"1.0.0\"").is(400, &message, &error);
    remove(&forge, "%20").is(400, &message, &error);
    let (message, error) = not_given("Package Name");
    forge.get("/projects/7/packages/npm/-/package/%20/dist-tags").is(400, &message, &error);

    set(&forge, "x", "\"1.0.1\"").is(404, "404 Package Not Found", "Package not found");
    remove(&forge, "x").is(404, "404 Package Tag Not Found", "Package tag not found");
    assert_eq!(set(&forge, &"x".repeat(255), "\"1.0.0\"").status, 204);
    assert_eq!(set(&forge, &"x".repeat(256), "\"1.0.0\"").status, 400);
    let other = forge.get("/projects/7/packages/npm/-/package/other/dist-tags");
    other.is(404, "404 Package Not Found", "Package not found");
    let large = format!("\"{}\"", "1".repeat(5000));
    assert_eq!(set(&forge, "x", &large).status, 413);
    assert_eq!(set(&forge, "", "\"1.0.0\"").status, 404);
}

#[test]
fn the_credentials_come_first() {
    let forge = forge();
    for (method, path) in [(Method::PUT, format!("{TAGS}/%20")), (Method::DELETE, format!("{TAGS}/x"))] {
        forge.send(request(method, &path).by("")).is_refused(401, "401 Unauthorized");
    }
}

#[test]
fn a_tag_that_is_set_already_changes_nothing() {
    let forge = forge();
    assert_eq!(set(&forge, "x", "\"1.0.0\"").status, 204);
    let tag = forge.get("/projects/7/packages/npm/@acme/lib").header("etag").to_owned();
    assert_eq!(set(&forge, "x", "\"1.0.0\"").status, 204);
    assert_eq!(forge.get("/projects/7/packages/npm/@acme/lib").header("etag"), tag);
}

#[test]
fn tags_at_every_level() {
    let forge = forge();
    for prefix in ["/groups/acme/-/packages/npm", "/packages/pkgreg"] {
        let path = format!("{prefix}/-/package/@acme%2flib/dist-tags");
        assert_eq!(forge.send(request(Method::PUT, &format!("{path}/x")).body("\"1.0.0\"")).status, 204);
        assert_eq!(forge.get(&path).json(), json!({"latest": "1.1.0", "x": "1.0.0"}));
        assert_eq!(forge.send(request(Method::DELETE, &format!("{path}/x")).by("maintainer")).status, 204);
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
