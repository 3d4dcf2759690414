//! A syslog TCP stream in reads of any size: the same lines as in one read, none longer than the
//! limit, and no byte made up; the latter two also with a pause behind each read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use record::framing::{Ending, LinePiece, LineSplitter};

const LINE_BYTES_MAX: usize = 100;

fuzz_target!(|input: &[u8]| {
    let Some((&seed, stream)) = input.split_first() else { return };
    let read_bytes = 1 + usize::from(seed);
    assert_eq!(split([stream], false), split(stream.chunks(read_bytes), false));
    split(stream.chunks(read_bytes), true);
});

/// Each line with whether it was cut, and how the stream ended.
fn split<'a>(
    reads: impl IntoIterator<Item = &'a [u8]>,
    pauses: bool,
) -> (Vec<(Vec<u8>, bool)>, Ending) {
    let mut lines = Vec::new();
    let mut bytes_in = 0;
    let mut emit = |piece: LinePiece<'_>| match piece {
        LinePiece::Lines(bytes) => {
            let bytes = bytes.strip_suffix(b"\n").expect("lines end in a newline");
            lines.extend(bytes.split(|&b| b == b'\n').map(|line| (line.to_vec(), false)));
        }
        LinePiece::Line { bytes, cut, .. } => lines.push((bytes.to_vec(), cut)),
    };
    let mut splitter = LineSplitter::with_line_bytes_max(LINE_BYTES_MAX);
    for read in reads {
        bytes_in += read.len();
        splitter.split(read, &mut emit);
        if pauses {
            splitter.pause(&mut emit);
            splitter.pause(&mut emit);
        }
        assert!(splitter.carried_bytes() <= LINE_BYTES_MAX);
    }
    let ending = splitter.end(&mut emit);
    assert!(lines.iter().all(|(line, _)| line.len() <= LINE_BYTES_MAX));
    assert!(lines.iter().map(|(line, _)| line.len()).sum::<usize>() <= bytes_in);
    (lines, ending)
}
