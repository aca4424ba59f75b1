//! Real clients, each in a home folder of its own, against a server of its own.

/// Tests that differ in the client only.
macro_rules! tests_of {
    ($($name:ident: $test:expr;)+) => { $(#[test] fn $name() { $test; })+ };
}

mod archives;
mod audit;
mod bun;
mod challenges;
mod engine;
mod forward;
mod git;
mod git_libraries;
mod http_tools;
mod names;
mod namespaces;
mod npm;
mod npm_account;
mod packages;
mod peer;
mod pnpm;
mod provenance;
mod review;
mod scoped;
mod spin_python;
mod workflow;
mod yarn;

use self::npm::Npm;
use self::pnpm::Pnpm;
use self::workflow::{Client, application, exported, package};
use hexad_tests::forge;
use hexad_tests::forge::{DEVELOPER, MAINTAINER, PRIVATE, PUBLIC};
use hexad_tests::server::root;
use hexad_tests::server::{Server, output};
use serde_json::{Value, json};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// An address on which no server listens.
const CLOSED_PORT: &str = "http://127.0.0.1:9/";

/// Whether these tests run. `make test CLIENTS=no` leaves them out; otherwise a missing client is a
/// failure.
pub fn are_enabled() -> bool {
    std::env::var("HEXAD_CLIENTS").as_deref() != Ok("no")
}

/// Where `make clients` has put the clients of a kind: `clients` from npm, `python`.
pub fn installed(kind: &str) -> PathBuf {
    let folder = hexad_tests::server::root().join("tests/cache").join(kind);
    assert!(folder.join("installed").exists(), "{} is missing; `make clients` installs it", folder.display());
    folder
}

/// A client program that `make clients` has put into `tests/cache`.
pub fn program(path: &str) -> String {
    let program = hexad_tests::server::root().join("tests/cache/clients/node_modules").join(path);
    assert!(program.exists(), "{} is missing; `make clients` installs it", program.display());
    program.display().to_string()
}

/// A server with the users and projects of [`forge`], or none if these tests do not run.
fn server() -> Option<Server> {
    are_enabled().then(|| forge::server(&[]))
}

/// Runs a script of this folder with the libraries of a kind in `folder`, and reads the JSON that it prints.
#[track_caller]
fn report(machine: &Machine, folder: &Path, program: &str, script: &str, libraries: &str, more: &[&str]) -> Value {
    let script = root().join("tests/clients").join(script).display().to_string();
    let libraries = installed(libraries).display().to_string();
    let printed = machine.run(folder, program, &[&[&*script, &*libraries], more].concat()).ok();
    serde_json::from_str(&printed).unwrap_or_else(|why| panic!("{why}: {printed}"))
}

/// A user's machine: a home folder and work folders, removed at the end.
pub struct Machine {
    folder: tempfile::TempDir,
}

/// The output of a client program, and whether it succeeded.
pub struct ProgramOutput {
    pub success: bool,
    pub stdout: String,
    pub stderr: String,
}

impl Machine {
    pub fn new() -> Self {
        Machine { folder: tempfile::tempdir().expect("a temporary folder") }
    }

    /// A folder below the machine's root, made if it is not there.
    pub fn folder(&self, name: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::create_dir_all(&path).expect("a folder");
        path
    }

    /// Writes a file below the machine's root.
    pub fn write(&self, path: &str, text: &str) {
        let path = self.folder.path().join(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        std::fs::write(path, text).expect("a file");
    }

    /// The same, emptied, for a cold cache.
    pub fn empty(&self, name: &str) -> PathBuf {
        std::fs::remove_dir_all(self.folder(name)).expect("a folder of our own");
        self.folder(name)
    }

    /// Makes `registry` the default one, with a token, in the file that most clients read.
    pub fn write_npmrc(&self, registry: &str, token: &str, more: &str) {
        let host = registry.trim_start_matches("http:");
        self.write("home/.npmrc", &format!("registry={registry}\n{host}:_authToken={token}\n{more}"));
    }

    /// Makes `registry` the registry of one scope only, with a token. Any other request fails.
    pub fn write_scoped_npmrc(&self, scope: &str, registry: &str, token: &str, more: &str) {
        let host = registry.trim_start_matches("http:");
        self.write(
            "home/.npmrc",
            &format!("registry={CLOSED_PORT}\n{scope}:registry={registry}\n{host}:_authToken={token}\n{more}"),
        );
    }

    /// Runs a program in `folder`. It gets only the PATH of the test's environment.
    pub fn run<S: AsRef<OsStr>>(&self, folder: &Path, program: &str, arguments: &[S]) -> ProgramOutput {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(folder).env_clear();
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command.env("HOME", self.folder("home")).env("CI", "true");
        let Output { status, stdout, stderr } = output(&mut command);
        ProgramOutput {
            success: status.success(),
            stdout: String::from_utf8_lossy(&stdout).into_owned(),
            stderr: String::from_utf8_lossy(&stderr).into_owned(),
        }
    }
}

impl ProgramOutput {
    /// The standard output of a program that must have succeeded.
    #[track_caller]
    pub fn ok(self) -> String {
        assert!(self.success, "failed\n--- stdout\n{}\n--- stderr\n{}", self.stdout, self.stderr);
        self.stdout
    }

    /// The standard error of a program that must have failed.
    #[track_caller]
    pub fn refused(self) -> String {
        assert!(!self.success, "succeeded\n--- stdout\n{}\n--- stderr\n{}", self.stdout, self.stderr);
        self.stderr
    }
}
