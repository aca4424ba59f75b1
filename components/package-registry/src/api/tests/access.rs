//! Rights of every kind of caller at each level.

use super::*;

/// Every kind of caller; the columns of the tables below.
const CALLERS: [&str; 6] = ["", "outsider", "guest", "reporter", "developer", "maintainer"];

/// A forge in which each project has `@acme/<n>` with `n` its id, 1.0.0 tagged `old`.
fn forge() -> Forge {
    let forge = Forge::new();
    for project in [PUBLIC, INTERNAL, PRIVATE] {
        let name = format!("@acme/{project}");
        forge.publish(project, &name, "1.0.0");
        let tag = format!("/projects/{project}/packages/npm/-/package/{name}/dist-tags/old");
        assert_eq!(forge.send(request(Method::PUT, &tag).body("\"1.0.0\"")).status, 204);
    }
    forge
}

#[track_caller]
fn check(resource: &str, expected: [u16; 6], send: impl Fn(&Forge, &str) -> TestResponse) {
    let found = CALLERS.map(|caller| send(&forge(), caller).status);
    assert_eq!(found, expected, "{resource} by {CALLERS:?}");
}

#[test]
fn reading() {
    for (project, document, file) in [
        (PUBLIC, [200, 200, 200, 200, 200, 200], [200, 200, 200, 200, 200, 200]),
        (INTERNAL, [401, 200, 200, 200, 200, 200], [404, 200, 200, 200, 200, 200]),
        (PRIVATE, [401, 404, 403, 200, 200, 200], [404, 404, 403, 200, 200, 200]),
        (404, [401, 404, 404, 404, 404, 404], [404, 404, 404, 404, 404, 404]),
    ] {
        let get = |path: String| move |forge: &Forge, caller: &str| forge.send(request(Method::GET, &path).by(caller));
        let prefix = format!("/projects/{project}/packages/npm");
        check("metadata", document, get(format!("{prefix}/@acme%2f{project}")));
        check("a version", document, get(format!("{prefix}/@acme%2f{project}/latest")));
        check("tags", document, get(format!("{prefix}/-/package/@acme%2f{project}/dist-tags")));
        check("the file", file, get(format!("{prefix}/@acme/{project}/-/{project}-1.0.0.tgz")));
    }
}

#[test]
fn reading_at_group_and_instance_level() {
    for prefix in ["/groups/acme/-/packages/npm", "/packages/npm"] {
        for (project, document, file) in [
            (PUBLIC, [200, 200, 200, 200, 200, 200], [200, 200, 200, 200, 200, 200]),
            (INTERNAL, [401, 200, 200, 200, 200, 200], [404, 200, 200, 200, 200, 200]),
            (PRIVATE, [401, 403, 403, 200, 200, 200], [404, 403, 403, 200, 200, 200]),
            (404, [404; 6], [404; 6]),
        ] {
            let get =
                |path: String| move |forge: &Forge, caller: &str| forge.send(request(Method::GET, &path).by(caller));
            check("metadata", document, get(format!("{prefix}/@acme%2f{project}")));
            check("tags", document, get(format!("{prefix}/-/package/@acme%2f{project}/dist-tags")));
            check("the file", file, get(format!("{prefix}/@acme/{project}/-/{project}-1.0.0.tgz")));
        }
    }
    let private = "/groups/acme%2Fsub/-/packages/npm";
    let get = |path: String| move |forge: &Forge, caller: &str| forge.send(request(Method::GET, &path).by(caller));
    check("metadata in a private group", [401, 404, 403, 200, 200, 200], get(format!("{private}/@acme%2f{PRIVATE}")));
    check(
        "the file in a private group",
        [404, 404, 403, 200, 200, 200],
        get(format!("{private}/@acme/9/-/9-1.0.0.tgz")),
    );
}

/// If names are shared, the last publisher's project decides.
#[test]
fn an_unreadable_package_of_a_shared_name_is_answered_as_in_its_project() {
    let forge = Forge::shared();
    forge.publish(PUBLIC, "@acme/lib", "1.0.0");
    forge.publish(PRIVATE, "@acme/lib", "1.0.1");
    for prefix in ["/groups/acme/-/packages/npm", "/packages/npm"] {
        let path = format!("{prefix}/@acme%2flib");
        let statuses = CALLERS.map(|caller| forge.send(request(Method::GET, &path).by(caller)).status);
        assert_eq!(statuses, [401, 404, 403, 200, 200, 200], "{prefix}");
    }
}

#[test]
fn writing() {
    for (project, by_developer, by_maintainer) in [
        (PUBLIC, [401, 403, 403, 403, 200, 200], [401, 403, 403, 403, 403, 200]),
        (INTERNAL, [401, 403, 403, 403, 200, 200], [401, 403, 403, 403, 403, 200]),
        (PRIVATE, [401, 404, 403, 403, 200, 200], [401, 404, 403, 403, 403, 200]),
        (404, [401, 404, 404, 404, 404, 404], [401, 404, 404, 404, 404, 404]),
    ] {
        let name = format!("@acme/{project}");
        let without_body = |statuses: [u16; 6]| statuses.map(|status| if status == 200 { 204 } else { status });
        check("publishing", by_developer, |forge, caller| {
            forge.send(publication(&name, "1.0.1").to(project).by(caller))
        });
        let tag = format!("/projects/{project}/packages/npm/-/package/{name}/dist-tags/old");
        check("setting a tag", without_body(by_developer), |forge, caller| {
            forge.send(request(Method::PUT, &tag).by(caller).body("\"1.0.0\""))
        });
        check("removing a tag", without_body(by_maintainer), |forge, caller| {
            forge.send(request(Method::DELETE, &tag).by(caller))
        });
        check("deprecating", by_maintainer, |forge, caller| {
            let document = json!({"versions": {"1.0.0": {"deprecated": "old"}}}).to_string();
            let path = format!("/projects/{project}/packages/npm/{}", name.replace('/', "%2f"));
            forge.send(request(Method::PUT, &path).by(caller).body(document))
        });
    }
}

#[test]
fn the_registry_of_a_project_can_be_open_closed_or_for_members() {
    for (visibility, registry, expected, file) in [
        (Visibility::Private, FeatureAccess::Public, [200; 6], [200; 6]),
        (Visibility::Internal, FeatureAccess::Public, [200; 6], [200; 6]),
        (Visibility::Public, FeatureAccess::Disabled, [403; 6], [403; 6]),
        (Visibility::Private, FeatureAccess::Disabled, [401, 404, 403, 403, 403, 403], [404, 404, 403, 403, 403, 403]),
        (Visibility::Public, FeatureAccess::Private, [401, 403, 200, 200, 200, 200], [404, 403, 200, 200, 200, 200]),
    ] {
        let get = |path: &'static str| {
            move |forge: &Forge, caller: &str| {
                forge.project(PUBLIC, "web", 100, visibility, registry);
                forge.send(request(Method::GET, path).by(caller))
            }
        };
        check("metadata", expected, get("/projects/7/packages/npm/@acme%2f7"));
        check("the file", file, get("/projects/7/packages/npm/@acme/7/-/7-1.0.0.tgz"));
    }
    let forge = forge();
    forge.project(PUBLIC, "web", 100, Visibility::Public, FeatureAccess::Disabled);
    forge.send(publication("@acme/7", "1.0.1").to(PUBLIC)).is_refused(403, "403 Forbidden");
}

#[test]
fn deploy_tokens() {
    let forge = forge();
    let project = Subject::Deployment(Source::Project(PRIVATE));
    forge.token("reads", project, &["read_package_registry"]);
    forge.token("writes", project, &["write_package_registry"]);
    forge.token("neither", project, &["read_repository"]);
    forge.token("group", Subject::Deployment(Source::Group(100)), &["write_package_registry"]);
    forge.token("elsewhere", Subject::Deployment(Source::Group(200)), &["write_package_registry"]);
    for (token, read, write, remove) in [
        ("reads", 200, 403, 403),
        ("writes", 200, 200, 204),
        ("neither", 403, 403, 403),
        ("group", 200, 200, 204),
        ("elsewhere", 404, 404, 404),
    ] {
        let get = forge.send(request(Method::GET, "/projects/9/packages/npm/@acme%2f9").by(token)).status;
        let version = format!("1.0.1-{token}");
        let publish = forge.send(publication("@acme/9", &version).to(PRIVATE).by(token)).status;
        let tag = "/projects/9/packages/npm/-/package/@acme%2f9/dist-tags/old";
        let removed = forge.send(request(Method::DELETE, tag).by(token)).status;
        assert_eq!((get, publish, removed), (read, write, remove), "{token}");
        if removed == 204 {
            assert_eq!(forge.send(request(Method::PUT, tag).body("\"1.0.0\"").by(token)).status, 204);
        }
    }
    let row = forge.send(publication("@acme/9", "2.0.0").to(PRIVATE).by("writes")).json();
    assert_eq!(row["creator_id"], json!(null));
}

#[test]
fn jobs_act_as_their_user_where_their_project_is_accepted() {
    let forge = forge();
    let job = |user_id, project_id, running| Subject::Job { user_id, project_id, running };
    forge.token("own", job(4, PRIVATE, true), &[]);
    forge.token("foreign", job(4, PUBLIC, true), &[]);
    forge.token("over", job(4, PRIVATE, false), &[]);
    let get = |token: &str, project: u64| {
        forge.send(request(Method::GET, &format!("/projects/{project}/packages/npm/@acme%2f{project}")).by(token))
    };
    assert_eq!((get("own", PRIVATE).status, get("own", PUBLIC).status, get("own", INTERNAL).status), (200, 200, 200));
    assert_eq!(forge.send(publication("@acme/9", "1.0.1").to(PRIVATE).by("own")).status, 200);
    let text = "403 Forbidden - Authentication by CI/CD job token not allowed from acme/web to project #9.";
    get("foreign", PRIVATE).is_refused(403, text);
    forge.send(publication("@acme/9", "1.0.2").to(PRIVATE).by("foreign")).is_refused(403, text);
    get("over", PUBLIC).is_refused(401, "401 Unauthorized");
}

#[test]
fn scopes_of_personal_tokens() {
    let forge = forge();
    forge.token("read_api", Subject::User(5), &["read_api"]);
    forge.token("read_user", Subject::User(5), &["read_user"]);
    let get = |token: &str| forge.send(request(Method::GET, "/projects/9/packages/npm/@acme%2f9").by(token)).status;
    assert_eq!((get("read_api"), get("read_user")), (200, 403));
    let answer = forge.send(publication("@acme/9", "1.0.1").to(PRIVATE).by("read_api"));
    assert_eq!((answer.status, &answer.json()["error"]), (403, &json!("insufficient_scope")));
}

#[test]
fn unreadable_projects_and_groups_are_answered_as_missing() {
    let forge = forge();
    let outsider = |path: &str| forge.send(request(Method::GET, path).by("outsider"));
    for project in [PRIVATE, 404] {
        outsider(&format!("/projects/{project}/packages/npm/@acme%2f9")).is(
            404,
            "404 Project Not Found",
            "Project not found",
        );
    }
    for group in ["acme%2Fsub", "nobody"] {
        outsider(&format!("/groups/{group}/-/packages/npm/x")).is(404, "404 Group Not Found", "Group not found");
        forge
            .send(request(Method::GET, &format!("/groups/{group}/-/packages/npm/x")).by(""))
            .is_refused(401, "401 Unauthorized");
    }
    // A member learns that the package is missing; an anonymous caller of a private project does not.
    forge.get("/projects/9/packages/npm/x").is(404, "404 Packages Not Found", "Packages not found");
    forge.send(request(Method::GET, "/projects/9/packages/npm/x").by("")).is_refused(401, "401 Unauthorized");
    forge.send(request(Method::GET, "/projects/7/packages/npm/x").by("")).is(
        404,
        "404 Packages Not Found",
        "Packages not found",
    );
    forge
        .send(request(Method::GET, "/projects/7/packages/npm/@acme%2f7").by("wrong"))
        .is_refused(401, "401 Unauthorized");
}

#[test]
fn the_credentials_are_checked_before_the_body_is_read() {
    let forge = forge();
    for (caller, status) in [("", 401), ("guest", 403), ("wrong", 401)] {
        let broken = publication("@acme/7", "1.0.1").to(PUBLIC).by(caller).cut_off(0);
        assert_eq!(forge.send(broken).status, status, "{caller}");
    }
}

#[test]
fn at_group_level_the_project_that_was_published_to_last_decides() {
    let mut forge = Forge::shared();
    forge.publish(INTERNAL, "lib", "1.0.0");
    forge.publish(PUBLIC, "lib", "2.0.0");
    forge.publish(17, "lib", "3.0.0");
    let latest = |forge: &Forge| forge.get("/groups/acme/-/packages/npm/lib").json()["dist-tags"]["latest"].clone();
    assert_eq!(latest(&forge), "2.0.0");
    forge.advance_clock();
    forge.publish(INTERNAL, "lib", "1.0.1");
    assert_eq!(latest(&forge), "1.0.1");
    assert_eq!(forge.get("/groups/other/-/packages/npm/lib").json()["dist-tags"]["latest"], "3.0.0");
}

#[test]
fn at_instance_level_the_scope_names_the_top_level_namespace() {
    let forge = Forge::shared();
    forge.publish(PUBLIC, "@ACME/lib", "1.0.0");
    forge.publish(PUBLIC, "@sub/lib", "1.0.0");
    forge.publish(PRIVATE, "@sub/lib", "1.0.0");
    forge.publish(PUBLIC, "lib", "1.0.0");
    forge.publish(17, "@acme/lib", "1.0.0");
    assert_eq!(forge.get("/packages/npm/@ACME%2flib").status, 200);
    for name in ["@sub/lib", "lib", "@acme/lib", "@nobody/lib"] {
        forge.get(&format!("/packages/npm/{name}")).is(404, "404 Project Not Found", "Project not found");
    }
}
