//! Processor time of processes, from procfs.

use std::time::Duration;

/// The kernel's unit for programs (`USER_HZ`), on every supported architecture.
const TICKS_A_SECOND: f64 = 100.0;

/// Processor time of a process and of its children that have ended.
pub fn processor_time_of(process: u32) -> Duration {
    std::fs::read_to_string(format!("/proc/{process}/stat")).map_or(Duration::ZERO, |stat| {
        // The name in parentheses may have any characters. After it comes the third field.
        let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
        let ticks: u64 = fields.skip(11).take(4).map(|field| field.parse::<u64>().expect("a number")).sum();
        Duration::from_secs_f64(ticks as f64 / TICKS_A_SECOND)
    })
}
