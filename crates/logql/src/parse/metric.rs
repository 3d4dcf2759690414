//! Queries for numbers: aggregations over lines and over series, and operations between them.

use super::{Parser, Result, STAGES_MAX};
use crate::ast::*;
use crate::lex::Token;

impl Parser<'_> {
    pub(super) fn metric(&mut self, least: u8) -> Result<Metric> {
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
