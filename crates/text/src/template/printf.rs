//! `printf` of templates, with the verbs of Go: `%s %v %q %d %f %F %e %g %G %x %t` and `%%`, the
//! flags `-`, `0`, `+` and blank, width and precision.
//!
//! Where Go shows a mistake (`%!d(string=x)`), a value that is no number stays the text that it is,
//! and `%d` rounds.

use std::iter::{Peekable, repeat_n};
use std::str::Chars;

use super::Value;
use super::number::{exponential, fixed, general, shortest};
use crate::quoted::quote;

/// Digits behind the point of a number. More are not written.
const DIGITS_MAX: usize = 100;

/// The format of `printf`, in its parts.
#[derive(Clone, Debug, PartialEq)]
pub struct Format(Vec<Part>);

#[derive(Clone, Debug, PartialEq)]
enum Part {
    Text(String),
    Verb(Verb),
}

#[derive(Clone, Debug, PartialEq)]
struct Verb {
    letter: char,
    left: bool,
    zeros: bool,
    /// What stands in front of a number that is not negative.
    sign: Option<char>,
    width: usize,
    precision: Option<usize>,
}

impl Format {
    /// Cuts a format into its parts. Widths and precisions above `width_max` are refused.
    pub fn parse(format: &str, width_max: usize) -> Result<Format, String> {
        let mut parts = Vec::new();
        let mut text = String::new();
        let mut characters = format.chars().peekable();
        while let Some(character) = characters.next() {
            if character != '%' || characters.next_if_eq(&'%').is_some() {
                text.push(character);
                continue;
            }
            let (mut left, mut zeros, mut sign) = (false, false, None);
            while let Some(flag) = characters.next_if(|flag| "-0+ ".contains(*flag)) {
                match flag {
                    '-' => left = true,
                    '0' => zeros = true,
                    '+' => sign = Some('+'),
                    _ => sign = sign.or(Some(' ')),
                }
            }
            let width = digits(&mut characters, width_max)?;
            let precision = match characters.next_if_eq(&'.') {
                Some(_) => Some(digits(&mut characters, width_max)?),
                None => None,
            };
            let letter = characters.next().unwrap_or(' ');
            if !"vsqdfFgeGxt".contains(letter) {
                return Err(format!(
                    "the format '{format}' of printf is not supported at '%{letter}'; write one of \
                     %v, %s, %q, %d, %f, %g, %e, %x and %t"
                ));
            }
            if !text.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut text)));
            }
            parts.push(Part::Verb(Verb { letter, left, zeros, sign, width, precision }));
        }
        if !text.is_empty() {
            parts.push(Part::Text(text));
        }
        Ok(Format(parts))
    }

    /// How many values the format shows.
    pub fn verbs(&self) -> usize {
        self.0.iter().filter(|part| matches!(part, Part::Verb(_))).count()
    }

    /// The format with the values, of which there are as many as [`verbs`](Self::verbs) says. The
    /// text ends with the first part that makes it longer than `bytes_max`.
    pub fn print(
        &self,
        values: &[Value<'_>],
        show_number: fn(f64) -> String,
        bytes_max: usize,
    ) -> String {
        let mut out = String::new();
        let mut values = values.iter();
        for part in &self.0 {
            match part {
                Part::Text(text) => out.push_str(text),
                Part::Verb(verb) => {
                    let Some(value) = values.next() else { break };
                    verb.print(value, show_number, &mut out);
                }
            }
            if out.len() > bytes_max {
                break;
            }
        }
        out
    }
}

/// The number that comes next; 0 if there is none.
fn digits(characters: &mut Peekable<Chars<'_>>, most: usize) -> Result<usize, String> {
    let mut number = 0;
    while let Some(digit) = characters.next_if(char::is_ascii_digit) {
        number = number * 10 + digit as usize - '0' as usize;
        if number > most {
            return Err(format!("a width or precision of printf is above {most}"));
        }
    }
    Ok(number)
}

impl Verb {
    fn print(&self, value: &Value<'_>, show_number: fn(f64) -> String, out: &mut String) {
        let shown = self.shown(value, show_number);
        let is_number = !matches!(self.letter, 's' | 'q') && value.number().is_some();
        let (sign, digits) = match shown.strip_prefix('-') {
            Some(digits) if is_number => (Some('-'), digits),
            _ => (self.sign.filter(|_| is_number), shown.as_str()),
        };
        let length = digits.chars().count() + usize::from(sign.is_some());
        let missing = self.width.saturating_sub(length);
        let (blanks, zeros) = match self.zeros && is_number && !self.left {
            true => (0, missing),
            false => (missing, 0),
        };
        out.extend(repeat_n(' ', if self.left { 0 } else { blanks }));
        out.extend(sign);
        out.extend(repeat_n('0', zeros));
        out.push_str(digits);
        out.extend(repeat_n(' ', if self.left { blanks } else { 0 }));
    }

    fn shown(&self, value: &Value<'_>, show_number: fn(f64) -> String) -> String {
        let digits = self.precision.map(|precision| precision.min(DIGITS_MAX));
        match (self.letter, value.number()) {
            ('d', Some(number)) => match whole(value) {
                Some(whole) => whole.to_string(),
                None => fixed(number, 0),
            },
            ('x', Some(number)) => format!("{:x}", whole(value).unwrap_or(number as i64)),
            ('f' | 'F', Some(number)) => fixed(number, digits.unwrap_or(6)),
            ('e', Some(number)) => exponential(number, digits.unwrap_or(6)),
            ('g' | 'G', Some(number)) => match digits {
                Some(digits) => general(number, digits),
                None => shortest(number),
            },
            ('t', _) => value.is_true().to_string(),
            ('q', _) => quote(&value.shown(show_number)),
            _ => match self.precision {
                Some(precision) => value.shown(show_number).chars().take(precision).collect(),
                None => value.shown(show_number).into_owned(),
            },
        }
    }
}

/// A whole number, which a float could not hold exactly.
fn whole(value: &Value<'_>) -> Option<i64> {
    match value {
        Value::Int(int) => Some(*int),
        Value::Text(text) => text.trim().parse().ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn print(format: &str, values: &[Value<'_>]) -> String {
        let format = Format::parse(format, 100).unwrap();
        assert_eq!(format.verbs(), values.len());
        format.print(values, shortest, 1000)
    }

    #[test]
    fn values_are_printed_as_go_does() {
        for (format, value, expected) in [
            ("%s", Value::from("a"), "a"),
            ("%5s|", Value::from("ab"), "   ab|"),
            ("%-5s|", Value::from("ab"), "ab   |"),
            ("%05s", Value::from("ab"), "   ab"),
            ("%.2s", Value::from("äöü"), "äö"),
            ("%q", Value::from("a\"b\n"), "\"a\\\"b\\n\""),
            ("%d", Value::Int(i64::MAX), "9223372036854775807"),
            ("%d", Value::from("9223372036854775807"), "9223372036854775807"),
            ("%d", Value::Float(2.6), "3"),
            ("%d", Value::from("x"), "x"),
            ("%05d", Value::Int(-42), "-0042"),
            ("%+d", Value::Int(42), "+42"),
            ("% d", Value::Int(42), " 42"),
            ("%-5d|", Value::Int(42), "42   |"),
            ("%06.1f", Value::Float(2.5), "0002.5"),
            ("%.200f", Value::Float(0.0), &format!("0.{}", "0".repeat(DIGITS_MAX))),
            ("%f", Value::Float(1.0), "1.000000"),
            ("%g", Value::Float(1e6), "1e+06"),
            ("%.3g", Value::Float(1234.5), "1.23e+03"),
            ("%e", Value::Float(1500.0), "1.500000e+03"),
            ("%x", Value::Int(255), "ff"),
            ("%t", Value::Bool(true), "true"),
            ("%v", Value::Bool(false), "false"),
        ] {
            let format_all = Format::parse(format, 200).unwrap();
            assert_eq!(format_all.print(&[value], shortest, 1000), expected, "{format}");
        }
        assert_eq!(print("%d%% of %s", &[Value::Int(7), Value::from("x")]), "7% of x");
    }

    #[test]
    fn formats_and_texts_are_bounded() {
        for (format, part) in [("%y", "at '%y'"), ("%", "at '% '"), ("%101s", "above 100")] {
            assert!(Format::parse(format, 100).unwrap_err().contains(part), "{format}");
        }
        let format = Format::parse("%9s%9s%9s", 100).unwrap();
        let values = [Value::Int(1), Value::Int(2), Value::Int(3)];
        assert_eq!(format.print(&values, shortest, 10).len(), 18);
    }
}
