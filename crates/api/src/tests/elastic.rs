//! Elasticsearch's search API over HTTP. Among the requests are those of Grafana's Elasticsearch
//! data source, as its public tests have them: of Explore, of its query editor and of its log view.

use axum::http::Method;
use axum::http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use serde_json::{Value, json};

use super::*;

/// 2026-01-31T12:00:00Z, milliseconds.
const NOON_MS: i64 = 1_769_860_800_000;

impl Fixture {
    async fn elastic(&self, method: Method, path: &str, body: &str) -> (StatusCode, Value) {
        let request = Request::builder().method(method).uri(path).header("host", "localhost");
        let request =
            request.header(CONTENT_TYPE, "application/vnd.elasticsearch+json; compatible-with=8");
        let answer = self.answer(request.body(Body::from(body.to_owned()))).await;
        let status = answer.status();
        assert_eq!(answer.headers()["x-elastic-product"], "Elasticsearch", "{path}");
        let text = text(answer).await;
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    async fn search(&self, body: Value) -> Value {
        let (status, found) =
            self.elastic(Method::POST, "/elastic/_search", &body.to_string()).await;
        assert_eq!(status, StatusCode::OK, "{body}: {found}");
        found
    }

    /// Thirty lines of a shop, a second apart, by `_bulk`.
    async fn with_orders() -> Fixture {
        let fixture = Fixture::new(|_| {});
        let mut body = String::new();
        for n in 0..30 {
            let level = ["info", "warn", "error"][n % 3];
            let line = json!({
                "@timestamp": NOON_MS + n as i64 * 1_000,
                "message": format!("Order {n} of user{} done", n % 5),
                "level": level,
                "took": n * 10,
                "ok": n % 2 == 0,
                "user": { "name": format!("user{}", n % 5) },
            });
            body.push_str(&format!("{{\"create\":{{}}}}\n{line}\n"));
        }
        let (status, found) = fixture.elastic(Method::POST, "/elastic/orders/_bulk", &body).await;
        assert_eq!((status, &found["errors"]), (StatusCode::OK, &json!(false)), "{found}");
        fixture
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn documents_come_back_as_they_were_sent() {
    let fixture = Fixture::with_orders().await;
    let found = fixture.search(json!({"query": {"match": {"message": "order 7"}}, "size": 1, "sort": [{"took": "desc"}]})).await;
    // Newest first, and each word is enough.
    assert_eq!(found["hits"]["total"], json!({"value": 30, "relation": "eq"}));
    let both = json!({"query": {"match": {"message": {"query": "ORDER 7", "operator": "and"}}}});
    let found = fixture.search(both).await;
    let hit = &found["hits"]["hits"][0];
    let expected = json!({
        "@timestamp": NOON_MS + 7_000, "message": "Order 7 of user2 done", "level": "warn",
        "took": 70, "ok": false, "user": {"name": "user2"},
    });
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&hit["_source"][name], value, "{hit}");
    }
    assert_eq!(hit["_index"], "logs-json");
    // By its name.
    let id = hit["_id"].as_str().unwrap();
    let (status, one) =
        fixture.elastic(Method::GET, &format!("/elastic/logs-json/_doc/{id}"), "").await;
    assert_eq!((status, &one["_source"]), (StatusCode::OK, &hit["_source"]));
    let (status, none) = fixture.elastic(Method::GET, "/elastic/logs-json/_doc/nothing", "").await;
    assert_eq!((status, &none["found"]), (StatusCode::NOT_FOUND, &json!(false)));
    // Parts of an answer, and parameters in the address; at the root as well.
    let path = "/logs-json/_search?q=user.name:user3%20AND%20level:error&size=3&sort=took:asc&_source=took&filter_path=hits.hits._source";
    let (status, found) = fixture.elastic(Method::GET, path, "").await;
    assert_eq!(status, StatusCode::OK, "{found}");
    assert_eq!(
        found,
        json!({"hits": {"hits": [{"_source": {"took": 80}}, {"_source": {"took": 230}}]}})
    );
    let (_, found) = fixture
        .elastic(
            Method::GET,
            "/elastic/_count",
            &json!({"query": {"range": {"took": {"lt": 100}}}}).to_string(),
        )
        .await;
    assert_eq!(found["count"], 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn grafana_asks() {
    let fixture = Fixture::with_orders().await;
    let range = json!({"range": {"@timestamp": {"format": "epoch_millis", "gte": NOON_MS, "lte": NOON_MS + 29_999}}});
    let head = json!({"ignore_unavailable": true, "index": "logs-*"});
    let query = json!({"bool": {"filter": [range, {"query_string": {"analyze_wildcard": true, "query": "level:(error OR warn)"}}]}});
    let metrics = json!({
        "aggs": {"3": {
            "terms": {"field": "level.keyword", "min_doc_count": 1, "order": {"_key": "desc"}, "size": "10"},
            "aggs": {"2": {
                "date_histogram": {
                    "field": "@timestamp", "fixed_interval": "10s", "min_doc_count": "0", "format": "epoch_millis",
                    "extended_bounds": {"min": NOON_MS, "max": NOON_MS + 29_999}, "time_zone": "utc",
                },
                "aggs": {
                    "1": {"avg": {"field": "took"}},
                    "4": {"percentiles": {"field": "took", "percents": ["50", "95"]}},
                    "5": {"extended_stats": {"field": "took"}},
                    "6": {"cardinality": {"field": "user.name"}},
                },
            }},
        }},
        "query": query, "size": 0,
    });
    let logs = |after: Option<&Value>| {
        let mut body = json!({
            "docvalue_fields": ["@timestamp"],
            "fields": [{"field": "@timestamp", "format": "strict_date_optional_time_nanos"}],
            "highlight": {"fields": {"*": {}}, "fragment_size": 2147483647, "post_tags": ["@/HIGHLIGHT@"], "pre_tags": ["@HIGHLIGHT@"]},
            "query": {"bool": {"filter": [range, {"query_string": {"analyze_wildcard": true, "query": "order"}}]}},
            "script_fields": {}, "size": 7,
            "sort": {"@timestamp": {"order": "desc", "unmapped_type": "boolean"}, "_doc": {"order": "desc"}},
        });
        if let Some(after) = after {
            body["search_after"] = after.clone();
        }
        body
    };
    let histogram = json!({
        "aggs": {"1": {"date_histogram": {"field": "@timestamp", "fixed_interval": "15s", "format": "epoch_millis", "min_doc_count": 0, "extended_bounds": {"min": NOON_MS, "max": NOON_MS + 29_999}}}},
        "query": {"bool": {"filter": {"range": {"@timestamp": {"format": "epoch_millis", "gte": NOON_MS, "lte": NOON_MS + 29_999}}}}},
        "size": 0,
    });
    let wrong = json!({"query": {"query_string": {"query": "level:("}}, "size": 0});
    let mut body = String::new();
    for search in [&metrics, &logs(None), &histogram, &wrong] {
        body.push_str(&format!("{head}\n{search}\n"));
    }
    let path = "/elastic/_msearch?max_concurrent_shard_requests=5";
    let (status, found) = fixture.elastic(Method::POST, path, &body).await;
    assert_eq!(status, StatusCode::OK, "{found}");
    let answers = found["responses"].as_array().unwrap();
    assert_eq!(answers.len(), 4);
    assert_eq!(answers[0]["status"], 200, "{found}");
    let levels = answers[0]["aggregations"]["3"]["buckets"].as_array().unwrap();
    let keys: Vec<&Value> = levels.iter().map(|bucket| &bucket["key"]).collect();
    assert_eq!(keys, ["warn", "error"]);
    for level in levels {
        let steps = level["2"]["buckets"].as_array().unwrap();
        assert_eq!(steps.len(), 3, "{level}");
        let first = if level["key"] == "warn" { 1 } else { 2 };
        for (index, step) in steps.iter().enumerate() {
            let begin = index * 10;
            let took: Vec<f64> =
                (begin..begin + 10).filter(|n| n % 3 == first).map(|n| (n * 10) as f64).collect();
            let mean = took.iter().sum::<f64>() / took.len() as f64;
            assert_eq!(step["key"], NOON_MS + begin as i64 * 1_000);
            assert_eq!(step["doc_count"], took.len(), "{step}");
            assert!((step["1"]["value"].as_f64().unwrap() - mean).abs() < 1e-9, "{step}");
            assert_eq!(step["5"]["count"], took.len());
            assert!(step["4"]["values"]["95.0"].is_number(), "{step}");
            assert!(step["6"]["value"].as_u64().unwrap() <= 5);
        }
    }
    let hits = answers[1]["hits"]["hits"].as_array().unwrap();
    assert_eq!(hits.len(), 7);
    assert_eq!(hits[0]["fields"]["@timestamp"][0], "2026-01-31T12:00:29.000000000Z");
    assert_eq!(hits[0]["highlight"]["message"][0], "@HIGHLIGHT@Order@/HIGHLIGHT@ 29 of user4 done");
    let steps = answers[2]["aggregations"]["1"]["buckets"].as_array().unwrap();
    let counts: Vec<&Value> = steps.iter().map(|step| &step["doc_count"]).collect();
    assert_eq!(counts, [15, 15]);
    assert_eq!(
        (&answers[3]["status"], &answers[3]["error"]["type"]),
        (&json!(400), &json!("query_shard_exception"))
    );
    // More lines, behind the last one.
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let found = fixture.search(logs(after.as_ref())).await;
        let hits = found["hits"]["hits"].as_array().unwrap();
        let Some(last) = hits.last() else { break };
        seen.extend(hits.iter().map(|hit| hit["_source"]["took"].as_i64().unwrap()));
        after = Some(last["sort"].clone());
    }
    assert_eq!(seen, (0..30).rev().map(|n| n * 10).collect::<Vec<i64>>());
    // Its health check, and the names of fields.
    let (status, found) = fixture.elastic(Method::GET, "/elastic/", "").await;
    assert_eq!((status, &found["version"]["number"]), (StatusCode::OK, &json!("8.17.0")));
    let (status, found) = fixture.elastic(Method::GET, "/elastic/logs-*/_mapping", "").await;
    assert_eq!(status, StatusCode::OK);
    let properties = &found["logs-json"]["mappings"]["properties"];
    for (path, kind) in [
        ("/@timestamp", "date"),
        ("/took", "long"),
        ("/ok", "boolean"),
        ("/user/properties/name", "keyword"),
        ("/message", "text"),
    ] {
        assert_eq!(
            properties.pointer(&format!("{path}/type")),
            Some(&json!(kind)),
            "{path} {properties}"
        );
    }
    let (_, found) =
        fixture.elastic(Method::GET, "/elastic/_field_caps?fields=took,user.*", "").await;
    let names: Vec<&String> = found["fields"].as_object().unwrap().keys().collect();
    assert_eq!(names, ["took", "user.name"]);
    let (_, found) = fixture.elastic(Method::GET, "/elastic/_cat/indices?format=json", "").await;
    assert_eq!((&found[0]["index"], &found[0]["docs.count"]), (&json!("logs-json"), &json!("30")));
    let (_, found) = fixture.elastic(Method::GET, "/elastic/_resolve/index/logs*", "").await;
    assert_eq!(found["indices"][0]["name"], "logs-json");
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_with_a_field_of_the_arrival_time_s_name_are_in_scrolls() {
    let fixture = Fixture::with_orders().await;
    let send = async |own: &str| {
        let line = json!({"@timestamp": NOON_MS, "message": "Own", "_received": own, "own": "yes"});
        let body = format!("{{\"create\":{{}}}}\n{line}\n");
        fixture.elastic(Method::POST, "/elastic/_bulk", &body).await
    };
    for own in ["x", "2999-01-01T00:00:00Z", "1999-01-01T00:00:00Z"] {
        send(own).await;
    }
    let (_, pit) = fixture.elastic(Method::POST, "/elastic/logs-*/_pit?keep_alive=1m", "").await;
    let first = json!({"size": 2, "query": {"term": {"own": "yes"}}, "sort": ["_doc"]});
    let path = "/elastic/logs-json/_search?scroll=1m";
    let (status, found) = fixture.elastic(Method::POST, path, &first.to_string()).await;
    assert_eq!(status, StatusCode::OK, "{found}");
    assert_eq!(found["hits"]["total"]["value"], 3, "{found}");
    // A line that arrives later is not seen, even if it says that it arrived before.
    send("1999-01-01T00:00:00Z").await;
    let body = json!({"scroll": "1m", "scroll_id": found["_scroll_id"]});
    let (_, next) =
        fixture.elastic(Method::POST, "/elastic/_search/scroll", &body.to_string()).await;
    assert_eq!(next["hits"]["hits"].as_array().unwrap().len(), 1, "{next}");
    let body = json!({"size": 9, "pit": {"id": pit["id"]}, "query": {"term": {"own": "yes"}}});
    assert_eq!(fixture.search(body).await["hits"]["total"]["value"], 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn scrolls_and_points_in_time_see_what_had_arrived() {
    let fixture = Fixture::with_orders().await;
    let (_, pit) = fixture.elastic(Method::POST, "/elastic/logs-*/_pit?keep_alive=1m", "").await;
    let pit = pit["id"].clone();
    let first = json!({"size": 8, "query": {"match_all": {}}, "sort": ["_doc"]});
    let (status, mut found) = fixture
        .elastic(Method::POST, "/elastic/logs-json/_search?scroll=1m", &first.to_string())
        .await;
    assert_eq!(status, StatusCode::OK, "{found}");
    assert_eq!(found["hits"]["total"]["value"], 30);
    // A line that arrives later is not seen.
    let late = json!({"@timestamp": NOON_MS + 500, "message": "Order late", "took": 1});
    let body = format!("{{\"create\":{{}}}}\n{late}\n");
    fixture.elastic(Method::POST, "/elastic/_bulk", &body).await;
    let mut seen = Vec::new();
    loop {
        let hits = found["hits"]["hits"].as_array().unwrap();
        if hits.is_empty() {
            break;
        }
        seen.extend(hits.iter().map(|hit| hit["_source"]["took"].as_i64().unwrap()));
        let body = json!({"scroll": "1m", "scroll_id": found["_scroll_id"]});
        let (status, next) =
            fixture.elastic(Method::POST, "/elastic/_search/scroll", &body.to_string()).await;
        assert_eq!(status, StatusCode::OK, "{next}");
        found = next;
    }
    assert_eq!(seen, (0..30).map(|n| n * 10).collect::<Vec<i64>>());
    let body = json!({"scroll_id": [found["_scroll_id"]]});
    let (_, freed) =
        fixture.elastic(Method::DELETE, "/elastic/_search/scroll", &body.to_string()).await;
    assert_eq!(freed, json!({"succeeded": true, "num_freed": 1}));
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let mut body =
            json!({"size": 11, "pit": {"id": pit, "keep_alive": "1m"}, "sort": [{"took": "desc"}]});
        if let Some(after) = after {
            body["search_after"] = after;
        }
        let found = fixture.search(body).await;
        assert_eq!(found["pit_id"], pit);
        let hits = found["hits"]["hits"].as_array().unwrap();
        let Some(last) = hits.last() else { break };
        after = Some(last["sort"].clone());
        seen.extend(hits.iter().map(|hit| hit["_source"]["took"].as_i64().unwrap()));
    }
    assert_eq!(seen, (0..30).rev().map(|n| n * 10).collect::<Vec<i64>>());
    let found = fixture.search(json!({"size": 0, "track_total_hits": true})).await;
    assert_eq!(found["hits"]["total"]["value"], 31);
    for (method, path, body) in [
        (Method::POST, "/elastic/_search/scroll", json!({"scroll_id": "x"})),
        (Method::POST, "/elastic/_search", json!({"pit": {"id": "x"}})),
    ] {
        let (status, found) = fixture.elastic(method, path, &body.to_string()).await;
        assert_eq!(status, StatusCode::NOT_FOUND, "{found}");
        assert_eq!(found["error"]["type"], "search_context_missing_exception");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn searches_may_be_fetched_later() {
    let fixture = Fixture::with_orders().await;
    let body = json!({"size": 2, "query": {"term": {"level": "error"}}}).to_string();
    let path = "/elastic/_async_search?wait_for_completion_timeout=5m&keep_on_completion=true";
    let (status, found) = fixture.elastic(Method::POST, path, &body).await;
    assert_eq!(status, StatusCode::OK, "{found}");
    assert_eq!(
        (&found["is_running"], &found["response"]["hits"]["total"]["value"]),
        (&json!(false), &json!(10))
    );
    let id = found["id"].as_str().unwrap();
    let path = format!("/elastic/_async_search/{id}");
    let (_, again) = fixture.elastic(Method::GET, &path, "").await;
    assert_eq!(again["response"], found["response"]);
    let (_, status) =
        fixture.elastic(Method::GET, &format!("/elastic/_async_search/status/{id}"), "").await;
    assert_eq!(status["completion_status"], 200);
    let (status, _) = fixture.elastic(Method::DELETE, &path, "").await;
    assert_eq!(status, StatusCode::OK);
    let (status, gone) = fixture.elastic(Method::GET, &path, "").await;
    assert_eq!(
        (status, &gone["error"]["type"]),
        (StatusCode::NOT_FOUND, &json!("resource_not_found_exception"))
    );
    // One that does not wait is ended and fetched.
    let path = "/elastic/_async_search?wait_for_completion_timeout=0ms&keep_on_completion=true";
    let (_, found) = fixture.elastic(Method::POST, path, &body).await;
    let path = format!(
        "/elastic/_async_search/{}?wait_for_completion_timeout=5m",
        found["id"].as_str().unwrap()
    );
    let (_, found) = fixture.elastic(Method::GET, &path, "").await;
    assert_eq!(found["response"]["hits"]["total"]["value"], 10, "{found}");
    // They are bounded.
    let path = "/elastic/_async_search?keep_on_completion=true&wait_for_completion_timeout=5m";
    let mut last = StatusCode::OK;
    for _ in 0..51 {
        last = fixture.elastic(Method::POST, path, &body).await.0;
    }
    assert_eq!(last, StatusCode::TOO_MANY_REQUESTS);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_is_told_in_its_form() {
    let fixture = Fixture::with_orders().await;
    for (path, body, status, kind, part) in [
        ("/elastic/_search", "{", 400, "parsing_exception", "not JSON"),
        ("/elastic/_search", r#"{"querry":{}}"#, 400, "parsing_exception", "[querry]"),
        ("/elastic/_search?sizze=1", "", 400, "illegal_argument_exception", "[sizze]"),
        ("/elastic/none/_search", "", 404, "index_not_found_exception", "logs-json"),
        ("/elastic/_search?timeout=soon", "", 400, "illegal_argument_exception", "[soon]"),
        ("/elastic/_search?format=yaml", "", 400, "illegal_argument_exception", "[format]"),
        ("/elastic/_search?scroll=1m&size=0", "", 400, "illegal_argument_exception", "[size]"),
        ("/elastic/_async_search?scroll=1m", "", 400, "illegal_argument_exception", "[scroll]"),
        ("/elastic/_msearch", "{}", 400, "parsing_exception", "[_msearch]"),
        ("/elastic/_count", r#"{"aggs":{}}"#, 400, "parsing_exception", "[aggs]"),
        (
            "/elastic/_search?extra_filters=(",
            "",
            400,
            "illegal_argument_exception",
            "extra_filters",
        ),
    ] {
        let (found, answer) = fixture.elastic(Method::POST, path, body).await;
        assert_eq!(found.as_u16(), status, "{path} {body}: {answer}");
        assert_eq!(answer["error"]["type"], kind, "{path} {body}: {answer}");
        assert!(answer["error"]["reason"].as_str().unwrap().contains(part), "{path}: {answer}");
        assert_eq!(answer["status"], status);
    }
    let (status, found) =
        fixture.elastic(Method::POST, "/elastic/none/_search?ignore_unavailable=true", "").await;
    assert_eq!((status, &found["hits"]["total"]["value"]), (StatusCode::OK, &json!(0)));
    let (_, found) = fixture
        .elastic(Method::POST, "/elastic/_validate/query", r#"{"query":{"fuzzy":{}}}"#)
        .await;
    assert_eq!(found["valid"], false);
    // More lines than the caller may see are not seen.
    let (_, found) =
        fixture.elastic(Method::GET, "/elastic/_count?extra_filters=level:error", "").await;
    assert_eq!(found["count"], 10);
    // A time limit of its own ends a search without an answer, and says so.
    let found = fixture.search(json!({"timeout": "0ms"})).await;
    assert_eq!((&found["timed_out"], &found["hits"]["hits"]), (&json!(true), &json!([])));
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_may_be_compressed() {
    let fixture = Fixture::with_orders().await;
    let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    packed.write_all(br#"{"query":{"term":{"level":"error"}}}"#).unwrap();
    let request = |body: Vec<u8>| {
        Request::post("/elastic/_count")
            .header("host", "localhost")
            .header(CONTENT_ENCODING, "gzip")
            .body(Body::from(body))
    };
    let answer = fixture.answer(request(packed.finish().unwrap())).await;
    let found: Value = serde_json::from_str(&text(answer).await).unwrap();
    assert_eq!(found["count"], 10, "{found}");
    let mut bomb = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    bomb.write_all(&vec![b' '; 8 << 20]).unwrap();
    let answer = fixture.answer(request(bomb.finish().unwrap())).await;
    assert_eq!(answer.status(), StatusCode::PAYLOAD_TOO_LARGE);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_in_lucenes_syntax_is_translated_and_not_run() {
    let fixture = Fixture::new(|_| {});
    let translated = async |query: &str| {
        let answer = fixture.get(&format!("/api/v1/lucene?query={query}")).await;
        let status = answer.status();
        (status, serde_json::from_str::<Value>(&text(answer).await).unwrap())
    };
    let (status, found) = translated("level:error%20AND%20host:web*").await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(found, json!({ "logsql": "level:i(\"error\") host:=\"web\"*" }));
    let (status, refused) = translated("level:error%20AND%20(").await;
    assert_eq!((status, &refused["position"]), (StatusCode::BAD_REQUEST, &json!(17)));
    assert_eq!(refused["query"], "level:error AND (");
    assert_eq!(translated("a&limit=1").await.0, StatusCode::BAD_REQUEST);
    let queue = text(fixture.get("/api/v1/queries").await).await;
    assert!(queue.contains("\"queries\":[]"), "{queue}");
}
