//! Queries: LogsQL text to rows.
//!
//! [`Query::parse`] reads the text into a tree, [`run()`] plans it and sends the units of a
//! [`source::Source`] through its filter and pipes; [`explain`] only says what would be done.
//! `docs/logsql.md` says what of the language there is.
//!
//! There are three layers, each in a folder: `syntax` (text to tree), `plan` (what is decided
//! before anything is read) and `exec` (what is done with units and rows). Filters and pipes stand
//! beside them, one file each with its share of all three: so a new one is a new file. Rows are
//! blocks (`block`), and `endpoint` has what the endpoints of VictoriaLogs ask beside queries.
//!
//! Invariants: no text makes the parser panic or run out of stack; writing a query and reading it
//! again gives the same tree; what a query holds in memory is counted and limited; values are
//! bytes, never changed on their way.
//!
//! Left out: how the store prunes and counts without reading, which its units say
//! ([`source::ScanUnit`]).

mod bitmap;
mod block;
mod endpoint;
mod exec;
mod filter;
mod json;
mod number;
#[cfg(test)]
mod oracle;
mod pipe;
mod plan;
pub mod source;
mod syntax;
#[cfg(test)]
mod testing;

pub use block::{Change, NamePattern, RAW_LINE, Scratch};
pub use endpoint::{
    Facet, HitsRequest, HitsSeries, StatsQuery, StatsRow, ValueHits, facets, field_names,
    field_values, hits, stream_field_names, stream_field_values, stream_id, streams,
};
pub use exec::ordered::{LineSet, RowKey, TimeOrder};
pub use exec::queue::{
    BACKGROUND, Cancel, Change as QueueChange, EXPORT, Hold, Permit, QueryInfo, Queue, QueueError,
    QueueLimits, SHARE, State, TAIL, Ticket,
};
pub use exec::tail::TailQuery;
pub use exec::{
    Account, Buffer, CHECK_ROWS, Context, Limits, Meter, Outcome, PartialState, Piece, Pieces,
    Progress, Rows, RunError, Share, Sides, Wanted, answer_share, explain, run, run_merged,
    run_partial,
};
pub use filter::{
    Comparison, DayRange, FieldComparison, Filter, Number, Pattern, PatternPlace, Recurring,
    Subquery, SubqueryTest, Test, ValueKind, WeekRange, network,
};
pub use number::parse_timestamp;
pub use pipe::{
    Anomalies, BlocksCount, Bucket, By, Coalesce, Differences, Documentation, DropEmptyFields,
    Expression, Extract, ExtractPattern, Facets, FieldNames, Format, Function, GenerateSequence,
    Join, JoinedWith, JsonArray, JsonArrayConcat, Limit, Math, MathEntry, Measure, Moving, Offset,
    Overwrite, Pack, PackedForm, Parts, Patterns, Pipe, Rewrite, RunningFunction, RunningKind,
    RunningStats, Sample, Select, SeriesFunction, SetStreamFields, Sort, SortKey, Span, Stats,
    StatsFunction, StreamContext, TextChange, TimeAdd, Top, Union, Uniq, Unpack, Unroll,
    ValueNumber, decolorize, function_documentation, pipe_documentation,
};
pub use plan::explain::{Amount, ExplainedPipe, Explanation};
pub use plan::fields::FieldSet;
pub use syntax::cursor::{NESTING_MAX, quote};
pub use syntax::error::ParseError;
pub use syntax::options::QueryOptions;
pub use syntax::query::{PIPES_MAX, QUERY_BYTES_MAX, Query, SHARE_BYTES_MAX};
pub use syntax::regexes::{REGEX_BYTES_MAX, REGEX_NESTING_MAX, REGEXES_BYTES_MAX, RegexBudget};
pub use syntax::time;
pub use syntax::unquote::unquote;
