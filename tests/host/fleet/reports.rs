//! A host's report of a swap.

use super::*;

/// Makes a host that stores this component for the other hosts wait for the session that holds the lock.
fn wait_for_lock(digest: &str) -> String {
    format!(
        "create function wait_for_lock() returns trigger language plpgsql as
             'begin perform pg_advisory_xact_lock(7); return new; end';
         create trigger wait_for_lock before insert on hexad.component for each row when (new.digest = '{digest}')
             execute function wait_for_lock();"
    )
}

#[test]
fn a_concurrent_swap_of_another_host_becomes_the_rollback_target() {
    let Some(fleet) = Fleet::start() else { return };
    let hosts = [fleet.host(&[]), fleet.host(&[])];
    let [held, other] = [1, 2].map(|number| digests(&[number]));
    fleet.database.sql_in("fleet", &wait_for_lock(&held));
    std::thread::scope(|scope| {
        let holder = "select pg_advisory_lock(7); select pg_sleep(600);";
        let holder = scope.spawn(|| fleet.database.try_sql_in("fleet", holder));
        let is_there = |event: &str| {
            let query = format!("select count(*) from pg_stat_activity where wait_event = '{event}';");
            fleet.database.sql(&query).trim() == "1"
        };
        wait_until(SOON, "the session that holds the lock", || is_there("PgSleep"));
        let swap = scope.spawn(|| hosts[0].operator().swap("hello", &version(1)).json());
        wait_until(SOON, "the swap to wait for the lock", || {
            assert!(!swap.is_finished(), "it has waited for no lock");
            is_there("advisory")
        });
        let first = hosts[1].operator().swap("hello", &version(2)).json();
        assert_eq!((&first["digest"], &first["previous"]), (&other.as_str().into(), &digests(&[0]).into()));
        fleet.database.sql("select pg_terminate_backend(pid) from pg_stat_activity where wait_event = 'PgSleep';");
        assert!(holder.join().expect("psql ran").is_none(), "its session was ended");
        let second = swap.join().expect("a swap");
        assert_eq!((&second["digest"], &second["previous"]), (&held.into(), &other.into()));
    });
    let rolled_back = hosts[0].operator().post("/components/hello/rollback").json();
    assert_eq!((&rolled_back["digest"], &rolled_back["previous"]), (&digests(&[2]).into(), &digests(&[1]).into()));
    assert_eq!(hosts.each_ref().map(Member::serves), [2; 2]);
    // The rollback target of a canary is the active component.
    let canary = hosts[1].operator().swap("hello?percent=100&window=1h", &version(3)).json();
    assert_eq!(canary["previous"], digests(&[2]));
}

#[test]
fn a_rollback_restores_the_previous_version_that_a_promotion_reported() {
    let Some(fleet) = Fleet::start() else { return };
    let (first, second) = (fleet.host(&[]), fleet.host(&[]));
    let operator = first.operator();
    assert_eq!(operator.swap("hello", &version(1)).status, 200);
    // After its restart, the second host has not loaded the previous component.
    let second = fleet.host_again(second.stop());
    assert_eq!(second.serves(), 1);
    let canary = operator.swap("hello?percent=100&window=1h", &version(2)).json();
    assert_eq!(canary["previous"], digests(&[1]));
    let promoted = second.operator().post("/components/hello/promote").json();
    assert_eq!((&promoted["digest"], &promoted["previous"]), (&digests(&[2]).into(), &digests(&[1]).into()));
    let rolled_back = second.operator().post("/components/hello/rollback").json();
    assert_eq!((&rolled_back["digest"], &rolled_back["previous"]), (&digests(&[1]).into(), &digests(&[2]).into()));
    assert_eq!([first.serves(), second.serves()], [1; 2]);
}

#[test]
fn a_host_with_deployments_of_its_own_names_the_rollback_target_of_all() {
    let Some(fleet) = Fleet::start() else { return };
    let first = fleet.host(&[]);
    let alone = host_alone();
    for number in [1, 2] {
        assert_eq!(alone.operator().swap("hello", &version(number)).status, 200);
    }
    assert_eq!(alone.operator().get("/components").json()[0]["previous"], digests(&[1]));
    let second = fleet.host_again(alone.stop());
    let previous = || second.operator().get("/components").json()[0]["previous"].clone();
    assert_eq!((second.serves(), previous()), (0, Value::Null));
    assert_eq!(first.operator().swap("hello", &version(3)).status, 200);
    assert_eq!((second.serves(), previous()), (3, digests(&[0]).into()));
}
