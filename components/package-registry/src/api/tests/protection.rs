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
    // Tags and deprecations have roles of their own.
    let deprecate = json!({"versions": {"1.0.0": {"deprecated": "old"}}}).to_string();
    let request = request(Method::PUT, "/projects/7/packages/npm/@acme%2flib").by("maintainer").body(deprecate);
    assert_eq!(forge.send(request).status, 200);
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
