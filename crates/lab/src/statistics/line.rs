//! A straight line through logarithms: how a latency grows with an amount of data, and what it is
//! at another amount.

use statrs::distribution::{ContinuousCDF, FisherSnedecor};

use super::student_quantile;

/// A line by least squares.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// Growth of y for each unit of x: the exponent, if both are logarithms.
    pub slope: f64,
    /// Its interval at [`CONFIDENCE`](super::CONFIDENCE).
    pub slope_interval: (f64, f64),
    /// The probability of means at least as far from any line if the true ones lie on one: the F
    /// test for lack of fit.
    pub p: f64,
    mean: (f64, f64),
    /// The half-width of intervals is this, times the standard error for a deviation of 1.
    scale: f64,
    count: f64,
    squares: f64,
}

impl Line {
    /// The mean of y at `x`, and its interval.
    pub fn at(&self, x: f64) -> (f64, (f64, f64)) {
        let away = x - self.mean.0;
        let y = self.mean.1 + self.slope * away;
        let half = self.scale * (1.0 / self.count + away * away / self.squares).sqrt();
        (y, (y - half, y + half))
    }
}

/// The line through points, of which there are several at each x. `None` with fewer than three
/// different x, or without a second point at any: then nothing tells a curve from chance.
pub fn line(groups: &[(f64, Vec<f64>)]) -> Option<Line> {
    let groups: Vec<&(f64, Vec<f64>)> = groups.iter().filter(|(_, ys)| !ys.is_empty()).collect();
    let points = || groups.iter().flat_map(|(x, ys)| ys.iter().map(move |y| (*x, *y)));
    let count = points().count() as f64;
    let pure_freedom = count - groups.len() as f64;
    if groups.len() < 3 || pure_freedom < 1.0 {
        return None;
    }
    let mean_x = points().map(|(x, _)| x).sum::<f64>() / count;
    let mean_y = points().map(|(_, y)| y).sum::<f64>() / count;
    let squares: f64 = points().map(|(x, _)| (x - mean_x).powi(2)).sum();
    let slope = points().map(|(x, y)| (x - mean_x) * (y - mean_y)).sum::<f64>() / squares;
    let left: f64 = points().map(|(x, y)| (y - mean_y - slope * (x - mean_x)).powi(2)).sum();
    let pure: f64 = groups
        .iter()
        .map(|(_, ys)| {
            let mean = ys.iter().sum::<f64>() / ys.len() as f64;
            ys.iter().map(|y| (y - mean).powi(2)).sum::<f64>()
        })
        .sum();
    let lack_freedom = groups.len() as f64 - 2.0;
    let lack = (left - pure).max(0.0) / lack_freedom;
    let p = match pure > 0.0 {
        true => {
            let f = FisherSnedecor::new(lack_freedom, pure_freedom).ok()?;
            1.0 - f.cdf(lack / (pure / pure_freedom))
        }
        // Repetitions that do not vary at all: anything off the line is no chance.
        false => f64::from(u8::from(lack < 1e-18)),
    };
    let freedom = count - 2.0;
    let scale = student_quantile(freedom) * (left / freedom).sqrt();
    let half = scale / squares.sqrt();
    Some(Line {
        slope,
        slope_interval: (slope - half, slope + half),
        p,
        mean: (mean_x, mean_y),
        scale,
        count,
        squares,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::near;
    use super::*;

    /// `fit <- lm(y ~ x)` of R with x = 1, 1, 2, 2, 3, 3 and y = 1, 1.2, 2.1, 1.9, 3.3, 2.9;
    /// `confint`, `predict(fit, data.frame(x = 5), interval = "confidence")`, and
    /// `anova(fit, lm(y ~ factor(x)))`, worked out by hand: Sxx = 4, Sxy = 4, the slope is 1 and
    /// the mean is 31/15 at x = 2; left are 0.1333, of which 0.12 are
    /// within the three groups.
    #[test]
    fn a_line_is_that_of_least_squares() {
        let groups = [(1.0, vec![1.0, 1.2]), (2.0, vec![2.1, 1.9]), (3.0, vec![3.3, 2.9])];
        let found = line(&groups).unwrap();
        near(found.slope, 1.0, 1e-12);
        // t of four degrees of freedom is 2.776445; s = √(0.13333 / 4) = 0.182574.
        near(found.slope_interval.0, 1.0 - 2.776445 * 0.182574 / 2.0, 1e-5);
        let (y, (low, high)) = found.at(5.0);
        near(y, 31.0 / 15.0 + 3.0, 1e-12);
        near(high - y, 2.776445 * 0.182574 * (1.0 / 6.0 + 9.0 / 4.0_f64).sqrt(), 1e-5);
        near(y - low, high - y, 1e-12);
        // F = 0.01333 / (0.12 / 3) = 1/3 with 1 and 3 degrees of freedom.
        near(found.p, 0.6042, 2e-4);
    }

    #[test]
    fn what_lies_on_no_line_is_told() {
        let bent = [(1.0, vec![1.0, 1.1]), (2.0, vec![1.0, 1.1]), (3.0, vec![4.0, 4.1])];
        assert!(line(&bent).unwrap().p < 0.01);
        let exact = [(1.0, vec![1.0, 1.0]), (2.0, vec![2.0, 2.0]), (3.0, vec![3.0, 3.0])];
        let found = line(&exact).unwrap();
        assert_eq!((found.p, found.at(10.0).0.round()), (1.0, 10.0));
        assert!(line(&bent[..2]).is_none(), "two amounts are always on a line");
        let single = [(1.0, vec![1.0]), (2.0, vec![2.0]), (3.0, vec![3.0])];
        assert!(line(&single).is_none(), "nothing tells what chance does");
    }
}
