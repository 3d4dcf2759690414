//! Runs both sides of the protocol in one thread, from a seed: connections are cut at any byte,
//! bytes in flight arrive late or on a connection that the collector has given up, and the store
//! crashes and keeps any subset of the unacknowledged frames.
//!
//! The reference model is simple: a list of the frames the store has, and a set of those it
//! acknowledged.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use fastrand::Rng;
use record::{Format, Frame, FrameBuilder, NodeIdentity, Numbers, Origin, Transport};

use super::secret::{NONCE_BYTES, Secret};
use super::sender::{Heard, Sender};
use super::session::{Brought, Ledger, Session};
use super::wire::StoreHealth;

const NODE: u32 = 7;
const STORE: u32 = 9;

/// A connection with the bytes in flight.
#[derive(Default)]
struct Connection {
    session: Session,
    to_store: VecDeque<u8>,
    to_collector: VecDeque<u8>,
    /// The collector no longer reads it; bytes it sent may still arrive.
    given_up: bool,
}

/// A store that keeps whole frames in a list.
#[derive(Default)]
struct Store {
    durable: Vec<u64>,
    held: Numbers,
    /// Passed to the store, not durable yet.
    queue: VecDeque<u64>,
    ledger: Ledger,
}

struct World {
    random: Rng,
    store: Store,
    connections: BTreeMap<u64, Connection>,
    connection_next: u64,
    /// The collector's connection.
    current: Option<(u64, Sender<u64>)>,
    /// Numbers that were assigned and are not acknowledged, and that the current connection did not
    /// send.
    unsettled: VecDeque<u64>,
    number_next: u64,
    given: BTreeSet<u64>,
    acknowledged: BTreeSet<u64>,
    /// No more new frames.
    ending: bool,
}

fn frame(number: u64) -> Frame {
    let mut builder = FrameBuilder::new();
    let origin = Origin::new(Transport::SyslogTcp, Format::Auto, None);
    builder.push_lines(&origin, 1, format!("{number}\n").as_bytes());
    builder.finish(NODE, number).unwrap()
}

impl World {
    fn new(seed: u64) -> World {
        World {
            random: Rng::with_seed(seed),
            store: Store::default(),
            connections: BTreeMap::new(),
            connection_next: 0,
            current: None,
            unsettled: VecDeque::new(),
            number_next: 1,
            given: BTreeSet::new(),
            acknowledged: BTreeSet::new(),
            ending: false,
        }
    }

    fn step(&mut self) {
        match self.random.u8(..100) {
            0..25 => self.collector_sends(),
            25..50 => self.bytes_arrive_at_store(),
            50..70 => self.bytes_arrive_at_collector(),
            70..85 => self.store_commits(),
            _ => self.store_tells(),
        }
    }

    fn fault(&mut self) {
        match self.random.u8(..10) {
            0..3 => self.cut(),
            3..6 => self.give_up(),
            6..8 => self.store_crashes(),
            // Unused numbers: a crash of the collector leaves such gaps.
            _ => self.number_next += self.random.u64(1..5),
        }
    }

    fn connect(&mut self) {
        let identity = NodeIdentity { node: NODE, key: 1, starts: 1, run: 1 };
        let secret = || Some(Arc::new(Secret::new(b"a secret of the simulation").unwrap()));
        let nonce = [self.connection_next as u8; NONCE_BYTES];
        let (sender, hello) = Sender::new(&identity, secret(), nonce);
        let mut connection =
            Connection { session: Session::new(secret()), ..Connection::default() };
        connection.to_store.extend(hello);
        self.connections.insert(self.connection_next, connection);
        self.current = Some((self.connection_next, sender));
        self.connection_next += 1;
    }

    fn collector_sends(&mut self) {
        let Some((id, sender)) = &mut self.current else { return self.connect() };
        if !sender.is_open() {
            return;
        }
        let number = match self.unsettled.pop_front() {
            Some(number) => number,
            None if self.ending => return,
            None => {
                self.number_next += 1;
                self.number_next - 1
            }
        };
        self.given.insert(number);
        sender.begin(number);
        sender.finish();
        let connection = self.connections.get_mut(id).expect("it is current");
        connection.to_store.extend(frame(number).bytes());
    }

    /// The collector considers the connection lost; the store may still read bytes in flight.
    fn give_up(&mut self) {
        let Some((id, sender)) = self.current.take() else { return };
        let mut again: Vec<u64> = sender.into_unacknowledged().into();
        again.extend(self.unsettled.drain(..));
        self.random.shuffle(&mut again);
        self.unsettled = again.into();
        self.connections.get_mut(&id).expect("it is current").given_up = true;
    }

    /// The connection ends for both sides; bytes in flight are lost.
    fn cut(&mut self) {
        let ids: Vec<u64> = self.connections.keys().copied().collect();
        let Some(&id) = self.random.choice(&ids) else { return };
        if self.current.as_ref().is_some_and(|(current, _)| *current == id) {
            self.give_up();
        }
        self.connections.remove(&id);
    }

    fn bytes_arrive_at_store(&mut self) {
        let mut connections: Vec<&mut Connection> = self.connections.values_mut().collect();
        if connections.is_empty() {
            return;
        }
        let index = self.random.usize(..connections.len());
        let connection = &mut connections[index];
        let count = self.random.usize(..=connection.to_store.len());
        for byte in connection.to_store.drain(..count).collect::<Vec<u8>>() {
            connection.session.reader.buffer().push(byte);
            match connection.session.take().expect("nobody breaks the protocol") {
                None | Some(Brought::Keepalive) => {}
                Some(Brought::Hello) => {
                    let nonce = [self.random.u8(..); NONCE_BYTES];
                    connection.to_collector.extend(connection.session.welcome(STORE, nonce));
                }
                Some(Brought::Start { identity, first }) => {
                    self.store.ledger.add_held(identity.node, &self.store.held);
                    let answer = connection.session.admitted(first, &self.store.ledger);
                    connection.to_collector.extend(answer);
                }
                Some(Brought::Frame(frame)) => {
                    let number = frame.header().sequence;
                    if self.store.ledger.take(NODE, number) {
                        self.store.queue.push_back(number);
                    }
                }
            }
        }
    }

    fn bytes_arrive_at_collector(&mut self) {
        let Some((id, sender)) = &mut self.current else { return };
        let connection = self.connections.get_mut(id).expect("it is current");
        let count = self.random.usize(..=connection.to_collector.len());
        let bytes: Vec<u8> = connection.to_collector.drain(..count).collect();
        let mut newly = Vec::new();
        sender.push(&bytes);
        while let Some(heard) = sender.hear().expect("nobody breaks the protocol") {
            match heard {
                Heard::Welcome { store } => {
                    assert_eq!(store, STORE);
                    let least = self.unsettled.iter().copied().min();
                    let first = least.unwrap_or(self.number_next);
                    connection.to_store.extend(sender.start(first));
                }
                Heard::Open { through } => {
                    let there = self.unsettled.iter().copied().filter(|n| *n <= through);
                    newly.extend(there);
                    self.unsettled.retain(|number| *number > through);
                }
                Heard::Acknowledged { items, .. } => newly.extend(items),
            }
        }
        self.acknowledged.extend(newly.iter().copied());
        let has = |number| self.store.durable.contains(number);
        assert!(newly.iter().all(has), "what is acknowledged is durable");
    }

    fn store_commits(&mut self) {
        let count = self.random.usize(..=self.store.queue.len());
        for number in self.store.queue.drain(..count) {
            self.store.durable.push(number);
            self.store.held.insert(number);
            self.store.ledger.set_durable(NODE, number);
        }
    }

    fn store_tells(&mut self) {
        for connection in self.connections.values_mut() {
            let always = self.random.bool();
            let ack = connection.session.ack(&self.store.ledger, StoreHealth::Ok, always);
            connection.to_collector.extend(ack.into_iter().flatten());
        }
    }

    /// After a crash, any subset of the frames that were not durable may be found.
    fn store_crashes(&mut self) {
        self.give_up();
        self.connections.clear();
        for number in std::mem::take(&mut self.store.queue) {
            if self.random.bool() {
                self.store.durable.push(number);
            }
        }
        // The store knows only the numbers of its frames.
        self.store.held = Numbers::new();
        self.store.durable.iter().for_each(|number| self.store.held.insert(*number));
        self.store.ledger = Ledger::default();
    }

    fn check_end(mut self) {
        self.ending = true;
        for _ in 0..1_000_000 {
            if self.acknowledged == self.given && self.unsettled.is_empty() {
                let mut durable = self.store.durable.clone();
                durable.sort_unstable();
                let given: Vec<u64> = self.given.into_iter().collect();
                assert_eq!(durable, given, "each frame is there, once");
                return;
            }
            self.step();
        }
        panic!("it does not come to an end");
    }
}

#[test]
fn each_frame_is_kept_once_whatever_happens_on_the_way() {
    let seeds = std::env::var("LOGINSON_SEED").ok().and_then(|seed| seed.parse().ok());
    let seeds = seeds.map_or(0..100, |seed: u64| seed..seed + 1);
    let mut frames = 0;
    for seed in seeds {
        let mut world = World::new(seed);
        println!("LOGINSON_SEED={seed}");
        // Fault rates from almost none to so high that connections hardly open.
        let fault_rate = 0.03 * world.random.f64().powi(2);
        for _ in 0..3_000 {
            match world.random.f64() < fault_rate {
                true => world.fault(),
                false => world.step(),
            }
        }
        frames += world.given.len();
        world.check_end();
    }
    assert!(frames > 0);
}
