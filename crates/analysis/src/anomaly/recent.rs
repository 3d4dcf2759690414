//! The last values of a series, and what their windows say.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

/// Values of the short window: what the series does now.
pub(crate) const SHORT: usize = 12;
/// Values of the window in which variation is measured.
const VARIATION: usize = 24;
/// Values before the short window whose median is the level.
const LEVEL: usize = 200;
/// Values before a value whose median is expected without a season.
const USUAL: usize = 100;

/// The last values; the oldest goes when a new one comes.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Recent {
    values: VecDeque<f64>,
    /// How often the last value came again without another between.
    repeats: u32,
}

/// What the windows say of a value that follows them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Windows {
    /// Median of the values just before; `None` for the first two values.
    pub before: Option<f64>,
    /// Median of a longer window that ends before the value.
    pub usual: Option<f64>,
    /// Median of a long window that ends where the short one starts.
    pub level: Option<f64>,
    /// Mean of the short window, the value included.
    pub mean: f64,
    /// Median of the short window, the value included.
    pub median: f64,
    /// Mean distance from the mean, over a window with the value; `None` until it is full.
    pub variation: Option<f64>,
    /// How often the value came again without another between.
    pub repeats: u32,
}

impl Recent {
    pub fn new() -> Self {
        Self { values: VecDeque::new(), repeats: 0 }
    }

    /// Forgets all values: what follows a gap is not compared with what was before.
    pub fn clear(&mut self) {
        self.values.clear();
        self.repeats = 0;
    }

    /// Takes the next value.
    pub fn push(&mut self, value: f64) -> Windows {
        let known = self.values.len() >= 2;
        let before = known.then(|| median(&self.last(SHORT)));
        let usual = known.then(|| median(&self.last(USUAL)));
        let repeated = self.values.back() == Some(&value);
        self.repeats = if repeated { self.repeats.saturating_add(1) } else { 0 };
        while self.values.len() >= LEVEL + SHORT {
            self.values.pop_front();
        }
        self.values.push_back(value);

        let short = self.last(SHORT);
        let older = self.values.len() - short.len();
        let level: Vec<f64> =
            self.values.range(older.saturating_sub(LEVEL)..older).copied().collect();
        let variation = self.last(VARIATION);
        Windows {
            before,
            usual,
            level: (level.len() >= 2).then(|| median(&level)),
            mean: mean(&short),
            median: median(&short),
            variation: (variation.len() == VARIATION).then(|| mean_distance(&variation)),
            repeats: self.repeats,
        }
    }

    /// Values for which there is room.
    #[cfg(test)]
    pub fn capacity(&self) -> usize {
        self.values.capacity()
    }

    fn last(&self, count: usize) -> Vec<f64> {
        let start = self.values.len().saturating_sub(count);
        self.values.range(start..).copied().collect()
    }
}

/// Mean; zero of nothing.
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn mean_distance(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|value| (value - mean).abs()).sum::<f64>() / values.len().max(1) as f64
}

/// The upper median; zero of nothing.
fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    let middle = values.len() / 2;
    if values.is_empty() {
        return 0.0;
    }
    *values.select_nth_unstable_by(middle, f64::total_cmp).1
}
