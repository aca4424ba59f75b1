//! Clients that use the registry for one scope only, at every level, which is the usual configuration. Also deploy and
//! job tokens.

use super::bun::Bun;
use super::yarn::{Berry, Classic};
use super::*;

const NAME: &str = "@acme/lib";

/// Each level's path; packages are published to the first.
const LEVELS: [&str; 4] = [
    "projects/9/packages/npm/",
    "projects/acme%2Flabs%2Fsecret/packages/npm/",
    "groups/acme/-/packages/npm/",
    "packages/npm/",
];

/// Publishes to the project, and installs at every level, without and with a lock file.
fn install_at_every_level(client: &dyn Client) {
    let Some(server) = server() else { return };
    let machine = Machine::new();
    let registry = |level: &str| format!("{}/api/v4/{level}", server.url);
    client.sign_in_for(&machine, "@acme", &registry(LEVELS[0]), DEVELOPER);
    client.publish(&machine, &package(&machine, NAME, "1.0.0", "")).ok();
    for (number, level) in LEVELS.into_iter().enumerate() {
        client.sign_in_for(&machine, "@acme", &registry(level), DEVELOPER);
        let versions = client.versions(&machine, NAME).ok();
        assert!(versions.contains("1.0.0"), "{level}: {versions}");
        let app = application(&machine, &format!("app-{number}"));
        client.add(&machine, &app, NAME).ok();
        assert_eq!(exported(&machine, &app, NAME), format!("{NAME} 1.0.0"), "{level}");
        std::fs::remove_dir_all(app.join("node_modules")).expect("installed before");
        client.install_locked(&machine, &app).ok();
        assert_eq!(exported(&machine, &app, NAME), format!("{NAME} 1.0.0"), "{level}, from the lock file");
    }
}

tests_of! {
    npm_works_with_one_scope: install_at_every_level(&Npm::OnPath);
    pnpm_works_with_one_scope: install_at_every_level(&Pnpm);
    yarn_classic_works_with_one_scope: install_at_every_level(&Classic);
    yarn_berry_works_with_one_scope: install_at_every_level(&Berry);
    bun_works_with_one_scope: install_at_every_level(&Bun);
}

#[test]
fn deploy_tokens_and_jobs_publish_and_install_with_npm() {
    let Some(server) = server() else { return };
    let tokens = format!(
        r#"{{"kind":"token","type":"deploy","token":"gldt-write","project_id":{PRIVATE},"scopes":["read_package_registry","write_package_registry"]}}
{{"kind":"token","type":"deploy","token":"gldt-read","group_id":10,"scopes":["read_package_registry"]}}
{{"kind":"token","type":"job","token":"glcbt-running","user_id":3,"project_id":{PRIVATE},"status":"running"}}
{{"kind":"token","type":"job","token":"glcbt-over","user_id":3,"project_id":{PRIVATE},"status":"success"}}
"#
    );
    forge::import(&server, &tokens);

    let npm = Npm::OnPath;
    let registry = format!("{}/api/v4/{}", server.url, LEVELS[0]);
    let (mut version, mut installs) = (0, 0);
    for (token, may_publish, may_install) in [
        ("gldt-write", true, true),
        ("gldt-read", false, true),
        ("glcbt-running", true, true),
        ("glcbt-over", false, false),
    ] {
        let machine = Machine::new();
        npm.sign_in_for(&machine, "@acme", &registry, token);
        version += 1;
        let published = npm.publish(&machine, &package(&machine, NAME, &format!("1.0.{version}"), ""));
        assert_eq!(published.success, may_publish, "{token}: {}", published.stderr);
        let app = application(&machine, "app");
        let installed = npm.add(&machine, &app, NAME);
        assert_eq!(installed.success, may_install, "{token}: {}", installed.stderr);
        installs += u32::from(installed.success);
    }
    assert_eq!(installs, 3);
}
