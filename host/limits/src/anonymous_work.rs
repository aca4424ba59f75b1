//! Limits on the work that components do for clients without an accepted credential. The work is guests' processor
//! time, and bytes that guests read from the store or write to it. It counts for each network in a sliding minute.
//!
//! The host verifies no credential. A component's response says whether it has accepted one, and the host remembers
//! that for a while. Requests with an unknown credential count as anonymous, in an account of their own. So clients
//! with refused credentials get as much as clients without any, and clients with an accepted one wait for neither. When
//! a credential turns out to be accepted, its request's work is subtracted again.

use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hexad_telemetry::metrics::Counter;
use http::{HeaderName, HeaderValue, StatusCode};
use lru::LruCache;

/// The header by which a component says whether it knows its caller. The host removes it before the response goes to
/// the client.
pub const CALLER: HeaderName = HeaderName::from_static("hexad-caller");
const KNOWN: &str = "known";

/// The sliding time in which work is counted.
const PERIOD: Duration = Duration::from_secs(60);

/// How long an accepted credential is remembered after its last use.
const REMEMBERED: Duration = Duration::from_secs(600);

/// The most networks, and the most accepted credentials, that the host remembers: the latest.
const CLIENTS: NonZeroUsize = NonZeroUsize::MIN.saturating_add(16 * 1024 - 1);

/// The most work for a network in a minute. Zero stands for no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkLimits {
    pub cpu_time: Duration,
    pub store_bytes: u64,
}

impl Default for WorkLimits {
    fn default() -> Self {
        Self { cpu_time: Duration::from_secs(60), store_bytes: 8 * 1024 * 1024 * 1024 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// In nanoseconds.
    CpuTime = 0,
    StoreBytes = 1,
}

/// A network has used up a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UsedUp {
    pub limit: &'static str,
    pub retry_after: Duration,
}

/// The accounts of all networks.
#[derive(Debug)]
pub struct AnonymousWork {
    pub limits: WorkLimits,
    began: Instant,
    /// By network, and whether its requests have a credential.
    accounts: Mutex<LruCache<(IpAddr, bool), Arc<Account>>>,
    /// The time when each of these credentials was last accepted.
    accepted: Mutex<LruCache<u64, Instant>>,
    hasher: RandomState,
    pub refused: Counter,
}

#[derive(Debug, Default)]
struct Account(Mutex<[Usage; 2]>);

/// A network's usage of one limit, in the current minute and in the previous one.
#[derive(Debug, Default)]
struct Usage {
    minute: u64,
    now: u64,
    before: u64,
}

/// The work for a client's request, and for the requests that its guest sends to the application.
#[derive(Debug)]
pub struct ClientWork {
    all: Arc<AnonymousWork>,
    account: Arc<Account>,
    /// `None` for a request without a credential.
    credential: Option<u64>,
    is_accepted: AtomicBool,
    charged: [AtomicU64; 2],
}

impl AnonymousWork {
    pub fn new(limits: WorkLimits) -> Arc<Self> {
        Arc::new(Self {
            limits,
            began: Instant::now(),
            accounts: Mutex::new(LruCache::new(CLIENTS)),
            accepted: Mutex::new(LruCache::new(CLIENTS)),
            hasher: RandomState::new(),
            refused: Counter::default(),
        })
    }

    /// Begins a request to `component`. `None` if no limit is set.
    pub fn begin(
        self: &Arc<Self>,
        network: IpAddr,
        component: &str,
        credential: Option<u64>,
    ) -> Result<Option<Arc<ClientWork>>, UsedUp> {
        self.begin_at(network, component, credential, Instant::now())
    }

    fn begin_at(
        self: &Arc<Self>,
        network: IpAddr,
        component: &str,
        credential: Option<u64>,
        now: Instant,
    ) -> Result<Option<Arc<ClientWork>>, UsedUp> {
        if self.limits() == [0; 2] {
            return Ok(None);
        }
        let credential = credential.map(|credential| self.hasher.hash_one((component, credential)));
        let is_fresh = |at: &Instant| now.saturating_duration_since(*at) < REMEMBERED;
        let is_accepted =
            credential.is_some_and(|credential| lock(&self.accepted).get(&credential).is_some_and(is_fresh));
        let account = lock(&self.accounts).get_or_insert((network, credential.is_some()), Arc::default).clone();
        if let Some(used_up) = account.used_up(self, now).filter(|_| !is_accepted) {
            self.refused.add(1);
            return Err(used_up);
        }
        let is_accepted = AtomicBool::new(is_accepted);
        Ok(Some(Arc::new(ClientWork {
            all: self.clone(),
            account,
            credential,
            is_accepted,
            charged: Default::default(),
        })))
    }

    /// How many networks have used up a limit.
    pub fn limited(&self) -> usize {
        let now = Instant::now();
        lock(&self.accounts).iter().filter(|(_, account)| account.used_up(self, now).is_some()).count()
    }

    /// The limits by kind of work.
    fn limits(&self) -> [u64; 2] {
        [u64::try_from(self.limits.cpu_time.as_nanos()).unwrap_or(u64::MAX), self.limits.store_bytes]
    }

    /// The number of the current minute, and how much of it has passed, from 0 to 1.
    fn minute(&self, now: Instant) -> (u64, f64) {
        let minutes = now.saturating_duration_since(self.began).as_secs_f64() / PERIOD.as_secs_f64();
        (minutes as u64, minutes.fract())
    }
}

impl Account {
    fn used_up(&self, all: &AnonymousWork, now: Instant) -> Option<UsedUp> {
        let (minute, over) = all.minute(now);
        let names = ["anonymous_cpu_time", "anonymous_store_bytes"];
        let mut usages = lock(&self.0);
        let limits = usages.iter_mut().zip(all.limits()).zip(names).filter(|((_, limit), _)| *limit > 0);
        let waits = limits.filter_map(|((usage, limit), name)| {
            usage.turn_to(minute);
            Some(UsedUp { limit: name, retry_after: usage.wait(limit, over)? })
        });
        waits.max_by_key(|used_up| used_up.retry_after)
    }

    fn usage<T>(
        &self,
        all: &AnonymousWork,
        work: Work,
        now: Instant,
        change: impl FnOnce(&mut Usage) -> T,
    ) -> Option<T> {
        let mut usages = lock(&self.0);
        let usage = usages.get_mut(work as usize)?;
        usage.turn_to(all.minute(now).0);
        Some(change(usage))
    }
}

impl Usage {
    fn turn_to(&mut self, minute: u64) {
        if minute > self.minute {
            self.before = if minute == self.minute + 1 { self.now } else { 0 };
            (self.now, self.minute) = (0, minute);
        }
    }

    /// The time until the usage falls below `limit`. `None` if it is below now. `over` is the part of the current
    /// minute that has passed; the rest of the previous minute counts.
    fn wait(&self, limit: u64, over: f64) -> Option<Duration> {
        let (now, before, limit) = (self.now as f64, self.before as f64, limit as f64);
        if now + before * (1.0 - over) < limit {
            return None;
        }
        let minutes = match now < limit {
            true => 1.0 - (limit - now) / before - over,
            false => 1.0 - over + 1.0 - limit / now,
        };
        Some(PERIOD.mul_f64(minutes.max(0.0)))
    }
}

impl ClientWork {
    /// Counts work, in the unit of its kind.
    pub fn charge(&self, work: Work, amount: u64) {
        if amount > 0 && !self.is_accepted.load(Ordering::Relaxed) {
            self.charge_at(work, amount, Instant::now());
        }
    }

    fn charge_at(&self, work: Work, amount: u64, now: Instant) {
        if let Some(charged) = self.charged.get(work as usize) {
            charged.fetch_add(amount, Ordering::Relaxed);
        }
        self.account.usage(&self.all, work, now, |usage| usage.now = usage.now.saturating_add(amount));
    }

    /// Learns from a component's response whether it has accepted the credential: the header [`CALLER`] says so. A
    /// nested response can confirm the credential, but not revoke it.
    pub fn learn(&self, caller: Option<&HeaderValue>, status: StatusCode, is_nested: bool) {
        let Some(credential) = self.credential else { return };
        let is_refused = status == StatusCode::UNAUTHORIZED;
        if caller.is_some_and(|caller| caller == KNOWN) {
            self.accept(credential);
        } else if is_refused && !is_nested {
            lock(&self.all.accepted).pop(&credential);
        }
    }

    fn accept(&self, credential: u64) {
        let now = Instant::now();
        lock(&self.all.accepted).put(credential, now);
        if self.is_accepted.swap(true, Ordering::Relaxed) {
            return;
        }
        for (work, charged) in [Work::CpuTime, Work::StoreBytes].into_iter().zip(&self.charged) {
            let charged = charged.load(Ordering::Relaxed);
            self.account.usage(&self.all, work, now, |usage| {
                let earlier = charged.saturating_sub(usage.now);
                usage.now -= charged - earlier;
                usage.before = usage.before.saturating_sub(earlier);
            });
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: WorkLimits = WorkLimits { cpu_time: Duration::from_secs(1), store_bytes: 1000 };

    fn network(last: u8) -> IpAddr {
        [192, 0, 2, last].into()
    }

    #[test]
    fn a_network_that_has_used_up_a_limit_waits_until_enough_of_it_has_expired() {
        let all = AnonymousWork::new(LIMITS);
        let at = |seconds: u64| all.began + Duration::from_secs(seconds);
        let begin = |last, seconds| all.begin_at(network(last), "a", None, at(seconds)).map(Option::unwrap);
        let work = begin(1, 0).unwrap();
        work.charge_at(Work::StoreBytes, 999, at(0));
        assert!(begin(1, 30).is_ok());
        work.charge_at(Work::StoreBytes, 1001, at(30));
        let used_up = begin(1, 30).unwrap_err();
        assert_eq!(used_up.limit, "anonymous_store_bytes");
        // Half of the usage has to expire, in the next minute.
        assert_eq!(used_up.retry_after.as_secs_f64().round(), 60.0);
        assert!(begin(1, 80).is_err() && begin(1, 91).is_ok() && begin(2, 30).is_ok());
        assert_eq!(all.refused.get(), 2);
        work.charge_at(Work::CpuTime, 3_000_000_000, at(91));
        assert_eq!(begin(1, 100).unwrap_err().limit, "anonymous_cpu_time");
        assert!(begin(1, 240).is_ok(), "both minutes are over");
    }

    #[test]
    fn a_limit_of_zero_is_none() {
        let off = WorkLimits { cpu_time: Duration::ZERO, store_bytes: 0 };
        assert!(AnonymousWork::new(off).begin(network(1), "a", None).unwrap().is_none());
        let all = AnonymousWork::new(WorkLimits { cpu_time: Duration::ZERO, ..LIMITS });
        all.begin(network(1), "a", None).unwrap().unwrap().charge(Work::CpuTime, u64::MAX);
        assert!(all.begin(network(1), "a", None).is_ok());
    }

    #[test]
    fn an_accepted_credential_is_not_counted_and_a_refused_one_is() {
        let all = AnonymousWork::new(LIMITS);
        let begin = |component, credential| all.begin(network(1), component, credential).map(Option::unwrap);
        let (known, anonymous) = (HeaderValue::from_static("known"), HeaderValue::from_static("anonymous"));
        let accepted = begin("a", Some(1)).unwrap();
        accepted.charge(Work::StoreBytes, 5000);
        assert!(begin("a", Some(2)).is_err(), "a credential of which nothing is known");
        assert!(begin("a", None).is_ok(), "clients without a credential have an account of their own");
        accepted.learn(Some(&known), StatusCode::OK, false);
        accepted.charge(Work::StoreBytes, 5000);
        // The counted work is subtracted again.
        let forged = begin("a", Some(2)).unwrap();
        forged.charge(Work::StoreBytes, 5000);
        for (caller, status, is_nested) in [
            (Some(&anonymous), StatusCode::OK, false),
            (None, StatusCode::OK, false),
            (None, StatusCode::NOT_FOUND, false),
            (None, StatusCode::UNAUTHORIZED, false),
            (None, StatusCode::OK, true),
        ] {
            forged.learn(caller, status, is_nested);
            assert!(begin("a", Some(2)).is_err() && begin("a", Some(3)).is_err(), "{caller:?} {status} {is_nested}");
        }
        assert!(begin("a", Some(1)).is_ok(), "it was accepted recently");
        assert!(begin("b", Some(1)).is_err(), "by another component");
        begin("a", Some(1)).unwrap().learn(None, StatusCode::UNAUTHORIZED, true);
        assert!(begin("a", Some(1)).is_ok());
        begin("a", Some(1)).unwrap().learn(Some(&anonymous), StatusCode::UNAUTHORIZED, false);
        assert!(begin("a", Some(1)).is_err(), "it was revoked");
        // A nested response, for a request of its guest.
        forged.learn(Some(&known), StatusCode::OK, true);
        assert!(begin("a", Some(2)).is_ok());
        let without = begin("a", None).unwrap();
        without.learn(Some(&known), StatusCode::OK, false);
        without.charge(Work::StoreBytes, 5000);
        assert!(begin("a", None).is_err());
    }
}
