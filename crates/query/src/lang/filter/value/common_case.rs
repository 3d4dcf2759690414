//! `contains_common_case("VictoriaMetrics")`: the value contains the word or phrase as written, all
//! in upper case, or with any of its capitals in lower case; `equals_common_case(…)`: the whole
//! value is one of these spellings. Of several phrases one is enough.
//!
//! So this finds `VictoriaMetrics`, `VICTORIAMETRICS`, `victoriametrics`, `Victoriametrics` and
//! `victoriaMetrics`, but not `vICTORIAmETRICS`. Letters whose other case is more than one
//! character are not changed.

use super::{Matches, Needed, Test, any_case, parse_values};
use crate::base::Pulse;
use crate::base::names::NamePattern;
use crate::lang::filter::Filter;
use crate::lang::syntax::cursor::Cursor;
use crate::lang::syntax::error::ParseError;

/// Spellings up to which a unit is checked for all of them before it is read. With more, this test
/// rules out no unit.
const NEEDED_SPELLINGS_MAX: usize = 32;

pub(in crate::lang::filter) fn parse(
    cursor: &mut Cursor<'_>,
    field: &NamePattern,
    function: &str,
) -> Result<Filter, ParseError> {
    let position = cursor.position();
    let whole = function == "equals_common_case";
    match parse_values(cursor, function)? {
        Some(phrases) => {
            let mut finders = phrases.iter().filter(|_| !whole);
            let too_many = finders.try_for_each(|phrase| cursor.regexes.take_text(phrase));
            too_many.map_err(|message| cursor.error_at(position, &[], message))?;
            Ok(field.filter(Test::CommonCase { phrases, whole }))
        }
        None => {
            let message = format!("{function}(…) does not accept \"*\"");
            Err(cursor.error_at(position, &["words and \"phrases\""], message))
        }
    }
}

fn upper(c: char) -> char {
    let mut upper = c.to_uppercase();
    upper.next().filter(|_| upper.next().is_none()).unwrap_or(c)
}

fn lower(c: char) -> char {
    let mut lower = c.to_lowercase();
    lower.next().filter(|_| lower.next().is_none()).unwrap_or(c)
}

/// Whether `found` is one of the spellings of `phrase`.
fn accepts(phrase: &str, found: &[u8]) -> bool {
    let Ok(found) = std::str::from_utf8(found) else { return false };
    found.chars().eq(phrase.chars().map(upper))
        || found.chars().count() == phrase.chars().count()
            && phrase.chars().zip(found.chars()).all(|(p, f)| f == p || f == lower(p))
}

/// All spellings of a phrase; none if there are too many.
fn spellings(phrase: &str) -> Option<Vec<String>> {
    let mut all = vec![String::new()];
    for c in phrase.chars() {
        let small: Vec<String> = match lower(c) {
            small if small != c => all.iter().map(|start| format!("{start}{small}")).collect(),
            _ => Vec::new(),
        };
        all.iter_mut().for_each(|start| start.push(c));
        all.extend(small);
        if all.len() >= NEEDED_SPELLINGS_MAX {
            return None;
        }
    }
    all.push(phrase.chars().map(upper).collect());
    Some(all)
}

pub(super) fn needed(phrases: &[String]) -> Needed {
    if phrases.iter().any(String::is_empty) {
        return Needed::default();
    }
    let spellings: Option<Vec<_>> = phrases.iter().map(|phrase| spellings(phrase)).collect();
    match spellings.map(|s| s.concat()) {
        Some(spellings) if spellings.len() <= NEEDED_SPELLINGS_MAX => {
            Needed::any_of(spellings.iter().map(|text| Needed::one(text, true, true)))
        }
        _ => Needed::default(),
    }
}

pub(in crate::lang::filter) struct Matcher {
    /// The phrases, each with its search regardless of case; without one if the whole value has to
    /// be the phrase.
    phrases: Vec<(String, Option<any_case::Matcher>)>,
}

impl Matcher {
    pub fn new(phrases: &[String], whole: bool) -> Matcher {
        let finder = |phrase: &String| {
            let part = !whole && !phrase.is_empty();
            (phrase.clone(), part.then(|| any_case::Matcher::new(phrase, false)))
        };
        Matcher { phrases: phrases.iter().map(finder).collect() }
    }
}

impl Matches for Matcher {
    fn cost(&self) -> u32 {
        20 * self.phrases.len() as u32
    }

    fn passes(&self, value: &[u8], pulse: &Pulse<'_>) -> bool {
        self.phrases.iter().any(|(phrase, finder)| match finder {
            None => pulse.may_continue(value.len()) && accepts(phrase, value),
            Some(finder) => finder.any(value, pulse, |found| accepts(phrase, found)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lang::filter::tests::{check, check_fields};

    #[test]
    fn common_spellings() {
        let spellings = [
            "VictoriaMetrics",
            "VICTORIAMETRICS",
            "victoriametrics",
            "Victoriametrics",
            "victoriaMetrics",
        ];
        check(
            "equals_common_case(VictoriaMetrics)",
            &spellings,
            &["vICTORIAMETRICS", "VictoriaMetrics!"],
        );
        let inside = spellings.map(|s| format!("a {s}: b"));
        check(
            "contains_common_case(VictoriaMetrics)",
            &inside.each_ref().map(String::as_str),
            &["VictoriaMetricsX", "vICTORIAMETRICS", "Victoria Metrics"],
        );
        check("contains_common_case(err, warn)", &["ERR x", "a warn"], &["Err", "errors"]);
        check("contains_common_case(Err)", &["errors, Err", "eRR ERR"], &["eRR", "erR"]);
        check("equals_common_case(Ärger)", &["ärger", "ÄRGER", "Ärger"], &["äRGER"]);
        check_fields("x:contains_common_case(\"\")", &[], true);
        check_fields("x:contains_common_case(\"\")", &[("x", "a")], false);
    }

    #[test]
    fn all_spellings_are_needed_up_to_the_limit() {
        let texts = |phrases: &[&str]| {
            let phrases: Vec<String> = phrases.iter().map(|p| p.to_string()).collect();
            let texts: Vec<String> = needed(&phrases).phrases.into_iter().map(|p| p.text).collect();
            texts
        };
        assert_eq!(texts(&["Ab"]), ["Ab", "ab", "AB"]);
        assert_eq!(texts(&["ABCDEF"]), [""; 0]);
        assert_eq!(texts(&["a", ""]), [""; 0]);
    }
}
