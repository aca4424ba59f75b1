//! Faults of the tables that a host finds when it connects again.

use hexad_store::StoreProblem;
use hexad_testing::wait::wait_until;

use super::unusable::host;
use super::*;

/// Ends the connections of hosts.
const TERMINATE: &str = "select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'hexad';";

#[tokio::test]
async fn a_fault_of_the_tables_is_the_same_problem_after_a_reconnect() {
    let Some(server) = start(&[]) else { return };
    let host = host(&server, "faults");
    let backend = host.store.backend(0);
    for (fault, undo, reason) in [
        ("alter schema hexad owner to postgres;", "alter schema hexad owner to tenant;", "permission denied"),
        ("revoke all on hexad.kv from tenant;", "grant all on hexad.kv to tenant;", "lacks rights"),
        ("alter table hexad.change rename keys to k;", "alter table hexad.change rename k to keys;", "keys"),
        (
            "alter table hexad.format rename to f;",
            "alter table hexad.f rename to format;",
            "tables of the store are gone",
        ),
        ("delete from hexad.horizon;", "insert into hexad.horizon values ('0');", "hexad.horizon has no row"),
        ("delete from hexad.format;", "insert into hexad.format values (1);", "hexad.format has no row"),
        ("update hexad.format set version = 2;", "update hexad.format set version = 1;", "format 2"),
        (
            "delete from hexad.serving;",
            "insert into hexad.serving (revision, record) values (0, '{}');",
            "hexad.serving has no row",
        ),
    ] {
        server.sql_in("faults", &format!("{fault} {TERMINATE}"));
        wait_until_async(SOON, "the end of the connections", async || host.store.present_link().is_err()).await;
        let is_said = || {
            let failure = host.store.health().failure();
            failure.is_some_and(|failure| failure.reason.contains(reason))
        };
        wait_until_async(SOON, &format!("the reason `{reason}`"), async || is_said()).await;
        assert_eq!(host.problem(), Some(StoreProblem::Unusable), "{fault}");
        let error = backend.get(&key("a")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable(StoreProblem::Unusable), "{fault} {error}");
        server.sql_in("faults", undo);
        host.until_problem(None).await;
        assert_eq!(until_readable(&*backend, "a").await, None);
    }
}

#[tokio::test]
async fn a_host_that_gives_up_while_a_table_is_locked_leaves_no_process_behind() {
    const WAITING: &str = "select count(*) from pg_stat_activity
                           where application_name = 'hexad' and wait_event_type = 'Lock';";
    let Some(server) = start(&[]) else { return };
    let url = server.new_database("locked");
    let host = Host::open(&url);
    let other = connect(&url).await;
    other.batch_execute("begin; lock table hexad.change in access exclusive mode;").await.unwrap();
    server.sql(TERMINATE);
    let waits = || server.sql(WAITING).trim() != "0";
    wait_until(SOON, "the host's process to wait for the lock", waits);
    drop(host);
    wait_until(SOON, "the host's process to end", || !waits());
    other.batch_execute("rollback").await.unwrap();
    drop(Host::open(&url));
}
