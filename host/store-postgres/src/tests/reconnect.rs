//! Connections that end while they are used, or that are idle for long.

use std::time::Instant;

use super::*;

#[tokio::test]
async fn a_barrier_whose_connection_ends_is_passed_over_the_next_one() {
    const ROUNDS: usize = 6;
    let Some(server) = start(&[]) else { return };
    drop(Host::open(&server.new_database("barriers")));
    let proxy = Proxy::start(server.port());
    let host = Host::open(&format!("postgres://postgres@127.0.0.1:{}/barriers", proxy.port()));
    let backend = host.store.backend(0);
    let mut passed = 0;
    for _ in 0..ROUNDS {
        until_readable(&*backend, "nothing").await;
        proxy.stall(true);
        let cut = async {
            // By then, the barrier is in progress.
            tokio::time::sleep(Duration::from_millis(100)).await;
            proxy.cut();
            proxy.stall(false);
        };
        let (outcome, ()) = tokio::join!(backend.catch_up().unwrap(), cut);
        passed += usize::from(outcome.is_ok());
    }
    // A busy machine may need more than the second that a request waits.
    assert!(passed >= ROUNDS / 2 && host.status().reconnects > 0, "{passed} of {ROUNDS}");
}

#[tokio::test]
async fn connections_that_are_not_used_are_kept() {
    let Some(server) = start(&["idle_session_timeout=200ms"]) else { return };
    let host = Host::open(&server.new_database("idle"));
    let backend = host.store.backend(0);
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(2) {
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(host.store.present_link().is_ok_and(|link| !link.is_lost()));
    }
    write(&*backend, "a", b"1").await;
    assert_eq!(host.status().reconnects, 0);
}
