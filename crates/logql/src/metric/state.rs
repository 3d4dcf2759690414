//! The state of a bucket, from whose merge the value of a window is computed.

use record::LineId;

use crate::ast::RangeOp;

/// A line as a sample.
#[derive(Clone, Copy, Debug)]
pub struct Sample {
    /// Its time, nanoseconds since 1970 UTC.
    pub time_ns: i64,
    /// Its id, which distinguishes lines with the same time.
    pub id: LineId,
    /// Its value.
    pub value: f64,
}

/// The state of a bucket.
#[derive(Clone, Debug)]
pub enum State {
    /// A sum.
    Sum(f64),
    /// The least or greatest value.
    Extreme(f64),
    /// Number, mean, and sum of squared distances from it (Welford).
    Moments(f64, f64, f64),
    /// The first or last line.
    Edge(Sample),
    /// All values.
    Values(Vec<f64>),
}

impl State {
    /// The state of one line.
    pub fn new(op: RangeOp, sample: Sample) -> State {
        use RangeOp::*;
        match op {
            Count | Rate | Bytes | BytesRate | Sum | Absent => State::Sum(sample.value),
            Min | Max => State::Extreme(sample.value),
            Avg | Stddev | Stdvar => State::Moments(1.0, sample.value, 0.0),
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
            _ => unreachable!("states of one aggregation are of one kind"),
        }
    }

    /// The value of the window.
    pub fn value(&mut self, op: RangeOp, parameter: Option<f64>, range_ns: i64) -> f64 {
        let range_s = range_ns as f64 / 1e9;
        match self {
            State::Sum(_) if op == RangeOp::Absent => 1.0,
            State::Sum(sum) if matches!(op, RangeOp::Rate | RangeOp::BytesRate) => *sum / range_s,
            State::Sum(value) | State::Extreme(value) => *value,
            State::Moments(_, mean, _) if op == RangeOp::Avg => *mean,
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
            _ => 0,
        }
    }
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
    values.sort_unstable_by(f64::total_cmp);
    let rank = q * (values.len() - 1) as f64;
    let (low, high) = (rank.floor() as usize, rank.ceil() as usize);
    let weight = rank - rank.floor();
    values[low] * (1.0 - weight) + values[high] * weight
}
