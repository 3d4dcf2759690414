//! How few rows of a `sort` are wanted: a `limit` behind it, or the limit of the client, applies to
//! the sort itself. The sort then holds no more rows than that. If it sorts by time, newest first,
//! units that hold only older lines are not read; if oldest first, those that hold only newer ones.

use crate::base::names::{TIME, is_stored};
use crate::lang::context::Context;
use crate::lang::pipe::{Limit, Offset, Pipe, Sort};

/// How many rows can pass the pipes `behind` and reach the client; none where all can.
pub(super) fn wanted(behind: &[Pipe], context: &Context) -> Option<u64> {
    let mut skipped = 0_u64;
    for pipe in behind {
        if let Some(Limit { count }) = pipe.get() {
            return Some(skipped.saturating_add(*count));
        }
        match pipe.get() {
            Some(Offset { count }) => skipped = skipped.saturating_add(*count),
            None if pipe.keeps_rows() => {}
            None => return None,
        }
    }
    // A limit does not bound the rows needed if they are put into another order afterwards.
    let limit = context.limit.filter(|_| context.order.is_none())?;
    Some(skipped.saturating_add(context.offset as u64).saturating_add(limit as u64))
}

/// A `sort` as the first pipe that keeps only some of the lines, or of each group of them, and by
/// which field it chooses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FirstBy {
    /// The stored field, or the time of lines that form groups; fields after it only order rows
    /// that are equal in it.
    pub field: String,
    /// Whether greater values come first.
    pub descending: bool,
    /// Rows that it keeps; of each group, if the rows form any.
    pub count: usize,
    /// The stored fields whose values form groups.
    pub partition: Vec<String>,
}

impl FirstBy {
    /// None where the lines have to be read to choose.
    pub fn of(pipes: &[Pipe], context: &Context) -> Option<FirstBy> {
        let sort = pipes.first()?.get::<Sort>()?;
        let sort = match wanted(&pipes[1..], context) {
            Some(rows) => sort.limited(rows),
            None => sort.clone(),
        };
        let partition = sort.partition.clone();
        let is_column = |name: &String| is_stored(name) || name == TIME && !partition.is_empty();
        let key = sort.keys.first().filter(|key| is_column(&key.name))?;
        let count = sort.rows_kept().filter(|count| *count > 0)?;
        let all_stored = partition.iter().all(|name| is_stored(name));
        let (field, descending) = (key.name.clone(), key.descending);
        all_stored.then_some(FirstBy { field, descending, count, partition })
    }
}

/// The index of the `sort` that keeps the newest of the lines, and the number it keeps.
pub(super) fn newest(pipes: &[Pipe], context: &Context) -> Option<(usize, usize)> {
    by_time(pipes, context, Sort::newest_kept).filter(|_| !context.oldest_first)
}

/// The index of the `sort` that keeps the oldest of the lines, and the number it keeps.
pub(super) fn oldest(pipes: &[Pipe], context: &Context) -> Option<(usize, usize)> {
    by_time(pipes, context, Sort::oldest_kept)
}

/// The index of the first `sort`, if it keeps only so many lines by their time.
fn by_time(
    pipes: &[Pipe],
    context: &Context,
    kept: impl Fn(&Sort) -> Option<usize>,
) -> Option<(usize, usize)> {
    let place = pipes.iter().position(|pipe| !pipe.is_row_wise())?;
    let sort = pipes[place].get::<Sort>()?;
    let sort = match wanted(&pipes[place + 1..], context) {
        Some(rows) => sort.limited(rows),
        None => sort.clone(),
    };
    // The times that the sort sees must be those of the units.
    let keeps_time = pipes[..place].iter().all(|pipe| pipe.keeps_time() && !pipe.moves_time());
    let count = kept(&sort).filter(|_| context.order.is_none() && keeps_time)?;
    Some((place, count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lang::syntax::query::Query;

    #[test]
    fn rows_that_can_get_to_the_client() {
        let check = |text: &str, limit: Option<usize>, expected: Option<u64>| {
            let query = Query::parse(text, 0).unwrap();
            let context = Context { limit, offset: 3, ..Context::default() };
            assert_eq!(wanted(&query.pipes()[1..], &context), expected, "{text} {limit:?}");
        };
        check("* | sort by (a)", None, None);
        check("* | sort by (a)", Some(10), Some(13));
        check("* | sort by (a) | limit 5", Some(10), Some(5));
        check("* | sort by (a) | fields a | offset 2 | limit 5", None, Some(7));
        check("* | sort by (a) | offset 2", Some(10), Some(15));
        check("* | sort by (a) | filter a:1 | limit 5", Some(10), None);
        check("* | sort by (a) | sort by (b) | limit 5", Some(10), None);
        check("* | sort by (a) | unroll (b) | limit 5", None, None);
        check(
            &format!("* | sort by (a) | offset {0} | limit {0}", u64::MAX / 2 + 1),
            None,
            Some(u64::MAX),
        );
    }

    #[test]
    fn the_sort_that_chooses_lines_by_a_field() {
        let check = |text: &str, expected: Option<(&str, bool, usize)>| {
            let query = Query::parse(text, 0).unwrap();
            let found = FirstBy::of(query.pipes(), &Context::default());
            let found = found.as_ref().map(|f| (f.field.as_str(), f.descending, f.count));
            assert_eq!(found, expected, "{text}");
        };
        check("* | sort by (a desc, b) limit 5 offset 2", Some(("a", true, 7)));
        check("* | last 3 by (a, _time)", Some(("a", true, 3)));
        check("* | sort by (a) | fields b | limit 4", Some(("a", false, 4)));
        check("* | sort by (a)", None);
        check("* | sort by (a) limit 0", None);
        check("* | sort by (_time) limit 5", None);
        check("* | sort by (a) partition by (b) limit 5", Some(("a", false, 5)));
        check("* | last 1 by (_time) partition by (b)", Some(("_time", true, 1)));
        check("* | sort by (a) partition by (_stream) limit 5", None);
        check("* | sort by (a) partition by (b)", None);
        check("* | fields a | sort by (a) limit 5", None);
    }

    #[test]
    fn the_sort_that_keeps_the_newest_rows() {
        let check = |text: &str, expected: Option<(usize, usize)>| {
            let query = Query::parse(text, 0).unwrap();
            let found = newest(query.pipes(), &Context::default());
            assert_eq!(found, expected, "{text}");
        };
        check("* | sort by (_time desc) | limit 5", Some((0, 5)));
        check("* | sort by (_time) desc limit 5 offset 2", Some((0, 7)));
        check("* | first 5 by (_time desc)", Some((0, 5)));
        check("* | last 5 by (_time)", Some((0, 5)));
        check("* | filter a:1 | sort by (_time desc, _time) | limit 5", Some((1, 5)));
        check("* | sort by (_time desc)", None);
        check("* | sort by (_time) | limit 5", None);
        check("* | sort by (_time desc, a) | limit 5", None);
        check("* | sort by (_time desc) partition by (a) limit 5", None);
        check("* | sort by (_time desc) limit 0", None);
        check("* | fields a | sort by (_time desc) | limit 5", None);
        check("* | copy a as _time | sort by (_time desc) | limit 5", None);
        check("* | time_add 1h | sort by (_time desc) | limit 5", None);
        check("* | time_add 1h at a | sort by (_time desc) | limit 5", Some((1, 5)));
        check("* | extract 'at <_time> ' | sort by (_time desc) | limit 5", None);
        check("* | lookup t on a fields (_time) | sort by (_time desc) | limit 5", None);
        check("* | lookup t on a fields (time) prefix '_' | last 5 by (_time)", None);
        check("* | lookup t on a fields (time) | last 5 by (_time)", Some((1, 5)));
        check("* | limit 9 | sort by (_time desc) | limit 5", None);
        check("* | stats by (_time:1m) count() | sort by (_time desc) | limit 5", None);
    }

    #[test]
    fn the_sort_that_keeps_the_oldest_rows() {
        let check = |text: &str, expected: Option<(usize, usize)>| {
            let query = Query::parse(text, 0).unwrap();
            let found = oldest(query.pipes(), &Context::default());
            assert_eq!(found, expected, "{text}");
        };
        check("* | sort by (_time) | limit 5", Some((0, 5)));
        check("* | first 5 by (_time)", Some((0, 5)));
        check("* | filter a:1 | sort by (_time) offset 2 limit 5", Some((1, 7)));
        check("* | sort by (_time)", None);
        check("* | sort by (_time desc) | limit 5", None);
        check("* | sort by (_time, a) | limit 5", None);
        check("* | copy a as _time | sort by (_time) | limit 5", None);
        check("* | time_add -1h | sort by (_time) | limit 5", None);
    }
}
