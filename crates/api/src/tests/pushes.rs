//! Formats of other products by HTTP: what their senders get as answers, and which rows are kept.

use axum::http::HeaderMap;
use serde_json::json;

use super::*;
use crate::ingest::WebhookSecret;

impl Fixture {
    /// The status, headers and body of the answer to a POST.
    async fn pushed(
        &self,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> (StatusCode, HeaderMap, String) {
        let mut request = Request::post(path).header("host", "localhost");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.answer(request.body(body.into())).await;
        let (parts, body) = response.into_parts();
        let body = to_bytes(body, usize::MAX).await.unwrap().to_vec();
        (parts.status, parts.headers, String::from_utf8_lossy(&body).into_owned())
    }

    /// Checks that an answer has this status and contains this text.
    #[track_caller]
    fn said(answer: (StatusCode, HeaderMap, String), status: u16, text: &str) {
        assert_eq!(answer.0.as_u16(), status, "{}", answer.2);
        assert!(answer.2.contains(text), "{}", answer.2);
    }
}

/// A row of VictoriaLogs' native format, of that account; lengths are below 128.
fn native_row(account: u8, tags: &[(&str, &str)], fields: &[(&str, &str)]) -> Vec<u8> {
    let pairs = |pairs: &[(&str, &str)]| {
        let mut out = vec![pairs.len() as u8];
        for text in pairs.iter().flat_map(|(name, value)| [name, value]) {
            out.push(text.len() as u8);
            out.extend_from_slice(text.as_bytes());
        }
        out
    };
    let tags = pairs(tags);
    let time = 1_769_860_800_000_000_000_u64.to_be_bytes();
    let head = [0, 0, 0, account, 0, 0, 0, 0, tags.len() as u8];
    [&head[..], &tags, &time, &pairs(fields)].concat()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_vlagent() {
    let fixture = Fixture::new(|_| {});
    let one = native_row(0, &[("app", "web")], &[("app", "web"), ("_msg", "one")]);
    let two = native_row(0, &[("host", "a")], &[("host", "a"), ("level", "error"), ("", "two")]);
    let sent = zstd::encode_all(&[one, two].concat()[..], 1).unwrap();
    let zstd = [("content-encoding", "zstd")];
    let answer = fixture.pushed("/insert/native?version=v1", &zstd, sent).await;
    Fixture::said(answer, 200, "");
    let rows = fixture.rows("* | sort by (_msg)").await;
    assert_eq!((&rows[0]["_msg"], &rows[1]["_msg"]), (&json!("one"), &json!("two")));
    assert_eq!(rows[0]["_stream"], r#"{app="web"}"#);
    assert_eq!(rows[1]["_stream"], r#"{host="a"}"#);
    assert_eq!(
        (&rows[1]["_level"], &rows[1]["_time"]),
        (&json!("error"), &json!("2026-01-31T12:00:00Z"))
    );

    let other = || native_row(7, &[], &[("_msg", "three")]);
    let answer = fixture.pushed("/insert/multitenant/native?version=v1", &[], other()).await;
    Fixture::said(answer, 400, "row 0 is of the tenant 7:0");
    let answer = fixture.pushed("/insert/native?version=v2", &[], other()).await;
    Fixture::said(answer, 501, "-remoteWrite.format=jsonline");
    let answer = fixture.pushed("/insert/native?version=v1", &[], &b"{}"[..]).await;
    Fixture::said(answer, 400, "not in the native format");
    assert_eq!(fixture.rows("* | count() n").await[0]["n"], "2");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn uploads_of_the_journal() {
    let fixture = Fixture::new(|_| {});
    let journal = [("content-type", "application/vnd.fdo.journal")];
    let sent = b"__CURSOR=s=1\n__REALTIME_TIMESTAMP=1769860800250000\n_HOSTNAME=web1\nPRIORITY=3\n\
        SYSLOG_IDENTIFIER=cart\nMESSAGE\n\x07\0\0\0\0\0\0\0one\ntwo\n\nMESSAGE=three\n\n";
    let (status, headers, answer) = fixture.pushed("/upload", &journal, &sent[..]).await;
    assert_eq!((status, &answer[..]), (StatusCode::OK, "OK.\n"));
    assert_eq!(headers["accept-encoding"], "zstd");
    let rows = fixture.rows("_msg:one").await;
    let get = |name: &str| rows[0][name].as_str().unwrap_or_default();
    assert_eq!((get("_msg"), get("_level"), get("_type")), ("one\ntwo", "error", "journald"));
    assert_eq!(get("_stream"), r#"{app_name="cart",hostname="web1"}"#);
    // Entries before damage are kept.
    let damaged = [&b"MESSAGE=four\n\n"[..], &[b'x'; 100]].concat();
    let packed = [journal[0], ("content-encoding", "zstd")];
    let damaged = zstd::encode_all(&damaged[..], 1).unwrap();
    let answer = fixture.pushed("/insert/journald/upload", &packed, damaged).await;
    Fixture::said(answer, 400, "entry 1 is not in the export format");
    Fixture::said(fixture.pushed("/upload", &[], "x").await, 415, "application/vnd.fdo.journal");
    assert_eq!(fixture.rows("* | count() n").await[0]["n"], "3");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn samples_of_prometheus() {
    let fixture = Fixture::new(|_| {});
    let field =
        |number: u8, content: &[u8]| [&[number << 3 | 2, content.len() as u8], content].concat();
    let label = |name: &str, value: &str| {
        field(1, &[field(1, name.as_bytes()), field(2, value.as_bytes())].concat())
    };
    let sample = |value: f64| {
        field(
            2,
            &[&[0x09][..], &value.to_le_bytes(), &[0x10, 0x80, 0xa1, 0xa6, 0x9f, 0xc1, 0x33]]
                .concat(),
        )
    };
    let series = [label("__name__", "up"), label("job", "api"), sample(2.0), sample(4.0)].concat();
    let sent = snap::raw::Encoder::new().compress_vec(&field(1, &series)).unwrap();
    let headers = [("content-encoding", "snappy"), ("content-type", "application/x-protobuf")];
    for path in ["/api/v1/write", "/insert/prometheus/api/v1/write"] {
        Fixture::said(fixture.pushed(path, &headers, sent.clone()).await, 204, "");
    }
    let rows = fixture
        .rows("_type:metric name:up | stats by (job, _stream) avg(value) v, count() n")
        .await;
    assert_eq!((&rows[0]["v"], &rows[0]["n"]), (&json!("3"), &json!("4")));
    assert_eq!(rows[0]["_stream"], r#"{job="api"}"#);
    let v2 = [
        headers[0],
        ("content-type", "application/x-protobuf;proto=io.prometheus.write.v2.Request"),
    ];
    Fixture::said(fixture.pushed("/api/v1/write", &v2, sent).await, 415, "prometheus.WriteRequest");
    Fixture::said(fixture.pushed("/api/v1/write", &headers, "x").await, 400, "decompressed");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn points_of_influx() {
    let fixture = Fixture::new(|_| {});
    let sent = "cpu,host=a user=1.5,system=2i 1769860800\ncpu,host=b user=2.5 1769860801\n";
    let path = "/api/v2/write?org=o&bucket=b&precision=s";
    Fixture::said(fixture.pushed(path, &[], sent).await, 204, "");
    let rows = fixture.rows("_type:metric | stats by (name) sum(value) v | sort by (name)").await;
    assert_eq!((&rows[0]["name"], &rows[0]["v"]), (&json!("cpu_system"), &json!("2")));
    assert_eq!((&rows[1]["name"], &rows[1]["v"]), (&json!("cpu_user"), &json!("4")));
    // Wrong lines are told and counted; the others are kept.
    let answer = fixture.pushed("/write?db=d", &[], "up value=1\nno point\n").await;
    Fixture::said(answer, 400, "partial write: 1 lines were not kept; line 2: ");
    assert_eq!(fixture.dropped(collector::DropReason::BadRequest), 1);
    assert_eq!(fixture.rows("name:up | count() n").await[0]["n"], "1");
    Fixture::said(fixture.pushed("/write?precision=d", &[], "").await, 400, "precision is 'd'");
    let ping = fixture.get("/ping").await;
    assert_eq!(ping.status(), StatusCode::NO_CONTENT);
    assert!(ping.headers().contains_key("x-influxdb-version"));
}

/// A text in base64.
fn base64(content: impl AsRef<[u8]>) -> String {
    use ::base64::Engine;
    ::base64::engine::general_purpose::STANDARD.encode(content)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deliveries_of_firehose() {
    let fixture = Fixture::new(|_| {});
    let events = json!({
        "messageType": "DATA_MESSAGE", "owner": "1", "logGroup": "/aws/lambda/f", "logStream": "s",
        "subscriptionFilters": ["x"],
        "logEvents": [{"id": "a", "timestamp": 1_769_860_800_250_i64, "message": "ERROR one\n"}],
    });
    let control = json!({
        "messageType": "CONTROL_MESSAGE", "owner": "CloudwatchLogs", "logGroup": "",
        "logStream": "", "subscriptionFilters": [], "logEvents": [{"id": "", "timestamp": 1, "message": "CWL"}],
    });
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    write!(encoder, "{events}{control}").unwrap();
    let packed = encoder.finish().unwrap();
    let records: Vec<_> = [&packed[..], b"{\"a\":1}{\"a\":2}", b"two\nthree\n"]
        .map(|data| json!({ "data": base64(data) }))
        .into();
    let sent = json!({ "requestId": "r1", "timestamp": 1, "records": records }).to_string();
    let headers = [
        ("x-amz-firehose-request-id", "r1"),
        ("x-amz-firehose-common-attributes", r#"{"commonAttributes":{"env":"prod"}}"#),
    ];
    let (status, _, answer) = fixture.pushed("/insert/firehose", &headers, sent).await;
    let answer: serde_json::Value = serde_json::from_str(&answer).unwrap();
    assert_eq!((status, &answer["requestId"]), (StatusCode::OK, &json!("r1")));
    assert!(answer["timestamp"].is_i64());
    let rows = fixture.rows("logGroup:f").await;
    assert_eq!((&rows[0]["_msg"], &rows[0]["_level"]), (&json!("ERROR one"), &json!("error")));
    assert_eq!(rows[0]["_time"], "2026-01-31T12:00:00.25Z");
    assert_eq!(fixture.rows("env:prod | count() n").await[0]["n"], "5");
    let wrong = json!({ "requestId": "r2", "records": [{"dat": ""}] }).to_string();
    let answer = fixture.pushed("/insert/firehose", &headers, wrong).await;
    Fixture::said(answer, 400, "\"errorMessage\":\"the body is not a delivery");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_with_a_message_type_of_their_own_are_not_of_cloudwatch() {
    let fixture = Fixture::new(|_| {});
    let of_cloudwatch = json!({
        "messageType": "DATA_MESSAGE", "logGroup": "g", "logStream": "s",
        "logEvents": [{"timestamp": 1_769_860_800_250_i64, "message": "one"}],
    });
    let records: Vec<_> = [
        json!({ "messageType": "order.created", "id": 5 }),
        json!({ "messageType": "DATA_MESSAGE", "id": 6 }),
        json!({ "messageType": "CONTROL_MESSAGE", "logEvents": [], "id": 7 }),
        of_cloudwatch,
    ]
    .map(|record| json!({ "data": base64(record.to_string()) }))
    .into();
    let sent = json!({ "requestId": "r", "records": records }).to_string();
    Fixture::said(fixture.pushed("/insert/firehose", &[], sent).await, 200, "");
    let rows = fixture.rows("id:* | sort by (id)").await;
    assert_eq!(rows.len(), 3);
    assert_eq!((&rows[0]["messageType"], &rows[0]["id"]), (&json!("order.created"), &json!("5")));
    assert_eq!(fixture.rows("logGroup:g").await[0]["_msg"], "one");
}

/// Firehose sends a whole delivery again after any other answer than 200, for hours.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_that_cannot_be_decoded_does_not_refuse_the_others() {
    let fixture = Fixture::new(|_| {});
    let damaged = base64(b"\x1f\x8b no gzip");
    let (first, last) = (base64("first"), base64("last"));
    let records: Vec<_> = [&first[..], "%{", &damaged, r#"{"a":1}"#, &last]
        .map(|data| json!({ "data": data }))
        .into();
    let sent = json!({ "requestId": "r", "records": records }).to_string();
    Fixture::said(fixture.pushed("/insert/firehose", &[], sent).await, 200, "");
    let rows = fixture.rows("*").await;
    let of = |name: &'static str| rows.iter().map(move |row| row[name].as_str());
    let mut messages: Vec<_> = of("_msg").flatten().filter(|text| !text.is_empty()).collect();
    messages.retain(|text| !text.starts_with('{'));
    messages.sort_unstable();
    let mut expected = ["first", "%{", &damaged, "last"];
    expected.sort_unstable();
    assert_eq!(messages, expected);
    let errors: Vec<_> = of("decode_error").flatten().filter(|text| !text.is_empty()).collect();
    assert_eq!(errors.iter().filter(|text| text.contains("not base64")).count(), 2, "{errors:?}");
    assert_eq!(errors.iter().filter(|text| text.contains("gzip")).count(), 1, "{errors:?}");
    assert_eq!(fixture.rows("a:1 | count() n").await[0]["n"], "1");
    assert_eq!(fixture.rows("* | count() n").await[0]["n"], "5");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attributes_of_a_delivery_are_fields_or_say_that_they_are_left_out() {
    let fixture = Fixture::new(|_| {});
    let push = async |attributes: &str, text: &str| {
        let sent = json!({ "records": [{"data": base64(text)}] }).to_string();
        let headers = [("x-amz-firehose-common-attributes", attributes)];
        Fixture::said(fixture.pushed("/insert/firehose", &headers, sent).await, 200, "");
    };
    let long = "x".repeat(2000);
    push(&json!({"commonAttributes": {"env": "prod", "long": long}}).to_string(), "one").await;
    let rows = fixture.rows("env:prod").await;
    assert_eq!((&rows[0]["_msg"], &rows[0]["long"]), (&json!("one"), &json!(long)));
    push(r#"{"commonAttributes":{"n":5}}"#, "two").await;
    let rows = fixture.rows("commonAttributes:*").await;
    assert_eq!(rows[0]["_msg"], "two");
    let many: serde_json::Map<String, serde_json::Value> =
        (0..103).map(|n| (format!("a{n}"), json!("v"))).collect();
    push(&json!({ "commonAttributes": many }).to_string(), "three").await;
    let rows = fixture.rows("attributes_left_out:*").await;
    assert_eq!(rows[0]["_msg"], "three");
    assert_eq!(rows[0]["attributes_left_out"], "3 behind the first 100");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pushes_of_pubsub_and_event_grid() {
    let fixture = Fixture::new(|_| {});
    let push = |data: &str| {
        json!({
            "message": {
                "data": base64(data), "attributes": {"origin": "a"}, "messageId": "7",
                "publishTime": "2026-01-31T12:00:01Z",
            },
            "subscription": "projects/p/subscriptions/s",
        })
        .to_string()
    };
    let entry = r#"{"textPayload":"one","severity":"ERROR","timestamp":"2026-01-31T12:00:00Z","logName":"l"}"#;
    for data in [entry, "two", ""] {
        Fixture::said(fixture.pushed("/insert/pubsub", &[], push(data)).await, 204, "");
    }
    Fixture::said(fixture.pushed("/insert/pubsub", &[], "{}").await, 400, "a push of Pub/Sub");
    let rows = fixture.rows("attributes.origin:a | sort by (_msg)").await;
    assert_eq!(rows.len(), 3);
    assert_eq!((&rows[1]["_msg"], &rows[2]["_msg"]), (&json!("one"), &json!("two")));
    assert_eq!(
        (&rows[1]["_time"], &rows[2]["_time"]),
        (&json!("2026-01-31T12:00:00Z"), &json!("2026-01-31T12:00:01Z"))
    );
    assert_eq!(rows[1]["_level"], "error");

    let path = "/insert/eventgrid";
    let asks = r#"[{"eventType":"Microsoft.EventGrid.SubscriptionValidationEvent","data":{"validationCode":"c-1"}}]"#;
    let answer = fixture.pushed(path, &[("aeg-event-type", "SubscriptionValidation")], asks).await;
    Fixture::said(answer, 200, r#"{"validationResponse":"c-1"}"#);
    let events = r#"[{"id":"1","eventType":"Blob.Created","subject":"/a","eventTime":"2026-01-31T12:00:02Z","data":{"api":"Put"}}]"#;
    let answer = fixture.pushed(path, &[("aeg-event-type", "Notification")], events).await;
    Fixture::said(answer, 200, "");
    let rows = fixture.rows("eventType:Blob.Created").await;
    assert_eq!(
        (&rows[0]["data.api"], &rows[0]["_time"]),
        (&json!("Put"), &json!("2026-01-31T12:00:02Z"))
    );
    let asks = Request::builder().method("OPTIONS").uri(path).header("host", "localhost");
    let asks =
        asks.header("webhook-request-origin", "eventemitter.example.com").body(Body::empty());
    let allowed = fixture.answer(asks).await;
    assert_eq!(allowed.headers()["webhook-allowed-origin"], "eventemitter.example.com");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn objects_of_clouds_have_their_times_and_messages() {
    let fixture = Fixture::new(|_| {});
    let of_zap = base64(r#"{"level":"warn","ts":1769860800.5,"msg":"by zap"}"#);
    let sent = json!({ "records": [{"data": of_zap}] }).to_string();
    Fixture::said(fixture.pushed("/insert/firehose", &[], sent).await, 200, "");
    let entry = base64(r#"{"jsonPayload":{"message":"by google"},"ts":1769860800.5}"#);
    let message = json!({ "data": entry, "publishTime": "2026-01-31T12:00:09Z" });
    let sent = json!({ "message": message }).to_string();
    Fixture::said(fixture.pushed("/insert/pubsub", &[], sent).await, 204, "");
    let rows = fixture.rows("* | sort by (_msg)").await;
    let found: Vec<_> = rows.iter().map(|row| (&row["_msg"], &row["_time"])).collect();
    let time = json!("2026-01-31T12:00:00.5Z");
    assert_eq!(found, [(&json!("by google"), &time), (&json!("by zap"), &time)]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logs_of_datadog_have_a_level_without_a_status() {
    let fixture = Fixture::new(|_| {});
    let logs = json!([
        {"message": "a", "level": "error"},
        {"message": "b", "level": "error", "status": "warn"},
        {"message": "c", "severity": "INFO"},
    ]);
    Fixture::said(fixture.pushed("/api/v2/logs", &[], logs.to_string()).await, 202, "");
    let rows = fixture.rows("* | sort by (_msg)").await;
    let levels: Vec<_> = rows.iter().map(|row| row["_level"].as_str().unwrap()).collect();
    assert_eq!(levels, ["error", "warning", "info"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhooks_are_signed_with_the_secret() {
    // The example of GitHub's documentation, "Validating webhook deliveries".
    const SIGNATURE: &str =
        "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17";
    let fixture = Fixture::new(|options| {
        options.insert.github_secret = WebhookSecret::new(b"It's a Secret to Everybody\n");
    });
    let sent = |signature: &'static str, body: &'static str| {
        let headers = [("x-hub-signature-256", signature), ("content-type", "text/plain")];
        let fixture = &fixture;
        async move { fixture.pushed("/insert/github", &headers, body).await }
    };
    // A right signature of what is no webhook.
    Fixture::said(sent(SIGNATURE, "Hello, World!").await, 400, "a webhook of GitHub");
    assert_eq!(fixture.dropped(collector::DropReason::WrongProtocol), 0);
    let wrong = ["", "sha256=", "sha256=zz", &SIGNATURE[7..], &SIGNATURE[..SIGNATURE.len() - 2]];
    for (count, signature) in (1..).zip(wrong) {
        let answer = sent(signature, "Hello, World!").await;
        Fixture::said(answer, 401, "insert.github_secret_file");
        assert_eq!(fixture.dropped(collector::DropReason::WrongProtocol), count);
    }
    Fixture::said(sent(SIGNATURE, r#"{"zen":"x"}"#).await, 401, "insert.github_secret_file");
    let signed = "sha256=eb1372a523dc74783f89c0f177a5ab15fc608b4720b33e697cee863f8b0d0d51";
    Fixture::said(sent(signed, r#"{"zen":"x"}"#).await, 204, "");
    assert_eq!(fixture.rows("zen:x").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_of_logpush_webhooks_and_logplex() {
    let fixture = Fixture::new(|_| {});
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let lines = "{\"EdgeStartTimestamp\":1769860800250000000,\"ClientIP\":\"10.0.0.1\"}\n{\"ClientIP\":\"10.0.0.2\"}\n";
    encoder.write_all(lines.as_bytes()).unwrap();
    let gzip = [("content-encoding", "gzip")];
    let answer = fixture.pushed("/insert/logpush", &gzip, encoder.finish().unwrap()).await;
    Fixture::said(answer, 200, "");
    let rows = fixture.rows("ClientIP:* | sort by (ClientIP)").await;
    assert_eq!((rows.len(), &rows[0]["_time"]), (2, &json!("2026-01-31T12:00:00.25Z")));

    let hook = r#"{"action":"opened","repository":{"full_name":"o/r"},"sender":{"login":"me"},"issue":{"number":7}}"#;
    let headers = [("x-github-event", "issues"), ("x-github-delivery", "d-1")];
    Fixture::said(fixture.pushed("/insert/github", &headers, hook).await, 204, "");
    let form: String = form_urlencoded::byte_serialize(b"{\"zen\":\"x\"}").collect();
    let headers =
        [("content-type", "application/x-www-form-urlencoded"), ("x-github-event", "ping")];
    Fixture::said(
        fixture.pushed("/insert/github", &headers, format!("payload={form}")).await,
        204,
        "",
    );
    let rows = fixture.rows("delivery:d-1").await;
    assert_eq!(
        (&rows[0]["_msg"], &rows[0]["issue.number"]),
        (&json!("issues opened in o/r by me"), &json!("7"))
    );
    assert_eq!(fixture.rows("event:ping").await[0]["zen"], "x");

    let message = "<40>1 2026-01-31T12:00:00+00:00 host app web.3 - State changed\n";
    let body = format!("{} {message}", message.len());
    let kind = [("content-type", "application/logplex-1"), ("logplex-msg-count", "1")];
    Fixture::said(fixture.pushed("/insert/logplex", &kind, body).await, 204, "");
    let rows = fixture.rows("app_name:app").await;
    assert_eq!((&rows[0]["proc_id"], &rows[0]["_msg"]), (&json!("web.3"), &json!("State changed")));
    let answer = fixture.pushed("/insert/logplex", &kind, "ab").await;
    Fixture::said(answer, 400, "does not begin with one");
    // The messages before damage are not stored again, and it is not lost.
    Fixture::said(fixture.pushed("/insert/logplex", &kind, "1 a1x b").await, 204, "");
    assert_eq!(fixture.rows("decode_error:length").await[0]["_msg"], "1x b");
}
