//! The `hexad` program: its signals, and what is left of its work when it is killed.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::process::{Pid, Signal, kill_process};

use crate::fixture::manifest;

/// A running `hexad up` and its address.
struct Process {
    child: Child,
    address: SocketAddr,
    log: ChildStderr,
}

impl Process {
    fn start(folder: &Path) -> Self {
        Self::spawn(Command::new(env!("CARGO_BIN_EXE_hexad")), folder)
    }

    fn spawn(mut command: Command, folder: &Path) -> Self {
        std::fs::write(folder.join("spin.toml"), manifest("")).unwrap();
        let mut child = command
            .args(["up", "--listen", "127.0.0.1:0", "--threads", "2"])
            .current_dir(folder)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let mut log = child.stderr.take().unwrap();
        let Some(address) = line.trim().strip_prefix("listening on http://") else {
            let mut said = String::new();
            log.read_to_string(&mut said).unwrap();
            panic!("no address in {line:?}: {said}");
        };
        let address = address.parse().unwrap();
        Self { child, address, log }
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The answer's body, or none if the connection broke.
fn get(address: SocketAddr, path: &str) -> Option<String> {
    let mut client = TcpStream::connect(address).ok()?;
    write!(client, "GET /probe/{path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    client.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let body = match head.contains("transfer-encoding: chunked") {
        // The first line is the length of the one chunk.
        true => body.split("\r\n").nth(1)?,
        false => body,
    };
    head.starts_with("HTTP/1.1 200").then(|| body.to_owned())
}

#[test]
fn the_signals_end_it_cleanly() {
    for signal in [Signal::TERM, Signal::INT] {
        let folder = tempfile::tempdir().unwrap();
        let mut process = Process::start(folder.path());
        assert_eq!(get(process.address, "kv/set?key=k&value=v").as_deref(), Some("set"));
        process.signal(signal);
        let status = process.child.wait().unwrap();
        let mut log = String::new();
        process.log.read_to_string(&mut log).unwrap();
        assert!(status.success(), "{signal:?}: {status} {log}");
        assert!(log.contains("stopped"), "{log}");
        assert!(!folder.path().join("data/sqlite_key_value.db-wal").exists(), "the log is folded in");
    }
}

#[test]
fn every_acknowledged_write_survives_kill_9() {
    let folder = tempfile::tempdir().unwrap();
    let acknowledged = Mutex::new(Vec::new());
    for round in 0..3 {
        let process = Process::start(folder.path());
        let written = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let (written, acknowledged, address) = (&written, &acknowledged, process.address);
                scope.spawn(move || {
                    for n in 0.. {
                        let key = format!("probe/v1/{round}/{writer}/{n}");
                        match get(address, &format!("kv/publish?key={key}&value={n}")) {
                            Some(outcome) => assert_eq!(outcome, "swapped"),
                            // The process is gone.
                            None => break,
                        }
                        acknowledged.lock().unwrap().push((key, n));
                        written.fetch_add(1, Ordering::SeqCst);
                    }
                });
            }
            while written.load(Ordering::SeqCst) < 50 {
                std::thread::yield_now();
            }
            process.signal(Signal::KILL);
        });
    }
    let process = Process::start(folder.path());
    let acknowledged = acknowledged.into_inner().unwrap();
    assert!(acknowledged.len() >= 150, "{}", acknowledged.len());
    for (key, n) in &acknowledged {
        let root = get(process.address, &format!("kv/get?key={key}/root"));
        assert_eq!(root, Some(format!("some {n}")), "{key}");
        for blob in ["a", "b"] {
            let there = get(process.address, &format!("kv/exists?key={key}/{blob}"));
            assert_eq!(there.as_deref(), Some("true"), "{key}/{blob}");
        }
    }
}

#[test]
fn running_out_of_descriptors_is_survived() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -n 64 && exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_hexad")]);
    let process = Process::spawn(command, folder.path());
    let idle: Vec<_> = (0..200).map(|_| TcpStream::connect(process.address).unwrap()).collect();
    drop(idle);
    assert_eq!(get(process.address, "hello").as_deref(), Some("hello"));
}

#[test]
fn what_is_wrong_is_said_in_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_hexad")).arg("up").current_dir(folder.path()).output().unwrap();
    assert!(!output.status.success());
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.starts_with("hexad: cannot read the manifest spin.toml"), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
}
