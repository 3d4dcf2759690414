//! `/api/v1/login`, `/api/v1/logout`, `/api/v1/me`: the login of the page, and who is logged in.
//!
//! Scripts cannot read the cookie (`HttpOnly`), and browsers do not send it with requests of other
//! sites (`SameSite=Strict`). If the login came over HTTPS, browsers send the cookie over HTTPS
//! only (`Secure`). Behind a proxy that speaks HTTPS, the `Origin` of the login says so.
//!
//! Logins by a provider of OpenID Connect are in [`super::oidc`].

use axum::Json;
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_TYPE, ORIGIN, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};

use super::audit;
use super::gate::{self, Gate};
use super::principal::{Principal, Scope, Who};
use super::routes::Routes;
use super::secrets::PASSWORD_BYTES_MAX;
use crate::wire::body::read_whole;
use crate::wire::error::{ApiError, ApiResult};

/// Limit of the form of a login: name and password, percent-encoded. A longer form is refused with
/// 413.
const FORM_BYTES_MAX: usize = 4 * PASSWORD_BYTES_MAX;

/// The routes of this file.
pub fn routes<S: Clone + Send + Sync + 'static>(gate: Gate) -> Routes<S> {
    Routes::new()
        .post(Scope::Open, "/api/v1/login", login)
        .post(Scope::Open, "/api/v1/logout", logout)
        .get(Scope::Open, "/api/v1/me", me)
        .with_state(gate)
}

/// Begins a session of the user whose name and password are in the form.
async fn login(State(gate): State<Gate>, request: Request) -> ApiResult {
    let (parts, body) = request.into_parts();
    let is_form = parts
        .headers
        .get(CONTENT_TYPE)
        .is_some_and(|given| given.as_bytes().starts_with(b"application/x-www-form-urlencoded"));
    if !is_form {
        return Err(ApiError::bad_request(
            "send name and password as application/x-www-form-urlencoded",
        ));
    }
    let peer = parts.extensions.get().map(|axum::extract::ConnectInfo(peer)| *peer);
    let form = read_whole(body, FORM_BYTES_MAX).await?.ok_or_else(|| {
        ApiError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "the form is longer than a name and a password may be",
        )
    })?;
    let (mut name, mut password) = (String::new(), String::new());
    for (field, value) in form_urlencoded::parse(&form) {
        match &*field {
            "name" => name = value.into_owned(),
            "password" => password = value.into_owned(),
            _ => return Err(ApiError::bad_request("a login takes only a name and a password")),
        }
    }
    if !gate.has_passwords() {
        return Err(ApiError::bad_request(
            "nobody can log in here: there are no users; see docs/access.md",
        ));
    }
    let (principal, outside) = gate.by_login(&name, password.as_bytes(), peer).await?;
    let Who::Named(user) = &principal.who else {
        return Err(ApiError::internal("a user without a name"));
    };
    let id = gate.begin(&parts.headers, user.clone(), outside, peer)?;
    let cookie = set_cookie(&gate, &parts.headers, &id, gate.sessions().lasts().as_secs());
    Ok(([(SET_COOKIE, cookie?)], Json(shown(&gate, &principal))).into_response())
}

/// Ends the session of the cookie. `next` of the answer is where the browser logs out at the
/// provider as well.
async fn logout(State(gate): State<Gate>, request: Request) -> ApiResult {
    let mut next = None;
    for cookie in gate.cookies(request.headers()) {
        let Some(session) = gate.sessions().end(cookie) else { continue };
        if let Some(peer) = gate::peer(&request) {
            audit::note_login(gate.audit(), peer, &session.user, "logged out");
        }
        next = session.outside.and_then(|outside| gate.logout_url(&outside)).or(next);
    }
    let cookie = set_cookie(&gate, request.headers(), "", 0)?;
    Ok(([(SET_COOKIE, cookie)], Json(json!({ "next": next }))).into_response())
}

/// Returns who is logged in. This call is never refused: its response tells the page whether to
/// show a login.
async fn me(State(gate): State<Gate>, request: Request) -> Response {
    let peer = gate::peer(&request);
    let identified = match gate.by_request(&request, peer) {
        Some(found) => found,
        None => {
            let identified = gate.identify(request.method(), request.headers(), peer).await;
            identified.and_then(|principal| gate.or_by_certificate(principal, &request, peer))
        }
    };
    let principal = identified.unwrap_or_else(|_| Principal::nobody());
    Json(shown(&gate, &principal)).into_response()
}

fn shown(gate: &Gate, principal: &Principal) -> Value {
    json!({
        "login": if gate.is_off() { "off" } else { "on" },
        "name": principal.name(),
        "role": principal.role().map(|role| role.name()),
        "exposed": gate.is_exposed(),
        "restricted": gate.restricts(principal),
        "passwords": gate.has_passwords(),
        "providers": gate.providers().names(),
    })
}

fn set_cookie(gate: &Gate, headers: &HeaderMap, id: &str, age_s: u64) -> ApiResult<HeaderValue> {
    let came_encrypted = gate.is_https()
        || headers.get(ORIGIN).is_some_and(|origin| origin.as_bytes().starts_with(b"https://"));
    let cookie = session_cookie(gate, id, age_s, came_encrypted);
    HeaderValue::from_str(&cookie).map_err(|error| ApiError::internal(error.to_string()))
}

/// The cookie of a session.
pub fn session_cookie(gate: &Gate, id: &str, age_s: u64, is_https: bool) -> String {
    let secure = if is_https { "; Secure" } else { "" };
    let name = gate.cookie();
    format!("{name}={id}; Path=/; Max-Age={age_s}; HttpOnly; SameSite=Strict{secure}")
}
