//! What pipes do to the columns of rows: keep, drop, rename, copy.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::exec::{Meter, RunError};

/// Fields that rows may have behind a pipe that copies or unpacks some. With more the query ends
/// with an error: `copy a* as b*` doubles them, and a few such pipes would fill any memory.
pub(crate) const FIELDS_MAX: usize = 1 << 17;
/// Bytes of the names that one pair of `rename` or `copy` makes; with more, the same.
const NAMES_BYTES_MAX: usize = 16 << 20;

/// Columns of a row up to which the memory of a change is not counted.
const UNCOUNTED_COLUMNS_MAX: usize = 1 << 10;
/// Memory of a name in a set of names, about.
const SET_BYTES: usize = 48;
/// Memory of a new name beside its bytes, about: its header, and its place in [`NewNames`].
const NEW_NAME_BYTES: usize = 128;

/// The query's rows would have more than [`FIELDS_MAX`] fields, or too long names.
const TOO_MANY: RunError = RunError::FieldLimit(FIELDS_MAX);

/// What a pipe does to the columns of rows.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// Only these, in this order.
    Keep(Vec<NamePattern>),
    /// All but these.
    Drop(Vec<NamePattern>),
    /// New names: from, to. Both are names, or both beginnings of names.
    Rename(Vec<(NamePattern, NamePattern)>),
    /// The same value under one more name: from, to. Both are names, or both beginnings of names.
    Copy(Vec<(NamePattern, NamePattern)>),
}

/// A field name, or all that begin with one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePattern {
    /// The name or its beginning.
    pub name: String,
    /// Whether it is only the beginning.
    pub prefix: bool,
}

/// Many patterns: names are found by their hash, only the beginnings one after the other.
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

impl NamePattern {
    /// All names.
    pub const ANY: NamePattern = NamePattern { name: String::new(), prefix: true };

    /// One name.
    pub fn exact(name: &str) -> NamePattern {
        NamePattern { name: name.to_owned(), prefix: false }
    }

    /// Whether the name is this one, or begins so.
    pub fn matches(&self, name: &str) -> bool {
        if self.prefix { name.starts_with(&self.name) } else { name == self.name }
    }

    /// The name that a field gets whose name matches this, when the pattern `to` replaces it.
    pub(crate) fn replaced(&self, name: &str, to: &NamePattern) -> String {
        if self.prefix {
            format!("{}{}", to.name, &name[self.name.len()..])
        } else {
            to.name.clone()
        }
    }
}

/// A column as [`Change`] sees it.
pub(super) trait Named: Clone {
    fn name(&self) -> &Arc<str>;
    fn set_name(&mut self, name: Arc<str>);
    fn hidden(&self) -> bool;
    fn set_hidden(&mut self, hidden: bool);
}

/// The names that a change makes: each is made once, and all rows share it. Pipes behind the change
/// may keep rows until the query ends, long after their block. So the names stay counted until
/// then, unless they are given back.
#[derive(Default)]
pub(crate) struct NewNames {
    /// The new name by the place of the pair and the old name; without an old name where the pair
    /// has no beginnings.
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

    /// Gives the memory of the names back, when no row has them any more.
    pub fn give_back(self, meter: &mut Meter) {
        meter.give_back(self.counted);
    }
}

impl Change {
    /// Hidden columns come along until they are named, so that what the client included is still
    /// there. Gives the memory that was counted for the work, and is still counted.
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

/// The pairs that change anything, with their places.
fn numbered(
    pairs: &[(NamePattern, NamePattern)],
) -> impl Iterator<Item = (usize, &NamePattern, &NamePattern)> {
    let pairs = pairs.iter().enumerate().filter(|(_, (from, to))| from != to);
    pairs.map(|(place, (from, to))| (place, from, to))
}

/// Memory that is taken to change so many columns, about: they are there twice, and their names are
/// in a table.
pub(super) fn work_bytes<C>(columns: usize) -> usize {
    match columns > UNCOUNTED_COLUMNS_MAX {
        true => columns * (2 * size_of::<C>() + SET_BYTES),
        false => 0,
    }
}

/// Whether the names that a pair makes are few enough bytes.
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
    // The first of a name counts: hidden ones come last. So places are noted from behind.
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

/// A pair of names or of beginnings of names, and its place among those of its pipe.
type Pair<'p> = (usize, &'p NamePattern, &'p NamePattern);

/// All names at once: a new name may be the old one of another column.
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

/// Whether a pair makes that name. A single name is taken from its column though no other gets it.
fn is_new(
    name: &Arc<str>,
    to: &NamePattern,
    new_names: &HashSet<Arc<str>, foldhash::fast::RandomState>,
) -> bool {
    new_names.contains(name) || !to.prefix && **name == *to.name
}

/// Which columns a pattern means: the first with a name, or all visible ones whose names begin so.
fn selected<C: Named>(pattern: &NamePattern, columns: &[C]) -> Vec<bool> {
    let first = columns.iter().position(|c| **c.name() == *pattern.name);
    let selects = |(at, c): (usize, &C)| match pattern.prefix {
        true => !c.hidden() && pattern.matches(c.name()),
        false => Some(at) == first,
    };
    columns.iter().enumerate().map(selects).collect()
}
