//! Files that were written before are read: a change of the format that forgets its version number
//! fails here.
//!
//! There is one fixture of each kind, of the current version. `LOGINSON_WRITE_FIXTURES=1 cargo test
//! -p loginson-segment --test all fixtures` writes them; only a new version of the format is a
//! reason to do so.

use std::path::PathBuf;
use std::sync::Arc;

use platform::{Disk, RealDisk};
use record::columns::Columns;
use record::{Batch, Format, Frame, FrameBuilder, Origin, Parser, ParserConfig, Transport};
use segment::sealed::{
    BlockColumns, Effort, Encoding, SEALED_VERSION, SealOptions, SealedFile, SealedHeader,
    SealedWriter,
};
use segment::tokens::required_tokens;
use segment::{FrameEntry, HotWriter, SegmentHeader, read_frame, read_segment};

const ARRIVAL_NS: i64 = 1_790_000_000_000_000_000;
const NODE: u32 = 7;
/// Number of the first frame.
const FIRST: u64 = 40;
/// Lines of the node itself in the hot segment.
const HOT_LINES: usize = 80;
/// The same in sealed segments: enough for a column of repeats.
const SEALED_LINES: usize = 3_200;

fn path(name: &str) -> PathBuf {
    PathBuf::from("tests/fixtures").join(name)
}

/// Lines of all formats, with a column that is long enough for repeats, and with texts whose words
/// are in filters.
fn lines() -> Vec<String> {
    let line = |i: usize| match i % 8 {
        0 => format!(
            "<34>Sep 21 14:13:{:02} web1 app{}[7]: Accepted publickey for root from 10.0.0.{i}",
            i % 60,
            i % 3
        ),
        1 => format!(
            "{{\"_time\":\"2026-09-21T14:13:{:02}.5Z\",\"level\":\"WARN\",\"id\":{i},\"_msg\":\"slow\\nquery\"}}",
            i % 60
        ),
        2 => format!(
            "192.168.{}.{} - - [21/Sep/2026:16:13:{:02} +0200] \"GET /{i} HTTP/1.1\" 200 {i} \"-\" \"curl\"",
            i % 5,
            i % 240,
            i % 60
        ),
        3 => format!("no time, some \u{fc}ml\u{e4}uts, number {i}"),
        _ => format!(
            "<{}>Sep 21 14:13:{:02} web1 hdfs[7]: Received block blk_{} of size 67108864 from /10.0.2.{}",
            8 + i / 8 % 8,
            i / 20 % 60,
            (i as u32).wrapping_mul(0x9e37_79b9),
            i % 7
        ),
    };
    (0..SEALED_LINES).map(line).collect()
}

/// Frames of the node itself with the first `count` lines, and of another one with hints of every
/// kind.
fn frames(count: usize) -> Vec<Frame> {
    let sender = std::net::SocketAddr::from(([127, 0, 0, 1], 514));
    let own = Origin::new(Transport::SyslogTcp, Format::Auto, Some(sender));
    let frame = |(index, lines): (u64, &[String])| {
        let mut builder = FrameBuilder::new();
        for line in lines {
            builder.push_line(&own, ARRIVAL_NS + index as i64, line.as_bytes(), false);
        }
        builder.finish(NODE, FIRST + index).unwrap()
    };
    let lines = &lines()[..count];
    let mut frames: Vec<Frame> = (0..).zip(lines.chunks(count / 2)).map(frame).collect();
    let next = FIRST + frames.len() as u64;
    frames.push(hinted_frame(next));
    frames
}

fn hinted_frame(sequence: u64) -> Frame {
    let hints = record::Hints {
        log_type: Some("shop".to_owned()),
        time_fields: vec!["at".to_owned()],
        msg_fields: vec!["text".to_owned()],
        level_fields: vec!["sev".to_owned()],
        format: Some(record::MessageFormat::Json),
        stream_fields: vec!["shelf".to_owned()],
        ignore_fields: vec!["secret".to_owned()],
        decolorize_fields: vec!["paint*".to_owned()],
        extra_fields: vec![("dc".to_owned(), "north".to_owned())],
        file: Some("/var/log/shop.log".to_owned()),
        file_id: Some(77),
        summarised_through: None,
        unknown: vec![(99, b"of a newer program".to_vec())],
        ..record::Hints::default()
    };
    let v6 = std::net::SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, 6514));
    let hinted =
        Origin { hints: Arc::new(hints), ..Origin::new(Transport::File, Format::Json, Some(v6)) };
    let plain = Origin::new(Transport::SyslogTls, Format::Syslog, None);
    let mut builder = FrameBuilder::new();
    for i in 0..5 {
        let line = format!("{{\"at\":\"2026-09-21T14:13:0{i}Z\",\"text\":\"hinted {i}\"}}");
        builder.push_line(&hinted, ARRIVAL_NS + i, line.as_bytes(), false);
        builder.push_line(&plain, ARRIVAL_NS + i, b"<13>two lines", false);
    }
    let mut frame = builder.finish(9, 3 << 32).unwrap();
    frame.set_forwarded(sequence);
    frame
}

fn parsed() -> Vec<Batch> {
    let mut parser = Parser::new(&ParserConfig::default()).unwrap();
    frames(SEALED_LINES).into_iter().map(|frame| parser.parse(Arc::new(frame))).collect()
}

fn write_if_asked() {
    static WRITTEN: std::sync::Once = std::sync::Once::new();
    WRITTEN.call_once(|| {
        if std::env::var_os("LOGINSON_WRITE_FIXTURES").is_some() {
            write();
        }
    });
}

fn write() {
    let held = vec![segment::Held { node: 9, first: 1, last: 2 }];
    let header =
        SegmentHeader { node: NODE, segment: 1, created_ns: 5, sequence_next: FIRST, held };
    let _ = std::fs::remove_file(path("hot.hot"));
    let mut writer = HotWriter::create(&RealDisk, &path("hot.hot"), &header).unwrap();
    let mut entries = Vec::new();
    for frame in frames(HOT_LINES) {
        entries.push(FrameEntry::new(writer.append(frame.bytes()).unwrap(), frame.header()));
    }
    writer.commit().unwrap();
    writer.roll(&entries).unwrap();
    for (segment, name, effort) in SEALED {
        let _ = std::fs::remove_file(path(name));
        let header = SealedHeader { node: NODE, segment, created_ns: 6, sequence_next: FIRST + 3 };
        let options = SealOptions { filter_parts: 1, ..SealOptions::new(effort) };
        let mut writer =
            SealedWriter::create(&RealDisk, &path(name), &header, &[1], options).unwrap();
        parsed().into_iter().for_each(|batch| writer.push(Arc::new(batch), None).unwrap());
        writer.finish().unwrap();
    }
}

const SEALED: [(u64, &str, Effort); 2] =
    [(2, "fast.sealed", Effort::Fast), (3, "best.sealed", Effort::Best)];

#[test]
fn the_hot_segment_is_read() {
    write_if_asked();
    let contents = read_segment(&RealDisk, &path("hot.hot"), 1, None).unwrap();
    let header = contents.header.unwrap();
    assert_eq!((header.node, header.sequence_next, header.held.len()), (NODE, FIRST, 1));
    assert!(matches!(contents.origin, segment::Origin::Index));
    let file = RealDisk.open(&path("hot.hot"), platform::Access::Read).unwrap();
    let read = |entry: &FrameEntry| read_frame(&*file, &path("hot.hot"), entry).unwrap();
    let found: Vec<Frame> = contents.frames.iter().map(read).collect();
    assert!(found == frames(HOT_LINES));
    let names: Vec<(u32, u64)> = contents.frames.iter().map(FrameEntry::name).collect();
    assert_eq!(names, [(NODE, FIRST), (NODE, FIRST + 1), (9, 3 << 32)]);
}

/// Id, raw line, origin and times of each row, in the order of ids. Fields are left out: how lines
/// are parsed may have changed since.
fn rows_of(batches: &[Batch]) -> Vec<(record::LineId, Vec<u8>, String)> {
    let mut rows = Vec::new();
    for batch in batches {
        for row in batch.rows() {
            let origin = &batch.origins()[usize::from(row.origin_index())];
            let text = format!("{} {} {origin:?}", row.time_ns(), row.received_ns());
            rows.push((row.id(), row.raw().to_vec(), text));
        }
    }
    rows.sort();
    rows
}

#[test]
fn sealed_segments_are_read() {
    write_if_asked();
    for (segment, name, effort) in SEALED {
        let file = SealedFile::open(&RealDisk, &path(name)).unwrap();
        let footer = file.footer();
        assert_eq!((footer.header.segment, footer.effort), (segment, effort));
        assert_eq!((footer.header.node, footer.header.sequence_next), (NODE, FIRST + 3));
        assert_eq!((footer.lines(), &footer.replaces[..]), (SEALED_LINES as u64 + 10, &[1][..]));
        let read = |block| file.verify_block(block).unwrap();
        let blocks: Vec<Batch> = (0..footer.blocks.len()).map(read).collect();
        assert!(rows_of(&blocks) == rows_of(&parsed()), "{name}");
        let encodings: Vec<Encoding> = (0..footer.blocks.len())
            .flat_map(|block| file.columns(block).unwrap())
            .map(|column| column.encoding)
            .collect();
        let texts = match effort {
            Effort::Fast => Encoding::Repeats,
            Effort::Best => Encoding::Template,
        };
        for encoding in [texts, Encoding::Dictionary, Encoding::Numbers, Encoding::Time] {
            assert!(encodings.contains(&encoding), "{encoding:?} in {name}");
        }
    }
}

#[test]
fn columns_of_sealed_segments_are_read() {
    write_if_asked();
    for (_, name, _) in SEALED {
        let file = SealedFile::open(&RealDisk, &path(name)).unwrap();
        for block in 0..file.footer().blocks.len() {
            let batch = file.read_block(block).unwrap();
            let read = |number| file.chunk(block, number).map(Arc::new);
            let all: Vec<u32> = (0..batch.len() as u32).collect();
            let compare = |columns: &BlockColumns<'_>| {
                let rows = columns.batch(&all).unwrap();
                for field in ["_msg", "_type", "_level", "level", "_remote_ip", "hostname"] {
                    let column = columns.field(field).unwrap().unwrap();
                    for (index, row) in batch.rows().enumerate() {
                        let value = row.get_by_name(field).unwrap_or_default();
                        assert_eq!(column.get(index), value, "{field} in {name}");
                        assert_eq!(rows.row(index).get_by_name(field), row.get_by_name(field));
                    }
                }
            };
            file.with_columns(block, &read, compare).unwrap();
        }
    }
}

#[test]
fn filters_and_counts_of_sealed_segments_are_read() {
    write_if_asked();
    let parsed = parsed();
    for (_, name, _) in SEALED {
        let file = SealedFile::open(&RealDisk, &path(name)).unwrap();
        let held = |text: &str| {
            let words = [required_tokens(text.as_bytes(), true, true)];
            let held = |block| file.may_contain(block, &words).unwrap().is_none_or(|held| held[0]);
            (0..file.footer().blocks.len()).any(held)
        };
        assert!((0..file.footer().blocks.len()).any(|block| file.has_filter(block)), "{name}");
        for row in parsed.iter().flat_map(Batch::rows) {
            for (_, value) in row.fields() {
                let value = std::str::from_utf8(value).unwrap();
                assert!(held(value), "{value} in {name}");
            }
        }
        for fields in [&["_level"][..], &["_type"], &["hostname"], &["severity", "app_name"]] {
            let mut found = std::collections::BTreeMap::new();
            let counted = file.footer().visit_counts(fields, None, (None, None), &mut |_, v, n| {
                let values: Vec<Vec<u8>> = v.iter().map(|value| value.to_vec()).collect();
                *found.entry(values).or_insert(0) += n;
            });
            let mut expected = std::collections::BTreeMap::new();
            for row in parsed.iter().flat_map(Batch::rows) {
                let value = |name: &&str| row.get_by_name(name).unwrap_or_default().to_vec();
                *expected.entry(fields.iter().map(value).collect()).or_insert(0) += 1;
            }
            assert!(counted && found == expected, "{fields:?} in {name}");
        }
    }
}

#[test]
fn another_version_is_refused_by_name() {
    write_if_asked();
    let temp = tempfile::tempdir().unwrap();
    for version in (0..12).filter(|version| *version != SEALED_VERSION) {
        let mut bytes = std::fs::read(path("fast.sealed")).unwrap();
        bytes[8..10].copy_from_slice(&version.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..60]);
        bytes[60..64].copy_from_slice(&crc.to_le_bytes());
        let path = temp.path().join("2.sealed");
        std::fs::write(&path, bytes).unwrap();
        let error = SealedFile::open(&RealDisk, &path).err().unwrap().to_string();
        let expected = format!(
            "2.sealed: segment version {version} is not known; this program reads version {SEALED_VERSION}:"
        );
        assert!(error.contains(&expected) && error.contains("move the file away"), "{error}");
    }
    // A frame and an index of another version in a hot segment.
    let bytes = std::fs::read(path("hot.hot")).unwrap();
    let data_end = read_segment(&RealDisk, &path("hot.hot"), 1, None).unwrap().data_end as usize;
    let hot = temp.path().join("1.hot");
    let refused = |bytes: &[u8]| {
        std::fs::write(&hot, bytes).unwrap();
        read_segment(&RealDisk, &hot, 1, None).err().unwrap().to_string()
    };
    let mut frame = bytes[..data_end].to_vec();
    frame[4096 + 4] = 1;
    let crc = crc32c::crc32c(&frame[4096..4096 + 60]);
    frame[4096 + 60..4096 + 64].copy_from_slice(&crc.to_le_bytes());
    let error = refused(&frame);
    assert!(error.contains("1.hot at byte 4096: frame version 1 is not known"), "{error}");
    let mut index = bytes.clone();
    index[data_end + 8] = 1;
    let trailer = index.len() - 40;
    let crc = crc32c::crc32c(&index[data_end..trailer]);
    index[trailer + 32..trailer + 36].copy_from_slice(&crc.to_le_bytes());
    let crc = crc32c::crc32c(&index[trailer..trailer + 36]);
    index[trailer + 36..].copy_from_slice(&crc.to_le_bytes());
    let error = refused(&index);
    assert!(error.contains("1.hot: index version 1 is not known"), "{error}");
}
