//! Measurements as rows that `stats`, charts and alerts read: a name, a value, labels as fields of
//! their own.
//!
//! ```text
//! {"_time":…,"name":"http_requests_total","value":1027,"job":"api","instance":"10.0.0.7:9090"}
//! ```
//!
//! A measurement of many values has `count`, `sum`, `min` and `max`, and `value` is their mean. The
//! time over which it was taken is `duration`, in seconds. A label with the name of one of these
//! members ([`OWN`]) becomes `labels.NAME`. Values that JSON has not are the texts `NaN`,
//! `Infinity` and `-Infinity`, which no function of numbers counts.

pub mod influx;
pub mod remote_write;

use text::json::write_text;

use super::json::write_double;

/// Members that a measurement itself gives.
pub(super) const OWN: [&[u8]; 12] = [
    b"_time",
    b"_msg",
    b"name",
    b"value",
    b"unit",
    b"kind",
    b"temporality",
    b"count",
    b"sum",
    b"min",
    b"max",
    b"duration",
];
/// The type of the rows.
pub const LOG_TYPE: &str = "metric";

/// Appends `,"NAME":"VALUE"`.
pub(crate) fn write_label(name: &[u8], value: &[u8], out: &mut Vec<u8>) {
    out.push(b',');
    match OWN.contains(&name) {
        true => write_text(&[b"labels.", name].concat(), out),
        false => write_text(name, out),
    }
    out.push(b':');
    write_text(value, out);
}

/// Appends `,"NAME":VALUE`.
pub(crate) fn write_measure(name: &str, value: f64, out: &mut Vec<u8>) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b"\":");
    write_double(value, out);
}
