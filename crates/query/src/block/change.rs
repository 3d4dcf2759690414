//! Changes that pipes make to the columns of rows: keep, drop, rename, copy.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::base::names::NamePattern;
use crate::base::{Meter, RunError};

/// Fields that rows may have behind a pipe that copies or unpacks fields. Beyond it the query
/// fails: `copy a* as b*` doubles the fields, and a few such pipes would exhaust any memory.
pub(crate) const FIELDS_MAX: usize = 1 << 17;
/// Bytes of the new names of one pair of `rename` or `copy`. Beyond it the query fails as well.
const NAMES_BYTES_MAX: usize = 16 << 20;

/// Columns of a row up to which the memory of a change is not counted.
const UNCOUNTED_COLUMNS_MAX: usize = 1 << 10;
/// Approximate memory of a name in a set of names.
const SET_BYTES: usize = 48;
/// Approximate memory of a new name besides its bytes: its header, and its entry in [`NewNames`].
const NEW_NAME_BYTES: usize = 128;

/// The rows of the query would have more than [`FIELDS_MAX`] fields, or too long names.
const TOO_MANY: RunError = RunError::FieldLimit(FIELDS_MAX);

/// A change to the columns of rows.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Only the matching fields, in this order.
    Keep(Vec<NamePattern>),
    /// All but the matching fields.
    Drop(Vec<NamePattern>),
    /// New names: from, to. Both are names, or both are beginnings of names.
    Rename(Vec<(NamePattern, NamePattern)>),
    /// The same value under another name as well: from, to. Both are names, or both are beginnings
    /// of names.
    Copy(Vec<(NamePattern, NamePattern)>),
}

/// Many patterns: names are looked up by hash, only beginnings are compared one after the other.
pub(crate) struct Patterns<'p> {
    names: HashSet<&'p str, foldhash::fast::RandomState>,
    prefixes: Vec<&'p str>,
}

impl<'p> Patterns<'p> {
    pub(crate) fn new(patterns: &'p [NamePattern]) -> Patterns<'p> {
        let (prefixes, names): (Vec<_>, Vec<_>) = patterns.iter().partition(|p| p.prefix);
        Patterns {
            names: names.into_iter().map(|p| p.name.as_str()).collect(),
            prefixes: prefixes.into_iter().map(|p| p.name.as_str()).collect(),
        }
    }

    /// Whether any of the patterns matches.
    pub(crate) fn matches(&self, name: &str) -> bool {
        self.names.contains(name) || self.prefixes.iter().any(|prefix| name.starts_with(prefix))
    }
}

/// A column, as far as [`Change`] needs it.
pub(super) trait Named: Clone {
    fn name(&self) -> &Arc<str>;
    fn set_name(&mut self, name: Arc<str>);
    fn hidden(&self) -> bool;
    fn set_hidden(&mut self, hidden: bool);
}

/// The names that a change makes. Each is made once and shared by all rows. Pipes behind the change
/// may keep rows until the query ends, long after their block. So the names stay counted until
/// then, unless their memory is given back.
#[derive(Default)]
pub(crate) struct NewNames {
    /// The new name by the index of the pair and the old name. Pairs of full names have no old
    /// name.
    names: HashMap<(usize, Option<Arc<str>>), Arc<str>, foldhash::fast::RandomState>,
    counted: usize,
}

impl NewNames {
    fn name(
        &mut self,
        (place, from, to): (usize, &NamePattern, &NamePattern),
        old: &Arc<str>,
        meter: &mut Meter,
    ) -> Result<Arc<str>, RunError> {
        let key = (place, from.prefix.then(|| old.clone()));
        if let Some(name) = self.names.get(&key) {
            return Ok(name.clone());
        }
        let bytes = to.name.len() + if to.prefix { old.len() } else { 0 } + NEW_NAME_BYTES;
        meter.take(bytes)?;
        self.counted += bytes;
        let name: Arc<str> = from.replaced(old, to).into();
        self.names.insert(key, name.clone());
        Ok(name)
    }

    /// Returns the memory of the names, once no row has them any more.
    pub fn give_back(self, meter: &mut Meter) {
        meter.give_back(self.counted);
    }
}

impl Change {
    /// Applies `change` to the columns. Hidden columns are kept until they are named, so that the
    /// client gets those it included. Returns the memory that was counted for the work and stays
    /// counted.
    pub(super) fn apply<C: Named>(
        &self,
        columns: &mut Vec<C>,
        names: &mut NewNames,
        meter: &mut Meter,
    ) -> Result<usize, RunError> {
        let mut counted = 0;
        let mut count = |columns: usize, meter: &mut Meter| {
            let bytes = work_bytes::<C>(columns);
            let more = bytes.saturating_sub(counted);
            counted += more;
            if more > 0 { meter.take(more) } else { Ok(()) }
        };
        count(columns.len(), meter)?;
        match self {
            Change::Keep(patterns) => keep(patterns, columns),
            Change::Drop(patterns) => {
                let dropped = Patterns::new(patterns);
                columns.retain(|c| c.hidden() || !dropped.matches(c.name()))
            }
            Change::Rename(pairs) => {
                for (place, from, to) in numbered(pairs) {
                    names_fit(from, to, columns)?;
                    let renamed = selected(from, columns);
                    rename((place, from, to), renamed, columns, names, meter)?;
                }
            }
            Change::Copy(pairs) => {
                for (place, from, to) in numbered(pairs) {
                    names_fit(from, to, columns)?;
                    let copied = selected(from, columns);
                    let copies = copied.iter().filter(|copied| **copied).count();
                    count(columns.len() + copies, meter)?;
                    copy((place, from, to), copied, columns, names, meter)?;
                    if columns.len() > FIELDS_MAX {
                        return Err(TOO_MANY);
                    }
                }
            }
        }
        Ok(counted)
    }
}

/// The pairs that change anything, with their indexes.
fn numbered(
    pairs: &[(NamePattern, NamePattern)],
) -> impl Iterator<Item = (usize, &NamePattern, &NamePattern)> {
    let pairs = pairs.iter().enumerate().filter(|(_, (from, to))| from != to);
    pairs.map(|(place, (from, to))| (place, from, to))
}

/// Approximate memory for changing this many columns: columns exist twice, and their names are in a
/// table.
pub(super) fn work_bytes<C>(columns: usize) -> usize {
    match columns > UNCOUNTED_COLUMNS_MAX {
        true => columns * (2 * size_of::<C>() + SET_BYTES),
        false => 0,
    }
}

/// Whether the new names of a pair are within [`NAMES_BYTES_MAX`].
fn names_fit<C: Named>(
    from: &NamePattern,
    to: &NamePattern,
    columns: &[C],
) -> Result<(), RunError> {
    if !from.prefix || to.name.len() * columns.len() <= NAMES_BYTES_MAX {
        return Ok(());
    }
    let matching = columns.iter().filter(|c| from.matches(c.name()));
    let bytes: usize = matching.map(|c| to.name.len() + c.name().len()).sum();
    if bytes <= NAMES_BYTES_MAX { Ok(()) } else { Err(TOO_MANY) }
}

fn keep<C: Named>(patterns: &[NamePattern], columns: &mut Vec<C>) {
    let mut old: Vec<Option<C>> = columns.drain(..).map(Some).collect();
    // The first column of a name counts, as hidden ones come last; collecting backwards keeps it.
    let by_name: HashMap<Arc<str>, usize, foldhash::fast::RandomState> = (old.iter().enumerate())
        .rev()
        .filter_map(|(i, c)| Some((c.as_ref()?.name().clone(), i)))
        .collect();
    for pattern in patterns {
        if !pattern.prefix {
            let found = by_name.get(pattern.name.as_str()).and_then(|&i| old[i].take());
            columns.extend(found.map(|mut column| {
                column.set_hidden(false);
                column
            }));
            continue;
        }
        for place in &mut old {
            let matches = |c: &C| !c.hidden() && pattern.matches(c.name());
            columns.extend(place.take_if(|c| matches(c)));
        }
    }
    columns.extend(old.into_iter().flatten().filter(|c| c.hidden()));
}

/// A pair of names or of beginnings of names, and its index among the pairs of its pipe.
type Pair<'p> = (usize, &'p NamePattern, &'p NamePattern);

/// Renames all columns at once: a new name may be the old name of another column.
fn rename<C: Named>(
    pair: Pair<'_>,
    renamed: Vec<bool>,
    columns: &mut Vec<C>,
    names: &mut NewNames,
    meter: &mut Meter,
) -> Result<(), RunError> {
    let mut new_names: HashSet<Arc<str>, foldhash::fast::RandomState> = HashSet::default();
    for (column, _) in columns.iter_mut().zip(&renamed).filter(|(_, renamed)| **renamed) {
        let name = names.name(pair, column.name(), meter)?;
        new_names.insert(name.clone());
        column.set_name(name);
        column.set_hidden(false);
    }
    let (_, _, to) = pair;
    let mut renamed = renamed.into_iter();
    columns.retain(|c| {
        let renamed = renamed.next().expect("as many as columns");
        renamed || c.hidden() || !is_new(c.name(), to, &new_names)
    });
    Ok(())
}

fn copy<C: Named>(
    pair: Pair<'_>,
    copied: Vec<bool>,
    columns: &mut Vec<C>,
    names: &mut NewNames,
    meter: &mut Meter,
) -> Result<(), RunError> {
    let mut copies: Vec<C> =
        columns.iter().zip(copied).filter(|(_, copied)| *copied).map(|(c, _)| c.clone()).collect();
    let mut new_names: HashSet<Arc<str>, foldhash::fast::RandomState> = HashSet::default();
    for copy in &mut copies {
        let name = names.name(pair, copy.name(), meter)?;
        new_names.insert(name.clone());
        copy.set_name(name);
        copy.set_hidden(false);
    }
    let (_, _, to) = pair;
    columns.retain(|c| c.hidden() || !is_new(c.name(), to, &new_names));
    columns.extend(copies);
    Ok(())
}

/// Whether a pair makes this name. A single name is taken from its column even if no other gets it.
fn is_new(
    name: &Arc<str>,
    to: &NamePattern,
    new_names: &HashSet<Arc<str>, foldhash::fast::RandomState>,
) -> bool {
    new_names.contains(name) || !to.prefix && **name == *to.name
}

/// The columns that a pattern selects: the first of the name, or all visible ones with the
/// beginning.
fn selected<C: Named>(pattern: &NamePattern, columns: &[C]) -> Vec<bool> {
    let first = columns.iter().position(|c| **c.name() == *pattern.name);
    let selects = |(at, c): (usize, &C)| match pattern.prefix {
        true => !c.hidden() && pattern.matches(c.name()),
        false => Some(at) == first,
    };
    columns.iter().enumerate().map(selects).collect()
}
