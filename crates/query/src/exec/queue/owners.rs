//! What each user or address may have of the queue, and what each had lately.
//!
//! Limits: the counts of [`USAGE_MINUTES`] minutes, of [`OWNERS_MAX`] owners.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use super::limits::{QueueError, share_of_one};
use super::places::Class;

/// Minutes that are counted, the present one among them.
pub const USAGE_MINUTES: u64 = 10;
/// Users and addresses that are counted.
///
/// limits.md, Queries: users and addresses whose use is counted (`/api/v1/usage`) | {}, for
/// {USAGE_MINUTES} minutes | those that were away for the longest time are forgotten
const OWNERS_MAX: usize = 1_000;

/// What one user or address may have at a time; none: the share of one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerLimits {
    /// Queries that run, wait or are paused.
    pub queries_max: Option<usize>,
    /// Exports and background queries that run, wait or are paused.
    pub background_max: Option<usize>,
    /// Live tails.
    pub tails_max: Option<usize>,
    /// Whether the places that are kept for operators are open.
    pub is_operator: bool,
}

/// The limits of the owners that asked last. An owner that is not known has the usual ones.
#[derive(Debug, Default)]
pub(super) struct Owners(HashMap<String, OwnerLimits>);

impl Owners {
    /// Notes the limits of an owner. Where there are too many, the others are forgotten: each is
    /// noted again with its next query.
    pub fn note(&mut self, owner: &str, limits: OwnerLimits) {
        match self.0.get_mut(owner) {
            Some(known) => *known = limits,
            None => {
                if self.0.len() >= OWNERS_MAX {
                    self.0.clear();
                }
                self.0.insert(owner.to_owned(), limits);
            }
        }
    }

    /// Those of an owner.
    pub fn of(&self, owner: &str) -> OwnerLimits {
        self.0.get(owner).cloned().unwrap_or_default()
    }
}

/// Of `whole`, what is kept for operators.
///
/// limits.md, Queries: places of the queue that are kept for the roles operate and admin | a
/// sixteenth of `query.waiting_max`, `query.background_waiting_max` and `query.tails_max` | the
/// queries of others are refused with 429
fn kept_for_operators(whole: usize) -> usize {
    whole / 16
}

/// Why an owner may not have one more of `whole`: `held` are its own, `of_others` those of all that
/// are no operators.
pub(super) fn refusal(
    limits: &OwnerLimits,
    class: Class,
    (whole, what, setting): (usize, &'static str, &'static str),
    held: usize,
    of_others: usize,
) -> Option<QueueError> {
    let own = match class {
        Class::Interactive => limits.queries_max.map(|most| (most, "queries_max")),
        Class::Background => limits.background_max.map(|most| (most, "background_max")),
        Class::Tail => limits.tails_max.map(|most| (most, "tails_max")),
        Class::Share | Class::Relay => None,
    };
    match own {
        Some((most, setting)) if held >= most => {
            return Some(QueueError::OwnLimit(held, what, setting));
        }
        _ => {}
    }
    if held >= share_of_one(whole) {
        return Some(QueueError::ShareTaken(held, what, setting));
    }
    let is_full = !limits.is_operator && of_others >= whole - kept_for_operators(whole);
    is_full.then_some(QueueError::KeptForOperators(of_others, what, setting))
}

/// What an owner has now, and had in the last [`USAGE_MINUTES`] minutes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnerUsage {
    /// The user, or the address where nobody logs in.
    pub owner: String,
    /// Queries, exports and background queries that run now.
    pub running: usize,
    /// Those that wait or are paused.
    pub waiting: usize,
    /// Live tails.
    pub tails: usize,
    /// Memory that these hold, in bytes.
    pub memory_bytes: u64,
    /// What ended lately.
    pub lately: Used,
}

/// What queries took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Used {
    /// Queries that ended.
    pub queries: u64,
    /// Queries that got no place.
    pub refused: u64,
    /// How long they ran together.
    pub run: Duration,
    /// Lines read.
    pub lines_scanned: u64,
    /// Bytes of raw lines read.
    pub bytes_scanned: u64,
    /// Rows sent.
    pub rows: u64,
}

impl Used {
    fn add(&mut self, other: &Used) {
        self.queries += other.queries;
        self.refused += other.refused;
        self.run += other.run;
        self.lines_scanned += other.lines_scanned;
        self.bytes_scanned += other.bytes_scanned;
        self.rows += other.rows;
    }
}

/// What owners used, by minutes.
#[derive(Debug, Default)]
pub(super) struct Usage(BTreeMap<String, VecDeque<(u64, Used)>>);

impl Usage {
    /// Counts what a query of an owner took that ended in that minute.
    pub fn count(&mut self, minute: u64, owner: &str, used: &Used) {
        if !self.0.contains_key(owner) {
            if self.0.len() >= OWNERS_MAX {
                let last = |minutes: &VecDeque<(u64, Used)>| minutes.back().map(|(at, _)| *at);
                let longest = self.0.iter().min_by_key(|(_, minutes)| last(minutes));
                let longest = longest.map(|(owner, _)| owner.clone()).expect("there are some");
                self.0.remove(&longest);
            }
            self.0.insert(owner.to_owned(), VecDeque::new());
        }
        let minutes = self.0.get_mut(owner).expect("it is there");
        match minutes.back_mut() {
            Some((at, counted)) if *at == minute => counted.add(used),
            _ => minutes.push_back((minute, *used)),
        }
        minutes.retain(|(at, _)| at + USAGE_MINUTES > minute);
    }

    /// What each owner used up to that minute.
    pub fn lately(&mut self, minute: u64) -> BTreeMap<String, Used> {
        self.0.retain(|_, minutes| {
            minutes.retain(|(at, _)| at + USAGE_MINUTES > minute);
            !minutes.is_empty()
        });
        let sum = |minutes: &VecDeque<(u64, Used)>| {
            let mut sum = Used::default();
            minutes.iter().for_each(|(_, used)| sum.add(used));
            sum
        };
        self.0.iter().map(|(owner, minutes)| (owner.clone(), sum(minutes))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_owner_has_its_own_limit_its_share_or_what_operators_leave() {
        let whole = (32, "queries", "query.waiting_max");
        let refused = |limits: &OwnerLimits, held, of_others| {
            refusal(limits, Class::Interactive, whole, held, of_others)
        };
        let usual = OwnerLimits::default();
        assert_eq!(refused(&usual, 27, 29), None);
        assert!(matches!(refused(&usual, 28, 28), Some(QueueError::ShareTaken(28, ..))));
        assert!(matches!(refused(&usual, 0, 30), Some(QueueError::KeptForOperators(30, ..))));
        let operator = OwnerLimits { is_operator: true, ..OwnerLimits::default() };
        assert_eq!(refused(&operator, 0, 31), None);
        let few = OwnerLimits { queries_max: Some(2), tails_max: Some(0), ..operator };
        assert_eq!(refused(&few, 1, 0), None);
        assert_eq!(refused(&few, 2, 0), Some(QueueError::OwnLimit(2, "queries", "queries_max")));
        let tail = refusal(&few, Class::Tail, (100, "live tails", "query.tails_max"), 0, 0);
        assert_eq!(tail, Some(QueueError::OwnLimit(0, "live tails", "tails_max")));
        // Of few places, none is kept.
        assert_eq!(refusal(&usual, Class::Background, (3, "", ""), 1, 2), None);
    }

    #[test]
    fn use_is_counted_by_minutes_and_forgotten() {
        let mut usage = Usage::default();
        let one = Used { queries: 1, rows: 5, ..Used::default() };
        usage.count(0, "ann", &one);
        usage.count(3, "ann", &one);
        usage.count(3, "ann", &one);
        usage.count(4, "bob", &one);
        let rows = |usage: &mut Usage, minute| -> Vec<(String, u64)> {
            usage.lately(minute).into_iter().map(|(owner, used)| (owner, used.rows)).collect()
        };
        assert_eq!(rows(&mut usage, 9), [("ann".into(), 15), ("bob".into(), 5)]);
        assert_eq!(rows(&mut usage, 10), [("ann".into(), 10), ("bob".into(), 5)]);
        assert_eq!(rows(&mut usage, 13), [("bob".into(), 5)]);
        assert!(rows(&mut usage, 14).is_empty());
        for number in 0..OWNERS_MAX + 5 {
            usage.count(20 + number as u64 / 500, &format!("10.0.{number}"), &one);
        }
        assert_eq!(usage.0.len(), OWNERS_MAX);
        assert!(!usage.0.contains_key("10.0.0") && usage.0.contains_key("10.0.1004"));
    }
}
