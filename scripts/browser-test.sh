#!/usr/bin/env bash
# The tour in a real browser: a server on free ports with generated history, and headless Chromium.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${LOGINSON_BIN:?run this by: make browser}
dir=$(mktemp -d)
server=
generator=
cleanup() {
  status=$?
  kill $generator $server 2>/dev/null || true
  wait 2>/dev/null || true
  if [ $status != 0 ]; then tail -n 30 "$dir"/*.log; fi
  rm -rf "$dir"
}
trap cleanup EXIT

"$bin" serve --data-dir "$dir/data" --http-listen 127.0.0.1:0 --syslog-tcp-listen 127.0.0.1:0 \
  --syslog-udp-listen 127.0.0.1:0 --ready-file "$dir/ready.json" >"$dir/server.log" 2>&1 &
server=$!
for _ in $(seq 300); do
  [ -s "$dir/ready.json" ] && break
  kill -0 $server || exit 1
  sleep 0.1
done
address() { node -p "JSON.parse(require('fs').readFileSync('$dir/ready.json')).$1"; }
"$bin" generate --to "tcp://$(address syslog_tcp)" --rate 200 --backfill 1h --incident demo --seed 1 \
  >"$dir/generator.log" 2>&1 &
generator=$!

LOGINSON_URL="http://$(address http)" npx --prefix web playwright test --config web/playwright.config.ts
