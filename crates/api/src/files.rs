//! `/api/v1/files`: the files that are followed.

use std::sync::Arc;

use axum::Json;
use axum::extract::{RawQuery, State};
use axum::response::{IntoResponse, Response};
use collector::FileSource;
use collector::file::{FileInfo, FileTotals};
use serde_json::{Value, json};
use text::time::format_time;

use crate::access::params::Params;
use crate::access::principal::Scope;
use crate::access::routes::Routes;
use crate::app::App;
use crate::wire::error::ApiResult;

/// Files of one response by default.
const FILES_OF_A_PAGE: usize = 100;
/// Limit of the files of one response.
const FILES_OF_A_PAGE_MAX: usize = 1000;

/// The routes of this file.
pub fn routes() -> Routes<Arc<App>> {
    Routes::new().get(Scope::ReadAll, "/api/v1/files", list)
}

async fn list(State(app): State<Arc<App>>, RawQuery(query): RawQuery) -> ApiResult {
    let page = Page::from_query(query)?;
    Ok(page.answer(|look| app.pipeline_seen().and_then(|pipeline| pipeline.sources().files(look))))
}

/// The part of the list that is requested.
pub struct Page {
    offset: usize,
    limit: usize,
}

/// Totals of the files, and a page of the list.
type Looked = (FileTotals, Vec<FileInfo>);

impl Page {
    /// Parses the parameters of a request.
    pub fn from_query(query: Option<String>) -> ApiResult<Page> {
        let params = Params::parse(query.unwrap_or_default().as_bytes());
        let limit: usize = params.number("limit")?.unwrap_or(FILES_OF_A_PAGE);
        Ok(Page {
            offset: params.number("offset")?.unwrap_or(0),
            limit: limit.min(FILES_OF_A_PAGE_MAX),
        })
    }

    /// The response; `files` reads the state of the files, if any are followed.
    pub fn answer(
        &self,
        files: impl FnOnce(&dyn Fn(&FileSource) -> Looked) -> Option<Looked>,
    ) -> Response {
        let look = |files: &FileSource| (files.totals(), files.list(self.offset, self.limit));
        let (totals, files) = files(&look).unwrap_or_default();
        Json(json!({
            "followed": totals.followed,
            "unreadable": totals.unreadable,
            "lag_bytes": totals.lag_bytes,
            "bytes_lost": totals.bytes_lost,
            "files": files.iter().map(entry).collect::<Vec<Value>>(),
        }))
        .into_response()
    }
}

fn entry(file: &FileInfo) -> Value {
    json!({
        "path": file.path,
        "state": file.state.name(),
        "size_bytes": file.size_bytes,
        "read_bytes": file.read_bytes,
        "durable_bytes": file.durable_bytes,
        "lag_bytes": file.size_bytes.saturating_sub(file.durable_bytes),
        "read": file.read_ns.map(format_time),
        "error": file.error,
    })
}
