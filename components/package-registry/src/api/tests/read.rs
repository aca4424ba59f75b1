use super::*;

const ABBREVIATED: &str = "application/vnd.npm.install-v1+json; q=1.0, application/json; q=0.8, */*";

#[test]
fn both_forms_have_times_and_differ_in_their_tags() {
    let forge = Forge::new();
    forge.publish(PUBLIC, "lib", "1.0.0");
    let full = forge.get("/projects/7/packages/npm/lib");
    let abbreviated = forge.send(request(Method::GET, "/projects/7/packages/npm/lib").with("accept", ABBREVIATED));
    assert_eq!(full.header("content-type"), "application/json");
    assert_eq!(abbreviated.header("content-type"), "application/vnd.npm.install-v1+json");
    for answer in [&full, &abbreviated] {
        assert_eq!(answer.header("vary"), "Accept, Accept-Encoding");
        assert_eq!(answer.json()["time"]["1.0.0"], "2026-09-21T14:13:20.000Z");
        assert_eq!(answer.json()["dist-tags"], json!({"latest": "1.0.0"}));
    }
    assert_ne!(full.header("etag"), abbreviated.header("etag"));
    assert!(full.json()["_rev"].as_str().unwrap().starts_with("1-"));
    assert_eq!(abbreviated.json()["modified"], "2026-09-21T14:13:20.000Z");
    assert_eq!(abbreviated.json()["versions"]["1.0.0"].get("_npmVersion"), None);
    assert_eq!(full.json()["versions"]["1.0.0"]["_npmVersion"], "11.19.1");
}

#[test]
fn a_cached_document_is_sent_again_only_after_a_change() {
    let forge = Forge::new();
    forge.publish(PUBLIC, "lib", "1.0.0");
    let path = "/projects/7/packages/npm/lib";
    let known = |tag: &str| forge.send(request(Method::GET, path).with("if-none-match", tag));
    let tag = forge.get(path).header("etag").to_owned();
    let answer = known(&tag);
    assert_eq!((answer.status, answer.body.len()), (304, 0));
    assert_eq!((answer.header("etag"), answer.header("vary")), (tag.as_str(), "Accept, Accept-Encoding"));
    forge.publish(PUBLIC, "lib", "1.0.1");
    assert_eq!(known(&tag).status, 200);
    // Below another prefix, the package is another document.
    let instance = "/groups/acme/-/packages/npm/lib";
    assert_ne!(forge.get(instance).header("etag"), forge.get(path).header("etag"));
}

/// The response of an instance with `env` to a GET with an `Accept-Encoding`.
fn encoded(env: &Env, path: &str, accept_encoding: &str) -> TestResponse {
    TestResponse::of(env.clone(), request(Method::GET, path).with("accept-encoding", accept_encoding))
}

fn gunzip(answer: &TestResponse) -> Vec<u8> {
    assert_eq!(answer.header("content-encoding"), "gzip");
    let mut document = Vec::new();
    std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&*answer.body), &mut document).unwrap();
    document
}

#[test]
fn metadata_is_compressed_for_clients_that_accept_it() {
    let forge = Forge::new();
    (0..5).for_each(|n| drop(forge.publish(PUBLIC, "lib", &format!("1.0.{n}"))));
    let env = forge.env();
    let path = "/projects/7/packages/npm/lib";
    let plain = encoded(&env, path, "gzip;q=0");
    assert_eq!(plain.header("content-encoding"), "");
    let mut tags = vec![plain.header("etag").to_owned()];
    for _ in ["made", "remembered"] {
        let compressed = encoded(&env, path, "br, gzip;q=0.5");
        assert_eq!((compressed.status, compressed.header("vary")), (200, "Accept, Accept-Encoding"));
        assert_eq!(gunzip(&compressed), plain.body);
        assert_ne!(compressed.header("etag"), plain.header("etag"));
        tags.push(compressed.header("etag").to_owned());
    }
    assert_eq!(tags[1], tags[2]);
    let known = |encoding, tag: &str| {
        let request = request(Method::GET, path).with("accept-encoding", encoding).with("if-none-match", tag);
        forge.send(request).status
    };
    assert_eq!((known("gzip", &tags[1]), known("identity", &tags[0])), (304, 304));
    assert_eq!((known("gzip", &tags[0]), known("identity", &tags[1])), (200, 200));
    let file = encoded(&env, "/projects/7/packages/npm/lib/-/lib-1.0.0.tgz", "gzip");
    assert_eq!(file.header("content-encoding"), "");
    assert_eq!(file.body, tarball("lib", "1.0.0", b"payload"));
}

#[test]
fn an_instance_renders_a_document_once_and_never_serves_an_old_one() {
    let forge = Forge::new();
    (0..5).for_each(|n| drop(forge.publish(PUBLIC, "lib", &format!("1.0.{n}"))));
    let env = forge.env();
    let prefixes = ["/projects/7/packages/npm", "/projects/acme%2fweb/packages/npm", "/groups/acme/-/packages/npm"];
    let mut bodies = Vec::new();
    for (prefix, encoding) in prefixes.iter().flat_map(|prefix| [(prefix, "identity"), (prefix, "gzip")]) {
        let path = format!("{prefix}/lib");
        let made = encoded(&env, &path, encoding);
        let maintainers = r#"[{"email":"","name":"maintainer"}]"#;
        let key = format!("metadata/{}/http://registry.example/api/v4{prefix}/{maintainers}", made.header("etag"));
        assert_eq!(env.blobs.peek(&key).as_deref(), Some(&*made.body));
        assert!(!bodies.contains(&made.body), "each address and encoding has a document of its own");
        bodies.push(made.body);

        env.blobs.put(&key, Bytes::from_static(b"remembered"));
        assert_eq!(encoded(&env, &path, encoding).text(), "remembered");
        // A new instance has cached nothing.
        assert_eq!(Some(&encoded(&forge.env(), &path, encoding).body), bodies.last());
    }
    let tag = request(Method::PUT, "/projects/7/packages/npm/-/package/lib/dist-tags/xx").body("\"1.0.0\"");
    assert_eq!(TestResponse::of(env.clone(), tag).status, 204);
    for prefix in prefixes {
        let answer = encoded(&env, &format!("{prefix}/lib"), "identity");
        assert_eq!(answer.json()["dist-tags"], json!({"latest": "1.0.4", "xx": "1.0.0"}));
    }
}

#[test]
fn answers_repeat_the_prefix_of_the_request() {
    let forge = Forge::new();
    let file = tarball("@acme/lib", "1.0.0", b"payload");
    forge.publish(PUBLIC, "@acme/lib", "1.0.0");
    for prefix in [
        "/projects/7/packages/npm",
        "/projects/7/packages/pkgreg",
        "/projects/acme%2Fweb/packages/npm",
        "/projects/acme%2fweb/packages/npm",
        "/groups/100/-/packages/npm",
        "/groups/acme/-/packages/pkgreg",
        "/packages/npm",
        "/packages/pkgreg",
    ] {
        let metadata = forge.get(&format!("{prefix}/@acme%2flib")).json();
        let tarball = metadata["versions"]["1.0.0"]["dist"]["tarball"].as_str().unwrap();
        assert_eq!(tarball, format!("http://registry.example/api/v4{prefix}/@acme/lib/-/lib-1.0.0.tgz"));
        let path = tarball.strip_prefix("http://registry.example/api/v4").unwrap();
        assert_eq!(forge.get(path).body, file, "{path}");
    }
}

#[test]
fn the_external_address_is_used_if_it_is_set() {
    let mut forge = Forge::new();
    forge.publish(PUBLIC, "lib", "1.0.0");
    forge.variables.push(("external_url", "https://forge.example/base/"));
    let metadata = forge.get("/projects/7/packages/npm/lib").json();
    assert_eq!(
        metadata["versions"]["1.0.0"]["dist"]["tarball"],
        "https://forge.example/base/api/v4/projects/7/packages/npm/lib/-/lib-1.0.0.tgz"
    );
}

#[test]
fn one_version_by_number_or_tag() {
    let forge = Forge::new();
    forge.publish(PUBLIC, "@acme/lib", "1.0.0");
    forge.publish(PUBLIC, "@acme/lib", "1.1.0");
    for (number_or_tag, version) in [("1.0.0", "1.0.0"), ("latest", "1.1.0"), ("1.1.0", "1.1.0")] {
        for name in ["@acme/lib", "@acme%2flib"] {
            let record = forge.get(&format!("/projects/7/packages/npm/{name}/{number_or_tag}")).json();
            assert_eq!(record["version"], version);
            assert_eq!(
                record["dist"]["tarball"],
                format!("http://registry.example/api/v4/projects/7/packages/npm/@acme/lib/-/lib-{version}.tgz")
            );
        }
    }
    forge.get("/projects/7/packages/npm/@acme/lib/2.0.0").is(404, "404 Package Not Found", "version not found: 2.0.0");
    forge.get("/projects/7/packages/npm/other/latest").is(404, "404 Package Not Found", "Package not found");
}

#[test]
fn a_file_has_every_header() {
    let forge = Forge::shared();
    let size = tarball("lib", "1.0.0", b"payload").len().to_string();
    forge.publish(PUBLIC, "lib", "1.0.0");
    let path = "/projects/7/packages/npm/lib/-/lib-1.0.0.tgz";
    let answer = forge.get(path);
    assert_eq!(answer.header("content-type"), "application/octet-stream");
    assert_eq!(answer.header("content-length"), size);
    assert_eq!(answer.header("content-transfer-encoding"), "binary");
    assert_eq!(answer.header("cache-control"), "public, max-age=31536000, immutable");
    assert_eq!(
        answer.header("content-disposition"),
        "attachment; filename=\"lib-1.0.0.tgz\"; filename*=UTF-8''lib-1.0.0.tgz"
    );
    let head = forge.send(request(Method::HEAD, path));
    assert_eq!((head.status, head.body.len(), head.header("content-length")), (200, 0, size.as_str()));
    let known = forge.send(request(Method::GET, path).with("if-none-match", answer.header("etag")));
    assert_eq!((known.status, known.body.len()), (304, 0));
    forge.publish(PRIVATE, "lib", "1.0.0");
    let private = forge.get("/projects/9/packages/npm/lib/-/lib-1.0.0.tgz");
    assert_eq!(private.header("cache-control"), "private, max-age=31536000, immutable");
    for registry in ["groups/acme/-/packages/npm", "projects/acme%2Fweb/packages/npm"] {
        let elsewhere = forge.get(&format!("/{registry}/lib/-/lib-1.0.0.tgz"));
        assert_eq!(elsewhere.status, 200);
        let kept = elsewhere.header("cache-control");
        assert!(kept.ends_with("no-cache"), "{registry}: another project may have the address later: {kept}");
    }
}

#[test]
fn parts_of_a_file_across_chunks() {
    let forge = Forge::new();
    let payload: Vec<u8> = (0..2 << 20).map(|at: usize| (at * 31 % 251) as u8).collect();
    let file = tarball("lib", "1.0.0", &payload);
    assert_eq!(forge.send(publication_of("lib", "1.0.0", &file).to(PUBLIC)).status, 200);
    let path = "/projects/7/packages/npm/lib/-/lib-1.0.0.tgz";
    let mib = 1 << 20;
    for (first, last) in [
        (0, 0),
        (5, 9),
        (mib - 1, mib),
        (mib, 2 * mib - 1),
        (10, 2 * mib + 50),
        (2 * mib, 2 * mib + 99),
        (0, file.len() - 1),
    ] {
        let answer = forge.send(request(Method::GET, path).with("range", &format!("bytes={first}-{last}")));
        assert_eq!((answer.status, answer.header("content-length")), (206, (last - first + 1).to_string().as_str()));
        assert_eq!(answer.header("content-range"), format!("bytes {first}-{last}/{}", file.len()));
        assert!(answer.body == file[first..=last], "{first}-{last}");
    }
    let beyond = forge.send(request(Method::GET, path).with("range", &format!("bytes={}-", file.len())));
    assert_eq!((beyond.status, beyond.header("content-range")), (416, format!("bytes */{}", file.len()).as_str()));
    let other = request(Method::GET, path).with("range", "bytes=0-0").with("if-range", "\"other\"");
    assert_eq!(forge.send(other).status, 200);
    let head = forge.send(request(Method::HEAD, path).with("range", "bytes=0-0"));
    assert_eq!((head.status, head.header("accept-ranges")), (200, "bytes"));
}

#[test]
fn missing_files() {
    let forge = Forge::new();
    forge.publish(PUBLIC, "@acme/lib", "1.0.0");
    for file in [
        "lib-1.0.1.tgz",
        "lib-1.0.0.tar",
        "other-1.0.0.tgz",
        "@other/lib-1.0.0.tgz",
        "..%2f..%2fetc",
        "lib-1.0.0%00.tgz",
        "%252e%252e",
        "lib-..%2f1.0.0.tgz",
    ] {
        let answer = forge.get(&format!("/projects/7/packages/npm/@acme/lib/-/{file}"));
        assert!(matches!(answer.status, 404 | 400), "{file}: {}", answer.status);
    }
    forge.get("/projects/7/packages/npm/@acme/lib/-/lib-1.0.1.tgz").is_refused(404, "404 Not found");
    forge.get("/projects/7/packages/npm/other/-/other-1.0.0.tgz").is_refused(404, "404 Not found");
}

#[test]
fn damage_is_never_served() {
    let forge = Forge::new();
    let file = tarball("lib", "1.0.0", &vec![5; 2 << 20]);
    assert_eq!(forge.send(publication_of("lib", "1.0.0", &file).to(PUBLIC)).status, 200);
    let chunks: Vec<String> = forge.store.keys().into_iter().filter(|key| key.contains("/upload/")).collect();
    let damage = |ending: &str| {
        let key = chunks.iter().find(|key| key.ends_with(ending)).unwrap();
        let mut bytes = kit::store::Store::get(&forge.store, key).unwrap().unwrap();
        bytes[3] ^= 1;
        kit::store::Store::set(&forge.store, key, &bytes).unwrap();
    };
    let path = "/projects/7/packages/npm/lib/-/lib-1.0.0.tgz";
    damage("/2");
    let answer = forge.get(path);
    assert!(answer.text().contains("checksum differs"), "the body broke off, which the double shows as text");
    damage("/0");
    let answer = forge.get(path);
    assert_eq!(
        (answer.status, answer.text().as_str()),
        (500, "{\"error\":\"500 Internal Server Error\",\"message\":\"500 Internal Server Error\"}")
    );
    assert!(answer.cause.unwrap().contains("checksum differs"));
}

#[test]
fn invalid_names() {
    let forge = Forge::new();
    for name in ["%0d%0ahttp:/%2fexample.com", "..%2f..%2fetc", "@a%2f..%2fb", "%2e%2e"] {
        forge.get(&format!("/projects/7/packages/npm/{name}")).json()["error"]
            .as_str()
            .filter(|error| *error == "package_name should be a valid file path")
            .unwrap_or_else(|| panic!("{name}"));
    }
    for name in ["a%20b", "@acme%252flib", "%20"] {
        forge.get(&format!("/projects/7/packages/npm/{name}")).is(404, "404 Packages Not Found", "Packages not found");
    }
}

#[test]
fn services() {
    let mut forge = Forge::new();
    forge.variables.push(("registry_audit", "empty"));
    let get = |path: &str, user: &str| forge.send(request(Method::GET, &format!("/packages/npm/-/{path}")).by(user));
    assert_eq!((get("ping", "").status, get("ping", "").json()), (200, json!({})));
    assert_eq!(get("whoami", "developer").json(), json!({"username": "developer"}));
    get("whoami", "").is_refused(401, "401 Unauthorized");
    get("ping", "no such token").is_refused(401, "401 Unauthorized");
    let none = json!({"info": 0, "low": 0, "moderate": 0, "high": 0, "critical": 0});
    for path in ["advisories/bulk", "audits/quick", "audits"] {
        let path = format!("/projects/7/packages/npm/-/npm/v1/security/{path}");
        let answer = forge.send(request(Method::POST, &path).body("{\"lib\":[\"1.0.0\"]}"));
        assert_eq!(answer.status, 200);
        match path.ends_with("bulk") {
            true => assert_eq!(answer.json(), json!({})),
            false => {
                let report = answer.json();
                assert_eq!((&report["metadata"]["vulnerabilities"], &report["advisories"]), (&none, &json!({})));
                assert_eq!((&report["actions"], &report["muted"]), (&json!([]), &json!([])));
            }
        }
    }
    forge.get("/packages/npm/-/v1/login").is_refused(404, "404 Not Found");
}

/// Package managers print `error` only, others `message`.
#[test]
fn a_path_that_names_nothing_is_refused_under_both_keys() {
    let forge = Forge::new();
    for name in ["odd%00", "%ff", "%c0%af"] {
        for prefix in ["/projects/7", "/groups/acme/-", ""] {
            let answer = forge.get(&format!("{prefix}/packages/npm/{name}"));
            answer.is_refused(400, "package_name should be a valid file path");
        }
    }
    forge.send(request(Method::PATCH, "/projects/7/packages/npm/lib")).is_refused(405, "405 Not Allowed");
    forge.send(request(Method::DELETE, "/projects/7/packages")).is_refused(405, "405 Not Allowed");
}

#[test]
fn a_project_that_moved() {
    let forge = Forge::new();
    forge.publish(PUBLIC, "@acme/lib", "1.0.0");
    forge.project(PUBLIC, "site", 100, Visibility::Public, FeatureAccess::Enabled);
    // pnpm has its token for the address that it was configured with, and none for another one.
    let former = "/projects/acme%2Fweb/packages/npm";
    let document = forge.get(&format!("{former}/@acme%2flib")).json();
    let file = "/projects/acme%2Fweb/packages/npm/@acme/lib/-/lib-1.0.0.tgz";
    let url = format!("http://registry.example/api/v4{file}");
    assert_eq!(document["versions"]["1.0.0"]["dist"]["tarball"], json!(url));
    assert_eq!(forge.get(file).body, tarball("@acme/lib", "1.0.0", b"payload"));
    assert_eq!(forge.get(&format!("{former}/-/package/@acme%2flib/dist-tags")).json(), json!({"latest": "1.0.0"}));
    assert_eq!(forge.get(&format!("{former}/@acme%2flib/latest")).json()["dist"]["tarball"], json!(url));
    let answer = forge.get("/projects/acme%2Fweb/packages?per_page=5");
    let expected = "http://registry.example/api/v4/projects/7/packages?per_page=5";
    assert_eq!((answer.status, answer.header("location")), (301, expected), "the API redirects");
    let put =
        request(Method::PUT, "/projects/acme%2Fweb/packages/npm/-/package/@acme%2flib/dist-tags/xx").body("\"1.0.0\"");
    assert_eq!(forge.send(put).status, 405);
}

#[test]
fn a_former_path_of_a_private_project_is_read_by_its_readers_only() {
    let forge = Forge::new();
    forge.publish(PRIVATE, "@acme/lib", "1.0.0");
    let paths =
        |path: &str| ["@acme%2flib", "@acme/lib/-/lib-1.0.0.tgz"].map(|below| format!("{path}/packages/npm/{below}"));
    let statuses = |path: &str| {
        let status = |path: &String, user: &str| forge.send(request(Method::GET, path).by(user)).status;
        ["reporter", "guest", "outsider", "", "nobody"].map(|user| paths(path).map(|path| status(&path, user)))
    };
    let before = statuses("/projects/acme%2Fsub%2Fcore");
    assert_eq!(before, [[200, 200], [403, 403], [404, 404], [401, 404], [401, 401]]);
    forge.project(PRIVATE, "kernel", 101, Visibility::Private, FeatureAccess::Enabled);
    assert_eq!(statuses("/projects/acme%2Fsub%2Fcore"), before);
    assert_eq!(statuses("/projects/acme%2Fsub%2Fkernel"), before);
    let publication = publication("@acme/lib", "1.0.1").document.to_string();
    let put = |user: &str| {
        let put = request(Method::PUT, "/projects/acme%2Fsub%2Fcore/packages/npm/@acme%2flib");
        forge.send(put.by(user).body(publication.as_str())).status
    };
    assert_eq!((put("developer"), put("outsider")), (405, 404));
}

/// Clients print an empty answer as "0 vulnerabilities".
#[test]
fn an_audit_for_which_nothing_is_looked_up_is_refused() {
    let forge = Forge::new();
    for (path, user, status) in [
        ("/packages/npm", "", 404),
        ("/projects/7/packages/npm", "", 404),
        ("/projects/9/packages/npm", "", 401),
        ("/projects/9/packages/npm", "outsider", 404),
        ("/projects/9/packages/npm", "guest", 403),
        ("/groups/acme%2fsub/-/packages/npm", "", 401),
        ("/groups/acme%2fsub/-/packages/npm", "outsider", 404),
        ("/groups/acme%2fsub/-/packages/npm", "reporter", 404),
    ] {
        for report in ["advisories/bulk", "audits/quick", "audits"] {
            let path = format!("{path}/-/npm/v1/security/{report}");
            let answer = forge.send(request(Method::POST, &path).by(user).body("{\"lib\":[\"1.0.0\"]}"));
            assert_eq!(answer.status, status, "{path} {user}: {}", answer.text());
        }
    }
    let path = "/projects/9/packages/npm/-/npm/v1/security/advisories/bulk";
    forge.send(request(Method::POST, path).body("{}")).is_refused(
        404,
        "no advisories were looked for, because this registry knows none: audit with the address of a registry that \
         has advisories (npm audit --registry URL)",
    );
}
