//! Answers beside a slow model: all records are looked at again for each bucket.

use std::collections::BTreeMap;

use query::{Context, Filter};
use serde_json::{Value, json};

use crate::rows::Runner;
use crate::search::{self, Search};
use crate::testing::{Memory, Record, batch, record};

/// 2026-03-28T00:00:00Z, the day before clocks change in Berlin.
const BEGIN_NS: i64 = 1_774_656_000_000_000_000;
const HOUR_NS: i64 = 3_600_000_000_000;

/// Records over three days.
fn records() -> Vec<Record> {
    let mut seed = 7u64;
    let mut random = |below: u64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    let one = |_| {
        let time_ns = BEGIN_NS + random(72 * 60) as i64 * 60_000_000_000;
        let host = format!("web{}", random(7));
        let status = ["200", "404", "500"][random(3) as usize];
        let took = random(1_000).to_string();
        let message = format!("Request {} of {host} done", random(50));
        let mut fields = vec![("_msg", message.as_str()), ("host", host.as_str())];
        if random(10) > 0 {
            fields.push(("status", status));
        }
        if random(10) > 1 {
            fields.push(("took", took.as_str()));
        }
        record(time_ns, &fields)
    };
    (0..400).map(one).collect()
}

fn source(records: &[Record]) -> Memory {
    Memory(records.chunks(90).enumerate().map(|(n, part)| batch(n as u64 + 1, part)).collect())
}

fn answer(body: &Value) -> Value {
    answer_of(&records(), body)
}

fn answer_of(records: &[Record], body: &Value) -> Value {
    let source = source(records);
    let context = Context::default();
    let search = Search::parse(body, BEGIN_NS + 72 * HOUR_NS).unwrap();
    let mut runner = Runner::new(&source, &context);
    let answer = search::run(&search, &mut runner, &Filter::All, false);
    Value::Object(answer.unwrap_or_else(|error| panic!("{body}: {error}")).parts)
}

fn get<'r>(record: &'r Record, name: &str) -> Option<&'r str> {
    record.fields.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
}

fn took(records: &[&Record]) -> Vec<f64> {
    records.iter().filter_map(|record| get(record, "took")?.parse().ok()).collect()
}

fn near(found: &Value, expected: f64) -> bool {
    found.as_f64().is_some_and(|found| (found - expected).abs() < 1e-6 * expected.abs().max(1.0))
}

#[test]
fn terms_with_metrics_inside_of_each_other() {
    let records = records();
    let body = json!({"size": 0, "aggs": {"hosts": {
        "terms": {"field": "host", "size": 4, "order": {"mean": "desc"}},
        "aggs": {
            "mean": {"avg": {"field": "took"}},
            "statuses": {
                "terms": {"field": "status"},
                "aggs": {"numbers": {"stats": {"field": "took"}}},
            },
        },
    }}});
    let found = answer(&body);
    let mut by_host: BTreeMap<&str, Vec<&Record>> = BTreeMap::new();
    for record in &records {
        by_host.entry(get(record, "host").unwrap()).or_default().push(record);
    }
    let mean = |records: &[&Record]| {
        let numbers = took(records);
        numbers.iter().sum::<f64>() / numbers.len() as f64
    };
    let mut expected: Vec<(&str, Vec<&Record>)> = by_host.into_iter().collect();
    expected.sort_by(|a, b| mean(&b.1).total_cmp(&mean(&a.1)));
    let hosts = &found["aggregations"]["hosts"];
    let buckets = hosts["buckets"].as_array().unwrap();
    assert_eq!(buckets.len(), 4);
    let rest: usize = expected[4..].iter().map(|(_, records)| records.len()).sum();
    assert_eq!(hosts["sum_other_doc_count"], rest);
    for (bucket, (host, records)) in buckets.iter().zip(&expected) {
        assert_eq!((&bucket["key"], &bucket["doc_count"]), (&json!(host), &json!(records.len())));
        assert!(near(&bucket["mean"]["value"], mean(records)), "{bucket}");
        for inner in bucket["statuses"]["buckets"].as_array().unwrap() {
            let status = inner["key"].as_i64().expect("all are numbers").to_string();
            let own: Vec<&Record> =
                records.iter().copied().filter(|r| get(r, "status") == Some(&status)).collect();
            assert_eq!(inner["doc_count"], own.len());
            let numbers = took(&own);
            assert_eq!(inner["numbers"]["count"], numbers.len());
            assert!(near(&inner["numbers"]["sum"], numbers.iter().sum()), "{inner}");
            let max = numbers.iter().copied().fold(f64::MIN, f64::max);
            assert!(near(&inner["numbers"]["max"], max), "{inner}");
        }
    }
}

#[test]
fn days_of_a_zone_whose_clocks_change() {
    let records = records();
    let body = json!({"size": 0, "aggs": {"days": {
        "date_histogram": {"field": "@timestamp", "calendar_interval": "day", "time_zone": "Europe/Berlin"},
        "aggs": {"hosts": {"terms": {"field": "host", "size": 100}}},
    }}});
    let found = answer(&body);
    let buckets = found["aggregations"]["days"]["buckets"].as_array().unwrap();
    let names: Vec<&str> = buckets.iter().map(|b| b["key_as_string"].as_str().unwrap()).collect();
    let expected = [
        "2026-03-28T00:00:00.000+01:00",
        "2026-03-29T00:00:00.000+01:00",
        "2026-03-30T00:00:00.000+02:00",
        "2026-03-31T00:00:00.000+02:00",
    ];
    assert_eq!(names, expected);
    let begins = [-1, 23, 46, 70, 94].map(|hour| BEGIN_NS + hour * HOUR_NS);
    for (bucket, range) in buckets.iter().zip(begins.windows(2)) {
        let within = |record: &&Record| (range[0]..range[1]).contains(&record.time_ns);
        let own: Vec<&Record> = records.iter().filter(within).collect();
        assert_eq!(bucket["doc_count"], own.len(), "{bucket}");
        for inner in bucket["hosts"]["buckets"].as_array().unwrap() {
            let count = own.iter().filter(|r| get(r, "host") == inner["key"].as_str()).count();
            assert_eq!(inner["doc_count"], count, "{bucket}");
        }
    }
}

#[test]
fn histograms_have_empty_buckets() {
    let body = json!({
        "size": 0,
        "query": {"term": {"host": "web1"}},
        "aggs": {
            "hours": {
                "date_histogram": {
                    "field": "@timestamp", "fixed_interval": "6h", "format": "epoch_millis",
                    "extended_bounds": {"min": BEGIN_NS / 1_000_000, "max": BEGIN_NS / 1_000_000 + 4 * 86_400_000 - 1},
                },
                "aggs": {"mean": {"avg": {"field": "took"}}},
            },
            "took": {"histogram": {"field": "took", "interval": 10}},
            "quarters": {"date_histogram": {"field": "@timestamp", "calendar_interval": "1q"}},
        },
    });
    let found = answer(&body);
    let own: Vec<Record> =
        records().into_iter().filter(|record| get(record, "host") == Some("web1")).collect();
    let hours = found["aggregations"]["hours"]["buckets"].as_array().unwrap();
    assert_eq!(hours.len(), 16);
    for (index, bucket) in hours.iter().enumerate() {
        let start_ns = BEGIN_NS + index as i64 * 6 * HOUR_NS;
        let within =
            |record: &&Record| (start_ns..start_ns + 6 * HOUR_NS).contains(&record.time_ns);
        assert_eq!(bucket["doc_count"], own.iter().filter(within).count(), "{bucket}");
        assert_eq!(bucket["key"], start_ns / 1_000_000);
        assert_eq!(bucket["key_as_string"], (start_ns / 1_000_000).to_string());
        assert_eq!(bucket["doc_count"] == 0, bucket["mean"]["value"].is_null(), "{bucket}");
    }
    let steps = found["aggregations"]["took"]["buckets"].as_array().unwrap();
    let mut last = None;
    for bucket in steps {
        let key = bucket["key"].as_f64().unwrap();
        assert!(last.is_none_or(|last| key == last + 10.0), "{bucket}");
        last = Some(key);
        let within = |record: &&Record| {
            let took = get(record, "took").and_then(|took| took.parse::<f64>().ok());
            took.is_some_and(|took| (key..key + 10.0).contains(&took))
        };
        assert_eq!(bucket["doc_count"], own.iter().filter(within).count(), "{bucket}");
    }
    let quarters = found["aggregations"]["quarters"]["buckets"].as_array().unwrap();
    assert_eq!(quarters[0]["doc_count"], own.len());
    assert_eq!(quarters[0]["key_as_string"], "2026-01-01T00:00:00.000Z");
}

#[test]
fn filters_ranges_and_what_is_missing() {
    let body = json!({"size": 0, "aggs": {
        "parts": {
            "filters": {"filters": {"ok": {"term": {"status": 200}}, "bad": {"term": {"status": 500}}}, "other_bucket_key": "rest"},
            "aggs": {"hosts": {"cardinality": {"field": "host"}}},
        },
        "took": {"range": {"field": "took", "ranges": [{"to": 100}, {"from": 100, "to": 500}, {"from": 500, "key": "slow"}]}},
        "days": {"date_range": {"field": "@timestamp", "format": "yyyy-MM-dd", "ranges": [{"from": "now-3d/d", "to": "now-2d/d"}]}},
        "none": {"missing": {"field": "status"}},
        "all": {"global": {}, "aggs": {"lines": {"value_count": {"field": "host"}}}},
        "one": {"filter": {"match": {"message": "request"}}, "aggs": {"p": {"percentiles": {"field": "took", "percents": [50], "keyed": false}}}},
    }});
    let found = answer(&body);
    let found = &found["aggregations"];
    let records = records();
    let count = |test: &dyn Fn(&Record) -> bool| records.iter().filter(|r| test(r)).count();
    let of = |status: &'static str| count(&|record| get(record, "status") == Some(status));
    let parts = &found["parts"]["buckets"];
    assert_eq!(parts["ok"]["doc_count"], of("200"));
    assert_eq!(parts["bad"]["doc_count"], of("500"));
    assert_eq!(parts["rest"]["doc_count"], records.len() - of("200") - of("500"));
    assert_eq!(parts["ok"]["hosts"]["value"], 7);
    let number = |record: &Record| get(record, "took").and_then(|took| took.parse::<f64>().ok());
    let between = |low: f64, high: f64| {
        count(&|record| number(record).is_some_and(|took| took >= low && took < high))
    };
    let took = &found["took"]["buckets"];
    assert_eq!(
        (&took[0]["key"], &took[0]["doc_count"]),
        (&json!("*-100.0"), &json!(between(0.0, 100.0)))
    );
    assert_eq!((&took[1]["key"], &took[1]["from"]), (&json!("100.0-500.0"), &json!(100.0)));
    assert_eq!(
        (&took[2]["key"], &took[2]["doc_count"]),
        (&json!("slow"), &json!(between(500.0, 1e9)))
    );
    let day = &found["days"]["buckets"][0];
    assert_eq!(day["key"], "2026-03-28-2026-03-29");
    let first_day = |record: &Record| record.time_ns < BEGIN_NS + 24 * HOUR_NS;
    assert_eq!(day["doc_count"], count(&first_day));
    assert_eq!(found["none"]["doc_count"], count(&|record| get(record, "status").is_none()));
    assert_eq!(found["all"]["lines"]["value"], records.len());
    assert_eq!(found["one"]["doc_count"], records.len());
    assert!(found["one"]["p"]["values"][0]["value"].is_number());
}

#[test]
fn a_composite_is_read_in_pages() {
    let mut after = Value::Null;
    let mut seen = Vec::new();
    loop {
        let mut composite = json!({"size": 4, "sources": [
            {"host": {"terms": {"field": "host", "order": "desc"}}},
            {"day": {"date_histogram": {"field": "@timestamp", "calendar_interval": "1d"}}},
        ]});
        if !after.is_null() {
            composite["after"] = after;
        }
        let body = json!({"size": 0, "aggs": {"c": {"composite": composite, "aggs": {"m": {"max": {"field": "took"}}}}}});
        let found = answer(&body);
        let found = &found["aggregations"]["c"];
        for bucket in found["buckets"].as_array().unwrap() {
            assert!(bucket["m"]["value"].is_number(), "{bucket}");
            seen.push((
                bucket["key"]["host"].clone(),
                bucket["key"]["day"].clone(),
                bucket["doc_count"].clone(),
            ));
        }
        after = found["after_key"].clone();
        if after.is_null() {
            break;
        }
    }
    let mut expected: BTreeMap<(&str, i64), usize> = BTreeMap::new();
    let records = records();
    for record in &records {
        let day_ms = record.time_ns / (24 * HOUR_NS) * 86_400_000;
        *expected.entry((get(record, "host").unwrap(), day_ms)).or_default() += 1;
    }
    let mut expected: Vec<_> = expected.into_iter().collect();
    expected.sort_by(|((a, a_day), _), ((b, b_day), _)| b.cmp(a).then(a_day.cmp(b_day)));
    let expected: Vec<_> = expected
        .into_iter()
        .map(|((host, day), count)| (json!(host), json!(day), json!(count)))
        .collect();
    assert_eq!(seen, expected);
}

#[test]
fn top_hits_are_those_of_their_bucket() {
    let body = json!({"size": 0, "aggs": {"hosts": {
        "terms": {"field": "host", "size": 2, "order": {"_key": "asc"}},
        "aggs": {"last": {"top_hits": {"size": 2, "sort": [{"@timestamp": "desc"}], "_source": ["host"]}}},
    }}});
    let found = answer(&body);
    for bucket in found["aggregations"]["hosts"]["buckets"].as_array().unwrap() {
        let hits = &bucket["last"]["hits"];
        assert_eq!(hits["total"]["value"], bucket["doc_count"]);
        let hits = hits["hits"].as_array().unwrap();
        assert_eq!(hits.len(), 2);
        assert!(
            hits.iter().all(|hit| hit["_source"] == json!({"host": bucket["key"]})),
            "{bucket}"
        );
    }
}

#[test]
fn top_hits_of_buckets_without_rows_are_none() {
    let body = json!({"size": 0, "query": {"term": {"host": "web1"}}, "aggs": {"hours": {
        "date_histogram": {"field": "@timestamp", "fixed_interval": "1h"},
        "aggs": {"last": {"top_hits": {"size": 1}}},
    }}});
    let found = answer(&body);
    let buckets = found["aggregations"]["hours"]["buckets"].as_array().unwrap();
    assert!(buckets.iter().any(|bucket| bucket["doc_count"] == 0));
    for bucket in buckets {
        let hits = &bucket["last"]["hits"];
        assert_eq!(hits["total"]["value"], bucket["doc_count"], "{bucket}");
        let count = hits["hits"].as_array().unwrap().len();
        assert_eq!(count, usize::from(bucket["doc_count"] != 0), "{bucket}");
    }
    // Each quarter is a query of its own, whose only bucket has no key.
    let body = json!({"size": 0, "aggs": {"quarters": {
        "date_histogram": {
            "field": "@timestamp", "calendar_interval": "quarter",
            "extended_bounds": {"min": "2026-01-01", "max": "2026-06-30"},
        },
        "aggs": {"last": {"top_hits": {"size": 1}}},
    }}});
    let found = answer(&body);
    let buckets = found["aggregations"]["quarters"]["buckets"].as_array().unwrap();
    let counts: Vec<&Value> =
        buckets.iter().map(|bucket| &bucket["last"]["hits"]["total"]["value"]).collect();
    assert_eq!(counts, [&json!(400), &json!(0)]);
}

#[test]
fn a_day_behind_one_without_midnight_has_its_own_lines() {
    // In Cairo clocks go from 2026-04-23T24:00 to 01:00.
    let begin_ns = 1_776_902_400_000_000_000;
    let records: Vec<Record> =
        (0..72).map(|hour| record(begin_ns + hour * HOUR_NS, &[("_msg", "x")])).collect();
    let body = json!({"size": 0, "aggs": {"days": {
        "date_histogram": {"field": "@timestamp", "calendar_interval": "day", "time_zone": "Africa/Cairo"},
    }}});
    let found = answer_of(&records, &body);
    let buckets = found["aggregations"]["days"]["buckets"].as_array().unwrap();
    let days: Vec<(&str, u64)> = buckets
        .iter()
        .map(|b| (b["key_as_string"].as_str().unwrap(), b["doc_count"].as_u64().unwrap()))
        .collect();
    let expected = [
        ("2026-04-23T00:00:00.000+02:00", 22),
        ("2026-04-24T01:00:00.000+03:00", 23),
        ("2026-04-25T00:00:00.000+03:00", 24),
        ("2026-04-26T00:00:00.000+03:00", 3),
    ];
    assert_eq!(days, expected);
}

#[test]
fn keys_of_indices_are_their_names() {
    let records: Vec<Record> = ["json", "syslog", "json"]
        .into_iter()
        .map(|kind| record(BEGIN_NS, &[("_msg", "x"), ("_type", kind)]))
        .collect();
    let body = json!({"size": 0, "aggs": {
        "terms": {
            "terms": {"field": "_index"},
            "aggs": {"lines": {"value_count": {"field": "message"}}},
        },
        "pages": {"composite": {"sources": [{"index": {"terms": {"field": "_index"}}}]}},
        "types": {"terms": {"field": "_type"}},
    }});
    let found = answer_of(&records, &body);
    let terms = &found["aggregations"]["terms"]["buckets"];
    let of = |bucket: &Value| (bucket["key"].clone(), bucket["lines"]["value"].clone());
    assert_eq!(of(&terms[0]), (json!("logs-json"), json!(2)));
    assert_eq!(of(&terms[1]), (json!("logs-syslog"), json!(1)));
    let pages = &found["aggregations"]["pages"];
    assert_eq!(pages["buckets"][0]["key"], json!({"index": "logs-json"}));
    assert_eq!(pages["after_key"], json!({"index": "logs-syslog"}));
    assert_eq!(found["aggregations"]["types"]["buckets"][0]["key"], "json");
    for (query, expected) in [
        (json!({"wildcard": {"_index": "logs-*"}}), 3),
        (json!({"wildcard": {"_index": "*-json"}}), 2),
        (json!({"prefix": {"_index": "logs-s"}}), 1),
        (json!({"regexp": {"_index": "logs-(json|other)"}}), 2),
        (json!({"query_string": {"query": "_index:logs-js*"}}), 2),
        (json!({"query_string": {"query": "_type:log*"}}), 0),
    ] {
        let found = answer_of(&records, &json!({"size": 0, "query": query}));
        assert_eq!(found["hits"]["total"]["value"], expected, "{query}");
    }
}

#[test]
fn what_counts_as_missing_is_no_value_of_the_field() {
    let terms = |missing: &str| json!({"terms": {"field": "status", "missing": missing}});
    let records = records();
    let source = source(&records);
    let context = Context::default();
    let run = |mut terms: Value, inner: Value| {
        terms["aggs"] = inner;
        let search = Search::parse(&json!({"size": 0, "aggs": {"a": terms}}), 0).unwrap();
        let mut runner = Runner::new(&source, &context);
        search::run(&search, &mut runner, &Filter::All, false)
    };
    let inner = json!({"m": {"avg": {"field": "took"}}});
    assert!(run(terms("none"), inner.clone()).is_ok());
    assert!(run(terms("200"), json!({})).is_ok());
    let error = run(terms("200"), inner).err().unwrap();
    assert!(error.to_string().contains("[missing]"), "{error}");
}

#[test]
fn what_an_answer_repeats_is_counted() {
    let records = records();
    let source = source(&records);
    let run = |body: Value| {
        let limits = query::Limits { memory_bytes_max: 32 << 20, ..query::Limits::default() };
        let context = Context { limits, ..Context::default() };
        let search = Search::parse(&body, 0).unwrap();
        let mut runner = Runner::new(&source, &context);
        search::run(&search, &mut runner, &Filter::All, false)
    };
    let minutes = |inner: Value| {
        let histogram = json!({"field": "@timestamp", "fixed_interval": "1m"});
        json!({"size": 0, "aggs": {"a": {"date_histogram": histogram, "aggs": inner}}})
    };
    let highlight = |mark: &str| {
        json!({
            "size": 400, "query": {"match": {"message": "request of done"}},
            "highlight": {"fields": {"*": {}}, "pre_tags": [mark]},
        })
    };
    let long = "x".repeat(100_000);
    assert!(run(minutes(json!({"b": {"avg": {"field": "took"}}}))).is_ok());
    assert!(run(highlight("<")).is_ok());
    for body in [
        minutes(json!({long.clone(): {"avg": {"field": "took"}}})),
        minutes(json!({"b": {"avg": {"field": "took"}, "meta": {"x": long}}})),
        minutes(json!({"b": {"filters": {"filters": {long.clone(): {"match_all": {}}}}}})),
        highlight(&long),
    ] {
        let error = run(body).err().expect("too much memory");
        assert!(error.to_string().contains("memory"), "{error}");
    }
}

#[test]
fn pages_behind_each_other_are_all_hits_once() {
    let mut expected: Vec<i64> =
        records().iter().map(|record| record.time_ns / 1_000_000).collect();
    for sort in [
        json!([{"@timestamp": "desc"}, {"_doc": "desc"}]),
        json!([{"@timestamp": "asc"}, {"_doc": "asc"}]),
        json!({"@timestamp": {"order": "desc", "unmapped_type": "boolean"}, "_doc": {"order": "desc"}}),
        json!({"_doc": {"order": "desc"}, "host": "asc"}),
        json!(["_doc"]),
        json!([{"host": "asc"}, {"took": {"order": "desc"}}, {"_doc": "asc"}]),
        json!([{"status": {"order": "asc", "missing": "_first"}}, {"_shard_doc": "asc"}]),
        json!([{"took": "asc"}, {"_doc": "asc"}]),
    ] {
        let mut after = Value::Null;
        let (mut seen, mut ids) = (Vec::new(), Vec::new());
        loop {
            let mut body = json!({"size": 37, "sort": sort, "track_total_hits": false, "fields": [{"field": "@timestamp", "format": "epoch_millis"}]});
            if !after.is_null() {
                body["search_after"] = after;
            }
            let found = answer(&body);
            let hits = found["hits"]["hits"].as_array().unwrap();
            for hit in hits {
                let ms = hit["fields"]["@timestamp"][0].as_str().unwrap();
                seen.push(ms.parse::<i64>().unwrap());
                ids.push(hit["_id"].as_str().unwrap().to_owned());
            }
            match hits.last() {
                Some(last) => after = last["sort"].clone(),
                None => break,
            }
        }
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), seen.len(), "{sort}");
        let descends = sort[0]["@timestamp"] == "desc";
        if sort.is_array() && sort[0] == "_doc" || !sort[0]["@timestamp"].is_null() {
            let is_sorted = seen
                .windows(2)
                .all(|two| if descends { two[0] >= two[1] } else { two[0] <= two[1] });
            assert!(is_sorted, "{sort}");
        }
        seen.sort_unstable();
        expected.sort_unstable();
        assert_eq!(seen, expected, "{sort}");
    }
}

#[test]
fn what_is_missing_comes_last() {
    for order in ["asc", "desc"] {
        let body = json!({"size": 400, "sort": [{"took": order}]});
        let found = answer(&body);
        let took: Vec<Option<i64>> = found["hits"]["hits"]
            .as_array()
            .unwrap()
            .iter()
            .map(|hit| hit["sort"][0].as_i64())
            .collect();
        let known: Vec<i64> = took.iter().copied().flatten().collect();
        assert!(took[..known.len()].iter().all(Option::is_some), "{order}");
        let is_sorted = known
            .windows(2)
            .all(|two| if order == "asc" { two[0] <= two[1] } else { two[0] >= two[1] });
        assert!(is_sorted && known.len() < took.len(), "{order}");
    }
}

#[test]
fn hits_are_documents() {
    let body = json!({
        "size": 1,
        "query": {"bool": {"filter": [{"match": {"message": "REQUEST"}}, {"exists": {"field": "status"}}]}},
        "_source": {"excludes": ["took"]},
        "highlight": {"fields": {"*": {}}, "pre_tags": ["<"], "post_tags": [">"]},
        "docvalue_fields": ["host", {"field": "@timestamp", "format": "strict_date_optional_time"}],
        "track_total_hits": true,
    });
    let found = answer(&body);
    let hit = &found["hits"]["hits"][0];
    assert!(hit["_source"]["status"].is_i64() && hit["_source"]["took"].is_null(), "{hit}");
    assert!(hit["_source"]["@timestamp"].as_str().unwrap().ends_with(".000Z"), "{hit}");
    assert!(hit["highlight"]["message"][0].as_str().unwrap().starts_with("<Request> "), "{hit}");
    assert_eq!(hit["fields"]["host"][0], hit["_source"]["host"]);
    assert!(hit.get("sort").is_none());
    let expected = records().iter().filter(|record| get(record, "status").is_some()).count();
    assert_eq!(found["hits"]["total"], json!({"value": expected, "relation": "eq"}));
    let found = answer(&json!({"size": 0, "track_total_hits": 100}));
    assert_eq!(found["hits"]["total"], json!({"value": 100, "relation": "gte"}));
    let found = answer(&json!({"size": 0, "terminate_after": 5}));
    assert_eq!(
        (&found["hits"]["total"]["value"], &found["terminated_early"]),
        (&json!(5), &json!(true))
    );
}

#[test]
fn what_is_not_understood_is_named() {
    for (body, part) in [
        (json!({"querry": {}}), "[querry]"),
        (json!({"size": 10_001}), "10000"),
        (json!({"aggs": {"a": {"terms": {"field": "x", "sizee": 1}}}}), "[sizee]"),
        (json!({"aggs": {"a": {"significant_terms": {"field": "x"}}}}), "significant_terms"),
        (json!({"aggs": {"a": {"terms": {"script": "x"}}}}), "needs [field]"),
        (json!({"aggs": {"a": {"terms": {"field": "x", "order": {"b": "asc"}}}}}), "[b]"),
        (json!({"aggs": {"a": {"date_histogram": {"field": "@timestamp"}}}}), "fixed_interval"),
        (json!({"aggs": {"a": {"histogram": {"field": "n", "interval": 1e-300}}}}), "[interval]"),
        (json!({"aggs": {"a": {"histogram": {"field": "n", "interval": 1e300}}}}), "[interval]"),
        (json!({"aggs": {"a": {"histogram": {"field": "n", "interval": 0}}}}), "[interval]"),
        (
            json!({"aggs": {"a": {"avg": {"field": "x"}, "aggs": {"b": {"avg": {"field": "x"}}}}}}),
            "inside",
        ),
        (json!({"sort": [{"a": {"order": "up"}}]}), "[up]"),
        (json!({"collapse": {"field": "x"}}), "[collapse]"),
        (json!({"script_fields": {"a": {}}}), "[script_fields]"),
        (json!({"track_total_hits": "some"}), "[track_total_hits]"),
    ] {
        let refused = Search::parse(&body, 0).unwrap_err();
        assert!(refused.reason.contains(part), "{body}: {refused}");
    }
    let mut deep = json!({"terms": {"field": "x"}});
    for _ in 0..12 {
        deep = json!({"terms": {"field": "x"}, "aggs": {"a": deep}});
    }
    assert!(Search::parse(&json!({"aggs": {"a": deep}}), 0).is_err());
}

#[test]
fn buckets_are_bounded() {
    let records = records();
    let source = source(&records);
    let context = Context::default();
    let body = json!({"size": 0, "aggs": {"a": {"date_histogram": {"field": "@timestamp", "fixed_interval": "1s"}}}});
    let search = Search::parse(&body, 0).unwrap();
    let mut runner = Runner::new(&source, &context);
    let error = search::run(&search, &mut runner, &Filter::All, false).err().unwrap();
    assert!(error.to_string().contains("buckets"), "{error}");
}
