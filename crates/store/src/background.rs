//! Background work: two threads with helpers. Only one of the two works at a time.
//!
//! `store-seal` runs at a low priority. A thread cannot raise its priority again without
//! privileges, so when sealing should wait no longer ([`Urgency`]), `store-seal-now` takes over at
//! normal priority, in the middle of a rewrite if need be. Both take the same steps, of a few
//! frames or blocks each. The last step, which puts a new segment in the place of its sources,
//! is always done by `store-seal-now`: it holds a lock that other threads want, and must not lose
//! the processor meanwhile.
//!
//! Work that may wait pauses between steps: while frames are queued for the disk, while receivers
//! are short of processor time ([`pressure`]), and for as long as [`Throttle`] demands. A panic in
//! any step, the first and the last one too, fails that rewrite, which is tried again later; the
//! thread survives. All state that must survive is in the files and the catalog, so the work
//! resumes after a restart; only rewrites under way begin again.

pub(crate) mod plan;
pub(crate) mod pruning;
pub(crate) mod rewrite;
pub(crate) mod scrub;
pub(crate) mod throttle;
pub(crate) mod trailing;

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::{Relaxed, Release};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use platform::pauses::PANIC_PAUSE;
use platform::placement::{self, Role};
use platform::{ReadOnce, helpers, pressure};
use segment::sealed::{Effort, SealedFile};
use segment::{SegmentError, read_frame};

use crate::background::plan::{PlanInput, SealPlan};
use crate::background::pruning::{Findings, Pruning};
use crate::background::rewrite::{Purpose, Rewrite, RewriteError, Stepped};
use crate::background::scrub::Scrub;
use crate::background::throttle::Throttle;
use crate::background::trailing::Trailing;
use crate::callbacks::StoreCallbacks;
use crate::catalog::{DeletionState, RowState};
use crate::config::{SEAL_RESERVE_PARTS, ns_of_ms};
use crate::ledger::Ledger;
use crate::segments::AnySegment;
use crate::segments::cache::UNREAD_PASS;
use crate::segments::damage::set_aside;
use crate::segments::hot::HotSegment;
use crate::segments::sealed::SealedSegment;
use crate::store_core::StoreCore;
use crate::store_core::counters::{add, get};
use crate::sync::{lock, read, write};
use crate::writer::Writer;

/// How long a segment is left alone after its rewrite failed, milliseconds.
const REST_MS: u64 = 60_000;
/// Attempts at sealing a segment that the disk cannot read and that later segments wait for. Then
/// it counts as damaged, so that these are sealed.
const UNREADABLE_ATTEMPTS_MAX: u32 = 10;
/// The error number of a disk that cannot read.
const EIO: i32 = 5;
/// Interval at which the threads look for due work when no signal comes.
const TICK: Duration = Duration::from_secs(1);
/// While more than 1/`QUEUE_PARTS` of the queue is used, background work leaves the disk to ingest.
const QUEUE_PARTS: usize = 4;
/// Pause before the queue is looked at again: the writer takes all queued frames together.
const QUEUE_PAUSE: Duration = Duration::from_millis(10);
/// Part of the limit on bytes that rewrites under way may take on top of it before another one
/// begins.
const REWRITING_PARTS: u64 = 8;
/// The least room for rewrites on top of the limit, bytes: a small rewrite never waits for another.
const REWRITING_BYTES_MIN: u64 = 1 << 20;
/// Interval at which the threads check whether more of the active segment can be sealed.
const TRAIL_TICK: Duration = Duration::from_millis(100);

/// How long a segment that could be sealed may wait for its turn, milliseconds. Then it is sealed
/// at normal priority.
const OVERDUE_MS: u64 = 30_000;

/// How long sealing can wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Urgency {
    /// Until the machine has time for it.
    Whenever,
    /// It has waited for long enough, or somebody asked for it: it works at normal priority, and
    /// gives way to ingest alone.
    Due,
    /// The backlog is too large, or the disk is nearly full: it gives way to nothing.
    Now,
}

/// What one step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// No work is due.
    Idle,
    /// The step did some work, and there may be more.
    Worked,
}

/// The rewrites under way, and what decides about the next one.
pub(crate) struct Background {
    core: Arc<StoreCore>,
    writer: Arc<Mutex<Writer>>,
    ledger: Arc<Mutex<Ledger>>,
    work: Option<Work>,
    /// Rewrites of the active segment; they come before `work`.
    trailing: Trailing,
    /// Segments that are left alone after a failure, each until a monotonic time in nanoseconds.
    resting: HashMap<u64, u64>,
    /// How often segments could not be read that later ones wait for.
    unreadable: HashMap<u64, u32>,
    scrub: Scrub,
    urgency: Urgency,
    /// Whether sealing was in haste when one of the two threads looked last.
    seen_haste: bool,
    throttle: Throttle,
    /// When the cache is looked through next, monotonic nanoseconds.
    cache_pass_ns: u64,
}

enum Work {
    Search(Search),
    Rewrite(Box<Rewrite>),
    /// A rewrite whose file is complete.
    Publish(Box<Rewrite>),
}

impl Work {
    fn of(rewrite: Rewrite) -> Work {
        Work::Rewrite(Box::new(rewrite))
    }
}

/// The search of a sealed segment for lines to be deleted. If it finds enough, the segment is
/// rewritten.
struct Search {
    segment: Arc<SealedSegment>,
    file: Arc<SealedFile>,
    next: usize,
    pruning: Pruning,
    findings: Findings,
}

impl Background {
    pub(crate) fn new(
        core: Arc<StoreCore>,
        writer: Arc<Mutex<Writer>>,
        ledger: Arc<Mutex<Ledger>>,
    ) -> Self {
        let throttle = Throttle::new(core.config.background_bytes_per_s_max);
        let resting = HashMap::new();
        Background {
            core,
            writer,
            ledger,
            work: None,
            trailing: Trailing::default(),
            resting,
            unreadable: HashMap::new(),
            scrub: Scrub::default(),
            urgency: Urgency::Whenever,
            seen_haste: false,
            throttle,
            cache_pass_ns: 0,
        }
    }

    /// Does one step of the work that is due.
    pub(crate) fn step(&mut self, callbacks: &dyn StoreCallbacks) -> Step {
        let urgency = self.note_urgency();
        self.pass_cache();
        if self.trail(callbacks) {
            return Step::Worked;
        }
        if self.work.is_none() {
            self.end_deletions();
            if !has_room_beyond_limit(&self.core) {
                return Step::Idle;
            }
            match self.begin(callbacks) {
                Some(work) => self.work = Some(work),
                None => {
                    if callbacks.is_idle() {
                        self.scrub();
                    }
                    return Step::Idle;
                }
            }
        }
        if self.gives_way(callbacks, urgency > Urgency::Whenever) {
            return Step::Idle;
        }
        match self.work.take() {
            Some(Work::Search(search)) => self.search(search, callbacks),
            Some(Work::Rewrite(rewrite)) => {
                self.work =
                    self.rewrite(*rewrite, callbacks).map(|(rewrite, stepped)| match stepped {
                        Stepped::Whole => Work::Publish(Box::new(rewrite)),
                        Stepped::Worked | Stepped::Waits => Work::of(rewrite),
                    });
            }
            Some(Work::Publish(rewrite)) => self.publish(*rewrite),
            None => {}
        }
        Step::Worked
    }

    /// Drops what nobody has read for a while from the cache, at intervals.
    fn pass_cache(&mut self) {
        let now_ns = self.core.clock.monotonic_ns();
        if now_ns >= self.cache_pass_ns {
            self.cache_pass_ns = now_ns.saturating_add(UNREAD_PASS.as_nanos() as u64);
            self.core.segments.cache.drop_unread();
        }
    }

    /// Seals more of the active segment, or publishes a sealed one; false when there is nothing to
    /// do at present.
    fn trail(&mut self, callbacks: &dyn StoreCallbacks) -> bool {
        self.trailing.drop_overtaken(&self.ledger);
        if let Some(rewrite) = self.trailing.take_to_publish(&self.core) {
            self.publish(rewrite);
            return true;
        }
        if self.trailing.has_room()
            && has_room_beyond_limit(&self.core)
            && let Some(active) = plan::to_be_trailed(&self.core, &self.resting)
        {
            let sources = vec![AnySegment::Hot(active)];
            let spare = self.core.config.disk_free_bytes_min / SEAL_RESERVE_PARTS;
            let begun = self.begin_rewrite(callbacks, Purpose::Trail, sources, Effort::Fast, spare);
            if let Some(rewrite) = begun {
                self.trailing.put(rewrite);
            }
        }
        let Some(rewrite) = self.trailing.take_due(&self.core) else { return false };
        if let Some((rewrite, _)) = self.rewrite(rewrite, callbacks) {
            self.trailing.put(rewrite);
        }
        true
    }

    fn note_urgency(&mut self) -> Urgency {
        let urgency = urgency(&self.core);
        if urgency == Urgency::Now && self.urgency != Urgency::Now {
            add(&self.core.counters.urgent, 1);
            tracing::info!(
                "sealing does not give way to ingest and queries now: {} MiB are not sealed",
                plan::backlog_bytes(&self.core) >> 20
            );
        }
        self.urgency = urgency;
        urgency
    }

    fn begin(&mut self, callbacks: &dyn StoreCallbacks) -> Option<Work> {
        let monotonic_ns = self.core.clock.monotonic_ns();
        self.resting.retain(|_, until_ns| *until_ns > monotonic_ns);
        let now_ns = self.core.retention_ns(self.core.clock.now_ns());
        let idle = callbacks.is_idle();
        let trailed = self.trailing.segments();
        let now = PlanInput { now_ns, resting: &self.resting, trailed: &trailed, idle };
        let plan = plan::next(&self.core, &now)?;
        let reserve = self.core.config.disk_free_bytes_min;
        let (purpose, sources, effort, spare) = match plan {
            SealPlan::Search(segment) => return self.begin_search(segment, callbacks),
            // Sealing gives space back, so it may use the reserve, except for a remainder that the
            // catalog needs.
            SealPlan::Seal(hot) => {
                let rest = reserve / SEAL_RESERVE_PARTS;
                (Purpose::Seal, vec![AnySegment::Hot(hot)], Effort::Fast, rest)
            }
            SealPlan::Merge(segments, effort) => {
                let sources = segments.into_iter().map(AnySegment::Sealed).collect();
                (Purpose::Merge, sources, effort, reserve)
            }
            SealPlan::Reencode(segment) => {
                (Purpose::Reencode, vec![AnySegment::Sealed(segment)], Effort::Best, reserve)
            }
        };
        self.begin_rewrite(callbacks, purpose, sources, effort, spare).map(Work::of)
    }

    fn begin_rewrite(
        &mut self,
        callbacks: &dyn StoreCallbacks,
        purpose: Purpose,
        sources: Vec<AnySegment>,
        effort: Effort,
        spare: u64,
    ) -> Option<Rewrite> {
        let ids: Vec<u64> = sources.iter().map(AnySegment::id).collect();
        let (core, ledger) = (&self.core, &self.ledger);
        // It parses the filters of deletions and of rules.
        let begin = || Rewrite::begin(core, ledger, callbacks, purpose, sources, effort, spare);
        let begun = catch_unwind(AssertUnwindSafe(begin));
        match begun.unwrap_or(Err(RewriteError::Panicked)) {
            Ok(rewrite) => Some(rewrite),
            Err(error) => {
                self.failed(&ids, error);
                None
            }
        }
    }

    /// Checks some blocks. A bug in what reads them must not end the thread.
    fn scrub(&mut self) {
        let began_ns = self.core.clock.monotonic_ns();
        let (scrub, core) = (&mut self.scrub, &self.core);
        match catch_unwind(AssertUnwindSafe(|| scrub.step(core))) {
            Ok(bytes) => self.charge(bytes, began_ns),
            Err(_) => self.scrub = Scrub::default(),
        }
    }

    fn begin_search(
        &mut self,
        segment: Arc<SealedSegment>,
        callbacks: &dyn StoreCallbacks,
    ) -> Option<Work> {
        let sources = [AnySegment::Sealed(segment.clone())];
        let now_ns = self.core.retention_ns(self.core.clock.now_ns());
        let begun = catch_unwind(AssertUnwindSafe(|| {
            let pruning = Pruning::of(&self.core, &self.ledger, callbacks, &sources, now_ns);
            let file = self.core.segments.open_sealed(&segment);
            file.map(|file| (pruning, file))
                .map_err(|error| RewriteError::Source { segment: segment.id, error })
        }));
        match begun.unwrap_or(Err(RewriteError::Panicked)) {
            Ok((pruning, file)) => {
                let findings = Findings::default();
                Some(Work::Search(Search { segment, file, next: 0, pruning, findings }))
            }
            Err(error) => {
                self.failed(&[segment.id], error);
                None
            }
        }
    }

    /// Whether the work is to pause, because the machine is not idle any more. Drops the work when
    /// other work must not wait for it.
    fn gives_way(&mut self, callbacks: &dyn StoreCallbacks, in_haste: bool) -> bool {
        let Some(Work::Rewrite(rewrite)) = &mut self.work else { return false };
        let sealable = || plan::is_any_sealable(&self.core, &self.resting);
        let now_ns = self.core.retention_ns(self.core.clock.now_ns());
        let waits = match rewrite.purpose {
            Purpose::Seal | Purpose::Trail | Purpose::Prune => false,
            Purpose::Merge => in_haste && sealable(),
            Purpose::Reencode => {
                sealable() || plan::is_any_to_be_searched(&self.core, &self.resting, now_ns)
            }
        };
        if waits {
            rewrite.abandon(&self.ledger);
            self.work = None;
            return false;
        }
        rewrite.purpose == Purpose::Reencode && !callbacks.is_idle()
    }

    /// Searches the next block. Behind the last block, begins the rewrite if enough was found.
    fn search(&mut self, mut search: Search, callbacks: &dyn StoreCallbacks) {
        if !search.segment.fate.is_listed() {
            return;
        }
        let blocks = &search.file.footer().blocks;
        while blocks
            .get(search.next)
            .is_some_and(|b| !search.pruning.may_name(b.time_ns, Some(b.tenant)))
        {
            search.next += 1;
        }
        if search.next < blocks.len() {
            let segment = search.segment.id;
            self.charge(blocks[search.next].bytes_disk(), self.core.clock.monotonic_ns());
            let found = catch_unwind(AssertUnwindSafe(|| {
                let batch = search.file.read_block(search.next);
                let batch = batch.map_err(|error| RewriteError::Source { segment, error })?;
                search.pruning.select(&Arc::new(batch), &mut search.findings);
                Ok(())
            }));
            match found.unwrap_or(Err(RewriteError::Panicked)) {
                Ok(()) => {
                    search.next += 1;
                    self.work = Some(Work::Search(search));
                }
                Err(error) => self.failed(&[segment], error),
            }
        } else if search.findings.are_worth(search.segment.bytes_raw) {
            let spare = self.core.config.disk_free_bytes_min;
            let effort = search.segment.effort;
            let sources = vec![AnySegment::Sealed(search.segment)];
            let begun = self.begin_rewrite(callbacks, Purpose::Prune, sources, effort, spare);
            self.work = begun.map(Work::of);
        } else {
            self.note_searched(&search.segment, &search.pruning);
        }
    }

    fn note_searched(&self, segment: &SealedSegment, pruning: &Pruning) {
        let mut ledger = lock(&self.ledger);
        segment.deletions_through.store(pruning.deletions_through, Release);
        segment.rules.store(pruning.rules, Release);
        ledger.save(&segment.row());
    }

    /// Does a step of a rewrite; returns the rewrite and what the step did, unless the rewrite has
    /// ended.
    fn rewrite(
        &mut self,
        mut rewrite: Rewrite,
        callbacks: &dyn StoreCallbacks,
    ) -> Option<(Rewrite, Stepped)> {
        let (before, began_ns) = (rewrite.disk_bytes(), self.core.clock.monotonic_ns());
        // A panic leaves only the rewrite itself inconsistent, and it is dropped then.
        let stepped = catch_unwind(AssertUnwindSafe(|| rewrite.step(callbacks)));
        self.charge(rewrite.disk_bytes().saturating_sub(before), began_ns);
        match stepped.unwrap_or(Err(RewriteError::Panicked)) {
            Ok(stepped) => Some((rewrite, stepped)),
            Err(error) => {
                rewrite.abandon(&self.ledger);
                self.failed(&rewrite.source_ids(), error);
                None
            }
        }
    }

    fn publish(&mut self, rewrite: Rewrite) {
        let ids = rewrite.source_ids();
        if let Err(error) = rewrite.finish(&self.writer, &self.ledger) {
            self.failed(&ids, error);
        }
    }

    fn charge(&mut self, bytes: u64, began_ns: u64) {
        self.throttle.charge(bytes, began_ns, self.urgency == Urgency::Now);
    }

    /// How long the work is to pause, if it may pause.
    fn pause(&mut self) -> Duration {
        let committed = get(&self.core.counters.hot_bytes_written);
        let now_ns = self.core.clock.monotonic_ns();
        Duration::from_nanos(self.throttle.pause_ns(now_ns, committed))
    }

    fn is_publishing(&self) -> bool {
        matches!(self.work, Some(Work::Publish(_))) || self.trailing.can_publish(&self.core)
    }

    /// Longest pause while no work is due.
    fn tick(&self) -> Duration {
        if self.trailing.is_empty() { TICK } else { TRAIL_TICK }
    }

    fn failed(&mut self, segments: &[u64], error: RewriteError) {
        let mut until_ns = self.core.clock.monotonic_ns().saturating_add(ns_of_ms(REST_MS));
        match error {
            RewriteError::Overtaken => return,
            RewriteError::Source { segment, error: error @ SegmentError::Io { .. } }
                if !self.is_given_up(segment, &error) =>
            {
                tracing::warn!("segment {segment} cannot be read, will try again: {error}");
            }
            RewriteError::Source { segment, error } if self.is_written(segment) => {
                tracing::error!("segment {segment}, which is being written: {error}");
            }
            RewriteError::Source { segment, error } => self.note_damage(segment, &error),
            RewriteError::Panicked => tracing::error!(
                "segments {segments:?} cannot be sealed because of a bug; they stay as they are, and sealing is tried again"
            ),
            RewriteError::HalfPublished => {
                until_ns = u64::MAX;
                tracing::error!(
                    "segments {segments:?} are sealed, but not replaced because of a bug; they stay as they are until the \
                     next start, which replaces them: restart the server"
                );
            }
            RewriteError::Target(error) => {
                tracing::warn!("a segment cannot be sealed, will try again: {error}");
            }
        }
        add(&self.core.counters.failures, 1);
        self.resting.extend(segments.iter().map(|id| (*id, until_ns)));
    }

    /// Whether a segment that cannot be read counts as damaged from now on. No later segment is
    /// sealed before one that a failed write left, which cannot be tried for ever: unsealed
    /// segments take twenty times the room.
    fn is_given_up(&mut self, segment: u64, error: &SegmentError) -> bool {
        let hot = self.core.segments.find_hot(segment);
        let others_wait = hot.is_some_and(|hot| read(&hot.index).state == RowState::Kept);
        let SegmentError::Io { source, .. } = error else { return false };
        if !others_wait || source.raw_os_error() != Some(EIO) {
            return false;
        }
        let attempts = self.unreadable.entry(segment).or_insert(0);
        *attempts += 1;
        *attempts >= UNREADABLE_ATTEMPTS_MAX
    }

    fn is_written(&self, segment: u64) -> bool {
        self.core.segments.find_hot(segment).is_some_and(|hot| !hot.is_rolled())
    }

    /// Records that a segment is damaged. It stays as it is, so that its readable part can be read.
    fn note_damage(&mut self, segment: u64, error: &SegmentError) {
        if let Some(hot) = self.core.segments.find_hot(segment) {
            let missing = unreadable_lines(&self.core, &hot);
            let aside = match set_aside(&*self.core.disk, &hot.path) {
                Ok(aside) => format!("also as {}", aside.display()),
                Err(error) => format!("without a second name ({error})"),
            };
            tracing::error!(
                "segment {segment} is damaged: {error}; {missing} lines cannot be read; the file is kept as it is, \
                 {aside}; restore the lines from a backup or another copy"
            );
            hot.lines_missing.store(missing, Relaxed);
            write(&hot.index).state = RowState::Damaged;
            let mut ledger = lock(&self.ledger);
            if let Err(error) = ledger.catalog.set_lines_missing(segment, missing) {
                tracing::warn!("{error}");
            }
            ledger.save_row(&hot);
            return;
        }
        let sealed = self.core.segments.list().sealed.into_iter().find(|s| s.id == segment);
        if let Some(sealed) = &sealed {
            // Which of its blocks are damaged is found now, so that nothing is merged with it.
            match self.core.segments.open_checked(sealed) {
                Ok(file) => {
                    let blocks = 0..file.footer().blocks.len();
                    blocks.for_each(|block| _ = sealed.check_block(&file, block));
                }
                Err(error) => tracing::debug!("segment {segment}: {error}"),
            }
            if !sealed.damage.is_any() {
                tracing::warn!("segment {segment} cannot be read, will try again: {error}");
                return;
            }
            let mut ledger = lock(&self.ledger);
            let any = AnySegment::Sealed(sealed.clone());
            let note = format!("segment {segment} was not searched: {error}");
            self.core.deletions.note_unsearched(&any, &note);
            let last = self.core.deletions.last_id();
            sealed.deletions_through.store(last, Release);
            ledger.save(&sealed.row());
        }
    }

    /// Ends the deletions that have no segment left to search.
    fn end_deletions(&self) {
        let running = self.core.deletions.running();
        if running.is_empty() {
            return;
        }
        let segments = self.core.segments.list().by_age();
        for deletion in running {
            let mut note = deletion.note.clone();
            let is_left = |segment: &&AnySegment| deletion.concerns(segment);
            let (damaged, left): (Vec<&AnySegment>, Vec<_>) =
                segments.iter().filter(is_left).partition(|s| s.row().state == RowState::Damaged);
            if !left.is_empty() {
                continue;
            }
            if let Some(segment) = damaged.first() {
                let text = format!("segment {} is damaged and was not searched", segment.id());
                note = Some(note.map_or(text.clone(), |note| format!("{note}; {text}")));
            }
            let ended = lock(&self.ledger).end_deletion(deletion.id, DeletionState::Done, note);
            if let Err(error) = ended {
                tracing::warn!("{error}");
            }
        }
    }

    /// Drops all rewrites under way.
    pub(crate) fn abandon(&mut self) {
        if let Some(Work::Rewrite(mut rewrite) | Work::Publish(mut rewrite)) = self.work.take() {
            rewrite.abandon(&self.ledger);
        }
        self.trailing.abandon(&self.ledger);
    }
}

/// Whether another rewrite may begin: the new files of those under way, which come on top of the
/// limit on bytes, take at most 1/[`REWRITING_PARTS`] of it, or [`REWRITING_BYTES_MIN`]. Otherwise
/// it waits until one of them is published.
fn has_room_beyond_limit(core: &StoreCore) -> bool {
    let Some(bytes_max) = core.retention().bytes_max else { return true };
    core.segments.rewriting_bytes() <= (bytes_max / REWRITING_PARTS).max(REWRITING_BYTES_MIN)
}

/// Lines of the frames of a hot segment that are damaged on the disk. Reads all of them.
fn unreadable_lines(core: &StoreCore, hot: &Arc<HotSegment>) -> u64 {
    let entries = read(&hot.index).frames.clone();
    let Ok(file) = core.segments.open_hot(hot) else {
        return read(&hot.index).totals.lines;
    };
    let file = ReadOnce(&*file);
    let damaged = entries.iter().filter(|entry| read_frame(&file, &hot.path, entry).is_err());
    damaged.map(|entry| u64::from(entry.lines)).sum()
}

/// How long sealing can wait at present.
pub(crate) fn urgency(core: &StoreCore) -> Urgency {
    let sealable = plan::sealable(core, &HashMap::new());
    let Some(oldest) = sealable.first() else { return Urgency::Whenever };
    if core.signals.sealing.is_low_disk()
        || plan::backlog_bytes(core) > core.config.backlog_bytes_max
    {
        return Urgency::Now;
    }
    // A segment is closed at this age at the latest.
    let closed_ns = oldest.created_ns.saturating_add(core.config.segment_age_ns);
    let due_ns = closed_ns.saturating_add_unsigned(ns_of_ms(OVERDUE_MS));
    match core.clock.now_ns() >= due_ns || core.signals.sealing.is_requested(oldest.id) {
        true => Urgency::Due,
        false => Urgency::Whenever,
    }
}

/// Does one step, if this thread is responsible for it and it need not wait. Otherwise returns how
/// long to pause before the next look.
fn turn(
    background: &Mutex<Background>,
    callbacks: &dyn StoreCallbacks,
    for_haste: bool,
    urgency: Urgency,
    ingest_waits: bool,
) -> (Step, Duration) {
    let mut background = lock(background);
    let publishes = background.is_publishing();
    let in_haste = urgency > Urgency::Whenever;
    if std::mem::replace(&mut background.seen_haste, in_haste) != in_haste {
        // The other thread takes over.
        background.core.signals.sealing.wake();
    }
    let waits_for_nothing = urgency == Urgency::Now || publishes;
    let pause = if waits_for_nothing { Duration::ZERO } else { background.pause() };
    if for_haste != (in_haste || publishes) {
        return (Step::Idle, TICK);
    }
    if !waits_for_nothing && ingest_waits {
        return (Step::Idle, QUEUE_PAUSE);
    }
    if !pause.is_zero() {
        return (Step::Idle, pause);
    }
    let step = background.step(callbacks);
    if publishes || background.is_publishing() {
        // The next step is for the other thread.
        background.core.signals.sealing.wake();
    }
    (step, background.tick())
}

/// The loop of both threads: does the steps that are for this thread, until the store is closed.
pub(crate) fn run(
    core: &StoreCore,
    background: &Mutex<Background>,
    callbacks: &dyn StoreCallbacks,
    for_haste: bool,
) {
    placement::enter(if for_haste { Role::Urgent } else { Role::Background });
    // Only `store-seal-now` itself competes with ingest: while all processors are busy, each of its
    // helpers gets a quarter of a processor.
    helpers::set_role(if for_haste { Role::UrgentHelper } else { Role::Background });
    let (mut seen, mut worked_at) = (0, Some(Instant::now()));
    loop {
        let urgency = urgency(core);
        let ingest_waits = core.queue.bytes() > core.config.queue_bytes_max / QUEUE_PARTS;
        let takes = || turn(background, callbacks, for_haste, urgency, ingest_waits);
        // Without this thread nothing would be sealed any more until the next start.
        let (step, pause) = catch_unwind(AssertUnwindSafe(takes)).unwrap_or_else(|_| {
            tracing::error!("a bug in the work on segments, which goes on in a second");
            (Step::Idle, PANIC_PAUSE)
        });
        let signal = &core.signals.sealing.signal;
        if signal.is_stopped() {
            return;
        }
        if step == Step::Worked {
            worked_at = Some(Instant::now());
            if urgency < Urgency::Now {
                pressure::give_way();
            }
        } else {
            if worked_at.is_some_and(|at| at.elapsed() >= helpers::REST) {
                worked_at = None;
                helpers::rest(|| callbacks.at_rest());
                continue;
            }
            if signal.wait(&mut seen, pause) {
                return;
            }
        }
    }
}
