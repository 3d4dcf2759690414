//! `loginson queries`: the queue of a running server, and the rows of background queries.

use std::io::{BufRead, BufReader, Write};

use anyhow::{Result, anyhow};
use clap::{Args, Subcommand};
use serde_json::Value;
use ureq::Body;
use ureq::http::Response;

use crate::cli::ServerArgs;
use crate::cli::client::Client;
use crate::cli::terminal::{Format, Printer, escaped};

/// Rows per request.
const PAGE_ROWS: &str = "10000";
/// The width of the column of ids, unless one is longer.
const ID_CHARS_MIN: usize = 6;
/// Characters of a query's text in the list.
const LISTED_CHARS: usize = 60;

#[derive(Args)]
#[command(after_help = "Examples:
  loginson query --background '_level:error'    submit; prints the id
  loginson queries                              queries that run, wait or ended recently
  loginson queries show 17
  loginson queries results 17 > errors.jsonl    rows so far; all of them once it is done
  loginson queries cancel 17                    stop it, or delete it and its rows if it has ended")]
pub struct QueriesArgs {
    #[command(subcommand)]
    action: Option<Action>,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Subcommand)]
enum Action {
    /// Show the queue (the default)
    List(On),
    /// Show everything that is known about a query
    Show(One),
    /// Stop a query; delete a background query that has ended, and its rows
    Cancel(One),
    /// Let a query wait until it is resumed
    Pause(One),
    /// Resume a paused or interrupted query
    Resume(One),
    /// Print the rows of a background query
    Results(ResultsArgs),
}

#[derive(Args)]
struct On {
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Args)]
struct One {
    /// Id of the query
    id: u64,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Args)]
struct ResultsArgs {
    /// Id of the query
    id: u64,
    /// Resume behind this cursor, which an earlier call printed
    #[arg(long)]
    cursor: Option<String>,
    /// Rows at most; 0 for all
    #[arg(long, value_name = "ROWS", default_value_t = 0)]
    limit: u64,
    #[command(flatten)]
    server: ServerArgs,
}

/// Runs the command.
pub fn run(args: QueriesArgs) -> Result<()> {
    match args.action {
        None => list(&args.server),
        Some(Action::List(on)) => list(&on.server),
        Some(Action::Show(one)) => show(&one),
        Some(Action::Results(args)) => results(&args),
        Some(Action::Cancel(One { id, server })) => {
            let answer = Client::new(&server)?.delete_json(&path(id, ""))?;
            print_state(&answer)
        }
        Some(Action::Pause(one)) => change(&one, "/pause"),
        Some(Action::Resume(one)) => change(&one, "/resume"),
    }
}

fn path(id: u64, rest: &str) -> String {
    format!("/api/v1/queries/{id}{rest}")
}

fn change(one: &One, action: &str) -> Result<()> {
    print_state(&Client::new(&one.server)?.post_json(&path(one.id, action))?)
}

fn print_state(answer: &Value) -> Result<()> {
    let text = |name: &str| escaped(answer[name].as_str().unwrap_or_default());
    Ok(writeln!(std::io::stdout(), "query {}: {}", text("id"), text("state"))?)
}

fn list(server: &ServerArgs) -> Result<()> {
    let answer = Client::new(server)?.get_json("/api/v1/queries")?;
    let mut out = std::io::stdout().lock();
    let list = |name: &str| answer[name].as_array().map(Vec::as_slice).unwrap_or_default();
    // In a cluster, ids are long: they name the node.
    let ids = list("queries").iter().map(|entry| entry["id"].as_str().unwrap_or_default().len());
    let width = ids.max().unwrap_or(0).max(ID_CHARS_MIN);
    writeln!(
        out,
        "{:>width$}  {:<12} {:>5}  {:>9}  {:>9}  {:<10}  query",
        "id", "state", "done", "left", "rows", "kind"
    )?;
    for entry in list("queries") {
        writeln!(out, "{}", line(entry, width))?;
    }
    drop(out);
    for node in list("out_of_reach") {
        let why = escaped(node["error"].as_str().unwrap_or_default());
        eprintln!("loginson: queries that run at a node are not listed: {why}");
    }
    Ok(())
}

fn line(entry: &Value, width: usize) -> String {
    let text = |name: &str| escaped(entry[name].as_str().unwrap_or_default());
    let state = match entry["position"].as_u64() {
        Some(position) => format!("{} ({position})", text("state")),
        None => text("state"),
    };
    let left = entry["left_ms"].as_u64().map_or(String::new(), duration);
    let query: String = text("query").chars().take(LISTED_CHARS).collect();
    let percent = entry["progress"].as_f64().unwrap_or(0.0) * 100.0;
    let rows = entry["rows"].as_u64().unwrap_or(0);
    let (id, kind) = (text("id"), text("kind"));
    format!("{id:>width$}  {state:<12} {percent:>4.0}%  {left:>9}  {rows:>9}  {kind:<10}  {query}")
}

/// A time in words: the two largest units.
pub fn duration(ms: u64) -> String {
    let s = ms.div_ceil(1000);
    match s {
        0..60 => format!("{s}s"),
        60..3_600 => format!("{}m{:02}s", s / 60, s % 60),
        _ => format!("{}h{:02}m", s / 3_600, s % 3_600 / 60),
    }
}

fn show(one: &One) -> Result<()> {
    let entry = Client::new(&one.server)?.get_json(&path(one.id, ""))?;
    let mut out = std::io::stdout().lock();
    let mut each = |name: &str, value: &Value| match value {
        Value::Null => Ok(()),
        Value::String(text) => writeln!(out, "{:<16} {}", escaped(name), escaped(text)),
        value => writeln!(out, "{:<16} {}", escaped(name), escaped(&value.to_string())),
    };
    for (name, value) in entry.as_object().into_iter().flatten() {
        match value {
            Value::Object(inside) => {
                inside
                    .iter()
                    .try_for_each(|(inner, value)| each(&format!("{name}.{inner}"), value))?;
            }
            value => each(name, value)?,
        }
    }
    Ok(())
}

fn results(args: &ResultsArgs) -> Result<()> {
    let client = Client::new(&args.server)?;
    let mut printer = Printer::new(Format::Raw);
    let mut cursor = args.cursor.clone().unwrap_or_default();
    let mut left = if args.limit == 0 { u64::MAX } else { args.limit };
    loop {
        let rows = left.min(PAGE_ROWS.parse().expect("a number")).to_string();
        let params = [("limit", rows.as_str()), ("cursor", cursor.as_str())];
        let response = match client.get(&path(args.id, "/results"), &params)? {
            Ok(response) => response,
            Err(refusal) if refusal.status == 429 && !cursor.is_empty() => {
                let (message, cursor) = (escaped(&refusal.message()), escaped(&cursor));
                return Err(anyhow!("{message}; --cursor {cursor} resumes behind these rows"));
            }
            Err(refusal) => return Err(anyhow!(escaped(&refusal.message()))),
        };
        let field = |name: &str| header(&response, name);
        let (state, more) = (field("x-loginson-state"), field("x-loginson-more"));
        cursor = field("x-loginson-cursor");
        left -= field("x-loginson-rows").parse::<u64>().unwrap_or(0).min(left);
        let printed = copy(response, &mut printer);
        if printed.as_ref().is_err_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe) {
            return Ok(());
        }
        printed?;
        if more != "true" || left == 0 {
            if state != "done" || more == "true" {
                let (state, cursor) = (escaped(&state), escaped(&cursor));
                eprintln!(
                    "loginson: query {} is {state}; --cursor {cursor} resumes behind these rows",
                    args.id
                );
            }
            return Ok(());
        }
    }
}

fn header(response: &Response<Body>, name: &str) -> String {
    let value = response.headers().get(name).and_then(|value| value.to_str().ok());
    value.unwrap_or_default().to_owned()
}

/// Copies bytes unchanged for a program; for a terminal, line by line with control characters
/// escaped.
fn copy(response: Response<Body>, printer: &mut Printer) -> std::io::Result<()> {
    let mut body = BufReader::new(response.into_body().into_reader());
    let mut line = Vec::new();
    loop {
        line.clear();
        if body.read_until(b'\n', &mut line)? == 0 {
            return printer.flush();
        }
        printer.print(line.strip_suffix(b"\n").unwrap_or(&line))?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_as_lines() {
        let entry = serde_json::json!({
            "id": "17", "state": "waiting", "position": 2, "progress": 0.25, "left_ms": 61_500, "rows": 5,
            "kind": "background", "query": "a\u{1b}[31m"
        });
        assert_eq!(
            line(&entry, ID_CHARS_MIN),
            "    17  waiting (2)    25%      1m02s          5  background  a\\x1b[31m"
        );
        for (ms, expected) in [(0, "0s"), (1, "1s"), (59_001, "1m00s"), (7_260_000, "2h01m")] {
            assert_eq!(duration(ms), expected);
        }
    }
}
