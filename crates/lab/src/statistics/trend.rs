//! Whether repetitions drift: the Mann-Kendall test on their order, and the Theil-Sen slope for the
//! amount.

use statrs::distribution::{ContinuousCDF, Normal};

use super::quantile;

/// Whether, and by how much, values rise or fall over their order.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trend {
    /// Pairs whose later value is greater, minus pairs whose later value is smaller (Kendall's S).
    pub score: i64,
    /// The probability of a score at least as strong, of either sign, without a trend.
    pub p: f64,
    /// Change from the first to the last value by the median of the slopes of all pairs, in the
    /// unit of the values.
    pub change: f64,
}

/// Fewer values than this cannot show a trend at 5%: with four values in perfect order p is 0.083.
const VALUES_MIN: usize = 5;

/// Up to this many values without ties, the distribution of the score is counted exactly; beyond
/// that, and with ties, it is approximated by the normal distribution with a continuity correction.
const EXACT_MAX: usize = 40;

/// The trend of a sample in the order of measurement; `None` for fewer than five values.
pub fn trend(sample: &[f64]) -> Option<Trend> {
    let count = sample.len();
    if count < VALUES_MIN {
        return None;
    }
    let (mut score, mut slopes, mut tied) = (0_i64, Vec::new(), false);
    for (later, value) in sample.iter().enumerate() {
        for (earlier, before) in sample[..later].iter().enumerate() {
            score += i64::from(value > before) - i64::from(value < before);
            tied |= value == before;
            slopes.push((value - before) / (later - earlier) as f64);
        }
    }
    let p = match tied || count > EXACT_MAX {
        false => exact(count, score.unsigned_abs() as usize),
        true => normal(sample, score),
    };
    let change = quantile(&slopes, 0.5)? * (count - 1) as f64;
    Some(Trend { score, p, change })
}

/// The share of all orders of `count` values with an absolute score of at least `score`.
fn exact(count: usize, score: usize) -> f64 {
    if score == 0 {
        return 1.0;
    }
    // orders[k]: share of the orders with k inversions. A further value is placed in front of 0 to
    // n of the n earlier ones.
    let mut orders = vec![1.0_f64];
    for before in 1..count {
        let mut next = vec![0.0; orders.len() + before];
        for (pairs, share) in orders.iter().enumerate() {
            for more in 0..=before {
                next[pairs + more] += share / (before + 1) as f64;
            }
        }
        orders = next;
    }
    let pairs = count * (count - 1) / 2;
    let most = (pairs - score) / 2;
    (2.0 * orders[..=most].iter().sum::<f64>()).min(1.0)
}

fn normal(sample: &[f64], score: i64) -> f64 {
    let term = |n: f64| n * (n - 1.0) * (2.0 * n + 5.0);
    let mut sorted = sample.to_vec();
    sorted.sort_by(f64::total_cmp);
    let ties: f64 = sorted.chunk_by(|a, b| a == b).map(|equal| term(equal.len() as f64)).sum();
    let variance = (term(sample.len() as f64) - ties) / 18.0;
    let distance = (score.unsigned_abs() as f64 - 1.0).max(0.0);
    if variance == 0.0 || distance == 0.0 {
        return 1.0;
    }
    2.0 * Normal::standard().sf(distance / variance.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example of R's manual page of `cor.test` (Hollander and Wolfe 1973, p. 187): T = 26 of
    /// 36 pairs, one-sided p = 0.05972; the value of two sides is twice that. Here in the order of
    /// the first variable.
    #[test]
    fn a_trend_is_that_of_r() {
        let x = [44.4, 45.9, 41.9, 53.3, 44.7, 44.1, 50.7, 45.2, 60.1];
        let y = [2.6, 3.1, 2.5, 5.0, 3.6, 4.0, 5.2, 2.8, 3.8];
        let mut pairs: Vec<(f64, f64)> = x.into_iter().zip(y).collect();
        pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
        let ordered: Vec<f64> = pairs.into_iter().map(|(_, y)| y).collect();
        let found = trend(&ordered).unwrap();
        assert_eq!(found.score, 26 - 10);
        assert!((found.p - 2.0 * 0.05972).abs() <= 1e-5, "{}", found.p);
    }

    #[test]
    fn chance_is_told_from_order() {
        assert_eq!(trend(&[1.0, 2.0, 3.0, 4.0]), None);
        let rising = trend(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert_eq!((rising.score, rising.change), (10, 4.0));
        assert!((rising.p - 2.0 / 120.0).abs() < 1e-12);
        assert_eq!(trend(&[3.0; 9]).unwrap().p, 1.0);
        assert_eq!(trend(&[1.0, 4.0, 2.0, 5.0, 3.0, 0.0]).unwrap().score, -1);
    }

    // Near the limit of the exact count, the normal distribution gives about the same.
    #[test]
    fn the_two_distributions_agree() {
        let sample: Vec<f64> =
            (0..40).map(|i| f64::from((i * 17) % 41) + f64::from(i) / 2.0).collect();
        let found = trend(&sample).unwrap();
        assert!((found.p - normal(&sample, found.score)).abs() < 0.01, "{found:?}");
    }
}
