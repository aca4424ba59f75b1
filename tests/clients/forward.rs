//! Another registry behind this one: packages that are not here are installed from there, through this
//! registry as the only one that the client knows.

use super::npm::Npm;
use super::pnpm::Pnpm;
use super::workflow::{Client, application, exported, package};
use super::yarn::{Berry, Classic};
use super::{Machine, are_enabled};
use hexad_tests::forge::{self, DEVELOPER, MAINTAINER, PUBLIC};
use hexad_tests::server::Server;

/// Installs a package of the other registry and one of this registry that depends on it, at instance level.
fn installs_through(client: &dyn Client) {
    if !are_enabled() {
        return;
    }
    let machine = Machine::new();
    let (there_data, here_data) =
        (tempfile::tempdir().expect("a temporary folder"), tempfile::tempdir().expect("a temporary folder"));
    let there = Server::start(there_data.path());
    forge::seed(&there);
    let registry = format!("{}/api/v4/projects/{PUBLIC}/packages/npm/", there.url);
    client.sign_in(&machine, &registry, MAINTAINER);
    for name in ["public-lib", "@far/public-lib"] {
        client.publish(&machine, &package(&machine, name, "1.0.0", "")).ok();
        client.publish(&machine, &package(&machine, name, "1.1.0", "")).ok();
    }
    client.publish(&machine, &package(&machine, "@acme/stolen", "9.9.9", "")).ok();

    let here = Server::start_with(here_data.path(), &[("registry_forward_url", &registry)]);
    forge::seed(&here);
    let project = format!("{}/api/v4/projects/{PUBLIC}/packages/npm/", here.url);
    client.sign_in(&machine, &project, DEVELOPER);
    let dependent = r#","dependencies":{"public-lib":"^1.0.0"}"#;
    client.publish(&machine, &package(&machine, "@acme/own", "2.0.0", dependent)).ok();

    client.sign_in(&machine, &format!("{}/api/v4/packages/npm/", here.url), DEVELOPER);
    let app = application(&machine, "app");
    for (name, version) in [("public-lib", "1.1.0"), ("@far/public-lib", "1.1.0"), ("@acme/own", "2.0.0")] {
        client.add(&machine, &app, name).ok();
        assert_eq!(exported(&machine, &app, name), format!("{name} {version}"));
    }
    std::fs::remove_dir_all(app.join("node_modules")).expect("installed before");
    client.install_locked(&machine, &app).ok();
    assert_eq!(exported(&machine, &app, "public-lib"), "public-lib 1.1.0");

    client.add(&machine, &app, "@acme/stolen").refused();
}

#[test]
fn npm_installs_through_the_registry() {
    installs_through(&Npm::OnPath);
}

#[test]
fn pnpm_installs_through_the_registry() {
    installs_through(&Pnpm);
}

#[test]
fn yarn_classic_installs_through_the_registry() {
    installs_through(&Classic);
}

#[test]
fn yarn_berry_installs_through_the_registry() {
    installs_through(&Berry);
}

/// npm puts this registry in the place of a public one in the addresses of tarballs, so that files are asked
/// for here.
#[test]
fn npm_fetches_tarballs_through_the_registry() {
    if !are_enabled() {
        return;
    }
    let machine = Machine::new();
    let (there_data, here_data) =
        (tempfile::tempdir().expect("a temporary folder"), tempfile::tempdir().expect("a temporary folder"));
    let there = Server::start(there_data.path());
    forge::seed(&there);
    let registry = format!("{}/api/v4/projects/{PUBLIC}/packages/npm", there.url);
    let npm = Npm::OnPath;
    npm.sign_in(&machine, &format!("{registry}/"), MAINTAINER);
    npm.publish(&machine, &package(&machine, "public-lib", "1.0.0", "")).ok();
    let here = Server::start_with(here_data.path(), &[("registry_forward_url", &registry)]);
    forge::seed(&here);
    let own = format!("{}/api/v4/groups/acme/-/packages/npm/", here.url);
    npm.sign_in(&machine, &own, DEVELOPER);
    let app = application(&machine, "app");
    npm.add(&machine, &app, "public-lib").ok();
    machine.write("app/.npmrc", "replace-registry-host=public.example\n");
    let lock = app.join("package-lock.json");
    let text = std::fs::read_to_string(&lock).expect("a lock file");
    assert!(text.contains(&registry), "{text}");
    std::fs::write(&lock, text.replace(&registry, "https://public.example")).expect("a file");
    std::fs::remove_dir_all(app.join("node_modules")).expect("installed before");
    npm.install_locked(&machine, &app).ok();
    assert_eq!(exported(&machine, &app, "public-lib"), "public-lib 1.0.0");
}
