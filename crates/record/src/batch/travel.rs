//! Rows on their way to another node: some rows of some batches as bytes, and a batch made of these
//! bytes. A row keeps its line, id, times, origin and fields.
//!
//! The bytes: a version; the names of fields; the origins, as frames store them; the rows. Numbers
//! are varints. A value that is in the line is a position there; any other value is written behind
//! its length.
//!
//! Decoding trusts nothing. Lengths and counts are checked against the bytes that are left.

use std::collections::HashMap;
use std::sync::Arc;

use super::{BATCH_NAMES_MAX, Batch, FieldId, PLACE, Place, ROW_FIELDS_MAX, RestoredBuilder, Row};
use crate::frame::pieces::{Rest, put_piece, put_varint};
use crate::frame::{FrameError, LineId, Origin, decode_origins, encode_origin};

/// Version of the bytes. Any other version is refused.
const VERSION: u8 = 1;
/// Most origins of a batch.
const ORIGINS_MAX: usize = u16::MAX as usize;
/// Fewest bytes of a row: eight numbers.
const ROW_BYTES_MIN: usize = 8;

/// Collects rows.
#[derive(Default)]
pub struct RowsWriter {
    names: Vec<Arc<str>>,
    name_ids: HashMap<Arc<str>, u64, foldhash::fast::RandomState>,
    origins: Vec<Origin>,
    origin_ids: HashMap<Origin, u64, foldhash::fast::RandomState>,
    rows: usize,
    fields: usize,
    bytes: Vec<u8>,
}

impl RowsWriter {
    /// Adds a row of `batch`. Returns false, without adding it, when the rows so far have to be
    /// taken first, because together they would have too many names or origins.
    pub fn push(&mut self, batch: &Batch, row: &Row<'_>) -> bool {
        if self.names.len() + row.fields_count() > BATCH_NAMES_MAX
            || self.origins.len() >= ORIGINS_MAX
        {
            return false;
        }
        let origin = self.origin(&batch.origins()[usize::from(row.origin_index())]);
        let LineId { node, sequence, line } = row.id();
        put_piece(&mut self.bytes, row.raw());
        self.bytes.extend(row.time_ns().to_le_bytes());
        self.bytes.extend(row.received_ns().to_le_bytes());
        let fields = row.fields_count();
        for number in [node.into(), sequence, line.into(), row.sequence(), origin, fields as u64] {
            put_varint(&mut self.bytes, number);
        }
        for ((name, value), (_, place, _)) in row.fields().zip(row.places()) {
            let name = self.name(&batch.names()[usize::from(name.0)]);
            // The lowest bit says whether the value is in the line.
            match place {
                Place::Line(at) => {
                    put_varint(&mut self.bytes, name << 1 | 1);
                    put_varint(&mut self.bytes, at.into());
                    put_varint(&mut self.bytes, value.len() as u64);
                }
                Place::Made(_) | Place::Shared(_) => {
                    put_varint(&mut self.bytes, name << 1);
                    put_piece(&mut self.bytes, value);
                }
            }
        }
        self.rows += 1;
        self.fields += fields;
        true
    }

    /// Number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// About how many bytes [`take`](Self::take) returns.
    pub fn bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the bytes of the rows so far, and begins anew.
    pub fn take(&mut self) -> Vec<u8> {
        let RowsWriter { names, origins, rows, fields, bytes, .. } = std::mem::take(self);
        let mut out = Vec::with_capacity(bytes.len() + 64 * (names.len() + origins.len()) + 64);
        out.push(VERSION);
        put_varint(&mut out, names.len() as u64);
        names.iter().for_each(|name| put_piece(&mut out, name.as_bytes()));
        let mut encoded = Vec::new();
        origins.iter().for_each(|origin| encode_origin(origin, &mut encoded));
        put_piece(&mut out, &encoded);
        put_varint(&mut out, rows as u64);
        put_varint(&mut out, fields as u64);
        out.extend(bytes);
        out
    }

    fn name(&mut self, name: &Arc<str>) -> u64 {
        if let Some(&id) = self.name_ids.get(name) {
            return id;
        }
        let id = self.names.len() as u64;
        self.names.push(Arc::clone(name));
        self.name_ids.insert(Arc::clone(name), id);
        id
    }

    fn origin(&mut self, origin: &Origin) -> u64 {
        if let Some(&id) = self.origin_ids.get(origin) {
            return id;
        }
        let id = self.origins.len() as u64;
        self.origins.push(origin.clone());
        self.origin_ids.insert(origin.clone(), id);
        id
    }
}

/// The rows of [`RowsWriter::take`] as a batch. Its memory is at most some twenty times `bytes`.
///
/// Errors: the bytes are damaged, or of another version.
pub fn read_rows(bytes: &[u8]) -> Result<Batch, FrameError> {
    let malformed = |what| Err(FrameError::Malformed(what));
    let mut rest = Rest(bytes);
    if rest.bytes(1)? != [VERSION] {
        return malformed("rows of another version");
    }
    let names = (0..rest.number(BATCH_NAMES_MAX)?).map(|_| {
        let name = std::str::from_utf8(rest.piece()?);
        name.map(Arc::from).map_err(|_| FrameError::Malformed("a name that is no text"))
    });
    let names: Vec<Arc<str>> = names.collect::<Result<_, _>>()?;
    if names.iter().collect::<std::collections::HashSet<_>>().len() < names.len() {
        return malformed("a name that is there twice");
    }
    let names_count = names.len();
    let origins = decode_origins(rest.piece()?)?;
    if origins.len() > ORIGINS_MAX {
        return malformed("the number of origins");
    }
    let origins: Arc<[Origin]> = origins.into();
    let rows = rest.number(bytes.len() / ROW_BYTES_MIN)?;
    let fields = rest.number(bytes.len())?;
    if rest.0.len() > PLACE as usize {
        return malformed("the length");
    }
    let mut builder =
        RestoredBuilder::new(names, Arc::clone(&origins), rows, fields, rest.0.len() / 2);
    // The number of the last row that has a field of each name.
    let mut seen = vec![0; names_count];
    for number in 1..=rows {
        let line = rest.piece()?;
        builder.line().extend_from_slice(line);
        let time_ns = i64::from_le_bytes(rest.bytes(8)?.try_into().expect("as many as read"));
        let received_ns = i64::from_le_bytes(rest.bytes(8)?.try_into().expect("as many as read"));
        let node = rest.number(u32::MAX as usize)? as u32;
        let sequence = rest.varint()?;
        let line_index = rest.number(u32::MAX as usize)? as u32;
        let id = LineId { node, sequence, line: line_index };
        let own_sequence = rest.varint()?;
        let origin = rest.number(origins.len().saturating_sub(1))? as u16;
        if origins.is_empty() {
            return malformed("a row without an origin");
        }
        for _ in 0..rest.number(ROW_FIELDS_MAX)? {
            let tag = rest.number(names_count << 1)?;
            let Some(last) = seen.get_mut(tag >> 1) else { return malformed("a name") };
            if std::mem::replace(last, number) == number {
                return malformed("a field that a row has twice");
            }
            let name = FieldId((tag >> 1) as u16);
            if tag & 1 == 1 {
                let at = rest.number(line.len())?;
                let length = rest.number(line.len() - at)?;
                builder.push_field(name, Place::Line(at as u32), length as u32);
            } else {
                let (value, at) = (rest.piece()?, builder.arena().len() as u32);
                builder.arena().extend_from_slice(value);
                builder.push_field(name, Place::Made(at), value.len() as u32);
            }
        }
        let stem = builder.stem_of(origin);
        builder.end_row((id, own_sequence), time_ns, received_ns, stem);
    }
    if !rest.0.is_empty() {
        return malformed("bytes behind the last row");
    }
    Ok(builder.finish())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::frame::{Format, FrameBuilder, Transport};
    use crate::parse::{Parser, ParserConfig};

    fn parsed(lines: &[u8], sequence: u64) -> Batch {
        let mut frame = FrameBuilder::new();
        frame.push_lines(&Origin::new(Transport::Http, Format::Auto, None), 7, lines);
        let frame = frame.finish(1, sequence).expect("there are lines");
        Parser::new(&ParserConfig::default()).expect("it is valid").parse(Arc::new(frame))
    }

    fn shown(batch: &Batch, row: &Row<'_>) -> String {
        let fields: Vec<_> = row
            .fields()
            .map(|(name, value)| (batch.name(name).to_owned(), value.to_vec()))
            .collect();
        let origin = &batch.origins()[usize::from(row.origin_index())];
        let id = (row.id(), row.sequence(), row.time_ns(), row.received_ns());
        format!("{id:?} {:?} {origin:?} {fields:?}", row.raw())
    }

    #[test]
    fn rows_of_several_batches_arrive_as_they_were() {
        let batches = [
            parsed(b"<13>1 2026-01-02T03:04:05Z host app 1 - - one\n{\"a\":\"b\\\"c\",\"n\":1}\n\n", 5),
            parsed(b"k=v level=error x=\"y z\"\n127.0.0.1 - - [10/Oct/2000:13:55:36 -0700] \"GET / HTTP/1.0\" 200 1\n", 9),
        ];
        let mut writer = RowsWriter::default();
        let mut expected = Vec::new();
        for batch in &batches {
            for row in batch.rows() {
                assert!(writer.push(batch, &row));
                expected.push(shown(batch, &row));
            }
        }
        assert_eq!(writer.rows(), expected.len());
        let bytes = writer.take();
        assert_eq!((writer.rows(), writer.bytes()), (0, 0));
        let arrived = read_rows(&bytes).unwrap();
        let found: Vec<_> = arrived.rows().map(|row| shown(&arrived, &row)).collect();
        assert_eq!(found, expected);
        assert!(read_rows(&RowsWriter::default().take()).unwrap().is_empty());
    }

    #[test]
    fn each_cut_is_an_error_and_no_damage_panics() {
        let batch = parsed(b"k=v level=error\n{\"a\":\"b\\\"c\"}\n", 5);
        let mut writer = RowsWriter::default();
        batch.rows().for_each(|row| assert!(writer.push(&batch, &row)));
        let bytes = writer.take();
        for length in 0..bytes.len() {
            assert!(read_rows(&bytes[..length]).is_err(), "cut at {length}");
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut damaged = bytes.clone();
                damaged[at] ^= 1 << bit;
                if let Ok(batch) = read_rows(&damaged) {
                    batch.rows().for_each(|row| drop(shown(&batch, &row)));
                }
            }
        }
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            bytes.insert(0, VERSION);
            if let Ok(batch) = read_rows(&bytes) {
                batch.rows().for_each(|row| drop(shown(&batch, &row)));
            }
        }
    }
}
