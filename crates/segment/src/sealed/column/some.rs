//! Reads some values of a column: those of few lines, without putting all others together.

use memchr::{memchr, memchr_iter};
use record::columns::{DECIMAL_BYTES, decimal_of};

use super::{Column, Encoding, TEXT_BYTES_MAX, Values, WRONG_TEMPLATES, open_templates};
use crate::sealed::bytes::{Corrupt, Cursor, Read};
use crate::sealed::{ints, repeats};

const WRONG_LINES: Corrupt = Corrupt("the lines of a column");
/// Bytes whose newlines are counted at a time.
const SKIPPED_BYTES: usize = 4 << 10;

impl<'a> Column<'a> {
    /// As [`Column::decode`], for the `wanted` values, which ascend; others may be left out.
    pub(crate) fn decode_some(
        encoding: u8,
        sections: &[&'a [u8]],
        count: usize,
        wanted: &[u32],
    ) -> Read<Column<'a>> {
        if wanted.last().is_some_and(|&last| last as usize >= count) {
            return Err(Corrupt("the number of values of a column"));
        }
        let mut values = Values::default();
        match (Encoding::of(encoding)?, sections) {
            (Encoding::Repeats, &[tokens, distances, literals, digits]) => {
                let sections = [tokens, distances, literals, digits];
                some_repeats(sections, count, wanted, &mut values)?;
            }
            (Encoding::Template, &[tables, numbers, texts]) => {
                let column = open_templates([tables, numbers, texts], count)?;
                let found = column.decode_rows(wanted).map_err(|_| WRONG_TEMPLATES)?;
                values = Values { text: found.bytes, ends: found.ends, gap: found.gap };
            }
            (Encoding::Lines, &[text]) => some_lines(text, 0, wanted, &mut values)?,
            (Encoding::Numbers, &[bytes]) => {
                let few = wanted.last().map_or(0, |&last| last as usize + 1);
                let numbers = ints::decode(&mut Cursor::new(bytes), few)?;
                let mut buffer = [0; DECIMAL_BYTES];
                for &index in wanted {
                    values.push(decimal_of(numbers[index as usize], &mut buffer));
                }
            }
            _ => return Column::decode(encoding, sections, count),
        }
        Ok(Column::Few { values, indexes: wanted.into(), count, met: 0 })
    }
}

/// Adds the wanted lines of a text of repeats, of which only their pieces are put together.
fn some_repeats(
    sections: [&[u8]; repeats::SECTIONS],
    count: usize,
    wanted: &[u32],
    values: &mut Values,
) -> Read<()> {
    let (mut wanted, mut next) = (wanted, 0);
    repeats::decode_pieces(sections, TEXT_BYTES_MAX, |lines, piece| {
        next = lines.end;
        let of_piece = wanted.partition_point(|&line| (line as usize) < lines.end);
        let (now, later) = wanted.split_at(of_piece);
        wanted = later;
        if now.is_empty() {
            return Ok(());
        }
        some_lines(&piece.text()?, lines.start as u32, now, values)
    })?;
    if next == count { Ok(()) } else { Err(WRONG_LINES) }
}

/// Adds the wanted lines of a text whose lines are counted from `first` on.
fn some_lines(text: &[u8], first: u32, wanted: &[u32], values: &mut Values) -> Read<()> {
    let (mut next, mut rest) = (first, text);
    for &line in wanted {
        while next < line {
            // Counting newlines is many times as fast as looking at each.
            let (part, behind) = rest.split_at(rest.len().min(SKIPPED_BYTES));
            let lines = memchr_iter(b'\n', part).count() as u32;
            if lines < line - next && !behind.is_empty() {
                (next, rest) = (next + lines, behind);
                continue;
            }
            let mut ends = memchr_iter(b'\n', part);
            let end = ends.nth((line - next) as usize - 1).ok_or(WRONG_LINES)?;
            (next, rest) = (line, &rest[end + 1..]);
        }
        let end = memchr(b'\n', rest).ok_or(WRONG_LINES)?;
        values.push(&rest[..end]);
        (next, rest) = (line + 1, &rest[end + 1..]);
    }
    Ok(())
}
