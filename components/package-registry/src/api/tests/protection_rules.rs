//! Protection rules of a project: the endpoints, and which changes they refuse.

use super::*;
use directory::setting;

const RULES: &str = "/projects/7/packages/protection/rules";

fn send(forge: &Forge, method: Method, path: &str, body: &Value) -> TestResponse {
    forge.send(request(method, path).by("maintainer").with("content-type", "application/json").body(body.to_string()))
}

fn rule(pattern: &str, push: &str) -> Value {
    json!({"package_name_pattern": pattern, "package_type": "npm", "minimum_access_level_for_push": push})
}

#[test]
fn rules_are_added_changed_listed_and_removed() {
    let forge = Forge::new();
    let added = send(&forge, Method::POST, RULES, &rule("@acme/*", "maintainer"));
    assert_eq!(added.status, 201, "{}", added.text());
    let id = added.json()["id"].as_u64().unwrap();
    let expected = json!({
        "id": id, "project_id": 7, "package_name_pattern": "@acme/*", "package_type": "npm", "read_only": false,
        "minimum_access_level_for_push": "maintainer", "minimum_access_level_for_delete": null,
    });
    assert_eq!(added.json(), expected);
    assert_eq!(forge.send(request(Method::GET, RULES).by("maintainer")).json(), json!([expected]));
    assert_eq!(forge.send(request(Method::GET, &RULES.replace('7', "8")).by("maintainer")).json(), json!([]));
    let one = format!("{RULES}/{id}");
    let levels = json!({"minimum_access_level_for_push": null, "minimum_access_level_for_delete": "owner"});
    let changed = send(&forge, Method::PATCH, &one, &levels).json();
    assert_eq!((&changed["minimum_access_level_for_push"], &changed["id"]), (&Value::Null, &json!(id)));
    assert_eq!(
        (&changed["minimum_access_level_for_delete"], &changed["package_name_pattern"]),
        (&json!("owner"), &json!("@acme/*"))
    );
    let renamed = send(&forge, Method::PATCH, &one, &json!({"package_name_pattern": "@acme/x-*"}));
    assert_eq!(renamed.json()["package_name_pattern"], "@acme/x-*");
    assert_eq!(send(&forge, Method::DELETE, &one, &Value::Null).status, 204);
    assert_eq!(send(&forge, Method::DELETE, &one, &Value::Null).status, 404);
    assert_eq!(forge.send(request(Method::GET, RULES).by("maintainer")).json(), json!([]));
}

#[test]
fn bad_rules_are_refused_by_name() {
    let forge = Forge::new();
    let id = send(&forge, Method::POST, RULES, &rule("lib", "admin")).json()["id"].clone();
    for (body, status, text) in [
        (json!({}), 400, "package_name_pattern is missing, package_type is missing"),
        (
            rule("a b", "admin"),
            400,
            "package_name_pattern must have characters of names, at most 255 of them, and at most 8 wildcards *",
        ),
        (
            rule(&"*a".repeat(9), "admin"),
            400,
            "package_name_pattern must have characters of names, at most 255 of them, and at most 8 wildcards *",
        ),
        (rule("a", "developer"), 400, "minimum_access_level_for_push does not have a valid value"),
        (
            json!({"package_name_pattern": "a", "package_type": "maven", "minimum_access_level_for_delete": "maintainer"}),
            400,
            "package_type does not have a valid value, minimum_access_level_for_delete does not have a valid value",
        ),
        (
            json!({"package_name_pattern": "a", "package_type": "npm"}),
            422,
            "a rule needs minimum_access_level_for_push or minimum_access_level_for_delete",
        ),
        (rule("lib", "owner"), 422, "Package name pattern has already been taken"),
    ] {
        send(&forge, Method::POST, RULES, &body).is_refused(status, text);
    }
    let one = format!("{RULES}/{id}");
    send(&forge, Method::PATCH, &one, &json!({"minimum_access_level_for_push": ""}))
        .is_refused(422, "a rule needs minimum_access_level_for_push or minimum_access_level_for_delete");
    send(&forge, Method::PATCH, &format!("{RULES}/x"), &json!({}))
        .is_refused(400, "package_protection_rule_id is invalid");
    for other in ["1", "9007199254740992"] {
        assert_eq!(send(&forge, Method::PATCH, &format!("{RULES}/{other}"), &json!({})).status, 404);
    }
    for n in 1..100 {
        assert_eq!(send(&forge, Method::POST, RULES, &rule(&format!("lib-{n}"), "owner")).status, 201, "{n}");
    }
    let more = send(&forge, Method::POST, RULES, &rule("one-more", "owner"));
    more.is_refused(422, "the project has 100 rules, which is the most that it can have");
    let page = forge.send(request(Method::GET, &format!("{RULES}?per_page=30&page=4")).by("maintainer"));
    assert_eq!((page.json().as_array().unwrap().len(), page.header("x-total")), (10, "100"));
}

#[test]
fn rules_are_for_maintainers() {
    let forge = Forge::new();
    let id = send(&forge, Method::POST, RULES, &rule("lib", "admin")).json()["id"].clone();
    forge.token("deploy", Subject::Deployment(Source::Project(PUBLIC)), &["write_package_registry"]);
    for (user, status) in [("", 401), ("outsider", 403), ("developer", 403), ("deploy", 403)] {
        for (method, path) in [
            (Method::GET, RULES.to_owned()),
            (Method::POST, RULES.to_owned()),
            (Method::PATCH, format!("{RULES}/{id}")),
            (Method::DELETE, format!("{RULES}/{id}")),
        ] {
            let answer = forge.send(request(method.clone(), &path).by(user).body(rule("x", "owner").to_string()));
            assert_eq!(answer.status, status, "{user} {method}: {}", answer.text());
        }
    }
    assert_eq!(forge.send(request(Method::GET, &RULES.replace('7', "9")).by("outsider")).status, 404);
}

#[test]
fn the_stricter_of_a_projects_rule_and_the_settings_rule_counts() {
    let forge = Forge::new();
    let setting = json!({"package_protection_rules": [
        {"package_name_pattern": "open-*", "minimum_access_level_for_push": "maintainer"},
        {"project_id": 8, "package_name_pattern": "other", "minimum_access_level_for_push": "admin"},
    ]});
    setting::save(&forge.env(), setting.as_object().unwrap()).unwrap();
    for pattern in ["open-a", "own-*"] {
        assert_eq!(send(&forge, Method::POST, RULES, &rule(pattern, "owner")).status, 201);
    }
    let listed = forge.send(request(Method::GET, RULES).by("maintainer")).json();
    let last = &listed.as_array().unwrap()[2];
    assert_eq!((listed.as_array().unwrap().len(), &last["read_only"], &last["id"]), (3, &json!(true), &Value::Null));
    let publish = |name: &str, project, by: &str| forge.send(publication(name, "1.0.0").to(project).by(by)).status;
    assert_eq!((publish("open-a", PUBLIC, "maintainer"), publish("own-x", PUBLIC, "maintainer")), (403, 403));
    assert_eq!((publish("open-b", PUBLIC, "developer"), publish("open-b", PUBLIC, "maintainer")), (403, 200));
    assert_eq!((publish("own-x", INTERNAL, "developer"), publish("x-own", PUBLIC, "developer")), (200, 200));
}

#[test]
fn a_rule_for_deletions_guards_versions_by_id() {
    let forge = Forge::new();
    forge.publish(PUBLIC, "lib", "1.0.0");
    let body =
        json!({"package_name_pattern": "li*", "package_type": "npm", "minimum_access_level_for_delete": "owner"});
    assert_eq!(send(&forge, Method::POST, RULES, &body).status, 201);
    forge.publish(PUBLIC, "lib", "1.1.0");
    let id = forge.get("/projects/7/packages").json()[0]["id"].clone();
    let delete = request(Method::DELETE, &format!("/projects/7/packages/{id}")).by("maintainer");
    forge.send(delete).is_refused(403, "Package protected.");
}
