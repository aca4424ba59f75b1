//! The example in `deploy/`: two PostgreSQL servers under Patroni, two hosts, HAProxy. `make failover` runs it. It
//! takes minutes, and needs programs that no other test needs.

use super::*;
use hexad_tests::server::program;
use hexad_tests::wait::wait_for_ok;

/// Ports that the example takes.
const PORTS: u16 = 11;

/// How long a failover in the example may take.
const TAKE_OVER: Duration = Duration::from_secs(90);

/// The first of some free ports in a row.
fn free_ports() -> u16 {
    // Below the ports that the system gives to clients.
    let start = 20_000 + u16::try_from(std::process::id() % 8000).expect("a small number");
    let is_free = |first: &u16| (*first..first + PORTS).all(|port| TcpListener::bind(("127.0.0.1", port)).is_ok());
    (start..32_000).find(is_free).expect("free ports")
}

fn kill(process: &str) {
    let status = Command::new("kill").args(["-KILL", process.trim()]).status().expect("kill runs");
    assert!(status.success(), "kill {process}");
}

fn process(folder: &Path, name: &str) -> String {
    std::fs::read_to_string(folder.join(name)).expect("a process id").lines().next().expect("a line").to_owned()
}

#[test]
fn the_example_survives_the_loss_of_a_host_and_of_the_primary() {
    if std::env::var("HEXAD_FAILOVER").as_deref() != Ok("yes") {
        return;
    }
    let folder = tempfile::Builder::new().prefix("deploy").tempdir_in("/tmp").expect("a folder");
    let first = free_ports();
    let mut command = Command::new(root().join("deploy/run"));
    command.arg(folder.path()).arg(first.to_string()).env("HEXAD", program()).stdin(Stdio::null());
    command.env("SPIN_VARIABLE_BOOTSTRAP_ADMIN_TOKEN", BOOTSTRAP_TOKEN);
    let server = Server::spawn_within(10 * TAKE_OVER, command, &folder.path().join("host1"));
    forge::seed(&server);
    let registry = Registry::new(&server, PUBLIC, DEVELOPER);
    let tarball = |number: usize| package::tarball("lasting", &format!("1.0.{number}"), 20_000, number as u64);
    // A client repeats a request that got an answer to try again, or no answer.
    let publish = |number: usize| {
        let version = format!("1.0.{number}");
        wait_for_ok(TAKE_OVER, &format!("the publication of {version}"), || {
            match registry.publish("lasting", &version, &tarball(number)) {
                Ok(answer) if answer.status == 200 => Ok(()),
                Ok(answer) if matches!(answer.status, 502..=504) => {
                    Err(format!("{}: {}", answer.status, answer.text()))
                }
                Ok(answer) => panic!("{version}: {}: {}", answer.status, answer.text()),
                Err(error) => Err(error.to_string()),
            }
        });
    };
    (0..5).for_each(publish);
    kill(&process(folder.path(), "host1.pid"));
    (5..10).for_each(publish);
    let is_primary = |number: u16| {
        let answer = http::agent().get(format!("http://127.0.0.1:{}/primary", first + 2 + number)).call();
        answer.is_ok_and(|answer| answer.status() == 200)
    };
    let primary = if is_primary(1) { 1 } else { 2 };
    assert!(is_primary(primary), "one of two is the primary");
    // With its keeper, as if its machine were lost.
    kill(&process(folder.path(), &format!("db{primary}.pid")));
    kill(&process(folder.path(), &format!("db{primary}/data/postmaster.pid")));
    (10..15).for_each(publish);
    assert!(is_primary(3 - primary), "the standby was promoted");
    let metadata = registry.get("/lasting").expect("an answer").json();
    assert_eq!(metadata["versions"].as_object().expect("versions").len(), 15);
    for number in 0..15 {
        let served = registry.get(&format!("/lasting/-/lasting-1.0.{number}.tgz")).expect("an answer");
        assert!(served.status == 200 && served.body == tarball(number), "version {number}: {}", served.status);
    }
    server.stop();
}
