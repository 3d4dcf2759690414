//! Whether a query reads its lines as vectors of values: pipes that compute numbers, then one that
//! takes vectors.
//!
//! Left out: groups and conditions by computed numbers, and computed fields of lines apart from the
//! time.

use crate::base::FieldSet;
use crate::base::names::{TIME, is_stored};
use crate::lang::filter::Filter;
use crate::lang::pipe::{ComputesNumbers, Pipe, VectorsRead};
use crate::lang::syntax::query::Query;

/// How a query reads vectors.
pub(crate) struct VectorPlan<'q> {
    /// Index of the pipe that takes them.
    pub place: usize,
    /// The pipes before it.
    pub computing: Vec<&'q dyn ComputesNumbers>,
    /// What it reads.
    pub read: VectorsRead<'q>,
}

impl<'q> VectorPlan<'q> {
    /// None where rows have to be read.
    pub fn of(query: &'q Query) -> Option<VectorPlan<'q>> {
        let pipes = query.pipes();
        let computing: Vec<_> = pipes.iter().map_while(Pipe::computes_numbers).collect();
        let place = computing.len();
        let read = pipes.get(place)?.vectors_read()?;
        let mut computed: Vec<&str> = Vec::new();
        let is_computed = |computed: &[&str], name: &str| computed.contains(&name);
        for pipe in &computing {
            let is_read =
                |name: &&str| is_computed(&computed, name) || is_stored(name) || *name == TIME;
            if !pipe.read().iter().all(is_read) {
                return None;
            }
            computed.extend(pipe.computed());
        }
        let tests_computed = |filter: &Filter| {
            let mut tested = FieldSet::none();
            filter.add_fields(&mut tested);
            computed.iter().any(|name| tested.contains(name))
        };
        let is_read = |field: &String| is_computed(&computed, field) || is_stored(field);
        let reads = read.functions.iter().all(|function| {
            function.field.as_ref().is_none_or(is_read)
                && !function.filter.is_some_and(tests_computed)
        });
        let grouped = read.by.iter().any(|name| is_computed(&computed, name))
            || is_computed(&computed, TIME) && read.bucket_ns.is_some();
        (reads && !grouped).then_some(VectorPlan { place, computing, read })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_fields_and_numbers_are_vectors() {
        let check = |text: &str, place: Option<usize>| {
            let query = Query::parse(text, 0).unwrap();
            assert_eq!(VectorPlan::of(&query).map(|plan| plan.place), place, "{text}");
        };
        check("* | stats sum(a)", Some(0));
        check(
            "a:b | stats by (c, _time:5m, d:10) count(), max(a) if (e:f), count_uniq(g)",
            Some(0),
        );
        check(
            "* | math a / b as c, c * _time as d | math d + 1 as e | stats sum(e), avg(a)",
            Some(2),
        );
        check("* | math a + 1 as a | stats by (b) sum(a)", Some(1));
        check("* | math a + 1 as b | stats by (b) count()", None);
        check("* | math a + 1 as b | stats count() if (b:>2)", None);
        check("* | math a + 1 as _time | stats by (_time:1s) count()", None);
        check("* | math _received + 1 as b | stats sum(b)", None);
        check("* | stats by (_time) sum(a)", None);
        check("* | stats by (_stream) sum(a)", None);
        check("* | stats sum(_time)", None);
        check("* | stats sum(a, b)", None);
        check("* | stats sum(a*)", None);
        check("* | stats sum(a), values(b)", None);
        check("* | fields a | stats sum(a)", None);
        check("* | math a + 1 as b", None);
    }
}
