//! Limits of one user, token or address: the defaults of `[limits.users]`, and those in the rights
//! of a user or token, which come first.
//!
//! A limit of one never raises a limit of the server.

use std::time::Duration;

use query::{Limits, OwnerLimits};
use serde::{Deserialize, Serialize};

/// The names of the limits, for calls of the API.
pub const NAMES: [&str; 7] = [
    "queries_max",
    "background_max",
    "tails_max",
    "run_max",
    "memory_bytes_max",
    "rows_max",
    "results_bytes_max",
];

/// Limits as they are written; what is missing is the default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsText {
    /// Queries that run, wait or are paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queries_max: Option<usize>,
    /// Exports and background queries that run, wait or are paused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background_max: Option<usize>,
    /// Live tails.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tails_max: Option<usize>,
    /// Run time of a query, such as `10s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub run_max: Option<String>,
    /// Memory of a query, such as `64MiB`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes_max: Option<String>,
    /// Rows of a query.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows_max: Option<u64>,
    /// Rows of background queries that are kept, together, such as `1GiB`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub results_bytes_max: Option<String>,
}

/// Limits of one user, token or address; none: only those of the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserLimits {
    /// Queries that run, wait or are paused.
    pub queries_max: Option<usize>,
    /// Exports and background queries that run, wait or are paused.
    pub background_max: Option<usize>,
    /// Live tails.
    pub tails_max: Option<usize>,
    /// Run time of a query.
    pub run_max: Option<Duration>,
    /// Memory of a query.
    pub memory_bytes_max: Option<u64>,
    /// Rows of a query.
    pub rows_max: Option<u64>,
    /// Rows of background queries that are kept, together, in bytes.
    pub results_bytes_max: Option<u64>,
}

impl LimitsText {
    /// Whether it has no limit.
    pub fn is_empty(&self) -> bool {
        *self == LimitsText::default()
    }

    /// Checks the limits.
    pub fn checked(&self) -> Result<UserLimits, String> {
        let bytes = |name: &str, text: &Option<String>| {
            let parsed = text.as_deref().map(text::size::parse_setting).transpose();
            parsed.map_err(|why| format!("limits.{name}: {why}"))
        };
        let run_max = self.run_max.as_deref().map(text::duration::parse_setting).transpose();
        Ok(UserLimits {
            queries_max: self.queries_max,
            background_max: self.background_max,
            tails_max: self.tails_max,
            run_max: run_max.map_err(|why| format!("limits.run_max: {why}"))?,
            memory_bytes_max: bytes("memory_bytes_max", &self.memory_bytes_max)?,
            rows_max: self.rows_max,
            results_bytes_max: bytes("results_bytes_max", &self.results_bytes_max)?,
        })
    }

    /// Sets the limit of that name, or takes it away where the text is empty.
    ///
    /// # Errors
    /// The text is no such limit, or there is none of that name.
    pub fn set(&mut self, name: &str, text: &str) -> Result<(), String> {
        let given = (!text.is_empty()).then(|| text.to_owned());
        let count = || {
            let wrong = |_| format!("{name}: '{text}' is not a whole number");
            given.as_deref().map(|text| text.parse::<u64>().map_err(wrong)).transpose()
        };
        let few = || {
            let count = count()?;
            Ok::<_, String>(count.map(|count| usize::try_from(count).unwrap_or(usize::MAX)))
        };
        match name {
            "queries_max" => self.queries_max = few()?,
            "background_max" => self.background_max = few()?,
            "tails_max" => self.tails_max = few()?,
            "run_max" => self.run_max = given,
            "memory_bytes_max" => self.memory_bytes_max = given,
            "rows_max" => self.rows_max = count()?,
            "results_bytes_max" => self.results_bytes_max = given,
            _ => return Err(format!("{name}: there is no such limit")),
        }
        Ok(())
    }
}

impl UserLimits {
    /// These, and what is missing from `defaults`.
    pub fn or(&self, defaults: &UserLimits) -> UserLimits {
        UserLimits {
            queries_max: self.queries_max.or(defaults.queries_max),
            background_max: self.background_max.or(defaults.background_max),
            tails_max: self.tails_max.or(defaults.tails_max),
            run_max: self.run_max.or(defaults.run_max),
            memory_bytes_max: self.memory_bytes_max.or(defaults.memory_bytes_max),
            rows_max: self.rows_max.or(defaults.rows_max),
            results_bytes_max: self.results_bytes_max.or(defaults.results_bytes_max),
        }
    }

    /// Lowers limits of a query to these.
    pub fn lower(&self, limits: &mut Limits) {
        limits.run_time = limits.run_time.min(self.run_max.unwrap_or(Duration::MAX));
        limits.memory_bytes_max =
            limits.memory_bytes_max.min(self.memory_bytes_max.unwrap_or(u64::MAX));
        limits.rows_max = limits.rows_max.min(self.rows_max.unwrap_or(u64::MAX));
    }

    /// What the queue of queries has to know of a caller with these limits.
    pub fn in_queue(&self, is_operator: bool) -> OwnerLimits {
        OwnerLimits {
            queries_max: self.queries_max,
            background_max: self.background_max,
            tails_max: self.tails_max,
            is_operator,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_of_a_user_come_before_the_defaults_and_lower_those_of_the_server() {
        let mut text = LimitsText::default();
        for (name, value) in [
            ("queries_max", "2"),
            ("run_max", "10s"),
            ("memory_bytes_max", "1MiB"),
            ("rows_max", "7"),
        ] {
            text.set(name, value).unwrap();
        }
        let own = text.checked().unwrap();
        let defaults = UserLimits {
            queries_max: Some(5),
            tails_max: Some(1),
            run_max: Some(Duration::from_secs(1)),
            ..UserLimits::default()
        };
        let both = own.or(&defaults);
        assert_eq!((both.queries_max, both.tails_max), (Some(2), Some(1)));
        let mut limits = Limits { run_time: Duration::from_secs(5), ..Limits::default() };
        both.lower(&mut limits);
        assert_eq!(
            (limits.run_time, limits.memory_bytes_max, limits.rows_max),
            (Duration::from_secs(5), 1 << 20, 7)
        );
        text.set("queries_max", "").unwrap();
        assert_eq!(text.queries_max, None);
        for (name, value) in [("queries_max", "-1"), ("rows_max", "x"), ("no_such", "1")] {
            assert!(text.set(name, value).unwrap_err().starts_with(name));
        }
        for (name, value) in [("run_max", "soon"), ("results_bytes_max", "much")] {
            let mut text = LimitsText::default();
            text.set(name, value).unwrap();
            assert!(text.checked().unwrap_err().starts_with(&format!("limits.{name}")));
        }
    }
}
