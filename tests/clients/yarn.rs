//! yarn: classic and berry.

use super::*;

pub struct Classic;

impl Client for Classic {
    fn run(&self, machine: &Machine, folder: &Path, arguments: &[&str]) -> ProgramOutput {
        let script = program("yarn/bin/yarn.js");
        machine.run(folder, "node", &[&[&*script, "--non-interactive"], arguments].concat())
    }

    fn run_cold(&self, machine: &Machine, folder: &Path, arguments: &[&str]) -> ProgramOutput {
        let cache = machine.empty("yarn-cache").display().to_string();
        self.run(machine, folder, &[arguments, &["--cache-folder", &cache]].concat())
    }

    /// Without this, classic sends no token for unscoped names.
    fn configuration(&self) -> &str {
        "always-auth=true\n"
    }

    fn sign_in(&self, machine: &Machine, registry: &str, token: &str) {
        machine.write_npmrc(registry, token, self.configuration());
        machine.write("home/.yarnrc", &format!("registry \"{registry}\"\nversion-git-tag false\n"));
    }

    fn sign_in_for(&self, machine: &Machine, scope: &str, registry: &str, token: &str) {
        machine.write_scoped_npmrc(scope, registry, token, self.configuration());
        machine.write("home/.yarnrc", "version-git-tag false\n");
    }

    fn tag(&self, machine: &Machine, spec: &str, tag: &str) -> ProgramOutput {
        self.run(machine, &machine.folder("here"), &["tag", "add", spec, tag])
    }
}

pub struct Berry;

impl Berry {
    /// Berry works only in projects. A folder is a project once it has its own lock file.
    fn settle(&self, machine: &Machine, folder: &Path) {
        std::fs::write(folder.join("yarn.lock"), "").expect("a file");
        self.run(machine, folder, &["install", "--no-immutable"]).ok();
    }

    fn configure(&self, machine: &Machine, registries: &str) {
        machine.write(
            "home/.yarnrc.yml",
            &format!(
                "{registries}unsafeHttpWhitelist: [\"127.0.0.1\"]\nnpmMinimalAgeGate: 0\nnodeLinker: node-modules\n\
                 enableTelemetry: false\nenableGlobalCache: true\n"
            ),
        );
    }
}

impl Client for Berry {
    fn run(&self, machine: &Machine, folder: &Path, arguments: &[&str]) -> ProgramOutput {
        let script = program("@yarnpkg/cli-dist/bin/yarn.js");
        machine.run(folder, "node", &[&[&*script], arguments].concat())
    }

    fn run_cold(&self, machine: &Machine, folder: &Path, arguments: &[&str]) -> ProgramOutput {
        machine.empty("home/.yarn");
        self.run(machine, folder, arguments)
    }

    fn sign_in(&self, machine: &Machine, registry: &str, token: &str) {
        let registries = format!("npmRegistryServer: \"{registry}\"\nnpmAuthToken: \"{token}\"\nnpmAlwaysAuth: true\n");
        self.configure(machine, &registries);
    }

    fn sign_in_for(&self, machine: &Machine, scope: &str, registry: &str, token: &str) {
        let scope = scope.trim_start_matches('@');
        let registries = format!(
            "npmRegistryServer: \"{CLOSED_PORT}\"\nnpmScopes:\n  {scope}:\n    npmRegistryServer: \"{registry}\"\n    \
             npmPublishRegistry: \"{registry}\"\n    npmMinimalAgeGate: 0\n    npmAuthToken: \"{token}\"\n    \
             npmAlwaysAuth: true\n"
        );
        self.configure(machine, &registries);
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
        self.run_cold(machine, folder, &["add", spec])
    }

    fn install_locked(&self, machine: &Machine, folder: &Path) -> ProgramOutput {
        self.run_cold(machine, folder, &["install", "--immutable"])
    }

    fn tag(&self, machine: &Machine, spec: &str, tag: &str) -> ProgramOutput {
        self.run(machine, &machine.folder("here"), &["npm", "tag", "add", spec, tag])
    }
}

tests_of! {
    yarn_classic_publishes_and_installs: workflow::run(&Classic);
    yarn_berry_publishes_and_installs: workflow::run(&Berry);
}
