//! The format of the blocks of a file, by its version.

use record::frame::OriginForm;

/// Version that this code writes. It reads that, and all from
/// [`SEALED_VERSION_MIN`](super::SEALED_VERSION_MIN) on.
pub const SEALED_VERSION: u16 = 5;
/// From this version on fields have their current names, see [`names`](super::names).
pub(super) const FIELDS_VERSION: u16 = 4;
/// From this version on lines have ids that are the same on every machine, and origins are tagged.
const NAMES_VERSION: u16 = 5;

/// The format of a file's blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    pub(crate) version: u16,
    /// The node that wrote the file: up to version 4, all line ids are of this node.
    pub(crate) node: u32,
}

impl Form {
    /// The format that this code writes.
    pub(crate) fn current() -> Form {
        Form { version: SEALED_VERSION, node: 0 }
    }

    /// Whether fields have the names of versions 1 to 3, see [`names`](super::names).
    pub(crate) fn has_old_names(self) -> bool {
        self.version < FIELDS_VERSION
    }

    /// Whether blocks store which node built the frame of each line, and its number there.
    pub(crate) fn has_names(self) -> bool {
        self.version >= NAMES_VERSION
    }

    pub(crate) fn origins(self) -> OriginForm {
        if self.has_names() { OriginForm::Tagged } else { OriginForm::Fixed }
    }
}
