//! What an answer lacks, as its head tells it: names, a sentence for people, and a list of notices
//! for the page.
//!
//! The head is sent before the rows. What is found missing later can be told to nobody, so the
//! query then ends with an error.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use query::source::Damages;
use serde::Serialize;
use text::time::format_time;

use super::trace::ShareTrace;

/// Segments that are named; of more, the number is told.
const SEGMENTS_NAMED_MAX: usize = 16;
/// Characters of an error that a sentence quotes.
const ERROR_CHARS_MAX: usize = 300;

/// Lines of a segment that could not be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MissingLines {
    /// How many.
    pub lines: u64,
    /// Event times of the segment, nanoseconds since 1970 UTC.
    pub times_ns: (i64, i64),
    /// Why.
    pub error: String,
}

/// A sentence about an answer, for the page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Notice {
    /// What does not answer: `log`, `partition`, `objects` or `catalog`.
    pub what: &'static str,
    /// What that means for the answer, and what to do.
    pub text: String,
}

/// What an answer lacks.
#[derive(Debug, Default)]
pub struct Missing {
    facts: Mutex<Facts>,
    /// Receives the damaged units that a query passes over.
    pub damages: Arc<Damages>,
    /// Receives what nodes are asked for; set for queries that are explained.
    trace: OnceLock<Arc<ShareTrace>>,
}

#[derive(Debug, Default)]
struct Facts {
    is_told: bool,
    /// Stores, and whatever else is named.
    stores: BTreeSet<String>,
    /// What stores that are read lack, a sentence each.
    lacks: BTreeSet<String>,
    /// Partitions of which messages may be missing that the log took after a time.
    open: BTreeMap<u32, i64>,
    log_error: String,
    /// Partitions whose owners had not read so far, with the messages.
    behind: BTreeMap<u32, u64>,
    /// Partitions that no node answers for, with the messages and the reason.
    unanswered: BTreeMap<u32, (Option<u64>, String)>,
    segments: BTreeMap<String, MissingLines>,
    /// The age of the snapshot of the catalog, and why it is not newer.
    catalog: Option<(Duration, String)>,
}

impl Missing {
    /// Records from now on what nodes are asked for.
    pub fn trace_shares(&self) -> Arc<ShareTrace> {
        Arc::clone(self.trace.get_or_init(Arc::default))
    }

    /// Where that is recorded, if it is.
    pub fn trace(&self) -> Option<&Arc<ShareTrace>> {
        self.trace.get()
    }

    /// A store that is away, or does not have what it should.
    pub fn add(&self, store: &str) {
        self.lock().stores.insert(store.to_owned());
    }

    /// What a store that is read lacks: a sentence.
    pub fn add_lack(&self, why: &str) {
        self.lock().lacks.insert(why.to_owned());
    }

    /// Messages of a partition that the log took after `since_ns` may be missing, because the log
    /// does not tell where the partition ends.
    pub fn add_open(&self, partition: u32, since_ns: i64, error: &str) {
        let mut facts = self.lock();
        let since = facts.open.entry(partition).or_insert(since_ns);
        *since = since_ns.min(*since);
        facts.log_error = short(error);
    }

    /// The newest messages of a partition are missing, because nobody answers for them.
    pub fn add_unanswered(&self, partition: u32, messages: Option<u64>, why: &str) {
        let mut facts = self.lock();
        let known = facts.unanswered.entry(partition).or_default();
        *known = (known.0.max(messages), short(why));
    }

    /// The answer is by a snapshot of the catalog of this age.
    pub fn add_catalog_age(&self, age: Duration, error: &str) {
        let mut facts = self.lock();
        let known = facts.catalog.as_ref().map_or(Duration::ZERO, |(known, _)| *known);
        facts.catalog = Some((age.max(known), short(error)));
    }

    /// The owner of a partition has not read so many messages of those that the log told.
    ///
    /// Errors: as [`add_segment`](Self::add_segment).
    pub fn add_behind(&self, partition: u32, messages: u64) -> Result<(), String> {
        let mut facts = self.lock();
        match facts.is_told && facts.behind.get(&partition).is_none_or(|known| *known < messages) {
            true => Err(format!(
                "the owner of partition {partition} has not read its newest {messages} messages; {LATE}"
            )),
            false => {
                facts.behind.insert(partition, messages);
                Ok(())
            }
        }
    }

    /// Lines of a segment cannot be read.
    ///
    /// Errors: the head of the answer is sent, and does not name them. The text says so.
    pub fn add_segment(&self, name: &str, missing: &MissingLines) -> Result<(), String> {
        let mut facts = self.lock();
        let is_new = facts.segments.get(name).is_none_or(|known| known.lines < missing.lines);
        if is_new && facts.is_told {
            let MissingLines { lines, error, .. } = missing;
            return Err(format!("{lines} lines of segment {name} cannot be read: {error}; {LATE}"));
        }
        if is_new {
            let error = short(&missing.error);
            facts.segments.insert(name.to_owned(), MissingLines { error, ..missing.clone() });
        }
        Ok(())
    }

    /// Nothing more can be told from now on: the head is sent.
    pub fn tell(&self) {
        self.lock().is_told = true;
    }

    /// The names of what is missing: stores, `partition N`, `segment NAME with N lines`.
    pub fn stores(&self) -> Vec<String> {
        let facts = self.lock();
        let mut names: Vec<String> = facts.stores.iter().cloned().collect();
        let partitions: BTreeSet<u32> = facts.partitions().collect();
        names.extend(partitions.into_iter().map(|partition| format!("partition {partition}")));
        let segments = facts.segments.iter().take(SEGMENTS_NAMED_MAX);
        names.extend(
            segments.map(|(name, missing)| format!("segment {name} with {} lines", missing.lines)),
        );
        if let Some(more) = facts.segments.len().checked_sub(SEGMENTS_NAMED_MAX + 1) {
            names.push(format!("{} more segments", more + 1));
        }
        names
    }

    /// What is missing, a sentence each; damaged lines of the own disk are apart
    /// ([`Self::damages`]).
    pub fn lacks(&self) -> Vec<String> {
        let facts = self.lock();
        let notices = facts.notices().into_iter().filter(|notice| notice.what != "catalog");
        facts.lacks.iter().cloned().chain(notices.map(|notice| notice.text)).collect()
    }

    /// What does not answer in a cluster, for the page.
    pub fn notices(&self) -> Vec<Notice> {
        self.lock().notices()
    }

    /// The age of the snapshot of the catalog that the answer is by; none if it is of now.
    pub fn catalog_age(&self) -> Option<Duration> {
        self.lock().catalog.as_ref().map(|(age, _)| *age)
    }

    fn lock(&self) -> MutexGuard<'_, Facts> {
        self.facts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The end of an error about lines that were found missing too late.
const LATE: &str = "the head of the answer was sent before that was known, so ask again";

impl Facts {
    fn partitions(&self) -> impl Iterator<Item = u32> {
        let open = self.open.keys().chain(self.behind.keys());
        open.chain(self.unanswered.keys()).copied()
    }

    fn notices(&self) -> Vec<Notice> {
        let mut notices = Vec::new();
        let mut add = |what, text| notices.push(Notice { what, text });
        // The same second for most.
        let mut since: BTreeMap<i64, Vec<u32>> = BTreeMap::new();
        for (partition, since_ns) in &self.open {
            since.entry(since_ns.div_euclid(1_000_000_000)).or_default().push(*partition);
        }
        for (since_s, partitions) in since {
            let since = format_time(since_s.saturating_mul(1_000_000_000));
            let of = partitions_named(&partitions);
            let why = &self.log_error;
            add(
                "log",
                format!(
                    "Kafka does not tell what it has of {of}, so lines that it took after {since} may be missing: {why}; check that its brokers run, then ask again"
                ),
            );
        }
        for (partition, messages) in &self.behind {
            add(
                "partition",
                format!(
                    "the newest {messages} messages of partition {partition} are missing, because its owner has not read them yet; ask again once Kafka answers"
                ),
            );
        }
        // Partitions of a log that is lost all have the same reason.
        let mut lost: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
        for (partition, (messages, why)) in &self.unanswered {
            match messages {
                Some(messages) => add(
                    "partition",
                    format!(
                        "the newest {messages} messages of partition {partition} are missing: {why}"
                    ),
                ),
                None => lost.entry(why).or_default().push(*partition),
            }
        }
        for (why, partitions) in lost {
            let of = partitions_named(&partitions);
            add("partition", format!("the newest messages of {of} are missing: {why}"));
        }
        if let Some((_, first)) = self.segments.first_key_value() {
            let all = || self.segments.values();
            let lines: u64 = all().map(|missing| missing.lines).sum();
            let begin = all().map(|missing| missing.times_ns.0).min().unwrap_or(0);
            let end = all().map(|missing| missing.times_ns.1).max().unwrap_or(0);
            let (begin, end) = (format_time(begin), format_time(end));
            let (count, error) = (self.segments.len(), &first.error);
            let mut names = String::new();
            for (place, name) in self.segments.keys().take(3).enumerate() {
                let _ = write!(names, "{}{name}", if place == 0 { "" } else { ", " });
            }
            let (s, more) = (if count == 1 { "" } else { "s" }, if count > 3 { " …" } else { "" });
            add(
                "objects",
                format!(
                    "{lines} lines between {begin} and {end} are missing, because {count} segment{s} cannot be read ({names}{more}): {error}"
                ),
            );
        }
        if let Some((age, error)) = &self.catalog {
            add(
                "catalog",
                format!(
                    "the catalog does not answer, so this answer is by its state of {} s ago: what was deleted since then may be in it; check that PostgreSQL runs: {error}",
                    age.as_secs()
                ),
            );
        }
        notices
    }
}

/// `partition 3`, or `partitions 0 to 5, 7`.
fn partitions_named(partitions: &[u32]) -> String {
    let mut text = String::from(if partitions.len() == 1 { "partition " } else { "partitions " });
    let runs = partitions.chunk_by(|a, b| *b == a + 1);
    for (place, run) in runs.enumerate() {
        text.push_str(if place == 0 { "" } else { ", " });
        let _ = match run {
            [one] => write!(text, "{one}"),
            run => write!(text, "{} to {}", run[0], run[run.len() - 1]),
        };
    }
    text
}

/// An error of bounded length.
fn short(error: &str) -> String {
    error.chars().take(ERROR_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_NS: i64 = 1_000_000_000;

    #[test]
    fn what_is_missing_is_named_with_its_times() {
        let missing = Missing::default();
        assert!(missing.stores().is_empty() && missing.notices().is_empty());
        for partition in [0, 1, 2, 5] {
            missing.add_open(
                partition,
                1_790_000_000 * SECOND_NS + i64::from(partition),
                "refused",
            );
        }
        missing.add_unanswered(7, Some(12), "store a is away");
        for partition in [8, 9] {
            missing.add_unanswered(partition, None, "the topic was made anew");
        }
        let lines = MissingLines {
            lines: 40,
            times_ns: (0, 60 * SECOND_NS),
            error: "the object is missing".to_owned(),
        };
        missing.add_segment("segments/partition-1/7-0000000a-12", &lines).unwrap();
        missing.add_catalog_age(Duration::from_secs(42), "connection refused");
        assert_eq!(
            missing.stores(),
            [
                "partition 0",
                "partition 1",
                "partition 2",
                "partition 5",
                "partition 7",
                "partition 8",
                "partition 9",
                "segment segments/partition-1/7-0000000a-12 with 40 lines"
            ]
        );
        let notices = missing.notices();
        let texts: Vec<(&str, &str)> =
            notices.iter().map(|notice| (notice.what, notice.text.as_str())).collect();
        assert_eq!(
            texts.iter().map(|(what, _)| *what).collect::<Vec<_>>(),
            ["log", "partition", "partition", "objects", "catalog"]
        );
        assert!(
            texts[0].1.contains("of partitions 0 to 2, 5, so lines that it took after 2026-09-21T")
        );
        assert!(texts[1].1.contains("12 messages of partition 7"), "{}", texts[1].1);
        let lost = "the newest messages of partitions 8 to 9 are missing: the topic was made anew";
        assert_eq!(texts[2].1, lost);
        assert!(texts[3].1.starts_with("40 lines between 1970-01-01T00:00:00"), "{}", texts[3].1);
        assert!(texts[4].1.contains("state of 42 s ago"), "{}", texts[4].1);
        // The catalog's age is no missing line.
        assert_eq!(missing.lacks().len(), 4);
    }

    #[test]
    fn what_is_found_after_the_head_was_sent_is_an_error() {
        let missing = Missing::default();
        let lines = |lines| MissingLines { lines, ..MissingLines::default() };
        missing.add_segment("a", &lines(5)).unwrap();
        missing.tell();
        missing.add_segment("a", &lines(5)).unwrap();
        assert!(missing.add_segment("a", &lines(6)).unwrap_err().ends_with("ask again"));
        assert!(missing.add_segment("b", &lines(1)).is_err());
        assert!(missing.add_behind(1, 2).is_err());
    }

    #[test]
    fn many_segments_are_counted() {
        let missing = Missing::default();
        for number in 0..SEGMENTS_NAMED_MAX + 2 {
            missing.add_segment(&format!("{number:03}"), &MissingLines::default()).unwrap();
        }
        let stores = missing.stores();
        assert_eq!(stores.len(), SEGMENTS_NAMED_MAX + 1);
        assert_eq!(stores.last().unwrap(), "2 more segments");
    }
}
