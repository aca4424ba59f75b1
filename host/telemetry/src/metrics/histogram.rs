//! Histograms of durations.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The number of bounds: 10 µs, doubled up to 10 s. One more bucket takes longer durations.
const BOUNDS: usize = 21;
const FIRST_MICROS: u64 = 10;

/// Counts durations by bucket, and sums them.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; BOUNDS + 1],
    sum_nanos: AtomicU64,
}

/// The sum of several histograms.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    pub count: u64,
    /// Seconds.
    pub sum: f64,
    /// The upper bound of each bucket in seconds, and the durations in that bucket alone.
    pub buckets: Vec<(f64, u64)>,
}

impl Histogram {
    pub fn observe(&self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        if let Some(bucket) = self.buckets.get(bucket_index(nanos.div_ceil(1000))) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.sum_nanos.fetch_add(nanos, Ordering::Relaxed);
    }

    pub fn sum<'a>(histograms: impl IntoIterator<Item = &'a Histogram>) -> Summary {
        let mut counts = [0; BOUNDS + 1];
        let mut nanos = 0;
        for histogram in histograms {
            for (count, bucket) in counts.iter_mut().zip(&histogram.buckets) {
                *count += bucket.load(Ordering::Relaxed);
            }
            nanos += histogram.sum_nanos.load(Ordering::Relaxed);
        }
        let bounds = (0..BOUNDS).map(|n| (FIRST_MICROS << n) as f64 / 1e6).chain([f64::INFINITY]);
        Summary { count: counts.iter().sum(), sum: nanos as f64 / 1e9, buckets: bounds.zip(counts).collect() }
    }
}

impl Summary {
    /// The upper bound, in seconds, of the bucket with this quantile (0.5 is the median).
    pub fn quantile(&self, quantile: f64) -> Option<f64> {
        let rank = (self.count as f64 * quantile).ceil() as u64;
        let mut seen = 0;
        let mut buckets = self.buckets.iter();
        buckets
            .find(|(_, count)| {
                seen += count;
                seen >= rank && seen > 0
            })
            .map(|(bound, _)| *bound)
    }

    /// As [`Self::quantile`], but at most the largest finite bound.
    pub fn finite_quantile(&self, quantile: f64) -> Option<f64> {
        let largest = self.buckets.iter().map(|(bound, _)| *bound).rfind(|bound| bound.is_finite())?;
        self.quantile(quantile).map(|bound| bound.min(largest))
    }

    /// The durations that `earlier`, a sum of the same histograms, does not contain.
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |index: usize| earlier.buckets.get(index).map_or(0, |(_, count)| *count);
        let buckets = self.buckets.iter().enumerate();
        Self {
            count: self.count.saturating_sub(earlier.count),
            sum: (self.sum - earlier.sum).max(0.0),
            buckets: buckets.map(|(index, (bound, count))| (*bound, count.saturating_sub(before(index)))).collect(),
        }
    }

    /// The durations of both.
    pub fn plus(&self, other: &Self) -> Self {
        let (more, fewer) = if self.buckets.len() >= other.buckets.len() { (self, other) } else { (other, self) };
        let added = |index: usize| fewer.buckets.get(index).map_or(0, |(_, count)| *count);
        let buckets = more.buckets.iter().enumerate();
        Self {
            count: self.count + other.count,
            sum: self.sum + other.sum,
            buckets: buckets.map(|(index, (bound, count))| (*bound, count + added(index))).collect(),
        }
    }
}

/// The index of a duration's bucket: the first whose bound is not below it.
fn bucket_index(micros: u64) -> usize {
    let units = micros.div_ceil(FIRST_MICROS).max(1);
    let log = u64::BITS - (units - 1).leading_zeros();
    (log as usize).min(BOUNDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_includes_its_upper_bound() {
        for (micros, expected) in [(0, 0), (1, 0), (10, 0), (11, 1), (20, 1), (21, 2), (40, 2), (41, 3)] {
            assert_eq!(bucket_index(micros), expected, "{micros}");
        }
        assert_eq!(bucket_index(FIRST_MICROS << (BOUNDS - 1)), BOUNDS - 1);
        assert_eq!(bucket_index((FIRST_MICROS << (BOUNDS - 1)) + 1), BOUNDS);
        assert_eq!(bucket_index(u64::MAX), BOUNDS);
    }

    #[test]
    fn histograms_add_up() {
        let (one, two) = (Histogram::default(), Histogram::default());
        one.observe(Duration::from_nanos(9_500));
        one.observe(Duration::from_micros(15));
        two.observe(Duration::from_secs(60));
        let sum = Histogram::sum([&one, &two]);
        assert_eq!((sum.count, sum.buckets[0], sum.buckets[1].1), (3, (0.00001, 1), 1));
        assert_eq!(sum.buckets[BOUNDS], (f64::INFINITY, 1));
        assert!((sum.sum - 60.0000245).abs() < 1e-9);
        assert_eq!(sum.quantile(0.5), Some(0.00002));
        assert_eq!((sum.quantile(1.0), sum.finite_quantile(1.0)), (Some(f64::INFINITY), Some(10.48576)));
        assert_eq!(Histogram::sum([]).quantile(0.5), None);
    }

    #[test]
    fn summaries_are_subtracted_and_added() {
        let histogram = Histogram::default();
        histogram.observe(Duration::from_micros(15));
        let before = Histogram::sum([&histogram]);
        histogram.observe(Duration::from_millis(1));
        let since = Histogram::sum([&histogram]).since(&before);
        assert_eq!((since.count, since.quantile(0.5)), (1, Some(0.00128)));
        let both = Summary::default().plus(&since).plus(&before);
        assert_eq!((both.count, both.quantile(0.5), both.quantile(1.0)), (2, Some(0.00002), Some(0.00128)));
    }
}
