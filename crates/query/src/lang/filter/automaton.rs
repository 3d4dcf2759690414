//! Regular expressions as automata, for values that are stored as templates and searched without
//! being assembled.
//!
//! For each value an automaton gives the verdict of the expression, or says that the value itself
//! must be tested. The latter applies to every value with a byte that is not ASCII, if the
//! expression has word boundaries. An expression whose automaton would be large has none: the time
//! to build one grows with the square of its size (15 ms at the limit), and a query cannot be
//! cancelled during that time. The automaton is built when the first block with templates needs it,
//! once for all threads of a query.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::OnceLock;

use record::automaton::{Automaton, AutomatonState, BEGIN, NO, STATES_MAX, UNSURE, YES};
use regex_automata::dfa::{Automaton as _, StartKind, dense};
use regex_automata::nfa::thompson;
use regex_automata::util::primitives::StateID;
use regex_automata::util::syntax;
use regex_automata::{Input, MatchKind};

use super::value::Test;

/// Limit in bytes of the memory of an automaton, and of the memory for building it. It allows
/// hundreds of states; a larger expression has no automaton.
const BYTES_MAX: usize = 512 << 10;

/// The automaton of a test, built when it is first needed.
pub(super) struct LazyAutomaton {
    pattern: String,
    /// The state of values with a match.
    found: AutomatonState,
    made: OnceLock<Option<Automaton>>,
}

impl LazyAutomaton {
    /// None for tests that other methods run as fast.
    pub fn of(test: &Test) -> Option<LazyAutomaton> {
        let (pattern, found) = match test {
            Test::Regex(pattern) => (pattern.source().to_owned(), YES),
            // The characters around a match decide whether it is at word boundaries.
            Test::AnyCasePhrase(text) | Test::AnyCasePrefix(text) => {
                (format!("(?i){}", regex::escape(text)), UNSURE)
            }
            _ => return None,
        };
        Some(LazyAutomaton { pattern, found, made: OnceLock::new() })
    }

    /// None if the automaton would be too large.
    pub fn get(&self) -> Option<&Automaton> {
        self.made.get_or_init(|| automaton(&self.pattern, self.found)).as_ref()
    }
}

/// The automaton that ends in state `found` for values with a match: they pass, or they must be
/// tested themselves.
fn automaton(pattern: &str, found: AutomatonState) -> Option<Automaton> {
    let config = dense::Config::new()
        .match_kind(MatchKind::LeftmostFirst)
        .start_kind(StartKind::Unanchored)
        .unicode_word_boundary(true)
        .accelerate(false)
        .dfa_size_limit(Some(BYTES_MAX))
        .determinize_size_limit(Some(BYTES_MAX));
    let dfa = dense::Builder::new()
        .configure(config)
        .syntax(syntax::Config::new().utf8(false))
        .thompson(thompson::Config::new().utf8(false).nfa_size_limit(Some(BYTES_MAX)))
        .build(pattern)
        .ok()?;
    table(&dfa, found)
}

/// The transition table of the states that values can reach.
fn table(dfa: &dense::DFA<Vec<u32>>, found: AutomatonState) -> Option<Automaton> {
    let mut classes = [0; 256];
    let mut bytes = Vec::new();
    for byte in 0..=u8::MAX {
        let class = dfa.byte_classes().get(byte);
        classes[usize::from(byte)] = class;
        if usize::from(class) == bytes.len() {
            bytes.push(byte);
        }
    }
    let last = |id: StateID| match () {
        () if dfa.is_match_state(id) => Some(found),
        () if dfa.is_dead_state(id) => Some(NO),
        () if dfa.is_quit_state(id) => Some(UNSURE),
        () => None,
    };
    let begin = dfa.start_state_forward(&Input::new("")).ok()?;
    if last(begin).is_some() {
        return None;
    }
    let mut numbers = HashMap::from([(begin, BEGIN)]);
    let mut states = vec![begin];
    let (mut rows, mut ends) = (vec![Vec::new(); usize::from(BEGIN)], vec![NO, YES, UNSURE]);
    while let Some(&state) = states.get(rows.len() - usize::from(BEGIN)) {
        let mut row = Vec::with_capacity(bytes.len());
        for &byte in &bytes {
            let next = dfa.next_state(state, byte);
            row.push(match (last(next), numbers.entry(next)) {
                (Some(last), _) => last,
                (None, Entry::Occupied(known)) => *known.get(),
                (None, Entry::Vacant(new)) => {
                    let number = AutomatonState::try_from(states.len() + usize::from(BEGIN));
                    let number = number.ok().filter(|&n| usize::from(n) < STATES_MAX)?;
                    states.push(next);
                    *new.insert(number)
                }
            });
        }
        rows.push(row);
        ends.push(last(dfa.next_eoi_state(state)).unwrap_or(NO));
    }
    Some(Automaton::new(classes, &rows, ends))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn large_automata_are_not_built() {
        for pattern in [r"\w{200}", r"[01]*1[01]{20}x"] {
            assert!(automaton(pattern, YES).is_none(), "{pattern}");
        }
    }

    #[test]
    fn an_address_takes_few_states() {
        let automaton =
            automaton(r"\b[0-9]{2,3}\.[0-9]{2,3}\.[0-9]{2,3}\.[0-9]{2,3}\b", YES).unwrap();
        assert!(automaton.states() < 100, "{}", automaton.states());
        assert_eq!(automaton.says_of(b"from 10.20.30.40 port 1"), Some(true));
        assert_eq!(automaton.says_of(b"from 10.20.30.4000 port 1"), Some(false));
        assert_eq!(automaton.says_of(b"from 10.20.30.40"), Some(true));
        assert_eq!(automaton.says_of("é from 10.20.30.40".as_bytes()), None);
    }

    proptest! {
        #[test]
        fn automaton_agrees_with_the_expression(
            parts in prop::collection::vec(
                prop::sample::select(
                    r"a b é [ab] [^a] . \s \S \w \W ^ $ \b \B a* b+ (a|bb) x? (?s:.) [0-9]{2} (?i:A) (?-u:\xff) (?m:^) (?m:$)"
                        .split(' ')
                        .collect::<Vec<_>>(),
                ),
                0..5,
            ),
            values in prop::collection::vec("[abA0é \n]{0,5}", 0..6),
        ) {
            let pattern = parts.concat();
            let regex = regex::bytes::Regex::new(&pattern).unwrap();
            let Some(automaton) = automaton(&pattern, YES) else { return Ok(()) };
            for value in values {
                let said = automaton.says_of(value.as_bytes());
                prop_assert!(said.is_some() || !value.is_ascii());
                prop_assert_eq!(said.unwrap_or_else(|| regex.is_match(value.as_bytes())), regex.is_match(value.as_bytes()));
            }
        }
    }
}
