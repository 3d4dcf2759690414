//! The secret of stores and collectors: from a file or a variable, never from the command line,
//! which other users can read.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, ensure};
use collector::node::Secret;

/// The variable that holds the secret itself.
pub const VARIABLE: &str = "LOGINSON_NODE_SECRET";

/// Reads the secret from the file of `node_secret_file`, or takes the variable's value.
pub fn node_secret(file: &str, variable: Option<OsString>) -> Result<Option<Arc<Secret>>> {
    let variable = variable.filter(|value| !value.is_empty());
    let secret = match (file, variable) {
        ("off", None) => return Ok(None),
        ("off", Some(value)) => {
            Secret::new(value.as_bytes()).map_err(|error| anyhow!("{VARIABLE}: {error}"))
        }
        (path, variable) => {
            ensure!(
                variable.is_none(),
                "node_secret_file and {VARIABLE} are both set; leave one of them out"
            );
            let text = std::fs::read(Path::new(path))
                .with_context(|| format!("node_secret_file: cannot read {path}"))?;
            Secret::new(&text).map_err(|error| anyhow!("node_secret_file: {path}: {error}"))
        }
    };
    Ok(Some(Arc::new(secret?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_secret_comes_from_one_source() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str, text: &str| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let long = path("long", "0123456789abcdef\n");
        let (short, none) = (path("short", "secret\n"), dir.path().join("none"));
        let variable = |text: &str| Some(OsString::from(text));
        let has = |file: &str, variable| node_secret(file, variable).unwrap().is_some();
        assert!(!has("off", None) && !has("off", variable("")));
        assert!(has(&long, None) && has(&long, variable("")));
        assert!(has("off", variable("0123456789abcdef")));
        for (file, variable, expected) in [
            (long.as_str(), variable("0123456789abcdef"), "both set"),
            (&short, None, "openssl rand"),
            (none.to_str().unwrap(), None, "cannot read"),
            ("off", variable("secret"), VARIABLE),
        ] {
            let error = format!("{:#}", node_secret(file, variable).unwrap_err());
            assert!(error.contains(expected) && !error.contains("0123"), "{error}");
        }
    }
}
