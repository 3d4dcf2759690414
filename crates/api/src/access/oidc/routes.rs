//! `/api/v1/login/oidc/NAME` sends the browser to a provider; the provider sends it back to
//! `/api/v1/login/oidc/NAME/callback`, which begins the session.
//!
//! Browsers show the answers, so errors are pages. The cookie of a login that has begun is
//! `SameSite=Lax`, because the browser comes back from another site; that of the session is not.

use std::net::SocketAddr;

use axum::extract::{Path, Request, State};
use axum::http::header::{CONTENT_TYPE, COOKIE, LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};

use super::pending::PENDING_TIME_MAX;
use super::provider::{Fault, Provider, shown};
use crate::access::gate::{self, Gate};
use crate::access::login::session_cookie;
use crate::access::outside::Outside;
use crate::access::principal::Scope;
use crate::access::routes::Routes;
use crate::wire::error::{ApiError, ApiResult};

/// Bytes of the address on the page that a login leads back to. A longer one leads to the start of
/// the page.
const TO_BYTES_MAX: usize = 4096;
/// Cookies of logins that are looked at.
const COOKIES_MAX: usize = 4;

/// The routes of this file.
pub fn routes<S: Clone + Send + Sync + 'static>(gate: Gate) -> Routes<S> {
    Routes::new()
        .get(Scope::Open, "/api/v1/login/oidc/{name}", begin)
        .get(Scope::Open, "/api/v1/login/oidc/{name}/callback", callback)
        .with_state(gate)
}

/// What is looked at of a request.
struct Asked {
    query: String,
    headers: HeaderMap,
    peer: Option<SocketAddr>,
}

impl From<&Request> for Asked {
    fn from(request: &Request) -> Asked {
        Asked {
            query: request.uri().query().unwrap_or_default().to_owned(),
            headers: request.headers().clone(),
            peer: gate::peer(request),
        }
    }
}

async fn begin(State(gate): State<Gate>, Path(name): Path<String>, request: Request) -> Response {
    begun(&gate, &name, Asked::from(&request)).await.unwrap_or_else(|error| page(&error))
}

async fn begun(gate: &Gate, name: &str, asked: Asked) -> ApiResult {
    let providers = gate.providers();
    let Some(provider) = providers.get(name).cloned() else {
        return Err(ApiError::not_found("nobody can log in by a provider of this name"));
    };
    let mut pairs = form_urlencoded::parse(asked.query.as_bytes());
    let to = pairs.find(|(field, _)| field == "to").map(|(_, to)| to.into_owned());
    let to = to.filter(|to| is_on_page(to)).unwrap_or_else(|| "/".to_owned());
    let address = asked.peer.map_or([0, 0, 0, 0].into(), |peer| peer.ip());
    let given = providers.pending().begin(provider.options.name.clone(), to, address);
    let given = given.ok_or_else(|| ApiError::internal("the system provides no random numbers"))?;
    let cookie = pending_cookie(gate, &provider.options.external_url, &given.cookie);
    let called = provider.clone();
    let url = providers.called(move || called.login_url(&given)).await?;
    let url = url.map_err(|fault| refusal(&provider, fault))?;
    redirect(&url, [cookie])
}

async fn callback(
    State(gate): State<Gate>,
    Path(name): Path<String>,
    request: Request,
) -> Response {
    called_back(&gate, &name, Asked::from(&request)).await.unwrap_or_else(|error| page(&error))
}

async fn called_back(gate: &Gate, name: &str, asked: Asked) -> ApiResult {
    let providers = gate.providers();
    let Some(provider) = providers.get(name).cloned() else {
        return Err(ApiError::not_found("nobody can log in by a provider of this name"));
    };
    let Asked { query, headers, peer } = asked;
    let (mut state, mut code, mut issuer) = (String::new(), None, None);
    let (mut error, mut description) = (None, String::new());
    for (field, value) in form_urlencoded::parse(query.as_bytes()) {
        match &*field {
            "state" => state = value.into_owned(),
            "code" => code = Some(value.into_owned()),
            "iss" => issuer = Some(value.into_owned()),
            "error" => error = Some(value.into_owned()),
            "error_description" => description = value.into_owned(),
            _ => {}
        }
    }
    let cookies = pending_cookies(gate, &headers);
    let Some(begun) = providers.pending().take(&state, cookies, name) else {
        return Err(gate.not_let_in(
            peer,
            name,
            "this login did not begin in this browser, took longer than ten minutes, or is over; \
             begin again",
        ));
    };
    // Each login that fails may have cost the provider a call.
    gate.attempt(peer, &state)?;
    if let Some(error) = error {
        let why = format!("it says {} {}", shown(&error), shown(&description));
        return Err(gate.not_let_in(peer, name, &why));
    }
    // RFC 9207: an answer of another provider is not taken for one of this.
    if issuer.is_some_and(|issuer| issuer != provider.options.issuer) {
        return Err(gate.not_let_in(peer, name, "the answer came from another provider"));
    }
    let Some(code) = code else {
        return Err(gate.not_let_in(peer, name, "it sent no code"));
    };
    let called = provider.clone();
    let told =
        providers.called(move || called.by_code(&code, &begun.verifier, &begun.nonce)).await?;
    let told = match told {
        Ok(told) => told,
        Err(Fault::Refused(why)) => return Err(gate.not_let_in(peer, name, &why)),
        Err(fault) => return Err(refusal(&provider, fault)),
    };
    let user = gate.named_outside(name, &told.name);
    let user = user.map_err(|why| gate.not_let_in(peer, name, &why))?;
    let outside = Outside::new(provider.options.name.clone(), &told, &gate.groups());
    if gate.rights_outside(&outside).is_none() {
        let why = format!(
            "no group of {user} may log in here; have an administrator add one of them to \
             [[access.groups]], or the user to a group that is there (its claim: '{}')",
            provider.options.groups_claim
        );
        return Err(gate.not_let_in(peer, name, &why));
    }
    gate.attempt_succeeded(peer, &state);
    let id = gate.begin(&headers, user, Some(outside), peer)?;
    let is_https = provider.options.external_url.starts_with("https://");
    let session = session_cookie(gate, &id, gate.sessions().lasts().as_secs(), is_https);
    let ended = pending_cookie(gate, &provider.options.external_url, "");
    redirect(&begun.to, [session, ended])
}

/// Whether an address is one of the page's, and of nothing else.
fn is_on_page(to: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'\\';
    to.len() <= TO_BYTES_MAX
        && to.bytes().all(is_plain)
        && (to == "/" || to.starts_with("/?") || to.starts_with("/#"))
}

fn pending_cookie_name(gate: &Gate) -> String {
    format!("{}_begun", gate.cookie())
}

/// The cookie of a login that has begun; an empty value ends it.
fn pending_cookie(gate: &Gate, external_url: &str, value: &str) -> String {
    let secure = if external_url.starts_with("https://") { "; Secure" } else { "" };
    let age_s = if value.is_empty() { 0 } else { PENDING_TIME_MAX.as_secs() };
    format!(
        "{}={value}; Path=/api/v1/login/oidc; Max-Age={age_s}; HttpOnly; SameSite=Lax{secure}",
        pending_cookie_name(gate)
    )
}

fn pending_cookies<'a>(
    gate: &Gate,
    headers: &'a HeaderMap,
) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    let name = pending_cookie_name(gate);
    let fields = headers.get_all(COOKIE).iter();
    let fields = fields
        .flat_map(|field| field.as_bytes().split(|&byte| byte == b';'))
        .map(<[u8]>::trim_ascii);
    let own =
        fields.filter_map(move |field| field.strip_prefix(name.as_bytes())?.strip_prefix(b"="));
    own.filter(|value| !value.is_empty()).take(COOKIES_MAX)
}

fn redirect<const N: usize>(to: &str, cookies: [String; N]) -> ApiResult {
    let value = |text: &str| {
        HeaderValue::from_str(text).map_err(|error| ApiError::internal(error.to_string()))
    };
    let mut response = StatusCode::SEE_OTHER.into_response();
    response.headers_mut().insert(LOCATION, value(to)?);
    for cookie in cookies {
        response.headers_mut().append(SET_COOKIE, value(&cookie)?);
    }
    Ok(response)
}

/// The error of a provider that gives no login.
fn refusal(provider: &Provider, fault: Fault) -> ApiError {
    let name = &provider.options.name;
    match fault {
        Fault::Away(why) => {
            provider.log_away(&why);
            ApiError::new(
                StatusCode::BAD_GATEWAY,
                format!(
                    "the provider '{name}' cannot be asked now ({why}); log in with a password, or \
                     try again later"
                ),
            )
        }
        Fault::Refused(why) => ApiError::new(StatusCode::FORBIDDEN, why),
    }
}

/// An error as a page of its own.
fn page(error: &ApiError) -> Response {
    let text = escaped(&error.to_string());
    let page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" \
         content=\"width=device-width\">\n<title>Not logged in – Loginson</title>\n<main>\n\
         <h1>Not logged in</h1>\n<p>{text}</p>\n<p><a href=\"/\">Back to the login</a></p>\n</main>\n"
    );
    let kind = HeaderValue::from_static("text/html; charset=utf-8");
    (error.status(), [(CONTENT_TYPE, kind)], page).into_response()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_leads_to_the_page_alone() {
        for to in ["/", "/?query=a%20b", "/?view=status#x", "/#x"] {
            assert!(is_on_page(to), "{to}");
        }
        let long = format!("/?{}", "x".repeat(TO_BYTES_MAX));
        for to in [
            "",
            "//evil.example",
            "/\\evil.example",
            "https://evil.example",
            "/api/v1/users",
            "/?\r\nset-cookie: x",
            "/?é",
            "/? ",
            &long,
        ] {
            assert!(!is_on_page(to), "{to:.50}");
        }
    }
}
