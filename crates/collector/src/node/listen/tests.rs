//! The listener with a store that panics where a test says so, and collectors over real connections.

use super::*;

/// A store that brings down whoever asks it for what `faults` says, once each time it says so.
#[derive(Default)]
struct Faulty {
    faults: Mutex<Vec<&'static str>>,
    held: Mutex<Numbers>,
    keeps: AtomicUsize,
    /// Frames are not durable before this is false.
    hold: AtomicBool,
    on_their_way: Mutex<Vec<(u64, OnDurable)>>,
}

impl Faulty {
    fn may_fail(&self, at: &'static str) {
        let mut faults = lock(&self.faults);
        if let Some(place) = faults.iter().position(|&fault| fault == at) {
            faults.remove(place);
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
        Ok(lock(&self.held).clone())
    }

    fn keep(&self, frame: Frame, on_durable: OnDurable) -> Result<(), DeliverError> {
        self.may_fail("keep");
        self.keeps.fetch_add(1, Relaxed);
        lock(&self.on_their_way).push((frame.header().sequence, on_durable));
        if !self.hold.load(Relaxed) {
            self.make_durable();
        }
        Ok(())
    }

    fn refusal(&self) -> Option<DeliverError> {
        None
    }
}

const IDENTITY: NodeIdentity = NodeIdentity { node: 7, key: 1, starts: 1, run: 1 };

fn listen(address: SocketAddr, store: &Arc<Faulty>, counted: &Arc<Accounting>) -> NodeListener {
    NodeListener::start(address, Arc::clone(store) as _, Arc::clone(counted)).unwrap()
}

/// A collector that sends all frames of one line each, and gives its connection.
fn send(address: SocketAddr, numbers: &[u64]) -> std::net::TcpStream {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut bytes = [&wire::hello(&IDENTITY)[..], &wire::start(1)].concat();
    for &number in numbers {
        let mut builder = record::FrameBuilder::new();
        let origin = record::Origin::new(record::Transport::SyslogTcp, record::Format::Auto, None);
        builder.push_lines(&origin, 1, b"a line\n");
        bytes.extend_from_slice(builder.finish(IDENTITY.node, number).unwrap().bytes());
    }
    // It may be gone already.
    let _ = stream.write_all(&bytes);
    stream
}

/// Waits until so many frames are acknowledged. False when the connection ends before.
fn acknowledged(stream: &mut std::net::TcpStream, frames: u64) -> bool {
    let mut reader = wire::CollectorReader::default();
    let mut bytes = [0; 64];
    loop {
        match stream.read(&mut bytes) {
            Ok(count @ 1..) => reader.push(&bytes[..count]),
            _ => return false,
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
fn whichever_thread_panics_the_next_listener_takes_the_rest_once() {
    for fault in ["admit", "keep"] {
        let (store, accounting) = (Arc::new(Faulty::default()), Arc::default());
        let counts = |accounting: &Accounting| accounting.source(SourceKind::Node).counts();
        let listener = listen("127.0.0.1:0".parse().unwrap(), &store, &accounting);
        let address = listener.local_addr();
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
fn none_takes_its_place_before_the_store_knows_what_it_has() {
    let (store, accounting) = (Arc::new(Faulty::default()), Arc::default());
    store.hold.store(true, Relaxed);
    let listener = listen("127.0.0.1:0".parse().unwrap(), &store, &accounting);
    let address = listener.local_addr();
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
