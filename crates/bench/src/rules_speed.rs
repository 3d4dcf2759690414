//! Measures what rules at ingest cost, on one core.
//!
//!     loginson-bench rules_speed FILE [RULES.toml]
//!
//! For each set of rules: megabytes a second of parsing alone, of the rules, and of both; the last
//! column is the speed with rules as a part of that without. Without a file of rules, the sets are:
//! ten rules whose texts no line holds, ten rules of everyday use, and each of these by itself.
//! Each pass goes through all frames; for each frame, the fastest pass counts. What the rules leave
//! of the lines is counted first, so that a change of the rules shows.

use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};

use node::ingest::rules::RuleSet;
use node::lookups::Lookups;
use node::storage::stored::Parsers;
use record::{Format, Frame, FrameBuilder, Origin, Parser, ParserConfig, Transport};

const PASSES: usize = 7;
const BYTES_MIN: usize = 8 << 20;

/// Rules of everyday use, each with a name.
const EVERYDAY: [(&str, &str); 10] = [
    ("cards", "mask = ['cards']"),
    ("tokens", "mask = ['tokens']"),
    ("emails", "filter = '\"@\"'\nmask = ['emails']"),
    ("own mask", "filter = 'password'\nmask = [{ regex = 'password[=:] *([^ ]+)' }]"),
    ("drop", "filter = 'debug'\ndrop = true"),
    ("sample", "filter = '\"GET /health\"'\nkeep_one_in = 100"),
    ("extract", "filter = 'session opened'\npipes = 'extract \"for user <who>(\" from _msg'"),
    ("set", "filter = 'app_name:=sshd'\nset = { team = 'base' }"),
    ("type", "filter = 'app_name:=kernel'\ntype = 'kernel'"),
    ("level", "filter = '\"authentication failure\"'\nlevel = 'warn'"),
];

pub(crate) fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = crate::arguments();
    let Some(file) = arguments.next() else {
        return Err("usage: rules_speed FILE [RULES.toml]".into());
    };
    let frames = frames_of(&fs::read(&file)?);
    let parsers = Parsers::new(Parser::new(&ParserConfig::default())?);
    let payload: usize = frames.iter().map(|frame| frame.payload().len()).sum();
    let megabytes = |time: Duration| payload as f64 / 1e6 / time.as_secs_f64();
    let parsing = fastest(&frames, |frame| drop(parsers.parse(Arc::new(frame.clone()))));
    println!(
        "{:<16} {:>9} {:>9} {:>9} {:>9} {:>9}",
        "rules", "lines", "left", "MB/s", "both", "part"
    );
    println!(
        "{:<16} {:>9} {:>9} {:>9.0} {:>9} {:>9}",
        "parsing alone",
        lines(&frames),
        "",
        megabytes(parsing),
        "",
        ""
    );
    for (name, text) in sets(arguments.next().as_deref())? {
        let rules = RuleSet::of_text(&text, &Lookups::default())?;
        let apply = |frame: &Frame| rules.apply(frame.clone(), &parsers);
        let left: Vec<Frame> = frames.iter().filter_map(apply).collect();
        let ruling = fastest(&frames, |frame| drop(apply(frame)));
        let after = fastest(&left, |frame| drop(parsers.parse(Arc::new(frame.clone()))));
        println!(
            "{name:<16} {:>9} {:>9} {:>9.0} {:>9.0} {:>9.2}",
            lines(&frames),
            lines(&left),
            megabytes(ruling),
            megabytes(ruling + after),
            parsing.as_secs_f64() / (ruling + after).as_secs_f64(),
        );
    }
    Ok(())
}

fn sets(file: Option<&str>) -> Result<Vec<(String, String)>, Box<dyn Error>> {
    if let Some(file) = file {
        return Ok(vec![(file.to_owned(), fs::read_to_string(file)?)]);
    }
    let (mut absent, mut all) = (String::new(), String::new());
    let mut single = Vec::new();
    for (number, (name, rule)) in EVERYDAY.iter().enumerate() {
        let rule = format!("[[rules]]\nname = '{name}'\n{rule}\n");
        writeln!(
            absent,
            "[[rules]]\nname = 'r{number}'\nfilter = 'qzxabsent{number}'\ndrop = true"
        )?;
        all.push_str(&rule);
        single.push(((*name).to_owned(), rule));
    }
    let mut sets = vec![("ten, no text".to_owned(), absent), ("ten".to_owned(), all)];
    sets.extend(single);
    Ok(sets)
}

fn lines(frames: &[Frame]) -> u64 {
    frames.iter().map(|frame| u64::from(frame.header().lines)).sum()
}

/// The file as frames of the usual size; a small file is repeated.
fn frames_of(bytes: &[u8]) -> Vec<Frame> {
    let origin = Origin::new(Transport::SyslogTcp, Format::Auto, None);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let now_ns = now.expect("the clock is behind 1970").as_nanos() as i64;
    let (mut builder, mut frames, mut total) = (FrameBuilder::new(), Vec::new(), 0);
    while total < BYTES_MIN && !bytes.is_empty() {
        for line in bytes.split_inclusive(|byte| *byte == b'\n') {
            let line = line.strip_suffix(b"\n").unwrap_or(line);
            total += line.len() + 1;
            // As TCP reads them, in whole lines.
            builder.push_lines(&origin, now_ns, &[line, b"\n"].concat());
            if builder.is_full() {
                frames.extend(builder.finish(1, frames.len() as u64 + 1));
            }
        }
    }
    frames.extend(builder.finish(1, frames.len() as u64 + 1));
    frames
}

/// The sum over the frames of the fastest time of each.
fn fastest(frames: &[Frame], mut work: impl FnMut(&Frame)) -> Duration {
    let mut best = vec![Duration::MAX; frames.len()];
    for _ in 0..PASSES {
        for (frame, best) in frames.iter().zip(&mut best) {
            let started = Instant::now();
            work(frame);
            *best = started.elapsed().min(*best);
        }
    }
    best.into_iter().sum()
}
