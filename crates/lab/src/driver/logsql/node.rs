//! A server that speaks LogsQL over HTTP, as one of the shards of a session.

use std::sync::Arc;

use async_trait::async_trait;
use reqwest::Method;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::Line;
use super::table::{COUNT, Table, VALUE};
use crate::driver::aggregate::{Aggregate, Aggregation};
use crate::driver::http::{Http, Reply, form};
use crate::driver::search::Search;
use crate::driver::sharded::Shard;
use crate::driver::{Ability, Answer, MAINTENANCE_TIMEOUT, StoreError, short_message, stream};
use crate::row::{Row, Value};

/// The type of the content of queries.
pub(crate) const FORM: &str = "application/x-www-form-urlencoded";

/// The option for the addresses of syslog.
pub(crate) const SYSLOG: &str = "syslog";

/// The path of queries.
pub(crate) const QUERY: &str = "/select/logsql/query";

/// The response, or the store's error message.
pub(crate) fn good(node: &Http, reply: Reply) -> Result<Reply, StoreError> {
    #[derive(Deserialize)]
    struct Failure {
        error: String,
    }
    if (200..300).contains(&reply.status) {
        return Ok(reply);
    }
    let reason = match serde_json::from_slice::<Failure>(&reply.body) {
        Ok(failure) => failure.error,
        Err(_) => short_message(&String::from_utf8_lossy(&reply.body)),
    };
    Err(node.refused(format!("status {}: {reason}", reply.status)))
}

/// The JSON of a response, or the store's error message.
pub(crate) fn parsed<T: DeserializeOwned>(node: &Http, reply: Reply) -> Result<T, StoreError> {
    let reply = good(node, reply)?;
    serde_json::from_slice(&reply.body).map_err(|e| node.answer(e.to_string()))
}

/// The lines of an answer to a query.
fn lines_of(node: &Http, reply: Reply) -> Result<Vec<Line>, StoreError> {
    let reply = good(node, reply)?;
    let lines = reply.body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let parse = |line: &[u8]| {
        let words = || short_message(&String::from_utf8_lossy(line));
        // Values of rows are strings; an error is an object.
        if line.starts_with(b"{\"_error\":{") {
            return Err(node.refused(words()));
        }
        serde_json::from_slice(line).map_err(|e| node.answer(format!("{e}: {}", words())))
    };
    lines.map(parse).collect()
}

async fn answer_lines(node: &Http, body: String) -> Result<Vec<Line>, StoreError> {
    lines_of(node, node.send(Method::POST, QUERY, FORM, body).await?)
}

/// The first line that a query finds.
async fn first(node: &Http, query: &str) -> Result<Option<Line>, StoreError> {
    Ok(answer_lines(node, form("limit=1&query", query)).await?.into_iter().next())
}

/// The only line of a query that may take as long as maintenance.
pub(crate) async fn first_of_all(node: &Http, query: &str) -> Result<Line, StoreError> {
    let (limit, query) = (MAINTENANCE_TIMEOUT, form("query", query));
    let reply = node.send_within(limit, Method::POST, QUERY, FORM, query).await?;
    Ok(lines_of(node, reply)?.into_iter().next().unwrap_or_default())
}

/// The number of lines that a query counts.
pub(crate) async fn count(node: &Http, query: &str) -> Result<u64, StoreError> {
    counted(node, &first(node, query).await?.unwrap_or_default())
}

fn counted(node: &Http, line: &Line) -> Result<u64, StoreError> {
    let count = line.get(COUNT).and_then(|n| n.parse().ok());
    count.ok_or_else(|| node.answer("a count is one number".to_owned()))
}

/// One of the servers of a session.
pub(crate) struct Node {
    pub http: Http,
    pub table: Arc<Table>,
}

#[async_trait]
impl Shard for Node {
    fn store(&self) -> &str {
        self.http.store()
    }

    async fn insert_many(&mut self, rows: &[&Row]) -> Result<(), StoreError> {
        let (mut body, most) = (Vec::new(), self.table.dialect.line_bytes_max);
        for row in rows {
            let start = body.len();
            self.table.push_line(&mut body, row);
            let bytes = body.len() - start;
            if bytes > most {
                return Err(self.http.refused(format!(
                    "the row of key {} has {bytes} bytes; a line has at most {most}",
                    row.key
                )));
            }
        }
        let (path, content) = (self.table.insert_path(), self.table.dialect.content);
        let reply = self.http.send(Method::POST, path, content, body).await?;
        good(&self.http, reply).map(|_| ())
    }

    async fn read(&mut self, key: &Value) -> Result<Option<Row>, StoreError> {
        let line = first(&self.http, &self.table.read_query(key)).await?;
        let row = line.map(|line| self.table.row(&line)).transpose();
        row.map_err(|reason| self.http.answer(reason))
    }

    async fn count(&mut self, conditions: &[(usize, Value)]) -> Result<u64, StoreError> {
        count(&self.http, &self.table.count_query(conditions)).await
    }

    async fn search(&mut self, search: &Search) -> Result<Answer, StoreError> {
        let query = form("query", &self.table.search_query(search));
        let lines = answer_lines(&self.http, query).await?;
        self.table.found(search, &lines).map_err(|reason| self.http.answer(reason))
    }

    async fn aggregate(&mut self, asked: &Aggregation) -> Result<Aggregate, StoreError> {
        if !self.table.dialect.aggregates {
            return Err(self.lacks(Ability::Aggregate));
        }
        let node = &self.http;
        let line = first(node, &self.table.aggregate_query(asked)).await?.unwrap_or_default();
        let rows = counted(node, &line)?;
        if rows == 0 {
            return Ok(Aggregate::default());
        }
        let value = line.get(VALUE).and_then(|value| value.parse().ok());
        let told = || node.answer(format!("the result {:?} is no integer", line.get(VALUE)));
        Ok(Aggregate { rows, value: Some(value.ok_or_else(told)?) })
    }

    fn no_stream(&self) -> StoreError {
        stream::elsewhere(self.http.store(), SYSLOG)
    }
}
