//! The stages `json` and `unpack`. The text is parsed by the parser of JSON lines and of
//! `unpack_json` of LogsQL ([`record::parse::json_members_by`]): the grammar is that of RFC 8259,
//! and a malformed object yields nothing.
//!
//! Loki differs from `unpack_json` in names, which consist of letters, digits and `_` and are
//! joined with `_`; in skipping arrays, empty objects and null; and in extracting values by path
//! ([`super::path`]). Left out: input that Loki's parser accepts beyond the grammar, such as
//! control characters in strings.

use record::parse::{JsonKind, is_object, json_members_by};

/// Objects nested more deeply yield no labels.
pub const DEPTH_MAX: usize = 64;

/// Calls `each` with the labels of an object: strings unescaped, numbers and literals as written.
/// `None`, without a call, if the text is not an object.
pub fn labels(text: &str, mut each: impl FnMut(&str, &str)) -> Option<()> {
    let join = |name: &mut String, _depth: usize, key: &str| append(name, key);
    checked(text, DEPTH_MAX, join, &mut |name, kind, value| {
        if matches!(kind, JsonKind::Plain | JsonKind::Text) && !name.is_empty() {
            each(name, value);
        }
    })
}

/// Calls `each` with the members of an object: key, type and value. `None`, without a call, if the
/// text is not an object.
pub fn members(text: &str, mut each: impl FnMut(&str, JsonKind, &str)) -> Option<()> {
    checked(text, 1, by_key, &mut each)
}

/// Like [`members`], but may call `each` with members of a text that turns out to be no object: for
/// text that was checked before.
pub fn members_at_once(text: &str, each: impl FnMut(&str, JsonKind, &str)) -> Option<()> {
    json_members_by(text.as_bytes(), 1, by_key, each)
}

fn by_key(path: &mut String, _depth: usize, key: &str) {
    path.push_str(key);
}

/// Like [`json_members_by`], after checking that the text is an object to its end.
fn checked(
    text: &str,
    depth_max: usize,
    join: impl Fn(&mut String, usize, &str),
    each: &mut dyn FnMut(&str, JsonKind, &str),
) -> Option<()> {
    let text = text.trim_ascii().as_bytes();
    is_object(text).then(|| json_members_by(text, depth_max, join, each)).flatten()
}

/// The name of a label for a key: characters other than letters, digits and `_` become `_`, and
/// names do not begin with a digit.
pub fn label_name(key: &str) -> String {
    let mut name = String::with_capacity(key.len() + 1);
    append(&mut name, key);
    name
}

/// Appends a key to the label name of the enclosing object, which is empty for the outermost.
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
