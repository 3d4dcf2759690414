//! Packets that the kernel logs for iptables, nftables and UFW.

use super::words::{behind_uptime, word};
use super::{Found, Name};

/// A prefix may have 29 bytes with iptables and 127 with nftables; `[123.456] ` may precede it.
const PREFIX_BYTES_MAX: usize = 160;

/// `[UFW BLOCK] IN=eth0 OUT= MAC=… SRC=192.0.2.1 DST=192.0.2.2 LEN=60 … DF PROTO=TCP SPT=1234
/// DPT=22 WINDOW=64240 RES=0x00 SYN URGP=0`
///
/// The packet that an ICMP message quotes in brackets gives no fields. Where a key occurs twice
/// (`LEN` of UDP), the first one counts.
pub(super) fn parse(message: &[u8], found: &mut Found) -> Option<()> {
    let window = &message[..message.len().min(PREFIX_BYTES_MAX)];
    let is_begin = |at: &usize| *at == 0 || !message[at - 1].is_ascii_alphanumeric();
    let at = memchr::memmem::find_iter(window, b"IN=").find(is_begin)?;
    let pairs = &message[at..];
    word(pairs).1.starts_with(b"OUT=").then_some(())?;
    let prefix = behind_uptime(&message[..at]).trim_ascii();
    let prefix = match prefix.strip_prefix(b"[").and_then(|inner| inner.strip_suffix(b"]")) {
        Some(inner) if !inner.contains(&b'[') => inner.trim_ascii(),
        _ => prefix.strip_suffix(b":").unwrap_or(prefix),
    };
    found.put(Name::Prefix, prefix);
    let mut rest = pairs;
    let mut flags: &[u8] = b"";
    let mut is_behind_reserved = false;
    while !rest.is_empty() && rest[0] != b'[' {
        let (part, behind) = word(rest);
        match memchr::memchr(b'=', part) {
            Some(at) => {
                let key = &part[..at];
                key.iter().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit()).then_some(())?;
                found.put_pair(key, &part[at + 1..])?;
                is_behind_reserved = key == b"RES";
            }
            None if is_behind_reserved => {
                let begin = match flags.is_empty() {
                    true => part,
                    false => flags,
                };
                let length = part.as_ptr().addr() + part.len() - begin.as_ptr().addr();
                let offset = begin.as_ptr().addr() - pairs.as_ptr().addr();
                flags = &pairs[offset..offset + length];
            }
            None => {}
        }
        rest = behind;
    }
    found.put(Name::TcpFlags, flags);
    Some(())
}
