//! Rules over the past: which changes they would have made.

use std::time::Duration;

use text::duration::ns;

use crate::alert::Change;
use crate::engine::Engine;
use crate::evaluation::{RuleState, record};
use crate::rule::{Group, Kind, Rule, RuleFile};

/// Evaluations of all rules together; the replay ends early beyond.
///
/// limits.md, Alerts: a test of rules: evaluations, changes | {}; {CHANGES_MAX} | it ends early,
/// and says so (`truncated`)
const EVALUATIONS_MAX: usize = 20_000;
/// Changes of all rules together; the replay ends early beyond.
const CHANGES_MAX: usize = 10_000;

/// The past over which rules run, in nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The time of the first evaluation.
    pub start_ns: i64,
    /// The last evaluation is not after this time.
    pub end_ns: i64,
    /// The time between evaluations; `None` for the interval of each group.
    pub step: Option<Duration>,
}

/// What rules would have done.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Replay {
    /// Each rule, in the order of the file.
    pub rules: Vec<ReplayedRule>,
    /// Whether there is more than the bounds allow; what is here is right, but not all.
    pub is_truncated: bool,
}

/// What one rule would have done.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplayedRule {
    /// The name of the rule.
    pub rule: String,
    /// The name of its group.
    pub group: String,
    /// Evaluations that were made.
    pub evaluations: usize,
    /// The changes, the oldest first.
    pub changes: Vec<Change>,
    /// The first error of an evaluation; the rule was not evaluated after it.
    pub error: Option<String>,
}

/// Runs the rules of a file over the past. Nothing is kept and nobody is told. `is_cancelled` is
/// asked before each evaluation.
pub fn replay(
    file: &RuleFile,
    range: Range,
    engine: &dyn Engine,
    external_url: &str,
    is_cancelled: &dyn Fn() -> bool,
) -> Replay {
    let mut replay = Replay::default();
    let mut left = Left { evaluations: EVALUATIONS_MAX, changes: CHANGES_MAX };
    for group in &file.groups {
        for rule in &group.rules {
            let mut replayed = ReplayedRule {
                rule: rule.name.clone(),
                group: group.name.clone(),
                evaluations: 0,
                changes: Vec::new(),
                error: None,
            };
            let context = Context { group, rule, range, engine, external_url, is_cancelled };
            replay.is_truncated |= !context.run(&mut replayed, &mut left);
            replay.rules.push(replayed);
        }
    }
    replay
}

/// What the bounds still allow.
struct Left {
    evaluations: usize,
    changes: usize,
}

struct Context<'a> {
    group: &'a Group,
    rule: &'a Rule,
    range: Range,
    engine: &'a dyn Engine,
    external_url: &'a str,
    is_cancelled: &'a dyn Fn() -> bool,
}

impl Context<'_> {
    /// Runs one rule; returns whether it came to the end of the range.
    fn run(&self, replayed: &mut ReplayedRule, left: &mut Left) -> bool {
        let step_ns = ns(self.range.step.unwrap_or(self.group.interval)).max(1);
        let mut state = RuleState::default();
        let mut time_ns = self.range.start_ns;
        while time_ns <= self.range.end_ns {
            if left.evaluations == 0 || left.changes == 0 || (self.is_cancelled)() {
                return false;
            }
            left.evaluations -= 1;
            replayed.evaluations += 1;
            match self.changes_at(&mut state, time_ns) {
                Ok(mut changes) => {
                    let is_all = changes.len() <= left.changes;
                    changes.truncate(left.changes);
                    left.changes -= changes.len();
                    replayed.changes.append(&mut changes);
                    if !is_all {
                        return false;
                    }
                }
                Err(error) => {
                    replayed.error = Some(error);
                    return true;
                }
            }
            let Some(next_ns) = time_ns.checked_add(step_ns) else { return true };
            time_ns = next_ns;
        }
        true
    }

    fn changes_at(&self, state: &mut RuleState, time_ns: i64) -> Result<Vec<Change>, String> {
        let Context { group, rule, external_url, .. } = *self;
        let rows = self.engine.rows(&rule.expr, time_ns, group.interval, group.series_max)?;
        match rule.kind {
            Kind::Alert => {
                state.step(group, rule, &rows, time_ns, external_url).map(|step| step.changes)
            }
            Kind::Record => record(group, rule, &rows, time_ns, external_url).map(|_| Vec::new()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::alert::State;
    use crate::engine::Row;
    use crate::rule::Defaults;
    use crate::testing::row;

    const MINUTE: i64 = 60_000_000_000;

    /// Lines from minute 2 to minute 5; as many series as a test says.
    struct Past(usize);

    impl Engine for Past {
        fn check(&self, _: &str) -> Result<(), String> {
            Ok(())
        }

        fn rows(
            &self,
            expr: &str,
            time_ns: i64,
            _: Duration,
            _: usize,
        ) -> Result<Vec<Row>, String> {
            match (expr, time_ns / MINUTE) {
                ("broken", _) => Err("too slow".to_owned()),
                ("always", _) | (_, 2..=5) => {
                    Ok((0..self.0).map(|n| row(&[("n", &n.to_string())], 1.0)).collect())
                }
                _ => Ok(Vec::new()),
            }
        }
    }

    fn run(expr: &str, keys: &str, end_minute: i64, series: usize) -> Replay {
        let text = format!("groups:\n- name: g\n  rules:\n  - alert: A\n    expr: {expr}\n{keys}");
        let engine = Past(series);
        let file = RuleFile::parse("f", &text, &Defaults::default(), &engine).unwrap();
        let range = Range { start_ns: 0, end_ns: end_minute * MINUTE, step: None };
        replay(&file, range, &engine, "", &|| false)
    }

    #[test]
    fn rules_run_over_the_past() {
        let replay = run("x", "    for: 1m", 10, 1);
        let rule = &replay.rules[0];
        assert_eq!((rule.evaluations, replay.is_truncated), (11, false));
        let changes: Vec<(i64, State)> =
            rule.changes.iter().map(|change| (change.time_ns / MINUTE, change.to)).collect();
        assert_eq!(changes, [(2, State::Pending), (3, State::Firing), (6, State::Inactive)]);
        let broken = run("broken", "", 10, 1);
        assert_eq!(broken.rules[0].error.as_deref(), Some("too slow"));
    }

    #[test]
    fn a_replay_is_bounded() {
        let replay = run("x", "", EVALUATIONS_MAX as i64 - 1, 1);
        assert!(!replay.is_truncated && replay.rules[0].evaluations == EVALUATIONS_MAX);
        let replay = run("x", "", EVALUATIONS_MAX as i64, 1);
        assert!(replay.is_truncated && replay.rules[0].evaluations == EVALUATIONS_MAX);
        let replay = run("x\n  - alert: B\n    expr: y", "", 100_000, 900);
        assert!(replay.is_truncated && replay.rules[1].evaluations == 0);
    }
}
