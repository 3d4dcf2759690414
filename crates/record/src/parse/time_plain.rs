//! Times at or near the beginning of plain lines, found by a table of formats.
//!
//! A format is a pattern for the start of the line. Lines of one source look alike, so the format
//! that matched last is tried first. Some programs write the time further in; those are known one
//! by one. Left out: other times further in, and formats that could equally be a number or a name.
//! Where month and day are numbers and either may be first, it is the month, unless the arrival of
//! the line says otherwise ([`time::resolve`]); a year of two digits may be first or last.

use super::short;
use super::time::{self, NO_DATE, NO_OTHERS, Written};
use super::time_zone::{self, WrittenZone};

/// Letters stand for: `Y` four digits of the year, `y` two (2000 to 2099), `q` a date of three
/// short numbers with slashes between, in any order ([`short_date`]), `M` two digits of the month,
/// `b` its name, `D` day (two digits or a blank and one), `d` day of one or two digits, `o` day of
/// the year, `n` and `e` month and day of one or two digits, or day and month; `h` `m` `s` two
/// digits each, `j` the hour with a blank in place of its zero, `H` `N` `S` hour, minute and second
/// of one or two digits, `f` a fraction of any length, `F` one of three, six or nine digits, `k`
/// milliseconds, `P` ` AM`, ` PM` or nothing, `Z` a blank and a zone; `U` ten digits of seconds
/// since 1970, `K` thirteen of milliseconds; `a` a weekday, `*` a word, `#` a number, `I` an ISO
/// time with all its variants ([`time::iso`]), `B` those of [`time::month_first`], `L` a letter for
/// the level, `!` at the end: no more digits. Anything else matches literally. Behind a form that
/// ends with the seconds there may be a fraction, and behind every form AM or PM and a zone.
///
/// Invariant: no line matches two forms with different results, because the form that is tried
/// first depends on the lines before.
const FORMS: [&str; 88] = [
    "I",
    "[I",
    "(I",           // sssd
    "q H:m:s",      // Spark, and others that write the month or the day first
    "yMD hms ",     // HDFS
    "YMD-H:N:S:k|", // HealthApp
    "Y.M.D h:m:s",
    "[a b D h:m:s Y]",   // Apache error log
    "[a b D h:m:s.f Y]", // the same since 2.4
    "(a b D h:m:s Y)",   // sssd of old
    "(a b D h:m:s:f Y)",
    "[D/b/Y:h:m:s",
    "[D/b/Y h:m:s", // Django
    "D/b/Y:h:m:s",
    "D/b/Y h:m:s",
    "* I",              // OpenStack: the file, then the time
    "* U Y.M.D ",       // BGL
    "# * * * U ",       // HPC
    "LMD h:m:s.f ",     // klog and glog, without a year
    "LYMD h:m:s.f ",    // glog since 0.5
    "LyMD h:m:s.f ",    // CockroachDB
    "[L I",             // Jupyter
    "[L yMD h:m:s",     // Tornado
    "* [I",             // Ruby: `I, [`
    "* [D/b/Y:h:m:s",   // CUPS
    "yMD j:m:s",        // MySQL and MariaDB of old
    "Y-M-D j:m:s",      // MariaDB
    "D-b-Y h:m:s",      // Tomcat, BIND
    "d-b-Y h:m:s",      // Oracle
    "[D-b-Y h:m:s",     // PHP
    "DbY h:m:s",        // Check Point
    "d b Y h:m:s",      // day first, as people write it
    "d. b Y h:m:s",     // in German
    "* D b Y h:m:s.f ", // Redis: process and role, then the time
    "* D b h:m:s.f ",   // Redis before 5
    "a b D h:m:s Y",    // ctime
    "a b D h:m:s.f [",  // MongoDB before 2.6
    "a b D Y h:m:s",    // JavaScript
    "\"I",              // OpenAM, and columns in quotes
    "a b D h:m:sPZ Y",  // date
    "a D b Y h:m:s",    // date in other locales
    "a. D b Y h:m:s",
    "a D. b Y h:m:s",
    "a, D b Y h:m:s", // RFC 2822
    "a I",            // systemd
    "B",              // RFC 3164 in files
    "[B",             // Asterisk
    "b d, Y H:m:s",   // Java's own logging
    "b-D h:m:s.f ",   // Nextflow
    "b d, Y, H:m:s",
    "b d, Y @ H:m:s", // Kibana
    "Y b D h:m:s",
    "U.f\t", // zap without a time encoder
    "U.F ",  // Squid
    "[U]",   // Nagios
    "[U.F]",
    "K ",        // milliseconds since 1970
    "YMDTh:m:s", // ISO 8601 without dashes
    "YMDThms",   // and without colons
    "YMD.hms",
    "YMD h:m:s",
    "YMD-h:m:s",
    "YMD-hms",
    "Y-oTh:m:s",     // ISO 8601 with the day of the year
    "Y-M-D-h.m.s",   // DB2
    "[Y-M-D, h:m:s", // Airflow
    "q, H:m:s",
    "[q H:m:s", // WebSphere
    "[q, H:m:s",
    "[n/e/Y H:m:s",
    "n/e/Y H:m:s",
    "n/e/Y, H:m:s",
    "n/e/Y-h:m:s",  // Suricata
    "n/e/Y:h:m:s",  // NetScaler
    "n/e-h:m:s.f ", // Snort
    "n/e h:m:s ",
    "n-e-Y h:m:s",  // Splunk
    "n-e h:m:s.f ", // Android
    "D.M.Y h:m:s",
    "[D.M.Y h:m:s",
    "d.n.Y, H:m:s",   // JavaScript in German
    "d/n/Y -- h:m:s", // Suricata before 7
    "[Y.M.D-h.m.s",   // Unreal Engine
    "D b h:m:s ",     // ntpd
    "[Y-M-D][h:m:s",  // fern
    "Y-M-D h:m!",
    "Y-M-DTh:m!",
    "[Y-M-D h:m!",
];

/// Forms that are tried last, and never first: days without a time, which begin other forms, and
/// times without seconds.
const LAST_FORMS: [&str; 15] = [
    "Y/M/D h:m!",
    "D.M.Y h:m!",
    "n/e/Y H:m!",
    "b d, Y H:m!",
    "D-b h:m!", // Bareos
    "Y-M-D!",
    "Y/M/D!",
    "Y.M.D!",
    "D.M.Y!",
    "[Y-M-D!",
    ZABBIX,
    "[#] I",         // NATS: the process, then the time
    "#:#:#:#:I",     // SAP ASE: engine, thread, family and process
    "[#:#:MD/hms.f", // Chromium: process and thread, then the time
    "#,n/e/y,h:m:s", // DHCP server of Windows: the event, then day and time
];

/// The process, then the time.
const ZABBIX: &str = "#:YMD:hms.f";

const fn starts_with(form: &str, b: u8) -> bool {
    match form.as_bytes()[0] {
        b'I' | b'Y' | b'y' | b'q' | b'U' | b'K' | b'#' | b'n' | b'd' => b.is_ascii_digit(),
        b'D' => b.is_ascii_digit() || b == b' ',
        b'L' => b.is_ascii_uppercase(),
        b'a' | b'b' | b'B' => b.is_ascii_alphabetic() || b >= 0x80,
        b'*' => b != b' ',
        literal => literal == b,
    }
}

/// For each byte the formats that a line beginning with it may have, one bit each: this excludes
/// most formats for most lines.
static STARTS: [u128; 256] = {
    let mut starts = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut index = 0;
        while index < FORMS.len() {
            if starts_with(FORMS[index], byte as u8) {
                starts[byte] |= 1 << index;
            }
            index += 1;
        }
        byte += 1;
    }
    starts
};

/// The formats that begin with a word, and those of them that go on with a bracket.
const WITH_WORD: [u128; 2] = {
    let mut forms = [0; 2];
    let mut index = 0;
    while index < FORMS.len() {
        let form = FORMS[index].as_bytes();
        if form[0] == b'*' {
            forms[0] |= 1 << index;
            if form[2] == b'[' {
                forms[1] |= 1 << index;
            }
        }
        index += 1;
    }
    forms
};

/// Finds the time of a line; `memo` is the index of the format that matched last. Returns the time,
/// and the offset behind it.
pub(crate) fn find(line: &[u8], memo: &mut usize) -> Option<(Written, usize)> {
    find_form(line, memo).or_else(|| of_one_program(line, memo))
}

/// A time in one of [`FORMS`] at the start of a line.
fn find_form(line: &[u8], memo: &mut usize) -> Option<(Written, usize)> {
    let mut candidates = STARTS[usize::from(*line.first()?)];
    if candidates & 1 << *memo != 0
        && let Some(found) = fit(FORMS[*memo], line)
    {
        return Some(found);
    }
    if candidates & WITH_WORD[0] != 0 {
        let head = &line[..line.len().min(WORD_BYTES_MAX)];
        let behind = short::first_blank(head).and_then(|at| line.get(at + 1));
        candidates &= match behind {
            Some(b'0'..=b'9' | b' ') => !WITH_WORD[1],
            Some(b'[') => !WITH_WORD[0] | WITH_WORD[1],
            _ => !WITH_WORD[0],
        };
    }
    while candidates != 0 {
        let index = candidates.trailing_zeros() as usize;
        if let Some(found) = fit(FORMS[index], line) {
            *memo = index;
            return Some(found);
        }
        candidates &= candidates - 1;
    }
    None
}

/// Times in places that only one program uses, and the forms that are tried last.
fn of_one_program(line: &[u8], memo: &mut usize) -> Option<(Written, usize)> {
    // Not by `find`: a line that repeats what is skipped must not recurse.
    let behind = |skipped: usize, memo: &mut usize| {
        let (written, length) = find_form(line.get(skipped..)?, memo)?;
        Some((written, skipped + length))
    };
    let fit_at = |form: &str, at: usize| {
        let (written, length) = fit(form, line.get(at..)?)?;
        Some((written, at + length))
    };
    let window = &line[..line.len().min(4 * WORD_BYTES_MAX)];
    let found = match line {
        [b't', b'y', b'p', b'e', b'=', ..] | [b'n', b'o', b'd', b'e', b'=', ..] => audit(line),
        // Terminal colours are skipped.
        [0x1b, ..] => match super::level::colours(line) {
            0 => None,
            colours if line[colours..].starts_with(NEST) => of_nest(line, colours, memo),
            colours => behind(colours, memo),
        },
        [b'@', label @ ..] => tai64(label),
        // MySQL's slow log.
        [b'#', b' ', b'T', b'i', b'm', b'e', b':', b' ', ..] => behind(8, memo),
        // WebLogic, in its log and at the standard output
        [b'#', b'#', b'#', b'#', b'<', ..] => behind(5, memo),
        [b'<', b'0'..=b'9' | b'A'..=b'Z', ..] => behind(1, memo),
        // `dmesg -xT`: `kern  :info  : [Sat Jan 31 12:00:00 2026] x`
        [b'k', b'e', b'r', b'n', b' ', b' ', b':', ..] => {
            fit_at("[a b D h:m:s Y]", memchr::memmem::find(window, b": [")? + 2)
        }
        // Erlang: `=ERROR REPORT==== 6-Jun-2026::12:00:00 ===`
        [b'=', ..] => fit_at(
            "d-b-Y::h:m:s",
            memchr::memmem::find(&window[..window.len().min(40)], b"==== ")? + 5,
        ),
        [b'[', b'N', b'e', b's', b't', b']', b' ', ..] => of_nest(line, 0, memo),
        // Network load balancer of AWS, whose times are in UTC: `tls 2.0 2026-01-31T12:00:00 …`
        [b't', b'l', b's', b' ', _, b'.', _, b' ', b'0'..=b'9', ..] => {
            let (written, length) = fit_at("I", 8)?;
            Some((Written { zone: written.zone.or(Some(WrittenZone::UTC)), ..written }, length))
        }
        // uWSGI
        [b'[', b'p', b'i', b'd', b':', ..] => {
            fit_at("[a b D h:m:s Y]", memchr::memmem::find(window, b"} [")? + 2)
        }
        // Couchbase: `[ns_server:info,2026-01-31T12:00:00.250Z,ns_1@cb1:<0.1.0>:a:7]x`
        [b'[', b'a'..=b'z', ..] => {
            let end = memchr::memchr3(b',', b' ', b']', window)?;
            if line[end] == b',' { fit_at("I", end + 1) } else { None }
        }
        // Rails
        [b'S', b't', b'a', b'r', b't', b'e', b'd', b' ', ..] => {
            fit_at("I", memchr::memmem::rfind(&line[..line.len().min(4096)], b" at ")? + 4)
        }
        [b'0'..=b'9' | b'[', ..] => LAST_FORMS.iter().find_map(|form| fit(form, line)),
        [b'A'..=b'Z', ..] => fit("b d, Y H:m!", line),
        // Consul indents its lines, Zabbix the numbers of its processes.
        [b' ', ..] => {
            let blanks = line.iter().take(BLANKS_MAX + 1).take_while(|b| **b == b' ').count();
            line.get(blanks).filter(|b| b.is_ascii_digit() && blanks <= BLANKS_MAX)?;
            fit_at("I", blanks).or_else(|| fit_at(ZABBIX, blanks))
        }
        _ => None,
    };
    found.or_else(|| behind_level(line, memo)).or_else(|| behind_words(line, memo))
}

/// How lines of NestJS begin, perhaps behind a colour.
pub(crate) const NEST: &[u8] = b"[Nest] ";

/// `[Nest] 712  - 01/31/2026, 12:00:00 PM     LOG [App] x`, from `begin` on: the time is behind the
/// process, and may have a colour of its own.
fn of_nest(line: &[u8], begin: usize, memo: &mut usize) -> Option<(Written, usize)> {
    let window = &line[begin..line.len().min(begin + WORD_BYTES_MAX)];
    let dash = begin + memchr::memmem::find(window, b" - ")? + 3;
    let at = dash + super::level::colours(&line[dash..]);
    let (written, length) = find_form(&line[at..], memo)?;
    Some((written, at + length))
}

/// `ERROR [main] 2026-01-31 12:00:00,123 x` of Cassandra, `[error] 2026-01-31T12:00:00Z x` of
/// CouchDB, `[INFO] [01/31/2026 12:00:00.123] x` of Akka: the level, then perhaps a name in
/// brackets, then the time.
fn behind_level(line: &[u8], memo: &mut usize) -> Option<(Written, usize)> {
    let mut at = usize::from(line.first() == Some(&b'['));
    let length = line[at..].iter().take(14).take_while(|b| b.is_ascii_alphabetic()).count();
    super::level::from_word(&line[at..at + length])?;
    at += length;
    let skip_blanks = |at: &mut usize| {
        let mark = |b: &&u8| matches!(**b, b' ' | b']' | b':' | b'-' | b'\t' | b'|');
        *at += line[*at..].iter().take_while(mark).count();
    };
    skip_blanks(&mut at);
    let is_time = |at: usize| line.get(at).is_some_and(u8::is_ascii_digit);
    if line.get(at) == Some(&b'[') && !is_time(at + 1) {
        at += memchr::memchr(b']', &line[at..line.len().min(at + WORD_BYTES_MAX)])? + 1;
        skip_blanks(&mut at);
    }
    at += usize::from(line.get(at) == Some(&b'['));
    // Behind a digit, so that a text does not lend its first words to a form.
    let rest = line.get(at..).filter(|rest| rest.first().is_some_and(u8::is_ascii_digit))?;
    let (written, length) = find_form(rest, memo)?;
    Some((written, at + length))
}

/// `79a5 bucket [31/Jan/2026:12:00:00 +0000] …` of S3, `web-1  | 2026-01-31T12:00:00Z …` of docker
/// compose, `[12 - Suricata-Main] 2026-01-31 12:00:00 …`, and other words in brackets.
fn behind_words(line: &[u8], memo: &mut usize) -> Option<(Written, usize)> {
    let window = &line[..line.len().min(WORD_BYTES_MAX)];
    if window.first() == Some(&b'[')
        && let Some(close) = memchr::memchr(b']', window)
        && matches!(line[close + 1..], [b' ', b'0'..=b'9', ..])
        && let Some((written, length)) = find_form(&line[close + 2..], memo)
    {
        return Some((written, close + 2 + length));
    }
    let first = short::first_blank(window)?;
    let blanks = window[first..].iter().take_while(|b| **b == b' ').count();
    if window[first + blanks..].starts_with(b"| ") {
        let skipped = first + blanks + 2;
        let (written, length) = find_form(&line[skipped..], memo)?;
        return Some((written, skipped + length));
    }
    let second = first
        + 1
        + short::first_blank(&line[first + 1..line.len().min(first + 1 + WORD_BYTES_MAX)])?;
    if line.get(second + 1) != Some(&b'[') {
        return None;
    }
    let (written, length) = fit("[D/b/Y:h:m:s", &line[second + 1..])?;
    Some((written, second + 1 + length))
}

/// Labels of TAI64N behind their `@`: 16 hexadecimal digits of seconds and 8 of nanoseconds, as
/// multilog writes them, which counts ten seconds more than UTC.
fn tai64(label: &[u8]) -> Option<(Written, usize)> {
    const ZERO: u64 = (1 << 62) + 10;
    let digits = label.iter().take(25).take_while(|b| b.is_ascii_hexdigit()).count();
    let number = |part: &[u8]| u64::from_str_radix(std::str::from_utf8(part).ok()?, 16).ok();
    let nanos = match digits {
        24 => u32::try_from(number(&label[16..24])?).ok().filter(|n| *n < 1_000_000_000)?,
        16 => 0,
        _ => return None,
    };
    let local_s = i64::try_from(number(&label[..16])?.checked_sub(ZERO)?).ok()?;
    let ends = matches!(label.get(digits), None | Some(b' '));
    ends.then_some((Written::of_utc(local_s, nanos), 1 + digits))
}

/// The time of a line of Linux's audit: `type=SYSCALL msg=audit(1769860800.123:456): …`, also with
/// `node=… ` in front.
fn audit(line: &[u8]) -> Option<(Written, usize)> {
    const MARK: &[u8] = b" msg=audit(";
    let window = &line[..line.len().min(2 * WORD_BYTES_MAX)];
    let at = memchr::memmem::find(window, MARK)? + MARK.len();
    let length = line[at..].iter().position(|b| *b == b':')?;
    let (local_s, nanos) = time::since_1970(&line[at..at + length])?;
    Some((Written::of_utc(local_s, nanos), at + length))
}

/// 2100: greater numbers of ten digits are not times.
const SECONDS_END: i64 = 4_102_444_800;

/// Most blanks that may precede a time.
const BLANKS_MAX: usize = 8;

/// Longest word that may precede a time.
const WORD_BYTES_MAX: usize = 128;

fn fit(form: &str, line: &[u8]) -> Option<(Written, usize)> {
    let (mut year, mut month, mut day) = (1970, 1, 1);
    let (mut hour, mut minute, mut second, mut nanos) = (0, 0, 0, 0);
    let (mut since_1970, mut zone, mut day_of_year) = (None, None, None);
    let (mut has_year, mut is_either) = (false, false);
    let mut dates = None;
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
            b'q' => {
                has_year = true;
                let (found, length) = short_date(rest)?;
                dates = Some(found);
                length
            }
            b'M' => {
                month = time::two(rest, 0)?;
                2
            }
            b'b' => {
                let length;
                (month, length) = time::month_name(rest)?;
                length
            }
            b'L' => {
                matches!(rest.first()?, b'I' | b'W' | b'E' | b'F' | b'D' | b'C').then_some(1)?
            }
            b'D' => {
                day = match rest.first()? {
                    b' ' => time::number(&rest[1..], 1)?.0,
                    _ => time::two(rest, 0)?,
                };
                2
            }
            b'd' => digits_of(&mut day, rest, 2)?,
            b'n' => digits_of(&mut month, rest, 2)?,
            b'e' => {
                is_either = true;
                digits_of(&mut day, rest, 2)?
            }
            b'o' => {
                let (found, digits) = time::number(rest, 3)?;
                day_of_year = Some(i64::from(found));
                (digits == 3 && (1..=366).contains(&found)).then_some(3)?
            }
            b'j' => {
                hour = match rest.first()? {
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
            b'K' => {
                let digits = rest.iter().take(14).take_while(|b| b.is_ascii_digit()).count();
                let (seconds, found) = time::since_1970(rest.get(..13).filter(|_| digits == 13)?)?;
                nanos = found;
                since_1970 = Some(seconds).filter(|s| (1_000_000_000..SECONDS_END).contains(s));
                since_1970.map(|_| 13)?
            }
            b'a' => weekday(rest)?,
            b'P' => {
                hour = time::of_twelve(hour, line, &mut at);
                0
            }
            b'Z' => {
                zone = time_zone::zone(line, &mut at);
                match zone {
                    Some(_) => 0,
                    // A zone of several meanings.
                    None => {
                        let name = rest.iter().skip(1).take_while(|b| b.is_ascii_uppercase());
                        let length = name.count();
                        (rest.first() == Some(&b' ') && (2..=5).contains(&length))
                            .then_some(1 + length)?
                    }
                }
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
            b'B' => {
                let (written, length) = time::month_first(rest)?;
                return Some((written, at + length));
            }
            b'!' => 0,
            literal => (*rest.first()? == literal).then_some(1)?,
        };
    }
    if let Some(seconds) = since_1970 {
        return Some((Written::of_utc(seconds, nanos), at));
    }
    if form.ends_with('s') {
        nanos = time::fraction_or_millis(line, &mut at);
    }
    let is_day = form.ends_with('!') && !form.contains('m');
    if !is_day {
        hour = time::of_twelve(hour, line, &mut at);
        zone = zone.or_else(|| time_zone::zone(line, &mut at));
    }
    // The zone of Db2 is in minutes: `+060`.
    if form.ends_with("h.m.s")
        && let [sign @ (b'+' | b'-'), digits @ ..] = &line[at..]
        && let Some((minutes, 3)) = time::number(digits, 4)
    {
        let offset_s = minutes as i32 * 60;
        zone = Some(WrittenZone::offset(if *sign == b'-' { -offset_s } else { offset_s }));
        at += 4;
    }
    // Another form has more digits.
    let goes_on = match line[at..] {
        [b':', next, ..] => next.is_ascii_digit(),
        // A time that cannot be read.
        [b' ', b'0'..=b'9', b'0'..=b'9', b':', ..] => is_day,
        [] => false,
        [next, ..] if form.ends_with('!') => {
            !matches!(next, b' ' | b']' | b'\t' | b')' | b'|' | b':')
        }
        _ => false,
    };
    if goes_on {
        return None;
    }
    if !has_year {
        // A leap year; the parser determines the actual year.
        year = 1972;
    }
    let (days, others_days) = match (day_of_year, dates) {
        (Some(day), _) => (text::civil::days_from_civil(year, 1, 1)? + day - 1, NO_OTHERS),
        (None, Some(dates)) => time::readings(dates)?,
        (None, None) if is_either => {
            time::readings([(year, month, day), (year, day, month), NO_DATE])?
        }
        (None, None) => (text::civil::days_from_civil(year, month, day)?, NO_OTHERS),
    };
    let local_s = days * 86_400 + time::seconds(hour, minute, second)?;
    Some((Written { local_s, nanos, zone, has_year, is_day, others_days }, at))
}

/// The year, month and day of a date in each order in which it can be read.
type Orders = [(i64, u32, u32); 3];

/// What a date of three short numbers may be, as `26/01/31`, `1/31/26` and `31/01/26`: the year is
/// first, with two digits, or last; then the month is first, or the day. Also returns its length.
fn short_date(text: &[u8]) -> Option<(Orders, usize)> {
    let (first, first_digits) = time::number(text, 2)?;
    let rest = text[first_digits..].strip_prefix(b"/")?;
    let (second, second_digits) = time::number(rest, 2)?;
    let third = time::two(rest[second_digits..].strip_prefix(b"/")?, 0)?;
    let [begin, end] = [first, third].map(|year| 2000 + i64::from(year));
    let year_first = match (first_digits, second_digits) {
        (2, 2) => (begin, second, third),
        _ => NO_DATE,
    };
    let dates = [year_first, (end, first, second), (end, second, first)];
    Some((dates, first_digits + second_digits + 4))
}

/// Length of a weekday in English, German or French.
fn weekday(text: &[u8]) -> Option<usize> {
    const DAYS: [&[u8; 3]; 13] = [
        b"Mon", b"Tue", b"Wed", b"Thu", b"Fri", b"Sat", b"Sun", b"lun", b"mar", b"mer", b"jeu",
        b"ven", b"sam",
    ];
    const SHORT: [&[u8; 2]; 7] = [b"Mo", b"Di", b"Mi", b"Do", b"Fr", b"Sa", b"So"];
    let length = text.iter().take(4).take_while(|b| b.is_ascii_alphabetic()).count();
    let known = match length {
        3 => DAYS.contains(&text.first_chunk()?) || text.starts_with(b"dim"),
        2 => SHORT.contains(&text.first_chunk()?),
        _ => false,
    };
    known.then_some(length)
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
            ("   712:20260131:120000.250 server #0 started", 1_769_860_800, 250_000_000),
            ("123456:20260131:120000.250 [Z3001] x", 1_769_860_800, 250_000_000),
            ("[712] 2026/01/31 12:00:00.250000 [INF] x", 1_769_860_800, 250_000_000),
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
            "2015-10-18-backup.tar",
            "2015-10-18T12",
            "1428634687123456 x",
            "9428634687123 x",
            "@400000004332258 x",
            "@40000000433225833b6e1a8cc x",
            "ERROR [main] x",
            "Started at noon",
            "=ERROR REPORT==== x",
            "web-1  | hello",
            "a | b | c | d",
            "79a5 bucket [x]",
            "13/13/2026 12:00:00",
            "Jan 32, 2026 12:00:00 PM",
            "set 5 of 6",
            "out 12 12:00",
            "712:20261331:120000.250 x",
            "712:20260131:120000 x",
            "[712] 12:00:00 x",
        ] {
            assert_eq!(find(line.as_bytes(), &mut 0), None, "{line}");
        }
    }
}
