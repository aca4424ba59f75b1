//! A host in a process of its own, on a port of its own, with a store of its own.

use std::io::{BufRead, BufReader, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

/// The token that every server here is started with.
pub const BOOTSTRAP_TOKEN: &str = "bootstrap-token-of-the-tests";

/// A running `hexad up`. Dropping it kills the process.
pub struct Server {
    child: Child,
    /// For example `http://127.0.0.1:40123`.
    pub url: String,
    pub data: PathBuf,
}

/// The project's folder.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the project's folder")
}

/// The host under test: the built one, which lies beside the folder of the running test binary, or
/// the program in `HEXAD_PROGRAM`, which takes the same arguments and says the same line. A script
/// that starts Spin can be one.
pub fn binary() -> PathBuf {
    if let Some(program) = std::env::var_os("HEXAD_PROGRAM") {
        return program.into();
    }
    let me = std::env::current_exe().expect("the path of this program");
    let binary = me.parent().and_then(Path::parent).expect("target/release/deps").join("hexad");
    assert!(binary.is_file(), "{} is missing; `make host` builds it", binary.display());
    binary
}

/// Runs another command of the host's program to its end; what it printed, and whether it was
/// content.
pub fn command(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(binary());
    command.current_dir(root()).args(arguments).envs(environment.iter().copied()).stdin(Stdio::null());
    command.output().expect("the program runs")
}

impl Server {
    /// Starts a host over the store in `data` and waits until it says where it listens.
    pub fn start(data: &Path) -> Self {
        Server::start_with(data, &[])
    }

    /// The same with values for the manifest's variables.
    pub fn start_with(data: &Path, variables: &[(&str, &str)]) -> Self {
        Server::start_manifest(Path::new("spin.toml"), data, variables)
    }

    /// The same with another manifest; its path, if it is not absolute, is the project's.
    pub fn start_manifest(manifest: &Path, data: &Path, variables: &[(&str, &str)]) -> Self {
        let mut command = Command::new(binary());
        command
            .current_dir(root())
            .args(["up", "--listen", "127.0.0.1:0", "--manifest"])
            .arg(manifest)
            .arg("--data")
            .arg(data)
            .env("SPIN_VARIABLE_BOOTSTRAP_ADMIN_TOKEN", BOOTSTRAP_TOKEN)
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        for (name, value) in variables {
            command.env(format!("SPIN_VARIABLE_{}", name.to_uppercase()), value);
        }
        let mut child = command.spawn().expect("the host starts");
        let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let url = lines
            .by_ref()
            .map(|line| line.expect("text"))
            .find_map(|line| Some(line.strip_prefix("listening on ")?.trim().to_owned()))
            .expect("the host ended before it listened; its log is above");
        // Whatever else it prints must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Server { child, url, data: data.to_owned() }
    }

    /// Sends a body of an import that does not end, and returns its connection. `area` is the end of
    /// the import's path.
    pub fn begin_import(&self, area: &str, token: &str, lines: &str) -> TcpStream {
        let address = self.url.strip_prefix("http://").expect("an address");
        let mut stream = TcpStream::connect(address).expect("a connection");
        let head = format!(
            "POST /api/v4/import/{area} HTTP/1.1\r\nhost: {address}\r\nprivate-token: {token}\r\n\
             content-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{lines}\r\n",
            lines.len()
        );
        stream.write_all(head.as_bytes()).expect("the host reads");
        stream
    }

    /// Kills the process at once, as a power cut would, and returns its store.
    pub fn kill(mut self) -> PathBuf {
        self.child.kill().expect("the host can be killed");
        self.child.wait().expect("the host has ended");
        self.data.clone()
    }

    /// Asks the process to end and waits until it has; its exit code.
    pub fn stop(mut self) -> Option<i32> {
        let status = Command::new("kill").arg(self.child.id().to_string()).status().expect("kill runs");
        assert!(status.success());
        self.child.wait().expect("the host has ended").code()
    }

    /// Resident memory of the process now and at most since the last [`Server::forget_peak`], in
    /// bytes.
    pub fn memory(&self) -> (u64, u64) {
        memory_of(self.child.id())
    }

    /// How many descriptors the process has open.
    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).expect("procfs").count()
    }

    /// Makes the highest memory seen the present one.
    pub fn forget_peak(&self) {
        forget_peak_of(self.child.id());
    }
}

/// Resident memory of a process, in bytes: now, and its peak.
pub fn memory_of(process: u32) -> (u64, u64) {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("procfs");
    let field = |name: &str| -> u64 {
        let line = status.lines().find(|line| line.starts_with(name)).expect("a field");
        line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).expect("a number") * 1024
    };
    (field("VmRSS:"), field("VmHWM:"))
}

/// Makes a process's peak of resident memory the present one.
pub fn forget_peak_of(process: u32) {
    std::fs::write(format!("/proc/{process}/clear_refs"), "5").expect("procfs");
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
