//! Software from Python's registry, fetched by `pip`, so that the user's own settings apply.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::home::once;
use super::{Launch, Say, ServerError, Site, debian};
use crate::options::{Known, Options};

/// The option for the Python to use.
pub const PYTHON: Known =
    Known { name: "python", default: "python3", help: "a Python 3.9 or later with pip" };

/// Puts a package, `name==version`, without its dependencies into `directory`, unless that exists.
/// Blocks.
pub fn package_once(
    site: &Site,
    directory: &Path,
    package: &str,
    options: &Options,
    say: &Say,
) -> Result<(), ServerError> {
    let python = python(options)?;
    once(directory, |part| {
        say(&format!("fetches {package}"));
        let arguments = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
        let mut arguments = arguments.map(str::to_owned).to_vec();
        arguments.extend(["--no-deps", "--target"].map(str::to_owned));
        arguments.extend([part.display().to_string(), package.to_owned()]);
        Launch::new(&python, arguments).run(&site.log.join("pip.log"), part)
    })
}

/// The Python of the options, which has pip.
pub fn python(options: &Options) -> Result<PathBuf, ServerError> {
    let name = options.text(PYTHON.name);
    let path = match name.contains('/') {
        true => Some(PathBuf::from(name)),
        false => debian::program(name),
    };
    let has_pip = |python: &Path| {
        let output = Command::new(python).args(["-c", "import pip"]).output();
        output.is_ok_and(|output| output.status.success())
    };
    path.filter(|python| has_pip(python)).ok_or_else(|| ServerError::Missing {
        what: format!("`{name}` is no Python that has pip"),
        remedy: "install them: sudo apt-get install python3-pip, or give a path with --set STORE.python=PATH"
            .to_owned(),
    })
}
