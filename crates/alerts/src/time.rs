//! Times as other programs write them.

use jiff::Timestamp;

/// A time in nanoseconds since 1970 as in RFC 3339; the epoch if no calendar has it.
pub fn rfc3339(time_ns: i64) -> String {
    Timestamp::from_nanosecond(i128::from(time_ns)).unwrap_or_default().to_string()
}

/// Reads a time as in RFC 3339; nanoseconds since 1970. The error says what to write.
pub fn parse_rfc3339(text: &str) -> Result<i64, String> {
    let time: Timestamp = text
        .trim()
        .parse()
        .map_err(|_| format!("'{text}' is not a time; write for example 2026-11-26T12:00:00Z"))?;
    i64::try_from(time.as_nanosecond())
        .map_err(|_| format!("the time '{text}' is not between the years 1677 and 2262"))
}

/// Serialises times as texts.
pub mod text {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub fn serialize<S: Serializer>(time_ns: &i64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&super::rfc3339(*time_ns))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
        super::parse_rfc3339(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}
