//! PostgreSQL: what `log_line_prefix` puts in front of a message, its duration, and `csvlog`.
//!
//! The prefix is free; known are the default, those of distributions and clouds, and pairs
//! (`user=%u,db=%d`). What is in the prefix but is not understood is left out.

use super::super::time;
use super::words::{is_decimal, is_ip, is_number, until, word};
use super::{Found, Name};

/// The severity stands within this many bytes.
const PREFIX_BYTES_MAX: usize = 320;

/// ```text
/// 2026-01-31 12:00:00.250 UTC [123] LOG:  duration: 1.234 ms  statement: SELECT 1
/// 2026-01-31 12:00:00 UTC [123] bob@shop ERROR:  …
/// 2026-01-31 12:00:00 UTC [123]: [4-1] user=bob,db=shop,app=psql,client=192.0.2.1 LOG:  …
/// 2026-01-31 12:00:00 UTC:192.0.2.1(5432):bob@shop:[123]:ERROR:  …
/// ```
pub(super) fn parse(message: &[u8], found: &mut Found) -> Option<()> {
    let start = match time::iso(message) {
        Some((_, length)) => {
            let behind = &message[length..];
            // A name of a zone that is no part of the time.
            let zone = behind.iter().skip(1).take_while(|b| b.is_ascii_uppercase()).count();
            let has_zone = behind.first() == Some(&b' ') && (2..=5).contains(&zone);
            length + if has_zone { zone + 1 } else { 0 }
        }
        None => 0,
    };
    if start > 0 && message.get(start) == Some(&b',') {
        return csv(&message[start + 1..], found);
    }
    let text = &message[start..];
    let at = memchr::memmem::find(&text[..text.len().min(PREFIX_BYTES_MAX)], b":  ")?;
    let (before, behind) = (&text[..at], &text[at + 3..]);
    let letters = before.iter().rev().take_while(|b| b.is_ascii_alphanumeric()).count();
    let (prefix, severity) = before.split_at(at - letters);
    let level = severity_level(severity)?;
    (prefix.is_empty() || matches!(prefix.last(), Some(b' ' | b':' | b',' | b'|'))).then_some(())?;
    prefix_fields(prefix, found);
    if !level.is_empty() {
        found.put(Name::Level, severity);
    }
    if let Some(duration) = behind.strip_prefix(b"duration: ")
        && let Some((duration, _)) = until(duration, b" ms")
        && is_decimal(duration)
    {
        found.put(Name::Duration, duration);
    }
    Some(())
}

/// The level of a severity; empty for the further lines of an event.
fn severity_level(word: &[u8]) -> Option<&'static str> {
    Some(match word {
        b"LOG" | b"INFO" => "info",
        b"NOTICE" | b"HINWEIS" => "notice",
        b"WARNING" | b"WARNUNG" | b"ADVERTENCIA" | b"ATTENTION" | b"ATTENZIONE" => "warning",
        b"ERROR" | b"FEHLER" | b"ERREUR" | b"ERRO" | b"ERRORE" => "error",
        b"FATAL" => "critical",
        b"PANIC" => "emerg",
        b"DEBUG" | b"DEBUG1" | b"DEBUG2" | b"DEBUG3" | b"DEBUG4" | b"DEBUG5" => "debug",
        b"STATEMENT" | b"DETAIL" | b"HINT" | b"CONTEXT" | b"QUERY" | b"LOCATION" => "",
        _ => return None,
    })
}

fn prefix_fields(prefix: &[u8], found: &mut Found) {
    let mut has_pid = false;
    for part in prefix.split(|b| matches!(b, b' ' | b',' | b'|')) {
        // Amazon RDS separates with colons; IPv6 addresses and times have them, too.
        let is_rds = part.starts_with(b":");
        let mut pieces = part.split(|b| is_rds && *b == b':');
        for piece in &mut pieces {
            has_pid |= prefix_field(piece.strip_suffix(b":").unwrap_or(piece), has_pid, found);
        }
    }
}

/// Puts a word of a prefix; returns whether it was the process.
fn prefix_field(word: &[u8], has_pid: bool, found: &mut Found) -> bool {
    if let Some(inner) = word.strip_prefix(b"[").and_then(|inner| inner.strip_suffix(b"]")) {
        let is_pid = is_number(inner) && !has_pid;
        if is_pid {
            found.put(Name::Pid, inner);
        }
        return is_pid;
    }
    if let Some((key, value)) = until(word, b"=") {
        let name = match key {
            b"user" | b"usr" | b"username" => Name::User,
            b"db" | b"database" | b"dbname" => Name::Db,
            b"app" | b"application" | b"application_name" => Name::App,
            b"client" | b"host" | b"remote" | b"ip" => return put_client(value, found),
            b"pid" if !has_pid => {
                found.put(Name::Pid, value);
                return true;
            }
            b"sqlstate" | b"state" | b"code" => Name::Sqlstate,
            _ => return false,
        };
        if value != b"[unknown]" {
            found.put(name, value);
        }
        return false;
    }
    if let Some((user, db)) = until(word, b"@").filter(|(_, db)| !db.is_empty()) {
        for (name, value) in [(Name::User, user), (Name::Db, db)] {
            if value != b"[unknown]" {
                found.put(name, value);
            }
        }
    } else if is_sqlstate(word) {
        found.put(Name::Sqlstate, word);
    } else if word.ends_with(b")") || is_ip(word) {
        return put_client(word, found);
    }
    false
}

/// `192.0.2.1`, `192.0.2.1(5432)`.
fn put_client(client: &[u8], found: &mut Found) -> bool {
    let (ip, port) = match until(client, b"(") {
        Some((ip, port)) => (ip, port.strip_suffix(b")").unwrap_or_default()),
        None => (client, &b""[..]),
    };
    if is_ip(ip) {
        found.put(Name::ClientIp, ip);
        if is_number(port) {
            found.put(Name::ClientPort, port);
        }
    }
    false
}

/// Five digits and capitals, at least one of them a digit, as `42P01`.
fn is_sqlstate(word: &[u8]) -> bool {
    word.len() == 5
        && word.iter().all(|b| b.is_ascii_digit() || b.is_ascii_uppercase())
        && word[0].is_ascii_digit()
}

/// The columns behind the time: user, database, process, client, session, number of the line,
/// command, begin of the session, virtual and real transaction, severity, SQLSTATE, message.
fn csv(text: &[u8], found: &mut Found) -> Option<()> {
    const COLUMNS: usize = 13;
    let mut columns = [&b""[..]; COLUMNS];
    let mut rest = text;
    for column in &mut columns {
        let (value, behind) = csv_value(rest)?;
        (*column, rest) = (value, behind?);
    }
    let [user, db, pid, client, _, _, _, _, _, _, severity, sqlstate, message] = columns;
    let level = severity_level(severity).filter(|level| !level.is_empty())?;
    is_number(pid).then_some(())?;
    found.put(Name::User, user);
    found.put(Name::Db, db);
    found.put(Name::Pid, pid);
    if let Some((ip, port)) = super::words::ip_and_port(client) {
        found.put(Name::ClientIp, ip);
        found.put(Name::ClientPort, port);
    }
    found.put(Name::Level, severity);
    found.put(Name::Sqlstate, sqlstate);
    found.level = Some(level);
    if let Some(duration) = message.strip_prefix(b"duration: ")
        && let (duration, unit) = word(duration)
        && unit.starts_with(b"ms")
        && is_decimal(duration)
    {
        found.put(Name::Duration, duration);
    }
    // Detail, hint, internal query, its position, context, query, its position, location.
    for _ in 0..8 {
        let Some((_, Some(behind))) = csv_value(rest) else { return Some(()) };
        rest = behind;
    }
    if let Some((app, _)) = csv_value(rest) {
        found.put(Name::App, app);
    }
    Some(())
}

/// A value, still with doubled quotes, and the text behind its comma, if there is one.
fn csv_value(text: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
    let Some(inner) = text.strip_prefix(b"\"") else {
        let end = memchr::memchr(b',', text);
        return Some((&text[..end.unwrap_or(text.len())], end.map(|at| &text[at + 1..])));
    };
    let mut at = 0;
    loop {
        at += memchr::memchr(b'"', inner.get(at..)?)?;
        if inner.get(at + 1) != Some(&b'"') {
            break;
        }
        at += 2;
    }
    match inner[at + 1..].first() {
        None => Some((&inner[..at], None)),
        Some(b',') => Some((&inner[..at], Some(&inner[at + 2..]))),
        Some(_) => None,
    }
}
