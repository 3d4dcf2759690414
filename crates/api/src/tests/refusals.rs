//! What callers are refused: more than their share of asynchronous searches, lines as they were
//! sent where fields are hidden, and texts that are wrong.

use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use serde_json::Value;

use super::accounts::Memory;
use super::gate::{bearer, digest_of, with_access};
use super::*;
use crate::access::principal::Role;
use crate::access::rights::RightsText;
use crate::access::users::Token;

/// Beside the callers of all roles: `one` and `two` and `three`, who read, and `limited`, from whom
/// a field is hidden.
fn fixture() -> Fixture {
    Fixture::new(|options| {
        with_access(options);
        let hidden =
            RightsText { hide_fields: vec!["secret".into()], ..RightsText::of_role("read") };
        for (name, rights) in [
            ("one", RightsText::of_role("read")),
            ("two", RightsText::of_role("read")),
            ("three", RightsText::of_role("read")),
            ("limited", hidden),
        ] {
            let rights = rights.checked().unwrap();
            options.access.tokens.push(Token::new(name.into(), digest_of(name), rights));
        }
    })
}

impl Fixture {
    /// The status and the text of the answer to a call with a secret and a form.
    async fn told(&self, secret: &str, call: &str, form: &str) -> (u16, String) {
        let (method, path) = call.split_once(' ').unwrap();
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
        request = request.header(AUTHORIZATION, secret);
        if form.starts_with('{') {
            request = request.header(CONTENT_TYPE, "application/json");
        } else if !form.is_empty() {
            request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        }
        let response = self.answer(request.body(Body::from(form.to_owned()))).await;
        (response.status().as_u16(), text(response).await)
    }
}

const SEARCH: &str =
    "POST /elastic/_async_search?wait_for_completion_timeout=10m&keep_on_completion=true";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_has_all_asynchronous_searches() {
    let fixture = fixture();
    let search = |caller: &'static str| {
        let fixture = &fixture;
        async move {
            let (status, answer) =
                fixture.told(&format!("Bearer {caller}"), SEARCH, "{\"size\":0}").await;
            let answer: Value = serde_json::from_str(&answer).unwrap();
            (status, answer)
        }
    };
    let mut first = String::new();
    for caller in ["one", "two"] {
        for _ in 0..20 {
            let (status, answer) = search(caller).await;
            assert_eq!(status, 200, "{answer}");
            answer["id"].as_str().unwrap().clone_into(&mut first);
        }
        let (status, answer) = search(caller).await;
        assert_eq!(status, 429, "{answer}");
        assert!(answer.to_string().contains("20 asynchronous searches (your own)"), "{answer}");
    }
    // Another caller has those that are left, but for a few that are kept for operators.
    for _ in 0..5 {
        assert_eq!(search("three").await.0, 200);
    }
    let (status, answer) = search("three").await;
    assert_eq!(status, 429);
    assert!(answer.to_string().contains("45 asynchronous searches (all)"), "{answer}");
    let operator = bearer(Role::Operate);
    for _ in 0..5 {
        assert_eq!(fixture.told(&operator, SEARCH, "{\"size\":0}").await.0, 200);
    }
    let (status, answer) = fixture.told(&operator, SEARCH, "{\"size\":0}").await;
    assert!(status == 429 && answer.contains("50 asynchronous searches"), "{status} {answer}");
    // One that is deleted makes room for the next, but nobody deletes that of another.
    let delete = format!("DELETE /elastic/_async_search/{first}");
    assert_eq!(fixture.told("Bearer one", &delete, "").await.0, 404);
    assert_eq!(fixture.told("Bearer two", &delete, "").await.0, 200);
    assert_eq!(fixture.told(&operator, SEARCH, "{\"size\":0}").await.0, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_has_no_options() {
    let fixture = fixture();
    fixture.push(b"{\"_msg\":\"a line\"}\n");
    let admin = bearer(Role::Admin);
    for filter in [
        "options(concurrency%3D1)+line",
        "options(ignore_global_time_filter%3Dtrue)+*",
        "options(hide_fields%3D(secret))+*",
    ] {
        let form = format!("filter={filter}");
        let (status, answer) = fixture.told(&admin, "POST /api/v1/deletions", &form).await;
        assert_eq!(status, 400, "{filter}: {answer}");
        assert!(answer.contains("options"), "{filter}: {answer}");
        let call = format!("POST /api/v1/deletions?filter={filter}");
        assert_eq!(fixture.told(&admin, &call, "").await.0, 400, "{filter}");
    }
    let (_, listed) = fixture.told(&admin, "GET /api/v1/deletions", "").await;
    let listed: Value = serde_json::from_str(&listed).unwrap();
    assert_eq!(listed["deletions"], Value::Array(Vec::new()));
    let (status, answer) = fixture.told(&admin, "POST /api/v1/deletions", "filter=options").await;
    assert_eq!(status, 202, "{answer}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_as_they_were_sent_are_refused_where_fields_are_hidden() {
    let fixture = fixture();
    fixture.push(b"{\"_msg\":\"a line\",\"secret\":\"zebra\"}\n");
    let calls = [
        ("GET /select/logsql/query?query=*&format=raw", ""),
        ("GET /select/logsql/query?query=*|limit+1&format=raw&limit=5", ""),
        ("POST /select/logsql/query", "query=*&format=raw"),
        ("GET /api/v1/export?format=raw", ""),
        ("GET /api/v1/export?format=raw&query=*&cursors=1", ""),
        ("POST /api/v1/export", "format=raw&query=*"),
        ("POST /api/v1/queries?query=*&format=raw", ""),
        ("POST /api/v1/queries", "query=*&format=raw"),
        ("POST /api/v1/queries", "query=*&format=raw&limit=1&include=_line"),
    ];
    for (call, form) in calls {
        let (status, answer) = fixture.told("Bearer limited", call, form).await;
        assert_eq!(status, 403, "{call} {form}: {answer}");
        assert!(answer.contains("hidden from you") && !answer.contains("zebra"), "{answer}");
        let (status, answer) = fixture.told("Bearer one", call, form).await;
        assert!((200..300).contains(&status), "{call} {form}: {status} {answer}");
    }
    // What asks for the line otherwise gets it without the field.
    for call in [
        "GET /select/logsql/query?query=*&include=_line",
        "GET /select/logsql/query?query=*|fields+_line",
        "GET /api/v1/export?format=jsonl&include=_line",
        "GET /api/v1/export?format=csv&include=_line",
        "GET /select/logsql/query?query=*|format+%22%3C_line%3E%22+as+x",
    ] {
        let (status, answer) = fixture.told("Bearer limited", call, "").await;
        assert!(status == 200 && !answer.contains("zebra"), "{call}: {status} {answer}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fields_that_cannot_be_hidden_are_a_mistake_of_the_caller() {
    let fixture = fixture();
    fixture.app.gate().keep_in(Arc::<Memory>::default()).unwrap();
    let admin = bearer(Role::Admin);
    for names in ["_time", "*", "a,_time", "_stre*", "_line"] {
        let calls = [
            (
                "POST /api/v1/users",
                format!("name=ann&role=read&password=correct+horse&hide_fields={names}"),
            ),
            ("POST /api/v1/users/read", format!("hide_fields={names}")),
            ("POST /api/v1/tokens", format!("name=t&role=read&hide_fields={names}")),
        ];
        for (call, form) in calls {
            let (status, answer) = fixture.told(&admin, call, &form).await;
            if call.ends_with("/read") {
                // Those of the configuration are changed there.
                assert!((400..500).contains(&status), "{call} {form}: {status} {answer}");
                continue;
            }
            assert_eq!(status, 400, "{call} {form}: {answer}");
            assert!(answer.contains("hide_fields"), "{call} {form}: {answer}");
        }
        let query: String =
            form_urlencoded::byte_serialize(format!("options(hide_fields=({names})) *").as_bytes())
                .collect();
        for route in ["GET /select/logsql/query", "GET /select/logsql/hits", "POST /api/v1/queries"]
        {
            let call = format!("{route}?query={query}&step=1h");
            let call = call.trim_end_matches(if route.ends_with("hits") { "" } else { "&step=1h" });
            let (status, answer) = fixture.told(&admin, call, "").await;
            assert_eq!(status, 400, "{call}: {answer}");
        }
    }
    // A query that hides the field by which its caller is restricted.
    let query = "options(hide_fields%3D(secret))+*|union(*)";
    let call = format!("GET /select/logsql/query?query={query}&extra_filters=!secret:x");
    let (status, answer) = fixture.told(&bearer(Role::Read), &call, "").await;
    assert!(status == 400 && answer.contains("hide_fields"), "{status} {answer}");
}
