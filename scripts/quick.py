#!/usr/bin/env python3
"""What `make quick` runs: formatting, lints, and the unit tests of the crates that differ from BASE (main).

Nothing is installed, and nothing but the workspace is built. Crates that use a changed crate are built, but only the
tests of the changed ones run; `make test` runs all of them.
"""

import json
import os
import subprocess
import sys
import time

CARGO = ["--locked", "--workspace", "--features", "loginson-lab/real-servers,loginson/real-servers,loginson-engines/real-servers,loginson-sinks/real-kafka"]


def run(*command, **options):
    print("+", " ".join(command), flush=True)
    begun = time.monotonic()
    done = subprocess.run(command, **options)
    if done.returncode != 0:
        sys.exit(done.returncode)
    print(f"  {time.monotonic() - begun:.0f} s", flush=True)
    return done


def changed_paths(base):
    """Paths that differ from where this branch left BASE, with those that are not committed yet."""
    found = subprocess.run(["git", "merge-base", "HEAD", base], capture_output=True, text=True)
    since = found.stdout.strip() or "HEAD"
    if since == subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True).stdout.strip():
        # On BASE itself: the last commit, and what is not committed.
        since = "HEAD~1"
    paths = subprocess.run(["git", "diff", "--name-only", since, "--"], capture_output=True, text=True, check=True).stdout
    new = subprocess.run(["git", "ls-files", "--others", "--exclude-standard"], capture_output=True, text=True, check=True)
    return (paths + new.stdout).split("\n")


def main():
    os.chdir(os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    paths = changed_paths(os.environ.get("BASE", "main"))
    crates = {path.split("/")[1] for path in paths if path.startswith("crates/")}
    crates |= {"xtask"}
    run("cargo", "fmt", "--all", "--check")
    if any(path.startswith("web/") for path in paths) and os.path.isdir("web/node_modules"):
        run("npm", "--prefix", "web", "run", "check")
        run("npm", "--prefix", "web", "run", "test")
    run("cargo", "clippy", "--all-targets", *CARGO, "--", "-D", "warnings")
    built = run(
        "cargo", "test", "--lib", "--bins", *CARGO, "--no-run", "--message-format=json-render-diagnostics",
        stdout=subprocess.PIPE, text=True,
    )
    for line in built.stdout.splitlines():
        message = json.loads(line)
        executable = message.get("executable")
        if not executable or not message.get("profile", {}).get("test"):
            continue
        directory = os.path.dirname(message["manifest_path"])
        if os.path.basename(directory) in crates:
            environment = {**os.environ, "CARGO_MANIFEST_DIR": directory}
            run(executable, "--quiet", cwd=directory, env=environment)
    print("Quick checks passed; `make test` runs all of them.")


if __name__ == "__main__":
    main()
