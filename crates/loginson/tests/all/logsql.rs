//! Parameters and responses of `/select/logsql/` that VictoriaLogs also has, on the real binary.
//! `make test-victorialogs` checks that the answers are those of a real VictoriaLogs.

use crate::common::{Server, encoded};
use serde_json::{Value, json};

/// Six lines of two streams, ten minutes apart.
fn with_lines() -> Server {
    let server = Server::start();
    let lines: Vec<String> = (0..6)
        .map(|i| {
            let (host, kind) = (["a", "b"][i % 2], ["x", "y", "y"][i % 3]);
            format!(
                r#"{{"_time":"2026-01-31T12:{i}0:00Z","_msg":"line {i}","host":"{host}","kind":"{kind}","n":{i}}}"#
            )
        })
        .collect();
    let answer = server.post("/insert/jsonline?_stream_fields=host", lines.join("\n").as_bytes());
    assert_eq!(answer.status, 200, "{}", answer.text());
    server
}

fn get(server: &Server, call: &str, query: &str, parameters: &str) -> Value {
    let path = format!("/select/logsql/{call}?query={}&{parameters}", encoded(query));
    let answer = server.get(&path);
    assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    answer.json()
}

#[test]
fn hits_show_empty_buckets_of_the_range() {
    let server = with_lines();
    let range = "start=2026-01-31T12:00:00Z&end=2026-01-31T13:20:00Z";
    let values = |step: &str| {
        let hits = get(&server, "hits", "kind:x", &format!("{range}&step={step}"));
        (hits["hits"][0]["timestamps"][0].clone(), hits["hits"][0]["values"].clone())
    };
    let first = json!("2026-01-31T12:00:00Z");
    assert_eq!(values("20m"), (first.clone(), json!([1, 1, 0, 0])));
    // A step without a unit is in seconds, and an offset is that of a time zone.
    assert_eq!(values("1200"), (first, json!([1, 1, 0, 0])));
    let shifted = values("20m&offset=5m");
    assert_eq!(shifted, (json!("2026-01-31T11:55:00Z"), json!([1, 1, 0, 0, 0])));
    // Pipes whose rows have no time are left out.
    let all = get(&server, "hits", "* | fields kind | limit 1", "step=1d");
    assert_eq!(all["hits"][0]["total"], 6);
}

#[test]
fn other_counts_look_at_the_rows_behind_the_pipes() {
    let server = with_lines();
    let names = get(&server, "field_names", "* | stats by (kind) count() c", "");
    assert_eq!(names["values"], json!([{"value": "c", "hits": 2}, {"value": "kind", "hits": 2}]));
    let values = get(&server, "field_values", "* | limit 0", "field=kind");
    assert_eq!(values["values"], json!([]));
    let facets = get(&server, "facets", "* | fields kind", "limit=0");
    assert_eq!(facets["facets"][0]["values"].as_array().unwrap().len(), 2);
}

#[test]
fn streams_have_ids_names_and_values() {
    let server = with_lines();
    let ids = get(&server, "stream_ids", "*", "");
    let ids: Vec<&str> =
        ids["values"].as_array().unwrap().iter().map(|id| id["value"].as_str().unwrap()).collect();
    assert!(ids.len() == 2 && ids[0] != ids[1] && ids.iter().all(|id| id.len() == 48), "{ids:?}");
    let values = get(&server, "stream_field_values", "*", "field=host");
    assert_eq!(values["values"], json!([{"value": "a", "hits": 3}, {"value": "b", "hits": 3}]));
    let limited = get(&server, "stream_field_values", "n:>1", "field=host&limit=1&filter=b");
    assert_eq!(limited["values"], json!([{"value": "b", "hits": 2}]));
    let names = get(&server, "stream_field_names", "*", "filter=hos");
    assert_eq!(names["values"], json!([{"value": "host", "hits": 6}]));
    assert_eq!(server.get("/select/logsql/stream_field_values?query=*").status, 400);
}

#[test]
fn relative_times_refer_to_the_time_of_the_request() {
    let server = with_lines();
    for (parameters, lines) in [
        ("time=2026-01-31T12:36:00Z", 1),
        // A line of 12:20 is not in the quarter of an hour before it, and is in the one after it.
        ("time=2026-01-31T12:20:00Z", 1),
        ("time=2026-01-31T12:20:00.000000001Z", 2),
        ("end=2026-01-31T12:25:00Z", 2),
        ("time=2026-01-31T12:50:00Z&end=2026-01-31T12:45:00Z", 1),
        ("", 0),
    ] {
        assert_eq!(server.query("_time:15m", parameters).len(), lines, "{parameters}");
    }
    assert_eq!(server.query("*", "limit=0").len(), 6);
    assert_eq!(server.query("n:>3 | count()", "ignore_pipes=1").len(), 2);
    assert_eq!(server.query("* | fields none", "").len(), 0);
}

#[test]
fn numbers_are_computed_and_renamed_behind_stats() {
    let server = with_lines();
    let query = "* | stats by (kind) count() n | math n * 2 as m | rename kind as k | delete n";
    let at = get(&server, "stats_query", query, "time=2026-01-31T13:00:00Z");
    let result = at["data"]["result"].as_array().unwrap();
    let y = result.iter().find(|one| one["metric"] == json!({"__name__": "m", "k": "y"}));
    assert_eq!(y.unwrap()["value"], json!([1_769_864_400, "8"]));
    assert_eq!(result.len(), 2);

    let query = "* | stats by (kind) count() n | first 1 by (kind desc)";
    let over = get(&server, "stats_query_range", query, "step=1800");
    let result = over["data"]["result"].as_array().unwrap();
    assert_eq!(result.len(), 1);
    assert_eq!(result[0]["metric"], json!({"__name__": "n", "kind": "y"}));
    assert_eq!(result[0]["values"], json!([[1_769_860_800, "2"], [1_769_862_600, "2"]]));

    let query = "* | stats histogram(n) h";
    let at = get(&server, "stats_query", query, "time=2026-01-31T13:00:00Z");
    let metric = &at["data"]["result"][0]["metric"];
    assert_eq!(metric["__name__"], "h_bucket");
    assert!(metric["vmrange"].as_str().unwrap().contains("..."), "{metric}");
    for refused in ["* | limit 1 | count() n", "* | fields kind | count()"] {
        let path = format!("stats_query_range?query={}&step=60", encoded(refused));
        assert_eq!(server.get(&format!("/select/logsql/{path}")).status, 400, "{refused}");
    }
}

#[test]
fn a_plan_is_returned_without_running_the_query() {
    let server = with_lines();
    let path = "/select/logsql/explain?query=";
    let stats = "panic%20%7C%20stats%20by%20(host)%20count()%20n";
    let text = server.get(&format!("{path}{stats}")).text();
    assert!(text.contains("a unit is read only if it may hold \"panic\""), "{text}");
    assert!(text.contains("pipe 1    stats by (host) count(*) as n: collecting"), "{text}");
    let plan = get(&server, "explain", "* | fields host", "limit=2&format=json");
    assert_eq!(plan["store"]["lines"], 6);
    assert_eq!(plan["fields"], "host");
    assert!(plan["order"].as_str().unwrap().starts_with("newest first"), "{plan}");
    // The times of a frame are known once it is parsed.
    server.wait_for("units are left out by their times", |server| {
        let early = get(server, "explain", "*", "end=2001-01-01T00:00Z&format=json");
        assert_eq!(early["store"]["lines"], 6);
        early["units"]["units"] == 0
    });
    // Additional filters apply, and the plan does not reveal the size of the rest.
    let restricted = get(&server, "explain", "panic", "extra_filters=host:=a&format=json");
    assert_eq!(restricted["filter"], "host:=\"a\" \"panic\"");
    assert_eq!((&restricted["units"], &restricted["store"]), (&json!(null), &json!(null)));
    let refused = |query: &str| server.get(&format!("/select/logsql/explain?{query}")).status;
    assert_eq!(refused("query=*&format=csv"), 400);
    assert_eq!(refused("query=*%20%7C%20nothing"), 400);
    assert_eq!(refused("query=*&fromat=json"), 400);
    assert_eq!(refused("limit=1"), 400);
}

#[test]
fn rows_come_as_a_table() {
    let server = with_lines();
    let table = |query: &str, parameters: &str| {
        let path = format!("/select/logsql/query?query={}&{parameters}", encoded(query));
        let answer = server.get(&path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
        answer.text()
    };
    assert_eq!(
        table("kind:x | sort by (n) | fields host, n", "format=csv"),
        "host,n\r\na,0\r\nb,3\r\n"
    );
    assert_eq!(table("* | fields n, none", "format=csv&limit=1"), "n,none\r\n5,\r\n");
    assert_eq!(table("* | stats by (kind) count() c", "format=csv"), "kind,c\r\nx,2\r\ny,4\r\n");
}

#[test]
fn steps_are_limited_by_themselves() {
    let server = with_lines();
    let range = "start=2026-01-31T12:00:00Z&end=2026-01-31T13:00:00Z&step=30m";
    let query = "* | stats by (kind) count() c | sort by (c desc) | limit 1";
    let found = get(&server, "stats_query_range", query, range);
    let result = found["data"]["result"].as_array().unwrap();
    assert_eq!(result.len(), 1, "{found}");
    assert_eq!(result[0]["metric"]["kind"], "y");
    assert_eq!(result[0]["values"].as_array().unwrap().len(), 2, "{found}");
}
