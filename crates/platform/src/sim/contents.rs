//! The bytes of one simulated file: as processes read them, and as they are on the medium.
//!
//! Writes and changes of length are pending until a sync. After a power cut, none of them remain,
//! or all, or any subset in which writes may be torn at sectors, as with a volatile write cache,
//! which keeps no order.

/// Unit in which writes are torn. A sector is written completely or not at all.
const SECTOR_BYTES: usize = 512;

enum Pending {
    Write { offset: usize, bytes: Vec<u8> },
    Length(usize),
    Growth(usize),
}

#[derive(Default)]
pub(super) struct Contents {
    live: Vec<u8>,
    durable: Vec<u8>,
    pending: Vec<Pending>,
    /// Number of open handles: a file without a name exists until they are closed.
    pub(super) open: usize,
}

impl Contents {
    /// The bytes that processes read.
    pub(super) fn live(&self) -> &[u8] {
        &self.live
    }

    pub(super) fn write(&mut self, bytes: &[u8], offset: usize) {
        write(&mut self.live, bytes, offset);
        self.pending.push(Pending::Write { offset, bytes: bytes.to_vec() });
    }

    pub(super) fn set_length(&mut self, bytes: usize) {
        set_length(&mut self.live, bytes);
        self.pending.push(Pending::Length(bytes));
    }

    /// Makes the file at least `bytes` long.
    pub(super) fn grow(&mut self, bytes: usize) {
        if bytes > self.live.len() {
            set_length(&mut self.live, bytes);
            self.pending.push(Pending::Growth(bytes));
        }
    }

    pub(super) fn sync(&mut self) {
        for pending in std::mem::take(&mut self.pending) {
            apply(&mut self.durable, &pending);
        }
    }

    /// Some of the pending changes reach the medium. The others never will, though they can still
    /// be read: Linux marks pages whose writing failed as clean.
    pub(super) fn fail_sync(&mut self, rng: &mut fastrand::Rng) {
        survive(&mut self.durable, std::mem::take(&mut self.pending), rng);
    }

    pub(super) fn cut_power(&mut self, rng: &mut fastrand::Rng) {
        survive(&mut self.durable, std::mem::take(&mut self.pending), rng);
        self.live.clone_from(&self.durable);
    }

    /// Replaces the whole content, durably.
    pub(super) fn replace(&mut self, bytes: Vec<u8>) {
        self.pending.clear();
        self.durable.clone_from(&bytes);
        self.live = bytes;
    }

    /// Flips bits of a stored byte; does nothing beyond the end.
    pub(super) fn flip(&mut self, offset: usize, mask: u8) {
        let written = self.pending.iter_mut().filter_map(|pending| match pending {
            Pending::Write { offset: start, bytes } => bytes.get_mut(offset.checked_sub(*start)?),
            Pending::Length(_) | Pending::Growth(_) => None,
        });
        let stored = [&mut self.live, &mut self.durable].into_iter();
        for byte in stored.filter_map(|bytes| bytes.get_mut(offset)).chain(written) {
            *byte ^= mask;
        }
    }
}

/// Applies a random part of the pending changes to the durable bytes.
fn survive(durable: &mut Vec<u8>, pending: Vec<Pending>, rng: &mut fastrand::Rng) {
    let lot = rng.u8(..4);
    for pending in pending {
        match if lot < 2 { lot } else { rng.u8(..3) } {
            0 => {}
            1 => apply(durable, &pending),
            _ => tear(durable, &pending, rng),
        }
    }
}

fn tear(durable: &mut Vec<u8>, pending: &Pending, rng: &mut fastrand::Rng) {
    let Pending::Write { offset, bytes } = pending else {
        return apply(durable, pending);
    };
    let (mut offset, mut rest) = (*offset, &bytes[..]);
    while !rest.is_empty() {
        let sector_end = (offset + 1).next_multiple_of(SECTOR_BYTES);
        let (part, behind) = rest.split_at(rest.len().min(sector_end - offset));
        if rng.bool() {
            write(durable, part, offset);
        }
        offset += part.len();
        rest = behind;
    }
}

fn apply(file: &mut Vec<u8>, pending: &Pending) {
    match pending {
        Pending::Write { offset, bytes } => write(file, bytes, *offset),
        Pending::Length(bytes) => set_length(file, *bytes),
        Pending::Growth(bytes) => set_length(file, file.len().max(*bytes)),
    }
}

fn write(file: &mut Vec<u8>, bytes: &[u8], offset: usize) {
    let end = offset + bytes.len();
    if file.len() < end {
        set_length(file, end);
    }
    file[offset..end].copy_from_slice(bytes);
}

/// As `resize` with zeros, but fast in unoptimised tests.
fn set_length(file: &mut Vec<u8>, bytes: usize) {
    file.truncate(bytes);
    file.extend_from_slice(&vec![0; bytes - file.len()]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// All contents that can remain of a synced file after further changes and a power cut.
    fn left(synced: &[u8], change: impl Fn(&mut Contents)) -> BTreeSet<Vec<u8>> {
        let cut = |seed| {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut contents = Contents::default();
            contents.write(synced, 0);
            contents.sync();
            change(&mut contents);
            contents.cut_power(&mut rng);
            assert_eq!(contents.live, contents.durable);
            contents.live
        };
        (0..256).map(cut).collect()
    }

    #[test]
    fn writes_are_lost_whole_or_torn_between_sectors() {
        let left = left(&[1; 1536], |c| c.write(&[2; 1024], 256));
        // Three sectors are touched, the first and the last partly. Each is new or old.
        let sectors = |bytes: &[u8]| [bytes[256], bytes[512], bytes[1024]];
        assert_eq!(left.iter().map(|bytes| sectors(bytes)).collect::<BTreeSet<_>>().len(), 8);
        for bytes in left {
            assert!(bytes[..256].iter().chain(&bytes[1280..]).all(|&b| b == 1));
            for part in [&bytes[256..512], &bytes[512..1024], &bytes[1024..1280]] {
                assert!(part.iter().all(|&b| b == part[0]), "a sector is never torn");
            }
        }
    }

    #[test]
    fn a_later_write_may_survive_an_earlier_one() {
        let left = left(&[1; 1024], |c| {
            c.write(&[2; 512], 0);
            c.write(&[3; 512], 512);
        });
        let firsts: BTreeSet<_> = left.iter().map(|bytes| (bytes[0], bytes[512])).collect();
        assert_eq!(firsts, [(1, 1), (1, 3), (2, 1), (2, 3)].into());
    }

    #[test]
    fn lengths_survive_apart_from_writes_and_growing_never_shortens() {
        let grown = left(&[1; 100], |c| {
            c.write(&[2; 100], 100);
            c.grow(400);
        });
        assert!(grown.contains(&[vec![1; 100], vec![0; 300]].concat()), "room without the bytes");
        assert!(grown.iter().all(|bytes| bytes.len() >= 100));
        let cut = left(&[1; 100], |c| {
            c.set_length(10);
            c.grow(50);
        });
        let lengths: BTreeSet<_> = cut.iter().map(Vec::len).collect();
        assert_eq!(lengths, [10, 50, 100].into());
    }

    #[test]
    fn data_lost_by_a_failed_sync_is_not_restored_by_the_next() {
        let mut outcomes = BTreeSet::new();
        for seed in 0..64 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let mut contents = Contents::default();
            contents.write(&[1; 4], 0);
            contents.fail_sync(&mut rng);
            assert_eq!(contents.live, [1; 4], "still read");
            contents.write(&[2; 4], 4);
            contents.sync();
            contents.cut_power(&mut rng);
            assert_eq!(contents.live[4..], [2; 4]);
            outcomes.insert(contents.live[0]);
        }
        assert_eq!(outcomes, [0, 1].into());
    }
}
