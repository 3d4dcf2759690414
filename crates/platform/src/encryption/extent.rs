//! The bytes of an encrypted file: a header of one block, then extents, each beginning at a block
//! and padded to one. Numbers are little-endian.
//!
//! | offset | file header |
//! |---|---|
//! | 0 | magic `LGNCRYPT` |
//! | 8 | u16 version 2, then 2 zeros |
//! | 12 | u32 version of the list of data keys when the file was made |
//! | 16 | identity of the data key, 8 bytes |
//! | 24 | random number of the file, 16 bytes |
//! | 40 | tag of AES-256-GCM over the bytes before, and the beginning of the file's name |
//! | 56 | CRC-32C of the bytes before |
//!
//! | offset | extent |
//! |---|---|
//! | 0 | magic `LGNXTENT` |
//! | 8 | u64 order: larger than that of every extent written before |
//! | 16 | u64 place: offset of its first byte in the file as it was written |
//! | 24 | u32 length, bytes |
//! | 28 | u32 bytes that are stored: the length without the zeros at the end |
//! | 32 | u8 kind: 0 bytes, 1 end of the file at `place`; then 7 zeros |
//! | 40 | random number of the opening for writing, 16 bytes |
//! | 56 | tag over the bytes before, the number of the file, and the offset of the extent |
//! | 72 | pieces of 16 KiB, the last one shorter, each encrypted and followed by its tag |
//!
//! The beginning of the name ends before the first character that is no letter and no digit: it is
//! the number of a segment or of a query, and stays when the file is sealed or set aside. So the
//! rows of one query are not taken for those of another. Version 1 of the header had neither it nor
//! the version of the list.
//!
//! The key of an extent is computed from the data key, the number of the file and that of the
//! opening. The nonce is the order and the number of the piece (`u32::MAX` for the header of an
//! extent). An opening gives each order once, also if the write fails, so that no nonce repeats.

use std::io;
use std::path::Path;
use std::sync::Arc;

use ring::aead::{Aad, LessSafeKey, NONCE_LEN, Nonce};

use super::keys::{DataKey, ID_BYTES, Keyring, hex, random};
use crate::buffer::{AlignedBuffer, BLOCK_BYTES};
use crate::disk::DiskFile;

/// Bytes of the header of a file.
pub(super) const FILE_HEADER_BYTES: u64 = BLOCK_BYTES as u64;
/// Bytes that are encrypted together, and must be read to read one of them. Pieces of 4 KiB would
/// encrypt at seven tenths of the speed (`docs/decisions/0108-…`), larger ones make single values
/// dearer.
pub(super) const PIECE_BYTES: usize = 16 << 10;
/// Bytes of the tag of AES-GCM.
pub(super) const TAG_BYTES: usize = 16;
/// Bytes of a piece in the file.
pub(super) const STORED_PIECE_BYTES: usize = PIECE_BYTES + TAG_BYTES;
/// Bytes of the header of an extent.
pub(super) const EXTENT_HEADER_BYTES: usize = 72;
/// Longer writes become several extents.
pub(super) const EXTENT_BYTES_MAX: usize = 8 << 20;

const FILE_MAGIC: &[u8; 8] = b"LGNCRYPT";
const EXTENT_MAGIC: &[u8; 8] = b"LGNXTENT";
const VERSION: u16 = 2;
/// The version without the name of the file and the version of the list.
const VERSION_1: u16 = 1;
const FILE_TAG_AT: usize = 40;
const FILE_CRC_AT: usize = 56;
const EXTENT_TAG_AT: usize = 56;
/// Number of the header among the pieces of an extent.
const HEADER_PIECE: u32 = u32::MAX;
const KIND_END: u8 = 1;

/// The header of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileHeader {
    /// Identity of the data key.
    pub key: [u8; ID_BYTES],
    /// The number of the file.
    pub file: [u8; 16],
    /// Whether it is of this version, and not of the one before.
    pub is_current: bool,
}

/// What stands at the beginning of a file.
pub(super) enum HeaderFound {
    Plain,
    Header(FileHeader),
    /// It was a header.
    Damaged,
}

impl FileHeader {
    pub(super) fn new(key: &DataKey) -> io::Result<FileHeader> {
        Ok(FileHeader { key: key.id, file: random()?, is_current: true })
    }

    pub(super) fn encode(&self, keys: &Keyring, path: &Path) -> AlignedBuffer {
        self.encode_as(VERSION, keys, path)
    }

    /// As releases wrote it that knew version 1.
    #[cfg(test)]
    pub(super) fn encode_1(&self, keys: &Keyring) -> AlignedBuffer {
        self.encode_as(VERSION_1, keys, Path::new(""))
    }

    fn encode_as(&self, version: u16, keys: &Keyring, path: &Path) -> AlignedBuffer {
        let mut block = AlignedBuffer::new(BLOCK_BYTES);
        block[..8].copy_from_slice(FILE_MAGIC);
        block[8..10].copy_from_slice(&version.to_le_bytes());
        let of_list = if version == VERSION_1 { 0 } else { keys.version() };
        block[12..16].copy_from_slice(&of_list.to_le_bytes());
        block[16..24].copy_from_slice(&self.key);
        block[24..FILE_TAG_AT].copy_from_slice(&self.file);
        let key = keys.get(&self.key).expect("it was made with one of the keys");
        // Files of different numbers have different keys, so that this nonce is used once.
        let tag = key.file_key(&self.file, &[]).seal_in_place_separate_tag(
            nonce(0, HEADER_PIECE),
            Aad::from(file_aad(&block[..FILE_TAG_AT], version, path)),
            &mut [],
        );
        let tag = tag.expect("a header is short");
        block[FILE_TAG_AT..FILE_CRC_AT].copy_from_slice(tag.as_ref());
        let crc = crc32c::crc32c(&block[..FILE_CRC_AT]);
        block[FILE_CRC_AT..FILE_CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
        block
    }

    /// Errors: the file cannot be read, is of another version, needs a data key that is not there,
    /// or is newer than the list of data keys.
    pub(super) fn read(
        file: &dyn DiskFile,
        keys: &Keyring,
        path: &Path,
    ) -> io::Result<HeaderFound> {
        let mut block = [0; FILE_CRC_AT + 4];
        let read = file.read_at(&mut block, 0)?;
        if read < block.len() || block[..8] != *FILE_MAGIC {
            return Ok(HeaderFound::Plain);
        }
        let crc = crc32c::crc32c(&block[..FILE_CRC_AT]);
        if block[FILE_CRC_AT..] != crc.to_le_bytes() {
            return Ok(HeaderFound::Damaged);
        }
        let version = u16::from_le_bytes(array(&block, 8));
        if !matches!(version, VERSION | VERSION_1) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!(
                    "its encryption has version {version}, which is not known; this program reads version {VERSION}; \
                     {} was written by another version of Loginson",
                    path.display()
                ),
            ));
        }
        let is_current = version == VERSION;
        let header = FileHeader { key: array(&block, 16), file: array(&block, 24), is_current };
        let Some(key) = keys.get(&header.key) else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!(
                    "it is encrypted with the data key {}, which encryption.keys does not hold; restore that file from \
                     the backup or data directory that this file is from",
                    hex(&header.key)
                ),
            ));
        };
        let opened = key.file_key(&header.file, &[]).open_in_place_separate_tag(
            nonce(0, HEADER_PIECE),
            Aad::from(file_aad(&block[..FILE_TAG_AT], version, path)),
            ring::aead::Tag::try_from(&block[FILE_TAG_AT..FILE_CRC_AT]).expect("16 bytes"),
            &mut [],
            0..,
        );
        if opened.is_err() {
            return Ok(HeaderFound::Damaged);
        }
        let of_list = u32::from_le_bytes(array(&block, 12));
        if is_current && of_list > keys.version() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!(
                    "it was written with version {of_list} of encryption.keys, and the one that is there has version {}: an \
                     older one was put back; restore the newest one",
                    keys.version()
                ),
            ));
        }
        Ok(HeaderFound::Header(header))
    }
}

/// A write, as it stands in the file.
pub(super) struct Extent {
    /// Offset in the encrypted file.
    pub at: u64,
    pub order: u64,
    /// Offset of its first byte in the file as it was written.
    pub place: u64,
    pub length: u32,
    pub stored: u32,
    /// Whether it says where the file ends, at `place`, instead of holding bytes.
    pub is_end: bool,
    pub session: [u8; 16],
    pub key: Arc<LessSafeKey>,
}

impl Extent {
    /// The first byte behind it in the file as it was written.
    pub(super) fn end(&self) -> u64 {
        self.place + u64::from(self.length)
    }

    /// Bytes in the encrypted file, whole blocks.
    pub(super) fn bytes(&self) -> u64 {
        let pieces = (self.stored as usize).div_ceil(PIECE_BYTES);
        let bytes = EXTENT_HEADER_BYTES + self.stored as usize + pieces * TAG_BYTES;
        bytes.next_multiple_of(BLOCK_BYTES) as u64
    }

    /// Offset of a piece in the encrypted file.
    pub(super) fn piece_at(&self, piece: usize) -> u64 {
        self.at + (EXTENT_HEADER_BYTES + piece * STORED_PIECE_BYTES) as u64
    }

    /// Bytes of a piece without its tag.
    pub(super) fn piece_bytes(&self, piece: usize) -> usize {
        (self.stored as usize - piece * PIECE_BYTES).min(PIECE_BYTES)
    }

    /// Encrypts `bytes`, the stored part, into `out`, which has room for [`bytes`](Self::bytes).
    pub(super) fn encode(&self, file: &[u8; 16], bytes: &[u8], out: &mut [u8]) {
        debug_assert_eq!(bytes.len(), self.stored as usize);
        let (head, mut body) = out.split_at_mut(EXTENT_HEADER_BYTES);
        head[..8].copy_from_slice(EXTENT_MAGIC);
        head[8..16].copy_from_slice(&self.order.to_le_bytes());
        head[16..24].copy_from_slice(&self.place.to_le_bytes());
        head[24..28].copy_from_slice(&self.length.to_le_bytes());
        head[28..32].copy_from_slice(&self.stored.to_le_bytes());
        head[32..40].fill(0);
        head[32] = u8::from(self.is_end) * KIND_END;
        head[40..EXTENT_TAG_AT].copy_from_slice(&self.session);
        let aad = header_aad(&head[..EXTENT_TAG_AT], file, self.at);
        let sealed = self.key.seal_in_place_separate_tag(
            nonce(self.order, HEADER_PIECE),
            Aad::from(aad),
            &mut [],
        );
        head[EXTENT_TAG_AT..].copy_from_slice(sealed.expect("a header is short").as_ref());
        for (number, piece) in (0..).zip(bytes.chunks(PIECE_BYTES)) {
            let (text, rest) = body.split_at_mut(piece.len());
            text.copy_from_slice(piece);
            let nonce = nonce(self.order, number);
            let tag = self.key.seal_in_place_separate_tag(nonce, Aad::empty(), text);
            rest[..TAG_BYTES].copy_from_slice(tag.expect("a piece is short").as_ref());
            body = &mut rest[TAG_BYTES..];
        }
        body.fill(0);
    }

    /// Decrypts a piece and its tag in place.
    ///
    /// None: it is not authentic.
    pub(super) fn open_piece<'a>(&self, piece: usize, stored: &'a mut [u8]) -> Option<&'a [u8]> {
        let nonce = nonce(self.order, piece as u32);
        let opened = self.key.open_in_place(nonce, Aad::empty(), stored).ok()?;
        Some(opened)
    }

    /// Reads the header of an extent at offset `at` from the bytes there.
    ///
    /// None: no authentic extent of this file begins there.
    pub(super) fn decode(
        bytes: &[u8],
        file: &[u8; 16],
        at: u64,
        key_of: impl FnOnce(&[u8; 16]) -> Arc<LessSafeKey>,
    ) -> Option<Extent> {
        let head = bytes.get(..EXTENT_HEADER_BYTES)?;
        if head[..8] != *EXTENT_MAGIC {
            return None;
        }
        let session = array(head, 40);
        let key = key_of(&session);
        let order = u64::from_le_bytes(array(head, 8));
        let tag = ring::aead::Tag::try_from(&head[EXTENT_TAG_AT..]).ok()?;
        let aad = header_aad(&head[..EXTENT_TAG_AT], file, at);
        let nonce = nonce(order, HEADER_PIECE);
        key.open_in_place_separate_tag(nonce, Aad::from(aad), tag, &mut [], 0..).ok()?;
        Some(Extent {
            at,
            order,
            place: u64::from_le_bytes(array(head, 16)),
            length: u32::from_le_bytes(array(head, 24)),
            stored: u32::from_le_bytes(array(head, 28)),
            is_end: head[32] == KIND_END,
            session,
            key,
        })
    }
}

/// What the tag of the header of a file covers.
fn file_aad(head: &[u8], version: u16, path: &Path) -> Vec<u8> {
    let mut aad = head.to_vec();
    if version != VERSION_1 {
        let name = path.file_name().map_or(&[][..], |name| name.as_encoded_bytes());
        aad.extend(name.iter().take_while(|byte| byte.is_ascii_alphanumeric()));
    }
    aad
}

/// What the tag of the header of an extent covers.
fn header_aad(head: &[u8], file: &[u8; 16], at: u64) -> [u8; EXTENT_TAG_AT + 24] {
    let mut aad = [0; EXTENT_TAG_AT + 24];
    aad[..EXTENT_TAG_AT].copy_from_slice(head);
    aad[EXTENT_TAG_AT..EXTENT_TAG_AT + 16].copy_from_slice(file);
    aad[EXTENT_TAG_AT + 16..].copy_from_slice(&at.to_le_bytes());
    aad
}

fn nonce(order: u64, piece: u32) -> Nonce {
    let mut bytes = [0; NONCE_LEN];
    bytes[..8].copy_from_slice(&order.to_le_bytes());
    bytes[8..].copy_from_slice(&piece.to_le_bytes());
    Nonce::assume_unique_for_key(bytes)
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("the length is N")
}
