//! Families of metrics: a declaration and its samples.

use std::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, MetricEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;

use crate::component::ComponentService;
use crate::metrics::Summary;

/// Writes families of metrics, service by service.
pub struct FamilyEncoder<'a, 'b> {
    pub encoder: DescriptorEncoder<'a>,
    pub services: &'b [ComponentService],
}

impl FamilyEncoder<'_, '_> {
    pub fn each(
        &mut self,
        name: &str,
        help: &str,
        kind: MetricType,
        write: impl Fn(&ComponentService, &mut MetricEncoder<'_>) -> fmt::Result,
    ) -> fmt::Result {
        let mut family = self.encoder.encode_descriptor(name, help, None, kind)?;
        self.services.iter().try_for_each(|service| write(service, &mut family))
    }

    /// One value for each component.
    pub fn counter(&mut self, name: &str, help: &str, value: impl Fn(&ComponentService) -> f64) -> fmt::Result {
        self.each(name, help, MetricType::Counter, |service, family| {
            count(family, &[component(service)], value(service))
        })
    }

    pub fn gauge(&mut self, name: &str, help: &str, value: impl Fn(&ComponentService) -> f64) -> fmt::Result {
        self.each(name, help, MetricType::Gauge, |service, family| {
            family.encode_family(&[component(service)])?.encode_gauge(&value(service))
        })
    }

    /// Several values for each component, with a second label.
    pub fn counters<L: ToString>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        values: impl Fn(&ComponentService) -> Vec<(L, u64)>,
    ) -> fmt::Result {
        self.each(name, help, MetricType::Counter, |service, family| {
            values(service).into_iter().try_for_each(|(kind, value)| {
                count(family, &[component(service), (label, &kind.to_string())], value as f64)
            })
        })
    }

    pub fn histogram(&mut self, name: &str, help: &str, summary: impl Fn(&ComponentService) -> Summary) -> fmt::Result {
        self.each(name, help, MetricType::Histogram, |service, family| {
            distribution(family, &[component(service)], &summary(service))
        })
    }

    /// Values of the host, each with its label. The metrics are gauges.
    pub fn labelled<'l>(
        &mut self,
        name: &str,
        help: &str,
        label: &str,
        values: impl IntoIterator<Item = (&'l str, f64)>,
    ) -> fmt::Result {
        let mut family = self.encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        values.into_iter().try_for_each(|(of, value)| family.encode_family(&[(label, of)])?.encode_gauge(&value))
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
pub fn component(service: &ComponentService) -> (&str, &str) {
    ("component", service.id())
}

fn count(family: &mut MetricEncoder<'_>, labels: &impl EncodeLabelSet, value: f64) -> fmt::Result {
    family.encode_family(labels)?.encode_counter::<NoLabelSet, f64, f64>(&value, None)
}
