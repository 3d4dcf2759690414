//! The root of a container without an image: it is made of the host's own directories, read-only,
//! so that the same software runs inside and outside.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use super::{Isolation, ServerError};
use crate::servers::io;

/// Directories of the host with the software of the system.
const SYSTEM: [&str; 3] = ["usr", "etc", "opt"];

/// Empty directories that are mount points or expected by programs.
const EMPTY: [&str; 8] = ["proc", "sys", "dev", "tmp", "var", "root", "run", "home"];

/// Links of a merged /usr, or directories of their own on other systems.
const LINKS: [&str; 6] = ["bin", "sbin", "lib", "lib32", "lib64", "libx32"];

/// Whether a container sees this directory of the host anyway.
pub(super) fn is_of_system(path: &Path) -> bool {
    let mut names = path.components().skip(1);
    let first = names.next().and_then(|name| name.as_os_str().to_str());
    first.is_none_or(|name| SYSTEM.contains(&name) || LINKS.contains(&name))
}

/// The root of a container.
pub(super) fn of(isolation: &Isolation) -> PathBuf {
    isolation.directory.join("root")
}

/// Makes the root, with mount points and links. Returns the names of the directories of the host
/// that are mounted in it, read-only.
pub(super) fn make(isolation: &Isolation) -> Result<Vec<&'static str>, ServerError> {
    let root = of(isolation);
    for directory in SYSTEM.iter().chain(&EMPTY).map(|name| root.join(name)) {
        std::fs::create_dir_all(&directory).map_err(io(&directory))?;
    }
    let mut mounted = Vec::new();
    for name in LINKS {
        let (path, inside) = (Path::new("/").join(name), root.join(name));
        match std::fs::read_link(&path) {
            Ok(target) => match symlink(&target, &inside) {
                Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => {
                    return Err(io(&inside)(e));
                }
                _ => {}
            },
            Err(_) if path.is_dir() => {
                std::fs::create_dir_all(&inside).map_err(io(&inside))?;
                mounted.push(name);
            }
            Err(_) => {}
        }
    }
    mounted.extend(SYSTEM.iter().filter(|name| Path::new("/").join(name).is_dir()));
    Ok(mounted)
}

/// The directories that the container sees at the same path, and whether it may write to them.
/// Software of the system is not in the directory of the store, which then is missing.
pub(super) fn shared(isolation: &Isolation) -> Vec<&(PathBuf, bool)> {
    isolation.shared.iter().filter(|(path, _)| path.is_dir()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn software_of_the_system_is_inside_anyway() {
        for (path, inside) in [
            ("/usr/lib/jvm/java", true),
            ("/lib/x", true),
            ("/opt/store", true),
            ("/", true),
            ("/home/me/bin", false),
            ("/usrlocal", false),
        ] {
            assert_eq!(is_of_system(Path::new(path)), inside, "{path}");
        }
    }
}
