//! Swaps under load, and requests under way during a swap.

use crate::*;
use futures::future::{Either, select};
use futures::{SinkExt, StreamExt};
use std::io::{BufRead, BufReader};
use std::sync::atomic::{AtomicBool, AtomicU64};

/// A keep-alive client that counts responses with status 200, and all other results, until `stop`.
fn client(address: SocketAddr, path: &str, stop: &AtomicBool, good: &AtomicU64, bad: &AtomicU64) {
    let mut stream = BufReader::new(wait::connect(address));
    let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\n\r\n");
    while !stop.load(Ordering::Relaxed) {
        let exchange = || -> std::io::Result<bool> {
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
        match { exchange }() {
            Ok(true) => good.fetch_add(1, Ordering::Relaxed),
            Ok(false) | Err(_) => bad.fetch_add(1, Ordering::Relaxed),
        };
    }
}

/// Runs `work` while this many clients send requests without a pause. Returns how many requests got
/// status 200, and how many did not.
fn under_load(address: SocketAddr, clients: usize, work: impl FnOnce()) -> (u64, u64) {
    let (stop, good, bad) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..clients {
            scope.spawn(|| client(address, "/probe/hello", &stop, &good, &bad));
        }
        // `work` begins after the clients have got a response each, on average.
        let responses = || good.load(Ordering::Relaxed) + bad.load(Ordering::Relaxed);
        wait_until(SOON, "a response for each client", || responses() >= clients as u64);
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
            let expected = Digest::of(&wasm);
            swap(&server, "probe", wasm).unwrap();
            assert_eq!(digest(&server, "probe"), expected);
        }
    });
    assert_eq!(bad, 0, "of {good} requests");
    assert_eq!(server.host.services().iter().map(|service| service.current().number).max(), Some(101));
}

/// The number in a line of `/proc/self/status`.
fn process_status(field: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

/// Runs in a process of its own, because other tests use descriptors and memory as well.
#[test]
fn a_thousand_swaps_leak_no_memory_descriptors_or_threads() {
    const MARK: &str = "HEXAD_TEST_A_THOUSAND_SWAPS";
    if std::env::var_os(MARK).is_none() {
        let alone = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "swap_load::a_thousand_swaps_leak_no_memory_descriptors_or_threads", "--nocapture"])
            .env(MARK, "")
            .spawn();
        assert!(wait::exit(8 * SOON, "the process of this test", &mut alone.unwrap()).success());
        return;
    }
    let server = Server::with("");
    let executor = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let variants = [variant("incoming", 1), variant("incoming", 2)];
    let swaps = |count: usize| {
        for n in 0..count {
            swap(&server, "incoming", variants[n % 2].clone()).unwrap();
            assert_eq!(executor.block_on(incoming(&server)).0, 200);
        }
        let descriptors = std::fs::read_dir("/proc/self/fd").unwrap().count();
        let mappings = std::fs::read_to_string("/proc/self/maps").unwrap().lines().count();
        (process_status("VmRSS:"), descriptors, mappings, process_status("Threads:"))
    };
    // wasmtime's pool keeps a hundred slots of ended instances ready, and each slot in use has its own mappings.
    let before = swaps(150);
    let after = swaps(1000);
    println!("resident KiB, descriptors, mappings, threads: {before:?} before, {after:?} after");
    // Leaked code alone would take some 200 MiB.
    assert!(after.0 < before.0 + 8 * 1024, "{before:?} {after:?}");
    assert!(after.1 <= before.1 + 2, "{before:?} {after:?}");
    assert!(after.2 <= before.2 + 64, "{before:?} {after:?}");
    // An idle thread of the runtime ends after ten seconds.
    wait_until(SOON, "the threads of before, and one more", || process_status("Threads:") <= before.3 + 1);
}

#[tokio::test]
async fn a_request_under_way_ends_on_the_old_revision() {
    let server = Server::with("");
    let response = server.send(get("flood?mib=8")).await;
    swap(&server, "probe", variant("probe", 1)).unwrap();
    assert_eq!(server.ok("hello").await, "hello");
    let body = response.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body.len(), 8 << 20);
}

#[tokio::test]
async fn an_upload_under_way_ends_on_the_old_revision() {
    let server = Server::with("");
    let (mut sender, parts) = futures::channel::mpsc::channel(0);
    let body = StreamBody::new(parts.map(|part| Ok::<_, Infallible>(Frame::data(part))));
    let request = http::Request::post("/probe/count").header("host", "forge.test").body(body).unwrap();
    let mut response = std::pin::pin!(server.host.handle(request));
    // More than the channel holds, so the guest has begun to read.
    for _ in 0..3 {
        let sent = select(response.as_mut(), sender.send(Bytes::from_static(b"12345")));
        assert!(matches!(sent.await, Either::Right((Ok(()), _))));
    }
    swap(&server, "probe", variant("probe", 1)).unwrap();
    assert_eq!(server.ok("served").await, "1", "a new instance of the new revision");
    let send_rest = async {
        sender.send(Bytes::from_static(b"67890")).await.unwrap();
        drop(sender);
    };
    let (response, ()) = futures::join!(response, send_rest);
    assert_eq!(fixture::text(response).await, (200, "20".to_owned()));
}

#[test]
fn a_stopping_host_refuses_swaps() {
    let mut server = Server::with("");
    let address = server.listen();
    let deployer = server.host.deployer().clone();
    let mut slow = wait::connect(address);
    slow.write_all(b"GET /probe/flood?mib=32 HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    slow.read_exact(&mut [0; 12]).unwrap();
    let Server { host, folder } = server;
    let stopping = std::thread::spawn(move || host.stop(Duration::from_secs(60)));
    wait_until(SOON, "a host that stops", || !deployer.is_open());
    let error = deployer.swap(&swap_request("probe", variant("probe", 1))).unwrap_err();
    assert!(matches!(error, DeployError::Stopping), "{error}");
    drop(deployer);
    slow.read_to_end(&mut Vec::new()).unwrap();
    join(stopping, "the end of the host");
    assert_eq!(audit(&folder).len(), 1);
}
