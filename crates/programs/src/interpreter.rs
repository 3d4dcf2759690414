//! The AWK that runs programs: which one there is, and how each is called.
//!
//! All that differs between them stands in [`CALLS`]. The program goes to the interpreter as an
//! argument, not as a file: what was checked is what runs, and the sandbox need not let the program
//! read the folder of programs.
//!
//! Numbers are printed with 15 digits (`OFMT`, `CONVFMT`) instead of AWK's six: mawk prints whole
//! numbers from 2^31 on in these formats, so that a sum of bytes would lose its last digits.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::block::Input;
use crate::definition::Definition;

/// Digits of numbers that are printed or joined with text.
const NUMBER_FORMAT: &str = "%.15g";

/// An implementation of AWK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// GNU AWK.
    Gawk,
    /// Mike Brennan's AWK, now of Thomas Dickey.
    Mawk,
    /// The AWK in busybox.
    Busybox,
    /// The one true AWK, of Brian Kernighan.
    Bwk,
}

/// How one implementation is called.
struct Call {
    kind: Kind,
    /// Name of the binary.
    binary: &'static str,
    /// Package of Debian that has it.
    package: &'static str,
    /// Arguments in front of all others.
    first: &'static [&'static str],
    /// Further arguments that forbid commands and files, if the program bears them.
    sandbox: &'static [&'static str],
    /// Variables of the environment besides `LC_ALL` and `TZ`.
    environment: &'static [(&'static str, &'static str)],
}

/// In the order of preference. gawk reads pages of its pipe, unless its environment asks for more
/// at a time.
const CALLS: [Call; 4] = [
    Call {
        kind: Kind::Gawk,
        binary: "gawk",
        package: "gawk",
        first: &[],
        sandbox: &["--sandbox"],
        environment: &[("AWKBUFSIZE", "65536")],
    },
    Call {
        kind: Kind::Mawk,
        binary: "mawk",
        package: "mawk",
        first: &[],
        sandbox: &[],
        environment: &[],
    },
    Call {
        kind: Kind::Busybox,
        binary: "busybox",
        package: "busybox",
        first: &["awk"],
        sandbox: &[],
        environment: &[],
    },
    Call {
        kind: Kind::Bwk,
        binary: "original-awk",
        package: "original-awk",
        first: &[],
        sandbox: &[],
        environment: &[],
    },
];

impl Kind {
    /// All kinds, the preferred first.
    pub const ALL: [Self; 4] = [Self::Gawk, Self::Mawk, Self::Busybox, Self::Bwk];

    /// Its name, that of its binary.
    pub fn name(self) -> &'static str {
        self.call().binary
    }

    /// The package of Debian that has it.
    pub fn package(self) -> &'static str {
        self.call().package
    }

    fn call(self) -> &'static Call {
        CALLS.iter().find(|call| call.kind == self).expect("the table has all kinds")
    }
}

/// No AWK was found.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "no AWK was found in {searched}; install gawk (apt-get install gawk, dnf install gawk, apk add gawk)"
)]
pub struct NoInterpreter {
    searched: String,
}

/// A value that the program has as a variable from its start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Name of the variable in the program.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// An AWK on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interpreter {
    kind: Kind,
    path: PathBuf,
}

impl Interpreter {
    /// The best AWK in `folders`; usually [`Interpreter::system_folders`].
    pub fn find(folders: &[PathBuf]) -> Result<Self, NoInterpreter> {
        let known = Kind::ALL.iter().find_map(|kind| Self::find_kind(*kind, folders));
        // Systems without a name of the table have an `awk` of another make: it is called with the
        // options of POSIX alone, like that of Kernighan.
        let any = || binary(folders, "awk").map(|path| Self { kind: Kind::Bwk, path });
        known.or_else(any).ok_or_else(|| {
            let names: Vec<String> = folders.iter().map(|f| f.display().to_string()).collect();
            NoInterpreter { searched: names.join(", ") }
        })
    }

    /// The AWK at a path. Its kind is known by its name; one of another name is called with the
    /// options of POSIX alone.
    pub fn at(path: &Path) -> Result<Self, NoInterpreter> {
        let folder = path.parent().unwrap_or(Path::new("/"));
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let kind = Kind::ALL.into_iter().find(|kind| kind.call().binary == name);
        binary(&[folder.to_owned()], name)
            .map(|path| Self { kind: kind.unwrap_or(Kind::Bwk), path })
            .ok_or_else(|| NoInterpreter { searched: path.display().to_string() })
    }

    /// The AWK of this kind, if it is in `folders`.
    pub fn find_kind(kind: Kind, folders: &[PathBuf]) -> Option<Self> {
        binary(folders, kind.call().binary).map(|path| Self { kind, path })
    }

    /// Where systems keep an AWK.
    pub fn system_folders() -> Vec<PathBuf> {
        ["/usr/local/bin", "/usr/bin", "/bin", "/run/current-system/sw/bin"]
            .map(PathBuf::from)
            .to_vec()
    }

    /// Which implementation it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The binary, with links resolved.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Variables of the environment that it needs besides `LC_ALL` and `TZ`.
    pub(crate) fn environment(&self) -> &'static [(&'static str, &'static str)] {
        self.kind.call().environment
    }

    /// The arguments that run a program.
    pub(crate) fn arguments(
        &self,
        definition: &Definition,
        variables: &[Variable],
    ) -> Vec<OsString> {
        let call = self.kind.call();
        let mut arguments: Vec<OsString> = call.first.iter().map(OsString::from).collect();
        if definition.has_gawk_sandbox {
            arguments.extend(call.sandbox.iter().map(OsString::from));
        }
        if matches!(definition.input, Input::Fields(_)) {
            arguments.extend(["-F", "\\t"].map(OsString::from));
        }
        let formats = ["OFMT", "CONVFMT"].map(|name| format!("{name}={NUMBER_FORMAT}"));
        let given = variables.iter().map(|v| format!("{}={}", v.name, escape(&v.value)));
        for assignment in formats.into_iter().chain(given) {
            arguments.extend(["-v".into(), assignment.into()]);
        }
        arguments.extend(["--".into(), OsString::from(&definition.text)]);
        arguments
    }
}

/// AWK reads escapes in the value of `-v`; a newline is not allowed there.
fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('\n', "\\n").replace('\0', "")
}

fn binary(folders: &[PathBuf], name: &str) -> Option<PathBuf> {
    let is_runnable = |path: &PathBuf| {
        path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    };
    let path = folders.iter().map(|folder| folder.join(name)).find(is_runnable)?;
    path.canonicalize().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn definition(head: &str) -> Definition {
        Definition::parse("t", &format!("# type: t\n{head}\n{{ n++ }}")).unwrap()
    }

    fn arguments(kind: Kind, head: &str) -> String {
        let interpreter = Interpreter { kind, path: PathBuf::from("/awk") };
        let variables = [Variable { name: "type".into(), value: "a\\b".into() }];
        let all = interpreter.arguments(&definition(head), &variables);
        let all: Vec<&str> = all[..all.len() - 1].iter().map(|a| a.to_str().unwrap()).collect();
        all.join(" ")
    }

    #[test]
    fn each_is_called_in_its_way() {
        let rest = "-v OFMT=%.15g -v CONVFMT=%.15g -v type=a\\\\b --";
        assert_eq!(arguments(Kind::Gawk, ""), format!("--sandbox {rest}"));
        assert_eq!(arguments(Kind::Gawk, "# gawk-sandbox: off"), rest);
        assert_eq!(arguments(Kind::Mawk, ""), rest);
        assert_eq!(arguments(Kind::Busybox, "# fields: a b"), format!("awk -F \\t {rest}"));
        assert_eq!(arguments(Kind::Bwk, ""), rest);
    }

    #[test]
    fn a_missing_awk_names_the_remedy() {
        let error = Interpreter::find(&[PathBuf::from("/nowhere")]).unwrap_err();
        assert!(error.to_string().contains("apt-get install gawk"), "{error}");
    }
}
