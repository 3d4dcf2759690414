//! Queries that count lines by time and one or two fields: `level:error | stats by (_time:1m)
//! count()`, `top 10 by (hostname)`, `app_name:=nginx | stats by (level) count()`. Segments keep
//! such counts.
//!
//! A test that no line of a segment can pass, because its words are not there, is left out of the
//! filter for that segment. So `!"no such word" | stats by (level) count()` is answered from counts
//! too, although segments keep none of messages.
//!
//! Whose lines a segment holds is known where its blocks are all of one tenant, and whether it has
//! lines of Loginson's own types is among its counts. So tests of both, which the queries of
//! callers with restricted rights have, are decided for a whole segment, and need no field.
//!
//! Left out: queries by more fields, or by fields for which no counts are kept; these read columns.
//! The counting itself is `exec/rollups.rs`.

use std::collections::HashSet;

use record::Tenant;
use record::batch::TENANT;

use crate::base::names::is_stored;
use crate::lang::filter::{ColumnSelector, Filter, Selector, Test, fields_of, leaves_of, tests_of};
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
    /// Whether some tests may be decided for a whole segment.
    pub asks_segments: bool,
}

/// What is known of all lines of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct OfSegment {
    /// Whose lines they are; none where they may be those of several.
    pub tenant: Option<Tenant>,
    /// Whether some may be of Loginson's own types.
    pub has_own: bool,
}

/// How the lines of a segment are counted of which something is known.
pub(crate) enum SegmentCounts {
    /// None of them is selected.
    None,
    /// By these fields.
    Some(Counts),
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
        let asks_segments = decided(&filter, OfSegment { tenant: None, has_own: false }) != filter
            || leaves_of(&filter).into_iter().any(is_of_tenant);
        let rolled = Rolled { counted, filter, whole, tests, asks_segments };
        let is_possible = rolled.whole.is_some() || !rolled.tests.is_empty();
        (is_possible || rolled.is_counted_of_a_tenant()).then_some(rolled)
    }

    /// Whether lines may be counted where a segment has those of the tenant alone that the query
    /// names.
    fn is_counted_of_a_tenant(&self) -> bool {
        let named = self.filter.tenants().and_then(|named| named.first().copied());
        self.asks_segments && self.of_segment(OfSegment { tenant: named, has_own: false }).is_some()
    }

    /// How lines of a segment are counted of which that is known. None where that takes more fields
    /// than segments count by.
    pub fn of_segment(&self, known: OfSegment) -> Option<SegmentCounts> {
        let filter = decided(&self.filter, known);
        match filter == nothing() {
            true => Some(SegmentCounts::None),
            false => Counts::of(&self.counted, &filter).map(SegmentCounts::Some),
        }
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
    replaced(filter, &mut |filter| {
        if matches!(filter, Filter::And(_) | Filter::Or(_) | Filter::Not(_)) {
            return None;
        }
        let tests = tests_of(filter).len();
        let mut is_ruled_out = false;
        ruled_out.by_ref().take(tests).for_each(|out| is_ruled_out |= out);
        is_ruled_out.then(nothing)
    })
}

/// Whether a filter tests whose line it is.
fn is_of_tenant(filter: &Filter) -> bool {
    matches!(filter, Filter::Field { name, .. } if name == TENANT)
}

/// The filter for lines of which that is known.
fn decided(filter: &Filter, known: OfSegment) -> Filter {
    replaced(filter, &mut |filter| {
        let passes = match filter {
            Filter::Not(_) if !known.has_own && filter.excludes_own() => true,
            Filter::Field { test, .. } if is_of_tenant(filter) => {
                let value = known.tenant?.field_value();
                match test {
                    Test::Exact(wanted) => *wanted == value,
                    Test::In(wanted) => wanted.contains(&value),
                    _ => return None,
                }
            }
            _ => return None,
        };
        Some(if passes { Filter::All } else { nothing() })
    })
}

/// The filter in which `replace` gives others for some parts, as short as these allow.
fn replaced(filter: &Filter, replace: &mut impl FnMut(&Filter) -> Option<Filter>) -> Filter {
    if let Some(other) = replace(filter) {
        return other;
    }
    match filter {
        Filter::And(filters) => {
            let mut rest: Vec<Filter> =
                filters.iter().map(|filter| replaced(filter, replace)).collect();
            if rest.contains(&nothing()) {
                return nothing();
            }
            rest.retain(|filter| *filter != Filter::All);
            Filter::and(rest)
        }
        Filter::Or(filters) => {
            let mut rest: Vec<Filter> =
                filters.iter().map(|filter| replaced(filter, replace)).collect();
            if rest.contains(&Filter::All) {
                return Filter::All;
            }
            rest.retain(|filter| *filter != nothing());
            if rest.is_empty() { nothing() } else { Filter::or(rest) }
        }
        Filter::Not(filter) => match replaced(filter, replace) {
            Filter::Not(inner) => *inner,
            rest => Filter::Not(rest.into()),
        },
        filter => filter.clone(),
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
    fn tests_are_decided_for_whole_segments() {
        let shop: Tenant = "12:3".parse().unwrap();
        let own = "!_type:in(summary, alert, audit)";
        let check = |text: &str, tenant: Option<Tenant>, has_own: bool, expected: &str| {
            let query = Query::parse(text, 0).unwrap();
            let found = decided(query.filter(), OfSegment { tenant, has_own });
            let expected = Query::parse(expected, 0).unwrap().filter().to_string();
            assert_eq!(found.to_string(), expected, "{text} {tenant:?} {has_own}");
        };
        for (text, expected) in [
            ("_tenant:=\"12:3\"", "*"),
            ("_tenant:=\"13:0\"", "!*"),
            ("_tenant:=\"\"", "!*"),
            ("!_tenant:=\"12:3\"", "!*"),
            ("_tenant:in(\"12:3\", \"\") level:a", "level:a"),
            ("_tenant:=\"13:0\" or level:a", "level:a"),
            ("_tenant:=\"13:0\" level:a", "!*"),
            ("_tenant:~\"12.*\" level:a", "_tenant:~\"12.*\" level:a"),
            ("level:a", "level:a"),
        ] {
            check(text, Some(shop), true, expected);
            check(&format!("{own} ({text})"), Some(shop), false, expected);
        }
        check("_tenant:=\"\" level:a", Some(Tenant::DEFAULT), true, "level:a");
        check("_tenant:=\"12:3\" level:a", None, true, "_tenant:=\"12:3\" level:a");
        check(&format!("{own} level:a"), None, true, &format!("{own} level:a"));
        check(&format!("{own} level:a"), None, false, "level:a");
        check("!_type:in(summary, nginx)", None, false, "!_type:in(summary, nginx)");

        let of = |text: &str| {
            let query = Query::parse(&format!("{own} {text}"), 0).unwrap();
            let known = OfSegment { tenant: Some(shop), has_own: false };
            Rolled::of(&query).map(|rolled| match rolled.of_segment(known) {
                None => "lines".to_owned(),
                Some(SegmentCounts::None) => "none".to_owned(),
                Some(SegmentCounts::Some(counts)) => counts.fields.join(","),
            })
        };
        let of = |text: &str| of(text).unwrap_or_else(|| "not".to_owned());
        assert_eq!(of("_tenant:=\"12:3\" | stats by (_time:1m) count()"), "");
        assert_eq!(of("_tenant:=\"12:3\" a:x | stats by (level) count()"), "a,level");
        assert_eq!(of("_tenant:=\"13:0\" a:x | stats by (level) count()"), "none");
        assert_eq!(of("_tenant:=\"12:3\" a:x b:y | stats by (level) count()"), "not");
        assert_eq!(of("level:a | stats by (hostname) count()"), "hostname,level");
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
