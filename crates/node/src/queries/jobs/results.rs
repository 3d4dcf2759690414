//! The rows of a background query in a file: appended block by block, read by row number.
//!
//! The format is docs/format/query-results.md. A block is valid if its checksum is; everything
//! behind the first invalid block is ignored. So nothing is synced while rows are written, and
//! after a crash the rows of the valid blocks remain. Each block also holds the position of its
//! last row in the order of time, so that the query can resume behind it.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use platform::{Access, Disk, DiskFile};
use query::RowKey;
use record::LineId;

/// The first bytes of a block. The last one is the version of the format.
const MAGIC: [u8; 4] = *b"LRB2";
/// Bytes before the table of row ends.
const HEADER_BYTES: usize = 40;
/// Bytes behind the rows: the node of the last row.
const NODE_BYTES: usize = 4;
/// Bit of the flags: the position of the last row is known.
const HAS_KEY: u32 = 1;
/// Limit of a block's table and rows. A larger block cannot be valid, because blocks are at most as
/// large as what a query holds in memory to sort it.
const BLOCK_BYTES_MAX: u64 = 1 << 30;

/// Rows that are written at once: their bytes, and the end of each.
#[derive(Debug, Default)]
pub struct ResultRows {
    /// The rows, one after another.
    pub bytes: Vec<u8>,
    /// The end of each in `bytes`.
    pub ends: Vec<u32>,
}

/// A file of rows.
pub struct Results {
    file: Arc<dyn DiskFile>,
    index: RwLock<Index>,
}

#[derive(Default)]
struct Index {
    blocks: Vec<Block>,
    rows: u64,
    /// Offset of the next block.
    end: u64,
    /// The position of the last row in the order of time.
    last_key: Option<RowKey>,
}

#[derive(Clone, Copy)]
struct Block {
    first_row: u64,
    rows: u32,
    offset: u64,
    row_bytes: u32,
}

impl Block {
    /// Offset of the next block.
    fn end(&self) -> u64 {
        self.offset + HEADER_BYTES as u64 + rest_bytes(self.rows, self.row_bytes)
    }
}

/// Bytes of a block behind its header.
fn rest_bytes(rows: u32, row_bytes: u32) -> u64 {
    u64::from(rows) * 4 + u64::from(row_bytes) + NODE_BYTES as u64
}

/// The header of a block.
struct Header {
    checksum: u32,
    rows: u32,
    row_bytes: u32,
    /// The position of the last row, without the node.
    key: Option<RowKey>,
}

impl Header {
    fn read(bytes: &[u8; HEADER_BYTES]) -> Option<Header> {
        let u32_at = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4 bytes"));
        let u64_at = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"));
        let known = u32_at(16) & HAS_KEY != 0;
        if bytes[..4] != MAGIC {
            return None;
        }
        let header = Header {
            checksum: u32_at(4),
            rows: u32_at(8),
            row_bytes: u32_at(12),
            key: known.then(|| RowKey {
                time_ns: u64_at(24).cast_signed(),
                id: LineId { node: 0, sequence: u64_at(32), line: u32_at(20) },
            }),
        };
        let sane = header.rows > 0 && header.rest_bytes() <= BLOCK_BYTES_MAX;
        sane.then_some(header)
    }

    /// Bytes behind the header.
    fn rest_bytes(&self) -> u64 {
        rest_bytes(self.rows, self.row_bytes)
    }
}

impl Results {
    /// The name of the file of a query.
    pub fn path(dir: &Path, id: u64) -> PathBuf {
        dir.join(format!("{id}.rows"))
    }

    /// Creates an empty file, in place of an old one with that name.
    pub fn create(disk: &dyn Disk, path: &Path) -> io::Result<Results> {
        match disk.remove(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = disk.open(path, Access::Create)?;
        disk.sync_dir(path.parent().expect("it is in a directory"))?;
        Ok(Results { file, index: RwLock::default() })
    }

    /// Opens a file to append behind its valid blocks; everything behind them is cut off.
    ///
    /// # Errors
    /// I/O errors; also if another version of Loginson wrote the file, which then stays as it is.
    pub fn open(disk: &dyn Disk, path: &Path) -> io::Result<Results> {
        let file = disk.open(path, Access::Write)?;
        let index = Index::read(&*file)?;
        if index.end < file.bytes()? {
            file.truncate(index.end)?;
            file.sync_data()?;
        }
        Ok(Results { file, index: RwLock::new(index) })
    }

    /// Number of rows in it.
    pub fn rows(&self) -> u64 {
        self.index().rows
    }

    /// Bytes of the file.
    pub fn bytes(&self) -> u64 {
        self.index().end
    }

    /// The position of the last row, if rows are in the order of time.
    pub fn last_key(&self) -> Option<RowKey> {
        self.index().last_key
    }

    /// Bytes that rows will take in the file.
    pub fn cost(rows: &ResultRows) -> u64 {
        (HEADER_BYTES + rows.ends.len() * 4 + rows.bytes.len() + NODE_BYTES) as u64
    }

    /// Appends rows; `key` is the position of the last one in the order of time. Only one thread
    /// may append at a time.
    ///
    /// # Errors
    /// I/O errors. The rows are not in the file then; what was written of them is cut off if the
    /// disk allows.
    pub fn append(&self, rows: &ResultRows, key: Option<RowKey>) -> io::Result<()> {
        if rows.ends.is_empty() {
            return Ok(());
        }
        let row_bytes = u32::try_from(rows.bytes.len()).map_err(io::Error::other)?;
        let count = u32::try_from(rows.ends.len()).map_err(io::Error::other)?;
        let mut block = Vec::with_capacity(Results::cost(rows) as usize);
        block.extend_from_slice(&MAGIC);
        block.extend_from_slice(&[0; 4]);
        block.extend_from_slice(&count.to_le_bytes());
        block.extend_from_slice(&row_bytes.to_le_bytes());
        block.extend_from_slice(&if key.is_some() { HAS_KEY } else { 0 }.to_le_bytes());
        let id = key.map_or(LineId { node: 0, sequence: 0, line: 0 }, |key| key.id);
        block.extend_from_slice(&id.line.to_le_bytes());
        block.extend_from_slice(&key.map_or(0, |key| key.time_ns).to_le_bytes());
        block.extend_from_slice(&id.sequence.to_le_bytes());
        assert_eq!(block.len(), HEADER_BYTES, "as documented");
        rows.ends.iter().for_each(|end| block.extend_from_slice(&end.to_le_bytes()));
        block.extend_from_slice(&rows.bytes);
        block.extend_from_slice(&id.node.to_le_bytes());
        let checksum = crc32c::crc32c(&block[8..]);
        block[4..8].copy_from_slice(&checksum.to_le_bytes());
        let offset = self.index().end;
        if let Err(error) = self.file.write_at(&block, offset) {
            // If this fails, the next start does it.
            let _ = self.file.truncate(offset);
            return Err(error);
        }
        let mut index = self.index.write().unwrap_or_else(PoisonError::into_inner);
        index.push(Block { first_row: 0, rows: count, offset, row_bytes }, key);
        Ok(())
    }

    /// Makes all rows durable.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }

    /// Bytes of up to `rows_max` rows from `row` on, at most `bytes_max` but at least one row, and
    /// the number of the row behind them.
    ///
    /// # Errors
    /// I/O errors; also if the file lost data since it was opened.
    pub fn page(&self, row: u64, rows_max: u64, bytes_max: usize) -> io::Result<(Vec<u8>, u64)> {
        let blocks: Vec<Block> = {
            let index = self.index();
            let from = index.blocks.partition_point(|b| b.first_row + u64::from(b.rows) <= row);
            let wanted = |b: &&Block| b.first_row < row.saturating_add(rows_max);
            index.blocks[from..].iter().take_while(wanted).copied().collect()
        };
        let mut page = Vec::new();
        let mut next = row;
        'blocks: for block in blocks {
            let first = (next - block.first_row) as usize;
            let ends = self.ends(&block)?;
            let start = if first == 0 { 0 } else { ends[first - 1] };
            let count = (row + rows_max - next).min((ends.len() - first) as u64) as usize;
            let mut end = start;
            for &row_end in &ends[first..first + count] {
                let fits = page.len() + (row_end - start) as usize <= bytes_max;
                if !fits && next > row {
                    break;
                }
                (end, next) = (row_end, next + 1);
            }
            let at = page.len();
            page.resize(at + (end - start) as usize, 0);
            let from = block.offset + (HEADER_BYTES + ends.len() * 4) as u64 + u64::from(start);
            self.read(&mut page[at..], from)?;
            if next < block.first_row + u64::from(block.rows) {
                break 'blocks;
            }
        }
        Ok((page, next))
    }

    fn ends(&self, block: &Block) -> io::Result<Vec<u32>> {
        let mut bytes = vec![0; block.rows as usize * 4];
        self.read(&mut bytes, block.offset + HEADER_BYTES as u64)?;
        let ends = bytes.as_chunks::<4>().0.iter().map(|end| u32::from_le_bytes(*end));
        let ends: Vec<u32> = ends.collect();
        // They were written sorted, but checksums are only checked when the file is opened.
        match ends.is_sorted() && ends.last() == Some(&block.row_bytes) {
            true => Ok(ends),
            false => Err(io::Error::new(io::ErrorKind::InvalidData, "the file is damaged")),
        }
    }

    fn read(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        match self.file.read_at(bytes, offset)? == bytes.len() {
            true => Ok(()),
            false => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the file became shorter")),
        }
    }

    fn index(&self) -> RwLockReadGuard<'_, Index> {
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Index {
    /// Reads the blocks of a file, up to the first invalid one.
    fn read(file: &dyn DiskFile) -> io::Result<Index> {
        let mut index = Index::default();
        let mut block = Vec::new();
        let bytes = file.bytes()?;
        loop {
            let mut header = [0; HEADER_BYTES];
            if file.read_at(&mut header, index.end)? < HEADER_BYTES {
                return Ok(index);
            }
            // All blocks of a file have one version; another one behind the first is damage.
            if index.end == 0 {
                check_version(&header)?;
            }
            let Some(found) = Header::read(&header) else { return Ok(index) };
            let rest_bytes = found.rest_bytes();
            if index.end + HEADER_BYTES as u64 + rest_bytes > bytes {
                return Ok(index);
            }
            block.resize(rest_bytes as usize, 0);
            let read = file.read_at(&mut block, index.end + HEADER_BYTES as u64)?;
            let checksum = crc32c::crc32c_append(crc32c::crc32c(&header[8..]), &block);
            if read < block.len() || checksum != found.checksum {
                return Ok(index);
            }
            let Header { rows, row_bytes, mut key, .. } = found;
            if let (Some(key), Some(node)) = (&mut key, block.last_chunk()) {
                key.id.node = u32::from_le_bytes(*node);
            }
            index.push(Block { first_row: 0, rows, offset: index.end, row_bytes }, key);
        }
    }

    fn push(&mut self, block: Block, key: Option<RowKey>) {
        self.blocks.push(Block { first_row: self.rows, ..block });
        self.rows += u64::from(block.rows);
        self.end = block.end();
        self.last_key = key;
    }
}

/// Errors: the block is one of another version.
fn check_version(header: &[u8; HEADER_BYTES]) -> io::Result<()> {
    let [.., version] = MAGIC;
    let found = header[MAGIC.len() - 1];
    if !header.starts_with(&MAGIC[..MAGIC.len() - 1]) || found == version {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "the rows have version {}, and this program reads version {}: use the release of Loginson that wrote them, \
         or delete the query",
        char::from(found).escape_default(),
        char::from(version)
    )))
}

#[cfg(test)]
mod tests {
    use platform::SimDisk;

    use super::*;

    fn rows(from: u64, count: u64) -> ResultRows {
        let mut rows = ResultRows::default();
        for row in from..from + count {
            rows.bytes.extend(format!("row {row}\n").into_bytes());
            rows.ends.push(rows.bytes.len() as u32);
        }
        rows
    }

    fn key(row: u64) -> Option<RowKey> {
        Some(RowKey {
            time_ns: -(row as i64),
            id: LineId { node: 7, sequence: row, line: row as u32 },
        })
    }

    fn text(results: &Results, row: u64, rows_max: u64, bytes_max: usize) -> (String, u64) {
        let (bytes, next) = results.page(row, rows_max, bytes_max).unwrap();
        (String::from_utf8(bytes).unwrap(), next)
    }

    #[test]
    fn pages_by_rows_and_bytes() {
        let disk = SimDisk::new(1);
        disk.create_dir_all(Path::new("q")).unwrap();
        let results = Results::create(&disk, Path::new("q/1.rows")).unwrap();
        assert_eq!(text(&results, 0, 10, 100), (String::new(), 0));
        results.append(&rows(0, 3), key(2)).unwrap();
        results.append(&ResultRows::default(), key(9)).unwrap();
        results.append(&rows(3, 2), key(4)).unwrap();
        for (row, rows_max, bytes_max, expected) in [
            (0, 1, 100, 0..1),
            (0, 3, 100, 0..3),
            (0, 4, 100, 0..4),
            (2, 2, 100, 2..4),
            (3, 9, 100, 3..5),
            (5, 9, 100, 5..5),
            (0, 9, 1, 0..1),
            (0, 9, 11, 0..1),
            (0, 9, 12, 0..2),
            (0, 9, 24, 0..4),
            (1, 9, 23, 1..4),
            (0, 9, 30, 0..5),
        ] {
            let whole: String = expected.clone().map(|row| format!("row {row}\n")).collect();
            let found = text(&results, row, rows_max, bytes_max);
            assert_eq!(found, (whole, expected.end), "{row} {rows_max} {bytes_max}");
        }
        let again = Results::open(&disk, Path::new("q/1.rows")).unwrap();
        assert_eq!((again.rows(), again.bytes()), (5, results.bytes()));
        assert_eq!(again.last_key(), key(4));
    }

    /// Power cuts and torn writes: the file then holds a prefix of what was written, with the key
    /// of its last row.
    #[test]
    fn a_crash_leaves_a_prefix() {
        for seed in 0..200 {
            let disk = SimDisk::new(seed);
            let dir = Path::new("q");
            disk.create_dir_all(dir).unwrap();
            let path = Results::path(dir, 7);
            let results = Results::create(&disk, &path).unwrap();
            let mut synced = 0;
            for block in 0..6 {
                results.append(&rows(block * 4, 4), key(block * 4 + 3)).unwrap();
                if block == seed % 6 {
                    results.sync().unwrap();
                    synced = results.rows();
                }
            }
            disk.crash();
            disk.restart();
            let left = Results::open(&disk, &path).unwrap();
            let count = left.rows();
            assert!(count >= synced && count.is_multiple_of(4), "{seed}: {count} of {synced}");
            assert_eq!(left.last_key(), count.checked_sub(1).and_then(key));
            left.append(&rows(count, 4), key(count + 3)).unwrap();
            let again = Results::open(&disk, &path).unwrap();
            let whole: String = (0..count + 4).map(|row| format!("row {row}\n")).collect();
            assert_eq!(text(&again, 0, 100, 1 << 20), (whole, count + 4), "{seed}");
        }
    }

    #[test]
    fn rows_of_another_version_are_refused_and_stay() {
        let disk = SimDisk::new(9);
        disk.create_dir_all(Path::new("q")).unwrap();
        let path = Path::new("q/1.rows");
        let results = Results::create(&disk, path).unwrap();
        results.append(&rows(0, 2), key(1)).unwrap();
        disk.open(path, Access::Write).unwrap().write_at(b"LRB1", 0).unwrap();
        let error = Results::open(&disk, path).err().unwrap().to_string();
        assert!(error.contains("have version 1, and this program reads version 2"), "{error}");
        assert_eq!(disk.file_bytes(path).unwrap(), results.bytes());
    }

    #[test]
    fn rows_that_cannot_be_written_are_not_in_the_file() {
        let disk = SimDisk::new(5);
        disk.create_dir_all(Path::new("q")).unwrap();
        let path = Path::new("q/1.rows");
        let results = Results::create(&disk, path).unwrap();
        results.append(&rows(0, 2), key(1)).unwrap();
        let before = results.bytes();
        disk.set_capacity(before + 8);
        assert!(results.append(&rows(2, 2), key(3)).is_err());
        assert_eq!((results.rows(), results.bytes()), (2, before));
        assert_eq!(disk.file_bytes(path).unwrap(), before);
        disk.set_capacity(u64::MAX);
        results.append(&rows(2, 1), key(2)).unwrap();
        assert_eq!(text(&results, 0, 9, 100).0, "row 0\nrow 1\nrow 2\n");
    }

    #[test]
    fn later_damage_is_reported() {
        let disk = SimDisk::new(6);
        disk.create_dir_all(Path::new("q")).unwrap();
        let path = Path::new("q/1.rows");
        let results = Results::create(&disk, path).unwrap();
        results.append(&rows(0, 3), None).unwrap();
        let file = disk.open(path, Access::Write).unwrap();
        let mut end = [0; 4];
        for row in 0..3 {
            let at = HEADER_BYTES as u64 + 4 * row;
            file.read_at(&mut end, at).unwrap();
            file.write_at(&[255; 4], at).unwrap();
            let error = results.page(0, 9, 100).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{row}");
            file.write_at(&end, at).unwrap();
        }
        assert!(results.page(0, 9, 100).is_ok());
    }

    #[test]
    fn a_bit_that_flipped_ends_the_rows() {
        let disk = SimDisk::new(3);
        disk.create_dir_all(Path::new("q")).unwrap();
        let path = Path::new("q/1.rows");
        let results = Results::create(&disk, path).unwrap();
        results.append(&rows(0, 2), None).unwrap();
        let first = results.bytes();
        results.append(&rows(2, 2), None).unwrap();
        let file = disk.open(path, Access::Write).unwrap();
        let mut byte = [0];
        for at in first..results.bytes() {
            file.read_at(&mut byte, at).unwrap();
            file.write_at(&[byte[0] ^ 1], at).unwrap();
            assert_eq!(Index::read(&*file).unwrap().rows, 2, "{at}");
            file.write_at(&byte, at).unwrap();
        }
        assert_eq!(Index::read(&*file).unwrap().rows, 4);
    }
}
