//! Queries that count lines by time and one or two fields: `level:error | stats by (_time:1m)
//! count()`, `top 10 by (hostname)`, `app_name:=nginx | stats by (level) count()`. Segments keep
//! such counts.
//!
//! A test that no line of a segment can pass, because its words are not there, is left out of the
//! filter for that segment. So `!"no such word" | stats by (level) count()` is answered from counts
//! too, although segments keep none of messages.
//!
//! Left out: queries by more fields, or by fields for which no counts are kept; these read columns.
//! The counting itself is `exec/rollups.rs`.

use std::collections::HashSet;

use crate::base::names::is_stored;
use crate::lang::filter::{ColumnSelector, Filter, Selector, fields_of, leaves_of, tests_of};
use crate::lang::pipe::CountedBy;
use crate::lang::syntax::query::Query;
use crate::plan::counted::counted_by;

/// Most fields by which segments keep counts together. A query by more fields reads columns.
const FIELDS_MAX: usize = 2;

/// A query that can be answered from the counts of segments.
pub(crate) struct Rolled {
    counted: CountedBy,
    /// The filter without tests of the time, which all rows pass.
    filter: Filter,
    /// How lines are counted by the whole filter; none where that looks at more fields.
    pub whole: Option<Counts>,
    /// The [tests](tests_of) of the filter, each by itself, none for those that need lines. Empty
    /// where ruling them out makes no difference.
    pub tests: Vec<Option<ColumnSelector>>,
}

/// How the lines of a segment are counted.
pub(crate) struct Counts {
    /// The fields whose values are told apart.
    pub fields: Vec<String>,
    /// Length and shift of the buckets of event time, nanoseconds.
    pub bucket_ns: Option<(i64, i64)>,
    /// The filter without tests of the time, which all rows pass.
    pub selector: Selector,
}

impl Rolled {
    /// None when the query needs more than such counts, whichever tests are ruled out.
    pub fn of(query: &Query) -> Option<Rolled> {
        let counted = counted_by(query.pipes())?;
        let filter = without_time(query.filter());
        let whole = Counts::of(&counted, &filter);
        let tests = match is_counted_without_some(&counted, &filter) {
            true => leaves_of(&filter).into_iter().map(ColumnSelector::new).collect(),
            false => Vec::new(),
        };
        let is_possible = whole.is_some() || !tests.is_empty();
        is_possible.then_some(Rolled { counted, filter, whole, tests })
    }

    /// Whether counts may answer where the words of a segment rule tests out.
    pub fn rules_out(&self) -> bool {
        !self.tests.is_empty()
    }

    /// How lines are counted where some tests are ruled out.
    pub fn counts_without(&self, ruled_out: &[bool]) -> Option<Counts> {
        let rest = without_tests(&self.filter, &mut ruled_out.iter().copied());
        Counts::of(&self.counted, &rest)
    }
}

/// Whether lines may be counted where words rule out some tests of the filter: all of them, one, or
/// all but one. What is nothing without them is found as fast by a scan.
fn is_counted_without_some(counted: &CountedBy, filter: &Filter) -> bool {
    let tests = leaves_of(filter).len();
    let fields = |filter: &Filter| {
        let mut fields = Vec::new();
        fields_of(filter, &mut fields).map(|()| fields.into_iter().collect::<HashSet<_>>().len())
    };
    // Fewer fields than the filter has; none are those of a filter that tests any field.
    let fields_before = fields(filter).unwrap_or(usize::MAX);
    let is_counted = |ruled_out: &mut dyn Iterator<Item = bool>| {
        let rest = without_tests(filter, &mut { ruled_out });
        let is_less = fields(&rest).is_some_and(|fields| fields < fields_before);
        is_less && rest != nothing() && Counts::of(counted, &rest).is_some()
    };
    is_counted(&mut std::iter::repeat(true))
        || (0..tests).any(|one| {
            let mut only = (0..tests).map(|test| test == one);
            let mut others = (0..tests).map(|test| test != one);
            is_counted(&mut only) || is_counted(&mut others)
        })
}

impl Counts {
    /// None where that takes more fields than segments count by.
    fn of(counted: &CountedBy, filter: &Filter) -> Option<Counts> {
        if counted.is_by_names {
            return None;
        }
        let mut fields: Vec<&str> = counted.fields.iter().map(String::as_str).collect();
        fields_of(filter, &mut fields)?;
        fields.sort_unstable();
        fields.dedup();
        if fields.len() > FIELDS_MAX || !fields.iter().all(|name| is_stored(name)) {
            return None;
        }
        let fields = fields.into_iter().map(str::to_owned).collect();
        Some(Counts { fields, bucket_ns: counted.bucket_ns, selector: Selector::new(filter) })
    }
}

/// The filter without the time ranges that every row must be in.
pub(crate) fn without_time(filter: &Filter) -> Filter {
    match filter {
        Filter::Time(_) => Filter::All,
        Filter::And(filters) => {
            let mut rest: Vec<Filter> =
                filters.iter().filter(|f| !matches!(f, Filter::Time(_))).cloned().collect();
            match rest.len() {
                0 => Filter::All,
                1 => rest.remove(0),
                _ => Filter::And(rest),
            }
        }
        other => other.clone(),
    }
}

/// The filter for lines that fail some of its [tests](tests_of). `ruled_out` gives for each test,
/// in the order of the tests, whether it is one of these.
fn without_tests(filter: &Filter, ruled_out: &mut impl Iterator<Item = bool>) -> Filter {
    match filter {
        Filter::And(filters) => {
            let mut rest: Vec<Filter> =
                filters.iter().map(|filter| without_tests(filter, ruled_out)).collect();
            if rest.contains(&nothing()) {
                return nothing();
            }
            rest.retain(|filter| *filter != Filter::All);
            Filter::and(rest)
        }
        Filter::Or(filters) => {
            let mut rest: Vec<Filter> =
                filters.iter().map(|filter| without_tests(filter, ruled_out)).collect();
            if rest.contains(&Filter::All) {
                return Filter::All;
            }
            rest.retain(|filter| *filter != nothing());
            if rest.is_empty() { nothing() } else { Filter::or(rest) }
        }
        Filter::Not(filter) => match without_tests(filter, ruled_out) {
            Filter::Not(inner) => *inner,
            rest => Filter::Not(rest.into()),
        },
        filter => {
            let tests = tests_of(filter).len();
            let mut is_ruled_out = false;
            ruled_out.take(tests).for_each(|out| is_ruled_out |= out);
            if is_ruled_out { nothing() } else { filter.clone() }
        }
    }
}

/// The filter that selects no line.
fn nothing() -> Filter {
    Filter::Not(Filter::All.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_that_none_passes_leave_the_filter() {
        let check = |text: &str, ruled_out: &[bool], expected: &str| {
            let query = Query::parse(text, 0).unwrap();
            assert_eq!(tests_of(query.filter()).len(), ruled_out.len(), "{text}");
            let rest = without_tests(query.filter(), &mut ruled_out.iter().copied());
            assert_eq!(rest.to_string(), expected, "{text} {ruled_out:?}");
        };
        check("!a", &[true], "*");
        check("!a", &[false], "!\"a\"");
        check("a", &[true], "!*");
        check("a level:b", &[true, false], "!*");
        check("!a level:b", &[true, false], "level:\"b\"");
        check("!a !c level:b", &[true, false, false], "!\"c\" level:\"b\"");
        check("a or level:b", &[true, false], "level:\"b\"");
        check("a or level:b", &[true, true], "!*");
        check("!(a level:b)", &[true, false], "*");
        check("!(a or level:b)", &[true, false], "!level:\"b\"");
        check("(a or b) (c or d)", &[false, true, true, false], "\"a\" \"d\"");
    }

    #[test]
    fn filters_that_words_may_decide_are_of_the_kind() {
        let kind = |text: &str| {
            let query = Query::parse(text, 0).unwrap();
            Rolled::of(&query).map(|rolled| (rolled.whole.is_some(), rolled.rules_out()))
        };
        assert_eq!(kind("* | stats by (level) count()"), Some((true, false)));
        assert_eq!(kind("!level:error | stats by (level) count()"), Some((true, true)));
        assert_eq!(kind("!x | stats by (level) count()"), Some((true, true)));
        assert_eq!(kind("!x | stats by (level, app_name) count()"), Some((false, true)));
        assert_eq!(kind("!x (a:y or !level:z) | stats by (level) count()"), Some((false, true)));
        // Where `x` is ruled out nothing is counted, which scanning finds as fast.
        assert_eq!(kind("x | stats by (level, app_name) count()"), None);
        assert_eq!(kind("!x | stats by (a, b, c) count()"), None);
        assert_eq!(kind("hostname:=h !x !y | stats count()"), Some((true, true)));
        assert_eq!(kind("hostname:=h !x | stats by (_time:1m) count()"), Some((true, true)));
        assert_eq!(kind("hostname:=h y !x | stats count()"), Some((true, false)));
    }

    #[test]
    fn only_counts_by_time_and_few_fields_are_of_the_kind() {
        let check = |text: &str, expected: Option<(&[&str], Option<i64>)>| {
            let query = Query::parse(text, 0).unwrap();
            let found = Rolled::of(&query);
            let found = found.as_ref().and_then(|rolled| rolled.whole.as_ref());
            let found = found.map(|c| (&c.fields[..], c.bucket_ns.map(|b| b.0)));
            let expected = expected.map(|(fields, bucket)| {
                (fields.iter().map(|field| field.to_string()).collect::<Vec<_>>(), bucket)
            });
            let expected = expected.as_ref().map(|(fields, bucket)| (&fields[..], *bucket));
            assert_eq!(found, expected, "{text}");
        };
        check("* | stats count()", Some((&[], None)));
        check("* | stats by (_time:1s) count() | limit 3", Some((&[], Some(1_000_000_000))));
        check("_time:5m level:error | stats count()", Some((&["level"], None)));
        check("level:error or level:warn | stats by (level) count()", Some((&["level"], None)));
        check("!level:error | top 3 by (level)", Some((&["level"], None)));
        check("* | stats count() a, count() if (level:error) b", Some((&["level"], None)));
        check("* | stats by (_time:1s, a) count()", Some((&["a"], Some(1_000_000_000))));
        // Segments keep no counts of these fields, but only the source can tell.
        check("error | stats by (level) count()", Some((&["_msg", "level"], None)));
        check("level:error | stats by (hostname) count()", Some((&["hostname", "level"], None)));
        check("* | stats by (level, hostname) count()", Some((&["hostname", "level"], None)));
        check("level:error b:x | stats by (hostname) count()", None);
        check("* | stats by (_stream) count()", None);
        check("* | stats by (_time) count()", None);
        check("* | stats by (size:10) count()", None);
        check("* | stats count(level)", None);
        check("* | stats count_uniq(level)", Some((&["level"], None)));
        check("_time:5m or level:error | stats count()", None);
        check("* | stats count() if (_time:5m)", None);
        check("* | fields level | stats count()", None);
        check("* | format '<a>/<b>' as w | top 3 by (w)", Some((&["a", "b"], None)));
        check("* | filter a:b | stats count()", None);
        check("*", None);
    }
}
