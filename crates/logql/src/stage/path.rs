//! Paths in JSON: `a.b`, `a["b c"][0]`.

use std::borrow::Cow;

use query::Pulse;
use record::parse::{JsonKind, json_items};

use super::json;

/// A path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    text: String,
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Step {
    Key(String),
    Index(usize),
}

impl Path {
    /// Parses a path.
    pub fn parse(text: &str) -> Result<Path, String> {
        let wrong =
            || format!("\"{text}\" is not a path in JSON; write for example a.b[0][\"c d\"]");
        let mut steps = Vec::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            if let Some(inner) = rest.strip_prefix("[\"") {
                let end = inner.find("\"]").ok_or_else(wrong)?;
                steps.push(Step::Key(inner[..end].to_owned()));
                rest = &inner[end + 2..];
            } else if let Some(inner) = rest.strip_prefix('[') {
                let end = inner.find(']').ok_or_else(wrong)?;
                steps.push(Step::Index(inner[..end].trim().parse().map_err(|_| wrong())?));
                rest = &inner[end + 1..];
            } else {
                let rest_of_key = match steps.is_empty() {
                    true => rest,
                    false => rest.strip_prefix('.').ok_or_else(wrong)?,
                };
                let end = rest_of_key.find(['.', '[']).unwrap_or(rest_of_key.len());
                if end == 0 {
                    return Err(wrong());
                }
                steps.push(Step::Key(rest_of_key[..end].to_owned()));
                rest = &rest_of_key[end..];
            }
        }
        if steps.is_empty() {
            return Err(wrong());
        }
        Ok(Path { text: text.to_owned(), steps })
    }

    /// The path as written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The value at the path in a JSON object or array, as the value of a label; that of null is
    /// empty.
    pub fn find(&self, text: &str, pulse: &Pulse<'_>) -> Option<String> {
        let mut kind = match text.trim_ascii_start().starts_with('[') {
            true => JsonKind::Array,
            false => JsonKind::Object,
        };
        let mut value = Cow::Borrowed(text);
        for step in &self.steps {
            if !pulse.may_continue(value.len()) {
                return None;
            }
            let mut found = None;
            let mut take = |kind, value: &str| {
                // For a repeated key the first value counts.
                found.get_or_insert_with(|| (kind, value.to_owned()));
            };
            match (kind, step) {
                (JsonKind::Object, Step::Key(wanted)) => {
                    json::members_at_once(&value, |key, kind, value| {
                        if key == wanted {
                            take(kind, value);
                        }
                    });
                }
                (JsonKind::Array, Step::Index(wanted)) => {
                    let mut places = 0..;
                    json_items(value.as_bytes(), |kind, item| {
                        if places.next() == Some(*wanted) {
                            take(kind, item);
                        }
                    });
                }
                _ => {}
            }
            let (of, inner) = found?;
            (kind, value) = (of, Cow::Owned(inner));
        }
        Some(if kind == JsonKind::Null { String::new() } else { value.into_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        let json = r#"{"a":{"b":[1,{"c d":"x"}]},"e.f":"y","a":2,"n":null,"t":"{\"u\":1}"}"#;
        for (path, expected) in [
            ("a.b[0]", Some("1")),
            ("a.b[1][\"c d\"]", Some("x")),
            ("[\"e.f\"]", Some("y")),
            ("a.b", Some("[1,{\"c d\":\"x\"}]")),
            ("a.x", None),
            ("a.b[2]", None),
            ("n", Some("")),
            ("t", Some("{\"u\":1}")),
            ("t.u", None),
            ("[0]", None),
        ] {
            let path = Path::parse(path).unwrap();
            assert_eq!(path.find(json, &Pulse::endless()).as_deref(), expected, "{path:?}");
        }
        for wrong in ["", "a.", ".a", "a[x]", "a[0", "a[\"b"] {
            assert!(Path::parse(wrong).is_err(), "{wrong}");
        }
        assert_eq!(
            Path::parse("[1].a").unwrap().find(" [1, {\"a\":\"\\n\"}]", &Pulse::endless()).unwrap(),
            "\n"
        );
    }
}
