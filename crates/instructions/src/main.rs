//! `loginson-instructions DIRECTORY`: a fixed workload whose instructions
//! `scripts/test-instructions.py` counts under valgrind: parsing of three kinds of lines, sealing,
//! and queries of the sealed segment.
//!
//! Invariants: one thread; lines, arrival times and queries are the same in each run; nothing
//! depends on the clock. Each phase begins with a call of [`begin_phase`], where valgrind writes
//! the counts of the phase before. A wrong answer fails the run.

use std::error::Error;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use platform::RealDisk;
use query::{Context, Query, Scratch, run};
use record::{Batch, Format, Frame, FrameBuilder, Origin, Parser, ParserConfig, Transport};
use segment::sealed::{Effort, SealOptions, SealedFile, SealedHeader, SealedWriter};

mod lines;
mod source;

use source::Sealed;

/// Lines of each kind: enough for several blocks.
const LINES: usize = 12_000;
/// Bytes of lines in a frame.
const FRAME_BYTES: usize = 1 << 20;

type Outcome<T> = Result<T, Box<dyn Error>>;
type Batches = Vec<Arc<Batch>>;

/// Queries of the sealed segment by the names of their phases, with the number `n` of their one
/// row.
const QUERIES: [(&str, &str, u64); 12] = [
    ("query-all", "* | stats count() n", 36_000),
    ("query-word", "Failed | stats count() n", 1_188),
    ("query-absent-word", "zq1xv | stats count() n", 0),
    ("query-host-and-word", "hostname:=web3 error | stats count() n", 153),
    ("query-substring", "*asswor* | stats count() n", 1_188),
    ("query-regex", "~\"user[0-9]+7 from\" | stats count() n", 117),
    ("query-range", "bytes:>150000 | stats count() n", 2_992),
    ("query-sum", "* | stats sum(bytes) n", 1_558_094_860),
    ("query-groups", "!zq1xv | stats by (hostname, app_name) count() n | stats count() n", 25),
    ("query-top-messages", "Failed | collapse_nums | top 10 by (_msg) | stats sum(hits) n", 74),
    ("query-patterns", "* | patterns 20 | stats count() n", 13),
    ("query-newest", "error | sort by (_time desc) | limit 100 | stats count() n", 100),
];

fn main() -> Outcome<()> {
    let directory = std::env::args().nth(1).ok_or("usage: loginson-instructions DIRECTORY")?;
    let path = Path::new(&directory).join("1.sealed");
    let syslog = frames(&lines::syslog(LINES));
    let json = frames(&lines::json(LINES));
    let access = frames(&lines::access(LINES));
    let mut parser = Parser::new(&ParserConfig::default())?;
    begin_phase("parse-syslog");
    let mut batches = parse(&mut parser, syslog);
    begin_phase("parse-json");
    batches.extend(parse(&mut parser, json));
    begin_phase("parse-access");
    batches.extend(parse(&mut parser, access));
    begin_phase("seal");
    seal(&path, batches)?;
    begin_phase("open");
    let sealed = Sealed(SealedFile::open(&RealDisk, &path)?);
    for (phase, text, expected) in QUERIES {
        begin_phase(phase);
        let found = answer(&sealed, text)?;
        if found != expected {
            return Err(format!("{text} gives {found}, not {expected}").into());
        }
    }
    begin_phase("end");
    Ok(())
}

/// Tells the name of the phase that begins. Valgrind knows this function by its name.
#[inline(never)]
fn begin_phase(name: &str) {
    println!("phase {name}");
}

fn seal(path: &Path, batches: Batches) -> Outcome<()> {
    let header = SealedHeader { node: 1, segment: 1, created_ns: 0, sequence_next: 1 };
    let options = SealOptions::new(Effort::Fast);
    let mut writer = SealedWriter::create(&RealDisk, path, &header, &[], options)?;
    for batch in batches {
        writer.push(batch, None)?;
    }
    let lines = writer.finish()?.lines();
    if lines == 3 * LINES as u64 { Ok(()) } else { Err(format!("{lines} were sealed").into()) }
}

/// The lines in frames.
fn frames(bytes: &[u8]) -> Vec<Arc<Frame>> {
    let origin = Origin::new(Transport::File, Format::Auto, None);
    let mut builder = FrameBuilder::new();
    let mut frames = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let part = &rest[..rest.len().min(FRAME_BYTES)];
        let end = part.iter().rposition(|&byte| byte == b'\n').map_or(part.len(), |at| at + 1);
        builder.push_lines(&origin, lines::ARRIVAL_NS, &rest[..end]);
        frames.extend(builder.finish(1, frames.len() as u64 + 1).map(Arc::new));
        rest = &rest[end..];
    }
    frames
}

fn parse(parser: &mut Parser, frames: Vec<Arc<Frame>>) -> Batches {
    frames.into_iter().map(|frame| Arc::new(parser.parse(frame))).collect()
}

/// The number `n` of the one row of a query.
fn answer(sealed: &Sealed, text: &str) -> Outcome<u64> {
    let query = Query::parse(text, lines::ARRIVAL_NS)?;
    let mut found = None;
    run(&query, sealed, &Context::default(), &mut |block| {
        let mut scratch = Scratch::default();
        found = std::str::from_utf8(block.get(0, "n", &mut scratch)).ok().map(str::to_owned);
        ControlFlow::Continue(())
    })?;
    let found = found.ok_or_else(|| format!("no answer: {text}"))?;
    found.parse().map_err(|_| format!("{text}: {found}").into())
}
