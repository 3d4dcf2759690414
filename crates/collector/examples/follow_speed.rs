//! How fast files are followed, beside reading them and counting newlines.
//!
//! ```text
//! cargo run --release -p loginson-collector --example follow_speed -- FILE [ROUNDS]
//! ```
//!
//! Each round reads FILE once with `read` into a buffer of 256 KiB and counts newlines (`read`), follows it from its
//! beginning into nothing (`follow`), and follows a file that grows: FILE is appended to it by another thread, 64 KiB at
//! a time (`grow`; the growing file stands beside FILE and is removed). One line each: name, lines, bytes, seconds,
//! lines a second, Gbit/s. The number of lines is checked before a time counts. FILE should be in the page cache: the
//! first round warms it.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use collector::file::{NoRecall, Pattern};
use collector::{
    Accounting, Deliver, DeliverError, FileConfig, FileRule, FileSource, OnDurable, Patience,
};
use platform::{RealClock, RealDisk};
use record::Frame;

/// Counts lines and keeps nothing.
#[derive(Default)]
struct Nothing {
    sequence: AtomicU64,
    lines: AtomicU64,
}

impl Deliver for Nothing {
    fn next_sequence(&self) -> (u32, u64) {
        (1, self.sequence.fetch_add(1, Relaxed))
    }

    fn deliver(
        &self,
        frame: Frame,
        on_durable: OnDurable,
        _: Patience,
    ) -> Result<(), DeliverError> {
        self.lines.fetch_add(u64::from(frame.header().lines), Relaxed);
        on_durable(Ok(()));
        Ok(())
    }

    fn refusal(&self) -> Option<DeliverError> {
        None
    }
}

fn read(file: &Path) -> std::io::Result<(u64, u64)> {
    let (mut file, mut buffer) = (File::open(file)?, vec![0; 256 << 10]);
    let (mut lines, mut bytes) = (0, 0);
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok((lines, bytes));
        }
        lines += memchr::memchr_iter(b'\n', &buffer[..read]).count() as u64;
        bytes += read as u64;
    }
}

/// Follows until so many lines came; returns after how long that was.
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
        Box::new(NoRecall),
    );
    let source = source.expect("it starts");
    while deliver.lines.load(Relaxed) < lines {
        std::thread::sleep(Duration::from_millis(1));
    }
    let time = started.elapsed();
    drop(source);
    assert_eq!(deliver.lines.load(Relaxed), lines, "lines");
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

fn tell(name: &str, lines: u64, bytes: u64, time: Duration) {
    let seconds = time.as_secs_f64();
    println!(
        "{name} lines={lines} bytes={bytes} seconds={seconds:.3} lines_per_s={:.0} gbit_per_s={:.2}",
        lines as f64 / seconds,
        bytes as f64 * 8.0 / seconds / 1e9
    );
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let file = arguments.next().expect("usage: follow_speed FILE [ROUNDS]");
    let file: PathBuf = std::path::absolute(file).expect("a path");
    let rounds: usize = arguments.next().map_or(3, |n| n.parse().expect("a number of rounds"));
    for _ in 0..rounds {
        let started = Instant::now();
        let (lines, bytes) = read(&file).expect("FILE can be read");
        tell("read", lines, bytes, started.elapsed());
        tell("follow", lines, bytes, follow(&file, lines));
        tell("grow", lines, bytes, grow(&file, lines));
    }
}
