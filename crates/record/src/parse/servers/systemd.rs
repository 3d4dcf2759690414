//! What systemd says of its units.

use super::words::{until, word};
use super::{Found, Name};

const KINDS: [&[u8]; 11] = [
    b"service",
    b"socket",
    b"mount",
    b"timer",
    b"scope",
    b"slice",
    b"target",
    b"path",
    b"device",
    b"swap",
    b"automount",
];

/// What happens to a unit, as the first words of a message.
const ACTIONS: [(&[u8], &str); 14] = [
    (b"Started ", "started"),
    (b"Starting ", "starting"),
    (b"Stopped ", "stopped"),
    (b"Stopping ", "stopping"),
    (b"Finished ", "finished"),
    (b"Reloaded ", "reloaded"),
    (b"Reloading ", "reloading"),
    (b"Mounted ", "mounted"),
    (b"Mounting ", "mounting"),
    (b"Unmounted ", "unmounted"),
    (b"Reached target ", "reached"),
    (b"Listening on ", "listening"),
    (b"Failed to start ", "failed"),
    (b"Closed ", "closed"),
];

/// `nginx.service: Main process exited, code=exited, status=1/FAILURE`, `nginx.service: Failed with
/// result 'exit-code'.`, `Started nginx.service - A server.`
pub(super) fn parse(message: &[u8], found: &mut Found) -> Option<()> {
    if let Some((unit, text)) = until(message, b": ")
        && is_unit(unit)
    {
        found.put(Name::Unit, unit);
        return of_unit(text, found);
    }
    let (result, rest) = ACTIONS
        .iter()
        .find_map(|(start, result)| Some((*result, message.strip_prefix(*start)?)))?;
    // Before version 250 only the description was written.
    let (unit, rest) = word(rest);
    let unit = unit.strip_suffix(b".").filter(|_| rest.is_empty()).unwrap_or(unit);
    (is_unit(unit) && (rest.is_empty() || rest.starts_with(b"- "))).then_some(())?;
    found.put(Name::Unit, unit);
    found.put_word(Name::Result, result);
    Some(())
}

fn is_unit(word: &[u8]) -> bool {
    let allowed = |b: &u8| b.is_ascii_alphanumeric() || b":-_.\\@".contains(b);
    memchr::memrchr(b'.', word)
        .is_some_and(|at| at > 0 && KINDS.contains(&&word[at + 1..]) && word.iter().all(allowed))
}

fn of_unit(text: &[u8], found: &mut Found) -> Option<()> {
    if let Some((_, pairs)) = until(text, b" exited, code=") {
        let (code, rest) = until(pairs, b", status=")?;
        found.put(Name::ExitCode, code);
        found.put(Name::ExitStatus, word(rest).0);
    } else if let Some((_, result)) = until(text, b" with result '") {
        found.put(Name::Result, until(result, b"'")?.0);
    } else if matches!(text, b"Succeeded." | b"Deactivated successfully.") {
        found.put_word(Name::Result, "success");
    } else if let Some(time) = text.strip_prefix(b"Consumed ") {
        found.put(Name::CpuTime, until(time, b" CPU time")?.0);
    } else if let Some((_, count)) = until(text, b", restart counter is at ") {
        found.put(Name::Restarts, count.strip_suffix(b".").unwrap_or(count));
    } else if let Some((_, signal)) = until(text, b" with signal ") {
        found.put(Name::Signal, word(signal.strip_suffix(b".").unwrap_or(signal)).0);
    }
    Some(())
}
