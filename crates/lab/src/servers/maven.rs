//! Java software from Maven repositories: downloaded by the `mvn` command, so that the user's own
//! mirrors and proxies apply, and run by an installed Java.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::home::once;
use super::{Known, Launch, Say, ServerError, Site, debian, io};
use crate::options::{OptionError, Options};

/// The plugin for downloads, in a version that accepts the arguments used here.
const PLUGIN: &str = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1";

/// The option of a Java server for its heap.
pub const HEAP: Known = Known { name: "heap", default: "1g", help: "heap of each node" };
/// The option of a Java server for its memory besides the heap.
pub const DIRECT: Known =
    Known { name: "direct", default: "512m", help: "memory outside the heap, of each node" };
/// The option of a Java server for its Java: see [`java`].
pub const JAVA: Known = Known { name: "java", default: "java", help: "a Java 17" };

/// Copies jars, each `group:name:version`, and all their run-time dependencies into `directory`.
/// Blocks.
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

/// Unpacks an archive, `group:name:version:type`, into `directory`, unless that exists. Blocks.
pub fn unpack_once(
    site: &Site,
    directory: &Path,
    artifact: &str,
    say: &Say,
) -> Result<(), ServerError> {
    once(directory, |part| {
        say(&format!("fetches {artifact}"));
        // Without a project, the plugin would write its notes below the current directory.
        let project = part.join("pom.xml");
        std::fs::write(&project, project_of(&[])).map_err(io(&project))?;
        let launch = Launch::new(
            mvn()?,
            [
                "-q".to_owned(),
                "-B".to_owned(),
                "-f".to_owned(),
                project.display().to_string(),
                format!("{PLUGIN}:unpack"),
                format!("-Dartifact={artifact}"),
                format!("-DoutputDirectory={}", part.display()),
            ],
        );
        launch.run(&site.log.join("mvn.log"), part)
    })
}

/// Like [`copy_with_dependencies`], unless `directory` exists. Blocks.
pub fn copy_once(
    site: &Site,
    directory: &Path,
    artifact: &str,
    say: &Say,
) -> Result<(), ServerError> {
    once(directory, |part| copy_with_dependencies(site, part, &[artifact], say))
}

/// An option that limits memory, in Java's syntax.
pub fn memory<'a>(options: &'a Options, name: &str) -> Result<&'a str, OptionError> {
    let text = options.text(name);
    let digits = text.strip_suffix(['m', 'g']).unwrap_or_default();
    match digits.parse::<u32>() {
        Ok(1..) => Ok(text),
        _ => Err(options.wrong(name, "it takes megabytes or gigabytes, as 512m or 2g")),
    }
}

/// Arguments in a file, in Java's syntax: each in quotes, in which a backslash escapes the next
/// character.
pub(crate) fn argument_file(arguments: &[String]) -> String {
    let quote = |argument: &String| {
        format!("\"{}\"\n", argument.replace('\\', "\\\\").replace('"', "\\\""))
    };
    arguments.iter().map(quote).collect()
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

/// The `java` to run a server with: the option `java`, a path or a name, checked to have one of the
/// `versions`.
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
    use crate::options::Known;

    #[test]
    fn arguments_are_quoted() {
        let arguments = ["a b".to_owned(), "c\"\\".to_owned()];
        assert_eq!(argument_file(&arguments), "\"a b\"\n\"c\\\"\\\\\"\n");
    }

    #[test]
    fn memory_has_a_unit() {
        const HEAP: &[Known] = &[Known { name: "heap", default: "1g", help: "" }];
        for (text, taken) in
            [("512m", true), ("2g", true), ("0g", false), ("1", false), ("g", false), ("1x", false)]
        {
            let given = [("heap".to_owned(), text.to_owned())].into();
            let options = Options::read("some", HEAP, &given).unwrap();
            assert_eq!(memory(&options, "heap").is_ok(), taken, "{text}");
        }
    }

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
