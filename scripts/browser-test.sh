#!/usr/bin/env bash
# The page in a real browser: two workers, each with its own servers and headless Chromium, as web/e2e/servers.ts starts
# them. Arguments go to Playwright: scripts/browser-test.sh login
set -euo pipefail
cd "$(dirname "$0")/.."
: "${LOGINSON_BIN:?run this by: make browser}"
tests=$(mktemp)
trap 'rm -f "$tests"' EXIT

if ! npx --prefix web playwright test --config web/playwright.config.ts "$@" | tee "$tests"; then
  # What failed comes last, because it is what one looks for.
  tail -n 30 web/test-results/*.log "$tests"
  exit 1
fi
