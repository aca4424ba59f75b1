//! The process: its signals, its descriptors, and the rest of its work when it is killed.

use super::probe::exchange;
use super::*;
use hexad_tests::server::{output, program, up_in_shell};
use std::ffi::OsStr;
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::TryRecvError;

/// A server of the probe with its manifest and its data in a folder.
fn start(folder: &Path) -> Server {
    serve_in(folder, |command| command.args(["--threads", "2"]).env("RUST_LOG", "info").stderr(Stdio::piped()))
}

/// The same, started by a line of shell.
fn start_in_shell(line: &str, folder: &Path) -> Server {
    let data = folder.join("data");
    let mut command = up_in_shell(line, &write_manifest(folder), &data);
    command.args(["--threads", "2"]);
    Server::spawn(command, &data)
}

#[test]
fn the_signals_end_it_cleanly() {
    for signal in ["TERM", "INT"] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut server = start(folder.path());
        assert_eq!(get(server.address(), "kv/set?key=k&value=v").as_deref(), Some("set"));
        server.signal(signal);
        let status = server.wait();
        let mut log = String::new();
        server.take_log().expect("piped").read_to_string(&mut log).expect("text");
        assert!(status.success(), "{signal}: {status} {log}");
        assert!(log.contains("stopped"), "{log}");
        assert!(!folder.path().join("data/sqlite_key_value.db-wal").exists(), "the write-ahead log was not folded in");
    }
}

#[test]
fn a_log_whose_reader_has_gone_ends_no_thread() {
    let arguments = ["--threads", "2", "--max-connections-per-address", "3"];
    let mut server = serve(|command| command.args(arguments).env("RUST_LOG", "trace").stderr(Stdio::piped()));
    drop(server.take_log());
    for _ in 0..3 {
        // The host refuses the last ones, and warns about it.
        let connections = [(); 5].map(|()| TcpStream::connect(server.address()).expect("it listens"));
        server.signal("HUP");
        drop(connections);
        serves_again(&mut server, "kv/set?key=k&value=v", "set");
    }
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn a_command_whose_output_nothing_reads_ends_without_a_word() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let _server = start(folder.path());
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let mut status = Command::new(program());
    status.args(["status", "--data"]).arg(folder.path().join("data")).stdout(writer).stderr(Stdio::piped());
    let output = wait::output(SOON, "the end of the command", status.spawn().expect("the program runs"));
    assert_eq!((output.status.code(), &*output.stderr), (Some(128 + 13), &b""[..]));
}

#[test]
fn a_demo_whose_output_nothing_reads_is_served() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let data = folder.path().join("data");
    let mut command = up(Path::new("spin.toml"), &data);
    command.arg("--demo").env("SPIN_VARIABLE_BOOTSTRAP_ADMIN_TOKEN", BOOTSTRAP_TOKEN);
    let server = Server::spawn_without_reader(command, &data);
    wait_until(SOON, "the demo", || server.has_demo());
    assert_eq!(server.stop(), Some(0));
}

#[test]
fn every_acknowledged_write_survives_kill_9() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let acknowledged = Mutex::new(Vec::new());
    for round in 0..3 {
        let server = start(folder.path());
        let written = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let (written, acknowledged, address) = (&written, &acknowledged, server.address());
                scope.spawn(move || {
                    for n in 0.. {
                        let key = format!("probe/v1/{round}/{writer}/{n}");
                        match get(address, &format!("kv/publish?key={key}&value={n}")) {
                            Some(outcome) => assert_eq!(outcome, "swapped"),
                            // The process is gone.
                            None => break,
                        }
                        acknowledged.lock().expect("no panic").push((key, n));
                        written.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
            wait_until(SOON, "50 acknowledged writes", || written.load(Ordering::SeqCst) >= 50);
            server.signal("KILL");
        });
    }
    let server = start(folder.path());
    let acknowledged = acknowledged.into_inner().expect("no panic");
    assert!(acknowledged.len() >= 150, "{}", acknowledged.len());
    for (key, n) in &acknowledged {
        let root = get(server.address(), &format!("kv/get?key={key}/root"));
        assert_eq!(root, Some(format!("some {n}")), "{key}");
        for blob in ["a", "b"] {
            let there = get(server.address(), &format!("kv/exists?key={key}/{blob}"));
            assert_eq!(there.as_deref(), Some("true"), "{key}/{blob}");
        }
    }
}

/// Fewer descriptors than the connections that a test opens.
const FEW_DESCRIPTORS: &str = "ulimit -n 128 && exec \"$@\"";

#[test]
fn running_out_of_descriptors_is_survived() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let mut server = start_in_shell(FEW_DESCRIPTORS, folder.path());
    let idle: Vec<_> = (0..200).map(|_| TcpStream::connect(server.address()).expect("a connection")).collect();
    assert!(!server.has_ended(), "the host ended");
    drop(idle);
    serves_again(&mut server, "hello", "hello");
}

/// Waits until a request is answered. The host must first notice that the other connections are closed.
fn serves_again(server: &mut Server, path: &str, answer: &str) {
    wait_until(SOON, "an answer", || {
        assert!(!server.has_ended(), "the host ended");
        get(server.address(), path).as_deref() == Some(answer)
    });
}

#[test]
fn a_socket_that_a_supervisor_keeps_loses_no_client_when_the_host_is_replaced() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let (manifest, data) = (write_manifest(folder.path()), folder.path().join("data"));
    let start = || {
        // Descriptor 3 is the first that LISTEN_FDS passes on.
        let line = "exec 3<&0 0</dev/null; LISTEN_PID=$$ LISTEN_FDS=1; export LISTEN_PID LISTEN_FDS; exec \"$@\"";
        let mut command = up_in_shell(line, &manifest, &data);
        let socket = listener.try_clone().expect("a descriptor");
        command.args(["--threads", "1"]).stdin(OwnedFd::from(socket));
        Server::spawn(command, &data)
    };
    let mut old = start();
    assert_eq!(old.address(), address);
    let (stop, stopped) = mpsc::channel::<()>();
    let (answered, count) = mpsc::channel();
    let client = std::thread::spawn(move || {
        while stopped.try_recv() == Err(TryRecvError::Empty) {
            let answer = exchange(&address, "hello");
            let is_whole = answer.as_ref().is_ok_and(|answer| is_hello(answer));
            assert!(is_whole, "lost: {answer:?}");
            let _ = answered.send(());
        }
    });
    for _ in 0..3 {
        (0..20).for_each(|_| count.recv_timeout(SOON).expect("an answer"));
        old.signal("TERM");
        assert!(old.wait().success());
        old = start();
    }
    (0..20).for_each(|_| count.recv_timeout(SOON).expect("an answer"));
    drop(stop);
    join(client, "the end of the client");
}

/// Whether `answer` is complete, with a length or chunked.
fn is_hello(answer: &str) -> bool {
    answer.ends_with("\r\n\r\nhello") || answer.ends_with("\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
}

#[test]
fn options_that_no_host_can_serve_with_are_refused_in_a_sentence() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let manifest = write_manifest(folder.path());
    for (option, value, words) in [
        ("--external-url", "foo", "write an http or https URL"),
        ("--threads", "100000", "write a number from 1 to 1024"),
        ("--grace", "25h", "at most 24h"),
        ("--drain-delay", "99999999999h", "at most 24h"),
        ("--keep-alive", "99999999999h", "at most 24h"),
    ] {
        let mut command = up(&manifest, &folder.path().join("data"));
        let output = output(command.args([option, value]));
        let error = String::from_utf8(output.stderr).expect("UTF-8");
        assert!(!output.status.success() && error.contains(words) && error.contains(option), "{error}");
    }
    // If the host accepted the token, it would end, too, because the address is in use.
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let admin = taken.local_addr().expect("an address").to_string();
    for token in [&b"secret\n"[..], b" lead", b"trail ", "\u{fc}".as_bytes(), b"\xff"] {
        let token = OsStr::from_bytes(token);
        let mut host = up(&manifest, &folder.path().join("data"));
        let mut status = Command::new(program());
        status.args(["status", "--admin", &format!("http://{admin}"), "--timeout", "200ms"]);
        for command in [host.args(["--admin", &admin]), &mut status] {
            let output = output(command.env("HEXAD_ADMIN_TOKEN", token));
            let error = String::from_utf8(output.stderr).expect("UTF-8");
            assert!(
                !output.status.success() && error.contains("in HEXAD_ADMIN_TOKEN cannot be sent"),
                "{token:?}: {error}"
            );
            assert_eq!(error.lines().count(), 1, "{error}");
        }
    }
    let mut command = up_in_shell("ulimit -n 20 && exec \"$@\"", &manifest, &folder.path().join("data"));
    let output = output(command.args(["--threads", "1"]));
    let error = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(error.contains("may open 20 files and sockets") && error.lines().count() == 1, "{error}");
}

#[test]
fn a_component_without_an_end_is_not_sent() {
    let server = serve(|command| command);
    let swap = run(&["swap", "--data", server.data.to_str().expect("UTF-8"), "probe", "/dev/zero"], &[]);
    let error = String::from_utf8(swap.stderr).expect("UTF-8");
    assert!(!swap.status.success() && error.contains("more than 268435456 bytes"), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
}

#[test]
fn an_error_is_one_sentence() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let output = output(Command::new(program()).arg("up").current_dir(folder.path()));
    assert!(!output.status.success());
    let error = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(error.starts_with("hexad: cannot read the manifest spin.toml"), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
}
