//! What the servers of collectors have in common: see [`crate::driver::collector`].

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Launch, Node, Place, ServerError, Site, io, places};
use crate::driver::collector;
use crate::options::Options;

/// The nodes of a collector. `settings` makes the lines of a node's
/// configuration from its port and its directory of data, and `launch` its command from that
/// directory and the file with those lines.
pub(crate) fn nodes(
    name: &str,
    site: &Site,
    options: &Options,
    nodes: u32,
    settings: impl Fn(u16, &Path) -> Vec<String>,
    launch: impl Fn(&Path, &Path) -> Launch,
) -> Result<Vec<Node>, ServerError> {
    let node = |place: Place| {
        let file = site.run.join(format!("{}.conf", place.name));
        let settings = settings(place.port, &place.data);
        let files = vec![(file.clone(), settings.join("\n") + "\n")];
        let launch = launch(&place.data, &file);
        Node { files, ..place.node(launch, settings) }
    };
    Ok(places(name, site, options, nodes, &[])?.map(node).collect())
}

/// The directory of the output of a node with this directory of data.
pub(crate) fn output(data: &Path) -> PathBuf {
    data.join("output")
}

/// Creates it.
pub(crate) fn prepare(node: &Node) -> Result<(), ServerError> {
    let output = output(&node.data);
    std::fs::create_dir_all(&output).map_err(io(&output))
}

/// A collector has no other answer than taking a connection.
pub(crate) async fn answers(node: &Node) -> Result<(), String> {
    let connected = tokio::net::TcpStream::connect(&node.endpoint).await;
    connected.map(|_| ()).map_err(|e| e.to_string())
}

/// The options of the driver, with the version that the program prints with `arguments`.
pub(crate) fn driver_options(nodes: &[Node], arguments: &[&str]) -> Vec<(&'static str, String)> {
    let Some(first) = nodes.first() else { return Vec::new() };
    let mut command = Command::new(&first.launch.program);
    command.args(arguments);
    command.envs(first.launch.environment.iter().map(|(name, value)| (name, value)));
    let printed = command.output().map(|output| output.stdout).unwrap_or_default();
    options_with(nodes, version(&String::from_utf8_lossy(&printed)))
}

/// Like [`driver_options`], for a known version.
pub(crate) fn options_with(nodes: &[Node], version: String) -> Vec<(&'static str, String)> {
    let output: Vec<PathBuf> = nodes.iter().map(|node| output(&node.data)).collect();
    collector::options_for(&output, version)
}

/// The name and the version in what programs print: `rsyslogd  8.2302.0 (aka 2023.02)`,
/// `syslog-ng 3 (3.38.1)`.
fn version(printed: &str) -> String {
    let line = printed.lines().next().unwrap_or_default();
    let name = line.split_whitespace().next().unwrap_or_default();
    let is_version =
        |word: &&str| word.contains('.') && word.starts_with(|c: char| c.is_ascii_digit());
    let mut words = line.split(|c: char| c.is_whitespace() || "()".contains(c));
    match words.find(is_version) {
        Some(number) => format!("{name} {number}"),
        None => "unknown".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_what_programs_print() {
        for (printed, expected) in [
            ("rsyslogd  8.2302.0 (aka 2023.02) compiled with:\n\tPLATFORM", "rsyslogd 8.2302.0"),
            ("syslog-ng 3 (3.38.1)\nConfig version: 3.35\n", "syslog-ng 3.38.1"),
            ("", "unknown"),
        ] {
            assert_eq!(version(printed), expected);
        }
    }
}
