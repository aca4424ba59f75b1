//! Deployments of the hosts of one PostgreSQL: swaps, rollbacks and canaries on all of them.
//! `make test POSTGRES=no` leaves these out.

mod copied;
mod formats;
mod outages;
mod reports;
mod trust;
mod without;

use super::stopping::open_read;
use super::*;
use hexad_tests::postgres::{self, Postgres};
use hexad_tests::wait::{wait_for, wait_for_ok};
use serde_json::Value;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;
use trust::{List, digests};

/// The answer of the guest `hello`, with the text behind it in the file.
const TEXT: &[u8] = b"hello\ncapacity overflow";

/// The guest that answers `hello`, or else `v0001` and so on.
fn version(number: u32) -> Vec<u8> {
    let path = root().join("dist/fixtures/hello.wasm");
    let mut wasm = std::fs::read(&path).unwrap_or_else(|why| panic!("{}: {why}; `make fixtures`", path.display()));
    if number > 0 {
        let mut places = wasm.windows(TEXT.len()).enumerate().filter(|(_, bytes)| *bytes == TEXT);
        let (place, None) = (places.next().expect("the text").0, places.next()) else {
            panic!("the text is there twice")
        };
        wasm[place..place + 5].copy_from_slice(format!("v{number:04}").as_bytes());
    }
    wasm
}

fn manifest(folder: &Path) -> PathBuf {
    let source = root().join("dist/fixtures/hello.wasm");
    let text = format!(
        "spin_manifest_version = 2\napplication = {{ name = \"test\" }}\n[[trigger.http]]\nroute = \"/hello/...\"\n\
         component = \"hello\"\n[component.hello]\nsource = {source:?}\n"
    );
    let path = folder.join("spin.toml");
    std::fs::write(&path, text).expect("a file");
    path
}

struct Member {
    server: Server,
    folder: tempfile::TempDir,
}

/// Hosts on one store; `None` if these tests are left out.
struct Fleet {
    database: Postgres,
    url: String,
}

impl Fleet {
    fn start() -> Option<Self> {
        let database = postgres::is_enabled().then(|| Postgres::start(&[]))?;
        let url = database.new_database("fleet");
        Some(Self { database, url })
    }

    fn host(&self, options: &[&str]) -> Member {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let server = self.host_in(folder.path(), options);
        Member { server, folder }
    }

    /// A host that trusts these versions only, and the list of them.
    fn strict_host(&self, versions: &[u32]) -> (List, Member) {
        let list = List::new();
        list.set(versions);
        let host = self.host(&["--allow-digests", list.path().to_str().expect("UTF-8")]);
        (list, host)
    }

    /// A host in the folder of another one.
    fn host_again(&self, folder: tempfile::TempDir) -> Member {
        Member { server: self.host_in(folder.path(), &[]), folder }
    }

    fn host_in(&self, folder: &Path, options: &[&str]) -> Server {
        self.host_of(&manifest(folder), folder, options)
    }

    fn host_of(&self, manifest: &Path, folder: &Path, options: &[&str]) -> Server {
        let data = folder.join("data");
        let mut command = up(manifest, &data);
        command.args(["--store", &self.url, "--admin", "127.0.0.1:0", "--threads", "1"]).args(options);
        Server::spawn(command, &data)
    }

    /// A host that was killed during a deployment and started again, and another host, which had prepared the proposed
    /// component. The list has the components that the other host trusts.
    fn hosts_after_a_killed_deployment(&self) -> (List, [Member; 2]) {
        let killed = self.host(&[]);
        let (list, other) = self.strict_host(&[0, 1]);
        list.set_pipe();
        let Member { server, folder } = killed;
        let operator = Operator::of(&server);
        let swap = std::thread::spawn(move || operator.swap("hello", &version(1)));
        let mut pipe = open_read(&list.path());
        list.set(&[0, 1]);
        server.kill();
        wait_until(SOON, "the end of the request", || swap.is_finished());
        assert!(swap.join().is_err(), "there is no answer of a host that was killed");
        pipe.write_all(digests(&[0, 1]).as_bytes()).expect("written");
        drop(pipe);
        (list, [self.host_again(folder), other])
    }
}

/// A host with a store of its own.
fn host_alone() -> Member {
    host_alone_in(tempfile::tempdir().expect("a temporary folder"))
}

fn host_alone_in(folder: tempfile::TempDir) -> Member {
    let data = folder.path().join("data");
    let mut command = up(&manifest(folder.path()), &data);
    command.args(["--admin", "127.0.0.1:0", "--threads", "1"]);
    Member { server: Server::spawn(command, &data), folder }
}

impl Member {
    /// Stops the host. Returns its folder.
    fn stop(self) -> tempfile::TempDir {
        assert_eq!(self.server.stop(), Some(0));
        self.folder
    }

    fn operator(&self) -> Operator {
        Operator::of(&self.server)
    }

    fn answer(&self, agent: &ureq::Agent) -> http::Answer {
        agent.get(format!("{}/hello/x", self.server.url)).call().and_then(http::read).expect("an answer")
    }

    /// The number of the version that answers. 0 is the manifest's version.
    #[track_caller]
    fn serves(&self) -> u32 {
        // On a busy machine, the host may need more than the second that a request waits.
        wait_for_ok(SOON, "a host that knows what to serve", || {
            let answer = self.answer(&http::agent());
            let text = format!("{}: {}", answer.status, answer.text());
            assert!(answer.status == 200 || is_try_again(&answer), "{text}");
            if answer.status == 200 { Ok(number(&answer.text())) } else { Err(text) }
        })
    }

    /// The lines of the host's own audit log, as action and outcome.
    fn audit(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.folder.path().join("data/audit.ndjson")).expect("the audit log");
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let words = lines.map(|line| ["action", "outcome"].map(|name| line[name].as_str().expect("text").to_owned()));
        words.map(|words| words.join(" ")).collect()
    }
}

/// Whether an answer says that the host does not know the active component yet.
fn is_try_again(answer: &http::Answer) -> bool {
    answer.status == 503 && !answer.header("retry-after").is_empty()
}

fn number(text: &str) -> u32 {
    text.trim().strip_prefix('v').map_or(0, |number| number.parse().expect("a number"))
}

#[test]
fn once_a_swap_is_acknowledged_no_host_answers_with_an_older_component() {
    let Some(fleet) = Fleet::start() else { return };
    let hosts = [fleet.host(&[]), fleet.host(&[]), fleet.host(&["--max-staleness", "500ms"])];
    assert_eq!(hosts.each_ref().map(Member::serves), [0; 3]);
    let acknowledged = Mutex::new(vec![(Instant::now(), 0)]);
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..2)
            .map(|client: usize| {
                let (hosts, is_over, acknowledged) = (&hosts, &is_over, &acknowledged);
                scope.spawn(move || {
                    let agent = http::agent();
                    let mut answers = 0;
                    while !is_over.load(Ordering::SeqCst) {
                        let oldest = acknowledged.lock().expect("a list").last().expect("one").1;
                        let answer = hosts[(client + answers) % 3].answer(&agent);
                        if is_try_again(&answer) {
                            continue;
                        }
                        assert_eq!(answer.status, 200, "{}", answer.text());
                        let served = number(&answer.text());
                        assert!(served >= oldest, "{served} answered after {oldest} was acknowledged");
                        answers += 1;
                    }
                    answers
                })
            })
            .collect();
        for number in 1..=6 {
            hosts[number as usize % 3].operator().swap("hello", &version(number)).expect(200);
            acknowledged.lock().expect("a list").push((Instant::now(), number));
        }
        is_over.store(true, Ordering::SeqCst);
        let answers: usize = clients.into_iter().map(|client| client.join().expect("a client")).sum();
        assert!(answers > 20, "{answers} answers");
    });
    // A rollback on any host applies to all hosts.
    hosts[1].operator().post("/components/hello/rollback").expect(200);
    assert_eq!(hosts.each_ref().map(Member::serves), [5; 3]);
    // The changes are in the audit log of each host, and in the common one.
    let mut expected = vec!["swap done"; 6];
    expected.push("rollback done");
    for host in &hosts {
        assert_eq!(host.audit(), expected);
    }
    let all = fleet.database.sql_in("fleet", "select entry::json->>'action' from hexad.audit order by id;");
    assert_eq!(all.lines().collect::<Vec<_>>(), [["swap"; 6].as_slice(), &["rollback"]].concat());
}

#[test]
fn a_starting_host_serves_and_keeps_the_versions_of_the_fleet() {
    let Some(fleet) = Fleet::start() else { return };
    let first = fleet.host(&[]);
    assert_eq!(first.operator().swap("hello", &version(1)).status, 200);
    let second = fleet.host(&[]);
    assert_eq!([first.serves(), second.serves()], [1; 2]);
    // Meanwhile the first host is stopped, and has the older component in its folder.
    let folder = first.stop();
    assert_eq!(second.operator().swap("hello", &version(2)).status, 200);
    let first = fleet.host_again(folder);
    assert_eq!([first.serves(), second.serves()], [2; 2]);
    // Since its restart, the first host has not loaded the previous component. The rollback restores it.
    first.operator().post("/components/hello/rollback").expect(200);
    assert_eq!([first.serves(), second.serves()], [1; 2]);
    let status = first.operator().get("/status").json();
    let hosts = status["host"]["hosts"].as_array().expect("hosts").iter();
    let names: Vec<&str> = hosts.map(|host| host["name"].as_str().expect("text")).collect();
    for member in [&first, &second] {
        let data = member.folder.path().canonicalize().expect("a folder").join("data");
        assert!(names.iter().any(|name| name.ends_with(&format!(":{}", data.display()))), "{names:?}");
    }
}

#[test]
fn a_joining_host_serves_the_fleets_version_instead_of_its_own() {
    let Some(fleet) = Fleet::start() else { return };
    let alone = host_alone();
    assert_eq!(alone.operator().swap("hello", &version(1)).status, 200);
    assert_eq!(alone.serves(), 1);
    let folder = alone.stop();

    let other = fleet.host(&[]);
    let joined = fleet.host_again(folder);
    assert_eq!([other.serves(), joined.serves()], [0; 2]);
    assert_eq!(joined.audit(), ["swap done", "supersede done"]);
    assert_eq!(joined.operator().swap("hello", &version(2)).status, 200);
    assert_eq!([other.serves(), joined.serves()], [2; 2]);
    other.operator().post("/components/hello/rollback").expect(200);
    assert_eq!([other.serves(), joined.serves()], [0; 2]);
}

#[test]
fn a_deployment_that_was_killed_is_not_in_the_way_of_another_hosts() {
    let Some(fleet) = Fleet::start() else { return };
    let (_list, [restarted, other]) = fleet.hosts_after_a_killed_deployment();
    // The killed process counts as live for ten seconds.
    wait_for_ok(SOON, "the end of the killed deployment", || {
        let swapped = other.operator().swap("hello", &version(1));
        let text = swapped.text();
        assert!(swapped.status == 200 || (swapped.status == 409 && text.contains("is deploying")), "{text}");
        if swapped.status == 200 { Ok(()) } else { Err(text) }
    });
    assert_eq!([restarted.serves(), other.serves()], [1; 2]);
}

#[test]
fn a_canary_is_on_trial_on_all_hosts_and_ends_on_all() {
    let Some(fleet) = Fleet::start() else { return };
    let hosts = [fleet.host(&[]), fleet.host(&[])];
    let begin = |number| {
        hosts[0].operator().swap("hello?percent=100&window=1h", &version(number)).expect(200);
    };
    begin(1);
    assert_eq!(hosts.each_ref().map(Member::serves), [1; 2]);
    let another = hosts[1].operator().swap("hello", &version(2));
    assert!(another.status == 409 && another.text().contains("canary"), "{}", another.text());
    hosts[1].operator().post("/components/hello/rollback").expect(200);
    assert_eq!(hosts.each_ref().map(Member::serves), [0; 2]);
    begin(3);
    hosts[1].operator().post("/components/hello/promote").expect(200);
    assert_eq!(hosts.each_ref().map(Member::serves), [3; 2]);
    for host in &hosts {
        let components = host.operator().get("/components").json();
        assert!(components[0]["canary"].is_null(), "{components}");
    }
}

#[test]
fn a_host_that_stood_still_during_a_swap_does_not_answer_with_the_older_component() {
    let Some(fleet) = Fleet::start() else { return };
    let hosts = [fleet.host(&[]), fleet.host(&[])];
    assert_eq!(hosts.each_ref().map(Member::serves), [0; 2]);
    hosts[1].server.signal("STOP");
    hosts[0].operator().swap("hello", &version(1)).expect(200);
    hosts[1].server.signal("CONT");
    let agent = http::agent();
    // The continued host is not prepared yet.
    let prepared = || Some(hosts[1].answer(&agent)).filter(|answer| !is_try_again(answer));
    let answer = wait_for(SOON, "the host that stood still", prepared);
    assert_eq!((answer.status, &*answer.text()), (200, "v0001\n"));
}
