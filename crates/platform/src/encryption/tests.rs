//! A model of a file, with power cuts, on the simulated disk; and what somebody may change.

use std::path::Path;
use std::sync::Arc;

use super::*;
use crate::buffer::BLOCK_BYTES;
use crate::real::RealDisk;
use crate::sim::SimDisk;

const PATH: &str = "/d/1.hot";

fn keyring(disk: &dyn Disk) -> (Arc<Keyring>, MasterKey) {
    let master = MasterKey::random().unwrap();
    let keys = Keyring::open(disk, Path::new("/d"), std::slice::from_ref(&master));
    (Arc::new(keys.unwrap().unwrap()), master)
}

fn encrypted(sim: &SimDisk, keys: &Arc<Keyring>) -> EncryptedDisk {
    EncryptedDisk::new(Arc::new(sim.clone()), keys.clone())
}

fn read_all(disk: &dyn Disk, path: &Path) -> Vec<u8> {
    let file = disk.open(path, Access::Read).unwrap();
    let mut bytes = vec![1; file.bytes().unwrap() as usize];
    let read = file.read_at(&mut bytes, 0).unwrap();
    assert_eq!(read, bytes.len());
    bytes
}

/// What a file may hold: at each place what was synced, or what was written since.
#[derive(Default)]
struct Model {
    live: Vec<u8>,
    synced: Vec<u8>,
    /// Places whose byte was changed since the last sync.
    changed: Vec<bool>,
    /// Places that were written since, with whatever byte.
    written: Vec<bool>,
    /// Lengths since the last sync, the last synced one among them.
    lengths: Vec<usize>,
}

impl Model {
    fn write(&mut self, bytes: &[u8], offset: usize) {
        let end = offset + bytes.len();
        self.live.resize(self.live.len().max(end), 0);
        self.changed.resize(self.changed.len().max(end), false);
        self.written.resize(self.written.len().max(end), false);
        self.written[offset..end].fill(true);
        for (at, &byte) in (offset..).zip(bytes) {
            self.changed[at] |= self.live[at] != byte;
            self.live[at] = byte;
        }
        self.lengths.push(self.live.len());
    }

    fn truncate(&mut self, bytes: usize) {
        self.changed.resize(self.changed.len().max(bytes), false);
        self.changed[bytes..].fill(true);
        self.live.resize(bytes, 0);
        self.lengths.push(bytes);
    }

    fn sync(&mut self) {
        self.synced = self.live.clone();
        self.changed = vec![false; self.live.len()];
        self.written.clear();
        self.lengths = vec![self.live.len()];
    }
}

/// Writes as a hot segment is written, and at random; cuts the power; reads what is left.
#[test]
fn what_was_synced_is_there_after_any_power_cut() {
    for seed in 0..400 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let sim = SimDisk::new(seed);
        sim.create_dir_all(Path::new("/d")).unwrap();
        let (keys, _) = keyring(&sim);
        let mut disk = encrypted(&sim, &keys);
        let path = Path::new(PATH);
        let mut file = disk.open(path, Access::Create).unwrap();
        disk.sync_dir(Path::new("/d")).unwrap();
        let mut model = Model::default();
        file.sync_data().unwrap();
        for step in 0..40 {
            let told = format!("seed {seed}, step {step}");
            match rng.u8(..16) {
                // The last block again, with more behind it.
                0..=5 => {
                    let end = model.live.iter().rposition(|&byte| byte != 0).map_or(0, |at| at + 1);
                    let from = end / BLOCK_BYTES * BLOCK_BYTES;
                    let more = if rng.bool() { rng.usize(1..300) } else { rng.usize(1..40_000) };
                    let mut bytes = model.live[from..end].to_vec();
                    bytes.extend((0..more).map(|_| rng.u8(1..)));
                    bytes.resize(bytes.len().next_multiple_of(BLOCK_BYTES), 0);
                    file.write_at(&bytes, from as u64).unwrap();
                    model.write(&bytes, from);
                }
                6..=7 => {
                    let bytes: Vec<u8> = (0..rng.usize(1..9_000)).map(|_| rng.u8(..)).collect();
                    let at = rng.usize(..model.live.len() + 1);
                    file.write_at(&bytes, at as u64).unwrap();
                    model.write(&bytes, at);
                }
                8 => {
                    let length = model.live.len() + rng.usize(1..9_000);
                    file.preallocate(length as u64).unwrap();
                    let bytes = vec![0; length - model.live.len()];
                    let from = model.live.len();
                    model.write(&bytes, from);
                }
                // As a rollback does.
                9 => {
                    let end = model.synced.iter().rposition(|&byte| byte != 0);
                    let end = end.map_or(0, |at| at + 1).min(model.live.len());
                    file.truncate(end as u64).unwrap();
                    model.truncate(end);
                }
                10 => {
                    let to = rng.usize(..=model.live.len());
                    file.truncate(to as u64).unwrap();
                    model.truncate(to);
                }
                11..=13 => {
                    file.sync_data().unwrap();
                    model.sync();
                }
                14 => {
                    sim.restart();
                    // What is not there any more.
                    disk = encrypted(&sim, &keys);
                    let found = read_all(&disk, path);
                    for (at, &byte) in found.iter().enumerate() {
                        let is_changed = model.changed.get(at).copied().unwrap_or(true);
                        if !is_changed {
                            let expected = model.synced.get(at).copied().unwrap_or(0);
                            // Where nothing stood, a write that was interrupted is damage.
                            let was_written = model.written.get(at) == Some(&true);
                            if byte == NOT_AUTHENTIC && expected == 0 && was_written {
                                continue;
                            }
                            assert_eq!(byte, expected, "{told}: byte {at}");
                        }
                    }
                    let stored = model.synced.iter().enumerate();
                    let kept = stored.filter(|(at, byte)| **byte != 0 && !model.changed[*at]);
                    let kept = kept.map(|(at, _)| at + 1).max().unwrap_or(0);
                    assert!(found.len() >= kept, "{told}: {} of {kept} bytes", found.len());
                    file = disk.open(path, Access::Write).unwrap();
                    // As a store does: what is there, written again, counts from now on.
                    file.write_at(&found, 0).unwrap();
                    file.truncate(found.len() as u64).unwrap();
                    file.sync_data().unwrap();
                    model.live = found;
                    model.sync();
                }
                _ => {
                    let at = rng.usize(..=model.live.len());
                    let mut bytes = vec![7; rng.usize(..20_000)];
                    let read = file.read_at(&mut bytes, at as u64).unwrap();
                    let expected = &model.live[at..model.live.len().min(at + bytes.len())];
                    assert!(bytes[..read] == *expected, "{told}: {read} bytes from {at}");
                }
            }
            assert_eq!(file.bytes().unwrap(), model.live.len() as u64, "{told}");
            assert!(read_all(&disk, path) == model.live, "{told}");
        }
        // The same through another disk, from the bytes alone.
        file.truncate(model.live.len() as u64).unwrap();
        file.sync_data().unwrap();
        drop(file);
        let other = encrypted(&sim, &keys);
        let zeros = model.live.len();
        let mut found = read_all(&other, path);
        assert!(found.len() <= zeros || found[zeros..].iter().all(|&byte| byte == 0));
        found.resize(zeros, 0);
        assert!(found == model.live, "seed {seed}");
        assert_eq!(other.damaged_pieces(), 0, "seed {seed}");
        assert_eq!(other.file_bytes(path).unwrap(), read_all(&other, path).len() as u64);
    }
}

#[test]
fn commits_to_one_block_alternate_between_two_places() {
    let sim = SimDisk::new(1);
    sim.create_dir_all(Path::new("/d")).unwrap();
    let (keys, _) = keyring(&sim);
    let disk = encrypted(&sim, &keys);
    let file = disk.open(Path::new(PATH), Access::Create).unwrap();
    let mut block = vec![0; BLOCK_BYTES];
    for commit in 0..1_000 {
        block[commit] = 1;
        file.write_at(&block, 0).unwrap();
        file.sync_data().unwrap();
    }
    assert_eq!(sim.file_bytes(Path::new(PATH)).unwrap(), 3 * BLOCK_BYTES as u64);
    drop(file);
    assert!(read_all(&encrypted(&sim, &keys), Path::new(PATH)) == block);
}

#[test]
fn a_full_disk_can_be_rolled_back() {
    let sim = SimDisk::new(1);
    sim.create_dir_all(Path::new("/d")).unwrap();
    let (keys, _) = keyring(&sim);
    let disk = encrypted(&sim, &keys);
    let path = Path::new(PATH);
    let file = disk.open(path, Access::Create).unwrap();
    disk.sync_dir(Path::new("/d")).unwrap();
    let mut bytes = vec![3; 5_000];
    bytes.resize(2 * BLOCK_BYTES, 0);
    file.write_at(&bytes, 0).unwrap();
    file.sync_data().unwrap();
    let refused = [&bytes[BLOCK_BYTES..5_000], &[4; 50_000][..]].concat();
    file.write_at(&refused, BLOCK_BYTES as u64).unwrap();
    sim.set_capacity(sim.used_bytes());
    file.truncate(5_000).unwrap();
    file.sync_data().unwrap();
    assert_eq!(file.bytes().unwrap(), 5_000);
    sim.restart();
    let found = read_all(&encrypted(&sim, &keys), path);
    assert!(found[..5_000] == bytes[..5_000] && found[5_000..].iter().all(|&byte| byte == 0));
}

#[test]
fn nothing_of_a_line_is_on_the_disk_and_every_change_is_noticed() {
    let sim = SimDisk::new(1);
    sim.create_dir_all(Path::new("/d")).unwrap();
    let (keys, _) = keyring(&sim);
    let disk = encrypted(&sim, &keys);
    let (path, other) = (Path::new(PATH), Path::new("/d/2.hot"));
    let line = b"user alice logged in from 10.0.0.1\n";
    let text = line.repeat(2_000);
    for path in [path, other] {
        let file = disk.open(path, Access::Create).unwrap();
        file.write_at(&text, 0).unwrap();
        file.sync_data().unwrap();
    }
    let stored = read_all(&sim, path);
    assert!(!stored.windows(line.len() / 2).any(|window| line.starts_with(window)));
    let second = read_all(&sim, other);
    let raw = sim.open(path, Access::Write).unwrap();
    let damaged = || {
        let disk = encrypted(&sim, &keys);
        let found = read_all(&disk, path);
        (found, disk.damaged_pieces())
    };
    // A flipped bit; a piece that is repeated, exchanged, or of the other file; all of its extent.
    let piece = |number: usize| {
        let from = BLOCK_BYTES + extent::EXTENT_HEADER_BYTES + number * extent::STORED_PIECE_BYTES;
        from..from + extent::STORED_PIECE_BYTES
    };
    let mut flipped = stored.clone();
    flipped[piece(1).start + 5] ^= 1;
    let mut repeated = stored.clone();
    repeated.copy_within(piece(0), piece(1).start);
    let mut foreign = stored.clone();
    foreign[piece(1)].copy_from_slice(&second[piece(1)]);
    for changed in [flipped, repeated, foreign] {
        raw.write_at(&changed, 0).unwrap();
        let (found, pieces) = damaged();
        assert_eq!(pieces, 1);
        assert_eq!(found.len(), text.len());
        for (number, part) in found.chunks(extent::PIECE_BYTES).enumerate() {
            let from = number * extent::PIECE_BYTES;
            let is_same = *part == text[from..from + part.len()];
            assert_eq!(is_same, number != 1);
            assert!(is_same || part.iter().all(|&byte| byte == NOT_AUTHENTIC));
        }
    }
    let mut foreign = stored.clone();
    foreign[BLOCK_BYTES..].copy_from_slice(&second[BLOCK_BYTES..]);
    raw.write_at(&foreign, 0).unwrap();
    assert_eq!(damaged().0.len(), 0, "an extent of another file is none");
    raw.write_at(&stored, 0).unwrap();
    raw.write_at(&stored[BLOCK_BYTES..], stored.len() as u64).unwrap();
    assert!(damaged().0 == text, "an extent in another place is none");
}

#[test]
fn keys_are_needed_named_and_rotated() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("1.sealed");
    let [old, new] = [(); 2].map(|()| MasterKey::random().unwrap());
    let open = |masters: &[&MasterKey]| {
        let masters: Vec<MasterKey> = masters.iter().map(|&master| master.clone()).collect();
        Keyring::open(&RealDisk, dir.path(), &masters)
    };
    assert!(open(&[]).unwrap().is_none(), "nothing is encrypted");
    let keys = Arc::new(open(&[&old]).unwrap().unwrap());
    let disk = EncryptedDisk::new(Arc::new(RealDisk), keys);
    disk.open(&path, Access::Create).unwrap().write_at(b"secret", 0).unwrap();

    let error = open(&[]).unwrap_err().to_string();
    assert!(error.contains(&old.id()) && error.contains("key_file"), "{error}");
    let error = open(&[&new]).unwrap_err().to_string();
    assert!(error.starts_with("wrong key") && error.contains(&new.id()), "{error}");
    assert!(!error.contains(old.to_text().trim()));
    // From now on with the new one; one copy of the keys is enough.
    let rotated = open(&[&new, &old]).unwrap().unwrap();
    assert_eq!((rotated.master(), rotated.count()), (new.id().as_str(), 1));
    assert!(open(&[&old]).is_err());
    std::fs::write(dir.path().join(KEYS_FILE), "loginson encryption").unwrap();
    let mut keys = open(&[&new]).unwrap().unwrap();
    keys.rotate(&RealDisk, dir.path(), &new, true).unwrap();
    let keys = Arc::new(open(&[&new]).unwrap().unwrap());
    assert_eq!(keys.count(), 2);
    let disk = EncryptedDisk::new(Arc::new(RealDisk), keys);
    assert_eq!(read_all(&disk, &path), b"secret");
    assert!(disk.is_encrypted(&path).unwrap() && !disk.is_current(&path).unwrap());
    // Plain files beside it.
    let plain = dir.path().join("2.sealed");
    std::fs::write(&plain, "plain").unwrap();
    assert_eq!((read_all(&disk, &plain), disk.file_bytes(&plain).unwrap()), (b"plain".to_vec(), 5));
    assert!(!disk.is_encrypted(&plain).unwrap());
    // Without the file of keys a file names the key that it needs.
    for name in [KEYS_FILE, KEYS_COPY_FILE] {
        std::fs::remove_file(dir.path().join(name)).unwrap();
    }
    let others = Arc::new(open(&[&new]).unwrap().unwrap());
    let error = EncryptedDisk::new(Arc::new(RealDisk), others).open(&path, Access::Read);
    let error = error.err().unwrap().to_string();
    assert!(error.contains("encryption.keys does not hold"), "{error}");
}

#[test]
fn a_lost_copy_of_the_keys_is_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    let master = MasterKey::random().unwrap();
    let open = || Keyring::open(&RealDisk, dir.path(), std::slice::from_ref(&master));
    open().unwrap().unwrap();
    let text = |name: &str| std::fs::read(dir.path().join(name)).unwrap();
    let before = text(KEYS_FILE);
    open().unwrap().unwrap();
    assert_eq!(text(KEYS_FILE), before, "nothing is written where nothing is wrong");
    for name in [KEYS_FILE, KEYS_COPY_FILE] {
        std::fs::remove_file(dir.path().join(name)).unwrap();
        assert_eq!(open().unwrap().unwrap().count(), 1);
        assert_eq!(text(KEYS_FILE), text(KEYS_COPY_FILE), "{name}");
        std::fs::write(dir.path().join(name), "loginson encryption").unwrap();
        assert_eq!(open().unwrap().unwrap().count(), 1);
        assert_eq!(text(KEYS_FILE), text(KEYS_COPY_FILE), "{name}");
    }
}

/// Reads both files of keys, and writes them.
fn lists(dir: &Path) -> [Vec<u8>; 2] {
    [KEYS_FILE, KEYS_COPY_FILE].map(|name| std::fs::read(dir.join(name)).unwrap())
}

fn put_lists(dir: &Path, texts: &[Vec<u8>; 2]) {
    for (name, text) in [KEYS_FILE, KEYS_COPY_FILE].iter().zip(texts) {
        std::fs::write(dir.join(name), text).unwrap();
    }
}

#[test]
fn a_list_of_keys_is_authentic_as_a_whole_and_not_older_than_the_files() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let master = MasterKey::random().unwrap();
    let masters = std::slice::from_ref(&master);
    let mut keys = Keyring::open(&RealDisk, dir, masters).unwrap().unwrap();
    assert_eq!(keys.version(), 1);
    keys.rotate(&RealDisk, dir, &master, true).unwrap();
    let before = lists(dir);
    keys.rotate(&RealDisk, dir, &master, true).unwrap();
    keys.set_refuses_plain(&RealDisk, dir, masters, true).unwrap();
    assert_eq!((keys.version(), keys.count()), (4, 3));
    let newest = lists(dir);
    let path = dir.join("1.sealed");
    let disk = EncryptedDisk::new(Arc::new(RealDisk), Arc::new(keys));
    disk.open(&path, Access::Create).unwrap().write_at(b"line", 0).unwrap();

    let opened = || Keyring::open(&RealDisk, dir, masters).map(|keys| keys.unwrap());
    // Each line left out, or another one in its place, in both files.
    let text = String::from_utf8(newest[0].clone()).unwrap();
    let rows: Vec<&str> = text.lines().collect();
    for left_out in 0..rows.len() {
        let mut fewer = rows.clone();
        fewer.remove(left_out);
        let fewer = format!("{}\n", fewer.join("\n")).into_bytes();
        put_lists(dir, &[fewer.clone(), fewer]);
        assert!(opened().is_err(), "without {}", rows[left_out]);
    }
    for (from, to) in [("plain refused", "plain read"), ("version 4", "version 5")] {
        let changed = text.replace(from, to).into_bytes();
        put_lists(dir, &[changed.clone(), changed.clone()]);
        let error = opened().unwrap_err().to_string();
        assert!(error.contains("its tag is not authentic"), "{error}");
        // One that is whole is enough, and the other one is written anew.
        put_lists(dir, &[changed, newest[1].clone()]);
        assert_eq!(opened().unwrap().version(), 4);
    }
    // An old one in one place does not count, and in both places the files are newer.
    put_lists(dir, &[before[0].clone(), newest[1].clone()]);
    assert_eq!((opened().unwrap().version(), opened().unwrap().count()), (4, 3));
    put_lists(dir, &before);
    let old = opened().unwrap();
    assert!(matches!(old.check_version(dir, 3), Err(EncryptionError::Old { found: 2, .. })));
    let old = EncryptedDisk::new(Arc::new(RealDisk), Arc::new(old));
    let error = old.open(&path, Access::Read).err().unwrap().to_string();
    assert!(error.contains("encryption.keys"), "{error}");
    // Also if the data key is in it.
    put_lists(dir, &newest);
    let mut keys = opened().unwrap();
    let before = lists(dir);
    keys.rotate(&RealDisk, dir, &master, false).unwrap();
    let disk = EncryptedDisk::new(Arc::new(RealDisk), Arc::new(keys));
    disk.open(&dir.join("2.hot"), Access::Create).unwrap();
    put_lists(dir, &before);
    let old = EncryptedDisk::new(Arc::new(RealDisk), Arc::new(opened().unwrap()));
    assert_eq!(read_all(&old, &path), b"line");
    let error = old.file_bytes(&dir.join("2.hot")).unwrap_err().to_string();
    assert!(error.contains("an older one was put back"), "{error}");
}

#[test]
fn what_older_releases_wrote_is_read_and_counts_as_not_current() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let master = MasterKey::random().unwrap();
    let opened = || Keyring::open(&RealDisk, dir, std::slice::from_ref(&master)).unwrap().unwrap();
    opened();
    // Format 1 had neither version, nor tag, nor the line about plain files.
    let text = String::from_utf8(lists(dir)[0].clone()).unwrap();
    let kept = |row: &&str| !["version", "plain", "tag"].iter().any(|word| row.starts_with(word));
    let old: Vec<&str> = text.lines().filter(kept).collect();
    let old = format!("{}\n", old.join("\n")).replace("keys 2", "keys 1").into_bytes();
    put_lists(dir, &[old.clone(), old.clone()]);
    let read = Keyring::read(&RealDisk, dir, std::slice::from_ref(&master)).unwrap().unwrap();
    assert_eq!((read.version(), read.refuses_plain(), lists(dir)[0] == old), (0, false, true));
    let keys = Arc::new(opened());
    assert_eq!(keys.version(), 1, "it is written anew");
    let (path, disk) = (dir.join("1.rows"), EncryptedDisk::new(Arc::new(RealDisk), keys.clone()));
    disk.open(&path, Access::Create).unwrap().write_at(b"rows", 0).unwrap();
    let mut bytes = std::fs::read(&path).unwrap();
    let header = FileHeader::read(&*RealDisk.open(&path, Access::Read).unwrap(), &keys, &path);
    let HeaderFound::Header(header) = header.unwrap() else { panic!("it has a header") };
    bytes[..BLOCK_BYTES].copy_from_slice(&header.encode_1(&keys));
    std::fs::write(&path, bytes).unwrap();
    let disk = EncryptedDisk::new(Arc::new(RealDisk), keys);
    assert_eq!(read_all(&disk, &path), b"rows");
    assert!(disk.is_encrypted(&path).unwrap() && !disk.is_current(&path).unwrap());
    assert!(!disk.is_as_new(&path).unwrap());
}

#[test]
fn a_file_counts_under_its_number_only() {
    let dir = tempfile::tempdir().unwrap();
    let sim = SimDisk::new(1);
    sim.create_dir_all(Path::new("/d")).unwrap();
    let disk = EncryptedDisk::new(Arc::new(RealDisk), keyring(&sim).0);
    let write = |name: &str, text: &[u8]| {
        let file = disk.open(&dir.path().join(name), Access::Create).unwrap();
        file.write_at(text, 0).unwrap();
    };
    write("1.rows", b"rows of query 1");
    write("2.rows.part", b"rows of query 2");
    let other = EncryptedDisk::new(Arc::new(RealDisk), disk.keys.clone());
    // Names that a file gets later.
    for name in ["2.rows", "2-0000000a-5.hot", "2.hot.damaged"] {
        std::fs::copy(dir.path().join("2.rows.part"), dir.path().join(name)).unwrap();
        assert_eq!(read_all(&other, &dir.path().join(name)), b"rows of query 2", "{name}");
    }
    for name in ["1.rows", "12.rows", "0.rows", "a.rows"] {
        std::fs::copy(dir.path().join("2.rows"), dir.path().join(name)).unwrap();
        let other = EncryptedDisk::new(Arc::new(RealDisk), disk.keys.clone());
        let error = other.open(&dir.path().join(name), Access::Write).err().unwrap().to_string();
        assert!(error.contains("had another name"), "{name}: {error}");
        let found = read_all(&other, &dir.path().join(name));
        assert!(!found.windows(4).any(|bytes| bytes == b"rows"), "{name}");
    }
}

#[test]
fn a_plain_file_beside_encrypted_ones_is_damage_once_it_is_recorded() {
    let sim = SimDisk::new(1);
    let dir = Path::new("/d");
    sim.create_dir_all(dir).unwrap();
    let (keys, master) = keyring(&sim);
    let planted = Path::new("/d/1.sealed");
    sim.open(planted, Access::Create).unwrap().write_at(&[7; 9_000], 0).unwrap();
    assert_eq!(read_all(&encrypted(&sim, &keys), planted), [7; 9_000]);
    assert!(!encrypted(&sim, &keys).is_as_new(planted).unwrap(), "nothing is appended to it");
    let mut keys = (*keys).clone();
    keys.set_refuses_plain(&sim, dir, std::slice::from_ref(&master), true).unwrap();
    let keys = Arc::new(keys);
    let disk = encrypted(&sim, &keys);
    assert_eq!(disk.file_bytes(planted).unwrap(), 9_000);
    assert_eq!(read_all(&disk, planted), [NOT_AUTHENTIC; 9_000]);
    assert_eq!(disk.damaged_pieces(), 1);
    let error = disk.open(planted, Access::Write).err().unwrap().to_string();
    assert!(error.contains("--accept-plain"), "{error}");
    assert_eq!(read_all(&disk.reading_plain(), planted), [7; 9_000]);
}

#[test]
fn nothing_is_written_without_encryption_to_a_file_that_was_begun() {
    let sim = SimDisk::new(1);
    sim.create_dir_all(Path::new("/d")).unwrap();
    let (keys, _) = keyring(&sim);
    let disk = encrypted(&sim, &keys);
    // As a power cut leaves them, before the header is durable.
    for (path, zeros) in [("/d/1.rows", 0), ("/d/2.rows", BLOCK_BYTES)] {
        let path = Path::new(path);
        let raw = sim.open(path, Access::Create).unwrap();
        if zeros > 0 {
            raw.write_at(&vec![0; zeros], 0).unwrap();
        }
        let file = disk.open(path, Access::Write).unwrap();
        file.write_at(b"secret", 0).unwrap();
        assert!(disk.is_encrypted(path).unwrap());
        assert_eq!(read_all(&disk, path), b"secret");
    }
    // One with a damaged header is read, and not written.
    let path = Path::new("/d/1.rows");
    let raw = sim.open(path, Access::Write).unwrap();
    let mut byte = [0];
    raw.read_at(&mut byte, 24).unwrap();
    raw.write_at(&[byte[0] ^ 1], 24).unwrap();
    let other = encrypted(&sim, &keys);
    assert!(other.open(path, Access::Read).is_ok());
    let error = other.open(path, Access::Write).err().unwrap().to_string();
    assert!(error.contains("header of the encryption is damaged"), "{error}");
}

#[test]
fn keys_are_text_or_bytes() {
    let key = MasterKey::random().unwrap();
    assert_eq!(MasterKey::parse(key.to_text().as_bytes()).unwrap(), key);
    assert!(MasterKey::parse(&[7; 32]).is_ok());
    assert!(MasterKey::parse(&[7; 31]).is_err());
    assert!(MasterKey::parse(b"correct horse battery staple ok\n").is_err());
    assert!(MasterKey::parse(&[b'g'; 64]).is_err());
    assert!(!format!("{key:?}").contains(key.to_text().trim()));
}

#[test]
fn the_keys_survive_a_power_cut_while_they_are_replaced() {
    for change in 1..20 {
        let sim = SimDisk::new(change);
        sim.create_dir_all(Path::new("/d")).unwrap();
        let (_, old) = keyring(&sim);
        let new = MasterKey::random().unwrap();
        sim.crash_at_change(change);
        let _ = Keyring::open(&sim, Path::new("/d"), &[new.clone(), old.clone()]);
        sim.restart();
        let found = Keyring::open(&sim, Path::new("/d"), &[new, old]).unwrap().unwrap();
        assert_eq!(found.count(), 1);
    }
}
