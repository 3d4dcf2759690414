//! Maps field names in files of versions 1 to 3 to the current ones.
//!
//! Up to version 3 Loginson gave lines the fields `type`, `level` (as a standard word, whatever the
//! line said), `remote_ip` and `file`, and stored a line's own fields with such names under the
//! prefix `json.`. From version 4 on Loginson's own fields begin with an underscore, and a line's
//! fields keep their names.
//!
//! - `type`, `remote_ip` and `file` are read as `_type`, `_remote_ip` and `_file`; the latter two
//!   only if they are shared values, as Loginson's are, and not parts of a line.
//! - `level` is read as `level` and as `_level`: the line's own word is only in its raw text.
//! - `json.type`, `json._id` and similar names are read without the prefix.
//! - A line's own `_type` or `_level` in such files is read as `json._type` or `json._level`.
//!
//! Left out: `json.hostname` and other names of the syslog header, which exist beside the header's
//! fields.

use record::batch::BATCH_NAMES_MAX;

use super::pack::{Kind, Layout};

/// The level as a standard word: its current name, and its former one.
pub(super) const LEVEL: &str = "_level";
pub(super) const LEVEL_BEFORE: &str = "level";

/// Loginson's own fields: former name, current name, and the name of a line's own field.
const OWN: [(&str, &str, &str); 4] = [
    ("type", "_type", "json._type"),
    ("remote_ip", "_remote_ip", "json._remote_ip"),
    ("file", "_file", "json._file"),
    (LEVEL_BEFORE, LEVEL, "json._level"),
];
/// A line's fields that were stored under the prefix `json.`.
const MOVED: [&str; 8] = [
    "json.type",
    "json.remote_ip",
    "json.file",
    "json._id",
    "json._raw",
    "json._received",
    "json._stream",
    "json._note",
];

/// Renames the counted fields to the current names.
pub(super) fn rename_counted(fields: &mut [String]) {
    for field in fields {
        if field == "type" || field == LEVEL_BEFORE {
            field.insert(0, '_');
        }
    }
}

/// The field that has the counts of `name` in such files.
pub(super) fn counted(name: &str) -> &str {
    if name == LEVEL_BEFORE { LEVEL } else { name }
}

/// Renames the fields of a block to the current names; their number and order stay.
pub(super) fn rename(names: &mut [&str], layouts: &[Layout<'_>]) {
    let is_there = |names: &[&str], name: &str| names.contains(&name);
    for (_, now, own) in OWN {
        if let Some(index) = names.iter().position(|name| *name == now)
            && !is_there(names, own)
        {
            names[index] = own;
        }
    }
    for (before, now, _) in OWN.into_iter().filter(|(before, ..)| *before != LEVEL_BEFORE) {
        let Some(index) = names.iter().position(|name| *name == before) else { continue };
        if !is_there(names, now) && (before == "type" || is_shared(index, layouts)) {
            names[index] = now;
        }
    }
    for moved in MOVED {
        let name = moved.strip_prefix("json.").expect("all of them begin so");
        if let Some(index) = names.iter().position(|name| *name == moved)
            && !is_there(names, name)
        {
            names[index] = name;
        }
    }
}

/// The index of the `level` field that is read as `_level` too.
pub(super) fn level_copied(names: &[&str]) -> Option<usize> {
    let may = !names.contains(&LEVEL) && names.len() < BATCH_NAMES_MAX;
    names.iter().position(|name| *name == LEVEL_BEFORE).filter(|_| may)
}

/// Whether all layouts have the field as a shared value.
fn is_shared(index: usize, layouts: &[Layout<'_>]) -> bool {
    let fields = layouts.iter().flat_map(|layout| &layout.fields);
    let mut kinds = fields.filter(|(name, _)| usize::from(name.0) == index).map(|(_, kind)| kind);
    kinds.any(|kind| matches!(kind, Kind::Shared { .. }))
}
