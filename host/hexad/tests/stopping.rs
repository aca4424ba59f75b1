//! A stopping host finishes its work, and answers load balancers meanwhile.

use crate::*;
use clap::Parser;
use hexad::cli::{SecretValues, Serving, Up};
use rustix::process::{Signal, getpid, kill_process};
use std::process::{Command, Stdio};

#[tokio::test]
async fn a_stop_waits_for_guest_work_after_the_answer() {
    let server = Server::with("");
    assert_eq!(server.ok("much-later?ms=300").await, "early");
    let Server { host, folder } = server;
    tokio::task::spawn_blocking(move || host.stop(Duration::from_secs(60))).await.unwrap();
    let server = Server::over(folder, "", store());
    assert_eq!(server.ok("kv/get?key=probe/v1/late").await, "some written after the answer");
}

#[tokio::test]
async fn a_guest_that_works_on_for_too_long_is_ended() {
    let server = Server::with("");
    assert_eq!(server.ok("much-later?ms=86400000").await, "early");
    let Server { host, folder } = server;
    tokio::task::spawn_blocking(move || host.stop(Duration::from_millis(50))).await.unwrap();
    drop(folder);
}

#[tokio::test]
async fn a_host_that_is_about_to_stop_serves_and_is_not_ready() {
    let mut server = Server::with("");
    let access = server.administer();
    server.host.drain();
    let mut ready = agent().get(format!("{}/readyz", access.url)).call().unwrap();
    assert_eq!((ready.status().as_u16(), ready.body_mut().read_to_string().unwrap()), (503, "stopping\n".to_owned()));
    assert_eq!(server.ok("hello").await, "hello");
}

#[derive(Parser)]
struct UpCommand {
    #[command(flatten)]
    up: Up,
}

/// The variable of a process that the test starts, because signals concern a whole process.
const FOLDER: &str = "HEXAD_TEST_STOPPED_EARLY";

#[test]
fn a_signal_during_the_first_work_stops_the_host_cleanly() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return stop_early(Path::new(&folder));
    }
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("spin.toml"), manifest("")).unwrap();
    let mut process = Command::new(std::env::current_exe().unwrap());
    process.args(["--exact", "stopping::a_signal_during_the_first_work_stops_the_host_cleanly", "--nocapture"]);
    process.env(FOLDER, folder.path()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let output = wait::output(SOON, "the end of the process", process.spawn().unwrap());
    let [printed, log] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(output.status.success() && printed.contains("it has stopped"), "{printed}{log}");
    for left in ["admin.json", "sqlite_key_value.db-wal"] {
        assert!(!folder.path().join("data").join(left).exists(), "{left} {log}");
    }
}

fn stop_early(folder: &Path) {
    let (manifest, data) = (folder.join("spin.toml"), folder.join("data"));
    let [manifest, data] = [&manifest, &data].map(|path| path.to_str().unwrap());
    let arguments = ["up", "--listen", "127.0.0.1:0", "--threads", "1", "--manifest", manifest, "--data", data];
    let work = |serving: Serving| {
        let address: SocketAddr = serving.public_url.strip_prefix("http://").unwrap().parse().unwrap();
        TcpStream::connect(address).unwrap();
        kill_process(getpid(), Signal::TERM).unwrap();
        wait_until(SOON, "a host that does not listen", || TcpStream::connect(address).is_err());
    };
    UpCommand::parse_from(arguments).up.run(SecretValues::default(), Some(work)).unwrap();
    println!("it has stopped");
}
