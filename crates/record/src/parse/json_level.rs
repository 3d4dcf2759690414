//! The meaning of values of keys for the level: words, letters and numbers.
//!
//! A number is only a level if its scale is known, from its key or from other keys in the object:
//! 30 is `info` for pino and bunyan, and `warning` for Python. A number with an unknown scale gives
//! no level.

use super::json_names::{LevelKind, Marks};
use super::level::{self, LEVELS};

/// The level of a value in an object with these marks.
pub(crate) fn find(kind: LevelKind, text: &[u8], marks: Marks) -> Option<&'static str> {
    let text = &text[level::colours(text)..];
    let text = text.trim_ascii();
    let text = match memchr::memchr(0x1b, text) {
        Some(at) => &text[..at],
        None => text,
    };
    let Some(number) = number(text) else {
        return match kind {
            LevelKind::Mongo => marks.has(Marks::T_DATE).then(|| letter(text)).flatten(),
            LevelKind::Kubernetes if !marks.has(Marks::INVOLVED) => None,
            LevelKind::Kubernetes if text == b"Normal" => Some("info"),
            LevelKind::EventLog if !marks.has(Marks::EVENT_LOG) => None,
            LevelKind::Falco if !marks.has(Marks::RULE) || !marks.has(Marks::OUTPUT) => None,
            LevelKind::Word
            | LevelKind::Level
            | LevelKind::Severity
            | LevelKind::Azure
            | LevelKind::Syslog
            | LevelKind::Kubernetes
            | LevelKind::EventLog
            | LevelKind::Falco => word(text),
            _ => None,
        };
    };
    let of_tens = |tens: [&'static str; 6]| match number {
        10..70 => Some(tens[number as usize / 10 - 1]),
        _ => None,
    };
    let of_syslog = || LEVELS.get(number as usize).copied();
    match kind {
        LevelKind::Word
        | LevelKind::Mongo
        | LevelKind::Kubernetes
        | LevelKind::EventLog
        | LevelKind::Falco => None,
        LevelKind::Level if marks.has(Marks::SHORT_MESSAGE) => of_syslog(),
        LevelKind::Level if marks.has(Marks::EVENT_RECORD) => {
            ["info", "critical", "error", "warning", "info", "debug"].get(number as usize).copied()
        }
        LevelKind::Level
            if number <= 4 && marks.has(Marks::REQUEST_ID) && marks.has(Marks::REMOTE_ADDRESS) =>
        {
            ["debug", "info", "warning", "error", "critical"].get(number as usize).copied()
        }
        LevelKind::Level => {
            let pairs = [
                (Marks::PID, Marks::HOSTNAME),
                (Marks::V, Marks::HOSTNAME),
                (Marks::V, Marks::PID),
            ];
            let is_node = pairs.iter().any(|(a, b)| marks.has(*a) && marks.has(*b));
            let node = || of_tens(["debug", "debug", "info", "warning", "error", "critical"]);
            is_node.then(node).flatten()
        }
        LevelKind::Severity => marks.has(Marks::FACILITY).then(of_syslog).flatten(),
        LevelKind::Syslog => of_syslog(),
        LevelKind::Python => of_tens(["debug", "info", "warning", "error", "critical", "critical"]),
        LevelKind::Logback => match number {
            5_000..20_000 => Some("debug"),
            20_000..30_000 => Some("info"),
            30_000..40_000 => Some("warning"),
            40_000..50_000 => Some("error"),
            50_000..=60_000 => Some("critical"),
            _ => None,
        },
        LevelKind::Otel => match number {
            1..=8 => Some("debug"),
            9..=12 => Some("info"),
            13..=16 => Some("warning"),
            17..=20 => Some("error"),
            21..=24 => Some("critical"),
            _ => None,
        },
        LevelKind::Azure => {
            ["debug", "info", "warning", "error", "critical"].get(number as usize).copied()
        }
    }
}

/// The level of an object without one: Serilog leaves out its usual level.
pub(crate) fn unnamed(marks: Marks) -> Option<&'static str> {
    let serilog = marks.has(Marks::AT_T) && marks.has(Marks::AT_M) && !marks.has(Marks::AT_L);
    serilog.then_some("info")
}

/// A whole number with at most five digits.
fn number(text: &[u8]) -> Option<u32> {
    let text = text.strip_suffix(b".0").unwrap_or(text);
    let digits = (1..=5).contains(&text.len()) && text.iter().all(u8::is_ascii_digit);
    digits.then(|| text.iter().fold(0, |n, b| n * 10 + u32::from(b - b'0')))
}

/// A level word, also with the offset that Go's slog appends (`INFO+2`), a word of a particular
/// logger, or a letter.
pub(crate) fn word(text: &[u8]) -> Option<&'static str> {
    if let Some(level) = level::from_word(text) {
        return Some(level);
    }
    let plain = match text.iter().position(|b| matches!(b, b'+' | b'-')) {
        Some(at) if at + 1 < text.len() && text[at + 1..].iter().all(u8::is_ascii_digit) => {
            return level::from_word(&text[..at]);
        }
        _ => text,
    };
    const OF_LOGGERS: [(&[u8], &str); 16] = [
        (b"fine", "debug"),
        (b"finer", "debug"),
        (b"finest", "debug"),
        (b"silly", "debug"),
        (b"trce", "debug"),
        (b"dbug", "debug"),
        (b"config", "info"),
        (b"http", "info"),
        (b"log", "info"),
        (b"note", "info"),
        (b"success", "info"),
        (b"eror", "error"),
        (b"fail", "error"),
        (b"failure", "error"),
        (b"fault", "critical"),
        (b"pnc", "emerg"),
    ];
    let same = |(known, level): &(&[u8], &'static str)| {
        known.eq_ignore_ascii_case(plain).then_some(*level)
    };
    OF_LOGGERS.iter().find_map(same).or_else(|| letter(plain))
}

fn letter(text: &[u8]) -> Option<&'static str> {
    match text {
        // MongoDB writes D1 to D5.
        [letter] | [letter @ b'D', b'1'..=b'5'] => level::from_letter(*letter),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(all: &[Marks]) -> Marks {
        let mut marks = Marks::NONE;
        all.iter().for_each(|mark| marks.add(*mark));
        marks
    }

    #[test]
    fn levels() {
        let node = marks(&[Marks::PID, Marks::HOSTNAME]);
        let bunyan = marks(&[Marks::V, Marks::HOSTNAME]);
        let rows = [
            (LevelKind::Word, "WARNING", Marks::NONE, Some("warning")),
            (LevelKind::Word, "Information", Marks::NONE, Some("info")),
            (LevelKind::Word, "INFO+2", Marks::NONE, Some("info")),
            (LevelKind::Word, "ERROR-4", Marks::NONE, Some("error")),
            (LevelKind::Word, "INFO+", Marks::NONE, None),
            (LevelKind::Word, "\u{1b}[32minfo\u{1b}[39m", Marks::NONE, Some("info")),
            (LevelKind::Word, "INFO ", Marks::NONE, Some("info")),
            (LevelKind::Word, "W", Marks::NONE, Some("warning")),
            (LevelKind::Word, "FINE", Marks::NONE, Some("debug")),
            (LevelKind::Word, "high", Marks::NONE, None),
            (LevelKind::Word, "RequestResponse", Marks::NONE, None),
            (LevelKind::Word, "DEFAULT", Marks::NONE, None),
            (LevelKind::Word, "30", node, None),
            (LevelKind::Word, "", Marks::NONE, None),
            (LevelKind::Level, "10", node, Some("debug")),
            (LevelKind::Level, "30", node, Some("info")),
            (LevelKind::Level, "40", bunyan, Some("warning")),
            (LevelKind::Level, "60", bunyan, Some("critical")),
            (LevelKind::Level, "35", node, Some("info")),
            (LevelKind::Level, "70", node, None),
            (LevelKind::Level, "5", node, None),
            (LevelKind::Level, "30", Marks::NONE, None),
            (LevelKind::Level, "30", Marks::PID, None),
            (LevelKind::Level, "30", Marks::HOSTNAME, None),
            (LevelKind::Level, "3", Marks::SHORT_MESSAGE, Some("error")),
            (LevelKind::Level, "8", Marks::SHORT_MESSAGE, None),
            (LevelKind::Severity, "3", Marks::FACILITY, Some("error")),
            (LevelKind::Severity, "3", Marks::NONE, None),
            (LevelKind::Syslog, "4", Marks::NONE, Some("warning")),
            (LevelKind::Syslog, "high", Marks::NONE, None),
            (LevelKind::Python, "30", Marks::NONE, Some("warning")),
            (LevelKind::Python, "50", Marks::NONE, Some("critical")),
            (LevelKind::Python, "25", Marks::NONE, Some("info")),
            (LevelKind::Python, "0", Marks::NONE, None),
            (LevelKind::Logback, "20000", Marks::NONE, Some("info")),
            (LevelKind::Logback, "40000", Marks::NONE, Some("error")),
            (LevelKind::Logback, "40", Marks::NONE, None),
            (LevelKind::Otel, "1", Marks::NONE, Some("debug")),
            (LevelKind::Otel, "9", Marks::NONE, Some("info")),
            (LevelKind::Otel, "17", Marks::NONE, Some("error")),
            (LevelKind::Otel, "25", Marks::NONE, None),
            (LevelKind::Azure, "3", Marks::NONE, Some("error")),
            (LevelKind::Azure, "5", Marks::NONE, None),
            (LevelKind::Azure, "Warning", Marks::NONE, Some("warning")),
            (LevelKind::Mongo, "I", Marks::T_DATE, Some("info")),
            (LevelKind::Mongo, "D2", Marks::T_DATE, Some("debug")),
            (LevelKind::Mongo, "E", Marks::NONE, None),
            (LevelKind::Otel, "99999999999999999999", Marks::NONE, None),
        ];
        for (kind, text, marks, level) in rows {
            assert_eq!(find(kind, text.as_bytes(), marks), level, "{kind:?} {text} {marks:?}");
        }
        assert_eq!(unnamed(marks(&[Marks::AT_T, Marks::AT_M])), Some("info"));
        assert_eq!(unnamed(marks(&[Marks::AT_T, Marks::AT_M, Marks::AT_L])), None);
        assert_eq!(unnamed(Marks::AT_T), None);
    }
}
