//! Describes a plan: what a query would do, for people and for programs.
//!
//! Of the store, only the list of units is read. It shows how many units the time range and the
//! catalog leave. How many of these are skipped by their words, and how many rows there are, is
//! known only from a run.

use std::fmt;

use text::duration::format_duration;
use text::time::format_time;

use super::prepared;
use super::vectors::VectorReader;
use crate::base::names::NamePattern;
use crate::base::{FieldSet, RunError, TimeRange, Whose};
use crate::lang::context::Context;
use crate::lang::filter::ColumnSelector;
use crate::lang::pipe::{Merges, Mode, Pipe, write_patterns};
use crate::lang::source::{ScanUnit, Source};
use crate::lang::syntax::query::Query;
use crate::plan::raw_lines::RawLines;
use crate::plan::rolled::Rolled;
use crate::plan::{Order, QueryPlan};

/// Describes what [`run`](crate::run()) would do with the same arguments, without reading lines:
/// only the units of the store are listed. Queries inside the filters are not run, so the plan
/// lacks their values.
pub fn explain(
    query: &Query,
    source: &dyn Source,
    context: &Context,
) -> Result<Explanation, RunError> {
    let (query, context) = prepared(query, source, context)?;
    let whose = query.filter().whose();
    Explanation::new(&QueryPlan::new(&query, &context, whose), source, &context)
}

/// What a query would do. `Display` writes it as lines of text.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// The query as it would run, with the filters that were added to it.
    pub query: String,
    /// Event times that the query reads: from the first to before the second, nanoseconds since
    /// 1970 UTC; the least and the greatest number where there is no bound.
    pub range: TimeRange,
    /// Whether the query reads Loginson's own lines too.
    pub own_lines: bool,
    /// Whether the filters have queries inside, which run before the query.
    pub has_queries_inside: bool,
    /// Whether the lines are on other nodes, which alone know their units.
    pub are_elsewhere: bool,
    /// Units that may hold lines in the range; the others are not read. `units` and `store` are
    /// None where a filter restricts what the query may see, because they would reveal how much
    /// others keep.
    pub units: Option<Amount>,
    /// All units of the store.
    pub store: Option<Amount>,
    /// The words without which a unit is not read, as an expression; none: units are not skipped by
    /// words.
    pub words: Option<String>,
    /// The texts without which a line that is not sealed is not parsed, as an expression; none: all
    /// lines are parsed.
    pub raw_texts: Option<String>,
    /// Which lines are selected.
    pub filter: String,
    /// Whether the filter runs over the columns of units that have them, so that it needs no lines.
    pub filters_columns: bool,
    /// Fields of lines that the pipes and the client need; `*`: all.
    pub fields: String,
    /// The fields and the bucket of time by which lines are counted instead of being read; none:
    /// lines are read.
    pub counted_by: Option<String>,
    /// Whether rollups of sealed segments can answer the count, where segments have them.
    pub rollups: bool,
    /// Whether rollups can answer too where the words of a segment rule tests out.
    pub rollups_by_words: bool,
    /// Whether pipes read vectors of values of units that have columns, instead of lines.
    pub vectors: bool,
    /// The order of the rows.
    pub order: String,
    /// Threads that read and filter, at most.
    pub threads: usize,
    /// The number of the pipe, from 1, that runs once per thread and is merged.
    pub merged_at: Option<usize>,
    /// The pipes.
    pub pipes: Vec<ExplainedPipe>,
    /// Longest run time, seconds.
    pub run_s_max: f64,
    /// Memory that the query may hold, bytes.
    pub memory_bytes_max: u64,
    /// Rows that may be sent.
    pub rows_max: u64,
}

/// An amount of stored data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Units: frames of hot segments, blocks of sealed ones.
    pub units: u64,
    /// Lines in the units.
    pub lines: u64,
    /// Bytes of the raw lines.
    pub bytes: u64,
}

/// A pipe of an [`Explanation`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExplainedPipe {
    /// The text of the pipe.
    pub pipe: String,
    /// What the pipe does, as in its documentation.
    pub summary: &'static str,
    /// How rows go through it: `row-wise`, `streaming` or `collecting`.
    pub mode: &'static str,
    /// How partial results are merged: `never`, `in order` or `in any order`.
    pub merges: &'static str,
    /// Where it can run: `where the lines are`, `where the lines are, merged where the answer is
    /// given`, or `where the answer is given`.
    pub site: &'static str,
}

impl Amount {
    fn of(units: &[Box<dyn ScanUnit>], is_wanted: impl Fn(&dyn ScanUnit) -> bool) -> Amount {
        let mut amount = Amount::default();
        for unit in units.iter().filter(|unit| is_wanted(&***unit)) {
            amount.units += 1;
            amount.lines += unit.lines();
            amount.bytes += unit.bytes();
        }
        amount
    }
}

impl Explanation {
    fn new(
        plan: &QueryPlan<'_>,
        source: &dyn Source,
        context: &Context,
    ) -> Result<Explanation, RunError> {
        let overlaps = |unit: &dyn ScanUnit| {
            let times = unit.time_range_ns();
            times.is_none_or(|(oldest, newest)| plan.range.overlaps(oldest, newest))
        };
        let (mut units, mut store) = (None, None);
        // Where the lines are on other nodes, only those know their units.
        if context.restriction.is_none() && source.sides().is_none() {
            units = Some(Amount::of(&source.units(plan.range, plan.whose)?, overlaps));
            store = Some(Amount::of(&source.units(TimeRange::ALL, plan.whose)?, |_| true));
        }
        let counted_by = plan.counted.as_ref().map(|counted| {
            let fields = counted.fields.iter().cloned();
            let bucket = counted
                .bucket_ns
                .map(|(step_ns, _)| format!("_time in steps of {}", format_duration(step_ns)));
            match bucket.into_iter().chain(fields).collect::<Vec<_>>().join(", ") {
                by if by.is_empty() && counted.is_by_names => {
                    "the names of their fields".to_owned()
                }
                by if by.is_empty() => "nothing: all together".to_owned(),
                by => by,
            }
        });
        let pipe = |(place, pipe): (usize, &Pipe)| ExplainedPipe {
            pipe: pipe.to_string(),
            summary: pipe.documentation().summary,
            mode: match pipe.mode() {
                Mode::RowWise => "row-wise",
                Mode::Streaming => "streaming",
                Mode::Collecting => "collecting",
            },
            merges: match pipe.merges() {
                Merges::Never => "never",
                Merges::InOrder => "in order",
                Merges::AnyOrder => "in any order",
            },
            site: plan.site(place).shown(),
        };
        Ok(Explanation {
            are_elsewhere: source.sides().is_some(),
            query: plan.query.to_string(),
            range: plan.range,
            own_lines: plan.whose == Whose::All,
            has_queries_inside: plan.query.has_subqueries(),
            units,
            store,
            words: plan.needs.shown(),
            raw_texts: plan.raw_lines.as_ref().map(RawLines::shown),
            filter: plan.query.filter().to_string(),
            filters_columns: ColumnSelector::new(plan.query.filter()).is_some(),
            fields: shown_fields(&plan.needed),
            counted_by,
            rollups: plan.rolled.is_some(),
            rollups_by_words: plan.rolled.as_ref().is_some_and(Rolled::rules_out),
            vectors: plan.facets.is_some()
                || plan.vectors.as_ref().and_then(VectorReader::new).is_some(),
            order: match &plan.order {
                Order::Stream if let Some(place) = plan.newest_at => format!(
                    "as the last pipe gives them; reading ends when no other unit can hold one of \
                     the newest rows that pipe {} keeps",
                    place + 1
                ),
                Order::Stream if let Some(place) = plan.oldest_at => format!(
                    "as the last pipe gives them; the oldest units are read first, until no other \
                     unit can hold one of the oldest rows that pipe {} keeps",
                    place + 1
                ),
                Order::Stream if plan.oldest_first => {
                    "as the last pipe gives them; the oldest units are read first".to_owned()
                }
                Order::Stream => "as the last pipe gives them".to_owned(),
                Order::Newest(count) => format!(
                    "newest first; reading ends when no other unit can hold one of the newest \
                     {count} rows"
                ),
                Order::Time(_) => "by time, the oldest first".to_owned(),
            },
            threads: context.limits.threads,
            merged_at: plan.merged_at.map(|place| place + 1),
            pipes: plan.query.pipes().iter().enumerate().map(pipe).collect(),
            run_s_max: context.limits.run_time.as_secs_f64(),
            memory_bytes_max: context.limits.memory_bytes_max,
            rows_max: context.limits.rows_max,
        })
    }

    /// The bounds of the time range as texts; none where there is no bound.
    fn bounds(&self) -> [Option<String>; 2] {
        let TimeRange { start_ns, end_ns } = self.range;
        [
            (start_ns != i64::MIN).then(|| format_time(start_ns)),
            (end_ns != i64::MAX).then(|| format_time(end_ns)),
        ]
    }

    /// Appends a JSON object with the fields of this type under their names, and `start` and `end`
    /// in place of the range.
    pub fn write_json(&self, out: &mut Vec<u8>) {
        let [start, end] = self.bounds();
        let amount = |amount: &Option<Amount>| {
            let Some(Amount { units, lines, bytes }) = amount else { return Json::Null };
            Json::Object(vec![
                ("units", Json::number(units)),
                ("lines", Json::number(lines)),
                ("bytes", Json::number(bytes)),
            ])
        };
        let pipe = |pipe: &ExplainedPipe| {
            Json::Object(vec![
                ("pipe", Json::text(&pipe.pipe)),
                ("summary", Json::text(pipe.summary)),
                ("mode", Json::text(pipe.mode)),
                ("merges", Json::text(pipe.merges)),
                ("site", Json::text(pipe.site)),
            ])
        };
        let optional = |text: &Option<String>| text.as_ref().map_or(Json::Null, Json::text);
        Json::Object(vec![
            ("query", Json::text(&self.query)),
            ("start", optional(&start)),
            ("end", optional(&end)),
            ("own_lines", Json::Flag(self.own_lines)),
            ("has_queries_inside", Json::Flag(self.has_queries_inside)),
            ("units", amount(&self.units)),
            ("store", amount(&self.store)),
            ("words", optional(&self.words)),
            ("raw_texts", optional(&self.raw_texts)),
            ("filter", Json::text(&self.filter)),
            ("filters_columns", Json::Flag(self.filters_columns)),
            ("fields", Json::text(&self.fields)),
            ("counted_by", optional(&self.counted_by)),
            ("rollups", Json::Flag(self.rollups)),
            ("vectors", Json::Flag(self.vectors)),
            ("order", Json::text(&self.order)),
            ("threads", Json::number(self.threads)),
            ("merged_at", self.merged_at.map_or(Json::Null, Json::number)),
            ("pipes", Json::List(self.pipes.iter().map(pipe).collect())),
            ("run_s_max", Json::number(self.run_s_max)),
            ("memory_bytes_max", Json::number(self.memory_bytes_max)),
            ("rows_max", Json::number(self.rows_max)),
        ])
        .write(out);
    }
}

/// A set of fields as text for people: names as they are, beginnings with a `*` behind.
fn shown_fields(fields: &FieldSet) -> String {
    let [wanted, left_out] = fields.patterns();
    let shown = |patterns: &[NamePattern]| match patterns.is_empty() {
        true => "none".to_owned(),
        false => write_patterns(patterns),
    };
    match left_out.is_empty() {
        true => shown(&wanted),
        false => format!("{}, but not {}", shown(&wanted), write_patterns(&left_out)),
    }
}

/// A value of JSON.
enum Json {
    Null,
    Flag(bool),
    Number(String),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(&'static str, Json)>),
}

impl Json {
    fn text(text: impl ToString) -> Json {
        Json::Text(text.to_string())
    }

    /// A finite number.
    fn number(number: impl ToString) -> Json {
        Json::Number(number.to_string())
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Json::Null => out.extend_from_slice(b"null"),
            Json::Flag(true) => out.extend_from_slice(b"true"),
            Json::Flag(false) => out.extend_from_slice(b"false"),
            Json::Number(number) => out.extend_from_slice(number.as_bytes()),
            Json::Text(text) => text::json::write_text(text.as_bytes(), out),
            Json::List(values) => {
                out.push(b'[');
                for (place, value) in values.iter().enumerate() {
                    out.extend_from_slice(if place > 0 { b"," } else { b"" });
                    value.write(out);
                }
                out.push(b']');
            }
            Json::Object(members) => {
                out.push(b'{');
                for (place, (name, value)) in members.iter().enumerate() {
                    out.extend_from_slice(if place > 0 { b"," } else { b"" });
                    text::json::write_text(name.as_bytes(), out);
                    out.push(b':');
                    value.write(out);
                }
                out.push(b'}');
            }
        }
    }
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Amount { units, lines, bytes } = self;
        write!(f, "{units} units ({lines} lines, {bytes} bytes)")
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut line = |name: &str, text: String| writeln!(f, "{name:<9} {text}");
        line("query", self.query.clone())?;
        line(
            "time",
            match self.bounds() {
                [None, None] => "all".to_owned(),
                [Some(start), None] => format!("from {start} on"),
                [None, Some(end)] => format!("before {end}"),
                [Some(start), Some(end)] => format!("from {start} to before {end}"),
            },
        )?;
        if self.own_lines {
            line("lines", "those that were sent, and Loginson's own (summaries)".to_owned())?;
        }
        if self.has_queries_inside {
            let text = "queries inside the filters run first; their values are not in this plan";
            line("inside", text.to_owned())?;
        }
        line(
            "units",
            match (&self.units, &self.store) {
                (Some(units), Some(store)) => {
                    format!("{units} of {store} may hold lines of that time")
                }
                _ if self.are_elsewhere => "they are on other nodes".to_owned(),
                _ => "how many there are is not told to a query whose lines are restricted"
                    .to_owned(),
            },
        )?;
        line(
            "words",
            match &self.words {
                Some(words) => format!("a unit is read only if it may hold {words}"),
                None => "units are not left out by their words".to_owned(),
            },
        )?;
        line(
            "raw",
            match &self.raw_texts {
                Some(texts) => format!("of new lines, only those with {texts} are parsed"),
                None => "all new lines are parsed".to_owned(),
            },
        )?;
        let columns = match self.filters_columns {
            true => "runs over columns where a unit has them",
            false => "has to see whole lines",
        };
        line("filter", format!("{}: {columns}", self.filter))?;
        line("fields", self.fields.clone())?;
        match &self.counted_by {
            Some(by) => {
                let rollups = match (self.rollups, self.rollups_by_words) {
                    (true, false) => {
                        "counts that segments keep are taken where they keep these, else \
                             columns are counted"
                    }
                    (true, true) => {
                        "counts that segments keep are taken where they keep these, and where \
                             words rule out the tests of other fields, else columns are counted"
                    }
                    (false, _) => "columns are counted where a unit has them",
                };
                line("counted", format!("by {by}; {rollups}"))?;
            }
            None if self.vectors => line(
                "counted",
                "no, the values of columns are read where a unit has them, else lines".to_owned(),
            )?,
            None => line("counted", "no, lines are read".to_owned())?,
        }
        line("order", self.order.clone())?;
        let merged = self.merged_at.map_or(String::new(), |place| {
            format!(
                "; each collects for pipe {place} by itself, then the partial results are merged"
            )
        });
        line("threads", format!("{} read and filter{merged}", self.threads))?;
        for (place, pipe) in self.pipes.iter().enumerate() {
            let ExplainedPipe { pipe, mode, merges, site, .. } = pipe;
            let merges = match *merges {
                "never" => String::new(),
                merges => format!(", partial results merge {merges}"),
            };
            line(&format!("pipe {}", place + 1), format!("{pipe}: {mode}{merges}; runs {site}"))?;
        }
        let (seconds, memory, rows) = (self.run_s_max, self.memory_bytes_max, self.rows_max);
        line("limits", format!("{seconds} s, {memory} bytes of memory, {rows} rows"))
    }
}

#[cfg(test)]
mod tests {
    use crate::Query;
    use crate::base::{Limits, TimeRange};
    use crate::exec::explain::{Explanation, explain};
    use crate::lang::context::Context;
    use crate::testing::{Memory, batch, record};

    fn explained(query: &str, context: &Context) -> Explanation {
        let batches = (1..=4).map(|i| batch(i, &[record(i as i64 * 10, &[("_msg", "a")])]));
        let source = Memory::new(batches.collect());
        explain(&Query::parse(query, 0).unwrap(), &source, context).unwrap()
    }

    #[test]
    fn a_plan_is_told() {
        let range = TimeRange { start_ns: 15, end_ns: 40 };
        let limits = Limits { threads: 2, ..Limits::default() };
        let context = Context { range, limits, ..Context::default() };
        let explained = explained(
            "error level:=warn (x or !y) | fields level, _time | stats by (level) count() n \
             | sort by (n desc) limit 5",
            &context,
        );
        let expected = "\
query     \"error\" level:=\"warn\" (\"x\" or !\"y\") | fields level, _time | stats by (level) count(*) as n | sort by (n desc) limit 5
time      from 1970-01-01T00:00:00.000000015Z to before 1970-01-01T00:00:00.00000004Z
units     2 units (2 lines, 2 bytes) of 4 units (4 lines, 4 bytes) may hold lines of that time
words     a unit is read only if it may hold \"error\" and \"warn\"
raw       of new lines, only those with \"error\" are parsed
filter    \"error\" level:=\"warn\" (\"x\" or !\"y\"): runs over columns where a unit has them
fields    level
counted   no, lines are read
order     as the last pipe gives them
threads   2 read and filter; each collects for pipe 2 by itself, then the partial results are merged
pipe 1    fields level, _time: row-wise; runs where the lines are
pipe 2    stats by (level) count(*) as n: collecting, partial results merge in any order; runs where the lines are, merged where the answer is given
pipe 3    sort by (n desc) limit 5: collecting, partial results merge in any order; runs where the answer is given
limits    60 s, 536870912 bytes of memory, 10000000 rows
";
        assert_eq!(explained.to_string(), expected);
    }

    #[test]
    fn orders_and_counts_are_told() {
        let newest = explained("*", &Context { limit: Some(5), ..Context::default() });
        assert!(newest.order.starts_with("newest first"), "{newest}");
        assert_eq!((newest.words, newest.fields.as_str()), (None, "*"));
        let counted = explained("* | by (_time:1h, level) count() n", &Context::default());
        assert_eq!(counted.counted_by.as_deref(), Some("_time in steps of 1h, level"));
        assert!(counted.rollups && !counted.rollups_by_words && counted.merged_at == Some(1));
        let by_words = explained("!error | stats by (level) count() n", &Context::default());
        assert!(by_words.rollups && by_words.rollups_by_words, "{by_words}");
        assert!(by_words.to_string().contains("where words rule out"), "{by_words}");
        let vectors = explained("* | math a + 1 b | by (c) sum(b)", &Context::default());
        assert!(vectors.vectors && vectors.to_string().contains("values of columns"), "{vectors}");
        let values = explained("* | stats values(a) v", &Context::default());
        assert!(!values.vectors);
        assert_eq!((values.merged_at, values.pipes[0].merges), (None, "in order"));
        assert_eq!(values.pipes[0].site, "where the answer is given");
        let inside = explained("a:in(b | fields a)", &Context::default());
        assert!(inside.has_queries_inside);
        let own = explained("_type:summary", &Context::default());
        assert!(own.own_lines && own.to_string().contains("Loginson's own"));
    }

    #[test]
    fn it_is_written_as_json() {
        let mut json = Vec::new();
        explained("\"\\\"\" | limit 1", &Context::default()).write_json(&mut json);
        let json = String::from_utf8(json).unwrap();
        assert!(json.starts_with(r#"{"query":"\"\\\"\" | limit 1","start":null,"end":null,"#));
        let pipe = concat!(
            r#""pipes":[{"pipe":"limit 1","summary":"passes at most <n> rows, 10 by default; "#,
            r#"put sort before it to choose which","mode":"streaming","merges":"never","#
        );
        assert!(json.contains(pipe), "{json}");
        assert!(json.ends_with(r#""rows_max":10000000}"#), "{json}");
    }

    #[test]
    fn a_restriction_is_part_of_it() {
        let filter = Query::parse("tenant:=a", 0).unwrap().filter().clone();
        let context =
            Context { restriction: std::sync::Arc::new(filter).into(), ..Context::default() };
        let explained = explained("error", &context);
        assert_eq!(explained.filter, "tenant:=\"a\" \"error\"");
        assert_eq!((explained.units, explained.store), (None, None));
    }
}
