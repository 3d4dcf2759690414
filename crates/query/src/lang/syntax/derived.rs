//! Fields that lines of a type do not hold: other names of their fields, and numbers computed from
//! them. They are computed where a query names them, and stored nowhere.
//!
//! A query that names one is rewritten when it is parsed. In its filter, a test of another name
//! becomes a test of the field itself, for lines of the type that have no field of that name:
//! `client:x` becomes `(client:* client:x) or (client:"" (_type:=access client_ip:x or …))`, so it
//! is found by words as before. In front of the first pipe whose text has the name, a pipe gives
//! the field its value. A line that holds a field of that name keeps it.
//!
//! Left out, and refused by name: computed numbers in the filter of a query, which would have to
//! be computed for every line before anything is left out (`| filter …` tests them); comparisons
//! of two fields, and queries inside filters, of such a field. Left out, and not seen: tests of any
//! field (`*:x`), and the lists of fields, values and facets, which name fields without a query.
//!
//! Limit: [`DERIVED_MAX`].

use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use text::quoted::quote;

use crate::lang::filter::{Filter, Test};
use crate::lang::pipe::{Math, Pipe};
use crate::lang::syntax::cursor::is_word_char;
use crate::lang::syntax::macros::Callable;
use crate::lang::syntax::query::{PIPES_MAX, Query};

/// Derived fields of a configuration. One with more is refused.
///
/// limits.md, Queries: other names of fields, and computed ones (`[[fields]]`) | {} | the
/// configuration is refused
pub const DERIVED_MAX: usize = 200;
/// Longest name of a derived field, and of its type.
const NAME_BYTES_MAX: usize = 128;
/// Holds a computed number until it is known whether the line needs it.
const HELD: &str = "_derived";

/// A field of the lines of a type.
#[derive(Clone, Debug)]
pub struct DerivedField {
    log_type: String,
    name: String,
    /// The field that it is another name of; none: it is computed.
    alias_of: Option<String>,
    /// What gives rows the field.
    pipes: Vec<Pipe>,
}

impl DerivedField {
    /// Another name of the field `of`.
    pub fn alias(log_type: &str, name: &str, of: &str) -> Result<DerivedField, String> {
        check_names(log_type, name)?;
        if of.is_empty() || of == name || of.len() > NAME_BYTES_MAX || of.contains(['<', '>']) {
            return Err(format!("{name}: '{of}' is no field that it could be another name of"));
        }
        let text = format!(
            "* | format if ({name}:\"\" _type:={}) {} as {name}",
            quote(log_type),
            quote(&format!("<{of}>"))
        );
        let pipes = pipes(&text, 0)?;
        let alias_of = Some(of.to_owned());
        Ok(DerivedField { log_type: log_type.to_owned(), name: name.to_owned(), alias_of, pipes })
    }

    /// A number, by an expression of the pipe `math`.
    pub fn computed(log_type: &str, name: &str, math: &str) -> Result<DerivedField, String> {
        check_names(log_type, name)?;
        let text = format!("* | math ({math}) as {HELD}");
        let wrong = |why: &str| format!("{name}: '{math}' is no expression of math: {why}");
        let mut computing = pipes(&text, 0).map_err(|error| wrong(&error))?;
        let is_one = |math: &Math| math.entries.len() == 1 && math.entries[0].result == HELD;
        if computing.len() != 1 || !computing[0].get::<Math>().is_some_and(is_one) {
            return Err(wrong("it is more than one"));
        }
        let later = pipes(&text, 1).map_err(|error| wrong(&error))?;
        if later != computing {
            return Err(wrong("it depends on the time of the query"));
        }
        computing.extend(pipes(
            &format!(
                "* | format if ({name}:\"\" _type:={} !{HELD}:=NaN) \"<{HELD}>\" as {name} | delete {HELD}",
                quote(log_type)
            ),
            0,
        )?);
        let (log_type, name) = (log_type.to_owned(), name.to_owned());
        Ok(DerivedField { log_type, name, alias_of: None, pipes: computing })
    }

    /// The type of lines that have it.
    pub fn log_type(&self) -> &str {
        &self.log_type
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

fn check_names(log_type: &str, name: &str) -> Result<(), String> {
    let is_plain = name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.')
        && name.len() <= NAME_BYTES_MAX;
    let reserved = ["and", "or", "not", "as", "by", "in", "if", "limit", "offset", "with"];
    if !is_plain || reserved.iter().any(|word| name.eq_ignore_ascii_case(word)) {
        return Err(format!(
            "'{name}' is no name for a derived field; use letters, digits, _ and ., and begin with a letter"
        ));
    }
    match log_type.is_empty() || log_type.len() > NAME_BYTES_MAX {
        true => Err(format!("{name}: '{log_type}' is no type of lines")),
        false => Ok(()),
    }
}

fn pipes(text: &str, now_ns: i64) -> Result<Vec<Pipe>, String> {
    let query = Query::parse_with(text, now_ns, Callable::None).map_err(|error| error.message)?;
    Ok(query.pipes)
}

static DERIVED: LazyLock<RwLock<Arc<Vec<DerivedField>>>> = LazyLock::new(RwLock::default);

/// The derived fields that queries know.
pub fn derived() -> Arc<Vec<DerivedField>> {
    Arc::clone(&DERIVED.read().unwrap_or_else(PoisonError::into_inner))
}

/// From now on, queries know these derived fields.
pub fn set_derived(fields: Vec<DerivedField>) {
    *DERIVED.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(fields);
}

/// Rewrites a query so that the derived fields which it names have their values. The error says
/// where one cannot be used.
pub(crate) fn derive(
    fields: &[DerivedField],
    filter: &mut Filter,
    pipes: &mut Vec<Pipe>,
) -> Result<(), String> {
    if fields.is_empty() {
        return Ok(());
    }
    rewrite(fields, filter)?;
    for field in fields {
        let Some(place) = pipes.iter().position(|pipe| names(pipe, &field.name)) else { continue };
        if let Some(why) = pipes[place].first_because() {
            return Err(format!("{} is derived, and cannot be used here: {why}", field.name));
        }
        if pipes.len() + field.pipes.len() > 2 * PIPES_MAX {
            return Err(format!("the query names too many derived fields for {PIPES_MAX} pipes"));
        }
        pipes.splice(place..place, field.pipes.iter().cloned());
    }
    Ok(())
}

/// Whether the text of a pipe has the name as a word. A pipe that writes such a field, or has it as
/// a value, gets it for nothing.
fn names(pipe: &Pipe, name: &str) -> bool {
    let text = pipe.to_string();
    text.match_indices(name).any(|(at, _)| {
        let goes_on = |c: char| is_word_char(c) || c == '.';
        !text[..at].ends_with(goes_on) && !text[at + name.len()..].starts_with(goes_on)
    })
}

fn rewrite(fields: &[DerivedField], filter: &mut Filter) -> Result<(), String> {
    let is_derived = |name: &str| fields.iter().any(|field| field.name == name);
    match filter {
        Filter::And(filters) | Filter::Or(filters) => {
            filters.iter_mut().try_for_each(|filter| rewrite(fields, filter))
        }
        Filter::Not(filter) => rewrite(fields, filter),
        Filter::Field { name, test } if is_derived(name) => {
            let own: Vec<&DerivedField> =
                fields.iter().filter(|field| field.name == *name).collect();
            *filter = of_alias(&own, name, test)?;
            Ok(())
        }
        Filter::Fields { left, right, .. } => {
            match [left, right].into_iter().find(|n| is_derived(n)) {
                Some(name) => {
                    Err(format!("{name} is derived, and cannot be compared with a field here"))
                }
                None => Ok(()),
            }
        }
        Filter::Subquery(subquery)
            if !subquery.field.prefix && is_derived(&subquery.field.name) =>
        {
            let name = &subquery.field.name;
            Err(format!("{name} is derived, and cannot be tested against the values of a query"))
        }
        _ => Ok(()),
    }
}

fn of_alias(own: &[&DerivedField], name: &str, test: &Test) -> Result<Filter, String> {
    let not = |filter: Filter| Filter::Not(Box::new(filter));
    let empty = || Filter::field(name, Test::Phrase(String::new()));
    let mut types = Vec::with_capacity(own.len());
    let mut values = Vec::with_capacity(own.len() + 1);
    for field in own {
        let Some(of) = &field.alias_of else {
            return Err(format!(
                "{name} is computed from other fields; test it behind the filter, as in: | filter {name}:…"
            ));
        };
        let of_type = || Filter::field("_type", Test::Exact(field.log_type.clone()));
        types.push(of_type());
        values.push(Filter::and(vec![of_type(), Filter::field(of, test.clone())]));
    }
    let itself = || Filter::field(name, test.clone());
    values.push(Filter::and(vec![not(Filter::or(types)), itself()]));
    Ok(Filter::or(vec![
        Filter::and(vec![not(empty()), itself()]),
        Filter::and(vec![empty(), Filter::or(values)]),
    ]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lang::context::Context;
    use crate::lang::syntax::cursor::Cursor;
    use crate::lang::syntax::macros::Expansion;
    use crate::testing::{Memory, collect, record};

    fn parse(text: &str) -> Result<Query, String> {
        let mut cursor = Cursor::new(text, 0);
        cursor.expansion = Expansion::with(Vec::new());
        cursor.expansion.derived = Arc::new(vec![
            DerivedField::alias("access", "client", "client_ip").unwrap(),
            DerivedField::alias("sshd", "client", "rhost").unwrap(),
            DerivedField::computed("access", "total", "upstream + queue").unwrap(),
        ]);
        Query::parse_whole(&mut cursor).map_err(|error| error.message)
    }

    fn lines() -> Memory {
        let record = |fields: &[(&str, &str)]| record(1, fields);
        Memory::of(&[
            record(&[("_type", "access"), ("client_ip", "a"), ("upstream", "3"), ("queue", "4")]),
            record(&[("_type", "access"), ("client_ip", "b"), ("upstream", "x"), ("queue", "4")]),
            record(&[("_type", "access"), ("client_ip", "a"), ("client", "own"), ("total", "9")]),
            record(&[("_type", "sshd"), ("rhost", "a"), ("client_ip", "z"), ("upstream", "3")]),
            record(&[("_type", "other"), ("client_ip", "a"), ("rhost", "a")]),
            record(&[("_type", "other"), ("client", "a")]),
        ])
    }

    fn count(text: &str) -> usize {
        let query = parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let (rows, outcome) = collect(&query, &lines(), &Context::default());
        outcome.unwrap_or_else(|error| panic!("{text}: {error}"));
        rows.len()
    }

    #[test]
    fn other_names_find_the_lines_of_their_types() {
        for (text, expected) in [
            ("client:=a", 3),
            ("!client:=a", 3),
            ("client:=own", 1),
            ("client:=z", 0),
            ("client:\"\"", 1),
            ("client:*", 5),
            ("client_ip:=a", 3),
            ("client:in(a, b) _type:=access", 2),
            ("* | filter client:=a", 3),
            ("* | stats by (client) count() n | filter n:=3 client:=a", 1),
            ("* | stats by (client) count() n", 4),
            ("* | filter total:>=7", 2),
            ("* | filter total:*", 2),
            ("* | filter total:=7", 1),
            ("client:=a | filter total:=7", 1),
            ("client_ip:in(client:=own | fields client_ip)", 3),
        ] {
            assert_eq!(count(text), expected, "{text}");
        }
        // What names none stays as it is.
        for text in ["clients:a | sort by (client_ip)", "* | fields sub.client, client.sub"] {
            assert_eq!(parse(text).unwrap(), Query::parse(text, 0).unwrap(), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_derived_is_refused_by_name() {
        for (wrong, message) in [
            ("total:>5", "total is computed"),
            ("x or !total:>5", "| filter total:"),
            ("client:eq_field(a)", "client is derived"),
            ("a:lt_field(client)", "client is derived"),
            ("client:in(* | fields a)", "values of a query"),
        ] {
            let error = parse(wrong).expect_err(wrong);
            assert!(error.contains(message), "{wrong}: {error}");
        }
        for (name, math) in [
            ("a b", "x"),
            ("_a", "x"),
            ("or", "x"),
            ("", "x"),
            ("a", ""),
            ("a", "x +"),
            ("a", "x as y | delete z"),
            ("a", "x as y, z"),
            ("a", "now() - x"),
        ] {
            assert!(DerivedField::computed("access", name, math).is_err(), "{name} {math}");
        }
        assert!(DerivedField::computed("", "a", "x").is_err());
        for of in ["", "a", "<x>"] {
            assert!(DerivedField::alias("access", "a", of).is_err(), "{of}");
        }
    }
}
