use super::*;

const P: &str = "/api/v4/projects/7/packages/npm";

fn at(method: &Method, path: &str) -> Endpoint {
    route(method, &format!("{P}{path}")).unwrap_or_else(|error| panic!("{method} {path}: {error:?}")).endpoint
}

fn refused(method: &Method, path: &str) -> u16 {
    route(method, path).unwrap_err().status.as_u16()
}

#[test]
fn every_level_and_registry_segment() {
    for (prefix, level) in [
        ("/api/v4/projects/7/packages/npm", Level::Project("7".into())),
        ("/api/v4/projects/grp%2Fproj/packages/pkgreg", Level::Project("grp/proj".into())),
        ("/api/v4/groups/grp%2fsub/-/packages/npm", Level::Group("grp/sub".into())),
        ("/api/v4/packages/pkgreg", Level::Instance),
    ] {
        let route = route(&Method::GET, &format!("{prefix}/@a%2fb")).unwrap();
        assert_eq!(route, Route { level, prefix: prefix.into(), endpoint: Endpoint::Metadata { name: "@a/b".into() } });
    }
}

#[test]
fn other_paths_are_not_routed() {
    for path in [
        "/",
        "/api/v4",
        "/api/v4/packages",
        "/api/v4/packages/npm",
        "/api/v4/packages/npm/",
        "/api/v4/packages/maven/a",
        "/api/v4/projects/grp/proj/packages/npm/a",
        "/api/v4/projects//packages/npm/a",
        "/api/v4/groups/g/packages/npm/a",
        "/api/v4/packages/npm/a/",
        "/api/v4/packages/npm//a",
        "/api/v4/packages/npm/a/b/c",
        "/api/v4/packages/npm/a/-/",
        "/api/v4/packages/npm/a/-",
        "/api/v4/packages/npm/-/package/a",
        "/api/v4/packages/npm/-/package//dist-tags",
        "/api/v4/packages/npm/-/package/a/dist-tags/",
        "/api/v4/packages/npm/-/v1/login",
        "/api/v4/packages/npm/-",
        "/api/v5/packages/npm/a",
    ] {
        assert_eq!(refused(&Method::GET, path), 404, "{path}");
    }
}

#[test]
fn attestations_are_named_by_package_and_version() {
    for (path, name) in [("lib@1.0.0", "lib"), ("@acme%2flib@1.0.0", "@acme/lib"), ("@acme/lib@1.0.0", "@acme/lib")] {
        let expected = Endpoint::Attestations { name: name.into(), version: "1.0.0".into() };
        assert_eq!(at(&Method::GET, &format!("/-/npm/v1/attestations/{path}")), expected);
    }
    for path in ["lib", "", "lib@1.0.0/x"] {
        assert_eq!(refused(&Method::GET, &format!("{P}/-/npm/v1/attestations/{path}")), 404, "{path}");
    }
    assert_eq!(refused(&Method::PUT, &format!("{P}/-/npm/v1/attestations/lib@1.0.0")), 405);
}

#[test]
fn names_in_every_spelling() {
    for path in ["/@acme/lib", "/@acme%2flib", "/@acme%2Flib", "/%40acme/lib", "/%40acme%2Flib"] {
        assert_eq!(at(&Method::GET, path), Endpoint::Metadata { name: "@acme/lib".into() }, "{path}");
        let tags = format!("/-/package{path}/dist-tags");
        assert_eq!(at(&Method::GET, &tags), Endpoint::ListTags { name: "@acme/lib".into() }, "{tags}");
        for file in ["lib-1.0.0.tgz", "lib%2D1.0.0.tgz"] {
            let file = format!("{path}/-/{file}");
            let expected = Endpoint::Download { name: "@acme/lib".into(), file: "lib-1.0.0.tgz".into() };
            assert_eq!(at(&Method::HEAD, &file), expected, "{file}");
        }
        for file in ["@acme/lib-1.0.0.tgz", "@acme%2flib-1.0.0.tgz", "%40acme%2Flib-1.0.0.tgz"] {
            let file = format!("{path}/-/{file}");
            let expected = Endpoint::Download { name: "@acme/lib".into(), file: "@acme/lib-1.0.0.tgz".into() };
            assert_eq!(at(&Method::GET, &file), expected, "{file}");
        }
        let version = format!("{path}/1.0.0");
        let expected = Endpoint::Version { name: "@acme/lib".into(), version: "1.0.0".into() };
        assert_eq!(at(&Method::GET, &version), expected, "{version}");
    }
}

#[test]
fn publishing_is_at_project_level_with_the_slash_encoded() {
    assert_eq!(at(&Method::PUT, "/lib"), Endpoint::Publish { name: "lib".into() });
    assert_eq!(at(&Method::PUT, "/@acme%2flib"), Endpoint::Publish { name: "@acme/lib".into() });
    assert_eq!(refused(&Method::PUT, &format!("{P}/@acme/lib")), 404);
    for path in ["/api/v4/packages/npm/@acme%2flib", "/api/v4/groups/1/-/packages/npm/@acme/lib"] {
        let elsewhere = Endpoint::PublishAboveProject { name: "@acme/lib".into() };
        assert_eq!(route(&Method::PUT, path).unwrap().endpoint, elsewhere, "{path}");
    }
}

#[test]
fn unpublishing_names_the_revision() {
    let (name, revision) = ("@acme/lib".to_owned(), "3-x".to_owned());
    for path in ["/@acme%2flib/-rev/3-x", "/@acme/lib/-rev/3-x"] {
        let all = Endpoint::UnpublishAll { name: name.clone(), revision: revision.clone() };
        assert_eq!(at(&Method::DELETE, path), all);
        let some = Endpoint::Unpublish { name: name.clone(), revision: revision.clone() };
        assert_eq!(at(&Method::PUT, path), some);
    }
    for (path, file) in [("lib-1.0.0.tgz", "lib-1.0.0.tgz"), ("@acme/lib-1.0.0.tgz", "@acme/lib-1.0.0.tgz")] {
        let path = format!("/@acme/lib/-/{path}/-rev/3-x");
        let expected = Endpoint::RemoveFile { name: name.clone(), file: file.into() };
        assert_eq!(at(&Method::DELETE, &path), expected);
        // As npm 6 asks for it.
        assert_eq!(at(&Method::DELETE, &format!("{P}{path}")), expected);
        assert_eq!(refused(&Method::DELETE, &format!("{P}{P}{P}{path}")), 404);
        assert_eq!(refused(&Method::DELETE, &format!("{P}/api/v4/projects/8/packages/npm{path}")), 404);
    }
    assert_eq!(refused(&Method::GET, &format!("{P}/lib/-rev/3-x")), 405);
    assert_eq!(refused(&Method::DELETE, "/api/v4/packages/npm/lib/-rev/3-x"), 404);
}

#[test]
fn tags_and_services() {
    let set = Endpoint::SetTag { name: "lib".into(), tag: "feat/x y".into() };
    assert_eq!(at(&Method::PUT, "/-/package/lib/dist-tags/feat%2Fx%20y"), set);
    assert_eq!(
        at(&Method::DELETE, "/-/package/@a/b/dist-tags/x"),
        Endpoint::RemoveTag { name: "@a/b".into(), tag: "x".into() }
    );
    assert_eq!(at(&Method::GET, "/-/ping"), Endpoint::Ping);
    assert_eq!(at(&Method::GET, "/-/whoami"), Endpoint::WhoAmI);
    let login = Endpoint::Login { name: "alice".into() };
    assert_eq!(at(&Method::PUT, "/-/user/org.couchdb.user:alice"), login);
    assert_eq!(at(&Method::GET, "/-/npm/v1/user"), Endpoint::Profile);
    assert_eq!(refused(&Method::POST, &format!("{P}/-/v1/login")), 404, "npm falls back to the password");
    assert_eq!(at(&Method::POST, "/-/npm/v1/security/advisories/bulk"), Endpoint::Audit(Audit::Bulk));
    assert_eq!(at(&Method::POST, "/-/npm/v1/security/audits/quick"), Endpoint::Audit(Audit::Quick));
    assert_eq!(at(&Method::POST, "/-/npm/v1/security/audits"), Endpoint::Audit(Audit::Full));
    let visibility = Endpoint::Visibility { name: "@acme/lib".into() };
    assert_eq!(at(&Method::GET, "/-/package/@acme%2flib/visibility"), visibility);
    let access = Endpoint::AccessStatus { name: "@acme/lib".into() };
    assert_eq!(at(&Method::GET, "/-/package/@acme%2flib/access"), access);
    assert_eq!(at(&Method::POST, "/-/package/@acme%2flib/access"), Endpoint::Unchangeable(Missing::Visibility));
    assert_eq!(at(&Method::PUT, "/-/package/@acme%2flib/access"), Endpoint::Unchangeable(Missing::Visibility));
    let owners = Endpoint::Owners { name: "@acme/lib".into() };
    assert_eq!(at(&Method::GET, "/-/package/@acme%2flib/owners"), owners);
    assert_eq!(at(&Method::PUT, "/-/package/@acme%2flib/owners"), Endpoint::Unchangeable(Missing::Owners));
    assert_eq!(at(&Method::DELETE, "/-/package/@acme%2flib/owners/mia"), Endpoint::Unchangeable(Missing::Owners));
}

#[test]
fn blank_is_a_text_and_empty_is_not() {
    assert_eq!(at(&Method::GET, "/-/package/%20/dist-tags"), Endpoint::ListTags { name: " ".into() });
    assert_eq!(at(&Method::PUT, "/-/package/a/dist-tags/%20"), Endpoint::SetTag { name: "a".into(), tag: " ".into() });
}

#[test]
fn segments_are_decoded_once() {
    assert_eq!(at(&Method::GET, "/@acme%252flib"), Endpoint::Metadata { name: "@acme%2flib".into() });
    assert_eq!(at(&Method::GET, "/..%2f..%2fetc"), Endpoint::Metadata { name: "../../etc".into() });
}

#[test]
fn wrong_methods_get_the_allowed_ones() {
    for (method, path) in [
        (Method::POST, "/lib"),
        (Method::DELETE, "/lib"),
        (Method::PUT, "/lib/1.0.0"),
        (Method::PUT, "/lib/-/lib-1.0.0.tgz"),
        (Method::PUT, "/-/ping"),
        (Method::GET, "/-/package/lib/dist-tags/x"),
        (Method::POST, "/-/package/lib/dist-tags"),
        (Method::GET, "/-/npm/v1/security/advisories/bulk"),
    ] {
        assert_eq!(refused(&method, &format!("{P}{path}")), 405, "{method} {path}");
    }
}

#[test]
fn names_that_do_not_decode_are_refused() {
    for path in ["/%0d%0ahttp:%2f%2fexample.com", "/%0d%0ahttp:/%2fexample.com", "/%00", "/%ff"] {
        assert_eq!(refused(&Method::GET, &format!("{P}{path}")), 400, "{path}");
    }
}

#[test]
fn tasks() {
    let task = |method, path: &str| task(&method, path).map(|task| task.map_err(|error| error.status.as_u16()));
    let base = "/api/v4/maintenance/package-registry";
    assert_eq!(task(Method::POST, &format!("{base}/gc")), Some(Ok(Task::CollectGarbage)));
    assert_eq!(task(Method::POST, &format!("{base}/fsck")), Some(Ok(Task::Check)));
    assert_eq!(task(Method::GET, &format!("{base}/gc")), Some(Err(405)));
    assert_eq!(task(Method::POST, &format!("{base}/gc/")), Some(Err(404)));
    assert_eq!(task(Method::POST, "/api/v4/packages/npm/gc"), None);
}

#[test]
fn the_packages_api_is_beside_the_registries() {
    let of = |method: &Method, path: &str| route(method, &format!("/api/v4/projects/7/packages{path}"));
    for (method, path, endpoint) in [
        (Method::GET, "", Endpoint::List),
        (Method::GET, "/12", Endpoint::Package { id: "12".into() }),
        (Method::DELETE, "/12", Endpoint::RemovePackage { id: "12".into() }),
        (Method::GET, "/12/package_files", Endpoint::PackageFiles { id: "12".into() }),
        (Method::DELETE, "/12/package_files/3", Endpoint::RemovePackageFile { id: "12".into(), file: "3".into() }),
        (Method::GET, "/12/pipelines", Endpoint::Pipelines { id: "12".into() }),
        (Method::GET, "/protection/rules", Endpoint::ProtectionRules),
        (Method::POST, "/protection/rules", Endpoint::AddProtectionRule),
        (Method::PATCH, "/protection/rules/3", Endpoint::ChangeProtectionRule { id: "3".into() }),
        (Method::DELETE, "/protection/rules/3", Endpoint::RemoveProtectionRule { id: "3".into() }),
        (Method::GET, "/npm/package_files", Endpoint::Metadata { name: "package_files".into() }),
    ] {
        assert_eq!(of(&method, path).unwrap().endpoint, endpoint, "{method} {path}");
    }
    for (method, path, status) in [
        (Method::POST, "", 405),
        (Method::PUT, "/12", 405),
        (Method::GET, "/12/package_files/3", 405),
        (Method::DELETE, "/12/pipelines", 405),
        (Method::PUT, "/protection/rules/3", 405),
        (Method::GET, "/12/other", 404),
        (Method::GET, "/12/package_files/3/x", 404),
    ] {
        assert_eq!(of(&method, path).unwrap_err().status, status, "{method} {path}");
    }
    assert_eq!(route(&Method::GET, "/api/v4/groups/g/packages/12").unwrap_err().status, 404);
}
