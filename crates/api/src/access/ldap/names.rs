//! Names of entries (RFC 4514), as far as groups are compared by them.

/// The parts of a name, split at commas that are not escaped.
fn parts(dn: &str) -> Vec<&str> {
    let (mut parts, mut begins, mut escaped) = (Vec::new(), 0, false);
    for (at, byte) in dn.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b',' => {
                parts.push(&dn[begins..at]);
                begins = at + 1;
            }
            _ => {}
        }
    }
    parts.push(&dn[begins..]);
    parts
}

/// A name in lower case, and without blanks beside commas and equals signs.
pub fn normalised(dn: &str) -> String {
    let part = |part: &str| match part.split_once('=') {
        Some((kind, value)) => format!("{}={}", kind.trim(), value.trim()).to_lowercase(),
        None => part.trim().to_lowercase(),
    };
    parts(dn).into_iter().map(part).collect::<Vec<_>>().join(",")
}

/// The names by which rules may mean a group: as the directory writes it, [`normalised`], and, if
/// the group is directly below `base`, the value of its first part. A group elsewhere has no short
/// name: whoever may make groups there must not choose that of another group.
pub fn of_group(dn: &str, base: Option<&str>) -> Vec<String> {
    let mut names = vec![dn.to_owned(), normalised(dn)];
    let parts = parts(dn);
    let above = parts.get(1..).unwrap_or_default().join(",");
    if let (Some(base), Some((_, short))) = (base, parts[0].split_once('='))
        && normalised(&above) == normalised(base)
    {
        let short = short.trim();
        // An escaped value would have to be unescaped; one of several parts has no one name.
        if !short.is_empty() && !short.contains(['\\', '+', '=', '"', '#']) {
            names.push(short.to_owned());
        }
    }
    names.dedup();
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_groups() {
        let base = Some("ou=Groups, dc=x");
        for (dn, base, expected) in [
            (
                "CN=Ops,OU=groups,DC=x",
                base,
                &["CN=Ops,OU=groups,DC=x", "cn=ops,ou=groups,dc=x", "Ops"][..],
            ),
            ("cn=ops,ou=groups,dc=x", None, &["cn=ops,ou=groups,dc=x"]),
            ("cn=ops,ou=a,ou=groups,dc=x", base, &["cn=ops,ou=a,ou=groups,dc=x"]),
            ("cn=ops,dc=x", base, &["cn=ops,dc=x"]),
            // A comma in a value does not make another part.
            ("cn=ops\\,ou=groups,dc=x", base, &["cn=ops\\,ou=groups,dc=x"]),
            ("cn=a\\,b,ou=groups,dc=x", base, &["cn=a\\,b,ou=groups,dc=x"]),
            ("cn=a+uid=b,ou=groups,dc=x", base, &["cn=a+uid=b,ou=groups,dc=x"]),
            ("", base, &[""]),
        ] {
            assert_eq!(of_group(dn, base), expected, "{dn}");
        }
        assert_eq!(normalised(" CN = Ops , ou=A B,dc=X"), "cn=ops,ou=a b,dc=x");
    }
}
