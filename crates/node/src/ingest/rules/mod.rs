//! Rules at ingest: what becomes of lines before they are durable.
//!
//! A rule has a filter of LogsQL, and does one thing to the lines that it selects: it leaves them
//! out, keeps some of them, masks parts of them, or gives them fields. Rules act in the order of
//! the configuration; each sees what those before it made of a line.
//!
//! Everything is decided here, once, and a frame says all of it: lines that are left out are not in
//! it, masked lines hold no trace of what was masked, and fields are extra fields of the origin of
//! a line. So the same frame gives the same records on every node, after a restart, and when the
//! rules are others by then (`docs/decisions/0098…`).
//!
//! Limits: [`RULES_MAX`], [`ADDED_BYTES_MAX`](apply::ADDED_BYTES_MAX), and those of a line's
//! fields. What a rule could not do is counted, and the line is kept.
//!
//! Left out: lines of other nodes, which their own rules have seen; Loginson's own lines.

mod apply;
mod deliver;
mod find;
mod mask;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, PoisonError, RwLock};

use query::macros::Callable;
use query::source::Tables;
use query::{Filter, Query, RawLines, TailQuery};
use record::parse::TYPE_NAME_BYTES_MAX;
use record::{Tenant, Zone};
use serde::Deserialize;

pub use apply::{TracedLine, trace};
pub use deliver::RuledDelivery;
use find::Finder;
use mask::Mask;
pub use mask::MaskSpec;

/// Rules of a configuration. More are an error when it is read.
///
/// limits.md, Lines on their way in: rules at ingest | {} | the configuration is refused
pub const RULES_MAX: usize = 256;
/// Length of a rule's name. A longer one is an error when the configuration is read.
const NAME_BYTES_MAX: usize = 64;
/// Fields that `set` gives. More are an error when the configuration is read.
const SET_MAX: usize = 16;
/// Length of a value that `set` gives. A longer one is an error when the configuration is read.
const VALUE_BYTES_MAX: usize = 4096;
/// Pipes that cannot stand in a rule: a rule gives fields to the lines that its filter selects.
const NO_PIPES: [&str; 4] = ["fields", "filter", "unroll", "set_stream_fields"];

/// `[[rules]]`, as it is written.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct RuleSpec {
    /// Its name, in metrics and messages.
    pub name: String,
    /// Selects lines, in LogsQL; empty: all.
    pub filter: String,
    /// Lines are left out.
    pub drop: bool,
    /// Only each n-th of the lines is kept.
    pub keep_one_in: Option<u32>,
    /// What is replaced in the lines.
    pub mask: Vec<MaskSpec>,
    /// Pipes that make fields of the fields of a line.
    pub pipes: String,
    /// Fields with their values.
    pub set: BTreeMap<String, String>,
    /// The type of the lines.
    #[serde(rename = "type")]
    pub log_type: String,
    /// The zone of times that name none.
    pub zone: String,
    /// The level of the lines.
    pub level: String,
    /// The id of the tenant of the lines, of those that are nobody's yet.
    pub tenant: String,
    /// No later rule sees the lines.
    pub stop: bool,
}

/// What a rule does to a line that its filter selects.
enum Action {
    Drop,
    KeepOneIn(u64),
    Mask(Vec<Mask>),
    Add(Box<Additions>),
}

/// What a rule gives a line.
struct Additions {
    /// Filter and pipes; none without pipes.
    pipes: Option<TailQuery>,
    /// Extra fields, the same for all lines.
    fields: Vec<(String, String)>,
    log_type: Option<String>,
    zone: Option<String>,
    tenant: Option<Tenant>,
}

/// A rule, compiled.
struct Rule {
    action: Action,
    /// Selects the lines; none: all.
    filter: Option<TailQuery>,
    /// The texts of which each line that the filter selects holds one, if there are any.
    texts: Option<RawLines>,
    stop: bool,
    counts: Arc<RuleCounts>,
}

/// What a rule did since the start.
#[derive(Debug, Default)]
pub struct RuleCounts {
    /// Its name.
    pub name: String,
    /// Lines that its filter selected.
    pub selected: AtomicU64,
    /// Lines that were left out.
    pub dropped: AtomicU64,
    /// Lines in which something was masked.
    pub masked: AtomicU64,
    /// Lines that got fields, a type, a zone or a level.
    pub changed: AtomicU64,
    /// Lines for which the rule could not do all that it says.
    pub failed: AtomicU64,
    /// Time that it took, in nanoseconds.
    pub took_ns: AtomicU64,
}

/// The rules of a configuration, compiled.
#[derive(Default)]
pub struct RuleSet {
    rules: Vec<Rule>,
    /// Finds the lines that the rules may touch.
    finder: Finder,
}

impl RuleSet {
    /// The rules, or which of them is wrong, and what to change. `before` are those whose counts go
    /// on under the same names. Without `tables` the rules are only checked, not what they look up.
    pub fn new(
        specs: &[RuleSpec],
        before: &RuleSet,
        tables: Option<&dyn Tables>,
    ) -> Result<RuleSet, String> {
        if specs.len() > RULES_MAX {
            return Err(format!("{} rules, but there can be {RULES_MAX}", specs.len()));
        }
        let mut rules: Vec<Rule> = Vec::with_capacity(specs.len());
        for (index, spec) in specs.iter().enumerate() {
            let named = match spec.name.is_empty() {
                true => format!("number {}", index + 1),
                false => format!("'{}'", spec.name),
            };
            if rules.iter().any(|rule| rule.counts.name == spec.name) {
                return Err(format!("rule {named} is there twice; give each a name of its own"));
            }
            let mut known = before.rules.iter().map(|rule| &rule.counts);
            let counts = known.find(|counts| counts.name == spec.name).cloned();
            let counts = counts.unwrap_or_else(|| {
                Arc::new(RuleCounts { name: spec.name.clone(), ..RuleCounts::default() })
            });
            let rule = Rule::new(spec, counts, tables);
            rules.push(rule.map_err(|why| format!("rule {named}: {why}"))?);
        }
        Ok(RuleSet { finder: Finder::new(&rules), rules })
    }

    /// The rules of a text in TOML, as they stand in a configuration; or what is wrong with it.
    pub fn of_text(text: &str, tables: &dyn Tables) -> Result<RuleSet, String> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Written {
            rules: Vec<RuleSpec>,
        }
        let written: Written = toml::from_str(text).map_err(|error| format!("rules: {error}"))?;
        RuleSet::new(&written.rules, &RuleSet::default(), Some(tables))
    }

    /// Whether there is no rule.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// What each rule did, in their order.
    pub fn counts(&self) -> impl Iterator<Item = &RuleCounts> {
        self.rules.iter().map(|rule| &*rule.counts)
    }
}

impl Rule {
    fn new(
        spec: &RuleSpec,
        counts: Arc<RuleCounts>,
        tables: Option<&dyn Tables>,
    ) -> Result<Rule, String> {
        let is_name = |c: char| c.is_ascii_alphanumeric() || " ._-".contains(c);
        if spec.name.is_empty()
            || spec.name.len() > NAME_BYTES_MAX
            || !spec.name.chars().all(is_name)
        {
            return Err(format!(
                "name has 1 to {NAME_BYTES_MAX} letters, digits, spaces, '.', '_' or '-'"
            ));
        }
        let text = if spec.filter.trim().is_empty() { "*" } else { &spec.filter };
        let query = parse(text, "filter")?;
        if !query.pipes().is_empty() {
            return Err("filter has a pipe; pipes stand in 'pipes'".to_owned());
        }
        let filter = query.filter();
        if let Some(why) = refusal(filter) {
            return Err(format!("filter: {why}"));
        }
        let is_all = *filter == Filter::All;
        Ok(Rule {
            action: action(spec, text, tables)?,
            texts: RawLines::of(filter),
            filter: if is_all { None } else { Some(followed(&query)?) },
            stop: spec.stop,
            counts,
        })
    }
}

fn parse(text: &str, key: &str) -> Result<Query, String> {
    // Times are refused, so now is never asked for.
    let query = Query::parse_with(text, 0, Callable::Configured);
    query.map_err(|error| format!("{key} is not LogsQL: {error}"))
}

fn followed(query: &Query) -> Result<TailQuery, String> {
    let followed = query.tail(&[]).map_err(|error| error.message)?;
    Ok(followed.with_own())
}

/// Why a single line does not decide whether it passes a filter.
fn refusal(filter: &Filter) -> Option<&'static str> {
    match filter {
        Filter::And(filters) | Filter::Or(filters) => filters.iter().find_map(refusal),
        Filter::Not(filter) => refusal(filter),
        Filter::Time(_) => Some(
            "'_time' depends on when the rule is read; lines arrive one by one, so leave it out",
        ),
        Filter::Subquery(_) => Some(
            "a query inside a filter needs other lines, but a rule sees one line at a time; \
             list the values: field:in(a, b)",
        ),
        _ => None,
    }
}

fn action(spec: &RuleSpec, filter: &str, tables: Option<&dyn Tables>) -> Result<Action, String> {
    let adds = !spec.pipes.is_empty()
        || !spec.set.is_empty()
        || [&spec.log_type, &spec.zone, &spec.level, &spec.tenant]
            .iter()
            .any(|text| !text.is_empty());
    let said = [spec.drop, spec.keep_one_in.is_some(), !spec.mask.is_empty(), adds];
    match said.iter().filter(|said| **said).count() {
        0 if spec.stop => return Ok(Action::Add(Additions::none().into())),
        0 => {
            return Err("does nothing; it needs drop, keep_one_in, mask, pipes, set, type, zone, \
                        level, tenant or stop"
                .to_owned());
        }
        1 => {}
        _ => {
            return Err("does one thing: drop, keep_one_in, mask, or fields (pipes, set, type, \
                        zone, level, tenant); write a rule for each"
                .to_owned());
        }
    }
    if spec.drop {
        return Ok(Action::Drop);
    }
    if let Some(count) = spec.keep_one_in {
        return match count {
            0 | 1 => Err("keep_one_in is at least 2; 'drop = true' leaves all out".to_owned()),
            count => Ok(Action::KeepOneIn(count.into())),
        };
    }
    if !spec.mask.is_empty() {
        let masks = spec.mask.iter().map(Mask::new).collect::<Result<_, _>>();
        return Ok(Action::Mask(masks.map_err(|why| format!("mask: {why}"))?));
    }
    additions(spec, filter, tables).map(|additions| Action::Add(additions.into()))
}

impl Additions {
    fn none() -> Additions {
        Additions { pipes: None, fields: Vec::new(), log_type: None, zone: None, tenant: None }
    }
}

fn additions(
    spec: &RuleSpec,
    filter: &str,
    tables: Option<&dyn Tables>,
) -> Result<Additions, String> {
    let mut added = Additions::none();
    if !spec.pipes.is_empty() {
        let mut query = parse(&format!("{filter} | {}", spec.pipes), "pipes")?;
        if tables.is_some() {
            query.bind_tables(tables).map_err(|why| format!("pipes: {why}"))?;
        }
        for pipe in query.pipes() {
            let written = pipe.to_string();
            let name = written.split(' ').next().unwrap_or_default();
            if NO_PIPES.contains(&name) {
                return Err(format!(
                    "pipes: \"{name}\" cannot stand in a rule, which gives fields to the lines \
                     that its filter selects; use extract, unpack_json, format, rename, delete …"
                ));
            }
        }
        added.pipes = Some(followed(&query).map_err(|why| {
            let why = why.replace("so it cannot be followed live", "so it cannot stand in a rule");
            format!("pipes: {why}")
        })?);
    }
    if spec.set.len() > SET_MAX {
        return Err(format!("set gives {} fields, but there can be {SET_MAX}", spec.set.len()));
    }
    for (name, value) in &spec.set {
        if !apply::may_be_given(name) {
            return Err(format!(
                "set: '{name}' cannot be given; use type, zone and level, or another name"
            ));
        }
        if name.len() > record::parse::NAME_BYTES_MAX || value.len() > VALUE_BYTES_MAX {
            return Err(format!(
                "set: the value of '{name}' is longer than {VALUE_BYTES_MAX} bytes"
            ));
        }
        added.fields.push((name.clone(), value.clone()));
    }
    if !spec.level.is_empty() {
        added.fields.push(("level".to_owned(), spec.level.clone()));
    }
    if !spec.log_type.is_empty() {
        let is_letter = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        if spec.log_type.len() > TYPE_NAME_BYTES_MAX || !spec.log_type.chars().all(is_letter) {
            return Err(format!(
                "type has 1 to {TYPE_NAME_BYTES_MAX} letters, digits, '.', '_' or '-'"
            ));
        }
        added.log_type = Some(spec.log_type.clone());
    }
    if !spec.zone.is_empty() {
        Zone::parse(&spec.zone).map_err(|why| format!("zone: {why}"))?;
        added.zone = Some(spec.zone.clone());
    }
    if !spec.tenant.is_empty() {
        added.tenant = Some(spec.tenant.parse().map_err(|why| format!("tenant: {why}"))?);
    }
    Ok(added)
}

/// The rules that hold now. They change while lines arrive.
#[derive(Default)]
pub struct Rules {
    now: RwLock<Arc<RuleSet>>,
}

impl Rules {
    /// These rules, until others are set.
    pub fn new(set: RuleSet) -> Rules {
        Rules { now: RwLock::new(Arc::new(set)) }
    }

    /// The rules that hold now.
    pub fn now(&self) -> Arc<RuleSet> {
        Arc::clone(&self.now.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// From now on, frames go by these rules.
    pub fn set(&self, set: RuleSet) {
        *self.now.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(set);
    }
}

fn add(to: &AtomicU64, count: u64) {
    if count > 0 {
        to.fetch_add(count, Relaxed);
    }
}
