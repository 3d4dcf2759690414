//! Looks whether the log will delete messages before they are in segments: an alarm before a loss.
//!
//! A message is safe once it is in a segment. Until then it has to stay in the log, also after it
//! was read: another node reads it again when this one ends. The log deletes what is older than its
//! retention, whether or not anybody has read it. A partition is at risk when its oldest message
//! without a segment has used half of the time, or when such messages take half of the room.
//!
//! Times are those that collectors wrote into the messages, which are also what retention counts
//! by. The room is estimated from above: by the bytes of frames in memory, which the log
//! compresses.

use std::time::Duration;

use cluster::engines::kafka::Retention;

/// The part of the retention that may have passed before it is an alarm: one of so many.
pub const RISK_PART: u32 = 2;

/// What a partition has that is in no segment.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unpublished {
    /// The offset below which everything is in segments.
    pub published: u64,
    /// The offset up to which messages were read.
    pub read: u64,
    /// Bytes of the messages between these two.
    pub bytes: u64,
    /// Where the partition ends.
    pub end: u64,
    /// The first message that is younger than the part of the time; none if there is none.
    pub young: Option<u64>,
}

/// Why messages of a partition may be deleted before they are in segments; none if that is far.
pub fn risk(retention: &Retention, of: &Unpublished) -> Option<String> {
    let Unpublished { published, read, bytes, end, young } = *of;
    let messages = end.saturating_sub(published);
    if messages == 0 {
        return None;
    }
    if let Some(time) = retention.time
        && young.unwrap_or(end) > published
    {
        let (waited, kept) = (hours(time / RISK_PART), hours(time));
        return Some(format!(
            "messages have waited for more than {waited} to be in segments, and the log deletes \
             them after {kept}: see why this partition is not published, or raise retention.ms of \
             the topic"
        ));
    }
    let limit = retention.bytes?;
    let of_one = bytes.checked_div(read.saturating_sub(published)).unwrap_or(0);
    let waiting = of_one.saturating_mul(messages);
    (waiting > limit / u64::from(RISK_PART)).then(|| {
        format!(
            "about {waiting} bytes of messages are in no segment, and the log keeps {limit} bytes \
             of the partition: see why this partition is not published, or raise retention.bytes \
             of the topic"
        )
    })
}

fn hours(time: Duration) -> String {
    match time.as_secs() {
        seconds if seconds < 600 => format!("{seconds} s"),
        seconds if seconds < 36_000 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_partition_is_at_risk_when_half_of_the_retention_is_used() {
        let day = Duration::from_secs(86_400);
        let check = |time: Option<Duration>, bytes: Option<u64>, of: Unpublished, found: &str| {
            let risk = risk(&Retention { time, bytes }, &of).unwrap_or_default();
            let begin = risk.split(", and").next().unwrap_or_default();
            assert_eq!(begin, found, "{of:?}");
        };
        let of =
            |published, read, bytes, end, young| Unpublished { published, read, bytes, end, young };
        let waited = "messages have waited for more than 12 h to be in segments";
        // Everything is in segments, however old it is.
        check(Some(day), Some(1), of(10, 10, 0, 10, None), "");
        // All that waits is young.
        check(Some(day), None, of(10, 12, 20, 15, Some(10)), "");
        check(Some(day), None, of(10, 12, 20, 15, Some(4)), "");
        check(Some(day), None, of(10, 12, 20, 15, Some(11)), waited);
        check(Some(day), None, of(10, 10, 0, 15, None), waited);
        check(None, None, of(10, 10, 0, 15, None), "");
        // Five messages of ten bytes.
        check(None, Some(100), of(10, 12, 20, 15, None), "");
        let room = "about 50 bytes of messages are in no segment";
        check(None, Some(99), of(10, 12, 20, 15, None), room);
        // Nothing is known of the size of messages that were not read.
        check(None, Some(1), of(10, 10, 0, 15, None), "");
    }
}
