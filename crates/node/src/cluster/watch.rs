//! What the stores of copies have taken, asked again when a query needs to know.
//!
//! Frames reach the copies at slightly different moments. So what a store has now is compared with
//! what the others had a moment ago; where nothing is known of a moment ago, a store that lacks
//! something is given [`CATCH_UP`] to get it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::choice::Known;
use super::frames::StoreFrames;
use super::node::NodeError;

/// What stores said is believed for this long.
const FRESH: Duration = Duration::from_secs(1);
/// What stores said longer ago is not compared with what others have now: too much may be new.
const BASE_AGE_MAX: Duration = Duration::from_secs(10);
/// How long a query waits until a store has what another one had when the query began.
///
/// limits.md, Several stores: wait until a copy has the newest frames of the others | {} | the
/// query reads another copy, or names what is missing
const CATCH_UP: Duration = Duration::from_secs(2);
/// The pause before a store is asked again whether it has the frames.
const PAUSE: Duration = Duration::from_millis(20);

/// What the stores said, in the order of all stores.
pub struct Seen {
    at: Instant,
    /// Now, or why a store cannot be read.
    pub now: Vec<Result<StoreFrames, NodeError>>,
    /// A moment ago, or when it was last seen.
    before: Vec<Option<StoreFrames>>,
    /// Whether a store lacked something, however long it was waited for.
    is_lacking: bool,
}

impl Seen {
    /// What is known of each store. A store for which `failed` has an error cannot be read.
    pub fn known(&self, failed: &[Option<NodeError>]) -> Vec<Known<'_>> {
        let known = |(place, (now, before))| {
            let (now, before): (&Result<StoreFrames, _>, &Option<StoreFrames>) = (now, before);
            let now = now.as_ref().ok().filter(|_| failed.get(place).is_none_or(Option::is_none));
            Known { now, before: before.as_ref() }
        };
        self.now.iter().zip(&self.before).enumerate().map(known).collect()
    }
}

/// The last that the stores said.
pub struct Watch {
    last: Mutex<Option<Arc<Seen>>>,
    /// [`CATCH_UP`], except in tests.
    catch_up: Duration,
}

impl Default for Watch {
    fn default() -> Watch {
        Watch { last: Mutex::default(), catch_up: CATCH_UP }
    }
}

impl Watch {
    /// What the stores say to `ask` now, or said less than a second ago. Blocks: while one query
    /// asks, others wait. `lacks` tells whether somebody lacks something.
    pub fn look(
        &self,
        ask: impl Fn() -> Vec<Result<StoreFrames, NodeError>>,
        lacks: impl Fn(&Seen) -> bool,
    ) -> Arc<Seen> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(seen) = &*last
            && seen.at.elapsed() < FRESH
        {
            return Arc::clone(seen);
        }
        let begun = Instant::now();
        let now = ask();
        for (place, said) in now.iter().enumerate() {
            let was_here = last.as_ref().is_none_or(|last| last.now[place].is_ok());
            if let Err(error) = said
                && was_here
            {
                tracing::warn!("{}; another copy is asked", error.message);
            }
        }
        let seen_before = |place: usize| {
            let last = last.as_ref()?;
            let now = last.now[place].as_ref().ok();
            now.or(last.before[place].as_ref()).cloned()
        };
        let is_base = last.as_ref().is_some_and(|last| last.at.elapsed() < BASE_AGE_MAX);
        let before = |(place, now): (usize, &Result<StoreFrames, NodeError>)| match now {
            Ok(now) if !is_base => Some(now.clone()),
            Ok(now) => seen_before(place).or_else(|| Some(now.clone())),
            Err(_) => seen_before(place),
        };
        let before = now.iter().enumerate().map(before).collect();
        let mut seen = Seen { at: begun, now, before, is_lacking: false };
        seen.is_lacking = lacks(&seen);
        let was_lacking = last.as_ref().is_some_and(|last| last.is_lacking);
        while seen.is_lacking && !(is_base && was_lacking) && begun.elapsed() < self.catch_up {
            std::thread::sleep(PAUSE);
            seen.now = ask();
            seen.is_lacking = lacks(&seen);
        }
        seen.at = Instant::now();
        let seen = Arc::new(seen);
        *last = Some(Arc::clone(&seen));
        seen
    }

    /// Forgets when the stores were asked, because one of them is another than it was.
    pub fn ask_again(&self) {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(seen) = last.take() {
            let Seen { now, before, .. } = Arc::try_unwrap(seen).unwrap_or_else(|seen| Seen {
                at: seen.at,
                now: seen.now.clone(),
                before: seen.before.clone(),
                is_lacking: seen.is_lacking,
            });
            let at = Instant::now().checked_sub(FRESH).unwrap_or_else(Instant::now);
            *last = Some(Arc::new(Seen { at, now, before, is_lacking: false }));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::collections::VecDeque;

    use record::Numbers;
    use store::NodeFrames;

    use super::*;
    use crate::cluster::choice::choose;

    /// What two stores of a stripe say one time after the other: the last of their frames, 0 for
    /// none; `None`: the store is away. Gives the store that is read, and whether it lacks nothing.
    fn look(watch: &Watch, said: &[[Option<u64>; 2]]) -> (Vec<usize>, bool) {
        let copies = [vec![0], vec![1]];
        let said: RefCell<VecDeque<_>> = RefCell::new(said.iter().copied().collect());
        let state = |last: Option<u64>| {
            let last = last.ok_or_else(|| NodeError::away("it is away".to_owned()))?;
            let mut frames = NodeFrames::default();
            frames.taken.insert_range(1, last);
            frames.stored = frames.taken.clone();
            let is_empty = frames.taken == Numbers::new();
            let collectors = if is_empty { [].into() } else { [(7, frames)].into() };
            Ok(StoreFrames { node: 1, lines: 10, collectors, ..StoreFrames::default() })
        };
        let ask = || {
            let mut said = said.borrow_mut();
            let now = if said.len() > 1 { said.pop_front().unwrap() } else { said[0] };
            now.map(state).into()
        };
        let chosen = |seen: &Seen| choose(&copies, &seen.known(&[]));
        let seen = watch.look(ask, |seen| !chosen(seen).lacks.is_empty());
        watch.ask_again();
        let choice = chosen(&seen);
        let is_whole = choice.is_whole();
        (choice.stores, is_whole)
    }

    #[test]
    fn frames_on_their_way_are_waited_for() {
        let watch = Watch { catch_up: Duration::from_secs(600), ..Watch::default() };
        // The second store is away, and the first one behind it.
        assert_eq!(look(&watch, &[[Some(3), Some(5)], [Some(4), None]]), (vec![1], true));
        assert_eq!(
            look(&watch, &[[Some(4), None], [Some(4), None], [Some(5), None]]),
            (vec![0], true)
        );
        assert_eq!(look(&watch, &[[Some(5), Some(6)]]), (vec![0], true), "a moment");
    }

    #[test]
    fn what_a_store_had_is_remembered_while_it_is_away() {
        let watch = Watch { catch_up: Duration::ZERO, ..Watch::default() };
        assert_eq!(look(&watch, &[[Some(5), Some(5)]]), (vec![0], true));
        assert_eq!(look(&watch, &[[Some(5), None]]), (vec![0], true));
        // The other one lost its disk meanwhile, and so did the first one.
        assert_eq!(look(&watch, &[[Some(0), None]]), (vec![0], false));
        assert_eq!(look(&watch, &[[Some(0), None]]), (vec![0], false));
        assert_eq!(look(&watch, &[[Some(0), Some(5)]]), (vec![1], true));
    }
}
