//! Any output of a program gives the same rows in reads of any size, within the limits, and a row
//! that is written as JSON is read as the same row.
//!
//! The first byte says how large a read is.

#![no_main]

use libfuzzer_sys::fuzz_target;
use programs::{OutputError, OutputLimits, Rejected, Row, RowReader, Value, parse_row};

const LIMITS: OutputLimits = OutputLimits {
    bytes_max: 4096,
    rows_max: 20,
    line_bytes_max: 200,
    fields_max: 8,
    garbage_lines_max: 5,
};

fuzz_target!(|input: &[u8]| {
    let Some((step, output)) = input.split_first() else { return };
    let whole = read(output, output.len());
    if !matches!(whole.2, Err(OutputError::Bytes { .. })) {
        assert_eq!(read(output, usize::from(*step)), whole);
    }
    assert!(whole.0.len() as u64 <= LIMITS.rows_max);
    for row in &whole.0 {
        assert!(row.fields().len() <= LIMITS.fields_max);
        let mut json = Vec::new();
        row.write_json(&mut json);
        let back = parse_row(&json, LIMITS.fields_max).expect("our own JSON");
        let is_same = |(a, b): (&(String, Value), &(String, Value))| match (&a.1, &b.1) {
            // The parser of JSON may be off by the last bit.
            (Value::Float(x), Value::Float(y)) => (x - y).abs() <= x.abs() * 1e-15,
            _ => a == b,
        };
        assert!(row.fields().iter().zip(back.fields()).all(is_same), "{row:?} {back:?}");
    }
});

fn read(output: &[u8], step: usize) -> (Vec<Row>, Rejected, Result<(), OutputError>) {
    let mut reader = RowReader::new(LIMITS);
    let mut rows = Vec::new();
    let mut result = Ok(());
    for part in output.chunks(step.max(1)) {
        result = result.and_then(|()| reader.push(part, &mut rows));
    }
    result = result.and_then(|()| reader.finish(&mut rows));
    (rows, reader.rejected().clone(), result)
}
