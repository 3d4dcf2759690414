//! Clients of Elasticsearch and shippers that send JSON: the official Python clients of three
//! versions, and requests as the documentation of Filebeat, Logstash, Fluentd, Vector, Fluent Bit
//! and the OpenTelemetry collector describes them.

use std::io::{BufReader, Write};
use std::path::PathBuf;
use std::process::Command;

use crate::common::{Server, read_head};
use serde_json::{Value, json};

fn python(version: &str) -> PathBuf {
    let cache =
        std::env::var_os("LOGINSON_ELASTIC_VENVS").map(PathBuf::from).unwrap_or_else(|| {
            PathBuf::from(std::env::var_os("HOME").expect("there is a home"))
                .join(".cache/loginson")
        });
    let python = cache.join(format!("elasticsearch-{version}-venv/bin/python"));
    assert!(python.exists(), "{} is missing; install it with: make test-deps", python.display());
    python
}

#[test]
fn official_clients_in_python() {
    let script = r#"
import sys, logging
from elasticsearch import Elasticsearch, helpers, __version__
url, way = sys.argv[1:]
es = Elasticsearch([url])
body = {"body": None} if __version__[0] < 8 else {"document": None}
document = next(iter(body))
def doc(n):
    text = "a\n\"b\""
    return {"@timestamp": "2026-01-31T12:00:00Z", "message": f"by {way}", "n": n, "text": text}
assert es.ping(), "ping"
assert es.info()["version"]["number"].startswith("8."), es.info()
if not es.indices.exists(index="logs"):
    es.indices.create(index="logs")
done = es.index(index="logs", **{document: doc(0)})
assert done["result"] == "created" and done["_id"], done
assert es.index(index="logs", id="7", **{document: doc(1)})["_id"] == "7"
assert es.create(index="logs", id="8/x y", **{document: doc(2)})["_id"] == "8/x y"
actions = ({"_index": "logs", "_source": doc(n)} for n in range(3, 1003))
assert helpers.bulk(es, actions) == (1000, []), "bulk"
create = {"_op_type": "create", "_index": "logs"}
actions = ({**create, "_id": n, "_source": doc(n)} for n in range(1003, 1103))
results = list(helpers.streaming_bulk(es, actions, chunk_size=7))
assert len(results) == 100 and all(ok for ok, _ in results), results
lines = [{"create": {}}, doc(1103)]
answer = es.bulk(index="logs", **({"body": lines} if __version__[0] < 8 else {"operations": lines}))
assert not answer["errors"], answer
assert es.cluster.health()["status"] == "green"
"#;
    let server = Server::start();
    for version in ["7", "8", "9"] {
        for (place, prefix) in [("root", ""), ("below", "/insert/elasticsearch")] {
            let url = format!("http://{}{prefix}", server.http);
            let way = format!("{place}{version}");
            let output = Command::new(python(version))
                .args(["-W", "ignore", "-c", script, &url, &way])
                .output()
                .unwrap();
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{version} at {url}: {error}");
            assert_eq!(server.count(&format!("\"by {way}\"")), 1104, "{way}");
            let row = &server.query(&format!("\"by {way}\" n:=2"), "")[0];
            assert_eq!(row["text"], "a\n\"b\"");
        }
    }
    // The page is still served.
    let page = server.get("/");
    assert!(page.header("content-type").unwrap().starts_with("text/html"));
    let browser =
        [("Accept", "text/html,application/json;q=0.9"), ("User-Agent", "Mozilla/5.0 (elastic)")];
    let page = server.request("GET", "/", &browser, b"");
    assert!(page.header("content-type").unwrap().starts_with("text/html"));
}

type Pairs = &'static [(&'static str, &'static str)];

/// The status of an answer without a body.
fn head(server: &Server, path: &str, headers: &[(&str, &str)]) -> u16 {
    let mut stream = server.connect();
    let headers: String = headers
        .iter()
        .map(|(name, value)| {
            format!(
                "{name}: \
    {value}\r\n"
            )
        })
        .collect();
    write!(
        stream,
        "HEAD {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n{headers}\r\n",
        server.http
    )
    .unwrap();
    read_head(&mut BufReader::new(stream)).unwrap().0
}

/// Requests of shippers before they send: method, path, and the headers that identify them.
#[test]
fn requests_of_shippers_before_lines() {
    let server = Server::start();
    let shippers: [(&str, Pairs, Pairs); 7] = [
        (
            "Filebeat",
            &[
                ("Accept", "application/json"),
                ("User-Agent", "Elastic-filebeat/8.17.0 (linux; amd64)"),
            ],
            &[
                ("GET", "/"),
                ("GET", "/_license?human=false"),
                ("GET", "/_xpack"),
                ("HEAD", "/_ilm/policy/filebeat"),
                ("PUT", "/_ilm/policy/filebeat"),
                ("HEAD", "/_index_template/filebeat-8.17.0"),
                ("PUT", "/_index_template/filebeat-8.17.0"),
                ("GET", "/_data_stream/filebeat-8.17.0"),
                ("PUT", "/_data_stream/filebeat-8.17.0"),
                ("GET", "/_ingest/pipeline/filebeat-8.17.0-nginx"),
                ("PUT", "/_ingest/pipeline/filebeat-8.17.0-nginx"),
                ("HEAD", "/_alias/filebeat"),
                ("GET", "/_nodes/ingest"),
                ("HEAD", "/filebeat-8.17.0"),
            ],
        ),
        (
            "Logstash",
            &[
                ("Content-Type", "application/json"),
                ("User-Agent", "Elastic/8.17.0 (Linux) Logstash/8.17.0"),
            ],
            &[
                ("HEAD", "/"),
                ("GET", "/"),
                ("GET", "/_license"),
                ("GET", "/_nodes/http"),
                ("HEAD", "/_index_template/ecs-logstash"),
                ("PUT", "/_index_template/ecs-logstash"),
                ("PUT", "/_template/logstash"),
                ("HEAD", "/_ilm/policy/logstash-policy"),
            ],
        ),
        (
            "Fluentd",
            &[
                ("x-elastic-client-meta", "es=8.17.0,rb=3.2.0,t=8.3.0"),
                ("User-Agent", "elasticsearch-ruby/8.17.0"),
            ],
            &[
                ("GET", "/"),
                ("HEAD", "/"),
                ("GET", "/_template/fluentd"),
                ("PUT", "/_template/fluentd"),
                ("HEAD", "/fluentd"),
            ],
        ),
        (
            "Vector",
            &[("User-Agent", "Vector/0.45.0")],
            &[("GET", "/"), ("GET", "/_cluster/health")],
        ),
        (
            "OpenTelemetry",
            &[
                ("User-Agent", "OpenTelemetry Collector Contrib/0.120.0 (linux/amd64)"),
                ("Accept", "application/vnd.elasticsearch+json;compatible-with=8"),
            ],
            &[("GET", "/"), ("GET", "/_nodes/http")],
        ),
        (
            "Java",
            &[
                ("Accept", "application/vnd.elasticsearch+json; compatible-with=8"),
                ("X-Elastic-Client-Meta", "es=8.17.0"),
            ],
            &[
                ("HEAD", "/logs"),
                ("PUT", "/logs"),
                ("POST", "/logs/_refresh"),
                ("POST", "/_refresh"),
            ],
        ),
        (
            "curl",
            &[],
            &[
                ("GET", "/_cluster/health"),
                ("GET", "/_nodes"),
                ("GET", "/_license"),
                ("GET", "/_xpack"),
            ],
        ),
    ];
    for (shipper, headers, requests) in shippers {
        for prefix in ["", "/insert/elasticsearch"] {
            for (method, path) in requests {
                let body: &[u8] = if *method == "PUT" { b"{}" } else { b"" };
                let path = format!("{prefix}{path}");
                let what = format!("{shipper}: {method} {path}");
                if *method == "HEAD" {
                    assert_eq!(head(&server, &path, headers), 200, "{what}");
                    continue;
                }
                let answer = server.request(method, &path, headers, body);
                assert_eq!(answer.status, 200, "{what}: {}", answer.text());
                assert_eq!(answer.header("x-elastic-product"), Some("Elasticsearch"), "{what}");
                if *method == "GET" {
                    assert!(answer.json().is_object(), "{what}");
                }
            }
        }
    }
}

#[test]
fn documents_one_by_one() {
    let server = Server::start();
    let pretty = b"{\n  \"_msg\": \"pretty\",\r\n  \"n\": 1\n}\n";
    let answer = server.post("/logs/_doc", pretty);
    assert_eq!(
        (answer.status, &answer.json()["result"]),
        (201, &json!("created")),
        "{}",
        answer.text()
    );
    assert_eq!(server.query("pretty", "")[0]["n"], "1");
    for (body, status) in [
        (&b"no JSON"[..], 400),
        (b"[1]", 400),
        (b"{} {}", 400),
        (b"", 400),
        (&vec![b' '; 9 << 20][..], 413),
    ] {
        let answer = server.request("PUT", "/logs/_doc/1", &[], body);
        assert_eq!(answer.status, status, "{}", answer.text());
        assert_eq!(answer.header("x-elastic-product"), Some("Elasticsearch"));
    }
    assert_eq!(
        server.request("PUT", "/_bulk", &[], b"{\"create\":{}}\n{\"_msg\":\"put\"}\n").status,
        200
    );
    assert_eq!(server.count("put"), 1);
    assert_eq!(server.post("/logs/_update/1", b"{}").status, 404);
}

/// Fluent Bit's output `http` in its formats.
#[test]
fn arrays_and_streams_of_objects() {
    let server = Server::start();
    let mut kept = 0;
    for (name, content_type, body, lines) in [
        (
            "json",
            "application/json",
            r#"[{"date":1769860800.5,"_msg":"json"},{"_msg":"json","a":"],["}]"#,
            2,
        ),
        (
            "json_lines",
            "application/x-ndjson",
            "{\"_msg\":\"json_lines\"}\n{\"_msg\":\"json_lines\"}\n",
            2,
        ),
        (
            "json_stream",
            "application/json",
            r#"{"_msg":"json_stream"}{"_msg":"json_stream","a":"}{"}"#,
            2,
        ),
        (
            "pretty",
            "application/json; charset=utf-8",
            "[\n  {\n    \"_msg\": \"pretty\"\n  },\n  {\n    \"_msg\": \"pretty\"\n  }\n]\n",
            2,
        ),
        ("empty", "application/json", "[]", 0),
        ("stdin", "text/plain", "{\"_msg\":\"stdin\"}", 1),
    ] {
        let headers = [("Content-Type", content_type)];
        let answer = server.request("POST", "/insert/jsonline", &headers, body.as_bytes());
        assert_eq!(
            (answer.status, &answer.json()["lines"]),
            (200, &json!(lines)),
            "{}",
            answer.text()
        );
        assert_eq!(server.count(&format!("_msg:={name}")), lines, "{name}");
        kept += lines;
    }
    assert_eq!(server.count("_note:*"), 0);
    let array: Vec<Value> =
        (0..20_000).map(|n| json!({"_msg": "many", "n": n, "text": "x".repeat(500)})).collect();
    let answer = server.post("/insert/jsonline", json!(array).to_string().as_bytes());
    assert_eq!(answer.json()["lines"], 20_000, "longer than a line may be");
    assert_eq!(server.count("many"), 20_000);
    assert_eq!(server.ingest("http")["lines_kept"], kept + 20_000);
    let packed = [("Content-Type", "application/msgpack")];
    let answer = server.request("POST", "/insert/jsonline", &packed, b"\x92\x01\x80");
    assert_eq!(answer.status, 415);
    assert!(answer.text().contains("json_lines"), "{}", answer.text());
}
