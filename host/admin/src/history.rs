//! Counts of the last 15 minutes, in memory.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hexad_runtime::component::ComponentService;
use hexad_support::machine;
use hexad_telemetry::metrics::Summary;
use jiff::Timestamp;

use super::component_status::ComponentStatistics;

/// How often a sample is taken.
pub const SAMPLE_PERIOD: Duration = Duration::from_secs(15);

/// Samples that are kept: both ends of 15 minutes.
const MAX_SAMPLES: usize = 61;

/// The samples of a host.
#[derive(Default)]
pub struct History(Mutex<VecDeque<Sample>>);

/// Counts since the start of the host, at one moment.
#[derive(Clone, Debug)]
pub struct Sample {
    at: Instant,
    time: Timestamp,
    memory: MemorySample,
    /// In the order of the services.
    components: Vec<Activity>,
}

/// Memory at one moment, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemorySample {
    /// Of the process. 0 if the system does not report it.
    pub resident: u64,
    /// The linear memory of all instances.
    pub guests: u64,
}

/// The activity between two samples.
#[derive(Debug)]
pub struct Interval {
    /// When it ended.
    pub time: Timestamp,
    pub seconds: f64,
    /// At its end.
    pub memory: MemorySample,
    /// In the order of the services.
    pub components: Vec<Activity>,
}

/// The requests of a component.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Activity {
    pub requests: u64,
    /// As [`ComponentStatistics::failed`].
    pub failed: u64,
    pub latency: Summary,
}

impl Sample {
    /// The present counts of these services. `guests` is the linear memory of all instances, in bytes.
    pub fn take(services: &[ComponentService], guests: u64) -> Self {
        let components = services.iter().map(|service| {
            let ComponentStatistics { requests, failed, .. } = ComponentStatistics::from(service);
            Activity { requests, failed, latency: service.metrics().histogram(|shard| &shard.latency) }
        });
        Self {
            at: Instant::now(),
            time: Timestamp::now(),
            memory: MemorySample { resident: machine::resident_memory().unwrap_or_default(), guests },
            components: components.collect(),
        }
    }

    fn since(&self, earlier: &Self) -> Interval {
        let components = self.components.iter().zip(&earlier.components).map(|(now, then)| now.since(then));
        Interval {
            time: self.time,
            seconds: (self.at - earlier.at).as_secs_f64(),
            memory: self.memory,
            components: components.collect(),
        }
    }
}

impl Activity {
    fn since(&self, earlier: &Self) -> Self {
        Self {
            requests: self.requests.saturating_sub(earlier.requests),
            failed: self.failed.saturating_sub(earlier.failed),
            latency: self.latency.since(&earlier.latency),
        }
    }

    /// The sum over several components, or over several intervals.
    pub fn sum<'a>(activities: impl IntoIterator<Item = &'a Activity>) -> Self {
        activities.into_iter().fold(Self::default(), |sum, activity| Self {
            requests: sum.requests + activity.requests,
            failed: sum.failed + activity.failed,
            latency: sum.latency.plus(&activity.latency),
        })
    }
}

impl History {
    /// Adds a sample. Above the maximum, the oldest one is dropped.
    pub fn add(&self, sample: Sample) {
        let mut samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if samples.len() >= MAX_SAMPLES {
            samples.pop_front();
        }
        samples.push_back(sample);
    }

    /// The intervals between the samples, and between the last one and `present`; the oldest first.
    pub fn intervals(&self, present: &Sample) -> Vec<Interval> {
        let samples = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let later = samples.iter().skip(1).chain([present]);
        samples.iter().zip(later).map(|(earlier, later)| later.since(earlier)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hexad_telemetry::metrics::Histogram;

    fn sample(start: Instant, seconds: u64, requests: &[u64]) -> Sample {
        let components = requests.iter().map(|count| {
            let histogram = Histogram::default();
            (0..*count).for_each(|_| histogram.observe(Duration::from_millis(*count)));
            Activity { requests: *count, failed: count / 10, latency: Histogram::sum([&histogram]) }
        });
        Sample {
            at: start + Duration::from_secs(seconds),
            time: Timestamp::from_second(i64::try_from(seconds).unwrap()).unwrap(),
            memory: MemorySample { resident: seconds, guests: 0 },
            components: components.collect(),
        }
    }

    #[test]
    fn an_interval_is_the_difference_of_two_samples() {
        let (history, start) = (History::default(), Instant::now());
        history.add(sample(start, 0, &[0, 5]));
        history.add(sample(start, 15, &[20, 5]));
        let intervals = history.intervals(&sample(start, 20, &[20, 6]));
        let counts = intervals.iter().map(|i| (i.seconds, i.components[0].requests, i.components[1].requests));
        assert_eq!(counts.collect::<Vec<_>>(), [(15.0, 20, 0), (5.0, 0, 1)]);
        let first = Activity::sum(&intervals[0].components);
        assert_eq!((first.requests, first.failed, first.latency.count), (20, 2, 20));
        assert_eq!(first.latency.quantile(0.5), Some(0.02048));
        assert_eq!(intervals[1].memory.resident, 20);
        assert!(Activity::sum([]).latency.quantile(0.5).is_none());
    }

    #[test]
    fn only_the_last_quarter_of_an_hour_is_kept() {
        let (history, start) = (History::default(), Instant::now());
        assert!(history.intervals(&sample(start, 0, &[])).is_empty());
        (0..100).for_each(|index| history.add(sample(start, index * 15, &[index])));
        let intervals = history.intervals(&sample(start, 1500, &[100]));
        assert_eq!(intervals.len(), MAX_SAMPLES);
        assert_eq!(intervals.iter().map(|interval| interval.seconds).sum::<f64>(), 915.0);
    }
}
