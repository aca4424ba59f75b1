//! pnpm.

use super::journey::{self, Client};
use super::{Machine, Printed, program};
use std::path::Path;

pub struct Pnpm;

impl Pnpm {
    fn run(&self, machine: &Machine, folder: &Path, arguments: &[&str]) -> Printed {
        let pnpm = program("pnpm/pnpm");
        machine.run(folder, &pnpm, arguments)
    }

    /// Packages that are seconds old are what this ring is about; pnpm would hold them back.
    fn cold(&self, machine: &Machine, folder: &Path, arguments: &[&str]) -> Printed {
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

    fn publish(&self, machine: &Machine, folder: &Path) -> Printed {
        self.run(machine, folder, &["publish", "--no-git-checks"])
    }

    fn versions(&self, machine: &Machine, name: &str) -> Printed {
        self.run(machine, &machine.folder("here"), &["view", name, "versions", "--json"])
    }

    fn add(&self, machine: &Machine, folder: &Path, spec: &str) -> Printed {
        self.cold(machine, folder, &["add", spec])
    }

    fn install_locked(&self, machine: &Machine, folder: &Path) -> Printed {
        self.cold(machine, folder, &["install", "--frozen-lockfile"])
    }

    fn tag(&self, machine: &Machine, spec: &str, tag: &str) -> Printed {
        self.run(machine, &machine.folder("here"), &["dist-tag", "add", spec, tag])
    }
}

#[test]
fn pnpm_makes_the_journey() {
    journey::make(&Pnpm);
}
