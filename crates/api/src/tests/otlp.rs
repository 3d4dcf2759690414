//! Logs by OTLP: what exporters get as answers, by HTTP and by gRPC.

use axum::body::HttpBody;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use flate2::Compression;
use flate2::write::{GzEncoder, ZlibEncoder};
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::{Value, json};

use super::*;

const LOGS: &str = "/opentelemetry.proto.collector.logs.v1.LogsService/Export";

/// A message of protobuf with one field of bytes. Lengths are below 128.
fn field(number: u8, content: impl AsRef<[u8]>) -> Vec<u8> {
    let content = content.as_ref();
    assert!(content.len() < 128);
    [&[number << 3 | 2, content.len() as u8], content].concat()
}

/// A request with these records.
fn request_of(records: &[Vec<u8>]) -> Vec<u8> {
    let records: Vec<u8> = records.iter().flat_map(|record| field(2, record)).collect();
    let service = field(1, [field(1, "service.name"), field(2, field(1, "shop"))].concat());
    field(1, [field(1, service), field(2, records)].concat())
}

fn record(body: &str) -> Vec<u8> {
    [&[0x10, 17][..], &field(3, "Error"), &field(5, field(1, body))].concat()
}

/// A record whose body ends in its middle.
fn broken() -> Vec<u8> {
    field(5, [0x0a, 9])
}

fn gzip(content: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

fn zlib(content: &[u8]) -> Vec<u8> {
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(content).unwrap();
    encoder.finish().unwrap()
}

impl Fixture {
    async fn otlp(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> (StatusCode, HeaderMap, Vec<u8>) {
        let mut request = Request::post(path).header("host", "localhost");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.answer(request.body(Body::from(body))).await;
        let (parts, body) = response.into_parts();
        (parts.status, parts.headers, to_bytes(body, usize::MAX).await.unwrap().to_vec())
    }

    pub(super) async fn rows(&self, query: &str) -> Vec<Value> {
        let query: String = form_urlencoded::byte_serialize(query.as_bytes()).collect();
        let rows = text(self.get(&format!("/select/logsql/query?query={query}")).await).await;
        rows.lines().map(|row| serde_json::from_str(row).unwrap()).collect()
    }

    pub(super) fn dropped(&self, reason: collector::DropReason) -> u64 {
        let counts = self.app.accounting.source(SourceKind::Http).counts();
        assert_eq!(counts.lines_missing(), 0);
        counts.dropped(reason).lines
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn requests_of_http() {
    let fixture = Fixture::new(|_| {});
    let protobuf = [("content-type", "application/x-protobuf")];
    let json = [("content-type", "application/json; charset=utf-8")];
    let of_json = |body: &str| {
        json!({"resourceLogs": [{
            "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "cart"}}]},
            "scopeLogs": [{"logRecords": [{"body": {"stringValue": body}, "severityNumber": 9}]}],
        }]})
        .to_string()
        .into_bytes()
    };
    let (status, headers, answer) =
        fixture.otlp("/v1/logs", &protobuf, request_of(&[record("one"), record("two")])).await;
    assert_eq!((status, &answer[..]), (StatusCode::OK, &b""[..]));
    assert_eq!(headers[CONTENT_TYPE], "application/x-protobuf");
    let (status, headers, answer) = fixture.otlp("/v1/logs", &json, of_json("three")).await;
    assert_eq!((status, &answer[..]), (StatusCode::OK, &b"{}"[..]));
    assert_eq!(headers[CONTENT_TYPE], "application/json");
    let packed = [protobuf[0], ("content-encoding", "gzip")];
    let path = "/insert/opentelemetry/v1/logs?extra_fields=env=prod";
    let (status, ..) = fixture.otlp(path, &packed, gzip(&request_of(&[record("four")]))).await;
    assert_eq!(status, StatusCode::OK);
    // curl sends JSON as a form.
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let (status, _, answer) = fixture.otlp("/v1/logs", &form, of_json("five")).await;
    assert_eq!((status, &answer[..]), (StatusCode::OK, &b"{}"[..]));

    let rows = fixture.rows("* | sort by (_msg)").await;
    let messages: Vec<_> = rows.iter().map(|row| row["_msg"].as_str().unwrap()).collect();
    assert_eq!(messages, ["five", "four", "one", "three", "two"]);
    assert_eq!(rows[1]["env"], "prod");
    assert_eq!(rows[2]["_stream"], r#"{service.name="shop"}"#);
    assert_eq!((&rows[2]["_level"], &rows[3]["_level"]), (&json!("error"), &json!("info")));
    assert_eq!(rows[2]["severity_text"], "Error");
    let streams = [protobuf[0], ("vl-stream-fields", "severity_number")];
    let (status, ..) = fixture.otlp("/v1/logs", &streams, request_of(&[record("own")])).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(fixture.rows("own").await[0]["_stream"], r#"{severity_number="17"}"#);
    // A name that the collector of OpenTelemetry has for it.
    let packed = [protobuf[0], ("content-encoding", "zlib")];
    let sent = zlib(&request_of(&[record("six")]));
    let (status, ..) = fixture.otlp("/v1/logs", &packed, sent).await;
    assert_eq!((status, fixture.rows("six").await.len()), (StatusCode::OK, 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rejected_records_are_told_and_counted() {
    let fixture = Fixture::new(|_| {});
    let protobuf = [("content-type", "application/x-protobuf")];
    let sent = request_of(&[record("kept"), broken(), broken()]);
    let (status, _, answer) = fixture.otlp("/v1/logs", &protobuf, sent).await;
    let told = "2 of the records were not kept; the first one: a record cannot be read";
    let partial = [&[0x08, 2][..], &field(2, told)].concat();
    assert_eq!((status, answer), (StatusCode::OK, field(1, partial)));
    let sent =
        r#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[7,{"body":{"stringValue":"x"}}]}]}]}"#;
    let (status, _, answer) = fixture.otlp("/v1/logs", &[], sent.into()).await;
    let answer: Value = serde_json::from_slice(&answer).unwrap();
    assert_eq!(
        (status, &answer["partialSuccess"]["rejectedLogRecords"]),
        (StatusCode::OK, &json!("1"))
    );
    assert_eq!(fixture.rows("* | count() n").await[0]["n"], "2");
    assert_eq!(fixture.dropped(collector::DropReason::BadRequest), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_are_a_status_in_the_format_of_the_request() {
    let fixture = Fixture::new(|_| {});
    let protobuf = ("content-type", "application/x-protobuf");
    let json = ("content-type", "application/json");
    let (status, _, answer) = fixture.otlp("/v1/logs", &[protobuf], vec![0x0a, 9]).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);
    assert_eq!(answer[..2], [0x08, 3]);
    assert!(String::from_utf8_lossy(&answer).contains("the protobuf message is broken"));
    for (headers, body, code, message) in [
        (vec![json], &b"{\"resourceSpans\":[]}"[..], 400, "resourceSpans"),
        (vec![json], b"{", 400, "EOF"),
        (vec![json, ("content-encoding", "br")], b"", 400, "'br' is not supported"),
        (vec![json, ("content-encoding", "gzip")], b"x", 400, "cannot be decompressed"),
    ] {
        let (status, _, answer) = fixture.otlp("/v1/logs", &headers, body.to_vec()).await;
        let answer: Value = serde_json::from_slice(&answer).unwrap();
        assert_eq!((status.as_u16(), &answer["code"]), (code, &json!(3)), "{answer}");
        assert!(answer["message"].as_str().unwrap().contains(message), "{answer}");
    }
    for (path, status, remedy) in [
        ("/v1/traces", 404, "OTEL_TRACES_EXPORTER=none"),
        ("/v1/metrics", 400, "it has 'resourceLogs', but no resourceMetrics"),
    ] {
        let (found, _, answer) =
            fixture.otlp(path, &[json], b"{\"resourceLogs\":[]}".to_vec()).await;
        assert_eq!(found.as_u16(), status);
        assert!(String::from_utf8(answer).unwrap().contains(remedy));
    }
    assert_eq!(fixture.dropped(collector::DropReason::WrongProtocol), 1);
    // Exporters drop what they sent after 500 and 507, so they get 503.
    fixture.app.stop();
    fixture.pipeline.stop();
    let (status, headers, answer) =
        fixture.otlp("/v1/logs", &[protobuf], request_of(&[record("late")])).await;
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert!(headers.contains_key("retry-after"));
    assert_eq!(answer[..2], [0x08, 14]);
}

/// A connection of HTTP/2.
struct Http2(hyper::client::conn::http2::SendRequest<Body>);

impl Http2 {
    async fn connect(address: SocketAddr) -> Http2 {
        let stream = tokio::net::TcpStream::connect(address).await.unwrap();
        let handshake =
            hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
        let (sender, connection) = handshake.await.unwrap();
        tokio::spawn(connection);
        Http2(sender)
    }

    /// Status, headers and trailers together, and the body.
    async fn call(
        &mut self,
        path: &str,
        headers: &[(&str, &str)],
        body: Vec<u8>,
    ) -> (StatusCode, HeaderMap, Vec<u8>) {
        let mut request = Request::post(format!("http://localhost{path}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.0.send_request(request.body(Body::from(body)).unwrap()).await.unwrap();
        let (parts, body) = response.into_parts();
        let (mut headers, mut content) = (parts.headers, Vec::new());
        let mut body = std::pin::pin!(body);
        while let Some(frame) =
            std::future::poll_fn(|context| body.as_mut().poll_frame(context)).await
        {
            match frame.unwrap().into_data() {
                Ok(data) => content.extend_from_slice(&data),
                Err(frame) => headers.extend(frame.into_trailers().unwrap()),
            }
        }
        (parts.status, headers, content)
    }
}

fn framed(flag: u8, message: &[u8]) -> Vec<u8> {
    [&[flag][..], &(message.len() as u32).to_be_bytes(), message].concat()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_of_grpc() {
    let fixture = Fixture::new(|_| {});
    let mut client = Http2::connect(fixture.listen().await).await;
    let grpc = ("content-type", "application/grpc");
    let sent = framed(0, &request_of(&[record("by call")]));
    let (status, headers, answer) = client.call(LOGS, &[grpc], sent).await;
    assert_eq!(
        (status, &headers["grpc-status"], &answer[..]),
        (StatusCode::OK, &"0".parse().unwrap(), &framed(0, b"")[..])
    );
    let packed = framed(1, &gzip(&request_of(&[record("packed"), broken()])));
    let (_, headers, answer) =
        client.call(LOGS, &[grpc, ("grpc-encoding", "gzip")], packed.clone()).await;
    assert_eq!(headers["grpc-status"], "0");
    assert!(String::from_utf8_lossy(&answer).contains("1 of the records were not kept"));
    let rows = fixture.rows("* | sort by (_msg)").await;
    let messages: Vec<_> = rows.iter().map(|row| row["_msg"].as_str().unwrap()).collect();
    assert_eq!(messages, ["by call", "packed"]);

    let traces = "/opentelemetry.proto.collector.trace.v1.TraceService/Export";
    for (path, encoding, body, code, message) in [
        (LOGS, "gzip", framed(0, &[0x0a, 9]), "3", "the protobuf message is broken"),
        (LOGS, "gzip", vec![0, 0], "3", "not one message"),
        (LOGS, "lz4", packed, "12", "grpc-encoding 'lz4'"),
        (traces, "identity", framed(0, b""), "12", "OTEL_TRACES_EXPORTER=none"),
    ] {
        let (status, headers, _) =
            client.call(path, &[grpc, ("grpc-encoding", encoding)], body).await;
        assert_eq!((status, &headers["grpc-status"]), (StatusCode::OK, &code.parse().unwrap()));
        let told = headers["grpc-message"].to_str().unwrap();
        assert!(told.contains(message), "{told}");
    }
    // HTTP/2 is for calls alone.
    let (status, ..) = client.call("/v1/logs", &[("content-type", "text/plain")], Vec::new()).await;
    assert_eq!(status, StatusCode::HTTP_VERSION_NOT_SUPPORTED);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_port_for_otlp_takes_nothing_else() {
    let fixture = Fixture::new(|_| {});
    let (_, mut otlp) = routers(Arc::clone(&fixture.app), &[ADDRESS]);
    let address =
        listen(otlp.remove(0), fixture.app.clients().clone(), fixture.stop.subscribe()).await;
    let mut client = Http2::connect(address).await;
    let sent = framed(0, &request_of(&[record("a")]));
    let (_, headers, _) = client.call(LOGS, &[("content-type", "application/grpc")], sent).await;
    assert_eq!(headers["grpc-status"], "0");
    let call = move |head: &'static str, body: &'static str| {
        let mut answer = String::new();
        let _ = request(address, head, body).read_to_string(&mut answer);
        answer
    };
    let sent = r#"{"resourceLogs":[{"scopeLogs":[{"logRecords":[{}]}]}]}"#;
    let taken = tokio::task::spawn_blocking(move || call("POST /v1/logs", sent)).await.unwrap();
    assert!(taken.starts_with("HTTP/1.1 200"), "{taken}");
    let other =
        tokio::task::spawn_blocking(move || call("GET /select/logsql/query?query=*", "")).await;
    let other = other.unwrap();
    assert!(other.starts_with("HTTP/1.1 404") && other.contains("otlp_listen"), "{other}");
    assert_eq!(fixture.rows("* | count() n").await[0]["n"], "2");
}
