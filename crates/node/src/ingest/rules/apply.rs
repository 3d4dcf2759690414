//! Carries rules out on a frame.
//!
//! A frame none of whose lines holds the texts that the filters need goes through untouched, after
//! a search for these texts. Else the lines that hold one are parsed, once for each rule, and the
//! changes are collected by line; the frame is written anew at the end. A rule behind a change
//! parses the changed line.

use std::cell::OnceCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use query::{Account, RawLines, ResultRows, RunError, Scratch, TailQuery};
use record::frame::{FRAME_INTERNAL, LineChange, ORIGINS_MAX};
use record::parse::NAME_BYTES_MAX;
use record::{Batch, Frame, Hints, Line};

use super::mask::Mask;
use super::{Action, Additions, Rule, RuleSet, add};
use crate::storage::stored::Parsers;

/// Bytes of the fields that rules give to the lines of a frame, where equal ones count once.
/// Further lines get none, and are counted as failed.
///
/// limits.md, Lines on their way in: fields by rules at ingest | {} a frame | further lines of the
/// frame get none, and count as failed
pub const ADDED_BYTES_MAX: usize = 8 << 20;

/// What rules make of a line, for people who try them out.
pub struct TracedLine {
    /// Indexes of the rules that selected the line.
    pub rules: Vec<usize>,
    /// The line as it came.
    pub before: (Arc<Batch>, usize),
    /// The line behind the rules; none: they left it out.
    pub after: Option<(Arc<Batch>, usize)>,
}

impl RuleSet {
    /// What the rules make of a frame; `None` if they leave out all of its lines.
    pub fn apply(&self, frame: Frame, parsers: &Parsers) -> Option<Frame> {
        if self.is_empty() || frame.header().flags & FRAME_INTERNAL != 0 {
            return Some(frame);
        }
        let mut work = Work::new(frame, parsers, false);
        for (index, rule) in self.rules.iter().enumerate() {
            let started = Instant::now();
            work.carry_out(index, rule);
            rule.counts.took_ns.fetch_add(started.elapsed().as_nanos() as u64, Relaxed);
        }
        work.into_frame()
    }
}

/// What rules make of each line of a frame. Nothing is counted that these rules do not share with
/// others.
pub fn trace(rules: &RuleSet, frame: Frame, parsers: &Parsers) -> Vec<TracedLine> {
    let before = Arc::new(parsers.parse(Arc::new(frame.clone())));
    let mut work = Work::new(frame, parsers, true);
    for (index, rule) in rules.rules.iter().enumerate() {
        work.carry_out(index, rule);
    }
    let traced = std::mem::take(&mut work.traced);
    let dropped: Vec<bool> = match work.changes.is_empty() {
        true => vec![false; before.len()],
        false => work.changes.iter().map(|change| change.dropped).collect(),
    };
    let after = work.into_frame().map(|frame| Arc::new(parsers.parse(Arc::new(frame))));
    let mut place = 0..;
    let lines = traced.into_iter().zip(dropped).enumerate();
    lines
        .map(|(index, (rules, dropped))| TracedLine {
            rules,
            before: (Arc::clone(&before), index),
            after: match (&after, dropped) {
                (Some(batch), false) => Some((Arc::clone(batch), place.next().unwrap_or(0))),
                _ => None,
            },
        })
        .collect()
}

/// Whether a rule can give a field of that name. Names that a line's origin or its place decide
/// about cannot be given.
pub fn may_be_given(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && !matches!(
            name,
            "_time"
                | "_stream"
                | "_stream_id"
                | "_line"
                | "_line_id"
                | "_received"
                | "_type"
                | "_note"
        )
}

/// A frame, and what rules make of it.
struct Work<'p> {
    parsers: &'p Parsers,
    frame: Arc<Frame>,
    has_escapes: OnceCell<bool>,
    /// One for each line, or none before a rule selected lines.
    changes: Vec<LineChange>,
    /// Whether any of them is one.
    is_changed: bool,
    /// Lines that later rules do not see; none before the first.
    stopped: Vec<bool>,
    /// Hints that lines got, so that equal ones are the same.
    hints: HashMap<Hints, Arc<Hints>, foldhash::fast::RandomState>,
    added_bytes: usize,
    /// Origins by their indexes, with the addresses of hints that lines of theirs got. `hints`
    /// keeps these alive.
    pairs: HashSet<(u16, usize), foldhash::fast::RandomState>,
    /// The rules that selected each line, if somebody wants to know.
    traced: Vec<Vec<usize>>,
}

impl<'p> Work<'p> {
    fn new(frame: Frame, parsers: &'p Parsers, is_traced: bool) -> Work<'p> {
        let lines = frame.header().lines as usize;
        Work {
            parsers,
            frame: Arc::new(frame),
            has_escapes: OnceCell::new(),
            changes: Vec::new(),
            is_changed: false,
            stopped: Vec::new(),
            hints: HashMap::default(),
            added_bytes: 0,
            pairs: HashSet::default(),
            traced: if is_traced { vec![Vec::new(); lines] } else { Vec::new() },
        }
    }

    fn into_frame(self) -> Option<Frame> {
        if !self.is_changed {
            return Some(Arc::unwrap_or_clone(self.frame));
        }
        self.frame.rewritten(|line| self.changes.get(line.index as usize))
    }

    /// Gives a line these hints. False where the frame has no room for further origins.
    fn place(&mut self, line: &Line<'_>, hints: &Arc<Hints>) -> bool {
        let pair = (line.origin_index, Arc::as_ptr(hints).addr());
        if !self.pairs.contains(&pair) {
            if self.pairs.len() + self.frame.origins().len() >= ORIGINS_MAX {
                return false;
            }
            self.pairs.insert(pair);
        }
        self.changes[line.index as usize].hints = Some(Arc::clone(hints));
        self.is_changed = true;
        true
    }

    fn carry_out(&mut self, index: usize, rule: &Rule) {
        let counts = &rule.counts;
        if let Action::Mask(masks) = &rule.action
            && rule.filter.is_none()
            && !self.may_mask(masks)
        {
            return;
        }
        let Some(lines) = self.candidates(rule) else { return };
        let (lines, batch) = match &rule.filter {
            None => (lines, None),
            Some(filter) => {
                let batch = Arc::new(self.parse(&lines));
                (select(filter, &batch, &lines), Some(batch))
            }
        };
        if lines.is_empty() {
            return;
        }
        add(&counts.selected, lines.len() as u64);
        // A mask traces those lines in which it found something.
        if !self.traced.is_empty() && !matches!(rule.action, Action::Mask(_)) {
            lines.iter().for_each(|line| self.traced[*line as usize].push(index));
        }
        self.begin_changes();
        match &rule.action {
            Action::Drop => {
                self.drop_lines(&lines);
                add(&counts.dropped, lines.len() as u64);
            }
            Action::KeepOneIn(count) => {
                let first = counts.selected.load(Relaxed) - lines.len() as u64;
                let number = |place: usize| first + place as u64;
                let places = (0..lines.len()).filter(|place| number(*place) % count != 0);
                let left: Vec<u32> = places.map(|place| lines[place]).collect();
                self.drop_lines(&left);
                add(&counts.dropped, left.len() as u64);
            }
            Action::Mask(masks) => {
                let (masked, dropped) = self.mask(index, masks, &lines);
                add(&counts.masked, masked);
                add(&counts.dropped, dropped);
                add(&counts.failed, dropped);
            }
            Action::Add(additions) => {
                let (changed, failed) = match &additions.pipes {
                    None => self.give(additions, &lines),
                    Some(pipes) => {
                        drop(batch);
                        self.give_computed(pipes, additions, &lines)
                    }
                };
                add(&counts.changed, changed);
                add(&counts.failed, failed);
            }
        }
        if rule.stop {
            self.stopped.resize(self.changes.len(), false);
            lines.iter().for_each(|line| self.stopped[*line as usize] = true);
        }
    }

    fn begin_changes(&mut self) {
        self.changes.resize(self.frame.header().lines as usize, LineChange::default());
    }

    fn has_newlines(&self) -> bool {
        self.frame.runs().iter().any(|run| run.has_lengths())
    }

    /// Whether any line may have something to mask.
    fn may_mask(&self, masks: &[Mask]) -> bool {
        // What a rule gave a line is not in the payload.
        let is_bare = !self.is_changed
            && self.frame.origins().iter().all(|origin| origin.hints.extra_fields.is_empty());
        self.has_newlines()
            || !is_bare
            || masks.iter().any(|mask| mask.may_be_in(self.frame.payload()))
    }

    /// The lines that a rule may select, ascending; `None` if there are none.
    fn candidates(&self, rule: &Rule) -> Option<Vec<u32>> {
        let is_open = |line: &u32| {
            let line = *line as usize;
            !self.changes.get(line).is_some_and(|change| change.dropped)
                && !self.stopped.get(line).is_some_and(|stopped| *stopped)
        };
        let count = self.frame.header().lines;
        let all = || (0..count).filter(is_open).collect::<Vec<u32>>();
        let lines = match &rule.texts {
            None => all(),
            Some(texts) => {
                let payload = self.frame.payload();
                let escapes = || *self.has_escapes.get_or_init(|| RawLines::has_escapes(payload));
                let origins = self.frame.origins();
                let is_bare = !self.is_changed
                    && !self.has_newlines()
                    && origins.iter().all(|origin| origin.hints.extra_fields.is_empty());
                if is_bare && !texts.may_be_in(payload, escapes()) {
                    return None;
                }
                match texts.lines(&self.frame) {
                    None => all(),
                    // Changed lines may hold other texts.
                    Some(mut found) => {
                        let changed = self.changes.iter().enumerate();
                        let changed = changed.filter(|(_, change)| !change.is_none());
                        found.extend(changed.map(|(line, _)| line as u32));
                        found.sort_unstable();
                        found.dedup();
                        found.retain(is_open);
                        found
                    }
                }
            }
        };
        (!lines.is_empty()).then_some(lines)
    }

    /// The records of some lines, with the changes so far.
    fn parse(&self, lines: &[u32]) -> Batch {
        let is_changed =
            |line: &u32| self.changes.get(*line as usize).is_some_and(|c| !c.is_none());
        if !lines.iter().any(is_changed) {
            return self.parsers.with(|parser| {
                match lines.len() == self.frame.header().lines as usize {
                    true => parser.parse(Arc::clone(&self.frame)),
                    false => parser.parse_lines(Arc::clone(&self.frame), lines),
                }
            });
        }
        let left_out = LineChange { dropped: true, ..LineChange::default() };
        let mut wanted = lines.iter().copied().peekable();
        let frame = self.frame.rewritten(|line| match wanted.next_if_eq(&line.index).is_some() {
            true => self.changes.get(line.index as usize),
            false => Some(&left_out),
        });
        let frame = frame.expect("some lines are wanted, and none of them was left out");
        self.parsers.parse(Arc::new(frame))
    }

    fn drop_lines(&mut self, lines: &[u32]) {
        self.is_changed |= !lines.is_empty();
        for &line in lines {
            // The text is needed no more.
            self.changes[line as usize] = LineChange { dropped: true, ..LineChange::default() };
        }
    }

    /// Masks lines; returns in how many there was something to mask, and how many of them had to be
    /// left out because the frame has no room for their fields.
    fn mask(&mut self, rule: usize, masks: &[Mask], lines: &[u32]) -> (u64, u64) {
        let frame = Arc::clone(&self.frame);
        let (mut masked, mut dropped) = (0, 0);
        for line in some(&frame, lines) {
            let change = &self.changes[line.index as usize];
            let bytes = masked_by(masks, change.bytes_of(&line));
            let hints = Arc::clone(change.hints_of(&line));
            let hints = self.masked_hints(masks, &hints);
            if bytes.is_none() && hints.is_none() {
                continue;
            }
            masked += 1;
            if let Some(traced) = self.traced.get_mut(line.index as usize) {
                traced.push(rule);
            }
            if let Some(bytes) = bytes {
                self.changes[line.index as usize].bytes = Some(bytes);
                self.is_changed = true;
            }
            if let Some(hints) = hints
                && !self.place(&line, &hints)
            {
                // What is to be masked must not be kept.
                self.drop_lines(&[line.index]);
                dropped += 1;
            }
        }
        (masked, dropped)
    }

    /// Hints whose extra fields are masked; `None` if nothing of them is.
    fn masked_hints(&mut self, masks: &[Mask], hints: &Arc<Hints>) -> Option<Arc<Hints>> {
        let mask = |(_, value): &(String, String)| masked_by(masks, value.as_bytes());
        if !hints.extra_fields.iter().any(|field| mask(field).is_some()) {
            return None;
        }
        let mut hints = Hints::clone(hints);
        for (_, value) in &mut hints.extra_fields {
            if let Some(masked) = masked_by(masks, value.as_bytes()) {
                *value = String::from_utf8_lossy(&masked).into_owned();
            }
        }
        Some(self.shared(hints))
    }

    /// Gives lines what is the same for all of them. Returns how many got it, and how many did not.
    fn give(&mut self, additions: &Additions, lines: &[u32]) -> (u64, u64) {
        let frame = Arc::clone(&self.frame);
        // Nearly always, lines have the hints of the line before.
        let mut last: Option<(Arc<Hints>, Option<Arc<Hints>>)> = None;
        let (mut changed, mut failed) = (0, 0);
        for line in some(&frame, lines) {
            let before = &Arc::clone(self.changes[line.index as usize].hints_of(&line));
            let after = match &last {
                Some((known, after)) if Arc::ptr_eq(known, before) => after.clone(),
                _ => {
                    let before = Arc::clone(before);
                    let after = self.with(&before, additions, Vec::new());
                    last = Some((before, after.clone()));
                    after
                }
            };
            match after {
                Some(hints) if Arc::ptr_eq(&hints, before) => {}
                Some(hints) if self.place(&line, &hints) => changed += 1,
                _ => failed += 1,
            }
        }
        (changed, failed)
    }

    /// Gives lines what pipes make of their fields. Returns how many got something, and how many
    /// not all.
    fn give_computed(
        &mut self,
        pipes: &TailQuery,
        additions: &Additions,
        lines: &[u32],
    ) -> (u64, u64) {
        let frame = Arc::clone(&self.frame);
        let batch = Arc::new(self.parse(lines));
        let mut computed: Vec<Option<Vec<(String, String)>>> = vec![None; lines.len()];
        let mut scratch = Scratch::default();
        let mut of_rows = |rows: &ResultRows| -> Result<(), RunError> {
            let mut scratch = Scratch::default();
            for index in 0..rows.len() {
                if let Some((_, row)) = rows.line(index) {
                    computed[row as usize] =
                        Some(differing(&batch, row as usize, rows, index, &mut scratch));
                }
            }
            Ok(())
        };
        let ran = pipes.rows(&batch, &Arc::<Account>::default(), &mut scratch, &mut of_rows);
        let (mut changed, mut failed) = (0, 0);
        if let Err(error) = ran {
            tracing::warn!("a rule could not compute fields of some lines: {error}");
        }
        for (line, fields) in some(&frame, lines).zip(computed) {
            let before = Arc::clone(self.changes[line.index as usize].hints_of(&line));
            let Some(fields) = fields else {
                failed += 1;
                continue;
            };
            match self.with(&before, additions, fields) {
                Some(hints) if Arc::ptr_eq(&hints, &before) => {}
                Some(hints) if self.place(&line, &hints) => changed += 1,
                _ => failed += 1,
            }
        }
        (changed, failed)
    }

    /// Hints with additions; `None` where the frame has no room for them.
    fn with(
        &mut self,
        before: &Arc<Hints>,
        additions: &Additions,
        computed: Vec<(String, String)>,
    ) -> Option<Arc<Hints>> {
        let mut hints = Hints::clone(before);
        for (name, value) in computed.into_iter().chain(additions.fields.iter().cloned()) {
            if name == "_type" {
                hints.log_type = Some(value);
                continue;
            }
            match hints.extra_fields.iter_mut().find(|(known, _)| *known == name) {
                Some(known) => known.1 = value,
                None => hints.extra_fields.push((name, value)),
            }
        }
        if let Some(log_type) = &additions.log_type {
            hints.log_type = Some(log_type.clone());
        }
        if let Some(zone) = &additions.zone {
            hints.zone = Some(zone.clone());
        }
        if hints == **before {
            return Some(Arc::clone(before));
        }
        if self.hints.contains_key(&hints) {
            return Some(self.shared(hints));
        }
        let fields = hints.extra_fields.iter();
        let bytes: usize = fields.map(|(name, value)| name.len() + value.len() + 4).sum();
        if self.added_bytes + bytes > ADDED_BYTES_MAX {
            return None;
        }
        self.added_bytes += bytes;
        Some(self.shared(hints))
    }

    /// The same for equal hints.
    fn shared(&mut self, hints: Hints) -> Arc<Hints> {
        if let Some(known) = self.hints.get(&hints) {
            return Arc::clone(known);
        }
        let shared = Arc::new(hints.clone());
        self.hints.insert(hints, Arc::clone(&shared));
        shared
    }
}

/// Some lines of a frame, by their indexes, which rise.
fn some<'f>(frame: &'f Frame, lines: &[u32]) -> impl Iterator<Item = Line<'f>> {
    let mut wanted = lines.iter().copied().peekable();
    frame.lines().filter(move |line| wanted.next_if_eq(&line.index).is_some())
}

/// Those of `lines` that a filter selects; `batch` has a row for each of them.
fn select(filter: &TailQuery, batch: &Arc<Batch>, lines: &[u32]) -> Vec<u32> {
    let rows = filter.selected(batch, &mut Scratch::default());
    let row = |index: usize| rows.line(index).map(|(_, row)| lines[row as usize]);
    (0..rows.len()).filter_map(row).collect()
}

fn masked_by(masks: &[Mask], text: &[u8]) -> Option<Vec<u8>> {
    let mut masked: Option<Vec<u8>> = None;
    for mask in masks {
        if let Some(more) = mask.masked(masked.as_deref().unwrap_or(text)) {
            masked = Some(more);
        }
    }
    masked
}

/// The fields of a row behind pipes that differ from those before; those that are gone are empty.
fn differing(
    batch: &Batch,
    row: usize,
    after: &ResultRows,
    index: usize,
    scratch: &mut Scratch,
) -> Vec<(String, String)> {
    let before = batch.row(row);
    let mut seen: Vec<String> = Vec::new();
    let mut fields = Vec::new();
    after.visit(index, scratch, |name, value| {
        seen.push(name.to_owned());
        let is_new = before.get_by_name(name) != Some(value);
        if is_new && (may_be_given(name) || name == "_type") {
            fields.push((name.to_owned(), String::from_utf8_lossy(value).into_owned()));
        }
    });
    for (id, value) in before.fields() {
        let name = batch.name(id);
        let is_gone = !value.is_empty() && !seen.iter().any(|seen| seen == name);
        if is_gone && may_be_given(name) {
            fields.push((name.to_owned(), String::new()));
        }
    }
    fields
}
