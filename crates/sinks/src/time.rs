//! Names with a date in them.

use std::fmt::Write as _;

use text::time::Moment;

/// `20260102T030405Z`, for names of files.
pub fn compact(time_ns: i64) -> String {
    let t = Moment::at(time_ns);
    let (date, time) = ((t.year, t.month, t.day), (t.hour, t.minute, t.second));
    format!("{:04}{:02}{:02}T{:02}{:02}{:02}Z", date.0, date.1, date.2, time.0, time.1, time.2)
}

/// A name with the date of a document in it, such as `logs-%Y.%m.%d`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatePattern {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Year,
    Month,
    Day,
    Hour,
}

impl DatePattern {
    /// Reads a pattern with `%Y`, `%m`, `%d`, `%H` and `%%`.
    pub fn parse(pattern: &str) -> Result<DatePattern, String> {
        let mut parts = Vec::new();
        let mut text = String::new();
        let mut chars = pattern.chars();
        while let Some(c) = chars.next() {
            if c != '%' {
                text.push(c);
                continue;
            }
            let part = match chars.next() {
                Some('Y') => Part::Year,
                Some('m') => Part::Month,
                Some('d') => Part::Day,
                Some('H') => Part::Hour,
                Some('%') => {
                    text.push('%');
                    continue;
                }
                _ => {
                    return Err(format!(
                        "'{pattern}' has a '%' that stands for nothing; use %Y, %m, %d, %H, or %% \
                         for a percent sign"
                    ));
                }
            };
            if !text.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut text)));
            }
            parts.push(part);
        }
        if !text.is_empty() {
            parts.push(Part::Text(text));
        }
        Ok(DatePattern { parts })
    }

    /// The name for a time.
    pub fn at(&self, time_ns: i64) -> String {
        let t = Moment::at(time_ns);
        let mut name = String::new();
        for part in &self.parts {
            let written = match part {
                Part::Text(text) => name.write_str(text),
                Part::Year => write!(name, "{:04}", t.year),
                Part::Month => write!(name, "{:02}", t.month),
                Part::Day => write!(name, "{:02}", t.day),
                Part::Hour => write!(name, "{:02}", t.hour),
            };
            written.expect("a String takes all text");
        }
        name
    }

    /// The text before the first part that depends on the time.
    pub fn prefix(&self) -> &str {
        match self.parts.first() {
            Some(Part::Text(text)) => text,
            _ => "",
        }
    }

    /// Whether every document gets the same name.
    pub fn is_fixed(&self) -> bool {
        self.parts.iter().all(|part| matches!(part, Part::Text(_)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_the_date() {
        let pattern = DatePattern::parse("logs-%Y.%m.%d-%H%%").unwrap();
        assert_eq!(pattern.at(1_767_323_045_000_000_000), "logs-2026.01.02-03%");
        assert_eq!((pattern.prefix(), pattern.is_fixed()), ("logs-", false));
        assert!(DatePattern::parse("logs").unwrap().is_fixed());
        assert!(DatePattern::parse("logs-%y").is_err());
        assert!(DatePattern::parse("logs-%").is_err());
        assert_eq!(compact(1_767_323_045_000_000_000), "20260102T030405Z");
    }
}
