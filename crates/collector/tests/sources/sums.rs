//! The invariant of the accounting: with every source busy, failing deliveries, a disk that fills
//! up, and a stop in the middle, received equals kept plus dropped for each source once it is idle;
//! and no reading at any moment shows more kept and dropped than received.

use std::net::{TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::thread::JoinHandle;

use collector::{
    Accounting, Deliver, FRAME_AGE_AWAITED_MS, Intake, KeepError, OnDurable, Patience, SourceKind,
    TcpConfig, TcpSource, UdpConfig, UdpSource,
};
use platform::ManualClock;
use record::frame::LINE_BYTES_MAX;
use record::{Format, Frame, Origin, Transport};
use std::io::Write;

/// Frames in flight. Beyond this, delivery blocks.
const WAITING_FRAMES_MAX: usize = 8;
/// Rounds, each with seeds of its own.
const ROUNDS: u64 = 6;

/// Takes frames and decides their outcome at random, on a thread of its own. The lines it reports
/// as kept are the truth that the accounting is compared with.
struct Unreliable {
    waiting: Mutex<Option<mpsc::SyncSender<(Frame, OnDurable)>>>,
    full: AtomicBool,
    sequence: AtomicU64,
    writer: Mutex<Option<JoinHandle<u64>>>,
}

impl Unreliable {
    fn start(seed: u64) -> Arc<Unreliable> {
        let (sender, receiver) = mpsc::sync_channel::<(Frame, OnDurable)>(WAITING_FRAMES_MAX);
        let unreliable = Arc::new(Unreliable {
            waiting: Mutex::new(Some(sender)),
            full: AtomicBool::default(),
            sequence: AtomicU64::default(),
            writer: Mutex::default(),
        });
        let store = Arc::clone(&unreliable);
        let writer = std::thread::spawn(move || {
            let mut random = fastrand::Rng::with_seed(seed);
            let mut kept = 0;
            for (frame, on_durable) in receiver {
                store.full.store(random.u8(..10) == 0, SeqCst);
                let result = match random.u8(..10) {
                    0 => Err(KeepError::Failed("by chance".into())),
                    1 => Err(KeepError::DiskFull),
                    _ => Ok(()),
                };
                if result.is_ok() {
                    kept += u64::from(frame.header().lines);
                }
                on_durable(result);
                // Nobody may wait for a disk that gets no more frames.
                store.full.store(false, SeqCst);
            }
            kept
        });
        *unreliable.writer.lock().unwrap() = Some(writer);
        unreliable
    }

    /// Stops taking frames. Returns the lines that were kept.
    fn close(&self) -> u64 {
        *self.waiting.lock().unwrap() = None;
        self.writer.lock().unwrap().take().unwrap().join().unwrap()
    }
}

impl Deliver for Unreliable {
    fn next_sequence(&self) -> (u32, u64) {
        (1, self.sequence.fetch_add(1, SeqCst))
    }

    fn deliver(&self, frame: Frame, on_durable: OnDurable, _: Patience) -> Result<(), KeepError> {
        let sender = self.waiting.lock().unwrap().clone();
        match sender {
            Some(sender) => {
                sender.send((frame, on_durable)).unwrap();
                Ok(())
            }
            None => {
                on_durable(Err(KeepError::Closed));
                Err(KeepError::Closed)
            }
        }
    }

    fn refusal(&self) -> Option<KeepError> {
        self.full.load(SeqCst).then_some(KeepError::DiskFull)
    }
}

/// Lines of many lengths, one in a hundred of them very long.
fn some_lines(random: &mut fastrand::Rng) -> Vec<u8> {
    let mut lines = Vec::new();
    for _ in 0..random.usize(1..200) {
        let bytes =
            if random.u8(..100) == 0 { random.usize(..200_000) } else { random.usize(..300) };
        lines.resize(lines.len() + bytes, b'x');
        lines.push(b'\n');
    }
    lines
}

fn push(intake: &Intake, transport: Transport, mut lines: &[u8]) {
    let origin = Origin::new(transport, Format::Auto, None);
    while !lines.is_empty() {
        let (ticket, rest) = intake.push(&origin, 1, lines);
        // Most pushes do not wait for their ticket, some do; either way the outcome is counted.
        if fastrand::u8(..10) == 0 {
            let _ = ticket.wait();
        }
        lines = rest;
    }
}

fn round(seed: u64) {
    eprintln!("seed {seed}");
    let store = Unreliable::start(seed);
    let accounting = Arc::new(Accounting::default());
    let clock = Arc::new(ManualClock::new(1));
    let local = "127.0.0.1:0".parse().unwrap();
    let (deliver, counted) = (|| store.clone() as Arc<dyn Deliver>, || Arc::clone(&accounting));
    let (udp_config, tcp_config) = (UdpConfig::default(), TcpConfig::default());
    let udp = UdpSource::start(local, udp_config, deliver(), counted(), clock.clone()).unwrap();
    let tcp = TcpSource::start(local, tcp_config, deliver(), counted(), clock).unwrap();
    let intake = |kind| Intake::start(kind, FRAME_AGE_AWAITED_MS, deliver(), counted());
    let (http, internal) = (intake(SourceKind::Http), intake(SourceKind::Internal));
    let (udp_address, tcp_address) = (udp.local_addr(), tcp.local_addr());
    let ended = AtomicBool::default();
    let mut random = fastrand::Rng::with_seed(seed);
    let stop_early = random.bool();
    /// Ends the watcher even if a check fails.
    struct End<'a>(&'a AtomicBool);
    impl Drop for End<'_> {
        fn drop(&mut self) {
            self.0.store(true, SeqCst);
        }
    }
    std::thread::scope(|scope| {
        let end = End(&ended);
        let watcher = scope.spawn(|| {
            let mut looks = 0u64;
            while !ended.load(SeqCst) {
                for kind in SourceKind::ALL {
                    let counts = accounting.source(kind).counts();
                    let missing = (counts.lines_missing(), counts.bytes_missing());
                    assert!(missing.0 >= 0 && missing.1 >= 0, "{}: {counts:?}", kind.name());
                }
                looks += 1;
            }
            looks
        });
        let senders = [0, 1, 2, 3].map(|which| {
            let mut random = random.fork();
            let (http, internal) = (&http, &internal);
            // Before any source is stopped.
            let mut stream = TcpStream::connect(tcp_address).unwrap();
            scope.spawn(move || {
                let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
                for _ in 0..60 {
                    let lines = some_lines(&mut random);
                    match which {
                        0 => {
                            for line in lines.split(|&b| b == b'\n').take(50) {
                                let _ = socket.send_to(&line[..line.len().min(9000)], udp_address);
                            }
                        }
                        // A source that stops closes its connections.
                        1 if stream.write_all(&lines).is_err() => break,
                        1 => {}
                        2 => push(http, Transport::Http, &lines),
                        _ => push(internal, Transport::Internal, &lines),
                    }
                }
                if which == 2 {
                    let long = vec![b'y'; LINE_BYTES_MAX + 1000];
                    push(http, Transport::Http, &long);
                }
            })
        });
        let stop = || {
            drop((udp, tcp));
            http.stop();
            internal.stop();
        };
        if stop_early {
            stop();
            senders.into_iter().for_each(|sender| sender.join().unwrap());
        } else {
            senders.into_iter().for_each(|sender| sender.join().unwrap());
            stop();
        }
        let kept = store.close();
        let sources = SourceKind::ALL.map(|kind| accounting.source(kind).counts());
        assert_eq!(sources.iter().map(|counts| counts.lines_kept).sum::<u64>(), kept);
        for (kind, counts) in SourceKind::ALL.iter().zip(&sources) {
            let missing = (counts.lines_missing(), counts.bytes_missing());
            assert_eq!(missing, (0, 0), "{} at rest: {counts:?}", kind.name());
        }
        assert!(sources.iter().all(|counts| counts.connections_open == 0));
        drop(end);
        assert!(watcher.join().unwrap() > 0);
    });
}

#[test]
fn sums_agree_at_rest_and_at_any_moment() {
    let seed = fastrand::u64(..);
    (0..ROUNDS).for_each(|n| round(seed.wrapping_add(n)));
}
