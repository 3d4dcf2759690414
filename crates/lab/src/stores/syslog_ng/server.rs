//! syslog-ng, as Debian packages it: it takes lines over TCP and writes them into a file. Nothing
//! is done with a line, and senders wait when it cannot write. Its package excludes that of
//! rsyslog, so it is unpacked and not installed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;

use crate::driver::collector;
use crate::driver::{Driver, Open, OpenError, StoreSpec};
use crate::options::{Known, Options, port};
use crate::servers::{Launch, Node, Say, Server, ServerError, Site, collectors, debian};

const PACKAGE: &str = "syslog-ng-core";

/// Connections at most; each has a window of this many lines.
const CONNECTIONS_MAX: u32 = 64;
const WINDOW_LINES: u32 = 2_000;

pub(crate) fn open(spec: &StoreSpec) -> Result<Arc<dyn Driver>, OpenError> {
    collector::open(spec, &["syslog-ng 3.38."])
}

pub(crate) struct SyslogNg;

#[async_trait]
impl Server for SyslogNg {
    fn name(&self) -> &'static str {
        "syslog-ng"
    }

    fn options(&self) -> &'static [Known] {
        const {
            &[
                port("19644"),
                Known { name: "batch", default: "1000", help: "lines that are written at once" },
            ]
        }
    }

    fn install(&self, site: &Site, _: &Options, say: &Say) -> Result<(), ServerError> {
        debian::unpack_once(site, &root(site), PACKAGE, say)
    }

    fn nodes(&self, site: &Site, options: &Options, nodes: u32) -> Result<Vec<Node>, ServerError> {
        let batch = options.number("batch", 1, 100_000)?;
        let root = root(site);
        let libraries = libraries(&root);
        let library_path: Vec<String> =
            libraries.iter().map(|path| path.display().to_string()).collect();
        let modules = modules(&root).unwrap_or_else(|| root.join("usr/lib/syslog-ng"));
        let settings = |port: u16, data: &Path| {
            vec![
                "@version: 3.38".to_owned(),
                format!(
                    "options {{ stats-freq(0); use-dns(no); log-msg-size(16384); flush-lines({batch}); }};"
                ),
                format!(
                    "source lines {{ network(ip(\"127.0.0.1\") port({port}) transport(\"tcp\") flags(no-parse) \
                     max-connections({CONNECTIONS_MAX}) log-iw-size({}) log-fetch-limit({batch})); }};",
                    CONNECTIONS_MAX * WINDOW_LINES
                ),
                format!(
                    "destination file {{ file(\"{}\" template(\"$MSG\\n\") log-fifo-size({})); }};",
                    collectors::output(data).join("lines").display(),
                    2 * CONNECTIONS_MAX * WINDOW_LINES
                ),
                "log { source(lines); destination(file); flags(flow-control); };".to_owned(),
            ]
        };
        let launch = |data: &Path, file: &Path| {
            let own = |name: &str| data.join(name).display().to_string();
            let arguments = [
                "--foreground".to_owned(),
                "--no-caps".to_owned(),
                format!("--cfgfile={}", file.display()),
                format!("--persist-file={}", own("persist")),
                format!("--pidfile={}", own("pid")),
                format!("--control={}", own("ctl")),
                format!("--module-path={}", modules.display()),
            ];
            Launch::new(root.join("usr/sbin/syslog-ng"), arguments)
                .variable("LD_LIBRARY_PATH", library_path.join(":"))
        };
        collectors::nodes("syslogng", site, options, nodes, settings, launch)
    }

    fn prepare(&self, _: &Site, node: &Node) -> Result<(), ServerError> {
        collectors::prepare(node)
    }

    async fn answers(&self, _: Open, node: &Node, _: &[Node]) -> Result<(), String> {
        collectors::answers(node).await
    }

    fn driver_options(&self, nodes: &[Node]) -> Vec<(&'static str, String)> {
        collectors::driver_options(nodes, &["--version"])
    }
}

/// The directory in which its packages are unpacked.
fn root(site: &Site) -> PathBuf {
    site.software.join("root")
}

/// The directory of its modules, which has its version in its name.
fn modules(root: &Path) -> Option<PathBuf> {
    let versions = std::fs::read_dir(root.join("usr/lib/syslog-ng")).ok()?.flatten();
    versions.map(|entry| entry.path()).find(|path| path.join("libafsocket.so").exists())
}

/// The directories of libraries below it: those of each kind of machine, and the ones above them.
/// Some packages have their libraries in `/lib`. On an installed system that is a link to
/// `/usr/lib`, but in a directory of unpacked packages it is not.
fn libraries(root: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for usual in ["usr/lib", "lib"].map(|name| root.join(name)).into_iter().filter(|p| p.is_dir()) {
        let entries = std::fs::read_dir(&usual).into_iter().flatten().flatten();
        let mut below: Vec<PathBuf> =
            entries.map(|entry| entry.path()).filter(|p| p.is_dir()).collect();
        below.sort();
        all.append(&mut below);
        all.push(usual);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_found_wherever_a_package_has_them() {
        let root = tempfile::tempdir().unwrap();
        let names = ["usr/lib/x86_64-linux-gnu", "usr/lib", "lib/x86_64-linux-gnu", "lib"];
        names.iter().for_each(|name| std::fs::create_dir_all(root.path().join(name)).unwrap());
        assert_eq!(libraries(root.path()), names.map(|name| root.path().join(name)));
        assert_eq!(libraries(&root.path().join("none")), [] as [PathBuf; 0]);
    }
}
