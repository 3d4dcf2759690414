//! Limits of tenants: of queries, tails, background queries and disk; and what is a tenant's own:
//! dashboards, links, and the macros that are shared.

use node::ingest::tenants::{QueryKind, Tenants};
use query::macros::Macro;
use serde_json::Value;

use super::tenants::{TENANTS, fixture, tenants, with_tokens};
use super::*;

fn limited(
    change: impl FnOnce(&mut node::ingest::tenants::TenantOptions),
) -> (Arc<Tenants>, Fixture) {
    let tenants = tenants(|all| change(&mut all[0]));
    (Arc::clone(&tenants), Fixture::of_tenants(tenants, with_tokens))
}

impl Fixture {
    async fn send_for(&self, name: &str, lines: &str) {
        let token = format!("{name}-writes");
        let body = lines.to_owned();
        let sent = self.as_token(&token, "POST", "/insert/jsonline", &[], body).await;
        assert_eq!(sent.0, 200, "{}", sent.1);
    }

    async fn tenant(&self, id: &str) -> Value {
        let (status, listed) = self.read_as("admin", "/api/v1/tenants").await;
        assert_eq!(status, 200, "{listed}");
        let listed: Value = serde_json::from_str(&listed).unwrap();
        let all = listed["tenants"].as_array().unwrap();
        all.iter().find(|tenant| tenant["id"] == id).unwrap().clone()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tenant_has_so_many_tails_and_background_queries() {
    let (tenants, fixture) = limited(|shop| {
        shop.tails_max = Some(1);
        shop.background_max = Some(1);
        shop.results_bytes_max = Some(10);
    });
    fixture.send_for("shop", "{\"_msg\":\"quincewort\"}\n").await;
    let shop = "12:3".parse().unwrap();
    let tail = tenants.begin_query(shop, QueryKind::Tail).unwrap();
    assert_eq!(fixture.tenant("12:3").await["tails_now"], 1);
    let path = "/select/logsql/tail?query=*";
    let (status, answer) = fixture.read_as("shop-reads", path).await;
    assert!(status == 429 && answer.contains("tails_max of [[tenants]]"), "{status} {answer}");
    drop(tail);
    assert_eq!(tenants.queries_now(shop, QueryKind::Tail), 0);

    let submit = |token: &'static str| {
        let fixture = &fixture;
        async move {
            let call = "/api/v1/queries?query=*";
            let (status, answer) = fixture.as_token(token, "POST", call, &[], "").await;
            (status, serde_json::from_str::<Value>(&answer).unwrap_or(Value::String(answer)))
        }
    };
    // One waits behind another that is paused, so it has not ended.
    let (status, answer) = submit("shop-reads").await;
    assert_eq!(status, 202, "{answer}");
    let id = answer["id"].as_str().unwrap().to_owned();
    while !fixture.app.queue.get(id.parse().unwrap()).unwrap().state.is_ended() {
        tokio::task::yield_now().await;
    }
    while fixture.tenant("12:3").await["background_now"] != 0 {
        tokio::task::yield_now().await;
    }
    let used = fixture.tenant("12:3").await;
    assert!(used["results_bytes"].as_u64() > Some(10), "{used}");
    assert!(used["days"][0]["queries"].as_u64() >= Some(1), "{used}");
    let (status, answer) = submit("shop-reads").await;
    assert!(status == 429 && answer.to_string().contains("results_bytes_max of"), "{answer}");
    assert_eq!(submit("bank-reads").await.0, 202);
    let delete = format!("/api/v1/queries/{id}");
    assert_eq!(fixture.as_token("shop-reads", "DELETE", &delete, &[], "").await.0, 200);
    assert_eq!(submit("shop-reads").await.0, 202);
    assert_eq!(fixture.tenant("12:3").await["queries_refused"], 2);
}

/// The check and the acceptance are one step: of many at once, as many are taken as there may be.
#[test]
fn background_queries_are_counted_and_accepted_in_one_step() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let _guard = runtime.enter();
    let fixture = Fixture::new(|_| {});
    let jobs = Arc::clone(fixture.app.jobs().unwrap());
    let submission = || Submission {
        query: "*".into(),
        now_ns: 0,
        start_ns: i64::MIN,
        end_ns: i64::MAX,
        limit: None,
        format: "json".into(),
        include: Vec::new(),
        run_time_ms: 60_000,
        client: "a test".into(),
        seen: String::new(),
        tenant: "12:3".into(),
        memory_bytes_max: Some(1 << 20),
        own: OwnLimits::default(),
    };
    for most in [1, 3] {
        let seen = std::sync::Mutex::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let _ = jobs.submit_if(submission(), |queries, _| {
                        let mut seen = seen.lock().unwrap();
                        *seen = (*seen).max(queries);
                        if queries < most { Ok(()) } else { Err(()) }
                    });
                });
            }
        });
        assert!(*seen.lock().unwrap() <= most);
    }
}

/// The error of a background query that a call submits.
async fn background_error(fixture: &Fixture, token: &str, query: &str) -> String {
    let call = format!("/api/v1/queries?query={query}");
    let (status, answer) = fixture.as_token(token, "POST", &call, &[], "").await;
    assert_eq!(status, 202, "{answer}");
    let answer: Value = serde_json::from_str(&answer).unwrap();
    let id = answer["id"].as_str().unwrap().parse().unwrap();
    loop {
        match fixture.app.queue.get(id).unwrap() {
            info if info.state.is_ended() => return info.error.unwrap_or_default(),
            _ => tokio::task::yield_now().await,
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_of_a_user_hold_for_background_queries() {
    let limited = |memory_bytes_max, rows_max| {
        Fixture::of_tenants(tenants(|_| {}), move |options| {
            with_tokens(options);
            let limits = &mut options.access.limits;
            (limits.memory_bytes_max, limits.rows_max) = (memory_bytes_max, rows_max);
        })
    };
    let lines: String = (0..2_000).map(|n| format!("{{\"_msg\":\"line {n}\"}}\n")).collect();
    let counts = "*|stats+by+(_msg)+count()+n";
    let fixture = limited(Some(1_000), None);
    fixture.send_for("shop", &lines).await;
    let error = background_error(&fixture, "shop-reads", counts).await;
    assert!(error.contains("the limit memory_bytes_max of this user"), "{error}");
    let fixture = limited(None, Some(5));
    fixture.send_for("shop", &lines).await;
    for query in ["*", counts] {
        let error = background_error(&fixture, "shop-reads", query).await;
        assert!(error.contains("more than 5 rows"), "{error}");
        assert!(error.contains("the limit rows_max of this user"), "{error}");
    }
    assert_eq!(background_error(&fixture, "shop-reads", "*|limit+5").await, "");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_memory_of_a_query_is_that_of_its_tenant() {
    let (_, fixture) = limited(|shop| shop.query_memory_bytes_max = Some(1_000));
    for name in ["shop", "bank"] {
        let lines: String =
            (0..2_000).map(|n| format!("{{\"_msg\":\"line {n} of many\"}}\n")).collect();
        fixture.send_for(name, &lines).await;
    }
    let path = "/select/logsql/stats_query?query=*|stats+by+(_msg)+count()+n";
    let (status, answer) = fixture.read_as("shop-reads", path).await;
    assert_eq!(status, 429, "{answer}");
    assert!(answer.contains("query_memory_bytes_max of the tenant"), "{answer}");
    let error = background_error(&fixture, "shop-reads", "*|stats+by+(_msg)+count()+n").await;
    assert!(error.contains("query_memory_bytes_max of the tenant"), "{error}");
    assert_eq!(fixture.read_as("bank-reads", path).await.0, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_oldest_lines_of_a_tenant_beyond_its_disk_go() {
    let (_, fixture) = limited(|shop| shop.disk_bytes_max = Some(1));
    let shop: ::record::Tenant = "12:3".parse().unwrap();
    for round in 0..2 {
        for (name, _, word) in TENANTS {
            let line = |n: usize| format!("{{\"_msg\":\"{word} {round} {n}\"}}\n");
            let lines: String = (0..if name == "shop" { 3 } else { 200 }).map(line).collect();
            fixture.send_for(name, &lines).await;
        }
        // Rows of the summary may come at any time, so only these lines are waited for.
        let store = fixture.pipeline.store();
        store.roll();
        let sealed = || {
            let mut held = store::Holdings::default();
            store.holdings(&mut held);
            held.all().filter(|of| of.tenant == shop).map(|of| of.lines).sum::<u64>()
        };
        while sealed() < 3 * (round + 1) {
            tokio::task::yield_now().await;
        }
    }
    let count = |token: &'static str| {
        let fixture = &fixture;
        async move {
            let (_, answer) = fixture.read_as(token, "/select/logsql/query?query=*").await;
            answer.lines().count()
        }
    };
    assert_eq!(count("shop-reads").await, 6);
    let before = fixture.tenant("12:3").await;
    assert_eq!(before["is_near_disk_limit"], true, "{before}");
    // The call looked at the limit, and what is beyond it goes in the background.
    let newest = |answer: &str| answer.lines().all(|line| line.contains("quincewort 1"));
    loop {
        let (_, answer) = fixture.read_as("shop-reads", "/select/logsql/query?query=*").await;
        if newest(&answer) {
            assert_eq!(answer.lines().count(), 3, "{answer}");
            break;
        }
        tokio::task::yield_now().await;
    }
    assert_eq!((count("bank-reads").await, count("default-reads").await), (400, 400));
    let after = fixture.tenant("12:3").await;
    assert_eq!((&after["lines_evicted"], &after["lines_kept"]), (&3.into(), &3.into()), "{after}");
    let (_, metrics) = fixture.read_as("admin", "/metrics").await;
    for sample in [
        "loginson_tenant_lines_evicted_total{tenant=\"12:3\"} 3",
        "loginson_tenant_lines_evicted_total{tenant=\"13:0\"} 0",
        "loginson_tenant_disk_bytes_max{tenant=\"12:3\"} 1",
    ] {
        assert!(metrics.contains(sample), "{sample}: {metrics}");
    }
}

/// What was used is known after a restart, and a damaged file does not end the start.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_tenants_used_survives_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let kept = || Arc::new(node::data_dir::DocumentFolder::new(dir.path()));
    let gate = || {
        let gate = Gate::new(&AccessOptions::default(), ADDRESS, false);
        gate.keep_in(kept()).unwrap();
        gate.set_tenants(tenants(|_| {})).unwrap();
        gate
    };
    let shop: ::record::Tenant = "12:3".parse().unwrap();
    let first = gate();
    first.tenants().unwrap().note_query(shop, 86_400_000_000_000, 7, 70);
    first.save_days();
    let second = gate();
    let days = second.tenants().unwrap().days(shop);
    assert_eq!((days[&1].queries, days[&1].lines_scanned, days[&1].bytes_scanned), (1, 7, 70));
    std::fs::write(dir.path().join(node::data_dir::TENANTS_FILE), "{").unwrap();
    assert!(gate().tenants().unwrap().days(shop).is_empty());
    assert!(node::data_dir::is_state("tenants.json"), "backups have it");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dashboards_and_links_are_those_of_a_tenant() {
    let fixture = fixture();
    let (shop, bank) = ([("AccountID", "12"), ("ProjectID", "3")], [("AccountID", "13")]);
    let call = |token: &'static str, method: &'static str, path: String, headers, body: String| {
        let fixture = &fixture;
        async move {
            let (status, answer) = fixture.as_token(token, method, &path, headers, body).await;
            (status, answer)
        }
    };
    let put = "/api/v1/dashboards/web";
    for (headers, title) in [(&shop[..], "quincewort"), (&bank, "brackenfel"), (&[], "hazelmoor")] {
        let body = format!("{{\"title\":\"{title}\",\"version\":0,\"panels\":[]}}");
        let (status, answer) = call("admin", "PUT", put.into(), headers, body).await;
        assert_eq!(status, 200, "{answer}");
    }
    for (token, headers, title) in [
        ("shop-reads", &[][..], "quincewort"),
        ("bank-reads", &[], "brackenfel"),
        ("proxy-reads", &shop, "quincewort"),
        ("admin", &[], "hazelmoor"),
        ("admin", &bank, "brackenfel"),
    ] {
        for path in ["/api/v1/dashboards", put] {
            let (status, answer) = call(token, "GET", path.into(), headers, String::new()).await;
            assert_eq!(status, 200, "{answer}");
            for (_, _, word) in TENANTS {
                assert_eq!(answer.contains(word), word == title, "{token} {path}: {answer}");
            }
        }
        let (status, _) = call(token, "PUT", put.into(), headers, "{}".into()).await;
        assert_eq!(status, if token == "admin" { 400 } else { 403 }, "{token}");
    }
    // Those of the default tenant are not those of all.
    let (_, answer) = fixture.read_as("unsaid-reads", "/api/v1/dashboards").await;
    assert!(!answer.contains("hazelmoor"), "{answer}");
    assert_eq!(fixture.read_as("unsaid-reads", put).await.0, 404);
    let (status, _) = call("admin", "DELETE", put.into(), &shop, String::new()).await;
    assert_eq!(status, 200);
    assert_eq!(fixture.read_as("shop-reads", put).await.0, 404);
    assert_eq!(fixture.read_as("bank-reads", put).await.0, 200);

    let address = "?query=quincewort".to_owned();
    let (status, link) = call("shop-reads", "POST", "/api/v1/links".into(), &[], address).await;
    assert_eq!(status, 200, "{link}");
    let link: Value = serde_json::from_str(&link).unwrap();
    let path = format!("/api/v1/links/{}", link["id"].as_str().unwrap());
    assert_eq!(fixture.read_as("shop-reads", &path).await.0, 200);
    for token in ["bank-reads", "unsaid-reads", "admin", "proxy-reads"] {
        assert_eq!(fixture.read_as(token, &path).await.0, 404, "{token}");
    }
    assert_eq!(call("admin", "GET", path, &shop, String::new()).await.0, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_bound_caller_calls_macros_that_are_shared() {
    let fixture = fixture();
    // Macros are those of the process; other tests of this crate have none of the configuration.
    let made = |name: &str, text: &str, is_shared| {
        Macro::new(name, Vec::new(), text, "").unwrap().shared(is_shared)
    };
    query::macros::set_configured(vec![
        made("tenant_secret", "brackenfel", false),
        made("tenant_shared", "quincewort", true),
        made("tenant_outer", "@tenant_secret()", true),
    ]);
    fixture.send_for("shop", "{\"_msg\":\"quincewort and brackenfel\"}\n").await;
    for (name, status) in [("secret", 400), ("outer", 400), ("shared", 200)] {
        for (method, path) in [
            ("GET", "/select/logsql/query?query="),
            ("GET", "/select/logsql/explain?query="),
            ("GET", "/select/logsql/hits?step=1d&query="),
            ("GET", "/api/v1/export?format=jsonl&query="),
            ("POST", "/api/v1/queries?query="),
            ("GET", "/select/logsql/query?query=*|filter+"),
            ("GET", "/select/logsql/query?query=a:in(@tenant_shared()|fields+a)+or+"),
        ] {
            let call = format!("{path}@tenant_{name}()");
            let (found, answer) = fixture.as_token("shop-reads", method, &call, &[], "").await;
            let is_taken = (200..300).contains(&found);
            assert_eq!(is_taken, status == 200, "{call}: {found} {answer}");
            if !is_taken {
                assert!(answer.contains("there is no macro @tenant_"), "{call}: {answer}");
                assert!(!answer.contains("brackenfel"), "{call}: {answer}");
            }
            let (found, answer) = fixture.as_token("admin", method, &call, &[], "").await;
            assert!((200..300).contains(&found), "{call}: {found} {answer}");
        }
    }
    let (_, listed) = fixture.read_as("shop-reads", "/api/v1/macros").await;
    let secret = "\"name\":\"tenant_secret\"";
    assert!(listed.contains("tenant_shared") && !listed.contains(secret), "{listed}");
    let (_, listed) = fixture.read_as("admin", "/api/v1/macros").await;
    assert!(listed.contains(secret), "{listed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_loki_push_and_query_for_a_tenant() {
    let fixture = fixture();
    let push = |token: &'static str, org: &'static str, word: &str| {
        let body = format!(
            "{{\"streams\":[{{\"stream\":{{\"app\":\"a\"}},\
             \"values\":[[\"1790000000000000000\",\"{word} line\"]]}}]}}"
        );
        let fixture = &fixture;
        async move {
            let headers = [("content-type", "application/json"), ("X-Scope-OrgID", org)];
            let headers = if org.is_empty() { &headers[..1] } else { &headers[..] };
            fixture.as_token(token, "POST", "/loki/api/v1/push", headers, body).await
        }
    };
    for (token, org, word, status) in [
        ("proxy-writes", "shop", "quincewort", 204),
        ("proxy-writes", "13:0", "brackenfel", 204),
        ("proxy-writes", "", "hazelmoor", 204),
        ("shop-writes", "shop", "quincewort", 204),
        ("shop-writes", "bank", "quincewort", 403),
        ("proxy-writes", "nobody", "quincewort", 400),
        ("proxy-writes", "shop|bank", "quincewort", 403),
    ] {
        let (found, answer) = push(token, org, word).await;
        assert_eq!(found, status, "{token} {org}: {answer}");
    }
    let path = "/loki/api/v1/query_range?start=1789999999&end=1790000001&query=%7Bapp%3D%22a%22%7D";
    for (token, org, status, seen) in [
        ("proxy-reads", "shop", 200, &["shop"][..]),
        ("proxy-reads", "bank", 200, &["bank"]),
        ("proxy-reads", "", 200, &["default"]),
        ("proxy-reads", "shop|bank", 403, &[]),
        ("shop-reads", "shop", 200, &["shop"]),
        ("shop-reads", "bank", 403, &[]),
        ("unsaid-reads", "shop", 403, &[]),
        ("admin", "shop|13:0", 200, &["shop", "bank"]),
        ("admin", "gone", 400, &[]),
    ] {
        let headers = [("X-Scope-OrgID", org)];
        let headers = if org.is_empty() { &[][..] } else { &headers };
        let (found, answer) = fixture.as_token(token, "GET", path, headers, "").await;
        assert_eq!(found, status, "{token} {org}: {answer}");
        for (name, _, word) in TENANTS {
            assert_eq!(answer.contains(word), seen.contains(&name), "{token} {org}: {answer}");
        }
    }
}
