//! One component is replaced while everything else goes on.

use std::convert::Infallible;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::future::{Either, select};
use futures::{SinkExt, StreamExt};
use hexad::Digest;
use hexad::component::Terms;
use hexad::deploy::{Order, Refusal, Report};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use serde_json::Value;
use tempfile::TempDir;

use crate::fixture::{self, Server, get, guest, manifest, store};

/// A built guest with a mark in it that changes its digest and nothing else.
pub fn variant(name: &str, mark: u8) -> Vec<u8> {
    let mut wasm = std::fs::read(guest(name)).unwrap();
    // A custom section: its id, its length, the length of its name, its name, its content.
    wasm.extend([0, 6, 4, b'm', b'a', b'r', b'k', mark]);
    wasm
}

/// A component of the 0.2 generation that traps at every request.
pub fn trapping() -> Vec<u8> {
    wat::parse_str(
        r#"(component
            (import "wasi:http/types@0.2.0" (instance $types
                (export "incoming-request" (type (sub resource)))
                (export "response-outparam" (type (sub resource)))))
            (alias export $types "incoming-request" (type $request))
            (alias export $types "response-outparam" (type $out))
            (core module $m (func (export "handle") (param i32 i32) unreachable))
            (core instance $i (instantiate $m))
            (type $handle (func (param "request" (own $request)) (param "response-out" (own $out))))
            (func $f (type $handle) (canon lift (core func $i "handle")))
            (instance $handler (export "handle" (func $f)))
            (export "wasi:http/incoming-handler@0.2.0" (instance $handler)))"#,
    )
    .unwrap()
}

fn order(component: &str, wasm: Vec<u8>) -> Order {
    Order { component: component.into(), wasm: wasm.into(), by: "the tests".into(), canary: None }
}

pub fn swap(server: &Server, component: &str, wasm: Vec<u8>) -> Result<Report, Refusal> {
    server.host.deployer().swap(&order(component, wasm))
}

fn digest(server: &Server, component: &str) -> Digest {
    let slot = server.host.slots().iter().find(|slot| slot.component().id == component).unwrap();
    slot.current().digest
}

/// The audit log, one value a line.
fn audit(folder: &TempDir) -> Vec<Value> {
    let text = std::fs::read_to_string(folder.path().join("data/audit.ndjson")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

async fn incoming(server: &Server) -> (u16, String) {
    let request = http::Request::get("/incoming?x").header("host", "forge.test");
    fixture::text(server.host.handle(request.body(http_body_util::Empty::new()).unwrap()).await).await
}

/// One keep-alive client that counts answers of 200 and everything else until told to stop.
fn client(address: SocketAddr, path: &str, stop: &AtomicBool, good: &AtomicU64, bad: &AtomicU64) {
    let mut stream = BufReader::new(TcpStream::connect(address).unwrap());
    let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n");
    while !stop.load(Ordering::Relaxed) {
        let answered = || -> std::io::Result<bool> {
            stream.get_mut().write_all(request.as_bytes())?;
            let (mut status, mut length, mut chunked, mut line) = (String::new(), 0, false, String::new());
            loop {
                line.clear();
                if stream.read_line(&mut line)? == 0 {
                    return Err(std::io::ErrorKind::UnexpectedEof.into());
                }
                match line.trim_end().split_once(": ") {
                    Some(("content-length", value)) => length = value.parse().unwrap(),
                    Some(("transfer-encoding", _)) => chunked = true,
                    None if line.starts_with("HTTP/") => status = line.clone(),
                    None => break,
                    _ => {}
                }
            }
            while chunked {
                line.clear();
                stream.read_line(&mut line)?;
                let size = usize::from_str_radix(line.trim_end(), 16).unwrap();
                stream.read_exact(&mut vec![0; size + 2])?;
                chunked = size > 0;
            }
            stream.read_exact(&mut vec![0; length])?;
            Ok(status.starts_with("HTTP/1.1 200"))
        };
        match { answered }() {
            Ok(true) => good.fetch_add(1, Ordering::Relaxed),
            Ok(false) | Err(_) => bad.fetch_add(1, Ordering::Relaxed),
        };
    }
}

/// Runs `work` while this many clients send all they can; how many requests were answered, and
/// how many were not.
fn under_load(address: SocketAddr, clients: usize, work: impl FnOnce()) -> (u64, u64) {
    let (stop, good, bad) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..clients {
            scope.spawn(|| client(address, "/probe/hello", &stop, &good, &bad));
        }
        // Every client has been answered before it begins.
        while good.load(Ordering::Relaxed) + bad.load(Ordering::Relaxed) < clients as u64 {
            std::thread::yield_now();
        }
        work();
        stop.store(true, Ordering::Relaxed);
    });
    (good.into_inner(), bad.into_inner())
}

#[test]
fn no_request_fails_while_a_component_is_swapped_a_hundred_times_under_load() {
    let mut server = Server::with("");
    let address = server.listen();
    let variants = [variant("probe", 1), variant("probe", 2)];
    let (good, bad) = under_load(address, 64, || {
        for n in 0..100 {
            let wasm = variants[n % 2].clone();
            let wanted = Digest::of(&wasm);
            swap(&server, "probe", wasm).unwrap();
            assert_eq!(digest(&server, "probe"), wanted);
        }
    });
    assert_eq!(bad, 0, "of {good} requests");
    assert_eq!(server.host.slots().iter().map(|slot| slot.current().number).max(), Some(101));
}

/// Lines of a file in `/proc/self`, as a number.
fn status(field: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// In a process of its own, because other tests have descriptors and memory as well.
#[test]
fn a_thousand_swaps_leave_nothing_behind() {
    const MARK: &str = "HEXAD_TEST_A_THOUSAND_SWAPS";
    if std::env::var_os(MARK).is_none() {
        let alone = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "swap::a_thousand_swaps_leave_nothing_behind", "--nocapture"])
            .env(MARK, "")
            .status();
        assert!(alone.unwrap().success());
        return;
    }
    let server = Server::with("");
    let executor = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let variants = [variant("incoming", 1), variant("incoming", 2)];
    let swaps = |count: usize| {
        for n in 0..count {
            swap(&server, "incoming", variants[n % 2].clone()).unwrap();
            assert_eq!(executor.block_on(incoming(&server)).0, 200);
        }
        let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().count();
        let mappings = std::fs::read_to_string("/proc/self/maps").unwrap().lines().count();
        (status("VmRSS:"), descriptors, mappings, status("Threads:"))
    };
    let before = swaps(50);
    let after = swaps(1000);
    println!("resident KiB, descriptors, mappings, threads: {before:?} before, {after:?} after");
    // A copy of the code alone would be some 200 MiB.
    assert!(after.0 < before.0 + 8 * 1024, "{before:?} {after:?}");
    assert!(after.1 <= before.1 + 2, "{before:?} {after:?}");
    assert!(after.2 <= before.2 + 64, "{before:?} {after:?}");
    assert!(after.3 <= before.3 + 1, "{before:?} {after:?}");
}

#[tokio::test]
async fn a_request_under_way_ends_on_the_old_generation() {
    let server = Server::with("");
    let response = server.send(get("flood?mib=8")).await;
    swap(&server, "probe", variant("probe", 1)).unwrap();
    assert_eq!(server.ok("hello").await, "hello");
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body.len(), 8 << 20);
}

#[tokio::test]
async fn an_upload_under_way_ends_on_the_old_generation() {
    let server = Server::with("");
    let (mut sender, parts) = futures::channel::mpsc::channel(0);
    let body = StreamBody::new(parts.map(|part| Ok::<_, Infallible>(Frame::data(part))));
    let request = http::Request::post("/probe/count").header("host", "forge.test").body(body).unwrap();
    let mut answer = std::pin::pin!(server.host.handle(request));
    // More than the channel holds, so the guest has begun to read.
    for _ in 0..3 {
        let sent = select(answer.as_mut(), sender.send(Bytes::from_static(b"12345")));
        assert!(matches!(sent.await, Either::Right((Ok(()), _))));
    }
    swap(&server, "probe", variant("probe", 1)).unwrap();
    assert_eq!(server.ok("served").await, "1", "a fresh instance of the new one");
    let send_rest = async {
        sender.send(Bytes::from_static(b"67890")).await.unwrap();
        drop(sender);
    };
    let (answer, ()) = futures::join!(answer, send_rest);
    assert_eq!(fixture::text(answer).await, (200, "20".to_owned()));
}

#[tokio::test]
async fn what_does_not_pass_the_gate_changes_nothing() {
    let server = Server::with("");
    let before = digest(&server, "probe");
    let half = std::fs::read(guest("probe")).unwrap()[..100_000].to_vec();
    let mut flipped = std::fs::read(guest("probe")).unwrap();
    flipped[50_000] ^= 0xff;
    let compiled = wasmtime::Engine::default().precompile_component(&wat::parse_str("(component)").unwrap()).unwrap();
    let rocket = r#"(component (import "acme:rocket/engine@1.0.0" (instance (export "start" (func)))))"#;
    let cases: [(&str, Vec<u8>, &[&str]); 8] = [
        ("nowhere", variant("probe", 1), &["no component `nowhere`"]),
        ("probe", b"text".to_vec(), &["`probe`", "not a usable component"]),
        ("probe", half, &["`probe`", "not a usable component"]),
        ("probe", compiled, &["`probe`", "compiled code"]),
        ("probe", wat::parse_str("(module)").unwrap(), &["`probe`", "not a usable component"]),
        ("probe", wat::parse_str("(component)").unwrap(), &["`probe`", "wasi:http/handler@0.3.0"]),
        ("probe", wat::parse_str(rocket).unwrap(), &["`probe`", "acme:rocket/engine@1.0.0"]),
        ("probe", variant("incoming", 1), &["`probe`", "does not say which area it is"]),
    ];
    let count = cases.len();
    for (component, wasm, words) in cases {
        let refusal = swap(&server, component, wasm).unwrap_err().to_string();
        for word in words {
            assert!(refusal.contains(word), "{word:?} is not in: {refusal}");
        }
        assert_eq!(digest(&server, "probe"), before);
        assert_eq!(server.ok("hello").await, "hello");
    }
    // Whether a flipped bit is found by the validator depends on where it is; it never hurts the host.
    let _ = swap(&server, "incoming", flipped);
    let audit = audit(&server.folder);
    assert!(audit.len() > count && audit[..count].iter().all(|line| line["outcome"] == "refused"), "{audit:?}");
    assert!(audit[1]["reason"].as_str().unwrap().contains("not a usable component"));
    assert!(!server.folder.path().join("data/components/active.json").exists());
}

#[tokio::test]
async fn another_area_does_not_get_in() {
    let server = Server::with("");
    let refusal = swap(&server, "incoming", variant("probe", 1)).unwrap_err().to_string();
    assert!(refusal.contains("`incoming`") && refusal.contains("area `probe`"), "{refusal}");
    assert_eq!(incoming(&server).await.0, 200);
}

#[tokio::test]
async fn a_store_that_the_new_version_cannot_read_keeps_the_old_one() {
    let server = Server::with("");
    server.ok("kv/set?key=probe/v2/a&value=1").await;
    let refusal = swap(&server, "probe", variant("probe", 1)).unwrap_err().to_string();
    assert!(refusal.contains("format 2") && refusal.contains("[1]"), "{refusal}");
    assert_eq!(server.ok("hello").await, "hello");
}

#[tokio::test]
async fn a_version_that_traps_can_be_taken_back_at_once() {
    let server = Server::with("");
    let before = digest(&server, "incoming");
    swap(&server, "incoming", trapping()).unwrap();
    assert_eq!(incoming(&server).await.0, 500);
    let report = server.host.deployer().roll_back("incoming", "the tests").unwrap();
    assert_eq!((report.digest, report.generation), (before, 1));
    assert_eq!(incoming(&server).await.0, 200);
    // And forward again: what was served before is now the trapping one.
    server.host.deployer().roll_back("incoming", "the tests").unwrap();
    assert_eq!(incoming(&server).await.0, 500);
}

#[test]
fn without_anything_before_there_is_nothing_to_go_back_to() {
    let server = Server::with("");
    let refusal = server.host.deployer().roll_back("probe", "the tests").unwrap_err().to_string();
    assert_eq!(refusal, "component `probe` has nothing to go back to");
    // The same code again is no version to go back to either.
    swap(&server, "probe", std::fs::read(guest("probe")).unwrap()).unwrap();
    assert!(server.host.deployer().roll_back("probe", "the tests").is_err());
}

#[test]
fn swaps_at_the_same_moment_come_one_after_the_other() {
    let server = Server::with("");
    let variants: Vec<_> = (1..=4).map(|mark| variant("incoming", mark)).collect();
    std::thread::scope(|scope| {
        for wasm in &variants {
            scope.spawn(|| swap(&server, "incoming", wasm.clone()).unwrap());
        }
    });
    let done: Vec<_> = audit(&server.folder);
    assert_eq!(done.len(), 4);
    // Each came after the one before it: none was lost.
    for pair in done.windows(2) {
        assert_eq!(pair[0]["digest"], pair[1]["previous"]);
    }
    assert_eq!(done[3]["digest"], digest(&server, "incoming").to_string());
}

#[tokio::test]
async fn a_restart_serves_what_was_swapped_in() {
    let folder = tempfile::tempdir().unwrap();
    let start = || fixture::start(&folder, &manifest(""), &[], store()).unwrap();
    let host = start();
    let wasm = variant("incoming", 1);
    let (old, new) = (host.slots()[0].current().digest, Digest::of(&wasm));
    host.deployer().swap(&order("incoming", wasm)).unwrap();
    drop(host);

    let host = start();
    assert_eq!(host.slots()[0].current().digest, new);
    // Also what it served before: its code is loaded for that.
    assert_eq!(host.deployer().roll_back("incoming", "the tests").unwrap().digest, old);
    drop(host);
    assert_eq!(start().slots()[0].current().digest, old);
}

#[test]
fn a_source_that_changed_after_the_swap_is_served_again() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("incoming.wasm");
    std::fs::copy(guest("incoming"), &source).unwrap();
    let text = manifest("").replace(&format!("{:?}", guest("incoming")), &format!("{source:?}"));
    let start = || fixture::start(&folder, &text, &[], store()).unwrap();
    let host = start();
    host.deployer().swap(&order("incoming", variant("incoming", 1))).unwrap();
    drop(host);
    std::fs::write(&source, variant("incoming", 2)).unwrap();
    let host = start();
    assert_eq!(host.slots()[0].current().digest, Digest::of(&variant("incoming", 2)));
    let last = audit(&folder).pop().unwrap();
    assert_eq!((&last["action"], &last["by"]), (&"supersede".into(), &"hexad".into()));
    drop(host);
    // Gone is not changed.
    let host = start();
    host.deployer().swap(&order("incoming", variant("incoming", 1))).unwrap();
    drop(host);
    std::fs::remove_file(&source).unwrap();
    assert_eq!(start().slots()[0].current().digest, Digest::of(&variant("incoming", 1)));
}

#[test]
fn a_damaged_component_is_not_served_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let host = fixture::start(&folder, &manifest(""), &[], store()).unwrap();
    let wasm = variant("incoming", 1);
    host.deployer().swap(&order("incoming", wasm.clone())).unwrap();
    drop(host);
    let kept = folder.path().join(format!("data/components/{}.wasm", Digest::of(&wasm)));
    std::fs::write(kept, variant("incoming", 2)).unwrap();
    let error = fixture::start(&folder, &manifest(""), &[], store()).err().unwrap().to_string();
    assert!(error.contains("`incoming`") && error.contains("digest") && error.contains("active.json"), "{error}");
}

#[test]
fn a_host_that_stops_takes_no_swap() {
    let mut server = Server::with("");
    let address = server.listen();
    let deployer = server.host.deployer().clone();
    let mut slow = TcpStream::connect(address).unwrap();
    slow.write_all(b"GET /probe/flood?mib=32 HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    slow.read_exact(&mut [0; 12]).unwrap();
    let Server { host, folder } = server;
    let stopping = std::thread::spawn(move || host.stop(Duration::from_secs(60)));
    while deployer.is_open() {
        std::thread::yield_now();
    }
    let refusal = deployer.swap(&order("probe", variant("probe", 1))).unwrap_err();
    assert!(matches!(refusal, Refusal::Stopping), "{refusal}");
    drop(deployer);
    slow.read_to_end(&mut Vec::new()).unwrap();
    stopping.join().unwrap();
    assert_eq!(audit(&folder).len(), 1);
}

/// A request of the given caller to the component on trial.
async fn call(server: &Server, caller: usize) -> u16 {
    let request =
        http::Request::get("/incoming?x").header("host", "forge.test").header("private-token", format!("t{caller}"));
    server.host.handle(request.body(http_body_util::Empty::new()).unwrap()).await.status().as_u16()
}

fn canary(server: &Server, wasm: Vec<u8>, terms: Terms) -> Report {
    let order = Order { canary: Some(terms), ..order("incoming", wasm) };
    server.host.deployer().swap(&order).unwrap()
}

#[tokio::test]
async fn a_canary_that_fails_is_taken_back_and_few_have_seen_it() {
    let server = Server::with("");
    let before = digest(&server, "incoming");
    let hour = Duration::from_secs(3600);
    assert!(canary(&server, trapping(), Terms { percent: 20.0, window: hour, ..Terms::default() }).canary);
    let refusal = swap(&server, "incoming", variant("incoming", 1)).unwrap_err();
    assert!(matches!(refusal, Refusal::CanaryUnderWay(_)), "{refusal}");
    let mut failed = 0;
    for n in 0..400 {
        let statuses = [call(&server, n).await, call(&server, n).await];
        // The same caller, the same side; but for the one whose first answer ended the trial.
        assert!(statuses[0] == statuses[1] || failed == 9, "{statuses:?} after {failed}");
        failed += statuses.iter().filter(|status| **status == 500).count();
    }
    assert_eq!(failed, 10, "as many as it takes to see it");
    assert_eq!(digest(&server, "incoming"), before);
    assert!(server.host.slots().iter().all(|slot| slot.stage().canary.is_none()));
    let Server { host, folder } = server;
    drop(host);
    let last = audit(&folder).pop().unwrap();
    assert_eq!((&last["by"], &last["action"]), (&"hexad".into(), &"rollback".into()));
    assert!(last["reason"].as_str().unwrap().contains("100.0 % of its 10 answers failed"), "{last}");
}

#[tokio::test]
async fn a_canary_that_does_well_is_promoted_when_its_window_is_over() {
    let server = Server::with("");
    let wasm = variant("incoming", 1);
    let window = Duration::from_millis(100);
    canary(&server, wasm.clone(), Terms { percent: 50.0, window, ..Terms::default() });
    let mut n = 0;
    while digest(&server, "incoming") != Digest::of(&wasm) {
        assert_eq!(call(&server, n).await, 200);
        n += 1;
    }
    let last = audit(&server.folder).pop().unwrap();
    assert_eq!((&last["by"], &last["action"]), (&"hexad".into(), &"promote".into()));
    let stored = std::fs::read_to_string(server.folder.path().join("data/components/active.json")).unwrap();
    assert!(stored.contains(&Digest::of(&wasm).to_string()), "{stored}");
}

#[tokio::test]
async fn an_operator_ends_a_trial_either_way() {
    let server = Server::with("");
    let before = digest(&server, "incoming");
    let hour = Terms { percent: 100.0, window: Duration::from_secs(3600), ..Terms::default() };
    canary(&server, trapping(), hour.clone());
    assert_eq!(call(&server, 1).await, 500);
    assert_eq!(server.host.deployer().roll_back("incoming", "the tests").unwrap().digest, before);
    assert_eq!(call(&server, 1).await, 200);
    let wasm = variant("incoming", 1);
    canary(&server, wasm.clone(), hour);
    assert_eq!(digest(&server, "incoming"), before);
    server.host.deployer().promote("incoming", "the tests").unwrap();
    assert_eq!(digest(&server, "incoming"), Digest::of(&wasm));
    let refusal = server.host.deployer().promote("incoming", "the tests").unwrap_err();
    assert!(matches!(refusal, Refusal::NoCanary(_)), "{refusal}");
}
