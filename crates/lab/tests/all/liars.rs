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
    report: String,
}

/// Runs experiments of a study at the scale of tests on a server that runs already.
fn run(study: &str, experiments: &str, store: &str, endpoint: &str) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("results");
    let mut command = Command::new(env!("CARGO_BIN_EXE_loginson-lab"));
    command.args(["run", study, "--scale", "smoke", "--experiments", experiments]);
    command.args(["--stores", store, "--endpoint", &format!("{store}={endpoint}")]);
    command.args(["--out", out.to_str().unwrap()]).stdin(Stdio::null());
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
    let report = std::fs::read_to_string(out.join("report.md")).unwrap_or_default();
    Ran { succeeded: ran.status.success(), said, wrong, completed, report }
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
        (Lie::OneRowPerScan, "ycsb", "e", "which follows, is missing"),
        (Lie::OneRowPerScan, "apm", "rs", "which follows, is missing"),
        (Lie::SkipsRowsInScans, "ycsb", "e", "is missing before row"),
        (Lie::ScansOutOfOrder, "ycsb", "e", "are not in the order of keys"),
        (Lie::DropsEverySecondRow, "ycsb", "a", "was not loaded as it was acknowledged"),
        (Lie::DropsEverySecondRow, "ycsb", "load", "is not there right after the trial"),
        (Lie::DropsEverySecondInsert, "ycsb", "d", "although its insert was acknowledged"),
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

/// Trials that warm a store up have no numbers, and their wrong answers count.
#[test]
fn a_wrong_answer_in_a_warm_up_is_found_and_named() {
    let shown = Command::new(env!("CARGO_BIN_EXE_loginson-lab"))
        .args(["show", "ycsb", "--definition"])
        .output()
        .unwrap();
    let definition = String::from_utf8(shown.stdout).unwrap();
    let without = "warm_up_trials_max = { paper = 5, small = 1, smoke = 0 }";
    assert!(definition.contains(without), "{definition}");
    let definition = definition.replace(without, "warm_up_trials_max = 1");
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
