//! What `status` and `doctor` find: whether something is well, and what to do if it is not.

use std::io::Write;

use anyhow::{Result, ensure};
use serde::Serialize;
use serde_json::json;

use crate::cli::terminal::escaped;

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// As it should be.
    Ok,
    /// Works, but will not for ever, or not under load.
    Warning,
    /// Lines or answers are missing, or will be soon.
    Error,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub level: Level,
    /// What was looked at, in a word.
    pub subject: &'static str,
    /// What was found.
    pub found: String,
    /// What to do; empty if all is well.
    pub remedy: String,
}

impl Finding {
    pub fn ok(subject: &'static str, found: impl Into<String>) -> Finding {
        Finding { level: Level::Ok, subject, found: found.into(), remedy: String::new() }
    }

    pub fn warning(
        subject: &'static str,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        let (found, remedy) = (found.into(), remedy.into());
        Finding { level: Level::Warning, subject, found, remedy }
    }

    pub fn error(
        subject: &'static str,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Finding {
        let (found, remedy) = (found.into(), remedy.into());
        Finding { level: Level::Error, subject, found, remedy }
    }
}

/// Writes the findings, the worst first.
pub fn write(out: &mut impl Write, findings: &[Finding]) -> std::io::Result<()> {
    for level in [Level::Error, Level::Warning, Level::Ok] {
        for finding in findings.iter().filter(|finding| finding.level == level) {
            let word = match level {
                Level::Ok => "ok",
                Level::Warning => "warning",
                Level::Error => "error",
            };
            writeln!(out, "{word:<8} {:<12} {}", finding.subject, escaped(&finding.found))?;
            if !finding.remedy.is_empty() {
                writeln!(out, "{:<21} to do: {}", "", escaped(&finding.remedy))?;
            }
        }
    }
    Ok(())
}

/// The findings as JSON, with what else is known.
pub fn json(findings: &[Finding], other: serde_json::Value) -> serde_json::Value {
    let mut json = json!({ "well": !has_errors(findings), "findings": findings });
    if let (Some(json), serde_json::Value::Object(other)) = (json.as_object_mut(), other) {
        json.extend(other);
    }
    json
}

/// Whether one of them is an error.
pub fn has_errors(findings: &[Finding]) -> bool {
    findings.iter().any(|finding| finding.level == Level::Error)
}

/// Fails if one of them is an error, so that scripts see it by the exit code.
pub fn judge(findings: &[Finding]) -> Result<()> {
    let errors = findings.iter().filter(|finding| finding.level == Level::Error).count();
    ensure!(errors == 0, "errors: {errors}; see above");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_comes_first_and_text_is_escaped() {
        let findings = [Finding::ok("a", "fine"), Finding::error("b", "x\u{1b}[2J", "do\nthis")];
        let mut text = Vec::new();
        write(&mut text, &findings).unwrap();
        assert_eq!(
            String::from_utf8(text).unwrap(),
            "error    b            x\\x1b[2J\n                      to do: do\\x0athis\n\
             ok       a            fine\n"
        );
        assert!(judge(&findings).is_err() && judge(&findings[..1]).is_ok());
        let json = json(&findings, json!({ "version": "1" }));
        assert_eq!(json["well"], false);
        assert_eq!(json["findings"][1]["level"], "error");
        assert_eq!(json["version"], "1");
    }
}
