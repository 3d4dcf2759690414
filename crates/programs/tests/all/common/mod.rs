//! What the tests with real processes share.

#![allow(dead_code, reason = "each test binary uses a part")]

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use programs::{
    BucketOutcome, BucketRun, Definition, Helper, InputBlock, Interpreter, Kind, Launcher, Limits,
    ProgramError, Row, RunSpec,
};

/// A launcher with the binary of this crate as the one that is re-executed.
pub fn launcher() -> Arc<Launcher> {
    let program = PathBuf::from(env!("CARGO_BIN_EXE_programs-sandbox"));
    Launcher::new(Helper { program, arguments: Vec::new() }).unwrap()
}

/// All four implementations of AWK; the test fails where one is missing.
pub fn interpreters() -> Vec<Interpreter> {
    Kind::ALL.into_iter().map(interpreter).collect()
}

pub fn interpreter(kind: Kind) -> Interpreter {
    let found = Interpreter::find_kind(kind, &Interpreter::system_folders());
    found.unwrap_or_else(|| panic!("{kind:?} is missing: apt-get install {}", kind.package()))
}

/// A program of any type; `text` may begin with further settings.
pub fn spec(interpreter: Interpreter, text: &str) -> RunSpec {
    let definition = Definition::parse("tried", &format!("# type: t\n{text}\n")).unwrap();
    // Generous: measurements of other work may run on the same processors.
    let limits = Limits { timeout: Duration::from_secs(600), ..Limits::default() };
    RunSpec { interpreter, definition, limits, variables: Vec::new() }
}

/// Runs a program on the lines of `input`.
pub fn run(launcher: &Arc<Launcher>, spec: &RunSpec, input: &[u8]) -> BucketOutcome {
    let mut run = BucketRun::start(launcher, spec).unwrap();
    let mut block = InputBlock::new();
    block.push_text(input);
    let _ = run.feed(&mut block);
    run.finish()
}

/// The rows as JSON, one a line.
pub fn json(rows: &[Row]) -> String {
    let mut out = Vec::new();
    for row in rows {
        row.write_json(&mut out);
        out.push(b'\n');
    }
    String::from_utf8(out).unwrap()
}

/// The rows of a run that must succeed, without rejected lines.
pub fn rows(outcome: &BucketOutcome) -> String {
    match &outcome.result {
        Ok(rows) if outcome.rejected.lines == 0 => json(rows),
        other => panic!("{other:?}, {:?}, stderr: {}", outcome.rejected, outcome.stderr),
    }
}

/// The error of a run that must fail.
pub fn error(outcome: BucketOutcome) -> ProgramError {
    outcome.result.expect_err("the run must fail")
}

/// Children of the process `pid`, zombies included.
pub fn children(pid: u32) -> Vec<u32> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(child) = entry.file_name().to_str().and_then(|n| n.parse::<u32>().ok()) else {
            continue;
        };
        let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1));
        if parent.and_then(|p| p.parse().ok()) == Some(pid) {
            found.push(child);
        }
    }
    found
}

/// Processes whose command line contains `text`.
pub fn processes_with(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Ok(line) = std::fs::read(entry.path().join("cmdline")) else { continue };
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.contains(text) {
            found.push(format!("{}: {line}", entry.path().display()));
        }
    }
    found
}

/// Waits until `condition` holds, at most five minutes.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    for _ in 0..30_000 {
        if condition() {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{what} did not happen within five minutes");
}
