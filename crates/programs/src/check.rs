//! A trial of a program on sample lines: what `loginson program test` and the editor show.

use std::sync::Arc;

use crate::block::{Input, InputBlock};
use crate::error::ProgramError;
use crate::interpreter::Kind;
use crate::process::launcher::Launcher;
use crate::rows::Row;
use crate::rows::reader::Rejected;
use crate::run::bucket::{BucketRun, Usage};
use crate::run::spec::RunSpec;
use crate::sandbox::Applied;

/// Faults of a report; further ones are left out.
const FAULTS_MAX: usize = 20;

/// Something that the interpreter said.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fault {
    /// Line of the program, from 1, if the interpreter names it.
    pub program_line: Option<u64>,
    /// Line of the sample, from 1, if the interpreter names it.
    pub input_line: Option<u64>,
    /// Its words.
    pub message: String,
}

/// What a program makes of sample lines.
#[derive(Clone, Debug)]
pub struct Report {
    /// The AWK that ran it.
    pub interpreter: Kind,
    /// The rows, as far as the program came to its end.
    pub rows: Vec<Row>,
    /// Lines of output that are no rows, with their numbers.
    pub rejected: Rejected,
    /// Why there are no rows.
    pub error: Option<ProgramError>,
    /// What the interpreter said on stderr, with the lines that it names.
    pub faults: Vec<Fault>,
    /// Probable mistakes.
    pub warnings: Vec<String>,
    /// Lines, bytes and time.
    pub usage: Usage,
    /// What the sandbox applied.
    pub sandbox: Option<Applied>,
}

/// Runs a program on the lines of `sample` as on one bucket, in its sandbox and limits.
pub fn test_program(launcher: &Arc<Launcher>, spec: &RunSpec, sample: &mut InputBlock) -> Report {
    let mut report = Report {
        interpreter: spec.interpreter.kind(),
        rows: Vec::new(),
        rejected: Rejected::default(),
        error: None,
        faults: Vec::new(),
        warnings: spec.definition.warnings(),
        usage: Usage::default(),
        sandbox: None,
    };
    let mut run = match BucketRun::start(launcher, spec) {
        Ok(run) => run,
        Err(error) => {
            report.error = Some(error);
            return report;
        }
    };
    // An error is reported by `finish` too.
    let _ = run.feed(sample);
    let outcome = run.finish();
    if outcome.usage.lines_left > 0 {
        let left = outcome.usage.lines_left;
        report.warnings.push(format!("the program stopped reading; it left {left} lines and more"));
    }
    report.faults = faults(&outcome.stderr, &spec.definition.input);
    report.rejected = outcome.rejected;
    report.usage = outcome.usage;
    report.sandbox = outcome.sandbox;
    match outcome.result {
        Ok(rows) => report.rows = rows,
        Err(error) => report.error = Some(error),
    }
    report
}

/// The messages of any of the interpreters. A line that begins with a blank belongs to the one
/// before.
fn faults(stderr: &str, input: &Input) -> Vec<Fault> {
    // The header of columns is a record for the interpreter and no line of the sample.
    let header_lines = u64::from(matches!(input, Input::Fields(_)));
    let mut faults: Vec<Fault> = Vec::new();
    for line in stderr.lines().filter(|line| !line.trim().is_empty()) {
        let program_line = ["line:", " source line number ", " line "]
            .iter()
            .find_map(|word| number_behind(line, word));
        let input_line = ["FNR=", " record number "]
            .iter()
            .find_map(|word| number_behind(line, word))
            .and_then(|number| number.checked_sub(header_lines))
            .filter(|number| *number > 0);
        let is_continued = line.starts_with([' ', '\t'])
            || faults
                .last()
                .is_some_and(|f| program_line.is_some() && f.program_line == program_line);
        let is_full = faults.len() >= FAULTS_MAX;
        match faults.last_mut().filter(|_| is_continued) {
            Some(fault) => {
                fault.program_line = fault.program_line.or(program_line);
                fault.input_line = fault.input_line.or(input_line);
                fault.message.push('\n');
                fault.message.push_str(line);
            }
            None if is_full => break,
            None => faults.push(Fault { program_line, input_line, message: line.to_owned() }),
        }
    }
    faults
}

/// The number that follows `word` in `line`.
fn number_behind(line: &str, word: &str) -> Option<u64> {
    line.match_indices(word).find_map(|(at, _)| {
        let rest = &line[at + word.len()..];
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(stderr: &str, expected: &[(Option<u64>, Option<u64>)]) {
        let found: Vec<_> =
            faults(stderr, &Input::Raw).iter().map(|f| (f.program_line, f.input_line)).collect();
        assert_eq!(found, expected, "{stderr}");
    }

    #[test]
    fn lines_are_found_in_the_words_of_each_awk() {
        check(
            "gawk: cmd. line:3: (FILENAME=- FNR=2) fatal: attempt to use array",
            &[(Some(3), Some(2))],
        );
        check(
            "gawk: cmd. line:1: NR==2{x=1; print x(}\ngawk: cmd. line:1:    ^ syntax error",
            &[(Some(1), None)],
        );
        check("mawk: line 4: missing ) near }", &[(Some(4), None)]);
        check("mawk: run time error: x\n\tFILENAME=\"\" FNR=7 NR=7", &[(None, Some(7))]);
        check("original-awk: syntax error at source line 5\n context is", &[(Some(5), None)]);
        check(
            "original-awk: division by zero\n input record number 2, file \n source line number 1",
            &[(Some(1), Some(2))],
        );
        check("awk: cmd. line:6: Division by zero", &[(Some(6), None)]);
        check("", &[]);
        let fields = Input::Fields(vec!["a".into()]);
        assert_eq!(
            faults("gawk: cmd. line:3: (FILENAME=- FNR=2) fatal", &fields)[0].input_line,
            Some(1)
        );
        assert_eq!(
            faults("gawk: cmd. line:3: (FILENAME=- FNR=1) fatal", &fields)[0].input_line,
            None
        );
        assert_eq!(faults(&"a\n".repeat(99), &Input::Raw).len(), FAULTS_MAX);
    }
}
