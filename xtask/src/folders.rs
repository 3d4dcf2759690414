//! Imports between the folders of a crate point one way, as the tables of folders in
//! ARCHITECTURE.md say.
//!
//! A folder is a top-level module below `src/`: `a/`, or `a.rs` with its folder `a/`. The check
//! covers each crate that has a table. Files of the root (`lib.rs`, `main.rs`) may use every
//! folder. Tests are left out: modules under `#[cfg(test)]`, and the files that [`is_test`] names.
//!
//! Sources are read as tokens, by the lexer with which macros of Rust work (`proc-macro2`): strings
//! and comments cannot be mistaken for code, and paths inside macros count as paths elsewhere do. A
//! full parser would leave the insides of macros unread.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Context;
use proc_macro2::{Delimiter, TokenStream, TokenTree};

const HEADER_START: &str = "| folder of `";
const HEADER_END: &str = "` | what is in it | may use |";
/// What `may use` holds if a folder uses no other one.
const NOTHING: &str = "\u{2013}";

/// Differences between the tables of folders in ARCHITECTURE.md and the sources.
pub fn faults(root: &Path) -> anyhow::Result<Vec<String>> {
    let page = std::fs::read_to_string(root.join("ARCHITECTURE.md"))?;
    let mut faults = Vec::new();
    for table in tables(&page) {
        let mut files = Vec::new();
        let src = root.join("crates").join(&table.krate).join("src");
        read_sources(&src, &mut Vec::new(), &mut files)
            .with_context(|| format!("the sources of crate {}", table.krate))?;
        faults.extend(check(&table, &files)?);
    }
    Ok(faults)
}

/// The table of one crate: its folders, and the folders that each may use.
struct Table {
    krate: String,
    rows: BTreeMap<String, BTreeSet<String>>,
}

/// A source file without its tests.
struct SourceFile {
    /// As shown in a fault, from `src/` on.
    name: String,
    /// The path of the module; empty for the root of the crate.
    module: Vec<String>,
    text: String,
}

/// The tables of folders in a page.
fn tables(page: &str) -> Vec<Table> {
    let mut lines = page.lines();
    let mut tables = Vec::new();
    while let Some(line) = lines.next() {
        let header = line.strip_prefix(HEADER_START).and_then(|l| l.strip_suffix(HEADER_END));
        let Some(krate) = header else { continue };
        let mut rows = BTreeMap::new();
        for row in lines.by_ref().skip(1).map_while(|line| line.strip_prefix('|')) {
            let row = row.trim_end().trim_end_matches('|');
            let (folder, rest) = row.split_once('|').unwrap_or((row, ""));
            let uses = rest.rsplit('|').next().unwrap_or_default().trim();
            let uses = if uses == NOTHING { "" } else { uses };
            let unquoted = |name: &str| name.trim().trim_matches('`').to_owned();
            let uses = uses.split(',').map(unquoted).filter(|name| !name.is_empty()).collect();
            rows.insert(unquoted(folder), uses);
        }
        tables.push(Table { krate: krate.to_owned(), rows });
    }
    tables
}

/// Whether a file or folder of this name, without its extension, holds tests alone.
fn is_test(name: &str) -> bool {
    name == "tests" || name == "testing" || name.ends_with("_tests")
}

fn read_sources(
    folder: &Path,
    module: &mut Vec<String>,
    files: &mut Vec<SourceFile>,
) -> std::io::Result<()> {
    let mut entries = std::fs::read_dir(folder)?.collect::<Result<Vec<_>, _>>()?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_folder = entry.file_type()?.is_dir();
        let stem = if is_folder { Some(&*name) } else { name.strip_suffix(".rs") };
        let Some(stem) = stem.filter(|stem| !is_test(stem)) else { continue };
        module.push(stem.to_owned());
        if is_folder {
            read_sources(&entry.path(), module, files)?;
        } else {
            let parents = module.len() - 1;
            let is_own = stem == "mod" || parents == 0 && (stem == "lib" || stem == "main");
            let end = module.len() - usize::from(is_own);
            let name = module[..parents].join("/");
            let name = if name.is_empty() { stem.to_owned() } else { format!("{name}/{stem}") };
            files.push(SourceFile {
                name: format!("{name}.rs"),
                module: module[..end].to_vec(),
                text: std::fs::read_to_string(entry.path())?,
            });
        }
        module.pop();
    }
    Ok(())
}

/// What a table and the sources of its crate say differently.
fn check(table: &Table, files: &[SourceFile]) -> anyhow::Result<Vec<String>> {
    let krate = &table.krate;
    let mut scans = Vec::new();
    for file in files {
        let tokens: TokenStream = file.text.parse().map_err(|error| {
            anyhow::anyhow!("crates/{krate}/src/{}: cannot be read as Rust: {error}", file.name)
        })?;
        let mut scan = Scan { module: file.module.clone(), ..Scan::default() };
        scan.walk(&tokens.into_iter().collect::<Vec<_>>());
        scans.push(scan);
    }
    let test_modules: Vec<_> = scans.iter().flat_map(|scan| &scan.test_modules).collect();
    let is_code = |module: &[String]| !test_modules.iter().any(|test| module.starts_with(test));

    let modules = files.iter().map(|file| &file.module).filter(|module| is_code(module));
    let folders: BTreeSet<&str> = modules.filter_map(|m| m.first()).map(String::as_str).collect();
    let mut faults = Vec::new();
    for folder in &folders {
        if !table.rows.contains_key(*folder) {
            faults.push(format!(
                "ARCHITECTURE.md: the table of folders of {krate} has no row for {folder}"
            ));
        }
    }
    for folder in table.rows.keys() {
        if !folders.contains(folder.as_str()) {
            faults.push(format!(
                "ARCHITECTURE.md: the table of folders of {krate} names {folder}, which is not \
                 there"
            ));
        }
    }

    // Names that the root imports: `crate::Name` then means the folder that the root takes it from.
    let mut root_names: BTreeMap<&str, &str> = BTreeMap::new();
    for scan in scans.iter().filter(|scan| scan.module.is_empty()) {
        for used in &scan.uses {
            if let (Some(first), Some(last)) = (used.path.first(), used.path.last()) {
                root_names.insert(last, first);
            }
        }
    }
    let mut used_edges: BTreeSet<(&str, &str)> = BTreeSet::new();
    for (file, scan) in files.iter().zip(&scans) {
        let Some(folder) = file.module.first().filter(|_| is_code(&file.module)) else { continue };
        for used in &scan.uses {
            let path = used.path.join("::");
            let place = format!("crates/{krate}/src/{}:{}", file.name, used.line);
            let first = used.path.first().map_or("", String::as_str);
            let target = match folders.get(first) {
                Some(target) => target,
                None => match root_names.get(first) {
                    Some(target) if folders.contains(target) => target,
                    // A name that the root takes from another crate.
                    Some(_) => continue,
                    None => {
                        faults.push(format!(
                            "{place}: crate::{path} is in no folder; move it from the root into one"
                        ));
                        continue;
                    }
                },
            };
            if *target == folder.as_str() {
                continue;
            }
            let allowed = table.rows.get(folder);
            if allowed.is_some_and(|allowed| allowed.contains(*target)) {
                used_edges.insert((folder, target));
            } else {
                faults.push(format!(
                    "{place}: folder {folder} must not use {target} (crate::{path}); see the \
                     table of folders of {krate} in ARCHITECTURE.md"
                ));
            }
        }
    }
    for (folder, allowed) in &table.rows {
        for target in allowed {
            if !used_edges.contains(&(folder.as_str(), target.as_str())) {
                faults.push(format!(
                    "ARCHITECTURE.md: folder {folder} of {krate} may use {target}, but does not; \
                     delete it"
                ));
            }
        }
    }
    faults.extend(circle(table));
    Ok(faults)
}

/// The folders of a table that form circles: what is left once each folder is taken away that uses
/// none of those left.
fn circle(table: &Table) -> Option<String> {
    let mut left: BTreeSet<&String> = table.rows.keys().collect();
    loop {
        let before = left.len();
        let uses_none =
            |folder: &String| !table.rows[folder].iter().any(|used| left.contains(used));
        let free: Vec<&String> = left.iter().copied().filter(|folder| uses_none(folder)).collect();
        left.retain(|folder| !free.contains(folder));
        if left.len() == before {
            break;
        }
    }
    let names: Vec<&str> = left.iter().map(|name| name.as_str()).collect();
    (!names.is_empty()).then(|| {
        let (krate, names) = (&table.krate, names.join(", "));
        format!("ARCHITECTURE.md: the table of folders of {krate} has a circle among {names}")
    })
}

/// A path from the root of the crate, and where it stands.
struct Used {
    path: Vec<String>,
    line: usize,
}

/// Collects the paths of a file that lead out of the folder of their module.
#[derive(Default)]
struct Scan {
    module: Vec<String>,
    uses: Vec<Used>,
    /// Modules in files of their own that are compiled for tests alone.
    test_modules: Vec<Vec<String>>,
}

impl Scan {
    fn walk(&mut self, tokens: &[TokenTree]) {
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            at += match token {
                TokenTree::Punct(_) if is_test_attribute(&tokens[at..]) => {
                    let item = &tokens[at + 2..];
                    if let Some(name) = module_in_file(item) {
                        let mut module = self.module.clone();
                        module.push(name);
                        self.test_modules.push(module);
                    }
                    2 + item_len(item)
                }
                TokenTree::Group(group) => {
                    self.walk(&group.stream().into_iter().collect::<Vec<_>>());
                    1
                }
                TokenTree::Ident(ident) if ident == "mod" => self.inline_module(&tokens[at..]),
                // `use<'a>` is no import.
                TokenTree::Ident(ident)
                    if ident == "use" && !tokens.get(at + 1).is_some_and(|t| is_punct(t, '<')) =>
                {
                    let len = position(&tokens[at..], |token| is_punct(token, ';'));
                    self.imports(Vec::new(), &tokens[at + 1..at + len]);
                    len
                }
                TokenTree::Ident(_) if !ends_in_path(&tokens[..at]) => {
                    let (path, len) = path(&tokens[at..]);
                    let is_crate = ["crate", "super", "self"].contains(&path[0].as_str());
                    if is_crate && path.len() > 1 {
                        self.note(path, token);
                    }
                    len
                }
                _ => 1,
            };
        }
    }

    /// Walks `mod name { … }`; returns how many tokens that took.
    fn inline_module(&mut self, tokens: &[TokenTree]) -> usize {
        let [_, TokenTree::Ident(name), TokenTree::Group(group), ..] = tokens else { return 1 };
        self.module.push(name.to_string());
        self.walk(&group.stream().into_iter().collect::<Vec<_>>());
        self.module.pop();
        3
    }

    /// Notes the paths of a tree of imports: `a::{b, c::{d, e as f}}`.
    fn imports(&mut self, prefix: Vec<String>, tokens: &[TokenTree]) {
        for tokens in tokens.split(|token| is_punct(token, ',')) {
            let (segments, len) = path(tokens);
            // Nothing, or another crate: `::a`.
            if len == 0 && !matches!(tokens, [TokenTree::Group(_)]) {
                continue;
            }
            let mut whole = prefix.clone();
            whole.extend(segments);
            match tokens.get(len) {
                Some(TokenTree::Group(group)) => {
                    self.imports(whole, &group.stream().into_iter().collect::<Vec<_>>());
                }
                _ => self.note(whole, &tokens[0]),
            }
        }
    }

    /// Resolves a path as it is written. One without `crate`, `super` or `self` leads to another
    /// crate or to a module below, and leaves no folder; in the root it may name a folder.
    fn note(&mut self, path: Vec<String>, token: &TokenTree) {
        let mut base = self.module.clone();
        let mut rest = path.as_slice();
        let is_ours = |first: &String| first == "super" || first == "self";
        if rest.first().is_some_and(|first| first == "crate") {
            base.clear();
            rest = &rest[1..];
        } else if !base.is_empty() && !rest.first().is_some_and(is_ours) {
            return;
        }
        while let Some(first) = rest.first() {
            match first.as_str() {
                "super" => drop(base.pop()),
                "self" => {}
                _ => break,
            }
            rest = &rest[1..];
        }
        if base.is_empty() {
            self.uses.push(Used { path: rest.to_vec(), line: token.span().start().line });
        }
    }
}

/// The segments of the path at the start, and how many tokens they are. `*` is a segment; a new
/// name (`as b`) is left out.
fn path(tokens: &[TokenTree]) -> (Vec<String>, usize) {
    let mut segments = Vec::new();
    let mut at = 0;
    loop {
        match tokens.get(at) {
            Some(TokenTree::Ident(ident)) => segments.push(ident.to_string()),
            Some(token) if is_punct(token, '*') => segments.push("*".to_owned()),
            _ => return (segments, at),
        }
        at += 1;
        match &tokens[at..] {
            [a, b, ..] if is_punct(a, ':') && is_punct(b, ':') => at += 2,
            _ => return (segments, at),
        }
    }
}

fn is_punct(token: &TokenTree, c: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == c)
}

/// Whether a path goes on after these tokens: `a::`, but not `a:`.
fn ends_in_path(tokens: &[TokenTree]) -> bool {
    matches!(tokens, [.., a, b] if is_punct(a, ':') && is_punct(b, ':'))
}

/// The index of the first token that fits, or the number of tokens.
fn position(tokens: &[TokenTree], fits: impl Fn(&TokenTree) -> bool) -> usize {
    tokens.iter().position(fits).unwrap_or(tokens.len())
}

/// Whether `#[cfg(test)]` or `#[cfg(all(test, …))]` stands at the start.
fn is_test_attribute(tokens: &[TokenTree]) -> bool {
    let [hash, TokenTree::Group(group), ..] = tokens else { return false };
    let text: String = group.stream().to_string().split_whitespace().collect();
    is_punct(hash, '#') && (text == "cfg(test)" || text.starts_with("cfg(all(test,"))
}

/// The name of the module at the start, if its text is in another file: `mod name;`.
fn module_in_file(item: &[TokenTree]) -> Option<String> {
    let end = position(item, |token| is_punct(token, ';'));
    match &item[..end] {
        [.., TokenTree::Ident(word), TokenTree::Ident(name)] if word == "mod" => {
            Some(name.to_string())
        }
        _ => None,
    }
}

/// How many tokens the item, field or statement at the start has, with further attributes.
fn item_len(tokens: &[TokenTree]) -> usize {
    let mut start = 0;
    while tokens.get(start).is_some_and(|token| is_punct(token, '#')) {
        start += 2;
    }
    let tail = &tokens[start.min(tokens.len())..];
    let is_import = tail.iter().take(3).any(|t| matches!(t, TokenTree::Ident(i) if i == "use"));
    let colon = position(tail, |token| is_punct(token, ':'));
    // `name: Type,` or `pub name: Type,`, but no path.
    let is_field = colon <= 3 && !tail.get(colon + 1).is_some_and(|token| is_punct(token, ':'));
    let is_body = |token: &TokenTree| match token {
        TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
        _ => false,
    };
    let is_end = |token: &TokenTree| match (is_import, is_field) {
        (true, _) => is_punct(token, ';'),
        (_, true) => is_punct(token, ','),
        _ => is_punct(token, ';') || is_body(token),
    };
    start + (position(tail, is_end) + 1).min(tail.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "text\n\n\
        | folder of `shop` | what is in it | may use |\n|---|---|---|\n\
        | `base` | units | \u{2013} |\n\
        | `stock` | goods, `base` of all | `base` |\n\
        | `till` | the counter | `base`, `stock` |\n\nmore | text\n";

    fn file(name: &str, module: &str, text: &str) -> SourceFile {
        let module = module.split("::").filter(|part| !part.is_empty()).map(str::to_owned);
        SourceFile { name: name.to_owned(), module: module.collect(), text: text.to_owned() }
    }

    /// The faults of a crate that holds to its table, but for the text of `stock/shelf.rs`.
    fn faults_of(shelf: &str) -> Vec<String> {
        let files = [
            file("lib.rs", "", "mod base; mod stock; mod till; pub use till::Coin;"),
            file("base.rs", "base", "pub struct Unit;"),
            file("stock/mod.rs", "stock", "mod shelf; use crate::base::Unit;"),
            file("stock/shelf.rs", "stock::shelf", shelf),
            file("till.rs", "till", "use crate::{base::Unit, stock::{self, Shelf as S}};"),
        ];
        check(&tables(PAGE)[0], &files).unwrap()
    }

    #[test]
    fn a_crate_that_holds_to_its_table_has_no_fault() {
        assert_eq!(faults_of(""), Vec::<String>::new());
        for other in [
            "use super::Other; use super::super::base::Unit; use self::till::A; use till::B;",
            "// use crate::till::A;\nconst A: &str = \"crate::till::A\"; /* crate::till::A */",
            "#[cfg(test)] mod tests { use crate::till::A; fn f() {} } fn g() {}",
            "#[cfg(test)] use crate::till::{A, B}; #[cfg(test)] fn f() { crate::till::g() }",
            "pub(crate) fn a<'a>(x: &'a str) -> char { 'c' } use ::till::A; fn b(x: ::till::A) {}",
            "struct A { #[cfg(test)] a: crate::till::Coin, b: u8 }",
        ] {
            assert_eq!(faults_of(other), Vec::<String>::new(), "{other}");
        }
    }

    #[test]
    fn an_edge_that_is_not_in_the_table_is_found_with_its_line() {
        for (planted, line) in [
            ("use crate::till::Coin;", 1),
            ("\n\nuse crate::{base::Unit, till::{b::{C as D}}};", 3),
            ("fn f() {\n    g(&crate::till::pay(), 1);\n}", 2),
            ("\nuse super::super::till;", 2),
            ("mod inner { use super::super::super::till::Coin; }", 1),
            ("fn f() { format!(\"{}\",\n crate::till::Coin) }", 2),
            ("use crate::Coin;", 1),
            ("#[cfg(test)] struct A { a: u8 }\n#[cfg(test)] #[b] struct C;\nuse crate::till;", 3),
            ("struct A {\n#[cfg(test)] a: u8,\nb: crate::till::Coin }", 3),
        ] {
            let faults = faults_of(planted);
            assert_eq!(faults.len(), 1, "{planted}: {faults:?}");
            let start =
                format!("crates/shop/src/stock/shelf.rs:{line}: folder stock must not use till (");
            assert!(faults[0].starts_with(&start), "{planted}: {faults:?}");
        }
    }

    #[test]
    fn a_name_of_the_root_that_is_in_no_folder_is_found() {
        assert!(faults_of("use crate::helper;")[0].contains("crate::helper is in no folder"));
    }

    #[test]
    fn rows_that_differ_from_the_folders_are_found() {
        let files = [
            file("base.rs", "base", ""),
            file("stock.rs", "stock", "use crate::base::Unit;"),
            file("cellar.rs", "cellar", ""),
            file("lib.rs", "", "#[cfg(test)] mod keeper;"),
            file("keeper.rs", "keeper", "use crate::stock::A;"),
        ];
        let faults = check(&tables(PAGE)[0], &files).unwrap();
        let expected = [
            "has no row for cellar",
            "names till, which is not there",
            "folder till of shop may use base, but does not",
            "folder till of shop may use stock, but does not",
        ];
        assert_eq!(faults.len(), expected.len(), "{faults:?}");
        for (fault, expected) in faults.iter().zip(expected) {
            assert!(fault.contains(expected), "{fault}");
        }
    }

    #[test]
    fn a_circle_in_the_table_is_found() {
        let page = PAGE.replace("units | \u{2013}", "units | `till`");
        let faults = circle(&tables(&page)[0]);
        assert!(faults.is_some_and(|fault| fault.ends_with("circle among base, stock, till")));
    }
}
