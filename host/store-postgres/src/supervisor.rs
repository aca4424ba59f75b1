//! Keeps connections to a server: replaces lost ones, answers barriers over them, and follows the server's time.

use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hexad_store::{CatchUp, Key, ServerClock, StoreError, StoreHealth, StoreProblem};
use tokio::time::{sleep, timeout, timeout_at};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row, Statement};
use tokio_util::sync::DropGuard;

use super::barrier_queue::{BarrierQueue, Round};
use super::classify::{self, away};
use super::connection_set::{ConnectionSet, PostgresConnector};
use super::connection_state::{ConnectionState, PresentConnections};
use super::late_reply::outcome_of;
use super::memory::{Memory, Observation, Snapshot};
use super::monitor::ServerReport;
use super::open_error::PostgresOpenError;
use super::probe::{self, Probe};
use super::sql;
use super::{HALF_TIMEOUT, STORE_TIMEOUT};

/// How long a barrier may take before its server counts as lost.
const BARRIER_DEADLINE: Duration = Duration::from_secs(3);

/// The pauses between attempts to connect.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// How often a host without requests sends a barrier, for its health.
const HEARTBEAT: Duration = Duration::from_secs(1);

/// A host without a barrier for so long is not ready.
const UNREADY_AFTER: Duration = Duration::from_secs(3);

/// How often the host does the maintenance (removes old changes, checks the server), and how long it may take.
const MAINTENANCE_EVERY: Duration = Duration::from_secs(60);
const MAINTENANCE_DEADLINE: Duration = Duration::from_secs(30);

/// The present connection set of a host, and the state that the host has learned over it.
pub struct ConnectionSupervisor {
    connector: PostgresConnector,
    pub memory: Memory,
    pub health: Arc<StoreHealth>,
    pub clock: Arc<ServerClock>,
    link: PresentConnections,
    /// The id of the store, see [`schema::store_id`](super::schema::store_id).
    store_id: Vec<u8>,
    /// The timeline of the last connection set.
    timeline: Mutex<Arc<str>>,
    /// How often the timeline has changed.
    losses: AtomicU64,
    queue: BarrierQueue,
    /// Whether the last barrier found that no transaction had ended since the barrier before.
    expects_nothing_new: AtomicBool,
    pub figures: Figures,
    pub report: ServerReport,
    probe: Probe,
    /// Why no server is usable, while the host has no connections.
    refusal: Mutex<Option<String>>,
}

/// Counts of a store on PostgreSQL since the host started.
#[derive(Debug, Default)]
pub struct Figures {
    pub barriers: AtomicU64,
    pub reconnects: AtomicU64,
    /// Statements that read, each a round trip.
    pub reads: AtomicU64,
    /// The duration of the last barrier, in microseconds.
    pub round_trip: AtomicU64,
}

impl ConnectionSupervisor {
    /// Connects for the first time, and checks whether the store takes writes. If the server takes longer than requests
    /// wait, for example with a stopped standby, the host finds out while it serves.
    pub async fn open(connector: PostgresConnector, health: Arc<StoreHealth>) -> Result<Arc<Self>, PostgresOpenError> {
        let link = connector.open(1, None).await?;
        let supervisor = Self {
            connector,
            memory: Memory::default(),
            health,
            clock: Arc::default(),
            link: PresentConnections::default(),
            store_id: link.store_id.clone(),
            timeline: Mutex::new(link.timeline.clone()),
            losses: AtomicU64::default(),
            queue: BarrierQueue::default(),
            expects_nothing_new: AtomicBool::default(),
            figures: Figures::default(),
            report: ServerReport::default(),
            probe: Probe::default(),
            refusal: Mutex::default(),
        };
        supervisor.publish(link);
        if let Some(link) = supervisor.present_link() {
            supervisor.probe.run(&link, &supervisor.health, STORE_TIMEOUT).await;
        }
        Ok(Arc::new(supervisor))
    }

    /// Runs until it is dropped.
    pub async fn run(self: Arc<Self>) {
        tokio::join!(self.keep_link(), self.answer_barriers(), self.watch_health(), self.run_maintenance());
    }

    /// The present connection set. While a server may appear, the caller waits until `end`.
    pub async fn link(&self, end: Instant) -> Result<Arc<ConnectionSet>, StoreError> {
        self.link.wait(end).await
    }

    /// The present connection set, if the host has one now.
    pub fn present_link(&self) -> Option<Arc<ConnectionSet>> {
        self.link.get()
    }

    /// Records the observation of a statement that was sent at `began` over `link` with the base `base`. False if its
    /// result is useless, because another connection set has replaced `link`, or has to. After its tables were
    /// replaced, `link` has not followed their changes.
    pub fn observe(&self, link: &ConnectionSet, base: &Snapshot, observed: Observation<'_>, began: Instant) -> bool {
        if observed.table.is_some_and(|table| table != link.table) {
            tracing::warn!(server = link.server, "the tables of the store were replaced");
            link.close();
            return false;
        }
        self.memory.observe(link.number, base, observed, began)
    }

    /// See [`PostgresConnector::connect_beside`].
    pub async fn connect_beside(&self, link: &ConnectionSet) -> Result<(Client, DropGuard), PostgresOpenError> {
        self.connector.connect_beside(link).await
    }

    /// Ready once a barrier that begins after this call is over. A request of a shard waits for it for at most
    /// `patience`.
    pub fn barrier(&self, shard: usize, patience: Duration) -> CatchUp {
        self.queue.join(shard, Instant::now() + patience)
    }

    /// Whether the server answers a barrier within `patience`. Call it on the thread of the connections.
    pub async fn responds(&self, patience: Duration) -> bool {
        // Counts as one more shard.
        self.barrier(self.connector.readers(), patience).await.is_ok()
    }

    /// Whether this host does the maintenance of the store.
    pub fn is_leader(&self) -> bool {
        self.present_link().is_some_and(|link| link.is_leader())
    }

    /// The timeline of the last connection set. If the set changes after this call, the request is bound to an earlier
    /// timeline than it reads in, never to a later one.
    pub fn timeline(&self) -> Arc<str> {
        self.timeline.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// See [`Backend::losses`](hexad_store::Backend::losses).
    pub fn losses(&self) -> u64 {
        self.losses.load(Ordering::SeqCst)
    }

    /// The URL, for people.
    pub fn name(&self) -> &str {
        self.connector.name()
    }

    fn publish(&self, link: ConnectionSet) {
        let (snapshot, began) = link.first.clone();
        // Set before a request can read over the connections.
        self.clock.set(link.time);
        self.memory.begin(link.number, snapshot, began);
        // After a request has read this timeline, it finds no cached value and no instance of the timeline before.
        let mut timeline = self.timeline.lock().unwrap_or_else(PoisonError::into_inner);
        if *timeline != link.timeline {
            tracing::warn!(
                "PostgreSQL was restarted, or the store restored: what this host has kept in memory is forgotten, and \
                 requests under way write nothing more"
            );
            self.losses.fetch_add(1, Ordering::SeqCst);
            *timeline = link.timeline.clone();
        }
        drop(timeline);
        self.link.set(ConnectionState::Connected(Arc::new(link)));
    }

    async fn keep_link(&self) {
        let mut number = 1;
        loop {
            if let Some(link) = self.link.last() {
                link.lost().await;
                self.memory.end();
                self.link.set(ConnectionState::Away);
                tracing::warn!(server = link.server, "the connections to PostgreSQL are lost; connecting again");
            }
            number += 1;
            let mut pause = FIRST_PAUSE;
            let link = loop {
                match self.connector.open(number, Some(&self.store_id)).await {
                    Ok(link) => break link,
                    Err(error) => {
                        tracing::debug!(%error, "no PostgreSQL yet");
                        *self.refusal() = Some(error.to_string());
                        self.link.set(match error.is_of_store() {
                            true => ConnectionState::Refused(classify::of_refused_host(&error)),
                            false => ConnectionState::Away,
                        });
                    }
                }
                tokio::time::sleep(pause).await;
                pause = LONGEST_PAUSE.min(pause * 2);
            };
            tracing::info!(server = link.server, "connected to PostgreSQL again");
            *self.refusal() = None;
            self.figures.reconnects.fetch_add(1, Ordering::Relaxed);
            self.publish(link);
        }
    }

    /// One barrier is in progress at a time. The next one serves all requests that came meanwhile.
    async fn answer_barriers(&self) {
        let mut expiry = pin!(sleep(HALF_TIMEOUT));
        loop {
            self.queue.joined().await;
            self.queue.gather();
            let mut round = self.queue.take();
            // Requests that have stopped waiting need no barrier.
            if round.is_abandoned() {
                continue;
            }
            let outcome = {
                let mut barrier = pin!(self.pass_barrier());
                loop {
                    tokio::select! {
                        biased;
                        outcome = &mut barrier => break outcome,
                        () = &mut expiry => expiry.as_mut().reset(self.expire(&mut round).into()),
                    }
                }
            };
            round.answer(&outcome);
        }
    }

    /// Ends the wait of requests whose time is over. Returns when the next wait can end.
    fn expire(&self, round: &mut Round) -> Instant {
        let now = Instant::now();
        let next = [round.expire(now, away), self.queue.expire(now, away)];
        // No later request waits for a shorter time.
        next.into_iter().flatten().fold(now + HALF_TIMEOUT, Instant::min)
    }

    /// If its connections are lost, the barrier is repeated, as long as a request waits for a server.
    async fn pass_barrier(&self) -> Result<(), StoreError> {
        let end = Instant::now() + STORE_TIMEOUT;
        loop {
            let link = self.link(end).await?;
            match self.pass_barrier_over(&link).await {
                Ok(true) => return Ok(()),
                Ok(false) if Instant::now() < end => tokio::task::yield_now().await,
                Ok(false) => return Err(away()),
                Err(error) if !link.is_lost() || Instant::now() >= end => return Err(error),
                Err(_) => {}
            }
        }
    }

    /// False if another connection set replaces this one. If the last barrier found nothing new, this one first reads
    /// the snapshot alone. The snapshot costs the server a third, and usually shows that nothing has changed.
    async fn pass_barrier_over(&self, link: &ConnectionSet) -> Result<bool, StoreError> {
        let Some(base) = self.memory.base(link.number) else { return Ok(false) };
        let reader = link.barrier();
        let began = Instant::now();
        let end = began + BARRIER_DEADLINE;
        let is_new = !self.expects_nothing_new.load(Ordering::Relaxed) || {
            let row = ask(link, end, &reader.snapshot, &[]).await?;
            row.try_get::<_, &str>(0).map_err(|error| classify::of_read(&error))? != &*base.text
        };
        let row;
        let observed = if is_new {
            row = ask(link, end, &reader.barrier, &[&&*base.text]).await?;
            Observation::of(&row)
                .map_err(|error| classify::of_row(&error))?
                .ok_or_else(|| classify::no_row("horizon"))?
        } else {
            Observation::nothing_new(base.clone())
        };
        self.expects_nothing_new.store(observed.snapshot() == &base, Ordering::Relaxed);
        let micros = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.figures.round_trip.store(micros, Ordering::Relaxed);
        self.figures.barriers.fetch_add(1, Ordering::Relaxed);
        Ok(self.observe(link, &base, observed, began))
    }

    async fn watch_health(&self) {
        let mut last = Instant::now();
        loop {
            tokio::time::sleep(HEARTBEAT).await;
            // Counts as one more shard.
            match self.barrier(self.connector.readers(), STORE_TIMEOUT).await {
                Ok(()) => {
                    last = Instant::now();
                    self.look_after_outage().await;
                    self.update_clock().await;
                }
                Err(error) => {
                    let is_known = self.record_failure(&error, &[]);
                    if !is_known && last.elapsed() >= UNREADY_AFTER {
                        let reason = self.refusal().clone().unwrap_or_else(|| error.to_string());
                        self.health.begin_outage(StoreProblem::Unavailable, &reason, 0);
                    }
                }
            }
        }
    }

    /// Records why a statement about these keys has failed. Returns whether the store's health reports it from now on.
    pub fn record_failure(&self, error: &StoreError, keys: &[Key]) -> bool {
        self.probe.record_failure(&self.health, error, keys)
    }

    /// A response of the server ends an outage, unless the server has refused a statement: then only a probe does.
    async fn look_after_outage(&self) {
        match self.health.outage_bytes() {
            Some(0) if !self.health.is_suspected() => self.health.record_probe(),
            _ => {
                if let Some(link) = self.present_link() {
                    self.probe.run(&link, &self.health, probe::DEADLINE).await;
                }
            }
        }
    }

    fn refusal(&self) -> MutexGuard<'_, Option<String>> {
        self.refusal.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn update_clock(&self) {
        let Some(link) = self.present_link() else { return };
        // If the connections are lost, the next set has read its server's time.
        if let Ok(Ok(reading)) = timeout(BARRIER_DEADLINE, link.barrier().read_clock()).await {
            self.clock.set(reading);
        }
    }

    async fn run_maintenance(&self) {
        loop {
            if let Some(link) = self.present_link()
                && let Some(idle) = link.aside().idle().await
                && let Some(writer) = idle.get()
            {
                let work = async {
                    link.seek_leadership().await?;
                    self.report.update(&writer.client, &self.clock).await?;
                    writer.client.execute(sql::PRUNE, &[]).await
                };
                let done = timeout(MAINTENANCE_DEADLINE, work).await.ok();
                if let Err(error) = outcome_of(&link, idle, done) {
                    tracing::warn!(%error, "PostgreSQL could not be looked after");
                }
            }
            tokio::time::sleep(MAINTENANCE_EVERY).await;
        }
    }
}

/// Sends a statement of a barrier that must be over by `end`.
async fn ask(
    link: &ConnectionSet,
    end: Instant,
    statement: &Statement,
    params: &[&(dyn ToSql + Sync)],
) -> Result<Row, StoreError> {
    match timeout_at(end.into(), link.barrier().client.query_one(statement, params)).await {
        Ok(Ok(row)) => Ok(row),
        Ok(Err(error)) => {
            if classify::ends_connection(&error) {
                link.close();
            }
            Err(classify::of_read(&error))
        }
        Err(_) => {
            link.close();
            Err(away())
        }
    }
}
