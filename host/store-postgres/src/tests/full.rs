//! A server without disk space.

use hexad_store::StoreProblem;

use super::*;

#[tokio::test]
async fn a_host_whose_server_has_no_room_is_not_ready_until_it_has() {
    let Some(server) = start(&[]) else { return };
    let host = Host::open(&server.new_database("crowded"));
    let backend = host.store.backend(0);
    let problem = || host.store.health().failure().map(|failure| failure.problem);
    server.sql_in("crowded", half_done::FULL_DISK);
    let ledger = Ledger::default();
    backend.set(&ledger, key("a"), vec![1; 100_000], permit()).await.unwrap();
    backend.durable(&ledger).await.unwrap_err();
    assert_eq!(problem(), Some(StoreProblem::Full));
    // A response of the server does not end the outage.
    let responses = || host.status();
    let before = responses().barriers;
    wait_until_async(SOON, "responses to three barriers", async || responses().barriers >= before + 3).await;
    assert_eq!(problem(), Some(StoreProblem::Full));
    server.sql_in("crowded", "drop trigger full_disk on hexad.kv;");
    wait_until_async(SOON, "the end of the problem", async || problem().is_none()).await;
    assert_eq!(
        server.sql_in("crowded", "select count(*) from hexad.kv where key like 'write-probe%';").trim(),
        "0",
        "the probe leaves nothing"
    );
    // A refused swap counts too.
    server.sql_in("crowded", "create trigger full_disk before insert on hexad.kv execute function full_disk();");
    backend.cas(&Ledger::default(), key("root"), None, b"1".to_vec()).await.unwrap_err();
    assert_eq!(problem(), Some(StoreProblem::Full));
}

#[tokio::test]
async fn a_host_that_starts_on_a_server_without_room_is_not_ready() {
    let Some(server) = start(&[]) else { return };
    let url = server.new_database("crowded");
    drop(Host::open(&url));
    server.sql_in("crowded", half_done::FULL_DISK);
    let host = Host::open(&url);
    assert_eq!(host.problem(), Some(StoreProblem::Full));
    server.sql_in("crowded", "drop trigger full_disk on hexad.kv;");
    host.until_problem(None).await;
}
