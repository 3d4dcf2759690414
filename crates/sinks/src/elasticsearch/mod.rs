//! Elasticsearch 7 to 9 and OpenSearch 1 to 3, through `_bulk`.
//!
//! Invariant: a document is stored once, however often it is sent. Its id is `_id`, and `create`
//! refuses a second document with the same id (409), which counts as accepted; `index` replaces it.
//! The ids of a data stream are unique within one backing index alone: a document that is sent
//! before and again after a rollover is there twice. Dated indices do not have this gap, because
//! the name follows from the document's own time.
//!
//! A deletion names the id and, by its time, the dated index. A document that is not there counts
//! as deleted. Data streams take new documents only, so a deletion is ignored there. An id that is
//! written, deleted and written again comes in as many requests, in order.
//!
//! Documents that the server pushes back are sent again without the others of their request. They
//! hold up later batches, and not the rest of their own batch. A disk that is full on the server is
//! such a push-back, whatever its status.
//!
//! Before the first documents, and after each loss of the connection, the sink requests the
//! version of the server, and creates the index template or brings it up to date ([`template`]).

mod bulk;
mod template;
mod version;

use std::time::Duration;

pub use template::TemplateOptions;
pub use version::{Product, Server};

use crate::destination::{Delivered, Destination, Fault, Outcome};
use crate::document::Document;
use crate::http::compress::Encoding;
use crate::http::{Client, ClientOptions, Method, Request, judge};
use crate::time::DatePattern;

/// Statuses of a whole `_bulk` request that say that the content is at fault.
const REFUSING: [u16; 2] = [400, 422];
/// The answer is reduced to what is read of it.
const FILTER_PATH: &str = "filter_path=errors,error,items.*.status,items.*.error.type,\
                           items.*.error.reason,items.*.error.caused_by.reason";

/// Options of the destination.
#[derive(Debug, Clone)]
pub struct ElasticsearchOptions {
    /// The servers; all must be nodes of one cluster.
    pub client: ClientOptions,
    /// Where documents go.
    pub target: Target,
    /// What happens to a document whose id is there already.
    pub operation: Operation,
    /// The field that gets the document's time.
    pub time_field: String,
    /// How that field is mapped.
    pub time_type: TimeType,
    /// The index template; `None` if an administrator makes it.
    pub template: Option<TemplateOptions>,
    /// The ingest pipeline that documents pass, if any.
    pub pipeline: Option<String>,
    /// Bytes of a request before compression. A larger document is rejected.
    pub body_bytes_max: usize,
    /// Plain or gzip.
    pub encoding: Encoding,
}

/// Where documents go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// An index, named after the document's time if the pattern has a date in it.
    Index(DatePattern),
    /// A data stream.
    DataStream(String),
}

/// The action of `_bulk`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// The first document with an id stays.
    Create,
    /// The last document with an id stays. Data streams do not have this.
    Index,
}

/// The type of the time field. Both take nanoseconds; a `date` keeps milliseconds in its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeType {
    /// Milliseconds.
    Date,
    /// Nanoseconds, from 1970 to 2262.
    DateNanos,
}

/// The destination.
pub struct Elasticsearch {
    client: Client,
    options: ElasticsearchOptions,
    /// The server, once its version is known and the template is there.
    server: Option<Server>,
}

impl Elasticsearch {
    /// A destination that connects with the first documents.
    pub fn new(options: ElasticsearchOptions) -> Result<Elasticsearch, Fault> {
        Ok(Elasticsearch { client: Client::new(&options.client)?, options, server: None })
    }

    /// The server that answered last, if one did.
    pub fn server(&self) -> Option<&Server> {
        self.server.as_ref()
    }

    /// Learns the version and creates the template.
    fn prepare(&mut self, documents: &[Document]) -> Result<(), Delivered> {
        let server = version::detect(&mut self.client)?;
        if matches!(self.options.target, Target::DataStream(_)) {
            server.check_data_streams().map_err(Delivered::unavailable)?;
        }
        if self.options.template.is_some() {
            template::ensure(&mut self.client, &server, &self.options, documents)?;
        }
        self.server = Some(server);
        Ok(())
    }

    /// The path of bulk requests. A fixed name is part of it, so that lines need not repeat it.
    fn path(&self) -> String {
        let name = match &self.options.target {
            Target::Index(pattern) if pattern.is_fixed() => format!("/{}", pattern.at(0)),
            Target::Index(_) => String::new(),
            Target::DataStream(name) => format!("/{name}"),
        };
        let pipeline = self.options.pipeline.iter().map(|name| format!("&pipeline={name}"));
        format!("{name}/_bulk?{FILTER_PATH}{}", pipeline.collect::<String>())
    }

    fn send(&mut self, body: Vec<u8>, count: usize) -> Result<bulk::Judged, Delivered> {
        let body = self.options.encoding.encode(body);
        let path = self.path();
        let reply = self.client.send(Request {
            method: Method::Post,
            path: &path,
            content_type: "application/x-ndjson",
            encoding: self.options.encoding,
            body: &body,
        })?;
        if let Some(failure) = judge::failure(&self.client, &reply, &REFUSING) {
            return Err(failure);
        }
        bulk::judge(&self.client, &reply, count, self.options.operation)
    }
}

impl Destination for Elasticsearch {
    fn deliver(&mut self, documents: &[Document]) -> Delivered {
        if self.server.is_none()
            && let Err(delivered) = self.prepare(documents)
        {
            return delivered;
        }
        let encoded = bulk::encode(&self.options, documents);
        let mut outcomes = encoded.outcomes;
        let count = outcomes.iter().filter(|outcome| outcome.is_none()).count();
        let mut retry_after: Option<Duration> = None;
        if count > 0 {
            match self.send(encoded.body, count) {
                Ok(judged) => {
                    retry_after = judged.retry_after;
                    let unknown = outcomes.iter_mut().filter(|outcome| outcome.is_none());
                    for (outcome, judged) in unknown.zip(judged.outcomes) {
                        *outcome = Some(judged);
                    }
                }
                Err(delivered) => {
                    if matches!(delivered, Delivered::Unavailable { .. }) {
                        // Another server, or another version of it, may answer next.
                        self.server = None;
                    }
                    return delivered;
                }
            }
        }
        let outcomes: Vec<Outcome> = outcomes.into_iter().flatten().collect();
        Delivered::Answered { outcomes, retry_after }
    }

    fn keeps_order(&self) -> bool {
        false
    }
}
