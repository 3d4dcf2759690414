//! A test of one label, in a stream selector or in a stage.

use std::fmt;

use query::{Pulse, RegexBudget};

use crate::lex::quote;

/// A test of one label.
#[derive(Clone, Debug, PartialEq)]
pub struct Matcher {
    /// The label.
    pub name: String,
    /// How its value is compared.
    pub op: MatchOp,
    /// The value it is compared with.
    pub value: String,
    /// `value` compiled, if `op` needs a regular expression.
    pub regex: Option<Regex>,
}

/// How a label is compared with a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchOp {
    /// `=`
    Equal,
    /// `!=`
    NotEqual,
    /// `=~`
    Match,
    /// `!~`
    NotMatch,
}

impl MatchOp {
    /// The operator as written.
    pub fn sign(self) -> &'static str {
        match self {
            MatchOp::Equal => "=",
            MatchOp::NotEqual => "!=",
            MatchOp::Match => "=~",
            MatchOp::NotMatch => "!~",
        }
    }
}

impl Matcher {
    /// Whether a value passes; it is empty if the label is missing. Any answer if the query ended
    /// meanwhile.
    pub fn matches(&self, value: &str, pulse: &Pulse<'_>) -> bool {
        let is_match = || {
            let regex = self.regex.as_ref().expect("compiled for operators that need it");
            regex.pattern.is_match(value.as_bytes(), pulse)
        };
        match self.op {
            MatchOp::Equal => value == self.value,
            MatchOp::NotEqual => value != self.value,
            MatchOp::Match => is_match(),
            MatchOp::NotMatch => !is_match(),
        }
    }
}

/// A compiled regular expression. Two are equal if their texts are.
#[derive(Clone, Debug)]
pub struct Regex {
    text: String,
    pattern: query::Pattern,
}

impl Regex {
    /// Compiles an expression within the remaining budget of the query. The error is one line that
    /// says what is wrong.
    pub fn within(text: &str, budget: &mut RegexBudget) -> Result<Regex, String> {
        let pattern = query::Pattern::within(text, budget)?;
        Ok(Regex { text: text.to_owned(), pattern })
    }

    /// The expression as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The compiled form, which filters of crate `query` run over stored values too.
    pub fn pattern(&self) -> &query::Pattern {
        &self.pattern
    }
}

impl PartialEq for Regex {
    fn eq(&self, other: &Self) -> bool {
        self.pattern == other.pattern
    }
}

impl fmt::Display for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", self.name, self.op.sign(), quote(&self.value))
    }
}
