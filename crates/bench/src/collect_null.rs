//! The collector's syslog source over TCP in front of a store that discards everything. Compare it
//! with `tcp_limit sink`; the sender is `tcp_limit send`.
//!
//! ```text
//! collect_null ADDRESS [CONNECTIONS] [--threads 1] [--to ADDRESS]
//! ```
//!
//! Ends when CONNECTIONS (1) connections have come and ended. With `--to`, a separate thread writes
//! the frames to a TCP connection: one thread receives and one sends. The other end may be
//! `tcp_limit sink`.

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::num::NonZero;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use collector::{
    Accounting, Deliver, KeepError, OnDurable, Patience, SourceKind, TcpConfig, TcpSource,
};
use record::Frame;

use crate::traffic::{number, report};

/// Frames queued for the sending thread. Beyond this, the receiving thread waits.
const FRAMES_QUEUED_MAX: usize = 16;
/// How often the end of the connections is checked.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);

/// Counts frames, and sends them on if there is a destination.
#[derive(Default)]
struct Null {
    sequence: AtomicU64,
    /// When the first and the last frame arrived.
    times: Mutex<Option<(Instant, Instant)>>,
    queue: Option<SyncSender<Frame>>,
}

impl Deliver for Null {
    fn next_sequence(&self) -> (u32, u64) {
        (1, self.sequence.fetch_add(1, Relaxed))
    }

    fn deliver(&self, frame: Frame, done: OnDurable, _: Patience) -> Result<(), KeepError> {
        if let Some(queue) = &self.queue {
            queue.send(frame).expect("the sending thread waits for frames");
        }
        done(Ok(()));
        let now = Instant::now();
        let mut times = self.times.lock().expect("nothing panics");
        *times = Some((times.map_or(now, |(first, _)| first), now));
        Ok(())
    }

    fn refusal(&self) -> Option<KeepError> {
        None
    }
}

/// Writes frames to a connection until the queue is closed.
fn send_to(address: SocketAddr) -> std::io::Result<(SyncSender<Frame>, JoinHandle<()>)> {
    let mut stream = TcpStream::connect(address)?;
    let (queue, frames) = sync_channel::<Frame>(FRAMES_QUEUED_MAX);
    let sender = std::thread::spawn(move || {
        for frame in frames {
            stream.write_all(frame.bytes()).expect("the other side reads");
        }
    });
    Ok((queue, sender))
}

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = crate::arguments().collect();
    let mut words = args.iter().map(String::as_str);
    let address: SocketAddr = words.next().ok_or("usage: collect_null ADDRESS …")?.parse()?;
    let (mut connections, mut null, mut sender) = (1, Null::default(), None);
    let mut config = TcpConfig { threads: NonZero::<usize>::MIN, ..TcpConfig::default() };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word {
            "--threads" => config.threads = value()?.parse()?,
            "--to" => {
                let (queue, thread) = send_to(value()?.parse()?)?;
                (null.queue, sender) = (Some(queue), Some(thread));
            }
            _ => connections = number(word),
        }
    }
    let (null, accounting) = (Arc::new(null), Arc::new(Accounting::default()));
    let clock = Arc::new(platform::RealClock::default());
    let source = TcpSource::start(address, config, null.clone(), accounting.clone(), clock)?;
    println!("listening at {}", source.local_addr());
    let counters = accounting.source(SourceKind::SyslogTcp);
    while counters.connections_total.load(Relaxed) < connections
        || counters.connections_open.load(Relaxed) > 0
    {
        std::thread::sleep(LOOK_INTERVAL);
    }
    source.stop();
    let counts = counters.counts();
    assert_eq!(counts.lines_missing(), 0, "every line is accounted for");
    let (first, last) = null.times.lock().expect("nothing panics").ok_or("no line came")?;
    drop(null);
    if let Some(sender) = sender {
        sender.join().map_err(|_| "the sending thread failed")?;
    }
    report(
        "collect_null",
        counts.lines_kept,
        counts.bytes_kept + counts.lines_kept,
        last - first,
        "",
    );
    Ok(())
}
