//! A program as its file defines it: settings in comments at the head, then AWK or a query in
//! LogsQL.
//!
//! ```awk
//! # Lines and bytes of each class of HTTP status.
//! # type: access
//! # bucket: 10s
//! # fields: status bytes
//! NR == 1 { next }                        # the names of the columns
//! { class = substr($1, 1, 1) "xx"; lines[class]++; bytes[class] += $2 }
//! END { for (c in lines) print "class=" c, "lines=" lines[c], "bytes=" bytes[c] }
//! ```
//!
//! | setting | value | if absent |
//! |---|---|---|
//! | `type` | a type of lines | every type that the filter lets through |
//! | `filter` | a filter in LogsQL; the caller parses it | every line of the type |
//! | `bucket` | width of a bucket, `1s` to `1h`; it divides an hour | `10s` |
//! | `fields` | names between blanks: columns instead of the raw line | the raw line |
//! | `timeout` | waiting for the program, `100ms` to `10m` | the limit of the caller |
//! | `gawk-sandbox` | `off`: run gawk without `--sandbox`, for example to print to `/dev/stderr` | `on` |
//!
//! One of `type` and `filter` is required in AWK. A query selects lines itself: it may have `type`
//! and `bucket`, and no other setting.

use std::path::Path;
use std::time::Duration;

use text::duration::parse_setting;
use thiserror::Error;

use crate::block::Input;

use crate::header::{Setting, settings};

/// A longer program is refused: it goes to the interpreter as one argument, and the system allows
/// 128 KiB for one.
///
/// limits.md, Programs of users: a program | {}, {FIELDS_MAX} fields | it is refused, with the
/// number of the line
pub const PROGRAM_BYTES_MAX: usize = 64 << 10;
/// Files of a folder that are read; further ones are refused.
///
/// limits.md, Programs of users: programs of a folder | {} | further ones are refused
const PROGRAMS_MAX: usize = 1000;
/// Fields that a program may name.
const FIELDS_MAX: usize = 64;
const QUERY_KEYS: [&str; 2] = ["type", "bucket"];
const KEYS: &str = "type, filter, bucket, fields, timeout, gawk-sandbox";
/// Parts of addresses of the API where a name would stand.
const NAMES_TAKEN: [&str; 3] = ["examples", "reload", "test"];
const WIDTH_DEFAULT_S: u32 = 10;

/// What a program is written in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    /// AWK; a process runs it.
    Awk,
    /// A query in LogsQL; the caller parses and runs it.
    LogsQl,
}

/// A name is not that of a language.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("there is no language '{0}' for programs; there are 'awk' and 'logsql'")]
pub struct NoLanguage(String);

impl Language {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Awk, Self::LogsQl];

    /// Its name, which is also the extension of its files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Awk => "awk",
            Self::LogsQl => "logsql",
        }
    }

    /// The language with this name.
    pub fn named(name: &str) -> Result<Self, NoLanguage> {
        let found = Self::ALL.into_iter().find(|language| language.name() == name);
        found.ok_or_else(|| NoLanguage(name.to_owned()))
    }
}

/// A program with its settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Definition {
    /// Name of the program; that of its file without the extension.
    pub name: String,
    /// What it is written in.
    pub language: Language,
    /// Type of the lines.
    pub log_type: Option<String>,
    /// Filter in LogsQL.
    pub filter: Option<String>,
    /// Width of its buckets in seconds: the program runs once for each bucket that has lines.
    pub width_s: u32,
    /// What it reads of each line.
    pub input: Input,
    /// Waiting for the program, if it says how long.
    pub timeout: Option<Duration>,
    /// Whether gawk runs with `--sandbox`.
    pub has_gawk_sandbox: bool,
    /// The whole text, settings included, so that numbers of lines in errors are those of the file.
    pub text: String,
}

/// Why a text defines no program.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{name}, line {line}: {problem}")]
pub struct DefinitionError {
    /// The program.
    pub name: String,
    /// Number of the line, from 1.
    pub line: usize,
    /// What is wrong, and what would be right.
    pub problem: String,
}

impl Definition {
    /// Reads a program in AWK from its text.
    pub fn parse(name: &str, text: &str) -> Result<Self, DefinitionError> {
        Self::parse_as(name, Language::Awk, text)
    }

    /// Reads a program from its text. Of a query, only the settings are read.
    pub fn parse_as(name: &str, language: Language, text: &str) -> Result<Self, DefinitionError> {
        let error =
            |line: usize, problem: String| DefinitionError { name: name.to_owned(), line, problem };
        check_name(name).map_err(|problem| error(1, problem))?;
        if text.len() > PROGRAM_BYTES_MAX {
            let problem = format!("the program is longer than {PROGRAM_BYTES_MAX} bytes; split it");
            return Err(error(1, problem));
        }
        if let Some(at) = text.find('\0') {
            let line = text[..at].matches('\n').count() + 1;
            return Err(error(line, "there is a NUL byte; a program is text".to_owned()));
        }
        let mut draft = Draft::default();
        for setting in settings(text) {
            if language == Language::LogsQl && !QUERY_KEYS.contains(&setting.key) {
                let problem = format!(
                    "`{}` is no setting of a query; there are {}",
                    setting.key,
                    QUERY_KEYS.join(", ")
                );
                return Err(error(setting.line, problem));
            }
            draft.apply(&setting).map_err(|problem| error(setting.line, problem))?;
        }
        if language == Language::Awk && draft.log_type.is_none() && draft.filter.is_none() {
            let problem = "the program does not say which lines it is for; add a comment such as \
                           `# type: access` or `# filter: _level:error`";
            return Err(error(1, problem.to_owned()));
        }
        if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
            let line = text.lines().count().max(1);
            let what = match language {
                Language::Awk => "AWK",
                Language::LogsQl => "query",
            };
            return Err(error(line, format!("there is no {what} behind the comments")));
        }
        Ok(Self {
            name: name.to_owned(),
            language,
            log_type: draft.log_type,
            filter: draft.filter,
            width_s: draft.width_s.unwrap_or(WIDTH_DEFAULT_S),
            input: draft.fields.map_or(Input::Raw, Input::Fields),
            timeout: draft.timeout,
            has_gawk_sandbox: !draft.is_gawk_sandbox_off,
            text: text.to_owned(),
        })
    }

    /// The text behind the settings, with empty lines in their place: numbers of lines are those of
    /// the file.
    pub fn code(&self) -> String {
        let mut is_head = true;
        let lines = self.text.lines().map(|line| {
            is_head &= line.trim().is_empty() || line.trim_start().starts_with('#');
            if is_head { "" } else { line }
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    /// What is probably a mistake, though the program can run.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        if self.language != Language::Awk {
            return warnings;
        }
        let mut warn = |text: &str| warnings.push(text.to_owned());
        if !self.text.contains("END") {
            warn("a program per bucket usually prints its rows in END; this one has no END");
        }
        if self.text.contains("system(") || self.text.contains("| \"") {
            warn("commands (system, pipes to sort and the like) cannot run behind the sandbox");
        }
        if let (Input::Fields(_), false) = (&self.input, self.text.contains("NR")) {
            warn("the first line names the columns; skip it with NR == 1 { next }");
        }
        warnings
    }
}

/// Extension of programs in a language that Loginson does not run any more. Their files are shown
/// as invalid, because a program that is passed over would end without a word to its owner.
const VRL: &str = "vrl";

/// A program as it was found in a folder.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// Its name.
    pub name: String,
    /// Extension of its file: the name of its language, or `vrl`, which is none any more.
    pub extension: &'static str,
    /// The text of the file; empty if it cannot be read.
    pub text: String,
    /// The program, or why it is none.
    pub definition: Result<Definition, DefinitionError>,
}

impl Loaded {
    /// Reads a file `NAME.awk` or `NAME.logsql`; `None` if it has another name.
    pub fn read(path: &Path) -> Option<Self> {
        extension(path)?;
        Self::of(path, &path.display().to_string(), read_bounded(path))
    }

    /// The program of a file with this name and text. `place` says where the file is.
    fn of(name: &Path, place: &str, read: std::io::Result<Vec<u8>>) -> Option<Self> {
        let extension = extension(name)?;
        let name = name.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let no_text = |_| std::io::Error::other("it is not UTF-8 text");
        let read = read.and_then(|bytes| String::from_utf8(bytes).map_err(no_text));
        let refused = |problem| DefinitionError { name: name.clone(), line: 1, problem };
        let definition = match (&read, Language::named(extension)) {
            (Ok(text), Ok(language)) => Definition::parse_as(&name, language, text),
            (Ok(_), Err(error)) => Err(refused(error.to_string())),
            (Err(error), _) => Err(refused(format!("{place} cannot be read: {error}"))),
        };
        Some(Self { name, extension, text: read.unwrap_or_default(), definition })
    }
}

/// The extension of a file that is a program, or was one.
fn extension(file: &Path) -> Option<&'static str> {
    let own = file.extension()?;
    let mut names = Language::ALL.into_iter().map(Language::name).chain([VRL]);
    names.find(|name| own == *name)
}

/// The programs of files, which are sorted by their names, each with its bytes, at most one more
/// than [`PROGRAM_BYTES_MAX`]. Files with other names than those of programs are passed over.
/// `place` is where they are, for people.
pub fn load_files(
    place: &str,
    files: impl IntoIterator<Item = (String, std::io::Result<Vec<u8>>)>,
) -> Vec<Loaded> {
    let mut programs: Vec<Loaded> = Vec::new();
    for (file, read) in files {
        let Some(mut loaded) = Loaded::of(Path::new(&file), &format!("{place}/{file}"), read)
        else {
            continue;
        };
        let refuse = |problem| DefinitionError { name: loaded.name.clone(), line: 1, problem };
        if programs.len() >= PROGRAMS_MAX {
            let problem =
                format!("{place} has more than {PROGRAMS_MAX} programs; this one is not run");
            loaded.definition = Err(refuse(problem));
        } else if programs.last().is_some_and(|last| last.name == loaded.name) {
            let problem = format!("{place} has two programs of this name; rename one");
            loaded.definition = Err(refuse(problem));
        }
        programs.push(loaded);
    }
    programs
}

/// The bytes of a file, at most one more than a program may have.
fn read_bounded(path: &Path) -> std::io::Result<Vec<u8>> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path)?;
    file.take(PROGRAM_BYTES_MAX as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn check_name(name: &str) -> Result<(), String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if NAMES_TAKEN.contains(&name) {
        return Err(format!("the name `{name}` is taken by the API; choose another one"));
    }
    if name.is_empty() || name.len() > 64 || name.starts_with('.') || !name.chars().all(is_allowed)
    {
        return Err(
            "the name of a program has 1 to 64 letters, digits, `-`, `_` and `.`".to_owned()
        );
    }
    Ok(())
}

/// Settings as they are read; numbers of lines where a later check needs them.
#[derive(Default)]
struct Draft<'a> {
    seen: Vec<&'a str>,
    log_type: Option<String>,
    filter: Option<String>,
    width_s: Option<u32>,
    fields: Option<Vec<String>>,
    timeout: Option<Duration>,
    is_gawk_sandbox_off: bool,
}

impl<'a> Draft<'a> {
    fn apply(&mut self, setting: &Setting<'a>) -> Result<(), String> {
        let Setting { key, value, .. } = *setting;
        if self.seen.contains(&key) {
            return Err(format!("`{key}` is set twice; keep one"));
        }
        self.seen.push(key);
        if value.is_empty() {
            return Err(format!("`{key}` has no value"));
        }
        match key {
            "type" if value.contains(char::is_whitespace) => {
                return Err(format!(
                    "`{value}` is no type: a program is for one type, without blanks"
                ));
            }
            "type" => self.log_type = Some(value.to_owned()),
            "filter" => self.filter = Some(value.to_owned()),
            // Files that were written when there was a choice.
            "mode" if value == "bucket" => {}
            "mode" => {
                return Err(format!(
                    "there is no mode `{value}`: a program runs once for each bucket; remove `mode`, \
                     choose a width such as `# bucket: 10s`, and print the rows in END"
                ));
            }
            "bucket" => self.width_s = Some(bucket(value)?),
            "fields" => self.fields = Some(fields(value)?),
            "timeout" => self.timeout = Some(timeout(value)?),
            "gawk-sandbox" => self.is_gawk_sandbox_off = !switch(value)?,
            _ => {
                return Err(format!(
                    "`{key}` is no setting; there are {KEYS}. Begin a comment for readers with a \
                     capital letter"
                ));
            }
        }
        Ok(())
    }
}

fn switch(value: &str) -> Result<bool, String> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("`{value}` is neither `on` nor `off`")),
    }
}

fn bucket(value: &str) -> Result<u32, String> {
    let width = parse_setting(value).ok().filter(|w| w.subsec_nanos() == 0).map(|w| w.as_secs());
    match width {
        Some(width @ 1..=3600) if 3600 % width == 0 => Ok(width as u32),
        _ => Err(format!(
            "`{value}` is no width of a bucket; write 1s to 1h that divides an hour, such as 10s or 5m"
        )),
    }
}

fn timeout(value: &str) -> Result<Duration, String> {
    let range = Duration::from_millis(100)..=Duration::from_secs(600);
    parse_setting(value)
        .ok()
        .filter(|timeout| range.contains(timeout))
        .ok_or_else(|| format!("`{value}` is no timeout; write 100ms to 10m, such as 5s"))
}

fn fields(value: &str) -> Result<Vec<String>, String> {
    let names: Vec<String> = value
        .split(|c: char| c.is_whitespace() || c == ',')
        .filter(|n| !n.is_empty())
        .map(str::to_owned)
        .collect();
    if let Some(twice) = names.iter().enumerate().find(|(i, name)| names[..*i].contains(name)) {
        return Err(format!("the field `{}` is named twice", twice.1));
    }
    if names.is_empty() {
        return Err("`fields` names no field; write names between blanks".to_owned());
    }
    if names.len() > FIELDS_MAX {
        return Err(format!("there are {} fields; at most {FIELDS_MAX} can be named", names.len()));
    }
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_error(text: &str, line: usize, part: &str) {
        let error = Definition::parse("p", text).expect_err(text);
        assert_eq!(error.line, line, "{text:?}: {error}");
        assert!(error.problem.contains(part), "{text:?}: {error}");
    }

    #[test]
    fn all_settings_are_read() {
        let text = "# Counts.\n# type: access\n# filter: _level:error or x:y\n# bucket: 1m\n\
                    # fields: status bytes, path\n# timeout: 500ms\n# gawk-sandbox: off\nEND { print NR }\n";
        let program = Definition::parse("web-1", text).unwrap();
        assert_eq!(program.log_type.as_deref(), Some("access"));
        assert_eq!(program.filter.as_deref(), Some("_level:error or x:y"));
        assert_eq!(program.width_s, 60);
        assert_eq!(
            program.input,
            Input::Fields(["status", "bytes", "path"].map(String::from).to_vec())
        );
        assert_eq!(program.timeout, Some(Duration::from_millis(500)));
        assert!(!program.has_gawk_sandbox);
        assert_eq!(program.text, text);
        assert_eq!(program.warnings(), Vec::<String>::new());
    }

    #[test]
    fn absent_settings_have_defaults() {
        let program = Definition::parse("p", "# type: x\nEND { print NR }").unwrap();
        assert_eq!((program.width_s, program.input), (10, Input::Raw));
        assert_eq!((program.timeout, program.has_gawk_sandbox), (None, true));
        assert!(Definition::parse("p", "# type: x\n# mode: bucket\nEND { print NR }").is_ok());
    }

    #[test]
    fn mistakes_name_line_and_remedy() {
        check_error("{ n++ }", 1, "# type: access");
        check_error("# type: a\n# typ: b\n{}", 2, "there are type, filter");
        check_error("# type: a\n\n# type: b\n{}", 3, "set twice");
        check_error("# type: a b\n{}", 1, "one type");
        check_error("# type:\n{}", 1, "no value");
        check_error("# type: a\n# bucket: 7s\n{}", 2, "divides an hour");
        check_error("# type: a\n# bucket: 2h\n{}", 2, "1s to 1h");
        check_error("# type: a\n# bucket: 1500ms\n{}", 2, "1s to 1h");
        check_error("# type: a\n# mode: stream\n{}", 2, "there is no mode `stream`");
        check_error("# type: a\n# bucket: 10s\n# mode: stream\n{}", 3, "once for each bucket");
        check_error("# type: a\n# timeout: 5\n{}", 2, "such as 5s");
        check_error("# type: a\n# timeout: 50ms\n{}", 2, "100ms to 10m");
        check_error("# type: a\n# fields: a b a\n{}", 2, "named twice");
        check_error("# type: a\n# fields: ,\n{}", 2, "names no field");
        check_error("# type: a\n# gawk-sandbox: no\n{}", 2, "`on` nor `off`");
        check_error("# type: a\n# More text.\n", 2, "no AWK");
        check_error("# type: a\n{ x = \"\0\" }", 2, "NUL");
        check_error(
            &format!("# type: a\n{{}} #{}", "x".repeat(PROGRAM_BYTES_MAX)),
            1,
            "longer than",
        );
        assert!(Definition::parse("a/b", "# type: a\n{}").is_err());
        assert!(Definition::parse("", "# type: a\n{}").is_err());
    }

    #[test]
    fn a_query_has_few_settings() {
        let text = "# Counts.\n# type: access\n# bucket: 1m\n\n* | stats count() n\n";
        let query = Definition::parse_as("q", Language::LogsQl, text).unwrap();
        assert_eq!(query.width_s, 60);
        assert_eq!(query.code(), "\n\n\n\n* | stats count() n");
        let bare = Definition::parse_as("q", Language::LogsQl, "* | stats count()").unwrap();
        assert_eq!((bare.log_type, bare.language.name()), (None, "logsql"));
        let error = Definition::parse_as("q", Language::LogsQl, "# fields: a\n*").unwrap_err();
        assert!(error.problem.contains("there are type, bucket"), "{error}");
        let error = Definition::parse_as("q", Language::LogsQl, "# Only text\n").unwrap_err();
        assert!(error.problem.contains("no query"), "{error}");
    }

    #[test]
    fn probable_mistakes_are_warnings() {
        let warnings = |text| Definition::parse("p", text).unwrap().warnings().join("; ");
        assert!(warnings("# type: a\n{ n++ }").contains("END"));
        assert!(warnings("# type: a\nEND { print n | \"sort\" }").contains("sandbox"));
        assert!(warnings("# type: a\n# fields: b\nEND { print n }").contains("NR == 1"));
    }

    #[test]
    fn a_folder_gives_all_its_programs() {
        let files: [(&str, &[u8]); 6] = [
            ("a.awk", b"{ n++ }"),
            ("b.awk", b"# type: x\n{ n++ }"),
            ("b.logsql", b"* | stats count()"),
            ("c.awk", b"# type: x\n\xff"),
            ("d.vrl", b"# type: x\n.n = 1"),
            ("notes.txt", b"x"),
        ];
        let files = files.map(|(name, bytes)| (name.to_owned(), Ok(bytes.to_vec())));
        let programs = load_files("programs", files);
        let problem = |i: usize| programs[i].definition.as_ref().unwrap_err().to_string();
        assert!(problem(0).starts_with("a, line 1"), "{}", problem(0));
        assert_eq!(programs[1].definition.as_ref().unwrap().name, "b");
        assert!(problem(2).contains("two programs of this name"), "{}", problem(2));
        assert!(problem(3).contains("not UTF-8"), "{}", problem(3));
        assert!(problem(4).contains("no language 'vrl'"), "{}", problem(4));
        assert!(problem(4).contains("there are 'awk' and 'logsql'"), "{}", problem(4));
        assert_eq!((programs.len(), programs[4].extension), (5, "vrl"));
    }
}
