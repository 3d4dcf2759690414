//! Whether a series keeps its level: Pettitt's test for a change at an unknown place (A. N.
//! Pettitt, "A Non-Parametric Approach to the Change-Point Problem", Applied Statistics 28, 1979).

/// The most likely change of a series.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// The place of the first value after it.
    pub at: usize,
    /// The relative change of the mean.
    pub share: f64,
    /// The probability of such a change in a series without one, approximately and at most 1.
    pub p: f64,
}

/// The most likely change of the level of `series`; `None` if it has no two values, or a mean of 0
/// before the change.
pub fn change(series: &[f64]) -> Option<Change> {
    let n = series.len();
    let ranks = mid_ranks(series);
    // Twice the sum of the ranks until a place, less its expectation: Pettitt's U.
    let mut sum = 0.0;
    let deviation = |(at, rank): (usize, &f64)| {
        sum += rank;
        (at + 1, 2.0 * sum - (at + 1) as f64 * (n as f64 + 1.0))
    };
    let all = ranks[..n.checked_sub(1)?].iter().enumerate().map(deviation);
    let (at, u) = all.max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()))?;
    let cubes = (n as f64).powi(3) + (n as f64).powi(2);
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let (before, after) = (mean(&series[..at]), mean(&series[at..]));
    let p = (2.0 * (-6.0 * u * u / cubes).exp()).min(1.0);
    (before != 0.0).then(|| Change { at, share: after / before - 1.0, p })
}

/// The rank of each value, from 1; equal values share the mean of their ranks.
fn mid_ranks(series: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..series.len()).collect();
    order.sort_by(|a, b| series[*a].total_cmp(&series[*b]));
    let mut ranks = vec![0.0; series.len()];
    let mut first = 0;
    for equal in order.chunk_by(|a, b| series[*a] == series[*b]) {
        let rank = first as f64 + (equal.len() as f64 + 1.0) / 2.0;
        equal.iter().for_each(|place| ranks[*place] = rank);
        first += equal.len();
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_found_where_it_is() {
        let series: Vec<f64> = (0..60).map(|s| 100.0 + f64::from(s % 7)).collect();
        let throttled: Vec<f64> = series.iter().copied().chain([50.0; 30]).collect();
        let found = change(&throttled).unwrap();
        assert_eq!(found.at, 60);
        assert!((found.share - (50.0 / 102.9 - 1.0)).abs() < 0.01 && found.p < 1e-6, "{found:?}");
        assert!(change(&series).unwrap().p > 0.1);
        assert!(change(&[5.0; 30]).unwrap().p > 0.9);
    }

    #[test]
    fn pettitts_statistic_is_that_of_the_definition() {
        let series = [3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0, 5.0, 3.0];
        let n = series.len();
        let u = |t: usize| -> f64 {
            let pairs = series[..t].iter().flat_map(|a| series[t..].iter().map(move |b| (a, b)));
            pairs.map(|(a, b): (&f64, &f64)| if a == b { 0.0 } else { (a - b).signum() }).sum()
        };
        let k = (1..n).map(|t| u(t).abs()).fold(0.0, f64::max);
        let found = change(&series).unwrap();
        assert_eq!(u(found.at).abs(), k);
        let p = 2.0 * (-6.0 * k * k / (1_000.0 + 100.0)).exp();
        assert!((found.p - p.min(1.0)).abs() < 1e-12);
    }

    #[test]
    fn short_series_have_no_change() {
        assert_eq!(change(&[]), None);
        assert_eq!(change(&[1.0]), None);
        assert_eq!(change(&[0.0, 1.0]), None);
    }
}
