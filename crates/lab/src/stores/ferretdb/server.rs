//! FerretDB, a server of MongoDB's protocol, built from its Go module: no package registry has
//! MongoDB's own server. Several nodes are independent servers: the driver's shards.

use std::path::{Path, PathBuf};
use std::process::Command;

use async_trait::async_trait;

use crate::options::{Known, Options, known, port};
use crate::servers::home::once;
use crate::servers::{Launch, Node, Place, Say, Server, ServerError, Site, go, io, places};

const MODULE: &str = "github.com/FerretDB/FerretDB";

pub(crate) struct Ferretdb;

#[async_trait]
impl Server for Ferretdb {
    fn name(&self) -> &'static str {
        "ferretdb"
    }

    fn options(&self) -> &'static [Known] {
        const {
            &[
                known("version", "v1.24.0", "version of the Go module, before 2"),
                port("17017"),
                Known {
                    name: "gomemlimit",
                    default: "1GiB",
                    help: "memory of each node, which Go exceeds only if it has to (GOMEMLIMIT)",
                },
                Known {
                    name: "backend",
                    default: "sqlite",
                    help: "what stores the data: sqlite, in the same process, or postgresql",
                },
                Known {
                    name: "synchronous",
                    default: "full",
                    help: "when SQLite's log is on disk: full, before a write is acknowledged; normal, later",
                },
                Known {
                    name: "postgresql_url",
                    default: "postgres://postgres@127.0.0.1:15432/postgres",
                    help: "a server that runs, for the backend postgresql; without a password",
                },
            ]
        }
    }

    fn install(&self, site: &Site, options: &Options, say: &Say) -> Result<(), ServerError> {
        crate::stores::mongodb::driver::CLIENT.install(say)?;
        once(&software(site, options), |part| {
            let go = go::command("FerretDB", "1.22", "")?;
            let module = format!("{MODULE}@{}", options.text("version"));
            say(&format!("fetches and builds {module}, which takes minutes"));
            let source = part.join("source");
            let copy = [downloaded(site, &go, &module)?, source.display().to_string()];
            let copy = ["-r", "--no-preserve=mode"].map(str::to_owned).into_iter().chain(copy);
            Launch::new("cp", copy).run(&site.log.join("cp.log"), part)?;
            // The module lacks this file, and the program ends without it.
            let version = source.join("build/version/version.txt");
            std::fs::write(&version, options.text("version")).map_err(io(&version))?;
            let program = part.join("ferretdb");
            let (from, to) = (source.display().to_string(), program.display().to_string());
            // The program ends as well if it finds the revision of a repository around it.
            let build =
                ["build", "-C", &from, "-trimpath", "-buildvcs=false", "-o", &to, "./cmd/ferretdb"];
            Launch::new(&go, build).run(&site.log.join("go.log"), part)?;
            std::fs::remove_dir_all(&source).map_err(io(&source))
        })
    }

    fn nodes(&self, site: &Site, options: &Options, nodes: u32) -> Result<Vec<Node>, ServerError> {
        let places = places("ferretdb", site, options, nodes, &[])?;
        let backend = options.choice("backend", &["sqlite", "postgresql"])?;
        let synchronous = options.choice("synchronous", &["full", "normal"])?;
        if backend == "postgresql" && nodes > 1 {
            let reason = "nodes would share the tables of one database; start one node";
            return Err(options.wrong("backend", reason).into());
        }
        let program = software(site, options).join("ferretdb");
        let node = |place: Place| {
            let data = place.data.display();
            let storage = match backend {
                "sqlite" => vec![("synchronous", synchronous)],
                _ => vec![("postgresql_url", options.text("postgresql_url"))],
            };
            let chosen = [("backend", backend), ("gomemlimit", options.text("gomemlimit"))];
            let configuration = chosen.into_iter().chain(storage);
            let arguments = [
                format!("--handler={backend}"),
                format!("--listen-addr={}", place.listen[0]),
                // No second port.
                "--debug-addr=-".to_owned(),
                "--telemetry=disable".to_owned(),
                "--log-level=WARN".to_owned(),
                format!("--state-dir={data}"),
                format!("--sqlite-url=file:{data}/?_pragma=synchronous({synchronous})"),
                format!("--postgresql-url={}", options.text("postgresql_url")),
            ];
            let launch = Launch::new(&program, arguments);
            let launch = launch.variable("GOMEMLIMIT", options.text("gomemlimit"));
            place.node(
                launch,
                configuration.map(|(name, value)| format!("{name}={value}")).collect(),
            )
        };
        Ok(places.map(node).collect())
    }
}

fn software(site: &Site, options: &Options) -> PathBuf {
    site.software.join(options.text("version"))
}

/// Downloads a module into Go's own cache; returns its directory.
fn downloaded(site: &Site, go: &Path, module: &str) -> Result<String, ServerError> {
    let arguments = ["mod", "download", "-json", module];
    let output = Command::new(go).args(arguments).output().map_err(io(go))?;
    let log = site.log.join("go-download.log");
    std::fs::create_dir_all(&site.log).map_err(io(&site.log))?;
    std::fs::write(&log, [&output.stdout[..], &output.stderr].concat()).map_err(io(&log))?;
    directory_of(&output.stdout).map_err(|reason| ServerError::Command {
        command: Launch::new(go, arguments).to_string(),
        log: log.display().to_string(),
        tail: reason,
    })
}

/// The directory in the JSON that `go mod download` prints, or its error.
fn directory_of(printed: &[u8]) -> Result<String, String> {
    let module: serde_json::Value =
        serde_json::from_slice(printed).map_err(|e| format!("it printed no JSON: {e}"))?;
    let field = |name: &str| module[name].as_str().map(str::to_owned);
    field("Dir").ok_or_else(|| field("Error").unwrap_or_else(|| "it named no directory".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servers::Home;

    #[test]
    fn go_prints_where_a_module_is() {
        assert_eq!(
            directory_of(br#"{"Path":"m","Dir":"/cache/m@v1"}"#),
            Ok("/cache/m@v1".to_owned())
        );
        for (printed, error) in [
            (&br#"{"Path":"m","Error":"not found"}"#[..], "not found"),
            (br#"{"Path":"m","Dir":5}"#, "no directory"),
            (b"[]", "no directory"),
            (b"", "no JSON"),
        ] {
            assert!(directory_of(printed).unwrap_err().contains(error), "{error}");
        }
    }

    #[test]
    fn nodes_do_not_share_a_database() {
        let site = Home::new(Path::new("/nowhere")).unwrap().site("ferretdb");
        let nodes = |backend: &str, nodes: u32| {
            let given = [("backend".to_owned(), backend.to_owned())].into();
            let options = Options::read("ferretdb", Ferretdb.options(), &given).unwrap();
            Ferretdb.nodes(&site, &options, nodes)
        };
        assert_eq!(nodes("sqlite", 3).unwrap().len(), 3);
        assert_eq!(nodes("postgresql", 1).unwrap().len(), 1);
        assert!(nodes("postgresql", 2).is_err() && nodes("mysql", 1).is_err());
    }
}
