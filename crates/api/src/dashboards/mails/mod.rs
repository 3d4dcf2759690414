//! `/api/v1/dashboards/ID/mails`: dashboards that are sent by mail, when they are due or now.
//!
//! A schedule is evaluated with the rights of whoever saved it last, as they are at the time
//! ([`send`]). Who only reads sees and changes its own schedules, and chooses among the receivers
//! of alerts; other addresses are chosen by operators. Calls are not handed on to another node of a
//! cluster, because that node would not know who made them; they name it.

mod bins;
mod evaluate;
mod font;
mod logql;
mod panel;
mod pdf;
mod report;
mod send;
pub mod sender;
mod shown;
mod times;
mod units;

use std::sync::Arc;
use std::time::Duration;

use alerts::Mail;
use axum::Json;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use node::saved_views::documents::DocumentError;
use node::saved_views::mails::{Owner, SCHEDULES_MAX, Schedule, State as MailState, Wanted};
use query::time::parse_duration;
use serde_json::{Value, json};
use text::time::format_time;

use crate::access::audit;
use crate::access::params::ParamsAndText;
use crate::access::principal::{Caller, Principal, Scope};
use crate::access::routes::Routes;
use crate::app::App;
use crate::hand_on::elsewhere;
use crate::wire::clock::now_ns;
use crate::wire::error::{ApiError, ApiResult};

/// Addresses of a schedule.
///
/// limits.md, Dashboards by mail: addresses of a schedule; values of a variable | {};
/// {VALUES_MAX} | refused
const ADDRESSES_MAX: usize = 50;
/// Values of a variable that are chosen, and characters of each.
const VALUES_MAX: usize = 50;
const VALUE_CHARS_MAX: usize = 1_000;
/// The range of a mail.
const RANGE_MIN: Duration = Duration::from_secs(60);
const RANGE_MAX: Duration = Duration::from_secs(100 * 86_400);
const ID_BYTES_MAX: usize = 40;
/// Seconds after which a mail may be sent again while another one is being made.
const RETRY_S: u32 = 10;

/// The routes of this folder.
pub fn routes() -> Routes<Arc<App>> {
    Routes::new()
        .get(Scope::Read, "/api/v1/dashboards/{id}/mails", list)
        .put(Scope::Read, "/api/v1/dashboards/{id}/mails/{mail}", save)
        .delete(Scope::Read, "/api/v1/dashboards/{id}/mails/{mail}", delete)
        .post(Scope::Read, "/api/v1/dashboards/{id}/mails/{mail}/send", send_now)
}

fn now_s() -> i64 {
    now_ns() / 1_000_000_000
}

fn shown_time(second: Option<i64>) -> Option<String> {
    second.map(|second| format_time(second.saturating_mul(1_000_000_000)))
}

/// The names of the receivers of alerts that take mails.
fn receivers(app: &App) -> ApiResult<Vec<String>> {
    let work = app.pipeline()?.work().ok_or_else(|| elsewhere(app))?;
    let all = work.alerts.mail_receivers();
    Ok(all.into_iter().map(|receiver| receiver.policy.name).collect())
}

/// Whether a caller may see and change a schedule.
fn may_change(principal: &Principal, schedule: &Schedule) -> bool {
    let is_own = principal.name().is_some() && schedule.owner.name.as_deref() == principal.name();
    principal.may(Scope::Operate) || is_own
}

/// The owner of what a caller saves.
fn owner(app: &App, caller: &Caller) -> ApiResult<Owner> {
    let forbidden = |what: String| ApiError::new(StatusCode::FORBIDDEN, what);
    let tenants = &caller.principal.tenants;
    if tenants.is_bound() {
        return Err(forbidden(
            "callers of one tenant send no dashboards by mail, because the receivers belong to all; ask an operator"
                .to_owned(),
        ));
    }
    let owner = Owner {
        name: caller.principal.name().map(str::to_owned),
        tenant: tenants.views().map(|tenant| tenant.to_string()),
    };
    match app.gate().later(owner.name.as_deref(), owner.tenant.as_deref()) {
        Ok(_) => Ok(owner),
        Err(why) => Err(forbidden(format!(
            "a mail is made with the rights of whoever saved it, which this server has to know then, and {why}: users \
             of other systems have their rights by a login; let a user or token of this server save it"
        ))),
    }
}

/// Checks what was chosen, but not the receiver.
fn check(principal: &Principal, wanted: &Wanted) -> Result<(), String> {
    times::check(wanted)?;
    if !wanted.addresses.is_empty() && !principal.may(Scope::Operate) {
        return Err(
            "addresses: choosing them needs the role operate; leave them out, and the mail goes to \
             the addresses of the receiver"
                .to_owned(),
        );
    }
    if wanted.addresses.len() > ADDRESSES_MAX {
        return Err(format!("addresses: give at most {ADDRESSES_MAX}"));
    }
    let addresses = wanted.addresses.iter().map(|address| Mail::check_address(address));
    addresses.collect::<Result<Vec<()>, String>>().map_err(|why| format!("addresses: {why}"))?;
    range_ns(wanted)?;
    let is_long = |value: &String| value.chars().count() > VALUE_CHARS_MAX;
    let is_large = |values: &Vec<String>| values.len() > VALUES_MAX || values.iter().any(is_long);
    if wanted.variables.len() > VALUES_MAX || wanted.variables.values().any(is_large) {
        return Err(format!(
            "variables: choose at most {VALUES_MAX} values, of {VALUE_CHARS_MAX} characters each"
        ));
    }
    Ok(())
}

/// The range of a mail in nanoseconds.
fn range_ns(wanted: &Wanted) -> Result<i64, String> {
    let range = parse_duration(&wanted.range).filter(|ns| {
        let range = u64::try_from(*ns).map(Duration::from_nanos);
        range.is_ok_and(|range| (RANGE_MIN..=RANGE_MAX).contains(&range))
    });
    range.ok_or_else(|| "range: write a duration from 1m to 100d, for example 24h".to_owned())
}

/// Reads what was chosen.
fn wanted(app: &App, caller: &Caller, sent: Value) -> ApiResult<Wanted> {
    let wanted: Wanted = serde_json::from_value(sent)
        .map_err(|error| ApiError::bad_request(format!("this is no schedule: {error}")))?;
    check(&caller.principal, &wanted).map_err(ApiError::bad_request)?;
    let known = receivers(app)?;
    match known.contains(&wanted.receiver) {
        true => Ok(wanted),
        false if known.is_empty() => Err(ApiError::bad_request(
            "receiver: there is no receiver of alerts that takes mails; add one, with server, \
             sender and login (docs/alerts.md#receivers)",
        )),
        false => Err(ApiError::bad_request(format!(
            "receiver: '{}' takes no mails; known are {}",
            report::plain(&wanted.receiver),
            known.join(", ")
        ))),
    }
}

async fn list(State(app): State<Arc<App>>, caller: Caller, Path(id): Path<String>) -> ApiResult {
    let all = app.with_views(&caller, move |views| views.dashboards.mails(&id)).await?;
    let now_s = now_s();
    let seen = all.iter().filter(|one| may_change(&caller.principal, one));
    let shown = seen.map(|one| {
        let of_owner = app.gate().later(one.owner.name.as_deref(), one.owner.tenant.as_deref());
        json!({
            "id": one.id,
            "owner": one.owner.name,
            "owner_error": of_owner.err(),
            "wanted": one.wanted,
            "next": shown_time(times::next(&one.wanted, now_s)),
            "sent": shown_time(one.state.sent_s),
            "error": one.state.error,
            "error_time": shown_time(one.state.error_s),
            "notes": one.state.notes,
        })
    });
    let shown: Vec<Value> = shown.collect();
    let refusal = owner(&app, &caller).err().map(|error| error.to_string());
    let receivers = if refusal.is_none() { receivers(&app)? } else { Vec::new() };
    Ok(Json(json!({
        "mails": shown,
        "receivers": receivers,
        "may_choose_addresses": caller.principal.may(Scope::Operate),
        "refusal": refusal,
    }))
    .into_response())
}

fn check_id(id: &str) -> ApiResult<()> {
    let is_allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    match (1..=ID_BYTES_MAX).contains(&id.len()) && id.chars().all(is_allowed) {
        true => Ok(()),
        false => Err(ApiError::bad_request(format!(
            "the id of a schedule has 1 to {ID_BYTES_MAX} characters of a-z, 0-9 and -"
        ))),
    }
}

fn not_found(mail: &str) -> DocumentError {
    DocumentError::NotFound(format!("there is no schedule '{}'", report::plain(mail)))
}

async fn save(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path((id, mail)): Path<(String, String)>,
    ParamsAndText(_, body): ParamsAndText,
) -> ApiResult {
    check_id(&mail)?;
    app.programs()?;
    let sent = serde_json::from_str(&body)
        .map_err(|error| ApiError::bad_request(format!("the body is not JSON: {error}")))?;
    let owner = owner(&app, &caller)?;
    let wanted = wanted(&app, &caller, sent)?;
    let (of, named, principal) = (id.clone(), mail.clone(), caller.principal.clone());
    let change = move |all: &mut Vec<Schedule>| {
        let state = MailState { done_s: now_s(), ..MailState::default() };
        match all.iter_mut().find(|one| one.id == named) {
            // One of somebody else is not told of.
            Some(one) if !may_change(&principal, one) => return Err(not_found(&named)),
            Some(one) => *one = Schedule { id: named, owner, wanted, state },
            None => all.push(Schedule { id: named, owner, wanted, state }),
        }
        Ok(())
    };
    app.with_views(&caller, move |views| views.dashboards.change_mails(&of, change)).await?;
    audit::note(&caller, &format!("mail {mail} of dashboard {id} saved"), &body);
    Ok(Json(json!({ "id": mail })).into_response())
}

async fn delete(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path((id, mail)): Path<(String, String)>,
) -> ApiResult {
    let (of, named, principal) = (id.clone(), mail.clone(), caller.principal.clone());
    let change = move |all: &mut Vec<Schedule>| {
        let is_meant = |one: &Schedule| one.id == named && may_change(&principal, one);
        let place = all.iter().position(is_meant).ok_or_else(|| not_found(&named))?;
        all.remove(place);
        Ok(())
    };
    app.with_views(&caller, move |views| views.dashboards.change_mails(&of, change)).await?;
    audit::note(&caller, &format!("mail {mail} of dashboard {id} deleted"), "");
    Ok(Json(json!({ "id": mail })).into_response())
}

/// Sends a mail at once, over the range that ends now. Whether it was delivered is the result, not
/// an error of this call.
async fn send_now(
    State(app): State<Arc<App>>,
    caller: Caller,
    Path((id, mail)): Path<(String, String)>,
) -> ApiResult {
    let of = id.clone();
    let all = app.with_views(&caller, move |views| views.dashboards.mails(&of)).await?;
    let is_meant = |one: &Schedule| one.id == mail && may_change(&caller.principal, one);
    let schedule = all.into_iter().find(is_meant).ok_or_else(|| not_found(&mail))?;
    let Ok(_one) = app.mails.permit.try_acquire() else {
        let what = "another dashboard is being sent; try again when it is done";
        return Err(ApiError::new(StatusCode::TOO_MANY_REQUESTS, what).retry_after(RETRY_S));
    };
    audit::note(&caller, &format!("mail {mail} of dashboard {id} sent"), "");
    // The second that has begun belongs to it.
    let sent = send::send(&app, &id, &schedule, now_s() + 1, None).await;
    let notes = sent.as_ref().ok().cloned().unwrap_or_default();
    let error = sent.as_ref().err().map(|not| not.message.clone());
    sender::keep(&app, &id, &schedule, &sent, None).await;
    Ok(Json(json!({ "id": mail, "delivered": error.is_none(), "error": error, "notes": notes }))
        .into_response())
}

/// Schedules that come with a dashboard that is imported: they belong to whoever imports it.
pub fn imported(app: &App, caller: &Caller, document: &Value) -> ApiResult<Vec<Schedule>> {
    let sent = match document.get("mails") {
        None | Some(Value::Null) => return Ok(Vec::new()),
        Some(Value::Array(sent)) if sent.len() <= SCHEDULES_MAX => sent,
        Some(_) => {
            let what = format!("\"mails\" must be a list of at most {SCHEDULES_MAX} schedules");
            return Err(ApiError::bad_request(what));
        }
    };
    if sent.is_empty() {
        return Ok(Vec::new());
    }
    let owner = owner(app, caller)?;
    let one = |(at, sent): (usize, &Value)| {
        let wanted = wanted(app, caller, sent.clone()).map_err(|error| {
            let number = at + 1;
            ApiError::new(error.status(), format!("mails: the one with number {number}: {error}"))
        })?;
        let state = MailState { done_s: now_s(), ..MailState::default() };
        Ok(Schedule { id: format!("imported-{}", at + 1), owner: owner.clone(), wanted, state })
    };
    sent.iter().enumerate().map(one).collect()
}

#[cfg(test)]
mod tests;
