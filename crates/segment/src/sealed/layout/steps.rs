//! The steps through a line from left to right: where each value is, which values enclose others,
//! and which are folded.

use record::Place;

use super::gap::is_literal;
use super::{Element, Part};

/// A step through a line, from left to right. `part` is the index among the row's fields.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Step {
    Value { part: u16, column: u32 },
    Open { part: u16 },
    Close { part: u16 },
    Folded(Folded),
}

/// Values of a stem that are in the line, with the literals around them: always the same text at
/// the same position.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Folded {
    at: u32,
    pub(super) text: Box<[u8]>,
    pub(super) elements: Vec<Element>,
    /// Indexes of the first and the last value.
    first: u16,
    last: u16,
}

impl Step {
    /// The parts where the text begins and ends.
    pub(super) fn ends(&self) -> (usize, usize) {
        match *self {
            Step::Value { part, .. } | Step::Open { part } | Step::Close { part } => {
                (part.into(), part.into())
            }
            Step::Folded(Folded { first, last, .. }) => (first.into(), last.into()),
        }
    }

    /// Where the gap before the text ends, and where the next gap begins.
    #[inline]
    pub(super) fn bounds(&self, parts: &[Part]) -> (usize, usize) {
        let span = |part: u16| match parts[usize::from(part)] {
            (_, Place::Line(at), length) => (at as usize, (at + length) as usize),
            _ => (0, 0),
        };
        match self {
            Step::Value { part, .. } => span(*part),
            Step::Open { part } => (span(*part).0, span(*part).0),
            Step::Close { part } => (span(*part).1, span(*part).1),
            Step::Folded(folded) => folded.bounds(),
        }
    }
}

impl Folded {
    #[inline]
    fn bounds(&self) -> (usize, usize) {
        (self.at as usize, self.at as usize + self.text.len())
    }
}

/// The steps through a line with these parts, and the parts that cannot be represented by steps.
pub(super) fn arrange(parts: &[Part]) -> (Vec<Step>, Vec<u16>) {
    let mut spans: Vec<(u32, u32, u16)> = Vec::new();
    for (part, (_, position, length)) in parts.iter().enumerate() {
        if let Place::Line(at) = position
            && *length > 0
        {
            spans.push((*at, at + length, part as u16));
        }
    }
    spans.sort_by_key(|&(from, to, part)| (from, std::cmp::Reverse(to), part));
    let (mut steps, mut apart) = (Vec::new(), Vec::new());
    let mut open: Vec<(u32, u16)> = Vec::new();
    let mut spans = spans.into_iter().peekable();
    while let Some((from, to, part)) = spans.next() {
        while let Some(&(end, outer)) = open.last()
            && end <= from
        {
            steps.push(Step::Close { part: outer });
            open.pop();
        }
        if open.last().is_some_and(|&(end, _)| to > end) {
            apart.push(part);
        } else if spans.peek().is_some_and(|&(next, next_to, _)| next < to && next_to <= to) {
            steps.push(Step::Open { part });
            open.push((to, part));
        } else {
            steps.push(Step::Value { part, column: 0 });
            // A part that begins inside a value and ends outside it cannot be represented.
            open.push((to, part));
            while spans.peek().is_some_and(|&(next, ..)| next < to) {
                apart.extend(spans.next().map(|(.., part)| part));
            }
            open.pop();
        }
    }
    steps.extend(open.into_iter().rev().map(|(_, part)| Step::Close { part }));
    (steps, apart)
}

/// The same steps, with the steps through the parts from `own` on, which belong to the row's stem,
/// joined to texts.
pub(super) fn fold(steps: Vec<Step>, parts: &[Part], own: u16, line: &[u8]) -> Vec<Step> {
    let mut folded: Vec<Step> = Vec::new();
    let mut at = 0;
    for step in steps {
        let (from, to) = step.bounds(parts);
        let (first, last) = step.ends();
        let gap = &line[at..from];
        let joins = match folded.last_mut() {
            None => is_literal(gap),
            Some(Step::Folded(before)) if is_literal(gap) => {
                before.put_literal(gap);
                true
            }
            Some(_) => false,
        };
        if (first as u16) < own {
            folded.push(step);
        } else {
            if !matches!(folded.last(), Some(Step::Folded(_)) if joins) {
                let begin = if joins { at } else { from };
                let mut new = Folded {
                    at: begin as u32,
                    text: Box::default(),
                    elements: Vec::new(),
                    first: first as u16,
                    last: last as u16,
                };
                new.put_literal(&line[begin..from]);
                folded.push(Step::Folded(new));
            }
            let Some(Step::Folded(text)) = folded.last_mut() else { unreachable!("it is one") };
            text.put(&step, &line[from..to]);
        }
        at = to;
    }
    folded
}

impl Folded {
    fn put_literal(&mut self, text: &[u8]) {
        if !text.is_empty() {
            self.elements.push(Element::Literal(text.into()));
            self.text = [&self.text, text].concat().into();
        }
    }

    fn put(&mut self, step: &Step, text: &[u8]) {
        self.last = step.ends().1 as u16;
        match *step {
            Step::Value { part, .. } => {
                self.elements.push(Element::Open(part));
                self.put_literal(text);
                self.elements.push(Element::Close(part));
            }
            Step::Open { part } => self.elements.push(Element::Open(part)),
            Step::Close { part } => self.elements.push(Element::Close(part)),
            Step::Folded(_) => unreachable!("steps are folded once"),
        }
    }
}
