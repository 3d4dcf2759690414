#!/usr/bin/env bash
# Compares the answers of Loginson with those of a real VictoriaLogs, which is built from its Go module once.
# VICTORIALOGS_BIN names one that is there already; arguments go to test-victorialogs.py.
set -euo pipefail

VERSION=v1.52.1
: "${LOGINSON_BIN:?the binary to test}"
CACHE=${XDG_CACHE_HOME:-$HOME/.cache}/loginson/victorialogs-$VERSION
export PATH=$PATH:/usr/local/go/bin

build() {
  command -v go >/dev/null || {
    echo "test-victorialogs: Go is needed to build VictoriaLogs; install it, or name a binary by VICTORIALOGS_BIN=" >&2
    exit 1
  }
  mkdir -p "$CACHE/part"
  GOBIN=$CACHE/part GOFLAGS=-mod=mod go install "github.com/VictoriaMetrics/VictoriaLogs/app/victoria-logs@$VERSION"
  mv "$CACHE/part/victoria-logs" "$CACHE/victoria-logs"
}

export VICTORIALOGS_BIN=${VICTORIALOGS_BIN:-$CACHE/victoria-logs}
[ -x "$VICTORIALOGS_BIN" ] || build
exec python3 "$(dirname "$0")/test-victorialogs.py" "$@"
