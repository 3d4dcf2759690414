//! Says in the log who changed what by the API: deletions, backups, queries that were cancelled, paused or deleted, summaries that were
//! made again.
//!
//! What a client sent stands there escaped and cut, so that it can neither end the line nor drive a terminal. Requests that changed
//! nothing leave no line, so nobody can fill the log by asking.

use std::net::SocketAddr;

/// Characters of what a client sent that are shown.
const SHOWN_CHARS_MAX: usize = 500;

/// Writes that `peer` did `what`, for example `deletion 3 begins`, with the text that it sent.
pub fn note(peer: SocketAddr, what: &str, sent: &str) {
    let sent = shown(sent);
    if sent.is_empty() {
        tracing::info!(target: "audit", "by API from {peer}: {}", shown(what));
    } else {
        tracing::info!(target: "audit", "by API from {peer}: {}: {sent}", shown(what));
    }
}

fn shown(text: &str) -> String {
    let cut = text.char_indices().nth(SHOWN_CHARS_MAX).map(|(end, _)| end);
    let mut out = crate::cli::escaped(&text[..cut.unwrap_or(text.len())]);
    if cut.is_some() {
        out.push_str("… (cut)");
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_is_harmless() {
        assert_eq!(shown("type:=\"a\" é"), "type:=\"a\" é");
        assert_eq!(shown("a\nERROR \u{1b}[2J\u{202e}"), "a\\x0aERROR \\x1b[2J\\u{202e}");
        let long = shown(&"x".repeat(SHOWN_CHARS_MAX + 1));
        assert_eq!(long, format!("{}… (cut)", "x".repeat(SHOWN_CHARS_MAX)));
    }
}
