//! Parses LogQL into a tree, by recursive descent.
//!
//! What of Loki's language is not supported, is refused by name: `variants`.

mod label_test;
mod metric;
mod stages;

use query::RegexBudget;

use crate::ast::{Expr, LogQuery, MatchOp, Matcher, Regex};
use crate::error::ParseError;
use crate::lex::{Token, tokens};

/// Limit of nested expressions, and of nested tests of labels. Deeper ones are refused. It bounds
/// the recursion of all code that walks a tree: parsing, evaluation, writing, dropping. Each
/// operator of a chain (`a + b + c`) is nested in the next one.
pub const NESTING_MAX: usize = 100;
/// Limit of the stages of a query. Longer ones are refused.
pub const STAGES_MAX: usize = 100;

type Result<T> = std::result::Result<T, ParseError>;

/// Parses a query.
pub fn parse(text: &str) -> Result<Expr> {
    let mut parser = Parser::new(text)?;
    if parser.peek() == &Token::End {
        return Err(parser.error("syntax error: the query is empty"));
    }
    let expr = parser.expr()?;
    match parser.peek() {
        Token::End => Ok(expr),
        _ => Err(parser.unexpected("the end")),
    }
}

/// Parses a selector alone, `{a="b"}`, for `match[]` of the API.
pub fn parse_matchers(text: &str) -> Result<Vec<Matcher>> {
    let mut parser = Parser::new(text)?;
    let matchers = parser.selector()?;
    match parser.peek() {
        Token::End => Ok(matchers),
        _ => Err(parser.unexpected("the end")),
    }
}

struct Parser<'a> {
    text: &'a str,
    tokens: Vec<(Token, usize)>,
    at: usize,
    depth: usize,
    regexes: RegexBudget,
}

impl Parser<'_> {
    fn new(text: &str) -> Result<Parser<'_>> {
        let tokens = tokens(text)?;
        Ok(Parser { text, tokens, at: 0, depth: 0, regexes: RegexBudget::default() })
    }

    fn peek(&self) -> &Token {
        &self.tokens[self.at].0
    }

    fn peek_behind(&self) -> &Token {
        &self.tokens[(self.at + 1).min(self.tokens.len() - 1)].0
    }

    fn next(&mut self) -> Token {
        let token = self.tokens[self.at].0.clone();
        self.at = (self.at + 1).min(self.tokens.len() - 1);
        token
    }

    fn error(&self, message: impl Into<String>) -> ParseError {
        ParseError::new(self.text, self.tokens[self.at].1, message)
    }

    fn error_before(&self, message: impl Into<String>) -> ParseError {
        ParseError::new(self.text, self.tokens[self.at.saturating_sub(1)].1, message)
    }

    fn unexpected(&self, expected: &str) -> ParseError {
        let found = self.peek().shown();
        self.error(format!("syntax error: unexpected {found}, expecting {expected}"))
    }

    fn eat(&mut self, sign: &str) -> bool {
        let found = matches!(self.peek(), Token::Sign(found) if *found == sign);
        if found {
            self.next();
        }
        found
    }

    fn expect(&mut self, sign: &str) -> Result<()> {
        if self.eat(sign) { Ok(()) } else { Err(self.unexpected(&format!("\"{sign}\""))) }
    }

    fn is_word(&self, word: &str) -> bool {
        matches!(self.peek(), Token::Word(found) if found == word)
    }

    fn eat_word(&mut self, word: &str) -> bool {
        let found = self.is_word(word);
        if found {
            self.next();
        }
        found
    }

    fn name(&mut self, what: &str) -> Result<String> {
        match self.peek() {
            Token::Word(_) => match self.next() {
                Token::Word(word) => Ok(word),
                _ => unreachable!("just seen"),
            },
            _ => Err(self.unexpected(what)),
        }
    }

    fn string(&mut self) -> Result<String> {
        match self.peek() {
            Token::Text(_) => match self.next() {
                Token::Text(text) => Ok(text),
                _ => unreachable!("just seen"),
            },
            _ => Err(self.unexpected("a quoted string")),
        }
    }

    fn number(&mut self) -> Result<f64> {
        let negative = self.eat("-");
        if !negative {
            self.eat("+");
        }
        match *self.peek() {
            Token::Number(number) => {
                self.next();
                Ok(if negative { -number } else { number })
            }
            _ => Err(self.unexpected("a number")),
        }
    }

    fn duration(&mut self) -> Result<i64> {
        let negative = self.eat("-");
        match *self.peek() {
            Token::Duration(_, ns) => {
                self.next();
                Ok(if negative { -ns } else { ns })
            }
            _ => Err(self.unexpected("a duration, such as 5m")),
        }
    }

    fn regex(&mut self, text: &str) -> Result<Regex> {
        let built = Regex::within(text, &mut self.regexes);
        built.map_err(|error| self.error_before(format!("error parsing regexp: {error}")))
    }

    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= NESTING_MAX {
            return Err(self.error(format!(
                "more than {NESTING_MAX} nested expressions; write fewer parentheses, or send several queries"
            )));
        }
        self.depth += 1;
        let result = parse(self);
        self.depth -= 1;
        result
    }

    fn expr(&mut self) -> Result<Expr> {
        // A selector in any number of parentheses is a query for lines.
        let mut place = self.at;
        while self.tokens[place].0 == Token::Sign("(") {
            place += 1;
        }
        if self.tokens[place].0 == Token::Sign("{") {
            return self.log_in_parentheses().map(Expr::Log);
        }
        self.metric().map(|part| Expr::Metric(part.metric))
    }

    fn log_in_parentheses(&mut self) -> Result<LogQuery> {
        self.nested(|p| {
            if p.eat("(") {
                let query = p.log_in_parentheses()?;
                p.expect(")")?;
                return Ok(query);
            }
            let matchers = p.selector()?;
            let stages = p.stages()?;
            if p.starts_unwrap() {
                return Err(p.error("unwrap is for the range of an aggregation only"));
            }
            Ok(LogQuery { matchers, stages })
        })
    }

    fn selector(&mut self) -> Result<Vec<Matcher>> {
        self.expect("{")?;
        let mut matchers = Vec::new();
        while !self.eat("}") {
            if !matchers.is_empty() {
                self.expect(",")?;
                // A comma may end the list.
                if self.eat("}") {
                    break;
                }
            }
            matchers.push(self.matcher()?);
        }
        Ok(matchers)
    }

    fn matcher(&mut self) -> Result<Matcher> {
        let name = self.name("a label name")?;
        let op =
            self.match_op().ok_or_else(|| self.unexpected("\"=\", \"!=\", \"=~\" or \"!~\""))?;
        let value = self.string()?;
        self.make_matcher(name, op, value)
    }

    fn match_op(&mut self) -> Option<MatchOp> {
        let op = match self.peek() {
            Token::Sign("=") => MatchOp::Equal,
            Token::Sign("!=") => MatchOp::NotEqual,
            Token::Sign("=~") => MatchOp::Match,
            Token::Sign("!~") => MatchOp::NotMatch,
            _ => return None,
        };
        self.next();
        Some(op)
    }

    fn make_matcher(&mut self, name: String, op: MatchOp, value: String) -> Result<Matcher> {
        let regex = match op {
            MatchOp::Match | MatchOp::NotMatch => Some(self.regex(&format!("^(?s:{value})$"))?),
            _ => None,
        };
        Ok(Matcher { name, op, value, regex })
    }

    fn starts_unwrap(&self) -> bool {
        self.peek() == &Token::Sign("|")
            && matches!(self.peek_behind(), Token::Word(word) if word == "unwrap")
    }
}
