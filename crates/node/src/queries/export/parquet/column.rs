//! One column of one row group: values collected row by row, then written as pages.
//!
//! A chunk is an optional dictionary page and data pages (version 1): four bytes of length,
//! definition levels (1: the row has a value, 0: it has none), then the values, plain or as indexes
//! into the dictionary; the whole page is compressed with zstd. Levels and indexes are in Parquet's
//! hybrid of runs and bit-packed groups
//! (<https://parquet.apache.org/docs/file-format/data-pages/encodings/>).

use std::collections::HashMap;

use crate::queries::export::parquet::thrift::{write_struct, write_varint};

/// Target for the values of a data page, in bytes: a reader must hold a page at once.
const PAGE_BYTES_TARGET: usize = 1 << 20;
/// Limit of the rows of a data page.
const PAGE_ROWS_MAX: usize = 64 << 10;
/// Limit of a dictionary. A column that needs more is written plain.
const DICTIONARY_BYTES_MAX: usize = 1 << 20;
/// zstd's default level: exports are read more often than written, and over the network.
const ZSTD_LEVEL: i32 = 3;

/// Constants of Parquet.
const PLAIN: i32 = 0;
const RLE: i32 = 3;
const RLE_DICTIONARY: i32 = 8;
const ZSTD: i32 = 6;
const DATA_PAGE: i32 = 0;
const DICTIONARY_PAGE: i32 = 2;

/// The type of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ColumnKind {
    /// Nanoseconds since 1970 UTC.
    Time,
    /// UTF-8.
    Text,
    /// Bytes, unchanged.
    Bytes,
}

/// The values of one column in the rows of one row group.
#[derive(Debug, Default)]
pub struct Values {
    /// The rows that have a value, ascending.
    rows: Vec<u32>,
    /// The end of each value in `bytes`.
    ends: Vec<u32>,
    bytes: Vec<u8>,
}

/// A written chunk.
#[derive(Clone, Copy, Debug)]
pub struct Chunk {
    /// Offset of its first page in the file.
    pub offset: u64,
    /// Offset of its first data page in the file; behind the dictionary if there is one.
    pub data_offset: u64,
    /// Bytes of its pages with their headers.
    pub bytes: u64,
    /// The same before compression.
    pub bytes_plain: u64,
    /// Rows without a value.
    pub nulls: u64,
    /// Least and greatest instant of a column of times.
    pub time_ns: Option<(i64, i64)>,
}

impl Chunk {
    /// Whether it begins with a dictionary.
    fn has_dictionary(&self) -> bool {
        self.data_offset != self.offset
    }

    /// The encodings used in it.
    pub fn encodings(&self) -> &'static [i32] {
        if self.has_dictionary() { &[PLAIN, RLE, RLE_DICTIONARY] } else { &[PLAIN, RLE] }
    }

    /// Offset of its dictionary in the file.
    pub fn dictionary_offset(&self) -> Option<u64> {
        self.has_dictionary().then_some(self.offset)
    }
}

/// The number of the codec of all pages.
pub const CODEC: i32 = ZSTD;

impl Values {
    /// Gives row `row` a value; rows come in order, each once.
    pub fn push(&mut self, row: u32, value: &[u8]) {
        debug_assert!(self.rows.last().is_none_or(|&last| last < row));
        self.rows.push(row);
        self.bytes.extend_from_slice(value);
        self.ends.push(self.bytes.len() as u32);
    }

    /// Whether row `row`, the last one begun, has a value.
    pub fn has(&self, row: u32) -> bool {
        self.rows.last() == Some(&row)
    }

    /// Memory used by values, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.len() + 8 * self.rows.len()
    }

    fn value(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] as usize };
        &self.bytes[start..self.ends[index] as usize]
    }

    /// Appends the pages of `rows` rows to `out`, whose first byte has the offset `base` in the
    /// file, and clears the values.
    pub fn write(&mut self, kind: ColumnKind, rows: u32, base: u64, out: &mut Vec<u8>) -> Chunk {
        let offset = base + out.len() as u64;
        let mut pages = Pages { out, bytes_plain: 0 };
        let dictionary = if kind == ColumnKind::Time { None } else { self.dictionary() };
        if let Some(dictionary) = &dictionary {
            let mut page = Vec::new();
            dictionary.values.iter().for_each(|value| write_plain(&mut page, kind, value));
            pages.dictionary(&page, dictionary.values.len());
        }
        let data_offset = base + pages.out.len() as u64;
        let (mut row, mut index) = (0, 0);
        while row < rows {
            let (rows_end, index_end) = self.page_end(row, index, rows);
            let mut page = Vec::new();
            let levels = self.levels(row..rows_end, index..index_end);
            page.extend_from_slice(&(levels.len() as u32).to_le_bytes());
            page.extend_from_slice(&levels);
            match &dictionary {
                Some(dictionary) => {
                    page.push(dictionary.bits);
                    write_hybrid(&mut page, dictionary.bits, &dictionary.entries[index..index_end]);
                }
                None => {
                    (index..index_end).for_each(|i| write_plain(&mut page, kind, self.value(i)))
                }
            }
            let encoding = if dictionary.is_some() { RLE_DICTIONARY } else { PLAIN };
            pages.data(&page, rows_end - row, encoding);
            (row, index) = (rows_end, index_end);
        }
        let chunk = Chunk {
            offset,
            data_offset,
            bytes: base + pages.out.len() as u64 - offset,
            bytes_plain: pages.bytes_plain,
            nulls: u64::from(rows) - self.rows.len() as u64,
            time_ns: if kind == ColumnKind::Time { self.time_range_ns() } else { None },
        };
        self.rows.clear();
        self.ends.clear();
        self.bytes.clear();
        chunk
    }

    /// The end of the page that begins at row `row` with the value `index`: as a row, and as a
    /// value.
    fn page_end(&self, row: u32, index: usize, rows: u32) -> (u32, usize) {
        let last_row = rows.min(row + PAGE_ROWS_MAX as u32);
        let mut bytes = 0;
        for i in index..self.rows.len() {
            if self.rows[i] >= last_row {
                return (last_row, i);
            }
            // At least one value, so that a page is never empty.
            if bytes > PAGE_BYTES_TARGET {
                return (self.rows[i], i);
            }
            bytes += self.value(i).len() + 4;
        }
        (last_row, self.rows.len())
    }

    fn levels(&self, rows: std::ops::Range<u32>, indexes: std::ops::Range<usize>) -> Vec<u8> {
        let mut levels = vec![0; (rows.end - rows.start) as usize];
        for row in &self.rows[indexes] {
            levels[(row - rows.start) as usize] = 1;
        }
        let mut out = Vec::new();
        write_hybrid(&mut out, 1, &levels);
        out
    }

    fn time_range_ns(&self) -> Option<(i64, i64)> {
        let (instants, _) = self.bytes.as_chunks::<8>();
        let instants = instants.iter().map(|bytes| i64::from_le_bytes(*bytes));
        instants.clone().min().zip(instants.max())
    }

    /// The different values, if they are few.
    fn dictionary(&self) -> Option<Dictionary<'_>> {
        let mut found: HashMap<&[u8], u32, foldhash::fast::RandomState> = HashMap::default();
        let mut values = Vec::new();
        let mut entries = Vec::with_capacity(self.rows.len());
        let mut bytes = 0;
        for index in 0..self.rows.len() {
            let value = self.value(index);
            let entry = *found.entry(value).or_insert_with(|| {
                bytes += value.len() + 4;
                values.push(value);
                values.len() as u32 - 1
            });
            // If the dictionary has more than half as many values as the column, indexes and
            // dictionary together are larger.
            if bytes > DICTIONARY_BYTES_MAX || values.len() > 16 + self.rows.len() / 2 {
                return None;
            }
            entries.push(entry);
        }
        // No values: no dictionary either.
        let bits = (u32::BITS - (values.len().checked_sub(1)? as u32).leading_zeros()).max(1);
        Some(Dictionary { values, entries, bits: bits as u8 })
    }
}

struct Dictionary<'a> {
    values: Vec<&'a [u8]>,
    /// For each value of the column its index in the dictionary.
    entries: Vec<u32>,
    /// Bits of an index.
    bits: u8,
}

/// Destination of pages.
struct Pages<'a> {
    out: &'a mut Vec<u8>,
    bytes_plain: u64,
}

impl Pages<'_> {
    fn dictionary(&mut self, page: &[u8], values: usize) {
        self.page(page, DICTIONARY_PAGE, |head| {
            head.structure(7, |d| {
                d.i32(1, values as i32);
                d.i32(2, PLAIN);
            });
        });
    }

    fn data(&mut self, page: &[u8], rows: u32, encoding: i32) {
        self.page(page, DATA_PAGE, |head| {
            head.structure(5, |d| {
                d.i32(1, rows as i32);
                d.i32(2, encoding);
                d.i32(3, RLE);
                d.i32(4, RLE);
            });
        });
    }

    fn page(
        &mut self,
        page: &[u8],
        kind: i32,
        own: impl FnOnce(&mut crate::queries::export::parquet::thrift::Struct<'_>),
    ) {
        let packed = zstd::bulk::compress(page, ZSTD_LEVEL).expect("memory holds it");
        let head_at = self.out.len();
        write_struct(self.out, |head| {
            head.i32(1, kind);
            head.i32(2, page.len() as i32);
            head.i32(3, packed.len() as i32);
            own(head);
        });
        self.bytes_plain += (self.out.len() - head_at + page.len()) as u64;
        self.out.extend_from_slice(&packed);
    }
}

fn write_plain(out: &mut Vec<u8>, kind: ColumnKind, value: &[u8]) {
    if kind != ColumnKind::Time {
        out.extend_from_slice(&(value.len() as u32).to_le_bytes());
    }
    out.extend_from_slice(value);
}

/// Writes runs of eight or more as runs, everything else bit-packed in groups of eight, which may
/// be padded with zeros only at the very end.
fn write_hybrid(out: &mut Vec<u8>, bits: u8, values: &[u32]) {
    let mut packed_from = 0;
    let mut at = 0;
    while at < values.len() {
        let run = values[at..].iter().take_while(|&&value| value == values[at]).count();
        // The groups before a run must be complete, so some values of the run fill them up.
        let filling = (at - packed_from).next_multiple_of(8) - (at - packed_from);
        if run >= filling + 8 {
            write_packed(out, bits, &values[packed_from..at + filling]);
            write_varint(out, ((run - filling) as u64) << 1);
            let bytes = usize::from(bits.div_ceil(8));
            out.extend_from_slice(&values[at].to_le_bytes()[..bytes]);
            packed_from = at + run;
        }
        at += run;
    }
    write_packed(out, bits, &values[packed_from..]);
}

fn write_packed(out: &mut Vec<u8>, bits: u8, values: &[u32]) {
    if values.is_empty() {
        return;
    }
    let groups = values.len().div_ceil(8);
    write_varint(out, (groups as u64) << 1 | 1);
    let (mut word, mut filled) = (0_u64, 0);
    let padding = groups * 8 - values.len();
    for &value in values.iter().chain(std::iter::repeat_n(&0, padding)) {
        word |= u64::from(value) << filled;
        filled += u32::from(bits);
        while filled >= 8 {
            out.push(word as u8);
            word >>= 8;
            filled -= 8;
        }
    }
    debug_assert_eq!(filled, 0, "eight numbers fill whole bytes");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The reference reader of that encoding.
    fn read_hybrid(mut bytes: &[u8], bits: u8, count: usize) -> Vec<u32> {
        let mut values = Vec::new();
        while values.len() < count {
            let (mut head, mut shift) = (0_u64, 0);
            loop {
                let byte = bytes[0];
                bytes = &bytes[1..];
                head |= u64::from(byte & 0x7f) << shift;
                shift += 7;
                if byte < 0x80 {
                    break;
                }
            }
            if head & 1 == 0 {
                let width = usize::from(bits.div_ceil(8));
                let mut value = [0; 4];
                value[..width].copy_from_slice(&bytes[..width]);
                bytes = &bytes[width..];
                values.extend(std::iter::repeat_n(u32::from_le_bytes(value), (head >> 1) as usize));
            } else {
                let packed = (head >> 1) as usize * usize::from(bits);
                for i in 0..(head >> 1) as usize * 8 {
                    let bit = |b: usize| u32::from(bytes[b / 8] >> (b % 8) & 1);
                    let first = i * usize::from(bits);
                    values.push((0..usize::from(bits)).map(|b| bit(first + b) << b).sum());
                }
                bytes = &bytes[packed..];
            }
        }
        assert!(bytes.is_empty(), "nothing is left");
        values.truncate(count);
        values
    }

    #[test]
    fn numbers_come_back() {
        let mut random = fastrand::Rng::with_seed(5);
        for bits in [1, 2, 3, 7, 8, 9, 17, 20] {
            for length in [1, 2, 7, 8, 9, 15, 16, 17, 100, 1000] {
                let mut values = Vec::new();
                while values.len() < length {
                    let run = if random.bool() { 1 } else { random.usize(1..40) };
                    values.extend(std::iter::repeat_n(random.u32(0..1 << bits), run));
                }
                values.truncate(length);
                let mut out = Vec::new();
                write_hybrid(&mut out, bits, &values);
                assert_eq!(read_hybrid(&out, bits, length), values, "{bits} bits, {length}");
            }
        }
    }

    #[test]
    fn few_different_values_make_a_dictionary() {
        let check = |rows: u32, different: u32, expected: Option<(usize, u8)>| {
            let mut values = Values::default();
            (0..rows).for_each(|row| values.push(row, format!("{}", row % different).as_bytes()));
            let found = values.dictionary().map(|d| (d.values.len(), d.bits));
            assert_eq!(found, expected, "{rows} {different}");
        };
        check(0, 1, None);
        check(1, 1, Some((1, 1)));
        check(100, 2, Some((2, 1)));
        check(100, 3, Some((3, 2)));
        check(100, 66, Some((66, 7)));
        check(100, 67, None);
    }

    #[test]
    fn pages_are_cut_by_bytes_and_by_rows() {
        let mut values = Values::default();
        (0..10).for_each(|row| values.push(row * 3, &vec![b'x'; PAGE_BYTES_TARGET / 2]));
        let (rows, index) = values.page_end(0, 0, 100);
        assert_eq!((rows, index), (6, 2));
        assert_eq!(Values::default().page_end(0, 0, 200_000), (65_536, 0));
        assert_eq!(values.page_end(27, 9, 100), (100, 10));
    }
}
