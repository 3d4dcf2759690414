//! Sealed segments: every line round-trips, whatever its content, and an error in a damaged file
//! gives the position.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use platform::RealDisk;
use proptest::prelude::*;
use record::automaton::{Automaton, UNSURE, YES};
use record::columns::{Columns, Decide, Occurrences};
use record::{Batch, Format, FrameBuilder, Hints, Origin, Parser, ParserConfig, Row, Transport};
use segment::sealed::{
    BlockColumns, Clustering, Effort, Encoding, Footer, ROLLUP_FIELDS, SealOptions, SealedFile,
    SealedHeader, SealedWriter,
};

#[path = "../common/automata.rs"]
mod automata;
mod tenants;

pub(crate) const ARRIVAL_NS: i64 = 1_790_000_000_000_000_000;
pub(crate) const HEADER: SealedHeader =
    SealedHeader { node: 3, segment: 7, created_ns: 11, sequence_next: 5_000 };

/// Batches of lines, each of one frame.
pub(crate) fn parse(frames: &[Vec<Vec<u8>>]) -> Vec<Arc<Batch>> {
    let mut parser = Parser::new(&ParserConfig::default()).unwrap();
    let mut batches = Vec::new();
    for (sequence, lines) in frames.iter().enumerate() {
        let mut builder = FrameBuilder::new();
        for (index, line) in lines.iter().enumerate() {
            let mut origin = Origin::new(
                if index % 3 == 0 { Transport::Http } else { Transport::SyslogTcp },
                Format::Auto,
                (index % 3 > 0).then(|| ([127, 0, 0, 1 + (index % 2) as u8], 514).into()),
            );
            if index % 5 == 4 {
                origin.hints = Arc::new(Hints {
                    extra_fields: vec![("rack".into(), "r1".into())],
                    ..Hints::default()
                });
            }
            builder.push_line(&origin, ARRIVAL_NS + index as i64, line, false);
        }
        let frame = builder.finish(3, 100 + sequence as u64);
        batches.extend(frame.map(|frame| Arc::new(parser.parse(Arc::new(frame)))));
    }
    batches
}

pub(crate) fn path(dir: &tempfile::TempDir, name: &str) -> PathBuf {
    dir.path().join(name)
}

pub(crate) fn seal(path: &Path, batches: &[Arc<Batch>], options: SealOptions) -> Footer {
    let mut writer = SealedWriter::create(&RealDisk, path, &HEADER, &[5, 6], options).unwrap();
    for batch in batches {
        writer.push(Arc::clone(batch), None).unwrap();
    }
    writer.finish().unwrap()
}

/// Everything known about a row.
fn describe(batch: &Batch, row: &Row<'_>) -> (record::LineId, String) {
    let fields: Vec<(String, Vec<u8>)> =
        row.fields().map(|(id, value)| (batch.name(id).to_owned(), value.to_vec())).collect();
    let origin = &batch.origins()[usize::from(row.origin_index())];
    let text =
        format!("{} {} {:?} {fields:?} {origin:?}", row.time_ns(), row.received_ns(), row.raw());
    (row.id(), text)
}

pub(crate) fn rows_of<'a>(
    batches: impl IntoIterator<Item = &'a Batch>,
) -> Vec<(record::LineId, String)> {
    let mut rows: Vec<_> = batches
        .into_iter()
        .flat_map(|batch| batch.rows().map(|row| describe(batch, &row)).collect::<Vec<_>>())
        .collect();
    rows.sort();
    rows
}

pub(crate) fn blocks_of(path: &Path) -> Vec<Batch> {
    let file = SealedFile::open(&RealDisk, path).unwrap();
    let blocks = 0..file.footer().blocks.len();
    for block in blocks.clone() {
        file.verify_block(block).unwrap();
    }
    blocks.map(|block| file.read_block(block).unwrap()).collect()
}

pub(crate) fn options(
    clustering: Clustering,
    block_bytes: usize,
    chunk_bytes: usize,
) -> SealOptions {
    SealOptions { clustering, block_bytes, chunk_bytes, ..SealOptions::new(Effort::Fast) }
}

fn check(frames: &[Vec<Vec<u8>>], options: SealOptions) -> Footer {
    let dir = tempfile::tempdir().unwrap();
    let batches = parse(frames);
    let path = path(&dir, "7.sealed");
    let footer = seal(&path, &batches, options);
    let file = SealedFile::open(&RealDisk, &path).unwrap();
    assert_eq!(**file.footer(), footer);
    let blocks = blocks_of(&path);
    let expected = rows_of(batches.iter().map(|batch| &**batch));
    assert_eq!(rows_of(&blocks), expected);
    assert_eq!(footer.lines(), expected.len() as u64);
    for (index, (block, entry)) in blocks.iter().zip(&footer.blocks).enumerate() {
        check_columns(&file, index, block);
        assert_eq!(block.time_range_ns(), entry.time_ns);
        assert_eq!(block.len() as u32, entry.lines);
        assert_eq!(block.raw_bytes() + block.len() as u64, entry.bytes_raw);
        let sequences: Vec<u64> = block.rows().map(|row| row.id().sequence).collect();
        let range = (*sequences.iter().min().unwrap(), *sequences.iter().max().unwrap());
        assert_eq!(range, entry.sequence);
    }
    for rollup in footer.rollups.iter().chain(&footer.pairs) {
        let total: u64 = rollup.totals().iter().map(|(_, lines)| lines).sum();
        assert_eq!(total, footer.lines(), "{:?}", rollup.fields);
        for (values, lines) in rollup.totals() {
            let has = |row: &Row<'_>| {
                let mut pairs = rollup.fields.iter().zip(values);
                pairs.all(|(field, value)| row.get_by_name(field).unwrap_or_default() == value)
            };
            let found: usize = batches.iter().map(|b| b.rows().filter(has).count()).sum();
            assert_eq!(found as u64, lines, "{:?} {values:?}", rollup.fields);
        }
    }
    footer
}

/// Writes files of these frames each, and then one with the blocks of all and with rows behind
/// them; gives its footer, and that of a file that was written of all rows.
fn copied(files: &[Vec<Vec<Vec<u8>>>], rows: &[Vec<Vec<u8>>]) -> (Footer, Footer) {
    let dir = tempfile::tempdir().unwrap();
    let options = options(Clustering::Application, 2_000, 20_000);
    let to = path(&dir, "copied.sealed");
    let mut writer = SealedWriter::create(&RealDisk, &to, &HEADER, &[5, 6], options).unwrap();
    let mut expected = Vec::new();
    for (number, frames) in files.iter().enumerate() {
        let from = path(&dir, &format!("{number}.sealed"));
        let batches = parse(frames);
        seal(&from, &batches, options);
        let file = SealedFile::open(&RealDisk, &from).unwrap();
        writer.count_copied(file.footer());
        for (place, entry) in file.footer().blocks.iter().enumerate() {
            writer.copy_block(entry, &file.stored_block(place).unwrap()).unwrap();
        }
        expected.extend(batches);
    }
    let behind = parse(rows);
    behind.iter().for_each(|batch| writer.push(batch.clone(), None).unwrap());
    expected.extend(behind);
    let footer = writer.finish().unwrap();
    assert_eq!(**SealedFile::open(&RealDisk, &to).unwrap().footer(), footer);
    assert!(rows_of(&blocks_of(&to)) == rows_of(expected.iter().map(|batch| &**batch)));
    let whole = seal(&path(&dir, "whole.sealed"), &expected, options);
    (footer, whole)
}

#[test]
fn copied_blocks_are_the_lines_and_counts_of_their_sources() {
    let lines = |from: usize, count: usize, apps: usize| -> Vec<Vec<u8>> {
        let line = |i: usize| {
            let second = i / 40 % 60;
            format!(
                "<{}>Oct 11 22:14:{second:02} host{} app{}: message {i}",
                i % 90,
                i % 3,
                i % apps
            )
        };
        (from..from + count).map(|i| line(i).into_bytes()).collect()
    };
    let few = [vec![lines(0, 900, 5), lines(900, 700, 5)], vec![lines(1_600, 800, 5)]];
    let (copied_footer, whole) = copied(&few, &[lines(2_400, 1_000, 5)]);
    assert!(copied_footer.blocks.len() > 20);
    assert_eq!(copied_footer.rollups.len(), ROLLUP_FIELDS.len());
    for (one, other) in copied_footer.rollups.iter().zip(&whole.rollups) {
        assert_eq!(one.fields, other.fields);
        let sorted = |rollup: &segment::sealed::Rollup| {
            let mut totals: Vec<_> =
                rollup.totals().into_iter().map(|(v, lines)| (v.to_vec(), lines)).collect();
            totals.sort();
            totals
        };
        assert_eq!(sorted(one), sorted(other), "{:?}", one.fields);
        assert!(one.interval_s >= other.interval_s);
    }
    // Applications of each file fit, those of both do not; what one file does not count, the new
    // one does not either.
    let many = |from: usize| vec![lines(from, 400, 200)];
    let other: Vec<Vec<u8>> = (0..400)
        .map(|i| format!("<1>Oct 11 22:14:15 h other{}: m", i % 200).into_bytes())
        .collect();
    for (files, rows) in [
        (vec![many(0), vec![other.clone()]], vec![]),
        (vec![many(0)], vec![other.clone()]),
        (vec![vec![lines(0, 400, 300)]], vec![lines(0, 100, 5)]),
    ] {
        let (copied, _) = copied(&files, &rows);
        let fields: Vec<&str> = copied.rollups.iter().map(|r| r.fields[0].as_str()).collect();
        assert_eq!(fields, ["_level", "hostname", "_type", "level", "service"]);
    }
}

#[test]
fn a_block_that_is_copied_alone_is_counted_like_its_lines() {
    let line = |i: usize| {
        format!(
            "<{}>Oct 11 22:14:{:02} host{} app{}: message {i}",
            i % 90,
            i / 40 % 60,
            i % 3,
            i % 5
        )
    };
    let lines = |from: usize, to: usize| -> Vec<Vec<u8>> {
        (from..to).map(|i| line(i).into_bytes()).collect()
    };
    let dir = tempfile::tempdir().unwrap();
    let options = options(Clustering::Application, 2_000, 20_000);
    let from = path(&dir, "from.sealed");
    seal(&from, &parse(&[lines(0, 900), lines(900, 2_400)]), options);
    let file = SealedFile::open(&RealDisk, &from).unwrap();
    let to = path(&dir, "to.sealed");
    let mut writer = SealedWriter::create(&RealDisk, &to, &HEADER, &[5, 6], options).unwrap();
    // Of every third block, every second line goes.
    let mut expected = Vec::new();
    for (place, entry) in file.footer().blocks.iter().enumerate() {
        let stored = file.stored_block(place).unwrap();
        let batch = Arc::new(file.block_of(place, &stored).unwrap());
        let stays = |row: &Row<'_>| place % 3 != 1 || row.index() % 2 == 0;
        expected.extend(batch.rows().filter(stays).map(|row| describe(&batch, &row)));
        if place % 3 == 1 {
            writer.push(batch, Some(&stays)).unwrap();
        } else {
            writer.count_block(&batch);
            writer.copy_block(entry, &stored).unwrap();
        }
    }
    let footer = writer.finish().unwrap();
    expected.sort();
    let blocks = blocks_of(&to);
    assert!(rows_of(&blocks) == expected);
    assert_eq!(footer.blocks.len(), file.footer().blocks.len());
    let blocks: Vec<Arc<Batch>> = blocks.into_iter().map(Arc::new).collect();
    let whole = seal(&path(&dir, "whole.sealed"), &blocks, options);
    assert_eq!(footer.rollups.len(), ROLLUP_FIELDS.len());
    assert_eq!((footer.rollups, footer.pairs), (whole.rollups, whole.pairs));
}

/// Checks that columns and records agree for each row.
fn check_columns(file: &SealedFile, index: usize, batch: &Batch) {
    let read = |number| file.chunk(index, number).map(Arc::new);
    let compare = |columns: &BlockColumns<'_>| {
        let value = |row: usize, name: &str| batch.row(row).get_by_name(name).unwrap_or_default();
        let rows = 0..batch.len();
        assert_eq!(columns.rows(), batch.len());
        let times: Vec<i64> = batch.rows().map(|row| row.time_ns()).collect();
        assert_eq!(columns.times_ns().unwrap(), times);
        // All of the usual names, and some if there are very many.
        let every = batch.names().len() / 40 + 1;
        let known = batch.names().iter().step_by(every).map(|name| &**name);
        let names: Vec<&str> = known.chain(["absent"]).collect();
        for name in &names {
            let column = columns.field(name).unwrap().expect("all are had apart");
            for row in rows.clone() {
                assert_eq!(column.get(row), value(row, name), "{name} of row {row}");
            }
            let third: Vec<u32> = (0..batch.len() as u32).filter(|row| row % 3 == 1).collect();
            if let Some(column) = columns.field_of(name, &third).unwrap() {
                for (at, &row) in third.iter().enumerate() {
                    assert_eq!(column.get(at), value(row as usize, name), "{name} of row {row}");
                }
            }
            let counts = columns.value_counts(name).unwrap();
            assert!(counts.is_some() || !["_type", "absent"].contains(name), "{name}");
            if let Some(counts) = counts {
                let mut found: BTreeMap<Vec<u8>, u64> = BTreeMap::new();
                let mut expected = found.clone();
                for (value, lines) in counts {
                    *found.entry(value).or_default() += lines;
                }
                for row in rows.clone() {
                    *expected.entry(value(row, name).to_vec()).or_default() += 1;
                }
                assert_eq!(found, expected, "{name}");
            }
            // A part of some value, as whole words only, and anywhere.
            let sample = value(batch.len() / 2, name);
            let text = &sample[sample.len() / 3..sample.len().min(sample.len() / 3 + 5)];
            let whole = |value: &[u8], at: usize| at == 0 || !value[at - 1].is_ascii_alphanumeric();
            for occurrences in [Occurrences::All, Occurrences::Accepted(&whole)] {
                let accept = occurrences.accept();
                let holds = |value: &[u8]| {
                    let mut windows = value.windows(text.len()).enumerate();
                    windows.any(|(at, w)| w == text && accept.is_none_or(|a| a(value, at)))
                };
                let found = match text.is_empty() {
                    true => None,
                    false => columns.holding(name, text, occurrences).unwrap(),
                };
                if !text.is_empty() && text.is_ascii() {
                    check_passing(columns, batch, name, text);
                }
                if let Some(found) = found {
                    let held = rows.clone().filter(|&row| holds(value(row, name)));
                    let expected: Vec<u32> = held.map(|row| row as u32).collect();
                    assert_eq!(found, expected, "{name} with {text:?}");
                }
            }
        }
        for (every, rest) in [(1, 0), (3, 1), (2_500, 2_000), (1_000_000, 5)] {
            let rows: Vec<u32> =
                rows.clone().filter(|row| row % every == rest).map(|row| row as u32).collect();
            let found = columns.batch(&rows).unwrap();
            let describe_all = |batch: &Batch, rows: &[u32]| -> Vec<_> {
                rows.iter().map(|&row| describe(batch, &batch.row(row as usize))).collect()
            };
            let all: Vec<u32> = (0..found.len() as u32).collect();
            assert_eq!(describe_all(&found, &all), describe_all(batch, &rows));
            let some: Vec<&str> = names.iter().copied().step_by(2).collect();
            let found = columns.batch_of(&rows, &some).unwrap().expect("all are had apart");
            assert_eq!(found.len(), rows.len());
            for (row, &of) in found.rows().zip(&rows) {
                let of = batch.row(of as usize);
                let known = (of.id(), of.time_ns(), of.received_ns());
                assert_eq!((row.id(), row.time_ns(), row.received_ns()), known);
                for name in &some {
                    let value = row.get_by_name(name).unwrap_or_default();
                    assert_eq!(value, of.get_by_name(name).unwrap_or_default(), "{name}");
                }
            }
        }
    };
    file.with_columns(index, &read, compare).unwrap();
}

/// Where the automaton is undecided, values of an odd length pass.
struct OddLength(Automaton);

impl Decide for OddLength {
    fn automaton(&self) -> Option<&Automaton> {
        Some(&self.0)
    }

    fn passes(&self, value: &[u8]) -> bool {
        value.len() % 2 == 1
    }
}

/// Values pass if the automaton says so, or if it is undecided and the test passes them.
fn check_passing(columns: &BlockColumns<'_>, batch: &Batch, name: &str, text: &[u8]) -> bool {
    let mut told = false;
    for found in [YES, UNSURE] {
        let test = OddLength(automata::holding(text, found));
        let passes = |row: &Row<'_>| {
            let value = row.get_by_name(name).unwrap_or_default();
            test.0.says_of(value).unwrap_or_else(|| test.passes(value))
        };
        if let Some(rows) = columns.passing(name, &test).unwrap() {
            let expected: Vec<u32> = batch.rows().filter(passes).map(|row| row.index()).collect();
            assert_eq!(rows, expected, "{name} with {:?}", String::from_utf8_lossy(text));
            told = true;
        }
    }
    told
}

fn corpus() -> Vec<Vec<Vec<u8>>> {
    let dir = Path::new("../../testdata/corpora");
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let logs = files.iter().filter(|path| path.extension().is_some_and(|e| e == "log"));
    let lines = |path: &PathBuf| -> Vec<Vec<u8>> {
        let bytes = std::fs::read(path).unwrap();
        bytes.split(|&b| b == b'\n').map(<[u8]>::to_vec).collect()
    };
    let frames: Vec<_> = logs.map(lines).collect();
    assert!(frames.len() > 3, "there are corpora");
    frames
}

#[test]
fn real_lines_come_back_in_every_clustering_and_block_size() {
    for clustering in [Clustering::Arrival, Clustering::Application, Clustering::Stream] {
        for (block_bytes, chunk_bytes) in [(2 << 20, 32 << 20), (4 << 10, 50 << 10), (1, 1)] {
            if chunk_bytes > 1 || clustering == Clustering::Arrival {
                check(&corpus(), options(clustering, block_bytes, chunk_bytes));
            }
        }
    }
}

#[test]
fn best_effort_gives_the_same_lines() {
    check(&corpus(), SealOptions::new(Effort::Best));
}

#[test]
fn texts_of_many_pieces_come_back_whole_and_line_by_line() {
    let line = |i: usize| {
        let text = format!(
            "<30>Oct 11 22:14:{:02} host{} app: request {} of user {} took {} ms, {}",
            i / 500 % 60,
            i % 3,
            i * 7_919 % 1_000_003,
            i * 31 % 977,
            i % 89,
            ["all is well", "its answer was late, and its client had gone"][i % 2],
        );
        text.into_bytes()
    };
    let lines: Vec<Vec<u8>> = (0..10_000).map(line).collect();
    assert!(lines.iter().map(Vec::len).sum::<usize>() > 800_000);
    for effort in [Effort::Fast, Effort::Best] {
        let footer = check(std::slice::from_ref(&lines), SealOptions::new(effort));
        assert_eq!(footer.blocks.len(), 1);
    }
}

#[test]
fn several_threads_make_the_same_blocks() {
    let dir = tempfile::tempdir().unwrap();
    let batches = parse(&corpus());
    let made = |threads: usize, effort: Effort| {
        let path = path(&dir, &format!("{threads}.{effort:?}"));
        let options = SealOptions {
            block_bytes: 8 << 10,
            chunk_bytes: 256 << 10,
            ..SealOptions::new(effort)
        };
        let mut writer = SealedWriter::create(&RealDisk, &path, &HEADER, &[], options).unwrap();
        writer.set_threads(threads);
        for batch in &batches {
            writer.push(Arc::clone(batch), None).unwrap();
        }
        writer.finish().unwrap();
        let blocks = blocks_of(&path);
        blocks.iter().map(|block| rows_of([block])).collect::<Vec<_>>()
    };
    for effort in [Effort::Fast, Effort::Best] {
        let alone = made(1, effort);
        assert!(alone.len() > 20, "{} blocks", alone.len());
        for threads in [2, 5] {
            assert!(made(threads, effort) == alone, "{threads} threads, {effort:?}");
        }
    }
}

#[test]
fn odd_lines_come_back() {
    let lines: Vec<Vec<u8>> = [
        &b""[..],
        b"\n",
        b"a\nb\n",
        b"\xff\xfe\0\r",
        b"<34>1 2026-09-21T14:13:20.123456Z h a 1 - [x@1 k=\"v\\\"w\" l=\"\"] m",
        b"<34>1 2026-09-21T14:13:20.1Z h a 1 - [x@1 k=\"v\\\"w\" l=\"\"] m",
        b"<34>Sep 21 14:13:20 host app[77]: message",
        b"<34>Sep 21 14:13:20 host app[077]: message",
        b"<34>Sep 21 16:13:20 host app: message in another zone",
        b"{\"a\":\"x\\ny\",\"b\":1,\"c\":null,\"level\":\"WARN\"}",
        b"{ \"a\" : \"x\", \"b\":{\"c\":[1,2]},\"_msg\":\"m\",\"time\":\"2026-09-21T14:13:20Z\"}",
        b"{\"a\":\"x\",\"a\":\"y\"}",
        b"{\"a\":\"\"}",
        b"1.2.3.4 - - [21/Sep/2026:16:13:20 +0200] \"GET / HTTP/1.1\" 200 5 \"-\" \"curl\"",
        b"1.2.3.4 - - [21/Sep/2026:16:13:20 +0200] \"GET / HTTP/1.1\" 200 - \"-\" \"curl\"",
    ]
    .map(<[u8]>::to_vec)
    .to_vec();
    let frames = vec![lines.clone(), lines.iter().rev().cloned().collect(), lines];
    check(&frames, SealOptions::default());
    check(&frames, options(Clustering::Arrival, 1, 1));
}

#[test]
fn lines_with_ever_new_keys_make_more_blocks_and_round_trip() {
    let line = |i: usize| format!("{{\"key{i}\":{i},\"other{i}\":\"x\"}}").into_bytes();
    let frames: Vec<Vec<Vec<u8>>> =
        (0..6).map(|f| (0..3_000).map(|i| line(f * 3_000 + i)).collect()).collect();
    let footer = check(&frames, SealOptions::default());
    assert!(footer.blocks.len() > 1);
}

#[test]
fn a_long_line_makes_a_block_of_its_size() {
    let mut lines = vec![b"short".to_vec(); 10];
    lines.insert(5, vec![b'x'; record::frame::LINE_BYTES_MAX]);
    check(&[lines], SealOptions::default());
}

#[test]
fn an_empty_segment_can_be_read() {
    let footer = check(&[], SealOptions::default());
    assert_eq!((footer.lines(), footer.time_ns()), (0, None));
}

#[test]
fn rewriting_keeps_what_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let batches = parse(&corpus());
    let first = path(&dir, "first");
    seal(&first, &batches, options(Clustering::Stream, 8 << 10, 64 << 10));
    let keep = |row: &Row<'_>| row.get_by_name("_type") != Some(b"syslog");
    let second = path(&dir, "second");
    let options = SealOptions::new(Effort::Best);
    let mut writer = SealedWriter::create(&RealDisk, &second, &HEADER, &[7], options).unwrap();
    for block in blocks_of(&first) {
        writer.push(Arc::new(block), Some(&keep)).unwrap();
    }
    let footer = writer.finish().unwrap();
    assert_eq!((&footer.replaces[..], footer.effort), (&[7][..], Effort::Best));
    let expected: Vec<_> = batches
        .iter()
        .flat_map(|b| b.rows().filter(keep).map(|row| describe(b, &row)).collect::<Vec<_>>())
        .collect();
    assert!(!expected.is_empty() && footer.lines() == expected.len() as u64);
    let mut found = rows_of(&blocks_of(&second));
    let mut expected = expected;
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
}

#[test]
fn displaced_lines_do_not_widen_the_others_blocks() {
    let now = "<34>1 2026-09-21T14:13:20Z h a 1 - - now";
    let late = |day: usize| format!("<34>1 2026-08-{:02}T14:13:20Z h a 1 - - late", day + 1);
    let lines: Vec<Vec<u8>> = (0..2_000)
        .map(|i| if i % 10 == 0 { late(i / 10 * 7 % 20) } else { now.to_owned() }.into_bytes())
        .collect();
    let footer = check(&[lines], options(Clustering::Application, 8 << 10, 32 << 20));
    let day_ns = 86_400_000_000_000;
    let wide = footer.blocks.iter().filter(|b| b.time_ns.1 - b.time_ns.0 > 15 * day_ns).count();
    assert_eq!(wide, 0, "{:?}", footer.blocks.iter().map(|b| b.time_ns).collect::<Vec<_>>());
}

/// The values of a field in each block, as runs of rows.
fn runs_of(batches: &[Arc<Batch>], options: SealOptions, field: &str) -> Vec<Vec<String>> {
    let dir = tempfile::tempdir().unwrap();
    let path = path(&dir, "7.sealed");
    seal(&path, batches, options);
    let runs = |block: Batch| {
        let value = |row: Row<'_>| row.get_by_name(field).unwrap_or_default().to_vec();
        let mut values: Vec<_> = block.rows().map(value).collect();
        values.dedup();
        values.into_iter().map(|value| String::from_utf8(value).unwrap()).collect()
    };
    blocks_of(&path).into_iter().map(runs).collect()
}

/// Runs of values of blocks: of each of `large`, there are blocks with nothing else; of all others,
/// a block has each in one run.
#[track_caller]
fn check_runs(blocks: &[Vec<String>], large: &[&str], small: usize) {
    let alone = |name: &&str| blocks.iter().any(|runs| matches!(&runs[..], [run] if run == name));
    assert!(large.iter().all(alone), "{blocks:?}");
    let mut shared = 0;
    for runs in blocks.iter().filter(|runs| runs.len() > 1) {
        let mut different = runs.clone();
        different.sort();
        different.dedup();
        assert_eq!(different.len(), runs.len(), "{runs:?}");
        assert!(!runs.iter().any(|run| large.contains(&&run[..])), "{runs:?}");
        shared += runs.len();
    }
    // One that stands at the end of a block may go on in the next one.
    assert!((small..small + blocks.len()).contains(&shared), "{shared}: {blocks:?}");
}

#[test]
fn a_large_stream_has_blocks_and_others_have_runs_of_rows() {
    let line = |i: usize| {
        let service =
            if i.is_multiple_of(2) { "pay".to_owned() } else { format!("s{}", i / 2 % 20) };
        let (host, tenant) = (format!("pod-{}", i % 40), i % 3);
        format!("{{\"hostname\":\"{host}\",\"svc\":\"{service}\",\"tenant\":{tenant},\"n\":{i}}}")
    };
    let check = |stream_fields: &[&str], name: &str| {
        let mut origin = Origin::new(Transport::Http, Format::Json, None);
        let stream_fields = stream_fields.iter().map(|&field| field.to_owned()).collect();
        origin.hints = Arc::new(Hints { stream_fields, ..Hints::default() });
        let mut builder = FrameBuilder::new();
        for i in 0..2_000 {
            let line = line(i).replace("svc", name);
            builder.push_line(&origin, ARRIVAL_NS, line.as_bytes(), false);
        }
        let frame = Arc::new(builder.finish(3, 100).unwrap());
        let batch = Arc::new(Parser::new(&ParserConfig::default()).unwrap().parse(frame));
        runs_of(&[batch], options(Clustering::Stream, 16 << 10, 32 << 20), name)
    };
    check_runs(&check(&["svc"], "svc"), &["pay"], 20);
    let others = check(&["tenant"], "svc");
    assert!(!others.iter().any(|runs| runs.len() == 1), "{others:?}");
    // A service counts as an application, of which smaller groups have blocks.
    let services = check(&[], "service");
    assert!(services.iter().all(|runs| runs.len() == 1), "{services:?}");
}

#[test]
fn watermarks_of_the_summary_are_in_the_footer() {
    assert_eq!(ROLLUP_FIELDS.len(), 6);
    let dir = tempfile::tempdir().unwrap();
    let mut builder = FrameBuilder::new();
    for mark in [9, 12, 3] {
        let mut origin = Origin::new(Transport::Internal, Format::Json, None);
        origin.hints = Arc::new(Hints { summarised_through: Some(mark), ..Hints::default() });
        builder.push_line(&origin, ARRIVAL_NS, b"{}", false);
    }
    let frame = Arc::new(builder.finish(1, 1).unwrap());
    let batch = Arc::new(Parser::new(&ParserConfig::default()).unwrap().parse(frame));
    let footer = seal(&path(&dir, "s"), &[batch], SealOptions::default());
    assert_eq!(footer.summarised_through, Some(12));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn any_lines_come_back(
        frames in prop::collection::vec(prop::collection::vec(prop::collection::vec(any::<u8>(), 0..60), 1..20), 1..4),
    ) {
        check(&frames, options(Clustering::Stream, 300, 2_000));
    }

    #[test]
    fn lines_that_look_like_logs_come_back(
        frames in prop::collection::vec(prop::collection::vec(
            "(<[0-9]{1,3}>)?(Sep 2[01] 1[0-9]:13:20 )?(h[12] )?(a[a-c])?(\\[[0-9]{1,4}\\])?(: )?(\\{\"(a|b|level)\":(\"[a-z\\\\\"]{0,3}\"|[0-9]{1,3})\\})?[a-z ]{0,9}"
                .prop_map(String::into_bytes), 1..60), 1..4),
    ) {
        check(&frames, options(Clustering::Application, 500, 4_000));
    }
}

/// A line of one of few senders: most lines have the same header, so that it is folded in some
/// frames and in others not.
fn sender_line() -> impl Strategy<Value = Vec<u8>> {
    let head = prop_oneof![
        8 => Just("<30>Sep 21 14:13:20 web1 sshd[712]: ".to_owned()),
        4 => Just("<30>1 2026-09-21T14:13:20.5Z web1 app 9 - - ".to_owned()),
        2 => Just("<30>Sep 20 14:13:20 web1 sshd[712]: ".to_owned()),
        2 => (0..30u32).prop_map(|pid| format!("<30>Sep 21 14:13:21 web1 cron[{pid}]: ")),
        1 => Just("<30>Sep 21 14:13:20 web1 sshd[712]:  ".to_owned()),
        1 => Just(String::new()),
    ];
    let message = prop_oneof![
        4 => "[a-z]{1,6} [0-9]{1,5}".prop_map(|m| m),
        2 => "[a-z]{0,3}(web1|712|<30>)[a-z]{0,3}".prop_map(|m| m),
        1 => (0..9u32).prop_map(|n| format!("{{\"level\":\"WARN\",\"hostname\":\"h{n}\",\"n\":{n}}}")),
        1 => (0..9u32).prop_map(|n| format!("{{\"n\":{n},\"_msg\":\"a\\nb\",\"level\":\"info\"}}")),
        1 => Just("1.2.3.4 - - [21/Sep/2026:16:13:20 +0200] \"GET / HTTP/1.1\" 200 5".to_owned()),
    ];
    (head, message).prop_map(|(head, message)| format!("{head}{message}").into_bytes())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    #[test]
    fn lines_of_few_senders_come_back_through_several_files(
        frames in prop::collection::vec(prop::collection::vec(sender_line(), 1..120), 1..5),
        block_bytes in 200..6_000usize,
        clustering in prop_oneof![
            Just(Clustering::Arrival), Just(Clustering::Application), Just(Clustering::Stream)
        ],
    ) {
        let first_options = options(clustering, block_bytes, 4 * block_bytes);
        check(&frames, first_options);
        // Restored rows have other stems than parsed ones. A file made of both, and one made of
        // that file, have the same lines.
        let dir = tempfile::tempdir().unwrap();
        let batches = parse(&frames);
        let expected = rows_of(batches.iter().map(|batch| &**batch));
        let (half, rest) = batches.split_at(batches.len() / 2);
        let first = path(&dir, "first");
        seal(&first, half, first_options);
        let blocks = blocks_of(&first).into_iter().map(Arc::new);
        let mixed: Vec<Arc<Batch>> = blocks.chain(rest.iter().cloned()).collect();
        let second = path(&dir, "second");
        seal(&second, &mixed, options(Clustering::Stream, 2 << 20, 32 << 20));
        prop_assert_eq!(rows_of(&blocks_of(&second)), expected.clone());
        let blocks: Vec<Arc<Batch>> = blocks_of(&second).into_iter().map(Arc::new).collect();
        let third = path(&dir, "third");
        seal(&third, &blocks, SealOptions::new(Effort::Best));
        prop_assert_eq!(rows_of(&blocks_of(&third)), expected);
    }
}

#[test]
fn rows_with_a_common_header_are_folded_and_restored_as_rows_of_a_stem() {
    let origin = Origin::new(Transport::SyslogTcp, Format::Auto, None);
    // Just below the limit of folding, and at it.
    for (rows, folded) in [(15, false), (16, true)] {
        let mut builder = FrameBuilder::new();
        for i in 0..rows {
            for host in ["web1", "web22", "db"] {
                let line = format!("<30>Sep 21 14:13:{i:02} {host} sshd[712]: message {i}");
                builder.push_line(&origin, ARRIVAL_NS, line.as_bytes(), false);
            }
        }
        let frame = Arc::new(builder.finish(3, 100).unwrap());
        let batch = Arc::new(Parser::new(&ParserConfig::default()).unwrap().parse(frame));
        let dir = tempfile::tempdir().unwrap();
        let path = path(&dir, "s");
        seal(&path, &[Arc::clone(&batch)], SealOptions::default());
        let file = SealedFile::open(&RealDisk, &path).unwrap();
        let columns = file.columns(0).unwrap();
        let has_column = columns.iter().any(|column| column.name == "hostname");
        assert_eq!(has_column, !folded, "{columns:?}");
        let blocks = blocks_of(&path);
        assert_eq!(rows_of(&blocks), rows_of([&*batch]));
        let own = |row: &Row<'_>| row.fields_count() - row.stem_fields();
        assert_eq!(blocks[0].rows().all(|row| own(&row) == 1), folded, "only the message differs");
    }
}

#[test]
fn filters_never_hide_a_word_and_hide_most_that_are_absent() {
    let dir = tempfile::tempdir().unwrap();
    let mut frames = corpus();
    // The message is the whole object: its words include keys and separators.
    let object = |i: usize| {
        let joined = format!("10.{}.7.{}", i % 3, i % 250);
        format!("{{\"inner_key\":{i},\"pid{i}\":\"x\", \"zone\" : \"z\",\"at\":\"{joined}\"}}")
    };
    frames.push((0..2_000).map(|i| object(i % 300).into_bytes()).collect());
    // Long enough for repeats, with words and addresses that reach across the ends of copies.
    let message = |i: usize| {
        let id = i.wrapping_mul(0x9e37_79b9) % 100_000;
        format!(
            "<30>Sep 21 14:13:07 web1 app[7]: got blk_{id}x of 10.{}.{}.{} at {id}.{i}",
            i % 2,
            i % 3,
            id % 256
        )
    };
    frames.push((0..6_000).map(|i| message(i).into_bytes()).collect());
    for (effort, block_bytes) in [(Effort::Fast, 1 << 20), (Effort::Best, 64 << 10)] {
        let path = path(&dir, &format!("{effort:?}"));
        let options = SealOptions { block_bytes, filter_parts: 1, ..SealOptions::new(effort) };
        seal(&path, &parse(&frames), options);
        let file = SealedFile::open(&RealDisk, &path).unwrap();
        let (mut filters, mut absent, mut repeats) = (0, 0, 0);
        for index in 0..file.footer().blocks.len() {
            filters += usize::from(file.footer().blocks[index].filter.is_some());
            let columns = file.columns(index).unwrap();
            repeats += columns.iter().filter(|c| c.encoding == Encoding::Repeats).count();
            let block = file.read_block(index).unwrap();
            let words = |text: &[u8]| segment::tokens::required_tokens(text, true, true);
            let mut sets = Vec::new();
            for row in block.rows() {
                sets.extend(row.fields().map(|(_, value)| words(value)));
            }
            let held = file.may_contain(index, &sets).unwrap();
            let hidden = held.unwrap_or_default().iter().position(|held| !held);
            assert_eq!(hidden, None, "{effort:?}: a value of block {index}");
            for i in 0..100 {
                let word = words(format!("absent{i}").as_bytes());
                let held = file.may_contain(index, &[word]).unwrap();
                absent += usize::from(held.is_some_and(|held| !held[0]));
            }
        }
        assert!(filters > 1, "{effort:?}: {filters}");
        assert!(absent > filters * 95, "{effort:?}: {absent} of {}", filters * 100);
        assert_eq!(repeats > 0, effort == Effort::Fast);
    }
}

#[test]
fn only_a_filter_that_is_large_compared_with_its_lines_is_omitted() {
    let check = |expected: bool, line: &dyn Fn(usize) -> String| {
        let dir = tempfile::tempdir().unwrap();
        let lines: Vec<Vec<u8>> = (0..6_000).map(|i| line(i).into_bytes()).collect();
        for effort in [Effort::Fast, Effort::Best] {
            let path = path(&dir, &format!("{effort:?}"));
            seal(&path, &parse(std::slice::from_ref(&lines)), SealOptions::new(effort));
            let file = SealedFile::open(&RealDisk, &path).unwrap();
            let footer = file.footer();
            assert!(footer.bytes_raw() > 16 * footer.bytes_disk, "{effort:?}: {footer:?}");
            let has_filter = footer.blocks.iter().all(|block| block.filter.is_some());
            assert_eq!(has_filter, expected, "{effort:?}: {}", line(0));
        }
    };
    // Consecutive numbers take next to nothing in a column, but a word each in a filter.
    check(true, &|i| {
        let text = "the request was answered with what it asked for, as ever, and nobody waited";
        format!("<30>Sep 21 14:13:07 web1 app[7]: {text}, number {}", 1_000_000 + i)
    });
    check(false, &|i| format!("<30>Sep 21 14:13:07 web1 app[7]: {}", 1_000_000 + i));
}

/// Whether both ends are at word boundaries.
fn at_word(value: &[u8], at: usize, length: usize) -> bool {
    let is_word = |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
    !is_word(at.checked_sub(1).and_then(|before| value.get(before)))
        && !is_word(value.get(at + length))
}

#[test]
fn searching_templates_agrees_with_checking_every_line() {
    let dir = tempfile::tempdir().unwrap();
    let (mut told, mut passed, mut access) = (0, 0, 0);
    for effort in [Effort::Fast, Effort::Best] {
        let path = path(&dir, &format!("{effort:?}"));
        let options = SealOptions { block_bytes: 200 << 10, ..SealOptions::new(effort) };
        let mut frames = corpus();
        // Long enough for outlines, with few of them.
        let made = |i: usize| {
            let what = ["session opened", "no session", "session_opened", "info: error"][i % 4];
            format!("<30>Sep 21 14:13:07 web1 made[7]: {what} a{i} of 10.0.{}.7, a{i}-a", i % 250)
        };
        frames.push((0..8_000).map(|i| made(i).into_bytes()).collect());
        seal(&path, &parse(&frames), options);
        let file = SealedFile::open(&RealDisk, &path).unwrap();
        let texts = [
            "error",
            "a",
            "1",
            "session opened",
            "PacketResponder 1",
            "GET",
            "info",
            "sshd",
            "10.",
            ": ",
            "Mozilla/5.0 (X11",
            "absent text",
            "absenttext",
            "May",
            "2015:1",
            ":05 +0",
            "+0000] \"GET",
            "\" 200 ",
            "html",
        ];
        let mut outlines = 0;
        for index in 0..file.footer().blocks.len() {
            let block = file.read_block(index).unwrap();
            let is_access = block.rows().all(|row| row.get_by_name("path").is_some());
            let columns = file.columns(index).unwrap();
            outlines += columns.iter().filter(|column| column.outlines).count();
            for field in ["_msg", "level", "_level", "path", "_type", "absent", "hostname"] {
                for text in texts {
                    let text = text.as_bytes();
                    let read = |number| file.chunk(index, number).map(Arc::new);
                    let passing =
                        |columns: &BlockColumns<'_>| check_passing(columns, &block, field, text);
                    passed += usize::from(file.with_columns(index, &read, passing).unwrap());
                    for words in [false, true] {
                        let accept = |value: &[u8], at: usize| at_word(value, at, text.len());
                        let holds = |row: &Row<'_>| {
                            let value = row.get_by_name(field).unwrap_or_default();
                            let found = |at: usize| {
                                value[at..].starts_with(text) && (!words || accept(value, at))
                            };
                            (0..value.len()).any(found)
                        };
                        let expected: Vec<u32> =
                            block.rows().filter(holds).map(|row| row.index()).collect();
                        let read = |number| file.chunk(index, number).map(Arc::new);
                        let accept = match words {
                            true => Occurrences::Words(&accept),
                            false => Occurrences::All,
                        };
                        let search =
                            |columns: &BlockColumns<'_>| columns.holding(field, text, accept);
                        let found = file.with_columns(index, &read, search).unwrap().unwrap();
                        // In an access log the message contains all fields, and no word reaches
                        // across the text between them.
                        if effort == Effort::Best && text == b"absenttext" && is_access {
                            assert_eq!(found, Some(Vec::new()), "{index} {field}");
                            access += 1;
                        }
                        if let Some(found) = found {
                            let text = String::from_utf8_lossy(text);
                            assert_eq!(
                                found, expected,
                                "{effort:?} {index} {field} {text:?} {words}"
                            );
                            told += 1;
                        }
                    }
                }
            }
        }
        assert!(outlines > 1, "{effort:?}: {outlines}");
    }
    assert!(told > 500 && passed > 100 && access > 10, "{told} {passed} {access}");
}
