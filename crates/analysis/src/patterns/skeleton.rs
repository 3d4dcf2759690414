//! The skeleton of a message: its text with every value replaced by a mark.
//!
//! A skeleton depends on its message alone. Messages are therefore counted by skeleton in any order
//! and on any machine, and the counts are added.

use crate::patterns::lex::{Kind, Token, VALUE, is_space, tokenise, trimmed};
use crate::patterns::value::{is_date_name, is_unit};

/// Most bytes of a message that are looked at. The rest of a longer one is a value.
pub(crate) const MESSAGE_BYTES_MAX: usize = 2048;
/// Most tokens of a message. The rest of a longer one is a value.
pub(crate) const TOKENS_MAX: usize = 256;

/// Longest skeleton, and longest template.
pub const SKELETON_BYTES_MAX: usize = MESSAGE_BYTES_MAX + 2;

/// Buffers that are used for message after message, by one thread.
#[derive(Debug, Default)]
pub struct Scratch {
    tokens: Vec<Token>,
    skeleton: Vec<u8>,
}

impl Scratch {
    /// Makes the skeleton of a message: UTF-8 if the message is, without control characters other
    /// than [`VALUE`].
    ///
    /// Of a message with several lines, the first one counts; the rest is a value.
    pub fn skeleton(&mut self, message: &[u8]) -> &[u8] {
        let message = trimmed(message);
        let mut read = &message[..message.len().min(MESSAGE_BYTES_MAX)];
        if let Some(end) = read.iter().position(|&b| b == b'\n') {
            read = trimmed(&read[..end]);
        }
        self.tokens.clear();
        let all_tokens = tokenise(read, &mut self.tokens, TOKENS_MAX);
        if message.len() > MESSAGE_BYTES_MAX
            && read.len() == MESSAGE_BYTES_MAX
            && let Some(cut) = self.tokens.last_mut()
        {
            cut.kind = Kind::Value;
        }
        find_values(read, &mut self.tokens);
        self.skeleton.clear();
        write(read, &self.tokens, &mut self.skeleton);
        let whole = all_tokens && read.len() == message.len();
        if !whole && self.skeleton.last() != Some(&VALUE) {
            let read_to = self.tokens.last().map_or(0, |token| token.end as usize);
            let around = [message[..read_to].last(), message.get(read_to)];
            if around.into_iter().flatten().any(|&byte| is_space(byte)) {
                self.skeleton.push(b' ');
            }
            self.skeleton.push(VALUE);
        }
        &self.skeleton
    }
}

/// Marks words as values that are values because of their neighbours.
fn find_values(bytes: &[u8], tokens: &mut [Token]) {
    let mark =
        |token: &Token| if token.kind == Kind::Mark { bytes[token.start as usize] } else { 0 };
    // Backwards, because the name of a day or month is a value in front of one.
    for i in (0..tokens.len()).rev() {
        if tokens[i].kind != Kind::Word {
            continue;
        }
        let word = tokens[i].text(bytes);
        let before = if i > 0 { mark(&tokens[i - 1]) } else { 0 };
        let behind = tokens.get(i + 1).map_or(0, mark);
        let is_value = match word.len() {
            1 => {
                (word == b"/" && precedes_value(tokens, i)) || (word == b"-" && is_alone(tokens, i))
            }
            2 | 4 => (before == b':' || behind == b':') && in_hex_groups(bytes, tokens, i),
            3 => is_date_name(word) && precedes_value(tokens, i),
            _ => false,
        };
        if is_value
            || (before == b'=' && i > 1)
            || (i > 2 && behind != b'=' && is_assigned(bytes, tokens, i))
            || (behind == b'@' && tokens.get(i + 2).is_some_and(|t| t.kind == Kind::Host))
        {
            tokens[i].kind = Kind::Value;
        }
    }
}

/// Whether a value follows, behind a space or a mark at most.
fn precedes_value(tokens: &[Token], i: usize) -> bool {
    let mut behind = tokens[i + 1..].iter().take(3);
    behind.find(|t| !matches!(t.kind, Kind::Space | Kind::Mark)).is_some_and(Token::is_value)
}

/// Whether a dash stands for a missing value: no word is beside it.
fn is_alone(tokens: &[Token], i: usize) -> bool {
    let no_word = |token: &Token| token.is_value() || token.kind == Kind::Mark;
    tokens[..i].iter().rev().find(|t| t.kind != Kind::Space).is_some_and(no_word)
        && tokens[i + 1..].iter().find(|t| t.kind != Kind::Space).is_none_or(no_word)
}

/// Whether the word is the value of `key = word` or `key= word`. The caller checked that it is not
/// a key itself, as `b` is in `a= b=1`.
fn is_assigned(bytes: &[u8], tokens: &[Token], i: usize) -> bool {
    tokens[i - 1].kind == Kind::Space && bytes[tokens[i - 2].start as usize] == b'='
}

/// Whether a word of hexadecimal digits stands in groups of them: in the address of a network card,
/// or in an IPv6 address.
fn in_hex_groups(bytes: &[u8], tokens: &[Token], i: usize) -> bool {
    let is_group = |token: &Token| {
        let text = token.text(bytes);
        matches!(text.len(), 1..=4) && text.iter().all(u8::is_ascii_hexdigit)
    };
    let colon = |at: usize| tokens[at].text(bytes) == b":";
    is_group(&tokens[i])
        && ((i >= 2 && colon(i - 1) && is_group(&tokens[i - 2]))
            || (i + 2 < tokens.len() && colon(i + 1) && is_group(&tokens[i + 2])))
}

/// Writes tokens as a skeleton. Neighbouring values become one: the parts of a time or an address,
/// a number and its unit, and lists.
fn write(bytes: &[u8], tokens: &[Token], out: &mut Vec<u8>) {
    let mut i = 0;
    while i < tokens.len() {
        let token = &tokens[i];
        match token.kind {
            Kind::Space if i == 0 || i + 1 == tokens.len() => {}
            Kind::Space => out.push(b' '),
            Kind::Mark | Kind::Word => out.extend_from_slice(token.text(bytes)),
            Kind::Value | Kind::Host => {
                let end = value_end(bytes, tokens, i);
                drop_comparison(tokens.get(end), bytes, out);
                out.push(VALUE);
                i = end;
                continue;
            }
        }
        i += 1;
    }
}

/// Where the value ends that begins with the token at `i`.
fn value_end(bytes: &[u8], tokens: &[Token], i: usize) -> usize {
    let is_mark = |at: usize, marks: &[u8]| {
        tokens
            .get(at)
            .is_some_and(|t| t.kind == Kind::Mark && marks.contains(&bytes[t.start as usize]))
    };
    let is_space = |at: usize| tokens.get(at).is_some_and(|t| t.kind == Kind::Space);
    let is_value = |at: usize| tokens.get(at).is_some_and(Token::is_value);
    let is_unit =
        |at: usize| tokens.get(at).is_some_and(|t| t.kind == Kind::Word && is_unit(t.text(bytes)));
    let mut end = i + 1;
    loop {
        let behind_space = end + usize::from(is_space(end));
        if is_unit(behind_space) {
            end = behind_space + 1;
            continue;
        }
        // Repeated in brackets, or an empty repetition: "1293 (1.2 KB)", "10.0.0.1 ()".
        if is_mark(behind_space, b"(") {
            let mut close = behind_space + 1;
            if is_value(close) {
                close += 1;
                let unit = close + usize::from(is_space(close));
                close = if is_unit(unit) { unit + 1 } else { close };
            }
            if is_mark(close, b")") {
                end = close + 1;
                continue;
            }
        }
        let mut next = end;
        while is_space(next) || is_mark(next, b":,;#@|") {
            next += 1;
        }
        if !is_value(next) {
            return end;
        }
        end = next + 1;
    }
}

/// Drops a sign of comparison from the end of `out`, which belongs to the number behind it: "< 1",
/// but not the bracket in "<1>".
fn drop_comparison(behind: Option<&Token>, bytes: &[u8], out: &mut Vec<u8>) {
    let closed = behind.is_some_and(|t| t.text(bytes) == b">");
    if let [rest @ .., b'<' | b'>'] = &out[..]
        && rest.last().is_none_or(|&b| b == b' ')
        && !closed
    {
        out.pop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patterns::pattern;

    fn check(message: &str, expected: &str) {
        let skeleton = Scratch::default().skeleton(message.as_bytes()).to_vec();
        assert_eq!(String::from_utf8(pattern::text(&skeleton)).unwrap(), expected, "{message}");
    }

    #[test]
    fn values_are_known_by_their_form() {
        check("took 17 of -3.5e7 in 0x7fff", "took <*> of <*> in <*>");
        check("from 10.0.0.7:4711 to [fe80::1:dead:beef]", "from <*> to [<*>]");
        check("card 00:0D:ea:FF:bd:8D up", "card <*> up");
        check("id 54fadb41-2c4e-40cd-baed-9335e4c35a9e.", "id <*>.");
        check("on ns.example.com for db.host.de and a.b.C", "on <*> for <*> and a.b.C");
        check("mail from <joe@example.com> to root", "mail from <<*>> to root");
        check("done: true, last: null; but None left", "done: <*>, last: <*>; but <*> left");
        check("took 5s", "took <*>");
        check("eth0 and ssh2, but task_1 or a1 and e08x", "eth0 and ssh2, but <*> or <*> and <*>");
        check("loaded app.conf at main.c", "loaded <*> at main.c");
        check("can't find 'it'", "can't find 'it'");
        check("caf\u{e9} na\u{ef}ve", "caf\u{e9} na\u{ef}ve");
    }

    #[test]
    fn paths_and_urls_are_values() {
        check("open /var/log/x.log: denied", "open <*>: denied");
        check("open ./a/b, ~/c and ../d", "open <*> and <*>");
        check("at (/srv/a(b)/c): x", "at (<*>): x");
        check("see https://example.com/a?b=c&d=(e), please", "see <*>, please");
        check(r"C:\Users\joe\x.dll loaded", "<*> loaded");
        check("read/write and I/O, N / A", "read/write and I/O, N / A");
        check("\"GET / HTTP/1.1\" 304 -", "\"GET <*>\" <*>");
    }

    #[test]
    fn values_are_known_by_their_neighbours() {
        check("user=root tty=ssh rhost= uid=0", "user=<*> tty=<*> rhost= uid=<*>");
        check("a = b, c= d, e", "a = <*>, c= <*>, e");
        check("at Fri Jun 17 07:07:00 PDT 2005 again", "at <*> again");
        check("May 5, in May", "<*>, in May");
        check("1293 bytes (1.26 KB) sent, 5 (2) and 6 () left", "<*> sent, <*> and <*> left");
        check("lifetime <1 sec, <2>", "lifetime <*>, <<*>>");
        check("a <- b - c: -", "a <- b - c: <*>");
        check("sizes 1, 2, 3 | 4", "sizes <*>");
    }

    #[test]
    fn spaces_and_lengths_are_settled() {
        check("  a \t b\r\n", "a b");
        check("\u{b}a\n\u{7f}", "a");
        check("first line\n  at second", "first line <*>");
        check("", "");
        check("\0\u{1}\u{2}x", "<*>x");
        let long = "word ".repeat(TOKENS_MAX);
        let skeleton = Scratch::default().skeleton(long.as_bytes()).to_vec();
        assert!(skeleton.ends_with(&[b' ', VALUE]));
        assert_eq!(skeleton.len(), TOKENS_MAX / 2 * 5 + 1);
        // What was cut off stands where it stood.
        let long = "a,".repeat(TOKENS_MAX);
        check(&long, &format!("{}<*>", "a,".repeat(TOKENS_MAX / 2)));
        let long = format!("{}/{}", "-".repeat(MESSAGE_BYTES_MAX - 2), "a".repeat(50));
        check(&long, "<*>");
    }
}
