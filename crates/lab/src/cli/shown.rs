//! Shows the progress of a run: a line that changes on a terminal, and a line per trial elsewhere.

use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::studies::{described, rough};
use crate::measure::speed::{ROUNDS_PER_S, Slowdown};
use crate::number::percent;
use crate::plan::Step;
use crate::results::{End, Line, Outcome};
use crate::run::Watch;

/// Shows the progress of a run.
pub struct Shown {
    bar: Option<ProgressBar>,
    count: i64,
    second: u64,
    what: String,
    of: usize,
    slowdown: Slowdown,
}

impl Shown {
    /// On standard error, which is a terminal or a log.
    pub fn new() -> Shown {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(0);
            let style = ProgressStyle::with_template("[{pos}/{len}] {msg}");
            bar.set_style(style.expect("the template is right"));
            bar.enable_steady_tick(Duration::from_secs(1));
            bar
        });
        Shown {
            bar,
            count: 0,
            second: 0,
            what: String::new(),
            of: 0,
            slowdown: Slowdown::default(),
        }
    }

    /// Prints a line that stays.
    pub fn say(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(text),
            None => eprintln!("{text}"),
        }
    }

    /// A handle that shows the progress of servers.
    pub fn sayer(&self) -> crate::servers::Say {
        let bar = self.bar.clone();
        std::sync::Arc::new(move |text: &str| match &bar {
            Some(bar) => bar.set_message(text.to_owned()),
            // The elapsed time is shown on terminals only.
            None if text.starts_with("waits for") => {}
            None => eprintln!("{text}"),
        })
    }
}

impl Watch for Shown {
    fn begins(&mut self, step: &Step, of: usize, left: Duration) {
        let trial = &step.trial;
        let left = rough(left);
        let nodes =
            if trial.nodes > 1 { format!(" on {} nodes", trial.nodes) } else { String::new() };
        self.what = format!(
            "{} {}{nodes}, repetition {} ({}), {left} left",
            trial.experiment,
            trial.store.label,
            trial.repetition,
            described(&trial.work)
        );
        (self.count, self.second, self.of) = (0, 0, of);
        if let Some(bar) = &self.bar {
            bar.set_length(of as u64);
            bar.set_position(u64::from(step.order));
            bar.set_message(self.what.clone());
        }
    }

    fn line(&mut self, line: &Line) {
        if let Line::Value { name, value } = line
            && name == ROUNDS_PER_S
            && let Some(lost) = self.slowdown.add(*value)
        {
            self.say(&format!(
                "the machine has become {} slower: from here on, figures cannot be compared with those of earlier experiments",
                percent(lost)
            ));
        }
        let Line::Second(second) = line else { return };
        if u64::from(second.second) != self.second {
            (self.count, self.second) = (0, u64::from(second.second));
        }
        self.count += second.operations();
        if let Some(bar) = &self.bar {
            bar.set_message(format!("{}: {}/s", self.what, self.count));
        }
    }

    fn ended(&mut self, step: &Step, end: &End, left: Duration) {
        let outcome = match &end.outcome {
            Outcome::Completed => format!("{:.1} s", end.seconds),
            Outcome::NotSupported { ability } => format!("not supported: it has no `{ability}`"),
            Outcome::Wrong { message } => format!("WRONG ANSWER: {message}"),
            Outcome::Failed { message } => format!("FAILED: {message}"),
        };
        if self.bar.is_some() {
            if !matches!(end.outcome, Outcome::Completed) {
                self.say(&format!("{}: {outcome}", step.name));
            }
            return;
        }
        let (order, of, left) = (step.order, self.of, rough(left));
        self.say(&format!("{}: {outcome} ({order} of {of}, {left} left)", step.name));
    }
}
