//! Threads with a single-threaded runtime each. A connection, its requests, their guest instances and reads stay on one
//! shard.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use hexad_http::body::ResponseBody;
use hexad_support::serving_threads::ServingThreads;
use hexad_support::serving_threads::StopSignal;
use http::{Request, Response};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio_util::task::TaskTracker;
use wasmtime_wasi_http::WasiBody;

use crate::application::Application;
use crate::connection;
use crate::ingress::Accepted;

pub enum Job {
    Connection(Box<Accepted>),
    Request(Box<Request<WasiBody>>, oneshot::Sender<Response<ResponseBody>>),
}

/// The handle of a shard's thread.
pub struct Shard {
    jobs: UnboundedSender<(Job, LoadGuard)>,
    load: Arc<AtomicUsize>,
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
        count: usize,
        application: &Arc<Application>,
        stop: &StopSignal,
        threads: &ServingThreads,
    ) -> io::Result<Vec<Self>> {
        (0..count)
            .map(|index| {
                let (jobs, queue) = unbounded_channel();
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
                // A spawned task, not the runtime's root future: tokio polls the root before tasks that were woken
                // earlier. A new request would overtake the guest call that is about to give its instance back.
                let name = format!("shard-{index}");
                let serving = threads.thread(&name, stop.clone());
                let task = runtime.spawn(run(index, application.clone(), queue, stop.clone()));
                let thread = std::thread::Builder::new().name(name).spawn(move || {
                    let _serving = serving;
                    if runtime.block_on(task).is_err() {
                        tracing::error!("a shard panicked");
                    }
                })?;
                Ok(Self { jobs, load: Arc::default(), thread })
            })
            .collect()
    }

    /// How many jobs are not finished.
    pub fn load(&self) -> usize {
        self.load.load(Ordering::Relaxed)
    }

    /// The load, for a caller that does not keep the shard.
    pub fn load_counter(&self) -> Arc<AtomicUsize> {
        self.load.clone()
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

/// The shard with the fewest unfinished jobs among the shards that have not stopped.
pub fn least_loaded(shards: &[Shard]) -> Option<&Shard> {
    shards.iter().filter(|shard| !shard.jobs.is_closed()).min_by_key(|shard| shard.load())
}

/// Handles one request on the least loaded shard. `None` if the shard has stopped.
pub async fn handle(shards: &[Shard], request: Request<WasiBody>) -> Option<Response<ResponseBody>> {
    let (reply, response) = oneshot::channel();
    least_loaded(shards)?.submit(Job::Request(Box::new(request), reply));
    response.await.ok()
}

async fn run(
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
                let stop = stop.clone();
                tasks.spawn(async move {
                    connection::serve(&application, index, *accepted, stop).await;
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
    let deadline = match deadline {
        Some(deadline) => deadline,
        None => stopping.await.unwrap_or_else(Instant::now).into(),
    };
    finish(&tasks, &application.guest_tasks(index), deadline).await;
}

/// Waits for the connections and the guests of a shard that stops.
async fn finish(tasks: &TaskTracker, guests: &TaskTracker, deadline: tokio::time::Instant) {
    tasks.close();
    // A guest may still work after its response, and its client relies on that work.
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
