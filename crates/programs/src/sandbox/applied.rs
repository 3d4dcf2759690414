//! The report of the sandbox: one line on stderr before the program has it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Begins the line with the report.
pub(crate) const STATUS_PREFIX: &str = "loginson-sandbox: ";
/// Begins the line that says why the sandbox was not applied.
pub(crate) const REFUSED_PREFIX: &str = "loginson-sandbox-refused: ";
/// Begins the line that says why the interpreter was not executed.
pub(crate) const EXEC_PREFIX: &str = "loginson-sandbox-exec: ";

/// How much of a step the kernel applied.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// All of it.
    Full,
    /// What this kernel knows of it.
    Partial,
    /// Nothing.
    Missing,
}

impl Part {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Part::Full => "full",
            Part::Partial => "partial",
            Part::Missing => "missing",
        }
    }
}

/// One step of the sandbox.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Step {
    /// Name of the step.
    pub name: String,
    /// How much was applied.
    pub part: Part,
    /// Why it was not all.
    pub note: String,
}

/// What was applied to a process.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
pub struct Applied {
    /// The steps in their order.
    pub steps: Vec<Step>,
}

impl Applied {
    /// Whether nothing is missing.
    pub fn is_full(&self) -> bool {
        self.steps.iter().all(|step| step.part == Part::Full)
    }

    /// The steps in their order.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The step of this name.
    pub fn step(&self, name: &str) -> Option<&Step> {
        self.steps.iter().find(|step| step.name == name)
    }

    pub(super) fn add(&mut self, name: &str, part: Part, note: &str) {
        self.steps.push(Step { name: name.to_owned(), part, note: note.to_owned() });
    }

    pub(super) fn add_result(&mut self, name: &str, result: Result<(), String>) {
        match result {
            Ok(()) => self.add(name, Part::Full, ""),
            Err(note) => self.add(name, Part::Missing, &note),
        }
    }

    /// The report as one line, without prefix and newline.
    pub(super) fn to_line(&self) -> String {
        serde_json::to_string(self).expect("names and notes are texts")
    }

    pub(crate) fn from_line(line: &str) -> Option<Self> {
        serde_json::from_str(line).ok()
    }
}

impl fmt::Display for Applied {
    /// `priority, files (partial: …), limits`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, step) in self.steps.iter().enumerate() {
            let comma = if i > 0 { ", " } else { "" };
            match step.part {
                Part::Full => write!(f, "{comma}{}", step.name)?,
                Part::Partial => write!(f, "{comma}{} (partial: {})", step.name, step.note)?,
                Part::Missing => write!(f, "{comma}{} (missing: {})", step.name, step.note)?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_comes_back_from_its_line() {
        let mut applied = Applied::default();
        applied.add("limits", Part::Full, "");
        assert!(applied.is_full());
        applied.add_result("files", Err("old kernel".to_owned()));
        assert!(!applied.is_full());
        assert_eq!(Applied::from_line(&applied.to_line()), Some(applied.clone()));
        assert_eq!(applied.to_string(), "limits, files (missing: old kernel)");
    }
}
