//! Parameters that restrict queries, and the messages about unknown ones: on every endpoint.

use std::io::{BufRead, BufReader, Write};

use crate::common::{Answer, Server, encoded};
use serde_json::Value;

/// Lines of two tenants, in the same streams and at the same times; those of `b` have the word
/// `secret` in the message, in a value and in a name.
fn with_tenants() -> Server {
    let server = Server::start();
    let lines: Vec<String> = (0..10)
        .map(|n| {
            let own = match n % 2 {
                0 => r#""tenant":"a","_msg":"open""#,
                _ => r#""tenant":"b","_msg":"secret","user":"secret","secret_name":"x""#,
            };
            format!(r#"{{"_time":"2026-01-31T12:00:0{n}Z","hostname":"web1","n":"{n}",{own}}}"#)
        })
        .collect();
    let answer =
        server.post("/insert/jsonline?_stream_fields=hostname,tenant", lines.join("\n").as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.text());
    server
}

const TIMES: &str = "start=2026-01-31T00:00:00Z&end=2026-02-01T00:00:00Z";

#[test]
fn extra_filters_hold_everywhere() {
    let server = with_tenants();
    let range = "start=1769817600&end=1769904000";
    let loki = encoded(r#"{hostname="web1"}"#);
    let rate = encoded(r#"sum by (tenant) (count_over_time({hostname="web1"}[1d]))"#);
    let queries = [
        "*",
        "secret or *",
        "tenant:b or *",
        "options(ignore_global_time_filter=true) *",
        "* | union (*)",
        "* | union (tenant:b)",
        "n:in(tenant:b | fields n) or *",
        "* | join by (hostname) (tenant:b | fields hostname, user)",
        "n:=4 | stream_context before 5 after 5",
        "* | stats by (tenant, user) count() c",
        "* | field_values user",
        "* | format \"<user>\" as z",
        "* | facets",
    ];
    let mut paths = Vec::new();
    for query in queries {
        let query = encoded(query);
        for call in ["query", "hits", "facets", "field_names", "streams"] {
            paths.push(format!("/select/logsql/{call}?query={query}&{TIMES}"));
        }
        paths.push(format!(
            "/select/logsql/query?query={query}&{TIMES}&limit=100&include=_line,_line_id"
        ));
        paths.push(format!("/select/logsql/hits?query={query}&field=tenant&field=user"));
        for field in ["tenant", "user", "_stream", "_msg"] {
            paths.push(format!("/select/logsql/field_values?query={query}&field={field}"));
        }
        for format in ["jsonl", "csv"] {
            paths.push(format!("/api/v1/export?query={query}&format={format}&{TIMES}"));
        }
    }
    let stats = encoded("* | stats by (tenant, user) count() c");
    paths.extend([
        format!("/select/logsql/stats_query?query={stats}"),
        format!("/select/logsql/stats_query_range?query={stats}&step=1d&{TIMES}"),
        format!("/select/logsql/query?query=*&format=raw&{TIMES}"),
        format!("/select/logsql/queries?query=*&query={stats}&limit=1000&{TIMES}"),
        format!("/api/v1/export?format=raw&{TIMES}"),
        format!("/loki/api/v1/query_range?query={loki}&{range}"),
        format!("/loki/api/v1/query_range?query={rate}&{range}&step=1d"),
        format!("/loki/api/v1/query?query={rate}&time=1769904000"),
        format!("/loki/api/v1/labels?{range}"),
        format!("/loki/api/v1/label/tenant/values?{range}"),
        format!("/loki/api/v1/label/user/values?{range}"),
        format!("/loki/api/v1/series?{range}"),
        format!("/loki/api/v1/detected_labels?{range}"),
        format!("/loki/api/v1/detected_fields?query={loki}&{range}"),
        format!("/loki/api/v1/index/volume?query={loki}&{range}&targetLabels=tenant"),
    ]);
    let restrictions = [
        format!("extra_filters={}", encoded("tenant:=a")),
        format!("extra_filters={}", encoded(r#"{"tenant":"a"}"#)),
        format!("extra_filters={}", encoded(r#"{"tenant":["a","c"]}"#)),
        format!("extra_stream_filters={}", encoded(r#"{tenant="a"}"#)),
        format!("extra_filters={}&extra_filters={}", encoded("*"), encoded("!tenant:=b")),
        format!("extra_stream_filters={}&extra_filters=*", encoded(r#"{"tenant":"a"}"#)),
    ];
    for (n, path) in paths.iter().enumerate() {
        let all = server.get(path);
        assert_eq!(all.status, 200, "{path}: {}", all.text());
        // One restriction per path, all of them for the first.
        let few = if n == 0 { &restrictions[..] } else { &restrictions[n % 6..][..1] };
        for restriction in few {
            let form = [("Content-Type", "application/x-www-form-urlencoded")];
            let by_get = server.get(&format!("{path}&{restriction}"));
            let by_form = server.request("POST", path, &form, restriction.as_bytes());
            for answer in [by_get, by_form] {
                let text = answer.text();
                assert_eq!(answer.status, 200, "{path} {restriction}: {text}");
                let reveals =
                    text.contains("secret") || text.contains(r#""b""#) || text.contains(",b,");
                assert!(!reveals, "{path} {restriction}: {text}");
            }
        }
    }
    // The remaining lines are found.
    let counted = server.query("* | count() n", &format!("{}&{TIMES}", restrictions[0]));
    assert_eq!(counted[0]["n"], "5");
}

#[test]
fn extra_filters_of_background_queries_and_tails() {
    let server = with_tenants();
    let restriction = format!("extra_filters={}", encoded("tenant:=a"));
    // In the background.
    let path = format!("/api/v1/queries?query={}&{restriction}", encoded("* | union (*)"));
    let submitted = server.post(&path, b"").json();
    let id = submitted["id"].as_str().unwrap().to_owned();
    server.wait_for("it is done", |server| {
        server.get(&format!("/api/v1/queries/{id}")).json()["state"] == "done"
    });
    let rows = server.get(&format!("/api/v1/queries/{id}/results"));
    assert_eq!(rows.rows().len(), 10);
    assert!(!rows.text().contains("secret"), "{}", rows.text());
    // Around a line, and around one that the caller must not see.
    let id = |n: u32| {
        server.query(&format!("n:={n}"), "include=_line_id")[0]["_line_id"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    let around = server.get(&format!("/api/v1/context?id={}&{restriction}", id(4)));
    assert_eq!(around.json()["rows"].as_array().unwrap().len(), 5, "{}", around.text());
    assert!(!around.text().contains("secret"), "{}", around.text());
    assert_eq!(server.get(&format!("/api/v1/context?id={}&{restriction}", id(5))).status, 404);
    assert_eq!(server.get(&format!("/api/v1/context?id={}", id(5))).status, 200);
    // Live.
    let mut stream = server.connect();
    write!(
        stream,
        "GET /select/logsql/tail?query=*&start_offset=1h&{restriction} HTTP/1.1\r\nHost: \
        {}\r\n\r\n",
        server.http
    )
    .unwrap();
    let mut lines = BufReader::new(stream).lines().map(Result::unwrap);
    assert_eq!(lines.next().as_deref(), Some("HTTP/1.1 200 OK"));
    let more = "{\"tenant\":\"b\",\"_msg\":\"secret\"}\n{\"tenant\":\"a\",\"_msg\":\"the end\"}\n";
    server.post("/insert/jsonline", more.as_bytes());
    for line in lines {
        assert!(!line.contains("secret"), "{line}");
        if line.contains("the end") {
            break;
        }
    }
}

#[test]
fn wrong_and_inapplicable_filters_are_refused() {
    let server = Server::start();
    let refused = |path: &str, expected: &str| {
        let answer = server.get(path);
        assert_eq!(answer.status, 400, "{path}: {}", answer.text());
        assert!(answer.text().contains(expected), "{path}: {}", answer.text());
    };
    for name in ["extra_filters", "extra_stream_filters"] {
        for value in ["(", "a | limit 1", "{\"a\":1}", "{}", "options(concurrency=1) a"] {
            let parameter = format!("{name}={}", encoded(value));
            refused(&format!("/select/logsql/query?query=*&{parameter}"), name);
            refused(&format!("/select/logsql/tail?query=*&{parameter}"), name);
            refused(&format!("/api/v1/export?format=raw&{parameter}"), name);
            refused(&format!("/loki/api/v1/query_range?query=%7B%7D&{parameter}"), name);
        }
        // Calls where they cannot apply refuse them.
        refused(
            &format!("/api/v1/summary?type=a&{name}=a"),
            &format!("'{name}' is not known here"),
        );
        refused(&format!("/api/v1/summary/types?{name}=a"), &format!("'{name}' is not known here"));
    }
}

#[test]
fn unknown_parameters_and_tenants_are_named() {
    let server = Server::start();
    let gets = [
        "select/logsql/query",
        "select/logsql/explain",
        "select/logsql/hits",
        "select/logsql/facets",
        "select/logsql/field_names",
        "select/logsql/field_values",
        "select/logsql/stats_query",
        "select/logsql/stats_query_range",
        "select/logsql/tail",
        "select/logsql/streams",
        "api/v1/export",
        "api/v1/queries",
        "api/v1/context",
        "api/v1/queries/1",
        "api/v1/queries/1/results",
        "api/v1/summary",
        "api/v1/summary/types",
        "api/v1/status",
        "api/v1/files",
        "api/v1/nodes",
        "api/v1/deletions",
        "api/v1/backups",
        "loki/api/v1/query",
        "loki/api/v1/labels",
        "loki/api/v1/series",
        "loki/api/v1/tail",
    ];
    let posts = [
        "insert/lines",
        "insert/jsonline",
        "insert/elasticsearch/_bulk",
        "insert/elasticsearch/a/_bulk",
        "_bulk",
        "a/_bulk",
        "a/_doc",
        "loki/api/v1/push",
        "api/v1/queries",
        "api/v1/deletions",
        "api/v1/backups",
        "api/v1/summary/rerun",
    ];
    let requests =
        gets.map(|path| ("GET", path)).into_iter().chain(posts.map(|path| ("POST", path)));
    let named = |answer: Answer, name: &str, path: &str| {
        let text = answer.text();
        assert_eq!(answer.status, 400, "{path}: {text}");
        assert!(text.contains(name), "{path}: {text}");
    };
    for (method, path) in requests {
        let unknown = format!("/{path}?qurey=a");
        named(server.request(method, &unknown, &[], b""), "'qurey' is not known here", path);
        // Calls that know tenants refuse others than 0; the other calls refuse the parameter.
        let tenant = format!("/{path}?AccountID=7");
        named(server.request(method, &tenant, &[], b""), "AccountID", path);
        named(
            server.request(method, &format!("/{path}"), &[("ProjectID", "7")], b""),
            "ProjectID",
            path,
        );
    }
    let form = [("Content-Type", "application/x-www-form-urlencoded; charset=utf-8")];
    let answer = server.request("POST", "/select/logsql/query", &form, b"query=*&limt=1");
    named(answer, "did you mean 'limit'?", "form");
    let json = [("Content-Type", "application/json")];
    let answer =
        server.request("POST", "/api/v1/queries", &json, br#"{"query":"*","fromat":"raw"}"#);
    named(answer, "did you mean 'format'?", "JSON");
    let header = [("VL-Stream-Field", "a")];
    named(
        server.request("POST", "/insert/jsonline", &header, b"{}"),
        "did you mean 'stream-fields'?",
        "header",
    );
    // Harmless parameters of other APIs are accepted.
    for (method, path) in [
        ("GET", "/select/logsql/query?query=*&allow_partial_response=1&AccountID=0&ProjectID=0"),
        ("GET", "/select/logsql/tail?query=(&offset=1s&refresh_interval=1s"),
        ("POST", "/insert/elasticsearch/_bulk?refresh=wait_for&timeout=1m&filter_path=items"),
        ("GET", "/loki/api/v1/labels?since=1h&direction=backward"),
        ("GET", "/health?probe=1"),
        ("GET", "/?utm_source=chat"),
    ] {
        let answer = server.request(method, path, &[("AccountID", "0")], b"");
        assert!(!answer.text().contains("not known"), "{path}: {}", answer.text());
    }
}

/// vmalert sends the media type of JSON without a body.
#[test]
fn parameters_of_a_request_that_says_json_and_brings_nothing() {
    let server = Server::start();
    server.post("/insert/lines", b"a line\n");
    for content_type in
        ["application/json", "Application/JSON; charset=utf-8", "application/x-www-form-urlencoded"]
    {
        for body in ["", " \r\n"] {
            let query = encoded("* | stats count() n");
            let path =
                format!("/select/logsql/stats_query?query={query}&time=2100-01-01T00:00:00Z");
            let headers = [("Content-Type", content_type)];
            let body = if content_type.starts_with("application/x") { "" } else { body };
            let answer = server.request("POST", &path, &headers, body.as_bytes());
            assert_eq!(answer.status, 200, "{content_type}: {}", answer.text());
            let value: Value = answer.json();
            assert_eq!(value["data"]["result"][0]["value"][1], "1", "{value}");
        }
    }
    let multipart = [("Content-Type", "multipart/form-data; boundary=x")];
    let answer = server.request("POST", "/select/logsql/query", &multipart, b"--x--");
    assert_eq!(answer.status, 400);
    assert!(answer.text().contains("multipart"), "{}", answer.text());
}

#[test]
fn parameters_that_are_taken_change_the_answer() {
    let server = with_tenants();
    let values = |call: &str| -> usize {
        let answer = server.get(&format!("/select/logsql/{call}&query=*&{TIMES}"));
        assert_eq!(answer.status, 200, "{call}: {}", answer.text());
        answer.json()["values"].as_array().unwrap().len()
    };
    for call in ["field_names", "field_values", "stream_field_names", "stream_field_values"] {
        let call = format!("{call}?field=n");
        let call = call.replace("names?field=n", "names?time=2026-02-01T00:00:00Z");
        let call = call.replace("stream_field_values?field=n", "stream_field_values?field=tenant");
        assert!(values(&call) > 1, "{call}");
        assert_eq!(values(&format!("{call}&limit=1")), 1, "{call}");
        assert!(values(&format!("{call}&limit=0")) > 1, "{call}: 0 is no limit");
        assert_eq!(values(&format!("{call}&filter=nothing-has-this")), 0, "{call}");
    }
    for call in ["streams", "stream_ids"] {
        assert!(values(&format!("{call}?")) > 1, "{call}");
        assert_eq!(values(&format!("{call}?limit=1")), 1, "{call}");
    }
    // An export takes as long as it is allowed to.
    let export = |parameters: &str| {
        server.get(&format!("/api/v1/export?format=jsonl&query=*&{TIMES}{parameters}"))
    };
    assert_eq!(export("&timeout=1h").rows().len(), 10);
    let late = export("&timeout=1ns");
    assert!(late.status != 200 || late.text().contains("_error"), "{}", late.text());
    // The query of the background says which revisions it reads.
    let submitted = server.post("/api/v1/queries?query=*&all_revisions=1", b"").json();
    let id = submitted["id"].as_str().unwrap();
    let query = server.get(&format!("/api/v1/queries/{id}")).json()["query"].to_string();
    assert!(query.contains("all_revisions=true"), "{query}");
}
