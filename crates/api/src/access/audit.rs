//! Logs who changed what over the API: deletions, backups, queries that were cancelled, paused or
//! deleted, intervals that were summarised again; and who logged in, or failed to.
//!
//! Text from clients is escaped and truncated, so that it can neither end the log line nor drive a
//! terminal. Requests that change nothing are not logged, and failures only a few per minute and
//! address, so nobody can fill the log with requests.

use std::net::SocketAddr;

use super::principal::Caller;

/// Characters that are shown of a client's text.
const SHOWN_CHARS_MAX: usize = 500;

/// Logs that a caller did `what`, for example `deletion 3 begins`, with the text of the request.
pub fn note(caller: &Caller, what: &str, sent: &str) {
    let (from, what, sent) = (from(caller.peer, caller.principal.name()), shown(what), shown(sent));
    if sent.is_empty() {
        tracing::info!(target: "audit", "by API from {from}: {what}");
    } else {
        tracing::info!(target: "audit", "by API from {from}: {what}: {sent}");
    }
}

/// Logs that a user logged in or out.
pub fn note_login(peer: SocketAddr, name: &str, what: &str) {
    tracing::info!(target: "audit", "by API from {}: {what}", from(peer, Some(name)));
}

/// Logs that credentials were wrong. Callers must not pass secrets.
pub fn note_failure(peer: SocketAddr, who: &str, why: &str) {
    let (who, why) = (shown(who), shown(why));
    tracing::warn!(target: "audit", "by API from {peer}: {who} is refused: {why}");
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
