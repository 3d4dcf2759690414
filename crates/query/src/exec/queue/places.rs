//! The rules by which queries get places: no threads, clocks or texts, only state.
//!
//! Each class of queries has places of its own. A query that enters runs at once when a place of
//! its class is free and no other query waits. Otherwise it waits in order of arrival. A query that
//! is paused gives up its place or its position in the line. When it is resumed, it joins the end
//! of the line. A query whose turn is over waits for its next one in a second line; free places go
//! to the two lines by turns.
//!
//! Invariants: a class never runs more queries than it has places; while a place is free, no query
//! of its class waits; the queries of a line get places in the order in which they joined it.

use std::collections::{BTreeMap, VecDeque};

/// A class of queries that share places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// A client waits for the answer.
    Interactive,
    /// Exports and background queries. They may take hours, so interactive queries do not wait
    /// behind them.
    Background,
    /// Live tails, which run for hours and cost little. They never wait.
    Tail,
    /// Shares of queries that other nodes answer. They have places of their own: a node that
    /// answers a query may be asked for a share of it, and must not wait for itself.
    Share,
    /// Shares that this node asks other nodes for. They have places of their own for the same
    /// reason: one of these other nodes may be this one, or wait for this one.
    Relay,
}

/// The state of a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueryState {
    /// Waits for a place.
    Waiting,
    /// Runs.
    Running,
    /// Was paused; has no place until it is resumed.
    Paused,
    /// Ran to its end.
    Done,
    /// Was cancelled.
    Cancelled,
    /// Was refused, or ended by an error or a limit.
    Failed,
    /// Was ended by a shutdown or by too long a pause; can be resumed.
    Interrupted,
}

impl QueryState {
    /// Number of states.
    pub const COUNT: usize = 7;

    /// The name in the API.
    pub fn name(self) -> &'static str {
        match self {
            QueryState::Waiting => "waiting",
            QueryState::Running => "running",
            QueryState::Paused => "paused",
            QueryState::Done => "done",
            QueryState::Cancelled => "cancelled",
            QueryState::Failed => "failed",
            QueryState::Interrupted => "interrupted",
        }
    }

    /// The state with this name in the API.
    pub fn named(name: &str) -> Option<QueryState> {
        use QueryState::*;
        [Waiting, Running, Paused, Done, Cancelled, Failed, Interrupted]
            .into_iter()
            .find(|state| state.name() == name)
    }

    /// Whether the query has ended. An ended query runs again only if it is resumed.
    pub fn is_ended(self) -> bool {
        !matches!(self, QueryState::Waiting | QueryState::Running | QueryState::Paused)
    }
}

/// Limits of a class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClassLimits {
    pub running_max: usize,
    /// Queries that wait or are paused. Paused ones count, because they will need a place again.
    pub waiting_max: usize,
}

/// The queries that wait, run or are paused.
#[derive(Debug)]
pub(super) struct Places {
    classes: [ClassPlaces; 5],
    live: BTreeMap<u64, (Class, QueryState)>,
    /// Queries that got a place and were not told yet.
    admitted: Vec<u64>,
}

#[derive(Debug)]
struct ClassPlaces {
    limits: ClassLimits,
    line: VecDeque<u64>,
    /// Queries that had a turn and wait for the next one.
    between_turns: VecDeque<u64>,
    /// Whether the next free place is for them.
    is_their_turn: bool,
    running: usize,
    paused: usize,
}

impl Places {
    /// Places for interactive queries, background queries, tails, shares and relays, in this order.
    pub fn new(limits: [ClassLimits; 5]) -> Places {
        let class = |limits| ClassPlaces {
            limits,
            line: VecDeque::new(),
            between_turns: VecDeque::new(),
            is_their_turn: false,
            running: 0,
            paused: 0,
        };
        Places { classes: limits.map(class), live: BTreeMap::new(), admitted: Vec::new() }
    }

    /// Changes the limits. What runs goes on, also where it is more than the new limits allow.
    pub fn set_limits(&mut self, limits: [ClassLimits; 5]) {
        for (places, limits) in self.classes.iter_mut().zip(limits) {
            places.limits = limits;
        }
        for class in
            [Class::Interactive, Class::Background, Class::Tail, Class::Share, Class::Relay]
        {
            self.admit(class);
        }
    }

    /// Gives a new query a place, or lets it wait. False: too many queries wait already.
    pub fn enter(&mut self, id: u64, class: Class) -> bool {
        let places = &mut self.classes[class as usize];
        let free = places.running < places.limits.running_max;
        if !free && places.line.len() + places.paused >= places.limits.waiting_max {
            return false;
        }
        places.line.push_back(id);
        let before = self.live.insert(id, (class, QueryState::Waiting));
        assert!(before.is_none(), "query {id} enters once");
        self.admit(class);
        true
    }

    /// The state of a query; none when it has ended or never entered.
    pub fn state(&self, id: u64) -> Option<QueryState> {
        self.live.get(&id).map(|(_, state)| *state)
    }

    /// Takes the queries that got a place since the last call.
    pub fn take_admitted(&mut self) -> Vec<u64> {
        std::mem::take(&mut self.admitted)
    }

    /// The first query of each line.
    pub fn firsts(&self) -> impl Iterator<Item = u64> {
        let firsts = |places: &ClassPlaces| {
            [&places.line, &places.between_turns].map(|l| l.front().copied())
        };
        self.classes.iter().flat_map(firsts).flatten()
    }

    /// Position in its line, from 1; none when the query does not wait.
    pub fn position(&self, id: u64) -> Option<usize> {
        let (class, _) = self.live.get(&id)?;
        let places = &self.classes[*class as usize];
        let at = |line: &VecDeque<u64>| line.iter().position(|&waiting| waiting == id);
        at(&places.line).or_else(|| at(&places.between_turns)).map(|at| at + 1)
    }

    /// The queries of a class that run.
    pub fn running(&self, class: Class) -> impl Iterator<Item = u64> {
        let runs = move |(_, it): &(_, &(Class, QueryState))| **it == (class, QueryState::Running);
        self.live.iter().filter(runs).map(|(id, _)| *id)
    }

    /// The queries of a class that wait between two turns.
    pub fn between_turns(&self, class: Class) -> impl Iterator<Item = u64> {
        self.classes[class as usize].between_turns.iter().copied()
    }

    /// Whether the query is the first of its line.
    pub fn is_next(&self, id: u64) -> bool {
        self.position(id) == Some(1)
    }

    /// Ends the turn of a running query: it waits for the next one. Its place goes to the first of
    /// the line in which `for_query` waits.
    pub fn end_turn(&mut self, id: u64, for_query: u64) {
        let (class, state) = self.live[&id];
        assert_eq!(state, QueryState::Running, "query {id} has a turn");
        let places = &mut self.classes[class as usize];
        places.is_their_turn = places.between_turns.contains(&for_query);
        places.running -= 1;
        places.between_turns.push_back(id);
        self.live.insert(id, (class, QueryState::Waiting));
        self.admit(class);
    }

    /// Takes a query's place or position until it is resumed. False when it is paused already.
    pub fn pause(&mut self, id: u64) -> bool {
        self.change(id, QueryState::Paused)
    }

    /// Lets a paused query wait for a place again. False when it is not paused.
    pub fn resume(&mut self, id: u64) -> bool {
        self.state(id) == Some(QueryState::Paused) && self.change(id, QueryState::Waiting)
    }

    /// Removes a query, in whichever state it is.
    pub fn leave(&mut self, id: u64) {
        let (class, state) = self.live.remove(&id).expect("a query leaves once");
        self.count_out(id, class, state);
        self.admit(class);
    }

    fn change(&mut self, id: u64, to: QueryState) -> bool {
        let (class, from) = *self.live.get(&id).expect("it is here");
        if from == to {
            return false;
        }
        self.count_out(id, class, from);
        self.live.insert(id, (class, to));
        let places = &mut self.classes[class as usize];
        match to {
            QueryState::Paused => places.paused += 1,
            QueryState::Waiting => places.line.push_back(id),
            _ => unreachable!("queries run when they are admitted"),
        }
        self.admit(class);
        true
    }

    fn count_out(&mut self, id: u64, class: Class, state: QueryState) {
        let places = &mut self.classes[class as usize];
        match state {
            QueryState::Waiting => {
                places.line.retain(|&waiting| waiting != id);
                places.between_turns.retain(|&waiting| waiting != id);
            }
            QueryState::Running => places.running -= 1,
            QueryState::Paused => places.paused -= 1,
            _ => unreachable!("what has ended is not here"),
        }
    }

    /// Gives free places to the first queries in the line.
    fn admit(&mut self, class: Class) {
        let places = &mut self.classes[class as usize];
        while places.running < places.limits.running_max
            && let Some(first) = places.next()
        {
            places.running += 1;
            self.live.insert(first, (class, QueryState::Running));
            self.admitted.push(first);
        }
    }
}

impl ClassPlaces {
    /// Takes the query out of its line that gets the next place.
    fn next(&mut self) -> Option<u64> {
        let lines = match self.is_their_turn {
            true => [&mut self.between_turns, &mut self.line],
            false => [&mut self.line, &mut self.between_turns],
        };
        self.is_their_turn = !self.is_their_turn;
        lines.into_iter().find_map(VecDeque::pop_front)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMITS: [ClassLimits; 5] = [
        ClassLimits { running_max: 2, waiting_max: 3 },
        ClassLimits { running_max: 1, waiting_max: 2 },
        ClassLimits { running_max: 2, waiting_max: 0 },
        ClassLimits { running_max: 1, waiting_max: 1 },
        ClassLimits { running_max: 1, waiting_max: 2 },
    ];
    const CLASSES: [Class; 5] =
        [Class::Interactive, Class::Background, Class::Tail, Class::Share, Class::Relay];

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Enter(Class),
        Leave(usize),
        Pause(usize),
        Resume(usize),
    }

    /// Reference model: a list in the order of the line, scanned from its start.
    #[derive(Default)]
    struct Naive(Vec<(u64, Class, QueryState)>);

    impl Naive {
        fn count(&self, class: Class, state: QueryState) -> usize {
            self.0.iter().filter(|q| q.1 == class && q.2 == state).count()
        }

        fn settle(&mut self) {
            for class in CLASSES {
                while self.count(class, QueryState::Running) < LIMITS[class as usize].running_max
                    && let Some(first) =
                        self.0.iter_mut().find(|q| q.1 == class && q.2 == QueryState::Waiting)
                {
                    first.2 = QueryState::Running;
                }
            }
        }

        fn enter(&mut self, id: u64, class: Class) -> bool {
            let limits = LIMITS[class as usize];
            let held =
                self.count(class, QueryState::Waiting) + self.count(class, QueryState::Paused);
            if self.count(class, QueryState::Running) == limits.running_max
                && held >= limits.waiting_max
            {
                return false;
            }
            self.0.push((id, class, QueryState::Waiting));
            self.settle();
            true
        }

        fn set(&mut self, id: u64, state: Option<QueryState>) {
            let at = self.0.iter().position(|q| q.0 == id).unwrap();
            let (_, class, _) = self.0.remove(at);
            self.0.extend(state.map(|state| (id, class, state)));
            self.settle();
        }
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (0..5usize).prop_map(|class| Step::Enter(CLASSES[class])),
            2 => any::<usize>().prop_map(Step::Leave),
            1 => any::<usize>().prop_map(Step::Pause),
            1 => any::<usize>().prop_map(Step::Resume),
        ]
    }

    proptest! {
        #[test]
        fn as_a_list_that_is_walked_through(steps in prop::collection::vec(step(), 0..80)) {
            let mut places = Places::new(LIMITS);
            let mut naive = Naive::default();
            let mut id = 0;
            for step in steps {
                let some = |n: usize, naive: &Naive| naive.0.get(n % naive.0.len().max(1)).copied();
                match step {
                    Step::Enter(class) => {
                        id += 1;
                        prop_assert_eq!(places.enter(id, class), naive.enter(id, class));
                    }
                    Step::Leave(n) => if let Some((id, ..)) = some(n, &naive) {
                        places.leave(id);
                        naive.set(id, None);
                    },
                    Step::Pause(n) => if let Some((id, _, state)) = some(n, &naive) {
                        let paused = state != QueryState::Paused;
                        prop_assert_eq!(places.pause(id), paused);
                        if paused { naive.set(id, Some(QueryState::Paused)); }
                    },
                    Step::Resume(n) => if let Some((id, _, state)) = some(n, &naive) {
                        let resumed = state == QueryState::Paused;
                        prop_assert_eq!(places.resume(id), resumed);
                        if resumed { naive.set(id, Some(QueryState::Waiting)); }
                    },
                }
                prop_assert_eq!(places.live.len(), naive.0.len());
                for class in CLASSES {
                    let line = naive.0.iter().filter(|q| q.1 == class && q.2 == QueryState::Waiting);
                    for (at, (id, ..)) in line.enumerate() {
                        prop_assert_eq!(places.position(*id), Some(at + 1));
                    }
                }
                for (id, _, state) in &naive.0 {
                    prop_assert_eq!(places.state(*id), Some(*state));
                }
            }
        }
    }

    #[test]
    fn a_turn_that_ends_gives_its_place_to_the_query_that_asked() {
        let mut places = Places::new(LIMITS);
        (1..=4).for_each(|id| assert!(places.enter(id, Class::Interactive)));
        let running = |places: &Places| places.running(Class::Interactive).collect::<Vec<_>>();
        assert_eq!(running(&places), [1, 2]);
        assert!(places.is_next(3) && !places.is_next(4));
        places.end_turn(1, 3);
        assert_eq!(running(&places), [2, 3]);
        assert_eq!(places.state(1), Some(QueryState::Waiting));
        assert!(places.is_next(1) && places.is_next(4), "each is the first of its line");
        places.end_turn(2, 1);
        assert_eq!(running(&places), [1, 3]);
        // Without anybody who asks, the lines take turns.
        places.leave(3);
        assert_eq!(running(&places), [1, 4]);
        places.leave(4);
        assert_eq!(running(&places), [1, 2]);
        // A query leaves, pauses and resumes from either line.
        assert!(places.enter(5, Class::Interactive));
        places.end_turn(1, 5);
        assert!(places.pause(1) && places.resume(1));
        places.end_turn(2, 1);
        assert_eq!(running(&places), [1, 5]);
        places.leave(2);
        places.leave(1);
        places.leave(5);
        assert!(places.live.is_empty());
        assert!(places.classes.iter().all(|class| class.running == 0 && class.next_is_none()));
    }

    impl ClassPlaces {
        fn next_is_none(&self) -> bool {
            self.line.is_empty() && self.between_turns.is_empty()
        }
    }

    #[test]
    fn as_many_as_the_limit_says() {
        let mut places = Places::new(LIMITS);
        let entered: Vec<bool> = (1..=7).map(|id| places.enter(id, Class::Interactive)).collect();
        assert_eq!(entered, [true, true, true, true, true, false, false]);
        assert_eq!((places.position(5), places.position(1)), (Some(3), None));
        // A paused query counts as waiting, because it will need a place again.
        assert!(places.pause(1) && !places.pause(1));
        assert_eq!(places.state(3), Some(QueryState::Running));
        assert!(!places.enter(8, Class::Interactive));
        places.leave(4);
        assert!(places.enter(9, Class::Interactive));
        assert!(places.resume(1));
        assert_eq!(places.position(1), Some(3));
        assert!(places.enter(10, Class::Background), "places of its own");
        assert_eq!(places.state(10), Some(QueryState::Running));
    }

    #[test]
    fn limits_that_change_move_the_line_and_end_nothing() {
        let mut places = Places::new(LIMITS);
        let states = |places: &Places| [1, 2, 3, 4].map(|id| places.state(id).unwrap());
        (1..=4).for_each(|id| assert!(places.enter(id, Class::Interactive)));
        use QueryState::{Running, Waiting};
        assert_eq!(states(&places), [Running, Running, Waiting, Waiting]);
        let mut limits = LIMITS;
        limits[0] = ClassLimits { running_max: 3, waiting_max: 1 };
        places.set_limits(limits);
        assert_eq!(states(&places), [Running, Running, Running, Waiting]);
        assert!(!places.enter(5, Class::Interactive));
        limits[0] = ClassLimits { running_max: 1, waiting_max: 1 };
        places.set_limits(limits);
        places.leave(1);
        places.leave(2);
        assert_eq!(places.state(4), Some(Waiting), "one runs still");
        places.leave(3);
        assert_eq!(places.state(4), Some(Running));
    }
}
