//! The detector of one series: magnitudes, their surprise, and what follows from the sum.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::anomaly::reason::{Evidence, Reason};
use crate::anomaly::recent::{Recent, SHORT, Windows, mean};
use crate::anomaly::season::{Seasonality, Seasons};
use crate::anomaly::tail::Tail;
use crate::anomaly::typical::Typical;

/// Score from which a value is an anomaly.
pub const SCORE_ANOMALOUS: f64 = 0.5;

/// Sum of the surprises whose score is [`SCORE_ANOMALOUS`]. Eight magnitudes, each as large as one
/// value in 56, make 14; so do two as large as one in ten million.
const SURPRISE_ANOMALOUS: f64 = 14.0;

/// For so many values after a peak of surprise, only a larger one is new: an incident is one alert,
/// not one for each of its values. Eight hours at a step of five minutes.
const HOLD_VALUES: u32 = 96;
/// How much larger the surprise has to be within that time.
const HOLD_RATIO: f64 = 1.2;

/// A pause longer than so many usual steps is a gap: the windows start anew.
const GAP_STEPS: f64 = 12.0;

/// Share of the values above the band, and of those below.
const BAND_SHARE: f64 = 0.01;

/// Values are taken for at most so large, so that no sum overflows.
const VALUE_MAX: f64 = 1e300;

const NANOSECONDS: i64 = 1_000_000_000;

/// What a detector says of one value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Verdict {
    /// The value that was expected.
    pub expected: f64,
    /// Lower end of the band in which about 98 of 100 values lie.
    pub low: f64,
    /// Upper end of that band.
    pub high: f64,
    /// How unusual the value is, from 0 to 1; an anomaly from [`SCORE_ANOMALOUS`] on.
    pub score: f64,
    /// Whether one of the last 96 values was about as unusual or more: the same incident, most
    /// likely.
    pub repeated: bool,
    /// Why the value is an anomaly, when it is one.
    pub reason: Option<Reason>,
}

impl Verdict {
    /// Whether the value is an anomaly, and the first of its incident: a reason to tell somebody.
    pub fn is_alert(&self) -> bool {
        self.score >= SCORE_ANOMALOUS && !self.repeated
    }
}

/// Watches one series, value by value, without configuration.
///
/// The state is bounded by [`Detector::BYTES_MAX`] and can be stored with `serde`. Times are
/// nanoseconds since 1970 in UTC, and so are the hours and weekdays of which a season is made:
/// after a change to summer time, a season follows within days. The first 50 values get no score.
///
/// A silence is seen when it is told: whoever counts passes zero for a step without lines.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Detector {
    recent: Recent,
    typical: Typical,
    seasons: Seasons,
    /// Differences of the last values from what was expected of them.
    residuals: VecDeque<f64>,
    /// One distribution for each kind of evidence.
    tails: [Tail; Evidence::ALL.len()],
    above_expected: Tail,
    below_expected: Tail,
    negative_seen: bool,
    peak: f64,
    peak_age: u32,
    last_time: Option<i64>,
    /// Usual distance of two times, in nanoseconds.
    step: f64,
}

impl Default for Detector {
    fn default() -> Self {
        Self::new()
    }
}

impl Detector {
    /// Memory of a detector, at most, in bytes.
    pub const BYTES_MAX: usize = 8 << 10;

    /// A detector that has seen nothing.
    pub fn new() -> Self {
        Self {
            recent: Recent::new(),
            typical: Typical::new(),
            seasons: Seasons::new(),
            residuals: VecDeque::new(),
            tails: Evidence::ALL.map(|_| Tail::new()),
            above_expected: Tail::new(),
            below_expected: Tail::new(),
            negative_seen: false,
            peak: 0.0,
            peak_age: 0,
            last_time: None,
            step: 0.0,
        }
    }

    /// Judges a value, then learns it. Values come in the order of their times.
    ///
    /// A value that is no number (NaN, infinite) gets the score 0 and is not learnt.
    pub fn observe(&mut self, time: i64, value: f64) -> Verdict {
        if !value.is_finite() {
            let level = self.typical.value(0.0);
            let expected = self.seasons.expected(time.div_euclid(NANOSECONDS), level);
            return self.verdict(expected, 0.0, true, None);
        }
        let value = value.clamp(-VALUE_MAX, VALUE_MAX);
        if self.is_after_gap(time) {
            self.recent.clear();
            self.residuals.clear();
        }
        let seconds = time.div_euclid(NANOSECONDS);
        let windows = self.recent.push(value);
        let typical = self.typical.value(value);
        let level = windows.usual.unwrap_or(value);
        let expected = self.seasons.expected(seconds, level);

        let magnitudes = self.magnitudes(value, typical, expected, &windows);
        let surprises = self.surprises(&magnitudes);
        let surprise: f64 = surprises.iter().sum();
        let score = 1.0 - (-surprise / SURPRISE_ANOMALOUS * std::f64::consts::LN_2).exp();
        let repeated = self.hold(surprise);
        let mut verdict = self.verdict(expected, score, repeated, None);
        if score >= SCORE_ANOMALOUS {
            let usual_variation = self.tails[Evidence::Variation as usize].upper_quantile(0.5);
            verdict.reason = Some(Reason::new(
                value,
                &verdict,
                self.seasons.followed(),
                &windows,
                &surprises,
                usual_variation,
            ));
        }

        for (tail, magnitude) in self.tails.iter_mut().zip(magnitudes) {
            tail.add(magnitude);
        }
        self.above_expected.add(value - expected);
        self.below_expected.add(expected - value);
        self.negative_seen |= value < 0.0;
        let followed = self.seasons.followed();
        self.seasons.learn(seconds, value, level, self.typical.reach());
        if self.seasons.followed() != followed {
            self.forget_residuals();
        }
        self.typical.learn(value);
        verdict
    }

    /// Whether the hour, or the hour and the weekday, help to foresee the values.
    pub fn has_season(&self) -> bool {
        self.seasons.followed() != Seasonality::None
    }

    /// How large each kind of evidence is, in the order of [`Evidence::ALL`]; none is negative.
    fn magnitudes(
        &mut self,
        value: f64,
        typical: f64,
        expected: f64,
        windows: &Windows,
    ) -> [f64; Evidence::ALL.len()] {
        while self.residuals.len() >= SHORT {
            self.residuals.pop_front();
        }
        self.residuals.push_back(value - expected);
        let from = |reference: Option<f64>, value: f64| {
            reference.map_or(0.0, |reference| (value - reference).abs())
        };
        Evidence::ALL.map(|evidence| match evidence {
            Evidence::Step => from(windows.before, value),
            Evidence::Unexpected => (value - expected).abs(),
            Evidence::Above => (value - typical).max(0.0),
            Evidence::Below => (typical - value).max(0.0),
            Evidence::Level => from(windows.level, windows.mean),
            Evidence::Drift => mean(self.residuals.make_contiguous()).abs(),
            Evidence::Variation => windows.variation.unwrap_or(0.0),
            Evidence::Flat => f64::from(windows.repeats),
        })
    }

    fn surprises(&self, magnitudes: &[f64]) -> [f64; Evidence::ALL.len()] {
        let mut surprises = [0.0; Evidence::ALL.len()];
        for ((surprise, tail), magnitude) in surprises.iter_mut().zip(&self.tails).zip(magnitudes) {
            *surprise = tail.surprise(*magnitude);
        }
        surprises
    }

    /// Whether a value with this surprise belongs to the last peak; otherwise it is the new peak.
    fn hold(&mut self, surprise: f64) -> bool {
        self.peak_age = self.peak_age.saturating_add(1);
        let limit = if self.peak_age < HOLD_VALUES { self.peak * HOLD_RATIO } else { 0.0 };
        if surprise <= limit {
            return true;
        }
        self.peak = surprise;
        self.peak_age = 0;
        false
    }

    fn verdict(
        &self,
        expected: f64,
        score: f64,
        repeated: bool,
        reason: Option<Reason>,
    ) -> Verdict {
        let high = expected + self.above_expected.upper_quantile(BAND_SHARE);
        let low = expected - self.below_expected.upper_quantile(BAND_SHARE);
        let low = if self.negative_seen { low } else { low.max(0.0).min(expected) };
        Verdict { expected, low, high, score, repeated, reason }
    }

    /// Forgets how far values were from what was expected: another forecast has other errors.
    fn forget_residuals(&mut self) {
        self.residuals.clear();
        for evidence in [Evidence::Unexpected, Evidence::Drift] {
            self.tails[evidence as usize] = Tail::new();
        }
        self.above_expected = Tail::new();
        self.below_expected = Tail::new();
    }

    /// Whether a gap lies before this time. Times that go back are no gap.
    fn is_after_gap(&mut self, time: i64) -> bool {
        let pause = self.last_time.map_or(0, |last| time.saturating_sub(last)) as f64;
        self.last_time = Some(time);
        if pause <= 0.0 {
            return false;
        }
        let gap = self.step > 0.0 && pause > GAP_STEPS * self.step;
        if self.step == 0.0 {
            self.step = pause;
        } else {
            self.step += (pause.min(3.0 * self.step) - self.step) / 20.0;
        }
        gap
    }
}

#[cfg(test)]
#[path = "detector_tests.rs"]
mod tests;
