//! Dependencies between the crates point one way, as ARCHITECTURE.md draws them.

use std::path::Path;
use std::process::Command;

use anyhow::Context;
use serde_json::Value;

/// The crate that every other one may use.
const BELOW_ALL: &str = "text";
/// The crate that uses none of the others: it measures our store like every other store.
const APART: &str = "lab";

/// Each crate, and the crates of the project that it may use besides [`BELOW_ALL`].
const ALLOWED: [(&str, &[&str]); 21] = [
    (BELOW_ALL, &[]),
    ("record", &[]),
    ("platform", &[]),
    ("segment", &["record", "platform"]),
    ("store", &["record", "platform", "segment"]),
    ("collector", &["record", "platform", "segment"]),
    ("cluster", &["record", "platform"]),
    ("analysis", &[]),
    ("query", &["record", "platform", "analysis"]),
    ("elastic", &["query", "record"]),
    ("logql", &["query", "record", "analysis"]),
    ("programs", &["record"]),
    // Sinks know documents and cursors alone; `node` makes them from rows and lines.
    ("sinks", &["platform", "cluster"]),
    // Alerts know rows and states alone; `node` runs the queries and stores what they make.
    ("alerts", &["sinks", "cluster"]),
    ("generator", &["record", "platform"]),
    // It measures parts by themselves, so it knows most of them.
    (
        "bench",
        &[
            "record",
            "platform",
            "segment",
            "store",
            "collector",
            "analysis",
            "query",
            "programs",
            "cluster",
            "node",
            "api",
        ],
    ),
    ("instructions", &["record", "platform", "segment", "query"]),
    (APART, &[]),
    (
        "node",
        &[
            "record",
            "platform",
            "segment",
            "store",
            "collector",
            "cluster",
            "analysis",
            "query",
            "programs",
            "sinks",
            "alerts",
        ],
    ),
    (
        "api",
        &[
            "record",
            "platform",
            "store",
            "collector",
            "cluster",
            "query",
            "elastic",
            "logql",
            "programs",
            "sinks",
            "alerts",
            "node",
        ],
    ),
    (
        "loginson",
        &[
            "record",
            "platform",
            "segment",
            "store",
            "collector",
            "cluster",
            "query",
            "programs",
            "sinks",
            "alerts",
            "generator",
            "node",
            "api",
        ],
    ),
];

/// Dependencies between crates of the project that are not in [`ALLOWED`]. Dependencies of tests
/// count: a test that needs more is in the wrong crate.
pub fn faults(root: &Path) -> anyhow::Result<Vec<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root)
        .output()?;
    anyhow::ensure!(output.status.success(), "cargo metadata failed");
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().context("packages")?;
    let mut faults = check(&edges(packages));
    faults.extend(table_faults(&std::fs::read_to_string(root.join("ARCHITECTURE.md"))?));
    Ok(faults)
}

/// Rows of the table of crates in ARCHITECTURE.md that differ from [`ALLOWED`].
fn table_faults(page: &str) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, uses) in ALLOWED {
        let start = format!("| `{name}` |");
        let row = page.lines().find(|line| line.starts_with(&start));
        let stated = row.and_then(|row| row.trim_end_matches([' ', '|']).rsplit('|').next());
        let mut stated: Vec<&str> = stated.unwrap_or_default().trim().split(", ").collect();
        let mut expected = uses.to_vec();
        if uses.is_empty() {
            expected = vec!["\u{2013}"];
        } else if ALLOWED.len() == uses.len() + 4 {
            expected = vec!["all but bench and lab"];
        }
        stated.sort_unstable();
        expected.sort_unstable();
        if stated != expected {
            let expected = expected.join(", ");
            faults.push(format!("ARCHITECTURE.md: crate {name} may use: {expected}; see edges.rs"));
        }
    }
    faults
}

/// Pairs of (user, used crate), by the names of their folders.
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
        (used == BELOW_ALL && user != APART)
            || ALLOWED.iter().any(|(name, uses)| *name == user && uses.contains(&used))
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
        assert_eq!(check(&[edge("node", "store"), edge("store", "segment")]), Vec::<String>::new());
        assert_eq!(check(&[edge("collector", "store")]).len(), 1);
        assert_eq!(check(&[edge("record", "platform")]).len(), 1);
        assert_eq!(check(&[edge("record", "text")]).len(), 0);
        assert_eq!(check(&[edge("lab", "text"), edge("text", "record")]).len(), 2);
    }

    #[test]
    fn a_wrong_row_of_the_table_is_found() {
        let page =
            "| `query` | LogsQL | record, platform, analysis |\n| `store` | writer | record |\n";
        let faults = table_faults(page);
        assert_eq!(faults.len(), ALLOWED.len() - 1, "{faults:?}");
        assert!(faults.iter().any(|fault| fault.contains("crate store may use")), "{faults:?}");
    }
}
