//! Lines of a shop, and questions about them that have the same answer wherever the lines are.

use serde_json::Value;

use crate::common::{Answer, Server};

/// Lines of a shop: line `i` of `count`.
pub fn line(i: usize) -> String {
    let host = ["web1", "web2", "db1"][i % 3];
    let (level, text) =
        if i.is_multiple_of(10) { ("error", "error: no answer") } else { ("info", "ok") };
    let (hour, minute, second) = (12 + i / 3_600, i / 60 % 60, i % 60);
    let took = i * 37 % 101;
    format!(
        "{{\"_time\":\"2026-01-31T{hour:02}:{minute:02}:{second:02}Z\",\"hostname\":\"{host}\",\
         \"app_name\":\"shop\",\"level\":\"{level}\",\"order\":\"{i}\",\"took\":{took},\
         \"_msg\":\"order {i} took={took} {text}\"}}\n"
    )
}

/// Sends lines in small batches, to each store in turn and, if there is one, to `all`.
pub fn send(stores: &[&Server], all: Option<&Server>, numbers: std::ops::Range<usize>) {
    let numbers: Vec<usize> = numbers.collect();
    for (turn, batch) in numbers.chunks(50).enumerate() {
        let body: String = batch.iter().map(|i| line(*i)).collect();
        for server in [Some(stores[turn % stores.len()]), all].into_iter().flatten() {
            assert_eq!(server.post("/insert/jsonline", body.as_bytes()).status, 200);
        }
    }
}

/// The rows of a query as texts, without what differs from store to store, sorted unless `ordered`.
pub fn rows(server: &Server, query: &str, parameters: &str, ordered: bool) -> Vec<String> {
    let rows = server.query(query, parameters);
    let mut texts: Vec<String> = rows.iter().map(Value::to_string).collect();
    if !ordered {
        texts.sort();
    }
    texts
}

/// Compares the answers of `one` with those of `all`, a single store that has the same lines.
pub fn compare(all: &Server, one: &Server) {
    for (query, parameters, ordered) in [
        ("error", "", false),
        ("error", "limit=10", true),
        ("error", "limit=10&offset=5", true),
        ("* | fields order, hostname", "limit=7", true),
        ("* | stats by (hostname) count() n, sum(took) s, max(took) m", "", false),
        ("* | stats by (_time:10m) count() n", "", false),
        ("* | stats quantile(0.9, took) q, count_uniq(order) u, median(took) m", "", false),
        ("error | uniq by (hostname)", "", false),
        ("* | top 5 by (took, hostname)", "", false),
        ("* | sort by (took desc, order) limit 20 | fields took, order", "", true),
        ("hostname:in(error | fields hostname) | stats count() n", "", false),
        ("* | field_names", "", false),
        (
            "error | join by (hostname) (* | stats by (hostname) count() n) | fields order, n",
            "",
            false,
        ),
        ("* | running_stats sum(took) total | stats max(total) t", "", false),
        ("_time:[2026-01-31T12:10:00Z, 2026-01-31T12:11:00Z) | stats count() n", "", false),
        ("nothing_has_this_word | stats count() n", "", false),
        ("order:=77 | extract 'took=<t> ' from _msg | fields t, order", "", false),
    ] {
        let (expected, found) =
            (rows(all, query, parameters, ordered), rows(one, query, parameters, ordered));
        assert!(!expected.is_empty(), "{query}");
        assert_eq!(found, expected, "{query} {parameters}");
    }
    let paths = [
        "/select/logsql/hits?query=error&step=5m&field=hostname",
        "/select/logsql/facets?query=error",
        "/select/logsql/field_names?query=error",
        "/select/logsql/field_values?query=error&field=hostname",
        "/select/logsql/streams?query=error",
        "/select/logsql/stats_query?query=*|stats+by(hostname)count()&time=2026-01-31T13:00:00Z",
        "/loki/api/v1/labels?start=1769860000000000000&end=1769865000000000000",
        "/loki/api/v1/query_range?query=%7Bhostname%3D%22web1%22%7D%7C%3D%22error%22&limit=5&start=1769860000000000000&end=1769865000000000000",
        "/api/v1/export?format=raw&query=error",
        "/api/v1/summary?type=json&start=2026-01-31T12:00:00Z&end=2026-01-31T13:00:00Z&step=10m",
    ];
    for path in paths {
        let (expected, found) = (all.whole(path), one.whole(path));
        assert_eq!((expected.status, found.status), (200, 200), "{path}: {}", found.text());
        if path.starts_with("/loki/api/v1/query") {
            // The statistics of the runs differ.
            let result = |answer: &Answer| answer.json()["data"]["result"].clone();
            assert_eq!(result(&found), result(&expected), "{path}");
        } else {
            assert_eq!(found.text(), expected.text(), "{path}");
        }
    }
}
