//! What a caller may see of the lines, whatever a query asks for.

use std::fmt;
use std::sync::Arc;

use super::filter::Filter;
use crate::base::names::STREAM;
use crate::base::{HiddenFields, Whose};
use crate::lang::syntax::macros::Callable;
use crate::lang::syntax::options::QueryOptions;
use crate::lang::syntax::query::Query;

/// Which lines of the store a query may see, and which of their fields it may not. The filter sees
/// lines without the hidden fields, as the query does.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Restriction {
    /// The lines; none: all.
    pub filter: Option<Arc<Filter>>,
    /// The hidden fields; none: no field is hidden.
    pub hidden: Option<Arc<HiddenFields>>,
}

impl Restriction {
    /// Whether it restricts nothing.
    pub fn is_none(&self) -> bool {
        self.filter.is_none() && self.hidden.is_none()
    }

    /// This restriction, and `other` too.
    pub fn and(&self, other: &Restriction) -> Restriction {
        let filters = [&self.filter, &other.filter].into_iter().flatten();
        let filters: Vec<Filter> = filters.map(|filter| (**filter).clone()).collect();
        Restriction {
            filter: (!filters.is_empty()).then(|| Arc::new(Filter::and(filters))),
            hidden: HiddenFields::both(self.hidden.as_ref(), other.hidden.as_ref()),
        }
    }
}

impl fmt::Display for Restriction {
    /// Empty if nothing is restricted; two restrictions with one text are the same.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(hidden) = &self.hidden {
            write!(f, "options(hide_fields=({hidden})) ")?;
        }
        match &self.filter {
            Some(filter) => write!(f, "{filter}"),
            None => Ok(()),
        }
    }
}

impl From<Arc<Filter>> for Restriction {
    fn from(filter: Arc<Filter>) -> Restriction {
        Restriction { filter: Some(filter), hidden: None }
    }
}

impl Filter {
    /// Parses the filter of a restriction that is kept: it means the same at any time and reads no
    /// other lines, so it has no times and no queries inside. It does not name Loginson's own
    /// lines, which are made of all lines, and no hidden field.
    pub fn of_restriction(text: &str, hidden: Option<&HiddenFields>) -> Result<Filter, String> {
        let query =
            Query::parse_with(text, 0, Callable::None).map_err(|error| error.to_string())?;
        if !query.pipes().is_empty() || query.options() != QueryOptions::default() {
            return Err("it is not a single filter; leave pipes and options out".to_owned());
        }
        let filter = query.filter().clone();
        if filter.has_times_or_queries() {
            return Err("it has a time or a query inside, which is not possible here".to_owned());
        }
        if filter.whose() == Whose::All {
            return Err(
                "it names a type of Loginson's own lines, which are made of all lines and are \
                 never shown to restricted callers"
                    .to_owned(),
            );
        }
        match hidden.and_then(|hidden| filter.named().find(|name| hidden.hides(name))) {
            None => Ok(filter),
            Some(name) => Err(format!(
                "it names '{name}', which is hidden, so it would see lines without that field"
            )),
        }
    }

    /// Whether it may select other lines where these fields are hidden.
    pub(crate) fn depends_on(&self, hidden: &HiddenFields) -> bool {
        match self {
            Filter::All | Filter::Time(_) | Filter::Recurring(_) => false,
            Filter::And(filters) | Filter::Or(filters) => {
                filters.iter().any(|filter| filter.depends_on(hidden))
            }
            Filter::Not(filter) => filter.depends_on(hidden),
            Filter::AnyField { .. } | Filter::Subquery(_) => true,
            Filter::Fields { .. } | Filter::Field { .. } => {
                self.named().any(|name| name == STREAM || hidden.hides(name))
            }
        }
    }

    fn has_times_or_queries(&self) -> bool {
        match self {
            Filter::And(filters) | Filter::Or(filters) => {
                filters.iter().any(Filter::has_times_or_queries)
            }
            Filter::Not(filter) => filter.has_times_or_queries(),
            Filter::Time(_) | Filter::Recurring(_) | Filter::Subquery(_) => true,
            Filter::Field { name, .. } => name == crate::base::names::TIME,
            Filter::All | Filter::Fields { .. } | Filter::AnyField { .. } => false,
        }
    }

    /// The fields that it names.
    fn named(&self) -> Box<dyn Iterator<Item = &str> + '_> {
        match self {
            Filter::And(filters) | Filter::Or(filters) => {
                Box::new(filters.iter().flat_map(Filter::named))
            }
            Filter::Not(filter) => filter.named(),
            Filter::Fields { left, right, .. } => Box::new([&**left, &**right].into_iter()),
            Filter::Field { name, .. } => Box::new([&**name].into_iter()),
            _ => Box::new(std::iter::empty()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn filters_that_are_kept() {
        let hidden = HiddenFields::parse(&["client_ip", "user.*"]).unwrap();
        for (text, expected) in [
            ("app:=shop", None),
            ("_type:access (error or level:warn) !x:y", None),
            ("*:a", None),
            ("", Some("")),
            ("a | limit 1", Some("single filter")),
            ("options(concurrency=1) a", Some("single filter")),
            ("_time:5m", Some("a time")),
            ("a or !(b _time:day_range[08:00, 18:00))", Some("a time")),
            ("a:in(b | fields a)", Some("a query inside")),
            ("_type:=audit", Some("own lines")),
            ("{_type=\"summary\"}", Some("own lines")),
            ("a or client_ip:1", Some("client_ip")),
            ("!user.name:x", Some("user.name")),
            ("a:eq_field(client_ip)", Some("client_ip")),
            ("(", Some("")),
        ] {
            match (Filter::of_restriction(text, hidden.as_deref()), expected) {
                (Ok(_), None) => {}
                (Err(why), Some(expected)) => assert!(why.contains(expected), "{text}: {why}"),
                (found, _) => panic!("{text}: {found:?}"),
            }
        }
    }
}
