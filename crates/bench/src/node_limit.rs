//! The two ends of a benchmark of delivery between processes: a store that acknowledges every frame
//! and keeps none, and a collector with one receiving and one sending thread in front of it.
//!
//! ```text
//! node_limit null 127.0.0.1:9515                     acknowledges frames until killed; prints the received counts each
//!                                                    time the last collector disconnects
//! node_limit collect 127.0.0.1:6000 127.0.0.1:9515   receives lines over TCP (tcp_limit send 127.0.0.1:6000 FILE N),
//!                                                    delivers them, prints the acknowledged counts when the sender ends
//! ```
//!
//! The null store checks frames like any store: both checksums, and that newlines are where they
//! must be.

use std::sync::Arc;
use std::time::{Duration, Instant};

use collector::node::{
    Forward, ForwardConfig, Forwarder, NodeListenConfig, NodeListener, NodeStore,
};
use collector::{Accounting, Deliver, KeepError, OnDurable, SourceKind, TcpConfig, TcpSource};
use platform::{RealClock, RealDisk};
use record::{Frame, NodeIdentity, Numbers};

use crate::traffic::report;

/// How often completion is checked.
const LOOK: Duration = Duration::from_millis(20);
/// When nothing more is acknowledged for this long, everything was: frames are closed after 50 ms.
const SETTLED: Duration = Duration::from_millis(300);

pub(crate) fn main() {
    let args: Vec<String> = crate::arguments().collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["null", address] => null(address),
        ["collect", listen, store] => collect(listen, store),
        _ => {
            eprintln!("usage: node_limit null ADDRESS | node_limit collect ADDRESS STORE");
            std::process::exit(2);
        }
    }
}

struct Null;

impl NodeStore for Null {
    fn id(&self) -> u32 {
        1
    }

    fn admit(&self, _identity: &NodeIdentity, first: u64) -> Result<Numbers, String> {
        let mut numbers = Numbers::new();
        numbers.insert_range(1, first - 1);
        Ok(numbers)
    }

    fn keep(&self, frame: Frame, on_durable: OnDurable) -> Result<(), KeepError> {
        drop(frame);
        on_durable(Ok(()));
        Ok(())
    }

    fn refusal(&self) -> Option<KeepError> {
        None
    }
}

fn null(address: &str) {
    let accounting = Arc::new(Accounting::default());
    let address = address.parse().expect("an address");
    let config = NodeListenConfig::new(address);
    let listener = NodeListener::start(config, Arc::new(Null), Arc::clone(&accounting));
    let _listener = listener.expect("it listens");
    let counts = || accounting.source(SourceKind::Node).counts();
    loop {
        let before = counts();
        let started = wait(|| counts().lines_kept > before.lines_kept);
        wait(|| counts().connections_open == 0);
        let now = counts();
        let (lines, bytes) =
            (now.lines_kept - before.lines_kept, now.bytes_kept - before.bytes_kept);
        report("node_null", lines, bytes, started.elapsed(), "");
    }
}

fn collect(listen: &str, store: &str) {
    let spool = std::env::temp_dir().join(format!("node_limit-{}", std::process::id()));
    let config = ForwardConfig {
        stores: vec![store.to_owned()],
        copies: Vec::new(),
        spool_dir: spool.clone(),
        spool_bytes_max: 10 << 30,
        window_bytes: 32 << 20,
        spool_always: false,
        lost_stores: Vec::new(),
        secret: None,
    };
    let forwarder = Arc::new(Forwarder::start(config, Arc::new(RealDisk)).expect("it starts"));
    let accounting = Arc::new(Accounting::default());
    let deliver: Arc<dyn Deliver> = Arc::clone(&forwarder) as _;
    let clock = Arc::new(RealClock::new());
    let listen = listen.parse().expect("an address");
    let source =
        TcpSource::start(listen, TcpConfig::default(), deliver, Arc::clone(&accounting), clock);
    let source = source.expect("it listens");
    let counts = || accounting.source(SourceKind::SyslogTcp).counts();
    let started = wait(|| counts().lines_received > 0);
    // The last lines are counted when their frame reaches its age limit.
    let mut last = (0, Instant::now());
    wait(|| {
        let counts = counts();
        if counts.lines_kept > last.0 {
            last = (counts.lines_kept, Instant::now());
        }
        counts.connections_open == 0
            && counts.lines_kept == counts.lines_received
            && last.1.elapsed() > SETTLED
    });
    report("node_collect", counts().lines_kept, counts().bytes_kept, last.1 - started, "");
    println!("spooled lines={}", forwarder.status().spool.lines);
    forwarder.begin_stop();
    drop(source);
    forwarder.stop();
    let _ = std::fs::remove_dir_all(spool);
}

/// Waits until the condition holds; returns when that was.
fn wait(mut holds: impl FnMut() -> bool) -> Instant {
    while !holds() {
        std::thread::sleep(LOOK);
    }
    Instant::now()
}
