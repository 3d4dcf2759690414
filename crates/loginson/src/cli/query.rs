//! `loginson query`: runs a query on a running server.

use std::io::{self, BufRead, BufReader};

use anyhow::{Result, bail};
use clap::Args;

use crate::cli::ServerArgs;
use crate::cli::client::{Client, explain_query_refusal};
use crate::cli::terminal::{Format, Printer, escaped};
use node::queries::export::error_of;

#[derive(Args)]
#[command(after_help = "Examples:
  loginson query error                                     the newest lines with the word error
  loginson query '\"connection refused\" _time:1h'           a phrase, in the last hour
  loginson query 'hostname:web1 _level:error app_name:nginx'
  loginson query 'status:>=500 | stats by (path) count() hits | sort by (hits) desc | limit 10'
  loginson query --start 2026-01-31T12:00Z --end 2026-01-31T12:10Z '*'
  loginson query --format raw --limit 0 'hostname:web1' > web1.log
  loginson query --format json '_time:5m' | jq ._msg
  loginson query --background '_level:error | stats by (hostname, app_name) count() n'
  loginson query --explain 'error | stats by (hostname) count() n'")]
pub struct QueryArgs {
    /// Query in LogsQL
    #[arg(value_name = "LOGSQL", allow_hyphen_values = true, value_parser = crate::cli::query_text)]
    pub(crate) query: String,
    /// Earliest time: 2026-01-31T12:00Z, a Unix time, or a while ago such as 15m
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    start: Option<String>,
    /// Time up to which rows are returned, itself excluded
    #[arg(long, value_name = "TIME", allow_hyphen_values = true)]
    end: Option<String>,
    /// Most rows to return, the newest; 0 for all [default: 1000, or all with --background]
    #[arg(long, value_name = "ROWS")]
    limit: Option<u64>,
    /// Format of the rows
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    /// Run in the background: print the query's id for `loginson queries` and return at once;
    /// without --limit, all rows are kept
    #[arg(long)]
    background: bool,
    /// Print the plan instead of running the query: which units it would read, which words leave
    /// units out, and where rows are counted, merged and sorted. With --format json, as JSON
    #[arg(long, conflicts_with = "background")]
    explain: bool,
    /// With --explain: run the query too, drop its rows, and print what it took; in a cluster, at
    /// each node
    #[arg(long, requires = "explain")]
    analyze: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// Rows when there is no `--limit`.
const LIMIT: u64 = 1000;

/// Submits a background query.
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
    if args.analyze {
        form.push(("analyze", "1".into()));
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

/// Copies a response to standard output and counts its rows. It is not an error when the reader of
/// our output goes away (`| head`).
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
