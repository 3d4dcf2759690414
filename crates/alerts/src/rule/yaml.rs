//! The keys of rule files, as vmalert and Prometheus have them.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_saphyr::{Budget, Options, Spanned};

use super::file::RuleError;

/// Bytes of a rule file.
const FILE_BYTES_MAX: usize = 1 << 20;

/// A document of a rule file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    #[serde(default)]
    pub groups: Vec<RawGroup>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawGroup {
    pub name: Spanned<String>,
    #[serde(default, rename = "type")]
    pub kind: Option<Spanned<String>>,
    #[serde(default)]
    pub interval: Option<Spanned<String>>,
    #[serde(default)]
    pub eval_offset: Option<Spanned<String>>,
    /// Prometheus calls it `query_offset`.
    #[serde(default, alias = "query_offset")]
    pub eval_delay: Option<Spanned<String>>,
    #[serde(default)]
    pub eval_alignment: Option<bool>,
    #[serde(default)]
    pub limit: Option<Spanned<u64>>,
    /// Rules of a group are evaluated one after another, whatever this says.
    #[serde(default, rename = "concurrency")]
    pub _concurrency: Option<u64>,
    #[serde(default, rename = "debug")]
    pub _debug: Option<bool>,
    #[serde(default)]
    pub labels: BTreeMap<String, Spanned<String>>,
    #[serde(default)]
    pub rules: Vec<RawRule>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawRule {
    #[serde(default)]
    pub alert: Option<Spanned<String>>,
    #[serde(default)]
    pub record: Option<Spanned<String>>,
    pub expr: Spanned<String>,
    #[serde(default, rename = "for")]
    pub hold: Option<Spanned<String>>,
    #[serde(default)]
    pub keep_firing_for: Option<Spanned<String>>,
    #[serde(default)]
    pub labels: BTreeMap<String, Spanned<String>>,
    #[serde(default)]
    pub annotations: BTreeMap<String, Spanned<String>>,
    #[serde(default, rename = "debug")]
    pub _debug: Option<bool>,
    /// Changes of all rules are kept alike, whatever this says.
    #[serde(default, rename = "update_entries_limit")]
    pub _update_entries_limit: Option<u64>,
}

/// The documents of a rule file. What the parser may take is bounded, so that neither a long file
/// nor aliases of aliases fill the memory.
pub fn documents(file: &str, text: &str) -> Result<Vec<Document>, RuleError> {
    let error = |line, what| RuleError { file: file.to_owned(), line, what };
    if text.len() > FILE_BYTES_MAX {
        let what = format!("the file has more than {FILE_BYTES_MAX} bytes; split it");
        return Err(error(None, what));
    }
    let mut budget = Budget::default();
    budget.max_events = 200_000;
    budget.max_nodes = 100_000;
    budget.max_depth = 32;
    budget.max_documents = 100;
    budget.max_anchors = 100;
    budget.max_aliases = 1_000;
    budget.max_total_scalar_bytes = 2 * FILE_BYTES_MAX;
    let mut options = Options::default();
    options.budget = Some(budget);
    options.with_snippet = false;
    options.alias_limits.max_total_replayed_events = 100_000;
    options.alias_limits.max_replay_stack_depth = 8;
    serde_saphyr::from_multiple_with_options(text, options).map_err(|found| {
        let found = found.without_snippet();
        let line = found.location().map(|location| location.line());
        error(line.filter(|line| *line > 0), found.to_string())
    })
}
