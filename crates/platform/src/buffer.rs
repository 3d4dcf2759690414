//! Memory at an address that O_DIRECT accepts, without `unsafe`: a vector is allocated one block
//! too long and used from its first aligned byte.

/// Unit of direct I/O: address, offset and length of a direct write are multiples of it. 4 KiB fits
/// every disk whose logical blocks have 512 or 4,096 bytes; on others, writes fall back to the page
/// cache.
pub const BLOCK_BYTES: usize = 4096;

/// Zeroed bytes whose address is a multiple of [`BLOCK_BYTES`]. Never grows, because that would
/// move them.
pub struct AlignedBuffer {
    memory: Vec<u8>,
    start: usize,
    bytes: usize,
}

impl AlignedBuffer {
    /// A buffer of `bytes` zeros.
    pub fn new(bytes: usize) -> Self {
        let memory = vec![0; bytes + BLOCK_BYTES];
        let start = memory.as_ptr().align_offset(BLOCK_BYTES);
        assert!(start <= BLOCK_BYTES, "a byte pointer can always be aligned");
        AlignedBuffer { memory, start, bytes }
    }
}

impl std::ops::Deref for AlignedBuffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.bytes]
    }
}

impl std::ops::DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.bytes]
    }
}

/// Whether a write of `bytes` to `offset` may go to a file opened with O_DIRECT.
pub(crate) fn is_aligned(bytes: &[u8], offset: u64) -> bool {
    bytes.as_ptr().addr().is_multiple_of(BLOCK_BYTES)
        && bytes.len().is_multiple_of(BLOCK_BYTES)
        && offset.is_multiple_of(BLOCK_BYTES as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_zero() {
        for bytes in [0, 1, BLOCK_BYTES - 1, BLOCK_BYTES, 3 * BLOCK_BYTES] {
            let buffer = AlignedBuffer::new(bytes);
            assert_eq!(buffer.len(), bytes);
            assert_eq!(buffer.as_ptr().addr() % BLOCK_BYTES, 0);
            assert!(buffer.iter().all(|&b| b == 0));
        }
    }

    #[test]
    fn address_offset_and_length_must_be_multiples() {
        let buffer = AlignedBuffer::new(2 * BLOCK_BYTES);
        assert!(is_aligned(&buffer, 0));
        assert!(is_aligned(&buffer[BLOCK_BYTES..], 8192));
        assert!(!is_aligned(&buffer[..BLOCK_BYTES - 1], 0));
        assert!(!is_aligned(&buffer[1..=BLOCK_BYTES], 0));
        assert!(!is_aligned(&buffer, 512));
    }
}
