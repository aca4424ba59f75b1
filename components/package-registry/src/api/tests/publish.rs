use super::*;

#[test]
fn a_published_version_is_served() {
    let forge = Forge::new();
    let answer = forge.publish(PUBLIC, "@acme/lib", "1.0.0");
    let row = answer.json();
    assert_eq!(
        (&row["project_id"], &row["name"], &row["version"], &row["creator_id"]),
        (&json!(7), &json!("@acme/lib"), &json!("1.0.0"), &json!(4))
    );
    let answer = forge.get("/projects/7/packages/npm/@acme/lib/-/lib-1.0.0.tgz");
    assert_eq!((answer.status, answer.body), (200, tarball("@acme/lib", "1.0.0", b"payload")));
    let metadata = forge.get("/projects/7/packages/npm/@acme%2flib").json();
    let sent = publication("@acme/lib", "1.0.0").document;
    let mut expected = sent["versions"]["1.0.0"].clone();
    expected.as_object_mut().unwrap().remove("readme");
    expected["dist"]["tarball"] =
        json!("http://registry.example/api/v4/projects/7/packages/npm/@acme/lib/-/lib-1.0.0.tgz");
    expected["_npmUser"] = json!({"name": "developer", "email": ""});
    expected["dist"]["fileCount"] = json!(2);
    expected["dist"]["unpackedSize"] = json!(45);
    assert_eq!(metadata["versions"], json!({"1.0.0": expected}));
    assert_eq!(metadata["readme"], "# 1.0.0");
}

#[test]
fn the_order_of_the_document_does_not_matter() {
    let forge = Forge::new();
    // serde_json sorts names: `_attachments` comes first, as yarn berry writes it.
    assert!(publication("lib", "1.0.0").document.to_string().starts_with("{\"_attachments\""));
    forge.publish(PUBLIC, "lib", "1.0.0");
    let Value::Object(mut document) = publication("lib", "1.0.1").document else { unreachable!() };
    let attachments = document.remove("_attachments").unwrap();
    let last = format!(
        "{{\"versions\":{},\"name\":\"lib\",\"dist-tags\":{{\"latest\":\"1.0.1\"}},\"_attachments\":{attachments}}}",
        document["versions"]
    );
    let answer = forge.send(request(Method::PUT, "/projects/7/packages/npm/lib").body(last));
    assert_eq!(answer.status, 200, "{}", answer.text());
}

#[test]
fn files_of_every_size_come_back_as_they_were() {
    let forge = Forge::new();
    let mib = 1 << 20;
    let around = tarball("lib", "1.0.0", b"").len();
    for (n, size) in [0, 1, mib - around, mib, 2 * mib - around, 3 * mib + 17].into_iter().enumerate() {
        let version = format!("1.0.{n}");
        let payload: Vec<u8> = (0..size).map(|at: usize| (at * 31 % 251) as u8).collect();
        let file = tarball("lib", &version, &payload);
        let answer = forge.send(publication_of("lib", &version, &file).to(PUBLIC));
        assert_eq!(answer.status, 200, "{}", answer.text());
        let download = forge.get(&format!("/projects/7/packages/npm/lib/-/lib-{version}.tgz"));
        assert!(download.body == file, "{size} bytes");
        assert_eq!(download.header("content-length"), file.len().to_string());
    }
}

#[test]
fn a_version_is_published_once() {
    let forge = Forge::new();
    forge.publish(PUBLIC, "lib", "1.0.0");
    let other = publication_of("lib", "1.0.0", b"other bytes");
    forge.send(other.to(PUBLIC)).is_refused(403, "Package already exists.");
    let served = forge.get("/projects/7/packages/npm/lib/-/lib-1.0.0.tgz").body;
    assert_eq!(served, tarball("lib", "1.0.0", b"payload"));
}

#[test]
fn publishing_the_same_file_again_with_another_tag_sets_it() {
    let forge = Forge::new();
    let publish = |version: &str, tag: &str| {
        let publication = publication("lib", version).change(|document| document["dist-tags"] = json!({tag: version}));
        forge.send(publication.to(PUBLIC)).status
    };
    let tags = || forge.get("/projects/7/packages/npm/-/package/lib/dist-tags").json();
    assert_eq!((publish("1.0.0", "latest"), publish("1.1.0", "next")), (200, 200));
    let before = forge.store.keys().len();
    assert_eq!(publish("1.0.0", "beta"), 200);
    assert_eq!(tags(), json!({"latest": "1.0.0", "next": "1.1.0", "beta": "1.0.0"}));
    assert_eq!(publish("1.1.0", "latest"), 200);
    assert_eq!(tags(), json!({"latest": "1.1.0", "next": "1.1.0", "beta": "1.0.0"}));
    assert_eq!(forge.get("/projects/7/packages/npm/lib").json()["readme"], "# 1.1.0");
    // A late repetition of the first request does not move the tag back.
    assert_eq!(publish("1.0.0", "latest"), 200);
    assert_eq!(tags()["latest"], "1.1.0");
    let by_another = publication("lib", "1.0.0").change(|document| document["dist-tags"] = json!({"x-ray": "1.0.0"}));
    assert_eq!(forge.send(by_another.to(PUBLIC).by("maintainer")).status, 403);
    assert_eq!(forge.store.keys().len(), before, "no file is left over");
}

#[test]
fn a_repetition_with_a_bad_tag_is_refused_as_the_first_request_is() {
    let forge = Forge::new();
    let publish = |tags: Value| {
        forge.send(publication("lib", "1.0.0").change(|document| document["dist-tags"] = tags).to(PUBLIC))
    };
    assert_eq!(publish(json!({"latest": "1.0.0"})).status, 200);
    let text = "Tag name must not be a version or a range of versions: 1.x";
    publish(json!({"1.x": "1.0.0"})).is(400, &format!("400 Bad request - {text}"), text);
    assert_eq!(publish(json!({"x".repeat(256): "1.0.0"})).status, 400);
    assert_eq!(publish(json!({})).status, 400);
    assert_eq!(publish(json!({"latest": "1.0.0"})).status, 200);
}

#[test]
fn a_repetition_with_another_document_is_refused_as_the_first_request_would_be() {
    let forge = Forge::new();
    forge.publish(PUBLIC, "lib", "1.0.0");
    let repeat = |change: fn(&mut Value)| forge.send(publication("lib", "1.0.0").change(change).to(PUBLIC));
    let tags = || forge.get("/projects/7/packages/npm/-/package/lib/dist-tags").json();
    type Change = fn(&mut Value);
    let lies: &[(Change, &str)] = &[
        (|d| d["versions"]["1.0.0"]["dependencies"] = json!({"evil": "1.0.0"}), "dependencies"),
        (|d| d["versions"]["1.0.0"]["bin"] = json!({"lib": "evil.js"}), "bin"),
        (|d| d["versions"]["1.0.0"]["dist"]["integrity"] = json!("sha512-AAAA"), "dist.integrity"),
        (|d| d["versions"]["1.0.0"]["name"] = json!("other"), "name"),
    ];
    for (change, field) in lies {
        let answer = repeat(*change);
        assert_eq!(answer.status, 400, "{field}: {}", answer.text());
        let with_tag = publication("lib", "1.0.0").change(change).change(|d| d["dist-tags"] = json!({"next": "1.0.0"}));
        assert_eq!(forge.send(with_tag.to(PUBLIC)).text(), answer.text());
        assert_eq!(tags(), json!({"latest": "1.0.0"}));
    }
    // Fields in which a client describes itself may differ, for example after an update of the client.
    assert_eq!(repeat(|d| d["versions"]["1.0.0"]["_nodeVersion"] = json!("24.0.0")).status, 200);
}

#[test]
fn an_attachment_may_be_called_with_build_metadata() {
    let forge = Forge::new();
    let renamed = |version: &str, file: &str| {
        let publication = publication("lib", version).change(|document| {
            let attachments = document["_attachments"].as_object_mut().unwrap();
            let attachment = attachments.remove(&format!("lib-{version}.tgz")).unwrap();
            attachments.insert(file.to_owned(), attachment);
        });
        forge.send(publication.to(PUBLIC))
    };
    assert_eq!(renamed("1.0.0", "lib-1.0.0+build.5.tgz").status, 200);
    assert_eq!(forge.get("/projects/7/packages/npm/lib/-/lib-1.0.0.tgz").status, 200);
    assert_eq!(renamed("1.0.1", "lib-1.0.2+build.5.tgz").status, 400);
}

#[test]
fn a_version_or_range_is_no_tag() {
    let forge = Forge::new();
    for tag in ["1.0.0", "v2.0.0", "1.x", "^1", "*", "x", "1 || 2", ">=1 <2"] {
        let publication = publication("lib", "1.0.0").change(|document| document["dist-tags"] = json!({tag: "1.0.0"}));
        let text = format!("Tag name must not be a version or a range of versions: {tag}");
        forge.send(publication.to(PUBLIC)).is(400, &format!("400 Bad request - {text}"), &text);
    }
}

#[test]
fn a_repeated_request_is_no_error_for_the_same_publisher() {
    let forge = Forge::new();
    forge.publish(PUBLIC, "lib", "1.0.0");
    let before = forge.store.keys();
    forge.publish(PUBLIC, "lib", "1.0.0");
    assert_eq!(forge.store.keys(), before);
    let by_another = publication("lib", "1.0.0").to(PUBLIC).by("maintainer");
    forge.send(by_another).is_refused(403, "Package already exists.");
}

#[test]
fn a_refused_publication_leaves_nothing() {
    let forge = Forge::new();
    forge.publish(PUBLIC, "lib", "1.0.0");
    let before = forge.store.keys();
    let large = tarball("lib", "1.0.1", &vec![1; 3 << 20]);
    let wrong = |change: fn(&mut Value)| publication_of("lib", "1.0.1", &large).change(change).to(PUBLIC);
    for (request, status) in [
        (publication_of("lib", "1.0.0", &large).to(PUBLIC), 403),
        (wrong(|document| document["versions"]["1.0.1"]["dist"]["shasum"] = json!("00")), 400),
        (wrong(|document| document["dist-tags"] = json!({})), 400),
        (wrong(|document| document["versions"] = json!([])), 400),
        (publication_of("lib", "1.0.1", &large).to(PUBLIC).cut_off(4000), 400),
        (publication_of("lib", "1.0.1", &vec![1; 3 << 20]).to(PUBLIC), 400),
        (publication_of("lib", "1.0.1", &tarball("lib", "1.0.2", &vec![1; 3 << 20])).to(PUBLIC), 400),
    ] {
        let answer = forge.send(request);
        assert_eq!(answer.status, status, "{}", answer.text());
        assert_eq!(forge.store.keys(), before);
    }
}

#[test]
fn each_error_has_its_text() {
    let forge = Forge::new();
    let name_rule = "Validation failed: Name should be a valid NPM package name: https://github.com/npm/validate-npm-package-name#naming-rules.";
    let schema = "Validation failed: Package json must be a valid json schema";
    let valid = tarball("lib", "1.0.0", b"payload");
    type Change = fn(&mut Value);
    let cases: &[(Change, &str)] = &[
        (|d| drop(d.as_object_mut().unwrap().remove("versions")), "versions is missing"),
        (|d| d["versions"] = json!(null), "versions is missing"),
        (|d| d["versions"] = json!("1.0.0"), "versions is invalid"),
        (|d| d["versions"] = json!({}), "Version is empty."),
        (|d| d["name"] = json!(" "), "Name is empty."),
        (|d| drop(d.as_object_mut().unwrap().remove("name")), "Name is empty."),
        (|d| d["name"] = json!(1), "name is invalid"),
        (|d| d["_attachments"]["lib-1.0.0.tgz"]["data"] = json!(""), "Attachment data is empty."),
        (|d| d["_attachments"]["lib-1.0.0.tgz"]["data"] = json!(null), "Attachment data is empty."),
        (|d| d["_attachments"] = json!({"lib.sigstore": {"data": "{}"}}), "Attachment data is empty."),
        (|d| d["name"] = json!("@s/../x"), name_rule),
        (|d| d["name"] = json!("a b"), name_rule),
        (
            |d| d["versions"] = json!({"v1": d["versions"]["1.0.0"]}),
            "Validation failed: Version should follow SemVer: https://semver.org",
        ),
        (|d| d["versions"]["1.0.0"] = json!(null), schema),
        (|d| d["versions"]["1.0.0"]["dist"] = json!({"shasum": "x"}), schema),
        (
            |d| d["versions"]["1.0.0"]["dist"]["shasum"] = json!("00"),
            "Validation failed: dist.shasum does not match the attachment",
        ),
        (
            |d| d["versions"]["1.0.0"]["dist"]["integrity"] = json!("sha512-AAAA"),
            "Validation failed: dist.integrity does not match the attachment: its sha512 differs",
        ),
        (
            |d| d["versions"]["1.0.0"]["dist"]["integrity"] = json!("md5-AAAA"),
            "Validation failed: dist.integrity has no sha512 hash",
        ),
        (
            |d| d["_attachments"]["lib-1.0.0.tgz"]["length"] = json!(7),
            &format!("Validation failed: attachment has {} bytes, but its length is declared as 7", valid.len()),
        ),
        (|d| d["_attachments"]["lib-1.0.0.tgz"]["length"] = json!("18"), "length is invalid"),
        (
            |d| d["_attachments"]["lib-1.0.0.tgz"]["data"] = json!("AAA"),
            "the data of attachment `lib-1.0.0.tgz` is not base64",
        ),
        (|d| drop(d.as_object_mut().unwrap().remove("dist-tags")), "dist-tags is missing"),
        (|d| d["dist-tags"] = json!({}), "dist-tags is missing"),
        (|d| d["dist-tags"] = json!([]), "dist-tags is invalid"),
        (
            |d| d["_attachments"]["x.tgz"] = json!({"data": ""}),
            "attachment `x.tgz` comes in addition to `lib-1.0.0.tgz`; one is allowed",
        ),
    ];
    for (change, text) in cases {
        let publication = publication("lib", "1.0.0").change(change);
        let request = request(Method::PUT, "/projects/7/packages/npm/lib").body(publication.document.to_string());
        forge.send(request).is_refused(400, text);
    }
    let tag = publication("lib", "1.0.0").change(|d| d["dist-tags"] = json!({"x".repeat(256): "1.0.0"}));
    let text = "Tag has 256 bytes; at most 255 are allowed";
    forge.send(tag.to(PUBLIC)).is(400, &format!("400 Bad request - {text}"), text);
    let as_another_file =
        publication("lib", "1.0.0").document.to_string().replace("\"lib-1.0.0.tgz\"", "\"other-1.0.0.tgz\"");
    forge
        .send(request(Method::PUT, "/projects/7/packages/npm/lib").body(as_another_file))
        .is_refused(400, "Validation failed: Attachment is called other-1.0.0.tgz, which is not the file of lib@1.0.0");
    forge
        .send(
            request(Method::PUT, "/projects/7/packages/npm/other")
                .body(publication("lib", "1.0.0").document.to_string()),
        )
        .is_refused(400, "Validation failed: Name is lib, but the URL names other");
    assert!(forge.store.keys().iter().all(|key| !key.starts_with("package-registry/")), "{:?}", forge.store.keys());
}

#[test]
fn a_file_of_another_package_is_refused() {
    let forge = Forge::new();
    let publish = |file: &[u8]| forge.send(publication_of("lib", "1.0.0", file).to(PUBLIC));
    publish(b"just some text").is_refused(400, "Attachment is not a gzip file: invalid gzip header");
    publish(&tarball("lib", "1.0.1", b"")).is_refused(
        400,
        "Package manifest is not coherent: package.json in the attachment has name \"lib\" and version \"1.0.1\", \
         published is lib@1.0.0",
    );
    assert!(forge.store.keys().iter().all(|key| !key.starts_with("package-registry/")), "{:?}", forge.store.keys());
}

#[test]
fn malformed_json_is_refused() {
    let forge = Forge::new();
    let valid = publication("lib", "1.0.0").document.to_string();
    let put = |body: String| forge.send(request(Method::PUT, "/projects/7/packages/npm/lib").body(body));
    for body in [
        "".to_owned(),
        "null".into(),
        "[]".into(),
        "{".into(),
        "\u{feff}{}".into(),
        valid.strip_suffix('}').unwrap().into(),
        format!("{valid}x"),
    ] {
        let answer = put(body.clone());
        assert_eq!(answer.status, 400, "{body}");
        assert!(
            answer.json()["error"].as_str().unwrap().starts_with("request body is not a JSON object: "),
            "{}",
            answer.text()
        );
    }
    put("[".repeat(100_000)).is_refused(400, "the document is nested deeper than 64 levels");
}

#[test]
fn limits_are_enforced_early_and_late() {
    let mut forge = Forge::new();
    let file = tarball("lib", "1.0.0", b"payload");
    forge.variables.push(("registry_max_tarball_bytes", file.len().to_string().leak()));
    forge.variables.push(("registry_max_document_bytes", "33554432"));
    assert_eq!(forge.send(publication_of("lib", "1.0.0", &file).to(PUBLIC)).status, 200);
    let large = tarball("lib", "1.0.1", &[7; 513]);
    forge.send(publication_of("lib", "1.0.1", &large).to(PUBLIC)).is_refused(400, "File is too large.");
    let most = file.len().div_ceil(3) as u64 * 4 + (32 << 20);
    let request = |length: u64| publication("lib", "1.0.2").to(PUBLIC).with("content-length", &length.to_string());
    forge
        .send(request(most + 1))
        .is_refused(413, &format!("413 Request Entity Too Large: at most {most} bytes are accepted"));
    assert_eq!(forge.send(request(most)).status, 200);
    let padded = publication("lib", "1.0.3").change(|d| d["x"] = json!("y".repeat(32 << 20)));
    let text = "the document without its attachment is larger than 33554432 bytes, the limit in the variable \
                registry_max_document_bytes";
    forge.send(padded.to(PUBLIC)).is_refused(413, text);
    let manifest = publication("lib", "1.0.4").change(|d| d["versions"]["1.0.4"]["x"] = json!("y".repeat(2 << 20)));
    let answer = forge.send(manifest.to(PUBLIC));
    assert!(
        answer.text().contains("Package json structure is too large. Maximum size is 2097152 bytes"),
        "{}",
        answer.text()
    );
    forge.variables.push(("registry_max_unpacked_bytes", "3071"));
    let text = "Attachment unpacks to more than 3071 bytes, the limit in the variable registry_max_unpacked_bytes";
    forge.send(publication("lib", "1.0.5").to(PUBLIC)).is_refused(400, text);
    let encoded = publication("lib", "1.0.5").to(PUBLIC).with("content-encoding", "gzip");
    assert_eq!(forge.send(encoded).status, 415);
}

#[test]
fn a_version_of_the_conventional_name_is_in_one_project_only() {
    let forge = Forge::shared();
    forge.publish(PUBLIC, "@acme/lib", "1.0.0");
    forge
        .send(publication("@acme/lib", "1.0.0").to(INTERNAL))
        .is_refused(400, "Validation failed: Package already exists");
    forge.publish(INTERNAL, "@acme/lib", "1.0.1");
    // A path is the same in any letter case, unlike a name.
    forge.publish(PUBLIC, "@ACME/lib", "1.0.0");
    forge
        .send(publication("@ACME/lib", "1.0.0").to(INTERNAL))
        .is_refused(400, "Validation failed: Package already exists");
    // Below another top-level namespace, or with another scope, versions cannot be confused.
    forge.publish(17, "@acme/lib", "1.0.0");
    forge.publish(PUBLIC, "@x/lib", "1.0.0");
    forge.publish(INTERNAL, "@x/lib", "1.0.0");
}

#[test]
fn a_thousand_versions_are_all_there() {
    let forge = Forge::new();
    let count = 1000;
    for n in 0..count {
        forge.publish(PUBLIC, "lib", &format!("1.{}.{n}", n % 7));
    }
    let metadata = forge.get("/projects/7/packages/npm/lib").json();
    assert_eq!(metadata["versions"].as_object().unwrap().len(), count);
    assert_eq!(metadata["time"].as_object().unwrap().len(), count + 2);
    for n in 0..count {
        let version = format!("1.{}.{n}", n % 7);
        assert_eq!(metadata["versions"][&version]["version"], json!(version));
        let download = forge.get(&format!("/projects/7/packages/npm/lib/-/lib-{version}.tgz"));
        assert_eq!(download.body, tarball("lib", &version, b"payload"));
    }
    let root = forge.store.keys().into_iter().find(|key| key == "package-registry/v1/package/7/lib").unwrap();
    let root = kit::store::Store::get(&forge.store, &root).unwrap().unwrap();
    assert!(root.len() < 4096, "{} bytes: {}", root.len(), String::from_utf8_lossy(&root));
}

#[test]
fn a_long_readme_is_cut_in_metadata() {
    let forge = Forge::new();
    let text = "# long ".repeat(100_000);
    let sent = publication("lib", "1.0.0").change(|document| {
        document["readme"] = json!(text);
        document["versions"]["1.0.0"]["readme"] = json!(text);
    });
    assert_eq!(forge.send(sent.to(PUBLIC)).status, 200);
    let answer = forge.get("/projects/7/packages/npm/lib");
    let document = answer.json();
    assert_eq!(document["readme"].as_str(), text.get(..65_536));
    assert!(
        document["versions"]["1.0.0"].get("readme").is_none() && answer.body.len() < 70_000,
        "{}",
        answer.body.len()
    );
}
