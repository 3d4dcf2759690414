//! Whether two stores differ, and by which factor.
//!
//! Rates and latencies are positive and spread by factors: a store that is twice as slow varies
//! twice as much. So tests are made on logarithms, and a result is a ratio. Repetitions of stores
//! that took turns belong together, because a change of the machine affects both: they are compared
//! in pairs. Other samples are compared by Welch's test.

use statrs::distribution::ContinuousCDF;

use super::{INTERVAL_MIN, moments, student, student_quantile, welch};

/// The probability with which a difference of [`Comparison::detectable`] is found.
pub const POWER: f64 = 0.8;

/// A comparison of two samples.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Comparison {
    /// The geometric mean of the first divided by that of the second.
    pub ratio: f64,
    /// The interval of the ratio at [`CONFIDENCE`](super::CONFIDENCE).
    pub interval: (f64, f64),
    /// The statistic.
    pub t: f64,
    /// Its degrees of freedom.
    pub freedom: f64,
    /// The probability of a statistic at least as far from 0 if there is no difference (two-sided).
    pub p: f64,
    /// The number of pairs; `None` for samples that were not compared in pairs.
    pub pairs: Option<usize>,
    /// The standard error of the logarithm of the ratio.
    error: f64,
}

impl Comparison {
    /// The smallest ratio above 1 that samples which spread like these show as significant at the
    /// level `alpha` with the probability [`POWER`].
    pub fn detectable(&self, alpha: f64) -> f64 {
        let t = student(self.freedom);
        ((t.inverse_cdf(1.0 - alpha / 2.0) + t.inverse_cdf(POWER)) * self.error).exp()
    }
}

/// Compares two samples in pairs by the t-test of the logarithms of their ratios: values at the
/// same place belong together. `None` for fewer than [`INTERVAL_MIN`] pairs, for values that are
/// not above 0, and if all ratios are equal.
///
/// # Panics
/// If the samples differ in length.
pub fn paired(first: &[f64], second: &[f64]) -> Option<Comparison> {
    assert_eq!(first.len(), second.len(), "each value has its partner");
    let (first, second) = (logarithms(first)?, logarithms(second)?);
    let differences: Vec<f64> = first.iter().zip(&second).map(|(a, b)| a - b).collect();
    let (mean, variance) = moments(&differences).filter(|_| differences.len() >= INTERVAL_MIN)?;
    let error = (variance / differences.len() as f64).sqrt();
    let freedom = differences.len() as f64 - 1.0;
    let size = first.iter().chain(&second).fold(0.0_f64, |size, value| size.max(value.abs()));
    if error <= 10.0 * f64::EPSILON * size.max(1.0) {
        return None;
    }
    let half = student_quantile(freedom) * error;
    Some(Comparison {
        ratio: mean.exp(),
        interval: ((mean - half).exp(), (mean + half).exp()),
        t: mean / error,
        freedom,
        p: (2.0 * student(freedom).cdf(-(mean / error).abs())).clamp(0.0, 1.0),
        pairs: Some(differences.len()),
        error,
    })
}

/// Compares two samples by Welch's test of their logarithms. `None` for fewer than [`INTERVAL_MIN`]
/// values, for values that are not above 0, and if neither sample varies.
pub fn unpaired(first: &[f64], second: &[f64]) -> Option<Comparison> {
    if first.len().min(second.len()) < INTERVAL_MIN {
        return None;
    }
    let test = welch(&logarithms(first)?, &logarithms(second)?)?;
    Some(Comparison {
        ratio: test.difference.exp(),
        interval: (test.interval.0.exp(), test.interval.1.exp()),
        t: test.t,
        freedom: test.freedom,
        p: test.p,
        pairs: None,
        error: test.error,
    })
}

/// Natural logarithms; `None` if a value is not above 0.
pub(super) fn logarithms(sample: &[f64]) -> Option<Vec<f64>> {
    sample.iter().map(|value| (*value > 0.0).then(|| value.ln())).collect()
}

/// The largest groups of items of which no two differ, each in the order of the items: the letters
/// of a compact letter display (Piepho 2004). `differ` says whether two items differ.
pub fn groups(items: usize, differ: impl Fn(usize, usize) -> bool) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> =
        if items == 0 { Vec::new() } else { vec![(0..items).collect()] };
    for one in 0..items {
        for other in one + 1..items {
            if !differ(one, other) {
                continue;
            }
            let both = |group: &Vec<usize>| group.contains(&one) && group.contains(&other);
            let (split, mut kept): (Vec<_>, Vec<_>) = groups.into_iter().partition(both);
            for group in split {
                for leaving in [one, other] {
                    let rest: Vec<usize> =
                        group.iter().copied().filter(|item| *item != leaving).collect();
                    let is_part = |of: &Vec<usize>| rest.iter().all(|item| of.contains(item));
                    if !kept.iter().any(is_part) {
                        kept.push(rest);
                    }
                }
            }
            groups = kept;
        }
    }
    groups.sort();
    groups
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::near;
    use super::*;

    /// `t.test(extra ~ group, data = sleep, paired = TRUE)` of R: t = −4.0621, df = 9,
    /// p = 0.002833, interval −2.4598858 to −0.7001142. Here of exponentials, whose logarithms are
    /// the values.
    #[test]
    fn the_test_in_pairs_is_that_of_r() {
        let first = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0].map(f64::exp);
        let second = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4].map(f64::exp);
        let found = paired(&first, &second).unwrap();
        near(found.t, -4.0621, 5e-5);
        near(found.p, 0.002833, 5e-7);
        near(found.interval.0.ln(), -2.4598858, 5e-8);
        near(found.interval.1.ln(), -0.7001142, 5e-8);
        assert_eq!((found.freedom, found.pairs), (9.0, Some(10)));
        near(unpaired(&first, &second).unwrap().p, 0.07939, 5e-6);
    }

    /// `power.t.test(n = 10, sd = 1.229995, power = 0.8, type = "paired")` of R: delta = 1.2275;
    /// the sum of two quantiles is a little above it.
    #[test]
    fn the_detectable_difference_is_about_that_of_r() {
        let first = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0].map(f64::exp);
        let second = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4].map(f64::exp);
        let found = paired(&first, &second).unwrap().detectable(0.05).ln();
        assert!((found - 1.2275).abs() < 0.02, "{found}");
    }

    #[test]
    fn what_cannot_be_compared_is_not() {
        assert_eq!(paired(&[1.0], &[2.0]), None);
        assert_eq!(paired(&[1.0, 2.0, 3.0], &[2.0, 4.0, 6.0]), None, "all ratios are equal");
        assert_eq!(paired(&[1.0, 0.0, 2.0], &[2.0, 3.0, 7.0]), None);
        assert_eq!(unpaired(&[1.0, 2.0, 4.0], &[-1.0, 3.0, 5.0]), None);
        assert_eq!(paired(&[1.0, 2.0], &[2.0, 5.0]), None, "two are too few");
        assert_eq!(unpaired(&[1.0, 2.0], &[2.0, 5.0, 6.0]), None);
        assert_eq!(paired(&[], &[]), None);
    }

    #[test]
    fn groups_have_no_two_that_differ() {
        let of = |apart: &[(usize, usize)]| {
            groups(4, |a, b| apart.contains(&(a, b)) || apart.contains(&(b, a)))
        };
        assert_eq!(of(&[]), [vec![0, 1, 2, 3]]);
        assert_eq!(of(&[(0, 1), (0, 2), (0, 3)]), [vec![0], vec![1, 2, 3]]);
        assert_eq!(of(&[(0, 2), (0, 3), (1, 3)]), [vec![0, 1], vec![1, 2], vec![2, 3]]);
        assert_eq!(groups(0, |_, _| true), Vec::<Vec<usize>>::new());
        assert_eq!(groups(2, |_, _| true), [vec![0], vec![1]]);
    }

    proptest! {
        #[test]
        fn pairs_look_the_same_from_both_sides(
            pairs in prop::collection::vec((1.0..1e4_f64, 1.0..1e4_f64), 3..20),
        ) {
            let (a, b): (Vec<f64>, Vec<f64>) = pairs.into_iter().unzip();
            if let (Some(one), Some(other)) = (paired(&a, &b), paired(&b, &a)) {
                prop_assert!((one.p - other.p).abs() < 1e-9);
                prop_assert!((one.ratio * other.ratio - 1.0).abs() < 1e-9);
                prop_assert!(one.interval.0 > 0.0 && one.interval.0 <= one.ratio);
                prop_assert!(one.detectable(0.05) > 1.0);
            }
        }

        /// Two items are in a common group exactly if they do not differ.
        #[test]
        fn groups_say_exactly_which_pairs_differ(
            items in 0usize..7, bits in prop::collection::vec(any::<bool>(), 49),
        ) {
            let differ = |a: usize, b: usize| bits[a.min(b) * 7 + a.max(b)];
            let found = groups(items, differ);
            for a in 0..items {
                prop_assert!(found.iter().any(|group| group.contains(&a)));
                for b in a + 1..items {
                    let together =
                        found.iter().any(|group| group.contains(&a) && group.contains(&b));
                    prop_assert_eq!(together, !differ(a, b));
                }
            }
        }
    }
}
