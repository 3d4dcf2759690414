//! The bytes of an object before it is stored.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Bytes that can be read at any offset and more than once, so that an upload in parts is repeated
/// and runs in parallel without holding all of them in memory.
pub trait Body: Send + Sync {
    /// All bytes.
    fn size(&self) -> u64;
    /// Fills `buffer` with the bytes at `offset`; an error if there are fewer.
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
}

impl Body for &[u8] {
    fn size(&self) -> u64 {
        self.len() as u64
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let end = || io::Error::from(io::ErrorKind::UnexpectedEof);
        let start = usize::try_from(offset).map_err(|_| end())?;
        let bytes = self.get(start..).and_then(|rest| rest.get(..buffer.len()));
        buffer.copy_from_slice(bytes.ok_or_else(end)?);
        Ok(())
    }
}

/// A complete file that does not change any more.
#[derive(Debug)]
pub struct FileBody {
    file: File,
    bytes: u64,
}

impl FileBody {
    /// The whole of `file`.
    pub fn new(file: File) -> io::Result<FileBody> {
        let bytes = file.metadata()?.len();
        Ok(FileBody { file, bytes })
    }
}

impl Body for FileBody {
    fn size(&self) -> u64 {
        self.bytes
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }
}
