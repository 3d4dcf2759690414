//! `[[files]]`: which files are followed, and how they are cut into records.

use anyhow::{Context, Result, anyhow, bail, ensure};
use collector::FileRule;
use collector::file::{Exclude, Join, PathFields, Pattern, RECORD_BYTES_MAX};
use record::MessageFormat;
use record::parse::TYPE_NAME_BYTES_MAX;

use crate::config::raw::{RawFiles, RawMultiline, RawMultilineRule};
use crate::config::zones;
use node::ingest::format::message_format;

/// Shorter records would be pieces of lines.
const RECORD_BYTES_MIN: u64 = 256;

/// Checks a rule.
pub fn rule(raw: &RawFiles) -> Result<FileRule> {
    ensure!(!raw.paths.is_empty(), "files.paths is empty; write for example [\"/var/log/*.log\"]");
    let patterns = raw.paths.iter().map(|path| Ok(Pattern::parse(&absolute(path)?)?));
    let mut rule = FileRule::new(patterns.collect::<Result<_>>().context("files.paths")?);
    let exclude = raw.exclude.iter().map(|text| match text.contains('/') {
        true => Ok(Exclude::parse(&absolute(text)?)?),
        false => Ok(Exclude::parse(text)?),
    });
    rule.exclude = exclude.collect::<Result<_>>().context("files.exclude")?;
    if let Some(name) = &raw.log_type {
        ensure!(
            !name.is_empty() && name.len() <= TYPE_NAME_BYTES_MAX,
            "files.type must be a name of 1 to {TYPE_NAME_BYTES_MAX} bytes"
        );
    }
    rule.log_type = raw.log_type.clone();
    for (key, names, wanted) in [
        ("time_field", &raw.time_field, &mut rule.time_fields),
        ("msg_field", &raw.msg_field, &mut rule.msg_fields),
        ("level_field", &raw.level_field, &mut rule.level_fields),
    ] {
        *wanted = names.checked().map_err(|error| anyhow!("files.{key} {error}"))?;
    }
    rule.zone = zones::name("files.zone", raw.zone.as_deref().unwrap_or_default())?;
    rule.fields = raw.fields.clone().into_iter().collect();
    for (name, variable) in &raw.fields_env {
        let value = std::env::var(variable).map_err(|error| {
            anyhow!(
                "files.fields_env: the variable {variable} of the environment, for the field {name}: {error}; set it, or \
                 write a value in files.fields"
            )
        })?;
        rule.fields.retain(|(known, _)| known != name);
        rule.fields.push((name.clone(), value));
    }
    rule.path_fields = match raw.path_fields.as_deref() {
        None => rule.paths.iter().all(of_kubernetes).then(PathFields::of_containers),
        Some("off") => None,
        Some(text) => Some(PathFields::parse(text).context("files.path_fields")?),
    };
    rule.from_end = match raw.start.as_deref() {
        None | Some("beginning") => false,
        Some("end") => true,
        Some(other) => bail!("files.start must be \"beginning\" or \"end\", not '{other}'"),
    };
    rule.shape.join = match &raw.multiline {
        None => Some(Join::Traces),
        Some(RawMultiline::Word(word)) => match word.as_str() {
            "traces" => Some(Join::Traces),
            "off" => None,
            other => bail!(
                "files.multiline is '{other}'; write \"traces\", \"off\", or a table with start or continue"
            ),
        },
        Some(RawMultiline::Rule(rule)) => Some(join(rule)?),
    };
    let is_cri = raw.format.as_deref() == Some(CRI);
    if let Some(name) = raw.format.as_ref().filter(|_| !is_cri) {
        rule.format = Some(message_format(name).map_err(|error| anyhow!("files.format: {error}"))?);
    }
    let may_be = rule.shape.join.is_some() || rule.paths.iter().all(of_containers);
    rule.shape.containers = is_cri || (may_be && rule.format != Some(MessageFormat::Plain));
    if let Some(text) = &raw.record_bytes_max {
        let bytes = crate::config::bytes("files.record_bytes_max", text)?;
        ensure!(
            (RECORD_BYTES_MIN..=RECORD_BYTES_MAX as u64).contains(&bytes),
            "files.record_bytes_max must be between {RECORD_BYTES_MIN}B and 8MiB"
        );
        rule.shape.record_bytes_max = bytes as usize;
    }
    if let Some(lines) = raw.record_lines_max {
        ensure!(lines > 0, "files.record_lines_max must be above zero");
        rule.shape.record_lines_max = lines;
    }
    for (key, text, age_ms) in [
        ("files.record_age", &raw.record_age, &mut rule.shape.record_age_ms),
        ("files.line_age", &raw.line_age, &mut rule.line_age_ms),
    ] {
        if let Some(text) = text {
            let age = crate::config::duration(key, text)?;
            *age_ms = u64::try_from(age.as_millis()).map_err(|_| anyhow!("{key} is too long"))?;
        }
    }
    Ok(rule)
}

/// Where Kubernetes and Docker keep the files of containers.
const CONTAINER_DIRS: [&str; 3] =
    ["/var/log/containers/", "/var/log/pods/", "/var/lib/docker/containers/"];

fn of_containers(pattern: &Pattern) -> bool {
    CONTAINER_DIRS.iter().any(|dir| pattern.text().starts_with(dir))
}

fn of_kubernetes(pattern: &Pattern) -> bool {
    CONTAINER_DIRS[..2].iter().any(|dir| pattern.text().starts_with(dir))
}

/// The format of container logs, whose parts are put together even where no lines are joined.
const CRI: &str = "cri";

fn join(raw: &RawMultilineRule) -> Result<Join> {
    match (&raw.start, &raw.r#continue) {
        (Some(start), None) => Join::start(start).context("files.multiline.start"),
        (None, Some(rest)) => Join::continued(rest).context("files.multiline.continue"),
        _ => bail!("files.multiline needs either start or continue, a regular expression"),
    }
}

/// A pattern, made absolute with the working directory.
fn absolute(path: &str) -> Result<String> {
    let absolute = std::path::absolute(path).with_context(|| format!("'{path}'"))?;
    let text = absolute.into_os_string().into_string();
    text.map_err(|_| {
        anyhow!("'{path}': the working directory is not UTF-8; write an absolute path")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, RawConfig};

    fn parse(text: &str) -> Result<Vec<FileRule>> {
        let raw: RawConfig = toml::from_str(&format!("[[files]]\n{text}")).unwrap();
        Ok(Config::try_from(raw)?.node.sources.files)
    }

    #[test]
    fn rules_are_read() {
        let rules = parse(
            r#"
            paths = ["/var/log/*.log", "relative.log"]
            exclude = ["*.1", "/var/log/private/**"]
            type = "shop"
            format = "logfmt"
            time_field = "t"
            msg_field = ["text", "what"]
            level_field = "sev"
            zone = "europe/berlin"
            fields = { env = "prod" }
            fields_env = { home = "HOME" }
            path_fields = '/(?<name>[^/]+)$'
            start = "end"
            multiline = { continue = '^\s' }
            record_bytes_max = "8MiB"
            record_lines_max = 7
            record_age = "5s"
            line_age = "1h"
            "#,
        );
        let rule = &rules.unwrap()[0];
        assert_eq!(rule.paths[0].text(), "/var/log/*.log");
        assert!(rule.paths[1].text().starts_with('/'));
        assert_eq!(rule.format, Some(MessageFormat::Logfmt));
        assert_eq!(
            (&rule.time_fields[..], &rule.level_fields[..]),
            (&["t".into()][..], &["sev".into()][..])
        );
        assert_eq!(rule.msg_fields, ["text", "what"]);
        let names: Vec<_> = rule.fields.iter().map(|(name, _)| &**name).collect();
        assert_eq!((names, rule.path_fields.is_some()), (vec!["env", "home"], true));
        assert_eq!(rule.zone.as_deref(), Some("Europe/Berlin"));
        assert!(rule.from_end && matches!(rule.shape.join, Some(Join::Continue(_))));
        let limits = (rule.shape.record_bytes_max, rule.shape.record_lines_max);
        assert_eq!(limits, (8 << 20, 7));
        assert_eq!((rule.shape.record_age_ms, rule.line_age_ms), (5_000, 3_600_000));
        assert_eq!(parse("paths = ['/a']").unwrap().len(), 1);
        for (text, traces, containers) in [
            ("", true, true),
            ("multiline = 'traces'", true, true),
            ("multiline = 'off'", false, false),
            ("format = 'cri'\nmultiline = 'off'", false, true),
            ("format = 'plain'", true, false),
            ("multiline = { start = 'a' }", false, true),
        ] {
            let shape = parse(&format!("paths = ['/a']\n{text}")).unwrap()[0].shape.clone();
            assert_eq!(matches!(shape.join, Some(Join::Traces)), traces, "{text}");
            assert_eq!(shape.containers, containers, "{text}");
        }
        let docker =
            parse("paths = ['/var/lib/docker/containers/*/*.log']\nmultiline = 'off'").unwrap();
        assert!(docker[0].shape.containers && docker[0].shape.join.is_none());
    }

    #[test]
    fn files_of_kubernetes_name_their_containers() {
        for (text, expected) in [
            ("paths = ['/var/log/pods/*/*/*.log']", true),
            ("paths = ['/var/log/pods/*/*/*.log', '/var/log/containers/*.log']", true),
            ("paths = ['/var/log/pods/*/*/*.log', '/srv/*.log']", false),
            ("paths = ['/var/log/pods/*/*/*.log']\npath_fields = 'off'", false),
            ("paths = ['/var/lib/docker/containers/*/*.log']", false),
        ] {
            assert_eq!(parse(text).unwrap()[0].path_fields.is_some(), expected, "{text}");
        }
    }

    #[test]
    fn wrong_values_name_their_key() {
        for (text, expected) in [
            ("paths = []", "files.paths is empty"),
            ("paths = ['/[']", "files.paths: '/[' is not a pattern"),
            ("paths = ['/a']\nexclude = ['[']", "files.exclude"),
            ("paths = ['/a']\ntype = ''", "files.type"),
            ("paths = ['/a']\nstart = 'middle'", "files.start"),
            (
                "paths = ['/a']\nformat = 'logfnt'",
                "files.format: 'logfnt' is not a format; did you mean 'logfmt'?",
            ),
            ("paths = ['/a']\nformat = 'parquet-file'", "use auto, plain"),
            ("paths = ['/a']\nmultiline = 'on'", "files.multiline is 'on'; write \"traces\""),
            ("paths = ['/a']\ntime_field = ''", "files.time_field has an empty name"),
            (
                "paths = ['/a']\nzone = 'Berlin'",
                "files.zone: 'Berlin' is no time zone; did you mean",
            ),
            ("paths = ['/a']\nmultiline = {}", "either start or continue"),
            ("paths = ['/a']\nmultiline = { start = '(' }", "files.multiline.start"),
            ("paths = ['/a']\nrecord_bytes_max = '9MiB'", "files.record_bytes_max"),
            ("paths = ['/a']\nrecord_lines_max = 0", "files.record_lines_max"),
            ("paths = ['/a']\nline_age = 'x'", "files.line_age"),
            ("paths = ['/a']\npath_fields = '/a/'", "files.path_fields: '/a/'"),
            (
                "paths = ['/a']\nfields_env = { a = 'NO_SUCH' }",
                "files.fields_env: the variable NO_SUCH",
            ),
        ] {
            let error = format!("{:#}", parse(text).unwrap_err());
            assert!(error.contains(expected), "{error}");
        }
    }
}
