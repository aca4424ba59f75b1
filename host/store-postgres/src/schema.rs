//! The tables, and whether a server can hold them.

use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error};

use super::open_error::PostgresOpenError;

/// The format of the tables that this build writes. It also reads the format before.
const FORMAT: i32 = 1;

/// The format during a copy from another store. No build reads it, not even one that is older than copies.
const UNFINISHED: i32 = i32::MAX;

/// The oldest server, as `server_version_num`.
const OLDEST_SERVER: i32 = 140_000;

/// The key of the advisory lock for making tables: any number that no other program uses.
const SETUP_LOCK: i64 = 0x6865_7861_6400;

/// `change` has the keys of each transaction; `horizon` has the last transaction that was pruned from `change`.
/// `serving`, `component`, `host` and `audit` are about the hosts ([`fleet`](super::fleet)). The table `era` is
/// unlogged, so it is empty after a crash and on a promoted standby. The id in it is the timeline: it changes whenever
/// the server may have lost transactions that were committed asynchronously.
const TABLES: &str = r#"
-- To make one asks for a right of the database, also if it is there.
do $$ begin
    if to_regnamespace('hexad') is null then create schema hexad; end if;
end $$;
create table hexad.format (version integer not null);
create table hexad.kv (
    store text collate "C" not null, key text collate "C" not null, value bytea not null,
    primary key (store, key)
);
alter table hexad.kv alter column value set storage external;
create table hexad.change (
    xid xid8 not null default pg_current_xact_id(), at timestamptz not null default now(),
    store text not null, keys text[] not null
);
create index change_xid on hexad.change (xid);
create index change_at on hexad.change (at);
create table hexad.horizon (pruned xid8 not null);
insert into hexad.horizon values ('0');
create table hexad.serving (
    single boolean primary key default true check (single), revision bigint not null, record text not null
);
insert into hexad.serving (revision, record) values (0, '{}');
create table hexad.component (
    digest text primary key, at timestamptz not null default now(), wasm bytea not null, signature bytea
);
alter table hexad.component alter column wasm set storage external;
create table hexad.host (name text primary key, seen timestamptz not null default now(), report text not null);
create table hexad.audit (
    id bigint generated always as identity primary key, at timestamptz not null default now(),
    host text not null, entry text not null
);
create unlogged table hexad.era (single boolean primary key default true check (single), id text not null);
"#;

/// A restored dump has changes with transaction ids of another server, which this server may not reach for years. Hosts
/// would take each snapshot for an older one than these changes, and never trust a read. A change that committed here
/// and that this statement sees is older than the statement's snapshot. So the statement removes no change of this
/// server, however many hosts use it meanwhile. If a crash undoes the removal, a later connection repeats it.
const FORGET_OTHER_SERVERS: &str = "
    with foreign_changes as (
        delete from hexad.change where xid >= pg_snapshot_xmax(pg_current_snapshot())
    ), foreign_horizon as (
        update hexad.horizon set pruned = '0' where pruned >= pg_snapshot_xmax(pg_current_snapshot())
    )
    select set_config('synchronous_commit', 'off', true)";

/// The id of the store, made at random by the first host that opens it; earlier builds made none. It is stored with the
/// values, under the host's own label. There it needs no right but to write values, and earlier builds ignore it. A
/// store without it does not have its values back yet. The statement names the primary key: a restore makes the key
/// after all rows, and nothing may be added before. A host can start while a standby is stopped, so the commit waits
/// for the server's own disk only.
const MAKE_STORE_ID: &str = "
    with made as (
        insert into hexad.kv (store, key, value)
        values ('.hexad', 'store-id', convert_to(gen_random_uuid()::text, 'UTF8'))
        on conflict (store, key) do nothing
    )
    select set_config('synchronous_commit', 'local', true)";

const STORE_ID: &str = "select value from hexad.kv where store = '.hexad' and key = 'store-id'";

/// Whether the server takes writes, and can hold the tables.
pub async fn check_server(client: &Client) -> Result<(), PostgresOpenError> {
    let row = client
        .query_one(
            "select pg_is_in_recovery(), current_setting('server_version_num')::int, current_setting('server_encoding'),
                    current_setting('server_version'), current_setting('transaction_read_only')::bool",
            &[],
        )
        .await?;
    ServerState {
        is_standby: row.try_get(0)?,
        version_number: row.try_get(1)?,
        encoding: row.try_get(2)?,
        version: row.try_get(3)?,
        is_read_only: row.try_get(4)?,
    }
    .check()
}

/// The properties that decide whether a server can hold the tables.
struct ServerState<'a> {
    is_standby: bool,
    /// `server_version_num`: 150013 for 15.13.
    version_number: i32,
    version: &'a str,
    encoding: &'a str,
    is_read_only: bool,
}

impl ServerState<'_> {
    fn check(&self) -> Result<(), PostgresOpenError> {
        if self.version_number < OLDEST_SERVER {
            return Err(PostgresOpenError::TooOld { version: self.version.to_owned() });
        }
        if self.is_standby {
            return Err(PostgresOpenError::Standby);
        }
        if self.encoding != "UTF8" {
            return Err(PostgresOpenError::Encoding { encoding: self.encoding.to_owned() });
        }
        match self.is_read_only {
            true => Err(PostgresOpenError::ReadOnly),
            false => Ok(()),
        }
    }
}

/// Makes missing tables if `creates`, and checks that this build and its user can use them.
pub async fn prepare(client: &mut Client, creates: bool) -> Result<(), PostgresOpenError> {
    match try_prepare(client, creates).await {
        Err(PostgresOpenError::Server(error)) if error.code() == Some(&SqlState::INSUFFICIENT_PRIVILEGE) => {
            let reason = error.as_db_error().map(|error| error.message().to_owned()).unwrap_or_default();
            Err(PostgresOpenError::NoRights { reason })
        }
        outcome => outcome,
    }
}

async fn try_prepare(client: &mut Client, creates: bool) -> Result<(), PostgresOpenError> {
    if !has_tables(client).await? {
        if !creates {
            return Err(PostgresOpenError::NoStore);
        }
        // Locked before the transaction begins: inside it, the session sees no new tables.
        client.execute("select pg_advisory_lock($1)", &[&SETUP_LOCK]).await?;
        // Another host may have made the tables meanwhile.
        if !has_tables(client).await? {
            let transaction = client.transaction().await?;
            transaction.batch_execute(TABLES).await?;
            transaction.execute("insert into hexad.format values ($1)", &[&FORMAT]).await?;
            transaction.commit().await?;
            tracing::warn!("there was no store in the database: an empty one was made");
        }
        client.execute("select pg_advisory_unlock($1)", &[&SETUP_LOCK]).await?;
    }
    let format = client.query_opt("select version from hexad.format", &[]).await?.ok_or(PostgresOpenError::NoFormat)?;
    match format.try_get(0)? {
        UNFINISHED => return Err(PostgresOpenError::Unfinished),
        found if found > FORMAT => return Err(PostgresOpenError::NewerFormat { found, reads: FORMAT }),
        _ => {}
    }
    // The check finds a missing right now, not at the first write.
    let can_write: bool = client
        .query_one(
            "select bool_and(has_table_privilege('hexad.' || t, p))
             from unnest(array['kv', 'change', 'horizon', 'era', 'serving', 'component', 'host', 'audit']) t,
                  unnest(array['select', 'insert', 'update', 'delete']) p",
            &[],
        )
        .await?
        .try_get(0)?;
    if !can_write {
        return Err(PostgresOpenError::NoRights {
            reason: "it may not write the tables of the schema hexad".to_owned(),
        });
    }
    for table in ["horizon", "serving"] {
        client
            .query_opt(&format!("select from hexad.{table} limit 1"), &[])
            .await?
            .ok_or(PostgresOpenError::NoRow(table))?;
    }
    Ok(())
}

/// Removes the changes of another server that a restored dump carries.
pub async fn forget_other_servers(client: &Client) -> Result<(), Error> {
    client.query_one(FORGET_OTHER_SERVERS, &[]).await.map(drop)
}

async fn has_tables(client: &Client) -> Result<bool, Error> {
    client.query_one("select to_regclass('hexad.format') is not null", &[]).await?.try_get(0)
}

/// Marks that a copy into the tables has begun, and that it is complete.
pub async fn mark_unfinished(client: &Client, is_unfinished: bool) -> Result<(), PostgresOpenError> {
    let format = if is_unfinished { UNFINISHED } else { FORMAT };
    client.execute("update hexad.format set version = $1", &[&format]).await?;
    Ok(())
}

/// The id of the store. If it has none, a host that opens it for the first time makes one. A host that has `known` one
/// refuses a store with another id.
pub async fn store_id(client: &Client, known: Option<&[u8]>) -> Result<Vec<u8>, PostgresOpenError> {
    let mut row = client.query_opt(STORE_ID, &[]).await?;
    if row.is_none() && known.is_none() {
        client.query_one(MAKE_STORE_ID, &[]).await?;
        // Another host may have made the id.
        row = client.query_opt(STORE_ID, &[]).await?;
    }
    let found: Vec<u8> = row.ok_or(PostgresOpenError::OtherStore)?.try_get(0)?;
    match known.is_none_or(|known| known == found) {
        true => Ok(found),
        false => Err(PostgresOpenError::OtherStore),
    }
}

/// Where and by which transaction the row of the format was written. A standby has the same value; restored tables have
/// another one.
pub async fn incarnation(client: &Client) -> Result<String, Error> {
    let read = "select tableoid::text || '/' || xmin::text from hexad.format";
    client.query_one(read, &[]).await?.try_get(0)
}

/// The id of the server's timeline, see [`TABLES`]. As in [`MAKE_STORE_ID`], the statement names the primary key.
pub async fn timeline(client: &Client) -> Result<String, Error> {
    let make = "insert into hexad.era (id) values (gen_random_uuid()::text) on conflict (single) do nothing";
    client.execute(make, &[]).await?;
    client.query_one("select id from hexad.era", &[]).await?.try_get(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Servers this old are no longer packaged, so the tests run none.
    #[test]
    fn a_server_before_14_is_too_old_even_as_a_standby() {
        let state = |version_number, version| ServerState {
            is_standby: true,
            version_number,
            version,
            encoding: "UTF8",
            is_read_only: false,
        };
        let error = state(130_021, "13.21").check().unwrap_err().to_string();
        assert!(error.contains("13.21") && error.contains("upgrade"), "{error}");
        assert!(matches!(state(140_000, "14.0").check(), Err(PostgresOpenError::Standby)));
        assert!(ServerState { is_standby: false, ..state(140_000, "14.0") }.check().is_ok());
    }
}
