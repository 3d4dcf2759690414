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

Lines that are received later are not deleted; those that a collector received before, and that come later, are.
A deletion resumes after a restart of the server. It does not reach backups and exports. Counts in the summary stay.")]
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
    /// Cancel a running deletion; lines that it has deleted are gone. In a cluster, also take one
    /// that is done out of force, so that lines that come late stay
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
        return delete_at_stores(client, &deletion, no_wait);
    }
    let places = not_reached(&deletion);
    let id = text(&deletion, "id");
    while !no_wait && deletion["state"] == "running" {
        std::thread::sleep(LOOK_INTERVAL);
        deletion = client.get_json(&format!("/api/v1/deletions/{id}"))?;
    }
    println!("{}", describe(&deletion));
    for place in &places {
        eprintln!("not deleted: {place}");
    }
    if deletion["state"] == "failed" {
        bail!("the deletion ended early: {}", text(&deletion, "note"));
    }
    Ok(())
}

/// Waits for the deletions that began at several stores.
fn delete_at_stores(client: &Client, begun: &Value, no_wait: bool) -> Result<()> {
    let mut now = begun.clone();
    while !no_wait && now["stores"].as_array().into_iter().flatten().any(is_running) {
        std::thread::sleep(LOOK_INTERVAL);
        now = as_begun(begun, &client.get_json("/api/v1/deletions")?);
    }
    for line in described(&now) {
        println!("{line}");
    }
    let places: Vec<&Value> = std::iter::once(begun)
        .chain(begun["stores"].as_array().into_iter().flatten().map(|store| &store["answer"]))
        .collect();
    let mut places: Vec<String> = places.into_iter().flat_map(not_reached).collect();
    places.sort();
    places.dedup();
    for place in &places {
        eprintln!("not deleted: {place}");
    }
    let failed =
        |store: &&Value| store["error"].is_string() || store["answer"]["state"] == "failed";
    let stores = now["stores"].as_array().into_iter().flatten();
    let failed: Vec<String> = stores.filter(failed).map(|store| text(store, "store")).collect();
    if !failed.is_empty() {
        bail!(
            "the deletion is not done at {}; `loginson delete --list` says more",
            failed.join(", ")
        );
    }
    Ok(())
}

/// Whether a store is still deleting; one that is away at present may be.
fn is_running(store: &Value) -> bool {
    store["answer"]["state"] == "running"
}

/// The stores of `begun`, each with its deletion as it is in `listed`. A store that does not answer
/// now, or does not list its deletion, stays as it was.
fn as_begun(begun: &Value, listed: &Value) -> Value {
    let stores = |value: &Value| value["stores"].as_array().cloned().unwrap_or_default();
    let listed = stores(listed);
    let now = stores(begun).into_iter().map(|mut store| {
        let of_store = listed.iter().find(|other| other["store"] == store["store"]);
        let deletions = of_store.and_then(|other| other["answer"]["deletions"].as_array());
        let id = &store["answer"]["id"];
        let found = deletions.into_iter().flatten().find(|deletion| deletion["id"] == *id).cloned();
        if let Some(found) = found.filter(|_| id.is_string()) {
            store["answer"] = found;
        }
        store
    });
    serde_json::json!({ "stores": now.collect::<Vec<Value>>() })
}

/// Where the lines stay.
fn not_reached(answer: &Value) -> Vec<String> {
    let places = answer["not_reached"].as_array().into_iter().flatten();
    places.filter_map(Value::as_str).map(escaped).collect()
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
    match text(deletion, "filter") {
        filter if filter.is_empty() => line,
        filter => line + &format!(": {filter}"),
    }
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
    fn a_deletion_at_stores_goes_on_until_each_store_has_ended_its_own() {
        let of = |store: &str, id: &str, state: &str| json!({ "store": store, "answer": { "id": id, "state": state } });
        let begun = json!({ "stores": [of("s:1", "3", "running"), of("s:2", "8", "running")] });
        let list = |store: &str, id: &str, state: &str| json!({ "store": store, "answer": { "deletions": [{ "id": "1", "state": "done" }, { "id": id, "state": state }] } });
        let away = json!({ "store": "s:1", "error": "away" });
        for (listed, running) in [
            (vec![list("s:1", "3", "running"), list("s:2", "8", "done")], vec![true, false]),
            (vec![away, list("s:2", "8", "done")], vec![true, false]),
            (vec![list("s:1", "3", "done"), list("s:2", "8", "done")], vec![false, false]),
        ] {
            let now = as_begun(&begun, &json!({ "stores": listed }));
            let stores = now["stores"].as_array().unwrap();
            assert_eq!(stores.iter().map(is_running).collect::<Vec<_>>(), running, "{now}");
        }
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
