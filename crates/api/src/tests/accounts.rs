//! Users and tokens that are made over the API: in force at once, kept for the next start, and
//! never such that nobody can administer the server.

use axum::http::header::AUTHORIZATION;
use node::data_dir::{ACCESS_FILE, DocumentFolder, Documents, SharedDocument};
use serde_json::Value;

use super::gate::basic;
use super::*;

/// A document that is kept in memory, or cannot be written.
#[derive(Default)]
pub(super) struct Memory {
    body: std::sync::Mutex<Option<Vec<u8>>>,
    is_full: AtomicBool,
}

impl Documents for Memory {
    fn read(&self, _: &str) -> std::io::Result<Option<Vec<u8>>> {
        Ok(self.body.lock().unwrap().clone())
    }

    fn replace(&self, _: &str, body: &[u8]) -> std::io::Result<()> {
        if self.is_full.load(Relaxed) {
            return Err(std::io::ErrorKind::StorageFull.into());
        }
        *self.body.lock().unwrap() = Some(body.to_vec());
        Ok(())
    }

    fn remove(&self, _: &str) -> std::io::Result<()> {
        Ok(())
    }

    fn list(&self, _: usize) -> std::io::Result<Vec<node::data_dir::ListedDocument>> {
        Ok(Vec::new())
    }

    fn place(&self, name: &str) -> String {
        name.to_owned()
    }
}

const PASSWORD: &str = "correct horse";

/// A server without users that keeps them in `memory`.
fn keeping(memory: &Arc<Memory>) -> Fixture {
    let fixture = Fixture::new(|_| {});
    fixture.app.gate().keep_in(Arc::clone(memory) as _).unwrap();
    fixture
}

impl Fixture {
    /// The status and the answer of a call with that `Authorization`.
    async fn asked(&self, call: &str, authorization: &str, body: &str) -> (u16, Value) {
        let (method, path) = call.split_once(' ').unwrap();
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
        if !authorization.is_empty() {
            request = request.header(AUTHORIZATION, authorization);
        }
        let response = self.answer(request.body(Body::from(body.to_owned()))).await;
        let status = response.status().as_u16();
        (status, serde_json::from_str(&text(response).await).unwrap_or_default())
    }
}

#[tokio::test]
async fn users_and_tokens_are_in_force_at_once() {
    let memory = Arc::<Memory>::default();
    let fixture = keeping(&memory);
    // The first one has to be able to administer, since nobody else could make another.
    let reader = format!("name=ann&role=read&password={PASSWORD}");
    let (status, answer) = fixture.asked("POST /api/v1/users", "", &reader).await;
    assert_eq!(status, 409, "{answer}");
    let body = format!(r#"{{"name":"ann","role":"admin","password":"{PASSWORD}"}}"#);
    assert_eq!(fixture.asked("POST /api/v1/users", "", &body).await.0, 200);
    assert_eq!(fixture.asked("GET /api/v1/status", "", "").await.0, 401);
    let ann = basic("ann", PASSWORD);
    assert_eq!(fixture.asked("GET /api/v1/status", &ann, "").await.0, 200);

    let (status, made) =
        fixture.asked("POST /api/v1/tokens", &ann, "name=t&role=read&expires=1d").await;
    let first = format!("Bearer {}", made["token"].as_str().unwrap());
    assert_eq!((status, fixture.asked("GET /api/v1/status", &first, "").await.0), (200, 200));
    let rotate = "POST /api/v1/tokens/t/rotate";
    let (_, made) = fixture.asked(rotate, &ann, "overlap=1h").await;
    let second = format!("Bearer {}", made["token"].as_str().unwrap());
    for valid in [&first, &second] {
        assert_eq!(fixture.asked("GET /api/v1/status", valid, "").await.0, 200);
    }
    let (_, made) = fixture.asked(rotate, &ann, "overlap=0").await;
    let third = format!("Bearer {}", made["token"].as_str().unwrap());
    for (token, status) in [(&first, 401), (&second, 401), (&third, 200)] {
        assert_eq!(fixture.asked("GET /api/v1/status", token, "").await.0, status);
    }
    let (_, listed) = fixture.asked("GET /api/v1/tokens", &ann, "").await;
    let listed = &listed["tokens"][0];
    assert!(listed["last_used"].is_string() && listed["expires"].is_string(), "{listed}");
    assert!(!listed.to_string().contains("lgs_"), "a token is shown once: {listed}");

    // Another process reads the same.
    let kept = memory.body.lock().unwrap().clone().unwrap();
    let kept = String::from_utf8(kept).unwrap();
    assert!(!kept.contains(PASSWORD) && !kept.contains("lgs_"), "only hashes are kept: {kept}");
    let next = keeping(&memory);
    assert_eq!(next.asked("GET /api/v1/status", &third, "").await.0, 200);
    assert_eq!(next.asked("DELETE /api/v1/tokens/t", &ann, "").await.0, 200);
    assert_eq!(next.asked("GET /api/v1/status", &third, "").await.0, 401);
}

#[tokio::test]
async fn the_last_administrator_stays() {
    let fixture = keeping(&Arc::default());
    let add = |name: &str, role: &str| format!("name={name}&role={role}&password={PASSWORD}");
    let ann = basic("ann", PASSWORD);
    assert_eq!(fixture.asked("POST /api/v1/users", "", &add("ann", "admin")).await.0, 200);
    let users = "POST /api/v1/users";
    for (call, body, status) in [
        ("DELETE /api/v1/users/ann", "", 409),
        ("POST /api/v1/users/ann", "role=read", 409),
        (users, &add("ann", "read"), 409),
        (users, &add("bob", "root"), 400),
        (users, &add("b b", "read"), 400),
        (users, "name=bob&role=read&password=short", 400),
        (users, "name=bob&role=read&password=longenough&more=1", 400),
        ("POST /api/v1/users?name=bob", "", 400),
        ("POST /api/v1/users/ann", "", 400),
        ("DELETE /api/v1/users/bob", "", 404),
        ("DELETE /api/v1/tokens/ann", "", 404),
        ("POST /api/v1/tokens", "name=t&role=read&expires=soon", 400),
        (users, &add("bob", "admin"), 200),
        ("DELETE /api/v1/users/ann", "", 200),
        (users, &add("eve", "read"), 401),
    ] {
        let (found, answer) = fixture.asked(call, &ann, body).await;
        assert_eq!(found, status, "{call} {body}: {answer}");
    }
    let bob = basic("bob", PASSWORD);
    assert_eq!(fixture.asked("POST /api/v1/users/bob", &bob, "password=another one").await.0, 200);
    assert_eq!(fixture.asked("GET /api/v1/users", &bob, "").await.0, 401);
    assert_eq!(fixture.asked("GET /api/v1/users", &basic("bob", "another one"), "").await.0, 200);
}

#[tokio::test]
async fn a_change_that_cannot_be_kept_does_not_hold() {
    let memory = Arc::<Memory>::default();
    let fixture = keeping(&memory);
    memory.is_full.store(true, Relaxed);
    let body = format!("name=ann&role=admin&password={PASSWORD}");
    assert_eq!(fixture.asked("POST /api/v1/users", "", &body).await.0, 507);
    assert_eq!(fixture.asked("GET /api/v1/status", "", "").await.0, 200);
    assert!(fixture.app.gate().is_off());
}

#[tokio::test]
async fn a_session_ends_with_its_user() {
    let fixture = keeping(&Arc::default());
    for name in ["ann", "bob"] {
        let body = format!("name={name}&role=admin&password={PASSWORD}");
        let by = if name == "ann" { String::new() } else { basic("ann", PASSWORD) };
        assert_eq!(fixture.asked("POST /api/v1/users", &by, &body).await.0, 200);
    }
    let cookie = fixture.app.gate().sessions().begin("bob".into()).unwrap();
    assert!(fixture.app.gate().sessions().user(cookie.as_bytes()).is_some());
    let ann = basic("ann", PASSWORD);
    assert_eq!(fixture.asked("DELETE /api/v1/users/bob", &ann, "").await.0, 200);
    assert!(fixture.app.gate().sessions().user(cookie.as_bytes()).is_none());
}

#[tokio::test]
async fn users_of_the_configuration_are_changed_there() {
    let fixture = Fixture::new(super::gate::with_access);
    fixture.app.gate().keep_in(Arc::<Memory>::default()).unwrap();
    let admin = super::gate::bearer(crate::access::principal::Role::Admin);
    let (status, answer) = fixture.asked("DELETE /api/v1/users/read", &admin, "").await;
    assert!(status == 409 && answer["error"].as_str().unwrap().contains("configuration"));
    let body = "name=read&role=read&password=longenough";
    assert_eq!(fixture.asked("POST /api/v1/users", &admin, body).await.0, 409);
}

/// A gate that other machines can reach, without users.
fn exposed() -> Gate {
    let gate = Gate::new(&AccessOptions::default(), ([192, 0, 2, 1], 9514).into(), false);
    gate.keep_in(Arc::<Memory>::default()).unwrap();
    gate
}

#[test]
fn the_first_administrator_needs_the_link_or_this_machine() {
    let gate = exposed();
    assert!(gate.may_make_first(([127, 0, 0, 1], 1).into()));
    assert!(!gate.may_make_first(([192, 0, 2, 7], 1).into()));
    assert!(gate.make_first(b"", || Ok(())).is_err(), "before there is a link");
    let old = gate.offer_first().unwrap();
    let secret = gate.offer_first().unwrap();
    for wrong in ["", "x", &old] {
        assert!(gate.make_first(wrong.as_bytes(), || Ok(())).is_err(), "{wrong}");
    }
    // A mistake in the form does not use the link up.
    let mistake = || Err::<(), _>(wire::error::ApiError::bad_request("a name"));
    assert!(gate.make_first(secret.as_bytes(), mistake).is_err());
    gate.make_first(secret.as_bytes(), || Ok(())).unwrap();
    assert!(gate.make_first(secret.as_bytes(), || Ok(())).is_err(), "it was used");
    // On loopback there is none: everybody who can use the machine may make it.
    let loopback = Gate::new(&AccessOptions::default(), ADDRESS, false);
    loopback.keep_in(Arc::<Memory>::default()).unwrap();
    assert!(loopback.offer_first().is_none());
}

#[test]
fn a_damaged_file_ends_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let folder = Arc::new(DocumentFolder::new(dir.path()));
    folder.replace(ACCESS_FILE, b"{").unwrap();
    let gate = Gate::new(&AccessOptions::default(), ADDRESS, false);
    let why = gate.keep_in(folder).unwrap_err();
    assert!(why.contains("access.json") && why.contains("backup"), "{why}");
}

#[tokio::test]
async fn restrictions_and_limits_are_given_and_taken_away() {
    let memory = Arc::<Memory>::default();
    let fixture = keeping(&memory);
    let admin = format!("name=root&role=admin&password={PASSWORD}");
    assert_eq!(fixture.asked("POST /api/v1/users", "", &admin).await.0, 200);
    let root = super::gate::basic("root", PASSWORD);
    let body = format!(
        r#"{{"name":"ann","role":"read","password":"{PASSWORD}","filter":"app:=shop",
             "hide_fields":["client_ip","user.*"],"queries_max":2,"run_max":"5s"}}"#
    );
    let (status, answer) = fixture.asked("POST /api/v1/users", &root, &body).await;
    assert_eq!(status, 200, "{answer}");
    let ann = || async {
        let (_, listed) = fixture.asked("GET /api/v1/users", &root, "").await;
        let users = listed["users"].as_array().unwrap().clone();
        users.into_iter().find(|user| user["name"] == "ann").unwrap()
    };
    let shown = ann().await;
    assert_eq!(shown["filter"], "app:=\"shop\"");
    assert_eq!(shown["hide_fields"], serde_json::json!(["client_ip", "user.*"]));
    assert_eq!(
        (&shown["limits"]["queries_max"], &shown["limits"]["run_s_max"]),
        (&2.into(), &5.0.into())
    );
    let basic = super::gate::basic("ann", PASSWORD);
    let (_, me) = fixture.asked("GET /api/v1/me", &basic, "").await;
    assert_eq!((&me["restricted"], &me["role"]), (&true.into(), &"read".into()));
    let (status, refused) = fixture.asked("GET /api/v1/status", &basic, "").await;
    assert_eq!(status, 403);
    assert!(refused.to_string().contains("made of all lines"), "{refused}");
    for (change, expected) in [
        ("role=operate", "the role operate cannot be restricted"),
        ("filter=client_ip:1", "which is hidden"),
        ("filter=_time:5m", "a time"),
        ("hide_fields=_type", "cannot be hidden"),
        ("queries_max=many", "not a whole number"),
        ("run_max=soon", "limits.run_max"),
    ] {
        let (status, answer) = fixture.asked("POST /api/v1/users/ann", &root, change).await;
        assert!(status == 400 && answer.to_string().contains(expected), "{change}: {answer}");
    }
    let (status, answer) =
        fixture.asked("POST /api/v1/users/ann", &root, "filter=&hide_fields=&queries_max=").await;
    assert_eq!(status, 200, "{answer}");
    let shown = ann().await;
    assert_eq!((&shown["filter"], &shown["limits"]["queries_max"]), (&Value::Null, &Value::Null));
    assert_eq!(shown["hide_fields"], serde_json::json!([]));
    assert_eq!(fixture.asked("GET /api/v1/status", &basic, "").await.0, 200);
    let body = "name=t&role=read&filter=app:=shop&rows_max=3";
    assert_eq!(fixture.asked("POST /api/v1/tokens", &root, body).await.0, 200);
    let (_, listed) = fixture.asked("GET /api/v1/tokens", &root, "").await;
    assert_eq!(listed["tokens"][0]["filter"], "app:=\"shop\"");
    assert_eq!(listed["tokens"][0]["limits"]["rows_max"], 3);
}

/// The document that the nodes of a cluster share.
#[derive(Default)]
struct Shared {
    body: std::sync::Mutex<Option<Vec<u8>>>,
    is_away: AtomicBool,
}

impl SharedDocument for Shared {
    fn read(&self) -> std::io::Result<Option<Vec<u8>>> {
        match self.is_away.load(Relaxed) {
            true => Err(std::io::ErrorKind::NotConnected.into()),
            false => Ok(self.body.lock().unwrap().clone()),
        }
    }

    fn change(
        &self,
        change: &mut dyn FnMut(Option<Vec<u8>>) -> Option<Vec<u8>>,
    ) -> std::io::Result<()> {
        let before = self.read()?;
        if let Some(body) = change(before) {
            *self.body.lock().unwrap() = Some(body);
        }
        Ok(())
    }
}

#[tokio::test]
async fn nodes_of_a_cluster_have_the_same_users_and_tokens() {
    let shared = Arc::<Shared>::default();
    let own = [(); 2].map(|()| Arc::<Memory>::default());
    let nodes = own.each_ref().map(keeping);
    let [first, second] = &nodes;
    let add = |name: &str, role: &str| format!("name={name}&role={role}&password={PASSWORD}");
    let (ann, bob) = (basic("ann", PASSWORD), basic("bob", PASSWORD));
    let users = "POST /api/v1/users";

    // Before the catalog answers nobody can make an administrator.
    nodes.iter().for_each(|node| node.app.gate().expect_sharing());
    assert_eq!(first.asked(users, "", &add("ann", "admin")).await.0, 503);
    for node in &nodes {
        node.app.gate().share(Arc::clone(&shared) as _).unwrap();
    }
    assert_eq!(first.asked(users, "", &add("ann", "admin")).await.0, 200);
    second.app.gate().look_for_changes().unwrap();
    assert_eq!(second.asked("GET /api/v1/status", "", "").await.0, 401);
    assert_eq!(second.asked("GET /api/v1/status", &ann, "").await.0, 200);

    // A change is made of what the cluster has, also before the node has looked.
    assert_eq!(first.asked(users, &ann, &add("bob", "read")).await.0, 200);
    assert_eq!(second.asked(users, &ann, &add("eve", "read")).await.0, 200);
    first.app.gate().look_for_changes().unwrap();
    for node in &nodes {
        let (_, listed) = node.asked("GET /api/v1/users", &ann, "").await;
        let names: Vec<&str> = listed["users"]
            .as_array()
            .unwrap()
            .iter()
            .map(|u| u["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, ["ann", "bob", "eve"], "{listed}");
    }
    assert_eq!(second.asked("DELETE /api/v1/users/bob", &ann, "").await.0, 200);
    assert_eq!(first.asked("GET /api/v1/status", &bob, "").await.0, 200);
    first.app.gate().look_for_changes().unwrap();
    assert_eq!(first.asked("GET /api/v1/status", &bob, "").await.0, 401);
    // The last administrator of the cluster stays, whichever node is asked.
    assert_eq!(second.asked("DELETE /api/v1/users/ann", &ann, "").await.0, 409);

    // Without the catalog nothing changes, and those who were known come in, also after a restart.
    shared.is_away.store(true, Relaxed);
    assert_eq!(first.asked(users, &ann, &add("dan", "read")).await.0, 503);
    assert!(first.app.gate().look_for_changes().is_err());
    assert_eq!(first.asked("GET /api/v1/status", &ann, "").await.0, 200);
    let again = keeping(&own[0]);
    again.app.gate().expect_sharing();
    assert_eq!(again.asked("GET /api/v1/status", &ann, "").await.0, 200);
    assert!(again.app.gate().share(Arc::clone(&shared) as _).is_err());
    shared.is_away.store(false, Relaxed);

    // A node that had users of its own takes those of the cluster.
    let other = keeping(&Arc::default());
    assert_eq!(other.asked(users, "", &add("zoe", "admin")).await.0, 200);
    other.app.gate().share(Arc::clone(&shared) as _).unwrap();
    assert_eq!(other.asked("GET /api/v1/status", &basic("zoe", PASSWORD), "").await.0, 401);
    assert_eq!(other.asked("GET /api/v1/status", &ann, "").await.0, 200);
    // What is damaged changes nothing.
    *shared.body.lock().unwrap() = Some(b"{".to_vec());
    assert!(other.app.gate().look_for_changes().is_err());
    assert_eq!(other.asked(users, &ann, &add("dan", "read")).await.0, 500);
    assert_eq!(other.asked("GET /api/v1/status", &ann, "").await.0, 200);
}
