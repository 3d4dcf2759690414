//! Every figure of a report, recomputed from the raw trials by SciPy: nothing of the lab's own
//! statistics is used. `scripts/lab-recompute.sh` runs this with a Python that has SciPy.

use std::path::Path;
use std::process::Command;

use super::simulated::{study1, ycsb};
use lab::report;

/// Recomputes the report in `directory`; returns the output if a figure differs.
fn recompute(directory: &Path) -> Result<String, String> {
    let python = std::env::var("LOGINSON_SCIPY_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let output = Command::new(python)
        .arg("tests/recompute/recompute.py")
        .arg(directory)
        .output()
        .expect("there is a Python; scripts/lab-recompute.sh gets one with SciPy");
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

#[test]
fn every_figure_is_that_of_scipy() {
    for seed in 1..=2 {
        let folder = tempfile::tempdir().unwrap();
        let (logs, rates) = (folder.path().join("study1"), folder.path().join("ycsb"));
        study1(&logs, "small", 6, seed).unwrap();
        ycsb(&rates, 5, seed).unwrap();
        for (run, least) in [(&logs, 500), (&rates, 200)] {
            report::write(run, run).unwrap();
            report::write_full(run, run).unwrap();
            let text = recompute(run).unwrap_or_else(|text| panic!("seed {seed}: {text}"));
            assert!(figures(&text) >= least, "seed {seed}: {text}");
        }
    }
}

/// The check itself finds a figure that was changed.
#[test]
fn a_changed_figure_is_found() {
    let folder = tempfile::tempdir().unwrap();
    study1(folder.path(), "small", 6, 7).unwrap();
    report::write(folder.path(), folder.path()).unwrap();
    let path = report::write_full(folder.path(), folder.path()).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let is_test = |line: &&str| line.contains(" – ") && line.ends_with("  significant |");
    let row = text.lines().find(is_test).unwrap();
    let changed = row.replacen("  significant |", " not significant |", 1);
    std::fs::write(&path, text.replacen(row, &changed, 1)).unwrap();
    let said = recompute(folder.path()).unwrap_err();
    assert!(said.contains("1 differ"), "{said}");
}
