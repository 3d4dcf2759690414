//! Patterns `text<field>text<option:field>`: what `extract` looks for and `format` writes.
//!
//! `<_>` and `<>` stand for any text without a name. Characters such as `<` are written as in HTML:
//! `&lt;`, `&gt;`, `&amp;`, `&quot;`, `&#60;`.

/// A piece of a pattern: a text, and the field behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step {
    /// Text before the field; may be empty.
    pub text: String,
    /// The field; empty: none, or any text.
    pub field: String,
    /// The option before the `:` in front of the field.
    pub option: String,
    /// Whether the step has a `<…>`; only the last step may lack it.
    pub placeholder: bool,
}

/// Most fields of a pattern. One with more is refused.
const STEPS_MAX: usize = 1_000;

/// Parses a pattern. The error describes the first mistake.
pub(super) fn parse_steps(pattern: &str) -> Result<Vec<Step>, String> {
    let mut steps = Vec::new();
    let mut rest = pattern;
    while let Some(begin) = rest.find('<') {
        let inside = &rest[begin + 1..];
        let Some(end) = inside.find('>') else {
            return Err("a \"<\" has no \">\"; write &lt; for the character itself".to_owned());
        };
        let name = &inside[..end];
        let (option, field) = name.split_once(':').unwrap_or(("", name));
        let field = match field.trim() {
            "_" | "*" => "",
            field => field,
        };
        steps.push(Step {
            text: unescape(&rest[..begin]),
            field: unescape(field),
            option: option.trim().to_owned(),
            placeholder: true,
        });
        if steps.len() > STEPS_MAX {
            return Err(format!("the pattern has more than {STEPS_MAX} fields"));
        }
        rest = &inside[end + 1..];
    }
    if !rest.is_empty() || steps.is_empty() {
        let (field, option) = (String::new(), String::new());
        steps.push(Step { text: unescape(rest), field, option, placeholder: false });
    }
    Ok(steps)
}

fn unescape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(begin) = rest.find('&') {
        out.push_str(&rest[..begin]);
        rest = &rest[begin..];
        let end = rest.bytes().take(ENTITY_BYTES_MAX).position(|b| b == b';');
        match end.and_then(|end| Some((entity(&rest[1..end])?, end))) {
            Some((character, end)) => {
                out.push(character);
                rest = &rest[end + 1..];
            }
            None => {
                out.push('&');
                rest = &rest[1..];
            }
        }
    }
    out.push_str(rest);
    out
}

/// Longest name of an HTML entity.
const ENTITY_BYTES_MAX: usize = 12;

fn entity(name: &str) -> Option<char> {
    Some(match name {
        "lt" => '<',
        "gt" => '>',
        "amp" => '&',
        "quot" => '"',
        "apos" => '\'',
        _ => {
            let number = name.strip_prefix('#')?;
            let code = match number.strip_prefix(['x', 'X']) {
                Some(hex) => u32::from_str_radix(hex, 16).ok()?,
                None => number.parse().ok()?,
            };
            char::from_u32(code)?
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_taken_apart() {
        let check = |pattern: &str, expected: &str| {
            let show = |s: &Step| format!("{}[{}:{}]", s.text, s.option, s.field);
            let steps =
                parse_steps(pattern).map(|steps| steps.iter().map(show).collect::<String>());
            assert_eq!(steps.unwrap_or_else(|e| e), expected, "{pattern}");
        };
        check("ip=<ip> ", "ip=[:ip] [:]");
        check("<a><b>", "[:a][:b]");
        check("<_> x <*> y <>", "[:] x [:] y [:]");
        check("<plain: a b >", "[plain:a b]");
        check("a &lt; b &amp;&#60;&#x3e;&nix; & <q:x>", "a < b &<>&nix; & [q:x]");
        check("", "[:]");
        check("a", "a[:]");
        check("a <b", "a \"<\" has no \">\"; write &lt; for the character itself");
        assert!(parse_steps(&"<a>".repeat(STEPS_MAX)).is_ok());
        assert!(parse_steps(&"<a>".repeat(STEPS_MAX + 1)).is_err());
    }
}
