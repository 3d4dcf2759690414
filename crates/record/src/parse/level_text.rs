//! Finds the level of a text, in the same way wherever the text comes from: a plain line, the text
//! behind a syslog head, the message of an object or of a container.
//!
//! Decisions:
//! - A word is a level only by its place: in capitals between separators, in brackets, behind
//!   `level=`, or in front of a colon at the beginning. Words inside sentences are not, and neither
//!   are words with a digit, underscore, point or hyphen directly beside them (`ERROR_CODE`).
//! - The level that a text names precedes the priority of its syslog head: many programs and relays
//!   send everything with one priority.
//!
//! Left out: guessing from other words (`failed`, `Traceback`).
//!
//! Speed: this runs for every line of text. Bytes that may begin a sign of a level (two capitals, a
//! bracket, a colon, `=`) are found sixteen at a time (`level_signs`); only there is the text
//! examined.

use super::json_level;
use super::json_names::{self, LevelKind, Marks, Use};
use super::json_parts::{self, JsonKind};
use super::level::{LEVELS, WORD_BYTES, colours, from_letter, from_word};
use super::level_programs::{
    between_bars, is_hana, is_process, is_redis, is_usual_of_nest, of_android, of_esxi, of_exos,
    of_macos, of_redis, of_thread, of_veeam, of_websphere,
};
use super::level_signs::{Signs, is_word};
use super::syslog;

/// A text names its level early; beyond that a level word is part of the message.
pub(crate) const LEVEL_SEARCH_BYTES: usize = 128;
/// The same behind a priority, which is a level already.
pub(crate) const NEAR_SEARCH_BYTES: usize = 64;
/// Pairs of `key=value` and objects may name their level later.
const PAIRS_SEARCH_BYTES: usize = 4 << 10;
/// How deep an object within a text is searched.
const OBJECT_DEPTH: usize = 3;
/// A longer object within a text is not searched.
const OBJECT_BYTES_MAX: usize = 64 << 10;

/// Words that mean a level at the start of a line, followed by a colon: those of .NET and of Java's
/// own logging.
const FIRST_WORDS: [(&[u8], &str); 8] = [
    (b"fail", "error"),
    (b"dbug", "debug"),
    (b"trce", "debug"),
    (b"CONFIG", "info"),
    (b"FINE", "debug"),
    (b"FINER", "debug"),
    (b"FINEST", "debug"),
    (b"GRAVE", "error"), // Java's in French, Spanish and Italian
];

/// What PHP writes before a message, with and without `PHP ` in front.
const OF_PHP: [(&[u8], &str); 9] = [
    (b"Fatal error: ", "critical"),
    (b"Parse error: ", "critical"),
    (b"Core error: ", "critical"),
    (b"Compile error: ", "critical"),
    (b"Recoverable fatal error: ", "error"),
    (b"Catchable fatal error: ", "error"),
    (b"Deprecated: ", "notice"),
    (b"Strict Standards: ", "notice"),
    (b"Core warning: ", "warning"),
];

/// Keys of pairs that hold the level of a text; in any case.
const KEYS: [&[u8]; 9] = [
    b"level",
    b"lvl",
    b"severity",
    b"loglevel",
    b"log_level",
    b"log.level",
    b"levelname",
    b"level_name",
    b"at", // Heroku
];
const KEY_BYTES_MAX: usize = 10;

/// The level of a text that may also be an object or pairs, as shippers wrap them; `time_bytes` is
/// the length of its leading time.
pub(crate) fn of_text(text: &[u8], time_bytes: Option<usize>) -> Option<&'static str> {
    if text.first() == Some(&b'{') {
        return of_object(text).or_else(|| find(text));
    }
    let found = match time_bytes {
        Some(length) => of_timed(text, length),
        None => find(text),
    };
    found.or_else(|| of_late_pair(text))
}

/// Topics with which RouterOS begins its messages.
const TOPICS: [&[u8]; 34] = [
    b"account",
    b"bgp",
    b"bridge",
    b"caps",
    b"certificate",
    b"container",
    b"dhcp",
    b"dns",
    b"e-mail",
    b"firewall",
    b"hotspot",
    b"interface",
    b"ipsec",
    b"l2tp",
    b"lte",
    b"manager",
    b"netwatch",
    b"ntp",
    b"ospf",
    b"ovpn",
    b"ppp",
    b"pppoe",
    b"pptp",
    b"radius",
    b"route",
    b"script",
    b"snmp",
    b"ssh",
    b"sstp",
    b"system",
    b"upnp",
    b"wifi",
    b"wireguard",
    b"wireless",
];

/// The level of `system,error,critical login failure for user root`: RouterOS of MikroTik writes
/// topics, and the severest of their levels counts.
pub(crate) fn of_topics(text: &[u8]) -> Option<&'static str> {
    const TOPICS_BYTES_MAX: usize = 64;
    let first = text.iter().take(16).position(|b| *b == b',')?;
    TOPICS.contains(&&text[..first]).then_some(())?;
    let end = text.iter().take(TOPICS_BYTES_MAX).position(|b| *b == b' ')?;
    let levels = text[..end].split(|b| *b == b',').filter_map(from_word);
    levels.min_by_key(|level| LEVELS.iter().position(|known| known == level))
}

/// The level of an object that is the whole text: of its keys, or else of its message.
fn of_object(text: &[u8]) -> Option<&'static str> {
    if text.len() > OBJECT_BYTES_MAX || text.get(1).is_none_or(|b| !matches!(b, b'"' | b' ')) {
        return None;
    }
    let mut marks = Marks::NONE;
    let mut found: Vec<(u8, LevelKind, String)> = Vec::new();
    let mut message: Option<(u8, String)> = None;
    let join = |path: &mut String, depth: usize, key: &str| {
        if depth > 1 {
            path.push('.');
        }
        path.push_str(key);
    };
    json_parts::json_members_by(text.trim_ascii(), OBJECT_DEPTH, join, |path, kind, value| {
        let Some((usage, mark)) = json_names::find(path) else { return };
        marks.add(mark);
        if !matches!(kind, JsonKind::Text | JsonKind::Plain) {
            return;
        }
        match usage {
            Use::Level(rank, kind) if value.len() <= LEVEL_SEARCH_BYTES => {
                found.push((rank, kind, value.to_owned()));
            }
            Use::Message(rank) if message.as_ref().is_none_or(|(other, _)| rank < *other) => {
                message = Some((rank, value.to_owned()));
            }
            _ => {}
        }
    })?;
    found.sort_by_key(|(rank, ..)| *rank);
    let known = |(_, kind, value): &(u8, LevelKind, String)| {
        json_level::find(*kind, value.as_bytes(), marks)
    };
    let of_message = || find(message.as_ref()?.1.as_bytes());
    found.iter().find_map(known).or_else(|| json_level::unnamed(marks)).or_else(of_message)
}

/// The level in a pair that stands further back, if the text begins with a pair.
fn of_late_pair(text: &[u8]) -> Option<&'static str> {
    if text.len() <= LEVEL_SEARCH_BYTES {
        return None;
    }
    let first = text.iter().take(32).position(|b| !is_word(*b))?;
    if first == 0 || text[first] != b'=' {
        return None;
    }
    let text = &text[..text.len().min(PAIRS_SEARCH_BYTES)];
    memchr::memchr_iter(b'=', &text[LEVEL_SEARCH_BYTES - KEY_BYTES_MAX..])
        .find_map(|at| of_pair(text, at + LEVEL_SEARCH_BYTES - KEY_BYTES_MAX))
}

/// The level of a text whose time was found, which ends at `time_bytes`. Recognises what
/// [`find`] does, and also words that mean a level only right behind a time or in lines of one
/// program:
///
/// - the letter before the time of klog and glog: `W0131 12:00:00.123456 1234 a.go:1] x`, and in
///   brackets with the time, as Jupyter and Tornado write it
/// - the first word in small letters: `2026-01-31T12:00:00Z info x`, `1769860800.12→info→x`
/// - a first letter of its own: of MongoDB before 4.4 (`… I NETWORK  [conn1] x`), of etcd (`… I |
///   x`), of Android behind process and thread (`… 12  34 E Tag: x`), in brackets (`… [E] x`)
/// - a letter with a name, or a word with a component, behind a time in brackets: `[…] W santad:
///   x`, `[…] critical/Checker: x` of Icinga, `[…] E [MSGID: 1] x` of GlusterFS
/// - WebSphere's letter behind thread and component, ESXi's `In(166) Hostd[2099]: x`
/// - VMware's `… [7F3C error 'Default'] x`
/// - Redis' mark behind process and role: `1:M 31 Jan 2026 12:00:00.123 # x`
/// - NestJS' `LOG`, the letter of SAP HANA behind thread and connection, the columns of macOS' `log
///   show`, NLog and Veeam
pub(crate) fn of_timed(line: &[u8], time_bytes: usize) -> Option<&'static str> {
    match line {
        [letter @ (b'I' | b'W' | b'E' | b'F'), digits @ ..]
            if digits.iter().take(4).filter(|b| b.is_ascii_digit()).count() == 4 =>
        {
            return from_letter(*letter);
        }
        [b'[', letter @ (b'D' | b'I' | b'W' | b'E' | b'C'), b' ', b'0'..=b'9', ..] => {
            return from_letter(*letter);
        }
        [b'0'..=b'9', ..] if is_redis(line) => return of_redis(&line[time_bytes..]),
        [b'[', b'N', b'e', ..] | [0x1b, ..] if is_usual_of_nest(line, time_bytes) => {
            return Some("info");
        }
        _ => {}
    }
    // The level may be in front of the time.
    let (front, rest) = line.split_at(time_bytes);
    if matches!(front, [b'A'..=b'Z' | b'=', ..] | [b'[', b'A'..=b'Z' | b'a'..=b'z', ..])
        && let Some(level) = find(front)
    {
        return Some(level);
    }
    let start = rest.iter().position(|b| !matches!(b, b' ' | b'\t' | b':' | b',' | b']'));
    let first = &rest[start.unwrap_or(rest.len())..];
    if rest.starts_with(b"] ")
        && let Some(level) = of_websphere(first)
    {
        return Some(level);
    }
    let length = first.iter().take(16).position(|b| !is_word(*b)).unwrap_or(first.len().min(16));
    match (&first[..length], &first[length..]) {
        ([letter @ (b'd' | b'i' | b'w' | b'e' | b'f')], [b' ', ..]) if is_hana(front) => {
            return from_letter(*letter);
        }
        ([b'0', b'x', ..], [b' ', behind @ ..]) if let Some(level) = of_macos(behind) => {
            return Some(level);
        }
        // MongoDB 4.2 fills a letter alone with a second blank.
        ([letter] | [letter, b'1'..=b'5'], [b' ', b' ', next, ..] | [b' ', next, ..])
            if next.is_ascii_uppercase() && rest.starts_with(b" ") =>
        {
            let name = first[length..].trim_ascii_start();
            let words = name.iter().take_while(|b| b.is_ascii_uppercase()).count();
            if words >= 3 && matches!(letter, b'F' | b'E' | b'W' | b'I' | b'D') {
                return from_letter(*letter);
            }
        }
        // Most lines: `2026-01-31 12:00:00 INFO x`.
        ([b'A'..=b'Z', b'A'..=b'Z', ..], [b' ', ..])
            if let Some(level) = from_word(&first[..length])
                && !first[..length].iter().any(u8::is_ascii_lowercase) =>
        {
            return Some(level);
        }
        ([letter], [b' ', b'|', b' ', ..]) => return from_letter(*letter),
        // Telegraf
        ([letter @ (b'E' | b'W' | b'I' | b'D' | b'T')], [b'!', b' ', ..])
            if rest.starts_with(b" ") =>
        {
            return from_letter(*letter);
        }
        ([b'N'], [b' ', b'[', ..]) if rest.starts_with(b"] ") => return Some("notice"),
        ([letter @ (b'F' | b'E' | b'W' | b'I' | b'D' | b'T' | b'C')], [b' ', b'[', ..])
            if rest.starts_with(b"] ") =>
        {
            return from_letter(*letter);
        }
        ([letter @ (b'F' | b'E' | b'W' | b'I' | b'D')], [b' ', name @ ..])
            if rest.starts_with(b"] ") =>
        {
            let length = name.iter().take(32).take_while(|b| is_word(**b)).count();
            if length >= 2 && name[length..].starts_with(b": ") {
                return from_letter(*letter);
            }
        }
        ([], [b'|', inner @ ..]) if let Some(level) = between_bars(inner) => return Some(level),
        ([], [b'<', inner @ ..]) if let Some(level) = of_veeam(inner) => return Some(level),
        ([_, _], [b'(', ..]) if let Some(level) = of_esxi(first) => return Some(level),
        ([], [b'[', inner @ ..]) if let Some(level) = of_thread(inner) => return Some(level),
        ([], [b'[', letter @ (b'F' | b'E' | b'W' | b'I' | b'D' | b'T' | b'C'), b']', ..]) => {
            return from_letter(*letter);
        }
        (word, [b' ', b' ', ..] | [b'\t', ..] | [b'[', ..])
            if word.len() >= 3 && word[0].is_ascii_lowercase() =>
        {
            if let Some(level) = from_word(word) {
                return Some(level);
            }
        }
        // Not `alert`, `notice`, `trace`: they also begin sentences.
        (
            word @ (b"info" | b"error" | b"err" | b"warn" | b"warning" | b"debug" | b"fatal"
            | b"crit" | b"critical"),
            [b' ', ..],
        ) => return from_word(word),
        (word, [b' ', ..]) if word.iter().all(u8::is_ascii_digit) => {
            if let Some(level) = of_android(first) {
                return Some(level);
            }
        }
        _ => {}
    }
    if rest.starts_with(b"] ")
        && let Some(slash) = first.iter().take(16).position(|b| !b.is_ascii_lowercase())
        && matches!(first[slash..], [b'/', b'A'..=b'Z', ..])
        && let Some(level) = from_word(&first[..slash])
    {
        return Some(level);
    }
    find(first)
}

/// Searches the level of a text that begins behind its leading time.
///
/// Recognised within [`LEVEL_SEARCH_BYTES`]: a level word in capitals between separators (` ERROR
/// `, `|WARN|`, `:ERROR:`, `local.ERROR:`); one in brackets or behind `level=` in any case
/// (`[error]`, `[core:error]`); one in front of a colon and behind another colon, a bracket or
/// nothing, in any case (`error: …`, `general: error: …`); the first word in front of two blanks
/// (`Info   CBS`), or Android's `W/Tag`. Terminal colours are skipped. Words of a single program:
/// `| SUCCESS |` of loguru, `LOG: ` of PostgreSQL, `[Note]` and `[System] [MY-…` of MySQL, `PHP
/// Fatal error: `.
pub(crate) fn find(text: &[u8]) -> Option<&'static str> {
    let text = &text[..text.len().min(LEVEL_SEARCH_BYTES)];
    let signs = Signs::of(text);
    if signs.may_name_level() { search(text, signs) } else { None }
}

/// Searches the level of a text that may have a sign of one.
fn search(text: &[u8], signs: Signs<'_>) -> Option<&'static str> {
    let blanks = text.iter().position(|b| !matches!(b, b' ' | b',' | b'\t' | b'|'))?;
    let start = blanks + colours(&text[blanks..]);
    if let Some(level) = of_start(text, start) {
        return level;
    }
    let mut signs = signs.from(start);
    while let Some(at) = signs.next() {
        let found = match text[at] {
            b'A'..=b'Z' => match capitals(text, at, start) {
                Capitals::Level(level) => Some(level),
                Capitals::End => return None,
                Capitals::Word(end) => {
                    signs.skip_to(end);
                    None
                }
            },
            b'[' | b'<' => bracketed(text, at, start),
            b':' => before_colon(text, at),
            b'=' => of_pair(text, at),
            0x1b => coloured(text, at),
            _ => None,
        };
        if found.is_some() {
            return found;
        }
    }
    None
}

/// The level at the beginning of a text; `Some(None)` if the text certainly has none.
fn of_start(text: &[u8], start: usize) -> Option<Option<&'static str>> {
    let rest = &text[start..];
    match rest {
        // Android, but not `I/O error`.
        [letter @ (b'V' | b'D' | b'I' | b'W' | b'E' | b'F'), b'/', tag @ ..] => {
            let length = tag.iter().take(64).position(|b| matches!(b, b':' | b'(' | b' '))?;
            if length >= 2 && tag[length] != b' ' {
                return Some(from_letter(*letter));
            }
        }
        // Cisco's `%FACILITY-SEVERITY-MNEMONIC:`, behind a tag.
        [b'%', code @ ..] => {
            let end = code.iter().take(64).position(|b| matches!(b, b':' | b' '))?;
            let mut marks = code[..end].windows(3).rev();
            let mark = marks.find(|w| w[0] == b'-' && w[2] == b'-' && w[1].is_ascii_digit())?;
            return LEVELS.get(usize::from(mark[1] - b'0')).map(|level| Some(*level));
        }
        // CUPS: `E [31/Jan/2026:12:00:00 +0000] x`
        [b'N', b' ', b'[', b'0'..=b'9', ..] => return Some(Some("notice")),
        [letter @ (b'D' | b'I' | b'W' | b'E' | b'C'), b' ', b'[', b'0'..=b'9', ..] => {
            return Some(from_letter(*letter));
        }
        // Solaris: `[ID 800047 auth.error] x`. A level in the text precedes it.
        [b'[', b'I', b'D', b' ', inner @ ..] => {
            let end = inner.iter().take(40).position(|b| *b == b']')?;
            let dot = memchr::memrchr(b'.', &inner[..end])?;
            let found = find(inner[end + 1..].trim_ascii_start());
            return found.or_else(|| from_word(&inner[dot + 1..end])).map(Some);
        }
        [b'=', ..] => {
            let title = rest.split(|b| !b.is_ascii_uppercase()).nth(1)?;
            rest[1 + title.len()..].starts_with(b" REPORT====").then_some(())?;
            return Some(match title {
                b"CRASH" | b"SUPERVISOR" => Some("error"),
                b"PROGRESS" => Some("info"),
                _ => from_word(title),
            });
        }
        [b'P', b'H', b'P', b' ', ..]
        | [b'F', b'a', b't', ..]
        | [b'P', b'a', b'r', ..]
        | [b'R', b'e', b'c', ..]
        | [b'D', b'e', b'p', ..]
        | [b'S', b't', b'r', ..]
        | [b'C', b'o' | b'a', b'r' | b'm' | b't', ..] => {
            let rest = rest.strip_prefix(b"PHP message: ").unwrap_or(rest);
            let rest = rest.strip_prefix(b"PHP ").unwrap_or(rest);
            if let Some((_, level)) = OF_PHP.iter().find(|(text, _)| rest.starts_with(text)) {
                return Some(Some(level));
            }
            if rest.len() < text.len() - start {
                let colon = rest.iter().take(16).position(|b| *b == b':')?;
                return from_word(&rest[..colon]).map(Some);
            }
        }
        _ => {}
    }
    if let Some(level) = of_dmesg(rest) {
        return Some(Some(level));
    }
    // The first word, if it is followed by a colon or two blanks.
    let length = rest.iter().take(14).take_while(|b| b.is_ascii_alphanumeric()).count();
    let (word, behind) = rest.split_at(length);
    match behind {
        [b':', b':', ..] => None,
        [b':', ..] | [b' ', b' ', ..] => {
            let of_first = || FIRST_WORDS.iter().find(|(known, _)| *known == word).map(|w| w.1);
            let is_label = behind.starts_with(b": ") || behind == b":";
            from_word(word).or_else(|| of_first().filter(|_| is_label)).map(Some)
        }
        // In a colour of its own.
        [0x1b, ..] if start > 0 && text[start - 1] == b'm' => from_word(word).map(Some),
        // VMware and F5: `info hostd[2099] …`, `warning -[2099] …`.
        [b' ', program @ ..] if word.first().is_some_and(u8::is_ascii_lowercase) => {
            let level = from_word(word)?;
            let name = program.iter().take(32).take_while(|b| is_word(**b)).count();
            match program[name..] {
                [b'[', b'0'..=b'9' | b'A'..=b'F', ..] if name > 0 => Some(Some(level)),
                _ => None,
            }
        }
        _ => None,
    }
}

/// `kern  :info  : [    1.234567] x`, as `dmesg -x` writes it: facility and level.
fn of_dmesg(text: &[u8]) -> Option<&'static str> {
    // Both are filled with blanks to six bytes; `authpriv` is longer.
    const WIDTH: usize = 6;
    let colon = [WIDTH, 8].into_iter().find(|at| text.get(*at) == Some(&b':'))?;
    let (facility, rest) = (text[..colon].trim_ascii_end(), &text[colon + 1..]);
    let level = from_word(rest.get(..WIDTH)?.trim_ascii_end())?;
    let is_known = || syslog::FACILITY_KEYWORDS.iter().any(|known| known.as_bytes() == facility);
    (rest[WIDTH..].starts_with(b": ") && is_known()).then_some(level)
}

enum Capitals {
    Level(&'static str),
    /// No level; the word ends here.
    Word(usize),
    /// What follows is the text of something else.
    End,
}

/// A word that begins with a capital, if it is a level in capitals between separators.
fn capitals(text: &[u8], at: usize, start: usize) -> Capitals {
    let length = text[at..].iter().take_while(|b| b.is_ascii_alphanumeric()).count();
    let end = at + length;
    let (word, before, behind) = (&text[at..end], &text[..at], &text[end..]);
    // Xorg: `[    52.123] (EE) x`
    if length == 2
        && behind.starts_with(b") ")
        && (before == b"(" || before.ends_with(b"] ("))
        && matches!(word, b"EE" | b"WW" | b"II")
    {
        return Capitals::Level(from_letter(word[0]).unwrap_or("info"));
    }
    if !WORD_BYTES.contains(&length) || word.iter().any(u8::is_ascii_lowercase) {
        return Capitals::Word(end);
    }
    let opens = match before.last() {
        None | Some(b' ' | b'\t' | b'\n' | b'|' | b'[' | b',' | b'(' | b'<' | b']' | b'*') => true,
        Some(b'm') => at == start,
        // `,672:ERROR:`, `local.ERROR:` of PHP's Monolog, `cpu2:2097)WARNING:` of ESXi.
        Some(b':' | b'.' | b')') => matches!(behind.first(), Some(b':')),
        // `[Server thread/WARN]: x` of Minecraft.
        Some(b'/') => matches!(behind.first(), Some(b']')),
        _ => false,
    };
    let closes = match behind.first() {
        None
        | Some(
            b' ' | b'\t' | b'\n' | b'|' | b']' | b':' | b',' | b')' | b'>' | b'[' | b'!' | b'*'
            | 0x1b,
        ) => true,
        // Celery: `: WARNING/MainProcess]`
        Some(b'/') => {
            (at == start || before.ends_with(b": "))
                && behind.get(1).is_some_and(u8::is_ascii_uppercase)
        }
        _ => false,
    };
    if !(opens && closes) {
        return Capitals::Word(end);
    }
    let is_nagios = || before.ends_with(b"SERVICE ") || before.ends_with(b"HOST ");
    match of_one_program(word, before, behind) {
        Some(level) => Capitals::Level(level),
        // The further lines of an event of PostgreSQL.
        None if behind.starts_with(b":  ")
            && matches!(
                word,
                b"STATEMENT" | b"DETAIL" | b"HINT" | b"CONTEXT" | b"QUERY" | b"ANWEISUNG"
            ) =>
        {
            Capitals::End
        }
        None => match from_word(word).filter(|_| word != b"ALERT" || !is_nagios()) {
            Some(level) => Capitals::Level(level),
            None => Capitals::Word(end),
        },
    }
}

/// The level of a word that has this meaning only in the lines of one program.
fn of_one_program(word: &[u8], before: &[u8], behind: &[u8]) -> Option<&'static str> {
    match word {
        b"LOG" if behind.starts_with(b":  ") => Some("info"),
        // PgBouncer: `[712] LOG C-0x5581: x`
        b"LOG" if behind.starts_with(b" ") && is_process(before) => Some("info"),
        // Db2: `…  LEVEL: Error`
        b"LEVEL" if before.ends_with(b"  ") && behind.starts_with(b": ") => value(&behind[2..]),
        // PostgreSQL in German, French and Italian, and Tomcat.
        b"HINWEIS" if behind.starts_with(b":  ") => Some("notice"),
        b"ATTENTION" | b"ATTENZIONE" if behind.starts_with(b":  ") => Some("warning"),
        b"GRAVE" if behind.starts_with(b" [") => Some("error"),
        b"SUCCESS" if before.ends_with(b"| ") && behind.starts_with(b"  |") => Some("info"),
        // Oracle, also with a number: `[NOTIFICATION:16]`
        b"NOTIFICATION"
            if before.ends_with(b"[") && matches!(behind.first(), Some(b']' | b':')) =>
        {
            Some("notice")
        }
        // Logrus, and programs that copy it: `ERRO[0012] …`.
        b"ERRO" | b"DEBU" | b"FATA" | b"PANI" | b"TRAC" if before.is_empty() => match word {
            b"ERRO" => Some("error"),
            b"FATA" => Some("critical"),
            b"PANI" => Some("emerg"),
            _ => Some("debug"),
        },
        _ => None,
    }
}

/// A level word in brackets: `[error]`, `[ warn]`, `[core:error]`, `<Error>`.
fn bracketed(text: &[u8], at: usize, start: usize) -> Option<&'static str> {
    let inner = &text[at + 1..];
    if text[at] == b'<'
        && let Some(level) = of_exos(inner)
    {
        return Some(level);
    }
    let padding = inner.iter().take(4).take_while(|b| **b == b' ').count();
    let word_length =
        |text: &[u8]| text.iter().take(32).take_while(|b| b.is_ascii_alphanumeric()).count();
    let mut word = &inner[padding..];
    let mut length = word_length(word);
    let mut has_module = false;
    if word.get(length) == Some(&b':') || word.get(length) == Some(&b'_') {
        // A module of Apache in front: `[core:error]`, `[mpm_event:notice]`.
        let module = word.iter().take(32).take_while(|b| is_word(**b)).count();
        word = word[module..].strip_prefix(b":")?;
        length = word_length(word);
        has_module = true;
    }
    let (word, behind) = word.split_at(length);
    let behind = behind.trim_ascii_start();
    let is_closed = match text[at] {
        // Couchbase has the time in the same brackets: `[ns_server:info,2026-01-31T12:00:00.250Z,`.
        b'[' if has_module && matches!(behind, [b',', b'0'..=b'9', ..]) => true,
        b'[' => behind.first() == Some(&b']'),
        // NetworkManager's `<info>` begins the text; elsewhere small letters are XML.
        _ => behind.first() == Some(&b'>') && (at == start || word.first()?.is_ascii_uppercase()),
    };
    is_closed.then_some(())?;
    match word {
        b"Note" => Some("info"),
        b"System" if behind.starts_with(b"] [MY-") => Some("info"),
        _ => from_word(word),
    }
}

/// A level word in front of a colon with a blank behind it, and behind another colon or a bracket:
/// `general: error: x`, `unbound[12:0] error: x`, `app - error: x`, `web-1  | error: x`; so also
/// with a blank before the colon (libvirt's `7: error : x`), in parentheses (`Puppet (err): x`), or
/// as GLib writes it (`GLib-WARNING **: x`); or the value of a key: `"level":"error"`.
#[inline]
fn before_colon(text: &[u8], at: usize) -> Option<&'static str> {
    let last = text[..at].last()?;
    let is_blank = matches!(text.get(at + 1), None | Some(b' '));
    let may_end = last.is_ascii_alphanumeric() || matches!(last, b' ' | b')' | b'*');
    let may_be = *last == b'"' || (is_blank && may_end);
    if may_be { before_likely_colon(text, at) } else { None }
}

fn before_likely_colon(text: &[u8], at: usize) -> Option<&'static str> {
    let (before, behind) = (&text[..at], &text[at + 1..]);
    if let Some(key) = before.strip_suffix(b"\"") {
        let begin = memchr::memrchr(b'"', key)?;
        let is_level = is_key(&key[begin + 1..]);
        return is_level.then(|| value(behind.trim_ascii_start())).flatten();
    }
    let of_glib = before.strip_suffix(b" **");
    let before = of_glib.or_else(|| before.strip_suffix(b" ")).unwrap_or(before);
    let enclosed = before.strip_suffix(b")");
    let before = enclosed.unwrap_or(before);
    let letters = before.iter().rev().take(14).take_while(|b| b.is_ascii_alphanumeric()).count();
    let (before, word) = before.split_at(before.len() - letters);
    let labels: &[&[u8]] = match (of_glib, enclosed) {
        (Some(_), _) => &[b"-", b" "],
        (None, Some(_)) => &[b" ("],
        // Two blanks end a column, as in `spid51      Error: x` of SQL Server.
        (None, None) => &[b": ", b"] ", b"\n", b"\t", b" - ", b" | ", b"  "],
    };
    let is_label = labels.iter().any(|label| before.ends_with(label)) || before == b"- ";
    if is_label { from_word(word) } else { None }
}

/// The level in `level=error`, given the place of the `=`.
#[inline]
fn of_pair(text: &[u8], at: usize) -> Option<&'static str> {
    // The bytes beside the sign exclude nearly all other pairs.
    let last = text[..at].last()? | 0x20;
    let next = *text.get(at + 1)?;
    let may_be = matches!(last, b'l' | b'y' | b'e' | b't')
        && (next.is_ascii_alphabetic() || matches!(next, b'"' | b'\'' | 0x1b));
    if may_be { of_likely_pair(text, at) } else { None }
}

fn of_likely_pair(text: &[u8], at: usize) -> Option<&'static str> {
    let before = &text[..at];
    let length = before.iter().rev().take(KEY_BYTES_MAX + 1).take_while(|b| is_word(**b)).count();
    let (before, key) = before.split_at(at - length);
    let begins = matches!(
        before.last(),
        None | Some(b' ' | b'\t' | b',' | b'{' | b'[' | b'(' | b';' | b'|' | b'm')
    );
    if !begins || !is_key(key) {
        return None;
    }
    value(&text[at + 1..])
}

fn is_key(key: &[u8]) -> bool {
    KEYS.iter().any(|known| known.eq_ignore_ascii_case(key))
}

/// The level in a value, with or without quotes.
fn value(text: &[u8]) -> Option<&'static str> {
    let text = match text {
        [b'"' | b'\'', inner @ ..] => inner,
        _ => text,
    };
    let text = &text[colours(text)..];
    let length = text.iter().take(14).take_while(|b| b.is_ascii_alphanumeric()).count();
    let (word, behind) = text.split_at(length);
    // As in `level=error-prone`, `level=info.log`.
    let goes_on = behind.first().is_some_and(|b| matches!(b, b'_' | b'.' | b'/' | b'$'));
    if goes_on {
        None
    } else {
        from_word(word).or_else(|| json_level::word(word).filter(|_| length > 1))
    }
}

/// A word in a colour of its own.
fn coloured(text: &[u8], at: usize) -> Option<&'static str> {
    let rest = &text[at + colours(&text[at..]).max(1)..];
    let rest = rest.trim_ascii_start();
    let length = rest.iter().take(14).take_while(|b| b.is_ascii_alphanumeric()).count();
    let (word, behind) = rest.split_at(length);
    match behind.trim_ascii_start().first() {
        Some(0x1b | b':') => from_word(word),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn levels_of_plain_lines() {
        let rows = [
            (" INFO [main] org.apache", Some("info")),
            (" 148 INFO dfs.DataNode$PacketResponder: x", Some("info")),
            (" [notice] jk2_init() Found", Some("notice")),
            (" [core:error] [pid 1] x", Some("error")),
            (" [error] x", Some("error")),
            (", Info                  CBS    Loaded", Some("info")),
            (" R02-M1-N0-C:J12-U11 RAS KERNEL FATAL data", Some("critical")),
            ("W/ActivityManager(  123): x", Some("warning")),
            ("error: Received disconnect", Some("error")),
            ("fatal: x", Some("critical")),
            ("ts=1 level=warn msg=x", Some("warning")),
            ("|Step|ERROR|x", Some("error")),
            ("ERROR", Some("error")),
            (" UTC [12] LOG:  checkpoint starting", Some("info")),
            (" UTC [12] DEBUG2:  x", Some("debug")),
            (" UTC [12] u@d FATAL:  x", Some("critical")),
            (" | SUCCESS  | app:main:1 - x", Some("info")),
            (" SUCCESS x", None),
            ("Z 0 [Note] InnoDB: x", Some("info")),
            ("Z 0 [System] [MY-010931] [Server] x", Some("info")),
            ("fail: Microsoft.X[0]", Some("error")),
            ("dbug: Microsoft.X[0]", Some("debug")),
            (" +01:00 [FTL] x", Some("critical")),
            ("\u{1b}[32mINFO\u{1b}[0m x", Some("info")),
            ("\u{1b}[0m \u{1b}[33m WARN\u{1b}[0m \u{1b}[2mmod\u{1b}[0m: x", Some("warning")),
            ("\u{1b}[1;31merror\u{1b}[0m: x", Some("error")),
            ("LOG: x", None),
            ("the LOG of it", None),
            ("[System] started", None),
            ("failed: x", None),
            ("it did fail: x", None),
            ("\u{1b}[31mred\u{1b}[0m", None),
            ("an error occurred", None),
            ("no ERRORS here", None),
            ("ERROR_CODE=3 x", None),
            ("CBS_E_INFO x", None),
            ("x.ERROR.y", None),
            ("info about this", None),
            ("A/B test", None),
            ("", None),
            ("   ", None),
        ];
        for (text, level) in rows {
            assert_eq!(find(text.as_bytes()), level, "{text}");
        }
    }

    #[test]
    fn levels_of_timed_lines() {
        let rows = [
            ("W0131 12:00:00.1", "    1234 a.go:1] x", Some("warning")),
            ("2026", " info hostd[2099] [Originator@6876] x", Some("info")),
            ("1769860800.12", "info\tx", Some("info")),
            ("2026", " I NETWORK  [conn1] x", Some("info")),
            ("1:M 31 Jan", "* Ready", Some("notice")),
            ("1:M 31 Jan", "# Out", Some("warning")),
            ("1:M 31 Jan", "- Accepted", Some("info")),
            ("1:M 31 Jan", ". DB 0", Some("debug")),
            ("2026", " - name - WARNING - x", Some("warning")),
            ("2026", " [error] 12#0: *1 open() failed", Some("error")),
            ("2026", " information is missing", None),
            ("2026", " I am here", None),
            ("2026", " I AM", None),
            ("2026", " I  NETWORK  [conn1] x", Some("info")),
            ("2026", " I  AM", None),
            ("2026", " W! [inputs.x] y", Some("warning")),
            ("2026", " A! x", None),
            ("2026", " I   AM HERE", None),
            ("2026", " * x", None),
            ("2026", " notice that", None),
            ("Warnings", " x", None),
            ("2026", "", None),
        ];
        for (line, rest, level) in rows {
            let text = format!("{line}{rest}");
            assert_eq!(of_timed(text.as_bytes(), line.len()), level, "{text}");
        }
    }

    proptest! {
        /// No sign is overlooked when texts without any are left out.
        #[test]
        fn texts_without_a_sign_have_no_level(
            parts in prop::collection::vec(prop::sample::select(&[
                "error", "ERROR", "warn", "Info", "I", "E", "PHP ", "Fatal error: ", " ", "  ", ":",
                "[", "]", "=", "level", "\"", "%A-3-B", "\u{1b}[31m", "<", ">", "/Tag", "(", "|", "x",
                "12", "a longer text", ".", "\t", "hostd", "SUCCESS", "é",
            ][..]), 0..24),
        ) {
            let text = parts.concat();
            let text = &text.as_bytes()[..text.len().min(LEVEL_SEARCH_BYTES)];
            prop_assert_eq!(find(text), search(text, Signs::of(text)));
        }
    }

    #[test]
    fn only_the_start_is_searched() {
        let at = |n: usize| format!("{:n$}ERROR x", "x ");
        assert_eq!(find(at(LEVEL_SEARCH_BYTES - 6).as_bytes()), Some("error"));
        assert_eq!(find(at(LEVEL_SEARCH_BYTES).as_bytes()), None);
    }
}
