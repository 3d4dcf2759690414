//! Names of files in the directory of segments.

/// Name of a hot segment's file.
pub(crate) fn hot_name(id: u64) -> String {
    format!("{id}.hot")
}

/// Name of a sealed segment's file.
pub(crate) fn sealed_name(id: u64) -> String {
    format!("{id}.sealed")
}

/// Name of a sealed segment's file until it is complete.
pub(crate) fn sealing_name(id: u64) -> String {
    format!("{id}.sealing")
}

/// What is added to the name of a file that is damaged.
pub(crate) const DAMAGED: &str = "damaged";

/// What is added, with a number, to the name of a hot segment for a copy of its torn end.
pub(crate) const TORN: &str = "torn";

/// Files of the directory of segments, by kind and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FileKind {
    Hot,
    Sealed,
    /// A sealed segment that is not complete.
    Sealing,
}

/// The kind and number of a file by its name; None when the store gives no file such a name.
pub(crate) fn file_kind(name: &str) -> Option<(FileKind, u64)> {
    let (id, extension) = name.split_once('.')?;
    let kind = match extension {
        "hot" => FileKind::Hot,
        "sealed" => FileKind::Sealed,
        "sealing" => FileKind::Sealing,
        _ => return None,
    };
    let number: u64 = id.parse().ok()?;
    (number > 0 && number.to_string() == id).then_some((kind, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_that_we_give_are_ours() {
        for (name, expected) in [
            ("1.hot", Some((FileKind::Hot, 1))),
            ("12.sealed", Some((FileKind::Sealed, 12))),
            ("12.sealing", Some((FileKind::Sealing, 12))),
            ("0.hot", None),
            ("01.hot", None),
            ("+1.hot", None),
            ("1.hot.bak", None),
            ("1.hot.damaged", None),
            ("1.hot.torn1", None),
            ("1.cold", None),
            ("hot", None),
        ] {
            assert_eq!(file_kind(name), expected, "{name}");
        }
        assert_eq!(file_kind(&sealed_name(7)), Some((FileKind::Sealed, 7)));
        assert_eq!(file_kind(&sealing_name(7)), Some((FileKind::Sealing, 7)));
        assert_eq!(file_kind(&hot_name(7)), Some((FileKind::Hot, 7)));
    }
}
