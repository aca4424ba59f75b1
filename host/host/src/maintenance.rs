//! Maintenance: periodic requests that a manifest declares and that the host sends to its components (decision 0002).
//!
//! The request is a `POST` with a JSON object. The component does a bounded part of its task and responds with a JSON
//! object. Its `cursor` is for the next request; it is absent or null when the task is finished. Its `wait_seconds` is
//! how long the host waits before that request. Other numbers are counts, which the host adds up and logs.
//!
//! One request is under way at a time, so that tasks do not take the processors from clients. Of the hosts that share a
//! store, one sends them.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use bytes::Bytes;
use futures::FutureExt;
use hexad_engine::StoreMonitor;
use hexad_http::body::ResponseBody;
use hexad_manifest::Maintenance;
use hexad_runtime::shard::{self, Shard};
use hexad_support::serving_threads::{ServingThreads, log_panic};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{Request, Response};
use http_body_util::{BodyExt, Full, Limited};
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

const NAME: &str = "maintenance";

/// The first run begins at most this long after the start, however rare the runs are.
const FIRST_RUN: Duration = Duration::from_secs(10 * 60);

/// How often a host checks whether it does the maintenance.
const NEXT_LOOK: Duration = Duration::from_secs(60);

/// The longest pause. The clock cannot add every duration that a component can send.
const LONGEST_PAUSE: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The largest response, in bytes.
const MAX_RESPONSE: usize = 1 << 20;

/// Bytes of an error response that are logged.
const MAX_LOGGED: usize = 1000;

/// The thread that sends the requests.
pub struct Maintainer {
    stop: oneshot::Sender<()>,
    thread: JoinHandle<()>,
}

impl Maintainer {
    pub fn start(
        tasks: Vec<Task>,
        shards: Arc<Vec<Shard>>,
        store: StoreMonitor,
        threads: ServingThreads,
    ) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build()?;
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name(NAME.to_owned()).spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = stopped => {}
                    () = run(tasks, &shards, &store, &threads) => {}
                }
            });
        })?;
        Ok(Self { stop, thread })
    }

    /// Ends the thread, without waiting for the response to a request under way.
    pub fn stop(self) {
        drop(self.stop);
        if self.thread.join().is_err() {
            tracing::error!("the maintenance thread panicked");
        }
    }
}

async fn run(mut tasks: Vec<Task>, shards: &[Shard], store: &StoreMonitor, threads: &ServingThreads) {
    while let Some(task) = tasks.iter_mut().min_by_key(|task| task.due) {
        sleep_until(task.due).await;
        let turn = async {
            match store.is_leader() {
                true => task.advance(shards).await,
                false => task.postpone(),
            }
        };
        let is_well = AssertUnwindSafe(turn).catch_unwind().await.is_ok();
        threads.record_turn(NAME, is_well);
        if !is_well {
            log_panic(NAME);
            task.postpone();
        }
    }
}

/// A component's task, between two of its requests.
pub struct Task {
    component: String,
    maintenance: Maintenance,
    /// The time of the next request.
    due: Instant,
    /// `None` before the first request of a run.
    cursor: Option<String>,
    counts: Counts,
}

/// A component's response to a maintenance request.
struct TaskResponse(Map<String, Value>);

impl TaskResponse {
    fn cursor(&self) -> Option<String> {
        self.0.get("cursor").and_then(Value::as_str).map(str::to_owned)
    }

    fn wait(&self) -> Duration {
        Duration::from_secs(self.0.get("wait_seconds").and_then(Value::as_u64).unwrap_or_default())
    }
}

impl Task {
    pub fn new(component: String, maintenance: Maintenance) -> Self {
        let due = after(maintenance.every.min(FIRST_RUN));
        Self { component, maintenance, due, cursor: None, counts: Counts::default() }
    }

    /// Another host does the maintenance now. This one checks again later, because the other may end.
    fn postpone(&mut self) {
        self.cursor = None;
        self.counts = Counts::default();
        self.due = after(self.maintenance.every.min(NEXT_LOOK));
    }

    /// Sends the next request, and sets the time of the following one.
    async fn advance(&mut self, shards: &[Shard]) {
        let component = &self.component;
        match self.post(shards).await {
            Ok(response) => {
                self.counts.add(&response);
                self.cursor = response.cursor();
                if self.cursor.is_some() {
                    self.due = after(response.wait());
                    return;
                }
                tracing::info!(component, counts = %self.counts, "maintenance is finished");
            }
            Err(error) => {
                tracing::warn!(component, error = %format_args!("{error:#}"), "maintenance failed; it starts again after its period")
            }
        }
        self.cursor = None;
        self.counts = Counts::default();
        self.due = after(self.maintenance.every);
    }

    async fn post(&self, shards: &[Shard]) -> Result<TaskResponse> {
        let response = send(self.request()?, shards).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), MAX_RESPONSE).collect().await;
        let body = body.map_err(|error| anyhow!("its response cannot be read: {error}"))?.to_bytes();
        if !status.is_success() {
            let start = body.get(..MAX_LOGGED).unwrap_or(&body);
            // Escaped, so that the component cannot forge lines of the log.
            bail!("it responded {status}: {}", String::from_utf8_lossy(start).escape_debug());
        }
        serde_json::from_slice(&body).map(TaskResponse).context("its response is not a JSON object")
    }

    fn request(&self) -> Result<Request<Full<Bytes>>, http::Error> {
        let body = match &self.cursor {
            None => json!({}),
            Some(cursor) => json!({ "cursor": cursor }),
        };
        let mut request = Request::post(self.maintenance.path.as_str())
            .header(HOST, "localhost")
            .header(CONTENT_TYPE, "application/json");
        if let Some(token) = &self.maintenance.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        request.body(Full::new(body.to_string().into()))
    }
}

async fn send(request: Request<Full<Bytes>>, shards: &[Shard]) -> Result<Response<ResponseBody>> {
    let request = request.map(|body| body.map_err(|never| match never {}).boxed_unsync());
    shard::handle(shards, request).await.context("the host is stopping")
}

fn after(pause: Duration) -> Instant {
    Instant::now() + pause.min(LONGEST_PAUSE)
}

/// The sums of a run's numbers, by name.
#[derive(Default)]
struct Counts(BTreeMap<String, u64>);

impl Counts {
    fn add(&mut self, response: &TaskResponse) {
        for (name, value) in &response.0 {
            if let Some(number) = value.as_u64().filter(|_| name != "wait_seconds") {
                let sum = self.0.entry(name.clone()).or_default();
                *sum = sum.saturating_add(number);
            }
        }
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, sum)) in self.0.iter().enumerate() {
            let space = if index == 0 { "" } else { " " };
            // The component chooses the name.
            write!(f, "{space}{}={sum}", name.escape_debug())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_added_up_by_name() {
        let mut counts = Counts::default();
        for response in
            [r#"{"keys": 7, "removed": 1, "cursor": "x", "wait_seconds": 120}"#, r#"{"keys": 3, "problems": []}"#]
        {
            counts.add(&TaskResponse(serde_json::from_str(response).unwrap()));
        }
        assert_eq!(counts.to_string(), "keys=10 removed=1");
    }
}
