//! Logs as senders of Datadog write them: an array of objects, or objects one after the other.
//!
//! ```text
//! [{"ddsource":"nginx","ddtags":"env:prod,team:web","service":"shop","message":"x"}]
//!     →   {"ddsource":"nginx","ddtags":"env:prod,team:web","service":"shop","message":"x","env":"prod","team":"web"}⏎
//! ```
//!
//! A tag `name:value` becomes a field unless the log has a member of that name; of several tags
//! with the same name the first counts. `ddtags` stays as well. Source: "Send logs" of Datadog's
//! API, v2.

use std::collections::HashSet;

use text::json::write_text;

use super::json::{Broken, Members, Objects, write_in_a_line, write_member};

/// The fields that name the stream of a log.
pub const STREAM_FIELDS: [&str; 3] = ["ddsource", "hostname", "service"];
/// Members that the request may have for logs that have none.
pub const PARAMETERS: [&str; 4] = ["ddsource", "ddtags", "hostname", "service"];

/// The body is no array of objects, from the log with this number on, from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the body should be an array of objects, and is none behind {0} logs")]
pub struct NoLog(pub u64);

/// What the request says about all its logs: values by the names of [`PARAMETERS`], as JSON.
#[derive(Clone, Debug, Default)]
pub struct Defaults([Option<Vec<u8>>; PARAMETERS.len()]);

impl Defaults {
    /// Takes the values that `get` has.
    pub fn of<'t>(get: impl Fn(&str) -> Option<&'t str>) -> Defaults {
        Defaults(PARAMETERS.map(|name| {
            let mut value = Vec::new();
            write_text(get(name)?.as_bytes(), &mut value);
            Some(value)
        }))
    }

    /// Appends a line of text as a log.
    pub fn write_raw(&self, line: &[u8], out: &mut Vec<u8>) {
        let mut message = b"{\"message\":".to_vec();
        write_text(line, &mut message);
        message.push(b'}');
        write_log(&message, self, out);
    }
}

/// The logs of one request.
pub struct Logs<'b> {
    objects: Objects<'b>,
    read: u64,
}

impl<'b> Logs<'b> {
    /// The logs of a body, which is decompressed.
    pub fn of(body: &'b [u8]) -> Logs<'b> {
        Logs { objects: Objects::of(body), read: 0 }
    }

    /// Appends the next log as a line that is an object; false behind the last one.
    pub fn write_next(&mut self, defaults: &Defaults, out: &mut Vec<u8>) -> Result<bool, NoLog> {
        let log = match self.objects.next() {
            Ok(Some(log)) => log,
            Ok(None) => return Ok(false),
            Err(Broken) => return Err(NoLog(self.read)),
        };
        // A check of the connection is an empty object.
        if Members::of(log).next().is_some() {
            write_log(log, defaults, out);
        }
        self.read += 1;
        Ok(true)
    }
}

fn write_log(log: &[u8], defaults: &Defaults, out: &mut Vec<u8>) {
    let mut names: Vec<&[u8]> = Vec::new();
    let mut tags: &[u8] = b"";
    let mut write = |name, value, out: &mut Vec<u8>| {
        if name == b"ddtags" {
            tags = value;
        }
        names.push(name);
        write_member(name, |out| write_in_a_line(value, out), out);
    };
    out.push(b'{');
    for (name, value) in Members::of(log) {
        write(name, value, out);
    }
    for (name, value) in PARAMETERS.into_iter().zip(&defaults.0) {
        let name = name.as_bytes();
        if let Some(value) = value
            && !Members::of(log).any(|(own, _)| own == name)
        {
            write(name, value, out);
        }
    }
    names.sort_unstable();
    let mut of_tags = HashSet::new();
    // Escapes have neither commas nor colons, so the text is cut as it is written.
    let tags = tags.strip_prefix(b"\"").and_then(|tags| tags.strip_suffix(b"\""));
    for tag in tags.unwrap_or_default().split(|&byte| byte == b',') {
        let Some(colon) = memchr::memchr(b':', tag) else { continue };
        let (name, value) = (tag[..colon].trim_ascii(), tag[colon + 1..].trim_ascii());
        let is_own = name.starts_with(b"_") || names.binary_search(&name).is_ok();
        if name.is_empty() || is_own || !of_tags.insert(name) {
            continue;
        }
        let write = |out: &mut Vec<u8>| {
            out.push(b'"');
            out.extend_from_slice(value);
            out.push(b'"');
        };
        write_member(name, write, out);
    }
    out.extend_from_slice(b"}\n");
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn lines(body: &str, defaults: &Defaults) -> (String, Result<(), NoLog>) {
        let (mut logs, mut out) = (Logs::of(body.as_bytes()), Vec::new());
        let result = loop {
            match logs.write_next(defaults, &mut out) {
                Ok(true) => {}
                Ok(false) => break Ok(()),
                Err(error) => break Err(error),
            }
        };
        let text = String::from_utf8(out).unwrap();
        for line in text.lines() {
            serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(line).unwrap();
        }
        (text, result)
    }

    #[test]
    fn tags_become_fields() {
        let body = r#"[{"message":"x","env":"own","ddtags":"env:prod,team : web,flag,a:b:c,team:db,_time:1,q\\n:\"v\""},
            {"message":"y","attr":{
              "a":1}}]"#
            .replace("\\\\", "\\");
        let (text, result) = lines(&body, &Defaults::default());
        assert_eq!(result, Ok(()));
        assert_eq!(
            text.lines()
                .map(|line| serde_json::from_str(line).unwrap())
                .collect::<Vec<serde_json::Value>>(),
            [
                serde_json::json!({"message": "x", "env": "own", "team": "web", "a": "b:c", "q\n": "\"v\"",
                    "ddtags": "env:prod,team : web,flag,a:b:c,team:db,_time:1,q\n:\"v\""}),
                serde_json::json!({"message": "y", "attr": {"a": 1}}),
            ]
        );
    }

    /// With the square of the tags it would take minutes, also on a fast machine.
    #[test]
    fn many_tags_do_not_take_the_square_of_their_time() {
        const TAGS: usize = 400_000;
        let tags: Vec<String> = (0..TAGS).map(|n| format!("{n:07}:1")).collect();
        // Each of them twice, and one is a member.
        let tags = [&tags[..], &tags].concat().join(",");
        let log = format!(r#"{{"message":"x","0000007":2,"ddtags":"{tags}"}}"#);
        let mut out = Vec::new();
        let begun = Instant::now();
        write_log(log.as_bytes(), &Defaults::default(), &mut out);
        assert_eq!(Members::of(&out).count(), 2 + TAGS);
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    }

    #[test]
    fn the_request_says_what_a_log_leaves_out() {
        let values = [("ddsource", "nginx"), ("ddtags", "env:prod"), ("service", "shop")];
        let get = |name: &str| values.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
        let defaults = Defaults::of(get);
        let (text, _) = lines(r#"{"service":"own","message":"x"}"#, &defaults);
        assert_eq!(
            text,
            "{\"service\":\"own\",\"message\":\"x\",\"ddsource\":\"nginx\",\"ddtags\":\"env:prod\",\"env\":\"prod\"}\n"
        );
        let mut raw = Vec::new();
        defaults.write_raw(b"a \"line\"", &mut raw);
        assert_eq!(
            String::from_utf8(raw).unwrap(),
            "{\"message\":\"a \\\"line\\\"\",\"ddsource\":\"nginx\",\"ddtags\":\"env:prod\",\
             \"service\":\"shop\",\"env\":\"prod\"}\n"
        );
    }

    #[test]
    fn what_is_no_log_is_an_error_and_an_empty_one_is_none() {
        for (body, kept, result) in [
            ("", 0, Ok(())),
            ("[]", 0, Ok(())),
            ("{}", 0, Ok(())),
            (r#"{"message":"a"}{"message":"b"}"#, 2, Ok(())),
            (r#"[{"message":"a"},7]"#, 1, Err(NoLog(1))),
            (r#"[{"message":"a"}"#, 0, Err(NoLog(0))),
            ("text", 0, Err(NoLog(0))),
        ] {
            let (text, found) = lines(body, &Defaults::default());
            assert_eq!((text.lines().count(), found), (kept, result), "{body}");
        }
    }
}
