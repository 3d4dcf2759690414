//! Landlock: which files the program may execute and read. It may write none.

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, Ruleset, RulesetAttr as _, RulesetCreatedAttr as _,
    RulesetError, RulesetStatus, Scope, path_beneath_rules,
};

use super::elf;
use super::{Part, Spec};

/// Rights that are taken away, if the kernel knows them: those of Linux 6.12.
const ABI_KNOWN: ABI = ABI::V6;

/// What a dynamically linked interpreter reads. Paths that do not exist are left out.
const READ_PATHS: [&str; 9] = [
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/etc/ld.so.cache",
    "/etc/ld-musl-x86_64.path",
    "/usr/share/zoneinfo",
    "/etc/localtime",
];

/// Restricts this process; the note says what is missing.
pub(super) fn restrict(spec: &Spec) -> (Part, String) {
    match try_restrict(spec) {
        Ok(RulesetStatus::FullyEnforced) => (Part::Full, String::new()),
        Ok(RulesetStatus::PartiallyEnforced) => {
            (Part::Partial, "this kernel knows some rights of landlock only".to_owned())
        }
        Ok(RulesetStatus::NotEnforced) => {
            (Part::Missing, "this kernel has no landlock, or it is off".to_owned())
        }
        Err(error) => (Part::Missing, error.to_string()),
    }
}

fn try_restrict(spec: &Spec) -> Result<RulesetStatus, RulesetError> {
    let read = AccessFs::ReadFile | AccessFs::ReadDir;
    let execute = AccessFs::ReadFile | AccessFs::Execute;
    let loader = elf::loader(&spec.interpreter);
    let readable =
        READ_PATHS.iter().map(Path::new).chain(spec.read_paths.iter().map(PathBuf::as_path));
    let status = Ruleset::default()
        .handle_access(AccessFs::from_all(ABI_KNOWN))?
        .handle_access(AccessNet::from_all(ABI_KNOWN))?
        .scope(Scope::from_all(ABI_KNOWN))?
        .create()?
        .add_rules(path_beneath_rules([&spec.interpreter], execute))?
        .add_rules(path_beneath_rules(loader, execute))?
        .add_rules(path_beneath_rules(readable, read))?
        .restrict_self()?;
    Ok(status.ruleset)
}
