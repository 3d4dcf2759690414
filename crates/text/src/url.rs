//! Text in addresses, as HTML forms encode it: blanks as `+`, other bytes as `%XX`.

use crate::hex;

/// Appends a value; letters, digits and the bytes `kept` stay as they are.
pub fn encode(value: &[u8], kept: &[u8], out: &mut Vec<u8>) {
    for &byte in value {
        if byte.is_ascii_alphanumeric() || kept.contains(&byte) {
            out.push(byte);
        } else if byte == b' ' {
            out.push(b'+');
        } else {
            out.push(b'%');
            out.extend(hex::digits(byte));
        }
    }
}

/// Appends what an encoded value says; a `%` without two digits behind it stays. Returns whether
/// there was none.
pub fn decode(mut value: &[u8], out: &mut Vec<u8>) -> bool {
    let mut is_valid = true;
    while let Some((&byte, rest)) = value.split_first() {
        value = rest;
        match byte {
            b'+' => out.push(b' '),
            b'%' => match rest.get(..2).and_then(hex::byte) {
                Some(decoded) => {
                    out.push(decoded);
                    value = &rest[2..];
                }
                None => {
                    is_valid = false;
                    out.push(b'%');
                }
            },
            _ => out.push(byte),
        }
    }
    is_valid
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn forms() {
        let mut out = Vec::new();
        encode("a b/é~".as_bytes(), b"~", &mut out);
        assert_eq!(out, b"a+b%2F%C3%A9~");
        for (text, says, is_valid) in
            [("a%20b+c", "a b c", true), ("%zz%2", "%zz%2", false), ("", "", true)]
        {
            let mut out = Vec::new();
            assert_eq!(decode(text.as_bytes(), &mut out), is_valid, "{text}");
            assert_eq!(String::from_utf8(out).unwrap(), says);
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_is_decoded_as_the_same(value in prop::collection::vec(any::<u8>(), 0..30)) {
            for kept in [&b"-._"[..], b"-._~"] {
                let (mut encoded, mut decoded) = (Vec::new(), Vec::new());
                encode(&value, kept, &mut encoded);
                prop_assert!(encoded.is_ascii());
                prop_assert!(decode(&encoded, &mut decoded));
                prop_assert_eq!(&decoded, &value);
            }
        }
    }
}
