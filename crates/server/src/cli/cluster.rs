//! `loginson cluster`: the stores that a server answers for.

use anyhow::Result;
use clap::{Args, Subcommand};
use serde_json::Value;

use crate::cli::ServerArgs;
use crate::cli::client::Client;
use crate::cli::terminal::escaped;

#[derive(Args)]
#[command(after_help = "Examples:
  loginson cluster status                      every store: lines, bytes, what is behind
  loginson cluster status --server http://controller.example:9514

docs/several-stores.md describes how one server answers for several stores.")]
pub struct ClusterArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Show the stores; the exit code is 1 if no copy of the lines is whole
    Status(On),
}

#[derive(Args)]
struct On {
    /// Print the answer of the server as it is
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// Runs the command.
pub fn run(args: ClusterArgs) -> Result<()> {
    let Action::Status(On { json, server }) = args.action;
    let status = Client::new(&server)?.get_json("/api/v1/cluster")?;
    match json {
        true => println!("{}", escaped(&status.to_string())),
        false => print!("{}", table(&status)),
    }
    anyhow::ensure!(status["copies_whole"] != 0, "no copy of the lines is whole");
    Ok(())
}

/// The stores, a line each, with columns of equal width.
fn table(status: &Value) -> String {
    let mut rows = vec![
        ["COPY", "STORE", "STATE", "VERSION", "LINES", "DISK MIB", "UNPARSED", "UNSEALED S"]
            .map(str::to_owned),
    ];
    let mut errors = Vec::new();
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    for (number, copy) in list(&status["copies"]).iter().enumerate() {
        for store in list(&copy["stores"]) {
            let text = |name: &str| match &store[name] {
                Value::String(text) => escaped(text),
                Value::Null => "-".to_owned(),
                value => value.to_string(),
            };
            let mib = store["bytes_disk"].as_u64().map(|bytes| (bytes >> 20).to_string());
            rows.push([
                (number + 1).to_string(),
                text("store"),
                text("state"),
                text("version"),
                text("lines"),
                mib.unwrap_or_else(|| "-".to_owned()),
                text("parse_lag_lines"),
                text("sealing_lag_s"),
            ]);
            errors.extend(store["error"].as_str().map(escaped));
        }
    }
    let mut widths = [0; 8];
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut out = String::new();
    for row in &rows {
        let mut line = String::new();
        for (width, cell) in widths.iter().zip(row) {
            line.push_str(&format!("{cell:<width$}  "));
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    for error in errors {
        out.push_str(&format!("{error}\n"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_each_store_and_each_error() {
        let status = serde_json::json!({ "copies": [{ "stores": [
            { "store": "a:1", "state": "ok", "version": "1.0", "lines": 7, "bytes_disk": 2 << 20,
              "parse_lag_lines": 0, "sealing_lag_s": 3 },
            { "store": "b:1", "state": "away", "error": "store b:1 is away\u{1b}[2J" },
        ]}], "copies_whole": 0 });
        let expected = "\
COPY  STORE  STATE  VERSION  LINES  DISK MIB  UNPARSED  UNSEALED S
1     a:1    ok     1.0      7      2         0         3
1     b:1    away   -        -      -         -         -
store b:1 is away\\x1b[2J
";
        assert_eq!(table(&status), expected);
    }
}
