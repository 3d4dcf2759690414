#!/usr/bin/env bash
# The tour in a real browser: a server on free ports with generated history, a second one with users and HTTPS for the
# login, and headless Chromium. Arguments go to Playwright: scripts/browser-test.sh login
set -euo pipefail
cd "$(dirname "$0")/.."
bin=${LOGINSON_BIN:?run this by: make browser}
dir=$(mktemp -d)
server=
secured=
generator=
cleanup() {
  status=$?
  kill $generator $server $secured 2>/dev/null || true
  wait 2>/dev/null || true
  # What failed comes last, because it is what one looks for.
  if [ $status != 0 ]; then tail -n 30 "$dir"/*.log "$dir/tests.txt"; fi
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

password="correct horse battery"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -days 2 -subj /CN=localhost \
  -keyout "$dir/key.pem" -out "$dir/certificate.pem" -addext subjectAltName=IP:127.0.0.1 \
  -addext basicConstraints=critical,CA:FALSE 2>/dev/null
{
  printf '[http_tls]\ncertificate = "%s"\nkey = "%s"\n' "$dir/certificate.pem" "$dir/key.pem"
  for user in ann:operate rob:read ship:ingest; do
    hash=$(printf '%s\n' "$password" | "$bin" hash-password)
    printf '[[users]]\nname = "%s"\nrole = "%s"\npassword_hash = "%s"\n' "${user%:*}" "${user#*:}" "$hash"
  done
} >"$dir/secured.toml"
"$bin" serve --config "$dir/secured.toml" --data-dir "$dir/secured" --http-listen 127.0.0.1:0 --syslog-tcp-listen off \
  --syslog-udp-listen off --ready-file "$dir/secured.json" >"$dir/secured.log" 2>&1 &
secured=$!
for _ in $(seq 300); do
  [ -s "$dir/secured.json" ] && break
  kill -0 $secured || exit 1
  sleep 0.1
done

LOGINSON_URL="http://$(address http)" LOGINSON_LOGIN_PASSWORD="$password" \
  LOGINSON_LOGIN_URL="https://$(node -p "JSON.parse(require('fs').readFileSync('$dir/secured.json')).http")" \
  npx --prefix web playwright test --config web/playwright.config.ts "$@" | tee "$dir/tests.txt"
