//! Batches of records as brokers store them (magic 2), and the partition of a key.

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::wire::Writer;
use crate::http::compress::Encoding;

/// Bytes of an empty batch.
pub const BATCH_OVERHEAD_BYTES: usize = 61;
/// More than a record takes besides its key and value.
pub const RECORD_OVERHEAD_BYTES: usize = 24;
/// Bytes of a batch before its attributes, which the checksum does not cover.
const HEAD_BYTES: usize = 21;

/// Records of one partition, as they are collected.
#[derive(Debug, Default)]
pub struct Batch {
    /// Encoded records.
    records: Writer,
    count: i32,
    first_ms: i64,
    last_ms: i64,
}

impl Batch {
    /// Appends a record. Without a value it is a tombstone, which deletes the key when the topic is
    /// compacted.
    pub fn push(&mut self, key: &[u8], value: Option<&[u8]>, time_ms: i64) {
        if self.count == 0 {
            (self.first_ms, self.last_ms) = (time_ms, time_ms);
        }
        self.last_ms = self.last_ms.max(time_ms);
        let mut record = Writer(Vec::with_capacity(RECORD_OVERHEAD_BYTES + key.len()));
        record.i8(0).varint(time_ms - self.first_ms).varint(i64::from(self.count));
        record.varint(key.len() as i64).raw(key);
        let value_length = value.map_or(-1, |value| value.len() as i64);
        record.varint(value_length);
        let value = value.unwrap_or_default();
        // One byte more for the count of headers, of which there are none.
        self.records.varint((record.0.len() + value.len() + 1) as i64);
        self.records.raw(&record.0).raw(value).varint(0);
        self.count += 1;
    }

    /// Records in the batch.
    pub fn len(&self) -> usize {
        self.count as usize
    }

    /// The size of the batch without compression.
    pub fn bytes(&self) -> usize {
        BATCH_OVERHEAD_BYTES + self.records.0.len()
    }

    /// The whole batch.
    pub fn encode(self, encoding: Encoding) -> Vec<u8> {
        let (attributes, records) = match encoding {
            Encoding::Plain => (0, self.records.0),
            Encoding::Gzip => (1, gzip(&self.records.0)),
            Encoding::Zstd => (4, Encoding::Zstd.encode(self.records.0)),
        };
        let mut covered = Writer(Vec::with_capacity(40 + records.len()));
        covered.i16(attributes).i32(self.count - 1).i64(self.first_ms).i64(self.last_ms);
        // No producer id, epoch and sequence: the producer is not idempotent.
        covered.i64(-1).i16(-1).i32(-1).i32(self.count).raw(&records);
        let mut batch = Writer(Vec::with_capacity(HEAD_BYTES + covered.0.len()));
        // The length counts what follows it, from the leader epoch on.
        batch.i64(0).length(covered.0.len() + HEAD_BYTES - 12).i32(-1).i8(2);
        batch.raw(&crc32c::crc32c(&covered.0).to_be_bytes()).raw(&covered.0);
        batch.0
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
    encoder.write_all(bytes).expect("memory takes all bytes");
    encoder.finish().expect("memory takes all bytes")
}

/// The partition of a key, as Kafka's own clients choose it: the same key is always in the same
/// partition, where compaction finds it, until partitions are added.
pub fn partition(key: &[u8], partitions: usize) -> usize {
    (murmur2(key) & 0x7fff_ffff) as usize % partitions
}

/// MurmurHash2 with Kafka's seed.
fn murmur2(bytes: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    let mut hash = 0x9747_b28c_u32 ^ bytes.len() as u32;
    let mut chunks = bytes.chunks_exact(4);
    for chunk in &mut chunks {
        let mut word = u32::from_le_bytes(chunk.try_into().expect("four bytes"));
        word = word.wrapping_mul(M);
        word ^= word >> 24;
        hash = hash.wrapping_mul(M) ^ word.wrapping_mul(M);
    }
    let rest = chunks.remainder();
    if !rest.is_empty() {
        for (place, byte) in rest.iter().enumerate() {
            hash ^= u32::from(*byte) << (8 * place);
        }
        hash = hash.wrapping_mul(M);
    }
    hash ^= hash >> 13;
    hash = hash.wrapping_mul(M);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values are those of the tests of Kafka's own client.
    #[test]
    fn keys_go_where_other_clients_send_them() {
        for (key, expected) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(key.as_bytes()) as i32, expected, "{key}");
        }
        assert_eq!(partition(b"abc", 10), 7);
    }

    #[test]
    fn a_batch_byte_by_byte() {
        let mut batch = Batch::default();
        batch.push(b"a", Some(b"{}"), 1_767_323_045_123);
        batch.push(b"b", None, 1_767_323_045_122);
        assert_eq!((batch.len(), batch.bytes()), (2, 61 + 10 + 8));
        let bytes = batch.encode(Encoding::Plain);
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let expected = [
            "0000000000000000", // The offset, which the broker sets.
            "00000043",         // The length of what follows.
            "ffffffff",         // The epoch of the leader, which the broker sets.
            "02",               // The version of the format.
            "CHECKSUM",
            "0000",             // Not compressed; the time is that of the records.
            "00000001",         // The offset of the last record.
            "0000019b7ca98d03", // The time of the first record.
            "0000019b7ca98d03", // The latest time.
            "ffffffffffffffff", // No producer id,
            "ffff",             // no epoch,
            "ffffffff",         // no sequence.
            "00000002",         // Two records:
            "12000000026104",
            "7b7d",
            "00",
            "0e00010202620100",
        ];
        let (head, rest) = hex.split_at(34);
        let found = format!("{head}CHECKSUM{}", &rest[8..]);
        assert_eq!(found, expected.concat());
        let checksum = u32::from_be_bytes(bytes[17..21].try_into().unwrap());
        assert_eq!(checksum, crc32c::crc32c(&bytes[21..]));
    }
}
