//! bun.

use super::*;

pub struct Bun;

impl Client for Bun {
    fn run(&self, machine: &Machine, folder: &Path, arguments: &[&str]) -> ProgramOutput {
        machine.run(folder, &program("bun/bin/bun.exe"), arguments)
    }

    fn run_cold(&self, machine: &Machine, folder: &Path, arguments: &[&str]) -> ProgramOutput {
        let cache = machine.empty("bun-cache").display().to_string();
        self.run(machine, folder, &[arguments, &["--cache-dir", &cache]].concat())
    }

    /// bun has no command for tags; npm's is used, as bun's documents advise.
    fn tag(&self, machine: &Machine, spec: &str, tag: &str) -> ProgramOutput {
        Npm::OnPath.tag(machine, spec, tag)
    }
}

tests_of! {
    bun_publishes_and_installs: workflow::run(&Bun);
}
