//! The query DSL as filters.
//!
//! Nothing is ranked: what only changes scores (`boost`, the negative part of `boosting`, `should`
//! beside `must`) changes nothing. `nested` is what is inside, because documents are flat.

use query::Filter;
use serde_json::Value;

use crate::dates;
use crate::error::Refused;
use crate::leaf::{End, Leaves, RangeOf, Target, Wild, all, any, none, not, words};
use crate::lucene::{self, Options};
use crate::names::ID;
use crate::object::{Object, cut, list, shown, text_of};

/// Most queries inside each other. Deeper ones are refused, which bounds the stack.
pub const NESTING_MAX: usize = 25;
/// Most combinations of clauses for `minimum_should_match`.
const COMBINATIONS_MAX: usize = 200;

/// The queries that there are, for messages.
const KNOWN: &str = "bool, match, match_phrase, match_phrase_prefix, match_bool_prefix, multi_match, match_all, match_none, term, \
                     terms, range, exists, prefix, wildcard, regexp, ids, query_string, simple_query_string, constant_score, nested, \
                     dis_max, boosting";

/// The filter of a query.
pub fn parse(query: &Value, leaves: &mut Leaves) -> Result<Filter, Refused> {
    parse_at(query, leaves, 0)
}

fn parse_at(query: &Value, leaves: &mut Leaves, depth: usize) -> Result<Filter, Refused> {
    if depth == NESTING_MAX {
        return Err(Refused::parsing(format!("more than {NESTING_MAX} queries in each other")));
    }
    let object = Object::new(query, "query")?;
    let (name, body) = object.only()?;
    match name {
        "bool" => bool_query(&Object::new(body, "bool")?, leaves, depth),
        "match_all" => {
            plain(body, "match_all")?;
            Ok(Filter::All)
        }
        "match_none" => {
            plain(body, "match_none")?;
            Ok(none())
        }
        "match" => match_query(body, leaves),
        "match_phrase" => phrase_query(body, leaves, "match_phrase"),
        "match_phrase_prefix" => phrase_query(body, leaves, "match_phrase_prefix"),
        "match_bool_prefix" => bool_prefix(body, leaves),
        "multi_match" => multi_match(&Object::new(body, "multi_match")?, leaves),
        "term" => term_query(body, leaves),
        "terms" => terms_query(&Object::new(body, "terms")?, leaves),
        "range" => range_query(body, leaves),
        "exists" => {
            let object = Object::new(body, "exists")?;
            let field = text_of(object.required("field")?).unwrap_or_default();
            object.without_effect(&["boost"]);
            object.finish()?;
            leaves.exists(&Target::of(&field)?)
        }
        "prefix" => pattern_query(body, leaves, "prefix"),
        "wildcard" => pattern_query(body, leaves, "wildcard"),
        "regexp" => pattern_query(body, leaves, "regexp"),
        "ids" => {
            let object = Object::new(body, "ids")?;
            let values = list(object.required("values")?);
            object.without_effect(&["boost"]);
            object.finish()?;
            let ids = values.into_iter().filter_map(text_of).collect();
            leaves.terms(&Target::of(ID)?, ids)
        }
        "query_string" => query_string(&Object::new(body, "query_string")?, leaves, false),
        "simple_query_string" => {
            query_string(&Object::new(body, "simple_query_string")?, leaves, true)
        }
        "constant_score" => {
            let object = Object::new(body, "constant_score")?;
            let filter = object.required("filter")?;
            object.without_effect(&["boost"]);
            object.finish()?;
            parse_at(filter, leaves, depth + 1)
        }
        "nested" => {
            let object = Object::new(body, "nested")?;
            let inner = object.required("query")?;
            // Names of fields are whole ones, so the path says nothing more.
            object.without_effect(&["path", "score_mode", "ignore_unmapped", "boost"]);
            object.finish()?;
            parse_at(inner, leaves, depth + 1)
        }
        "dis_max" => {
            let object = Object::new(body, "dis_max")?;
            let queries = list(object.required("queries")?);
            object.without_effect(&["tie_breaker", "boost"]);
            object.finish()?;
            let filters = queries.into_iter().map(|query| parse_at(query, leaves, depth + 1));
            Ok(any(filters.collect::<Result<_, _>>()?))
        }
        "boosting" => {
            let object = Object::new(body, "boosting")?;
            let positive = object.required("positive")?;
            object.without_effect(&["negative", "negative_boost", "boost"]);
            object.finish()?;
            parse_at(positive, leaves, depth + 1)
        }
        other => {
            Err(Refused::parsing(format!("unknown query [{}]; there are: {KNOWN}", cut(other))))
        }
    }
}

fn plain(body: &Value, what: &str) -> Result<(), Refused> {
    let object = Object::new(body, what)?;
    object.without_effect(&["boost"]);
    object.finish()
}

fn bool_query(object: &Object<'_>, leaves: &mut Leaves, depth: usize) -> Result<Filter, Refused> {
    let mut clauses = |name: &'static str| -> Result<Vec<Filter>, Refused> {
        let Some(value) = object.get(name) else { return Ok(Vec::new()) };
        list(value).into_iter().map(|query| parse_at(query, leaves, depth + 1)).collect()
    };
    let mut required = clauses("must")?;
    required.extend(clauses("filter")?);
    let should = clauses("should")?;
    let excluded = clauses("must_not")?;
    let least = match object.text("minimum_should_match")? {
        Some(text) => least_of(&text, should.len())?,
        None => usize::from(required.is_empty() && !should.is_empty()),
    };
    object.without_effect(&["boost"]);
    object.finish()?;
    if required.is_empty() && should.is_empty() && excluded.is_empty() {
        // Without clauses everything passes, whatever their least number is.
        return Ok(Filter::All);
    }
    required.push(at_least(least, &should)?);
    required.extend(excluded.into_iter().map(not));
    Ok(all(required))
}

/// How many of some clauses have to hold: `2`, `-1`, `75%`, `-25%`.
fn least_of(text: &str, clauses: usize) -> Result<usize, Refused> {
    let wrong = || {
        Refused::parsing(format!(
            "[minimum_should_match] [{}] is not understood; write a number such as 2 or -1, or 75%",
            cut(text)
        ))
    };
    let count = clauses as i64;
    let (number, percent) = match text.strip_suffix('%') {
        Some(number) => (number, true),
        None => (text, false),
    };
    let number: i64 = number.trim().parse().map_err(|_| wrong())?;
    let number = number.clamp(-10_000, 10_000);
    let number = if percent { number * count / 100 } else { number };
    let least = if number < 0 || text.starts_with('-') { count + number } else { number };
    Ok(least.max(0) as usize)
}

/// Rows that at least `least` of the filters select.
fn at_least(least: usize, filters: &[Filter]) -> Result<Filter, Refused> {
    match least {
        0 => Ok(Filter::All),
        1 => Ok(any(filters.to_vec())),
        least if least > filters.len() => Ok(none()),
        least if least == filters.len() => Ok(all(filters.to_vec())),
        least => {
            let mut combinations: Vec<Vec<usize>> = vec![Vec::new()];
            for _ in 0..least {
                let longer = combinations.iter().flat_map(|chosen| {
                    let from = chosen.last().map_or(0, |last| last + 1);
                    (from..filters.len()).map(move |next| {
                        let mut chosen = chosen.clone();
                        chosen.push(next);
                        chosen
                    })
                });
                combinations = longer.take(COMBINATIONS_MAX + 1).collect();
                if combinations.len() > COMBINATIONS_MAX {
                    return Err(Refused::argument(format!(
                        "[minimum_should_match] {least} of {} clauses has more than {COMBINATIONS_MAX} combinations; use fewer clauses",
                        filters.len()
                    )));
                }
            }
            let each = combinations.into_iter().map(|chosen| {
                all(chosen.into_iter().map(|index| filters[index].clone()).collect())
            });
            Ok(any(each.collect()))
        }
    }
}

/// The field and the body of `{"field": "text"}` or `{"field": {"key": "text", …}}`.
fn of_field<'v>(body: &'v Value, what: &str) -> Result<(Target, &'v Value), Refused> {
    let object = Object::new(body, what)?;
    let (name, value) = object.only()?;
    Ok((Target::of(name)?, value))
}

/// What changes scores or analysis only, and is no different here.
const ONLY_SCORES: &[&str] =
    &["boost", "lenient", "auto_generate_synonyms_phrase_query", "max_expansions", "rewrite"];

fn operator(object: &Object<'_>, name: &'static str) -> Result<bool, Refused> {
    match object.text(name)?.map(|text| text.to_ascii_lowercase()).as_deref() {
        None | Some("or") => Ok(false),
        Some("and") => Ok(true),
        Some(other) => {
            Err(Refused::parsing(format!("[{name}] [{}] is neither and nor or", cut(other))))
        }
    }
}

fn match_query(body: &Value, leaves: &mut Leaves) -> Result<Filter, Refused> {
    let (target, value) = of_field(body, "match")?;
    if let Some(text) = text_of(value) {
        return any_word(&target, &text, leaves);
    }
    let object = Object::new(value, "match")?;
    let text = object.text("query")?.unwrap_or_default();
    let every = operator(&object, "operator")?;
    let least = object.text("minimum_should_match")?;
    let nothing = object.text("zero_terms_query")?;
    object.without_effect(ONLY_SCORES);
    object.finish()?;
    let found = leaves.words(&target, &text)?;
    match (found.is_empty(), least) {
        (true, _) => Ok(if nothing.as_deref() == Some("all") { Filter::All } else { none() }),
        (false, _) if every => Ok(all(found)),
        (false, None) => Ok(any(found)),
        (false, Some(least)) => at_least(least_of(&least, found.len())?.max(1), &found),
    }
}

fn any_word(target: &Target, text: &str, leaves: &mut Leaves) -> Result<Filter, Refused> {
    Ok(any(leaves.words(target, text)?))
}

fn phrase_query(body: &Value, leaves: &mut Leaves, what: &str) -> Result<Filter, Refused> {
    let (target, value) = of_field(body, what)?;
    let text = match text_of(value) {
        Some(text) => text,
        None => {
            let object = Object::new(value, what)?;
            let text = object.text("query")?.unwrap_or_default();
            if object.whole("slop")?.unwrap_or(0) > 0 {
                return Err(Refused::parsing(format!(
                    "[{what}] [slop] is not understood; words stand as they are written"
                )));
            }
            object.without_effect(ONLY_SCORES);
            object.without_effect(&["zero_terms_query"]);
            object.finish()?;
            text
        }
    };
    match what {
        "match_phrase" => leaves.phrase(&target, &text),
        _ => leaves.phrase_prefix(&target, &text),
    }
}

fn bool_prefix(body: &Value, leaves: &mut Leaves) -> Result<Filter, Refused> {
    let (target, value) = of_field(body, "match_bool_prefix")?;
    let (text, every) = match text_of(value) {
        Some(text) => (text, false),
        None => {
            let object = Object::new(value, "match_bool_prefix")?;
            let found = (object.text("query")?.unwrap_or_default(), operator(&object, "operator")?);
            object.without_effect(ONLY_SCORES);
            object.finish()?;
            found
        }
    };
    let filters = prefixed(&target, &text, leaves)?;
    Ok(if every && !filters.is_empty() { all(filters) } else { any(filters) })
}

/// The words of a text, of which the last one may go on.
fn prefixed(target: &Target, text: &str, leaves: &mut Leaves) -> Result<Vec<Filter>, Refused> {
    let found = words(text);
    let Some((last, first)) = found.split_last() else { return Ok(Vec::new()) };
    let mut filters = Vec::new();
    for word in first {
        filters.extend(leaves.words(target, word)?);
    }
    filters.push(leaves.phrase_prefix(target, last)?);
    Ok(filters)
}

/// The fields of `multi_match` and `query_string`, without their boosts.
fn fields_of(object: &Object<'_>, name: &'static str) -> Result<Option<Vec<Target>>, Refused> {
    let Some(value) = object.get(name) else { return Ok(None) };
    let target = |value: &Value| {
        let text = text_of(value).unwrap_or_default();
        let name = text.split_once('^').map_or(text.as_str(), |(name, _)| name);
        Target::of(name)
    };
    let fields: Vec<Target> = list(value).into_iter().map(target).collect::<Result<_, _>>()?;
    Ok(Some(fields).filter(|fields| !fields.is_empty()))
}

fn everywhere() -> Vec<Target> {
    vec![Target::Beginning(String::new())]
}

fn multi_match(object: &Object<'_>, leaves: &mut Leaves) -> Result<Filter, Refused> {
    let text = object.text("query")?.unwrap_or_default();
    let fields = fields_of(object, "fields")?.unwrap_or_else(everywhere);
    let kind = object.text("type")?.unwrap_or_else(|| "best_fields".to_owned());
    let every = operator(object, "operator")?;
    let least = object.text("minimum_should_match")?;
    object.without_effect(ONLY_SCORES);
    object.without_effect(&["tie_breaker"]);
    object.finish()?;
    let mut filters = Vec::new();
    let mut by_field = Vec::new();
    for target in &fields {
        match kind.as_str() {
            "phrase" => filters.push(leaves.phrase(target, &text)?),
            "phrase_prefix" => filters.push(leaves.phrase_prefix(target, &text)?),
            "bool_prefix" => by_field.push(prefixed(target, &text, leaves)?),
            "best_fields" | "most_fields" | "cross_fields" => {
                by_field.push(leaves.words(target, &text)?);
            }
            other => {
                return Err(Refused::parsing(format!(
                    "[multi_match] [type] [{}] is not one of best_fields, most_fields, cross_fields, phrase, phrase_prefix, bool_prefix",
                    cut(other)
                )));
            }
        }
    }
    if kind == "cross_fields" && every {
        // Each word in any of the fields; keyword fields have one word, the whole text.
        let longest = by_field.iter().map(Vec::len).max().unwrap_or(0);
        let word = |index: usize| {
            any(by_field.iter().filter_map(|words| words.get(index).cloned()).collect())
        };
        return Ok(if longest == 0 { none() } else { all((0..longest).map(word).collect()) });
    }
    for words in by_field {
        filters.push(match &least {
            _ if words.is_empty() => none(),
            _ if every => all(words),
            None => any(words),
            Some(least) => at_least(least_of(least, words.len())?.max(1), &words)?,
        });
    }
    Ok(any(filters))
}

fn term_query(body: &Value, leaves: &mut Leaves) -> Result<Filter, Refused> {
    let (target, value) = of_field(body, "term")?;
    if let Some(text) = text_of(value) {
        return leaves.term(&target, &text);
    }
    let object = Object::new(value, "term")?;
    let value = object.get("value").or_else(|| object.get("term")).map(text_of);
    let text = value.flatten().ok_or_else(|| Refused::parsing("[term] needs [value]"))?;
    let any_case = object.flag("case_insensitive")?.unwrap_or(false);
    object.without_effect(&["boost", "_name"]);
    object.finish()?;
    match any_case {
        true => leaves.wildcard(&target, &[Wild::Text(text)], true),
        false => leaves.term(&target, &text),
    }
}

fn terms_query(object: &Object<'_>, leaves: &mut Leaves) -> Result<Filter, Refused> {
    object.without_effect(&["boost"]);
    let mut fields = object.entries().filter(|(name, _)| *name != "boost");
    let (Some((name, value)), None) = (fields.next(), fields.next()) else {
        return Err(Refused::parsing("[terms] takes one field"));
    };
    let Value::Array(values) = value else {
        return Err(Refused::parsing(format!(
            "[terms] takes a list of values, not {}; values of another document cannot be looked up",
            shown(value)
        )));
    };
    let texts: Option<Vec<String>> = values.iter().map(text_of).collect();
    let texts = texts.ok_or_else(|| Refused::parsing("[terms] takes texts and numbers"))?;
    leaves.terms(&Target::of(name)?, texts)
}

fn range_query(body: &Value, leaves: &mut Leaves) -> Result<Filter, Refused> {
    let (target, value) = of_field(body, "range")?;
    let object = Object::new(value, "range")?;
    let (mut low, mut high) = (None, None);
    let end = |name: &'static str, inside: bool| {
        Ok::<_, Refused>(object.text(name)?.map(|value| End { value, inside }))
    };
    for (name, is_low, inside) in
        [("gte", true, true), ("gt", true, false), ("lte", false, true), ("lt", false, false)]
    {
        if let Some(end) = end(name, inside)? {
            *(if is_low { &mut low } else { &mut high }) = Some(end);
        }
    }
    // The form before version 1, which Kibana and Grafana may still send.
    let includes = |name: &'static str| Ok::<_, Refused>(object.flag(name)?.unwrap_or(true));
    if let Some(from) = end("from", includes("include_lower")?)? {
        low = Some(from);
    }
    if let Some(to) = end("to", includes("include_upper")?)? {
        high = Some(to);
    }
    let format = object.text("format")?;
    if let Some(format) = &format {
        dates::check_format(format)?;
    }
    let zone = object.text("time_zone")?.map(|zone| dates::zone(&zone)).transpose()?;
    object.without_effect(&["boost"]);
    match object.text("relation")?.as_deref() {
        None | Some("INTERSECTS" | "intersects") => {}
        Some(_) => {
            return Err(Refused::parsing(
                "[range] [relation] takes INTERSECTS; values are no ranges",
            ));
        }
    }
    object.finish()?;
    let of = RangeOf { format: format.as_deref(), zone: zone.unwrap_or_default() };
    leaves.range(&target, low, high, of)
}

fn pattern_query(body: &Value, leaves: &mut Leaves, what: &str) -> Result<Filter, Refused> {
    let (target, value) = of_field(body, what)?;
    let (text, any_case) = match text_of(value) {
        Some(text) => (text, false),
        None => {
            let object = Object::new(value, what)?;
            let own = match what {
                "wildcard" => object.text("wildcard")?,
                _ => None,
            };
            let text = match object.text("value")?.or(own) {
                Some(text) => text,
                None => return Err(Refused::parsing(format!("[{what}] needs [value]"))),
            };
            let any_case = object.flag("case_insensitive")?.unwrap_or(false);
            object.without_effect(&["boost", "rewrite"]);
            if what == "regexp" {
                object.without_effect(&["max_determinized_states", "flags"]);
            }
            object.finish()?;
            (text, any_case)
        }
    };
    match what {
        "prefix" => leaves.prefix(&target, &text, any_case),
        "wildcard" => leaves.wildcard(&target, &Wild::parse(&text), any_case),
        _ => leaves.regexp(&target, &text, any_case),
    }
}

fn query_string(
    object: &Object<'_>,
    leaves: &mut Leaves,
    is_simple: bool,
) -> Result<Filter, Refused> {
    let text = object.text("query")?.unwrap_or_default();
    let fields = fields_of(object, "fields")?;
    let field = if is_simple { None } else { fields_of(object, "default_field")? };
    let every = operator(object, "default_operator")?;
    let zone = match is_simple {
        true => None,
        false => object.text("time_zone")?.map(|zone| dates::zone(&zone)).transpose()?,
    };
    object.without_effect(ONLY_SCORES);
    // Wildcards are always looked for, also in front.
    object.without_effect(&["analyze_wildcard", "allow_leading_wildcard", "tie_breaker"]);
    match object.get("minimum_should_match") {
        None => {}
        Some(_) => {
            return Err(Refused::parsing(
                "[query_string] [minimum_should_match] is not understood; write AND and OR",
            ));
        }
    }
    object.finish()?;
    let ranges = RangeOf { format: None, zone: zone.unwrap_or_default() };
    let fields = fields.or(field).unwrap_or_else(|| Options::default().fields);
    let options = Options { fields, all: every, ranges };
    match is_simple {
        true => lucene::parse_simple(&text, &options, leaves),
        false => Ok(lucene::parse(&text, &options, leaves)?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn parsed(query: &Value) -> Result<Filter, Refused> {
        parse(query, &mut Leaves::new(1_769_860_800_000_000_000))
    }

    #[test]
    fn queries_become_filters() {
        for (query, expected) in [
            (json!({"match_all": {}}), "*"),
            (json!({"match": {"message": "Connection reset"}}), "i(Connection) or i(reset)"),
            (json!({"match": {"message": {"query": "a b", "operator": "and"}}}), "i(a) i(b)"),
            (
                json!({"match": {"message": {"query": "a b c", "minimum_should_match": 2}}}),
                "i(a) i(b) or i(a) i(c) or i(b) i(c)",
            ),
            (json!({"match_phrase": {"message": "a b"}}), "i(\"a b\")"),
            (json!({"match_phrase": {"level": "error"}}), "level:i(error)"),
            (json!({"match_phrase_prefix": {"message": "a b"}}), "i(\"a b\"*)"),
            (json!({"term": {"level": "error"}}), "level:=error"),
            (json!({"term": {"level.keyword": {"value": "error"}}}), "level:=error"),
            (json!({"term": {"status": 200}}), "status:=200"),
            (json!({"terms": {"status": [200, "404"]}}), "status:in(200, 404)"),
            (json!({"terms": {"status": []}}), "!*"),
            (json!({"range": {"took": {"gte": 5, "lt": "9"}}}), "took:range[5, 9)"),
            (json!({"range": {"user": {"gt": "m"}}}), "user:* user:>m"),
            (
                json!({"range": {"@timestamp": {"gte": "now-1h", "lte": "now"}}}),
                "_time:[2026-01-31T11:00:00Z, 2026-01-31T12:00:00.000000001Z)",
            ),
            (
                json!({"range": {"@timestamp": {"gte": 1769860800000u64, "lte": 1769860800999u64, "format": "epoch_millis"}}}),
                "_time:[2026-01-31T12:00:00Z, 2026-01-31T12:00:01Z)",
            ),
            (json!({"range": {"at": {"lt": "now/d"}}}), "at:range[-inf, \"2026-01-31T00:00:00Z\")"),
            (json!({"exists": {"field": "user.name"}}), "user.name:*"),
            (json!({"prefix": {"host": "web"}}), "host:=web*"),
            (json!({"wildcard": {"host": {"value": "w*"}}}), "host:=w*"),
            (json!({"ids": {"values": ["00000001-1-0"]}}), "_line_id:=00000001-1-0"),
            (
                json!({"bool": {"must": {"term": {"a": "1"}}, "filter": [{"term": {"b": "2"}}], "must_not": {"term": {"c": "3"}}, "should": {"term": {"d": "4"}}}}),
                "a:=1 b:=2 !c:=3",
            ),
            (
                json!({"bool": {"should": [{"term": {"a": "1"}}, {"term": {"b": "2"}}]}}),
                "a:=1 or b:=2",
            ),
            (json!({"bool": {}}), "*"),
            (json!({"bool": {"should": [], "must": [], "minimum_should_match": 1}}), "*"),
            (
                json!({"bool": {"filter": [{"term": {"a": "1"}}], "should": [], "minimum_should_match": 1}}),
                "!*",
            ),
            (json!({"constant_score": {"filter": {"term": {"a": "1"}}}}), "a:=1"),
            (json!({"nested": {"path": "x", "query": {"term": {"x.a": "1"}}}}), "x.a:=1"),
            (
                json!({"query_string": {"analyze_wildcard": true, "query": "level:error AND x"}}),
                "level:i(error) i(x)",
            ),
            (
                json!({"simple_query_string": {"query": "a + b", "fields": ["message^2"]}}),
                "i(a) i(b)",
            ),
            (
                json!({"multi_match": {"query": "a", "fields": ["message", "user"]}}),
                "i(a) or user:i(a)",
            ),
            (json!({"multi_match": {"query": "a"}}), "*:i(a)"),
        ] {
            let found = parsed(&query).unwrap_or_else(|refused| panic!("{query}: {refused}"));
            let expected = query::Query::parse(expected, 0).unwrap();
            assert_eq!(&found, expected.filter(), "{query}: {found}");
        }
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for (query, part) in [
            (json!({"fuzzy": {"a": "b"}}), "unknown query [fuzzy]"),
            (json!({"match": {"a": {"query": "b", "fuzziness": "AUTO"}}}), "[fuzziness]"),
            (json!({"term": {"a": "b", "c": "d"}}), "[term] takes one name"),
            (json!({"range": {"a": {"gtee": 1}}}), "[gtee]"),
            (json!({"range": {"@timestamp": {"gte": "soon"}}}), "[soon] is not a date"),
            (json!({"bool": {"musst": []}}), "[musst]"),
            (json!({"match_phrase": {"a": {"query": "b", "slop": 2}}}), "[slop]"),
            (json!({"regexp": {"a": "b~c"}}), "[~]"),
            (json!({"query_string": {"query": "a AND"}}), "at byte 5"),
            (json!({}), "takes one name"),
            (json!([]), "takes an object"),
            (json!({"match_all": {"x": 1}}), "[x]"),
        ] {
            let refused = parsed(&query).unwrap_err();
            assert!(refused.reason.contains(part) && refused.status == 400, "{query}: {refused}");
        }
        let mut deep = json!({"match_all": {}});
        for _ in 0..60 {
            deep = json!({"bool": {"must": deep}});
        }
        assert!(parsed(&deep).unwrap_err().reason.contains("in each other"));
        let many: Vec<Value> = (0..5_000).map(|n| json!({"term": {"a": n}})).collect();
        assert!(parsed(&json!({"bool": {"should": many}})).is_err());
    }

    proptest::proptest! {
        #[test]
        fn quoting_never_changes_a_value(name in "\\PC{1,8}", value in "\\PC{1,12}") {
            let query = json!({"term": {name.clone(): value}});
            if let Ok(filter) = parsed(&query) {
                let written = filter.to_string();
                let read = query::Query::parse(&written, 0).unwrap();
                assert_eq!(read.filter(), &filter, "{written}");
            }
        }
    }
}
