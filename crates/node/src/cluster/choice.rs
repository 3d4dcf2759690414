//! Chooses the stores that a query reads, so that the answer has all lines. Without input and
//! output: what each store has taken is given.
//!
//! Where all copies have equally many stores, the stores at one position of each copy are a
//! *stripe*: they have the same frames. A store *lacks* a frame that another store of its stripe
//! has taken and still stores. A store that came back empty, or from an old backup, lacks frames;
//! so does one that was away, until the spools have delivered what waits for it.
//!
//! The stores of one copy are read if they lack nothing. Else each stripe is read from a store
//! that lacks nothing. Else the answer is not complete, and says what is missing.
//!
//! What cannot be known: frames that only a store had that this node never heard of, and lines that
//! a store received itself, which have one copy.

use std::collections::BTreeMap;
use std::fmt;

use record::Numbers;
use store::{NodeFrames, RANGES_KEPT};

use super::frames::StoreFrames;

/// Numbers of a collector's frames come in ranges of this size, one for each stripe; the first of
/// a range is one above a multiple.
const NUMBERS_RANGE: u64 = 1 << 40;
/// Frames that a collector had in memory when it was killed, and that reached one copy only. No
/// sender was told that their lines are kept. A store that lacks more frames than these before a
/// gap in the numbers lost them.
const UNACKNOWLEDGED_MAX: u64 = 256;

/// What is known of one store.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known<'a> {
    /// What it has now; none: it cannot be read.
    pub now: Option<&'a StoreFrames>,
    /// What it had a moment ago, or when it was last seen: the other stores of its stripe must have
    /// that by now. None: it was never seen.
    pub before: Option<&'a StoreFrames>,
}

/// What a store lacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lack {
    /// The store, or the first of a copy that is compared as a whole.
    pub store: usize,
    /// Why it is known that it lacks something.
    pub what: Lacking,
}

/// What is lacking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lacking {
    /// Frames of a collector that another store has.
    Frames {
        /// The collector.
        collector: u32,
        /// Their numbers.
        frames: Numbers,
        /// About how many lines they have.
        lines: u64,
        /// The store that has them.
        held_by: usize,
    },
    /// The first frames of a collector, before the oldest one here. No other store of the stripe
    /// was ever seen, so nobody knows whether they still exist.
    Beginning {
        /// The collector.
        collector: u32,
        /// Their numbers.
        frames: Numbers,
    },
    /// The store is empty, and no other store of its stripe was ever seen.
    Everything,
}

impl Lack {
    /// A sentence for people. `names`: of the stores.
    pub fn describe(&self, names: &[&str]) -> String {
        let name = names[self.store];
        match &self.what {
            Lacking::Frames { collector, frames, lines, held_by } => format!(
                "store {name} lacks {} of collector {collector:08x}, about {lines} lines, that store {} has",
                Shown(frames),
                names[*held_by]
            ),
            Lacking::Beginning { collector, frames } => format!(
                "store {name} lacks {} of collector {collector:08x}, and no other copy of it was seen since this server started",
                Shown(frames)
            ),
            Lacking::Everything => format!(
                "store {name} is empty, and no other copy of it was seen since this server started"
            ),
        }
    }

    /// How many frames are lacking, as far as they can be counted.
    pub fn frames(&self) -> u64 {
        match &self.what {
            Lacking::Frames { frames, .. } | Lacking::Beginning { frames, .. } => frames.count(),
            Lacking::Everything => 0,
        }
    }
}

/// `12 frames (3 to 9, 20 to 24)`, at most the first ranges.
struct Shown<'a>(&'a Numbers);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.0.count();
        write!(f, "{count} frame{} (", if count == 1 { "" } else { "s" })?;
        for (place, (first, last)) in self.0.ranges().enumerate() {
            match place {
                0 => {}
                1 | 2 => write!(f, ", ")?,
                _ => {
                    write!(f, ", …")?;
                    break;
                }
            }
            match first == last {
                true => write!(f, "{first}")?,
                false => write!(f, "{first} to {last}")?,
            }
        }
        write!(f, ")")
    }
}

/// The stores that are read, and what the answer lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    /// The stores.
    pub stores: Vec<usize>,
    /// What they lack.
    pub lacks: Vec<Lack>,
    /// Stores none of which can be read, so that their lines are missing: those of a stripe, or of
    /// the copy that is read.
    pub away: Vec<Vec<usize>>,
}

impl Choice {
    /// Whether the answer has all lines that are known of.
    pub fn is_whole(&self) -> bool {
        self.lacks.is_empty() && self.away.is_empty() && !self.stores.is_empty()
    }

    /// What orders choices: the smallest is the best.
    fn badness(&self, known: &[Known<'_>]) -> (usize, bool, u64, u64) {
        let lines = |lack: &Lack| match lack.what {
            Lacking::Frames { lines, .. } => lines.max(1),
            Lacking::Beginning { .. } => 1,
            Lacking::Everything => u64::MAX,
        };
        let damaged = |store: &usize| known[*store].now.map_or(0, |now| now.lines_damaged);
        (
            self.away.len(),
            !self.lacks.is_empty(),
            self.lacks.iter().map(lines).fold(0, u64::saturating_add),
            self.stores.iter().map(damaged).sum(),
        )
    }
}

/// Chooses the stores to read. `copies`: the stores of each copy, as indexes of `known`.
pub fn choose(copies: &[Vec<usize>], known: &[Known<'_>]) -> Choice {
    let whole_copies: Vec<Choice> =
        copies.iter().map(|copy| of_copy(copies, copy, known)).collect();
    let best = whole_copies.into_iter().min_by_key(|choice| choice.badness(known));
    let best = best.unwrap_or_default();
    let have_stripes = copies.len() > 1 && copies[0].len() > 1 && are_stripes(copies, known);
    if best.is_whole() || !have_stripes {
        return best;
    }
    let mut mixed = Choice::default();
    for stripe in stripes(copies) {
        let readable = stripe.iter().filter(|store| known[**store].now.is_some());
        let choices = readable.map(|&store| Choice {
            stores: vec![store],
            lacks: lacks_of(&[store], &others(&stripe, store), known),
            away: Vec::new(),
        });
        match choices.min_by_key(|choice| choice.badness(known)) {
            Some(choice) => {
                mixed.stores.extend(choice.stores);
                mixed.lacks.extend(choice.lacks);
            }
            None => mixed.away.push(stripe),
        }
    }
    // Only the frames of collectors tell which store has which stripe.
    let is_fed = |store: &usize| known[*store].now.is_some_and(|now| !now.collectors.is_empty());
    let is_known = mixed.stores.iter().all(is_fed);
    match is_known && mixed.badness(known) <= best.badness(known) {
        true => mixed,
        false => best,
    }
}

/// What each store lacks, or where copies are compared as wholes, what each copy lacks.
pub fn all_lacks(copies: &[Vec<usize>], known: &[Known<'_>]) -> Vec<Lack> {
    copies.iter().flat_map(|copy| of_copy(copies, copy, known).lacks).collect()
}

/// The stores of one copy.
fn of_copy(copies: &[Vec<usize>], copy: &[usize], known: &[Known<'_>]) -> Choice {
    let stores: Vec<usize> =
        copy.iter().copied().filter(|store| known[*store].now.is_some()).collect();
    let away = copy.iter().filter(|store| known[**store].now.is_none());
    let away = away.map(|store| vec![*store]).collect();
    let lacks = match are_stripes(copies, known) {
        true => {
            let of_store = |&store: &usize| {
                let stripe = stripes(copies).into_iter().find(|stripe| stripe.contains(&store));
                lacks_of(&[store], &others(&stripe.unwrap_or_default(), store), known)
            };
            stores.iter().flat_map(of_store).collect()
        }
        // A store of it that is away is told apart.
        false if stores.len() < copy.len() => Vec::new(),
        false => {
            let others: Vec<Vec<usize>> =
                copies.iter().filter(|other| other[..] != *copy).cloned().collect();
            lacks_of(&stores, &others, known)
        }
    };
    Choice { stores, lacks, away }
}

fn others(stripe: &[usize], store: usize) -> Vec<Vec<usize>> {
    stripe.iter().filter(|other| **other != store).map(|other| vec![*other]).collect()
}

/// The stores at each position of all copies.
fn stripes(copies: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let positions = copies.first().map_or(0, Vec::len);
    (0..positions)
        .map(|at| copies.iter().filter_map(|copy| copy.get(at).copied()).collect())
        .collect()
}

/// Whether the stores at one position have the same frames: all copies have equally many stores,
/// and none has frames that a store at another position has.
fn are_stripes(copies: &[Vec<usize>], known: &[Known<'_>]) -> bool {
    if copies.windows(2).any(|two| two[0].len() != two[1].len()) {
        return false;
    }
    let stripes = stripes(copies);
    let taken: Vec<BTreeMap<u32, Numbers>> =
        stripes.iter().map(|stripe| taken(stripe, known)).collect();
    let overlap = |one: &BTreeMap<u32, Numbers>, two: &BTreeMap<u32, Numbers>| {
        one.iter().any(|(node, numbers)| {
            two.get(node).is_some_and(|other| !numbers.common(other).is_empty())
        })
    };
    (0..taken.len()).all(|at| (0..at).all(|before| !overlap(&taken[before], &taken[at])))
}

/// The frames that stores have taken together, by collector.
fn taken(stores: &[usize], known: &[Known<'_>]) -> BTreeMap<u32, Numbers> {
    let mut all: BTreeMap<u32, Numbers> = BTreeMap::new();
    for state in stores.iter().filter_map(|store| known[*store].now.or(known[*store].before)) {
        for (&node, frames) in &state.collectors {
            all.entry(node).or_default().insert_all(&frames.taken);
        }
    }
    all
}

/// What `stores`, which are read together, lack of what each of the `others` has.
fn lacks_of(stores: &[usize], others: &[Vec<usize>], known: &[Known<'_>]) -> Vec<Lack> {
    let Some(&first) = stores.first() else { return Vec::new() };
    let taken = taken(stores, known);
    let none = Numbers::new();
    let mut found: BTreeMap<u32, Lacking> = BTreeMap::new();
    for &other in others.iter().flatten() {
        let Some(before) = known[other].before else { continue };
        for (&collector, theirs) in &before.collectors {
            let own = taken.get(&collector).unwrap_or(&none);
            let frames = lacking(own, theirs);
            if frames.is_empty() {
                continue;
            }
            let lines = lines_of(&frames, before);
            let more = found.get(&collector).is_none_or(|known| match known {
                Lacking::Frames { frames: known, .. } => known.count() < frames.count(),
                _ => true,
            });
            if more {
                let lacking = Lacking::Frames { collector, frames, lines, held_by: other };
                found.insert(collector, lacking);
            }
        }
    }
    let is_unseen = |other: &Vec<usize>| other.iter().all(|store| known[*store].before.is_none());
    let mut lacks: Vec<Lacking> = found.into_values().collect();
    if !others.is_empty() && others.iter().all(is_unseen) {
        lacks.extend(unknown_beginnings(stores, known));
        let is_empty = |store: &usize| known[*store].now.is_some_and(StoreFrames::is_empty);
        if stores.iter().all(is_empty) {
            lacks.push(Lacking::Everything);
        }
    }
    lacks.into_iter().map(|what| Lack { store: first, what }).collect()
}

/// The frames that a store should have taken, because another one of its stripe has them.
fn lacking(own: &Numbers, theirs: &NodeFrames) -> Numbers {
    let mut lacking = Numbers::new();
    let last = theirs.taken.greatest().max(own.greatest()).unwrap_or(0);
    for (from, to) in missing(own, theirs).ranges() {
        // The numbers behind it were never used: the collector was killed. It has a new start, and
        // did not bring this frame again.
        let is_end = to < last && !theirs.taken.contains(to + 1);
        let is_continued = from > 0 && own.contains(from - 1);
        if !(is_end && is_continued && to - from < UNACKNOWLEDGED_MAX) {
            lacking.insert_range(from, to);
        }
    }
    lacking
}

/// The frames that another store of the stripe still has, and that this one has not taken.
pub fn missing(own: &Numbers, theirs: &NodeFrames) -> Numbers {
    let missing = theirs.stored.without(own);
    match own.smallest() {
        // A store with many gaps forgets the lowest ranges.
        Some(smallest) if own.ranges().len() >= RANGES_KEPT => {
            let mut forgotten = Numbers::new();
            forgotten.insert_range(0, smallest);
            missing.without(&forgotten)
        }
        _ => missing,
    }
}

/// About how many lines some frames of a store have.
fn lines_of(frames: &Numbers, store: &StoreFrames) -> u64 {
    let all: u64 = store.collectors.values().map(|frames| frames.stored.count()).sum();
    let lines = u128::from(store.lines) * u128::from(frames.count()) / u128::from(all.max(1));
    u64::try_from(lines).unwrap_or(u64::MAX)
}

/// The frames before the first one of each collector, unless that first one has expired here, and
/// those before it with it.
fn unknown_beginnings(stores: &[usize], known: &[Known<'_>]) -> Vec<Lacking> {
    let states = stores.iter().filter_map(|store| known[*store].now);
    let collectors = states.flat_map(|state| &state.collectors);
    let beginning = |(&collector, frames): (&u32, &NodeFrames)| {
        let first = frames.taken.smallest()?;
        let start = first.saturating_sub(1) / NUMBERS_RANGE * NUMBERS_RANGE + 1;
        let is_kept = frames.stored.smallest() == Some(first);
        if first <= start || !is_kept || frames.taken.ranges().len() >= RANGES_KEPT {
            return None;
        }
        let mut before = Numbers::new();
        before.insert_range(start, first - 1);
        Some(Lacking::Beginning { collector, frames: before })
    };
    collectors.filter_map(beginning).collect()
}

#[cfg(test)]
mod tests;
