//! Servers that speak a store's protocol and lie, each measured by the whole program through the
//! store's real driver. Every lie makes the run fail, its trial has no number, and the report says
//! what was wrong. An honest server of the same kind passes the same experiments.

pub mod redis;
mod victorialogs;

use std::process::{Command, Stdio};

use lab::results::{Directory, Line, Outcome};
use redis::{Lie, Redis};

/// What a run of the program left.
struct Ran {
    succeeded: bool,
    said: String,
    /// The messages of wrong trials.
    wrong: Vec<String>,
    completed: usize,
    /// The report as Markdown.
    report: String,
    /// The same in HTML, with everything that is shown on request.
    page: String,
}

/// Runs experiments of a study at the scale of tests on a server that runs already.
fn run(study: &str, experiments: &str, store: &str, endpoint: &str) -> Ran {
    run_with(study, experiments, store, endpoint, &[])
}

/// The same with more arguments.
fn run_with(study: &str, experiments: &str, store: &str, endpoint: &str, more: &[&str]) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("results");
    let mut command = Command::new(env!("CARGO_BIN_EXE_loginson-lab"));
    let (options, store) = (store, store.split('+').next().unwrap());
    command.args(["run", study, "--scale", "smoke", "--experiments", experiments]);
    command.args(["--stores", options, "--endpoint", &format!("{store}={endpoint}")]);
    command.args(["--out", out.to_str().unwrap()]).args(more).stdin(Stdio::null());
    let ran = command.output().unwrap();
    let said = String::from_utf8_lossy(&ran.stderr).into_owned();
    let directory = Directory::open(&out).unwrap_or_else(|error| panic!("{error}: {said}")).0;
    let (mut wrong, mut completed) = (Vec::new(), 0);
    for name in directory.trials().unwrap() {
        match directory.read(&name).unwrap().pop() {
            Some(Line::End(end)) => match end.outcome {
                Outcome::Wrong { message } => wrong.push(message),
                Outcome::Completed => completed += usize::from(name.contains(store)),
                other => panic!("{name}: {other:?}: {said}"),
            },
            other => panic!("{name}: {other:?}"),
        }
    }
    let text = |name: &str| std::fs::read_to_string(out.join(name)).unwrap_or_default();
    let (report, page) = (text("report.md"), text("report.html"));
    Ran { succeeded: ran.status.success(), said, wrong, completed, report, page }
}

#[test]
fn an_honest_server_passes() {
    let server = Redis::start(Lie::None);
    for (study, experiments) in [("ycsb", "load,a,d,e,f"), ("apm", "rw,rsw")] {
        let ran = run(study, experiments, "redis", &server.endpoint());
        assert!(ran.succeeded && ran.wrong.is_empty(), "{study}: {:?} {}", ran.wrong, ran.said);
        assert!(ran.completed > 1, "{study}: {}", ran.said);
    }
}

#[test]
fn every_lie_is_found_and_named() {
    for (lie, study, experiment, named) in [
        (Lie::DropsUpdates, "ycsb", "a", "which an acknowledged update replaced"),
        (Lie::DropsUpdates, "ycsb", "f", "which an acknowledged update replaced"),
        (Lie::AnswersStale, "ycsb", "a", "which an acknowledged update replaced"),
        (Lie::ForgetsUpdatesLater, "ycsb", "a", "read again after the trial"),
        (
            Lie::LosesALoadedRow,
            "ycsb",
            "d",
            "rows that were there before the trial and were read again after it are missing",
        ),
        (
            Lie::RestoresEmptiedRows,
            "ycsb",
            "a,d",
            "was not loaded as it was acknowledged: read right after the trial",
        ),
        (Lie::OneRowPerScan, "ycsb", "e", "which follows, is missing"),
        (Lie::OneRowPerScan, "apm", "rs", "which follows, is missing"),
        (Lie::SkipsRowsInScans, "ycsb", "e", "is missing before row"),
        (Lie::ScansOutOfOrder, "ycsb", "e", "are not in the order of keys"),
        (Lie::DoublesRowsInScans, "ycsb", "e", "came twice"),
        (
            Lie::TruncatesValues,
            "ycsb",
            "a",
            "was not loaded as it was acknowledged: read right after the trial",
        ),
        (Lie::DropsEverySecondRow, "ycsb", "a", "was not loaded as it was acknowledged"),
        (Lie::DropsEverySecondRow, "ycsb", "load", "is not there right after the trial"),
        (Lie::DropsEverySecondInsert, "ycsb", "d", "although its insert was acknowledged"),
        (Lie::LosesAnInsertedRowInScans, "ycsb", "e", "scanned again after the trial: the row "),
        (Lie::ChangesRowsLater, "ycsb", "c", "read again after the trial"),
        (Lie::RemembersAnswers, "ycsb", "c", "asked in the same words after a row was inserted"),
        (Lie::AppliesRowsLater, "ycsb", "load", "is not there right after the trial"),
        (Lie::KeepsRowsOfEmptiedTables, "ycsb", "load,load-large", "and still has rows"),
    ] {
        let server = Redis::start(lie);
        let ran = run(study, experiment, "redis", &server.endpoint());
        let case = format!("{lie:?} in {study} {experiment}");
        assert!(!ran.succeeded, "{case}: {}", ran.said);
        assert!(ran.wrong.iter().any(|message| message.contains(named)), "{case}: {:?}", ran.wrong);
        assert!(ran.report.contains("gave wrong answers"), "{case}: {}", ran.report);
        assert!(ran.report.contains(named), "{case}: {}", ran.report);
    }
}

/// Trials that read find what the trials before them wrote. Between the two repetitions of `a`, the
/// limit of the generator writes to the same rows, so that only the second one is remembered.
#[test]
fn updates_that_are_lost_between_trials_are_found_and_named() {
    for lie in [Lie::None, Lie::ForgetsUpdatesAfterwards] {
        let server = Redis::start(lie);
        let ran = run_with("ycsb", "a,c", "redis", &server.endpoint(), &["--repetitions", "2"]);
        assert_eq!(ran.succeeded, lie == Lie::None, "{lie:?}: {:?} {}", ran.wrong, ran.said);
        let named = "which it had after an earlier trial, and no update replaced that";
        let is_named = ran.wrong.iter().any(|message| message.contains(named));
        assert_eq!(is_named, lie != Lie::None, "{:?}", ran.wrong);
        assert_eq!(ran.report.contains(named), lie != Lie::None, "{lie:?}: {}", ran.report);
    }
}

/// Where nobody reads among the updates, the lab itself has to look.
#[test]
fn updates_that_are_applied_later_are_found_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("updates");
    let properties = "recordcount=500\noperationcount=500\nthreadcount=4\n\
         readproportion=0\nupdateproportion=1\n";
    std::fs::write(&path, properties).unwrap();
    for lie in [Lie::None, Lie::AppliesUpdatesLater] {
        let server = Redis::start(lie);
        let ran = run(path.to_str().unwrap(), "updates", "redis", &server.endpoint());
        assert_eq!(ran.succeeded, lie == Lie::None, "{lie:?}: {:?} {}", ran.wrong, ran.said);
        let named = "which an acknowledged update replaced";
        let is_named = |message: &String| {
            message.contains("read right after the trial") && message.contains(named)
        };
        assert_eq!(ran.wrong.iter().any(is_named), lie != Lie::None, "{lie:?}: {:?}", ran.wrong);
        assert_eq!(ran.report.contains(named), lie != Lie::None, "{lie:?}: {}", ran.report);
    }
}

/// A store that works once it is asked has all rows, and another rate than was measured.
#[test]
fn work_that_is_done_after_the_trial_is_named() {
    for lie in [Lie::None, Lie::CatchesUpWhenAsked] {
        let server = Redis::start(lie);
        let ran = run("ycsb", "load", "redis", &server.endpoint());
        assert!(ran.succeeded, "{lie:?}: {:?} {}", ran.wrong, ran.said);
        let named = "it may have done then what it had acknowledged before";
        assert_eq!(ran.page.contains(named), lie != Lie::None, "{lie:?}: {}", ran.report);
    }
}

/// A scan finds the updates that a read finds, and a read those of other connections.
#[test]
fn scans_and_reads_of_rows_before_their_updates_are_found_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mixed");
    let properties = "recordcount=500\noperationcount=2000\nthreadcount=4\n\
         readproportion=0.3\nupdateproportion=0.4\nscanproportion=0.3\nmaxscanlength=50\n\
         requestdistribution=zipfian\n";
    std::fs::write(&path, properties).unwrap();
    for (lie, operation) in [
        (Lie::None, None),
        (Lie::ScansRowsAsInserted, Some("scan")),
        (Lie::CachesByConnection, None),
    ] {
        let server = Redis::start(lie);
        let ran = run(path.to_str().unwrap(), "mixed", "redis", &server.endpoint());
        assert_eq!(ran.succeeded, lie == Lie::None, "{lie:?}: {:?} {}", ran.wrong, ran.said);
        let named = "which an acknowledged update replaced";
        let is_named = |message: &String| {
            message.contains(named) && operation.is_none_or(|name| message.starts_with(name))
        };
        assert_eq!(ran.wrong.iter().any(is_named), lie != Lie::None, "{lie:?}: {:?}", ran.wrong);
        assert_eq!(ran.report.contains(named), lie != Lie::None, "{lie:?}: {}", ran.report);
    }
}

/// Trials that warm a store up have no numbers, and their wrong answers count.
#[test]
fn a_wrong_answer_in_a_warm_up_is_found_and_named() {
    let shown = Command::new(env!("CARGO_BIN_EXE_loginson-lab"))
        .args(["show", "ycsb", "--definition"])
        .output()
        .unwrap();
    let definition = String::from_utf8(shown.stdout).unwrap();
    let warmed_up = |line: &str| match line.starts_with("warm_up_trials_max = ") {
        true => "warm_up_trials_max = 1\n".to_owned(),
        false => format!("{line}\n"),
    };
    let definition: String = definition.lines().map(warmed_up).collect();
    assert!(definition.contains("warm_up_trials_max = 1\n"), "{definition}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("warm.toml");
    std::fs::write(&path, definition).unwrap();
    let server = Redis::start(Lie::AnswersWronglyOnce);
    let ran = run(path.to_str().unwrap(), "c", "redis", &server.endpoint());
    assert!(!ran.succeeded, "{}", ran.said);
    let named = "while it was warmed up: ";
    assert!(ran.wrong.iter().any(|message| message.contains(named)), "{:?}", ran.wrong);
}

/// The same over HTTP, with a store that counts its rows.
#[test]
fn lies_of_a_log_store_are_found_and_named() {
    use victorialogs::Lie;

    for (lie, named) in [
        (Lie::None, None),
        (Lie::CountsTwice, Some("asked in the same words at first")),
        (Lie::DropsLines, Some("rows after the trial, expected")),
        (Lie::DropsLinesOfAFullTable, Some("rows after the trial, expected at least")),
        (Lie::RemembersAnswers, Some("asked in the same words after a row was inserted")),
    ] {
        let ran = run("study1", "writes", "victorialogs", &victorialogs::start(lie));
        assert_eq!(ran.succeeded, named.is_none(), "{lie:?}: {}", ran.said);
        let Some(named) = named else { continue };
        assert!(
            ran.wrong.iter().any(|message| message.contains(named)),
            "{lie:?}: {:?}",
            ran.wrong
        );
        assert!(ran.report.contains(named), "{lie:?}: {}", ran.report);
    }
}

/// The delay until a count has all lines would be that of a counter.
#[test]
fn lines_that_are_counted_before_they_are_found_are_named() {
    use victorialogs::Lie;

    for lie in [Lie::None, Lie::CountsBeforeItFinds] {
        let ran = run("study1", "real-time", "victorialogs", &victorialogs::start(lie));
        assert_eq!(ran.succeeded, lie == Lie::None, "{lie:?}: {:?} {}", ran.wrong, ran.said);
        let named = "it said that all acknowledged rows are there, and the row ";
        let is_named = ran.wrong.iter().any(|message| message.contains(named));
        assert_eq!(is_named, lie != Lie::None, "{:?}", ran.wrong);
        assert_eq!(ran.report.contains(named), lie != Lie::None, "{lie:?}: {}", ran.report);
    }
}

/// The trials that were wrong are not made again, and the run is not well for that.
#[test]
fn a_resumed_run_still_says_what_was_wrong_before() {
    let server = Redis::start(Lie::OneRowPerScan);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("results");
    let lab = || {
        let mut lab = Command::new(env!("CARGO_BIN_EXE_loginson-lab"));
        lab.stdin(Stdio::null());
        lab
    };
    let endpoint = format!("redis={}", server.endpoint());
    let mut run = lab();
    run.args(["run", "ycsb", "--scale", "smoke", "--experiments", "e", "--stores", "redis"]);
    let ran = run.args(["--endpoint", &endpoint, "--out"]).arg(&out).output().unwrap();
    let resumed = lab().arg("resume").arg(&out).output().unwrap();
    for ended in [ran, resumed] {
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(2), "{said}");
        assert!(said.contains("wrong answer: "), "{said}");
    }
}

/// A line that is lost between the load and the trial is seldom asked for by the trial.
#[test]
fn a_loaded_line_that_is_lost_before_the_trial_is_found_and_named() {
    use victorialogs::Lie;

    for (lie, named) in [
        (Lie::None, None),
        (Lie::LosesALoadedLine, Some("it counts 499 rows before the trial, and 500 were loaded")),
    ] {
        let ran = run("apm", "w", "victorialogs", &victorialogs::start(lie));
        assert_eq!(ran.succeeded, named.is_none(), "{lie:?}: {:?} {}", ran.wrong, ran.said);
        let Some(named) = named else { continue };
        assert!(ran.wrong.iter().any(|message| message.contains(named)), "{:?}", ran.wrong);
        assert!(ran.report.contains(named), "{}", ran.report);
    }
}

/// The server alone says that lines of syslog arrived: nothing contradicts it, and the report
/// doubts it.
#[test]
fn lines_of_syslog_that_nobody_reads_again_are_doubted() {
    let (endpoint, syslog) = victorialogs::start_dropping_syslog();
    let store = format!("victorialogs+syslog={syslog}");
    let ran = run("collectors", "lines-64", &store, &endpoint);
    assert!(ran.succeeded, "{:?} {}", ran.wrong, ran.said);
    assert!(ran.report.contains("| not read again "), "{}", ran.report);
    let doubt = "whether the store kept what it acknowledged is not known";
    assert!(ran.report.contains(doubt), "{}", ran.report);
}
