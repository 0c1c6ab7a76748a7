//! The text that scrapers read: Prometheus' exposition format, version 0.0.4.
//!
//! What makes it is `prometheus-client`. That one names a counter's lines otherwise than this format does: in OpenMetrics, the
//! suffix `_total` is no part of a counter's name. So each counter is given to it with its suffix, as a plain number.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use super::Distribution;

/// The media type of the format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// A metric with all its values, which differ in their labels.
#[derive(Debug)]
pub struct Family {
    name: &'static str,
    help: &'static str,
    kind: MetricType,
    samples: Vec<(Vec<(&'static str, String)>, Value)>,
}

#[derive(Debug)]
enum Value {
    Whole(u64),
    Real(f64),
    Distribution(Distribution),
}

impl Family {
    /// A number that only grows; its name ends in `_total`.
    #[must_use]
    pub fn counter(name: &'static str, help: &'static str) -> Self {
        Self { name, help, kind: MetricType::Counter, samples: Vec::new() }
    }

    /// A number that goes up and down.
    #[must_use]
    pub fn gauge(name: &'static str, help: &'static str) -> Self {
        Self { name, help, kind: MetricType::Gauge, samples: Vec::new() }
    }

    /// Durations by their size; its name ends in `_seconds`.
    #[must_use]
    pub fn histogram(name: &'static str, help: &'static str) -> Self {
        Self { name, help, kind: MetricType::Histogram, samples: Vec::new() }
    }

    /// Adds a whole number.
    pub fn add<const N: usize>(&mut self, labels: [(&'static str, &str); N], value: u64) {
        self.push(labels, Value::Whole(value));
    }

    /// Adds any number.
    pub fn add_real<const N: usize>(&mut self, labels: [(&'static str, &str); N], value: f64) {
        self.push(labels, Value::Real(value));
    }

    /// Adds a distribution.
    pub fn add_distribution<const N: usize>(
        &mut self,
        labels: [(&'static str, &str); N],
        value: Distribution,
    ) {
        self.push(labels, Value::Distribution(value));
    }

    fn push<const N: usize>(&mut self, labels: [(&'static str, &str); N], value: Value) {
        self.samples.push((labels.map(|(name, value)| (name, value.to_owned())).into(), value));
    }

    fn encode(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let mut metric = encoder.encode_descriptor(self.name, self.help, None, self.kind)?;
        for (labels, value) in &self.samples {
            match labels.as_slice() {
                [] => value.encode(&mut metric)?,
                _ => value.encode(&mut metric.encode_family(labels)?)?,
            }
        }
        Ok(())
    }
}

impl Value {
    fn encode(&self, metric: &mut MetricEncoder<'_>) -> fmt::Result {
        match self {
            Self::Whole(value) => metric.encode_gauge(value),
            Self::Real(value) => metric.encode_gauge(value),
            Self::Distribution(Distribution { buckets, sum }) => {
                let count = buckets.iter().map(|(_, count)| count).sum();
                metric.encode_histogram::<NoLabelSet>(*sum, count, buckets, None)
            }
        }
    }
}

/// All metrics, as they are read at one moment.
#[derive(Debug)]
struct Families(Vec<Family>);

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|family| family.encode(&mut encoder))
    }
}

/// Writes metrics.
///
/// # Errors
/// Where a value cannot be written, which none is known of.
pub fn write(families: Vec<Family>) -> Result<String, fmt::Error> {
    let (mut registry, mut written) = (Registry::default(), String::new());
    registry.register_collector(Box::new(Families(families)));
    text::encode_registry(&mut written, &registry)?;
    Ok(written)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_written_as_the_format_says() {
        let mut answers = Family::counter("answers_total", "How many.");
        answers.add([("route", "/a\"b\\c\nd"), ("status", "200")], 3);
        let mut level = Family::gauge("level_ratio", "How full.");
        level.add_real([], 0.25);
        let mut took = Family::histogram("took_seconds", "How long.");
        let buckets = vec![(0.5, 1), (f64::INFINITY, 2)];
        took.add_distribution([("command", "lvs")], Distribution { buckets, sum: 7.5 });
        let none = Family::gauge("none", "Nothing of it.");
        let expected = "# HELP answers_total How many.
# TYPE answers_total counter
answers_total{route=\"/a\\\"b\\\\c\\nd\",status=\"200\"} 3
# HELP level_ratio How full.
# TYPE level_ratio gauge
level_ratio 0.25
# HELP took_seconds How long.
# TYPE took_seconds histogram
took_seconds_sum{command=\"lvs\"} 7.5
took_seconds_count{command=\"lvs\"} 3
took_seconds_bucket{le=\"0.5\",command=\"lvs\"} 1
took_seconds_bucket{le=\"+Inf\",command=\"lvs\"} 3
# HELP none Nothing of it.
# TYPE none gauge
";
        assert_eq!(write(vec![answers, level, took, none]).unwrap(), expected);
    }
}
