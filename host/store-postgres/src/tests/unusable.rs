//! Tables that are missing, closed, damaged or incomplete.

use hexad_store::StoreProblem;

use super::*;

/// A host whose user is no superuser.
pub fn host(server: &Server, database: &str) -> Host {
    server.sql("do $$ begin if to_regrole('tenant') is null then create role tenant login; end if; end $$;");
    server.sql(&format!("create database {database} owner tenant;"));
    Host::open(&server.url("tenant", database))
}

impl Host {
    pub fn problem(&self) -> Option<StoreProblem> {
        self.store.health().failure().map(|failure| failure.problem)
    }

    pub async fn until_problem(&self, problem: Option<StoreProblem>) {
        wait_until_async(SOON, &format!("the problem {problem:?}"), async || self.problem() == problem).await;
    }

    /// Waits until a probe has settled the host's suspicion.
    async fn until_probed(&self) {
        wait_until_async(SOON, "the end of a probe", async || !self.store.health().is_suspected()).await;
    }
}

async fn set(backend: &dyn Backend, name: &str) -> Result<(), StoreError> {
    let ledger = Ledger::default();
    let queued = backend.set(&ledger, key(name), vec![1], permit()).await;
    queued.and(backend.durable(&ledger).await)
}

#[tokio::test]
async fn a_host_whose_table_is_away_or_closed_is_not_ready_until_it_can_use_it() {
    let Some(server) = start(&[]) else { return };
    let host = host(&server, "away");
    let backend = host.store.backend(0);
    write(&*backend, "a", b"1").await;
    for (away, back, reason) in [
        ("alter table hexad.kv rename to k2;", "alter table hexad.k2 rename to kv;", "hexad.kv"),
        ("revoke all on hexad.kv from tenant;", "grant all on hexad.kv to tenant;", "permission denied"),
        ("alter table hexad.kv rename value to v;", "alter table hexad.kv rename v to value;", "value"),
        ("alter schema hexad rename to h2;", "alter schema h2 rename to hexad;", "hexad"),
    ] {
        for reads in [true, false] {
            server.sql_in("away", away);
            let error = match reads {
                true => backend.get(&key("other")).await.map(drop).unwrap_err(),
                false => set(&*backend, "b").await.unwrap_err(),
            };
            assert_eq!(error.kind(), ErrorKind::Unavailable(StoreProblem::Unusable), "{away} {error}");
            let failure = host.store.health().failure().unwrap();
            assert_eq!(failure.problem, StoreProblem::Unusable);
            assert!(failure.reason.contains(reason), "{}", failure.reason);
            server.sql_in("away", back);
            host.until_problem(None).await;
            set(&*backend, "b").await.unwrap();
        }
    }
    let left = "select count(*) from hexad.kv where key like 'write-probe%';";
    assert_eq!(server.sql_in("away", left).trim(), "0", "the probe leaves nothing");
}

#[tokio::test]
async fn a_host_is_not_ready_until_a_page_that_was_damaged_can_be_read() {
    let Some(server) = start(&[]) else { return };
    let host = host(&server, "damaged");
    let backend = host.store.backend(0);
    write(&*backend, "bad", b"1").await;
    write(&*backend, "good", b"1").await;
    // The server refuses this key alone, as for a damaged page. `force` is needed because the user owns the table.
    server.sql_in(
        "damaged",
        "create function hexad.read_page(key text) returns boolean language plpgsql as $$ begin
             if key = 'bad' then raise 'invalid page in block 7' using errcode = 'XX001'; end if;
             return true;
         end $$;
         create policy page on hexad.kv using (hexad.read_page(key));
         alter table hexad.kv enable row level security, force row level security;",
    );
    let error = host.store.backend(1).get(&key("bad")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable(StoreProblem::Damaged), "{error}");
    assert_eq!(host.problem(), Some(StoreProblem::Damaged));
    // Requests and probes can still read and write other keys.
    host.store.health().suspect();
    let barriers = || host.status().barriers;
    let before = barriers();
    wait_until_async(SOON, "responses to three barriers", async || barriers() >= before + 3).await;
    assert_eq!(host.problem(), Some(StoreProblem::Damaged));
    assert_eq!(&*host.store.health().failure().unwrap().reason, "invalid page in block 7");
    server.sql_in("damaged", "alter table hexad.kv disable row level security;");
    host.until_problem(None).await;
    assert_eq!(read(&*host.store.backend(1), "bad").await.unwrap(), b"1");
}

#[tokio::test]
async fn a_request_that_fails_for_its_own_sake_makes_no_host_unready() {
    let Some(server) = start(&[]) else { return };
    let host = host(&server, "odd");
    let backend = host.store.backend(0);
    server.sql_in(
        "odd",
        "create function refuse() returns trigger language plpgsql as 'begin raise ''odd''; end';
         create trigger refuse before insert on hexad.kv for each row when (new.key = 'odd')
         execute function refuse();",
    );
    for name in ["odd", "no text: \0"] {
        let error = set(&*backend, name).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Fault, "{error}");
        assert_eq!(host.problem(), None);
        host.until_probed().await;
        assert_eq!(host.problem(), None);
    }
    backend.get(&key("no text: \0")).await.unwrap_err();
    assert_eq!(host.problem(), None);
    host.until_probed().await;
    assert_eq!(host.problem(), None);

    // The probe finds a trigger that refuses every write.
    server.sql_in(
        "odd",
        "drop trigger refuse on hexad.kv;
         create trigger refuse before insert on hexad.kv for each row execute function refuse();",
    );
    let error = set(&*backend, "any").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Fault, "{error}");
    host.until_problem(Some(StoreProblem::Unusable)).await;
    server.sql_in("odd", "drop trigger refuse on hexad.kv;");
    host.until_problem(None).await;
}

#[tokio::test]
async fn a_write_that_the_server_leaves_out_is_not_acknowledged() {
    let Some(server) = start(&[]) else { return };
    let host = host(&server, "silent");
    let backend = host.store.backend(0);
    server.sql_in(
        "silent",
        "create function leave_out() returns trigger language plpgsql as 'begin return null; end';
         create trigger leave_out before insert on hexad.kv for each row when (new.key = 'odd')
         execute function leave_out();",
    );
    set(&*backend, "even").await.unwrap();
    let error = set(&*backend, "odd").await.unwrap_err();
    assert!(error.to_string().contains("trigger"), "{error}");
    server.sql_in("silent", "drop trigger leave_out on hexad.kv;");
    host.until_problem(None).await;
    set(&*backend, "odd").await.unwrap();
}

#[tokio::test]
async fn a_host_is_not_ready_while_its_barriers_fail() {
    let Some(server) = start(&[]) else { return };
    let host = host(&server, "barriers");
    server.sql_in(
        "barriers",
        "create function hexad.fail(store text) returns boolean language plpgsql as $$ begin
             raise 'no reason';
         end $$;
         create policy fail on hexad.change using (hexad.fail(store));
         insert into hexad.change (store, keys) values ('default', '{a}');
         alter table hexad.change enable row level security, force row level security;",
    );
    host.until_problem(Some(StoreProblem::Unavailable)).await;
    assert_eq!(&*host.store.health().failure().unwrap().reason, "the storage engine failed: no reason");
    server.sql_in("barriers", "alter table hexad.change disable row level security;");
    host.until_problem(None).await;
}

#[tokio::test]
async fn a_table_that_has_lost_its_row_is_named() {
    let Some(server) = start(&[]) else { return };
    let host = host(&server, "rows");
    let (backend, fleet) = (host.store.backend(0), host.store.fleet());
    fleet.read().unwrap();
    for (table, restore) in [
        ("horizon", "insert into hexad.horizon values ('0');"),
        ("serving", "insert into hexad.serving (revision, record) values (0, '{}');"),
    ] {
        server.sql_in("rows", &format!("delete from hexad.{table};"));
        let error = match table {
            "horizon" => backend.get(&key("any")).await.map(drop).unwrap_err(),
            _ => fleet.read().map(drop).unwrap_err(),
        };
        let named = format!("hexad.{table} has no row");
        assert!(error.to_string().contains(&named), "{error}");
        assert_eq!(error.kind(), ErrorKind::Unavailable(StoreProblem::Unusable));
        let failure = host.store.health().failure().unwrap();
        assert!(failure.problem == StoreProblem::Unusable && failure.reason.contains(&named), "{}", failure.reason);
        let refused = Host::try_open(&server.url("tenant", "rows"), &Passwords::default()).err().unwrap().to_string();
        assert!(refused.contains(&named), "{refused}");
        assert_eq!(host.status().reconnects, 0, "the connections are of use");
        server.sql_in("rows", restore);
        host.until_problem(None).await;
    }
}

#[test]
fn tables_are_not_made_where_none_are_expected() {
    let Some(server) = start(&[]) else { return };
    let url = server.new_database("none");
    let options = PostgresOptions::new(StoreUrl::parse(&url, &Passwords::default()).unwrap(), 1, Duration::ZERO);
    let refused = Host::open_with(&PostgresOptions { creates: false, ..options.clone() }).err().unwrap().to_string();
    assert!(refused.contains("there is no store in it"), "{refused}");
    assert_eq!(server.sql_in("none", "select to_regnamespace('hexad') is null;").trim(), "t");
    drop(Host::open_with(&options).unwrap());
    drop(Host::open_with(&PostgresOptions { creates: false, ..options }).unwrap());
}
