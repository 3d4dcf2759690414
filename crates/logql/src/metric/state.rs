//! The state of a bucket, from whose merge the value of a window is computed.

use std::collections::HashSet;

use record::LineId;

use crate::ast::RangeOp;

/// A line as a sample.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Its time, nanoseconds since 1970 UTC.
    pub time_ns: i64,
    /// Its id, which distinguishes lines with the same time.
    pub id: LineId,
    /// Its value; for `approx_count_distinct` the bits of the hash of a text.
    pub value: f64,
}

/// The state of a bucket.
#[derive(Clone, Debug)]
pub enum State {
    /// A sum.
    Sum(f64),
    /// The least or greatest value.
    Extreme(f64),
    /// Number and mean.
    Mean(f64, f64),
    /// Number, mean, and sum of squared distances from it (Welford).
    Moments(f64, f64, f64),
    /// The first or last line.
    Edge(Sample),
    /// All values.
    Values(Vec<f64>),
    /// All lines.
    Samples(Vec<Sample>),
    /// Hashes of different values.
    Distinct(HashSet<u64, foldhash::fast::RandomState>),
}

impl State {
    /// The state of one line.
    pub fn new(op: RangeOp, sample: Sample) -> State {
        use RangeOp::*;
        match op {
            Count | Rate | Bytes | BytesRate | Sum | Absent => State::Sum(sample.value),
            Min | Max => State::Extreme(sample.value),
            Avg => State::Mean(1.0, sample.value),
            // Of an infinity there is no distance.
            Stddev | Stdvar => State::Moments(
                1.0,
                sample.value,
                if sample.value.is_finite() { 0.0 } else { f64::NAN },
            ),
            RateCounter => State::Samples(vec![sample]),
            Distinct => State::Distinct([sample.value.to_bits()].into_iter().collect()),
            First | Last => State::Edge(sample),
            Quantile => State::Values(vec![sample.value]),
        }
    }

    /// Merges another state of the same kind.
    pub fn merge(&mut self, op: RangeOp, other: &State) {
        match (self, other) {
            (State::Sum(sum), State::Sum(other)) => *sum += other,
            (State::Extreme(extreme), State::Extreme(other)) => {
                *extreme =
                    if op == RangeOp::Max { extreme.max(*other) } else { extreme.min(*other) };
            }
            (State::Mean(n, mean), State::Mean(m, other)) => {
                let sum = *n + m;
                // An infinite mean stays so beside finite values.
                *mean = match mean.is_infinite() || other.is_infinite() {
                    true => *mean + other,
                    false => *mean + (other - *mean) * m / sum,
                };
                *n = sum;
            }
            (State::Moments(n, mean, squares), State::Moments(m, other, others)) => {
                let (distance, sum) = (other - *mean, *n + m);
                *mean += distance * m / sum;
                *squares += others + distance * distance * *n * m / sum;
                *n = sum;
            }
            (State::Edge(edge), State::Edge(other)) => {
                let later = (other.time_ns, other.id) > (edge.time_ns, edge.id);
                if later == (op == RangeOp::Last) {
                    *edge = *other;
                }
            }
            (State::Values(values), State::Values(others)) => values.extend_from_slice(others),
            (State::Samples(samples), State::Samples(others)) => samples.extend_from_slice(others),
            (State::Distinct(hashes), State::Distinct(others)) => hashes.extend(others),
            _ => unreachable!("states of one aggregation are of one kind"),
        }
    }

    /// The value of the window of that length that ends at `end_ns`.
    pub fn value(
        &mut self,
        op: RangeOp,
        parameter: Option<f64>,
        end_ns: i64,
        range_ns: i64,
    ) -> f64 {
        let range_s = range_ns as f64 / 1e9;
        match self {
            State::Sum(_) if op == RangeOp::Absent => 1.0,
            State::Sum(sum) if matches!(op, RangeOp::Rate | RangeOp::BytesRate) => *sum / range_s,
            State::Sum(value) | State::Extreme(value) => *value,
            State::Mean(_, mean) => *mean,
            State::Samples(samples) => rate_of_counter(samples, end_ns, range_ns),
            State::Distinct(hashes) => hashes.len() as f64,
            State::Moments(n, _, squares) if op == RangeOp::Stdvar => *squares / *n,
            State::Moments(n, _, squares) => (*squares / *n).sqrt(),
            State::Edge(sample) => sample.value,
            State::Values(values) => quantile(parameter.unwrap_or(0.5), values),
        }
    }

    /// Heap memory, in bytes.
    pub fn extra_bytes(&self) -> usize {
        match self {
            State::Values(values) => values.capacity() * size_of::<f64>(),
            State::Samples(samples) => samples.capacity() * size_of::<Sample>(),
            // A table has up to twice as many places as it may hold.
            State::Distinct(hashes) => hashes.capacity() * 2 * size_of::<u64>(),
            _ => 0,
        }
    }
}

/// The increase per second of a counter that may begin again at 0, as in Prometheus: the increase
/// between the first and the last sample is extrapolated to the ends of the window, by at most half
/// of a usual distance if the next sample is far, and not below 0. 0 for a single sample.
fn rate_of_counter(samples: &mut [Sample], end_ns: i64, range_ns: i64) -> f64 {
    samples.sort_unstable_by_key(|sample| (sample.time_ns, sample.id));
    let [first, .., last] = samples else { return 0.0 };
    let (first, last) = (*first, *last);
    let mut increase = last.value - first.value;
    for pair in samples.windows(2) {
        if pair[1].value < pair[0].value {
            increase += pair[0].value;
        }
    }
    let seconds = |from_ns: i64, to_ns: i64| to_ns.saturating_sub(from_ns) as f64 / 1e9;
    let sampled_s = seconds(first.time_ns, last.time_ns);
    let usual_s = sampled_s / (samples.len() - 1) as f64;
    let until = |edge_s: f64| if edge_s >= usual_s * 1.1 { usual_s / 2.0 } else { edge_s };
    let mut before_s = until(seconds(end_ns.saturating_sub(range_ns), first.time_ns));
    if increase > 0.0 && first.value >= 0.0 {
        before_s = before_s.min(sampled_s * (first.value / increase));
    }
    let whole_s = sampled_s + before_s + until(seconds(last.time_ns, end_ns));
    increase * (whole_s / sampled_s) / (range_ns as f64 / 1e9)
}

/// The quantile of values, between the two nearest ranks as in Prometheus.
pub fn quantile(q: f64, values: &mut [f64]) -> f64 {
    if values.is_empty() || q.is_nan() {
        return f64::NAN;
    }
    if q < 0.0 {
        return f64::NEG_INFINITY;
    }
    if q > 1.0 {
        return f64::INFINITY;
    }
    // What is no number, is less than every number.
    let rank_of = |value: &f64| (!value.is_nan(), *value);
    values.sort_unstable_by(|a, b| {
        let ((is_number, a), (other_is, b)) = (rank_of(a), rank_of(b));
        is_number.cmp(&other_is).then(a.total_cmp(&b))
    });
    let rank = q * (values.len() - 1) as f64;
    let (low, high) = (rank.floor() as usize, rank.ceil() as usize);
    let weight = rank - rank.floor();
    values[low] * (1.0 - weight) + values[high] * weight
}
