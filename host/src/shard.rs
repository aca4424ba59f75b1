//! A thread with a single-threaded runtime: connections, instances and reads stay on it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Instant;

use http::{Request, Response};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::sync::{oneshot, watch};
use tokio_util::task::TaskTracker;
use wasmtime_wasi_http::WasiBody;

use crate::application::Application;
use crate::body::ResponseBody;
use crate::connection;
use crate::ingress::Accepted;

/// When the host stops: by then, whatever is not finished is broken off. `None` while it runs.
pub type Stop = Option<Instant>;

/// Work for a shard. The load counts until the work is done.
pub enum Job {
    Connection(Box<Accepted>),
    Request(Box<Request<WasiBody>>, oneshot::Sender<Response<ResponseBody>>),
}

/// The handle of a shard's thread.
pub struct Shard {
    jobs: UnboundedSender<(Job, Load)>,
    load: Arc<AtomicUsize>,
    thread: JoinHandle<()>,
}

/// One job's part of its shard's load.
pub struct Load(Arc<AtomicUsize>);

impl Load {
    fn add(load: &Arc<AtomicUsize>) -> Self {
        load.fetch_add(1, Ordering::Relaxed);
        Self(load.clone())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Shard {
    pub fn start(index: usize, application: Arc<Application>, stop: watch::Receiver<Stop>) -> io::Result<Self> {
        let (jobs, queue) = unbounded_channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        // As a task among the others: the runtime would poll a root future before tasks that were
        // woken earlier, and a request would come before the run that is about to give its instance back.
        let tasks = runtime.spawn(run(index, application, queue, stop));
        let thread = std::thread::Builder::new().name(format!("shard-{index}")).spawn(move || {
            if runtime.block_on(tasks).is_err() {
                tracing::error!("a shard panicked");
            }
        })?;
        Ok(Self { jobs, load: Arc::default(), thread })
    }

    pub fn load(&self) -> usize {
        self.load.load(Ordering::Relaxed)
    }

    /// The same, for somebody who does not keep the shard.
    pub fn load_counter(&self) -> Arc<AtomicUsize> {
        self.load.clone()
    }

    /// Gives the shard a job. It is lost if the shard has stopped, which closes the connection.
    pub fn give(&self, job: Job) {
        let _ = self.jobs.send((job, Load::add(&self.load)));
    }

    /// Waits for the thread; the stop must have been signalled.
    pub fn join(self) {
        drop(self.jobs);
        if self.thread.join().is_err() {
            tracing::error!("a shard panicked");
        }
    }
}

/// The shard with the least to do.
pub fn least_loaded(shards: &[Shard]) -> Option<&Shard> {
    shards.iter().min_by_key(|shard| shard.load())
}

/// Has the shard with the least to do answer one request; none if it has stopped.
pub async fn answer(shards: &[Shard], request: Request<WasiBody>) -> Option<Response<ResponseBody>> {
    let (reply, response) = oneshot::channel();
    least_loaded(shards)?.give(Job::Request(Box::new(request), reply));
    response.await.ok()
}

async fn run(
    index: usize,
    application: Arc<Application>,
    mut queue: UnboundedReceiver<(Job, Load)>,
    stop: watch::Receiver<Stop>,
) {
    let tasks = TaskTracker::new();
    let mut signal = stop.clone();
    let stopping = async {
        // An error means that the host is gone, which is a stop without a grace period.
        signal.wait_for(Option::is_some).await.ok().and_then(|deadline| *deadline)
    };
    tokio::pin!(stopping);
    let mut deadline = None;
    loop {
        let over = async move {
            match deadline {
                Some(deadline) => tokio::time::sleep_until(deadline).await,
                None => std::future::pending().await,
            }
        };
        let (job, load) = tokio::select! {
            at = &mut stopping, if deadline.is_none() => {
                deadline = Some(at.unwrap_or_else(Instant::now).into());
                continue;
            }
            // A connection that was accepted before the stop is served.
            job = queue.recv() => match job {
                Some(job) => job,
                None => break,
            },
            () = over => break,
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
                    // A caller that is gone has no use for the answer.
                    let _ = reply.send(application.answer(index, *request).await);
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
    if tokio::time::timeout_at(deadline, tasks.wait()).await.is_err() {
        tracing::warn!(unfinished = tasks.len(), "the time to finish is over; connections are broken off");
    }
}
