//! FerretDB, a server of MongoDB's protocol, built from its Go module: no package registry has
//! MongoDB's own server. Its data is in PostgreSQL, as its makers advise: each node has one of its
//! own. Several nodes are independent servers: the driver's shards.

use std::path::{Path, PathBuf};
use std::process::Command;

use async_trait::async_trait;

use crate::options::{Known, Options, known, port};
use crate::servers::home::once;
use crate::servers::{Launch, Node, Place, Say, Server, ServerError, Site, go, io, places};
use crate::stores::postgres::server as postgres;

const MODULE: &str = "github.com/FerretDB/FerretDB";

/// Ports between that of a node and that of its PostgreSQL.
const POSTGRES_APART: u16 = 50;

/// Starts PostgreSQL and, once it answers, FerretDB; both end when FerretDB does, or by SIGTERM.
///
/// Its arguments are the directory of PostgreSQL's programs and of its data, its port, and the
/// program of FerretDB with its arguments.
const BOTH: &str = r#"bin=$1 data=$2 port=$3
shift 3
"$bin/postgres" -D "$data" -p "$port" -c listen_addresses=127.0.0.1 -c unix_socket_directories= &
postgres=$!
until "$bin/pg_isready" -q -h 127.0.0.1 -p "$port"; do
    kill -0 $postgres || exit 1
    sleep 0.1
done
"$@" &
server=$!
trap 'kill $server' TERM
wait $server
trap '' TERM
# The first may have been interrupted by the signal.
wait $server
kill -INT $postgres
wait $postgres
"#;

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
                    default: "postgresql",
                    help: "what stores the data: postgresql, a server that the lab starts with it, or sqlite, in the same process, which goes through all documents for each key",
                },
                Known {
                    name: "synchronous",
                    default: "full",
                    help: "when SQLite's log is on disk: full, before a write is acknowledged; normal, later",
                },
            ]
        }
    }

    fn install(&self, site: &Site, options: &Options, say: &Say) -> Result<(), ServerError> {
        crate::stores::mongodb::driver::CLIENT.install(say)?;
        if options.text("backend") != "sqlite" {
            postgres::install(site, say)?;
        }
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
        let places = places("ferretdb", site, options, nodes, &[POSTGRES_APART])?;
        let backend = options.choice("backend", &["postgresql", "sqlite"])?;
        let synchronous = options.choice("synchronous", &["full", "normal"])?;
        let programs = if backend == "sqlite" { None } else { Some(postgres::programs()?) };
        let program = software(site, options).join("ferretdb");
        let node = |mut place: Place| {
            let data = place.data.display();
            let arguments = [
                format!("--handler={backend}"),
                format!("--listen-addr={}", place.listen[0]),
                // No further port.
                "--debug-addr=-".to_owned(),
                "--telemetry=disable".to_owned(),
                "--log-level=WARN".to_owned(),
                format!("--state-dir={data}"),
                format!("--sqlite-url=file:{data}/?_pragma=synchronous({synchronous})"),
                format!("--postgresql-url=postgres://postgres@{}/postgres", place.listen[1]),
            ];
            let mut configuration = vec![("backend", backend)];
            let mut files = Vec::new();
            let launch = match &programs {
                None => {
                    place.listen.truncate(1);
                    configuration.push(("synchronous", synchronous));
                    Launch::new(&program, arguments)
                }
                Some(programs) => {
                    let script = site.run.join(format!("{}.sh", place.name));
                    let (own, port) = (postgres_data(&place.data), place.listen[1].port());
                    let all = [&script, programs, &own].map(|path| path.display().to_string());
                    let all = all.into_iter().chain([port.to_string()]);
                    let all = all.chain([program.display().to_string()]).chain(arguments);
                    files.push((script, BOTH.to_owned()));
                    Launch::new("/bin/sh", all).refuses_root()
                }
            };
            configuration.push(("gomemlimit", options.text("gomemlimit")));
            let launch = launch.variable("GOMEMLIMIT", options.text("gomemlimit"));
            let configuration = configuration.iter().map(|(name, value)| format!("{name}={value}"));
            Node { files, ..place.node(launch, configuration.collect()) }
        };
        Ok(places.map(node).collect())
    }

    fn prepare(&self, site: &Site, node: &Node) -> Result<(), ServerError> {
        match node.files.is_empty() {
            true => Ok(()),
            false => postgres::initialise(site, &postgres::programs()?, &postgres_data(&node.data)),
        }
    }
}

/// The directory of the data of a node's PostgreSQL.
fn postgres_data(data: &Path) -> PathBuf {
    data.join("postgres")
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
    fn a_node_has_its_own_database() {
        let site = Home::new(Path::new("/nowhere")).unwrap().site("ferretdb");
        let nodes = |backend: &str| {
            let given = [("backend".to_owned(), backend.to_owned())].into();
            let options = Options::read("ferretdb", Ferretdb.options(), &given).unwrap();
            Ferretdb.nodes(&site, &options, 3)
        };
        let sqlite = nodes("sqlite").unwrap();
        assert!(sqlite.iter().all(|node| node.listen.len() == 1 && node.files.is_empty()));
        assert!(nodes("mysql").is_err());
        // Where PostgreSQL is installed.
        if let Ok(nodes) = nodes("postgresql") {
            let ports = nodes.iter().flat_map(|node| &node.listen);
            assert_eq!(ports.collect::<std::collections::BTreeSet<_>>().len(), 6);
        }
    }
}
