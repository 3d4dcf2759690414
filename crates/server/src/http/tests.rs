//! What no client can bring about from outside at a moment of its choice: a question that panics, pages that nobody reads.

use axum::body::{Body, to_bytes};
use axum::http::Request;
use axum::response::Response;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use platform::RealDisk;
use query::RunError;

use super::*;
use crate::config::RawConfig;
use crate::jobs::{QUERIES_DIR, Submission};

/// An API over a running pipeline without sources, which nothing listens for.
struct Fixture {
    app: Arc<App>,
    pipeline: Arc<Pipeline>,
    _stop: watch::Sender<bool>,
    _dir: tempfile::TempDir,
}

impl Fixture {
    fn new(change: impl FnOnce(&mut RawConfig)) -> Fixture {
        let dir = tempfile::tempdir().unwrap();
        let mut raw = RawConfig {
            data_dir: dir.path().join("data"),
            syslog_udp_listen: "off".into(),
            syslog_tcp_listen: "off".into(),
            ..RawConfig::default()
        };
        change(&mut raw);
        let config = Config::try_from(raw).unwrap();
        let accounting = Arc::new(Accounting::default());
        let (stop, stopping) = watch::channel(false);
        let address = config.http_listen;
        let app = Arc::new(App::new(config.clone(), address, Arc::clone(&accounting), stopping));
        let pipeline = Pipeline::start(&config, accounting, Box::new(|| false)).unwrap();
        let disk = Arc::new(RealDisk);
        let (queries, queue) = (config.data_dir.join(QUERIES_DIR), app.queue().clone());
        let (limits, background) = (config.query.limits, config.query.background);
        let jobs =
            Jobs::open(disk, queries, background, limits, queue, Arc::clone(&pipeline)).unwrap();
        app.run(Arc::clone(&pipeline), jobs);
        Fixture { app, pipeline, _stop: stop, _dir: dir }
    }

    async fn get(&self, path: &str) -> Response {
        let request = Request::get(path).body(Body::empty()).unwrap();
        let router = TowerToHyperService::new(router(Arc::clone(&self.app)));
        router.call(request).await.unwrap()
    }

    async fn metric(&self, sample: &str) -> u64 {
        let metrics = text(self.get("/metrics").await).await;
        let value = metrics.lines().find_map(|line| line.strip_prefix(sample)?.strip_prefix(' '));
        value.unwrap_or_else(|| panic!("{sample} is missing")).parse().unwrap()
    }

    /// A background query over one line that has ended.
    fn ended_query(&self) -> u64 {
        let origin = ::record::Origin::new(::record::Transport::Http, ::record::Format::Auto, None);
        self.pipeline.http_lines().push(&origin, b"a line\n").0.wait().unwrap();
        let asked = Submission {
            query: "line".into(),
            now_ns: 0,
            start_ns: i64::MIN,
            end_ns: i64::MAX,
            limit: None,
            format: "raw".into(),
            include: Vec::new(),
            run_time_ms: 60_000,
            client: "a test".into(),
        };
        let id = self.app.jobs().unwrap().submit(asked).unwrap();
        while !self.app.queue.get(id).unwrap().state.is_ended() {
            std::thread::yield_now();
        }
        id
    }
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
async fn a_question_that_panics_is_counted_as_failed() {
    let fixture = Fixture::new(|_| {});
    let ask = |work: fn(&ask::Running) -> Result<(), RunError>| {
        let peer = ([127, 0, 0, 1], 1).into();
        ask::answer(ask::Asked::new(&fixture.app, "query", "*", peer).unwrap(), work)
    };
    let failed = "loginson_queries_total{state=\"failed\"}";
    assert!(ask(|_| Ok(())).await.is_ok());
    assert_eq!(fixture.metric(failed).await, 0);
    let error = ask(|_| panic!("a test of what happens then")).await.unwrap_err();
    assert_eq!(error.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(fixture.metric(failed).await, 1);
    assert_eq!(fixture.metric("loginson_queries_total{state=\"done\"}").await, 1);
    assert_eq!(fixture.app.queue.list()[0].state, query::State::Failed);
    let error = ask(|_| Err(RunError::TimeLimit(1.0))).await.unwrap_err();
    assert_eq!(error.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(fixture.metric(failed).await, 2);
}

#[tokio::test]
async fn as_many_pages_are_sent_at_once_as_said() {
    let fixture = Fixture::new(|raw| raw.query.pages_max = 2);
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
    // One whose client is gone gives its place back, and one that was sent, and one that was a mistake.
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
