//! Rows with their keys as bytes, as a side sends them. A piece has a 1 before each row, then the
//! key and the fields of the row; a 0 ends the piece.

use std::collections::VecDeque;

use record::LineId;

use crate::base::partial_state::{Decoder, Encoder, wrong_state};
use crate::base::{Meter, RowKey, RunError};
use crate::block::{MadeRow, Scratch};
use crate::exec::ResultRows;
use crate::lang::source::misfit;

/// Bytes of rows that a side collects before it sends them.
const PIECE_BYTES: usize = 256 << 10;
/// Takes the place of the fingerprint of a pipe, because no pipe made these rows.
const ROWS_FINGERPRINT: u64 = 0x726f_7773;

/// Encodes rows that have keys, as pieces of about [`PIECE_BYTES`].
pub(super) fn encode_rows(
    rows: &ResultRows,
    include: &[String],
    scratch: &mut Scratch,
    meter: &mut Meter,
) -> Result<Vec<Vec<u8>>, RunError> {
    let (mut pieces, mut index) = (Vec::new(), 0);
    while index < rows.len() {
        let mut copies = meter.clone();
        let mut encoder = Encoder::new(ROWS_FINGERPRINT, meter)?;
        let mut bytes = 0;
        let mut last = None;
        while index < rows.len() {
            let key = rows.key(index).ok_or_else(misfit)?;
            // All rows of a line are in one piece.
            if bytes >= PIECE_BYTES && last != Some(key) {
                break;
            }
            last = Some(key);
            let RowKey { time_ns, id } = key;
            encoder.flag(true)?;
            for number in [time_ns as u64, id.node.into(), id.sequence, id.line.into()] {
                encoder.number(number)?;
            }
            let row = rows.block().copy_row(index, include, scratch, &mut copies)?;
            row.encode(&mut encoder)?;
            bytes += row.memory_bytes();
            copies.give_back(row.memory_bytes());
            index += 1;
        }
        encoder.flag(false)?;
        pieces.push(encoder.finish());
    }
    Ok(pieces)
}

/// Decodes a piece of [`encode_rows`].
pub(super) fn decode_rows(
    bytes: &[u8],
    meter: &mut Meter,
) -> Result<VecDeque<(RowKey, MadeRow)>, RunError> {
    let mut decoder = Decoder::new(bytes, ROWS_FINGERPRINT)?;
    let mut rows = VecDeque::new();
    while decoder.flag()? {
        let time_ns = decoder.number()? as i64;
        let mut small = || {
            let number = decoder.number()?;
            u32::try_from(number).map_err(|_| wrong_state("a number is too large"))
        };
        let node = small()?;
        let sequence = decoder.number()?;
        let line =
            u32::try_from(decoder.number()?).map_err(|_| wrong_state("a number is too large"))?;
        let key = RowKey { time_ns, id: LineId { node, sequence, line } };
        rows.push_back((key, MadeRow::decode(&mut decoder, meter)?));
    }
    decoder.finish()?;
    Ok(rows)
}
