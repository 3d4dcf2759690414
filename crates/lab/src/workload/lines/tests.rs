//! Queries and answers over log lines, compared with a plain search.

use super::*;
use crate::driver::search::{Match, Wanted};
use crate::sending::Share;
use crate::workload::{Verdict, check, right_answer};

const RECORDS: u64 = 3_000;

const ALL: [QueryKind; 8] = [
    QueryKind::Word,
    QueryKind::Phrase,
    QueryKind::Regex,
    QueryKind::Needle,
    QueryKind::Fields,
    QueryKind::Latest,
    QueryKind::CountBy,
    QueryKind::Histogram,
];

fn asking(kinds: &[QueryKind], arriving: Option<Arriving>, opening: &Opening) -> Asking {
    let queries = Queries { records: RECORDS, kinds: kinds.to_vec(), arriving };
    Asking::new(&queries, opening).unwrap()
}

fn opening(seed: u64, operations: u64) -> Opening {
    Opening { seed, operations: Some(operations), ..Opening::of(Share::default()) }
}

fn asked(plan: &Asking) -> Vec<Request> {
    let mut steps = plan.steps(0);
    std::iter::from_fn(|| steps.next()).map(|step| step.request).collect()
}

#[test]
fn queries_are_asked_in_turn_and_not_twice() {
    let plan = asking(&ALL, None, &opening(1, 64));
    let asked = asked(&plan);
    assert_eq!(asked.len(), 64);
    for (request, kind) in asked.iter().zip(ALL.iter().cycle()) {
        assert_eq!(request.label, kind.label());
    }
    let distinct: std::collections::HashSet<_> = plan.answers.asked().iter().collect();
    assert!(distinct.len() >= 60, "{}", distinct.len());
    let other = asking(&ALL, None, &opening(2, 64));
    assert_ne!(plan.answers.asked(), other.answers.asked());
}

#[test]
fn answers_are_those_of_a_plain_search() {
    let plan = asking(&ALL, None, &opening(7, 80));
    let mut lines_found = 0;
    for search in plan.answers.asked() {
        let matching: Vec<Row> =
            (1..=RECORDS).map(line::line).filter(|row| has(row, search)).collect();
        lines_found += matching.len();
        let expected = match &search.wanted {
            Wanted::Count => Answer::Count(matching.len() as u64),
            Wanted::Latest { rows_max } => {
                Answer::Rows(matching.into_iter().rev().take(*rows_max).collect())
            }
            Wanted::CountBy { column } => {
                groups(matching.iter().map(|row| row.values[*column].clone()))
            }
            Wanted::CountOver { step_ms } => groups(matching.iter().map(|row| {
                let Value::Integer(time) = row.values[line::TIME] else { panic!() };
                Value::Integer(time - time % step_ms)
            })),
        };
        assert_eq!(plan.found(search), Some(expected), "{search:?}");
    }
    assert!(lines_found > 1_000, "{lines_found}");
}

/// Whether a line matches, by its tokens.
fn has(row: &Row, search: &Search) -> bool {
    let Value::Integer(time) = row.values[line::TIME] else { panic!() };
    let message = row.values[line::MESSAGE].to_string();
    let words: Vec<&str> = message.split(' ').collect();
    let text = match search.text.as_ref().map(|(_, text)| text) {
        None => true,
        Some(Match::Word(word)) => words.contains(&word.as_str()),
        Some(Match::Phrase(phrase)) => {
            let phrase: Vec<&str> = phrase.split(' ').collect();
            words.windows(2).any(|pair| pair == phrase)
        }
        Some(Match::Regex(regex)) => regex::Regex::new(regex).unwrap().is_match(&message),
    };
    text && search.time.is_none_or(|(from, to)| from <= time && time < to)
        && search.equals.iter().all(|(at, value)| row.values[*at] == *value)
}

fn groups(values: impl Iterator<Item = Value>) -> Answer {
    let mut all = std::collections::BTreeMap::new();
    values.for_each(|value| *all.entry(value).or_default() += 1);
    Answer::Groups(all.into_iter().collect())
}

#[test]
fn a_wrong_answer_is_found() {
    let plan = asking(&ALL, None, &opening(3, 40));
    for request in asked(&plan) {
        let right = right_answer(&plan, &request);
        assert_eq!(check(&plan, &request, &right), Verdict::Right);
        let wrong = match right {
            Answer::Count(count) => Answer::Count(count + 1),
            Answer::Rows(mut rows) => {
                match rows.pop() {
                    Some(_) => {}
                    None => rows.push(line::line(1)),
                }
                Answer::Rows(rows)
            }
            Answer::Groups(mut groups) => {
                match groups.first_mut() {
                    Some(first) => first.1 += 1,
                    None => groups.push((Value::Integer(0), 1)),
                }
                Answer::Groups(groups)
            }
            other => panic!("{other:?}"),
        };
        assert!(matches!(check(&plan, &request, &wrong), Verdict::Wrong(_)), "{request:?}");
    }
}

#[test]
fn generators_share_the_queries() {
    let mut all = Vec::new();
    for index in 0..3 {
        let share = Share { index, of: 3 };
        all.extend(asked(&asking(&ALL, None, &Opening { share, ..opening(5, 20) })));
    }
    let plan = asking(&ALL, None, &opening(5, 20));
    assert_eq!(all.len(), 20);
    for request in asked(&plan) {
        assert!(all.contains(&request));
    }
}

#[test]
fn lines_arrive_at_their_rate_and_queries_are_about_those_before() {
    let arriving = Arriving { per_s: 100.0, threads: 1, queries_per_s: Some(4.0) };
    let opening = Opening { batch_rows: 10, ..opening(1, 12) };
    let plan = asking(&[QueryKind::Word, QueryKind::Latest], Some(arriving), &opening);
    let mut writer = plan.steps(0);
    let mut last = RECORDS;
    for batch in 1..=3 {
        assert_eq!(writer.due(), Some(Duration::from_millis(100 * batch)));
        let Operation::InsertMany(rows) = writer.next().unwrap().request.operation else {
            panic!()
        };
        assert_eq!(rows.len(), 10);
        assert_eq!(rows[0].key, Value::Integer(last as i64 + 1));
        last += 10;
    }
    let mut asker = plan.steps(1);
    let end = line::time_ms(RECORDS + 1);
    let mut asked = Vec::new();
    while let Some(due) = asker.due() {
        assert_eq!(due, Duration::from_millis(250 * asked.len() as u64));
        let step = asker.next().unwrap();
        assert_eq!(step.request.label, queries::ANY);
        let Operation::Search(search) = step.request.operation else { panic!() };
        assert!(search.time.is_some_and(|(_, to)| to <= end));
        asked.push(search);
    }
    assert_eq!(asked, plan.answers.asked());
    assert!(asker.next().is_none());
}

#[test]
fn what_cannot_be_asked_is_refused() {
    let queries = |records, kinds: &[QueryKind], arriving| Queries {
        records,
        kinds: kinds.to_vec(),
        arriving,
    };
    let slow = Some(Arriving { per_s: 0.0, threads: 1, queries_per_s: None });
    let nobody = Some(Arriving { per_s: 1.0, threads: 0, queries_per_s: None });
    let never = Some(Arriving { per_s: 1.0, threads: 1, queries_per_s: Some(0.0) });
    for (wrong, name) in [
        (queries(1, &ALL, never), "queries_per_s"),
        (queries(0, &ALL, None), "records"),
        (queries(RECORDS_MAX + 1, &ALL, None), "records"),
        (queries(1, &[], None), "kinds"),
        (queries(1, &ALL, slow), "per_s"),
        (queries(1, &ALL, nobody), "threads"),
    ] {
        let error = Asking::new(&wrong, &opening(1, 1)).err().unwrap().to_string();
        assert!(error.starts_with(name), "{error}");
    }
    // A table of one line has queries too.
    assert_eq!(asked(&asking(&ALL, None, &opening(1, 8))).len(), 8);
}
