//! `loginson query`: asks a running server.

use std::io::{self, BufRead, BufReader};

use anyhow::{Result, bail};
use clap::Args;

use crate::cli::ServerArgs;
use crate::cli::client::{Client, explain_query_refusal};
use crate::cli::terminal::{Format, Printer, escaped};
use crate::queries::export::error_of;

#[derive(Args)]
#[command(after_help = "Examples:
  loginson query error                                     the newest lines with the word error
  loginson query '\"connection refused\" _time:1h'           a phrase, in the last hour
  loginson query 'hostname:web1 level:error app_name:nginx'
  loginson query 'status:>=500 | stats by (path) count() hits | sort by (hits) desc | limit 10'
  loginson query --start 2026-01-31T12:00Z --end 2026-01-31T12:10Z '*'
  loginson query --format raw --limit 0 'hostname:web1' > web1.log
  loginson query --format json '_time:5m' | jq ._msg
  loginson query --background 'level:error | stats by (hostname, app_name) count() n'
  loginson query --explain 'error | stats by (hostname) count() n'")]
pub struct QueryArgs {
    /// What to look for, in LogsQL
    #[arg(value_name = "LOGSQL", allow_hyphen_values = true, value_parser = crate::cli::query_text)]
    pub(crate) query: String,
    /// Earliest time: 2026-01-31T12:00Z, a Unix time, or a while ago such as 15m
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    start: Option<String>,
    /// Time before which rows lie
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    end: Option<String>,
    /// Rows at most, the newest; 0 for all [default: 1000, or all with --background]
    #[arg(long, value_name = "ROWS")]
    limit: Option<u64>,
    /// How rows are written
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Ask and come back later: prints the query's id, which `loginson queries` takes; without
    /// --limit for all rows
    #[arg(long)]
    background: bool,
    /// Print what the query would do, without running it: which units it reads, by which words they
    /// are left out, what is counted, merged and sorted where. With --format json as JSON
    #[arg(long, conflicts_with = "background")]
    explain: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// Rows when not told.
const LIMIT: u64 = 1000;

/// Asks in the background.
fn submit(client: &Client, form: &[(&str, String)]) -> Result<()> {
    let mut response = match client.post_form("/api/v1/queries", form)? {
        Ok(response) => response,
        Err(refusal) => return Err(explain_query_refusal(&refusal)),
    };
    let answer: serde_json::Value = serde_json::from_str(&response.body_mut().read_to_string()?)?;
    let id = escaped(answer["id"].as_str().unwrap_or_default());
    println!("{id}");
    let state = escaped(answer["state"].as_str().unwrap_or_default());
    eprintln!("loginson: the query is {state}; `loginson queries results {id}` shows its rows");
    Ok(())
}

/// Prints the plan.
fn explain(client: &Client, mut form: Vec<(&str, String)>, format: Format) -> Result<()> {
    form.retain(|(name, _)| *name != "format");
    if format == Format::Json {
        form.push(("format", "json".into()));
    }
    let mut response = match client.post_form("/select/logsql/explain", &form)? {
        Ok(response) => response,
        Err(refusal) => return Err(explain_query_refusal(&refusal)),
    };
    let plan = response.body_mut().read_to_string()?;
    plan.lines().for_each(|line| println!("{}", escaped(line)));
    Ok(())
}

/// Runs the command.
pub fn run(args: QueryArgs) -> Result<()> {
    let client = Client::new(&args.server)?;
    let mut form = vec![("query", args.query)];
    form.extend(args.start.map(|start| ("start", start)));
    form.extend(args.end.map(|end| ("end", end)));
    let limit = args.limit.unwrap_or(if args.background { 0 } else { LIMIT });
    if limit > 0 {
        form.push(("limit", limit.to_string()));
    }
    if args.format == Format::Raw {
        form.push(("format", "raw".into()));
    }
    if args.explain {
        return explain(&client, form, args.format);
    }
    if args.background {
        return submit(&client, &form);
    }
    let response = match client.post_form("/select/logsql/query", &form)? {
        Ok(response) => response,
        Err(refusal) => return Err(explain_query_refusal(&refusal)),
    };
    let mut printer = Printer::new(args.format);
    let rows = copy_rows(
        &mut BufReader::new(response.into_body().into_reader()),
        &mut printer,
        args.format,
    )?;
    if limit > 0 && rows == limit {
        eprintln!("loginson: the newest {rows} rows are shown; --limit 0 shows all");
    }
    Ok(())
}

/// Copies an answer to standard output and counts its rows. A reader of ours that goes away (`|
/// head`) is no error.
fn copy_rows(answer: &mut impl BufRead, printer: &mut Printer, format: Format) -> Result<u64> {
    let mut line = Vec::new();
    let mut rows = 0;
    loop {
        line.clear();
        if answer.read_until(b'\n', &mut line)? == 0 {
            break;
        }
        let row = line.strip_suffix(b"\n").unwrap_or(&line);
        if let Some(error) = error_of(row).filter(|_| format != Format::Raw) {
            printer.flush()?;
            bail!("the answer is not complete: {}", escaped(&error));
        }
        match printer.print(row) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(rows),
            result => result?,
        }
        rows += 1;
    }
    match printer.flush() {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(rows),
        result => Ok(result.map(|()| rows)?),
    }
}
