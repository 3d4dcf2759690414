//! Records of auditd, of its daemon and of the kernel itself.

use super::super::time::{self, Written};
use super::words::{is_number, until};
use super::{Found, Name};

/// `type=SYSCALL msg=audit(1769860800.250:24287): arch=c000003e success=no comm="cat" key="k"`;
/// also behind `node=web1 `, and as the kernel writes it: `audit: type=1400 audit(…): …`.
///
/// Values keep what they are, but for their quotes; `?` is not present. The pairs within `msg='…'`
/// are fields of the same record.
pub(super) fn parse(message: &[u8], found: &mut Found) -> Option<()> {
    let mut rest = message.strip_prefix(b"audit: ").unwrap_or(message);
    if let Some(behind) = rest.strip_prefix(b"node=") {
        let (node, behind) = until(behind, b" ")?;
        found.put_pair(&rest[..4], node)?;
        rest = behind;
    }
    let (kind, rest) = until(rest.strip_prefix(b"type=")?, b" ")?;
    let rest = rest.strip_prefix(b"msg=").unwrap_or(rest);
    let (id, rest) = until(rest.strip_prefix(b"audit(")?, b"):")?;
    let (seconds, event_id) = until(id, b":")?;
    let (local_s, nanos) = time::since_1970(seconds)?;
    is_number(event_id).then_some(())?;
    found.written = Some(Written::of_utc(local_s, nanos));
    found.prefix = "audit.";
    found.put(Name::Type, kind);
    found.put(Name::EventId, event_id);
    pairs(rest, 0, found)
}

/// Pairs between blanks. A word without `=` says something about the event (`avc:  denied  { read }
/// for  pid=1`), and is skipped.
fn pairs(text: &[u8], depth: usize, found: &mut Found) -> Option<()> {
    // The names of numbers follow a separator of groups.
    let is_blank = |b: &u8| matches!(b, b' ' | 0x1d | b',');
    let mut rest = text;
    loop {
        let begin = rest.iter().position(|b| !is_blank(b)).unwrap_or(rest.len());
        rest = &rest[begin..];
        if rest.is_empty() {
            return Some(());
        }
        let end = rest.iter().position(|b| is_blank(b) || *b == b'=').unwrap_or(rest.len());
        let (key, behind) = rest.split_at(end);
        let Some(behind) = behind.strip_prefix(b"=") else {
            rest = behind;
            continue;
        };
        let (value, behind) = match behind.first() {
            Some(quote @ (b'"' | b'\'')) => {
                let inner = &behind[1..];
                let end = memchr::memchr(*quote, inner)?;
                if *quote == b'\'' && depth == 0 {
                    pairs(&inner[..end], 1, found)?;
                    rest = &inner[end + 1..];
                    continue;
                }
                (&inner[..end], &inner[end + 1..])
            }
            _ => {
                let end = behind.iter().position(|b| matches!(b, b' ' | 0x1d));
                behind.split_at(end.unwrap_or(behind.len()))
            }
        };
        let value = value.strip_suffix(b",").unwrap_or(value);
        if value != b"?" {
            found.put_pair(key, value)?;
        }
        rest = behind;
    }
}
