//! Order statistics of a sample: quantiles and the five numbers of a box plot.

/// The quantile as R computes it by default (type 7: linear between the two nearest values); `None`
/// for an empty sample.
pub fn quantile(sample: &[f64], share: f64) -> Option<f64> {
    interpolated(&sorted(sample), share)
}

/// The elements of Tukey's box plot.
#[derive(Debug, Clone, PartialEq)]
pub struct BoxPlot {
    /// Lowest value within one and a half box lengths below the box.
    pub whisker_low: f64,
    /// Lower hinge: the median of the lower half, which includes the median if the count is odd.
    pub low: f64,
    /// Median.
    pub median: f64,
    /// Upper hinge.
    pub high: f64,
    /// Highest value within one and a half box lengths above the box.
    pub whisker_high: f64,
    /// Values beyond the whiskers, ascending.
    pub outliers: Vec<f64>,
}

/// The box plot of a sample as R's `boxplot.stats` computes it; `None` for an empty sample.
pub fn box_plot(sample: &[f64]) -> Option<BoxPlot> {
    let sorted = sorted(sample);
    let half = sorted.len().div_ceil(2);
    let median = interpolated(&sorted, 0.5)?;
    let low = interpolated(&sorted[..half], 0.5)?;
    let high = interpolated(&sorted[sorted.len() - half..], 0.5)?;
    let reach = 1.5 * (high - low);
    let within = |value: &&f64| (low - reach..=high + reach).contains(*value);
    Some(BoxPlot {
        whisker_low: *sorted.iter().find(within)?,
        low,
        median,
        high,
        whisker_high: *sorted.iter().rfind(within)?,
        outliers: sorted.iter().filter(|value| !within(value)).copied().collect(),
    })
}

fn sorted(sample: &[f64]) -> Vec<f64> {
    let mut sorted = sample.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

fn interpolated(sorted: &[f64], share: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = share.clamp(0.0, 1.0) * last as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(last);
    Some(sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The example of R's manual page of `boxplot.stats`: `x <- c(1:100, 1000)` has the five
    /// numbers 1, 26, 51, 76, 100 and the outlier 1000.
    #[test]
    fn a_box_plot_is_that_of_r() {
        let mut sample: Vec<f64> = (1..=100).map(f64::from).collect();
        sample.push(1000.0);
        let plot = box_plot(&sample).unwrap();
        assert_eq!(
            (plot.whisker_low, plot.low, plot.median, plot.high, plot.whisker_high),
            (1.0, 26.0, 51.0, 76.0, 100.0)
        );
        assert_eq!(plot.outliers, [1000.0]);
    }

    #[test]
    fn quantiles_lie_between_the_values() {
        let sample = [4.0, 1.0, 3.0, 2.0];
        for (share, expected) in [(0.0, 1.0), (0.25, 1.75), (0.5, 2.5), (0.9, 3.7), (1.0, 4.0)] {
            assert!((quantile(&sample, share).unwrap() - expected).abs() < 1e-12, "{share}");
        }
        assert_eq!((quantile(&[], 0.5), box_plot(&[])), (None, None));
        assert_eq!(box_plot(&[7.0]).unwrap().whisker_high, 7.0);
    }

    proptest! {
        #[test]
        fn a_box_plot_is_in_order_and_keeps_every_value(
            sample in prop::collection::vec(-1e6..1e6_f64, 1..60)
        ) {
            let plot = box_plot(&sample).unwrap();
            let five = [plot.whisker_low, plot.low, plot.median, plot.high, plot.whisker_high];
            prop_assert!(five[1] <= five[2] && five[2] <= five[3] && five[0] <= five[4], "{five:?}");
            let drawn = sample.iter().filter(|v| (five[0]..=five[4]).contains(*v)).count();
            prop_assert_eq!(drawn + plot.outliers.len(), sample.len());
        }
    }
}
