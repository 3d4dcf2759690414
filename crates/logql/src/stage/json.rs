//! What `json` and `unpack` make of a line. The text is taken apart by what reads lines that are
//! JSON, and `unpack_json` of LogsQL ([`record::parse::json_members_by`]): the grammar is that of
//! RFC 8259, and of a broken object nothing is taken.
//!
//! Loki differs from `unpack_json` in names, which are made of letters, digits and `_` and joined
//! by `_`; in leaving out arrays, empty objects and null; and in taking values by their place
//! ([`super::path`]). Left out: what Loki's reader takes beyond the grammar, such as control
//! characters in texts.

use record::parse::{JsonKind, json_members_by};

/// Objects nested deeper than that give no labels.
pub const DEPTH_MAX: usize = 64;

/// Calls `each` with the labels that an object gives: texts as they are, numbers and literals as
/// they are written. None, without a call, when the text is no object.
pub fn labels(text: &str, mut each: impl FnMut(&str, &str)) -> Option<()> {
    let join = |name: &mut String, _depth: usize, key: &str| append(name, key);
    checked(text, DEPTH_MAX, join, &mut |name, kind, value| {
        if matches!(kind, JsonKind::Plain | JsonKind::Text) && !name.is_empty() {
            each(name, value);
        }
    })
}

/// Calls `each` with the members of an object: key, and what the value is and says. None, without a
/// call, when the text is no object.
pub fn members(text: &str, mut each: impl FnMut(&str, JsonKind, &str)) -> Option<()> {
    checked(text, 1, by_key, &mut each)
}

/// As [`members`] of a text of which `each` may be told a part before it is found to be none: for
/// what was looked at before.
pub fn members_at_once(text: &str, each: impl FnMut(&str, JsonKind, &str)) -> Option<()> {
    json_members_by(text.as_bytes(), 1, by_key, each)
}

fn by_key(path: &mut String, _depth: usize, key: &str) {
    path.push_str(key);
}

/// As [`json_members_by`], once the text is known to be an object to its end.
fn checked(
    text: &str,
    depth_max: usize,
    join: impl Fn(&mut String, usize, &str),
    each: &mut dyn FnMut(&str, JsonKind, &str),
) -> Option<()> {
    json_members_by(text.as_bytes(), depth_max, &join, |_, _, _| {})?;
    json_members_by(text.as_bytes(), depth_max, &join, each)
}

/// The name of a label for a key: other characters than letters, digits and `_` become `_`, and
/// none begins with a digit.
pub fn label_name(key: &str) -> String {
    let mut name = String::with_capacity(key.len() + 1);
    append(&mut name, key);
    name
}

/// Appends a key to the name of the label for the object around it, which is empty for the
/// outermost.
fn append(name: &mut String, key: &str) {
    let key = key.trim();
    if key.is_empty() {
        return;
    }
    if !name.is_empty() || key.starts_with(|c: char| c.is_ascii_digit()) {
        name.push('_');
    }
    name.extend(key.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_become_flat() {
        let check = |text: &str, expected: &str| {
            let mut found = Vec::new();
            let whole = labels(text, |name, value| found.push(format!("{name}={value}")));
            assert!(whole.is_some() || found.is_empty(), "{text}");
            assert_eq!(whole.map_or("error".to_owned(), |()| found.join(",")), expected, "{text}");
        };
        check(r#"{"a":"b","n":1.50,"t":true,"z":null,"l":[1],"o":{}}"#, "a=b,n=1.50,t=true");
        check(r#"{"a":{"b-c":{"d":"x"}},"1st":"y"," ":"z","":{"e":1}}"#, "a_b_c_d=x,_1st=y,e=1");
        check(r#" { "a" : "q\"\u00e9\ud83d\ude00\n" } "#, "a=q\"\u{e9}\u{1F600}\n");
        check("{}", "");
        for wrong in [
            "",
            "{",
            "{a:1}",
            r#"{"a"}"#,
            r#"{"a":}"#,
            r#"{"a":1,}"#,
            r#"{"a":1} x"#,
            r#"{"a":1,"b":"\q"}"#,
            r#"{"a":"\u12"#,
            "[1]",
            "1",
        ] {
            check(wrong, "error");
        }
        let nested = |depth: usize| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
        check(&nested(DEPTH_MAX), &format!("{}a=1", "a_".repeat(DEPTH_MAX - 1)));
        check(&nested(DEPTH_MAX + 1), "");
    }

    #[test]
    fn members_stay_whole() {
        let mut found = Vec::new();
        let object = r#"{"a.b":"x","c":{"d":[1]},"e":null}"#;
        members(object, |key, kind, value| found.push(format!("{key} {kind:?} {value}"))).unwrap();
        assert_eq!(found, ["a.b Text x", r#"c Object {"d":[1]}"#, "e Null null"]);
    }
}
