//! Makes sealed segments: of the frames of a partition, and of several segments.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use cluster::engines::objects::Bucket;
use cluster::{FileBody, HotFrame, Merger, SealError, Sealed, Sealer, SegmentRow, TimeRange};
use platform::{Clock, RealDisk};
use programs::summary::SummaryConfig;
use record::Batch;
use segment::SegmentError;
use segment::sealed::{Effort, SealOptions, SealedHeader, SealedWriter};

use super::partition::OwnedPartition;
use super::segments::open_once;

/// The directory of files that are being written, and what writing needs.
pub struct Sealing {
    directory: PathBuf,
    clock: Arc<dyn Clock>,
    node: u32,
    threads: usize,
    summary: SummaryConfig,
    files: AtomicU64,
}

impl Sealing {
    /// Empties the directory: what is there was left by a crash, and no segment.
    ///
    /// Errors: the directory cannot be used.
    pub fn new(
        directory: &Path,
        clock: Arc<dyn Clock>,
        node: u32,
        threads: usize,
        summary: SummaryConfig,
    ) -> std::io::Result<Sealing> {
        if directory.exists() {
            fs::remove_dir_all(directory)?;
        }
        fs::create_dir_all(directory)?;
        let (directory, files) = (directory.to_owned(), AtomicU64::new(0));
        Ok(Sealing { directory, clock, node, threads, summary, files })
    }

    /// Writes a segment of batches, in their order. Its file is deleted at once, and exists as long
    /// as it is open.
    fn seal(
        &self,
        effort: Effort,
        received_last_ns: i64,
        batches: &mut dyn Iterator<Item = Result<Arc<Batch>, SegmentError>>,
    ) -> Result<Sealed, SealError> {
        let number = self.files.fetch_add(1, Relaxed);
        let path = self.directory.join(format!("{number}.sealing"));
        let sealed = self.write(&path, effort, received_last_ns, batches);
        if let Err(error) = fs::remove_file(&path) {
            tracing::warn!("{}: {error}", path.display());
        }
        sealed
    }

    fn write(
        &self,
        path: &Path,
        effort: Effort,
        received_last_ns: i64,
        batches: &mut dyn Iterator<Item = Result<Arc<Batch>, SegmentError>>,
    ) -> Result<Sealed, SealError> {
        let failed = |error: SegmentError| SealError(error.to_string());
        let header = SealedHeader {
            node: self.node,
            segment: 0,
            created_ns: self.clock.now_ns(),
            sequence_next: 0,
        };
        let options = SealOptions::new(effort);
        let mut writer =
            SealedWriter::create(&RealDisk, path, &header, &[], options).map_err(failed)?;
        writer.set_threads(self.threads);
        for batch in batches {
            writer.push(batch.map_err(failed)?, None).map_err(failed)?;
        }
        let footer = writer.finish().map_err(failed)?;
        let body = platform::read_regular(path).and_then(FileBody::new);
        let body = body.map_err(|error| SealError(format!("{}: {error}", path.display())))?;
        let (first_ns, last_ns) = footer.time_ns().unwrap_or((i64::MIN, i64::MAX));
        Ok(Sealed {
            body: Box::new(body),
            times: TimeRange { first_ns, last_ns },
            received_last_ns,
            lines: footer.lines(),
        })
    }
}

/// Seals the frames of one partition.
pub struct FrameSealer<'a> {
    /// How.
    pub sealing: &'a Sealing,
    /// What has the records of the frames.
    pub partition: &'a OwnedPartition,
}

impl Sealer for FrameSealer<'_> {
    fn seal(&self, _: u32, frames: &[HotFrame]) -> Result<Sealed, SealError> {
        let received = frames.iter().filter_map(|hot| hot.frame.received_range_ns());
        let received_last_ns = received.map(|(_, last)| last).max().unwrap_or(0);
        let batches: Vec<Arc<Batch>> = frames.iter().map(|hot| self.partition.batch(hot)).collect();
        let first = frames.first().map_or(0, |hot| hot.offset);
        let rows = self.partition.summary_rows(
            &batches,
            first,
            self.sealing.node,
            &self.sealing.summary,
            self.sealing.clock.now_ns(),
        );
        let mut batches = batches.into_iter().chain(rows).map(Ok);
        self.sealing.seal(Effort::Fast, received_last_ns, &mut batches)
    }
}

/// Merges segments.
pub struct SegmentMerger<'a> {
    /// How.
    pub sealing: &'a Sealing,
    /// Where the segments are.
    pub bucket: &'a Arc<Bucket>,
}

impl Merger for SegmentMerger<'_> {
    fn merge(&self, segments: &[SegmentRow]) -> Result<Sealed, SealError> {
        let open = |row: &SegmentRow| open_once(self.bucket, &row.name, row.bytes);
        let files = segments.iter().map(open).collect::<Result<Vec<_>, _>>();
        let files = files.map_err(|error| SealError(error.to_string()))?;
        let mut batches = files.iter().flat_map(|file| {
            (0..file.footer().blocks.len()).map(move |block| file.read_block(block).map(Arc::new))
        });
        let received_last_ns = segments.iter().map(|row| row.received_last_ns).max().unwrap_or(0);
        self.sealing.seal(Effort::Best, received_last_ns, &mut batches)
    }
}
