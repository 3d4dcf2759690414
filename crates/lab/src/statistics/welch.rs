//! Welch's test, and the correction for multiple comparisons.

use statrs::distribution::ContinuousCDF;

use super::{moments, student, student_quantile};

/// A comparison of two samples that does not assume equal variances.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Welch {
    /// Mean of the first minus mean of the second.
    pub difference: f64,
    /// The statistic.
    pub t: f64,
    /// Degrees of freedom by Welch and Satterthwaite.
    pub freedom: f64,
    /// The probability of a statistic at least as far from 0 if the means are equal (two-sided).
    pub p: f64,
    /// The interval of the difference at [`CONFIDENCE`](super::CONFIDENCE).
    pub interval: (f64, f64),
    /// The standard error of the difference.
    pub error: f64,
}

/// Welch's two-sample t-test, two-sided. `None` if a sample has fewer than two values, or if
/// neither sample varies (R: "data are essentially constant"): then there is nothing to estimate
/// from.
pub fn welch(first: &[f64], second: &[f64]) -> Option<Welch> {
    if first.len() < 2 || second.len() < 2 {
        return None;
    }
    let ((mean_a, variance_a), (mean_b, variance_b)) = (moments(first)?, moments(second)?);
    let (count_a, count_b) = (first.len() as f64, second.len() as f64);
    let (error_a, error_b) = (variance_a / count_a, variance_b / count_b);
    let error = (error_a + error_b).sqrt();
    if error < 10.0 * f64::EPSILON * mean_a.abs().max(mean_b.abs()) || error == 0.0 {
        return None;
    }
    let freedom = (error_a + error_b).powi(2)
        / (error_a.powi(2) / (count_a - 1.0) + error_b.powi(2) / (count_b - 1.0));
    let difference = mean_a - mean_b;
    let t = difference / error;
    let half = student_quantile(freedom) * error;
    Some(Welch {
        difference,
        t,
        freedom,
        p: (2.0 * student(freedom).cdf(-t.abs())).clamp(0.0, 1.0),
        interval: (difference - half, difference + half),
        error,
    })
}

/// Adjusts the p values of several comparisons so that the probability of any false positive among
/// them is at most the given level (Holm 1979). In the given order.
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let (mut adjusted, mut so_far) = (vec![1.0; p.len()], 0.0_f64);
    for (rank, at) in order.into_iter().enumerate() {
        so_far = so_far.max((p.len() - rank) as f64 * p[at]).min(1.0);
        adjusted[at] = so_far;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::tests::near;
    use super::*;

    /// `t`, `df`, `p` and the interval as R printed them, each with half a unit of its last digit.
    #[track_caller]
    fn check(first: &[f64], second: &[f64], printed: [(f64, f64); 5]) {
        let found = welch(first, second).unwrap();
        let got = [found.t, found.freedom, found.p, found.interval.0, found.interval.1];
        for (got, (published, half_unit)) in got.into_iter().zip(printed) {
            near(got, published, half_unit);
        }
    }

    fn numbers(range: std::ops::RangeInclusive<u32>) -> Vec<f64> {
        range.map(f64::from).collect()
    }

    /// Examples of R's manual page of `t.test`.
    #[test]
    fn the_test_is_that_of_r() {
        // t.test(extra ~ group, data = sleep)
        check(
            &[0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0],
            &[1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4],
            [
                (-1.8608, 5e-5),
                (17.776, 5e-4),
                (0.07939, 5e-6),
                (-3.3654832, 5e-8),
                (0.2054832, 5e-8),
            ],
        );
        // t.test(1:10, y = c(7:20))
        check(
            &numbers(1..=10),
            &numbers(7..=20),
            [
                (-5.4349, 5e-5),
                (21.982, 5e-4),
                (1.855e-5, 5e-9),
                (-11.052802, 5e-7),
                (-4.947198, 5e-7),
            ],
        );
        // t.test(1:10, y = c(7:20, 200)): no longer significant
        let mut wide = numbers(7..=20);
        wide.push(200.0);
        check(
            &numbers(1..=10),
            &wide,
            [(-1.6329, 5e-5), (14.165, 5e-4), (0.1245, 5e-5), (-47.242900, 5e-7), (6.376233, 5e-7)],
        );
        // t.test(mpg ~ am, data = mtcars)
        check(
            &[
                21.4, 18.7, 18.1, 14.3, 24.4, 22.8, 19.2, 17.8, 16.4, 17.3, 15.2, 10.4, 10.4, 14.7,
                21.5, 15.5, 15.2, 13.3, 19.2,
            ],
            &[21.0, 21.0, 22.8, 32.4, 30.4, 33.9, 27.3, 26.0, 30.4, 15.8, 19.7, 15.0, 21.4],
            [
                (-3.7671, 5e-5),
                (18.332, 5e-4),
                (0.001374, 5e-7),
                (-11.280194, 5e-7),
                (-3.209684, 5e-7),
            ],
        );
    }

    /// `p.adjust(c(0.01, 0.02, 0.03, 0.04, 0.05), "holm")` of R: 0.05 0.08 0.09 0.09 0.09.
    #[test]
    fn many_comparisons_are_adjusted_as_r_does() {
        let adjusted = holm(&[0.04, 0.01, 0.05, 0.02, 0.03]);
        for (got, expected) in adjusted.iter().zip([0.09, 0.05, 0.09, 0.08, 0.09]) {
            near(*got, expected, 1e-12);
        }
        assert_eq!((holm(&[]), holm(&[0.7, 0.9])), (vec![], vec![1.0, 1.0]));
    }

    #[test]
    fn what_cannot_be_tested_is_not() {
        assert_eq!(welch(&[1.0], &[1.0, 2.0]), None);
        assert_eq!(welch(&[1.0, 1.0], &[2.0, 2.0]), None);
        assert_eq!(welch(&[], &[]), None);
        let one_constant = welch(&[1.0, 1.0], &[2.0, 2.5]).unwrap();
        assert_eq!(one_constant.freedom, 1.0);
        assert!(one_constant.p > 0.05);
    }

    proptest! {
        #[test]
        fn the_test_looks_the_same_from_both_sides(
            a in prop::collection::vec(1.0..1e4_f64, 2..20),
            b in prop::collection::vec(1.0..1e4_f64, 2..20),
        ) {
            if let (Some(one), Some(other)) = (welch(&a, &b), welch(&b, &a)) {
                prop_assert!((one.p - other.p).abs() < 1e-9);
                prop_assert!((one.interval.0 + other.interval.1).abs() < 1e-6);
                let zero_inside = one.interval.0 < 0.0 && one.interval.1 > 0.0;
                prop_assert!(zero_inside == (one.p > 0.05) || (one.p - 0.05).abs() < 1e-6);
            }
        }
    }
}
