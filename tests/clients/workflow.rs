//! The workflow of every client: publish, list versions, install, tag, install from the lock file, and report the
//! reason of a refusal.

use super::*;

/// The commands that every client has. The commands with a body here are those of npm, or of most clients.
pub trait Client {
    /// Runs the client in `folder`.
    fn run(&self, machine: &Machine, folder: &Path, arguments: &[&str]) -> ProgramOutput;

    /// The same without any cache.
    fn run_cold(&self, machine: &Machine, folder: &Path, arguments: &[&str]) -> ProgramOutput;

    /// More lines for `.npmrc`.
    fn configuration(&self) -> &str {
        ""
    }

    /// Writes the client's own configuration: the registry and a token for it.
    fn sign_in(&self, machine: &Machine, registry: &str, token: &str) {
        machine.write_npmrc(registry, token, self.configuration());
    }

    /// The same for packages of one scope. No other registry is configured.
    fn sign_in_for(&self, machine: &Machine, scope: &str, registry: &str, token: &str) {
        machine.write_scoped_npmrc(scope, registry, token, self.configuration());
    }

    /// Publishes the package in `folder`.
    fn publish(&self, machine: &Machine, folder: &Path) -> ProgramOutput {
        self.run(machine, folder, &["publish"])
    }

    /// Prints every version of a package.
    fn versions(&self, machine: &Machine, name: &str) -> ProgramOutput {
        self.run(machine, &machine.folder("here"), &["info", name, "versions", "--json"])
    }

    /// Adds a dependency to the application in `folder`, without any cache.
    fn add(&self, machine: &Machine, folder: &Path, spec: &str) -> ProgramOutput {
        self.run_cold(machine, folder, &["add", spec])
    }

    /// Installs exactly the versions of the lock file in `folder`, without any cache.
    fn install_locked(&self, machine: &Machine, folder: &Path) -> ProgramOutput {
        self.run_cold(machine, folder, &["install", "--frozen-lockfile"])
    }

    /// Points a tag at a version.
    fn tag(&self, machine: &Machine, spec: &str, tag: &str) -> ProgramOutput {
        self.run(machine, &machine.folder("here"), &["dist-tag", "add", spec, tag])
    }
}

/// Writes a package whose module exports its name and version.
pub fn package(machine: &Machine, name: &str, version: &str, extra: &str) -> std::path::PathBuf {
    let folder = format!("src/{name}-{version}");
    machine.write(
        &format!("{folder}/package.json"),
        &format!(r#"{{"name":"{name}","version":"{version}","main":"index.js"{extra}}}"#),
    );
    machine.write(&format!("{folder}/index.js"), &format!("module.exports = '{name} {version}'\n"));
    machine.write(&format!("{folder}/README.md"), &format!("# {name}\n"));
    machine.folder(&folder)
}

/// The exports of the module `name` in the application in `folder`.
pub fn exported(machine: &Machine, folder: &Path, name: &str) -> String {
    let script = format!("console.log(require('{name}'))");
    machine.run(folder, "node", &["-e", &script]).ok().trim().to_owned()
}

/// A new application without dependencies.
pub fn application(machine: &Machine, name: &str) -> std::path::PathBuf {
    machine.write(&format!("{name}/package.json"), &format!(r#"{{"name":"{name}","private":true}}"#));
    machine.folder(name)
}

/// Runs the workflow in a private project with the token of a maintainer.
pub fn run(client: &dyn Client) {
    let Some(server) = server() else { return };
    let registry = format!("{}/api/v4/projects/{PRIVATE}/packages/npm/", server.url);
    let machine = Machine::new();
    client.sign_in(&machine, &registry, MAINTAINER);

    for name in ["plain", "@acme/lib"] {
        for version in ["1.0.0", "1.1.0"] {
            client.publish(&machine, &package(&machine, name, version, "")).ok();
        }
        let versions = client.versions(&machine, name).ok();
        assert!(versions.contains("1.0.0") && versions.contains("1.1.0"), "{versions}");

        let app = application(&machine, &format!("app-{}", name.replace(['@', '/'], "")));
        client.add(&machine, &app, name).ok();
        assert_eq!(exported(&machine, &app, name), format!("{name} 1.1.0"));

        client.tag(&machine, &format!("{name}@1.0.0"), "stable").ok();
        client.add(&machine, &app, &format!("{name}@stable")).ok();
        assert_eq!(exported(&machine, &app, name), format!("{name} 1.0.0"));

        std::fs::remove_dir_all(app.join("node_modules")).expect("installed before");
        client.install_locked(&machine, &app).ok();
        assert_eq!(exported(&machine, &app, name), format!("{name} 1.0.0"));

        let changed = package(&machine, name, "1.1.0", r#","description":"changed""#);
        let printed = client.publish(&machine, &changed);
        let text = format!("{}{}", printed.stdout, printed.stderr);
        assert!(!printed.success && text.contains("Package already exists."), "{text}");
    }

    client.sign_in(&machine, &registry, "glpat-unknown-token-00000000001");
    let refused = client.publish(&machine, &package(&machine, "@acme/closed", "1.0.0", ""));
    assert!(!refused.success, "published with an unknown token");
}
