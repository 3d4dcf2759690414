//! Why a value is an anomaly, in words.

use std::fmt;

use crate::anomaly::detector::Verdict;
use crate::anomaly::recent::Windows;
use crate::anomaly::season::Seasonality;

/// The magnitudes that are watched. Where several surprise alike, the first explains the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evidence {
    /// Distance from the median of the values just before.
    Step,
    /// Distance from the expected value.
    Unexpected,
    /// How far above the long-run centre.
    Above,
    /// How far below the long-run centre.
    Below,
    /// Distance of the mean of the last values from the median of those before.
    Level,
    /// Distance of the last values from what was expected of them, on average.
    Drift,
    /// Mean distance of the last values from their mean.
    Variation,
    /// How often the same value came without another between.
    Flat,
}

impl Evidence {
    pub const ALL: [Self; 8] = [
        Self::Step,
        Self::Unexpected,
        Self::Above,
        Self::Below,
        Self::Level,
        Self::Drift,
        Self::Variation,
        Self::Flat,
    ];
}

/// The kind of an anomaly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The value lies above what is usual.
    Spike,
    /// The value lies below what is usual.
    Drop,
    /// The value is zero where others are usual, or zero for unusually long.
    Silence,
    /// The value is usual, but not right after those before it.
    Jump,
    /// The last values lie elsewhere than those before.
    LevelShift,
    /// The values differ more from each other than is usual.
    Variation,
    /// The same value comes again and again.
    Flat,
}

/// Why a value is an anomaly. [`fmt::Display`] says so in plain words.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Reason {
    /// The kind of the anomaly.
    pub kind: Kind,
    value: f64,
    expected: f64,
    low: f64,
    high: f64,
    seasonality: Seasonality,
    /// Typical value just before.
    before: f64,
    /// Typical value before the last values, and of these.
    levels: (f64, f64),
    /// Distance of the last values from their mean, and the usual one.
    variations: (f64, f64),
    repeats: u32,
}

impl Reason {
    /// The reason of a verdict, from the surprise of each kind of evidence.
    pub(crate) fn new(
        value: f64,
        verdict: &Verdict,
        seasonality: Seasonality,
        windows: &Windows,
        surprises: &[f64; Evidence::ALL.len()],
        usual_variation: f64,
    ) -> Self {
        let mut evidence = Evidence::Step;
        let mut largest = 0.0;
        for (candidate, surprise) in Evidence::ALL.into_iter().zip(surprises) {
            if *surprise > largest {
                evidence = candidate;
                largest = *surprise;
            }
        }
        let Verdict { expected, low, high, .. } = *verdict;
        let level = windows.level.unwrap_or(expected);
        // A few outliers move the mean, but not the median.
        let moved = (windows.median - level).abs() > (windows.mean - level).abs() / 2.0;
        let outside = value < low || value > high;
        let kind = match evidence {
            Evidence::Variation => Kind::Variation,
            Evidence::Flat if value == 0.0 => Kind::Silence,
            Evidence::Flat => Kind::Flat,
            Evidence::Level | Evidence::Drift if moved => Kind::LevelShift,
            _ if value == 0.0 && low > 0.0 => Kind::Silence,
            _ if !outside => Kind::Jump,
            _ if value > expected => Kind::Spike,
            _ => Kind::Drop,
        };
        Self {
            kind,
            value,
            expected,
            low,
            high,
            seasonality,
            before: windows.before.unwrap_or(expected),
            levels: (level, windows.median),
            variations: (windows.variation.unwrap_or(0.0), usual_variation),
            repeats: windows.repeats.min(REPEATS_TOLD_MAX),
        }
    }

    /// Writes the band, and at what time it is usual.
    fn write_usual(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (low, high) = (Rough(self.low), Rough(self.high));
        if low.to_string() == high.to_string() {
            write!(f, ", where {low} is usual{}", self.when())
        } else {
            write!(f, ", where {low} to {high} are usual{}", self.when())
        }
    }

    fn when(&self) -> &'static str {
        match self.seasonality {
            Seasonality::None => "",
            Seasonality::Day => " at this hour",
            Seasonality::Week => " at this hour of the week",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = Short(self.value);
        match self.kind {
            Kind::Spike if self.expected > 0.0 && self.value >= TIMES_MIN * self.expected => {
                let times = Short(self.value / self.expected);
                write!(f, "{times} times the usual value{}", self.when())?;
                write!(f, ": {value} instead of {}", Short(self.expected))
            }
            Kind::Spike | Kind::Drop => {
                write!(f, "{value}")?;
                self.write_usual(f)
            }
            Kind::Silence if self.low > 0.0 => {
                f.write_str("silent: 0")?;
                self.write_usual(f)
            }
            Kind::Silence => write!(f, "silent: 0 came {} times in a row", self.repeats + 1),
            Kind::Jump => write!(f, "{value} right after values of about {}", Short(self.before)),
            Kind::LevelShift => {
                let verb = if self.levels.1 > self.levels.0 { "rose" } else { "fell" };
                let (from, to) = (Short(self.levels.0), Short(self.levels.1));
                write!(f, "level {verb} from {from} to {to} and stays")
            }
            Kind::Variation if self.variations.1 > 0.0 => {
                let times = Short(self.variations.0 / self.variations.1);
                write!(f, "varies {times} times as much as usual")
            }
            Kind::Variation => f.write_str("varies, where it is constant usually"),
            Kind::Flat => {
                write!(f, "flat: {value} came {} times in a row", self.repeats + 1)
            }
        }
    }
}

/// Repetitions that are told, at most.
const REPEATS_TOLD_MAX: u32 = 999_999_999;

/// From this ratio on, a spike is told as a multiple.
const TIMES_MIN: f64 = 1.5;

/// A number with three significant digits.
struct Short(f64);

impl fmt::Display for Short {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_rounded(self.0, 3, f)
    }
}

/// A number with two significant digits: the ends of a band are no more exact.
struct Rough(f64);

impl fmt::Display for Rough {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_rounded(self.0, 2, f)
    }
}

fn write_rounded(number: f64, digits: u8, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let size = number.abs();
    if size == 0.0 {
        return f.write_str("0");
    }
    if !(1e-4..1e15).contains(&size) {
        return write!(f, "{number:.*e}", usize::from(digits - 1));
    }
    // At most 6: the smallest number written so has four zeros behind the point.
    let decimals = (f64::from(digits - 1) - size.log10().floor()).clamp(0.0, 6.0) as usize;
    let text = format!("{number:.decimals$}");
    let trimmed = text.trim_end_matches('0').trim_end_matches('.');
    f.write_str(if decimals > 0 { trimmed } else { &text })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits() {
        for (number, text) in [
            (0.0, "0"),
            (-0.0, "0"),
            (12.0, "12"),
            (12.345, "12.3"),
            (1234.5, "1234"),
            (0.012345, "0.0123"),
            (0.00012345, "0.000123"),
            (1e-9, "1.00e-9"),
            (1e300, "1.00e300"),
            (-3.25, "-3.25"),
        ] {
            assert_eq!(Short(number).to_string(), text, "{number}");
        }
    }

    #[test]
    fn each_kind_is_told() {
        let reason = Reason {
            kind: Kind::Spike,
            value: 160.0,
            expected: 50.0,
            low: 40.0,
            high: 60.0,
            seasonality: Seasonality::Day,
            before: 55.0,
            levels: (50.0, 25.0),
            variations: (10.0, 2.0),
            repeats: 11,
        };
        let says = |kind, value, text: &str| {
            assert_eq!(Reason { kind, value, ..reason }.to_string(), text);
        };
        says(Kind::Spike, 160.0, "3.2 times the usual value at this hour: 160 instead of 50");
        says(Kind::Spike, 65.0, "65, where 40 to 60 are usual at this hour");
        says(Kind::Drop, 12.0, "12, where 40 to 60 are usual at this hour");
        says(Kind::Silence, 0.0, "silent: 0, where 40 to 60 are usual at this hour");
        says(Kind::Jump, 41.0, "41 right after values of about 55");
        says(Kind::LevelShift, 25.0, "level fell from 50 to 25 and stays");
        says(Kind::Variation, 25.0, "varies 5 times as much as usual");
        says(Kind::Flat, 25.0, "flat: 25 came 12 times in a row");
        let zeros = Reason { kind: Kind::Silence, low: 0.0, ..reason };
        assert_eq!(zeros.to_string(), "silent: 0 came 12 times in a row");
        let constant = Reason { low: 50.0, high: 50.0, variations: (1.0, 0.0), ..reason };
        let constant = Reason { seasonality: Seasonality::Week, value: 51.0, ..constant };
        assert_eq!(constant.to_string(), "51, where 50 is usual at this hour of the week");
        let varies = Reason { kind: Kind::Variation, ..constant };
        assert_eq!(varies.to_string(), "varies, where it is constant usually");
    }
}
