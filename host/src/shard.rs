//! Threads with a single-threaded runtime each. A request, its guest instance and its reads stay on one shard. So does
//! a connection, until the number of shards that serve changes.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use http::{Request, Response};
use tokio::sync::mpsc::error::SendError;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;
use wasmtime_wasi_http::WasiBody;

use crate::application::Application;
use crate::balance::{Balance, Handover, HandoverQueue};
use crate::body::ResponseBody;
use crate::busy_poll::{self, PollingTime};
use crate::connection;
use crate::ingress::Accepted;
use crate::serving_threads::ServingThreads;
use crate::stop::StopSignal;

pub enum Job {
    Connection(Box<Accepted>),
    /// A connection that another shard has served.
    Handover(Handover),
    Request(Box<Request<WasiBody>>, oneshot::Sender<Response<ResponseBody>>),
}

/// How many shards there are, and how they run.
pub struct ShardOptions {
    pub count: usize,
    /// Whether some of the shards may pause when the load is low.
    pub follows_load: bool,
    /// How long each shard polls its sockets for more work before its thread sleeps.
    pub busy_poll: Duration,
}

/// The handle of a shard's thread.
pub struct Shard {
    index: usize,
    jobs: UnboundedSender<(Job, LoadGuard)>,
    load: Arc<AtomicUsize>,
    polling: Arc<PollingTime>,
    balance: Arc<Balance>,
    thread: JoinHandle<()>,
}

/// Counts one job in its shard's load until it is dropped.
struct LoadGuard(Arc<AtomicUsize>);

impl LoadGuard {
    fn new(load: &Arc<AtomicUsize>) -> Self {
        load.fetch_add(1, Ordering::Relaxed);
        Self(load.clone())
    }
}

impl Drop for LoadGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Shard {
    pub fn start_all(
        options: &ShardOptions,
        application: &Arc<Application>,
        stop: &StopSignal,
        threads: &ServingThreads,
    ) -> io::Result<Vec<Self>> {
        let &ShardOptions { count, follows_load, busy_poll: window } = options;
        let (jobs, receivers): (Vec<_>, Vec<_>) = (0..count).map(|_| unbounded_channel()).unzip();
        let loads: Vec<Arc<AtomicUsize>> = (0..count).map(|_| Arc::default()).collect();
        let balance = Arc::new(Balance::new(jobs.iter().zip(&loads).map(queue_of).collect()));
        let shards = jobs.into_iter().zip(receivers).zip(loads).enumerate();
        shards
            .map(|(index, ((jobs, queue), load))| {
                let polling = Arc::<PollingTime>::default();
                let time = polling.clone();
                let mut runtime = tokio::runtime::Builder::new_current_thread();
                let runtime =
                    runtime.enable_all().on_thread_park(move || busy_poll::before_sleep(window, &time)).build()?;
                runtime.spawn(busy_poll::keep_awake());
                // A spawned task, not the runtime's root future: tokio polls the root before tasks that were woken
                // earlier. A new request would overtake the guest call that is about to give its instance back.
                let name = format!("shard-{index}");
                let serving = threads.thread(&name, stop.clone());
                let task = runtime.spawn(run(balance.clone(), index, application.clone(), queue, stop.clone()));
                if index == 0 && count > 1 && follows_load {
                    let (balance, watched) = (balance.clone(), threads.thread("balance", stop.clone()));
                    runtime.spawn(async move {
                        let _watched = watched;
                        balance.follow().await;
                    });
                }
                let (entered, time) = (balance.clone(), polling.clone());
                let thread = std::thread::Builder::new().name(name).spawn(move || {
                    let _serving = serving;
                    entered.enter(index, time);
                    if runtime.block_on(task).is_err() {
                        tracing::error!("a shard panicked");
                    }
                })?;
                Ok(Self { index, jobs, load, polling, balance: balance.clone(), thread })
            })
            .collect()
    }

    /// How many jobs are not finished.
    pub fn load(&self) -> usize {
        self.load.load(Ordering::Relaxed)
    }

    /// How many shards serve, and the changes of that number.
    pub fn balance(&self) -> &Arc<Balance> {
        &self.balance
    }

    /// The load, for a caller that does not keep the shard.
    pub fn load_counter(&self) -> Arc<AtomicUsize> {
        self.load.clone()
    }

    /// How long the shard has polled its sockets and found nothing.
    pub fn polling(&self) -> Arc<PollingTime> {
        self.polling.clone()
    }

    /// Gives the shard a job. A stopped shard drops the job, which closes its connection.
    pub fn submit(&self, job: Job) {
        let _ = self.jobs.send((job, LoadGuard::new(&self.load)));
    }

    /// Waits for the thread; the stop must have been signalled.
    pub fn join(self) {
        drop(self.jobs);
        if self.thread.join().is_err() {
            tracing::error!("a shard panicked");
        }
    }
}

/// The shard with the fewest unfinished jobs among the shards that serve and have not stopped.
pub fn least_loaded(shards: &[Shard]) -> Option<&Shard> {
    let rank = |shard: &&Shard| (shard.index >= shard.balance.serving(), shard.load());
    shards.iter().filter(|shard| !shard.jobs.is_closed()).min_by_key(rank)
}

/// Handles one request on the least loaded shard. `None` if the shard has stopped.
pub async fn handle(shards: &[Shard], request: Request<WasiBody>) -> Option<Response<ResponseBody>> {
    let (reply, response) = oneshot::channel();
    least_loaded(shards)?.submit(Job::Request(Box::new(request), reply));
    response.await.ok()
}

/// The queue through which other shards hand connections to this one. It does not keep the shard from ending.
fn queue_of((jobs, load): (&UnboundedSender<(Job, LoadGuard)>, &Arc<AtomicUsize>)) -> HandoverQueue {
    let (jobs, load) = (jobs.downgrade(), load.clone());
    Box::new(move |handover| {
        let Some(jobs) = jobs.upgrade() else {
            return Err(handover);
        };
        match jobs.send((Job::Handover(handover), LoadGuard::new(&load))) {
            Err(SendError((Job::Handover(handover), _))) => Err(handover),
            _ => Ok(()),
        }
    })
}

async fn run(
    balance: Arc<Balance>,
    index: usize,
    application: Arc<Application>,
    mut jobs: UnboundedReceiver<(Job, LoadGuard)>,
    stop: StopSignal,
) {
    let tasks = TaskTracker::new();
    let mut signal = stop.clone();
    let stopping = async {
        // An error means that the host was dropped, which is a stop without a grace period.
        signal.wait_for(Option::is_some).await.ok().and_then(|deadline| *deadline)
    };
    tokio::pin!(stopping);
    let mut deadline = None;
    loop {
        let deadline_passed = async move {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        let (job, load) = tokio::select! {
            stop_at = &mut stopping, if deadline.is_none() => {
                deadline = Some(stop_at.unwrap_or_else(Instant::now).into());
                continue;
            }
            // The shard serves connections that the host accepted before the stop.
            job = jobs.recv() => match job {
                Some(job) => job,
                None => break,
            },
            () = deadline_passed => break,
        };
        let application = application.clone();
        match job {
            Job::Connection(accepted) => {
                let (stop, place) = (stop.clone(), (balance.clone(), index));
                tasks.spawn(async move {
                    connection::serve(&application, place, *accepted, stop).await;
                    drop(load);
                });
            }
            Job::Handover(handover) => {
                tasks.spawn(async move {
                    handover.resume(index).await;
                    drop(load);
                });
            }
            Job::Request(request, reply) => {
                tasks.spawn(async move {
                    // The caller may have stopped waiting.
                    let _ = reply.send(application.handle(index, *request).await);
                    drop(load);
                });
            }
        }
    }
    tasks.close();
    let deadline = match deadline {
        Some(deadline) => deadline,
        None => stopping.await.unwrap_or_else(Instant::now).into(),
    };
    // A guest may still work after its response, and its client relies on that work.
    let guests = application.guest_tasks(index);
    let finished = async {
        tasks.wait().await;
        guests.close();
        guests.wait().await;
    };
    if tokio::time::timeout_at(deadline, finished).await.is_err() {
        tracing::warn!(
            connections = tasks.len(),
            guests = guests.len(),
            "the grace period is over; unfinished connections are closed, and unfinished guests are ended"
        );
    }
}
