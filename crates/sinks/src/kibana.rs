//! Saved objects that Kibana 7.17 and 8 and OpenSearch Dashboards import (Saved objects > Import):
//! an index pattern for each index, a chart for each program, and a dashboard with all charts.
//!
//! The objects have the versions that the two products had in common when they parted (7.10);
//! Kibana brings older objects up to date as it imports them, and OpenSearch Dashboards refuses
//! later ones. Charts are of the kind `visualization`, since OpenSearch Dashboards has no Lens.
//!
//! Ids follow from the names, so that a second import replaces the objects of the first one.
//!
//! Left out: the list of fields of an index pattern, which both products ask the server for.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::document::write_value;

/// Names of values in a chart, the largest; the rest is shown as one.
const SPLITS_MAX: u32 = 10;
/// The grid of a dashboard has 48 columns.
const PANEL_COLUMNS: usize = 24;
const PANEL_ROWS: usize = 15;
const PANELS_IN_A_ROW: usize = 2;
/// Where the index of a chart is referred to.
const INDEX_REFERENCE: &str = "kibanaSavedObjectMeta.searchSourceJSON.index";

/// What is known of a program's rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowSchema {
    /// The name of the program, which titles its chart.
    pub program: String,
    /// The indices of its rows, for example `rows-*`.
    pub index_pattern: String,
    /// The field of the time, by which the chart is drawn.
    pub time_field: String,
    /// The other fields, in their order.
    pub fields: Vec<(String, FieldKind)>,
}

/// What a field holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// Text, mapped as `keyword`.
    Text,
    /// A number.
    Number,
    /// A time.
    Time,
}

impl RowSchema {
    fn first(&self, kind: FieldKind) -> Option<&str> {
        let mut found = self.fields.iter().filter(|(_, of)| *of == kind);
        found.next().map(|(name, _)| name.as_str())
    }
}

/// The objects as lines of JSON: what they refer to comes first. A chart shows bars over time: the
/// sum of the first number, or the count of rows if there is no number, split by the first text.
pub fn kibana_objects(dashboard: &str, programs: &[RowSchema]) -> String {
    let mut objects = Vec::new();
    let mut patterns = BTreeSet::new();
    for schema in programs {
        if patterns.insert((&schema.index_pattern, &schema.time_field)) {
            objects.push(index_pattern(schema));
        }
    }
    objects.extend(programs.iter().map(chart));
    objects.push(dashboard_of(dashboard, programs));
    let mut lines = Vec::new();
    for object in objects {
        write_value(&object, &mut lines);
        lines.push(b'\n');
    }
    String::from_utf8(lines).expect("JSON is UTF-8")
}

fn pattern_id(schema: &RowSchema) -> String {
    id("index-pattern", &format!("{}\n{}", schema.index_pattern, schema.time_field))
}

fn chart_id(schema: &RowSchema) -> String {
    id("visualization", &format!("{}\n{}", schema.program, schema.index_pattern))
}

/// An id with the readable characters of a name, and its hash, since other characters count too.
fn id(kind: &str, name: &str) -> String {
    let first = name.lines().next().unwrap_or_default();
    let readable: String =
        first.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(64).collect();
    let hash = ring::digest::digest(&ring::digest::SHA256, name.as_bytes());
    let hash: String = hash.as_ref()[..6].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("loginson-{kind}-{readable}-{hash}")
}

fn index_pattern(schema: &RowSchema) -> Value {
    json!({
        "type": "index-pattern",
        "id": pattern_id(schema),
        "attributes": {"title": schema.index_pattern, "timeFieldName": schema.time_field},
        "references": [],
        "migrationVersion": {"index-pattern": "7.6.0"},
    })
}

fn chart(schema: &RowSchema) -> Value {
    let number = schema.first(FieldKind::Number);
    let label = number.map_or_else(|| "Count".to_owned(), |field| format!("Sum of {field}"));
    let (kind, params) = match number {
        Some(field) => ("sum", json!({ "field": field })),
        None => ("count", json!({})),
    };
    let metric =
        json!({"id": "1", "enabled": true, "type": kind, "schema": "metric", "params": params});
    let time = json!({
        "id": "2", "enabled": true, "type": "date_histogram", "schema": "segment",
        "params": {
            "field": schema.time_field, "interval": "auto", "drop_partials": false,
            "min_doc_count": 1, "extended_bounds": {},
        },
    });
    let split = schema.first(FieldKind::Text).map(|field| {
        json!({
            "id": "3", "enabled": true, "type": "terms", "schema": "group",
            "params": {
                "field": field, "orderBy": "1", "order": "desc", "size": SPLITS_MAX,
                "otherBucket": true, "otherBucketLabel": "Other",
                "missingBucket": false, "missingBucketLabel": "Missing",
            },
        })
    });
    let aggregations: Vec<Value> =
        [Some(metric), Some(time), split].into_iter().flatten().collect();
    let state = json!({
        "title": schema.program,
        "type": "histogram",
        "aggs": aggregations,
        "params": {
            "type": "histogram",
            "grid": {"categoryLines": false},
            "categoryAxes": [{
                "id": "CategoryAxis-1", "type": "category", "position": "bottom", "show": true,
                "style": {}, "scale": {"type": "linear"},
                "labels": {"show": true, "filter": true, "truncate": 100}, "title": {},
            }],
            "valueAxes": [{
                "id": "ValueAxis-1", "name": "LeftAxis-1", "type": "value", "position": "left",
                "show": true, "style": {}, "scale": {"type": "linear", "mode": "normal"},
                "labels": {"show": true, "rotate": 0, "filter": false, "truncate": 100},
                "title": {"text": label},
            }],
            "seriesParams": [{
                "show": true, "type": "histogram", "mode": "stacked",
                "data": {"label": label, "id": "1"}, "valueAxis": "ValueAxis-1",
                "drawLinesBetweenPoints": true, "lineWidth": 2, "showCircles": true,
            }],
            "addTooltip": true, "addLegend": true, "legendPosition": "right", "times": [],
            "addTimeMarker": false, "labels": {"show": false},
            "thresholdLine": {
                "show": false, "value": 10, "width": 1, "style": "full", "color": "#E7664C",
            },
        },
    });
    let source = json!({
        "query": {"query": "", "language": "kuery"}, "filter": [], "indexRefName": INDEX_REFERENCE,
    });
    json!({
        "type": "visualization",
        "id": chart_id(schema),
        "attributes": {
            "title": schema.program,
            "visState": state.to_string(),
            "uiStateJSON": "{}",
            "description": "",
            "version": 1,
            "kibanaSavedObjectMeta": {"searchSourceJSON": source.to_string()},
        },
        "references": [
            {"name": INDEX_REFERENCE, "type": "index-pattern", "id": pattern_id(schema)},
        ],
        "migrationVersion": {"visualization": "7.10.0"},
    })
}

fn dashboard_of(title: &str, programs: &[RowSchema]) -> Value {
    let panel = |place: usize| {
        let number = (place + 1).to_string();
        json!({
            "version": "7.9.3",
            "panelIndex": number,
            "gridData": {
                "x": place % PANELS_IN_A_ROW * PANEL_COLUMNS,
                "y": place / PANELS_IN_A_ROW * PANEL_ROWS,
                "w": PANEL_COLUMNS, "h": PANEL_ROWS, "i": number,
            },
            "embeddableConfig": {},
            "panelRefName": format!("panel_{place}"),
        })
    };
    let panels: Vec<Value> = (0..programs.len()).map(panel).collect();
    let references: Vec<Value> = programs
        .iter()
        .enumerate()
        .map(|(place, schema)| {
            let name = format!("panel_{place}");
            json!({"name": name, "type": "visualization", "id": chart_id(schema)})
        })
        .collect();
    let source = json!({"query": {"query": "", "language": "kuery"}, "filter": []});
    json!({
        "type": "dashboard",
        "id": id("dashboard", title),
        "attributes": {
            "title": title,
            "hits": 0,
            "description": "",
            "panelsJSON": Value::from(panels).to_string(),
            "optionsJSON": json!({"hidePanelTitles": false, "useMargins": true}).to_string(),
            "version": 1,
            "timeRestore": false,
            "kibanaSavedObjectMeta": {"searchSourceJSON": source.to_string()},
        },
        "references": references,
        "migrationVersion": {"dashboard": "7.9.3"},
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn programs() -> Vec<RowSchema> {
        let schema = |program: &str, index: &str, fields: &[(&str, FieldKind)]| RowSchema {
            program: program.to_owned(),
            index_pattern: index.to_owned(),
            time_field: "@timestamp".to_owned(),
            fields: fields.iter().map(|(name, kind)| ((*name).to_owned(), *kind)).collect(),
        };
        let rows = [
            ("first_seen", FieldKind::Time),
            ("bytes", FieldKind::Number),
            ("host", FieldKind::Text),
            ("path", FieldKind::Text),
        ];
        vec![
            schema("bytes by host", "rows-*", &rows),
            schema("logins", "rows-*", &[("user \"x\"", FieldKind::Text)]),
            schema("heartbeat", "beats", &[]),
        ]
    }

    /// Set `UPDATE_GOLDEN` to write the file anew after a change that is meant.
    #[test]
    fn the_objects_are_those_of_the_file() {
        let printed = kibana_objects("Loginson", &programs());
        let file = "tests/data/kibana.ndjson";
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(file, &printed).unwrap();
        }
        assert_eq!(printed, std::fs::read_to_string(file).unwrap());
    }

    #[test]
    fn references_lead_to_objects_before_them() {
        let printed = kibana_objects("Loginson", &programs());
        let mut known = BTreeSet::new();
        let key = |object: &Value| (object["type"].to_string(), object["id"].to_string());
        let mut charts = Vec::new();
        for line in printed.lines() {
            let object: Value = serde_json::from_str(line).unwrap();
            for reference in object["references"].as_array().unwrap() {
                assert!(known.contains(&key(reference)), "{reference}");
            }
            assert!(known.insert(key(&object)), "{object}");
            if let Some(state) = object["attributes"]["visState"].as_str() {
                let state: Value = serde_json::from_str(state).unwrap();
                let field = |place: usize| state["aggs"][place]["params"]["field"].clone();
                charts.push(json!([state["aggs"][0]["type"], field(0), field(1), field(2)]));
            }
        }
        assert_eq!(known.len(), 2 + 3 + 1);
        assert_eq!(
            Value::from(charts),
            json!([
                ["sum", "bytes", "@timestamp", "host"],
                ["count", null, "@timestamp", "user \"x\""],
                ["count", null, "@timestamp", null],
            ])
        );
    }

    #[test]
    fn names_that_differ_have_other_ids() {
        assert_ne!(id("x", "a/b"), id("x", "a b"));
        assert_eq!(id("x", "a/b"), id("x", "a/b"));
        assert!(id("x", &"ü".repeat(500)).len() < 100);
    }
}
