//! Runs queries for tools, and makes of their rows what an assistant reads: compact, and bounded.

use std::io::{BufRead, Read};

use serde_json::{Map, Value};

/// Most bytes of the rows in one result, about ten thousand tokens. What is beyond is left out, and
/// the result says how to narrow the query.
pub const RESULT_BYTES_MAX: usize = 32 << 10;
/// Longest row that is read. The rest of an answer with a longer one is left out.
const ROW_BYTES_MAX: u64 = 16 << 20;
/// Bytes of a value, unless the call says otherwise. Beyond, the value is cut and says so.
pub const VALUE_BYTES: usize = 1_000;

/// Fields of a whole line that are left out, because others say the same.
const REPEATED: [&str; 7] =
    ["_stream", "_stream_id", "priority", "facility", "facility_keyword", "severity", "format"];

/// Asks the server.
pub trait Ask {
    /// The body of the answer, or a message that says what to do. Parameters of calls below
    /// `/api/` are in the address, those of others in a form.
    fn ask(&self, path: &str, form: &[(&str, String)]) -> Result<Box<dyn BufRead>, String>;
}

/// Parameters of a request.
pub type Form = Vec<(&'static str, String)>;

/// What a tool found: what we say about it, and the text that comes from logs.
pub struct Found {
    pub note: String,
    pub data: String,
}

/// Rows as text, up to a number of bytes.
pub struct Shown {
    pub text: String,
    pub rows: usize,
    /// Whether rows were left out because the text would be too long.
    pub is_full: bool,
    /// Whether values were cut.
    has_cut: bool,
    value_bytes: usize,
}

impl Shown {
    pub fn new(value_bytes: usize) -> Shown {
        Shown { text: String::new(), rows: 0, is_full: false, has_cut: false, value_bytes }
    }

    /// Adds a line; false if there is no room.
    pub fn push(&mut self, line: &str) -> bool {
        if self.text.len() + line.len() >= RESULT_BYTES_MAX {
            self.is_full = true;
            if self.rows > 0 {
                return false;
            }
            // Part of a row is better than nothing.
            self.text.push_str(&cut(line, RESULT_BYTES_MAX / 2));
            self.rows = 1;
            return false;
        }
        if self.rows > 0 {
            self.text.push('\n');
        }
        self.text.push_str(line);
        self.rows += 1;
        true
    }

    /// Adds a row as one line of JSON.
    pub fn push_row(&mut self, mut row: Map<String, Value>) -> bool {
        self.shorten(&mut row);
        self.push(&Value::Object(row).to_string())
    }

    /// Cuts the values of a row, and leaves out what others say.
    pub fn shorten(&mut self, row: &mut Map<String, Value>) {
        if ["_line_id", "_stream", "_msg"].iter().all(|name| row.contains_key(*name)) {
            row.retain(|name, _| !REPEATED.contains(&name.as_str()));
            if row.get("level") == row.get("_level") {
                row.remove("level");
            }
        }
        for value in row.values_mut() {
            if let Value::String(text) = value
                && text.len() > self.value_bytes
            {
                *text = cut(text, self.value_bytes);
                self.has_cut = true;
            }
        }
    }

    /// What an assistant has to know about what is missing.
    pub fn told(&self) -> String {
        let mut told = String::new();
        if self.is_full {
            told.push_str(&format!(
                " The rest was left out, because a result has at most {RESULT_BYTES_MAX} bytes: ask for less by a narrower \
                 time or filter, a smaller limit, fewer fields (`| fields _time, _msg`), or numbers (`| stats by (…) count() n`)."
            ));
        }
        if self.has_cut {
            told.push_str(&format!(
                " Values longer than {} bytes are cut; `value_bytes` raises that.",
                self.value_bytes
            ));
        }
        told
    }
}

/// The begin of a text, with what is missing.
pub fn cut(text: &str, bytes: usize) -> String {
    let end = text.floor_char_boundary(bytes);
    format!("{}…[{} more bytes]", &text[..end], text.len() - end)
}

/// Reads an answer line by line until `take` says false. Gives a message if the answer is not
/// complete.
pub fn read_lines(
    mut answer: Box<dyn BufRead>,
    mut take: impl FnMut(&[u8]) -> bool,
) -> Result<(), String> {
    let broken = |error: std::io::Error| format!("the answer of the server broke off: {error}");
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut answer).take(ROW_BYTES_MAX).read_until(b'\n', &mut line);
        if read.map_err(broken)? == 0 {
            return Ok(());
        }
        if line.len() as u64 == ROW_BYTES_MAX && !line.ends_with(b"\n") {
            return Err(format!(
                "a row is longer than {ROW_BYTES_MAX} bytes; ask for fewer fields"
            ));
        }
        if !take(line.strip_suffix(b"\n").unwrap_or(&line)) {
            return Ok(());
        }
    }
}

/// The rows of a query, all of them; for queries that have few.
pub fn rows(
    ask: &dyn Ask,
    query: String,
    times: &[(&'static str, String)],
) -> Result<Vec<Map<String, Value>>, String> {
    let mut form = vec![("query", query)];
    form.extend_from_slice(times);
    let mut rows = Vec::new();
    let mut bytes = 0;
    let mut error = None;
    read_lines(ask.ask("/select/logsql/query", &form)?, |line| {
        bytes += line.len();
        match row(line) {
            Ok(row) => rows.push(row),
            Err(message) => error = Some(message),
        }
        error.is_none() && (bytes as u64) < ROW_BYTES_MAX
    })?;
    error.map_or(Ok(rows), Err)
}

/// A row of an answer, or the message that stands in its place.
pub fn row(line: &[u8]) -> Result<Map<String, Value>, String> {
    let row: Map<String, Value> = serde_json::from_slice(line)
        .map_err(|error| format!("the server answered with something else than rows: {error}"))?;
    match row.get("_error") {
        Some(Value::Object(error)) => {
            let message = error.get("message").and_then(Value::as_str).unwrap_or_default();
            Err(format!("the answer is not complete: {message}"))
        }
        _ => Ok(row),
    }
}

/// The text of a field, empty if there is none.
pub fn field<'r>(row: &'r Map<String, Value>, name: &str) -> &'r str {
    row.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// The number in a field, 0 if there is none.
pub fn number(row: &Map<String, Value>, name: &str) -> f64 {
    field(row, name).parse().unwrap_or_default()
}

/// A number of things.
pub fn counted(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

/// The name of a field as it is written in a query.
pub fn named(field: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'.';
    match !field.is_empty() && field.bytes().all(is_plain) {
        true => field.to_owned(),
        false => text::quoted::quote(field),
    }
}

/// A query and a pipe behind it. The query may end in a comment or a semicolon.
pub fn piped(query: &str, pipe: &str) -> String {
    format!("{}\n| {pipe}", query.trim_end_matches(|c: char| c == ';' || c.is_whitespace()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_too_long_is_cut_and_told() {
        let mut shown = Shown::new(10);
        let long = |text: &str| Map::from_iter([("a".to_owned(), Value::from(text))]);
        assert!(shown.push_row(long("short")));
        assert_eq!((shown.text.as_str(), shown.told().as_str()), ("{\"a\":\"short\"}", ""));
        assert!(shown.push_row(long("ééééééé")));
        assert!(shown.text.ends_with("\n{\"a\":\"ééééé…[4 more bytes]\"}"), "{}", shown.text);
        assert!(shown.told().contains("`value_bytes`"));
        let row = "x".repeat(RESULT_BYTES_MAX / 2);
        assert!(shown.push(&row) && !shown.push(&row));
        assert!(shown.told().contains("narrower"), "{}", shown.told());
        assert!(shown.text.len() <= RESULT_BYTES_MAX);
        let mut shown = Shown::new(10);
        assert!(!shown.push(&"é".repeat(RESULT_BYTES_MAX)));
        assert!(shown.rows == 1 && shown.text.len() <= RESULT_BYTES_MAX);
    }

    #[test]
    fn whole_lines_lose_what_others_say() {
        let line = r#"{"_line_id":"1","_stream":"{}","_msg":"m","priority":"11","host":"a"}"#;
        let mut shown = Shown::new(10);
        shown.push_row(row(line.as_bytes()).unwrap());
        shown.push_row(row(br#"{"priority":"11"}"#).unwrap());
        let expected = "{\"_line_id\":\"1\",\"_msg\":\"m\",\"host\":\"a\"}\n{\"priority\":\"11\"}";
        assert_eq!(shown.text, expected);
        let error = row(br#"{"_error":{"message":"no time left"}}"#).unwrap_err();
        assert_eq!(error, "the answer is not complete: no time left");
        assert!(row(br#"{"_error":"a text of a log"}"#).is_ok());
    }

    #[test]
    fn pipes_stand_behind_comments() {
        assert_eq!(piped("error # why ; ", "limit 1"), "error # why\n| limit 1");
        assert_eq!(piped("error;", "limit 1"), "error\n| limit 1");
        assert_eq!((named("a.b_1"), named("a b")), ("a.b_1".to_owned(), "\"a b\"".to_owned()));
    }
}
