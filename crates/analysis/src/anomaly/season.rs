//! The usual course of a day and of a week, and which of them a series follows.

use serde::{Deserialize, Serialize};

const SECONDS_OF_DAY: i64 = 86_400;
const SECONDS_OF_WEEK: i64 = 7 * SECONDS_OF_DAY;

/// Slots of a day. Half an hour: a daily job that runs for minutes is seen, and a slot still gets
/// several values a day at a step of five minutes.
const SLOTS_OF_DAY: usize = 48;
/// Slots of a week: hours, since every slot gets values once a week only.
const SLOTS_OF_WEEK: usize = 168;

/// Values of a slot that count: the mean of a slot moves by at least one part in so many.
const SLOT_VALUES_MAX: f64 = 64.0;

/// Comparisons that count: later ones move their mean by one part in so many.
const COMPARISONS_MAX: f64 = 1000.0;

/// A season is followed once its mean [`lead`] is larger than this, for as long as it stays ahead.
const LEAD_MIN: f64 = 0.05;

/// Which course a series follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Seasonality {
    /// Neither the hour nor the weekday helps to foresee a value.
    None,
    /// Values repeat each day.
    Day,
    /// Values repeat each week.
    Week,
}

/// The usual courses of a series, and how well each foretells it.
///
/// A course leads another when its errors are smaller. The lead of a value is from -0.5 to 0.5
/// whatever the size of the errors, so no outlier decides.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Seasons {
    day: Course<SLOTS_OF_DAY>,
    week: Course<SLOTS_OF_WEEK>,
    /// Leads of the day and the week over the level, and of the week over the day.
    day_over_level: Lead,
    week_over_level: Lead,
    week_over_day: Lead,
    followed: Seasonality,
    /// Time of the first value, in seconds since 1970.
    first: Option<i64>,
}

impl Seasons {
    pub fn new() -> Self {
        Self {
            day: Course::new(),
            week: Course::new(),
            day_over_level: Lead::default(),
            week_over_level: Lead::default(),
            week_over_day: Lead::default(),
            followed: Seasonality::None,
            first: None,
        }
    }

    /// The season that the series follows.
    pub fn followed(&self) -> Seasonality {
        self.followed
    }

    /// The value expected at a time (seconds since 1970), where `level` is expected without a
    /// season.
    pub fn expected(&self, seconds: i64, level: f64) -> f64 {
        let of_season = match self.followed {
            Seasonality::None => None,
            Seasonality::Day => self.day.at(day_slot(seconds)),
            Seasonality::Week => self.week.at(week_slot(seconds)),
        };
        of_season.unwrap_or(level)
    }

    /// Learns a value, where `level` was expected without a season. It moves the mean of its slot
    /// by no more than one at a distance of `reach` would.
    pub fn learn(&mut self, seconds: i64, value: f64, level: f64, reach: f64) {
        let age = seconds.saturating_sub(*self.first.get_or_insert(seconds));
        let error = |expected: f64| (value - expected).abs();
        // A course is judged from its second period on, when it knows the first.
        let day = self.day.at(day_slot(seconds)).filter(|_| age >= SECONDS_OF_DAY).map(error);
        let week = self.week.at(week_slot(seconds)).filter(|_| age >= SECONDS_OF_WEEK).map(error);
        if let Some(day) = day {
            self.day_over_level.add(day, error(level));
        }
        if let (Some(day), Some(week)) = (day, week) {
            self.week_over_level.add(week, error(level));
            self.week_over_day.add(week, day);
        }
        self.choose(age);
        self.day.learn(day_slot(seconds), value, reach);
        self.week.learn(week_slot(seconds), value, reach);
    }

    /// Chooses the course for a series of this age in seconds.
    fn choose(&mut self, age: i64) {
        let least = |season| if self.followed == season { 0.0 } else { LEAD_MIN };
        let week = self.week_over_level.mean.min(self.week_over_day.mean);
        if age >= 2 * SECONDS_OF_WEEK && week > least(Seasonality::Week) {
            self.followed = Seasonality::Week;
        } else if age >= 2 * SECONDS_OF_DAY && self.day_over_level.mean > least(Seasonality::Day) {
            self.followed = Seasonality::Day;
        } else {
            self.followed = Seasonality::None;
        }
    }
}

/// The mean lead of one forecast over another.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Lead {
    mean: f64,
    count: f64,
}

impl Lead {
    fn add(&mut self, error: f64, other: f64) {
        self.count = (self.count + 1.0).min(COMPARISONS_MAX);
        self.mean += (lead(error, other) - self.mean) / self.count;
    }
}

/// How much smaller an error is than another: 0.5 of none, -0.5 of one much larger.
fn lead(error: f64, other: f64) -> f64 {
    let both = error + other;
    if both > 0.0 { other / both - 0.5 } else { 0.0 }
}

/// Mean of each slot of a period.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Course<const SLOTS: usize> {
    #[serde(with = "crate::anomaly::boxed")]
    means: Box<[f64; SLOTS]>,
    /// Values of each slot, at most 255 of them counted.
    #[serde(with = "crate::anomaly::boxed")]
    counts: Box<[u8; SLOTS]>,
}

impl<const SLOTS: usize> Course<SLOTS> {
    fn new() -> Self {
        Self { means: Box::new([0.0; SLOTS]), counts: Box::new([0; SLOTS]) }
    }

    fn at(&self, slot: usize) -> Option<f64> {
        (self.counts[slot] > 0).then(|| self.means[slot])
    }

    fn learn(&mut self, slot: usize, value: f64, reach: f64) {
        let count = self.counts[slot].saturating_add(1);
        let mut difference = value - self.means[slot];
        if count > 1 && reach > 0.0 {
            difference = difference.max(-reach).min(reach);
        }
        self.counts[slot] = count;
        self.means[slot] += difference / f64::from(count).min(SLOT_VALUES_MAX);
    }
}

fn day_slot(seconds: i64) -> usize {
    slot(seconds, SECONDS_OF_DAY, SLOTS_OF_DAY)
}

fn week_slot(seconds: i64) -> usize {
    slot(seconds, SECONDS_OF_WEEK, SLOTS_OF_WEEK)
}

fn slot(seconds: i64, period: i64, slots: usize) -> usize {
    let within = usize::try_from(seconds.rem_euclid(period)).unwrap_or(0);
    within * slots / usize::try_from(period).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600;

    /// The season found, and the value expected at the end, of three weeks of hourly values.
    fn learnt(value: impl Fn(i64) -> f64) -> (f64, Seasonality) {
        let mut seasons = Seasons::new();
        let hours = 24 * 7 * 3;
        let level = (0..hours).map(&value).sum::<f64>() / hours as f64;
        for hour in 0..hours {
            seasons.learn(hour * HOUR, value(hour), level, 200.0);
        }
        (seasons.expected(hours * HOUR, level), seasons.followed())
    }

    #[test]
    fn the_season_is_found() {
        let noise = |hour: i64| (hour * 7_919 % 101) as f64 / 10.0;
        let by_day = |hour: i64| if hour % 24 < 8 { 10.0 } else { 100.0 };
        let by_week = |hour: i64| if hour / 24 % 7 < 2 { 1.0 } else { by_day(hour) };
        let (_, none) = learnt(noise);
        assert_eq!(none, Seasonality::None);
        let (expected, day) = learnt(|hour| by_day(hour) + noise(hour));
        assert_eq!(day, Seasonality::Day);
        assert!((10.0..20.0).contains(&expected), "{expected}");
        let (expected, week) = learnt(|hour| by_week(hour) + noise(hour));
        assert_eq!(week, Seasonality::Week);
        assert!((1.0..11.0).contains(&expected), "{expected}");
    }

    #[test]
    fn an_outlier_does_not_poison_its_slot() {
        let outlier_at = 24 * 14 + 30;
        let by_day = |hour: i64| if hour % 24 < 8 { 10.0 } else { 100.0 };
        let mut seasons = Seasons::new();
        for hour in 0..24 * 20 {
            let value = if hour == outlier_at { 1e12 } else { by_day(hour) };
            seasons.learn(hour * HOUR, value, 70.0, 200.0);
        }
        let expected = seasons.expected(outlier_at * HOUR, 70.0);
        assert_eq!(seasons.followed(), Seasonality::Day);
        assert!((5.0..40.0).contains(&expected), "{expected}");
    }

    #[test]
    fn slots_cover_all_times() {
        for (seconds, day, week) in
            [(0, 0, 0), (-1, 47, 167), (i64::MAX, 31, 87), (i64::MIN, 16, 80)]
        {
            assert_eq!((day_slot(seconds), week_slot(seconds)), (day, week), "{seconds}");
        }
    }
}
