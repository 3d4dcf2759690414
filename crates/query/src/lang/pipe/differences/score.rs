//! How surprising a number of rows is, compared with the expected number.

/// Usual variation of a number of rows, as a share of it. Logs come in bursts; a plain Poisson
/// statistic would report every busy hour as a difference.
const VARIATION: f64 = 0.15;

/// Added to every expected number, because rows that were never seen are not impossible.
const UNSEEN: f64 = 0.5;

/// Scores of this size and more, of either sign, are differences.
pub(super) const SCORE_MIN: f64 = 3.0;

/// The signed deviance residual of a negative binomial distribution with mean `expected` and
/// dispersion [`VARIATION`]² (McCullagh and Nelder, *Generalized Linear Models*, 2nd edition,
/// section 2.3 for deviances): above 0 for more rows than expected, below for fewer.
pub(super) fn score(rows: f64, expected: f64) -> f64 {
    let (expected, shape) = (expected + UNSEEN, 1.0 / (VARIATION * VARIATION));
    let own = if rows > 0.0 { rows * (rows / expected).ln() } else { 0.0 };
    let spread = (rows + shape) * ((rows + shape) / (expected + shape)).ln();
    let deviance = (2.0 * (own - spread)).max(0.0);
    deviance.sqrt().copysign(rows - expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_operator_wants_first_scores_higher() {
        let in_order = [
            // A new error, many times and fewer times; a rise; a large but ordinary rise.
            (2_020.0, 0.0),
            (50.0, 0.0),
            (60.0, 20.0),
            (1_300_000.0, 1_000_000.0),
        ];
        let scores = in_order.map(|(rows, expected)| score(rows, expected));
        assert!(scores.is_sorted_by(|a, b| a > b), "{scores:?}");
        assert!(scores[2] > SCORE_MIN && scores[3] < SCORE_MIN, "{scores:?}");
        // A host that is silent counts, and one that has a few lines less does not.
        assert!(score(0.0, 100.0) < -2.0 * SCORE_MIN);
        assert!(score(90.0, 100.0).abs() < SCORE_MIN);
        assert!(score(0.0, 0.0).abs() < 1.0 && score(1.0, 0.0).abs() < SCORE_MIN);
    }
}
