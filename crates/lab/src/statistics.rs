//! Statistics of a few repetitions: means with intervals, differences between two stores, spread,
//! drift.
//!
//! A sample is one number per repetition (operations per second, or a mean latency), never one per
//! operation: operations of one run depend on each other, repetitions hardly do. Means, intervals
//! and tests are those of logarithms ([`geometric`], [`paired`], [`unpaired`]); they are valid if
//! the repetitions are independent and their logarithms approximately normal, which [`trend`] and
//! the box plots help to check; with fewer repetitions this matters more. The arithmetic mean
//! ([`estimate`]) and Welch's test of plain values ([`welch`]) are those of the studies, and repeat
//! their figures. The distributions come from the library statrs; the computations here are checked
//! against published output of R and against the 2015 study.
//!
//! Left out: tests of pairs on ranks, which cannot find a difference with fewer than six pairs.

mod change;
mod comparison;
mod line;
mod quantile;
mod trend;
mod welch;

pub use change::{Change, change};
pub use comparison::{Comparison, POWER, groups, paired, unpaired};
pub use line::{Line, line};
pub use quantile::{BoxPlot, box_plot, quantile};
pub use trend::{Trend, trend};
pub use welch::{Welch, holm, welch};

use statrs::distribution::{ContinuousCDF, StudentsT};

/// Confidence level of intervals and tests.
pub const CONFIDENCE: f64 = 0.95;

/// Below this p a difference is called significant.
pub const SIGNIFICANCE: f64 = 1.0 - CONFIDENCE;

/// Below this number of repetitions reports have a warning: the interval of four extends 1.6
/// standard deviations to each side, that of thirty 0.4, and four numbers do not show whether they
/// are approximately normal.
pub const SAMPLE_WARNING: usize = 5;

/// Repetitions from which an interval and a test are made. Those of two rest on one degree of
/// freedom: the interval extends nine standard deviations to each side, and a test finds next to
/// nothing.
pub const INTERVAL_MIN: usize = 3;

/// A mean and its uncertainty.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Repetitions.
    pub count: usize,
    /// The mean of the sample.
    pub mean: f64,
    /// Standard deviation of the sample (divisor n − 1); 0 for one repetition. Of a geometric mean
    /// it is that of the logarithms, which is about the deviation relative to the mean.
    pub deviation: f64,
    /// The interval of [`CONFIDENCE`] for the mean; `None` for fewer than [`INTERVAL_MIN`]
    /// repetitions.
    pub interval: Option<(f64, f64)>,
}

/// The arithmetic mean; `None` for no values.
pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The mean of a sample and its interval by Student's t; `None` for an empty sample.
pub fn estimate(sample: &[f64]) -> Option<Estimate> {
    let (mean, variance) = moments(sample)?;
    let count = sample.len();
    let interval = (count >= INTERVAL_MIN).then(|| {
        let half = student_quantile(count as f64 - 1.0) * (variance / count as f64).sqrt();
        (mean - half, mean + half)
    });
    Some(Estimate { count, mean, deviation: variance.sqrt(), interval })
}

/// The geometric mean of a sample and its interval, which is never below 0; `None` for an empty
/// sample, and for values that are not above 0.
pub fn geometric(sample: &[f64]) -> Option<Estimate> {
    let found = estimate(&comparison::logarithms(sample)?)?;
    let interval = found.interval.map(|(low, high)| (low.exp(), high.exp()));
    Some(Estimate { mean: found.mean.exp(), interval, ..found })
}

/// Mean and variance (divisor n − 1; 0 for one value), in two passes: the difference of large sums
/// would lose precision.
fn moments(sample: &[f64]) -> Option<(f64, f64)> {
    if sample.is_empty() {
        return None;
    }
    let count = sample.len() as f64;
    let mean = sample.iter().sum::<f64>() / count;
    let squares: f64 = sample.iter().map(|value| (value - mean).powi(2)).sum();
    Some((mean, if sample.len() > 1 { squares / (count - 1.0) } else { 0.0 }))
}

fn student(freedom: f64) -> StudentsT {
    StudentsT::new(0.0, 1.0, freedom).expect("degrees of freedom are positive")
}

/// The half-width of the interval of [`CONFIDENCE`], in standard errors.
fn student_quantile(freedom: f64) -> f64 {
    student(freedom).inverse_cdf(0.5 + CONFIDENCE / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Half a unit of the last published digit.
    #[track_caller]
    pub(super) fn near(got: f64, published: f64, half_unit: f64) {
        assert!((got - published).abs() <= half_unit, "{got}, published {published}");
    }

    /// `t.test(extra ~ group, data = sleep, paired = TRUE)` of R is the one-sample test of these
    /// differences: mean −1.58, interval −2.4598858 to −0.7001142.
    #[test]
    fn an_interval_is_that_of_r() {
        let differences = [-1.2, -2.4, -1.3, -1.3, 0.0, -1.0, -1.8, -0.8, -4.6, -1.4];
        let found = estimate(&differences).unwrap();
        near(found.mean, -1.58, 1e-12);
        let (low, high) = found.interval.unwrap();
        near(low, -2.4598858, 5e-8);
        near(high, -0.7001142, 5e-8);
    }

    #[test]
    fn small_samples_say_what_they_can() {
        assert_eq!(estimate(&[]), None);
        let one = estimate(&[3.0]).unwrap();
        assert_eq!((one.count, one.mean, one.interval), (1, 3.0, None));
        let two = estimate(&[1.0, 3.0]).unwrap();
        assert_eq!((two.count, two.mean, two.interval), (2, 2.0, None));
        let three = estimate(&[1.0, 2.0, 3.0]).unwrap();
        // t of two degrees of freedom: 4.3027.
        near(three.interval.unwrap().1, 2.0 + 4.30265272975 / 3_f64.sqrt(), 1e-6);
        // exp of the mean and the ends for the logarithms of 1, 2 and 4: ln 2 ± 4.3027 ln 2 / √3.
        let factors = geometric(&[1.0, 2.0, 4.0]).unwrap();
        near(factors.mean, 2.0, 1e-12);
        let low = (1.0 - 4.30265272975 / 3_f64.sqrt()) * 2_f64.ln();
        near(factors.interval.unwrap().0.ln(), low, 1e-6);
        assert_eq!(geometric(&[1.0, 0.0]), None);
        let same = estimate(&[2.0; 7]).unwrap();
        assert_eq!(same.interval, Some((2.0, 2.0)));
    }
}
