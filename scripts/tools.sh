#!/usr/bin/env bash
# Says what is missing to build Loginson, and how to get it.
set -euo pipefail

missing=()
command -v cargo >/dev/null || missing+=("Rust: see https://rustup.rs")
command -v cc >/dev/null || missing+=("a C compiler and linker: apt-get install build-essential")
if command -v node >/dev/null; then
  major=$(node -p 'process.versions.node.split(".")[0]')
  [ "$major" -ge 20 ] || missing+=("Node 20 or newer (found $major): see https://nodejs.org")
else
  missing+=("Node 20 or newer: see https://nodejs.org")
fi
command -v npm >/dev/null || missing+=("npm: it comes with Node")

if [ ${#missing[@]} -gt 0 ]; then
  echo "To build Loginson, first install:" >&2
  printf '  - %s\n' "${missing[@]}" >&2
  exit 1
fi
