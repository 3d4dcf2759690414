//! Measures queries on blocks of best effort, as re-encoding in idle time writes them.
//!
//!     loginson-bench reencoded [--at=FILE.sealed] [--once] FILE QUERY…
//!
//! A query is `=text` for a text at word boundaries, `*text` for a text anywhere, and `.` for
//! reading all messages. For each: the blocks that their filters let through, the lines found,
//! milliseconds, and those of the slowest block. `--at` keeps the sealed file; `--once` runs each
//! query once and skips the comparison with the restored lines. Both are meant for counting
//! instructions.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use memchr::memmem::Finder;
use platform::RealDisk;
use record::columns::{Columns, Occurrences};
use segment::sealed::{Effort, SealOptions, SealedFile, SealedHeader, SealedWriter};
use segment::tokens::required_tokens;

use crate::frames::{batches_as_written, cpu_s};

/// How often a query is run; the shortest time counts.
const RUNS: usize = 3;
const FIELD: &str = "_msg";

pub(crate) fn main() {
    let (mut once, mut at) = (false, None);
    let mut arguments = Vec::new();
    for argument in crate::arguments() {
        match argument.strip_prefix("--at=") {
            Some(path) => at = Some(PathBuf::from(path)),
            None if argument == "--once" => once = true,
            None => arguments.push(argument),
        }
    }
    let [file, queries @ ..] = &arguments[..] else { panic!("name a file of log lines") };
    let kept = at.is_some();
    let at = at.unwrap_or_else(|| {
        std::env::temp_dir().join(format!("reencoded-{}.sealed", std::process::id()))
    });
    if !at.exists() {
        seal(Path::new(file), &at);
    }
    let sealed = SealedFile::open(&RealDisk, &at).expect("what was written");
    let blocks = sealed.footer().blocks.len();
    let filters = (0..blocks).filter(|&block| sealed.has_filter(block)).count();
    println!("{blocks} blocks, {filters} with a filter");
    println!("| query | blocks opened | lines | ms | slowest block, ms |\n|---|---|---|---|---|");
    for query in queries {
        let runs = if once { 1 } else { RUNS };
        let measured = (0..runs).map(|_| run_query(&sealed, query));
        let best = measured.min_by(|a, b| a.ms.total_cmp(&b.ms)).expect("at least one run");
        if !once {
            assert_eq!(best.lines, naive(&sealed, query), "{query}");
        }
        let Measured { opened, lines, ms, slowest_ms } = best;
        println!("| `{query}` | {opened} | {lines} | {ms:.1} | {slowest_ms:.1} |");
    }
    if !kept {
        let _ = std::fs::remove_file(&at);
    }
}

fn seal(file: &Path, at: &Path) {
    let bytes = std::fs::read(file).expect("a file that can be read");
    let header = SealedHeader { node: 1, segment: 1, created_ns: 0, sequence_next: 1 };
    let options = SealOptions::new(Effort::Best);
    let mut writer =
        SealedWriter::create(&RealDisk, at, &header, &[], options).expect("a new file");
    for batch in batches_as_written(&bytes) {
        writer.push(batch, None).expect("the disk takes it");
    }
    writer.finish().expect("the disk takes it");
}

struct Measured {
    opened: usize,
    lines: usize,
    ms: f64,
    slowest_ms: f64,
}

fn run_query(sealed: &SealedFile, query: &str) -> Measured {
    let mut measured = Measured { opened: 0, lines: 0, ms: 0.0, slowest_ms: 0.0 };
    let tokens = query.strip_prefix('=').map(|t| required_tokens(t.as_bytes(), true, true));
    let sets = [tokens.unwrap_or_default()];
    for block in 0..sealed.footer().blocks.len() {
        let start = cpu_s();
        let held = sealed.may_contain(block, &sets).expect("what was written");
        if held.is_none_or(|held| held[0]) {
            measured.opened += 1;
            let read = |number| sealed.chunk(block, number).map(Arc::new);
            let found = sealed.with_columns(block, &read, |columns| found_in(columns, query));
            measured.lines += found.expect("what was written");
        }
        let ms = (cpu_s() - start) * 1000.0;
        measured.ms += ms;
        measured.slowest_ms = measured.slowest_ms.max(ms);
    }
    measured
}

fn found_in(columns: &dyn Columns, query: &str) -> usize {
    let (how, text) = query.split_at(1);
    if how == "." {
        let column = columns.field(FIELD).expect("what was written").expect("a field");
        return (0..columns.rows()).filter(|&row| !column.get(row).is_empty()).count();
    }
    let accept = |value: &[u8], at: usize| is_word_at(value, at, text.len());
    let occurrences = if how == "*" { Occurrences::All } else { Occurrences::Words(&accept) };
    match columns.holding(FIELD, text.as_bytes(), occurrences).expect("what was written") {
        Some(rows) => rows.len(),
        None => {
            let column = columns.field(FIELD).expect("what was written").expect("a field");
            (0..columns.rows()).filter(|&row| holds(column.get(row), query)).count()
        }
    }
}

fn is_word_at(value: &[u8], at: usize, bytes: usize) -> bool {
    let is_word = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_' || !byte.is_ascii();
    !value[..at].last().is_some_and(is_word) && !value[at + bytes..].first().is_some_and(is_word)
}

fn naive(sealed: &SealedFile, query: &str) -> usize {
    let mut lines = 0;
    for block in 0..sealed.footer().blocks.len() {
        let batch = sealed.read_block(block).expect("what was written");
        let message = |row: record::Row<'_>| {
            row.fields().any(|(name, value)| batch.name(name) == FIELD && holds(value, query))
        };
        lines += batch.rows().filter(|row| message(*row)).count();
    }
    lines
}

fn holds(value: &[u8], query: &str) -> bool {
    let (how, text) = query.split_at(1);
    let finder = Finder::new(text);
    match how {
        "." => !value.is_empty(),
        "*" => finder.find(value).is_some(),
        _ => finder.find_iter(value).any(|at| is_word_at(value, at, text.len())),
    }
}
