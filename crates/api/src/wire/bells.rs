//! Bells at doors that do not exist: senders that send to a path without a call, or speak another
//! protocol to the port of HTTP.
//!
//! Many senders drop what was answered with 404, and say so nowhere. So such a request is counted
//! by what its path looks like, its answer names the path that would be right, and so does a
//! warning, once for each sender in a while.
//!
//! Invariant: the names of counters are those of [`PATHS`], whatever paths are requested.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{ConnectInfo, Request};
use axum::http::Method;
use collector::{Accounting, PeerLog, SourceKind};
use record::framing::foreign::{Foreign, Recognised, recognise};

use crate::wire::error::ApiError;

/// Bytes of a path that are shown.
const SHOWN_BYTES_MAX: usize = 100;
/// What a path ends with by which its sender is recognised, and where it should send.
const PATHS: [(&str, &str); 31] = [
    ("/loki/api/v1/push", "shippers of Loki send to /loki/api/v1/push or /insert/loki/api/v1/push"),
    ("/api/v1/push", "shippers of Loki send to /loki/api/v1/push"),
    (
        "/services/collector/event",
        "senders of Splunk send to /services/collector/event, without anything in front",
    ),
    (
        "/services/collector/raw",
        "senders of Splunk send to /services/collector/raw, without anything in front",
    ),
    (
        "/services/collector",
        "senders of Splunk send to /services/collector, without anything in front",
    ),
    (
        "/_bulk",
        "clients of Elasticsearch send to /_bulk, /INDEX/_bulk or /insert/elasticsearch/_bulk",
    ),
    ("/_doc", "clients of Elasticsearch send to /INDEX/_doc or /insert/elasticsearch/INDEX/_doc"),
    ("/_json", "send lines of JSON to /insert/jsonline"),
    ("/_search", "queries are asked at /select/logsql/query"),
    ("/v1/logs", "exporters of OpenTelemetry send to /v1/logs or /insert/opentelemetry/v1/logs"),
    (
        "/v1/metrics",
        "exporters of OpenTelemetry send to /v1/metrics or /insert/opentelemetry/v1/metrics",
    ),
    ("/v1/traces", "traces are not kept; set OTEL_TRACES_EXPORTER=none"),
    ("/api/traces", "traces are not kept; turn the exporter of Jaeger off"),
    ("/api/v2/spans", "traces are not kept; turn the exporter of Zipkin off"),
    ("/v0.4/traces", "traces are not kept; set DD_TRACE_ENABLED=false"),
    ("/v0.5/traces", "traces are not kept; set DD_TRACE_ENABLED=false"),
    ("/api/v2/logs", "senders of Datadog send to /api/v2/logs or /insert/datadog/api/v2/logs"),
    (
        "/api/v1/series",
        "measurements of Datadog have no way in; send them by OpenTelemetry to /v1/metrics",
    ),
    (
        "/api/v2/series",
        "measurements of Datadog have no way in; send them by OpenTelemetry to /v1/metrics",
    ),
    ("/api/v1/write", "Prometheus sends to /api/v1/write or /insert/prometheus/api/v1/write"),
    ("/api/v2/write", "writers of InfluxDB send to /api/v2/write or /insert/influx/api/v2/write"),
    ("/write", "writers of InfluxDB send to /write or /insert/influx/write"),
    (
        "/api/put",
        "measurements of OpenTSDB have no way in; send them as points of InfluxDB to /write",
    ),
    ("/api/v1/import", "send measurements to /api/v1/write or /write"),
    ("/api/v1/import/prometheus", "send measurements to /api/v1/write or /write"),
    ("/gelf", "GELF is sent to /gelf or /insert/gelf"),
    ("/jsonline", "lines of JSON are sent to /insert/jsonline"),
    ("/native", "vlagent sends to /insert/native"),
    ("/upload", "systemd-journal-upload sends to /upload or /insert/journald/upload"),
    ("/log/v1", "senders of New Relic have no way in; send lines of JSON to /insert/jsonline"),
    ("/logs", "send lines of JSON to /insert/jsonline, or lines of text to /insert/lines"),
];
/// What all other senders are told.
const OTHERS: &str = "send lines of JSON to /insert/jsonline, or lines of text to /insert/lines; docs/api.md has the \
                      paths for senders of other products";

/// Counters of wrong doors, and who was told.
pub struct Bells {
    accounting: Arc<Accounting>,
    log: Mutex<PeerLog>,
    unknown: [AtomicU64; PATHS.len() + 1],
}

impl Bells {
    /// Nobody has rung yet.
    pub fn new(accounting: Arc<Accounting>) -> Bells {
        let unknown = std::array::from_fn(|_| AtomicU64::new(0));
        Bells { accounting, log: Mutex::default(), unknown }
    }

    /// The answer to a request that brings something to a path without a call; `None` for others.
    pub fn answer(&self, request: &Request) -> Option<ApiError> {
        if !matches!(*request.method(), Method::POST | Method::PUT) {
            return None;
        }
        let path = request.uri().path();
        let ends = |end: &str| path.trim_end_matches('/').ends_with(end);
        let found = PATHS.iter().position(|(end, _)| ends(end));
        self.unknown[found.unwrap_or(PATHS.len())].fetch_add(1, Relaxed);
        let remedy = found.map_or(OTHERS, |index| PATHS[index].1);
        let shown: String = path.chars().take(SHOWN_BYTES_MAX).collect();
        let sender = request.extensions().get::<ConnectInfo<SocketAddr>>();
        if let Some(&ConnectInfo(sender)) = sender {
            self.warn(sender, |held_back| {
                let method = request.method();
                tracing::warn!(%sender, held_back, "nothing is kept of what a sender sends to {method} {shown}: {remedy}");
            });
        }
        Some(ApiError::not_found(format!(
            "there is no call {} {shown}: {remedy}",
            request.method()
        )))
    }

    /// Requests to paths without a call so far, by what their paths end with.
    pub fn unknown(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let names = PATHS.iter().map(|(end, _)| *end).chain(["other"]);
        names.zip(self.unknown.iter().map(|count| count.load(Relaxed)))
    }

    /// Whether a connection to a port of HTTP without TLS that begins so speaks something else,
    /// which is counted and told. Zeros at the end may be bytes that have not come.
    pub fn is_foreign(&self, first: &[u8], sender: SocketAddr) -> bool {
        let Some((what, remedy)) = foreign(first) else { return false };
        self.accounting.source(SourceKind::Http).wrong_protocol(0);
        self.warn(sender, |held_back| {
            tracing::warn!(%sender, held_back, "connection refused: its sender speaks {what}, and this port takes HTTP; {remedy}");
        });
        true
    }

    fn warn(&self, sender: SocketAddr, tell: impl FnOnce(u64)) {
        let mut log = self.log.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(held_back) = log.pass(sender.ip()) {
            tell(held_back);
        }
    }
}

/// What the first bytes on a port of HTTP are if they are no request.
fn foreign(first: &[u8]) -> Option<(&'static str, &'static str)> {
    match first {
        [b'<', b'0'..=b'9', ..] => {
            return Some(("syslog", "send it to syslog_tcp_listen (port 5514)"));
        }
        [b'{', ..] => {
            let remedy = "send lines of JSON by HTTP to /insert/jsonline, or to syslog_tcp_listen (port 5514)";
            return Some(("JSON without HTTP", remedy));
        }
        // The length, the number of the request, no answer to another one, and OP_MSG or OP_QUERY.
        [_, _, 0, 0, _, _, _, _, 0, 0, 0, 0, 0xdd | 0xd4, 7, 0, 0, ..] => {
            return Some(("the protocol of MongoDB", "it does not send logs"));
        }
        _ => {}
    }
    match recognise(first) {
        Recognised::Foreign(Foreign::Http) => None,
        Recognised::Foreign(Foreign::Tls) => {
            Some(("TLS", "set https_certificate and https_key here, or turn TLS off at the sender"))
        }
        Recognised::Foreign(foreign) => Some((foreign.name(), foreign.remedy())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_that_does_not_exist_names_the_right_one() {
        let bells = Bells::new(Arc::default());
        for (method, path, name, expected) in [
            ("POST", "/api/v1/push", "/api/v1/push", "/loki/api/v1/push"),
            (
                "POST",
                "/splunk/services/collector/event/",
                "/services/collector/event",
                "without anything in front",
            ),
            ("PUT", "/a/b", "other", "/insert/jsonline"),
            ("POST", "/api/default/x/_json", "/_json", "/insert/jsonline"),
            ("POST", "/prom/api/v1/write", "/api/v1/write", "/insert/prometheus/api/v1/write"),
        ] {
            let request = Request::builder().method(method).uri(path);
            let request = request.body(axum::body::Body::empty()).unwrap();
            let answer = bells.answer(&request).unwrap();
            assert_eq!(answer.status().as_u16(), 404);
            assert!(answer.to_string().contains(expected), "{answer}");
            assert_eq!(bells.unknown().find(|(found, _)| *found == name).unwrap().1, 1, "{path}");
        }
        let request = Request::get("/api/v1/push").body(axum::body::Body::empty()).unwrap();
        assert!(bells.answer(&request).is_none());
        assert_eq!(bells.unknown().map(|(_, count)| count).sum::<u64>(), 5);
    }

    #[test]
    fn a_longer_end_comes_first() {
        for (index, (end, _)) in PATHS.iter().enumerate() {
            let first = PATHS.iter().position(|(other, _)| end.ends_with(other));
            assert_eq!(first, Some(index), "{end}");
        }
    }

    #[test]
    fn other_protocols_are_told_and_counted() {
        let accounting = Arc::<Accounting>::default();
        let bells = Bells::new(Arc::clone(&accounting));
        let sender = ([127, 0, 0, 1], 1).into();
        let check = |first: &[u8], expected| {
            let mut padded = [0; 16];
            padded[..first.len()].copy_from_slice(first);
            assert_eq!(bells.is_foreign(&padded, sender), expected, "{first:?}");
        };
        for first in [
            &b"<13>1 2026-01-31"[..],
            b"{\"a\":1}\n",
            b"\x16\x03\x01\x02\0\x01\0",
            b"2W\0\0\0\x012J",
            b"\x93\xaaapp.follow\xce\x65",
            b"\x3a\x01\0\0\x01\0\0\0\0\0\0\0\xdd\x07\0\0",
            b"SSH-2.0-OpenSSH",
        ] {
            check(first, true);
        }
        for first in [
            &b"GET / HTTP/1.1\r\n"[..],
            b"POST /insert/jso",
            b"PRI * HTTP/2.0\r\n",
            b"G",
            b"PATCH /x HTTP/1",
        ] {
            check(first, false);
        }
        let counts = accounting.source(SourceKind::Http).counts();
        assert_eq!(counts.dropped(collector::DropReason::WrongProtocol).lines, 7);
    }
}
