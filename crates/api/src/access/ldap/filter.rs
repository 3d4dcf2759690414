//! Filters of searches (RFC 4515), with places for the name and for the entry of a user.
//!
//! A filter is parsed once, with the configuration. `{user}` and `{dn}` may stand in values alone,
//! and a value travels as bytes behind their length (RFC 4511, 4.5.1). So nothing that somebody
//! types into the login becomes part of the filter, whatever it contains: there is no text into
//! which it would have to be escaped.

use super::ber;

/// Bytes of a filter. A longer one is refused with the configuration.
const TEXT_BYTES_MAX: usize = 4096;
/// How deeply filters nest. A deeper one is refused with the configuration.
const DEPTH_MAX: usize = 16;

const AND: u8 = 0xa0;
const OR: u8 = 0xa1;
const NOT: u8 = 0xa2;
const EQUAL: u8 = 0xa3;
const SUBSTRINGS: u8 = 0xa4;
const GREATER: u8 = 0xa5;
const LESS: u8 = 0xa6;
const PRESENT: u8 = 0x87;
const SIMILAR: u8 = 0xa8;
const EXTENSIBLE: u8 = 0xa9;

/// A filter.
#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    /// `&`, `|` or `!` of others.
    Of(u8, Vec<Filter>),
    /// Compares an attribute with a value.
    Compare(u8, String, Value),
    /// An attribute that is there.
    Present(String),
    /// The attribute, and the parts between the stars.
    Substrings(String, Vec<Value>),
    /// A comparison by a rule that is named.
    Extensible {
        /// The attribute, if one is named.
        attribute: Option<String>,
        /// The rule, if one is named.
        rule: Option<String>,
        /// Whether the parts of the entry's name count as attributes.
        with_dn: bool,
        /// What is compared with.
        value: Value,
    },
}

/// A value, of pieces one after the other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Value(Vec<Piece>);

#[derive(Clone, Debug, PartialEq)]
enum Piece {
    Bytes(Vec<u8>),
    User,
    Dn,
}

/// What stands for the places of a filter.
pub struct Given<'a> {
    /// The name that somebody typed.
    pub user: &'a str,
    /// The name of the user's entry.
    pub dn: &'a str,
}

impl Filter {
    /// Parses a filter. The outermost parentheses may be missing.
    ///
    /// # Errors
    /// Why it is none.
    pub fn parse(text: &str) -> Result<Filter, String> {
        let text = text.trim();
        if text.len() > TEXT_BYTES_MAX {
            return Err(format!("it is longer than {TEXT_BYTES_MAX} bytes"));
        }
        let wrapped = format!("({text})");
        let whole = if text.starts_with('(') { text } else { &wrapped };
        let (filter, rest) = filter(whole.as_bytes(), DEPTH_MAX)?;
        match rest {
            [] => Ok(filter),
            rest => Err(format!("'{}' is behind its end", String::from_utf8_lossy(rest))),
        }
    }

    /// Whether the name that somebody typed counts.
    pub fn names_user(&self) -> bool {
        self.has(&Piece::User)
    }

    /// Whether the entry of the user counts.
    pub fn names_dn(&self) -> bool {
        self.has(&Piece::Dn)
    }

    fn has(&self, piece: &Piece) -> bool {
        match self {
            Filter::Of(_, all) => all.iter().any(|filter| filter.has(piece)),
            Filter::Compare(_, _, value) | Filter::Extensible { value, .. } => {
                value.0.contains(piece)
            }
            Filter::Present(_) => false,
            Filter::Substrings(_, parts) => parts.iter().any(|part| part.0.contains(piece)),
        }
    }

    /// The filter as a part of a request.
    pub fn encoded(&self, given: &Given<'_>) -> Vec<u8> {
        let octets = |text: &str| ber::element(ber::OCTETS, text.as_bytes());
        match self {
            Filter::Of(tag, all) => {
                let all: Vec<u8> = all.iter().flat_map(|filter| filter.encoded(given)).collect();
                ber::element(*tag, &all)
            }
            Filter::Compare(tag, attribute, value) => {
                let value = ber::element(ber::OCTETS, &value.bytes(given));
                ber::element(*tag, &[octets(attribute), value].concat())
            }
            Filter::Present(attribute) => ber::element(PRESENT, attribute.as_bytes()),
            Filter::Substrings(attribute, parts) => {
                let last = parts.len() - 1;
                let parts = parts.iter().enumerate().filter(|(_, part)| !part.0.is_empty());
                let parts: Vec<u8> = parts
                    .flat_map(|(at, part)| {
                        let tag = if at == 0 {
                            0x80
                        } else if at == last {
                            0x82
                        } else {
                            0x81
                        };
                        ber::element(tag, &part.bytes(given))
                    })
                    .collect();
                let parts = ber::element(ber::SEQUENCE, &parts);
                ber::element(SUBSTRINGS, &[octets(attribute), parts].concat())
            }
            Filter::Extensible { attribute, rule, with_dn, value } => {
                let part = |tag: u8, text: &Option<String>| {
                    text.as_ref().map(|text| ber::element(tag, text.as_bytes())).unwrap_or_default()
                };
                let value = ber::element(0x83, &value.bytes(given));
                let with_dn = if *with_dn { ber::element(0x84, &[0xff]) } else { Vec::new() };
                let parts = [part(0x81, rule), part(0x82, attribute), value, with_dn];
                ber::element(EXTENSIBLE, &parts.concat())
            }
        }
    }
}

impl Value {
    fn bytes(&self, given: &Given<'_>) -> Vec<u8> {
        let bytes = self.0.iter().map(|piece| match piece {
            Piece::Bytes(bytes) => &bytes[..],
            Piece::User => given.user.as_bytes(),
            Piece::Dn => given.dn.as_bytes(),
        });
        bytes.collect::<Vec<_>>().concat()
    }
}

fn shown(text: &[u8]) -> String {
    String::from_utf8_lossy(text).chars().take(40).collect()
}

/// The filter at the beginning of a text, and what is behind it.
fn filter(text: &[u8], depth: usize) -> Result<(Filter, &[u8]), String> {
    let unclosed = || format!("a parenthesis is missing at '{}'", shown(text));
    let inner = text.strip_prefix(b"(").ok_or_else(unclosed)?;
    let depth = depth.checked_sub(1).ok_or("it nests too deeply")?;
    let (found, rest) = match inner.first() {
        Some(b'&') => of_others(AND, &inner[1..], depth)?,
        Some(b'|') => of_others(OR, &inner[1..], depth)?,
        Some(b'!') => {
            let (negated, rest) = filter(&inner[1..], depth)?;
            (Filter::Of(NOT, vec![negated]), rest)
        }
        _ => item(inner)?,
    };
    Ok((found, rest.strip_prefix(b")").ok_or_else(unclosed)?))
}

fn of_others(tag: u8, mut text: &[u8], depth: usize) -> Result<(Filter, &[u8]), String> {
    let mut all = Vec::new();
    while text.starts_with(b"(") {
        let (one, rest) = filter(text, depth)?;
        all.push(one);
        text = rest;
    }
    match all.is_empty() {
        true => Err("& and | need filters behind them".to_owned()),
        false => Ok((Filter::Of(tag, all), text)),
    }
}

/// The name of an attribute, or of a rule, at the beginning of a text.
fn name(text: &[u8]) -> (Option<String>, &[u8]) {
    let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b".;-_".contains(byte);
    let ends = text.iter().position(|byte| !is_part(byte)).unwrap_or(text.len());
    let (name, rest) = text.split_at(ends);
    ((!name.is_empty()).then(|| String::from_utf8_lossy(name).into_owned()), rest)
}

fn item(text: &[u8]) -> Result<(Filter, &[u8]), String> {
    let wrong = || format!("'{}' is no comparison such as uid={{user}}", shown(text));
    let (attribute, rest) = name(text);
    if rest.starts_with(b":") {
        return extensible(attribute, rest).ok_or_else(wrong)?;
    }
    let attribute = attribute.ok_or_else(wrong)?;
    for (sign, tag) in [(&b">="[..], GREATER), (b"<=", LESS), (b"~=", SIMILAR)] {
        if let Some(rest) = rest.strip_prefix(sign) {
            let (mut parts, rest) = values(rest)?;
            return match parts.len() {
                1 => Ok((Filter::Compare(tag, attribute, parts.remove(0)), rest)),
                _ => Err(wrong()),
            };
        }
    }
    let (mut parts, rest) = values(rest.strip_prefix(b"=").ok_or_else(wrong)?)?;
    let is_inner_empty =
        parts.len() > 2 && parts[1..parts.len() - 1].iter().any(|p| p.0.is_empty());
    let found = match &parts[..] {
        [_] => Filter::Compare(EQUAL, attribute, parts.remove(0)),
        [first, last] if first.0.is_empty() && last.0.is_empty() => Filter::Present(attribute),
        _ if is_inner_empty => return Err(wrong()),
        _ => Filter::Substrings(attribute, parts),
    };
    Ok((found, rest))
}

/// A comparison by a rule; none if it is malformed.
fn extensible(attribute: Option<String>, text: &[u8]) -> Option<Result<(Filter, &[u8]), String>> {
    let (mut rule, mut with_dn, mut rest) = (None, false, text);
    let value = loop {
        if let Some(value) = rest.strip_prefix(b":=") {
            break value;
        }
        let (word, behind) = name(rest.strip_prefix(b":")?);
        match word? {
            word if word.eq_ignore_ascii_case("dn") && !with_dn && rule.is_none() => with_dn = true,
            word if rule.is_none() => rule = Some(word),
            _ => return None,
        }
        rest = behind;
    };
    if attribute.is_none() && rule.is_none() {
        return None;
    }
    Some(values(value).and_then(|(mut parts, rest)| match parts.len() {
        1 => {
            let value = parts.remove(0);
            Ok((Filter::Extensible { attribute, rule, with_dn, value }, rest))
        }
        _ => Err("a comparison by := has no *".to_owned()),
    }))
}

/// The values between stars, up to the closing parenthesis.
fn values(text: &[u8]) -> Result<(Vec<Value>, &[u8]), String> {
    let (mut parts, mut value, mut bytes) = (Vec::new(), Value::default(), Vec::new());
    let end = |value: &mut Value, bytes: &mut Vec<u8>| {
        if !bytes.is_empty() {
            value.0.push(Piece::Bytes(std::mem::take(bytes)));
        }
    };
    let mut rest = text;
    loop {
        if let Some(behind) = rest.strip_prefix(b"{user}") {
            end(&mut value, &mut bytes);
            value.0.push(Piece::User);
            rest = behind;
            continue;
        }
        if let Some(behind) = rest.strip_prefix(b"{dn}") {
            end(&mut value, &mut bytes);
            value.0.push(Piece::Dn);
            rest = behind;
            continue;
        }
        match rest {
            [] | [b')', ..] => break,
            [b'*', behind @ ..] => {
                end(&mut value, &mut bytes);
                parts.push(std::mem::take(&mut value));
                rest = behind;
            }
            [b'\\', one, two, behind @ ..] => {
                let digit = |byte: &u8| (*byte as char).to_digit(16);
                let both = digit(one).zip(digit(two));
                let (one, two) = both.ok_or("a \\ needs two hexadecimal digits behind it")?;
                bytes.push((one << 4 | two) as u8);
                rest = behind;
            }
            [b'\\', ..] => return Err("a \\ needs two hexadecimal digits behind it".to_owned()),
            [b'(' | 0, ..] => {
                return Err(format!("'{}': write \\28 for a parenthesis in a value", shown(rest)));
            }
            [byte, behind @ ..] => {
                bytes.push(*byte);
                rest = behind;
            }
        }
    }
    end(&mut value, &mut bytes);
    parts.push(value);
    Ok((parts, rest))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encoded(text: &str, user: &str) -> Vec<u8> {
        let given = Given { user, dn: "cn=ann,dc=x" };
        Filter::parse(text).unwrap_or_else(|why| panic!("{text}: {why}")).encoded(&given)
    }

    #[test]
    fn filters_are_encoded() {
        let of = |text: &str| encoded(text, "ann");
        assert_eq!(of("(uid={user})"), b"\xa3\x0a\x04\x03uid\x04\x03ann");
        assert_eq!(of("uid={user}"), of("(uid=ann)"));
        assert_eq!(of("(cn=a\\2ab\\28)"), b"\xa3\x0a\x04\x02cn\x04\x04a*b(");
        assert_eq!(of("(objectClass=*)"), b"\x87\x0bobjectClass");
        assert_eq!(of("(cn=a*b*c)"), b"\xa4\x0f\x04\x02cn\x30\x09\x80\x01a\x81\x01b\x82\x01c");
        assert_eq!(of("(cn=*b*)"), b"\xa4\x09\x04\x02cn\x30\x03\x81\x01b");
        assert_eq!(of("(cn=a*)"), b"\xa4\x09\x04\x02cn\x30\x03\x80\x01a");
        assert_eq!(of("(cn=*a)"), b"\xa4\x09\x04\x02cn\x30\x03\x82\x01a");
        assert_eq!(of("(n>=1)"), b"\xa5\x06\x04\x01n\x04\x011");
        assert_eq!(of("(n<=1)"), b"\xa6\x06\x04\x01n\x04\x011");
        assert_eq!(of("(n~=1)"), b"\xa8\x06\x04\x01n\x04\x011");
        assert_eq!(
            of("(&(a=1)(!(b=2)))"),
            b"\xa0\x12\xa3\x06\x04\x01a\x04\x011\xa2\x08\xa3\x06\x04\x01b\x04\x012"
        );
        assert_eq!(of("(|(a=1))"), b"\xa1\x08\xa3\x06\x04\x01a\x04\x011");
        let nested = of("(member:1.2.840.113556.1.4.1941:={dn})");
        assert_eq!(
            nested,
            b"\xa9\x2e\x81\x171.2.840.113556.1.4.1941\x82\x06member\x83\x0bcn=ann,dc=x"
        );
        assert_eq!(of("(cn:dn:=x)"), b"\xa9\x0a\x82\x02cn\x83\x01x\x84\x01\xff");
        // A brace that is no place is a brace.
        assert_eq!(of("(a={b})"), b"\xa3\x08\x04\x01a\x04\x03{b}");
    }

    /// A value is a value: whatever somebody types, the filter has the same parts.
    #[test]
    fn nothing_that_is_typed_becomes_a_filter() {
        for typed in
            ["*", "a*", "*)(uid=*", "x)(|(a=*))", "\\2a", "{dn}", "\0", "", "(", "é", "{user}"]
        {
            let expected =
                [&[4, 3][..], b"uid", &[4, typed.len() as u8], typed.as_bytes()].concat();
            assert_eq!(encoded("(uid={user})", typed), ber::element(0xa3, &expected), "{typed:?}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (text, why) in [
            ("", "no comparison"),
            ("(", "no comparison"),
            ("()", "no comparison"),
            ("(uid={user}", "parenthesis is missing"),
            ("(uid={user}))", "behind its end"),
            ("(uid=a)(uid=b)", "behind its end"),
            ("(&)", "need filters"),
            ("(uid)", "no comparison"),
            ("(=a)", "no comparison"),
            ("(a=b**c)", "no comparison"),
            ("(a>=*)", "no comparison"),
            ("(a=\\2)", "two hexadecimal digits"),
            ("(a=\\zz)", "two hexadecimal digits"),
            ("(a=b(c)", "write \\28"),
            ("(a:b:c:=d)", "no comparison"),
            ("(:=d)", "no comparison"),
            (&"(!".repeat(20), "nests too deeply"),
            (&"x".repeat(5_000), "longer than"),
        ] {
            let found = Filter::parse(text).unwrap_err();
            assert!(found.contains(why), "{text}: {found}");
        }
        assert!(Filter::parse("(&(a=*)(uid={user}*))").unwrap().names_user());
        assert!(!Filter::parse("(a=user)").unwrap().names_user());
        assert!(Filter::parse("(!(member={dn}))").unwrap().names_dn());
    }

    proptest! {
        #[test]
        fn nothing_panics(text in "[()&|!=<>~:*\\\\a{}user0 ]{0,40}") {
            if let Ok(filter) = Filter::parse(&text) {
                let _ = filter.encoded(&Given { user: "x", dn: "y" });
            }
        }
    }
}
