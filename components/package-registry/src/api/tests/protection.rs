use super::*;
use directory::setting;

fn forge(rules: Value) -> Forge {
    let forge = Forge::new();
    let changes = json!({ "package_protection_rules": rules });
    setting::save(&forge.env(), changes.as_object().unwrap()).unwrap();
    forge
}

#[test]
fn a_protected_name_needs_the_role_of_its_rule() {
    let forge = forge(json!([
        {"project_id": 7, "package_name_pattern": "@acme/*", "minimum_access_level_for_push": "maintainer"},
    ]));
    let project = Source::Project(PUBLIC);
    forge.token("deploy", Subject::Deployment(project), &["write_package_registry"]);
    let publish = |name: &str, version: &str, by: &str| forge.send(publication(name, version).to(PUBLIC).by(by));
    for caller in ["developer", "deploy"] {
        publish("@acme/lib", "1.0.0", caller).is_refused(403, "Package protected.");
        publish("@ACME/lib", "1.0.0", caller).is_refused(403, "Package protected.");
        assert_eq!(publish("@x/lib", &format!("1.0.{}", caller.len()), caller).status, 200);
    }
    assert_eq!(publish("@acme/lib", "1.0.0", "maintainer").status, 200);
    forge.publish(INTERNAL, "@acme/other", "1.0.0");
    // The refusal comes before any other error, so that it does not reveal which versions exist.
    publish("@acme/lib", "1.0.0", "developer").is_refused(403, "Package protected.");
    let empty = publication("@acme/lib", "1.0.1").change(|document| document["versions"] = json!({}));
    forge.send(empty.to(PUBLIC)).is_refused(403, "Package protected.");
}

/// Every change of a package needs the access level of its rule, besides its usual role.
#[test]
fn a_protected_name_guards_tags_deprecations_and_versions() {
    let forge = forge(json!([
        {"package_name_pattern": "@acme/closed", "minimum_access_level_for_push": "admin"},
        {"package_name_pattern": "@acme/open", "minimum_access_level_for_push": "maintainer"},
    ]));
    let rules = setting::read(&forge.env()).unwrap().all().get("package_protection_rules").cloned().unwrap();
    let protect = |rules: &Value| {
        let changes = json!({ "package_protection_rules": rules });
        setting::save(&forge.env(), changes.as_object().unwrap()).unwrap();
    };
    protect(&json!([]));
    for name in ["@acme/closed", "@acme/open"] {
        forge.publish(PUBLIC, name, "1.0.0");
        forge.publish(PUBLIC, name, "1.0.1");
    }
    protect(&rules);
    forge.token("deploy", Subject::Deployment(Source::Project(PUBLIC)), &["write_package_registry"]);
    let deprecation = json!({"versions": {"1.0.0": {"deprecated": "old"}}}).to_string();
    for prefix in ["/projects/7/packages/npm", "/groups/acme/-/packages/npm", "/packages/npm"] {
        let tag = |name: &str| format!("{prefix}/-/package/{}/dist-tags/stable", name.replace('/', "%2f"));
        let set = |name: &str, by: &str| forge.send(request(Method::PUT, &tag(name)).by(by).body("\"1.0.0\""));
        let remove = |name: &str, by: &str| forge.send(request(Method::DELETE, &tag(name)).by(by));
        for by in ["maintainer", "developer", "deploy"] {
            set("@acme/closed", by).is_refused(403, "Package protected.");
        }
        for by in ["maintainer", "deploy"] {
            remove("@acme/closed", by).is_refused(403, "Package protected.");
        }
        set("@acme/open", "developer").is_refused(403, "Package protected.");
        assert_eq!((set("@acme/open", "maintainer").status, remove("@acme/open", "maintainer").status), (204, 204));
    }
    let path = |name: &str| format!("/projects/7/packages/npm/{}", name.replace('/', "%2f"));
    let revision = |name: &str| forge.get(&path(name)).json()["_rev"].as_str().unwrap().to_owned();
    let unpublish = |name: &str, by: &str| {
        let document = json!({"versions": {"1.0.0": {}}}).to_string();
        let path = format!("{}/-rev/{}", path(name), revision(name));
        forge.send(request(Method::PUT, &path).by(by).body(document))
    };
    let unpublish_all = |name: &str, by: &str| {
        forge.send(request(Method::DELETE, &format!("{}/-rev/{}", path(name), revision(name))).by(by))
    };
    let deprecate =
        |name: &str, by: &str| forge.send(request(Method::PUT, &path(name)).by(by).body(deprecation.as_str()));
    for by in ["maintainer", "deploy"] {
        for change in [&deprecate as &dyn Fn(&str, &str) -> TestResponse, &unpublish, &unpublish_all] {
            change("@acme/closed", by).is_refused(403, "Package protected.");
        }
    }
    for change in [&deprecate as &dyn Fn(&str, &str) -> TestResponse, &unpublish, &unpublish_all] {
        assert_eq!(change("@acme/open", "maintainer").status, 200);
    }
}

#[test]
fn malformed_rules_refuse_every_publication() {
    let forge = forge(json!([{"package_name_pattern": "@acme/*", "minimum_access_level_for_push": "everybody"}]));
    let answer = forge.send(publication("lib", "1.0.0").to(PUBLIC).by("maintainer"));
    assert_eq!(answer.status, 500);
    let cause = answer.cause.unwrap();
    assert!(cause.contains("package_protection_rules") && cause.contains("everybody"), "{cause}");
    assert!(forge.store.keys().iter().all(|key| !key.starts_with("package-registry/")), "{:?}", forge.store.keys());
}

#[test]
fn a_rule_may_be_about_removals_only() {
    let forge = forge(json!([{"package_name_pattern": "@acme/*", "minimum_access_level_for_delete": "owner"}]));
    let path = |name: &str| format!("/projects/7/packages/npm/{}", name.replace('/', "%2f"));
    for (name, expected) in [("@acme/lib", 403), ("lib", 200)] {
        forge.publish(PUBLIC, name, "1.0.0");
        let revision = forge.get(&format!("{}?write=true", path(name))).json()["_rev"].as_str().unwrap().to_owned();
        let removal = request(Method::DELETE, &format!("{}/-rev/{revision}", path(name))).by("maintainer");
        assert_eq!(forge.send(removal).status, expected, "{name}");
    }
}
