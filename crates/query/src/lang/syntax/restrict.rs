//! A filter that a query cannot escape: added to the query and to every query inside it.
//!
//! Tools that let a user see only some lines send this filter beside the query (`extra_filters`).
//! The filter must hold wherever a query reads lines of the store: in the query itself, in queries
//! inside filters (`in(…)`, `contains_any(…)`) at any depth, in `join` and `union`, and behind
//! `stream_context`, which reads lines that no filter has selected.
//!
//! Lines that Loginson made itself are read only by filters that name their type. Where a query
//! does not, [`Filter::without_audit`] and [`Filter::without_own`] are left out: they would select
//! all lines, and only take the shorter ways from the query.
//!
//! Invariant: no row of a restricted query was made of a line that the filter does not select.

use crate::base::{HiddenFields, Whose};
use crate::lang::filter::Filter;
use crate::lang::pipe::{Pipe, Select};
use crate::lang::restriction::Restriction;
use crate::lang::syntax::error::ParseError;
use crate::lang::syntax::query::Query;

/// Most queries inside a restricted query. A query with more is refused, because each of them gets
/// a copy of the filter.
const QUERIES_MAX: usize = 1_000;

impl Query {
    /// The same query over the lines that `to` selects. An error if it has too many queries inside,
    /// or if its options hide fields by which `to` selects: without them, it would select others.
    ///
    /// The rows with which `stream_context` separates lines are left out, because they are not
    /// lines.
    pub fn restricted(&self, to: &Filter) -> Result<Query, ParseError> {
        let (mut query, mut left) = (self.clone(), QUERIES_MAX);
        query.restrict(to, &mut left).map_err(|message| ParseError {
            position: 0,
            expected: Vec::new(),
            message,
            query: String::new(),
        })?;
        Ok(query)
    }

    /// Restricts the query; `left` is the number of queries that may still be restricted.
    fn restrict(&mut self, to: &Filter, left: &mut usize) -> Result<(), String> {
        *left = left.checked_sub(1).ok_or_else(|| {
            format!("a query with more than {QUERIES_MAX} queries inside cannot be restricted")
        })?;
        if self.options().hidden.is_some_and(|hidden| to.depends_on(&hidden)) {
            return Err(
                "hide_fields: the query is restricted to lines by a field that it hides; leave that \
                 field out of hide_fields"
                    .to_owned(),
            );
        }
        for filter in self.filters_mut() {
            restrict_inside(filter, to, left)?;
        }
        for pipe in &mut self.pipes {
            pipe.queries_mut().into_iter().try_for_each(|query| query.restrict(to, left))?;
        }
        for place in (0..self.pipes.len()).rev() {
            if self.pipes[place].reads_other_lines() {
                self.pipes.insert(place + 1, Pipe::from(Select { filter: to.clone() }));
            }
        }
        let own = std::mem::replace(&mut self.filter, Filter::All);
        let parts = |to: &Filter| match to {
            Filter::And(parts) => parts.clone(),
            whole => vec![whole.clone()],
        };
        let with_own = |mut parts: Vec<Filter>| {
            parts.extend((own != Filter::All).then(|| own.clone()));
            Filter::and(parts)
        };
        let mut shorter = parts(to);
        shorter.retain(|part| !part.excludes_own());
        let shorter = with_own(shorter);
        self.filter = match shorter.whose() {
            Whose::Sent => shorter,
            Whose::All => with_own(parts(to)),
        };
        Ok(())
    }
}

impl Filter {
    /// The same filter, whose queries inside see only the lines that `to` selects: for a filter of
    /// a caller that becomes a part of a restriction, which is not restricted itself.
    pub fn with_queries_restricted(&self, to: &Filter) -> Result<Filter, ParseError> {
        let (mut filter, mut left) = (self.clone(), QUERIES_MAX);
        restrict_inside(&mut filter, to, &mut left).map_err(|message| ParseError {
            position: 0,
            expected: Vec::new(),
            message,
            query: String::new(),
        })?;
        Ok(filter)
    }
}

impl Restriction {
    /// The query with this restriction, for code that runs it without a restriction of its own.
    pub fn applied_to(&self, query: Query) -> Result<Query, ParseError> {
        let query = match &self.filter {
            None => query,
            Some(to) => query.restricted(to)?,
        };
        let mut options = query.options();
        options.hidden = HiddenFields::both(options.hidden.as_ref(), self.hidden.as_ref());
        Ok(query.with_options(options))
    }
}

/// Restricts the queries inside a filter.
fn restrict_inside(filter: &mut Filter, to: &Filter, left: &mut usize) -> Result<(), String> {
    match filter {
        Filter::And(filters) | Filter::Or(filters) => {
            filters.iter_mut().try_for_each(|filter| restrict_inside(filter, to, left))
        }
        Filter::Not(filter) => restrict_inside(filter, to, left),
        Filter::Subquery(subquery) => subquery.query.restrict(to, left),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use record::Tenant;

    use super::*;
    use crate::base::TimeRange;
    use crate::lang::context::Context;
    use crate::testing::{Memory, collect, record};

    fn only(text: &str) -> Filter {
        Query::parse(text, 0).unwrap().filter().clone()
    }

    #[test]
    fn queries_inside_a_filter_of_the_caller_are_restricted() {
        let filter = only("!u:in(x | fields u) or y:in(v:in(z | fields v) | fields y)");
        let restricted = filter.with_queries_restricted(&only("t:=a")).unwrap().to_string();
        assert_eq!(
            restricted,
            only("!u:in(t:=a x | fields u) or y:in(t:=a v:in(t:=a z | fields v) | fields y)")
                .to_string()
        );
    }

    #[test]
    fn every_query_inside_is_restricted() {
        for (text, expected) in [
            ("*", "t:=a"),
            ("x or y", "t:=a (\"x\" or \"y\")"),
            ("u:in(x | fields u)", "t:=a u:in(t:=a \"x\" | fields u)"),
            (
                "!u:contains_any(* | fields u) or y",
                "t:=a (!u:contains_any(t:=a | fields u) or \
            \"y\")",
            ),
            (
                "* | filter u:in(v:in(x | fields v) | fields u)",
                "t:=a | filter u:in(t:=a v:in(t:=a \"x\" | fields v) | fields u)",
            ),
            (
                "* | stats count() if (u:in(x | fields u)) n",
                "t:=a | stats count() if (u:in(t:=a \"x\" | fields u)) n",
            ),
            ("* | join by (u) (x | fields u, v)", "t:=a | join by (u) (t:=a \"x\" | fields u, v)"),
            ("* | union (x | union (y))", "t:=a | union (t:=a \"x\" | union (t:=a \"y\"))"),
            (
                "* | format if (u:in(x | fields u)) \"<u>\" as w",
                "t:=a | format if (u:in(t:=a \"x\" | fields u)) \"<u>\" as w",
            ),
            ("x | stream_context after 1", "t:=a \"x\" | stream_context after 1 | filter t:=a"),
        ] {
            let restricted = Query::parse(text, 0).unwrap().restricted(&only("t:=a")).unwrap();
            let expected = Query::parse(expected, 0).unwrap_or_else(|e| panic!("{expected}: {e}"));
            assert_eq!(restricted.to_string(), expected.to_string(), "{text}");
        }
    }

    #[test]
    fn lines_of_the_audit_log_are_left_out_where_they_could_be_read() {
        for (text, expected) in [
            ("*", "*"),
            ("_type:=access error", "_type:=access \"error\""),
            ("!_type:audit", "!_type:audit"),
            ("_type:audit", "!_type:=audit _type:audit"),
            ("_type:in(audit, x)", "!_type:=audit _type:in(audit, x)"),
            ("_type:summary or *", "!_type:=audit (_type:summary or *)"),
            (
                "* | filter user:in(_type:=audit | fields user)",
                "* | filter user:in(!_type:=audit _type:=audit | fields user)",
            ),
            ("* | union (_type:audit)", "* | union (!_type:=audit _type:audit)"),
            ("x | stream_context after 1", "x | stream_context after 1 | filter !_type:=audit"),
        ] {
            let query = Query::parse(text, 0).unwrap();
            let restricted = query.restricted(&Filter::without_audit()).unwrap();
            let expected = Query::parse(expected, 0).unwrap_or_else(|e| panic!("{expected}: {e}"));
            assert_eq!(restricted.to_string(), expected.to_string(), "{text}");
        }
        assert!(Filter::without_audit().excludes_own() && Filter::without_own().excludes_own());
        assert!(only("!_type:=audit").excludes_own() && !only("_type:=audit").excludes_own());
    }

    #[test]
    fn own_lines_are_left_out_together_with_others() {
        let to = Filter::and(vec![Filter::without_own(), only("t:=a")]);
        for (text, expected) in [
            ("*", "t:=a"),
            ("x or y", "t:=a (\"x\" or \"y\")"),
            ("_type:=alert", "!_type:in(summary, alert, audit) t:=a _type:=alert"),
        ] {
            let restricted = Query::parse(text, 0).unwrap().restricted(&to).unwrap();
            let expected = Query::parse(expected, 0).unwrap();
            assert_eq!(restricted.to_string(), expected.to_string(), "{text}");
        }
        // A further filter that names own lines does not show them.
        let to = Filter::and(vec![Filter::without_own(), only("_type:=alert")]);
        let restricted = Query::parse("*", 0).unwrap().restricted(&to).unwrap();
        assert!(restricted.to_string().starts_with("!_type:in"));
    }

    /// The restriction to a tenant stays where that of the audit log is left out.
    #[test]
    fn several_restrictions_hold_each_by_itself() {
        let tenant = Tenant { account: 12, project: 3 };
        let both = Filter::and(vec![Filter::without_audit(), Filter::of_tenants(&[tenant])]);
        for (text, expected) in [
            ("*", "_tenant:=\"12:3\""),
            ("x or y", "_tenant:=\"12:3\" (\"x\" or \"y\")"),
            ("_type:audit", "!_type:=audit _tenant:=\"12:3\" _type:audit"),
            ("* | union (x)", "_tenant:=\"12:3\" | union (_tenant:=\"12:3\" x)"),
        ] {
            let restricted = Query::parse(text, 0).unwrap().restricted(&both).unwrap();
            let expected = Query::parse(expected, 0).unwrap_or_else(|e| panic!("{expected}: {e}"));
            assert_eq!(restricted.to_string(), expected.to_string(), "{text}");
        }
    }

    /// Else whoever hides a field would see the lines that the restriction leaves out by it.
    #[test]
    fn a_query_cannot_hide_what_its_restriction_tests() {
        for (to, text, is_refused) in [
            ("!secret:yes", "options(hide_fields=(secret)) *", true),
            ("!secret:yes", "options(hide_fields=(s*)) *", true),
            ("!secret:yes", "options(hide_fields=(other)) *", false),
            ("!secret:yes", "* | union (options(hide_fields=(secret)) *)", true),
            ("!secret:yes", "a:in(options(hide_fields=(secret)) * | fields a)", true),
            ("!*:secret", "options(hide_fields=(other)) *", true),
            ("!u*:secret", "options(hide_fields=(other)) *", true),
            ("!_stream:secret", "options(hide_fields=(other)) *", true),
            ("!_line:secret", "options(hide_fields=(other)) *", true),
            ("!secret", "options(hide_fields=(_msg)) *", true),
            ("a:eq_field(b)", "options(hide_fields=(b)) *", true),
            ("!a:in(b | fields a)", "options(hide_fields=(c)) *", true),
            ("_type:=x", "options(hide_fields=(other)) *", false),
        ] {
            let restricted = Query::parse(text, 0).unwrap().restricted(&only(to));
            assert_eq!(restricted.is_err(), is_refused, "{to}: {text}");
        }
    }

    #[test]
    fn queries_inside_are_bounded() {
        let with = |inside: usize| {
            let text = vec!["a:in(* | fields a)"; inside].join(" or ");
            Query::parse(&text, 0).unwrap().restricted(&only("t:=a"))
        };
        assert!(with(QUERIES_MAX - 1).is_ok());
        assert!(with(QUERIES_MAX).unwrap_err().message.contains("1000 queries"));
    }

    /// A restricted query gives the rows that it gives over a store with only the selected lines.
    #[test]
    fn it_cannot_be_escaped() {
        let all: Vec<_> = (0..12)
            .map(|n| {
                let tenant = if n % 3 == 0 { "a" } else { "b" };
                record(n * 10, &[("t", tenant), ("n", &n.to_string()), ("u", &(n % 2).to_string())])
            })
            .collect();
        let own: Vec<_> = all.iter().step_by(3).cloned().collect();
        let to = Arc::new(only("t:=a"));
        for text in [
            "*",
            "t:b",
            "t:b or *",
            "options(ignore_global_time_filter=true) *",
            "* | stats by (t) count() c",
            "* | union (*)",
            "* | union (options(ignore_global_time_filter=true) t:b)",
            "* | filter n:in(t:b | fields n)",
            "u:in(t:b | fields u)",
            "!u:in(t:b | fields u)",
            "* | join by (u) (t:b | fields u, n) prefix \"o.\"",
            "* | delete t | union (* | delete t)",
            "* | format \"a\" as t | union (*)",
            "* | stats count() if (n:in(* | fields n)) c",
            "* | field_names",
            "* | facets",
            "* | patterns of t",
            "* | differences where (u:in(t:b | fields u))",
            "* | uniq by (t)",
        ] {
            let query = Query::parse(text, 0).unwrap_or_else(|e| panic!("{text}: {e}"));
            let rows = |records: &[_], restriction: Option<Restriction>| {
                let range = TimeRange { start_ns: 20, end_ns: i64::MAX };
                let context = Context {
                    range,
                    restriction: restriction.unwrap_or_default(),
                    ..Context::default()
                };
                collect(&query, &Memory::of(records), &context).0
            };
            assert_eq!(rows(&all, Some(Arc::clone(&to).into())), rows(&own, None), "{text}");
        }
        let context = Context { restriction: to.into(), ..Context::default() };
        let around = Query::parse("n:=3 | stream_context before 3 after 3", 0).unwrap();
        let rows = collect(&around, &Memory::of(&all), &context).0;
        let of_others = |row: &Vec<(String, String)>| !row.contains(&("t".into(), "a".into()));
        assert!(!rows.is_empty() && !rows.iter().any(of_others), "{rows:?}");
    }
}
