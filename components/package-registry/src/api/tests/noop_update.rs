//! Owners and stars: documents that must not be read as the whole package.

use super::*;

const PATH: &str = "/projects/7/packages/npm/lib";
const OWNERS: &str =
    "nothing was changed: the owners of a package are the members of its project: add and remove them there";
const STARS: &str = "nothing was changed: this registry keeps no stars";

fn put(path: &str, document: &str) -> TestRequest {
    request(Method::PUT, path).with("content-length", &document.len().to_string()).body(document)
}

#[test]
fn owners_and_stars_are_refused_with_the_reason() {
    let forge = Forge::new();
    forge.publish(PUBLIC, "lib", "1.0.0");
    let before = forge.get(PATH).body;
    let owners = r#"{"_id":"lib","_rev":"old","maintainers":[{"name":"mia","email":""}]}"#;
    let star = r#"{"_id":"lib","_rev":"old","users":{"guest":true}}"#;
    for path in [PATH.to_owned(), format!("{PATH}/-rev/1-old")] {
        forge.send(put(&path, owners).by("maintainer")).is_refused(400, OWNERS);
        forge.send(put(&path, star).by("guest")).is_refused(400, STARS);
    }
    assert_eq!(forge.get(PATH).body, before);
}

#[test]
fn a_document_may_lack_a_length() {
    let forge = Forge::new();
    forge.publish(PUBLIC, "lib", "1.0.0");
    let send = |document: &str, user: &str| forge.send(request(Method::PUT, PATH).by(user).body(document)).status;
    assert_eq!(send(r#"{"_id":"lib","_rev":"old","users":{"guest":true}}"#, "guest"), 400);
    assert_eq!(send(r#"{"_id":"lib","maintainers":[]}"#, "maintainer"), 400);
    // A longer document is read as a publication.
    let long = publication("lib", "1.0.1").change(|d| d["versions"]["1.0.1"]["x"] = json!("y".repeat(100_000)));
    assert_eq!(forge.send(long.to(PUBLIC)).status, 200);
}

#[test]
fn starring_needs_a_reader_and_changing_owners_a_maintainer() {
    let forge = Forge::shared();
    forge.publish(PUBLIC, "lib", "1.0.0");
    forge.publish(PRIVATE, "lib", "1.0.0");
    let (owners, star) = (r#"{"maintainers":[]}"#, r#"{"users":{}}"#);
    for suffix in ["", "/-rev/1-x"] {
        let send = |project: u64, name: &str, document: &str, user: &str| {
            let path = format!("/projects/{project}/packages/npm/{name}{suffix}");
            forge.send(put(&path, document).by(user)).status
        };
        assert_eq!(send(PUBLIC, "lib", star, ""), 401);
        assert_eq!(send(PUBLIC, "lib", owners, ""), 401);
        assert_eq!(send(PUBLIC, "lib", owners, "developer"), 403);
        assert_eq!(send(PUBLIC, "lib", owners, "maintainer"), 400);
        assert_eq!(send(PUBLIC, "lib", star, "outsider"), 400);
        assert_eq!(send(PRIVATE, "lib", star, "outsider"), 404);
        assert_eq!(send(PUBLIC, "other", star, "guest"), 404);
    }
}

/// npm sends changes of owners and stars to the address that it installs from.
#[test]
fn group_and_instance_paths_answer_owners_and_stars_like_the_project() {
    let forge = Forge::new();
    forge.publish(PUBLIC, "@acme/lib", "1.0.0");
    let before = forge.get("/packages/npm/@acme%2flib").body;
    let (owners, star) = (r#"{"maintainers":[]}"#, r#"{"users":{}}"#);
    for prefix in ["/groups/acme/-", ""] {
        let send = |name: &str, document: &str, user: &str| {
            forge.send(put(&format!("{prefix}/packages/npm/{name}"), document).by(user))
        };
        assert_eq!((send("@acme%2flib", star, "").status, send("@acme%2flib", owners, "").status), (401, 401));
        send("@acme%2flib", star, "outsider").is_refused(400, STARS);
        assert_eq!(send("@acme%2flib", owners, "developer").status, 403);
        send("@acme%2flib", owners, "maintainer").is_refused(400, OWNERS);
        assert_eq!(send("@acme%2fother", star, "guest").status, 404);
        assert_eq!(send("@acme%2flib", r#"{"name":"@acme/lib"}"#, "maintainer").status, 405);
    }
    assert_eq!(forge.get("/packages/npm/@acme%2flib").body, before);
}

#[test]
fn no_user_has_starred_packages() {
    let forge = Forge::new();
    for prefix in ["/projects/7", "/groups/acme/-", ""] {
        let path = format!("{prefix}/packages/npm/-/_view/starredByUser?key=%22guest%22");
        for user in ["", "guest"] {
            let answer = forge.send(request(Method::GET, &path).by(user));
            assert_eq!((answer.status, answer.json()), (200, json!({"rows": []})), "{path}");
            assert_eq!(answer.header("npm-notice"), "this registry keeps no stars");
        }
        assert_eq!(forge.send(request(Method::PUT, &path).by("guest")).status, 405);
    }
}

#[test]
fn a_small_publication_is_still_one() {
    let forge = Forge::new();
    let publication = publication("lib", "1.0.0").change(|document| document["users"] = json!({"x": true}));
    let length = publication.document.to_string().len().to_string();
    assert_eq!(forge.send(publication.to(PUBLIC).with("content-length", &length)).status, 200);
    assert_eq!(forge.get(PATH).json()["versions"].as_object().unwrap().len(), 1);
}

#[test]
fn a_user_is_found_by_name_with_credentials() {
    let forge = Forge::new();
    let path = |name| format!("/projects/7/packages/npm/-/user/org.couchdb.user:{name}");
    let user = json!({"_id": "org.couchdb.user:guest", "name": "guest", "email": ""});
    assert_eq!(forge.get(&path("guest")).json(), user);
    assert_eq!(forge.get(&path("GUEST")).json(), user);
    assert_eq!(forge.send(request(Method::GET, &path("guest")).by("")).status, 401);
    for missing in ["missing", "2", "%20"] {
        assert_eq!(forge.get(&path(missing)).status, 404, "{missing}");
    }
    forge.get("/projects/7/packages/npm/-/user/guest").is_refused(404, "404 Not Found");
}
