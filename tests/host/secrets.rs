//! Secrets in files, and out of core dumps.

use super::*;
use hexad_tests::server::up_in_shell;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;

fn write(folder: &Path, name: &str, text: &str) {
    let path = folder.join(name);
    fs::write(&path, text).expect("a file");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("a mode");
}

/// A server with these arguments, and the soft limit of its core dumps.
fn start(data: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> (Server, String) {
    let id = data.join("process");
    let line = format!("ulimit -S -c 1024; echo $$ > '{}'; exec \"$@\"", id.display());
    let mut command = up_in_shell(&line, Path::new("spin.toml"), data);
    command.args(arguments).envs(environment.iter().copied());
    let server = Server::spawn(command, data);
    let id = fs::read_to_string(id).expect("an id");
    let limits = fs::read_to_string(format!("/proc/{}/limits", id.trim())).expect("procfs");
    let cores = limits.lines().find_map(|line| line.strip_prefix("Max core file size")).expect("a limit");
    let soft = cores.split_whitespace().next().expect("a number").to_owned();
    (server, soft)
}

fn status(server: &Server, token: &str) -> u16 {
    server.get("application/settings", token).status
}

#[test]
fn variables_come_from_files_and_core_dumps_are_off() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), "bootstrap_admin_token", "token-of-a-file\n");
    let shown = folder.path().to_str().expect("UTF-8");
    let data = tempfile::tempdir().expect("a folder");
    let (server, cores) = start(data.path(), &["--secrets-from", shown], &[]);
    assert_eq!((status(&server, "token-of-a-file"), status(&server, "another")), (200, 401));
    assert_eq!(cores, "0");
    drop(server);
    let data = tempfile::tempdir().expect("a folder");
    let (server, cores) = start(data.path(), &["--core-dumps"], &[("CREDENTIALS_DIRECTORY", shown)]);
    assert_eq!(status(&server, "token-of-a-file"), 200);
    assert_ne!(cores, "0");
}

#[test]
fn a_secret_that_is_in_doubt_stops_the_start() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = tempfile::tempdir().expect("a folder");
    let paths = [folder.path(), data.path()].map(|path| path.to_str().expect("UTF-8"));
    let refused = |environment: &[(&str, &str)], why: &str| {
        let arguments = ["up", "--listen", "127.0.0.1:0", "--secrets-from", paths[0], "--data", paths[1]];
        let output = run(&arguments, environment);
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && error.contains(why), "{error}");
        assert!(!error.contains("very-secret"), "{error}");
    };
    write(folder.path(), "bootstrap_admin_token", "very-secret");
    refused(&[("SPIN_VARIABLE_BOOTSTRAP_ADMIN_TOKEN", "x")], "is in the environment and in");
    fs::set_permissions(folder.path().join("bootstrap_admin_token"), fs::Permissions::from_mode(0o644))
        .expect("a mode");
    refused(&[], "chmod 600");
    fs::remove_file(folder.path().join("bootstrap_admin_token")).expect("a file");
    write(folder.path(), "bootstrap_admin_tokn", "very-secret");
    refused(&[], "the manifest has no variable of this name");
}
