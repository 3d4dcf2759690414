//! Dependencies between the crates point one way, as ARCHITECTURE.md draws them.

use std::path::Path;
use std::process::Command;

use anyhow::Context;
use serde_json::Value;

/// Each crate and those of the project's crates that it may use.
const ALLOWED: [(&str, &[&str]); 10] = [
    ("record", &[]),
    ("platform", &[]),
    ("segment", &["record", "platform"]),
    ("store", &["record", "platform", "segment"]),
    ("collector", &["record", "platform", "segment"]),
    ("query", &["record", "platform"]),
    ("logql", &["query", "record"]),
    ("summary", &["record"]),
    // Our own store is driven over the network like every other.
    ("lab", &[]),
    (
        "server",
        &["record", "platform", "segment", "store", "collector", "query", "logql", "summary"],
    ),
];

/// Every dependency between crates of the project that [`ALLOWED`] does not name. Dependencies of tests count:
/// a test that needs more sits in the wrong crate.
pub fn faults(root: &Path) -> anyhow::Result<Vec<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root)
        .output()?;
    anyhow::ensure!(output.status.success(), "cargo metadata failed");
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().context("packages")?;
    Ok(check(&edges(packages)))
}

/// Pairs of (user, used), by the names of their folders.
fn edges(packages: &[Value]) -> Vec<(String, String)> {
    let folder = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
    let mut edges = Vec::new();
    for package in packages {
        let manifest = package["manifest_path"].as_str().unwrap_or_default();
        let user = folder(manifest.trim_end_matches("/Cargo.toml"));
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            if let Some(path) = dependency["path"].as_str() {
                edges.push((user.clone(), folder(path)));
            }
        }
    }
    edges
}

fn check(edges: &[(String, String)]) -> Vec<String> {
    let allowed = |user: &str, used: &str| {
        ALLOWED.iter().any(|(name, uses)| *name == user && uses.contains(&used))
    };
    edges
        .iter()
        .filter(|(user, used)| !allowed(user, used))
        .map(|(user, used)| {
            format!("crate {user} must not use {used}; see ARCHITECTURE.md, or change the rule in xtask/src/edges.rs with a reason")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_forbidden_edge_is_found() {
        let edge = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(
            check(&[edge("server", "store"), edge("store", "segment")]),
            Vec::<String>::new()
        );
        assert_eq!(check(&[edge("collector", "store")]).len(), 1);
        assert_eq!(check(&[edge("record", "platform")]).len(), 1);
    }
}
