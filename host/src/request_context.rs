//! One request and its response, as all who have a part in them see them.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use futures::task::AtomicWaker;
use http::Uri;

use crate::imports::keyvalue::WriteScope;
use crate::manifest::Limits;
use crate::metrics::Failure;
use crate::response_cache::ReadSet;
use crate::trace::Trace;

/// The clock, the writes and the fate of one exchange.
pub struct Exchange {
    pub writes: WriteScope,
    uri: Uri,
    trace: Option<Arc<Trace>>,
    read_set: OnceLock<Arc<ReadSet>>,
    started: Instant,
    request_timeout: Duration,
    transfer_timeout: Duration,
    /// Microseconds from the start to the last byte received from the client.
    progress: AtomicU64,
    waits_for_client: AtomicBool,
    slow_client: AtomicBool,
    head_at: OnceLock<Instant>,
    ended_at: OnceLock<Instant>,
    /// Who waits for the end.
    waits_for_end: AtomicWaker,
    too_large: AtomicBool,
    /// Who waits for the head, and wants to know that the body is too large.
    waits_for_head: AtomicWaker,
    expired: AtomicBool,
    broken: AtomicBool,
    out_of_cpu_time: AtomicBool,
}

impl Exchange {
    pub fn new(limits: &Limits, uri: Uri, trace: Option<Arc<Trace>>) -> Self {
        Self {
            writes: WriteScope::default(),
            uri,
            trace,
            read_set: OnceLock::new(),
            started: Instant::now(),
            request_timeout: limits.request_timeout,
            transfer_timeout: limits.transfer_timeout,
            progress: AtomicU64::new(0),
            waits_for_client: AtomicBool::new(false),
            slow_client: AtomicBool::new(false),
            head_at: OnceLock::new(),
            ended_at: OnceLock::new(),
            waits_for_end: AtomicWaker::new(),
            too_large: AtomicBool::new(false),
            waits_for_head: AtomicWaker::new(),
            expired: AtomicBool::new(false),
            broken: AtomicBool::new(false),
            out_of_cpu_time: AtomicBool::new(false),
        }
    }

    /// The path that was asked for.
    pub fn path(&self) -> &str {
        self.uri.path()
    }

    /// The request's trace, where there are any.
    pub fn trace(&self) -> Option<&Arc<Trace>> {
        self.trace.as_ref()
    }

    /// Records in `read_set` what the guest reads, because the response may be cached.
    pub fn track_reads(&self, read_set: Arc<ReadSet>) {
        let _ = self.read_set.set(read_set);
    }

    pub fn read_set(&self) -> Option<&Arc<ReadSet>> {
        self.read_set.get()
    }

    /// A part of the request's body has arrived. The guest's time starts again: a slow upload
    /// is not a slow guest.
    pub fn received(&self) {
        let micros = u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.progress.store(micros, Ordering::Relaxed);
    }

    /// Says whether the guest waits for the client to send more of the request's body.
    pub fn waits_for_client(&self, waits: bool) {
        self.waits_for_client.store(waits, Ordering::Relaxed);
    }

    /// Whether it is the client that keeps everybody waiting, or did when time was over.
    pub fn is_clients_turn(&self) -> bool {
        self.waits_for_client.load(Ordering::Relaxed) || self.slow_client.load(Ordering::Relaxed)
    }

    /// The response's head is there.
    pub fn head_produced(&self) {
        let _ = self.head_at.set(Instant::now());
    }

    /// The response's body is complete, or nobody wants the rest.
    pub fn ended(&self) {
        let _ = self.ended_at.set(Instant::now());
        self.waits_for_end.wake();
    }

    /// Ready once the response has ended. One may ask at a time.
    pub fn poll_ended(&self, cx: &mut Context<'_>) -> Poll<()> {
        if self.ended_at.get().is_none() {
            self.waits_for_end.register(cx.waker());
        }
        // It may have ended meanwhile.
        match self.ended_at.get() {
            Some(_) => Poll::Ready(()),
            None => Poll::Pending,
        }
    }

    /// The request's body has passed the limit.
    pub fn found_too_large(&self) {
        self.too_large.store(true, Ordering::SeqCst);
        self.waits_for_head.wake();
    }

    /// Ready once the request's body has passed the limit. One may ask at a time.
    pub fn poll_too_large(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.waits_for_head.register(cx.waker());
        match self.too_large.load(Ordering::SeqCst) {
            true => Poll::Ready(()),
            false => Poll::Pending,
        }
    }

    /// The guest has trapped or was ended.
    pub fn broke(&self, failure: Failure) {
        self.out_of_cpu_time.store(failure == Failure::CpuTime, Ordering::SeqCst);
        self.broken.store(true, Ordering::SeqCst);
    }

    /// Whether the guest was ended because it used up its processor time.
    pub fn is_out_of_cpu_time(&self) -> bool {
        self.out_of_cpu_time.load(Ordering::SeqCst)
    }

    pub fn is_broken(&self) -> bool {
        self.broken.load(Ordering::SeqCst)
    }

    /// When the guest's time is over. It moves as the exchange goes on.
    pub fn expires_at(&self) -> Instant {
        if let Some(ended) = self.ended_at.get() {
            // What the guest still does after its response.
            return *ended + self.request_timeout;
        }
        if let Some(head) = self.head_at.get() {
            return *head + self.transfer_timeout;
        }
        let progress = Duration::from_micros(self.progress.load(Ordering::Relaxed));
        let longest = self.request_timeout.max(self.transfer_timeout);
        self.started + longest.min(progress.saturating_add(self.request_timeout))
    }

    /// The guest is to end, and with it what it waits for.
    pub fn expire(&self) {
        self.slow_client.store(self.waits_for_client.load(Ordering::Relaxed), Ordering::Relaxed);
        self.expired.store(true, Ordering::SeqCst);
    }

    /// Whether the guest was ended because its time was over.
    pub fn is_expired(&self) -> bool {
        self.expired.load(Ordering::SeqCst)
    }

    /// Returns once the guest's time is over.
    pub async fn expired(&self) {
        loop {
            let expires_at = self.expires_at();
            if expires_at <= Instant::now() {
                return;
            }
            tokio::time::sleep_until(expires_at.into()).await;
        }
    }
}
