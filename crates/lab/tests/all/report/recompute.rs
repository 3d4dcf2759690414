//! Every figure of a report, recomputed from the raw trials by a program that has nothing of the
//! lab's own code: `tests/recompute/recompute.py`, for which Python 3.11 is enough.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::simulated::{study1, ycsb};
use lab::report;

/// Recomputes reports of the run in `directory`; the output is an error if a figure differs.
fn recompute(directory: &Path, reports: &[&str]) -> Result<String, String> {
    let output = Command::new("python3")
        .args(["-B", "tests/recompute/recompute.py"])
        .arg(directory)
        .args(reports)
        .output()
        .expect("python3 of version 3.11 or later is installed");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.success() {
        true => Ok(text),
        false => Err(text + &String::from_utf8_lossy(&output.stderr)),
    }
}

/// The number of recomputed figures.
fn figures(text: &str) -> u32 {
    let line = text.lines().last().unwrap_or_default();
    line.split(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// A published run in a directory of its own: its trials, which are unpacked when it is read, its
/// page, and all of its report.
fn unpacked(published: &Path, into: &Path) -> PathBuf {
    let run = into.join(published.file_name().unwrap());
    std::fs::create_dir_all(&run).unwrap();
    for name in ["run.json", "trials.jsonl.zst"] {
        std::fs::copy(published.join(name), run.join(name)).unwrap();
    }
    report::write(&run, &run).unwrap();
    report::write_full(&run, &run).unwrap();
    std::fs::copy(published.join("report.md"), run.join("report.md")).unwrap();
    run
}

#[test]
fn every_figure_of_simulated_runs_is_recomputed() {
    for seed in 1..=2 {
        let folder = tempfile::tempdir().unwrap();
        let (logs, rates) = (folder.path().join("study1"), folder.path().join("ycsb"));
        study1(&logs, "small", 6, seed).unwrap();
        ycsb(&rates, 5, seed).unwrap();
        for (run, least) in [(&logs, 500), (&rates, 200)] {
            report::write(run, run).unwrap();
            report::write_full(run, run).unwrap();
            let text = recompute(run, &["report-full.md", "report.md"]);
            let text = text.unwrap_or_else(|text| panic!("seed {seed}: {text}"));
            assert!(figures(&text) >= least, "seed {seed}: {text}");
        }
    }
}

/// All runs below docs/lab, the page that is shown and the whole report: rankings, ratios, groups
/// and doubts follow from the trials.
#[test]
fn every_figure_of_published_reports_is_recomputed() {
    let folder = tempfile::tempdir().unwrap();
    let mut recomputed = Vec::new();
    for entry in std::fs::read_dir("../../docs/lab").unwrap() {
        let published = entry.unwrap().path();
        if !published.is_dir() {
            continue;
        }
        let run = unpacked(&published, folder.path());
        let text = recompute(&run, &["report-full.md", "report.md"]);
        let text = text.unwrap_or_else(|text| panic!("{}: {text}", published.display()));
        assert!(figures(&text) >= 200, "{}: {text}", published.display());
        recomputed.push(published);
    }
    assert!(recomputed.len() >= 6, "{recomputed:?}");
}

/// The check itself finds each kind of figure that was changed.
#[test]
fn a_planted_wrong_figure_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let run = unpacked(Path::new("../../docs/lab/collectors-small"), folder.path());
    let page = std::fs::read_to_string(run.join("report.md")).unwrap();
    let plants = [
        ("a mean", "| rsyslog      |       1,997,341 |", "| rsyslog      |       1,987,341 |"),
        ("an end of an interval", "1,674,016 to 2,383,115", "1,674,016 to 2,483,115"),
        ("a ratio", "0.0736×", "0.0936×"),
        ("a group", "2. rsyslog; 3. syslog-ng; 4. kafka", "2. rsyslog, syslog-ng; 3. kafka"),
        ("a difference that may be unseen", "2.87×", "1.87×"),
        (
            "cases of a doubt",
            "| stalls                |     8 |",
            "| stalls                |     7 |",
        ),
        ("a doubt that is left out", "| machine full  ", "| machine empty "),
    ];
    for (what, right, wrong) in plants {
        assert!(page.contains(right), "{what}: {right}");
        std::fs::write(run.join("planted.md"), page.replacen(right, wrong, 1)).unwrap();
        let said = recompute(&run, &["planted.md"]).unwrap_err();
        assert!(said.contains(" figures recomputed, "), "{what}: {said}");
    }
    let full = std::fs::read_to_string(run.join("report-full.md")).unwrap();
    let is_test = |line: &&str| line.contains(" – ") && line.ends_with("  significant |");
    let row = full.lines().find(is_test).unwrap();
    let changed = row.replacen("  significant |", " not significant |", 1);
    std::fs::write(run.join("planted.md"), full.replacen(row, &changed, 1)).unwrap();
    let said = recompute(&run, &["planted.md"]).unwrap_err();
    assert!(said.contains("1 differ"), "{said}");
}

/// The distributions of that program are those of printed tables.
#[test]
fn the_distributions_are_those_of_printed_tables() {
    let output = Command::new("python3").args(["-B", "tests/recompute/student.py"]).output();
    let output = output.expect("python3 of version 3.11 or later is installed");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
