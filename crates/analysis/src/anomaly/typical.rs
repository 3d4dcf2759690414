//! The value around which a series lies in the long run.

use serde::{Deserialize, Serialize};

/// Values that count: later ones move the centre by one part in so many.
const VALUES_MAX: f64 = 1000.0;
/// Values that are taken as they are, before the usual distance is known.
const VALUES_FIRST: f64 = 20.0;
/// A value moves the centre by no more than one at so many usual distances would.
const DISTANCES_MAX: f64 = 3.0;

/// A running mean of clipped values, after Huber: one outlier moves it no more than a value at
/// three times the usual distance.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Typical {
    centre: f64,
    distance: f64,
    count: f64,
}

impl Typical {
    pub fn new() -> Self {
        Self { centre: 0.0, distance: 0.0, count: 0.0 }
    }

    /// The centre, or `first` before the first value.
    pub fn value(&self, first: f64) -> f64 {
        if self.count > 0.0 { self.centre } else { first }
    }

    /// How far one value moves a mean at most, once the usual distance is known; zero before.
    pub fn reach(&self) -> f64 {
        DISTANCES_MAX * self.distance
    }

    pub fn learn(&mut self, value: f64) {
        let mut difference = value - self.value(value);
        if self.count == 0.0 {
            self.centre = value;
        }
        self.count = (self.count + 1.0).min(VALUES_MAX);
        if self.count > VALUES_FIRST {
            // The distance can grow from zero, by the clipped value itself.
            let reach = self.reach().max(f64::MIN_POSITIVE);
            difference = difference.max(-reach).min(reach);
        }
        self.centre += difference / self.count;
        self.distance += (difference.abs() - self.distance) / self.count;
    }
}
