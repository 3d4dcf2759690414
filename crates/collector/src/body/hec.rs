//! Events of Splunk's HTTP Event Collector: objects one after the other, each with the event and
//! what is known about it.
//!
//! ```text
//! {"time":1769860800.5,"host":"web1","sourcetype":"app","event":"started"}
//!     →   {"_time":1769860800.5,"hostname":"web1","sourcetype":"app","_msg":"started"}⏎
//! {"source":"s","event":{"level":"error","msg":"failed"},"fields":{"region":"eu"}}
//!     →   {"source":"s","level":"error","msg":"failed","region":"eu"}⏎
//! ```
//!
//! An event that is an object gives its members, any other one is the message. A member of the
//! event keeps its name; what is known about the event is then `hec_NAME`. An array of events is
//! read as well, which some senders send. The `line` of Docker's driver is the message. Source:
//! "Format events for HTTP Event Collector" and "HTTP Event Collector REST API endpoints" of Splunk
//! Enterprise 9.

use text::json::write_text;

use super::json::{Broken, Members, Objects, first, write_in_a_line, write_member};

/// What is known about an event, by the name in the envelope and the name of its field.
const KNOWN: [(&str, &str); 5] = [
    ("time", "_time"),
    ("host", "hostname"),
    ("source", "source"),
    ("sourcetype", "sourcetype"),
    ("index", "index"),
];
/// The fields that name the stream of an event.
pub const STREAM_FIELDS: [&str; 4] = ["hostname", "index", "source", "sourcetype"];

/// What is wrong with a request. Events before the wrong one are whole.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HecError {
    /// There is no event at all.
    #[error("No data")]
    NoData,
    /// The event with this number, from 0, is no object of JSON.
    #[error("Invalid data format")]
    Invalid(u64),
    /// The event with this number has no `event`.
    #[error("Event field is required")]
    Missing(u64),
    /// The event with this number has an empty `event`.
    #[error("Event field cannot be blank")]
    Blank(u64),
}

impl HecError {
    /// Splunk's number of the error.
    pub fn code(&self) -> u32 {
        match self {
            HecError::NoData => 5,
            HecError::Invalid(_) => 6,
            HecError::Missing(_) => 12,
            HecError::Blank(_) => 13,
        }
    }

    /// The number of the wrong event, from 0.
    pub fn event(&self) -> Option<u64> {
        match *self {
            HecError::NoData => None,
            HecError::Invalid(event) | HecError::Missing(event) | HecError::Blank(event) => {
                Some(event)
            }
        }
    }
}

/// What the request says about all its events: values by the names of [`KNOWN`], as JSON.
#[derive(Clone, Debug, Default)]
pub struct Defaults([Option<Vec<u8>>; KNOWN.len()]);

impl Defaults {
    /// Takes the values that `get` has for the names `time`, `host`, `source`, `sourcetype` and
    /// `index`.
    pub fn of<'t>(get: impl Fn(&str) -> Option<&'t str>) -> Defaults {
        Defaults(KNOWN.map(|(name, _)| {
            let mut value = Vec::new();
            write_text(get(name)?.as_bytes(), &mut value);
            Some(value)
        }))
    }

    /// Appends a line of text as an object.
    pub fn write_raw(&self, line: &[u8], out: &mut Vec<u8>) {
        let known = self.0.each_ref().map(|value| value.as_deref());
        out.push(b'{');
        write_known(known, |_| false, out);
        write_member(b"_msg", |out| write_text(line, out), out);
        out.extend_from_slice(b"}\n");
    }
}

/// The events of one request.
pub struct Events<'b> {
    objects: Objects<'b>,
    read: u64,
}

impl<'b> Events<'b> {
    /// The events of a body, which is decompressed.
    pub fn of(body: &'b [u8]) -> Events<'b> {
        Events { objects: Objects::of(body), read: 0 }
    }

    /// Events that were read so far.
    pub fn read(&self) -> u64 {
        self.read
    }

    /// Appends the next event as a line that is an object; false behind the last event.
    pub fn write_next(&mut self, defaults: &Defaults, out: &mut Vec<u8>) -> Result<bool, HecError> {
        let event = match self.objects.next() {
            Ok(Some(event)) => event,
            Ok(None) if self.read == 0 => return Err(HecError::NoData),
            Ok(None) => return Ok(false),
            Err(Broken) => return Err(HecError::Invalid(self.read)),
        };
        let begin = out.len();
        if let Err(error) = write_event(event, defaults, self.read, out) {
            out.truncate(begin);
            return Err(error);
        }
        self.read += 1;
        Ok(true)
    }
}

fn write_event(
    event: &[u8],
    defaults: &Defaults,
    number: u64,
    out: &mut Vec<u8>,
) -> Result<(), HecError> {
    let mut known = defaults.0.each_ref().map(|value| value.as_deref());
    let (mut content, mut fields) = (None, None);
    for (key, value) in Members::of(event) {
        match key {
            b"event" => content = Some(value),
            b"fields" => fields = Some(value),
            key => {
                let place = KNOWN.iter().position(|(name, _)| name.as_bytes() == key);
                if let Some(place) = place
                    && value != b"null"
                {
                    known[place] = Some(value);
                }
            }
        }
    }
    let content = match content {
        None | Some(b"null") => return Err(HecError::Missing(number)),
        Some(b"\"\"") => return Err(HecError::Blank(number)),
        Some(content) => content,
    };
    let is_object = first(content) == Some(b'{');
    let mut own: Vec<&[u8]> = match is_object {
        true => Members::of(content).map(|(key, _)| key).collect(),
        false => Vec::new(),
    };
    // They are looked up for each other member, of which there may be as many.
    own.sort_unstable();
    let is_own = |name: &[u8]| own.binary_search(&name).is_ok();
    out.push(b'{');
    write_known(known, is_own, out);
    let is_of_docker = is_own(b"line") && is_own(b"source") && !is_own(b"_msg");
    match first(content) {
        Some(b'{') => write_members(content, is_of_docker, out),
        Some(b'"') => write_member(b"_msg", |out| write_in_a_line(content, out), out),
        _ => write_member(b"_msg", |out| write_text(content, out), out),
    }
    // What the envelope has besides is kept as fields, so that nothing is lost in silence.
    for (key, value) in Members::of(event) {
        let is_read = key == b"event"
            || key == b"fields"
            || KNOWN.iter().any(|(name, _)| name.as_bytes() == key);
        if !is_read && !is_own(key) {
            write_member(key, |out| write_in_a_line(value, out), out);
        }
    }
    for (key, value) in fields.into_iter().flat_map(Members::of) {
        if !is_own(key) {
            write_member(key, |out| write_in_a_line(value, out), out);
        }
    }
    out.extend_from_slice(b"}\n");
    Ok(())
}

/// Appends what is known about an event; `is_own` tells the names of its own members.
fn write_known(
    known: [Option<&[u8]>; KNOWN.len()],
    is_own: impl Fn(&[u8]) -> bool,
    out: &mut Vec<u8>,
) {
    for ((name, field), value) in KNOWN.into_iter().zip(known) {
        let Some(value) = value else { continue };
        let write = |out: &mut Vec<u8>| write_in_a_line(value, out);
        if is_own(field.as_bytes()) {
            write_member(format!("hec_{name}").as_bytes(), write, out);
        } else {
            write_member(field.as_bytes(), write, out);
        }
    }
}

/// Appends the members of an event; the `line` of Docker's driver is the message.
fn write_members(event: &[u8], of_docker: bool, out: &mut Vec<u8>) {
    for (key, value) in Members::of(event) {
        let is_message = of_docker && key == b"line" && first(value) == Some(b'"');
        let key = if is_message { b"_msg" } else { key };
        write_member(key, |out| write_in_a_line(value, out), out);
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn lines(body: &str, defaults: &Defaults) -> (String, Result<u64, HecError>) {
        let (mut events, mut out) = (Events::of(body.as_bytes()), Vec::new());
        let result = loop {
            match events.write_next(defaults, &mut out) {
                Ok(true) => {}
                Ok(false) => break Ok(events.read()),
                Err(error) => break Err(error),
            }
        };
        let text = String::from_utf8(out).unwrap();
        for line in text.lines() {
            serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(line).unwrap();
        }
        (text, result)
    }

    fn check(body: &str, expected: &str) {
        let (text, result) = lines(body, &Defaults::default());
        assert_eq!(text, expected);
        assert_eq!(result, Ok(expected.lines().count() as u64));
    }

    #[test]
    fn events_become_lines() {
        check(
            r#"{"time":1769860800.5,"host":"web1","source":"s","sourcetype":"app","index":"main","event":"started"}"#,
            "{\"_time\":1769860800.5,\"hostname\":\"web1\",\"source\":\"s\",\"sourcetype\":\"app\",\
             \"index\":\"main\",\"_msg\":\"started\"}\n",
        );
        check(
            "{\"event\":{\n \"level\": \"error\",\n \"msg\":\"a\\nb\"\n},\"fields\":{\"region\":\"eu\",\"n\":[1,\n2]}}",
            "{\"level\":\"error\",\"msg\":\"a\\nb\",\"region\":\"eu\",\"n\":[1, 2]}\n",
        );
        check(
            "{\"event\":[1,{\"a\":2}]}{\"event\":17} {\"event\":true}\n",
            concat!(
                "{\"_msg\":\"[1,{\\\"a\\\":2}]\"}\n",
                "{\"_msg\":\"17\"}\n",
                "{\"_msg\":\"true\"}\n",
            ),
        );
        check(
            r#"[{"event":"a"},{"event":"b"}]{"event":"c"}"#,
            concat!("{\"_msg\":\"a\"}\n", "{\"_msg\":\"b\"}\n", "{\"_msg\":\"c\"}\n",),
        );
        check(r#"{"event":{},"host":null}"#, "{}\n");
    }

    /// With the square of the members it would take minutes, also on a fast machine.
    #[test]
    fn many_members_do_not_take_the_square_of_their_time() {
        const MEMBERS: usize = 300_000;
        let list = |from: usize| -> String {
            let member = |n: usize| format!("\"{n:07}\":1");
            (from..from + MEMBERS).map(member).collect::<Vec<_>>().join(",")
        };
        // The last member of the event is the first one of the fields.
        let (event, fields) = (list(0), list(MEMBERS - 1));
        let body = format!(r#"{{"event":{{{event}}},"fields":{{{fields}}}}}"#);
        let (mut events, mut out) = (Events::of(body.as_bytes()), Vec::new());
        let begun = Instant::now();
        assert_eq!(events.write_next(&Defaults::default(), &mut out), Ok(true));
        let members = Members::of(&out).count();
        assert_eq!(members, 2 * MEMBERS - 1);
        assert!(begun.elapsed() < Duration::from_secs(60), "{:?}", begun.elapsed());
    }

    #[test]
    fn members_of_the_event_keep_their_names() {
        check(
            r#"{"source":"http:docker","host":"node1","event":{"line":"x","source":"stdout","hostname":"c1"},"fields":{"line":"y"},"severity":"INFO"}"#,
            "{\"hec_host\":\"node1\",\"hec_source\":\"http:docker\",\"_msg\":\"x\",\"source\":\"stdout\",\
             \"hostname\":\"c1\",\"severity\":\"INFO\"}\n",
        );
    }

    #[test]
    fn the_request_says_what_an_event_leaves_out() {
        let values = [("host", "a\"b"), ("index", "main"), ("time", "1769860800")];
        let get = |name: &str| values.iter().find(|(key, _)| *key == name).map(|(_, value)| *value);
        let defaults = Defaults::of(get);
        let (text, _) = lines(r#"{"host":"own","event":"x"}{"event":"y"}"#, &defaults);
        assert_eq!(
            text,
            concat!(
                "{\"_time\":\"1769860800\",\"hostname\":\"own\",\"index\":\"main\",\"_msg\":\"x\"}\n",
                "{\"_time\":\"1769860800\",\"hostname\":\"a\\\"b\",\"index\":\"main\",\"_msg\":\"y\"}\n",
            )
        );
        let mut raw = Vec::new();
        defaults.write_raw(b"a \"line\"\xff", &mut raw);
        assert_eq!(
            String::from_utf8(raw).unwrap(),
            "{\"_time\":\"1769860800\",\"hostname\":\"a\\\"b\",\"index\":\"main\",\
             \"_msg\":\"a \\\"line\\\"\u{fffd}\"}\n"
        );
    }

    #[test]
    fn the_wrong_event_is_named_and_those_before_it_are_whole() {
        let before = r#"{"event":"a"}{"event":"b"}"#;
        for (wrong, error) in [
            ("{\"event\":\"c\"", HecError::Invalid(2)),
            ("x", HecError::Invalid(2)),
            ("\"event\"", HecError::Invalid(2)),
            ("[7]", HecError::Invalid(2)),
            ("[{\"event\":1},{]", HecError::Invalid(2)),
            ("{}", HecError::Missing(2)),
            ("{\"event\":null}", HecError::Missing(2)),
            ("{\"event\":\"\"}", HecError::Blank(2)),
        ] {
            let (text, result) = lines(&format!("{before}{wrong}"), &Defaults::default());
            assert_eq!(result, Err(error), "{wrong}");
            assert_eq!(text, "{\"_msg\":\"a\"}\n{\"_msg\":\"b\"}\n", "{wrong}");
        }
        for empty in ["", " \n"] {
            assert_eq!(lines(empty, &Defaults::default()).1, Err(HecError::NoData));
        }
    }
}
