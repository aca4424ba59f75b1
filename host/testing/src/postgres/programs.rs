//! Programs of PostgreSQL and of the machine, as the server's user.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::USER;

/// Where Debian's package `postgresql` has its programs; `POSTGRES_BIN` names another folder.
const PROGRAMS: &str = "/usr/lib/postgresql/15/bin";

/// Mounts a file system in memory on a folder. False if this user may not.
pub fn mount(megabytes: u32, folder: &Path) -> bool {
    let mut command = Command::new("mount");
    command.args(["-t", "tmpfs", "-o", &format!("size={megabytes}m,mode=700"), "tmpfs"]).arg(folder);
    command.stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// The library of Debian's package `faketime`.
pub fn clock_library() -> Option<PathBuf> {
    let folders = std::fs::read_dir("/usr/lib").ok()?.flatten();
    folders.map(|folder| folder.path().join("faketime/libfaketime.so.1")).find(|path| path.is_file())
}

/// The ids of a process's children, with white space between.
pub fn children_of(process: &str) -> String {
    let children = Command::new("pgrep").args(["-P", process]).output().expect("pgrep runs");
    String::from_utf8(children.stdout).expect("text")
}

/// The state of a process in one letter: `T` stopped, `Z` ended. `None` once it is gone.
pub fn state_of(process: &str) -> Option<char> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    stat.rsplit_once(") ")?.1.chars().next()
}

pub fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().expect("id runs");
    id.stdout.trim_ascii() == b"0"
}

/// A program of the package, run as the user `postgres` if this process is root's.
pub fn program(name: &str) -> Command {
    as_server(&path_of(name))
}

/// Where such a program is.
pub fn path_of(name: &str) -> PathBuf {
    let folder = std::env::var_os("POSTGRES_BIN").map_or(PathBuf::from(PROGRAMS), PathBuf::from);
    let path = folder.join(name);
    assert!(
        path.exists(),
        "{} is missing; install Debian's package postgresql-15, or name its programs' folder in POSTGRES_BIN; \
         `make test POSTGRES=no` tests without it",
        path.display()
    );
    path
}

/// A program, run as the user of the server.
pub fn as_server(path: &Path) -> Command {
    let mut command = match is_root() {
        true => {
            let mut command = Command::new("runuser");
            command.args(["-u", USER, "--"]).arg(path);
            command
        }
        false => Command::new(path),
    };
    command.current_dir(Path::new("/tmp"));
    command
}
