//! The tables of `docs/limits.md` come from comments of constants and settings, so that a limit and
//! what happens beyond it are said once, where the limit is.
//!
//! The paragraph of a comment that makes a row begins with the page and a section of it:
//!
//! ```text
//! /// limits.md, Queries: short links | {} for each user | the oldest gives way
//! const LINKS_MAX: usize = 300;
//! ```
//!
//! `{}` stands for the value of the constant, `{NAME}` for that of another one in the same file.
//! A setting has no value in code; its row names the key and the default. Rows are sorted by what
//! they limit. `cargo run -p xtask limits` writes the tables; without `limits`, a table that
//! differs is a fault.

use std::collections::BTreeMap;
use std::path::Path;

use crate::tidy::files;

const PAGE: &str = "docs/limits.md";
const BEGIN: &str = "<!-- from comments of constants: ";
const END: &str = "<!-- end -->";
const HEAD: &str = "| what | limit | beyond it |\n|---|---|---|\n";

/// What is wrong with comments, and whether the page differs from them.
pub fn faults(root: &Path) -> std::io::Result<Vec<String>> {
    let (rows, mut faults) = collected(root)?;
    let page = std::fs::read_to_string(root.join(PAGE))?;
    match written(&page, &rows) {
        Ok(text) if text != page => faults.push(format!(
            "{PAGE}: differs from the comments of constants; run `cargo run -p xtask limits`"
        )),
        Ok(_) => {}
        Err(fault) => faults.push(fault),
    }
    Ok(faults)
}

/// Writes the tables of the page.
pub fn write(root: &Path) -> anyhow::Result<()> {
    let (rows, faults) = collected(root)?;
    anyhow::ensure!(faults.is_empty(), "{}", faults.join("\n"));
    let path = root.join(PAGE);
    let page = std::fs::read_to_string(&path)?;
    std::fs::write(path, written(&page, &rows).map_err(anyhow::Error::msg)?)?;
    Ok(())
}

/// Rows by section.
type Rows = BTreeMap<String, Vec<String>>;

fn collected(root: &Path) -> std::io::Result<(Rows, Vec<String>)> {
    let (mut rows, mut faults) = (Rows::new(), Vec::new());
    for path in files(&root.join("crates"))? {
        if path.extension().is_some_and(|end| end == "rs") {
            let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            read(&name, &std::fs::read_to_string(&path)?, &mut rows, &mut faults);
        }
    }
    // By what they limit, without regard to case and quotes.
    let key = |row: &String| row.to_lowercase().replace('`', "");
    rows.values_mut().for_each(|rows| rows.sort_by_key(key));
    Ok((rows, faults))
}

/// Adds the rows of a file.
fn read(name: &str, text: &str, rows: &mut Rows, faults: &mut Vec<String>) {
    if !text.contains("/// limits.md, ") {
        return;
    }
    let constants = constants(text);
    let mut paragraph: Option<String> = None;
    for line in text.lines() {
        let line = line.trim();
        if let Some(comment) = line.strip_prefix("///") {
            let comment = comment.trim();
            if let Some(row) = comment.strip_prefix("limits.md, ") {
                paragraph = Some(row.to_owned());
            } else if let Some(row) = &mut paragraph {
                row.push(' ');
                row.push_str(comment);
            }
        } else if let Some(row) = paragraph.take() {
            match filled(row.trim(), declared(line).map(|(name, _)| name), &constants) {
                Ok((section, row)) => rows.entry(section).or_default().push(row),
                Err(fault) => faults.push(format!("{name}: {fault}: {row}")),
            }
        }
    }
}

/// The section and the row of a paragraph.
fn filled(
    paragraph: &str,
    own: Option<&str>,
    constants: &BTreeMap<String, String>,
) -> Result<(String, String), String> {
    let (section, row) = paragraph.split_once(": ").ok_or("a row has a section and `: `")?;
    if row.split(" | ").count() != 3 {
        return Err("a row has three cells, with ` | ` between them".to_owned());
    }
    let (mut text, mut rest) = (String::new(), row);
    while let Some((before, after)) = rest.split_once('{') {
        let (name, after) = after.split_once('}').ok_or("`{` without `}`")?;
        let name = if name.is_empty() { own.unwrap_or_default() } else { name };
        let value = constants.get(name).ok_or(format!("the value of `{name}` cannot be told"))?;
        text.push_str(before);
        text.push_str(value);
        rest = after;
    }
    Ok((section.to_owned(), format!("| {text}{rest} |")))
}

/// Name and expression of a constant.
fn declared(line: &str) -> Option<(&str, &str)> {
    let (_, rest) = line.split_once("const ")?;
    let (name, rest) = rest.split_once(':')?;
    let (_, value) = rest.split_once('=')?;
    Some((name, value.trim().trim_end_matches(';')))
}

/// Constants of a file that have a number, as people read it.
fn constants(text: &str) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    for (name, value) in text.lines().filter_map(|line| declared(line.trim())) {
        if let Some(shown) = shown(name, value) {
            found.insert(name.to_owned(), shown);
        }
    }
    found
}

fn shown(name: &str, value: &str) -> Option<String> {
    if let Some(duration) = value.strip_prefix("Duration::from_") {
        let (unit, rest) = duration.split_once('(')?;
        let number = number(rest.trim_end_matches(')'))?;
        return Some(match unit {
            "millis" => format!("{} ms", grouped(number)),
            "secs" => match number {
                s if s >= 7200 && s % 3600 == 0 => format!("{} h", s / 3600),
                s if s >= 120 && s % 60 == 0 => format!("{} min", s / 60),
                s => format!("{s} s"),
            },
            _ => return None,
        });
    }
    let number = number(value)?;
    Some(match name.contains("BYTES") {
        true if number >= 1 << 30 && number % (1 << 30) == 0 => format!("{} GiB", number >> 30),
        true if number >= 1 << 20 && number % (1 << 20) == 0 => format!("{} MiB", number >> 20),
        true if number >= 1 << 10 && number % (1 << 10) == 0 => format!("{} KiB", number >> 10),
        true => format!("{} bytes", grouped(number)),
        false => grouped(number),
    })
}

/// The value of a product, a shift, or a number.
fn number(text: &str) -> Option<u64> {
    if let Some((left, right)) = text.split_once("<<") {
        return number(left)?.checked_shl(u32::try_from(number(right)?).ok()?);
    }
    if let Some((left, right)) = text.split_once('*') {
        return number(left)?.checked_mul(number(right)?);
    }
    text.trim().replace('_', "").parse().ok()
}

/// With commas between groups of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// The page with its tables made anew.
fn written(page: &str, rows: &Rows) -> Result<String, String> {
    let (mut text, mut rest) = (String::new(), page);
    let mut known = Vec::new();
    while let Some((before, after)) = rest.split_once(BEGIN) {
        let (section, after) = after.split_once(" -->\n").ok_or("a mark without ` -->`")?;
        let (_, after) = after.split_once(END).ok_or(format!("no {END} for {section}"))?;
        let table = rows.get(section).ok_or(format!("{PAGE}: no row for {section}"))?.join("\n");
        text.push_str(&format!("{before}{BEGIN}{section} -->\n{HEAD}{table}\n{END}"));
        known.push(section);
        rest = after;
    }
    match rows.keys().find(|section| !known.contains(&section.as_str())) {
        Some(section) => Err(format!("{PAGE}: no place for the rows of '{section}'")),
        None => Ok(text + rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = concat!(
        "/// Links of a user.\n///\n",
        "/// limits.md, Queries: short links, `a` | {} of\n",
        "/// {USERS_MAX} users | {}: the oldest\n/// gives way\n",
        "pub const LINKS_MAX: usize = 1_300;\nconst USERS_MAX: u64 = 64 * 2;\n",
    );

    #[test]
    fn rows_come_from_comments() {
        let (mut rows, mut faults) = (Rows::new(), Vec::new());
        read("a.rs", SOURCE, &mut rows, &mut faults);
        assert_eq!(faults, Vec::<String>::new());
        let row = "| short links, `a` | 1,300 of 128 users | 1,300: the oldest gives way |";
        assert_eq!(rows["Queries"], [row]);
        let page = format!("# L\n{BEGIN}Queries -->\nold\n{END}\nend\n");
        let text = written(&page, &rows).unwrap();
        assert_eq!(text, format!("# L\n{BEGIN}Queries -->\n{HEAD}{row}\n{END}\nend\n"));
        assert_eq!(written(&text, &rows).unwrap(), text);
        assert!(written("no place", &rows).unwrap_err().contains("no place for"));
        assert!(written(&page, &Rows::new()).unwrap_err().contains("no row for"));
    }

    #[test]
    fn wrong_rows_are_found() {
        for (source, expected) in [
            ("/// limits.md, A: b | c\nconst D: u64 = 1;", "three cells"),
            ("/// limits.md, A: b | {} | c\nconst D: f64 = 1.5;", "the value of `D`"),
            ("/// limits.md, A: b | {E} | c\nconst D: u64 = 1;", "the value of `E`"),
            ("/// limits.md, A\nconst D: u64 = 1;", "a section"),
        ] {
            let (mut rows, mut faults) = (Rows::new(), Vec::new());
            read("a.rs", source, &mut rows, &mut faults);
            assert!(faults.join("\n").contains(expected), "{source}: {faults:?}");
        }
    }

    #[test]
    fn values_are_shown_with_their_units() {
        for (name, value, expected) in [
            ("A_MAX", "16 << 10", "16,384"),
            ("A_BYTES_MAX", "8 << 20", "8 MiB"),
            ("A_BYTES_MAX", "1_000", "1,000 bytes"),
            ("A_TIME", "Duration::from_secs(24 * 3600)", "24 h"),
            ("A_TIME", "Duration::from_secs(5)", "5 s"),
            ("A_TIME", "Duration::from_millis(500)", "500 ms"),
        ] {
            assert_eq!(shown(name, value).as_deref(), Some(expected), "{value}");
        }
    }
}
