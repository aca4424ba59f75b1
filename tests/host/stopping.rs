//! The stop of the process, from the view of a supervisor and a load balancer, and the effect of a second signal.

use super::*;
use hexad_tests::http::Answer;
use hexad_tests::server::up_in_shell;
use hexad_tests::wait::line_with;
use sha2::{Digest as _, Sha256};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::thread::JoinHandle;

/// A server of the probe with these arguments, and its log.
fn start(folder: &Path, arguments: &[&str], environment: &[(&str, &str)]) -> Server {
    serve_in(folder, |command| {
        command.args(["--threads", "1"]).args(arguments).envs(environment.iter().copied());
        command.env("RUST_LOG", "info").stderr(Stdio::piped())
    })
}

/// A service manager. The host notifies it when it is ready, and when it stops.
pub struct ServiceManager {
    socket: UnixDatagram,
    path: PathBuf,
}

impl ServiceManager {
    pub fn new(folder: &Path) -> Self {
        let path = folder.join("notify");
        let socket = UnixDatagram::bind(&path).expect("a socket");
        socket.set_read_timeout(Some(SOON)).expect("a timeout");
        Self { socket, path }
    }

    /// The environment variable for its processes.
    pub fn variable(&self) -> (&'static str, &str) {
        ("NOTIFY_SOCKET", self.path.to_str().expect("UTF-8"))
    }

    pub fn receive(&self) -> String {
        let mut message = [0; 200];
        let length = self.socket.recv(&mut message).expect("a message");
        String::from_utf8_lossy(&message[..length]).trim().to_owned()
    }
}

/// Waits for a line of the log with these words, and reads the rest on a thread.
fn wait_for_log(server: &mut Server, words: &str) {
    let (line, lines) = line_with(SOON, words, BufReader::new(server.take_log().expect("piped")).lines());
    assert!(line.is_some(), "the log ended without `{words}`");
    std::thread::spawn(move || lines.for_each(drop));
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut server = start(folder.path(), &["--grace", "1h"], &[]);
    assert_eq!(get(server.address(), "kv/set?key=k&value=v").as_deref(), Some("set"));
    let mut waiting = wait::connect(server.address());
    waiting.write_all(b"GET /probe/never HTTP/1.1\r\nhost: h\r\n\r\n").expect("the server reads");
    let operator = Operator::of(&server);
    let in_flight = || operator.metric("hexad_requests_in_flight{component=\"probe\"}");
    wait_until(SOON, "the request to be in flight", || in_flight() > 0);
    server.signal("TERM");
    wait_for_log(&mut server, "stopping");
    assert!(!server.has_ended(), "the request has an hour");
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(128 + 15));
    let server = start(folder.path(), &[], &[]);
    assert_eq!(get(server.address(), "kv/get?key=k").as_deref(), Some("some v"), "what was acknowledged is there");
}

/// Opens a pipe for writing once a program reads it.
pub fn open_read(path: &Path) -> File {
    let path = path.to_owned();
    let open = move || OpenOptions::new().write(true).open(path).expect("a pipe");
    wait::within(SOON, "a reader of the pipe", open)
}

/// Replaces a file by a pipe. The returned function waits for a reader, and returns the writing end. The reader waits
/// until that end is dropped.
fn make_pipe(path: &Path) -> impl FnOnce() -> File + use<> {
    let _ = std::fs::remove_file(path);
    assert!(Command::new("mkfifo").arg(path).status().expect("mkfifo").success());
    let path = path.to_owned();
    move || open_read(&path)
}

/// Makes a file the component of a manifest.
fn set_source(manifest: &Path, component: &Path) {
    edit(manifest, |text| {
        let source = text.lines().find(|line| line.trim_start().starts_with("source = ")).expect("a source");
        text.replace(source, &format!("source = {component:?}"))
    });
}

#[test]
fn a_signal_ends_a_start_that_takes_long() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let manifest = write_manifest(folder.path());
    let component = folder.path().join("slow.wasm");
    let until_read = make_pipe(&component);
    set_source(&manifest, &component);
    let mut host = up(&manifest, &folder.path().join("data")).spawn().expect("it starts");
    let pipe = until_read();
    for _ in 0..2 {
        let _ = Command::new("kill").args(["-TERM", &host.id().to_string()]).status();
    }
    assert_eq!(wait::exit(SOON, "the end of the host", &mut host).code(), Some(0), "nothing was served");
    drop(pipe);
}

#[test]
fn a_stop_does_not_wait_for_a_manifest() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut server = start(folder.path(), &["--grace", "1h"], &[]);
    let manifest = write_manifest(folder.path());
    let until_read = make_pipe(&manifest);
    server.signal("HUP");
    let pipe = until_read();
    server.signal("TERM");
    assert!(server.wait().success());
    drop(pipe);
}

/// Swaps in another version of the probe. The compilation does not end until the returned pipe is closed.
fn begin_swap(server: &Server) -> (File, JoinHandle<Answer>) {
    let digest = |wasm: &[u8]| hex::encode(Sha256::digest(wasm));
    let present = digest(&std::fs::read(root().join("dist/fixtures/probe.wasm")).expect("a file"));
    let wasm = variant("fixtures/probe", 1);
    let code =
        std::fs::read_dir(server.data.join("code")).expect("a folder").map(|entry| entry.expect("an entry").path());
    let name = |path: &Path| path.file_name().expect("a name").to_str().expect("UTF-8").to_owned();
    let code = code.into_iter().find(|path| name(path).starts_with(&present)).expect("the probe's code");
    let until_read = make_pipe(&code.with_file_name(name(&code).replace(&present, &digest(&wasm))));
    let operator = Operator::of(server);
    let swapping = std::thread::spawn(move || operator.swap("probe", &wasm));
    (until_read(), swapping)
}

#[test]
fn a_stop_does_not_wait_for_the_compiler() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut server = start(folder.path(), &["--grace", "1h"], &[]);
    let (pipe, swapping) = begin_swap(&server);
    // The host applies the manifest only after the component.
    server.signal("HUP");
    server.signal("TERM");
    let refused = join(swapping, "the answer about the swap");
    assert_eq!((refused.status, refused.text().contains("stopping")), (503, true), "{}", refused.text());
    assert!(server.wait().success());
    drop(pipe);
}

#[test]
fn an_uninterruptible_read_does_not_outlive_the_grace_period() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let component = folder.path().join("probe.wasm");
    std::fs::copy(root().join("dist/fixtures/probe.wasm"), &component).expect("a copy");
    let manifest = write_manifest(folder.path());
    set_source(&manifest, Path::new("probe.wasm"));
    let data = folder.path().join("data");
    let mut command = up(&manifest, &data);
    let manager = ServiceManager::new(folder.path());
    command.args(["--threads", "1", "--watch", "--grace", "10ms"]).envs([manager.variable()]);
    let mut server = Server::spawn(command, &data);
    assert_eq!(manager.receive(), "READY=1");
    let pipe = make_pipe(&component)();
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(1), "the source is still read");
    drop(pipe);
}

#[test]
fn files_are_read_again_while_a_component_is_compiled() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let log = folder.path().join("access.log");
    let server = start(folder.path(), &["--access-log", log.to_str().expect("UTF-8")], &[]);
    let (pipe, swapping) = begin_swap(&server);
    for name in ["first", "second", "third"] {
        std::fs::rename(&log, folder.path().join(name)).expect("the log");
        server.signal("HUP");
        // The log is opened at the next request.
        wait_until(SOON, "a new log", || {
            assert_eq!(get(server.address(), "hello").as_deref(), Some("hello"));
            log.exists()
        });
    }
    assert!(!swapping.is_finished());
    drop(pipe);
    assert_eq!(join(swapping, "the answer about the swap").status, 200);
}

#[test]
fn load_balancers_find_out_before_connections_are_refused() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let manager = ServiceManager::new(folder.path());
    let mut server = start(folder.path(), &["--drain-delay", "1h"], &[manager.variable()]);
    assert_eq!(manager.receive(), "READY=1");
    let operator = Operator::of(&server);
    assert_eq!(operator.get("/readyz").status, 200);
    server.signal("TERM");
    wait_until(SOON, "a host that is not ready", || operator.get("/readyz").status != 200);
    assert_eq!(operator.get("/readyz").text(), "stopping\n");
    assert_eq!(get(server.address(), "hello").as_deref(), Some("hello"), "it still serves");
    server.signal("INT");
    assert_eq!(server.wait().code(), Some(128 + 2));
}

#[test]
fn a_service_manager_is_told() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let manager = ServiceManager::new(folder.path());
    let mut server = start(folder.path(), &[], &[manager.variable()]);
    assert_eq!(manager.receive(), "READY=1");
    server.signal("TERM");
    assert_eq!(manager.receive(), "STOPPING=1");
    assert!(server.wait().success());
}

#[test]
fn a_service_manager_that_does_not_read_is_not_waited_for() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let path = folder.path().join("notify");
    let _manager = UnixDatagram::bind(&path).expect("a socket");
    let filler = UnixDatagram::unbound().expect("a socket");
    filler.set_nonblocking(true).expect("a socket");
    while filler.send_to(b"x", &path).is_ok() {}
    let mut server = start(folder.path(), &[], &[("NOTIFY_SOCKET", path.to_str().expect("UTF-8"))]);
    assert_eq!(get(server.address(), "hello").as_deref(), Some("hello"));
    server.signal("TERM");
    assert!(server.wait().success());
}

#[test]
fn a_second_signal_ends_it_also_if_nothing_reads_its_log() {
    /// The capacity of a pipe, in bytes.
    const CAPACITY: usize = 64 * 1024;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (_reader, mut log) = std::io::pipe().expect("a pipe");
    log.write_all(&[b'x'; CAPACITY]).expect("the pipe holds it");
    let manager = ServiceManager::new(folder.path());
    let arguments = ["--threads", "1", "--drain-delay", "1h"];
    // At this level, the first line is about the second signal.
    let variables = [manager.variable(), ("RUST_LOG", "warn")];
    let mut server = serve_in(folder.path(), |command| command.args(arguments).envs(variables).stderr(log));
    assert_eq!(manager.receive(), "READY=1");
    let operator = Operator::of(&server);
    server.signal("TERM");
    wait_until(SOON, "a host that is not ready", || operator.get("/readyz").status != 200);
    server.signal("TERM");
    assert_eq!(server.wait().code(), Some(128 + 15));
}

#[test]
fn its_files_are_private_although_the_umask_is_0() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    std::fs::create_dir(&data).expect("a folder");
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o755)).expect("a mode");
    let mut command = up_in_shell("umask 0 && exec \"$@\"", &write_manifest(folder.path()), &data);
    command.args(["--threads", "1"]);
    let server = Server::spawn(command, &data);
    assert_eq!(get(server.address(), "kv/set?key=k&value=v").as_deref(), Some("set"));
    let mut folders = vec![data.clone()];
    let mut files = 0;
    while let Some(path) = folders.pop() {
        for entry in std::fs::read_dir(path).expect("a folder") {
            let entry = entry.expect("an entry");
            // SQLite may remove a file after it was listed.
            let Ok(metadata) = entry.metadata() else { continue };
            let mode = metadata.permissions().mode() & 0o777;
            let expected = if metadata.is_dir() { 0o700 } else { 0o600 };
            assert_eq!(mode, expected, "{:o} {}", mode, entry.path().display());
            files += usize::from(metadata.is_file());
            folders.extend(metadata.is_dir().then(|| entry.path()));
        }
    }
    assert!(files >= 6, "{files}");
}
