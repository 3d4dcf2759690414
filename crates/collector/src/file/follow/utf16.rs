//! Files in UTF-16, as programs of Windows write them: their lines become UTF-8.
//!
//! The byte order mark at the start of a file decides. Positions are those in the file. Left out:
//! UTF-16 without a mark, and UTF-32.

use std::io;

use text::utf16::{MARK_BYTES, Order, units};

use super::{Follow, READ_BYTES, TURN_BYTES, Turn};
use crate::file::FileRule;
use crate::file::ledger::Frames;
use crate::file::recall::read_at;
use crate::file::records::{End, cut};

impl Follow {
    /// The order of bytes if the file is in UTF-16.
    pub(in crate::file) fn utf16(&mut self) -> io::Result<Option<Order>> {
        let mut start = [0; 2 * MARK_BYTES];
        let read = read_at(self.open()?, &mut start, 0)?;
        Ok(Order::of(&start[..read]))
    }

    /// As [`Follow::turn`], for a file in UTF-16.
    #[expect(clippy::too_many_arguments, reason = "those of `turn`, and the order")]
    pub(super) fn turn_utf16(
        &mut self,
        order: Order,
        settings: &FileRule,
        end: End,
        buffer: &mut Vec<u8>,
        frames: &mut Frames,
        now_ns: i64,
        cuts: &mut u64,
    ) -> io::Result<Turn> {
        let shape = &settings.shape;
        let turn_end = self.position + TURN_BYTES;
        let mut wanted = READ_BYTES;
        let mut text = Vec::new();
        loop {
            // The end of a file of which only new lines are wanted may be within a unit.
            let start = self.position.next_multiple_of(2).max(MARK_BYTES as u64);
            // The unit before shows whether the newline of the last record is still to come.
            let before = if start > MARK_BYTES as u64 { 2 } else { 0 };
            buffer.resize(buffer.len().max(before + wanted), 0);
            let buffer = &mut buffer[..before + wanted];
            let file = self.file.as_ref().expect("just opened");
            let read = read_at(file, buffer, start - before as u64)?;
            let at_end = read < buffer.len();
            let Some(bytes) = buffer[..read].get(before..) else { return Ok(Turn::Done) };
            let end = if at_end { end } else { End::More };
            text.clear();
            order.decode(bytes, end == End::All, &mut text);
            let is_within = before > 0 && order.unit([buffer[0], buffer[1]]) != u16::from(b'\n');
            let owed = is_within && text.first() == Some(&b'\n');
            let text = &text[usize::from(owed)..];
            let from = start + 2 * u64::from(owed);
            let (mut taken, mut taken_text) = (from, 0);
            let mut stopped = false;
            let done = cut(text, shape, end, &mut |piece, done| {
                let behind = taken + 2 * units(&text[taken_text..done]) as u64;
                let is_live = taken >= self.live_from;
                let origin = if is_live { &self.live_origin } else { &self.origin };
                stopped = stopped || !frames.push(origin, now_ns, piece, &self.tracked, behind);
                (taken, taken_text) = (behind, done);
            });
            *cuts += done.cuts;
            if stopped {
                return Ok(Turn::Stopped);
            }
            if owed && done.consumed == 0 {
                frames.skip(&self.tracked, taken);
            }
            let progress = taken_text > 0 || owed;
            if progress {
                self.position = taken;
                self.size = self.size.max(taken);
                self.tracked.read_to(taken, now_ns);
            }
            if at_end {
                return Ok(Turn::Done);
            }
            if !progress {
                // A character of ASCII has two bytes in the file and one in a record.
                wanted = (2 * wanted).min(4 * shape.record_bytes_max + 2).max(READ_BYTES);
            } else if self.position >= turn_end {
                return Ok(Turn::More);
            } else {
                wanted = READ_BYTES;
            }
        }
    }
}
