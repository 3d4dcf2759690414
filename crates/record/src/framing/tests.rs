//! Compares the framing with a reference model over every split into reads, and with tables of each
//! framing.

use std::ops::Range;

use super::*;
use proptest::prelude::*;

type Lines = Vec<(Vec<u8>, bool)>;

/// Splits a stream that arrives in these reads, both in place and not.
fn split<'a>(max: usize, reads: impl Iterator<Item = &'a [u8]> + Clone) -> (Lines, Ending) {
    let found = split_by(max, reads.clone(), false);
    assert_eq!(split_by(max, reads, true), found);
    found
}

fn split_by<'a>(
    max: usize,
    reads: impl Iterator<Item = &'a [u8]>,
    in_place: bool,
) -> (Lines, Ending) {
    let mut splitter = LineSplitter::with_line_bytes_max(max);
    let mut lines = Lines::new();
    let mut emit = |piece: LinePiece<'_>| match piece {
        LinePiece::Lines(bytes) => {
            let bytes = bytes.strip_suffix(b"\n").expect("lines end in a newline");
            lines.extend(bytes.split(|&b| b == b'\n').map(|line| (line.to_vec(), false)));
        }
        LinePiece::Line { bytes, cut, .. } => lines.push((bytes.to_vec(), cut)),
    };
    for read in reads {
        match splitter.carried_in_place().filter(|_| in_place) {
            Some(carried) => {
                let bytes = [carried, read].concat();
                let found = splitter.split_in_place(&bytes);
                let (lines, rest) = bytes.split_at(found.bytes);
                let newlines = lines.iter().filter(|&&byte| byte == b'\n').count();
                assert_eq!(found.lines as usize, newlines);
                if !lines.is_empty() {
                    emit(LinePiece::Lines(lines));
                }
                if !found.is_rest_carried {
                    splitter.split(rest, &mut emit);
                }
            }
            None => splitter.split(read, &mut emit),
        }
        assert!(splitter.carried_bytes() <= max && splitter.carry.capacity() <= max);
    }
    let ending = splitter.end(&mut emit);
    (lines, ending)
}

/// The reference model: the whole stream at once, one message after the other.
fn model(max: usize, stream: &[u8]) -> Lines {
    let mut lines = Lines::new();
    match model_framing(max, stream) {
        Model::Foreign => {}
        Model::Framing(framing) => model_plain(framing, max, stream, &mut lines),
        Model::Endless => model_endless(max, stream, &mut lines),
    }
    lines
}

#[derive(Debug)]
enum Model {
    Foreign,
    Framing(Framing),
    Endless,
}

fn regex(text: &str) -> regex::bytes::Regex {
    regex::bytes::Regex::new(&format!("(?s-u){text}")).unwrap()
}

/// The length of an octet count with its priority, and its value.
fn model_count(bytes: &[u8], with_priority: bool) -> Option<(usize, usize)> {
    let counted = match with_priority {
        true => regex("^([1-9][0-9]{0,8}) (<[0-9]{1,3}>|zx[\\x01\\x5e\\x9c\\xda])"),
        false => regex("^([1-9][0-9]{0,8}) (<[0-9]{1,3}>|.)"),
    };
    let found = counted.captures(bytes)?;
    let count: usize = std::str::from_utf8(&found[1]).unwrap().parse().unwrap();
    let least = match &found[2] {
        start if start.starts_with(b"z") && with_priority => 9,
        // Digits up to the end of what was counted: not even the priority is in it.
        b"<" if regex(&format!("^[0-9]+ <[0-9]{{{}}}", count.max(1) - 1)).is_match(bytes) => 5,
        b"<" if count < 5 && regex("^[0-9]+ <[0-9]*$").is_match(bytes) => 5,
        start => start.len(),
    };
    (count >= least).then_some((found[1].len() + 1, count))
}

const FORMS: [&str; 4] = [
    "<[0-9]{1,3}>[0-9]{1,3} ",
    "<[0-9]{1,3}>(Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) ",
    "<[0-9]{1,3}>[0-9]{4}-",
    "<[0-9]{1,3}>",
];

/// The first of the forms that matches; the last one only if none of the others can match any more.
fn model_form(bytes: &[u8]) -> Option<usize> {
    let form = FORMS.iter().position(|form| regex(&format!("^{form}")).is_match(bytes))?;
    let rest = &bytes[bytes.iter().position(|&byte| byte == b'>').unwrap() + 1..];
    let may_grow = ["1 ", "11 ", "111 ", "2026-"].iter().any(|sample| {
        let digits = rest.iter().all(u8::is_ascii_digit);
        digits && rest.len() < sample.len()
    }) || [
        "Jan ", "Feb ", "Mar ", "Apr ", "May ", "Jun ", "Jul ", "Aug ", "Sep ", "Oct ", "Nov ",
        "Dec ",
    ]
    .iter()
    .any(|month| rest.len() < 4 && month.as_bytes().starts_with(rest));
    (form < 3 || !may_grow).then_some(form)
}

/// The position of a newline or NUL before a message, and which of them it is.
fn model_end(window: &[u8]) -> Option<(usize, Framing)> {
    (0..window.len()).find_map(|at| {
        let framing = match window[at] {
            b'\n' => Framing::Newline,
            0 => Framing::Nul,
            _ => return None,
        };
        let rest = &window[at + 1..];
        let is_start = regex("^<[0-9]{1,3}>").is_match(rest) || model_count(rest, true).is_some();
        is_start.then_some((at, framing))
    })
}

fn model_framing(max: usize, stream: &[u8]) -> Model {
    let limit = max.min(opening::OPENING_BYTES_MAX);
    let window = &stream[..stream.len().min(limit)];
    let is_full = stream.len() >= limit;
    if matches!(foreign::recognise(window), foreign::Recognised::Foreign(_)) {
        return Model::Foreign;
    }
    if model_count(window, true).is_some() {
        return Model::Framing(Framing::Newline);
    }
    let form = model_form(window);
    let is_json = window.starts_with(b"{");
    let newline = window.iter().position(|&byte| byte == b'\n');
    if form.is_some() {
        if let Some((at, framing)) = model_end(window) {
            return match model_glued(&window[..at], form) {
                true => Model::Endless,
                false => Model::Framing(framing),
            };
        }
    } else if is_json {
        let nul = window.windows(2).position(|pair| pair == b"\0{");
        match (newline, nul) {
            (Some(newline), Some(nul)) if nul < newline => return Model::Framing(Framing::Nul),
            (Some(_), _) => return Model::Framing(Framing::Newline),
            (None, Some(_)) => return Model::Framing(Framing::Nul),
            (None, None) => {}
        }
    } else if let Some((header, count)) = model_count(window, false)
        && header + count <= limit
        && newline.is_none_or(|newline| newline >= header + count)
        && window.len() >= header + count
    {
        let rest = &window[header + count..];
        if regex("^[1-9][0-9]{0,8} ").is_match(rest) || (rest.is_empty() && !is_full) {
            return Model::Framing(Framing::Counted);
        }
    }
    if form.is_none() && !is_json && newline.is_some() {
        return Model::Framing(Framing::Newline);
    }
    let begins = |at: usize| form.is_some() && model_form(&window[at..]) == form;
    let has_next = (1..window.len()).any(begins);
    let has_next_with_time = has_next && form != Some(3);
    if is_full {
        return match (form.is_some() || is_json, newline) {
            (true, _) if has_next_with_time => Model::Endless,
            (false, _) | (_, Some(_)) => Model::Framing(Framing::Newline),
            _ if window.contains(&0) => Model::Framing(Framing::Nul),
            _ if has_next => Model::Endless,
            _ => Model::Framing(Framing::Newline),
        };
    }
    match window.last() {
        _ if model_glued(window, form) => Model::Endless,
        Some(0) => Model::Framing(Framing::Nul),
        Some(b'\n') => Model::Framing(Framing::Newline),
        _ if newline.is_some() && !has_next_with_time => Model::Framing(Framing::Newline),
        _ => Model::Endless,
    }
}

/// Whether a message of this form with a time follows another one directly.
fn model_glued(bytes: &[u8], form: Option<usize>) -> bool {
    let Some(form @ 0..3) = form else { return false };
    let introduces = |byte: u8| byte.is_ascii_whitespace() || b"\"'`([{<=:,;|>-".contains(&byte);
    (1..bytes.len()).any(|at| {
        bytes[at] == b'<' && !introduces(bytes[at - 1]) && model_form(&bytes[at..]) == Some(form)
    })
}

fn model_endless(max: usize, mut stream: &[u8], lines: &mut Lines) {
    let mut is_glued = false;
    while !stream.is_empty() {
        let window = &stream[..stream.len().min(max)];
        if model_count(window, true).is_some() {
            return model_plain(Framing::Newline, max, stream, lines);
        }
        let (mut end, mut end_bytes) = (None, 0);
        if let Some(form) = model_form(window) {
            let next = (1..window.len()).find(|&at| model_form(&window[at..]) == Some(form));
            match (model_end(window), next) {
                (Some((at, framing)), next) if next.is_none_or(|next| at < next) => {
                    if !is_glued {
                        return model_plain(framing, max, stream, lines);
                    }
                    (end, end_bytes) = (Some(at), 1);
                }
                (_, next) => {
                    end = next;
                    is_glued |= next.is_some() && form < 3;
                }
            }
        } else {
            let newline = window.iter().position(|&byte| byte == b'\n');
            let nul = window.windows(2).position(|pair| pair == b"\0{");
            let nul = nul.filter(|_| window.starts_with(b"{"));
            match (newline, nul) {
                (newline, Some(nul)) if newline.is_none_or(|newline| nul < newline) => {
                    return model_plain(Framing::Nul, max, stream, lines);
                }
                (Some(at), _) if is_glued => (end, end_bytes) = (Some(at), 1),
                (Some(_), _) => return model_plain(Framing::Newline, max, stream, lines),
                _ => {}
            }
            if let Some((header, count)) = model_count(window, false)
                && regex("^[1-9][0-9]{0,8} ")
                    .is_match(window.get(header + count..).unwrap_or_default())
            {
                return model_plain(Framing::Counted, max, stream, lines);
            }
        }
        let end = end.or((stream.len() >= max).then_some(max));
        let bytes = end.unwrap_or(stream.len());
        let message = &stream[..bytes];
        stream = &stream[bytes + end_bytes..];
        let message = match end {
            Some(_) => message,
            None => message.strip_suffix(b"\n").or(message.strip_suffix(b"\0")).unwrap_or(message),
        };
        if !message.is_empty() {
            lines.push((message.to_vec(), false));
        }
    }
}

fn model_plain(framing: Framing, max: usize, mut stream: &[u8], lines: &mut Lines) {
    let end_byte = if framing == Framing::Nul { 0 } else { b'\n' };
    let (mut is_counted, mut unit) = (false, Unit::Unknown);
    while !stream.is_empty() {
        let are_counted = is_counted || framing == Framing::Counted;
        if are_counted && let Some(rest) = stream.strip_prefix(b"0 ") {
            stream = rest.strip_prefix(b"\n").unwrap_or(rest);
            is_counted = true;
            continue;
        }
        let header = model_count(stream, !are_counted);
        let (line, cut);
        if let Some((header_bytes, count)) = header {
            is_counted = true;
            stream = &stream[header_bytes..];
            let came = &stream[..count.min(stream.len())];
            cut = count > max && came.len() >= max;
            let ended = came.len() == count && !cut;
            line = if ended { without_newline(came) } else { &came[..came.len().min(max)] };
            stream = &stream[came.len()..];
            let may_be_short = ended
                && unit != Unit::Bytes
                && !came.is_ascii()
                && !came.starts_with(b"zx")
                && !came.ends_with(b"\n")
                && count + START_BYTES_MAX <= max;
            if may_be_short && !stream.is_empty() {
                let may_begin = matches!(stream[0], b'\n' | b'<');
                if model_is_lost(stream) || (unit == Unit::Characters && !may_begin) {
                    (stream, is_counted) = model_lost(max, came, stream, &mut unit, lines);
                    continue;
                }
                unit = Unit::Bytes;
            }
            if came.len() == count {
                stream = stream.strip_prefix(b"\n").unwrap_or(stream);
            }
        } else if is_counted && model_is_lost(stream) {
            (stream, is_counted) = model_lost(max, b"", stream, &mut unit, lines);
            continue;
        } else {
            is_counted = false;
            let end = stream.iter().position(|&b| b == end_byte).unwrap_or(stream.len());
            cut = end > max;
            let kept = &stream[..end.min(max)];
            line = if framing == Framing::Nul && !cut { without_newline(kept) } else { kept };
            stream = &stream[(end + 1).min(stream.len())..];
            if line.is_empty() && framing == Framing::Nul {
                continue;
            }
        }
        // If only the count of a counted message arrived, it is not a line yet.
        if !(line.is_empty() && stream.is_empty() && header.is_some()) {
            lines.push((line.to_vec(), cut));
        }
    }
}

/// Whether nothing that can follow a counted message begins here. At the end of the stream that
/// includes what may become a count.
fn model_is_lost(stream: &[u8]) -> bool {
    let may_become_count = regex("^([1-9][0-9]{0,8}( (<[0-9]{0,3})?)?|0)$").is_match(stream)
        && !regex("^(1 <|2 <[0-9])").is_match(stream)
        && !regex("^3 <[0-9]{2}").is_match(stream)
        && !regex("^4 <[0-9]{3}").is_match(stream);
    !may_become_count
        && !matches!(stream[0], b'\n' | b'<')
        && !stream.starts_with(b"0 ")
        && model_count(stream, false).is_none()
}

/// Emits what is up to the next newline or count with a priority, behind `held`. Returns the rest,
/// and whether it begins with a count.
fn model_lost<'a>(
    max: usize,
    held: &[u8],
    stream: &'a [u8],
    unit: &mut Unit,
    lines: &mut Lines,
) -> (&'a [u8], bool) {
    let text = [held, stream].concat();
    let behind = |at: usize| &stream[at - held.len()..];
    let mut start = 0;
    loop {
        let window = &text[start..text.len().min(start + max)];
        let from = held.len().saturating_sub(start);
        let header = (from..window.len()).find(|&at| model_count(&window[at..], true).is_some());
        let mut looked_at = text[start..].iter().take(max + 1).enumerate().skip(from);
        let newline = looked_at.find(|(_, byte)| **byte == b'\n').map(|(at, _)| at);
        let newline = newline.filter(|newline| header.is_none_or(|header| *newline < header));
        let mut end = newline.or(header).unwrap_or(window.len());
        if newline.is_none() && start == 0 && !held.is_empty() {
            // The run of digits may belong to the message: it has the announced number of
            // characters.
            let digits = window[end..].iter().take_while(|byte| byte.is_ascii_digit()).count();
            let fits = |at: &usize| {
                let points = window[..*at].iter().filter(|byte| **byte & 0xc0 != 0x80).count();
                let pairs = window[..*at].iter().filter(|byte| **byte >= 0xf0).count();
                let fits = points == held.len() || points + pairs == held.len();
                fits && window[*at] != b'0'
            };
            if header.is_some()
                && let Some(fitting) = (end..end + digits).find(fits)
            {
                (end, *unit) = (fitting, Unit::Characters);
            }
        }
        if end > 0 {
            lines.push((window[..end].to_vec(), false));
        }
        start += end;
        match (newline, header) {
            (Some(_), _) => return (behind(start + 1), false),
            (None, Some(_)) => return (behind(start), true),
            (None, None) if start == text.len() => return (b"", true),
            (None, None) => {}
        }
    }
}

#[test]
fn each_message_has_its_own_framing() {
    let check = |stream: &str, expected: &[&str], ending: Ending| {
        let (lines, found_ending) = split(64, [stream.as_bytes()].into_iter());
        let expected: Lines = expected.iter().map(|l| (l.as_bytes().to_vec(), false)).collect();
        assert_eq!((lines, found_ending), (expected, ending), "{stream:?}");
    };
    use Ending::*;
    // Newline framing, with CR, without the last newline, empty lines.
    check("<13>a\n<14>b\n", &["<13>a", "<14>b"], Complete);
    check("<13>a\r\n\nb", &["<13>a\r", "", "b"], Unterminated);
    check("", &[], Complete);
    // Octet counting; newline counted, not counted, in the middle, absent.
    check("5 <13>a5 <14>b", &["<13>a", "<14>b"], Complete);
    check("6 <13>a\n6 <14>b\n", &["<13>a", "<14>b"], Complete);
    check("5 <13>a\n5 <14>b\n", &["<13>a", "<14>b"], Complete);
    check("7 <13>a\nb<14>c\n", &["<13>a\nb", "<14>c"], Complete);
    check("6 <13>a\n\nx\n", &["<13>a", "x"], Complete);
    check("3 <1>x\n", &["<1>", "x"], Complete);
    check("9 <13>a", &["<13>a"], Short);
    check("9 <13", &["9 <13"], Unterminated);
    // Both on one connection.
    check("<1>a\n4 <2>b<3>c\n4 <4>d", &["<1>a", "<2>b", "<3>c", "<4>d"], Complete);
    // Plain lines that begin with digits, or with a count that cannot be one.
    check("404 not found\n12 <b>\n7 \n7", &["404 not found", "12 <b>", "7 ", "7"], Unterminated);
    check("05 <13>a\n5  <13>a\n-5 <13>a\n", &["05 <13>a", "5  <13>a", "-5 <13>a"], Complete);
    check("1234567890 <13>a\n", &["1234567890 <13>a"], Complete);
    check("2 <13>a\n5 <>a\n9 <1234>a\n", &["2 <13>a", "5 <>a", "9 <1234>a"], Complete);
    // A count that is wrong but possible: too small, then too large.
    check("4 <1>ab\n<2>c\n", &["<1>a", "b", "<2>c"], Complete);
    check("9 <1>a\n<2>b\n<3>c\n", &["<1>a\n<2>b", "<3>c"], Complete);
}

#[test]
fn the_first_message_may_come_in_two_parts_with_a_pause() {
    for (first, rest, expected) in [
        ("<14>Oct 11 22:14:15 h a: hel", "lo\n<14>b\n", "<14>Oct 11 22:14:15 h a: hello"),
        (
            "<14>1 2026-01",
            "-01T00:00:00Z h a - - - x\0<14>b\0",
            "<14>1 2026-01-01T00:00:00Z h a - - - x",
        ),
        ("{\"a\":", "1}\n{}\n", "{\"a\":1}"),
        ("1", "1 <14>hello w7 <14>b c", "<14>hello w"),
        ("hel", "lo\n", "hello"),
    ] {
        let mut splitter = LineSplitter::new();
        let mut lines = Vec::new();
        splitter.split(first.as_bytes(), &mut |_| panic!("{first}"));
        splitter.pause(&mut |_| panic!("{first}"));
        splitter.split(rest.as_bytes(), &mut |piece| match piece {
            LinePiece::Lines(bytes) => {
                lines.extend(bytes.split(|&b| b == b'\n').map(<[u8]>::to_vec))
            }
            LinePiece::Line { bytes, .. } => lines.push(bytes.to_vec()),
        });
        assert_eq!(lines[0], expected.as_bytes());
    }
    // Several messages need no longer pause.
    let mut splitter = LineSplitter::new();
    let mut lines = 0;
    splitter.split(b"<14>Oct 11 22:14:15 h a: b<14>Oct 11 22:14:15 h a: c", &mut |_| lines += 1);
    splitter.pause(&mut |_| lines += 1);
    assert_eq!(lines, 2);
}

/// Each line of a stream, `!` in front of those in which the framing was lost.
fn marked(stream: &[u8]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut emit = |piece: LinePiece<'_>| match piece {
        LinePiece::Lines(bytes) => {
            let text = String::from_utf8_lossy(bytes.strip_suffix(b"\n").unwrap());
            lines.extend(text.split('\n').map(str::to_owned));
        }
        LinePiece::Line { bytes, lost, .. } => {
            let mark = if lost { "!" } else { "" };
            lines.push(format!("{mark}{}", String::from_utf8_lossy(bytes)));
        }
    };
    let mut splitter = LineSplitter::new();
    splitter.split(stream, &mut emit);
    splitter.end(&mut emit);
    lines
}

/// Checks the lines of a stream, `!` in front of those in which the framing was lost.
fn check_marked(stream: &str, expected: &[&str]) {
    assert_eq!(marked(stream.as_bytes()), expected, "{stream:?}");
    let bytes = stream.as_bytes();
    let expected: Lines =
        expected.iter().map(|line| (line.trim_start_matches('!').into(), false)).collect();
    for read_bytes in 1..=bytes.len() {
        assert_eq!(split(1000, bytes.chunks(read_bytes)).0, expected, "{stream:?}");
    }
    assert_eq!(model(1000, bytes), expected, "{stream:?}");
}

#[test]
fn behind_a_counted_message_a_count_needs_no_priority() {
    check_marked("5 <13>a5 no pr5 <14>b", &["<13>a", "no pr", "<14>b"]);
    check_marked("5 <13>a7 {\"a\":1}5 <14>b", &["<13>a", "{\"a\":1}", "<14>b"]);
    check_marked("5 <13>a0 5 <14>b", &["<13>a", "<14>b"]);
    check_marked("5 <13>a\n3 x\ny\n5 <14>b\n", &["<13>a", "x\ny", "<14>b"]);
    check_marked("5 hello5 world0 5 again", &["hello", "world", "again"]);
    // A newline-framed message follows.
    check_marked("5 <13>a<14>b\n404 not found\n", &["<13>a", "<14>b", "404 not found"]);
    // A count that does not even cover the priority is none.
    check_marked("5 <13>a3 <13>b\n5 <14>c", &["<13>a", "!3 <13>b", "<14>c"]);
}

#[test]
fn compressed_messages_are_counted_among_newline_framed_ones() {
    let stream = b"<13>a\n12 zx\x9c\n<13>\n\xff\xfe\n<13>b\n404 zxy\n5 zx\x9c\n7 zoo\n";
    let lines =
        ["<13>a", "zx\u{9c}\n<13>\n\u{ff}\u{fe}\n", "<13>b", "404 zxy", "5 zx\u{9c}", "7 zoo"];
    let bytes = |line: &str| line.chars().map(|c| c as u8).collect::<Vec<u8>>();
    let expected: Lines = lines.iter().map(|line| (bytes(line), false)).collect();
    for read_bytes in 1..=stream.len() {
        assert_eq!(split(1000, stream.chunks(read_bytes)).0, expected, "by {read_bytes}");
    }
    assert_eq!(model(1000, stream), expected);
}

#[test]
fn a_lost_framing_is_found_again_at_once() {
    /// The messages as a sender writes them that counts characters.
    fn counted(messages: &[&str]) -> String {
        messages.iter().map(|text| format!("{} {text}", text.chars().count())).collect()
    }
    // The rest of a message of which characters were counted belongs to it, also if it ends with
    // digits.
    check_marked(&counted(&["<13>hîïç wörds", "<14>two"]), &["!<13>hîïç wörds", "<14>two"]);
    check_marked(&counted(&["<13>äö user=u5", "<14>two"]), &["!<13>äö user=u5", "<14>two"]);
    check_marked(
        &counted(&["<13>ää", "<14>ö 7", "<15>x", "<14>ü05"]),
        &["!<13>ää", "!<14>ö 7", "<15>x", "!<14>ü05"],
    );
    check_marked(&counted(&["<13>a", "<14>üx", "<15>b"]), &["<13>a", "!<14>üx", "<15>b"]);
    check_marked(&counted(&["<13>a", "<14>üx"]), &["<13>a", "!<14>üx"]);
    // UTF-16 has two units for a character beyond its first plane.
    check_marked("7 <13>\u{1f600}x5 <14>b", &["!<13>\u{1f600}x", "<14>b"]);
    // Bytes were counted, and one message shows it.
    check_marked("6 <13>ä5 <14>b6 <15>öxx\n5 <14>b", &["<13>ä", "<14>b", "<15>ö", "!xx", "<14>b"]);
    // Wrong for another reason, too small and too large.
    check_marked("6 <13>text\n5 <14>b", &["<13>te", "!xt", "<14>b"]);
    check_marked("6 <13>text5 <14>b", &["<13>te", "!xt", "<14>b"]);
    check_marked("9 <13>a8 <14>bcdtext5 <14>b", &["<13>a8 <1", "!4>bcdtext", "<14>b"]);
    // A priority alone is not enough, it may be text.
    check_marked("6 <13>text <14>b\n5 <14>c", &["<13>te", "!xt <14>b", "<14>c"]);
}

#[test]
fn a_message_that_may_be_longer_than_its_count_waits_a_moment() {
    let mut splitter = LineSplitter::new();
    let mut lines = Vec::new();
    let mut emit = |piece: LinePiece<'_>| lines.push(format!("{piece:?}"));
    splitter.split("6 <13>ä".as_bytes(), &mut emit);
    assert_eq!(splitter.pause_after(), Some(PAUSE_AT_END));
    splitter.pause(&mut emit);
    assert_eq!((splitter.carried_bytes(), splitter.pause_after()), (0, None));
    splitter.split("6 <13>ö".as_bytes(), &mut emit);
    splitter.cut(&mut emit);
    // A further message shows that its sender counts bytes. From then on none waits.
    splitter.split("6 <13>ü6 <13>ä".as_bytes(), &mut emit);
    assert_eq!(splitter.carried_bytes(), 0);
    // The rest of a message does not wait for the next one, either.
    splitter.split(b"rest", &mut emit);
    assert_eq!(splitter.pause_after(), Some(PAUSE_AT_END));
    splitter.pause(&mut emit);
    splitter.split(b"6 <13>ab", &mut emit);
    let is_lost = lines.iter().map(|line| line.contains("lost: true")).collect::<Vec<_>>();
    assert_eq!(is_lost, [false, false, false, false, true, false], "{lines:?}");
}

#[test]
fn every_split_into_reads_gives_the_same_lines() {
    let stream = b"<13>one\r\n\n15 <14>two\nlines..\n11 <1>no count\n7 <2>four7 <3>five\n\
        123 <4\n12345678901 <5>\n20 <6>longer than may beplain line\xff\0\n6 <7>six9 <8>short";
    for max in [15, 16, 64] {
        let expected = model(max, stream);
        for first in 0..=stream.len() {
            for second in first..=stream.len() {
                let reads = [&stream[..first], &stream[first..second], &stream[second..]];
                let (lines, ending) = split(max, reads.into_iter());
                assert_eq!(lines, expected, "split at {first} and {second}, limit {max}");
                assert_eq!(ending, Ending::Short);
            }
        }
        assert_eq!(split(max, stream.chunks(1)).0, expected);
    }
}

#[test]
fn lines_are_cut_at_the_limit_and_not_before() {
    for max in [15, 100, LINE_BYTES_MAX] {
        for bytes in [max - 1, max, max + 1, max + 2, 3 * max] {
            let line = [b"<1>", vec![b'x'; bytes - 3].as_slice()].concat();
            let kept = (line[..bytes.min(max)].to_vec(), bytes > max);
            let next = (b"<2>next".to_vec(), false);
            let plain = [line.as_slice(), b"\n<2>next\n"].concat();
            let counted = [bytes.to_string().as_bytes(), b" ", &line, b"\n7 <2>next"].concat();
            for stream in [plain, counted] {
                for read_bytes in [stream.len(), 64 << 10, 7] {
                    if stream.len() / read_bytes > 1 << 16 {
                        continue;
                    }
                    let (lines, ending) = split(max, stream.chunks(read_bytes));
                    assert!(lines == [kept.clone(), next.clone()], "{bytes} bytes, {max} max");
                    assert_eq!(ending, Ending::Complete);
                }
            }
        }
    }
}

#[test]
fn a_survey_finds_counts_at_any_position() {
    for bytes in [0, 1, 2, 3, 31, 32, 33, 64, 100, 500] {
        assert_eq!(survey(&vec![b'\n'; bytes]), (bytes as u32, false));
        for at in 0..bytes.saturating_sub(2) {
            let mut sample = vec![b'<'; bytes];
            sample[at..at + 3].copy_from_slice(b"9 <");
            assert_eq!(survey(&sample), (0, true), "at {at} of {bytes}");
            if at + 4 <= bytes {
                sample[at + 2..at + 4].copy_from_slice(b"zx");
                assert_eq!(survey(&sample), (0, true), "at {at} of {bytes}");
            }
            sample[at] = b':';
            assert_eq!(survey(&sample), (0, false), "at {at} of {bytes}");
        }
    }
}

#[test]
fn connections_of_counted_messages_are_not_read_in_place() {
    let mut splitter = LineSplitter::new();
    let is_in_place = |splitter: &LineSplitter| splitter.carried_in_place().is_some();
    let found = splitter.split_in_place(b"<1>a\n5 <13>a5 <");
    assert_eq!(found, InPlace { bytes: 5, lines: 1, is_rest_carried: false });
    splitter.split(b"5 <13>a5 <", &mut |_| {});
    assert!(!is_in_place(&splitter));
    splitter.split(b"13>a", &mut |_| {});
    assert!(!is_in_place(&splitter));
    splitter.split(b"<13>plain\n<13>", &mut |_| {});
    assert_eq!(splitter.carried_in_place(), Some(b"<13>".as_slice()));
    splitter.cut(&mut |_| {});
    assert!(!is_in_place(&splitter));
    splitter.split(b"\n", &mut |_| {});
    assert!(is_in_place(&splitter));
    // The start of a line that is too long to be copied with each read.
    let long = vec![b'x'; CARRY_IN_PLACE_BYTES_MAX];
    assert!(splitter.split_in_place(&long).is_rest_carried);
    assert!(is_in_place(&splitter));
    splitter.split(b"x", &mut |_| {});
    assert!(!is_in_place(&splitter));
}

#[test]
fn a_caller_may_cut_a_line_short() {
    for (stream, kept) in [("<1>abcdef\n<2>x\n", "<1>ab"), ("9 <1>abcdef4 <2>x", "<1>")] {
        let mut splitter = LineSplitter::new();
        let mut pieces = Vec::new();
        let mut emit = |piece: LinePiece<'_>| pieces.push(format!("{piece:?}"));
        splitter.cut(&mut emit);
        splitter.split(&stream.as_bytes()[..5], &mut emit);
        splitter.cut(&mut emit);
        assert_eq!(splitter.carried_bytes(), 0);
        splitter.split(&stream.as_bytes()[5..], &mut emit);
        assert_eq!(splitter.end(&mut emit), Ending::Complete);
        assert_eq!(pieces.len(), 2, "{pieces:?}");
        let cut = LinePiece::Line { bytes: kept.as_bytes(), cut: true, lost: false };
        assert_eq!(pieces[0], format!("{cut:?}"));
    }
}

#[test]
fn a_large_carry_over_is_freed() {
    let mut splitter = LineSplitter::new();
    splitter.split(&vec![b'x'; 1 << 20], &mut |_| {});
    assert_eq!(splitter.carried_bytes(), 1 << 20);
    splitter.split(b"\n", &mut |_| {});
    assert_eq!(splitter.carry.capacity(), 0);
}

/// Streams in which both framings, near misses and splits at bad positions are likely.
fn stream() -> impl Strategy<Value = Vec<u8>> {
    let token = prop_oneof![
        prop::sample::select(vec![
            "\n",
            "\r\n",
            " ",
            "<",
            ">",
            "0",
            "1",
            "2",
            "3",
            "9",
            "<13>",
            "\0",
            "\0<13>",
            "\n<1>",
            "<13>Oct ",
            "<13>1 ",
            "<13>2026-",
            "{",
            "\0{",
            "5 hello",
            "4 ä<1>",
            "ä",
            "5 zx\x01",
            "a<13>1 ",
            "a<13>Oct ",
            "GET / HTTP/1.1\n",
            "1 open 0\n"
        ])
        .prop_map(|token| token.as_bytes().to_vec()),
        prop::collection::vec(any::<u8>(), 0..30),
        (0usize..40).prop_map(|n| format!("{n} <13>{}", "x".repeat(n.max(4) - 4)).into_bytes()),
    ];
    prop::collection::vec(token, 0..30).prop_map(|tokens| tokens.concat())
}

proptest! {
    #[test]
    fn agrees_with_the_reference_model(
        stream in stream(),
        cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..8),
        max in 15usize..60,
    ) {
        let mut borders: Vec<usize> = cuts.iter().map(|c| c.index(stream.len() + 1)).collect();
        borders.extend([0, stream.len()]);
        borders.sort_unstable();
        let reads = borders.windows(2).map(|border| &stream[border[0]..border[1]]);
        let text = stream.escape_ascii();
        prop_assert_eq!(split(max, reads).0, model(max, &stream), "{}, limit {}", text, max);
    }
}

/// The lines of a stream in which each part is followed by a pause.
fn paused(parts: &[&str]) -> Vec<String> {
    let mut splitter = LineSplitter::new();
    let mut lines = Vec::new();
    let mut emit = |piece: LinePiece<'_>| match piece {
        LinePiece::Lines(bytes) => {
            let text = std::str::from_utf8(bytes).unwrap();
            lines.extend(text.strip_suffix('\n').unwrap().split('\n').map(str::to_owned));
        }
        LinePiece::Line { bytes, .. } => lines.push(String::from_utf8(bytes.to_vec()).unwrap()),
    };
    for part in parts {
        splitter.split(part.as_bytes(), &mut emit);
        while let Some(before) = splitter.pause_after() {
            splitter.pause(&mut emit);
            if splitter.pause_after() <= Some(before) {
                break;
            }
        }
    }
    splitter.end(&mut emit);
    lines
}

#[test]
fn each_connection_has_its_own_end_of_messages() {
    let check = |stream: &str, expected: &[&str]| {
        let expected: Lines = expected.iter().map(|l| (l.as_bytes().to_vec(), false)).collect();
        let (found, _) = split(1000, [stream.as_bytes()].into_iter());
        assert_eq!(found, expected, "{stream:?}");
        assert_eq!(split(1000, stream.as_bytes().chunks(1)).0, expected, "{stream:?}");
        assert_eq!(model(1000, stream.as_bytes()), expected, "{stream:?}");
    };
    // NULs, as Python's SysLogHandler sends them; with newlines in the message and at its end.
    check("<14>a\0<14>b\0", &["<14>a", "<14>b"]);
    check("<14>a\0", &["<14>a"]);
    check("<14>a\n at b\n at c\0<14>d\ne\0<14>f", &["<14>a\n at b\n at c", "<14>d\ne", "<14>f"]);
    check("<14>a\n\0<14>b\n\0\0<14>c\0", &["<14>a", "<14>b", "<14>c"]);
    check("<14>a <13> b\0<14>c\0", &["<14>a <13> b", "<14>c"]);
    check("<14>a\0<14>\0text\0<14>b\0", &["<14>a", "<14>", "text", "<14>b"]);
    // GELF.
    check("{\"a\":1}\0{\"b\":2}\0", &["{\"a\":1}", "{\"b\":2}"]);
    check("{\"a\":1}\0", &["{\"a\":1}"]);
    // Newlines with NULs in lines, and both behind each line.
    check("<14>a\n<14>b\0<14>c\0d\n", &["<14>a", "<14>b\0<14>c\0d"]);
    check("<14>a\0b\n<14>c\n", &["<14>a\0b", "<14>c"]);
    check("<14>a\0\n<14>b\0\n", &["<14>a\0", "<14>b\0"]);
    check("plain\0text\n<14>b\0<14>\n", &["plain\0text", "<14>b\0<14>"]);
    check("{\"a\":1}\n\0{\n", &["{\"a\":1}", "\0{"]);
    check("<14>a\n b\n<14>c <14> d\n", &["<14>a", " b", "<14>c <14> d"]);
    check("<14>a\n b\n", &["<14>a", " b"]);
    check("6 <14>a\n<14>b\0<14>c\n", &["<14>a", "<14>b\0<14>c"]);
    // No terminator; a priority within a text does not start a message if the message has a time.
    check("<14>a<14>b<14>c", &["<14>a", "<14>b", "<14>c"]);
    check(
        "<14>Oct 11 22:14:15 h a: see <13> and <1>1 x<14>Oct 11 22:14:15 h a: b\n at c",
        &["<14>Oct 11 22:14:15 h a: see <13> and <1>1 x", "<14>Oct 11 22:14:15 h a: b\n at c"],
    );
    check(
        "<14>1 - - - - - - a<14>b<14>1 - - - - - - c",
        &["<14>1 - - - - - - a<14>b", "<14>1 - - - - - - c"],
    );
    check(
        "<14>2026-01-01 a<14>1 b<14>2026-01-01 c",
        &["<14>2026-01-01 a<14>1 b", "<14>2026-01-01 c"],
    );
    // Counts without a priority.
    check("5 hello5 world", &["hello", "world"]);
    check("11 {\"a\":\"b\\n\"}2 ab", &["{\"a\":\"b\\n\"}", "ab"]);
    check("5 hello", &["hello"]);
    check("5 hello\n5 world\n", &["5 hello", "5 world"]);
    check("3 errors in 5 files\n", &["3 errors in 5 files"]);
    // Other protocols.
    check("GET / HTTP/1.1\r\nHost: a\r\n\r\n", &[]);
    check("1 open 12 relp_version=0\n2 syslog 5 <13>a\n", &[]);
}

#[test]
fn a_pause_ends_messages_without_terminator() {
    assert_eq!(
        paused(&["<14>a", "<14>b", "c", "<14>d<14>e"]),
        ["<14>a", "<14>b", "c", "<14>d", "<14>e"]
    );
    assert_eq!(paused(&["<14>a\n at b", "<14>c\n"]), ["<14>a\n at b", "<14>c"]);
    assert_eq!(paused(&["hello", "world"]), ["hello", "world"]);
    // An interruption splits the first line in two; after that, newlines are detected.
    assert_eq!(paused(&["<14>hel", "lo\n<14>b\n<14>", "c\n"]), ["<14>hel", "lo", "<14>b", "<14>c"]);
    // Messages with a terminator are not cut by pauses.
    assert_eq!(paused(&["<14>a\n", "<14>", "b\n<14>c", "d\n"]), ["<14>a", "<14>b", "<14>cd"]);
    assert_eq!(paused(&["<14>a\0", "<14>b", "c\0"]), ["<14>a", "<14>bc"]);
    assert_eq!(paused(&["{\"a\":1}\0", "{\"b\":", "2}\0"]), ["{\"a\":1}", "{\"b\":2}"]);
    assert_eq!(paused(&["", "<14>a\n<14>b", "c\n"]), ["<14>a", "<14>bc"]);
    let mut splitter = LineSplitter::new();
    assert_eq!(splitter.pause_after(), None);
    splitter.split(b"<14>a", &mut |_| {});
    assert_eq!(splitter.pause_after(), Some(PAUSE));
    splitter.pause(&mut |_| panic!("a part of the first message"));
    assert_eq!(splitter.pause_after(), Some(PAUSE_AT_START));
    splitter.split(b"b", &mut |_| {});
    assert_eq!(splitter.pause_after(), Some(PAUSE));
    splitter.split(b"\n", &mut |_| {});
    assert_eq!(splitter.pause_after(), Some(PAUSE_AT_END));
    splitter.split(b"<14>a\nb", &mut |_| {});
    assert_eq!(splitter.pause_after(), None, "newlines end messages");
}

#[test]
fn messages_without_an_end_are_apart_from_those_with_a_newline() {
    let message = |number: usize| format!("<155>Nov 28 13:59:34 vm app: line {number} a=b");
    let exception = ["boom", "java.lang.E: bad", "\tat M.main"];
    let exception: Vec<String> =
        exception.iter().map(|text| format!("<155>Nov 28 13:59:34 vm {text}")).collect();
    let ended: String = exception.iter().map(|line| format!("{line}\n")).collect();
    let many = |range: Range<usize>| range.map(message).collect::<Vec<_>>();
    let lines = |parts: &[&[String]]| parts.concat();
    // Few and many messages, then an exception, then messages again; in one write and in several.
    for count in [1, 3, 300, 1000] {
        let (before, after) = (many(1..count + 1), many(count + 1..2 * count + 1));
        let stream = [before.concat(), ended.clone(), after.concat()].concat();
        let expected = lines(&[&before, &exception, &after]);
        for read_bytes in [stream.len(), 100, 5200] {
            let stream = stream.as_bytes();
            let (found, _) = split(LINE_BYTES_MAX, stream.chunks(read_bytes));
            let found: Vec<String> =
                found.into_iter().map(|(line, _)| String::from_utf8(line).unwrap()).collect();
            assert!(found == expected, "{count} by {read_bytes}: {} lines", found.len());
        }
    }
    // The exception first: its newlines are the first sign of an end, and a pause shows that the
    // messages behind it have none.
    let after = many(1..4);
    assert_eq!(paused(&[&ended, &after.concat()]), lines(&[&exception, &after]));
    // A relay puts messages into its own; and those without a time may be text.
    for line in ["<13>Oct 11 22:14:15 relay fwd: <13>Oct 11 22:14:15 h a: b", "<13>a<13>b"] {
        assert_eq!(paused(&[&format!("{line}\n{line}\n")]), [line, line]);
        assert_eq!(paused(&[&format!("{line}\n{line}\n{line}"), "\n"]), [line, line, line]);
    }
}

#[test]
fn a_connection_that_decides_nothing_is_bounded() {
    let max = opening::OPENING_BYTES_MAX;
    for (unit, lines) in [("<14>a\nb\n", 2), ("<14>a\0b ", 1), ("{\"a\":\0 ", 1), ("<14>", 1)] {
        let stream = unit.repeat(2 * max / unit.len());
        let mut splitter = LineSplitter::new();
        let mut found = 0;
        for read in stream.as_bytes().chunks(1000) {
            splitter.split(read, &mut |_| found += 1);
            assert!(splitter.carried_bytes() <= 2 * max, "{unit:?}");
        }
        assert!(found >= lines || unit.starts_with('<') || unit.starts_with('{'), "{unit:?}");
    }
    // Refused: nothing is held.
    let mut splitter = LineSplitter::new();
    splitter.split(b"\x16\x03\x01\x02\x00\x01", &mut |_| panic!("a line"));
    assert_eq!(splitter.foreign(), Some(Foreign::Tls));
    splitter.split(&[b'\n'; 1000], &mut |_| panic!("a line"));
    assert_eq!(splitter.carried_bytes(), 0);
    assert_eq!(splitter.end(&mut |_| panic!("a line")), Ending::Complete);
}
