//! Entries of the slow log of MySQL and MariaDB, which a source joined to a record:
//!
//! ```text
//! # Time: 2021-01-26T23:45:57.678222Z
//! # User@Host: app[app] @ localhost []  Id:     2
//! # Query_time: 0.011853  Lock_time: 0.011542 Rows_sent: 268  Rows_examined: 268
//! use shop;
//! SET timestamp=1611704757;
//! SELECT a FROM t;
//! ```
//!
//! Pairs behind `#` become fields with the names that the server gives them, and besides `user`,
//! `host` and `db`. Within one second the server of old writes `# Time:` only once; the time is
//! then that of `SET timestamp`, which is when the query began. Left out: the query itself, which
//! is the rest of the message.

use super::time::{self, Written};

/// Lines of an entry that are searched for pairs.
const LINES_MAX: usize = 32;

/// Calls `each` with the fields of an entry. Returns its time if only `SET timestamp` states it.
pub(crate) fn parse<'a>(entry: &'a [u8], mut each: impl FnMut(&str, &'a [u8])) -> Option<Written> {
    let mut has_time = false;
    let mut timestamp = None;
    let mut is_entry = false;
    for line in entry.split(|b| *b == b'\n').take(LINES_MAX) {
        let line = line.trim_ascii();
        if let Some(pairs) = line.strip_prefix(b"# ") {
            if pairs.starts_with(b"Time: ") {
                has_time = true;
            } else if let Some(user) = pairs.strip_prefix(b"User@Host: ") {
                is_entry = true;
                user_and_host(user, &mut each);
            } else if is_entry {
                self::pairs(pairs, &mut each);
            }
        } else if !is_entry {
            return None;
        } else if let Some(db) = line.strip_prefix(b"use ") {
            each("db", db.trim_ascii_end().strip_suffix(b";").unwrap_or(db));
        } else if let Some(seconds) = line.strip_prefix(b"SET timestamp=") {
            timestamp = seconds.strip_suffix(b";").and_then(time::since_1970);
            break;
        } else {
            break;
        }
    }
    let (local_s, nanos) = timestamp.filter(|_| !has_time)?;
    Some(Written::of_utc(local_s, nanos))
}

/// `app[app] @ localhost [127.0.0.1]  Id:     2`
fn user_and_host<'a>(text: &'a [u8], each: &mut impl FnMut(&str, &'a [u8])) {
    let Some(at) = memchr::memmem::find(text, b" @ ") else { return };
    let user = &text[..at];
    let user = &user[..memchr::memchr(b'[', user).unwrap_or(user.len())];
    let rest = &text[at + 3..];
    let (Some(open), Some(close)) = (memchr::memchr(b'[', rest), memchr::memchr(b']', rest)) else {
        return;
    };
    if close < open {
        return;
    }
    let (name, address) = (rest[..open].trim_ascii(), &rest[open + 1..close]);
    let host = if name.is_empty() { address } else { name };
    for (field, value) in [("user", user), ("host", host)] {
        if !value.is_empty() {
            each(field, value);
        }
    }
    pairs(&rest[close + 1..], each);
}

/// `Query_time: 0.011853  Lock_time: 0.011542`
fn pairs<'a>(text: &'a [u8], each: &mut impl FnMut(&str, &'a [u8])) {
    let mut words = text.split(|b| b.is_ascii_whitespace()).filter(|word| !word.is_empty());
    let mut key = words.next();
    while let Some(name) = key {
        key = words.next();
        let Some(name) = name.strip_suffix(b":").and_then(|n| std::str::from_utf8(n).ok()) else {
            continue;
        };
        // A key directly behind a key: the first has no value.
        let Some(value) = key.filter(|value| !value.ends_with(b":")) else { continue };
        each(name, value);
        if name == "Schema" {
            each("db", value);
        }
        key = words.next();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(entry: &str, expected: &str, time_s: Option<i64>) {
        let mut found = Vec::new();
        let written = parse(entry.as_bytes(), |name, value| {
            found.push(format!("{name}={}", String::from_utf8_lossy(value)));
        });
        assert_eq!((found.join(" "), written.map(|w| w.local_s)), (expected.to_owned(), time_s));
    }

    #[test]
    fn entries() {
        check(
            "# Time: 2021-01-26T23:45:57.678222Z\n# User@Host: app[app] @ localhost []  Id:     2\n\
             # Query_time: 0.011853  Lock_time: 0.011542 Rows_sent: 268  Rows_examined: 269\n\
             use shop;\nSET timestamp=1611704757;\nSELECT a FROM t WHERE x = '# a: b';",
            "user=app host=localhost Id=2 Query_time=0.011853 Lock_time=0.011542 Rows_sent=268 \
             Rows_examined=269 db=shop",
            None,
        );
        // MariaDB, and a second entry within a second.
        check(
            "# User@Host: root[root] @  [10.0.0.5]\n# Thread_id: 8  Schema: shop  QC_hit: No\n\
             # Query_time: 1.5  Lock_time: 0.1  Rows_sent: 1  Rows_examined: 2\nSET timestamp=1611704757;\nSELECT 1;",
            "user=root host=10.0.0.5 Thread_id=8 Schema=shop db=shop QC_hit=No Query_time=1.5 Lock_time=0.1 \
             Rows_sent=1 Rows_examined=2",
            Some(1_611_704_757),
        );
        check("# Thread_id: 8  Schema:   QC_hit: No", "", None);
        check("# User@Host: a[a] @ b []\n# Schema:   QC_hit: No", "user=a host=b QC_hit=No", None);
        check("# A heading: with text", "", None);
        check("# User@Host: ][ @ ][", "", None);
    }
}
