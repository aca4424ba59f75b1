//! Waits of tests. Each has a deadline, and a failure that names what the test waited for.
//!
//! Only this file of the tests makes a thread sleep; `tests/contracts/waits.rs` checks that. It uses only the standard
//! library, because crates without other dependencies include it in their tests.

use std::fmt::Display;
use std::io::{self, BufRead, ErrorKind, Lines, Read, Write};
use std::net::{TcpListener, TcpStream, ToSocketAddrs};
use std::process::{Child, Command, ExitStatus, Output};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The usual deadline. The runner ends a test after 90 s, and cannot say what the test waited for.
pub const SOON: Duration = Duration::from_secs(30);

/// The deadline of a read or a write of a connection. It is longer than the host's time-outs of connections, and
/// shorter than the runner's.
pub const OF_CONNECTIONS: Duration = Duration::from_secs(60);

/// The deadline of a request that compiles a component or imports many records, with two slow processors and other
/// tests at the same time. `.config/nextest.toml` lists the tests that may need it.
pub const OF_LONG_REQUESTS: Duration = Duration::from_secs(240);

/// The pause between two checks of a condition.
pub const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// Waits until the condition holds.
#[track_caller]
pub fn wait_until(deadline: Duration, what: &str, mut condition: impl FnMut() -> bool) {
    wait_for(deadline, what, || condition().then_some(()));
}

/// Waits until there is a value.
#[track_caller]
pub fn wait_for<T>(deadline: Duration, what: &str, mut value: impl FnMut() -> Option<T>) -> T {
    wait_for_ok(deadline, what, || value().ok_or("not yet"))
}

/// Tries until there is no error. The failure has the last error.
#[track_caller]
pub fn wait_for_ok<T, E: Display>(deadline: Duration, what: &str, mut attempt: impl FnMut() -> Result<T, E>) -> T {
    let end = Instant::now() + deadline;
    loop {
        match attempt() {
            Ok(value) => return value,
            Err(why) => assert!(Instant::now() < end, "{}: {why}", failure(deadline, what)),
        }
        thread::sleep(BETWEEN_LOOKS);
    }
}

/// The message of a wait that has reached its deadline.
pub fn failure(deadline: Duration, what: &str) -> String {
    format!("waited {} s for {what}", deadline.as_secs_f64())
}

/// Lets time pass that is a part of the test, such as the length of an outage. It waits for no event.
pub fn pause(length: Duration) {
    thread::sleep(length);
}

/// Does work that blocks the thread. Returns its outcome, or panics as it does.
#[track_caller]
pub fn within<T: Send + 'static>(deadline: Duration, what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let Some(outcome) = try_within(deadline, work) else { panic!("{}", failure(deadline, what)) };
    outcome
}

/// The same. `None` if the work is not done in time.
fn try_within<T: Send + 'static>(deadline: Duration, work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let (sender, outcome) = mpsc::channel();
    let thread = thread::spawn(move || drop(sender.send(work())));
    match outcome.recv_timeout(deadline) {
        Ok(outcome) => Some(outcome),
        Err(RecvTimeoutError::Timeout) => None,
        Err(RecvTimeoutError::Disconnected) => match thread.join() {
            Ok(()) => unreachable!("it has sent its outcome"),
            Err(panic) => std::panic::resume_unwind(panic),
        },
    }
}

/// Waits for the end of a thread, and returns its outcome or panics as it did.
#[track_caller]
pub fn join<T>(thread: JoinHandle<T>, what: &str) -> T {
    wait_until(SOON, what, || thread.is_finished());
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Waits for the end of a process. Kills a process that is late.
#[track_caller]
pub fn exit(deadline: Duration, what: &str, process: &mut Child) -> ExitStatus {
    // A process may read its input to the end.
    drop(process.stdin.take());
    let end = Instant::now() + deadline;
    wait_for(deadline, what, || {
        let status = process.try_wait().expect("a child");
        if status.is_none() && Instant::now() >= end {
            let _ = process.kill();
        }
        status
    })
}

/// Waits for the end of a process, and returns its output on its pipes. Kills a process that is late.
#[track_caller]
pub fn output(deadline: Duration, what: &str, process: Child) -> Output {
    let id = process.id().to_string();
    let Some(output) = try_within(deadline, move || process.wait_with_output().expect("a child")) else {
        let _ = Command::new("kill").args(["-s", "KILL", &id]).status();
        panic!("{}", failure(deadline, what))
    };
    output
}

/// Reads lines until one has these words. Returns that line, or `None` if no line has them, and the other lines.
#[track_caller]
pub fn line_with<R: BufRead + Send + 'static>(
    deadline: Duration,
    words: &str,
    mut lines: Lines<R>,
) -> (Option<String>, Lines<R>) {
    let sought = words.to_owned();
    within(deadline, &format!("a line with `{words}`"), move || {
        let line = lines.by_ref().map(|line| line.expect("text")).find(|line| line.contains(&sought));
        (line, lines)
    })
}

/// Accepts a connection. Its reads and writes have a deadline too.
#[track_caller]
pub fn accept(listener: &TcpListener, what: &str) -> TcpStream {
    wait_for(SOON, what, || try_accept(listener))
}

/// The same; `None` if there is no connection now.
pub fn try_accept(listener: &TcpListener) -> Option<TcpStream> {
    listener.set_nonblocking(true).expect("an option");
    match listener.accept() {
        Ok((stream, _)) => {
            stream.set_nonblocking(false).expect("an option");
            Some(with_deadlines(stream))
        }
        Err(error) if error.kind() == ErrorKind::WouldBlock => None,
        Err(error) => panic!("no connection can be accepted: {error}"),
    }
}

/// Connects. Reads and writes of the connection have a deadline too.
#[track_caller]
pub fn connect(address: impl ToSocketAddrs) -> TcpStream {
    with_deadlines(TcpStream::connect(address).expect("a connection"))
}

/// A connection whose reads and writes fail when they take longer than [`OF_CONNECTIONS`].
pub fn with_deadlines(stream: TcpStream) -> TcpStream {
    stream.set_read_timeout(Some(OF_CONNECTIONS)).expect("an option");
    stream.set_write_timeout(Some(OF_CONNECTIONS)).expect("an option");
    stream
}

/// Fails if a read or a write of a connection has taken until its deadline.
#[track_caller]
pub fn assert_in_time(error: &io::Error) {
    let is_late = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
    assert!(!is_late, "{}", failure(OF_CONNECTIONS, "the other end of a connection"));
}

/// Reads until the other end closes the connection, also by a reset.
#[track_caller]
pub fn read_to_close(stream: &mut impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Err(error) = stream.read_to_end(&mut bytes) {
        assert_in_time(&error);
    }
    bytes
}

/// Writes the bytes again and again until the other end closes the connection.
#[track_caller]
pub fn write_to_close(stream: &mut impl Write, bytes: &[u8]) {
    let error = loop {
        if let Err(error) = stream.write_all(bytes) {
            break error;
        }
    };
    assert_in_time(&error);
}
