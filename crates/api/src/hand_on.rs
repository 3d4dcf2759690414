//! In a cluster, one node runs the programs and sinks. The other nodes hand calls about them on to
//! it, so that every node answers alike.

use std::pin::Pin;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{FromRequestParts, Request};
use axum::http::header::{CONTENT_TYPE, HeaderValue};
use axum::http::{Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use crate::access::audit;
use crate::access::principal::Caller;
use crate::app::App;
use crate::wire::body::read_whole;
use crate::wire::error::{ApiError, ApiResult};
use node::cluster::node::{HANDED_ON, HandedOn, NodeAnswer};
use node::programs::stage::ProgramStage;
use node::saved_views::SavedViews;
use node::saved_views::documents::DocumentError;

/// A longer body is none of these calls.
///
/// limits.md, Nodes of a cluster: calls about programs that are handed on to another node | {}
/// each, 30 s | refused
const BODY_BYTES_MAX: usize = 2 << 20;

/// Hands a call on where the programs run elsewhere.
pub fn to_their_node(
    request: Request,
    next: Next,
) -> Pin<Box<dyn Future<Output = Response> + Send>> {
    Box::pin(async move {
        let app = request.extensions().get::<Arc<App>>().cloned();
        let is_elsewhere = |app: &Arc<App>| {
            let runs_here = app.pipeline().is_ok_and(|pipeline| pipeline.programs().is_some());
            !runs_here && !request.headers().contains_key(HANDED_ON)
        };
        match app.filter(is_elsewhere) {
            Some(app) if app.cluster().is_some_and(|cluster| cluster.engines().is_some()) => {
                hand_on(&app, request).await.unwrap_or_else(IntoResponse::into_response)
            }
            _ => next.run(request).await,
        }
    })
}

async fn hand_on(app: &Arc<App>, request: Request) -> Result<Response, ApiError> {
    let cluster = app.cluster();
    let node = cluster.as_ref().and_then(|cluster| cluster.engines()?.programs_node());
    let node = node.ok_or_else(|| elsewhere(app))?;
    let (mut parts, body) = request.into_parts();
    let caller = Caller::from_request_parts(&mut parts, app).await?;
    // The other node would take the call for one about what all share.
    let is_of_views = |calls| parts.uri.path().starts_with(calls);
    if ["/api/v1/dashboards", "/api/v1/links"].into_iter().any(is_of_views)
        && caller.principal.tenants.views().is_some()
    {
        app.views_of(&caller)?;
    }
    let body = read_whole(body, BODY_BYTES_MAX).await?.ok_or_else(|| {
        ApiError::new(StatusCode::PAYLOAD_TOO_LARGE, format!("send at most {BODY_BYTES_MAX} bytes"))
    })?;
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let content_type = parts.headers.get(CONTENT_TYPE).cloned();
    let is_change = parts.method != Method::GET && parts.method != Method::HEAD;
    if is_change {
        // The other node knows this node alone, and not who made the call here.
        audit::note(&caller, &format!("{} {path} handed on to {}", parts.method, node.name), "");
    }
    let call = HandedOn { method: parts.method, path, content_type, body };
    let name = node.name.clone();
    let answered = tokio::task::spawn_blocking(move || node.hand_on(call)).await;
    let answered = answered.map_err(|error| ApiError::internal(error.to_string()))?;
    let NodeAnswer { status, content_type, body, .. } =
        answered.map_err(|error| ApiError::unavailable(error.message))?;
    if status == StatusCode::UNAUTHORIZED || (status == StatusCode::FORBIDDEN && is_change) {
        return Err(ApiError::new(
            StatusCode::BAD_GATEWAY,
            format!(
                "{name} runs the programs, and the token that nodes have does not permit this there: give [cluster] \
                 token_file a token with the role operate, or make the change at {name}"
            ),
        ));
    }
    let content_type = content_type.unwrap_or(HeaderValue::from_static("application/json"));
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    Ok(response)
}

/// The programs do not run here; says where they do.
pub fn elsewhere(app: &App) -> ApiError {
    let cluster = app.cluster();
    let node = cluster.as_ref().and_then(|cluster| cluster.engines()?.programs_node());
    match node {
        Some(node) => ApiError::new(
            StatusCode::CONFLICT,
            format!("the programs run at {} at present; do this there", node.name),
        ),
        None => ApiError::unavailable(
            "no store runs the programs at present; start a store, or try again in some seconds",
        ),
    }
}

impl App {
    /// The programs that run here; an error that names the node where they do.
    pub fn programs(&self) -> ApiResult<Arc<ProgramStage>> {
        let pipeline = self.pipeline()?;
        pipeline.programs().ok_or_else(|| elsewhere(self))
    }

    /// Reads or changes what people saved on the page, on a thread that may block; an error that
    /// names the node that keeps it: it is that of the programs.
    pub async fn with_views<T: Send + 'static>(
        &self,
        caller: &Caller,
        work: impl FnOnce(&SavedViews) -> Result<T, DocumentError> + Send + 'static,
    ) -> ApiResult<T> {
        self.programs()?;
        let views = self.views_of(caller)?;
        let done = tokio::task::spawn_blocking(move || work(&views)).await;
        Ok(done.map_err(|error| ApiError::internal(error.to_string()))??)
    }
}
