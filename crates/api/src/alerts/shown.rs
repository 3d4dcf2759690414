//! Rules and alerts in the form of Prometheus's API, with some keys more.

use std::sync::Arc;

use alerts::{AlertView, GroupView, Kind, Rule, RuleView, State as AlertState, fingerprint};
use axum::Json;
use axum::extract::State;
use axum::response::IntoResponse;
use serde_json::{Value, json};
use text::time::format_time;

use super::with;
use crate::access::params::Params;
use crate::app::App;
use crate::wire::error::{ApiError, ApiResult};

/// What Prometheus writes for a time that is not known yet.
const NO_TIME: &str = "0001-01-01T00:00:00Z";

pub async fn rules(State(app): State<Arc<App>>, params: Params) -> ApiResult {
    let groups = with(&app, |stage| Ok(stage.alerts().groups())).await?;
    let wanted = Wanted::of(&params)?;
    let shown = groups.iter().filter(|view| wanted.has_group(view));
    let groups: Vec<Value> = shown.map(|view| group(view, &wanted)).collect();
    Ok(Json(json!({ "status": "success", "data": { "groups": groups } })).into_response())
}

pub async fn alerts(State(app): State<Arc<App>>) -> ApiResult {
    let groups = with(&app, |stage| Ok(stage.alerts().groups())).await?;
    let rules = groups.iter().flat_map(|view| view.group.rules.iter().zip(&view.rules));
    let alerts: Vec<Value> = rules.flat_map(|(rule, view)| active(rule, view)).collect();
    Ok(Json(json!({ "status": "success", "data": { "alerts": alerts } })).into_response())
}

/// Which rules a request asks for, by the parameters of Prometheus.
struct Wanted<'a> {
    kind: Option<Kind>,
    names: Vec<&'a str>,
    groups: Vec<&'a str>,
    files: Vec<&'a str>,
    has_alerts: bool,
}

impl<'a> Wanted<'a> {
    fn of(params: &'a Params) -> ApiResult<Wanted<'a>> {
        let kind = match params.get("type") {
            None | Some("") => None,
            Some("alert") => Some(Kind::Alert),
            Some("record") => Some(Kind::Record),
            Some(other) => {
                let what = format!("type: '{other}' is not one of alert and record");
                return Err(ApiError::bad_request(what));
            }
        };
        Ok(Wanted {
            kind,
            names: params.all("rule_name[]").collect(),
            groups: params.all("rule_group[]").collect(),
            files: params.all("file[]").collect(),
            has_alerts: !params.flag("exclude_alerts"),
        })
    }

    fn has_group(&self, view: &GroupView) -> bool {
        let is_in = |names: &[&str], name: &str| names.is_empty() || names.contains(&name);
        is_in(&self.groups, &view.group.name) && is_in(&self.files, &view.group.file)
    }

    fn has_rule(&self, rule: &Rule) -> bool {
        let is_named = self.names.is_empty() || self.names.contains(&rule.name.as_str());
        is_named && self.kind.is_none_or(|kind| kind == rule.kind)
    }
}

fn group(view: &GroupView, wanted: &Wanted<'_>) -> Value {
    let group = &view.group;
    let took: f64 = view.rules.iter().map(|rule| rule.took.as_secs_f64()).sum();
    let rules = group.rules.iter().zip(&view.rules);
    let shown = rules
        .filter(|(rule, _)| wanted.has_rule(rule))
        .map(|(rule, state)| shown(view, rule, state, wanted.has_alerts));
    json!({
        "id": group.id,
        "name": group.name,
        "file": group.file,
        "type": "vlogs",
        "interval": group.interval.as_secs_f64(),
        "limit": group.series_max,
        "labels": group.labels,
        "lastEvaluation": view.evaluated_ns.map_or(NO_TIME.into(), format_time),
        "evaluationTime": took,
        "missed": view.missed,
        "rules": shown.collect::<Vec<Value>>(),
    })
}

fn shown(group: &GroupView, rule: &Rule, view: &RuleView, has_alerts: bool) -> Value {
    let texts = |pairs: &[(String, alerts::Template)]| -> Value {
        pairs.iter().map(|(name, text)| (name.clone(), Value::from(text.text()))).collect()
    };
    let health = match (&view.error, view.evaluated_ns) {
        (Some(_), _) => "err",
        (None, Some(_)) => "ok",
        (None, None) => "unknown",
    };
    let mut shown = json!({
        "id": rule.id,
        "name": rule.name,
        "file": group.group.file,
        "group": group.group.name,
        "query": rule.expr,
        "labels": texts(&rule.labels),
        "health": health,
        "lastError": view.error.clone().unwrap_or_default(),
        "error": view.error,
        "lastEvaluation": view.evaluated_ns.map_or(NO_TIME.into(), format_time),
        "evaluationTime": view.took.as_secs_f64(),
        "lastSamples": view.rows,
        "type": "recording",
    });
    if rule.kind == Kind::Alert {
        shown["type"] = "alerting".into();
        shown["state"] = view.state().name().into();
        shown["duration"] = rule.hold.as_secs_f64().into();
        shown["keepFiringFor"] = rule.keep_firing_for.as_secs_f64().into();
        shown["annotations"] = texts(&rule.annotations);
        let mut active_alerts = view.alerts.iter().filter(|view| is_active(view)).peekable();
        let is_silenced = active_alerts.peek().is_some()
            && active_alerts.all(|view| !view.silenced_by.is_empty());
        shown["silenced"] = is_silenced.into();
        if has_alerts {
            shown["alerts"] = active(rule, view).collect();
        }
    }
    shown
}

fn is_active(view: &AlertView) -> bool {
    view.alert.state != AlertState::Inactive
}

/// The alerts of a rule that are pending or fire.
fn active(rule: &Rule, view: &RuleView) -> impl Iterator<Item = Value> {
    view.alerts.iter().filter(|view| is_active(view)).map(|AlertView { alert, silenced_by }| {
        json!({
            "id": fingerprint(&alert.labels),
            "rule_id": rule.id,
            "name": rule.name,
            "state": alert.state.name(),
            "labels": alert.labels,
            "annotations": alert.annotations,
            "activeAt": format_time(alert.active_at_ns),
            "firedAt": alert.fired_at_ns.map(format_time),
            "keepFiringSince": alert.keep_firing_since_ns.map(format_time),
            "value": alert.value.to_string(),
            "silenced": !silenced_by.is_empty(),
            "silencedBy": silenced_by,
        })
    })
}
