//! Another registry (verdaccio), in front of this one and behind it.

use super::*;
use hexad_tests::verdaccio::{self, Verdaccio};

fn start(configuration: &str) -> Verdaccio {
    installed("peers");
    Verdaccio::start(configuration).expect("it is installed")
}

/// A configuration of verdaccio with `group` of the server as the registry behind it, with or without a token.
/// Verdaccio revalidates metadata at every request.
fn behind(server: &Server, group: &str, token: Option<&str>) -> String {
    let auth = token.map(|token| format!(", auth: {{ type: bearer, token: {token} }}")).unwrap_or_default();
    format!(
        "
auth: {{ htpasswd: {{ file: ./htpasswd, max_users: 10 }} }}
uplinks: {{ forge: {{ url: '{}/api/v4/groups/{group}/-/packages/npm/', maxage: 0s{auth} }} }}
packages: {{ '**': {{ access: $all, proxy: forge }} }}
",
        server.url
    )
}

fn publish(machine: &Machine, server: &Server, project: u64, name: &str, version: &str) {
    let registry = format!("{}/api/v4/projects/{project}/packages/npm/", server.url);
    Npm::OnPath.sign_in(machine, &registry, MAINTAINER);
    Npm::OnPath.publish(machine, &package(machine, name, version, "")).ok();
}

#[test]
fn a_peer_installs_public_and_private_packages_from_here() {
    let Some(server) = server() else { return };
    let machine = Machine::new();
    publish(&machine, &server, PUBLIC, "public-lib", "1.0.0");
    publish(&machine, &server, PRIVATE, "@acme/hidden", "1.0.0");

    let peer = start(&behind(&server, "acme", Some(DEVELOPER)));
    Npm::OnPath.sign_in(&machine, &format!("{}/", peer.url), &peer.token);
    let app = application(&machine, "app");
    for name in ["public-lib", "@acme/hidden"] {
        Npm::OnPath.add(&machine, &app, name).ok();
        assert_eq!(exported(&machine, &app, name), format!("{name} 1.0.0"));
    }
    let lock = std::fs::read_to_string(app.join("package-lock.json")).expect("a lock file");
    assert!(lock.contains(&peer.url) && !lock.contains(&server.url), "{lock}");

    // The peer revalidates its packages.
    publish(&machine, &server, PRIVATE, "@acme/hidden", "1.1.0");
    Npm::OnPath.sign_in(&machine, &format!("{}/", peer.url), &peer.token);
    Npm::OnPath.add(&machine, &app, "@acme/hidden@latest").ok();
    Npm::OnPath.add(&machine, &app, "public-lib@latest").ok();
    assert_eq!(exported(&machine, &app, "@acme/hidden"), "@acme/hidden 1.1.0");
    assert_eq!(exported(&machine, &app, "public-lib"), "public-lib 1.0.0");
}

#[test]
fn a_peer_without_a_token_has_public_packages_only() {
    let Some(server) = server() else { return };
    let machine = Machine::new();
    publish(&machine, &server, PUBLIC, "@acme/open", "1.0.0");
    publish(&machine, &server, PRIVATE, "@acme/hidden", "1.0.0");

    let peer = start(&behind(&server, "acme", None));
    Npm::OnPath.sign_in(&machine, &format!("{}/", peer.url), &peer.token);
    let app = application(&machine, "app");
    Npm::OnPath.add(&machine, &app, "@acme/open").ok();
    assert_eq!(exported(&machine, &app, "@acme/open"), "@acme/open 1.0.0");
    Npm::OnPath.add(&machine, &app, "@acme/hidden").refused();
}

#[test]
fn packages_of_a_peer_are_installed_through_here() {
    if !are_enabled() {
        return;
    }
    let machine = Machine::new();
    let peer = start(verdaccio::ALONE);
    Npm::OnPath.sign_in(&machine, &format!("{}/", peer.url), &peer.token);
    Npm::OnPath.publish(&machine, &package(&machine, "peer-lib", "3.0.0", "")).ok();

    let server = forge::server(&[("registry_forward_url", &peer.url)]);
    Npm::OnPath.sign_in(&machine, &format!("{}/api/v4/packages/npm/", server.url), DEVELOPER);
    let app = application(&machine, "app");
    Npm::OnPath.add(&machine, &app, "peer-lib").ok();
    assert_eq!(exported(&machine, &app, "peer-lib"), "peer-lib 3.0.0");
}
