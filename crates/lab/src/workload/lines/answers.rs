//! The right answers to queries, found by going through all lines, with every processor.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use regex::Regex;

use super::line;
use crate::driver::Answer;
use crate::driver::search::{Match, Search, Wanted};
use crate::row::{Row, Value};

/// Answers that are kept for the next stores, which are asked the same.
const KEPT_MAX: usize = 16;

/// See the module.
pub struct Answers {
    asked: Vec<Search>,
    answers: HashMap<Search, Answer>,
}

type Kept = VecDeque<(u64, Arc<Answers>)>;

static KEPT: Mutex<Kept> = Mutex::new(VecDeque::new());

impl Answers {
    /// The answers to `asked` over the lines 1 to `records`.
    pub fn of(records: u64, asked: Vec<Search>) -> Arc<Answers> {
        let kept = || KEPT.lock().expect("nothing panics while it is held");
        let same = |(of, answers): &&(u64, Arc<Answers>)| *of == records && answers.asked == asked;
        if let Some((_, known)) = kept().iter().find(same) {
            return known.clone();
        }
        let answers = Arc::new(Answers { answers: found(records, &asked), asked });
        let mut all = kept();
        all.push_back((records, answers.clone()));
        if all.len() > KEPT_MAX {
            all.pop_front();
        }
        answers
    }

    /// The queries, in order.
    pub fn asked(&self) -> &[Search] {
        &self.asked
    }

    /// The answer to one of them.
    pub fn find(&self, search: &Search) -> Option<Answer> {
        self.answers.get(search).cloned()
    }
}

fn found(records: u64, asked: &[Search]) -> HashMap<Search, Answer> {
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get() as u64);
    let part = records.div_ceil(threads);
    let mut parts: Vec<Vec<Finder>> = std::thread::scope(|scope| {
        let work = |thread: u64| {
            let numbers = thread * part + 1..=records.min((thread + 1) * part);
            let mut finders: Vec<Finder> = asked.iter().map(Finder::new).collect();
            for number in numbers {
                let row = line::line(number);
                finders.iter_mut().for_each(|finder| finder.take(number, &row));
            }
            finders
        };
        let running: Vec<_> =
            (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
        running.into_iter().map(|thread| thread.join().expect("a finder does not panic")).collect()
    });
    let mut all = parts.remove(0);
    for later in parts {
        all.iter_mut().zip(later).for_each(|(one, other)| one.add(other));
    }
    asked.iter().cloned().zip(all.into_iter().map(Finder::answer)).collect()
}

/// The tests of a line.
enum Test {
    Any,
    Contains(String),
    Regex(Regex),
}

struct Finder<'a> {
    search: &'a Search,
    test: Test,
    count: u64,
    groups: BTreeMap<Value, u64>,
    /// Numbers of the newest lines.
    latest: VecDeque<u64>,
}

impl<'a> Finder<'a> {
    fn new(search: &'a Search) -> Finder<'a> {
        let test = match &search.text {
            None => Test::Any,
            // Words of the vocabulary occur as words only.
            Some((_, Match::Word(text) | Match::Phrase(text))) => Test::Contains(text.clone()),
            Some((_, Match::Regex(regex))) => {
                Test::Regex(Regex::new(regex).expect("the workload wrote it"))
            }
        };
        let (groups, latest) = (BTreeMap::new(), VecDeque::new());
        Finder { search, test, count: 0, groups, latest }
    }

    fn take(&mut self, number: u64, row: &Row) {
        let Value::Integer(time) = row.values[line::TIME] else { return };
        let in_time = self.search.time.is_none_or(|(from, to)| (from..to).contains(&time));
        let equal = || self.search.equals.iter().all(|(at, value)| row.values[*at] == *value);
        let matching = || match &row.values[line::MESSAGE] {
            Value::Text(message) => match &self.test {
                Test::Any => true,
                Test::Contains(text) => message.contains(text.as_str()),
                Test::Regex(regex) => regex.is_match(message),
            },
            Value::Integer(_) => false,
        };
        if !(in_time && equal() && matching()) {
            return;
        }
        match &self.search.wanted {
            Wanted::Count => self.count += 1,
            Wanted::CountBy { column } => {
                *self.groups.entry(row.values[*column].clone()).or_default() += 1;
            }
            Wanted::CountOver { step_ms } => {
                let begin = time.div_euclid(*step_ms) * step_ms;
                *self.groups.entry(Value::Integer(begin)).or_default() += 1;
            }
            Wanted::Latest { rows_max } => {
                self.latest.push_back(number);
                if self.latest.len() > *rows_max {
                    self.latest.pop_front();
                }
            }
        }
    }

    /// Adds the findings of later lines.
    fn add(&mut self, later: Finder<'_>) {
        self.count += later.count;
        for (value, count) in later.groups {
            *self.groups.entry(value).or_default() += count;
        }
        self.latest.extend(later.latest);
        if let Wanted::Latest { rows_max } = self.search.wanted {
            let surplus = self.latest.len().saturating_sub(rows_max);
            self.latest.drain(..surplus);
        }
    }

    fn answer(self) -> Answer {
        match self.search.wanted {
            Wanted::Count => Answer::Count(self.count),
            Wanted::Latest { .. } => {
                Answer::Rows(self.latest.into_iter().rev().map(line::line).collect())
            }
            Wanted::CountBy { .. } | Wanted::CountOver { .. } => {
                Answer::Groups(self.groups.into_iter().collect())
            }
        }
    }
}
