//! Object storage, which holds sealed segments: S3.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use crate::error::ObjectError;

/// The bytes of an object to be stored. They can be read at any offset and more than once, so that
/// an upload in parts can be repeated, and runs in parallel, without holding the object in memory.
pub trait ObjectBody: Send + Sync {
    /// All bytes of the object.
    fn size(&self) -> u64;
    /// Fills `buffer` with the bytes at `offset`; an error if there are fewer.
    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;
}

impl ObjectBody for [u8] {
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

impl ObjectBody for Vec<u8> {
    fn size(&self) -> u64 {
        self.as_slice().size()
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.as_slice().read_exact_at(offset, buffer)
    }
}

/// A complete file that does not change any more.
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

impl ObjectBody for FileBody {
    fn size(&self) -> u64 {
        self.bytes
    }

    fn read_exact_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)
    }
}

/// An entry of a listing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectInfo {
    /// Its name.
    pub name: String,
    /// Its size in bytes.
    pub bytes: u64,
    /// When it was written, by the storage's clock: nanoseconds since 1970 UTC.
    pub written_ns: i64,
}

/// Object storage. All calls block. Objects are written whole, never changed, and visible to every
/// reader once [`put_new`](Objects::put_new) returned.
pub trait Objects: Send + Sync {
    /// Writes a new object: whole or not at all. [`ObjectError::Exists`] if the name is taken; a
    /// storage that cannot tell may overwrite, because the protocol never gives a name to two
    /// contents.
    fn put_new(&self, name: &str, body: &dyn ObjectBody) -> Result<(), ObjectError>;

    /// Reads from `offset` into `buffer`; returns the bytes read, which are fewer than asked for
    /// only at the end of the object.
    fn read_range(&self, name: &str, offset: u64, buffer: &mut [u8]) -> Result<usize, ObjectError>;

    /// Size of an object in bytes.
    fn size(&self, name: &str) -> Result<u64, ObjectError>;

    /// Deletes an object. An object that does not exist is no error.
    fn delete(&self, name: &str) -> Result<(), ObjectError>;

    /// Up to `max` objects whose names begin with `prefix` and are greater than `after`, in the
    /// order of their names' bytes.
    fn list(
        &self,
        prefix: &str,
        after: Option<&str>,
        max: usize,
    ) -> Result<Vec<ObjectInfo>, ObjectError>;
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn bodies_are_read_at_any_offset() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"0123456789").unwrap();
        let bodies: [&dyn ObjectBody; 2] = [&FileBody::new(file).unwrap(), &b"0123456789".to_vec()];
        for body in bodies {
            assert_eq!(body.size(), 10);
            let mut buffer = [0; 4];
            body.read_exact_at(6, &mut buffer).unwrap();
            assert_eq!(&buffer, b"6789");
            for offset in [7, 10, 11, u64::MAX] {
                assert!(body.read_exact_at(offset, &mut buffer).is_err(), "{offset}");
            }
        }
    }
}
