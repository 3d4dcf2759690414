//! The part of a query that the store can evaluate: its selector and first tests, as a filter of
//! LogsQL.
//!
//! The filter selects every line that the query does, and possibly more; tests that it does not
//! contain completely are repeated line by line. If it contains all of them, and lines are only
//! counted, no line has to be read here.

use query::{Filter, Pulse, RAW_LINE, Test};

use crate::ast::{LogQuery, MatchOp, Matcher, Named, Stage};
use crate::stage::DETECTED_LEVEL;
use crate::stage::filter::LabelTest;
use crate::stage::line::{LineFilter, Needle};
use crate::stored::{LEVELS, TEXT_TYPES, UNKNOWN_LEVEL, fields_of, is_field};

/// A filter, and whether it is equivalent to the query.
pub struct Pushed {
    /// Selects at least the lines of the query.
    pub filter: Filter,
    /// It selects no others, and no stage makes labels.
    pub is_whole: bool,
}

/// The filter of a query.
pub fn push(query: &LogQuery) -> Pushed {
    let mut filters: Vec<Filter> = query.matchers.iter().map(matcher).collect();
    let is_text = query.matchers.iter().any(|m| {
        m.name == "_type" && m.op == MatchOp::Equal && TEXT_TYPES.contains(&m.value.as_str())
    });
    let mut is_whole = true;
    let (mut line_is_stored, mut labels_are_stored) = (true, true);
    for stage in &query.stages {
        match stage {
            Stage::Line(filter) if line_is_stored => {
                let (pushed, whole) = line_filter(filter, is_text);
                filters.extend(pushed);
                is_whole &= whole;
            }
            Stage::Label(test) if labels_are_stored => match label_test(test) {
                Some(filter) => filters.push(filter),
                None => is_whole = false,
            },
            // Without a parser there is no error to remove.
            Stage::Drop(named) if labels_are_stored && named.iter().all(is_error) => {}
            Stage::Line(_) | Stage::Label(_) => is_whole = false,
            Stage::Unpack | Stage::LineFormat(_) | Stage::Decolorize => {
                is_whole = false;
                line_is_stored = false;
                labels_are_stored &= !matches!(stage, Stage::Unpack);
            }
            Stage::Json(_)
            | Stage::Logfmt { .. }
            | Stage::Regexp(_)
            | Stage::Pattern(_)
            | Stage::LabelFormat(_)
            | Stage::Drop(_)
            | Stage::Keep(_) => {
                is_whole = false;
                labels_are_stored = false;
            }
        }
    }
    filters.retain(|filter| *filter != Filter::All);
    Pushed { filter: Filter::and(filters), is_whole }
}

fn is_error(named: &Named) -> bool {
    match named {
        Named::Name(name) => name.starts_with("__error"),
        Named::Matcher(matcher) => matcher.name.starts_with("__error"),
    }
}

fn not(filter: Filter) -> Filter {
    Filter::Not(Box::new(filter))
}

fn any_of(name: &str, mut values: Vec<String>) -> Filter {
    match values.len() {
        1 => Filter::field(name, exact(values.remove(0))),
        _ => Filter::field(name, Test::In(values)),
    }
}

fn exact(value: String) -> Test {
    // A missing value is empty.
    if value.is_empty() { Test::Phrase(value) } else { Test::Exact(value) }
}

/// The filter of a matcher; it selects the same lines.
pub fn matcher(matcher: &Matcher) -> Filter {
    if matcher.name == DETECTED_LEVEL {
        return level_matcher(matcher);
    }
    // Of the fields of a label, the first that a line has is tested.
    let has = |field: &str| Filter::field(field, Test::Prefix(String::new()));
    let fields: Vec<&str> = fields_of(&matcher.name).collect();
    let (mut any, mut missing) = (Vec::with_capacity(fields.len()), Vec::new());
    for (place, &field) in fields.iter().enumerate() {
        let mut all: Vec<Filter> = missing.clone();
        if place + 1 < fields.len() {
            all.push(has(field));
            missing.push(not(has(field)));
        }
        all.push(field_matcher(matcher, field));
        any.push(Filter::and(all));
    }
    Filter::or(any)
}

/// The filter that tests one field as a matcher does.
fn field_matcher(matcher: &Matcher, name: &str) -> Filter {
    let Matcher { op, value, regex, .. } = matcher;
    let filter = match op {
        MatchOp::Equal | MatchOp::NotEqual => Filter::field(name, exact(value.clone())),
        MatchOp::Match | MatchOp::NotMatch => match value.as_str() {
            ".*" => Filter::All,
            ".+" => Filter::field(name, Test::Prefix(String::new())),
            _ => match alternatives(value) {
                Some(values) => any_of(name, values),
                None => {
                    let regex = regex.as_ref().expect("compiled for operators that need it");
                    Filter::field(name, Test::Regex(regex.pattern().clone()))
                }
            },
        },
    };
    match op {
        MatchOp::Equal | MatchOp::Match => filter,
        MatchOp::NotEqual | MatchOp::NotMatch => not(filter),
    }
}

/// `a|b|(c)`, Grafana's form of several values.
fn alternatives(regex: &str) -> Option<Vec<String>> {
    let inner = regex.strip_prefix('(').and_then(|r| r.strip_suffix(')')).unwrap_or(regex);
    let plain = |c: char| c.is_alphanumeric() || "_-/:@ ,=".contains(c);
    let values: Vec<String> = inner.split('|').map(str::to_owned).collect();
    let all = values.iter().all(|v| !v.is_empty() && v.chars().all(plain));
    (all && values.len() <= 1_000).then_some(values)
}

fn level_matcher(matcher: &Matcher) -> Filter {
    let names = |detected: &dyn Fn(&str) -> bool| -> Vec<String> {
        let wanted = LEVELS.iter().filter(|(_, level)| detected(level));
        wanted.map(|(name, _)| (*name).to_owned()).collect()
    };
    let mut any = Vec::new();
    let known = names(&|level| matcher.matches(level, &Pulse::endless()));
    if !known.is_empty() {
        any.push(any_of("_level", known));
    }
    if matcher.matches(UNKNOWN_LEVEL, &Pulse::endless()) {
        any.push(not(any_of("_level", names(&|_| true))));
    }
    match any.is_empty() {
        true => not(Filter::All),
        false => Filter::or(any),
    }
}

fn label_test(test: &LabelTest) -> Option<Filter> {
    match test {
        LabelTest::Text(m) if is_field(&m.name) => Some(matcher(m)),
        LabelTest::All(tests) => {
            Some(Filter::and(tests.iter().map(label_test).collect::<Option<_>>()?))
        }
        LabelTest::Any(tests) => {
            Some(Filter::or(tests.iter().map(label_test).collect::<Option<_>>()?))
        }
        _ => None,
    }
}

/// A filter that selects at least the lines that pass, and whether it selects no others.
fn line_filter(filter: &LineFilter, is_text: bool) -> (Option<Filter>, bool) {
    let in_msg = |needle: &Needle| match needle {
        Needle::Text(text) if text.is_empty() => Some(Filter::All),
        Needle::Text(text) => Some(Filter::field("_msg", Test::Substring(text.clone()))),
        Needle::Regex(regex) => Some(Filter::field("_msg", Test::Regex(regex.pattern().clone()))),
        Needle::Ip(_) | Needle::Pattern(_) => None,
    };
    let Some(found) = filter.needles.iter().map(in_msg).collect::<Option<Vec<_>>>() else {
        return (None, false);
    };
    let found = Filter::or(found);
    if found == Filter::All {
        return (filter.negated.then(|| not(Filter::All)), true);
    }
    let text_types = || Filter::field("_type", Test::In(TEXT_TYPES.map(str::to_owned).to_vec()));
    match (is_text, filter.negated) {
        (true, false) => (Some(found), true),
        (true, true) => (Some(not(found)), true),
        (false, true) => (Some(not(Filter::and(vec![text_types(), found]))), false),
        (false, false) => {
            // The text of an object is also in its raw line, but its position there is not known
            // here.
            let in_raw = |needle: &Needle| match needle {
                Needle::Text(text) => Filter::field(RAW_LINE, Test::Substring(text.clone())),
                _ => Filter::All,
            };
            let raw = Filter::or(filter.needles.iter().map(in_raw).collect());
            let mut object = vec![not(text_types()), raw];
            object.retain(|filter| *filter != Filter::All);
            (Some(Filter::or(vec![found, Filter::and(object)])), false)
        }
    }
}
