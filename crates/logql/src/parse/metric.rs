//! Queries for samples: aggregations over lines and over series, and operations between them.

use super::{NESTING_MAX, Parser, Result, STAGES_MAX};
use crate::ast::*;
use crate::lex::Token;

/// A query for samples, and the height of its tree.
pub(super) struct Part {
    pub metric: Metric,
    height: usize,
}

impl Part {
    fn leaf(metric: Metric) -> Part {
        Part { metric, height: 1 }
    }
}

/// Whether a query has one number for all times, and no series: a number, or operations between
/// such.
fn is_number(metric: &Metric) -> bool {
    match metric {
        Metric::Literal(_) => true,
        Metric::Binary { left, right, .. } => is_number(left) && is_number(right),
        Metric::Range(_)
        | Metric::Vector { .. }
        | Metric::VectorLiteral(_)
        | Metric::LabelReplace { .. } => false,
    }
}

impl Parser<'_> {
    pub(super) fn metric(&mut self) -> Result<Part> {
        self.nested(|p| {
            let first = p.metric_one()?;
            p.operations(first, 1)
        })
    }

    /// The next operator, if its precedence is at least `least`.
    fn peek_operator(&self, least: u8) -> Option<BinaryOp> {
        let op = match self.peek() {
            Token::Sign(sign) => BinaryOp::named(sign),
            Token::Word(word) => BinaryOp::named(word),
            _ => None,
        };
        op.filter(|op| op.precedence() >= least)
    }

    /// Parses operators with a precedence of at least `least`, with `left` as the first operand.
    fn operations(&mut self, mut left: Part, least: u8) -> Result<Part> {
        while let Some(op) = self.peek_operator(least) {
            self.next();
            let modifier = self.binary_modifier(op)?;
            // `^` is right-associative, all others are left-associative.
            let right_least =
                if op == BinaryOp::Power { op.precedence() } else { op.precedence() + 1 };
            let mut right = self.metric_one()?;
            if self.peek_operator(right_least).is_some() {
                right = self.nested(|p| p.operations(right, right_least))?;
            }
            let scalar = |side: &Part| is_number(&side.metric);
            if op.is_set() && (scalar(&left) || scalar(&right)) {
                let side = if scalar(&left) { "left" } else { "right" };
                let message = format!(
                    "unexpected literal for {side} leg of logical/set binary operation ({})",
                    op.name()
                );
                return Err(self.error_before(message));
            }
            // A chain of operators makes a tree as deep as it is long, without any nesting in the
            // text.
            let height = self.above(left.height.max(right.height))?;
            let metric = Metric::Binary {
                op,
                modifier: Box::new(modifier),
                left: Box::new(left.metric),
                right: Box::new(right.metric),
            };
            left = Part { metric, height };
        }
        Ok(left)
    }

    /// The height of an expression around one of height `inner`.
    fn above(&self, inner: usize) -> Result<usize> {
        if inner < NESTING_MAX {
            return Ok(inner + 1);
        }
        Err(self.error_before(format!(
            "more than {NESTING_MAX} nested expressions; each operator of a chain such as a + b + c encloses \
             those before it: put parts of a long chain into parentheses, (a + b) + (c + d), or send several queries"
        )))
    }

    fn binary_modifier(&mut self, op: BinaryOp) -> Result<BinaryModifier> {
        let mut modifier = BinaryModifier::default();
        if self.is_word("bool") {
            if !op.is_comparison() {
                return Err(self.error("bool can be used with comparisons only"));
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
                        "{word} can be used only after on() or ignoring() of an arithmetic operation"
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

    /// Whether the next parentheses contain only names.
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

    fn metric_one(&mut self) -> Result<Part> {
        let word = match self.peek() {
            Token::Sign("(") => {
                self.next();
                let metric = self.metric()?;
                self.expect(")")?;
                return Ok(metric);
            }
            Token::Number(_) | Token::Sign("-" | "+") => {
                return self.number().map(Metric::Literal).map(Part::leaf);
            }
            Token::Sign("{") => {
                return Err(self.error("a log selector where a number is needed; put it into an aggregation, such as count_over_time({…}[5m])"));
            }
            Token::Word(word) => word.clone(),
            _ => return Err(self.unexpected("an aggregation, a number or \"(\"")),
        };
        if let Some(op) = RangeOp::named(&word) {
            self.next();
            return self.range_aggregation(op).map(Part::leaf);
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
                Ok(Part::leaf(Metric::VectorLiteral(value)))
            }
            "label_replace" => self.label_replace(),
            "variants" => Err(self.error(format!("not supported: {word}"))),
            _ => Err(self.error(format!("syntax error: there is no function \"{word}\""))),
        }
    }

    fn label_replace(&mut self) -> Result<Part> {
        self.next();
        self.expect("(")?;
        let inner = self.metric()?;
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
            return Err(self.error_before(format!("invalid label name \"{to}\" in label_replace")));
        }
        let regex = self.regex(&format!("^(?s:{pattern})$"))?;
        let height = self.above(inner.height)?;
        let inner = Box::new(inner.metric);
        let metric = Metric::LabelReplace { inner, to, replacement, from, regex, pattern };
        Ok(Part { metric, height })
    }

    fn vector_aggregation(&mut self, op: VectorOp) -> Result<Part> {
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
        let inner = self.metric()?;
        self.expect(")")?;
        let behind = if before.is_none() { self.grouping()? } else { None };
        let grouping = before.or(behind);
        if grouping.is_some() && !op.takes_grouping() {
            return Err(
                self.error_before(format!("grouping not allowed for {} aggregation", op.name()))
            );
        }
        if is_number(&inner.metric) {
            return Err(self.error_before(format!("{} needs series, not a number", op.name())));
        }
        let height = self.above(inner.height)?;
        let metric = Metric::Vector { op, parameter, grouping, inner: Box::new(inner.metric) };
        Ok(Part { metric, height })
    }

    fn range_aggregation(&mut self, op: RangeOp) -> Result<Metric> {
        self.expect("(")?;
        let mut parameter = None;
        if op == RangeOp::Quantile {
            // A sign is refused, as in Loki.
            let Token::Number(quantile) = *self.peek() else {
                return Err(self.unexpected("a number"));
            };
            self.next();
            parameter = Some(quantile);
            self.expect(",")?;
        }
        let mut counted = None;
        if op == RangeOp::Distinct {
            counted = Some(self.name("the label whose values are counted")?);
            self.expect(",")?;
        }
        let mut range = self.log_range()?;
        self.expect(")")?;
        range.op = op;
        range.parameter = parameter;
        range.grouping = self.grouping()?;
        if let Some(counted) = &counted {
            self.check_distinct(counted, &range)?;
        }
        range.counted = counted;
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

    fn check_distinct(&self, counted: &str, range: &RangeAggregation) -> Result<()> {
        let name = RangeOp::Distinct.name();
        let message = match &range.grouping {
            _ if range.unwrap.is_some() => format!("unwrap is not supported for {name}()"),
            Some(grouping) if grouping.without => {
                format!("without is not supported for {name}()")
            }
            Some(grouping) if grouping.labels.iter().any(|label| label == counted) => {
                format!("cannot group by the counted field \"{counted}\"")
            }
            _ => return Ok(()),
        };
        Err(self.error_before(message))
    }

    /// Parses the parentheses of a range aggregation.
    fn log_range(&mut self) -> Result<RangeAggregation> {
        let mut range = RangeAggregation {
            op: RangeOp::Count,
            parameter: None,
            counted: None,
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

    /// The range may follow the selector, the stages, or parentheses around them.
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
                    return Err(self.error("the range is given twice"));
                }
                self.next();
                range.range_ns = self.duration()?;
                if range.range_ns <= 0 {
                    return Err(self.error_before("the range must be above 0"));
                }
                self.expect("]")?;
                if self.eat_word("offset") {
                    range.offset_ns = self.duration()?;
                }
            } else if self.starts_unwrap() {
                if range.unwrap.is_some() {
                    return Err(self.error("unwrap is given twice"));
                }
                range.unwrap = Some(self.unwrap()?);
            } else {
                let stages = self.stages()?;
                if stages.is_empty() {
                    return Ok(());
                }
                if range.unwrap.is_some() {
                    return Err(self.error_before("only tests of labels may follow unwrap"));
                }
                // Written one after another they would be another query.
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
                    "not supported: conversion {word}(); supported are bytes, duration and duration_seconds"
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
