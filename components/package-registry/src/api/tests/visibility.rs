//! Visibility of packages, and publications to addresses that refuse them.

use super::*;

#[test]
fn a_package_is_public_if_anonymous_callers_may_read_it() {
    let forge = Forge::shared();
    forge.project(10, "open", 101, Visibility::Private, FeatureAccess::Public);
    for project in [PUBLIC, INTERNAL, PRIVATE] {
        forge.publish(project, "@acme/lib", &format!("1.0.{project}"));
    }
    let get = |prefix: &str, user: &str| {
        let path = format!("{prefix}/packages/npm/-/package/@acme%2flib/visibility");
        let answer = forge.send(request(Method::GET, &path).by(user));
        (answer.status, answer.json()["public"].as_bool())
    };
    for (prefix, user, expected) in [
        ("/projects/7", "", (200, Some(true))),
        ("/projects/7", "developer", (200, Some(true))),
        ("/projects/8", "developer", (200, Some(false))),
        ("/projects/8", "", (401, None)),
        ("/projects/9", "developer", (200, Some(false))),
        ("/projects/9", "outsider", (404, None)),
        // npm asks before the first version of a package is published.
        ("/projects/17", "developer", (200, Some(true))),
        ("/projects/10", "", (200, Some(true))),
        ("/groups/acme/-", "developer", (200, Some(false))),
        ("/groups/other/-", "developer", (404, None)),
        ("", "developer", (200, Some(false))),
    ] {
        assert_eq!(get(prefix, user), expected, "{prefix} {user}");
    }
}

#[test]
fn pnpm_gets_the_visibility_in_its_own_form() {
    let forge = Forge::shared();
    [PUBLIC, PRIVATE].into_iter().for_each(|project| drop(forge.publish(project, "lib", "1.0.0")));
    for (project, access) in [(PUBLIC, "public"), (PRIVATE, "restricted")] {
        let path = format!("/projects/{project}/packages/npm/-/package/lib");
        let status = forge.get(&format!("{path}/access"));
        assert_eq!((status.status, status.json()), (200, json!({"access": access, "publish_requires_tfa": false})));
        let owners = forge.get(&format!("{path}/owners"));
        assert_eq!((owners.status, owners.json()), (200, json!([{"username": "maintainer", "email": ""}])));
        let text =
            "nothing was changed: the owners of a package are the members of its project: add and remove them there";
        let add = || request(Method::PUT, &format!("{path}/owners")).body(r#"{"user":"guest"}"#);
        let remove = request(Method::DELETE, &format!("{path}/owners/maintainer"));
        forge.send(add()).is_refused(400, text);
        forge.send(remove).is_refused(400, text);
        assert_eq!(forge.send(add().by("")).status, 401);
        let text =
            "nothing was changed: who may read a package is who may read its project: change the project's visibility";
        for method in [Method::POST, Method::PUT] {
            let change = || request(method.clone(), &format!("{path}/access")).body(r#"{"access":"public"}"#);
            forge.send(change()).is_refused(400, text);
            assert_eq!(forge.send(change().by("")).status, 401);
        }
        for resource in ["access", "owners"] {
            let hidden = request(Method::GET, &format!("{path}/{resource}")).by("outsider");
            assert_eq!(forge.send(hidden).status, if project == PUBLIC { 200 } else { 404 }, "{resource}");
        }
    }
    assert_eq!(forge.get("/projects/7/packages/npm/-/package/none/owners").status, 404);
}

#[test]
fn a_publication_to_a_group_or_to_the_instance_is_refused_with_the_project() {
    let forge = Forge::new();
    let put = |prefix: &str, user: &str, name: &str| {
        let body = publication(name, "1.0.0").document.to_string();
        let path = format!("{prefix}/packages/npm/{}", name.replace('/', "%2f"));
        let answer = forge.send(request(Method::PUT, &path).by(user).body(body));
        assert_eq!((answer.status, answer.header("allow")), (405, "GET, HEAD"));
        let text = answer.json()["error"].as_str().unwrap().to_owned();
        assert_eq!(answer.json()["message"], text.as_str());
        text
    };
    let general = "set the registry to http://registry.example/api/v4/projects/:id/packages/npm/";
    for prefix in ["", "/groups/acme/-"] {
        for user in ["developer", ""] {
            let text = put(prefix, user, "@acme/lib");
            assert!(text.contains(general), "{text}");
        }
    }
    forge.publish(PRIVATE, "@acme/lib", "1.0.0");
    for prefix in ["", "/groups/acme/-"] {
        let text = put(prefix, "developer", "@acme/lib");
        assert!(text.ends_with("http://registry.example/api/v4/projects/9/packages/npm/"), "{text}");
        let text = put(prefix, "outsider", "@acme/lib");
        assert!(text.contains(general), "the project is hidden: {text}");
    }
}
