//! What is watched: `[watch]`.

use std::time::Duration;

/// What is watched, and how much.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WatchOptions {
    /// Whether anything is.
    pub is_enabled: bool,
    /// Series at most, of all fields.
    pub series_max: usize,
    /// How long after its end a minute is counted.
    pub delay: Duration,
    /// The past from which a first start learns.
    pub history: Duration,
    /// Fields that are watched in any case, before those that are found.
    pub fields: Vec<String>,
    /// Fields that are never watched.
    pub ignored: Vec<String>,
}

impl Default for WatchOptions {
    fn default() -> Self {
        WatchOptions {
            is_enabled: true,
            series_max: 500,
            delay: Duration::from_secs(30),
            history: Duration::from_secs(86_400),
            fields: Vec::new(),
            ignored: Vec::new(),
        }
    }
}
