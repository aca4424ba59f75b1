//! Requests that end in the middle of their writes.

use super::*;

/// Makes the server refuse writes, as it does when its disk is full.
pub const FULL_DISK: &str = "
    create function full_disk() returns trigger language plpgsql as 'begin raise disk_full; end';
    create trigger full_disk before insert or update on hexad.kv execute function full_disk();";

#[tokio::test]
async fn a_request_whose_values_are_seen_and_not_flushed_may_have_stored_something() {
    let Some(mut server) = start(&[]) else { return };
    let host = Host::open(&server.new_database("half"));
    let backend = host.store.backend(0);
    let ledger = Ledger::default();
    backend.set(&ledger, key("seen"), b"1".to_vec(), permit()).await.unwrap();
    until_seen(&*backend, "seen").await;
    server.kill();
    assert_ne!(backend.durable(&ledger).await.unwrap_err().kind(), ErrorKind::Fault);
    assert!(ledger.may_have_stored());
}

#[tokio::test]
async fn a_request_of_which_a_later_value_is_refused_may_have_stored_something() {
    let Some(server) = start(&[]) else { return };
    let host = Host::open(&server.new_database("half"));
    let backend = host.store.backend(0);
    let ledger = Ledger::default();
    backend.set(&ledger, key("first"), b"1".to_vec(), permit()).await.unwrap();
    until_seen(&*backend, "first").await;
    server.sql_in("half", FULL_DISK);
    backend.set(&ledger, key("second"), b"2".to_vec(), permit()).await.unwrap();
    let error = backend.durable(&ledger).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unavailable(_)) && ledger.may_have_stored(), "{error}");
    // A request that was refused completely has stored nothing.
    let ledger = Ledger::default();
    backend.set(&ledger, key("third"), b"3".to_vec(), permit()).await.unwrap();
    backend.durable(&ledger).await.unwrap_err();
    assert!(!ledger.may_have_stored());
}

#[tokio::test]
async fn a_root_does_not_rest_on_a_value_that_was_read_before_a_crash() {
    let Some(mut server) = start(&["wal_writer_delay=10s"]) else { return };
    let host = Host::open(&server.new_database("read"));
    let (backend, other) = (host.store.backend(0), host.store.backend(1));
    for has_written in [false, true] {
        // Another request stores a value, and does not flush it yet.
        let (writing, reading) = (Ledger::default(), Ledger::default());
        other.set(&writing, key("blob"), b"1".to_vec(), permit()).await.unwrap();
        backend.bind_reads(&reading);
        let exists = async || backend.exists(&key("blob")).await.unwrap();
        wait_until_async(SOON, "the blob", exists).await;
        if has_written {
            backend.cas(&reading, key("before"), None, b"1".to_vec()).await.unwrap();
        }
        server.kill();
        server.resume();
        until_readable(&*backend, "root").await;
        // This request need not store the value again, and names it.
        let error = backend.cas(&reading, key("root"), None, b"names it".to_vec()).await.unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Unavailable(_)), "{error}");
        assert_eq!(until_readable(&*backend, "root").await, None);
        assert!(backend.durable(&reading).await.is_ok(), "what it wrote before is durable");
        drop(writing);
        write(&*backend, "later", b"1").await;
    }
}
