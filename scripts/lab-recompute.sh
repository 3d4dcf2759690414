#!/bin/sh
# Recomputes the figures of the lab's reports with SciPy: of simulated runs as a test, or of the runs
# whose directories are the arguments, with the files of `loginson-lab report --full`.
set -eu
cd "$(dirname "$0")/.."
venv=${LOGINSON_SCIPY_VENV:-$HOME/.cache/loginson/scipy-venv}
if ! "$venv/bin/python" -c 'import scipy' 2>/dev/null; then
  mkdir -p "$(dirname "$venv")"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check scipy
fi
if [ $# -gt 0 ]; then
  for run in "$@"; do "$venv/bin/python" crates/lab/tests/recompute/recompute.py "$run"; done
  exit
fi
LOGINSON_SCIPY_PYTHON=$venv/bin/python exec cargo test -p loginson-lab --locked --features recompute --test all report::recompute::
