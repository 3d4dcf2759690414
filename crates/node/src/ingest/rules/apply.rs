//! Carries rules out on a frame.
//!
//! One search over the bytes of the frame finds the lines that each rule may touch (see [`find`]).
//! The lines whose fields rules need are parsed once for all rules; what rules make of lines is
//! collected, and the frame is written anew at the end. A rule behind a change looks at the changed
//! line, and parses it by itself.
//!
//! [`find`]: super::find

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Instant;

use query::{Account, Pulse, ResultRows, RunError, Scratch, TailQuery};
use record::frame::{FRAME_INTERNAL, LineChange, ORIGINS_MAX};
use record::parse::NAME_BYTES_MAX;
use record::{Batch, Frame, Hints, Line};

use super::find::Found;
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
        let mut started = Instant::now();
        let mut work = Work::new(frame, self, parsers, false);
        for (index, rule) in self.rules.iter().enumerate() {
            work.carry_out(index, rule);
            // The first one also counts the search for all of them.
            let ended = Instant::now();
            add(&rule.counts.took_ns, ended.duration_since(started).as_nanos() as u64);
            started = ended;
        }
        work.into_frame()
    }
}

/// What rules make of each line of a frame. Nothing is counted that these rules do not share with
/// others.
pub fn trace(rules: &RuleSet, frame: Frame, parsers: &Parsers) -> Vec<TracedLine> {
    let before = Arc::new(parsers.parse(Arc::new(frame.clone())));
    let mut work = Work::new(frame, rules, parsers, true);
    for (index, rule) in rules.rules.iter().enumerate() {
        work.carry_out(index, rule);
    }
    let traced = std::mem::take(&mut work.traced);
    let is_dropped = |line: u32| work.changes.get(&line).is_some_and(|change| change.dropped);
    let dropped: Vec<bool> = (0..before.len() as u32).map(is_dropped).collect();
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
                | "_tenant"
                | "_note"
        )
}

/// A frame, and what rules make of it.
struct Work<'w> {
    rules: &'w [Rule],
    parsers: &'w Parsers,
    frame: Arc<Frame>,
    /// For each rule, the lines as they came that it may touch.
    found: Found,
    /// The lines as they came whose fields this rule or a later one needs; none before the first.
    parsed: Option<Rows>,
    /// Of the lines that rules changed, ascending.
    changes: BTreeMap<u32, LineChange>,
    /// Lines that later rules do not see, because they were left out or a rule stops; none before
    /// the first.
    closed: Vec<bool>,
    closed_count: usize,
    /// Hints that lines got, so that equal ones are the same.
    hints: HashMap<Hints, Arc<Hints>, foldhash::fast::RandomState>,
    added_bytes: usize,
    /// Origins by their indexes, with the addresses of hints that lines of theirs got. `hints`
    /// keeps these alive.
    pairs: HashSet<(u16, usize), foldhash::fast::RandomState>,
    /// The rules that selected each line, if somebody wants to know.
    traced: Vec<Vec<usize>>,
}

/// Some rows of a batch, ascending, each with the index of its line in the frame.
struct Rows {
    batch: Arc<Batch>,
    rows: Vec<u32>,
    lines: Vec<u32>,
}

impl Rows {
    fn all(batch: Batch, lines: Vec<u32>) -> Rows {
        Rows { batch: Arc::new(batch), rows: (0..lines.len() as u32).collect(), lines }
    }

    /// The rows of some of the lines, which rise; each of them has one.
    fn of(&self, lines: Vec<u32>) -> Rows {
        let mut known = self.lines.iter().zip(&self.rows);
        let row = |line: &u32| known.find(|(known, _)| *known == line).map(|(_, row)| *row);
        let rows = lines.iter().filter_map(row).collect();
        Rows { batch: Arc::clone(&self.batch), rows, lines }
    }

    /// Those that a filter selects.
    fn selected(self, filter: &TailQuery) -> Rows {
        let Rows { batch, rows, lines } = self;
        let pulse = Pulse::endless();
        let found = filter.selected_of(&batch, rows.clone(), &mut Scratch::default(), &pulse);
        let mut all = rows.into_iter().zip(lines);
        let rows = (0..found.len()).filter_map(|index| found.line(index));
        let (rows, lines) =
            rows.filter_map(|(_, row)| all.find(|(known, _)| *known == row)).unzip();
        Rows { batch, rows, lines }
    }
}

impl<'w> Work<'w> {
    fn new(frame: Frame, set: &'w RuleSet, parsers: &'w Parsers, is_traced: bool) -> Work<'w> {
        let lines = frame.header().lines as usize;
        Work {
            rules: &set.rules,
            parsers,
            found: set.finder.find(&frame),
            frame: Arc::new(frame),
            parsed: None,
            changes: BTreeMap::new(),
            closed: Vec::new(),
            closed_count: 0,
            hints: HashMap::default(),
            added_bytes: 0,
            pairs: HashSet::default(),
            traced: if is_traced { vec![Vec::new(); lines] } else { Vec::new() },
        }
    }

    fn into_frame(self) -> Option<Frame> {
        if self.changes.is_empty() {
            // A batch of its lines refers to it.
            drop(self.parsed);
            return Some(Arc::unwrap_or_clone(self.frame));
        }
        self.frame.rewritten(self.changes.iter().map(|(line, change)| (*line, change)))
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
        self.changes.entry(line.index).or_default().hints = Some(Arc::clone(hints));
        true
    }

    fn carry_out(&mut self, index: usize, rule: &Rule) {
        let counts = &rule.counts;
        if let Action::Mask(masks) = &rule.action
            && rule.filter.is_none()
        {
            add(&counts.selected, (self.frame.header().lines as usize - self.closed_count) as u64);
            let lines = self.with_something_to_mask(index, masks);
            self.carry_out_masks(index, rule, masks, &lines);
            if rule.stop {
                self.close(0..self.frame.header().lines);
            }
            return;
        }
        let parts = match needs_fields(rule) {
            true => self.selected(index, rule),
            false => Vec::new(),
        };
        let mut lines = match needs_fields(rule) {
            true => parts.iter().flat_map(|part| part.lines.iter().copied()).collect(),
            false => self.open_lines(),
        };
        if lines.is_empty() {
            return;
        }
        lines.sort_unstable();
        add(&counts.selected, lines.len() as u64);
        // A mask traces those lines in which it found something.
        if !self.traced.is_empty() && !matches!(rule.action, Action::Mask(_)) {
            lines.iter().for_each(|line| self.traced[*line as usize].push(index));
        }
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
            Action::Mask(masks) => self.carry_out_masks(index, rule, masks, &lines),
            Action::Add(additions) => {
                let (changed, failed) = match &additions.pipes {
                    None => self.give(additions, &lines),
                    Some(pipes) => {
                        let each =
                            parts.iter().map(|part| self.give_computed(pipes, additions, part));
                        each.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
                    }
                };
                add(&counts.changed, changed);
                add(&counts.failed, failed);
            }
        }
        if rule.stop {
            self.close(lines.into_iter());
        }
    }

    fn carry_out_masks(&mut self, index: usize, rule: &Rule, masks: &[Mask], lines: &[u32]) {
        let (masked, dropped) = self.mask(index, masks, lines);
        add(&rule.counts.masked, masked);
        add(&rule.counts.dropped, dropped);
        add(&rule.counts.failed, dropped);
    }

    fn is_open(&self, line: u32) -> bool {
        !self.closed.get(line as usize).is_some_and(|closed| *closed)
    }

    fn open_lines(&self) -> Vec<u32> {
        (0..self.frame.header().lines).filter(|line| self.is_open(*line)).collect()
    }

    /// Hides lines from later rules.
    fn close(&mut self, lines: impl Iterator<Item = u32>) {
        self.closed.resize(self.frame.header().lines as usize, false);
        for line in lines {
            let was_closed = std::mem::replace(&mut self.closed[line as usize], true);
            self.closed_count += usize::from(!was_closed);
        }
    }

    /// The open lines as they came that a rule may touch, ascending.
    fn as_they_came(&self, index: usize) -> Vec<u32> {
        let is_meant = |line: &u32| self.is_open(*line) && !self.changes.contains_key(line);
        match &self.found[index] {
            Some(found) => found.iter().copied().filter(is_meant).collect(),
            None => (0..self.frame.header().lines).filter(is_meant).collect(),
        }
    }

    /// The open lines that rules changed and that `may_touch` accepts, ascending.
    fn changed(&self, may_touch: impl Fn(&Line<'_>, &LineChange) -> bool) -> Vec<u32> {
        let is_meant = |line: &u32| self.is_open(*line);
        let changed: Vec<u32> = self.changes.keys().copied().filter(is_meant).collect();
        let lines = self.frame.lines_at(&changed);
        lines
            .filter(|line| {
                self.changes.get(&line.index).is_some_and(|change| may_touch(line, change))
            })
            .map(|line| line.index)
            .collect()
    }

    /// The open lines in which masks may find something, ascending.
    fn with_something_to_mask(&mut self, index: usize, masks: &[Mask]) -> Vec<u32> {
        let frame = Arc::clone(&self.frame);
        let mut origins = frame.origins().iter();
        if origins.any(|origin| self.masked_hints(masks, &origin.hints).is_some()) {
            return self.open_lines();
        }
        let mut lines = self.as_they_came(index);
        lines.extend(self.changed(|_, _| true));
        lines.sort_unstable();
        lines
    }

    /// The records of the lines that a rule selects, of those that rules changed apart.
    fn selected(&mut self, index: usize, rule: &Rule) -> Vec<Rows> {
        let as_they_came = self.as_they_came(index);
        let changed = self.changed(|line, change| match &rule.texts {
            Some(texts) => texts.may_pass(change.bytes_of(line), change.hints_of(line)),
            None => true,
        });
        let mut parts = Vec::new();
        if !as_they_came.is_empty() {
            if self.parsed.is_none() {
                self.parsed = Some(self.parse_for_rules_from(index));
            }
            parts.extend(self.parsed.as_ref().map(|parsed| parsed.of(as_they_came)));
        }
        let changes = changed.iter().filter_map(|line| Some((*line, self.changes.get(line)?)));
        if let Some(frame) = self.frame.changed_lines(changes) {
            parts.push(Rows::all(self.parsers.parse(Arc::new(frame)), changed));
        }
        match &rule.filter {
            None => parts,
            Some(filter) => parts.into_iter().map(|part| part.selected(filter)).collect(),
        }
    }

    /// The records of the lines as they came whose fields this rule or a later one needs. No rule
    /// adds to these lines: those that change are no longer as they came.
    fn parse_for_rules_from(&self, index: usize) -> Rows {
        let needing =
            || (index..self.rules.len()).filter(|index| needs_fields(&self.rules[*index]));
        // One that needs all lines needs those of all others.
        let lines = match needing().find(|index| self.found[*index].is_none()) {
            Some(index) => self.as_they_came(index),
            None => {
                let mut lines: Vec<u32> =
                    needing().flat_map(|index| self.as_they_came(index)).collect();
                lines.sort_unstable();
                lines.dedup();
                lines
            }
        };
        let is_all = lines.len() == self.frame.header().lines as usize;
        let batch = self.parsers.with(|parser| match is_all {
            true => parser.parse(Arc::clone(&self.frame)),
            false => parser.parse_lines(Arc::clone(&self.frame), &lines),
        });
        Rows::all(batch, lines)
    }

    fn drop_lines(&mut self, lines: &[u32]) {
        for &line in lines {
            // The text is needed no more.
            self.changes.insert(line, LineChange { dropped: true, ..LineChange::default() });
        }
        self.close(lines.iter().copied());
    }

    /// Masks lines; returns in how many there was something to mask, and how many of them had to be
    /// left out because the frame has no room for their fields.
    fn mask(&mut self, rule: usize, masks: &[Mask], lines: &[u32]) -> (u64, u64) {
        let frame = Arc::clone(&self.frame);
        let (mut masked, mut dropped) = (0, 0);
        let none = LineChange::default();
        for line in frame.lines_at(lines) {
            let change = self.changes.get(&line.index).unwrap_or(&none);
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
                self.changes.entry(line.index).or_default().bytes = Some(bytes);
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
        for line in frame.lines_at(lines) {
            let before = &self.hints_now(&line);
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

    /// The hints of a line with the changes so far.
    fn hints_now(&self, line: &Line<'_>) -> Arc<Hints> {
        let change = self.changes.get(&line.index);
        Arc::clone(change.map_or(&line.origin.hints, |change| change.hints_of(line)))
    }

    /// Gives lines what pipes make of their fields. Returns how many got something, and how many
    /// not all.
    fn give_computed(
        &mut self,
        pipes: &TailQuery,
        additions: &Additions,
        selected: &Rows,
    ) -> (u64, u64) {
        let frame = Arc::clone(&self.frame);
        let Rows { batch, rows, lines } = selected;
        let mut computed: Vec<Option<Vec<(String, String)>>> = vec![None; lines.len()];
        let mut of_rows = |found: &ResultRows| -> Result<(), RunError> {
            let mut scratch = Scratch::default();
            for index in 0..found.len() {
                if let Some((_, row)) = found.line(index)
                    && let Ok(place) = rows.binary_search(&row)
                {
                    computed[place] =
                        Some(differing(batch, row as usize, found, index, &mut scratch));
                }
            }
            Ok(())
        };
        let (account, mut scratch) = (Arc::<Account>::default(), Scratch::default());
        let ran = pipes.rows_of(batch, rows.clone(), &account, &mut scratch, &mut of_rows);
        let (mut changed, mut failed) = (0, 0);
        if let Err(error) = ran {
            tracing::warn!("a rule could not compute fields of some lines: {error}");
        }
        for (line, fields) in frame.lines_at(lines).zip(computed) {
            let before = self.hints_now(&line);
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
        // What a line contains must not take it from the tenant that sent it.
        if let Some(tenant) = additions.tenant
            && hints.tenant.is_default()
        {
            hints.tenant = tenant;
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

/// Whether a rule needs the fields of lines.
fn needs_fields(rule: &Rule) -> bool {
    let has_pipes = matches!(&rule.action, Action::Add(additions) if additions.pipes.is_some());
    rule.filter.is_some() || has_pipes
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
