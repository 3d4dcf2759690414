//! klog and glog, the loggers of Kubernetes' components.

use super::super::level;
use super::words::{is_number, until, word};
use super::{Found, Name};

/// `E0131 12:00:00.250000    1234 file.go:56] text`, also with a year in front of the month.
pub(super) fn parse(message: &[u8], found: &mut Found) -> Option<()> {
    let (head, _) = until(&message[..message.len().min(256)], b"] ")?;
    let (day, rest) = word(head);
    (matches!(day.len(), 5 | 7 | 9) && is_number(&day[1..])).then_some(())?;
    let (clock, rest) = word(rest);
    (clock.len() >= 8 && clock[2] == b':' && clock[5] == b':').then_some(())?;
    let (tid, place) = word(rest.trim_ascii_start());
    let (file, line) = until(place, b":")?;
    (is_number(tid) && is_number(line) && !file.contains(&b' ')).then_some(())?;
    found.put(Name::Level, &message[..1]);
    found.level = level::from_letter(message[0]);
    found.put(Name::Tid, tid);
    found.put(Name::File, file);
    found.put(Name::Line, line);
    Some(())
}
