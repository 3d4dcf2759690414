//! A collector whose threads panic at each change of its disk, and whenever they notify a source,
//! while its store disconnects and reconnects over real connections: every frame is stored once,
//! and every source is notified once.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::AtomicUsize;

use platform::SimDisk;
use record::{Format, FrameBuilder, NodeIdentity, Numbers, Origin, Transport};

use super::super::held_address::HeldAddress;
use super::super::listen::{NodeListenConfig, NodeListener, NodeStore};
use super::*;
use crate::accounting::Accounting;

/// Frames sent in each phase: acknowledged before the store disconnects, in flight when it
/// disconnects, and sent afterwards.
const FRAMES: [usize; 3] = [8, 12, 12];
const ALL: usize = FRAMES[0] + FRAMES[1] + FRAMES[2];

/// Where a thread panics.
#[derive(Clone, Copy, Debug)]
enum Fault {
    None,
    /// At this change of the disk.
    Change(u64),
    /// While notifying the source of this frame.
    Source(usize),
}

/// A store that keeps frames at once, or holds them until told.
#[derive(Default)]
struct Store {
    kept: Mutex<BTreeMap<Vec<u8>, usize>>,
    held: Mutex<Numbers>,
    hold: AtomicBool,
    on_their_way: Mutex<Vec<(Frame, OnDurable)>>,
}

impl Store {
    fn make_durable(&self, frames: usize) {
        let mut on_their_way = lock(&self.on_their_way);
        let frames = frames.min(on_their_way.len());
        for (frame, on_durable) in on_their_way.drain(..frames) {
            lock(&self.held).insert(frame.header().sequence);
            for line in frame.lines() {
                *lock(&self.kept).entry(line.bytes.to_vec()).or_default() += 1;
            }
            on_durable(Ok(()));
        }
    }

    fn on_their_way(&self) -> usize {
        lock(&self.on_their_way).len()
    }
}

impl NodeStore for Store {
    fn id(&self) -> u32 {
        1
    }

    fn admit(&self, _: &NodeIdentity, _: u64) -> Result<Numbers, String> {
        Ok(lock(&self.held).clone())
    }

    fn keep(&self, frame: Frame, on_durable: OnDurable) -> Result<(), KeepError> {
        lock(&self.on_their_way).push((frame, on_durable));
        if !self.hold.load(Relaxed) {
            self.make_durable(1);
        }
        Ok(())
    }

    fn refusal(&self) -> Option<KeepError> {
        None
    }
}

fn listen(address: SocketAddr, store: &Arc<Store>) -> NodeListener {
    let config = NodeListenConfig::new(address);
    NodeListener::start(config, Arc::clone(store) as _, Arc::<Accounting>::default()).unwrap()
}

/// Delivers frames of one line each; `told` counts the notifications of their sources.
fn deliver(
    forwarder: &Forwarder,
    frames: std::ops::Range<usize>,
    fault: Fault,
    told: &Arc<Vec<AtomicUsize>>,
) {
    let origin = Origin::new(Transport::SyslogTcp, Format::Auto, None);
    for number in frames {
        let mut builder = FrameBuilder::new();
        builder.push_lines(&origin, 1, format!("line {number}\n").as_bytes());
        let (node, sequence) = forwarder.next_sequence();
        let frame = builder.finish(node, sequence).unwrap();
        let told = Arc::clone(told);
        let on_durable = move |result: Result<(), KeepError>| {
            assert_eq!(result, Ok(()));
            told[number].fetch_add(1, Relaxed);
            if matches!(fault, Fault::Source(source) if source == number) {
                panic!("a fault over frame {number}, which is tested");
            }
        };
        forwarder.deliver(frame, Box::new(on_durable), Patience::Unlimited).unwrap();
    }
}

fn wait_for(what: &str, fault: Fault, holds: impl Fn() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(
            begun.elapsed() < Duration::from_secs(300),
            "waited too long for {what}, {fault:?}"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Returns the number of changes of the disk.
fn run(fault: Fault) -> u64 {
    let (store, disk) = (Arc::new(Store::default()), SimDisk::new(3));
    let held = HeldAddress::take();
    let address = held.address;
    let listener = listen(address, &store);
    let config = ForwardConfig {
        stores: vec![address.to_string()],
        copies: Vec::new(),
        spool_dir: "/spool".into(),
        spool_bytes_max: 1 << 30,
        window_bytes: 1 << 20,
        spool_always: false,
        lost_stores: Vec::new(),
        secret: None,
    };
    let forwarder = Forwarder::start(config, Arc::new(disk.clone())).unwrap();
    let before = disk.changes();
    if let Fault::Change(change) = fault {
        disk.panic_at_change(change);
    }
    let told: Arc<Vec<AtomicUsize>> = Arc::new((0..ALL).map(|_| AtomicUsize::new(0)).collect());
    let are_told = |frames: usize| told[..frames].iter().all(|told| told.load(Relaxed) > 0);
    let [first, second, _] = FRAMES;

    deliver(&forwarder, 0..first, fault, &told);
    wait_for("frames to be acknowledged", fault, || are_told(first));
    wait_for("the connection", fault, || forwarder.shared.queue().any_open());
    store.hold.store(true, Relaxed);
    deliver(&forwarder, first..first + second, fault, &told);
    // Some may be in the spool, if a thread panicked meanwhile.
    wait_for("frames to be sent", fault, || {
        let safe = told[first..].iter().filter(|told| told.load(Relaxed) > 0).count();
        store.on_their_way() + safe >= second
    });
    drop(listener);
    // When the store disconnects, it has half of the frames in flight.
    store.make_durable(second / 2);
    lock(&store.on_their_way).clear();
    store.hold.store(false, Relaxed);
    deliver(&forwarder, first + second..ALL, fault, &told);
    wait_for("frames to be spooled", fault, || are_told(ALL));

    let _listener = listen(address, &store);
    wait_for("frames to be kept", fault, || lock(&store.kept).len() == ALL);
    let idle = || forwarder.shared.queue().is_idle() && forwarder.status().spool.lines == 0;
    wait_for("the end", fault, idle);
    let twice: Vec<_> = lock(&store.kept)
        .iter()
        .filter(|&(_, &count)| count != 1)
        .map(|(l, _)| l.clone())
        .collect();
    assert!(twice.is_empty(), "{fault:?}: {twice:?} are there twice");
    assert!(told.iter().all(|told| told.load(Relaxed) == 1), "{fault:?}: {told:?}");
    let changes = disk.changes() - before;
    let panicked = match fault {
        Fault::None => 0,
        // If threads took another path, there were fewer changes.
        Fault::Change(_) => u64::from(disk.is_healthy()),
        Fault::Source(_) => 1,
    };
    assert_eq!(forwarder.status().threads_failed, panicked, "{fault:?}");
    disk.clear_faults();
    changes
}

#[test]
fn each_frame_is_stored_once_wherever_a_thread_panics() {
    let changes = run(Fault::None);
    assert!(changes > 20, "{changes} changes are few");
    let faults: Vec<Fault> =
        (1..=changes).map(Fault::Change).chain((0..ALL).map(Fault::Source)).collect();
    for several in faults.chunks(16) {
        std::thread::scope(|scope| {
            for &fault in several {
                scope.spawn(move || run(fault));
            }
        });
    }
}

/// Senders that wait for an answer are told that there is no room, and what they were told was not
/// kept is not kept later either.
#[test]
fn lines_that_found_no_room_are_refused_and_gone() {
    let (store, disk) = (Arc::new(Store::default()), SimDisk::new(5));
    let held = HeldAddress::take();
    // Nobody listens there at first.
    let address = held.address;
    let config = ForwardConfig {
        stores: vec![address.to_string()],
        // Not even one frame.
        spool_bytes_max: 1,
        spool_dir: "/spool".into(),
        ..ForwardConfig::default()
    };
    let forwarder = Forwarder::start(config, Arc::new(disk)).unwrap();
    let origin = Origin::new(Transport::Http, Format::Auto, None);
    let push = |number: usize| {
        let mut builder = FrameBuilder::new();
        builder.push_lines(&origin, 1, format!("line {number}\n").as_bytes());
        let (node, sequence) = forwarder.next_sequence();
        let frame = builder.finish(node, sequence).unwrap();
        let (tell, told) = std::sync::mpsc::channel();
        let on_durable = Box::new(move |result| tell.send(result).unwrap());
        // An error is told as well.
        let _ = forwarder.deliver(frame, on_durable, Patience::Awaited);
        told
    };
    let waiting: Vec<_> = (0..3).map(push).collect();
    wait_for("refusals at once", Fault::None, || forwarder.refusal() == Some(KeepError::NoRoom));
    for told in &waiting {
        assert_eq!(told.recv().unwrap(), Err(KeepError::NoRoom));
    }
    wait_for("the next one to try", Fault::None, || forwarder.refusal().is_none());
    let _listener = listen(address, &store);
    wait_for("the store", Fault::None, || forwarder.shared.queue().any_open());
    assert_eq!(push(3).recv().unwrap(), Ok(()));
    let kept: Vec<_> = lock(&store.kept).keys().cloned().collect();
    assert_eq!(kept, [b"line 3"]);
}
