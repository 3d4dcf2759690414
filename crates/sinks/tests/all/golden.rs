//! The exact requests of each destination.

use std::sync::Mutex;

use serde_json::{Value, json};
use sinks::{Delivered, Document, Outcome};

use crate::server::{Action, Request, Server};
use crate::sink::{destination, samples};

/// A request without what changes from run to run.
fn show(request: &Request) -> String {
    let left_out = ["host", "content-length", "accept", "user-agent", "accept-encoding"];
    let mut text = format!("{} {}\n", request.method, request.path);
    let mut headers = request.headers.clone();
    headers.sort();
    for (name, value) in headers.iter().filter(|(name, _)| !left_out.contains(&name.as_str())) {
        text.push_str(&format!("{name}: {value}\n"));
    }
    text.push_str(&request.body);
    text.trim_end().to_owned()
}

/// Delivers the samples to a server with this configuration and compares the last request.
fn check(answer: Action, config: &str, expected: &str) {
    let server = Server::start(move |_| answer.clone());
    let mut to = destination(&format!("name = \"x\"\nurls = [{:?}]\n{config}", server.url));
    assert_eq!(to.deliver(&samples()), Delivered::accepted(2), "{config}");
    assert_eq!(show(server.requests().last().unwrap()), expected.trim(), "{config}");
}

#[test]
fn json_lines() {
    check(
        Action::json(204, ""),
        "compression = \"zstd\"\ntoken = \"hunter22\"\n[json_lines]",
        r#"
POST /
authorization: Bearer hunter22
content-encoding: zstd
content-type: application/x-ndjson
{"_time":"2026-01-02T03:04:05.123456789Z","_id":"id-1","host":"web1","level":"error","n":1,"ratio":0.5,"ok":true,"none":null,"nested":{"a":[1,"x"]},"message":"line \"one\"\nü"}
{"_time":"2026-01-03T03:04:05.000000000Z","_id":"id-2","host":"web2","n":2,"message":"two"}
"#,
    );
}

#[test]
fn loginson() {
    check(
        Action::json(200, "{\"lines\":2,\"bytes\":1}"),
        "[loginson]\ntype = \"web\"\nmessage_field = \"message\"\nstream_fields = [\"host\"]",
        r#"
POST /insert/jsonline?_time_field=_time&_type=web&_msg_field=message&_stream_fields=host
content-encoding: gzip
content-type: application/x-ndjson
{"_time":"2026-01-02T03:04:05.123456789Z","sink_id":"id-1","host":"web1","level":"error","n":1,"ratio":0.5,"ok":true,"none":null,"nested":{"a":[1,"x"]},"message":"line \"one\"\nü"}
{"_time":"2026-01-03T03:04:05.000000000Z","sink_id":"id-2","host":"web2","n":2,"message":"two"}
"#,
    );
}

#[test]
fn loki() {
    check(
        Action::json(204, ""),
        "[loki]\nlabels = { job = \"a\" }\nlabel_fields = [\"host\", \"level\"]\n\
         line_field = \"message\"\ntenant = \"one\"",
        r#"
POST /loki/api/v1/push
content-encoding: gzip
content-type: application/json
x-scope-orgid: one
{"streams":[{"stream":{"host":"web1","job":"a","level":"error"},"values":[["1767323045123456789","line \"one\"\nü"]]},{"stream":{"host":"web2","job":"a"},"values":[["1767409445000000000","two"]]}]}
"#,
    );
    check(
        Action::json(204, ""),
        "compression = \"none\"\n[loki]\nlabel_fields = [\"missing\"]",
        r#"
POST /loki/api/v1/push
content-type: application/json
{"streams":[{"stream":{"job":"loginson"},"values":[["1767323045123456789","{\"host\":\"web1\",\"level\":\"error\",\"n\":1,\"ratio\":0.5,\"ok\":true,\"none\":null,\"nested\":{\"a\":[1,\"x\"]},\"message\":\"line \\\"one\\\"\\nü\"}"],["1767409445000000000","{\"host\":\"web2\",\"n\":2,\"message\":\"two\"}"]]}]}
"#,
    );
}

/// A server of this version; `template` is what it says about the index template.
fn elasticsearch(version: Value, template: Value) -> Server {
    let template = Mutex::new(template);
    Server::start(move |request| {
        let is_template = request.path.contains("template");
        match request.method.as_str() {
            "GET" if is_template => match &*template.lock().unwrap() {
                Value::Null => Action::json(404, "{}"),
                template => Action::json(200, template),
            },
            "GET" => Action::json(200, json!({ "version": version })),
            "PUT" => Action::json(200, "{}"),
            _ => {
                let count = request.body.lines().count() / 2;
                let items = vec![json!({"create": {"status": 201}}); count];
                Action::json(200, json!({"errors": false, "items": items}))
            }
        }
    })
}

/// All requests for the samples.
fn requests(server: &Server, config: &str) -> Vec<Request> {
    let mut to = destination(&format!("name = \"x\"\nurls = [{:?}]\n{config}", server.url));
    assert_eq!(to.deliver(&samples()), Delivered::accepted(2), "{config}");
    // The sink requests version and template once.
    assert_eq!(to.deliver(&samples()), Delivered::accepted(2), "{config}");
    let mut requests = server.requests();
    let again = requests.pop();
    assert_eq!(again.as_ref(), requests.last());
    requests
}

const FILTER: &str = "filter_path=errors,error,items.*.status,items.*.error.type,\
                      items.*.error.reason,items.*.error.caused_by.reason";

#[test]
fn elasticsearch_with_dated_indices() {
    let server = elasticsearch(json!({"number": "8.17.0"}), Value::Null);
    let config = "api_key = \"a2V5OmtleQ==\"\n[elasticsearch]\nindex = \"logs-%Y.%m.%d\"\n\
                  template = { shards = 1, replicas = 0 }";
    let requests = requests(&server, config);
    let shown: Vec<String> = requests.iter().map(show).collect();
    assert_eq!(shown.len(), 4);
    assert_eq!(shown[0], "GET /\nauthorization: ApiKey a2V5OmtleQ==");
    assert!(shown[1].starts_with("GET /_index_template/loginson-x\n"), "{}", shown[1]);
    assert!(shown[2].starts_with("PUT /_index_template/loginson-x\n"), "{}", shown[2]);
    let keyword = json!({"type": "keyword", "ignore_above": 1024});
    assert_eq!(
        serde_json::from_str::<Value>(&requests[2].body).unwrap(),
        json!({
            "index_patterns": ["logs-*"],
            "priority": 250,
            "template": {
                "settings": {"index.number_of_shards": 1, "index.number_of_replicas": 0},
                "mappings": {
                    "_meta": {"managed_by": "loginson"},
                    "date_detection": false,
                    "numeric_detection": false,
                    "dynamic_templates": [
                        {"text": {"match_mapping_type": "string", "mapping": keyword}},
                        {"whole": {"match_mapping_type": "long", "mapping": {"type": "long"}}},
                        {"fractions": {"match_mapping_type": "double", "mapping": {"type": "double"}}},
                    ],
                    "properties": {
                        "@timestamp": {"type": "date_nanos"},
                        "host": keyword, "level": keyword, "message": keyword,
                        "n": {"type": "long"}, "ratio": {"type": "double"},
                        "ok": {"type": "boolean"},
                    },
                },
            },
        })
    );
    let expected = r#"
authorization: ApiKey a2V5OmtleQ==
content-encoding: gzip
content-type: application/x-ndjson
{"create":{"_id":"id-1","_index":"logs-2026.01.02"}}
{"@timestamp":"2026-01-02T03:04:05.123456789Z","host":"web1","level":"error","n":1,"ratio":0.5,"ok":true,"none":null,"nested":{"a":[1,"x"]},"message":"line \"one\"\nü"}
{"create":{"_id":"id-2","_index":"logs-2026.01.03"}}
{"@timestamp":"2026-01-03T03:04:05.000000000Z","host":"web2","n":2,"message":"two"}"#;
    assert_eq!(shown[3], format!("POST /_bulk?{FILTER}{expected}"));
}

#[test]
fn opensearch_with_a_data_stream() {
    let version = json!({"number": "2.19.1", "distribution": "opensearch"});
    let server = elasticsearch(version, Value::Null);
    let config = "user = \"u\"\npassword = \"hunter22\"\ncompression = \"none\"\n[elasticsearch]\n\
                  data_stream = \"logs-app\"\npipeline = \"p\"\ntime_type = \"date\"";
    let requests = requests(&server, config);
    let template: Value = serde_json::from_str(&requests[2].body).unwrap();
    assert_eq!(template["data_stream"], json!({}));
    assert_eq!(template["index_patterns"], json!(["logs-app"]));
    assert_eq!(
        template["template"]["mappings"]["properties"]["@timestamp"],
        json!({"type": "date"})
    );
    let shown = show(&requests[3]);
    let expected = format!(
        "POST /logs-app/_bulk?{FILTER}&pipeline=p\n\
         authorization: Basic dTpodW50ZXIyMg==\n\
         content-type: application/x-ndjson\n\
         {{\"create\":{{\"_id\":\"id-1\"}}}}\n\
         {{\"@timestamp\":\"2026-01-02T03:04:05.123Z\",\"host\":\"web1\","
    );
    assert!(shown.starts_with(&expected), "{shown}");
}

#[test]
fn old_elasticsearch_gets_an_old_template() {
    let server = elasticsearch(json!({"number": "7.5.2"}), Value::Null);
    let requests = requests(&server, "[elasticsearch]\nindex = \"logs\"");
    assert_eq!(requests[2].path, "/_template/loginson-x");
    let template: Value = serde_json::from_str(&requests[2].body).unwrap();
    assert_eq!((&template["order"], &template["index_patterns"]), (&json!(250), &json!(["logs"])));
    assert_eq!(template["mappings"]["properties"]["n"], json!({"type": "long"}));
    assert!(requests[3].path.starts_with("/logs/_bulk?"));
}

#[test]
fn templates_of_others_are_left_alone_and_ours_keep_their_fields() {
    let template = |manager: &str| {
        let mappings = json!({
            "_meta": {"managed_by": manager},
            "properties": {"older": {"type": "ip"}, "n": {"type": "double"}},
        });
        let template = json!({"index_template": {"template": {"mappings": mappings}}});
        json!({ "index_templates": [template] })
    };
    let version = json!({"number": "9.0.0"});
    let config = "[elasticsearch]\nindex = \"logs\"";
    let others = elasticsearch(version.clone(), template("someone"));
    assert!(requests(&others, config).iter().all(|request| request.method != "PUT"));
    let ours = elasticsearch(version, template("loginson"));
    let requests = requests(&ours, config);
    assert_eq!(requests[2].method, "PUT");
    let made: Value = serde_json::from_str(&requests[2].body).unwrap();
    let properties = &made["template"]["mappings"]["properties"];
    assert_eq!(properties["older"], json!({"type": "ip"}));
    assert_eq!(properties["n"], json!({"type": "double"}));
    assert_eq!(properties["ok"], json!({"type": "boolean"}));
}

#[test]
fn servers_that_cannot_do_it_are_named() {
    for (version, config, expected) in [
        (json!({"number": "6.8.23"}), "index = \"a\"", "Elasticsearch 6.8 is too old; use"),
        (
            json!({"number": "7.8.0"}),
            "data_stream = \"a\"",
            "Elasticsearch 7.8 has no data streams; use",
        ),
        (json!({}), "index = \"a\"", "which names no version; check that the address"),
    ] {
        let server = elasticsearch(version, Value::Null);
        let text = format!("name = \"x\"\nurls = [{:?}]\n[elasticsearch]\n{config}", server.url);
        let Delivered::Unavailable { fault, .. } = destination(&text).deliver(&samples()) else {
            panic!()
        };
        assert!(fault.to_string().contains(expected), "{fault}");
    }
}

#[test]
fn deletions_are_carried_out_where_there_are_ids() {
    let documents = [
        samples().remove(1),
        Document::delete("gone", 1_767_323_045_000_000_000),
        Document::delete("id-2", 1_767_409_445_000_000_000),
    ];
    let items = json!({"errors": false, "items": [
        {"create": {"status": 201}}, {"delete": {"status": 404}},
    ]});
    let server = Server::start(move |request| match request.method.as_str() {
        "GET" => Action::json(200, json!({"version": {"number": "8.17.0"}})),
        _ => Action::json(200, &items),
    });
    let urls = format!("name = \"x\"\nurls = [{:?}]\n", server.url);
    let table = "[elasticsearch]\nindex = \"logs-%Y.%m.%d\"\ntemplate = { enabled = false }";
    // The third document changes an id of the same request: it goes with the next one.
    let delivered = destination(&format!("{urls}{table}")).deliver(&documents);
    assert_eq!(delivered, Delivered::accepted(2));
    let body = server.requests().pop().unwrap().body;
    assert_eq!(
        body,
        "{\"create\":{\"_id\":\"id-2\",\"_index\":\"logs-2026.01.03\"}}\n\
         {\"@timestamp\":\"2026-01-03T03:04:05.000000000Z\",\"host\":\"web2\",\"n\":2,\
         \"message\":\"two\"}\n\
         {\"delete\":{\"_id\":\"gone\",\"_index\":\"logs-2026.01.02\"}}\n"
    );

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lines");
    let line = "{\"_time\":\"2026-01-02T03:04:05.000000000Z\",\"_id\":\"gone\",\"deleted\":true}\n";
    let ignored = |table: &str, urls: &str| {
        let delivered = destination(&format!("name = \"x\"\n{urls}{table}")).deliver(&documents);
        let Delivered::Answered { outcomes, .. } = delivered else { panic!("{delivered:?}") };
        assert_eq!(outcomes.len(), 3, "{table}");
        outcomes.iter().filter(|outcome| **outcome == Outcome::Ignored).count()
    };
    assert_eq!(ignored(&format!("[file]\npath = {path:?}"), ""), 0);
    assert!(std::fs::read_to_string(&path).unwrap().contains(line));
    let server = Server::answering(204, "");
    let urls = format!("urls = [{:?}]\n", server.url);
    assert_eq!(ignored("[json_lines]", &urls), 0);
    assert!(server.requests().pop().unwrap().body.contains(line));
    assert_eq!(ignored("[json_lines]\nid_field = \"\"", &urls), 2);
    assert_eq!(ignored("[loki]", &urls), 2);
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = udp.local_addr().unwrap();
    assert_eq!(ignored(&format!("[syslog]\naddress = \"{address}\"\ntransport = \"udp\""), ""), 2);
}
