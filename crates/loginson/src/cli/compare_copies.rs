//! `loginson compare-copies`: what the copies of all lines differ in.
//!
//! Lines are counted by hour at each store. For hours in which the copies have different numbers of
//! lines, or for all hours, the ids of lines are fetched and counted by frame. Frames are compared,
//! because a frame goes to a copy as a whole: memory grows with the frames of one hour.
//!
//! Left out: repairing (`loginson cluster repair`), and comparing the text of lines, which frames
//! keep under a checksum.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;
use record::LineId;
use serde_json::Value;

use crate::cli::ServerArgs;
use crate::cli::client::{Client, explain_query_refusal};
use crate::cli::terminal::escaped;

#[derive(Args)]
#[command(after_help = "Examples:
  loginson compare-copies --copy http://a1:9514,http://a2:9514 --copy http://b1:9514,http://b2:9514
  loginson compare-copies --copy a1:9514 --copy b1:9514 --start 1d --end 5m     without lines that are on their way
  loginson compare-copies --copy a1:9514 --copy b1:9514 --ids                   also where the counts are equal

The exit code is 0 if the copies are equal, else 1. Lines that a store received itself, not from a collector, have
one copy. docs/several-stores.md describes how collectors fill copies.")]
pub struct CompareCopiesArgs {
    /// HTTP addresses of the stores of one copy; give it for each copy
    #[arg(long = "copy", value_name = "URL,…", required = true)]
    copies: Vec<String>,
    /// Lines to compare: a filter in LogsQL, without pipes
    #[arg(long, value_name = "LOGSQL", allow_hyphen_values = true, value_parser = crate::cli::query_text, default_value = "*")]
    query: String,
    /// Earliest time: 2026-01-31T12:00Z, a Unix time, or a while ago such as 15m
    #[arg(long, value_name = "TIME")]
    start: Option<String>,
    /// Time before which lines are compared, written like --start
    #[arg(long, value_name = "TIME")]
    end: Option<String>,
    /// Compare the ids of all lines, also in hours with equal counts
    #[arg(long)]
    ids: bool,
    /// Certificate of the stores or of their CA, if the system does not trust it
    #[arg(long, value_name = "FILE.pem", env = "LOGINSON_CA")]
    ca: Option<PathBuf>,
    /// File with a token that all stores take; LOGINSON_TOKEN can hold the token itself
    #[arg(long, value_name = "FILE", env = "LOGINSON_TOKEN_FILE")]
    token_file: Option<PathBuf>,
}

/// Lines of each copy, by hour.
type Hours = BTreeMap<String, Vec<u64>>;
/// Lines of each copy, by node and number of their frame.
type Frames = BTreeMap<(u32, u64), Vec<u64>>;

/// Runs the command.
pub fn run(args: CompareCopiesArgs) -> Result<()> {
    ensure!(args.copies.len() > 1, "give --copy for each of at least two copies");
    let mut copies = Vec::new();
    for copy in &args.copies {
        let stores = copy.split(',').map(|store| {
            let server = store.trim().to_owned();
            let (ca, token_file) = (args.ca.clone(), args.token_file.clone());
            let client =
                Client::new(&ServerArgs { server: server.clone(), ca, token_file, user: None })?;
            Ok((server, client))
        });
        copies.push(stores.collect::<Result<Vec<_>>>()?);
    }
    let mut times: Vec<(&str, &str)> = Vec::new();
    times.extend(args.start.as_deref().map(|start| ("start", start)));
    times.extend(args.end.as_deref().map(|end| ("end", end)));

    let mut hours = Hours::new();
    for (copy, stores) in copies.iter().enumerate() {
        for (name, client) in stores {
            count_hours(client, &args.query, &times, |hour, lines| {
                hours.entry(hour).or_insert_with(|| vec![0; copies.len()])[copy] += lines;
            })
            .with_context(|| format!("copy {}, store {}", copy + 1, escaped(name)))?;
        }
    }
    let (mut different, total) = (0, hours.values().map(|lines| lines[0]).sum::<u64>());
    for (hour, lines) in &hours {
        if !args.ids && all_equal(lines) {
            continue;
        }
        let mut frames = Frames::new();
        for (copy, stores) in copies.iter().enumerate() {
            for (name, client) in stores {
                count_frames(client, &args.query, hour, &times, |id| {
                    let frame = (id.node, id.sequence);
                    frames.entry(frame).or_insert_with(|| vec![0; copies.len()])[copy] += 1;
                })
                .with_context(|| format!("copy {}, store {}", copy + 1, escaped(name)))?;
            }
        }
        let ranges = differences(&frames);
        if !all_equal(lines) || !ranges.is_empty() {
            different += 1;
            println!("{hour}: {}", by_copy(lines));
            ranges.iter().for_each(|range| println!("  {range}"));
        }
    }
    if different > 0 {
        bail!("the copies differ in {different} of {} hours", hours.len());
    }
    println!("the copies are equal: {total} lines in {} hours", hours.len());
    Ok(())
}

/// Counts the lines of a store by hour.
fn count_hours(
    client: &Client,
    filter: &str,
    times: &[(&str, &str)],
    mut found: impl FnMut(String, u64),
) -> Result<()> {
    let query = format!("({filter}) | stats by (_time:1h) count() lines");
    each_row(client, &query, times, |row| {
        found(text(row, "_time")?.to_owned(), text(row, "lines")?.parse()?);
        Ok(())
    })
}

/// Gives the id of each line that a store has of an hour.
fn count_frames(
    client: &Client,
    filter: &str,
    hour: &str,
    times: &[(&str, &str)],
    mut found: impl FnMut(LineId),
) -> Result<()> {
    // `_time:2026-01-31T12Z` means the whole hour.
    let hour = hour.get(..13).ok_or_else(|| anyhow!("'{}' is not an hour", escaped(hour)))?;
    let query = format!("({filter}) _time:{hour}Z | fields _line_id");
    each_row(client, &query, times, |row| {
        found(text(row, "_line_id")?.parse()?);
        Ok(())
    })
}

/// Runs a query as an export, which has no limit on time or rows.
fn each_row(
    client: &Client,
    query: &str,
    times: &[(&str, &str)],
    mut take: impl FnMut(&Value) -> Result<()>,
) -> Result<()> {
    let mut params = vec![("query", query), ("format", "jsonl")];
    params.extend(times);
    let answer = client.get("/api/v1/export", &params)?;
    let answer = answer.map_err(|refusal| explain_query_refusal(&refusal))?;
    for row in BufReader::new(answer.into_body().into_reader()).lines() {
        let row: Value = serde_json::from_str(&row?)?;
        if let Some(message) = row["_error"]["message"].as_str() {
            bail!("{}", escaped(message));
        }
        take(&row)?;
    }
    Ok(())
}

fn text<'a>(row: &'a Value, field: &str) -> Result<&'a str> {
    row[field].as_str().ok_or_else(|| anyhow!("a row of the answer has no field {field}"))
}

fn all_equal(lines: &[u64]) -> bool {
    lines.iter().all(|count| *count == lines[0])
}

/// `3 lines in copy 1, 0 in copy 2`.
fn by_copy(lines: &[u64]) -> String {
    let mut text = String::new();
    for (copy, count) in lines.iter().enumerate() {
        let separator = if copy == 0 { " lines" } else { "" };
        let comma = if copy == 0 { "" } else { ", " };
        text.push_str(&format!("{comma}{count}{separator} in copy {}", copy + 1));
    }
    text
}

/// The frames of which the copies have different numbers of lines, as ranges: neighbours that the
/// same copies miss, wholly or in part, are put together.
fn differences(frames: &Frames) -> Vec<String> {
    struct Range {
        node: u32,
        first: u64,
        last: u64,
        behind: BTreeSet<usize>,
        lines: Vec<u64>,
    }
    let mut ranges: Vec<Range> = Vec::new();
    let mut unequal_before = false;
    for (&(node, number), lines) in frames {
        let most = lines.iter().max().copied().unwrap_or(0);
        let behind: BTreeSet<usize> = (0..lines.len()).filter(|&copy| lines[copy] < most).collect();
        let unequal = !behind.is_empty();
        match ranges.last_mut() {
            _ if !unequal => {}
            Some(range) if unequal_before && range.node == node && range.behind == behind => {
                range.last = number;
                range.lines.iter_mut().zip(lines).for_each(|(sum, count)| *sum += count);
            }
            _ => {
                let lines = lines.clone();
                ranges.push(Range { node, first: number, last: number, behind, lines });
            }
        }
        unequal_before = unequal;
    }
    let describe = |range: &Range| {
        let Range { node, first, last, lines, .. } = range;
        let numbers = match first == last {
            true => format!("frame {first}"),
            false => format!("frames {first} to {last}"),
        };
        format!("node {node:08x}, {numbers}: {}", by_copy(lines))
    };
    ranges.iter().map(describe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_that_the_same_copy_misses_are_one_range() {
        let frames: Frames = [
            ((7, 1), vec![3, 3]),
            ((7, 2), vec![3, 0]),
            ((7, 3), vec![2, 1]),
            ((7, 4), vec![1, 1]),
            ((7, 5), vec![4, 0]),
            ((7, 6), vec![0, 5]),
            ((8, 7), vec![0, 1]),
        ]
        .into();
        assert_eq!(
            differences(&frames),
            [
                "node 00000007, frames 2 to 3: 5 lines in copy 1, 1 in copy 2",
                "node 00000007, frame 5: 4 lines in copy 1, 0 in copy 2",
                "node 00000007, frame 6: 0 lines in copy 1, 5 in copy 2",
                "node 00000008, frame 7: 0 lines in copy 1, 1 in copy 2",
            ]
        );
    }
}
