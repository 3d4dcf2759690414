//! Matches files by patterns: `/var/log/*.log`, `/srv/**/log/*.{log,txt}`.
//!
//! A pattern is matched name by name on the way down from its first directory, so only directories
//! that can lead to a match are read. `*`, `?` (a byte), `[…]` and `{…,…}` match within a name,
//! `**` matches any number of directories. As in a shell, a name that begins with a dot is matched
//! only by a pattern that writes the dot.
//!
//! Symbolic links to files are followed, and links to directories that a pattern names; below `**`
//! links to directories are not followed, so that a walk ends. Left out: compressed files (see
//! [`is_compressed`]), unless the pattern names them.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};

use super::FileError;

/// Directory entries that one search reads. Files beyond this are not found, which is reported.
const ENTRIES_MAX: usize = 1_000_000;
/// How many directory levels `**` descends.
const DEPTH_MAX: usize = 64;
/// Bytes of a pattern, the same as of a path; a longer pattern is refused.
const PATTERN_BYTES_MAX: usize = 4_096;
/// Nesting depth of `{…}`. The library accepts any depth and recurses as deep; deeper patterns are
/// refused.
const BRACES_MAX: usize = 10;
/// How many `**` a pattern may have; more are refused, because each is tried at every directory.
const BELOW_MAX: usize = 4;
/// Endings of compressed files: their lines were followed already, before compression.
const COMPRESSED: [&str; 7] = [".gz", ".zst", ".xz", ".bz2", ".lz4", ".zip", ".br"];

/// A pattern for paths of files.
#[derive(Clone, Debug)]
pub struct Pattern {
    text: String,
    parts: Vec<Part>,
    names_compressed: bool,
}

#[derive(Clone, Debug)]
enum Part {
    /// Exactly this name.
    Name(OsString),
    /// A name that matches this glob.
    Like { names: GlobMatcher, hidden: bool },
    /// Any number of directories.
    Below,
}

impl Part {
    fn matches(&self, name: &OsStr) -> bool {
        match self {
            Part::Name(own) => own == name,
            Part::Like { names, hidden } => {
                (*hidden || name.as_encoded_bytes().first() != Some(&b'.')) && names.is_match(name)
            }
            Part::Below => name.as_encoded_bytes().first() != Some(&b'.'),
        }
    }
}

/// Whether the name is that of a compressed file, as log rotation leaves them.
pub fn is_compressed(name: &str) -> bool {
    COMPRESSED.iter().any(|suffix| name.ends_with(suffix))
}

impl Pattern {
    /// Parses a pattern for absolute paths.
    ///
    /// # Errors
    /// When the pattern is invalid; the error says why.
    pub fn parse(text: &str) -> Result<Pattern, FileError> {
        let error = |why: String| FileError::Pattern { pattern: text.to_owned(), why };
        check_bounds(text).map_err(&error)?;
        if !text.starts_with('/') {
            return Err(error("it must begin with '/'".into()));
        }
        let mut parts = Vec::new();
        for name in text.split('/').filter(|name| !name.is_empty() && *name != ".") {
            if name == ".." {
                return Err(error("'..' is not allowed; name the directory itself".into()));
            }
            parts.push(part(name).map_err(&error)?);
        }
        match parts.last() {
            None => return Err(error("it names no file".into())),
            Some(Part::Below) => parts.push(part("*").expect("a pattern")),
            Some(_) => {}
        }
        if text.ends_with('/') {
            return Err(error("it names a directory; write /* or /**/*.log behind it".into()));
        }
        let names_compressed = is_compressed(text);
        Ok(Pattern { text: text.to_owned(), parts, names_compressed })
    }

    /// The pattern as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the pattern matches a path.
    pub fn matches(&self, path: &Path) -> bool {
        let names: Vec<&OsStr> = path
            .components()
            .filter_map(|c| match c {
                Component::Normal(name) => Some(name),
                _ => None,
            })
            .collect();
        fits(&self.parts, &names) && self.takes(path)
    }

    /// Adds the matching files to `found`.
    pub fn find(&self, found: &mut FoundFiles) {
        self.walk(Path::new("/"), &self.parts, 0, found);
    }

    fn takes(&self, path: &Path) -> bool {
        self.names_compressed || !path.to_str().is_some_and(is_compressed)
    }

    fn walk(&self, dir: &Path, parts: &[Part], depth: usize, found: &mut FoundFiles) {
        let Some((first, rest)) = parts.split_first() else { return };
        match first {
            Part::Name(name) if rest.is_empty() => {
                let path = dir.join(name);
                if self.takes(&path) && fs::metadata(&path).is_ok_and(|m| m.is_file()) {
                    found.files.insert(path);
                }
                found.directories.insert(dir.to_owned());
            }
            Part::Name(name) => self.walk(&dir.join(name), rest, depth, found),
            Part::Like { .. } => {
                for entry in found.entries(dir) {
                    let path = entry.path();
                    if !first.matches(&entry.file_name()) {
                        continue;
                    }
                    let kind = entry.file_type();
                    let is_link = kind.as_ref().is_ok_and(|kind| kind.is_symlink());
                    let is = |wanted: fn(&fs::FileType) -> bool| match is_link {
                        true => fs::metadata(&path).is_ok_and(|m| wanted(&m.file_type())),
                        false => kind.as_ref().is_ok_and(wanted),
                    };
                    if !rest.is_empty() {
                        if is(fs::FileType::is_dir) {
                            self.walk(&path, rest, depth, found);
                        }
                    } else if self.takes(&path) && is(fs::FileType::is_file) {
                        found.files.insert(path);
                    }
                }
            }
            Part::Below => {
                self.walk(dir, rest, depth, found);
                if depth == DEPTH_MAX {
                    return found
                        .error(dir, "the directories are nested too deeply to be searched");
                }
                for entry in found.entries(dir) {
                    if entry.file_type().is_ok_and(|kind| kind.is_dir())
                        && first.matches(&entry.file_name())
                    {
                        self.walk(&entry.path(), parts, depth + 1, found);
                    }
                }
            }
        }
    }
}

fn check_bounds(text: &str) -> Result<(), String> {
    if text.len() > PATTERN_BYTES_MAX {
        return Err(format!("it is longer than {PATTERN_BYTES_MAX} bytes"));
    }
    let mut depth = 0usize;
    for byte in text.bytes() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth > BRACES_MAX {
            return Err(format!("more than {BRACES_MAX} {{…}} are nested"));
        }
    }
    if text.split('/').filter(|name| *name == "**").count() > BELOW_MAX {
        return Err(format!("it has more than {BELOW_MAX} '**'; write several patterns"));
    }
    Ok(())
}

fn part(name: &str) -> Result<Part, String> {
    if name == "**" {
        return Ok(Part::Below);
    }
    if name.contains("**") {
        return Err("'**' must stand alone between two '/'".into());
    }
    if !name.contains(['*', '?', '[', '{', '\\']) {
        return Ok(Part::Name(name.into()));
    }
    let glob = GlobBuilder::new(name).literal_separator(true).backslash_escape(true).build();
    let glob = glob.map_err(|error| format!("'{name}': {}", error.kind()))?;
    Ok(Part::Like { names: glob.compile_matcher(), hidden: name.starts_with('.') })
}

fn fits(parts: &[Part], names: &[&OsStr]) -> bool {
    match (parts.split_first(), names.split_first()) {
        (None, None) => true,
        (Some((Part::Below, rest)), None) => fits(rest, names),
        (Some((below @ Part::Below, rest)), Some((name, further))) => {
            fits(rest, names) || (below.matches(name) && fits(parts, further))
        }
        (Some((part, rest)), Some((name, further))) => part.matches(name) && fits(rest, further),
        _ => false,
    }
}

/// The result of a search.
#[derive(Debug, Default)]
pub struct FoundFiles {
    /// The files, in order.
    pub files: BTreeSet<PathBuf>,
    /// Directories in which a matching file could appear.
    pub directories: BTreeSet<PathBuf>,
    /// Directories that could not be read, and why.
    pub errors: Vec<(PathBuf, String)>,
    entries: usize,
}

impl FoundFiles {
    /// The entries of a directory. A missing directory has none; an unreadable one is recorded as
    /// an error.
    fn entries(&mut self, dir: &Path) -> Vec<fs::DirEntry> {
        let left = ENTRIES_MAX - self.entries;
        let entries: io::Result<Vec<fs::DirEntry>> =
            fs::read_dir(dir).and_then(|entries| entries.take(left).collect());
        match entries {
            Ok(entries) => {
                self.entries += entries.len();
                self.directories.insert(dir.to_owned());
                if entries.len() == left {
                    self.error(dir, "there are more files and directories than one search reads");
                }
                entries
            }
            // It may be created later.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => Vec::new(),
            Err(error) => {
                self.error(dir, &error.to_string());
                Vec::new()
            }
        }
    }

    fn error(&mut self, dir: &Path, why: &str) {
        self.errors.push((dir.to_owned(), why.to_owned()));
    }
}

/// Patterns of excluded files: for whole paths or, without a `/`, for names.
#[derive(Clone, Debug)]
pub enum Exclude {
    /// Matches whole paths.
    Path(Pattern),
    /// Matches names of files in any directory.
    Name(GlobMatcher),
}

impl Exclude {
    /// Parses an exclusion pattern.
    ///
    /// # Errors
    /// As [`Pattern::parse`].
    pub fn parse(text: &str) -> Result<Exclude, FileError> {
        if text.contains('/') {
            return Pattern::parse(text).map(Exclude::Path);
        }
        check_bounds(text).map_err(|why| FileError::Pattern { pattern: text.to_owned(), why })?;
        let glob = GlobBuilder::new(text).backslash_escape(true).build();
        let glob = glob.map_err(|error| FileError::Pattern {
            pattern: text.to_owned(),
            why: error.kind().to_string(),
        });
        Ok(Exclude::Name(glob?.compile_matcher()))
    }

    /// Whether the path is excluded.
    pub fn matches(&self, path: &Path) -> bool {
        match self {
            Exclude::Path(pattern) => pattern.matches(path),
            Exclude::Name(names) => path.file_name().is_some_and(|name| names.is_match(name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TREE: [&str; 12] = [
        "a.log",
        "b.log",
        "b.log.1",
        "b.log.2.gz",
        ".hidden.log",
        "x/a.log",
        "x/y/a.log",
        "x/y/z/deep.txt",
        "x/.git/a.log",
        "we[ird].log",
        "ä.log",
        "new\nline.log",
    ];

    fn check(pattern: &str, expected: &[&str]) {
        let dir = tempfile::tempdir().unwrap();
        for file in TREE {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        std::os::unix::fs::symlink(dir.path().join("x"), dir.path().join("link")).unwrap();
        std::os::unix::fs::symlink(dir.path().join("a.log"), dir.path().join("alias.log")).unwrap();
        std::os::unix::fs::symlink(dir.path(), dir.path().join("x/round")).unwrap();
        let pattern = Pattern::parse(&format!("{}/{pattern}", dir.path().display())).unwrap();
        let mut found = FoundFiles::default();
        pattern.find(&mut found);
        let relative =
            |path: &PathBuf| path.strip_prefix(dir.path()).unwrap().to_str().unwrap().to_owned();
        let names: Vec<String> = found.files.iter().map(relative).collect();
        assert_eq!(names, expected, "{}", pattern.text());
        assert_eq!(found.errors, []);
        // `find` and `matches` agree (except behind links).
        assert!(found.files.iter().all(|path| pattern.matches(path)));
        for file in TREE.iter().filter(|file| !expected.contains(file)) {
            assert!(!pattern.matches(&dir.path().join(file)), "{} {file}", pattern.text());
        }
    }

    #[test]
    fn patterns_are_bounded() {
        let nested = |n: usize| format!("{}b{}", "{a,".repeat(n), "}".repeat(n));
        let below = |n: usize| format!("/{}x", "**/".repeat(n));
        for (pattern, taken) in [
            (format!("/{}", nested(BRACES_MAX)), true),
            (format!("/{}", nested(BRACES_MAX + 1)), false),
            (format!("/{}", nested(1_000)), false),
            (format!("/{}", nested(100_000)), false),
            (below(BELOW_MAX), true),
            (below(BELOW_MAX + 1), false),
            (format!("/{}", "a".repeat(PATTERN_BYTES_MAX - 1)), true),
            (format!("/{}", "a".repeat(PATTERN_BYTES_MAX)), false),
        ] {
            assert_eq!(Pattern::parse(&pattern).is_ok(), taken, "{pattern:.60}");
        }
        assert!(Exclude::parse(&nested(BRACES_MAX)).is_ok());
        assert!(Exclude::parse(&nested(100_000)).is_err());
    }

    #[test]
    fn patterns_find_matching_files() {
        check("a.log", &["a.log"]);
        check("b.log*", &["b.log", "b.log.1"]);
        check("*.gz", &["b.log.2.gz"]);
        check("b.log.2.gz", &["b.log.2.gz"]);
        check(".h*.log", &[".hidden.log"]);
        check("?.log", &["a.log", "b.log"]);
        check("??.log", &["ä.log"]);
        check("[ab].log", &["a.log", "b.log"]);
        check("{a,b}.log", &["a.log", "b.log"]);
        check("we\\[ird\\].log", &["we[ird].log"]);
        check("new*.log", &["new\nline.log"]);
        check("al*.log", &["alias.log"]);
        check("link/*.log", &["link/a.log"]);
        check("*/a.log", &["link/a.log", "x/a.log"]);
        check("x/**/a.log", &["x/a.log", "x/y/a.log"]);
        check("x/**", &["x/a.log", "x/y/a.log", "x/y/z/deep.txt"]);
        check("**/deep.txt", &["x/y/z/deep.txt"]);
        check("none/*.log", &[]);
        check("a.log/*.log", &[]);
    }

    #[test]
    fn invalid_patterns_are_errors() {
        for (text, expected) in [
            ("var/log/*.log", "must begin with '/'"),
            ("/", "names no file"),
            ("/var/log/", "names a directory"),
            ("/var/../x", "'..' is not allowed"),
            ("/var/a**b/x", "'**' must stand alone"),
            ("/var/[x", "'[x': unclosed character class"),
            ("/var/{a,b/c}.log", "'{a,b': unclosed alternate"),
        ] {
            let error = Pattern::parse(text).unwrap_err().to_string();
            assert!(error.contains(expected) && error.contains(text), "{error}");
        }
    }

    #[test]
    fn exclusions_match_names_and_paths() {
        let check =
            |exclude: &str, path: &str| Exclude::parse(exclude).unwrap().matches(Path::new(path));
        assert!(check("*.1", "/var/log/x.1") && check("/var/**/x.1", "/var/log/x.1"));
        assert!(!check("*.1", "/var/log/x.2") && !check("/srv/*", "/var/log/x.1"));
    }
}
