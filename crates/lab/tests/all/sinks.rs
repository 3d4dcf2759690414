//! The limit of the generator, measured by the whole program against a sink in the place of a
//! server with the protocol of Redis.

use std::process::{Command, Stdio};
use std::time::Duration;

use super::liars::redis::{Lie, Redis};
use lab::results::{Directory, Line, Outcome};
use lab::trial::Role;

/// Answers per second of trials with this role, and the seconds of the last one.
fn rate(lines: &[Line], role: Role) -> Option<f64> {
    let Some(Line::Header(header)) = lines.first() else { panic!("no header") };
    if header.trial.role != role {
        return None;
    }
    let answers = lines.iter().filter_map(|line| match line {
        Line::Second(second) => Some(second.count),
        _ => None,
    });
    let Some(Line::End(end)) = lines.last() else { panic!("no end") };
    assert_eq!(end.outcome, Outcome::Completed, "{:?}", header.trial.role);
    Some(answers.sum::<u64>() as f64 / end.seconds)
}

/// A server that waits before each answer is measured as slow as that; the sink that repeats its
/// answers does not wait, and it sends nothing to the server.
#[test]
fn a_sink_answers_with_what_the_server_answered_and_does_not_wait() {
    let server = Redis::waiting(Lie::None, Duration::from_millis(50));
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("results");
    let mut command = Command::new(env!("CARGO_BIN_EXE_loginson-lab"));
    command.args(["run", "apm", "--scale", "smoke", "--experiments", "rw", "--repetitions", "1"]);
    command.args(["--stores", "redis", "--endpoint", &format!("redis={}", server.endpoint())]);
    command.args(["--out", out.to_str().unwrap()]).stdin(Stdio::null());
    let ran = command.output().unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let directory = Directory::open(&out).unwrap().0;
    let trials: Vec<Vec<Line>> =
        directory.trials().unwrap().iter().map(|name| directory.read(name).unwrap()).collect();
    let all = |role| trials.iter().filter_map(|trial| rate(trial, role)).collect::<Vec<_>>();
    let (reached, limit) = (all(Role::Measure), all(Role::Limit));
    assert_eq!((reached.len(), limit.len()), (1, 1));
    assert!(limit[0] > 2.0 * reached[0], "{limit:?} without the server, {reached:?} with it");
    assert_eq!(server.rows_of("limit"), 0, "the table of the limit is empty afterwards");
}
