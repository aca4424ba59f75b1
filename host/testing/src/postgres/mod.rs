//! A private PostgreSQL: its own cluster in a temporary folder, removed at the end.

mod address;
mod programs;

use crate::wait::{self, SOON, wait_for_ok, wait_until};
use std::io::Write as _;
use std::net::TcpListener;
use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

pub use address::Address;
pub use programs::clock_library;
use programs::{as_server, children_of, is_root, mount, path_of, program, state_of};

/// The user that owns everything in the cluster.
const USER: &str = "postgres";

/// How long the queries of a benchmark may take together.
pub const QUERIES: Duration = Duration::from_secs(3600);

/// How long SQL of a test may take.
const STATEMENTS: Duration = Duration::from_secs(60);

/// Settings of a server whose queries are compared with hexad's.
pub const FOR_QUERIES: &[&str] = &["shared_buffers=1GB", "max_parallel_workers_per_gather=0"];

/// Whether the tests that need PostgreSQL run. `make test POSTGRES=no` leaves them out; otherwise a
/// missing server is a failure.
pub fn is_enabled() -> bool {
    std::env::var("HEXAD_POSTGRES").as_deref() != Ok("no")
}

/// The private resources of a server, as far as this machine and its user allow them.
#[derive(Clone, Copy, Default)]
pub struct Own {
    /// The size of a file system in memory, in megabytes, so that it can be filled.
    pub megabytes: Option<u32>,
    /// A clock that can be set, by Debian's package `faketime`.
    pub clock: bool,
}

/// A running server.
pub struct Postgres {
    folder: tempfile::TempDir,
    settings: Vec<String>,
    /// The private resources that were requested.
    own: Own,
    pub has_file_system: bool,
    /// The library that is loaded into the server's processes.
    clock: Option<PathBuf>,
    address: Address,
    process: Option<Child>,
}

/// A free port below the kernel's ephemeral ports, because the server takes it again after a restart.
fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    const PORTS: Range<u32> = 20_000..32_000;
    // Tests are processes with consecutive ids. Multiplying by a prime spreads their ports.
    let first = std::process::id().wrapping_mul(7919);
    let mut ports = (0..PORTS.len()).map(|_| {
        let number = first.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        u16::try_from(PORTS.start + number % (PORTS.end - PORTS.start)).expect("a port")
    });
    ports.find(|port| TcpListener::bind(("127.0.0.1", *port)).is_ok()).expect("a free port")
}

impl Postgres {
    /// A new cluster with these settings (`name=value`). It listens on its socket and on a free port.
    pub fn start(settings: &[&str]) -> Self {
        Self::start_with(settings, Own::default())
    }

    /// The same with private resources, as far as possible. `has_file_system` and [`has_clock`](Self::has_clock) say
    /// which ones it has.
    pub fn start_with(settings: &[&str], own: Own) -> Self {
        let mut postgres = Self::new(settings.iter().map(|setting| (*setting).to_owned()).collect(), own);
        let data = postgres.data();
        let options = ["-D", &data, "-U", USER, "-A", "trust", "--no-sync", "-E", "UTF8", "--locale=C.UTF-8"];
        let mut command = program("initdb");
        if own.megabytes.is_some() {
            // With small segments, the log soon needs another file.
            command.arg("--wal-segsize=1");
        }
        let mut initdb = command.args(options).stdout(Stdio::null()).spawn().expect("it runs");
        assert!(wait::exit(SOON, "the end of initdb", &mut initdb).success(), "initdb failed");
        postgres.resume();
        postgres
    }

    /// Starts such a server, which runs until this process ends in any way. Returns its address.
    pub fn until_exit(settings: &[&str]) -> Address {
        let postgres = Self::start(settings);
        let mut stop = program("pg_ctl");
        stop.args(["-D", &postgres.data(), "-m", "immediate", "stop"]);
        // The guard reads until its input is closed. Only this process has the other end.
        let script = "trap '' INT; folder=$1; shift; cat > /dev/null; \"$@\"; rm -rf \"$folder\"";
        let mut guard = Command::new("sh");
        guard.args(["-c", script, "sh"]).arg(postgres.folder()).arg(stop.get_program()).args(stop.get_args());
        guard.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).current_dir("/tmp");
        std::mem::forget(guard.spawn().expect("sh runs").stdin);
        let address = postgres.address.clone();
        // The guard ends it.
        std::mem::forget(postgres);
        address
    }

    /// A server without data.
    fn new(settings: Vec<String>, own: Own) -> Self {
        let folder = tempfile::Builder::new().prefix("pg").tempdir_in("/tmp").expect("a temporary folder");
        let has_file_system = own.megabytes.is_some_and(|megabytes| mount(megabytes, folder.path()));
        let clock = if own.clock { clock_library() } else { None };
        if is_root() {
            // PostgreSQL refuses to run as root.
            let status = Command::new("chown").arg(USER).arg(folder.path()).status();
            assert!(status.is_ok_and(|status| status.success()), "the user `postgres` is missing");
        }
        let address = Address { socket: folder.path().display().to_string(), port: free_port() };
        Postgres { folder, settings, own, has_file_system, clock, address, process: None }
    }

    /// Starts a synchronous standby of this server.
    pub fn start_standby(&self) -> Self {
        let mut standby = Self::new(self.settings.clone(), self.own);
        let (socket, port, data) = (self.socket.clone(), self.port.to_string(), standby.data());
        let options = ["-h", &socket, "-p", &port, "-U", USER, "-D", &data, "-c", "fast", "--no-sync", "-R"];
        let mut copy = program("pg_basebackup").args(options).spawn().expect("it runs");
        assert!(wait::exit(SOON, "the end of pg_basebackup", &mut copy).success(), "pg_basebackup failed");
        standby.resume();
        self.sql("alter system set synchronous_standby_names = '*';");
        self.sql("select pg_reload_conf();");
        self.wait_for_standby();
        standby
    }

    /// Waits until the standby has caught up, so that each commit waits for it.
    pub fn wait_for_standby(&self) {
        let states = "select sync_state || ' ' || state from pg_stat_replication;";
        wait_for_ok(SOON, "a standby that has everything", || {
            let states = self.sql(states);
            match states.lines().filter(|state| *state == "sync streaming").count() {
                1 => Ok(()),
                _ => Err(format!("the standbys are {states:?}")),
            }
        });
    }

    /// Makes a standby the primary.
    pub fn promote(&self) {
        assert_eq!(self.sql("select pg_promote();").trim(), "t");
    }

    /// Starts the server again, after [`kill`](Self::kill).
    pub fn resume(&mut self) {
        assert!(self.process.is_none(), "it runs");
        let mut command = match &self.clock {
            Some(library) => {
                if !self.clock_file().exists() {
                    self.set_clock(0);
                }
                let mut command = as_server(Path::new("env"));
                command.arg(format!("LD_PRELOAD={}", library.display()));
                command.arg(format!("FAKETIME_TIMESTAMP_FILE={}", self.clock_file().display()));
                // libfaketime reads the file once per second. The monotonic clock, which measures durations, is not
                // changed.
                command.args(["FAKETIME_CACHE_DURATION=1", "FAKETIME_DONT_FAKE_MONOTONIC=1"]);
                command.arg(path_of("postgres"));
                command
            }
            None => program("postgres"),
        };
        command.args(["-D", &self.data(), "-k", &self.socket, "-p", &self.port.to_string()]);
        command.args(["-c", "listen_addresses=127.0.0.1"]);
        for setting in &self.settings {
            command.args(["-c", setting]);
        }
        let log = std::fs::OpenOptions::new().create(true).append(true).open(self.folder.path().join("log"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log.expect("a log"));
        self.process = Some(command.spawn().expect("postgres runs"));
        self.wait_until_ready();
    }

    fn wait_until_ready(&mut self) {
        let (socket, port) = (self.socket.clone(), self.port.to_string());
        let is_ready = || {
            let mut command = program("pg_isready");
            command.args(["-q", "-h", &socket, "-p", &port]).status().expect("it runs").success()
        };
        wait_for_ok(SOON, "the server to take connections", || match is_ready() {
            true => Ok(()),
            false => {
                let log = self.log();
                assert!(!self.has_ended(), "{log}");
                Err(log)
            }
        });
    }

    fn has_ended(&mut self) -> bool {
        self.continue_parent();
        self.process.as_mut().is_none_or(|child| !matches!(child.try_wait(), Ok(None)))
    }

    /// Continues the process that is started here. A program that changes the user stops itself when the server is
    /// stopped, on a busy machine with a delay. Then it neither continues nor ends with the server.
    fn continue_parent(&self) {
        let id = self.process.as_ref().map(|process| process.id().to_string());
        if let Some(id) = id.filter(|id| state_of(id) == Some('T')) {
            let _ = Command::new("kill").args(["-s", "CONT", &id]).status();
        }
    }

    pub fn has_clock(&self) -> bool {
        self.clock.is_some()
    }

    /// Fills the server's own file system.
    pub fn fill_disk(&self) {
        assert!(self.has_file_system, "it would fill the machine's disk");
        let mut ballast = std::fs::File::create(self.ballast()).expect("a file");
        while ballast.write_all(&[0; 4096]).is_ok() {}
    }

    /// Frees the space, and waits until the server answers. If the server has ended, starts it again.
    pub fn free_disk(&mut self) {
        std::fs::remove_file(self.ballast()).expect("a file");
        // The server's processes may be about to end.
        wait_until(SOON, "a checkpoint after the disk was full", || {
            let is_there = self.try_sql_in(USER, "checkpoint;").is_some();
            if !is_there && self.has_ended() {
                self.process = None;
                self.resume();
            }
            is_there
        });
    }

    /// Sets the server's own clock, in seconds from the machine's. The server sees the change within a second.
    pub fn set_clock(&self, seconds: i64) {
        std::fs::write(self.clock_file(), format!("{seconds:+}s")).expect("a file");
    }

    fn ballast(&self) -> PathBuf {
        self.folder.path().join("ballast")
    }

    fn clock_file(&self) -> PathBuf {
        self.folder.path().join("clock")
    }

    /// Ends all processes of the server at once, as a power cut would.
    pub fn kill(&mut self) {
        let killed = self.signal_all("KILL");
        wait_until(SOON, "the end of the server", || self.has_ended());
        self.process = None;
        // A server does not start while a process of its predecessor still has shared memory.
        let has_ended = |id: &String| state_of(id).is_none_or(|state| state == 'Z');
        wait_until(SOON, "the end of the server's processes", || killed.iter().all(has_ended));
    }

    /// Sends a signal to the server and to all its processes, for example `STOP`. Returns their ids.
    pub fn signal_all(&self, name: &str) -> Vec<String> {
        let id = self.first_process();
        if name != "CONT" {
            // The stopped server makes no process after they are listed.
            let _ = Command::new("kill").args(["-s", "STOP", &id]).stderr(Stdio::null()).status();
            let has_stopped = || state_of(&id).is_none_or(|state| matches!(state, 'T' | 'Z'));
            wait_until(SOON, "the server to stop", has_stopped);
        }
        let mut all: Vec<String> = children_of(&id).split_whitespace().map(str::to_owned).collect();
        all.push(id);
        // A child may have ended meanwhile.
        let _ = Command::new("kill").args(["-s", name]).args(&all).stderr(Stdio::null()).status();
        if name != "STOP" {
            self.continue_parent();
        }
        all
    }

    /// The ids of the server's processes, the first of which is the parent of the others.
    pub fn processes(&self) -> Vec<u32> {
        let first = self.first_process();
        let children = children_of(&first);
        let ids = std::iter::once(first.as_str()).chain(children.split_whitespace());
        ids.map(|id| id.parse().expect("a process id")).collect()
    }

    fn first_process(&self) -> String {
        let text = std::fs::read_to_string(self.folder.path().join("data/postmaster.pid")).expect("its process id");
        text.lines().next().expect("a line").to_owned()
    }

    /// Replaces the rules of client authentication (`pg_hba.conf`).
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
        assert!(wait::exit(SOON, "the end of sh", &mut shell).success(), "{}", path.display());
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// The folder of the cluster, for files beside it.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    fn data(&self) -> String {
        self.folder.path().join("data").display().to_string()
    }
}

impl Deref for Postgres {
    type Target = Address;

    fn deref(&self) -> &Address {
        &self.address
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if !self.has_ended() {
            self.signal_all("CONT");
            self.kill();
        }
        if self.has_file_system {
            let _ = Command::new("umount").arg("-l").arg(self.folder.path()).status();
        }
    }
}
