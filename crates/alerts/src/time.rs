//! Times as other programs write them.

/// Serialises times as texts of RFC 3339.
pub mod rfc3339 {
    use serde::{Deserialize, Deserializer, Serializer, de::Error};
    use text::time::{format_time, parse_period};

    pub fn serialize<S: Serializer>(time_ns: &i64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format_time(*time_ns))
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
        let text = String::deserialize(deserializer)?;
        let period = parse_period(text.trim()).ok_or_else(|| {
            D::Error::custom(format!(
                "'{text}' is not a time; write for example 2026-11-26T12:00:00Z"
            ))
        })?;
        Ok(period.start_ns)
    }
}
