//! Checks of the project itself: which crate may use which, which folder of a crate may use which,
//! rules for every file, decisions, links and the glossary.
//!
//! `cargo run -p xtask` prints all violations; the tests below run the same checks.
//! `cargo run -p xtask limits` writes the tables of `docs/limits.md`.

mod anchors;
mod decisions;
mod edges;
mod folders;
mod glossary;
mod limits;
mod tidy;

use std::path::{Path, PathBuf};

fn main() -> anyhow::Result<()> {
    let root = root();
    if std::env::args().nth(1).as_deref() == Some("limits") {
        return limits::write(&root);
    }
    let mut faults = edges::faults(&root)?;
    faults.extend(folders::faults(&root)?);
    faults.extend(tidy::faults(&root)?);
    faults.extend(decisions::faults(&root)?);
    faults.extend(anchors::faults(&root)?);
    faults.extend(glossary::faults(&root)?);
    faults.extend(limits::faults(&root)?);
    for fault in &faults {
        eprintln!("{fault}");
    }
    anyhow::ensure!(faults.is_empty(), "{} faults", faults.len());
    Ok(())
}

/// The checkout in which cargo runs this. Read at run time, because several checkouts may share
/// build results.
fn root() -> PathBuf {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").expect("run by cargo");
    Path::new(&manifest).parent().expect("xtask lies in the workspace").to_owned()
}

#[cfg(test)]
mod tests {
    #[test]
    fn crates_use_only_what_they_may() {
        assert_eq!(super::edges::faults(&super::root()).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn folders_use_only_what_they_may() {
        assert_eq!(super::folders::faults(&super::root()).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn decisions_are_in_order() {
        assert_eq!(super::decisions::faults(&super::root()).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn terms_are_defined_once() {
        assert_eq!(super::glossary::faults(&super::root()).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn limits_are_those_of_the_code() {
        assert_eq!(super::limits::faults(&super::root()).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn links_lead_to_headings() {
        assert_eq!(super::anchors::faults(&super::root()).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn files_are_tidy() {
        assert_eq!(super::tidy::faults(&super::root()).unwrap(), Vec::<String>::new());
    }
}
