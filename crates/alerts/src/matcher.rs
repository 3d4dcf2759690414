//! Conditions on labels, as Alertmanager has them: `=`, `!=`, `=~` and `!~`.

use std::fmt;

use regex::{Regex, RegexBuilder};
use serde::{Deserialize, Serialize};

use crate::labels::Labels;

/// Bytes of a value or of a regular expression.
const VALUE_BYTES_MAX: usize = 4 << 10;
/// Bytes of a name.
const NAME_BYTES_MAX: usize = 256;
/// Memory of a compiled regular expression; one that needs more is refused.
const REGEX_BYTES_MAX: usize = 1 << 20;

/// A condition on one label. A label that is not there has the empty value.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(try_from = "RawMatcher", into = "RawMatcher")]
pub struct Matcher {
    name: String,
    value: String,
    is_equal: bool,
    /// Matches the whole value.
    regex: Option<Regex>,
}

/// A matcher as Alertmanager's API writes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct RawMatcher {
    name: String,
    value: String,
    is_regex: bool,
    #[serde(default = "yes")]
    is_equal: bool,
}

fn yes() -> bool {
    true
}

impl Matcher {
    /// A matcher; the error says what is wrong with it.
    pub fn new(name: &str, value: &str, is_regex: bool, is_equal: bool) -> Result<Matcher, String> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX {
            return Err(format!("the name of a matcher has to have 1 to {NAME_BYTES_MAX} bytes"));
        }
        if value.len() > VALUE_BYTES_MAX {
            return Err(format!("the value of the matcher of '{name}' is too long; shorten it"));
        }
        let regex = is_regex.then(|| {
            // The value alone has to be an expression: `a)|(b` is none, but would be one below.
            compile(value).and_then(|_| compile(&format!("^(?:{value})$"))).map_err(|error| {
                format!("the matcher of '{name}' has a wrong regular expression: {error}")
            })
        });
        Ok(Matcher {
            name: name.to_owned(),
            value: value.to_owned(),
            is_equal,
            regex: regex.transpose()?,
        })
    }

    /// Reads a matcher as text: `host="web-1"`, `host=~"web-.*"`. Quotes may be left out.
    pub fn parse(text: &str) -> Result<Matcher, String> {
        let error = || {
            format!(
                "'{text}' is not a matcher; write for example severity=\"page\" or host=~\"web.*\""
            )
        };
        let at = text.find(['=', '!']).ok_or_else(error)?;
        let (name, rest) = text.split_at(at);
        let signs =
            [("=~", true, true), ("!~", true, false), ("!=", false, false), ("=", false, true)];
        let (value, is_regex, is_equal) = signs
            .into_iter()
            .find_map(|(sign, is_regex, is_equal)| {
                rest.strip_prefix(sign).map(|value| (value.trim(), is_regex, is_equal))
            })
            .ok_or_else(error)?;
        let value = match value.starts_with('"') {
            true => serde_json::from_str(value).map_err(|_| error())?,
            false => value.to_owned(),
        };
        Matcher::new(name.trim(), &value, is_regex, is_equal)
    }

    /// Whether the labels meet the condition.
    pub fn matches(&self, labels: &Labels) -> bool {
        self.holds_for(labels.get(&self.name).map_or("", String::as_str))
    }

    fn holds_for(&self, value: &str) -> bool {
        let is_equal = match &self.regex {
            Some(regex) => regex.is_match(value),
            None => self.value == value,
        };
        is_equal == self.is_equal
    }

    /// Whether labels without this name meet the condition.
    pub fn matches_nothing(&self) -> bool {
        self.holds_for("")
    }
}

fn compile(expression: &str) -> Result<Regex, regex::Error> {
    RegexBuilder::new(expression)
        .dot_matches_new_line(true)
        .size_limit(REGEX_BYTES_MAX)
        .dfa_size_limit(REGEX_BYTES_MAX)
        .build()
}

impl PartialEq for Matcher {
    fn eq(&self, other: &Matcher) -> bool {
        RawMatcher::from(self.clone()) == RawMatcher::from(other.clone())
    }
}

impl fmt::Display for Matcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = match (self.regex.is_some(), self.is_equal) {
            (false, true) => "=",
            (false, false) => "!=",
            (true, true) => "=~",
            (true, false) => "!~",
        };
        let value = serde_json::Value::from(self.value.as_str());
        write!(f, "{}{sign}{value}", self.name)
    }
}

impl TryFrom<RawMatcher> for Matcher {
    type Error = String;

    fn try_from(raw: RawMatcher) -> Result<Matcher, String> {
        Matcher::new(&raw.name, &raw.value, raw.is_regex, raw.is_equal)
    }
}

impl From<Matcher> for RawMatcher {
    fn from(matcher: Matcher) -> RawMatcher {
        RawMatcher {
            name: matcher.name,
            value: matcher.value,
            is_regex: matcher.regex.is_some(),
            is_equal: matcher.is_equal,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn labels(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect()
    }

    #[test]
    fn matchers_compare_whole_values() {
        for (text, value, expected) in [
            ("a=b", Some("b"), true),
            ("a=\"b\"", Some("bb"), false),
            ("a!=b", Some("c"), true),
            ("a!=b", None, true),
            ("a=\"\"", None, true),
            ("a=~\"b.*\"", Some("bcd"), true),
            ("a=~b", Some("bcd"), false),
            ("a=~b|c", Some("c"), true),
            ("a=~.*", Some("x\ny"), true),
            ("a!~b.*", Some("bcd"), false),
            ("a!~b.*", None, true),
            (" a = \" b\" ", Some(" b"), true),
            ("a==b", Some("=b"), true),
        ] {
            let labels = value.map_or_else(Labels::new, |value| labels(&[("a", value)]));
            assert_eq!(Matcher::parse(text).unwrap().matches(&labels), expected, "{text}");
        }
        for text in
            ["", "a", "=b", "a!b", "a=\"b", "a=~(", "a=~b)|(c", "a=~\"\\\\\"", "a=~a{1000}{1000}"]
        {
            Matcher::parse(text).expect_err(text);
        }
    }

    #[test]
    fn json_is_that_of_alertmanager() {
        let json = r#"{"name":"a","value":"b.*","isRegex":true,"isEqual":false}"#;
        let matcher: Matcher = serde_json::from_str(json).unwrap();
        assert_eq!(serde_json::to_string(&matcher).unwrap(), json);
        let short = r#"{"name":"a","value":"b","isRegex":false}"#;
        assert_eq!(serde_json::from_str::<Matcher>(short).unwrap().to_string(), "a=\"b\"");
        let wrong = r#"{"name":"a","value":"(","isRegex":true}"#;
        assert!(serde_json::from_str::<Matcher>(wrong).is_err());
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,30}") {
            let _ = Matcher::parse(&text);
        }

        #[test]
        fn text_of_a_matcher_reads_as_the_same(
            name in "[a-z_.]{1,5}", value in "[ -~é\\n]{0,8}", is_regex: bool, is_equal: bool,
        ) {
            if let Ok(matcher) = Matcher::new(&name, &value, is_regex, is_equal) {
                prop_assert_eq!(Matcher::parse(&matcher.to_string()).unwrap(), matcher);
            }
        }
    }
}
