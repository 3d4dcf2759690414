//! A file of a backup as the bytes of a new object.

use std::io;
use std::sync::{Mutex, PoisonError};

use cluster::ObjectBody;

use super::contents::{FileContents, Sum};
use super::{Destination, PIECE_BYTES};

/// The bytes of a file of a backup. A piece is read when bytes of it are wanted; the last one stays
/// in memory.
pub struct PiecesBody<'d> {
    destination: &'d Destination,
    bytes: u64,
    pieces: Vec<(Sum, u64)>,
    last: Mutex<Option<(usize, Vec<u8>)>>,
}

impl<'d> PiecesBody<'d> {
    /// A file of a backup in a place.
    pub fn new(destination: &'d Destination, file: &FileContents) -> PiecesBody<'d> {
        let pieces = file.pieces().collect();
        PiecesBody { destination, bytes: file.bytes, pieces, last: Mutex::default() }
    }
}

impl ObjectBody for PiecesBody<'_> {
    fn size(&self) -> u64 {
        self.bytes
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut at, mut filled) = (offset, 0);
        while filled < buffer.len() {
            let number = (at / PIECE_BYTES) as usize;
            let Some((sum, bytes)) = self.pieces.get(number).copied() else {
                return Err(io::ErrorKind::UnexpectedEof.into());
            };
            if last.as_ref().is_none_or(|(known, _)| *known != number) {
                let piece = self.destination.piece(sum, bytes);
                let piece = piece.map_err(|error| {
                    io::Error::other(format!("the piece {sum} of {}: {error:#}", self.destination))
                })?;
                *last = Some((number, piece));
            }
            let (_, piece) = last.as_ref().expect("just read");
            let rest = piece.get((at % PIECE_BYTES) as usize..).unwrap_or_default();
            let count = rest.len().min(buffer.len() - filled);
            if count == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            buffer[filled..filled + count].copy_from_slice(&rest[..count]);
            (at, filled) = (at + count as u64, filled + count);
        }
        Ok(())
    }
}
