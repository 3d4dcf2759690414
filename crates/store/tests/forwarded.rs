//! Frames of other nodes: which of them are there is known after every end, also when the segments that held them are
//! sealed or gone.

mod common;

use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc;

use common::{TestHost, all, config, frame_at, open, parse_all, work};
use platform::{Clock, Disk, ManualClock, SimDisk};
use store::{NODES_MAX, NodeIdentity, NodeRefusal, Store, StoreConfig};

const NODE: u32 = 77;

fn identity(starts: u64, run: u64) -> NodeIdentity {
    NodeIdentity { node: NODE, key: 5, starts, run }
}

/// Makes frames with these numbers durable.
fn forward(store: &Store, numbers: impl IntoIterator<Item = u64>) {
    let (sender, receiver) = mpsc::channel();
    for number in numbers {
        let sender = sender.clone();
        let frame = frame_at((NODE, number), 3, 100, 1);
        store.append_forwarded(frame, Box::new(move |r| sender.send(r).unwrap())).unwrap();
    }
    drop(sender);
    receiver.iter().for_each(|result| result.unwrap());
}

fn held(store: &Store) -> Vec<(u64, u64)> {
    store.held(NODE).ranges().collect()
}

fn bench() -> (StoreConfig, Arc<dyn Disk>, Arc<dyn Clock>) {
    (config(Path::new("/data")), Arc::new(SimDisk::new(1)), Arc::new(ManualClock::new(0)))
}

#[test]
fn numbers_are_known_after_a_restart_and_lines_have_ids_of_their_own() {
    let (config, disk, clock) = bench();
    let store = open(&config, &disk, &clock);
    store.admit(&identity(1, 1), 1).unwrap();
    forward(&store, 1..=4);
    // A jump over more than the low half of a number tells.
    let far = 9 << 32;
    store.admit(&identity(1, 1), far).unwrap();
    forward(&store, [far, far + 2]);
    let expected = vec![(1, far), (far + 2, far + 2)];
    assert_eq!(held(&store), expected);
    let ids: Vec<u64> = all(&store).iter().map(store::FrameHandle::sequence).collect();
    assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "{ids:?}");
    drop(store);
    let store = open(&config, &disk, &clock);
    assert_eq!(held(&store), expected);
    forward(&store, [far + 1]);
    assert_eq!(held(&store), [(1, far + 2)]);
    let (_, next) = store.next_sequence();
    assert!(next > ids[5] + 1, "numbers of forwarded frames are not given again");
    for id in ids {
        let found = store.find(record::LineId { sequence: id, line: 1 }).unwrap();
        assert_eq!(found.len(), 1, "line {id}-1");
    }
}

#[test]
fn numbers_outlive_their_segments() {
    let (config, disk, clock) = bench();
    let host = TestHost::new();
    let store = open(&config, &disk, &clock);
    store.admit(&identity(1, 1), 1).unwrap();
    forward(&store, 1..=4);
    store.roll();
    parse_all(&store, &host);
    work(&store, &host);
    assert_eq!(store.stats().sealing.sealed_segments, 1);
    drop(store);
    let store = open(&config, &disk, &clock);
    assert_eq!(held(&store), [(1, 4)], "after sealing");
    forward(&store, 5..=6);
    store.roll();
    drop(store);
    let expiring = StoreConfig { age_ns: Some(1), ..config.clone() };
    let store = open(&expiring, &disk, &clock);
    store.run_retention(i64::MAX);
    assert_eq!(all(&store).len(), 0);
    drop(store);
    assert_eq!(held(&open(&config, &disk, &clock)), [(1, 6)], "after everything was deleted");
}

#[test]
fn copies_and_namesakes_are_refused() {
    let (config, disk, clock) = bench();
    let store = open(&config, &disk, &clock);
    let admit = |identity: NodeIdentity| store.admit(&identity, 1);
    admit(identity(2, 8)).unwrap();
    admit(identity(2, 8)).unwrap();
    assert!(matches!(admit(identity(2, 9)), Err(NodeRefusal::Copy(NODE))));
    assert!(matches!(admit(identity(1, 8)), Err(NodeRefusal::Copy(NODE))));
    admit(identity(3, 9)).unwrap();
    let other = NodeIdentity { key: 6, ..identity(4, 1) };
    assert!(matches!(admit(other), Err(NodeRefusal::Taken(NODE))));
    let own = NodeIdentity { node: store.node(), ..identity(1, 1) };
    assert!(matches!(admit(own), Err(NodeRefusal::Taken(_))));
    for node in 1_000_000..1_000_000 + NODES_MAX as u32 - 1 {
        admit(NodeIdentity { node, ..identity(1, 1) }).unwrap();
    }
    let more = NodeIdentity { node: 5, ..identity(1, 1) };
    assert!(matches!(admit(more), Err(NodeRefusal::TooMany)));
}
