//! Users and addresses that a proxy names.

use axum::http::header::HOST;
use axum::http::{HeaderName, HeaderValue};
use serde_json::Value;

use super::gate::{basic, bearer, with_access};
use super::*;
use crate::access::groups::{GroupRule, Groups};
use crate::access::principal::Role;
use crate::access::proxy::{Network, ProxyOptions};

fn server() -> Fixture {
    Fixture::new(|options| {
        with_access(options);
        options.access.proxy = Some(Arc::new(ProxyOptions {
            from: vec![Network::parse("10.0.0.0/8").unwrap()],
            user_header: Some(HeaderName::from_static("x-user")),
            groups_header: Some(HeaderName::from_static("x-groups")),
            groups_separator: ";".into(),
            address_header: Some(HeaderName::from_static("x-forwarded-for")),
        }));
        let rule = |group: &str, role: Role| GroupRule {
            from: Some("proxy".into()),
            group: Some(group.into()),
            rights: Arc::new(role.into()),
        };
        options.access.groups = Groups(vec![rule("ops", Role::Operate), rule("staff", Role::Read)]);
    })
}

/// A request that comes from that address.
async fn from(
    fixture: &Fixture,
    peer: &str,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
) -> Response {
    let mut request = Request::builder().method(method).uri(path).header(HOST, "localhost");
    for (name, value) in headers {
        request = request.header(*name, HeaderValue::from_str(value).unwrap());
    }
    let peer: SocketAddr = peer.parse().unwrap();
    let mut request = request.body(Body::empty()).unwrap();
    request.extensions_mut().insert(ConnectInfo(peer));
    TowerToHyperService::new(fixture.router.clone()).call(request).await.unwrap()
}

const PROXY: &str = "10.1.2.3:4567";
const ANN: [(&str, &str); 2] = [("x-user", "ann"), ("x-groups", "cooks; ops")];

#[tokio::test]
async fn a_proxy_names_users() {
    let fixture = server();
    let me: Value =
        serde_json::from_str(&text(from(&fixture, PROXY, "GET", "/api/v1/me", &ANN).await).await)
            .unwrap();
    assert_eq!((&me["name"], &me["role"]), (&"ann@proxy".into(), &"operate".into()));
    let token = bearer(Role::Admin);
    let password = basic("admin", "correct horse");
    let named = ("x-user", "ann");
    for (peer, method, path, headers, status) in [
        (PROXY, "GET", "/api/v1/status", &ANN[..], 200),
        (PROXY, "GET", "/api/v1/users", &ANN, 403),
        (PROXY, "GET", "/api/v1/status", &[named], 403),
        (PROXY, "GET", "/api/v1/status", &[named, ("x-groups", "ops2")], 403),
        (PROXY, "GET", "/api/v1/status", &[("x-user", "a b"), ("x-groups", "ops")], 403),
        // From elsewhere, whatever else it has.
        ("11.1.2.3:4567", "GET", "/api/v1/status", &ANN, 401),
        ("127.0.0.1:4567", "GET", "/api/v1/status", &ANN, 401),
        ("11.1.2.3:4567", "GET", "/api/v1/status", &[named, ("authorization", &token)], 401),
        // The address that a client says is no proof.
        ("11.1.2.3:4567", "GET", "/api/v1/status", &[named, ("x-forwarded-for", "10.0.0.1")], 401),
        (
            PROXY,
            "GET",
            "/api/v1/status",
            &[named, ("x-groups", "ops"), ("x-forwarded-for", "1.2.3.4")],
            200,
        ),
        // Not together with others.
        (PROXY, "GET", "/api/v1/status", &[named, ("authorization", &token)], 401),
        (PROXY, "GET", "/api/v1/status", &[named, ("authorization", &password)], 401),
        (PROXY, "GET", "/api/v1/status", &[named, ("dd-api-key", "x")], 401),
        (PROXY, "POST", "/insert/github?token=x", &[named], 401),
        (PROXY, "GET", "/api/v1/status", &[named, named], 401),
        // The proxy lets others through.
        (PROXY, "GET", "/api/v1/status", &[("authorization", &token)], 200),
        (PROXY, "GET", "/api/v1/status", &[("x-user", ""), ("authorization", &password)], 200),
        (PROXY, "GET", "/api/v1/status", &[("x-user", "")], 401),
        (PROXY, "GET", "/api/v1/status", &[("x-groups", "ops")], 401),
        // A browser adds the headers to requests of other pages, too.
        (PROXY, "POST", "/api/v1/seal", &ANN, 403),
    ] {
        let response = from(&fixture, peer, method, path, headers).await;
        assert_eq!(response.status().as_u16(), status, "{peer} {path} {headers:?}");
    }
    let sealed = [ANN[0], ANN[1], ("origin", "http://localhost")];
    let response = from(&fixture, PROXY, "POST", "/api/v1/seal", &sealed).await;
    assert_eq!(response.status(), 202);
    // The header counts, whatever cookie the browser still has.
    let login = fixture.app.gate().sessions().begin("admin".into()).unwrap();
    let cookie = format!("{}={login}", fixture.app.gate().cookie());
    let both = [ANN[0], ANN[1], ("cookie", &cookie)];
    assert_eq!(from(&fixture, PROXY, "GET", "/api/v1/users", &both).await.status(), 403);
    let alone = [("cookie", &*cookie)];
    assert_eq!(from(&fixture, PROXY, "GET", "/api/v1/users", &alone).await.status(), 200);
}

#[tokio::test]
async fn attempts_are_those_of_the_client() {
    let fixture = server();
    let wrong = basic("read", "wrong");
    let tried = async |peer: &str, address: &str| {
        let headers = [("authorization", &*wrong), ("x-forwarded-for", address)];
        from(&fixture, peer, "GET", "/api/v1/status", &headers).await.status().as_u16()
    };
    for _ in 0..10 {
        assert_eq!(tried(PROXY, "1.2.3.4").await, 401);
    }
    assert_eq!(tried(PROXY, "1.2.3.4").await, 429);
    // Invented addresses before it do not help, and another client is not hindered.
    assert_eq!(tried(PROXY, "5.6.7.8, 1.2.3.4").await, 429);
    assert_eq!(tried(PROXY, "5.6.7.8").await, 401);
    // The same header from elsewhere counts for nothing.
    for n in 0..10 {
        assert_eq!(tried("11.0.0.1:1", &format!("7.0.0.{n}")).await, 401);
    }
    assert_eq!(tried("11.0.0.1:1", "7.0.0.99").await, 429);
}
