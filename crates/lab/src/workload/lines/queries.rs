//! Queries about log lines, drawn by a seed: no two of a trial are the same, if there are enough.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::vocabulary::Vocabulary;
use super::{Queries, line};
use crate::driver::search::{Match, Search, Wanted};
use crate::row::Value;
use crate::workload::Opening;

/// The label of all queries while lines arrive.
pub const ANY: &str = "query";

/// Queries of a trial that ends by time.
const QUESTIONS_MAX: u64 = 128;

/// Draws of a query until it is one that was not asked yet.
const DRAWS_MAX: u32 = 50;

/// Rows of `latest`: a screen.
const LATEST_ROWS: usize = 100;

/// Bars of a histogram, about.
const BARS: i64 = 60;

/// Part of the time that `fields` and `count_by` look at: one divided by it.
const WINDOW: i64 = 5;

/// A kind of query.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueryKind {
    /// How many lines have a word?
    Word,
    /// How many lines have two words in a row?
    Phrase,
    /// How many lines match a regular expression?
    Regex,
    /// Which line has this identifier?
    Needle,
    /// How many lines of a host have this severity, in a fifth of the time?
    Fields,
    /// The newest hundred lines with a word.
    Latest,
    /// How many lines has each program on a host, in a fifth of the time?
    CountBy,
    /// How many lines of this severity are there over time, in about 60 bars?
    Histogram,
}

impl QueryKind {
    /// Its label in the report.
    pub fn label(self) -> &'static str {
        match self {
            QueryKind::Word => "word",
            QueryKind::Phrase => "phrase",
            QueryKind::Regex => "regex",
            QueryKind::Needle => "needle",
            QueryKind::Fields => "fields",
            QueryKind::Latest => "latest",
            QueryKind::CountBy => "count_by",
            QueryKind::Histogram => "histogram",
        }
    }
}

/// The queries of a trial, the kinds in turn.
pub fn ask(queries: &Queries, opening: &Opening) -> Vec<Search> {
    // The same for every generator, of which each asks its share.
    let mut random = fastrand::Rng::with_seed(opening.seed);
    let count = opening.operations.unwrap_or(QUESTIONS_MAX).min(QUESTIONS_MAX);
    let mut known = HashSet::new();
    let mut asked = Vec::new();
    for kind in queries.kinds.iter().cycle().take(count as usize) {
        let mut search = draw(*kind, queries, &mut random);
        for _ in 1..DRAWS_MAX {
            if !known.contains(&search) {
                break;
            }
            search = draw(*kind, queries, &mut random);
        }
        known.insert(search.clone());
        asked.push(search);
    }
    asked
}

fn draw(kind: QueryKind, queries: &Queries, random: &mut fastrand::Rng) -> Search {
    let vocabulary = Vocabulary::get();
    let text = |text: Match| Some((line::MESSAGE, text));
    let (from, to) = (line::time_ms(1), line::time_ms(queries.records) + 1);
    let severity = |random: &mut fastrand::Rng| Value::Integer(random.i64(3..=6));
    // Hosts are drawn like those of lines: an operator looks at hosts with many lines.
    let host = |random: &mut fastrand::Rng| {
        line::line(random.u64(1..=queries.records)).values[line::HOST].clone()
    };
    let mut search = Search {
        text: None,
        equals: Vec::new(),
        time: queries.arriving.is_some().then_some((from, to)),
        wanted: Wanted::Count,
    };
    let window = |random: &mut fastrand::Rng| {
        let length = ((to - from) / WINDOW).max(1);
        let begin = random.i64(from..=to - length);
        Some((begin, begin + length))
    };
    let word = |random: &mut fastrand::Rng| {
        Match::Word(vocabulary.words[random.usize(..vocabulary.words.len())].to_owned())
    };
    match kind {
        QueryKind::Word => search.text = text(word(random)),
        QueryKind::Phrase => {
            let phrases = &vocabulary.phrases;
            search.text = text(Match::Phrase(phrases[random.usize(..phrases.len())].clone()));
        }
        QueryKind::Regex => search.text = text(Match::Regex(regex(random))),
        QueryKind::Needle => {
            let start = random.u64(1..=queries.records);
            let mut numbers = (start..=queries.records).chain(1..start);
            let identifier = numbers.find_map(line::identifier);
            // A table without an identifier is asked for one that no line has.
            search.text = text(Match::Word(identifier.unwrap_or_else(|| "q0".to_owned())));
            search.wanted = Wanted::Latest { rows_max: LATEST_ROWS };
        }
        QueryKind::Fields => {
            search.equals = vec![(line::HOST, host(random)), (line::SEVERITY, severity(random))];
            search.time = window(random);
        }
        QueryKind::Latest => {
            search.text = text(word(random));
            search.wanted = Wanted::Latest { rows_max: LATEST_ROWS };
        }
        QueryKind::CountBy => {
            search.equals = vec![(line::HOST, host(random))];
            search.time = window(random);
            search.wanted = Wanted::CountBy { column: line::PROGRAM };
        }
        QueryKind::Histogram => {
            search.equals = vec![(line::HOST, host(random)), (line::SEVERITY, severity(random))];
            search.wanted = Wanted::CountOver { step_ms: step_ms(to - from) };
        }
    }
    search
}

/// The shortest of the usual steps that gives at most [`BARS`] bars.
fn step_ms(length_ms: i64) -> i64 {
    const STEPS_S: [i64; 11] = [1, 5, 10, 30, 60, 300, 600, 1_800, 3_600, 10_800, 43_200];
    const LONGEST_MS: i64 = 86_400_000;
    let mut steps = STEPS_S.iter().map(|seconds| seconds * 1_000);
    steps.find(|step| length_ms / step <= BARS).unwrap_or(LONGEST_MS)
}

/// A regular expression that operators could write for the lines of the samples.
fn regex(random: &mut fastrand::Rng) -> String {
    let digit = |random: &mut fastrand::Rng| random.u32(0..10);
    let (a, b) = (digit(random), digit(random));
    match random.u32(0..6) {
        0 => format!("blk_-?[0-9]+{a}{b} "),
        1 => format!("port [0-9]+{a} ssh"),
        2 => format!("HTTP/1\\.[01]\" (404|50[0-9]) [0-9]*{a}"),
        3 => format!("size [0-9]*{a}{b}$"),
        4 => format!("(Failed|Accepted) password .* from [0-9.]+{a} port"),
        _ => format!("sshd\\[[0-9]+{a}{b}\\]"),
    }
}
