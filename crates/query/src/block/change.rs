//! What pipes do to the columns of rows: keep, drop, rename, copy.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Fields that rows may have behind a pipe that copies or unpacks some. With more the query ends with an error: `copy
/// a* as b*` doubles them, and a few such pipes would fill any memory.
pub(crate) const FIELDS_MAX: usize = 1 << 17;
/// Bytes of the names that one pair of `rename` or `copy` makes; with more, the same.
const NAMES_BYTES_MAX: usize = 16 << 20;

/// Rows would have more than [`FIELDS_MAX`] fields, or too long names.
#[derive(Debug)]
pub(crate) struct TooMany;

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

impl Change {
    /// Hidden columns come along until they are named, so that what the client included is still there.
    pub(super) fn apply<C: Named>(&self, columns: &mut Vec<C>) -> Result<(), TooMany> {
        match self {
            Change::Keep(patterns) => keep(patterns, columns),
            Change::Drop(patterns) => {
                columns.retain(|c| c.hidden() || !patterns.iter().any(|p| p.matches(c.name())))
            }
            Change::Rename(pairs) => {
                for (from, to) in pairs.iter().filter(|(from, to)| from != to) {
                    names_fit(from, to, columns)?;
                    rename(from, to, columns);
                }
            }
            Change::Copy(pairs) => {
                for (from, to) in pairs.iter().filter(|(from, to)| from != to) {
                    names_fit(from, to, columns)?;
                    copy(from, to, columns);
                    if columns.len() > FIELDS_MAX {
                        return Err(TooMany);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Whether the names that a pair makes are few enough bytes.
fn names_fit<C: Named>(from: &NamePattern, to: &NamePattern, columns: &[C]) -> Result<(), TooMany> {
    if !from.prefix || to.name.len() * columns.len() <= NAMES_BYTES_MAX {
        return Ok(());
    }
    let matching = columns.iter().filter(|c| from.matches(c.name()));
    let bytes: usize = matching.map(|c| to.name.len() + c.name().len()).sum();
    if bytes <= NAMES_BYTES_MAX { Ok(()) } else { Err(TooMany) }
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

/// All names at once: a new name may be the old one of another column.
fn rename<C: Named>(from: &NamePattern, to: &NamePattern, columns: &mut Vec<C>) {
    let renamed = selected(from, columns);
    let mut new_names = vec![Arc::from(to.name.as_str())];
    for (column, _) in columns.iter_mut().zip(&renamed).filter(|(_, renamed)| **renamed) {
        let name: Arc<str> = from.replaced(column.name(), to).into();
        new_names.push(name.clone());
        column.set_name(name);
        column.set_hidden(false);
    }
    // A name that only begins so is nobody's.
    let new_names: HashSet<Arc<str>, foldhash::fast::RandomState> =
        new_names.into_iter().skip(usize::from(to.prefix)).collect();
    let mut renamed = renamed.into_iter();
    columns.retain(|c| {
        let renamed = renamed.next().expect("as many as columns");
        renamed || c.hidden() || !new_names.contains(c.name())
    });
}

fn copy<C: Named>(from: &NamePattern, to: &NamePattern, columns: &mut Vec<C>) {
    let copied = selected(from, columns);
    let mut copies: Vec<C> =
        columns.iter().zip(copied).filter(|(_, copied)| *copied).map(|(c, _)| c.clone()).collect();
    for copy in &mut copies {
        copy.set_name(from.replaced(copy.name(), to).into());
        copy.set_hidden(false);
    }
    let new_names: HashSet<Arc<str>, foldhash::fast::RandomState> =
        copies.iter().map(|c| c.name().clone()).chain([Arc::from(to.name.as_str())]).collect();
    columns
        .retain(|c| c.hidden() || !new_names.contains(c.name()) || to.prefix && copies.is_empty());
    columns.extend(copies);
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
