//! Patterns such as `<ip> - - <_> "<method> <path> <_>" <status>`: literals, and captures between
//! them.
//!
//! They look like those of `extract` in LogsQL but have other semantics, so nothing is shared: a
//! literal at the start has to be at the start of the line; a capture whose end is not found takes
//! the rest, where `extract` takes nothing; quotes and `&lt;` are ordinary text; and `<…>` without
//! a valid name is a literal, where `extract` reports an error.

/// A pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pattern {
    text: String,
    parts: Vec<Part>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Literal(String),
    /// A name; none for `<_>`.
    Capture(Option<String>),
}

impl Pattern {
    /// A pattern that makes labels: at least one capture has a name.
    pub fn for_labels(text: &str) -> Result<Pattern, String> {
        let pattern = Pattern::parse(text)?;
        let mut names: Vec<&String> = Vec::new();
        for part in &pattern.parts {
            if let Part::Capture(Some(name)) = part {
                if names.contains(&name) {
                    return Err(format!("duplicate capture name ({name}) in the pattern"));
                }
                names.push(name);
            }
        }
        if names.is_empty() {
            return Err("at least one capture is required in a pattern, such as <name>".to_owned());
        }
        Ok(pattern)
    }

    /// A pattern of whole lines: no capture has a name.
    pub fn for_lines(text: &str) -> Result<Pattern, String> {
        let pattern = Pattern::parse(text)?;
        match pattern.parts.iter().any(|part| matches!(part, Part::Capture(Some(_)))) {
            true => Err("named captures are not allowed in a line filter; write <_>".to_owned()),
            false => Ok(pattern),
        }
    }

    fn parse(text: &str) -> Result<Pattern, String> {
        let mut parts: Vec<Part> = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(c) = rest.chars().next() {
            if let Some((name, length)) = capture(rest) {
                if !literal.is_empty() {
                    parts.push(Part::Literal(std::mem::take(&mut literal)));
                } else if matches!(parts.last(), Some(Part::Capture(_))) {
                    return Err("consecutive captures are not allowed in a pattern".to_owned());
                }
                parts.push(Part::Capture((name != "_").then(|| name.to_owned())));
                rest = &rest[length..];
            } else {
                literal.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
        if !literal.is_empty() {
            parts.push(Part::Literal(literal));
        }
        Ok(Pattern { text: text.to_owned(), parts })
    }

    /// The pattern as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Calls `each` with the names and values of captures. A line that ends too early fills as many
    /// captures as possible.
    pub fn captures(&self, line: &str, mut each: impl FnMut(&str, &str)) {
        let mut parts = &self.parts[..];
        let mut rest = line;
        if let Some(Part::Literal(literal)) = parts.first() {
            let Some(behind) = rest.strip_prefix(&**literal) else { return };
            (rest, parts) = (behind, &parts[1..]);
        }
        while let Some(Part::Capture(name)) = parts.first() {
            let found = match parts.get(1) {
                Some(Part::Literal(literal)) => rest.find(&**literal).map(|at| (at, literal.len())),
                _ => None,
            };
            let (value, behind) = match found {
                Some((at, length)) => (&rest[..at], Some(&rest[at + length..])),
                None => (rest, None),
            };
            if let Some(name) = name {
                each(name, value);
            }
            let Some(behind) = behind else { return };
            (rest, parts) = (behind, &parts[2..]);
        }
    }

    /// Whether the pattern matches the whole line.
    pub fn is_match(&self, line: &str) -> bool {
        let mut rest = line;
        for (place, part) in self.parts.iter().enumerate() {
            let Part::Literal(literal) = part else { continue };
            let (is_first, is_last) = (place == 0, place + 1 == self.parts.len());
            rest = match (is_first, is_last) {
                (true, true) => return rest == literal,
                (true, false) => match rest.strip_prefix(&**literal) {
                    Some(behind) => behind,
                    None => return false,
                },
                (false, true) => return rest.ends_with(&**literal),
                (false, false) => match rest.find(&**literal) {
                    Some(at) => &rest[at + literal.len()..],
                    None => return false,
                },
            };
        }
        // The pattern ends with a capture; a pattern without parts matches the empty line.
        !self.parts.is_empty() || line.is_empty()
    }
}

/// The name in `<name>` at the start, and the length of its source text.
fn capture(text: &str) -> Option<(&str, usize)> {
    let inner = text.strip_prefix('<')?;
    let name = &inner[..inner.find('>')?];
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    let rest = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    (starts && rest).then_some((name, name.len() + 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captures_are_between_literals() {
        let check = |pattern: &str, line: &str, expected: &str| {
            let pattern = Pattern::for_labels(pattern).unwrap();
            let mut found = Vec::new();
            pattern.captures(line, |name, value| found.push(format!("{name}={value}")));
            assert_eq!(found.join(","), expected, "{pattern:?} {line}");
        };
        check(
            "<ip> - <_> \"<method> <path>\" <status>",
            "1.2.3.4 - x \"GET /a\" 200",
            "ip=1.2.3.4,method=GET,path=/a,status=200",
        );
        check("[<a>] <b>", "[x] y z", "a=x,b=y z");
        check("[<a>] <b>", "x] y", "");
        check("<a>;<b>;", "x;y", "a=x,b=y");
        check("<a>", "", "a=");
    }

    #[test]
    fn whole_lines() {
        for (pattern, line, expected) in [
            ("a<_>c", "abc", true),
            ("a<_>c", "abcd", false),
            ("<_>b<_>", "abc", true),
            ("abc", "abc", true),
            ("abc", "abcd", false),
            ("<_>", "", true),
            ("", "", true),
            ("", "x", false),
            ("a<_>b<_>c", "axbyc", true),
            ("a<_>b<_>c", "axyc", false),
        ] {
            assert_eq!(Pattern::for_lines(pattern).unwrap().is_match(line), expected, "{pattern}");
        }
        assert!(Pattern::for_lines("<a>").is_err());
        assert!(Pattern::for_labels("<_>").is_err());
        assert!(Pattern::for_labels("<a><b>").is_err());
        assert!(Pattern::for_labels("<a> <a>").is_err());
    }
}
