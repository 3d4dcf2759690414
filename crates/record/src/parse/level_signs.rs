//! Finds the bytes of a text at which a sign of a level may begin.
//!
//! Blocks without such a byte, which are most, are passed over by code without branches.

use super::short;

/// The places in a text where a sign of a level may begin: a capital at the beginning of a word,
/// `[`, `<`, `:`, `=`, and the escape of colours.
pub(crate) struct Signs<'a> {
    text: &'a [u8],
    /// The first byte that is searched: what is before it is no part of a word.
    start: usize,
    /// Where the next eight bytes begin.
    at: usize,
    /// Signs among the eight bytes before `at`, as the highest bits of bytes.
    found: u64,
    /// The end of the block that is known to have a sign.
    checked: usize,
}

const BLOCK_BYTES: usize = 32;

/// Whether a byte of a block may be a sign; the last byte is that behind the block.
#[inline]
fn has_sign(block: &[u8; BLOCK_BYTES + 1]) -> bool {
    let is_capital = |b: u8| b.wrapping_sub(b'A') < 26;
    let is_letter = |b: u8| (b | 0x20).wrapping_sub(b'a') < 26;
    // Without branches, so that it is vectorised.
    let mut any = false;
    for index in 0..BLOCK_BYTES {
        let (b, next) = (block[index], block[index + 1]);
        let is_quote = (next == b'"') | (next == b'\'');
        any |= (is_capital(b) & is_capital(next))
            | ((b == b'[') | (b == b'<') | (b == 0x1b) | (next == 0x1b))
            | ((b == b':') & ((next == b' ') | is_quote | (next == 0)))
            | ((b == b'=') & (is_letter(next) | is_quote));
    }
    any
}

impl<'a> Signs<'a> {
    pub fn new(text: &'a [u8], at: usize) -> Self {
        Signs { text, start: at, at, found: 0, checked: at }
    }

    /// Leaves out what is before `at`.
    pub fn skip_to(&mut self, at: usize) {
        if at >= self.at {
            (self.at, self.found) = (at, 0);
        } else {
            self.found &= u64::MAX << (8 * (at + 8).saturating_sub(self.at));
        }
    }

    #[inline]
    pub fn next(&mut self) -> Option<usize> {
        loop {
            while self.found != 0 {
                let at = self.at - 8 + self.found.trailing_zeros() as usize / 8;
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
            if self.at >= self.checked {
                self.checked = self.at + BLOCK_BYTES;
                let is_without = match rest.first_chunk() {
                    Some(block) => !has_sign(block),
                    None => {
                        let mut last = [0; BLOCK_BYTES + 1];
                        last[..rest.len()].copy_from_slice(rest);
                        !has_sign(&last)
                    }
                };
                if is_without {
                    self.at = self.checked;
                    continue;
                }
            }
            let eight = short::eight(rest, 0).unwrap_or_else(|| {
                let mut last = [0; 8];
                last[..rest.len()].copy_from_slice(rest);
                u64::from_le_bytes(last)
            });
            self.found = signs(eight);
            self.at += 8;
        }
    }
}

/// The highest bit of each of eight bytes that may be a sign.
#[inline]
fn signs(eight: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGHS: u64 = 0x80 * ONES;
    let low = eight & !HIGHS;
    // The sums of low bytes and small numbers do not reach the next byte.
    let within = |first: u8, last: u8| {
        let not_below = low + ONES * u64::from(0x80 - first);
        let above = low + ONES * u64::from(0x7f - last);
        not_below & !above
    };
    let capitals = within(b'A', b'Z') & !eight & HIGHS;
    // The first of several capitals: the last byte may be one, too.
    let first = capitals & !(capitals << 8) & (capitals >> 8 | 1 << 63);
    // `:`, `;`, `<`, `=`.
    let marks = within(b':', b'=') | within(b'[', b'[') | within(0x1b, 0x1b);
    first | (marks & !eight & HIGHS)
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
