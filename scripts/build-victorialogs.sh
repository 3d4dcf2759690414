#!/usr/bin/env bash
# Prints the path of the VictoriaLogs that tests and benchmarks use, and builds it from its Go module the first time.
# VICTORIALOGS_BIN names one that is there already.
set -euo pipefail

VERSION=v1.52.2
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/loginson/victorialogs-$VERSION
export PATH=$PATH:/usr/local/go/bin

build() {
  command -v go >/dev/null || {
    echo "build-victorialogs: Go is needed to build VictoriaLogs; install it, or name a binary by VICTORIALOGS_BIN=" >&2
    exit 1
  }
  mkdir -p "$CACHE/part"
  GOBIN=$CACHE/part GOFLAGS=-mod=mod go install "github.com/VictoriaMetrics/VictoriaLogs/app/victoria-logs@$VERSION" >&2
  mv "$CACHE/part/victoria-logs" "$CACHE/victoria-logs"
}

binary=${VICTORIALOGS_BIN:-$CACHE/victoria-logs}
[ -x "$binary" ] || build
echo "$binary"
