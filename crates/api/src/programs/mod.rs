//! `/api/v1/programs`: lists, saves, tests and reruns programs of users, and reads their rows.

mod change;
pub mod metrics;
mod rows;
mod runs;
mod shown;
mod trial;

use std::sync::Arc;

use axum::http::StatusCode;

use crate::access::principal::Scope;
use crate::access::routes::Routes;
use crate::app::App;
use crate::hand_on;
use crate::wire::error::ApiError;
use node::programs::registry::ChangeError;

/// The routes of this folder.
pub fn routes() -> Routes<Arc<App>> {
    Routes::new()
        .get(Scope::Read, "/api/v1/programs/examples", shown::examples)
        .get(Scope::ReadAll, "/api/v1/programs/{name}/rows", rows::rows)
        // A run is a query of the node that begins it.
        .post(Scope::Operate, "/api/v1/programs/{name}/runs", runs::begin)
        .within(hand_on::to_their_node)
        .get(Scope::ReadAll, "/api/v1/programs", shown::list)
        .post(Scope::Operate, "/api/v1/programs/reload", change::reload)
        .post(Scope::Operate, "/api/v1/programs/test", trial::test)
        .get(Scope::ReadAll, "/api/v1/programs/{name}", shown::one)
        .post(Scope::Operate, "/api/v1/programs/{name}", change::save)
        .delete(Scope::Operate, "/api/v1/programs/{name}", change::delete)
        .post(Scope::Operate, "/api/v1/programs/{name}/enable", change::enable)
        .post(Scope::Operate, "/api/v1/programs/{name}/disable", change::disable)
        .get(Scope::ReadAll, "/api/v1/programs/{name}/runs", runs::list)
}

/// How a change that was refused is answered.
fn refused(error: ChangeError) -> ApiError {
    let message = error.to_string();
    match error {
        ChangeError::Folder(error) => ApiError::of_disk(message, &error),
        ChangeError::NotFound(_) => ApiError::not_found(message),
        ChangeError::Invalid(error) => {
            ApiError::bad_request(message).with("line", error.line as u64)
        }
        ChangeError::Configured(_) => ApiError::new(StatusCode::CONFLICT, message),
    }
}
