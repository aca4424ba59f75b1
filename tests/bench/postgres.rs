//! A private PostgreSQL as the peer of queries: its own cluster in a temporary folder, with a socket
//! there, removed at the end.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where Debian's package `postgresql-15` has its programs; `POSTGRES_BIN` names another folder.
const PROGRAMS: &str = "/usr/lib/postgresql/15/bin";

pub struct Postgres {
    folder: tempfile::TempDir,
}

impl Postgres {
    pub fn start() -> Self {
        let folder = tempfile::Builder::new().prefix("pg").tempdir_in("/tmp").expect("a temporary folder");
        if is_root() {
            // It refuses to run as root.
            let status = Command::new("chown").arg("postgres").arg(folder.path()).status();
            assert!(status.is_ok_and(|status| status.success()), "the user `postgres` is missing");
        }
        let postgres = Postgres { folder };
        let data = postgres.data();
        postgres.run(
            "initdb",
            &["-D", &data, "-U", "postgres", "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8"],
        );
        let options = format!(
            "-k {} -c listen_addresses='' -c shared_buffers=1GB -c max_parallel_workers_per_gather=0",
            postgres.socket()
        );
        postgres.run("pg_ctl", &["-D", &data, "-o", &options, "-l", &format!("{data}.log"), "-w", "start"]);
        postgres
    }

    /// Runs SQL (also `\copy` and the like) and returns what it printed.
    pub fn sql(&self, text: &str) -> String {
        let mut command = program("psql");
        command.args(["-h", &self.socket(), "-U", "postgres", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]);
        let mut psql = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("psql runs");
        psql.stdin.take().expect("piped").write_all(text.as_bytes()).expect("psql reads");
        let output = psql.wait_with_output().expect("psql ends");
        assert!(output.status.success(), "psql failed");
        String::from_utf8(output.stdout).expect("text")
    }

    /// Milliseconds of each query, one after the other on one connection, as the client sees them.
    pub fn times(&self, queries: &[String]) -> Vec<f64> {
        let script = format!("\\o /dev/null\n\\timing on\n{}", queries.join("\n"));
        let printed = self.sql(&script);
        let times = printed.lines().filter_map(|line| line.strip_prefix("Time: ")?.split(' ').next()?.parse().ok());
        times.collect()
    }

    fn socket(&self) -> String {
        self.folder.path().display().to_string()
    }

    fn data(&self) -> String {
        self.folder.path().join("data").display().to_string()
    }

    fn run(&self, name: &str, arguments: &[&str]) {
        let status = program(name).args(arguments).stdout(Stdio::null()).status().expect("it runs");
        assert!(status.success(), "{name} failed");
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        let _ = program("pg_ctl").args(["-D", &self.data(), "-m", "immediate", "stop"]).stdout(Stdio::null()).status();
    }
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().expect("id runs");
    id.stdout.trim_ascii() == b"0"
}

/// A program of the package; run as the user `postgres` if this process is root's.
fn program(name: &str) -> Command {
    let folder = std::env::var_os("POSTGRES_BIN").map_or(PathBuf::from(PROGRAMS), PathBuf::from);
    let path = folder.join(name);
    assert!(
        path.exists(),
        "{} is missing; install postgresql-15, or name its programs' folder in POSTGRES_BIN",
        path.display()
    );
    let mut command = match is_root() {
        true => {
            let mut command = Command::new("runuser");
            command.args(["-u", "postgres", "--"]).arg(path);
            command
        }
        false => Command::new(path),
    };
    command.current_dir(Path::new("/tmp"));
    command
}
