#!/usr/bin/env bash
# The release binary as users get it: small, with the page, without paths of the machine that built it, with names for backtraces.
set -euo pipefail
bin=${LOGINSON_BIN:?run this by: make test-binary}
fail() {
  echo "$bin: $*" >&2
  exit 1
}

bytes=$(stat -c %s "$bin")
bytes_max=$((40 << 20))
[ "$bytes" -le "$bytes_max" ] || fail "$bytes bytes, more than $bytes_max; is debug info in it?"
for path in "${CARGO_HOME:-$HOME/.cargo}" "$HOME/"; do
  # A home that is / would match everything.
  [ "$path" = // ] && continue
  found=$(grep -aoF -m1 "$path" "$bin" | head -n 1 || true)
  [ -z "$found" ] || fail "it holds paths below $path: $(grep -aoE "$path[[:graph:]]{0,120}" "$bin" | head -n 3)"
done
grep -aqF '<div id="app">' "$bin" || fail "the page is not in it"
grep -aqF 'loginson4main' "$bin" || grep -aqE '8loginson[0-9A-Za-z_]*4main' "$bin" || fail "it has no names of functions: backtraces say nothing"
echo "The binary is right: $((bytes >> 20)) MiB, with its page, without paths of this machine."
