//! The connections to one server. After one is lost, the host replaces all of them, so that reads, writes and barriers
//! always reach the same server.

use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Poll, ready};
use std::time::{Duration, Instant};

use futures::future::try_join_all;
use hexad_store::ClockReading;
use tokio::time::timeout;
use tokio_postgres::error::DbError;
use tokio_postgres::{AsyncMessage, Client, Statement};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::memory::{Observation, Snapshot};
use super::open_error::PostgresOpenError;
use super::tls::Tls;
use super::url::{Server, StoreUrl};
use super::writer::{WriteConnection, WriteConnections};
use super::{schema, sql};

/// The key of the advisory lock of the host that does maintenance: any number that no other program uses.
const LEADER_LOCK: i64 = 0x6865_7861_6401;

/// How long it may take to open all connections to a server and to prepare their statements.
const OPEN_DEADLINE: Duration = Duration::from_secs(10);

/// How long the server may take to say whether one of its processes works.
const ANSWER_DEADLINE: Duration = Duration::from_secs(3);

/// A server process that waits, for a lock for example, ends soon after the host has closed its connection. Otherwise
/// each attempt to connect would leave processes behind. The setting does not shorten the wait for a standby. If a
/// server's operating system does not report closed connections, the server refuses the setting.
const END_ABANDONED: &str = "
    do $$ begin
        if current_setting('client_connection_check_interval') = '0' then
            perform set_config('client_connection_check_interval', '1s', false);
        end if;
    exception when others then null;
    end $$";

/// Settings that the role, the database and the URL must not weaken. A commit waits for the disk and for a synchronous
/// standby. If such a wait is cancelled, the server sends a warning. A setting under which a commit waits for more
/// stays.
const COMMITS: &str = "
    select set_config('synchronous_commit', 'on', false)
    where current_setting('synchronous_commit') <> 'remote_apply';
    set client_min_messages = warning";

/// Connects to the servers of a URL.
pub struct PostgresConnector {
    url: StoreUrl,
    tls: Tls,
    readers: usize,
    writers: usize,
    /// Whether the first connection set makes missing tables. A later one never does: the tables existed.
    creates: bool,
}

/// A server for a new connection set.
struct ConnectionCandidate<'a> {
    server: &'a Server,
    /// The number of the new connection set.
    number: u64,
    /// The id of the store, if the host knows it.
    known: Option<&'a [u8]>,
    /// Whether missing tables are made.
    creates: bool,
}

/// A connection for reads. The server answers its statements in order.
pub struct ReadConnection {
    pub client: Client,
    pub barrier: Statement,
    pub snapshot: Statement,
    pub get: Statement,
    pub exists: Statement,
    pub get_many: Statement,
    pub list: Statement,
    pub serving: Statement,
    pub hosts: Statement,
    clock: Statement,
}

/// All connections to one server.
pub struct ConnectionSet {
    /// Counts the connection sets of this host.
    pub number: u64,
    pub server: String,
    /// Changes after a restore, and whenever the server may have lost transactions that were committed asynchronously.
    pub timeline: Arc<str>,
    /// The id of the store.
    pub store_id: Vec<u8>,
    /// The number of the table `horizon` at the first snapshot.
    pub table: u32,
    /// The first snapshot, and when its statement was sent.
    pub first: (Snapshot, Instant),
    /// The first reading of the server's time.
    pub time: ClockReading,
    /// The number of connections.
    pub connections: usize,
    barrier: ReadConnection,
    readers: Vec<ReadConnection>,
    writers: WriteConnections,
    aside: WriteConnections,
    /// Whether this host does the maintenance of the store.
    is_leader: AtomicBool,
    lost: CancellationToken,
}

impl PostgresConnector {
    /// `readers` and `writers` are numbers of connections.
    pub fn new(url: StoreUrl, readers: usize, writers: usize, creates: bool) -> Result<Self, PostgresOpenError> {
        let tls = Tls::new(&url.tls)?;
        Ok(Self { url, tls, readers: readers.max(1), writers: writers.max(1), creates })
    }

    pub fn name(&self) -> &str {
        &self.url.name
    }

    /// The number of connections for reads in a set.
    pub fn readers(&self) -> usize {
        self.readers
    }

    /// Connects to the first usable server. If an id is `known`, the server must have the store with this id.
    pub async fn open(&self, number: u64, known: Option<&[u8]>) -> Result<ConnectionSet, PostgresOpenError> {
        let mut refusals = Vec::new();
        for server in &self.url.servers {
            let candidate = ConnectionCandidate { server, number, known, creates: false };
            match self.open_server(candidate).await {
                Ok(link) => return Ok(link),
                Err(PostgresOpenError::NoStore) if known.is_some() => {
                    refusals.push((server, PostgresOpenError::TablesGone))
                }
                Err(error) => refusals.push((server, error)),
            }
        }
        // The store may be on a server that is unreachable now.
        let has_none =
            |error: &PostgresOpenError| matches!(error, PostgresOpenError::NoStore) || error.is_of_follower();
        let is_nowhere = refusals.iter().all(|(_, error)| has_none(error));
        let mut empty =
            refusals.iter_mut().filter(|(_, error)| self.creates && matches!(error, PostgresOpenError::NoStore));
        if let Some((server, error)) = empty.next() {
            *error = match is_nowhere {
                true => match self.open_server(ConnectionCandidate { server, number, known, creates: true }).await {
                    Ok(link) => return Ok(link),
                    Err(error) => error,
                },
                false => PostgresOpenError::NoStoreHere,
            };
        }
        Err(PostgresOpenError::of_servers(refusals.iter().map(|(server, error)| (&*server.name, error))))
    }

    async fn open_server(&self, candidate: ConnectionCandidate<'_>) -> Result<ConnectionSet, PostgresOpenError> {
        let opened = timeout(OPEN_DEADLINE, self.try_server(candidate)).await;
        opened.unwrap_or(Err(PostgresOpenError::Slow(OPEN_DEADLINE.as_secs())))
    }

    async fn try_server(&self, candidate: ConnectionCandidate<'_>) -> Result<ConnectionSet, PostgresOpenError> {
        let ConnectionCandidate { server, number, known, creates } = candidate;
        let lost = CancellationToken::new();
        // An incomplete set must not leave connections behind.
        let guard = lost.clone().drop_guard();
        let mut client = self.connect(server, &lost).await?;
        schema::check_server(&client).await?;
        schema::prepare(&mut client, creates).await?;
        let store_id = schema::store_id(&client, known).await?;
        schema::forget_other_servers(&client).await?;
        let incarnation = schema::incarnation(&client).await?;
        let timeline = schema::timeline(&client).await?;
        let barrier = ReadConnection::new(client).await?;
        let readers = try_join_all((0..self.readers).map(|_| async {
            let client = self.connect_again(server, &lost, &timeline).await?;
            Ok::<_, PostgresOpenError>(ReadConnection::new(client).await?)
        }));
        let writers = try_join_all((0..self.writers).map(|_| async {
            let client = self.connect_again(server, &lost, &timeline).await?;
            Ok::<_, PostgresOpenError>(WriteConnection::new(client).await?)
        }));
        let (readers, writers) = (readers.await?, writers.await?);
        let aside = WriteConnection::new(self.connect_again(server, &lost, &timeline).await?).await?;
        let time = barrier.read_clock().await?;
        let began = Instant::now();
        let row = barrier.client.query_one(&barrier.barrier, &[&None::<&str>]).await?;
        let observed = Observation::of(&row)?.ok_or(PostgresOpenError::NoRow("horizon"))?;
        let table = observed.table.ok_or(PostgresOpenError::NoRow("horizon"))?;
        guard.disarm();
        Ok(ConnectionSet {
            number,
            server: server.name.clone(),
            // A dump carries the timeline's id along, so the incarnation is part of the timeline.
            timeline: Arc::from(format!("{timeline}/{incarnation}")),
            store_id,
            table,
            first: (observed.into_snapshot(), began),
            time,
            connections: 2 + readers.len() + writers.len(),
            barrier,
            readers,
            writers: WriteConnections::new(writers),
            aside: WriteConnections::new(vec![aside]),
            is_leader: AtomicBool::new(false),
            lost,
        })
    }

    /// Connects once more to the server of a connection set, for statements that would delay others. The connection
    /// ends with the guard, or with the set.
    pub async fn connect_beside(&self, link: &ConnectionSet) -> Result<(Client, DropGuard), PostgresOpenError> {
        let servers = &self.url.servers;
        let gone = || PostgresOpenError::Unreachable("the URL does not name it".to_owned());
        let server = servers.iter().find(|server| server.name == link.server).ok_or_else(gone)?;
        let lost = link.lost.child_token();
        let client = self.connect(server, &lost).await?;
        Ok((client, lost.drop_guard()))
    }

    async fn connect_again(
        &self,
        server: &Server,
        lost: &CancellationToken,
        timeline: &str,
    ) -> Result<Client, PostgresOpenError> {
        let client = self.connect(server, lost).await?;
        match schema::timeline(&client).await? == timeline {
            true => Ok(client),
            false => Err(PostgresOpenError::SeveralServers),
        }
    }

    async fn connect(&self, server: &Server, lost: &CancellationToken) -> Result<Client, PostgresOpenError> {
        let (client, mut connection) = server.config.connect(self.tls.clone()).await?;
        let lost = lost.clone();
        tokio::spawn(async move {
            let ended = poll_fn(|context| {
                loop {
                    match ready!(connection.poll_message(context)) {
                        Some(Ok(AsyncMessage::Notice(notice))) if is_unconfirmed_commit(&notice) => {
                            tracing::warn!(%notice, "a commit was not confirmed by a standby; its outcome is unknown");
                            return Poll::Ready(());
                        }
                        Some(Ok(_)) => {}
                        Some(Err(error)) => {
                            tracing::debug!(%error, "a connection to PostgreSQL was lost");
                            return Poll::Ready(());
                        }
                        None => return Poll::Ready(()),
                    }
                }
            });
            tokio::select! {
                () = ended => {}
                () = lost.cancelled() => {}
            }
            lost.cancel();
        });
        client.batch_execute(END_ABANDONED).await?;
        client.batch_execute(COMMITS).await?;
        Ok(client)
    }
}

/// Whether the server warns that its wait for a standby was cancelled. Right after, the server reports the commit as
/// successful, but would lose it with the primary. The warning's text depends on the language; the name of the server's
/// function does not. [`COMMITS`] makes each session receive warnings.
fn is_unconfirmed_commit(notice: &DbError) -> bool {
    notice.routine() == Some("SyncRepWaitForLSN")
}

impl ReadConnection {
    async fn new(client: Client) -> Result<Self, tokio_postgres::Error> {
        client.batch_execute(sql::PLANS).await?;
        let (barrier, snapshot) = (client.prepare(&sql::BARRIER).await?, client.prepare(sql::SNAPSHOT).await?);
        let get = client.prepare(&sql::GET).await?;
        let (exists, get_many) = (client.prepare(&sql::EXISTS).await?, client.prepare(&sql::GET_MANY).await?);
        let (list, serving) = (client.prepare(&sql::LIST).await?, client.prepare(&sql::SERVING).await?);
        let (hosts, clock) = (client.prepare(&sql::HOSTS).await?, client.prepare(sql::CLOCK).await?);
        Ok(Self { client, barrier, snapshot, get, exists, get_many, list, serving, hosts, clock })
    }

    /// Asks for the server's time.
    pub async fn read_clock(&self) -> Result<ClockReading, tokio_postgres::Error> {
        let began = Instant::now();
        let row = self.client.query_one(&self.clock, &[]).await?;
        Ok(ClockReading::new(row.try_get(0)?, began))
    }
}

impl ConnectionSet {
    /// The connection of barriers.
    pub fn barrier(&self) -> &ReadConnection {
        &self.barrier
    }

    /// The connection of a shard's reads.
    pub fn reader(&self, shard: usize) -> &ReadConnection {
        let index = shard.checked_rem(self.readers.len()).unwrap_or_default();
        self.readers.get(index).unwrap_or(&self.barrier)
    }

    /// The connections for writes.
    pub fn writers(&self) -> &WriteConnections {
        &self.writers
    }

    /// The connection for the host's records about itself, which it commits asynchronously. It waits for no write of a
    /// guest and for no standby.
    pub fn aside(&self) -> &WriteConnections {
        &self.aside
    }

    /// Whether a process of the server works on a statement; true if the server does not say.
    pub async fn is_working(&self, process: i32) -> bool {
        let asked = timeout(ANSWER_DEADLINE, self.barrier.client.query_one(sql::IS_WORKING, &[&process])).await;
        // If the connection is lost, another task notices it.
        asked.ok().and_then(Result::ok).is_none_or(|row| row.try_get(0).unwrap_or(true))
    }

    pub fn is_leader(&self) -> bool {
        self.is_leader.load(Ordering::SeqCst)
    }

    /// Tries to become the host that does the store's maintenance, until the connections are lost.
    pub async fn seek_leadership(&self) -> Result<(), tokio_postgres::Error> {
        if !self.is_leader() {
            let row = self.barrier.client.query_one("select pg_try_advisory_lock($1)", &[&LEADER_LOCK]).await?;
            self.is_leader.store(row.try_get(0)?, Ordering::SeqCst);
        }
        Ok(())
    }

    /// Closes all connections, for example because one did not respond in time.
    pub fn close(&self) {
        self.lost.cancel();
    }

    pub fn is_lost(&self) -> bool {
        self.lost.is_cancelled()
    }

    /// Returns once a connection is lost.
    pub fn lost(&self) -> impl Future<Output = ()> + use<> {
        self.lost.clone().cancelled_owned()
    }
}

impl Drop for ConnectionSet {
    fn drop(&mut self) {
        self.lost.cancel();
    }
}
