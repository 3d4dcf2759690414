//! Makes the mail of a schedule, and hands it to the mail server of its receiver.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use alerts::{Mail, NotifierOptions, Sent};
use node::saved_views::mails::Schedule;
use query::{Filter, Restriction};
use serde_json::{Map, Value};
use text::time::format_time;

use super::evaluate::evaluate;
use super::report::Report;
use super::{check, pdf, range_ns, times};
use crate::access::principal::{Caller, Principal};
use crate::app::App;
use crate::wire::error::ApiError;

/// Why a mail was not sent. The text is for the user.
#[derive(Debug)]
pub struct NotSent {
    /// What happened, with its remedy.
    pub message: String,
    /// Whether another attempt would fail too.
    pub is_final: bool,
}

fn refused(message: impl Into<String>) -> NotSent {
    NotSent { message: message.into(), is_final: true }
}

fn failed(error: &ApiError) -> NotSent {
    NotSent { message: error.to_string(), is_final: false }
}

/// Sends the mail of a schedule over the range that ends at `end_s`, in seconds since 1970.
/// `late_s` is the time at which it is sent if that is late. Returns what the mail lacks, a
/// sentence each.
///
/// # Errors
/// Its owner is gone or may not do that any more, or the mail server did not take it.
pub async fn send(
    app: &Arc<App>,
    dashboard: &str,
    schedule: &Schedule,
    end_s: i64,
    late_s: Option<i64>,
) -> Result<Vec<String>, NotSent> {
    let sent = try_send(app, dashboard, schedule, end_s, late_s).await;
    match &sent {
        Ok(_) => app.mails.sent.fetch_add(1, Relaxed),
        Err(_) => app.mails.failed_attempts.fetch_add(1, Relaxed),
    };
    sent
}

async fn try_send(
    app: &Arc<App>,
    dashboard: &str,
    schedule: &Schedule,
    end_s: i64,
    late_s: Option<i64>,
) -> Result<Vec<String>, NotSent> {
    let (owner, wanted) = (&schedule.owner, &schedule.wanted);
    let principal = app.gate().later(owner.name.as_deref(), owner.tenant.as_deref());
    let principal = principal.map_err(|why| refused(format!("it is not sent: {why}")))?;
    check(&principal, wanted).map_err(refused)?;
    let peer = ([127, 0, 0, 1], 0).into();
    let mut caller = Caller { peer, principal, missing: Arc::default(), audit: app.gate().audit() };
    let receiver = receiver(app, &wanted.receiver)?;
    let id = dashboard.to_owned();
    let found = app.with_views(&caller, move |views| views.dashboards.get(&id)).await;
    let document = found.map_err(|error| failed(&error))?;
    let left_out = leave_audit_out(&mut caller.principal, &document);
    let end_ns = end_s.saturating_mul(1_000_000_000);
    let range_ns = (end_ns - range_ns(wanted).map_err(refused)?, end_ns);
    let (parts, mut notes) = evaluate(app, &caller, &document, wanted, range_ns).await;
    notes.extend(left_out);
    if let Some(late_s) = late_s {
        let at = |second: i64| format_time(second.saturating_mul(1_000_000_000));
        notes.push(format!(
            "This mail was due at {}, and is late: it is sent at {}.",
            at(end_s),
            at(late_s)
        ));
    }
    let title = document.get("title").and_then(|title| title.as_str()).unwrap_or(dashboard);
    let mut report = Report {
        title: super::report::plain(title),
        owner: owner.name.clone(),
        link: link(receiver.external_url(), dashboard, schedule, range_ns),
        range_ms: (range_ns.0.div_euclid(1_000_000), range_ns.1.div_euclid(1_000_000)),
        zone: times::zone(&wanted.zone).map_err(refused)?,
        zone_name: wanted.zone.clone(),
        variables: wanted
            .variables
            .iter()
            .filter(|(_, values)| !values.is_empty())
            .map(|(name, values)| super::report::plain(&format!("{name}: {}", values.join(", "))))
            .collect(),
        notes,
        parts,
    };
    let (addresses, name) = (wanted.addresses.clone(), format!("{dashboard}.pdf"));
    let sending = tokio::task::spawn_blocking(move || {
        // A document of some panels may end in a bug of ours; the mail is sent without it.
        let pdf = match pdf::document(&report) {
            Ok(bytes) => Some((name, bytes)),
            Err(why) => {
                report.notes.push(why);
                None
            }
        };
        let mail = Mail {
            subject: report.subject(),
            to: addresses,
            text: report.text(),
            html: report.html(),
            pdf,
        };
        let failures = report.parts.iter().filter_map(|part| match &part.shown {
            super::shown::Shown::Failed(why) => Some(format!("{}: {why}", part.title)),
            _ => None,
        });
        let mut lacks = report.notes.clone();
        lacks.extend(failures);
        (receiver.send_mail(&mail), lacks)
    });
    let (sent, notes) = sending.await.map_err(|error| refused(format!("a bug: {error}")))?;
    match sent {
        // A mail has one part.
        Sent::Accepted | Sent::InPart => Ok(notes),
        Sent::Refused(fault) => Err(refused(fault.to_string())),
        Sent::Failed { fault, .. } => Err(NotSent { message: fault.to_string(), is_final: false }),
    }
}

/// Operators may change the dashboard of somebody who may read the audit log, which they may not.
/// So its lines are left out for everybody who logs in, except of a dashboard that is a file, which
/// no operator changes. Returns a note if the dashboard seems to show them.
pub fn leave_audit_out(principal: &mut Principal, document: &Map<String, Value>) -> Option<String> {
    if principal.name().is_none() || document.contains_key("provided") {
        return None;
    }
    let saw_all = principal.restriction.is_none();
    let without = Restriction::from(Arc::new(Filter::without_audit()));
    principal.restriction = without.and(&principal.restriction);
    let panels = document.get("panels").and_then(Value::as_array);
    let mut queries = panels.into_iter().flatten().filter_map(|panel| panel["query"].as_str());
    (saw_all && queries.any(|query| query.contains("audit"))).then(|| {
        "Lines of the audit log are left out, because operators can change this dashboard and may not read them. A \
         dashboard that is a file of dashboards_dir is sent with them."
            .to_owned()
    })
}

fn receiver(app: &App, name: &str) -> Result<NotifierOptions, NotSent> {
    let pipeline = app.pipeline().map_err(|error| failed(&error))?;
    let work = pipeline.work().ok_or_else(|| failed(&crate::hand_on::elsewhere(app)))?;
    let mut all = work.alerts.mail_receivers().into_iter();
    all.find(|receiver| receiver.policy.name == name).ok_or_else(|| {
        refused(format!(
            "there is no receiver '{name}' that takes mails any more; choose another one"
        ))
    })
}

/// The address of the dashboard with its range and the chosen values; none without the address of
/// the page.
fn link(
    external_url: &str,
    dashboard: &str,
    schedule: &Schedule,
    (start_ns, end_ns): (i64, i64),
) -> Option<String> {
    if external_url.is_empty() {
        return None;
    }
    let start = format!("{external_url}/?");
    let behind = start.len();
    let mut link = form_urlencoded::Serializer::for_suffix(start, behind);
    link.append_pair("view", "dashboards").append_pair("dashboard", dashboard);
    link.append_pair("from", &format_time(start_ns)).append_pair("to", &format_time(end_ns));
    for (name, values) in &schedule.wanted.variables {
        for value in values {
            link.append_pair(&format!("var-{name}"), value);
        }
    }
    Some(link.finish())
}
