//! Formats of lines by their names.

use anyhow::{Result, bail};
use record::MessageFormat;

use text::nearest::nearest;

/// The format with that name.
pub fn message_format(name: &str) -> Result<MessageFormat> {
    const KNOWN: [(&str, MessageFormat); 5] = [
        ("auto", MessageFormat::Auto),
        ("plain", MessageFormat::Plain),
        ("json", MessageFormat::Json),
        ("access", MessageFormat::Access),
        ("logfmt", MessageFormat::Logfmt),
    ];
    if let Some((_, format)) = KNOWN.iter().find(|(known, _)| *known == name) {
        return Ok(*format);
    }
    match nearest(name, KNOWN.iter().map(|(known, _)| *known)) {
        Some(near) => bail!("'{name}' is not a format; did you mean '{near}'?"),
        None => bail!("'{name}' is not a format; use auto, plain, json, access or logfmt"),
    }
}
