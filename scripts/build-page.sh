#!/usr/bin/env bash
# Builds the page into web/dist. What was built from the same sources before is taken as it is, with its times, so
# that the binary which holds it is not built again either.
set -euo pipefail
cd "$(dirname "$0")/.."
kept=${CARGO_TARGET_DIR:?where cargo builds}/page
sources=$(cd web && find . -type f -not -path './node_modules/*' -not -path './dist/*' -not -path './test-results/*' \
  -not -path './e2e/*' -print0 | LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum)
if [ "$(cat "$kept/sources" 2>/dev/null)" = "$sources" ] && [ -e "$kept/dist/index.html" ]; then
  rm -rf web/dist
  cp -a "$kept/dist" web/dist
  exit
fi
npm --prefix web run build
rm -rf "$kept"
mkdir -p "$kept"
cp -a web/dist "$kept/dist"
echo "$sources" >"$kept/sources"
