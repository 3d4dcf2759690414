//! How surprising a number of rows is, compared with the expected number, and which scores are
//! differences among all that were computed.

/// Usual variation of a number of rows, as a share of it. Logs come in bursts; a plain Poisson
/// statistic would report every busy hour as a difference.
const VARIATION: f64 = 0.15;

/// Added to every expected number, because rows that were never seen are not impossible.
const UNSEEN: f64 = 0.5;

/// Scores below this size, of either sign, are no differences, however few things were compared.
pub(super) const SCORE_MIN: f64 = 3.0;

/// Share of windows without an incident in which something is reported all the same, and share of
/// chance among all that is reported.
const FALSE_SHARE: f64 = 0.05;

/// Fewer values of a field say nothing about the variation of one more.
const PEERS_MIN: usize = 40;

/// Half of the numbers of a normal distribution are within so many standard deviations.
const HALF: f64 = 0.6745;

/// Things with fewer rows on both sides together cannot have a score of [`SCORE_MIN`].
const ROWS_MIN: f64 = 4.0;

/// The signed deviance residual of a negative binomial distribution with mean `expected` and
/// dispersion [`VARIATION`]² (McCullagh and Nelder, *Generalized Linear Models*, 2nd edition,
/// section 2.3 for deviances): above 0 for more rows than expected, below for fewer.
fn residual(rows: f64, expected: f64) -> f64 {
    let (expected, shape) = (expected + UNSEEN, 1.0 / (VARIATION * VARIATION));
    let own = if rows > 0.0 { rows * (rows / expected).ln() } else { 0.0 };
    let spread = (rows + shape) * ((rows + shape) / (expected + shape)).ln();
    let deviance = (2.0 * (own - spread)).max(0.0);
    deviance.sqrt().copysign(rows - expected)
}

/// The score of the rows of both sides, first the others: above 0 for more selected rows than
/// expected, below for fewer. `scale` turns a number of other rows into that of selected ones.
///
/// Where there are fewer other rows than selected ones, the number of other rows is the less
/// certain one: one other row makes ten selected rows likely, and none of them may come by chance.
/// So the score is computed in the other direction, too, and the smaller one counts.
pub(super) fn score(rows: [f64; 2], scale: f64) -> f64 {
    let [others, selected] = rows;
    let forward = residual(selected, others * scale);
    if scale <= 1.0 {
        return forward;
    }
    let backward = -residual(others, selected / scale);
    if forward.signum() != backward.signum() {
        return 0.0;
    }
    if forward.abs() < backward.abs() { forward } else { backward }
}

/// How many selected rows both sides make together, on the side with the smaller numbers.
fn size(rows: [u64; 2], scale: f64) -> f64 {
    rows[0] as f64 * scale.min(1.0) + rows[1] as f64 / scale.max(1.0)
}

/// Scores that take into account how much the values of one field vary.
///
/// Rows of one client, request or job come together, so that their numbers vary more than those of
/// independent rows. How much more is seen in the values that are about as frequent, all of them
/// and those with selected rows: if most of them changed, each in its own way, a change says
/// nothing (Efron, *Large-Scale Simultaneous Hypothesis Testing: The Choice of a Null Hypothesis*,
/// 2004). If all of them changed in the same way, as when everything stops, it does. Takes the rows
/// and scores, returns the scores divided by the standard deviation of their peers.
pub(super) fn among_peers(scored: &[([u64; 2], f64)]) -> Vec<f64> {
    let sum = |side: usize| scored.iter().map(|(rows, _)| rows[side] as f64).sum::<f64>();
    let common = sum(1) / sum(0);
    let all = scored.iter().map(|(_, score)| *score);
    if scored.len() <= PEERS_MIN || !common.is_finite() || common == 0.0 {
        return all.collect();
    }
    let mut by_size: Vec<usize> = (0..scored.len()).collect();
    let size = |place: usize| scored[place].0[0] + scored[place].0[1];
    by_size.sort_unstable_by_key(|&place| (std::cmp::Reverse(size(place)), place));
    let mut scores = vec![0.0; scored.len()];
    let (mut peers, mut present) = (Sizes::default(), Sizes::default());
    let mut taken = 0;
    for &place in &by_size {
        while let Some(&peer) = by_size.get(taken)
            && (size(peer) >= size(place) / 2 || taken <= PEERS_MIN)
        {
            let rows = scored[peer].0;
            let own = score(rows.map(|rows| rows as f64), common).abs();
            peers.add(own);
            if rows[1] > 0 {
                present.add(own);
            }
            taken += 1;
        }
        let deviation = peers.deviation(PEERS_MIN).max(present.deviation(PEERS_MIN / 4));
        scores[place] = scored[place].1 / deviation;
    }
    scores
}

/// Sizes of scores, in order.
#[derive(Default)]
struct Sizes(Vec<f64>);

impl Sizes {
    fn add(&mut self, size: f64) {
        self.0.insert(self.0.partition_point(|other| *other < size), size);
    }

    /// Their standard deviation by the median, at least 1; 1 if they are fewer than `least`.
    fn deviation(&self, least: usize) -> f64 {
        if self.0.len() < least { 1.0 } else { (self.0[self.0.len() / 2] / HALF).max(1.0) }
    }
}

/// Whether something with these rows can be a difference at all, so that it counts as looked at.
pub(super) fn counts(rows: [u64; 2], scale: f64) -> bool {
    size(rows, scale) >= ROWS_MIN
}

/// The least size of a score that is a difference among `tests` things that were compared: the
/// procedure of Benjamini and Hochberg (*Controlling the False Discovery Rate*, 1995). Of thousands
/// of values, some change much by chance.
pub(super) fn least_score(scores: impl Iterator<Item = f64>, tests: usize) -> f64 {
    let mut sizes: Vec<f64> = scores.map(f64::abs).collect();
    sizes.sort_unstable_by(|a, b| b.total_cmp(a));
    let passes = |(place, size): &(usize, &f64)| {
        two_sided(**size) <= FALSE_SHARE * (place + 1) as f64 / tests.max(1) as f64
    };
    let last = sizes.iter().enumerate().rfind(passes);
    last.map_or(f64::INFINITY, |(_, size)| *size).max(SCORE_MIN)
}

/// The probability of a score of this size or more in a normal distribution, of either sign. Within
/// 1 % from 3 on: the continued fraction of Laplace for the tail (Abramowitz and Stegun, 26.2.14).
fn two_sided(size: f64) -> f64 {
    let fraction = (1..=12).rev().fold(size, |rest, step| size + f64::from(step) / rest);
    2.0 * (-size * size / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt() / fraction
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
        let scores = in_order.map(|(rows, expected)| score([expected, rows], 1.0));
        assert!(scores.is_sorted_by(|a, b| a > b), "{scores:?}");
        assert!(scores[2] > SCORE_MIN && scores[3] < SCORE_MIN, "{scores:?}");
        // A host that is silent counts, and one that has a few lines less does not.
        assert!(score([100.0, 0.0], 1.0) < -2.0 * SCORE_MIN);
        assert!(score([100.0, 90.0], 1.0).abs() < SCORE_MIN);
        let few = score([0.0, 1.0], 1.0);
        assert!(score([0.0, 0.0], 1.0).abs() < 1.0 && few.abs() < SCORE_MIN);
    }

    #[test]
    fn the_less_certain_side_decides() {
        // One other row, and a window ten times as long: that none came may be chance.
        assert!(score([1.0, 0.0], 10.0).abs() < SCORE_MIN);
        assert!(score([0.0, 10.0], 10.0).abs() < SCORE_MIN);
        assert!(score([100.0, 0.0], 10.0) < -2.0 * SCORE_MIN);
    }

    #[test]
    fn probabilities_are_those_of_the_table() {
        // Abramowitz and Stegun, table 26.2: Q(3), Q(4), Q(5).
        for (size, one_sided) in [(3.0, 1.349_898e-3), (4.0, 3.167_124e-5), (5.0, 2.866_516e-7)] {
            assert!((two_sided(size) / (2.0 * one_sided) - 1.0).abs() < 0.01, "{size}");
        }
    }

    #[test]
    fn among_many_a_score_must_be_higher() {
        let least = |tests| least_score([4.0, 3.2].into_iter(), tests);
        assert_eq!(least(10), 3.2);
        assert_eq!(least(100), 4.0);
        assert_eq!(least(10_000), f64::INFINITY);
        // What is certain makes room for what is likely.
        let all = [9.0; 50].into_iter().chain([3.5; 50]);
        assert_eq!(least_score(all, 2_000), 3.5);
    }

    #[test]
    fn clients_that_come_and_go_hide_each_other_but_not_one_that_stands_out() {
        // Each client sends 20 rows within one window, and none in the other.
        let mut all: Vec<[u64; 2]> =
            (0..200).map(|n| if n % 2 == 0 { [20, 0] } else { [0, 20] }).collect();
        all.push([5, 500]);
        let scored: Vec<_> =
            all.iter().map(|rows| (*rows, score(rows.map(|rows| rows as f64), 1.0))).collect();
        let scores = among_peers(&scored);
        assert!(scored[0].1.abs() > SCORE_MIN, "alone it would be a difference");
        assert!(scores[..200].iter().all(|score| score.abs() < SCORE_MIN), "{scores:?}");
        assert!(scores[200] > SCORE_MIN, "{}", scores[200]);
        // Few values say nothing about each other, and where all stop, all have stopped.
        assert_eq!(among_peers(&scored[..3])[0], scored[0].1);
        let stopped = vec![([100, 0], score([100.0, 0.0], 1.0)); 60];
        assert_eq!(among_peers(&stopped)[59], stopped[59].1);
    }
}
