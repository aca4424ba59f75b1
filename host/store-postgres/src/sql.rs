//! The statements. Each operation is one statement, so that no host holds a lock on a key between two
//! round trips.
//!
//! By default, a session commits synchronously. Only a write of a plain value, or of a volatile key, commits its own
//! transaction asynchronously. Every write adds a row to `hexad.change` that names its keys.

use std::sync::LazyLock;

/// A connection for reads makes its plans once, for tables of any size: a statement finds its rows by their key. By
/// default, PostgreSQL plans a barrier each time, which takes several times as long as the barrier.
pub const PLANS: &str = "
    set plan_cache_mode = force_generic_plan;
    set jit = off;
    set enable_seqscan = off;
    set enable_bitmapscan = off;
    set enable_hashjoin = off;
    set enable_mergejoin = off";

/// The columns of every read besides its result:
///
/// - the snapshot of the read;
/// - the last transaction that was pruned from `hexad.change`, and the number of the table `horizon`, which changes
///   when the tables are replaced;
/// - the keys that have changed since the snapshot `$1`, by transactions that began after it or ran in it.
///
/// A long transaction does not widen the search. The whole statement sees one snapshot. If it equals `$1`, no
/// transaction has ended since, and the statement reads no table.
const BARRIER_COLUMNS: &str = "
    pg_current_snapshot()::text,
    case when pg_current_snapshot()::text = $1::text then '0'
         else (select pruned::text || '/' || tableoid::text from hexad.horizon) end,
    case when pg_current_snapshot()::text = $1::text then array[]::text[] else array(
        select c.store || e'\\x01' || k from (
            select store, keys from hexad.change where xid >= pg_snapshot_xmax($1::text::pg_snapshot)
            union all
            select store, keys from hexad.change
            where xid = any(array(select pg_snapshot_xip($1::text::pg_snapshot)))
        ) c, unnest(c.keys) k
    ) end";

pub static BARRIER: LazyLock<String> = LazyLock::new(|| format!("select {BARRIER_COLUMNS}"));

/// The snapshot alone. It costs the server a third of [`BARRIER`], which opens its tables and prepares to read them
/// even if it then does not.
pub const SNAPSHOT: &str = "select pg_current_snapshot()::text";

pub static GET: LazyLock<String> = LazyLock::new(|| {
    format!("select {BARRIER_COLUMNS}, (select value from hexad.kv where store = $2::text and key = $3::text)")
});

pub static EXISTS: LazyLock<String> = LazyLock::new(|| {
    format!("select {BARRIER_COLUMNS}, exists(select from hexad.kv where store = $2::text and key = $3::text)")
});

/// The values in the order of the keys; null instead of the array if they have more than `$4` bytes.
pub static GET_MANY: LazyLock<String> = LazyLock::new(|| {
    format!(
        "select {BARRIER_COLUMNS}, (
            select case when coalesce(sum(octet_length(kv.value)), 0) <= $4::bigint
                        then coalesce(array_agg(kv.value order by wanted.place), array[]::bytea[]) end
            from unnest($2::text[], $3::text[]) with ordinality as wanted (store, key, place)
            left join hexad.kv kv on kv.store = wanted.store and kv.key = wanted.key
        )"
    )
});

/// `$5` sorts after every key with the prefix `$3`.
pub static LIST: LazyLock<String> = LazyLock::new(|| {
    format!(
        "select {BARRIER_COLUMNS}, array(
            select key from hexad.kv
            where store = $2::text and key >= $3::text and key > $4::text and key < $5::text
            order by key limit $6::bigint
        )"
    )
});

/// The hosts' shared record ([`fleet`](super::fleet)).
pub static SERVING: LazyLock<String> =
    LazyLock::new(|| format!("select {BARRIER_COLUMNS}, revision, record from hexad.serving"));

/// The hosts that reported within the last day: their keys, ages in seconds, and reports.
pub static HOSTS: LazyLock<String> = LazyLock::new(|| {
    format!(
        "select {BARRIER_COLUMNS}, known.names, known.ages, known.reports from (
            select coalesce(array_agg(name order by name), array[]::text[]) as names,
                   coalesce(array_agg(extract(epoch from clock_timestamp() - seen)::float8 order by name),
                            array[]::float8[]) as ages,
                   coalesce(array_agg(report order by name), array[]::text[]) as reports
            from hexad.host where seen > now() - interval '1 day'
        ) known"
    )
});

/// Locks the keys in order, so that two such statements cannot deadlock. Returns whether all values were written: a
/// trigger or a policy of the server's owner can leave out rows without an error.
pub const SET: &str = "
    with input as (
        select * from unnest($1::text[], $2::text[], $3::bytea[]) as input (store, key, value)
    ), written as (
        insert into hexad.kv (store, key, value) select store, key, value from input
        on conflict (store, key) do update set value = excluded.value returning 1
    ), noted as (
        insert into hexad.change (store, keys) select store, array_agg(key) from input group by store
    )
    select (select count(*) from written) = (select count(*) from input),
           set_config('synchronous_commit', 'off', true)";

pub const DELETE: &str = "
    with doomed as (
        select kv.store, kv.key from hexad.kv kv
        join unnest($1::text[], $2::text[]) as input (store, key) on kv.store = input.store and kv.key = input.key
        order by kv.store, kv.key for update of kv
    ), gone as (
        delete from hexad.kv kv using doomed
        where kv.store = doomed.store and kv.key = doomed.key returning kv.store, kv.key
    ), noted as (
        insert into hexad.change (store, keys) select store, array_agg(key) from gone group by store
    )
    select count(*) from gone";

pub const CREATE: &str = "
    with swapped as (
        insert into hexad.kv (store, key, value) values ($1::text, $2::text, $3::bytea)
        on conflict do nothing returning 1
    ), noted as (
        insert into hexad.change (store, keys) select $1::text, array[$2::text] from swapped
    )
    select exists(select from swapped)";

pub const REPLACE: &str = "
    with swapped as (
        update hexad.kv set value = $4::bytea where store = $1::text and key = $2::text and value = $3::bytea
        returning 1
    ), noted as (
        insert into hexad.change (store, keys) select $1::text, array[$2::text] from swapped
    )
    select exists(select from swapped)";

/// A counter has Spin's form: 8 bytes, the lowest first. Null if the present value is no counter.
pub static INCREMENT: LazyLock<String> = LazyLock::new(|| {
    let bytes = |number: &str| {
        let parts: Vec<String> = (1..=8).rev().map(|byte| format!("substring(b from {byte} for 1)")).collect();
        format!("(select {} from int8send({number}) b)", parts.join(" || "))
    };
    let parts: Vec<String> =
        (0..8).map(|byte| format!("(get_byte(kv.value, {byte})::bigint << {})", 8 * byte)).collect();
    let sum = format!("({}) + $3::bigint", parts.join(" | "));
    format!(
        "with counted as (
            insert into hexad.kv as kv (store, key, value) values ($1::text, $2::text, {})
            on conflict (store, key) do update set value = {} where octet_length(kv.value) = 8
            returning value
        ), noted as (
            insert into hexad.change (store, keys) select $1::text, array[$2::text] from counted
        )
        select (select value from counted)",
        bytes("$3::bigint"),
        bytes(&sum)
    )
});

/// Makes a statement of this module that ends in a `select` commit asynchronously.
pub fn asynchronous(statement: &str) -> String {
    format!("{statement}, set_config('synchronous_commit', 'off', true)")
}

/// The server flushes a commit that wrote to the log, with everything before it. It does not flush a commit that has
/// only an id or that changed no row, so this statement writes a message.
pub const FLUSH: &str = "select pg_logical_emit_message(true, 'hexad', ''::text)::text";

/// Removes old changes, which no host needs any more, and notes their last transaction. Also removes hosts that have
/// been gone for long. If a crash undoes it, nothing is lost, so it waits for no disk and no standby.
pub const PRUNE: &str = "
    with old as (
        delete from hexad.change where at < now() - interval '10 minutes' returning xid
    ), last as (
        select xid from old order by xid desc limit 1
    ), noted as (
        update hexad.horizon set pruned = greatest(horizon.pruned, last.xid) from last
    ), gone as (
        delete from hexad.host where seen < now() - interval '1 day'
    )
    select set_config('synchronous_commit', 'off', true)";

/// Whether the server process `$1` works on a statement. A process whose commit waits for a standby does.
pub const IS_WORKING: &str =
    "select coalesce((select state <> 'idle' from pg_stat_activity where pid = $1::int), false)";

/// The value that a host writes to check whether it can write. No component can open a store with this label: labels in
/// the manifest have no leading dot.
pub const PROBE_STORE: &str = ".hexad";
pub const PROBE_KEY: &str = "write-probe";
/// Removes the value `$1`, and values of server processes that have ended.
pub const REMOVE_PROBE: &str = "
    with removed as (
        delete from hexad.kv
        where store = '.hexad' and (key = $1::text or key ~ '^write-probe/[0-9]+$' and not exists (
            select from pg_stat_activity where pid::text = split_part(key, '/', 2)
        ))
    )
    select set_config('synchronous_commit', 'off', true)";

/// Leaves out the host's own records, such as the id of the store, which no copy has.
pub const SELECT_VALUES: &str =
    "select store, count(*) from hexad.kv where store <> '.hexad' group by store order by store";

/// The server's time, in microseconds since 1970.
pub const CLOCK: &str = "select (extract(epoch from clock_timestamp()) * 1000000)::bigint";

/// The number of connections of hosts, including the caller's.
pub const CONNECTIONS: &str = "
    select count(*) from pg_stat_activity where datname = current_database() and application_name = 'hexad'";
