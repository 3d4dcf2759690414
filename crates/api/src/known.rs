//! The parameters of each call. Others are refused by name (400), with the nearest known one.
//!
//! Ignoring an unknown parameter can do more harm than an error: a filter that does not filter, a
//! limit with a typing error. So every path has its list here. Parameters of VictoriaLogs,
//! Elasticsearch and Loki that can be ignored without harm are in the lists [`IGNORED`],
//! [`ELASTIC`] and [`LOKI`], each with its reason.
//!
//! Tenants (`AccountID`, `ProjectID`, as parameters or headers) are those of VictoriaLogs, which
//! the gate knows (`access/tenants.rs`). Where none are configured there is one, 0:0. Another one
//! is refused, because its lines would be visible to all.
//!
//! Left out: `/health`, `/ready`, `/metrics` and the page, which accept any parameters and ignore
//! them.

use std::borrow::Cow;

use axum::extract::Request;
use axum::http::HeaderMap;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::wire::error::{ApiError, ApiResult};
use text::nearest::nearest;

/// Calls whose senders can be given nothing but an address: they have a token as its parameter
/// `token`. Everywhere else it would end up in logs without need.
pub const TOKEN_PATHS: [&str; 3] = ["/insert/pubsub", "/insert/eventgrid", "/insert/github"];
/// Of VictoriaLogs. Tenants are checked separately; the others control its caches and its traces,
/// which do not exist here, and its partial responses, which some calls do not have.
const IGNORED: &[&str] = &["AccountID", "ProjectID", "allow_partial_response", "nocache", "trace"];
/// By which clients of VictoriaLogs name a tenant: headers, or parameters in the address.
pub const TENANT_NUMBERS: [&str; 2] = ["AccountID", "ProjectID"];
/// The parameter that names several tenants, in the address only.
pub const TENANTS: &str = "tenants";

/// Mark of a request whose tenants the gate has read, in the address and in headers.
#[derive(Clone, Copy, Debug)]
pub struct TenantsAreRead;

/// Parameters that queries share.
const QUERY: &[&str] =
    &["query", "start", "end", "timeout", "extra_filters", "extra_stream_filters", "all_revisions"];
/// Of a live tail. `offset` and `refresh_interval` are how long VictoriaLogs waits for late lines,
/// and how often it polls for new ones: here they are sent at once. Each revision of a row is sent
/// in any case, with and without `all_revisions`.
const TAIL: &[&str] = &[
    "query",
    "start_offset",
    "include",
    "extra_filters",
    "extra_stream_filters",
    "own_lines",
    "places",
    "all_revisions",
    "offset",
    "refresh_interval",
];
/// Parameters that ingest calls share.
const INSERT: &[&str] = &[
    "_time_field",
    "_msg_field",
    "_level_field",
    "_stream_fields",
    "ignore_fields",
    "decolorize_fields",
    "extra_fields",
    "debug",
    "format",
    "_type",
    "type",
    "file",
    "line_break",
    "timezone",
];
/// Their headers, without the prefix `vl-`.
const INSERT_HEADERS: &[&str] = &[
    "time-field",
    "msg-field",
    "level-field",
    "stream-fields",
    "ignore-fields",
    "decolorize-fields",
    "extra-fields",
    "debug",
];
/// Of Elasticsearch. They control the format of a response, and how an index, which does not exist
/// here, treats a document that is already durable when it is acknowledged.
const ELASTIC: &[&str] = &[
    "_source",
    "_source_excludes",
    "_source_includes",
    "error_trace",
    "filter_path",
    "human",
    "if_primary_term",
    "if_seq_no",
    "include_source_on_error",
    "list_executed_pipelines",
    "master_timeout",
    "op_type",
    "pipeline",
    "pretty",
    "refresh",
    "require_alias",
    "require_data_stream",
    "routing",
    "timeout",
    "version",
    "version_type",
    "wait_for_active_shards",
];
/// Of Datadog's intake of logs.
const DATADOG: &[&str] = &["ddsource", "ddtags", "hostname", "service"];
/// Of writers of InfluxDB. There is one place for all points; `precision` is the unit of times.
const INFLUX: &[&str] =
    &["bucket", "bucketID", "consistency", "db", "org", "orgID", "precision", "rp"];
/// Of Splunk's HTTP Event Collector. Lines are cut at newlines whatever a sender says about times.
const SPLUNK: &[&str] =
    &["auto_extract_timestamp", "channel", "host", "index", "source", "sourcetype", "time"];
/// Of Loki, as Grafana, `logcli` and promtail send them. Those that no call reads control its
/// splitting, its caches and its hints.
const LOKI: &[&str] = &[
    "query",
    "start",
    "end",
    "since",
    "step",
    "interval",
    "limit",
    "direction",
    "time",
    "timeout",
    "match",
    "match[]",
    "targetLabels",
    "aggregateBy",
    "line_limit",
    "field_limit",
    "delay_for",
    "values",
    "shards",
    "cache",
    "quiet",
    "supportingQueryType",
    "extra_filters",
    "extra_stream_filters",
];

/// The lists for a path; `None` if any parameter is accepted.
fn lists(path: &str) -> Option<Vec<&'static [&'static str]>> {
    if let Some(call) = path.strip_prefix("/select/logsql/") {
        let own: &[&str] = match call {
            "query" => &["limit", "offset", "include", "format", "time", "ignore_pipes"],
            "explain" => {
                &["limit", "offset", "include", "format", "time", "ignore_pipes", "analyze"]
            }
            "queries" => &["limit", "include", "time"],
            "hits" => &["step", "offset", "field", "fields_limit", "time", "ignore_pipes"],
            "facets" => &[
                "limit",
                "max_values_per_field",
                "max_value_len",
                "keep_const_fields",
                "time",
                "ignore_pipes",
            ],
            "field_names" | "stream_field_names" => &["filter", "limit", "time", "ignore_pipes"],
            "field_values" | "stream_field_values" => {
                &["field", "filter", "limit", "time", "ignore_pipes"]
            }
            "stats_query" => &["time"],
            "stats_query_range" => &["step", "offset", "time"],
            // It has no end in time.
            "tail" => return Some(vec![TAIL, IGNORED]),
            // `streams` and `stream_ids`.
            _ => &["limit", "time", "ignore_pipes"],
        };
        return Some(vec![own, QUERY, IGNORED]);
    }
    if path == "/api/v1/write" {
        return Some(vec![INSERT, IGNORED]);
    }
    if let Some(call) = path.strip_prefix("/api/v1/") {
        let segments: Vec<&str> = call.split('/').collect();
        let own: &[&str] = match segments[..] {
            ["export"] => &["format", "include", "cursors", "cursor"],
            ["queries"] => &["limit", "include", "format"],
            ["lookups", _] => return Some(vec![&["match", "keys", "fields", "value"]]),
            ["sinks", _, "rejected"] => return Some(vec![&["limit"]]),
            ["sinks", _, "rejected", "file"] => return Some(vec![&["file"]]),
            ["queries", _, "results"] => return Some(vec![&["limit", "cursor"]]),
            // Name and password are accepted in the form only, because addresses end up in logs.
            ["login" | "logout" | "me"] => return Some(Vec::new()),
            ["login", "oidc", _] => return Some(vec![&["to"]]),
            // Providers add parameters of their own.
            ["login", "oidc", _, "callback"] => return None,
            ["context"] => {
                return Some(vec![&[
                    "id",
                    "before",
                    "after",
                    "extra_filters",
                    "extra_stream_filters",
                ]]);
            }
            ["lucene"] => return Some(vec![&["query"]]),
            ["summary"] => return Some(vec![&["type", "start", "end", "step"]]),
            ["summary", "types"] => return Some(vec![&["start", "end"]]),
            ["summary", "rows"] => return Some(vec![&["type", "start", "end", "step"]]),
            ["summary", "rerun"] => {
                return Some(vec![&["type", "start", "end", "background", "own"]]);
            }
            ["rules"] => {
                return Some(vec![&[
                    "type",
                    "rule_name[]",
                    "rule_group[]",
                    "file[]",
                    "exclude_alerts",
                ]]);
            }
            ["alerts", "history"] => {
                return Some(vec![&[
                    "start",
                    "end",
                    "rule",
                    "limit",
                    "extra_filters",
                    "extra_stream_filters",
                ]]);
            }
            ["programs", "test"] => return Some(Vec::new()),
            ["programs", _] => return Some(vec![&["language"]]),
            ["programs", _, "rows"] => {
                return Some(vec![&[
                    "start",
                    "end",
                    "limit",
                    "extra_filters",
                    "extra_stream_filters",
                ]]);
            }
            ["programs", _, "runs"] => {
                return Some(vec![&["start", "end", "dry_run", "language"]]);
            }
            ["deletions"] => return Some(vec![&["filter"]]),
            ["deletions", _] => return Some(vec![&["store"]]),
            ["backups"] => return Some(vec![&["name", "send"]]),
            ["files"] => return Some(vec![&["offset", "limit"]]),
            _ => return Some(Vec::new()),
        };
        return Some(vec![own, QUERY, IGNORED]);
    }
    let brings = |path: &str| {
        path.ends_with("/_bulk") || path.contains("/_doc") || path.contains("/_create")
    };
    match path {
        "/loki/api/v1/push" | "/v1/logs" | "/v1/metrics" => Some(vec![INSERT, IGNORED]),
        "/write" | "/api/v2/write" | "/insert/influx/write" | "/insert/influx/api/v2/write" => {
            Some(vec![INFLUX, INSERT, IGNORED])
        }
        // By gRPC.
        _ if path.starts_with("/opentelemetry.proto.") => Some(vec![INSERT, IGNORED]),
        _ if path.starts_with("/loki/") => Some(vec![LOKI, IGNORED]),
        _ if brings(path) => Some(vec![INSERT, ELASTIC, IGNORED]),
        _ if path.ends_with("/api/v2/logs") || path.ends_with("/v1/input") => {
            Some(vec![DATADOG, INSERT, IGNORED])
        }
        "/gelf" | "/upload" => Some(vec![INSERT, IGNORED]),
        "/insert/native" | "/insert/multitenant/native" | "/internal/insert" => {
            Some(vec![&["version"], INSERT, IGNORED])
        }
        _ if path.contains("/services/collector") => Some(vec![SPLUNK, INSERT, IGNORED]),
        // Ignoring parameters of what clients of Elasticsearch request before they send does no
        // harm.
        _ if path.starts_with("/insert/elasticsearch") => None,
        _ if TOKEN_PATHS.contains(&path) => Some(vec![&["token"], INSERT, IGNORED]),
        _ if path.starts_with("/insert/") => Some(vec![INSERT, IGNORED]),
        _ => None,
    }
}

/// Refuses a parameter that the call at `path` does not take.
pub fn check<'p>(path: &str, names: impl Iterator<Item = (&'p str, &'p str)>) -> ApiResult<()> {
    let Some(lists) = lists(path) else { return Ok(()) };
    let known = || lists.iter().flat_map(|list| list.iter().copied());
    for (name, value) in names {
        if !known().any(|known| known == name) {
            return Err(unknown("parameter", name, known()));
        }
        check_tenant(name, value)?;
    }
    Ok(())
}

/// The middleware around every handler, behind the gate: checks parameters in the URL, and headers.
/// Forms are checked where they are parsed.
pub async fn checked(request: Request, next: Next) -> Response {
    let path = request.uri().path();
    let query = request.uri().query().unwrap_or_default();
    let pairs: Vec<(Cow<'_, str>, Cow<'_, str>)> =
        form_urlencoded::parse(query.as_bytes()).collect();
    let has_tenants = request.extensions().get::<TenantsAreRead>().is_some();
    let is_read = |name: &str| has_tenants && (TENANT_NUMBERS.contains(&name) || name == TENANTS);
    let others = pairs.iter().filter(|(name, _)| !is_read(name));
    let checked = check(path, others.map(|(name, value)| (&**name, &**value)))
        .and_then(|()| check_headers(path, request.headers(), has_tenants));
    match checked {
        Ok(()) => next.run(request).await,
        Err(error) if path.starts_with("/loki/") => error.into_text(),
        Err(error) => error.into_response(),
    }
}

/// Refuses a header that the call at `path` does not take.
fn check_headers(path: &str, headers: &HeaderMap, has_tenants: bool) -> ApiResult<()> {
    let Some(lists) = lists(path) else { return Ok(()) };
    for name in TENANT_NUMBERS {
        for value in headers.get_all(name).iter().filter(|_| !has_tenants) {
            check_tenant(name, &String::from_utf8_lossy(value.as_bytes()))?;
        }
    }
    if !lists.contains(&INSERT) {
        return Ok(());
    }
    let own = headers.keys().filter_map(|name| name.as_str().strip_prefix("vl-"));
    for name in own {
        if !INSERT_HEADERS.contains(&name) {
            return Err(unknown("header VL-", name, INSERT_HEADERS.iter().copied()));
        }
    }
    Ok(())
}

fn check_tenant(name: &str, value: &str) -> ApiResult<()> {
    if !TENANT_NUMBERS.contains(&name) || matches!(value.trim(), "" | "0") {
        return Ok(());
    }
    Err(ApiError::bad_request(format!(
        "{name} is '{value}', but there is only the tenant 0 here: list tenants in [[tenants]] of the \
         configuration, and name one in the address or by headers (docs/tenants.md)"
    )))
}

fn unknown(kind: &str, name: &str, known: impl Iterator<Item = &'static str>) -> ApiError {
    let mut known: Vec<&str> = known.collect();
    known.sort_unstable();
    known.dedup();
    let space = if kind.ends_with('-') { "" } else { " " };
    // A name may be as long as the head of a request.
    let shown: String = name.chars().take(100).collect();
    let hint = match nearest(&shown, known.iter().copied()) {
        Some(word) => format!("did you mean '{word}'?"),
        None if known.is_empty() => "this call takes none".to_owned(),
        None => format!("known here: {}", known.join(", ")),
    };
    ApiError::bad_request(format!("the {kind}{space}'{shown}' is not known here; {hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(path: &str, query: &str) -> Option<String> {
        let pairs: Vec<_> = form_urlencoded::parse(query.as_bytes()).collect();
        let checked = check(path, pairs.iter().map(|(name, value)| (&**name, &**value)));
        checked.err().map(|error| error.to_string())
    }

    #[test]
    fn unknown_parameters_are_named() {
        for (path, query, expected) in [
            ("/select/logsql/query", "query=*&limit=1&extra_filters=a", ""),
            (
                "/select/logsql/query",
                "query=*&limt=1",
                "'limt' is not known here; did you mean \
            'limit'?",
            ),
            ("/select/logsql/query", "query=*&Limit=1", "did you mean 'limit'?"),
            (
                "/select/logsql/query",
                "hidden_fields_filters=a",
                "'hidden_fields_filters' is not \
            known",
            ),
            ("/select/logsql/explain", "query=*&limit=1&format=json&extra_filters=a", ""),
            ("/select/logsql/explain", "query=*&fromat=json", "did you mean 'format'?"),
            ("/select/logsql/hits", "query=*&step=1h&field=a&field=b", ""),
            ("/select/logsql/hits", "query=*&extra_filter=a", "did you mean 'extra_filters'?"),
            ("/select/logsql/anything_new", "query=*&limit=1", ""),
            ("/select/logsql/tail", "query=*&start_offset=1h&all_revisions=1", ""),
            ("/select/logsql/tail", "query=*&start=1h", "'start' is not known here"),
            ("/select/logsql/tail", "query=*&end=1h", "'end' is not known here"),
            ("/select/logsql/tail", "query=*&timeout=1h", "'timeout' is not known here"),
            ("/select/logsql/streams", "query=*&field=a", "'field' is not known here"),
            ("/select/logsql/stream_ids", "query=*&filter=a", "'filter' is not known here"),
            ("/select/logsql/field_names", "query=*&field=a", "'field' is not known here"),
            ("/select/logsql/stream_field_names", "query=*&field=a", "'field' is not known here"),
            ("/select/logsql/stream_field_names", "query=*&filter=a&limit=1", ""),
            ("/select/logsql/stream_field_values", "query=*&field=a&filter=a&limit=1", ""),
            ("/select/logsql/query", "query=*&AccountID=0&ProjectID=", ""),
            ("/select/logsql/query", "query=*&AccountID=1", "AccountID is '1'"),
            ("/select/logsql/tail", "query=*&ProjectID=7", "ProjectID is '7'"),
            ("/insert/jsonline", "_time_field=t&_stream_field=a", "did you mean '_stream_fields'?"),
            ("/insert/lines", "type=a&file=b&AccountID=00", "AccountID is '00'"),
            ("/v1/logs", "_stream_fields=a&_type=b", ""),
            ("/v1/logs", "_stream_field=a", "did you mean '_stream_fields'?"),
            ("/insert/elasticsearch/_bulk", "refresh=true&pipeline=p&_msg_field=m", ""),
            ("/logs/_bulk", "refesh=true", "did you mean 'refresh'?"),
            ("/insert/elasticsearch/_nodes/http", "whatever=1", ""),
            ("/api/v1/summary", "type=a&extra_filters=b", "'extra_filters' is not known here"),
            ("/api/v1/queries/7/results", "curser=1", "did you mean 'cursor'?"),
            ("/api/v1/status", "a=1", "this call takes none"),
            ("/loki/api/v1/query_range", "query=%7B%7D&direction=forward&shards=1", ""),
            (
                "/loki/api/v1/query_range",
                "query=%7B%7D&directoin=forward",
                "did you mean \
            'direction'?",
            ),
            ("/health", "probe=1", ""),
            ("/", "q=1", ""),
        ] {
            let found = refusal(path, query);
            assert_eq!(found.is_none(), expected.is_empty(), "{path} {query}: {found:?}");
            assert!(found.unwrap_or_default().contains(expected), "{path} {query}");
        }
        let long = refusal("/api/v1/status", &"x".repeat(100_000)).unwrap();
        assert!(long.len() < 300, "{long}");
    }

    #[test]
    fn headers() {
        let check = |path: &str, name: &'static str, value: &str, admitted: bool| {
            let mut headers = HeaderMap::new();
            headers.insert(name, value.parse().unwrap());
            assert_eq!(check_headers(path, &headers, false).is_ok(), admitted, "{path} {name}");
        };
        for path in ["/insert/jsonline", "/select/logsql/query", "/loki/api/v1/push", "/a/_bulk"] {
            check(path, "accountid", "0", true);
            check(path, "accountid", "12", false);
            check(path, "projectid", "x", false);
        }
        check("/insert/jsonline", "vl-msg-field", "m", true);
        check("/insert/jsonline", "vl-decolorize-fields", "m", true);
        check("/insert/jsonline", "vl-message-field", "m", false);
        let grpc = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";
        check(grpc, "vl-stream-fields", "a,b", true);
        check(grpc, "vl-stream-field", "a", false);
        check("/select/logsql/query", "vl-message-field", "m", true);
        check("/health", "accountid", "12", true);
    }
}
