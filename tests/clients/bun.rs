//! bun.

use super::workflow::{self, Client};
use super::{Machine, ProgramOutput, program};
use std::path::Path;

pub struct Bun;

impl Bun {
    pub fn run(&self, machine: &Machine, folder: &Path, arguments: &[&str]) -> ProgramOutput {
        machine.run(folder, &program("bun/bin/bun.exe"), arguments)
    }

    fn cold(&self, machine: &Machine, folder: &Path, arguments: &[&str]) -> ProgramOutput {
        let cache = machine.empty("bun-cache").display().to_string();
        let mut all = arguments.to_vec();
        all.extend(["--cache-dir", &cache]);
        self.run(machine, folder, &all)
    }
}

impl Client for Bun {
    fn sign_in(&self, machine: &Machine, registry: &str, token: &str) {
        machine.write_npmrc(registry, token, "");
    }

    fn sign_in_for(&self, machine: &Machine, scope: &str, registry: &str, token: &str) {
        machine.write_scoped_npmrc(scope, registry, token, "");
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

    /// bun has no command for tags; npm's is used, as bun's documents advise.
    fn tag(&self, machine: &Machine, spec: &str, tag: &str) -> ProgramOutput {
        machine.run(&machine.folder("here"), "npm", &["dist-tag", "add", spec, tag])
    }
}

#[test]
fn bun_publishes_and_installs() {
    workflow::run(&Bun);
}
