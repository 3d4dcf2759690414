//! Finds the bytes of a text at which a sign of a level may begin.
//!
//! A block is examined without branches, whatever is in it.

use super::short;

/// The places in a text where a sign of a level may begin: a capital at the beginning of a word,
/// `[`, `<`, `:`, `=`, and the escape of colours.
pub(crate) struct Signs<'a> {
    text: &'a [u8],
    /// The first byte that is searched: what is before it is no part of a word.
    start: usize,
    /// Where the next block begins.
    at: usize,
    /// Signs in the block before `at`, one bit each.
    found: u32,
}

const BLOCK_BYTES: usize = 32;

/// The bits of the bytes of a block that may be signs; the last byte is that behind the block.
#[inline]
fn signs(block: &[u8; BLOCK_BYTES + 1]) -> u32 {
    let is_capital = |b: u8| b.wrapping_sub(b'A') < 26;
    let is_letter = |b: u8| (b | 0x20).wrapping_sub(b'a') < 26;
    let mut marks = [0u8; BLOCK_BYTES];
    // Without branches, so that it is vectorised.
    for index in 0..BLOCK_BYTES {
        let (b, next) = (block[index], block[index + 1]);
        let is_quote = (next == b'"') | (next == b'\'');
        let is_sign = (is_capital(b) & is_capital(next))
            | ((b == b'[') | (b == b'<') | (b == 0x1b))
            | ((b == b':') & ((next == b' ') | is_quote | (next == 0)))
            | ((b == b'=') & (is_letter(next) | is_quote | (next == 0x1b)));
        marks[index] = u8::from(is_sign);
    }
    // The lowest bits of eight bytes each.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let mut found = 0;
    for (index, eight) in marks.chunks_exact(8).enumerate() {
        let eight = short::eight(eight, 0).unwrap_or_default();
        found |= ((eight.wrapping_mul(GATHER) >> 56) as u32) << (8 * index);
    }
    found
}

/// Whether a text may have a sign of a level, or begins in a way of its own. Says so of more texts
/// than have one, but never leaves one out.
#[inline]
pub(crate) fn may_have_sign(text: &[u8]) -> bool {
    const BYTES: usize = 16;
    let (first, last) = match text {
        [] => return false,
        [one] => (*one, *one),
        // Android's `E/Tag(12)`
        [first, b'/', ..] if first.is_ascii_uppercase() => return true,
        [first, .., last] => (*first, *last),
    };
    if !first.is_ascii_alphanumeric() || !last.is_ascii_alphanumeric() {
        return true;
    }
    let mut marks = [0u8; BYTES];
    let mut mark = |block: &[u8; BYTES + 1]| {
        // Without branches, so that it is vectorised.
        for index in 0..BYTES {
            let (b, next) = (block[index], block[index + 1]);
            let is_capital = |b: u8| b.wrapping_sub(b'A') < 26;
            let is_sign = (is_capital(b) & is_capital(next))
                // `:`, `;`, `<`, `=`, but for `=7` and `:7`
                | ((b.wrapping_sub(b':') < 4) & (next.wrapping_sub(b'0') >= 10))
                // `[` and the escape of colours
                | ((b & 0xbf) == 0x1b)
                | ((b == b' ') & (next == b' '));
            marks[index] |= u8::from(is_sign);
        }
    };
    let mut begin = [0; BYTES + 1];
    match text.last_chunk() {
        Some(end) => {
            begin = *text.first_chunk().unwrap_or(end);
            let mut rest = text;
            while let Some(block) = rest.first_chunk() {
                mark(block);
                rest = &rest[BYTES..];
            }
            // Some bytes for the second time.
            mark(end);
        }
        None => {
            begin[..text.len()].copy_from_slice(text);
            mark(&begin);
        }
    }
    // A colon behind the first word, whatever follows.
    for (mark, b) in marks.iter_mut().zip(begin) {
        *mark |= u8::from(b == b':');
    }
    u128::from_ne_bytes(marks) != 0
}

impl<'a> Signs<'a> {
    pub fn new(text: &'a [u8], at: usize) -> Self {
        Signs { text, start: at, at, found: 0 }
    }

    /// Leaves out what is before `at`.
    pub fn skip_to(&mut self, at: usize) {
        if at >= self.at {
            (self.at, self.found) = (at, 0);
        } else {
            self.found &= u32::MAX << (at + BLOCK_BYTES).saturating_sub(self.at);
        }
    }

    #[inline]
    pub fn next(&mut self) -> Option<usize> {
        loop {
            while self.found != 0 {
                let at = self.at - BLOCK_BYTES + self.found.trailing_zeros() as usize;
                self.found &= self.found - 1;
                // Capitals within a word are no sign, except behind a point: `local.ERROR:`.
                if self.text[at].is_ascii_uppercase()
                    && at > self.start
                    && self.text[at - 1] != b'.'
                    && is_word(self.text[at - 1])
                {
                    continue;
                }
                return Some(at);
            }
            let rest = self.text.get(self.at..).filter(|rest| !rest.is_empty())?;
            self.found = match rest.first_chunk() {
                Some(block) => signs(block),
                None => {
                    let mut last = [0; BLOCK_BYTES + 1];
                    last[..rest.len()].copy_from_slice(rest);
                    signs(&last)
                }
            };
            self.at += BLOCK_BYTES;
        }
    }
}

/// Bytes that belong to a word, so that `ERROR_CODE` and `x.ERROR` are not levels.
#[inline]
pub(crate) fn is_word(byte: u8) -> bool {
    const WORD: [bool; 256] = {
        let mut word = [false; 256];
        let mut byte = 0;
        while byte < 256 {
            let b = byte as u8;
            word[byte] = b.is_ascii_alphanumeric()
                || matches!(b, b'_' | b'.' | b'-' | b'$' | b'/')
                || b >= 0x80;
            byte += 1;
        }
        word
    };
    WORD[byte as usize]
}
