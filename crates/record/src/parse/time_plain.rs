//! Times at or near the beginning of plain lines, found by a table of formats.
//!
//! A format is a pattern for the start of the line. Lines of one source look alike, so the format
//! that matched last is tried first. Left out: times further in, and formats that could equally be
//! a number or a name.

use super::time::{self, Written};

/// Letters stand for: `Y` four digits of the year, `y` two (2000 to 2099), `M` two digits of the
/// month, `b` its English name, `D` day (two digits or a blank and one), `h` `m` `s` two digits
/// each, `f` a fraction of any length, `F` one of three, six or nine digits, `H` `N` `S` hour,
/// minute and second of one or two digits, `k` milliseconds, `U` ten digits of seconds since 1970,
/// `a` a weekday, `*` a word, `#` a number, `I` an ISO time with all its variants ([`time::iso`]),
/// `L` a letter for the level. Anything else matches literally.
const FORMS: [&str; 27] = [
    "I",
    "[I",
    "y/M/D h:m:s",  // Spark
    "yMD hms ",     // HDFS
    "YMD-H:N:S:k|", // HealthApp
    "Y.M.D h:m:s",
    "[a b D h:m:s Y]",   // Apache error log
    "[a b D h:m:s.f Y]", // the same since 2.4
    "[D/b/Y:h:m:s",
    "D/b/Y:h:m:s",
    "* I",              // OpenStack: the file, then the time
    "* U Y.M.D ",       // BGL
    "# * * * U ",       // HPC
    "LMD h:m:s.f ",     // klog and glog, without a year
    "LYMD h:m:s.f ",    // glog since 0.5
    "* [I",             // Ruby: `I, [`
    "yMD h:m:s ",       // MySQL and MariaDB of old
    "D-b-Y h:m:s",      // Tomcat, BIND
    "D b Y h:m:s",      // day first, as people write it
    "* D b Y h:m:s.f ", // Redis: process and role, then the time
    "a b D h:m:s Y",    // ctime
    "a, D b Y h:m:s",   // RFC 2822
    "U.f\t",            // zap without a time encoder
    "U.F ",             // Squid
    "[U]",              // Nagios
    "YMDTh:m:s",        // ISO 8601 without dashes
    "YMDThms",          // and without colons
];

/// For each byte the formats that a line beginning with it may have, one bit each: this excludes
/// most formats for most lines.
const STARTS: [u32; 256] = {
    let mut starts = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let b = byte as u8;
        let mut index = 0;
        while index < FORMS.len() {
            let fits = match FORMS[index].as_bytes()[0] {
                b'I' | b'Y' | b'y' | b'U' | b'#' => b.is_ascii_digit(),
                b'D' => b.is_ascii_digit() || b == b' ',
                b'L' | b'a' => b.is_ascii_uppercase(),
                b'*' => b != b' ',
                literal => literal == b,
            };
            if fits {
                starts[byte] |= 1 << index;
            }
            index += 1;
        }
        byte += 1;
    }
    starts
};

/// Finds the time of a line; `memo` is the index of the format that matched last. Returns the time,
/// and the offset behind it.
pub(crate) fn find(line: &[u8], memo: &mut usize) -> Option<(Written, usize)> {
    let mut candidates = STARTS[usize::from(*line.first()?)];
    if candidates & 1 << *memo != 0
        && let Some(found) = fit(FORMS[*memo], line)
    {
        return Some(found);
    }
    while candidates != 0 {
        let index = candidates.trailing_zeros() as usize;
        if let Some(found) = fit(FORMS[index], line) {
            *memo = index;
            return Some(found);
        }
        candidates &= candidates - 1;
    }
    match line {
        [b't', b'y', b'p', b'e', b'=', ..] | [b'n', b'o', b'd', b'e', b'=', ..] => audit(line),
        // Terminal colours are skipped.
        [0x1b, ..] => {
            let colours = super::level::colours(line);
            let (written, length) = find(line.get(colours..).filter(|_| colours > 0)?, memo)?;
            Some((written, colours + length))
        }
        _ => None,
    }
}

/// The time of a line of Linux's audit: `type=SYSCALL msg=audit(1769860800.123:456): …`, also with
/// `node=… ` in front.
fn audit(line: &[u8]) -> Option<(Written, usize)> {
    const MARK: &[u8] = b" msg=audit(";
    let window = &line[..line.len().min(2 * WORD_BYTES_MAX)];
    let at = memchr::memmem::find(window, MARK)? + MARK.len();
    let length = line[at..].iter().position(|b| *b == b':')?;
    let (local_s, nanos) = time::since_1970(&line[at..at + length])?;
    Some((Written { local_s, nanos, offset_s: Some(0), has_year: true }, at + length))
}

/// 2100: greater numbers of ten digits are not times.
const SECONDS_END: i64 = 4_102_444_800;

/// Longest word that may precede a time.
const WORD_BYTES_MAX: usize = 128;

fn fit(form: &str, line: &[u8]) -> Option<(Written, usize)> {
    let (mut year, mut month, mut day) = (1970, 1, 1);
    let (mut hour, mut minute, mut second, mut nanos) = (0, 0, 0, 0);
    let mut since_1970 = None;
    let mut has_year = false;
    let mut at = 0;
    for letter in form.bytes() {
        let rest = line.get(at..)?;
        at += match letter {
            b'Y' => {
                has_year = true;
                year = i64::from(time::two(rest, 0)? * 100 + time::two(rest, 2)?);
                4
            }
            b'y' => {
                has_year = true;
                year = 2000 + i64::from(time::two(rest, 0)?);
                2
            }
            b'M' => {
                month = time::two(rest, 0)?;
                2
            }
            b'b' => {
                month = time::month_number(rest.first_chunk()?)?;
                3
            }
            b'L' => matches!(rest.first()?, b'I' | b'W' | b'E' | b'F').then_some(1)?,
            b'D' => {
                day = match rest.first()? {
                    b' ' => time::number(&rest[1..], 1)?.0,
                    _ => time::two(rest, 0)?,
                };
                2
            }
            b'H' => digits_of(&mut hour, rest, 2)?,
            b'N' => digits_of(&mut minute, rest, 2)?,
            b'S' => digits_of(&mut second, rest, 2)?,
            b'k' => {
                let digits = digits_of(&mut nanos, rest, 3)?;
                nanos *= 1_000_000;
                digits
            }
            b'h' => two_of(&mut hour, rest)?,
            b'm' => two_of(&mut minute, rest)?,
            b's' => two_of(&mut second, rest)?,
            b'f' => {
                let digits;
                (nanos, digits) = time::fraction_digits(rest);
                (digits > 0).then_some(digits)?
            }
            b'F' => {
                let digits;
                (nanos, digits) = time::fraction_digits(rest);
                matches!(digits, 3 | 6 | 9).then_some(digits)?
            }
            b'U' => {
                let (high, _) = time::number(rest, 5).filter(|(_, digits)| *digits == 5)?;
                let (low, digits) = time::number(&rest[5..], 6)?;
                since_1970 = (digits == 5).then_some(i64::from(high) * 100_000 + i64::from(low));
                since_1970.filter(|s| (100_000_000..SECONDS_END).contains(s))?;
                10
            }
            b'a' => {
                const DAYS: [&[u8; 3]; 7] =
                    [b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat", b"Sun"];
                DAYS.contains(&rest.first_chunk()?).then_some(3)?
            }
            b'*' => {
                let head = &rest[..rest.len().min(WORD_BYTES_MAX)];
                memchr::memchr(b' ', head).filter(|n| *n > 0)?
            }
            b'#' => time::number(rest, 9)?.1,
            b'I' => {
                let (written, length) = time::iso(rest)?;
                return Some((written, at + length));
            }
            literal => (*rest.first()? == literal).then_some(1)?,
        };
    }
    if let Some(seconds) = since_1970 {
        return Some((Written { local_s: seconds, nanos, offset_s: Some(0), has_year: true }, at));
    }
    if !has_year {
        // A leap year; the parser determines the actual year.
        year = 1972;
    }
    if form.ends_with('s') {
        nanos = time::fraction(line, &mut at);
    }
    let days = text::civil::days_from_civil(year, month, day)?;
    let local_s = days * 86_400 + time::seconds(hour, minute, second)?;
    let offset_s = time::zone(line, &mut at);
    Some((Written { local_s, nanos, offset_s, has_year }, at))
}

fn digits_of(value: &mut u32, rest: &[u8], digits_max: usize) -> Option<usize> {
    let digits;
    (*value, digits) = time::number(rest, digits_max)?;
    Some(digits)
}

fn two_of(value: &mut u32, rest: &[u8]) -> Option<usize> {
    *value = time::two(rest, 0)?;
    Some(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_known_logs() {
        let rows: &[(&str, i64, u32)] = &[
            ("2015-10-18 18:01:47,978 INFO [main] x", 1_445_191_307, 978_000_000),
            ("[2015-10-18T18:01:47Z] x", 1_445_191_307, 0),
            ("[Sun Dec 04 04:47:44 2005] [notice] x", 1_133_671_664, 0),
            ("[Sun Dec  4 04:47:44 2005] [notice] x", 1_133_671_664, 0),
            ("[Sun Dec 04 04:47:44.250000 2005] [core:error]", 1_133_671_664, 250_000_000),
            ("081109 203615 148 INFO dfs.DataNode", 1_226_262_975, 0),
            ("17/06/09 20:10:40 INFO executor", 1_497_039_040, 0),
            ("20171223-22:15:29:606|Step_LSC|30002312|x", 1_514_067_329, 606_000_000),
            ("20171223-2:5:0:11|Step_LSC|30002312|x", 1_513_994_700, 11_000_000),
            ("2016-09-28 04:30:30, Info    CBS", 1_475_037_030, 0),
            (
                "nova-api.log.1.2017-05-16_13:53:08 2017-05-16 00:00:00.008 25746",
                1_494_892_800,
                8_000_000,
            ),
            ("- 1117838570 2005.06.03 R02-M1-N0-C:J12-U11 2005", 1_117_838_570, 0),
            ("KERNDTLB 1118536327 2005.06.11 R30-M0", 1_118_536_327, 0),
            ("134681 node-246 unix.hw state_change.unavailable 1077804742 1 C", 1_077_804_742, 0),
            ("I20260131 12:00:00.250000  1234 file.cc:1] x", 1_769_860_800, 250_000_000),
            ("I, [2026-01-31T12:00:00.250000 #1234]  INFO -- : x", 1_769_860_800, 250_000_000),
            ("260131 12:00:00 [Note] x", 1_769_860_800, 0),
            ("31-Jan-2026 12:00:00.250 INFO [main] x", 1_769_860_800, 250_000_000),
            ("31 Jan 2026 12:00:00 x", 1_769_860_800, 0),
            ("1234:M 31 Jan 2026 12:00:00.250 * x", 1_769_860_800, 250_000_000),
            ("Sat Jan 31 12:00:00 2026 x", 1_769_860_800, 0),
            ("Sat, 31 Jan 2026 12:00:00 +0000 x", 1_769_860_800, 0),
            ("type=SYSCALL msg=audit(1769860800.250:24287): arch=c0", 1_769_860_800, 250_000_000),
            ("node=h type=CWD msg=audit(1769860800.250:1): cwd", 1_769_860_800, 250_000_000),
            ("1769860800.25\tinfo\tx", 1_769_860_800, 250_000_000),
            ("1769860800.250    178 10.0.0.1 TCP_MISS/200", 1_769_860_800, 250_000_000),
            ("[1769860800] SERVICE ALERT: h", 1_769_860_800, 0),
            ("20260131T12:00:00 x", 1_769_860_800, 0),
            ("20260131T120000Z x", 1_769_860_800, 0),
            (
                "\u{1b}[2m2026-01-31T12:00:00.250Z\u{1b}[0m \u{1b}[32m INFO\u{1b}[0m x",
                1_769_860_800,
                250_000_000,
            ),
        ];
        for (line, seconds, nanos) in rows {
            for start in 0..FORMS.len() {
                let (written, _) = find(line.as_bytes(), &mut start.clone())
                    .unwrap_or_else(|| panic!("no time in {line}"));
                assert_eq!((written.local_s, written.nanos), (*seconds, *nanos), "{line}");
            }
        }
    }

    /// If the year is missing, the day is in 1972.
    #[test]
    fn klog() {
        let (written, length) = find(b"I0131 12:00:00.250000    1234 a.go:1] x", &mut 0).unwrap();
        assert_eq!((written.local_s, written.nanos), (65_707_200, 250_000_000));
        assert_eq!((written.has_year, length), (false, 22));
    }

    #[test]
    fn lines_without_a_time() {
        for line in [
            "",
            "hello",
            "12345",
            "2015-10-18",
            "081109 993615 x",
            "1 node unix.hw x 107780474 1",
            "1 node unix.hw x 10778047421 1",
            "17/13/09 20:10:40",
            "[Xyz Dec 04 04:47:44 2005]",
            "1769860800 x",
            "1769860800.25 x",
            "[9769860800] x",
            "[12345] x",
            "K0131 12:00:00.123456 1 f:1] x",
            "I0131 x",
            "type=SYSCALL x",
            "type=a msg=audit(x:1)",
            "\u{1b}",
            "\u{1b}[",
            "\u{1b}[0m",
            "31-Jan-26 12:00",
            "Sat Jan 31 of 2026",
        ] {
            assert_eq!(find(line.as_bytes(), &mut 0), None, "{line}");
        }
    }
}
