//! By what a pipe counts rows, if it does nothing else with them.

use std::collections::HashSet;

/// The fields and the bucket by which rows are counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CountedBy {
    /// Fields whose values distinguish rows: those that group rows, and those that conditions test.
    pub fields: Vec<String>,
    /// Length and shift of the buckets of event time, nanoseconds.
    pub bucket_ns: Option<(i64, i64)>,
    /// Whether the pipe needs nothing but the value of the only field.
    pub is_tally: bool,
    /// Rows are counted by the fields of which they have a value, whatever the values are.
    pub is_by_names: bool,
}

impl CountedBy {
    /// By the values of fields only.
    pub fn fields<'n>(fields: impl IntoIterator<Item = &'n str>) -> CountedBy {
        CountedBy::new(fields, None, false)
    }

    /// Counts by the values of fields, which may be repeated, and by buckets of event time:
    /// (length, shift) in nanoseconds. `looks_inside`: the pipe needs values for more than its
    /// groups.
    pub fn new<'n>(
        fields: impl IntoIterator<Item = &'n str>,
        bucket_ns: Option<(i64, i64)>,
        looks_inside: bool,
    ) -> CountedBy {
        let mut known = HashSet::new();
        let names: Vec<String> =
            fields.into_iter().filter(|name| known.insert(*name)).map(str::to_owned).collect();
        let is_tally = names.len() == 1 && bucket_ns.is_none() && !looks_inside;
        CountedBy { fields: names, bucket_ns, is_tally, is_by_names: false }
    }

    /// By the names of their fields.
    pub fn names() -> CountedBy {
        CountedBy { is_by_names: true, ..CountedBy::fields([]) }
    }

    /// Whether rows are counted, and nothing of them is wanted.
    pub fn is_by_nothing(&self) -> bool {
        self.fields.is_empty() && self.bucket_ns.is_none() && !self.is_by_names
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lang::pipe::Pipe;
    use crate::lang::syntax::query::Query;

    #[test]
    fn only_counts_by_fields_and_time_are_of_the_kind() {
        let check = |text: &str, expected: Option<(&[&str], Option<i64>)>| {
            let query = Query::parse(text, 0).unwrap();
            let found = query.pipes().first().and_then(Pipe::counted_by);
            let found = found.map(|CountedBy { fields, bucket_ns, .. }| (fields, bucket_ns));
            let expected = expected.map(|(fields, step_ns)| {
                let fields: Vec<String> = fields.iter().map(|f| f.to_string()).collect();
                (fields, step_ns.map(|step_ns| (step_ns, 0)))
            });
            assert_eq!(found, expected, "{text}");
        };
        check("* | stats count()", Some((&[], None)));
        check("error | stats by (a, b) count() | limit 3", Some((&["a", "b"], None)));
        check("* | stats by (_time:1s, a) count()", Some((&["a"], Some(1_000_000_000))));
        check("* | stats by (a) count() if (b:x a:y) n", Some((&["a", "b"], None)));
        check("* | top 3 by (_stream)", Some((&["_stream"], None)));
        check("* | stats by (_time) count()", None);
        check("* | stats by (size:10) count()", None);
        check("* | stats count_uniq(a, b) m, count() n", Some((&["a", "b"], None)));
        check("* | stats by (a) min(b), max(b), range(b)", Some((&["a", "b"], None)));
        check("* | stats by (a) uniq_values(b)", Some((&["a", "b"], None)));
        check("* | stats by (a) uniq_values(b) limit 2", None);
        check("* | stats count_uniq(a*)", None);
        check("* | stats count(a)", None);
        check("* | stats by (a) sum(b)", None);
        check("* | stats count() if (_time:5m)", None);
        check("* | fields a | stats count()", None);
        check("*", None);
    }

    #[test]
    fn only_one_field_by_itself_is_tallied() {
        let is_tally = |text: &str| {
            let query = Query::parse(text, 0).unwrap();
            query.pipes().first().and_then(Pipe::counted_by).unwrap().is_tally
        };
        for text in ["* | top 5 by (a)", "* | uniq by (a)", "b | by (a) count() n, rate() m"] {
            assert!(is_tally(text), "{text}");
        }
        for text in [
            "* | top 5 by (a, b)",
            "* | stats by (a) count() if (a:x) n",
            "* | stats by (_time:1s, a) count()",
            "* | stats count()",
            "* | stats count() if (a:x)",
            "* | stats count_uniq(a)",
        ] {
            assert!(!is_tally(text), "{text}");
        }
    }
}
