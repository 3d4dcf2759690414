//! Searches of log lines: words and phrases in an analysed field, groups as aggregations.
//!
//! There are no regular expressions: Elasticsearch applies them to single words, or to a copy of
//! the whole text in a field of another type, which logs do not have by default.

use std::collections::BTreeMap;

use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::{Connection, JSON, ShardCounts, success, whole};
use crate::driver::search::{Match, Search, Wanted};
use crate::driver::{Ability, Answer, StoreError};
use crate::row::{Row, Schema, Value};

/// Groups of an answer; more than any column that is grouped by has.
const GROUPS_MAX: u32 = 10_000;

const GROUPS: &str = "groups";

/// The body of the request; `None` for a search that needs what the store lacks.
fn body(schema: &Schema, search: &Search) -> Option<Json> {
    let name = |column: usize| schema.columns[column].name.as_str();
    let mut filter = Vec::new();
    match &search.text {
        None => {}
        Some((column, Match::Word(text))) => {
            filter.push(json!({ "match": { name(*column): text } }))
        }
        Some((column, Match::Phrase(text))) => {
            filter.push(json!({ "match_phrase": { name(*column): text } }));
        }
        Some((_, Match::Regex(_))) => return None,
    }
    for (column, value) in &search.equals {
        filter.push(json!({ "term": { name(*column): value } }));
    }
    if let Some((from, to)) = search.time {
        filter.push(json!({ "range": { name(schema.time()?): { "gte": from, "lt": to } } }));
    }
    let mut body = json!({ "query": { "bool": { "filter": filter } }, "size": 0 });
    match &search.wanted {
        Wanted::Count => body["track_total_hits"] = json!(true),
        Wanted::Latest { rows_max } => {
            body["track_total_hits"] = json!(false);
            body["size"] = json!(rows_max);
            body["sort"] = json!([{ name(schema.time()?): "desc" }]);
        }
        Wanted::CountBy { column } => {
            let terms = json!({ "field": name(*column), "size": GROUPS_MAX });
            body["aggs"] = json!({ GROUPS: { "terms": terms } });
        }
        Wanted::CountOver { step_ms } => {
            let steps = json!({
                "field": name(schema.time()?),
                "fixed_interval": format!("{step_ms}ms"),
                "min_doc_count": 1,
            });
            body["aggs"] = json!({ GROUPS: { "date_histogram": steps } });
        }
    }
    Some(body)
}

/// The answer to a search.
#[derive(Deserialize)]
pub(super) struct Found {
    timed_out: bool,
    #[serde(rename = "_shards")]
    shards: ShardCounts,
    pub hits: Hits,
    #[serde(default)]
    pub aggregations: BTreeMap<String, Aggregation>,
}

#[derive(Deserialize)]
pub(super) struct Hits {
    /// The number of matches, if it was asked for.
    pub total: Option<Total>,
    #[serde(default)]
    pub hits: Vec<Hit>,
}

#[derive(Deserialize)]
pub(super) struct Total {
    pub value: u64,
}

#[derive(Deserialize)]
pub(super) struct Hit {
    #[serde(rename = "_source")]
    pub source: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
pub(super) struct Aggregation {
    /// The result of a function.
    pub value: Option<f64>,
    #[serde(default)]
    buckets: Vec<Bucket>,
    /// Documents in groups that are not shown.
    #[serde(default)]
    sum_other_doc_count: u64,
}

#[derive(Deserialize)]
struct Bucket {
    key: Value,
    doc_count: u64,
}

impl Connection {
    /// The answer of all shards to the body of a search.
    pub(super) async fn ask(&self, body: &Json) -> Result<Found, StoreError> {
        let path = format!("/{}/_search", self.schema.table);
        let reply = self.http.send(Method::POST, &path, JSON, body.to_string()).await?;
        let found: Found = success(&self.http, &reply)?;
        whole(&self.http, &found.shards, found.timed_out)?;
        Ok(found)
    }

    /// Runs a search.
    pub async fn find(&self, search: &Search) -> Result<Answer, StoreError> {
        let Some(body) = body(&self.schema, search) else {
            let store = self.http.store().to_owned();
            return Err(StoreError::NotSupported { store, ability: Ability::Regex });
        };
        let Found { hits, mut aggregations, .. } = self.ask(&body).await?;
        match search.wanted {
            Wanted::Count => match hits.total {
                Some(total) => Ok(Answer::Count(total.value)),
                None => Err(self.http.answer("a search without its total".to_owned())),
            },
            Wanted::Latest { .. } => {
                let rows: Result<Vec<Row>, _> =
                    hits.hits.into_iter().map(|hit| self.row(hit.source)).collect();
                Ok(Answer::Rows(rows?))
            }
            Wanted::CountBy { .. } | Wanted::CountOver { .. } => {
                let groups = aggregations.remove(GROUPS).filter(|all| all.sum_other_doc_count == 0);
                let Some(groups) = groups else {
                    return Err(self.http.answer("a search without all of its groups".to_owned()));
                };
                let groups = groups.buckets.into_iter().map(|one| (one.key, one.doc_count));
                let mut groups: Vec<(Value, u64)> = groups.collect();
                groups.sort();
                Ok(Answer::Groups(groups))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::lines::line;

    #[test]
    fn searches_are_filters_and_aggregations() {
        let schema = line::schema("lines");
        let mut search = Search {
            text: Some((line::MESSAGE, Match::Phrase("a b".into()))),
            equals: vec![(line::SEVERITY, Value::Integer(3))],
            time: Some((5, 9)),
            wanted: Wanted::CountOver { step_ms: 1000 },
        };
        let made = body(&schema, &search).unwrap();
        let expected = json!([
            { "match_phrase": { "message": "a b" } },
            { "term": { "severity": 3 } },
            { "range": { "time": { "gte": 5, "lt": 9 } } },
        ]);
        assert_eq!(made["query"]["bool"]["filter"], expected);
        assert_eq!(made["aggs"]["groups"]["date_histogram"]["fixed_interval"], "1000ms");
        search.wanted = Wanted::Latest { rows_max: 4 };
        let made = body(&schema, &search).unwrap();
        assert_eq!((&made["size"], &made["sort"]), (&json!(4), &json!([{ "time": "desc" }])));
        search.text = Some((line::MESSAGE, Match::Regex("a".into())));
        assert_eq!(body(&schema, &search), None);
    }
}
