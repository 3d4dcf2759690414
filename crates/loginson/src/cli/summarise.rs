//! `loginson summarise`: summarises a past interval again, on a running server.

use anyhow::{Result, bail};
use clap::Args;
use serde_json::Value;

use crate::cli::ServerArgs;
use crate::cli::client::Client;
use crate::cli::terminal::escaped;

#[derive(Args)]
#[command(after_help = "Examples:
  loginson summarise access --start 2026-01-31 --end 2026-02-01
  loginson summarise nginx --start 6h --end now
  loginson summarise --list                        intervals that were summarised again

The charts then show the lines that are stored now, for instance without those that were deleted. While it runs it is an
entry of the queue. If it is cancelled there, or this command is interrupted without --background, the charts stay as they were.")]
pub struct SummariseArgs {
    /// Type of the lines
    #[arg(value_name = "TYPE", required_unless_present = "list")]
    log_type: Option<String>,
    /// Start of the interval: a time, or how long ago
    #[arg(long, value_name = "TIME", required_unless_present = "list")]
    start: Option<String>,
    /// End of the interval
    #[arg(long, value_name = "TIME", default_value = "now")]
    end: String,
    /// Do not wait for the end; `loginson queries` shows the progress
    #[arg(long)]
    background: bool,
    /// List the intervals that were summarised again
    #[arg(long, conflicts_with_all = ["log_type", "start", "background"])]
    list: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// Runs the command.
pub fn run(args: SummariseArgs) -> Result<()> {
    let client = Client::new(&args.server)?;
    if args.list {
        let answer = client.get_json("/api/v1/summary/rerun")?;
        for rerun in answer["reruns"].as_array().into_iter().flatten() {
            println!("{}, at {}", describe(rerun), text(rerun, "at"));
        }
        return Ok(());
    }
    let form = [
        ("type", args.log_type.unwrap_or_default()),
        ("start", args.start.unwrap_or_default()),
        ("end", args.end),
        ("background", u8::from(args.background).to_string()),
    ];
    let done: Value = match client.post_form("/api/v1/summary/rerun", &form)? {
        Ok(mut response) => serde_json::from_str(&response.body_mut().read_to_string()?)?,
        Err(refusal) => bail!("{}", escaped(&refusal.message())),
    };
    match args.background {
        true => println!("query {}; see loginson queries", text(&done, "id")),
        false => println!("{}: {} lines", describe(&done), done["lines"]),
    }
    Ok(())
}

fn describe(rerun: &Value) -> String {
    format!("{} from {} to {}", text(rerun, "type"), text(rerun, "start"), text(rerun, "end"))
}

/// A text field of a response, safe for a terminal.
fn text(value: &Value, field: &str) -> String {
    escaped(value[field].as_str().unwrap_or_default())
}
