//! Frames that are built, read again, and damaged.

use super::*;
use proptest::prelude::*;

fn origin(port: u16) -> Origin {
    Origin::new(Transport::SyslogTcp, Format::Syslog, Some(SocketAddr::from(([10, 0, 0, 1], port))))
}

fn lines_of(frame: &Frame) -> Vec<(Vec<u8>, i64, Origin, bool)> {
    frame.lines().map(|l| (l.bytes.to_vec(), l.received_ns, l.origin.clone(), l.cut)).collect()
}

fn sample() -> Frame {
    let mut builder = FrameBuilder::new();
    builder.push_lines(&origin(1), 10, b"one\n\nthree\r\n");
    builder.push_line(&origin(2), 11, b"four\nstill four", false);
    builder.push_line(&origin(2), 11, b"", true);
    let hints = Hints { log_type: Some("access".into()), ..Hints::default() };
    let http =
        Origin { hints: Arc::new(hints), ..Origin::new(Transport::Http, Format::Auto, None) };
    builder.push_lines(&http, 9, b"\xff\x00\n");
    builder.finish(3, 42).expect("has lines")
}

#[test]
fn a_doubt_stays_with_its_line() {
    let mut builder = FrameBuilder::new();
    let doubts =
        [None, Some(Doubt::Framing), Some(Doubt::Decoding), Some(Doubt::Compression), None];
    for doubt in doubts {
        builder.push_line_in_doubt(&origin(1), 10, b"a\nb", false, doubt);
        builder.push_line(&origin(1), 10, b"c", false);
    }
    let frame = builder.finish(3, 42).expect("has lines");
    let decoded = Frame::decode(frame.bytes().to_vec()).unwrap();
    let found: Vec<_> = decoded.lines().step_by(2).map(|line| line.doubt).collect();
    assert_eq!(found, doubts);
    assert!(decoded.lines().skip(1).step_by(2).all(|line| line.doubt.is_none()));
}

#[test]
fn lines_come_back_as_they_were_sent() {
    let frame = sample();
    let line_bytes: usize = frame.lines().map(|line| line.bytes.len()).sum();
    assert_eq!(frame.line_bytes(), line_bytes as u64);
    let decoded = Frame::decode(frame.bytes().to_vec()).unwrap();
    assert_eq!(decoded, frame);
    let lines = lines_of(&decoded);
    let texts: Vec<&[u8]> = lines.iter().map(|l| l.0.as_slice()).collect();
    let expected: [&[u8]; 6] = [b"one", b"", b"three\r", b"four\nstill four", b"", b"\xff\x00"];
    assert_eq!(texts, expected);
    assert_eq!(lines.iter().map(|l| l.1).collect::<Vec<_>>(), [10, 10, 10, 11, 11, 9]);
    assert_eq!(
        lines.iter().map(|l| l.3).collect::<Vec<_>>(),
        [false, false, false, false, true, false]
    );
    assert_eq!(lines[5].2.hints.log_type.as_deref(), Some("access"));
    let header = decoded.header();
    assert_eq!((header.node, header.sequence, header.lines), (3, 42, 6));
    assert_eq!(header.flags, 0);
    assert_eq!((header.received_min_ns, header.received_max_ns), (9, 11));
}

#[test]
fn each_flipped_byte_and_each_cut_is_an_error() {
    let bytes = sample().bytes().to_vec();
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x20;
        assert!(Frame::decode(damaged).is_err(), "byte {at} flipped");
        assert!(Frame::decode(bytes[..at].to_vec()).is_err(), "cut at {at}");
    }
}

#[test]
fn a_frame_of_internal_lines_is_flagged() {
    let mut builder = FrameBuilder::new();
    let own = Origin::new(Transport::Internal, Format::Json, None);
    builder.push_lines(&own, 1, b"{}\n");
    let frame = Frame::decode(builder.finish(1, 1).unwrap().bytes().to_vec()).unwrap();
    assert_eq!(frame.header().flags, FRAME_INTERNAL);
    builder.push_lines(&own, 1, b"{}\n");
    builder.push_lines(&origin(1), 1, b"x\n");
    assert_eq!(builder.finish(1, 2).unwrap().header().flags, 0);
}

#[test]
fn a_frame_keeps_its_name_when_it_is_forwarded() {
    let mut frame = sample();
    assert_eq!(frame.header().name(), (3, 42));
    frame.set_sequence(FORWARDED_NUMBER_MAX);
    frame.set_forwarded(7);
    let frame = Frame::decode(frame.bytes().to_vec()).unwrap();
    assert_eq!((frame.header().sequence, frame.header().flags), (7, FRAME_FORWARDED));
    assert_eq!(frame.header().name(), (3, FORWARDED_NUMBER_MAX));
}

#[test]
fn clones_share_their_bytes_until_one_of_them_changes() {
    let mut frame = sample();
    let clone = frame.clone();
    frame.set_sequence(42);
    assert_eq!(frame.bytes().as_ptr(), clone.bytes().as_ptr(), "nothing changed");
    frame.set_sequence(43);
    assert_eq!((frame.header().sequence, clone.header().sequence), (43, 42));
    assert_eq!(Frame::decode(clone.bytes().to_vec()).unwrap(), sample());
}

#[test]
fn other_versions_are_refused_by_name() {
    for version in (0..=u8::MAX).filter(|version| *version != FRAME_VERSION) {
        let mut bytes = sample().bytes().to_vec();
        bytes[4] = version;
        let crc = crc32c::crc32c(&bytes[..60]);
        bytes[60..64].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(Frame::decode(bytes).unwrap_err(), FrameError::Version(version));
    }
}

#[test]
fn runs_of_one_arrival_are_joined() {
    let mut builder = FrameBuilder::new();
    for _ in 0..3 {
        builder.push_line(&origin(1), 5, b"x", false);
    }
    let frame = builder.finish(0, 1).unwrap();
    assert_eq!(frame.runs().len(), 1);
    assert!(builder.finish(0, 2).is_none());
}

proptest! {
    #[test]
    fn any_lines_round_trip(
        lines in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..40), 0u16..3, 0i64..3), 1..50),
    ) {
        let mut builder = FrameBuilder::new();
        for (line, port, received) in &lines {
            builder.push_line(&origin(*port), *received, line, false);
        }
        let frame = Frame::decode(builder.finish(1, 1).unwrap().bytes().to_vec()).unwrap();
        let found: Vec<_> = lines_of(&frame).into_iter().map(|l| (l.0, l.1, l.2)).collect();
        let expected: Vec<_> = lines.into_iter().map(|(l, p, r)| (l, r, origin(p))).collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Frame::decode(bytes);
    }
}

#[test]
fn tenants_are_assigned_by_origin() {
    let origins = [Transport::Http, Transport::SyslogUdp, Transport::Beats]
        .map(|transport| Origin::new(transport, Format::Auto, None));
    let mut builder = FrameBuilder::new();
    for index in 0..10 {
        let line = format!("line {index}");
        builder.push_line(&origins[index % 3], 7, line.as_bytes(), false);
    }
    let before = builder.finish(1, 5).unwrap();
    let shop = Tenant { account: 12, project: u32::MAX };
    let mut frame = before.clone();
    frame.assign_tenants(|origin| (origin.transport == Transport::Beats).then_some(shop));
    let again = Frame::decode(frame.bytes().to_vec()).unwrap();
    assert_eq!(again, frame);
    for (line, old) in again.lines().zip(before.lines()) {
        assert_eq!((line.bytes, line.received_ns), (old.bytes, old.received_ns));
        let expected = if line.index % 3 == 2 { shop } else { Tenant::DEFAULT };
        assert_eq!(line.origin.hints.tenant, expected);
    }
    // Where nothing changes, the frame stays as it is.
    let mut same = before.clone();
    same.assign_tenants(|_| None);
    assert_eq!(same.bytes(), before.bytes());
}
