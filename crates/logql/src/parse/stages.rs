//! Stages: line filters, parsers, formats, `drop` and `keep`.

use super::{Parser, Result, STAGES_MAX};
use crate::ast::{LabelSource, Named, Stage};
use crate::lex::Token;
use crate::stage::ERROR;
use crate::stage::ip::IpRange;
use crate::stage::line::{LineFilter, LineOp, Needle};
use crate::stage::path::Path;
use crate::stage::pattern::Pattern;
use crate::stage::template::{self, Template};

/// Limit of the labels to extract in `json` and `logfmt`. More are refused, because a line is
/// searched for each.
const EXTRACTIONS_MAX: usize = 100;

impl Parser<'_> {
    pub(super) fn stages(&mut self) -> Result<Vec<Stage>> {
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

    /// Whether `!=` is a line filter rather than a comparison of numbers.
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
                return Err(self.error("ip() can be used with |= and != only"));
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

    pub(super) fn ip(&mut self) -> Result<IpRange> {
        self.next();
        self.expect("(")?;
        let text = self.string()?;
        let range = IpRange::parse(&text).ok_or_else(|| {
            self.error_before(format!(
                "ip: invalid pattern: \"{text}\" is not an address, a range such as 10.0.0.1-10.0.0.9 or a network such as 10.0.0.0/8"
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
        // A label may have the name of a stage, but behind a stage without arguments `!=` is a line
        // filter.
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
                if regex.pattern().names().next().is_none() {
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
                    if name == ERROR {
                        let message = format!("{ERROR} cannot be formatted");
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
        template::parse(&text).map_err(|e| self.error_before(format!("invalid template: {e}")))
    }

    /// `a="b", c`.
    fn extractions(&mut self) -> Result<Vec<(String, String)>> {
        let mut found = Vec::new();
        while matches!(self.peek(), Token::Word(_)) {
            let name = self.name("a label name")?;
            let from = if self.eat("=") { self.string()? } else { name.clone() };
            if found.len() == EXTRACTIONS_MAX {
                let message = format!(
                    "more than {EXTRACTIONS_MAX} labels in one stage; leave them out to extract all"
                );
                return Err(self.error_before(message));
            }
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
}
