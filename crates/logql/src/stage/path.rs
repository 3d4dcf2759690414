//! Places in JSON: `a.b`, `a["b c"][0]`.

use super::json::Json;

/// A place.
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
    /// Reads a place.
    pub fn parse(text: &str) -> Result<Path, String> {
        let wrong = || format!("\"{text}\" is no place in JSON; write for example a.b[0][\"c d\"]");
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

    /// As written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// What is there.
    pub fn find<'j, 'a>(&self, value: &'j Json<'a>) -> Option<&'j Json<'a>> {
        self.steps.iter().try_fold(value, |value, step| match (value, step) {
            (Json::Object(members, _), Step::Key(key)) => {
                members.iter().find(|(name, _)| name == key).map(|(_, value)| value)
            }
            (Json::Array(items, _), Step::Index(index)) => items.get(*index),
            _ => None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places() {
        let json = Json::parse(r#"{"a":{"b":[1,{"c d":"x"}]},"e.f":"y"}"#).unwrap();
        for (path, expected) in [
            ("a.b[0]", Some("1")),
            ("a.b[1][\"c d\"]", Some("x")),
            ("[\"e.f\"]", Some("y")),
            ("a.b", Some("[1,{\"c d\":\"x\"}]")),
            ("a.x", None),
            ("a.b[2]", None),
        ] {
            let path = Path::parse(path).unwrap();
            assert_eq!(path.find(&json).map(Json::shown), expected, "{path:?}");
        }
        for wrong in ["", "a.", ".a", "a[x]", "a[0", "a[\"b"] {
            assert!(Path::parse(wrong).is_err(), "{wrong}");
        }
    }
}
