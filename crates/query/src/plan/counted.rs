//! By what a query counts its lines: the first pipe counts rows, or row-wise pipes compute its
//! fields from others of the same line (`format "<host>/<app>" as where | top 10 by (where)`).
//!
//! In the second case lines are counted by the fields that are computed from. Each combination of
//! their values then goes through the pipes as one row that stands for its lines.
//!
//! Left out: pipes that drop or add rows, and those that remove fields: a row without any field is
//! none.

use crate::base::FieldSet;
use crate::base::names::is_stored;
use crate::lang::pipe::{CountedBy, Pipe};

/// None where the lines have to be read.
pub(crate) fn counted_by(pipes: &[Pipe]) -> Option<CountedBy> {
    let place = pipes.iter().position(|pipe| pipe.counted_by().is_some())?;
    let counted = pipes[place].counted_by()?;
    let before = &pipes[..place];
    if before.is_empty() {
        return Some(counted);
    }
    if counted.is_by_names || !before.iter().all(Pipe::only_adds_fields) {
        return None;
    }
    let counted_fields = FieldSet::of(&counted.fields);
    let read = before.iter().rfold(counted_fields, |wanted, pipe| pipe.needed_fields(wanted));
    let names = read.names()?;
    let all_stored = names.iter().all(|name| is_stored(name));
    all_stored.then(|| CountedBy::new(names, counted.bucket_ns, true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Query;

    #[test]
    fn lines_are_counted_by_the_fields_that_others_are_computed_from() {
        let check = |text: &str, expected: Option<&[&str]>| {
            let query = Query::parse(text, 0).unwrap();
            let mut found = counted_by(query.pipes()).map(|counted| counted.fields);
            if let Some(fields) = &mut found {
                fields.sort();
            }
            let expected =
                expected.map(|names| names.iter().map(|n| n.to_string()).collect::<Vec<_>>());
            assert_eq!(found, expected, "{text}");
        };
        check("* | top 10 by (a)", Some(&["a"]));
        check("* | format '<a>/<b>' as w | top 10 by (w)", Some(&["a", "b"]));
        check("* | format '<a>' as w | stats by (w, c, _time:1s) count()", Some(&["a", "c"]));
        check("* | format '<a>' as a | format '<a><b>' as w | top by (w)", Some(&["a", "b"]));
        check("* | format if (c:x) '<a>' as w | uniq by (w)", Some(&["a", "c", "w"]));
        check("* | extract '<x> ' from a | top by (x)", Some(&["a"]));
        check("* | fields a | rename a as b | top by (b)", None);
        check("* | delete * | uniq by (a) with hits", None);
        check("* | math a + 1 as b | stats by (b) count()", Some(&["a"]));
        check("* | format '<a>' as w | stats count()", Some(&[]));
        check("* | format '<_time>' as w | top by (w)", None);
        check("* | format '<_stream>' as w | top by (w)", None);
        check("* | filter a:b | top by (c)", None);
        check("* | sample 2 | top by (c)", None);
        check("* | unroll by (a) | top by (a)", None);
        check("* | limit 3 | top by (a)", None);
        check("* | format '<a>' as _time | stats by (_time:1s) count()", None);
        check("* | time_add 1h | stats by (_time:1s) count()", None);
        check("* | time_add 1h at a | stats by (_time:1s) count()", Some(&[]));
        check("* | extract 'at <_time> ' | stats by (_time:1s) count()", None);
        check("* | extract_regexp 'at (?P<_time>.*)' | stats by (_time:1s) count()", None);
        check("* | lookup t on a fields (_time) | stats by (_time:1s) count()", None);
        check("* | format '<a>' as w | field_names", None);
        check("* | unpack_json from a | top by (b)", Some(&["a", "b"]));
        check("* | format '<a>' as w | sort by (w)", None);
    }
}
