#!/usr/bin/env bash
# Compares the answers of Loginson with those of a real VictoriaLogs (build-victorialogs.sh).
# VICTORIALOGS_BIN names one that is there already; arguments go to test-victorialogs.py.
set -euo pipefail

: "${LOGINSON_BIN:?the binary to test}"
VICTORIALOGS_BIN=$("$(dirname "$0")/build-victorialogs.sh")
export VICTORIALOGS_BIN
exec python3 "$(dirname "$0")/test-victorialogs.py" "$@"
