//! The gate, over the table of all routes: each route is called without credentials and with every
//! role, and the response must match its scope. The table must be that of `docs/access.md`.

use std::collections::BTreeMap;

use argon2::password_hash::phc::PasswordHash;
use axum::http::header::{AUTHORIZATION, COOKIE, ORIGIN, SET_COOKIE, WWW_AUTHENTICATE};
use axum::http::request::Builder;
use ring::digest::{SHA256, digest};

use super::*;
use crate::access::authority::Authority;
use crate::access::principal::Role;
use crate::access::principal::Scope;
use crate::access::routes::Route;
use crate::access::users::{NAMES_MAX, Token, User};

/// A hash of the password `correct horse` that is cheap to compute.
pub(super) fn cheap_hash() -> PasswordHash {
    use argon2::password_hash::PasswordHasher;
    let params = argon2::Params::new(64, 1, 1, None).unwrap();
    let argon2 = argon2::Argon2::from(params);
    argon2.hash_password_with_salt(b"correct horse", b"somesaltsomesalt").unwrap()
}

pub(super) fn digest_of(token: &str) -> [u8; 32] {
    digest(&SHA256, token.as_bytes()).as_ref().try_into().unwrap()
}

fn token_of(role: Role) -> String {
    format!("token of {}", role.name()).replace(' ', "-")
}

/// A token and a user of every role, all with the same password.
pub(super) fn with_access(options: &mut ApiOptions) {
    for role in Role::ALL {
        options.access.tokens.push(Token::new(
            format!("{}-token", role.name()).into(),
            digest_of(&token_of(role)),
            role,
        ));
        options.access.users.push(User {
            name: role.name().into(),
            hash: cheap_hash(),
            rights: Arc::new(role.into()),
        });
    }
}

pub(super) fn bearer(role: Role) -> String {
    format!("Bearer {}", token_of(role))
}

/// The header of a name and a password.
pub(super) fn basic(name: &str, password: &str) -> String {
    use base64::Engine;
    let pair = format!("{name}:{password}");
    format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair))
}

impl Fixture {
    async fn call(&self, request: Builder, body: &str) -> Response {
        self.answer(request.header("host", "localhost").body(Body::from(body.to_owned()))).await
    }

    pub(super) fn table(&self) -> Vec<Route> {
        let (_, table) = routes(&self.app, inserting(&self.app)).into_parts();
        table
    }
}

/// A path for a route, with names that do not exist.
pub(super) fn path(route: &Route) -> String {
    let parts = route.path.split('/').map(|part| match part.starts_with('{') {
        true => "1",
        false => part,
    });
    parts.collect::<Vec<_>>().join("/")
}

fn request(route: &Route) -> Builder {
    Request::builder().method(route.method.clone()).uri(path(route))
}

#[tokio::test]
async fn every_route_identifies_the_caller() {
    let fixture = Fixture::new(with_access);
    let table = fixture.table();
    assert!(table.len() > 100);
    for route in &table {
        let (what, open) = (format!("{} {}", route.method, route.path), route.scope == Scope::Open);
        let refused = |response: &Response| {
            matches!(response.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
        };
        // Without credentials, and with an unknown token.
        let nobody = fixture.call(request(route), "").await;
        assert_eq!(refused(&nobody), !open, "{what}: {}", nobody.status());
        assert_eq!(nobody.headers().contains_key(WWW_AUTHENTICATE), !open, "{what}");
        // The gate comes before everything else that could be said about a request.
        let strange = Request::builder().method(route.method.clone());
        let strange = strange.uri(format!("{}?no_such=1&AccountID=7", path(route)));
        let strange = fixture.call(strange.header("vl-no-such", "1"), "").await;
        assert_eq!(strange.status() == StatusCode::UNAUTHORIZED, !open, "{what}");
        for wrong in ["Bearer x", "Basic cmVhZC10b2tlbjp4", "Bearer", "Basic", "", "Digest a"] {
            let wrong = fixture.call(request(route).header(AUTHORIZATION, wrong), "").await;
            assert_eq!(wrong.status() == StatusCode::UNAUTHORIZED, !open, "{what}");
        }
        for role in Role::ALL {
            let called = request(route).header(AUTHORIZATION, bearer(role));
            let response = fixture.call(called, "").await;
            let expected = role.may(route.scope);
            assert_eq!(!refused(&response), expected, "{what} as {}", role.name());
            let forbidden = response.status() == StatusCode::FORBIDDEN;
            assert_eq!(forbidden, !expected, "{what} as {}", role.name());
        }
    }
    // Paths without a route can be called by everybody, and reveal nothing: the page, and missing
    // paths. Responses for clients of Elasticsearch at the root need credentials.
    for (path, status) in [("/", 200), ("/none", 404), ("/api/v1/none", 404)] {
        assert_eq!(fixture.call(Request::get(path), "").await.status(), status, "{path}");
        let elastic = Request::get(path).header("user-agent", "Elastic-filebeat/8");
        let expected = if path == "/" { 401 } else { 404 };
        assert_eq!(fixture.call(elastic, "").await.status(), expected, "{path}");
    }
    let elastic = Request::put("/logs").header("user-agent", "Elastic-filebeat/8");
    assert_eq!(fixture.call(elastic, "").await.status(), 401);
    let elastic = Request::put("/logs").header("user-agent", "Elastic-filebeat/8");
    let elastic = elastic.header(AUTHORIZATION, bearer(Role::Ingest));
    assert_eq!(fixture.call(elastic, "").await.status(), 200);
}

#[tokio::test]
async fn without_users_everybody_may_everything() {
    let fixture = Fixture::new(|_| {});
    for route in fixture.table() {
        for authorization in [None, Some("Bearer x")] {
            let mut called = request(&route);
            if let Some(authorization) = authorization {
                called = called.header(AUTHORIZATION, authorization);
            }
            let status = fixture.call(called, "").await.status();
            let refused = status == StatusCode::UNAUTHORIZED || status == StatusCode::FORBIDDEN;
            assert!(!refused, "{} {}: {status}", route.method, route.path);
        }
    }
    let me: serde_json::Value =
        serde_json::from_str(&text(fixture.call(Request::get("/api/v1/me"), "").await).await)
            .unwrap();
    assert_eq!(me["login"], "off");
    assert_eq!(me["role"], "admin");
    let login =
        Request::post("/api/v1/login").header("content-type", "application/x-www-form-urlencoded");
    assert_eq!(fixture.call(login, "name=a&password=b").await.status(), 400);
}

/// The table of the documentation, by path and scope.
fn documented() -> BTreeMap<(String, String), String> {
    let page = include_str!("../../../../docs/access.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `")?.strip_suffix(" |"));
    let rows = rows.filter_map(|row| {
        let (call, scope) = row.split_once("` | ")?;
        let (methods, path) = call.rsplit_once(' ')?;
        // Other tables describe some routes again.
        (path.starts_with('/') && !scope.contains(' '))
            .then(|| ((path.to_owned(), scope.to_owned()), methods.to_owned()))
    });
    rows.collect()
}

#[tokio::test]
async fn the_documented_routes_are_the_routes() {
    let fixture = Fixture::new(|_| {});
    let mut table: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for route in fixture.table() {
        let key = (route.path, route.scope.name().to_owned());
        table.entry(key).or_default().push(route.method.to_string());
    }
    let below = |path: &str| format!("/insert/elasticsearch{path}");
    let searched = |path: &str| format!("/elastic{path}");
    let expected: BTreeMap<(String, String), String> = table
        .iter()
        // The API of Elasticsearch is also at the root.
        .filter(|((path, scope), methods)| {
            let is_same = |path: String| table.get(&(path, scope.clone())) == Some(*methods);
            !is_same(below(path)) && !is_same(searched(path))
        })
        .map(|(key, methods)| (key.clone(), methods.join(", ")))
        .collect();
    let rows = |table: &BTreeMap<(String, String), String>| -> String {
        let row = |((path, scope), methods): (&(String, String), &String)| {
            format!("| `{methods} {path}` | {scope} |\n")
        };
        table.iter().map(row).collect()
    };
    assert!(
        documented() == expected,
        "docs/access.md should have these rows:\n{}",
        rows(&expected)
    );
}

fn login(name: &str, password: &str) -> (Builder, String) {
    let request =
        Request::post("/api/v1/login").header("content-type", "application/x-www-form-urlencoded");
    let pairs = [("name", name), ("password", password)];
    (request, form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish())
}

/// The cookie of a login, as a browser sends it back.
fn cookie(response: &Response) -> String {
    let set = response.headers()[SET_COOKIE].to_str().unwrap();
    set.split(';').next().unwrap().to_owned()
}

#[tokio::test]
async fn passwords_tokens_and_cookies() {
    let fixture = Fixture::new(with_access);
    let status = |authorization: String| {
        let called = Request::get("/api/v1/status").header(AUTHORIZATION, authorization);
        let fixture = &fixture;
        async move { fixture.call(called, "").await.status().as_u16() }
    };
    use base64::Engine;
    let basic =
        |pair: &str| format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair));
    for (authorization, expected) in [
        (basic("read:correct horse"), 200),
        (basic("read:correct horse"), 200),
        (basic("read:correct horse "), 401),
        (basic("read:"), 401),
        (basic("read"), 401),
        (basic(":correct horse"), 401),
        (basic("Read:correct horse"), 401),
        (basic("ingest:correct horse"), 403),
        // A token as a password, only under its name.
        (basic(&format!("read-token:{}", token_of(Role::Read))), 200),
        (basic(&format!("read-token:{}", token_of(Role::Admin))), 401),
        (basic(&format!("read:{}", token_of(Role::Read))), 401),
        (format!("bEARER  {}", token_of(Role::Read)), 200),
        (format!("Bearer {}x", token_of(Role::Read)), 401),
        ("Bearer correct horse".to_owned(), 401),
    ] {
        assert_eq!(status(authorization.clone()).await, expected, "{authorization}");
    }
    // Parameters are checked once the caller is known.
    let unknown = Request::get("/api/v1/status?no_such=1");
    let unknown = unknown.header(AUTHORIZATION, bearer(Role::Read));
    assert_eq!(fixture.call(unknown, "").await.status(), 400);
    let two = Request::get("/api/v1/status")
        .header(AUTHORIZATION, bearer(Role::Read))
        .header(AUTHORIZATION, bearer(Role::Read));
    assert_eq!(fixture.call(two, "").await.status(), 401);

    let (called, form) = login("operate", "correct horse");
    let response = fixture.call(called, &form).await;
    assert_eq!(response.status(), 200);
    let set = response.headers()[SET_COOKIE].to_str().unwrap().to_owned();
    assert!(set.ends_with("; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict"), "{set}");
    let cookie = cookie(&response);
    let reads = Request::get("/api/v1/status").header(COOKIE, format!("a=b; {cookie}; c"));
    assert_eq!(fixture.call(reads, "").await.status(), 200);
    // A call that changes something must come from the page: the guard compares its origin.
    for (origin, expected) in [
        (None, 403),
        (Some("http://localhost"), 202),
        (Some("http://evil.example"), 403),
        (Some("null"), 403),
    ] {
        let mut seals = Request::post("/api/v1/seal").header(COOKIE, &cookie);
        if let Some(origin) = origin {
            seals = seals.header(ORIGIN, origin);
        }
        assert_eq!(fixture.call(seals, "").await.status(), expected, "{origin:?}");
    }
    // A cookie does not compensate for wrong credentials.
    let both = Request::get("/api/v1/status").header(COOKIE, &cookie).header(AUTHORIZATION, "x y");
    assert_eq!(fixture.call(both, "").await.status(), 401);
    let out = Request::post("/api/v1/logout").header(COOKIE, &cookie);
    let response = fixture.call(out.header(ORIGIN, "http://localhost"), "").await;
    assert!(response.headers()[SET_COOKIE].to_str().unwrap().contains("=; Path=/; Max-Age=0;"));
    let reads = Request::get("/api/v1/status").header(COOKIE, &cookie);
    assert_eq!(fixture.call(reads, "").await.status(), 401);

    // Behind a proxy that speaks HTTPS the cookie is for HTTPS only.
    let fixture = Fixture::new(|options| {
        with_access(options);
        options.hosts = vec![Authority::parse(b"logs.example").unwrap()];
    });
    let (called, form) = login("read", "correct horse");
    let response = fixture.call(called.header(ORIGIN, "https://logs.example"), &form).await;
    assert!(response.headers()[SET_COOKIE].to_str().unwrap().ends_with("; Secure"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn senders_of_others_give_their_token_in_their_way() {
    let fixture = Fixture::new(with_access);
    let token = token_of(Role::Ingest);
    let (scheme, wrong) = (format!("Token {token}"), "Token wrong".to_owned());
    for (path, query, header, status) in [
        ("/insert/github", format!("?token={token}"), None, 204),
        ("/insert/github", "?token=wrong".to_owned(), None, 401),
        ("/insert/github", "?token=".to_owned(), None, 401),
        // In other addresses, a token counts for nothing.
        ("/insert/jsonline", format!("?token={token}"), None, 401),
        ("/write", String::new(), Some(("authorization", &scheme)), 204),
        ("/write", String::new(), Some(("authorization", &wrong)), 401),
        ("/insert/logplex", String::new(), Some(("x-amz-firehose-access-key", &token)), 204),
    ] {
        let mut request = Request::post(format!("{path}{query}"));
        if let Some((name, value)) = header {
            request = request.header(name, value);
        }
        let body = if path == "/insert/github" { "{}" } else { "" };
        let answer = fixture.call(request, body).await;
        assert_eq!(answer.status().as_u16(), status, "{path}{query}");
    }
}

#[tokio::test]
async fn an_empty_secret_is_wrong_whatever_the_hashes_are() {
    use argon2::password_hash::PasswordHasher;
    let fixture = Fixture::new(|options| {
        for (name, token) in [("empty", ""), ("line", "\n")] {
            let digest = digest_of(token);
            options.access.tokens.push(Token::new(name.into(), digest, Role::Admin));
        }
        let params = argon2::Params::new(64, 1, 1, None).unwrap();
        let hash = argon2::Argon2::from(params).hash_password_with_salt(b"", b"somesaltsomesalt");
        let hash = hash.unwrap();
        options.access.users.push(User {
            name: "ann".into(),
            hash,
            rights: Arc::new(Role::Admin.into()),
        });
    });
    for authorization in ["Bearer", "Bearer ", "Basic ZW1wdHk6", "Basic bGluZToK", "Basic YW5uOg=="]
    {
        let called = Request::get("/api/v1/status").header(AUTHORIZATION, authorization);
        assert_eq!(fixture.call(called, "").await.status(), 401, "{authorization}");
    }
    let (called, form) = login("ann", "");
    assert_eq!(fixture.call(called, &form).await.status(), 401);
}

#[tokio::test]
async fn users_change_and_sessions_stay() {
    let fixture = Fixture::new(with_access);
    let gate = fixture.app.gate().clone();
    let mut cookies = Vec::new();
    for name in ["read", "operate", "admin"] {
        let (called, form) = login(name, "correct horse");
        cookies.push(cookie(&fixture.call(called, &form).await));
    }
    let statuses = || async {
        let mut statuses = Vec::new();
        for cookie in &cookies {
            let called = Request::get("/api/v1/status").header(COOKIE, cookie);
            statuses.push(fixture.call(called, "").await.status().as_u16());
        }
        let called = Request::get("/api/v1/status").header(AUTHORIZATION, bearer(Role::Read));
        statuses.push(fixture.call(called, "").await.status().as_u16());
        statuses
    };
    assert_eq!(statuses().await, [200, 200, 200, 200]);
    let mut access = fixture.app.options.access.clone();
    // One user goes, one has a lesser role, one stays; one token goes.
    access.users.retain(|user| &*user.name != "read");
    let operate = access.users.iter_mut().find(|user| &*user.name == "operate").unwrap();
    operate.rights = Arc::new(Role::Ingest.into());
    access.tokens.retain(|token| token.rights.role != Role::Read);
    assert_eq!(gate.refusal(&access), None);
    gate.set_access(&access);
    assert_eq!(statuses().await, [401, 403, 200, 401]);
    // A user of that name who comes back has to log in again, and so has one with a new password.
    let mut access = fixture.app.options.access.clone();
    let admin = access.users.iter_mut().find(|user| &*user.name == "admin").unwrap();
    use argon2::password_hash::PasswordHasher;
    let cheap = argon2::Argon2::from(argon2::Params::new(64, 1, 1, None).unwrap());
    admin.hash = cheap.hash_password_with_salt(b"another horse", b"somesaltsomesalt").unwrap();
    gate.set_access(&access);
    assert_eq!(statuses().await, [401, 200, 401, 200]);
    let (called, form) = login("admin", "correct horse");
    assert_eq!(fixture.call(called, &form).await.status(), 401);
    // Nobody opens the server to everybody by emptying a file.
    let none = AccessOptions::default();
    assert!(gate.refusal(&none).unwrap().contains("restart"));
    let open = Fixture::new(|_| {});
    assert_eq!(open.app.gate().refusal(&none), None);
    // What a start would refuse is no success of a reload.
    let token = |n: usize| Token::new(format!("t{n}").into(), digest_of("secret"), Role::Read);
    let tokens = (0..=NAMES_MAX).map(token).collect();
    let many = AccessOptions { tokens, ..AccessOptions::default() };
    let why = open.app.gate().refusal(&many).unwrap();
    assert!(why.contains("more than 10000 users and tokens"), "{why}");
}

#[tokio::test]
async fn limits_of_queries_change() {
    let fixture = Fixture::new(|_| {});
    let run_s = || async {
        let text = text(fixture.get("/api/v1/queries").await).await;
        let answer: serde_json::Value = serde_json::from_str(&text).unwrap();
        let limit = |name: &str| answer["limits"][name].as_u64().unwrap();
        (limit("run_s"), limit("concurrent"))
    };
    assert_eq!(run_s().await, (60, 4));
    let mut query = fixture.app.query_options();
    query.limits.run_time = Duration::from_secs(7);
    query.queue.concurrent_max = 9;
    fixture.app.set_query_options(query);
    assert_eq!(run_s().await, (7, 9));
    assert_eq!(fixture.app.queue.limits().concurrent_max, 9);
}

#[tokio::test]
async fn wrong_passwords_are_limited() {
    let fixture = Fixture::new(with_access);
    let attempt = |name: &'static str, password: &'static str| {
        let (called, form) = login(name, password);
        let fixture = &fixture;
        async move { fixture.call(called, &form).await }
    };
    // The last right password is never counted as an attempt.
    assert_eq!(attempt("admin", "correct horse").await.status(), 200);
    for _ in 0..10 {
        assert_eq!(attempt("admin", "wrong").await.status(), 401);
    }
    let limited = attempt("admin", "other").await;
    assert_eq!(limited.status(), StatusCode::TOO_MANY_REQUESTS);
    let seconds: u32 = limited.headers()["retry-after"].to_str().unwrap().parse().unwrap();
    // They count for an hour in tests.
    assert!((1..=3_601).contains(&seconds), "{seconds}");
    assert_eq!(attempt("admin", "correct horse").await.status(), 200);
    assert_eq!(attempt("read", "correct horse").await.status(), 200);
    let metric = |reason: &str| format!("loginson_access_refused_total{{reason=\"{reason}\"}}");
    let called = Request::get("/metrics").header(AUTHORIZATION, bearer(Role::Read));
    let metrics = text(fixture.call(called, "").await).await;
    for (reason, count) in [("wrong", 10), ("limited", 1), ("unnamed", 0), ("forbidden", 0)] {
        let line = format!("{} {count}\n", metric(reason));
        assert!(metrics.contains(&line), "{line}{metrics}");
    }
    // A form that is too long contains no valid password, and URLs never contain one.
    let (called, _) = login("", "");
    let long = format!("name=admin&password={}", "x".repeat(10_000));
    assert_eq!(fixture.call(called, &long).await.status(), 413);
    let in_address = Request::post("/api/v1/login?name=admin&password=x");
    assert_eq!(fixture.call(in_address, "").await.status(), 400);
}

#[tokio::test]
async fn readers_touch_their_own_queries_alone() {
    let fixture = Fixture::new(|options| {
        with_access(options);
        let role = options.access.tokens[1].rights.role;
        let digest = digest_of("another");
        options.access.tokens.push(Token::new("another".into(), digest, role));
    });
    fixture.push(b"a line\n");
    let submit = Request::post("/api/v1/queries?query=line");
    let submit = submit.header(AUTHORIZATION, bearer(Role::Read));
    let answer: serde_json::Value =
        serde_json::from_str(&text(fixture.call(submit, "").await).await).unwrap();
    let id = answer["id"].as_str().unwrap().to_owned();
    let entry = fixture.app.queue.get(id.parse().unwrap()).unwrap();
    assert_eq!(entry.client, "read-token 127.0.0.1:1");
    while !fixture.app.queue.get(entry.id).unwrap().state.is_ended() {
        tokio::task::yield_now().await;
    }
    let call = |method: &'static str, path: String, authorization: String| {
        let called = Request::builder().method(method).uri(path);
        let fixture = &fixture;
        async move { fixture.call(called.header(AUTHORIZATION, authorization), "").await }
    };
    let another = || "Bearer another".to_owned();
    let of = format!("/api/v1/queries/{id}");
    for (method, path) in [
        ("GET", of.clone()),
        ("GET", format!("{of}/results")),
        ("POST", format!("{of}/pause")),
        ("POST", format!("{of}/resume")),
        ("DELETE", of.clone()),
    ] {
        let status = call(method, path.clone(), another()).await.status();
        assert_eq!(status, StatusCode::FORBIDDEN, "{method} {path}");
    }
    for (authorization, seen) in
        [(another(), false), (bearer(Role::Read), true), (bearer(Role::Operate), true)]
    {
        let list = text(call("GET", "/api/v1/queries".into(), authorization).await).await;
        assert_eq!(list.contains(&format!("\"id\":\"{id}\"")), seen, "{list}");
    }
    let results = format!("{of}/results?limit=1");
    assert_eq!(call("GET", results.clone(), bearer(Role::Read)).await.status(), 200);
    assert_eq!(call("GET", results, bearer(Role::Operate)).await.status(), 200);
    assert_eq!(call("DELETE", of.clone(), bearer(Role::Operate)).await.status(), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tail_ends_with_the_rights_that_it_began_with() {
    let fixture = Fixture::new(with_access);
    let tail = |role: Role| {
        let request = Request::get("/select/logsql/tail?query=*");
        request.header(AUTHORIZATION, bearer(role))
    };
    let read = fixture.call(tail(Role::Read), "").await;
    let operate = fixture.call(tail(Role::Operate), "").await;
    let auditor = fixture.call(tail(Role::Auditor), "").await;
    for begun in [&read, &operate, &auditor] {
        assert_eq!(begun.status(), StatusCode::OK);
    }
    let is_open = |client: &str| {
        let all = fixture.app.queue.list();
        all.iter().any(|info| info.client.starts_with(client) && !info.state.is_ended())
    };
    assert!(is_open("read-token ") && is_open("operate-token "));
    let mut access = fixture.app.options.access.clone();
    access.tokens.retain(|token| &*token.name != "read-token");
    fixture.app.gate().set_access(&access);
    while is_open("read-token ") {
        tokio::task::yield_now().await;
    }
    assert!(is_open("operate-token "), "its token is as it was");
    for token in access.tokens.iter_mut().filter(|token| &*token.name == "operate-token") {
        token.rights = Arc::new(Role::Read.into());
    }
    fixture.app.gate().set_access(&access);
    while is_open("operate-token ") {
        tokio::task::yield_now().await;
    }
    for token in &mut access.tokens {
        token.expires_s = Some(1);
    }
    fixture.app.gate().set_access(&access);
    assert!(is_open("auditor-token "));
    fixture.app.gate().end_expired();
    while is_open("auditor-token ") {
        tokio::task::yield_now().await;
    }
    drop((read, operate, auditor));
}

/// Prepares for filters of users: a principal's restriction applies together with those of the
/// request.
#[tokio::test]
async fn a_restriction_of_the_caller_holds() {
    use axum::extract::FromRequest;
    use query::Query;

    use crate::access::params::Params;
    let own = Query::parse("app:=\"shop\"", 0).unwrap().filter().clone();
    let mut request =
        Request::get("/select/logsql/query?query=*&extra_filters=b").body(Body::empty()).unwrap();
    let principal = Principal { restriction: Arc::new(own).into(), ..Principal::anybody() };
    request.extensions_mut().insert(principal);
    let params = Params::from_request(request, &()).await.unwrap();
    let restriction = params.restriction(0).unwrap().filter.unwrap();
    assert_eq!(restriction.to_string(), "app:=\"shop\" \"b\"");
}
