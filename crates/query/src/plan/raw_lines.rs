//! Finds the lines of a frame that may pass a filter by searching the bytes as they were received.
//!
//! Most queries for new lines want a word, a phrase or a part of one in the message, and few lines
//! have it. A frame that is not sealed has no columns. Parsing all its lines takes ten times as
//! long as searching its bytes. So the bytes are searched for *needles*: texts of which every line
//! that passes the filter holds at least one. Only lines with a needle are parsed, and the filter
//! then decides about them.
//!
//! A needle is a run of ASCII letters and digits in a text that the message, or a part of the head
//! ([`PARTS`]), must hold, or else one of its [`SIGNS`]. Such a value is a part of its line, except
//! for the escapes of JSON and logfmt. Only `\u` and `\x` escapes can produce letters and digits,
//! so lines with these are parsed as well. So are lines that hold a newline, because the parts of a
//! container's line are joined, and JSON of the journal, whose message may be written as the
//! numbers of its bytes. All lines are parsed where the origin has escapes removed from values, or
//! gives such a value itself.
//!
//! Left out: other fields. Some are computed, such as levels, and some come with the origin.

use aho_corasick::AhoCorasick;
use record::frame::HEADER_BYTES;
use record::{Frame, Hints};

use crate::base::Phrase;
use crate::base::names::MSG;
use crate::lang::filter::{Filter, Test};

/// With more needles, all lines are parsed instead.
const NEEDLES_MAX: usize = 64;
/// Bytes of a needle; a longer text is cut. That many bytes are rare enough, and the automaton that
/// searches for needles takes memory for each byte.
const NEEDLE_BYTES_MAX: usize = 32;
/// Fields whose values are parts of their lines, whatever the format of the line.
const PARTS: [&str; 4] = [MSG, "hostname", "app_name", "proc_id"];
/// Signs that no format takes out of a value or puts into one, and that few lines hold: needles of
/// texts without letters and digits.
const SIGNS: [char; 8] = ['@', '#', '$', '%', '!', '~', '^', '*'];
/// Escapes that may stand in a line for letters and digits of a value.
const ESCAPES: [&str; 2] = ["\\u", "\\x"];
/// The key of a message that may be written as numbers.
const JOURNAL_KEY: [&str; 1] = ["\"MESSAGE\""];
/// Non-ASCII letters that match an ASCII letter of another case: the long s and the Kelvin sign.
const FOLDED: [&str; 2] = ["\u{17f}", "\u{212a}"];

/// The needles of a filter: the texts of which each line that passes it holds one.
pub struct RawLines {
    searched: AhoCorasick,
    needles: Needles,
}

/// Texts of which a line must hold at least one. There is at least one text, and none is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Needles {
    texts: Vec<String>,
    /// Whether letters may have any case.
    any_case: bool,
}

impl RawLines {
    /// None where a line without any known text may pass.
    pub fn of(filter: &Filter) -> Option<RawLines> {
        let needles = Needles::of(filter)?;
        let folded: &[&str] = if needles.any_case { &FOLDED } else { &[] };
        let texts = needles.texts.iter().map(String::as_str);
        let searched = AhoCorasick::builder()
            .ascii_case_insensitive(needles.any_case)
            .build(texts.chain(ESCAPES).chain(JOURNAL_KEY).chain(folded.iter().copied()));
        // An error means that the automaton has too many states.
        Some(RawLines { searched: searched.ok()?, needles })
    }

    /// The texts of which each line that may pass holds one, except for lines with a newline; for
    /// those who search for the texts of several filters at once, in frames where
    /// [`RawLines::decide`].
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let folded: &[&str] = if self.needles.any_case { &FOLDED } else { &[] };
        let texts = self.needles.texts.iter().map(String::as_str);
        texts.chain(ESCAPES).chain(JOURNAL_KEY).chain(folded.iter().copied())
    }

    /// Whether the letters of the texts may have any case.
    pub fn any_case(&self) -> bool {
        self.needles.any_case
    }

    /// Whether the texts decide which lines of a frame may pass, because its origins keep values as
    /// they stand in a line. Else all lines may.
    pub fn decide(frame: &Frame) -> bool {
        frame.origins().iter().all(|origin| keeps_text(&origin.hints))
    }

    /// Whether a line with these bytes and hints may pass.
    pub fn may_pass(&self, line: &[u8], hints: &Hints) -> bool {
        !keeps_text(hints) || memchr::memchr(b'\n', line).is_some() || self.searched.is_match(line)
    }

    /// The needles as an expression.
    pub(crate) fn shown(&self) -> String {
        let texts: Vec<String> =
            self.needles.texts.iter().map(|text| format!("{text:?}")).collect();
        let case = if self.needles.any_case { " in any case" } else { "" };
        format!("{}{case}", texts.join(" or "))
    }

    /// The indexes of the lines that may pass, ascending; none where all lines must be parsed.
    pub fn lines(&self, frame: &Frame) -> Option<Vec<u32>> {
        if !RawLines::decide(frame) {
            return None;
        }
        let mut found = Vec::new();
        let matches = self.searched.find_iter(frame.payload());
        let mut places = matches.map(|found| HEADER_BYTES + found.start()).peekable();
        let may_hold_newlines = frame.runs().iter().any(|run| run.has_lengths());
        for line in frame.lines() {
            let end = line.offset as usize + line.bytes.len();
            let mut holds = false;
            while places.next_if(|&at| at < end).is_some() {
                holds = true;
            }
            if holds || may_hold_newlines && memchr::memchr(b'\n', line.bytes).is_some() {
                found.push(line.index);
            }
        }
        Some(found)
    }
}

/// Whether the values of [`PARTS`] are parts of their lines, except for escapes.
fn keeps_text(hints: &Hints) -> bool {
    let is_part = |name: &str| PARTS.contains(&name);
    hints.decolorize_fields.is_empty() && !hints.extra_fields.iter().any(|(name, _)| is_part(name))
}

impl Needles {
    /// None where a line without any known text may pass.
    fn of(filter: &Filter) -> Option<Needles> {
        match filter {
            Filter::Field { name, test } if PARTS.contains(&&**name) => Needles::of_test(test),
            Filter::And(filters) => {
                filters.iter().filter_map(Needles::of).max_by_key(Needles::worth)
            }
            Filter::Or(filters) => Needles::any_of(filters.iter().map(Needles::of)),
            _ => None,
        }
    }

    fn of_test(test: &Test) -> Option<Needles> {
        if let Test::AnyCasePhrase(text) | Test::AnyCasePrefix(text) = test {
            return Needles::one(text, true);
        }
        let needed = test.needed();
        let each = needed.phrases.iter().map(|Phrase { text, .. }| Needles::one(text, false));
        match needed.any {
            true => Needles::any_of(each),
            false => each.flatten().max_by_key(Needles::worth),
        }
    }

    /// The longest run of ASCII letters and digits of a text, or else a sign; none where there is
    /// neither.
    fn one(text: &str, any_case: bool) -> Option<Needles> {
        let runs = text.split(|c: char| !c.is_ascii_alphanumeric());
        let longest = runs.max_by_key(|run| run.len()).filter(|run| !run.is_empty());
        let text = match longest {
            Some(run) => run[..run.len().min(NEEDLE_BYTES_MAX)].to_owned(),
            None => text.chars().find(|c| SIGNS.contains(c))?.to_string(),
        };
        Some(Needles { texts: vec![text], any_case })
    }

    /// None where one part may pass without any known text, or where there are too many needles.
    fn any_of(parts: impl Iterator<Item = Option<Needles>>) -> Option<Needles> {
        let mut all: Option<Needles> = None;
        for part in parts {
            let part = part?;
            match &mut all {
                None => all = Some(part),
                Some(all) => {
                    all.texts.extend(part.texts);
                    all.any_case |= part.any_case;
                    if all.texts.len() > NEEDLES_MAX {
                        return None;
                    }
                }
            }
        }
        all
    }

    /// How well the needles select: few lines hold a long text.
    fn worth(&self) -> (bool, usize) {
        (!self.any_case, self.texts.iter().map(String::len).min().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use record::{Format, FrameBuilder, Origin, Transport};

    use super::*;
    use crate::lang::syntax::query::Query;

    fn needles(query: &str) -> Option<(Vec<String>, bool)> {
        let query = Query::parse(query, 0).unwrap();
        Needles::of(query.filter()).map(|needles| (needles.texts, needles.any_case))
    }

    #[test]
    fn needles_are_what_the_message_must_hold() {
        let check = |query: &str, expected: &[&str], any_case: bool| {
            let expected = expected.iter().map(|text| (*text).to_owned()).collect();
            assert_eq!(needles(query), Some((expected, any_case)), "{query}");
        };
        check("error", &["error"], false);
        check("\"Failed password\"", &["password"], false);
        check("a bcd hostname:x", &["bcd"], false);
        check("err hostname:=web12", &["web12"], false);
        check("{app_name=\"sshd\"} proc_id:12", &["sshd"], false);
        check("hostname:a or error", &["a", "error"], false);
        check("error or warn*", &["error", "warn"], false);
        check("(a or b) ccc", &["ccc"], false);
        check("i(error) or x", &["error", "x"], true);
        check("i(error) x", &["x"], false);
        check("~\"rror (one|two)\"", &["rror"], false);
        check("*rror*", &["rror"], false);
        check("größe", &["gr"], false);
        check("in(a, b)", &["a", "b"], false);
        check("error !warn", &["error"], false);
        check("\"@\"", &["@"], false);
        check("\"@example\"", &["example"], false);
        for query in [
            "*",
            "!a",
            "a or !b",
            "level:a",
            "hostname:\"\"",
            "hostname:a or level:b",
            "*:a",
            "_time:5m",
            "é",
            "\"\"",
            "\": (/\"",
            "in(a, \"\")",
            "~\"a|b*\"",
        ] {
            assert_eq!(needles(query), None, "{query}");
        }
    }

    #[test]
    fn needles_are_few_and_short() {
        let either = |count: usize| -> String {
            (0..count).map(|i| format!("w{i}")).collect::<Vec<_>>().join(" or ")
        };
        assert_eq!(needles(&either(NEEDLES_MAX)).unwrap().0.len(), NEEDLES_MAX);
        assert_eq!(needles(&either(NEEDLES_MAX + 1)), None);
        // Another part of the filter has a needle.
        let both = format!("({}) rare", either(NEEDLES_MAX + 1));
        assert_eq!(needles(&both), Some((vec!["rare".to_owned()], false)));
        let long = needles(&"a".repeat(NEEDLE_BYTES_MAX + 1)).unwrap();
        assert_eq!(long.0, ["a".repeat(NEEDLE_BYTES_MAX)]);
    }

    fn lines(query: &str, texts: &[&[u8]], hints: Hints) -> Option<Vec<u32>> {
        let mut origin = Origin::new(Transport::SyslogTcp, Format::Auto, None);
        origin.hints = hints.into();
        let mut builder = FrameBuilder::new();
        texts.iter().for_each(|text| builder.push_line(&origin, 0, text, false));
        let frame = builder.finish(1, 1).unwrap();
        RawLines::of(Query::parse(query, 0).unwrap().filter()).unwrap().lines(&frame)
    }

    #[test]
    fn lines_with_a_needle_or_an_escape_are_found() {
        let texts: [&[u8]; 6] = [
            b"an error, and another error",
            b"nothing",
            b"ERROR",
            b"{\"_msg\":\"\\u0065rror\"}",
            b"",
            b"at the end error",
        ];
        let check = |query: &str, expected: &[u32]| {
            assert_eq!(lines(query, &texts, Hints::default()).unwrap(), expected, "{query}");
        };
        check("error", &[0, 3, 5]);
        check("i(error)", &[0, 2, 3, 5]);
        check("end or nothing", &[1, 3, 5]);
        let folded: [&[u8]; 2] = ["mi\u{17f}t".as_bytes(), b"x"];
        assert_eq!(lines("i(mist)", &folded, Hints::default()), Some(vec![0]));
        let numbers: [&[u8]; 2] = [br#"{"MESSAGE" : [101,114,114,111,114]}"#, b"x"];
        assert_eq!(lines("error", &numbers, Hints::default()), Some(vec![0]));
        let joined: [&[u8]; 2] = [b"er\nror", b"x"];
        assert_eq!(lines("error", &joined, Hints::default()), Some(vec![0]));
        let decolorize = Hints { decolorize_fields: vec!["_msg".into()], ..Hints::default() };
        assert_eq!(lines("error", &texts, decolorize), None);
        let extra =
            Hints { extra_fields: vec![("_msg".into(), "error".into())], ..Hints::default() };
        assert_eq!(lines("error", &texts, extra), None);
        let extra =
            Hints { extra_fields: vec![("hostname".into(), "a".into())], ..Hints::default() };
        assert_eq!(lines("hostname:=a", &texts, extra), None);
    }
}
