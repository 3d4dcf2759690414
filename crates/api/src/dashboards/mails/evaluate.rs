//! Evaluates the panels of a dashboard for a caller that is not there: each query enters the queue
//! of queries like one of the page, within the limits and the restriction of the caller.

use std::ops::ControlFlow;
use std::sync::Arc;

use node::cluster::Missing;
use node::saved_views::mails::Wanted;
use query::{Query, Scratch, Stats, Top, Uniq};
use serde_json::{Map, Value};
use text::time::format_time;

use super::logql;
use super::panel::{Panel, panels, variables, with_variables};
use super::report::Part;
use super::shown::{Answered, ROWS_BYTES_MAX, ROWS_MAX, Rows, Shown, TABLE_ROWS_MAX};
use super::times::zone;
use crate::access::params::Params;
use crate::access::principal::Caller;
use crate::app::App;
use crate::queries::run::{PendingQuery, answer};
use crate::wire::clock::now_ns;

/// Bytes of a value that are read.
const VALUE_BYTES_MAX: usize = 4 << 10;
/// Columns of an answer that are read.
const NAMES_MAX: usize = 200;

/// The panels of a dashboard with their answers over a range in nanoseconds, and what concerns the
/// whole.
pub async fn evaluate(
    app: &Arc<App>,
    caller: &Caller,
    dashboard: &Map<String, Value>,
    wanted: &Wanted,
    range_ns: (i64, i64),
) -> (Vec<Part>, Vec<String>) {
    let (panels, more) = panels(dashboard);
    let known = variables(dashboard);
    let mut notes = Vec::new();
    if more > 0 {
        notes.push(format!("{more} further panels are left out."));
    }
    for name in wanted.variables.keys() {
        if !known.iter().any(|(known, _)| known == name) {
            notes.push(format!("The dashboard has no variable '{name}' any more: it is not used."));
        }
    }
    let mut parts = Vec::new();
    for panel in panels {
        parts.push(part(app, caller, panel, &known, wanted, range_ns).await);
    }
    (parts, notes)
}

async fn part(
    app: &Arc<App>,
    caller: &Caller,
    panel: Panel,
    known: &[(String, String)],
    wanted: &Wanted,
    range_ns: (i64, i64),
) -> Part {
    let mut notes = panel.notes.clone();
    let shown = if panel.query.is_empty() {
        Shown::Text(panel.text.clone())
    } else {
        // What one answer lacks is told of its panel alone.
        let caller = Caller { missing: Arc::default(), ..caller.clone() };
        let found = if panel.is_logql {
            let text = logql::with_variables(&panel.query, known, &wanted.variables);
            logql::of_query(app, &caller, &panel, &text, range_ns).await
        } else {
            let text = with_variables(&panel.query, known, &wanted.variables);
            of_query(app, &caller, &panel, &text, range_ns).await
        };
        let shown = found.and_then(|(query, rows)| {
            let (panel, query, rows, zone) = (&panel, &query, &rows, &zone(&wanted.zone)?);
            let range_ms = (range_ns.0.div_euclid(1_000_000), range_ns.1.div_euclid(1_000_000));
            Ok(Answered { panel, query, rows, range_ms, zone }.shown(&mut notes))
        });
        notes.extend(lacks(&caller.missing));
        shown.unwrap_or_else(Shown::Failed)
    };
    Part { title: panel.title, shown, notes }
}

/// What an answer lacks, a sentence each.
fn lacks(missing: &Missing) -> Vec<String> {
    let stores = missing.stores();
    let mut lacks = missing.lacks();
    if lacks.is_empty() && !stores.is_empty() {
        lacks.push(format!("The answer is not whole: {} did not answer.", stores.join(", ")));
    }
    lacks.extend(missing.damages.message());
    lacks
}

async fn of_query(
    app: &Arc<App>,
    caller: &Caller,
    panel: &Panel,
    text: &str,
    (start_ns, end_ns): (i64, i64),
) -> Result<(Query, Rows), String> {
    let pairs = [
        ("start", format_time(start_ns)),
        ("end", format_time(end_ns)),
        ("allow_partial_response", "1".to_owned()),
    ];
    let pairs = pairs.map(|(name, value)| (name.to_owned(), value)).into();
    let params = Params::of_principal(&caller.principal, pairs);
    let told = |error: crate::wire::error::ApiError| error.to_string();
    let parsed = params.parse_query(text, end_ns.saturating_sub(1));
    let parsed = parsed.map_err(|error| error.to_string())?;
    let query = panel.timed(&parsed, end_ns.saturating_sub(start_ns));
    let is_of_lines = query.pipes().iter().all(|pipe| {
        pipe.get::<Stats>().is_none() && pipe.get::<Top>().is_none() && pipe.get::<Uniq>().is_none()
    });
    let rows_max = if is_of_lines { TABLE_ROWS_MAX } else { ROWS_MAX };
    let shown_text = query.to_string();
    let pending = PendingQuery::of_text(app, "query", &shown_text, &params, caller, now_ns())
        .map_err(told)?;
    let mut pending = pending;
    pending.context.limit = Some(rows_max + 1);
    let run = query.clone();
    let mut rows = answer(pending, move |running| {
        let mut rows = Rows::default();
        let (mut bytes, mut scratch) = (0, Scratch::default());
        query::run(&run, running.source(), &running.context, &mut |found| {
            for index in 0..found.len() {
                if rows.rows.len() >= rows_max || bytes > ROWS_BYTES_MAX {
                    rows.is_cut = true;
                    return ControlFlow::Break(());
                }
                let mut row = Vec::new();
                found.visit(index, &mut scratch, |name, value| {
                    let place = rows.names.iter().position(|known| known == name);
                    let place = place.or_else(|| {
                        (rows.names.len() < NAMES_MAX).then(|| {
                            rows.names.push(name.to_owned());
                            rows.names.len() - 1
                        })
                    });
                    let Some(place) = place else { return };
                    if row.len() <= place {
                        row.resize(place + 1, String::new());
                    }
                    let value = &value[..value.len().min(VALUE_BYTES_MAX)];
                    row[place] = String::from_utf8_lossy(value).into_owned();
                    bytes += value.len() + size_of::<String>();
                });
                rows.rows.push(row);
            }
            ControlFlow::Continue(())
        })?;
        Ok(rows)
    })
    .await
    .map_err(told)?;
    if is_of_lines && !is_made(&query) {
        only_messages(&mut rows);
    }
    Ok((query, rows))
}

/// Whether pipes choose the fields of the rows.
fn is_made(query: &Query) -> bool {
    !query.pipes().is_empty()
}

/// Of lines as they are, the time and the message are shown: there is no room for all fields.
fn only_messages(rows: &mut Rows) {
    let places: Vec<usize> = ["_time", "_msg"]
        .iter()
        .filter_map(|name| rows.names.iter().position(|known| known == name))
        .collect();
    if places.len() < 2 {
        return;
    }
    let chosen = |row: &Vec<String>| {
        let of = |place: &usize| row.get(*place).cloned().unwrap_or_default();
        places.iter().map(of).collect()
    };
    rows.rows = rows.rows.iter().map(chosen).collect();
    rows.names = chosen(&rows.names);
}
