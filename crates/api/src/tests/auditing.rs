//! The audit log: what it says, and that nobody but an auditor reads it, wherever lines are read.

use std::collections::BTreeSet;

use ::sinks::config::{DestinationOptions, Sink};
use ::sinks::{FileOptions, FileRejectsOptions, Rotation, RunnerOptions};
use axum::http::header::AUTHORIZATION;
use node::cluster::message::{Message, ShareRequest};
use node::cluster::node::HANDED_ON;
use node::sinks::config::{Of, SinkOptions};
use query::SharePiece;
use serde_json::Value;

use super::gate::{bearer, with_access};
use super::*;
use crate::access::audit_log::{AuditLog, Entry};
use crate::access::gate::Auditing;
use crate::access::principal::Role;

/// A word that occurs in lines of the audit log alone.
const SECRET: &str = "zebra";
/// Selects the first entries, and not those about queries for them.
const FIRST: &str = "user:=zebra";

/// A server with an audit log, a user and a token of every role, and some lines of both kinds.
fn audited(auditing: Auditing) -> Fixture {
    let fixture = Fixture::new(|options| {
        with_access(options);
        options.auditing = auditing;
    });
    fixture.app.gate().set_auditing(auditing).unwrap();
    let log = AuditLog::start(Arc::clone(&fixture.pipeline.audit_rows)).unwrap();
    for _ in 0..3 {
        log.add(Entry::new("query", SECRET).with("user", SECRET).with("query", SECRET));
    }
    settle(&log, 3);
    fixture.app.gate().audit_to(log);
    fixture.push(b"{\"user\":\"ann\",\"app\":\"shop\",\"_msg\":\"a line\"}\n");
    fixture
}

const ON: Auditing = Auditing { enabled: true, admins_read: false };

/// Waits until so many entries are durable.
fn settle(log: &AuditLog, entries: u64) {
    while log.written() < entries {
        std::thread::yield_now();
    }
}

impl Fixture {
    /// The answer of a call by a token of that role.
    async fn as_role(&self, role: Role, method: &str, path: &str) -> (u16, String) {
        let request = Request::builder().method(method).uri(path).header("host", "localhost");
        let response =
            self.answer(request.header(AUTHORIZATION, bearer(role)).body(Body::empty())).await;
        (response.status().as_u16(), text(response).await)
    }

    /// The entries of the audit log that a filter selects, as an auditor reads them.
    async fn entries(&self, filter: &str) -> Vec<Value> {
        let query = format!("/select/logsql/query?query=_type:=audit+{filter}");
        let (status, answer) = self.as_role(Role::Auditor, "GET", &query).await;
        assert_eq!(status, 200, "{answer}");
        answer.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// Calls that read lines and name the audit log, in every way to name it.
fn calls() -> Vec<String> {
    let mut calls = Vec::new();
    let queries = [
        "_type:audit",
        "_type:=audit",
        "_type:in(audit,x)",
        "_type:audit+or+*",
        "_type:summary+or+*",
        "!_type:!audit",
        "*+|+union+(_type:audit)",
        "*+|+join+by+(none)+(_type:audit+|+fields+user,none)",
        "app:shop+|+stats+by+(user)+count()+if+(user:in(_type:audit+|+fields+user))+n",
        "*+|+filter+user:in(_type:audit+|+fields+user)",
        "*+|+stream_context+before+100+after+100",
        "{_type=\"audit\"}",
        "_stream:{_type=\"audit\"}",
        "_type:~aud.*",
        "_type:aud*",
    ];
    for query in queries {
        let query = query.replace('{', "%7B").replace('}', "%7D").replace('"', "%22");
        let query = query.replace('|', "%7C").replace('=', "%3D");
        for path in [
            "/select/logsql/query?",
            "/select/logsql/hits?field=user&step=1h&",
            "/select/logsql/facets?",
            "/select/logsql/field_names?",
            "/select/logsql/field_values?field=user&",
            "/select/logsql/streams?",
            "/select/logsql/stream_ids?",
            "/select/logsql/stream_field_names?",
            "/select/logsql/stream_field_values?field=_type&",
            "/select/logsql/explain?",
            "/api/v1/export?format=raw&",
            "/api/v1/export?format=csv&",
        ] {
            calls.push(format!("{path}query={query}"));
        }
        let stats = format!("{query}+%7C+stats+by+(user)+count()+n");
        calls.push(format!("/select/logsql/stats_query?query={stats}"));
        calls.push(format!("/select/logsql/stats_query_range?step=1h&query={stats}"));
    }
    let selector = "%7B_type%3D%22audit%22%7D";
    for path in [
        "/loki/api/v1/query_range?query=",
        "/loki/api/v1/query?query=",
        "/loki/api/v1/series?match%5B%5D=",
        "/loki/api/v1/labels?query=",
        "/loki/api/v1/label/user/values?query=",
        "/loki/api/v1/detected_fields?query=",
        "/loki/api/v1/patterns?query=",
        "/loki/api/v1/index/volume?query=",
        "/loki/api/v1/index/stats?query=",
    ] {
        calls.push(format!("{path}{selector}"));
    }
    for path in [
        "/elastic/_search?q=_type:audit",
        "/elastic/audit/_search",
        "/elastic/_count?q=_type:audit",
        "/elastic/_field_caps?fields=*",
        "/elastic/_mapping",
        "/elastic/_cat/indices",
        "/api/v1/summary/types",
        "/api/v1/summary",
        "/api/v1/summary/rows",
        "/api/v1/alerts/history",
        "/api/v1/programs",
        "/api/v1/status",
        "/metrics",
    ] {
        calls.push(path.to_owned());
    }
    calls
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_an_auditor_reads_it() {
    let fixture = audited(ON);
    assert_eq!(fixture.entries(FIRST).await.len(), 3);
    // Its lines are found by their numbers, too.
    let with_id = "/select/logsql/query?include=_line_id&query=_type:=audit+user:=zebra";
    let (_, lines) = fixture.as_role(Role::Auditor, "GET", with_id).await;
    let line: Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
    let id = line["_line_id"].as_str().unwrap();
    let context = format!("/api/v1/context?id={id}");
    let document = format!("/elastic/audit/_doc/{id}");
    let mut calls = calls();
    calls.extend([context.clone(), document]);
    let mut seen_by_auditor = BTreeSet::new();
    for call in &calls {
        let (status, answer) = fixture.as_role(Role::Auditor, "GET", call).await;
        // The audit log itself says what was asked; only the texts of these entries count.
        if status == 200 && answer.contains(SECRET) {
            seen_by_auditor.insert(call.split('?').next().unwrap().to_owned());
        }
        for role in [Role::Read, Role::Node, Role::Operate, Role::Admin] {
            let (_, answer) = fixture.as_role(role, "GET", call).await;
            assert!(!answer.contains(SECRET), "{call} as {}: {answer}", role.name());
        }
    }
    // The calls do read lines of the audit log where they may.
    for path in ["/select/logsql/query", "/api/v1/export"] {
        assert!(seen_by_auditor.contains(path), "{seen_by_auditor:?}");
    }
    assert_eq!(fixture.as_role(Role::Read, "GET", &context).await.0, 404);
}

/// The lines of a share that a caller of that role asks for, as they travel between nodes.
async fn share(fixture: &Fixture, role: Role, share: &ShareRequest) -> Vec<u8> {
    let request = Request::post("/api/v1/shares").header("host", "localhost");
    let request = request.header(AUTHORIZATION, bearer(role));
    let body = Body::from(serde_json::to_vec(share).unwrap());
    let answer = fixture.answer(request.body(body)).await;
    assert_eq!(answer.status(), StatusCode::OK, "{}", role.name());
    let body = to_bytes(answer.into_body(), usize::MAX).await.unwrap();
    let (mut rest, mut lines) = (&body[..], Vec::new());
    while !rest.is_empty() {
        if let Message::Piece(SharePiece::Lines(piece, _)) = Message::read(&mut rest).unwrap() {
            lines.extend(piece);
        }
    }
    lines
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_do_not_read_it_by_shares() {
    let fixture = audited(ON);
    let id_of = |line: &str| -> ::record::LineId {
        let line: Value = serde_json::from_str(line).unwrap();
        line["_line_id"].as_str().unwrap().parse().unwrap()
    };
    let found = |query: &str| format!("/select/logsql/query?include=_line_id&query={query}");
    let of_audit = found("_type:=audit+user:=zebra");
    let (_, lines) = fixture.as_role(Role::Auditor, "GET", &of_audit).await;
    let secret = id_of(lines.lines().next().unwrap());
    let (_, lines) = fixture.as_role(Role::Read, "GET", &found("app:shop")).await;
    let sent = id_of(lines.lines().next().unwrap());
    let time = Duration::from_secs(60);
    let has =
        |bytes: &[u8], word: &str| bytes.windows(word.len()).any(|part| part == word.as_bytes());
    for (role, sees) in [(Role::Node, true), (Role::Operate, false), (Role::Admin, false)] {
        let of_line = share(&fixture, role, &ShareRequest::line(secret, time)).await;
        assert_eq!(has(&of_line, SECRET), sees, "{}", role.name());
        let of_line = share(&fixture, role, &ShareRequest::line(sent, time)).await;
        assert!(has(&of_line, "a line"), "{}", role.name());
        let frames = (secret.sequence, secret.sequence);
        let frames = ShareRequest::frames(secret.node, frames, time);
        let of_frames = share(&fixture, role, &frames).await;
        assert!(sees || !has(&of_frames, SECRET), "{}", role.name());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn administrators_read_it_if_configured() {
    let query = "/select/logsql/query?query=_type:=audit+user:=zebra";
    for (auditing, sees) in [(ON, false), (Auditing { admins_read: true, ..ON }, true)] {
        let fixture = audited(auditing);
        let (_, answer) = fixture.as_role(Role::Admin, "GET", query).await;
        assert_eq!(answer.contains(SECRET), sees);
        let (_, answer) = fixture.as_role(Role::Operate, "GET", query).await;
        assert!(!answer.contains(SECRET));
        // Switched off, its lines stay where they are, and hidden.
        fixture.app.gate().set_auditing(Auditing::default()).unwrap();
        let (_, answer) = fixture.as_role(Role::Read, "GET", query).await;
        assert!(!answer.contains(SECRET));
        assert_eq!(fixture.entries(FIRST).await.len(), 3);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_of_an_auditor_s_background_query_are_the_auditor_s() {
    let fixture = audited(ON);
    let submit = "/api/v1/queries?query=_type:=audit+user:=zebra";
    let mut ids = Vec::new();
    for (role, query) in [(Role::Auditor, submit), (Role::Read, "/api/v1/queries?query=line")] {
        let (status, answer) = fixture.as_role(role, "POST", query).await;
        assert_eq!(status, 202, "{answer}");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        let id = answer["id"].as_str().unwrap().to_owned();
        while !fixture.app.queue.get(id.parse().unwrap()).unwrap().state.is_ended() {
            tokio::task::yield_now().await;
        }
        ids.push(format!("/api/v1/queries/{id}/results"));
    }
    let (status, rows) = fixture.as_role(Role::Auditor, "GET", &ids[0]).await;
    assert!(status == 200 && rows.contains(SECRET), "{rows}");
    for role in [Role::Operate, Role::Admin] {
        let (status, rows) = fixture.as_role(role, "GET", &ids[0]).await;
        assert!(status == 403 && !rows.contains(SECRET), "{rows}");
        assert_eq!(fixture.as_role(role, "GET", &ids[1]).await.0, 200);
    }
    // Nor does it help to write the header of calls that nodes hand on to each other.
    for role in [Role::Node, Role::Operate, Role::Admin] {
        let request = Request::get(ids[0].as_str()).header("host", "localhost");
        let request = request.header(HANDED_ON, "1").header(AUTHORIZATION, bearer(role));
        let answer = fixture.answer(request.body(Body::empty())).await;
        assert_eq!(answer.status(), StatusCode::FORBIDDEN, "{}", role.name());
        assert!(!text(answer).await.contains(SECRET));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_says_who_read_what_and_who_was_denied() {
    let fixture = audited(ON);
    let query = "/select/logsql/query?query=app:shop&start=2020-01-01T00:00:00Z";
    assert_eq!(fixture.as_role(Role::Read, "GET", query).await.0, 200);
    assert_eq!(fixture.as_role(Role::Read, "POST", "/api/v1/seal").await.0, 403);
    assert_eq!(fixture.as_role(Role::Operate, "POST", "/api/v1/seal").await.0, 202);
    let log = fixture.app.gate().audit().unwrap();
    settle(&log, 6);
    let found = fixture.entries("event:=query+user:=%22read-token%22").await;
    let [entry] = &found[..] else { panic!("{found:?}") };
    for (field, expected) in [
        ("query", "app:shop"),
        ("kind", "query"),
        ("state", "done"),
        ("role", "read"),
        ("address", "127.0.0.1"),
        ("rows", "1"),
    ] {
        assert_eq!(entry[field], expected, "{entry}");
    }
    assert!(entry["start"].as_str().unwrap().starts_with("2020-01-01") && entry["end"].is_null());
    let denied = fixture.entries("event:=denied").await;
    assert!(denied.len() == 1 && denied[0]["call"].as_str().unwrap().contains("/api/v1/seal"));
    assert_eq!(denied[0]["user"], "read-token");
    assert_eq!(denied[0]["role"], "read");
    let changed = fixture.entries("event:=change").await;
    assert!(changed.len() == 1 && changed[0]["user"] == "operate-token", "{changed:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_deletion_and_no_sender_reaches_it() {
    use ::record::{Format, FrameBuilder, Hints, Origin, Transport};
    let fixture = audited(ON);
    let batch_of = |log_type: &str| {
        let hints = Hints { log_type: Some(log_type.to_owned()), ..Hints::default() };
        let internal = Origin::new(Transport::Internal, Format::Json, None);
        let origin = Origin { hints: Arc::new(hints), ..internal };
        let mut frame = FrameBuilder::new();
        frame.push_line(&origin, 1, b"{\"user\":\"zebra\"}", false);
        fixture.pipeline.parsers().parse(Arc::new(frame.finish(0, 0).unwrap()))
    };
    let (audit, summary) = (Arc::new(batch_of("audit")), Arc::new(batch_of("summary")));
    for (filter, of_summary) in [
        ("_type:=audit", false),
        ("zebra", false),
        ("*", false),
        ("_type:in(audit,summary)", true),
        ("_type:summary or user:zebra", true),
    ] {
        let filter = node::storage::line_filter::line_filter(filter, 0).unwrap();
        assert_eq!((filter.selects)(&audit), [false]);
        assert_eq!((filter.selects)(&summary), [of_summary]);
    }
    let insert = "/insert/lines?type=audit";
    assert_eq!(fixture.as_role(Role::Admin, "POST", insert).await.0, 400);
}

/// A sink of lines to a file.
fn sink(name: &str, filter: &str, path: &std::path::Path) -> SinkOptions {
    let rotation = Rotation {
        file_bytes_max: 1 << 20,
        file_age_max: None,
        rotated_files_max: None,
        is_compressed: false,
    };
    let file = FileOptions {
        path: path.to_owned(),
        rotation,
        id_field: None,
        time_field: "_time".to_owned(),
    };
    let sink = Sink {
        name: name.to_owned(),
        runner: RunnerOptions::default(),
        rejects: FileRejectsOptions::default(),
        destination: DestinationOptions::Files(Box::new(file)),
    };
    SinkOptions { sink, kind: "file", of: Of::Lines(filter.to_owned()), from_beginning: false }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_sink_sends_it_if_its_filter_names_it() {
    let out = tempfile::tempdir().unwrap();
    let path = |name: &str| out.path().join(name);
    let sinks = [("audit", "_type:=audit"), ("both", "_type:=audit or *"), ("all", "*")];
    let fixture = Fixture::of_node(
        |node| node.sinks = sinks.map(|(name, filter)| sink(name, filter, &path(name))).into(),
        |options| {
            with_access(options);
            options.auditing = ON;
        },
    );
    fixture.app.gate().set_auditing(ON).unwrap();
    let log = AuditLog::start(Arc::clone(&fixture.pipeline.audit_rows)).unwrap();
    fixture.app.gate().audit_to(log.clone());
    let login = Request::post("/api/v1/login").header("host", "localhost");
    let login = login.header("content-type", "application/x-www-form-urlencoded");
    let answer = fixture.answer(login.body("name=read&password=correct+horse".into())).await;
    assert!(!answer.status().is_client_error(), "{}", answer.status());
    settle(&log, 1);
    // It arrives behind the entry: a sink that has it has passed the entry.
    fixture.push(b"{\"_msg\":\"a line\"}\n{\"_type\":\"audit\",\"_msg\":\"forged\"}\n");
    let sent = |name: &str| -> Vec<Value> {
        let text = std::fs::read_to_string(path(name)).unwrap_or_default();
        // The last line may be half written.
        let whole = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        whole.map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let begun = std::time::Instant::now();
    let expected = [("audit", 1), ("both", 3), ("all", 2)];
    while expected.iter().any(|&(name, lines)| sent(name).len() < lines) {
        let found = sinks.map(|(name, _)| sent(name));
        assert!(begun.elapsed() < Duration::from_secs(60), "{found:?}");
        tokio::task::yield_now().await;
    }
    let is_login = |line: &Value| line["event"] == "login" && line["user"] == "read";
    let [entry] = &sent("audit")[..] else { panic!("{:?}", sent("audit")) };
    assert!(is_login(entry) && entry["_type"] == "audit", "{entry}");
    assert_eq!(sent("both").iter().filter(|line| is_login(line)).count(), 1);
    let all = sent("all");
    assert!(all.len() == 2 && all.iter().all(|line| line["_type"] != "audit"), "{all:?}");
    // What a destination rejects of it is read by an auditor alone.
    for (role, name, expected) in [
        (Role::Auditor, "audit", 200),
        (Role::Read, "audit", 403),
        (Role::Operate, "audit", 403),
        (Role::Operate, "both", 403),
        (Role::Admin, "both", 403),
        (Role::Operate, "all", 200),
    ] {
        let path = format!("/api/v1/sinks/{name}/rejected");
        let (status, answer) = fixture.as_role(role, "GET", &path).await;
        assert_eq!(status, expected, "{name} as {}: {answer}", role.name());
    }
    let path = "/api/v1/sinks/audit/rejected/file";
    assert_eq!(fixture.as_role(Role::Operate, "GET", path).await.0, 403);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_of_alerts_do_not_see_it() {
    let fixture = audited(ON);
    let lines = node::cluster::QueriedLines::Own(fixture.pipeline.stored.clone());
    let (memory, limits) = (Arc::clone(fixture.app.memory()), query::Limits::default());
    let engine = node::alerts::engine::StoreEngine::new(lines, memory, limits, Arc::default());
    let count = |expr: &str| {
        use ::alerts::Engine;
        let hour = Duration::from_secs(3_600);
        let rows = engine.rows(expr, crate::wire::clock::now_ns() + 1, hour, 10).unwrap();
        rows.iter().map(|row| row.value).sum::<f64>()
    };
    assert_eq!(count("_type:=audit | stats count() n"), 0.0);
    assert_eq!(count("user:ann | stats count() n"), 1.0);
}
