//! `loginson top`: what a running server is busy with: the hosts, types or other fields that most
//! lines are from, the sources that they came by, and the queries that run.
//!
//! Hosts and types are counted by queries over the last minute, sources by the difference of two
//! answers of `/api/v1/status`.

use std::fmt::Write as _;
use std::io::{IsTerminal, Read as _, Write as _};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use clap::Args;
use serde_json::Value;
use text::duration::parse_setting;
use text::size::show_bytes;

use crate::cli::ServerArgs;
use crate::cli::client::Client;
use crate::cli::queries::duration;
use crate::cli::terminal::escaped;

#[derive(Args)]
#[command(after_help = "Examples:
  loginson top                                    hosts, types, sources, queries; again every two seconds
  loginson top --by app_name,_level --over 10m
  loginson top | head -20                         once, when it is not shown on a terminal
  loginson top --filter '_level:error' --by hostname

Rates are averages over the last minute (--over), by the times of the lines. Text is the length of the messages; its share is
about the share of the disk that the lines will take.")]
pub struct TopArgs {
    /// Fields to count lines by, each in a table of its own
    #[arg(long, value_name = "FIELD,…", default_value = "hostname,_type", value_delimiter = ',')]
    by: Vec<String>,
    /// Count only lines of this filter
    #[arg(long, value_name = "FILTER", default_value = "*")]
    filter: String,
    /// Count lines of this time up to now
    #[arg(long, value_name = "DURATION", default_value = "1m", value_parser = parse_setting)]
    over: Duration,
    /// Rows of each table
    #[arg(long, value_name = "NUMBER", default_value_t = 8)]
    rows: usize,
    /// How often it is shown again
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = parse_setting)]
    every: Duration,
    /// Show it once
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// Bytes of an answer that are read; the answers have few rows.
const ANSWER_BYTES_MAX: u64 = 4 << 20;
/// Characters of a value or query that are shown.
const SHOWN_CHARS: usize = 60;
/// What the queries of this command are known by.
const OWN: &str = "| stats count() top_lines, sum_len(_msg) top_text";

/// What is shown.
struct Seen {
    at: Instant,
    status: Value,
    queries: Value,
    totals: Vec<Value>,
    tables: Vec<(String, Vec<Value>)>,
}

/// Runs the command.
pub fn run(args: &TopArgs) -> Result<()> {
    ensure!(!args.over.is_zero(), "--over must be above zero");
    ensure!(!args.every.is_zero(), "--every must be above zero");
    let client = Client::new(&args.server)?;
    let is_once = args.once || !std::io::stdout().is_terminal();
    let mut before: Option<Seen> = None;
    loop {
        let seen = look(&client, args)?;
        let text = shown(&seen, before.as_ref(), args.over);
        let mut out = std::io::stdout().lock();
        if is_once {
            out.write_all(text.as_bytes())?;
            return Ok(());
        }
        // To the top left, and clear what was there.
        write!(out, "\x1b[H\x1b[2J{text}")?;
        out.flush()?;
        drop(out);
        before = Some(seen);
        std::thread::sleep(args.every);
    }
}

fn look(client: &Client, args: &TopArgs) -> Result<Seen> {
    let status = client.get_json("/api/v1/status")?;
    let queries = client.get_json("/api/v1/queries")?;
    let lines = format!("_time:{}ms ({})", args.over.as_millis().max(1), args.filter);
    let totals = rows(client, format!("{lines} {OWN}"))?;
    let mut tables = Vec::new();
    for field in &args.by {
        let by = serde_json::to_string(field)?;
        let stats = OWN.replace("stats", &format!("stats by ({by})"));
        let query = format!("{lines} {stats} | sort by (top_lines) desc | limit {}", args.rows);
        tables.push((field.clone(), rows(client, query)?));
    }
    Ok(Seen { at: Instant::now(), status, queries, totals, tables })
}

/// The rows of a query.
fn rows(client: &Client, query: String) -> Result<Vec<Value>> {
    let answer = client.post_form("/select/logsql/query", &[("query", query)])?;
    let answer = answer.map_err(|refusal| anyhow!(escaped(&refusal.message())))?;
    let mut text = String::new();
    answer.into_body().into_reader().take(ANSWER_BYTES_MAX).read_to_string(&mut text)?;
    Ok(text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect())
}

/// A number, which rows of queries have as text.
fn number(value: &Value) -> u64 {
    value.as_u64().or_else(|| value.as_str()?.parse().ok()).unwrap_or(0)
}

fn cut(text: &str) -> String {
    escaped(text).chars().take(SHOWN_CHARS).collect()
}

fn shown(seen: &Seen, before: Option<&Seen>, over: Duration) -> String {
    let mut out = String::new();
    let seconds = over.as_secs_f64();
    let (status, store) = (&seen.status, &seen.status["store"]);
    let total = seen.totals.first().cloned().unwrap_or_default();
    let (lines, text) = (number(&total["top_lines"]), number(&total["top_text"]));
    let _ = writeln!(
        out,
        "up {}; {:.1} lines/s, {}/s; {} lines in {} on disk, {} free; memory of queries {}",
        duration(number(&status["uptime_s"]).saturating_mul(1000)),
        lines as f64 / seconds,
        show_bytes((text as f64 / seconds) as u64),
        number(&store["lines"]),
        show_bytes(number(&store["bytes_disk"])),
        show_bytes(number(&store["disk_free_bytes"])),
        show_bytes(number(&status["memory"]["bytes"])),
    );
    for (field, rows) in &seen.tables {
        let _ =
            writeln!(out, "\n{:>10} {:>11} {:>6}  {}", "lines/s", "text/s", "share", cut(field));
        for row in rows {
            let (row_lines, row_text) = (number(&row["top_lines"]), number(&row["top_text"]));
            let value = row[field].as_str().filter(|value| !value.is_empty()).unwrap_or("(none)");
            let _ = writeln!(
                out,
                "{:>10.1} {:>11} {:>5.1}%  {}",
                row_lines as f64 / seconds,
                show_bytes((row_text as f64 / seconds) as u64),
                100.0 * row_text as f64 / text.max(1) as f64,
                cut(value),
            );
        }
    }
    sources(seen, before, &mut out);
    queries(&seen.queries, &mut out);
    out
}

/// Lines by source: since the last look, or since the start.
fn sources(seen: &Seen, before: Option<&Seen>, out: &mut String) {
    let unit = if before.is_some() { "lines/s" } else { "lines" };
    let _ = writeln!(out, "\n{unit:>10} {:>11} {:>6}  source", "bytes", "lost");
    for source in seen.status["ingest"].as_array().into_iter().flatten() {
        let of_before = before.and_then(|before| {
            let sources = before.status["ingest"].as_array()?;
            Some((sources.iter().find(|old| old["source"] == source["source"])?, before.at))
        });
        let dropped = |of: &Value| -> u64 {
            of["dropped"].as_object().map_or(0, |by| by.values().map(number).sum())
        };
        let since = |value: &dyn Fn(&Value) -> u64| match of_before {
            None => value(source) as f64,
            Some((old, at)) => {
                let seconds = (seen.at - at).as_secs_f64().max(0.001);
                value(source).saturating_sub(value(old)) as f64 / seconds
            }
        };
        let lines = since(&|of| number(&of["lines_kept"]));
        let bytes = since(&|of| number(&of["bytes_kept"]));
        if lines > 0.0 || dropped(source) > 0 {
            let title = cut(source["title"].as_str().unwrap_or_default());
            let _ = writeln!(
                out,
                "{lines:>10.0} {:>11} {:>6}  {title}",
                show_bytes(bytes as u64),
                dropped(source)
            );
        }
    }
}

/// Queries that have not ended.
fn queries(queries: &Value, out: &mut String) {
    let _ = writeln!(out, "\n{:>10} {:>11} {:>6}  query", "state", "rows", "done");
    for query in queries["queries"].as_array().into_iter().flatten() {
        let state = query["state"].as_str().unwrap_or_default();
        let text = query["query"].as_str().unwrap_or_default();
        let is_open = matches!(state, "running" | "waiting" | "paused");
        if is_open && !text.contains("top_lines") {
            let _ = writeln!(
                out,
                "{:>10} {:>11} {:>5.0}%  {}: {}",
                cut(state),
                number(&query["rows"]),
                100.0 * query["progress"].as_f64().unwrap_or(0.0),
                cut(query["id"].as_str().unwrap_or_default()),
                cut(text)
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn seen(kept: u64, at: Instant) -> Seen {
        Seen {
            at,
            status: json!({
                "uptime_s": 61, "memory": { "bytes": 1024 },
                "store": { "lines": 7, "bytes_disk": 1 << 20, "disk_free_bytes": 1_u64 << 30 },
                "ingest": [
                    { "source": "http", "title": "HTTP", "lines_kept": kept, "bytes_kept": 10 * kept,
                      "dropped": { "kernel": 0 } },
                    { "source": "relp", "title": "RELP", "lines_kept": 0, "dropped": {} },
                ],
            }),
            queries: json!({ "queries": [
                { "id": "3", "state": "running", "rows": 5, "progress": 0.5, "query": "a\u{1b}[2J" },
                { "id": "4", "state": "done", "query": "over" },
                { "id": "5", "state": "running", "query": "* | stats count() top_lines" },
            ] }),
            totals: vec![json!({ "top_lines": "120", "top_text": "6000" })],
            tables: vec![(
                "hostname".into(),
                vec![
                    json!({ "hostname": "web1", "top_lines": "60", "top_text": "4500" }),
                    json!({ "hostname": "", "top_lines": "60", "top_text": "1500" }),
                ],
            )],
        }
    }

    #[test]
    fn a_screen() {
        let start = Instant::now();
        let first = seen(100, start);
        let text = shown(&first, None, Duration::from_secs(60));
        assert_eq!(
            text,
            "up 1m01s; 2.0 lines/s, 100 B/s; 7 lines in 1.0 MiB on disk, 1.0 GiB free; memory of queries 1.0 KiB\n\
             \n   lines/s      text/s  share  hostname\n\
             \x20      1.0        75 B  75.0%  web1\n\
             \x20      1.0        25 B  25.0%  (none)\n\
             \n     lines       bytes   lost  source\n\
             \x20      100      1000 B      0  HTTP\n\
             \n     state        rows   done  query\n\
             \x20  running           5    50%  3: a\\x1b[2J\n"
        );
        let second = seen(300, start + Duration::from_secs(2));
        let text = shown(&second, Some(&first), Duration::from_secs(60));
        assert!(text.contains("       100      1000 B      0  HTTP\n"), "{text}");
    }
}
