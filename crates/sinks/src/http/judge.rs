//! What the status of a response says about the documents of its request.

use crate::destination::{Delivered, Fault};
use crate::http::{Client, Reply};

/// Characters that are shown of a response.
const SHOWN_CHARS_MAX: usize = 300;

/// Statuses that say that the content of the request is at fault.
pub const REFUSING: [u16; 2] = [400, 422];

/// What a response means if it is no success; `None` for a success. A status in `refusing` means
/// that the server will never take this content.
pub fn failure(client: &Client, reply: &Reply, refusing: &[u16]) -> Option<Delivered> {
    let status = reply.status;
    if (200..300).contains(&status) {
        return None;
    }
    let what = describe(client, reply);
    if refusing.contains(&status) {
        return Some(Delivered::Refused(Fault::passing(what)));
    }
    let remedy = match status {
        413 => {
            let remedy =
                "lower `body_bytes_max` if this happens often, so that no request is in vain";
            return Some(Delivered::Refused(Fault::new(what, remedy)));
        }
        408 | 504 => {
            let remedy = "the server is overloaded, or a proxy before it gives up too early";
            return Some(Delivered::TimedOut(Fault::new(what, remedy)));
        }
        425 | 429 => "the server is overloaded or limits its clients; the sink waits",
        401 => "the server does not accept the credentials; check user, password, key or token",
        403 => "the credentials do not permit this; give them the right to write there",
        404 | 405 | 410 => "check the path in the address",
        300..=399 => {
            "a proxy that requires a login seems to be there; give the server's own address"
        }
        507 => "free disk space on the server",
        500.. => "see the log of the server",
        _ => "check the address and the options of the sink",
    };
    let fault = Fault::new(what, remedy);
    Some(Delivered::Unavailable { fault, retry_after: reply.retry_after })
}

/// Where a response came from, its status and its first words.
pub fn describe(client: &Client, reply: &Reply) -> String {
    let Reply { status, url, .. } = reply;
    // The query of the address is left out: it may be long, and holds no remedy.
    let url = url.split('?').next().unwrap_or_default();
    match excerpt(client, &reply.body) {
        body if body.is_empty() => format!("{url} answered with status {status}"),
        body => format!("{url} answered with status {status}: {body}"),
    }
}

/// The first characters of a text from a server, on one line and without secrets.
pub fn excerpt(client: &Client, text: &str) -> String {
    // Secrets are hidden before the text is cut, so that no part of one stays.
    let text = client.redacted(text.trim());
    let mut shown: String =
        text.chars().take(SHOWN_CHARS_MAX).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(SHOWN_CHARS_MAX).is_some() {
        shown.push('…');
    }
    shown
}
