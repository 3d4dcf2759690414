//! Bytes as rows that another node sent: an error, or a batch whose values are all in place.
#![no_main]

use libfuzzer_sys::fuzz_target;
use record::read_rows;

// The version is written in front, so that all bytes reach what lies behind it.
fuzz_target!(|bytes: &[u8]| {
    let Ok(batch) = read_rows(&[&[1], bytes].concat()) else { return };
    let mut stream = String::new();
    for row in batch.rows() {
        let read: usize = row.fields().map(|(id, value)| batch.name(id).len() + value.len()).sum();
        assert!(read <= 1_000 * bytes.len() + 1_000);
        let _ = (row.raw(), row.id(), row.time_ns());
        row.write_stream(&mut stream);
        stream.clear();
    }
    assert!(batch.memory_bytes() <= 64 * bytes.len() + 4_096);
});
