//! Where a server listens, and SQL that is run there.

use std::io::Write as _;
use std::process::Stdio;
use std::time::Duration;

use super::programs::program;
use super::{QUERIES, STATEMENTS, USER, wait};

/// The environment variable that names the server of a whole run of tests, as [`Address`] is written.
const SHARED: &str = "HEXAD_TEST_POSTGRES";

/// A server's folder of its socket, and its port.
#[derive(Clone)]
pub struct Address {
    pub socket: String,
    pub port: u16,
}

impl Address {
    /// The server that the runner of the tests has started for all of them.
    pub fn shared() -> Option<Self> {
        let text = std::env::var(SHARED).ok()?;
        let (socket, port) = text.rsplit_once(':').expect("folder:port");
        Some(Self { socket: socket.to_owned(), port: port.parse().expect("a port") })
    }

    /// The environment variable that makes this server the shared one.
    pub fn as_shared(&self) -> (&'static str, String) {
        (SHARED, format!("{}:{}", self.socket, self.port))
    }

    pub fn port(&self) -> u16 {
        self.port
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
        command.args(["-h", &self.socket, "-p", &self.port.to_string(), "-U", USER, database]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = wait::output(STATEMENTS, "the end of pg_dump", command.spawn().expect("pg_dump runs"));
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    }

    /// Runs SQL (also `\copy` and the like) in the database `postgres` and returns its output.
    pub fn sql(&self, text: &str) -> String {
        self.sql_in(USER, text)
    }

    /// The same in another database.
    pub fn sql_in(&self, database: &str, text: &str) -> String {
        self.try_sql_in(database, text).expect("psql succeeds")
    }

    /// The same; `None` if it failed.
    pub fn try_sql_in(&self, database: &str, text: &str) -> Option<String> {
        self.psql(STATEMENTS, database, text)
    }

    /// Runs SQL of a benchmark, which may take this long, in the database `postgres`.
    pub fn sql_within(&self, deadline: Duration, text: &str) -> String {
        self.psql(deadline, USER, text).expect("psql succeeds")
    }

    fn psql(&self, deadline: Duration, database: &str, text: &str) -> Option<String> {
        let mut command = program("psql");
        command.args(["-h", &self.socket, "-p", &self.port.to_string(), "-U", USER, "-d", database]);
        command.args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1"]);
        let mut psql = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("psql runs");
        // psql reads nothing if it cannot connect.
        let _ = psql.stdin.take().expect("piped").write_all(text.as_bytes());
        let output = wait::output(deadline, "the end of psql", psql);
        output.status.success().then(|| String::from_utf8(output.stdout).expect("text"))
    }

    /// Milliseconds of each query, one after the other on one connection, as the client sees them.
    pub fn times(&self, queries: &[String]) -> Vec<f64> {
        let script = format!("\\o /dev/null\n\\timing on\n{}", queries.join("\n"));
        let printed = self.sql_within(QUERIES, &script);
        let times = printed.lines().filter_map(|line| line.strip_prefix("Time: ")?.split(' ').next()?.parse().ok());
        times.collect()
    }
}
