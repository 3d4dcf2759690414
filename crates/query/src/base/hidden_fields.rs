//! Fields that a query does not see: its lines are as if they had never had them.
//!
//! A name that ends with `*` hides all fields whose names begin with what is before it. While any
//! field is hidden, the line as it was sent (`_line`) is hidden too, because it holds all values.
//!
//! Left out: texts that repeat a value. The message of a line (`_msg`) is hidden only if it is
//! named.

use std::fmt;
use std::sync::Arc;

use text::quoted::quote;

use super::names::{LINE, NamePattern, RAW_LINE, RAW_RECEIVED, is_stored};

/// Names and beginnings of names that can be hidden. More are refused, because each field of each
/// line that is read is compared with all.
///
/// limits.md, Queries: names of hidden fields (`hide_fields`, `options(hide_fields=…)`) | {}, of
/// {NAME_BYTES_MAX} each | the configuration, the call or the query is refused
const NAMES_MAX: usize = 100;
/// Longest name.
const NAME_BYTES_MAX: usize = 256;
/// Fields without which lines have no meaning, could not be told apart, or would be those of
/// others.
const NEEDED: [&str; 3] = ["_type", "_stream_id", record::batch::TENANT];

/// The hidden fields; at least one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HiddenFields(Vec<NamePattern>);

impl HiddenFields {
    /// Of these names; none if there are no names.
    pub fn parse<N: AsRef<str>>(names: &[N]) -> Result<Option<Arc<HiddenFields>>, String> {
        if names.len() > NAMES_MAX {
            return Err(format!(
                "more than {NAMES_MAX} fields cannot be hidden; use NAME* for many"
            ));
        }
        let mut patterns = Vec::with_capacity(names.len());
        for name in names.iter().map(N::as_ref) {
            let pattern = match name.strip_suffix('*') {
                Some(beginning) => NamePattern { name: beginning.to_owned(), prefix: true },
                None => NamePattern::exact(name),
            };
            if name.is_empty() || name.len() > NAME_BYTES_MAX {
                return Err(format!(
                    "the name of a hidden field has between 1 and {NAME_BYTES_MAX} bytes"
                ));
            }
            if NEEDED.iter().any(|needed| pattern.matches(needed)) || !is_stored(name) {
                return Err(format!("the field '{name}' cannot be hidden; name stored fields"));
            }
            if !patterns.contains(&pattern) {
                patterns.push(pattern);
            }
        }
        Ok((!patterns.is_empty()).then(|| Arc::new(HiddenFields(patterns))))
    }

    /// Whether the field of this name is hidden. The arrival time never is, only a field of its
    /// name that a line brings.
    pub fn hides(&self, name: &str) -> bool {
        let is_named = || self.0.iter().any(|pattern| pattern.matches(name));
        name == LINE || name == RAW_LINE || (name != RAW_RECEIVED && is_named())
    }

    /// The names, as [`HiddenFields::parse`] takes them.
    pub fn names(&self) -> impl Iterator<Item = String> {
        self.0.iter().map(|NamePattern { name, prefix }| match prefix {
            true => format!("{name}*"),
            false => name.clone(),
        })
    }

    /// What either hides.
    pub(crate) fn both(
        one: Option<&Arc<HiddenFields>>,
        other: Option<&Arc<HiddenFields>>,
    ) -> Option<Arc<HiddenFields>> {
        let (Some(one), Some(other)) = (one, other) else { return one.or(other).cloned() };
        if one == other {
            return Some(Arc::clone(one));
        }
        let more = other.0.iter().filter(|pattern| !one.0.contains(pattern));
        Some(Arc::new(HiddenFields(one.0.iter().chain(more).cloned().collect())))
    }
}

impl fmt::Display for HiddenFields {
    /// As the option of a query takes them.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, NamePattern { name, prefix }) in self.0.iter().enumerate() {
            let star = if *prefix { "*" } else { "" };
            write!(f, "{}{}{star}", if i > 0 { ", " } else { "" }, quote(name))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_beginnings_are_hidden_and_the_sent_line_with_them() {
        let hidden = HiddenFields::parse(&["client_ip", "user.*", "client_ip"]).unwrap().unwrap();
        assert_eq!(hidden.names().collect::<Vec<_>>(), ["client_ip", "user.*"]);
        for (name, is_hidden) in [
            ("client_ip", true),
            ("client_ip2", false),
            ("user.name", true),
            ("user", false),
            ("_line", true),
            ("_line\0", true),
            ("_received\0", false),
            ("_msg", false),
            ("_line_id", false),
        ] {
            assert_eq!(hidden.hides(name), is_hidden, "{name}");
        }
        assert!(HiddenFields::parse::<&str>(&[]).unwrap().is_none());
        let other = HiddenFields::parse(&["_msg", "client_ip"]).unwrap();
        let both = HiddenFields::both(Some(&hidden), other.as_ref()).unwrap();
        assert_eq!(both.names().collect::<Vec<_>>(), ["client_ip", "user.*", "_msg"]);
        assert_eq!(HiddenFields::both(None, other.as_ref()), other);
    }

    #[test]
    fn what_cannot_be_hidden_is_refused() {
        for name in [
            "",
            "*",
            "_*",
            "_type",
            "_tenant",
            "_t*",
            "_time",
            "_stream",
            "_line",
            "_received",
            "_line_id",
        ] {
            assert!(HiddenFields::parse(&[name]).is_err(), "{name}");
        }
        assert!(HiddenFields::parse(&["x".repeat(NAME_BYTES_MAX + 1)]).is_err());
        let names = |count: usize| (0..count).map(|n| n.to_string()).collect::<Vec<_>>();
        assert!(HiddenFields::parse(&names(NAMES_MAX)).is_ok());
        assert!(HiddenFields::parse(&names(NAMES_MAX + 1)).unwrap_err().contains("NAME*"));
    }
}
