//! Encoding of partial states: what an operator collected where the lines are is sent as bytes to
//! where the answer is given.
//!
//! A state begins with a version and a fingerprint of its pipe, so that a state of another pipe is
//! refused. Numbers of 8 bytes and texts behind their 4-byte lengths follow, all little-endian.
//! Each operator documents their meaning at its `encode` and `decode`. Values that can be derived
//! from others (kinds, hashes of tables) are not encoded.
//!
//! Decoding trusts nothing. Every length is checked against the bytes that are left, memory is
//! counted before it is allocated, counts are bounded by [`COUNT_MAX`], and anything that does not
//! fit is an error. Both ends must run the same version of Loginson.

use std::collections::HashMap;
use std::sync::Arc;

use record::LineId;

use crate::base::{Buffer, Meter, RunError};

/// Version of the encoding. Any other version is refused.
const VERSION: u8 = 3;
/// Greatest number of lines, rows or hits in a state. Far above what any store has, and small
/// enough that a sum over [`STATES_MAX`] states fits in 64 bits.
const COUNT_MAX: u64 = 1 << 48;
/// Approximate memory of a decoded name besides its bytes.
const NAME_BYTES: usize = 56;
/// Most states that are merged for one answer.
pub(crate) const STATES_MAX: usize = 10_000;

/// Encodes a state.
pub(crate) struct Encoder<'m> {
    buffer: Buffer,
    meter: &'m mut Meter,
}

impl<'m> Encoder<'m> {
    /// Begins a state of a pipe with this fingerprint.
    pub fn new(fingerprint: u64, meter: &'m mut Meter) -> Result<Encoder<'m>, RunError> {
        let mut encoder = Encoder { buffer: Buffer::default(), meter };
        encoder.raw(&[VERSION])?;
        encoder.number(fingerprint)?;
        Ok(encoder)
    }

    /// Returns the bytes, which are no longer counted.
    pub fn finish(self) -> Vec<u8> {
        let (bytes, counted) = self.buffer.into_bytes();
        self.meter.give_back(counted);
        bytes
    }

    fn raw(&mut self, bytes: &[u8]) -> Result<(), RunError> {
        self.buffer.room(bytes.len(), self.meter)?.extend_from_slice(bytes);
        Ok(())
    }

    pub fn number(&mut self, number: u64) -> Result<(), RunError> {
        self.raw(&number.to_le_bytes())
    }

    pub fn float(&mut self, number: f64) -> Result<(), RunError> {
        self.number(number.to_bits())
    }

    pub fn flag(&mut self, flag: bool) -> Result<(), RunError> {
        self.raw(&[u8::from(flag)])
    }

    /// Writes a length and the bytes.
    pub fn bytes(&mut self, bytes: &[u8]) -> Result<(), RunError> {
        let length = u32::try_from(bytes.len()).map_err(|_| wrong_state("a value is too long"))?;
        self.raw(&length.to_le_bytes())?;
        self.raw(bytes)
    }

    /// Writes a time, or that there is none.
    pub fn time(&mut self, time_ns: Option<i64>) -> Result<(), RunError> {
        self.flag(time_ns.is_some())?;
        time_ns.map_or(Ok(()), |time_ns| self.number(time_ns as u64))
    }

    /// Writes the id of a line, or that there is none.
    pub fn line(&mut self, id: Option<LineId>) -> Result<(), RunError> {
        self.flag(id.is_some())?;
        let Some(LineId { node, sequence, line }) = id else { return Ok(()) };
        self.number(node.into())?;
        self.number(sequence)?;
        self.number(line.into())
    }

    /// Writes bytes, or that there are none.
    pub fn optional(&mut self, bytes: Option<&[u8]>) -> Result<(), RunError> {
        self.flag(bytes.is_some())?;
        bytes.map_or(Ok(()), |bytes| self.bytes(bytes))
    }
}

/// Decodes a state.
pub(crate) struct Decoder<'b> {
    rest: &'b [u8],
    /// Names that were decoded before, so that all rows share them.
    names: HashMap<&'b str, Arc<str>, foldhash::fast::RandomState>,
}

/// Why a state cannot be used.
pub(crate) fn wrong_state(why: &'static str) -> RunError {
    RunError::PartialState(why)
}

impl<'b> Decoder<'b> {
    /// Begins a state, which must be of a pipe with this fingerprint.
    pub fn new(bytes: &'b [u8], fingerprint: u64) -> Result<Decoder<'b>, RunError> {
        let mut decoder = Decoder { rest: bytes, names: HashMap::default() };
        if decoder.raw(1)? != [VERSION] {
            return Err(wrong_state("it has another version"));
        }
        if decoder.number()? != fingerprint {
            return Err(wrong_state("it is of another pipe"));
        }
        Ok(decoder)
    }

    /// Checks that no bytes are left.
    pub fn finish(self) -> Result<(), RunError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(wrong_state("there is more than belongs to it"))
        }
    }

    fn raw(&mut self, length: usize) -> Result<&'b [u8], RunError> {
        let (bytes, rest) =
            self.rest.split_at_checked(length).ok_or_else(|| wrong_state("it ends early"))?;
        self.rest = rest;
        Ok(bytes)
    }

    pub fn number(&mut self) -> Result<u64, RunError> {
        let bytes = self.raw(size_of::<u64>())?;
        Ok(u64::from_le_bytes(bytes.try_into().expect("as many as were read")))
    }

    pub fn float(&mut self) -> Result<f64, RunError> {
        self.number().map(f64::from_bits)
    }

    pub fn flag(&mut self) -> Result<bool, RunError> {
        match self.raw(1)? {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(wrong_state("a choice is neither")),
        }
    }

    pub fn bytes(&mut self) -> Result<&'b [u8], RunError> {
        let length = self.raw(size_of::<u32>())?;
        let length = u32::from_le_bytes(length.try_into().expect("as many as were read"));
        self.raw(length as usize)
    }

    /// Reads what [`Encoder::time`] wrote.
    pub fn time(&mut self) -> Result<Option<i64>, RunError> {
        Ok(if self.flag()? { Some(self.number()? as i64) } else { None })
    }

    /// Reads what [`Encoder::line`] wrote.
    pub fn line(&mut self) -> Result<Option<LineId>, RunError> {
        if !self.flag()? {
            return Ok(None);
        }
        let small =
            |number| u32::try_from(number).map_err(|_| wrong_state("a line has no such id"));
        let (node, sequence) = (small(self.number()?)?, self.number()?);
        Ok(Some(LineId { node, sequence, line: small(self.number()?)? }))
    }

    /// Reads what [`Encoder::optional`] wrote.
    pub fn optional(&mut self) -> Result<Option<&'b [u8]>, RunError> {
        Ok(if self.flag()? { Some(self.bytes()?) } else { None })
    }

    /// Reads the name of a field; its memory is counted at its first occurrence.
    pub fn name(&mut self, meter: &mut Meter) -> Result<Arc<str>, RunError> {
        let name =
            std::str::from_utf8(self.bytes()?).map_err(|_| wrong_state("a name is no text"))?;
        if let Some(known) = self.names.get(name) {
            return Ok(known.clone());
        }
        meter.take(name.len() + NAME_BYTES)?;
        let shared: Arc<str> = name.into();
        self.names.insert(name, shared.clone());
        Ok(shared)
    }

    /// Reads a number of lines, rows or hits.
    pub fn count(&mut self) -> Result<u64, RunError> {
        match self.number()? {
            count if count <= COUNT_MAX => Ok(count),
            _ => Err(wrong_state("a count is too large")),
        }
    }

    /// Reads the number of items that follow, each of at least `bytes_min` bytes.
    pub fn length(&mut self, bytes_min: usize) -> Result<usize, RunError> {
        let most = self.rest.len().saturating_sub(size_of::<u64>()) / bytes_min.max(1);
        match usize::try_from(self.number()?) {
            Ok(length) if length <= most => Ok(length),
            _ => Err(wrong_state("it has less than it says")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lang::context::Context;

    fn encoded(write: impl FnOnce(&mut Encoder<'_>)) -> Vec<u8> {
        let mut meter = Context::default().meter();
        let mut encoder = Encoder::new(7, &mut meter).unwrap();
        write(&mut encoder);
        encoder.finish()
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = encoded(|out| {
            out.number(u64::MAX).unwrap();
            out.float(-0.5).unwrap();
            out.flag(true).unwrap();
            out.bytes(b"abc").unwrap();
            out.optional(None).unwrap();
            out.optional(Some(b"")).unwrap();
            (0..2).for_each(|_| out.bytes("name".as_bytes()).unwrap());
        });
        let mut meter = Context::default().meter();
        let mut from = Decoder::new(&bytes, 7).unwrap();
        assert_eq!(from.number().unwrap(), u64::MAX);
        assert_eq!(from.float().unwrap(), -0.5);
        assert!(from.flag().unwrap());
        assert_eq!(from.bytes().unwrap(), b"abc");
        assert_eq!(from.optional().unwrap(), None);
        assert_eq!(from.optional().unwrap(), Some(&b""[..]));
        let names = [from.name(&mut meter).unwrap(), from.name(&mut meter).unwrap()];
        assert!(Arc::ptr_eq(&names[0], &names[1]));
        from.finish().unwrap();
        for length in 0..bytes.len() {
            let read = Decoder::new(&bytes[..length], 7).and_then(|mut from| {
                from.number()?;
                from.float()?;
                from.flag()?;
                from.bytes()?;
                from.optional()?;
                from.optional()?;
                from.bytes()?;
                from.bytes()
            });
            assert!(read.is_err(), "{length}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let empty = encoded(|_| {});
        assert!(Decoder::new(&empty, 8).is_err(), "another pipe");
        let mut later = empty.clone();
        later[0] = VERSION + 1;
        assert!(Decoder::new(&later, 7).is_err(), "another version");
        assert!(
            Decoder::new(&encoded(|out| out.flag(true).unwrap()), 7).unwrap().finish().is_err()
        );
        for (number, bytes_min, fits) in [(2, 4, true), (3, 4, false), (u64::MAX, 1, false)] {
            let bytes = encoded(|out| {
                out.number(number).unwrap();
                out.number(0).unwrap();
            });
            let length = Decoder::new(&bytes, 7).unwrap().length(bytes_min);
            assert_eq!(length.is_ok(), fits, "{number}");
        }
        for (count, fits) in [(COUNT_MAX, true), (COUNT_MAX + 1, false)] {
            let bytes = encoded(|out| out.number(count).unwrap());
            assert_eq!(Decoder::new(&bytes, 7).unwrap().count().is_ok(), fits);
        }
    }
}
