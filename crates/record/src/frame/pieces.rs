//! Numbers in base 128, low digits first, and pieces of bytes behind their lengths.

use super::FrameError;

/// Appends a number.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Appends the length of a piece, and the piece.
pub(crate) fn put_piece(out: &mut Vec<u8>, piece: &[u8]) {
    put_varint(out, piece.len() as u64);
    out.extend_from_slice(piece);
}

/// The bytes that are not read yet.
pub(crate) struct Rest<'a>(pub &'a [u8]);

impl<'a> Rest<'a> {
    pub fn varint(&mut self) -> Result<u64, FrameError> {
        let (mut value, mut shift) = (0u64, 0);
        for (index, &byte) in self.0.iter().enumerate().take(10) {
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                self.0 = &self.0[index + 1..];
                return Ok(value);
            }
            shift += 7;
        }
        Err(FrameError::Malformed("a number"))
    }

    pub fn piece(&mut self) -> Result<&'a [u8], FrameError> {
        let bytes = self.varint()?;
        self.bytes(usize::try_from(bytes).unwrap_or(usize::MAX))
    }

    pub fn bytes(&mut self, bytes: usize) -> Result<&'a [u8], FrameError> {
        let cut = FrameError::Malformed("a piece that is cut off");
        let (piece, rest) = self.0.split_at_checked(bytes).ok_or(cut)?;
        self.0 = rest;
        Ok(piece)
    }

    /// A number that is at most `max`.
    pub fn number(&mut self, max: usize) -> Result<usize, FrameError> {
        let number = usize::try_from(self.varint()?).unwrap_or(usize::MAX);
        if number <= max { Ok(number) } else { Err(FrameError::Malformed("a number")) }
    }
}
