//! Who logs in, and who does what: sshd and sudo.
//!
//! A user name comes from the client and may contain blanks, and so text that looks like the rest
//! of the message. Address and port are searched from the end.

use super::words::{behind_message_id, is_ip, is_number, until, word};
use super::{Found, Name};

/// Messages of sshd, and of PAM in its name.
pub(super) fn sshd(message: &[u8], found: &mut Found) -> Option<()> {
    let message = behind_message_id(message);
    let text = message.strip_prefix(b"error: ").unwrap_or(message);
    let (first, rest) = word(text);
    match first {
        b"Accepted" | b"Failed" | b"Postponed" | b"Partial" => {
            let (method, rest) = word(rest);
            let user = rest.strip_prefix(b"for ")?;
            let (user, is_invalid) = match user.strip_prefix(b"invalid user ") {
                Some(user) => (user, true),
                None => (user, false),
            };
            let (user, rest) = from_address(user, found)?;
            found.put(Name::Result, first);
            found.put(Name::Method, method);
            found.put(Name::User, user);
            if is_invalid {
                found.put_word(Name::Reason, "invalid user");
            }
            // ` ssh2: RSA SHA256:…`
            let (protocol, rest) = word(rest);
            if let Some(protocol) = protocol.strip_suffix(b":") {
                let (key_type, fingerprint) = word(rest);
                found.put(Name::Protocol, protocol);
                found.put(Name::KeyType, key_type);
                found.put(Name::Fingerprint, word(fingerprint).0);
            } else {
                found.put(Name::Protocol, protocol);
            }
            Some(())
        }
        b"Invalid" => {
            let (user, _) = from_address(rest.strip_prefix(b"user ")?, found)?;
            found.put(Name::Result, first);
            found.put_word(Name::Reason, "invalid user");
            found.put(Name::User, user);
            Some(())
        }
        b"Connection" | b"Disconnected" | b"Disconnecting" | b"Received" => closed(text, found),
        b"maximum" => {
            let user = rest.strip_prefix(b"authentication attempts exceeded for ")?;
            let user = user.strip_prefix(b"invalid user ").unwrap_or(user);
            let (user, _) = from_address(user, found)?;
            found.put_word(Name::Result, "Failed");
            found.put_word(Name::Reason, "maximum authentication attempts exceeded");
            found.put(Name::User, user);
            Some(())
        }
        b"User" => {
            let (user, rest) = until(rest, b" from ")?;
            let (host, rest) = word(rest);
            let reason = rest.strip_prefix(b"not allowed because ")?;
            found.put_word(Name::Result, "Failed");
            found.put(Name::User, user);
            found.put(if is_ip(host) { Name::ClientIp } else { Name::Client }, host);
            found.put(Name::Reason, reason);
            Some(())
        }
        b"Did" | b"Unable" | b"Bad" | b"Timeout" | b"banner" | b"Bye" => {
            by_address(text, found)?;
            found.put_word(Name::Result, "Failed");
            Some(())
        }
        b"Exit" | b"Login" | b"Password" => dropbear(text, found),
        _ if first.starts_with(b"pam_") => pam(text, found),
        _ => None,
    }
}

/// `USER from 192.0.2.1 port 1234REST`: the user, and the rest.
fn from_address<'a>(text: &'a [u8], found: &mut Found) -> Option<(&'a [u8], &'a [u8])> {
    const FROM: &[u8] = b" from ";
    // A user of that name may be empty: `Invalid user  from …`.
    let at = memchr::memmem::rfind(text, FROM)?;
    let (user, rest) = (&text[..at], &text[at + FROM.len()..]);
    let rest = address_and_port(rest, found)?;
    Some((user, rest))
}

/// `192.0.2.1 port 1234REST`; the port may be missing.
fn address_and_port<'a>(text: &'a [u8], found: &mut Found) -> Option<&'a [u8]> {
    let (host, rest) = word(text);
    let host = host.strip_suffix(b":").unwrap_or(host);
    (!host.is_empty()).then_some(())?;
    found.put(if is_ip(host) { Name::ClientIp } else { Name::Client }, host);
    let Some(port) = rest.strip_prefix(b"port ") else { return Some(rest) };
    let digits = port.iter().take_while(|b| b.is_ascii_digit()).count();
    found.put(Name::ClientPort, &port[..digits]);
    let rest = &port[digits..];
    Some(rest.strip_prefix(b" ").unwrap_or(rest))
}

/// `Connection closed by authenticating user root 192.0.2.1 port 1234 [preauth]`, `Disconnected
/// from user root 192.0.2.1 port 1234`, `Received disconnect from 192.0.2.1 port 1234:11: x`.
fn closed(text: &[u8], found: &mut Found) -> Option<()> {
    let (result, rest) = [
        (&b"Connection closed by "[..], "closed"),
        (b"Connection reset by ", "reset"),
        (b"Connection from ", "connected"),
        (b"Disconnected from ", "disconnected"),
        (b"Disconnecting ", "disconnected"),
        (b"Received disconnect from ", "disconnected"),
    ]
    .into_iter()
    .find_map(|(start, result)| Some((result, text.strip_prefix(start)?)))?;
    let named =
        [(&b"authenticating user "[..], false), (b"invalid user ", true), (b"user ", false)]
            .into_iter()
            .find_map(|(start, is_invalid)| Some((is_invalid, rest.strip_prefix(start)?)));
    match named {
        Some((is_invalid, rest)) => {
            let port = memchr::memmem::rfind(rest, b" port ")?;
            let blank = memchr::memrchr(b' ', &rest[..port])?;
            found.put(Name::User, &rest[..blank]);
            if is_invalid {
                found.put_word(Name::Reason, "invalid user");
            }
            address_and_port(&rest[blank + 1..], found)?;
        }
        None => {
            address_and_port(rest, found)?;
        }
    }
    found.put_word(Name::Result, result);
    Some(())
}

/// A message that names the other side as `from 192.0.2.1 port 1234` or `with 192.0.2.1 port 1234`.
fn by_address(text: &[u8], found: &mut Found) -> Option<()> {
    let port = memchr::memmem::rfind(text, b" port ")?;
    let blank = memchr::memrchr(b' ', &text[..port])?;
    is_ip(&text[blank + 1..port]).then_some(())?;
    address_and_port(&text[blank + 1..], found)?;
    Some(())
}

/// Dropbear: `Password auth succeeded for 'root' from 192.0.2.1:1234`.
fn dropbear(text: &[u8], found: &mut Found) -> Option<()> {
    let (result, method, rest) = [
        (&b"Password auth succeeded for "[..], "Accepted", "password"),
        (b"Login attempt for nonexistent user", "Invalid", ""),
        (b"Exit before auth from ", "closed", ""),
    ]
    .into_iter()
    .find_map(|(start, result, method)| Some((result, method, text.strip_prefix(start)?)))?;
    if let Some(inner) = rest.strip_prefix(b"'") {
        let (user, _) = until(inner, b"'")?;
        found.put(Name::User, user);
    }
    let at = memchr::memmem::rfind(text, b"from ")?;
    let address = word(&text[at + 5..]).0;
    let address = address.strip_prefix(b"<").unwrap_or(address);
    let address = address.strip_suffix(b":").unwrap_or(address);
    let address = address.strip_suffix(b">").unwrap_or(address);
    let (ip, port) = super::words::ip_and_port(address)?;
    found.put(Name::ClientIp, ip);
    found.put(Name::ClientPort, port);
    found.put_word(Name::Result, result);
    if !method.is_empty() {
        found.put_word(Name::Method, method);
    }
    Some(())
}

/// `pam_unix(sshd:auth): authentication failure; logname= uid=0 … rhost=192.0.2.1  user=root`,
/// `pam_unix(sshd:session): session opened for user root(uid=0) by (uid=0)`.
fn pam(text: &[u8], found: &mut Found) -> Option<()> {
    let (module, rest) = until(text, b"(")?;
    let (_, rest) = until(rest, b"): ")?;
    if let Some(session) = rest.strip_prefix(b"session ") {
        let (state, rest) = word(session);
        let user = rest.strip_prefix(b"for user ")?;
        let (user, _) = word(user);
        let user = until(user, b"(").map_or(user, |(user, _)| user);
        found.put(Name::Module, module);
        found.put(Name::Result, state);
        found.put(Name::User, user);
        return Some(());
    }
    let pairs = rest.strip_prefix(b"authentication failure; ")?;
    found.put(Name::Module, module);
    found.put_word(Name::Result, "Failed");
    // The user comes last, and may be anything.
    if let Some((host, user)) = until(pairs, b"rhost=").map(|(_, rest)| word(rest)) {
        found.put(if is_ip(host) { Name::ClientIp } else { Name::Client }, host);
        if let Some(user) = user.trim_ascii_start().strip_prefix(b"user=") {
            found.put(Name::User, user);
        }
    }
    Some(())
}

/// `bob : TTY=pts/0 ; PWD=/home/bob ; USER=root ; COMMAND=/bin/ls`, and with a reason of a refusal
/// in front of the pairs. The command comes last, and may contain anything.
pub(super) fn sudo(message: &[u8], found: &mut Found) -> Option<()> {
    let text = message.trim_ascii_start();
    if text.starts_with(b"pam_") {
        return pam(text, found);
    }
    let (user, mut rest) = until(text, b" : ")?;
    (!user.contains(&b' ')).then_some(())?;
    let mut reason: &[u8] = b"";
    if !rest.starts_with(b"TTY=") && !rest.starts_with(b"PWD=") {
        (reason, rest) = until(rest, b" ; ")?;
        (!reason.contains(&b'=')).then_some(())?;
    }
    found.put(Name::User, user);
    found.put_word(Name::Result, if reason.is_empty() { "accept" } else { "reject" });
    found.put(Name::Reason, reason);
    loop {
        let (key, behind) = until(rest, b"=")?;
        let name = match key {
            b"TTY" => Name::Tty,
            b"PWD" => Name::Pwd,
            b"USER" => Name::RunUser,
            b"GROUP" => Name::Group,
            b"COMMAND" => {
                found.put(Name::Command, behind);
                return Some(());
            }
            // The environment, the session, the root directory.
            b"ENV" | b"TSID" | b"CHROOT" | b"HOST" => {
                (_, rest) = until(behind, b" ; ")?;
                continue;
            }
            _ => return None,
        };
        let value;
        match until(behind, b" ; ") {
            Some(found) => (value, rest) = found,
            None => {
                // Without a command, as for `sudo -v`.
                found.put(name, behind);
                return is_plain(behind).then_some(());
            }
        }
        found.put(name, value);
    }
}

fn is_plain(text: &[u8]) -> bool {
    !text.is_empty() && !is_number(text)
}
