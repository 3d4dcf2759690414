//! Lines of a stream: each is a document of its text, as a shipper sends it that does not parse.
//! A block is one `_bulk` request, and a connection waits for its answer.

use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value as Json, json};

use super::{Connection, Elasticsearch, ShardCounts, success, whole};
use crate::driver::stream::{Block, Sum};
use crate::driver::{Answer, StoreError};
use crate::row::Schema;

/// Documents of one answer when all are read.
const PAGE_ROWS: usize = 5_000;

/// How long the store keeps the view of all documents between two pages.
const VIEW_KEPT: &str = "5m";

/// The column that has the text: the first one that is searched by words.
fn column(schema: &Schema) -> Option<&str> {
    schema.columns.iter().find(|column| column.words).map(|column| column.name.as_str())
}

fn no_column(schema: &Schema) -> String {
    format!("the table `{}` has no column of words for the lines", schema.table)
}

impl Connection {
    pub(super) async fn stream(&self, block: &Block) -> Result<Answer, StoreError> {
        let no_column = || self.http.refused(no_column(&self.schema));
        let name = json!(column(&self.schema).ok_or_else(no_column)?).to_string();
        let mut body = String::with_capacity(2 * block.text().len());
        for line in block.text().split_inclusive(|byte| *byte == b'\n') {
            let text = std::str::from_utf8(line.strip_suffix(b"\n").unwrap_or(line));
            // A document is JSON, which has no other bytes.
            let text = text.map_err(|error| self.http.refused(format!("a line: {error}")))?;
            let text = json!(text).to_string();
            body.extend(["{\"index\":{}}\n{", &name, ":", &text, "}\n"]);
        }
        self.bulk(body).await?;
        Ok(Answer::Done)
    }
}

impl Elasticsearch {
    /// All lines of a table, by the text of their documents.
    pub(super) async fn sum(&self, schema: &Schema) -> Result<Sum, StoreError> {
        #[derive(Deserialize)]
        struct Page {
            #[serde(rename = "_scroll_id")]
            view: String,
            #[serde(rename = "_shards")]
            shards: ShardCounts,
            timed_out: bool,
            hits: Hits,
        }
        #[derive(Deserialize)]
        struct Hits {
            hits: Vec<Hit>,
        }
        #[derive(Deserialize)]
        struct Hit {
            #[serde(rename = "_source")]
            source: Json,
        }
        let name = column(schema).ok_or_else(|| self.http.refused(no_column(schema)))?;
        let mut path = format!("/{}/_search?scroll={VIEW_KEPT}", schema.table);
        let mut body = json!({ "size": PAGE_ROWS, "sort": ["_doc"], "_source": [name] });
        let mut sum = Sum::default();
        loop {
            let reply = self.maintain(Method::POST, &path, body.to_string()).await?;
            let page: Page = success(&self.http, &reply)?;
            whole(&self.http, &page.shards, page.timed_out)?;
            for hit in &page.hits.hits {
                let Some(text) = hit.source[name].as_str() else {
                    return Err(self.http.answer(format!("a line is {}", hit.source)));
                };
                sum.add_line(text.as_bytes());
            }
            if page.hits.hits.is_empty() {
                let done = json!({ "scroll_id": page.view }).to_string();
                self.maintain(Method::DELETE, "/_search/scroll", done).await?;
                return Ok(sum);
            }
            path = "/_search/scroll".to_owned();
            body = json!({ "scroll": VIEW_KEPT, "scroll_id": page.view });
        }
    }
}
