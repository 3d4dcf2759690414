//! Regular expressions that stop when the query does.
//!
//! The regex engine is linear in the value, but the factor is the size of the expression: `(ab
//! ){1,1000}z` takes eight seconds for 256 KiB, and nothing stops the engine meanwhile. So the
//! [`Pulse`] counts a search by the bytes and by the states of the expression. The engine runs what
//! is done before the next check: up to 1.6 MB with ten states, 54 KB with three hundred. Longer
//! values are searched step by step, with checks in between: by the lazy automaton of the same
//! library, or by simulating the NFA where the automaton cannot be used (Unicode word boundaries
//! beside characters that are not ASCII, automata that outgrow their cache). All three find the
//! same matches, those that a backtracking engine would find first.
//!
//! Left out: literals, which let the engine skip most bytes. A search step by step takes up to ten
//! times as long where the engine would skip, so small expressions are left to the engine. Callers
//! that know a text that every match contains look for it first.

use std::fmt;
use std::mem::swap;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::OnceLock;

use regex_automata::hybrid::dfa::{self, Cache, DFA};
use regex_automata::nfa::thompson::{self, NFA, State, WhichCaptures};
use regex_automata::util::captures::Captures;
use regex_automata::util::pool::Pool;
use regex_automata::util::primitives::{NonMaxUsize, StateID};
use regex_automata::{Anchored, Input, MatchKind, PatternID, Span, meta};
use regex_syntax::hir::Hir;

use crate::base::pulse::Pulse;

/// States of an expression that are as slow as one byte of the slowest other test: with so many,
/// the simulation takes about two microseconds for a byte.
const STATES_PER_BYTE: usize = 256;

/// Times that the lazy automaton may outgrow its cache before its use is questioned, and bytes that
/// each of its states has to serve from then on. The regex engine has the same limits.
const CACHE_CLEARS_MIN: usize = 3;
const BYTES_PER_STATE_MIN: usize = 10;

/// Most memory for the places of groups while an expression is simulated: two places of each group,
/// for each state, twice. An expression that may take more is refused.
///
/// limits.md, Queries: places of the groups of a regular expression, while it is searched | {} | it
/// is refused
const PLACES_BYTES_MAX: usize = 16 << 20;

/// A compiled regular expression.
pub(crate) struct Expression {
    regex: meta::Regex,
    hir: Hir,
    nfa: NFA,
    cache_bytes: usize,
    stepwise: OnceLock<Stepwise>,
}

/// Why an expression cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It is too large when compiled.
    TooLarge,
    /// It has too many groups for its size.
    TooManyGroups,
    /// Another reason.
    Other(String),
}

impl Expression {
    /// Compiles an expression over bytes, with limits in bytes for the program and for each of its
    /// caches. `finds_literals`: the engine may start at literals.
    pub fn new(
        hir: Hir,
        (program_bytes_max, cache_bytes_max): (usize, usize),
        finds_literals: bool,
    ) -> Result<Expression, Refused> {
        let program_bytes_max = Some(program_bytes_max);
        let compiled = thompson::Config::new().utf8(false).nfa_size_limit(program_bytes_max);
        let nfa = thompson::Compiler::new().configure(compiled).build_from_hir(&hir).map_err(
            |error| match error.size_limit() {
                Some(_) => Refused::TooLarge,
                None => Refused::Other(error.to_string()),
            },
        )?;
        let places = nfa.states().len().saturating_mul(nfa.group_info().explicit_slot_len());
        if places.saturating_mul(2 * size_of::<Option<NonMaxUsize>>()) > PLACES_BYTES_MAX {
            return Err(Refused::TooManyGroups);
        }
        let config = meta::Config::new()
            .utf8_empty(false)
            .nfa_size_limit(program_bytes_max)
            .hybrid_cache_capacity(cache_bytes_max)
            .auto_prefilter(finds_literals);
        let built = meta::Builder::new().configure(config).build_from_hir(&hir);
        let regex = built.map_err(|error| match error.size_limit() {
            Some(_) => Refused::TooLarge,
            None => Refused::Other(error.to_string()),
        })?;
        let (cache_bytes, stepwise) = (cache_bytes_max, OnceLock::new());
        Ok(Expression { regex, hir, nfa, cache_bytes, stepwise })
    }

    /// The expression as it was parsed.
    pub fn hir(&self) -> &Hir {
        &self.hir
    }

    /// The names of the groups, each with the number of its group.
    pub fn names(&self) -> impl Iterator<Item = (usize, &str)> {
        let names = self.regex.group_info().pattern_names(PatternID::ZERO).enumerate();
        names.filter_map(|(group, name)| Some((group, name?)))
    }

    /// Room for the places of the groups of a match.
    pub fn groups(&self) -> Captures {
        self.regex.create_captures()
    }

    /// Bytes as which the pulse counts a search of this many.
    #[inline]
    fn cost(&self, bytes: usize) -> usize {
        bytes.saturating_mul(self.nfa.states().len()) / STATES_PER_BYTE
    }

    /// Whether the engine may search this many bytes between two checks. Otherwise they are
    /// searched step by step.
    #[inline]
    pub fn is_short(&self, bytes: usize, pulse: &Pulse<'_>) -> bool {
        self.cost(bytes) <= pulse.piece_bytes()
    }

    /// Most bytes between two checks; one at least.
    pub fn piece(&self, pulse: &Pulse<'_>) -> usize {
        let steps = pulse.piece_bytes().saturating_mul(STATES_PER_BYTE);
        (steps / self.nfa.states().len()).clamp(1, pulse.piece_bytes().max(1))
    }

    /// Whether there is a match.
    #[inline]
    pub fn is_match(&self, value: &[u8], pulse: &Pulse<'_>) -> bool {
        match self.is_short(value.len(), pulse) {
            true => pulse.may_continue(self.cost(value.len())) && self.regex.is_match(value),
            false => self.end_stepwise(value, 0, pulse).is_some(),
        }
    }

    /// The end of a match, not always the longest one, that ends first of all that begin at or
    /// behind `from`, or of the first of these matches.
    #[inline]
    pub fn first_end(&self, text: &[u8], from: usize, pulse: &Pulse<'_>) -> Option<usize> {
        if !self.is_short(text.len() - from, pulse) {
            return self.end_stepwise(text, from, pulse);
        }
        let input = Input::new(text).range(from..).earliest(true);
        let found = self.regex.search_half(&input).map(|found| found.offset());
        let goes_on = pulse.may_continue(self.cost(found.unwrap_or(text.len()) - from));
        found.filter(|_| goes_on)
    }

    /// The first match that begins at or behind `from`, of an expression whose matches all have
    /// about the same length: others may look far beyond a match.
    #[inline]
    pub fn find(&self, value: &[u8], from: usize, pulse: &Pulse<'_>) -> Option<Span> {
        let input = Input::new(value).range(from..);
        if !self.is_short(value.len() - from, pulse) {
            let mut ends = [None; 2];
            return self.search_stepwise(&input, &mut ends, pulse);
        }
        let found = self.regex.search(&input).map(|found| found.span());
        let end = found.map_or(value.len(), |found| found.end);
        let goes_on = pulse.may_continue(self.cost(end - from));
        found.filter(|_| goes_on)
    }

    /// Finds the first match that begins at or behind `from`, with its groups. Returns whether
    /// there is one.
    #[inline]
    pub fn find_groups(
        &self,
        value: &[u8],
        from: usize,
        groups: &mut Captures,
        pulse: &Pulse<'_>,
    ) -> bool {
        let input = Input::new(value).range(from..);
        if self.is_short(value.len() - from, pulse) {
            groups.clear();
            if pulse.may_continue(self.cost(value.len() - from)) {
                self.regex.search_captures(&input, groups);
            }
            return groups.is_match();
        }
        self.find_groups_stepwise(&input, groups, pulse)
    }

    #[cold]
    fn find_groups_stepwise(
        &self,
        input: &Input<'_>,
        groups: &mut Captures,
        pulse: &Pulse<'_>,
    ) -> bool {
        groups.clear();
        let mut ends = [None; 2];
        let Some(found) = self.search_stepwise(input, &mut ends, pulse) else { return false };
        // The groups of this match: a search from its beginning, in its bytes.
        let inside = input.clone().span(found).anchored(Anchored::Yes);
        if self.is_short(found.len(), pulse) {
            self.regex.search_captures(&inside, groups);
            return groups.is_match() && pulse.may_continue(self.cost(found.len()));
        }
        groups.set_pattern(Some(PatternID::ZERO));
        let is_found = self.with_caches(|_, caches| {
            caches.threads.search(&self.nfa, &inside, false, groups.slots_mut(), pulse)
        });
        if !is_found {
            groups.clear();
        }
        is_found
    }

    /// The end of a match, not always the longest one, that ends first of all that begin at or
    /// behind `from`; searched step by step.
    #[cold]
    fn end_stepwise(&self, text: &[u8], from: usize, pulse: &Pulse<'_>) -> Option<usize> {
        let input = Input::new(text).range(from..).earliest(true);
        self.with_caches(|dfas, caches| {
            if let Some((forward, _)) = dfas
                && let Some((cache, _)) = &mut caches.dfas
            {
                match self.scan_forward(forward, cache, &input, pulse) {
                    Scan::Unable => {}
                    Scan::Ended(end) => return end,
                }
            }
            let mut ends = [None; 2];
            let found = caches.threads.search(&self.nfa, &input, true, &mut ends, pulse);
            found.then(|| ends[1].expect("a match has an end").get())
        })
    }

    /// The first match, searched step by step.
    fn search_stepwise(
        &self,
        input: &Input<'_>,
        ends: &mut [Option<NonMaxUsize>; 2],
        pulse: &Pulse<'_>,
    ) -> Option<Span> {
        self.with_caches(|dfas, caches| {
            if let Some((forward, reverse)) = dfas
                && let Some((ahead, back)) = &mut caches.dfas
            {
                match self.scan_forward(forward, ahead, input, pulse) {
                    Scan::Ended(None) => return None,
                    Scan::Ended(Some(end)) => {
                        let found = input.clone().range(input.start()..end).anchored(Anchored::Yes);
                        let begin = self.scan_reverse(reverse, back, &found, pulse);
                        if let Scan::Ended(begin) = begin {
                            return begin.map(|begin| Span { start: begin, end });
                        }
                    }
                    Scan::Unable => {}
                }
            }
            let is_found = caches.threads.search(&self.nfa, input, false, ends, pulse);
            let place = |end: usize| ends[end].expect("a match has two ends").get();
            is_found.then(|| Span { start: place(0), end: place(1) })
        })
    }

    fn with_caches<R>(&self, search: impl FnOnce(Option<&(DFA, DFA)>, &mut Caches) -> R) -> R {
        let stepwise = self.stepwise.get_or_init(|| Stepwise::new(self.automata()));
        search(stepwise.dfas.as_ref(), &mut stepwise.caches.get())
    }

    /// The lazy automata that find the end of a match, and its beginning. None if their cache would
    /// have to be larger than its limit.
    fn automata(&self) -> Option<(DFA, DFA)> {
        let config = dfa::Config::new()
            .unicode_word_boundary(true)
            .cache_capacity(self.cache_bytes)
            .minimum_cache_clear_count(Some(CACHE_CLEARS_MIN))
            .minimum_bytes_per_state(Some(BYTES_PER_STATE_MIN));
        let build = |kind: MatchKind, nfa: NFA| {
            dfa::Builder::new().configure(config.clone().match_kind(kind)).build_from_nfa(nfa).ok()
        };
        let reverse = thompson::Config::new()
            .utf8(false)
            .reverse(true)
            .which_captures(WhichCaptures::None)
            .nfa_size_limit(Some(self.cache_bytes));
        let reverse =
            thompson::Compiler::new().configure(reverse).build_from_hir(&self.hir).ok()?;
        Some((build(MatchKind::LeftmostFirst, self.nfa.clone())?, build(MatchKind::All, reverse)?))
    }

    /// The end of the first match, or with [`Input::earliest`] of the match that ends first.
    fn scan_forward(
        &self,
        dfa: &DFA,
        cache: &mut Cache,
        input: &Input<'_>,
        pulse: &Pulse<'_>,
    ) -> Scan {
        let Ok(mut state) = dfa.start_state_forward(cache, input) else { return Scan::Unable };
        let (text, piece) = (input.haystack(), self.piece(pulse));
        let (mut at, mut found) = (input.start(), None);
        cache.search_start(at);
        while at < input.end() {
            let end = input.end().min(at + piece);
            if !pulse.may_continue(self.cost(end - at)) {
                return Scan::Ended(None);
            }
            cache.search_update(at);
            while at < end {
                let Ok(next) = dfa.next_state(cache, state, text[at]) else { return Scan::Unable };
                state = next;
                // A state knows of a match one byte later.
                if state.is_tagged() {
                    if state.is_match() {
                        found = Some(at);
                        if input.get_earliest() {
                            return Scan::Ended(found);
                        }
                    } else if state.is_dead() {
                        return Scan::Ended(found);
                    } else if state.is_quit() {
                        return Scan::Unable;
                    }
                }
                at += 1;
            }
        }
        cache.search_finish(at);
        let next = match text.get(input.end()) {
            Some(&byte) => dfa.next_state(cache, state, byte),
            None => dfa.next_eoi_state(cache, state),
        };
        match next {
            Ok(state) if state.is_match() => Scan::Ended(Some(input.end())),
            Ok(state) if !state.is_quit() => Scan::Ended(found),
            _ => Scan::Unable,
        }
    }

    /// The beginning of the match that ends where the input does.
    fn scan_reverse(
        &self,
        dfa: &DFA,
        cache: &mut Cache,
        input: &Input<'_>,
        pulse: &Pulse<'_>,
    ) -> Scan {
        let Ok(mut state) = dfa.start_state_reverse(cache, input) else { return Scan::Unable };
        let (text, piece) = (input.haystack(), self.piece(pulse));
        let (mut at, mut found) = (input.end(), None);
        cache.search_start(at);
        while at > input.start() {
            let begin = input.start().max(at.saturating_sub(piece));
            if !pulse.may_continue(self.cost(at - begin)) {
                return Scan::Ended(None);
            }
            cache.search_update(at);
            while at > begin {
                let Ok(next) = dfa.next_state(cache, state, text[at - 1]) else {
                    return Scan::Unable;
                };
                state = next;
                if state.is_tagged() {
                    if state.is_match() {
                        found = Some(at);
                    } else if state.is_dead() {
                        return found.map_or(Scan::Unable, |found| Scan::Ended(Some(found)));
                    } else if state.is_quit() {
                        return Scan::Unable;
                    }
                }
                at -= 1;
            }
        }
        cache.search_finish(at);
        let next = match input.start().checked_sub(1) {
            Some(before) => dfa.next_state(cache, state, text[before]),
            None => dfa.next_eoi_state(cache, state),
        };
        match next {
            Ok(state) if state.is_match() => Scan::Ended(Some(input.start())),
            // There is a match: the other automaton found its end.
            Ok(state) if !state.is_quit() && found.is_some() => Scan::Ended(found),
            _ => Scan::Unable,
        }
    }

    /// The same expression, without lazy automata.
    #[cfg(test)]
    pub fn without_automata(self) -> Expression {
        Expression { stepwise: OnceLock::from(Stepwise::new(None)), ..self }
    }
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Expression({})", self.hir)
    }
}

/// What a search step by step needs, made for the first long value.
struct Stepwise {
    dfas: Option<(DFA, DFA)>,
    caches: Pool<Caches, MakeCaches>,
}

type MakeCaches = Box<dyn Fn() -> Caches + Send + Sync + UnwindSafe + RefUnwindSafe>;

/// What one search uses; kept for the next one.
struct Caches {
    dfas: Option<(Cache, Cache)>,
    threads: Threads,
}

impl Stepwise {
    fn new(dfas: Option<(DFA, DFA)>) -> Stepwise {
        let made = dfas.clone();
        let make: MakeCaches = Box::new(move || Caches {
            dfas: made.as_ref().map(|(ahead, back)| (Cache::new(ahead), Cache::new(back))),
            threads: Threads::default(),
        });
        Stepwise { dfas, caches: Pool::new(make) }
    }
}

/// What an automaton says.
enum Scan {
    /// The end of the match that was searched for; none if there is none, or the query ended.
    Ended(Option<usize>),
    /// The automaton cannot decide.
    Unable,
}

/// Simulates an NFA: all threads of a backtracking search at once, in the order in which it would
/// try them.
#[derive(Default)]
struct Threads {
    now: ThreadList,
    next: ThreadList,
    /// The places of the thread that is being added.
    places: Vec<Option<NonMaxUsize>>,
    pending: Vec<Pending>,
}

/// What is to be done while a thread is added.
enum Pending {
    /// Go on from this state.
    Explore(StateID),
    /// Restore a place, which another branch changed.
    Restore(usize, Option<NonMaxUsize>),
}

/// Threads in their order; at most one in each state.
#[derive(Default)]
struct ThreadList {
    states: Vec<StateID>,
    /// For each state, its place in `states`, if it is there.
    places_of: Vec<u32>,
    /// For each state, the places of groups.
    groups: Vec<Option<NonMaxUsize>>,
    width: usize,
}

impl ThreadList {
    fn reset(&mut self, states: usize, width: usize) {
        self.states.clear();
        self.places_of.resize(states, 0);
        self.groups.clear();
        self.groups.resize(states * width, None);
        self.width = width;
    }

    /// Adds a state. False if it is there.
    fn insert(&mut self, id: StateID) -> bool {
        let place = self.places_of[id.as_usize()] as usize;
        if self.states.get(place) == Some(&id) {
            return false;
        }
        self.places_of[id.as_usize()] = self.states.len() as u32;
        self.states.push(id);
        true
    }

    fn groups(&mut self, id: StateID) -> &mut [Option<NonMaxUsize>] {
        &mut self.groups[id.as_usize() * self.width..][..self.width]
    }
}

impl Threads {
    /// Finds the first match, or with `earliest` one that ends first, and the places of as many
    /// groups as `found` has room for. Returns whether there is one; false if the query ended.
    fn search(
        &mut self,
        nfa: &NFA,
        input: &Input<'_>,
        earliest: bool,
        found: &mut [Option<NonMaxUsize>],
        pulse: &Pulse<'_>,
    ) -> bool {
        let (states, text) = (nfa.states().len(), input.haystack());
        self.now.reset(states, found.len());
        self.next.reset(states, found.len());
        let anchored = input.get_anchored().is_anchored() || nfa.is_always_start_anchored();
        let visit = 1 + found.len() / 8;
        let piece = pulse.piece_bytes().saturating_mul(STATES_PER_BYTE);
        let (mut is_match, mut visited) = (false, 0);
        for at in input.start()..=input.end() {
            let begins = !is_match && (!anchored || at == input.start());
            if !begins && self.now.states.is_empty() {
                break;
            }
            if begins {
                self.places.clear();
                self.places.resize(found.len(), None);
                visited += visit * self.add(nfa, text, at, nfa.start_anchored(), false);
            }
            let byte = text.get(at).copied().filter(|_| at < input.end());
            self.next.states.clear();
            for place in 0..self.now.states.len() {
                let id = self.now.states[place];
                let to = match (nfa.state(id), byte) {
                    (State::Match { .. }, _) => {
                        found.copy_from_slice(self.now.groups(id));
                        if earliest {
                            return true;
                        }
                        // Threads behind this one would be tried only if it failed.
                        is_match = true;
                        break;
                    }
                    (State::ByteRange { trans }, Some(byte)) => {
                        trans.matches_byte(byte).then_some(trans.next)
                    }
                    (State::Sparse(sparse), Some(byte)) => sparse.matches_byte(byte),
                    (State::Dense(dense), Some(byte)) => dense.matches_byte(byte),
                    _ => None,
                };
                if let Some(to) = to {
                    self.places.clear();
                    self.places.extend_from_slice(self.now.groups(id));
                    visited += visit * self.add(nfa, text, at + 1, to, true);
                }
            }
            visited += 1 + self.now.states.len();
            if visited >= piece {
                if !pulse.may_continue(visited / STATES_PER_BYTE) {
                    return false;
                }
                visited = 0;
            }
            swap(&mut self.now, &mut self.next);
        }
        pulse.may_continue(visited / STATES_PER_BYTE) && is_match
    }

    /// Adds a thread, and all that it becomes without a byte, at place `at`: to those of the next
    /// byte, or to those of this one. Returns the number of steps.
    fn add(&mut self, nfa: &NFA, text: &[u8], at: usize, id: StateID, to_next: bool) -> usize {
        let Threads { now, next, places, pending } = self;
        let list = if to_next { next } else { now };
        let mut steps = 0;
        pending.push(Pending::Explore(id));
        while let Some(task) = pending.pop() {
            let mut id = match task {
                Pending::Explore(id) => id,
                Pending::Restore(slot, place) => {
                    places[slot] = place;
                    continue;
                }
            };
            loop {
                steps += 1;
                if !list.insert(id) {
                    break;
                }
                match nfa.state(id) {
                    State::Look { look, next } => {
                        if !nfa.look_matcher().matches(*look, text, at) {
                            break;
                        }
                        id = *next;
                    }
                    State::Union { alternates } => {
                        let Some((first, others)) = alternates.split_first() else { break };
                        pending.extend(others.iter().rev().map(|&id| Pending::Explore(id)));
                        steps += others.len();
                        id = *first;
                    }
                    State::BinaryUnion { alt1, alt2 } => {
                        pending.push(Pending::Explore(*alt2));
                        id = *alt1;
                    }
                    State::Capture { next, slot, .. } => {
                        if let Some(place) = places.get_mut(slot.as_usize()) {
                            pending.push(Pending::Restore(slot.as_usize(), *place));
                            *place = NonMaxUsize::new(at);
                        }
                        id = *next;
                    }
                    _ => {
                        list.groups(id).copy_from_slice(places);
                        break;
                    }
                }
            }
        }
        steps
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use proptest::prelude::*;

    use super::*;
    use crate::base::RunError;

    const BYTES_MAX: usize = 4 << 20;

    fn expression(pattern: &str) -> Expression {
        let mut parser = regex_syntax::ParserBuilder::new().utf8(false).build();
        let hir = parser.parse(pattern).unwrap();
        Expression::new(hir, (BYTES_MAX, BYTES_MAX), true).unwrap()
    }

    type Groups = Vec<Option<(usize, usize)>>;

    /// The groups of the first match, as crate `regex` finds them.
    fn expected(pattern: &str, value: &[u8], from: usize) -> Option<Groups> {
        let regex = regex::bytes::Regex::new(pattern).unwrap();
        let found = regex.captures_at(value, from)?;
        Some(found.iter().map(|group| group.map(|group| (group.start(), group.end()))).collect())
    }

    fn found(expression: &Expression, value: &[u8], from: usize, piece: usize) -> Option<Groups> {
        let (pulse, mut groups) = (Pulse::every(piece, || Ok(())), expression.groups());
        let place = |group: Option<Span>| group.map(|group| (group.start, group.end));
        expression
            .find_groups(value, from, &mut groups, &pulse)
            .then(|| groups.iter().map(place).collect())
    }

    /// All ways of searching agree with crate `regex`.
    fn check(pattern: &str, value: &[u8], from: usize) {
        let expected = expected(pattern, value, from);
        let whole = expected.as_ref().and_then(|groups| groups[0]);
        let is_match = regex::bytes::Regex::new(pattern).unwrap().is_match(value);
        for expression in [expression(pattern), expression(pattern).without_automata()] {
            for piece in [0, 1, 3, 1 << 20] {
                let shown = format!("{pattern:?} in {value:?} from {from}, pieces of {piece}");
                assert_eq!(found(&expression, value, from, piece), expected, "{shown}");
                let pulse = Pulse::every(piece, || Ok(()));
                assert_eq!(expression.is_match(value, &pulse), is_match, "{shown}");
                let first = expression.find(value, from, &pulse);
                assert_eq!(first.map(|found| (found.start, found.end)), whole, "{shown}");
                // Some match ends there, and none before.
                let end = expression.first_end(value, from, &pulse);
                assert_eq!(end.is_some(), whole.is_some(), "{shown}");
                if let (Some(end), Some((_, last))) = (end, whole) {
                    assert!(end <= last || piece > 3, "{shown}: {end}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn all_searches_agree_with_crate_regex(
            parts in prop::collection::vec(
                prop::sample::select(
                    r"a b é [ab] [^a] . \s \w \W ^ $ \b \B a* b+ b+? (a|bb) (a)? (a*)(b|ab) x? (?s:.) [0-9]{2} (?i:A) (?-u:\xff) (?m:^) (?m:$) | (ab){1,3} (?P<n>.*)b \b{start} (?-u:\b) () (a|b|ab)*? .*"
                        .split(' ')
                        .collect::<Vec<_>>(),
                ),
                0..6,
            ),
            value in prop_oneof![
                "[abA0é \n]{0,12}".prop_map(String::into_bytes),
                prop::collection::vec(prop::sample::select(b"ab\xff\xc3\xa9 \n".to_vec()), 0..12),
            ],
            from in 0..4usize,
        ) {
            let pattern = parts.concat();
            prop_assume!(regex::bytes::Regex::new(&pattern).is_ok());
            check(&pattern, &value, from.min(value.len()));
        }
    }

    #[test]
    fn automata_that_outgrow_their_cache_are_left() {
        let pattern = r"[ab]*a[ab]{14}c|(x)y";
        let mut parser = regex_syntax::ParserBuilder::new().utf8(false).build();
        let hir = parser.parse(pattern).unwrap();
        // About the least with which there are automata.
        let small = Expression::new(hir, (BYTES_MAX, 40 << 10), true).unwrap();
        assert!(small.automata().is_some());
        let mut value: Vec<u8> = (0..20_000u32)
            .map(|i| if i.wrapping_mul(2_654_435_761) >> 13 & 1 == 0 { b'a' } else { b'b' })
            .collect();
        value.extend(b" xy");
        assert_eq!(found(&small, &value, 0, 16), expected(pattern, &value, 0));
    }

    #[test]
    fn every_search_ends_when_the_query_does() {
        let value = "ab ".repeat(40_000);
        let value = value.as_bytes();
        for pattern in [
            "(ab ){1,1000}z",
            r"(?:\w+ ){1,30}\W{3}",
            // The automaton leaves it to the simulation.
            r"(?:\bab )+é\b",
            "((ab )*)z",
        ] {
            for expression in [expression(pattern), expression(pattern).without_automata()] {
                type Search = fn(&Expression, &[u8], &Pulse<'_>) -> bool;
                let searches: [Search; 4] = [
                    |e, value, pulse| e.is_match(value, pulse),
                    |e, value, pulse| e.find(value, 0, pulse).is_some(),
                    |e, value, pulse| e.find_groups(value, 0, &mut e.groups(), pulse),
                    |e, value, pulse| e.first_end(value, 0, pulse).is_some(),
                ];
                for search in searches {
                    let checks = Cell::new(0);
                    let pulse = Pulse::every(128, || {
                        checks.set(checks.get() + 1);
                        if checks.get() == 3 { Err(RunError::Cancelled) } else { Ok(()) }
                    });
                    assert!(!search(&expression, value, &pulse), "{pattern}");
                    assert_eq!(checks.get(), 3, "{pattern}");
                    assert!(matches!(pulse.end(), Err(RunError::Cancelled)));
                }
            }
        }
    }

    #[test]
    fn groups_are_found_until_the_query_ends() {
        // The match is found at once; its groups take the simulation of a long value.
        let value = "ab ".repeat(40_000);
        let expression = expression("(?:(a)(b) )*");
        let pulse = Pulse::every(1 << 10, || Ok(()));
        let mut groups = expression.groups();
        assert!(expression.find_groups(value.as_bytes(), 0, &mut groups, &pulse));
        assert_eq!(groups.get_group(2).unwrap().range(), value.len() - 2..value.len() - 1);
        let left = Cell::new(60);
        let pulse = Pulse::every(1 << 10, || match left.replace(left.get() - 1) {
            0 => Err(RunError::Cancelled),
            _ => Ok(()),
        });
        let mut all = 0;
        while !pulse.is_over() {
            all += usize::from(expression.find_groups(value.as_bytes(), 0, &mut groups, &pulse));
        }
        assert!(all < 60);
    }

    #[test]
    fn small_expressions_are_left_to_the_engine() {
        let (pulse, mib) = (Pulse::every(64 << 10, || Ok(())), 1 << 20);
        assert!(expression("error|warn").is_short(mib / 2, &pulse));
        assert!(!expression(r"(ab ){1,1000}z").is_short(mib / 64, &pulse));
        assert!(expression(r"(ab ){1,1000}z").piece(&pulse) > 1_000);
    }
}
