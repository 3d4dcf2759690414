//! Postfix: the pairs of a mail, and what a client is told.

use super::words::{is_number, until, word};
use super::{Found, Name};

/// `3F2A1B9C: to=<bob@example.com>, relay=mx[192.0.2.1]:25, delay=1.2, status=sent (250 OK)`,
/// `connect from unknown[192.0.2.1]`, `NOQUEUE: reject: RCPT from x[192.0.2.1]: 554 5.7.1 …`.
pub(super) fn parse(message: &[u8], found: &mut Found) -> Option<()> {
    let text = message.strip_prefix(b"warning: ").unwrap_or(message);
    for (start, action) in [
        (&b"connect from "[..], "connect"),
        (b"disconnect from ", "disconnect"),
        (b"lost connection after ", "lost connection"),
        (b"timeout after ", "timeout"),
    ] {
        let Some(rest) = text.strip_prefix(start) else { continue };
        // `lost connection after AUTH from x[192.0.2.1]`
        let rest = match start.ends_with(b"after ") {
            true => until(rest, b" from ")?.1,
            false => rest,
        };
        found.put_word(Name::Action, action);
        return put_client(word(rest).0, found);
    }
    let (queue_id, rest) = until(text, b": ")?;
    if queue_id == b"NOQUEUE" {
        return refused(rest, found);
    }
    let is_id = queue_id.len() >= 6 && queue_id.iter().all(u8::is_ascii_alphanumeric);
    (is_id && queue_id.iter().any(u8::is_ascii_digit)).then_some(())?;
    found.put(Name::QueueId, queue_id);
    match rest {
        b"removed" => {
            found.put_word(Name::Action, "removed");
            Some(())
        }
        _ if rest.starts_with(b"reject: ") || rest.starts_with(b"milter-reject: ") => {
            refused(rest, found)
        }
        _ => pairs(rest, found),
    }
}

fn pairs(text: &[u8], found: &mut Found) -> Option<()> {
    let mut rest = text;
    loop {
        let (key, behind) = until(rest, b"=")?;
        let name = match key {
            b"to" => Name::To,
            b"orig_to" => Name::OrigTo,
            b"from" => Name::From,
            b"relay" => Name::Relay,
            b"delay" => Name::Delay,
            b"delays" => Name::Delays,
            b"dsn" => Name::Dsn,
            b"status" => Name::Status,
            b"size" => Name::Size,
            b"nrcpt" => Name::Nrcpt,
            b"uid" => Name::Uid,
            b"message-id" | b"resent-message-id" => Name::MessageId,
            b"sasl_method" => Name::SaslMethod,
            b"sasl_username" => Name::SaslUsername,
            b"sasl_sender" => Name::SaslSender,
            b"sender" => Name::Sender,
            b"client" => {
                let end = memchr::memmem::find(behind, b", ").unwrap_or(behind.len());
                put_client(&behind[..end], found)?;
                match behind[end..].strip_prefix(b", ") {
                    Some(behind) => rest = behind,
                    None => return Some(()),
                }
                continue;
            }
            b"conn_use" | b"orig_client" | b"orig_queue_id" => {
                match until(behind, b", ") {
                    Some((_, behind)) => rest = behind,
                    None => return Some(()),
                }
                continue;
            }
            _ => return None,
        };
        let (value, behind) = match behind.strip_prefix(b"<") {
            Some(inner) => {
                let end = memchr::memchr(b'>', inner)?;
                (&inner[..end], &inner[end + 1..])
            }
            None => {
                let end = memchr::memchr2(b',', b' ', behind).unwrap_or(behind.len());
                behind.split_at(end)
            }
        };
        found.put(name, value);
        match behind {
            [b',', b' ', behind @ ..] => rest = behind,
            // `status=sent (250 OK)`, `nrcpt=1 (queue active)`
            [] | [b' ', b'(', ..] => return Some(()),
            [b' ', behind @ ..] => rest = behind,
            _ => return None,
        }
    }
}

/// `unknown[192.0.2.1]`, and `unknown[192.0.2.1]:1234` of newer versions.
fn put_client(client: &[u8], found: &mut Found) -> Option<()> {
    let (_, address) = until(client, b"[")?;
    let (ip, rest) = until(address, b"]")?;
    found.put(Name::Client, client);
    found.put(Name::ClientIp, ip.strip_prefix(b"IPv6:").unwrap_or(ip));
    if let Some(port) = rest.strip_prefix(b":").filter(|port| is_number(port)) {
        found.put(Name::ClientPort, port);
    }
    Some(())
}

/// `reject: RCPT from x[192.0.2.1]: 554 5.7.1 <a@b>: Relay access denied; from=<c@d> to=<a@b>
/// proto=ESMTP helo=<e>`
fn refused(text: &[u8], found: &mut Found) -> Option<()> {
    let (action, rest) = until(text, b": ")?;
    (!action.contains(&b' ')).then_some(())?;
    let (command, rest) = until(rest, b" from ")?;
    let (client, rest) = until(rest, b": ")?;
    found.put(Name::Action, action);
    found.put(Name::Command, command);
    put_client(client, found)?;
    let (code, behind) = word(rest);
    if code.len() == 3 && is_number(code) {
        found.put(Name::ReplyCode, code);
        let dsn = word(behind).0;
        if dsn.len() <= 9 && dsn.iter().all(|b| b.is_ascii_digit() || *b == b'.') {
            found.put(Name::Dsn, dsn);
        }
    }
    let Some(at) = memchr::memmem::rfind(rest, b"; from=<") else { return Some(()) };
    let mut rest = &rest[at + 2..];
    while let Some((key, behind)) = until(rest, b"=") {
        let name = match key {
            b"from" => Name::From,
            b"to" => Name::To,
            b"proto" => Name::Proto,
            b"helo" => Name::Helo,
            b"sasl_username" => Name::SaslUsername,
            _ => return Some(()),
        };
        let (value, behind) = match behind.strip_prefix(b"<") {
            Some(inner) => {
                let end = memchr::memchr(b'>', inner)?;
                (&inner[..end], inner[end + 1..].trim_ascii_start())
            }
            None => word(behind),
        };
        found.put(name, value);
        rest = behind;
    }
    Some(())
}
