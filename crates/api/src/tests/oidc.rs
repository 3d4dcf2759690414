//! Logins by OpenID Connect, at a small provider of these tests, over HTTP on loopback.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::sync::{Mutex, MutexGuard};

use axum::http::HeaderMap;
use axum::http::header::{AUTHORIZATION, COOKIE, HOST, LOCATION, ORIGIN, SET_COOKIE};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use cluster::engines::Secret;
use serde_json::{Value, json};

use super::gate::{basic, bearer, with_access};
use super::*;
use crate::access::groups::{GroupRule, Groups};
use crate::access::oidc::options::OidcOptions;
use crate::access::oidc::testing::{Signer, claims};
use crate::access::principal::Role;
use crate::access::secrets::sha256;

/// What the provider answers, and what it was asked.
struct World {
    signer: Signer,
    kid: &'static str,
    token: (u16, Value),
    userinfo: Value,
    is_away: bool,
    /// Path, `Authorization` and body of each request.
    asked: Vec<(String, String, String)>,
}

#[derive(Clone)]
struct Provider {
    issuer: String,
    world: Arc<Mutex<World>>,
}

impl Provider {
    fn start() -> Provider {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let issuer = format!("http://{}", listener.local_addr().unwrap());
        let world = World {
            signer: Signer::ec(),
            kid: "1",
            token: (500, Value::Null),
            userinfo: Value::Null,
            is_away: false,
            asked: Vec::new(),
        };
        let provider = Provider { issuer, world: Arc::new(Mutex::new(world)) };
        let answering = provider.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let _ = answering.answer(stream.unwrap());
            }
        });
        provider
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    fn answer(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        let (mut first, mut authorization, mut length) = (String::new(), String::new(), 0);
        reader.read_line(&mut first)?;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.trim().split_once(": ") else { break };
            match name.to_ascii_lowercase().as_str() {
                "authorization" => authorization = value.to_owned(),
                "content-length" => length = value.parse().unwrap(),
                _ => {}
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
        let mut world = self.world();
        world.asked.push((path.clone(), authorization, String::from_utf8(body).unwrap()));
        let issuer = &self.issuer;
        let (status, answer) = match &*path {
            _ if world.is_away => (503, json!({})),
            "/.well-known/openid-configuration" => (
                200,
                json!({
                    "issuer": issuer,
                    "authorization_endpoint": format!("{issuer}/authorize"),
                    "token_endpoint": format!("{issuer}/token"),
                    "jwks_uri": format!("{issuer}/keys"),
                    "userinfo_endpoint": format!("{issuer}/me"),
                    "end_session_endpoint": format!("{issuer}/end?x=1"),
                }),
            ),
            "/keys" => (200, json!({ "keys": [world.signer.key(world.kid)] })),
            "/token" => world.token.clone(),
            "/me" => (200, world.userinfo.clone()),
            _ => (404, json!({})),
        };
        drop(world);
        let answer = answer.to_string();
        let length = answer.len();
        write!(
            stream,
            "HTTP/1.1 {status} X\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{answer}"
        )
    }

    /// From now on it gives tokens with these claims.
    fn gives(&self, claims: &Value) {
        let mut world = self.world();
        let header = json!({ "alg": "ES256", "kid": world.kid });
        let id_token = world.signer.sign(&header, claims);
        let tokens =
            json!({ "access_token": "a", "id_token": id_token, "refresh_token": "the refresh" });
        world.token = (200, tokens);
    }

    fn refuses(&self) {
        self.world().token =
            (400, json!({ "error": "invalid_grant", "error_description": "<b>gone</b>" }));
    }

    fn options(&self) -> OidcOptions {
        OidcOptions {
            name: "corp".into(),
            issuer: self.issuer.clone(),
            client_id: "loginson".into(),
            client_secret: Some(Secret::new("a secret & more")),
            scopes: vec!["openid".into(), "profile".into()],
            name_claim: "preferred_username".into(),
            groups_claim: "groups".into(),
            email_domains: Vec::new(),
            recheck: Duration::ZERO,
            ca: None,
            external_url: "https://logs.example".into(),
        }
    }

    fn asked(&self, path: &str) -> Vec<(String, String)> {
        let world = self.world();
        let of = world.asked.iter().filter(|(asked, ..)| asked == path);
        of.map(|(_, authorization, body)| (authorization.clone(), body.clone())).collect()
    }
}

fn rule(group: &str, role: Role) -> GroupRule {
    GroupRule { from: None, group: Some(group.into()), rights: Arc::new(role.into()) }
}

/// A server at which users of that provider log in.
fn server(provider: &Provider, change: impl FnOnce(&mut OidcOptions)) -> Fixture {
    let mut oidc = provider.options();
    change(&mut oidc);
    Fixture::new(|options| {
        with_access(options);
        options.access.oidc = vec![oidc];
        options.access.groups = Groups(vec![rule("staff", Role::Read), rule("ops", Role::Operate)]);
    })
}

/// A login that has begun.
struct Login {
    sent_to: HashMap<String, String>,
    cookie: String,
}

impl Login {
    fn of(&self, name: &str) -> &str {
        &self.sent_to[name]
    }
}

fn header<'a>(headers: &'a HeaderMap, name: &axum::http::HeaderName) -> Vec<&'a str> {
    headers.get_all(name).iter().map(|value| value.to_str().unwrap()).collect()
}

fn fields(text: &str) -> HashMap<String, String> {
    form_urlencoded::parse(text.as_bytes()).into_owned().collect()
}

impl Fixture {
    async fn by_cookie(&self, path: &str, cookie: &str) -> Response {
        let request = Request::get(path).header(HOST, "localhost").header(COOKIE, cookie);
        self.answer(request.body(Body::empty())).await
    }

    async fn begin(&self, query: &str) -> Login {
        let response = self.get(&format!("/api/v1/login/oidc/corp{query}")).await;
        assert_eq!(response.status(), 303);
        let location = header(response.headers(), &LOCATION)[0].to_owned();
        let cookie = header(response.headers(), &SET_COOKIE)[0];
        assert!(cookie.ends_with("Max-Age=600; HttpOnly; SameSite=Lax; Secure"), "{cookie}");
        let (to, query) = location.split_once('?').unwrap();
        assert!(to.ends_with("/authorize"), "{to}");
        Login { sent_to: fields(query), cookie: cookie.split(';').next().unwrap().to_owned() }
    }

    async fn come_back(&self, query: &[(&str, &str)], cookie: &str) -> Response {
        let query = form_urlencoded::Serializer::new(String::new()).extend_pairs(query).finish();
        self.by_cookie(&format!("/api/v1/login/oidc/corp/callback?{query}"), cookie).await
    }

    /// Logs in with the claims that `change` makes; the cookie of the session, or why there is
    /// none.
    async fn log_in(
        &self,
        provider: &Provider,
        change: impl FnOnce(&mut Value),
    ) -> Result<String, String> {
        let login = self.begin("").await;
        let mut claims = claims(&provider.issuer, login.of("nonce"));
        change(&mut claims);
        provider.gives(&claims);
        let query = [("code", "the code"), ("state", login.of("state"))];
        let response = self.come_back(&query, &login.cookie).await;
        if response.status() != 303 {
            let status = response.status();
            return Err(format!("{status} {}", text(response).await));
        }
        assert_eq!(header(response.headers(), &LOCATION), ["/"]);
        let set = header(response.headers(), &SET_COOKIE);
        assert!(set[0].ends_with("HttpOnly; SameSite=Strict; Secure"), "{set:?}");
        assert!(set[1].contains("_begun=; Path=/api/v1/login/oidc; Max-Age=0;"), "{set:?}");
        Ok(set[0].split(';').next().unwrap().to_owned())
    }

    async fn me(&self, cookie: &str) -> Value {
        serde_json::from_str(&text(self.by_cookie("/api/v1/me", cookie).await).await).unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_of_a_provider_logs_in_and_out() {
    let provider = Provider::start();
    let fixture = server(&provider, |_| {});
    let me = fixture.me("").await;
    assert_eq!((&me["login"], &me["providers"]), (&json!("on"), &json!(["corp"])));
    assert_eq!((&me["passwords"], &me["role"]), (&json!(true), &Value::Null));

    let login = fixture.begin("?to=/%3Fview%3Dstatus%23x").await;
    for (name, value) in [
        ("response_type", "code"),
        ("client_id", "loginson"),
        // The address of the configuration, though `Host` was another.
        ("redirect_uri", "https://logs.example/api/v1/login/oidc/corp/callback"),
        ("scope", "openid profile"),
        ("code_challenge_method", "S256"),
    ] {
        assert_eq!(login.of(name), value, "{name}");
    }
    provider.gives(&claims(&provider.issuer, login.of("nonce")));
    let query = [("code", "the code"), ("state", login.of("state")), ("session_state", "x")];
    let response = fixture.come_back(&query, &login.cookie).await;
    assert_eq!(header(response.headers(), &LOCATION), ["/?view=status#x"]);
    let cookie = header(response.headers(), &SET_COOKIE)[0].split(';').next().unwrap().to_owned();
    // The code was exchanged with the secret of the client, and what the challenge was made of.
    let (authorization, body) = provider.asked("/token").remove(0);
    assert_eq!(authorization, basic("loginson", "a+secret+%26+more"));
    let body = fields(&body);
    let challenge = URL_SAFE_NO_PAD.encode(sha256(body["code_verifier"].as_bytes()));
    assert_eq!(challenge, login.of("code_challenge"));
    assert_eq!((&*body["code"], &*body["grant_type"]), ("the code", "authorization_code"));

    let mut refreshed = claims(&provider.issuer, "of no meaning here");
    refreshed["nonce"] = Value::Null;
    provider.gives(&refreshed);
    let me = fixture.me(&cookie).await;
    assert_eq!((&me["name"], &me["role"]), (&json!("ann@corp"), &json!("operate")));
    assert_eq!(fixture.by_cookie("/api/v1/status", &cookie).await.status(), 200);
    assert_eq!(fixture.by_cookie("/api/v1/users", &cookie).await.status(), 403);
    let users = Request::get("/api/v1/users").header(HOST, "localhost");
    let users = users.header(AUTHORIZATION, bearer(Role::Admin)).body(Body::empty());
    let users = text(fixture.answer(users).await).await;
    let users: Value = serde_json::from_str(&users).unwrap();
    let ann = users["users"].as_array().unwrap().last().unwrap();
    assert_eq!((&ann["name"], &ann["from"]), (&json!("ann@corp"), &json!("corp")));
    assert_eq!(ann["role"], "operate");

    let out = Request::post("/api/v1/logout").header(HOST, "localhost").header(COOKIE, &cookie);
    let out = out.header(ORIGIN, "http://localhost").body(Body::empty());
    let out: Value = serde_json::from_str(&text(fixture.answer(out).await).await).unwrap();
    let (to, query) = out["next"].as_str().unwrap().split_once('?').unwrap();
    assert_eq!(to, format!("{}/end", provider.issuer));
    let query = fields(query);
    assert_eq!((&*query["x"], &*query["client_id"]), ("1", "loginson"));
    assert_eq!(query["post_logout_redirect_uri"], "https://logs.example/");
    assert_eq!(query["id_token_hint"].split('.').count(), 3);
    assert_eq!(fixture.by_cookie("/api/v1/status", &cookie).await.status(), 401);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_the_login_that_began_is_accepted() {
    let provider = Provider::start();
    let fixture = server(&provider, |_| {});
    let (one, other) = (fixture.begin("").await, fixture.begin("").await);
    provider.gives(&claims(&provider.issuer, one.of("nonce")));
    let issuer = provider.issuer.clone();
    let state = one.of("state");
    let refused: [(&[(&str, &str)], &str); 6] = [
        (&[("code", "c")], &one.cookie),
        (&[("code", "c"), ("state", "x")], &one.cookie),
        (&[("code", "c"), ("state", state)], ""),
        (&[("code", "c"), ("state", state)], &other.cookie),
        (&[("code", "c"), ("state", other.of("state"))], &one.cookie),
        (&[("error", "access_denied"), ("state", state)], "x=y"),
    ];
    for (query, cookie) in refused {
        let response = fixture.come_back(query, cookie).await;
        assert_eq!(response.status(), 403, "{query:?}");
        assert!(text(response).await.contains("did not begin in this browser"), "{query:?}");
    }
    assert_eq!(provider.asked("/token"), []);
    let query = [("code", "c"), ("state", state), ("iss", &*issuer)];
    assert_eq!(fixture.come_back(&query, &one.cookie).await.status(), 303);
    // Once.
    let again = fixture.come_back(&query, &one.cookie).await;
    assert_eq!(again.status(), 403);
    assert_eq!(provider.asked("/token").len(), 1);

    // The ID token of one login does not serve for another.
    let query = [("code", "c"), ("state", other.of("state"))];
    let response = fixture.come_back(&query, &other.cookie).await;
    assert_eq!(response.status(), 403);
    assert!(text(response).await.contains("of another login (nonce)"));

    // An answer of another provider, a refusal, and an answer without a code.
    for (more, why) in [
        (("iss", "https://evil.example"), "came from another provider"),
        (("error", "<b>access_denied"), "it says &lt;b&gt;access_denied"),
        (("x", "y"), "it sent no code"),
    ] {
        let login = fixture.begin("").await;
        let mut query = vec![("state", login.of("state")), more];
        if more.0 == "iss" {
            query.push(("code", "c"));
        }
        let response = fixture.come_back(&query, &login.cookie).await;
        let kind = header(response.headers(), &axum::http::header::CONTENT_TYPE)[0].to_owned();
        let text = text(response).await;
        assert!(kind.starts_with("text/html") && text.contains(why), "{text}");
    }
    assert_eq!(provider.asked("/token").len(), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whom_no_rule_lets_in() {
    let provider = Provider::start();
    let fixture = server(&provider, |_| {});
    for (name, value, why) in [
        ("groups", json!(["cooks"]), "no group of ann@corp may log in here; have an administrator"),
        ("groups", json!([]), "no group of ann@corp"),
        ("groups", json!({"ops": true}), "no group of ann@corp"),
        ("preferred_username", json!("a b"), "must consist of letters"),
        ("preferred_username", json!("x".repeat(60)), "must consist of letters"),
        ("preferred_username", json!(7), "does not tell the claim"),
        ("preferred_username", json!(""), "does not tell the claim"),
        ("preferred_username", json!("  "), "does not tell the claim"),
        ("iss", json!("https://evil.example"), "is of another issuer"),
        ("aud", json!("other"), "is for another client"),
        ("exp", json!(1), "has expired"),
        ("nonce", json!("x"), "is of another login"),
    ] {
        let answer = fixture.log_in(&provider, |claims| claims[name] = value.clone()).await;
        let answer = answer.unwrap_err();
        assert!(answer.starts_with("403") && answer.contains(why), "{name} {value}: {answer}");
    }
    // A code that the provider has seen before.
    let login = fixture.begin("").await;
    provider.refuses();
    let query = [("code", "c"), ("state", login.of("state"))];
    let answer = text(fixture.come_back(&query, &login.cookie).await).await;
    assert!(answer.contains("it says invalid_grant &lt;b&gt;gone&lt;/b&gt;"), "{answer}");
    assert_eq!(fixture.metric_as_admin("loginson_sessions_open").await, 0);
}

impl Fixture {
    async fn metric_as_admin(&self, sample: &str) -> u64 {
        let request = Request::get("/metrics").header(HOST, "localhost");
        let request = request.header(AUTHORIZATION, bearer(Role::Admin)).body(Body::empty());
        let metrics = text(self.answer(request).await).await;
        let value = metrics.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
        value.unwrap().parse().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_ends_when_the_provider_says_so() {
    let provider = Provider::start();
    let fixture = server(&provider, |_| {});
    let status = async |cookie: &str| fixture.by_cookie("/api/v1/status", cookie).await.status();
    let cookie = fixture.log_in(&provider, |_| {}).await.unwrap();
    assert_eq!(status(&cookie).await, 200);
    let (_, body) = provider.asked("/token").pop().unwrap();
    assert_eq!(fields(&body)["refresh_token"], "the refresh");
    // Another group, another role.
    let mut told = claims(&provider.issuer, "x");
    told["groups"] = json!(["staff"]);
    provider.gives(&told);
    assert_eq!(fixture.me(&cookie).await["role"], "read");
    // While it is away the session goes on.
    provider.world().token = (503, Value::Null);
    assert_eq!(status(&cookie).await, 200);
    // Another user, or a refusal, ends it for good.
    told["sub"] = json!("8");
    provider.gives(&told);
    assert_eq!(status(&cookie).await, 401);
    told["sub"] = json!("7");
    provider.gives(&told);
    assert_eq!(status(&cookie).await, 401);
    for ends in [0, 1] {
        let cookie = fixture.log_in(&provider, |_| {}).await.unwrap();
        assert_eq!(status(&cookie).await, 200);
        match ends {
            0 => provider.refuses(),
            _ => {
                told["groups"] = json!(["cooks"]);
                provider.gives(&told);
            }
        }
        assert_eq!(status(&cookie).await, 401);
        assert_eq!(fixture.metric_as_admin("loginson_sessions_open").await, 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_hold_at_once() {
    let provider = Provider::start();
    let fixture = server(&provider, |options| options.recheck = Duration::from_secs(3_600));
    let gate = fixture.app.gate();
    let cookie = fixture.log_in(&provider, |_| {}).await.unwrap();
    assert_eq!(fixture.me(&cookie).await["role"], "operate");
    let mut access = fixture.app.options.access.clone();
    access.groups = Groups(vec![rule("ops", Role::Read)]);
    gate.set_access(&access);
    assert_eq!(fixture.me(&cookie).await["role"], "read");
    // One with other settings is another one.
    access.oidc[0].client_id = "another".into();
    gate.set_access(&access);
    assert_eq!(fixture.me(&cookie).await["role"], Value::Null);
    gate.set_access(&fixture.app.options.access);
    let cookie = fixture.log_in(&provider, |_| {}).await.unwrap();
    access.oidc.clear();
    gate.set_access(&access);
    assert_eq!(fixture.by_cookie("/api/v1/status", &cookie).await.status(), 401);
    assert_eq!(fixture.get("/api/v1/login/oidc/corp").await.status(), 404);
    // Sessions of passwords do not depend on it.
    gate.set_access(&fixture.app.options.access);
    let cookie = fixture.log_in(&provider, |_| {}).await.unwrap();
    access = fixture.app.options.access.clone();
    access.groups.0.clear();
    gate.set_access(&access);
    assert_eq!(fixture.by_cookie("/api/v1/status", &cookie).await.status(), 401);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn keys_change_at_any_time() {
    let provider = Provider::start();
    let fixture = server(&provider, |_| {});
    fixture.log_in(&provider, |_| {}).await.unwrap();
    fixture.log_in(&provider, |_| {}).await.unwrap();
    assert_eq!(provider.asked("/keys").len(), 1);
    provider.world().signer = Signer::ec();
    fixture.log_in(&provider, |_| {}).await.unwrap();
    provider.world().kid = "2";
    fixture.log_in(&provider, |_| {}).await.unwrap();
    assert_eq!(provider.asked("/keys").len(), 3);
    assert_eq!(provider.asked("/.well-known/openid-configuration").len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_provider_that_is_away_hinders_nobody_else() {
    let provider = Provider::start();
    provider.world().is_away = true;
    let fixture = server(&provider, |_| {});
    let response = fixture.get("/api/v1/login/oidc/corp").await;
    assert_eq!(response.status(), 502);
    let told = text(response).await;
    assert!(told.contains("'corp' cannot be asked now") && told.contains("password"), "{told}");
    let by_password = Request::get("/api/v1/status").header(HOST, "localhost");
    let by_password = by_password.header(AUTHORIZATION, basic("read", "correct horse"));
    assert_eq!(fixture.answer(by_password.body(Body::empty())).await.status(), 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_id_token_lacks_is_asked_for() {
    let provider = Provider::start();
    let lacking = |claims: &mut Value| {
        claims["groups"].take();
        claims.as_object_mut().unwrap().remove("groups");
    };
    let fixture = server(&provider, |options| options.email_domains = vec!["Corp.example".into()]);
    for (userinfo, expected) in [
        (
            json!({"sub": "7", "groups": ["ops"], "email": "ann@corp.example"}),
            "no verified address",
        ),
        (
            json!({"sub": "7", "groups": ["ops"], "email": "ann@corp.example", "email_verified": false}),
            "no verified address",
        ),
        (
            json!({"sub": "7", "groups": ["ops"], "email": "a@b@x.example", "email_verified": true}),
            "no verified address",
        ),
        (
            json!({"sub": "8", "groups": ["ops"], "email": "ann@corp.example", "email_verified": true}),
            "answered for another user",
        ),
        (
            json!({"sub": "7", "groups": ["ops"], "email": "ann@corp.example", "email_verified": true}),
            "",
        ),
    ] {
        provider.world().userinfo = userinfo.clone();
        match fixture.log_in(&provider, lacking).await {
            Ok(_) => assert_eq!(expected, "", "{userinfo}"),
            Err(why) => assert!(!expected.is_empty() && why.contains(expected), "{why}"),
        }
    }
    assert_eq!(provider.asked("/me")[0].0, "Bearer a");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_name_of_this_server_is_not_taken() {
    let provider = Provider::start();
    let fixture = server(&provider, |options| options.recheck = Duration::from_secs(3_600));
    let cookie = fixture.log_in(&provider, |_| {}).await.unwrap();
    let mut access = fixture.app.options.access.clone();
    access.users[0].name = "ann@corp".into();
    fixture.app.gate().set_access(&access);
    assert_eq!(fixture.by_cookie("/api/v1/status", &cookie).await.status(), 401);
    let why = fixture.log_in(&provider, |_| {}).await.unwrap_err();
    assert!(why.contains("there is a user or a token 'ann@corp'"), "{why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn logins_that_fail_are_limited() {
    let provider = Provider::start();
    let fixture = server(&provider, |_| {});
    provider.refuses();
    for n in 0..=100 {
        let login = fixture.begin("").await;
        provider.refuses();
        let query = [("code", "c"), ("state", login.of("state"))];
        let response = fixture.come_back(&query, &login.cookie).await;
        assert_eq!(response.status(), if n < 100 { 403 } else { 429 }, "{n}");
    }
    assert_eq!(provider.asked("/token").len(), 100);
}

#[tokio::test]
async fn browsers_come_back_from_another_site() {
    let provider = Provider::start();
    let fixture = server(&provider, |_| {});
    let from_another_site = |path: &str| {
        Request::get(path)
            .header(HOST, "localhost")
            .header("sec-fetch-site", "cross-site")
            .header("sec-fetch-mode", "navigate")
            .header("sec-fetch-dest", "document")
            .body(Body::empty())
    };
    for (path, admitted) in [
        ("/api/v1/login/oidc/corp/callback?state=x", true),
        ("/api/v1/login/oidc/corp", false),
        ("/api/v1/login/oidc/corp/x/callback", false),
        ("/api/v1/status", false),
    ] {
        let told = text(fixture.answer(from_another_site(path)).await).await;
        assert_eq!(!told.contains("another web page made this request"), admitted, "{path}");
    }
}
