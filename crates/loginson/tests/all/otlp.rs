//! Logs of OpenTelemetry: at a port of their own, over a kill, and through a collector. What is in
//! a request, and gRPC, is tested where it is decoded and served; `make test-otlp` sends by the
//! SDKs.

use serde_json::json;

use crate::common::{Server, request_to};
use crate::nodes::Collector;

const JSON: (&str, &str) = ("Content-Type", "application/json");

fn export(body: &str) -> Vec<u8> {
    json!({"resourceLogs": [{
        "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]},
        "scopeLogs": [{"logRecords": [{"body": {"stringValue": body}, "severityNumber": 17}]}],
    }]})
    .to_string()
    .into_bytes()
}

#[test]
fn an_export_survives_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let listen = ["--otlp-listen", "127.0.0.1:0"];
    let mut server = Server::start_in(dir.path(), &listen, "");
    let address = server.status()["listeners"]["otlp"].as_str().unwrap().to_owned();
    let answer = request_to(&address, "POST", "/v1/logs", &[JSON], &export("to its port")).unwrap();
    assert_eq!((answer.status, answer.text()), (200, "{}".to_owned()));
    let answer = server.request("POST", "/v1/logs", &[JSON], &export("to the API"));
    assert_eq!(answer.status, 200);
    let other = request_to(&address, "GET", "/select/logsql/query?query=*", &[], b"").unwrap();
    assert_eq!(other.status, 404);
    assert!(other.text().contains("otlp_listen"), "{}", other.text());
    server.kill();
    let server = Server::start_in(dir.path(), &[], "");
    assert_eq!(server.count("_level:error service.name:=shop"), 2);
    assert_eq!(server.count("{service.name=\"shop\"}"), 2);
}

#[test]
fn a_collector_hands_on_exports() {
    let dir = tempfile::tempdir().unwrap();
    let store = Server::start_with(&["--node-listen", "127.0.0.1:0"], "");
    let address = store.status()["listeners"]["node"].as_str().unwrap().to_owned();
    let collector = Collector::start(&dir.path().join("spool"), &[&address], &[]);
    let sent = request_to(&collector.http, "POST", "/v1/logs", &[JSON], &export("handed on"));
    assert_eq!(sent.unwrap().status, 200);
    store.wait_for("the line", |store| store.count("\"handed on\"") == 1);
}
