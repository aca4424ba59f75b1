//! On a real server. `make test POSTGRES=no` leaves these tests out.

use hexad_store::{CasOutcome, ErrorKind, Ledger, StoreError};
use hexad_store_conformance::{self as conformance, Shards, key, permit, read, write};
use hexad_testing::wait::{SOON, wait_for};
use hexad_testing::wait_async::{wait_for_async, wait_until_async};

use super::*;

mod busy;
mod faults_after_reconnect;
mod full;
mod half_done;
mod plans;
mod reconnect;
mod replaced;
mod restored;
mod rights;
mod silent;
mod socket;
mod tls;
mod unusable;
mod volatile;

pub use hexad_testing::postgres::{Own, Postgres as Server};
pub use hexad_testing::proxy::Proxy;

/// A host on a store, with a data folder of its own.
pub struct Host {
    pub store: Postgres,
    _data: tempfile::TempDir,
}

impl Host {
    pub fn open(url: &str) -> Self {
        Self::try_open(url, &Passwords::default()).unwrap()
    }

    fn try_open(url: &str, passwords: &Passwords) -> Result<Self, PostgresOpenError> {
        let options = PostgresOptions::new(StoreUrl::parse(url, passwords)?, 4, Duration::ZERO);
        Self::open_with(&options)
    }

    pub fn status(&self) -> ServerStatus {
        ServerStatus::of(self.store.supervisor())
    }

    fn open_with(options: &PostgresOptions) -> Result<Self, PostgresOpenError> {
        let data = tempfile::tempdir().unwrap();
        Ok(Self { store: Postgres::open(data.path(), 2, options)?, _data: data })
    }
}

/// A server, or `None` if these tests are left out.
pub fn start(settings: &[&str]) -> Option<Server> {
    start_with(settings, Own::default())
}

pub fn start_with(settings: &[&str], own: Own) -> Option<Server> {
    hexad_testing::postgres::is_enabled().then(|| Server::start_with(settings, own))
}

/// A connection of the test itself.
pub async fn connect(url: &str) -> tokio_postgres::Client {
    let (client, connection) = tokio_postgres::connect(url, tokio_postgres::NoTls).await.unwrap();
    tokio::spawn(connection);
    client
}

/// Reads until the store can be used again.
async fn until_readable(backend: &dyn Backend, name: &str) -> Option<Vec<u8>> {
    let try_read = async || {
        if let Some(caught_up) = backend.catch_up() {
            caught_up.await.ok()?;
        }
        backend.get(&key(name)).await.ok()
    };
    wait_for_async(SOON, "a store that can be read", try_read).await
}

/// Reads until it sees a value of another request.
async fn until_seen(backend: &dyn Backend, name: &str) {
    let is_seen = async || backend.get(&key(name)).await.unwrap().is_some();
    wait_until_async(SOON, &format!("the value `{name}`"), is_seen).await;
}

#[tokio::test]
async fn it_passes_the_conformance_checks_on_one_host_and_on_two() {
    let Some(server) = start(&[]) else { return };
    let host = Host::open(&server.new_database("one"));
    conformance::check(Shards { one: &*host.store.backend(0), two: &*host.store.backend(1) }).await;

    let url = server.new_database("two");
    let (first, second) = (Host::open(&url), Host::open(&url));
    conformance::check(Shards { one: &*first.store.backend(0), two: &*second.store.backend(0) }).await;
}

#[tokio::test]
async fn hosts_that_start_at_once_make_the_tables_once() {
    let Some(server) = start(&[]) else { return };
    let url = server.new_database("fresh");
    std::thread::scope(|scope| {
        let hosts: Vec<_> = (0..4).map(|_| scope.spawn(|| Host::open(&url))).collect();
        hosts.into_iter().for_each(|host| drop(host.join().unwrap()));
    });
    assert_eq!(server.sql_in("fresh", "select version from hexad.format;").trim(), "1");
}

#[test]
fn an_unusable_server_is_refused_with_a_remedy() {
    let Some(mut server) = start(&[]) else { return };
    let refusal = |url: &str| Host::try_open(url, &Passwords::default()).err().unwrap().to_string();
    let refused = |url: &str, part: &str| {
        let text = refusal(url);
        assert!(text.contains(part) && !text.contains('\n'), "{url}: {text}");
    };
    let good = server.new_database("good");
    drop(Host::open(&good));

    refused(&server.url("postgres", "nowhere"), "\"nowhere\" does not exist");
    refused("postgres://me@127.0.0.1:1/x", "start it");
    refused("postgres://me@no-such-host.invalid/x?sslmode=disable", "correct the host");
    refused(&format!("{good}?sslmode=verify-full"), "ssl = on");
    server.sql("create database narrow template template0 encoding 'SQL_ASCII' lc_collate 'C' lc_ctype 'C';");
    refused(&server.url("postgres", "narrow"), "--encoding=UTF8");

    server.sql("create role guest login; create role owner login; create database owned owner owner;");
    refused(&server.url("guest", "owned"), "owner");
    drop(Host::open(&server.url("owner", "owned")));
    refused(&server.url("guest", "owned"), "rights");
    server.sql("alter role guest set default_transaction_read_only = on;");
    refused(&server.url("guest", "owned"), "default_transaction_read_only");

    server.sql_in("good", "update hexad.format set version = 2;");
    refused(&good, "format 2");
    server.sql_in("good", "delete from hexad.format;");
    refused(&good, "hexad.format has no row");
    server.sql_in("good", "insert into hexad.format values (1);");

    server.sql("alter role owner password 'right';");
    server.set_rules("local all all trust\nhost all owner all scram-sha-256\nhost all all all trust\n");
    refused(&server.url("owner", "owned"), "PGPASSFILE");
    let line = |password: &str| Passwords::from_text(&format!("127.0.0.1:*:owned:owner:{password}"));
    let text = Host::try_open(&server.url("owner", "owned"), &line("wrong")).err().unwrap().to_string();
    assert!(text.contains("wrong for this user") && text.contains("PGPASSFILE"), "{text}");
    drop(Host::try_open(&server.url("owner", "owned"), &line("right")).unwrap());

    // A server that follows another one.
    server.kill();
    std::fs::write(server.folder().join("data/standby.signal"), "").unwrap();
    server.resume();
    refused(&good, "standby");
}

#[tokio::test]
async fn one_host_does_the_maintenance_and_another_takes_over() {
    let Some(server) = start(&[]) else { return };
    let url = server.new_database("led");
    let first = Host::open(&url);
    let is_first_leader = || first.store.supervisor().is_leader();
    wait_until_async(SOON, "the first host to lead", async || is_first_leader()).await;
    let second = Host::open(&url);
    let seek = async || {
        let link = second.store.present_link().unwrap();
        link.seek_leadership().await.unwrap();
        link.is_leader()
    };
    assert!(!seek().await && is_first_leader());
    drop(first);
    // Once the server has noticed that the connections have ended.
    wait_until_async(SOON, "the second host to lead", async || seek().await).await;
}

#[test]
fn settings_that_endanger_data_are_named() {
    let Some(server) = start(&["fsync=off", "full_page_writes=off"]) else { return };
    let url = server.new_database("careless");
    // Settings of a role count as well as those of the whole server.
    server.sql_in("careless", "alter role postgres set ignore_checksum_failure = on");
    server.sql_in("careless", "alter role postgres set zero_damaged_pages = on");
    let host = Host::open(&url);
    let read = || host.status();
    let warnings = wait_for(SOON, "the warnings", || Some(read().warnings).filter(|warnings| !warnings.is_empty()));
    let names: Vec<&str> = warnings.iter().map(|warning| &*warning.setting).collect();
    assert_eq!(names, ["fsync", "full_page_writes", "ignore_checksum_failure", "zero_damaged_pages"]);
    let remedies = warnings.iter().map(|warning| warning.text.rsplit_once("; ").map_or("", |(_, remedy)| remedy));
    assert_eq!(remedies.collect::<Vec<_>>(), ["turn it on", "turn it on", "turn it off", "turn it off"]);
}

#[tokio::test]
async fn connections_that_are_ended_are_made_anew_and_memory_is_not_believed_meanwhile() {
    let Some(server) = start(&[]) else { return };
    let host = Host::open(&server.new_database("ended"));
    let backend = host.store.backend(0);
    write(&*backend, "value", b"0").await;
    assert_eq!(read(&*backend, "value").await.unwrap(), b"0");
    for round in 1..=5u8 {
        // The host learns of the change by this statement only.
        server.sql_in(
            "ended",
            &format!(
                "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'hexad';
                 update hexad.kv set value = '\\x{round:02x}' where key = 'value';"
            ),
        );
        assert_eq!(until_readable(&*backend, "value").await, Some(vec![round]));
    }
    let ledger = Ledger::default();
    assert_eq!(backend.cas(&ledger, key("value"), Some(vec![5]), vec![6]).await.unwrap(), CasOutcome::Swapped);
    backend.durable(&ledger).await.unwrap();
}

#[tokio::test]
async fn a_server_crash_loses_no_durable_write_and_fails_the_others() {
    let Some(mut server) = start(&["wal_writer_delay=10s"]) else { return };
    let host = Host::open(&server.new_database("crash"));
    let backend = host.store.backend(0);
    let acknowledged = Ledger::default();
    backend.set(&acknowledged, key("blob"), vec![1; 100_000], permit()).await.unwrap();
    assert_eq!(backend.cas(&acknowledged, key("root"), None, b"names it".to_vec()).await.unwrap(), CasOutcome::Swapped);
    backend.durable(&acknowledged).await.unwrap();

    // This blob is written, and then the server crashes before the root that names it.
    let lost = Ledger::default();
    backend.set(&lost, key("lost blob"), vec![2; 1000], permit()).await.unwrap();
    until_seen(&*backend, "lost blob").await;
    server.kill();
    let error = backend.cas(&lost, key("lost root"), None, b"names nothing".to_vec()).await.unwrap_err();
    assert_ne!(error.kind(), ErrorKind::Fault, "{error}");
    let away = backend.catch_up().unwrap().await.unwrap_err();
    assert!(matches!(away.kind(), ErrorKind::Unavailable(_)), "{away}");
    server.resume();

    assert_eq!(until_readable(&*backend, "root").await.unwrap(), b"names it");
    assert_eq!(read(&*backend, "blob").await, Some(vec![1; 100_000]));
    // After a crash, the server completes no write that began before it, unless the blob was flushed.
    let _ = backend.cas(&lost, key("lost root"), None, b"names nothing".to_vec()).await;
    let is_durable = backend.durable(&lost).await.is_ok();
    let (blob, root) = (read(&*backend, "lost blob").await, read(&*backend, "lost root").await);
    assert!(root.is_none() || blob.is_some(), "a root without its blob");
    assert_eq!(is_durable, root.is_some());
    write(&*backend, "later", b"1").await;
}

#[tokio::test]
async fn a_durable_value_is_on_disk_even_after_operations_without_effect() {
    // The server itself flushes only every ten seconds.
    let Some(mut server) = start(&["wal_writer_delay=10s"]) else { return };
    let host = Host::open(&server.new_database("flush"));
    let backend = host.store.backend(0);
    for after in ["nothing", "a lost swap", "a deletion of nothing"] {
        let ledger = Ledger::default();
        backend.set(&ledger, key(after), b"1".to_vec(), permit()).await.unwrap();
        match after {
            "a lost swap" => {
                let swapped = backend.cas(&ledger, key("absent"), Some(b"other".to_vec()), b"new".to_vec()).await;
                assert_eq!(swapped.unwrap(), CasOutcome::Lost(None));
            }
            "a deletion of nothing" => backend.delete(&ledger, key("absent")).await.unwrap(),
            _ => {}
        }
        backend.durable(&ledger).await.unwrap();
        server.kill();
        server.resume();
        assert_eq!(until_readable(&*backend, after).await.as_deref(), Some(&b"1"[..]), "after {after}");
    }
}

#[tokio::test]
async fn a_request_ends_whose_later_write_failed() {
    let Some(mut server) = start(&[]) else { return };
    let host = Host::open(&server.new_database("partial"));
    let backend = host.store.backend(0);
    let ledger = Ledger::default();
    backend.set(&ledger, key("first"), b"1".to_vec(), permit()).await.unwrap();
    until_seen(&*backend, "first").await;
    server.kill();
    let _ = backend.set(&ledger, key("second"), b"2".to_vec(), permit()).await;
    assert!(backend.durable(&ledger).await.is_err());
}

#[tokio::test]
async fn reads_and_barriers_of_a_request_are_counted() {
    let Some(server) = start(&[]) else { return };
    let host = Host::open(&server.new_database("counted"));
    let backend = host.store.backend(0);
    write(&*backend, "a", b"1").await;
    read(&*backend, "a").await;
    // The first read after a write may have found its own change in the snapshot.
    read(&*backend, "a").await;
    let before = host.status();
    for _ in 0..10 {
        assert_eq!(read(&*backend, "a").await.unwrap(), b"1");
    }
    let after = host.status();
    assert_eq!(after.reads, before.reads, "the value is remembered");
    assert!(after.barriers >= before.barriers + 10, "each request is sure of it");

    let keys = ["a", "b", "c", "d"].map(key);
    server.sql_in("counted", "insert into hexad.kv values ('default', 'c', 'C')");
    backend.prefetch(&keys).await;
    let before = host.status();
    let mut values = Vec::new();
    for key in &keys {
        values.push(backend.get(key).await.unwrap());
    }
    assert_eq!(values, [Some(b"1".to_vec()), None, Some(b"C".to_vec()), None]);
    assert_eq!(host.status().reads, before.reads, "they were fetched at once");
}
