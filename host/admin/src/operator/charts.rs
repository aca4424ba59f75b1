//! The charts of the last 15 minutes.

use jiff::Timestamp;
use maud::{Markup, html};
use widgets::chart::{Chart, Form, Quantity, Series};

use crate::history::{Activity, Interval};

/// The charts of requests and latency. `select` takes an activity from each interval.
pub fn requests(intervals: &[Interval], select: impl Fn(&Interval) -> Activity) -> Markup {
    let activities: Vec<Activity> = intervals.iter().map(select).collect();
    let rate = |count: fn(&Activity) -> u64| {
        let rates = activities.iter().zip(intervals).map(|(activity, interval)| per_second(count(activity), interval));
        rates.collect()
    };
    let quantile = |quantile: f64| {
        activities.iter().map(|activity| activity.latency.finite_quantile(quantile).unwrap_or_default()).collect()
    };
    let traffic =
        [series("all", rate(|activity| activity.requests)), series("failed", rate(|activity| activity.failed))];
    let latency = [series("median", quantile(0.5)), series("99th percentile", quantile(0.99))];
    html! {
        section.card aria-label="Traffic" { (lines("Traffic", "requests per second", Quantity::Decimal, intervals, &traffic)) }
        section.card aria-label="Latency" {
            (lines("Latency", "upper bounds; 0 without requests", Quantity::Duration, intervals, &latency))
        }
    }
}

/// The memory of the process and of its guests.
pub fn memory(intervals: &[Interval]) -> Markup {
    let values = |memory: fn(&Interval) -> u64| intervals.iter().map(|interval| memory(interval) as f64).collect();
    let memory = [
        series("process", values(|interval| interval.memory.resident)),
        series("guests", values(|interval| interval.memory.guests)),
    ];
    html! { section.card aria-label="Memory" { (lines("Memory", "bytes", Quantity::Bytes, intervals, &memory)) } }
}

/// Requests per second during an interval.
pub fn per_second(count: u64, interval: &Interval) -> f64 {
    count as f64 / interval.seconds.max(0.001)
}

fn series(name: &str, values: Vec<f64>) -> Series {
    Series { name: name.to_owned(), values }
}

fn lines(title: &str, unit: &str, quantity: Quantity, intervals: &[Interval], series: &[Series]) -> Markup {
    let labels: Vec<String> = intervals.iter().map(|interval| clock(interval.time)).collect();
    Chart { title, label: "time", unit, labels: &labels, series, form: Form::Lines, quantity }.render()
}

/// The time of the day.
fn clock(time: Timestamp) -> String {
    time.strftime("%H:%M:%S").to_string()
}
