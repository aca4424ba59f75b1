use super::*;
use crate::integrity::Integrity;
use crate::provenance::tests::bundle;

fn attested(name: &str, version: &str) -> Publication {
    let bundle = bundle(name, version, &Integrity::of(&tarball(name, version, b"payload"))).to_string();
    publication(name, version).change(|document| {
        document["_attachments"][format!("{name}-{version}.sigstore")] = json!({
            "content_type": "application/vnd.dev.sigstore.bundle.v0.3+json", "length": bundle.len(), "data": bundle,
        });
    })
}

#[test]
fn provenance_is_listed_and_served() {
    let forge = Forge::new();
    for (project, name) in [(PUBLIC, "@acme/lib"), (PRIVATE, "@acme/core")] {
        assert_eq!(forge.send(attested(name, "1.0.0").to(project)).status, 200);
        forge.publish(project, name, "1.0.1");
        let bundle = bundle(name, "1.0.0", &Integrity::of(&tarball(name, "1.0.0", b"payload")));
        for prefix in [&format!("/projects/{project}/packages/npm"), "/groups/acme/-/packages/npm", "/packages/pkgreg"]
        {
            let document = forge.get(&format!("{prefix}/{name}")).json();
            let attestations = &document["versions"]["1.0.0"]["dist"]["attestations"];
            assert_eq!(attestations["provenance"], json!({"predicateType": "https://slsa.dev/provenance/v1"}));
            assert_eq!(document["versions"]["1.0.1"]["dist"].get("attestations"), None);
            let url = attestations["url"].as_str().unwrap();
            let path = url.strip_prefix("http://registry.example/api/v4").unwrap();
            assert!(path.starts_with(prefix), "{url}");
            let answer = forge.get(path);
            let expected = json!({"predicateType": "https://slsa.dev/provenance/v1", "bundle": bundle});
            assert_eq!(answer.json(), json!({"attestations": [expected]}));
            let shared = if project == PUBLIC { "public" } else { "private" };
            // Another project of the group may have the version later.
            let time = if prefix.starts_with("/projects") { "max-age=31536000, immutable" } else { "no-cache" };
            assert_eq!(answer.header("cache-control"), format!("{shared}, {time}"));
            let hidden = forge.send(request(Method::GET, path).by("outsider")).status;
            let unreadable = if prefix.starts_with("/projects") { 404 } else { 403 };
            assert_eq!(hidden, if project == PUBLIC { 200 } else { unreadable });
        }
        let path = format!("/projects/{project}/packages/npm/-/npm/v1/attestations/{name}@1.0.");
        for absent in ["1", "2"] {
            let answer = forge.get(&format!("{path}{absent}"));
            answer.is(404, "404 Attestations Not Found", "Attestations not found");
        }
    }
    forge.get("/projects/7/packages/npm/-/npm/v1/attestations/@acme%2fother@1.0.0").is(
        404,
        "404 Package Not Found",
        "Package not found",
    );
}

#[test]
fn provenance_of_another_file_is_refused() {
    let forge = Forge::new();
    const NAME: &str = "lib-1.0.0.sigstore";
    let length = attested("lib", "1.0.0").document["_attachments"][NAME]["length"].clone();
    let other = bundle("lib", "1.0.0", &Integrity::of(b"other")).to_string();
    let of_other = bundle("oth", "1.0.0", &Integrity::of(&tarball("lib", "1.0.0", b"payload"))).to_string();
    let set = |key: &str, value: Value| attested("lib", "1.0.0").change(|d| d["_attachments"][NAME][key] = value);
    let with = |name: &str, value: Value| attested("lib", "1.0.0").change(|d| d["_attachments"][name] = value);
    for (publication, text) in [
        (
            set("length", json!(7)),
            format!("Provenance is invalid: it has {length} characters, but its length is declared as 7"),
        ),
        (set("length", json!("7")), "length is invalid".into()),
        (set("data", json!(null)), "data is invalid".into()),
        (set("data", json!(other)), "Provenance is invalid: its statement is not about the attached file".into()),
        (
            set("data", json!(of_other)),
            "Provenance is invalid: its statement is about `pkg:npm/oth@1.0.0`, not the package and version that are \
             published"
                .into(),
        ),
        (with(NAME, json!("x")), "_attachments is invalid".into()),
        (
            with("x.sigstore", json!({"data": ""})),
            format!("attachment `x.sigstore` comes in addition to `{NAME}`; one is allowed"),
        ),
    ] {
        forge.send(publication.to(PUBLIC)).is_refused(400, &text);
    }
    let renamed = attested("lib", "1.0.0").document.to_string().replace(NAME, "lib-1.0.1.sigstore");
    forge
        .send(request(Method::PUT, "/projects/7/packages/npm/lib").body(renamed))
        .is_refused(400, &format!("Provenance is invalid: it is called lib-1.0.1.sigstore, not {NAME}"));
    assert!(forge.store.keys().iter().all(|key| !key.starts_with("package-registry/")), "{:?}", forge.store.keys());
}
