//! A dump that was restored on another server.

use std::sync::Arc;

use hexad_store::Watch;

use super::*;

/// Uses up transaction ids.
const AGE: &str = "do $$ begin for i in 1..20000 loop perform pg_current_xact_id(); commit; end loop; end $$;";

/// Reads a cached value, and follows the hosts' shared record, as requests do.
async fn use_as_before(host: &Host, value: &[u8]) {
    let (backend, fleet) = (host.store.backend(0), host.store.fleet());
    let followed = Arc::new(Watch::new(fleet.clock(), &FleetStore::key()));
    read(&*backend, "a").await;
    followed.record_applied(fleet.clock().now());
    let before = host.status().reads;
    for _ in 0..5 {
        assert_eq!(read(&*backend, "a").await.unwrap(), value);
        assert!(followed.is_applied(fleet.clock()), "each request finds a change of what the hosts serve");
    }
    assert_eq!(host.status().reads, before, "nothing that is remembered is believed");
}

#[tokio::test]
async fn a_restored_dump_is_used_as_the_store_before() {
    let (Some(old), Some(new)) = (start(&[]), start(&[])) else { return };
    let host = Host::open(&old.new_database("forge"));
    old.sql(AGE);
    write(&*host.store.backend(0), "a", b"1").await;
    // Some of its changes are pruned, and some are not.
    old.sql_in("forge", "update hexad.change set at = now() - interval '11 minutes';");
    old.sql_in("forge", sql::PRUNE);
    write(&*host.store.backend(0), "a", b"2").await;
    drop(host);

    let url = new.new_database("forge");
    new.sql_in("forge", &old.dump("forge"));
    let foreign = "select (select pruned from hexad.horizon) > pg_snapshot_xmax(pg_current_snapshot())
                   and exists(select from hexad.change where xid > pg_snapshot_xmax(pg_current_snapshot()));";
    assert_eq!(new.sql_in("forge", foreign).trim(), "t", "the new server is younger");
    let host = Host::open(&url);
    use_as_before(&host, b"2").await;
    let other = Host::open(&url);
    write(&*other.store.backend(0), "a", b"3").await;
    assert_eq!(read(&*host.store.backend(0), "a").await.unwrap(), b"3");
    use_as_before(&host, b"3").await;
}

#[tokio::test]
async fn a_host_that_connects_forgets_no_change_of_its_server() {
    let Some(server) = start(&[]) else { return };
    let url = server.new_database("forge");
    let host = Host::open(&url);
    write(&*host.store.backend(0), "a", b"1").await;
    let long = connect(&url).await;
    long.batch_execute("begin; insert into hexad.change (store, keys) values ('default', '{a}');").await.unwrap();
    write(&*host.store.backend(0), "a", b"2").await;
    // Leaves out the values of the hosts' probes.
    let count = "select count(*) from hexad.change where store = 'default';";
    let before = server.sql_in("forge", count);
    drop(Host::open(&url));
    assert_eq!(server.sql_in("forge", count), before);
    long.batch_execute("commit").await.unwrap();
    assert_ne!(server.sql_in("forge", count), before);
}
