//! `/api/v1/users`, `/api/v1/tokens` and `/api/v1/first-admin`: users and tokens of the data
//! directory. Every change is durable and in force before its call is answered.
//!
//! Secrets are taken from bodies only, because addresses end up in logs. A token is in the answer
//! of the call that made it, and nowhere afterwards.

use std::net::SocketAddr;
use std::sync::atomic::Ordering::Relaxed;

use axum::Json;
use axum::extract::{ConnectInfo, Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use query::time::parse_duration;
use serde_json::{Value, json};
use text::time::format_time;

use super::audit;
use super::gate::Gate;
use super::kept::{Kept, KeptToken, KeptUser, PreviousToken};
use super::limits;
use super::params::{Params, ParamsAndText};
use super::principal::{Caller, Scope};
use super::rights::{Rights, RightsText};
use super::routes::Routes;
use super::secrets::{check_password, hex, new_token};
use super::users::{AccessOptions, check_name};
use crate::wire::clock::now_ns;
use crate::wire::error::{ApiError, ApiResult};

const NS_PER_S: i64 = 1_000_000_000;
/// How long the token before a rotation stays valid if the call does not say.
const OVERLAP_S: i64 = 600;
/// The longest that it may stay valid.
const OVERLAP_S_MAX: i64 = 30 * 86_400;
/// The longest that a token may be valid.
const EXPIRY_S_MAX: i64 = 100 * 366 * 86_400;

/// The routes of this file.
pub fn routes<S: Clone + Send + Sync + 'static>(gate: Gate) -> Routes<S> {
    Routes::new()
        .get(Scope::Admin, "/api/v1/users", users)
        .post(Scope::Admin, "/api/v1/users", add_user)
        .post(Scope::Admin, "/api/v1/users/{name}", change_user)
        .delete(Scope::Admin, "/api/v1/users/{name}", remove_user)
        .get(Scope::Admin, "/api/v1/tokens", tokens)
        .post(Scope::Admin, "/api/v1/tokens", add_token)
        .delete(Scope::Admin, "/api/v1/tokens/{name}", revoke_token)
        .post(Scope::Admin, "/api/v1/tokens/{name}/rotate", rotate_token)
        .post(Scope::Open, "/api/v1/first-admin", first_admin)
        .with_state(gate)
}

/// The fields of a body, which is a form or a JSON object. Others than those of `known` are
/// refused.
fn fields(body: &str, known: &[&str]) -> ApiResult<Params> {
    let fields = match body.trim_start().starts_with('{') {
        true => Params::parse_json(body.as_bytes())?,
        false => Params::parse(body.as_bytes()),
    };
    match fields.pairs().iter().find(|(name, _)| !known.contains(&name.as_str())) {
        None => Ok(fields),
        Some((name, _)) => Err(ApiError::bad_request(format!(
            "the field '{}' is not known here; known here: {}",
            name.chars().take(100).collect::<String>(),
            known.join(", ")
        ))),
    }
}

/// The fields of rights.
const RIGHTS: [&str; 11] = {
    let [a, b, c, d, e, f, g] = limits::NAMES;
    ["role", "filter", "hide_fields", "tenant", a, b, c, d, e, f, g]
};

/// The rights in the fields of a body, on top of those before. A field with an empty value takes
/// the restriction away.
fn rights(fields: &Params, before: RightsText) -> ApiResult<RightsText> {
    let mut rights = before;
    for (name, text) in fields.pairs() {
        match name.as_str() {
            "role" if !text.is_empty() => rights.role = text,
            "filter" => rights.filter = (!text.is_empty()).then_some(text),
            "hide_fields" => {
                let all = fields.all("hide_fields").flat_map(|list| list.split(','));
                let all = all.map(|name| name.trim().to_owned()).filter(|name| !name.is_empty());
                rights.hide_fields = all.collect();
            }
            "tenant" => rights.tenant = (!text.is_empty()).then_some(text),
            name if limits::NAMES.contains(&name) => {
                rights.limits.set(name, &text).map_err(ApiError::bad_request)?;
            }
            _ => {}
        }
    }
    Ok(rights)
}

/// The rights as answers of this file show them.
fn add_rights(rights: &Rights, to: &mut Value) {
    to["role"] = rights.role.name().into();
    to["filter"] = rights.filter.as_ref().map(|filter| filter.to_string()).into();
    to["hide_fields"] =
        rights.hidden.iter().flat_map(|hidden| hidden.names()).collect::<Vec<_>>().into();
    let limits = &rights.limits;
    to["limits"] = json!({
        "queries_max": limits.queries_max,
        "background_max": limits.background_max,
        "tails_max": limits.tails_max,
        "run_s_max": limits.run_max.map(|most| most.as_secs_f64()),
        "memory_bytes_max": limits.memory_bytes_max,
        "rows_max": limits.rows_max,
        "results_bytes_max": limits.results_bytes_max,
    });
    to["tenant"] = match rights.tenant.to_string() {
        unsaid if unsaid.is_empty() => Value::Null,
        tenant => tenant.into(),
    };
}

/// The rights in words, for the audit log.
fn shown_rights(rights: &RightsText) -> String {
    let mut shown = format!("the role {}", rights.role);
    if let Some(filter) = &rights.filter {
        shown += &format!(", the filter {filter}");
    }
    if !rights.hide_fields.is_empty() {
        shown += &format!(", the hidden fields {}", rights.hide_fields.join(", "));
    }
    if let Some(tenant) = &rights.tenant {
        shown += &format!(", the tenant {tenant}");
    }
    if !rights.limits.is_empty() {
        shown += &format!(", the limits {}", json!(rights.limits));
    }
    shown
}

/// A duration in seconds, at least one.
fn seconds(fields: &Params, name: &str, most: i64) -> ApiResult<Option<i64>> {
    let Some(text) = fields.get(name) else { return Ok(None) };
    let parsed = parse_duration(text).map(|ns| ns / NS_PER_S);
    match parsed.filter(|s| (1..=most).contains(s)) {
        Some(s) => Ok(Some(s)),
        None => Err(ApiError::bad_request(format!(
            "{name}: '{text}' is not a duration between 1s and {}d; write for example 10m or 90d",
            most / 86_400
        ))),
    }
}

/// Makes a change on a thread that may block.
async fn changed<T: Send + 'static>(
    gate: &Gate,
    change: impl FnOnce(&mut Kept, &AccessOptions) -> ApiResult<T> + Send + 'static,
) -> ApiResult<T> {
    let gate = gate.clone();
    let done = tokio::task::spawn_blocking(move || gate.change(change)).await;
    done.map_err(|error| ApiError::internal(error.to_string()))?
}

fn conflict(message: String) -> ApiError {
    ApiError::new(StatusCode::CONFLICT, message)
}

/// An error if nobody can have that name any more.
fn check_free(name: &str, kept: &Kept, configured: &AccessOptions) -> ApiResult<()> {
    check_name(name).map_err(ApiError::bad_request)?;
    match kept.has_name(name) || configured.has_name(name) {
        true => Err(conflict(format!("there is a user or a token '{name}' already"))),
        false => Ok(()),
    }
}

/// The answer where there is no user or token of that name that the API could change.
fn not_kept(kind: &str, name: &str, configured: &AccessOptions) -> ApiError {
    match configured.has_name(name) {
        true => conflict(format!(
            "'{name}' is in the configuration; change it there, and have it read again"
        )),
        false => ApiError::not_found(format!("there is no {kind} '{name}'")),
    }
}

/// The first user could be made by anybody who reaches the server.
fn check_first(gate: &Gate, caller: &Caller) -> ApiResult<()> {
    match gate.is_off() && !gate.may_make_first(caller.peer) {
        false => Ok(()),
        true => Err(ApiError::new(
            StatusCode::FORBIDDEN,
            "the first user is made with the link that the log of the last start shows, or by a \
             call from the server's own machine",
        )),
    }
}

async fn users(State(gate): State<Gate>) -> ApiResult {
    let shown = gate.seen(|users, _, kept| {
        let shown = users.iter().map(|user| {
            let of_api = kept.users.iter().find(|kept| kept.name == *user.name);
            let mut shown = json!({
                "name": &*user.name,
                "from": if of_api.is_some() { "api" } else { "configuration" },
                "created": of_api.map(|kept| shown_time(kept.created_s)),
            });
            add_rights(&user.rights, &mut shown);
            shown
        });
        shown.collect::<Vec<Value>>()
    });
    // Those of other systems are known while they are logged in.
    let outside = gate.sessions().outside();
    let outside = outside.iter().map(|(name, outside)| {
        let mut shown = json!({
            "name": &**name, "from": &*outside.source, "created": null, "role": null,
        });
        if let Some(rights) = gate.rights_outside(outside) {
            add_rights(&rights, &mut shown);
        }
        shown
    });
    let shown: Vec<Value> = shown.into_iter().chain(outside).collect();
    Ok(Json(json!({ "users": shown })).into_response())
}

fn shown_time(time_s: i64) -> String {
    format_time(time_s.saturating_mul(NS_PER_S))
}

async fn add_user(
    State(gate): State<Gate>,
    caller: Caller,
    ParamsAndText(_, body): ParamsAndText,
) -> ApiResult {
    check_first(&gate, &caller)?;
    let fields = fields(&body, &[&["name", "password"], &RIGHTS[..]].concat())?;
    let name = fields.required("name")?.to_owned();
    fields.required("role")?;
    let rights = rights(&fields, RightsText::default())?;
    let password = fields.required("password")?.to_owned();
    let user = new_user(&gate, name.clone(), rights.clone(), password).await?;
    changed(&gate, move |kept, configured| {
        check_free(&user.name, kept, configured)?;
        kept.users.push(user);
        Ok(())
    })
    .await?;
    audit::note(&caller, &format!("user {name} added with {}", shown_rights(&rights)), "");
    Ok(Json(json!({ "name": name, "role": rights.role })).into_response())
}

/// A user that was checked, and has not been added yet.
async fn new_user(
    gate: &Gate,
    name: String,
    rights: RightsText,
    password: String,
) -> ApiResult<KeptUser> {
    check_name(&name).map_err(ApiError::bad_request)?;
    gate.check_rights(&rights)?;
    check_password(&password).map_err(ApiError::bad_request)?;
    let password_hash = gate.hash(password).await?.to_string();
    Ok(KeptUser { name, rights, password_hash, created_s: now_ns() / NS_PER_S })
}

/// Changes the password or the rights of a user.
async fn change_user(
    State(gate): State<Gate>,
    caller: Caller,
    Path(name): Path<String>,
    ParamsAndText(_, body): ParamsAndText,
) -> ApiResult {
    let fields = fields(&body, &[&["password"], &RIGHTS[..]].concat())?;
    let hash = match fields.get("password") {
        None => None,
        Some(password) => {
            check_password(password).map_err(ApiError::bad_request)?;
            Some(gate.hash(password.to_owned()).await?.to_string())
        }
    };
    let has_hash = hash.is_some();
    let has_rights = fields.pairs().iter().any(|(name, _)| RIGHTS.contains(&&**name));
    if !has_hash && !has_rights {
        return Err(ApiError::bad_request(
            "send a password, or some of the rights: role, filter, hide_fields, tenant, limits",
        ));
    }
    let (of, checking) = (name.clone(), gate.clone());
    let rights = changed(&gate, move |kept, configured| {
        let user = kept.users.iter_mut().find(|user| user.name == of);
        let user = user.ok_or_else(|| not_kept("user", &of, configured))?;
        let rights = rights(&fields, user.rights.clone())?;
        checking.check_rights(&rights)?;
        user.password_hash = hash.unwrap_or_else(|| user.password_hash.clone());
        user.rights = rights.clone();
        Ok(rights)
    });
    let rights = rights.await?;
    let shown = shown_rights(&rights);
    let what = match (has_hash, has_rights) {
        (true, true) => format!("has another password, and {shown}"),
        (true, false) => "has another password".to_owned(),
        (false, _) => format!("has {shown}"),
    };
    audit::note(&caller, &format!("user {name} {what}"), "");
    Ok(Json(json!({ "name": name, "role": rights.role })).into_response())
}

async fn remove_user(
    State(gate): State<Gate>,
    caller: Caller,
    Path(name): Path<String>,
) -> ApiResult {
    let of = name.clone();
    changed(&gate, move |kept, configured| {
        let place = kept.users.iter().position(|user| user.name == of);
        kept.users.remove(place.ok_or_else(|| not_kept("user", &of, configured))?);
        Ok(())
    })
    .await?;
    audit::note(&caller, &format!("user {name} removed"), "");
    Ok(Json(json!({ "name": name })).into_response())
}

async fn tokens(State(gate): State<Gate>) -> ApiResult {
    let now_s = now_ns() / NS_PER_S;
    let shown = gate.seen(|_, tokens, kept| {
        let shown = tokens.iter().map(|token| {
            let of_api = kept.tokens.iter().find(|kept| kept.name == *token.name);
            let used_s = token.last_used_s.load(Relaxed);
            let previous = token.previous.filter(|(_, until_s)| *until_s > now_s);
            let mut shown = json!({
                "name": &*token.name,
                "from": if of_api.is_some() { "api" } else { "configuration" },
                "created": of_api.map(|kept| shown_time(kept.created_s)),
                "expires": token.expires_s.map(shown_time),
                "expired": token.expires_s.is_some_and(|expires_s| expires_s <= now_s),
                "last_used": (used_s > 0).then(|| shown_time(used_s)),
                "previous_valid_until": previous.map(|(_, until_s)| shown_time(until_s)),
            });
            add_rights(&token.rights, &mut shown);
            shown
        });
        shown.collect::<Vec<Value>>()
    });
    Ok(Json(json!({ "tokens": shown })).into_response())
}

async fn add_token(
    State(gate): State<Gate>,
    caller: Caller,
    ParamsAndText(_, body): ParamsAndText,
) -> ApiResult {
    check_first(&gate, &caller)?;
    let fields = fields(&body, &[&["name", "expires"], &RIGHTS[..]].concat())?;
    let name = fields.required("name")?.to_owned();
    fields.required("role")?;
    let rights = rights(&fields, RightsText::default())?;
    gate.check_rights(&rights)?;
    let now_s = now_ns() / NS_PER_S;
    let expires_s = seconds(&fields, "expires", EXPIRY_S_MAX)?.map(|s| now_s.saturating_add(s));
    let (token, digest) = new_token().map_err(ApiError::internal)?;
    let new = KeptToken {
        name: name.clone(),
        rights: rights.clone(),
        sha256: hex(&digest),
        created_s: now_s,
        expires_s,
        previous: None,
        last_used_s: None,
    };
    changed(&gate, move |kept, configured| {
        check_free(&new.name, kept, configured)?;
        kept.tokens.push(new);
        Ok(())
    })
    .await?;
    audit::note(&caller, &format!("token {name} added with {}", shown_rights(&rights)), "");
    Ok(Json(json!({
        "name": name,
        "role": rights.role,
        "token": token,
        "expires": expires_s.map(shown_time),
    }))
    .into_response())
}

async fn revoke_token(
    State(gate): State<Gate>,
    caller: Caller,
    Path(name): Path<String>,
) -> ApiResult {
    let of = name.clone();
    changed(&gate, move |kept, configured| {
        let place = kept.tokens.iter().position(|token| token.name == of);
        kept.tokens.remove(place.ok_or_else(|| not_kept("token", &of, configured))?);
        Ok(())
    })
    .await?;
    audit::note(&caller, &format!("token {name} revoked"), "");
    Ok(Json(json!({ "name": name })).into_response())
}

/// Replaces a token by a new one. The old one stays valid for `overlap`; one of an earlier rotation
/// ends at once. A token that expires lasts as long again as it did.
async fn rotate_token(
    State(gate): State<Gate>,
    caller: Caller,
    Path(name): Path<String>,
    ParamsAndText(_, body): ParamsAndText,
) -> ApiResult {
    let fields = fields(&body, &["overlap"])?;
    let overlap_s = match fields.get("overlap") {
        Some("0" | "0s") => 0,
        _ => seconds(&fields, "overlap", OVERLAP_S_MAX)?.unwrap_or(OVERLAP_S),
    };
    let (token, digest) = new_token().map_err(ApiError::internal)?;
    let now_s = now_ns() / NS_PER_S;
    let of = name.clone();
    let (role, until_s, expires_s) = changed(&gate, move |kept, configured| {
        let kept = kept.tokens.iter_mut().find(|token| token.name == of);
        let kept = kept.ok_or_else(|| not_kept("token", &of, configured))?;
        let was_valid = kept.expires_s.is_none_or(|expires_s| now_s < expires_s);
        let until_s = now_s + if was_valid { overlap_s } else { 0 };
        let sha256 = std::mem::replace(&mut kept.sha256, hex(&digest));
        kept.previous = (until_s > now_s).then_some(PreviousToken { sha256, until_s });
        kept.expires_s = kept.expires_s.map(|s| now_s.saturating_add((s - kept.created_s).max(1)));
        kept.created_s = now_s;
        Ok((kept.rights.role.clone(), until_s, kept.expires_s))
    })
    .await?;
    audit::note(&caller, &format!("token {name} rotated"), "");
    Ok(Json(json!({
        "name": name,
        "role": role,
        "token": token,
        "previous_valid_until": (until_s > now_s).then(|| shown_time(until_s)),
        "expires": expires_s.map(shown_time),
    }))
    .into_response())
}

/// Makes the first administrator, by the link that the log of the start shows.
async fn first_admin(
    State(gate): State<Gate>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    ParamsAndText(_, body): ParamsAndText,
) -> ApiResult {
    let fields = fields(&body, &["secret", "name", "password"])?;
    let secret = fields.required("secret")?.to_owned();
    // A wrong secret costs no hash.
    gate.check_first(secret.as_bytes())?;
    let (name, password) =
        (fields.required("name")?.to_owned(), fields.required("password")?.to_owned());
    let user = new_user(&gate, name.clone(), RightsText::of_role("admin"), password).await?;
    let of = gate.clone();
    let done = tokio::task::spawn_blocking(move || {
        of.make_first(secret.as_bytes(), || {
            of.change(|kept, configured| {
                check_free(&user.name, kept, configured)?;
                kept.users.push(user);
                Ok(())
            })
        })
    });
    done.await.map_err(|error| ApiError::internal(error.to_string()))??;
    audit::note_login(gate.audit(), peer, &name, "made as the first administrator");
    Ok(Json(json!({ "name": name, "role": "admin" })).into_response())
}
