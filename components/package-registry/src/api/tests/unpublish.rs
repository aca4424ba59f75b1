use super::*;

const PATH: &str = "/projects/7/packages/npm/@acme%2flib";

fn forge() -> Forge {
    let forge = Forge::new();
    for version in ["1.0.0", "1.1.0", "2.0.0"] {
        forge.publish(PUBLIC, "@acme/lib", version);
    }
    forge
}

fn revision(forge: &Forge) -> String {
    forge.get(PATH).json()["_rev"].as_str().unwrap().to_owned()
}

/// Sends the document back without a version, as npm does.
fn remove(forge: &Forge, version: &str, latest: &str) -> TestResponse {
    let mut document = forge.get(PATH).json();
    document["versions"].as_object_mut().unwrap().remove(version);
    document["dist-tags"]["latest"] = json!(latest);
    let path = format!("{PATH}/-rev/{}", document["_rev"].as_str().unwrap());
    forge.send(request(Method::PUT, &path).by("maintainer").body(document.to_string()))
}

#[track_caller]
fn is_reserved(forge: &Forge, version: &str) {
    let text =
        format!("@acme/lib@{version} was unpublished, and its number is not used again: publish another version");
    forge.send(publication("@acme/lib", version).to(PUBLIC)).is_refused(403, &text);
}

fn chunks(forge: &Forge) -> usize {
    forge.store.keys().iter().filter(|key| key.contains("/upload/") && key.ends_with("/0")).count()
}

#[test]
fn a_version_is_removed_with_its_file_and_its_tags() {
    let forge = forge();
    assert_eq!(chunks(&forge), 3);
    let answer = remove(&forge, "2.0.0", "1.0.0");
    assert_eq!((answer.status, answer.json()), (200, json!({"ok": true})));
    let document = forge.get(PATH).json();
    let versions: Vec<&str> = document["versions"].as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!((versions, &document["dist-tags"]), (vec!["1.0.0", "1.1.0"], &json!({"latest": "1.0.0"})));
    assert_eq!((&document["readme"], document["time"].get("2.0.0")), (&json!("# 1.0.0"), None));
    assert_eq!((forge.get(&format!("{PATH}/-/lib-2.0.0.tgz")).status, chunks(&forge)), (404, 2));
    let file = format!("{PATH}/-/lib-2.0.0.tgz/-rev/{}", revision(&forge));
    assert_eq!(forge.send(request(Method::DELETE, &file).by("maintainer")).status, 200);
}

#[test]
fn its_number_is_not_used_again() {
    let forge = forge();
    assert_eq!(remove(&forge, "2.0.0", "1.0.0").status, 200);
    is_reserved(&forge, "2.0.0");
    forge.publish(PUBLIC, "@acme/lib", "2.0.1");
    // Nor after its run was merged with others, or after all versions are gone.
    for n in 0..50 {
        forge.publish(PUBLIC, "@acme/lib", &format!("3.0.{n}"));
    }
    is_reserved(&forge, "2.0.0");
}

#[test]
fn an_unpublished_package_can_be_published_again_with_other_versions() {
    let forge = forge();
    let path = format!("{PATH}/-rev/{}", revision(&forge));
    assert_eq!(forge.send(request(Method::DELETE, &path).by("maintainer")).status, 200);
    forge.get(PATH).is(404, "404 Packages Not Found", "Packages not found");
    assert_eq!((forge.get("/packages/npm/@acme%2flib").status, chunks(&forge)), (404, 0));
    assert_eq!(forge.send(request(Method::DELETE, &path).by("maintainer")).status, 404);
    is_reserved(&forge, "1.0.0");
    forge.publish(PUBLIC, "@acme/lib", "1.0.1");
    let document = forge.get(PATH).json();
    assert_eq!(document["versions"].as_object().unwrap().len(), 1);
    assert_eq!((&document["dist-tags"], &document["readme"]), (&json!({"latest": "1.0.1"}), &json!("# 1.0.1")));
}

#[test]
fn an_outdated_document_removes_nothing() {
    let forge = forge();
    let stale = forge.get(PATH).json();
    forge.publish(PUBLIC, "@acme/lib", "3.0.0");
    let path = format!("{PATH}/-rev/{}", stale["_rev"].as_str().unwrap());
    for request in [
        request(Method::PUT, &path).by("maintainer").body(stale.to_string()),
        request(Method::DELETE, &path).by("maintainer"),
        request(Method::DELETE, &format!("{PATH}/-rev/undefined")).by("maintainer"),
    ] {
        let answer = forge.send(request);
        assert_eq!(answer.status, 409);
        assert!(answer.json()["error"].as_str().unwrap().ends_with("the package was changed meanwhile, try again"));
    }
    assert_eq!(forge.get(PATH).json()["versions"].as_object().unwrap().len(), 4);
}

/// A client repeats a request whose answer was lost.
#[test]
fn an_unpublication_that_is_repeated_is_one() {
    let forge = forge();
    let mut document = forge.get(PATH).json();
    let path = format!("{PATH}/-rev/{}", document["_rev"].as_str().unwrap());
    document["versions"].as_object_mut().unwrap().remove("1.0.0").unwrap();
    for _ in 0..2 {
        assert_eq!(forge.send(request(Method::PUT, &path).by("maintainer").body(document.to_string())).status, 200);
    }
    assert_eq!(forge.get(PATH).json()["versions"].as_object().unwrap().len(), 2);
    document["versions"].as_object_mut().unwrap().remove("1.0.1");
    document["versions"].as_object_mut().unwrap().remove("2.0.0");
    assert_eq!(forge.send(request(Method::PUT, &path).by("maintainer").body(document.to_string())).status, 409);
}

#[test]
fn the_file_of_a_listed_version_is_not_removed() {
    let forge = forge();
    let path = format!("{PATH}/-/lib-1.0.0.tgz/-rev/{}", revision(&forge));
    let text = "@acme/lib@1.0.0 is listed; its file goes when the version is unpublished";
    forge.send(request(Method::DELETE, &path).by("maintainer")).is_refused(409, text);
}

#[test]
fn only_maintainers_unpublish() {
    let forge = forge();
    let revision = revision(&forge);
    for (caller, status) in [("", 401), ("guest", 403), ("developer", 403)] {
        for path in [format!("{PATH}/-rev/{revision}"), format!("{PATH}/-/lib-1.0.0.tgz/-rev/{revision}")] {
            assert_eq!(forge.send(request(Method::DELETE, &path).by(caller)).status, status, "{caller}");
        }
        let put = request(Method::PUT, &format!("{PATH}/-rev/{revision}")).by(caller).body("{\"versions\":{}}");
        assert_eq!(forge.send(put).status, status, "{caller}");
    }
    assert_eq!(forge.get(PATH).json()["versions"].as_object().unwrap().len(), 3);
}
