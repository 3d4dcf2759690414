//! The times at which a query is evaluated, and the windows that a line belongs to.
//!
//! The window of a time t contains lines from after t − range up to t, both as in Loki. The times
//! of lines are mapped to buckets that lie entirely inside or outside of every window: between two
//! times of the grid there is at most one boundary of a window, so there are two buckets per step.

use query::source::TimeRange;

use super::POINTS_MAX;

/// The bucket of the lines if there is only one window.
pub const ONLY_BUCKET: i64 = 1;

/// Times at even steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    start_ns: i64,
    step_ns: i64,
    steps: i64,
}

impl Grid {
    /// A grid of one time.
    pub fn instant(time_ns: i64) -> Grid {
        Grid { start_ns: time_ns, step_ns: 1, steps: 1 }
    }

    /// Times from `start_ns` to `end_ns`, both inclusive, nanoseconds since 1970 UTC. The error is
    /// for the user.
    pub fn new(start_ns: i64, end_ns: i64, step_ns: i64) -> Result<Grid, String> {
        if end_ns < start_ns {
            return Err("end timestamp must not be before or equal to start time".to_owned());
        }
        if step_ns <= 0 {
            return Err("zero or negative query resolution step widths are not accepted. Try a positive integer".to_owned());
        }
        let steps = (i128::from(end_ns) - i128::from(start_ns)) / i128::from(step_ns) + 1;
        if steps > i128::from(POINTS_MAX) {
            return Err(format!(
                "exceeded maximum resolution of {POINTS_MAX} points per time series. Try increasing the value of the step parameter"
            ));
        }
        Ok(Grid { start_ns, step_ns, steps: steps as i64 })
    }

    /// Number of times.
    pub fn steps(&self) -> usize {
        self.steps as usize
    }

    /// The length of a step, nanoseconds.
    pub fn step_ns(&self) -> i64 {
        self.step_ns
    }

    /// Time number `step`, nanoseconds since 1970 UTC.
    pub fn time_ns(&self, step: usize) -> i64 {
        self.start_ns.saturating_add(self.step_ns.saturating_mul(step as i64))
    }

    /// Times of the lines in windows of that length and offset.
    pub fn lines_of(&self, range_ns: i64, offset_ns: i64) -> TimeRange {
        let last_ns = self.time_ns(self.steps() - 1);
        TimeRange {
            start_ns: self
                .start_ns
                .saturating_sub(range_ns)
                .saturating_sub(offset_ns)
                .saturating_add(1),
            end_ns: last_ns.saturating_sub(offset_ns).saturating_add(1),
        }
    }

    /// The bucket of a time, with the offset already subtracted; `None` if it is in no window.
    pub fn bucket(&self, time_ns: i64, range_ns: i64) -> Option<i64> {
        let since_start = i128::from(time_ns) - i128::from(self.start_ns);
        if self.steps == 1 {
            // One window, one bucket.
            let is_inside = since_start <= 0 && since_start > -i128::from(range_ns);
            return is_inside.then_some(ONLY_BUCKET);
        }
        let step = i128::from(self.step_ns);
        // The first time of the grid that is not before it, and the distance to that time.
        let place = (since_start + step - 1).div_euclid(step);
        let before = place * step - since_start;
        let is_late = before < i128::from(range_ns % self.step_ns);
        if (range_ns < self.step_ns && !is_late) || place >= i128::from(self.steps) {
            return None;
        }
        i64::try_from(place * 2 + i128::from(is_late)).ok()
    }

    /// First and last bucket of the window of time number `step`.
    pub fn window(&self, step: usize, range_ns: i64) -> (i64, i64) {
        let whole = range_ns / self.step_ns;
        let step = step as i64;
        (step.saturating_sub(whole).saturating_mul(2).saturating_add(1), step * 2 + 1)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// A time is in a window according to its bucket exactly if it is by definition.
        #[test]
        fn buckets_are_inside_or_outside_of_windows(
            start in -50i64..50,
            step in 1i64..20,
            length in 0i64..100,
            range in 1i64..60,
            time in -200i64..200,
        ) {
            let grid = Grid::new(start, start + length, step).unwrap();
            let bucket = grid.bucket(time, range);
            for place in 0..grid.steps() {
                let end = grid.time_ns(place);
                let inside = end - range < time && time <= end;
                let (first, last) = grid.window(place, range);
                let found = bucket.is_some_and(|bucket| first <= bucket && bucket <= last);
                prop_assert_eq!(found, inside, "at {} of {:?}, window {:?}", place, grid, (first, last));
            }
            let lines = grid.lines_of(range, 0);
            prop_assert!(bucket.is_none() || lines.contains(time) || time <= start - range);
        }
    }

    #[test]
    fn limits() {
        assert_eq!(Grid::new(0, POINTS_MAX - 1, 1).unwrap().steps(), POINTS_MAX as usize);
        assert!(Grid::new(0, POINTS_MAX, 1).is_err());
        assert!(Grid::new(5, 4, 1).is_err());
        assert!(Grid::new(0, 4, 0).is_err());
        assert_eq!(Grid::new(3, 3, 1).unwrap().steps(), 1);
        assert!(Grid::new(i64::MIN, i64::MAX, 1).is_err());
    }

    #[test]
    fn one_time_has_one_bucket() {
        let grid = Grid::instant(100);
        let (first, last) = grid.window(0, 10);
        assert!((first..=last).contains(&ONLY_BUCKET));
        for (time_ns, inside) in [(90, false), (91, true), (95, true), (100, true), (101, false)] {
            assert_eq!(grid.bucket(time_ns, 10), inside.then_some(ONLY_BUCKET), "{time_ns}");
        }
        assert_eq!(grid.bucket(i64::MIN, i64::MAX), None);
    }
}
