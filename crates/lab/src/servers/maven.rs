//! Software for Java from Maven repositories: fetched by the `mvn` command, so that the user's own mirrors and proxies hold,
//! and run by a Java that is there.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Launch, Say, ServerError, Site, debian, io};
use crate::options::Options;

/// The plugin that fetches, in a version that is known to take the arguments used here.
const PLUGIN: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1";

/// Copies single files into `directory`; each is `group:name:version[:type[:classifier]]`. Blocks.
pub fn copy(
    site: &Site,
    directory: &Path,
    artifacts: &[&str],
    say: &Say,
) -> Result<(), ServerError> {
    let mvn = mvn()?;
    std::fs::create_dir_all(directory).map_err(io(directory))?;
    for artifact in artifacts {
        say(&format!("fetches {artifact}"));
        let launch = Launch::new(
            &mvn,
            [
                "-q".to_owned(),
                "-B".to_owned(),
                format!("{PLUGIN}:copy"),
                format!("-Dartifact={artifact}"),
                format!("-DoutputDirectory={}", directory.display()),
                "-Dmdep.overWriteReleases=false".to_owned(),
            ],
        );
        launch.run(&site.log.join("mvn.log"), directory)?;
    }
    Ok(())
}

/// Copies jars, each `group:name:version`, and all that they need at run time into `directory`. Blocks.
pub fn copy_with_dependencies(
    site: &Site,
    directory: &Path,
    artifacts: &[&str],
    say: &Say,
) -> Result<(), ServerError> {
    let mvn = mvn()?;
    std::fs::create_dir_all(directory).map_err(io(directory))?;
    say(&format!("fetches {} and what they need", artifacts.join(", ")));
    let project = directory.join("pom.xml");
    std::fs::write(&project, project_of(artifacts)).map_err(io(&project))?;
    let launch = Launch::new(
        &mvn,
        [
            "-q".to_owned(),
            "-B".to_owned(),
            "-f".to_owned(),
            project.display().to_string(),
            format!("{PLUGIN}:copy-dependencies"),
            "-DincludeScope=runtime".to_owned(),
            format!("-DoutputDirectory={}", directory.display()),
        ],
    );
    launch.run(&site.log.join("mvn.log"), directory)
}

/// A project that depends on `artifacts`.
fn project_of(artifacts: &[&str]) -> String {
    let mut text = String::from(
        "<project><modelVersion>4.0.0</modelVersion><groupId>local</groupId><artifactId>software</artifactId>\
         <version>1</version><dependencies>\n",
    );
    for artifact in artifacts {
        let parts: Vec<&str> = artifact.split(':').collect();
        let [group, name, version] = parts[..] else { panic!("{artifact} is group:name:version") };
        text.push_str(&format!(
            "<dependency><groupId>{group}</groupId><artifactId>{name}</artifactId><version>{version}</version></dependency>\n"
        ));
    }
    text.push_str("</dependencies></project>\n");
    text
}

fn mvn() -> Result<PathBuf, ServerError> {
    debian::program("mvn").ok_or_else(|| ServerError::Missing {
        what: "the command mvn is not there".to_owned(),
        remedy: "install Maven: sudo apt-get install maven".to_owned(),
    })
}

/// The `java` to run a server with: the option `java`, a path or a name, checked to be one of `versions`.
pub fn java(options: &Options, versions: &[u32]) -> Result<PathBuf, ServerError> {
    let name = options.text("java");
    let list = versions.iter().map(u32::to_string).collect::<Vec<_>>().join(" or ");
    let missing = |what: String| ServerError::Missing {
        what,
        remedy: format!(
            "this server needs Java {list}: sudo apt-get install openjdk-{}-jre-headless, or give its path with --set java=PATH",
            versions[0]
        ),
    };
    let path = match name.contains('/') {
        true => PathBuf::from(name),
        false => debian::program(name).ok_or_else(|| missing(format!("no command `{name}`")))?,
    };
    let output = Command::new(&path).arg("-version").output();
    let output = output.map_err(|e| missing(format!("{}: {e}", path.display())))?;
    match java_version(&String::from_utf8_lossy(&output.stderr)) {
        Some(version) if versions.contains(&version) => Ok(path),
        Some(version) => Err(missing(format!("{} is Java {version}", path.display()))),
        None => Err(missing(format!("{} does not tell its version", path.display()))),
    }
}

/// The first number of `version "17.0.15"`; releases before 9 wrote `1.8`.
fn java_version(text: &str) -> Option<u32> {
    let version = text.split_once("version \"")?.1.split('"').next()?;
    let mut parts = version.split(|c: char| !c.is_ascii_digit()).map(str::parse::<u32>);
    match parts.next()?.ok()? {
        1 => parts.next()?.ok(),
        number => Some(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_java() {
        for (text, version) in [
            ("openjdk version \"17.0.15\" 2025-04-15\nOpenJDK …", Some(17)),
            ("openjdk version \"21\" 2023-09-19", Some(21)),
            ("openjdk version \"25-ea\" 2025-09-16", Some(25)),
            ("java version \"1.8.0_292\"", Some(8)),
            ("command not found", None),
            ("version \"\"", None),
        ] {
            assert_eq!(java_version(text), version, "{text}");
        }
    }

    #[test]
    fn a_project_names_what_is_wanted() {
        let text = project_of(&["org.example:thing:1.2"]);
        assert!(text.contains(
            "<groupId>org.example</groupId><artifactId>thing</artifactId><version>1.2</version>"
        ));
    }
}
