//! Follows the store: links what was sealed and what went, and signs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use platform::Clock;
use segment::sealed::SealedFile;
use store::{SegmentInfo, SegmentState, Store};
use text::time::format_time;

use super::{Chain, HeadCopy, SigningKey, What, Why, sum_if_there};
use crate::process::log::one_line;
use crate::process::stages::Stages;
use crate::storage::backup::destination::{Address, Destination};

/// How often the store is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(5);
/// Bytes of segments that are hashed before they are linked and made durable.
const BYTES_AT_ONCE: u64 = 1 << 30;
/// How long a segment is left alone that could not be read, nanoseconds.
const UNREADABLE_REST_NS: u64 = 600_000_000_000;

/// How the chain is kept. `[integrity]`
#[derive(Clone, Debug)]
pub struct IntegrityOptions {
    /// Signs heads.
    pub key: Arc<SigningKey>,
    /// The time between two heads while links are added.
    pub sign_every: Duration,
    /// The second place of heads.
    pub copy_to: Option<Address>,
}

/// Keeps the chain of a store.
pub struct Integrity {
    options: IntegrityOptions,
    store: Arc<Store>,
    data_dir: PathBuf,
    clock: Arc<dyn Clock>,
    links: AtomicU64,
    failures: AtomicU64,
    signed_ns: AtomicI64,
    following: Mutex<Option<Following>>,
    /// Segments that could not be read, and when each is tried again, by the monotonic clock.
    unreadable: Mutex<BTreeMap<u64, u64>>,
}

/// What was linked of a segment that is there.
struct Linked {
    replaced_by: Option<u64>,
}

/// The chain while a stage runs.
struct Following {
    chain: Chain,
    linked: BTreeMap<u64, Linked>,
    /// Heads that the second place does not have.
    copies: Vec<HeadCopy>,
    signed_at: u64,
    /// The store was not looked at yet, so nothing says why a segment went.
    is_first: bool,
}

impl Integrity {
    /// The chain of a store; nothing is linked before [`run`](Self::run).
    pub fn new(
        options: IntegrityOptions,
        store: Arc<Store>,
        data_dir: &Path,
        clock: Arc<dyn Clock>,
    ) -> Integrity {
        Integrity {
            options,
            store,
            data_dir: data_dir.to_owned(),
            clock,
            links: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            signed_ns: AtomicI64::new(0),
            following: Mutex::new(None),
            unreadable: Mutex::default(),
        }
    }

    /// Links and signs until the stages end.
    pub fn run(&self, stages: &Stages) {
        let mut told = String::new();
        while !stages.is_stopped() {
            match self.step(false) {
                Ok(()) => told.clear(),
                Err(error) => {
                    self.failures.fetch_add(1, Relaxed);
                    let text = one_line(&error);
                    if text != told {
                        tracing::error!("the chain of segments is not kept: {text}");
                    }
                    told = text;
                }
            }
            stages.sleep(LOOK_EVERY);
        }
    }

    /// Links and signs what the store did until it was closed. Else the next start could not tell
    /// why a segment went.
    pub fn finish(&self) {
        if let Err(error) = self.step(true) {
            tracing::error!("the chain of segments is not complete: {}", one_line(&error));
        }
    }

    /// Links of this process, failures, and when a head was signed last (0: never).
    pub fn counts(&self) -> (u64, u64, i64) {
        (self.links.load(Relaxed), self.failures.load(Relaxed), self.signed_ns.load(Relaxed))
    }

    fn open(&self) -> Result<Following> {
        let mut linked = BTreeMap::new();
        let name = || format!("{:08x}-{:016x}", self.store.node(), fastrand::u64(..));
        let chain = Chain::open(&self.data_dir, name, &self.now(), |link| {
            match &link.what {
                What::Sealed { segment, .. } => {
                    linked.insert(*segment, Linked { replaced_by: None });
                }
                What::Gone { segment, .. } => {
                    linked.remove(segment);
                }
                _ => {}
            };
        })?;
        let signed_at = self.clock.monotonic_ns();
        Ok(Following { chain, linked, copies: Vec::new(), signed_at, is_first: true })
    }

    fn step(&self, is_end: bool) -> Result<()> {
        let mut following = self.following.lock().unwrap_or_else(PoisonError::into_inner);
        let opened = match &mut *following {
            Some(following) => following,
            None => following.insert(self.open()?),
        };
        let outcome = self.follow(opened, is_end);
        if outcome.is_err() {
            // What is on the disk counts: it is read again.
            let copies = following.take().map(|following| following.copies).unwrap_or_default();
            if let Ok(again) = self.open() {
                *following = Some(Following { copies, is_first: false, ..again });
            }
        }
        outcome
    }

    /// Links what went since the last process ended, before the store removes more. Called once
    /// the store is open; what fails is tried again by [`run`](Self::run).
    pub fn begin(&self) {
        let mut following = self.following.lock().unwrap_or_else(PoisonError::into_inner);
        let begun = self.open().and_then(|mut opened| {
            let sealed = self.sealed();
            self.note_gone(&mut opened, &sealed)?;
            opened.chain.sync()?;
            Ok(opened)
        });
        match begun {
            Ok(opened) => *following = Some(opened),
            Err(error) => {
                tracing::error!("the chain of segments is not kept: {}", one_line(&error));
            }
        }
    }

    /// The sealed segments of the store.
    fn sealed(&self) -> BTreeMap<u64, SegmentInfo> {
        let segments = self.store.segments().into_iter();
        let sealed = segments.filter(|segment| segment.state == SegmentState::Sealed);
        sealed.map(|segment| (segment.id, segment)).collect()
    }

    fn follow(&self, following: &mut Following, is_end: bool) -> Result<()> {
        let sealed = self.sealed();
        let mut unreadable = self.unreadable.lock().unwrap_or_else(PoisonError::into_inner);
        unreadable.retain(|segment, _| sealed.contains_key(segment));
        drop(unreadable);
        let some_went = self.note_gone(following, &sealed)?;
        let mut bytes = 0;
        for (id, segment) in &sealed {
            if following.linked.contains_key(id) || self.rests(*id) {
                continue;
            }
            let (length, sha256) = match sum_if_there(&segment.path) {
                Ok(Some(found)) => found,
                Ok(None) => continue,
                Err(error) => {
                    self.note_unreadable(*id, &segment.path, &error);
                    continue;
                }
            };
            let what = What::Sealed { segment: *id, bytes: length, lines: segment.lines, sha256 };
            self.append(following, what)?;
            following.linked.insert(*id, Linked { replaced_by: None });
            bytes += length;
            if bytes > BYTES_AT_ONCE && !is_end {
                break;
            }
        }
        following.chain.sync()?;
        self.sign(following, some_went || is_end)?;
        // The end does not wait for a storage that may not answer: the next head vouches for all.
        match (is_end, &self.options.copy_to) {
            (true, Some(Address::Bucket(..))) => Ok(()),
            _ => self.copy(following),
        }
    }

    /// Whether a segment could not be read, and is not tried again yet.
    fn rests(&self, segment: u64) -> bool {
        let unreadable = self.unreadable.lock().unwrap_or_else(PoisonError::into_inner);
        unreadable.get(&segment).is_some_and(|until_ns| self.clock.monotonic_ns() < *until_ns)
    }

    /// Notes that a segment cannot be read, so that it is not linked; others are.
    fn note_unreadable(&self, segment: u64, path: &Path, error: &std::io::Error) {
        self.failures.fetch_add(1, Relaxed);
        let until_ns = self.clock.monotonic_ns().saturating_add(UNREADABLE_REST_NS);
        let mut unreadable = self.unreadable.lock().unwrap_or_else(PoisonError::into_inner);
        if unreadable.insert(segment, until_ns).is_none() {
            tracing::error!(
                "segment {segment} is not in the chain: {} cannot be read: {error}; it is tried \
                 again, and `loginson verify` says what of it is damaged",
                path.display()
            );
        }
    }

    /// Links segments that are not there any more; whether there were some.
    fn note_gone(
        &self,
        following: &mut Following,
        sealed: &BTreeMap<u64, SegmentInfo>,
    ) -> Result<bool> {
        for (id, segment) in sealed {
            if following.linked.contains_key(id) {
                continue;
            }
            let file = SealedFile::open(&**self.store.disk(), &segment.path);
            for replaced in file.iter().flat_map(|file| &file.footer().replaces) {
                if let Some(linked) = following.linked.get_mut(replaced) {
                    linked.replaced_by = Some(*id);
                }
            }
        }
        let gone: Vec<(u64, Option<u64>)> = following
            .linked
            .iter()
            .filter(|(id, _)| !sealed.contains_key(id))
            .map(|(id, linked)| (*id, linked.replaced_by))
            .collect();
        for (segment, by) in &gone {
            let why = match (by, following.is_first) {
                (Some(_), _) => Why::Rewritten,
                (None, true) => Why::Missing,
                (None, false) => Why::Removed,
            };
            if why == Why::Missing {
                tracing::error!(
                    "segment {segment} is in the chain and was not there at this start; `loginson verify --chain` says more"
                );
            }
            self.append(following, What::Gone { segment: *segment, why, by: *by })?;
            following.linked.remove(segment);
        }
        following.is_first = false;
        Ok(!gone.is_empty())
    }

    fn append(&self, following: &mut Following, what: What) -> Result<()> {
        following.chain.append(&self.now(), what)?;
        self.links.fetch_add(1, Relaxed);
        Ok(())
    }

    /// Signs what is not signed, if it is time to.
    fn sign(&self, following: &mut Following, is_due: bool) -> Result<()> {
        let now = self.clock.monotonic_ns();
        let age = Duration::from_nanos(now.saturating_sub(following.signed_at));
        let is_due = is_due || age >= self.options.sign_every;
        if following.chain.unsigned == 0 || !is_due {
            return Ok(());
        }
        let copy = following.chain.sign(&self.now(), &self.options.key)?;
        following.signed_at = now;
        self.signed_ns.store(self.clock.now_ns(), Relaxed);
        if self.options.copy_to.is_some() {
            following.copies.push(copy);
        }
        Ok(())
    }

    /// Writes heads to the second place. The newest one vouches for all before it, so while the
    /// place does not answer, only that one is kept.
    fn copy(&self, following: &mut Following) -> Result<()> {
        let Some(address) = &self.options.copy_to else { return Ok(()) };
        let Some(copy) = following.copies.pop() else { return Ok(()) };
        following.copies.clear();
        let written = Destination::open(address).and_then(|place| place.put_copy(&copy));
        if written.is_err() {
            following.copies.push(copy);
        }
        written.with_context(|| format!("no head was written to {address}"))
    }

    fn now(&self) -> String {
        format_time(self.clock.now_ns())
    }
}

impl Destination {
    fn put_copy(&self, copy: &HeadCopy) -> Result<()> {
        let text = serde_json::to_vec(copy).expect("plain values");
        self.put(&super::verify::object(&copy.chain, copy.n), text)
    }
}
