//! The tables of the hosts that share the store: the record of active components, the components, the hosts, and the
//! audit log of all hosts. The calls block, and must not run on the thread of the connections.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use hexad_store::{ChangeClock, Key, StoreError, StoreProblem};
use tokio::time::timeout;
use tokio_postgres::{Client, Error, Row};

use super::STORE_TIMEOUT;
use super::classify::{self, away};
use super::connection_set::ConnectionSet;
use super::late_reply::outcome_of;
use super::shared::SharedStore;
use super::writer::WriteConnections;

/// How long a statement may take, without and with a component.
const DEADLINE: Duration = Duration::from_secs(10);
const COMPONENT_DEADLINE: Duration = Duration::from_secs(60);

const MOVE: &str = "
    with moved as (
        update hexad.serving set revision = revision + 1, record = $2::text where revision = $1::bigint
        returning revision
    ), noted as (
        insert into hexad.change (store, keys) select 'hexad', array['serving'] from moved
    ), audited as (
        insert into hexad.audit (host, entry) select $3::text, entry from moved, unnest($4::text[]) entry
    )
    select (select revision from moved)";

/// The loss of a report does no harm, so the commit does not wait for the disk.
const REPORT: &str = "
    with reported as (
        insert into hexad.host (name, report) values ($1::text, $2::text)
        on conflict (name) do update set seen = now(), report = excluded.report
    )
    select set_config('synchronous_commit', 'off', true)";

const LEAVE: &str = "
    with gone as (delete from hexad.host where name = $1::text)
    select set_config('synchronous_commit', 'off', true)";

const COMPONENT: &str = "select wasm, signature from hexad.component where digest = $1";

const PUT_COMPONENT: &str = "
    insert into hexad.component (digest, wasm, signature) values ($1, $2, $3)
    on conflict (digest) do update
    set at = now(), signature = coalesce(excluded.signature, component.signature)";

/// A component of a pending change is younger than a day.
const PRUNE_COMPONENTS: &str =
    "delete from hexad.component where digest <> all($1::text[]) and at < now() - interval '1 day'";

/// Stored with the values, under the host's own label, which no component can open.
const SECRET: &str = "
    select convert_from(value, 'UTF8') from hexad.kv where store = '.hexad' and key = 'secret/' || $1::text";

const SWAP_SECRET: &str = "
    insert into hexad.kv (store, key, value) values ('.hexad', 'secret/' || $1::text, convert_to($3::text, 'UTF8'))
    on conflict (store, key) do update set value = excluded.value where kv.value = convert_to($2::text, 'UTF8')";

/// The hosts' shared record, a text of the deployer. It changes by compare-and-swap of its revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServingRow {
    pub revision: i64,
    pub record: String,
}

/// A host that reported within the last day.
#[derive(Clone, Debug)]
pub struct HostRow {
    /// The key, in the column `name`: earlier builds store the host's name there.
    pub instance: String,
    /// How long ago it reported, by the server's clock.
    pub age: Duration,
    pub report: String,
}

/// The bytes of a component, and of its signature.
pub type StoredComponent = (Vec<u8>, Option<Vec<u8>>);

/// The tables, as one host uses them.
#[derive(Clone)]
pub struct FleetStore {
    shared: Arc<SharedStore>,
}

impl FleetStore {
    pub(super) fn new(shared: Arc<SharedStore>) -> Self {
        Self { shared }
    }

    /// The key that counts as changed whenever the shared record is replaced.
    pub fn key() -> Key {
        Key { store: Arc::from("hexad"), key: Arc::from("serving") }
    }

    /// The clock with the changes of [`key`](Self::key).
    pub fn clock(&self) -> &ChangeClock {
        self.shared.supervisor.memory.clock()
    }

    pub fn read(&self) -> Result<ServingRow, StoreError> {
        self.read_within(STORE_TIMEOUT)
    }

    /// As [`read`](Self::read), but waits for a server for at most `patience`. A read needs no connection for writes,
    /// because all of these may wait for a standby.
    pub fn read_within(&self, patience: Duration) -> Result<ServingRow, StoreError> {
        let shared = self.shared.clone();
        let decode = |row: &Row| Ok(ServingRow { revision: row.try_get(3)?, record: row.try_get(4)? });
        self.wait(async move {
            let read = shared.read_within(patience, 0, |reader| &reader.serving, &[], decode).await;
            if let Err(error) = &read {
                shared.supervisor.record_failure(error, &[]);
            }
            read
        })
    }

    /// Replaces the record if it still has this revision, and adds lines to the audit log. Returns the new revision;
    /// `None` if another host was faster. After `Unknown`, the record itself shows whether it was or will be replaced,
    /// if the caller recognises its own record.
    pub fn replace(
        &self,
        revision: i64,
        record: &str,
        host: &str,
        audit: Vec<String>,
    ) -> Result<Option<i64>, StoreError> {
        let (text, host) = (record.to_owned(), host.to_owned());
        self.run(DEADLINE, move |client| {
            Box::pin(async move { client.query_one(MOVE, &[&revision, &text, &host, &audit]).await?.try_get(0) })
        })
    }

    pub fn report(&self, instance: &str, report: &str) -> Result<(), StoreError> {
        let (instance, report) = (instance.to_owned(), report.to_owned());
        self.run_aside(move |client| {
            Box::pin(async move { client.query_one(REPORT, &[&instance, &report]).await.map(drop) })
        })
    }

    /// Removes the host, because it has stopped.
    pub fn leave(&self, instance: &str) -> Result<(), StoreError> {
        let instance = instance.to_owned();
        self.run_aside(move |client| Box::pin(async move { client.query_one(LEAVE, &[&instance]).await.map(drop) }))
    }

    pub fn hosts(&self) -> Result<Vec<HostRow>, StoreError> {
        let shared = self.shared.clone();
        let decode = |row: &Row| {
            let (instances, ages): (Vec<String>, Vec<f64>) = (row.try_get(3)?, row.try_get(4)?);
            let reports: Vec<String> = row.try_get(5)?;
            let rows = instances.into_iter().zip(ages).zip(reports).map(|((instance, age), report)| {
                let age = Duration::try_from_secs_f64(age).unwrap_or_default();
                HostRow { instance, age, report }
            });
            Ok(rows.collect())
        };
        self.wait(async move { shared.read_within(STORE_TIMEOUT, 0, |reader| &reader.hosts, &[], decode).await })
    }

    pub fn put_component(&self, digest: &str, wasm: Vec<u8>, signature: Option<Vec<u8>>) -> Result<(), StoreError> {
        let digest = digest.to_owned();
        self.run(COMPONENT_DEADLINE, move |client| {
            Box::pin(async move { client.execute(PUT_COMPONENT, &[&digest, &wasm, &signature]).await.map(drop) })
        })
    }

    /// Uses a connection of its own: many megabytes would delay other reads.
    pub fn component(&self, digest: &str) -> Result<Option<StoredComponent>, StoreError> {
        let (digest, supervisor) = (digest.to_owned(), self.shared.supervisor.clone());
        self.wait(async move {
            let link = supervisor.link(Instant::now() + STORE_TIMEOUT).await?;
            let read = async {
                let (client, _ends) = supervisor.connect_beside(&link).await.map_err(|error| {
                    let (problem, reason) = (StoreProblem::Unavailable, error.to_string().into());
                    StoreError::Unavailable { problem, reason }
                })?;
                let row = client.query_opt(COMPONENT, &[&digest]).await;
                let decoded = row.and_then(|row| row.map(|row| Ok((row.try_get(0)?, row.try_get(1)?))).transpose());
                decoded.map_err(|error| classify::of_read(&error))
            };
            timeout(COMPONENT_DEADLINE, read).await.unwrap_or_else(|_| Err(away()))
        })
    }

    /// A secret of the hosts.
    pub fn secret(&self, name: &str) -> Result<Option<String>, StoreError> {
        let name = name.to_owned();
        self.run(DEADLINE, move |client| {
            Box::pin(async move { client.query_opt(SECRET, &[&name]).await?.map(|row| row.try_get(0)).transpose() })
        })
    }

    /// Replaces a secret if it is still the `expected` one; `None` creates an absent one.
    pub fn swap_secret(&self, name: &str, expected: Option<String>, secret: String) -> Result<(), StoreError> {
        let name = name.to_owned();
        self.run(DEADLINE, move |client| {
            Box::pin(async move { client.execute(SWAP_SECRET, &[&name, &expected, &secret]).await.map(drop) })
        })
    }

    /// Removes the components that are older than a day, except `wanted`.
    pub fn prune_components(&self, wanted: Vec<String>) -> Result<(), StoreError> {
        self.run(DEADLINE, move |client| {
            Box::pin(async move { client.execute(PRUNE_COMPONENTS, &[&wanted]).await.map(drop) })
        })
    }

    /// Appends a line to the audit log of all hosts.
    pub fn audit(&self, host: &str, entry: &str) -> Result<(), StoreError> {
        let (host, entry) = (host.to_owned(), entry.to_owned());
        self.run(DEADLINE, move |client| {
            Box::pin(async move {
                let statement = "insert into hexad.audit (host, entry) values ($1, $2)";
                client.execute(statement, &[&host, &entry]).await.map(drop)
            })
        })
    }

    /// Runs statements on a connection for writes.
    fn run<T: Send + 'static>(
        &self,
        deadline: Duration,
        work: impl for<'c> FnOnce(&'c Client) -> BoxFuture<'c, Result<T, Error>> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.run_on(ConnectionSet::writers, deadline, work)
    }

    /// Runs statements that commit asynchronously.
    fn run_aside<T: Send + 'static>(
        &self,
        work: impl for<'c> FnOnce(&'c Client) -> BoxFuture<'c, Result<T, Error>> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.run_on(ConnectionSet::aside, DEADLINE, work)
    }

    fn run_on<T: Send + 'static>(
        &self,
        connections: fn(&ConnectionSet) -> &WriteConnections,
        deadline: Duration,
        work: impl for<'c> FnOnce(&'c Client) -> BoxFuture<'c, Result<T, Error>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let supervisor = self.shared.supervisor.clone();
        self.wait(async move {
            let end = Instant::now() + STORE_TIMEOUT;
            let link = supervisor.link(end).await?;
            let idle = connections(&link).idle_by(end, Instant::now() + DEADLINE).await.ok_or_else(away)?;
            let writer = idle.get().ok_or_else(away)?;
            let replied = timeout(deadline, work(&writer.client)).await.ok();
            outcome_of(&link, idle, replied)
        })
    }

    /// Runs a task on the thread of the connections, and waits for it.
    fn wait<T: Send + 'static>(
        &self,
        task: impl Future<Output = Result<T, StoreError>> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (reply, outcome) = std::sync::mpsc::channel();
        self.shared.spawn(async move { drop(reply.send(task.await)) });
        outcome.recv().unwrap_or_else(|_| Err(away()))
    }
}
