//! `programs_dir`, `[awk]` and `[[programs]]`: programs of users.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use programs::{BUILTIN, Builtin, Definition, Language, Limits, Loaded};
use serde::{Deserialize, Serialize};

use crate::config::{bytes, duration};
use node::data_dir::PROGRAMS_FOLDER;
use node::programs::compiled::Compiled;
use node::programs::stage::ProgramOptions;

/// Least memory of a process: an interpreter and its libraries need some.
const MEMORY_BYTES_MIN: u64 = 64 << 20;

/// `[awk]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RawAwk {
    pub interpreter: String,
    pub timeout: String,
    pub memory_bytes_max: String,
    pub time_zone: String,
}

impl Default for RawAwk {
    fn default() -> Self {
        RawAwk {
            interpreter: "auto".into(),
            timeout: "5s".into(),
            memory_bytes_max: "512MiB".into(),
            time_zone: "UTC".into(),
        }
    }
}

/// `[[programs]]`
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawProgram {
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub builtin: Option<String>,
    #[serde(default = "awk")]
    pub language: String,
    #[serde(default)]
    pub text: Option<String>,
    #[serde(default)]
    pub file: Option<PathBuf>,
}

fn awk() -> String {
    Language::Awk.name().into()
}

/// Checks the settings.
pub fn options(
    folder: &str,
    awk: &RawAwk,
    programs: Vec<RawProgram>,
    data_dir: &Path,
) -> Result<ProgramOptions> {
    let timeout = duration("awk.timeout", &awk.timeout)?;
    ensure!(
        (Duration::from_millis(100)..=Duration::from_secs(600)).contains(&timeout),
        "awk.timeout must be between 100ms and 10m"
    );
    let memory_bytes_max = bytes("awk.memory_bytes_max", &awk.memory_bytes_max)?;
    ensure!(
        memory_bytes_max >= MEMORY_BYTES_MIN,
        "awk.memory_bytes_max must be at least 64MiB; an interpreter does not start with less"
    );
    Ok(ProgramOptions {
        folder: match folder {
            "auto" => data_dir.join(PROGRAMS_FOLDER),
            folder => PathBuf::from(folder),
        },
        configured: programs.into_iter().map(program).collect::<Result<_>>()?,
        interpreter: match awk.interpreter.as_str() {
            "auto" => None,
            path => Some(PathBuf::from(path)),
        },
        limits: Limits {
            timeout,
            memory_bytes_max,
            time_zone: awk.time_zone.clone(),
            // The lowest: a machine at full load takes lines first.
            nice: 19,
            ..Limits::default()
        },
    })
}

/// A program of the configuration, which must be one: the server does not start with a mistake in
/// its configuration.
fn program(raw: RawProgram) -> Result<Loaded> {
    if let Some(builtin) = &raw.builtin {
        ensure!(
            raw.text.is_none() && raw.file.is_none() && raw.name.is_empty(),
            "[[programs]] builtin = '{builtin}' has no other key"
        );
        let found = Builtin::named(builtin).ok_or_else(|| {
            let names: Vec<&str> = BUILTIN.iter().map(|builtin| builtin.name).collect();
            anyhow!("[[programs]] builtin = '{builtin}': there are {}", names.join(", "))
        })?;
        return Ok(found.loaded());
    }
    let name = raw.name;
    let context = format!("[[programs]] '{name}'");
    let language = Language::named(&raw.language).with_context(|| context.clone())?;
    let text = match (raw.text, raw.file) {
        (Some(text), None) => text,
        (None, Some(file)) => std::fs::read_to_string(&file)
            .with_context(|| format!("{context}: cannot read {}", file.display()))?,
        _ => return Err(anyhow!("{context}: give either text or file")),
    };
    let definition = Definition::parse_as(&name, language, &text);
    let checked = definition.clone().and_then(Compiled::new);
    checked.map_err(|error| anyhow!("[[programs]] {error}"))?;
    Ok(Loaded { name, extension: language.name(), text, definition })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<ProgramOptions> {
        #[derive(Deserialize)]
        struct Some {
            #[serde(default)]
            awk: RawAwk,
            #[serde(default)]
            programs: Vec<RawProgram>,
        }
        let Some { awk, programs } = toml::from_str(text)?;
        options("auto", &awk, programs, Path::new("/data"))
    }

    #[test]
    fn programs_can_stand_in_the_configuration() {
        let text = "[awk]\ntimeout = \"2s\"\n\
                    [[programs]]\nname = \"a\"\ntext = \"# type: x\\nEND { print \\\"n=\\\" NR }\"\n\
                    [[programs]]\nname = \"b\"\nlanguage = \"logsql\"\ntext = \"* | stats count() n\"\n";
        let options = of(text).unwrap();
        assert_eq!(options.folder, Path::new("/data/programs"));
        assert_eq!(options.limits.timeout, Duration::from_secs(2));
        let names: Vec<&str> = options.configured.iter().map(|p| p.name.as_str()).collect();
        assert_eq!(names, ["a", "b"]);
        let builtin = of("[[programs]]\nbuiltin = \"access\"\n").unwrap();
        assert_eq!(builtin.configured[0].name, "access");
    }

    #[test]
    fn mistakes_name_the_program() {
        let error = |text| format!("{:#}", of(text).unwrap_err());
        let both = error("[[programs]]\nname = \"a\"\n");
        assert!(both.contains("'a': give either text or file"), "{both}");
        let builtin = error("[[programs]]\nbuiltin = \"x\"\n");
        assert!(builtin.contains("there are levels, hosts"), "{builtin}");
        let none = error("[[programs]]\nname = \"a\"\ntext = \"{ n++ }\"\n");
        assert!(none.contains("a, line 1"), "{none}");
        let language = error("[[programs]]\nname = \"a\"\nlanguage = \"perl\"\ntext = \"x\"\n");
        assert!(language.contains("'a': there is no language 'perl'"), "{language}");
        assert!(language.contains("there are 'awk' and 'logsql'"), "{language}");
        assert!(error("[awk]\nmemory_bytes_max = \"1MiB\"\n").contains("64MiB"));
        assert!(error("[awk]\ntimeout = \"1h\"\n").contains("between 100ms and 10m"));
    }
}
