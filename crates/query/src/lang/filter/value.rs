//! Tests of the value of one field. Each kind has a file with its parser, its matcher and the
//! phrases that a value must contain.
//!
//! [`Test`] is the test as parsed; a [`Matcher`] is built from it once per query. The kind is
//! dispatched once per block, so that the loops over rows only compare bytes. A new kind takes a
//! file, a variant of both enums, and a line in [`function`] if it is written as a function.

pub(super) mod any_case;
mod common_case;
mod compare;
mod contains;
mod exact;
mod exact_prefix;
mod in_list;
mod ip_range;
mod json_array;
mod length;
mod pattern_match;
mod phrase;
mod prefix;
mod presence;
mod range;
mod regex;
mod sequence;
mod string_range;
mod substring;
mod value_type;

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use text::quoted::quote;

pub(super) use contains::contained;

use super::word::PhraseFinder;
use super::{Filter, fields, subquery};
use crate::base::bitmap::Bitmap;
use crate::base::names::{NamePattern, is_added, is_stored};
use crate::base::{Phrase, Pulse};
use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;

pub use self::compare::Comparison;
pub(super) use self::compare::parse_sign as parse_comparison;
pub(super) use self::exact::parse_sign as parse_exact;
pub use self::ip_range::network;
pub use self::pattern_match::PatternPlace;
pub use self::range::Number;
pub use self::regex::Pattern;
pub(super) use self::regex::{parse_pattern, parse_sign as parse_regex};
pub(super) use self::substring::parse as parse_substring;
pub use self::value_type::ValueKind;

/// A test that the value of a field must pass.
#[derive(Clone, Debug, PartialEq)]
pub enum Test {
    /// Contains this word or phrase at word boundaries; the empty phrase matches empty values only.
    Phrase(String),
    /// Contains a word or phrase that begins with this; the empty prefix matches values that are
    /// not empty.
    Prefix(String),
    /// Equals this.
    Exact(String),
    /// Begins with this.
    ExactPrefix(String),
    /// Contains this anywhere.
    Substring(String),
    /// Matches this regular expression anywhere.
    Regex(Pattern),
    /// As `Phrase`, regardless of case.
    AnyCasePhrase(String),
    /// As `Prefix`, regardless of case.
    AnyCasePrefix(String),
    /// Contains one of these, with any of its capitals in lower case, or all in upper case.
    CommonCase {
        /// The words or phrases.
        phrases: Vec<String>,
        /// Whether the value has to be one of them as a whole.
        whole: bool,
    },
    /// Equals one of these.
    In(Vec<String>),
    /// Contains these words or phrases in this order.
    Sequence(Vec<String>),
    /// Satisfies a comparison; of numbers if `value` is one, else of texts.
    Compare {
        /// The comparison.
        comparison: Comparison,
        /// The text or number to compare with, as written.
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
    /// Is a text between these, byte by byte.
    StringRange {
        /// First text inside the range.
        low: String,
        /// First text behind the range.
        high: String,
    },
    /// Is an IPv4 address between these; both ends inside.
    Ipv4Range {
        /// First address.
        low: Ipv4Addr,
        /// Last address.
        high: Ipv4Addr,
    },
    /// Is an IPv6 address between these; both ends inside. IPv4 addresses count as mapped ones.
    Ipv6Range {
        /// First address.
        low: Ipv6Addr,
        /// Last address.
        high: Ipv6Addr,
    },
    /// Contains this text with numbers, times and words in place of placeholders.
    PatternMatch {
        /// The text.
        pattern: String,
        /// Where in the value it must be.
        place: PatternPlace,
    },
    /// Is a JSON array with one of these among its items.
    JsonArrayContainsAny(Vec<String>),
    /// Could be stored as this type.
    ValueType(ValueKind),
    /// Has a number of characters in this range; both ends inside.
    Length {
        /// Fewest.
        min: u64,
        /// Most.
        max: u64,
    },
}

impl Test {
    /// Whether the test, in a filter over all fields such as `*:>50`, looks at this field. A search
    /// for text looks at all of them. A test of numbers, addresses or lengths is about what senders
    /// wrote, and leaves out the fields that Loginson adds, such as the address of the sender.
    pub(crate) fn looks_at(&self, name: &str, beginning: &str) -> bool {
        let is_measure = matches!(
            self,
            Test::Compare { .. }
                | Test::Range { .. }
                | Test::StringRange { .. }
                | Test::Ipv4Range { .. }
                | Test::Ipv6Range { .. }
                | Test::ValueType(_)
                | Test::Length { .. }
        );
        is_stored(name)
            && name.starts_with(beginning)
            && !(is_measure && beginning.is_empty() && is_added(name))
    }
}

/// Parses the arguments of a filter that is written as a function. Its arguments are the cursor,
/// the field and the name of the function.
pub(super) type ParseFunction =
    fn(&mut Cursor<'_>, &NamePattern, &str) -> Result<Filter, ParseError>;

/// The parser of the filter `name(…)`, if there is such a filter.
pub(super) fn function(name: &str) -> Option<ParseFunction> {
    Some(match name {
        "contains_all" | "contains_any" => contains::parse,
        "contains_common_case" | "equals_common_case" => common_case::parse,
        "eq_field" | "lt_field" | "le_field" | "gt_field" | "ge_field" => fields::parse,
        "exact" => exact::parse,
        "i" => any_case::parse,
        "in" => in_list::parse,
        "ipv4_range" => ip_range::parse::<Ipv4Addr>,
        "ipv6_range" => ip_range::parse::<Ipv6Addr>,
        "json_array_contains_any" => json_array::parse,
        "len_range" => length::parse,
        "pattern_match"
        | "pattern_match_full"
        | "pattern_match_prefix"
        | "pattern_match_suffix" => pattern_match::parse,
        "range" => range::parse,
        "re" => regex::parse,
        "seq" => sequence::parse,
        "string_range" => string_range::parse,
        "value_type" => value_type::parse,
        _ => return None,
    })
}

/// Parses `(a, "b", c)`. None if the list contains a `*`, which stands for any value.
pub(super) fn parse_values(
    cursor: &mut Cursor<'_>,
    function: &str,
) -> Result<Option<Vec<String>>, ParseError> {
    cursor.expect('(', &format!("{function}(…)"))?;
    parse_list(cursor, function)
}

/// As [`parse_values`], behind the opening parenthesis.
fn parse_list(cursor: &mut Cursor<'_>, function: &str) -> Result<Option<Vec<String>>, ParseError> {
    let (mut values, mut star) = (Vec::new(), false);
    while !cursor.eat(')') {
        if cursor.eat('*') {
            star = true;
        } else {
            values.push(cursor.expect_string(true, "a value or \")\"")?.text);
        }
        if !cursor.eat(',') {
            if matches!(cursor.peek(), Some(c) if c != ')') {
                let message = format!("{function}(…) takes a list of values");
                return Err(cursor.error(&["\",\"", "\")\""], message));
            }
            cursor.expect(')', &format!("{function}(…)"))?;
            break;
        }
    }
    Ok((!star).then_some(values))
}

/// The argument of `in(…)` and similar filters.
pub(super) enum ListedValues {
    /// Any value.
    Any,
    /// A list of values.
    Values(Vec<String>),
    /// The values of a query: the filter that was built from it.
    Query(Filter),
}

/// Parses what [`parse_values`] does, or else a query that returns the values.
pub(super) fn parse_values_or_query(
    cursor: &mut Cursor<'_>,
    field: &NamePattern,
    function: &str,
) -> Result<ListedValues, ParseError> {
    cursor.expect('(', &format!("{function}(…)"))?;
    let begin = cursor.place();
    let wrong_list = match parse_list(cursor, function) {
        Ok(None) => return Ok(ListedValues::Any),
        Ok(Some(values)) => return Ok(ListedValues::Values(values)),
        Err(error) => error,
    };
    cursor.go_back(begin);
    match subquery::parse(cursor, field, function) {
        Ok(filter) => Ok(ListedValues::Query(filter)),
        // The parser that got farther is more likely to be the intended one.
        Err(error) if error.position > wrong_list.position => Err(error),
        Err(error) if error.query[begin..].contains('|') => Err(error),
        Err(_) => Err(wrong_list),
    }
}

/// Phrases that a value must contain to pass a test. This is necessary, not sufficient.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Needed {
    /// The phrases; if there are none, nothing is known of the values that pass.
    pub phrases: Vec<Phrase>,
    /// Whether one of the phrases is enough; otherwise all are needed.
    pub any: bool,
}

impl Needed {
    /// The text, unless it is empty. `whole_start`, `whole_end`: no word continues beyond that end.
    fn one(text: &str, whole_start: bool, whole_end: bool) -> Needed {
        let phrase = Phrase { text: text.to_owned(), whole_start, whole_end };
        let phrases = if text.is_empty() { Vec::new() } else { vec![phrase] };
        Needed { phrases, any: false }
    }

    fn all_of(parts: impl Iterator<Item = Needed>) -> Needed {
        Needed { phrases: parts.flat_map(|part| part.phrases).collect(), any: false }
    }

    /// Any of the parts, each of which needs one phrase.
    fn any_of(parts: impl Iterator<Item = Needed>) -> Needed {
        Needed { any: true, ..Needed::all_of(parts) }
    }
}

impl Test {
    /// The phrases that a value must contain to pass. Left out: tests that ignore case, and those
    /// that compare numbers.
    pub(crate) fn needed(&self) -> Needed {
        match self {
            Test::Phrase(text) => phrase::needed(text),
            Test::Prefix(text) => prefix::needed(text),
            Test::Exact(text) => exact::needed(text),
            Test::ExactPrefix(text) => exact_prefix::needed(text),
            Test::Substring(text) => substring::needed(text),
            Test::In(values) => in_list::needed(values),
            Test::Sequence(phrases) => sequence::needed(phrases),
            Test::CommonCase { phrases, .. } => common_case::needed(phrases),
            Test::PatternMatch { pattern, .. } => pattern_match::needed(pattern),
            Test::Regex(pattern) => regex::needed(pattern),
            Test::AnyCasePhrase(_)
            | Test::AnyCasePrefix(_)
            | Test::Compare { .. }
            | Test::Range { .. }
            | Test::StringRange { .. }
            | Test::Ipv4Range { .. }
            | Test::Ipv6Range { .. }
            | Test::JsonArrayContainsAny(_)
            | Test::ValueType(_)
            | Test::Length { .. } => Needed::default(),
        }
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
            Test::Regex(pattern) => write!(f, "~{}", quote(pattern.text())),
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
            Test::CommonCase { phrases, whole } => {
                let verb = if *whole { "equals" } else { "contains" };
                write!(f, "{verb}_common_case({})", quoted_list(phrases))
            }
            Test::StringRange { low, high } => {
                write!(f, "string_range({}, {})", quote(low), quote(high))
            }
            Test::Ipv4Range { low, high } => write!(f, "ipv4_range({low}, {high})"),
            Test::Ipv6Range { low, high } => write!(f, "ipv6_range({low}, {high})"),
            Test::PatternMatch { pattern, place } => {
                write!(f, "{}({})", place.function(), quote(pattern))
            }
            Test::JsonArrayContainsAny(values) => {
                write!(f, "json_array_contains_any({})", quoted_list(values))
            }
            Test::ValueType(kind) => write!(f, "value_type({})", kind.name()),
            Test::Length { min, max: u64::MAX } => write!(f, "len_range({min}, inf)"),
            Test::Length { min, max } => write!(f, "len_range({min}, {max})"),
        }
    }
}

fn quoted_list(values: &[String]) -> String {
    values.iter().map(|v| quote(v)).collect::<Vec<_>>().join(", ")
}

/// A test prepared to run. Each has one of the last two methods.
pub(super) trait Matches {
    /// Rough time per row, in units of one field lookup.
    fn cost(&self) -> u32;

    /// Whether a value passes. The time is linear in the length of the value, with a small factor.
    fn matches(&self, value: &[u8]) -> bool {
        self.passes(value, &Pulse::endless())
    }

    /// Whether a value passes; any answer if the query ended meanwhile.
    #[inline]
    fn passes(&self, value: &[u8], pulse: &Pulse<'_>) -> bool {
        pulse.may_continue(value.len()) && self.matches(value)
    }
}

/// A test of any kind prepared to run.
pub(super) enum Matcher {
    Any(presence::Any),
    Empty(presence::Empty),
    NotEmpty(presence::NotEmpty),
    Phrase(PhraseFinder),
    Exact(exact::Matcher),
    ExactPrefix(exact_prefix::Matcher),
    Substring(substring::Matcher),
    Regex(regex::Matcher),
    AnyCase(Box<any_case::Matcher>),
    In(in_list::Matcher),
    Sequence(sequence::Matcher),
    Number(range::NumberRange),
    Text(compare::Matcher),
    Length(length::Matcher),
    JsonArray(json_array::Matcher),
    CommonCase(common_case::Matcher),
    StringRange(string_range::Matcher),
    Ipv4(ip_range::Matcher<Ipv4Addr>),
    Ipv6(ip_range::Matcher<Ipv6Addr>),
    PatternMatch(pattern_match::Matcher),
    ValueType(ValueKind),
}

/// Evaluates the same expression with the matcher of each kind, so that it is compiled for each
/// kind.
macro_rules! of_each_kind {
    ($matcher:expr, $kind:ident => $does:expr) => {
        match $matcher {
            Matcher::Any($kind) => $does,
            Matcher::Empty($kind) => $does,
            Matcher::NotEmpty($kind) => $does,
            Matcher::Phrase($kind) => $does,
            Matcher::Exact($kind) => $does,
            Matcher::ExactPrefix($kind) => $does,
            Matcher::Substring($kind) => $does,
            Matcher::Regex($kind) => $does,
            Matcher::AnyCase($kind) => $does,
            Matcher::In($kind) => $does,
            Matcher::Sequence($kind) => $does,
            Matcher::Number($kind) => $does,
            Matcher::Text($kind) => $does,
            Matcher::Length($kind) => $does,
            Matcher::JsonArray($kind) => $does,
            Matcher::CommonCase($kind) => $does,
            Matcher::StringRange($kind) => $does,
            Matcher::Ipv4($kind) => $does,
            Matcher::Ipv6($kind) => $does,
            Matcher::PatternMatch($kind) => $does,
            Matcher::ValueType($kind) => $does,
        }
    };
}

impl Matcher {
    pub fn new(test: &Test) -> Matcher {
        match test {
            Test::Phrase(text) | Test::Exact(text) | Test::AnyCasePhrase(text)
                if text.is_empty() =>
            {
                Matcher::Empty(presence::Empty)
            }
            Test::Prefix(text) | Test::AnyCasePrefix(text) if text.is_empty() => {
                Matcher::NotEmpty(presence::NotEmpty)
            }
            Test::ExactPrefix(text) | Test::Substring(text) if text.is_empty() => {
                Matcher::Any(presence::Any)
            }
            Test::Phrase(text) => Matcher::Phrase(PhraseFinder::new(text, false)),
            Test::Prefix(text) => Matcher::Phrase(PhraseFinder::new(text, true)),
            Test::Exact(text) => Matcher::Exact(exact::Matcher(text.clone().into_bytes())),
            Test::ExactPrefix(text) => {
                Matcher::ExactPrefix(exact_prefix::Matcher(text.clone().into_bytes()))
            }
            Test::Substring(text) => Matcher::Substring(substring::Matcher::new(text)),
            Test::Regex(pattern) => Matcher::Regex(regex::Matcher::new(pattern)),
            Test::AnyCasePhrase(text) => {
                Matcher::AnyCase(Box::new(any_case::Matcher::new(text, false)))
            }
            Test::AnyCasePrefix(text) => {
                Matcher::AnyCase(Box::new(any_case::Matcher::new(text, true)))
            }
            Test::In(values) => Matcher::In(in_list::Matcher::new(values)),
            Test::Sequence(phrases) => Matcher::Sequence(sequence::Matcher::new(phrases)),
            Test::Compare { comparison, value } => match compare::numbers(*comparison, value) {
                Some(range) => Matcher::Number(range),
                None => Matcher::Text(compare::Matcher {
                    comparison: *comparison,
                    value: value.clone().into_bytes(),
                }),
            },
            Test::Range { low, low_inside, high, high_inside } => {
                Matcher::Number(range::NumberRange {
                    low: low.bound(),
                    low_inside: *low_inside,
                    high: high.bound(),
                    high_inside: *high_inside,
                })
            }
            Test::CommonCase { phrases, whole } => {
                Matcher::CommonCase(common_case::Matcher::new(phrases, *whole))
            }
            Test::StringRange { low, high } => Matcher::StringRange(string_range::Matcher {
                low: low.clone().into_bytes(),
                high: high.clone().into_bytes(),
            }),
            Test::Ipv4Range { low, high } => {
                Matcher::Ipv4(ip_range::Matcher { low: *low, high: *high })
            }
            Test::Ipv6Range { low, high } => {
                Matcher::Ipv6(ip_range::Matcher { low: *low, high: *high })
            }
            Test::PatternMatch { pattern, place } => {
                Matcher::PatternMatch(pattern_match::Matcher::new(pattern, *place))
            }
            Test::JsonArrayContainsAny(values) => {
                Matcher::JsonArray(json_array::Matcher::new(values))
            }
            Test::ValueType(kind) => Matcher::ValueType(*kind),
            Test::Length { min, max } => Matcher::Length(length::Matcher { min: *min, max: *max }),
        }
    }

    /// Whether the decimal of a number passes; none where the test looks at its text.
    pub fn of_numbers(&self) -> Option<impl Fn(i64) -> bool> {
        match self {
            Matcher::Number(range) => Some(|number| range.matches_whole(number)),
            _ => None,
        }
    }

    /// Rough time per row, in units of one field lookup.
    pub fn cost(&self) -> u32 {
        of_each_kind!(self, kind => kind.cost())
    }

    /// Whether a value passes; any answer if the query ended meanwhile. For few values only, as
    /// each call dispatches on the kind.
    pub fn passes(&self, value: &[u8], pulse: &Pulse<'_>) -> bool {
        of_each_kind!(self, kind => kind.passes(value, pulse))
    }

    /// Whether a missing value passes.
    pub fn takes_empty(&self) -> bool {
        of_each_kind!(self, kind => kind.matches(b""))
    }

    /// Keeps the rows whose value passes; `with_value` calls a test with the value of a row. The
    /// rows are incomplete if the query ended meanwhile.
    #[inline]
    pub fn retain(
        &self,
        bits: &mut Bitmap,
        pulse: &Pulse<'_>,
        mut with_value: impl FnMut(usize, &mut dyn FnMut(&[u8]) -> bool) -> bool,
    ) {
        if matches!(self, Matcher::Any(_)) {
            return;
        }
        let mut keep =
            |test: &mut dyn FnMut(&[u8]) -> bool| bits.retain(|row| with_value(row, test));
        of_each_kind!(self, kind => keep(&mut |value| kind.passes(value, pulse)));
    }
}
