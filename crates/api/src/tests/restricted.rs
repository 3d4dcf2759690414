//! A caller with restricted rights beside a store that holds only what that caller may see: the
//! answers of every route that reads lines are the same, byte for byte, except for what is named in
//! [`LEFT_OUT`]. Every route is in [`requests`], in [`SHARED`] or refused, so a new one without a
//! decision fails.

use std::collections::BTreeSet;

use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use serde_json::Value;

use super::gate::{bearer, digest_of, with_access};
use super::*;
use crate::access::principal::{Role, Scope};
use crate::access::rights::RightsText;
use crate::access::users::Token;

/// What the restricted caller may not see occurs in each line and field that is kept from it.
pub(super) const SECRET: &str = "zebra";

/// Members of answers that differ between two stores: ids of lines and queries, the cost, the
/// place of a line among the hits, when lines arrived, lines as they were sent, and chunks and
/// bytes, which restricted callers are not told.
const LEFT_OUT: [&str; 16] = [
    "took",
    "stats",
    "_scroll_id",
    "id",
    "pit_id",
    "_id",
    "sort",
    "creation_time",
    "expiration_time_in_millis",
    "start_time_in_millis",
    "uuid",
    "_line_id",
    "_line",
    "_received",
    "chunks",
    "bytes",
];

/// Routes of the scope `read` that show no lines: what all readers share, and what is fixed. Of
/// the others, requests are in [`requests`]; the last ones have tests of their own below.
const SHARED: [&str; 31] = [
    "/",
    "/_cluster/health",
    "/_license",
    "/_xpack",
    "",
    "/_pit",
    "/{index}/_pit",
    "/_search/point_in_time",
    "/{index}/_search/point_in_time",
    "/api/v1/dashboards",
    "/api/v1/dashboards/{id}",
    // Schedules of the caller alone. Their mails are evaluated with the restriction of their owner,
    // which `dashboard_mails` of crate `loginson` tests.
    "/api/v1/dashboards/{id}/mails",
    "/api/v1/dashboards/{id}/mails/{mail}",
    "/api/v1/dashboards/{id}/mails/{mail}/send",
    "/api/v1/links",
    "/api/v1/links/{id}",
    "/api/v1/lookups",
    "/api/v1/lookups/{name}",
    "/api/v1/macros",
    "/api/v1/programs/examples",
    "/loki/api/v1/format_query",
    "/loki/api/v1/drilldown-limits",
    "/loki/api/v1/status/buildinfo",
    "/select/logsql/explain",
    "/select/logsql/tail",
    "/loki/api/v1/tail",
    "/api/v1/queries",
    "/api/v1/queries/{id}",
    "/api/v1/queries/{id}/pause",
    "/api/v1/queries/{id}/resume",
    "/api/v1/queries/{id}/results",
];

/// Routes of Loki and Elasticsearch whose answers are made of lines as they were sent. Where a
/// field is hidden, they are made of the message and the other fields; so these are compared for a
/// caller that sees all fields, and looked through for one that does not.
pub(super) const OF_TEXT: [&str; 14] = [
    "/_search",
    "/{index}/_search",
    "/_async_search",
    "/{index}/_async_search",
    "/_msearch",
    "/{index}/_msearch",
    "/{index}/_doc/{id}",
    "/loki/api/v1/query",
    "/loki/api/v1/query_range",
    "/loki/api/v1/detected_fields",
    "/loki/api/v1/detected_field/{name}/values",
    "/loki/api/v1/patterns",
    "/loki/api/v1/index/volume",
    "/loki/api/v1/index/volume_range",
];

/// A server whose caller `filtered` sees the lines of `app:=shop`, and whose caller `limited` sees
/// them without three fields.
pub(super) fn with_restricted() -> Fixture {
    let filtered = RightsText { filter: Some("app:=shop".into()), ..RightsText::of_role("read") };
    let limited = RightsText {
        hide_fields: vec!["client_ip".into(), "user.*".into(), "hostname".into()],
        ..filtered.clone()
    };
    Fixture::new(|options| {
        with_access(options);
        for (name, rights) in [("filtered", filtered), ("limited", limited)] {
            let rights = rights.checked().unwrap();
            options.access.tokens.push(Token::new(name.into(), digest_of(name), rights));
        }
    })
}

/// A line, and whether the restricted caller sees it.
fn line(number: u32) -> (String, bool) {
    let (is_seen, time) =
        (!number.is_multiple_of(3), format!("2026-09-21T14:{:02}:00.5Z", number % 60));
    let level = ["info", "error"][number as usize % 2];
    let line = match is_seen {
        true => format!(
            "{{\"_time\":\"{time}\",\"_msg\":\"order {number} took {} ms\",\"app\":\"shop\",\
             \"level\":\"{level}\",\"n\":{},\"app_name\":\"web\"HIDDEN}}",
            number * 7,
            number % 5
        ),
        false => format!(
            "{{\"_time\":\"{time}\",\"_msg\":\"order of {SECRET} {number}\",\"app\":\"mail\",\
             \"level\":\"{level}\",\"n\":{},\"{SECRET}\":\"{SECRET}\",\"app_name\":\"{SECRET}\"}}",
            100 + number
        ),
    };
    (line, is_seen)
}

/// Lines as they are sent, and those that are seen, with their hidden fields or without.
pub(super) fn lines(numbers: std::ops::Range<u32>, hides: bool) -> (String, String) {
    let hidden = format!(
        ",\"client_ip\":\"10.0.0.7\",\"user\":{{\"name\":\"{SECRET}\",\"id\":4}},\
         \"hostname\":\"{SECRET}1\""
    );
    let (mut all, mut seen) = (String::new(), String::new());
    for (line, is_seen) in numbers.map(line) {
        all += &format!("{}\n", line.replace("HIDDEN", &hidden));
        if is_seen {
            let left = if hides { "" } else { &hidden };
            seen += &format!("{}\n", line.replace("HIDDEN", left));
        }
    }
    (all, seen)
}

/// Both servers, with lines that are sealed and lines that are not.
fn both(hides: bool) -> (Fixture, Fixture) {
    let (whole, part) = (with_restricted(), with_restricted());
    for (numbers, seals) in [(0..200, true), (200..260, false)] {
        let (all, seen) = lines(numbers, hides);
        for (fixture, lines) in [(&whole, &all), (&part, &seen)] {
            fixture.push(lines.as_bytes());
            if seals {
                fixture.seal_all();
            }
        }
    }
    (whole, part)
}

impl Fixture {
    /// Seals what was sent, and waits for that.
    fn seal_all(&self) {
        let store = self.pipeline.store();
        store.roll();
        while store.segments().iter().any(|segment| segment.state != store::SegmentState::Sealed) {
            std::thread::yield_now();
        }
    }

    pub(super) async fn asked_as(&self, secret: &str, asked: &Asked) -> (u16, Vec<u8>) {
        self.asked_with(&[(AUTHORIZATION.as_str(), secret)], asked).await
    }

    /// The same with these headers.
    pub(super) async fn asked_with(
        &self,
        headers: &[(&str, &str)],
        asked: &Asked,
    ) -> (u16, Vec<u8>) {
        let mut request =
            Request::builder().method(asked.method).uri(&asked.path).header("host", "localhost");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if !asked.body.is_empty() {
            let is_json = asked.body.starts_with('{');
            let media_type =
                if is_json { "application/json" } else { "application/x-www-form-urlencoded" };
            request = request.header(CONTENT_TYPE, media_type);
        }
        let response = self.answer(request.body(Body::from(asked.body.clone()))).await;
        let status = response.status().as_u16();
        (status, to_bytes(response.into_body(), usize::MAX).await.unwrap().to_vec())
    }
}

/// A request; the route that it is for stands first.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) route: &'static str,
    pub(super) method: &'static str,
    pub(super) path: String,
    pub(super) body: String,
}

pub(super) fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// Filters that name what is hidden, in all ways.
const FILTERS: [&str; 16] = [
    "*",
    "zebra",
    "*:zebra",
    "user*:*",
    "client_ip:*",
    "client_ip:10.0.0.7",
    "client_ip:\"\"",
    "!hostname:zebra1",
    "user.name:=zebra or n:=1",
    "app:mail",
    "app_name:in(zebra, web)",
    "hostname:in(hostname:* | fields hostname)",
    "{hostname=~\"zebra.*\"}",
    "_stream:zebra1",
    "_type:json or zebra",
    "client_ip:eq_field(user.name)",
];

/// Queries: each pipe and each function of `stats` behind an order that both stores give.
fn queries() -> Vec<String> {
    // How many blocks there are differs, and samples are random.
    let is_of_storage = |name: &str| matches!(name, "blocks_count" | "sample");
    let pipes = query::pipe_documentation().map(|doc| (doc.name, doc.example.to_owned()));
    let functions = query::function_documentation()
        .map(|doc| (doc.name, format!("stats by (hostname, level) {}", doc.example)));
    let known = pipes.chain(functions).filter(|(name, _)| !is_of_storage(name));
    let sorted = "sort by (_time, _msg)";
    let mut queries: Vec<String> =
        known.map(|(_, example)| format!("* | {sorted} | {example}")).collect();
    queries.extend(FILTERS.map(|filter| format!("{filter} | {sorted}")));
    let own = [
        "fields client_ip, user.name, _stream, n",
        "stats by (client_ip, hostname) count() c, count_uniq(user.name) u",
        "uniq by (user.name)",
        "top 5 by (hostname)",
        "field_names",
        "facets",
        "pack_json as all | fields all",
        "format \"<client_ip> <user.name> <hostname>\" as made",
        "join by (n) (client_ip:* or n:1 | stats by (n, client_ip) count() c)",
        "union (zebra or client_ip:* | fields client_ip, app)",
        "filter n:in(client_ip:* | fields n)",
        "stream_context before 2 after 2 | sort by (_time, _msg)",
        "unpack_json from _line",
        "patterns of hostname",
        "delete app | union (app:mail)",
        "copy user.* as u.*",
        "math n + user.id as m",
    ];
    queries.extend(own.map(|pipe| format!("* | {sorted} | {pipe}")));
    queries
        .extend(["* | count() c", "app:mail | count()", "client_ip:* | count()"].map(Into::into));
    queries.push("options(ignore_global_time_filter=true) * | count() c".into());
    queries
}

/// Queries in LogQL: lines, and numbers.
const LOGQL: [&str; 24] = [
    "{_type=\"json\"}",
    "{hostname=~\".+\"}",
    "{hostname=\"\"}",
    "{app_name=~\"zebra|web\"}",
    "{_type=\"json\"} |= \"zebra\"",
    "{_type=\"json\"} != \"zebra\"",
    "{_type=\"json\"} |~ \"order [0-9]+\"",
    "{_type=\"json\"} | json",
    "{_type=\"json\"} | json client=\"client_ip\"",
    "{_type=\"json\"} | logfmt",
    "{_type=\"json\"} | pattern \"order <n> took <ms> ms\"",
    "{_type=\"json\"} | regexp \"order (?P<n>[0-9]+)\"",
    "{_type=\"json\"} | client_ip=\"10.0.0.7\"",
    "{_type=\"json\"} | client_ip=\"\" | line_format \"{{.user_name}} {{.hostname}}\"",
    "{_type=\"json\"} | label_format who=hostname",
    "{_type=\"json\"} | keep client_ip, level",
    "{_type=\"json\"} | drop level",
    "sum by (hostname) (count_over_time({_type=\"json\"}[1h]))",
    "sum by (app_name) (rate({_type=\"json\"}[1h]))",
    "topk(3, sum by (client_ip) (count_over_time({_type=\"json\"} | client_ip!=\"\" [1h])))",
    "sum(bytes_over_time({_type=\"json\"}[1h]))",
    "max_over_time({_type=\"json\"} | pattern \"order <_> took <ms> ms\" | unwrap ms [1h]) by (level)",
    "absent_over_time({hostname=\"zebra1\"}[1h])",
    "count(count_over_time({_type=\"json\"}[1h]))",
];

/// Bodies of searches of Elasticsearch.
const SEARCHES: [&str; 8] = [
    r#"{"size":50,"sort":[{"@timestamp":"asc"}]}"#,
    r#"{"query":{"query_string":{"query":"zebra"}}}"#,
    r#"{"query":{"term":{"client_ip":"10.0.0.7"}}}"#,
    r#"{"query":{"exists":{"field":"user.name"}}}"#,
    r#"{"query":{"bool":{"must_not":{"exists":{"field":"hostname"}}}},"sort":[{"@timestamp":"desc"}]}"#,
    r#"{"size":0,"aggs":{"a":{"terms":{"field":"client_ip"}},"b":{"terms":{"field":"level"}}}}"#,
    r#"{"size":0,"aggs":{"a":{"date_histogram":{"field":"@timestamp","fixed_interval":"10m"}}}}"#,
    r#"{"size":0,"aggs":{"a":{"cardinality":{"field":"user.name"}},"b":{"avg":{"field":"n"}}}}"#,
];

/// Requests for each route; `ID` stands for the id of a line that is seen, `OTHER` for one that is
/// not.
pub(super) fn requests() -> Vec<Asked> {
    let mut all = Vec::new();
    let mut add = |method, route, path: String, body: &str| {
        all.push(Asked { route, method, path, body: body.to_owned() });
    };
    let range = "start=2026-09-21T14:00:00Z&end=2026-09-21T15:00:00Z";
    for query in queries() {
        let query = encoded(&query);
        let path = "/select/logsql/query";
        add("GET", path, format!("{path}?query={query}"), "");
    }
    add(
        "POST",
        "/select/logsql/query",
        "/select/logsql/query".into(),
        "query=client_ip:*+|+count()",
    );
    // A query inside a filter that is sent beside the query sees no more than the query.
    for inside in [
        format!("!level:in({SECRET} | fields level)"),
        format!("!level:contains_any({SECRET} | fields level) or _msg:x"),
        format!("!level:in(* | filter app:in({SECRET} | fields app) | fields level)"),
    ] {
        let inside = encoded(&inside);
        for name in ["extra_filters", "extra_stream_filters"] {
            for (route, query) in [
                ("/select/logsql/query", "* | stats count() c"),
                ("/select/logsql/hits", "*"),
                ("/select/logsql/field_names", "*"),
                ("/select/logsql/export", "*"),
            ] {
                let query = encoded(query);
                let path = format!("{route}?query={query}&step=1d&{range}&{name}={inside}");
                add("GET", route, path, "");
            }
        }
    }
    let several = queries();
    let texts =
        |of: &[String]| of.iter().map(|q| format!("query={}", encoded(q))).collect::<Vec<_>>();
    for some in several.chunks(5) {
        let path = format!("/select/logsql/queries?{}", texts(some).join("&"));
        add("GET", "/select/logsql/queries", path, "");
    }
    for filter in FILTERS {
        let query = encoded(filter);
        for (route, more) in [
            ("/select/logsql/hits", "&step=10m&field=hostname&field=level"),
            (
                "/select/logsql/hits",
                "&step=auto&start=2026-09-21T14:00:00Z&end=2026-09-21T15:00:00Z",
            ),
            ("/select/logsql/facets", "&keep_const_fields=1"),
            ("/select/logsql/field_names", ""),
            ("/select/logsql/field_values", "&field=client_ip"),
            ("/select/logsql/field_values", "&field=app_name"),
            ("/select/logsql/field_values", "&field=user.name&limit=3"),
            ("/select/logsql/streams", ""),
            ("/select/logsql/stream_ids", ""),
            ("/select/logsql/stream_field_names", ""),
            ("/select/logsql/stream_field_values", "&field=hostname"),
        ] {
            add("GET", route, format!("{route}?query={query}{more}"), "");
        }
        let stats = encoded(&format!("{filter} | stats by (hostname, level) count() c"));
        let route = "/select/logsql/stats_query";
        add("GET", route, format!("{route}?query={stats}&time=2026-09-21T15:00:00Z"), "");
        let route = "/select/logsql/stats_query_range";
        add("GET", route, format!("{route}?query={stats}&step=10m&{range}"), "");
        for format in ["jsonl", "csv"] {
            let path = format!("/api/v1/export?format={format}&query={query}");
            add("GET", "/api/v1/export", path, "");
        }
    }
    for id in ["ID", "OTHER"] {
        add("GET", "/api/v1/context", format!("/api/v1/context?id={id}&before=5&after=5"), "");
        add("GET", "/{index}/_doc/{id}", format!("/elastic/_all/_doc/{id}"), "");
    }
    add("GET", "/api/v1/lucene", "/api/v1/lucene?query=zebra".into(), "");
    for query in LOGQL {
        let query = encoded(query);
        let route = "/loki/api/v1/query_range";
        add("GET", route, format!("{route}?query={query}&{range}&step=600&limit=50"), "");
        let route = "/loki/api/v1/query";
        add("GET", route, format!("{route}?query={query}&time=2026-09-21T15:00:00Z"), "");
    }
    for route in [
        "/loki/api/v1/labels",
        "/loki/api/v1/label",
        "/loki/api/v1/series",
        "/loki/api/v1/detected_labels",
        "/loki/api/v1/detected_fields",
        "/loki/api/v1/patterns",
        "/loki/api/v1/index/volume",
        "/loki/api/v1/index/volume_range",
    ] {
        for query in [&LOGQL[..], &["{}"]].concat() {
            let query = encoded(query);
            add(
                "GET",
                route,
                format!("{route}?query={query}&match[]={query}&{range}&step=600"),
                "",
            );
        }
    }
    for name in ["hostname", "app_name", "client_ip", "user_name", "level", "zebra"] {
        let route = "/loki/api/v1/label/{name}/values";
        add("GET", route, format!("/loki/api/v1/label/{name}/values?{range}"), "");
        let query = encoded("{_type=\"json\"}");
        let route = "/loki/api/v1/detected_field/{name}/values";
        let path = format!("/loki/api/v1/detected_field/{name}/values?query={query}&{range}");
        add("GET", route, path, "");
    }
    for search in SEARCHES {
        add("POST", "/_search", "/elastic/_search".into(), search);
        add("POST", "/{index}/_search", "/elastic/json/_search".into(), search);
        add(
            "POST",
            "/_async_search",
            "/elastic/_async_search?wait_for_completion_timeout=1m".into(),
            search,
        );
        let path = "/elastic/json/_async_search?wait_for_completion_timeout=1m";
        add("POST", "/{index}/_async_search", path.into(), search);
    }
    for (route, path) in
        [("/_msearch", "/elastic/_msearch"), ("/{index}/_msearch", "/elastic/json/_msearch")]
    {
        add("POST", route, path.into(), &format!("{{}}\n{}\n{{}}\n{}\n", SEARCHES[0], SEARCHES[5]));
    }
    for (route, path) in [
        ("/_count", "/elastic/_count"),
        ("/{index}/_count", "/elastic/json/_count"),
        ("/_validate/query", "/elastic/_validate/query"),
        ("/{index}/_validate/query", "/elastic/json/_validate/query"),
        ("/_field_caps", "/elastic/_field_caps?fields=*"),
        ("/{index}/_field_caps", "/elastic/json/_field_caps?fields=*"),
        ("/_mapping", "/elastic/_mapping"),
        ("/{index}/_mapping", "/elastic/json/_mapping"),
        ("/_cat/indices", "/elastic/_cat/indices?format=json"),
        ("/_cat/indices/{index}", "/elastic/_cat/indices/json"),
        ("/_resolve/index/{index}", "/elastic/_resolve/index/*"),
        ("/_search/scroll", "/elastic/_search/scroll?scroll_id=x"),
        ("/_search/scroll/{id}", "/elastic/_search/scroll/x"),
        ("/_async_search/{id}", "/elastic/_async_search/x"),
        ("/_async_search/status/{id}", "/elastic/_async_search/status/x"),
    ] {
        add("GET", route, path.into(), "");
    }
    add("HEAD", "/{index}", "/elastic/json".into(), "");
    add(
        "GET",
        "/loki/api/v1/index/stats",
        format!("/loki/api/v1/index/stats?query={}&{range}", encoded("{}")),
        "",
    );
    all
}

/// An answer without what differs between two stores.
pub(super) fn comparable(body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body).into_owned();
    match serde_json::from_str::<Value>(&text) {
        Ok(mut value) => {
            strip(&mut value);
            value.to_string()
        }
        Err(_) => text,
    }
}

fn strip(value: &mut Value) {
    match value {
        Value::Object(members) => {
            members.retain(|name, _| !LEFT_OUT.contains(&name.as_str()));
            members.values_mut().for_each(strip);
        }
        Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}

/// The id of no line.
pub(super) const NO_LINE_ID: &str = "00000001-999-1";

/// The id of the line that an answer consists of; none if it has no line.
pub(super) fn id_in(answer: &[u8]) -> Option<String> {
    if answer.trim_ascii().is_empty() {
        return None;
    }
    let row: Value = serde_json::from_slice(answer).expect("a line");
    Some(row["_line_id"].as_str().expect("the id of a line").to_owned())
}

/// The ids of the newest line that is seen, and of one that is not, which only the whole store has.
async fn ids(fixture: &Fixture, is_whole: bool) -> (String, String) {
    let id = |filter: &'static str| async move {
        let asked = Asked {
            route: "",
            method: "GET",
            path: format!(
                "/select/logsql/query?query={}&include=_line_id&limit=1",
                encoded(filter)
            ),
            body: String::new(),
        };
        let (status, body) = fixture.asked_as(&bearer(Role::Read), &asked).await;
        assert_eq!(status, 200, "{filter}: {}", String::from_utf8_lossy(&body));
        id_in(&body)
    };
    let seen = id("\"order 100 took\"").await.expect("a line that is seen");
    let other = id("app:=mail").await;
    assert_eq!(other.is_some(), is_whole, "lines that are not seen");
    (seen, other.unwrap_or_else(|| NO_LINE_ID.to_owned()))
}

/// A route without the prefix under which Elasticsearch's API is offered too.
pub(super) fn canonical(path: &str) -> &str {
    path.strip_prefix("/elastic").unwrap_or(path)
}

/// Asks everything as that caller, and beside it of a store that holds nothing else.
async fn compare(caller: &str, hides: bool) {
    let (whole, part) = both(hides);
    let (ids_whole, ids_part) = (ids(&whole, true).await, ids(&part, false).await);
    let (mut differing, mut answered) = (Vec::new(), 0);
    for asked in requests() {
        let with = |(seen, other): &(String, String)| Asked {
            path: asked.path.replace("OTHER", other).replace("ID", seen),
            ..asked.clone()
        };
        let (status, body) = whole.asked_as(&format!("Bearer {caller}"), &with(&ids_whole)).await;
        let (expected, expected_body) = part.asked_as(&bearer(Role::Read), &with(&ids_part)).await;
        answered += u32::from(expected == 200);
        let told = String::from_utf8_lossy(&body);
        let names_secret = [&asked.path, &asked.body].iter().any(|text| text.contains(SECRET));
        let mut is_told = vec!["order of zebra"];
        if hides && !names_secret {
            is_told.push(SECRET);
        }
        if hides && !asked.path.contains("10.0.0.7") && !asked.body.contains("10.0.0.7") {
            is_told.push("10.0.0.7");
        }
        let is_told = is_told.into_iter().find(|text| told.contains(text));
        let (mut found, mut wanted) = (comparable(&body), comparable(&expected_body));
        if status != 200 {
            // Messages name the id that was given.
            (found, wanted) = (found.replace(&ids_whole.1, ""), wanted.replace(&ids_part.1, ""));
        }
        let differs = status != expected || found != wanted;
        if is_told.is_some() || differs && !(hides && OF_TEXT.contains(&asked.route)) {
            differing.push(format!(
                "{} {} {} (tells {is_told:?})\n  {status} {}\n  {expected} {}",
                asked.method,
                asked.path,
                asked.body,
                found.chars().take(600).collect::<String>(),
                wanted.chars().take(600).collect::<String>(),
            ));
        }
    }
    assert!(differing.is_empty(), "{} differ:\n{}", differing.len(), differing.join("\n"));
    assert!(answered > 500, "only {answered} requests were answered");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_route_answers_as_if_there_were_no_other_lines() {
    compare("filtered", false).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_route_answers_as_if_lines_had_no_other_fields() {
    compare("limited", true).await;
}

#[tokio::test]
async fn every_route_has_a_decision() {
    let fixture = with_restricted();
    let (_, table) = routes(&fixture.app, inserting(&fixture.app)).into_parts();
    let asked: BTreeSet<&str> = requests().iter().map(|asked| asked.route).collect();
    let mut undecided = Vec::new();
    for route in &table {
        let path = route.path.replace(['{', '}'], "");
        let request = Request::builder()
            .method(route.method.clone())
            .uri(&path)
            .header("host", "localhost")
            .header(AUTHORIZATION, "Bearer limited");
        let status = fixture.answer(request.body(Body::empty())).await.status();
        let what = format!("{} {}", route.method, route.path);
        let is_refused = status == StatusCode::FORBIDDEN;
        match route.scope {
            Scope::Open => assert!(!is_refused, "{what}"),
            Scope::Read => {
                assert!(!is_refused, "{what}");
                let known = canonical(&route.path);
                if !asked.contains(known) && !SHARED.contains(&known) {
                    undecided.push(what);
                }
            }
            _ => assert!(is_refused, "{what}: {status}"),
        }
    }
    assert_eq!(
        undecided, [""; 0],
        "these routes need requests, or a reason why they show no lines"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn background_queries_explanations_and_other_owners() {
    let (whole, part) = both(true);
    let ask =
        |method, path: &str| Asked { route: "", method, path: path.into(), body: String::new() };
    let mut rows = Vec::new();
    for (fixture, secret) in [(&whole, "Bearer limited".to_owned()), (&part, bearer(Role::Read))] {
        let query = encoded("zebra or client_ip:* or n:1 | sort by (_time, _msg)");
        let (status, body) = fixture
            .asked_as(&secret, &ask("POST", &format!("/api/v1/queries?query={query}")))
            .await;
        assert_eq!(status, 202, "{}", String::from_utf8_lossy(&body));
        let submitted: Value = serde_json::from_slice(&body).unwrap();
        let id = submitted["id"].as_str().unwrap().to_owned();
        while !fixture.app.queue.get(id.parse().unwrap()).unwrap().state.is_ended() {
            tokio::task::yield_now().await;
        }
        let results = format!("/api/v1/queries/{id}/results?limit=1000");
        rows.push(fixture.asked_as(&secret, &ask("GET", &results)).await);
        for what in ["", "/pause", "/resume"] {
            let method = if what.is_empty() { "GET" } else { "POST" };
            let path = format!("/api/v1/queries/{id}{what}");
            let (status, body) = fixture.asked_as(&secret, &ask(method, &path)).await;
            assert!(status != 403 && !String::from_utf8_lossy(&body).contains("order of"));
        }
        if std::ptr::eq(fixture, &whole) {
            // With other rights, the rows of before are not shown any more.
            let rights =
                RightsText { hide_fields: vec!["n".into()], ..RightsText::of_role("read") };
            let token =
                Token::new("limited".into(), digest_of("limited"), rights.checked().unwrap());
            let mut access = crate::access::users::AccessOptions::default();
            access.tokens.push(token);
            fixture.app.gate().set_access(&access);
            let (status, body) = fixture.asked_as(&secret, &ask("GET", &results)).await;
            assert_eq!(status, 403);
            assert!(String::from_utf8_lossy(&body).contains("run it again"));
        }
    }
    assert_eq!(rows[0], rows[1]);
    assert!(rows[0].0 == 200 && rows[0].1.len() > 100);

    let whole = both(true).0;
    // What Loginson made of all lines is never shown.
    for query in ["_type:summary", "_type:in(summary, alert, audit)", "_type:=summary or _type:x"] {
        let path = format!("/select/logsql/query?query={}", encoded(query));
        assert_eq!(whole.asked_as("Bearer limited", &ask("GET", &path)).await, (200, Vec::new()));
    }
    let explain = format!("/select/logsql/explain?query={}", encoded("* | stats count() c"));
    let (status, body) = whole.asked_as("Bearer limited", &ask("GET", &explain)).await;
    let body = String::from_utf8_lossy(&body).into_owned();
    assert!(status == 200 && body.contains("app:=\"shop\"") && !body.contains("mail"), "{body}");
    // What was sent is not shown as it was sent.
    for path in ["/api/v1/export?format=raw", "/api/v1/queries?query=*&format=raw"] {
        let method = if path.contains("export") { "GET" } else { "POST" };
        let (status, body) = whole.asked_as("Bearer limited", &ask(method, path)).await;
        let body = String::from_utf8_lossy(&body).into_owned();
        assert!(status == 403 && body.contains("hidden"), "{path}: {status} {body}");
    }
}

/// Reads lines of a tail, those that keep the connection open aside.
async fn next_lines(body: &mut axum::body::BodyDataStream, count: usize) -> Vec<String> {
    use tokio_stream::StreamExt;
    let mut text = String::new();
    while text.lines().filter(|line| !line.is_empty()).count() < count || !text.ends_with('\n') {
        let piece = body.next().await.expect("a tail does not end").unwrap();
        text += std::str::from_utf8(&piece).unwrap();
    }
    text.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tails_show_what_is_seen_alone() {
    for query in
        ["*", "zebra or n:*", "!client_ip:*", "* | fields client_ip, user.name, _msg, _stream"]
    {
        // A tail also gets what arrived before it and is parsed after it began, so each query has
        // stores of its own.
        let (whole, part) = (with_restricted(), with_restricted());
        let mut tails = Vec::new();
        for (fixture, secret) in
            [(&whole, "Bearer limited".to_owned()), (&part, bearer(Role::Read))]
        {
            let request = Request::get(format!(
                "/select/logsql/tail?query={}&start_offset=1ns",
                encoded(query)
            ));
            let request = request.header("host", "localhost").header(AUTHORIZATION, secret);
            let response = fixture.answer(request.body(Body::empty())).await;
            assert_eq!(response.status(), 200);
            tails.push(response.into_body().into_data_stream());
        }
        let (all, seen) = lines(0..30, true);
        whole.push(all.as_bytes());
        part.push(seen.as_bytes());
        let found = next_lines(&mut tails[0], 20).await;
        assert_eq!(found, next_lines(&mut tails[1], 20).await, "{query}");
        assert!(!found.concat().contains(SECRET), "{found:?}");
    }
}
