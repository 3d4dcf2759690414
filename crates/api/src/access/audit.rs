//! Logs who changed what over the API: deletions, backups, queries that were cancelled, paused or
//! deleted, intervals that were summarised again; and who logged in, or failed to.
//!
//! With `audit.enabled` the same, and every query, goes into the audit log ([`super::audit_log`]).
//!
//! Text from clients is escaped and truncated, so that it can neither end the log line nor drive a
//! terminal. Requests that change nothing are not logged here, and failures only a few per minute
//! and address, so nobody can fill the log with requests.

use std::net::SocketAddr;

use super::audit_log::{AuditLog, Entry};
use super::principal::{Caller, Principal, Role};

/// Characters that are shown of a client's text.
const SHOWN_CHARS_MAX: usize = 500;

/// Logs that a caller did `what`, for example `deletion 3 begins`, with the text of the request.
pub fn note(caller: &Caller, what: &str, sent: &str) {
    let (from, shown_what) = (from(caller.peer, caller.principal.name()), shown(what));
    if sent.is_empty() {
        tracing::info!(target: "audit", "by API from {from}: {shown_what}");
    } else {
        tracing::info!(target: "audit", "by API from {from}: {shown_what}: {}", shown(sent));
    }
    if let Some(audit) = &caller.audit {
        audit.add(of_caller(caller, "change", what).with("sent", sent));
    }
}

/// Notes what a caller begins to read, such as a tail, in the audit log alone.
pub fn note_reading(caller: &Caller, kind: &str, what: &str, query: &str) {
    if let Some(audit) = &caller.audit {
        audit.add(of_caller(caller, "query", what).with("kind", kind).with("query", query));
    }
}

/// An entry about a caller.
pub fn of_caller(caller: &Caller, event: &str, message: &str) -> Entry {
    let role = caller.principal.role().map(Role::name);
    of_name(event, message, caller.peer, caller.principal.name()).with("role", role)
}

fn of_name(event: &str, message: &str, peer: SocketAddr, name: Option<&str>) -> Entry {
    let entry = Entry::new(event, message).with("user", name);
    entry.with("address", peer.ip().to_string()).with("port", peer.port())
}

/// Logs that a user logged in or out.
pub fn note_login(audit: Option<AuditLog>, peer: SocketAddr, name: &str, what: &str) {
    tracing::info!(target: "audit", "by API from {}: {what}", from(peer, Some(name)));
    if let Some(audit) = audit {
        audit.add(of_name("login", what, peer, Some(name)));
    }
}

/// Logs that credentials were wrong. Callers must not pass secrets.
pub fn note_failure(audit: Option<AuditLog>, peer: SocketAddr, who: &str, why: &str) {
    let (who, why) = (shown(who), shown(why));
    tracing::warn!(target: "audit", "by API from {peer}: {who} is refused: {why}");
    if let Some(audit) = audit {
        audit.add(of_name("refused", &format!("{who} is refused: {why}"), peer, None));
    }
}

/// Notes in the audit log that the role of a caller does not cover a call.
pub fn note_denial(audit: &AuditLog, peer: SocketAddr, principal: &Principal, call: &str) {
    let entry = of_name("denied", &format!("{call} is denied"), peer, principal.name());
    audit.add(entry.with("role", principal.role().map(Role::name)).with("call", call));
}

/// The address, and the name if there is one.
fn from(peer: SocketAddr, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("{peer} ({})", shown(name)),
        None => peer.to_string(),
    }
}

fn shown(text: &str) -> String {
    let cut = text.char_indices().nth(SHOWN_CHARS_MAX).map(|(end, _)| end);
    let mut out = text::terminal::escaped(&text[..cut.unwrap_or(text.len())]);
    if cut.is_some() {
        out.push_str("… (cut)");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_clients_is_escaped() {
        assert_eq!(shown("type:=\"a\" é"), "type:=\"a\" é");
        assert_eq!(shown("a\nERROR \u{1b}[2J\u{202e}"), "a\\x0aERROR \\x1b[2J\\u{202e}");
        let long = shown(&"x".repeat(SHOWN_CHARS_MAX + 1));
        assert_eq!(long, format!("{}… (cut)", "x".repeat(SHOWN_CHARS_MAX)));
    }
}
