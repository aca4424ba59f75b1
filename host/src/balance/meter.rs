//! The processor time of the shards and of the machine, as Linux counts it.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::policy::Use;

/// The seconds since the start, and those of all processors together in which they ran nothing (proc_uptime(5)).
const UPTIME: &str = "/proc/uptime";

/// Where the times of the thread that asks are.
pub fn schedule_of_this_thread() -> Option<PathBuf> {
    let thread = std::fs::read_link("/proc/thread-self").ok()?;
    Some(Path::new("/proc").join(thread).join("schedstat"))
}

/// Measures from call to call.
pub struct Meter {
    /// For each thread the nanoseconds in which it ran, and in which it was ready to run and waited; then a count.
    schedules: Vec<PathBuf>,
    last: Sample,
}

/// Totals since the start.
struct Sample {
    at: Instant,
    running: Duration,
    missing: Duration,
    idle: Duration,
}

impl Meter {
    /// Of the threads with these schedules. `None` where the system does not tell.
    pub fn new(schedules: Vec<PathBuf>) -> Option<Self> {
        let last = Sample::take(&schedules)?;
        Some(Self { schedules, last })
    }

    /// Since the last call.
    pub fn measure(&mut self) -> Option<Use> {
        let sample = Sample::take(&self.schedules)?;
        let last = std::mem::replace(&mut self.last, sample);
        let time = (self.last.at - last.at).as_secs_f64();
        let share = |total: Duration, before: Duration| total.saturating_sub(before).as_secs_f64() / time;
        (time > 0.0).then(|| Use {
            running: share(self.last.running, last.running),
            missing: share(self.last.missing, last.missing),
            idle: share(self.last.idle, last.idle),
        })
    }
}

impl Sample {
    fn take(schedules: &[PathBuf]) -> Option<Self> {
        let (mut running, mut missing) = (Duration::ZERO, Duration::ZERO);
        for schedule in schedules {
            let text = std::fs::read_to_string(schedule).ok()?;
            let mut fields = text.split_ascii_whitespace().map(|field| field.parse().ok().map(Duration::from_nanos));
            running += fields.next()??;
            missing += fields.next()??;
        }
        let uptime = std::fs::read_to_string(UPTIME).ok()?;
        let idle = uptime.split_ascii_whitespace().nth(1)?.parse().ok()?;
        Some(Self { at: Instant::now(), running, missing, idle: Duration::try_from_secs_f64(idle).ok()? })
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_runs_is_seen() {
        let mut meter = Meter::new(vec![schedule_of_this_thread().unwrap()]).unwrap();
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
        assert!(Meter::new(vec!["/proc/self/task/0/schedstat".into()]).is_none());
    }
}
