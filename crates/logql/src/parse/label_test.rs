//! Tests of labels: `a="b" and (took > 1s or ip = ip("10.0.0.0/8"))`.

use super::{Parser, Result};
use crate::ast::MatchOp;
use crate::lex::Token;
use crate::stage::filter::{Bound, Comparison, LabelTest};

impl Parser<'_> {
    pub(super) fn label_test(&mut self) -> Result<LabelTest> {
        let mut tests = vec![self.label_test_all()?];
        while self.eat_word("or") {
            tests.push(self.label_test_all()?);
        }
        Ok(if tests.len() == 1 { tests.remove(0) } else { LabelTest::Any(tests) })
    }

    fn label_test_all(&mut self) -> Result<LabelTest> {
        let mut tests = vec![self.label_test_one()?];
        loop {
            let joined = self.eat_word("and") || self.eat(",");
            // Tests may also follow each other without an operator.
            let continues = match self.peek() {
                Token::Sign("(") => true,
                Token::Word(word) => {
                    let is_keyword = matches!(word.as_str(), "or" | "by" | "without" | "offset");
                    joined || !is_keyword
                }
                _ => false,
            };
            if !joined && !continues {
                return Ok(if tests.len() == 1 { tests.remove(0) } else { LabelTest::All(tests) });
            }
            tests.push(self.label_test_one()?);
        }
    }

    fn label_test_one(&mut self) -> Result<LabelTest> {
        if self.eat("(") {
            let test = self.nested(Self::label_test)?;
            self.expect(")")?;
            return Ok(test);
        }
        let name = self.name("a label name")?;
        if let Some(op) = match self.peek() {
            Token::Sign("=") => Some(MatchOp::Equal),
            Token::Sign("!=") => Some(MatchOp::NotEqual),
            Token::Sign("=~") => Some(MatchOp::Match),
            Token::Sign("!~") => Some(MatchOp::NotMatch),
            _ => None,
        } {
            let negated = op == MatchOp::NotEqual;
            match self.peek_behind() {
                Token::Text(_) => {
                    self.next();
                    let value = self.string()?;
                    return self.make_matcher(name, op, value).map(LabelTest::Text);
                }
                Token::Word(word)
                    if word == "ip" && matches!(op, MatchOp::Equal | MatchOp::NotEqual) =>
                {
                    self.next();
                    let range = self.ip()?;
                    return Ok(LabelTest::Ip { name, negated, range });
                }
                _ => {}
            }
        }
        let comparison = match self.peek() {
            Token::Sign("=" | "==") => Comparison::Equal,
            Token::Sign("!=") => Comparison::NotEqual,
            Token::Sign(">") => Comparison::Greater,
            Token::Sign(">=") => Comparison::GreaterOrEqual,
            Token::Sign("<") => Comparison::Less,
            Token::Sign("<=") => Comparison::LessOrEqual,
            _ => return Err(self.unexpected("a comparison, such as = or >")),
        };
        self.next();
        let bound = match self.peek().clone() {
            Token::Duration(text, ns) => {
                self.next();
                Bound::Duration(text, ns)
            }
            Token::Bytes(text, bytes) => {
                self.next();
                Bound::Bytes(text, bytes)
            }
            Token::Text(_) => return Err(self.error("a string is compared with =, !=, =~ or !~")),
            _ => Bound::Number(self.number()?),
        };
        Ok(LabelTest::Compare { name, comparison, bound })
    }
}
