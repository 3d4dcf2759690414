//! What a board says of several series, and what it leaves out.

use super::*;

const START_NS: i64 = 1_700_438_400_000_000_000 / MINUTE_NS * MINUTE_NS;

fn counts(field: &str, values: &[(&str, f64)]) -> FieldCounts {
    let values = values.iter().map(|(value, n)| ((*value).to_owned(), *n)).collect();
    FieldCounts { field: field.to_owned(), values }
}

/// The board after these minutes of `lines`, and its news.
fn watch(
    board: &mut Board,
    minutes: std::ops::Range<i64>,
    lines: impl Fn(i64) -> Vec<FieldCounts>,
) -> Vec<(i64, News)> {
    let at = |minute: i64| {
        let news = board.observe(START_NS + minute * MINUTE_NS, &lines(minute), 500);
        news.into_iter().map(move |news| (minute, news)).collect::<Vec<_>>()
    };
    minutes.flat_map(at).collect()
}

fn even(minute: i64) -> f64 {
    40.0 + (minute * 7 % 5) as f64
}

#[test]
fn a_new_value_is_said_once_and_a_known_one_never() {
    let mut board = Board::new();
    let lines = |minute: i64| {
        let mut values = vec![("a", even(minute))];
        if minute >= 300 {
            values.push(("b", 20.0));
        }
        if minute % 97 == 3 {
            values.push(("c", 30.0));
        }
        if minute == 350 {
            values.push(("few", 2.0));
        }
        vec![counts("service", &values)]
    };
    let news = watch(&mut board, 0..600, lines);
    let told: Vec<(i64, What, &str)> =
        news.iter().map(|(minute, news)| (*minute, news.what, &*news.finding.value)).collect();
    assert_eq!(told, [(300, What::Begins, "b"), (360, What::Ends, "b")], "{news:?}");
    let finding = &board.findings()[0];
    assert_eq!((finding.standing.kind, finding.standing.expected), (Kind::New, 0.0));
    assert_eq!(finding.until_ns, Some(START_NS + 360 * MINUTE_NS));
}

#[test]
fn values_that_are_always_new_are_counted_only() {
    let mut board = Board::new();
    let news = watch(&mut board, 0..600, |minute| {
        let pod = format!("pod-{}", minute / 10);
        vec![counts("pod", &[(&pod, 50.0)])]
    });
    let new = news.iter().filter(|(_, news)| news.what == What::Begins);
    assert_eq!(new.filter(|(_, n)| n.finding.standing.kind == Kind::New).count(), NEW_PER_DAY_MAX);
    assert!(board.unsaid().0 > 20, "{:?}", board.unsaid());
}

#[test]
fn one_incident_is_one_finding_with_parts() {
    let mut board = Board::new();
    let lines = |minute: i64| {
        let a = if (400..430).contains(&minute) { 0.0 } else { even(minute) };
        let rest = 4.0 * even(minute + 1);
        let mut hosts = vec![("h2", rest)];
        let mut services = vec![("mail", rest)];
        if a > 0.0 {
            hosts.push(("h1", a));
            services.push(("shop", a));
        }
        vec![counts("", &[("", a + rest)]), counts("host", &hosts), counts("service", &services)]
    };
    let news = watch(&mut board, 0..500, lines);
    let findings = board.findings();
    assert_eq!(findings.len(), 2, "{findings:?}");
    let roots: Vec<&Finding> = findings.iter().filter(|f| f.part_of.is_none()).collect();
    assert_eq!(roots.len(), 1);
    assert!(findings.iter().all(|f| f.standing.kind == Kind::Silent && f.change() == 1.0));
    assert!(findings.iter().all(|f| f.until_ns == Some(START_NS + 430 * MINUTE_NS)));
    let begins: Vec<i64> =
        news.iter().filter(|(_, n)| n.what == What::Begins).map(|(minute, _)| *minute).collect();
    assert_eq!(begins, [402, 402]);
}

#[test]
fn few_lines_are_watched_in_ten_minutes() {
    let mut board = Board::new();
    // Two lines a minute; the last interval is never judged before it is complete.
    let lines = |minute: i64| {
        let n = if minute >= 1_205 { 0.0 } else { 2.0 };
        vec![counts("service", &if n > 0.0 { vec![("a", n)] } else { Vec::new() })]
    };
    let news = watch(&mut board, 0..1_300, lines);
    let [(minute, first)] = &news[..] else { panic!("{news:?}") };
    assert_eq!((first.finding.interval_ns, minute % 10), (10 * MINUTE_NS, 9), "{minute}");
    assert_eq!(first.finding.standing.kind, Kind::Silent);
    assert_eq!(first.finding.standing.since_ns, START_NS + 1_210 * MINUTE_NS);
}

#[test]
fn a_fall_of_few_lines_is_told_by_longer_intervals() {
    let mut found = 0;
    for seed in 0..10 {
        let mut random = fastrand::Rng::with_seed(seed);
        // Ten lines a minute by chance; for an hour, two.
        let mut lines = |minute: i64| {
            let share = if (1_500..1_560).contains(&minute) { 0.05 } else { 0.25 };
            let n = (0..40).filter(|_| random.f64() < share).count();
            vec![counts("service", &[("a", n as f64)])]
        };
        let mut board = Board::new();
        let at = |minute: i64| START_NS + minute * MINUTE_NS;
        let mut news = Vec::new();
        for minute in 0..1_700 {
            news.extend(board.observe(at(minute), &lines(minute), 500));
        }
        let begins: Vec<&News> = news.iter().filter(|news| news.what == What::Begins).collect();
        for news in &begins {
            let said = &news.finding.standing;
            assert!((at(1_490)..at(1_560)).contains(&said.since_ns), "seed {seed}: {news:?}");
            assert!(said.seen < said.expected / 2.0, "seed {seed}: {news:?}");
        }
        assert!(begins.len() <= 1, "seed {seed}: {begins:?}");
        found += begins.len();
        assert!(board.findings().iter().all(|f| f.until_ns.is_some()), "seed {seed}");
    }
    assert!(found >= 9, "{found} of 10");
}

#[test]
fn series_have_a_limit_and_the_rest_is_counted() {
    let names: Vec<String> = (0..VALUES_MAX + 20).map(|n| format!("v{n}")).collect();
    let all: Vec<(&str, f64)> = names.iter().map(|name| (name.as_str(), 9.0)).collect();
    let mut board = Board::new();
    board.observe(START_NS, &[counts("a", &all), counts("b", &all[..60])], 130);
    let of = |board: &Board, name: &str| {
        board.fields().into_iter().find(|view| view.field == name).unwrap()
    };
    assert_eq!((of(&board, "a").series, of(&board, "a").left_out), (VALUES_MAX, 20));
    assert_eq!((of(&board, "b").series, of(&board, "b").left_out), (30, 30));
    assert_eq!((board.series(), board.left_out()), (130, 50));
    // What had no lines for a day makes room.
    let later = START_NS + DAY_NS + 2 * MINUTE_NS;
    board.observe(later - 2 * MINUTE_NS, &[counts("b", &all[..1])], 130);
    board.observe(later, &[counts("b", &all[..60])], 130);
    assert!(of(&board, "b").left_out <= 30);
    let long = "x".repeat(VALUE_BYTES_MAX + 1);
    board.observe(later + MINUTE_NS, &[counts("c", &[(&long, 1.0)])], 500);
    assert_eq!((of(&board, "c").series, of(&board, "c").left_out), (0, 1));
}

#[test]
fn a_board_resumes_from_its_document() {
    let lines = |minute: i64| {
        let a = if (700..760).contains(&minute) { 0.0 } else { even(minute) };
        vec![counts(
            "service",
            &if a > 0.0 { vec![("a", a), ("b", 7.0)] } else { vec![("b", 7.0)] },
        )]
    };
    let mut board = Board::new();
    let before = watch(&mut board, 0..720, lines);
    let text = serde_json::to_string(&board).unwrap();
    let mut again: Board = serde_json::from_str(&text).unwrap();
    assert_eq!(again.findings(), board.findings());
    let after = watch(&mut again, 720..800, lines);
    assert_eq!(after, watch(&mut board, 720..800, lines));
    let kinds = |news: &[(i64, News)]| news.iter().map(|(_, n)| n.what).collect::<Vec<_>>();
    assert_eq!((kinds(&before), kinds(&after)), (vec![What::Begins], vec![What::Ends]));
    assert!(text.len() < 2 * 20_000, "{}", text.len());
}

#[test]
fn what_the_server_did_not_see_is_no_silence() {
    let mut board = Board::new();
    let lines = |minute: i64| vec![counts("service", &[("a", even(minute)), ("few", 1.0)])];
    assert_eq!(watch(&mut board, 0..1_003, lines), []);
    assert_eq!(watch(&mut board, 1_017..2_000, lines), []);
    assert_eq!(watch(&mut board, 2_450..2_600, lines), []);
}
