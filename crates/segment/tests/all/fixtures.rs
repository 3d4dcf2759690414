//! Files of every version that was ever written must stay readable.
//!
//! The fixtures were written by the version that introduced their format, with
//! `LOGINSON_WRITE_FIXTURES=1 cargo test -p loginson-segment --test fixtures`, and are never
//! written again.

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

fn dir() -> PathBuf {
    PathBuf::from("tests/fixtures")
}

fn lines() -> Vec<String> {
    let line = |i: usize| match i % 4 {
        0 => format!(
            "<34>Sep 21 14:13:{:02} web1 sshd[{}]: Accepted publickey for root from 10.0.0.{i}",
            i % 60,
            100 + i % 3
        ),
        1 => format!(
            "{{\"_time\":\"2026-09-21T14:13:{:02}.5Z\",\"level\":\"WARN\",\"id\":{i},\"_msg\":\"slow\\nquery\"}}",
            i % 60
        ),
        2 => format!(
            "10.0.0.{i} - - [21/Sep/2026:16:13:{:02} +0200] \"GET /{i} HTTP/1.1\" 200 {i} \"-\" \"curl\"",
            i % 60
        ),
        _ => format!("no time, some \u{fc}ml\u{e4}uts, number {i}"),
    };
    (0..120).map(line).collect()
}

fn frames() -> Vec<Arc<Frame>> {
    let origin =
        Origin::new(Transport::SyslogTcp, Format::Auto, Some(([127, 0, 0, 1], 514).into()));
    let frame = |(index, lines): (usize, &[String])| {
        let mut builder = FrameBuilder::new();
        for line in lines {
            builder.push_line(&origin, ARRIVAL_NS + index as i64, line.as_bytes(), false);
        }
        Arc::new(builder.finish(7, 40 + index as u64).unwrap())
    };
    lines().chunks(50).enumerate().map(frame).collect()
}

/// A column that is long enough for its repeats, as version 2 of sealed segments stores it.
fn long_lines() -> Vec<String> {
    let line = |i: u32| {
        let id = i.wrapping_mul(0x9e37_79b9);
        format!(
            "<30>Sep 21 14:13:{:02} web1 hdfs[7]: Received block blk_{id} of size 67108864 from /10.0.0.{}",
            i / 20 % 60,
            i % 7
        )
    };
    (0..1_200).map(line).collect()
}

fn write_long() {
    let path = dir().join("4.sealed");
    let header = SealedHeader { node: 7, segment: 4, created_ns: 6, sequence_next: 43 };
    let options = SealOptions::new(Effort::Fast);
    let mut writer = SealedWriter::create(&RealDisk, &path, &header, &[1], options).unwrap();
    writer.push(Arc::new(long_batch()), None).unwrap();
    writer.finish().unwrap();
}

fn long_batch() -> Batch {
    batch_of(&long_lines())
}

fn batch_of(lines: &[String]) -> Batch {
    let origin = Origin::new(Transport::SyslogTcp, Format::Auto, None);
    let mut builder = FrameBuilder::new();
    for line in lines {
        builder.push_line(&origin, ARRIVAL_NS, line.as_bytes(), false);
    }
    let frame = Arc::new(builder.finish(7, 40).unwrap());
    Parser::new(&ParserConfig::default()).unwrap().parse(frame)
}

fn write() {
    std::fs::create_dir_all(dir()).unwrap();
    let hot = dir().join("1.hot");
    let header =
        SegmentHeader { node: 7, segment: 1, created_ns: 5, sequence_next: 40, held: Vec::new() };
    let mut writer = HotWriter::create(&RealDisk, &hot, &header).unwrap();
    let mut entries = Vec::new();
    for frame in frames() {
        let offset = writer.append(frame.bytes()).unwrap();
        entries.push(FrameEntry::new(offset, frame.header()));
    }
    writer.commit().unwrap();
    writer.roll(&entries).unwrap();
    for (segment, effort) in [(2, Effort::Fast), (3, Effort::Best)] {
        let path = dir().join(format!("{segment}.sealed"));
        let header = SealedHeader { node: 7, segment, created_ns: 6, sequence_next: 43 };
        let options = SealOptions { filter_parts: 1, ..SealOptions::new(effort) };
        let mut writer = SealedWriter::create(&RealDisk, &path, &header, &[1], options).unwrap();
        let mut parser = Parser::new(&ParserConfig::default()).unwrap();
        for frame in frames() {
            writer.push(Arc::new(parser.parse(frame)), None).unwrap();
        }
        writer.finish().unwrap();
    }
}

fn parsed() -> Vec<Batch> {
    let mut parser = Parser::new(&ParserConfig::default()).unwrap();
    frames().into_iter().map(|frame| parser.parse(frame)).collect()
}

/// Id, raw line and fields of each row, in the order of ids.
fn rows_of(batches: &[Batch]) -> Vec<(record::LineId, Vec<u8>, String)> {
    let mut rows = Vec::new();
    for batch in batches {
        for row in batch.rows() {
            let fields: Vec<_> = row
                .fields()
                .map(|(id, value)| (batch.name(id), String::from_utf8_lossy(value).into_owned()))
                .collect();
            let text = format!("{} {} {fields:?}", row.time_ns(), row.received_ns());
            rows.push((row.id(), row.raw().to_vec(), text));
        }
    }
    rows.sort();
    rows
}

#[test]
fn fixtures_of_every_version_are_read() {
    if std::env::var_os("LOGINSON_WRITE_FIXTURES").is_some() {
        write();
    }
    let hot = dir().join("1.hot");
    let contents = read_segment(&RealDisk, &hot, 1, None).unwrap();
    let file = RealDisk.open(&hot, platform::Access::Read).unwrap();
    let found: Vec<Vec<u8>> = contents
        .frames
        .iter()
        .flat_map(|entry| {
            let frame = read_frame(&*file, &hot, entry).unwrap();
            frame.lines().map(|line| line.bytes.to_vec()).collect::<Vec<_>>()
        })
        .collect();
    let expected: Vec<Vec<u8>> = lines().into_iter().map(String::into_bytes).collect();
    assert_eq!(found, expected);

    for (segment, effort) in [(2, Effort::Fast), (3, Effort::Best)] {
        let path = dir().join(format!("{segment}.sealed"));
        let file = SealedFile::open(&RealDisk, &path).unwrap();
        let footer = file.footer();
        assert_eq!((footer.header.segment, footer.effort), (segment, effort));
        assert_eq!((footer.header.node, footer.header.sequence_next), (7, 43));
        assert_eq!((footer.lines(), &footer.replaces[..]), (120, &[1][..]));
        let blocks: Vec<Batch> = (0..footer.blocks.len())
            .map(|index| {
                file.verify_block(index).unwrap();
                file.read_block(index).unwrap()
            })
            .collect();
        // Parsing may have changed since; the fields in the file are those of its version. Raw
        // lines never change.
        let raw = |rows: &[(record::LineId, Vec<u8>, String)]| -> Vec<Vec<u8>> {
            rows.iter().map(|row| row.1.clone()).collect()
        };
        let rows = rows_of(&blocks);
        assert_eq!(raw(&rows), raw(&rows_of(&parsed())));
        assert!(rows[1].2.contains("(\"_msg\", \"slow\\nquery\")"), "{:?}", rows[1]);
        assert!(footer.rollups.iter().any(|rollup| rollup.fields == ["_level"]));
    }
}

/// Fields of files up to version 3 are read by their current names, as rows, as columns and in
/// counts, and a rewrite stores the current names.
#[test]
fn fields_of_old_versions_have_current_names() {
    let temp = tempfile::tempdir().unwrap();
    for name in ["2.sealed", "3.sealed", "5.sealed"] {
        let file = SealedFile::open(&RealDisk, &dir().join(name)).unwrap();
        assert!(file.footer().version < 4);
        let blocks: Vec<_> = (0..file.footer().blocks.len()).collect();
        let batches: Vec<Batch> = blocks.iter().map(|&b| file.read_block(b).unwrap()).collect();
        let path = temp.path().join(name);
        let header = SealedHeader { node: 7, segment: 9, created_ns: 6, sequence_next: 43 };
        let options = SealOptions::new(Effort::Fast);
        let mut writer = SealedWriter::create(&RealDisk, &path, &header, &[1], options).unwrap();
        let mut levels = std::collections::BTreeMap::new();
        for (index, batch) in blocks.iter().zip(batches) {
            for row in batch.rows() {
                let get = |name: &str| row.get_by_name(name);
                assert!(get("_type").is_some() && get("type").is_none(), "{name}");
                assert_eq!(get("_level"), get("level"));
                assert!(get("remote_ip").is_none());
                *levels.entry(get("_level").map(<[u8]>::to_vec)).or_insert(0) += 1;
            }
            let read = |number| file.chunk(*index, number).map(Arc::new);
            let all: Vec<u32> = (0..batch.len() as u32).collect();
            let compare = |columns: &BlockColumns<'_>| {
                let rows = columns.batch(&all).unwrap();
                assert!(columns.names().contains(&"_type"));
                for field in ["_type", "_level", "level", "type", "_remote_ip", "hostname"] {
                    let column = columns.field(field).unwrap().unwrap();
                    for (index, row) in batch.rows().enumerate() {
                        let value = row.get_by_name(field).unwrap_or_default();
                        assert_eq!(column.get(index), value, "{field} in {name}");
                        assert_eq!(rows.row(index).get_by_name(field), row.get_by_name(field));
                    }
                }
            };
            file.with_columns(*index, &read, compare).unwrap();
            writer.push(Arc::new(batch), None).unwrap();
        }
        let written = writer.finish().unwrap();
        let again = SealedFile::open(&RealDisk, &path).unwrap();
        assert_eq!(again.footer().version, SEALED_VERSION);
        for footer in [&**file.footer(), &written] {
            for fields in [&["_level"][..], &["_type"], &["hostname"]] {
                let mut sum = 0;
                let counted =
                    footer.visit_counts(fields, None, (None, None), &mut |_, _, n| sum += n);
                assert!(counted && sum == footer.lines(), "{fields:?} in {name}");
            }
            let mut counts = std::collections::BTreeMap::new();
            footer.visit_counts(&["_level"], None, (None, None), &mut |_, values, n| {
                let value = Some(values[0].to_vec()).filter(|value| !value.is_empty());
                *counts.entry(value).or_insert(0) += n;
            });
            assert_eq!(counts, levels, "{name}");
        }
    }
}

#[test]
fn repeats_of_version_2_are_read() {
    if std::env::var_os("LOGINSON_WRITE_FIXTURES").is_some() {
        write_long();
    }
    let path = dir().join("4.sealed");
    let file = SealedFile::open(&RealDisk, &path).unwrap();
    let columns = file.columns(0).unwrap();
    let message = columns.iter().find(|column| column.name == "_msg").unwrap();
    assert_eq!(message.encoding, Encoding::Repeats);
    let batch = file.verify_block(0).unwrap();
    let expected = long_batch();
    assert!(batch.rows().map(|row| row.raw()).eq(expected.rows().map(|row| row.raw())));
    // The same as a column, without the lines.
    let read = |number| file.chunk(0, number).map(Arc::new);
    let compare = |columns: &BlockColumns<'_>| {
        let messages = columns.field("_msg").unwrap().unwrap();
        for (row, record) in batch.rows().enumerate() {
            assert_eq!(Some(messages.get(row)), record.get_by_name("_msg"));
        }
    };
    file.with_columns(0, &read, compare).unwrap();
}

/// Lines whose message is the whole line, so that its words include addresses and the text between
/// fields.
fn lines_for_filters() -> Vec<String> {
    let line = |i: u32| {
        let id = i.wrapping_mul(0x9e37_79b9);
        match i % 2 {
            0 => format!(
                "<{}>Sep 21 14:13:{:02} web1 app{}[7]: session {id:08x} of 10.0.{}.{} is open",
                8 + i / 2 % 8,
                i / 40 % 60,
                i / 2 % 3,
                i % 7,
                i % 250
            ),
            _ => format!(
                "192.168.{}.{} - - [21/Sep/2026:14:13:{:02} +0200] \"GET /{id:08x} HTTP/1.1\" 200 {i} \"-\" \"curl\"",
                i % 5,
                i % 240,
                i / 40 % 60
            ),
        }
    };
    (0..2_400).map(line).collect()
}

fn write_filter_fixture() {
    let path = dir().join("5.sealed");
    let header = SealedHeader { node: 7, segment: 5, created_ns: 6, sequence_next: 43 };
    let options = SealOptions { filter_parts: 1, ..SealOptions::new(Effort::Fast) };
    let mut writer = SealedWriter::create(&RealDisk, &path, &header, &[1], options).unwrap();
    writer.push(Arc::new(batch_of(&lines_for_filters())), None).unwrap();
    writer.finish().unwrap();
}

#[test]
fn filters_and_counts_of_version_3_are_read() {
    if std::env::var_os("LOGINSON_WRITE_FIXTURES").is_some() {
        write_filter_fixture();
    }
    let file = SealedFile::open(&RealDisk, &dir().join("5.sealed")).unwrap();
    let blocks = 0..file.footer().blocks.len();
    let held = |text: &str| {
        let words = [required_tokens(text.as_bytes(), true, true)];
        let held = |block| file.may_contain(block, &words).unwrap().expect("it has a filter")[0];
        blocks.clone().any(held)
    };
    let batch = batch_of(&lines_for_filters());
    for row in batch.rows() {
        for (_, value) in row.fields() {
            let value = std::str::from_utf8(value).unwrap();
            assert!(held(value), "{value}");
        }
    }
    assert!(held("10.0.2.44") && held("192.168.3.3"), "they stand in lines");
    assert!(!held("10.0.0.255") && !held("44.10.0.2"), "their parts do");
    let mut counts = std::collections::BTreeMap::new();
    let fields = ["severity", "app_name"];
    let counted = file.footer().visit_counts(&fields, None, (None, None), &mut |_, values, n| {
        let values: Vec<_> = values.iter().map(|v| String::from_utf8_lossy(v)).collect();
        *counts.entry(values.join(" ")).or_insert(0) += n;
    });
    assert!(counted);
    assert_eq!((counts.len(), counts[" "], counts["3 app0"]), (25, 1_200, 50));
}

/// Frames of two nodes with hints of every kind, as version 4 of sealed segments and version 1 of
/// frames store them.
fn hinted_frames() -> Vec<Frame> {
    let hints = record::Hints {
        log_type: Some("shop".to_owned()),
        time_fields: vec!["at".to_owned()],
        msg_fields: vec!["text".to_owned()],
        level_fields: vec!["sev".to_owned()],
        format: Some(record::MessageFormat::Json),
        stream_fields: vec!["shelf".to_owned()],
        ignore_fields: vec!["secret".to_owned()],
        extra_fields: vec![("dc".to_owned(), "north".to_owned())],
        file: Some("/var/log/shop.log".to_owned()),
        file_id: Some(77),
        ..record::Hints::default()
    };
    let v6 = std::net::SocketAddr::from((std::net::Ipv6Addr::LOCALHOST, 6514));
    let hinted =
        Origin { hints: Arc::new(hints), ..Origin::new(Transport::File, Format::Json, Some(v6)) };
    let plain = Origin::new(Transport::SyslogTls, Format::Syslog, None);
    let frame = |(index, (node, number)): (u64, (u32, u64))| {
        let mut builder = FrameBuilder::new();
        for i in 0..5 {
            let line =
                format!("{{\"at\":\"2026-09-21T14:13:0{i}Z\",\"text\":\"{node} {number} {i}\"}}");
            builder.push_line(&hinted, ARRIVAL_NS + index as i64, line.as_bytes(), false);
            builder.push_line(&plain, ARRIVAL_NS + index as i64, b"<13>two\nlines", false);
        }
        let mut frame = builder.finish(node, number).unwrap();
        if node != 7 {
            frame.set_forwarded(50 + index);
        }
        frame
    };
    (0..).zip([(7, 50), (9, 3), (7, 52)]).map(frame).collect()
}

fn write_hinted() {
    let path = dir().join("6.hot");
    let header =
        SegmentHeader { node: 7, segment: 6, created_ns: 5, sequence_next: 50, held: Vec::new() };
    let mut writer = HotWriter::create(&RealDisk, &path, &header).unwrap();
    let mut entries = Vec::new();
    for frame in hinted_frames() {
        entries.push(FrameEntry::new(writer.append(frame.bytes()).unwrap(), frame.header()));
    }
    writer.commit().unwrap();
    writer.roll(&entries).unwrap();
    let path = dir().join("7.sealed");
    let header = SealedHeader { node: 7, segment: 7, created_ns: 6, sequence_next: 53 };
    let options = SealOptions { filter_parts: 1, ..SealOptions::new(Effort::Fast) };
    let mut writer = SealedWriter::create(&RealDisk, &path, &header, &[6], options).unwrap();
    let mut parser = Parser::new(&ParserConfig::default()).unwrap();
    for frame in hinted_frames() {
        writer.push(Arc::new(parser.parse(Arc::new(frame))), None).unwrap();
    }
    writer.finish().unwrap();
}

#[test]
fn origins_of_frames_of_version_1_and_of_sealed_version_4_are_read() {
    if std::env::var_os("LOGINSON_WRITE_FIXTURES").is_some() {
        write_hinted();
    }
    let hot = dir().join("6.hot");
    let contents = read_segment(&RealDisk, &hot, 6, None).unwrap();
    let file = RealDisk.open(&hot, platform::Access::Read).unwrap();
    let sealed = SealedFile::open(&RealDisk, &dir().join("7.sealed")).unwrap();
    assert_eq!(sealed.footer().version, 4);
    let mut found = Vec::new();
    for (entry, made) in contents.frames.iter().zip(hinted_frames()) {
        let frame = read_frame(&*file, &hot, entry).unwrap();
        assert_eq!(frame.origins(), made.origins());
        found.extend(frame.lines().map(|line| (line.bytes.to_vec(), line.origin.clone())));
    }
    assert_eq!(found.len(), 30);
    let mut restored = Vec::new();
    for block in 0..sealed.footer().blocks.len() {
        let batch = sealed.verify_block(block).unwrap();
        restored.extend(batch.rows().map(|row| {
            let origin = batch.origins()[usize::from(row.origin_index())].clone();
            (row.raw().to_vec(), origin)
        }));
    }
    let text = |lines: &mut Vec<(Vec<u8>, Origin)>| {
        lines.sort_by_key(|(line, origin)| (line.clone(), format!("{origin:?}")));
    };
    text(&mut found);
    text(&mut restored);
    assert_eq!(found, restored);
}

#[test]
fn an_older_or_newer_version_is_refused() {
    let temp = tempfile::tempdir().unwrap();
    for version in [0u16, SEALED_VERSION + 1, 99] {
        let mut bytes = std::fs::read(dir().join("2.sealed")).unwrap();
        bytes[8..10].copy_from_slice(&version.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..60]);
        bytes[60..64].copy_from_slice(&crc.to_le_bytes());
        let path = temp.path().join("2.sealed");
        std::fs::write(&path, bytes).unwrap();
        let error = SealedFile::open(&RealDisk, &path).err().unwrap().to_string();
        let expected = format!("2.sealed: segment version {version} is not known");
        assert!(error.contains(&expected), "{error}");
    }
}
