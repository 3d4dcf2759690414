//! A store of many sealed segments: how long it takes to open, and what memory it holds.
//!
//!     loginson-bench many_segments DIR SEGMENTS MEGABYTES [LINE_BYTES]
//!
//! Makes a data directory DIR with SEGMENTS sealed segments of MEGABYTES of raw lines each, unless
//! it exists. Lines have about 95 bytes, or LINE_BYTES, filled up with calls of a stack trace. Then
//! opens the directory three times: without catalog, so that every footer is read, and twice with
//! it. Prints the time of each, and the resident memory before and after.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use platform::{RealClock, RealDisk};
use record::{Format, FrameBuilder, Origin, Parser, ParserConfig, Transport};
use segment::sealed::{Effort, SealOptions, SealedHeader, SealedWriter};
use store::{Store, StoreConfig};

const NODE: u32 = 1;
const START_S: i64 = 1_750_000_000;
const APPLICATIONS: [&str; 8] =
    ["sshd", "nginx", "postgres", "cron", "kernel", "orders", "billing", "systemd"];

pub(crate) fn main() {
    let args: Vec<String> = crate::arguments().collect();
    let [dir, segments, megabytes, line @ ..] = &args[..] else {
        eprintln!("usage: many_segments DIR SEGMENTS MEGABYTES [LINE_BYTES]");
        std::process::exit(2);
    };
    let number = |text: &str| text.parse::<u64>().expect("a number");
    let (segments, megabytes) = (number(segments), number(megabytes));
    let line_bytes = line.first().map_or(0, |bytes| number(bytes) as usize);
    let dir = Path::new(dir);
    if !dir.exists() {
        make(dir, segments, megabytes << 20, line_bytes);
    }
    println!("| open | ms | segments | raw GB | disk GB | resident MiB before | after |");
    println!("|---|---|---|---|---|---|---|");
    let _ = std::fs::remove_file(dir.join("catalog.sqlite"));
    for what in ["no catalog: every footer is read", "catalog", "catalog, again"] {
        let before = resident_mib();
        let start = Instant::now();
        let clock = Arc::new(RealClock::new());
        let opened = Store::open(StoreConfig::new(dir), Arc::new(RealDisk), clock);
        let (store, _) = opened.expect("what was made can be opened");
        let elapsed = start.elapsed();
        let stats = store.stats();
        println!(
            "| {what} | {:.0} | {} | {:.1} | {:.2} | {before} | {} |",
            elapsed.as_secs_f64() * 1e3,
            stats.segments,
            stats.bytes_raw as f64 / 1e9,
            stats.bytes_disk as f64 / 1e9,
            resident_mib(),
        );
        store.close().expect("it closes");
    }
}

/// Writes the files with as many threads as there are cores.
fn make(dir: &Path, segments: u64, bytes: u64, line_bytes: usize) {
    let files = dir.join("segments");
    std::fs::create_dir_all(&files).expect("a new directory");
    let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get()) as u64;
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let files = &files;
            scope.spawn(move || {
                (1..=segments)
                    .filter(|segment| segment % threads == thread)
                    .for_each(|segment| make_segment(files, segment, bytes, line_bytes));
            });
        }
    });
}

fn make_segment(dir: &Path, segment: u64, bytes: u64, line_bytes: usize) {
    let frames = bytes.div_ceil(1 << 20);
    let first = (segment - 1) * frames + 1;
    let header = SealedHeader { node: NODE, segment, created_ns: 0, sequence_next: first + frames };
    let path = dir.join(format!("{segment}.sealed"));
    let options = SealOptions::new(Effort::Fast);
    let mut writer =
        SealedWriter::create(&RealDisk, &path, &header, &[], options).expect("a new file");
    let mut parser = Parser::new(&ParserConfig::default()).expect("there are no rules");
    let origin = Origin::new(Transport::SyslogTcp, Format::Syslog, None);
    let mut builder = FrameBuilder::new();
    let mut random = segment.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    for sequence in first..first + frames {
        let second = START_S + sequence as i64 * 5;
        let mut lines = Vec::with_capacity(1 << 20);
        while lines.len() < (bytes.min(1 << 20) as usize) - 200 - line_bytes {
            use std::io::Write;
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let (host, app) = (random % 23, APPLICATIONS[(random >> 8) as usize % 8]);
            let (id, took) = (random >> 40, (random >> 16) % 1000);
            let from = lines.len();
            write!(
                lines,
                "<{}>1 {} host{host} {app} {} - - request {id:08x} of user {} took {took} ms",
                8 + random % 8,
                stamp(second),
                1000 + host,
                id % 5000,
            )
            .expect("writing to memory");
            while lines.len() - from < line_bytes {
                random = random.rotate_left(7);
                let (call, line) = (random % 40, random % 40 * 6 + 11);
                write!(lines, " | at orders.handler.step{call}(handler.rs:{line})")
                    .expect("the same");
            }
            lines.push(b'\n');
        }
        builder.push_lines(&origin, second * 1_000_000_000, &lines);
        let frame = builder.finish(NODE, sequence).expect("it has lines");
        writer.push(Arc::new(parser.parse(Arc::new(frame))), None).expect("the disk takes it");
    }
    writer.finish().expect("the disk takes it");
}

fn stamp(second: i64) -> String {
    let (year, month, day) = text::civil::civil_from_days(second.div_euclid(86_400));
    let clock = second.rem_euclid(86_400);
    let (hour, minute, second) = (clock / 3600, clock / 60 % 60, clock % 60);
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok());
    kib.expect("a number") / 1024
}
