//! Samples of StatsD, added up over an interval.
//!
//! ```text
//! api.took:3|ms|@0.1|#host:a,env:prod     NAME:VALUE[:VALUE…]|TYPE[|@RATE][|#TAG:VALUE,…]
//!     →  
//! {"_time":…,"name":"api.took","kind":"timer","value":3,"count":10,"sum":30,"min":3,"max":3,"duration":10,"host":"a","env":"prod"}⏎
//! ```
//!
//! | type | `value` of the row |
//! |---|---|
//! | `c` counter | the sum, each divided by its rate |
//! | `g` gauge | the last one; `+3` and `-3` change it, and it is kept for further intervals of change |
//! | `ms`, `h`, `d` timer, histogram, distribution | the mean; with `count`, `sum`, `min`, `max` |
//! | `s` set | how many different values came |
//!
//! A series without a sample in an interval has no row. Tags are those of DogStatsD, also
//! `;TAG=VALUE` of Graphite behind the name. Events (`_e{`) and checks of services (`_sc|`) of
//! DogStatsD are left out, and counted like lines that cannot be read.

use std::collections::{HashMap, HashSet};

use text::json::write_text;
use text::time::write_time;

use crate::body::metrics::{write_label, write_measure};

/// Series of an interval: a name, a type and tags.
///
/// limits.md, Lines on their way in: different series of StatsD between two rows of each | {} |
/// samples of further ones are dropped and counted
const SERIES_MAX: usize = 100_000;
/// Different values of all sets in an interval. Further ones are not counted.
const SET_VALUES_MAX: usize = 100_000;
/// Bytes of a name with its tags. Longer ones are dropped and counted.
const NAME_BYTES_MAX: usize = 2048;

/// A line that is not a sample, or for which there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotAdded {
    /// It is not of StatsD.
    Wrong,
    /// There are too many series.
    Full,
}

/// The series of an interval.
#[derive(Default)]
pub(super) struct Series {
    /// By kind, name and tags, as they were written.
    found: HashMap<(Kind, Box<[u8]>), State>,
    set_values: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Kind {
    Counter,
    Gauge,
    Timer,
    Set,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Timer => "timer",
            Kind::Set => "set",
        }
    }
}

#[derive(Default)]
struct State {
    /// Samples since the last row.
    samples: u64,
    /// Of a counter the sum, of a gauge its value.
    value: f64,
    count: f64,
    sum: f64,
    min: f64,
    max: f64,
    values: HashSet<Box<[u8]>>,
}

impl Series {
    /// Adds the samples of a line.
    pub fn add(&mut self, line: &[u8]) -> Result<(), NotAdded> {
        let sample = Sample::read(line).ok_or(NotAdded::Wrong)?;
        let key = (sample.kind, sample.key().into_boxed_slice());
        if key.1.len() > NAME_BYTES_MAX {
            return Err(NotAdded::Wrong);
        }
        if self.found.len() >= SERIES_MAX && !self.found.contains_key(&key) {
            return Err(NotAdded::Full);
        }
        let state = self.found.entry(key).or_default();
        for value in sample.values.split(|&byte| byte == b':') {
            if sample.kind == Kind::Set {
                state.samples += 1;
                if self.set_values < SET_VALUES_MAX && state.values.insert(value.into()) {
                    self.set_values += 1;
                }
                continue;
            }
            let number = number(value).ok_or(NotAdded::Wrong)?;
            match sample.kind {
                Kind::Counter => state.value += number / sample.rate,
                Kind::Gauge if matches!(value.first(), Some(b'+' | b'-')) => state.value += number,
                Kind::Gauge => state.value = number,
                _ => {
                    let is_first = state.samples == 0;
                    state.count += 1.0 / sample.rate;
                    state.sum += number / sample.rate;
                    state.min = if is_first { number } else { state.min.min(number) };
                    state.max = if is_first { number } else { state.max.max(number) };
                }
            }
            state.samples += 1;
        }
        Ok(())
    }

    /// Appends a row of each series that had samples since the last time, `duration` seconds ago.
    /// Gauges are kept, since they may be changed; if there are many, those without samples go.
    pub fn write(&mut self, time_ns: i64, duration: f64, mut write: impl FnMut(&[u8])) {
        let mut row = Vec::new();
        let keeps_gauges = self.found.len() < SERIES_MAX / 2;
        for ((kind, key), state) in &self.found {
            if state.samples > 0 {
                row.clear();
                write_row(*kind, key, state, time_ns, duration, &mut row);
                write(&row);
            }
        }
        self.set_values = 0;
        self.found.retain(|(kind, _), state| {
            let is_kept = *kind == Kind::Gauge && (keeps_gauges || state.samples > 0);
            state.samples = 0;
            is_kept
        });
        self.found.shrink_to(2 * self.found.len());
    }
}

/// A line, taken apart.
struct Sample<'l> {
    kind: Kind,
    /// The name, with tags of Graphite.
    name: &'l [u8],
    values: &'l [u8],
    rate: f64,
    /// Behind `#`.
    tags: &'l [u8],
}

impl<'l> Sample<'l> {
    fn read(line: &'l [u8]) -> Option<Sample<'l>> {
        let colon = memchr::memchr(b':', line).filter(|&colon| colon > 0)?;
        let mut parts = line[colon + 1..].split(|&byte| byte == b'|');
        let (name, values) = (&line[..colon], parts.next()?);
        let kind = match parts.next()? {
            b"c" | b"m" => Kind::Counter,
            b"g" => Kind::Gauge,
            b"ms" | b"h" | b"d" => Kind::Timer,
            b"s" => Kind::Set,
            _ => return None,
        };
        let mut sample = Sample { kind, name, values, rate: 1.0, tags: b"" };
        for part in parts {
            match part {
                [b'@', rate @ ..] => {
                    sample.rate = number(rate).filter(|rate| *rate > 0.0 && *rate <= 1.0)?;
                }
                [b'#', tags @ ..] => sample.tags = tags,
                // The container and the time of DogStatsD.
                [b'c' | b'T' | b'e', ..] => {}
                _ => return None,
            }
        }
        Some(sample)
    }

    /// The name and the tags in one text.
    fn key(&self) -> Vec<u8> {
        [self.name, b"\n", self.tags].concat()
    }
}

fn number(text: &[u8]) -> Option<f64> {
    let is_number = text.iter().any(u8::is_ascii_digit);
    let text = std::str::from_utf8(text).ok().filter(|_| is_number)?;
    text.parse::<f64>().ok().filter(|number| number.is_finite())
}

fn write_row(
    kind: Kind,
    key: &[u8],
    state: &State,
    time_ns: i64,
    duration: f64,
    out: &mut Vec<u8>,
) {
    let newline = memchr::memchr(b'\n', key).expect("every key has one");
    let (name, tags) = (&key[..newline], &key[newline + 1..]);
    let mut in_name = name.split(|&byte| byte == b';');
    out.extend_from_slice(b"{\"_time\":\"");
    write_time(time_ns, out);
    out.extend_from_slice(b"\",\"name\":");
    write_text(in_name.next().unwrap_or_default(), out);
    out.extend_from_slice(b",\"kind\":\"");
    out.extend_from_slice(kind.name().as_bytes());
    out.push(b'"');
    let value = match kind {
        Kind::Counter | Kind::Gauge => state.value,
        Kind::Timer => state.sum / state.count,
        Kind::Set => state.values.len() as f64,
    };
    write_measure("value", value, out);
    if kind == Kind::Timer {
        write_measure("count", state.count, out);
        write_measure("sum", state.sum, out);
        write_measure("min", state.min, out);
        write_measure("max", state.max, out);
    }
    write_measure("duration", duration, out);
    let of_name = in_name.map(|tag| (tag, b'='));
    let of_dogs = tags.split(|&byte| byte == b',').map(|tag| (tag, b':'));
    for (tag, between) in of_name.chain(of_dogs).filter(|(tag, _)| !tag.is_empty()) {
        match memchr::memchr(between, tag) {
            Some(at) => write_label(&tag[..at], &tag[at + 1..], out),
            None => write_label(tag, b"", out),
        }
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(series: &mut Series) -> Vec<String> {
        let mut rows = Vec::new();
        series.write(1_769_860_800_000_000_000, 10.0, |row| {
            serde_json::from_slice::<serde_json::Map<String, serde_json::Value>>(row).unwrap();
            rows.push(String::from_utf8(row.to_vec()).unwrap());
        });
        rows.sort();
        rows
    }

    fn row(name: &str, kind: &str, values: &str, labels: &str) -> String {
        format!(
            "{{\"_time\":\"2026-01-31T12:00:00Z\",\"name\":\"{name}\",\"kind\":\"{kind}\",{values},\"duration\":10{labels}}}"
        )
    }

    #[test]
    fn samples_are_added_up() {
        let mut series = Series::default();
        for line in [
            "hits:1|c",
            "hits:2|c|@0.5",
            "hits:4|c|#host:a,name:x,flag",
            "free:7|g",
            "free:-2|g",
            "took:3:5|ms",
            "took:10|h|@0.5",
            "users;site=b:anna|s",
            "users;site=b:otto|s",
            "users;site=b:anna|s|c:ci-1|T1656581400",
        ] {
            assert_eq!(series.add(line.as_bytes()), Ok(()), "{line}");
        }
        let expected = [
            row("free", "gauge", "\"value\":5", ""),
            row(
                "hits",
                "counter",
                "\"value\":4",
                ",\"host\":\"a\",\"labels.name\":\"x\",\"flag\":\"\"",
            ),
            row("hits", "counter", "\"value\":5", ""),
            row("took", "timer", "\"value\":7,\"count\":4,\"sum\":28,\"min\":3,\"max\":10", ""),
            row("users", "set", "\"value\":2", ",\"site\":\"b\""),
        ];
        assert_eq!(rows(&mut series), expected);
        // Only gauges last, and have rows only when they change.
        assert_eq!(rows(&mut series), [""; 0]);
        series.add(b"free:+1|g").unwrap();
        assert_eq!(rows(&mut series), [row("free", "gauge", "\"value\":6", "")]);
    }

    #[test]
    fn what_is_no_sample_is_wrong() {
        for line in [
            "",
            "a",
            "a:1",
            "a:|c",
            "a:x|c",
            ":1|c",
            "a:1|q",
            "a:inf|g",
            "a:1|c|@2",
            "a:1|c|x",
            "_e{1,1}:a|b",
            "_sc|a|0",
        ] {
            assert_eq!(Series::default().add(line.as_bytes()), Err(NotAdded::Wrong), "{line}");
        }
        let long = format!("{}:1|c", "x".repeat(NAME_BYTES_MAX));
        assert_eq!(Series::default().add(long.as_bytes()), Err(NotAdded::Wrong));
    }

    #[test]
    fn series_are_bounded() {
        let mut series = Series::default();
        for n in 0..SERIES_MAX {
            series.add(format!("g{n}:1|g").as_bytes()).unwrap();
        }
        assert_eq!(series.add(b"more:1|g"), Err(NotAdded::Full));
        assert_eq!(series.add(b"g0:2|g"), Ok(()));
        assert_eq!(rows(&mut series).len(), SERIES_MAX);
        // Nothing came of them for an interval, so there is room again.
        assert_eq!(rows(&mut series).len(), 0);
        assert_eq!(series.add(b"more:1|g"), Ok(()));
    }
}
