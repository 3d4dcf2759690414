//! Samples as Prometheus sends them to remote storage: `prometheus.WriteRequest`, version 1
//! (`prompb/remote.proto`).
//!
//! Each sample becomes a row; `__name__` is its name, other labels are fields. Markers of staleness
//! are left out: a series that has ended has no rows. Of a native histogram `count`, `sum` and the
//! mean are kept. Left out: exemplars, metadata, the buckets of native histograms, and version 2,
//! from which senders fall back to this one.
//!
//! The request is read in place. [`Samples::read`] walks over all of it first, so that one that
//! cannot be read, or would become too many bytes, is refused before a line is kept.

use text::json::write_text;
use text::time::write_time;

use super::{write_label, write_measure};
use crate::body::protobuf::{Broken, Fields, Value};

/// Bytes of rows that any request may become, however small it is.
const WRITTEN_BYTES_MIN: usize = 16 << 20;
/// Bytes of rows per byte of a larger request: its labels are sent once for all samples of a
/// series, and written with each.
const WRITTEN_PER_BYTE_MAX: usize = 16;
/// Bytes of a row without its labels, about.
const ROW_BYTES: usize = 96;
/// Prometheus' marker of a series that has ended (`model/value/value.go`).
const STALE: u64 = 0x7ff0_0000_0000_0002;

/// Why a request cannot be taken. The text is for the sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WriteError {
    /// It is damaged, or something else.
    #[error(
        "the request is not a write request of Prometheus (version 1): the protobuf message is broken"
    )]
    Broken,
    /// Its labels are too long for so many samples.
    #[error(
        "the samples with the labels of their series would take more than {WRITTEN_PER_BYTE_MAX} times the bytes of \
         the request; let the sender send smaller batches (max_samples_per_send) or shorter labels"
    )]
    Written,
}

impl From<Broken> for WriteError {
    fn from(_: Broken) -> WriteError {
        WriteError::Broken
    }
}

/// The samples of a request.
pub struct Samples<'b> {
    series: Fields<'b>,
    /// What is not written of the current series.
    rest: Fields<'b>,
    /// `"name":…` and the labels of the series.
    labels: Vec<u8>,
}

impl<'b> Samples<'b> {
    /// Checks a request, which is decompressed.
    pub fn read(content: &'b [u8]) -> Result<Samples<'b>, WriteError> {
        let most = content.len().saturating_mul(WRITTEN_PER_BYTE_MAX).max(WRITTEN_BYTES_MIN);
        let (mut written, mut labels) = (0usize, Vec::new());
        for field in Fields(content) {
            let (1, Value::Bytes(series)) = field? else { continue };
            write_labels(series, &mut labels)?;
            for field in Fields(series) {
                if let (2 | 4, Value::Bytes(sample)) = field? {
                    Fields(sample).try_for_each(|field| field.map(drop))?;
                    written = written.saturating_add(labels.len() + ROW_BYTES);
                }
            }
        }
        match written > most {
            true => Err(WriteError::Written),
            false => Ok(Samples { series: Fields(content), rest: Fields(b""), labels }),
        }
    }

    /// Appends the next sample as a row; false behind the last one.
    pub fn write_next(&mut self, out: &mut Vec<u8>) -> bool {
        loop {
            match self.rest.next() {
                Some(Ok((2, Value::Bytes(sample)))) => self.write_sample(sample, out),
                Some(Ok((4, Value::Bytes(histogram)))) => self.write_histogram(histogram, out),
                Some(_) => continue,
                None => match self.series.next() {
                    None => return false,
                    Some(Ok((1, Value::Bytes(series)))) => {
                        self.rest = Fields(series);
                        write_labels(series, &mut self.labels).expect("it was read before");
                        continue;
                    }
                    Some(_) => continue,
                },
            }
            return true;
        }
    }

    fn write_sample(&self, sample: &[u8], out: &mut Vec<u8>) {
        let (mut bits, mut time_ms) = (0, 0);
        for field in Fields(sample).flatten() {
            match field {
                (1, Value::Fixed64(value)) => bits = value,
                (2, Value::Number(time)) => time_ms = time as i64,
                _ => {}
            }
        }
        if bits != STALE {
            self.write(time_ms, out, |out| write_measure("value", f64::from_bits(bits), out));
        }
    }

    fn write_histogram(&self, histogram: &[u8], out: &mut Vec<u8>) {
        let (mut count, mut sum, mut time_ms) = (0.0, 0, 0);
        for field in Fields(histogram).flatten() {
            match field {
                (1, Value::Number(value)) => count = value as f64,
                (2, Value::Fixed64(bits)) => count = f64::from_bits(bits),
                (3, Value::Fixed64(bits)) => sum = bits,
                (15, Value::Number(time)) => time_ms = time as i64,
                _ => {}
            }
        }
        let total = f64::from_bits(sum);
        if sum != STALE {
            self.write(time_ms, out, |out| {
                if count > 0.0 {
                    write_measure("value", total / count, out);
                }
                out.extend_from_slice(b",\"kind\":\"histogram\"");
                write_measure("count", count, out);
                write_measure("sum", total, out);
            });
        }
    }

    fn write(&self, time_ms: i64, out: &mut Vec<u8>, values: impl FnOnce(&mut Vec<u8>)) {
        out.extend_from_slice(b"{\"_time\":\"");
        write_time(time_ms.saturating_mul(1_000_000), out);
        out.push(b'"');
        out.extend_from_slice(&self.labels);
        values(out);
        out.extend_from_slice(b"}\n");
    }
}

/// Writes the name and the labels of a series.
fn write_labels(series: &[u8], out: &mut Vec<u8>) -> Result<(), Broken> {
    out.clear();
    let mut has_name = false;
    for field in Fields(series) {
        let (1, Value::Bytes(label)) = field? else { continue };
        let (mut name, mut value) = (&b""[..], &b""[..]);
        for field in Fields(label) {
            match field? {
                (1, Value::Bytes(text)) => name = text,
                (2, Value::Bytes(text)) => value = text,
                _ => {}
            }
        }
        match name {
            b"__name__" if !has_name => {
                has_name = true;
                out.extend_from_slice(b",\"name\":");
                write_text(value, out);
            }
            b"" => {}
            name => write_label(name, value, out),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn field(number: u8, content: &[u8]) -> Vec<u8> {
        assert!(content.len() < 128);
        [&[number << 3 | 2, content.len() as u8], content].concat()
    }

    fn series(labels: &[(&str, &str)], rest: &[u8]) -> Vec<u8> {
        let label = |(name, value): &(&str, &str)| {
            field(1, &[field(1, name.as_bytes()), field(2, value.as_bytes())].concat())
        };
        let labels: Vec<u8> = labels.iter().flat_map(label).collect();
        field(1, &[&labels[..], rest].concat())
    }

    fn sample(bits: u64, time: u8) -> Vec<u8> {
        field(2, &[&[0x09][..], &bits.to_le_bytes(), &[0x10, time]].concat())
    }

    fn rows(content: &[u8]) -> String {
        let (mut samples, mut out) = (Samples::read(content).unwrap(), Vec::new());
        while samples.write_next(&mut out) {}
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn samples_become_rows() {
        let histogram =
            field(4, &[&[0x08, 4, 0x19][..], &10f64.to_bits().to_le_bytes(), &[0x78, 3]].concat());
        let content = [
            series(
                &[("__name__", "up"), ("job", "a \"b\""), ("name", "x")],
                &[sample(1f64.to_bits(), 1), sample(STALE, 2), sample(0.25f64.to_bits(), 3)]
                    .concat(),
            ),
            // Metadata.
            field(3, &[0x08, 1]),
            series(&[("__name__", "h")], &histogram),
            series(&[], &sample(f64::NAN.to_bits(), 0)),
        ]
        .concat();
        assert_eq!(
            rows(&content),
            "{\"_time\":\"1970-01-01T00:00:00.001Z\",\"name\":\"up\",\"job\":\"a \\\"b\\\"\",\"labels.name\":\"x\",\"value\":1}\n\
             {\"_time\":\"1970-01-01T00:00:00.003Z\",\"name\":\"up\",\"job\":\"a \\\"b\\\"\",\"labels.name\":\"x\",\"value\":0.25}\n\
             {\"_time\":\"1970-01-01T00:00:00.003Z\",\"name\":\"h\",\"value\":2.5,\"kind\":\"histogram\",\"count\":4,\"sum\":10}\n\
             {\"_time\":\"1970-01-01T00:00:00Z\",\"value\":\"NaN\"}\n"
        );
        assert_eq!(rows(b""), "");
    }

    #[test]
    fn damage_and_too_many_bytes_are_errors() {
        let whole = series(&[("__name__", "up")], &sample(0, 1));
        for cut in 1..whole.len() {
            assert_eq!(Samples::read(&whole[..cut]).err(), Some(WriteError::Broken), "{cut}");
        }
        assert_eq!(Samples::read(b"text").err(), Some(WriteError::Broken));
        // One long label, and many samples of it.
        let mut long = vec![0x0a, 0x80, 0x80, 0x40];
        long.extend(vec![b'x'; 1 << 20]);
        let label_bytes = long.len();
        let mut of_series = vec![0x0a];
        let varint = |mut number: usize, out: &mut Vec<u8>| {
            while number >= 0x80 {
                out.push(number as u8 | 0x80);
                number >>= 7;
            }
            out.push(number as u8);
        };
        varint(label_bytes, &mut of_series);
        of_series.extend(long);
        (0..100).for_each(|_| of_series.extend(sample(0, 1)));
        let mut content = vec![0x0a];
        varint(of_series.len(), &mut content);
        content.extend(of_series);
        assert_eq!(Samples::read(&content).err(), Some(WriteError::Written));
    }
}
