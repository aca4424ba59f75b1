//! pnpm.

use super::*;

pub struct Pnpm;

impl Client for Pnpm {
    fn run(&self, machine: &Machine, folder: &Path, arguments: &[&str]) -> ProgramOutput {
        machine.run(folder, &program("pnpm/pnpm"), arguments)
    }

    /// By default, pnpm does not install packages that are only seconds old.
    fn run_cold(&self, machine: &Machine, folder: &Path, arguments: &[&str]) -> ProgramOutput {
        let store = format!("--store-dir={}", machine.empty("pnpm-store").display());
        let cache = format!("--config.cache-dir={}", machine.empty("pnpm-cache").display());
        self.run(machine, folder, &[arguments, &[&store, &cache, "--config.minimum-release-age=0"]].concat())
    }

    fn publish(&self, machine: &Machine, folder: &Path) -> ProgramOutput {
        self.run(machine, folder, &["publish", "--no-git-checks"])
    }

    fn versions(&self, machine: &Machine, name: &str) -> ProgramOutput {
        self.run(machine, &machine.folder("here"), &["view", name, "versions", "--json"])
    }
}

tests_of! {
    pnpm_publishes_and_installs: workflow::run(&Pnpm);
}
