//! The shipped program, run as a process over loopback.

use crate::http::{self, Answer, agent, read};
use crate::processor_time::processor_time_of;
use crate::wait::{self, OF_CONNECTIONS, line_with};
use crate::{compiled_code, databases};
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Lines, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Output, Stdio};
use std::time::Duration;
use ureq::http::Request;

/// The token that every server of the tests is started with.
pub const BOOTSTRAP_TOKEN: &str = "bootstrap-token-of-the-tests";

/// How long a server may take until it listens. Without reusable compiled code, it compiles all components.
const START: Duration = Duration::from_secs(80);

/// How long a command may take.
const COMMAND: Duration = Duration::from_secs(80);

/// The project's folder, from the `cargo` that runs the tests. Clones with a common target folder share this program,
/// so another clone may have compiled it.
pub fn root() -> PathBuf {
    let folder = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&folder).join("..").canonicalize().expect("the project's folder")
}

/// cargo's target folder: the running test is in `<target>/<profile>/deps`.
pub fn target() -> PathBuf {
    let test = std::env::current_exe().expect("the path of this program");
    test.ancestors().nth(3).expect("<target>/<profile>/deps").to_owned()
}

/// The program under test: `HEXAD_PROGRAM`, or else the release build in the target folder. A script that starts
/// another host can replace it, if it takes the same arguments and prints the same line.
pub fn program() -> PathBuf {
    if let Some(program) = std::env::var_os("HEXAD_PROGRAM") {
        return program.into();
    }
    let program = target().join("release/hexad");
    assert!(program.is_file(), "{} is missing; `make host` builds it", program.display());
    program
}

/// A copy of the project's manifest in `folder`, in which `edit` has changed each component's table `tool.hexad`.
pub fn edited_manifest(folder: &Path, edit: impl Fn(&mut toml::Table)) -> PathBuf {
    let text = std::fs::read_to_string(root().join("spin.toml")).expect("the manifest");
    let mut manifest: toml::Table = toml::from_str(&text).expect("TOML");
    let components = manifest.get_mut("component").and_then(toml::Value::as_table_mut).expect("components");
    for (_, component) in components.iter_mut() {
        let source = component.get("source").and_then(toml::Value::as_str).expect("a source");
        let source = root().join(source).display().to_string();
        let table = component.as_table_mut().expect("a table");
        table.insert("source".into(), source.into());
        let tool = table.get_mut("tool").and_then(|tool| tool.get_mut("hexad")).and_then(toml::Value::as_table_mut);
        edit(tool.expect("a table of each component"));
    }
    let path = folder.join("spin.toml");
    std::fs::write(&path, toml::to_string(&manifest).expect("TOML")).expect("a file");
    path
}

/// Runs another command of the program to its end.
pub fn run(arguments: &[&str], environment: &[(&str, &str)]) -> Output {
    let mut command = Command::new(program());
    command.current_dir(root()).args(arguments).envs(environment.iter().copied());
    output(&mut command)
}

/// Runs a command of any program to its end.
#[track_caller]
pub fn output(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let process = command.spawn().unwrap_or_else(|why| panic!("{command:?} cannot be run: {why}"));
    wait::output(COMMAND, &format!("the end of {command:?}"), process)
}

/// `hexad up` on a free port, to be started by [`Server::spawn`].
pub fn up(manifest: &Path, data: &Path) -> Command {
    let mut command = Command::new(program());
    up_arguments(&mut command, manifest, data);
    command
}

/// The same, started by a line of shell that ends in `exec "$@"`.
pub fn up_in_shell(line: &str, manifest: &Path, data: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", line, "sh"]).arg(program());
    up_arguments(&mut command, manifest, data);
    command
}

fn up_arguments(command: &mut Command, manifest: &Path, data: &Path) {
    // A higher level than the default, which logs each component at each start.
    if std::env::var_os("RUST_LOG").is_none() {
        command.env("RUST_LOG", "warn");
    }
    if let Some(url) = databases::url_of(data) {
        command.env("HEXAD_STORE", url);
    }
    let arguments = ["up", "--listen", "127.0.0.1:0", "--manifest"].map(OsStr::new);
    command.current_dir(root()).args(arguments).arg(manifest).arg("--data").arg(data).stdin(Stdio::null());
    // A benchmark is one client that sends as much as many clients.
    if std::env::var_os("HEXAD_TEST_UNLIMITED").is_some() {
        command.args(["--anonymous-cpu-time", "0s", "--anonymous-store-bytes", "0B"]);
    }
}

/// A running `hexad up`. Dropping it kills the process.
pub struct Server {
    child: Child,
    /// For example `http://127.0.0.1:40123`.
    pub url: String,
    pub data: PathBuf,
    /// A temporary folder with the data.
    folder: Option<tempfile::TempDir>,
}

impl Server {
    /// Starts a server over the store in `data` and waits until it listens.
    pub fn start(data: &Path) -> Self {
        Server::start_with(data, &[])
    }

    /// The same with values for the manifest's variables.
    pub fn start_with(data: &Path, variables: &[(&str, &str)]) -> Self {
        Server::start_manifest(Path::new("spin.toml"), data, variables)
    }

    /// The same with another manifest. A relative path starts at the project's folder.
    pub fn start_manifest(manifest: &Path, data: &Path, variables: &[(&str, &str)]) -> Self {
        let mut command = up(manifest, data);
        command.env("SPIN_VARIABLE_BOOTSTRAP_ADMIN_TOKEN", BOOTSTRAP_TOKEN);
        for (name, value) in variables {
            command.env(format!("SPIN_VARIABLE_{}", name.to_uppercase()), value);
        }
        Server::spawn(command, data)
    }

    /// Starts a command made by [`up`] and waits until the server listens.
    pub fn spawn(command: Command, data: &Path) -> Self {
        Server::spawn_within(START, command, data)
    }

    /// The same for a command that takes long until the server listens.
    pub fn spawn_within(deadline: Duration, command: Command, data: &Path) -> Self {
        compiled_code::reuse(data, || Server::spawn_and_wait(deadline, command, data))
    }

    /// The same, but its standard output has no reader once the server listens.
    pub fn spawn_without_reader(command: Command, data: &Path) -> Self {
        compiled_code::reuse(data, || Server::spawn_and_read(START, command, data).0)
    }

    /// Starts `hexad up --demo`, and returns its text for a person, too.
    pub fn start_demo(data: &Path) -> (Self, String) {
        let mut command = up(Path::new("spin.toml"), data);
        command.arg("--demo");
        compiled_code::reuse(data, || {
            let (server, mut lines) = Server::spawn_and_read(START, command, data);
            let read = move || {
                let mut text = String::new();
                for line in lines.by_ref().map(|line| line.expect("text")) {
                    text += &line;
                    text.push('\n');
                    // The last line of the text, in each of both cases.
                    if line.contains("npm view") || line.contains("The demo is loaded") {
                        break;
                    }
                }
                std::thread::spawn(move || lines.for_each(drop));
                text
            };
            let text = wait::within(OF_CONNECTIONS, "the text for a person", read);
            (server, text)
        })
    }

    /// Whether the store has the whole demo. The server must have been started with [`BOOTSTRAP_TOKEN`].
    pub fn has_demo(&self) -> bool {
        let request = agent().post(format!("{}/api/v4/import/demo", self.url)).header("private-token", BOOTSTRAP_TOKEN);
        let begun = request.content_type("application/json").send(r#"{"state":"loading","records":[]}"#).and_then(read);
        begun.is_ok_and(|answer| answer.status == 200 && answer.json()["state"] == "loaded")
    }

    fn spawn_and_wait(deadline: Duration, command: Command, data: &Path) -> Self {
        let (server, lines) = Server::spawn_and_read(deadline, command, data);
        // The rest of its output must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        server
    }

    /// Starts a command, and returns the lines that it prints after it listens.
    fn spawn_and_read(deadline: Duration, mut command: Command, data: &Path) -> (Self, Lines<BufReader<ChildStdout>>) {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the program starts");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        // If the server is late, dropping `Server` kills the process.
        let mut server = Server { child, url: String::new(), data: data.to_owned(), folder: None };
        let (line, lines) = line_with(deadline, "listening on ", lines);
        let line = line.expect("the program ended before it listened; its log is above");
        server.url = line.trim_start_matches("listening on ").trim().to_owned();
        (server, lines)
    }

    /// Keeps a temporary folder until the server's end.
    pub fn with_folder(mut self, folder: tempfile::TempDir) -> Self {
        self.folder = Some(folder);
        self
    }

    /// Sends a request to the API, with a token. `path` begins after `/api/v4/`.
    #[track_caller]
    pub fn send(&self, method: &str, path: &str, token: &str, body: impl Into<Vec<u8>>) -> Answer {
        let request = Request::builder().method(method).uri(format!("{}/api/v4/{path}", self.url));
        let request = request.header("private-token", token).header("content-type", "application/json");
        let request = request.body(body.into()).expect("a valid request");
        http::send(&agent(), request).unwrap_or_else(|why| panic!("{method} {path}: {why}"))
    }

    #[track_caller]
    pub fn get(&self, path: &str, token: &str) -> Answer {
        self.send("GET", path, token, "")
    }

    /// `host:port`.
    pub fn address(&self) -> &str {
        self.url.strip_prefix("http://").expect("plain HTTP")
    }

    /// The log, if the command was given a pipe for it.
    pub fn take_log(&mut self) -> Option<ChildStderr> {
        self.child.stderr.take()
    }

    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_some()
    }

    /// Begins an import that does not end, sends a chunk, and returns the connection. `area` is the last segment of the
    /// import's path.
    pub fn begin_import(&self, area: &str, token: &str, lines: &str) -> TcpStream {
        let address = self.address();
        let mut stream = wait::connect(address);
        let head = format!(
            "POST /api/v4/import/{area} HTTP/1.1\r\nhost: {address}\r\nprivate-token: {token}\r\n\
             content-type: application/x-ndjson\r\ntransfer-encoding: chunked\r\n\r\n{:x}\r\n{lines}\r\n",
            lines.len()
        );
        stream.write_all(head.as_bytes()).expect("the server reads");
        stream
    }

    /// Sends a signal, for example `TERM`.
    pub fn signal(&self, name: &str) {
        let id = self.child.id().to_string();
        let status = Command::new("kill").args(["-s", name, id.as_str()]).status().expect("kill runs");
        assert!(status.success(), "kill -s {name} {id}");
    }

    /// Waits until the process has ended.
    pub fn wait(&mut self) -> ExitStatus {
        wait::exit(OF_CONNECTIONS, "the end of the server", &mut self.child)
    }

    /// Kills the process at once, as a power cut would, and returns its data folder.
    pub fn kill(mut self) -> PathBuf {
        self.child.kill().expect("the process can be killed");
        self.wait();
        self.data.clone()
    }

    /// Asks the process to end, and waits for it. Returns the exit code.
    pub fn stop(mut self) -> Option<i32> {
        self.signal("TERM");
        self.wait().code()
    }

    /// Resident memory of the process in bytes: now, and its peak since [`Server::reset_peak_memory`].
    pub fn memory(&self) -> (u64, u64) {
        memory_of(self.child.id())
    }

    /// Processor time of the process since its start.
    pub fn processor_time(&self) -> Duration {
        processor_time_of(self.child.id())
    }

    /// How many descriptors the process has open.
    pub fn descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).expect("procfs").count()
    }

    /// Makes the present memory the peak.
    pub fn reset_peak_memory(&self) {
        reset_peak_memory_of(self.child.id());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Resident memory of a process in bytes: now, and its peak.
pub fn memory_of(process: u32) -> (u64, u64) {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).expect("procfs");
    let field = |name: &str| -> u64 {
        let line = status.lines().find(|line| line.starts_with(name)).expect("a field");
        line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).expect("a number") * 1024
    };
    (field("VmRSS:"), field("VmHWM:"))
}

/// Makes the present memory of a process its peak.
pub fn reset_peak_memory_of(process: u32) {
    std::fs::write(format!("/proc/{process}/clear_refs"), "5").expect("procfs");
}
