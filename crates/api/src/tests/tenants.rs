//! Tenants: each writes and reads its own lines, whatever it asks for, beside stores that hold the
//! lines of one tenant alone.

use axum::http::header::AUTHORIZATION;
use node::ingest::tenants::{QueryKind, TenantOptions, Tenants};
use ring::digest::{SHA256, digest};
use serde_json::Value;

use super::*;
use crate::access::principal::Role;
use crate::access::rights::{Rights, RightsText};
use crate::access::users::Token;

/// The tenants by name, each with a word that only its lines have.
pub(super) const TENANTS: [(&str, &str, &str); 3] = [
    ("shop", "12:3", "quincewort"),
    ("bank", "13:0", "brackenfel"),
    ("default", "0:0", "hazelmoor"),
];

pub(super) fn tenants(change: impl FnOnce(&mut Vec<TenantOptions>)) -> Arc<Tenants> {
    let tenant = |(name, id, _): &(&str, &str, &str)| TenantOptions {
        id: id.parse().unwrap(),
        name: Some((*name).to_owned()),
        ..TenantOptions::default()
    };
    let mut all = TENANTS.iter().map(tenant).collect();
    change(&mut all);
    Arc::new(Tenants::new(all).unwrap())
}

/// For each tenant a token that writes and one that reads; tokens that name tenants; and one of an
/// administrator.
pub(super) fn with_tokens(options: &mut ApiOptions) {
    let mut add = |name: String, role: &str, tenant: &str| {
        let text = RightsText { tenant: Some(tenant.to_owned()), ..RightsText::of_role(role) };
        let rights: Rights = text.checked().unwrap();
        let hash = digest(&SHA256, name.as_bytes()).as_ref().try_into().unwrap();
        options.access.tokens.push(Token::new(name.clone().into(), hash, rights));
    };
    for (name, ..) in TENANTS {
        add(format!("{name}-writes"), "ingest", name);
        add(format!("{name}-reads"), "read", name);
    }
    add("proxy-writes".into(), "ingest", "named");
    add("proxy-reads".into(), "read", "named");
    add("unsaid-reads".into(), "read", "");
    add("admin".into(), Role::Admin.name(), "");
}

pub(super) fn fixture() -> Fixture {
    Fixture::of_tenants(tenants(|_| {}), with_tokens)
}

impl Fixture {
    /// The answer to a call with a token.
    pub(super) async fn as_token(
        &self,
        token: &str,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Body>,
    ) -> (u16, String) {
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
        request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = self.answer(request.body(body.into())).await;
        (response.status().as_u16(), text(response).await)
    }

    pub(super) async fn read_as(&self, token: &str, path: &str) -> (u16, String) {
        self.as_token(token, "GET", path, &[], Body::empty()).await
    }

    /// Which words of tenants an answer holds.
    async fn seen(&self, token: &str, path: &str) -> Vec<&'static str> {
        let (status, answer) = self.read_as(token, path).await;
        assert_eq!(status, 200, "{path}: {answer}");
        let seen = TENANTS.iter().filter(|(_, _, word)| answer.contains(word));
        seen.map(|(name, ..)| *name).collect()
    }

    /// Waits until all lines are sealed.
    pub(super) async fn seal(&self) {
        assert_eq!(self.as_token("admin", "POST", "/api/v1/seal", &[], Body::empty()).await.0, 202);
        let sealed = || {
            let stats = self.pipeline.store().stats();
            stats.sealing.lag_segments == 0 && stats.sealed_bytes_raw > 0
        };
        while !sealed() {
            tokio::task::yield_now().await;
        }
    }
}

const ALL: &str = "/select/logsql/query?query=*";

/// Requests by which a tenant sends a line with its word.
fn ways_in(word: &str) -> Vec<(&'static str, &'static str, String)> {
    let json = "application/json";
    vec![
        (
            "/insert/jsonline",
            "",
            format!("{{\"_msg\":\"{word} jsonline\",\"_tenant\":\"12:3\",\"tenant\":\"13:0\"}}\n"),
        ),
        ("/insert/lines?_type=plain&extra_fields=a=b", "", format!("{word} lines _tenant=13:0\n")),
        (
            "/insert/elasticsearch/_bulk",
            json,
            format!("{{\"create\":{{\"_index\":\"13:0\"}}}}\n{{\"message\":\"{word} bulk\"}}\n"),
        ),
        (
            "/insert/loki/api/v1/push",
            json,
            format!(
                "{{\"streams\":[{{\"stream\":{{\"_tenant\":\"13:0\",\"app\":\"a\"}},\
                 \"values\":[[\"1790000000000000000\",\"{word} loki\"]]}}]}}"
            ),
        ),
        (
            "/v1/logs",
            json,
            format!(
                "{{\"resourceLogs\":[{{\"resource\":{{\"attributes\":[{{\"key\":\"_tenant\",\
                 \"value\":{{\"stringValue\":\"13:0\"}}}}]}},\"scopeLogs\":[{{\"logRecords\":[{{\
                 \"timeUnixNano\":\"1790000000000000000\",\
                 \"body\":{{\"stringValue\":\"{word} otlp\"}}}}]}}]}}]}}"
            ),
        ),
        (
            "/insert/gelf",
            json,
            format!(
                "{{\"version\":\"1.1\",\"host\":\"h\",\"short_message\":\"{word} gelf\",\"_tenant\":\"13:0\",\"__tenant\":\"13:0\"}}"
            ),
        ),
        (
            "/services/collector/event",
            json,
            format!("{{\"event\":\"{word} splunk\",\"fields\":{{\"_tenant\":\"13:0\"}}}}"),
        ),
        (
            "/api/v2/logs",
            json,
            format!("[{{\"message\":\"{word} datadog\",\"_tenant\":\"13:0\"}}]"),
        ),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_caller_is_told_whether_it_is_for_all_tenants() {
    let fixture = fixture();
    for (token, is_restricted) in
        [("shop-reads", true), ("unsaid-reads", true), ("proxy-reads", true), ("admin", false)]
    {
        let (status, me) = fixture.read_as(token, "/api/v1/me").await;
        let me: Value = serde_json::from_str(&me).unwrap();
        assert_eq!((status, &me["restricted"]), (200, &is_restricted.into()), "{token}: {me}");
        // The page does not ask for what would be refused.
        let expected = if is_restricted { 403 } else { 200 };
        assert_eq!(fixture.read_as(token, "/api/v1/status").await.0, expected, "{token}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_way_in_keeps_lines_for_the_tenant_of_the_token() {
    let fixture = fixture();
    let mut sent = 0;
    for (name, _, word) in TENANTS {
        let ways = ways_in(word);
        sent = ways.len();
        for (path, content_type, body) in ways {
            let token = format!("{name}-writes");
            let headers = [("content-type", content_type)];
            let headers = if content_type.is_empty() { &[][..] } else { &headers[..] };
            let (status, answer) = fixture.as_token(&token, "POST", path, headers, body).await;
            assert!((200..300).contains(&status), "{path}: {status} {answer}");
        }
    }
    for sealed in [false, true] {
        if sealed {
            fixture.seal().await;
        }
        for (name, _, word) in TENANTS {
            let (_, answer) = fixture.read_as(&format!("{name}-reads"), ALL).await;
            assert_eq!(answer.lines().count(), sent, "{answer}");
            assert!(answer.lines().all(|line| line.contains(word)), "{answer}");
        }
        assert_eq!(fixture.seen("unsaid-reads", ALL).await, ["default"]);
        for (query, expected) in [
            ("", &["default"][..]),
            ("&tenants=bank", &["bank"]),
            ("&tenants=12:3,default", &["shop", "default"]),
            ("&tenants=*", &["shop", "bank", "default"]),
            ("&AccountID=13", &["bank"]),
        ] {
            assert_eq!(fixture.seen("admin", &format!("{ALL}{query}")).await, expected, "{query}");
        }
    }
    // What is kept is told apart by tenant.
    let (_, listed) = fixture.read_as("admin", "/api/v1/tenants").await;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    for (name, id, _) in TENANTS {
        let all = listed["tenants"].as_array().unwrap();
        let own = all.iter().find(|tenant| tenant["id"] == id).unwrap();
        assert_eq!(own["name"], name);
        assert_eq!((own["lines"].as_u64(), own["lines_kept"].as_u64()), (Some(8), Some(8)));
        assert!(own["bytes_disk"].as_u64() > Some(0) && own["bytes"].as_u64() > Some(0), "{own}");
        let days = own["days"].as_array().unwrap();
        let sum = |key: &str| days.iter().map(|day| day[key].as_u64().unwrap()).sum::<u64>();
        assert!(sum("lines") == 8 && sum("queries") >= 2 && sum("lines_scanned") > 0, "{own}");
    }
    let (_, metrics) = fixture.read_as("admin", "/metrics").await;
    assert!(metrics.contains("loginson_tenant_lines_total{tenant=\"12:3\"} 8"), "{metrics}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tenants_are_named_by_headers_where_that_is_allowed() {
    let fixture = fixture();
    let line = "{\"_msg\":\"quincewort\"}\n";
    let shop = [("AccountID", "12"), ("ProjectID", "3")];
    let push = |token: &'static str, headers| {
        let fixture = &fixture;
        async move { fixture.as_token(token, "POST", "/insert/jsonline", headers, line).await }
    };
    let nobody = [("AccountID", "99")];
    for (token, headers, status, said) in [
        ("proxy-writes", &shop[..], 200, ""),
        ("shop-writes", &shop[..], 200, ""),
        ("bank-writes", &shop[..], 403, "another tenant"),
        ("default-writes", &shop[..], 403, "another tenant"),
        ("proxy-writes", &nobody[..], 400, "there is no tenant '99:0'"),
        ("shop-reads", &[], 403, "needs ingest or admin"),
    ] {
        let (found, answer) = push(token, headers).await;
        assert_eq!(found, status, "{token}: {answer}");
        assert!(answer.contains(said), "{token}: {answer}");
    }
    assert_eq!(fixture.read_as("shop-reads", ALL).await.1.lines().count(), 2);
    let read = |headers| fixture.as_token("proxy-reads", "GET", ALL, headers, Body::empty());
    assert_eq!(read(&shop).await.1.lines().count(), 2);
    assert_eq!(read(&[]).await.1.lines().count(), 0);
    for (token, query, status) in [
        ("shop-reads", "&tenants=*", 403),
        ("shop-reads", "&tenants=shop", 403),
        ("proxy-reads", "&tenants=*", 403),
        ("shop-reads", "&AccountID=13", 403),
        ("admin", "&tenants=nobody", 400),
    ] {
        assert_eq!(fixture.read_as(token, &format!("{ALL}{query}")).await.0, status, "{query}");
    }
    // A list in the body would be read by nobody.
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let body = "query=*&tenants=*";
    let (status, _) = fixture.as_token("admin", "POST", "/select/logsql/query", &form, body).await;
    assert_eq!(status, 400);
    // Tables belong to all.
    let lookup = "* | lookup customers on (name)";
    for query in [lookup.to_owned(), format!("* | union ({lookup})")] {
        let query = encoded(&query);
        let path = format!("/select/logsql/query?query={query}");
        // An error of a query inside comes when rows were sent already.
        let (_, answer) = fixture.read_as("shop-reads", &path).await;
        assert!(answer.contains("no table"), "{answer}");
        let submit = format!("/api/v1/queries?query={query}");
        assert_eq!(fixture.as_token("shop-reads", "POST", &submit, &[], "").await.0, 400);
    }
    // What is made of the lines of all is closed to a tenant, and open to administrators.
    for path in [
        "/api/v1/status",
        "/metrics",
        "/api/v1/summary/types",
        "/api/v1/tenants",
        "/api/v1/lookups",
    ] {
        assert_eq!(fixture.read_as("shop-reads", path).await.0, 403, "{path}");
        assert_eq!(fixture.read_as("proxy-reads", path).await.0, 403, "{path}");
        assert_eq!(fixture.read_as("admin", path).await.0, 200, "{path}");
    }
}

/// A background query belongs to the token and to the tenant that it was asked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_proxy_finds_queries_of_one_tenant_only() {
    let fixture = fixture();
    let (shop, bank) = ([("AccountID", "12"), ("ProjectID", "3")], [("AccountID", "13")]);
    let line = "{\"_msg\":\"quincewort\"}\n";
    fixture.as_token("shop-writes", "POST", "/insert/jsonline", &[], line).await;
    let submit = "/api/v1/queries?query=*";
    let (status, answer) =
        fixture.as_token("proxy-reads", "POST", submit, &shop, Body::empty()).await;
    assert_eq!(status, 202, "{answer}");
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let id = answer["id"].as_str().unwrap().to_owned();
    while !fixture.app.queue.get(id.parse().unwrap()).unwrap().state.is_ended() {
        tokio::task::yield_now().await;
    }
    let results = format!("/api/v1/queries/{id}/results");
    let read = |headers| fixture.as_token("proxy-reads", "GET", &results, headers, Body::empty());
    assert!(read(&shop).await.1.contains("quincewort"));
    let (status, answer) = read(&bank).await;
    assert!(status >= 400 && !answer.contains("quincewort"), "{status} {answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_beyond_its_rate_is_pushed_back() {
    let limited = tenants(|all| all[0].lines_per_s = Some(1));
    let fixture = Fixture::of_tenants(limited, with_tokens);
    let lines = "{\"_msg\":\"a line\"}\n".repeat(1_000);
    let push = |token: &'static str| {
        fixture.as_token(token, "POST", "/insert/jsonline", &[], lines.clone())
    };
    assert_eq!(push("shop-writes").await.0, 200);
    let (status, answer) = push("shop-writes").await;
    assert!(status == 429 && answer.contains("lines_per_s"), "{status} {answer}");
    assert_eq!(push("bank-writes").await.0, 200);
    let (_, metrics) = fixture.read_as("admin", "/metrics").await;
    let refused = "loginson_tenant_requests_refused_total{tenant=\"12:3\"} 1";
    assert!(metrics.contains(refused), "{metrics}");
}

/// A deletion reaches the tenants that it names, and no others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_is_for_the_tenants_that_it_names() {
    let fixture = fixture();
    for (name, _, word) in TENANTS {
        let line = format!("{{\"_msg\":\"{word} line\"}}\n");
        fixture.as_token(&format!("{name}-writes"), "POST", "/insert/jsonline", &[], line).await;
    }
    for (query, expected) in [
        ("", "_tenant:=\"\" (line\n)"),
        ("&tenants=shop", "_tenant:=\"12:3\" (line\n)"),
        ("&tenants=*", "line"),
    ] {
        let path = format!("/api/v1/deletions?filter=line{query}");
        let (status, answer) = fixture.as_token("admin", "POST", &path, &[], Body::empty()).await;
        assert_eq!(status, 202, "{answer}");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(answer["filter"], expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_has_so_many_queries_at_once() {
    let limited = tenants(|all| all[0].queries_max = Some(1));
    let fixture = Fixture::of_tenants(limited, with_tokens);
    assert_eq!(fixture.read_as("shop-reads", ALL).await.0, 200);
    let shop = "12:3".parse().unwrap();
    let begun = fixture.pipeline.tenants.begin_query(shop, QueryKind::Awaited);
    let running = begun.unwrap();
    let (status, answer) = fixture.read_as("shop-reads", ALL).await;
    assert!(status == 429 && answer.contains("queries_max"), "{status} {answer}");
    assert_eq!(fixture.read_as("bank-reads", ALL).await.0, 200);
    drop(running);
    assert_eq!(fixture.read_as("shop-reads", ALL).await.0, 200);
}

/// Lines of a tenant, with times, fields and words of their own beside such as all have.
fn lines_of(tenant: usize, word: &str) -> String {
    let mut lines = String::new();
    for index in 0..60 {
        let second = index * 7 % 60;
        let level = ["info", "warn", "error"][(index + tenant) % 3];
        lines += &format!(
            "{{\"_time\":\"2026-10-11T22:{:02}:{second:02}Z\",\"_msg\":\"{word} took {} ms\",\
             \"level\":\"{level}\",\"app\":\"app{}\",\"host\":\"{word}{}\",\
             \"user\":\"u{}\",\"of_{word}\":\"{index}\"}}\n",
            index % 60,
            index * (tenant + 1),
            index % 2,
            index % 3,
            (index * (tenant + 2)) % 5,
        );
    }
    lines
}

/// Answers without what differs from run to run, arrays in any order.
fn canonical(text: &str) -> String {
    fn of(value: Value) -> Value {
        match value {
            Value::Array(items) => {
                let mut items: Vec<Value> = items.into_iter().map(of).collect();
                items.sort_by_key(Value::to_string);
                Value::Array(items)
            }
            Value::Object(members) => {
                let volatile = ["took", "stats", "_id", "_line_id", "_scroll_id", "id", "pit_id"];
                let kept = members.into_iter().filter(|(name, _)| !volatile.contains(&&**name));
                Value::Object(kept.map(|(name, value)| (name, of(value))).collect())
            }
            other => other,
        }
    }
    let line = |line: &str| match serde_json::from_str(line) {
        Ok(value) => of(value).to_string(),
        Err(_) => line.to_owned(),
    };
    let mut lines: Vec<String> = text.lines().map(line).collect();
    lines.sort();
    lines.join("\n")
}

const QUERIES: [&str; 27] = [
    "*",
    "error",
    "_tenant:=\"13:0\"",
    "_tenant:\"\"",
    "_tenant:* or *",
    "!_tenant:=\"12:3\"",
    "brackenfel or quincewort or hazelmoor",
    "host:~\"[a-z]+1\"",
    "level:error app:=app1",
    "of_brackenfel:*",
    "* | stats by (level) count() n",
    "* | stats by (_time:10m, app) count() n, count_uniq(user) u",
    "* | stats by (_tenant) count() n",
    "* | uniq by (host, _tenant)",
    "* | top 3 by (user)",
    "* | sort by (_time) | limit 5",
    "* | sort by (user, _time) desc | limit 7",
    "* | union (_tenant:=\"13:0\")",
    "user:in(_tenant:=\"13:0\" | fields user)",
    "* | join by (user) (* | fields user, host) prefix \"o.\" | stats count() n",
    "* | fields _tenant, host | limit 1000",
    "* | field_names",
    "* | facets",
    "_type:summary or *",
    "{_type=\"json\"}",
    "* | stream_context before 2 after 2 | stats count() n",
    "* | extract \"took <ms> ms\" | stats max(ms) m, sum(ms) s",
];

const PATHS: [&str; 21] = [
    "/select/logsql/query?query=",
    "/select/logsql/query?limit=10&query=",
    "/select/logsql/hits?step=10m&query=",
    "/select/logsql/hits?step=1h&field=level&query=",
    "/select/logsql/facets?query=",
    "/select/logsql/field_names?query=",
    "/select/logsql/field_values?field=host&query=",
    "/select/logsql/field_values?field=_tenant&query=",
    "/select/logsql/streams?query=",
    "/select/logsql/stream_ids?query=",
    "/select/logsql/stream_field_names?query=",
    "/select/logsql/stream_field_values?field=_type&query=",
    "/select/logsql/stats_query?time=4000000000&query=",
    "/select/logsql/stats_query_range?step=10m&query=",
    "/api/v1/export?format=raw&query=",
    "/api/v1/export?format=csv&query=",
    "/elastic/_search?size=20&q=",
    "/elastic/_count?q=",
    "/elastic/*/_search?size=0&q=",
    "/loki/api/v1/query_range?start=2026-10-11T00:00:00Z&end=2026-10-12T00:00:00Z&query=",
    "/loki/api/v1/labels?start=2026-10-11T00:00:00Z&end=2026-10-12T00:00:00Z&query=",
];

/// Calls without a query.
const OTHERS: [&str; 8] = [
    "/elastic/_mapping",
    "/elastic/_field_caps?fields=*",
    "/elastic/_cat/indices?format=json",
    "/loki/api/v1/labels",
    "/loki/api/v1/label/host/values",
    "/loki/api/v1/label/_tenant/values",
    "/loki/api/v1/index/volume?query=%7B_type%3D~%22.%2B%22%7D",
    "/loki/api/v1/detected_fields?query=%7B_type%3D~%22.%2B%22%7D",
];

fn encoded(text: &str) -> String {
    form_urlencoded::byte_serialize(text.as_bytes()).collect()
}

/// A server with the lines of all answers a tenant as one does that has no other lines.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_is_answered_as_if_there_were_no_other() {
    let (shared, mut alone) = (fixture(), Vec::new());
    for (number, (name, _, word)) in TENANTS.iter().enumerate() {
        let own = fixture();
        for fixture in [&shared, &own] {
            let (token, lines) = (format!("{name}-writes"), lines_of(number, word));
            let pushed = fixture.as_token(&token, "POST", "/insert/jsonline", &[], lines).await;
            assert_eq!(pushed.0, 200, "{}", pushed.1);
        }
        alone.push(own);
    }
    let mut calls: Vec<String> = OTHERS.map(str::to_owned).to_vec();
    for path in PATHS {
        for query in QUERIES {
            let query = match () {
                () if path.starts_with("/elastic") => query.split(" |").next().unwrap(),
                () if path.starts_with("/loki") => "{_type=~\".+\"}",
                () => query,
            };
            calls.push(format!("{path}{}", encoded(query)));
        }
    }
    calls.sort();
    calls.dedup();
    let mut answered = 0;
    for sealed in [false, true] {
        if sealed {
            shared.seal().await;
            for own in &alone {
                own.seal().await;
            }
        }
        for (number, (name, ..)) in TENANTS.iter().enumerate() {
            let token = format!("{name}-reads");
            for call in &calls {
                let found = shared.read_as(&token, call).await;
                let expected = alone[number].read_as(&token, call).await;
                assert_eq!(found.0, expected.0, "{call}: {} {}", found.1, expected.1);
                assert_eq!(canonical(&found.1), canonical(&expected.1), "{name}: {call}");
                for (other, _, word) in TENANTS {
                    // A message may repeat what was asked.
                    let is_told = found.1.contains(word) && found.0 == 200 && other != *name;
                    assert!(!is_told, "{name} sees {other}: {call}: {}", found.1);
                }
                answered += usize::from(found.0 == 200);
            }
        }
    }
    assert!(answered > 2_000, "{answered} calls were answered");
}
