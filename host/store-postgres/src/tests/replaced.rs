//! A database that is replaced while a host uses it.

use hexad_store::StoreProblem;

use super::*;

/// Renames a database. The connections of hosts end, and the server takes no others before the database has its new
/// name.
fn rename(server: &Server, from: &str, to: &str) {
    server.sql(&format!(
        "alter database {from} allow_connections false;
         select pg_terminate_backend(pid, 60000) from pg_stat_activity where datname = '{from}';
         alter database {from} rename to {to};
         alter database {to} allow_connections true;"
    ));
}

/// Waits until the host reports this problem.
async fn until_reason(host: &Host, problem: StoreProblem, part: &str) {
    let is_said = || {
        let failure = host.store.health().failure();
        failure.is_some_and(|failure| failure.problem == problem && failure.reason.contains(part))
    };
    wait_until_async(SOON, &format!("the reason `{part}`"), async || is_said()).await;
}

#[tokio::test]
async fn a_database_that_is_made_anew_is_refused_until_the_store_is_restored() {
    let Some(server) = start(&[]) else { return };
    let host = Host::open(&server.new_database("forge"));
    let backend = host.store.backend(0);
    write(&*backend, "a", b"1").await;
    let dump = server.dump("forge");
    write(&*backend, "a", b"2").await;
    assert_eq!(read(&*backend, "a").await.unwrap(), b"2");
    let under_way = Ledger::default();
    backend.bind_reads(&under_way);

    server.sql("drop database forge with (force);");
    until_reason(&host, StoreProblem::Unusable, "does not exist").await;
    server.new_database("forge");
    until_reason(&host, StoreProblem::Unusable, "restore the database, and the host goes on by itself").await;
    let error = backend.get(&key("a")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable(StoreProblem::Unusable), "{error}");
    assert_eq!(server.sql_in("forge", "select to_regnamespace('hexad') is null;").trim(), "t", "it makes no tables");

    // The dump is older than the values in the host's memory.
    server.sql_in("forge", &dump);
    assert_eq!(until_readable(&*backend, "a").await.unwrap(), b"1");
    host.until_problem(None).await;
    let rows = "select (select count(*) from hexad.format), (select count(*) from hexad.horizon),
                       (select count(*) from hexad.era);";
    assert_eq!(server.sql_in("forge", rows).trim(), "1|1|1");
    assert_eq!(backend.losses(), 1, "instances from before take no more requests");
    // The values that this request has read may be gone.
    let error = backend.cas(&under_way, key("root"), None, b"names it".to_vec()).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unavailable(_)), "{error}");
    write(&*backend, "root", b"1").await;
}

#[tokio::test]
async fn another_store_of_the_same_name_is_refused() {
    let Some(server) = start(&[]) else { return };
    let (url, other) = (server.new_database("forge"), server.new_database("other"));
    let host = Host::open(&url);
    let backend = host.store.backend(0);
    write(&*backend, "a", b"1").await;
    drop(Host::open(&other));

    rename(&server, "forge", "kept");
    rename(&server, "other", "forge");
    until_reason(&host, StoreProblem::Unusable, "another store than before").await;
    let ledger = Ledger::default();
    let queued = backend.set(&ledger, key("a"), b"2".to_vec(), permit()).await;
    queued.and(backend.durable(&ledger).await).unwrap_err();
    assert_eq!(server.sql_in("forge", "select count(*) from hexad.kv where store = 'default';").trim(), "0");
    // A newly started host accepts this store.
    drop(Host::open(&url));

    rename(&server, "forge", "other");
    rename(&server, "kept", "forge");
    assert_eq!(until_readable(&*backend, "a").await.unwrap(), b"1");
    host.until_problem(None).await;
    assert_eq!(backend.losses(), 0);
}

#[tokio::test]
async fn tables_that_are_replaced_under_open_connections_are_read_anew() {
    let Some(server) = start(&[]) else { return };
    let host = Host::open(&server.new_database("forge"));
    let backend = host.store.backend(0);
    write(&*backend, "a", b"1").await;
    let dump = server.dump("forge");
    write(&*backend, "a", b"2").await;
    assert_eq!(read(&*backend, "a").await.unwrap(), b"2");
    server.sql_in("forge", &format!("begin;\ndrop schema hexad cascade;\n{dump}\ncommit;"));
    assert_eq!(until_readable(&*backend, "a").await.unwrap(), b"1", "the dump is older than what is remembered");
    assert!(host.status().reconnects > 0);
    assert_eq!(backend.losses(), 1);
    write(&*backend, "a", b"3").await;
    assert_eq!(read(&*backend, "a").await.unwrap(), b"3");
}

#[tokio::test]
async fn a_store_of_an_earlier_build_gets_one_id_of_all_hosts() {
    let Some(server) = start(&[]) else { return };
    let (url, other) = (server.new_database("forge"), server.new_database("other"));
    drop(Host::open(&url));
    // As an earlier build left it.
    server.sql_in("forge", "delete from hexad.kv;");
    let id_of = |host: &Host| host.store.present_link().unwrap().store_id.clone();
    let hosts = std::thread::scope(|scope| {
        let hosts: Vec<_> = (0..4).map(|_| scope.spawn(|| Host::open(&url))).collect();
        hosts.into_iter().map(|host| host.join().unwrap()).collect::<Vec<_>>()
    });
    let id = id_of(&hosts[0]);
    assert!(hosts.iter().all(|host| id_of(host) == id));
    assert_ne!(id, id_of(&Host::open(&other)));

    // A host that knows the id makes no other one.
    server.sql_in(
        "forge",
        "delete from hexad.kv;
         select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'hexad';",
    );
    until_reason(&hosts[0], StoreProblem::Unusable, "another store than before").await;
    assert_eq!(server.sql_in("forge", "select count(*) from hexad.kv;").trim(), "0");
}

#[tokio::test]
async fn a_server_without_the_store_does_not_take_the_place_of_one_that_is_away() {
    let (Some(mut first), Some(second)) = (start(&[]), start(&[])) else { return };
    first.new_database("forge");
    second.new_database("forge");
    let url = format!("postgres://postgres@127.0.0.1:{},127.0.0.1:{}/forge", first.port(), second.port());
    first.kill();
    let refused = Host::try_open(&url, &Passwords::default()).err().unwrap().to_string();
    assert!(refused.contains("none is made while another server"), "{refused}");
    first.resume();
    let host = Host::open(&url);
    let backend = host.store.backend(0);
    write(&*backend, "a", b"1").await;
    first.kill();
    // The first server may return at any time.
    until_reason(&host, StoreProblem::Unavailable, "the tables of the store are gone").await;
    assert_eq!(second.sql_in("forge", "select to_regnamespace('hexad') is null;").trim(), "t");
    first.resume();
    assert_eq!(until_readable(&*backend, "a").await.unwrap(), b"1");
}
