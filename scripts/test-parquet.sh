#!/usr/bin/env bash
# Exports Parquet from a real server and reads it with DuckDB, pandas and pyarrow, which scripts/test-deps.sh installs
# into a directory of their own.
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${LOGINSON_BIN:?run this by: scripts/test.py --only parquet}
venv=${LOGINSON_PARQUET_VENV:-$HOME/.cache/loginson/parquet-venv}
dir=$(mktemp -d)
server=
cleanup() {
  status=$?
  kill $server 2>/dev/null || true
  wait 2>/dev/null || true
  if [ $status != 0 ]; then tail -n 30 "$dir/server.log"; fi
  rm -rf "$dir"
}
trap cleanup EXIT

"$bin" serve --data-dir "$dir/data" --http-listen 127.0.0.1:0 --syslog-tcp-listen off --syslog-udp-listen off \
  --ready-file "$dir/ready.json" >"$dir/server.log" 2>&1 &
server=$!
for _ in $(seq 300); do
  [ -s "$dir/ready.json" ] && break
  kill -0 $server || exit 1
  sleep 0.1
done
"$venv/bin/python" scripts/test-parquet.py "$dir/ready.json"
