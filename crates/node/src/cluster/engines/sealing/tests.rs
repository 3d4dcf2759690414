//! Segments that are merged and searched, on an object storage in memory.

use cluster::deletions::Tombstone;
use cluster::sim::SimObjects;
use platform::{ManualClock, RealClock};
use record::{Format, FrameBuilder, Origin, Parser, ParserConfig, Transport};

use super::*;

const SECOND_NS: i64 = 1_000_000_000;

struct Bench {
    _folder: tempfile::TempDir,
    sealing: Sealing,
    bucket: Arc<dyn Objects>,
    rows: Vec<SegmentRow>,
}

impl Bench {
    fn new() -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let clock: Arc<dyn Clock> = Arc::new(RealClock::new());
        let directory = folder.path().join("sealing");
        let sealing = Sealing::new(&directory, clock, 7, 1, SummaryConfig::default()).unwrap();
        let bucket = Arc::new(SimObjects::new(Arc::new(ManualClock::new(0))));
        Bench { _folder: folder, sealing, bucket, rows: Vec::new() }
    }

    fn batch(&self, number: u64) -> Arc<Batch> {
        let mut builder = FrameBuilder::new();
        let origin = Origin::new(Transport::Http, Format::Auto, None);
        for line in 0..400 {
            let text =
                format!("<1>1 2026-10-11T22:14:{:02}Z h{number} a{line} - - - m {line}", line % 60);
            builder.push_line(&origin, number as i64 * SECOND_NS, text.as_bytes(), false);
        }
        let frame = builder.finish(3, number).unwrap();
        let mut parser = Parser::new(&ParserConfig::default()).unwrap();
        Arc::new(parser.parse(Arc::new(frame)))
    }

    /// Puts a segment of some frames; returns its row.
    fn put(&mut self, frames: std::ops::Range<u64>, effort: Effort) {
        let batches: Vec<_> = frames.clone().map(|number| self.batch(number)).collect();
        let mut pieces = batches.into_iter().map(|batch| Ok(Piece::Rows(batch, None)));
        let received_ns = frames.end as i64 * SECOND_NS;
        let sealed = self.sealing.seal(effort, received_ns, &mut pieces).unwrap();
        let row = self.store(&format!("segment-{}", frames.start), frames, &sealed);
        self.rows.push(row);
    }

    fn store(&self, name: &str, offsets: std::ops::Range<u64>, sealed: &Sealed) -> SegmentRow {
        self.bucket.put_new(name, &*sealed.body).unwrap();
        SegmentRow {
            name: name.to_owned(),
            partition: 0,
            offsets,
            times: sealed.times,
            received_last_ns: sealed.received_last_ns,
            lines: sealed.lines,
            bytes: sealed.body.size(),
            searched: sealed.searched,
            rules: 0,
            frames: sealed.frames.clone(),
        }
    }

    fn open(&self, row: &SegmentRow) -> SealedFile {
        open_once(&self.bucket, &row.name, row.bytes).unwrap()
    }

    /// The lines of a segment, each of whose blocks is verified, in a sorted order.
    fn lines(&self, row: &SegmentRow) -> Vec<Vec<u8>> {
        let file = self.open(row);
        let blocks = (0..file.footer().blocks.len()).map(|block| file.verify_block(block).unwrap());
        let mut lines: Vec<Vec<u8>> = Vec::new();
        for batch in blocks {
            lines.extend(batch.rows().map(|row| row.raw().to_vec()));
        }
        lines.sort();
        lines
    }

    fn merged(&self) -> Sealed {
        SegmentMerger { sealing: &self.sealing, bucket: &self.bucket }.merge(&self.rows).unwrap()
    }
}

#[test]
fn segments_are_made_anew_once_and_joined_after() {
    let mut bench = Bench::new();
    for frame in 0..3 {
        bench.put(frame..frame + 1, Effort::Fast);
    }
    let mut expected: Vec<Vec<u8>> = bench.rows.iter().flat_map(|row| bench.lines(row)).collect();
    expected.sort();
    let anew = bench.merged();
    assert_eq!((anew.lines, anew.received_last_ns), (1_200, 3 * SECOND_NS));
    let anew = bench.store("anew", 0..3, &anew);
    assert_eq!(bench.open(&anew).footer().effort, Effort::Best);
    assert_eq!(bench.lines(&anew), expected);
    // Blocks of such segments are not encoded again, and nothing is on the local disk.
    bench.rows = vec![anew];
    bench.put(5..7, Effort::Best);
    bench.put(7..8, Effort::Best);
    let mut expected: Vec<Vec<u8>> = bench.rows.iter().flat_map(|row| bench.lines(row)).collect();
    expected.sort();
    let checksums = |row: &SegmentRow| {
        let file = bench.open(row);
        let blocks = &file.footer().blocks;
        blocks.iter().flat_map(|block| block.chunks.iter().map(|chunk| chunk.crc)).collect()
    };
    let of_sources: Vec<u32> =
        bench.rows.iter().flat_map(|row| -> Vec<u32> { checksums(row) }).collect();
    let files = bench.sealing.files.load(Relaxed);
    let joined = bench.merged();
    assert_eq!(bench.sealing.files.load(Relaxed), files);
    let frames = FrameRange { node: NodeId(3), first: 0, last: 7 };
    assert_eq!((joined.lines, &joined.frames[..]), (2_400, &[frames][..]));
    let joined = bench.store("joined", 0..8, &joined);
    assert_eq!(bench.lines(&joined), expected);
    assert_eq!(checksums(&joined) as Vec<u32>, of_sources);
    assert_eq!(bench.open(&joined).footer().header.node, 7);
}

#[test]
fn a_deletion_in_a_large_segment_leaves_the_blocks_of_others() {
    let mut bench = Bench::new();
    for frame in 0..4 {
        bench.put(frame..frame + 1, Effort::Best);
    }
    let joined = bench.merged();
    let joined = bench.store("joined", 0..4, &joined);
    let tombstone =
        Tombstone { id: 3, filter: "hostname:h2 app_name:a7".to_owned(), created_ns: i64::MAX };
    let orders = Orders { tombstones: vec![tombstone], ..Orders::default() };
    let deletions = Compiled::default();
    let rules = CompiledRules::default();
    let (sealing, bucket) = (&bench.sealing, &bench.bucket);
    let pruner = SegmentPruner { sealing, bucket, deletions: &deletions, rules };
    let Pruned::Rewritten { sealed: Some(sealed), deleted } =
        pruner.prune(&joined, &orders).unwrap()
    else {
        panic!("a line goes")
    };
    assert_eq!((sealed.lines, deleted), (1_599, vec![(3, 1)]));
    let pruned = bench.store("pruned", 0..4, &sealed);
    let is_gone = |line: &&Vec<u8>| line.windows(6).any(|part| part == b"h2 a7 ");
    let expected: Vec<Vec<u8>> =
        bench.lines(&joined).iter().filter(|line| !is_gone(line)).cloned().collect();
    assert_eq!(expected.len(), 1_599);
    assert_eq!(bench.lines(&pruned), expected);
    let checksums = |row: &SegmentRow| -> Vec<u32> {
        bench.open(row).footer().blocks.iter().map(|block| block.lines_crc).collect()
    };
    let (before, after) = (checksums(&joined), checksums(&pruned));
    let kept = before.iter().filter(|crc| after.contains(crc)).count();
    assert_eq!(kept, before.len() - 1);
    let counted = bench.open(&pruned).footer().values("hostname").unwrap();
    let counted: Vec<u64> = counted.into_iter().map(|(_, lines)| lines).collect();
    assert_eq!(counted, [400, 400, 399, 400]);
    // What is searched again stays.
    assert!(matches!(pruner.prune(&pruned, &orders).unwrap(), Pruned::Kept));
}

#[test]
fn a_merge_names_the_segment_that_is_missing_or_damaged() {
    let mut bench = Bench::new();
    for frame in 0..3 {
        bench.put(frame..frame + 1, Effort::Fast);
    }
    let merged = |bench: &Bench| {
        let merger = SegmentMerger { sealing: &bench.sealing, bucket: &bench.bucket };
        merger.merge(&bench.rows).map(|sealed| sealed.lines).map_err(|failed| failed.unreadable)
    };
    assert_eq!(merged(&bench), Ok(1_200));
    let name = bench.rows[1].name.clone();
    // A byte of the first block is another one; the footer is as it was.
    let mut bytes = vec![0; bench.rows[1].bytes as usize];
    bench.bucket.read_range(&name, 0, &mut bytes).unwrap();
    let block = bench.open(&bench.rows[1]).footer().blocks[0].offset as usize;
    bytes[block + 9] ^= 1;
    bench.bucket.delete(&name).unwrap();
    bench.bucket.put_new(&name, &bytes).unwrap();
    assert_eq!(merged(&bench), Err(Some(name.clone())));
    bench.bucket.delete(&name).unwrap();
    assert_eq!(merged(&bench), Err(Some(name)));
}
