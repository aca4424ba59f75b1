//! Another registry behind this one. Clients know only this registry, and install packages of the other one through it.

use super::yarn::{Berry, Classic};
use super::*;

/// Installs a package of the other registry and one of this registry that depends on it, at instance level.
fn installs_through(client: &dyn Client) {
    let Some(there) = server() else { return };
    let machine = Machine::new();
    let registry = format!("{}/api/v4/projects/{PUBLIC}/packages/npm/", there.url);
    client.sign_in(&machine, &registry, MAINTAINER);
    for name in ["public-lib", "@far/public-lib"] {
        client.publish(&machine, &package(&machine, name, "1.0.0", "")).ok();
        client.publish(&machine, &package(&machine, name, "1.1.0", "")).ok();
    }
    client.publish(&machine, &package(&machine, "@acme/stolen", "9.9.9", "")).ok();

    let here = forge::server(&[("registry_forward_url", &registry)]);
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

tests_of! {
    npm_installs_through_the_registry: installs_through(&Npm::OnPath);
    pnpm_installs_through_the_registry: installs_through(&Pnpm);
    yarn_classic_installs_through_the_registry: installs_through(&Classic);
    yarn_berry_installs_through_the_registry: installs_through(&Berry);
}

/// npm replaces a public registry in the addresses of tarballs by this one, so it asks this one for files.
#[test]
fn npm_fetches_tarballs_through_the_registry() {
    let Some(there) = server() else { return };
    let machine = Machine::new();
    let registry = format!("{}/api/v4/projects/{PUBLIC}/packages/npm", there.url);
    let npm = Npm::OnPath;
    npm.sign_in(&machine, &format!("{registry}/"), MAINTAINER);
    npm.publish(&machine, &package(&machine, "public-lib", "1.0.0", "")).ok();
    let here = forge::server(&[("registry_forward_url", &registry)]);
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

/// npm and pnpm ask for these beside metadata.
#[test]
fn access_owners_and_tags_are_those_of_the_other_registry() {
    let Some(there) = server() else { return };
    let machine = Machine::new();
    let registry = format!("{}/api/v4/projects/{PUBLIC}/packages/npm/", there.url);
    let npm = Npm::OnPath;
    npm.sign_in(&machine, &registry, MAINTAINER);
    for name in ["public-lib", "@far/public-lib", "@acme/stolen"] {
        npm.publish(&machine, &package(&machine, name, "1.0.0", "")).ok();
    }
    let here = forge::server(&[("registry_forward_url", &registry)]);
    let folder = machine.folder("here");
    let with_npm = |arguments: &[&str]| npm.run(&machine, &folder, arguments);
    let with_pnpm = |arguments: &[&str]| Pnpm.run(&machine, &folder, arguments);
    for level in ["groups/acme/-/packages/npm/", "packages/npm/"] {
        npm.sign_in(&machine, &format!("{}/api/v4/{level}", here.url), DEVELOPER);
        for name in ["public-lib", "@far/public-lib"] {
            assert_eq!(with_npm(&["view", name, "version"]).ok().trim(), "1.0.0", "{level}");
            assert_eq!(with_npm(&["dist-tag", "ls", name]).ok().trim(), "latest: 1.0.0", "{level}");
            assert_eq!(with_npm(&["owner", "ls", name]).ok().trim(), "mia <>", "{level}");
            let status = with_npm(&["access", "get", "status", name]).ok();
            assert_eq!(status.trim(), format!("{name}: public"), "{level}");
            assert_eq!(with_pnpm(&["owner", "ls", name]).ok().trim(), "mia", "{level}");
            let status = with_pnpm(&["access", "get", "status", name]).ok();
            assert_eq!(status.trim(), format!("package: {name}\naccess: public"), "{level}");
        }
        for command in [["access", "get", "status"].as_slice(), &["owner", "ls"]] {
            let arguments = [command, &["@acme/stolen"]].concat();
            assert!(with_npm(&arguments).refused().contains("E404"), "{level} {command:?}");
            with_pnpm(&arguments).refused();
        }
    }
    // A project has its own access already before it has the package, because npm asks before it publishes with
    // provenance.
    npm.sign_in(&machine, &format!("{}/api/v4/projects/{PRIVATE}/packages/npm/", here.url), DEVELOPER);
    assert_eq!(with_npm(&["access", "get", "status", "public-lib"]).ok().trim(), "public-lib: private");
    assert_eq!(with_npm(&["owner", "ls", "public-lib"]).ok().trim(), "mia <>");
}
