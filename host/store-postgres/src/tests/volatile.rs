//! Keys that need not survive a crash.

use std::sync::atomic::Ordering;
use std::time::Instant;

use super::*;

#[tokio::test]
async fn volatile_keys_are_exact_over_hosts_and_wait_for_no_standby() {
    let Some(server) = start(&[]) else { return };
    let url = server.new_database("volatile");
    let standby = server.start_standby();
    let (first, second) = (Host::open(&url), Host::open(&url));
    let backends = [first.store.backend(0), second.store.backend(0)];
    let commits = || first.store.commit_counter().load(Ordering::Relaxed);
    write(&*backends[0], "root", b"1").await;
    let before = commits();
    standby.signal_all("STOP");
    let began = Instant::now();
    let mut present = None;
    for round in 0..20u8 {
        let (backend, ledger) = (&backends[usize::from(round) % 2], Ledger::default());
        let swapped = backend.cas_volatile(&ledger, key("rate"), present.clone(), vec![round]).await.unwrap();
        assert_eq!(swapped, CasOutcome::Swapped);
        let lost = backend.cas_volatile(&ledger, key("rate"), present, vec![round]).await.unwrap();
        assert_eq!(lost, CasOutcome::Lost(Some(vec![round])));
        assert_eq!(backend.increment_volatile(&ledger, key("count"), 1).await.unwrap(), i64::from(round) + 1);
        backend.durable(&ledger).await.unwrap();
        present = Some(vec![round]);
        assert_eq!(read(&*backends[1 - usize::from(round) % 2], "rate").await, present);
    }
    assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    assert_eq!(commits(), before, "none of them is synchronous");
    standby.signal_all("CONT");
}

#[tokio::test]
async fn a_volatile_swap_flushes_nothing_that_its_request_has_written() {
    let Some(mut server) = start(&["wal_writer_delay=10s"]) else { return };
    let host = Host::open(&server.new_database("volatile"));
    let backend = host.store.backend(0);
    let ledger = Ledger::default();
    backend.set(&ledger, key("value"), b"1".to_vec(), permit()).await.unwrap();
    backend.cas_volatile(&ledger, key("rate"), None, b"1".to_vec()).await.unwrap();
    assert!(!ledger.is_settled(), "the value is not flushed yet");
    backend.durable(&ledger).await.unwrap();
    server.kill();
    server.resume();
    assert_eq!(until_readable(&*backend, "value").await.as_deref(), Some(&b"1"[..]));
}
