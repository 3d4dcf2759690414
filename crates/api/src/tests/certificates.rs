//! Users by the certificates of their clients.

use axum::http::header::{AUTHORIZATION, COOKIE, HOST};
use serde_json::Value;

use super::gate::{bearer, with_access};
use super::*;
use crate::access::certificates::NamedBy;
use crate::access::groups::{GroupRule, Groups};
use crate::access::principal::Role;
use crate::wire::listen::certificate::ClientCertificate;

fn server(named_by: NamedBy) -> Fixture {
    Fixture::new(|options| {
        with_access(options);
        options.access.certificates = Some(named_by);
        let rule = |group: &str, role: Role| GroupRule {
            from: Some("certificate".into()),
            group: Some(group.into()),
            rights: Arc::new(role.into()),
        };
        options.access.groups =
            Groups(vec![rule("senders", Role::Ingest), rule("ops", Role::Operate)]);
    })
}

fn certificate(unit: &str) -> ClientCertificate {
    ClientCertificate {
        common_name: Some("web1".into()),
        units: vec![unit.into()],
        emails: vec!["ann@corp.example".into()],
        hosts: vec!["a".into(), "b".into()],
    }
}

async fn shown(
    fixture: &Fixture,
    certificate: &ClientCertificate,
    path: &str,
    header: Option<(&str, &str)>,
) -> Response {
    let mut request = Request::get(path).header(HOST, "localhost");
    if let Some((name, value)) = header {
        request = request.header(name, value);
    }
    let mut request = request.body(Body::empty()).unwrap();
    request.extensions_mut().insert(Arc::new(certificate.clone()));
    fixture.answer(Ok(request)).await
}

#[tokio::test]
async fn a_certificate_names_its_user() {
    let fixture = server(NamedBy::CommonName);
    let ops = certificate("ops");
    let me = text(shown(&fixture, &ops, "/api/v1/me", None).await).await;
    let me: Value = serde_json::from_str(&me).unwrap();
    assert_eq!((&me["name"], &me["role"]), (&"web1@certificate".into(), &"operate".into()));
    let status = async |of: &ClientCertificate, path: &str, header| {
        shown(&fixture, of, path, header).await.status().as_u16()
    };
    assert_eq!(status(&ops, "/api/v1/status", None).await, 200);
    assert_eq!(status(&ops, "/api/v1/users", None).await, 403);
    assert_eq!(status(&certificate("senders"), "/api/v1/status", None).await, 403);
    // Other credentials count before it, wrong ones too.
    let (admin, wrong) = (bearer(Role::Admin), "Bearer wrong".to_owned());
    let by = |value| Some((AUTHORIZATION.as_str(), value));
    assert_eq!(status(&ops, "/api/v1/users", by(&*admin)).await, 200);
    assert_eq!(status(&ops, "/api/v1/status", by(&*wrong)).await, 401);
    let gate = fixture.app.gate();
    let cookie = format!("{}={}", gate.cookie(), gate.sessions().begin("read".into()).unwrap());
    let of_read = Some((COOKIE.as_str(), &*cookie));
    assert_eq!(status(&certificate("senders"), "/api/v1/status", of_read).await, 200);
    // One that no rule lets in, and one that names nobody.
    let refused = shown(&fixture, &certificate("cooks"), "/api/v1/status", None).await;
    assert_eq!(refused.status(), 403);
    assert!(text(refused).await.contains("no group of web1@certificate may log in here"));
    let unnamed = ClientCertificate { common_name: None, ..certificate("ops") };
    assert_eq!(status(&unnamed, "/api/v1/status", None).await, 403);
    // A page of another site cannot use it.
    let foreign = Some(("sec-fetch-site", "cross-site"));
    assert_eq!(status(&ops, "/api/v1/status", foreign).await, 403);
}

#[tokio::test]
async fn the_name_may_be_an_alternative_one() {
    let me = async |named_by| {
        let fixture = server(named_by);
        let me = text(shown(&fixture, &certificate("ops"), "/api/v1/me", None).await).await;
        serde_json::from_str::<Value>(&me).unwrap()["name"].clone()
    };
    assert_eq!(me(NamedBy::Email).await, "ann@corp.example@certificate");
    // Two names are no name.
    assert_eq!(me(NamedBy::Host).await, Value::Null);
}
