//! What no client can bring about from outside at a moment of its choice: a question that panics.

use axum::body::{Body, to_bytes};
use axum::http::Request;
use axum::response::Response;
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use platform::RealDisk;
use query::RunError;

use super::*;
use crate::config::RawConfig;
use crate::jobs::QUERIES_DIR;

/// An API over a running pipeline without sources, which nothing listens for.
struct Fixture {
    app: Arc<App>,
    pipeline: Arc<Pipeline>,
    _stop: watch::Sender<bool>,
    _dir: tempfile::TempDir,
}

impl Fixture {
    fn new() -> Fixture {
        let dir = tempfile::tempdir().unwrap();
        let raw = RawConfig {
            data_dir: dir.path().join("data"),
            syslog_udp_listen: "off".into(),
            syslog_tcp_listen: "off".into(),
            ..RawConfig::default()
        };
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
    let fixture = Fixture::new();
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
