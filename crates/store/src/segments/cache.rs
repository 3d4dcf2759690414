//! The cache: frames, their parsed batches, and decompressed chunks of sealed blocks.
//!
//! A committed frame is cached unparsed; the parse stage replaces it by its batch, which holds the
//! frame. Three quarters of the budget may hold what arrived last, by position in the store:
//! queries over new lines never read the disk, whatever else is queried, and blocks of sealed
//! segments never evict a hot frame. The rest of the budget, at least a quarter of it and all that
//! hot frames leave, holds what queries read back from disk. Once this part is full, only one in
//! [`NEWCOMER_CHANCE`] new items is admitted, in place of a random other one. So a scan over more
//! than fits finds some of it cached the next time (with eviction by last use it would find
//! nothing), and items that are queried again and again get in. An item larger than its part of the
//! budget is not cached. Footers of sealed files are kept elsewhere, but their bytes count against
//! this part of the budget, too.
//!
//! What no query used for [`IDLE_NS`] is dropped. So the cache of a server that runs for long is as
//! large as what is asked about, and not as its budget.
//!
//! Of sealed blocks the cache keeps the chunks that were read, not the records made of them. A
//! query reads only some columns, searching them again costs little once they are decompressed, and
//! records are four times as large.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use record::{Batch, Frame};

use crate::position::Position;
use crate::sync::lock;

/// Once there is no room, one in this many of the items that queries read from disk replaces
/// another.
const NEWCOMER_CHANCE: usize = 8;

/// For how long an item that queries read from disk stays without being used: longer than somebody
/// who reads an answer takes to ask again.
const IDLE_NS: u64 = 5 * 60 * 1_000_000_000;

/// Key of the word filter of a frame or block, among the numbers of its chunks.
pub(crate) const FILTER: u32 = u32::MAX;
/// Keys of the records of a frame group, under its first frame, and of the filter of their words.
pub(crate) const GROUP: u32 = u32::MAX - 1;
pub(crate) const GROUP_FILTER: u32 = u32::MAX - 2;

/// Count for a group whose records cannot be merged.
pub(crate) const GROUP_NEVER: u32 = u32::MAX;

/// Memory of a slot besides its content, roughly.
const SLOT_BYTES: usize = 128;

#[derive(Clone)]
enum Kept {
    Frame(Arc<Frame>),
    Batch(Arc<Batch>),
    Chunk(Arc<Vec<u8>>),
    /// Number of queries that wanted a filter or group that does not exist.
    Queried(u32),
}

/// The cached words of a frame.
pub(crate) enum FrameWords {
    /// Their filter.
    Filter(Arc<Vec<u8>>),
    /// No filter; the number of queries that wanted it, including this one.
    Queried(u32),
}

/// The cached records of a group.
pub(crate) enum GroupState {
    /// They are merged into one batch.
    Made(Arc<Batch>),
    /// They are not merged; the number of queries that wanted them, including this one.
    Queried(u32),
}

/// A frame, or the number of a chunk of a block.
type Key = (Position, Option<u32>);

struct Slot {
    kept: Kept,
    bytes: usize,
}

/// A slot of what a query read.
struct Visited {
    slot: Slot,
    /// When a query used it last, by [`Slots::now_ns`].
    used_ns: u64,
}

#[derive(Default)]
struct Slots {
    /// The monotonic time of the last maintenance.
    now_ns: u64,
    /// The highest positions; the lowest of them is evicted first.
    recent: BTreeMap<Position, Slot>,
    recent_bytes: usize,
    /// Lower positions, and chunks of sealed segments, read back by queries.
    visited: HashMap<Key, Visited, foldhash::fast::RandomState>,
    visited_bytes: usize,
    /// The keys of `visited`, to choose a random one.
    visited_keys: Vec<Key>,
    /// Bytes of the budget that are used by footers, outside the cache.
    lent_bytes: usize,
}

pub(crate) struct Cache {
    recent_bytes_max: usize,
    bytes_max: usize,
    slots: Mutex<Slots>,
}

impl Cache {
    pub(crate) fn new(bytes_max: usize) -> Self {
        let recent_bytes_max = bytes_max - bytes_max / 4;
        Cache { recent_bytes_max, bytes_max, slots: Mutex::default() }
    }

    pub(crate) fn bytes(&self) -> usize {
        let slots = lock(&self.slots);
        slots.recent_bytes + slots.visited_bytes + slots.lent_bytes
    }

    /// Lends `bytes` of the budget, instead of those lent before; at most what `recent` leaves.
    pub(crate) fn lend(&self, bytes: usize) {
        let mut slots = lock(&self.slots);
        slots.lent_bytes = bytes.min(self.bytes_max - self.recent_bytes_max);
        slots.make_room(self.bytes_max);
    }

    /// Drops what no query used for [`IDLE_NS`]; `now_ns` is monotonic.
    pub(crate) fn drop_idle(&self, now_ns: u64) {
        let mut slots = lock(&self.slots);
        slots.now_ns = now_ns;
        let is_idle = |visited: &Visited| now_ns.saturating_sub(visited.used_ns) >= IDLE_NS;
        let gone = slots.visited.extract_if(|_, visited| is_idle(visited));
        let gone_bytes: usize = gone.map(|(_, visited)| visited.slot.bytes).sum();
        if gone_bytes > 0 {
            let Slots { visited, visited_bytes, visited_keys, .. } = &mut *slots;
            *visited_bytes -= gone_bytes;
            visited_keys.retain(|key| visited.contains_key(key));
        }
    }

    /// Whether this frame and all later ones are cached.
    pub(crate) fn holds_from(&self, position: Position) -> bool {
        // The lowest positions are evicted first.
        lock(&self.slots).recent.contains_key(&position)
    }

    pub(crate) fn put_frame(&self, position: Position, frame: Arc<Frame>) {
        let bytes = frame_bytes(&frame);
        self.put(position, Slot { kept: Kept::Frame(frame), bytes });
    }

    pub(crate) fn put_batch(&self, position: Position, batch: Arc<Batch>) {
        let bytes = batch.memory_bytes();
        self.put(position, Slot { kept: Kept::Batch(batch), bytes });
    }

    pub(crate) fn batch(&self, position: Position) -> Option<Arc<Batch>> {
        match lock(&self.slots).get((position, None))? {
            Kept::Batch(batch) => Some(batch),
            Kept::Frame(_) | Kept::Chunk(_) | Kept::Queried(_) => None,
        }
    }

    pub(crate) fn frame(&self, position: Position) -> Option<Arc<Frame>> {
        match lock(&self.slots).get((position, None))? {
            Kept::Batch(batch) => batch.frame().cloned(),
            Kept::Frame(frame) => Some(frame),
            Kept::Chunk(_) | Kept::Queried(_) => None,
        }
    }

    /// A chunk of a block of a sealed segment, or a filter.
    pub(crate) fn chunk(&self, position: Position, number: u32) -> Option<Arc<Vec<u8>>> {
        match lock(&self.slots).get((position, Some(number)))? {
            Kept::Chunk(chunk) => Some(chunk),
            Kept::Batch(_) | Kept::Frame(_) | Kept::Queried(_) => None,
        }
    }

    /// The filter of the words of a frame or group, by its key, or the number of queries that
    /// wanted it.
    pub(crate) fn words(&self, position: Position, number: u32) -> FrameWords {
        match self.kept_or_queried((position, Some(number))) {
            Kept::Chunk(filter) => FrameWords::Filter(filter),
            Kept::Queried(times) => FrameWords::Queried(times),
            Kept::Batch(_) | Kept::Frame(_) => unreachable!("filters stand under their numbers"),
        }
    }

    /// The records of a group that begins with this frame, or the number of queries that wanted
    /// them.
    pub(crate) fn group(&self, position: Position) -> GroupState {
        match self.kept_or_queried((position, Some(GROUP))) {
            Kept::Batch(batch) => GroupState::Made(batch),
            Kept::Queried(times) => GroupState::Queried(times),
            Kept::Chunk(_) | Kept::Frame(_) => unreachable!("groups stand under their number"),
        }
    }

    /// Caches the records of a group; None: they can never be merged.
    pub(crate) fn put_group(&self, position: Position, batch: Option<Arc<Batch>>) {
        let bytes = batch.as_ref().map_or(0, |batch| batch.memory_bytes()) + SLOT_BYTES;
        let kept = batch.map_or(Kept::Queried(GROUP_NEVER), Kept::Batch);
        let mut slots = lock(&self.slots);
        let key = (position, Some(GROUP));
        slots.remove(key);
        slots.visit(key, Slot { kept, bytes }, self.bytes_max);
    }

    /// Returns the item that is cached under a key; otherwise counts one more query that wanted it.
    fn kept_or_queried(&self, key: Key) -> Kept {
        let mut slots = lock(&self.slots);
        match slots.used(key).map(|slot| &mut slot.kept) {
            Some(Kept::Queried(times)) => {
                *times = times.saturating_add(1);
                Kept::Queried(*times)
            }
            Some(kept) => kept.clone(),
            None => {
                slots.visit(
                    key,
                    Slot { kept: Kept::Queried(1), bytes: SLOT_BYTES },
                    self.bytes_max,
                );
                Kept::Queried(1)
            }
        }
    }

    pub(crate) fn remove_segment(&self, segment: u64) {
        let mut slots = lock(&self.slots);
        let of_segment = |key: &Key| key.0.segment == segment;
        let recent = slots.recent.keys().map(|position| (*position, None));
        let mut gone: Vec<Key> = recent.filter(of_segment).collect();
        gone.extend(slots.visited.keys().copied().filter(of_segment));
        gone.into_iter().for_each(|key| slots.remove(key));
    }

    /// Caches a chunk of a block of a sealed segment, or a filter.
    pub(crate) fn put_chunk(&self, position: Position, number: u32, chunk: Arc<Vec<u8>>) {
        let bytes = chunk.capacity() + SLOT_BYTES;
        let mut slots = lock(&self.slots);
        let key = (position, Some(number));
        slots.remove(key);
        slots.visit(key, Slot { kept: Kept::Chunk(chunk), bytes }, self.bytes_max);
    }

    fn put(&self, position: Position, slot: Slot) {
        let mut slots = lock(&self.slots);
        slots.remove((position, None));
        let fits = slots.recent_bytes + slot.bytes <= self.recent_bytes_max;
        if fits || slots.recent.first_key_value().is_none_or(|(lowest, _)| position > *lowest) {
            slots.recent_bytes += slot.bytes;
            slots.recent.insert(position, slot);
            while slots.recent_bytes > self.recent_bytes_max {
                let (_, lowest) = slots.recent.pop_first().expect("bytes are held by slots");
                slots.recent_bytes -= lowest.bytes;
            }
            slots.make_room(self.bytes_max);
        } else {
            slots.visit((position, None), slot, self.bytes_max);
        }
    }
}

impl Slots {
    /// Caches what a query read: if there is room, or by chance instead of others.
    fn visit(&mut self, key: Key, slot: Slot, bytes_max: usize) {
        let room = bytes_max - self.recent_bytes - self.lent_bytes;
        let fits = self.visited_bytes + slot.bytes <= room;
        if fits || (slot.bytes <= room && fastrand::usize(..NEWCOMER_CHANCE) == 0) {
            self.make_room(bytes_max - slot.bytes);
            self.visited_bytes += slot.bytes;
            self.visited_keys.push(key);
            self.visited.insert(key, Visited { slot, used_ns: self.now_ns });
        }
    }

    /// Evicts random visited slots until all together are within `bytes_max`.
    fn make_room(&mut self, bytes_max: usize) {
        let others = self.recent_bytes + self.lent_bytes;
        while self.visited_bytes > 0 && others + self.visited_bytes > bytes_max {
            let any = fastrand::usize(..self.visited_keys.len());
            let key = self.visited_keys.swap_remove(any);
            let gone = self.visited.remove(&key).expect("what is listed is there");
            self.visited_bytes -= gone.slot.bytes;
        }
    }

    fn get(&mut self, key: Key) -> Option<Kept> {
        if let Some(slot) = self.used(key) {
            return Some(slot.kept.clone());
        }
        let recent = self.recent.get(&key.0).filter(|_| key.1.is_none());
        recent.map(|slot| slot.kept.clone())
    }

    /// What a query read before and uses again now.
    fn used(&mut self, key: Key) -> Option<&mut Slot> {
        let visited = self.visited.get_mut(&key)?;
        visited.used_ns = self.now_ns;
        Some(&mut visited.slot)
    }

    fn remove(&mut self, key: Key) {
        if key.1.is_none()
            && let Some(slot) = self.recent.remove(&key.0)
        {
            self.recent_bytes -= slot.bytes;
        } else if let Some(Visited { slot, .. }) = self.visited.remove(&key) {
            self.visited_bytes -= slot.bytes;
            let mut places = self.visited_keys.iter();
            let place = places.position(|known| *known == key).expect("each key is listed");
            self.visited_keys.swap_remove(place);
        }
    }
}

/// Memory of a frame: its bytes, its decoded tables, and a round number for the rest.
fn frame_bytes(frame: &Frame) -> usize {
    frame.bytes().len()
        + size_of_val(frame.runs())
        + size_of_val(frame.origins())
        + size_of::<Frame>()
        + 128
}

#[cfg(test)]
mod tests {
    use super::*;
    use record::{Format, FrameBuilder, Origin, Transport};

    fn frame(sequence: u64) -> Arc<Frame> {
        let mut builder = FrameBuilder::new();
        let origin = Origin::new(Transport::SyslogTcp, Format::Syslog, None);
        builder.push_line(&origin, 1, &[b'x'; 1000], false);
        Arc::new(builder.finish(1, sequence).expect("it has a line"))
    }

    fn position(frame: u32) -> Position {
        Position { segment: 1, frame }
    }

    fn filled(frames: u32) -> (Cache, usize) {
        let bytes_max = 100 * frame_bytes(&frame(0));
        let cache = Cache::new(bytes_max);
        (0..frames).for_each(|i| cache.put_frame(position(i), frame(u64::from(i))));
        (cache, bytes_max)
    }

    #[test]
    fn what_arrived_last_stays_whatever_is_read() {
        let (cache, bytes_max) = filled(300);
        for _ in 0..3 {
            (0..225).for_each(|i| cache.put_frame(position(i), frame(u64::from(i))));
        }
        assert!(cache.bytes() <= bytes_max);
        assert!((225..300).all(|i| cache.frame(position(i)).is_some()));
        assert_eq!((0..225).filter(|i| cache.frame(position(*i)).is_some()).count(), 25);
    }

    #[test]
    fn a_scan_over_more_than_fits_finds_a_part_again() {
        let (cache, _) = filled(300);
        let mut hits = 0;
        for _ in 0..20 {
            for i in (0..225).rev() {
                match cache.frame(position(i)) {
                    Some(_) => hits += 1,
                    None => cache.put_frame(position(i), frame(u64::from(i))),
                }
            }
        }
        assert!(hits > 50, "{hits} of {}, at most 25 a scan", 20 * 225);
    }

    #[test]
    fn segments_leave_both_parts() {
        let (cache, _) = filled(300);
        cache.put_frame(position(3), frame(3));
        cache.put_frame(Position { segment: 2, frame: 0 }, frame(300));
        cache.remove_segment(1);
        assert_eq!(cache.bytes(), frame_bytes(&frame(0)));
        cache.remove_segment(2);
        assert_eq!(cache.bytes(), 0);
    }

    #[test]
    fn chunks_of_a_block_are_kept_apart() {
        let cache = Cache::new(1_000 + 4 * SLOT_BYTES);
        (0..3u8).for_each(|n| cache.put_chunk(position(7), u32::from(n), vec![n; 200].into()));
        let chunk = |number| cache.chunk(position(7), number).map(|chunk| chunk[0]);
        assert_eq!([chunk(0), chunk(2), chunk(3)], [Some(0), Some(2), None]);
        assert!(cache.frame(position(7)).is_none() && cache.batch(position(7)).is_none());
        cache.put_chunk(position(7), 1, vec![9; 100].into());
        assert_eq!((chunk(1), cache.bytes()), (Some(9), 500 + 3 * SLOT_BYTES));
        cache.remove_segment(1);
        assert_eq!((chunk(1), cache.bytes()), (None, 0));
    }

    #[test]
    fn queries_for_words_are_counted_until_there_is_a_filter() {
        let cache = Cache::new(10_000);
        cache.put_frame(position(1), frame(1));
        let queried = |frame| match cache.words(position(frame), FILTER) {
            FrameWords::Queried(times) => times,
            FrameWords::Filter(filter) => filter.len() as u32 * 100,
        };
        assert_eq!([queried(1), queried(1), queried(2), queried(1)], [1, 2, 1, 3]);
        assert!(cache.frame(position(1)).is_some() && cache.chunk(position(1), FILTER).is_none());
        cache.put_chunk(position(1), FILTER, vec![7; 2].into());
        assert_eq!([queried(1), queried(1), queried(2)], [200, 200, 2]);
        cache.remove_segment(1);
        assert_eq!((queried(1), cache.bytes()), (1, SLOT_BYTES));
    }

    #[test]
    fn groups_stand_beside_their_first_frame() {
        let cache = Cache::new(100_000);
        cache.put_frame(position(1), frame(1));
        let queried = || match cache.group(position(1)) {
            GroupState::Queried(times) => times,
            GroupState::Made(batch) => batch.len() as u32 * 100,
        };
        assert_eq!([queried(), queried()], [1, 2]);
        let empty = Batch::merged(&[]).expect("nothing is too much");
        cache.put_group(position(1), Some(Arc::new(empty)));
        assert_eq!(queried(), 0);
        assert!(cache.frame(position(1)).is_some());
        cache.put_group(position(1), None);
        assert_eq!([queried(), queried()], [GROUP_NEVER, GROUP_NEVER]);
        cache.remove_segment(1);
        assert_eq!((queried(), cache.bytes()), (1, SLOT_BYTES));
    }

    #[test]
    fn what_no_query_uses_leaves() {
        let cache = Cache::new(100_000);
        cache.put_frame(position(1), frame(1));
        let recent_bytes = cache.bytes();
        (0..3).for_each(|n| cache.put_chunk(position(7), n, vec![n as u8; 200].into()));
        let found = |number| cache.chunk(position(7), number).is_some();
        cache.drop_idle(IDLE_NS - 1);
        assert!(found(1));
        cache.drop_idle(IDLE_NS);
        assert_eq!([found(0), found(1), found(2)], [false, true, false]);
        assert_eq!(cache.bytes(), recent_bytes + 200 + SLOT_BYTES);
        // What arrived last stays, however long nobody asks.
        cache.drop_idle(3 * IDLE_NS);
        assert_eq!((found(1), cache.bytes()), (false, recent_bytes));
        cache.put_chunk(position(7), 1, vec![1; 200].into());
        assert!(found(1) && cache.frame(position(1)).is_some());
    }

    #[test]
    fn too_large_is_not_kept() {
        let cache = Cache::new(100);
        cache.put_frame(position(1), frame(1));
        assert_eq!((cache.bytes(), cache.frame(position(1)).is_some()), (0, false));
    }
}
