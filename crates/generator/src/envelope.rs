//! The formats in which hosts send a message.

use clap::ValueEnum;

use super::clock::{Stamp, append};
use super::world::Said;

/// Format of the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// `<165>1 2026-01-31T12:00:00.123Z web1 nginx 812 - - …`
    Rfc5424,
    /// `<165>Jan 31 12:00:00 web1 nginx[812]: …` (the time in UTC)
    Rfc3164,
    /// `{"_time":"…","hostname":"web1","app_name":"nginx","proc_id":"812","_msg":"…"}`, and `level`
    Json,
}

/// Appends one line, without a newline. A message that is a JSON object is merged into the object
/// of [`Format::Json`]. Routers use Cisco's dialect in both syslog formats.
pub fn write(
    format: Format,
    stamp: &Stamp,
    host: &str,
    said: Said,
    message: &[u8],
    out: &mut Vec<u8>,
) {
    let pri = said.facility * 8 + said.severity as u8;
    match format {
        Format::Json => return json(stamp, host, said, message, out),
        _ if said.app == super::network::APP => {
            // Sequence number, origin, time and message, as with `service sequence-numbers`,
            // `logging origin-id hostname` and `service timestamps log datetime msec
            // show-timezone`.
            append(out, format_args!("<{pri}>{:06}: {host}: ", stamp.sequence()));
            stamp.cisco(out);
            out.extend_from_slice(b": ");
        }
        Format::Rfc5424 => {
            append(out, format_args!("<{pri}>1 "));
            stamp.rfc3339(out);
            append(out, format_args!(" {host} {} ", said.app));
            match said.pid {
                0 => out.push(b'-'),
                pid => append(out, format_args!("{pid}")),
            }
            out.extend_from_slice(b" - - ");
        }
        Format::Rfc3164 => {
            append(out, format_args!("<{pri}>{} {host} {}", stamp.bsd(), said.app));
            if said.pid > 0 {
                append(out, format_args!("[{}]", said.pid));
            }
            out.extend_from_slice(b": ");
        }
    }
    out.extend_from_slice(message);
}

fn json(stamp: &Stamp, host: &str, said: Said, message: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"_time\":\"");
    stamp.rfc3339(out);
    append(out, format_args!("\",\"hostname\":\"{host}\",\"app_name\":\"{}\"", said.app));
    if said.pid > 0 {
        append(out, format_args!(",\"proc_id\":\"{}\"", said.pid));
    }
    if let [b'{', keys @ ..] = message {
        out.push(b',');
        out.extend_from_slice(keys);
        return;
    }
    append(out, format_args!(",\"level\":\"{}\",\"_msg\":", said.severity.level()));
    text::json::write_text(message, out);
    out.push(b'}');
}
