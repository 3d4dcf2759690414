//! A test of values that is evaluated byte by byte: a finite automaton as a plain table.
//!
//! The effect of a text on a state depends on the text and the state only. So a text that many
//! values contain is evaluated once for each state that it is met in, and the bytes that a value
//! may have determine which states it can reach. This is how a regular expression is evaluated on
//! values that are not stored as text: those of templates.
//!
//! Left out: compiling expressions to automata; the caller does that.

/// A state. The first three are final: bytes that follow do not change them.
pub type AutomatonState = u16;

/// The value does not pass.
pub const NO: AutomatonState = 0;
/// The value passes.
pub const YES: AutomatonState = 1;
/// Undecided: the value as a whole must be examined.
pub const UNSURE: AutomatonState = 2;
/// The state at the start of a value.
pub const BEGIN: AutomatonState = 3;

/// Most states of an automaton; one more number stands for an unknown state.
pub const STATES_MAX: usize = AutomatonState::MAX as usize;

/// Whether the state is final.
#[inline]
pub fn is_last(state: AutomatonState) -> bool {
    state < BEGIN
}

/// The table of transitions.
#[derive(Clone, Debug)]
pub struct Automaton {
    /// The class of each byte: bytes of one class lead every state to the same next state.
    classes: [u8; 256],
    /// Number of bits of a class.
    class_bits: u32,
    /// The next state, by state and class.
    next: Vec<AutomatonState>,
    /// The result of a value that ends in a state.
    ends: Vec<AutomatonState>,
}

impl Automaton {
    /// From the class of each byte, the next states of each state by class, and the result of a
    /// value that ends in a state: one of the first three. The rows of the first three states are
    /// ignored.
    ///
    /// # Panics
    /// If the state [`BEGIN`] is missing, there are more than [`STATES_MAX`], a row has no state
    /// for a class, or a state does not exist.
    pub fn new(
        classes: [u8; 256],
        rows: &[Vec<AutomatonState>],
        ends: Vec<AutomatonState>,
    ) -> Automaton {
        assert!(rows.len() > usize::from(BEGIN) && rows.len() <= STATES_MAX, "states");
        assert_eq!(rows.len(), ends.len(), "each state has an end");
        assert!(ends.iter().all(|&end| is_last(end)), "ends are last");
        let count = usize::from(*classes.iter().max().expect("there are 256")) + 1;
        let class_bits = count.next_power_of_two().trailing_zeros();
        let mut next = Vec::with_capacity(rows.len() << class_bits);
        for (state, row) in (0..).zip(rows) {
            let to = |class| if is_last(state) { state } else { row[class] };
            next.extend((0..count).map(to));
            next.resize((usize::from(state) + 1) << class_bits, state);
        }
        assert!(next.iter().all(|&state| usize::from(state) < rows.len()), "states are there");
        Automaton { classes, class_bits, next, ends }
    }

    /// The number of states.
    pub fn states(&self) -> usize {
        self.ends.len()
    }

    /// The state behind a text.
    #[inline]
    pub fn step(&self, state: AutomatonState, text: &[u8]) -> AutomatonState {
        text.iter().fold(state, |state, &byte| self.step_byte(state, byte))
    }

    #[inline]
    fn step_byte(&self, state: AutomatonState, byte: u8) -> AutomatonState {
        let class = usize::from(self.classes[usize::from(byte)]);
        self.next[(usize::from(state) << self.class_bits) | class]
    }

    /// The result of a value that ends in a state.
    #[inline]
    pub fn end(&self, state: AutomatonState) -> AutomatonState {
        self.ends[usize::from(state)]
    }

    /// Whether a value that ends in a state passes; `None` if it must be examined.
    #[inline]
    pub fn says(&self, state: AutomatonState) -> Option<bool> {
        match self.end(state) {
            NO => Some(false),
            YES => Some(true),
            _ => None,
        }
    }

    /// Whether a value passes; `None` if it must be examined.
    pub fn says_of(&self, value: &[u8]) -> Option<bool> {
        self.says(self.step(BEGIN, value))
    }
}

/// A set of states of an automaton.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct States(Vec<bool>);

impl States {
    /// The empty set.
    pub fn none(automaton: &Automaton) -> States {
        States(vec![false; automaton.states()])
    }

    /// Adds a state.
    pub fn add(&mut self, state: AutomatonState) {
        self.0[usize::from(state)] = true;
    }

    /// Adds the states of another set.
    pub fn add_all(&mut self, others: &States) {
        self.0.iter_mut().zip(&others.0).for_each(|(own, other)| *own |= other);
    }

    /// The states in the set, ascending.
    pub fn iter(&self) -> impl Iterator<Item = AutomatonState> {
        (0..).zip(&self.0).filter_map(|(state, is_in)| is_in.then_some(state))
    }

    /// The states behind a text.
    pub fn behind(&self, text: &[u8], automaton: &Automaton) -> States {
        let mut behind = States::none(automaton);
        self.iter().for_each(|state| behind.add(automaton.step(state, text)));
        behind
    }

    /// Adds the states that any text of bytes accepted by `may_hold` leads to; such a text may be
    /// empty.
    pub fn spread(&mut self, may_hold: impl Fn(u8) -> bool, automaton: &Automaton) {
        let mut is_met = [false; 256];
        let mut bytes = Vec::new();
        for byte in (0..=u8::MAX).filter(|&byte| may_hold(byte)) {
            let class = usize::from(automaton.classes[usize::from(byte)]);
            if !std::mem::replace(&mut is_met[class], true) {
                bytes.push(byte);
            }
        }
        let mut open: Vec<AutomatonState> = self.iter().collect();
        while let Some(state) = open.pop() {
            for &byte in &bytes {
                let next = automaton.step_byte(state, byte);
                if !std::mem::replace(&mut self.0[usize::from(next)], true) {
                    open.push(next);
                }
            }
        }
    }
}

/// A text that is evaluated once for each state it is met in.
#[derive(Clone, Debug)]
pub struct KnownText<'t> {
    text: &'t [u8],
    /// By state; empty before the first evaluation.
    behind: Vec<AutomatonState>,
}

/// A result that is not known yet.
const UNKNOWN: AutomatonState = AutomatonState::MAX;

impl<'t> KnownText<'t> {
    /// A text that was not evaluated yet.
    pub fn new(text: &'t [u8]) -> Self {
        KnownText { text, behind: Vec::new() }
    }

    /// The state behind the text.
    #[inline]
    pub fn step(&mut self, state: AutomatonState, automaton: &Automaton) -> AutomatonState {
        match self.behind.get(usize::from(state)) {
            Some(&behind) if behind != UNKNOWN => behind,
            _ => self.find(state, automaton),
        }
    }

    #[cold]
    fn find(&mut self, state: AutomatonState, automaton: &Automaton) -> AutomatonState {
        self.behind.resize(automaton.states(), UNKNOWN);
        let behind = automaton.step(state, self.text);
        self.behind[usize::from(state)] = behind;
        behind
    }
}

/// Repeated values; each is mostly met in the same state as the last time.
#[derive(Clone, Debug)]
pub struct KnownValues {
    /// The states before and behind each value at its last evaluation.
    met: Vec<(AutomatonState, AutomatonState)>,
}

impl KnownValues {
    /// `count` values that were not evaluated yet.
    pub fn new(count: usize) -> Self {
        KnownValues { met: vec![(UNKNOWN, UNKNOWN); count] }
    }

    /// The state behind the value at an index; `value` is only called if that is not known.
    #[inline]
    pub fn step<'v>(
        &mut self,
        index: usize,
        state: AutomatonState,
        automaton: &Automaton,
        value: impl FnOnce() -> &'v [u8],
    ) -> AutomatonState {
        let (before, behind) = &mut self.met[index];
        if *before != state {
            *before = state;
            *behind = automaton.step(state, value());
        }
        *behind
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Passes values that contain `ab`; a value with a non-ASCII byte is undecided.
    fn holds_ab() -> Automaton {
        let mut classes = [0; 256];
        classes[usize::from(b'a')] = 1;
        classes[usize::from(b'b')] = 2;
        classes[128..].fill(3);
        let last = Vec::new;
        let rows = [last(), last(), last(), vec![3, 4, 3, UNSURE], vec![3, 4, YES, UNSURE]];
        Automaton::new(classes, &rows, vec![NO, YES, UNSURE, NO, NO])
    }

    #[test]
    fn known_texts_agree_with_stepping() {
        let automaton = holds_ab();
        let answer = |text: &str| automaton.says_of(text.as_bytes());
        let (no, yes) = (Some(false), Some(true));
        assert_eq!(["", "ba", "aab", "abé", "éab"].map(answer), [no, no, yes, yes, None]);
        let mut known = KnownText::new(b"xa");
        for _ in 0..2 {
            assert_eq!([BEGIN, YES, 4].map(|state| known.step(state, &automaton)), [4, YES, 4]);
        }
    }

    #[test]
    fn a_repeated_value_is_not_requested_again() {
        let automaton = holds_ab();
        let mut values = KnownValues::new(2);
        assert_eq!(values.step(1, BEGIN, &automaton, || b"xa"), 4);
        assert_eq!(values.step(0, BEGIN, &automaton, || b"b"), BEGIN);
        assert_eq!(values.step(1, BEGIN, &automaton, || panic!("it is known")), 4);
        assert_eq!(values.step(0, 4, &automaton, || b"b"), YES);
    }

    #[test]
    fn bytes_lead_to_some_states() {
        let automaton = holds_ab();
        let from = |may_hold: fn(u8) -> bool| {
            let mut states = States::none(&automaton);
            states.add(BEGIN);
            states.spread(may_hold, &automaton);
            states.iter().collect::<Vec<_>>()
        };
        assert_eq!(from(|_| false), [BEGIN]);
        assert_eq!(from(|byte| byte == b'b'), [BEGIN]);
        assert_eq!(from(|byte| byte < b'b'), [BEGIN, 4]);
        assert_eq!(from(|byte| byte.is_ascii()), [YES, BEGIN, 4]);
        assert_eq!(from(|_| true), [YES, UNSURE, BEGIN, 4]);
        let mut states = States::none(&automaton);
        states.add(4);
        states.add_all(&states.behind(b"x", &automaton));
        assert_eq!(states.behind(b"b", &automaton).iter().collect::<Vec<_>>(), [YES, BEGIN]);
    }
}
