//! All mistakes of a configuration file at once.
//!
//! Reading and checking stop at the first mistake. Here each mistake is noted, the value that it
//! names is left out, and the rest is read and checked again, until nothing is refused. So the
//! checks themselves stay as simple as they are. A message that only follows from a value that was
//! left out, such as a certificate whose key had a mistake, is not shown.
//!
//! Left out: text that is no TOML is not checked further, since a broken heading moves the keys
//! behind it into another table.

use std::ops::Range;

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue, Deserializer};

use crate::config::raw::explain;
use crate::config::{Config, RawConfig, located};

/// The most mistakes that are shown of one file; the message about the last one says that there may
/// be more.
const MISTAKES_MAX: usize = 100;

/// A mistake, and the line of the file where it is; `None` if no line can be told.
#[derive(Debug, PartialEq, Eq)]
pub struct Mistake {
    /// The line, from 1.
    pub line: Option<usize>,
    /// What is wrong, and what to write instead.
    pub message: String,
}

/// A file that was checked.
pub struct Checked {
    /// What is wrong with it, in the order of its lines.
    pub mistakes: Vec<Mistake>,
    /// The settings without the values that have mistakes; `None` if the rest cannot be used.
    pub config: Option<Config>,
}

/// A key, or the place of an element.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Key(String),
    Element(usize),
}

/// Checks the text of a file.
pub fn check(text: &str) -> Checked {
    let (mut table, errors) = DeTable::parse_recoverable(text);
    let line_of = |at: usize| 1 + text[..floor(text, at)].matches('\n').count();
    let mut mistakes = Vec::new();
    if !errors.is_empty() {
        for error in errors.iter().take(MISTAKES_MAX) {
            let line = error.span().map(|span| line_of(span.start));
            mistakes.push(Mistake { line, message: error.message().to_owned() });
        }
        return Checked { mistakes: in_order(mistakes), config: None };
    }
    // Names of values that were left out, and the elements that lost a key.
    let (mut left_out, mut lost_key): (Vec<String>, Vec<Vec<Step>>) = (Vec::new(), Vec::new());
    let config = loop {
        let (at, message, path) = match RawConfig::deserialize(Deserializer::from(table.clone())) {
            Err(error) => {
                let found = error.span().and_then(|span| path_to_span(table.get_ref(), &span));
                let is_unknown = error.message().starts_with("unknown field");
                let follows = error.message().starts_with("missing field")
                    && found.as_ref().is_some_and(|path| lost_key.contains(path));
                let path = found.map(|path| match is_unknown {
                    true => path,
                    false => whole_element(path),
                });
                if let (true, Some(path)) = (is_unknown, &path)
                    && whole_element(path.clone()) != *path
                {
                    lost_key.push(whole_element(path.clone()));
                }
                let message = (!follows).then(|| explain(&error));
                (error.span().map(|span| span.start), message, path)
            }
            Ok(raw) => match Config::try_from(raw) {
                Ok(config) => break Some(config),
                Err(error) => {
                    let said = format!("{error:#}");
                    let at = located::offset(table.get_ref(), &said);
                    let path = match at {
                        // Which of several is meant, the message does not say.
                        Some(None) => first_key(&said).map(|key| vec![Step::Key(key)]),
                        at => at
                            .flatten()
                            .and_then(|at| path_to_offset(table.get_ref(), at))
                            .map(whole_element),
                    };
                    let follows = left_out.iter().any(|name| mentions(&said, name));
                    (at.flatten(), (!follows).then_some(said), path)
                }
            },
        };
        let is_last = mistakes.len() + 1 == MISTAKES_MAX;
        if let Some(mut message) = message {
            if path.is_none() || is_last {
                message.push_str(" (what else is wrong shows once this is mended)");
            }
            mistakes.push(Mistake { line: at.map(line_of), message });
        }
        let Some(path) = path.filter(|_| !is_last) else { break None };
        left_out.extend(dotted(&path));
        if !remove(table.get_mut(), &path) {
            break None;
        }
    };
    Checked { mistakes: in_order(mistakes), config }
}

fn in_order(mut mistakes: Vec<Mistake>) -> Vec<Mistake> {
    mistakes.sort_by_key(|mistake| mistake.line.unwrap_or(usize::MAX));
    mistakes.dedup();
    mistakes
}

/// The largest boundary of characters up to `at`.
fn floor(text: &str, at: usize) -> usize {
    (0..=at.min(text.len())).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0)
}

/// The path without what is behind the last element of an array: an element with a mistake is left
/// out as a whole.
fn whole_element(mut path: Vec<Step>) -> Vec<Step> {
    let last = path.iter().rposition(|step| matches!(step, Step::Element(_)));
    if let Some(last) = last {
        path.truncate(last + 1);
    }
    path
}

/// The name of a value outside arrays, as messages write it. A single word may be a word of any
/// message.
fn dotted(path: &[Step]) -> Option<String> {
    let key = |step: &Step| match step {
        Step::Key(key) => Some(key.clone()),
        Step::Element(_) => None,
    };
    let name = path.iter().map(key).collect::<Option<Vec<_>>>()?.join(".");
    name.contains(['.', '_']).then_some(name)
}

/// Whether a message names a key.
fn mentions(message: &str, name: &str) -> bool {
    let is_key = |c: char| c.is_ascii_alphanumeric() || "_-.".contains(c);
    message.split(|c| !is_key(c)).any(|word| word.trim_end_matches('.') == name)
}

fn first_key(message: &str) -> Option<String> {
    let is_key = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    message.split(|c| !is_key(c)).next().filter(|key| !key.is_empty()).map(str::to_owned)
}

/// The key or value with that span.
fn path_to_span(table: &DeTable<'_>, span: &Range<usize>) -> Option<Vec<Step>> {
    find(table, &|key, value| key.as_ref() == Some(span) || value == *span)
}

/// The key that begins there, or the element of an array.
fn path_to_offset(table: &DeTable<'_>, at: usize) -> Option<Vec<Step>> {
    find(table, &|key, value| key.map_or(value.start, |key| key.start) == at)
}

type Wanted<'a> = &'a dyn Fn(Option<Range<usize>>, Range<usize>) -> bool;

fn find(table: &DeTable<'_>, wanted: Wanted<'_>) -> Option<Vec<Step>> {
    table.iter().find_map(|(key, value)| {
        let step = Step::Key(key.get_ref().to_string());
        find_below(step, Some(key.span()), value, wanted)
    })
}

fn find_below(
    step: Step,
    key: Option<Range<usize>>,
    value: &Spanned<DeValue<'_>>,
    wanted: Wanted<'_>,
) -> Option<Vec<Step>> {
    // What is inside comes first: an array has the span of its first table.
    let below = match value.get_ref() {
        DeValue::Table(table) => find(table, wanted),
        DeValue::Array(array) => array
            .iter()
            .enumerate()
            .find_map(|(place, value)| find_below(Step::Element(place), None, value, wanted)),
        _ => None,
    };
    match below {
        Some(below) => Some(std::iter::once(step).chain(below).collect()),
        None => wanted(key, value.span()).then(|| vec![step]),
    }
}

/// Removes a key or an element; false if there is none.
fn remove(table: &mut DeTable<'_>, path: &[Step]) -> bool {
    match path {
        [Step::Key(key)] => table.remove(key.as_str()).is_some(),
        [Step::Key(key), rest @ ..] => {
            table.get_mut(key.as_str()).is_some_and(|value| remove_below(value.get_mut(), rest))
        }
        _ => false,
    }
}

fn remove_below(value: &mut DeValue<'_>, path: &[Step]) -> bool {
    match (value, path) {
        (DeValue::Table(table), path) => remove(table, path),
        (DeValue::Array(array), [Step::Element(place), rest @ ..]) if *place < array.len() => {
            if rest.is_empty() {
                let others = array.iter().enumerate().filter(|(other, _)| other != place);
                *array = others.map(|(_, value)| value.clone()).collect();
                return true;
            }
            array.get_mut(*place).is_some_and(|value| remove_below(value.get_mut(), rest))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_mistakes_are_told_at_once() {
        let check = |text: &str, expected: &[(usize, &str)]| {
            let found = check(text).mistakes;
            let lines: Vec<_> = found.iter().map(|m| m.line.unwrap_or(0)).collect();
            let wanted: Vec<_> = expected.iter().map(|(line, _)| *line).collect();
            assert_eq!(lines, wanted, "{text}\n{found:#?}");
            for (mistake, (_, part)) in found.iter().zip(expected) {
                assert!(mistake.message.contains(part), "{text}\n{found:#?}");
            }
        };
        check("", &[]);
        check("data_dir = 'x'\n[query]\nrun_max = '7s'\n", &[]);
        check(
            "http_lisen = ':1'\nquery.run_max = '7'\n[retention]\nage = 1\nbytes = 'much'\n\
             [store]\nsegment_bytes_max = '1kB'\n",
            &[
                (1, "did you mean 'http_listen'?"),
                (2, "query.run_max: '7'"),
                (4, "invalid type: integer"),
                (5, "retention.bytes: 'much'"),
                (7, "store.segment_bytes_max must be"),
            ],
        );
        // Each element of an array is looked at.
        check(
            "[[retention.rules]]\nfilter = '('\nage = '1d'\n\
             [[retention.rules]]\nfilter = 'a'\nage = '1d'\n\
             [[retention.rules]]\nfilter = 'b'\nage = 'soon'\n\
             [[users]]\nnmae = 'a'\nrole = 'read'\n\
             [[users]]\nname = 'b'\nrole = 'root'\npassword_hash = 'x'\n",
            &[
                (2, "the filter '('"),
                (9, "retention.rules.age: 'soon'"),
                (11, "did you mean 'name'?"),
                (16, "users: b: the password_hash"),
            ],
        );
        // What follows from another mistake is not told.
        check("[tls]\ncertificate = 'c'\nkey = 7\n", &[(3, "invalid type")]);
        check("[tls]\ncertificate = 'c'\n", &[(2, "tls.certificate needs tls.key")]);
        check(
            "[[files]]\npaths = []\n[[files]]\npaths = []\n[query]\npages_max = 0\n",
            &[(6, "query.pages_max"), (0, "files.paths is empty")],
        );
        check(
            "http_listen = 'off'\nstore.backlog_bytes_max = 'ü'\n",
            &[(1, "http_listen cannot be off"), (2, "store.backlog_bytes_max: 'ü'")],
        );
    }

    #[test]
    fn text_that_is_no_toml_is_not_checked_further() {
        let checked = check("query.run_max = '7'\na = \n[store\nx = 1\n");
        assert!(checked.config.is_none());
        assert_eq!(checked.mistakes.first().and_then(|mistake| mistake.line), Some(2));
        assert!(checked.mistakes.iter().all(|mistake| !mistake.message.contains("run_max")));
    }

    #[test]
    fn the_number_of_mistakes_is_limited() {
        let text = (0..2 * MISTAKES_MAX).fold(String::new(), |text, i| text + &format!("x{i}=1\n"));
        let checked = check(&text);
        assert_eq!(checked.mistakes.len(), MISTAKES_MAX);
        assert!(checked.mistakes.iter().any(|m| m.message.contains("once this is mended")));
        assert!(checked.config.is_none());
    }

    #[test]
    fn text_that_is_cut_anywhere_does_not_panic() {
        let text =
            "[query]\nrun_max = 'ü'\n[[users]]\nname = 'a'\n[x.'y']\nz = { a = [1, {b = 2}] }\n";
        for (cut, _) in text.char_indices() {
            check(&text[..cut]);
            check(&text[cut..]);
        }
    }
}
