//! Redis: process and role.

use super::words::{is_number, until};
use super::{Found, Name};

/// `1234:M 31 Jan 2026 12:00:00.250 * Ready to accept connections`
pub(super) fn parse(message: &[u8], found: &mut Found) -> Option<()> {
    let (pid, rest) = until(message, b":")?;
    is_number(pid).then_some(())?;
    let (role, rest) = match rest {
        [b'M', b' ', rest @ ..] => ("master", rest),
        [b'S', b' ', rest @ ..] => ("replica", rest),
        [b'C', b' ', rest @ ..] => ("child", rest),
        [b'X', b' ', rest @ ..] => ("sentinel", rest),
        _ => return None,
    };
    // The day and the month.
    let is_date = matches!(rest, [b'0'..=b'9', b'0'..=b'9', b' ', b'A'..=b'Z', _, _, b' ', ..]);
    is_date.then_some(())?;
    found.put(Name::Pid, pid);
    found.put_word(Name::Role, role);
    Some(())
}
