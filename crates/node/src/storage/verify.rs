//! Checks files of a store: every checksum, and every count against other counts of the same.
//!
//! A fault is reported with file, byte, what was expected and what was found, and the check
//! continues behind it. Nothing is changed. Left out: whether event times and fields are those that
//! parsing would yield today.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use platform::{Access, Disk};
use record::frame::FRAME_INTERNAL;
use record::{Batch, FrameError};
use segment::sealed::{Rollup, SealedFile};
use segment::{Contents, FrameEntry, Origin, SegmentError, read_frame, read_segment};
use store::{AtRest, RestSegment, SegmentKind};

/// A fault and its position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The file.
    pub file: PathBuf,
    /// The offset in it, if the fault has one.
    pub offset: Option<u64>,
    /// The part of the file.
    pub part: String,
    /// The expected content; empty if there is nothing to compare with.
    pub expected: String,
    /// The content found.
    pub found: String,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fault { file, offset, part, expected, found } = self;
        write!(f, "{}", file.display())?;
        if let Some(offset) = offset {
            write!(f, " at byte {offset}")?;
        }
        match expected.is_empty() {
            true => write!(f, ": {part}: {found}"),
            false => write!(f, ": {part}: expected {expected}, found {found}"),
        }
    }
}

impl From<SegmentError> for Fault {
    fn from(error: SegmentError) -> Fault {
        let fault = |file, offset, part: &str, expected: String, found: String| Fault {
            file,
            offset,
            part: part.to_owned(),
            expected,
            found,
        };
        match error {
            SegmentError::Io { path, action, source } => {
                fault(path, None, &format!("cannot {action}"), String::new(), source.to_string())
            }
            SegmentError::Damaged { path, offset, part, expected, found } => {
                fault(path, Some(offset), part, expected, found)
            }
            SegmentError::Version { path, part, expected, found } => {
                let (expected, found) = (format!("version {expected}"), format!("version {found}"));
                fault(path, None, &format!("the version of the {part}"), expected, found)
            }
            SegmentError::Frame { path, offset, source } => {
                let (part, expected, found) = match source {
                    FrameError::Checksum { part, expected, found } => (
                        format!("checksum of the frame's {part}"),
                        format!("{expected:08x}"),
                        format!("{found:08x}"),
                    ),
                    FrameError::Short { needed, found } => {
                        ("a frame".into(), format!("{needed} bytes"), format!("{found}"))
                    }
                    FrameError::Magic(found) => {
                        ("a frame".into(), "its first bytes".into(), format!("{found:02x?}"))
                    }
                    other => ("a frame".into(), String::new(), other.to_string()),
                };
                fault(path, Some(offset), &part, expected, found)
            }
        }
    }
}

/// Follows a check.
pub trait Observer {
    /// `bytes` more bytes of files were checked or skipped.
    fn advanced(&mut self, bytes: u64);
    /// A fault was found.
    fn fault(&mut self, fault: Fault);
    /// Something is notable but not a fault.
    fn note(&mut self, note: String);
}

/// Totals of a check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// Segment files.
    pub files: u64,
    /// Intact lines in them.
    pub lines: u64,
    /// Of those, own lines of Loginson.
    pub lines_own: u64,
    /// Bytes of these lines with their newlines.
    pub bytes_raw: u64,
    /// Size of the files.
    pub bytes: u64,
}

/// Checks every segment of a directory, and compares the catalog with them. Calls `each` with each
/// segment and its lines.
pub fn verify_directory(
    disk: &dyn Disk,
    at_rest: &AtRest,
    observer: &mut dyn Observer,
    mut each: impl FnMut(&RestSegment, u64),
) -> Checked {
    let mut all = Checked::default();
    at_rest.notes.iter().for_each(|note| observer.note(note.clone()));
    if let Some(error) = &at_rest.catalog_fault {
        let file = at_rest.dir.join(store::CATALOG_FILE);
        let (part, found) = ("the catalog".into(), error.to_string());
        observer.fault(Fault { file, offset: None, part, expected: String::new(), found });
    }
    for (id, row) in &at_rest.missing {
        observer.fault(Fault {
            file: at_rest.dir.join(store::SEGMENTS_DIR).join(&row.file),
            offset: None,
            part: format!("segment {id}"),
            expected: format!("{} lines, as the catalog says", row.lines),
            found: "no file".into(),
        });
    }
    for segment in &at_rest.segments {
        let checked = verify_segment(disk, segment, observer);
        each(segment, checked.lines);
        all.files += 1;
        all.lines += checked.lines;
        all.lines_own += checked.lines_own;
        all.bytes_raw += checked.bytes_raw;
        all.bytes += segment.bytes;
    }
    all
}

/// Checks one segment file, and compares it with its row in the catalog if it has one.
pub fn verify_segment(
    disk: &dyn Disk,
    segment: &RestSegment,
    observer: &mut dyn Observer,
) -> Checked {
    let mut check = Check { disk, segment, observer, advanced: 0, faults: 0, lines_own: 0 };
    let found = match segment.kind {
        SegmentKind::Hot => check.hot(),
        SegmentKind::Sealed => check.sealed(),
    };
    let (lines, bytes_raw) = found.unwrap_or_else(|error| {
        check.fault(error.into());
        (0, 0)
    });
    check.against_catalog(lines, bytes_raw);
    check.observer.advanced(segment.bytes.saturating_sub(check.advanced));
    let lines_own = check.lines_own;
    Checked { files: 1, lines, lines_own, bytes_raw, bytes: segment.bytes }
}

/// A segment being checked.
struct Check<'a> {
    disk: &'a dyn Disk,
    segment: &'a RestSegment,
    observer: &'a mut dyn Observer,
    advanced: u64,
    faults: u64,
    lines_own: u64,
}

impl Check<'_> {
    fn hot(&mut self) -> Result<(u64, u64), SegmentError> {
        let path = &self.segment.path;
        let contents = read_segment(self.disk, path, self.segment.id, self.segment.limit())?;
        let lacks_frames = self.segment.lacks_frames(&contents);
        let Contents { header, header_bytes, frames, data_end, origin, .. } = contents;
        match header {
            Ok(header) => {
                self.same(16, "the file header", "segment", self.segment.id, header.segment)
            }
            Err(error) => self.fault(error.into()),
        }
        match origin {
            Origin::Index => self.index(header_bytes, &frames, data_end),
            Origin::Scan(scan) => {
                let reported = scan.damages.len() as u64;
                scan.damages.into_iter().for_each(|damage| self.fault(damage.into()));
                if scan.damaged_places > reported {
                    let found = format!("{} damaged places in all", scan.damaged_places);
                    self.wrong(None, "frames", String::new(), found);
                }
                let tail = scan.tail_bytes;
                if lacks_frames {
                    let found = format!(
                        "{tail} bytes that cannot be read, though the catalog knows of lines there"
                    );
                    self.wrong(
                        Some(data_end),
                        "behind the last good frame",
                        "the end".into(),
                        found,
                    );
                } else if tail > 0 {
                    let path = path.display();
                    self.observer.note(format!(
                        "{path}: if a crash interrupted a write, the {tail} bytes behind byte {data_end} were never \
                         acknowledged, and the next start cuts them off"
                    ));
                }
            }
        }
        let file = self.disk.open(path, Access::Read).map_err(SegmentError::io(path, "open"))?;
        let (mut lines, mut bytes_raw) = (0, 0);
        for entry in &frames {
            match read_frame(&*file, path, entry) {
                Ok(frame) => {
                    let mut found = FrameEntry::new(entry.offset, frame.header());
                    found.set_time_range_ns(entry.time_range_ns().unwrap_or((1, 0)));
                    if found != *entry {
                        let (expected, found) = (format!("{entry:?}"), format!("{found:?}"));
                        self.wrong(
                            Some(entry.offset),
                            "a frame and its entry in the index",
                            expected,
                            found,
                        );
                    }
                    lines += u64::from(frame.header().lines);
                    if entry.flags & FRAME_INTERNAL != 0 {
                        self.lines_own += u64::from(frame.header().lines);
                    }
                    bytes_raw += u64::from(frame.header().payload_bytes);
                }
                Err(error) => self.fault(error.into()),
            }
            self.advanced += u64::from(entry.frame_bytes);
            self.observer.advanced(entry.frame_bytes.into());
        }
        Ok((lines, bytes_raw))
    }

    /// Checks that the frames in the index are adjacent.
    fn index(&mut self, header_bytes: u64, frames: &[FrameEntry], data_end: u64) {
        let mut at = header_bytes;
        for entry in frames {
            self.same(entry.offset, "the index", "a frame at byte", at, entry.offset);
            at = entry.end();
        }
        self.same(data_end, "the index", "the end of the frames at byte", at, data_end);
    }

    fn sealed(&mut self) -> Result<(u64, u64), SegmentError> {
        let file = SealedFile::open(self.disk, &self.segment.path)?;
        let footer = Arc::clone(file.footer());
        self.same(16, "the file header", "segment", self.segment.id, footer.header.segment);
        let (mut lines, mut bytes_raw) = (0, 0);
        let rollups: Vec<&Rollup> = footer.rollups.iter().chain(&footer.pairs).collect();
        let mut recount = Recount::new(&rollups);
        for (index, block) in footer.blocks.iter().enumerate() {
            match file.verify_block(index) {
                Ok(batch) => {
                    lines += batch.len() as u64;
                    bytes_raw += block.bytes_raw;
                    if batch.is_internal() {
                        self.lines_own += batch.len() as u64;
                    }
                    if !batch.is_internal() {
                        recount.add(&batch);
                    }
                }
                Err(error) => self.fault(error.into()),
            }
            self.advanced += block.bytes_disk();
            self.observer.advanced(block.bytes_disk());
        }
        // If blocks are missing, counts differ for a reason that is reported already.
        if self.faults == 0 {
            self.counts(&rollups, &recount);
        }
        Ok((lines, bytes_raw))
    }

    /// Compares the footer's counts of lines by value with the lines.
    fn counts(&mut self, rollups: &[&Rollup], recount: &Recount<'_>) {
        for (rollup, (_, found)) in rollups.iter().zip(&recount.fields) {
            let totals = rollup.totals().into_iter();
            let stated = totals.map(|(values, lines)| (Cow::Owned(values.join(SEPARATOR)), lines));
            let found = found.iter().map(|(value, lines)| (Cow::Borrowed(&value[..]), *lines));
            for (value, expected, found) in differences(stated, found) {
                let part = format!(
                    "the footer's count of {}={:?}",
                    rollup.fields.join(", "),
                    String::from_utf8_lossy(&value)
                );
                self.wrong(None, &part, format!("{expected} lines"), format!("{found}"));
            }
        }
    }

    fn against_catalog(&mut self, lines: u64, bytes_raw: u64) {
        let Some(listed) = self.segment.listed.as_ref().filter(|_| self.segment.is_closed()) else {
            return;
        };
        // A damaged file has fewer lines for a reason that is reported already.
        if self.faults == 0 && (lines, bytes_raw) != (listed.lines, listed.bytes_raw) {
            let expected = format!("{} lines of {} bytes", listed.lines, listed.bytes_raw);
            let found = format!("{lines} lines of {bytes_raw} bytes");
            self.wrong(None, "lines, compared with the catalog", expected, found);
        }
    }

    fn same(&mut self, offset: u64, part: &str, what: &str, expected: u64, found: u64) {
        if expected != found {
            let (expected, found) = (format!("{what} {expected}"), format!("{found}"));
            self.wrong(Some(offset), part, expected, found);
        }
    }

    fn wrong(&mut self, offset: Option<u64>, part: &str, expected: String, found: String) {
        let (file, part) = (self.segment.path.clone(), part.to_owned());
        self.fault(Fault { file, offset, part, expected, found });
    }

    fn fault(&mut self, fault: Fault) {
        self.faults += 1;
        self.observer.fault(fault);
    }
}

/// Separates the values of two fields that are counted together.
const SEPARATOR: &[u8] = b", ";

/// Lines by value, or by two values joined with [`SEPARATOR`].
type Counts = HashMap<Vec<u8>, u64, foldhash::fast::RandomState>;

/// Lines by value, for the fields that a footer counts.
struct Recount<'a> {
    fields: Vec<(&'a [String], Counts)>,
}

impl<'a> Recount<'a> {
    fn new(rollups: &[&'a Rollup]) -> Self {
        let fields = rollups.iter().map(|rollup| (&rollup.fields[..], Counts::default()));
        Recount { fields: fields.collect() }
    }

    fn add(&mut self, batch: &Batch) {
        let mut values = Vec::new();
        for (fields, counts) in &mut self.fields {
            let ids: Vec<_> = fields.iter().map(|field| batch.field_id(field)).collect();
            for row in batch.rows() {
                values.clear();
                for (index, id) in ids.iter().enumerate() {
                    values.extend_from_slice(if index > 0 { SEPARATOR } else { b"" });
                    values.extend_from_slice(id.and_then(|id| row.get(id)).unwrap_or_default());
                }
                match counts.get_mut(&values) {
                    Some(lines) => *lines += 1,
                    None => drop(counts.insert(values.clone(), 1)),
                }
            }
        }
    }
}

/// The keys with different numbers in the two lists, in order, with both numbers. A key that occurs
/// several times has the sum, a missing one 0.
fn differences<K: Ord>(
    expected: impl IntoIterator<Item = (K, u64)>,
    found: impl IntoIterator<Item = (K, u64)>,
) -> Vec<(K, u64, u64)> {
    let mut sums: BTreeMap<K, (u64, u64)> = BTreeMap::new();
    for (key, number) in expected {
        let sum = &mut sums.entry(key).or_default().0;
        *sum = sum.saturating_add(number);
    }
    for (key, number) in found {
        let sum = &mut sums.entry(key).or_default().1;
        *sum = sum.saturating_add(number);
    }
    let differ = |(key, (expected, found))| (expected != found).then_some((key, expected, found));
    sums.into_iter().filter_map(differ).collect()
}

/// Opens a file given by its path as a segment.
pub fn single_file(disk: &dyn Disk, path: &Path) -> Result<RestSegment, SegmentError> {
    let bytes = disk.file_bytes(path).map_err(SegmentError::io(path, "get the length of"))?;
    let file = disk.open(path, Access::Read).map_err(SegmentError::io(path, "open"))?;
    let mut start = [0; 24];
    let read = file.read_at(&mut start, 0).map_err(SegmentError::io(path, "read"))?;
    let by_name = path.file_name().and_then(|name| SegmentKind::of_file(name.to_str()?));
    let kind = match (SegmentKind::of_bytes(&start[..read]), by_name) {
        (Some(kind), _) => kind,
        (None, Some((kind, _))) => kind,
        (None, None) => {
            return Err(SegmentError::Damaged {
                path: path.to_owned(),
                offset: 0,
                part: "the file header",
                expected: "that of a hot or sealed segment".into(),
                found: format!("{:02x?}", &start[..read.min(8)]),
            });
        }
    };
    // A copy may have any name; then the number in the file is used.
    let in_file = u64::from_le_bytes(start[16..24].try_into().expect("eight bytes"));
    let id = by_name.map_or(in_file, |(_, id)| id);
    Ok(RestSegment { id, kind, path: path.to_owned(), bytes, listed: None })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::cmp::Ordering;

    use super::*;

    #[test]
    fn differences_are_named_with_both_numbers() {
        type Numbers = [(&'static str, u64)];
        let check = |expected: &Numbers, found: &Numbers, differ: &[(&str, u64, u64)]| {
            let result = differences(expected.iter().copied(), found.iter().copied());
            assert_eq!(result, differ, "{expected:?} {found:?}");
        };
        check(&[], &[], &[]);
        check(&[("a", 1), ("b", 2)], &[("b", 2), ("a", 1)], &[]);
        check(&[("a", 1), ("b", 2)], &[("a", 1)], &[("b", 2, 0)]);
        check(&[("a", 1)], &[("b", 2), ("a", 3)], &[("a", 1, 3), ("b", 0, 2)]);
        check(&[("a", 1), ("a", 2)], &[("a", 3)], &[]);
        check(&[("a", u64::MAX), ("a", 2)], &[("a", 3)], &[("a", u64::MAX, 3)]);
    }

    /// A value that counts how often it is compared with others.
    struct Value<'a>(u64, &'a Cell<u64>);

    impl Ord for Value<'_> {
        fn cmp(&self, other: &Self) -> Ordering {
            self.1.set(self.1.get() + 1);
            self.0.cmp(&other.0)
        }
    }

    impl PartialOrd for Value<'_> {
        fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }

    impl PartialEq for Value<'_> {
        fn eq(&self, other: &Self) -> bool {
            self.cmp(other) == Ordering::Equal
        }
    }

    impl Eq for Value<'_> {}

    /// Comparing each value with all others would take a million comparisons for two fields of each
    /// segment.
    #[test]
    fn a_value_costs_some_dozens_of_comparisons_however_many_there_are() {
        let compared = Cell::new(0);
        let values = 16_384;
        let list = |order: fn(u64) -> u64| {
            (0..values).map(order).map(|value| (Value(value, &compared), 1)).collect::<Vec<_>>()
        };
        let (expected, found) = (list(|index| index ^ 0x1555), list(|index| index));
        assert!(differences(expected, found).is_empty());
        assert!(compared.get() <= 128 * values, "{} comparisons", compared.get());
    }
}
