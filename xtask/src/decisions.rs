//! Rules for `docs/decisions/`: one page for each number, each in the index, and successors named
//! on both pages.
//!
//! A page that replaces another one says so in the line below its title, `Supersedes
//! [0001](0001-….md).`, and the page that no longer holds names it there: `Superseded by
//! [0002](0002-….md).` Code and documents that name a decision, `decision 0001` or
//! `decisions/0001`, name one that exists.

use std::path::Path;

use crate::tidy::files;

const FOLDER: &str = "docs/decisions";
/// Files that may name decisions.
const NAMING: [&str; 9] = ["rs", "md", "py", "ts", "svelte", "sh", "toml", "js", "css"];

/// All violations in the tree below `root`.
pub fn faults(root: &Path) -> std::io::Result<Vec<String>> {
    let folder = root.join(FOLDER);
    let mut pages = Vec::new();
    for path in files(&folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name != "README.md" {
            pages.push((name, std::fs::read_to_string(&path)?));
        }
    }
    let index = std::fs::read_to_string(folder.join("README.md"))?;
    let mut faults = judged(&pages, &index);
    let numbers: Vec<&str> = pages.iter().filter_map(|(name, _)| name.get(..4)).collect();
    for path in files(root)? {
        let is_naming = path.extension().is_some_and(|e| NAMING.iter().any(|n| *n == e));
        let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        // This file has numbers of decisions that do not exist, in its tests.
        if !is_naming || name == "xtask/src/decisions.rs" {
            continue;
        }
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        faults.extend(named(&name, &text, &numbers));
    }
    Ok(faults)
}

/// What is wrong with pages, given by their file names and texts.
fn judged(pages: &[(String, String)], index: &str) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, text) in pages {
        let number = name.get(..4).unwrap_or_default();
        let title = text.lines().next().unwrap_or_default();
        let Some(title) = title.strip_prefix("# ").filter(|title| title.starts_with(number)) else {
            faults.push(format!("{name}: its title does not begin with `# {number}.`"));
            continue;
        };
        let links = index.matches(&format!("[{title}]({name})")).count();
        if links != 1 {
            faults.push(format!("{name}: README.md has {links} links `[{title}]({name})`, not 1"));
        }
        let same = pages.iter().filter(|(other, _)| other.get(..4) == Some(number)).count();
        if same > 1 {
            faults.push(format!("{name}: {same} pages have the number {number}"));
        }
        for (says, answer) in [("Supersedes", "Superseded by"), ("Superseded by", "Supersedes")] {
            for other in linked(text, says) {
                let page = pages.iter().find(|(name, _)| name.starts_with(&other));
                let answers = page.is_some_and(|(_, text)| {
                    linked(text, answer).iter().any(|back| back == number)
                });
                if !answers {
                    faults.push(format!(
                        "{name}: says `{says} {other}`, and page {other} does not say \
                         `{answer} [{number}]({name}).` below its title"
                    ));
                }
            }
        }
    }
    let linked = index.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    for file in linked.filter(|file| file.starts_with(|c: char| c.is_ascii_digit())) {
        if !pages.iter().any(|(name, _)| name == file) {
            faults.push(format!("README.md: link to {file}, which does not exist"));
        }
    }
    faults
}

/// The numbers in the line below the title that begins with these words.
fn linked(text: &str, words: &str) -> Vec<String> {
    let line = text.lines().skip(1).find(|line| !line.is_empty()).unwrap_or_default();
    let Some(rest) = line.strip_prefix(words) else { return Vec::new() };
    rest.split('[').skip(1).filter_map(|rest| rest.get(..4)).map(str::to_owned).collect()
}

/// Decisions that a file names and that do not exist.
fn named(name: &str, text: &str, numbers: &[&str]) -> Vec<String> {
    let mut faults = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let lower = line.to_ascii_lowercase();
        for words in ["decision ", "decisions/"] {
            for (start, _) in lower.match_indices(words) {
                let rest = &lower[start + words.len()..];
                let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
                if digits == 4 && !numbers.contains(&&rest[..4]) {
                    let number = &rest[..4];
                    faults.push(format!("{name}:{}: decision {number} does not exist", at + 1));
                }
            }
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages(texts: &[&str]) -> Vec<(String, String)> {
        let name = |text: &str| format!("{}-a.md", &text[2..6]);
        texts.iter().map(|text| (name(text), (*text).to_owned())).collect()
    }

    #[test]
    fn planted_faults_are_found() {
        let index = "- [0001. A](0001-a.md)\n- [0002. B](0002-a.md)\n";
        let old = "# 0001. A\n\nSuperseded by [0002](0002-a.md).\n\nText.\n";
        let new = "# 0002. B\n\nSupersedes [0001](0001-a.md).\n";
        for (texts, index, expected) in [
            ([old, new], index, None),
            (["# 0001. A\n", new], index, Some("does not say `Superseded by [0002]")),
            ([old, "# 0002. B\n"], index, Some("does not say `Supersedes [0001]")),
            ([old, new], &index[23..], Some("0 links `[0001. A](0001-a.md)`")),
            ([old, new], &format!("{index}- [0003. C](0003-a.md)"), Some("link to 0003-a.md")),
        ] {
            let faults = judged(&pages(&texts), index).join("\n");
            assert_eq!(faults.is_empty(), expected.is_none(), "{faults}");
            assert!(faults.contains(expected.unwrap_or_default()), "{faults}");
        }
        let twice = vec![pages(&[old])[0].clone(), ("0001-b.md".to_owned(), old.to_owned())];
        assert!(judged(&twice, index).join("\n").contains("2 pages have the number 0001"));
        let wrong = vec![("0001-a.md".to_owned(), "# 0002. A\n".to_owned())];
        assert!(judged(&wrong, index).join("\n").contains("does not begin with `# 0001.`"));
    }

    #[test]
    fn decisions_that_code_names_exist() {
        let text = "// Decision 0001 and decisions/0001-a.md.\n// See decision 0002.\n";
        assert_eq!(named("a.rs", text, &["0001"]), ["a.rs:2: decision 0002 does not exist"]);
        assert!(named("a.rs", text, &["0001", "0002"]).is_empty());
    }
}
