//! Sends schedules when they are due: on the node that runs the programs and alerts, one mail after
//! another.
//!
//! Of the due times that passed while no node ran, the newest is sent, late; the mail says so. An
//! attempt that fails is repeated up to [`ATTEMPTS_MAX`] times, unless a newer due time comes. A
//! due time is noted as done after its mail was taken, so a crash between the two sends it again;
//! a clock that was set back by more than an hour may do so, too.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use node::saved_views::SavedViews;
use node::saved_views::mails::Schedule;
use record::Tenant;

use super::send::{NotSent, send};
use super::{now_s, times};
use crate::app::App;

/// How often it is looked what is due.
const LOOK: Duration = Duration::from_secs(5);
/// How often schedules are read again that another node may have changed.
const READ_EVERY: Duration = Duration::from_secs(60);
/// A mail that is sent later than this after its time says so.
const LATE_S: i64 = 300;
/// Attempts at one mail before it is given up.
///
/// limits.md, Dashboards by mail: attempts at a mail | {}, with waits of 1 to 30 minutes | given up
/// and counted; the page shows the last error
const ATTEMPTS_MAX: u32 = 5;
/// The waits between attempts.
const WAITS: [Duration; 4] = [
    Duration::from_secs(60),
    Duration::from_secs(300),
    Duration::from_secs(900),
    Duration::from_secs(1_800),
];

/// Schedules with their dashboards, of all and of tenants.
type Known = Vec<(Option<Tenant>, String, Schedule)>;
/// A due mail: tenant, dashboard, schedule, due time.
type Due = (Option<Tenant>, String, String, i64);

/// What became of an attempt: what the mail lacks, or why it was not sent.
pub type Attempt = Result<Vec<String>, NotSent>;

/// Sends schedules until the server ends.
pub async fn run(app: Arc<App>) {
    let mut known = Kept::default();
    let mut attempts: BTreeMap<Due, (u32, Instant)> = BTreeMap::new();
    while !app.is_ending() {
        tokio::time::sleep(LOOK).await;
        // In a cluster, one node runs the programs at a time.
        if app.programs().is_err() {
            (known, attempts) = (Kept::default(), BTreeMap::new());
            continue;
        }
        if let Err(why) = known.read(&app).await {
            tracing::warn!("the schedules of dashboards by mail cannot be read: {why}");
            continue;
        }
        let now_s = now_s();
        let mut due: Vec<(Due, Schedule)> = Vec::new();
        for (tenant, dashboard, schedule) in &known.all {
            let slot = times::unsent(&schedule.wanted, schedule.state.done_s, now_s);
            let Some(slot) = slot else { continue };
            let key = (*tenant, dashboard.clone(), schedule.id.clone(), slot);
            let waits = attempts.get(&key).is_some_and(|(_, until)| Instant::now() < *until);
            if !waits {
                due.push((key, schedule.clone()));
            }
        }
        for (key, schedule) in due {
            if app.is_ending() {
                return;
            }
            send_due(&app, key, &schedule, &mut attempts).await;
        }
    }
}

async fn send_due(
    app: &Arc<App>,
    key: Due,
    schedule: &Schedule,
    attempts: &mut BTreeMap<Due, (u32, Instant)>,
) {
    let (_, dashboard, id, slot) = key.clone();
    let Ok(_one) = app.mails.permit.acquire().await else { return };
    let now_s = now_s();
    let late_s = (now_s - slot > LATE_S).then_some(now_s);
    let (app_there, of, sent) = (Arc::clone(app), dashboard.clone(), schedule.clone());
    // A bug in one mail does not end those of others.
    let task = tokio::spawn(async move { send(&app_there, &of, &sent, slot, late_s).await });
    let result = task.await.unwrap_or_else(|error| {
        Err(NotSent { message: format!("making it ended in a bug: {error}"), is_final: true })
    });
    let tried = attempts.get(&key).map_or(0, |(tried, _)| *tried) + 1;
    let is_done = match &result {
        Ok(_) => true,
        Err(not) => not.is_final || tried >= ATTEMPTS_MAX,
    };
    if let Err(not) = &result {
        if is_done {
            app.mails.given_up.fetch_add(1, Relaxed);
        }
        let then = if is_done { "it is given up" } else { "it is tried again" };
        tracing::warn!("dashboard {dashboard} by mail ({id}), {then}: {}", not.message);
    }
    // Attempts at earlier times are of no use any more.
    attempts.retain(|known, _| {
        (&known.0, &known.1, &known.2) != (&key.0, &key.1, &key.2) || known.3 == slot
    });
    match is_done {
        true => attempts.remove(&key),
        false => {
            let wait = WAITS[(tried as usize - 1).min(WAITS.len() - 1)];
            attempts.insert(key, (tried, Instant::now() + wait))
        }
    };
    keep(app, &dashboard, schedule, &result, is_done.then_some(slot)).await;
}

/// Keeps what became of an attempt at a schedule; `done_s` is the due time that is done by it.
pub async fn keep(
    app: &Arc<App>,
    dashboard: &str,
    schedule: &Schedule,
    result: &Attempt,
    done_s: Option<i64>,
) {
    let now_s = now_s();
    let (id, of) = (schedule.id.clone(), dashboard.to_owned());
    let tenant = schedule.owner.tenant.as_deref().and_then(|tenant| tenant.parse().ok());
    let views = app.views_of_tenant(tenant);
    let (notes, error) = match result {
        Ok(notes) => (notes.clone(), None),
        Err(not) => (Vec::new(), Some(not.message.clone())),
    };
    let change = move |all: &mut Vec<Schedule>| {
        // It may have been deleted or changed meanwhile.
        if let Some(one) = all.iter_mut().find(|one| one.id == id) {
            let state = &mut one.state;
            state.done_s = match done_s {
                Some(done_s) if times::is_ahead(state.done_s, now_s) => done_s,
                done_s => state.done_s.max(done_s.unwrap_or_default()),
            };
            match error {
                None => (state.sent_s, state.error, state.error_s) = (Some(now_s), None, None),
                Some(error) => (state.error, state.error_s) = (Some(error), Some(now_s)),
            }
            state.notes = notes;
        }
        Ok(())
    };
    let kept = match views {
        Ok(views) => {
            let kept =
                tokio::task::spawn_blocking(move || views.dashboards.change_mails(&of, change));
            kept.await.map_err(|error| error.to_string()).and_then(|k| k.map_err(|e| e.to_string()))
        }
        Err(error) => Err(error.to_string()),
    };
    if let Err(why) = kept {
        tracing::error!("what became of a dashboard by mail cannot be kept: {why}");
    }
}

/// The schedules as they were read last.
#[derive(Default)]
struct Kept {
    all: Known,
    read: Option<(Instant, u64)>,
}

impl Kept {
    /// Reads them if they may have changed.
    async fn read(&mut self, app: &Arc<App>) -> Result<(), String> {
        let mut views: Vec<(Option<Tenant>, Arc<SavedViews>)> = Vec::new();
        views.push((None, app.views_of_tenant(None).map_err(|error| error.to_string())?));
        if let Some(tenants) = app.gate().tenants().filter(|_| !app.options.has_engines) {
            for (options, _) in tenants.all() {
                let of =
                    app.views_of_tenant(Some(options.id)).map_err(|error| error.to_string())?;
                views.push((Some(options.id), of));
            }
        }
        let changes = views.iter().map(|(_, views)| views.dashboards.mails_changes()).sum();
        if self.read.is_some_and(|(at, of)| of == changes && at.elapsed() < READ_EVERY) {
            return Ok(());
        }
        let reading = tokio::task::spawn_blocking(move || {
            let mut all = Known::new();
            for (tenant, views) in views {
                let found = views.dashboards.all_mails().map_err(|error| error.to_string())?;
                for (dashboard, schedules) in found {
                    all.extend(schedules.into_iter().map(|one| (tenant, dashboard.clone(), one)));
                }
            }
            Ok::<Known, String>(all)
        });
        self.all = reading.await.map_err(|error| error.to_string())??;
        self.read = Some((Instant::now(), changes));
        Ok(())
    }
}
