//! A query on values that is evaluated byte by byte: a finite automaton as a plain table.
//!
//! What a text does to a state depends on the text and the state alone. So a text that stands in
//! many values is gone over once for each state it is met in, and from the bytes that a value may
//! have follows which states it may lead to. That is how a regular expression is answered for
//! values that are not there as text: those of templates.
//!
//! Left out: how expressions become automata; the caller does that.

/// A state; the three below are the last ones of a value, whatever follows.
pub type State = u16;

/// The value does not pass.
pub const NO: State = 0;
/// It passes.
pub const YES: State = 1;
/// The value as a whole has to be looked at.
pub const UNSURE: State = 2;
/// Where a value begins.
pub const BEGIN: State = 3;

/// States of an automaton at most: one more stands for none.
pub const STATES_MAX: usize = State::MAX as usize;

/// Whether nothing that follows matters.
#[inline]
pub fn is_last(state: State) -> bool {
    state < BEGIN
}

/// The table.
#[derive(Clone, Debug)]
pub struct Automaton {
    /// The class of each byte: with bytes of one class all states go on alike.
    classes: [u8; 256],
    /// Bits of a class.
    class_bits: u32,
    /// By state and class.
    next: Vec<State>,
    /// What a value is that ends in a state.
    ends: Vec<State>,
}

impl Automaton {
    /// From the class of each byte, the next states of each state by class, and what a value is
    /// that ends in it: one of the first three. The rows of the first three states are not looked
    /// at.
    ///
    /// # Panics
    /// If there is no state to begin with, there are more than [`STATES_MAX`], a row has no state
    /// for a class, or a state is not there.
    pub fn new(classes: [u8; 256], rows: &[Vec<State>], ends: Vec<State>) -> Automaton {
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

    /// How many states there are.
    pub fn states(&self) -> usize {
        self.ends.len()
    }

    /// The state behind a text.
    #[inline]
    pub fn step(&self, state: State, text: &[u8]) -> State {
        text.iter().fold(state, |state, &byte| self.step_byte(state, byte))
    }

    #[inline]
    fn step_byte(&self, state: State, byte: u8) -> State {
        let class = usize::from(self.classes[usize::from(byte)]);
        self.next[(usize::from(state) << self.class_bits) | class]
    }

    /// What a value is that ends in a state.
    #[inline]
    pub fn end(&self, state: State) -> State {
        self.ends[usize::from(state)]
    }

    /// Whether a value passes that ends in a state; none where it has to be looked at.
    #[inline]
    pub fn says(&self, state: State) -> Option<bool> {
        match self.end(state) {
            NO => Some(false),
            YES => Some(true),
            _ => None,
        }
    }

    /// Whether a value passes; none where it has to be looked at.
    pub fn says_of(&self, value: &[u8]) -> Option<bool> {
        self.says(self.step(BEGIN, value))
    }
}

/// Some states of an automaton.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct States(Vec<bool>);

impl States {
    /// None of them.
    pub fn none(automaton: &Automaton) -> States {
        States(vec![false; automaton.states()])
    }

    /// Adds one.
    pub fn add(&mut self, state: State) {
        self.0[usize::from(state)] = true;
    }

    /// Adds others.
    pub fn add_all(&mut self, others: &States) {
        self.0.iter_mut().zip(&others.0).for_each(|(own, other)| *own |= other);
    }

    /// Those that are in it, ascending.
    pub fn iter(&self) -> impl Iterator<Item = State> {
        (0..).zip(&self.0).filter_map(|(state, is_in)| is_in.then_some(state))
    }

    /// Those behind a text.
    pub fn behind(&self, text: &[u8], automaton: &Automaton) -> States {
        let mut behind = States::none(automaton);
        self.iter().for_each(|state| behind.add(automaton.step(state, text)));
        behind
    }

    /// Those behind any text of bytes that `may_hold` takes; such a text may be empty.
    pub fn spread(&mut self, may_hold: impl Fn(u8) -> bool, automaton: &Automaton) {
        let mut is_met = [false; 256];
        let mut bytes = Vec::new();
        for byte in (0..=u8::MAX).filter(|&byte| may_hold(byte)) {
            let class = usize::from(automaton.classes[usize::from(byte)]);
            if !std::mem::replace(&mut is_met[class], true) {
                bytes.push(byte);
            }
        }
        let mut open: Vec<State> = self.iter().collect();
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

/// A text that is gone over once for each state it is met in.
#[derive(Clone, Debug)]
pub struct KnownText<'t> {
    text: &'t [u8],
    /// By state; empty while the text was not met.
    behind: Vec<State>,
}

/// A state that is not known yet.
const UNKNOWN: State = State::MAX;

impl<'t> KnownText<'t> {
    /// A text that was not met yet.
    pub fn new(text: &'t [u8]) -> Self {
        KnownText { text, behind: Vec::new() }
    }

    /// The state behind it.
    #[inline]
    pub fn step(&mut self, state: State, automaton: &Automaton) -> State {
        match self.behind.get(usize::from(state)) {
            Some(&behind) if behind != UNKNOWN => behind,
            _ => self.find(state, automaton),
        }
    }

    #[cold]
    fn find(&mut self, state: State, automaton: &Automaton) -> State {
        self.behind.resize(automaton.states(), UNKNOWN);
        let behind = automaton.step(state, self.text);
        self.behind[usize::from(state)] = behind;
        behind
    }
}

/// Values that come again and again, each mostly in the state that it was met in last.
#[derive(Clone, Debug)]
pub struct KnownValues {
    /// The states before and behind each value when it was met last.
    met: Vec<(State, State)>,
}

impl KnownValues {
    /// So many values that were not met yet.
    pub fn new(count: usize) -> Self {
        KnownValues { met: vec![(UNKNOWN, UNKNOWN); count] }
    }

    /// The state behind the value of a place, which is asked for where it is not known.
    #[inline]
    pub fn step<'v>(
        &mut self,
        place: usize,
        state: State,
        automaton: &Automaton,
        value: impl FnOnce() -> &'v [u8],
    ) -> State {
        let (before, behind) = &mut self.met[place];
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

    /// Passes what holds `ab`; a value with a byte that is not ASCII is not known.
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
    fn a_text_leads_from_state_to_state() {
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
    fn a_value_that_comes_again_is_not_asked_for() {
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
