//! The summary: built-in programs turn lines into summary rows, the data of a chart for each type
//! of log, in steps of ten seconds.
//!
//! ```text
//! batch → Summariser::observe → open buckets (type × event time) → flush → rows as JSON lines → own store
//!                                        ↘ snapshot ↘
//!                                 stored rows  →  ChartBuilder → series
//! ```
//!
//! A summary row is a log line like any other. Its type, `summary`, comes from the hints of its
//! frame:
//!
//! ```json
//! {"_time":"2026-01-31T12:00:00Z","summary_of":"access","bucket_s":10,"lines":123,
//!  "bytes":45678,"level":{"error":3,"info":120},"hostname":{"web1":60,"web2.example.com":63},
//!  "status":{"200":120,"500":3},"response_bytes":123456,"_msg":"summary of access: 123 lines"}
//! ```
//!
//! `level` counts the field `_level`, the others the fields of their names. Nested keys are
//! flattened with a dot when the row is parsed (`level.error`, `hostname.web2.example.com`): names
//! of dimensions contain no dot, so the first dot divides and values may contain any.
//!
//! Invariants:
//!
//! - *Rows are additive.* Of one type and bucket there may be many rows (late lines, a flush in the
//!   middle of a bucket); their sum is what was seen. Nothing is ever taken back; [`Reruns`] says
//!   which rows a rerun replaced.
//! - *Every line is counted once*, also across crashes; [`Summariser`] says how.
//! - *Memory is bounded*, whatever the lines contain: values beyond a limit are counted under
//!   [`OTHER`], never left out of `lines` and `bytes`.
//!
//! Summary rows are not summarised again. Left out: reading and writing of the store, the clock and
//! threads. The caller has them.

mod bucket;
mod chart;
mod counting;
mod program;
mod rerun;
mod row;
mod steps;
mod summariser;
mod time;

pub use chart::{
    CHART_POINTS_MAX, CHART_SERIES_MAX, CHART_VALUES_MAX, Chart, ChartBuilder, ChartError,
    ChartRange, TYPES_LISTED_MAX, TypeList, TypeSummary, TypesBuilder,
};
pub use program::{Dimension, Program, Sum, programs};
pub use rerun::{RERUNS_MAX, Recount, Rerun, Reruns, can_rerun};
pub use row::{SummaryRow, stored_rows};
pub use steps::StepRows;
pub use summariser::{
    FLUSH_BYTES_DUE, FLUSH_BYTES_MAX, FLUSH_NAMES_MAX, Flush, Snapshot, Summariser, SummaryConfig,
    VALUE_BYTES_MAX, WIDTH_S_MAX,
};

/// The type of summary rows.
pub const SUMMARY_TYPE: &str = record::batch::OWN_TYPE;
/// Counts beyond a limit are added under this name. A value that is really called so is counted
/// together with them.
pub const OTHER: &str = "other";
