//! Why a query ended early, and why stored lines could not be read. The texts are for the user.

use platform::memory::Exhausted;
use record::columns::ColumnError;

use super::DamagedUnit;

/// Why a query ended early. The text is for the user.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The query was cancelled.
    #[error("the query was cancelled")]
    Cancelled,
    /// The query exceeded its time limit.
    #[error(
        "the query took longer than {0} s; narrow its time range or filter, or raise its timeout or \
         query.run_max"
    )]
    TimeLimit(f64),
    /// The query exceeded its memory limit.
    #[error(
        "the query needs more than {0} bytes of memory; narrow its time range, group by fewer values or add \
         a limit, or raise query.memory_bytes_max"
    )]
    MemoryLimit(u64),
    /// All queries, tails and inserts together exceeded the memory budget.
    #[error("{0}")]
    Budget(Exhausted),
    /// Pipes gave rows too many fields.
    #[error(
        "the pipes of the query give rows more than {0} fields; let them copy or unpack fewer fields"
    )]
    FieldLimit(usize),
    /// The query has too many result rows.
    #[error(
        "the query has more than {0} rows; narrow its time range or filter, add a limit, or raise query.rows_max"
    )]
    RowLimit(u64),
    /// The query looks values up in a table, or by a field of one, that is not there.
    #[error("{0}")]
    NoTable(String),
    /// The query hides a field by which its caller is restricted.
    #[error("{0}")]
    Restricted(String),
    /// A query inside a filter gives too many values.
    #[error(
        "a query inside contains_any() or contains_all() gives more than {0} different values; narrow it, or \
         compare whole values with in()"
    )]
    ValuesLimit(usize),
    /// A pipe made a value that is too long.
    #[error(
        "a pipe of the query makes a value longer than {0} bytes; let it put together fewer or shorter fields"
    )]
    ValueLimit(usize),
    /// Pipes gave a row values that are too long together.
    #[error(
        "a row of the query has more than {0} bytes; let its pipes copy or put together fewer or shorter fields"
    )]
    RowBytesLimit(usize),
    /// A partial state from another process cannot be used.
    #[error("a partial result cannot be used: {0}")]
    PartialState(&'static str),
    /// A side did not carry out its share. The text names it.
    #[error("{0}")]
    Side(String),
    /// A task that is not a query, but held a place in the queue, failed.
    #[error("{0}")]
    Failed(String),
    /// Stored lines are damaged, and the caller wants all or none.
    #[error(
        "cannot read {0}: {error}; `loginson verify` lists all damage; restore the lines from a backup or another copy, \
         or ask for the others with allow_partial_response=1",
        error = .0.error
    )]
    Damaged(DamagedUnit),
    /// The store could not be read.
    #[error("cannot read the stored lines: {0}")]
    Source(#[from] SourceError),
}

/// Why records could not be read. The text names file and place; it is shown to the user.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct SourceError(pub String);

impl From<ColumnError> for SourceError {
    fn from(error: ColumnError) -> Self {
        SourceError(error.to_string())
    }
}
