//! Families of metrics: a declaration and its samples.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use crate::component::Slot;
use crate::metrics::Summary;

/// Writes families of metrics, slot by slot.
pub struct FamilyEncoder<'a, 'b> {
    pub encoder: DescriptorEncoder<'a>,
    pub slots: &'b [Slot],
}

impl FamilyEncoder<'_, '_> {
    pub fn each(
        &mut self,
        name: &str,
        help: &str,
        kind: MetricType,
        write: impl Fn(&Slot, &mut MetricEncoder<'_>) -> fmt::Result,
    ) -> fmt::Result {
        let mut family = self.encoder.encode_descriptor(name, help, None, kind)?;
        self.slots.iter().try_for_each(|slot| write(slot, &mut family))
    }

    /// One value for each component.
    pub fn counter(&mut self, name: &str, help: &str, value: impl Fn(&Slot) -> f64) -> fmt::Result {
        self.each(name, help, MetricType::Counter, |slot, family| count(family, &[component(slot)], value(slot)))
    }

    pub fn gauge(&mut self, name: &str, help: &str, value: impl Fn(&Slot) -> f64) -> fmt::Result {
        self.each(name, help, MetricType::Gauge, |slot, family| {
            family.encode_family(&[component(slot)])?.encode_gauge(&value(slot))
        })
    }

    /// Several values for each component, with a second label.
    pub fn counters<L: ToString>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        values: impl Fn(&Slot) -> Vec<(L, u64)>,
    ) -> fmt::Result {
        self.each(name, help, MetricType::Counter, |slot, family| {
            values(slot).into_iter().try_for_each(|(kind, value)| {
                count(family, &[component(slot), (label, &kind.to_string())], value as f64)
            })
        })
    }

    pub fn histogram(&mut self, name: &str, help: &str, summary: impl Fn(&Slot) -> Summary) -> fmt::Result {
        self.each(name, help, MetricType::Histogram, |slot, family| {
            distribution(family, &[component(slot)], &summary(slot))
        })
    }

    /// A value of the host.
    pub fn host(&mut self, name: &str, help: &str, kind: MetricType, value: f64) -> fmt::Result {
        let mut family = self.encoder.encode_descriptor(name, help, None, kind)?;
        match kind {
            MetricType::Counter => family.encode_counter::<NoLabelSet, f64, f64>(&value, None),
            _ => family.encode_gauge(&value),
        }
    }
}

/// Writes the samples of a histogram.
pub fn distribution(family: &mut MetricEncoder<'_>, labels: &impl EncodeLabelSet, summary: &Summary) -> fmt::Result {
    let Summary { count, sum, buckets } = summary;
    family.encode_family(labels)?.encode_histogram::<NoLabelSet>(*sum, *count, buckets, None)
}

/// The label that names a component.
pub fn component(slot: &Slot) -> (&str, &str) {
    ("component", slot.id())
}

fn count(family: &mut MetricEncoder<'_>, labels: &impl EncodeLabelSet, value: f64) -> fmt::Result {
    family.encode_family(labels)?.encode_counter::<NoLabelSet, f64, f64>(&value, None)
}
