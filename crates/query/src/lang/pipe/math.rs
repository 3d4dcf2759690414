//! `math a + b * 2 as c, round(c / 1KB, 0.1) d` or `eval …`: numbers computed from fields.
//!
//! Operators from tight to loose binding: `^`; `*`, `/`, `%`; `+`, `-`; `&`; `xor`; `or`;
//! `default`; those of equal binding from the left. Functions: `abs`, `ceil`, `exp`, `floor`, `ln`,
//! `max`, `min`, `now`, `rand`, `round`. A value counts as a number as in filters, a time as
//! nanoseconds since 1970. Any other value is `NaN`, which `default` replaces by another number. A
//! name with characters other than letters, digits, `_` and `.` is quoted.
//!
//! An expression is stored as steps of a stack machine, so that neither its length nor its depth
//! uses the call stack.

use std::fmt;
use std::ops::Range;

use text::quoted::quote;

use super::compute::{Compute, ComputePipe, Output};
use super::operator::{Documentation, Registration, one};
use super::shown::Shown;
use crate::base::bitmap::Bitmap;
use crate::base::number::{parse_comparable, parse_number, write_number};
use crate::base::{FieldSet, RunError};
use crate::block::{Block, Column, Scratch};
use crate::lang::pipe::ComputesNumbers;
use crate::lang::syntax::cursor::{Cursor, is_word_char, quote_name};
use crate::lang::syntax::error::ParseError;
use crate::lang::syntax::macros;

/// Most steps of an expression: numbers, fields and operations. A longer one is refused.
const STEPS_MAX: usize = 1_000;

/// The `math` pipe.
#[derive(Clone, Debug, PartialEq)]
pub struct Math {
    /// The expressions, in order; later ones see the results of earlier ones.
    pub entries: Vec<MathEntry>,
}

/// An expression and the field for its value.
#[derive(Clone, Debug, PartialEq)]
pub struct MathEntry {
    /// The expression.
    pub expression: Expression,
    /// Name of the result field.
    pub result: String,
}

/// An expression as steps of a stack machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    /// Pushes a number; also holds its text in the query.
    Number(f64, String),
    /// Pushes the value of a field.
    Field(String),
    /// Pops two values, pushes one.
    Binary(Binary),
    /// Pops this many values, pushes one.
    Call(Function, usize),
    /// Pushes the time at which the query was parsed, nanoseconds since 1970 UTC.
    Now(i64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Binary {
    Power,
    Times,
    Divide,
    Remainder,
    Plus,
    Minus,
    And,
    Xor,
    Or,
    Default,
}

/// The text of each operator, and how tightly it binds: a lower number binds tighter.
const BINARIES: [(&str, Binary, u8); 10] = [
    ("^", Binary::Power, 1),
    ("*", Binary::Times, 2),
    ("/", Binary::Divide, 2),
    ("%", Binary::Remainder, 2),
    ("+", Binary::Plus, 3),
    ("-", Binary::Minus, 3),
    ("&", Binary::And, 4),
    ("xor", Binary::Xor, 5),
    ("or", Binary::Or, 6),
    ("default", Binary::Default, 10),
];

/// Looser than every operator.
const LOOSEST: u8 = u8::MAX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Function {
    Negate,
    Abs,
    Ceil,
    Exp,
    Floor,
    Ln,
    Max,
    Min,
    Rand,
    Round,
}

/// Name, and least and greatest number of arguments.
const FUNCTIONS: [(&str, Function, usize, usize); 9] = [
    ("abs", Function::Abs, 1, 1),
    ("ceil", Function::Ceil, 1, 1),
    ("exp", Function::Exp, 1, 1),
    ("floor", Function::Floor, 1, 1),
    ("ln", Function::Ln, 1, 1),
    ("max", Function::Max, 2, STEPS_MAX),
    ("min", Function::Min, 2, STEPS_MAX),
    ("rand", Function::Rand, 0, 0),
    ("round", Function::Round, 1, 2),
];

pub(super) static MATH: Registration = Registration {
    doc: Documentation {
        name: "math",
        aliases: &["eval"],
        syntax: "math <expression> [as <name>], …",
        summary: "computes numbers from fields",
        example: "math took / 1s as seconds, round(seconds, 0.1) r",
    },
    parse: |cursor| parse(cursor).map(one),
};

pub(super) fn parse(cursor: &mut Cursor<'_>) -> Result<Math, ParseError> {
    let mut entries = Vec::new();
    loop {
        let mut steps = Vec::new();
        parse_binary(cursor, LOOSEST, &mut steps)?;
        let expression = Expression { steps };
        let named = cursor.eat_keyword("as");
        let result = match cursor.string(false)? {
            Some(name) => name.text,
            None if named => cursor.expect_string(false, "a name for the result")?.text,
            None => expression.to_string(),
        };
        entries.push(MathEntry { expression, result });
        if !cursor.eat(',') {
            return Ok(Math { entries });
        }
    }
}

/// Parses operations that bind tighter than `limit`, and appends their steps.
fn parse_binary(
    cursor: &mut Cursor<'_>,
    limit: u8,
    steps: &mut Vec<Step>,
) -> Result<(), ParseError> {
    parse_operand(cursor, steps)?;
    loop {
        let found = BINARIES
            .iter()
            .find(|(sign, _, looseness)| *looseness < limit && comes_next(cursor, sign));
        let Some(&(sign, binary, looseness)) = found else { return Ok(()) };
        if sign.starts_with(|c: char| c.is_ascii_alphabetic()) {
            cursor.eat_keyword(sign);
        } else {
            cursor.eat(sign.chars().next().expect("a sign"));
        }
        cursor.nested(|c| parse_binary(c, looseness, steps))?;
        push(cursor, steps, Step::Binary(binary))?;
    }
}

fn comes_next(cursor: &mut Cursor<'_>, sign: &str) -> bool {
    match sign.chars().next() {
        Some(c) if !c.is_ascii_alphabetic() => cursor.peek() == Some(c),
        _ => cursor.peek_word(false).eq_ignore_ascii_case(sign),
    }
}

fn push(cursor: &mut Cursor<'_>, steps: &mut Vec<Step>, step: Step) -> Result<(), ParseError> {
    if steps.len() == STEPS_MAX {
        return Err(cursor.error(&[], format!("the expression has more than {STEPS_MAX} parts")));
    }
    steps.push(step);
    Ok(())
}

fn parse_operand(cursor: &mut Cursor<'_>, steps: &mut Vec<Step>) -> Result<(), ParseError> {
    if cursor.eat('(') {
        cursor.nested(|c| parse_binary(c, LOOSEST, steps))?;
        return cursor.expect(')', "the expression in parentheses");
    }
    if cursor.eat('+') {
        return cursor.nested(|c| parse_operand(c, steps));
    }
    if cursor.eat('-') {
        cursor.nested(|c| parse_operand(c, steps))?;
        return push(cursor, steps, Step::Call(Function::Negate, 1));
    }
    if let Some(called) = macros::called(cursor)? {
        return macros::expand(cursor, called, |c| parse_binary(c, LOOSEST, steps));
    }
    if macros::argument_is_next(cursor) {
        return macros::expand_argument(cursor, |c| parse_binary(c, LOOSEST, steps));
    }
    const STOPS: &str = "+-*/%^&(),|\"'`";
    let mut written = cursor.run(STOPS, "a number, a field or a function")?;
    if written.quoted {
        let number = parse_math_number(written.text.as_bytes());
        let step = match !number.is_finite() {
            true => Step::Field(written.text),
            false => Step::Number(number, written.text),
        };
        return push(cursor, steps, step);
    }
    let is_number = written.text.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    if is_number || written.text.eq_ignore_ascii_case("inf") {
        // The sign belongs to the exponent of a number.
        if written.text.ends_with(['e', 'E']) && matches!(cursor.adjacent(), Some('+' | '-')) {
            let sign = if cursor.eat_adjacent('-') {
                '-'
            } else {
                cursor.eat_adjacent('+');
                '+'
            };
            let exponent = cursor.run(STOPS, "an exponent")?;
            written.text = format!("{}{sign}{}", written.text, exponent.text);
        }
        let Some(number) = parse_number(written.text.as_bytes()) else {
            let expected = &["a number such as 10, 1.5KB or 250ms", "a field name in quotes"];
            return Err(cursor.error_at(written.position, expected, "this is not a number"));
        };
        return push(cursor, steps, Step::Number(number, written.text));
    }
    if cursor.peek() == Some('(') {
        return parse_call(cursor, &written.text.to_ascii_lowercase(), written.position, steps);
    }
    push(cursor, steps, Step::Field(written.text))
}

fn parse_call(
    cursor: &mut Cursor<'_>,
    name: &str,
    position: usize,
    steps: &mut Vec<Step>,
) -> Result<(), ParseError> {
    let names: Vec<&str> = FUNCTIONS.iter().map(|f| f.0).chain(["now"]).collect();
    if !names.contains(&name) {
        return Err(cursor.error_at(
            position,
            &names,
            format!("there is no math function \"{name}\""),
        ));
    }
    cursor.expect('(', name)?;
    let mut arguments = 0;
    while !cursor.eat(')') {
        cursor.nested(|c| parse_binary(c, LOOSEST, steps))?;
        arguments += 1;
        if !cursor.eat(',') {
            cursor.expect(')', name)?;
            break;
        }
    }
    let known = FUNCTIONS.iter().find(|f| f.0 == name);
    let (fewest, most) = known.map_or((0, 0), |f| (f.2, f.3));
    if !(fewest..=most).contains(&arguments) {
        let wanted = match (fewest, most) {
            (fewest, most) if fewest == most => format!("{fewest}"),
            (fewest, STEPS_MAX) => format!("at least {fewest}"),
            (fewest, most) => format!("{fewest} or {most}"),
        };
        let message = format!("{name}() takes {wanted} arguments, not {arguments}");
        return Err(cursor.error_at(position, &[], message));
    }
    let step = known.map_or(Step::Now(cursor.now_ns), |f| Step::Call(f.1, arguments));
    push(cursor, steps, step)
}

impl fmt::Display for Math {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("math ")?;
        for (i, MathEntry { expression, result }) in self.entries.iter().enumerate() {
            write!(f, "{}{expression} as {}", if i > 0 { ", " } else { "" }, quote_name(result))?;
        }
        Ok(())
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Texts, and how loosely they bind. Parentheses are written only where the query needs
        // them, so that the nesting does not grow.
        let mut stack: Vec<(String, u8)> = Vec::new();
        let bracketed = |(text, looseness): (String, u8), limit: u8| match looseness > limit {
            true => format!("({text})"),
            false => text,
        };
        for step in &self.steps {
            let mut binds = 0;
            let text = match step {
                Step::Number(_, text) => {
                    let plain = text.eq_ignore_ascii_case("inf")
                        || text.starts_with(|c: char| c.is_ascii_digit())
                            && text.chars().all(|c| is_word_char(c) || c == '.');
                    if plain { text.clone() } else { quote(text) }
                }
                Step::Field(name) => {
                    let plain = name.starts_with(|c: char| is_word_char(c) && !c.is_ascii_digit())
                        && name.chars().all(|c| is_word_char(c) || c == '.')
                        && !name.eq_ignore_ascii_case("inf")
                        && !BINARIES.iter().any(|(sign, ..)| name.eq_ignore_ascii_case(sign));
                    if plain { quote_name(name) } else { quote(name) }
                }
                Step::Now(_) => "now()".to_owned(),
                Step::Binary(binary) => {
                    let right = stack.pop().expect("an operand");
                    let left = stack.pop().expect("an operand");
                    let (sign, _, looseness) =
                        BINARIES.iter().find(|b| b.1 == *binary).expect("is listed");
                    binds = *looseness;
                    // Operators of equal binding group from the left.
                    let (left, right) =
                        (bracketed(left, binds), bracketed(right, binds.saturating_sub(1)));
                    format!("{left} {sign} {right}")
                }
                Step::Call(Function::Negate, _) => {
                    format!("-{}", bracketed(stack.pop().expect("an operand"), 0))
                }
                Step::Call(function, count) => {
                    let arguments: Vec<String> =
                        stack.split_off(stack.len() - count).into_iter().map(|a| a.0).collect();
                    let arguments = arguments.join(", ");
                    let (name, ..) =
                        FUNCTIONS.iter().find(|f| f.1 == *function).expect("is listed");
                    format!("{name}({arguments})")
                }
            };
            stack.push((text, binds));
        }
        f.write_str(&stack.pop().expect("a value").0)
    }
}

impl Expression {
    fn fields(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().filter_map(|step| match step {
            Step::Field(name) => Some(name.as_str()),
            _ => None,
        })
    }
}

impl ComputePipe for Math {
    fn prepare(&self) -> Box<dyn Compute> {
        Box::new(self.clone())
    }

    fn needed_fields(&self, wanted: &mut FieldSet) {
        for MathEntry { expression, result } in self.entries.iter().rev() {
            if wanted.contains(result) {
                wanted.remove(result);
                expression.fields().for_each(|name| wanted.add(name));
            }
        }
    }

    fn results(&self) -> Vec<&str> {
        self.entries.iter().map(|entry| entry.result.as_str()).collect()
    }

    fn computes_numbers(&self) -> Option<&dyn ComputesNumbers> {
        Some(self)
    }

    fn follow_names(&self, shown: &mut Shown, _is_range: bool) -> Result<(), String> {
        self.results().into_iter().for_each(|name| shown.add_value(name));
        Ok(())
    }
}

/// Where a step reads its field.
#[derive(Clone, Copy)]
enum Place<'n> {
    Column(Column<'n>),
    /// The result of an earlier entry.
    Entry(usize),
}

impl Compute for Math {
    fn compute(
        &self,
        block: &Block,
        rows: &Bitmap,
        out: &mut Output<'_>,
        scratch: &mut Scratch,
    ) -> Result<(), RunError> {
        let place = |entry: usize, name| {
            self.entry_before(entry, name)
                .map_or_else(|| Place::Column(block.column(name)), Place::Entry)
        };
        let places: Vec<Vec<Place<'_>>> = (0..self.entries.len())
            .map(|i| self.entries[i].expression.fields().map(|name| place(i, name)).collect())
            .collect();
        let results: Vec<usize> =
            self.entries.iter().map(|entry| out.column(&entry.result)).collect();
        let mut values = vec![0.0; self.entries.len()];
        let mut stack = Vec::new();
        for row in rows.iter() {
            for (number, entry) in self.entries.iter().enumerate() {
                let mut fields = places[number].iter();
                let value = evaluate(&entry.expression.steps, &mut stack, || {
                    match *fields.next().expect("as many as there are fields") {
                        Place::Entry(entry) => values[entry],
                        Place::Column(column @ (Column::Time | Column::Received)) => {
                            block.time_ns(column, row, scratch).map_or(f64::NAN, |ns| ns as f64)
                        }
                        Place::Column(column) => {
                            parse_math_number(block.value(column, row, scratch))
                        }
                    }
                });
                values[number] = value;
                out.set_with(results[number], row, |out| write_number(value, out))?;
            }
        }
        Ok(())
    }
}

/// The number that a value represents; else `NaN`.
fn parse_math_number(value: &[u8]) -> f64 {
    parse_comparable(value).unwrap_or(f64::NAN)
}

impl Math {
    /// The entry before `entry` whose result `name` is.
    fn entry_before(&self, entry: usize, name: &str) -> Option<usize> {
        self.entries[..entry].iter().rposition(|entry| entry.result == name)
    }
}

/// Rows for which an expression is evaluated at a time: bounds the numbers that its steps hold.
const ROWS_TOGETHER: usize = 1_024;

impl ComputesNumbers for Math {
    fn read(&self) -> Vec<&str> {
        let entries = self.entries.iter().enumerate();
        let fields = entries.flat_map(|(place, e)| e.expression.fields().map(move |f| (place, f)));
        let read = fields.filter(|(place, name)| self.entry_before(*place, name).is_none());
        let mut names: Vec<&str> = read.map(|(_, name)| name).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    fn computed(&self) -> Vec<&str> {
        self.results()
    }

    fn compute(&self, rows: usize, read: &[&[f64]]) -> Vec<Vec<f64>> {
        let names = self.read();
        let mut results: Vec<Vec<f64>> = Vec::with_capacity(self.entries.len());
        for (place, entry) in self.entries.iter().enumerate() {
            let numbers_of = |name: &str| match self.entry_before(place, name) {
                Some(before) => &results[before][..],
                None => read[names.binary_search(&name).expect("it is read")],
            };
            let fields: Vec<&[f64]> = entry.expression.fields().map(numbers_of).collect();
            let mut numbers = Vec::with_capacity(rows);
            for from in (0..rows).step_by(ROWS_TOGETHER) {
                let rows = from..rows.min(from + ROWS_TOGETHER);
                numbers.extend(evaluate_rows(&entry.expression.steps, rows, &fields));
            }
            results.push(numbers);
        }
        results
    }
}

/// As [`evaluate`], for several rows: `fields` has the numbers of each field that occurs, in order.
fn evaluate_rows(steps: &[Step], rows: Range<usize>, fields: &[&[f64]]) -> Vec<f64> {
    let mut fields = fields.iter();
    let mut stack: Vec<Vec<f64>> = Vec::new();
    let mut arguments = Vec::new();
    for step in steps {
        let values = match step {
            Step::Number(number, _) => vec![*number; rows.len()],
            Step::Now(ns) => vec![*ns as f64; rows.len()],
            Step::Field(_) => {
                fields.next().expect("as many as there are fields")[rows.clone()].to_vec()
            }
            Step::Binary(binary) => {
                let right = stack.pop().expect("an operand");
                let mut left = stack.pop().expect("an operand");
                binary.of_rows(&mut left, &right);
                left
            }
            Step::Call(function, count) => {
                let operands = stack.split_off(stack.len() - count);
                let of_row = |row: usize| {
                    arguments.clear();
                    arguments.extend(operands.iter().map(|values| values[row]));
                    function.of(&arguments)
                };
                (0..rows.len()).map(of_row).collect()
            }
        };
        stack.push(values);
    }
    stack.pop().expect("a value")
}

fn evaluate(steps: &[Step], stack: &mut Vec<f64>, mut field: impl FnMut() -> f64) -> f64 {
    stack.clear();
    for step in steps {
        let value = match step {
            Step::Number(number, _) => *number,
            Step::Field(_) => field(),
            Step::Now(ns) => *ns as f64,
            Step::Binary(binary) => {
                let right = stack.pop().expect("an operand");
                let left = stack.pop().expect("an operand");
                binary.of(left, right)
            }
            Step::Call(function, count) => {
                let arguments = stack.len() - count;
                let value = function.of(&stack[arguments..]);
                stack.truncate(arguments);
                value
            }
        };
        stack.push(value);
    }
    stack.pop().expect("a value")
}

impl Binary {
    /// As [`of`](Self::of), row by row; the results replace the left operands.
    fn of_rows(self, left: &mut [f64], right: &[f64]) {
        /// A loop of its own for each operator, without a choice in it.
        fn each(left: &mut [f64], right: &[f64], of: impl Fn(f64, f64) -> f64) {
            left.iter_mut().zip(right).for_each(|(left, &right)| *left = of(*left, right));
        }
        match self {
            Binary::Times => each(left, right, |a, b| a * b),
            Binary::Divide => each(left, right, |a, b| a / b),
            Binary::Plus => each(left, right, |a, b| a + b),
            Binary::Minus => each(left, right, |a, b| a - b),
            other => each(left, right, |a, b| other.of(a, b)),
        }
    }

    fn of(self, left: f64, right: f64) -> f64 {
        let bits = |of: fn(u64, u64) -> u64| match left.is_nan() || right.is_nan() {
            true => f64::NAN,
            false => of(left as u64, right as u64) as f64,
        };
        match self {
            Binary::Power => left.powf(right),
            Binary::Times => left * right,
            Binary::Divide => left / right,
            Binary::Remainder => left % right,
            Binary::Plus => left + right,
            Binary::Minus => left - right,
            Binary::And => bits(|a, b| a & b),
            Binary::Xor => bits(|a, b| a ^ b),
            Binary::Or => bits(|a, b| a | b),
            Binary::Default if left.is_nan() => right,
            Binary::Default => left,
        }
    }
}

impl Function {
    fn of(self, arguments: &[f64]) -> f64 {
        let first = arguments.first().copied().unwrap_or(f64::NAN);
        match self {
            Function::Negate => -first,
            Function::Abs => first.abs(),
            Function::Ceil => first.ceil(),
            Function::Exp => first.exp(),
            Function::Floor => first.floor(),
            Function::Ln => first.ln(),
            Function::Max => arguments.iter().copied().fold(f64::NAN, f64::max),
            Function::Min => arguments.iter().copied().fold(f64::NAN, f64::min),
            Function::Rand => fastrand::f64(),
            Function::Round => {
                arguments.get(1).map_or(first.round(), |step| round_to(first, *step))
            }
        }
    }
}

/// The multiple of `step` that is nearest, without digits that only come from binary rounding.
fn round_to(number: f64, step: f64) -> f64 {
    let rounded = (number / step).round() * step;
    let digits = format!("{step}").split_once('.').map_or(0, |(_, digits)| digits.len());
    if digits == 0 { rounded } else { format!("{rounded:.digits$}").parse().unwrap_or(rounded) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Query;
    use crate::testing::{check_pipe, record};

    #[test]
    fn numbers_are_computed() {
        let records = [record(
            5,
            &[
                ("a", "7"),
                ("b", "2"),
                ("took", "1.56s"),
                ("size", "2KiB"),
                ("ip", "0.0.1.0"),
                ("t", "1970-01-01T00:00:01Z"),
                ("x-y", "3"),
                ("w", "word"),
            ],
        )];
        let check = |expression: &str, expected: &str| {
            check_pipe(
                &records,
                &format!("math {expression} as r | fields r"),
                &[&format!("r={expected}")],
            );
        };
        check("a + b * 2", "11");
        check("(a + b) * 2", "18");
        check("a - b - 1", "4");
        check("a / b", "3.5");
        check("a % b", "1");
        check("2 ^ 3 ^ 2", "64");
        check("-b ^ 2", "4");
        check("a-b", "5");
        check("a & 3 xor 8 or 16", "27");
        check("w default 5 + 1", "6");
        check("none default b", "2");
        check("w + 1", "NaN");
        check("round(took, 1s) / 1s", "2");
        check("round(took / 1s, 0.1)", "1.6");
        check("size / 1KiB", "2");
        check("ip", "256");
        check("t", "1000000000");
        check("_time", "5");
        check("\"12.34.56.78\" - \"12.34.56.0\"", "78");
        check("\"x-y\" + 1e-1 + 1e+1", "13.1");
        check("max(a, b, 9) - min(a, b)", "7");
        check("abs(-a) + ceil(0.5) + floor(1.5) + exp(0) + ln(1)", "10");
        check("now()", "0");
        check("floor(rand())", "0");
        check("inf", "+Inf");
        check("-INF + a", "-Inf");
        check("min(inf, a)", "7");
        check("\"inf\" default 3", "3");
        check_pipe(
            &records,
            "math a * 2 as c, c + 1 d, d - c | fields c, d, \"d - c\"",
            &["c=14 d=15 d - c=1"],
        );
        check_pipe(&records, "math 1 as a, a + 1 as a | fields a", &["a=2"]);
        check_pipe(&records, "eval (a * 1000) as b | filter b:>6000 | fields b", &["b=7000"]);
    }

    #[test]
    fn expressions_are_written_back() {
        let check = |text: &str, expected: &str| {
            let query =
                Query::parse(&format!("* | math {text}"), 0).unwrap_or_else(|e| panic!("{e}"));
            assert_eq!(query.to_string(), format!("* | math {expected}"));
            assert_eq!(Query::parse(&query.to_string(), 0).as_ref(), Ok(&query));
        };
        check("a+b*c as d", "a + b * c as d");
        check("(a+b)*c-(d-(e-f)) x", "(a + b) * c - (d - (e - f)) as x");
        check("a^b^c - (a^(b^c)) x", "a ^ b ^ c - a ^ (b ^ c) as x");
        check("-(a + b) - -(-c) x", "-(a + b) - --c as x");
        check("-a", "-a as \"-a\"");
        check("inf - \"inf\" x", "inf - \"inf\" as x");
        check("round(a, 1e-2) r", "round(a, \"1e-2\") as r");
        check("\"or\" or default default \"x y\" x", "\"or\" or \"default\" default \"x y\" as x");
    }

    #[test]
    fn long_expressions_are_refused() {
        let check = |text: String, right: bool| assert_eq!(Query::parse(&text, 0).is_ok(), right);
        let sum = |terms: usize| format!("* | math {} as x", vec!["a"; terms].join("+"));
        check(sum(STEPS_MAX / 2), true);
        check(sum(STEPS_MAX / 2 + 1), false);
        check(format!("* | math {}a{} as x", "(".repeat(99), ")".repeat(99)), true);
        check(format!("* | math {}a{} as x", "(".repeat(200), ")".repeat(200)), false);
        check(format!("* | math {}a as x", "-".repeat(1_000)), false);
        for wrong in ["abs()", "max(a)", "nix(a)", "12x", "a +", "round(a, b, c)", "(a", "a as"] {
            check(format!("* | math {wrong}"), false);
        }
    }
}
