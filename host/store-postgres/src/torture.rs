//! Three hosts, clients that change host at every call, faults, and checkers of the whole history.
//!
//! - *chain*: each value of a root names its own id and the id that it replaced. All acknowledged swaps are on one
//!   path, in the order of time. No read is older than a swap that was acknowledged before the read began.
//! - *values*: a reader of a root finds the plain value that the root names.
//! - *increments*: results are distinct. The sum has every acknowledged increment and no unsent one.
//! - *two keys*: a client raises A, then B. A reader of B and then of A finds an A that is at least as large.
//!
//! `TORTURE_SEED` and `TORTURE_SECONDS` set the faults and the time of the run without a mutant.

mod faults;
mod mutant;

use std::collections::{HashMap, HashSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use fastrand::Rng;
use futures::FutureExt;
use futures::future::Shared;
use hexad_store::{Backend, CasOutcome, CatchUp, ErrorKind, Ledger, StoreError};
use hexad_store_conformance::{key, permit};
use hexad_testing::wait::{self, SOON};
use hexad_testing::wait_async::{next_turn, wait_for_async, within_async};

use super::tests::{Host, Own, Proxy, start_with};
use super::*;

use faults::{DATABASE, Fault};
use mutant::Mutant;

/// The server writes asynchronous commits as late as it may. The log is short, and the standby can still follow after
/// a while.
const SETTINGS: &[&str] = &[
    "wal_writer_delay=10s",
    "max_connections=100",
    "wal_retrieve_retry_interval=100ms",
    "max_wal_size=64MB",
    "min_wal_size=32MB",
    "wal_keep_size=64MB",
];

/// The size of each server's file system: three times as much as it needs.
const MEGABYTES: u32 = 400;

/// Clients of each kind.
const CLIENTS: u64 = 3;

/// An attempted swap of the chain.
#[derive(Clone, Debug)]
struct Tried {
    id: u64,
    replaced: Option<u64>,
    began: Instant,
    ended: Instant,
    is_acknowledged: bool,
}

/// A read of the chain.
struct Seen {
    id: Option<u64>,
    began: Instant,
}

/// The operations of the clients, and the violations that they noticed themselves.
#[derive(Default)]
struct History {
    tried: Mutex<Vec<Tried>>,
    seen: Mutex<Vec<Seen>>,
    sums: Mutex<Vec<i64>>,
    unknown_increments: AtomicU64,
    violations: Mutex<Vec<String>>,
}

struct Cluster {
    hosts: Vec<Arc<dyn Backend>>,
    mutant: Option<Mutant>,
    /// The last barrier of each host, for [`Mutant::EarlyBarrier`].
    barriers: Vec<Mutex<Option<Shared<CatchUp>>>>,
    history: History,
    is_over: AtomicBool,
    next_id: AtomicU64,
}

type StoreResult<T> = Result<T, StoreError>;

/// How late a value is for [`Mutant::SwapBeforeValues`].
const LATE: Duration = Duration::from_millis(20);

fn number(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes[..8].try_into().unwrap())
}

impl Cluster {
    /// A request arrives at one of the hosts.
    async fn arrive(&self, rng: &mut Rng) -> StoreResult<&dyn Backend> {
        let index = rng.usize(..self.hosts.len());
        let host = &*self.hosts[index];
        let catch_up = || host.catch_up().expect("hosts that share a store have barriers");
        match self.mutant {
            Some(Mutant::NoBarrier) => {}
            Some(Mutant::EarlyBarrier) => self.join_barrier(index, catch_up).await?,
            _ => catch_up().await?,
        }
        Ok(host)
    }

    /// Waits for the host's barrier in progress, or else for the next one.
    async fn join_barrier(&self, host: usize, next: impl Fn() -> CatchUp) -> StoreResult<()> {
        let barrier = {
            let mut last = self.barriers[host].lock().unwrap();
            let in_progress = last.clone().filter(|barrier| barrier.peek().is_none());
            last.insert(in_progress.unwrap_or_else(|| next().shared())).clone()
        };
        barrier.await
    }

    fn report(&self, violation: String) {
        self.history.violations.lock().unwrap().push(violation);
    }

    /// Only a fault shows a defect of the host. Other errors say that the store is unavailable.
    fn note(&self, error: &StoreError) {
        if error.kind() == ErrorKind::Fault {
            self.report(format!("a fault instead of an outage: {error}"));
        }
    }

    async fn swap_chain(&self, rng: &mut Rng) -> StoreResult<()> {
        let (ledger, began) = (Ledger::default(), Instant::now());
        let host = self.arrive(rng).await?;
        host.bind_reads(&ledger);
        let present = host.get(&key("chain")).await?;
        let replaced = present.as_deref().map(number);
        let id = self.next_id.fetch_add(1, Ordering::SeqCst);
        let put = async || host.set(&ledger, key(&format!("value/{id}")), vec![7; 100], permit()).await;
        let is_late = self.mutant == Some(Mutant::SwapBeforeValues);
        if !is_late {
            put().await?;
        }
        let value = [id, replaced.unwrap_or(0)].map(u64::to_le_bytes).concat();
        let outcome = async {
            let swap = host.cas(&ledger, key("chain"), present.clone(), value).await?;
            if is_late {
                tokio::time::sleep(LATE).await;
                put().await?;
            }
            host.durable(&ledger).await?;
            Ok(swap)
        };
        let outcome: StoreResult<CasOutcome> = outcome.await;
        if !matches!(outcome, Ok(CasOutcome::Lost(_))) {
            let is_acknowledged = outcome.is_ok();
            let tried = Tried { id, replaced, began, ended: Instant::now(), is_acknowledged };
            self.history.tried.lock().unwrap().push(tried);
        }
        outcome.map(drop)
    }

    async fn read_chain(&self, rng: &mut Rng) -> StoreResult<()> {
        let began = Instant::now();
        let host = self.arrive(rng).await?;
        let id = host.get(&key("chain")).await?.as_deref().map(number);
        // The value of the next swap does not exist yet, and the host caches its absence.
        host.get(&key(&format!("value/{}", self.next_id.load(Ordering::SeqCst)))).await?;
        let has_value = match id {
            Some(id) => host.get(&key(&format!("value/{id}"))).await?.is_some(),
            None => true,
        };
        if !has_value {
            self.report(format!("the root names the value {id:?}, which is not there"));
        }
        self.history.seen.lock().unwrap().push(Seen { id, began });
        Ok(())
    }

    async fn increment(&self, rng: &mut Rng) -> StoreResult<()> {
        let (host, ledger) = (self.arrive(rng).await?, Ledger::default());
        let outcome = async {
            let sum = host.increment(&ledger, key("sum"), 1).await?;
            host.durable(&ledger).await?;
            Ok(sum)
        };
        match outcome.await {
            Ok(sum) => self.history.sums.lock().unwrap().push(sum),
            Err(error) => {
                self.history.unknown_increments.fetch_add(1, Ordering::SeqCst);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Raises A and then B. Only one client does this.
    async fn raise_pair(&self, rng: &mut Rng) -> StoreResult<()> {
        let host = self.arrive(rng).await?;
        for name in ["a", "b"] {
            let ledger = Ledger::default();
            let present = host.get(&key(name)).await?;
            let other = host.get(&key("a")).await?.as_deref().map_or(0, number);
            let raised = if name == "a" { other + 1 } else { other };
            host.cas(&ledger, key(name), present, raised.to_le_bytes().to_vec()).await?;
            host.durable(&ledger).await?;
        }
        Ok(())
    }

    async fn read_pair(&self, rng: &mut Rng) -> StoreResult<()> {
        let host = self.arrive(rng).await?;
        let read = async |name| Ok::<_, StoreError>(host.get(&key(name)).await?.as_deref().map_or(0, number));
        let (b, a) = (read("b").await?, read("a").await?);
        if a < b {
            self.report(format!("B is {b} and A, which was raised before it, is {a}"));
        }
        Ok(())
    }

    async fn client(self: Arc<Self>, seed: u64, kind: u64) {
        let mut rng = Rng::with_seed(seed);
        while !self.is_over.load(Ordering::SeqCst) {
            let outcome = match kind {
                0 => self.raise_pair(&mut rng).await,
                _ => match rng.u64(..10) {
                    0..=2 => self.swap_chain(&mut rng).await,
                    3..=5 => self.read_chain(&mut rng).await,
                    6 => self.increment(&mut rng).await,
                    _ => self.read_pair(&mut rng).await,
                },
            };
            if let Err(error) = outcome {
                self.note(&error);
            }
            next_turn().await;
        }
    }

    /// Checks the whole history, once no client runs and the store is available.
    async fn check(&self) -> Vec<String> {
        let host = &*self.hosts[0];
        // The last fault may have broken a connection that is unused since.
        let look = async || {
            let _ = host.catch_up()?.await;
            let last = host.get(&key("chain")).await.ok()?;
            let sum = host.increment(&Ledger::default(), key("sum"), 0).await.ok()?;
            Some((last.as_deref().map(number), sum))
        };
        let (last, sum) = wait_for_async(SOON, "the store after the last fault", look).await;
        let mut found = self.history.violations.lock().unwrap().clone();

        let tried = self.history.tried.lock().unwrap().clone();
        let by_id: HashMap<u64, &Tried> = tried.iter().map(|tried| (tried.id, tried)).collect();
        let mut path = Vec::new();
        let mut next = last;
        while let Some(id) = next.filter(|id| *id != 0) {
            path.push(id);
            next = by_id.get(&id).and_then(|tried| tried.replaced);
            if path.len() > tried.len() {
                break;
            }
        }
        path.reverse();
        let places: HashMap<u64, usize> = path.iter().enumerate().map(|(place, id)| (*id, place + 1)).collect();
        let mut acknowledged: Vec<(Instant, usize)> = Vec::new();
        for tried in tried.iter().filter(|tried| tried.is_acknowledged) {
            match places.get(&tried.id) {
                Some(place) => acknowledged.push((tried.ended, *place)),
                None => found.push(format!("the swap {} was acknowledged and is lost", tried.id)),
            }
        }
        acknowledged.sort_unstable();
        // The furthest place that was acknowledged by each of these times.
        let mut furthest = 0;
        for (_, place) in &mut acknowledged {
            furthest = furthest.max(*place);
            *place = furthest;
        }
        let known_at = |time: Instant| {
            let index = acknowledged.partition_point(|(ended, _)| *ended < time);
            index.checked_sub(1).map_or(0, |index| acknowledged[index].1)
        };
        for tried in tried.iter().filter(|tried| tried.is_acknowledged) {
            if places.get(&tried.id).is_some_and(|place| *place <= known_at(tried.began)) {
                found.push(format!("the swap {} is before one that was acknowledged before it began", tried.id));
            }
        }
        for seen in &*self.history.seen.lock().unwrap() {
            let place = seen.id.map_or(Some(0), |id| places.get(&id).copied());
            match place {
                None => found.push(format!("the value {:?} was read and is on no path", seen.id)),
                Some(place) if place < known_at(seen.began) => {
                    found.push(format!("place {place} was read after place {} was acknowledged", known_at(seen.began)));
                }
                Some(_) => {}
            }
        }
        let sums = self.history.sums.lock().unwrap();
        let distinct: HashSet<i64> = sums.iter().copied().collect();
        let (sent, sure) = (sums.len() as u64 + self.history.unknown_increments.load(Ordering::SeqCst), sums.len());
        if distinct.len() != sure || sum.unsigned_abs() < sure as u64 || sum.unsigned_abs() > sent {
            found.push(format!(
                "{sure} increments were acknowledged and {sent} sent, with {} results; {sum}",
                distinct.len()
            ));
        }
        found
    }
}

/// The result of a run.
struct Run {
    found: Vec<String>,
    swaps: usize,
    reads: usize,
}

async fn run(seed: u64, time: Duration, mutant: Option<Mutant>) -> Option<Run> {
    let own = Own { megabytes: mutant.is_none().then_some(MEGABYTES), clock: mutant.is_none() };
    let mut server = start_with(SETTINGS, own)?;
    if mutant.is_none() && !server.has_file_system {
        println!("no disk is full: a file system for it cannot be mounted, as by root");
    }
    if mutant.is_none() && !server.has_clock() {
        println!("no clock jumps: Debian's package faketime is missing");
    }
    drop(Host::open(&server.new_database(DATABASE)));
    server.sql_in(DATABASE, faults::FULL_DISK);
    server.sql_in(DATABASE, mutant.map_or("", Mutant::sql));
    let mut standby = mutant.is_none().then(|| server.start_standby());
    let ports = [Some(server.port()), standby.as_ref().map(|standby| standby.port())];
    let proxies: Vec<Proxy> = ports.into_iter().flatten().map(Proxy::start).collect();
    let servers: Vec<String> = proxies.iter().map(|proxy| format!("127.0.0.1:{}", proxy.port())).collect();
    let url = format!("postgres://postgres@{}/{DATABASE}", servers.join(","));
    let hosts: Vec<Host> = (0..3).map(|_| Host::open(&url)).collect();
    for host in &hosts {
        let memory = &host.store.shared.supervisor.memory;
        memory.forgets_nothing.store(mutant == Some(Mutant::MemoryKept), Ordering::SeqCst);
    }
    let cluster = Arc::new(Cluster {
        hosts: hosts.iter().map(|host| host.store.backend(0)).collect(),
        mutant,
        barriers: hosts.iter().map(|_| Mutex::default()).collect(),
        history: History::default(),
        is_over: AtomicBool::new(false),
        next_id: AtomicU64::new(1),
    });
    let clients: Vec<_> =
        (0..=2 * CLIENTS).map(|kind| tokio::spawn(cluster.clone().client(seed + 1000 * kind, kind))).collect();
    let (began, mut rng) = (Instant::now(), Rng::with_seed(seed));
    let (mut server, _proxies) = tokio::task::spawn_blocking(move || {
        while began.elapsed() < time {
            let pause = Duration::from_millis(200 + rng.u64(..800));
            wait::pause(pause);
            // Once per run, the primary is lost for good.
            if began.elapsed() > time / 2
                && let Some(standby) = standby.take()
            {
                server.kill();
                standby.promote();
                server = standby;
            }
            let faults = if mutant.is_some() { &Fault::ALL[..4] } else { &Fault::ALL };
            let faults: Vec<_> = faults.iter().filter(|fault| fault.is_possible(&server)).collect();
            let fault = faults[rng.usize(..faults.len())];
            fault.strike(&mut server, &proxies, standby.is_some(), pause);
        }
        (server, proxies)
    })
    .await
    .unwrap();
    cluster.is_over.store(true, Ordering::SeqCst);
    within_async(SOON, "the clients to end", futures::future::try_join_all(clients)).await.unwrap();
    let found = cluster.check().await;
    server.kill();
    let swaps = cluster.history.tried.lock().unwrap().iter().filter(|tried| tried.is_acknowledged).count();
    let reads = cluster.history.seen.lock().unwrap().len();
    Some(Run { found, swaps, reads })
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn seeded_faults_lose_no_acknowledged_write_and_cause_no_stale_read() {
    let (seed, seconds) = (variable("TORTURE_SEED").unwrap_or(1), variable("TORTURE_SECONDS").unwrap_or(20));
    let Some(run) = run(seed, Duration::from_secs(seconds), None).await else { return };
    println!("seed {seed}: {} swaps, {} reads", run.swaps, run.reads);
    assert!(run.found.is_empty(), "seed {seed}: {:#?}", &run.found[..run.found.len().min(10)]);
    assert!(run.swaps > 20 && run.reads > 20, "{} swaps and {} reads in {seconds} s", run.swaps, run.reads);
}

/// A suite that cannot fail proves nothing: it must find each defect within some attempts.
async fn is_found(mutant: Mutant) {
    for seed in 1..=40 {
        let Some(run) = run(seed, Duration::from_secs(4), Some(mutant)).await else { return };
        if let Some(violation) = run.found.first() {
            println!("{mutant:?}: {violation}");
            return;
        }
    }
    panic!("{mutant:?} is not found");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn each_defect_would_be_found() {
    for mutant in Mutant::ALL {
        is_found(mutant).await;
    }
}
