//! A server that stops in the middle of requests.

use std::time::Instant;

use super::*;

#[tokio::test]
async fn operations_fail_soon_when_the_server_stops_responding() {
    let Some(server) = start(&[]) else { return };
    let host = Host::open(&server.new_database("silent"));
    let backend = host.store.backend(0);
    write(&*backend, "a", b"1").await;
    server.signal_all("STOP");
    let began = Instant::now();
    let ledger = Ledger::default();
    let (keys, absent) = ([key("b")], key("c"));
    let get = async { backend.get(&absent).await.map(drop) };
    let list = async { backend.list(&keys[0].store, "", "", 10).await.map(drop) };
    let swap = async { backend.cas(&ledger, key("d"), None, b"1".to_vec()).await.map(drop) };
    let (get, list, swap) = tokio::join!(get, list, swap);
    for error in [get.unwrap_err(), list.unwrap_err()] {
        assert!(matches!(error.kind(), ErrorKind::Unavailable(_)), "{error}");
    }
    let error = swap.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unknown(_)), "{error}");
    // The deadlines of a server that responds are five and ten seconds.
    assert!(began.elapsed() < Duration::from_secs(3), "{:?}", began.elapsed());
    server.signal_all("CONT");
    until_readable(&*backend, "a").await;
}

#[tokio::test]
async fn a_statement_that_takes_long_is_waited_for_while_the_server_responds() {
    let Some(server) = start(&[]) else { return };
    let url = server.new_database("slow");
    let host = Host::open(&url);
    let backend = host.store.backend(0);
    write(&*backend, "a", b"1").await;
    let control = connect(&url).await;
    control.batch_execute("begin; lock table hexad.kv;").await.unwrap();
    let responses = || host.status();
    let before = responses().barriers;
    // The read itself asks for two barriers, and the others come every second.
    let release = async {
        wait_until_async(SOON, "responses to four barriers", async || responses().barriers >= before + 4).await;
        control.batch_execute("commit").await.unwrap();
    };
    let absent = key("b");
    let (found, ()) = tokio::join!(backend.get(&absent), release);
    assert_eq!(found.unwrap(), None);
    assert_eq!(responses().reconnects, 0);
}
