//! Levels in the lines of single programs: words, letters and columns that mean a level only there.
//!
//! [`super::level_text`] looks here where a text begins, or goes on behind its time, as those of
//! the program do.

use super::level::{LEVELS, colours, from_letter, from_word};
use super::{time, time_plain};

/// `0000004a ServletWrappe E   x` of WebSphere, behind the time: thread, component and level.
pub(super) fn of_websphere(text: &[u8]) -> Option<&'static str> {
    const COMPONENT_BYTES_MAX: usize = 128;
    let (thread, rest) = text.split_first_chunk::<8>()?;
    let component = rest.strip_prefix(b" ")?;
    thread.iter().all(u8::is_ascii_hexdigit).then_some(())?;
    let window = &component[..component.len().min(COMPONENT_BYTES_MAX)];
    let length = memchr::memchr(b' ', window).filter(|length| *length > 0)?;
    match component[length..].trim_ascii_start() {
        [letter @ (b'F' | b'E' | b'W' | b'I' | b'D'), b' ', ..] => from_letter(*letter),
        [b'A', b' ', ..] => Some("notice"), // audit
        _ => None,
    }
}

/// `[Nest] 712  - 01/31/2026, 12:00:00 PM     LOG [App] x`: the usual level of NestJS, which has a
/// word of its own; perhaps in colours.
pub(super) fn is_usual_of_nest(line: &[u8], time_bytes: usize) -> bool {
    let (front, rest) = line.split_at(time_bytes);
    let rest = rest.trim_ascii_start();
    let rest = rest[colours(rest)..].trim_ascii_start();
    front[colours(front)..].starts_with(time_plain::NEST) && rest.starts_with(b"LOG")
}

/// `[12345]{-1}[-1/-1] ` in front of the time: thread, connection and transaction of SAP HANA.
pub(super) fn is_hana(front: &[u8]) -> bool {
    let [b'[', thread @ ..] = front else { return false };
    let digits = thread.iter().take(20).take_while(|b| b.is_ascii_digit()).count();
    digits > 0 && thread[digits..].starts_with(b"]{")
}

/// `   Error       0x0   712    0    launchd: x` of macOS' `log show`, behind the thread: type and
/// activity. The type `Default` is no level.
pub(super) fn of_macos(text: &[u8]) -> Option<&'static str> {
    let text = text.trim_ascii_start();
    let length = text.iter().take(16).take_while(|b| b.is_ascii_alphabetic()).count();
    let (word, behind) = text.split_at(length);
    let is_column = behind.starts_with(b"  ") && behind.trim_ascii_start().starts_with(b"0x");
    match word {
        _ if !is_column => None,
        b"Fault" => Some("critical"),
        _ => from_word(word),
    }
}

/// `Info|Bootstrap|x` of NLog, behind the bar that ends the time, and ` info | x`.
pub(super) fn between_bars(inner: &[u8]) -> Option<&'static str> {
    let inner = inner.trim_ascii_start();
    let length = inner.iter().take(16).take_while(|b| b.is_ascii_alphabetic()).count();
    let (word, behind) = inner.split_at(length);
    if behind.trim_ascii_start().first() == Some(&b'|') { from_word(word) } else { None }
}

/// `01> Info         x` of Veeam, behind the bracket before the thread; also `01>  Info (3)  x`.
pub(super) fn of_veeam(inner: &[u8]) -> Option<&'static str> {
    let digits = inner.iter().take(8).take_while(|b| b.is_ascii_digit()).count();
    let rest = inner[digits..].strip_prefix(b"> ").filter(|_| digits > 0)?.trim_ascii_start();
    let length = rest.iter().take(16).take_while(|b| b.is_ascii_alphabetic()).count();
    let (word, behind) = rest.split_at(length);
    let is_column = behind.starts_with(b"  ") || behind.starts_with(b" (");
    if is_column { from_word(word) } else { None }
}

/// `In(166) Hostd[2099]: x` of ESXi since version 8: the level, and the priority of syslog.
pub(super) fn of_esxi(text: &[u8]) -> Option<&'static str> {
    const NAMES: [&[u8; 2]; 8] = [b"Em", b"Al", b"Cr", b"Er", b"Wa", b"No", b"In", b"Db"];
    let (name, rest) = text.split_first_chunk::<2>()?;
    let severity = NAMES.iter().position(|known| *known == name)?;
    let inner = rest.strip_prefix(b"(")?;
    let (priority, digits) = time::number(inner, 3)?;
    let is_it = priority as usize % 8 == severity && inner[digits..].starts_with(b") ");
    is_it.then(|| LEVELS[severity])
}

/// `7F3C error 'Default' …]` of VMware, behind the bracket: thread, level, and the component in
/// quotes.
pub(super) fn of_thread(inner: &[u8]) -> Option<&'static str> {
    let thread = inner.iter().take(16).take_while(|b| b.is_ascii_alphanumeric()).count();
    let level = inner[thread..].strip_prefix(b" ")?;
    let length = level.iter().take(16).take_while(|b| b.is_ascii_lowercase()).count();
    if thread > 0 && level[length..].starts_with(b" '") {
        from_word(&level[..length])
    } else {
        None
    }
}

/// `1234:M 31 `: process id and role.
pub(super) fn is_redis(line: &[u8]) -> bool {
    let digits = line.iter().take_while(|b| b.is_ascii_digit()).count();
    matches!(line[digits..], [b':', b'M' | b'S' | b'C' | b'X', b' ', ..])
}

pub(super) fn of_redis(rest: &[u8]) -> Option<&'static str> {
    Some(match rest.trim_ascii_start() {
        [b'#', b' ', ..] => "warning",
        [b'*', b' ', ..] => "notice",
        [b'-', b' ', ..] => "info",
        [b'.', b' ', ..] => "debug",
        _ => return None,
    })
}

/// `1234  5678 E Tag: x`: process, thread and level of Android.
pub(super) fn of_android(text: &[u8]) -> Option<&'static str> {
    let mut rest = text;
    for _ in 0..2 {
        let digits = rest.iter().take(8).take_while(|b| b.is_ascii_digit()).count();
        let behind = rest[digits..].trim_ascii_start();
        (digits > 0 && behind.len() < rest.len() - digits).then_some(())?;
        rest = behind;
    }
    match rest {
        [letter @ (b'V' | b'D' | b'I' | b'W' | b'E' | b'F'), b' ', next, ..]
            if next.is_ascii_alphabetic() =>
        {
            from_letter(*letter)
        }
        _ => None,
    }
}

/// Whether a text is a process in brackets, and a blank: `[712] `.
pub(super) fn is_process(text: &[u8]) -> bool {
    let inner = text.strip_prefix(b"[").and_then(|text| text.strip_suffix(b"] "));
    inner.is_some_and(|inner| !inner.is_empty() && inner.iter().all(u8::is_ascii_digit))
}

/// `Info:vlan.msgs.portLinkStateDown>` behind its bracket: EXOS of Extreme Networks writes the
/// level in four letters, and the name of the event.
pub(super) fn of_exos(inner: &[u8]) -> Option<&'static str> {
    let (word, behind) = inner.split_first_chunk::<4>()?;
    let level = match word {
        b"Crit" => "critical",
        b"Erro" => "error",
        b"Warn" => "warning",
        b"Noti" => "notice",
        b"Info" | b"Summ" => "info",
        b"Debu" | b"Verb" => "debug",
        _ => return None,
    };
    let event = behind.strip_prefix(b":")?;
    let length = event.iter().take_while(|b| b.is_ascii_alphanumeric() || **b == b'.').count();
    (event[..length].contains(&b'.') && event[length..].starts_with(b">")).then_some(level)
}
