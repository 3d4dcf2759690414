//! Bodies of senders of other products: whole lines that are objects in UTF-8, or an error; and
//! entries of the journal do not depend on how the stream was cut.
#![no_main]

use collector::body::journal::{Entries, line_of};
use collector::body::logplex::Messages;
use collector::body::metrics::influx::Points;
use collector::body::metrics::remote_write::Samples;
use collector::body::native::Rows;
use collector::body::otlp::{Export, Format};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let [how, content @ ..] = input else { return };
    let mut out = Vec::new();
    match how % 6 {
        0 => {
            let Ok(mut rows) = Rows::read(content, (how & 8 == 0).then_some(record::Tenant::DEFAULT)) else { return };
            let mut groups = 0;
            while rows.next_group().is_some() {
                groups += 1;
                while rows.write_next(&mut out) {}
            }
            assert!(groups <= 65);
            let written = out.iter().filter(|&&byte| byte == b'\n').count() as u64;
            assert_eq!(written + rows.too_long().0, rows.count() as u64);
        }
        1 => {
            out = journal(content, usize::MAX);
            assert_eq!(out, journal(content, 1 + usize::from(*how)));
        }
        2 => {
            let Ok(mut samples) = Samples::read(content) else { return };
            while samples.write_next(&mut out) {}
        }
        3 => {
            let mut points = Points::of(content, 1_000);
            while points.write_next(&mut out) {}
        }
        4 => {
            let mut messages = Messages::of(content);
            while let Ok(true) = messages.write_next(&mut out) {}
        }
        _ => {
            let format = if how & 8 == 0 { Format::Protobuf } else { Format::Json };
            let Ok(mut export) = Export::read_metrics(format, content) else { return };
            assert!(!export.write(&mut out, usize::MAX));
        }
    }
    let text = std::str::from_utf8(&out).expect("lines are UTF-8");
    assert!(text.is_empty() || text.ends_with('\n'));
    for line in text.lines() {
        assert!(line.starts_with('{') && line.ends_with('}'), "{line}");
        assert!(!line.bytes().any(|byte| byte < 0x20), "{line}");
    }
});

fn journal(content: &[u8], bytes: usize) -> Vec<u8> {
    let (mut entries, mut out) = (Entries::default(), Vec::new());
    let mut write = |entry| {
        out.extend(line_of(entry));
        out.push(b'\n');
    };
    for mut piece in content.chunks(bytes) {
        loop {
            match entries.next(&mut piece) {
                Ok(Some(entry)) => write(entry),
                Ok(None) => break,
                Err(_) => return out,
            }
        }
    }
    if let Ok(Some(entry)) = entries.end() {
        write(entry);
    }
    out
}
