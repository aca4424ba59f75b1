//! The context of a request: its clock, its writes and its outcome. Its connection, its guest call and its bodies share
//! it.

mod awaited;
mod service_time;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures::task::AtomicWaker;
use hexad_http::nested_request::ParentRequest;
use hexad_http::response_cache::Dependencies;
use hexad_http::send_buffer::{BodyProgress, DrainPolicy};
use hexad_imports::keyvalue::RequestWrites;
use hexad_limits::anonymous_work::{ClientWork, Work};
use hexad_limits::concurrency_limit::ClientKeys;
use hexad_manifest::RequestLimits;
use hexad_telemetry::metrics::InstanceFailure;
use hexad_trace::Trace;
use http::Uri;

pub use self::awaited::Awaited;
use self::service_time::ServiceTime;

/// Why a guest did not get the whole body of its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UploadFailure {
    /// The body passes the limit.
    TooLarge,
    /// The client stopped in the middle of the body, or sent bytes that are no body.
    Broken,
}

/// The clock, the writes and the outcome of one request.
pub struct RequestContext {
    pub writes: RequestWrites,
    uri: Uri,
    client: ClientKeys,
    trace: Option<Arc<Trace>>,
    parent: Option<Arc<ParentRequest>>,
    work: Option<Arc<ClientWork>>,
    /// Nanoseconds of processor time that the client's work account has.
    charged_cpu: AtomicU64,
    dependencies: OnceLock<Arc<Dependencies>>,
    started: Instant,
    request_timeout: Duration,
    transfer_timeout: Duration,
    cpu_time: Duration,
    /// Microseconds from the start to the last byte received from the client.
    progress: AtomicU64,
    service_time: ServiceTime,
    /// The progress of the request's body.
    pub upload: BodyProgress,
    min_rate: DrainPolicy,
    /// The task that reads the response's body. Woken when the guest waits for more of the request's body.
    body_reader: AtomicWaker,
    slow_client: AtomicBool,
    head_at: OnceLock<Instant>,
    /// Microseconds from the start until the client began to wait for more of the response's body. 0 if it does not
    /// wait.
    body_awaited: AtomicU64,
    ended_at: OnceLock<Instant>,
    /// The guest's task. Woken when the response ends.
    response_ended: AtomicWaker,
    /// Whether the guest holds the request's body, neither read to its end nor dropped.
    pub has_open_body: AtomicBool,
    too_large: AtomicBool,
    /// Whether the request's body has broken off.
    upload_broken: AtomicBool,
    /// The task that waits for the response's head. Woken when the request's body passes the limit.
    body_too_large: AtomicWaker,
    abandoned: AtomicBool,
    /// The guest's task. Woken when the client has gone, and when the guest's time is over.
    abandonment: AtomicWaker,
    expired: AtomicBool,
    failure: OnceLock<InstanceFailure>,
}

impl RequestContext {
    /// `started` is the time when the request came.
    pub fn new(
        limits: &RequestLimits,
        uri: Uri,
        client: ClientKeys,
        trace: Option<Arc<Trace>>,
        started: Instant,
    ) -> Self {
        Self {
            writes: RequestWrites::default(),
            uri,
            client,
            trace,
            parent: None,
            work: None,
            charged_cpu: AtomicU64::new(0),
            dependencies: OnceLock::new(),
            started,
            request_timeout: limits.request_timeout,
            transfer_timeout: limits.transfer_timeout,
            cpu_time: limits.cpu_time,
            progress: AtomicU64::new(0),
            service_time: ServiceTime::default(),
            upload: BodyProgress::default(),
            min_rate: DrainPolicy::default(),
            body_reader: AtomicWaker::new(),
            slow_client: AtomicBool::new(false),
            head_at: OnceLock::new(),
            body_awaited: AtomicU64::new(0),
            ended_at: OnceLock::new(),
            response_ended: AtomicWaker::new(),
            has_open_body: AtomicBool::new(false),
            too_large: AtomicBool::new(false),
            upload_broken: AtomicBool::new(false),
            body_too_large: AtomicWaker::new(),
            abandoned: AtomicBool::new(false),
            abandonment: AtomicWaker::new(),
            expired: AtomicBool::new(false),
            failure: OnceLock::new(),
        }
    }

    /// With the properties that the guest's own requests to its application inherit from this request.
    pub fn with_parent(self, parent: Option<Arc<ParentRequest>>) -> Self {
        Self { parent, ..self }
    }

    /// With the work account of its client.
    pub fn with_work(self, work: Option<Arc<ClientWork>>) -> Self {
        Self { work, ..self }
    }

    /// `None` if the client's work is not limited.
    pub fn work(&self) -> Option<&Arc<ClientWork>> {
        self.work.as_ref()
    }

    /// Counts the guest's processor time as work; `total` is the time so far.
    pub fn charge_cpu_time(&self, total: Duration) {
        if let Some(work) = &self.work {
            let total = u64::try_from(total.as_nanos()).unwrap_or(u64::MAX);
            work.charge(Work::CpuTime, total.saturating_sub(self.charged_cpu.swap(total, Ordering::Relaxed)));
        }
    }

    /// With the minimum rate at which the client has to send the request's body while others wait for the instance.
    pub fn with_min_rate(self, min_rate: DrainPolicy) -> Self {
        Self { min_rate, ..self }
    }

    pub fn min_rate(&self) -> DrainPolicy {
        self.min_rate
    }

    /// `None` if the component may send no requests.
    pub fn parent(&self) -> Option<&Arc<ParentRequest>> {
        self.parent.as_ref()
    }

    /// The path of the request, without its query.
    pub fn path(&self) -> &str {
        self.uri.path()
    }

    /// The processor time that the guest may use.
    pub fn cpu_time(&self) -> Duration {
        self.cpu_time
    }

    pub fn client(&self) -> ClientKeys {
        self.client
    }

    /// `None` if no traces are exported.
    pub fn trace(&self) -> Option<&Arc<Trace>> {
        self.trace.as_ref()
    }

    /// Records the keys that the guest reads in `dependencies`, because the response may be cached.
    pub fn track_reads(&self, dependencies: Arc<Dependencies>) {
        let _ = self.dependencies.set(dependencies);
    }

    pub fn dependencies(&self) -> Option<&Arc<Dependencies>> {
        self.dependencies.get()
    }

    /// Records that a chunk of the request's body has arrived. The guest's time starts again, because a slow upload is
    /// not a slow guest.
    pub fn record_progress(&self, bytes: u64) {
        self.upload.record_received(bytes);
        self.progress.store(self.micros(), Ordering::Relaxed);
    }

    /// Microseconds since the start.
    fn micros(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Records whether the guest waits for the client to send more of the request's body.
    pub fn set_waiting_for_client(&self, waits: bool) {
        if waits != self.upload.is_waiting() {
            self.service_time.set_waiting_for_client(waits, Instant::now());
        }
        if !waits && self.upload.is_waiting() {
            // The wait for the client is not the guest's time.
            self.record_progress(0);
        }
        self.upload.set_waiting(waits);
        if waits {
            self.body_reader.wake();
        }
    }

    /// Wakes this task when the guest waits for its client. Only the task that reads the response's body may call it.
    pub fn register_body_reader(&self, cx: &Context<'_>) {
        self.body_reader.register(cx.waker());
    }

    /// True if the guest is blocked on the client, or was when its time was over or the response ended. Then the client
    /// caused the time-out.
    pub fn is_waiting_for_client(&self) -> bool {
        self.upload.is_waiting() || self.slow_client.load(Ordering::Relaxed)
    }

    /// Records that the request has its permit: the guest's service time begins.
    pub fn mark_permit_obtained(&self) {
        self.service_time.begin(Instant::now());
    }

    /// The time that the guest took for the head of the response, or has taken so far. It runs from the permit on,
    /// without the time in which the guest waits for the client.
    pub fn service_time(&self) -> Duration {
        self.service_time.elapsed(Instant::now())
    }

    /// Records that the head of the response goes out: the transfer timeout starts.
    pub fn mark_head_sent(&self) {
        let now = Instant::now();
        self.service_time.end(now);
        let _ = self.head_at.set(now);
    }

    /// Records that the response's body is complete, or that the client has gone.
    pub fn end_response(&self) {
        let now = Instant::now();
        self.service_time.end(now);
        if self.ended_at.set(now).is_ok() && self.upload.is_waiting() {
            // A guest that is ended no longer waits. The host asks afterwards whether its client was slow.
            self.slow_client.store(true, Ordering::Relaxed);
        }
        self.response_ended.wake();
    }

    /// Ready once the response has ended. Only one task may poll it.
    pub fn poll_response_ended(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.ended_at.get().is_none() {
            self.response_ended.register(cx.waker());
        }
        // The response may have ended before the waker was registered.
        match self.ended_at.get() {
            Some(_) => Poll::Ready(()),
            None => Poll::Pending,
        }
    }

    /// Records that the request's body has passed the limit.
    pub fn mark_body_too_large(&self) {
        self.too_large.store(true, Ordering::SeqCst);
        self.body_too_large.wake();
    }

    /// Ready once the request's body has passed the limit. Only one task may poll it.
    pub fn poll_body_too_large(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.body_too_large.register(cx.waker());
        match self.too_large.load(Ordering::SeqCst) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    pub fn mark_upload_broken(&self) {
        self.upload_broken.store(true, Ordering::SeqCst);
    }

    /// Why the guest did not get the whole body of its request.
    pub fn upload_failure(&self) -> Option<UploadFailure> {
        match (self.too_large.load(Ordering::SeqCst), self.upload_broken.load(Ordering::SeqCst)) {
            (true, _) => Some(UploadFailure::TooLarge),
            (false, true) => Some(UploadFailure::Broken),
            (false, false) => None,
        }
    }

    /// Records that the guest has trapped or was ended.
    pub fn mark_failed(&self, failure: InstanceFailure) {
        let _ = self.failure.set(failure);
    }

    /// Why the guest has trapped or was ended, if so.
    pub fn failure(&self) -> Option<InstanceFailure> {
        self.failure.get().copied()
    }

    /// When the guest's time is over. Later phases of the request move it.
    pub fn expires_at(&self) -> Instant {
        if let Some(ended_at) = self.ended_at.get() {
            // The guest may still work after its response.
            return *ended_at + self.request_timeout;
        }
        if let Some(head_at) = self.head_at.get() {
            return *head_at + self.transfer_timeout;
        }
        let progress = Duration::from_micros(self.progress.load(Ordering::Relaxed));
        let longest = self.request_timeout.max(self.transfer_timeout);
        self.started + longest.min(progress.saturating_add(self.request_timeout))
    }

    /// Records that the client has gone before its response was complete: the guest's work is of no use.
    pub fn abandon(&self) {
        self.abandoned.store(true, Ordering::SeqCst);
        self.abandonment.wake();
    }

    pub fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::SeqCst)
    }

    /// Ready once the client has gone. Only one task may poll it.
    pub fn poll_abandoned(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.abandonment.register(cx.waker());
        match self.is_abandoned() {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    /// Ends the guest's time: its next poll ends it.
    pub fn expire(&self) {
        self.slow_client.fetch_or(self.upload.is_waiting(), Ordering::Relaxed);
        self.expired.store(true, Ordering::SeqCst);
        self.abandonment.wake();
    }

    /// Whether the guest was ended because its time was over.
    pub fn is_expired(&self) -> bool {
        self.expired.load(Ordering::SeqCst)
    }

    pub async fn until_expired(&self) {
        loop {
            let expires_at = self.expires_at();
            if expires_at <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(expires_at.into()).await;
        }
    }
}
