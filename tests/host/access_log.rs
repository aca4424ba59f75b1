//! The access log of a server that stops.

use super::stopping::ServiceManager;
use super::*;
use hexad_tests::wait::within;
use std::fs::{File, OpenOptions};

/// The requests' lines are more than the pipe holds, but fit into the access log's queue.
const REQUESTS: usize = 2000;

/// A server that writes its access log into a pipe. It has got a signal to stop after some requests, and has ended
/// everything but the log. Returns the unread pipe.
fn stop_with_lines_in_the_log(folder: &Path, arguments: &[&str]) -> (Server, File) {
    let pipe = folder.join("access.log");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    // Opened for reading and writing, because that does not wait for another program.
    let both = OpenOptions::new().read(true).write(true).open(&pipe).expect("a pipe");
    let manager = ServiceManager::new(folder);
    let mut server = serve_in(folder, |command| {
        command.args(["--threads", "1", "--access-log"]).arg(&pipe).args(arguments).envs([manager.variable()])
    });
    let reader = File::open(&pipe).expect("a pipe");
    // From now on, the server is the only writer, so the log ends for the reader when the server has ended.
    drop(both);
    assert_eq!(manager.receive(), "READY=1");
    for _ in 0..REQUESTS {
        assert_eq!(get(server.address(), "hello").as_deref(), Some("hello"));
    }
    server.signal("TERM");
    assert_eq!(manager.receive(), "STOPPING=1");
    // The host closes the operator's listener last.
    wait_until(SOON, "the end of the operator's listener", || {
        !server.data.join("admin.json").exists() || server.has_ended()
    });
    (server, reader)
}

#[test]
fn a_stop_waits_for_a_reader_that_is_late() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (mut server, reader) = stop_with_lines_in_the_log(folder.path(), &["--grace", "1h"]);
    let lines = BufReader::new(reader).lines().map(|line| line.expect("text"));
    let whole = lines.filter(|line| line.contains("/probe/hello") && line.ends_with('}'));
    assert_eq!(within(SOON, "the end of the log", || whole.count()), REQUESTS);
    assert!(server.wait().success());
}

#[test]
fn a_reader_that_does_not_read_does_not_outlive_the_grace_period() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (mut server, reader) = stop_with_lines_in_the_log(folder.path(), &["--grace", "10ms"]);
    assert_eq!(server.wait().code(), Some(1), "lines are left");
    drop(reader);
}
