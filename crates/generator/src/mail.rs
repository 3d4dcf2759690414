//! Postfix.

use super::clock::append;
use super::world::{Context, Said, Severity, facility};

const RECIPIENTS: [&str; 5] = [
    "ada@customer.example",
    "bo@customer.example",
    "sales@shop.example",
    "info@shop.example",
    "emil@mail.example",
];

/// One line of any of its daemons.
pub fn any(cx: &mut Context<'_>, out: &mut Vec<u8>) -> Said {
    let queue_id = cx.rng.u64(..) >> 24;
    let to = cx.pick_uneven(&RECIPIENTS);
    let visitor = cx.visitor();
    let (app, severity) = match cx.rng.u32(..10) {
        0..2 => {
            append(out, format_args!("connect from unknown[{visitor}]"));
            ("postfix/smtpd", Severity::Info)
        }
        2 => {
            append(
                out,
                format_args!(
                    "NOQUEUE: reject: RCPT from unknown[{visitor}]: 554 5.7.1 <{to}>: Relay access denied; from=<x@spam.example> to=<{to}> proto=ESMTP helo=<spam.example>"
                ),
            );
            ("postfix/smtpd", Severity::Info)
        }
        3..5 => {
            append(
                out,
                format_args!(
                    "{queue_id:010X}: from=<orders@shop.example>, size={}, nrcpt=1 (queue active)",
                    cx.rng.u32(900..60_000)
                ),
            );
            ("postfix/qmgr", Severity::Info)
        }
        5..8 => {
            let delay = cx.duration_ms(700.0) / 1_000.0;
            append(
                out,
                format_args!(
                    "{queue_id:010X}: to=<{to}>, relay=mx.customer.example[198.51.100.25]:25, delay={delay:.2}, delays=0.05/0.01/0.2/{:.2}, dsn=2.0.0, status=sent (250 2.0.0 Ok: queued as 4FzQ)",
                    delay * 0.7
                ),
            );
            ("postfix/smtp", Severity::Info)
        }
        8 => {
            append(out, format_args!("{queue_id:010X}: removed"));
            ("postfix/qmgr", Severity::Info)
        }
        _ => {
            append(
                out,
                format_args!(
                    "warning: hostname host-{}.example does not resolve to address {visitor}: Name or service not known",
                    cx.rng.u16(..)
                ),
            );
            ("postfix/smtpd", Severity::Warning)
        }
    };
    Said { app, pid: cx.pid(app), facility: facility::MAIL, severity }
}
