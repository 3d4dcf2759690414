//! Requests of Grafana to a Loki data source, replayed: those of Explore, of its query editor, of
//! dashboards and of Logs Drilldown, as they are described in the documentation of Grafana and in
//! that of Loki's HTTP API. The lines are our own, and so are the expected answers: their values
//! where they are known, and otherwise their form.

use axum::http::header::CONTENT_TYPE;
use serde_json::{Value, json};

use super::*;

/// 2026-01-31T12:00:00Z, seconds.
const NOON_S: i64 = 1_769_860_800;

fn nanoseconds(second: i64) -> String {
    format!("{}000000000", NOON_S + second)
}

fn encoded(value: &str) -> String {
    form_urlencoded::byte_serialize(value.as_bytes()).collect()
}

/// Whether a value has a form: `"*text"`, `"*number"` and `"*any"` stand for values; objects have
/// the same names, and lists the same length.
fn has_form(found: &Value, form: &Value) -> bool {
    match (found, form) {
        (_, Value::String(any)) if any == "*any" => true,
        (Value::String(_), Value::String(any)) if any == "*text" => true,
        (Value::Number(_), Value::String(any)) if any == "*number" => true,
        (Value::Object(found), Value::Object(form)) => {
            found.len() == form.len()
                && form
                    .iter()
                    .all(|(name, form)| found.get(name).is_some_and(|found| has_form(found, form)))
        }
        (Value::Array(found), Value::Array(form)) => {
            found.len() == form.len() && found.iter().zip(form).all(|(a, b)| has_form(a, b))
        }
        (found, form) => found == form,
    }
}

impl Fixture {
    async fn loki(&self, call: &str, parameters: &[(&str, &str)]) -> (StatusCode, String) {
        self.loki_with(call, parameters, None).await
    }

    /// A call below `/loki/api/v1/`; `flags` are the encoding flags.
    async fn loki_with(
        &self,
        call: &str,
        parameters: &[(&str, &str)],
        flags: Option<&str>,
    ) -> (StatusCode, String) {
        let pairs: Vec<String> =
            parameters.iter().map(|(name, value)| format!("{name}={}", encoded(value))).collect();
        let path = format!("/loki/api/v1/{call}?{}", pairs.join("&"));
        let mut request = Request::get(path).header("host", "localhost");
        if let Some(flags) = flags {
            request = request.header("X-Loki-Response-Encoding-Flags", flags);
        }
        let answer = self.answer(request.body(Body::empty())).await;
        (answer.status(), text(answer).await)
    }

    async fn loki_json(&self, call: &str, parameters: &[(&str, &str)]) -> Value {
        let (status, body) = self.loki(call, parameters).await;
        assert_eq!(status, StatusCode::OK, "{call} {parameters:?}: {body}");
        serde_json::from_str(&body).unwrap()
    }

    async fn push_streams(&self, streams: Value) {
        let body = json!({ "streams": streams }).to_string();
        let request = Request::post("/loki/api/v1/push").header("host", "localhost");
        let request = request.header(CONTENT_TYPE, "application/json");
        let answer = self.answer(request.body(Body::from(body))).await;
        assert_eq!(answer.status(), StatusCode::NO_CONTENT, "{}", text(answer).await);
    }

    /// Two streams of a shop: logfmt with metadata, and JSON.
    async fn with_shop() -> Fixture {
        let fixture = Fixture::new(|_| {});
        let line = |second: i64, level: &str, took: i64| {
            let line = format!("level={level} msg=\"order {second} done\" took={took}ms size=2KB");
            json!([nanoseconds(second), line, { "trace_id": format!("t{second}") }])
        };
        fixture
            .push_streams(json!([
                { "stream": { "app": "shop", "pod": "shop-1" },
                  "values": [line(1, "info", 5), line(2, "error", 900), line(12, "info", 7)] },
                { "stream": { "app": "api", "pod": "api-1" },
                  "values": [
                    [nanoseconds(3), r#"{"level":"warn","user":{"name":"ann"},"n":1.5,"ok":true}"#],
                  ] },
            ]))
            .await;
        fixture
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn metadata_and_labels_of_the_same_name_stay_apart() {
    let fixture = Fixture::new(|_| {});
    fixture
        .push_streams(json!([
            { "stream": { "app": "s", "env": "prod" },
              "values": [[nanoseconds(1), "x", { "env": "canary", "lvl": "error" }]] },
            // A label of this stream is metadata of the other one.
            { "stream": { "app": "t", "lvl": "label" },
              "values": [[nanoseconds(2), "y", { "_msg": "not the line", "_time": "not the time" }]] },
        ]))
        .await;
    let (start, end) = (nanoseconds(0), nanoseconds(60));
    let ask = async |query: &str, flags: Option<&str>| {
        let parameters = [("query", query), ("start", &*start), ("end", &*end)];
        let (status, body) = fixture.loki_with("query_range", &parameters, flags).await;
        assert_eq!(status, StatusCode::OK, "{query}: {body}");
        let mut body: Value = serde_json::from_str(&body).unwrap();
        body["data"]["result"].take()
    };
    // A line is found by its own label, and not by the metadata of that name.
    let found = ask(r#"{env="prod"}"#, None).await;
    let stream = json!({
        "app": "s", "env": "prod", "env_extracted": "canary", "lvl": "error", "_type": "*text",
        "detected_level": "*text",
    });
    let mut without_type = found[0]["stream"].clone();
    without_type.as_object_mut().unwrap().entry("_type").or_insert(json!("json"));
    assert!(has_form(&without_type, &stream), "{found}");
    assert_eq!(ask(r#"{env="canary"}"#, None).await, json!([]));
    let found = ask(r#"{app="t"}"#, None).await;
    assert_eq!(found[0]["values"], json!([[nanoseconds(2), "y"]]));
    assert_eq!(found[0]["stream"]["lvl"], "label");
    assert_eq!(found[0]["stream"]["_msg_extracted"], "not the line");
    assert_eq!(ask(r#"{app="t"} | _time_extracted="not the time""#, None).await, found);
    // Labels by category.
    let found = ask(r#"{app="s"}"#, Some("categorize-labels")).await;
    assert_eq!(found[0]["stream"]["env"], "prod");
    assert_eq!(found[0]["stream"]["lvl"], Value::Null, "{found}");
    let metadata = &found[0]["values"][0][2]["structuredMetadata"];
    assert_eq!((&metadata["lvl"], &metadata["env_extracted"]), (&json!("error"), &json!("canary")));
    // In queries for numbers too.
    let at = (NOON_S + 60).to_string();
    let parameters = [("query", r#"count_over_time({app="s"}[1m])"#), ("time", &*at)];
    let found = fixture.loki_json("query", &parameters).await;
    let metric = &found["data"]["result"][0]["metric"];
    assert_eq!((&metric["lvl"], &metric["env"]), (&json!("error"), &json!("prod")), "{found}");
    // And `label/lvl/values` are those of labels and fields.
    let range = [("start", &*start), ("end", &*end)];
    let series =
        fixture.loki_json("series", &[&range[..], &[("match[]", r#"{app="s"}"#)]].concat()).await;
    assert_eq!(series["data"][0]["lvl"], Value::Null, "{series}");
}

#[tokio::test(flavor = "multi_thread")]
async fn explore_asks() {
    let fixture = Fixture::with_shop().await;
    let (start, end) = (nanoseconds(0), nanoseconds(60));
    let range = [("start", &*start), ("end", &*end)];
    let ask = async |call: &str, more: &[(&str, &str)]| {
        fixture.loki_json(call, &[&range[..], more].concat()).await
    };
    let success = |data: Value| json!({ "status": "success", "data": data });

    // The test of the data source, and the version.
    let found =
        fixture.loki_json("query", &[("query", "vector(1)+vector(1)"), ("time", &*end)]).await;
    let vector = json!([{ "metric": {}, "value": [NOON_S + 60, "2"] }]);
    let form = success(json!({ "resultType": "vector", "result": vector, "stats": "*any" }));
    assert!(has_form(&found, &form), "{found}");
    let form = json!({
        "version": "*text", "revision": "*text", "branch": "*text", "buildUser": "*text",
        "buildDate": "*text", "goVersion": "*text",
    });
    assert!(has_form(&fixture.loki_json("status/buildinfo", &[]).await, &form));

    // The builder of queries: labels, their values, and both narrowed by what is chosen already.
    let names =
        |found: &Value| -> Vec<String> { serde_json::from_value(found["data"].clone()).unwrap() };
    let found = names(&ask("labels", &[]).await);
    assert!(found.contains(&"app".to_owned()) && found.contains(&"pod".to_owned()), "{found:?}");
    assert!(!found.contains(&"trace_id".to_owned()), "{found:?}");
    assert_eq!(names(&ask("label/app/values", &[]).await), ["api", "shop"]);
    let shop = ("query", r#"{app="shop"}"#);
    assert_eq!(names(&ask("label/pod/values", &[shop]).await), ["shop-1"]);
    assert_eq!(names(&ask("labels", &[("query", r#"{app="none"}"#)]).await), [""; 0]);
    let found = ask("series", &[("match[]", r#"{app="api"}"#)]).await;
    assert_eq!(found["data"].as_array().unwrap().len(), 1, "{found}");
    assert_eq!(found["data"][0]["pod"], "api-1");

    // Statistics while a query is typed.
    let form = json!({ "streams": 1, "chunks": "*number", "bytes": "*number", "entries": 3 });
    let found = ask("index/stats", &[shop]).await;
    assert!(has_form(&found, &form), "{found}");
    let found =
        fixture.loki_json("format_query", &[("query", r#"{app="shop"}|="x"|logfmt"#)]).await;
    assert_eq!(found, success(json!(r#"{app="shop"} |= "x" | logfmt"#)));

    // Lines, with labels by category, and their histogram.
    let logs = [shop, ("limit", "1000"), ("direction", "backward"), ("step", "1000ms")];
    let all = [&range[..], &logs].concat();
    let (_, body) = fixture.loki_with("query_range", &all, Some("categorize-labels")).await;
    let found: Value = serde_json::from_str(&body).unwrap();
    let line = |second: i64| {
        let metadata = json!({ "detected_level": "*text", "trace_id": format!("t{second}") });
        json!([nanoseconds(second), "*text", { "structuredMetadata": metadata }])
    };
    let values = json!([line(12), line(2), line(1)]);
    let result = json!([{ "stream": "*any", "values": values }]);
    let flags = json!(["categorize-labels"]);
    let form = success(json!({
        "resultType": "streams", "encodingFlags": flags, "result": result, "stats": "*any",
    }));
    let mut shown = found.clone();
    // Other metadata are fields that Loginson found itself.
    for value in shown["data"]["result"][0]["values"].as_array_mut().unwrap() {
        let metadata = value[2]["structuredMetadata"].as_object_mut().unwrap();
        metadata.retain(|name, _| name == "detected_level" || name == "trace_id");
    }
    assert!(has_form(&shown, &form), "{found}");
    let levels =
        "sum by (level, detected_level) (count_over_time({app=\"shop\"} | drop __error__[10s]))";
    let found = ask("query_range", &[("query", levels), ("step", "10s")]).await;
    assert_eq!(found["data"]["resultType"], "matrix");
    let total: i64 = found["data"]["result"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|one| one["values"].as_array().unwrap())
        .map(|point| point[1].as_str().unwrap().parse::<i64>().unwrap())
        .sum();
    assert_eq!(total, 3, "{found}");

    // Without categories, metadata are among the labels, so each line is a stream of its own.
    let found = ask("query_range", &logs).await;
    assert_eq!(found["data"]["result"].as_array().unwrap().len(), 3, "{found}");
    assert_eq!(found["data"]["result"][0]["stream"]["trace_id"], "t12");
    assert_eq!(found["data"]["encodingFlags"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_drilldown_asks() {
    let fixture = Fixture::with_shop().await;
    let (start, end) = (nanoseconds(0), nanoseconds(60));
    let range = [("start", &*start), ("end", &*end)];
    let ask = async |call: &str, more: &[(&str, &str)]| {
        fixture.loki_json(call, &[&range[..], more].concat()).await
    };
    let found = fixture.loki_json("drilldown-limits", &[]).await;
    let form = json!({ "limits": "*any", "pattern_ingester_enabled": true, "version": "*text" });
    assert!(has_form(&found, &form), "{found}");
    assert_eq!(found["limits"]["volume_enabled"], true);

    // The volume of each service, at once and over time.
    let by_app = [("query", r#"{app=~".+"}"#), ("limit", "100"), ("targetLabels", "app")];
    let found = ask("index/volume", &by_app).await;
    let one = |app: &str| json!({ "metric": { "app": app }, "value": ["*number", "*text"] });
    assert!(has_form(&found["data"]["result"], &json!([one("shop"), one("api")])), "{found}");
    let found = ask("index/volume_range", &[&by_app[..], &[("step", "30s")]].concat()).await;
    assert_eq!(found["data"]["resultType"], "matrix");
    assert_eq!(found["data"]["result"][0]["metric"], json!({ "app": "shop" }));

    // Labels and fields, with the parsers that they need.
    let found = ask("detected_labels", &[]).await;
    let labels = found["detectedLabels"].as_array().unwrap();
    for name in ["app", "pod"] {
        assert!(labels.contains(&json!({ "label": name, "cardinality": 2 })), "{found}");
    }
    let shop = ("query", r#"{app="shop"}"#);
    let found = ask("detected_fields", &[shop, ("limit", "1000"), ("line_limit", "1000")]).await;
    let fields = found["fields"].as_array().unwrap();
    let field = |label: &str, kind: &str, cardinality: usize, parsers: Value| json!({ "label": label, "type": kind, "cardinality": cardinality, "parsers": parsers });
    for expected in [
        field("took", "duration", 3, json!(["logfmt"])),
        field("size", "bytes", 1, json!(["logfmt"])),
        field("trace_id", "string", 3, Value::Null),
    ] {
        assert!(fields.contains(&expected), "{expected} in {found}");
    }
    let level = |one: &&Value| one["label"] == "detected_level";
    assert_eq!(fields.iter().find(level).unwrap()["type"], "string", "{found}");
    let api = ("query", r#"{app="api"}"#);
    let found = ask("detected_fields", &[api]).await;
    let fields = found["fields"].as_array().unwrap();
    for expected in [
        field("user_name", "string", 1, json!(["json"])),
        field("n", "float", 1, json!(["json"])),
        field("ok", "boolean", 1, json!(["json"])),
    ] {
        assert!(fields.contains(&expected), "{expected} in {found}");
    }
    assert_eq!(found["limit"], 1000);
    let found = ask("detected_field/took/values", &[shop]).await;
    assert_eq!(found, json!({ "values": ["5ms", "7ms", "900ms"], "limit": 1000 }));
    let found = ask("detected_field/trace_id/values", &[shop, ("limit", "1")]).await;
    assert_eq!(found, json!({ "values": ["t1"], "limit": 1 }));
    let found = ask("detected_field/none/values", &[shop]).await;
    assert_eq!(found, json!({ "values": [], "limit": 1000 }));

    // Patterns, with their lines per step.
    let found = ask("patterns", &[shop, ("step", "10s")]).await;
    let data = found["data"].as_array().unwrap();
    assert!(found["status"] == "success" && !data.is_empty(), "{found}");
    let mut samples: Vec<(i64, i64)> = Vec::new();
    for one in data {
        assert!(one["pattern"].as_str().unwrap().contains("<_>"), "{found}");
        let own: Vec<(i64, i64)> = serde_json::from_value(one["samples"].clone()).unwrap();
        samples.extend(own);
        // A pattern selects its lines.
        let query = format!("{{app=\"shop\"}} |> {}", one["pattern"]);
        let lines = ask("query_range", &[("query", &query)]).await;
        assert_ne!(lines["data"]["result"], json!([]), "{query}");
    }
    let of_step = |begin: i64| -> i64 {
        samples.iter().filter(|(at, _)| *at == NOON_S + begin).map(|(_, lines)| lines).sum()
    };
    assert_eq!((of_step(0), of_step(10), samples.len()), (2, 1, samples.len()), "{found}");
    let (status, _) = fixture.loki("patterns", &[shop, ("step", "0")]).await;
    assert_eq!(status, StatusCode::BAD_REQUEST);

    // The panels of one field.
    let query = r#"sum by (took) (count_over_time({app="shop"} | logfmt | took!="" [1m]))"#;
    let found = ask("query_range", &[("query", query), ("step", "60s")]).await;
    assert_eq!(found["data"]["result"].as_array().unwrap().len(), 3, "{found}");
    let query =
        r#"max_over_time({app="shop"} | logfmt | unwrap duration(took) | __error__="" [1m]) by ()"#;
    let found = ask("query_range", &[("query", query), ("step", "60s")]).await;
    assert_eq!(found["data"]["result"][0]["values"], json!([[NOON_S + 60, "0.9"]]));
}

#[tokio::test(flavor = "multi_thread")]
async fn levels_are_found_in_pushed_lines() {
    let fixture = Fixture::new(|_| {});
    fixture
        .push_streams(json!([{ "stream": { "job": "lvl" }, "values": [
            [nanoseconds(1), "level=error msg=\"x\""],
            [nanoseconds(2), "{\"level\":\"error\",\"msg\":\"x\"}"],
            [nanoseconds(3), "2023-06-06 04:48:11 ERROR something"],
            [nanoseconds(4), "nothing"],
        ] }]))
        .await;
    let at = (NOON_S + 60).to_string();
    let query = r#"sum by (detected_level) (count_over_time({job="lvl"}[1h]))"#;
    let found = fixture.loki_json("query", &[("query", query), ("time", &at)]).await;
    let one = |level: &str, lines: &str| json!({ "metric": { "detected_level": level }, "value": [NOON_S + 60, lines] });
    assert_eq!(found["data"]["result"], json!([one("error", "3"), one("unknown", "1")]));
}
