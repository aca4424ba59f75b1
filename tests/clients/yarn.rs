//! yarn: classic and berry.

use super::workflow::{self, Client};
use super::{CLOSED_PORT, Machine, ProgramOutput, program};
use std::path::Path;

pub struct Classic;

impl Classic {
    fn run(&self, machine: &Machine, folder: &Path, arguments: &[&str]) -> ProgramOutput {
        let script = program("yarn/bin/yarn.js");
        let mut all = vec![script.as_str(), "--non-interactive"];
        all.extend(arguments);
        machine.run(folder, "node", &all)
    }

    fn cold(&self, machine: &Machine, folder: &Path, arguments: &[&str]) -> ProgramOutput {
        let cache = machine.empty("yarn-cache").display().to_string();
        let mut all = arguments.to_vec();
        all.extend(["--cache-folder", &cache]);
        self.run(machine, folder, &all)
    }
}

impl Client for Classic {
    fn sign_in(&self, machine: &Machine, registry: &str, token: &str) {
        // Without this, classic sends no token for unscoped names.
        machine.write_npmrc(registry, token, "always-auth=true\n");
        machine.write("home/.yarnrc", &format!("registry \"{registry}\"\nversion-git-tag false\n"));
    }

    fn sign_in_for(&self, machine: &Machine, scope: &str, registry: &str, token: &str) {
        machine.write_scoped_npmrc(scope, registry, token, "always-auth=true\n");
        machine.write("home/.yarnrc", "version-git-tag false\n");
    }

    fn publish(&self, machine: &Machine, folder: &Path) -> ProgramOutput {
        self.run(machine, folder, &["publish"])
    }

    fn versions(&self, machine: &Machine, name: &str) -> ProgramOutput {
        self.run(machine, &machine.folder("here"), &["info", name, "versions", "--json"])
    }

    fn add(&self, machine: &Machine, folder: &Path, spec: &str) -> ProgramOutput {
        self.cold(machine, folder, &["add", spec])
    }

    fn install_locked(&self, machine: &Machine, folder: &Path) -> ProgramOutput {
        self.cold(machine, folder, &["install", "--frozen-lockfile"])
    }

    fn tag(&self, machine: &Machine, spec: &str, tag: &str) -> ProgramOutput {
        self.run(machine, &machine.folder("here"), &["tag", "add", spec, tag])
    }
}

pub struct Berry;

impl Berry {
    pub fn run(&self, machine: &Machine, folder: &Path, arguments: &[&str]) -> ProgramOutput {
        let script = program("@yarnpkg/cli-dist/bin/yarn.js");
        let mut all = vec![script.as_str()];
        all.extend(arguments);
        machine.run(folder, "node", &all)
    }

    /// Berry works only in projects. A folder is a project once it has its own lock file.
    fn settle(&self, machine: &Machine, folder: &Path) {
        std::fs::write(folder.join("yarn.lock"), "").expect("a file");
        self.run(machine, folder, &["install", "--no-immutable"]).ok();
    }
}

impl Client for Berry {
    fn sign_in(&self, machine: &Machine, registry: &str, token: &str) {
        machine.write(
            "home/.yarnrc.yml",
            &format!(
                "npmRegistryServer: \"{registry}\"\nnpmAuthToken: \"{token}\"\nnpmAlwaysAuth: true\n\
                 unsafeHttpWhitelist: [\"127.0.0.1\"]\nnpmMinimalAgeGate: 0\nnodeLinker: node-modules\n\
                 enableTelemetry: false\nenableGlobalCache: true\n"
            ),
        );
    }

    fn sign_in_for(&self, machine: &Machine, scope: &str, registry: &str, token: &str) {
        let scope = scope.trim_start_matches('@');
        machine.write(
            "home/.yarnrc.yml",
            &format!(
                "npmRegistryServer: \"{CLOSED_PORT}\"\nnpmScopes:\n  {scope}:\n    npmRegistryServer: \"{registry}\"\n    npmPublishRegistry: \"{registry}\"\n    npmMinimalAgeGate: 0\n    \
                 npmAuthToken: \"{token}\"\n    npmAlwaysAuth: true\n\
                 unsafeHttpWhitelist: [\"127.0.0.1\"]\nnpmMinimalAgeGate: 0\nnodeLinker: node-modules\n\
                 enableTelemetry: false\nenableGlobalCache: true\n"
            ),
        );
    }

    fn publish(&self, machine: &Machine, folder: &Path) -> ProgramOutput {
        self.settle(machine, folder);
        self.run(machine, folder, &["npm", "publish"])
    }

    fn versions(&self, machine: &Machine, name: &str) -> ProgramOutput {
        let here = machine.folder("here");
        machine.write("here/package.json", r#"{"name":"here","private":true}"#);
        self.settle(machine, &here);
        self.run(machine, &here, &["npm", "info", name, "--fields", "versions", "--json"])
    }

    fn add(&self, machine: &Machine, folder: &Path, spec: &str) -> ProgramOutput {
        if !folder.join("yarn.lock").exists() {
            self.settle(machine, folder);
        }
        machine.empty("home/.yarn");
        self.run(machine, folder, &["add", spec])
    }

    fn install_locked(&self, machine: &Machine, folder: &Path) -> ProgramOutput {
        machine.empty("home/.yarn");
        self.run(machine, folder, &["install", "--immutable"])
    }

    fn tag(&self, machine: &Machine, spec: &str, tag: &str) -> ProgramOutput {
        self.run(machine, &machine.folder("here"), &["npm", "tag", "add", spec, tag])
    }
}

#[test]
fn yarn_classic_publishes_and_installs() {
    workflow::run(&Classic);
}

#[test]
fn yarn_berry_publishes_and_installs() {
    workflow::run(&Berry);
}
