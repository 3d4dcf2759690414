//! `loginson delete`: deletes lines by a filter, on a running server.

use std::time::Duration;

use anyhow::{Result, bail};
use clap::Args;
use serde_json::Value;

use crate::cli::ServerArgs;
use crate::cli::client::{Client, explain_query_refusal};
use crate::cli::terminal::escaped;

/// Time between two polls while waiting for a deletion.
const LOOK_INTERVAL: Duration = Duration::from_millis(500);

#[derive(Args)]
#[command(after_help = "Examples:
  loginson delete 'user:=4711'                     count the lines, delete nothing
  loginson delete --yes 'user:=4711'               delete them, and wait until it is done
  loginson delete --yes --no-wait 'hostname:test1 _time:<2026-01-01Z'
  loginson delete --list                           running and recent deletions
  loginson delete --cancel 3

Lines that arrive later are not deleted. A deletion resumes after a restart of the server. Counts in the summary stay.")]
pub struct DeleteArgs {
    /// Lines to delete, in LogsQL without pipes
    #[arg(
        value_name = "FILTER",
        allow_hyphen_values = true,
        value_parser = crate::cli::query_text,
        required_unless_present_any = ["list", "cancel"]
    )]
    filter: Option<String>,
    /// Delete them; without this flag, only count them
    #[arg(long)]
    yes: bool,
    /// Do not wait until the deletion is done
    #[arg(long)]
    no_wait: bool,
    /// List the deletions
    #[arg(long, conflicts_with = "filter")]
    list: bool,
    /// Cancel a running deletion; lines that it has deleted are gone
    #[arg(long, value_name = "ID", conflicts_with = "filter")]
    cancel: Option<u64>,
    #[command(flatten)]
    server: ServerArgs,
}

/// Runs the command.
pub fn run(args: DeleteArgs) -> Result<()> {
    let client = Client::new(&args.server)?;
    if let Some(id) = args.cancel {
        let answer = client.delete_json(&format!("/api/v1/deletions/{id}"))?;
        println!("deletion {id}: {}", text(&answer, "state"));
    } else if args.list {
        let answer = client.get_json("/api/v1/deletions")?;
        for line in described(&answer) {
            println!("{line}");
        }
    } else if let Some(filter) = args.filter {
        match args.yes {
            true => delete(&client, filter, args.no_wait)?,
            false => count(&client, filter)?,
        }
    }
    Ok(())
}

fn count(client: &Client, filter: String) -> Result<()> {
    let form = [("query", format!("{filter} | stats count() lines"))];
    let response = match client.post_form("/select/logsql/query", &form)? {
        Ok(mut response) => response.body_mut().read_to_string()?,
        Err(refusal) => return Err(explain_query_refusal(&refusal)),
    };
    let row: Value = serde_json::from_str(response.lines().next().unwrap_or("{}"))?;
    let lines = row["lines"].as_str().unwrap_or("0").to_owned();
    println!("{lines} lines match; to delete them, add --yes");
    Ok(())
}

fn delete(client: &Client, filter: String, no_wait: bool) -> Result<()> {
    let form = [("filter", filter)];
    let mut deletion: Value = match client.post_form("/api/v1/deletions", &form)? {
        Ok(mut response) => serde_json::from_str(&response.body_mut().read_to_string()?)?,
        Err(refusal) => bail!("{}", escaped(&refusal.message())),
    };
    if deletion["stores"].is_array() {
        // Each store deletes by itself.
        for line in described(&deletion) {
            println!("{line}");
        }
        return Ok(());
    }
    let id = text(&deletion, "id");
    while !no_wait && deletion["state"] == "running" {
        std::thread::sleep(LOOK_INTERVAL);
        deletion = client.get_json(&format!("/api/v1/deletions/{id}"))?;
    }
    println!("{}", describe(&deletion));
    if deletion["state"] == "failed" {
        bail!("the deletion ended early: {}", text(&deletion, "note"));
    }
    Ok(())
}

/// The deletions of an answer, a line each. Those of several stores begin with the store.
fn described(answer: &Value) -> Vec<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let Some(stores) = answer["stores"].as_array() else {
        return match answer["deletions"].is_array() {
            true => list(&answer["deletions"]).iter().map(describe).collect(),
            false => vec![describe(answer)],
        };
    };
    let of_store = |store: &Value| {
        let lines = match store["error"].is_string() {
            true => vec![text(store, "error")],
            false => described(&store["answer"]),
        };
        let name = text(store, "store");
        lines.into_iter().map(move |line| format!("{name}: {line}")).collect::<Vec<_>>()
    };
    stores.iter().flat_map(of_store).collect()
}

/// A deletion as one line.
fn describe(deletion: &Value) -> String {
    let mut line = format!(
        "deletion {}: {}, {} lines deleted",
        text(deletion, "id"),
        text(deletion, "state"),
        deletion["lines_deleted"]
    );
    if deletion["state"] == "running" {
        line += &format!(", {} segments left", deletion["segments_left"]);
    }
    if deletion["note"].is_string() {
        line += &format!(" ({})", text(deletion, "note"));
    }
    line + &format!(": {}", text(deletion, "filter"))
}

/// A text field of a response, safe for a terminal.
fn text(value: &Value, field: &str) -> String {
    escaped(value[field].as_str().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn deletions_of_stores_begin_with_the_store() {
        let one =
            serde_json::json!({ "id": "3", "filter": "a", "state": "done", "lines_deleted": 5 });
        let stores = serde_json::json!({ "stores": [
            { "store": "s:1", "answer": one },
            { "store": "s:2", "answer": { "deletions": [one] } },
            { "store": "s:3", "error": "away" },
        ]});
        let line = "deletion 3: done, 5 lines deleted: a";
        let expected = [format!("s:1: {line}"), format!("s:2: {line}"), "s:3: away".to_owned()];
        assert_eq!(described(&stores), expected);
        assert_eq!(described(&one), [line]);
    }

    #[test]
    fn a_deletion_is_one_line() {
        let mut deletion = json!({
            "id": "3", "filter": "a", "state": "running", "lines_deleted": 5, "segments_left": 2
        });
        assert_eq!(describe(&deletion), "deletion 3: running, 5 lines deleted, 2 segments left: a");
        deletion["state"] = "done".into();
        deletion["note"] = "n".into();
        assert_eq!(describe(&deletion), "deletion 3: done, 5 lines deleted (n): a");
    }
}
