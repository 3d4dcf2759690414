//! Files that are made of the blocks of others without being written.

use std::fs;
use std::path::PathBuf;

use platform::RealDisk;
use record::Batch;
use segment::sealed::{Clustering, Effort, Joined, SealOptions, SealedFile, SealedHeader};

use crate::sealed::{blocks_of, options, parse, path, rows_of, seal};

/// A header other than that of the sources.
const JOINED: SealedHeader = SealedHeader { node: 9, segment: 0, created_ns: 12, sequence_next: 0 };

fn lines(from: usize, count: usize) -> Vec<Vec<u8>> {
    let line = |i: usize| {
        let (second, host) = (i / 40 % 60, i % 3);
        format!("<{}>Oct 11 22:14:{second:02} host{host} app{}: message {i}", i % 90, i % 5)
    };
    (from..from + count).map(|i| line(i).into_bytes()).collect()
}

/// Files of these numbers of lines, with their batches.
fn files(dir: &tempfile::TempDir, counts: &[usize], effort: Effort) -> (Vec<PathBuf>, Vec<Batch>) {
    let options = SealOptions { effort, ..options(Clustering::Arrival, 2_000, 20_000) };
    let (mut paths, mut all) = (Vec::new(), Vec::new());
    for (number, &count) in counts.iter().enumerate() {
        let to = path(dir, &format!("{number}-{effort:?}.sealed"));
        seal(&to, &parse(&[lines(number * 10_000, count)]), options);
        all.extend(blocks_of(&to));
        paths.push(to);
    }
    (paths, all)
}

fn joined(paths: &[PathBuf]) -> Joined {
    let open = |path: &PathBuf| SealedFile::open(&RealDisk, path).unwrap();
    Joined::new(&JOINED, paths.iter().map(open).collect())
}

fn bytes_of(joined: &Joined) -> Vec<u8> {
    let mut bytes = vec![0; joined.bytes() as usize];
    joined.read_exact_at(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn a_joined_file_has_the_lines_and_counts_of_its_sources() {
    // Files without a line, in front, between and behind.
    for counts in [&[900, 700, 800][..], &[0, 300, 0, 0, 500, 0], &[1], &[0], &[]] {
        let dir = tempfile::tempdir().unwrap();
        let (paths, rows) = files(&dir, counts, Effort::Best);
        let joined = joined(&paths);
        let bytes = bytes_of(&joined);
        let to = path(&dir, "joined.sealed");
        fs::write(&to, &bytes).unwrap();
        let file = SealedFile::open(&RealDisk, &to).unwrap();
        assert_eq!(&**file.footer(), joined.footer(), "{counts:?}");
        assert_eq!(file.footer().header, JOINED);
        assert_eq!(file.footer().effort, Effort::Best);
        assert!(rows_of(&blocks_of(&to)) == rows_of(&rows), "{counts:?}");
        let sum = counts.iter().sum::<usize>() as u64;
        for rollup in file.footer().rollups.iter().chain(&file.footer().pairs) {
            let counted: u64 = rollup.totals().iter().map(|(_, lines)| lines).sum();
            assert_eq!(counted, sum, "{counts:?} {:?}", rollup.fields);
        }
        // Every range is the same range of the whole: all begins and ends near the edges of blocks,
        // and some others.
        let edges = joined.footer().blocks.iter().map(|block| block.offset);
        let edges: Vec<u64> = edges.chain([0, 64, bytes.len() as u64 - 48]).collect();
        for &edge in &edges {
            for begin in edge.saturating_sub(1)..(edge + 2).min(bytes.len() as u64) {
                for length in [1, 2, 700, 5_000, bytes.len()] {
                    let end = (begin as usize + length).min(bytes.len());
                    let mut part = vec![0; end - begin as usize];
                    joined.read_exact_at(begin, &mut part).unwrap();
                    assert!(part == bytes[begin as usize..end], "{counts:?} {begin}..{end}");
                }
            }
        }
        let mut behind = [0; 2];
        for at in [bytes.len() as u64 - 1, bytes.len() as u64, u64::MAX] {
            assert!(joined.read_exact_at(at, &mut behind).is_err(), "{at}");
        }
    }
}

#[test]
fn the_effort_of_a_joined_file_is_the_least_of_its_sources() {
    let dir = tempfile::tempdir().unwrap();
    let (mut paths, _) = files(&dir, &[100, 100], Effort::Best);
    assert_eq!(joined(&paths).footer().effort, Effort::Best);
    paths.extend(files(&dir, &[100], Effort::Fast).0);
    assert_eq!(joined(&paths).footer().effort, Effort::Fast);
}

#[test]
fn damage_of_a_source_is_found_when_its_bytes_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let (paths, _) = files(&dir, &[400, 400], Effort::Best);
    let whole = joined(&paths);
    let block = whole.footer().blocks.last().unwrap().offset;
    let of_source = SealedFile::open(&RealDisk, &paths[1]).unwrap();
    let at = of_source.footer().blocks.last().unwrap().offset as usize + 3;
    let mut bytes = fs::read(&paths[1]).unwrap();
    bytes[at] ^= 1;
    fs::write(&paths[1], bytes).unwrap();
    let damaged = joined(&paths);
    let error = damaged.read_exact_at(block + 10, &mut [0; 4]).unwrap_err().to_string();
    assert!(error.contains("1-Best.sealed"), "{error}");
    damaged.read_exact_at(64, &mut [0; 4]).unwrap();
}
