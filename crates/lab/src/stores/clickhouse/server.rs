//! The ClickHouse server of the system's package, which on Debian 12 is a release of 2018. Several
//! nodes are independent servers: the driver's shards.

use std::net::Ipv4Addr;

use async_trait::async_trait;

use crate::options::{Known, Options, known, port};
use crate::servers::{Launch, Node, Place, Say, Server, ServerError, Site, debian, places};

pub(crate) struct ClickHouse;

#[async_trait]
impl Server for ClickHouse {
    fn name(&self) -> &'static str {
        "clickhouse"
    }

    fn options(&self) -> &'static [Known] {
        const {
            &[
                port("18123"),
                Known { name: "memory_mb", default: "1024", help: "limit of all queries, MiB" },
                Known {
                    name: "cache_mb",
                    default: "256",
                    help: "limit of its cache of marks, MiB",
                },
                known("max_connections", "250", "connections of all generators together"),
            ]
        }
    }

    fn install(&self, site: &Site, _: &Options, say: &Say) -> Result<(), ServerError> {
        match debian::program("clickhouse-server") {
            Some(_) => Ok(()),
            None => debian::install(site, &["clickhouse-server"], say),
        }
    }

    fn nodes(&self, site: &Site, options: &Options, nodes: u32) -> Result<Vec<Node>, ServerError> {
        let places = places("clickhouse", site, options, nodes, &[])?;
        let memory = options.number("memory_mb", 64_u64, 1 << 20)? << 20;
        let cache = options.number("cache_mb", 1_u64, 1 << 20)? << 20;
        let connections = options.number("max_connections", 1_u32, 10_000)?;
        let program = debian::program("clickhouse-server");
        let program = program.unwrap_or_else(|| "clickhouse-server".into());
        let limits = [
            element("max_memory_usage", memory),
            element("max_memory_usage_for_all_queries", memory),
        ];
        let settings = [
            element("mark_cache_size", cache),
            element("max_concurrent_queries", connections),
            element("max_connections", connections),
        ];
        let node = |place: Place| {
            let conf = place.data.join("conf");
            let path = format!("{}/", place.data.join("store").display());
            let mut elements = vec![
                "<logger><level>warning</level><console>1</console></logger>".to_owned(),
                element("listen_host", Ipv4Addr::LOCALHOST),
                element("http_port", place.port),
                element("path", &path),
                element("tmp_path", format!("{path}tmp/")),
                element("users_config", conf.join("users.xml").display()),
                element("default_profile", "default"),
                element("default_database", "default"),
                element("timezone", "UTC"),
                // More than the pauses of a study, after which connections are used again.
                element("keep_alive_timeout", 600),
            ];
            elements.extend(settings.clone());
            let config = conf.join("config.xml");
            let arguments = [format!("--config-file={}", config.display())];
            let set = limits.iter().chain(&settings).cloned().collect();
            let users = (conf.join("users.xml"), users(&limits));
            let files = vec![(config, document(&elements)), users];
            Node { files, ..place.node(Launch::new(&program, arguments), set) }
        };
        Ok(places.map(node).collect())
    }
}

fn element(name: &str, value: impl std::fmt::Display) -> String {
    let value = value.to_string().replace('&', "&amp;").replace('<', "&lt;");
    format!("<{name}>{value}</{name}>")
}

fn document(elements: &[String]) -> String {
    format!("<yandex>\n{}\n</yandex>\n", elements.join("\n"))
}

/// One user, without a password, from this machine only.
fn users(limits: &[String]) -> String {
    let user = "<password></password><networks><ip>127.0.0.1</ip></networks>\
                <profile>default</profile><quota>default</quota>";
    document(&[
        format!("<profiles><default>{}</default></profiles>", limits.join("")),
        format!("<users><default>{user}</default></users>"),
        "<quotas><default></default></quotas>".to_owned(),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_text_in_xml() {
        assert_eq!(element("path", "/a&b<c>/"), "<path>/a&amp;b&lt;c>/</path>");
    }
}
