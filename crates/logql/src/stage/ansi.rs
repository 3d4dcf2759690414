//! Colours of terminals (ECMA-48 section 8.3.117, SGR), taken out.

/// The text without sequences `ESC [ … m`; none when it has none.
pub fn without_colours(text: &str) -> Option<String> {
    let start = "\x1b[";
    let mut rest = text;
    let mut out = String::new();
    let mut any = false;
    while let Some(at) = rest.find(start) {
        let behind = &rest[at + start.len()..];
        let digits = behind.find(|c: char| !c.is_ascii_digit() && c != ';').unwrap_or(behind.len());
        match behind[digits..].strip_prefix('m') {
            Some(after) => {
                out.push_str(&rest[..at]);
                rest = after;
                any = true;
            }
            None => {
                out.push_str(&rest[..at + start.len()]);
                rest = behind;
            }
        }
    }
    out.push_str(rest);
    any.then_some(out)
}

#[cfg(test)]
mod tests {
    #[test]
    fn colours_go_and_all_else_stays() {
        let plain = |text| super::without_colours(text);
        assert_eq!(plain("\x1b[31mred\x1b[0m x").as_deref(), Some("red x"));
        assert_eq!(plain("\x1b[1;32mx\x1b[2J").as_deref(), Some("x\x1b[2J"));
        assert_eq!(plain("none"), None);
        assert_eq!(plain("\x1b[31"), None);
    }
}
