//! LogQL text to a tree, by recursive descent.
//!
//! What Loki's language has and this does not is refused by name: `rate_counter`, `approx_topk`, `variants`.

use crate::ast::*;
use crate::error::ParseError;
use crate::lex::{Token, tokens};
use crate::stage::filter::{Bound, Comparison, LabelTest};
use crate::stage::ip::IpRange;
use crate::stage::line::{LineFilter, LineOp, Needle};
use crate::stage::path::Path;
use crate::stage::pattern::Pattern;
use crate::stage::template::Template;

/// Most expressions inside each other. Deeper ones are refused.
pub const NESTING_MAX: usize = 100;
/// Most stages of a query. Longer ones are refused.
pub const STAGES_MAX: usize = 100;
/// Memory of one compiled regular expression; a bigger one is refused.
const REGEX_BYTES_MAX: usize = 4 << 20;

type Result<T> = std::result::Result<T, ParseError>;

/// Reads a query.
pub fn parse(text: &str) -> Result<Expr> {
    let mut parser = Parser { text, tokens: tokens(text)?, at: 0, depth: 0 };
    if parser.peek() == &Token::End {
        return Err(parser.error("syntax error: the query is empty"));
    }
    let expr = parser.expr()?;
    match parser.peek() {
        Token::End => Ok(expr),
        _ => Err(parser.unexpected("the end")),
    }
}

/// Reads a selector alone, `{a="b"}`, as `match[]` of the API has it.
pub fn parse_matchers(text: &str) -> Result<Vec<Matcher>> {
    let mut parser = Parser { text, tokens: tokens(text)?, at: 0, depth: 0 };
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
}

impl Parser<'_> {
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
            _ => Err(self.unexpected("a quoted text")),
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

    fn regex(&self, text: &str) -> Result<Regex> {
        let built = regex::RegexBuilder::new(text)
            .size_limit(REGEX_BYTES_MAX)
            .dfa_size_limit(REGEX_BYTES_MAX)
            .build();
        built.map(Regex).map_err(|error| {
            let lines = error.to_string();
            let last = lines.lines().last().unwrap_or_default().trim().to_owned();
            self.error_before(format!("error parsing regexp: {last}"))
        })
    }

    fn nested<T>(&mut self, parse: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= NESTING_MAX {
            return Err(self.error(format!("more than {NESTING_MAX} expressions in each other")));
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
        self.metric(0).map(Expr::Metric)
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

    fn make_matcher(&self, name: String, op: MatchOp, value: String) -> Result<Matcher> {
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

    fn stages(&mut self) -> Result<Vec<Stage>> {
        let mut stages = Vec::new();
        loop {
            let stage = match self.peek() {
                Token::Sign("|=") => self.line_filter(LineOp::Contains, false)?,
                Token::Sign("!=") if self.takes_line() => {
                    self.line_filter(LineOp::Contains, true)?
                }
                Token::Sign("|~") => self.line_filter(LineOp::Match, false)?,
                Token::Sign("!~") => self.line_filter(LineOp::Match, true)?,
                Token::Sign("|>") => self.line_filter(LineOp::Pattern, false)?,
                Token::Sign("!>") => self.line_filter(LineOp::Pattern, true)?,
                Token::Sign("|") if !self.starts_unwrap() => {
                    self.next();
                    self.stage()?
                }
                _ => return Ok(stages),
            };
            if stages.len() == STAGES_MAX {
                return Err(self.error_before(format!("more than {STAGES_MAX} stages")));
            }
            stages.push(stage);
        }
    }

    /// Whether `!=` is a line filter, not a comparison of numbers.
    fn takes_line(&self) -> bool {
        matches!(self.peek_behind(), Token::Text(_))
            || matches!(self.peek_behind(), Token::Word(word) if word == "ip")
    }

    fn line_filter(&mut self, op: LineOp, negated: bool) -> Result<Stage> {
        self.next();
        let mut needles = vec![self.needle(op)?];
        while self.eat_word("or") {
            needles.push(self.needle(op)?);
        }
        Ok(Stage::Line(LineFilter { op, negated, needles }))
    }

    fn needle(&mut self, op: LineOp) -> Result<Needle> {
        if self.is_word("ip") {
            if op != LineOp::Contains {
                return Err(self.error("ip() goes with |= and != only"));
            }
            return self.ip().map(Needle::Ip);
        }
        let text = self.string()?;
        Ok(match op {
            LineOp::Contains => Needle::Text(text),
            LineOp::Match => Needle::Regex(self.regex(&text)?),
            LineOp::Pattern => {
                Needle::Pattern(Pattern::for_lines(&text).map_err(|e| self.error_before(e))?)
            }
        })
    }

    fn ip(&mut self) -> Result<IpRange> {
        self.next();
        self.expect("(")?;
        let text = self.string()?;
        let range = IpRange::parse(&text).ok_or_else(|| {
            self.error_before(format!(
                "ip: \"{text}\" is no address, no range such as 10.0.0.1-10.0.0.9 and no network such as 10.0.0.0/8"
            ))
        })?;
        self.expect(")")?;
        Ok(range)
    }

    fn stage(&mut self) -> Result<Stage> {
        let word = match self.peek() {
            Token::Word(word) => word.clone(),
            Token::Sign("(") => return self.label_test().map(Stage::Label),
            _ => return Err(self.unexpected("a stage, such as json, or a test of a label")),
        };
        // A label may be named as a stage is, but behind a stage without arguments `!=` is a line filter.
        let stands_alone = matches!(word.as_str(), "json" | "logfmt" | "unpack" | "decolorize");
        let is_test = match self.peek_behind() {
            Token::Sign("!=" | "!~") => !stands_alone,
            Token::Sign("=" | "=~" | "==" | ">" | ">=" | "<" | "<=") => true,
            _ => false,
        };
        if is_test {
            return self.label_test().map(Stage::Label);
        }
        self.next();
        Ok(match word.as_str() {
            "json" => {
                let mut labels = Vec::new();
                for (name, path) in self.extractions()? {
                    let path = Path::parse(&path).map_err(|e| self.error_before(e))?;
                    labels.push((name, path));
                }
                Stage::Json(labels)
            }
            "logfmt" => {
                let (mut strict, mut keep_empty) = (false, false);
                while let Token::Flag(flag) = self.peek() {
                    match flag.as_str() {
                        "strict" => strict = true,
                        "keep-empty" => keep_empty = true,
                        _ => return Err(self.unexpected("--strict or --keep-empty")),
                    }
                    self.next();
                }
                Stage::Logfmt { strict, keep_empty, labels: self.extractions()? }
            }
            "regexp" => {
                let text = self.string()?;
                let regex = self.regex(&text)?;
                if regex.0.capture_names().flatten().next().is_none() {
                    let message =
                        "at least one named capture must be supplied, such as (?P<name>re)";
                    return Err(self.error_before(message));
                }
                Stage::Regexp(regex)
            }
            "pattern" => {
                let text = self.string()?;
                Stage::Pattern(Pattern::for_labels(&text).map_err(|e| self.error_before(e))?)
            }
            "unpack" => Stage::Unpack,
            "decolorize" => Stage::Decolorize,
            "line_format" => Stage::LineFormat(self.template()?),
            "label_format" => {
                let mut labels: Vec<(String, LabelSource)> = Vec::new();
                loop {
                    let name = self.name("a label name")?;
                    if labels.iter().any(|(other, _)| *other == name) {
                        let message = format!(
                            "multiple label name '{name}' not allowed in a single format operation"
                        );
                        return Err(self.error_before(message));
                    }
                    self.expect("=")?;
                    let source = match self.peek() {
                        Token::Word(_) => LabelSource::Rename(self.name("a label name")?),
                        _ => LabelSource::Template(self.template()?),
                    };
                    labels.push((name, source));
                    if !self.eat(",") {
                        break;
                    }
                }
                Stage::LabelFormat(labels)
            }
            "drop" => Stage::Drop(self.named()?),
            "keep" => Stage::Keep(self.named()?),
            _ => {
                self.at -= 1;
                let message = format!(
                    "syntax error: there is no stage \"{word}\"; expecting json, logfmt, regexp, pattern, unpack, \
                     line_format, label_format, decolorize, drop, keep, unwrap or a test of a label"
                );
                return Err(self.error(message));
            }
        })
    }

    fn template(&mut self) -> Result<Template> {
        let text = self.string()?;
        Template::parse(&text).map_err(|e| self.error_before(format!("invalid template: {e}")))
    }

    /// `a="b", c`.
    fn extractions(&mut self) -> Result<Vec<(String, String)>> {
        let mut found = Vec::new();
        while matches!(self.peek(), Token::Word(_)) {
            let name = self.name("a label name")?;
            let from = if self.eat("=") { self.string()? } else { name.clone() };
            found.push((name, from));
            if !self.eat(",") {
                break;
            }
            if !matches!(self.peek(), Token::Word(_)) {
                return Err(self.unexpected("a label name"));
            }
        }
        Ok(found)
    }

    fn named(&mut self) -> Result<Vec<Named>> {
        let mut named = Vec::new();
        loop {
            let name = self.name("a label name")?;
            named.push(match self.match_op() {
                None => Named::Name(name),
                Some(op) => {
                    let value = self.string()?;
                    Named::Matcher(self.make_matcher(name, op, value)?)
                }
            });
            if !self.eat(",") {
                return Ok(named);
            }
        }
    }

    fn label_test(&mut self) -> Result<LabelTest> {
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
            // Tests may also stand one behind the other.
            let goes_on = match self.peek() {
                Token::Sign("(") => true,
                Token::Word(word) => {
                    let is_keyword = matches!(word.as_str(), "or" | "by" | "without" | "offset");
                    joined || !is_keyword
                }
                _ => false,
            };
            if !joined && !goes_on {
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
            Token::Text(_) => return Err(self.error("a text is compared with =, !=, =~ or !~")),
            _ => Bound::Number(self.number()?),
        };
        Ok(LabelTest::Compare { name, comparison, bound })
    }

    fn metric(&mut self, least: u8) -> Result<Metric> {
        self.nested(|p| {
            let mut left = p.metric_one()?;
            loop {
                let op = match p.peek() {
                    Token::Sign(sign) => BinaryOp::named(sign),
                    Token::Word(word) => BinaryOp::named(word),
                    _ => None,
                };
                let Some(op) = op.filter(|op| op.precedence() >= least.max(1)) else {
                    return Ok(left);
                };
                p.next();
                let modifier = p.binary_modifier(op)?;
                // The power binds to the right, all else to the left.
                let right_least =
                    if op == BinaryOp::Power { op.precedence() } else { op.precedence() + 1 };
                let right = p.metric(right_least)?;
                let scalar = |side: &Metric| matches!(side, Metric::Literal(_));
                if op.is_set() && (scalar(&left) || scalar(&right)) {
                    let side = if scalar(&left) { "left" } else { "right" };
                    let message = format!(
                        "unexpected literal for {side} leg of logical/set binary operation ({})",
                        op.name()
                    );
                    return Err(p.error_before(message));
                }
                left = Metric::Binary {
                    op,
                    modifier: Box::new(modifier),
                    left: Box::new(left),
                    right: Box::new(right),
                };
            }
        })
    }

    fn binary_modifier(&mut self, op: BinaryOp) -> Result<BinaryModifier> {
        let mut modifier = BinaryModifier::default();
        if self.is_word("bool") {
            if !op.is_comparison() {
                return Err(self.error("bool goes with comparisons only"));
            }
            self.next();
            modifier.bool = true;
        }
        for (word, without) in [("on", false), ("ignoring", true)] {
            if self.eat_word(word) {
                modifier.matching = Some(Grouping { without, labels: self.labels()? });
                break;
            }
        }
        for (word, left) in [("group_left", true), ("group_right", false)] {
            if self.is_word(word) {
                if modifier.matching.is_none() || op.is_set() {
                    return Err(self.error(format!(
                        "{word} goes behind on() or ignoring() of an arithmetic operation"
                    )));
                }
                self.next();
                let named = self.peek() == &Token::Sign("(")
                    && matches!(self.peek_behind(), Token::Word(_) | Token::Sign(")"))
                    && self.is_list_of_labels();
                let include = if named { self.labels()? } else { Vec::new() };
                modifier.group = Some(Group { left, include });
                break;
            }
        }
        Ok(modifier)
    }

    /// Whether parentheses that come next hold names alone.
    fn is_list_of_labels(&self) -> bool {
        let mut place = self.at + 1;
        loop {
            match (&self.tokens[place].0, self.tokens.get(place + 1).map(|t| &t.0)) {
                (Token::Sign(")"), _) => return true,
                (Token::Word(_), Some(Token::Sign(",") | Token::Sign(")"))) => place += 1,
                (Token::Sign(","), Some(Token::Word(_))) => place += 1,
                _ => return false,
            }
        }
    }

    fn labels(&mut self) -> Result<Vec<String>> {
        self.expect("(")?;
        let mut labels = Vec::new();
        while !self.eat(")") {
            if !labels.is_empty() {
                self.expect(",")?;
            }
            labels.push(self.name("a label name")?);
        }
        Ok(labels)
    }

    fn grouping(&mut self) -> Result<Option<Grouping>> {
        let without = match self.peek() {
            Token::Word(word) if word == "by" => false,
            Token::Word(word) if word == "without" => true,
            _ => return Ok(None),
        };
        self.next();
        Ok(Some(Grouping { without, labels: self.labels()? }))
    }

    fn metric_one(&mut self) -> Result<Metric> {
        let word = match self.peek() {
            Token::Sign("(") => {
                self.next();
                let metric = self.metric(0)?;
                self.expect(")")?;
                return Ok(metric);
            }
            Token::Number(_) | Token::Sign("-" | "+") => return self.number().map(Metric::Literal),
            Token::Sign("{") => {
                return Err(self.error("a selector of lines where a number is needed; put it into an aggregation, such as count_over_time({…}[5m])"));
            }
            Token::Word(word) => word.clone(),
            _ => return Err(self.unexpected("an aggregation, a number or \"(\"")),
        };
        if let Some(op) = RangeOp::named(&word) {
            self.next();
            return self.range_aggregation(op);
        }
        if let Some(op) = VectorOp::named(&word) {
            self.next();
            return self.vector_aggregation(op);
        }
        match word.as_str() {
            "vector" => {
                self.next();
                self.expect("(")?;
                let value = self.number()?;
                self.expect(")")?;
                Ok(Metric::VectorLiteral(value))
            }
            "label_replace" => {
                self.next();
                self.expect("(")?;
                let inner = Box::new(self.metric(0)?);
                let mut texts = Vec::new();
                for _ in 0..4 {
                    self.expect(",")?;
                    texts.push(self.string()?);
                }
                self.expect(")")?;
                let [to, replacement, from, pattern] =
                    <[String; 4]>::try_from(texts).expect("four were read");
                let is_name = |name: &str| {
                    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
                        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
                };
                if !is_name(&to) {
                    return Err(
                        self.error_before(format!("invalid label name \"{to}\" in label_replace"))
                    );
                }
                let regex = self.regex(&format!("^(?s:{pattern})$"))?;
                Ok(Metric::LabelReplace { inner, to, replacement, from, regex, pattern })
            }
            "rate_counter" | "approx_topk" | "variants" => {
                Err(self.error(format!("not supported: {word}")))
            }
            _ => Err(self.error(format!("syntax error: there is no function \"{word}\""))),
        }
    }

    fn vector_aggregation(&mut self, op: VectorOp) -> Result<Metric> {
        let before = self.grouping()?;
        self.expect("(")?;
        let mut parameter = None;
        if op.takes_parameter() {
            let value = self.number()?;
            if !(value >= 1.0 && value.fract() == 0.0 && value < 1e9) {
                let message = format!(
                    "invalid parameter for {}: it must be a whole number above 0",
                    op.name()
                );
                return Err(self.error_before(message));
            }
            parameter = Some(value);
            self.expect(",")?;
        }
        let inner = Box::new(self.metric(0)?);
        self.expect(")")?;
        let behind = if before.is_none() { self.grouping()? } else { None };
        let grouping = before.or(behind);
        if grouping.is_some() && matches!(op, VectorOp::Sort | VectorOp::SortDesc) {
            return Err(
                self.error_before(format!("grouping not allowed for {} aggregation", op.name()))
            );
        }
        if let Metric::Literal(_) = *inner {
            return Err(self.error_before(format!("{} needs series, not a number", op.name())));
        }
        Ok(Metric::Vector { op, parameter, grouping, inner })
    }

    fn range_aggregation(&mut self, op: RangeOp) -> Result<Metric> {
        self.expect("(")?;
        let mut parameter = None;
        if op == RangeOp::Quantile {
            parameter = Some(self.number()?);
            self.expect(",")?;
        }
        let mut range = self.log_range()?;
        self.expect(")")?;
        range.op = op;
        range.parameter = parameter;
        range.grouping = self.grouping()?;
        match (op.wants_unwrap(), range.unwrap.is_some()) {
            (Some(true), false) => {
                let message = format!("invalid aggregation {} without unwrap", op.name());
                return Err(self.error_before(message));
            }
            (Some(false), true) => {
                let message = format!("invalid aggregation {} with unwrap", op.name());
                return Err(self.error_before(message));
            }
            _ => {}
        }
        if range.grouping.is_some() && !op.takes_grouping() {
            let message = format!("grouping not allowed for {} aggregation", op.name());
            return Err(self.error_before(message));
        }
        Ok(Metric::Range(Box::new(range)))
    }

    /// What stands in the parentheses of a range aggregation.
    fn log_range(&mut self) -> Result<RangeAggregation> {
        let mut range = RangeAggregation {
            op: RangeOp::Count,
            parameter: None,
            query: LogQuery { matchers: Vec::new(), stages: Vec::new() },
            unwrap: None,
            range_ns: 0,
            offset_ns: 0,
            grouping: None,
        };
        self.log_range_parts(&mut range)?;
        if range.range_ns == 0 {
            return Err(self.unexpected("a range, such as [5m]"));
        }
        Ok(range)
    }

    /// The range may stand behind the selector, the stages, or parentheses around them.
    fn log_range_parts(&mut self, range: &mut RangeAggregation) -> Result<()> {
        if self.eat("(") {
            self.nested(|p| p.log_range_parts(range))?;
            self.expect(")")?;
        } else {
            range.query.matchers = self.selector()?;
        }
        loop {
            if self.peek() == &Token::Sign("[") {
                if range.range_ns != 0 {
                    return Err(self.error("the range stands twice"));
                }
                self.next();
                range.range_ns = self.duration()?;
                if range.range_ns <= 0 {
                    return Err(self.error_before("the range has to be above 0"));
                }
                self.expect("]")?;
                if self.eat_word("offset") {
                    range.offset_ns = self.duration()?;
                }
            } else if self.starts_unwrap() {
                if range.unwrap.is_some() {
                    return Err(self.error("unwrap stands twice"));
                }
                range.unwrap = Some(self.unwrap()?);
            } else {
                let stages = self.stages()?;
                if stages.is_empty() {
                    return Ok(());
                }
                if range.unwrap.is_some() {
                    return Err(self.error_before("only tests of labels stand behind unwrap"));
                }
                // Written behind each other they would be another query.
                let named = match range.query.stages.last() {
                    Some(Stage::Drop(named) | Stage::Keep(named)) => named.last(),
                    _ => None,
                };
                if let (Some(Named::Name(_)), Stage::Line(filter)) = (named, &stages[0])
                    && filter.negated
                {
                    return Err(self.error_before("write the line filter before drop or keep"));
                }
                range.query.stages.extend(stages);
                if range.query.stages.len() > STAGES_MAX {
                    return Err(self.error_before(format!("more than {STAGES_MAX} stages")));
                }
            }
        }
    }

    fn unwrap(&mut self) -> Result<Unwrap> {
        self.next();
        self.next();
        let word = self.name("a label name")?;
        let conversion = match word.as_str() {
            "bytes" => Conversion::Bytes,
            "duration" => Conversion::Duration("duration"),
            "duration_seconds" => Conversion::Duration("duration_seconds"),
            _ => Conversion::Number,
        };
        let (label, conversion) = if self.peek() == &Token::Sign("(") {
            if conversion == Conversion::Number {
                let message = format!(
                    "not supported: conversion {word}(); there are bytes, duration and duration_seconds"
                );
                return Err(self.error_before(message));
            }
            self.next();
            let label = self.name("a label name")?;
            self.expect(")")?;
            (label, conversion)
        } else {
            (word, Conversion::Number)
        };
        let mut filters = Vec::new();
        while self.peek() == &Token::Sign("|") && !self.starts_unwrap() {
            self.next();
            filters.push(self.label_test()?);
        }
        Ok(Unwrap { label, conversion, filters })
    }
}
