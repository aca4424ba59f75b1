//! pnpm.

use super::workflow::{self, Client};
use super::{Machine, ProgramOutput, program};
use std::path::Path;

pub struct Pnpm;

impl Pnpm {
    pub fn run(&self, machine: &Machine, folder: &Path, arguments: &[&str]) -> ProgramOutput {
        let pnpm = program("pnpm/pnpm");
        machine.run(folder, &pnpm, arguments)
    }

    /// By default, pnpm does not install packages that are only seconds old.
    fn cold(&self, machine: &Machine, folder: &Path, arguments: &[&str]) -> ProgramOutput {
        let store = format!("--store-dir={}", machine.empty("pnpm-store").display());
        let cache = format!("--config.cache-dir={}", machine.empty("pnpm-cache").display());
        let mut all = arguments.to_vec();
        all.extend([store.as_str(), cache.as_str(), "--config.minimum-release-age=0"]);
        self.run(machine, folder, &all)
    }
}

impl Client for Pnpm {
    fn sign_in(&self, machine: &Machine, registry: &str, token: &str) {
        machine.write_npmrc(registry, token, "");
    }

    fn sign_in_for(&self, machine: &Machine, scope: &str, registry: &str, token: &str) {
        machine.write_scoped_npmrc(scope, registry, token, "");
    }

    fn publish(&self, machine: &Machine, folder: &Path) -> ProgramOutput {
        self.run(machine, folder, &["publish", "--no-git-checks"])
    }

    fn versions(&self, machine: &Machine, name: &str) -> ProgramOutput {
        self.run(machine, &machine.folder("here"), &["view", name, "versions", "--json"])
    }

    fn add(&self, machine: &Machine, folder: &Path, spec: &str) -> ProgramOutput {
        self.cold(machine, folder, &["add", spec])
    }

    fn install_locked(&self, machine: &Machine, folder: &Path) -> ProgramOutput {
        self.cold(machine, folder, &["install", "--frozen-lockfile"])
    }

    fn tag(&self, machine: &Machine, spec: &str, tag: &str) -> ProgramOutput {
        self.run(machine, &machine.folder("here"), &["dist-tag", "add", spec, tag])
    }
}

#[test]
fn pnpm_publishes_and_installs() {
    workflow::run(&Pnpm);
}
