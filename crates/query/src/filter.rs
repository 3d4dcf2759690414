//! Filters: which rows a query selects. The tree, how it is written, and (in the parts) how it is read and run.
//!
//! Stream selectors `{a="b"}`, `contains_all()` and `contains_any()` are shorthands: they are read as filters
//! on fields and written back so. Writing a filter and reading it again gives the same tree.

mod parse;
mod parse_time;
mod select;
#[cfg(test)]
mod tests;
mod word;

use std::fmt;

pub(crate) use parse::parse_filter;
pub(crate) use parse_time::parse_duration_argument;
pub(crate) use select::Selector;
pub(crate) use word::PhraseFinder;

use crate::cursor::{quote, quote_name};
use crate::number::parse_number;
use crate::source::TimeRange;
use crate::time::format_time;

/// The field that a filter without field name looks at.
pub const MSG: &str = "_msg";

/// Which rows are selected.
#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    /// Every row.
    All,
    /// Rows that all of these select; two or more, none of them an `And`.
    And(Vec<Filter>),
    /// Rows that any of these selects; two or more, none of them an `Or`.
    Or(Vec<Filter>),
    /// Rows that this does not select.
    Not(Box<Filter>),
    /// Rows with an event time in the range.
    Time(TimeRange),
    /// Rows whose field passes a test. A field that is not there counts as empty.
    Field {
        /// Name of the field, stored or virtual.
        name: String,
        /// What its value must be like.
        test: Test,
    },
}

/// What the value of a field must be like.
#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    /// Contains this word or phrase at word boundaries; the empty phrase matches empty values only.
    Phrase(String),
    /// Contains a word or phrase that begins with this; the empty prefix matches values that are not empty.
    Prefix(String),
    /// Equals this.
    Exact(String),
    /// Begins with this.
    ExactPrefix(String),
    /// Contains this anywhere.
    Substring(String),
    /// Matches this regular expression anywhere.
    Regex(Pattern),
    /// As `Phrase`, in any case of letters.
    AnyCasePhrase(String),
    /// As `Prefix`, in any case of letters.
    AnyCasePrefix(String),
    /// Equals one of these.
    In(Vec<String>),
    /// Contains these words or phrases one after the other.
    Sequence(Vec<String>),
    /// Compares like this; as numbers when `value` is one, else as text.
    Compare {
        /// How.
        comparison: Comparison,
        /// With what, as written.
        value: String,
    },
    /// Is a number between these.
    Range {
        /// Lower end, as written.
        low: Number,
        /// Whether the lower end is inside.
        low_inside: bool,
        /// Upper end, as written.
        high: Number,
        /// Whether the upper end is inside.
        high_inside: bool,
    },
    /// Has this many characters; both ends inside.
    Length {
        /// Fewest.
        min: u64,
        /// Most.
        max: u64,
    },
}

/// A number with the text it was written as.
#[derive(Clone, Debug)]
pub struct Number {
    /// As written.
    pub text: String,
    /// Its value; durations in nanoseconds, sizes in bytes.
    pub value: f64,
}

impl Number {
    /// Reads a number as it is written in queries and field values.
    pub fn parse(text: &str) -> Option<Number> {
        Some(Number { text: text.to_owned(), value: parse_number(text.as_bytes())? })
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

/// How two values are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl Comparison {
    fn sign(self) -> &'static str {
        match self {
            Comparison::Less => "<",
            Comparison::LessOrEqual => "<=",
            Comparison::Greater => ">",
            Comparison::GreaterOrEqual => ">=",
        }
    }

    fn holds(self, ordering: std::cmp::Ordering) -> bool {
        match self {
            Comparison::Less => ordering.is_lt(),
            Comparison::LessOrEqual => ordering.is_le(),
            Comparison::Greater => ordering.is_gt(),
            Comparison::GreaterOrEqual => ordering.is_ge(),
        }
    }
}

/// A compiled regular expression; equal when its text is.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    regex: regex::bytes::Regex,
}

/// Memory of one compiled regular expression; a bigger one is refused.
const REGEX_BYTES_MAX: usize = 4 << 20;

impl Pattern {
    /// Compiles `text`. The error says what is wrong in one line.
    pub fn new(text: &str) -> Result<Pattern, String> {
        let regex = regex::bytes::RegexBuilder::new(text)
            .size_limit(REGEX_BYTES_MAX)
            .dfa_size_limit(REGEX_BYTES_MAX)
            .build()
            .map_err(|e| match e {
                regex::Error::CompiledTooBig(_) => {
                    format!("the regular expression is larger than {REGEX_BYTES_MAX} bytes when compiled")
                }
                other => other.to_string().lines().last().unwrap_or_default().trim().to_owned(),
            })?;
        Ok(Pattern { text: text.to_owned(), regex })
    }
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Filter {
    /// Rows that all of `filters` select; flat.
    pub fn and(filters: Vec<Filter>) -> Filter {
        let mut flat = Vec::with_capacity(filters.len());
        for filter in filters {
            match filter {
                Filter::And(inner) => flat.extend(inner),
                other => flat.push(other),
            }
        }
        if flat.len() == 1 {
            flat.remove(0)
        } else if flat.is_empty() {
            Filter::All
        } else {
            Filter::And(flat)
        }
    }

    /// Rows that any of `filters`, at least one, selects; flat.
    pub fn or(filters: Vec<Filter>) -> Filter {
        assert!(!filters.is_empty(), "an OR has alternatives");
        let mut flat = Vec::with_capacity(filters.len());
        for filter in filters {
            match filter {
                Filter::Or(inner) => flat.extend(inner),
                other => flat.push(other),
            }
        }
        if flat.len() == 1 { flat.remove(0) } else { Filter::Or(flat) }
    }

    /// Rows whose field `name` passes `test`.
    pub fn field(name: &str, test: Test) -> Filter {
        Filter::Field { name: name.to_owned(), test }
    }

    /// The times outside which this selects nothing, as far as the tree says so.
    pub fn time_range(&self) -> TimeRange {
        match self {
            Filter::Time(range) => *range,
            Filter::And(filters) => filters
                .iter()
                .fold(TimeRange::ALL, |range, filter| range.intersect(filter.time_range())),
            Filter::Or(filters) => {
                let mut ranges = filters.iter().map(Filter::time_range);
                let first = ranges.next().unwrap_or(TimeRange::ALL);
                ranges.fold(first, |a, b| TimeRange {
                    start_ns: a.start_ns.min(b.start_ns),
                    end_ns: a.end_ns.max(b.end_ns),
                })
            }
            _ => TimeRange::ALL,
        }
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Filter::All => f.write_str("*"),
            Filter::And(filters) => {
                for (i, filter) in filters.iter().enumerate() {
                    f.write_str(if i > 0 { " " } else { "" })?;
                    match filter {
                        Filter::Or(_) => write!(f, "({filter})")?,
                        _ => write!(f, "{filter}")?,
                    }
                }
                Ok(())
            }
            Filter::Or(filters) => {
                for (i, filter) in filters.iter().enumerate() {
                    write!(f, "{}{filter}", if i > 0 { " or " } else { "" })?;
                }
                Ok(())
            }
            Filter::Not(filter) => match &**filter {
                Filter::And(_) | Filter::Or(_) => write!(f, "!({filter})"),
                _ => write!(f, "!{filter}"),
            },
            Filter::Time(range) => write_time_filter(*range, f),
            Filter::Field { name, test } => {
                let star_for_any = matches!(test, Test::Prefix(prefix) if prefix.is_empty());
                if name != MSG || star_for_any {
                    write!(f, "{}:", quote_name(name))?;
                }
                write!(f, "{test}")
            }
        }
    }
}

fn write_time_filter(range: TimeRange, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let TimeRange { start_ns, end_ns } = range;
    match (start_ns == i64::MIN, end_ns == i64::MAX) {
        (true, _) if end_ns == i64::MAX => write!(f, "_time:<={}", format_time(i64::MAX)),
        (true, _) => write!(f, "_time:<{}", format_time(end_ns)),
        (false, true) => write!(f, "_time:>={}", format_time(start_ns)),
        (false, false) => write!(f, "_time:[{},{})", format_time(start_ns), format_time(end_ns)),
    }
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Test::Phrase(text) => f.write_str(&quote(text)),
            Test::Prefix(text) if text.is_empty() => f.write_str("*"),
            Test::Prefix(text) => write!(f, "{}*", quote(text)),
            Test::Exact(text) => write!(f, "={}", quote(text)),
            Test::ExactPrefix(text) => write!(f, "={}*", quote(text)),
            Test::Substring(text) => write!(f, "*{}*", quote(text)),
            Test::Regex(pattern) => write!(f, "~{}", quote(&pattern.text)),
            Test::AnyCasePhrase(text) => write!(f, "i({})", quote(text)),
            Test::AnyCasePrefix(text) => write!(f, "i({}*)", quote(text)),
            Test::In(values) => write!(f, "in({})", quoted_list(values)),
            Test::Sequence(phrases) => write!(f, "seq({})", quoted_list(phrases)),
            Test::Compare { comparison, value } => {
                write!(f, "{}{}", comparison.sign(), quote(value))
            }
            Test::Range { low, low_inside, high, high_inside } => {
                let open = if *low_inside { '[' } else { '(' };
                let close = if *high_inside { ']' } else { ')' };
                write!(f, "range{open}{}, {}{close}", quote(&low.text), quote(&high.text))
            }
            Test::Length { min, max: u64::MAX } => write!(f, "len_range({min}, inf)"),
            Test::Length { min, max } => write!(f, "len_range({min}, {max})"),
        }
    }
}

fn quoted_list(values: &[String]) -> String {
    values.iter().map(|v| quote(v)).collect::<Vec<_>>().join(", ")
}
