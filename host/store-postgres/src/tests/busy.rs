//! A server that is busy with others, or whose standby is stopped.

use std::pin::pin;
use std::time::Instant;

use hexad_testing::wait::{BETWEEN_LOOKS, wait_until};
use hexad_testing::wait_async::within_async;

use super::*;

fn reads(host: &Host) -> u64 {
    host.status().reads
}

#[tokio::test]
async fn cached_values_are_used_while_another_database_has_an_old_transaction() {
    let Some(server) = start(&[]) else { return };
    let host = Host::open(&server.new_database("memory"));
    let backend = host.store.backend(0);
    let elsewhere = connect(&server.new_database("elsewhere")).await;
    elsewhere.batch_execute("begin; select pg_current_xact_id();").await.unwrap();
    write(&*backend, "a", b"1").await;
    // All changes are younger than the transaction above, and old enough to be removed.
    server.sql_in("memory", "update hexad.change set at = now() - interval '11 minutes';");
    server.sql_in("memory", sql::PRUNE);
    assert_eq!(server.sql_in("memory", "select count(*) from hexad.change;").trim(), "0");
    // The first read sees that changes were removed.
    for _ in 0..2 {
        assert_eq!(read(&*backend, "a").await.unwrap(), b"1");
    }
    let before = reads(&host);
    for _ in 0..10 {
        assert_eq!(read(&*backend, "a").await.unwrap(), b"1");
    }
    assert_eq!(reads(&host), before);
    // This host sees a later write of another one.
    let other = Host::open(&server.url("postgres", "memory"));
    write(&*other.store.backend(0), "a", b"2").await;
    assert_eq!(read(&*backend, "a").await.unwrap(), b"2");
    elsewhere.batch_execute("commit").await.unwrap();
    write(&*other.store.backend(0), "a", b"3").await;
    assert_eq!(read(&*backend, "a").await.unwrap(), b"3");
}

#[tokio::test]
async fn while_a_standby_stands_still_reads_go_on_and_writes_are_told_to_try_again() {
    const WRITERS: u8 = 4;
    let Some(server) = start(&[]) else { return };
    let url = server.new_database("stalled");
    let standby = server.start_standby();
    let host = Host::open(&url);
    let backend = host.store.backend(0);
    write(&*backend, "before", b"1").await;
    let connections = "select count(*) from pg_stat_activity where application_name = 'hexad';";
    let before = server.sql(connections);
    standby.signal_all("STOP");
    let create =
        async |number: u8| backend.cas(&Ledger::default(), key(&format!("stalled/{number}")), None, vec![number]).await;
    let refused = async |number: u8| {
        let began = Instant::now();
        (create(number).await.unwrap_err(), began.elapsed())
    };
    let mut writes = pin!(futures::future::join_all((0..WRITERS + 2).map(refused)));
    let reads_meanwhile = async {
        loop {
            let reading = async {
                assert_eq!(read(&*backend, "before").await.unwrap(), b"1");
                assert!(backend.exists(&key("before")).await.unwrap());
            };
            tokio::select! {
                outcomes = &mut writes => break outcomes,
                () = reading => {}
            }
        }
    };
    let outcomes = within_async(SOON, "the outcomes of the writes", reads_meanwhile).await;
    let soon: Vec<_> = outcomes.iter().filter(|(_, took)| *took < Duration::from_secs(8)).collect();
    assert_eq!(soon.len(), 2, "those without a connection are not kept waiting: {soon:?}");
    assert!(soon.iter().all(|(error, _)| matches!(error.kind(), ErrorKind::Unavailable(_))), "{soon:?}");
    let mut kinds: Vec<ErrorKind> = outcomes.into_iter().map(|(error, _)| error.kind()).collect();
    let is_unknown = |kind: &ErrorKind| matches!(kind, ErrorKind::Unknown(_));
    assert_eq!(kinds.iter().filter(|kind| is_unknown(kind)).count(), usize::from(WRITERS), "{kinds:?}");
    kinds.retain(|kind| !is_unknown(kind));
    assert!(kinds.iter().all(|kind| matches!(kind, ErrorKind::Unavailable(_))), "{kinds:?}");
    assert_eq!(read(&*backend, "before").await.unwrap(), b"1");
    assert_eq!(host.status().reconnects, 0);
    assert_eq!(server.sql(connections), before, "no process of the server is left behind");

    standby.signal_all("CONT");
    for number in 0..WRITERS + 2 {
        let name = format!("stalled/{number}");
        match create(number).await.unwrap() {
            CasOutcome::Swapped => {}
            // The outcome of this swap was unknown.
            lost => assert_eq!(lost, CasOutcome::Lost(Some(vec![number]))),
        }
        assert_eq!(read(&*backend, &name).await, Some(vec![number]));
    }
    assert_eq!(host.status().reconnects, 0);
}

/// An operator ends the waits. The server then reports the commit as done, although no standby has it. Only a warning
/// says so, and the role, the database or the URL may suppress it.
#[tokio::test]
async fn a_commit_whose_wait_for_a_standby_is_cancelled_is_of_unknown_outcome() {
    let Some(server) = start(&[]) else { return };
    let url = server.new_database("cancelled");
    let standby = server.start_standby();
    let without_warnings = format!("{url}?options=-c%20client_min_messages%3Derror");
    let for_role = "alter role postgres set client_min_messages = 'error';";
    let for_database = "alter role postgres reset client_min_messages;
                        alter database cancelled set client_min_messages = 'error';";
    let cases = [
        ("url", "", &without_warnings),
        ("none", "", &url),
        ("role", for_role, &url),
        ("database", for_database, &url),
    ];
    for (name, setting, url) in cases {
        server.sql(setting);
        let host = Host::open(url);
        let backend = host.store.backend(0);
        write(&*backend, "before", b"1").await;
        standby.signal_all("STOP");
        let ledger = Ledger::default();
        let mut swap = pin!(backend.cas(&ledger, key(name), None, b"1".to_vec()));
        let cancel = "select count(pg_cancel_backend(pid)) from pg_stat_activity where wait_event = 'SyncRep';";
        let cancels_meanwhile = async {
            loop {
                tokio::select! {
                    outcome = &mut swap => break outcome,
                    () = tokio::time::sleep(BETWEEN_LOOKS) => {
                        server.sql(cancel);
                    }
                }
            }
        };
        let outcome = within_async(SOON, "the outcome of the swap", cancels_meanwhile).await;
        assert!(matches!(outcome.expect_err(name).kind(), ErrorKind::Unknown(_)), "{name}");
        standby.signal_all("CONT");
        assert_eq!(until_readable(&*backend, name).await, Some(b"1".to_vec()));
    }
}

#[tokio::test]
async fn a_write_waits_for_a_connection_for_as_long_as_others_are_given_back() {
    let Some(server) = start(&[]) else { return };
    let host = Host::open(&server.new_database("idle"));
    let link = host.store.present_link().unwrap();
    let mut busy = Vec::new();
    for _ in 0..4 {
        busy.push(link.writers().idle().await.unwrap());
    }
    let began = Instant::now();
    let (soon, latest) = (began + Duration::from_secs(1), began + Duration::from_secs(600));
    let earlier = futures::future::join_all((0..3).map(|_| link.writers().idle()));
    let give_back = async {
        while let Some(connection) = busy.pop() {
            tokio::time::sleep(Duration::from_millis(300)).await;
            drop(connection);
        }
    };
    let (earlier, last, ()) = tokio::join!(earlier, link.writers().idle_by(soon, latest), give_back);
    assert!(earlier.len() == 3 && last.is_some() && began.elapsed() > Duration::from_secs(1));
    // Now no connection is given back.
    assert!(link.writers().idle_by(Instant::now() + Duration::from_millis(10), latest).await.is_none());
}

#[tokio::test]
async fn a_process_of_the_server_works_until_it_has_replied() {
    let Some(server) = start(&[]) else { return };
    let host = Host::open(&server.new_database("working"));
    let link = host.store.present_link().unwrap();
    let idle = link.writers().idle().await.unwrap();
    let writer = idle.get().unwrap();
    assert!(!link.is_working(writer.process).await);
    let mut sleep = pin!(writer.client.batch_execute("select pg_sleep(1000)"));
    let is_working = async || link.is_working(writer.process).await;
    let is_seen = pin!(wait_until_async(SOON, "the server to work", is_working));
    assert!(matches!(futures::future::select(&mut sleep, is_seen).await, futures::future::Either::Right(_)));
    server.sql(&format!("select pg_cancel_backend({});", writer.process));
    assert!(sleep.await.is_err());
    wait_until_async(SOON, "the end of its work", async || !is_working().await).await;
    assert!(!link.is_lost());
}

#[tokio::test]
async fn the_serving_record_is_read_while_all_write_connections_are_busy() {
    let Some(server) = start(&[]) else { return };
    let url = server.new_database("serving");
    let (host, other) = (Host::open(&url), Host::open(&url));
    let link = host.store.present_link().unwrap();
    let mut busy = Vec::new();
    for _ in 0..4 {
        busy.push(link.writers().idle().await.unwrap());
    }
    let (fleet, clock) = (host.store.fleet(), host.store.fleet());
    let bucket = clock.clock().bucket(&FleetStore::key());
    let before = clock.clock().now();
    let other = other.store.fleet();
    let serving = tokio::task::spawn_blocking(move || {
        assert_eq!(other.replace(0, "{}", "other", Vec::new()).unwrap(), Some(1));
        fleet.read().unwrap()
    });
    assert_eq!(serving.await.unwrap(), ServingRow { revision: 1, record: "{}".to_owned() });
    // A host that has read the record knows of the change.
    assert!(!clock.clock().is_unchanged_since(before, bucket));
}

#[tokio::test]
async fn hosts_report_and_fetch_components_while_a_standby_stands_still_and_all_connections_for_writes_are_busy() {
    let Some(server) = start(&[]) else { return };
    let host = Host::open(&server.new_database("reports"));
    let standby = server.start_standby();
    let (fleet, link) = (host.store.fleet(), host.store.present_link().unwrap());
    let publishing = fleet.clone();
    let published = move || publishing.put_component("digest", vec![1; 5 << 20], None).unwrap();
    tokio::task::spawn_blocking(published).await.unwrap();
    standby.signal_all("STOP");
    let mut busy = Vec::new();
    for _ in 0..4 {
        busy.push(link.writers().idle().await.unwrap());
    }
    let reporting = move || {
        let began = Instant::now();
        fleet.report("one", "{}").unwrap();
        fleet.report("two", "{\"version\":\"2\"}").unwrap();
        let hosts = fleet.hosts().unwrap();
        let names: Vec<&str> = hosts.iter().map(|host| &*host.instance).collect();
        assert_eq!(names, ["one", "two"]);
        assert!(hosts[1].report.contains("version") && hosts[1].age < Duration::from_secs(60));
        fleet.leave("one").unwrap();
        assert_eq!(fleet.hosts().unwrap().len(), 1);
        assert_eq!(fleet.component("digest").unwrap().unwrap().0.len(), 5 << 20);
        assert!(fleet.component("another").unwrap().is_none());
        assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
    };
    tokio::task::spawn_blocking(reporting).await.unwrap();
    standby.signal_all("CONT");
}

#[tokio::test]
async fn a_component_whose_connection_is_ended_can_be_asked_for_again() {
    let Some(server) = start(&[]) else { return };
    let url = server.new_database("ended");
    let host = Host::open(&url);
    let fleet = host.store.fleet();
    let control = connect(&url).await;
    control.batch_execute("begin; lock table hexad.component;").await.unwrap();
    let fetching = fleet.clone();
    let fetched = tokio::task::spawn_blocking(move || fetching.component("digest"));
    let end = "select count(pg_terminate_backend(pid)) from pg_stat_activity where wait_event_type = 'Lock';";
    wait_until(SOON, "the statement to wait for the lock", || server.sql(end).trim() != "0");
    let error = fetched.await.unwrap().unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unavailable(_)), "{error}");
    control.batch_execute("commit").await.unwrap();
    assert_eq!(host.status().reconnects, 0, "the others stay");
    assert!(tokio::task::spawn_blocking(move || fleet.component("digest")).await.unwrap().unwrap().is_none());
}
