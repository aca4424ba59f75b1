//! The scopes of tokens.

use super::*;

const READS: [&str; 14] = [
    "/projects/7/packages/npm/lib",
    "/projects/7/packages/npm/lib/latest",
    "/projects/7/packages/npm/lib/-/lib-1.0.0.tgz",
    "/projects/7/packages/npm/-/package/lib/dist-tags",
    "/projects/7/packages/npm/-/package/lib/visibility",
    "/projects/7/packages/npm/-/package/lib/access",
    "/projects/7/packages/npm/-/package/lib/owners",
    "/projects/7/packages/npm/-/whoami",
    "/packages/npm/-/user/org.couchdb.user:guest",
    "/packages/npm/-/user/org.couchdb.user:missing",
    "/packages/npm/-/v1/search?text=lib",
    "/groups/100/packages",
    "/projects/7/packages",
    "/packages/npm/-/npm/v1/user",
];

const AUDIT: &str = "/packages/npm/-/npm/v1/security/advisories/bulk";

fn forge() -> Forge {
    let forge = Forge::new();
    forge.publish(PUBLIC, "lib", "1.0.0");
    forge
}

#[track_caller]
fn is_insufficient(answer: &TestResponse, scopes: &str) {
    assert_eq!(answer.status, 403, "{}", answer.text());
    let body = answer.json();
    assert_eq!((&body["error"], &body["scope"]), (&json!("insufficient_scope"), &json!(scopes)));
}

#[test]
fn a_token_for_something_else_is_refused_everywhere_but_for_a_ping() {
    let forge = forge();
    for scope in ["self_rotate", "read_user", "read_repository"] {
        for (subject, scopes) in [
            (Subject::User(4), "api read_api"),
            (Subject::Deployment(Source::Project(PUBLIC)), "read_package_registry write_package_registry"),
        ] {
            forge.token("other", subject, &[scope]);
            for path in READS {
                is_insufficient(&forge.send(request(Method::GET, path).by("other")), scopes);
            }
            is_insufficient(&forge.send(request(Method::POST, AUDIT).by("other").body("{}")), scopes);
            assert_eq!(forge.send(request(Method::GET, "/packages/npm/-/ping").by("other")).status, 200);
            assert_eq!(forge.send(publication("lib", "2.0.0").to(PUBLIC).by("other")).status, 403);
        }
    }
}

#[test]
fn a_token_for_reading_reads_and_audits() {
    let forge = forge();
    forge.token("reads", Subject::User(4), &["read_api"]);
    for path in READS.into_iter().filter(|path| !path.ends_with("missing")) {
        assert_eq!(forge.send(request(Method::GET, path).by("reads")).status, 200, "{path}");
    }
    assert_eq!(forge.send(request(Method::POST, AUDIT).by("reads").body("{}")).status, 404);
    is_insufficient(&forge.send(publication("lib", "2.0.0").to(PUBLIC).by("reads")), "api");
}

#[test]
fn deploy_tokens_for_packages_may_read_search_and_audit() {
    let forge = forge();
    for scope in ["read_package_registry", "write_package_registry"] {
        forge.token("deploys", Subject::Deployment(Source::Project(PUBLIC)), &[scope]);
        for path in READS.into_iter().take(6).chain(["/packages/npm/-/v1/search?text=lib", "/packages/npm/-/ping"]) {
            assert_eq!(forge.send(request(Method::GET, path).by("deploys")).status, 200, "{scope} {path}");
        }
        assert_eq!(forge.send(request(Method::POST, AUDIT).by("deploys").body("{}")).status, 404);
        let status = forge.send(publication("lib", "2.0.0").to(PUBLIC).by("deploys")).status;
        assert_eq!(status, if scope == "write_package_registry" { 200 } else { 403 });
    }
}

#[test]
fn a_job_does_not_read_the_profile_of_its_user() {
    let forge = forge();
    forge.token("job", Subject::Job { user_id: 4, project_id: PUBLIC, running: true }, &[]);
    assert_eq!(forge.send(request(Method::GET, "/packages/npm/-/whoami").by("job")).status, 200);
    assert_eq!(forge.send(request(Method::GET, "/packages/npm/-/npm/v1/user").by("job")).status, 403);
}
