//! A private PostgreSQL: its own cluster in a temporary folder, removed at the end.

use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Where Debian's package `postgresql` has its programs; `POSTGRES_BIN` names another folder.
const PROGRAMS: &str = "/usr/lib/postgresql/15/bin";

/// The user that owns everything in the cluster.
const USER: &str = "postgres";

/// Settings of a server for queries that are compared with others'.
pub const FOR_QUERIES: &[&str] = &["shared_buffers=1GB", "max_parallel_workers_per_gather=0"];

/// Whether the tests that need PostgreSQL run. `make test POSTGRES=no` leaves them out; otherwise a
/// missing server is a failure.
pub fn is_enabled() -> bool {
    std::env::var("HEXAD_POSTGRES").as_deref() != Ok("no")
}

/// A running server.
pub struct Postgres {
    folder: tempfile::TempDir,
    settings: Vec<String>,
    port: u16,
    process: Option<Child>,
}

impl Postgres {
    /// A new cluster with these settings (`name=value`). It listens on its socket and on a free port.
    pub fn start(settings: &[&str]) -> Self {
        let mut postgres = Self::new(settings.iter().map(|setting| (*setting).to_owned()).collect());
        let data = postgres.data();
        let options = ["-D", &data, "-U", USER, "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8"];
        let status = program("initdb").args(options).stdout(Stdio::null()).status().expect("it runs");
        assert!(status.success(), "initdb failed");
        postgres.resume();
        postgres
    }

    /// A server without data.
    fn new(settings: Vec<String>) -> Self {
        let folder = tempfile::Builder::new().prefix("pg").tempdir_in("/tmp").expect("a temporary folder");
        if is_root() {
            // It refuses to run as root.
            let status = Command::new("chown").arg(USER).arg(folder.path()).status();
            assert!(status.is_ok_and(|status| status.success()), "the user `postgres` is missing");
        }
        let port = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port();
        Postgres { folder, settings, port, process: None }
    }

    /// A synchronous standby of this server, from now on.
    pub fn start_standby(&self) -> Self {
        let mut standby = Self::new(self.settings.clone());
        let (socket, port, data) = (self.socket(), self.port.to_string(), standby.data());
        let options = ["-h", &socket, "-p", &port, "-U", USER, "-D", &data, "-c", "fast", "--no-sync", "-R"];
        let status = program("pg_basebackup").args(options).status().expect("it runs");
        assert!(status.success(), "pg_basebackup failed");
        standby.resume();
        self.sql("alter system set synchronous_standby_names = '*';");
        self.sql("select pg_reload_conf();");
        self.wait_for_standby();
        standby
    }

    /// Waits until the standby has everything, and each commit waits for it.
    pub fn wait_for_standby(&self) {
        let count = "select count(*) from pg_stat_replication where sync_state = 'sync' and state = 'streaming';";
        while self.sql(count).trim() != "1" {
            std::thread::yield_now();
        }
    }

    /// Makes a standby the primary.
    pub fn promote(&self) {
        assert_eq!(self.sql("select pg_promote();").trim(), "t");
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Starts the server again, after [`kill`](Self::kill).
    pub fn resume(&mut self) {
        assert!(self.process.is_none(), "it runs");
        let mut command = program("postgres");
        command.args(["-D", &self.data(), "-k", &self.socket(), "-p", &self.port.to_string()]);
        command.args(["-c", "listen_addresses=127.0.0.1"]);
        for setting in &self.settings {
            command.args(["-c", setting]);
        }
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.folder.path().join("log"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log.expect("a log"));
        self.process = Some(command.spawn().expect("postgres runs"));
        let (socket, port) = (self.socket(), self.port.to_string());
        let is_ready = || {
            let mut command = program("pg_isready");
            command.args(["-q", "-h", &socket, "-p", &port]).status().expect("it runs").success()
        };
        while !is_ready() {
            assert!(self.process.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None))), "{}", self.log());
            std::thread::yield_now();
        }
    }

    /// Ends all processes of the server at once, as a power cut would.
    pub fn kill(&mut self) {
        self.signal_all("KILL");
        if let Some(mut process) = self.process.take() {
            let _ = process.wait();
        }
    }

    /// Sends a signal to the server and to all its processes, for example `STOP`.
    pub fn signal_all(&self, name: &str) {
        let text = std::fs::read_to_string(self.folder.path().join("data/postmaster.pid")).expect("its process id");
        let id = text.lines().next().expect("a line");
        if name != "CONT" {
            // So that it makes no process after they are listed.
            let _ = Command::new("kill").args(["-s", "STOP", id]).stderr(Stdio::null()).status();
        }
        let children = Command::new("pgrep").args(["-P", id]).output().expect("pgrep runs");
        let children = String::from_utf8(children.stdout).expect("text");
        let mut command = Command::new("kill");
        command.args(["-s", name, id]).args(children.split_whitespace());
        // A child may have ended meanwhile.
        let _ = command.stderr(Stdio::null()).status();
        // A program that changes the user stops when the server is stopped, and does not go on with it.
        if let Some(process) = self.process.as_ref().filter(|_| name != "STOP") {
            let _ = Command::new("kill").args(["-s", "CONT", &process.id().to_string()]).status();
        }
    }

    /// The URL of a database over TCP.
    pub fn url(&self, user: &str, database: &str) -> String {
        format!("postgres://{user}@127.0.0.1:{}/{database}", self.port)
    }

    /// The URL of a new, empty database with the user `postgres`.
    pub fn new_database(&self, name: &str) -> String {
        self.sql(&format!("create database {name} template template0;"));
        self.url(USER, name)
    }

    /// The SQL that makes the database again, on any server.
    pub fn dump(&self, database: &str) -> String {
        let mut command = program("pg_dump");
        command.args(["-h", &self.socket(), "-p", &self.port.to_string(), "-U", USER, database]);
        let output = command.output().expect("pg_dump runs");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }

    /// Runs SQL (also `\copy` and the like) in the database `postgres` and returns what it printed.
    pub fn sql(&self, text: &str) -> String {
        self.sql_in(USER, text)
    }

    /// The same in another database.
    pub fn sql_in(&self, database: &str, text: &str) -> String {
        self.run_sql(database, text).expect("psql succeeds")
    }

    /// The same; `None` if it failed.
    pub fn try_sql_in(&self, database: &str, text: &str) -> Option<String> {
        self.run_sql(database, text)
    }

    fn run_sql(&self, database: &str, text: &str) -> Option<String> {
        let mut command = program("psql");
        command.args(["-h", &self.socket(), "-p", &self.port.to_string(), "-U", USER, "-d", database]);
        command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]);
        let mut psql = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("psql runs");
        psql.stdin.take().expect("piped").write_all(text.as_bytes()).expect("psql reads");
        let output = psql.wait_with_output().expect("psql ends");
        output.status.success().then(|| String::from_utf8(output.stdout).expect("text"))
    }

    /// Milliseconds of each query, one after the other on one connection, as the client sees them.
    pub fn times(&self, queries: &[String]) -> Vec<f64> {
        let script = format!("\\o /dev/null\n\\timing on\n{}", queries.join("\n"));
        let printed = self.sql(&script);
        let times = printed.lines().filter_map(|line| line.strip_prefix("Time: ")?.split(' ').next()?.parse().ok());
        times.collect()
    }

    /// Replaces the rules of who may connect how (`pg_hba.conf`).
    pub fn set_rules(&self, rules: &str) {
        std::fs::write(self.folder.path().join("data/pg_hba.conf"), rules).expect("the file is written");
        self.sql("select pg_reload_conf();");
    }

    /// Writes a file into the data folder that only the server's user can read.
    pub fn write_secret(&self, name: &str, content: &str) {
        let path = self.folder.path().join("data").join(name);
        let script = format!("umask 077; cat > '{}'", path.display());
        let mut shell = as_server(Path::new("sh"));
        let mut shell = shell.args(["-c", &script]).stdin(Stdio::piped()).spawn().expect("sh runs");
        shell.stdin.take().expect("piped").write_all(content.as_bytes()).expect("sh reads");
        assert!(shell.wait().expect("sh ends").success(), "{}", path.display());
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// The folder of the cluster, for files beside it.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn socket(&self) -> String {
        self.folder.path().display().to_string()
    }

    fn data(&self) -> String {
        self.folder.path().join("data").display().to_string()
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if self.process.is_some() {
            self.signal_all("CONT");
            self.kill();
        }
    }
}

fn is_root() -> bool {
    let id = Command::new("id").arg("-u").output().expect("id runs");
    id.stdout.trim_ascii() == b"0"
}

/// A program of the package, run as the user `postgres` if this process is root's.
fn program(name: &str) -> Command {
    let folder = std::env::var_os("POSTGRES_BIN").map_or(PathBuf::from(PROGRAMS), PathBuf::from);
    let path = folder.join(name);
    assert!(
        path.exists(),
        "{} is missing; install Debian's package postgresql-15, or name its programs' folder in POSTGRES_BIN; \
         `make test POSTGRES=no` tests without it",
        path.display()
    );
    as_server(&path)
}

/// A program, run as the user of the server.
fn as_server(path: &Path) -> Command {
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
