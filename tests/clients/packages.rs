//! The API clients of two languages list, read, protect and delete packages by their ids.

use super::npm::Npm;
use super::*;

/// Runs a script of this folder against a project with three versions.
fn run(program: &str, script: &str, libraries: &str) {
    let Some(server) = server() else { return };
    let machine = Machine::new();
    let registry = format!("{}/api/v4/projects/{PUBLIC}/packages/npm/", server.url);
    Npm::OnPath.sign_in(&machine, &registry, MAINTAINER);
    for version in ["1.0.0", "1.1.0", "1.2.0"] {
        Npm::OnPath.publish(&machine, &package(&machine, "@acme/lib", version, "")).ok();
    }
    let more = [server.url.as_str(), MAINTAINER];
    let seen = report(&machine, &machine.folder("work"), program, script, libraries, &more);
    let expected = json!({
        "versions": ["1.0.0", "1.1.0", "1.2.0"],
        "of_group": ["1.2.0", "1.1.0", "1.0.0"],
        "one": ["@acme/lib", "1.1.0", "npm", "default"],
        "files": ["lib-1.1.0.tgz"],
        "pipelines": [],
        "left": ["1.2.0"],
        "missing": 404,
        "rule": ["@acme/*", "owner"],
        "changed": "admin",
        "rules": 0,
    });
    for (name, value) in expected.as_object().expect("members") {
        assert_eq!(seen.get(name).unwrap_or(value), value, "{name}: {seen:#}");
    }
}

tests_of! {
    python_gitlab_packages: run("python3", "packages.py", "python");
    gitbeaker_packages: run("node", "packages.mjs", "clients");
}
