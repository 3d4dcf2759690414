//! Questions: LogsQL text to rows.
//!
//! [`Query::parse`] reads the text into a tree, [`run()`] sends the units of a [`source::Source`] through its
//! filter and pipes. `docs/logsql.md` says what of the language there is.
//!
//! Invariants: no text makes the parser panic or run out of stack; writing a query and reading it again gives
//! the same tree; what a query holds in memory is counted and limited; values are bytes, never changed on
//! their way.
//!
//! Left out: how the store prunes and counts without reading, which its units say ([`source::ScanUnit`]).

mod answers;
mod bitmap;
mod block;
mod counting;
mod cursor;
#[cfg(test)]
mod depth_tests;
mod endpoint;
mod error;
mod fields;
mod filter;
mod json;
mod needs;
mod newest;
mod number;
mod options;
#[cfg(test)]
mod oracle;
mod ordered;
mod pipe;
mod placeholder;
mod query;
#[cfg(test)]
mod query_tests;
mod queue;
mod regexes;
mod restrict;
mod rolled;
mod run;
#[cfg(test)]
mod run_tests;
mod scan;
mod sorted;
pub mod source;
mod subquery;
mod tail;
#[cfg(test)]
mod testing;
pub mod time;
mod unquote;

pub use block::{Change, NamePattern, RAW_LINE, Scratch};
pub use cursor::{NESTING_MAX, quote};
pub use endpoint::{
    Facet, HitsRequest, HitsSeries, StatsQuery, StatsRow, ValueHits, facets, field_names,
    field_values, hits, stream_field_names, stream_field_values, stream_id, streams,
};
pub use error::ParseError;
pub use fields::FieldSet;
pub use filter::{
    Comparison, DayRange, FieldComparison, Filter, Number, Pattern, PatternPlace, Recurring,
    Subquery, SubqueryTest, Test, ValueKind, WeekRange, network,
};
pub use number::parse_timestamp;
pub use options::QueryOptions;
pub use ordered::{LineSet, RowKey, TimeOrder};
pub use pipe::{
    BlocksCount, Bucket, By, Coalesce, Documentation, DropEmptyFields, Expression, Extract,
    ExtractPattern, Facets, FieldNames, Format, Function, GenerateSequence, Join, JoinedWith,
    JsonArray, JsonArrayConcat, Limit, Math, MathEntry, Measure, Offset, Overwrite, Pack,
    PackedForm, Parts, Pipe, Rewrite, RunningFunction, RunningKind, RunningStats, Sample, Select,
    SetStreamFields, Sort, SortKey, Stats, StatsFunction, StreamContext, TextChange, TimeAdd, Top,
    Union, Uniq, Unpack, Unroll, ValueNumber, decolorize, function_documentation,
    pipe_documentation,
};
pub use query::{PIPES_MAX, QUERY_BYTES_MAX, Query};
pub use queue::{
    BACKGROUND, Cancel, Change as QueueChange, EXPORT, Hold, Permit, QueryInfo, Queue, QueueError,
    QueueLimits, State, TAIL, Ticket,
};
pub use regexes::{REGEX_BYTES_MAX, REGEX_NESTING_MAX, REGEXES_BYTES_MAX, RegexBudget};
pub use run::{
    Account, Buffer, CHECK_ROWS, Context, Limits, Meter, Outcome, Progress, Rows, RunError, run,
};
pub use tail::TailQuery;
pub use unquote::unquote;
