//! `loginson kibana-objects`: saved objects of Kibana and OpenSearch Dashboards for the rows of
//! programs.

use std::collections::BTreeMap;
use std::io::{Write, stdout};

use anyhow::{Result, ensure};
use clap::Args;
use serde_json::Value;
use sinks::{FieldKind, RowSchema, kibana_objects};

use crate::cli::ServerArgs;
use crate::cli::client::Client;

/// Rows of a program that are looked at to find out its fields.
const ROWS: usize = 1_000;

#[derive(Args)]
#[command(after_help = "Examples:
  loginson kibana-objects > objects.ndjson
  loginson kibana-objects --index 'rows-*' --time-field time access-status > objects.ndjson

Import the file in Kibana or OpenSearch Dashboards under Saved Objects. docs/sinks.md describes sinks.")]
pub struct KibanaObjectsArgs {
    /// Programs [default: all that have rows]
    #[arg(value_name = "PROGRAM")]
    programs: Vec<String>,
    /// Pattern of the indices that a sink writes rows to
    #[arg(long, value_name = "PATTERN", default_value = "loginson-*")]
    index: String,
    /// Field of the time there
    #[arg(long, value_name = "NAME", default_value = "@timestamp")]
    time_field: String,
    /// Title of the dashboard
    #[arg(long, value_name = "TITLE", default_value = "Loginson")]
    title: String,
    /// How far back rows are looked at to find out their fields
    #[arg(long, value_name = "TIME", default_value = "1d")]
    start: String,
    #[command(flatten)]
    server: ServerArgs,
}

/// Runs the command.
pub fn run(args: KibanaObjectsArgs) -> Result<()> {
    let client = Client::new(&args.server)?;
    let names: Vec<String> = match args.programs.is_empty() {
        false => args.programs,
        true => {
            let listed = client.get_json("/api/v1/programs")?;
            let programs = listed["programs"].as_array().into_iter().flatten();
            programs.filter_map(|program| program["name"].as_str().map(str::to_owned)).collect()
        }
    };
    let mut schemas = Vec::new();
    for name in names {
        let program: String = form_urlencoded::byte_serialize(name.as_bytes()).collect();
        let start: String = form_urlencoded::byte_serialize(args.start.as_bytes()).collect();
        let path = format!("/api/v1/programs/{program}/rows?start={start}&limit={ROWS}");
        let answer = client.get_json(&path)?;
        let fields = fields_of(&answer["rows"]);
        if fields.is_empty() {
            eprintln!("note: program {name} has no rows since {}; it is left out", args.start);
            continue;
        }
        schemas.push(RowSchema {
            program: name,
            index_pattern: args.index.clone(),
            time_field: args.time_field.clone(),
            fields,
        });
    }
    ensure!(!schemas.is_empty(), "no program has rows since {}; see --start", args.start);
    stdout().write_all(kibana_objects(&args.title, &schemas).as_bytes())?;
    Ok(())
}

/// The fields of rows and what they hold: a number if every value is one.
fn fields_of(rows: &Value) -> Vec<(String, FieldKind)> {
    let mut kinds: BTreeMap<String, FieldKind> = BTreeMap::new();
    for row in rows.as_array().into_iter().flatten() {
        for (name, value) in row["fields"].as_object().into_iter().flatten() {
            let kind = match value {
                Value::Null => continue,
                Value::Number(_) => FieldKind::Number,
                _ => FieldKind::Text,
            };
            let known = kinds.entry(name.clone()).or_insert(kind);
            if kind == FieldKind::Text {
                *known = kind;
            }
        }
    }
    kinds.into_iter().collect()
}
