//! `extra_filters` and `extra_stream_filters`: further conditions on the lines that a query may
//! see.
//!
//! Tools that show users a part of the logs send them with every query (VictoriaLogs). So they
//! apply wherever lines are read; calls where they cannot apply refuse them and never ignore them:
//! see [`Query::restricted`].
//!
//! The restriction of the caller ([`super::principal::Principal`]) is applied in the same way.
//!
//! Each is a filter in LogsQL, or a JSON object (`{"app":"shop","env":["test","prod"]}`: all of
//! these fields, each with one of the values). If there are several, all apply.

use std::sync::Arc;

use query::macros::Callable;
use query::{Filter, Query, QueryOptions, Restriction, Test};
use serde_json::{Map, Value};

use crate::access::params::Params;
use crate::wire::error::wrong_query;
use crate::wire::error::{ApiError, ApiResult};

/// The names of the parameters, for messages and for the calls that take them.
pub const NAMES: [&str; 2] = ["extra_filters", "extra_stream_filters"];

/// Limit of all restrictions of a query together, because each subquery gets a copy. More are
/// refused.
const RESTRICTION_BYTES_MAX: usize = 64 << 10;

impl Params {
    /// What may be seen for the answer: the restriction of the caller, which no parameter can
    /// remove, together with those of the parameters.
    pub fn restriction(&self, now_ns: i64) -> ApiResult<Restriction> {
        let mut filters: Vec<Filter> = Vec::new();
        let mut bytes = 0;
        for name in NAMES {
            for text in self.all(name) {
                bytes += text.len();
                if bytes > RESTRICTION_BYTES_MAX {
                    return Err(ApiError::bad_request(format!(
                        "{name}: all of them are longer than {RESTRICTION_BYTES_MAX} bytes together"
                    )));
                }
                filters.push(parse(name, text, now_ns)?);
            }
        }
        let caller = self.of_caller();
        let mut given = (!filters.is_empty()).then(|| Filter::and(filters));
        // What a query is restricted to is not restricted itself: a query inside would read the
        // lines that the caller may not see.
        if let (Some(filter), Some(to)) = (&mut given, &caller.filter) {
            *filter = filter.with_queries_restricted(to).map_err(wrong_query)?;
        }
        Ok(caller.and(&Restriction { filter: given.map(Arc::new), hidden: None }))
    }

    /// The query with [`Params::restriction`] added, for code that runs it without a restriction of
    /// its own.
    pub fn restricted(&self, query: Query, now_ns: i64) -> ApiResult<Query> {
        self.restriction(now_ns)?.applied_to(query).map_err(wrong_query)
    }
}

fn parse(name: &str, text: &str, now_ns: i64) -> ApiResult<Filter> {
    if text.trim_start().starts_with('{')
        && let Ok(object) = serde_json::from_str::<Map<String, Value>>(text)
    {
        return of_object(name, object);
    }
    // Whoever may save a macro must not change what others may see.
    let query = Query::parse_with(text, now_ns, Callable::None).map_err(|mut error| {
        error.message = format!("{name}: {}", error.message);
        wrong_query(error)
    })?;
    if !query.pipes().is_empty() || query.options() != QueryOptions::default() {
        return Err(ApiError::bad_request(format!(
            "{name}: '{text}' is not a single filter; leave pipes and options out"
        )));
    }
    Ok(query.filter().clone())
}

fn of_object(name: &str, object: Map<String, Value>) -> ApiResult<Filter> {
    let wrong = |field: &str| {
        ApiError::bad_request(format!(
            "{name}: the value of '{field}' is neither a string nor a list of strings; write for \
            example \
             {{\"app\":\"shop\"}} or {{\"app\":[\"shop\",\"cart\"]}}"
        ))
    };
    let mut filters = Vec::new();
    for (field, value) in object {
        let test = match value {
            Value::String(text) => Test::Exact(text),
            Value::Array(values) => {
                let text = |value: Value| match value {
                    Value::String(text) => Ok(text),
                    _ => Err(wrong(&field)),
                };
                Test::In(values.into_iter().map(text).collect::<ApiResult<_>>()?)
            }
            _ => return Err(wrong(&field)),
        };
        filters.push(Filter::field(&field, test));
    }
    match filters.is_empty() {
        // It names no field, but it cannot be meant to show everything.
        true => Err(ApiError::bad_request(format!("{name}: the object names no field"))),
        false => Ok(Filter::and(filters)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn restriction(text: &str) -> ApiResult<Option<String>> {
        let params = Params::parse(text.as_bytes());
        Ok(params.restriction(0)?.filter.map(|filter| filter.to_string()))
    }

    #[test]
    fn all_forms() {
        for (text, expected) in [
            ("query=*", None),
            ("extra_filters=", None),
            ("extra_filters=a:b", Some("a:\"b\"")),
            ("extra_filters=a:b+or+c", Some("a:\"b\" or \"c\"")),
            ("extra_filters=a:b+or+c&extra_filters=d", Some("(a:\"b\" or \"c\") \"d\"")),
            ("extra_stream_filters={a%3D%22b%22}&extra_filters=c", Some("\"c\" a:=\"b\"")),
            ("extra_filters={%22a.b%22:%22c%22}", Some("a.b:=\"c\"")),
            ("extra_stream_filters={%22a%22:[%22b%22,%22c%22]}", Some("a:in(\"b\", \"c\")")),
        ] {
            let expected =
                expected.map(|expected| Query::parse(expected, 0).unwrap().filter().to_string());
            assert_eq!(restriction(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn invalid_filters_are_refused() {
        let long = format!("extra_filters={}", "x".repeat(RESTRICTION_BYTES_MAX + 1));
        assert!(restriction(&long).unwrap_err().to_string().contains("longer than"));
        for text in [
            "(",
            "a|limit+1",
            "options(concurrency%3D1)+a",
            "{%22a%22:1}",
            "{%22a%22:[1]}",
            "{}",
            "{%22a%22:{}}",
        ] {
            for name in NAMES {
                let error = restriction(&format!("{name}={text}")).unwrap_err().to_string();
                assert!(error.starts_with(name), "{text}: {error}");
            }
        }
    }
}
