//! Measures how fast files are followed, compared with reading them and counting newlines.
//!
//! ```text
//! loginson-bench follow_speed FILE [ROUNDS]
//! ```
//!
//! Each round reads FILE once with `read` into a buffer of 256 KiB and counts newlines (`read`),
//! follows it from its beginning and discards the frames (`follow`), and follows a file that grows:
//! another thread appends FILE to it, 64 KiB at a time (`grow`; the growing file is beside FILE and
//! is removed afterwards). Each prints one line: name, lines, bytes, seconds, lines a second,
//! Gbit/s. The number of lines is checked before a time counts. FILE should be in the page cache:
//! the first round warms it.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use collector::file::Pattern;
use collector::{Accounting, FileConfig, FileRule, FileSource};
use platform::{RealClock, RealDisk};

use crate::traffic::{Nothing, count_lines, report};

fn read(file: &Path) -> std::io::Result<(u64, u64)> {
    let (mut file, mut buffer) = (File::open(file)?, vec![0; 256 << 10]);
    let (mut lines, mut bytes) = (0, 0);
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok((lines, bytes));
        }
        lines += count_lines(&buffer[..read]);
        bytes += read as u64;
    }
}

/// Follows until `lines` lines have arrived; returns how long that took.
fn follow(file: &Path, lines: u64) -> Duration {
    let data = std::env::temp_dir().join(format!("follow-speed-{}", std::process::id()));
    std::fs::create_dir_all(&data).expect("a directory for the checkpoint");
    let pattern = Pattern::parse(file.to_str().expect("a path in UTF-8")).expect("a path");
    let deliver = Arc::new(Nothing::default());
    let started = Instant::now();
    let source = FileSource::start(
        FileConfig::new(vec![FileRule::new(vec![pattern])], data.clone()),
        deliver.clone(),
        Arc::new(Accounting::default()),
        Arc::new(RealClock::new()),
        Arc::new(RealDisk),
        None,
    );
    let source = source.expect("it starts");
    while deliver.lines() < lines {
        std::thread::sleep(Duration::from_millis(1));
    }
    let time = started.elapsed();
    drop(source);
    assert_eq!(deliver.lines(), lines, "lines");
    std::fs::remove_dir_all(data).expect("the directory of the checkpoint goes");
    time
}

fn grow(file: &Path, lines: u64) -> Duration {
    let growing = file.with_added_extension("growing");
    let mut to = File::create(&growing).expect("a file beside FILE");
    let mut from = File::open(file).expect("FILE");
    let writer = std::thread::spawn(move || {
        let mut buffer = vec![0; 64 << 10];
        loop {
            let read = from.read(&mut buffer).expect("FILE can be read");
            if read == 0 {
                return;
            }
            to.write_all(&buffer[..read]).expect("the growing file can be written");
        }
    });
    let time = follow(&growing, lines);
    writer.join().expect("it wrote");
    std::fs::remove_file(growing).expect("the growing file goes");
    time
}

pub(crate) fn main() {
    let mut arguments = crate::arguments();
    let file = arguments.next().expect("usage: follow_speed FILE [ROUNDS]");
    let file: PathBuf = std::path::absolute(file).expect("a path");
    let rounds: usize = arguments.next().map_or(3, |n| n.parse().expect("a number of rounds"));
    for _ in 0..rounds {
        let started = Instant::now();
        let (lines, bytes) = read(&file).expect("FILE can be read");
        report("read", lines, bytes, started.elapsed(), "");
        report("follow", lines, bytes, follow(&file, lines), "");
        report("grow", lines, bytes, grow(&file, lines), "");
    }
}
