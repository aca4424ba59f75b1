//! Lock files and installations after another project has published the same name.

use super::npm::Npm;
use super::workflow::{Client, application, exported, package};
use super::{Machine, are_enabled};
use hexad_tests::forge::{self, DEVELOPER, INTERNAL, MAINTAINER, PUBLIC};
use hexad_tests::http;

#[test]
fn npm_ci_with_an_old_lock_file_works_after_another_project_published() {
    if !are_enabled() {
        return;
    }
    let server = forge::server(&[]);
    let (machine, npm) = (Machine::new(), Npm::OnPath);
    let sign_in = |path: String, token: &str| npm.sign_in(&machine, &format!("{}/api/v4/{path}", server.url), token);
    let publish = |project: u64, token: &str, version: &str| {
        sign_in(format!("projects/{project}/packages/npm/"), token);
        npm.publish(&machine, &package(&machine, "@acme/lib", version, ""))
    };
    publish(PUBLIC, MAINTAINER, "1.0.0").ok();
    sign_in("groups/acme/-/packages/npm/".into(), DEVELOPER);
    let app = application(&machine, "app");
    npm.add(&machine, &app, "@acme/lib").ok();

    let refused = publish(INTERNAL, DEVELOPER, "9.9.9");
    let text = format!("{}{}", refused.stdout, refused.stderr);
    assert!(!refused.success && text.contains("belongs to the project acme/open"), "{text}");
    let allowed = http::agent()
        .post(format!("{}/api/v4/groups/acme/-/packages/npm/-/package_name_owners/@acme%2flib/projects", server.url))
        .header("private-token", MAINTAINER)
        .content_type("application/json")
        .send(format!(r#"{{"project_id":{INTERNAL}}}"#))
        .and_then(http::read)
        .expect("an answer");
    assert_eq!(allowed.status, 201, "{}", allowed.text());
    publish(INTERNAL, DEVELOPER, "9.9.9").ok();

    for level in ["groups/acme/-/packages/npm/", "packages/npm/"] {
        sign_in(level.into(), DEVELOPER);
        std::fs::remove_dir_all(app.join("node_modules")).expect("installed before");
        npm.install_locked(&machine, &app).ok();
        assert_eq!(exported(&machine, &app, "@acme/lib"), "@acme/lib 1.0.0", "{level}");
        let fresh = application(&machine, "fresh");
        npm.add(&machine, &fresh, "@acme/lib").ok();
        assert_eq!(exported(&machine, &fresh, "@acme/lib"), "@acme/lib 1.0.0", "{level}: latest is the owner's");
        npm.add(&machine, &fresh, "@acme/lib@9.9.9").ok();
        assert_eq!(exported(&machine, &fresh, "@acme/lib"), "@acme/lib 9.9.9", "{level}");
        std::fs::remove_dir_all(&fresh).expect("a folder of our own");
    }
}
