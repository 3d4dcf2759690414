//! Asks units which words they may hold, and whose lines. By the answers, units are skipped and
//! tests are ruled out, without reading the units.

use crate::base::SourceError;
#[cfg(doc)]
use crate::lang::filter::tests_of;
use crate::lang::source::ScanUnit;
use crate::plan::needs::{Needs, RuledOut};

/// What the words of a unit rule out.
pub(crate) fn ruled_out(needs: &Needs, unit: &dyn ScanUnit) -> Result<RuledOut, SourceError> {
    if unit.tenant().is_some_and(|tenant| needs.rules_out(tenant)) {
        return Ok(RuledOut { unit: true, tests: Vec::new() });
    }
    if needs.phrases().all().is_empty() {
        return Ok(RuledOut::default());
    }
    let held = unit.may_hold(needs.phrases())?;
    Ok(held.map(|held| needs.ruled_out(&held)).unwrap_or_default())
}

/// For each [test](tests_of) of the filter, the ascending indexes of those of `units` that may hold
/// a value that passes it; none where this is unknown of a unit.
pub(crate) fn open_units(
    needs: &Needs,
    units: &[&dyn ScanUnit],
) -> Result<Option<Vec<Vec<usize>>>, SourceError> {
    if needs.phrases().all().is_empty() {
        return Ok(None);
    }
    let mut open = vec![Vec::new(); needs.tests()];
    for (index, unit) in units.iter().enumerate() {
        let Some(held) = unit.may_hold(needs.phrases())? else { return Ok(None) };
        for (open, may_pass) in open.iter_mut().zip(needs.passing(&held)) {
            if may_pass {
                open.push(index);
            }
        }
    }
    Ok(Some(open))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use record::Batch;

    use super::*;
    use crate::base::{Phrase, Phrases};
    use crate::lang::syntax::query::Query;

    /// A unit that holds only these words.
    struct Words(&'static [&'static str]);

    impl ScanUnit for Words {
        fn time_range_ns(&self) -> Option<(i64, i64)> {
            None
        }
        fn lines(&self) -> u64 {
            1
        }
        fn bytes(&self) -> u64 {
            1
        }
        fn load(&self) -> Result<Option<Arc<Batch>>, SourceError> {
            panic!("it is not read")
        }
        fn may_hold(&self, phrases: &Phrases) -> Result<Option<Vec<bool>>, SourceError> {
            let held = |phrase: &Phrase| self.0.contains(&phrase.text.as_str());
            Ok(Some(phrases.all().iter().map(held).collect()))
        }
    }

    #[test]
    fn tests_that_no_value_passes_are_known() {
        let check = |query: &str, expected: &[bool]| {
            let query = Query::parse(query, 0).unwrap();
            let found = ruled_out(&Needs::new(query.filter()), &Words(&["a", "b"]));
            assert_eq!(found.unwrap().tests, expected, "{query:?}");
        };
        check("*", &[]);
        check("!x", &[true]);
        check("!a", &[false]);
        check("a !(x or b)", &[false, true, false]);
        check("_time:5m x or level:>5 !*:x", &[true, false, true]);
        check("_line:q !x", &[true]);
        // The whole unit is skipped, so no test is ruled out.
        check("x", &[]);
    }

    #[test]
    fn units_without_the_words_are_left_out() {
        let check = |query: &str, expected: bool| {
            let query = Query::parse(query, 0).unwrap();
            let found = ruled_out(&Needs::new(query.filter()), &Words(&["a", "b"]));
            assert_eq!(!found.unwrap().unit, expected, "{query:?}");
        };
        check("*", true);
        check("a", true);
        check("x", false);
        check("a b", true);
        check("a x", false);
        check("a or x", true);
        check("x or y", false);
        check("(x or a) b", true);
        check("(x or y) b", false);
        check("a (x or !y)", true);
        check("!x", true);
        check("x or level:>5", true);
        check("app_name:=x", false);
        check("app_name:in(x)", false);
        check("app_name:in(x,y)", false);
        check("app_name:in(x,a)", true);
        check("app_name:in(x,\"\")", true);
        check("app_name:\"\"", true);
        check("_stream:x", true);
        check("_line:x", true);
        check("~x", false);
        check("~a", true);
        check("~\"x|y\"", true);
        check("i(x)", true);
        check("*x*", false);
        check("x*", false);
        check("seq(a, x)", false);
        check("seq(a, b)", true);
        check("*:x", false);
        check("*:a", true);
        check("k8s*:x or *:a", true);
        check("k8s*:=x *:a", false);
        check("*:i(x)", true);
    }
}
