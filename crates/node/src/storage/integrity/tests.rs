//! Each way to change what a chain vouches for is named.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::*;
use crate::storage::backup::destination::{Address, Destination};

const TIME: &str = "2026-11-22T00:00:00Z";

/// A data directory with four segments, a chain of them that is signed in between, and copies of
/// both heads.
struct World {
    dir: TempDir,
    key: SigningKey,
}

impl World {
    fn new() -> World {
        let world = World { dir: tempfile::tempdir().unwrap(), key: SigningKey::random() };
        for folder in ["data/segments", "copies"] {
            fs::create_dir_all(world.dir.path().join(folder)).unwrap();
        }
        for segment in 1..=5 {
            fs::write(world.segment(segment), format!("segment {segment}")).unwrap();
        }
        world.make(&world.key, &[]);
        world
    }

    fn data(&self) -> std::path::PathBuf {
        self.dir.path().join("data")
    }

    fn segment(&self, segment: u64) -> std::path::PathBuf {
        self.data().join(format!("segments/{segment}.sealed"))
    }

    fn copies(&self) -> Destination {
        Destination::open(&Address::Directory(self.dir.path().join("copies"))).unwrap()
    }

    /// Makes the chain: segments 1 and 2, a head, 3, merged with 1 into 4, a head, 5. Links of
    /// `without` are left out.
    fn make(&self, key: &SigningKey, without: &[u64]) {
        let path = self.data().join(CHAIN_FILE);
        let _ = fs::remove_file(&path);
        let mut chain = Chain::open(&self.data(), || "c".into(), TIME, |_| ()).unwrap();
        let link = |chain: &mut Chain, segment: u64| {
            if without.contains(&segment) {
                return;
            }
            let (bytes, sha256) = sum_of_file(&self.segment(segment)).unwrap();
            chain.append(TIME, What::Sealed { segment, bytes, lines: 1, sha256 }).unwrap();
        };
        link(&mut chain, 1);
        link(&mut chain, 2);
        let first = chain.sign(TIME, key).unwrap();
        link(&mut chain, 3);
        link(&mut chain, 4);
        for segment in [1, 3] {
            if !without.contains(&segment) {
                let gone = What::Gone { segment, why: Why::Rewritten, by: Some(4) };
                chain.append(TIME, gone).unwrap();
            }
        }
        let second = chain.sign(TIME, key).unwrap();
        link(&mut chain, 5);
        for copy in [first, second] {
            let text = serde_json::to_vec(&copy).unwrap();
            // One that is there stays.
            let _ = self.copies().put(&super::verify::object("c", copy.n), text);
        }
        for segment in [1, 3] {
            let _ = fs::remove_file(self.segment(segment));
        }
    }

    fn lines(&self) -> Vec<String> {
        let text = fs::read_to_string(self.data().join(CHAIN_FILE)).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    fn write(&self, lines: &[String]) {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        fs::write(self.data().join(CHAIN_FILE), text).unwrap();
    }

    fn faults(&self, key: Option<PublicKey>, with_copies: bool) -> Vec<String> {
        let (mut faults, copies) = (Vec::new(), self.copies());
        let copies = with_copies.then_some(&copies);
        let verified = verify(&self.data(), key, copies, |fault| faults.push(fault)).unwrap();
        assert_eq!(verified.faults, faults.len() as u64);
        faults
    }

    fn expect(&self, what: &str, expected: &[&str]) {
        let faults = self.faults(Some(self.key.public()), true);
        for text in expected {
            assert!(faults.iter().any(|fault| fault.contains(text)), "{what}: {faults:#?}");
        }
        assert_eq!(faults.is_empty(), expected.is_empty(), "{what}: {faults:#?}");
    }
}

#[test]
fn what_is_as_it_was_is_no_fault() {
    let world = World::new();
    world.expect("nothing", &[]);
    let verified = verify(&world.data(), None, Some(&world.copies()), |_| ()).unwrap();
    let expected = Verified {
        links: 10,
        heads: 2,
        segments: 3,
        unsigned: 1,
        unlinked: 0,
        copies: 2,
        key: Some(world.key.public()),
        faults: 0,
    };
    assert_eq!(verified, expected);
    // A crash while a line was written leaves a part of it, which the next start cuts off.
    let path = world.data().join(CHAIN_FILE);
    let whole = fs::read(&path).unwrap();
    fs::write(&path, [&whole[..], b"{\"n\":10,\"ti"].concat()).unwrap();
    world.expect("half a line", &[]);
    let mut seen = 0;
    let mut chain = Chain::open(&world.data(), || "d".into(), TIME, |_| seen += 1).unwrap();
    assert_eq!((seen, chain.n, chain.unsigned, chain.name.as_str()), (10, 10, 1, "c"));
    chain.sign(TIME, &world.key).unwrap();
    world.expect("signed after a crash", &[]);
    fs::write(world.segment(9), "not linked yet").unwrap();
    assert_eq!(verify(&world.data(), None, None, |_| ()).unwrap().unlinked, 1);
}

#[test]
fn a_file_that_cannot_be_read_is_not_taken_for_one_that_is_gone() {
    let world = World::new();
    let found = sum_if_there(&world.segment(2)).unwrap();
    assert_eq!(found, Some((9, sum_of(b"segment 2"))));
    assert_eq!(sum_if_there(&world.segment(77)).unwrap(), None);
    fs::create_dir(world.segment(78)).unwrap();
    sum_if_there(&world.segment(78)).unwrap_err();
}

#[test]
fn files_that_were_changed_are_named() {
    let world = World::new();
    let whole = fs::read(world.segment(2)).unwrap();
    for at in 0..whole.len() {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        fs::write(world.segment(2), changed).unwrap();
        world.expect("a byte", &["segment 2 was changed since link 2"]);
    }
    fs::write(world.segment(2), &whole[..3]).unwrap();
    world.expect("a cut", &["segment 2 was changed since link 2: expected 9 bytes"]);
    fs::copy(world.segment(5), world.segment(2)).unwrap();
    fs::write(world.segment(5), &whole).unwrap();
    world.expect("swapped", &["segment 2 was changed", "segment 5 was changed"]);
    fs::remove_file(world.segment(4)).unwrap();
    world.expect("dropped", &["segment 4 is missing, which link 5 names"]);
}

#[test]
fn the_first_broken_link_is_named() {
    let world = World::new();
    let lines = world.lines();
    let broken = |n: usize| format!("the chain is broken at link {n}");
    // Any character of any line.
    for number in 0..lines.len() - 1 {
        for at in (0..lines[number].len()).step_by(3) {
            let mut changed = lines.clone();
            let mut bytes = changed[number].clone().into_bytes();
            bytes[at] ^= 1;
            let Ok(text) = String::from_utf8(bytes) else { continue };
            changed[number] = text;
            world.write(&changed);
            let (key, copies) = (world.key.public(), world.copies());
            let verified = verify(&world.data(), Some(key), Some(&copies), |_| ());
            // A line that is no JSON any more may be the first one.
            assert!(verified.is_err() || verified.unwrap().faults > 0, "{number} {at}");
        }
    }
    let mut without = lines.clone();
    without.remove(2);
    world.write(&without);
    world.expect("a link left out", &[&broken(2)]);
    let mut swapped = lines.clone();
    swapped.swap(1, 2);
    world.write(&swapped);
    world.expect("links swapped", &[&broken(1)]);
    let mut changed = lines.clone();
    changed[1] = changed[1].replace("\"lines\":1", "\"lines\":2");
    world.write(&changed);
    world.expect("a link changed", &["broken at link 2: it does not hold the hash"]);
    world.write(&lines[..8]);
    world.expect("cut off behind a head", &["the chain was cut off"]);
    fs::remove_file(world.data().join(CHAIN_FILE)).unwrap();
    let gone = world.faults(Some(world.key.public()), true);
    assert!(gone.iter().any(|fault| fault.contains("cannot read")), "{gone:?}");
    assert!(verify(&world.data(), None, None, |_| ()).is_err());
}

#[test]
fn a_chain_that_was_made_anew_is_named() {
    let world = World::new();
    for segment in [1, 3] {
        fs::write(world.segment(segment), format!("segment {segment}")).unwrap();
    }
    // Without the segment 2, and with another key.
    let other = SigningKey::random();
    world.make(&other, &[2]);
    fs::remove_file(world.segment(2)).unwrap();
    world.expect("another key", &["is signed by another key", "made anew"]);
    assert_eq!(world.faults(None, false), [""; 0], "without key and copies it looks right");
    // With the same key, only the copies show it.
    for segment in [1, 3] {
        fs::write(world.segment(segment), format!("segment {segment}")).unwrap();
    }
    world.make(&world.key, &[2]);
    world.expect("the same key", &["the chain was made anew"]);
    assert_eq!(world.faults(Some(world.key.public()), false), [""; 0]);
    // Under another name.
    let lines: Vec<String> = world.lines();
    world.write(&[lines[0].replace("\"chain\":\"c\"", "\"chain\":\"x\"")]);
    world.expect("another name", &["has no head of this chain (x) but those of c"]);
}

#[test]
fn copies_that_were_changed_are_named() {
    let world = World::new();
    let path = |n: u64| world.dir.path().join("copies").join(super::verify::object("c", n));
    let whole = fs::read(path(3)).unwrap();
    for at in (0..whole.len()).step_by(5) {
        let mut changed = whole.clone();
        changed[at] ^= 1;
        fs::write(path(3), changed).unwrap();
        assert!(!world.faults(Some(world.key.public()), true).is_empty(), "{at}");
    }
    assert!(Path::new(&path(3)).exists());
}
