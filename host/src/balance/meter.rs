//! The processor time of the shards and of the machine, as Linux counts it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::policy::Use;
use crate::busy_poll::PollingTime;

/// The times of all processors together, in hundredths of a second: the fourth number is the time in which they ran
/// nothing, the fifth the same while a thread waited for a disk (proc_stat(5)).
const STAT: &str = "/proc/stat";
const MILLISECONDS_OF_A_TICK: u64 = 10;

/// The times of a thread.
#[derive(Clone)]
pub struct Schedule {
    /// The nanoseconds in which it ran, and in which it was ready to run and waited; then a count.
    path: PathBuf,
    /// How much of that it only polled for work.
    polling: Arc<PollingTime>,
}

impl Schedule {
    /// The schedule of the calling thread.
    pub fn of_this_thread(polling: Arc<PollingTime>) -> Option<Self> {
        let thread = std::fs::read_link("/proc/thread-self").ok()?;
        let path = Path::new("/proc").join(thread).join("schedstat");
        Some(Self { path, polling })
    }
}

/// Measures from call to call.
pub struct Meter {
    schedules: Vec<Schedule>,
    last: ProcessorTimes,
}

/// Totals since the start.
struct ProcessorTimes {
    at: Instant,
    running: Duration,
    missing: Duration,
    idle: Duration,
}

impl Meter {
    /// Measures the threads with these schedules. `None` where the system does not tell.
    pub fn new(schedules: Vec<Schedule>) -> Option<Self> {
        let last = ProcessorTimes::take(&schedules)?;
        Some(Self { schedules, last })
    }

    /// Since the last call.
    pub fn measure(&mut self) -> Option<Use> {
        let present = ProcessorTimes::take(&self.schedules)?;
        let last = std::mem::replace(&mut self.last, present);
        let time = (self.last.at - last.at).as_secs_f64();
        let share = |total: Duration, before: Duration| total.saturating_sub(before).as_secs_f64() / time;
        (time > 0.0).then(|| Use {
            running: share(self.last.running, last.running),
            missing: share(self.last.missing, last.missing),
            idle: share(self.last.idle, last.idle),
        })
    }
}

impl ProcessorTimes {
    fn take(schedules: &[Schedule]) -> Option<Self> {
        let (mut running, mut missing) = (Duration::ZERO, Duration::ZERO);
        for schedule in schedules {
            // First the polling: time that is polled in between counts as work, and not the other way round.
            let (polled, given_away) = (schedule.polling.running(), schedule.polling.waiting());
            let text = std::fs::read_to_string(&schedule.path).ok()?;
            let mut fields = text.split_ascii_whitespace().map(|field| field.parse().ok().map(Duration::from_nanos));
            running += fields.next()??.saturating_sub(polled);
            missing += fields.next()??.saturating_sub(given_away);
        }
        let stat = std::fs::read_to_string(STAT).ok()?;
        let mut ticks = stat.lines().next()?.strip_prefix("cpu ")?.split_ascii_whitespace().skip(3);
        let mut next = || ticks.next()?.parse::<u64>().ok()?.checked_mul(MILLISECONDS_OF_A_TICK);
        let idle = Duration::from_millis(next()?.saturating_add(next()?));
        Some(Self { at: Instant::now(), running, missing, idle })
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_runs_is_seen() {
        let mut meter = Meter::new(vec![Schedule::of_this_thread(Arc::default()).unwrap()]).unwrap();
        let (begun, mut turns) = (Instant::now(), 0_u64);
        while begun.elapsed() < Duration::from_millis(200) {
            turns = std::hint::black_box(turns + 1);
        }
        let used = meter.measure().unwrap();
        assert!(used.running > 0.0, "{used:?}");
        assert!(used.running + used.missing > 0.9, "it was ready to run all the time: {used:?}");
    }

    #[test]
    fn a_thread_that_is_not_there_is_no_measurement() {
        let missing = Schedule { path: "/proc/self/task/0/schedstat".into(), polling: Arc::default() };
        assert!(Meter::new(vec![missing]).is_none());
    }
}
