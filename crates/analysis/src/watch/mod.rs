//! Says what stands out among many series of counts: lines of each value of a field, minute by
//! minute.
//!
//! A [`Series`] watches one of them, on top of [`crate::anomaly::Detector`], which knows the usual
//! course of a day and of a week. The detector judges single values, which is too nervous for
//! hundreds of series: at a rate of one false anomaly a day, five hundred series would say
//! something every three minutes. So a series says only what is confirmed: by several intervals in
//! a row, by a number of lines that matters, and by a change of at least half. A [`Board`] holds
//! the series of all fields, within a number of series, and knows which values are new.
//!
//! | kind | what is said |
//! |---|---|
//! | [`Kind::Silent`] | no lines, for so long that chance is no explanation and longer than usual pauses |
//! | [`Kind::New`] | lines of a value that was never there |
//! | [`Kind::More`], [`Kind::Less`] | at least twice, or at most half of what is usual |
//! | [`Kind::Step`] | more or less that lasts, at a level of its own |
//! | [`Kind::Rhythm`] | bursts at equal distances that begin, or one of them that did not come |
//!
//! Invariants: nothing is said before a series is old enough ([`INTERVALS_MIN`]); a time that
//! nobody watched is neither learnt nor judged; the state is bounded, and can be stored with
//! `serde`; no input panics. Left out: where counts come from, clocks, and threads.

mod board;
mod rhythm;
mod series;
mod words;

pub use board::{
    Board, COARSE_MINUTES, FINDINGS_MAX, FieldCounts, FieldView, Finding, News, VALUES_MAX, What,
};
pub use series::{Change, INTERVALS_MIN, Kind, Series, Standing};

/// Nanoseconds of a minute, the interval of counts.
pub const MINUTE_NS: i64 = 60_000_000_000;
