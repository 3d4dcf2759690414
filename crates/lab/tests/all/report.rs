//! Reports of simulated results: the Markdown is compared with reviewed files.

mod lies;
mod published;
mod recompute;
mod simulated;
mod sizes;

use std::path::Path;

use self::simulated::{Outcomes, Simulated, study1, work, ycsb};
use lab::compare::{CompareError, of_directories, with_paper};
use lab::report::{self, markdown};
use lab::results::Outcome;
use lab::trial::Role;
use lab::workload::Workload;

/// Compares with the file of this name; on a difference, writes the actual text into the directory
/// of the tests.
#[track_caller]
fn golden(name: &str, came: &str) {
    let path = Path::new("tests/golden").join(name);
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    if came != expected {
        let other = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::write(&other, came).unwrap();
        let first = came.lines().zip(expected.lines()).find(|(a, b)| a != b);
        panic!(
            "not as in {}; see {}; first difference: {first:?}",
            path.display(),
            other.display()
        );
    }
}

#[test]
fn a_report_of_study_1_is_as_read() {
    let folder = tempfile::tempdir().unwrap();
    study1(folder.path(), "small", 6, 7).unwrap();
    let files = report::write(folder.path(), folder.path()).unwrap();
    golden("study1-page.md", &std::fs::read_to_string(&files[1]).unwrap());
    let full = report::write_full(folder.path(), folder.path()).unwrap();
    golden("study1.md", &std::fs::read_to_string(full).unwrap());
    let page = std::fs::read_to_string(&files[0]).unwrap();
    // One of everything, and one for each experiment.
    assert_eq!(page.matches("<figure").count(), 6);
    assert_eq!(
        page.matches("http://").count(),
        page.matches("http://www.w3.org/2000/svg").count(),
        "the page needs no network"
    );
    assert!(!page.contains("https://") && !page.contains("<b>slowly"));
}

/// The pages that the documents show are made from the trials beside them. With `LAB_REWRITE` in
/// the environment they are written again, as `make lab-documents` does after a new run.
#[test]
fn published_reports_follow_from_their_trials() {
    let mut made = 0;
    for entry in std::fs::read_dir("../../docs/lab").unwrap() {
        let published = entry.unwrap().path();
        if !published.join("trials.jsonl.zst").exists() {
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        for name in ["run.json", "trials.jsonl.zst"] {
            std::fs::copy(published.join(name), folder.path().join(name)).unwrap();
        }
        report::write(folder.path(), folder.path()).unwrap();
        let came = |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap();
        for name in ["report.md", "verdicts.svg"] {
            let shown = published.join(name);
            if published::is_rewritten() {
                std::fs::write(&shown, came(name)).unwrap();
            }
            let same = came(name) == std::fs::read_to_string(&shown).unwrap_or_default();
            assert!(same, "{}: write it again: make lab-documents", shown.display());
        }
        is_short_and_in_order(&came("report.md"), &came("report.html"), &published);
        fits_a_phone(&came("verdicts.svg"), &published);
        made += 1;
    }
    assert!(made >= 6, "{made}");
}

/// A page has the verdicts with their figure, then the methods, then the data, in at most 5,000
/// words, and the HTML shows no more of them until a reader opens details.
fn is_short_and_in_order(page: &str, html: &str, published: &Path) {
    let words = page.split_whitespace().count();
    assert!(words <= report::WORDS_MAX, "{}: {words} words", published.display());
    let place = |what: &str| {
        page.find(what).unwrap_or_else(|| panic!("{}: no {what}", published.display()))
    };
    let order = ["\n## Verdicts\n", "](verdicts.svg)", "\n## Methods\n", "\n## Data\n"].map(place);
    assert!(order.is_sorted(), "{}: {order:?}", published.display());
    assert!(html.ends_with("</html>\n"));
    let body = html.split_once("<main>").unwrap().1;
    let (mut depth, mut shown) = (0, 0);
    for part in body.split('<') {
        depth += i32::from(part.starts_with("details")) - i32::from(part.starts_with("/details"));
        let text = part.split_once('>').map_or("", |(_, text)| text);
        shown += if depth == 0 { text.split_whitespace().count() } else { 0 };
    }
    assert!(depth == 0 && shown <= report::WORDS_MAX, "{}: {shown} words", published.display());
}

/// Drawn as wide as a phone's screen of 390 px, letters of the figure are not smaller than 11 px.
fn fits_a_phone(figure: &str, published: &Path) {
    let number = |before: &str| {
        let text = figure.split_once(before).unwrap().1;
        text.split(['"', ' ']).next().unwrap().parse::<f64>().unwrap()
    };
    let letters = number("font-size=\"") * (390.0 / number("viewBox=\"0 0 ")).min(1.0);
    assert!(letters >= 11.0, "{}: {letters} px", published.display());
}

#[test]
fn a_report_of_targets_is_as_read() {
    let folder = tempfile::tempdir().unwrap();
    ycsb(folder.path(), 3, 7).unwrap();
    let summary = report::read(folder.path()).unwrap();
    let published = lab::reference::load("ycsb");
    golden("ycsb.md", &markdown::write(&report::document(&summary, published.as_ref())));
}

#[test]
fn two_results_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let (old, new) = (folder.path().join("old"), folder.path().join("new"));
    for (path, rate) in [(&old, 5_000.0), (&new, 5_600.0)] {
        let mut run = Simulated::new(path, "study1", "small", &["postgres", "redis"], 3);
        for repetition in 1..=6 {
            let writes = || work(Workload::LogWrites { records: 1000 }, 4, 0.0, None);
            let mut outcomes = Outcomes::of(rate, "insert", 2.0);
            run.trial(("writes", Role::Measure, writes()), ("postgres", 1, repetition), &outcomes)
                .unwrap();
            outcomes.rate = 50_000.0;
            if rate > 5_500.0 {
                outcomes.outcome = Outcome::Failed { message: "it died".into() };
            }
            run.trial(("writes", Role::Measure, writes()), ("redis", 1, repetition), &outcomes)
                .unwrap();
        }
    }
    golden("compare.md", &markdown::write(&of_directories(&old, &new).unwrap()));
    golden("paper.md", &markdown::write(&with_paper(&old).unwrap()));
}

#[test]
fn scales_and_studies_are_never_mixed() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    study1(&path("small"), "small", 1, 1).unwrap();
    study1(&path("smoke"), "smoke", 1, 1).unwrap();
    ycsb(&path("ycsb"), 1, 1).unwrap();
    let error = of_directories(&path("small"), &path("smoke")).unwrap_err();
    assert!(matches!(error, CompareError::Scale { .. }), "{error}");
    assert!(error.to_string().contains("scales are never mixed"), "{error}");
    let error = of_directories(&path("small"), &path("ycsb")).unwrap_err();
    assert!(matches!(error, CompareError::Study { .. }), "{error}");
}

#[test]
fn what_cannot_be_reported_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let error = report::read(folder.path()).unwrap_err();
    assert!(error.to_string().contains("run.json"), "{error}");
    Simulated::new(folder.path(), "study1", "smoke", &["postgres"], 1);
    let error = report::read(folder.path()).unwrap_err();
    assert!(error.to_string().contains("resume the run first"), "{error}");
    std::fs::write(
        folder.path().join("trials/0001-x.jsonl"),
        "{\"line\":\"note\",\"text\":\"x\"}\n",
    )
    .unwrap();
    let error = report::read(folder.path()).unwrap_err();
    assert!(error.to_string().contains("trial 0001-x: it has no header"), "{error}");
}

/// One repetition of each: there are no intervals and tests, and the report says so.
#[test]
fn single_repetitions_are_not_tested() {
    let folder = tempfile::tempdir().unwrap();
    study1(folder.path(), "smoke", 1, 1).unwrap();
    let summary = report::read(folder.path()).unwrap();
    let text = markdown::write(&report::document(&summary, None));
    for said in ["(one repetition)", "nothing can be tested between", "1 repetition.", "not tested"]
    {
        assert!(text.contains(said), "{said}");
    }
    assert!(!text.contains("NaN"));
}

/// The cells of a column of a table, by the first cells of their rows.
fn column(text: &str, caption: &str, name: &str) -> Vec<(String, String)> {
    let table = text.split_once(caption).unwrap_or_else(|| panic!("no table {caption}")).1;
    let rows = table.lines().skip_while(|line| !line.starts_with('|'));
    let cells = |row: &str| -> Vec<String> {
        row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let mut rows = rows.take_while(|line| line.starts_with('|')).map(cells);
    let place = rows.next().unwrap().iter().position(|head| head == name);
    let shown = |row: Vec<String>| {
        (row[0].clone(), place.map(|place| row[place].clone()).unwrap_or_default())
    };
    rows.skip(1).map(shown).collect()
}

/// A store is named by its driver where that is enough; the table of stores has the rest.
#[test]
fn stores_have_the_shortest_names_that_differ() {
    let folder = tempfile::tempdir().unwrap();
    let stores = ["postgres@v18 trigrams=on", "redis", "redis appendfsync=always"];
    let mut run = Simulated::new(folder.path(), "study1", "small", &stores, 3);
    for repetition in 1..=3 {
        for store in stores {
            let load = work(Workload::LogWrites { records: 1000 }, 4, 0.0, None);
            let outcomes = Outcomes::of(500.0, "insert", 2.0);
            run.trial(("writes", Role::Measure, load), (store, 1, repetition), &outcomes).unwrap();
        }
    }
    let files = report::write(folder.path(), folder.path()).unwrap();
    let text = std::fs::read_to_string(&files[1]).unwrap();
    let named = |column_name| column(&text, "Stores:", column_name);
    let expected =
        [("postgres", "postgres@v18 trigrams=on"), ("redis", ""), ("redis appendfsync=always", "")];
    let expected = expected.map(|(name, full)| (name.to_owned(), full.to_owned()));
    assert_eq!(named("measured as"), expected);
    assert_eq!(text.matches("postgres@v18").count(), 2, "version and measured as: {text}");
}

/// Two repetitions have no interval and no test, and 90 operations no 99.9%.
#[test]
fn few_repetitions_have_no_interval_and_few_operations_no_high_percentile() {
    for (repetitions, has_interval) in [(2, false), (3, true)] {
        let folder = tempfile::tempdir().unwrap();
        let mut run = Simulated::new(folder.path(), "study1", "small", &["postgres", "redis"], 3);
        for repetition in 1..=repetitions {
            for (store, rate) in [("postgres", 50.0), ("redis", 6_000.0)] {
                let load = work(Workload::LogWrites { records: 1000 }, 4, 0.0, None);
                let mut outcomes = Outcomes::of(rate, "insert", 2.0);
                outcomes.spread = 0.05;
                let at = (store, 1, repetition);
                run.trial(("writes", Role::Measure, load), at, &outcomes).unwrap();
            }
        }
        let summary = report::read(folder.path()).unwrap();
        let text = markdown::write(&report::document(&summary, None));
        let intervals = column(&text, "ranking by operations per second", "95% interval");
        assert!(intervals.iter().all(|(_, cell)| cell.is_empty() != has_interval), "{intervals:?}");
        assert_eq!(text.contains("not tested"), !has_interval, "{text}");
        let percentiles = |name| column(&text, "response times of all repetitions", name);
        for (name, of_many, of_few) in [
            ("50%", true, true),
            ("99%", true, false),
            ("99.9%", true, false),
            ("100%", true, true),
        ] {
            for (operation, cell) in percentiles(name) {
                let shown = if operation.starts_with("redis") { of_many } else { of_few };
                assert_eq!(!cell.is_empty(), shown, "{operation}, {name}: {cell}");
            }
        }
    }
}
