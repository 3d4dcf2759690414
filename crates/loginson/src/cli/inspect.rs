//! `loginson inspect`: shows what is in a segment file.

use std::io::{self, Write};
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::Args;
use record::{Parser, ParserConfig};
use text::size::show_bytes;

use crate::cli::encryption::KeyArgs;
use crate::cli::progress::bytes_bar;
use crate::cli::terminal::escaped;
use node::storage::inspect::{FieldValues, Inspection, inspect};

#[derive(Args)]
#[command(after_help = "Examples:
  loginson inspect loginson-data/segments/17.sealed
  loginson inspect --blocks loginson-data/segments/17.sealed
  loginson inspect --json loginson-data/segments/1.hot | jq .columns

Sealed segments show how each column is encoded and compressed, hot ones the fields in their lines. The file may be in
use by a server.")]
pub struct InspectArgs {
    /// The segment file
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// List its blocks or frames as well
    #[arg(long)]
    blocks: bool,
    /// Print everything as one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    key: KeyArgs,
}

/// Runs the command.
pub fn run(args: InspectArgs) -> Result<()> {
    let mut parser = Parser::new(&ParserConfig::default()).context("the built-in types")?;
    // Whoever names a link means the file behind it.
    let file = std::fs::canonicalize(&args.file).unwrap_or_else(|_| args.file.clone());
    let disk = args.key.disk_of_file(&file)?;
    let bar = bytes_bar("reading", disk.file_bytes(&file).unwrap_or(0));
    let found = inspect(&*disk, &file, &mut parser, &|bytes| bar.inc(bytes));
    bar.finish_and_clear();
    let found = Inspection { file: args.file.display().to_string(), ..found? };
    let mut out = io::BufWriter::new(io::stdout().lock());
    let written = match args.json {
        true => serde_json::to_writer_pretty(&mut out, &found)
            .map_err(io::Error::from)
            .and_then(|()| writeln!(out)),
        false => write_text(&mut out, &found, args.blocks),
    };
    match written.and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        result => Ok(result?),
    }
}

fn write_text(out: &mut dyn Write, found: &Inspection, blocks: bool) -> io::Result<()> {
    let Inspection { kind, segment, node, lines, bytes_raw, bytes_disk, .. } = found;
    writeln!(out, "{}", escaped(&found.file))?;
    writeln!(
        out,
        "{kind} segment {segment} of node {node}, made {}: {}",
        found.created, found.form
    )?;
    if !found.replaces.is_empty() {
        let replaces: Vec<String> = found.replaces.iter().map(u64::to_string).collect();
        writeln!(out, "replaces            {}", replaces.join(", "))?;
    }
    writeln!(out, "lines               {}", lines - found.lines_own)?;
    if found.lines_own > 0 {
        writeln!(out, "of the summary      {} more", found.lines_own)?;
    }
    writeln!(out, "raw, with newlines  {}", show_bytes(*bytes_raw))?;
    writeln!(
        out,
        "file                {}{}",
        show_bytes(*bytes_disk),
        ratio(*bytes_raw, *bytes_disk, ", 1 : ")
    )?;
    let unit = if *kind == "hot" { "frames" } else { "blocks" };
    writeln!(out, "{unit:<19} {}", found.blocks.len())?;
    for (what, range) in [("event times", &found.time), ("arrival", &found.received)] {
        if let Some((first, last)) = range {
            writeln!(out, "{what:<19} {first} to {last}")?;
        }
    }
    if let Some((first, last)) = found.sequence {
        writeln!(out, "sequence numbers    {first} to {last}")?;
    }
    found.values.iter().try_for_each(|values| write_values(out, values))?;

    writeln!(out)?;
    let rows = found.columns.iter().map(|column| {
        let known = |text: String| if column.encoding.is_empty() { String::new() } else { text };
        [
            escaped(&column.column),
            column.encoding.clone(),
            known(column.values.to_string()),
            known(show_bytes(column.bytes)),
            show_bytes(column.bytes_disk),
            known(ratio(column.bytes, column.bytes_disk, "")),
            format!("{:.1}%", 100.0 * column.bytes_disk as f64 / (*bytes_disk).max(1) as f64),
        ]
    });
    let heads = ["column", "encoding", "values", "bytes", "stored", "ratio", "of file"];
    write_table(out, heads, 2, rows.collect())?;
    if blocks {
        writeln!(out)?;
        let rows = found.blocks.iter().map(|block| {
            let (first, last) = block.time.clone().unwrap_or_default();
            [
                block.offset.to_string(),
                block.lines.to_string(),
                show_bytes(block.bytes_raw),
                show_bytes(block.bytes_disk),
                ratio(block.bytes_raw, block.bytes_disk, ""),
                first,
                last,
            ]
        });
        let heads = ["at byte", "lines", "raw", "stored", "ratio", "first event", "last event"];
        write_table(out, heads, 0, rows.collect())?;
    }
    Ok(())
}

fn write_values(out: &mut dyn Write, values: &FieldValues) -> io::Result<()> {
    let field = &escaped(&values.field);
    let Some(different) = values.different else {
        return writeln!(out, "{field:<19} too many to count");
    };
    let name = |value: &str| match value {
        "" => "(none)".to_owned(),
        value => escaped(value),
    };
    let most: Vec<String> =
        values.most.iter().map(|(value, lines)| format!("{} {lines}", name(value))).collect();
    let more = if different > values.most.len() { ", …" } else { "" };
    writeln!(out, "{field:<19} {different}: {}{more}", most.join(", "))
}

fn ratio(bytes: u64, bytes_disk: u64, before: &str) -> String {
    match bytes_disk {
        0 => String::new(),
        _ => format!("{before}{:.1}", bytes as f64 / bytes_disk as f64),
    }
}

/// Writes a table. The first `left` columns are left-aligned, the others right-aligned.
fn write_table<const N: usize>(
    out: &mut dyn Write,
    heads: [&str; N],
    left: usize,
    rows: Vec<[String; N]>,
) -> io::Result<()> {
    let mut widths = heads.map(|head| head.chars().count());
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut line = |cells: &[String; N]| {
        let padded = cells.iter().zip(widths).enumerate().map(|(column, (cell, width))| {
            if column < left { format!("{cell:<width$}") } else { format!("{cell:>width$}") }
        });
        writeln!(out, "{}", padded.collect::<Vec<_>>().join("  ").trim_end())
    };
    line(&heads.map(str::to_owned))?;
    rows.iter().try_for_each(line)
}
