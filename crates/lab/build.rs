//! Puts the commit into the program, for reports: a number without its version cannot be repeated.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src");
    println!("cargo::rerun-if-changed=studies");
    // The head of this checkout, which is elsewhere in a linked worktree.
    for path in ["HEAD", "logs/HEAD"].into_iter().filter_map(|name| git(&["--git-path", name])) {
        println!("cargo::rerun-if-changed={path}");
    }
    println!("cargo::rustc-env=LOGINSON_LAB_COMMIT={}", commit().unwrap_or_default());
}

/// The commit, with `+` if the lab's sources differ from it; `None` outside of a checkout.
fn commit() -> Option<String> {
    let commit = git(&["--short=12", "HEAD"])?;
    let clean = Command::new("git").args(["diff", "--quiet", "HEAD", "--", "."]).status().ok()?;
    Some(if clean.success() { commit } else { commit + "+" })
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").arg("rev-parse").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}
