//! JSON as a tree that points into its text: numbers stay as they are written.
//!
//! Left out: what serde_json would check beyond this (it is not used because it reads numbers as floats).

use std::borrow::Cow;

/// Deepest nesting that is read. Deeper values are an error.
pub const DEPTH_MAX: usize = 64;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub enum Json<'a> {
    /// `null`
    Null,
    /// `true`, `false`, or a number, as written.
    Plain(&'a str),
    /// A text, without its escapes.
    Text(Cow<'a, str>),
    /// An array, and as written.
    Array(Vec<Json<'a>>, &'a str),
    /// An object, and as written.
    Object(Vec<(Cow<'a, str>, Json<'a>)>, &'a str),
}

impl<'a> Json<'a> {
    /// Reads a text that is one value.
    pub fn parse(text: &'a str) -> Result<Json<'a>, &'static str> {
        let mut reader = Reader { text, at: 0 };
        let value = reader.value(0)?;
        reader.skip_spaces();
        if reader.at < text.len() {
            return Err("something stands behind the JSON value");
        }
        Ok(value)
    }

    /// As the value of a label: texts as they are, all else as written.
    pub fn shown(&self) -> &str {
        match self {
            Json::Null => "",
            Json::Plain(text) | Json::Array(_, text) | Json::Object(_, text) => text,
            Json::Text(text) => text,
        }
    }

    /// Calls `each` with the names and values inside an object; those of objects within are joined by `_`. Arrays and
    /// nulls are left out, as in Loki.
    pub fn flatten(&self, each: &mut impl FnMut(&str, &str)) {
        self.flatten_below("", each);
    }

    fn flatten_below(&self, prefix: &str, each: &mut impl FnMut(&str, &str)) {
        let Json::Object(members, _) = self else { return };
        for (key, value) in members {
            let name = label_name(prefix, key);
            match value {
                Json::Null | Json::Array(..) => {}
                Json::Object(..) => value.flatten_below(&name, each),
                _ if name.is_empty() => {}
                _ => each(&name, value.shown()),
            }
        }
    }
}

/// The name of a label for a key: other characters than letters, digits and `_` become `_`, and none begins with a digit.
pub fn label_name(prefix: &str, key: &str) -> String {
    let key = key.trim();
    let mut name = String::with_capacity(prefix.len() + key.len() + 1);
    name.push_str(prefix);
    if key.is_empty() {
        return name;
    }
    if !prefix.is_empty() || key.starts_with(|c: char| c.is_ascii_digit()) {
        name.push('_');
    }
    name.extend(key.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }));
    name
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn skip_spaces(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn value(&mut self, depth: usize) -> Result<Json<'a>, &'static str> {
        if depth > DEPTH_MAX {
            return Err("the JSON value is nested too deeply");
        }
        self.skip_spaces();
        let start = self.at;
        match self.peek().ok_or("the JSON value ends too early")? {
            b'"' => self.string().map(Json::Text),
            b'{' => {
                let mut members = Vec::new();
                self.list(b'}', |reader| {
                    if reader.peek() != Some(b'"') {
                        return Err("a key of a JSON object is no text");
                    }
                    let key = reader.string()?;
                    reader.skip_spaces();
                    if reader.peek() != Some(b':') {
                        return Err("no colon behind a key of a JSON object");
                    }
                    reader.at += 1;
                    members.push((key, reader.value(depth + 1)?));
                    Ok(())
                })?;
                Ok(Json::Object(members, &self.text[start..self.at]))
            }
            b'[' => {
                let mut items = Vec::new();
                self.list(b']', |reader| {
                    items.push(reader.value(depth + 1)?);
                    Ok(())
                })?;
                Ok(Json::Array(items, &self.text[start..self.at]))
            }
            _ => {
                let rest = &self.text[start..];
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && !"+-.".contains(c));
                let word = &rest[..end.unwrap_or(rest.len())];
                self.at += word.len();
                match word {
                    "null" => Ok(Json::Null),
                    "true" | "false" => Ok(Json::Plain(word)),
                    _ if word.starts_with(|c: char| c == '-' || c.is_ascii_digit())
                        && word.parse::<f64>().is_ok() =>
                    {
                        Ok(Json::Plain(word))
                    }
                    _ => Err("not a JSON value"),
                }
            }
        }
    }

    /// What stands between a bracket and `close`, apart by commas.
    fn list(
        &mut self,
        close: u8,
        mut item: impl FnMut(&mut Self) -> Result<(), &'static str>,
    ) -> Result<(), &'static str> {
        self.at += 1;
        self.skip_spaces();
        if self.peek() == Some(close) {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.skip_spaces();
            item(self)?;
            self.skip_spaces();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(c) if c == close => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return Err("a JSON array or object does not end"),
            }
        }
    }

    fn string(&mut self) -> Result<Cow<'a, str>, &'static str> {
        self.at += 1;
        let start = self.at;
        let bytes = self.text.as_bytes();
        let ended =
            memchr::memchr2(b'"', b'\\', &bytes[start..]).ok_or("a JSON text does not end")?;
        if bytes[start + ended] == b'"' {
            self.at = start + ended + 1;
            return Ok(Cow::Borrowed(&self.text[start..start + ended]));
        }
        let mut value = String::new();
        loop {
            let rest = &self.text[self.at..];
            let length =
                memchr::memchr2(b'"', b'\\', rest.as_bytes()).ok_or("a JSON text does not end")?;
            value.push_str(&rest[..length]);
            self.at += length + 1;
            if rest.as_bytes()[length] == b'"' {
                return Ok(Cow::Owned(value));
            }
            let escape = self.peek().ok_or("a JSON text does not end")?;
            self.at += 1;
            match escape {
                b'n' => value.push('\n'),
                b't' => value.push('\t'),
                b'r' => value.push('\r'),
                b'b' => value.push('\u{8}'),
                b'f' => value.push('\u{c}'),
                b'"' | b'\\' | b'/' => value.push(escape as char),
                b'u' => {
                    let mut code = self.hex()?;
                    if (0xD800..0xDC00).contains(&code) && self.text[self.at..].starts_with("\\u") {
                        self.at += 2;
                        let low = self.hex()?;
                        if (0xDC00..0xE000).contains(&low) {
                            code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
                        }
                    }
                    value.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
                }
                _ => return Err("an unknown escape in a JSON text"),
            }
        }
    }

    fn hex(&mut self) -> Result<u32, &'static str> {
        let digits = self
            .text
            .get(self.at..self.at + 4)
            .filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()));
        let code = digits.and_then(|d| u32::from_str_radix(d, 16).ok());
        self.at += 4;
        code.ok_or("a wrong escape in a JSON text")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_become_flat() {
        let check = |text: &str, expected: &str| {
            let shown = match Json::parse(text) {
                Ok(value) => {
                    let mut found = Vec::new();
                    value.flatten(&mut |name, value| found.push(format!("{name}={value}")));
                    found.join(",")
                }
                Err(_) => "error".to_owned(),
            };
            assert_eq!(shown, expected, "{text}");
        };
        check(r#"{"a":"b","n":1.50,"t":true,"z":null,"l":[1]}"#, "a=b,n=1.50,t=true");
        check(r#"{"a":{"b-c":{"d":"x"}},"1st":"y"}"#, "a_b_c_d=x,_1st=y");
        check(r#" { "a" : "q\"\u00e9\ud83d\ude00\n" } "#, "a=q\"\u{e9}\u{1F600}\n");
        check("{}", "");
        check("[1]", "");
        for wrong in [
            "",
            "{",
            "{a:1}",
            r#"{"a"}"#,
            r#"{"a":}"#,
            r#"{"a":1,}"#,
            "{} x",
            r#"{"a":"\q"}"#,
            r#"{"a":"\u12"#,
            "nul",
            "[1",
            "1x",
        ] {
            check(wrong, "error");
        }
        let deep = "[".repeat(DEPTH_MAX + 2);
        check(&deep, "error");
    }
}
