//! `loginson cluster`: the stores that a server answers for, or the nodes and partitions of a
//! cluster; and filling a store from another copy.

use std::path::PathBuf;

use anyhow::{Context, Result, anyhow};
use clap::{Args, Subcommand};
use serde_json::Value;

use crate::cli::ServerArgs;
use crate::cli::client::{Client, token};
use crate::cli::progress::count_bar;
use crate::cli::region::{self, Follow, Promote};
use crate::cli::terminal::escaped;
use crate::settings::Settings;
use node::cluster::log_replacement::{self, Replaced};
use node::cluster::{Node, repair};

#[derive(Args)]
#[command(after_help = "Examples:
  loginson cluster status                      every store or node: what it has, and what is behind
  loginson cluster status --server http://controller.example:9514
  loginson cluster repair --from http://b1:9514 --to http://a1:9514
                                               copy what a1 lacks from b1, the store at its position in another copy
  loginson cluster follow --config here.toml   copy another region into this one, until it is ended
  loginson cluster promote --config here.toml  have this region go on in the place of the other one
  loginson cluster replace-log --config here.toml
                                               go on with another Kafka, when what the earlier one had is lost

docs/several-stores.md describes how one server answers for several stores, docs/cluster.md a cluster on Kafka,
object storage and PostgreSQL.")]
pub struct ClusterArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Show the stores or nodes; the exit code is 1 if no copy of the lines is whole, a partition
    /// has no owner or is in trouble, or an engine is away
    Status(On),
    /// Fill a store from the one at its position in another copy, with all lines of collectors that
    /// it lacks. Lines may arrive meanwhile; a repair that was interrupted is continued by another
    Repair(Repair),
    /// Copy another region, which cluster.follows names, into the bucket and the database of this
    /// one, again and again, until the process is ended
    Follow(Follow),
    /// Have a region that follows another one go on in its place: then stores can be started here
    Promote(Promote),
    /// Go on with another Kafka, or with a topic that was made anew, when what the earlier one had
    /// and was not published is lost. Stores and query nodes are stopped before
    ReplaceLog(ReplaceLog),
}

#[derive(Args)]
struct ReplaceLog {
    /// Configuration of a store: [cluster] with its bucket, its database and the new Kafka
    #[arg(long, value_name = "FILE.toml", env = "LOGINSON_CONFIG")]
    config: PathBuf,
}

#[derive(Args)]
struct Repair {
    /// HTTP address of the store that has the lines
    #[arg(long, value_name = "URL")]
    from: String,
    /// HTTP address of the store that lacks them
    #[arg(long, value_name = "URL")]
    to: String,
    /// Certificate of the stores or of their CA, if the system does not trust it
    #[arg(long, value_name = "FILE.pem", env = "LOGINSON_CA")]
    ca: Option<PathBuf>,
    /// File with a token with the role admin that both stores take; LOGINSON_TOKEN can hold the
    /// token itself
    #[arg(long, value_name = "FILE", env = "LOGINSON_TOKEN_FILE")]
    token_file: Option<PathBuf>,
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
    let On { json, server } = match args.action {
        Action::Status(on) => on,
        Action::Repair(args) => return repair(&args),
        Action::Follow(args) => return region::follow(&args),
        Action::Promote(args) => return region::promote(&args),
        Action::ReplaceLog(args) => return replace_log(&args),
    };
    let status = Client::new(&server)?.get_json("/api/v1/cluster")?;
    match json {
        true => println!("{}", escaped(&status.to_string())),
        false if status["nodes"].is_array() => print!("{}", nodes_and_partitions(&status)),
        false => print!("{}", stores(&status)),
    }
    let unowned = status["partitions_unowned"].as_u64().unwrap_or(0);
    anyhow::ensure!(
        unowned == 0,
        "partitions without an owner: {unowned}; their newest lines are missing in answers"
    );
    let troubled = status["partitions_troubled"].as_u64().unwrap_or(0);
    anyhow::ensure!(troubled == 0, "partitions in trouble: {troubled}; see above");
    let errors = list(&status["errors"]);
    anyhow::ensure!(errors.is_empty(), "not everything is known of the cluster; see above");
    anyhow::ensure!(status["copies_whole"] != 0, "no copy of the lines is whole");
    Ok(())
}

/// Has the cluster go on with another log.
fn replace_log(args: &ReplaceLog) -> Result<()> {
    let config = Settings::new(Some(args.config.clone()), |_| {}).load()?.config;
    let engines = config.node.engines.with_context(|| {
        format!("{} has no [cluster] that names a bucket and a database", args.config.display())
    })?;
    let Replaced { partitions, messages } = log_replacement::replace_log(&engines)?;
    println!(
        "the cluster goes on with this Kafka: {partitions} partitions, {messages} messages that are read when stores start"
    );
    println!(
        "what the earlier one had and was not published is not here; spools of collectors have what it did not take"
    );
    Ok(())
}

/// Copies what one store lacks from another.
fn repair(args: &Repair) -> Result<()> {
    let token = token(args.token_file.as_deref())?;
    let store = |address: &str| {
        let address = address.trim_end_matches('/');
        let url = match address.contains("://") {
            true => address.to_owned(),
            false => format!("http://{address}"),
        };
        Node::new(&url, token.as_deref(), args.ca.as_deref())
    };
    let (from, to) = (store(&args.from)?, store(&args.to)?);
    let said = |node: &Node| node.frames().map_err(|error| anyhow!("{}", escaped(&error.message)));
    let (source, target) = (said(&from)?, said(&to)?);
    anyhow::ensure!(
        source.node != target.node,
        "{} and {} are the same store, or were made from the same backup ({:08x})",
        from.name,
        to.name,
        source.node
    );
    anyhow::ensure!(
        !source.collectors.is_empty(),
        "store {} has no lines of collectors; only those can be copied",
        from.name
    );
    for node in [&from, &to] {
        let deletions = node.call("GET", "/api/v1/deletions", &[]);
        let deletions = deletions.map_err(|error| anyhow!("{}", escaped(&error.message)))?;
        let running = list(&deletions["deletions"]).iter().any(|one| one["state"] == "running");
        anyhow::ensure!(
            !running,
            "store {} is deleting lines; try again when that is done, so that none is copied before",
            node.name
        );
    }
    let plan = repair::plan(&source, &target);
    let frames = plan.values().map(record::Numbers::count).sum();
    let bar = count_bar("copying frames", frames);
    let copied = repair::fill(&from, &to, &plan, |copied| bar.set_position(copied.frames));
    bar.finish_and_clear();
    let copied = copied.map_err(|error| {
        anyhow!("{}; the same command continues where this one ended", escaped(&error.message))
    })?;
    println!(
        "{} frames with {} lines copied from {} to {}",
        frames, copied.lines, from.name, to.name
    );
    let left = repair::plan(&source, &said(&to)?);
    anyhow::ensure!(
        left.is_empty(),
        "store {} still lacks frames; run the same command again",
        to.name
    );
    println!("{} has all frames of collectors that {} had when this began", to.name, from.name);
    Ok(())
}

fn list(value: &Value) -> Vec<Value> {
    value.as_array().cloned().unwrap_or_default()
}

/// A value as a cell of a table.
fn cell(value: &Value) -> String {
    match value {
        Value::String(text) => escaped(text),
        Value::Null => "-".to_owned(),
        Value::Array(values) => values.iter().map(cell).collect::<Vec<_>>().join(","),
        value => value.to_string(),
    }
}

/// The nodes, how each finds the engines, and the partitions with what waits in them.
fn nodes_and_partitions(status: &Value) -> String {
    let mut nodes = vec![
        ["NODE", "NAME", "ADDRESS", "ROLES", "STATE", "VERSION", "PARTITIONS"].map(str::to_owned),
    ];
    let mut engines = vec![["NAME", "KAFKA", "OBJECTS", "POSTGRESQL"].map(str::to_owned)];
    let mut wrong: Vec<String> = Vec::new();
    for node in list(&status["nodes"]) {
        let keys = ["node", "name", "address", "roles", "state", "version", "partitions"];
        nodes.push(keys.map(|key| cell(&node[key])));
        let state = |engine: &str| engine_state(&node["engines"][engine]);
        let name = cell(&node["name"]);
        engines.push([name.clone(), state("kafka"), state("objects"), state("postgresql")]);
        for engine in ["kafka", "objects", "postgresql"] {
            let calls = &node["engines"][engine];
            if let (Some(_), Some(error)) =
                (calls["failing_s"].as_f64(), calls["last_error"].as_str())
            {
                wrong.push(format!("{name}: {engine}: {error}"));
            }
        }
        if let Some(refusal) = node["refusal"].as_str() {
            wrong.push(format!("{name} takes no part: {refusal}"));
        }
        wrong.extend(node["error"].as_str().map(str::to_owned));
    }
    let titles = [
        "PARTITION",
        "OWNER",
        "EPOCH",
        "END",
        "READ",
        "PUBLISHED",
        "LAG",
        "LAG S",
        "UNPUBLISHED",
        "LOST",
        "STATE",
    ];
    let mut partitions = vec![titles.map(str::to_owned)];
    for partition in list(&status["partitions"]) {
        let keys = ["partition", "owner", "epoch", "end", "read", "published", "lag_messages"];
        let [number, mut owner, epoch, end, read, published, lag] =
            keys.map(|key| cell(&partition[key]));
        if let Some(name) = partition["owner_name"].as_str() {
            owner = escaped(name);
        }
        let lag_s =
            partition["lag_s"].as_f64().map_or_else(|| "-".to_owned(), |s| format!("{s:.0}"));
        let (unpublished, lost) = (cell(&partition["unpublished"]), cell(&partition["lost"]));
        let state = match partition["trouble"].as_str() {
            Some(trouble) => {
                wrong.push(trouble.to_owned());
                "trouble"
            }
            None => "ok",
        };
        let state = state.to_owned();
        partitions.push([
            number,
            owner,
            epoch,
            end,
            read,
            published,
            lag,
            lag_s,
            unpublished,
            lost,
            state,
        ]);
    }
    let mib = |value: &Value| value.as_u64().unwrap_or(0) >> 20;
    let follows = &status["follows"];
    if let Some(lag_s) = follows["lag_s"].as_f64() {
        let missing = match follows["missing"].as_u64().unwrap_or(0) {
            0 => String::new(),
            count => format!("{count} segments are missing in both regions\n"),
        };
        // Nobody owns a partition here, so that is no trouble.
        return format!(
            "{}\n{}\nfollows the cluster {}, and is {lag_s:.0} s behind\n{} segments, {} MiB in object storage\n",
            aligned(&nodes),
            aligned(&engines),
            cell(&follows["cluster"]),
            cell(&status["segments"]),
            mib(&status["segments_bytes"])
        ) + &missing
            + &wrong.iter().map(|text| escaped(text) + "\n").collect::<String>();
    }
    let mut out = format!("{}\n{}\n{}", aligned(&nodes), aligned(&engines), aligned(&partitions));
    out.push_str(&format!(
        "\n{} segments, {} MiB in object storage\n",
        cell(&status["segments"]),
        mib(&status["segments_bytes"])
    ));
    wrong.extend(list(&status["errors"]).iter().filter_map(Value::as_str).map(str::to_owned));
    for text in wrong {
        out.push_str(&format!("{}\n", escaped(&text)));
    }
    out
}

/// How a node finds an engine: `ok 3 ms`, or `failing 12 s`.
fn engine_state(calls: &Value) -> String {
    match (calls["failing_s"].as_f64(), calls["mean_ms"].as_f64()) {
        (Some(failing_s), _) => format!("failing {failing_s:.0} s"),
        (None, Some(mean_ms)) => format!("ok {mean_ms:.0} ms"),
        (None, None) => "-".to_owned(),
    }
}

/// Rows with columns of equal width.
fn aligned<const N: usize>(rows: &[[String; N]]) -> String {
    let mut widths = [0; N];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut out = String::new();
    for row in rows {
        let mut line = String::new();
        for (width, cell) in widths.iter().zip(row) {
            line.push_str(&format!("{cell:<width$}  "));
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// The stores, a line each.
fn stores(status: &Value) -> String {
    let mut rows = vec![
        ["COPY", "STORE", "STATE", "VERSION", "LINES", "DISK MIB", "UNPARSED", "UNSEALED S"]
            .map(str::to_owned),
    ];
    let mut errors = Vec::new();
    for (number, copy) in list(&status["copies"]).iter().enumerate() {
        for store in list(&copy["stores"]) {
            let text = |name: &str| cell(&store[name]);
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
            errors.extend(list(&store["lacks"]).iter().filter_map(Value::as_str).map(escaped));
        }
    }
    let mut out = aligned(&rows);
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
            { "store": "a:1", "state": "incomplete", "version": "1.0", "lines": 7, "bytes_disk": 2 << 20,
              "parse_lag_lines": 0, "sealing_lag_s": 3, "lacks": ["store a:1 lacks 3 frames"] },
            { "store": "b:1", "state": "away", "error": "store b:1 is away\u{1b}[2J" },
        ]}], "copies_whole": 0 });
        let expected = "\
COPY  STORE  STATE       VERSION  LINES  DISK MIB  UNPARSED  UNSEALED S
1     a:1    incomplete  1.0      7      2         0         3
1     b:1    away        -        -      -         -         -
store a:1 lacks 3 frames
store b:1 is away\\x1b[2J
";
        assert_eq!(stores(&status), expected);
    }

    #[test]
    fn nodes_partitions_and_what_is_wrong() {
        let status = serde_json::json!({
            "nodes": [
                { "node": "0000000a", "name": "box\u{1b}", "address": "http://a:1",
                  "roles": ["store", "query"], "state": "ok", "version": "1.0", "partitions": 1,
                  "engines": {
                      "kafka": { "mean_ms": 2.6, "failing_s": null, "last_error": "long ago" },
                      "objects": { "mean_ms": 9.0, "failing_s": 12.4, "last_error": "away" },
                      "postgresql": { "mean_ms": 0.2, "failing_s": null, "last_error": null },
                  }, "refusal": "disk full", "error": null },
                { "node": "0000000b", "name": "b", "address": "http://b:1", "roles": ["query"],
                  "state": "ok", "version": "1.0", "partitions": 0, "engines": null,
                  "error": "store b:1 is away" },
            ],
            "partitions": [
                { "partition": 0, "owner": "0000000a", "epoch": 3, "published": 5, "end": 9,
                  "read": 7, "lag_messages": 2, "lag_s": 3.7, "unpublished": 4, "lost": 1,
                  "trouble": "partition 0: reading: away" },
                { "partition": 1, "owner": null, "epoch": null, "published": 0, "end": 2,
                  "read": null, "lag_messages": null, "lag_s": null, "unpublished": 2, "lost": 0,
                  "trouble": null },
            ],
            "errors": ["the log is away"],
            "segments": 7, "segments_bytes": 3 << 20,
        });
        let expected = "\
NODE      NAME     ADDRESS     ROLES        STATE  VERSION  PARTITIONS
0000000a  box\\x1b  http://a:1  store,query  ok     1.0      1
0000000b  b        http://b:1  query        ok     1.0      0

NAME     KAFKA    OBJECTS       POSTGRESQL
box\\x1b  ok 3 ms  failing 12 s  ok 0 ms
b        -        -             -

PARTITION  OWNER     EPOCH  END  READ  PUBLISHED  LAG  LAG S  UNPUBLISHED  LOST  STATE
0          0000000a  3      9    7     5          2    4      4            1     trouble
1          -         -      2    -     0          -    -      2            0     ok

7 segments, 3 MiB in object storage
box\\x1b: objects: away
box\\x1b takes no part: disk full
store b:1 is away
partition 0: reading: away
the log is away
";
        assert_eq!(nodes_and_partitions(&status), expected);
    }
}
