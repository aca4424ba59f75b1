//! The memory that components share, and the end of instances that have used up their own.

use crate::fairness::ask_from;
use crate::*;
use std::num::NonZeroUsize;
use std::sync::mpsc;

const MIB: u64 = 1 << 20;

/// Bytes of the caches of a host with one shard.
const CACHES: u64 = 68 * MIB;

/// Bytes that the guests of a host have.
fn guest_memory(access: &AdminAccess) -> u64 {
    let metrics = health::ask(access, "/metrics").1;
    let line = metrics.lines().find_map(|line| line.strip_prefix("hexad_guest_memory_bytes "));
    line.unwrap().parse::<f64>().unwrap() as u64
}

/// The probe with at most 64 MiB per instance, on a host with `guests` bytes for guests.
fn start(guests: u64) -> Result<Server, StartError> {
    let folder = tempfile::tempdir().unwrap();
    let manifest = manifest("memory = \"64MiB\"") + "\n[component.incoming.tool.hexad]\nmemory = \"16MiB\"\n";
    let options = HostOptions {
        memory: Some(CACHES + guests),
        send_buffer: 0,
        threads: NonZeroUsize::MIN,
        ..options(&folder, store())
    };
    let host = fixture::start_with(&folder, &manifest, &[], &options)?;
    Ok(Server { host, folder })
}

/// How many instances of the probe ended for this reason.
fn retired(server: &Server, reason: &str) -> u64 {
    let probe = server.service("probe");
    ComponentService::metrics(probe).closes().find(|(name, _)| *name == reason).unwrap().1
}

#[tokio::test]
async fn an_instance_ends_before_its_memory_is_used_up() {
    let server = Server::with("memory = \"64MiB\"");
    for _ in 0..50 {
        assert_eq!(server.ok("leak?mib=10").await, "leaked");
    }
    assert!(retired(&server, "memory") >= 5, "{}", retired(&server, "memory"));
}

#[tokio::test]
async fn an_instance_that_is_idle_for_too_long_ends() {
    let server = Server::with("idle_timeout = \"50ms\"");
    assert_eq!(server.ok("served").await, "1");
    wait_until_async(SOON, "the end of the idle instance", async || retired(&server, "idle") > 0).await;
    assert_eq!(server.ok("served").await, "1", "another instance");
}

#[tokio::test]
async fn idle_instances_give_their_memory_to_busy_ones() {
    let server = start(70 * MIB).unwrap();
    // Two instances run at the same time, and are idle afterwards.
    for answer in join_all([0, 1].map(|_| server.get("leak?mib=20&ms=100"))).await {
        assert_eq!(answer, (200, "leaked".to_owned()));
    }
    assert_eq!(retired(&server, "evicted"), 0);
    // A guest may end a moment after its answer.
    let probe = server.service("probe");
    wait_until_async(SOON, "the end of the guests", async || probe.load() == (0, 0)).await;
    assert_eq!(server.ok("leak?mib=35").await, "leaked");
    assert_eq!(retired(&server, "evicted"), 1);
}

#[tokio::test]
async fn a_request_for_which_no_memory_is_left_is_to_be_sent_again() {
    let mut server = start(70 * MIB).unwrap();
    let access = server.administer();
    let busy = server.send(get("leak?mib=40&ms=1000"));
    let refused = async {
        // Waits until the first request has its memory.
        let has_memory = async || guest_memory(&access) >= 40 * MIB;
        wait_until_async(SOON, "the memory of the first request", has_memory).await;
        server.send(get("leak?mib=40")).await
    };
    let (busy, refused) = tokio::join!(busy, refused);
    assert_eq!(busy.status(), 200);
    assert!(refused.headers().contains_key("retry-after"), "{refused:?}");
    let (status, body) = text(refused).await;
    assert!(status == 503 && body.contains("no memory left"), "{status} {body}");
    assert_eq!(server.ok("leak?mib=10").await, "leaked");
}

#[test]
fn an_address_leaves_memory_for_others() {
    let (server, address, _) = listen_on(start(130 * MIB).unwrap(), IngressOptions::default());
    let leak = |host, pause: &str| ask_from(host, address, &format!("leak?mib=40&ms={pause}"), "");
    let status = |mut client: TcpStream| {
        let mut status = [0; 12];
        client.read_exact(&mut status).ok()?;
        Some(String::from_utf8_lossy(&status[9..]).into_owned())
    };
    // Requests until the address gets no more memory.
    let (told, refused) = mpsc::channel();
    for client in (0..4).map(|_| leak(2, "3600000")) {
        let told = told.clone();
        std::thread::spawn(move || told.send(status(client)));
    }
    assert_eq!(refused.recv_timeout(SOON).unwrap().as_deref(), Some("503"));
    assert_eq!(status(leak(3, "0")).as_deref(), Some("200"));
    drop(server);
}

/// A refused request runs nothing in an idle instance.
#[test]
fn a_client_that_gets_no_memory_leaves_idle_instances_to_others() {
    let (mut server, address, _) = listen_on(start(100 * MIB).unwrap(), IngressOptions::default());
    let access = server.administer();
    let answer = |host| rest(ask_from(host, address, "served", "")).unwrap();
    let held: Vec<_> = (0..2).map(|_| ask_from(2, address, "leak?mib=40&ms=3600000", "")).collect();
    wait_until(SOON, "the memory of two requests", || guest_memory(&access) >= 80 * MIB);
    for served in ["1", "2"] {
        assert_body(&answer(3), served);
        let refused = answer(2);
        assert!(refused.starts_with(b"HTTP/1.1 503 "), "{}", String::from_utf8_lossy(&refused));
    }
    drop((held, server));
}

#[test]
fn a_component_that_does_not_fit_is_refused_by_name() {
    let error = start(60 * MIB).err().unwrap().to_string();
    for words in ["component `probe`", "64.0 MiB", "60.0 MiB", "128.0 MiB", "--memory", "--send-buffer"] {
        assert!(error.contains(words), "{words:?} is not in: {error}");
    }
}

#[test]
fn responses_may_not_have_more_memory_than_the_machine() {
    let folder = tempfile::tempdir().unwrap();
    let options = HostOptions { send_buffer: usize::MAX, ..options(&folder, store()) };
    let error = fixture::start_with(&folder, &manifest(""), &[], &options).err().unwrap().to_string();
    assert!(error.contains("--send-buffer"), "{error}");
}
