//! What evaluation needs of the query engine, and where its results go.

use std::time::Duration;

use crate::alert::Change;
use crate::labels::Labels;

/// One series of the result of an expression.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// The fields that `stats` groups by, and the label [`STATS_RESULT`].
    pub labels: Labels,
    /// The result of the stats function.
    pub value: f64,
}

/// The label with the name of the result, as in vmalert: `n` of `stats count() n`.
pub const STATS_RESULT: &str = "stats_result";

/// Runs expressions in LogsQL.
pub trait Engine {
    /// Checks that an expression can be evaluated: that it is a query that ends with `stats`, and
    /// does not group by time. The error says where it is wrong and what to write.
    fn check(&self, expr: &str) -> Result<(), String>;

    /// Evaluates an expression at `time_ns`. An expression that does not filter by `_time` reads
    /// lines from `time_ns - interval` to `time_ns`. The error names the cause and the remedy; it
    /// is also returned for more than `rows_max` rows.
    fn rows(
        &self,
        expr: &str,
        time_ns: i64,
        interval: Duration,
        rows_max: usize,
    ) -> Result<Vec<Row>, String>;

    /// The newest line that an expression counts at `time_ns` for the series with these labels, of
    /// which those that the rule adds mean nothing; none if there is none, or it cannot be read.
    /// An engine that never tells anybody has none.
    fn line(
        &self,
        _expr: &str,
        _time_ns: i64,
        _interval: Duration,
        _labels: &Labels,
    ) -> Option<String> {
        None
    }
}

/// Takes what evaluation brings about. A call must not wait for long.
pub trait Output: Send + Sync {
    /// Alerts changed their state. After a crash, the last changes may be given again.
    fn changes(&self, changes: &[Change]);

    /// A recording rule was evaluated.
    fn recorded(&self, rows: &[Recorded]);

    /// The state of a group changed; keeps it for the next start, in place of what was kept under
    /// this id. `None` if the group is no more. Returns whether that was done; if not, the state is
    /// given again.
    fn keep(&self, group_id: &str, state: Option<&[u8]>) -> bool;
}

/// A row that a recording rule made.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// When the rule was evaluated.
    pub time_ns: i64,
    /// The name that the rule gives.
    pub record: String,
    /// The group of the rule.
    pub group: String,
    /// The labels of the series and of the rule.
    pub labels: Labels,
    /// The value.
    pub value: f64,
}
