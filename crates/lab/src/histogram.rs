//! Latencies as HDR histograms of microseconds, and their text form in results: the V2 format,
//! compressed, in base64.
//!
//! Three significant digits: a recorded value and the one that is read back differ by at most 0.1%.
//! A latency above [`LATENCY_MAX_US`] is recorded as that value; the time limits of operations are
//! far below.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer, Serializer, V2DeflateSerializer};

/// Greatest latency, µs: an hour.
pub const LATENCY_MAX_US: u64 = 3_600_000_000;

/// Significant digits of a latency.
const DIGITS: u8 = 3;

/// The text is not a histogram of latencies.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a compressed HDR histogram in base64: {0}")]
pub struct HistogramError(String);

/// A histogram without values.
pub fn new() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MAX_US, DIGITS).expect("these bounds are valid")
}

/// The text of a histogram.
pub fn encode(histogram: &Histogram<u64>) -> String {
    let mut bytes = Vec::new();
    let _ = V2DeflateSerializer::new()
        .serialize(histogram, &mut bytes)
        .expect("a vector takes all bytes");
    STANDARD.encode(bytes)
}

/// Adds the histogram in a text to another.
pub fn add(total: &mut Histogram<u64>, text: &str) -> Result<(), HistogramError> {
    let wrong = |reason: &dyn std::fmt::Display| HistogramError(reason.to_string());
    let bytes = STANDARD.decode(text).map_err(|e| wrong(&e))?;
    let histogram: Histogram<u64> =
        Deserializer::new().deserialize(&mut bytes.as_slice()).map_err(|e| wrong(&e))?;
    total.add(&histogram).map_err(|e| wrong(&e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_histogram_is_read_back_and_added() {
        let mut one = new();
        for value in [1, 250, 250, 99_000, LATENCY_MAX_US] {
            one.record(value).unwrap();
        }
        let mut total = new();
        add(&mut total, &encode(&one)).unwrap();
        add(&mut total, &encode(&one)).unwrap();
        add(&mut total, &encode(&new())).unwrap();
        assert_eq!(total.len(), 10);
        assert_eq!(total.value_at_quantile(0.5), 250);
        assert_eq!(total.min(), 1);
    }

    #[test]
    fn other_texts_are_refused() {
        let whole = encode(&new());
        for text in ["", "?", "AAAA", &whole[..whole.len() / 2]] {
            assert!(add(&mut new(), text).is_err(), "{text:?}");
        }
    }
}
