//! Copies over real connections, while stores and the collector are killed and started again:
//! whatever happens, every line that counts as kept is in each copy once, and has the same name in
//! all of them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use fastrand::Rng;
use platform::SimDisk;
use record::{Format, FrameBuilder, NodeIdentity, Numbers, Origin, Transport};

use super::super::forward;
use super::super::held_address::HeldAddress;
use super::super::listen::{NodeListenConfig, NodeListener, NodeStore};
use super::super::status::Link;
use super::*;
use crate::accounting::Accounting;

const PATIENCE: Duration = Duration::from_secs(300);

/// What a store has: the line of each frame, by number.
type Kept = BTreeMap<u64, Vec<u8>>;

/// What sources were told about their lines.
type Told = Arc<Mutex<BTreeMap<Vec<u8>, Result<(), KeepError>>>>;

/// A store that keeps frames at once, or holds them until it is told or killed.
struct Store {
    id: u32,
    kept: Mutex<Kept>,
    hold: AtomicBool,
    on_their_way: Mutex<Vec<(Frame, OnDurable)>>,
}

impl Store {
    fn make_durable(&self, frame: &Frame) {
        let line = frame.lines().next().expect("a frame has a line").bytes.to_vec();
        let before = lock(&self.kept).insert(frame.header().sequence, line);
        assert_eq!(before, None, "a number is kept once");
    }

    fn release(&self) {
        self.hold.store(false, Relaxed);
        for (frame, on_durable) in lock(&self.on_their_way).drain(..) {
            self.make_durable(&frame);
            on_durable(Ok(()));
        }
    }

    fn lines(&self) -> BTreeSet<Vec<u8>> {
        lock(&self.kept).values().cloned().collect()
    }
}

impl NodeStore for Store {
    fn id(&self) -> u32 {
        self.id
    }

    fn admit(&self, _: &NodeIdentity, _: u64) -> Result<Numbers, String> {
        let mut held = Numbers::new();
        lock(&self.kept).keys().for_each(|&number| held.insert(number));
        Ok(held)
    }

    fn keep(&self, frame: Frame, on_durable: OnDurable) -> Result<(), KeepError> {
        if self.hold.load(Relaxed) {
            lock(&self.on_their_way).push((frame, on_durable));
        } else {
            self.make_durable(&frame);
            on_durable(Ok(()));
        }
        Ok(())
    }

    fn refusal(&self) -> Option<KeepError> {
        None
    }
}

/// A store with its address, which listens or is away.
struct Machine {
    address: SocketAddr,
    _held: HeldAddress,
    store: Arc<Store>,
    listener: Option<NodeListener>,
}

impl Machine {
    /// A store that is away.
    fn new(id: u32) -> Machine {
        let held = HeldAddress::take();
        let (kept, on_their_way) = (Mutex::default(), Mutex::default());
        let store = Arc::new(Store { id, kept, hold: AtomicBool::new(false), on_their_way });
        Machine { address: held.address, _held: held, store, listener: None }
    }

    fn start(&mut self) {
        let config = NodeListenConfig::new(self.address);
        let store = Arc::clone(&self.store) as _;
        let listener = NodeListener::start(config, store, Arc::<Accounting>::default());
        self.listener = Some(listener.expect("the address is free"));
    }

    /// Of the frames on their way it keeps some.
    fn kill(&mut self, random: &mut Rng) {
        self.listener = None;
        for (frame, _) in lock(&self.store.on_their_way).drain(..) {
            if random.bool() {
                self.store.make_durable(&frame);
            }
        }
        self.store.hold.store(false, Relaxed);
    }
}

/// The stores of all copies, and a collector that delivers to them.
struct World {
    random: Rng,
    disk: SimDisk,
    config: ForwardConfig,
    /// By copy, then by stripe.
    machines: Vec<Vec<Machine>>,
    copies: Option<Copies>,
    lines: usize,
    told: Told,
}

impl World {
    /// All stores are away, and there is no collector.
    fn new(seed: u64, copies: u32, stores: u32) -> World {
        let machines: Vec<Vec<Machine>> = (0..copies)
            .map(|copy| (0..stores).map(|store| Machine::new(1 + 10 * copy + store)).collect())
            .collect();
        let addresses = |copy: &Vec<Machine>| copy.iter().map(|m| m.address.to_string()).collect();
        let config = ForwardConfig {
            stores: Vec::new(),
            copies: machines.iter().map(addresses).collect(),
            spool_dir: "/spool".into(),
            spool_bytes_max: 1 << 30,
            window_bytes: 4_000,
            spool_always: false,
            lost_stores: Vec::new(),
            secret: None,
        };
        World {
            random: Rng::with_seed(seed),
            disk: SimDisk::new(seed),
            config,
            machines,
            copies: None,
            lines: 0,
            told: Arc::default(),
        }
    }

    fn start_all(&mut self) {
        self.machines
            .iter_mut()
            .flatten()
            .filter(|m| m.listener.is_none())
            .for_each(Machine::start);
    }

    fn start_collector(&mut self) {
        let disk = Arc::new(self.disk.clone());
        self.copies = Some(Copies::start(self.config.clone(), disk).expect("it starts"));
    }

    fn copies(&self) -> &Copies {
        self.copies.as_ref().expect("the collector runs")
    }

    fn status(&self) -> CopiesStatus {
        self.copies().status().copies.expect("there are copies")
    }

    /// Delivers the next line, padded by `bytes`.
    fn deliver(&mut self, bytes: usize) {
        deliver(self.copies(), self.lines, bytes, &self.told);
        self.lines += 1;
    }

    fn wait_for(&self, what: &str, holds: impl Fn(&World) -> bool) {
        let begun = Instant::now();
        while !holds(self) {
            assert!(begun.elapsed() < PATIENCE, "waited too long for {what}: {:#?}", self.state());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn state(&self) -> Option<ForwardStatus> {
        self.copies.as_ref().map(Forward::status)
    }

    fn is_told(&self) -> bool {
        lock(&self.told).len() == self.lines
    }

    fn connected(&self) -> usize {
        let stores = self.copies().status().stores;
        stores.iter().filter(|store| matches!(store.link, Link::Connected)).count()
    }

    /// Waits until all stores have what they will get.
    fn wait_for_the_end(&self) {
        self.wait_for("everything to be delivered", |world| {
            let missing = world.status().lines_missing;
            world.is_told() && missing.iter().all(|lines| *lines == 0)
        });
        assert_eq!(self.status().lines_single, 0);
    }

    fn kept(&self, copy: usize, stripe: usize) -> Kept {
        lock(&self.machines[copy][stripe].store.kept).clone()
    }

    /// Each line that counts as kept is in each copy once. Other lines may be in one of them. A
    /// line has the same number in all copies.
    fn check(&self, all_kept: bool) {
        let told = lock(&self.told);
        let kept = |line: &Vec<u8>| told.get(line).is_some_and(Result::is_ok);
        for stripe in 0..self.machines[0].len() {
            let first = self.kept(0, stripe);
            for copy in 1..self.machines.len() {
                let other = self.kept(copy, stripe);
                let differ = |a: &Kept, b: &Kept| -> Vec<_> {
                    a.iter()
                        .filter(|(number, line)| b.get(number) != Some(*line) && kept(line))
                        .map(|(number, line)| (*number, String::from_utf8_lossy(line).into_owned()))
                        .collect()
                };
                assert_eq!(differ(&first, &other), [], "stripe {stripe} misses in copy {copy}");
                assert_eq!(
                    differ(&other, &first),
                    [],
                    "stripe {stripe} of copy {copy} misses in 0"
                );
                let both = first.iter().filter_map(|(n, line)| Some((line, other.get(n)?)));
                both.for_each(|(a, b)| assert_eq!(a, b, "a number names one line"));
            }
        }
        for copy in &self.machines {
            let mut found = BTreeMap::<Vec<u8>, usize>::new();
            for store in copy {
                for line in lock(&store.store.kept).values() {
                    *found.entry(line.clone()).or_default() += 1;
                }
            }
            assert!(found.values().all(|&count| count == 1), "a line is there twice");
            let lost = told.keys().filter(|line| kept(line) && !found.contains_key(*line)).count();
            assert_eq!(lost, 0, "lines are lost");
            if all_kept {
                assert_eq!(found.len(), self.lines);
            }
        }
    }
}

/// Delivers a frame of one line, padded by `bytes`.
fn deliver(copies: &Copies, number: usize, bytes: usize, told: &Told) {
    let line = format!("line {number} {}", "x".repeat(bytes)).into_bytes();
    let origin = Origin::new(Transport::SyslogTcp, Format::Auto, None);
    let mut builder = FrameBuilder::new();
    builder.push_line(&origin, 1_700_000_000_000_000_000, &line, false);
    let (node, sequence) = copies.next_sequence();
    let frame = builder.finish(node, sequence).expect("it has a line");
    let told = Arc::clone(told);
    let on_durable = Box::new(move |result| {
        assert_eq!(lock(&told).insert(line, result), None, "a source is notified once");
    });
    // The source hears of an error.
    let _ = copies.deliver(frame, on_durable, Patience::Unlimited);
}

fn seeds(count: u64) -> std::ops::Range<u64> {
    let seed = std::env::var("LOGINSON_SEED").ok().and_then(|seed| seed.parse().ok());
    seed.map_or(0..count, |seed: u64| seed..seed + 1)
}

#[test]
fn stores_that_come_and_go_leave_equal_copies() {
    for seed in seeds(8) {
        println!("LOGINSON_SEED={seed}");
        let mut world = World::new(seed, 2 + (seed % 4 / 3) as u32, 1 + (seed % 2) as u32);
        world.config.spool_always = seed % 8 > 5;
        world.start_collector();
        for _ in 0..150 {
            match world.random.u8(..10) {
                0..8 => {
                    let bytes = world.random.usize(10..900);
                    world.deliver(bytes);
                }
                8 => {
                    let copy = world.random.usize(..world.machines.len());
                    let stripe = world.random.usize(..world.machines[0].len());
                    let machine = &mut world.machines[copy][stripe];
                    match machine.listener {
                        None => machine.start(),
                        Some(_) if world.random.bool() => machine.kill(&mut world.random),
                        Some(_) => machine.store.hold.store(true, Relaxed),
                    }
                }
                _ => std::thread::sleep(Duration::from_millis(world.random.u64(..20))),
            }
        }
        world.start_all();
        world.machines.iter().flatten().for_each(|machine| machine.store.release());
        world.wait_for_the_end();
        world.check(true);
        for stripe in 0..world.machines[0].len() {
            let numbers: Vec<u64> = world.kept(0, stripe).into_keys().collect();
            assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]), "no gaps: {numbers:?}");
        }
    }
}

#[test]
fn a_collector_that_is_killed_leaves_what_counts_as_kept_in_all_copies() {
    for seed in seeds(8) {
        println!("LOGINSON_SEED={seed}");
        let mut world = World::new(seed, 2, 1 + (seed % 2) as u32);
        world.config.spool_always = seed % 4 > 1;
        for _ in 0..4 {
            world.start_collector();
            for machine in world.machines.iter_mut().flatten() {
                match world.random.u8(..3) {
                    0 => machine.kill(&mut world.random),
                    1 if machine.listener.is_none() => machine.start(),
                    _ => {}
                }
            }
            let lines = world.random.usize(..40);
            (0..lines).for_each(|_| world.deliver(100));
            if world.random.bool() {
                world.wait_for("the copies or the spool to have the lines", World::is_told);
            }
            // Nothing that happens from now on is written.
            world.disk.crash();
            world.machines.iter_mut().flatten().for_each(|machine| machine.listener = None);
            world.copies = None;
            assert!(world.is_told());
            world.disk.restart();
        }
        world.start_collector();
        (0..10).for_each(|_| world.deliver(100));
        world.start_all();
        world.wait_for_the_end();
        world.check(false);
    }
}

#[test]
fn a_copy_that_is_away_gets_its_lines_later() {
    for stores in [1, 2] {
        let mut world = World::new(1, 2, stores);
        world.machines[0].iter_mut().for_each(Machine::start);
        world.start_collector();
        world.wait_for("the first copy", |world| world.connected() == stores as usize);
        (0..200).for_each(|_| world.deliver(100));
        world.wait_for("one copy and the spool", |world| {
            world.is_told() && world.status().lines_missing == [0, 200]
        });
        assert_eq!(world.status().lines_single, 200);
        let first: BTreeSet<_> = world.machines[0].iter().flat_map(|m| m.store.lines()).collect();
        assert_eq!(first.len(), 200);

        // Both the stop and the start find them.
        world.copies = None;
        world.start_collector();
        assert_eq!(world.status().lines_missing, [0, 200]);
        world.start_all();
        world.wait_for_the_end();
        world.check(true);
        assert!(world.disk.list(Path::new("/spool/copy-2-store-1")).unwrap().is_empty());
    }
}

#[test]
fn a_full_spool_pushes_senders_back_rather_than_leave_lines_single() {
    let mut world = World::new(1, 2, 1);
    world.config.spool_bytes_max = 8 << 20;
    world.config.window_bytes = 1 << 20;
    world.machines[0][0].start();
    world.start_collector();
    world.wait_for("the first copy", |world| world.connected() == 1);
    const FRAMES: usize = 60;
    let mut away = world.machines[1].pop().expect("it has a store");
    std::thread::scope(|scope| {
        scope.spawn(|| (0..FRAMES).for_each(|i| deliver(world.copies(), i, 1 << 20, &world.told)));
        world.wait_for("senders to be pushed back", |world| world.status().frames_held_back > 0);
        world.wait_for("the first copy to have the rest", |world| {
            world.status().lines_missing[0] == 0
        });
        let there = world.kept(0, 0).len();
        assert!(there < FRAMES, "lines went to one copy, and nothing would say so");
        let state = world.copies().status();
        assert!(state.spool.full && !state.ready, "{state:?}");
        assert!(!world.copies().has_room());
        assert_eq!(world.status().lines_single, there as u64);
        away.start();
    });
    world.machines[1].push(away);
    world.lines = FRAMES;
    world.wait_for_the_end();
    world.check(true);
}

fn start_error(world: &World) -> String {
    let started = forward(world.config.clone(), Arc::new(world.disk.clone()));
    started.err().expect("it does not start").to_string()
}

#[test]
fn lines_of_another_configuration_are_not_left_behind() {
    let mut world = World::new(1, 2, 2);
    let as_before = world.config.clone();
    world.start_collector();
    (0..10).for_each(|_| world.deliver(100));
    world.wait_for("the spool", World::is_told);
    world.copies = None;

    world.config.copies.iter_mut().for_each(|copy| copy.truncate(1));
    let error = start_error(&world);
    assert!(
        error.contains("5 lines in /spool/copy-1-store-2 wait") && error.contains("start with")
    );
    world.config.copies.clear();
    world.config.stores = vec!["127.0.0.1:1".to_owned()];
    assert!(start_error(&world).contains("(store 1 of copy 1)"));
    world.config.copies = vec![vec!["a:1".into()], vec!["b:1".into(), "c:1".into()]];
    assert!(start_error(&world).contains("[1, 2] stores"));

    // A further copy gets the lines from now on.
    world.config = as_before;
    world.start_all();
    let further = vec![Machine::new(21), Machine::new(22)];
    world.config.copies.push(further.iter().map(|m| m.address.to_string()).collect());
    world.start_collector();
    world.wait_for("the two copies", |world| world.status().lines_missing == [0, 0, 0]);
    (0..10).for_each(|_| world.deliver(100));
    world.machines.push(further);
    world.start_all();
    world.wait_for_the_end();
    assert_eq!(world.machines[2].iter().map(|m| m.store.lines().len()).sum::<usize>(), 10);

    // Nothing waits, so each configuration is fine. Then lines wait that have no copies.
    world.copies = None;
    let with_copies = std::mem::take(&mut world.config.copies);
    world.config.stores = vec!["127.0.0.1:1".to_owned()];
    let alone = Forwarder::start(world.config.clone(), Arc::new(world.disk.clone())).unwrap();
    let mut builder = FrameBuilder::new();
    let origin = Origin::new(Transport::SyslogTcp, Format::Auto, None);
    builder.push_lines(&origin, 1, b"one\n");
    let frame = builder.finish(alone.next_sequence().0, 1).unwrap();
    let (sender, kept) = std::sync::mpsc::channel();
    let on_durable = Box::new(move |result| sender.send(result).unwrap());
    alone.deliver(frame, on_durable, Patience::Unlimited).unwrap();
    kept.recv_timeout(PATIENCE).unwrap().unwrap();
    drop(alone);
    world.config.copies = with_copies;
    assert!(start_error(&world).contains("1 lines in /spool wait"));
}

#[test]
fn a_store_at_another_place_than_before_gets_nothing() {
    let mut world = World::new(1, 2, 1);
    world.start_all();
    world.start_collector();
    world.wait_for("both copies", |world| world.connected() == 2);
    world.copies = None;
    world.config.copies.reverse();
    world.start_collector();
    (0..5).for_each(|_| world.deliver(100));
    let refused = |world: &World, text: &str| {
        let status = world.copies().status();
        status
            .stores
            .iter()
            .all(|store| matches!(&store.link, Link::Away { error } if error.contains(text)))
    };
    world.wait_for("both to be refused", |world| refused(world, "leads to store 1 of copy"));
    world.copies = None;
    assert!(world.machines.iter().flatten().all(|machine| machine.store.lines().is_empty()));
    // With the stores given up, they may have any place.
    world.config.lost_stores = vec![1, 11];
    world.start_collector();
    world.wait_for_the_end();
    world.check(true);
}

/// Threads panic at each change of the disk while a store goes away and comes back.
#[test]
fn copies_are_equal_wherever_a_thread_panics() {
    let run = |change: Option<u64>| {
        let mut world = World::new(7, 2, 1);
        world.start_all();
        world.start_collector();
        world.wait_for("both copies", |world| world.connected() == 2);
        // Sources are not to panic, which happens when numbers are reserved.
        world.deliver(100);
        world.wait_for_the_end();
        let before = world.disk.changes();
        if let Some(change) = change {
            world.disk.panic_at_change(change);
        }
        (0..8).for_each(|_| world.deliver(100));
        world.wait_for("both copies to have the first lines", World::is_told);
        world.machines[1][0].store.hold.store(true, Relaxed);
        (0..8).for_each(|_| world.deliver(100));
        world.wait_for("lines to be on their way", |world| {
            let sent = lock(&world.machines[1][0].store.on_their_way).len();
            sent == 8 || world.state().is_some_and(|state| state.threads_failed > 0)
        });
        let mut random = Rng::with_seed(change.unwrap_or(0));
        world.machines[1][0].kill(&mut random);
        (0..8).for_each(|_| world.deliver(100));
        world.wait_for("the spool", World::is_told);
        world.start_all();
        world.wait_for_the_end();
        world.check(true);
        let changes = world.disk.changes() - before;
        let failed = world.copies().status().threads_failed;
        let expected = change.is_some() && world.disk.is_healthy();
        assert_eq!(failed, u64::from(expected), "{change:?}");
        world.disk.clear_faults();
        changes
    };
    let changes = run(None);
    assert!(changes > 10, "{changes} changes are few");
    let changes: Vec<u64> = (1..=changes).collect();
    for several in changes.chunks(16) {
        std::thread::scope(|scope| {
            several.iter().for_each(|&change| drop(scope.spawn(move || run(Some(change)))));
        });
    }
}
