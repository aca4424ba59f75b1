//! The minimum rate: ends responses whose client takes less.

use std::fmt;
use std::future::Future;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use hexad_limits::instance_permit::InstancePermit;
use tokio::time::{Instant, Sleep};

/// Checks in a period. When a response was too slow since the last check and others wait for its instance, the instance
/// yields its permit. If it cannot, the response ends.
const CHECKS: u32 = 10;

/// The minimum rate at which a client has to take the bytes that wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrainPolicy {
    /// Bytes per second; 0 for none.
    pub min_rate: u64,
    /// The time over which the rate is averaged. A client has this long to show the rate.
    pub period: Duration,
}

impl Default for DrainPolicy {
    fn default() -> Self {
        Self { min_rate: 8 * 1024, period: Duration::from_secs(10) }
    }
}

/// The bytes that wait for the client, on an HTTP/1 connection or an HTTP/2 stream. For an upload: the bytes of a
/// request's body for which the guest waits.
#[derive(Default)]
pub struct BodyProgress {
    waiting: AtomicUsize,
    taken: AtomicU64,
    /// The permit of the guest's instance, while the guest writes the response.
    permit: Mutex<Option<Arc<InstancePermit>>>,
    /// The client for the limits, if a proxy has named one.
    client: Mutex<Option<IpAddr>>,
}

impl BodyProgress {
    pub fn add(&self, bytes: usize) {
        self.waiting.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn remove(&self, bytes: usize) {
        self.taken.fetch_add(bytes as u64, Ordering::Relaxed);
        self.waiting.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Begins a response. Others may wait for the permit of its instance.
    pub fn begin(&self, permit: Option<Arc<InstancePermit>>) {
        *self.permit() = permit;
    }

    /// Records that the guest with this permit has written its response. The next response on the connection may have
    /// begun.
    pub fn end(&self, ended: &Arc<InstancePermit>) {
        self.permit().take_if(|permit| Arc::ptr_eq(permit, ended));
    }

    pub fn set_client(&self, client: IpAddr) {
        *self.client.lock().unwrap_or_else(PoisonError::into_inner) = Some(client);
    }

    pub fn client(&self) -> Option<IpAddr> {
        *self.client.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records whether the guest waits for the client to send.
    pub fn set_waiting(&self, waits: bool) {
        self.waiting.store(usize::from(waits), Ordering::Relaxed);
    }

    pub fn is_waiting(&self) -> bool {
        !self.is_drained()
    }

    pub fn record_received(&self, bytes: u64) {
        self.taken.fetch_add(bytes, Ordering::Relaxed);
    }

    fn permit(&self) -> MutexGuard<'_, Option<Arc<InstancePermit>>> {
        self.permit.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_drained(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) == 0
    }
}

/// A client's progress with the bytes that wait for it.
pub trait Progress {
    /// Whether bytes wait for the client.
    fn is_waiting(&self) -> bool;

    /// Bytes passed on towards the client so far.
    fn handed(&self) -> u64;

    /// How many of these bytes the client has taken.
    fn taken(&self) -> u64;
}

/// Counts a byte as taken once it was passed on.
impl Progress for BodyProgress {
    fn is_waiting(&self) -> bool {
        !self.is_drained()
    }

    fn handed(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    fn taken(&self) -> u64 {
        self.handed()
    }
}

/// Why the host ends a response before its client has taken it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BelowMinRate {
    /// The client took less than the minimum rate over a period.
    Period,
    /// The client took less since the last check, others wait for the instance, and the instance cannot yield its
    /// permit.
    Contended,
}

impl fmt::Display for BelowMinRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Period => "the client took less than the minimum rate",
            Self::Contended => "the client took less than the minimum rate while others waited for the instance",
        })
    }
}

/// The watchdog of one response's minimum rate. The period runs while bytes wait for the client, and until it has taken
/// all bytes that were passed on before. So a kernel's buffer that takes bytes again does not start a new period.
pub struct MinRateMonitor {
    policy: DrainPolicy,
    /// `None` while no bytes wait.
    period: Option<Period>,
    /// Reused: it may fire too early, which is cheaper than a reset for each response.
    timer: Option<Pin<Box<Sleep>>>,
    /// Set while the client is too slow: the permit of its response, and a future that ends when others wait for the
    /// permit.
    contended: Option<(Arc<InstancePermit>, BoxFuture<'static, ()>)>,
}

struct Period {
    next_check: Instant,
    checks: u32,
    /// Bytes passed on when bytes last waited.
    handed: u64,
    taken_at_start: u64,
    taken_at_check: u64,
}

impl MinRateMonitor {
    pub fn new(policy: DrainPolicy) -> Self {
        Self { policy, period: None, timer: None, contended: None }
    }

    /// Ready if the client is too slow. Poll it again when bytes begin to wait.
    pub fn poll(&mut self, flow: &BodyProgress, progress: &impl Progress, cx: &mut Context<'_>) -> Poll<BelowMinRate> {
        let is_waiting = progress.is_waiting();
        let is_behind = || self.period.as_ref().is_some_and(|period| progress.taken() < period.handed);
        if self.policy.min_rate == 0 || !(is_waiting || is_behind()) {
            self.period = None;
            self.contended = None;
            return Poll::Pending;
        }
        let interval = self.policy.period / CHECKS;
        let period = self.period.get_or_insert_with(|| {
            let taken = progress.taken();
            let next_check = Instant::now() + interval;
            Period { next_check, checks: 0, handed: 0, taken_at_start: taken, taken_at_check: taken }
        });
        if is_waiting {
            period.handed = progress.handed();
        }
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(period.next_check)));
        while timer.as_mut().poll(cx).is_ready() {
            if period.next_check <= Instant::now() {
                period.checks += 1;
                let taken = progress.taken();
                let since = |before: u64| taken.saturating_sub(before);
                let is_slow = is_below(self.policy.min_rate, since(period.taken_at_check), interval);
                let mut was_slow = false;
                if period.checks == CHECKS {
                    was_slow = is_below(self.policy.min_rate, since(period.taken_at_start), self.policy.period);
                    (period.checks, period.taken_at_start) = (0, taken);
                }
                period.taken_at_check = taken;
                period.next_check = Instant::now() + interval;
                let watched = self.contended.as_ref().map(|(permit, _)| permit);
                match flow.permit().clone().filter(|_| is_slow) {
                    // The same permit keeps its place among the waiting holders.
                    Some(permit) if watched.is_some_and(|watched| Arc::ptr_eq(watched, &permit)) => {}
                    Some(permit) => {
                        let contended = permit.clone();
                        self.contended = Some((permit, async move { contended.contended().await }.boxed()));
                    }
                    None => self.contended = None,
                }
                if was_slow {
                    return Poll::Ready(BelowMinRate::Period);
                }
            }
            timer.as_mut().reset(period.next_check);
        }
        if let Some((_, contended)) = &mut self.contended
            && contended.as_mut().poll(cx).is_ready()
            && let Some((permit, _)) = self.contended.take()
        {
            // The guest may have finished since the last check.
            let is_under_way = flow.permit().as_ref().is_some_and(|of_flow| Arc::ptr_eq(of_flow, &permit));
            if is_under_way && !permit.try_yield_permit() {
                return Poll::Ready(BelowMinRate::Contended);
            }
        }
        Poll::Pending
    }
}

fn is_below(rate: u64, bytes: u64, time: Duration) -> bool {
    u128::from(bytes) * 1000 < u128::from(rate) * time.as_millis()
}
