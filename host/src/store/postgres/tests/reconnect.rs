//! Connections that end while they are used, or are not used for long.

use std::time::Instant;

use super::*;

#[tokio::test]
async fn a_barrier_whose_connection_ends_is_passed_over_the_next_one() {
    const ROUNDS: usize = 10;
    let Some(server) = start(&[]) else { return };
    let host = Host::open(&server.new_database("barriers"));
    let backend = host.store.backend(0);
    let mut passed = 0;
    for _ in 0..ROUNDS {
        server.sql("select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'hexad';");
        passed += usize::from(backend.catch_up().unwrap().await.is_ok());
    }
    // A busy machine may need more than the second that a request waits.
    assert!(passed > ROUNDS / 2 && host.store.status_reader()().reconnects > 0, "{passed} of {ROUNDS}");
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
    assert_eq!(host.store.status_reader()().reconnects, 0);
}
