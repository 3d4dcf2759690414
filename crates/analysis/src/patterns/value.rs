//! Which words are values by their form alone.
//!
//! Numbers, identifiers with digits, paths, names of hosts, and the literals of programming
//! languages vary from message to message. A name with a single digit (`eth0`, `ssh2`) is a word:
//! whether it varies is decided from many messages.

use crate::patterns::lex::Kind;

/// How many bytes of each class a word has.
#[derive(Clone, Copy)]
pub(crate) struct Form {
    pub letters: u32,
    pub digits: u32,
    pub dots: u32,
    pub slashes: u32,
    pub backslashes: u32,
}

impl Form {
    // Counts of twelve bits side by side: a word has at most `MESSAGE_BYTES_MAX` bytes, 2^11.
    pub const LETTER: u64 = 1;
    pub const DIGIT: u64 = 1 << 12;
    pub const DOT: u64 = 1 << 24;
    pub const SLASH: u64 = 1 << 36;
    pub const BACKSLASH: u64 = 1 << 48;
    /// Nobody asks for signs: their count may overflow.
    pub const SIGN: u64 = 1 << 60;

    pub fn from_counts(counts: u64) -> Form {
        let count = |unit: u64| (counts / unit) as u32 & 0xfff;
        Form {
            letters: count(Form::LETTER),
            digits: count(Form::DIGIT),
            dots: count(Form::DOT),
            slashes: count(Form::SLASH),
            backslashes: count(Form::BACKSLASH),
        }
    }
}

/// Longest word that is text. A longer one is data: a key, or text without spaces.
const WORD_BYTES_MAX: usize = 128;

/// Shortest run of hexadecimal digits that is a number even if only one of them is no letter.
const HEX_BYTES_MIN: usize = 6;

/// Whether a name with this end is that of a host: a top level domain that is not also the end of
/// other dotted names.
fn is_domain(end: &[u8]) -> bool {
    matches!(
        end,
        b"arpa"
            | b"biz"
            | b"com"
            | b"corp"
            | b"edu"
            | b"gov"
            | b"home"
            | b"info"
            | b"internal"
            | b"lan"
            | b"local"
            | b"localdomain"
            | b"mil"
            | b"net"
            | b"org"
    )
}

/// Whether a name with this end is that of a file, other than of source code: places in code stay
/// the same.
fn is_extension(end: &[u8]) -> bool {
    matches!(
        end,
        b"bak"
            | b"bat"
            | b"cfg"
            | b"conf"
            | b"crt"
            | b"csv"
            | b"dat"
            | b"db"
            | b"deb"
            | b"dll"
            | b"exe"
            | b"gif"
            | b"gz"
            | b"htm"
            | b"html"
            | b"ini"
            | b"iso"
            | b"jar"
            | b"jpg"
            | b"json"
            | b"log"
            | b"pdf"
            | b"pem"
            | b"pid"
            | b"png"
            | b"rpm"
            | b"so"
            | b"sock"
            | b"tar"
            | b"tmp"
            | b"txt"
            | b"xml"
            | b"yaml"
            | b"zip"
    )
}

/// Says what a word is.
pub(crate) fn kind(word: &[u8], form: Form) -> Kind {
    let is_value = if form.digits > 0 {
        !is_numbered_name(word, form)
    } else if form.backslashes > 0 {
        word.len() > 2
    } else if form.slashes > 0 {
        form.letters > 0 && (form.slashes > 1 || form.dots > 0 || word[0] == b'~')
    } else if form.dots > 0 {
        let end = word.rsplit(|&b| b == b'.').next().unwrap_or_default();
        if is_host(word, end, form) {
            return Kind::Host;
        }
        form.dots == 1 && is_extension(end)
    } else {
        is_literal(word)
    };
    if is_value || word.len() > WORD_BYTES_MAX { Kind::Value } else { Kind::Word }
}

/// Whether a word with a digit is a name: letters, and a single digit among them. Behind a sign, as
/// in `task_1`, the digit is a number.
fn is_numbered_name(word: &[u8], form: Form) -> bool {
    let hex = word.len() >= HEX_BYTES_MIN && word.iter().all(u8::is_ascii_hexdigit);
    form.digits == 1
        && form.letters >= 2
        && word.len() == form.letters as usize + 1
        && word.len() <= WORD_BYTES_MAX
        && !word[0].is_ascii_digit()
        && !hex
}

fn is_host(word: &[u8], end: &[u8], form: Form) -> bool {
    let is_country = form.dots > 1 && end.len() == 2 && end.iter().all(u8::is_ascii_lowercase);
    (is_country || is_domain(end))
        && word.iter().all(|&b| b.is_ascii_alphanumeric() || b == b'.' || b == b'-')
}

/// Whether a word is a literal of a programming language.
fn is_literal(word: &[u8]) -> bool {
    matches!(
        word,
        b"true"
            | b"false"
            | b"True"
            | b"False"
            | b"TRUE"
            | b"FALSE"
            | b"null"
            | b"NULL"
            | b"nil"
            | b"None"
            | b"NaN"
    )
}

/// Whether a word is the name of a day or month, as dates abbreviate it.
pub(crate) fn is_date_name(word: &[u8]) -> bool {
    matches!(
        word,
        b"Mon"
            | b"Tue"
            | b"Wed"
            | b"Thu"
            | b"Fri"
            | b"Sat"
            | b"Sun"
            | b"Jan"
            | b"Feb"
            | b"Mar"
            | b"Apr"
            | b"May"
            | b"Jun"
            | b"Jul"
            | b"Aug"
            | b"Sep"
            | b"Oct"
            | b"Nov"
            | b"Dec"
    )
}

/// Whether a word behind a number belongs to it: a unit of size, time or frequency, or the zone of
/// a time.
pub(crate) fn is_unit(word: &[u8]) -> bool {
    matches!(
        word,
        b"%" | b"B"
            | b"KB"
            | b"MB"
            | b"GB"
            | b"TB"
            | b"PB"
            | b"kB"
            | b"KiB"
            | b"MiB"
            | b"GiB"
            | b"TiB"
            | b"byte"
            | b"bytes"
            | b"Bytes"
            | b"K"
            | b"M"
            | b"G"
            | b"k"
            | b"m"
            | b"ns"
            | b"us"
            | b"ms"
            | b"s"
            | b"sec"
            | b"secs"
            | b"second"
            | b"seconds"
            | b"min"
            | b"mins"
            | b"minute"
            | b"minutes"
            | b"h"
            | b"hr"
            | b"hrs"
            | b"hour"
            | b"hours"
            | b"d"
            | b"day"
            | b"days"
            | b"msec"
            | b"msecs"
            | b"usec"
            | b"usecs"
            | b"Hz"
            | b"kHz"
            | b"MHz"
            | b"GHz"
            | b"AM"
            | b"PM"
            | b"UTC"
            | b"GMT"
            | b"EST"
            | b"EDT"
            | b"CST"
            | b"CDT"
            | b"MST"
            | b"MDT"
            | b"PST"
            | b"PDT"
            | b"CET"
            | b"CEST"
            | b"BST"
            | b"JST"
    )
}
