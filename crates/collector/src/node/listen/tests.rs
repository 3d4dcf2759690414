//! The listener with a store that panics where a test requests it, and collectors over real
//! connections.

use std::io::ErrorKind::{ConnectionReset, TimedOut, UnexpectedEof, WouldBlock};
use std::io::{Read, Write};

use platform::ManualClock;

use super::super::held_address::HeldAddress;
use super::super::secret::nonce;
use super::super::sender::Sender;
use super::super::wire::{self, ToCollector};
use super::server::{CONNECTIONS_PER_NODE_MAX, UNGREETED_PER_ADDRESS_MAX};
use super::shared::{FUTURE_MAX_NS, RECEIVED_MIN_NS};
use super::*;
use crate::accounting::SourceKind;

/// A store that panics in the calls that `faults` lists, once per entry.
#[derive(Default)]
struct Faulty {
    faults: Mutex<Vec<&'static str>>,
    held: Mutex<Numbers>,
    keeps: AtomicUsize,
    /// While this is true, no frame becomes durable.
    hold: AtomicBool,
    on_their_way: Mutex<Vec<(u64, OnDurable)>>,
    /// Receive times of the frames that were kept.
    received: Mutex<Vec<(i64, i64)>>,
    /// Connections that were admitted and have not left.
    here: AtomicUsize,
}

impl Faulty {
    fn may_fail(&self, at: &'static str) {
        let mut faults = lock(&self.faults);
        if let Some(index) = faults.iter().position(|&fault| fault == at) {
            faults.remove(index);
            drop(faults);
            panic!("a fault at {at}, which is tested");
        }
    }

    fn make_durable(&self) {
        self.hold.store(false, Relaxed);
        for (number, on_durable) in lock(&self.on_their_way).drain(..) {
            lock(&self.held).insert(number);
            on_durable(Ok(()));
        }
    }
}

impl NodeStore for Faulty {
    fn id(&self) -> u32 {
        1
    }

    fn admit(&self, _: &NodeIdentity, _: u64) -> Result<Numbers, String> {
        self.may_fail("admit");
        self.here.fetch_add(1, Relaxed);
        Ok(lock(&self.held).clone())
    }

    fn held(&self, _: u32) -> Numbers {
        lock(&self.held).clone()
    }

    fn note_taken(&self, _: u32, numbers: &Numbers) {
        lock(&self.held).insert_all(numbers);
    }

    fn leave(&self, _: u32) {
        self.here.fetch_sub(1, Relaxed);
    }

    fn keep(&self, frame: Frame, on_durable: OnDurable) -> Result<(), KeepError> {
        self.may_fail("keep");
        self.keeps.fetch_add(1, Relaxed);
        let header = frame.header();
        lock(&self.received).push((header.received_min_ns, header.received_max_ns));
        lock(&self.on_their_way).push((frame.header().sequence, on_durable));
        if !self.hold.load(Relaxed) {
            self.make_durable();
        }
        Ok(())
    }

    fn refusal(&self) -> Option<KeepError> {
        None
    }
}

const IDENTITY: NodeIdentity = NodeIdentity { node: 7, key: 1, starts: 1, run: 1 };

fn listen(address: SocketAddr, store: &Arc<Faulty>, counted: &Arc<Accounting>) -> NodeListener {
    let config = NodeListenConfig::new(address);
    NodeListener::start(config, Arc::clone(store) as _, Arc::clone(counted)).unwrap()
}

fn connect(address: SocketAddr) -> std::net::TcpStream {
    let stream = std::net::TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(300))).unwrap();
    stream
}

/// A hello and a start without a secret.
fn greeting(identity: &NodeIdentity, first: u64) -> Vec<u8> {
    let (mut sender, hello) = Sender::<()>::new(identity, None, nonce());
    [&hello[..], &sender.start(first)].concat()
}

fn frame(number: u64, received_ns: i64) -> Frame {
    let mut builder = record::FrameBuilder::new();
    let origin = record::Origin::new(record::Transport::SyslogTcp, record::Format::Auto, None);
    builder.push_lines(&origin, received_ns, b"a line\n");
    builder.finish(IDENTITY.node, number).unwrap()
}

/// A collector that sends frames of one line each with these numbers; returns its connection.
fn send(address: SocketAddr, numbers: &[u64]) -> std::net::TcpStream {
    let mut stream = connect(address);
    let mut bytes = greeting(&IDENTITY, 1);
    for &number in numbers {
        bytes.extend_from_slice(frame(number, 1).bytes());
    }
    // The connection may be closed already.
    let _ = stream.write_all(&bytes);
    stream
}

/// Reads once; returns 0 when the listener has closed the connection, whether it read all that was
/// sent or not.
#[track_caller]
fn read_or_end(stream: &mut std::net::TcpStream, bytes: &mut [u8]) -> usize {
    match stream.read(bytes) {
        Ok(count) => count,
        Err(error) if error.kind() == ConnectionReset => 0,
        Err(error) => panic!("nothing came, and it is not closed: {error}"),
    }
}

/// Waits until `frames` frames are acknowledged. Returns false when the connection ends before.
fn acknowledged(stream: &mut std::net::TcpStream, frames: u64) -> bool {
    let mut reader = wire::CollectorReader::default();
    let mut bytes = [0; 64];
    loop {
        match read_or_end(stream, &mut bytes) {
            0 => return false,
            count => reader.push(&bytes[..count]),
        }
        while let Some(message) = reader.take().unwrap() {
            if matches!(message, ToCollector::Ack { frames: told, .. } if told == frames) {
                return true;
            }
        }
    }
}

fn wait_for(what: impl Fn() -> bool) {
    while !what() {
        std::thread::yield_now();
    }
}

#[test]
fn after_any_panic_the_next_listener_stores_each_frame_once() {
    for fault in ["admit", "keep"] {
        let (store, accounting) = (Arc::new(Faulty::default()), Arc::default());
        let counts = |accounting: &Accounting| accounting.source(SourceKind::Node).counts();
        let held = HeldAddress::take();
        let address = held.address;
        let listener = listen(address, &store, &accounting);
        assert!(acknowledged(&mut send(address, &[1]), 1));
        assert!(!listener.has_failed());
        lock(&store.faults).push(fault);
        let mut connection = send(address, &[1, 2, 3]);
        assert!(!acknowledged(&mut connection, 3), "{fault}: the connection ends");
        wait_for(|| listener.has_failed());
        drop(listener);
        let counted = counts(&accounting);
        assert_eq!((counted.threads_failed, counted.connections_open), (1, 0), "{fault}");
        assert_eq!((counted.lines_missing(), counted.bytes_missing()), (0, 0), "{fault}");

        let listener = listen(address, &store, &accounting);
        assert!(acknowledged(&mut send(address, &[1, 2, 3]), 3), "{fault}");
        drop(listener);
        assert_eq!(store.keeps.load(Relaxed), 3, "{fault}: each is kept once");
        let counted = counts(&accounting);
        assert_eq!((counted.lines_kept, counted.lines_missing()), (3, 0), "{fault}");
    }
}

#[test]
fn no_new_listener_while_frames_are_in_flight() {
    let (store, accounting) = (Arc::new(Faulty::default()), Arc::default());
    store.hold.store(true, Relaxed);
    let held = HeldAddress::take();
    let address = held.address;
    let listener = listen(address, &store, &accounting);
    let first = send(address, &[1]);
    wait_for(|| store.keeps.load(Relaxed) == 1);
    lock(&store.faults).push("admit");
    assert!(!acknowledged(&mut send(address, &[1]), 1), "the connection ends");
    wait_for(|| listener.threads.iter().all(JoinHandle::is_finished));
    assert!(!listener.has_failed(), "a frame is on its way");
    store.make_durable();
    assert!(listener.has_failed());
    drop((listener, first));
    let _listener = listen(address, &store, &accounting);
    assert!(acknowledged(&mut send(address, &[1]), 1));
    assert_eq!(store.keeps.load(Relaxed), 1);
}

/// The reason the listener sends when it ends a connection, if any.
fn refusal(stream: &mut std::net::TcpStream) -> Option<String> {
    let mut reader = wire::CollectorReader::default();
    let mut bytes = [0; 256];
    loop {
        match read_or_end(stream, &mut bytes) {
            0 => return None,
            count => reader.push(&bytes[..count]),
        }
        while let Some(message) = reader.take().unwrap() {
            if let ToCollector::Refusal { text } = message {
                return Some(text);
            }
        }
    }
}

/// Greets as a collector with this secret; returns its connection.
fn greet(address: SocketAddr, secret: Option<&[u8]>) -> (std::net::TcpStream, Result<(), String>) {
    let secret = secret.map(|text| Arc::new(Secret::new(text).unwrap()));
    let (mut sender, hello) = Sender::<()>::new(&IDENTITY, secret, nonce());
    let mut stream = connect(address);
    stream.write_all(&hello).unwrap();
    let mut bytes = [0; 256];
    while !sender.is_open() {
        let count = read_or_end(&mut stream, &mut bytes);
        if count == 0 {
            return (stream, Err("closed".to_owned()));
        }
        sender.push(&bytes[..count]);
        loop {
            match sender.hear() {
                Err(error) => return (stream, Err(error.to_string())),
                Ok(None) => break,
                Ok(Some(heard)) => {
                    if let super::super::sender::Heard::Welcome { .. } = heard {
                        let _ = stream.write_all(&sender.start(1));
                    }
                }
            }
        }
    }
    (stream, Ok(()))
}

#[test]
fn only_collectors_that_know_the_secret_deliver() {
    const OURS: &[u8] = b"a secret of the test";
    let (store, accounting) = (Arc::new(Faulty::default()), Arc::<Accounting>::default());
    let listen = |secret: Option<&[u8]>| {
        let secret = secret.map(|text| Arc::new(Secret::new(text).unwrap()));
        let address = "127.0.0.1:0".parse().unwrap();
        let config = NodeListenConfig { secret, ..NodeListenConfig::new(address) };
        NodeListener::start(config, Arc::clone(&store) as _, Arc::clone(&accounting)).unwrap()
    };
    let listener = listen(Some(OURS));
    let address = listener.local_addr();
    let (mut stream, greeted) = greet(address, Some(OURS));
    greeted.unwrap();
    stream.write_all(frame(1, 1).bytes()).unwrap();
    assert!(acknowledged(&mut stream, 1));
    let refused = |secret: Option<&[u8]>| greet(address, secret).1.unwrap_err();
    assert!(refused(Some(b"another secret 1")).contains("is not that of this store"));
    assert!(refused(None).contains("know its secret"));
    // A collector that does not wait for the store's nonce.
    let mut hasty = connect(address);
    let (mut sender, hello) =
        Sender::<()>::new(&IDENTITY, Some(Arc::new(Secret::new(OURS).unwrap())), nonce());
    hasty.write_all(&[&hello[..], &sender.start(1), frame(2, 1).bytes()].concat()).unwrap();
    assert!(refusal(&mut hasty).unwrap().contains("is not that of this store"));
    wait_for(|| accounting.source(SourceKind::Node).counts().handshakes_failed == 3);
    assert_eq!((store.keeps.load(Relaxed), listener.collectors().len()), (1, 1));
    let open = listen(None);
    let error = greet(open.local_addr(), Some(OURS)).1.unwrap_err();
    assert!(error.contains("this store has none"), "{error}");
    drop((listener, open, stream));
    assert_eq!(store.here.load(Relaxed), 0, "each that was admitted has left");
}

#[test]
fn unauthenticated_peers_use_few_slots_and_little_memory() {
    let (store, accounting) = (Arc::new(Faulty::default()), Arc::<Accounting>::default());
    let listener = listen("127.0.0.1:0".parse().unwrap(), &store, &accounting);
    let address = listener.local_addr();
    let counters = accounting.source(SourceKind::Node);
    let total = || counters.connections_total.load(Relaxed);
    // Some send nothing, some begin a frame of 60 MiB, some greet and then send nothing.
    let mut long = frame(1, 1).bytes()[..64].to_vec();
    long[44..48].copy_from_slice(&(60u32 << 20).to_le_bytes());
    let crc = crc32c::crc32c(&long[..60]).to_le_bytes();
    long[60..64].copy_from_slice(&crc);
    let hello = greeting(&IDENTITY, 1)[..wire::GREETING_BYTES].to_vec();
    let strangers: Vec<_> = (0..300)
        .map(|n: u64| {
            let mut stream = connect(address);
            let first: &[u8] = match n % 3 {
                0 => b"",
                1 => &long,
                _ => &hello,
            };
            let _ = stream.write_all(first);
            wait_for(|| total() == n + 1);
            stream
        })
        .collect();
    wait_for(|| counters.connections_open.load(Relaxed) <= UNGREETED_PER_ADDRESS_MAX as u64);
    assert!(acknowledged(&mut send(address, &[1]), 1), "a collector gets in");
    assert_eq!(counters.connections_refused.load(Relaxed), 0);
    drop(strangers);
    // Anything but a greeting ends the connection at once.
    for early in [frame(1, 1).bytes(), &wire::keepalive()] {
        let mut stream = connect(address);
        stream.write_all(early).unwrap();
        assert!(refusal(&mut stream).unwrap().contains("out of turn"));
    }
    assert_eq!(store.keeps.load(Relaxed), 1);
}

#[test]
fn a_node_has_few_connections_and_the_latest_stay() {
    let (store, accounting) = (Arc::new(Faulty::default()), Arc::<Accounting>::default());
    let listener = listen("127.0.0.1:0".parse().unwrap(), &store, &accounting);
    let mut all: Vec<_> =
        (0..3 * CONNECTIONS_PER_NODE_MAX).map(|_| greet(listener.local_addr(), None).0).collect();
    wait_for(|| store.here.load(Relaxed) == CONNECTIONS_PER_NODE_MAX);
    assert!(refusal(&mut all[0]).unwrap().contains("connected again"));
    let latest = all.last_mut().unwrap();
    latest.write_all(frame(1, 1).bytes()).unwrap();
    assert!(acknowledged(latest, 1));
}

#[test]
fn a_start_beyond_all_frames_acknowledges_none_of_them() {
    let (store, accounting) = (Arc::new(Faulty::default()), Arc::<Accounting>::default());
    let listener = listen("127.0.0.1:0".parse().unwrap(), &store, &accounting);
    let address = listener.local_addr();
    for first in [1 << 40, u64::MAX, 1 << 60] {
        let mut stream = connect(address);
        stream.write_all(&greeting(&IDENTITY, first)).unwrap();
        let mut answer = [0; wire::GREETING_BYTES + 4];
        // It is answered, or closed.
        if let Err(error) = stream.read_exact(&mut answer) {
            assert!([ConnectionReset, UnexpectedEof].contains(&error.kind()), "{error}");
        }
    }
    assert!(acknowledged(&mut send(address, &[1, 2, 3]), 3));
    assert_eq!(store.keeps.load(Relaxed), 3, "they are kept");
    // It may not send numbers below the one it announced.
    let mut stream = connect(address);
    stream.write_all(&[greeting(&IDENTITY, 9), frame(8, 1).bytes().to_vec()].concat()).unwrap();
    assert!(refusal(&mut stream).unwrap().contains("below the one of its start"));
    assert_eq!(store.keeps.load(Relaxed), 3);
}

#[test]
fn impossible_receive_times_become_now() {
    const NOW_NS: i64 = 1_800_000_000_000_000_000;
    let (store, accounting) = (Arc::new(Faulty::default()), Arc::<Accounting>::default());
    let clock = Arc::new(ManualClock::new(NOW_NS));
    let config =
        NodeListenConfig { clock, ..NodeListenConfig::new("127.0.0.1:0".parse().unwrap()) };
    let listener = NodeListener::start(config, Arc::clone(&store) as _, accounting).unwrap();
    let times = [
        (NOW_NS - 1, NOW_NS - 1),
        (NOW_NS + FUTURE_MAX_NS, NOW_NS + FUTURE_MAX_NS),
        (NOW_NS + FUTURE_MAX_NS + 1, NOW_NS),
        (i64::MAX, NOW_NS),
        (i64::MIN, NOW_NS),
        (0, NOW_NS),
        (RECEIVED_MIN_NS, RECEIVED_MIN_NS),
        (RECEIVED_MIN_NS - 1, NOW_NS),
    ];
    let (mut stream, _) = greet(listener.local_addr(), None);
    for (index, (claimed, _)) in times.iter().enumerate() {
        stream.write_all(frame(index as u64 + 1, *claimed).bytes()).unwrap();
    }
    assert!(acknowledged(&mut stream, times.len() as u64));
    let expected: Vec<_> = times.iter().map(|(_, kept)| (*kept, *kept)).collect();
    assert_eq!(*lock(&store.received), expected);
    // The header disagrees with the runs.
    let mut bytes = frame(99, NOW_NS).bytes().to_vec();
    bytes[32..40].copy_from_slice(&i64::MAX.to_le_bytes());
    let crc = crc32c::crc32c(&bytes[..60]).to_le_bytes();
    bytes[60..64].copy_from_slice(&crc);
    stream.write_all(&bytes).unwrap();
    assert!(refusal(&mut stream).unwrap().contains("does not match its lines"));
}

#[test]
fn incomplete_large_frames_leave_room_for_others() {
    let (store, accounting) = (Arc::new(Faulty::default()), Arc::<Accounting>::default());
    let listener = listen("127.0.0.1:0".parse().unwrap(), &store, &accounting);
    let mut long = frame(1, 1).bytes()[..64].to_vec();
    long[44..48].copy_from_slice(&(50u32 << 20).to_le_bytes());
    let crc = crc32c::crc32c(&long[..60]).to_le_bytes();
    long[60..64].copy_from_slice(&crc);
    let _held: Vec<_> = (0..CONNECTIONS_PER_NODE_MAX as u32 * 2)
        .map(|n| {
            let node = IDENTITY.node + 1 + n;
            let identity = NodeIdentity { node, ..IDENTITY };
            let mut stream = connect(listener.local_addr());
            stream.set_write_timeout(Some(Duration::from_millis(200))).unwrap();
            long[8..12].copy_from_slice(&node.to_le_bytes());
            let crc = crc32c::crc32c(&long[..60]).to_le_bytes();
            long[60..64].copy_from_slice(&crc);
            stream.write_all(&[greeting(&identity, 1), long.clone()].concat()).unwrap();
            // Most of them are not read from.
            match stream.write_all(&vec![0; 1 << 20]) {
                Err(error) if [WouldBlock, TimedOut].contains(&error.kind()) => {}
                written => written.unwrap(),
            }
            stream
        })
        .collect();
    assert!(acknowledged(&mut send(listener.local_addr(), &[1]), 1));
}

#[test]
fn frames_of_another_copy_are_kept_once_whoever_brings_them_first() {
    let store = Arc::new(Faulty::default());
    let listener = listen("127.0.0.1:0".parse().unwrap(), &store, &Arc::default());
    let filler = listener.filler();
    let numbers = |first, last| {
        let mut numbers = Numbers::new();
        numbers.insert_range(first, last);
        numbers
    };
    let mut stream = send(listener.local_addr(), &[3, 4]);
    assert!(acknowledged(&mut stream, 2));
    // Nothing is left of frame 2 in the other copy.
    let frames = vec![frame(1, 1), frame(3, 1), frame(5, 1)];
    assert_eq!(filler.fill(IDENTITY.node, frames, &numbers(1, 5)), Ok(2));
    assert_eq!(*lock(&store.held), numbers(1, 5));
    // The collector brings what it still has of them.
    let mut stream = send(listener.local_addr(), &[2, 5, 6]);
    assert!(acknowledged(&mut stream, 3));
    assert_eq!(store.keeps.load(Relaxed), 5);
    let other = filler.fill(8, vec![frame(9, 1)], &numbers(9, 9));
    assert!(matches!(other, Err(KeepError::Failed(_))), "a frame of another collector");
    drop(listener);
    let late = filler.fill(IDENTITY.node, vec![frame(9, 1)], &numbers(9, 9));
    assert_eq!(late, Err(KeepError::Closed), "the next listener does not know of it");
}
