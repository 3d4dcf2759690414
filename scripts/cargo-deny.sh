#!/usr/bin/env bash
# Runs cargo-deny, building it first where it is missing. Pinned: its configuration format changes.
set -euo pipefail
version=0.20.2
if ! cargo deny --version 2>/dev/null | grep -qF "$version"; then
  echo "Building cargo-deny $version once (a minute or two)"
  # Unoptimised: it runs for seconds.
  cargo install --quiet --locked --debug --no-default-features "cargo-deny@$version"
fi
# `cargo deny` looks at the crates of every platform, and builds have downloaded those of this one alone.
cargo fetch --quiet --locked
exec cargo deny --locked --offline "$@"
