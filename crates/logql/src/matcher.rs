//! A test of one label, in a stream selector or in a stage.

use std::fmt;

use query::{REGEX_NESTING_MAX, RegexBudget};

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
    /// Whether a value passes; it is empty if the label is missing.
    pub fn matches(&self, value: &str) -> bool {
        let regex = || self.regex.as_ref().expect("compiled for operators that need it");
        match self.op {
            MatchOp::Equal => value == self.value,
            MatchOp::NotEqual => value != self.value,
            MatchOp::Match => regex().text().is_match(value),
            MatchOp::NotMatch => !regex().text().is_match(value),
        }
    }
}

/// A compiled regular expression. Two are equal if their texts are.
#[derive(Clone, Debug)]
pub struct Regex {
    text: regex::Regex,
    bytes: query::Pattern,
}

impl Regex {
    /// Compiles an expression within the remaining budget of the query. The error is one line that
    /// says what is wrong.
    pub fn within(text: &str, budget: &mut RegexBudget) -> Result<Regex, String> {
        let bytes = query::Pattern::within(text, budget)?;
        let text = budget.build(text, |bytes| {
            let mut builder = regex::RegexBuilder::new(text);
            builder.nest_limit(REGEX_NESTING_MAX);
            builder.size_limit(bytes).dfa_size_limit(bytes).build()
        })?;
        Ok(Regex { text, bytes })
    }

    /// The form that runs over text.
    pub fn text(&self) -> &regex::Regex {
        &self.text
    }

    /// The form that filters of crate `query` run over stored values.
    pub fn pattern(&self) -> &query::Pattern {
        &self.bytes
    }
}

impl PartialEq for Regex {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}

impl fmt::Display for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}{}", self.name, self.op.sign(), quote(&self.value))
    }
}
