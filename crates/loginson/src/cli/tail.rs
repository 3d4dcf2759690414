//! `loginson tail`: follows lines as they arrive.

use std::io::{self, BufRead, BufReader};

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::cli::ServerArgs;
use crate::cli::client::{Client, explain_query_refusal};
use crate::cli::terminal::{Format, Printer};
use node::queries::export::{SKIPPED_LINE_BEGIN, error_of};

const ENDED: &str = "the server ended the connection; it does so when it stops, or when a suspended terminal takes no \
 lines for some minutes (query.client_idle_max)";

#[derive(Args)]
#[command(after_help = "Examples:
  loginson tail                             everything
  loginson tail '_level:error'              errors only
  loginson tail --format raw 'hostname:web1'
  loginson tail 'app_name:sshd | fields _time, _msg'")]
pub struct TailArgs {
    /// Lines to follow, in LogsQL: filters, and pipes that work line by line
    #[arg(value_name = "LOGSQL", allow_hyphen_values = true, value_parser = crate::cli::query_text, default_value = "*")]
    query: String,
    /// Format of the rows
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    #[command(flatten)]
    server: ServerArgs,
}

/// Runs the command until it is interrupted or the server ends.
pub fn run(args: TailArgs) -> Result<()> {
    let client = Client::new(&args.server)?;
    let mut form = vec![("query", args.query)];
    if args.format == Format::Raw {
        form.push(("include", "_line".into()));
    }
    let response = match client.post_form("/select/logsql/tail", &form)? {
        Ok(response) => response,
        Err(refusal) => return Err(explain_query_refusal(&refusal)),
    };
    let mut answer = BufReader::new(response.into_body().into_reader());
    let mut printer = Printer::new(args.format);
    let mut line = Vec::new();
    loop {
        line.clear();
        if answer.read_until(b'\n', &mut line).context(ENDED)? == 0 {
            bail!("{ENDED}");
        }
        if let Some(error) = error_of(&line) {
            printer.flush()?;
            bail!("the tail ended: {}", crate::cli::terminal::escaped(&error));
        }
        let printed = show(line.strip_suffix(b"\n").unwrap_or(&line), &mut printer, args.format)
            // Lines come in bursts; flushing waits for the end of a burst.
            .and_then(|()| if answer.buffer().is_empty() { printer.flush() } else { Ok(()) });
        match printed {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => return Ok(()),
            result => result?,
        }
    }
}

fn show(row: &[u8], printer: &mut Printer, format: Format) -> io::Result<()> {
    if row.is_empty() {
        // Sent to keep the connection open.
        return Ok(());
    }
    if row.starts_with(SKIPPED_LINE_BEGIN) {
        let skipped: serde_json::Value = serde_json::from_slice(row).unwrap_or_default();
        if let Some(messages) = skipped["_skipped"]["messages"].as_u64() {
            eprintln!(
                "loginson: {messages} messages of partition {} missed, because it changed its owner; a query finds their \
                 lines",
                skipped["_skipped"]["partition"]
            );
            return Ok(());
        }
        eprintln!(
            "loginson: {} lines skipped; they arrived faster than they could be shown",
            skipped["_skipped"]["lines"]
        );
        return Ok(());
    }
    if format == Format::Raw
        && let Ok(row) = serde_json::from_slice::<serde_json::Value>(row)
        && let Some(raw) = row["_line"].as_str()
    {
        return printer.print(raw.as_bytes());
    }
    printer.print(row)
}
