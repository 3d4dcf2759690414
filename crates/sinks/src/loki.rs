//! Grafana Loki, through `/loki/api/v1/push` with JSON.
//!
//! Documents with the same labels form a stream. Loki stores one of several entries with the same
//! stream, time and line, so a request whose answer was lost may be sent again. Loki may keep some
//! entries of a request that it refuses; smaller requests then send these again, which changes
//! nothing for the same reason. Entries have no ids, so deletions are ignored.

use std::collections::BTreeMap;

use crate::destination::{Delivered, Destination, Fault, Outcome};
use crate::document::{Document, value_text, write_value};
use crate::http::compress::Encoding;
use crate::http::{Client, ClientOptions, Method, Request, judge};
use crate::jsonlines::too_large;

/// More than the brackets and names around an entry, its stream and all streams.
const ENTRY_OVERHEAD_BYTES: usize = 64;

/// Options of the destination.
#[derive(Debug, Clone)]
pub struct LokiOptions {
    /// The servers, without a path.
    pub client: ClientOptions,
    /// Labels of all streams.
    pub labels: BTreeMap<String, String>,
    /// Fields that become labels. Each combination of values is a stream: few are best.
    pub label_fields: Vec<String>,
    /// The field that is the line; `None` for all fields but the labels as JSON.
    pub line_field: Option<String>,
    /// Bytes of a request before compression. A larger document is rejected.
    pub body_bytes_max: usize,
    /// Plain or gzip.
    pub encoding: Encoding,
}

/// The destination.
pub struct Loki {
    client: Client,
    options: LokiOptions,
}

type Labels = BTreeMap<String, String>;

impl Loki {
    /// A destination that connects with the first documents.
    pub fn new(options: LokiOptions) -> Result<Loki, Fault> {
        Ok(Loki { client: Client::new(&options.client)?, options })
    }

    fn labels(&self, document: &Document) -> Labels {
        let mut labels = self.options.labels.clone();
        for field in &self.options.label_fields {
            let value = document.field(field).map(value_text).unwrap_or_default();
            // A label with an empty value is the same as no label.
            if !value.is_empty() {
                labels.insert(label_name(field), value);
            }
        }
        labels
    }

    fn line(&self, document: &Document) -> String {
        if let Some(field) = &self.options.line_field
            && let Some(value) = document.field(field)
        {
            return value_text(value);
        }
        let mut line = Vec::new();
        let is_label = |name: &str| self.options.label_fields.iter().any(|field| field == name);
        document.write_json(&[], |name| !is_label(name), &mut line);
        String::from_utf8(line).expect("JSON is UTF-8")
    }
}

/// A name that Loki takes: letters, digits and underscores, and no digit in front.
fn label_name(field: &str) -> String {
    let mut name: String =
        field.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) {
        name.insert(0, '_');
    }
    name
}

impl Destination for Loki {
    fn deliver(&mut self, documents: &[Document]) -> Delivered {
        let mut streams: BTreeMap<Labels, Vec<u8>> = BTreeMap::new();
        let mut bytes = 0;
        let mut outcomes = Vec::new();
        for document in documents {
            if document.is_delete() {
                outcomes.push(Outcome::Ignored);
                continue;
            }
            let labels = self.labels(document);
            let mut entry = b"[".to_vec();
            write_value(&document.time_ns.to_string(), &mut entry);
            entry.push(b',');
            write_value(&self.line(document), &mut entry);
            entry.push(b']');
            let mut more = ENTRY_OVERHEAD_BYTES + entry.len();
            if !streams.contains_key(&labels) {
                more +=
                    labels.iter().map(|(name, value)| 8 + name.len() + value.len()).sum::<usize>();
            }
            if bytes + more > self.options.body_bytes_max {
                if outcomes.is_empty() {
                    return too_large(more, self.options.body_bytes_max);
                }
                break;
            }
            bytes += more;
            outcomes.push(Outcome::Accepted);
            let entries = streams.entry(labels).or_default();
            if !entries.is_empty() {
                entries.push(b',');
            }
            entries.extend_from_slice(&entry);
        }
        if streams.is_empty() {
            return Delivered::Answered { outcomes, retry_after: None };
        }
        let mut body = b"{\"streams\":[".to_vec();
        for (number, (labels, entries)) in streams.iter().enumerate() {
            if number > 0 {
                body.push(b',');
            }
            body.extend_from_slice(b"{\"stream\":");
            write_value(labels, &mut body);
            body.extend_from_slice(b",\"values\":[");
            body.extend_from_slice(entries);
            body.extend_from_slice(b"]}");
        }
        body.extend_from_slice(b"]}");
        let body = self.options.encoding.encode(body);
        let sent = self.client.send(Request {
            method: Method::Post,
            path: "/loki/api/v1/push",
            content_type: "application/json",
            encoding: self.options.encoding,
            body: &body,
        });
        let reply = match sent {
            Ok(reply) => reply,
            Err(trouble) => return trouble.into(),
        };
        match judge::failure(&self.client, &reply, &judge::REFUSING) {
            None => Delivered::Answered { outcomes, retry_after: None },
            // Loki passes on the limit of gRPC between its parts as an error of the server.
            Some(Delivered::Unavailable { fault, .. })
                if reply.body.contains("received message larger than max") =>
            {
                let remedy =
                    "lower `body_bytes_max`, or raise grpc_server_max_recv_msg_size of Loki";
                Delivered::Refused(Fault::new(fault.what, remedy))
            }
            Some(failure) => failure,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn label_names_are_made_valid() {
        for (field, expected) in
            [("app", "app"), ("host.name", "host_name"), ("5xx", "_5xx"), ("", "_"), ("ü", "_")]
        {
            assert_eq!(label_name(field), expected);
        }
    }
}
