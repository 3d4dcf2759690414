//! Rules and the files that define them.

mod file;
mod yaml;

use std::time::Duration;

use crate::labels::Labels;
use crate::template::Template;

pub use file::{Defaults, RuleError, RuleFile};

/// Rules that are evaluated together, one after another.
#[derive(Debug, Clone, PartialEq)]
pub struct Group {
    /// A stable id: that of the file and the name.
    pub id: String,
    /// The name of the file.
    pub file: String,
    /// The name, which is the label `alertgroup` of its alerts.
    pub name: String,
    /// How often the rules are evaluated.
    pub interval: Duration,
    /// How far behind the clock rules are evaluated, so that late lines are counted.
    pub delay: Duration,
    /// Behind which fraction of the interval rules are evaluated; replaces `delay`.
    pub offset: Option<Duration>,
    /// Whether the time of evaluation is a multiple of the interval.
    pub is_aligned: bool,
    /// The most series of one rule.
    pub series_max: usize,
    /// Labels of all rules.
    pub labels: Labels,
    /// The rules, in their order.
    pub rules: Vec<Rule>,
}

/// One rule.
#[derive(Debug, Clone, PartialEq)]
pub struct Rule {
    /// A stable id: that of the group and of what identifies the rule in it.
    pub id: String,
    /// Whether it makes alerts or rows.
    pub kind: Kind,
    /// The name of the alert or of the rows.
    pub name: String,
    /// The query.
    pub expr: String,
    /// `for`: how long an alert has to be active before it fires.
    pub hold: Duration,
    /// How long an alert goes on firing once its series is gone.
    pub keep_firing_for: Duration,
    /// Labels, those of the group among them.
    pub labels: Vec<(String, Template)>,
    /// Annotations of alerts.
    pub annotations: Vec<(String, Template)>,
}

/// What a rule makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Kind {
    Alert,
    Record,
}

impl Group {
    /// The time for which rules are evaluated at `now_ns`: nanoseconds since 1970.
    pub fn evaluation_time_ns(&self, now_ns: i64) -> i64 {
        let interval = text::duration::ns(self.interval).max(1);
        let aligned = |time_ns: i64| time_ns - time_ns.rem_euclid(interval);
        match self.offset {
            Some(offset) => {
                let offset = text::duration::ns(offset);
                aligned(now_ns.saturating_sub(offset)).saturating_add(offset)
            }
            None => {
                let time_ns = now_ns.saturating_sub(text::duration::ns(self.delay));
                if self.is_aligned { aligned(time_ns) } else { time_ns }
            }
        }
    }
}
