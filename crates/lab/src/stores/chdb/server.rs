//! chDB: the current engine of ClickHouse, a Python package, behind an HTTP server of the lab's own
//! (`front.py`) that runs one query at a time. No registry of packages has a current ClickHouse
//! server. Several nodes are independent: the driver's shards.

use std::path::PathBuf;

use async_trait::async_trait;

use crate::options::{Known, Options, known, port};
use crate::servers::{Launch, Node, Place, Say, Server, ServerError, Site, places, python};

const FRONT: &str = include_str!("front.py");

pub(crate) struct Chdb;

#[async_trait]
impl Server for Chdb {
    fn name(&self) -> &'static str {
        "chdb"
    }

    fn options(&self) -> &'static [Known] {
        const {
            &[
                known("version", "26.9.0", "version of the Python package chdb-core"),
                port("18223"),
                python::PYTHON,
                Known { name: "memory_mb", default: "1024", help: "limit of the engine, MiB" },
                Known {
                    name: "cache_mb",
                    default: "256",
                    help: "limit of its cache of marks, and of that of primary indexes, MiB",
                },
            ]
        }
    }

    fn install(&self, site: &Site, options: &Options, say: &Say) -> Result<(), ServerError> {
        // Its dependencies serve data frames, which are not used here.
        let package = format!("chdb-core=={}", options.text("version"));
        python::package_once(site, &software(site, options), &package, options, say)
    }

    fn nodes(&self, site: &Site, options: &Options, nodes: u32) -> Result<Vec<Node>, ServerError> {
        let places = places("chdb", site, options, nodes, &[])?;
        let memory = options.number("memory_mb", 64_u64, 1 << 20)? << 20;
        let cache = options.number("cache_mb", 1_u64, 1 << 20)? << 20;
        let python = python::python(options)?;
        let settings = [
            format!("max_server_memory_usage={memory}"),
            format!("mark_cache_size={cache}"),
            format!("primary_index_cache_size={cache}"),
        ];
        let node = |place: Place| {
            let front = site.run.join(format!("{}.py", place.name));
            let database = format!("{}?{}", place.data.join("store").display(), settings.join("&"));
            let arguments = [front.display().to_string(), place.port.to_string(), database];
            let mut configuration = settings.to_vec();
            configuration.push("one query at a time".to_owned());
            let launch = Launch::new(&python, arguments)
                .variable("PYTHONPATH", software(site, options).display().to_string());
            let files = vec![(front, FRONT.to_owned())];
            Node { files, ..place.node(launch, configuration) }
        };
        Ok(places.map(node).collect())
    }
}

fn software(site: &Site, options: &Options) -> PathBuf {
    site.software.join(options.text("version"))
}
