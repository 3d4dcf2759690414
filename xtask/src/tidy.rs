//! Rules for every file: a header in each module, no marks of unfinished work, no merge conflicts,
//! links that lead to files.

use std::path::{Path, PathBuf};

/// A longer source file probably holds two ideas.
const LINES_MAX: usize = 900;
/// Comments wrap at the width of code (`rustfmt.toml`); rustfmt does not wrap them.
const COMMENT_WIDTH_CHARS: usize = 100;
/// Marks of unfinished work. Split, so that this file does not match itself.
const MARKS: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("#[ign", "ore")];
/// The mark of a test that `make test-long` runs: that test is not unfinished.
const LONG_TEST: &str = concat!("#[ign", "ore = \"takes minutes: make test-long\"]");
/// The same as `MARKS`, for tests of the page.
const MARKS_TS: [&str; 3] = ["test.skip(", "describe.skip(", "test.fixme("];
const FOLDERS_LEFT_OUT: [&str; 8] = [
    ".git",
    "node_modules",
    "dist",
    "target",
    "testdata",
    "demo-data",
    "loginson-data",
    "test-results",
];

/// All violations in the tree below `root`.
pub fn faults(root: &Path) -> std::io::Result<Vec<String>> {
    let mut faults = Vec::new();
    for path in files(root)? {
        let Ok(text) = std::fs::read_to_string(&path) else { continue };
        let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        conflicts(&name, &text, &mut faults);
        match path.extension().and_then(|e| e.to_str()) {
            Some("rs") => {
                source(&name, &text, &mut faults);
                wide_comments(&name, &text, &mut faults);
                protocol(&name, &text, &mut faults);
                if !text.starts_with("//!") && !name.contains("fuzz_targets") {
                    faults
                        .push(format!("{name}: begins without a header that says its job (//! …)"));
                }
            }
            Some("ts" | "svelte" | "sh") => source(&name, &text, &mut faults),
            Some("md") => {
                links(&name, &path, &text, &mut faults);
                sources(&name, root, &text, &mut faults);
            }
            _ => {}
        }
    }
    Ok(faults)
}

/// Unresolved merge conflicts.
fn conflicts(name: &str, text: &str, faults: &mut Vec<String>) {
    let ends = ["<".repeat(7), ">".repeat(7)];
    for (number, line) in text.lines().enumerate() {
        if ends.iter().any(|end| line.starts_with(end.as_str())) {
            faults.push(format!("{name}:{}: an unresolved merge conflict", number + 1));
        }
    }
}

/// The protocol of a cluster and its simulation use no engine, so that they run without servers.
fn protocol(name: &str, text: &str, faults: &mut Vec<String>) {
    let is_protocol =
        name.strip_prefix("crates/cluster/src/").is_some_and(|file| !file.starts_with("engines/"));
    if is_protocol && text.contains("engines::") {
        faults.push(format!("{name}: the protocol of a cluster must not use its engines"));
    }
}

fn source(name: &str, text: &str, faults: &mut Vec<String>) {
    let lines = text.lines().count();
    if lines > LINES_MAX {
        faults.push(format!("{name}: {lines} lines, at most {LINES_MAX}; split it by ideas"));
    }
    // Several checkouts share what is built, so the path of the one that built it may be gone.
    let compiled_path = concat!("env!(", "\"CARGO_MANIFEST_DIR\")");
    for (number, line) in text.lines().enumerate() {
        if line.contains(compiled_path) {
            faults.push(format!(
                "{name}:{}: a path of the checkout that built it; tests run in the folder of their crate",
                number + 1
            ));
        }
        let ts: &[&str] = if name.ends_with(".ts") { &MARKS_TS } else { &[] };
        // A longer run of the letter is a pattern for names of temporary files.
        let crosses = "X".repeat(3);
        let is_mark = line.contains(&crosses) && !line.contains(&"X".repeat(4));
        let crosses = is_mark.then_some(crosses.as_str());
        let unfinished = |mark: &&&str| line.contains(**mark) && line.trim() != LONG_TEST;
        let marks = MARKS.iter().chain(ts).filter(unfinished).copied();
        if let Some(mark) = marks.chain(crosses).next() {
            faults.push(format!("{name}:{}: unfinished: {mark}", number + 1));
        }
    }
}

/// Comments that are wider than code. Drawings between fences, rows of tables and indented commands
/// may be wider.
fn wide_comments(name: &str, text: &str, faults: &mut Vec<String>) {
    let mut is_fenced = false;
    for (number, line) in text.lines().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            is_fenced = false;
            continue;
        };
        let comment = comment.trim_start_matches(['/', '!']);
        if comment.trim_start().starts_with("```") {
            is_fenced = !is_fenced;
        }
        let is_kept = is_fenced || comment.starts_with("     ") || comment.starts_with(" |");
        if line.chars().count() > COMMENT_WIDTH_CHARS && !is_kept {
            let number = number + 1;
            faults.push(format!(
                "{name}:{number}: a comment wider than {COMMENT_WIDTH_CHARS} characters; wrap it"
            ));
        }
    }
}

/// Links between documents, `[text](path)`, must lead to a file.
fn links(name: &str, path: &Path, text: &str, faults: &mut Vec<String>) {
    // Reports of tests link to files that are made beside a report alone.
    if name.contains("/tests/golden/") {
        return;
    }
    let folder = path.parent().unwrap_or(path);
    for target in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
        let target = target.split('#').next().unwrap_or_default();
        let is_path = !target.is_empty() && !target.contains(':') && !target.contains(' ');
        if is_path && !folder.join(target).exists() {
            faults.push(format!("{name}: link to {target}, which does not exist"));
        }
    }
}

/// Sources that documents name, `crates/…/NAME.rs`, must exist. A name in capitals stands for a
/// name that the reader chooses.
fn sources(name: &str, root: &Path, text: &str, faults: &mut Vec<String>) {
    for (start, _) in text.match_indices("crates/") {
        let is_path = |c: char| c.is_ascii_alphanumeric() || "/_.-".contains(c);
        let rest = &text[start..];
        let end = rest.find(|c| !is_path(c)).unwrap_or(rest.len());
        let path = rest[..end].trim_end_matches('.');
        let is_chosen = path.split('/').any(|part| part.starts_with(char::is_uppercase));
        if path.ends_with(".rs") && !is_chosen && !root.join(path).exists() {
            faults.push(format!("{name}: names {path}, which does not exist"));
        }
    }
}

/// The files below a folder, sorted, without those that are built or made by tests.
pub fn files(folder: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name();
        if entry.file_type()?.is_dir() {
            if !FOLDERS_LEFT_OUT.iter().any(|f| *f == name) {
                found.extend(files(&entry.path())?);
            }
        } else {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_found() {
        let mut faults = Vec::new();
        source("a.rs", &format!("ok\n{} later\n", MARKS[0]), &mut faults);
        source("b.rs", &"x\n".repeat(LINES_MAX), &mut faults);
        source("c.rs", &format!("#[test]\n    {LONG_TEST}\n"), &mut faults);
        assert_eq!(faults.len(), 1);
        source("a.sh", "mktemp dir.XXXXXX\n", &mut faults);
        assert_eq!(faults.len(), 1);
        source("a.sh", concat!("# XX", "X later\n"), &mut faults);
        assert_eq!(faults.pop().map(|fault| fault.contains("a.sh:1")), Some(true));
        let path = concat!("let a = env!(", "\"CARGO_MANIFEST_DIR\");");
        source("a.rs", path, &mut faults);
        assert_eq!(faults.pop().map(|fault| fault.contains("a.rs:1")), Some(true));
        source("c.rs", &format!("{}]\n", MARKS[2]), &mut faults);
        assert_eq!(faults.pop().map(|fault| fault.contains("c.rs:1")), Some(true));
        source("b.rs", &"x\n".repeat(LINES_MAX + 1), &mut faults);
        links(
            "c.md",
            Path::new("/nowhere/c.md"),
            "[a](b.md) [c](https://d.invalid/) [e](#f)",
            &mut faults,
        );
        assert_eq!(faults.len(), 3);
        let root = Path::new("..");
        let named = "`crates/record/src/lib.rs`, crates/record/src/none.rs. crates/a/NAME.rs";
        sources("d.md", root, named, &mut faults);
        assert_eq!(faults.pop().map(|fault| fault.contains("src/none.rs")), Some(true));
        assert_eq!(faults.len(), 3);
        let wide = "word ".repeat(20);
        for (comment, count) in [
            (format!("/// {wide}word\n"), 1),
            (format!("// {}\n", &wide[..97]), 0),
            (format!("//! ```text\n//! {wide}word\n//! ```\n"), 0),
            (format!("/// | {wide} |\nlet x = 1; // {wide}\n"), 0),
        ] {
            let before = faults.len();
            wide_comments("e.rs", &comment, &mut faults);
            assert_eq!(faults.split_off(before).len(), count, "{comment}");
        }
        let both = format!("a\n{} HEAD\nb\n=======\nc\n{} other\n", "<".repeat(7), ">".repeat(7));
        conflicts("d.md", &both, &mut faults);
        assert_eq!(faults.split_off(3).len(), 2);
        let used = "use crate::engines::kafka::Log;\n";
        for (file, count) in [("plan.rs", 1), ("sim/log.rs", 1), ("engines/kafka/mod.rs", 0)] {
            protocol(&format!("crates/cluster/src/{file}"), used, &mut faults);
            assert_eq!(faults.split_off(3).len(), count, "{file}");
        }
    }
}
