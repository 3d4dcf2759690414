//! Programs in Go, built from their modules by the `go` command, so that the user's own module
//! proxy and cache apply.

use std::path::{Path, PathBuf};

use super::home::once;
use super::{Launch, Say, ServerError, Site, debian};

/// Where Go's own installer puts it, which is often not in `PATH`.
const USUAL: &str = "/usr/local/go/bin/go";

/// A program to build.
pub(crate) struct Program {
    /// The package of the program, in its module.
    pub package: &'static str,
    /// The string variable of a package that holds the version: `go install` sets none.
    pub version_variable: &'static str,
    /// The oldest Go that builds it, for messages.
    pub go: &'static str,
}

/// Builds a program of a version into `directory`, unless that exists. Takes a minute. Blocks.
pub(crate) fn build_once(
    site: &Site,
    directory: &Path,
    program: &Program,
    version: &str,
    say: &Say,
) -> Result<(), ServerError> {
    once(directory, |part| {
        let otherwise = ", or name a program that you have: --set bin=PATH";
        let go = command(program.package, program.go, otherwise)?;
        let package = format!("{}@{version}", program.package);
        say(&format!("builds {package}"));
        let arguments = [
            "install".to_owned(),
            format!("-ldflags=-X={}={version}", program.version_variable),
            package,
        ];
        let launch = Launch::new(go, arguments).variable("GOBIN", part.display().to_string());
        launch.run(&site.log.join("go.log"), part)
    })
}

/// The command `go`; `builds` and `otherwise`, another remedy, are for the message if it is
/// missing, and `oldest` is the oldest release that builds it.
pub(crate) fn command(builds: &str, oldest: &str, otherwise: &str) -> Result<PathBuf, ServerError> {
    let usual = || Some(PathBuf::from(USUAL)).filter(|path| path.is_file());
    debian::program("go").or_else(usual).ok_or_else(|| ServerError::Missing {
        what: format!("the command go is not there, which builds {builds}"),
        remedy: format!("install Go {oldest} or later (https://go.dev/dl/){otherwise}"),
    })
}
