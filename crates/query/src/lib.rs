//! Queries: LogsQL text to rows.
//!
//! [`Query::parse`] reads the text into a tree, [`run()`] plans it and sends the units of a
//! [`source::Source`] through its filter and pipes; [`explain`] only says what would be done.
//! `docs/logsql.md` says what of the language there is.
//!
//! Six folders, each of which imports itself and those before it: `base` (limits, errors, memory,
//! fields, encoders), `block` (rows), `lang` (filters, pipes, their syntax, and the traits that
//! they run against), `plan` (what is decided before anything is read), `exec` (what is done with
//! units and rows, and the queue), `dist` (what splits a query over nodes). A filter or pipe is one
//! file in `lang`, so a new one is a new file. `endpoint` has what the endpoints of VictoriaLogs
//! ask beside queries.
//!
//! Invariants: no text makes the parser panic or run out of stack; writing a query and reading it
//! again gives the same tree; what a query holds in memory is counted and limited; values are
//! bytes, never changed on their way.
//!
//! Left out: how the store prunes and counts without reading, which its units say
//! ([`source::ScanUnit`]).

mod base;
mod block;
mod dist;
mod endpoint;
mod exec;
mod lang;
#[cfg(test)]
mod oracle;
mod plan;
#[cfg(test)]
mod testing;

pub use base::names::{NamePattern, RAW_LINE, RAW_RECEIVED};
pub use base::{
    Account, Buffer, CHECK_ROWS, FieldSet, HiddenFields, Hold, Limits, LineSet, Meter, Outcome,
    Progress, Pulse, RowKey, RunError, TimeOrder, time,
};
pub use block::{Change, Scratch};
pub use dist::{PartialState, answer_share, relay_share, run, run_merged, run_partial};
pub use endpoint::{
    Facet, HitsRequest, HitsSeries, StatsQuery, StatsRow, ValueHits, facets, field_names,
    field_values, hits, stream_field_names, stream_field_values, stream_id, streams,
};
pub use exec::ResultRows;
pub use exec::explain::{Amount, ExplainedPipe, Explanation, explain};
pub use exec::queue::{
    BACKGROUND, Cancel, EXPORT, OwnerLimits, OwnerUsage, Permit, QueryInfo, QueryQueue, QueryState,
    QueueChange, QueueError, QueueLimits, RELAY, SHARE, TAIL, Ticket, USAGE_MINUTES, Used,
};
pub use exec::tail::TailQuery;
pub use lang::context::Context;
pub use lang::filter::{
    Comparison, DayRange, FieldComparison, Filter, Number, Pattern, PatternPlace, Recurring,
    Subquery, SubqueryTest, Test, ValueKind, WeekRange, network,
};
pub use lang::pipe::{
    Anomalies, BlocksCount, Bucket, By, Coalesce, Differences, Documentation, DropEmptyFields,
    Expression, Extract, ExtractPattern, Facets, FieldNames, Format, Function, GenerateSequence,
    Join, JoinedWith, JsonArray, JsonArrayConcat, Limit, Lookup, Math, MathEntry, Measure, Moving,
    Offset, Overwrite, Pack, PackedForm, Parts, Patterns, Pipe, Rewrite, RunningFunction,
    RunningKind, RunningStats, Sample, Select, SeriesEnd, SeriesFunction, SetStreamFields, Sort,
    SortKey, Span, Stats, StatsFunction, StreamContext, TextChange, TimeAdd, Top, Union, Uniq,
    Unpack, Unroll, ValueNumber, decolorize, function_documentation, pipe_documentation,
};
pub use lang::restriction::Restriction;
pub use lang::source::{Share, SharePiece, SharePieces, Sides, Wanted};
pub use lang::syntax::cursor::NESTING_MAX;
pub use lang::syntax::error::ParseError;
pub use lang::syntax::options::QueryOptions;
pub use lang::syntax::query::{PIPES_MAX, QUERY_BYTES_MAX, Query, SHARE_BYTES_MAX};
pub use lang::syntax::regexes::{
    REGEX_BYTES_MAX, REGEX_NESTING_MAX, REGEX_REPETITIONS_MAX, REGEXES_BYTES_MAX, RegexBudget,
};
pub use plan::raw_lines::RawLines;

/// Texts with names and parameters that queries call.
pub mod macros {
    pub use crate::lang::syntax::macros::{
        Callable, MACRO_BYTES_MAX, MACROS_MAX, Macro, MacroForm, configured, saved, set_configured,
        set_saved,
    };
}

/// Other names of fields, and fields that are computed from others.
pub mod derived {
    pub use crate::lang::syntax::derived::{DERIVED_MAX, DerivedField, derived, set_derived};
}

/// What a query reads: the traits that a source of lines implements.
pub mod source {
    pub use crate::base::{DamagedUnit, Damages, Phrase, Phrases, SourceError, TimeRange, Whose};
    pub use crate::lang::source::{
        Answers, ChooseLines, EachCount, Grouped, Hiding, Revision, Revisions, ScanUnit, SomeLines,
        Source, Table, Tables, UnitKey, WithColumns,
    };
}
