//! The stores of the user's own that this process knows.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::description::{Description, leak};
use super::driver::Kind;
use super::server::OwnServer;
use super::{driver, process};
use crate::driver::Scans;
use crate::sink::Wire;
use crate::stores::{Contract, STORES, Store};

/// Limit of the stores of the user's own. Each has a place for its ports.
const OWN_MAX: usize = 16;
/// Limit of a name, in characters.
const NAME_CHARS_MAX: usize = 32;
/// How long a program may take for its description.
const DESCRIBE_TIMEOUT: Duration = Duration::from_secs(60);

/// A store of the user's own.
pub struct Own {
    /// The program.
    pub program: PathBuf,
    /// What its driver has to know.
    pub kind: Kind,
    store: Store,
}

static ADDED: Mutex<Vec<&'static Own>> = Mutex::new(Vec::new());

/// The stores that were added, in the order in which they were.
pub fn added() -> impl Iterator<Item = &'static Store> {
    all().into_iter().map(|own| &own.store)
}

/// The store with this name.
pub fn find(name: &str) -> Option<&'static Own> {
    all().into_iter().find(|own| own.kind.name == name)
}

fn all() -> Vec<&'static Own> {
    ADDED.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

/// Adds the store `NAME=PROGRAM`, or finds it if it was added before. The program describes it.
pub async fn add(text: &str) -> Result<&'static Store, String> {
    let (name, path) = text.split_once('=').ok_or_else(|| {
        format!("`{text}` names no store; write NAME=PROGRAM, as sqlite=./sqlite.py")
    })?;
    check_name(name)?;
    let wrong = |why: String| format!("{path}: {why}");
    let program = Path::new(path).canonicalize().map_err(|e| wrong(e.to_string()))?;
    if let Some(own) = find(name) {
        return match own.program == program {
            true => Ok(&own.store),
            false => Err(format!("{name} is {} already; take another name", own.program.display())),
        };
    }
    let description = describe(&program).await.map_err(wrong)?;
    let mut added = ADDED.lock().unwrap_or_else(PoisonError::into_inner);
    if added.len() >= OWN_MAX {
        return Err(format!("there are {OWN_MAX} stores of your own already, which is the limit"));
    }
    let own = own(name, program, &description, added.len());
    added.push(own);
    Ok(&own.store)
}

fn own(name: &str, program: PathBuf, of: &Description, place: usize) -> &'static Own {
    let name = leak(name);
    let options = of.known();
    let server = Box::leak(Box::new(OwnServer::new(name, program.clone(), place)));
    Box::leak(Box::new(Own {
        program,
        kind: Kind {
            name,
            abilities: of.abilities.clone().leak(),
            scans: of.scans,
            reads_own_writes: of.reads_own_writes,
            options,
            versions_tested: &[],
            client: None,
            is_cluster: false,
        },
        store: Store {
            name,
            open: driver::open,
            options,
            durability: of.levels(),
            states: &[],
            server: Some(server),
            wire: Wire::Json,
            contract: Contract {
                ordered: of.scans != Scans::Unordered,
                variants: &[&[]],
                spread: &[],
                server: &[],
                long: false,
            },
        },
    }))
}

fn check_name(name: &str) -> Result<(), String> {
    let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '_';
    if name.is_empty() || name.len() > NAME_CHARS_MAX || !name.chars().all(is_plain) {
        return Err(format!(
            "`{name}` is no name of a store: it has 1 to {NAME_CHARS_MAX} lower-case letters, \
             digits, - and _"
        ));
    }
    match STORES.iter().any(|store| store.name == name) {
        true => Err(format!("the lab has a store {name} already; take another name")),
        false => Ok(()),
    }
}

async fn describe(program: &Path) -> Result<Description, String> {
    let mut command = tokio::process::Command::new(program);
    command.arg(process::DESCRIBE).stdin(Stdio::null()).kill_on_drop(true);
    let output = tokio::time::timeout(DESCRIBE_TIMEOUT, command.output()).await;
    let output = output
        .map_err(|_| format!("`describe` took longer than {} s", DESCRIBE_TIMEOUT.as_secs()))?
        .map_err(|e| format!("it cannot be started: {e}; is it executable (chmod +x)?"))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        let errors = crate::driver::short_message(&errors);
        return Err(format!("`describe` failed ({}): {errors}", output.status));
    }
    Description::parse(&output.stdout)
        .map_err(|why| format!("what `describe` prints is no description: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_cannot_be_added_is_refused_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let script = |name: &str, text: &str| {
            use std::os::unix::fs::PermissionsExt;
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
            path.display().to_string()
        };
        let fails = script("fails", "#!/bin/sh\necho no such module >&2\nexit 3\n");
        let talks = script("talks", "#!/bin/sh\necho hello\n");
        for (text, why) in [
            ("sqlite".to_owned(), "NAME=PROGRAM"),
            (format!("Sqlite={talks}"), "no name of a store"),
            (format!("a@b={talks}"), "no name of a store"),
            (format!("redis={talks}"), "has a store redis already"),
            ("own=/no/such/program".to_owned(), "No such file"),
            (format!("own={}", folder.path().display()), "is it executable"),
            (format!("own={fails}"), "no such module"),
            (format!("own={talks}"), "no description"),
        ] {
            let error = add(&text).await.err().expect("refused");
            assert!(error.contains(why), "{text}: {error}");
        }
        assert!(find("own").is_none());
    }
}
