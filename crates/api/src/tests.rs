//! Situations that no client can cause from outside at a moment of its choice: a query that panics,
//! pages that nobody reads, with the shortest limits.

mod accounts;
mod auditing;
mod certificates;
mod elastic;
mod followed;
mod gate;
mod hostile;
mod ldap;
mod loki;
mod oidc;
mod otlp;
mod proxies;
mod pushes;
mod quotas;
mod refusals;
mod restricted;
mod tenants;

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::extract::ConnectInfo;
use axum::http::{Request, StatusCode};
use axum::response::Response;
use collector::{Accounting, Deliver, KeepError, OnDurable, Patience, SourceKind};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use node::pipeline::Pipeline;
use platform::{RealClock, RealDisk};
use query::RunError;
use tokio::sync::watch;

use crate::access::principal::{Caller, Principal};
use crate::access::users::AccessOptions;
use crate::ingest::InsertOptions;
use crate::options::ApiOptions;
use crate::*;
use node::data_dir::QUERIES_FOLDER;
use node::pipeline::options::NodeOptions;
use node::queries::jobs::{Jobs, OwnLimits, Submission};
use platform::memory::Budget;

/// Where the API would listen.
const ADDRESS: SocketAddr = SocketAddr::V4(SocketAddrV4::new(Ipv4Addr::LOCALHOST, 9514));

/// An API over a running pipeline, without sources and without a listener.
struct Fixture {
    app: Arc<App>,
    pipeline: Arc<Pipeline>,
    stop: watch::Sender<bool>,
    router: Router,
    _dir: tempfile::TempDir,
}

impl Fixture {
    fn new(change: impl FnOnce(&mut ApiOptions)) -> Fixture {
        Fixture::of_tenants(Arc::default(), change)
    }

    fn of_tenants(
        tenants: Arc<node::ingest::tenants::Tenants>,
        change: impl FnOnce(&mut ApiOptions),
    ) -> Fixture {
        Fixture::of_node(|node| node.tenants = tenants, change)
    }

    fn of_node(
        change_node: impl FnOnce(&mut NodeOptions),
        change: impl FnOnce(&mut ApiOptions),
    ) -> Fixture {
        let dir = tempfile::tempdir().unwrap();
        let mut node = NodeOptions::new(dir.path().join("data"));
        change_node(&mut node);
        let mut options = ApiOptions::new(&node);
        change(&mut options);
        let accounting = Arc::new(Accounting::default());
        let (stop, stopping) = watch::channel(false);
        let app =
            Arc::new(App::new(options, ADDRESS, Arc::clone(&accounting), None, None, stopping));
        app.gate().set_tenants(Arc::clone(&node.tenants)).unwrap();
        let runs_queries = Box::new(|| false);
        let pipeline = Pipeline::start(&node, accounting, app.memory(), runs_queries).unwrap();
        let disk = Arc::new(RealDisk);
        let (queries, queue) = (node.data_dir().join(QUERIES_FOLDER), app.queue().clone());
        let (limits, background) = (node.query.limits, node.query.background);
        let (stored, memory) = (
            node::cluster::QueriedLines::Own(pipeline.stored.clone()),
            Arc::clone(&pipeline.memory),
        );
        let jobs = Jobs::open(disk, queries, background, limits, queue, stored, memory).unwrap();
        app.run(Arc::clone(&pipeline), jobs);
        Fixture { router: router(Arc::clone(&app)), app, pipeline, stop, _dir: dir }
    }

    async fn get(&self, path: &str) -> Response {
        self.answer(Request::get(path).header("host", "localhost").body(Body::empty())).await
    }

    /// The response to a request from this machine.
    async fn answer(&self, request: Result<Request<Body>, axum::http::Error>) -> Response {
        let (peer, mut request): (SocketAddr, _) = (([127, 0, 0, 1], 1).into(), request.unwrap());
        request.extensions_mut().insert(ConnectInfo(peer));
        TowerToHyperService::new(self.router.clone()).call(request).await.unwrap()
    }

    async fn metric(&self, sample: &str) -> u64 {
        let metrics = text(self.get("/metrics").await).await;
        let value = metrics.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("{sample} is missing")).parse().unwrap()
    }

    fn push(&self, mut lines: &[u8]) {
        let origin = ::record::Origin::new(::record::Transport::Http, ::record::Format::Auto, None);
        while !lines.is_empty() {
            let (ticket, rest) = self.pipeline.http.push(&origin, lines);
            ticket.wait().unwrap();
            lines = rest;
        }
    }

    /// Listens for connections.
    async fn listen(&self) -> SocketAddr {
        listen(self.router.clone(), self.app.clients().clone(), self.stop.subscribe()).await
    }

    /// A background query that has ended, over lines that all have the word `line`.
    fn ended_query(&self) -> u64 {
        let submission = Submission {
            query: "line".into(),
            now_ns: 0,
            start_ns: i64::MIN,
            end_ns: i64::MAX,
            limit: None,
            format: "raw".into(),
            include: Vec::new(),
            run_time_ms: 60_000,
            client: "a test".into(),
            seen: String::new(),
            tenant: String::new(),
            memory_bytes_max: None,
            own: OwnLimits::default(),
        };
        let id = self.app.jobs().unwrap().submit(submission).unwrap();
        while !self.app.queue.get(id).unwrap().state.is_ended() {
            std::thread::yield_now();
        }
        id
    }
}

async fn listen(router: Router, clients: Clients, stop: watch::Receiver<bool>) -> SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(listener, router, clients, stop));
    address
}

/// Sends a request on a connection of its own.
fn request(address: SocketAddr, head: &str, body: &str) -> TcpStream {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(600))).unwrap();
    let request = format!(
        "{head} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    stream
}

/// More lines than the kernel buffers for a connection and the channel of a response hold, each
/// with the word `line`.
fn many_lines() -> Vec<u8> {
    format!("a line of {}\n", "x".repeat(1_000)).repeat(32_000).into_bytes()
}

impl Drop for Fixture {
    fn drop(&mut self) {
        self.app.stop();
        self.pipeline.stop();
    }
}

async fn text(response: Response) -> String {
    let bytes = to_bytes(response.into_body(), usize::MAX).await.unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

#[tokio::test]
async fn a_query_that_panics_counts_as_failed() {
    let fixture = Fixture::new(|_| {});
    let run = |work: fn(&queries::run::Running) -> Result<(), RunError>| {
        let peer = ([127, 0, 0, 1], 1).into();
        let caller =
            Caller { peer, principal: Principal::anybody(), missing: Arc::default(), audit: None };
        queries::run::answer(
            queries::run::PendingQuery::new(&fixture.app, "query", "*", &caller).unwrap(),
            work,
        )
    };
    let failed = "loginson_queries_total{state=\"failed\"}";
    assert!(run(|_| Ok(())).await.is_ok());
    assert_eq!(fixture.metric(failed).await, 0);
    let error = run(|_| panic!("a test of what happens then")).await.unwrap_err();
    assert_eq!(error.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(fixture.metric(failed).await, 1);
    assert_eq!(fixture.metric("loginson_queries_total{state=\"done\"}").await, 1);
    assert_eq!(fixture.app.queue.list()[0].state, query::QueryState::Failed);
    let error = run(|_| Err(RunError::TimeLimit(1.0))).await.unwrap_err();
    assert_eq!(error.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(fixture.metric(failed).await, 2);
}

#[tokio::test]
async fn queries_are_timed_and_slow_ones_are_counted() {
    for (slow, counted) in [(Some(Duration::ZERO), 1), (Some(Duration::MAX), 0), (None, 0)] {
        let fixture = Fixture::new(|options| options.query.slow = slow);
        fixture.push(b"a line\n");
        let answer = fixture.get("/select/logsql/query?query=line").await;
        assert!(text(answer).await.contains("a line"));
        assert_eq!(fixture.metric("loginson_queries_slow_total").await, counted, "{slow:?}");
        assert_eq!(fixture.metric("loginson_query_duration_seconds_count").await, 1);
        assert_eq!(fixture.metric("loginson_query_wait_seconds_bucket{le=\"+Inf\"}").await, 1);
        assert!(fixture.metric("loginson_store_commit_latency_seconds_count").await >= 1);
        // An export takes as long as its client wants.
        let export = fixture.get("/api/v1/export?format=raw").await;
        assert_eq!(text(export).await, "a line\n");
        assert_eq!(fixture.metric("loginson_query_duration_seconds_count").await, 1);
    }
}

#[tokio::test]
async fn pages_sent_at_once_are_limited() {
    let fixture = Fixture::new(|options| options.pages_max = 2);
    fixture.push(b"a line\n");
    let path = format!("/api/v1/queries/{}/results", fixture.ended_query());
    let (first, second) = (fixture.get(&path).await, fixture.get(&path).await);
    assert_eq!((first.status(), second.status()), (StatusCode::OK, StatusCode::OK));
    assert_eq!(fixture.metric("loginson_result_pages_open").await, 2);
    let third = fixture.get(&path).await;
    assert_eq!(third.status(), StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(third.headers()["retry-after"], "1");
    let message = text(third).await;
    assert!(message.contains("query.pages_max") && message.contains("2 pages"), "{message}");
    assert_eq!(fixture.metric("loginson_result_pages_refused_total").await, 1);
    // A page releases its permit when its client is gone, when it was sent, and when the request
    // was wrong.
    drop(first);
    assert_eq!(fixture.metric("loginson_result_pages_open").await, 1);
    assert_eq!(text(fixture.get(&path).await).await, "a line\n");
    let mistake = fixture.get(&format!("{path}?cursor=none")).await;
    assert_eq!(mistake.status(), StatusCode::BAD_REQUEST);
    assert_eq!(fixture.metric("loginson_result_pages_open").await, 1);
    assert_eq!(text(second).await, "a line\n");
    assert_eq!(fixture.metric("loginson_result_pages_open").await, 0);
    assert_eq!(fixture.metric("loginson_result_pages_refused_total").await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unread_export_releases_its_slot_and_says_why() {
    let fixture = Fixture::new(|options| options.client_idle_max = Duration::from_secs(1));
    fixture.push(&many_lines());
    let address = fixture.listen().await;
    let unread = request(address, "GET /api/v1/export?format=raw", "");
    let ended = || fixture.app.queue.list().first().is_some_and(|entry| entry.state.is_ended());
    while !ended() {
        tokio::task::yield_now().await;
    }
    let entry = fixture.app.queue.list().remove(0);
    assert_eq!(entry.state, query::QueryState::Cancelled);
    let expected = "the client read nothing of its response for 1 s (query.client_idle_max)";
    assert_eq!(entry.error.as_deref(), Some(expected));
    assert_eq!(fixture.metric("loginson_http_clients_stalled_total").await, 1);
    assert_eq!(fixture.metric("loginson_queries_total{state=\"cancelled\"}").await, 1);
    assert_eq!(fixture.metric("loginson_queries_running").await, 0);
    drop(unread);

    // A client that reads gets everything, and one that goes away is distinguished from one that
    // does not read. On a slow machine neither reads for a second at times.
    let fixture = Fixture::new(|options| options.client_idle_max = Duration::from_secs(86_400));
    fixture.push(&many_lines());
    let address = fixture.listen().await;
    let read = tokio::task::spawn_blocking(move || {
        let mut bytes = Vec::new();
        request(address, "GET /api/v1/export?format=raw", "").read_to_end(&mut bytes).unwrap();
        bytes.iter().filter(|&&byte| byte == b'\n').count()
    });
    assert!(read.await.unwrap() > 32_000);
    let gone = tokio::task::spawn_blocking(move || {
        let mut stream = request(address, "GET /api/v1/export?format=raw", "");
        stream.read_exact(&mut [0; 1_000]).unwrap();
    });
    gone.await.unwrap();
    let gone = Some("the client went away (499)");
    while !fixture.app.queue.list().iter().any(|entry| entry.error.as_deref() == gone) {
        tokio::task::yield_now().await;
    }
    assert_eq!(fixture.metric("loginson_http_clients_stalled_total").await, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unread_page_releases_its_permit() {
    let fixture = Fixture::new(|options| {
        options.client_idle_max = Duration::from_secs(1);
        options.pages_max = 1;
    });
    fixture.push(&many_lines());
    let path = format!("/api/v1/queries/{}/results?limit=10000", fixture.ended_query());
    let address = fixture.listen().await;
    let unread = request(address, &format!("GET {path}"), "");
    let stalled = &fixture.app.clients().stalled;
    while stalled.load(Relaxed) == 0 || fixture.metric("loginson_result_pages_open").await > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(fixture.metric("loginson_http_clients_stalled_total").await, 1);
    // The rows still exist.
    assert_eq!(fixture.get(&path).await.status(), StatusCode::OK);
    drop(unread);
}

/// Panics in the next delivery; keeps nothing.
#[derive(Default)]
struct Faulty(AtomicBool);

impl Deliver for Faulty {
    fn next_sequence(&self) -> (u32, u64) {
        (1, 1)
    }

    fn deliver(
        &self,
        _: ::record::Frame,
        on_durable: OnDurable,
        _: Patience,
    ) -> Result<(), KeepError> {
        assert!(!self.0.swap(false, Relaxed), "a fault, which is tested");
        on_durable(Ok(()));
        Ok(())
    }

    fn refusal(&self) -> Option<KeepError> {
        None
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_are_accepted_after_a_panic_on_other_lines() {
    let (faulty, accounting) = (Arc::new(Faulty::default()), Arc::new(Accounting::default()));
    let parser = ::record::Parser::new(&::record::ParserConfig::default()).unwrap();
    let lines = Arc::new(node::ingest::http_lines::HttpLines::start(
        Arc::clone(&faulty) as _,
        Arc::clone(&accounting),
        Arc::new(RealClock::new()),
        Arc::new(node::storage::stored::Parsers::new(parser)),
    ));
    let to = move || Ok(Arc::clone(&lines));
    let inserting = Inserting::new(
        InsertOptions::default(),
        Arc::clone(&accounting),
        &Budget::unlimited(),
        watch::channel(true).1,
        to,
    );
    let (_stop, stopping) = watch::channel(false);
    let clients =
        Clients::new(Duration::from_secs(300), HTTP_CONNECTIONS_MAX, None, Arc::default());
    let gate = Gate::new(&AccessOptions::default(), ADDRESS, false);
    let (router, table) = crate::loki::ways_in::<()>(inserting).into_parts();
    // A collector has what senders of Loki post to, as it has all other ways in.
    assert!(table.iter().any(|route| route.path == "/loki/api/v1/push"));
    let address = listen(router.layer(Extension(gate)), clients, stopping).await;
    let push = move || {
        let mut answer = String::new();
        let read = request(address, "POST /insert/lines", "a\nb\n").read_to_string(&mut answer);
        // After a panic the connection may be reset.
        if let Err(error) = read {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
        }
        answer.split(' ').nth(1).map(str::to_owned)
    };
    faulty.0.store(true, Relaxed);
    let failed = tokio::task::spawn_blocking(push).await.unwrap();
    assert_ne!(failed.as_deref(), Some("200"));
    assert_eq!(tokio::task::spawn_blocking(push).await.unwrap().as_deref(), Some("200"));
    let counts = accounting.source(SourceKind::Http).counts();
    assert_eq!((counts.lines_kept, counts.lines_missing()), (2, 0));
}
