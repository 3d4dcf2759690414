//! An open encrypted file.
//!
//! All handles of a file share a map from places in the file as it was written to extents
//! ([`Shared`]). It is found by reading the headers of all extents when the file is opened, one
//! for each MiB of a sealed segment.
//!
//! Invariants:
//! - What was synced is never overwritten. A write is appended, or, if it is small, takes the place
//!   of an extent all of whose bytes were written again and synced since. So the last block of a
//!   hot segment, which each commit writes again, alternates between two places.
//! - An extent counts after a power cut as far as its pieces are authentic: a piece that is not
//!   there hides nothing that was written before it.
//! - Truncating to where the file ended at the last sync takes back the writes since, and needs no
//!   space: a full disk can always be rolled back.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ring::aead::LessSafeKey;

use super::NOT_AUTHENTIC;
use super::extent::{
    EXTENT_BYTES_MAX, EXTENT_HEADER_BYTES, Extent, FILE_HEADER_BYTES, FileHeader, PIECE_BYTES,
    STORED_PIECE_BYTES, TAG_BYTES,
};
use super::keys::{DataKey, Keyring, random};
use crate::buffer::{AlignedBuffer, BLOCK_BYTES};
use crate::disk::DiskFile;
use crate::regular::is_disk_full;

/// Pieces that are read and decrypted at once.
const PIECES_AT_ONCE: usize = 64;
/// Extents of more blocks are appended always.
const REUSED_BLOCKS_MAX: u64 = 2;
/// Places of extents that are remembered to be used again; further ones stay unused until the file
/// is rewritten.
const REUSED_MAX: usize = 16;
/// Bytes read at once where no extent was found.
const SEARCH_BYTES: usize = 256 << 10;
/// A write that is taken back may repeat so many bytes before it, at most; with more, the file
/// notes where it ends instead.
const COMPARED_BYTES_MAX: u64 = 64 << 10;
/// How often a read is tried again because a writer took the place it read from.
const RETRIES_MAX: usize = 16;

thread_local! {
    /// Cipher text that a thread reads.
    static STORED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// What is known of a file by all who have it open.
pub(super) struct Shared {
    path: PathBuf,
    header: FileHeader,
    key: DataKey,
    state: Mutex<State>,
    /// Held while something is written, so that `state` is locked for moments only.
    writing: Mutex<Writing>,
    is_scanned: AtomicBool,
    is_reported: AtomicBool,
    damage: Arc<AtomicU64>,
}

/// A part of an extent that counts: from the key of the map to `end`.
#[derive(Clone)]
struct Part {
    end: u64,
    extent: Arc<Extent>,
}

#[derive(Clone, Default)]
struct State {
    parts: BTreeMap<u64, Part>,
    /// Length of the file as it was written, with zeros behind the last extent.
    length: u64,
    /// The same as the extents tell it: what will be found when the file is opened again.
    recorded: u64,
    /// Changes when a place is used again.
    generation: u64,
}

struct Writing {
    out: AlignedBuffer,
    /// Where the next extent is appended.
    end: u64,
    order: u64,
    session: Option<([u8; 16], Arc<LessSafeKey>)>,
    /// Writes since the last sync, and what each of them hid.
    unsynced: Vec<Unsynced>,
    /// Whether these can be taken back: none of them says where the file ends.
    can_undo: bool,
    /// `end` and [`State::recorded`] at the last sync.
    synced: (u64, u64),
    /// Places that may be used again, with their blocks.
    reusable: Vec<(u64, u64)>,
    /// Only places from here on are used again: whatever is written after the extent that says
    /// where the file ends stands behind it, so that it is the last one of a closed file only.
    reused_from: u64,
    /// The file was there, and nothing was changed yet.
    is_found: bool,
}

struct Unsynced {
    at: u64,
    place: u64,
    end: u64,
    /// False if the write failed.
    is_there: bool,
    /// Whether the places of what it hid may be used again once it is synced.
    frees: bool,
    hidden: Vec<(u64, Part)>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    /// Removes what is mapped of a range; returns it.
    fn clear(&mut self, from: u64, to: u64) -> Vec<(u64, Part)> {
        let mut removed = Vec::new();
        if from >= to {
            return removed;
        }
        if let Some((&start, part)) = self.parts.range_mut(..from).next_back()
            && part.end > from
        {
            let cut = part.clone();
            part.end = from;
            removed.push((from, Part { end: cut.end.min(to), extent: cut.extent.clone() }));
            if cut.end > to {
                self.parts.insert(to, cut);
            }
            debug_assert!(start < from);
        }
        while let Some((&start, part)) = self.parts.range(from..to).next() {
            let part = part.clone();
            self.parts.remove(&start);
            removed.push((start, Part { end: part.end.min(to), extent: part.extent.clone() }));
            if part.end > to {
                self.parts.insert(to, part);
            }
        }
        removed
    }

    /// Maps a range to an extent; returns what was mapped there.
    fn put(&mut self, from: u64, to: u64, extent: &Arc<Extent>) -> Vec<(u64, Part)> {
        let hidden = self.clear(from, to);
        if from < to {
            self.parts.insert(from, Part { end: to, extent: extent.clone() });
        }
        hidden
    }

    /// The parts within a range.
    fn within(&self, from: u64, to: u64) -> Vec<(u64, Part)> {
        if from >= to {
            return Vec::new();
        }
        let before = self.parts.range(..from).next_back();
        let before = before.filter(|(_, part)| part.end > from);
        before
            .into_iter()
            .chain(self.parts.range(from..to))
            .map(|(&start, part)| {
                let part = Part { end: part.end.min(to), extent: part.extent.clone() };
                (start.max(from), part)
            })
            .collect()
    }

    fn mapped_end(&self) -> u64 {
        self.parts.last_key_value().map_or(0, |(_, part)| part.end)
    }

    /// The first byte behind those that are stored, zeros left out.
    fn stored_end(&self) -> u64 {
        let stored = |(&start, part): (&u64, &Part)| {
            let end = part.extent.place + u64::from(part.extent.stored);
            (end.min(part.end) > start).then_some(end.min(part.end))
        };
        self.parts.iter().rev().find_map(stored).unwrap_or(0)
    }
}

impl Shared {
    pub(super) fn created(
        path: &Path,
        header: FileHeader,
        keys: &Keyring,
        damage: &Arc<AtomicU64>,
    ) -> Shared {
        let shared = Shared::found(path, header, keys, damage);
        lock(&shared.writing).is_found = false;
        shared.is_scanned.store(true, Ordering::Release);
        shared
    }

    pub(super) fn found(
        path: &Path,
        header: FileHeader,
        keys: &Keyring,
        damage: &Arc<AtomicU64>,
    ) -> Shared {
        Shared {
            path: path.to_owned(),
            header,
            key: keys.get(&header.key).expect("it was looked up").clone(),
            state: Mutex::default(),
            writing: Mutex::new(Writing {
                out: AlignedBuffer::new(0),
                end: FILE_HEADER_BYTES,
                order: 1,
                session: None,
                unsynced: Vec::new(),
                can_undo: true,
                synced: (FILE_HEADER_BYTES, 0),
                reusable: Vec::new(),
                reused_from: FILE_HEADER_BYTES,
                is_found: true,
            }),
            is_scanned: AtomicBool::new(false),
            is_reported: AtomicBool::new(false),
            damage: damage.clone(),
        }
    }

    /// The length, if it is known.
    pub(super) fn length(&self) -> Option<u64> {
        self.is_scanned.load(Ordering::Acquire).then(|| lock(&self.state).length)
    }

    /// The length of a file that was closed, from its last block.
    pub(super) fn length_at_end(
        &self,
        inner: &dyn DiskFile,
        bytes: u64,
    ) -> io::Result<Option<u64>> {
        let block = BLOCK_BYTES as u64;
        if bytes < FILE_HEADER_BYTES + block || !bytes.is_multiple_of(block) {
            return Ok(None);
        }
        let mut head = [0; EXTENT_HEADER_BYTES];
        let at = bytes - block;
        let read = inner.read_at(&mut head, at)?;
        let mut keys = HashMap::new();
        let found = self.decode(&head[..read], at, &mut keys);
        Ok(found.filter(|extent| extent.is_end).map(|extent| extent.place))
    }

    fn decode(
        &self,
        bytes: &[u8],
        at: u64,
        keys: &mut HashMap<[u8; 16], Arc<LessSafeKey>>,
    ) -> Option<Extent> {
        let file = &self.header.file;
        Extent::decode(bytes, file, at, |session| {
            let made = || Arc::new(self.key.file_key(file, session));
            // Damage could make up numbers; those of a file are a few.
            if keys.len() > 64 {
                keys.clear();
            }
            keys.entry(*session).or_insert_with(made).clone()
        })
    }

    /// Reads the headers of all extents.
    fn scan(&self, inner: &dyn DiskFile) -> io::Result<()> {
        let mut writing = lock(&self.writing);
        if self.is_scanned.load(Ordering::Acquire) {
            return Ok(());
        }
        let bytes = inner.bytes()?;
        let mut keys = HashMap::new();
        let mut extents = Vec::new();
        let (mut at, mut wanted) = (FILE_HEADER_BYTES, BLOCK_BYTES);
        let mut window = Vec::new();
        while at < bytes {
            window.resize(wanted, 0);
            let read = inner.read_at(&mut window, at)?;
            let mut skipped = 0;
            let found = loop {
                let Some(rest) = window[..read].get(skipped..).filter(|rest| !rest.is_empty())
                else {
                    break None;
                };
                match self.decode(rest, at + skipped as u64, &mut keys) {
                    Some(extent) => break Some(extent),
                    None => skipped += BLOCK_BYTES,
                }
            };
            match found {
                Some(extent) => {
                    at = extent.at + extent.bytes();
                    wanted = BLOCK_BYTES;
                    extents.push(extent);
                }
                None => {
                    at += skipped.max(BLOCK_BYTES) as u64;
                    wanted = SEARCH_BYTES;
                }
            }
        }
        writing.end = extents.iter().map(|extent| extent.at + extent.bytes()).max().unwrap_or(0);
        writing.end = writing.end.max(FILE_HEADER_BYTES);
        writing.reused_from = writing.end;
        extents.sort_by_key(|extent| (extent.order, extent.at));
        writing.order = extents.last().map_or(1, |extent| extent.order.saturating_add(1));
        let mut state = State::default();
        for extent in extents {
            self.count(&mut state, Arc::new(extent), inner)?;
        }
        state.length = state.recorded;
        writing.synced = (writing.end, state.recorded);
        *lock(&self.state) = state;
        self.is_scanned.store(true, Ordering::Release);
        Ok(())
    }

    /// Counts an extent that was found, as far as it is there: where it hides others, its pieces
    /// are checked.
    fn count(
        &self,
        state: &mut State,
        extent: Arc<Extent>,
        inner: &dyn DiskFile,
    ) -> io::Result<()> {
        if extent.is_end {
            state.clear(extent.place, u64::MAX);
            state.recorded = extent.place;
            return Ok(());
        }
        let mut from = extent.place;
        let mut is_whole = true;
        for piece in 0..(extent.stored as usize).div_ceil(PIECE_BYTES) {
            let begin = extent.place + (piece * PIECE_BYTES) as u64;
            let end = begin + extent.piece_bytes(piece) as u64;
            if state.within(begin, end).is_empty() {
                continue;
            }
            let mut stored = vec![0; extent.piece_bytes(piece) + TAG_BYTES];
            let read = inner.read_at(&mut stored, extent.piece_at(piece))?;
            if read < stored.len() || extent.open_piece(piece, &mut stored).is_none() {
                state.put(from, begin, &extent);
                from = end;
                is_whole = false;
            }
        }
        // Zeros at its end are as little there as a piece that is not.
        let to = if is_whole { extent.end() } else { extent.place + u64::from(extent.stored) };
        state.put(from, to, &extent);
        state.recorded = state.recorded.max(extent.end());
        Ok(())
    }

    fn report_damage(&self, place: u64) {
        self.damage.fetch_add(1, Ordering::Relaxed);
        if !self.is_reported.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                "{}: the bytes from {place} on are not those that were encrypted: the file is damaged, somebody changed it, \
                 or a power cut interrupted a write there",
                self.path.display()
            );
        }
    }
}

/// A handle of an encrypted file.
pub(super) struct EncryptedFile {
    inner: Arc<dyn DiskFile>,
    shared: Arc<Shared>,
}

impl EncryptedFile {
    pub(super) fn new(inner: Arc<dyn DiskFile>, shared: Arc<Shared>) -> EncryptedFile {
        EncryptedFile { inner, shared }
    }

    pub(super) fn scan(&self) -> io::Result<()> {
        match self.shared.is_scanned.load(Ordering::Acquire) {
            true => Ok(()),
            false => self.shared.scan(&*self.inner),
        }
    }

    fn read(&self, buffer: &mut [u8], offset: u64, once: bool) -> io::Result<usize> {
        self.scan()?;
        for attempt in 0.. {
            let (parts, length, generation) = {
                let state = lock(&self.shared.state);
                let end = offset.saturating_add(buffer.len() as u64).min(state.length);
                (state.within(offset, end), end.saturating_sub(offset), state.generation)
            };
            let damaged = self.read_parts(&mut buffer[..length as usize], offset, &parts, once)?;
            let Some(place) = damaged else { return Ok(length as usize) };
            let is_same = lock(&self.shared.state).generation == generation;
            if is_same || attempt >= RETRIES_MAX {
                self.shared.report_damage(place);
                return Ok(length as usize);
            }
        }
        unreachable!("the loop returns")
    }

    /// Reads what the parts hold of a range, and zeros between them; returns the first place that
    /// is not authentic.
    fn read_parts(
        &self,
        buffer: &mut [u8],
        offset: u64,
        parts: &[(u64, Part)],
        once: bool,
    ) -> io::Result<Option<u64>> {
        let mut filled = 0;
        let mut damaged = None;
        for (start, part) in parts {
            let (from, to) = ((start - offset) as usize, (part.end - offset) as usize);
            buffer[filled..from].fill(0);
            self.read_part(&mut buffer[from..to], *start, &part.extent, once, &mut damaged)?;
            filled = to;
        }
        buffer[filled..].fill(0);
        Ok(damaged)
    }

    /// Reads bytes of an extent, from `start` on.
    fn read_part(
        &self,
        mut buffer: &mut [u8],
        mut start: u64,
        extent: &Extent,
        once: bool,
        damaged: &mut Option<u64>,
    ) -> io::Result<()> {
        let stored_end = extent.place + u64::from(extent.stored);
        let text = stored_end.saturating_sub(start).min(buffer.len() as u64) as usize;
        buffer[text..].fill(0);
        buffer = &mut buffer[..text];
        while !buffer.is_empty() {
            let within = (start - extent.place) as usize;
            let first = within / PIECE_BYTES;
            let last = (within + buffer.len() - 1) / PIECE_BYTES;
            let last = last.min(first + PIECES_AT_ONCE - 1);
            let bytes = (last - first) * STORED_PIECE_BYTES + extent.piece_bytes(last) + TAG_BYTES;
            let done = STORED.with_borrow_mut(|stored| -> io::Result<usize> {
                if stored.len() < bytes {
                    stored.resize(bytes, 0);
                }
                let stored = &mut stored[..bytes];
                let at = extent.piece_at(first);
                let read = match once {
                    true => self.inner.read_once_at(stored, at)?,
                    false => self.inner.read_at(stored, at)?,
                };
                let mut done = 0;
                for (piece, stored) in (first..).zip(stored.chunks_mut(STORED_PIECE_BYTES)) {
                    let skip = if piece == first { within % PIECE_BYTES } else { 0 };
                    let wanted = (stored.len() - TAG_BYTES - skip).min(buffer.len() - done);
                    let out = &mut buffer[done..done + wanted];
                    let is_there = read >= (piece - first) * STORED_PIECE_BYTES + stored.len();
                    let opened = if is_there { extent.open_piece(piece, stored) } else { None };
                    match opened {
                        Some(text) => out.copy_from_slice(&text[skip..skip + wanted]),
                        None => {
                            out.fill(NOT_AUTHENTIC);
                            damaged.get_or_insert(start + done as u64);
                        }
                    }
                    done += wanted;
                }
                Ok(done)
            })?;
            buffer = &mut buffer[done..];
            start += done as u64;
        }
        Ok(())
    }

    /// Writes the same bytes again that the file has, cipher text and all: they may be in the page
    /// cache only. False: they are others.
    fn write_again(&self, bytes: &[u8], offset: u64) -> io::Result<bool> {
        let to = offset + bytes.len() as u64;
        let mut found = vec![0; bytes.len()];
        let parts = {
            let state = lock(&self.shared.state);
            state.within(offset, to)
        };
        let mapped: u64 = parts.iter().map(|(start, part)| part.end - start).sum();
        if mapped < bytes.len() as u64 {
            return Ok(false);
        }
        // What is not authentic has to be written anew, even as the same bytes.
        let damaged = self.read_parts(&mut found, offset, &parts, false)?;
        if damaged.is_some() || found != bytes {
            return Ok(false);
        }
        let again = |at: u64, bytes: u64| -> io::Result<()> {
            let mut stored = AlignedBuffer::new(bytes as usize);
            let read = self.inner.read_at(&mut stored, at)?;
            self.inner.write_at(&stored[..read], at)
        };
        if offset == 0 {
            again(0, FILE_HEADER_BYTES)?;
        }
        for (_, part) in parts {
            again(part.extent.at, part.extent.bytes())?;
        }
        Ok(true)
    }

    /// Appends an extent, or puts it in a place that may be used again.
    fn write_extent(
        &self,
        writing: &mut Writing,
        place: u64,
        bytes: &[u8],
        is_end: bool,
    ) -> io::Result<()> {
        let (session, key) = match writing.session.clone() {
            Some(session) => session,
            None => {
                let number: [u8; 16] = random()?;
                let key = Arc::new(self.shared.key.file_key(&self.shared.header.file, &number));
                writing.session.insert((number, key)).clone()
            }
        };
        let stored = &bytes[..used_bytes(bytes)];
        let mut extent = Extent {
            at: writing.end,
            order: writing.order,
            place,
            length: bytes.len() as u32,
            stored: stored.len() as u32,
            is_end,
            session,
            key,
        };
        // Given once, whatever happens.
        writing.order += 1;
        let blocks = extent.bytes() / BLOCK_BYTES as u64;
        let reused = writing.reusable.iter().position(|(_, room)| *room == blocks);
        let reused = reused.filter(|_| !is_end);
        if let Some(index) = reused {
            extent.at = writing.reusable.swap_remove(index).0;
            lock(&self.shared.state).generation += 1;
        }
        let out_bytes = extent.bytes() as usize;
        if writing.out.len() < out_bytes {
            writing.out = AlignedBuffer::new(out_bytes.next_power_of_two());
        }
        extent.encode(&self.shared.header.file, stored, &mut writing.out[..out_bytes]);
        let (at, end) = (extent.at, extent.end());
        // Noted first: it may fail in any way, and a part of it may be there.
        let hidden = Vec::new();
        writing.unsynced.push(Unsynced { at, place, end, is_there: false, frees: true, hidden });
        self.inner.write_at(&writing.out[..out_bytes], extent.at)?;
        if reused.is_none() {
            writing.end = extent.at + extent.bytes();
        }
        let noted = writing.unsynced.last_mut().expect("it was just noted");
        noted.is_there = true;
        let mut state = lock(&self.shared.state);
        if is_end {
            state.clear(place, u64::MAX);
            state.recorded = place;
            writing.can_undo = false;
            writing.reused_from = writing.end;
            writing.reusable.clear();
        } else {
            noted.hidden = state.put(place, end, &Arc::new(extent));
            state.recorded = state.recorded.max(end);
            state.length = state.length.max(end);
        }
        Ok(())
    }

    /// The file as it was at the last sync, if that differs from what it is now only behind
    /// `bytes`.
    fn before(&self, writing: &Writing, bytes: u64) -> io::Result<Option<State>> {
        let there = || writing.unsynced.iter().filter(|write| write.is_there);
        let Some(from) = there().map(|write| write.place).min() else { return Ok(None) };
        let now = lock(&self.shared.state).clone();
        if !writing.can_undo || now.stored_end() <= bytes {
            return Ok(None);
        }
        let mut before = now.clone();
        for write in there().rev() {
            before.clear(write.place, write.end);
            before.parts.extend(write.hidden.iter().cloned());
        }
        before.recorded = writing.synced.1;
        before.generation += 1;
        if before.stored_end() > bytes || bytes.saturating_sub(from) > COMPARED_BYTES_MAX {
            return Ok(None);
        }
        let mut texts = [&now, &before].map(|_| vec![0; bytes.saturating_sub(from) as usize]);
        for (state, text) in [&now, &before].into_iter().zip(&mut texts) {
            self.read_parts(text, from, &state.within(from, bytes), false)?;
        }
        Ok((texts[0] == texts[1]).then_some(before))
    }

    /// Takes back writes that stand where others stood before, so that they are not found when the
    /// file is opened again; what was appended is cut off.
    fn erase(&self, writing: &mut Writing, all: bool) -> io::Result<()> {
        let zeros = AlignedBuffer::new(BLOCK_BYTES);
        let appended_at = writing.synced.0;
        for write in writing.unsynced.iter().filter(|write| all || !write.is_there) {
            if write.at < appended_at {
                self.inner.write_at(&zeros, write.at)?;
            }
        }
        writing.unsynced.retain(|write| !all && write.is_there);
        Ok(())
    }
}

/// Bytes up to the last one that is not zero.
fn used_bytes(bytes: &[u8]) -> usize {
    static ZEROS: [u8; BLOCK_BYTES] = [0; BLOCK_BYTES];
    let zeros = bytes.rchunks(BLOCK_BYTES).take_while(|block| **block == ZEROS[..block.len()]);
    let rest = &bytes[..bytes.len() - zeros.map(<[u8]>::len).sum::<usize>()];
    rest.iter().rposition(|&byte| byte != 0).map_or(0, |at| at + 1)
}

impl DiskFile for EncryptedFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.scan()?;
        let mut writing = lock(&self.shared.writing);
        if writing.is_found && self.write_again(bytes, offset)? {
            return Ok(());
        }
        writing.is_found = false;
        for (index, part) in bytes.chunks(EXTENT_BYTES_MAX).enumerate() {
            let place = offset + (index * EXTENT_BYTES_MAX) as u64;
            self.write_extent(&mut writing, place, part, false)?;
        }
        Ok(())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read(buffer, offset, false)
    }

    fn read_once_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.read(buffer, offset, true)
    }

    fn preallocate(&self, bytes: u64) -> io::Result<()> {
        self.scan()?;
        let writing = lock(&self.shared.writing);
        let (length, mapped) = {
            let state = lock(&self.shared.state);
            (state.length, state.mapped_end())
        };
        if length >= bytes {
            return Ok(());
        }
        let missing = bytes - mapped.min(bytes);
        let tags = missing.div_ceil(PIECE_BYTES as u64) * TAG_BYTES as u64;
        let wanted = writing.end + missing + tags + (64 << 10);
        self.inner.preallocate(wanted.next_multiple_of(BLOCK_BYTES as u64))?;
        lock(&self.shared.state).length = bytes;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut writing = lock(&self.shared.writing);
        let writing = &mut *writing;
        self.inner.sync_data().inspect_err(|_| {
            // What these writes hid may be all that is on the medium, whatever a later sync says.
            writing.unsynced.iter_mut().for_each(|write| write.frees = false);
        })?;
        writing.synced = (writing.end, lock(&self.shared.state).recorded);
        writing.can_undo = true;
        for write in writing.unsynced.drain(..).filter(|write| write.frees) {
            for (start, Part { end, extent }) in write.hidden {
                let blocks = extent.bytes() / BLOCK_BYTES as u64;
                let is_whole = start == extent.place && end == extent.end();
                let has_room = writing.reusable.len() < REUSED_MAX;
                let is_behind = extent.at >= writing.reused_from;
                if is_whole && blocks <= REUSED_BLOCKS_MAX && has_room && is_behind {
                    writing.reusable.push((extent.at, blocks));
                }
            }
        }
        Ok(())
    }

    fn truncate(&self, bytes: u64) -> io::Result<()> {
        self.scan()?;
        let mut writing = lock(&self.shared.writing);
        let writing = &mut *writing;
        // A file that was found may end where nothing durable says so.
        let was_found = std::mem::replace(&mut writing.is_found, false);
        // Else the caller relies on the exact length of what it has just written.
        let mut is_padding = was_found || writing.unsynced.is_empty();
        match self.before(writing, bytes)? {
            Some(before) => {
                is_padding = true;
                self.erase(writing, true)?;
                *lock(&self.shared.state) = before;
                writing.end = writing.synced.0;
            }
            None => self.erase(writing, false)?,
        }
        let (recorded, stored_end) = {
            let mut state = lock(&self.shared.state);
            state.length = bytes;
            (state.recorded, state.stored_end())
        };
        if recorded != bytes || was_found {
            let marked = self.write_extent(writing, bytes, &[], true);
            // Without it, zeros follow what is there when the file is opened again.
            match marked {
                Err(error) if is_disk_full(&error) && stored_end <= bytes && is_padding => {
                    lock(&self.shared.state).clear(bytes, u64::MAX);
                }
                marked => marked?,
            }
        }
        self.inner.truncate(writing.end)
    }

    fn bytes(&self) -> io::Result<u64> {
        self.scan()?;
        Ok(lock(&self.shared.state).length)
    }
}
